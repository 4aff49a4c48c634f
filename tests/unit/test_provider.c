/*
 * One endpoint: every cell of its health's table, as one golden file, and what it makes of the answers after a
 * connect, of silence, lies and deafness.
 * TIDEMARK_GOLDEN_UPDATE=1 rewrites the golden file.
 */
#include "common/log.h"
#include "listener/provider.h"
#include "tests/unit/logged.h"
#include "tests/unit/scripted.h"

#define GOLDEN "fixtures/golden/health.golden"
#define HTTP "http://node"
#define WS "ws://node"
#define USDC "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
#define WORD(last_two) "\"0x00000000000000000000000000000000000000000000000000000000000000" last_two "\""
#define SUBSCRIBE "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_subscribe\",\"params\":[\"newHeads\"]}\n"
#define CHAIN_ID "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"eth_chainId\",\"params\":[]}\n"

static void test_table(void **state)
{
	char want[8192];
	struct buf table = { 0 };
	FILE *f = fopen(GOLDEN, getenv("TIDEMARK_GOLDEN_UPDATE") ? "w+" : "r");
	size_t len;

	(void)state;
	assert_non_null(f);
	health_print_table(&table);
	if (getenv("TIDEMARK_GOLDEN_UPDATE"))
		fwrite(table.data, 1, table.len, f);
	rewind(f);
	len = fread(want, 1, sizeof(want), f);
	fclose(f);
	assert_int_equal(len, table.len);
	assert_memory_equal(want, table.data, len);
	buf_free(&table);
}

/* What a health is called in a log. */
static void test_names(void **state)
{
	(void)state;
	assert_string_equal(health_name(HEALTH_CONNECTING), "connecting");
	assert_string_equal(health_name(HEALTH_BACKOFF), "backing off");
}

/* The endpoints; this program owns them, and reads a head as its height alone. */
struct fixture {
	struct scripted w;
	struct chain_config config;
	struct genesis genesis;
	struct provider p, other;
	struct scripted_block blocks[SCRIPTED_BLOCKS];
	size_t block_count;
	unsigned heads, changes;
	char zero[2][8000];		/* two genesis blocks, as a node gives them */
};

static void on_head(void *ctx, struct provider *p, struct slice header)
{
	struct fixture *f = ctx;
	struct complaint why;
	uint64_t height;
	bool good = result_u64(header, &height, &why) == OK;

	f->heads++;
	if (good)
		p->head = (struct head){ .known = true, .verified = true, .height = height };
	provider_judged(p, good);
}

static void on_changed(void *ctx)
{
	struct fixture *f = ctx;

	f->changes++;
}

/* The block as if it were the first: nothing recomputes a genesis. */
static void make_zero(char out[8000], const char *block)
{
	const char *number = strstr(block, "\"number\":\"0x6");

	assert_non_null(number);
	snprintf(out, 8000, "%.*s\"number\":\"0x0\"%s", (int)(number - block), block, strchr(number, ','));
}

static void start(struct fixture *f, struct provider *p, unsigned index)
{
	static const struct endpoint_urls at[] = { { HTTP, WS }, { "http://other", "ws://other" } };
	struct provider_owner owner = { on_head, on_changed, f };

	provider_start(p, &f->w.loop, &at[index], index, &f->config, &f->genesis, &owner);
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct address usdc;

	scripted_start(&f->w);
	f->config = config_default(31337);
	f->config.batch_max = 1;
	f->config.finality = (struct finality_policy){ { { .tag = TAG_FINALIZED } }, 1 };
	assert_true(address_parse(slice_of_text(USDC), &usdc));
	assert_true(config_add_token(&f->config, "USDC", &usdc, 6));
	f->block_count = scripted_forge("block b100\nblock c100 on b100\nhead c100\n", f->blocks);
	for (unsigned i = 0; i < 2; i++)
		make_zero(f->zero[i], f->blocks[i].block);
	start(f, &f->p, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scripted_cancel(&f->w);
	provider_stop(&f->p);
	if (f->other.rpc.loop)
		provider_stop(&f->other);
	scripted_stop(&f->w);
	scripted_free_blocks(f->blocks, f->block_count);
	free(f);
	return 0;
}

static void expect_health(const struct provider *p, enum health health, const char *why)
{
	assert_string_equal(health_name(p->health), health_name(health));
	assert_string_equal(p->why.text, why);
}

/* What stands in the request for one of the five questions; the true answers. */
enum question { CHAIN, GENESIS, SYNCING, DECIMALS, TAG_READ };
static const char *const words[] = { "eth_chainId", "\"0x0\"", "eth_syncing", "0x313ce567", "\"finalized\"" };

static void answer_truly(struct fixture *f, const char *http, unsigned question)
{
	const char *const answers[] = { "\"0x7a69\"", f->zero[0], "false", WORD("06"), "null" };

	scripted_reply(&f->w, scripted_find(&f->w, http, words[question]), "result", answers[question]);
}

static void answer_rest(struct fixture *f, const char *http)
{
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		if (scripted_count(&f->w, http, words[i]))
			answer_truly(f, http, i);
	}
}

