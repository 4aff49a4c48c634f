#include "listener/forge_emit.h"

#include "common/json.h"
#include "common/keccak.h"
#include "common/trie.h"
#include "listener/verify.h"

#include <stdio.h>
#include <string.h>

#define BASE_FEE 1000000000

void emit_json(struct buf *out, const char *name, const char *json)
{
	json_put_name(out, name);
	buf_put_text(out, json);
}

void emit_u64(struct buf *out, const char *name, uint64_t v)
{
	json_put_name(out, name);
	buf_printf(out, "\"0x%llx\"", (unsigned long long)v);
}

static void emit_u256(struct buf *out, const char *name, const struct u256 *v)
{
	char digits[64];
	uint8_t be[32];
	size_t at = 0;

	u256_to_be(v, be);
	hex_encode(be, sizeof(be), digits);
	while (at < sizeof(digits) - 1 && digits[at] == '0')
		at++;
	json_put_name(out, name);
	buf_printf(out, "\"0x%.*s\"", (int)(sizeof(digits) - at), digits + at);
}

void emit_bytes(struct buf *out, const char *name, const void *data, size_t len)
{
	json_put_name(out, name);
	buf_put_text(out, "\"0x");
	hex_encode(data, len, (char *)buf_extend(out, 2 * len));
	buf_put_u8(out, '"');
}

static struct hash32 hash_for(const char *what, const char *name)
{
	char text[128];

	snprintf(text, sizeof(text), "%s of %s", what, name);
	return keccak256(text, strlen(text));
}

static struct address address_for(const char *what)
{
	struct hash32 h = keccak256(what, strlen(what));
	struct address a;

	memcpy(a.b, h.b + 12, sizeof(a.b));
	return a;
}

static uint64_t gas_of(const struct receipt *r)
{
	return 21000 + 30000 * (uint64_t)r->log_count;
}

static void add_to_bloom(uint8_t bloom[BLOOM_BYTES], const struct log_entry *log)
{
	bloom_add(bloom, log->address.b, sizeof(log->address.b));
	for (size_t i = 0; i < log->topic_count; i++)
		bloom_add(bloom, log->topics[i].b, sizeof(log->topics[i].b));
}

/* Each receipt's gas, and the blooms. */
static void sum_up(struct header *h, struct receipts *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct receipt *receipt = &r->receipts[i];

		h->gas_used += gas_of(receipt);
		receipt->cumulative_gas = h->gas_used;
		for (uint32_t k = 0; k < receipt->log_count; k++)
			add_to_bloom(receipt->bloom, &r->logs[receipt->first_log + k]);
		for (size_t k = 0; k < BLOOM_BYTES; k++)
			h->bloom[k] |= receipt->bloom[k];
	}
}

/* What the scenario does not say is plausible; the name tells two empty siblings apart. */
static void fill_header(struct header *h, const char *name, struct hash32 empty_root)
{
	static const uint8_t empty_list = 0xc0;
	static const struct hash32 sha256_of_nothing = { {
		0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
		0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
	} };
	size_t len = strlen(name);

	if (hash_is_zero(&h->parent_hash))
		h->parent_hash = hash_for("parent", name);
	h->uncles_hash = keccak256(&empty_list, 1);
	h->miner = address_for("proposer");
	h->state_root = hash_for("state", name);
	h->gas_limit = 36000000;
	h->extra_len = (uint32_t)(len < 32 ? len : 32);
	memcpy(h->extra, name, h->extra_len);
	h->mix_hash = hash_for("randao", name);
	h->base_fee = u256_from_u64(BASE_FEE);
	h->withdrawals_root = empty_root;
	h->parent_beacon_root = hash_for("beacon parent", name);
	h->requests_hash = sha256_of_nothing;
	h->block_access_list_hash = keccak256(&empty_list, 1);
	h->slot_number = h->number;
}

void emit_seal(struct block *b, struct receipts *r, const char *name, struct buf *scratch)
{
	struct header *h = &b->header;
	struct hash32 empty_root = trie_ordered_root(NULL, 0, scratch);

	sum_up(h, r);
	fill_header(h, name, empty_root);
	h->transactions_root = b->tx_count ? hash_for("transactions", name) : empty_root;
	h->receipts_root = receipts_root(r, scratch);
	h->hash = header_hash(h, scratch);
	for (uint32_t i = 0; i < r->count; i++) {
		r->receipts[i].block_hash = h->hash;
		r->receipts[i].block_number = h->number;
	}
}

static void put_later_fields(struct buf *out, const struct header *h)
{
	if (h->fields >= HEADER_LONDON)
		emit_u256(out, "baseFeePerGas", &h->base_fee);
	if (h->fields >= HEADER_SHANGHAI) {
		json_put_hash(out, "withdrawalsRoot", &h->withdrawals_root);
		emit_json(out, "withdrawals", "[]");
	}
	if (h->fields >= HEADER_CANCUN) {
		emit_u64(out, "blobGasUsed", h->blob_gas_used);
		emit_u64(out, "excessBlobGas", h->excess_blob_gas);
		json_put_hash(out, "parentBeaconBlockRoot", &h->parent_beacon_root);
	}
	if (h->fields >= HEADER_PRAGUE)
		json_put_hash(out, "requestsHash", &h->requests_hash);
	if (h->fields >= HEADER_AMSTERDAM) {
		json_put_hash(out, "blockAccessListHash", &h->block_access_list_hash);
		emit_u64(out, "slotNumber", h->slot_number);
	}
}

