/*
 * What each intent must have become, from the last chain, the requests that were committed and the
 * order of commits: written from the design, with none of the product's matching.
 *
 * It allows several ends, and counts them as known loosely, where the design leaves the end to the order
 * in which things are heard:
 *  - two attempts of one intent are on the last chain: either may be the recorded one;
 *  - a transaction that another intent names too, which claims or holds it only for a while (under review,
 *    decided by a person, with two attempts on the chain): with and without what that one holds;
 *  - an attempt that is mined more than missing_after past its intent's confirming: or tx_missing;
 *  - an intent put into confirming by the relayer whose transaction was on a lost branch only: it is settling,
 *    or tx_missing if we never saw that branch;
 *  - a balance that contradicts the logs while an endpoint says that the state is gone, or fails so long that it is
 *    given up: the witness may not have been read;
 *  - a route's transfer in a block stamped before the intent's creation: whether it was catching up;
 *  - several transfers to a route's payee: which was final, or applied, first;
 *  - what a person had before a final block was lost;
 *  - a route's misfit on the last chain, and a fit on a lost branch: which came first when it was final;
 *  - a route's transfer that comes after the expiry on the last chain, but came before it on a lost branch.
 * Routes of one payee are judged exactly where there is one intent, or one transfer in the whole tree.
 */
#include "tests/sim/oracle.h"

#include <stdlib.h>
#include <string.h>

/* Intents of which the relayer named a transaction, or none. */

static bool may_be_missing(const struct run *r, int intent)
{
	int64_t from_s = INT64_MAX;
	bool confirmed = false;

	for (size_t i = 0; i < r->done_count; i++) {
		const struct request_done *d = &r->done[i];

		if (d->intent != intent || d->kind != ITEM_CONFIRM || d->outcome != MOVE_APPLIED)
			continue;
		confirmed = true;
		if (d->tip_time_s < from_s)
			from_s = d->tip_time_s;
	}
	for (int tx = 0; tx < TXS_MAX && confirmed; tx++) {
		int block = oracle_named_at(r, intent, tx) == SIZE_MAX ? -1 : oracle_mined(r, tx);

		if (block >= 0 && r->tree.blocks[block].time_s <= from_s + r->config.missing_after_s)
			return false;
	}
	return confirmed;
}

static void expect_named(const struct run *r, int intent, struct ends *e)
{
	bool shown = false;
	unsigned n = 0;

	for (int tx = 0; tx < TXS_MAX; tx++) {
		int block = oracle_mined(r, tx);

		if (oracle_named_at(r, intent, tx) == SIZE_MAX)
			continue;
		shown |= oracle_ever_mined(r, tx);
		/* Mined before we began to follow: too old if a node was asked and said so. */
		if (block < 0 && tree_block_of_tx(&r->tree, tree_last(&r->tree), tx, NULL) >= 0)
			ends_allow(e, INTENT_NEEDS_REVIEW, "too_old", tx);
		if (block >= 0) {
			ends_allow_tx(r, e, intent, tx, block);
			n++;
		}
	}
	if (may_be_missing(r, intent))
		ends_allow(e, INTENT_NEEDS_REVIEW, "tx_missing", -1);
	if (n == 0 && (shown || !may_be_missing(r, intent))) {
		ends_allow(e, INTENT_SETTLING, "", -1);
		if (shown)
			ends_allow(e, INTENT_SETTLING, "reorg", -1);
	}
}

/* Routes. */

/* In a block of whatever branch that is stamped at or before then, or (not @by_then) after. */
static bool stands(const struct run *r, int tx, int64_t then_ms, bool by_then)
{
	for (unsigned n = 0; n < r->tree.count; n++) {
		const struct tree_block *b = &r->tree.blocks[r->tree.ids[n]];

		for (unsigned k = 0; k < b->tx_count; k++) {
			if (b->txs[k] == tx && (b->time_s * 1000 <= then_ms) == by_then)
				return true;
		}
	}
	return false;
}

