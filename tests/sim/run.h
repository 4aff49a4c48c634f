/*
 * run - one run of a plan: the real tracker, desk and store in the simulator's world, crashes
 * included, watched at every commit and compared with the oracle at the end.
 */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "listener/desk.h"
#include "listener/tracker.h"
#include "tests/sim/world.h"

#define REQUESTS_MAX 160
#define KEEP_STATE_SHORT 3	/* blocks, where a late balance is given up soon */

/* A request as it was committed. */
struct request_done {
	enum item_kind kind;
	int intent, tx;
	bool settled;			/* of a decision */
	enum move_outcome outcome;
	uint64_t commit;		/* its number */
	int64_t tip_time_s;		/* the chain's then; 0: none yet */
};

struct watched_intent {
	bool there;
	struct intent intent;		/* as its last commit left it */
	uint64_t created_commit;
	bool reviewed;			/* was ever in needs_review */
	bool decided;			/* a person settled or failed it */
	bool failed;			/* ended by api or relayer */
	int settled_block;		/* by the listener; -1 */
};

/* What the store said when our tip was this block. */
struct snapshot {
	uint64_t epoch;			/* 0: none */
	struct {
		bool compared, attempted;
		enum intent_state state;
		struct hash32 tx_hash;
	} of[INTENTS_MAX];
};

struct told {
	char code[REASON_CODE_MAX];	/* of transfer.unmatched and transfer.ambiguous */
	int tx, intent;			/* -1: none */
};
#define TOLD_MAX 256

struct watched {
	uint64_t commits, epoch;
	uint64_t last_event, chain_events;
	struct buf ids;			/* of all events, 27 bytes each */
	struct chain_row chain;
	struct watched_intent intents[INTENTS_MAX];
	uint64_t first_applied[TXS_MAX];	/* the commit; 0: never */
	uint8_t settled_by[TXS_MAX][LOGS_MAX];	/* intent + 1 */
	bool visited[BLOCKS_MAX];
	struct snapshot snapshots[BLOCKS_MAX];
	struct told told[TOLD_MAX];
	size_t told_count;
};

struct run {
	struct plan plan;		/* with the quiet end */
	struct tree tree;
	struct world world;
	struct chain_config config;
	const char *dir;
	struct kv *kv;
	struct tracker tracker;
	bool up;			/* the process lives */
	bool dead;			/* it died in this turn */
	int64_t restart_ms;
	unsigned crash_commits;		/* 0: none is to come */
	bool crash_after;
	int64_t crash_ms;
	struct watched watch;
	struct request_done done[REQUESTS_MAX];
	size_t done_count;
	uint64_t *tally;
	bool violated;
	char what[48];			/* the invariant's name */
	char text[600];
};

/* The first one sticks. */
void violate(struct run *r, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct run_result {
	bool violated;
	char what[48], text[600];
	struct hash32 digest;		/* of all events' bytes */
};

/* Run it in an empty store in @dir. */
void run_plan(const struct plan *p, const char *dir, uint64_t *tally, bool digest, struct run_result *out);

/* requests: ask the desk for what the item says. */
void run_ask(struct run *r, const struct item *it);

/* watch: after a commit. */
void watch_commit(struct run *r);
/* The new events; how many of them tell of a reorg. */
unsigned watch_events(struct run *r, struct kv_txn *t, int old, int tip);
/* oracle: what each intent must have become. */
void oracle_judge(struct run *r);
/* And what they may still have, once persons have decided. */
void oracle_judge_owners(struct run *r);
/* The plan's number of an intent from its id; -1. */
int intent_number(const char *id);

#endif
