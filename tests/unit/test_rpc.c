/*
 * Calls and their answers: whatever comes back, each call ends exactly once, with what is its own.
 */
#include "common/log.h"
#include "listener/rpc.h"
#include "tests/unit/logged.h"
#include "tests/unit/scripted.h"

#define URL "http://node"
#define TOLD_MAX 128

/* How a call ended. */
struct told {
	uint64_t number;
	enum rpc_outcome outcome;
	int64_t code;
	char text[200];			/* of the result, or the error's message */
};

struct fixture {
	struct scripted w;
	struct rpc rpc;
	struct told told[TOLD_MAX];
	unsigned count;
};

static void on_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct fixture *f = call->ctx;
	struct told *t = &f->told[f->count++];

	assert_true(f->count < TOLD_MAX);
	assert_ptr_equal(call->rpc, &f->rpc);
	t->number = call->number;
	t->outcome = outcome;
	t->code = reply->code;
	if (outcome == RPC_RESULT)
		snprintf(t->text, sizeof(t->text), "%.*s", (int)reply->result.len, (const char *)reply->result.data);
	else
		snprintf(t->text, sizeof(t->text), "%s", reply->message);
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scripted_start(&f->w);
	f->rpc = (struct rpc){ .loop = &f->w.loop, .url = URL, .timeout_ms = 1000, .batch_max = 10 };
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_null(f->rpc.held);
	assert_int_equal(f->rpc.holds, 0);
	scripted_stop(&f->w);
	free(f);
	return 0;
}

static void ask(struct fixture *f, uint64_t number)
{
	struct rpc_call call = { .method = "m", .done = on_done, .ctx = f, .number = number };
	char params[32];

	snprintf(params, sizeof(params), "[%llu]", (unsigned long long)number);
	rpc_start(&f->rpc, &call, params);
}

/* Calls @first to @first + @count - 1 in one batch; their ids, from 1 on, are the numbers in these tests. */
static struct loop_post *ask_batch(struct fixture *f, uint64_t first, unsigned count)
{
	rpc_hold(&f->rpc);
	for (unsigned i = 0; i < count; i++)
		ask(f, first + i);
	rpc_release(&f->rpc);
	return scripted_find(&f->w, URL, "[{");
}

static void expect(struct fixture *f, unsigned at, uint64_t number, enum rpc_outcome outcome, const char *text)
{
	assert_true(at < f->count);
	assert_int_equal(f->told[at].number, number);
	assert_int_equal(f->told[at].outcome, outcome);
	assert_string_equal(f->told[at].text, text);
}

#define CALL(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"m\",\"params\":[" #id "]}"
#define RESULT(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":\"r" #id "\"}"

/* Singles. */

static const struct {
	int status;
	const char *answer;
	enum rpc_outcome outcome;
	int64_t code;
	const char *text;
	unsigned silences;		/* after it */
} singles[] = {
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}", RPC_RESULT, 0, "\"0x1\"", 0 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"a\":[]}}", RPC_RESULT, 0, "{\"a\":[]}", 0 },
	{ 500, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}", RPC_RESULT, 0, "7", 0 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", RPC_NULL, 0, "", 0 },
	{ 200, "{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"header not found\"}}", RPC_ERROR, -32000,
	  "header not found", 0 },
	{ 400, "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse error\"}}", RPC_ERROR, -32700, "parse error", 0 },
	{ 400, "{\"error\":{\"code\":-32600,\"message\":\"bad\"}}", RPC_ERROR, -32600, "bad", 0 },
	{ 429, "{\"id\":1,\"error\":{\"code\":-32005,\"message\":\"slow down\"}}", RPC_ERROR, -32005, "slow down", 0 },
	{ 429, "<html>too many</html>", RPC_ERROR, 429, "it asks to wait", 0 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"0x1\"}", RPC_FAILED, 0, "", 1 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-1,\"message\":\"m\"}}", RPC_FAILED, 0, "", 1 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":\"0x1\"}", RPC_FAILED, 0, "", 1 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_subscription\",\"params\":{\"subscription\":\"0x1\",\"result\":1}}",
	  RPC_FAILED, 0, "", 1 },
	{ 200, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}]", RPC_FAILED, 0, "", 1 },
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x", RPC_FAILED, 0, "", 1 },
	{ 200, "<html>hello</html>", RPC_FAILED, 0, "", 1 },
	{ 502, "<html>bad gateway</html>", RPC_FAILED, 0, "", 1 },
	{ 200, "", RPC_FAILED, 0, "", 1 },
};

