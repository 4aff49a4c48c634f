/*
 * story_event - an event's body as a story needs it.
 */
#ifndef LISTENER_STORY_EVENT_H
#define LISTENER_STORY_EVENT_H

#include "store/outbox.h"

struct story_transfer {
	struct address token, from, to;
	struct u256 value;
};

struct story_event {
	char type[48];
	int64_t time_ms;
	struct reason reason;		/* empty: none */

	/* intent.*: the intent's state, and the evidence */
	bool has_intent;
	char id[INTENT_ID_MAX];
	char merchant[INTENT_ID_MAX];
	char state[16];
	struct address token, payee, payer;
	struct u256 amount;
	bool has_payer, route;
	char by[16];
	bool has_tx;
	struct hash32 tx;
	struct block_ref block, watermark;
	struct story_transfer transfers[EVIDENCE_TRANSFERS_MAX];
	size_t transfer_count;		/* listed */
	char witness[16];
	struct u256 before, after;
	char log_proof[16];
	char rule[48];
	bool final;
	char chain_said[REASON_CODE_MAX];

	/* chain.*, transfer.* */
	struct block_ref old_tip, new_tip, ancestor, claimed;
	bool has_other_tx;
	struct hash32 other_tx;
	char names[EVENT_NAMES_MAX][INTENT_ID_MAX];
	size_t name_count;		/* listed */
};

/* Read the body; all text in it is fit to be shown.  E_INPUT with the place in @why. */
MUST_CHECK enum err story_event_read(struct slice body, struct story_event *out, struct complaint *why);

bool story_event_is(const struct story_event *e, const char *type);

#endif
