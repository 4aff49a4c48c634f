/*
 * claims - transfers that touch somebody, and whom each belongs to.
 *
 * A transfer is claimed, or held while its intent is under review, by at most
 * one intent, under two keys that must agree: its row in our chain (block hash, transaction
 * index, ordinal) and its identity as a payment (transaction hash, ordinal),
 * since a block's row dies with the block and a payment does not.
 *
 * All calls are inside a transaction (kv.h) and carry its error.
 */
#ifndef STORE_CLAIMS_H
#define STORE_CLAIMS_H

#include "store/schema.h"

/* Keep the transfer; one that is there already keeps its owner. */
void transfer_keep(struct kv_txn *t, uint64_t chain, const struct transfer_row *tr);

/*
 * Our transfers of one transaction, in order of ordinal, into @out (at most
 * @most); returns how many there are.
 */
size_t transfers_of(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash,
		    uint32_t tx_index, struct transfer_row *out, size_t most);

/* Who has the payment; false: nobody. */
bool claim_get(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash, uint32_t ordinal,
	       struct claim_row *out);

/*
 * Give the kept transfer to the intent @row.  Another intent's is E_CORRUPT:
 * the caller looked before.
 */
void claim_take(struct kv_txn *t, uint64_t chain, const struct transfer_row *tr, uint64_t row,
		enum owner_kind kind);

/* Let go of what @row holds or claims of the transaction in that block. */
void claim_drop(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash,
		uint32_t tx_index, uint64_t row);

/* The block left our chain: its transfers are marked, their claims end. */
void claims_orphan(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash);

#endif
