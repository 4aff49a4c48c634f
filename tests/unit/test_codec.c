/* Each test edits a good answer in one place and says what must become of it. */
#include "listener/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *good_block;
static char *good_receipts;

/* "0x" and @count times the digit, in one of a few turning buffers. */
static const char *hex_of(char digit, size_t count)
{
	static char texts[16][2 + 2 * BLOOM_BYTES + 1];
	static unsigned turn;
	char *text = texts[turn++ % 16];

	text[0] = '0';
	text[1] = 'x';
	memset(text + 2, digit, count);
	text[2 + count] = '\0';
	return text;
}

static const char *hash_of(char digit)
{
	return hex_of(digit, 64);
}

static char *take_text(struct buf *b)
{
	buf_put_u8(b, '\0');
	return (char *)b->data;
}

static char *make_block(void)
{
	struct buf b = { 0 };

	buf_printf(&b, "{\"hash\":\"%s\",\"parentHash\":\"%s\",\"sha3Uncles\":\"%s\",\"miner\":\"%s\",",
		   hash_of('1'), hash_of('2'), hash_of('3'), hex_of('4', 40));
	buf_printf(&b, "\"stateRoot\":\"%s\",\"transactionsRoot\":\"%s\",\"receiptsRoot\":\"%s\",",
		   hash_of('5'), hash_of('6'), hash_of('7'));
	buf_printf(&b, "\"logsBloom\":\"%s\",\"difficulty\":\"0xb6b4bbd735f\",", hex_of('8', 512));
	buf_printf(&b, "\"number\":\"0x10\",\"gasLimit\":\"0x20\",\"gasUsed\":\"0x0\",\"timestamp\":\"0x63\",");
	buf_printf(&b, "\"extraData\":\"0xd78301\",\"mixHash\":\"%s\",\"nonce\":\"%s\",", hash_of('9'),
		   hex_of('a', 16));
	buf_printf(&b, "\"baseFeePerGas\":\"0x7\",\"withdrawalsRoot\":\"%s\",\"blobGasUsed\":\"0x1\",",
		   hash_of('b'));
	buf_printf(&b, "\"excessBlobGas\":\"0x2\",\"parentBeaconBlockRoot\":\"%s\",\"requestsHash\":\"%s\",",
		   hash_of('c'), hash_of('d'));
	buf_printf(&b, "\"blockAccessListHash\":\"%s\",\"slotNumber\":\"0x3\",", hash_of('e'));
	buf_printf(&b, "\"totalDifficulty\":\"0x0\",\"uncles\":[],\"transactions\":[\"%s\",\"%s\"]}",
		   hash_of('a'), hash_of('b'));
	return take_text(&b);
}

static void put_log(struct buf *b, char tx, const char *topics, const char *data)
{
	buf_printf(b, "{\"address\":\"%s\",\"topics\":[%s],\"data\":\"%s\",", hex_of('c', 40), topics, data);
	buf_printf(b, "\"blockHash\":\"%s\",\"transactionHash\":\"%s\",\"transactionIndex\":\"0x%d\",",
		   hash_of('1'), hash_of(tx), tx - 'a');
	buf_printf(b, "\"logIndex\":\"nonsense\",\"removed\":false}");
}

static void put_receipt_end(struct buf *b, char tx, const char *more)
{
	buf_printf(b, "],\"blockHash\":\"%s\",\"blockNumber\":\"0x10\",\"transactionHash\":\"%s\",",
		   hash_of('1'), hash_of(tx));
	buf_printf(b, "\"transactionIndex\":\"0x%d\",\"cumulativeGasUsed\":\"0x5208\",\"to\":null,", tx - 'a');
	buf_printf(b, "\"logsBloom\":\"%s\",\"status\":\"0x1\"%s}", hex_of('0', 512), more);
}

static char *make_receipts(void)
{
	struct buf b = { 0 };
	char topics[200];

	buf_put_text(&b, "[{\"logs\":[");
	put_receipt_end(&b, 'a', ",\"root\":null,\"contractAddress\":null");
	buf_put_text(&b, ",{\"logs\":[");
	snprintf(topics, sizeof(topics), "\"%s\",\"%s\"", hash_of('d'), hash_of('e'));
	put_log(&b, 'b', topics, "0x");
	buf_put_u8(&b, ',');
	put_log(&b, 'b', "", "0x010203");
	put_receipt_end(&b, 'b', ",\"type\":\"0x2\",\"new\":{\"deep\":[1,{\"x\":\"}\"}]}");
	buf_put_u8(&b, ']');
	return take_text(&b);
}

