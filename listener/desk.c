#include "listener/desk.h"

#include "listener/apply.h"
#include "store/claims.h"
#include "store/sightings.h"

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

static bool is_to_payee(const struct transfer_row *tr, const struct intent *i)
{
	return address_eq(&tr->token, &i->token) && address_eq(&tr->to, &i->payee);
}

#define DECIDE_MAX 256		/* transfers of one transaction that a decision looks at */

/* A person settles: the transaction's transfers to the payee become the intent's, unless one is another's. */
static enum err claim_for_person(struct kv_txn *t, const struct intent *i, const struct sighting_at *at,
				 const struct sighting_row *s, struct complaint *why)
{
	struct transfer_row rows[DECIDE_MAX];
	size_t count = transfers_of(t, at->chain, at->height, &s->block_hash, at->tx_index, rows, DECIDE_MAX);
	struct intent other;

	for (size_t k = 0; k < count; k++) {
		if (!is_to_payee(&rows[k], i) || rows[k].owner_kind == OWNER_NONE || rows[k].owner == i->row)
			continue;
		intents_get(t, rows[k].owner, &other);
		return complain(why, E_REFUSED, "intent: a transfer of this transaction is that of intent %s",
				other.id);
	}
	for (size_t k = 0; k < count; k++) {
		if (is_to_payee(&rows[k], i))
			claim_take(t, at->chain, &rows[k], i->row, OWNER_CLAIM);
	}
	return OK;
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

	if (i->state != INTENT_NEEDS_REVIEW || !settled_tx(i, r, &tx)) {
		e->chain_said = "not seen";
		return OK;
	}
	if (!sighting_of(t, i->chain_id, i->row, &tx, &at, &s)) {
		e->chain_said = "not seen";
	} else {
		if (r->to == INTENT_SETTLED)
			err = claim_for_person(t, i, &at, &s, why);
		*e = apply_evidence(t, &at, &s);
		e->chain_said = verdict_name((enum verdict)s.verdict);
	}
	if (err == OK && intent_state_is_terminal(r->to))
		release_all(t, i, r->to == INTENT_SETTLED ? &tx : NULL);
	return err;
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
	if (err)
		return err;
	if (chain_get(t, i.chain_id, &chain) && chain.has_tip)
		ctx.tip_time_ms = chain.tip_time_s * 1000;
	*result = intents_move(t, &i, &r, &ctx, why);
	if (result->outcome == MOVE_REFUSED)
		return result->err;
	if (!intent_state_is_terminal(i.state))
		ask_lookup(t, &i);
	return OK;
}
