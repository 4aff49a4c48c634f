/*
 * desk - what people and other programs ask of an intent: create it, record an
 * attempt, move it.
 *
 * Each call is a part of one write transaction.  What may concern a block that
 * went by leaves a row in "lookup", which the tracker works off.
 */
#ifndef LISTENER_DESK_H
#define LISTENER_DESK_H

#include "listener/config.h"

/* As intents_create(), with the configuration checked first. */
MUST_CHECK enum err desk_create(struct kv_txn *t, const struct chain_config *config, struct intent *i,
				int64_t now_ms, bool *created, struct complaint *why);

struct desk_attempt {
	const char *intent;
	struct attempt_row attempt;	/* order and time are set here */
};
/* E_NOT_FOUND for an unknown intent; a known attempt is OK and adds nothing. */
MUST_CHECK enum err desk_attempt(struct kv_txn *t, const struct desk_attempt *a, int64_t now_ms,
				 struct complaint *why);

struct desk_move {
	const char *intent;
	bool current;			/* stands for the current version */
	struct move_request request;	/* tx_is_attempt is set here; actor listener is refused */
};
/*
 * Move the intent.  OK also where it is there already; *@result says which.
 * A settlement by a person claims what the intent held, and is E_REFUSED if a
 * transfer of the transaction to the payee is another's; a failure lets go.
 */
MUST_CHECK enum err desk_move(struct kv_txn *t, const struct desk_move *m, int64_t now_ms,
			      struct move_result *result, struct complaint *why);

#endif
