/*
 * verify on recorded mainnet blocks, where the folder with them is there, and
 * on headers and receipts made here, whose RLP is also written by a second,
 * naive encoder.
 */
#include "listener/verify.h"

#include "common/keccak.h"
#include "common/scan.h"
#include "common/trie.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct buf scratch;
static struct complaint why;

/* The folder of recordings; without one the test ends here, as skipped. */
static const char *mainnet_folder(void)
{
	const char *named = getenv("TIDEMARK_MAINNET");
	const char *folder = named ? named : "../shared/mainnet";
	DIR *dir = opendir(folder);

	if (!dir) {
		printf("skipped: no recordings in %s\n", folder);
		skip();
	}
	closedir(dir);
	return folder;
}

static struct slice read_file(const char *name)
{
	char path[1000];
	struct buf text = { 0 };
	size_t got;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", mainnet_folder(), name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("cannot open %s", path);
	do {
		got = fread(buf_extend(&text, 65536), 1, 65536, f);
		text.len -= 65536 - got;
	} while (got);
	fclose(f);
	return buf_slice(&text);
}

/* The next line of *@text, which it leaves; false at the end. */
static bool next_line(struct slice *text, struct slice *line)
{
	const uint8_t *end;

	if (text->len == 0)
		return false;
	end = memchr(text->data, '\n', text->len);
	line->data = text->data;
	line->len = end ? (size_t)(end - text->data) : text->len;
	text->data += line->len + (end != NULL);
	text->len -= line->len + (end != NULL);
	return true;
}

/* The raw member, or an empty slice. */
static struct slice member_of(struct slice object, const char *wanted)
{
	struct scan s = scan_begin(object);
	struct slice name, raw, found = { 0 };

	scan_object(&s);
	while (scan_member(&s, &name)) {
		scan_skip(&s, &raw);
		if (slice_is(name, wanted))
			found = raw;
	}
	return found;
}

static void must(enum err err)
{
	if (err)
		fail_msg("%s: %s", err_name(err), why.text);
}

static void test_headers_across_a_fork(void **state)
{
	struct slice file = read_file("headers-22431080-22431090.ndjson"), rest = file, line;
	struct block b = { .tx_hashes = NULL };
	struct hash32 parent;
	int count = 0, prague = 0;

	(void)state;
	while (next_line(&rest, &line)) {
		must(block_decode(line, &b, &why));
		must(verify_header(&b.header, &scratch, &why));
		assert_int_equal(b.header.number, 22431080 + count);
		assert_true(count == 0 || hash_eq(&parent, &b.header.parent_hash));
		prague += b.header.fields == HEADER_PRAGUE;
		assert_int_equal(b.header.fields,
				 b.header.number < 22431084 ? HEADER_CANCUN : HEADER_PRAGUE);
		parent = b.header.hash;
		count++;
	}
	assert_int_equal(count, 11);
	assert_int_equal(prague, 7);
	block_free(&b);
	free((void *)file.data);
}

#define SIBLINGS_FIRST 1000001
#define SIBLINGS 50

/* The canonical hashes by height; 1000031 to 1000039 were not recorded. */
struct siblings {
	bool known[SIBLINGS];
	struct hash32 hashes[SIBLINGS];
};

static void check_canonical(struct slice list, struct siblings *all)
{
	struct scan s = scan_begin(list);
	struct block b = { .tx_hashes = NULL };
	struct slice raw;
	size_t count = 0;

	assert_true(scan_array(&s));
	for (; scan_element(&s); count++) {
		size_t at;

		assert_true(scan_skip(&s, &raw));
		must(block_decode(raw, &b, &why));
		must(verify_header(&b.header, &scratch, &why));
		assert_false(b.has_transactions);
		at = b.header.number - SIBLINGS_FIRST;
		assert_true(at < SIBLINGS);
		if (at && all->known[at - 1])
			assert_true(hash_eq(&all->hashes[at - 1], &b.header.parent_hash));
		all->known[at] = true;
		all->hashes[at] = b.header.hash;
	}
	assert_int_equal(count, 41);
	block_free(&b);
}

