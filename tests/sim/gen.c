/*
 * The plan of a seed.  The truth keeps what its policy promises: no head ever leaves what was final under
 * it, and no branch that is shown grows so deep that it would be final without being the last one's.
 */
#include "tests/sim/gen.h"

#define SLOT_MS 12000
#define FIRST_BLOCKS 6

void gen_add(struct gen *g, enum item_kind kind, int64_t at_ms, const int64_t *args, size_t count)
{
	struct item *it = plan_add(g->p, kind, at_ms);

	for (size_t i = 0; i < count; i++)
		it->arg[i] = args[i];
}

/* What the chain is told. */

static void make_config(struct gen *g)
{
	static const unsigned depths[] = { 6, 12, 25 };
	static const enum policy_kind kinds[] = {
		POLICY_FINALIZED, POLICY_FINALIZED, POLICY_FINALIZED, POLICY_DEPTH, POLICY_SAFE_DEPTH,
		POLICY_FINALIZED_DEPTH, POLICY_TIERS, POLICY_TIERS,
	};
	enum policy_kind policy = kinds[below(g, ARRAY_SIZE(kinds))];
	unsigned depth = depths[below(g, 3)];
	bool fixed = policy == POLICY_DEPTH || policy == POLICY_SAFE_DEPTH || policy == POLICY_TIERS;

	g->depth = fixed ? depth : 0;
	g->tiers = policy == POLICY_TIERS;
	g->max_fork = fixed && depth <= 20 ? depth - 1 : 20;
	g->final_lag = of(g, 30) ? 22 : 4;
	g->endpoints = 1 + (unsigned)below(g, 3);
	ADD(g, ITEM_POLICY, 0, policy, depth, 5000);
	ADD(g, ITEM_WITNESS, 0, (int64_t)(of(g, 70) ? 0 : 1 + below(g, 2)));
	ADD(g, ITEM_LIMITS, 0, 240, 120, g->endpoints == 1 ? 60000 : 0, 2, of(g, 20) ? 4 : 64);
	for (unsigned i = 0; i < g->endpoints; i++) {
		int64_t lag_ms = of(g, 50) ? (int64_t)below(g, 3000) : 0;
		bool forgets = of(g, 25), announces_all = of(g, 50);

		ADD(g, ITEM_ENDPOINT, 0, i, lag_ms, forgets, announces_all);
	}
}

/* The tree. */

static int up(const struct gen *g, int block, uint64_t height)
{
	while (g->height[block] > height)
		block = g->parent[block];
	return block;
}

static void fill(struct gen *g, struct item *it, int id, int64_t at_ms)
{
	for (size_t i = 0; i < g->pool_count; i++) {
		const struct pooled *p = &g->pool[i];
		uint64_t bit = (uint64_t)1 << p->tx, group = p->group ? (uint64_t)1 << p->group : 0;

		if (p->from_ms > at_ms || p->until_ms < at_ms || (g->mined[id] & bit) || (g->groups_mined[id] & group) || !of(g, p->percent) ||
		    it->tx_count == 6)
			continue;
		it->txs[it->tx_count++] = (uint8_t)p->tx;
		g->mined[id] |= bit;
		g->groups_mined[id] |= group;
	}
	for (unsigned i = it->tx_count; i > 1; i--) {
		unsigned k = (unsigned)below(g, i);
		uint8_t tx = it->txs[i - 1];

		it->txs[i - 1] = it->txs[k];
		it->txs[k] = tx;
	}
}

static int make_block(struct gen *g, int parent, int64_t at_ms)
{
	int id = g->blocks++;
	struct item *it = plan_add(g->p, ITEM_BLOCK, at_ms);

	it->arg[0] = id;
	it->arg[1] = parent;
	g->parent[id] = parent;
	g->height[id] = parent < 0 ? START_HEIGHT : g->height[parent] + 1;
	g->mined[id] = parent < 0 ? 0 : g->mined[parent];
	g->groups_mined[id] = parent < 0 ? 0 : g->groups_mined[parent];
	fill(g, it, id, at_ms);
	return id;
}

/* Whoever looks at this head may hold what lies at the policy's depth final. */
static void show(struct gen *g, int head)
{
	if (g->depth && g->height[head] + 1 > g->depth + g->height[g->floor])
		g->floor = up(g, head, g->height[head] + 1 - g->depth);
}

static void set_head(struct gen *g, int head, int64_t at_ms)
{
	ADD(g, ITEM_HEAD, at_ms, head);
	g->head = head;
	show(g, head);
}