/* Open, pass the check and answer the head that is read then. */
static void go_live(struct fixture *f)
{
	scripted_open(&f->w, WS);
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_LIVE, "is the chain that we follow");
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, "\"latest\",false"), "result", "\"0x64\"");
	assert_null(f->w.posts);
}

static void poll(struct fixture *f, const char *height)
{
	provider_ask_head(&f->p);
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, "\"latest\",false"), "result", height);
}

/* Checking. */

static void test_check(void **state)
{
	struct fixture *f = *state;

	expect_health(&f->p, HEALTH_CONNECTING, "not connected yet");
	scripted_open(&f->w, WS);
	expect_health(&f->p, HEALTH_CHECKING, "connected");
	assert_string_equal((char *)scripted_socket(&f->w, WS)->sent.data, SUBSCRIBE CHAIN_ID);
	assert_int_equal(f->w.posted, 5);
	scripted_expect_body(scripted_find(&f->w, HTTP, words[DECIMALS]),
			     "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"eth_call\",\"params\":"
			     "[{\"to\":\"" USDC "\",\"data\":\"0x313ce567\"},\"latest\"]}");
	for (unsigned i = ARRAY_SIZE(words); i-- > 0;) {
		expect_health(&f->p, HEALTH_CHECKING, "connected");
		assert_int_equal(f->changes, 0);
		answer_truly(f, HTTP, i);
	}
	expect_health(&f->p, HEALTH_LIVE, "is the chain that we follow");
	assert_int_equal(f->changes, 1);
	assert_true(f->genesis.known);
	assert_true(hash_eq(&f->genesis.hash, &f->blocks[0].hash));
	assert_false(f->p.syncing);
	/* Its head is read at once. */
	assert_int_equal(f->w.posted, 6);
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, "latest"), "result", "\"0x64\"");
	assert_int_equal(f->heads, 1);
}

/* All questions in one batch, where it takes them. */
static void test_check_in_a_batch(void **state)
{
	struct fixture *f = *state;

	f->p.rpc.batch_max = 50;
	scripted_open(&f->w, WS);
	assert_int_equal(f->w.posted, 1);
	scripted_answer(&f->w, f->w.posts, 413, "");
	assert_int_equal(f->w.posted, 6);
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_LIVE, "is the chain that we follow");
}

static void test_check_of_nothing(void **state)
{
	struct fixture *f = *state;

	f->config.check_endpoints = false;
	scripted_open(&f->w, WS);
	assert_string_equal((char *)scripted_socket(&f->w, WS)->sent.data, SUBSCRIBE);
	expect_health(&f->p, HEALTH_LIVE, "is the chain that we follow");
	assert_int_equal(f->w.posted, 1);
	scripted_find(&f->w, HTTP, "latest");
}

enum how { RESULT, ERROR, BODY, TIMEOUT };

