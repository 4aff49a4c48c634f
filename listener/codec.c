#include "listener/codec.h"

#include "listener/reader.h"

#include <stdlib.h>
#include <string.h>

/* @items, with room for one more. */
static void *grow(void *items, uint32_t count, uint32_t *cap, size_t item_bytes)
{
	if (count < *cap)
		return items;
	*cap = *cap ? *cap * 2 : 64;
	return xrealloc(items, *cap * item_bytes);
}

static bool reader_small(struct reader *r, uint8_t *out, uint8_t max)
{
	uint64_t v;

	if (!reader_u64(r, &v, sizeof(v)))
		return false;
	if (v > max)
		return reader_refuse(r, "%llu, want at most %u", (unsigned long long)v, max);
	*out = (uint8_t)v;
	return true;
}

/* A header, alone or with its block's transactions. */

static bool read_extra(struct reader *r, void *out, size_t size)
{
	struct header *h = out;
	struct slice text;
	struct buf bytes = { 0 };

	(void)size;
	if (!scan_string(&r->scan, &text))
		return false;
	if (text.len > 2 + 2 * sizeof(h->extra))
		return reader_refuse(r, "%zu hex digits, want at most %zu", text.len - 2,
			      2 * sizeof(h->extra));
	if (!hex_append(text, &bytes)) {
		buf_free(&bytes);
		return reader_refuse_hex(r, text, 0);
	}
	h->extra_len = (uint32_t)bytes.len;
	if (bytes.len)
		memcpy(h->extra, bytes.data, bytes.len);
	buf_free(&bytes);
	return true;
}

static const struct field tx_fields[] = {
	{ NAMED("hash"), .size = sizeof(struct hash32), .read = reader_fixed },
};

static bool read_transaction(struct reader *r, void *out)
{
	struct block *b = out;
	struct hash32 *hash;
	uint32_t seen;

	b->tx_hashes = grow(b->tx_hashes, b->tx_count, &b->tx_cap, sizeof(*b->tx_hashes));
	hash = &b->tx_hashes[b->tx_count++];
	if (scan_peek(&r->scan) == SCAN_OBJECT)
		return reader_object(r, TABLE(tx_fields), hash, &seen);
	return reader_fixed(r, hash, sizeof(*hash));
}

static bool read_transactions(struct reader *r, void *out, size_t size)
{
	struct block *b = r->context;

	(void)out;
	(void)size;
	b->has_transactions = true;
	return reader_array(r, b, read_transaction);
}

#define OPTIONAL_FIELDS (HEADER_AMSTERDAM - HEADER_FRONTIER)

/* First the forks' fields, in their order. */
static const struct field header_fields[] = {
	{ NAMED("baseFeePerGas"), INTO(header, base_fee, reader_u256), .optional = true },
	{ NAMED("withdrawalsRoot"), INTO(header, withdrawals_root, reader_fixed), .optional = true },
	{ NAMED("blobGasUsed"), INTO(header, blob_gas_used, reader_u64), .optional = true },
	{ NAMED("excessBlobGas"), INTO(header, excess_blob_gas, reader_u64), .optional = true },
	{ NAMED("parentBeaconBlockRoot"), INTO(header, parent_beacon_root, reader_fixed), .optional = true },
	{ NAMED("requestsHash"), INTO(header, requests_hash, reader_fixed), .optional = true },
	{ NAMED("blockAccessListHash"), INTO(header, block_access_list_hash, reader_fixed), .optional = true },
	{ NAMED("slotNumber"), INTO(header, slot_number, reader_u64), .optional = true },
	{ NAMED("hash"), INTO(header, hash, reader_fixed) },
	{ NAMED("parentHash"), INTO(header, parent_hash, reader_fixed) },
	{ NAMED("sha3Uncles"), INTO(header, uncles_hash, reader_fixed) },
	{ NAMED("miner"), INTO(header, miner, reader_fixed) },
	{ NAMED("stateRoot"), INTO(header, state_root, reader_fixed) },
	{ NAMED("transactionsRoot"), INTO(header, transactions_root, reader_fixed) },
	{ NAMED("receiptsRoot"), INTO(header, receipts_root, reader_fixed) },
	{ NAMED("logsBloom"), INTO(header, bloom, reader_fixed) },
	{ NAMED("difficulty"), INTO(header, difficulty, reader_u256) },
	{ NAMED("number"), INTO(header, number, reader_u64) },
	{ NAMED("gasLimit"), INTO(header, gas_limit, reader_u64) },
	{ NAMED("gasUsed"), INTO(header, gas_used, reader_u64) },
	{ NAMED("timestamp"), INTO(header, timestamp, reader_u64) },
	{ NAMED("extraData"), .read = read_extra },
	{ NAMED("mixHash"), INTO(header, mix_hash, reader_fixed) },
	{ NAMED("nonce"), INTO(header, nonce, reader_fixed) },
	{ NAMED("transactions"), .read = read_transactions, .optional = true },
};