/* How many have a canonical header of their height, which must be another one. */
static size_t check_uncles(struct slice list, const struct siblings *all)
{
	struct scan s = scan_begin(list);
	struct block b = { .tx_hashes = NULL };
	struct slice raw;
	size_t rivals = 0;

	assert_true(scan_array(&s));
	while (scan_element(&s)) {
		size_t at;

		assert_true(scan_skip(&s, &raw));
		must(block_decode(member_of(raw, "header"), &b, &why));
		must(verify_header(&b.header, &scratch, &why));
		at = b.header.number - SIBLINGS_FIRST;
		assert_true(at < SIBLINGS);
		assert_false(all->known[at] && hash_eq(&b.header.hash, &all->hashes[at]));
		rivals += all->known[at];
	}
	block_free(&b);
	return rivals;
}

static void test_siblings(void **state)
{
	struct slice file = read_file("siblings-1000001-1000050.json");
	struct siblings all = { .known = { false } };

	(void)state;
	check_canonical(member_of(file, "canonical"), &all);
	assert_int_equal(check_uncles(member_of(file, "uncles"), &all), 4);
	free((void *)file.data);
}

struct recording {
	struct slice block;
	struct slice receipts;
};

static bool is_recording(struct slice line, struct recording *out)
{
	if (line.len < 9 || memcmp(line.data, "{\"block\":", 9) != 0)
		return false;
	out->block = member_of(line, "block");
	out->receipts = member_of(line, "receipts");
	return out->block.data && out->receipts.data;
}

static enum err judge(struct slice block, struct slice receipts, struct block *b, struct receipts *r)
{
	enum err err = block_decode(block, b, &why);

	if (!err)
		err = receipts_decode(receipts, r, &why);
	if (!err)
		err = verify_header(&b->header, &scratch, &why);
	if (!err)
		err = verify_receipts(b, r, &scratch, &why);
	return err;
}

/* Where the hex text after @pattern ends in @text at or after @from; NULL if nowhere. */
static uint8_t *find_last_digit(struct slice text, const char *pattern, size_t from)
{
	size_t len = strlen(pattern);

	for (size_t at = from; at + len <= text.len; at++) {
		const uint8_t *quote;

		if (memcmp(text.data + at, pattern, len) != 0)
			continue;
		quote = memchr(text.data + at + len, '"', text.len - at - len);
		if (quote[-1] != 'x')
			return (uint8_t *)quote - 1;
	}
	return NULL;
}

/* Changes the digit, judges, and puts it back. */
static enum err judge_flipped(uint8_t *digit, const struct recording *rec)
{
	struct block b = { .tx_hashes = NULL };
	struct receipts r = { .count = 0 };
	uint8_t saved = *digit;
	enum err err;

	*digit = saved == '0' ? '1' : '0';
	err = judge(rec->block, rec->receipts, &b, &r);
	*digit = saved;
	block_free(&b);
	receipts_free(&r);
	return err;
}

static void check_header_flips(const struct recording *rec)
{
	static const char *const names[] = {
		"hash", "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot",
		"logsBloom", "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData",
		"mixHash", "nonce", "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas",
		"parentBeaconBlockRoot",
	};
	size_t flips = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char pattern[60];
		uint8_t *digit;

		snprintf(pattern, sizeof(pattern), "\"%s\":\"0x", names[i]);
		digit = find_last_digit(rec->block, pattern, 0);
		if (!digit)
			continue;
		flips++;
		if (judge_flipped(digit, rec) != E_PEER)
			fail_msg("a flipped digit of %s is not seen", names[i]);
	}
	assert_true(flips >= 16);
}

/* Places of each field that a hash covers or the block confirms, spread over the answer. */
static void check_receipt_flips(const struct recording *rec)
{
	static const char *const patterns[] = {
		"\"type\":\"0x", "\"status\":\"0x", "\"root\":\"0x", "\"cumulativeGasUsed\":\"0x",
		"\"logsBloom\":\"0x", "\"address\":\"0x", "\"topics\":[\"0x", "\"data\":\"0x",
		"\"transactionHash\":\"0x", "\"transactionIndex\":\"0x", "\"blockHash\":\"0x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		for (size_t part = 0; part < 8; part++) {
			uint8_t *digit = find_last_digit(rec->receipts, patterns[i],
							 rec->receipts.len * part / 8);

			if (digit && judge_flipped(digit, rec) != E_PEER)
				fail_msg("a flipped digit of %s is not seen", patterns[i]);
		}
	}
}

