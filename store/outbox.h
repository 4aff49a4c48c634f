/*
 * outbox - what happened, as events: the log that every sink reads.
 *
 * An event is written in the transaction of what it tells, as the bytes that
 * every sink will get; it is kept for good.  A sink has a cursor.  If we
 * crash after the commit, the sink reads from its cursor again and sees the
 * same event with the same id.
 */
#ifndef STORE_OUTBOX_H
#define STORE_OUTBOX_H

#include "store/schema.h"

enum event_type {
	EVENT_INTENT_STATE,		/* intent.<state> */
	EVENT_INTENT_OBSERVED,
	EVENT_INTENT_REVERSED,
	EVENT_CHAIN_REORG,
	EVENT_CHAIN_FINALITY_VIOLATION,
	EVENT_TRANSFER_UNMATCHED,
	EVENT_TRANSFER_AMBIGUOUS,
};

/* A block named in an event. */
struct block_ref {
	bool known;
	uint64_t height;
	struct hash32 hash;
};

#define EVIDENCE_TRANSFERS_MAX 4	/* listed; a count tells of more, so that a body stays below 2 kB */

/* What is proven, and how; all zero: nothing to say. */
struct evidence {
	struct block_ref block;
	bool has_tx;
	struct hash32 tx_hash;
	struct transfer_row transfers[EVIDENCE_TRANSFERS_MAX];
	size_t transfer_count;
	bool has_witness;
	uint8_t witness;		/* enum witness_state */
	struct u256 before, after;
	uint8_t proof;			/* enum proof; 0: not said */
	bool has_finality;
	char rule[48];
	struct block_ref watermark;
	struct block_ref replaced_by;	/* the new branch's block at the lost one's height */
	bool has_other_tx;
	struct hash32 other_tx;
	bool final;			/* of an observation */
	enum actor by;			/* whose word it is: ACTOR_LISTENER or a person */
	const char *chain_said;		/* a verdict's name at a person's decision; NULL: nothing seen */
};

/* As evidence and log lines name it. */
const char *witness_name(enum witness_state w);
/* The reason as {"code","text"}, or null, as the member "reason". */
void event_put_reason(struct buf *b, const struct reason *reason);
/* The intent as an object, the very bytes that its events carry. */
void event_put_intent(struct buf *b, const struct intent *i);

/* An event about an intent; counts up its event number, which the caller stores. */
void event_intent(struct kv_txn *t, enum event_type type, struct intent *i,
		  const struct reason *reason, const struct evidence *e, int64_t now_ms);

#define EVENT_NAMES_MAX 8
struct chain_event {
	enum event_type type;
	uint64_t chain;
	const struct reason *reason;		/* NULL: none */
	struct block_ref old_tip, new_tip, ancestor;	/* of a reorg or a violation */
	uint64_t depth;
	struct block_ref watermark, claimed;	/* of a violation: ours and theirs */
	bool has_transfer;
	struct transfer_row transfer;		/* of a transfer event */
	bool has_other_tx;
	struct hash32 other_tx;			/* paid twice: the recorded one */
	const char *intents[EVENT_NAMES_MAX];	/* candidates, or settled above the fork */
	size_t intent_count;			/* may be more than are listed */
};
/* An event about the chain or a transfer; counts up the chain row's event number, which the caller stores. */
void event_chain(struct kv_txn *t, struct chain_row *row, const struct chain_event *e, int64_t now_ms);

/* The sequence number of the last event; 0: none. */
uint64_t outbox_last(struct kv_txn *t);
/* The event's bytes; borrowed as kv_get() does. */
bool outbox_get(struct kv_txn *t, uint64_t sequence, struct slice *body);

/* How far a sink has read. */
uint64_t outbox_cursor(struct kv_txn *t, const char *sink);
void outbox_set_cursor(struct kv_txn *t, const char *sink, uint64_t sequence);

#endif
