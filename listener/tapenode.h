/*
 * tapenode - the tape's world behind loop.h: a node that tells its story.
 *
 * It answers JSON-RPC from what it was told so far: by hash every block, by number and
 * "latest" what the last head says, a balance that was recorded; anything else it does not have.
 * Its clock stands still but for what a record says.
 */
#ifndef LISTENER_TAPENODE_H
#define LISTENER_TAPENODE_H

#include "listener/loop.h"
#include "listener/tape.h"

struct tapenode;

struct tapenode *tapenode_new(void);
void tapenode_free(struct tapenode *n);
struct loop *tapenode_loop(struct tapenode *n);

/*
 * Tell it a record (block, balance, head, safe, finalized, clock, fault; others are nothing to it).
 * @quiet: it happened before the listener looked, so nothing is announced.
 * E_CONFLICT with @why for a block told twice with other content.
 */
MUST_CHECK enum err tapenode_tell(struct tapenode *n, const struct tape_record *r, bool quiet,
				  struct complaint *why);
/* Where its clock starts. */
void tapenode_set_clock(struct tapenode *n, int64_t ms);

/* How often the @index'th fault it was told has struck; false past the last. */
bool tapenode_fault_used(const struct tapenode *n, size_t index, uint64_t *times);
/* The last fault it was told has struck that often before. */
void tapenode_use_fault(struct tapenode *n, uint64_t times);

/* Deliver one thing that is open or due; false: nothing is. */
bool tapenode_step(struct tapenode *n);
/* Cancel what is open, each with its done. */
void tapenode_cancel_all(struct tapenode *n);

#endif