static bool count_optional(struct reader *r, uint32_t seen, struct header *h)
{
	unsigned count = 0, later;

	while (count < OPTIONAL_FIELDS && seen & 1U << count)
		count++;
	h->fields = (enum header_fields)(HEADER_FRONTIER + count);
	for (later = count; later < OPTIONAL_FIELDS; later++) {
		if (seen & 1U << later)
			return reader_refuse(r, "%s: missing, although the later %s is there",
				      header_fields[count].name, header_fields[later].name);
	}
	return true;
}

enum err block_decode(struct slice json, struct block *out, struct complaint *why)
{
	struct reader r = reader_init(json, why);
	uint32_t seen;

	r.context = out;
	out->header = (struct header){ 0 };
	out->has_transactions = false;
	out->tx_count = 0;
	return reader_finish(&r, reader_object(&r, TABLE(header_fields), &out->header, &seen) &&
			  count_optional(&r, seen, &out->header));
}

void block_free(struct block *b)
{
	free(b->tx_hashes);
	*b = (struct block){ 0 };
}

/* Receipts and their logs. */

/* A hash that all logs of a receipt must give; the text saves decoding it again. */
struct claim {
	struct slice text;		/* data is NULL: none did */
	struct hash32 hash;
};

/* What one receipt says beside its struct; logs may stand before the hashes they must match. */
struct claims {
	bool has_root;
	bool has_tx_index;
	uint64_t tx_index;
	struct claim block_hash;
	struct claim tx_hash;
};

/* What the fields' readers need beside their own struct. */
struct receipts_context {
	struct receipts *receipts;
	struct claims claims;
};

static struct receipts *receipts_of(const struct reader *r)
{
	return ((struct receipts_context *)r->context)->receipts;
}

static struct claims *claims_of(const struct reader *r)
{
	return &((struct receipts_context *)r->context)->claims;
}

/* check_claims() compares what the logs agree on with what the receipt says. */
static bool read_claim(struct reader *r, struct claim *c)
{
	struct slice text;
	struct hash32 h;

	if (!scan_string(&r->scan, &text))
		return false;
	if (c->text.data && c->text.len == text.len &&
	    memcmp(c->text.data, text.data, text.len) == 0)
		return true;
	if (!hash_parse(text, &h))
		return reader_refuse_hex(r, text, 64);
	if (c->text.data && !hash_eq(&h, &c->hash))
		return reader_refuse(r, "not the one of the receipt's other logs");
	*c = (struct claim){ text, h };
	return true;
}

static bool read_log_block_hash(struct reader *r, void *out, size_t size)
{
	(void)out;
	(void)size;
	return read_claim(r, &claims_of(r)->block_hash);
}

static bool read_log_tx_hash(struct reader *r, void *out, size_t size)
{
	(void)out;
	(void)size;
	return read_claim(r, &claims_of(r)->tx_hash);
}

static bool read_log_tx_index(struct reader *r, void *out, size_t size)
{
	struct claims *c = claims_of(r);
	uint64_t index;

	(void)out;
	if (!reader_u64(r, &index, size))
		return false;
	if (c->has_tx_index && index != c->tx_index)
		return reader_refuse(r, "not the one of the receipt's other logs");
	c->has_tx_index = true;
	c->tx_index = index;
	return true;
}

static bool read_removed(struct reader *r, void *out, size_t size)
{
	(void)out;
	(void)size;
	if (scan_peek(&r->scan) == SCAN_FALSE)
		return scan_skip(&r->scan, NULL);
	return reader_refuse(r, "not false");
}

static bool read_topic(struct reader *r, void *out)
{
	struct log_entry *log = out;

	if (log->topic_count == ARRAY_SIZE(log->topics))
		return reader_refuse(r, "more than %zu topics", ARRAY_SIZE(log->topics));
	return reader_fixed(r, &log->topics[log->topic_count++], sizeof(log->topics[0]));
}

