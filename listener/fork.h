/*
 * fork - what to do about a candidate head: the plan, and nothing but the plan.
 *
 * Pure.  A head is a hint; blocks are linked by hash, a number is only a hint
 * too.  A plan is never kept: after every event it is made again from what is
 * known then, so a late answer can do no harm.
 */
#ifndef LISTENER_FORK_H
#define LISTENER_FORK_H

#include "common/types.h"

/* What we know of a header: its place in the tree. */
struct link {
	struct hash32 hash;
	struct hash32 parent;
	uint64_t height;
};

/* Known headers by hash, oldest forgotten first. */
#define LINKS_MAX 1024
struct links {
	struct link at[LINKS_MAX];
	uint16_t first[LINKS_MAX];	/* by a part of the hash: 1 + the place of one with it; 0: none */
	uint16_t after[LINKS_MAX];	/* of each: 1 + the place of the next one with that part */
	unsigned count;
	unsigned next;			/* where the next one goes */
};
void links_add(struct links *l, const struct link *link);
const struct link *links_find(const struct links *l, const struct hash32 *hash);

/* The top of our canonical chain: hashes of [base, base + count). */
struct window {
	uint64_t base_height;
	struct hash32 *hashes;		/* owned */
	size_t count;
	size_t cap;
};
void window_free(struct window *w);
void window_push(struct window *w, uint64_t height, const struct hash32 *hash);
/* Drop all above @height. */
void window_cut(struct window *w, uint64_t height);
/* Drop all below @height. */
void window_trim(struct window *w, uint64_t height);
/* NULL if the window does not hold that height. */
const struct hash32 *window_at(const struct window *w, uint64_t height);
/* Of a window with at least one block. */
uint64_t window_tip_height(const struct window *w);

enum plan_kind {
	PLAN_CURRENT,		/* the head is our tip */
	PLAN_BEHIND,		/* the head is a block of ours below the tip: lag, not a reorg */
	PLAN_NEED_HEADER,	/* ask for header @hash */
	PLAN_FORWARD,		/* far behind: ask for height @from by number */
	PLAN_EXTEND,		/* apply @path, oldest first */
	PLAN_ROLLBACK,		/* cut to @ancestor, then apply @path */
	PLAN_SHORTER,		/* as rollback, but to a lower head: must be said twice */
	PLAN_UNLINKED,		/* no common ancestor in the window */
	PLAN_VIOLATION,		/* would undo a final block: a claim until said twice */
};
const char *plan_name(enum plan_kind kind);

#define PLAN_PATH_MAX 32	/* blocks of a path that one plan names; the next plan names more */

struct fork_limits {
	bool has_floor;
	uint64_t floor_height;	/* the lowest watermark: nothing at or below it may be undone */
	uint64_t far_blocks;	/* a head this far above the tip is fetched forward by number */
	bool at_start;		/* the window's base is where following began: below it nothing was applied */
};

struct fork_plan {
	enum plan_kind kind;
	struct hash32 hash;			/* NEED_HEADER */
	uint64_t from;				/* FORWARD: the first height wanted */
	uint64_t ancestor;			/* ROLLBACK, SHORTER, VIOLATION: height of the last common block */
	bool below_start;			/* the last common block lies deeper: all is undone, to the base's height */
	struct hash32 base;			/* the new branch's block there */
	struct hash32 path[PLAN_PATH_MAX];	/* ascending */
	unsigned path_count;
};

/* Plan for @head, of which the header may not be known yet.  The window is not empty. */
struct fork_plan fork_plan(const struct window *w, const struct links *known,
			   const struct hash32 *head, const struct fork_limits *limits);

#endif
