/*
 * What is asked of nodes and what is made of their answers: every block and receipt here is forged, with hashes and
 * roots that hold, so that what does not hold is refused for its own reason.
 */
#include "common/log.h"
#include "listener/reads.h"
#include "tests/unit/scripted.h"

#define A "http://a"
#define B "http://b"
#define BY_HASH "eth_getBlockByHash"
#define RECEIPTS "eth_getBlockReceipts"
#define RECEIPT "eth_getTransactionReceipt"
#define LOGS "eth_getLogs"
#define LATEST "\"latest\",false"
#define FINALIZED "\"finalized\",false"
#define NO_METHOD "{\"code\":-32601,\"message\":\"the method does not exist\"}"
#define NOT_YET "{\"code\":-32000,\"message\":\"header not found\"}"

enum { B100, B101, B102, B103, C101, BLOCKS };

static const char scenario[] =
	"token USDC 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48 6\n"
	"tx t1\n"
	"tx t4\n"
	"transfer t2 USDC alice shop 5_000_000\n"
	"transfer t3 USDC bob carol 7\n"
	"transfer t3 USDC bob shop 8\n"
	"block b100\n"
	"block b101 t1 t2 t3\n"
	"block b102\n"
	"block b103 t4\n"
	"tell b103\n"
	"block c101 on b100 t3\n"
	"tell c101\n"
	"head b103\n";

struct fixture {
	struct scripted w;
	struct chain_config config;
	struct reads r;
	struct scripted_block blocks[SCRIPTED_BLOCKS];
	unsigned changes;
	struct slice one[3];		/* b101's receipts, each */
	struct buf scratch;
};

static void on_changed(void *ctx)
{
	struct fixture *f = ctx;

	f->changes++;
}

static void cut_receipts(struct fixture *f)
{
	struct scan s = scan_begin(slice_of_text(f->blocks[B101].receipts));
	unsigned count = 0;

	scan_array(&s);
	while (scan_element(&s) && scan_skip(&s, &f->one[count]))
		count++;
	assert_int_equal(count, 3);
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scripted_start(&f->w);
	f->config = config_default(1);
	f->config.check_endpoints = false;
	f->config.batch_max = 1;
	assert_int_equal(scripted_forge(scenario, f->blocks), BLOCKS);
	cut_receipts(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scripted_cancel(&f->w);
	if (f->r.loop)
		reads_stop(&f->r);
	scripted_stop(&f->w);
	scripted_free_blocks(f->blocks, BLOCKS);
	buf_free(&f->scratch);
	free(f);
	return 0;
}

static const char *const urls[] = { A, B };

/* Answer the oldest question of @url that has @word in it. */
static void give(struct fixture *f, const char *url, const char *word, const char *result)
{
	scripted_reply(&f->w, scripted_find(&f->w, url, word), "result", result);
}

static void give_error(struct fixture *f, const char *url, const char *word, const char *error)
{
	scripted_reply(&f->w, scripted_find(&f->w, url, word), "error", error);
}

static void lose(struct fixture *f, const char *url, const char *word)
{
	scripted_fail(&f->w, scripted_find(&f->w, url, word), LOOP_TIMED_OUT);
}

/* @url is asked for @word @asked times now. */
static void expect_asked(struct fixture *f, const char *url, const char *word, unsigned asked)
{
	unsigned count = scripted_count(&f->w, url, word);

	if (count != asked)
		fail_msg("%s is asked %u times for %s, want %u", url, count, word, asked);
}

static void expect_quiet(struct fixture *f)
{
	if (f->w.posts)
		fail_msg("asked: %.*s", (int)f->w.posts->body.len, (const char *)f->w.posts->body.data);
}

/* @count endpoints, live, their head the block @head. */
static void go_live(struct fixture *f, unsigned count, unsigned head)
{
	static const struct endpoint_urls endpoints[] = { { A, "ws://a" }, { B, "ws://b" } };

	reads_start(&f->r, &f->w.loop, endpoints, count, &f->config, (struct genesis){ false }, on_changed, f);
	for (unsigned i = 0; i < count; i++) {
		scripted_open(&f->w, endpoints[i].ws);
		give(f, urls[i], LATEST, f->blocks[head].block);
	}
	assert_int_equal(reads_live(&f->r), count);
	assert_int_equal(f->r.leader, 0);
	expect_quiet(f);
}

static bool knows(struct fixture *f, unsigned block)
{
	return links_find(&f->r.links, &f->blocks[block].hash) != NULL;
}

static struct body_slot *body(struct fixture *f, unsigned block)
{
	return reads_body(&f->r, &f->blocks[block].hash);
}

/* The block of B101 without its receipts is in hand. */
static void have_block(struct fixture *f)
{
	assert_null(body(f, B101));
	give(f, A, BY_HASH, f->blocks[B101].block);
	expect_quiet(f);
}

/* @text with its first @from replaced by @to, of the same length or another. */
static const char *changed(struct fixture *f, const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);

	assert_non_null(at);
	f->scratch.len = 0;
	buf_put(&f->scratch, text, (size_t)(at - text));
	buf_put_text(&f->scratch, to);
	buf_put_text(&f->scratch, at + strlen(from));
	buf_put_u8(&f->scratch, '\0');
	return (const char *)f->scratch.data;
}

/* Some of b101's receipts, as an array. */
static const char *some(struct fixture *f, unsigned from, unsigned to)
{
	f->scratch.len = 0;
	buf_put_text(&f->scratch, "[");
	for (unsigned i = from; i < to; i++) {
		if (i > from)
			buf_put_text(&f->scratch, ",");
		buf_put(&f->scratch, f->one[i].data, f->one[i].len);
	}
	buf_put(&f->scratch, "]", 2);
	return (const char *)f->scratch.data;
}

/* Asking. */

static void test_header(void **state)
{
	struct fixture *f = *state;

	go_live(f, 1, B103);
	assert_true(knows(f, B103));
	assert_false(knows(f, B102));
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, A, BY_HASH, 1);
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_quiet(f);
	assert_int_equal(f->r.refused, 0);
}

/* Another's, one with a byte changed, one that was cut: refused, and asked again. */
static void test_header_refused(void **state)
{
	struct fixture *f = *state;

	go_live(f, 1, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, A, BY_HASH, f->blocks[B101].block);
	assert_false(knows(f, B102));
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, A, BY_HASH, changed(f, f->blocks[B102].block, "\"number\":\"0x66\"", "\"number\":\"0x67\""));
	assert_false(knows(f, B102));
	assert_int_equal(f->r.refused, 2);
	assert_int_equal(f->r.providers[0].lies, 2);
	/* After three it waits, and the timer brings the asker back; before it that of a question that was slow. */
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, A, BY_HASH, "{}");
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	scripted_pass(&f->w, 250);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_quiet(f);
	f->changes = 0;
	scripted_pass(&f->w, 249);
	assert_int_equal(f->changes, 0);
	scripted_pass(&f->w, 1);
	assert_int_equal(f->changes, 1);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
	assert_int_equal(f->r.providers[0].lies, 0);
}