static void test_singles(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(singles); i++) {
		f->rpc.last_id = 0;
		f->rpc.silences = 0;
		ask(f, 1);
		assert_int_equal(f->count, i);
		scripted_expect_body(f->w.posts, CALL(1));
		assert_string_equal(f->w.posts->url, URL);
		assert_int_equal(f->w.posts->timeout_ms, 1000);
		scripted_answer(&f->w, f->w.posts, singles[i].status, singles[i].answer);
		expect(f, i, 1, singles[i].outcome, singles[i].text);
		assert_int_equal(f->told[i].code, singles[i].code);
		assert_int_equal(f->rpc.silences, singles[i].silences);
		assert_null(f->w.posts);
	}
	assert_int_equal(f->rpc.batch_max, 10);
}

static void test_single_ends(void **state)
{
	static const enum loop_end ends[] = { LOOP_UNREACHABLE, LOOP_TIMED_OUT, LOOP_TOO_LARGE, LOOP_CANCELED };
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++) {
		ask(f, i);
		scripted_fail(&f->w, f->w.posts, ends[i]);
		expect(f, i, i, ends[i] == LOOP_CANCELED ? RPC_CANCELED : RPC_FAILED, "");
	}
	assert_int_equal(f->rpc.silences, 3);
	assert_int_equal(f->rpc.trip_ms, 0);
}

/* Batches. */

static void test_batch_reversed(void **state)
{
	struct fixture *f = *state;
	struct loop_post *post = ask_batch(f, 1, 3);

	assert_int_equal(f->w.posted, 1);
	scripted_expect_body(post, "[" CALL(1) "," CALL(2) "," CALL(3) "]");
	scripted_answer(&f->w, post, 200, " [" RESULT(3) ", " RESULT(2) "," RESULT(1) "]");
	assert_int_equal(f->count, 3);
	expect(f, 0, 3, RPC_RESULT, "\"r3\"");
	expect(f, 1, 2, RPC_RESULT, "\"r2\"");
	expect(f, 2, 1, RPC_RESULT, "\"r1\"");
	assert_int_equal(f->rpc.batch_max, 10);
}

/* Said twice, not asked, nameless, no message, a notice: each call has what is its own, and the one left out failed. */
static void test_batch_odd(void **state)
{
	struct fixture *f = *state;
	struct loop_post *post = ask_batch(f, 1, 4);

	f->rpc.silences = 2;
	scripted_answer(&f->w, post, 200,
			"[" RESULT(1) "," RESULT(1) "," RESULT(99) ",7,{\"id\":null,\"error\":{\"code\":1}},"
			"{\"id\":4,\"params\":{\"subscription\":\"0x1\",\"result\":1}},"
			"{\"id\":\"3\",\"error\":{\"code\":-32000,\"message\":\"no\"}}," RESULT(4) "]");
	assert_int_equal(f->count, 4);
	expect(f, 0, 1, RPC_RESULT, "\"r1\"");
	expect(f, 1, 3, RPC_ERROR, "no");
	expect(f, 2, 4, RPC_RESULT, "\"r4\"");
	expect(f, 3, 2, RPC_FAILED, "");
	assert_int_equal(f->rpc.silences, 0);
	assert_int_equal(f->rpc.batch_max, 10);
}

static void test_batch_cut(void **state)
{
	struct fixture *f = *state;

	scripted_answer(&f->w, ask_batch(f, 1, 3), 200, "[" RESULT(1) ",{\"jsonrpc\":\"2.0\",\"id\":2,\"res");
	assert_int_equal(f->count, 3);
	expect(f, 0, 1, RPC_RESULT, "\"r1\"");
	expect(f, 1, 2, RPC_FAILED, "");
	expect(f, 2, 3, RPC_FAILED, "");
}