static int setup(void **state)
{
	(void)state;
	good_block = make_block();
	good_receipts = make_receipts();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(good_block);
	free(good_receipts);
	return 0;
}

/* A copy of @text in which @from stands as @to, at its @nth place counted from 0. */
static char *edit(const char *text, int nth, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	struct buf out = { 0 };

	while (at && nth--)
		at = strstr(at + 1, from);
	if (!at)
		fail_msg("no %s to edit", from);
	buf_put(&out, text, (size_t)(at - text));
	buf_put_text(&out, to);
	buf_put_text(&out, at + strlen(from));
	return take_text(&out);
}

/* Decodes the edited block; @complaint is its expected beginning, or NULL if it is good. */
static void check_block(const char *from, const char *to, const char *complaint, struct block *b)
{
	struct complaint why = { "" };
	char *text = edit(good_block, 0, from, to);
	enum err err = block_decode(slice_of_text(text), b, &why);

	free(text);
	if (err != (complaint ? E_PEER : OK) || strncmp(why.text, complaint ? complaint : "",
							complaint ? strlen(complaint) : 1) != 0)
		fail_msg("%s -> %s: %s %s", from, to, err_name(err), why.text);
}

static void check_receipts(int nth, const char *from, const char *to, const char *complaint,
			   struct receipts *r)
{
	struct complaint why = { "" };
	char *text = edit(good_receipts, nth, from, to);
	enum err err = receipts_decode(slice_of_text(text), r, &why);

	free(text);
	if (err != (complaint ? E_PEER : OK) || strncmp(why.text, complaint ? complaint : "",
							complaint ? strlen(complaint) : 1) != 0)
		fail_msg("%s -> %s: %s %s", from, to, err_name(err), why.text);
}

static void test_block(void **state)
{
	struct block b = { .tx_hashes = NULL };

	(void)state;
	check_block("{", "{", NULL, &b);
	assert_int_equal(b.header.fields, HEADER_AMSTERDAM);
	assert_int_equal(b.header.hash.b[0], 0x11);
	assert_int_equal(b.header.miner.b[19], 0x44);
	assert_int_equal(b.header.bloom[255], 0x88);
	assert_int_equal(b.header.nonce[7], 0xaa);
	assert_int_equal(b.header.number, 16);
	assert_int_equal(b.header.timestamp, 99);
	assert_int_equal(b.header.extra_len, 3);
	assert_memory_equal(b.header.extra, "\xd7\x83\x01", 3);
	assert_int_equal(b.header.requests_hash.b[5], 0xdd);
	assert_int_equal(b.header.slot_number, 3);
	assert_true(b.has_transactions);
	assert_int_equal(b.tx_count, 2);
	assert_int_equal(b.tx_hashes[1].b[31], 0xbb);
	block_free(&b);
	assert_null(b.tx_hashes);
}

static void test_block_lenient(void **state)
{
	struct block b = { .tx_hashes = NULL };
	char tx[200];

	(void)state;
	check_block("\"number\":\"0x10\"", "\"number\":\"0x0000010\"", NULL, &b);
	assert_int_equal(b.header.number, 16);
	check_block("\"number\":\"0x10\"", "\"number\":9007199254740993", NULL, &b);
	assert_int_equal(b.header.number, 9007199254740993);
	check_block("\"difficulty\":\"0xb6b4bbd735f\"", "\"difficulty\":58750003716598352816469", NULL, &b);
	check_block("\"extraData\":\"0xd78301\"", "\"extraData\":\"0x\"", NULL, &b);
	assert_int_equal(b.header.extra_len, 0);
	snprintf(tx, sizeof(tx), "\"transactions\":[{\"input\":\"0x\",\"hash\":\"%s\",\"x\":[{}]},",
		 hash_of('f'));
	check_block("\"transactions\":[", tx, NULL, &b);
	assert_int_equal(b.tx_count, 3);
	assert_int_equal(b.tx_hashes[0].b[0], 0xff);
	check_block("\"transactions\":", "\"transactions\":null,\"ignored\":", NULL, &b);
	assert_false(b.has_transactions);
	assert_int_equal(b.tx_count, 0);
	check_block("\"transactions\":", "\"other\":", NULL, &b);
	assert_false(b.has_transactions);
	block_free(&b);
}