static unsigned fork_depth(struct gen *g)
{
	uint64_t room = g->height[g->head] - g->height[g->floor];
	uint64_t kind = below(g, 100);
	uint64_t depth = kind < 45 ? 1 : kind < 75 ? 2 + below(g, 4) : 6 + below(g, 15);

	if (depth > room)
		depth = room;
	return (unsigned)(depth > g->max_fork ? g->max_fork : depth);
}

static void make_fork(struct gen *g, int64_t at_ms)
{
	unsigned depth = fork_depth(g), len = depth + (unsigned)below(g, 2);
	int block = up(g, g->head, g->height[g->head] - depth);

	if (!depth)
		return;
	if (of(g, 25) && len > 1)
		len -= 1 + (unsigned)below(g, 2) % len;
	if (g->depth && len >= g->depth)
		len = g->depth - 1;
	g->lost = of(g, 40) ? g->head : -1;
	for (unsigned i = 0; i < (len ? len : 1); i++) {
		block = make_block(g, block, at_ms);
		if (of(g, 20))
			set_head(g, block, at_ms);
	}
	set_head(g, block, at_ms);
}

/* Back to the branch that was left, a block longer or as it was. */
static void go_back(struct gen *g, int64_t at_ms)
{
	int to = g->lost;

	g->lost = -1;
	if (up(g, to, g->height[g->floor]) != g->floor)
		return;
	if (of(g, 60))
		to = make_block(g, to, at_ms);
	g->lost = of(g, 40) ? g->head : -1;
	set_head(g, to, at_ms);
}

static void rewind_head(struct gen *g, int64_t at_ms)
{
	unsigned depth = fork_depth(g);

	if (!depth)
		return;
	g->lost = of(g, 50) ? g->head : -1;
	set_head(g, up(g, g->head, g->height[g->head] - (depth > 3 ? 3 : depth)), at_ms);
}

static void advance_final(struct gen *g, int64_t at_ms)
{
	uint64_t lag = g->final_lag + below(g, 5);
	int to;

	if (!of(g, 22) || g->height[g->head] < lag + g->height[g->final])
		return;
	to = up(g, g->head, g->height[g->head] - lag);
	if (g->height[to] <= g->height[g->final] || up(g, to, g->height[g->final]) != g->final)
		return;
	g->final = to;
	if (g->height[to] > g->height[g->floor])
		g->floor = to;
	ADD(g, ITEM_FINAL, at_ms + 2000, to);
}

/* Some endpoints see a branch that nobody else does; it may even go below what is final. */
static void make_stray(struct gen *g, int64_t at_ms)
{
	uint64_t deep = of(g, 30) ? 1 + below(g, 12) : 0, height = g->height[g->head];
	uint64_t from = height - below(g, 1 + height - g->height[g->floor]);
	int64_t ms = 10000 + (int64_t)below(g, 60000);
	unsigned who = (unsigned)below(g, g->endpoints), len = 1 + (unsigned)below(g, 3);
	bool all = deep && of(g, 50);
	int block;

	if (deep)
		from = g->height[g->floor] > START_HEIGHT + FIRST_BLOCKS + deep ? g->height[g->floor] - deep
										 : START_HEIGHT + FIRST_BLOCKS;
	if (from > height)
		return;
	block = up(g, g->head, from);
	for (unsigned i = 0; i < len && g->blocks < QUIET_BLOCKS - 8; i++)
		block = make_block(g, block, at_ms);
	if (!deep)
		show(g, block);
	for (unsigned i = 0; i < g->endpoints; i++) {
		if (all || i == who)
			ADD(g, ITEM_VIEW, at_ms, i, block, ms);
	}
}

/* The chain itself breaks its word: the head goes to a branch from below what was final.  An operator accepts it. */
static void break_final(struct gen *g, int64_t at_ms)
{
	uint64_t first = START_HEIGHT + FIRST_BLOCKS, floor = g->height[g->floor];
	uint64_t from = floor > first + 14 ? floor - 1 - below(g, 14) : first, len = g->height[g->head] - from + 1;
	int old = g->head, block;

	if (floor <= first || g->blocks + (int)len >= QUIET_BLOCKS - 8)
		return;
	block = up(g, old, from);
	g->final = g->floor = block;
	g->lost = -1;
	for (uint64_t i = 0; i < len; i++)
		block = make_block(g, block, at_ms);
	ADD(g, ITEM_FINAL, at_ms, g->final);
	set_head(g, block, at_ms);
	ADD(g, ITEM_ACCEPT, at_ms + 60000, old);
}

