#include "listener/fork.h"

#include <stdlib.h>
#include <string.h>

static const char *const plan_names[] = {
	[PLAN_CURRENT] = "current",
	[PLAN_BEHIND] = "behind",
	[PLAN_NEED_HEADER] = "need header",
	[PLAN_FORWARD] = "forward",
	[PLAN_EXTEND] = "extend",
	[PLAN_ROLLBACK] = "roll back",
	[PLAN_SHORTER] = "shorter branch",
	[PLAN_UNLINKED] = "unlinked",
	[PLAN_VIOLATION] = "violation",
};

const char *plan_name(enum plan_kind kind)
{
	return plan_names[kind];
}

static unsigned part_of(const struct hash32 *hash)
{
	return (hash->b[0] | (unsigned)hash->b[1] << 8) % LINKS_MAX;
}

const struct link *links_find(const struct links *l, const struct hash32 *hash)
{
	for (unsigned i = l->first[part_of(hash)]; i; i = l->after[i - 1]) {
		if (hash_eq(&l->at[i - 1].hash, hash))
			return &l->at[i - 1];
	}
	return NULL;
}

static void forget_oldest(struct links *l)
{
	uint16_t *i = &l->first[part_of(&l->at[l->next].hash)];

	while (*i != l->next + 1)
		i = &l->after[*i - 1];
	*i = l->after[l->next];
}

void links_add(struct links *l, const struct link *link)
{
	if (links_find(l, &link->hash))
		return;
	if (l->count == LINKS_MAX)
		forget_oldest(l);
	l->at[l->next] = *link;
	l->after[l->next] = l->first[part_of(&link->hash)];
	l->first[part_of(&link->hash)] = (uint16_t)(l->next + 1);
	l->next = (l->next + 1) % LINKS_MAX;
	if (l->count < LINKS_MAX)
		l->count++;
}

void window_free(struct window *w)
{
	free(w->hashes);
	*w = (struct window){ 0 };
}

void window_push(struct window *w, uint64_t height, const struct hash32 *hash)
{
	if (w->count == 0)
		w->base_height = height;
	if (w->count == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 64;
		w->hashes = xrealloc(w->hashes, w->cap * sizeof(*w->hashes));
	}
	w->hashes[w->count++] = *hash;
}

void window_cut(struct window *w, uint64_t height)
{
	if (height < w->base_height)
		w->count = 0;
	else if (height - w->base_height + 1 < w->count)
		w->count = height - w->base_height + 1;
}

void window_trim(struct window *w, uint64_t height)
{
	size_t drop;

	if (height <= w->base_height || w->count == 0)
		return;
	drop = height - w->base_height;
	if (drop >= w->count)
		drop = w->count - 1;
	memmove(w->hashes, w->hashes + drop, (w->count - drop) * sizeof(*w->hashes));
	w->count -= drop;
	w->base_height += drop;
}

const struct hash32 *window_at(const struct window *w, uint64_t height)
{
	if (height < w->base_height || height - w->base_height >= w->count)
		return NULL;
	return &w->hashes[height - w->base_height];
}

uint64_t window_tip_height(const struct window *w)
{
	return w->base_height + w->count - 1;
}

static bool window_has(const struct window *w, uint64_t height, const struct hash32 *hash)
{
	const struct hash32 *ours = window_at(w, height);

	return ours && hash_eq(ours, hash);
}

/* The path grows downwards from the head; only its lowest blocks are kept. */
static void path_push(struct fork_plan *plan, const struct hash32 *hash)
{
	if (plan->path_count == PLAN_PATH_MAX) {
		memmove(plan->path, plan->path + 1, (PLAN_PATH_MAX - 1) * sizeof(plan->path[0]));
		plan->path_count--;
	}
	plan->path[plan->path_count++] = *hash;
}

static void path_reverse(struct fork_plan *plan)
{
	for (unsigned i = 0, k = plan->path_count; i + 1 < k; i++) {
		struct hash32 low = plan->path[--k];

		plan->path[k] = plan->path[i];
		plan->path[i] = low;
	}
}

static enum plan_kind kind_at_ancestor(const struct window *w, uint64_t ancestor, uint64_t head_height,
				       const struct fork_limits *limits)
{
	uint64_t tip = window_tip_height(w);

	if (ancestor == tip)
		return PLAN_EXTEND;
	if (limits->has_floor && ancestor < limits->floor_height)
		return PLAN_VIOLATION;
	return head_height < tip ? PLAN_SHORTER : PLAN_ROLLBACK;
}

/* The branch does not meet the window. */
static struct fork_plan plan_apart(struct fork_plan plan, const struct window *w, bool final)
{
	plan.kind = final ? PLAN_VIOLATION : PLAN_UNLINKED;
	plan.ancestor = w->base_height;
	plan.path_count = 0;
	return plan;
}

static struct fork_plan plan_forward(struct fork_plan plan, uint64_t tip)
{
	plan.kind = PLAN_FORWARD;
	plan.from = tip + 1;
	plan.path_count = 0;
	return plan;
}

/* The branch leaves ours below the place where following began. */
static struct fork_plan plan_anew(struct fork_plan plan, const struct window *w, const struct link *base,
				  uint64_t head_height)
{
	plan.kind = head_height < window_tip_height(w) ? PLAN_SHORTER : PLAN_ROLLBACK;
	plan.ancestor = w->base_height;
	plan.below_start = true;
	plan.base = base->hash;
	path_reverse(&plan);
	return plan;
}

struct fork_plan fork_plan(const struct window *w, const struct links *known,
			   const struct hash32 *head, const struct fork_limits *limits)
{
	struct fork_plan plan = { 0 };
	uint64_t tip = window_tip_height(w);
	const struct link *top = links_find(known, head);
	const struct link *at = top;
	unsigned steps = 0;

	if (hash_eq(window_at(w, tip), head)) {
		plan.kind = PLAN_CURRENT;
		return plan;
	}
	if (!top) {
		plan.kind = PLAN_NEED_HEADER;
		plan.hash = *head;
		return plan;
	}
	if (window_has(w, top->height, head)) {
		plan.kind = PLAN_BEHIND;
		return plan;
	}
	while (at) {
		/* A branch longer than what is remembered of headers would be asked for in a circle: forward then, if it is that far. */
		if (++steps == LINKS_MAX)
			return at->height > tip + limits->far_blocks ? plan_forward(plan, tip) : plan_apart(plan, w, false);
		if (limits->at_start && at->height == w->base_height && top->height > at->height && !limits->has_floor)
			return plan_anew(plan, w, at, top->height);
		path_push(&plan, &at->hash);
		if (at->height <= w->base_height)
			return plan_apart(plan, w, limits->has_floor && w->base_height <= limits->floor_height);
		if (window_has(w, at->height - 1, &at->parent)) {
			plan.ancestor = at->height - 1;
			plan.kind = kind_at_ancestor(w, plan.ancestor, top->height, limits);
			path_reverse(&plan);
			return plan;
		}
		plan.hash = at->parent;
		plan.from = at->height;
		at = links_find(known, &at->parent);
		/* A header is free to lie about its height. */
		if (at && at->height + 1 != plan.from)
			return plan_apart(plan, w, false);
	}
	if (plan.from > tip + limits->far_blocks)
		return plan_forward(plan, tip);
	plan.kind = PLAN_NEED_HEADER;
	plan.path_count = 0;
	return plan;
}
