/*
 * intents - the intents, their history and attempts, and the indexes by which
 * a block finds whom it touches.
 *
 * A move, its history entry, its ledger row and its event are one transaction,
 * made by the one call intents_move().
 *
 * All calls are inside a transaction (kv.h) and carry its error.
 */
#ifndef STORE_INTENTS_H
#define STORE_INTENTS_H

#include "store/outbox.h"
#include "store/schema.h"

/* What the configuration allows on one chain; the arrays are borrowed. */
struct chain_tokens {
	uint64_t chain_id;
	const struct address *tokens;
	size_t count;
};

/*
 * OK if the frozen fields may stand: a configured chain and token, an amount
 * of at least 1, a payee that is neither zero nor the token, another payer than
 * payee.  Else E_REFUSED, with the field in @why.
 */
MUST_CHECK enum err intents_validate(const struct intent *i, const struct chain_tokens *config,
				     struct complaint *why);

/*
 * Create the intent from its frozen fields; the rest is set here.  OK with
 * *@created false if the same one is there already, which @i then is.  E_CONFLICT if its id
 * or (merchant, key) is there with another field, which @why names; E_REFUSED
 * for a second open route of the same chain, token, payee, payer and amount.
 */
MUST_CHECK enum err intents_create(struct kv_txn *t, struct intent *i, int64_t now_ms, bool *created,
				   struct complaint *why);

bool intents_get(struct kv_txn *t, uint64_t row, struct intent *out);
bool intents_find(struct kv_txn *t, const char *id, struct intent *out);
/* Store what intent_apply() does not change: event number, flags. */
void intents_save(struct kv_txn *t, const struct intent *i);

struct move_context {
	int64_t now_ms;
	int64_t tip_time_ms;		/* of the chain's tip; 0: none yet */
	struct evidence evidence;
};

/*
 * Judge the request against the stored intent of i->row and, if it is applied, write the
 * intent, its indexes, history, event and ledger row; *@i is then the new one.
 * Of two writers that read one version the second is refused here.
 */
struct move_result intents_move(struct kv_txn *t, struct intent *i, const struct move_request *r,
				const struct move_context *ctx, struct complaint *why);

/* Record a transaction that may pay the intent; false if it is there already. */
bool intents_add_attempt(struct kv_txn *t, const struct intent *i, const struct attempt_row *attempt);
bool intents_has_attempt(struct kv_txn *t, uint64_t row, const struct hash32 *tx_hash);
/* The n'th attempt, from 0. */
bool intents_attempt(struct kv_txn *t, uint64_t row, uint32_t n, struct attempt_row *out);

/* Intents with this transaction as an attempt, first recorded first. */
struct tx_walk {
	struct kv_cursor c;
	bool begun;
};
bool intents_next_of_tx(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash,
			struct tx_walk *walk, uint64_t *row, uint64_t *order);

/* The first tip of the chain: what waited for a chain time counts from @time_ms. */
void intents_start_clock(struct kv_txn *t, uint64_t chain, int64_t time_ms);
/* The first deadline of @kind that lies at or before @time_ms. */
bool intents_due(struct kv_txn *t, uint64_t chain, enum deadline_kind kind, int64_t time_ms,
		 uint64_t *row);
/* The route intent was reported as overdue: not again. */
void intents_said_overdue(struct kv_txn *t, struct intent *i);

#endif