/* Three at once, then after 500 ms, doubled six times. */
static void test_back_off(void **state)
{
	static const int64_t waits_ms[] = { 0, 0, 500, 1000, 2000, 4000, 8000, 16000, 32000, 32000 };
	struct fixture *f = *state;

	go_live(f, 1, B103);
	for (unsigned i = 0; i < ARRAY_SIZE(waits_ms); i++) {
		reads_ask_header(&f->r, &f->blocks[B102].hash);
		give(f, A, BY_HASH, "null");
		if (waits_ms[i]) {
			reads_ask_header(&f->r, &f->blocks[B102].hash);
			expect_quiet(f);
			scripted_pass(&f->w, waits_ms[i] - 1);
			reads_ask_header(&f->r, &f->blocks[B102].hash);
			expect_quiet(f);
			scripted_pass(&f->w, 1);
		}
	}
	assert_int_equal(f->r.providers[0].health, HEALTH_LIVE);
}

static void test_failure_goes_elsewhere(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give_error(f, A, BY_HASH, NOT_YET);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, A, BY_HASH, 0);
	give(f, B, BY_HASH, "null");
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	lose(f, A, BY_HASH);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_quiet(f);
	scripted_pass(&f->w, 500);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, B, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
}

/* Hedging. */

static void test_hedge(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	f->changes = 0;
	scripted_pass(&f->w, 249);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, B, BY_HASH, 0);
	assert_int_equal(f->changes, 0);
	scripted_pass(&f->w, 1);
	assert_int_equal(f->changes, 1);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, B, BY_HASH, 1);
	/* Once more, not twice. */
	scripted_pass(&f->w, 5000);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, NULL, BY_HASH, 2);
	give(f, B, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
	/* The late one is as good, or does no harm. */
	lose(f, A, BY_HASH);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_quiet(f);
	assert_int_equal(reads_live(&f->r), 2);
}

static void test_hedge_first_fails(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	scripted_pass(&f->w, 250);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	lose(f, A, BY_HASH);
	/* The other is still on its way. */
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, NULL, BY_HASH, 1);
	lose(f, B, BY_HASH);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, A, BY_HASH, 1);
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
}

static void test_hedge_alone(void **state)
{
	struct fixture *f = *state;

	go_live(f, 1, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	scripted_pass(&f->w, 250);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, A, BY_HASH, 2);
	give(f, A, BY_HASH, f->blocks[B102].block);
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_true(knows(f, B102));
	expect_quiet(f);
}

/* Five round trips, where those are longer than the least. */
static void test_hedge_by_trip(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	scripted_pass(&f->w, 80);
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_int_equal(f->r.providers[0].rpc.trip_ms, 80);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	scripted_pass(&f->w, 399);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	expect_asked(f, B, BY_HASH, 0);
	scripted_pass(&f->w, 1);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	expect_asked(f, B, BY_HASH, 1);
}

static void test_no_hedge(void **state)
{
	struct fixture *f = *state;

	f->config.hedge_min_ms = 0;
	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	scripted_pass(&f->w, 100000);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	expect_asked(f, NULL, BY_HASH, 1);
}

/* Throttled endpoints. */

static void throttle(struct fixture *f, const char *url, const char *word, unsigned wait_s)
{
	struct loop_post *post = scripted_find(&f->w, url, word);

	post->retry_after_s = wait_s;
	scripted_answer(&f->w, post, 429, "");
}

static void test_throttled(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	throttle(f, A, BY_HASH, 10);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	give(f, B, BY_HASH, f->blocks[B102].block);
	/* The leader is passed over, for requests and for the poll. */
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	expect_asked(f, B, BY_HASH, 1);
	reads_poll(&f->r);
	expect_asked(f, A, LATEST, 0);
	expect_asked(f, B, LATEST, 1);
	throttle(f, B, BY_HASH, 20);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	expect_asked(f, NULL, BY_HASH, 0);
	/* The timer of a question that was slow goes off; then that of the first whose time is over. */
	scripted_pass(&f->w, 250);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	f->changes = 0;
	scripted_pass(&f->w, 9749);
	assert_int_equal(f->changes, 0);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	expect_asked(f, NULL, BY_HASH, 0);
	scripted_pass(&f->w, 1);
	assert_int_equal(f->changes, 1);
	reads_ask_header(&f->r, &f->blocks[B101].hash);
	give(f, A, BY_HASH, f->blocks[B101].block);
	assert_true(knows(f, B101));
	assert_int_equal(reads_live(&f->r), 2);
}

/* By number. */

static void test_number(void **state)
{
	struct fixture *f = *state;
	struct hash32 hash;

	go_live(f, 2, B103);
	assert_false(reads_number(&f->r, 102, 1, &hash));
	assert_false(reads_number(&f->r, 102, 1, &hash));
	expect_asked(f, A, "\"0x66\",false", 1);
	/* Another height: true, but not the answer. */
	give(f, A, "\"0x66\"", f->blocks[B101].block);
	assert_false(reads_number(&f->r, 102, 1, &hash));
	assert_int_equal(f->r.providers[0].lies, 1);
	give(f, B, "\"0x66\"", f->blocks[B102].block);
	assert_true(reads_number(&f->r, 102, 1, &hash));
	assert_true(hash_eq(&hash, &f->blocks[B102].hash));
	expect_quiet(f);
	/* Another round asks anew. */
	assert_false(reads_number(&f->r, 102, 2, &hash));
	expect_asked(f, A, "\"0x66\"", 1);
	give(f, A, "\"0x66\"", "null");
	assert_false(reads_number(&f->r, 102, 2, &hash));
	expect_asked(f, B, "\"0x66\"", 1);
}

/* A poll in between does not forget that the question is slow; nor is a late answer one of the next round. */
static void test_number_over_rounds(void **state)
{
	struct fixture *f = *state;
	struct hash32 hash;

	go_live(f, 2, B103);
	assert_false(reads_number(&f->r, 101, 1, &hash));
	scripted_pass(&f->w, 200);
	assert_false(reads_number(&f->r, 101, 2, &hash));
	expect_asked(f, NULL, "\"0x65\"", 1);
	scripted_pass(&f->w, 50);
	assert_false(reads_number(&f->r, 101, 2, &hash));
	expect_asked(f, B, "\"0x65\"", 1);
	give(f, B, "\"0x65\"", f->blocks[B101].block);
	assert_true(reads_number(&f->r, 101, 2, &hash));
	assert_false(reads_number(&f->r, 101, 3, &hash));
	expect_asked(f, A, "\"0x65\"", 2);
	give(f, A, "\"0x65\"", f->blocks[C101].block);
	assert_false(reads_number(&f->r, 101, 3, &hash));
	assert_true(knows(f, C101));
	give(f, A, "\"0x65\"", f->blocks[B101].block);
	assert_true(reads_number(&f->r, 101, 3, &hash));
	assert_true(hash_eq(&hash, &f->blocks[B101].hash));
}

