/*
 * What relayer, api and a person ask, each a transaction of its own; whoever asks asks again after a crash.
 */
#include "tests/sim/run.h"

#include <stdio.h>

struct call {
	struct run *r;
	const struct item *it;
	enum err err;
	struct request_done done;
};

static const char *id_of(int64_t number, char out[8])
{
	snprintf(out, 8, "i%d", (int)number);
	return out;
}

static enum err move(struct kv_txn *t, struct call *c, enum intent_state to, enum actor actor, const char *code,
		     const struct hash32 *tx)
{
	char id[8];
	struct desk_move m = { .intent = id_of(c->it->arg[0], id), .current = true,
			       .request = { .to = to, .actor = actor, .has_tx = tx != NULL, .has_reason = code != NULL } };
	struct move_result result;
	struct complaint why;
	enum err err;

	if (tx)
		m.request.tx_hash = *tx;
	if (code)
		snprintf(m.request.reason.code, sizeof(m.request.reason.code), "%s", code);
	err = desk_move(t, &m, START_MS + c->r->world.now_ms, &result, &why);
	c->done.outcome = result.outcome;
	return err;
}

static enum err open_intent(struct kv_txn *t, struct call *c)
{
	enum err err = move(t, c, INTENT_AUTHORIZED, ACTOR_API, NULL, NULL);

	return err ? err : move(t, c, INTENT_SETTLING, ACTOR_RELAYER, NULL, NULL);
}

static enum err create(struct kv_txn *t, struct call *c)
{
	const int64_t *arg = c->it->arg;
	struct intent i = {
		.merchant_id = "m",
		.chain_id = CHAIN_ID,
		.token = tree_contract((int)arg[2]),
		.amount = u256_from_u64((uint64_t)arg[5]),
		.payee = tree_account((int)arg[3]),
		.has_payer = arg[4] >= 0,
		.watch = arg[1] ? WATCH_ROUTE : WATCH_TX,
		.has_expiry = arg[6] >= 0,
		.expires_at_ms = START_MS + arg[6],
	};
	struct complaint why;
	bool created;
	char id[8];
	enum err err;

	if (i.has_payer)
		i.payer = tree_account((int)arg[4]);
	snprintf(i.id, sizeof(i.id), "%s", id_of(arg[0], id));
	snprintf(i.idempotency_key, sizeof(i.idempotency_key), "%s", id);
	err = desk_create(t, &c->r->config, &i, START_MS + c->r->world.now_ms, &created, &why);
	if (err || !arg[7] || i.state != INTENT_CREATED)
		return err;
	return open_intent(t, c);
}

static enum err attempt(struct kv_txn *t, struct call *c)
{
	char id[8];
	struct desk_attempt a = { .intent = id_of(c->it->arg[0], id) };
	struct complaint why;

	a.attempt.tx_hash = c->r->tree.txs[c->it->arg[1]].hash;
	return desk_attempt(t, &a, START_MS + c->r->world.now_ms, &why);
}

static enum err decide(struct kv_txn *t, struct call *c)
{
	const struct intent *i = &c->r->watch.intents[c->it->arg[0]].intent;

	c->done.settled = c->it->arg[1] != 0;
	if (i->state != INTENT_NEEDS_REVIEW || (c->done.settled && !i->has_tx))
		return E_REFUSED;
	return move(t, c, c->done.settled ? INTENT_SETTLED : INTENT_FAILED, ACTOR_OPERATOR, "decided",
		    c->done.settled ? &i->tx_hash : NULL);
}

static enum err fulfil(struct kv_txn *t, struct call *c)
{
	const int64_t *arg = c->it->arg;

	switch (c->it->kind) {
	case ITEM_INTENT:
		return create(t, c);
	case ITEM_OPEN:
		return open_intent(t, c);
	case ITEM_ATTEMPT:
		return attempt(t, c);
	case ITEM_CONFIRM:
		return move(t, c, INTENT_CONFIRMING, ACTOR_RELAYER, NULL, &c->r->tree.txs[arg[1]].hash);
	case ITEM_FAIL:
		return move(t, c, INTENT_FAILED, ACTOR_RELAYER, "gave_up", NULL);
	case ITEM_CANCEL:
		return move(t, c, INTENT_CANCELED, ACTOR_API, "not_wanted", NULL);
	case ITEM_DECIDE:
		return decide(t, c);
	default:
		return OK;
	}
}

static void call_body(struct kv_txn *t, void *ctx)
{
	struct call *c = ctx;

	c->done.outcome = MOVE_APPLIED;
	c->err = fulfil(t, c);
	if (c->err)
		kv_fail(t, c->err);
}

static void note_done(struct run *r, const struct call *c)
{
	bool names = c->it->kind == ITEM_ATTEMPT || c->it->kind == ITEM_CONFIRM;
	struct request_done *d = &r->done[r->done_count];

	if (r->done_count == REQUESTS_MAX)
		return;
	r->done_count++;
	*d = c->done;
	d->kind = c->it->kind;
	d->intent = (int)c->it->arg[0];
	d->tx = names ? (int)c->it->arg[1] : -1;
	d->commit = r->watch.commits;
	d->tip_time_s = r->watch.chain.has_tip ? r->watch.chain.tip_time_s : 0;
	r->tally[TALLY_DECIDED] += d->kind == ITEM_DECIDE && d->outcome == MOVE_APPLIED;
}

/* Whoever asks asks again after a crash, not knowing whether it was done. */
void run_ask(struct run *r, const struct item *it)
{
	struct call c = { .r = r, .it = it };
	bool again = !r->up;

	if (r->up) {
		enum err err = kv_write(r->kv, call_body, &c);

		if (err == OK)
			note_done(r, &c);
		else if (!r->dead && (err == E_CORRUPT || err == E_IO || err == E_FULL))
			violate(r, "request", "%s: %s", plan_kind_name(it->kind), err_name(err));
		if (!r->dead && err == OK)
			tracker_look_again(&r->tracker);
		again = r->dead;
	}
	if (again)
		world_again(&r->world, it, (r->up ? r->world.now_ms + r->crash_ms : r->restart_ms) + 1);
}
