#include "listener/desk.h"

#include "listener/apply.h"
#include "store/claims.h"
#include "store/sightings.h"

#include <stdlib.h>

enum err desk_create(struct kv_txn *t, const struct chain_config *config, struct intent *i,
		     int64_t now_ms, bool *created, struct complaint *why)
{
	struct chain_tokens tokens = config_tokens(config);
	enum err err = intents_validate(i, &tokens, why);

	*created = false;
	return err ? err : intents_create(t, i, now_ms, created, why);
}

/* Its transaction may stand in a block that went by. */
static void ask_lookup(struct kv_txn *t, const struct intent *i)
{
	struct key key = key_lookup(i->chain_id, i->row);
	struct chain_row chain;

	if (chain_get(t, i->chain_id, &chain) && chain.has_tip)
		mark_put(t, T_LOOKUP, &key);
}

static bool find(struct kv_txn *t, const char *id, struct intent *out, struct complaint *why)
{
	if (intents_find(t, id, out))
		return true;
	complain(why, E_NOT_FOUND, "intent: %.64s is not known", id);
	return false;
}

enum err desk_attempt(struct kv_txn *t, const struct desk_attempt *a, int64_t now_ms, struct complaint *why)
{
	struct attempt_row attempt = a->attempt;
	struct intent i;

	if (!find(t, a->intent, &i, why))
		return E_NOT_FOUND;
	attempt.at_ms = now_ms;
	if (intents_add_attempt(t, &i, &attempt))
		ask_lookup(t, &i);
	return OK;
}

/* The transaction that a settlement names: the request's, else the recorded one. */
static bool settled_tx(const struct intent *i, const struct move_request *r, struct hash32 *out)
{
	*out = r->has_tx ? r->tx_hash : i->tx_hash;
	return r->has_tx || i->has_tx;
}

/* A transfer of the transaction to the payee that is another's, seen as an attempt of this intent or not. */
static enum err check_others(struct kv_txn *t, const struct intent *i, const struct hash32 *tx,
			     struct complaint *why)
{
	struct key from = key_claim(i->chain_id, tx, 0);
	struct claim_row claim;
	struct intent other;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_CLAIM, key_slice(&from), 8 + 32, &c); more; more = kv_next(&c)) {
		if (!row_decode(t, c.val, ROW_CLAIM, &claim) || claim.row == i->row ||
		    !intents_get(t, claim.row, &other) || !address_eq(&other.token, &i->token) ||
		    !address_eq(&other.payee, &i->payee))
			continue;
		return complain(why, E_REFUSED, "intent: a transfer of this transaction is that of intent %s",
				other.id);
	}
	return OK;
}

/* A person settles: the transaction's transfers to the payee become the intent's. */
static void claim_for_person(struct kv_txn *t, const struct intent *i, const struct sighting_at *at,
			     const struct sighting_row *s)
{
	size_t count;
	struct transfer_row *rows = apply_transfers(t, at, s, i, &count);

	for (size_t k = 0; k < count; k++)
		claim_take(t, at->chain, &rows[k], i->row, OWNER_CLAIM);
	free(rows);
}

/* Let go of all that the intent holds, in every transaction of it that is mined. */
static void release_all(struct kv_txn *t, const struct intent *i, const struct hash32 *but)
{
	struct attempt_row a;
	struct sighting_at at;
	struct sighting_row s;

	for (uint32_t n = 0; intents_attempt(t, i->row, n, &a); n++) {
		if (but && hash_eq(but, &a.tx_hash))
			continue;
		if (sighting_of(t, i->chain_id, i->row, &a.tx_hash, &at, &s))
			claim_drop(t, at.chain, at.height, &s.block_hash, at.tx_index, i->row);
	}
}

/* Before the move, so that its event tells what became of the transfers. */
static enum err decide(struct kv_txn *t, const struct intent *i, const struct move_request *r,
		       struct evidence *e, struct complaint *why)
{
	struct sighting_at at;
	struct sighting_row s;
	struct hash32 tx;
	enum err err = OK;
	bool named;

	if (i->state != INTENT_NEEDS_REVIEW)
		return OK;
	e->chain_said = "not seen";
	named = settled_tx(i, r, &tx);
	if (named && r->to == INTENT_SETTLED)
		err = check_others(t, i, &tx, why);
	if (err)
		return err;
	if (named && sighting_of(t, i->chain_id, i->row, &tx, &at, &s)) {
		if (r->to == INTENT_SETTLED)
			claim_for_person(t, i, &at, &s);
		*e = apply_evidence(t, &at, &s);
		e->chain_said = verdict_name((enum verdict)s.verdict);
	}
	if (intent_state_is_terminal(r->to))
		release_all(t, i, r->to == INTENT_SETTLED ? &tx : NULL);
	return OK;
}

/* A person settled with a transaction that the intent never named: its transfers are the intent's once it is in a block of ours. */
static void expect_settled(struct kv_txn *t, const struct intent *i, const struct move_request *r, int64_t now_ms)
{
	struct attempt_row attempt = { .tx_hash = r->tx_hash, .at_ms = now_ms };

	if (i->state == INTENT_SETTLED && intents_add_attempt(t, i, &attempt))
		ask_lookup(t, i);
}

/* Whether the machine would make the move: asked before anything is written. */
static struct move_result would(const struct intent *i, const struct move_request *r, struct complaint *why)
{
	struct intent copy = *i;

	return intent_apply(&copy, r, why);
}

enum err desk_move(struct kv_txn *t, const struct desk_move *m, int64_t now_ms,
		   struct move_result *result, struct complaint *why)
{
	struct move_context ctx = { .now_ms = now_ms };
	struct move_request r = m->request;
	struct chain_row chain;
	struct intent i;
	enum err err;

	*result = (struct move_result){ MOVE_REFUSED, E_NOT_FOUND, false };
	if (!find(t, m->intent, &i, why))
		return E_NOT_FOUND;
	if (r.actor == ACTOR_LISTENER)
		return complain(why, E_FORBIDDEN_ACTOR, "actor: the listener's moves exist only inside the listener");
	if (m->current)
		r.version = i.version;
	r.tx_is_attempt = r.has_tx && intents_has_attempt(t, i.row, &r.tx_hash);
	*result = would(&i, &r, why);
	if (result->outcome != MOVE_APPLIED)
		return result->outcome == MOVE_REFUSED ? result->err : OK;
	err = decide(t, &i, &r, &ctx.evidence, why);
	if (err) {
		*result = (struct move_result){ MOVE_REFUSED, err, false };
		return err;
	}
	if (chain_get(t, i.chain_id, &chain))
		ctx.tip_time_ms = chain_time_ms(&chain);
	*result = intents_move(t, &i, &r, &ctx, why);
	if (result->outcome == MOVE_REFUSED)
		return result->err;
	/* Given up, too: what was mined before is reported. */
	if (i.state != INTENT_SETTLED)
		ask_lookup(t, &i);
	expect_settled(t, &i, &r, now_ms);
	return OK;
}