/* Bodies. */

static void expect_receipts(struct fixture *f, const struct body_slot *slot, bool logs_only)
{
	assert_non_null(slot);
	assert_true(hash_eq(&slot->hash, &f->blocks[B101].hash));
	assert_int_equal(slot->has_logs, logs_only);
	assert_int_equal(slot->has_receipts, !logs_only);
	assert_int_equal(slot->receipts.count, 3);
	assert_int_equal(slot->receipts.log_count, 3);
	assert_int_equal(slot->receipts.receipts[2].log_count, 2);
}

static void test_body(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	have_block(f);
	assert_null(body(f, B101));
	assert_null(body(f, B101));
	expect_asked(f, NULL, RECEIPTS, 1);
	give(f, A, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
	assert_false(body(f, B101)->trusted);
	expect_quiet(f);
}

/* Each is refused, the block is asked for once more, as it may be what is wrong, and the next is asked. */
static void test_receipts_refused(void **state)
{
	struct fixture *f = *state;
	const char *answers[] = { "[]", f->blocks[B103].receipts, f->blocks[C101].receipts, some(f, 0, 2), "{}", "7",
				  changed(f, f->blocks[B101].receipts, "\"status\":\"0x1\"", "\"status\":\"0x0\"") };

	for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
		char *answer = xstrdup(i == 3 ? some(f, 0, 2) : answers[i]);

		go_live(f, 2, B103);
		have_block(f);
		assert_null(body(f, B101));
		give(f, A, RECEIPTS, answer);
		free(answer);
		assert_int_equal(f->r.refused, 1);
		assert_int_equal(f->r.providers[0].lies, 1);
		assert_null(body(f, B101));
		expect_asked(f, A, RECEIPTS, 0);
		give(f, B, BY_HASH, f->blocks[B101].block);
		assert_null(body(f, B101));
		give(f, B, RECEIPTS, f->blocks[B101].receipts);
		expect_receipts(f, body(f, B101), false);
		tear_down(state);
		set_up(state);
		f = *state;
		answers[1] = f->blocks[B103].receipts;
		answers[2] = f->blocks[C101].receipts;
		answers[6] = changed(f, f->blocks[B101].receipts, "\"status\":\"0x1\"", "\"status\":\"0x0\"");
	}
}

/* Null is no empty list, and no lie. */
static void test_receipts_null(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	have_block(f);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, "null");
	assert_int_equal(f->r.refused, 0);
	assert_int_equal(f->r.providers[0].lies, 0);
	assert_null(body(f, B101));
	expect_asked(f, A, RECEIPTS, 0);
	give(f, B, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
}

/* The list of transactions was cut: nothing but the receipts shows it. */
static void test_block_with_a_cut_list(void **state)
{
	struct fixture *f = *state;
	const char *at = strstr(f->blocks[B101].block, "\"transactions\":["), *end = strchr(at, ']');
	char *list = scripted_copy((struct slice){ (const uint8_t *)at, (size_t)(end - at) });

	go_live(f, 2, B103);
	assert_null(body(f, B101));
	give(f, A, BY_HASH, changed(f, f->blocks[B101].block, list, "\"transactions\":["));
	free(list);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, f->blocks[B101].receipts);
	assert_null(body(f, B101));
	give(f, B, BY_HASH, f->blocks[B101].block);
	assert_null(body(f, B101));
	give(f, B, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
}

/* The first good one wins; what comes late is not judged, and costs nobody anything. */
static void test_receipts_hedged(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	have_block(f);
	assert_null(body(f, B101));
	scripted_pass(&f->w, 250);
	assert_null(body(f, B101));
	expect_asked(f, B, RECEIPTS, 1);
	give(f, B, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
	give(f, A, RECEIPTS, "[]");
	expect_receipts(f, body(f, B101), false);
	assert_int_equal(f->r.providers[0].lies, 0);
	assert_int_equal(f->r.refused, 0);
}

/* A good one after a bad one that came first. */
static void test_receipts_hedged_bad_first(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	have_block(f);
	assert_null(body(f, B101));
	scripted_pass(&f->w, 250);
	assert_null(body(f, B101));
	give(f, B, RECEIPTS, "[]");
	assert_null(body(f, B101));
	expect_asked(f, A, RECEIPTS, 1);
	/* Asked of the one that did not give the first. */
	give(f, B, BY_HASH, f->blocks[B101].block);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
}

/* An operator took the node's word: of this block, and if the receipts are of its transactions. */
static void test_trusted(void **state)
{
	struct fixture *f = *state;
	char *wrong = xstrdup(changed(f, f->blocks[B101].receipts, "\"status\":\"0x1\"", "\"status\":\"0x0\""));

	go_live(f, 1, B103);
	f->r.trusted = true;
	f->r.trusted_hash = f->blocks[C101].hash;
	have_block(f);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, wrong);
	assert_null(body(f, B101));
	f->r.trusted_hash = f->blocks[B101].hash;
	give(f, A, BY_HASH, f->blocks[B101].block);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, some(f, 1, 3));
	assert_null(body(f, B101));
	give(f, A, BY_HASH, f->blocks[B101].block);
	assert_null(body(f, B101));
	scripted_pass(&f->w, 500);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, wrong);
	expect_receipts(f, body(f, B101), false);
	assert_true(body(f, B101)->trusted);
	free(wrong);
}

/* Without eth_getBlockReceipts. */

/* b101's logs, but for the one at @without, as eth_getLogs gives them. */
static const char *logs_of(struct fixture *f, unsigned without)
{
	struct slice name, raw, log;
	unsigned count = 0;

	f->scratch.len = 0;
	buf_put_text(&f->scratch, "[");
	for (unsigned i = 0; i < 3; i++) {
		struct scan s = scan_begin(f->one[i]);

		scan_object(&s);
		while (scan_member(&s, &name) && scan_skip(&s, &raw)) {
			struct scan logs = scan_begin(raw);

			if (!slice_is(name, "logs"))
				continue;
			scan_array(&logs);
			while (scan_element(&logs) && scan_skip(&logs, &log)) {
				if (count++ == without)
					continue;
				if (f->scratch.len > 1)
					buf_put_text(&f->scratch, ",");
				buf_put(&f->scratch, log.data, log.len);
			}
		}
	}
	assert_int_equal(count, 3);
	buf_put(&f->scratch, "]", 2);
	return (const char *)f->scratch.data;
}

