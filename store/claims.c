#include "store/claims.h"

static struct key transfer_key(uint64_t chain, const struct transfer_row *tr)
{
	return key_transfer(chain, tr->height, &tr->block_hash, tr->tx_index, tr->ordinal);
}

/* A block that returns to our chain finds its transfers there, marked. */
void transfer_keep(struct kv_txn *t, uint64_t chain, const struct transfer_row *tr)
{
	struct key key = transfer_key(chain, tr);
	struct transfer_row kept;

	if (!row_get(t, T_TRANSFER, &key, ROW_TRANSFER, &kept) || kept.orphaned)
		row_put(t, T_TRANSFER, &key, ROW_TRANSFER, tr);
}

#define TX_PREFIX (8 + 8 + 32 + 4)	/* of a transfer's key: one transaction of one block */
#define BLOCK_PREFIX (8 + 8 + 32)

size_t transfers_of(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash,
		    uint32_t tx_index, struct transfer_row *out, size_t most)
{
	struct key from = key_transfer(chain, height, block_hash, tx_index, 0);
	size_t count = 0;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_TRANSFER, key_slice(&from), TX_PREFIX, &c); more; more = kv_next(&c)) {
		if (count < most && !row_decode(t, c.val, ROW_TRANSFER, &out[count]))
			break;
		count++;
	}
	return count < most ? count : most;
}

bool claim_get(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash, uint32_t ordinal,
	       struct claim_row *out)
{
	struct key key = key_claim(chain, tx_hash, ordinal);

	return row_get(t, T_CLAIM, &key, ROW_CLAIM, out);
}

void claim_take(struct kv_txn *t, uint64_t chain, const struct transfer_row *tr, uint64_t row,
		enum owner_kind kind)
{
	struct key claim_key = key_claim(chain, &tr->tx_hash, tr->ordinal);
	struct key key = transfer_key(chain, tr);
	struct claim_row claim = { (uint8_t)kind, row, tr->height, tr->block_hash, tr->tx_index };
	struct claim_row before;
	struct transfer_row owned;

	if (row_get(t, T_CLAIM, &claim_key, ROW_CLAIM, &before) && before.row != row)
		kv_fail(t, E_CORRUPT);
	if (!row_get(t, T_TRANSFER, &key, ROW_TRANSFER, &owned)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	owned.owner_kind = (uint8_t)kind;
	owned.owner = row;
	row_put(t, T_CLAIM, &claim_key, ROW_CLAIM, &claim);
	row_put(t, T_TRANSFER, &key, ROW_TRANSFER, &owned);
}

/* The claim goes with the transfer that it names; a node may have listed the transaction in another block too. */
static void release(struct kv_txn *t, uint64_t chain, struct transfer_row *tr, bool orphaned)
{
	struct key key = transfer_key(chain, tr);
	struct key claim_key = key_claim(chain, &tr->tx_hash, tr->ordinal);
	struct claim_row claim;

	if (tr->owner_kind != OWNER_NONE && row_get(t, T_CLAIM, &claim_key, ROW_CLAIM, &claim) &&
	    hash_eq(&claim.block_hash, &tr->block_hash) && claim.tx_index == tr->tx_index)
		key_del(t, T_CLAIM, &claim_key);
	tr->owner_kind = OWNER_NONE;
	tr->owner = 0;
	tr->orphaned = orphaned;
	row_put(t, T_TRANSFER, &key, ROW_TRANSFER, tr);
}

void claim_drop(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash,
		uint32_t tx_index, uint64_t row)
{
	struct key from = key_transfer(chain, height, block_hash, tx_index, 0);
	struct transfer_row tr;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_TRANSFER, key_slice(&from), TX_PREFIX, &c); more; more = kv_next(&c)) {
		if (row_decode(t, c.val, ROW_TRANSFER, &tr) && tr.owner_kind != OWNER_NONE && tr.owner == row)
			release(t, chain, &tr, false);
	}
}

void claims_orphan(struct kv_txn *t, uint64_t chain, uint64_t height, const struct hash32 *block_hash)
{
	struct key from = key_transfer(chain, height, block_hash, 0, 0);
	struct transfer_row tr;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_TRANSFER, key_slice(&from), BLOCK_PREFIX, &c); more; more = kv_next(&c)) {
		if (row_decode(t, c.val, ROW_TRANSFER, &tr))
			release(t, chain, &tr, true);
	}
}