static const struct {
	int status;
	const char *answer;
} refusals[] = {
	{ 200, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"batches are off\"}}" },
	{ 500, "{\"error\":\"no\"}" },
	{ 413, "<html>too large</html>" },
	{ 400, "" },
	{ 404, "not found" },
	{ 405, "" },
	{ 415, "" },
	{ 501, "" },
};

/* Each is asked singly then, and so is all that comes later, held or not. */
static void test_batch_refused(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(refusals); i++) {
		f->rpc.batch_max = 10;
		f->rpc.last_id = 0;
		f->count = 0;
		scripted_answer(&f->w, ask_batch(f, 1, 3), refusals[i].status, refusals[i].answer);
		assert_int_equal(f->count, 0);
		assert_int_equal(f->rpc.batch_max, 1);
		rpc_hold(&f->rpc);
		ask(f, 4);
		rpc_release(&f->rpc);
		assert_int_equal(scripted_count(&f->w, URL, ""), 4);
		scripted_expect_body(f->w.posts, CALL(1));
		scripted_expect_body(f->w.posts->next, CALL(2));
		scripted_expect_body(f->w.posts->next->next, CALL(3));
		scripted_expect_body(f->w.posts->next->next->next, CALL(4));
		scripted_answer(&f->w, f->w.posts->next, 200, RESULT(2));
		scripted_answer(&f->w, f->w.posts->next, 200, RESULT(3));
		scripted_fail(&f->w, f->w.posts->next, LOOP_UNREACHABLE);
		scripted_answer(&f->w, f->w.posts, 200, RESULT(1));
		assert_int_equal(f->count, 4);
		expect(f, 0, 2, RPC_RESULT, "\"r2\"");
		expect(f, 1, 3, RPC_RESULT, "\"r3\"");
		expect(f, 2, 4, RPC_FAILED, "");
		expect(f, 3, 1, RPC_RESULT, "\"r1\"");
		assert_int_equal(f->rpc.silences, 0);
	}
}

/* Two were on their way when the first was refused; what is held meanwhile goes out singly too. */
static void test_batch_refused_twice(void **state)
{
	struct fixture *f = *state;
	struct loop_post *second;

	ask_batch(f, 1, 2);
	ask_batch(f, 3, 2);
	second = f->w.posts->next;
	rpc_hold(&f->rpc);
	ask(f, 5);
	ask(f, 6);
	scripted_answer(&f->w, f->w.posts, 413, "");
	scripted_answer(&f->w, second, 413, "");
	assert_int_equal(scripted_count(&f->w, URL, ""), 4);
	rpc_release(&f->rpc);
	assert_int_equal(scripted_count(&f->w, URL, "[{"), 0);
	assert_int_equal(scripted_count(&f->w, URL, ""), 6);
	for (unsigned i = 0; i < 6; i++)
		scripted_reply(&f->w, f->w.posts, "result", "1");
	for (unsigned i = 0; i < 6; i++)
		expect(f, i, i + 1, RPC_RESULT, "1");
}

/* No refusal of batches: all fail, in one silence, and the next is a batch again. */
static void test_batch_failed(void **state)
{
	static const struct {
		enum loop_end end;
		int status;
		const char *answer;
		enum rpc_outcome outcome;
	} cases[] = {
		{ LOOP_ANSWERED, 200, "[]", RPC_FAILED },
		{ LOOP_ANSWERED, 200, "", RPC_FAILED },
		{ LOOP_ANSWERED, 200, "<html>", RPC_FAILED },
		{ LOOP_ANSWERED, 502, "<html>", RPC_FAILED },
		{ LOOP_TIMED_OUT, 0, "", RPC_FAILED },
		{ LOOP_UNREACHABLE, 0, "", RPC_FAILED },
		{ LOOP_TOO_LARGE, 0, "", RPC_FAILED },
		{ LOOP_CANCELED, 0, "", RPC_CANCELED },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		f->count = 0;
		f->rpc.silences = 0;
		scripted_end(&f->w, ask_batch(f, 1, 3), cases[i].end, cases[i].status, slice_of_text(cases[i].answer));
		assert_int_equal(f->count, 3);
		for (unsigned k = 0; k < 3; k++)
			expect(f, k, k + 1, cases[i].outcome, "");
		assert_int_equal(f->rpc.silences, cases[i].outcome == RPC_FAILED);
		assert_int_equal(f->rpc.batch_max, 10);
	}
}

