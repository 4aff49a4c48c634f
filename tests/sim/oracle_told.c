/*
 * What the end must leave beside the intents: transfers claimed or held, and reports of money that pays nobody.
 */
#include "store/claims.h"
#include "store/intents.h"
#include "tests/sim/oracle.h"

#include <string.h>

static unsigned count_told(const struct run *r, const char *code, int tx, int intent)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->watch.told_count; i++) {
		const struct told *t = &r->watch.told[i];

		n += t->tx == tx && strcmp(t->code, code) == 0 && (intent < 0 || t->intent == intent);
	}
	return n;
}

static unsigned count_namers(const struct run *r, int tx)
{
	unsigned n = 0;

	for (int k = 0; k < INTENTS_MAX; k++)
		n += r->watch.intents[k].there && oracle_named_at(r, k, tx) != SIZE_MAX;
	return n;
}

static bool has_c(const struct run *r, const struct intent *i, int tx)
{
	const struct tree_tx *x = &r->tree.txs[tx];

	for (unsigned k = 0; k < x->log_count && !x->reverted; k++) {
		if (oracle_is_in_c(i, &x->logs[k]))
			return true;
	}
	return false;
}

/* Money of an intent that was given up, or paid a second time, with a transaction that nobody else names: told once. */
static void judge_extra(struct run *r, int intent, int tx)
{
	const struct watched_intent *w = &r->watch.intents[intent];
	bool given_up = w->failed && !w->reviewed;
	bool twice = w->intent.state == INTENT_SETTLED && !w->reviewed && !hash_eq(&w->intent.tx_hash, &r->tree.txs[tx].hash);
	const char *code = given_up ? "after_failed" : "paid_twice";
	unsigned told = count_told(r, code, tx, intent);

	if (told > 1)
		violate(r, "told", "tx %d of i%d is told as %s %u times", tx, intent, code, told);
	if ((given_up || twice) && !told && count_namers(r, tx) == 1 && has_c(r, &w->intent, tx))
		violate(r, "told", "tx %d of i%d is mined and pays nobody: nobody was told %s", tx, intent, code);
}

/* A route of the payee that was there before the transfer, and that nothing has ended. */
static bool is_watched(const struct run *r, const struct tree_log *log, int tx)
{
	for (int k = 0; k < INTENTS_MAX; k++) {
		const struct watched_intent *w = &r->watch.intents[k];

		if (w->there && w->intent.watch == WATCH_ROUTE && oracle_is_payee(&w->intent, log) &&
		    w->created_commit < r->watch.first_applied[tx] && !intent_state_is_terminal(w->intent.state))
			return true;
	}
	return false;
}

/* Transfers of the last chain: each is claimed or held, or told, where somebody waits for it. */
static void judge_transfers(struct run *r, struct kv_txn *t, int tx)
{
	const struct tree_tx *x = &r->tree.txs[tx];
	struct claim_row claim;

	for (unsigned k = 0; k < x->log_count && !x->reverted; k++) {
		const struct tree_log *log = &x->logs[k];
		bool owned = claim_get(t, CHAIN_ID, &x->hash, k, &claim);

		if (!oracle_has_shape(log) || log->contract > CONTRACT_USDT || owned)
			continue;
		for (int i = 0; i < INTENTS_MAX; i++) {
			const struct intent *in = oracle_intent(r, i);

			if (r->watch.intents[i].there && in->state == INTENT_NEEDS_REVIEW && in->has_tx &&
			    hash_eq(&in->tx_hash, &x->hash) && oracle_is_in_c(in, log))
				violate(r, "hold", "i%d is under review, but nobody holds transfer %u of tx %d", i, k, tx);
		}
		if (!count_namers(r, tx) && is_watched(r, log, tx) && !count_told(r, "misfit", tx, -1) &&
		    !count_told(r, "ambiguous", tx, -1))
			violate(r, "told", "transfer %u of tx %d to a route's payee pays nobody: nobody was told", k, tx);
	}
}

void oracle_judge_told(struct run *r)
{
	struct kv_txn t = kv_begin_read(r->kv);

	for (int tx = 0; tx < TXS_MAX; tx++) {
		if (oracle_mined(r, tx) < 0)
			continue;
		judge_transfers(r, &t, tx);
		for (int i = 0; i < INTENTS_MAX; i++) {
			if (r->watch.intents[i].there && oracle_named_at(r, i, tx) != SIZE_MAX)
				judge_extra(r, i, tx);
		}
	}
	if (kv_end_read(&t))
		violate(r, "read", "the store cannot be read");
}

/* A person's settlement claims all of the transaction's transfers to the payee. */
static void judge_decided(struct run *r, struct kv_txn *t, int intent)
{
	const struct watched_intent *w = &r->watch.intents[intent];
	int tx = w->intent.has_tx ? tree_find_tx(&r->tree, &w->intent.tx_hash) : -1;
	const struct tree_tx *x = tx < 0 ? NULL : &r->tree.txs[tx];
	struct claim_row claim;

	if (!w->decided || w->intent.state != INTENT_SETTLED || w->intent.reversed || oracle_mined(r, tx) < 0 || x->reverted)
		return;
	for (unsigned k = 0; k < x->log_count; k++) {
		if (oracle_is_in_c(&w->intent, &x->logs[k]) &&
		    (!claim_get(t, CHAIN_ID, &x->hash, k, &claim) || claim.row != w->intent.row || claim.kind != OWNER_CLAIM))
			violate(r, "owner", "a person settled i%d, which does not claim transfer %u of tx %d", intent, k, tx);
	}
}

/* After a person's decisions: who failed has let go, who was settled has all of its transaction. */
void oracle_judge_owners(struct run *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	struct key from = key_u64(CHAIN_ID);
	struct kv_cursor c;
	struct claim_row claim;
	struct intent i;

	for (bool more = kv_seek(&t, T_CLAIM, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		if (!row_decode(&t, c.val, ROW_CLAIM, &claim) || !intents_get(&t, claim.row, &i))
			violate(r, "owner", "a claim of nobody");
		else if (i.state != INTENT_SETTLED && i.state != INTENT_NEEDS_REVIEW)
			violate(r, "owner", "%s is %s, but has a transfer", i.id, intent_state_name(i.state));
		else if (claim.kind == OWNER_CLAIM && i.state != INTENT_SETTLED)
			violate(r, "owner", "%s is %s, but claims a transfer", i.id, intent_state_name(i.state));
	}
	for (int k = 0; k < INTENTS_MAX; k++)
		judge_decided(r, &t, k);
	if (kv_end_read(&t))
		violate(r, "read", "the store cannot be read");
}