static void test_block_strict(void **state)
{
	struct block b = { .tx_hashes = NULL };

	(void)state;
	check_block("\"parentHash\":\"0x2", "\"parentHash\":\"0x", "parentHash: 63 hex digits, want 64", &b);
	check_block("\"parentHash\":\"0x2", "\"parentHash\":\"0xg", "parentHash: not all hex digits", &b);
	check_block("\"parentHash\":\"0x", "\"parentHash\":\"0X", "parentHash: no 0x in front", &b);
	check_block("\"miner\":\"0x4", "\"miner\":\"0x", "miner: 39 hex digits, want 40", &b);
	check_block("\"logsBloom\":\"0x", "\"logsBloom\":\"0x00", "logsBloom: 514 hex digits, want 512", &b);
	check_block("\"nonce\":\"0xaa", "\"nonce\":\"0x", "nonce: 14 hex digits, want 16", &b);
	check_block("\"number\":\"0x10\"", "\"number\":\"0x\"", "number: \"0x\" is no quantity", &b);
	check_block("\"number\":\"0x10\"", "\"number\":\"16\"", "number: \"16\" is no quantity", &b);
	check_block("\"number\":\"0x10\"", "\"number\":16.0", "number: \"16.0\" is no quantity", &b);
	check_block("\"number\":\"0x10\"", "\"number\":-1", "number: \"-1\" is no quantity", &b);
	check_block("\"number\":\"0x10\"", "\"number\":\"0x10000000000000000\"", "number: ", &b);
	check_block("\"number\":\"0x10\"", "\"number\":true", "number: not a string at byte", &b);
	check_block("\"number\":\"0x10\"", "\"number\":null", "number: missing", &b);
	check_block("\"stateRoot\"", "\"state\"", "stateRoot: missing", &b);
	check_block("\"hash\":", "\"hash\":null,\"_\":", "hash: missing", &b);
	check_block("\"number\":", "\"number\":\"0x1\",\"number\":", "number: twice in one object", &b);
	check_block("\"extraData\":\"0xd78301\"", "\"extraData\":\"0xd7830\"",
		    "extraData: 5 hex digits, want an even number", &b);
	check_block("\"transactions\":[\"0xa", "\"transactions\":[\"0x",
		    "transactions[0]: 63 hex digits, want 64", &b);
	check_block("\"transactions\":[", "\"transactions\":[null,", "transactions[0]: not a string", &b);
	check_block("\"transactions\":[", "\"transactions\":[{},", "transactions[0].hash: missing", &b);
	check_block("\"transactions\":", "\"transactions\":7,\"_\":", "transactions: not an array", &b);
	check_block("\"uncles\":[]", "\"uncles\":[}", "(a member not used): the wrong closing bracket", &b);
	check_block("{", "[{", "not an object at byte 0", &b);
	block_free(&b);
}

static void check_whole_block(const char *text, const char *complaint)
{
	struct block b = { .tx_hashes = NULL };
	struct complaint why;

	assert_int_equal(block_decode(slice_of_text(text), &b, &why), E_PEER);
	assert_string_equal(why.text, complaint);
	block_free(&b);
}

static void test_no_block(void **state)
{
	(void)state;
	check_whole_block("null", "not an object at byte 0");
	check_whole_block("", "the text ends where a value should be at byte 0");
	check_whole_block("{}", "hash: missing");
	check_whole_block("[]", "not an object at byte 0");
}

/* The forks' fields are a prefix, whether the absent ones are null or not there. */
static void test_optional_fields(void **state)
{
	static const char *const names[] = {
		"baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas",
		"parentBeaconBlockRoot", "requestsHash", "blockAccessListHash", "slotNumber",
	};
	struct block b = { .tx_hashes = NULL };
	struct complaint why;
	char *text = edit(good_block, 0, "{", "{");

	(void)state;
	for (size_t i = ARRAY_SIZE(names); i-- > 0; ) {
		char from[40], to[60], *shorter;

		snprintf(from, sizeof(from), "\"%s\":", names[i]);
		snprintf(to, sizeof(to), i % 2 ? "\"_\":" : "\"%s\":null,\"_\":", names[i]);
		if (i + 1 < ARRAY_SIZE(names)) {
			char complaint[100];

			snprintf(complaint, sizeof(complaint), "%s: missing, although the later %s is there",
				 names[i], names[i + 1]);
			check_block(from, to, complaint, &b);
		}
		shorter = edit(text, 0, from, to);
		free(text);
		text = shorter;
		assert_int_equal(block_decode(slice_of_text(text), &b, &why), OK);
		assert_int_equal(b.header.fields, HEADER_FRONTIER + i);
	}
	free(text);
	block_free(&b);
}

