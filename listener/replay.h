/*
 * replay - runs the listener against a tape.
 *
 * Each line is worked off until nothing is open and nothing due before the
 * next is read.  The store keeps the tape's identity and the last line whose effects are
 * committed, moved in that commit, so that a replay onto the same store goes on where a killed
 * one stopped.
 */
#ifndef LISTENER_REPLAY_H
#define LISTENER_REPLAY_H

#include "store/kv.h"

#include <stdio.h>

enum replay_output {
	REPLAY_EVENTS,		/* each event as a line of JSON */
	REPLAY_SUMMARY,		/* a line an intent at the end */
	REPLAY_STORY,		/* for a person */
};

struct replay_options {
	enum replay_output output;
	const char *store;	/* folder; NULL: a temporary one, removed at the end */
	size_t map_bytes;
	size_t line_max_bytes;	/* 0: the default of tape.h */
	unsigned commit_blocks;	/* in one commit, where several are in hand; 0: one */
	bool colour;		/* of a story */
	struct kv_hook hook;	/* of the store, for tests of crashes; all zero: none */
	FILE *out;
};

/* Replay the tape from @fd, called @name in complaints.  OK, or the error with one line in @why. */
MUST_CHECK enum err replay(const char *name, int fd, const struct replay_options *options,
			   struct complaint *why);

#endif