static void put_block(struct buf *out, const struct block *b)
{
	const struct header *h = &b->header;

	buf_put_text(out, "{");
	json_put_hash(out, "hash", &h->hash);
	json_put_hash(out, "parentHash", &h->parent_hash);
	emit_u64(out, "number", h->number);
	emit_u64(out, "timestamp", h->timestamp);
	json_put_hash(out, "sha3Uncles", &h->uncles_hash);
	json_put_address(out, "miner", &h->miner);
	json_put_hash(out, "stateRoot", &h->state_root);
	json_put_hash(out, "transactionsRoot", &h->transactions_root);
	json_put_hash(out, "receiptsRoot", &h->receipts_root);
	emit_bytes(out, "logsBloom", h->bloom, sizeof(h->bloom));
	emit_u256(out, "difficulty", &h->difficulty);
	emit_u64(out, "gasLimit", h->gas_limit);
	emit_u64(out, "gasUsed", h->gas_used);
	emit_bytes(out, "extraData", h->extra, h->extra_len);
	json_put_hash(out, "mixHash", &h->mix_hash);
	emit_bytes(out, "nonce", h->nonce, sizeof(h->nonce));
	put_later_fields(out, h);
	emit_u64(out, "size", 600 + 200 * (uint64_t)b->tx_count);
	emit_json(out, "uncles", "[]");
	emit_json(out, "transactions", "[");
	for (size_t i = 0; i < b->tx_count; i++)
		json_put_hash(out, NULL, &b->tx_hashes[i]);
	buf_put_text(out, "]}");
}

/* Where a transaction stands; its receipt and each of its logs say it. */
static void put_place(struct buf *out, const struct receipt *r)
{
	json_put_hash(out, "transactionHash", &r->tx_hash);
	emit_u64(out, "transactionIndex", r->tx_index);
	json_put_hash(out, "blockHash", &r->block_hash);
	emit_u64(out, "blockNumber", r->block_number);
}

static void put_log(struct buf *out, const struct receipts *all, const struct receipt *r,
		    uint32_t index)
{
	const struct log_entry *e = &all->logs[index];

	emit_json(out, NULL, "{");
	json_put_address(out, "address", &e->address);
	emit_json(out, "topics", "[");
	for (size_t i = 0; i < e->topic_count; i++)
		json_put_hash(out, NULL, &e->topics[i]);
	buf_put_text(out, "]");
	emit_bytes(out, "data", e->data_len ? all->data.data + e->data_at : NULL, e->data_len);
	emit_u64(out, "logIndex", index);
	put_place(out, r);
	emit_json(out, "removed", "false}");
}

static void put_outcome(struct buf *out, const struct receipt *r)
{
	if (r->has_status)
		emit_u64(out, "status", r->status);
	else
		json_put_hash(out, "root", &r->root);
	if (r->has_deposit_nonce)
		emit_u64(out, "depositNonce", r->deposit_nonce);
	if (r->has_deposit_version)
		emit_u64(out, "depositReceiptVersion", r->deposit_version);
}

static void put_receipt(struct buf *out, const struct receipts *all, const struct receipt *r)
{
	struct address from = address_for("sender"), to = address_for("receiver");

	emit_json(out, NULL, "{");
	put_place(out, r);
	emit_u64(out, "type", r->type);
	put_outcome(out, r);
	emit_u64(out, "cumulativeGasUsed", r->cumulative_gas);
	emit_u64(out, "gasUsed", r->cumulative_gas - (r > all->receipts ? r[-1].cumulative_gas : 0));
	emit_u64(out, "effectiveGasPrice", BASE_FEE);
	json_put_address(out, "from", &from);
	json_put_address(out, "to", r->log_count ? &all->logs[r->first_log].address : &to);
	json_put_text(out, "contractAddress", NULL);
	emit_bytes(out, "logsBloom", r->bloom, sizeof(r->bloom));
	emit_json(out, "logs", "[");
	for (uint32_t i = 0; i < r->log_count; i++)
		put_log(out, all, r, r->first_log + i);
	buf_put_text(out, "]}");
}

/* Whether what was written reads back as a true block: a bug of ours if not. */
static enum err check_written(struct slice block, struct slice receipts, struct buf *scratch,
			      struct complaint *why)
{
	struct receipts r = { 0 };
	struct block b = { 0 };
	enum err err = block_decode(block, &b, why);

	if (!err)
		err = receipts_decode(receipts, &r, why);
	if (!err)
		err = verify_header(&b.header, scratch, why);
	if (!err)
		err = verify_receipts(&b, &r, scratch, why);
	block_free(&b);
	receipts_free(&r);
	return err;
}

enum err emit_block(struct buf *out, const struct block *b, const struct receipts *r,
		    struct buf *scratch, struct complaint *why)
{
	size_t block_at, block_end, receipts_at, receipts_end;

	buf_put_text(out, "{\"block\":");
	block_at = out->len;
	put_block(out, b);
	block_end = out->len;
	buf_put_text(out, ",\"receipts\":");
	receipts_at = out->len;
	buf_put_text(out, "[");
	for (uint32_t i = 0; i < r->count; i++)
		put_receipt(out, r, &r->receipts[i]);
	buf_put_text(out, "]");
	receipts_end = out->len;
	buf_put_text(out, "}\n");
	return check_written((struct slice){ out->data + block_at, block_end - block_at },
			     (struct slice){ out->data + receipts_at, receipts_end - receipts_at },
			     scratch, why);
}