static const char *single(struct fixture *f, unsigned i)
{
	f->scratch.len = 0;
	buf_put(&f->scratch, f->one[i].data, f->one[i].len);
	buf_put_u8(&f->scratch, '\0');
	return (const char *)f->scratch.data;
}

/* The hash of b101's transaction, as text, to find the question by. */
static const char *tx(struct fixture *f, unsigned i)
{
	static char text[3][HASH_TEXT];

	return hash_format(&bodies_find(&f->r.bodies, &f->blocks[B101].hash)->block.tx_hashes[i], text[i]);
}

/* Each endpoint says that it has no such method. */
static void lack(struct fixture *f, unsigned count)
{
	go_live(f, count, B103);
	have_block(f);
	for (unsigned i = 0; i < count; i++) {
		assert_null(body(f, B101));
		expect_asked(f, NULL, LOGS, 0);
		give_error(f, urls[i], RECEIPTS, NO_METHOD);
		assert_true(f->r.providers[i].lacks_block_receipts);
	}
	assert_null(body(f, B101));
	expect_asked(f, NULL, RECEIPTS, 0);
	/* What was asked of both in vain is not asked of them at once a third time. */
	bodies_find(&f->r.bodies, &f->blocks[B101].hash)->receipts_fetch.failures = 0;
}

static void test_logs(void **state)
{
	struct fixture *f = *state;

	lack(f, 2);
	expect_asked(f, NULL, LOGS, 1);
	give(f, A, LOGS, logs_of(f, 3));
	expect_receipts(f, body(f, B101), true);
	expect_quiet(f);
	assert_int_equal(f->r.providers[0].lies, 0);
}

/* One that has the method is asked, the leader or not. */
static void test_one_has_the_method(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	have_block(f);
	assert_null(body(f, B101));
	give_error(f, A, RECEIPTS, NO_METHOD);
	assert_null(body(f, B101));
	give(f, B, RECEIPTS, f->blocks[B101].receipts);
	expect_receipts(f, body(f, B101), false);
	/* The head came with its transactions. */
	assert_null(body(f, B103));
	expect_asked(f, B, RECEIPTS, 1);
}

/* An error that is not about the method takes nothing back. */
static void test_method_is_there(void **state)
{
	struct fixture *f = *state;

	go_live(f, 1, B103);
	have_block(f);
	assert_null(body(f, B101));
	give_error(f, A, RECEIPTS, "{\"code\":-32000,\"message\":\"block does not exist\"}");
	assert_false(f->r.providers[0].lacks_block_receipts);
	assert_null(body(f, B101));
	expect_asked(f, A, RECEIPTS, 1);
}

/* A block without logs touches nobody, and its bloom says so. */
static void test_no_logs(void **state)
{
	struct fixture *f = *state;
	struct body_slot *slot;

	lack(f, 1);
	give(f, A, LOGS, logs_of(f, 3));
	assert_null(body(f, B102));
	give(f, A, BY_HASH, f->blocks[B102].block);
	assert_null(body(f, B102));
	give(f, A, LOGS, "[]");
	slot = body(f, B102);
	assert_non_null(slot);
	assert_true(slot->has_logs);
	assert_int_equal(slot->receipts.log_count, 0);
	/* Wanted all the same: of no transactions there is nothing to ask for. */
	reads_want_receipts(slot);
	slot = body(f, B102);
	assert_non_null(slot);
	assert_true(slot->has_receipts);
	assert_false(slot->has_logs);
	expect_quiet(f);
}

/* One left out, all left out, of another block: the bloom or the place refuses them. */
static void test_logs_refused(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct fixture *f = *state;

		lack(f, 2);
		give(f, A, LOGS, i < 2 ? logs_of(f, i) : i == 2 ? "[]" : "[{}]");
		assert_int_equal(f->r.refused, 1);
		assert_int_equal(f->r.providers[0].lies, 1);
		assert_null(body(f, B101));
		give(f, B, BY_HASH, f->blocks[B101].block);
		assert_null(body(f, B101));
		expect_asked(f, A, LOGS, 0);
		give(f, B, LOGS, logs_of(f, 3));
		expect_receipts(f, body(f, B101), true);
		tear_down(state);
		set_up(state);
	}
}

/* The logs are in hand and will not do. */
static void want_singles(struct fixture *f, unsigned count)
{
	lack(f, count);
	give(f, A, LOGS, logs_of(f, 3));
	reads_want_receipts(body(f, B101));
	assert_null(body(f, B101));
	assert_null(body(f, B101));
	expect_asked(f, A, RECEIPT, 3);
	expect_asked(f, NULL, RECEIPT, 3);
}

static void test_singles(void **state)
{
	struct fixture *f = *state;

	want_singles(f, 2);
	give(f, A, tx(f, 2), single(f, 2));
	give(f, A, tx(f, 0), single(f, 0));
	assert_null(body(f, B101));
	give(f, A, tx(f, 1), single(f, 1));
	expect_receipts(f, body(f, B101), false);
	expect_quiet(f);
}

/* One is null: that one is asked for again, elsewhere, and no other. */
static void test_single_null(void **state)
{
	struct fixture *f = *state;

	want_singles(f, 2);
	give(f, A, tx(f, 0), single(f, 0));
	give(f, A, tx(f, 1), "null");
	assert_null(body(f, B101));
	expect_asked(f, NULL, RECEIPT, 1);
	give(f, A, tx(f, 2), single(f, 2));
	assert_null(body(f, B101));
	expect_asked(f, NULL, RECEIPT, 1);
	give(f, B, tx(f, 1), single(f, 1));
	expect_receipts(f, body(f, B101), false);
	assert_int_equal(f->r.refused, 0);
}

/* One is another's: all are refused together, once, and asked for again with the block. */
static void test_single_wrong(void **state)
{
	struct fixture *f = *state;

	want_singles(f, 2);
	f->r.providers[0].lies = 3;
	give(f, A, tx(f, 0), single(f, 0));
	give(f, A, tx(f, 1), single(f, 2));
	assert_int_equal(f->r.providers[0].lies, 3);
	give(f, A, tx(f, 2), single(f, 2));
	assert_int_equal(f->r.providers[0].lies, 4);
	assert_int_equal(f->r.refused, 1);
	assert_null(body(f, B101));
	give(f, B, BY_HASH, f->blocks[B101].block);
	assert_null(body(f, B101));
	expect_asked(f, B, RECEIPT, 3);
	for (unsigned i = 0; i < 3; i++)
		give(f, B, tx(f, i), single(f, i));
	expect_receipts(f, body(f, B101), false);
}

