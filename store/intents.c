#include "store/intents.h"

#include "store/ledger.h"

#include <string.h>

enum err intents_validate(const struct intent *i, const struct chain_tokens *config,
			  struct complaint *why)
{
	char text[ADDRESS_TEXT];
	bool listed = false;

	if (i->chain_id != config->chain_id)
		return complain(why, E_REFUSED, "chain_id: chain %llu is not configured",
				(unsigned long long)i->chain_id);
	for (size_t k = 0; k < config->count; k++)
		listed |= address_eq(&config->tokens[k], &i->token);
	if (!listed)
		return complain(why, E_REFUSED, "token: %s is not configured on chain %llu",
				address_format(&i->token, text), (unsigned long long)i->chain_id);
	if (u256_is_zero(&i->amount))
		return complain(why, E_REFUSED, "amount: 0, want at least 1");
	if (address_is_zero(&i->payee))
		return complain(why, E_REFUSED, "payee: the zero address cannot be paid");
	if (address_eq(&i->payee, &i->token))
		return complain(why, E_REFUSED, "payee: the token's own contract cannot be paid");
	if (i->has_payer && address_eq(&i->payer, &i->payee))
		return complain(why, E_REFUSED, "payer: the same as the payee");
	return OK;
}

bool intents_get(struct kv_txn *t, uint64_t row, struct intent *out)
{
	struct key key = key_u64(row);

	if (!row_get(t, T_INTENT, &key, ROW_INTENT, out))
		return false;
	out->row = row;
	if (out->state < INTENT_STATES && out->watch <= WATCH_ROUTE)
		return true;
	kv_fail(t, E_CORRUPT);
	return false;
}

bool intents_find(struct kv_txn *t, const char *id, struct intent *out)
{
	struct key key = key_intent_id(id);
	uint64_t row;

	return number_get(t, T_INTENT_ID, &key, &row) && intents_get(t, row, out);
}

void intents_save(struct kv_txn *t, const struct intent *i)
{
	struct key key = key_u64(i->row);

	row_put(t, T_INTENT, &key, ROW_INTENT, i);
}

/* The first frozen field in which the two differ, or NULL. */
static const char *frozen_difference(const struct intent *a, const struct intent *b)
{
	if (strcmp(a->id, b->id) != 0)
		return "id";
	if (strcmp(a->merchant_id, b->merchant_id) != 0)
		return "merchant_id";
	if (strcmp(a->idempotency_key, b->idempotency_key) != 0)
		return "idempotency_key";
	if (a->chain_id != b->chain_id)
		return "chain_id";
	if (!address_eq(&a->token, &b->token))
		return "token";
	if (u256_cmp(&a->amount, &b->amount) != 0)
		return "amount";
	if (!address_eq(&a->payee, &b->payee))
		return "payee";
	if (a->has_payer != b->has_payer || (a->has_payer && !address_eq(&a->payer, &b->payer)))
		return "payer";
	if (a->watch != b->watch)
		return "watch";
	if (a->has_expiry != b->has_expiry || (a->has_expiry && a->expires_at_ms != b->expires_at_ms))
		return "expires_at";
	if (strcmp(a->reverses, b->reverses) != 0)
		return "reverses";
	return NULL;
}

/* The stored intent that has the new one's id or its (merchant, key). */
static bool find_same(struct kv_txn *t, const struct intent *i, struct intent *out)
{
	struct key key = key_intent_key(i->merchant_id, i->idempotency_key);
	uint64_t row;

	if (intents_find(t, i->id, out))
		return true;
	return number_get(t, T_INTENT_KEY, &key, &row) && intents_get(t, row, out);
}

/* An open route intent that a transfer could not tell from the new one. */
static bool find_rival(struct kv_txn *t, const struct intent *i, struct intent *out)
{
	struct key from = key_route(i);
	struct kv_cursor c;

	if (i->watch != WATCH_ROUTE)
		return false;
	from.len -= 8;		/* whatever the row */
	return kv_seek(t, T_ROUTE, key_slice(&from), from.len, &c) &&
	       intents_get(t, be64_get(c.key + c.key_len - 8), out);
}

static void index_new(struct kv_txn *t, const struct intent *i)
{
	struct key id = key_intent_id(i->id);
	struct key merchant_key = key_intent_key(i->merchant_id, i->idempotency_key);
	struct key route = key_route(i), state = key_state(i->state, i->entered_at_ms, i->row);

	number_put(t, T_INTENT_ID, &id, i->row);
	number_put(t, T_INTENT_KEY, &merchant_key, i->row);
	mark_put(t, T_STATE, &state);
	if (i->watch == WATCH_ROUTE)
		mark_put(t, T_ROUTE, &route);
}

static void add_history(struct kv_txn *t, const struct intent *i, const struct history_row *h)
{
	struct key key = key_history(i->row, i->version);

	row_add(t, T_HISTORY, &key, ROW_HISTORY, h);
}

