/*
 * gen - a plan being made.  Shared by gen.c (chain and faults) and gen_intents.c (payments and requests).
 */
#ifndef TESTS_SIM_GEN_H
#define TESTS_SIM_GEN_H

#include "tests/sim/world.h"

struct pooled {
	int tx;
	int64_t from_ms;
	unsigned percent;
	int64_t until_ms;		/* mined no more after it */
	unsigned group;			/* of one nonce: only one of them is mined on a branch; 0: none */
};

struct gen {
	struct plan *p;
	uint64_t c;			/* chance */
	int64_t end_ms;			/* about when the slots end */
	unsigned depth;			/* of the policy; 0: none */
	unsigned max_fork;
	bool tiers;
	unsigned final_lag;
	unsigned endpoints;
	int intents, txs, blocks;
	unsigned groups;
	struct pooled pool[TXS_MAX];
	size_t pool_count;
	int parent[QUIET_BLOCKS];
	uint64_t height[QUIET_BLOCKS];
	uint64_t mined[QUIET_BLOCKS];	/* transactions up to and in it, as bits */
	uint64_t groups_mined[QUIET_BLOCKS];
	int head, final, floor, lost;	/* blocks; the floor must stay; -1 */
};

static inline uint64_t below(struct gen *g, uint64_t n)
{
	return chance_below(&g->c, n);
}

static inline bool of(struct gen *g, unsigned percent)
{
	return chance_of(&g->c, percent);
}

/* A line of the plan; what is not given is 0. */
void gen_add(struct gen *g, enum item_kind kind, int64_t at_ms, const int64_t *args, size_t count);
#define ADD(g, kind, at_ms, ...) \
	gen_add(g, kind, at_ms, (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* The intents, their transactions, and what is asked for them. */
void gen_intents(struct gen *g);

#endif