/* What no hash covers and nothing uses does not matter. */
static void check_indifferent(const struct recording *rec)
{
	uint8_t *digit = find_last_digit(rec->receipts, "\"logIndex\":\"0x", 0);

	if (digit)
		must(judge_flipped(digit, rec));
}

static void swap_hashes(struct hash32 *a, struct hash32 *b)
{
	struct hash32 saved = *a;

	*a = *b;
	*b = saved;
}

static void check_refused(const struct block *b, const struct receipts *r, const char *begin)
{
	assert_int_equal(verify_receipts(b, r, &scratch, &why), E_PEER);
	if (strncmp(why.text, begin, strlen(begin)) != 0)
		fail_msg("%s", why.text);
}

static void check_tampered(struct block *b, struct receipts *r)
{
	swap_hashes(&r->receipts[0].tx_hash, &r->receipts[1].tx_hash);
	check_refused(b, r, "receipt 0 is of transaction 0x");
	swap_hashes(&r->receipts[0].tx_hash, &r->receipts[1].tx_hash);
	r->receipts[1].tx_index++;
	check_refused(b, r, "receipt 1 has the transaction index 2");
	r->receipts[1].tx_index--;
	r->receipts[1].block_hash.b[3]++;
	check_refused(b, r, "receipt 1 is of block 0x");
	r->receipts[1].block_hash.b[3]--;
	r->receipts[1].block_number--;
	check_refused(b, r, "receipt 1 is of height ");
	r->receipts[1].block_number++;
	r->receipts[1].type = 0x63;
	check_refused(b, r, "receipt 1: receipt type 0x63 has no known encoding");
	r->receipts[1].type = 0x05;
	check_refused(b, r, "receipt 1: receipt type 0x05 has no known encoding");
}

/* Leaves both with their counts wrong. */
static void check_counts(struct block *b, struct receipts *r)
{
	char begin[80];

	r->count--;
	snprintf(begin, sizeof(begin), "%u receipts for %u transactions", r->count, b->tx_count);
	check_refused(b, r, begin);
	r->count = 0;
	snprintf(begin, sizeof(begin), "0 receipts for %u transactions", b->tx_count);
	check_refused(b, r, begin);
	b->has_transactions = false;
	check_refused(b, r, "the block came without its transactions");
}

static void check_recording(const struct recording *rec)
{
	struct block b = { .tx_hashes = NULL };
	struct receipts r = { .count = 0 };

	must(judge(rec->block, rec->receipts, &b, &r));
	assert_true(r.count > 50 && r.log_count > 80);
	for (uint32_t i = 0; i < r.log_count; i++)
		assert_true(bloom_has(b.header.bloom, r.logs[i].address.b, 20));
	check_header_flips(rec);
	check_receipt_flips(rec);
	check_indifferent(rec);
	check_tampered(&b, &r);
	must(judge(rec->block, rec->receipts, &b, &r));
	check_counts(&b, &r);
	block_free(&b);
	receipts_free(&r);
}

static size_t check_tape(const char *name)
{
	struct slice file = read_file(name), rest = file, line;
	struct recording rec;
	size_t count = 0;

	while (next_line(&rest, &line)) {
		if (!is_recording(line, &rec))
			continue;
		check_recording(&rec);
		count++;
	}
	free((void *)file.data);
	return count;
}

static void test_tapes(void **state)
{
	DIR *dir = opendir(mainnet_folder());
	struct dirent *entry;
	size_t blocks = 0;

	(void)state;
	while ((entry = readdir(dir))) {
		if (strstr(entry->d_name, ".tape"))
			blocks += check_tape(entry->d_name);
	}
	closedir(dir);
	assert_true(blocks >= 8);
}

/* The second encoder: it builds from the inside out and knows nothing of marks. */

static void naive_prefix(struct buf *out, size_t len, uint8_t base)
{
	uint8_t be[8];
	int skipped = 0;

	if (len < 56) {
		buf_put_u8(out, (uint8_t)(base + len));
		return;
	}
	be64_put(be, len);
	while (be[skipped] == 0)
		skipped++;
	buf_put_u8(out, (uint8_t)(base + 55 + 8 - skipped));
	buf_put(out, be + skipped, (size_t)(8 - skipped));
}

static void naive_string(struct buf *out, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	if (len != 1 || bytes[0] >= 0x80)
		naive_prefix(out, len, 0x80);
	buf_put(out, data, len);
}

