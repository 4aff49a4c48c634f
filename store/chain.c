#include "store/chain.h"

#include <string.h>

#define PREFIX 8		/* bytes of a transaction's hash that are kept */

bool chain_get(struct kv_txn *t, uint64_t chain, struct chain_row *out)
{
	struct key key = key_chain(chain);

	return row_get(t, T_CHAIN, &key, ROW_CHAIN, out);
}

void chain_put(struct kv_txn *t, uint64_t chain, const struct chain_row *row)
{
	struct key key = key_chain(chain);

	row_put(t, T_CHAIN, &key, ROW_CHAIN, row);
}

void chain_open(struct kv_txn *t, uint64_t chain, const struct hash32 *genesis,
		struct chain_row *out, struct complaint *why)
{
	char ours[HASH_TEXT], theirs[HASH_TEXT];

	if (!chain_get(t, chain, out))
		*out = (struct chain_row){ 0 };
	if (!genesis)
		return;
	if (out->has_genesis && !hash_eq(&out->genesis, genesis)) {
		kv_fail(t, complain(why, E_GENESIS, "chain %llu: the store's genesis is %s, the node's %s",
				    (unsigned long long)chain, hash_format(&out->genesis, ours),
				    hash_format(genesis, theirs)));
		return;
	}
	if (out->has_genesis)
		return;
	out->has_genesis = true;
	out->genesis = *genesis;
	chain_put(t, chain, out);
}

bool chain_block(struct kv_txn *t, uint64_t chain, uint64_t height, struct block_row *out)
{
	struct key key = key_block(chain, height);

	return row_get(t, T_BLOCK, &key, ROW_BLOCK, out);
}

int64_t chain_time_ms(const struct chain_row *row)
{
	if (!row->has_tip)
		return 0;
	return row->tip_time_s > 0 ? row->tip_time_s * 1000 : 1;
}

static uint32_t chunk_count(uint32_t tx_count)
{
	return (tx_count + BLOCK_TX_CHUNK - 1) / BLOCK_TX_CHUNK;
}

static void put_prefixes(struct kv_txn *t, uint64_t chain, uint64_t height,
			 const struct hash32 *tx_hashes, uint32_t count)
{
	uint8_t prefixes[BLOCK_TX_CHUNK * PREFIX];

	for (uint32_t at = 0; at < count; at += BLOCK_TX_CHUNK) {
		struct key key = key_block_tx(chain, height, at / BLOCK_TX_CHUNK);
		uint32_t n = count - at < BLOCK_TX_CHUNK ? count - at : BLOCK_TX_CHUNK;

		for (uint32_t i = 0; i < n; i++)
			memcpy(prefixes + i * PREFIX, tx_hashes[at + i].b, PREFIX);
		kv_put(t, T_BLOCK_TX, key_slice(&key), (struct slice){ prefixes, n * PREFIX });
	}
}

static void set_tip(struct chain_row *row, uint64_t height, const struct hash32 *hash, int64_t time_s)
{
	row->has_tip = true;
	row->tip_height = height;
	row->tip_hash = *hash;
	row->tip_time_s = time_s;
}

void chain_push(struct kv_txn *t, uint64_t chain, struct chain_row *row, uint64_t height,
		const struct block_row *b, const struct hash32 *tx_hashes)
{
	struct key key = key_block(chain, height);

	row_add(t, T_BLOCK, &key, ROW_BLOCK, b);
	put_prefixes(t, chain, height, tx_hashes, b->tx_count);
	set_tip(row, height, &b->hash, b->time_s);
	chain_put(t, chain, row);
}

/* An orphan that was orphaned before stands there already, with its first order. */
static void put_orphan(struct kv_txn *t, uint64_t chain, uint64_t height, const struct block_row *b)
{
	struct key key = key_orphan(chain, height, &b->hash);
	struct block_row first;

	if (!row_get(t, T_ORPHAN, &key, ROW_BLOCK, &first))
		row_put(t, T_ORPHAN, &key, ROW_BLOCK, b);
}

