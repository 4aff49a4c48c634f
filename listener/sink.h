/*
 * sink - a file, or stdout, to which each event is appended as a line of JSON.
 *
 * After a restart it goes on where the file ends: a line that a crash cut short is cut off, and the last whole one tells
 * the sequence number to go on from.  Where the file cannot tell (a pipe, a new file) the store's cursor does, which moves
 * in the next commit: what was written since may then be written again, with the same ids.
 *
 * A write that fails in the middle of a line is taken back to the end of the last whole one; where that cannot be done (a
 * pipe) the next write goes on in the middle.  A file that was moved away is left, and its path opened anew.
 *
 * A pipe that is full is not waited for, so that its reader can stop nothing but the events: they keep their order, and
 * none is left out.
 */
#ifndef LISTENER_SINK_H
#define LISTENER_SINK_H

#include "store/kv.h"

struct sink;

/*
 * @path is a file, made if absent, or "-"; copied.  @kv is borrowed until sink_close().  E_IO; E_CORRUPT for a file that
 * does not end with events, E_REFUSED for one that ends with another store's; with @why, and the file as it was.
 */
MUST_CHECK enum err sink_open(const char *path, struct kv *kv, struct sink **out, struct complaint *why);
void sink_close(struct sink *s);		/* may be NULL */

/* In each write transaction: how far it is. */
void sink_committing(struct sink *s, struct kv_txn *t);
/*
 * After it: write what is new.  E_IO if it takes no more (the disk is full, the pipe is gone), E_CORRUPT or E_REFUSED if
 * another file came to stand at its path; the first failure in a row is logged.  The rest follows with the next call.
 */
MUST_CHECK enum err sink_write(struct sink *s);
/* It returned OK before all was out: the pipe is full. */
bool sink_is_waiting(const struct sink *s);
/* At the end: sink_write(), and what a full pipe still takes within 300 ms. */
MUST_CHECK enum err sink_finish(struct sink *s);

#endif