static const struct {
	enum question question;
	enum how how;
	const char *text;
	enum health health;
	const char *why;
} checks[] = {
	{ CHAIN, RESULT, "\"0x1\"", HEALTH_WRONG, "it serves chain 1, want 31337" },
	{ CHAIN, RESULT, "31337", HEALTH_LIVE, "is the chain that we follow" },
	{ CHAIN, RESULT, "\"0x\"", HEALTH_BACKOFF, "does not answer" },
	{ CHAIN, RESULT, "null", HEALTH_BACKOFF, "does not answer" },
	{ CHAIN, ERROR, "{\"code\":-32601,\"message\":\"no\"}", HEALTH_BACKOFF, "does not answer" },
	{ CHAIN, BODY, "<html>", HEALTH_BACKOFF, "does not answer" },
	{ CHAIN, TIMEOUT, "", HEALTH_BACKOFF, "does not answer" },
	{ GENESIS, RESULT, "null", HEALTH_BACKOFF, "does not answer" },
	{ GENESIS, RESULT, "{}", HEALTH_BACKOFF, "does not answer" },
	{ GENESIS, TIMEOUT, "", HEALTH_BACKOFF, "does not answer" },
	{ SYNCING, RESULT, "{\"startingBlock\":\"0x0\"}", HEALTH_LIVE, "is the chain that we follow" },
	{ SYNCING, ERROR, "{\"code\":-32601,\"message\":\"no\"}", HEALTH_LIVE, "is the chain that we follow" },
	{ SYNCING, TIMEOUT, "", HEALTH_BACKOFF, "does not answer" },
	{ DECIMALS, RESULT, WORD("12"), HEALTH_WRONG, "token USDC " USDC ": 18 decimals, the configuration says 6" },
	{ DECIMALS, RESULT, "\"0x\"", HEALTH_WRONG, "token USDC " USDC ": no token's code at this address" },
	{ DECIMALS, RESULT, "\"0x06\"", HEALTH_BACKOFF, "does not answer" },
	{ DECIMALS, ERROR, "{\"code\":3,\"message\":\"execution failed\"}", HEALTH_WRONG,
	  "token USDC " USDC ": decimals() reverts" },
	{ DECIMALS, ERROR, "{\"code\":-32000,\"message\":\"execution reverted\"}", HEALTH_WRONG,
	  "token USDC " USDC ": decimals() reverts" },
	{ DECIMALS, ERROR, "{\"code\":-32000,\"message\":\"header not found\"}", HEALTH_BACKOFF, "does not answer" },
	{ DECIMALS, RESULT, "null", HEALTH_BACKOFF, "does not answer" },
	{ DECIMALS, TIMEOUT, "", HEALTH_BACKOFF, "does not answer" },
	{ TAG_READ, RESULT, "{}", HEALTH_LIVE, "is the chain that we follow" },
	{ TAG_READ, ERROR, "{\"code\":-39001,\"message\":\"unknown block\"}", HEALTH_LIVE, "is the chain that we follow" },
	{ TAG_READ, TIMEOUT, "", HEALTH_BACKOFF, "does not answer" },
};

static void answer_check(struct fixture *f, unsigned row)
{
	struct loop_post *post = scripted_find(&f->w, HTTP, words[checks[row].question]);

	if (checks[row].how == TIMEOUT)
		scripted_fail(&f->w, post, LOOP_TIMED_OUT);
	else if (checks[row].how == BODY)
		scripted_answer(&f->w, post, 200, checks[row].text);
	else
		scripted_reply(&f->w, post, checks[row].how == ERROR ? "error" : "result", checks[row].text);
}

/* In whatever order the answers come: first the odd one, or last. */
static void test_check_rows(void **state)
{
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(checks); i++) {
		unsigned row = i / 2;
		struct fixture *f = *state;

		scripted_open(&f->w, WS);
		for (unsigned k = 0; i % 2 && k < ARRAY_SIZE(words); k++) {
			if (k != checks[row].question)
				answer_truly(f, HTTP, k);
		}
		answer_check(f, row);
		answer_rest(f, HTTP);
		expect_health(&f->p, checks[row].health, checks[row].why);
		assert_int_equal(f->changes, 1);
		assert_int_equal(f->p.syncing, row == 10);
		assert_int_equal(scripted_socket(&f->w, WS)->closes, checks[row].health != HEALTH_LIVE);
		assert_int_equal(f->genesis.known, checks[row].health == HEALTH_LIVE);
		assert_int_equal(f->p.retry.set, checks[row].health != HEALTH_LIVE);
		tear_down(state);
		set_up(state);
	}
}