/* Logs that were asked for twice: the late ones hold nothing up. */
static void test_singles_after_hedged_logs(void **state)
{
	struct fixture *f = *state;

	lack(f, 2);
	scripted_pass(&f->w, 250);
	assert_null(body(f, B101));
	expect_asked(f, B, LOGS, 1);
	give(f, A, LOGS, logs_of(f, 3));
	reads_want_receipts(body(f, B101));
	assert_null(body(f, B101));
	expect_asked(f, A, RECEIPT, 3);
	give(f, A, tx(f, 0), single(f, 0));
	give(f, B, LOGS, "[]");
	assert_int_equal(f->r.providers[1].lies, 0);
	give(f, A, tx(f, 1), single(f, 1));
	give(f, A, tx(f, 2), single(f, 2));
	expect_receipts(f, body(f, B101), false);
	expect_quiet(f);
}

/* A batch of singles that was lost is one silence. */
static void test_singles_lost(void **state)
{
	struct fixture *f = *state;

	f->config.batch_max = 50;
	lack(f, 1);
	give(f, A, LOGS, logs_of(f, 3));
	reads_want_receipts(body(f, B101));
	assert_null(body(f, B101));
	expect_asked(f, A, "[{", 1);
	lose(f, A, "[{");
	assert_int_equal(f->r.providers[0].rpc.silences, 1);
	assert_int_equal(reads_live(&f->r), 1);
	assert_null(body(f, B101));
	expect_asked(f, A, "[{", 1);
}

/* Witnesses. */

#define WORD(digit) "\"0x000000000000000000000000000000000000000000000000000000000000000" digit "\""

static struct body_witness *want_witness(struct fixture *f, unsigned count)
{
	struct witness w = { .have = false };
	struct body_witness *bw;

	go_live(f, count, B103);
	have_block(f);
	assert_null(body(f, B101));
	give(f, A, RECEIPTS, f->blocks[B101].receipts);
	bw = bodies_want(body(f, B101), &w);
	assert_false(reads_witnesses(&f->r, body(f, B101)));
	expect_asked(f, A, "eth_call", 2);
	return bw;
}

static const char *block_text(struct fixture *f, unsigned block)
{
	static char text[HASH_TEXT];

	return hash_format(&f->blocks[block].hash, text);
}

/* A late second answer is no second reading. */
static void test_witness_hedged(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want_witness(f, 2);
	struct u256 three = u256_from_u64(3), five = u256_from_u64(5);

	scripted_pass(&f->w, 250);
	assert_false(reads_witnesses(&f->r, body(f, B101)));
	expect_asked(f, B, "eth_call", 2);
	give(f, A, block_text(f, B100), WORD("3"));
	give(f, A, block_text(f, B101), WORD("5"));
	assert_true(bw->witness.have);
	assert_int_equal(bw->readings, 1);
	give(f, B, block_text(f, B100), WORD("9"));
	give_error(f, B, block_text(f, B101), "{\"code\":4444,\"message\":\"pruned\"}");
	assert_int_equal(bw->readings, 1);
	assert_int_equal(u256_cmp(&bw->witness.before, &three), 0);
	assert_int_equal(u256_cmp(&bw->witness.after, &five), 0);
	assert_true(reads_witnesses(&f->r, body(f, B101)));
	/* Once more, elsewhere. */
	reads_witness_again(&f->r, body(f, B101), bw);
	expect_asked(f, B, "eth_call", 2);
	give(f, B, block_text(f, B100), WORD("4"));
	give(f, B, block_text(f, B101), WORD("5"));
	assert_int_equal(bw->readings, 2);
	assert_true(bw->witness.have);
}

/* One that pruned it is not the last word: the other is asked, and has it. */
static void test_witness_gone_of_one(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want_witness(f, 2);
	struct u256 three = u256_from_u64(3);

	give_error(f, A, block_text(f, B100), "{\"code\":4444,\"message\":\"pruned\"}");
	assert_false(bw->gone);
	assert_false(reads_witnesses(&f->r, body(f, B101)));
	expect_asked(f, B, block_text(f, B100), 1);
	give(f, B, block_text(f, B100), WORD("3"));
	give(f, A, block_text(f, B101), WORD("5"));
	assert_true(bw->witness.have);
	assert_int_equal(u256_cmp(&bw->witness.before, &three), 0);
	assert_true(reads_witnesses(&f->r, body(f, B101)));
}

/* State that is gone is not waited for, but the other call may still bring it. */
static void test_witness_gone(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want_witness(f, 2);

	scripted_pass(&f->w, 250);
	assert_false(reads_witnesses(&f->r, body(f, B101)));
	give_error(f, A, block_text(f, B100), "{\"code\":4444,\"message\":\"pruned\"}");
	assert_false(reads_witnesses(&f->r, body(f, B101)));
	give_error(f, B, block_text(f, B100), "{\"code\":4444,\"message\":\"pruned\"}");
	assert_true(reads_witnesses(&f->r, body(f, B101)));
	assert_false(bw->witness.have);
}

/* Tags. */

static void use_tags(struct fixture *f, unsigned count, int64_t settle_ms)
{
	f->config.finality = (struct finality_policy){ { { .tag = TAG_FINALIZED } }, 1 };
	f->config.tag_settle_ms = settle_ms;
	go_live(f, count, B103);
}

static struct tag_reading *tag_of(struct fixture *f, unsigned endpoint)
{
	return &f->r.providers[endpoint].tags[TAG_FINALIZED];
}

/* A new head of @endpoint, which is when a tag is asked for. */
static void announce(struct fixture *f, unsigned endpoint)
{
	scripted_announce(&f->w, endpoint ? "ws://b" : "ws://a", f->blocks[B103].block);
}

static void expect_tag(struct fixture *f, unsigned endpoint, unsigned block)
{
	assert_true(tag_of(f, endpoint)->known);
	assert_true(hash_eq(&tag_of(f, endpoint)->hash, &f->blocks[block].hash));
}

static void test_tag_at_once(void **state)
{
	struct fixture *f = *state;

	use_tags(f, 1, 0);
	assert_false(reads_tags(&f->r));
	assert_false(reads_tags(&f->r));
	expect_asked(f, NULL, FINALIZED, 1);
	give(f, A, FINALIZED, f->blocks[B101].block);
	expect_tag(f, 0, B101);
	assert_true(reads_tags(&f->r));
	expect_quiet(f);
	/* A rise, then one that is lower. */
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B102].block);
	expect_tag(f, 0, B102);
	assert_int_equal(f->r.providers[0].tags_lower, 0);
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B101].block);
	assert_int_equal(f->r.providers[0].tags_lower, 1);
}