/* What is not frozen, as it is at first. */
static void reset(struct intent *i)
{
	i->state = INTENT_CREATED;
	i->version = 1;
	i->has_tx = false;
	i->tx_hash = (struct hash32){ { 0 } };
	i->reason = (struct reason){ .code = "" };
	i->event_number = 0;
	i->missing_from_ms = 0;
	i->reversed = i->overdue_said = false;
}

static void write_new(struct kv_txn *t, struct intent *i, int64_t now_ms)
{
	struct evidence none = { .by = ACTOR_API };
	struct history_row h = { .from = INTENT_CREATED, .to = INTENT_CREATED, .actor = ACTOR_API,
				 .at_ms = now_ms, .version = 1 };

	reset(i);
	i->row = number_next(t, "intent");
	i->created_order = number_next(t, "order");
	i->created_at_ms = i->entered_at_ms = now_ms;
	index_new(t, i);
	add_history(t, i, &h);
	event_intent(t, EVENT_INTENT_STATE, i, NULL, &none, now_ms);
	intents_save(t, i);
}

enum err intents_create(struct kv_txn *t, struct intent *i, int64_t now_ms, bool *created,
			struct complaint *why)
{
	struct intent other;
	const char *field;

	*created = false;
	if (find_same(t, i, &other)) {
		field = frozen_difference(i, &other);
		if (field)
			return complain(why, E_CONFLICT, "%s: another than that of intent %s, which is there with this %s",
					field, other.id, strcmp(i->id, other.id) ? "merchant_id and idempotency_key" : "id");
		*i = other;
		return OK;
	}
	if (find_rival(t, i, &other))
		return complain(why, E_REFUSED, "payee: open route intent %s has the same chain, token, payee, payer and amount",
				other.id);
	write_new(t, i, now_ms);
	*created = true;
	return OK;
}

bool intents_attempt(struct kv_txn *t, uint64_t row, uint32_t n, struct attempt_row *out)
{
	struct key key = key_attempt(row, n);

	return row_get(t, T_ATTEMPT, &key, ROW_ATTEMPT, out);
}

/* The number of attempts, or the index of the one with @tx_hash. */
static uint32_t attempt_index(struct kv_txn *t, uint64_t row, const struct hash32 *tx_hash, bool *found)
{
	struct attempt_row a;
	uint32_t n = 0;

	while (intents_attempt(t, row, n, &a)) {
		*found = hash_eq(&a.tx_hash, tx_hash);
		if (*found)
			return n;
		n++;
	}
	*found = false;
	return n;
}

bool intents_has_attempt(struct kv_txn *t, uint64_t row, const struct hash32 *tx_hash)
{
	bool found;

	attempt_index(t, row, tx_hash, &found);
	return found;
}

bool intents_add_attempt(struct kv_txn *t, const struct intent *i, const struct attempt_row *attempt)
{
	struct attempt_row a = *attempt;
	struct key key, tx;
	bool found;
	uint32_t n = attempt_index(t, i->row, &a.tx_hash, &found);

	if (found)
		return false;
	a.order = number_next(t, "order");
	key = key_attempt(i->row, n);
	tx = key_tx(i->chain_id, &a.tx_hash, a.order);
	row_add(t, T_ATTEMPT, &key, ROW_ATTEMPT, &a);
	number_put(t, T_TX, &tx, i->row);
	return true;
}

bool intents_next_of_tx(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash,
			struct tx_walk *walk, uint64_t *row, uint64_t *order)
{
	struct key from = key_tx(chain, tx_hash, 0);
	bool more = walk->begun ? kv_next(&walk->c)
				: kv_seek(t, T_TX, key_slice(&from), 8 + 32, &walk->c);

	walk->begun = true;
	if (!more)
		return false;
	if (walk->c.val.len != 8) {
		kv_fail(t, E_CORRUPT);
		return false;
	}
	*order = be64_get(walk->c.key + 40);
	*row = be64_get(walk->c.val.data);
	return true;
}

static bool awaits_expiry(const struct intent *i)
{
	return i->state == INTENT_SETTLING && i->watch == WATCH_ROUTE && i->has_expiry && !i->overdue_said;
}

static void index_leave(struct kv_txn *t, const struct intent *i)
{
	struct key state = key_state(i->state, i->entered_at_ms, i->row);
	struct key missing = key_deadline(i->chain_id, DEADLINE_MISSING, i->missing_from_ms, i->row);
	struct key overdue = key_deadline(i->chain_id, DEADLINE_OVERDUE, i->expires_at_ms, i->row);

	key_del(t, T_STATE, &state);
	if (i->state == INTENT_CONFIRMING)
		key_del(t, T_DEADLINE, &missing);
	if (awaits_expiry(i))
		key_del(t, T_DEADLINE, &overdue);
}

static void index_enter(struct kv_txn *t, const struct intent *i)
{
	struct key state = key_state(i->state, i->entered_at_ms, i->row);
	struct key missing = key_deadline(i->chain_id, DEADLINE_MISSING, i->missing_from_ms, i->row);
	struct key overdue = key_deadline(i->chain_id, DEADLINE_OVERDUE, i->expires_at_ms, i->row);
	struct key route = key_route(i);

	mark_put(t, T_STATE, &state);
	if (i->state == INTENT_CONFIRMING)
		mark_put(t, T_DEADLINE, &missing);
	if (awaits_expiry(i))
		mark_put(t, T_DEADLINE, &overdue);
	if (i->watch == WATCH_ROUTE && intent_state_is_terminal(i->state))
		key_del(t, T_ROUTE, &route);
}