static void make_slots(struct gen *g, unsigned slots)
{
	int64_t at_ms = 0;
	unsigned stall = 0, broken = !g->tiers && of(g, 6) ? slots - 1 - (unsigned)below(g, 8) : 0;

	for (unsigned n = 0; n < slots && g->blocks < QUIET_BLOCKS - 40; n++) {
		uint64_t kind = below(g, 100);

		at_ms += SLOT_MS * (of(g, 10) ? 1 + (int64_t)below(g, 3) : 1);
		if (broken && n == broken)
			break_final(g, at_ms);
		else if (broken && n > broken)
			set_head(g, make_block(g, g->head, at_ms), at_ms);
		else if (g->lost >= 0 && of(g, 60))
			go_back(g, at_ms);
		else if (n > 4 && kind < 12)
			make_fork(g, at_ms);
		else if (n > 4 && kind < 15)
			rewind_head(g, at_ms);
		else
			set_head(g, make_block(g, g->head, at_ms), at_ms);
		/* Under one tier's mark alone a branch is followed, and that tier then waits for an operator. */
		if (n > 5 && of(g, 4) && !g->tiers && !broken)
			make_stray(g, at_ms + 1000);
		if (stall)
			stall--;
		else if (of(g, 4))
			stall = 5 + (unsigned)below(g, 25);
		else
			advance_final(g, at_ms);
	}
}

/* What goes wrong. */

static void make_lie(struct gen *g)
{
	int block = (int)below(g, (uint64_t)g->blocks);
	int64_t at_ms = 60000 + (int64_t)below(g, (uint64_t)g->end_ms), who = (int64_t)below(g, g->endpoints);

	ADD(g, ITEM_LIE, at_ms, who, block, 10000 + (int64_t)below(g, 30000));
}

static void make_faults(struct gen *g)
{
	unsigned count = of(g, 15) ? 0 : (unsigned)below(g, 12);

	for (unsigned n = 0; n < count; n++) {
		int64_t at_ms = 60000 + (int64_t)below(g, (uint64_t)g->end_ms), who = (int64_t)below(g, g->endpoints);
		int64_t ms = 5000 + (int64_t)below(g, 90000), method = (int64_t)below(g, 8), answer = (int64_t)below(g, 9);
		uint64_t kind = below(g, 100);

		if (kind < 60)
			ADD(g, ITEM_FAULT, at_ms, who, method, answer == ANSWER_OTHER && g->tiers ? ANSWER_NULL : answer,
			    of(g, 30) ? 100 : 20 + (int64_t)below(g, 60), ms);
		else if (kind < 75)
			ADD(g, ITEM_DOWN, at_ms, who, of(g, 40), ms);
		else if (kind < 85)
			ADD(g, ITEM_CLOSE, at_ms, who);
		else
			ADD(g, ITEM_NEWS, at_ms, who, (int64_t)below(g, 5), ms);
	}
	if (count && of(g, 30))
		make_lie(g);
	for (uint64_t n = of(g, 50) ? below(g, 5) : 0; n > 0; n--) {
		int64_t at_ms = 30000 + (int64_t)below(g, (uint64_t)g->end_ms), commits = 1 + (int64_t)below(g, 6);
		int64_t down_ms = 100 + (int64_t)below(g, of(g, 80) ? 10000 : 90000);

		ADD(g, ITEM_CRASH, at_ms, of(g, 50), commits, down_ms);
	}
}

void plan_make(struct plan *p, uint64_t seed)
{
	struct gen g = { .p = p, .c = seed, .lost = -1 };
	unsigned slots;

	*p = (struct plan){ .seed = seed };
	chance(&g.c);
	make_config(&g);
	slots = 20 + (unsigned)below(&g, 50);
	g.end_ms = (int64_t)slots * SLOT_MS;
	gen_intents(&g);
	for (int n = 0; n < FIRST_BLOCKS; n++) {
		int64_t at_ms = (n + 1 - FIRST_BLOCKS) * SLOT_MS;

		g.head = make_block(&g, n - 1, at_ms);
		ADD(&g, ITEM_HEAD, at_ms - 10000, g.head);
	}
	g.final = 1;
	g.floor = FIRST_BLOCKS - 1;
	ADD(&g, ITEM_FINAL, -20000, 1);
	make_slots(&g, slots);
	make_faults(&g);
}