static void naive_number(struct buf *out, const uint8_t *be, size_t len)
{
	while (len && *be == 0) {
		be++;
		len--;
	}
	naive_string(out, be, len);
}

static void naive_u64(struct buf *out, uint64_t v)
{
	uint8_t be[8];

	be64_put(be, v);
	naive_number(out, be, sizeof(be));
}

static void naive_u256(struct buf *out, const struct u256 *v)
{
	uint8_t be[32];

	u256_to_be(v, be);
	naive_number(out, be, sizeof(be));
}

/* The items, made one after the other, become a list; they are freed. */
static void naive_list(struct buf *out, struct buf *items)
{
	naive_prefix(out, items->len, 0xc0);
	buf_put(out, items->data, items->len);
	buf_free(items);
}

static uint64_t seed = 99;

static void fill(void *out, size_t len)
{
	uint8_t *bytes = out;

	for (size_t i = 0; i < len; i++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		bytes[i] = (uint8_t)(seed >> 56);
	}
}

static struct header make_header(unsigned fields)
{
	struct header h;

	fill(&h, sizeof(h));
	h.fields = (enum header_fields)fields;
	h.extra_len = fields % 2 ? 32 : fields == 20 ? 0 : 1;
	h.extra[0] = 0x7f;
	h.difficulty = u256_from_u64(fields < 17 ? 0xb6b4bbd735f : 0);
	h.number = 0x80;
	h.gas_used = 0;
	h.gas_limit = 30000000;
	h.blob_gas_used = 0;
	h.excess_blob_gas = 0x7f;
	return h;
}

/* Straight from the table of fields, 1 to 23. */
static void naive_header(struct buf *out, const struct header *h)
{
	struct buf items = { 0 };

	for (unsigned field = 1; field <= (unsigned)h->fields; field++) {
		switch (field) {
		case 1: naive_string(&items, h->parent_hash.b, 32); break;
		case 2: naive_string(&items, h->uncles_hash.b, 32); break;
		case 3: naive_string(&items, h->miner.b, 20); break;
		case 4: naive_string(&items, h->state_root.b, 32); break;
		case 5: naive_string(&items, h->transactions_root.b, 32); break;
		case 6: naive_string(&items, h->receipts_root.b, 32); break;
		case 7: naive_string(&items, h->bloom, 256); break;
		case 8: naive_u256(&items, &h->difficulty); break;
		case 9: naive_u64(&items, h->number); break;
		case 10: naive_u64(&items, h->gas_limit); break;
		case 11: naive_u64(&items, h->gas_used); break;
		case 12: naive_u64(&items, h->timestamp); break;
		case 13: naive_string(&items, h->extra, h->extra_len); break;
		case 14: naive_string(&items, h->mix_hash.b, 32); break;
		case 15: naive_string(&items, h->nonce, 8); break;
		case 16: naive_u256(&items, &h->base_fee); break;
		case 17: naive_string(&items, h->withdrawals_root.b, 32); break;
		case 18: naive_u64(&items, h->blob_gas_used); break;
		case 19: naive_u64(&items, h->excess_blob_gas); break;
		case 20: naive_string(&items, h->parent_beacon_root.b, 32); break;
		case 21: naive_string(&items, h->requests_hash.b, 32); break;
		case 22: naive_string(&items, h->block_access_list_hash.b, 32); break;
		case 23: naive_u64(&items, h->slot_number); break;
		}
	}
	naive_list(out, &items);
}

static void test_made_headers(void **state)
{
	(void)state;
	for (unsigned fields = HEADER_FRONTIER; fields <= HEADER_AMSTERDAM; fields++) {
		struct header h = make_header(fields);
		struct buf naive = { 0 };
		struct hash32 want, got;

		naive_header(&naive, &h);
		want = keccak256(naive.data, naive.len);
		got = header_hash(&h, &scratch);
		assert_memory_equal(got.b, want.b, 32);
		h.hash = want;
		must(verify_header(&h, &scratch, &why));
		h.gas_used ^= 1;
		assert_int_equal(verify_header(&h, &scratch, &why), E_PEER);
		assert_non_null(strstr(why.text, "header 128 claims the hash 0x"));
		h.gas_used ^= 1;
		h.fields = (enum header_fields)(fields == 15 ? 16 : fields - 1);
		assert_int_equal(verify_header(&h, &scratch, &why), E_PEER);
		buf_free(&naive);
	}
}