/* A node that is syncing may not have come to the token yet: it is no wrong one. */
static void test_check_while_syncing(void **state)
{
	for (unsigned first = 0; first < 2; first++) {
		struct fixture *f = *state;
		struct loop_post *token, *syncing;

		scripted_open(&f->w, WS);
		token = scripted_find(&f->w, HTTP, words[DECIMALS]);
		syncing = scripted_find(&f->w, HTTP, words[SYNCING]);
		if (first)
			scripted_reply(&f->w, token, "result", "\"0x\"");
		scripted_reply(&f->w, syncing, "result", "{\"startingBlock\":\"0x0\"}");
		if (!first)
			scripted_reply(&f->w, token, "result", "\"0x\"");
		answer_rest(f, HTTP);
		expect_health(&f->p, HEALTH_BACKOFF, "does not answer");
		assert_true(f->p.syncing);
		tear_down(state);
		set_up(state);
	}
}

/* Not wrong, but not known to be right: tried again, and checked again. */
static void test_check_again(void **state)
{
	struct fixture *f = *state;

	scripted_open(&f->w, WS);
	scripted_fail(&f->w, scripted_find(&f->w, HTTP, words[CHAIN]), LOOP_UNREACHABLE);
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_BACKOFF, "does not answer");
	assert_int_equal(f->p.retry.at_ms, f->w.now_ms + 500);
	scripted_pass(&f->w, 499);
	assert_int_equal(f->p.health, HEALTH_BACKOFF);
	scripted_pass(&f->w, 1);
	expect_health(&f->p, HEALTH_CONNECTING, "is tried again");
	go_live(f);
}

/* What was asked before it hung up is not the answer of now. */
static void test_check_late(void **state)
{
	struct fixture *f = *state;

	scripted_open(&f->w, WS);
	scripted_hang_up(&f->w, WS);
	expect_health(&f->p, HEALTH_BACKOFF, "closed the socket");
	scripted_pass(&f->w, 500);
	scripted_open(&f->w, WS);
	assert_int_equal(f->w.posted, 10);
	/* The older five, one of them wrong. */
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, words[CHAIN]), "result", "\"0x1\"");
	for (unsigned i = 1; i < ARRAY_SIZE(words); i++)
		answer_truly(f, HTTP, i);
	expect_health(&f->p, HEALTH_CHECKING, "connected");
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_LIVE, "is the chain that we follow");
}

static void test_genesis_known(void **state)
{
	struct fixture *f = *state;
	char want[300], a[HASH_TEXT], b[HASH_TEXT];

	f->genesis = (struct genesis){ true, f->blocks[1].hash };
	snprintf(want, sizeof(want), "its genesis is %s, want %s", hash_format(&f->blocks[0].hash, a),
		 hash_format(&f->blocks[1].hash, b));
	scripted_open(&f->w, WS);
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_WRONG, want);
	assert_true(hash_eq(&f->genesis.hash, &f->blocks[1].hash));
}

/* Nobody knew it; the first that is through tells it, whenever the other was asked. */
static void test_genesis_of_two(void **state)
{
	struct fixture *f = *state;
	char want[300], a[HASH_TEXT], b[HASH_TEXT];

	start(f, &f->other, 1);
	scripted_open(&f->w, WS);
	scripted_open(&f->w, "ws://other");
	scripted_reply(&f->w, scripted_find(&f->w, "http://other", words[GENESIS]), "result", f->zero[1]);
	answer_rest(f, HTTP);
	assert_int_equal(f->p.health, HEALTH_LIVE);
	answer_rest(f, "http://other");
	snprintf(want, sizeof(want), "its genesis is %s, want %s", hash_format(&f->blocks[1].hash, a),
		 hash_format(&f->blocks[0].hash, b));
	expect_health(&f->other, HEALTH_WRONG, want);
	assert_true(hash_eq(&f->genesis.hash, &f->blocks[0].hash));
}

