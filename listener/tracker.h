/*
 * tracker - follows one chain: plans, needs, and plans again.
 *
 *     a head, a tag, an answer, a timer -> tracker_run -> fork_plan:
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
};

/* Something was said that must be said twice, a poll apart. */
struct claim {
	bool said;
	struct hash32 what;
	int64_t since_ms;
	uint64_t round;			/* of polls */
};

/* How far the first lookup is: what was looked at in vain is not looked at again. */
struct lookup {
	uint64_t row;
	uint32_t attempt;		/* the one at hand */
	bool misled;			/* a block that its prefix named does not hold it */
	struct tx_place too_old;	/* an attempt below all hashes that we keep */
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
	struct gather gather;
	struct window window;
	struct chain_row chain;		/* as stored */
	enum tracker_trouble trouble;
	struct claim shorter;
	struct claim denial;
	struct lookup lookup;
	uint64_t round;			/* counts polls: what was read by number in an older one is asked anew */
	bool stopped;
	enum err err;			/* of the store: nothing goes on after it */
};

/*
 * Begin at what the store holds; connects to the endpoints @urls, which are borrowed.  E_GENESIS, E_CORRUPT or E_IO with
 * @why.  On OK ended with tracker_stop().
 */
MUST_CHECK enum err tracker_start(struct tracker *tr, struct loop *loop, struct kv *kv,
				  const char *const *urls, unsigned url_count,
				  const struct chain_config *config,
				  const struct tracker_watcher *watcher, struct complaint *why);
void tracker_stop(struct tracker *tr);

/* Something changed outside (an intent, an attempt): look again. */
void tracker_run(struct tracker *tr);

/*
 * An operator takes the branch of the block @hash, whatever it undoes, and
 * lifts the suspension of tiers.  In the caller's write transaction; then tracker_run().
 */
void tracker_accept(struct kv_txn *t, struct tracker *tr, const struct hash32 *hash);

#endif
