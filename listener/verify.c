#include "listener/verify.h"

#include "common/keccak.h"
#include "common/rlp.h"
#include "common/trie.h"

#include <string.h>

#define TYPE_DEPOSIT 0x7e
/* Arbitrum's own and Polygon's state sync are encoded as any other. */
#define TYPE_ARBITRUM_FIRST 0x64
#define TYPE_ARBITRUM_LAST 0x6a
#define TYPE_STATE_SYNC 0x7f

static void put_hash(struct buf *out, const struct hash32 *h)
{
	rlp_put_bytes(out, h->b, sizeof(h->b));
}

static void put_frontier_fields(struct buf *out, const struct header *h)
{
	put_hash(out, &h->parent_hash);
	put_hash(out, &h->uncles_hash);
	rlp_put_bytes(out, h->miner.b, sizeof(h->miner.b));
	put_hash(out, &h->state_root);
	put_hash(out, &h->transactions_root);
	put_hash(out, &h->receipts_root);
	rlp_put_bytes(out, h->bloom, sizeof(h->bloom));
	rlp_put_u256(out, &h->difficulty);
	rlp_put_u64(out, h->number);
	rlp_put_u64(out, h->gas_limit);
	rlp_put_u64(out, h->gas_used);
	rlp_put_u64(out, h->timestamp);
	rlp_put_bytes(out, h->extra, h->extra_len);
	put_hash(out, &h->mix_hash);
	rlp_put_bytes(out, h->nonce, sizeof(h->nonce));
}

/* Each line is there if those above it are. */
static void put_later_fields(struct buf *out, const struct header *h)
{
	unsigned count = h->fields;

	if (count > 15)
		rlp_put_u256(out, &h->base_fee);
	if (count > 16)
		put_hash(out, &h->withdrawals_root);
	if (count > 17)
		rlp_put_u64(out, h->blob_gas_used);
	if (count > 18)
		rlp_put_u64(out, h->excess_blob_gas);
	if (count > 19)
		put_hash(out, &h->parent_beacon_root);
	if (count > 20)
		put_hash(out, &h->requests_hash);
	if (count > 21)
		put_hash(out, &h->block_access_list_hash);
	if (count > 22)
		rlp_put_u64(out, h->slot_number);
}

struct hash32 header_hash(const struct header *h, struct buf *scratch)
{
	size_t list;

	scratch->len = 0;
	list = rlp_open_list(scratch);
	put_frontier_fields(scratch, h);
	put_later_fields(scratch, h);
	rlp_close_list(scratch, list);
	return keccak256(scratch->data, scratch->len);
}

enum err verify_header(const struct header *h, struct buf *scratch, struct complaint *why)
{
	struct hash32 hash = header_hash(h, scratch);
	char claimed[HASH_TEXT], found[HASH_TEXT];

	if (hash_eq(&hash, &h->hash))
		return OK;
	return complain(why, E_PEER, "header %llu claims the hash %s but its %u fields hash to %s",
			(unsigned long long)h->number, hash_format(&h->hash, claimed),
			(unsigned)h->fields, hash_format(&hash, found));
}

static void put_log(struct buf *out, const struct receipts *r, const struct log_entry *log)
{
	size_t list = rlp_open_list(out), topics;

	rlp_put_bytes(out, log->address.b, sizeof(log->address.b));
	topics = rlp_open_list(out);
	for (size_t i = 0; i < log->topic_count; i++)
		put_hash(out, &log->topics[i]);
	rlp_close_list(out, topics);
	rlp_put_bytes(out, r->data.data + log->data_at, log->data_len);
	rlp_close_list(out, list);
}

static void put_logs(struct buf *out, const struct receipts *r, const struct receipt *receipt)
{
	size_t list = rlp_open_list(out);

	for (uint32_t i = 0; i < receipt->log_count; i++)
		put_log(out, r, &r->logs[receipt->first_log + i]);
	rlp_close_list(out, list);
}

static void put_receipt(struct buf *out, const struct receipts *r, const struct receipt *receipt)
{
	size_t list;

	if (receipt->type)
		buf_put_u8(out, receipt->type);
	list = rlp_open_list(out);
	if (receipt->has_status)
		rlp_put_u64(out, receipt->status);
	else
		put_hash(out, &receipt->root);
	rlp_put_u64(out, receipt->cumulative_gas);
	rlp_put_bytes(out, receipt->bloom, sizeof(receipt->bloom));
	put_logs(out, r, receipt);
	if (receipt->type == TYPE_DEPOSIT && receipt->has_deposit_nonce)
		rlp_put_u64(out, receipt->deposit_nonce);
	if (receipt->type == TYPE_DEPOSIT && receipt->has_deposit_version)
		rlp_put_u64(out, receipt->deposit_version);
	rlp_close_list(out, list);
}

/*
 * The scratch buffer holds one slice a receipt, then the encodings, back to
 * back.  It may move while it grows, so first only the lengths are noted.
 */
static struct slice *encode_receipts(const struct receipts *r, struct buf *scratch)
{
	size_t slices_bytes = r->count * sizeof(struct slice);
	struct slice *values;
	size_t at = slices_bytes;

	scratch->len = 0;
	buf_extend(scratch, slices_bytes);
	for (uint32_t i = 0; i < r->count; i++) {
		size_t start = scratch->len;

		put_receipt(scratch, r, &r->receipts[i]);
		values = (void *)scratch->data;
		values[i].len = scratch->len - start;
	}
	values = (void *)scratch->data;
	for (uint32_t i = 0; i < r->count; at += values[i++].len)
		values[i].data = scratch->data + at;
	return values;
}