static void move_prefixes(struct kv_txn *t, uint64_t chain, uint64_t height, const struct block_row *b)
{
	for (uint32_t chunk = 0; chunk < chunk_count(b->tx_count); chunk++) {
		struct key from = key_block_tx(chain, height, chunk);
		struct key to = key_orphan_tx(chain, height, &b->hash, chunk);
		uint8_t copy[BLOCK_TX_CHUNK * PREFIX];
		struct slice val;

		if (!kv_get(t, T_BLOCK_TX, key_slice(&from), &val) || val.len > sizeof(copy))
			continue;
		memcpy(copy, val.data, val.len);
		val.data = copy;
		kv_put(t, T_ORPHAN_TX, key_slice(&to), val);
		key_del(t, T_BLOCK_TX, &from);
	}
}

void chain_pop(struct kv_txn *t, uint64_t chain, struct chain_row *row)
{
	struct key key = key_block(chain, row->tip_height);
	struct block_row top, below;

	if (!chain_block(t, chain, row->tip_height, &top)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	put_orphan(t, chain, row->tip_height, &top);
	move_prefixes(t, chain, row->tip_height, &top);
	key_del(t, T_BLOCK, &key);
	/* Below the first block that we applied no time is known: the lost one's is near. */
	if (!chain_block(t, chain, row->tip_height - 1, &below))
		below.time_s = top.time_s;
	set_tip(row, row->tip_height - 1, &top.parent, below.time_s);
	chain_put(t, chain, row);
}

static bool chunk_has(struct slice prefixes, const struct hash32 *tx_hash)
{
	for (size_t i = 0; i + PREFIX <= prefixes.len; i += PREFIX) {
		if (memcmp(prefixes.data + i, tx_hash->b, PREFIX) == 0)
			return true;
	}
	return false;
}

bool chain_find_tx(struct kv_txn *t, uint64_t chain, const struct chain_row *row,
		   const struct hash32 *tx_hash, uint64_t *height)
{
	struct key from = key_block_tx(chain, row->tip_height, UINT32_MAX);
	struct kv_cursor c;

	for (bool more = kv_seek_last(t, T_BLOCK_TX, key_slice(&from), 8, &c); more; more = kv_prev(&c)) {
		if (!chunk_has(c.val, tx_hash))
			continue;
		*height = be64_get(c.key + 8);
		return true;
	}
	return false;
}

uint64_t chain_first_order(struct kv_txn *t, uint64_t chain, const struct hash32 *tx_hash, uint64_t now)
{
	struct key from = key_u64(chain);
	uint64_t first = now;
	struct block_row b;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_ORPHAN_TX, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		struct key orphan = { .len = 0 };

		if (!chunk_has(c.val, tx_hash))
			continue;
		memcpy(orphan.b, c.key, 48);
		orphan.len = 48;
		if (row_get(t, T_ORPHAN, &orphan, ROW_BLOCK, &b) && b.order < first)
			first = b.order;
	}
	return first;
}

static void prune_prefixes(struct kv_txn *t, uint64_t chain, uint64_t below, unsigned most)
{
	struct key from = key_u64(chain);
	struct kv_cursor c;

	while (most-- && kv_seek(t, T_BLOCK_TX, key_slice(&from), 8, &c) && be64_get(c.key + 8) < below)
		kv_del(t, T_BLOCK_TX, (struct slice){ c.key, c.key_len });
}

static void prune_blocks(struct kv_txn *t, uint64_t chain, uint64_t below, int64_t time_s, unsigned most)
{
	struct key from = key_u64(chain);
	struct block_row b;
	struct kv_cursor c;

	while (most-- && kv_seek(t, T_BLOCK, key_slice(&from), 8, &c) && be64_get(c.key + 8) < below &&
	       row_decode(t, c.val, ROW_BLOCK, &b) && b.time_s < time_s)
		kv_del(t, T_BLOCK, (struct slice){ c.key, c.key_len });
}

void chain_prune(struct kv_txn *t, uint64_t chain, uint64_t tx_below, int64_t time_s, unsigned most)
{
	prune_prefixes(t, chain, tx_below, most);
	prune_blocks(t, chain, tx_below, time_s, most);
}