/* What is not known is no news, and does not hold anything up. */
static void test_tag_unknown(void **state)
{
	static const char *const answers[] = { "null", "{}" };
	struct fixture *f = *state;

	use_tags(f, 1, 0);
	for (unsigned i = 0; i < 6; i++) {
		announce(f, 0);
		assert_false(reads_tags(&f->r));
		if (i % 2)
			give_error(f, A, FINALIZED, "{\"code\":-39001,\"message\":\"unknown block\"}");
		else
			give(f, A, FINALIZED, answers[i == 4]);
		assert_true(reads_tags(&f->r));
		assert_false(tag_of(f, 0)->known);
		expect_quiet(f);
	}
}

static void test_tag_settles(void **state)
{
	struct fixture *f = *state;

	use_tags(f, 1, 384000);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B101].block);
	assert_false(tag_of(f, 0)->known);
	assert_true(tag_of(f, 0)->doubted);
	scripted_pass(&f->w, 383999);
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B101].block);
	assert_false(tag_of(f, 0)->known);
	/* A higher one on the same branch: the older has stood long enough. */
	scripted_pass(&f->w, 1);
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B102].block);
	expect_tag(f, 0, B101);
	/* Another branch begins anew. */
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B102].block);
	scripted_pass(&f->w, 384000);
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[C101].block);
	expect_tag(f, 0, B101);
	assert_true(tag_of(f, 0)->doubted);
}

/* Links forget what is long ago; what the tracker took stands. */
static void test_tag_of_ours(void **state)
{
	struct window ours = { .count = 0 };
	struct fixture *f = *state;

	use_tags(f, 1, 384000);
	for (unsigned i = B101; i <= B103; i++)
		window_push(&ours, f->blocks[i].height, &f->blocks[i].hash);
	f->r.ours = &ours;
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B101].block);
	assert_true(tag_of(f, 0)->doubted);
	scripted_pass(&f->w, 384000);
	announce(f, 0);
	f->r.links = (struct links){ .count = 0 };
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B103].block);
	expect_tag(f, 0, B101);
	/* One that is not ours, or is lower, begins anew. */
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B103].block);
	for (unsigned i = 0; i < 2; i++) {
		scripted_pass(&f->w, 384000);
		announce(f, 0);
		f->r.links = (struct links){ .count = 0 };
		assert_false(reads_tags(&f->r));
		give(f, A, FINALIZED, f->blocks[i ? B102 : C101].block);
		expect_tag(f, 0, B101);
		assert_true(hash_eq(&tag_of(f, 0)->newer, &f->blocks[i ? B102 : C101].hash));
	}
	window_free(&ours);
	f->r.ours = NULL;
}

static void test_tag_of_two(void **state)
{
	struct fixture *f = *state;

	use_tags(f, 2, 384000);
	assert_false(reads_tags(&f->r));
	expect_asked(f, A, FINALIZED, 1);
	expect_asked(f, B, FINALIZED, 1);
	give(f, A, FINALIZED, f->blocks[B102].block);
	assert_false(tag_of(f, 0)->known);
	assert_false(reads_tags(&f->r));
	give(f, B, FINALIZED, f->blocks[B102].block);
	expect_tag(f, 1, B102);
	assert_false(tag_of(f, 0)->known);
	assert_true(reads_tags(&f->r));
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	give(f, A, FINALIZED, f->blocks[B102].block);
	expect_tag(f, 0, B102);
}

/* One that is slow is asked once more, and is waited for no longer, however long the first hangs. */
static void test_tag_slow(void **state)
{
	struct fixture *f = *state;

	use_tags(f, 1, 0);
	assert_false(reads_tags(&f->r));
	scripted_pass(&f->w, 249);
	assert_false(reads_tags(&f->r));
	scripted_pass(&f->w, 1);
	assert_true(reads_tags(&f->r));
	expect_asked(f, A, FINALIZED, 2);
	assert_true(reads_tags(&f->r));
	/* The first hangs on; the second is as good, and the next question does not wait for the first. */
	give(f, A, "\"id\":3", f->blocks[B102].block);
	expect_tag(f, 0, B102);
	assert_true(reads_tags(&f->r));
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	expect_asked(f, A, FINALIZED, 2);
	/* What it says at last was true long ago: it does not count as lower, nor for the question of now. */
	give(f, A, "\"id\":2", f->blocks[B101].block);
	expect_tag(f, 0, B102);
	assert_int_equal(f->r.providers[0].tags_lower, 0);
	announce(f, 0);
	assert_false(reads_tags(&f->r));
	expect_asked(f, A, FINALIZED, 1);
	/* Heads that come faster than answers do not keep us waiting: the answer under way will do. */
	give(f, A, "\"id\":4", f->blocks[B103].block);
	expect_tag(f, 0, B103);
	assert_true(reads_tags(&f->r));
	expect_quiet(f);
}

static void test_tag_throttled(void **state)
{
	struct fixture *f = *state;

	use_tags(f, 1, 0);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	throttle(f, A, BY_HASH, 10);
	assert_true(reads_tags(&f->r));
	expect_quiet(f);
	scripted_pass(&f->w, 10000);
	assert_false(reads_tags(&f->r));
	expect_asked(f, A, FINALIZED, 1);
}

/* The floor. */

static void test_floor(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 2, B103);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	give(f, A, "\"0x65\"", f->blocks[B101].block);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	/* Not that height: refused, and asked again of the same one. */
	give(f, B, "\"0x65\"", f->blocks[B102].block);
	assert_int_equal(f->r.providers[1].lies, 1);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	expect_asked(f, NULL, "\"0x65\"", 1);
	give(f, B, "\"0x65\"", f->blocks[C101].block);
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	assert_int_equal(vote.ours, 1);
	assert_int_equal(vote.others, 1);
	assert_true(hash_eq(&vote.other, &f->blocks[C101].hash));
	expect_quiet(f);
	/* Another round asks both anew. */
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	give(f, A, "\"0x65\"", f->blocks[B101].block);
	give(f, B, "\"0x65\"", f->blocks[C101].block);
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	/* The one that denies is set aside; the other is asked alone then. */
	reads_set_aside(&f->r, &f->blocks[B101].hash);
	assert_string_equal(f->r.providers[1].why.text, "answers do not hold");
	assert_int_equal(reads_live(&f->r), 1);
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	assert_int_equal(vote.others, 0);
}

