/*
 * chain - our canonical chain, block by block, and what left it.
 *
 * All calls are inside a transaction (kv.h) and carry its error.
 */
#ifndef STORE_CHAIN_H
#define STORE_CHAIN_H

#include "store/schema.h"

/*
 * The chain's row; a new one if the store has none.  If both @genesis and the
 * row have a genesis and they differ, the transaction fails with E_GENESIS and
 * @why names both.  @genesis may be NULL: not known.
 */
void chain_open(struct kv_txn *t, uint64_t chain, const struct hash32 *genesis,
		struct chain_row *out, struct complaint *why);
bool chain_get(struct kv_txn *t, uint64_t chain, struct chain_row *out);
void chain_put(struct kv_txn *t, uint64_t chain, const struct chain_row *row);

/* The tip's timestamp, at least 1; 0 where there is no tip yet. */
int64_t chain_time_ms(const struct chain_row *row);

/* The block at @height of our chain. */
bool chain_block(struct kv_txn *t, uint64_t chain, uint64_t height, struct block_row *out);

/* Put @b on top; @row's tip moves to it.  @tx_hashes are b->tx_count many. */
void chain_push(struct kv_txn *t, uint64_t chain, struct chain_row *row, uint64_t height,
		const struct block_row *b, const struct hash32 *tx_hashes);

/* Take the top block off: it becomes an orphan and @row's tip its parent. */
void chain_pop(struct kv_txn *t, uint64_t chain, struct chain_row *row);

/*
 * The highest block of ours that holds the transaction, by the prefixes that
 * are kept: one match in 2^64 is by chance, so the caller proves it.
 */
bool chain_find_tx(struct kv_txn *t, uint64_t chain, const struct chain_row *row,
		   const struct hash32 *tx_hash, uint64_t *height);

/* The order in which a transaction was first applied: @now, unless an orphan held it before. */
uint64_t chain_first_order(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash,
			   uint64_t now);

/*
 * Drop transaction prefixes of our blocks below @tx_below and, of blocks older
 * than @time_s, the rows themselves, at most @most of each.
 */
void chain_prune(struct kv_txn *t, uint64_t chain, uint64_t tx_below, int64_t time_s, unsigned most);

#endif