/* One error for all, since there were too many requests: that is no refusal of batches. */
static void test_batch_throttled(void **state)
{
	struct fixture *f = *state;
	struct loop_post *post = ask_batch(f, 1, 2);

	f->rpc.silences = 2;
	scripted_answer(&f->w, post, 429, "{\"id\":null,\"error\":{\"code\":429,\"message\":\"too many\"}}");
	expect(f, 0, 1, RPC_ERROR, "it asks to wait");
	expect(f, 1, 2, RPC_ERROR, "it asks to wait");
	assert_int_equal(f->rpc.batch_max, 10);
	assert_int_equal(f->rpc.silences, 0);
	post = ask_batch(f, 3, 2);
	post->retry_after_s = 2;
	scripted_answer(&f->w, post, 503, "<html>");
	expect(f, 2, 3, RPC_ERROR, "it asks to wait");
	expect(f, 3, 4, RPC_ERROR, "it asks to wait");
	assert_int_equal(f->rpc.not_before_ms, f->w.now_ms + 2000);
	assert_int_equal(f->rpc.batch_max, 10);
}

static void test_batch_splits(void **state)
{
	struct fixture *f = *state;

	f->rpc.batch_max = 2;
	rpc_hold(&f->rpc);
	for (unsigned i = 1; i <= 5; i++)
		ask(f, i);
	assert_null(f->w.posts);
	rpc_release(&f->rpc);
	assert_int_equal(f->w.posted, 3);
	scripted_expect_body(f->w.posts, "[" CALL(1) "," CALL(2) "]");
	scripted_expect_body(f->w.posts->next, "[" CALL(3) "," CALL(4) "]");
	scripted_expect_body(f->w.posts->next->next, CALL(5));
	scripted_answer(&f->w, f->w.posts->next->next, 200, RESULT(5));
	scripted_answer(&f->w, f->w.posts->next, 200, "[" RESULT(4) "," RESULT(3) "]");
	scripted_answer(&f->w, f->w.posts, 200, "[" RESULT(1) "," RESULT(2) "]");
	assert_int_equal(f->count, 5);
}

static void test_hold(void **state)
{
	struct fixture *f = *state;

	rpc_hold(&f->rpc);
	rpc_release(&f->rpc);
	assert_null(f->w.posts);
	rpc_hold(&f->rpc);
	ask(f, 1);
	rpc_hold(&f->rpc);
	ask(f, 2);
	rpc_release(&f->rpc);
	assert_null(f->w.posts);
	ask(f, 3);
	rpc_release(&f->rpc);
	scripted_expect_body(f->w.posts, "[" CALL(1) "," CALL(2) "," CALL(3) "]");
	assert_int_equal(f->w.posted, 1);
	scripted_cancel(&f->w);
	/* One alone is no batch, nor is what is not held, nor anything where there are none. */
	rpc_hold(&f->rpc);
	ask(f, 4);
	rpc_release(&f->rpc);
	scripted_expect_body(f->w.posts, CALL(4));
	ask(f, 5);
	scripted_expect_body(f->w.posts->next, CALL(5));
	scripted_cancel(&f->w);
	f->rpc.batch_max = 1;
	rpc_hold(&f->rpc);
	ask(f, 6);
	scripted_expect_body(f->w.posts, CALL(6));
	ask(f, 7);
	rpc_release(&f->rpc);
	scripted_expect_body(f->w.posts->next, CALL(7));
	assert_null(f->w.posts->next->next);
	scripted_cancel(&f->w);
}

/* What a post tells of the endpoint. */

