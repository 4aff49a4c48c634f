/*
 * check - examines a store: whether what it says in several places agrees.
 */
#ifndef LISTENER_CHECK_H
#define LISTENER_CHECK_H

#include "common/types.h"

#include <stdio.h>

/*
 * Examine the store in @dir, without writing.  Each fault is one line on @out; then a line
 * of figures.  OK if there is no fault, E_CORRUPT if there is, else why it cannot be read.
 */
MUST_CHECK enum err check_store(const char *dir, FILE *out, struct complaint *why);

#endif
