/*
 * progress - how far catching up is, for whoever waits.
 *
 * On a terminal a bar, redrawn at most five times a second and erased when done:
 *     chain 1 [######..........] 22431423/22431990 41 blocks/s 14s left
 * Elsewhere a line a minute:
 *     catching up chain=1 at=22431423 head=22431990 blocks_per_s=41 left_s=14
 * The speed is that since it began.  Reads no clock; writes to its file only.
 */
#ifndef LISTENER_PROGRESS_H
#define LISTENER_PROGRESS_H

#include "common/types.h"

#include <stdio.h>

struct progress {
	FILE *out;			/* borrowed */
	bool terminal;			/* it is one */
	uint64_t chain_id;
	bool begun;
	bool shown;			/* a bar stands on the terminal */
	int64_t begun_ms;
	uint64_t begun_height;
	int64_t told_ms;		/* when it last wrote */
};

struct progress progress_start(FILE *out, bool terminal, uint64_t chain_id);
/* The tip is at @tip_height of @head_height; at the head this is progress_done().  A few blocks behind is no catching up. */
void progress_step(struct progress *p, int64_t now_ms, uint64_t tip_height, uint64_t head_height);
/* The head is reached, or nobody follows any more.  At any time, also twice. */
void progress_done(struct progress *p);

#endif
