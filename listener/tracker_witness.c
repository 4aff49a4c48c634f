#include "listener/tracker_parts.h"

#include "store/sightings.h"

#define LATE_ROWS 512		/* sightings looked at in a turn: later ones wait for these */

/* A balance that sightings wait for, and how the block's logs say that it moved. */
struct waiting {
	uint64_t height;
	struct u256 came, went;
	struct late_balance late;
};

static struct waiting describe(struct kv_txn *t, const struct tracker *tr, const struct sighting_at *at,
			       const struct sighting_row *s)
{
	struct waiting w = { .height = at->height, .came = s->came, .went = s->went, .late.hash = s->block_hash };
	struct witness *witness = &w.late.bw.witness;
	struct block_row b;

	if (apply_balance_of(t, at, s, &witness->token, &witness->payee) && chain_block(t, at->chain, at->height, &b))
		w.late.parent = b.parent;
	if (s->witness == WITNESS_DOUBTED) {
		w.late.bw.readings = 1;
		w.late.bw.first = *witness;
		w.late.bw.first.before = s->before;
		w.late.bw.first.after = s->after;
		/* As after a failure of the leader: another is asked, if there is one. */
		w.late.bw.before.failures = w.late.bw.after.failures = 1;
		w.late.bw.before.who = w.late.bw.after.who = tr->reads.leader;
	}
	return w;
}

static bool is_same(const struct waiting *a, const struct waiting *b)
{
	const struct witness *x = &a->late.bw.witness, *y = &b->late.bw.witness;

	return hash_eq(&a->late.hash, &b->late.hash) && address_eq(&x->token, &y->token) &&
	       address_eq(&x->payee, &y->payee);
}

static size_t list_waiting(struct kv_txn *t, const struct tracker *tr, struct waiting *out)
{
	struct sighting_at at = { .chain = tr->config->chain_id };
	size_t count = 0, rows = 0, i;
	struct sighting_row s;

	for (; rows < LATE_ROWS && count < LATE_MAX && pending_next(t, TIER_WAITS, &at); sighting_step(&at), rows++) {
		if (!sighting_get(t, &at, &s)) {
			kv_fail(t, E_CORRUPT);
			break;
		}
		out[count] = describe(t, tr, &at, &s);
		for (i = 0; i < count && !is_same(&out[i], &out[count]); i++)
			;
		count += i == count;
	}
	return count;
}

static void keep_wanted(struct tracker *tr, const struct waiting *list, size_t count)
{
	struct late_balance wanted[LATE_MAX];

	for (size_t i = 0; i < count; i++)
		wanted[i] = list[i].late;
	reads_late_keep(&tr->reads, wanted, count);
}

static bool is_given_up(const struct tracker *tr, const struct waiting *w, const struct body_witness *bw)
{
	return bw->gone || w->height + tr->config->keep_state_blocks <= tr->chain.tip_height;
}

/* False: not known yet.  What disagrees is read twice; a first reading that cannot be read again stands. */
static bool conclude(const struct tracker *tr, const struct waiting *w, struct body_witness *bw, struct late_outcome *o)
{
	const struct witness *read = bw->witness.have ? &bw->witness : &bw->first;
	bool known = bw->witness.have || bw->readings;
	bool agrees = bw->witness.have && match_balance(&read->before, &read->after, &w->came, &w->went);

	if (!agrees && !is_given_up(tr, w, bw) && !(bw->witness.have && bw->readings > 1)) {
		if (bw->witness.have)
			bodies_read_again(bw);
		return false;
	}
	*o = (struct late_outcome){
		.height = w->height,
		.block_hash = w->late.hash,
		.token = bw->witness.token,
		.payee = bw->witness.payee,
		.state = agrees ? WITNESS_AGREES : known ? WITNESS_DISAGREES : WITNESS_UNAVAILABLE,
	};
	if (known) {
		o->before = read->before;
		o->after = read->after;
	}
	return true;
}

static void outcome_body(struct kv_txn *t, struct commit *c)
{
	for (size_t i = 0; i < c->outcome_count && t->err == OK; i++)
		apply_outcome(t, &c->apply, &c->outcomes[i]);
}

static bool commit_outcomes(struct tracker *tr, const struct late_outcome *outcomes, size_t count)
{
	struct commit c = { .body = outcome_body, .outcomes = outcomes, .outcome_count = count };

	/* Crash before: the sightings wait, and the balances are read again.  After: they wait for their tiers only. */
	if (!tracker_commit(tr, &c))
		return false;
	for (size_t i = 0; i < count; i++)
		TLOG(LOG_INFO, tr, "a late balance of height=%llu is %s", , (unsigned long long)outcomes[i].height,
		     witness_name(outcomes[i].state));
	return true;
}

bool tracker_read_late(struct tracker *tr)
{
	struct waiting list[LATE_MAX];
	struct late_outcome outcomes[LATE_MAX];
	struct kv_txn t = kv_begin_read(tr->kv);
	size_t known = 0, count = list_waiting(&t, tr, list);

	if (!tracker_end_read(tr, &t))
		return false;
	keep_wanted(tr, list, count);
	for (size_t i = 0; i < count; i++)
		known += conclude(tr, &list[i], &tr->reads.late[i].bw, &outcomes[known]);
	if (known)
		return commit_outcomes(tr, outcomes, known);
	reads_late_ask(&tr->reads);
	return false;
}