static void test_retry_after(void **state)
{
	static const struct {
		unsigned said_s, wait_s;
	} cases[] = { { 1, 1 }, { 599, 599 }, { 600, 600 }, { 601, 600 }, { 4000000000, 600 } };
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		ask(f, 1);
		f->w.posts->retry_after_s = cases[i].said_s;
		scripted_answer(&f->w, f->w.posts, 429, "");
		assert_int_equal(f->rpc.not_before_ms, f->w.now_ms + cases[i].wait_s * 1000);
		expect(f, i, 1, RPC_ERROR, "it asks to wait");
	}
	/* One that comes with an answer is obeyed, and the answer is good. */
	f->rpc.last_id = 0;
	ask(f, 1);
	f->w.posts->retry_after_s = 3;
	scripted_answer(&f->w, f->w.posts, 200, RESULT(1));
	expect(f, ARRAY_SIZE(cases), 1, RPC_RESULT, "\"r1\"");
	assert_int_equal(f->rpc.not_before_ms, f->w.now_ms + 3000);
	/* None says nothing of the one before. */
	ask(f, 2);
	scripted_reply(&f->w, f->w.posts, "result", "1");
	assert_int_equal(f->rpc.not_before_ms, f->w.now_ms + 3000);
}

static void test_round_trip(void **state)
{
	static const struct {
		int64_t took_ms, smooth_ms;
	} trips[] = { { 80, 80 }, { 160, 90 }, { 0, 78 }, { 78, 78 }, { 1000, 193 } };
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(trips); i++) {
		ask(f, 1);
		scripted_pass(&f->w, trips[i].took_ms);
		scripted_reply(&f->w, f->w.posts, "result", "1");
		assert_int_equal(f->rpc.trip_ms, trips[i].smooth_ms);
	}
	ask(f, 1);
	scripted_pass(&f->w, 9000);
	scripted_fail(&f->w, f->w.posts, LOOP_TIMED_OUT);
	assert_int_equal(f->rpc.trip_ms, 193);
}

/* Posts are counted, not calls: one that brought anything ends the row. */
static void test_silences(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 1; i <= 3; i++) {
		scripted_fail(&f->w, ask_batch(f, 1, 4), LOOP_TIMED_OUT);
		assert_int_equal(f->rpc.silences, i);
	}
	ask(f, 9);
	scripted_fail(&f->w, f->w.posts, LOOP_CANCELED);
	assert_int_equal(f->rpc.silences, 3);
	ask(f, 9);
	scripted_reply(&f->w, f->w.posts, "result", "null");
	assert_int_equal(f->rpc.silences, 0);
}

/* More than are under way at a time. */

#define ASKED (2 * RPC_POSTS_MAX + 3)

static void ask_many(struct fixture *f)
{
	rpc_hold(&f->rpc);
	for (unsigned i = 1; i <= ASKED; i++)
		ask(f, i);
	rpc_release(&f->rpc);
	assert_int_equal(f->w.posted, RPC_POSTS_MAX);
}

/* One more for each that ends, in their order; its time runs from when it is sent. */
static void test_many(void **state)
{
	struct fixture *f = *state;

	f->rpc.batch_max = 1;
	ask_many(f);
	for (unsigned i = 1; i <= ASKED; i++) {
		unsigned posted = i + RPC_POSTS_MAX < ASKED ? i + RPC_POSTS_MAX : ASKED;

		scripted_pass(&f->w, 1);
		scripted_reply(&f->w, f->w.posts, "result", "1");
		assert_int_equal(f->told[i - 1].number, i);
		assert_int_equal(f->w.posted, posted);
	}
	assert_int_equal(f->count, ASKED);
	assert_true(f->rpc.trip_ms <= RPC_POSTS_MAX);
}

/* Those that wait end with it, once each, and are never sent. */
static void test_many_end(void **state)
{
	static const struct {
		enum loop_end end;
		int status;
		unsigned retry_after_s;
		enum rpc_outcome outcome;
		unsigned silences;
	} rows[] = {
		{ LOOP_CANCELED, 0, 0, RPC_CANCELED, 0 },
		{ LOOP_TIMED_OUT, 0, 0, RPC_FAILED, 1 },
		{ LOOP_UNREACHABLE, 0, 0, RPC_FAILED, 1 },
		{ LOOP_ANSWERED, 429, 5, RPC_ERROR, 0 },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		f->rpc = (struct rpc){ .loop = &f->w.loop, .url = URL, .timeout_ms = 1000, .batch_max = 1 };
		f->w.posted = f->count = 0;
		ask_many(f);
		f->w.posts->retry_after_s = rows[i].retry_after_s;
		scripted_end(&f->w, f->w.posts, rows[i].end, rows[i].status, slice_of_text(""));
		assert_int_equal(f->count, ASKED - RPC_POSTS_MAX + 1);
		for (unsigned k = 0; k < f->count; k++) {
			assert_int_equal(f->told[k].number, k ? k + RPC_POSTS_MAX : 1);
			assert_int_equal(f->told[k].outcome, rows[i].outcome);
		}
		assert_int_equal(f->rpc.silences, rows[i].silences);
		assert_int_equal(f->w.posted, RPC_POSTS_MAX);
		scripted_cancel(&f->w);
		assert_int_equal(f->count, ASKED);
	}
}