static void test_receipts(void **state)
{
	struct receipts r = { .count = 0 };

	(void)state;
	check_receipts(0, "[", "[", NULL, &r);
	assert_int_equal(r.count, 2);
	assert_int_equal(r.log_count, 2);
	assert_int_equal(r.receipts[0].log_count, 0);
	assert_int_equal(r.receipts[0].type, 0);
	assert_int_equal(r.receipts[1].type, 2);
	assert_int_equal(r.receipts[1].first_log, 0);
	assert_int_equal(r.receipts[1].log_count, 2);
	assert_int_equal(r.receipts[1].tx_index, 1);
	assert_int_equal(r.receipts[1].cumulative_gas, 21000);
	assert_true(r.receipts[1].has_status && r.receipts[1].status == 1);
	assert_int_equal(r.receipts[1].tx_hash.b[0], 0xbb);
	assert_int_equal(r.logs[0].topic_count, 2);
	assert_int_equal(r.logs[0].topics[1].b[0], 0xee);
	assert_int_equal(r.logs[0].data_len, 0);
	assert_int_equal(r.logs[1].topic_count, 0);
	assert_int_equal(r.logs[1].data_len, 3);
	assert_memory_equal(r.data.data + r.logs[1].data_at, "\1\2\3", 3);
	receipts_free(&r);
}

static void test_receipts_lenient(void **state)
{
	struct receipts r = { .count = 0 };
	char root[100];

	(void)state;
	check_receipts(0, "\"blockNumber\":\"0x10\"", "\"blockNumber\":16", NULL, &r);
	assert_int_equal(r.receipts[0].block_number, 16);
	check_receipts(0, "\"removed\":false", "\"removed\":null", NULL, &r);
	check_receipts(0, "\"removed\":false", "\"blockTimestamp\":1", NULL, &r);
	check_receipts(0, "\"transactionIndex\":\"0x1\"", "\"transactionIndex\":1", NULL, &r);
	check_receipts(0, "\"transactionIndex\":\"0x1\"", "\"transactionIndex\":null", NULL, &r);
	check_receipts(0, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"0xBb", NULL, &r);
	check_receipts(2, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"0xBB", NULL, &r);
	check_receipts(0, "\"root\":null", "\"root\":\"0x\"", NULL, &r);
	check_receipts(0, "\"type\":\"0x2\"", "\"type\":126,\"depositNonce\":\"0x7\"", NULL, &r);
	assert_true(r.receipts[1].type == 0x7e && r.receipts[1].has_deposit_nonce);
	assert_true(r.receipts[1].deposit_nonce == 7 && !r.receipts[1].has_deposit_version);
	check_receipts(0, "\"type\":\"0x2\"", "\"type\":\"0x7e\",\"depositNonce\":null,"
		       "\"depositReceiptVersion\":\"0x1\"", NULL, &r);
	assert_true(!r.receipts[1].has_deposit_nonce && r.receipts[1].has_deposit_version);
	check_receipts(0, "\"type\":\"0x2\"", "\"type\":\"0x6a\"", NULL, &r);
	snprintf(root, sizeof(root), "\"root\":\"%s\"", hash_of('7'));
	check_receipts(0, "\"status\":\"0x1\",\"root\":null", root, NULL, &r);
	assert_false(r.receipts[0].has_status);
	assert_int_equal(r.receipts[0].root.b[0], 0x77);
	receipts_free(&r);
}