/* In time on some branch, lost or not (or, if not @in_time, too late): what fits there is taken there, and is an attempt since. */
static bool was_in_time(const struct run *r, const struct intent *i, int tx, bool in_time)
{
	return stands(r, tx, i->expires_at_ms, in_time);
}

enum fit { FIT_NOT, FIT_YES, FIT_MISSES, FIT_UNSURE };

static enum fit fit_of(const struct run *r, int intent, int tx, const struct tree_log *log, const char **code)
{
	const struct intent *i = oracle_intent(r, intent);
	int block = oracle_mined(r, tx);
	int64_t time_ms;
	uint64_t amount = oracle_small(&i->amount);

	if (block < 0 || r->tree.txs[tx].reverted || !oracle_is_in_c(i, log) ||
	    r->watch.first_applied[tx] <= r->watch.intents[intent].created_commit)
		return FIT_NOT;
	time_ms = r->tree.blocks[block].time_s * 1000;
	if (stands(r, tx, i->created_at_ms - 1, true))
		return FIT_UNSURE;
	*code = !oracle_is_in_p(i, log)	? "wrong_payer"
		: log->value == amount	? "late"
		: log->value < amount	? "underpaid"
					: "overpaid";
	if (!oracle_is_in_p(i, log) || log->value != amount || (i->has_expiry && time_ms > i->expires_at_ms))
		return FIT_MISSES;
	return FIT_YES;
}

/* Transfers of any listed token to the payee: in the whole tree, or on the last chain. */
static unsigned count_to(const struct run *r, const struct intent *i, bool last_only)
{
	unsigned n = 0;

	for (int tx = 0; tx < TXS_MAX; tx++) {
		const struct tree_tx *x = &r->tree.txs[tx];

		if (!x->used || x->reverted || (last_only ? oracle_mined(r, tx) < 0 : !oracle_ever_mined(r, tx)))
			continue;
		for (unsigned k = 0; k < x->log_count; k++)
			n += oracle_is_payee(i, &x->logs[k]) && x->logs[k].contract <= CONTRACT_USDT && oracle_has_shape(&x->logs[k]);
	}
	return n;
}

static unsigned count_sharing(const struct run *r, const struct intent *i, bool *named)
{
	unsigned n = 0;

	*named = false;
	for (int k = 0; k < INTENTS_MAX; k++) {
		if (!r->watch.intents[k].there || !address_eq(&oracle_intent(r, k)->payee, &i->payee))
			continue;
		n++;
		*named |= oracle_names_any(r, k);
	}
	return n;
}

static void allow_settling(const struct run *r, struct ends *e, const struct intent *i)
{
	ends_allow(e, INTENT_SETTLING, "", -1);
	if (count_to(r, i, false))
		ends_allow(e, INTENT_SETTLING, "reorg", -1);
}

/* The only intent of its payee. */
static void expect_alone(const struct run *r, int intent, struct ends *e)
{
	const char *code = "";

	for (int tx = 0; tx < TXS_MAX; tx++) {
		for (unsigned k = 0; k < r->tree.txs[tx].log_count; k++) {
			switch (fit_of(r, intent, tx, &r->tree.txs[tx].logs[k], &code)) {
			case FIT_NOT:
				break;
			case FIT_UNSURE:
				e->anything = true;
				break;
			case FIT_YES:
				ends_allow_paid(r, e, intent, tx, oracle_mined(r, tx));
				break;
			case FIT_MISSES:
				if (strcmp(code, "late") == 0 && was_in_time(r, oracle_intent(r, intent), tx, true))
					ends_allow_paid(r, e, intent, tx, oracle_mined(r, tx));
				ends_allow(e, INTENT_NEEDS_REVIEW, code, tx);
				break;
			}
		}
	}
	/* A misfit that became final while a transfer of a lost branch confirmed it was told, and is not taken again. */
	if (!e->count || count_to(r, oracle_intent(r, intent), false) > count_to(r, oracle_intent(r, intent), true))
		allow_settling(r, e, oracle_intent(r, intent));
}

