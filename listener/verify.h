/*
 * verify - that an answer is what its hash says it is.
 *
 * Pure.  A failed check says which and with what figures, since the line in
 * the log is all that an operator has.
 */
#ifndef LISTENER_VERIFY_H
#define LISTENER_VERIFY_H

#include "listener/codec.h"

/* keccak256 of the header's RLP list, as its number of fields says (EIP-1559, 4895, 4844, 4788, 7685, 7928, 7843). */
struct hash32 header_hash(const struct header *h, struct buf *scratch);

/* The root over the receipts' consensus encodings (EIP-2718; 0x7e as the OP stack does). */
struct hash32 receipts_root(const struct receipts *r, struct buf *scratch);

/* OK if the header's claimed hash is its hash; else E_PEER. */
MUST_CHECK enum err verify_header(const struct header *h, struct buf *scratch, struct complaint *why);

/*
 * OK if the receipts belong to the block and are all of them: count, and of
 * each the block hash, number, index and transaction hash in the block's
 * order; the receipts' blooms together are the header's; the receipts root is
 * the header's.  @b must have its transactions.  Else E_PEER.
 */
MUST_CHECK enum err verify_receipts(const struct block *b, const struct receipts *r,
				    struct buf *scratch, struct complaint *why);

/* As verify_receipts(), but for the blooms and the root: that each is of the block, by a node's word. */
MUST_CHECK enum err verify_places(const struct block *b, const struct receipts *r, struct complaint *why);

/*
 * OK if the bloom recomputed over the logs of all receipts is the header's: none was left out, but for one in millions
 * whose bits others set too.  Else E_PEER.
 */
MUST_CHECK enum err verify_logs(const struct header *h, const struct receipts *r, struct complaint *why);

/* True if the bloom may hold @bytes (an address or a topic); false means certainly not. */
bool bloom_has(const uint8_t bloom[BLOOM_BYTES], const void *bytes, size_t len);
/* Set the three bits of @bytes (yellow paper, 4.3.1). */
void bloom_add(uint8_t bloom[BLOOM_BYTES], const void *bytes, size_t len);

#endif