static void test_receipts_strict(void **state)
{
	struct receipts r = { .count = 0 };
	char topics[500];

	(void)state;
	check_receipts(0, "[", "[null,", "[0]: not an object at byte 1", &r);
	check_receipts(0, "\"status\":\"0x1\"", "\"status\":null", "[0]: neither status nor root", &r);
	check_receipts(1, "\"status\":\"0x1\"", "\"x\":1", "[1]: neither status nor root", &r);
	check_receipts(0, "\"status\":\"0x1\"", "\"status\":\"0x2\"", "[0].status: 2, want at most 1", &r);
	check_receipts(0, "\"root\":null", "\"root\":\"0x12\"", "[0].root: 2 hex digits, want 64", &r);
	check_receipts(0, "\"type\":\"0x2\"", "\"type\":\"0x100\"", "[1].type: 256, want at most 255", &r);
	check_receipts(1, "\"removed\":false", "\"removed\":true", "[1].logs[1].removed: not false", &r);
	check_receipts(0, "\"removed\":false", "\"removed\":\"false\"", "[1].logs[0].removed: ", &r);
	check_receipts(1, "\"blockHash\":\"0x11", "\"blockHash\":\"0x12", "[1].logs[1].blockHash: not the one "
		       "of the receipt's other logs", &r);
	check_receipts(3, "\"blockHash\":\"0x11", "\"blockHash\":\"0x12", "[1]: its logs have another blockHash",
		       &r);
	check_receipts(0, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"0xbc",
		       "[1].logs[1].transactionHash: not the one", &r);
	check_receipts(2, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"0xbc",
		       "[1]: its logs have another transactionHash", &r);
	check_receipts(1, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"0xb",
		       "[1].logs[1].transactionHash: 63 hex digits, want 64", &r);
	check_receipts(0, "\"transactionHash\":\"0xbb", "\"transactionHash\":\"\",\"x\":\"",
		       "[1].logs[0].transactionHash: no 0x in front", &r);
	check_receipts(0, "\"transactionIndex\":\"0x1\"", "\"transactionIndex\":\"0x5\"",
		       "[1].logs[1].transactionIndex: not the one", &r);
	check_receipts(2, "\"transactionIndex\":\"0x1\"", "\"transactionIndex\":\"0x5\"",
		       "[1]: its logs have another transactionIndex", &r);
	check_receipts(0, "\"data\":\"0x010203\"", "\"data\":\"0x01020\"",
		       "[1].logs[1].data: 5 hex digits, want an even number", &r);
	check_receipts(0, "\"data\":\"0x010203\"", "\"data\":\"0x01020g\"", "[1].logs[1].data: not all", &r);
	check_receipts(0, "\"data\":\"0x010203\"", "\"data\":null", "[1].logs[1].data: missing", &r);
	check_receipts(0, "\"address\":\"0xc", "\"address\":\"0x", "[1].logs[0].address: 39 hex digits", &r);
	check_receipts(0, "\"topics\":[\"0xd", "\"topics\":[\"0x", "[1].logs[0].topics[0]: 63 hex digits", &r);
	snprintf(topics, sizeof(topics), "\"topics\":[\"%s\",\"%s\",\"%s\",", hash_of('1'), hash_of('2'),
		 hash_of('3'));
	check_receipts(0, "\"topics\":[", topics, "[1].logs[0].topics[4]: more than 4 topics", &r);
	check_receipts(0, "\"logs\":[", "\"log\":[", "[0].logs: missing", &r);
	check_receipts(0, "\"cumulativeGasUsed\"", "\"cumulative\"", "[0].cumulativeGasUsed: missing", &r);
	check_receipts(0, "[", "{", "not an array at byte 0", &r);
	receipts_free(&r);
}

/* However it is cut, it is refused, and the structs stay usable. */
static void test_cut(void **state)
{
	struct receipts r = { .count = 0 };
	struct block b = { .tx_hashes = NULL };
	struct complaint why;

	(void)state;
	for (size_t len = 0; len < strlen(good_receipts); len++) {
		char *cut = xmalloc(len);

		memcpy(cut, good_receipts, len);
		assert_int_equal(receipts_decode((struct slice){ (uint8_t *)cut, len }, &r, &why), E_PEER);
		free(cut);
	}
	for (size_t len = 0; len < strlen(good_block); len++) {
		char *cut = xmalloc(len);

		memcpy(cut, good_block, len);
		assert_int_equal(block_decode((struct slice){ (uint8_t *)cut, len }, &b, &why), E_PEER);
		free(cut);
	}
	check_receipts(0, "[", "[", NULL, &r);
	assert_int_equal(receipts_decode(slice_of_text("null"), &r, &why), E_PEER);
	assert_int_equal(receipts_decode(slice_of_text("[]"), &r, &why), OK);
	assert_int_equal(r.count + r.log_count, 0);
	receipts_free(&r);
	block_free(&b);
}

static struct reply decode_reply(const char *text)
{
	struct complaint why;
	struct reply reply;

	if (reply_decode(slice_of_text(text), &reply, &why))
		fail_msg("%s: %s", text, why.text);
	return reply;
}

