/*
 * story - a replay told to a person: heads as they arrive, forks, and each
 * intent's moves beside them.
 */
#ifndef LISTENER_STORY_H
#define LISTENER_STORY_H

#include "listener/tape.h"

#include <stdio.h>

struct story;

/* @out is borrowed. */
struct story *story_new(FILE *out, bool colour);
/* The last word, if the replay came to its end. */
void story_free(struct story *s, bool finished);

/* What the tape says, before it is worked off. */
void story_record(struct story *s, const struct tape_record *r);
/* What the listener committed. */
void story_applied(struct story *s, uint64_t height, const struct hash32 *hash);
void story_rolled_back(struct story *s, uint64_t ancestor, uint64_t old_tip);
/* An event's body. */
void story_event(struct story *s, struct slice body);

#endif