static bool read_topics(struct reader *r, void *out, size_t size)
{
	(void)size;
	return reader_array(r, out, read_topic);
}

static bool read_data(struct reader *r, void *out, size_t size)
{
	struct log_entry *log = out;
	struct slice text;

	(void)size;
	if (!scan_string(&r->scan, &text))
		return false;
	if (!hex_append(text, &receipts_of(r)->data))
		return reader_refuse_hex(r, text, 0);
	log->data_len = (uint32_t)receipts_of(r)->data.len - log->data_at;
	return true;
}

static const struct field log_fields[] = {
	{ NAMED("address"), INTO(log_entry, address, reader_fixed) },
	{ NAMED("topics"), .read = read_topics },
	{ NAMED("data"), .read = read_data },
	{ NAMED("blockHash"), .read = read_log_block_hash, .optional = true },
	{ NAMED("transactionHash"), .read = read_log_tx_hash, .optional = true },
	{ NAMED("transactionIndex"), .read = read_log_tx_index, .optional = true },
	{ NAMED("removed"), .read = read_removed, .optional = true },
};

static bool read_log(struct reader *r, void *out)
{
	struct receipts *rs = receipts_of(r);
	struct receipt *receipt = out;
	struct log_entry *log;
	uint32_t seen;

	rs->logs = grow(rs->logs, rs->log_count, &rs->log_cap, sizeof(*rs->logs));
	log = &rs->logs[rs->log_count++];
	log->topic_count = 0;
	log->data_at = (uint32_t)rs->data.len;
	receipt->log_count++;
	return reader_object(r, TABLE(log_fields), log, &seen);
}

static bool read_logs(struct reader *r, void *out, size_t size)
{
	(void)size;
	return reader_array(r, out, read_log);
}

static bool read_type(struct reader *r, void *out, size_t size)
{
	(void)size;
	return reader_small(r, out, 0xff);
}

static bool read_status(struct reader *r, void *out, size_t size)
{
	struct receipt *receipt = out;

	(void)size;
	receipt->has_status = true;
	return reader_small(r, &receipt->status, 1);
}

/* Some servers put an empty root beside the status. */
static bool read_root(struct reader *r, void *out, size_t size)
{
	struct slice text;

	if (!scan_string(&r->scan, &text))
		return false;
	if (slice_is(text, "0x"))
		return true;
	claims_of(r)->has_root = true;
	return hex_decode(text, out, size) || reader_refuse_hex(r, text, 2 * size);
}

static bool read_deposit_nonce(struct reader *r, void *out, size_t size)
{
	struct receipt *receipt = out;

	(void)size;
	receipt->has_deposit_nonce = true;
	return reader_u64(r, &receipt->deposit_nonce, sizeof(receipt->deposit_nonce));
}

static bool read_deposit_version(struct reader *r, void *out, size_t size)
{
	struct receipt *receipt = out;

	(void)size;
	receipt->has_deposit_version = true;
	return reader_u64(r, &receipt->deposit_version, sizeof(receipt->deposit_version));
}

static const struct field receipt_fields[] = {
	{ NAMED("transactionHash"), INTO(receipt, tx_hash, reader_fixed) },
	{ NAMED("blockHash"), INTO(receipt, block_hash, reader_fixed) },
	{ NAMED("blockNumber"), INTO(receipt, block_number, reader_u64) },
	{ NAMED("transactionIndex"), INTO(receipt, tx_index, reader_u64) },
	{ NAMED("cumulativeGasUsed"), INTO(receipt, cumulative_gas, reader_u64) },
	{ NAMED("logsBloom"), INTO(receipt, bloom, reader_fixed) },
	{ NAMED("logs"), .read = read_logs },
	{ NAMED("type"), INTO(receipt, type, read_type), .optional = true },
	{ NAMED("status"), .read = read_status, .optional = true },
	{ NAMED("root"), INTO(receipt, root, read_root), .optional = true },
	{ NAMED("depositNonce"), .read = read_deposit_nonce, .optional = true },
	{ NAMED("depositReceiptVersion"), .read = read_deposit_version, .optional = true },
};