struct hash32 receipts_root(const struct receipts *r, struct buf *scratch)
{
	struct buf nodes = { 0 };
	struct hash32 root = trie_ordered_root(encode_receipts(r, scratch), r->count, &nodes);

	buf_free(&nodes);
	return root;
}

static bool has_known_encoding(uint8_t type)
{
	return type <= 4 || (type >= TYPE_ARBITRUM_FIRST && type <= TYPE_ARBITRUM_LAST) || type == TYPE_DEPOSIT ||
	       type == TYPE_STATE_SYNC;
}

static enum err verify_place(const struct block *b, const struct receipt *receipt, uint32_t index,
			     struct complaint *why)
{
	char claimed[HASH_TEXT], wanted[HASH_TEXT];

	if (!hash_eq(&receipt->block_hash, &b->header.hash))
		return complain(why, E_PEER, "receipt %u is of block %s, not %s", index,
				hash_format(&receipt->block_hash, claimed),
				hash_format(&b->header.hash, wanted));
	if (receipt->block_number != b->header.number)
		return complain(why, E_PEER, "receipt %u is of height %llu, its block of %llu",
				index, (unsigned long long)receipt->block_number,
				(unsigned long long)b->header.number);
	if (receipt->tx_index != index)
		return complain(why, E_PEER, "receipt %u has the transaction index %llu", index,
				(unsigned long long)receipt->tx_index);
	if (!hash_eq(&receipt->tx_hash, &b->tx_hashes[index]))
		return complain(why, E_PEER, "receipt %u is of transaction %s, the block has %s",
				index, hash_format(&receipt->tx_hash, claimed),
				hash_format(&b->tx_hashes[index], wanted));
	if (!has_known_encoding(receipt->type))
		return complain(why, E_PEER, "receipt %u: receipt type 0x%02x has no known encoding",
				index, receipt->type);
	return OK;
}

static enum err verify_blooms(const struct header *h, const struct receipts *r,
			      struct complaint *why)
{
	uint8_t bloom[BLOOM_BYTES] = { 0 };

	for (uint32_t i = 0; i < r->count; i++) {
		for (size_t k = 0; k < BLOOM_BYTES; k++)
			bloom[k] |= r->receipts[i].bloom[k];
	}
	if (memcmp(bloom, h->bloom, BLOOM_BYTES) == 0)
		return OK;
	return complain(why, E_PEER, "the blooms of %u receipts do not add up to the header's",
			r->count);
}

static enum err verify_root(const struct header *h, const struct receipts *r, struct buf *scratch,
			    struct complaint *why)
{
	struct hash32 root = receipts_root(r, scratch);
	char claimed[HASH_TEXT], found[HASH_TEXT];

	if (hash_eq(&root, &h->receipts_root))
		return OK;
	return complain(why, E_PEER, "%u receipts have the root %s, the header %s", r->count,
			hash_format(&root, found), hash_format(&h->receipts_root, claimed));
}

enum err verify_places(const struct block *b, const struct receipts *r, struct complaint *why)
{
	enum err err = OK;

	if (!b->has_transactions)
		return complain(why, E_PEER, "the block came without its transactions");
	if (r->count != b->tx_count)
		return complain(why, E_PEER, "%u receipts for %u transactions", r->count,
				b->tx_count);
	for (uint32_t i = 0; i < r->count && !err; i++)
		err = verify_place(b, &r->receipts[i], i, why);
	return err;
}

enum err verify_receipts(const struct block *b, const struct receipts *r, struct buf *scratch,
			 struct complaint *why)
{
	enum err err = verify_places(b, r, why);

	if (!err)
		err = verify_blooms(&b->header, r, why);
	if (!err)
		err = verify_root(&b->header, r, scratch, why);
	return err;
}

struct bloom_bits {
	uint8_t at[3];
	uint8_t mask[3];
};

static struct bloom_bits bloom_bits_of(const void *bytes, size_t len)
{
	struct hash32 h = keccak256(bytes, len);
	struct bloom_bits bits;

	for (int i = 0; i < 3; i++) {
		unsigned bit = (h.b[2 * i] << 8 | h.b[2 * i + 1]) & 2047;

		bits.at[i] = (uint8_t)(BLOOM_BYTES - 1 - bit / 8);
		bits.mask[i] = (uint8_t)(1 << bit % 8);
	}
	return bits;
}

bool bloom_has(const uint8_t bloom[BLOOM_BYTES], const void *bytes, size_t len)
{
	struct bloom_bits bits = bloom_bits_of(bytes, len);

	for (int i = 0; i < 3; i++) {
		if (!(bloom[bits.at[i]] & bits.mask[i]))
			return false;
	}
	return true;
}

void bloom_add(uint8_t bloom[BLOOM_BYTES], const void *bytes, size_t len)
{
	struct bloom_bits bits = bloom_bits_of(bytes, len);

	for (int i = 0; i < 3; i++)
		bloom[bits.at[i]] |= bits.mask[i];
}

enum err verify_logs(const struct header *h, const struct receipts *r, struct complaint *why)
{
	uint8_t bloom[BLOOM_BYTES] = { 0 };

	for (uint32_t i = 0; i < r->log_count; i++) {
		const struct log_entry *log = &r->logs[i];

		bloom_add(bloom, log->address.b, sizeof(log->address.b));
		for (unsigned k = 0; k < log->topic_count; k++)
			bloom_add(bloom, log->topics[k].b, sizeof(log->topics[k].b));
	}
	if (memcmp(bloom, h->bloom, BLOOM_BYTES) == 0)
		return OK;
	return complain(why, E_PEER, "%u logs do not add up to the header's bloom", r->log_count);
}
