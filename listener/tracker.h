/*
 * tracker - follows one chain: plans, needs, and plans again.
 *
 *     a head, a tag, an answer, a timer -> run -> fork_plan:
 *         need   reads_* ask for it; its answer brings us here again
 *         extend, roll back   ONE write transaction: (undo,) block, moves, events, tip
 *         current   watermarks, then what became final, in slices
 *
 * If we crash before a commit, nothing happened; after it, the store stands on
 * the new tip and its events are in the outbox.
 */
#ifndef LISTENER_TRACKER_H
#define LISTENER_TRACKER_H

#include "listener/apply.h"
#include "listener/reads.h"

/* Why nothing settles; for health and for the log. */
enum tracker_trouble {
	TROUBLE_NONE,
	TROUBLE_STALE,
	TROUBLE_UNLINKED,
	TROUBLE_LATCHED,
	TROUBLE_ALONE,		/* fewer endpoints live than must agree */
	TROUBLE_UNPROVEN,	/* nobody can prove the next block */
};
#define TROUBLES 6
const char *tracker_trouble_name(enum tracker_trouble trouble);

/* Something was said that must be said twice, a poll apart. */
struct claim {
	bool said;
	struct hash32 what;
	int64_t since_ms;		/* steady */
	uint64_t round;			/* of polls */
};

/*
 * How far the lookup at hand is: the attempts of one intent, one after another.  An attempt that is not answered within
 * a poll lets the next one be tried, and so does an intent: its row stays, and its turn comes again.
 */
struct lookup {
	uint64_t row;			/* 0: none is at hand */
	uint32_t attempt;		/* the one at hand */
	int64_t since_ms;		/* it has been since, by the steady clock */
	bool misled;			/* a block that its prefix named does not hold it */
	bool unsure;			/* of an attempt nobody knows where it is: the row stays */
	bool gone;			/* of one the history is gone from every endpoint that was asked */
	struct tx_place too_old;	/* an attempt below all hashes that we keep */
};

/*
 * An intent whose row stays: looked at again after a poll, then after twice as long, at last each missing_after_s; at
 * once when a request moved it or added an attempt.  In memory: a restart looks at once.
 */
struct put_off {
	uint64_t row;
	uint64_t version;		/* of the intent then, and its attempts */
	uint32_t attempts;
	unsigned times;
	int64_t next_ms;
};

/* The cursor stands still below the head. */
struct obstacle {
	bool stands;
	struct hash32 tip;		/* here */
	int64_t since_ms;		/* steady */
	bool known;
	struct hash32 hash;		/* the next block, where it is known */
	bool unproven;			/* for longer than config->unproven_s */
};

/* Told after the commit; any may be NULL. */
struct tracker_watcher {
	/* Inside each of the tracker's write transactions, last. */
	void (*committing)(void *ctx, struct kv_txn *t);
	/* After each. */
	void (*committed)(void *ctx);
	void (*applied)(void *ctx, uint64_t height, const struct hash32 *hash);
	void (*rolled_back)(void *ctx, uint64_t ancestor, uint64_t old_tip);
	void *ctx;
};

struct tracker {
	struct loop *loop;
	struct kv *kv;
	const struct chain_config *config;
	struct tracker_watcher watcher;
	struct reads reads;
	struct loop_timer poll;
	struct loop_timer again;	/* a turn's work was cut short: the next one goes on */
	unsigned budget;		/* commits left in this turn */
	struct gather gather;
	struct window window;
	struct chain_row chain;		/* as stored */
	enum tracker_trouble trouble;
	bool unlinked;
	bool caught_up;			/* the cursor has reached the head once */
	struct obstacle obstacle;
	struct claim shorter;
	struct claim denial;
	struct lookup lookup;
	struct put_off *put_off;	/* by row */
	size_t put_off_count, put_off_cap;
	int64_t lookups_from_ms;	/* until then no row's turn comes, but of what is committed outside */
	uint64_t round;			/* counts polls: what was read by number in an older one is asked anew */
	bool stopped;
	enum err err;			/* of the store: nothing goes on after it */
};

/*
 * Begin at what the store holds; connects to the endpoints, whose texts are borrowed.  E_GENESIS, E_CORRUPT or E_IO with
 * @why.  On OK ended with tracker_stop().
 */
MUST_CHECK enum err tracker_start(struct tracker *tr, struct loop *loop, struct kv *kv,
				  const struct endpoint_urls *endpoints, unsigned endpoint_count,
				  const struct chain_config *config,
				  const struct tracker_watcher *watcher, struct complaint *why);
void tracker_stop(struct tracker *tr);

/* Something was committed outside (an intent, an attempt, an operator's word): look again. */
void tracker_look_again(struct tracker *tr);

/*
 * An operator takes the branch of the block @hash, whatever it undoes, and
 * lifts the suspension of tiers.  In the caller's write transaction; a tracker that runs then looks again.
 */
void tracker_accept(struct kv_txn *t, const struct chain_config *config, const struct hash32 *hash);

/*
 * An operator takes the receipts of the block @hash as the node's word: it is applied though they are not proven, and what it
 * would pay goes to review.  In the caller's write transaction; a tracker that runs then looks again.
 */
void tracker_accept_unproven(struct kv_txn *t, const struct chain_config *config, const struct hash32 *hash);

#endif
