/*
 * tracker_parts - what the tracker's parts share; nobody else includes it.
 *
 *     tracker.c         following: from a head to a plan, and the turn
 *     tracker_blocks.c  commits; a block's body made whole and applied
 *     tracker_final.c   watermarks, what became final, deadlines
 *     tracker_lookup.c  attempts that may stand in a block that went by
 *     tracker_witness.c balances that their blocks did not wait for
 *     tracker_latch.c   what must be said twice; a final block denied
 */
#ifndef LISTENER_TRACKER_PARTS_H
#define LISTENER_TRACKER_PARTS_H

#include "common/log.h"
#include "listener/tracker.h"

/* A line with the chain in it; arguments follow the chain's. */
#define TLOG(level, tr, fmt, ...) \
	log_line(level, fmt " chain=%llu" __VA_ARGS__, (unsigned long long)(tr)->config->chain_id)

#define COMMIT_BLOCKS_MAX 32

/* One write transaction: its body, what it is given and what it finds. */
struct commit {
	struct tracker *tr;
	void (*body)(struct kv_txn *t, struct commit *c);
	struct apply apply;

	/* of blocks, and of a lookup the first */
	struct body_slot *slots[COMMIT_BLOCKS_MAX];
	struct finality_view views[COMMIT_BLOCKS_MAX];	/* what is final before each */
	unsigned count, applied;
	bool may_settle;
	struct branch branch;
	bool rolls_back;
	bool catching_up;
	bool lacks_witnesses;		/* undone: more balances are wanted */

	/* of finality */
	struct finality_view view;
	bool more;

	/* of the start */
	uint64_t start_height;

	/* of a lookup */
	uint64_t row;
	struct tx_place too_old;	/* where it is, if below all hashes that we keep */
	bool keeps_row;
	bool has_body;

	/* of late balances */
	const struct late_outcome *outcomes;
	size_t outcome_count;

	/* of a latch */
	struct hash32 theirs;
	bool latch;
};

/* Wall clock, for stamps and beside block times; steady, for all else. */
int64_t tracker_now_ms(const struct tracker *tr);
int64_t tracker_steady_ms(const struct tracker *tr);
/* Why nothing may settle now; told in the log when it changes. */
enum tracker_trouble tracker_judge(struct tracker *tr);
/* The turn's budget is used up: the rest follows in the next one, so that heads and requests are not starved. */
bool tracker_is_tired(struct tracker *tr);
/* What is final, as the window stands. */
struct finality_view tracker_view(struct tracker *tr);

/* Run the body and commit; true if it was committed.  A failed disk stops the tracker for good. */
bool tracker_commit(struct tracker *tr, struct commit *c);
/* End a read; a failed disk stops the tracker. */
bool tracker_end_read(struct tracker *tr, struct kv_txn *t);

/* The operator's block is on the head's branch, as far as that is known. */
bool tracker_is_accepted(const struct tracker *tr);
/* The window is one block: where following begins. */
void tracker_start_window(struct tracker *tr, uint64_t height, const struct hash32 *hash);
/* Hashes far below the lowest watermark are forgotten: those below this height, but for the tip's. */
uint64_t tracker_window_from(const struct tracker *tr);
void tracker_trim_window(struct tracker *tr);

/* The verified body and the balances that its matches want, but those that are late; NULL: asked for.  @again: a block of ours, for late attempts. */
struct body_slot *tracker_whole_body(struct tracker *tr, const struct hash32 *hash, bool catching_up, bool again);
struct body tracker_body_of(const struct body_slot *slot);
/* Gather with the balances that the slot has into tr->gather; those wanted beyond them are added to it. */
void tracker_gather(struct kv_txn *t, struct tracker *tr, struct body_slot *slot, const struct body *body,
		    bool catching_up, bool again, bool *short_of);
/* One step: apply the plan's first block, after cutting back to its ancestor; false: something is missing yet. */
bool tracker_apply_next(struct tracker *tr, const struct hash32 *head, const struct fork_plan *plan);

/* Make final what is final by now; true if anything was.  @current: the cursor has reached the head. */
bool tracker_finalize(struct tracker *tr, bool current);
/* One step of the lookup at hand, or of the next one whose turn it is; true if there may be another. */
bool tracker_look_up(struct tracker *tr);
/* One step with balances that are late; true if there may be another. */
bool tracker_read_late(struct tracker *tr);

/* True the second time that @what is said, a poll apart. */
bool tracker_said_twice(struct tracker *tr, struct claim *claim, const struct hash32 *what);
/* A head's branch would undo a final block. */
void tracker_hear_violation(struct tracker *tr, const struct fork_plan *plan);
/* Latched: whether it falls by itself. */
void tracker_hear_latched(struct tracker *tr);

#endif