/* What the move leaves in the history; both transactions where they contradict. */
static struct history_row history_of(const struct intent *before, const struct intent *after,
				     const struct move_request *r, const struct move_context *ctx,
				     bool conflict)
{
	struct history_row h = {
		.from = before->state,
		.to = after->state,
		.actor = r->actor,
		.has_tx = r->has_tx,
		.tx_hash = r->tx_hash,
		.has_block = ctx->evidence.block.known,
		.block_height = ctx->evidence.block.height,
		.block_hash = ctx->evidence.block.hash,
		.at_ms = ctx->now_ms,
		.version = after->version,
		.conflict = conflict,
	};

	if (r->has_reason)
		h.reason = r->reason;
	if (conflict && before->has_tx)
		h.other_tx = before->tx_hash;
	return h;
}

/* Whoever settles says so in the ledger, with the event that tells of it. */
static void tell(struct kv_txn *t, struct intent *i, const struct move_request *r,
		 const struct intent *before, const struct move_context *ctx, bool conflict)
{
	struct evidence e = ctx->evidence;

	e.by = r->actor;
	e.has_tx = i->has_tx;
	e.tx_hash = i->tx_hash;
	e.has_other_tx = conflict && before->has_tx;
	e.other_tx = before->tx_hash;
	event_intent(t, EVENT_INTENT_STATE, i, &i->reason, &e, ctx->now_ms);
	if (i->state == INTENT_SETTLED)
		ledger_add(t, i, LEDGER_SETTLEMENT, outbox_last(t), ctx->now_ms);
}

static void write_move(struct kv_txn *t, struct intent *i, const struct move_request *r,
		       const struct intent *before, const struct move_context *ctx, bool conflict)
{
	struct attempt_row attempt = { .tx_hash = r->tx_hash, .at_ms = ctx->now_ms };
	struct history_row h;

	i->entered_at_ms = ctx->now_ms;
	if (i->state == INTENT_CONFIRMING) {
		i->missing_from_ms = ctx->tip_time_ms;
		intents_add_attempt(t, i, &attempt);
	}
	index_leave(t, before);
	index_enter(t, i);
	h = history_of(before, i, r, ctx, conflict);
	add_history(t, i, &h);
	tell(t, i, r, before, ctx, conflict);
	intents_save(t, i);
}

struct move_result intents_move(struct kv_txn *t, struct intent *i, const struct move_request *r,
				const struct move_context *ctx, struct complaint *why)
{
	struct move_result refused = { MOVE_REFUSED, E_CORRUPT, false }, result;
	struct intent now, before;

	if (!intents_get(t, i->row, &now)) {
		kv_fail(t, E_CORRUPT);
		complain(why, E_CORRUPT, "intent row %llu is not there", (unsigned long long)i->row);
		return refused;
	}
	before = now;
	result = intent_apply(&now, r, why);
	if (result.outcome == MOVE_APPLIED)
		write_move(t, &now, r, &before, ctx, result.evidence_conflict);
	*i = now;
	return result;
}

void intents_start_clock(struct kv_txn *t, uint64_t chain, int64_t time_ms)
{
	struct key from = key_deadline(chain, DEADLINE_MISSING, 0, 0);
	struct kv_cursor c;
	struct intent i;

	while (kv_seek(t, T_DEADLINE, key_slice(&from), 17, &c)) {
		struct key key;

		kv_del(t, T_DEADLINE, (struct slice){ c.key, c.key_len });
		if (!intents_get(t, be64_get(c.key + 17), &i)) {
			kv_fail(t, E_CORRUPT);
			return;
		}
		/* 0 means no tip, also on a chain that began with the epoch. */
		i.missing_from_ms = time_ms ? time_ms : 1;
		key = key_deadline(chain, DEADLINE_MISSING, i.missing_from_ms, i.row);
		mark_put(t, T_DEADLINE, &key);
		intents_save(t, &i);
	}
}

bool intents_due(struct kv_txn *t, uint64_t chain, enum deadline_kind kind, int64_t time_ms, uint64_t *row)
{
	struct key from = key_deadline(chain, kind, 1, 0);
	struct kv_cursor c;

	if (!kv_seek(t, T_DEADLINE, key_slice(&from), 9, &c) || (int64_t)be64_get(c.key + 9) > time_ms)
		return false;
	*row = be64_get(c.key + 17);
	return true;
}

void intents_said_overdue(struct kv_txn *t, struct intent *i)
{
	struct key key = key_deadline(i->chain_id, DEADLINE_OVERDUE, i->expires_at_ms, i->row);

	key_del(t, T_DEADLINE, &key);
	i->overdue_said = true;
	intents_save(t, i);
}