static bool check_claims(struct reader *r, const struct receipt *receipt)
{
	const struct claims *c = claims_of(r);

	if (c->block_hash.text.data && !hash_eq(&c->block_hash.hash, &receipt->block_hash))
		return reader_refuse(r, "its logs have another blockHash");
	if (c->tx_hash.text.data && !hash_eq(&c->tx_hash.hash, &receipt->tx_hash))
		return reader_refuse(r, "its logs have another transactionHash");
	if (c->has_tx_index && c->tx_index != receipt->tx_index)
		return reader_refuse(r, "its logs have another transactionIndex");
	if (!receipt->has_status && !c->has_root)
		return reader_refuse(r, "neither status nor root");
	return true;
}

static bool read_receipt(struct reader *r, void *out)
{
	struct receipts *rs = out;
	struct receipt *receipt;
	uint32_t seen;

	rs->receipts = grow(rs->receipts, rs->count, &rs->cap, sizeof(*rs->receipts));
	receipt = &rs->receipts[rs->count++];
	*receipt = (struct receipt){ .first_log = rs->log_count };
	*claims_of(r) = (struct claims){ 0 };
	return reader_object(r, TABLE(receipt_fields), receipt, &seen) &&
	       check_claims(r, receipt);
}

enum err receipts_decode(struct slice json, struct receipts *out, struct complaint *why)
{
	struct receipts_context context = { .receipts = out };
	struct reader r = reader_init(json, why);

	if (json.len > UINT32_MAX)
		return complain(why, E_PEER, "%zu bytes of receipts", json.len);
	r.context = &context;
	out->count = 0;
	out->log_count = 0;
	out->data.len = 0;
	return reader_finish(&r, reader_array(&r, out, read_receipt));
}

/* Logs alone. */

struct logs_context {
	struct receipts_context receipts;	/* first: the fields' readers want it */
	const struct block *block;
};

/* One receipt for each transaction of the block, up to that of the log. */
static void reach_receipt(struct receipts *rs, const struct block *b, uint64_t tx_index)
{
	while (rs->count <= tx_index) {
		rs->receipts = grow(rs->receipts, rs->count, &rs->cap, sizeof(*rs->receipts));
		rs->receipts[rs->count] = (struct receipt){
			.tx_hash = b->tx_hashes[rs->count],
			.block_hash = b->header.hash,
			.block_number = b->header.number,
			.tx_index = rs->count,
			.has_status = true,
			.status = 1,
			.first_log = rs->log_count,
		};
		rs->count++;
	}
}

static bool check_place(struct reader *r, const struct claims *c, const struct block *b, uint32_t reached)
{
	if (!c->block_hash.text.data || !hash_eq(&c->block_hash.hash, &b->header.hash))
		return reader_refuse(r, "another blockHash than asked for");
	if (!c->has_tx_index || c->tx_index >= b->tx_count || c->tx_index + 1 < reached)
		return reader_refuse(r, "no transactionIndex of the block, or out of order");
	if (!c->tx_hash.text.data || !hash_eq(&c->tx_hash.hash, &b->tx_hashes[c->tx_index]))
		return reader_refuse(r, "another transactionHash than the block's");
	return true;
}

static bool read_block_log(struct reader *r, void *out)
{
	const struct block *b = ((struct logs_context *)r->context)->block;
	struct receipts *rs = out;
	struct receipt place = { .log_count = 0 };
	uint32_t log = rs->log_count;

	*claims_of(r) = (struct claims){ 0 };
	if (!read_log(r, &place) || !check_place(r, claims_of(r), b, rs->count))
		return false;
	rs->log_count = log;
	reach_receipt(rs, b, claims_of(r)->tx_index);
	rs->log_count = log + 1;
	rs->receipts[rs->count - 1].log_count++;
	return true;
}

enum err logs_decode(struct slice json, const struct block *b, struct receipts *out, struct complaint *why)
{
	struct logs_context context = { .receipts.receipts = out, .block = b };
	struct reader r = reader_init(json, why);
	enum err err;

	if (json.len > UINT32_MAX)
		return complain(why, E_PEER, "%zu bytes of logs", json.len);
	r.context = &context;
	out->count = 0;
	out->log_count = 0;
	out->data.len = 0;
	err = reader_finish(&r, reader_array(&r, out, read_block_log));
	if (!err && b->tx_count)
		reach_receipt(out, b, b->tx_count - 1);
	return err;
}

void receipts_free(struct receipts *r)
{
	free(r->receipts);
	free(r->logs);
	buf_free(&r->data);
	*r = (struct receipts){ 0 };
}
