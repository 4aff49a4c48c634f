/*
 * intent - one payment that should happen, and the table of the moves that its
 * state may make.  Pure: it knows no amounts' meaning, logs, reverts or tokens.
 *
 * A state's name says who must act next.  Whoever wants a move asks
 * intent_apply(); nothing else changes a state.
 */
#ifndef COMMON_INTENT_H
#define COMMON_INTENT_H

#include <assert.h>

#include "common/types.h"

/* On disk: do not renumber. */
enum intent_state {
	INTENT_CREATED,
	INTENT_AUTHORIZED,
	INTENT_SETTLING,
	INTENT_CONFIRMING,
	INTENT_NEEDS_REVIEW,
	INTENT_SETTLED,
	INTENT_FAILED,
	INTENT_CANCELED,
};
#define INTENT_STATES 8
static_assert(INTENT_CANCELED == INTENT_STATES - 1, "on disk: do not renumber");

/* On disk too. */
enum actor {
	ACTOR_API,
	ACTOR_RELAYER,
	ACTOR_LISTENER,
	ACTOR_OPERATOR,
	ACTOR_SYSTEM,
};
#define ACTORS 5
static_assert(ACTOR_SYSTEM == ACTORS - 1, "on disk: do not renumber");

enum watch {
	WATCH_TX,		/* paid by a transaction that the relayer names */
	WATCH_ROUTE,		/* paid by any transfer of exactly the amount to the payee */
};

/* Bytes of text, the NUL included. */
#define INTENT_ID_MAX 65
#define REASON_CODE_MAX 33
#define REASON_TEXT_MAX 201

/* Why a move was made: codes are stable, the text is for people. */
struct reason {
	char code[REASON_CODE_MAX];	/* empty: none */
	char text[REASON_TEXT_MAX];
};

struct intent {
	/* frozen at creation */
	char id[INTENT_ID_MAX];
	char merchant_id[INTENT_ID_MAX];
	char idempotency_key[INTENT_ID_MAX];
	uint64_t chain_id;
	struct address token;
	struct u256 amount;		/* base units of the token */
	struct address payee;
	bool has_payer;
	struct address payer;
	enum watch watch;
	bool has_expiry;
	int64_t expires_at_ms;
	char reverses[INTENT_ID_MAX];	/* the intent that this one corrects; empty: none */

	/* changed by intent_apply() alone */
	enum intent_state state;
	uint64_t version;		/* the first is 1 */
	bool has_tx;
	struct hash32 tx_hash;		/* the recorded transaction */
	struct reason reason;		/* of the last move */

	/* kept by the store */
	uint64_t row;			/* its sequence number, which indexes name */
	uint64_t event_number;		/* of its last event */
	uint64_t created_order;		/* place in the global sequence */
	int64_t created_at_ms;
	int64_t entered_at_ms;		/* when the state was entered */
	int64_t missing_from_ms;	/* chain time that tx_missing counts from; 0: no tip yet */
	bool reversed;			/* settled, then its block was lost under an accepted branch */
	bool overdue_said;
};

struct move_request {
	enum intent_state to;
	enum actor actor;
	uint64_t version;		/* that the request was made from; not looked at for the listener */
	bool has_tx;
	struct hash32 tx_hash;
	bool tx_is_attempt;		/* the hash is one of the intent's recorded attempts */
	bool has_reason;
	struct reason reason;
};

enum move_outcome {
	MOVE_APPLIED,
	MOVE_ALREADY_THERE,	/* a replayed message: not an error, nothing changed */
	MOVE_REFUSED,		/* not one field changed */
};

struct move_result {
	enum move_outcome outcome;
	enum err err;			/* why it was refused */
	bool evidence_conflict;		/* another tx hash than the recorded one: to be logged and counted */
};

/*
 * Judge @r in the fixed order (already there, version, terminal, table, actor,
 * evidence, transaction) and make the move if nothing speaks against it:
 * state, version, reason and, where given, the transaction.  On a refusal @why has one line.
 */
struct move_result intent_apply(struct intent *intent, const struct move_request *r,
				struct complaint *why);

bool intent_state_is_terminal(enum intent_state state);

/* Illegal moves and forbidden actors are bugs of the caller: raise an alarm.
 * Terminal states and stale versions are races that somebody lost: let go quietly. */
bool intent_refusal_is_bug(enum err err);

const char *intent_state_name(enum intent_state state);
bool intent_state_parse(const char *name, enum intent_state *out);
const char *actor_name(enum actor actor);
bool actor_parse(const char *name, enum actor *out);
const char *watch_name(enum watch watch);
bool watch_parse(const char *name, enum watch *out);

/* The table of moves as text, one line a move, as golden/transitions.golden has it. */
void intent_print_table(struct buf *out);

/* 1 to 64 letters, digits and "_-:.@/" */
bool intent_id_is_valid(const char *id);

#endif