/* The socket. */

static void test_socket_of_another_chain(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	scripted_say(&f->w, WS, "{\"id\":2,\"result\":\"0x7a69\"}");
	scripted_say(&f->w, WS, "{\"id\":2,\"result\":\"0x\"}");
	scripted_say(&f->w, WS, "{\"id\":2,\"error\":{\"code\":-32601,\"message\":\"no\"}}");
	assert_int_equal(f->p.health, HEALTH_LIVE);
	scripted_say(&f->w, WS, "{\"id\":2,\"result\":\"0x1\"}");
	expect_health(&f->p, HEALTH_WRONG, "its socket serves chain 1, want 31337");
	assert_int_equal(scripted_socket(&f->w, WS)->closes, 1);
	/* Even before its requests are answered, which say nothing then. */
	scripted_pass(&f->w, 32000);
	scripted_open(&f->w, WS);
	scripted_say(&f->w, WS, "{\"id\":2,\"result\":\"0x1\"}");
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_WRONG, "its socket serves chain 1, want 31337");
}

/* The longest wait, and no good answer shortens it meanwhile. */
static void test_quarantine(void **state)
{
	struct fixture *f = *state;

	f->w.chance = 16000;
	scripted_open(&f->w, WS);
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, words[CHAIN]), "result", "\"0x1\"");
	answer_rest(f, HTTP);
	assert_int_equal(f->p.health, HEALTH_WRONG);
	assert_int_equal(f->p.retry.at_ms, f->w.now_ms + 32000 + 16000);
	scripted_pass(&f->w, 47999);
	assert_int_equal(f->p.health, HEALTH_WRONG);
	scripted_pass(&f->w, 1);
	expect_health(&f->p, HEALTH_CONNECTING, "is looked at again");
	go_live(f);
}

static void test_garbage(void **state)
{
	static const char *const messages[] = {
		"", "7", "null", "<html>", "{}", "[]", "{\"id\":1", "{\"method\":\"eth_subscription\"}",
		"{\"id\":99,\"result\":\"0x1\"}", "{\"id\":99,\"error\":{\"code\":1,\"message\":\"m\"}}",
		"[{\"id\":1,\"error\":{}}]", "{\"method\":\"eth_subscription\",\"params\":{\"subscription\":\"0x1\"}}",
	};
	struct fixture *f = *state;

	go_live(f);
	scripted_say(&f->w, WS, "{\"id\":1,\"result\":\"0x1\"}");
	for (unsigned i = 0; i < ARRAY_SIZE(messages); i++)
		scripted_say(&f->w, WS, messages[i]);
	assert_int_equal(f->p.health, HEALTH_LIVE);
	assert_true(f->p.subscribed);
	assert_int_equal(f->heads, 1);
	assert_int_equal(f->p.lies, 0);
	assert_null(f->w.posts);
}

/* Deafness. */

static void test_deaf(void **state)
{
	struct fixture *f = *state;
	char height[16];

	go_live(f);
	scripted_say(&f->w, WS, "{\"id\":1,\"result\":\"0x1\"}");
	scripted_announce(&f->w, WS, "\"0x70\"");
	/* Heads that were announced, that are no new ones, or that came between. */
	poll(f, "\"0x70\"");
	poll(f, "\"0x70\"");
	poll(f, "\"0x6f\"");
	assert_int_equal(f->p.unannounced, 0);
	for (unsigned i = 1; i <= 4; i++) {
		snprintf(height, sizeof(height), "\"0x%x\"", 0x70 + i);
		poll(f, height);
		poll(f, height);
		assert_int_equal(f->p.unannounced, i);
	}
	scripted_announce(&f->w, WS, "\"0x75\"");
	assert_int_equal(f->p.unannounced, 0);
	for (unsigned i = 1; i <= 5; i++) {
		assert_int_equal(f->p.health, HEALTH_LIVE);
		snprintf(height, sizeof(height), "\"0x%x\"", 0x75 + i);
		poll(f, height);
	}
	expect_health(&f->p, HEALTH_BACKOFF, "announces no heads any more");
	assert_int_equal(scripted_socket(&f->w, WS)->closes, 1);
	assert_int_equal(f->p.unannounced, 0);
}