static void check_id(const char *id, bool has_id, uint64_t want)
{
	char text[120];
	struct reply reply;

	snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\"%s%s,\"result\":\"0x1\"}", *id ? ",\"id\":" : "", id);
	reply = decode_reply(text);
	assert_int_equal(reply.has_id, has_id);
	assert_int_equal(reply.id, want);
	assert_int_equal(reply.kind, REPLY_RESULT);
	assert_true(slice_is(reply.result, "\"0x1\""));
}

static void test_ids(void **state)
{
	(void)state;
	check_id("7", true, 7);
	check_id("\"7\"", true, 7);
	check_id("0", true, 0);
	check_id("9007199254740993", true, 9007199254740993);
	check_id("18446744073709551615", true, UINT64_MAX);
	check_id("18446744073709551616", false, 0);
	check_id("7.0", false, 0);
	check_id("-7", false, 0);
	check_id("\"07\"", false, 0);
	check_id("\"x\"", false, 0);
	check_id("\"\"", false, 0);
	check_id("null", false, 0);
	check_id("[7]", false, 0);
	check_id("true", false, 0);
	check_id("", false, 0);
}

static void check_error(const char *error, int64_t code, const char *message)
{
	char text[800];
	struct reply reply;

	snprintf(text, sizeof(text), "{\"id\":7,\"error\":%s,\"result\":[1]}", error);
	reply = decode_reply(text);
	assert_int_equal(reply.kind, REPLY_ERROR);
	assert_true(reply.has_id && reply.id == 7);
	assert_int_equal(reply.code, code);
	assert_string_equal(reply.message, message);
	assert_null(reply.result.data);
}

static void test_errors(void **state)
{
	char error[400], cut[160];

	(void)state;
	check_error("{\"code\":-32000,\"message\":\"\"}", -32000, "");
	check_error("{\"message\":\"unknown block\",\"code\":4444,\"data\":{\"code\":1}}", 4444, "unknown block");
	check_error("{\"code\":\"-32005\",\"message\":\"a \\\"b\\\"\\n\\u003c=\\u20ac\\\\\"}", -32005,
		    "a \"b\" <=?\\");
	check_error("{\"code\":1.5,\"message\":null}", 0, "");
	check_error("{\"code\":-9223372036854775809}", 0, "");
	check_error("{\"code\":5,\"code\":6,\"message\":7}", 5, "");
	check_error("{}", 0, "");
	check_error("\"rate limited\"", 0, "rate limited");
	check_error("true", 0, "");
	check_error("[{}]", 0, "");
	memset(error, 'm', sizeof(error));
	memcpy(error, "\"", 1);
	memcpy(error + sizeof(error) - 2, "\"", 2);
	memset(cut, 'm', sizeof(cut));
	cut[sizeof(cut) - 1] = '\0';
	check_error(error, 0, cut);
}

static void test_results(void **state)
{
	struct reply reply = decode_reply("{\"id\":7,\"result\":null}");

	(void)state;
	assert_int_equal(reply.kind, REPLY_NULL);
	reply = decode_reply("{\"id\":7,\"result\":null,\"error\":null}");
	assert_int_equal(reply.kind, REPLY_NULL);
	reply = decode_reply("{\"id\":7,\"error\":{\"code\":-32000,\"message\":\"\"},\"result\":null}");
	assert_int_equal(reply.kind, REPLY_ERROR);
	reply = decode_reply(" {\"result\" : { \"a\" : [ 1 , 2 ] } , \"error\":null,\"id\":7}\n");
	assert_int_equal(reply.kind, REPLY_RESULT);
	assert_true(slice_is(reply.result, "{ \"a\" : [ 1 , 2 ] }"));
	reply = decode_reply("{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":"
			     "{\"subscription\":\"0x9ce5\",\"result\":{\"number\":\"0x1\"}}}");
	assert_int_equal(reply.kind, REPLY_NOTICE);
	assert_false(reply.has_id);
	assert_string_equal(reply.subscription, "0x9ce5");
	assert_true(slice_is(reply.result, "{\"number\":\"0x1\"}"));
}

static void check_no_reply(const char *text, const char *begin)
{
	struct complaint why;
	struct reply reply;

	assert_int_equal(reply_decode(slice_of_text(text), &reply, &why), E_PEER);
	if (strncmp(why.text, begin, strlen(begin)) != 0)
		fail_msg("%s: %s", text, why.text);
}

