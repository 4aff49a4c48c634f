/*
 * forge - a tape (README, "Replaying") from a short symbolic text, with true header
 * hashes, parent links, receipts roots and blooms, so that a reorg can be
 * written down in ten lines.  The language is told by "tidemark help forge".
 */
#ifndef LISTENER_FORGE_H
#define LISTENER_FORGE_H

#include "common/types.h"

/* The language, for a person. */
extern const char forge_help[];

/*
 * Append the tape of the scenario @text to @out; @file is its name for complaints.
 * E_INPUT with "file:line: reason" in @why.
 */
MUST_CHECK enum err forge(const char *file, struct slice text, struct buf *out,
			  struct complaint *why);

#endif