/* Without a subscription heads are polled, and nobody wonders. */
static void test_no_subscription(void **state)
{
	struct fixture *f = *state;
	char height[16];

	go_live(f);
	scripted_say(&f->w, WS, "{\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no subscriptions\"}}");
	for (unsigned i = 1; i <= 9; i++) {
		snprintf(height, sizeof(height), "\"0x%x\"", 0x64 + i);
		poll(f, height);
	}
	assert_int_equal(f->p.health, HEALTH_LIVE);
	assert_int_equal(f->p.head.height, 0x64 + 9);
}

/* What its socket says again of either URL's key. */
static void test_keys(void **state)
{
	struct fixture *f = *state;
	struct logged l;

	go_live(f);
	f->p.at = (struct endpoint_urls){ "http://node/SECRET1", "ws://node/SECRET2" };
	l = logged_begin(LOG_ODD);
	scripted_say(&f->w, WS, "{\"id\":1,\"error\":{\"code\":-1,\"message\":\"SECRET1 and /SECRET2 are over quota\"}}");
	scripted_say(&f->w, WS, "bad key SECRET2 or SECRET1");
	logged_expect(&l, "odd: endpoint=0 subscription refused: heads are only polled "
			  "why=\"*** and /*** are over quota\"\n"
			  "odd: endpoint=0 message refused why=\"no JSON value at byte 0; "
			  "the answer's 26 bytes begin with 'bad key *** or ***'\"\n");
}

static void test_announced_before_reply(void **state)
{
	struct fixture *f = *state;

	scripted_open(&f->w, WS);
	scripted_announce(&f->w, WS, "\"0x65\"");
	assert_int_equal(f->heads, 0);		/* not before it is known to be our chain */
	answer_rest(f, HTTP);
	scripted_announce(&f->w, WS, "\"0x65\"");
	assert_int_equal(f->heads, 1);
	assert_int_equal(f->p.head.height, 0x65);
	scripted_say(&f->w, WS, "{\"id\":1,\"result\":\"0x1\"}");
	assert_true(f->p.subscribed);
}

/* Setting aside. */

static void test_reconnect(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	scripted_hang_up(&f->w, WS);
	expect_health(&f->p, HEALTH_BACKOFF, "closed the socket");
	assert_int_equal(f->p.set_aside, 1);
	assert_false(f->p.subscribed);
	scripted_pass(&f->w, 500);
	scripted_open(&f->w, WS);
	expect_health(&f->p, HEALTH_CHECKING, "connected");
	scripted_reply(&f->w, scripted_find(&f->w, HTTP, words[CHAIN]), "result", "\"0x1\"");
	answer_rest(f, HTTP);
	expect_health(&f->p, HEALTH_WRONG, "it serves chain 1, want 31337");
}

/* 500 ms, doubled six times, and up to half of it more; a good answer begins anew. */
static void test_backoff(void **state)
{
	static const int64_t waits_ms[] = { 500, 1000, 2000, 4000, 8000, 16000, 32000, 32000, 32000 };
	struct fixture *f = *state;

	for (unsigned chance = 0; chance < 2; chance++) {
		for (unsigned i = 0; i < ARRAY_SIZE(waits_ms); i++) {
			f->w.chance = chance ? (uint64_t)waits_ms[i] / 2 : 0;
			scripted_hang_up(&f->w, WS);
			assert_int_equal(f->p.retry.at_ms - f->w.now_ms, waits_ms[i] + (int64_t)f->w.chance);
			scripted_pass(&f->w, waits_ms[i] + (int64_t)f->w.chance);
			assert_int_equal(f->p.health, HEALTH_CONNECTING);
		}
		/* One more than the most is none. */
		f->w.chance = 16001;
		scripted_hang_up(&f->w, WS);
		assert_int_equal(f->p.retry.at_ms - f->w.now_ms, 32000);
		scripted_pass(&f->w, 32000);
		go_live(f);
		assert_int_equal(f->p.closings, 0);
	}
	assert_int_equal(f->p.set_aside, 20);
}