static void test_no_replies(void **state)
{
	char deep[400], long_name[200];

	(void)state;
	check_no_reply("", "the text ends where a value should be at byte 0; the answer's 0 bytes");
	check_no_reply("<html>\r\n<head>", "no JSON value at byte 0; the answer's 14 bytes begin with "
		       "'<html>  <head>'");
	check_no_reply("invalid host specified\n", "no JSON value at byte 0;");
	check_no_reply("[{\"id\":7,\"result\":1}]", "not an object at byte 0;");
	check_no_reply("{\"id\":7}", "neither result nor error;");
	check_no_reply("{\"id\":7,\"error\":null}", "neither result nor error;");
	check_no_reply("{\"id\":7,\"result\":{\"a\":\"", "result: a string without an end at byte ");
	check_no_reply("{\"id\":7,\"result\":1} x", "more text after the value at byte 20;");
	check_no_reply("{\"result\":1,\"result\":2}", "result: twice in one object;");
	check_no_reply("{\"id\":7,\"id\":8,\"result\":2}", "id: twice in one object;");
	check_no_reply("{\"method\":\"m\",\"params\":{\"subscription\":\"0x1\"}}", "params.result: missing");
	check_no_reply("{\"method\":\"m\",\"params\":[1]}", "params: not an object");
	snprintf(deep, sizeof(deep), "{\"result\":%0300d}", 0);
	memset(deep + 10, '[', 300);
	check_no_reply(deep, "result: too deep at byte ");
	memset(long_name, 'x', sizeof(long_name));
	snprintf(deep, sizeof(deep), "{\"params\":{\"subscription\":\"%.68s\",\"result\":1}}", long_name);
	check_no_reply(deep, "params.subscription: 68 bytes");
}

static void check_u64(const char *text, bool ok, uint64_t want)
{
	struct complaint why;
	uint64_t v = 0;

	assert_int_equal(result_u64(slice_of_text(text), &v, &why), ok ? OK : E_PEER);
	assert_int_equal(v, want);
}

static void test_result_u64(void **state)
{
	(void)state;
	check_u64("\"0x00b\"", true, 11);
	check_u64(" 11 ", true, 11);
	check_u64("9007199254740993", true, 9007199254740993);
	check_u64("\"0xffffffffffffffff\"", true, UINT64_MAX);
	check_u64("\"0x\"", false, 0);
	check_u64("\"11\"", false, 0);
	check_u64("null", false, 0);
	check_u64("", false, 0);
	check_u64("{}", false, 0);
	check_u64("11.5", false, 0);
}

static void check_word(const char *text, bool ok, uint64_t want)
{
	struct complaint why;
	struct u256 v = u256_from_u64(99), wanted = u256_from_u64(want);
	char quoted[300];

	snprintf(quoted, sizeof(quoted), "\"%s\"", text);
	assert_int_equal(result_word(slice_of_text(quoted), &v, &why), ok ? OK : E_PEER);
	if (ok)
		assert_int_equal(u256_cmp(&v, &wanted), 0);
}

static void test_result_word(void **state)
{
	struct complaint why;
	struct u256 v;
	char two[140];

	(void)state;
	check_word("0x0000000000000000000000000000000000000000000000000000000000000105", true, 261);
	check_word(hash_of('0'), true, 0);
	check_word("0x", false, 0);
	check_word("0x105", false, 0);
	check_word(hex_of('0', 63), false, 0);
	check_word(hex_of('0', 65), false, 0);
	check_word(hex_of('g', 64), false, 0);
	snprintf(two, sizeof(two), "%063d", 0);
	snprintf(two, sizeof(two), "0x%063d5%064d", 0, 7);
	check_word(two, true, 5);
	assert_int_equal(result_word(slice_of_text("null"), &v, &why), E_PEER);
	assert_int_equal(result_word(slice_of_text("\"0x\""), &v, &why), E_PEER);
	assert_string_equal(why.text, "0 hex digits, want 64");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_block_lenient),
		cmocka_unit_test(test_block_strict),
		cmocka_unit_test(test_no_block),
		cmocka_unit_test(test_optional_fields),
		cmocka_unit_test(test_receipts),
		cmocka_unit_test(test_receipts_lenient),
		cmocka_unit_test(test_receipts_strict),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_no_replies),
		cmocka_unit_test(test_result_u64),
		cmocka_unit_test(test_result_word),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