/* One that never says holds up nobody's vote for long; one alone is waited for. */
static void test_floor_silent(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 2, B103);
	for (uint64_t round = 1; round <= 4; round++) {
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		give(f, A, "\"0x65\"", f->blocks[C101].block);
		if (scripted_count(&f->w, B, "\"0x65\""))
			give(f, B, "\"0x65\"", "null");
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		assert_int_equal(vote.others, 1);
		assert_int_equal(reads_live(&f->r), 2);
		scripted_pass(&f->w, round < 4 ? 3000 : 1000);
	}
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 4, &vote));
	assert_int_equal(vote.ours, 0);
	assert_int_equal(vote.others, 1);
	assert_int_equal(reads_live(&f->r), 1);
	assert_string_equal(f->r.providers[1].why.text, "does not answer");
	assert_int_equal(f->r.providers[1].set_aside, 1);
	assert_int_equal(f->r.providers[1].floor.unanswered, 0);
	for (uint64_t round = 5; round <= 15; round++) {
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		if (scripted_count(&f->w, A, "\"0x65\""))
			give(f, A, "\"0x65\"", "null");
		scripted_pass(&f->w, 3000);
	}
	assert_int_equal(f->r.providers[0].set_aside, 0);
}

/* Nor is one set aside in fewer rounds, however long they are. */
static void test_floor_silent_rounds(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 2, B103);
	for (uint64_t round = 1; round <= 4; round++) {
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		give(f, A, "\"0x65\"", f->blocks[B101].block);
		if (scripted_count(&f->w, B, "\"0x65\""))
			give(f, B, "\"0x65\"", "null");
		assert_int_equal(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote), round == 4);
		assert_int_equal(vote.ours, 1);
		assert_int_equal(reads_live(&f->r), round == 4 ? 1 : 2);
		if (scripted_count(&f->w, B, "\"0x65\""))
			give(f, B, "\"0x65\"", "null");
		scripted_pass(&f->w, 60000);
	}
}

/* Questions that lie far apart are no silence. */
static void test_floor_rounds_apart(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 2, B103);
	for (uint64_t round = 1; round <= 41; round += 10) {
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		give(f, A, "\"0x65\"", f->blocks[B101].block);
		if (scripted_count(&f->w, B, "\"0x65\""))
			give(f, B, "\"0x65\"", "null");
		assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, round, &vote));
		assert_int_equal(vote.ours, 1);
		scripted_pass(&f->w, 60000);
	}
	assert_int_equal(reads_live(&f->r), 2);
}

/* Nobody is live: nobody says anything. */
static void test_floor_of_none(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 1, B103);
	scripted_hang_up(&f->w, "ws://a");
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	assert_int_equal(vote.ours + vote.others, 0);
	expect_quiet(f);
}

/* A second call's late answer is no reading of the next round. */
static void test_floor_late(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 1, B103);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	scripted_pass(&f->w, 250);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	expect_asked(f, A, "\"0x65\"", 2);
	give(f, A, "\"0x65\"", f->blocks[C101].block);
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	give(f, A, "\"0x65\"", f->blocks[C101].block);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	give(f, A, "\"0x65\"", f->blocks[B101].block);
	assert_true(reads_floor(&f->r, 101, &f->blocks[B101].hash, 2, &vote));
	assert_int_equal(vote.ours, 1);
	assert_int_equal(vote.others, 0);
}

/* It asked to be left alone: its vote is waited for. */
static void test_floor_throttled(void **state)
{
	struct fixture *f = *state;
	struct floor_vote vote;

	go_live(f, 1, B103);
	reads_ask_header(&f->r, &f->blocks[B102].hash);
	throttle(f, A, BY_HASH, 5);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	expect_quiet(f);
	f->changes = 0;
	scripted_pass(&f->w, 5000);
	assert_int_equal(f->changes, 1);
	assert_false(reads_floor(&f->r, 101, &f->blocks[B101].hash, 1, &vote));
	expect_asked(f, A, "\"0x65\"", 1);
}

/* Where a transaction is. */

static const struct hash32 sevens = { { 7, 7, 7 } };

static enum tx_answer ask_tx(struct fixture *f)
{
	struct tx_place place;

	return reads_tx(&f->r, &sevens, 103, &place);
}

static void expect_b101(struct fixture *f)
{
	struct tx_place place;

	assert_int_equal(reads_tx(&f->r, &sevens, 103, &place), TX_MINED);
	assert_true(hash_eq(&place.tx_hash, &sevens));
	assert_true(place.mined);
	assert_int_equal(place.height, 101);
	assert_true(hash_eq(&place.block_hash, &f->blocks[B101].hash));
}

static void test_tx(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	assert_int_equal(ask_tx(f), TX_ASKED);
	assert_int_equal(ask_tx(f), TX_ASKED);
	expect_asked(f, NULL, RECEIPT, 1);
	give(f, A, RECEIPT, single(f, 1));
	expect_b101(f);
	expect_b101(f);
	expect_quiet(f);
	/* A new question is asked anew; an error or half a receipt is no answer, and the next one is asked. */
	reads_tx_forget(&f->r);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give_error(f, A, RECEIPT, NOT_YET);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, B, RECEIPT, "{\"blockNumber\":null}");
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, A, RECEIPT, single(f, 1));
	expect_b101(f);
	assert_int_equal(reads_live(&f->r), 2);
}

/* A node may keep no index: null is "none" only when every endpoint said it. */
static void test_tx_null(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, A, RECEIPT, "null");
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, B, RECEIPT, single(f, 1));
	expect_b101(f);
	reads_tx_forget(&f->r);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, A, RECEIPT, "null");
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, B, RECEIPT, "null");
	assert_int_equal(ask_tx(f), TX_NONE);
	expect_quiet(f);
	/* One that is not live says nothing. */
	reads_tx_forget(&f->r);
	scripted_hang_up(&f->w, "ws://b");
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, A, RECEIPT, "null");
	assert_int_equal(ask_tx(f), TX_UNSURE);
	assert_false(reads_tx_is_gone(&f->r));
	expect_quiet(f);
}

/* Its null tells of no block that it does not have, so it is asked when its head is there; a block above the tip is none yet. */
static void test_tx_below_tip(void **state)
{
	struct fixture *f = *state;
	struct tx_place place;

	go_live(f, 2, B101);
	scripted_announce(&f->w, "ws://b", f->blocks[B102].block);
	assert_int_equal(reads_tx(&f->r, &sevens, 102, &place), TX_ASKED);
	expect_asked(f, B, RECEIPT, 1);
	give(f, B, RECEIPT, "null");
	assert_int_equal(reads_tx(&f->r, &sevens, 102, &place), TX_ASKED);
	expect_quiet(f);
	scripted_announce(&f->w, "ws://a", f->blocks[B103].block);
	assert_int_equal(reads_tx(&f->r, &sevens, 103, &place), TX_ASKED);
	give(f, A, RECEIPT, "{\"blockNumber\":\"0x67\",\"blockHash\":"
			    "\"0x0101010101010101010101010101010101010101010101010101010101010101\"}");
	assert_int_equal(reads_tx(&f->r, &sevens, 103, &place), TX_NONE);
	expect_quiet(f);
}