/* An error, a null or no answer is no good one. */
static void test_backoff_kept(void **state)
{
	struct fixture *f = *state;

	scripted_hang_up(&f->w, WS);
	scripted_pass(&f->w, 500);
	scripted_open(&f->w, WS);
	answer_rest(f, HTTP);
	assert_int_equal(f->p.health, HEALTH_LIVE);
	scripted_reply(&f->w, f->w.posts, "result", "null");
	provider_ask_head(&f->p);
	scripted_reply(&f->w, f->w.posts, "error", "{\"code\":-32000,\"message\":\"no\"}");
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(f->p.health, HEALTH_LIVE);
		provider_ask_head(&f->p);
		scripted_fail(&f->w, f->w.posts, LOOP_TIMED_OUT);
	}
	expect_health(&f->p, HEALTH_BACKOFF, "does not answer");
	assert_int_equal(f->p.retry.at_ms - f->w.now_ms, 1000);
	assert_int_equal(f->p.set_aside, 2);
}

/* A head is asked for once at a time. */
static void test_ask_head_once(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	provider_ask_head(&f->p);
	provider_ask_head(&f->p);
	assert_int_equal(scripted_count(&f->w, HTTP, "latest"), 1);
	scripted_fail(&f->w, f->w.posts, LOOP_TIMED_OUT);
	provider_ask_head(&f->p);
	assert_int_equal(scripted_count(&f->w, HTTP, "latest"), 1);
}

/* What it announces is no answer to what it was asked. */
static void test_silent_with_heads(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(f->p.health, HEALTH_LIVE);
		scripted_announce(&f->w, WS, "\"0x65\"");
		provider_ask_head(&f->p);
		scripted_fail(&f->w, f->w.posts, LOOP_TIMED_OUT);
	}
	expect_health(&f->p, HEALTH_BACKOFF, "does not answer");
}

/* Nulls between do not hide that nothing ever holds. */
static void test_lies(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	for (unsigned i = 0; i < 5; i++)
		poll(f, "\"latest\"");
	assert_int_equal(f->p.lies, 5);
	poll(f, "\"0x65\"");
	assert_int_equal(f->p.lies, 0);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(f->p.health, HEALTH_LIVE);
		poll(f, "null");
		poll(f, "\"latest\"");
	}
	expect_health(&f->p, HEALTH_BACKOFF, "answers do not hold");
	assert_int_equal(f->p.answers_refused, 11);
}

/* It asked to be left alone: not polled before, and not looked at again before. */
static void test_throttled(void **state)
{
	struct fixture *f = *state;

	go_live(f);
	provider_ask_head(&f->p);
	f->w.posts->retry_after_s = 10;
	scripted_answer(&f->w, f->w.posts, 429, "");
	assert_int_equal(f->p.health, HEALTH_LIVE);
	assert_true(provider_is_throttled(&f->p));
	provider_ask_head(&f->p);
	assert_null(f->w.posts);
	scripted_hang_up(&f->w, WS);
	assert_int_equal(f->p.retry.at_ms, f->w.now_ms + 10000);
	scripted_pass(&f->w, 10000);
	assert_false(provider_is_throttled(&f->p));
	go_live(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table), cmocka_unit_test(test_names), TEST(test_check),
		TEST(test_check_in_a_batch), TEST(test_check_of_nothing), TEST(test_check_rows), TEST(test_check_while_syncing),
		TEST(test_check_again),
		TEST(test_check_late), TEST(test_genesis_known), TEST(test_genesis_of_two),
		TEST(test_socket_of_another_chain), TEST(test_quarantine), TEST(test_garbage), TEST(test_deaf),
		TEST(test_no_subscription), TEST(test_keys), TEST(test_announced_before_reply), TEST(test_reconnect),
		TEST(test_backoff), TEST(test_backoff_kept), TEST(test_ask_head_once), TEST(test_silent_with_heads),
		TEST(test_lies), TEST(test_throttled),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