static void naive_log(struct buf *out, const struct receipts *r, const struct log_entry *log)
{
	struct buf items = { 0 }, topics = { 0 };

	for (int i = 0; i < log->topic_count; i++)
		naive_string(&topics, log->topics[i].b, 32);
	naive_string(&items, log->address.b, 20);
	naive_list(&items, &topics);
	naive_string(&items, r->data.data + log->data_at, log->data_len);
	naive_list(out, &items);
}

static void naive_receipt(struct buf *out, const struct receipts *r, const struct receipt *receipt)
{
	struct buf items = { 0 }, logs = { 0 };

	if (receipt->has_status)
		naive_string(&items, "\1", receipt->status);
	else
		naive_string(&items, receipt->root.b, 32);
	naive_u64(&items, receipt->cumulative_gas);
	naive_string(&items, receipt->bloom, BLOOM_BYTES);
	for (uint32_t i = 0; i < receipt->log_count; i++)
		naive_log(&logs, r, &r->logs[receipt->first_log + i]);
	naive_list(&items, &logs);
	if (receipt->has_deposit_nonce)
		naive_u64(&items, receipt->deposit_nonce);
	if (receipt->has_deposit_version)
		naive_u64(&items, receipt->deposit_version);
	if (receipt->type)
		buf_put(out, &receipt->type, 1);
	naive_list(out, &items);
}

#define MADE 11

/* Types 0 (status, failed, root), 1, 2, 3, 4, two deposits, Arbitrum's and Polygon's; receipt i has i % 4 logs. */
static struct receipts make_receipts(void)
{
	static const uint8_t types[MADE] = { 0, 0, 0, 1, 2, 3, 4, 0x7e, 0x7e, 0x6a, 0x7f };
	struct receipts r = { .count = MADE };

	r.receipts = xcalloc(MADE, sizeof(*r.receipts));
	r.logs = xcalloc(4 * MADE, sizeof(*r.logs));
	for (uint32_t i = 0; i < MADE; i++) {
		struct receipt *receipt = &r.receipts[i];

		receipt->type = types[i];
		receipt->has_status = i != 2;
		receipt->status = i != 1 && i != 2;
		fill(&receipt->root, sizeof(receipt->root));
		fill(&receipt->tx_hash, sizeof(receipt->tx_hash));
		receipt->tx_index = i;
		receipt->cumulative_gas = 21000 * (i + 1);
		receipt->first_log = r.log_count;
		receipt->log_count = i % 4;
		for (uint32_t k = 0; k < i % 4; k++) {
			struct log_entry *log = &r.logs[r.log_count++];

			fill(log, sizeof(*log));
			log->topic_count = (uint8_t)((i + k) % 5);
			log->data_at = (uint32_t)r.data.len;
			log->data_len = i * k * 19;
			fill(buf_extend(&r.data, log->data_len), log->data_len);
			bloom_add(receipt->bloom, log->address.b, 20);
		}
	}
	r.receipts[7].has_deposit_nonce = r.receipts[8].has_deposit_nonce = true;
	r.receipts[7].deposit_nonce = 0;
	r.receipts[8].deposit_nonce = 4012991;
	r.receipts[8].has_deposit_version = true;
	r.receipts[8].deposit_version = 1;
	return r;
}

static struct hash32 naive_root(const struct receipts *r)
{
	struct buf encoded[MADE] = { { 0 } }, nodes = { 0 };
	struct slice values[MADE];
	struct hash32 root;

	for (uint32_t i = 0; i < r->count; i++) {
		naive_receipt(&encoded[i], r, &r->receipts[i]);
		values[i] = buf_slice(&encoded[i]);
	}
	root = trie_ordered_root(values, r->count, &nodes);
	for (uint32_t i = 0; i < r->count; i++)
		buf_free(&encoded[i]);
	buf_free(&nodes);
	return root;
}

static void check_root(const struct receipts *r)
{
	struct hash32 want = naive_root(r), got = receipts_root(r, &scratch);

	assert_memory_equal(got.b, want.b, 32);
}

