/*
 * settle - what becomes final, in slices: settled, needs_review, and the
 * reports that somebody may act upon.
 *
 * Each call is a part of one write transaction.
 */
#ifndef LISTENER_SETTLE_H
#define LISTENER_SETTLE_H

#include "listener/apply.h"

/*
 * Raise the watermarks to what the view says, never lower, and never where the
 * tier is suspended.  True if one rose.
 */
bool settle_raise(struct kv_txn *t, struct apply *a, const struct finality_view *view);
/* Whether settle_raise() would: for a look before the write. */
bool settle_would_raise(struct kv_txn *t, const struct apply *a, const struct finality_view *view);

/*
 * Make up to promote_slice sightings at or below the watermarks final, in the order
 * of height, transaction index and ordinal; true if there may be more.  One whose balance is still to be read
 * (TIER_WAITS) is passed over, and holds no other: it comes once its balance was read or given up.
 */
bool settle_promote(struct kv_txn *t, struct apply *a);
/* Whether there is anything for it to do. */
bool settle_has_work(struct kv_txn *t, const struct apply *a);

/* Say tx_missing and overdue where it is time; only while the cursor has reached the head. */
void settle_deadlines(struct kv_txn *t, struct apply *a);
bool settle_has_deadline(struct kv_txn *t, const struct apply *a);

/* The intent's transaction is mined below all hashes that we keep, as a node says: an old payment pays no new intent. */
void settle_too_old(struct kv_txn *t, struct apply *a, uint64_t row, const struct hash32 *tx_hash, uint64_t height);

/*
 * The lowest watermark of the tiers that rest on a tag, or of all where none does: nothing at or below it is undone without an
 * operator.  False: one of them has none yet.
 */
bool settle_floor(const struct chain_config *config, const struct chain_row *chain, uint64_t *height);

#endif
