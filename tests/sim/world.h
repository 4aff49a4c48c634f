/*
 * world - the simulator's world behind loop.h: a virtual clock, an event queue with seeded
 * latencies, and endpoints that each see the tree in their own way and misbehave.
 *
 * Facts of the plan that are not the world's own (requests, crashes) are handed to on_item when
 * their time comes.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "listener/loop.h"
#include "tests/sim/tree.h"

/* What is counted over all runs. */
enum tally {
	TALLY_BLOCKS,
	TALLY_REORG_1,
	TALLY_REORG_2_5,
	TALLY_REORG_6_12,
	TALLY_REORG_13,
	TALLY_RETURNS,			/* back on a tip that was left */
	TALLY_REQUESTS,			/* asked of endpoints */
	TALLY_UNREACHABLE,
	TALLY_NULL,
	TALLY_EMPTY,
	TALLY_OTHER,
	TALLY_ERROR,
	TALLY_LOST,
	TALLY_LATE,
	TALLY_TAMPERED,
	TALLY_STALE,
	TALLY_GARBAGE,
	TALLY_LIES,			/* wrong finalized */
	TALLY_STRAYS,			/* an endpoint on another branch */
	TALLY_CLOSED,
	TALLY_NEWS,			/* heads skipped, repeated, delayed, bare, broken */
	TALLY_CRASHES,
	TALLY_COMMITS,
	TALLY_EVENTS,
	TALLY_LATE_BALANCES,		/* intents seen in a block that did not wait for a balance */
	TALLY_SETTLED,
	TALLY_REVIEWED,
	TALLY_PUT_BACK,			/* confirming -> settling */
	TALLY_REPLACED,
	TALLY_UNMATCHED,
	TALLY_AMBIGUOUS,
	TALLY_DECIDED,			/* by a person */
	TALLY_FAILED,
	TALLY_LATCHED,
	TALLY_REVERSED,
	TALLY_DECISIVE,			/* intents whose end the oracle knows exactly */
	TALLY_LOOSELY,			/* of which it allows several */
	TALLIES,
};
extern const char *const tally_names[TALLIES];

enum method {
	METHOD_ANY,
	METHOD_HASH,
	METHOD_NUMBER,
	METHOD_LATEST,
	METHOD_RECEIPTS,
	METHOD_TX,
	METHOD_CALL,
	METHOD_TAG,
	METHODS,
};

enum answer {
	ANSWER_NULL,
	ANSWER_EMPTY,
	ANSWER_OTHER,
	ANSWER_ERROR,
	ANSWER_LOST,
	ANSWER_LATE,
	ANSWER_TAMPERED,
	ANSWER_STALE,
	ANSWER_GARBAGE,
	ANSWERS,
};

struct event {
	int64_t at_ms;
	uint64_t sequence;
	enum { EVENT_ANSWER, EVENT_OPENED, EVENT_CLOSED, EVENT_MESSAGE, EVENT_ITEM, EVENT_LOOK } kind;
	unsigned endpoint, generation;
	struct loop_post *post;
	enum loop_end end;
	size_t item;
	struct buf text;
};

struct fault {
	enum method method;
	enum answer answer;
	unsigned percent;
	int64_t until_ms;
};
#define FAULTS_MAX 8

struct endpoint {
	int64_t lag_ms;
	bool forgets;			/* blocks off its chain */
	bool announces_all;		/* each new block, not only the tip */
	struct loop_socket *socket;
	unsigned generation;		/* of the socket's openings */
	bool subscribed;
	int announced;			/* -1: nothing */
	int view, lie;
	int64_t view_until_ms, lie_until_ms;
	int64_t down_until_ms, news_until_ms;
	bool silent;
	enum news_mode news;
	struct fault faults[FAULTS_MAX];
	unsigned next_fault;
};

struct world {
	struct loop loop;		/* first: the world is its loop */
	int64_t now_ms;			/* since the start */
	uint64_t chance;
	uint64_t sequence;
	const struct plan *plan;
	const struct tree *tree;
	struct event *heap;
	size_t count, cap;
	struct loop_timer *timers;
	struct endpoint endpoints[ENDPOINTS_MAX];
	unsigned endpoint_count;
	void (*on_item)(void *ctx, const struct item *item);
	void *ctx;
	uint64_t *tally;
};

void world_init(struct world *w, const struct plan *p, const struct tree *t, uint64_t *tally);
void world_free(struct world *w);
/* When the next thing happens; INT64_MAX: nothing is left. */
int64_t world_next_ms(const struct world *w);
/* Let the next thing happen; false: nothing is left. */
bool world_step(struct world *w);
/* The process died: its timers, sockets and requests end. */
void world_forget_process(struct world *w);
/* Hand the item over again at @at_ms. */
void world_again(struct world *w, const struct item *item, int64_t at_ms);

/* node: what an endpoint sees and says. */
int node_head(const struct world *w, unsigned endpoint);
/* Append the answer to the request; false: it gets none. @delay_ms is added to. */
bool node_answer(struct world *w, unsigned endpoint, struct slice request, struct buf *out, int64_t *delay_ms);
void node_put_block(const struct world *w, int block, struct buf *out);

#endif
