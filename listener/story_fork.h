/*
 * story_fork - the blocks of a story, and the drawing of a fork.
 */
#ifndef LISTENER_STORY_FORK_H
#define LISTENER_STORY_FORK_H

#include "store/outbox.h"

/* A block that the tape told. */
struct told_block {
	uint64_t height;
	struct hash32 hash, parent;
	int64_t time_s;
};

struct story_chain {
	struct told_block *told;
	size_t told_count, told_cap;
	struct block_ref *ours;		/* as applied, heights rising */
	size_t ours_count, ours_cap;
};

void story_chain_free(struct story_chain *c);
void story_chain_tell(struct story_chain *c, const struct told_block *b);
const struct told_block *story_chain_find(const struct story_chain *c, const struct hash32 *hash);
void story_chain_push(struct story_chain *c, uint64_t height, const struct hash32 *hash);
/* Drop ours above @ancestor. */
void story_chain_cut(struct story_chain *c, uint64_t ancestor);
/* Our block at @height, or NULL. */
const struct block_ref *story_chain_at(const struct story_chain *c, uint64_t height);

/*
 * Two lines, each ended by a NUL, of a fork above @ancestor:
 *     101 ─┬─ 102 0xe4ec..5c67  lost
 *          └─ 102 0xb068..fafd ─ 103 0x65a7..8f58  the chain now
 * Ours are drawn as lost, the branch of @new_tip as new; a long middle is "…".
 */
void story_chain_draw(const struct story_chain *c, const struct block_ref *ancestor,
		      const struct block_ref *new_tip, struct buf *lost, struct buf *kept);

#endif