/* What is gone, fails time and again or does not hold is not known; each endpoint is asked. */
static void test_tx_unsure(void **state)
{
	struct fixture *f = *state;

	go_live(f, 2, B103);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give_error(f, A, RECEIPT, "{\"code\":4444,\"message\":\"pruned history unavailable\"}");
	assert_int_equal(ask_tx(f), TX_ASKED);
	give_error(f, B, RECEIPT, "{\"code\":4444,\"message\":\"pruned history unavailable\"}");
	assert_int_equal(ask_tx(f), TX_UNSURE);
	assert_true(reads_tx_is_gone(&f->r));
	reads_tx_forget(&f->r);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, A, RECEIPT, single(f, 1));
	expect_b101(f);
	reads_tx_refuse(&f->r);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask_tx(f), TX_ASKED);
		give_error(f, B, RECEIPT, NO_METHOD);
	}
	assert_int_equal(ask_tx(f), TX_UNSURE);
	assert_false(reads_tx_is_gone(&f->r));
	expect_quiet(f);
}

/* Beside a slow one the next is asked; a late answer to another question is none to this one. */
static void test_tx_hedged(void **state)
{
	struct fixture *f = *state;
	struct hash32 other;
	struct tx_place place;

	go_live(f, 2, B103);
	memset(&other, 8, sizeof(other));
	assert_int_equal(ask_tx(f), TX_ASKED);
	scripted_pass(&f->w, 250);
	assert_int_equal(ask_tx(f), TX_ASKED);
	give(f, B, RECEIPT, single(f, 1));
	lose(f, A, RECEIPT);
	expect_b101(f);
	reads_tx_forget(&f->r);
	assert_int_equal(ask_tx(f), TX_ASKED);
	assert_int_equal(reads_tx(&f->r, &other, 103, &place), TX_ASKED);
	give(f, A, "070707", "null");
	give(f, A, "080808", single(f, 1));
	assert_int_equal(reads_tx(&f->r, &other, 103, &place), TX_MINED);
	assert_true(hash_eq(&place.tx_hash, &other));
	assert_int_equal(place.height, 101);
}

/* Who leads. */

static void test_leader(void **state)
{
	struct fixture *f = *state;

	f->config.lag_blocks = 1;
	go_live(f, 2, B103);
	reads_poll(&f->r);
	give(f, A, LATEST, f->blocks[B101].block);
	give(f, B, LATEST, f->blocks[B103].block);
	assert_int_equal(f->r.leader, 0);
	reads_poll(&f->r);
	assert_string_equal(f->r.providers[0].why.text, "its head is old");
	assert_int_equal(f->r.leader, 1);
	assert_true(hash_eq(&reads_head(&f->r)->hash, &f->blocks[B103].hash));
	/* It comes back, and does not lead again for that. */
	give(f, A, LATEST, f->blocks[B103].block);
	give(f, B, LATEST, f->blocks[B103].block);
	reads_poll(&f->r);
	assert_int_equal(reads_live(&f->r), 2);
	assert_int_equal(f->r.leader, 1);
	scripted_hang_up(&f->w, "ws://b");
	assert_int_equal(f->r.leader, 0);
}

/* A head of which the ancestry is not known makes nobody old; it is tried once. */
static void test_leader_unlinked(void **state)
{
	struct scripted_block far[2];
	struct window ours = { .count = 0 };
	struct fixture *f = *state;

	assert_int_equal(scripted_forge_most("start 5000\n"
		"token USDC 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48 6\nblock w5000\nblock w5001\nhead w5001\n", far, 2), 2);
	go_live(f, 2, B103);
	window_push(&ours, 103, &f->blocks[B103].hash);
	f->r.ours = &ours;
	scripted_announce(&f->w, "ws://b", far[1].block);
	reads_poll(&f->r);
	assert_int_equal(f->r.leader, 1);
	assert_int_equal(reads_live(&f->r), 2);
	/* Three times at once and once more each, after a back-off: nobody has its parent. */
	for (unsigned i = 0; i < 5; i++) {
		assert_false(reads_distrust_head(&f->r, &far[0].hash));
		scripted_pass(&f->w, 2000);
		reads_ask_header(&f->r, &far[0].hash);
		give(f, i % 2 ? A : B, BY_HASH, "null");
	}
	assert_true(reads_distrust_head(&f->r, &far[0].hash));
	assert_int_equal(f->r.leader, 0);
	assert_string_equal(f->r.providers[1].why.text, "answers do not hold");
	assert_int_equal(f->r.providers[1].set_aside, 1);
	/* Nor is the one that is left: it has none to follow in its place. */
	assert_false(reads_distrust_head(&f->r, &far[0].hash));
	assert_int_equal(f->r.providers[0].set_aside, 0);
	scripted_cancel(&f->w);
	scripted_free_blocks(far, 2);
	window_free(&ours);
	f->r.ours = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_header), TEST(test_header_refused), TEST(test_back_off), TEST(test_failure_goes_elsewhere),
		TEST(test_hedge), TEST(test_hedge_first_fails), TEST(test_hedge_alone), TEST(test_hedge_by_trip),
		TEST(test_no_hedge), TEST(test_throttled), TEST(test_number), TEST(test_number_over_rounds),
		TEST(test_body), TEST(test_receipts_refused), TEST(test_receipts_null),
		TEST(test_block_with_a_cut_list), TEST(test_receipts_hedged), TEST(test_receipts_hedged_bad_first),
		TEST(test_trusted), TEST(test_logs), TEST(test_one_has_the_method), TEST(test_method_is_there),
		TEST(test_no_logs), TEST(test_logs_refused), TEST(test_singles), TEST(test_single_null),
		TEST(test_single_wrong), TEST(test_singles_after_hedged_logs), TEST(test_singles_lost),
		TEST(test_witness_hedged), TEST(test_witness_gone_of_one), TEST(test_witness_gone), TEST(test_tag_at_once),
		TEST(test_tag_unknown), TEST(test_tag_settles), TEST(test_tag_of_ours), TEST(test_tag_of_two), TEST(test_tag_slow),
		TEST(test_tag_throttled), TEST(test_floor), TEST(test_floor_silent), TEST(test_floor_silent_rounds), TEST(test_floor_rounds_apart), TEST(test_leader_unlinked), TEST(test_floor_of_none), TEST(test_floor_late),
		TEST(test_floor_throttled), TEST(test_tx), TEST(test_tx_null), TEST(test_leader),
		TEST(test_floor_throttled), TEST(test_tx), TEST(test_tx_below_tip), TEST(test_leader),
		TEST(test_floor_throttled), TEST(test_tx), TEST(test_tx_unsure), TEST(test_leader),
		TEST(test_floor_throttled), TEST(test_tx), TEST(test_tx_hedged), TEST(test_leader),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