static void test_made_receipts(void **state)
{
	struct receipts r = make_receipts();
	struct hash32 want, got;

	(void)state;
	check_root(&r);
	r.receipts[7].has_deposit_nonce = false;
	check_root(&r);
	want = receipts_root(&r, &scratch);
	r.receipts[3].has_deposit_nonce = true;		/* means nothing outside type 0x7e */
	got = receipts_root(&r, &scratch);
	assert_true(hash_eq(&got, &want));
	r.receipts[3].has_deposit_nonce = false;
	for (r.count = 0; r.count < MADE; r.count++)
		check_root(&r);
	receipts_free(&r);
}

/* A block around made receipts, good until something of it is touched. */
static struct block make_block(struct receipts *r)
{
	struct block b = { .header.number = 7, .has_transactions = true, .tx_count = r->count };

	b.tx_hashes = xcalloc(r->count, sizeof(*b.tx_hashes));
	b.header.hash.b[0] = 0xaa;
	b.header.receipts_root = naive_root(r);
	for (uint32_t i = 0; i < r->count; i++) {
		b.tx_hashes[i] = r->receipts[i].tx_hash;
		r->receipts[i].block_hash = b.header.hash;
		r->receipts[i].block_number = 7;
		for (size_t k = 0; k < BLOOM_BYTES; k++)
			b.header.bloom[k] |= r->receipts[i].bloom[k];
	}
	return b;
}

static void test_made_block(void **state)
{
	struct receipts r = make_receipts();
	struct block b = make_block(&r);

	(void)state;
	must(verify_receipts(&b, &r, &scratch, &why));
	r.receipts[8].deposit_nonce++;
	check_refused(&b, &r, "11 receipts have the root 0x");
	r.receipts[8].deposit_nonce--;
	r.logs[0].topics[0].b[0]++;
	check_refused(&b, &r, "11 receipts have the root 0x");
	r.logs[0].topics[0].b[0]--;
	b.header.bloom[17] ^= 0x10;
	check_refused(&b, &r, "the blooms of 11 receipts do not add up to the header's");
	b.header.bloom[17] ^= 0x10;
	must(verify_receipts(&b, &r, &scratch, &why));
	check_tampered(&b, &r);
	block_free(&b);
	receipts_free(&r);
}

static void test_empty_block(void **state)
{
	struct receipts none = { .count = 0 };
	struct block b = { .has_transactions = true };

	(void)state;
	check_refused(&b, &none, "0 receipts have the root 0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b99"
		      "6cadc001622fb5e363b421");
	assert_true(hash_parse(slice_of_text("0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc0016"
					     "22fb5e363b421"), &b.header.receipts_root));
	must(verify_receipts(&b, &none, &scratch, &why));
}

/* The yellow paper's example: the address 0x0f57..b3ab sets bits 1323, 431 and 1319. */
static void test_blooms(void **state)
{
	static const unsigned bits[] = { 1323, 431, 1319 };
	uint8_t bloom[BLOOM_BYTES] = { 0 }, want[BLOOM_BYTES] = { 0 };
	struct address a, b;

	(void)state;
	assert_true(address_parse(slice_of_text("0x0f572e5295c57f15886f9b263e2f6d2d6c7b5ec6"), &a));
	assert_true(address_parse(slice_of_text("0xdac17f958d2ee523a2206206994597c13d831ec7"), &b));
	for (int i = 0; i < 3; i++)
		want[255 - bits[i] / 8] |= (uint8_t)(1 << bits[i] % 8);
	assert_false(bloom_has(bloom, a.b, sizeof(a.b)));
	bloom_add(bloom, a.b, sizeof(a.b));
	assert_memory_equal(bloom, want, BLOOM_BYTES);
	assert_true(bloom_has(bloom, a.b, sizeof(a.b)));
	assert_false(bloom_has(bloom, b.b, sizeof(b.b)));
	bloom_add(bloom, b.b, sizeof(b.b));
	assert_true(bloom_has(bloom, a.b, sizeof(a.b)) && bloom_has(bloom, b.b, sizeof(b.b)));
}

static int teardown(void **state)
{
	(void)state;
	buf_free(&scratch);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers_across_a_fork),
		cmocka_unit_test(test_siblings),
		cmocka_unit_test(test_tapes),
		cmocka_unit_test(test_made_headers),
		cmocka_unit_test(test_made_receipts),
		cmocka_unit_test(test_made_block),
		cmocka_unit_test(test_empty_block),
		cmocka_unit_test(test_blooms),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