/* Errors. */

static void test_meanings(void **state)
{
	static const struct {
		int64_t code;
		const char *message;
		bool no_method, gone;
	} cases[] = {
		{ -32601, "the method eth_getBlockReceipts does not exist/is not available", true, false },
		{ -32601, "the method eth_call is not available", true, false },
		{ -32000, "state 0x7 is not available", false, true },
		{ -32000, "historical state not available in path scheme yet", false, true },
		{ -32001, "pending block is not available", false, false },
		{ -32601, "Method not found", true, false },
		{ -32600, "Unsupported method: eth_getBlockReceipts", true, false },
		{ -32004, "method not supported", true, false },
		{ -32000, "unknown variant `eth_getBlockReceipts`, expected one of", true, false },
		{ -32000, "Unknown method", true, false },
		{ -32000, "header not found", false, false },
		{ -32000, "block does not exist", false, false },
		{ -32000, "unknown block", false, false },
		{ -32000, "block tag not supported", false, false },
		{ -32000, "missing trie node 0123 (path ) state 0x is not available", false, true },
		{ 4444, "pruned", false, true },
		{ 429, "method not found", false, false },
		{ 0, "", false, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reply reply = { .kind = REPLY_ERROR, .code = cases[i].code };

		snprintf(reply.message, sizeof(reply.message), "%s", cases[i].message);
		if (rpc_is_no_method(&reply) != cases[i].no_method || rpc_is_gone(&reply) != cases[i].gone)
			fail_msg("%s", cases[i].message);
	}
}

/* The URL's key, said again by who was asked: an error's words, a body that is no answer, one of a batch. */
static void test_keys(void **state)
{
	struct fixture *f = *state;
	struct logged l;

	f->rpc.url = "http://node/v1/SECRET/pruned?key=method";
	ask(f, 1);
	scripted_answer(&f->w, f->w.posts, 200, "{\"id\":1,\"error\":{\"code\":-1,\"message\":\"\\/v1\\/SECRET over quota\"}}");
	expect(f, 0, 1, RPC_ERROR, "/v1/*** over quota");
	ask(f, 2);
	l = logged_begin(LOG_ODD);
	scripted_answer(&f->w, f->w.posts, 404, "404 not found: /v1/SECRET/pruned");
	logged_expect(&l, "odd: answer refused method=m status=404 why=\"not an object at byte 0; "
			  "the answer's 32 bytes begin with '404 not found: /v1/***/***'\"\n");
	expect(f, 1, 2, RPC_FAILED, "");
	rpc_hold(&f->rpc);
	ask(f, 3);
	ask(f, 4);
	rpc_release(&f->rpc);
	scripted_answer(&f->w, f->w.posts, 200,
			"[{\"id\":3,\"error\":{\"code\":-32000,\"message\":\"block pruned\"}},"
			"{\"id\":4,\"error\":{\"code\":-32000,\"message\":\"no such Method: not found\"}}]");
	expect(f, 2, 3, RPC_ERROR, "block ***");
	assert_int_equal(f->told[2].code, 4444);
	expect(f, 3, 4, RPC_ERROR, "no such ***: not found");
	assert_int_equal(f->told[3].code, -32601);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_singles), TEST(test_single_ends), TEST(test_batch_reversed), TEST(test_batch_odd),
		TEST(test_batch_cut), TEST(test_batch_refused), TEST(test_batch_refused_twice),
		TEST(test_batch_failed), TEST(test_batch_throttled), TEST(test_batch_splits), TEST(test_hold),
		TEST(test_retry_after), TEST(test_round_trip), TEST(test_silences), TEST(test_many),
		TEST(test_many_end), TEST(test_meanings), TEST(test_keys),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