/* One transfer, and several intents of its payee. */
static void expect_shared(const struct run *r, int intent, struct ends *e)
{
	unsigned fits = 0;
	bool mine = false;
	const char *code;
	int by = -1;

	for (int k = 0; k < INTENTS_MAX; k++) {
		if (!r->watch.intents[k].there || !address_eq(&oracle_intent(r, k)->payee, &oracle_intent(r, intent)->payee))
			continue;
		e->anything |= r->watch.intents[k].failed || r->watch.intents[k].decided;
		for (int tx = 0; tx < TXS_MAX; tx++) {
			for (unsigned n = 0; n < r->tree.txs[tx].log_count; n++) {
				enum fit fit = fit_of(r, k, tx, &r->tree.txs[tx].logs[n], &code);

				e->anything |= fit == FIT_UNSURE ||
					       (fit != FIT_NOT && oracle_intent(r, k)->has_expiry &&
						was_in_time(r, oracle_intent(r, k), tx, true) &&
						was_in_time(r, oracle_intent(r, k), tx, false));
				fits += fit == FIT_YES;
				mine |= fit == FIT_YES && k == intent;
				by = fit == FIT_YES ? tx : by;
			}
		}
	}
	if (fits == 1 && mine)
		ends_allow_paid(r, e, intent, by, oracle_mined(r, by));
	else
		allow_settling(r, e, oracle_intent(r, intent));
}

/* A route whose transaction the relayer named: sure if the transfer fits another too, so that neither took it before. */
static bool may_be_taken(const struct run *r, int intent, int tx)
{
	unsigned fits = 0;
	const char *code;

	for (int k = 0; k < INTENTS_MAX; k++) {
		if (!r->watch.intents[k].there || !address_eq(&oracle_intent(r, k)->payee, &oracle_intent(r, intent)->payee))
			continue;
		for (unsigned n = 0; n < r->tree.txs[tx].log_count; n++)
			fits += fit_of(r, k, tx, &r->tree.txs[tx].logs[n], &code) == FIT_YES;
	}
	return fits < 2;
}

static void expect_named_route(const struct run *r, int intent, struct ends *e)
{
	bool named;
	unsigned sharing = count_sharing(r, oracle_intent(r, intent), &named);

	expect_named(r, intent, e);
	for (int tx = 0; tx < TXS_MAX && sharing > 1; tx++) {
		if (oracle_named_at(r, intent, tx) != SIZE_MAX && oracle_mined(r, tx) >= 0)
			e->anything |= may_be_taken(r, intent, tx);
	}
}

static void expect_route(const struct run *r, int intent, struct ends *e)
{
	const struct intent *i = oracle_intent(r, intent);
	bool named;
	unsigned sharing = count_sharing(r, i, &named);

	if (named)
		e->anything = true;
	else if (sharing == 1)
		expect_alone(r, intent, e);
	else if (count_to(r, i, true) == 0)
		allow_settling(r, e, i);
	else if (count_to(r, i, false) == 1)
		expect_shared(r, intent, e);
	else
		e->anything = true;
}

/* The whole. */

/* Settled in a block that was final and was lost: it stays settled, and is reversed. */
static void judge_lost(struct run *r, int intent, struct ends *e)
{
	const struct watched_intent *w = &r->watch.intents[intent];
	bool lost = w->settled_block >= 0 && !tree_is_ancestor(&r->tree, w->settled_block, tree_last(&r->tree));

	if (lost != w->intent.reversed && !w->decided)
		violate(r, "reversed", "i%d was settled in block %d and is %sreversed", intent, w->settled_block,
			w->intent.reversed ? "" : "not ");
	if (lost)
		ends_allow(e, INTENT_SETTLED, "", -1);
	/* What a person has is not taken back, whatever the chain says by now. */
	e->anything |= w->reviewed;
}

