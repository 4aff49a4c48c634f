/*
 * reseal - makes a recorded chain reorg.
 *
 * The last blocks below a height are sealed again, without some transactions
 * or with them moved to the block after, hashes and roots valid; the new branch is told and
 * announced after the old one, and what the tape says afterwards of the old
 * blocks it says of the new ones.
 */
#ifndef LISTENER_RESEAL_H
#define LISTENER_RESEAL_H

#include "common/types.h"

#define RESEAL_TXS_MAX 64

struct reseal {
	bool has_at;
	uint64_t at;			/* the height of the head that is replaced; else that of the last head */
	uint64_t depth;			/* blocks that are sealed again, at least 1 */
	struct hash32 drop[RESEAL_TXS_MAX];
	size_t drop_count;
	struct hash32 move[RESEAL_TXS_MAX];
	size_t move_count;
};

/*
 * Append to @out the tape read from @fd, called @name, with the reorg in it.
 * E_INPUT with "name:line: reason" for a bad tape; E_NOT_FOUND, with what in @why, for a height,
 * an ancestor or a transaction that the tape does not have there.
 */
MUST_CHECK enum err reseal_tape(const char *name, int fd, const struct reseal *how, struct buf *out,
				struct complaint *why);

#endif