static bool ended_by_request(const struct run *r, int intent, struct ends *e)
{
	const struct watched_intent *w = &r->watch.intents[intent];
	enum intent_state state = w->intent.state;

	for (size_t i = 0; i < r->done_count; i++) {
		const struct request_done *d = &r->done[i];

		if (d->intent != intent || d->outcome != MOVE_APPLIED)
			continue;
		if (d->kind == ITEM_FAIL)
			ends_allow(e, INTENT_FAILED, "gave_up", -1);
		if (d->kind == ITEM_CANCEL)
			ends_allow(e, INTENT_CANCELED, "not_wanted", -1);
		if (d->kind == ITEM_DECIDE)
			ends_allow(e, d->settled ? INTENT_SETTLED : INTENT_FAILED, "decided", d->tx);
	}
	if (!e->count && (state == INTENT_CREATED || state == INTENT_AUTHORIZED)) {
		/* Not opened, as far as the requests say. */
		for (size_t i = 0; i < r->done_count; i++) {
			if (r->done[i].intent == intent && r->done[i].kind == ITEM_OPEN && r->done[i].outcome == MOVE_APPLIED)
				return false;
		}
		ends_allow(e, state, NULL, -1);
	}
	return e->count > 0;
}

static bool is_allowed(const struct run *r, const struct ends *e, const struct intent *i)
{
	for (unsigned n = 0; n < e->count; n++) {
		const struct end *end = &e->is[n];

		if (end->state == i->state && (!end->code || strcmp(end->code, i->reason.code) == 0) &&
		    (end->tx < 0 || (i->has_tx && hash_eq(&i->tx_hash, &r->tree.txs[end->tx].hash))))
			return true;
	}
	return e->anything && i->state != INTENT_CONFIRMING;
}

/* One end, or one in which only the way to it is open. */
static bool is_exact(const struct ends *e)
{
	for (unsigned n = 1; n < e->count; n++) {
		if (e->is[n].state != e->is[0].state || e->is[n].state != INTENT_SETTLING)
			return false;
	}
	return !e->anything;
}

static void complain_end(struct run *r, int intent, const struct ends *e)
{
	const struct intent *i = oracle_intent(r, intent);
	struct buf text = { 0 };

	for (unsigned n = 0; n < e->count; n++)
		buf_printf(&text, "%s%s %s tx %d", n ? ", or " : "", intent_state_name(e->is[n].state),
			   e->is[n].code ? e->is[n].code : "*", e->is[n].tx);
	buf_put_u8(&text, '\0');
	violate(r, "end", "i%d is %s %s tx %d, want %s", intent, intent_state_name(i->state), i->reason.code,
		i->has_tx ? tree_find_tx(&r->tree, &i->tx_hash) : -1, text.len > 1 ? (char *)text.data : "anything but that");
	buf_free(&text);
}

void oracle_judge(struct run *r)
{
	for (int k = 0; k < INTENTS_MAX; k++) {
		struct ends e = { .count = 0 };

		if (!r->watch.intents[k].there)
			continue;
		if (r->tree.lost_head >= 0)
			judge_lost(r, k, &e);
		if (!ended_by_request(r, k, &e)) {
			if (oracle_intent(r, k)->watch == WATCH_TX)
				expect_named(r, k, &e);
			else if (oracle_names_any(r, k))
				expect_named_route(r, k, &e);
			else
				expect_route(r, k, &e);
		}
		r->tally[is_exact(&e) ? TALLY_DECISIVE : TALLY_LOOSELY]++;
		if (!is_allowed(r, &e, oracle_intent(r, k)))
			complain_end(r, k, &e);
	}
	if (r->tree.lost_head < 0)
		oracle_judge_told(r);
}
