/*
 * The local interface over a real store: every route and every error, one commit a turn, and that a refused
 * request writes nothing.  This program is the world that the requests come from: it takes the answers.
 */
#include "common/log.h"
#include "listener/api.h"
#include "listener/tapenode.h"
#include "store/chain.h"
#include "store/outbox.h"
#include "tests/unit/world.h"

#define NOW_MS 1767225600000	/* 2026-01-01 */
#define USDC "0x1010101010101010101010101010101010101010"
#define SHOP "0x2020202020202020202020202020202020202020"
#define TX(c) "0x" c c c c c c c c c c c c c c c c

struct asked {
	struct loop_request request;
	int status;			/* 0: not answered */
	struct buf answer;		/* with a NUL */
};

void loop_real_answer(struct loop_request *request, int status, const char *type, struct slice body)
{
	struct asked *a = (struct asked *)request;

	assert_int_equal(a->status, 0);
	assert_string_equal(type, "application/json");
	a->status = status;
	buf_put(&a->answer, body.data, body.len);
	buf_put_u8(&a->answer, '\0');
}

struct counted {
	unsigned committing, committed;
};

static void on_committing(void *ctx, struct kv_txn *t)
{
	struct counted *n = ctx;

	(void)t;
	n->committing++;
}

static void on_committed(void *ctx)
{
	struct counted *n = ctx;

	n->committed++;
}

static int64_t now_ms(void *ctx)
{
	(void)ctx;
	return NOW_MS;
}

struct fixture {
	struct world w;
	struct chain_config config;
	struct api api;
	struct counted counted;
	struct buf answer;		/* of the last ask(), with a NUL */
};

static void open_api(struct fixture *f)
{
	struct address usdc = address_of(0x10);

	f->config = config_recorded(1);
	f->config.finality = (struct finality_policy){ { { .tag = TAG_FINALIZED } }, 1 };
	assert_true(config_add_token(&f->config, "USDC", &usdc, 6));
	f->api = (struct api){ .kv = f->w.kv, .store = "the-store", .chains = { { &f->config, NULL } }, .chain_count = 1,
			       .now_ms = now_ms, .committing = on_committing, .committed = on_committed,
			       .ctx = &f->counted };
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	world_make(&f->w);
	world_open(&f->w);
	open_api(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	api_free(&f->api);
	buf_free(&f->answer);
	world_remove(&f->w);
	free(f);
	return 0;
}

/* Ask; the answer's text until the next one. */
static const char *ask(struct fixture *f, int want, const char *method, const char *path, const char *body)
{
	const char *query = strchr(path, '?');
	char plain[400];
	int status;

	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(path, "?"), path);
	f->answer.len = 0;
	status = api_ask(&f->api, method, plain, query ? query + 1 : "", slice_of_text(body), &f->answer);
	buf_put_u8(&f->answer, '\0');
	if (status != want)
		fail_msg("%s %s: %d, want %d: %s", method, path, status, want, (const char *)f->answer.data);
	return (const char *)f->answer.data;
}

static void expect_error(struct fixture *f, int status, const char *method, const char *path, const char *body,
			 const char *code, const char *text)
{
	struct buf before = world_dump(f->w.kv);
	const char *got = ask(f, status, method, path, body);
	char want[700];

	snprintf(want, sizeof(want), "{\"error\":{\"code\":\"%s\",\"text\":\"%s\"}}", code, text);
	assert_string_equal(got, want);
	expect_same(before, world_dump(f->w.kv));
}

static const char *intent_body(const char *id, const char *amount, const char *more)
{
	static char body[700];

	snprintf(body, sizeof(body), "{\"id\":\"%s\",\"merchant_id\":\"m\",\"idempotency_key\":\"k_%s\",\"chain_id\":1,"
		 "\"token\":\"" USDC "\",\"payee\":\"" SHOP "\",\"amount\":\"%s\"%s}", id, id, amount, more);
	return body;
}

static void create(struct fixture *f, const char *id)
{
	ask(f, 201, "POST", "/v1/intents", intent_body(id, "5", ""));
}

/* As events carry it. */
static const char *intent_json(const char *id, const char *state, int version, const char *tx)
{
	static char text[900];

	snprintf(text, sizeof(text), "{\"id\":\"%s\",\"merchant_id\":\"m\",\"idempotency_key\":\"k_%s\",\"chain_id\":1,"
		 "\"token\":\"" USDC "\",\"amount\":\"5\",\"payee\":\"" SHOP "\",\"payer\":null,\"watch\":\"tx\","
		 "\"state\":\"%s\",\"version\":%d,\"tx_hash\":%s,\"created_at\":\"2026-01-01T00:00:00.000Z\","
		 "\"entered_at\":\"2026-01-01T00:00:00.000Z\"}", id, id, state, version, tx);
	return text;
}

static void expect_intent(const char *got, const char *id, const char *state, int version, const char *tx,
			  const char *more)
{
	char want[2400];

	snprintf(want, sizeof(want), "{\"intent\":%s%s}", intent_json(id, state, version, tx), more);
	assert_string_equal(got, want);
}

/* --- intents ------------------------------------------------------------------------ */

static void test_create(void **state)
{
	struct fixture *f = *state;
	struct kv_stats before;

	expect_intent(ask(f, 201, "POST", "/v1/intents", intent_body("pi_1", "5", "")), "pi_1", "created", 1, "null", "");
	before = kv_stats(f->w.kv);
	expect_intent(ask(f, 200, "POST", "/v1/intents", intent_body("pi_1", "5", "")), "pi_1", "created", 1, "null", "");
	assert_int_equal(kv_stats(f->w.kv).puts, before.puts);
}

static void test_create_refused(void **state)
{
	struct fixture *f = *state;
	char text[700];

	create(f, "pi_1");
	expect_error(f, 409, "POST", "/v1/intents", intent_body("pi_1", "6", ""), "E_CONFLICT",
		     "amount: another than that of intent pi_1, which is there with this id");
	expect_error(f, 422, "POST", "/v1/intents", intent_body("pi_2", "0", ""), "E_REFUSED", "amount: 0, want at least 1");
	expect_error(f, 400, "POST", "/v1/intents", intent_body("pi_2", "5.5", ""), "E_INPUT",
		     "amount: \\\"5.5\\\", want decimal digits in base units");
	expect_error(f, 400, "POST", "/v1/intents", intent_body("pi_2", "5", ",\"colour\":\"red\""), "E_INPUT",
		     "colour: not a known member");
	expect_error(f, 400, "POST", "/v1/intents", intent_body("pi 2", "5", ""), "E_INPUT",
		     "id: want 1 to 64 of letters, digits and _-:.@/");
	expect_error(f, 400, "POST", "/v1/intents", "[1]", "E_INPUT", "an array, want an object");
	snprintf(text, sizeof(text), "%s", intent_body("pi_2", "5", ""));
	memcpy(strstr(text, "\"chain_id\":1"), "\"chain_id\":2", 12);
	expect_error(f, 422, "POST", "/v1/intents", text, "E_REFUSED", "chain_id: chain 2 is not configured");
	assert_non_null(strstr(ask(f, 400, "POST", "/v1/intents", ""), "\"E_INPUT\""));
	assert_non_null(strstr(ask(f, 400, "POST", "/v1/intents", "{"), "\"E_INPUT\""));
}

/* A route intent that no transfer could tell from an open one. */
static void test_create_rival(void **state)
{
	struct fixture *f = *state;

	ask(f, 201, "POST", "/v1/intents", intent_body("pi_1", "5", ",\"watch\":\"route\""));
	expect_error(f, 422, "POST", "/v1/intents", intent_body("pi_2", "5", ",\"watch\":\"route\""), "E_REFUSED",
		     "payee: open route intent pi_1 has the same chain, token, payee, payer and amount");
}

static void test_attempts(void **state)
{
	struct fixture *f = *state;
	const char *path = "/v1/intents/pi_1/attempts", *body = "{\"tx_hash\":\"" TX("aaaa") "\",\"nonce\":\"7\"}";
	struct kv_stats before;

	create(f, "pi_1");
	expect_intent(ask(f, 200, "POST", path, body), "pi_1", "created", 1, "null", "");
	before = kv_stats(f->w.kv);
	expect_intent(ask(f, 200, "POST", path, body), "pi_1", "created", 1, "null", "");
	assert_int_equal(kv_stats(f->w.kv).puts, before.puts);
	expect_error(f, 404, "POST", "/v1/intents/pi_9/attempts", body, "E_NOT_FOUND", "intent: pi_9 is not known");
	expect_error(f, 400, "POST", path, "{\"tx_hash\":\"0xaa\"}", "E_INPUT", "tx_hash: 2 hex digits, want 64");
	expect_error(f, 400, "POST", path, "{}", "E_INPUT", "tx_hash: missing");
	expect_error(f, 400, "POST", path, "{\"intent\":\"pi_1\",\"tx_hash\":\"" TX("aaaa") "\"}", "E_INPUT",
		     "intent: not a known member");
}

#define MOVES "/v1/intents/pi_1/moves"

static void test_moves(void **state)
{
	struct fixture *f = *state;
	struct kv_stats before;

	create(f, "pi_1");
	expect_intent(ask(f, 200, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\",\"version\":1}"), "pi_1", "authorized",
		      2, "null", ",\"outcome\":\"applied\"");
	before = kv_stats(f->w.kv);
	expect_intent(ask(f, 200, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\",\"version\":1}"), "pi_1", "authorized",
		      2, "null", ",\"outcome\":\"already_there\"");
	assert_int_equal(kv_stats(f->w.kv).puts, before.puts);
	ask(f, 200, "POST", MOVES, "{\"to\":\"settling\",\"actor\":\"relayer\"}");
	expect_intent(ask(f, 200, "POST", MOVES, "{\"to\":\"confirming\",\"actor\":\"relayer\",\"tx_hash\":\"" TX("aaaa") "\"}"),
		      "pi_1", "confirming", 4, "\"" TX("aaaa") "\"", ",\"outcome\":\"applied\"");
}

static void test_moves_refused(void **state)
{
	struct fixture *f = *state;

	create(f, "pi_1");
	expect_error(f, 409, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\",\"version\":2}", "E_VERSION_CONFLICT",
		     "intent: pi_1 is at version 1, not 2");
	expect_error(f, 403, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"relayer\"}", "E_FORBIDDEN_ACTOR",
		     "intent: relayer may not move created -> authorized");
	expect_error(f, 403, "POST", MOVES, "{\"to\":\"settled\",\"actor\":\"listener\"}", "E_FORBIDDEN_ACTOR",
		     "actor: the listener's moves exist only inside the listener");
	expect_error(f, 422, "POST", MOVES, "{\"to\":\"settled\",\"actor\":\"api\"}", "E_ILLEGAL_TRANSITION",
		     "intent: transition not in table: created -> settled");
	expect_error(f, 422, "POST", MOVES, "{\"to\":\"canceled\",\"actor\":\"api\"}", "E_MISSING_EVIDENCE",
		     "intent: evidence missing: reason");
	expect_error(f, 400, "POST", MOVES, "{\"to\":\"paid\",\"actor\":\"api\"}", "E_INPUT", "to: \\\"paid\\\" is no state");
	expect_error(f, 400, "POST", MOVES, "{\"to\":\"authorized\"}", "E_INPUT", "actor: missing");
	expect_error(f, 404, "POST", "/v1/intents/pi_9/moves", "{\"to\":\"authorized\",\"actor\":\"api\"}", "E_NOT_FOUND",
		     "intent: pi_9 is not known");
	ask(f, 200, "POST", MOVES, "{\"to\":\"canceled\",\"actor\":\"api\",\"reason\":\"expired\"}");
	expect_error(f, 409, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\"}", "E_TERMINAL",
		     "intent: state is terminal: pi_1 is canceled");
}

/* A person settles with another transaction than the recorded one; it is no attempt of the intent. */
static void test_moves_another_tx(void **state)
{
	struct fixture *f = *state;

	create(f, "pi_1");
	ask(f, 200, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\",\"tx_hash\":\"" TX("aaaa") "\"}");
	ask(f, 200, "POST", MOVES, "{\"to\":\"settling\",\"actor\":\"relayer\"}");
	ask(f, 200, "POST", MOVES, "{\"to\":\"needs_review\",\"actor\":\"relayer\",\"reason\":\"odd\"}");
	expect_error(f, 422, "POST", MOVES,
		     "{\"to\":\"settled\",\"actor\":\"operator\",\"reason\":\"seen\",\"tx_hash\":\"" TX("bbbb") "\"}", "E_TX_MISMATCH",
		     "intent: pi_1 confirmed with " TX("aaaa") ", not " TX("bbbb"));
}

static void test_show(void **state)
{
	struct fixture *f = *state;
	char want[2400];

	create(f, "pi_1");
	ask(f, 200, "POST", "/v1/intents/pi_1/attempts",
	    "{\"tx_hash\":\"" TX("aaaa") "\",\"sender\":\"" SHOP "\",\"nonce\":7}");
	ask(f, 200, "POST", MOVES,
	    "{\"to\":\"canceled\",\"actor\":\"operator\",\"reason\":{\"code\":\"gone\",\"text\":\"they left\"},"
	    "\"tx_hash\":\"" TX("bbbb") "\"}");
	snprintf(want, sizeof(want), "{\"intent\":%s,"
		 "\"attempts\":[{\"tx_hash\":\"" TX("aaaa") "\",\"sender\":\"" SHOP "\",\"nonce\":7,\"at\":\"2026-01-01T00:00:00.000Z\"}],"
		 "\"history\":[{\"version\":1,\"from\":null,\"to\":\"created\",\"actor\":\"api\",\"at\":\"2026-01-01T00:00:00.000Z\","
		 "\"reason\":null},{\"version\":2,\"from\":\"created\",\"to\":\"canceled\",\"actor\":\"operator\","
		 "\"at\":\"2026-01-01T00:00:00.000Z\",\"reason\":{\"code\":\"gone\",\"text\":\"they left\"},"
		 "\"tx_hash\":\"" TX("bbbb") "\"}]}", intent_json("pi_1", "canceled", 2, "\"" TX("bbbb") "\""));
	assert_string_equal(ask(f, 200, "GET", "/v1/intents/pi_1", ""), want);
	expect_error(f, 404, "GET", "/v1/intents/pi_2", "", "E_NOT_FOUND", "intent: pi_2 is not known");
}

/* Ids hold what a path has to encode. */
static void test_names(void **state)
{
	struct fixture *f = *state;

	create(f, "a/b@c:d");
	expect_intent(ask(f, 200, "POST", "/v1/intents/a%2Fb%40c%3ad/attempts", "{\"tx_hash\":\"" TX("aaaa") "\"}"), "a/b@c:d",
		      "created", 1, "null", "");
	ask(f, 200, "GET", "/v1/intents/a%2fb@c:d", "");
	expect_error(f, 404, "GET", "/v1/intents/a/b@c:d", "", "E_NOT_FOUND", "/v1/intents/a/b@c:d: no such place");
	expect_error(f, 400, "GET", "/v1/intents/a%2", "", "E_INPUT",
		     "/v1/intents/a%2: a name in the path is badly encoded or too long");
	expect_error(f, 400, "GET", "/v1/intents/a%0", "", "E_INPUT",
		     "/v1/intents/a%0: a name in the path is badly encoded or too long");
	expect_error(f, 400, "GET", "/v1/intents/a%00", "", "E_INPUT",
		     "/v1/intents/a%00: a name in the path is badly encoded or too long");
	expect_error(f, 400, "GET", "/v1/intents/a%20b", "", "E_INPUT",
		     "intent: a b is no id, want 1 to 64 of letters, digits and _-:.@/");
}

static void test_no_such_place(void **state)
{
	struct fixture *f = *state;

	expect_error(f, 404, "GET", "/", "", "E_NOT_FOUND", "/: no such place");
	expect_error(f, 404, "GET", "/v1/intents/", "", "E_NOT_FOUND", "/v1/intents/: no such place");
	expect_error(f, 404, "GET", "/v1/intentsx", "", "E_NOT_FOUND", "/v1/intentsx: no such place");
	expect_error(f, 404, "POST", "/v1/intents/x/moves/y", "{}", "E_NOT_FOUND", "/v1/intents/x/moves/y: no such place");
	expect_error(f, 405, "POST", "/healthz", "{}", "E_INPUT", "/healthz: does not take POST");
	expect_error(f, 405, "GET", "/v1/intents/x/moves", "", "E_INPUT", "/v1/intents/x/moves: does not take GET");
}

/* --- pages ---------------------------------------------------------------------------- */

static void expect_page(struct fixture *f, const char *path, const char *const *ids, const char *state, const char *next)
{
	struct buf want = { 0 };

	json_open_object(&want, NULL);
	json_open_array(&want, "intents");
	for (size_t i = 0; ids[i]; i++) {
		json_put_name(&want, NULL);
		buf_put_text(&want, intent_json(ids[i], state, strcmp(state, "created") ? 2 : 1, "null"));
	}
	json_close_array(&want);
	json_put_text(&want, "next", next);
	json_close_object(&want);
	buf_put_u8(&want, '\0');
	assert_string_equal(ask(f, 200, "GET", path, ""), (const char *)want.data);
	buf_free(&want);
}

#define IDS(...) (const char *const[]){ __VA_ARGS__, NULL }

static void test_pages(void **state)
{
	struct fixture *f = *state;

	expect_page(f, "/v1/intents", (const char *const[]){ NULL }, "created", NULL);
	create(f, "a");
	create(f, "b");
	create(f, "c");
	expect_page(f, "/v1/intents", IDS("a", "b", "c"), "created", NULL);
	expect_page(f, "/v1/intents?limit=2", IDS("a", "b"), "created", "2");
	expect_page(f, "/v1/intents?limit=2&after=2", IDS("c"), "created", NULL);
	expect_page(f, "/v1/intents?after=3", (const char *const[]){ NULL }, "created", NULL);
	expect_page(f, "/v1/intents?limit=3", IDS("a", "b", "c"), "created", NULL);
}

/* The place stays where it was, though the intent there has left the state. */
static void test_pages_of_state(void **state)
{
	struct fixture *f = *state;

	create(f, "a");
	create(f, "b");
	create(f, "c");
	expect_page(f, "/v1/intents?state=created&limit=1", IDS("a"), "created", "1767225600000-1");
	ask(f, 200, "POST", "/v1/intents/a/moves", "{\"to\":\"authorized\",\"actor\":\"api\"}");
	expect_page(f, "/v1/intents?state=created&limit=1&after=1767225600000-1", IDS("b"), "created", "1767225600000-2");
	expect_page(f, "/v1/intents?state=created&after=1767225600000%2d2", IDS("c"), "created", NULL);
	expect_page(f, "/v1/intents?state=authorized", IDS("a"), "authorized", NULL);
	expect_page(f, "/v1/intents?state=settled", (const char *const[]){ NULL }, "settled", NULL);
}

static void test_pages_refused(void **state)
{
	struct fixture *f = *state;

	expect_error(f, 400, "GET", "/v1/intents?state=paid", "", "E_INPUT", "state: \\\"paid\\\" is no state");
	expect_error(f, 400, "GET", "/v1/intents?limit=0", "", "E_INPUT", "limit: \\\"0\\\", want 1 to 1000");
	expect_error(f, 400, "GET", "/v1/intents?limit=1001", "", "E_INPUT", "limit: \\\"1001\\\", want 1 to 1000");
	expect_error(f, 400, "GET", "/v1/intents?after=x", "", "E_INPUT",
		     "after: \\\"x\\\", want what \\\"next\\\" of the page before told");
	expect_error(f, 400, "GET", "/v1/intents?after=18446744073709551615", "", "E_INPUT",
		     "after: \\\"18446744073709551615\\\", want what \\\"next\\\" of the page before told");
	expect_error(f, 400, "GET", "/v1/intents?state=created&after=1", "", "E_INPUT",
		     "after: \\\"1\\\", want what \\\"next\\\" of the page before told");
	expect_error(f, 400, "GET", "/v1/intents?stat=created", "", "E_INPUT",
		     "stat: unknown parameter, want state, limit or after");
	expect_error(f, 400, "GET", "/v1/intents?state=%zz", "", "E_INPUT", "state: badly encoded or too long");
}

/* --- chains and health ------------------------------------------------------------------ */

struct row_call {
	const struct chain_row *row;
};

/* With the tip's block, if there is a tip. */
static void put_row(struct kv_txn *t, void *ctx)
{
	struct row_call *c = ctx;
	struct block_row block = { .hash = c->row->tip_hash, .parent = hash_of(0x19), .time_s = c->row->tip_time_s,
				   .proof = PROOF_RECEIPTS, .order = 1 };
	struct chain_row row = *c->row;

	row.has_tip = false;
	if (c->row->has_tip)
		chain_push(t, 1, &row, c->row->tip_height, &block, NULL);
	chain_put(t, 1, c->row);
}

static void store_row(struct fixture *f, const struct chain_row *row)
{
	struct row_call c = { row };

	assert_int_equal(kv_write(f->w.kv, put_row, &c), OK);
}

static struct chain_row latched_row(void)
{
	return (struct chain_row){ .has_tip = true, .start_height = 20, .tip_height = 20, .tip_hash = hash_of(0xaa),
				   .tip_time_s = NOW_MS / 1000,
				   .marks = { { .known = true, .height = 9, .hash = hash_of(0xbb), .suspended = true } },
				   .latched = true, .latch_height = 9, .latch_ours = hash_of(0xbb),
				   .latch_theirs = hash_of(0xcc) };
}

#define TOKENS "\"tokens\":[{\"symbol\":\"USDC\",\"address\":\"" USDC "\",\"decimals\":6}]"

static void test_unfollowed(void **state)
{
	struct fixture *f = *state;
	struct chain_row row = latched_row();

	assert_string_equal(ask(f, 200, "GET", "/v1/chains/1", ""), "{\"chain\":{\"chain_id\":1,\"tip\":null," TOKENS ","
			    "\"watermarks\":[{\"rule\":\"finalized\",\"number\":null,\"hash\":null,\"suspended\":false}],"
			    "\"latch\":null,\"head\":null,\"trouble\":\"not followed\",\"unproven\":null,\"caught_up\":false,"
			    "\"endpoints\":[]}}");
	store_row(f, &row);
	assert_string_equal(ask(f, 200, "GET", "/v1/chains", ""), "{\"chains\":[{\"chain_id\":1,"
			    "\"tip\":{\"number\":20,\"hash\":\"" TX("aaaa") "\",\"time\":\"2026-01-01T00:00:00.000Z\"}," TOKENS ","
			    "\"watermarks\":[{\"rule\":\"finalized\",\"number\":9,\"hash\":\"" TX("bbbb") "\",\"suspended\":true}],"
			    "\"latch\":{\"number\":9,\"ours\":\"" TX("bbbb") "\",\"theirs\":\"" TX("cccc") "\",\"accepted\":null},"
			    "\"head\":null,\"trouble\":\"latched\",\"unproven\":null,\"caught_up\":false,\"endpoints\":[]}]}");
	expect_error(f, 404, "GET", "/v1/chains/2", "", "E_NOT_FOUND", "chain: 2 is not configured");
	expect_error(f, 400, "GET", "/v1/chains/main", "", "E_INPUT", "chain: main is no chain id");
	expect_error(f, 409, "POST", "/v1/chains/1/accept-unproven", "{\"hash\":\"" TX("cccc") "\"}", "E_REFUSED",
		     "chain: no daemon follows chain 1");
	assert_string_equal(ask(f, 503, "GET", "/healthz", ""), "{\"status\":\"trouble\",\"reasons\":[\"chain 1: latched at 9, ours "
			    TX("bbbb") ", theirs " TX("cccc") "\",\"chain 1: tier 0 is suspended at height 9: a reorg went "
			    "below it; it settles nothing until an operator accepts\",\"chain 1: not followed\"]}");
	expect_error(f, 422, "POST", "/v1/chains/1/accept", "{\"hash\":\"" TX("bbbb") "\"}", "E_REFUSED",
		     "hash: the block is ours, of the branch that the endpoints deny; name a block of theirs");
	/* What the operator says is kept for the daemon's next start. */
	ask(f, 200, "POST", "/v1/chains/1/accept", "{\"hash\":\"" TX("cccc") "\"}");
	assert_non_null(strstr(ask(f, 200, "GET", "/v1/chains/1", ""), "\"accepted\":\"" TX("cccc") "\""));
}

static void test_status(void **state)
{
	struct fixture *f = *state;
	const char *want = "{\"pid\":null,\"store\":\"the-store\",\"intents\":{\"created\":1,\"authorized\":1,\"settling\":0,"
			   "\"confirming\":0,\"needs_review\":0,\"settled\":0,\"failed\":0,\"canceled\":0,\"total\":2},\"chains\":[{";

	create(f, "a");
	create(f, "b");
	ask(f, 200, "POST", "/v1/intents/a/moves", "{\"to\":\"authorized\",\"actor\":\"api\"}");
	assert_memory_equal(ask(f, 200, "GET", "/v1/status", ""), want, strlen(want));
}

/* A tracker over the tape's world: nothing has happened in it. */
struct followed {
	struct tapenode *node;
	struct tracker tracker;
};

static void follow(struct fixture *f, struct followed *w, const struct endpoint_urls *at)
{
	static const struct tracker_watcher nobody = { .ctx = NULL };
	struct complaint why;

	w->node = tapenode_new();
	tapenode_set_clock(w->node, NOW_MS);
	assert_int_equal(tracker_start(&w->tracker, tapenode_loop(w->node), f->w.kv, at, 1, &f->config, &nobody, &why), OK);
	f->api.chains[0].tracker = &w->tracker;
}

static void unfollow(struct fixture *f, struct followed *w)
{
	f->api.chains[0].tracker = NULL;
	tapenode_cancel_all(w->node);
	tracker_stop(&w->tracker);
	tapenode_free(w->node);
}

/* Of an endpoint's URL only the host is ever told. */
static void test_followed(void **state)
{
	struct endpoint_urls at = { "https://user:p%40ss@node.example:8545/v3/KEY?k=KEY", "wss://node.example/KEY" };
	struct fixture *f = *state;
	struct followed w;
	const char *got;

	follow(f, &w, &at);
	got = ask(f, 200, "GET", "/v1/chains/1", "");
	assert_non_null(strstr(got, "\"endpoints\":[{\"host\":\"node.example:8545\",\"health\":\"connecting\","
				    "\"why\":\"not connected yet\","
				    "\"head\":null,\"last_failure\":null,\"syncing\":false,\"lies\":0,\"tags_lower\":0,\"set_aside\":0}]"));
	assert_null(strstr(got, "KEY"));
	assert_null(strstr(got, "user"));
	unfollow(f, &w);
}

static void test_health(void **state)
{
	struct endpoint_urls at = { "tape:", "tape:" };
	struct fixture *f = *state;
	struct followed w;

	follow(f, &w, &at);
	w.tracker.trouble = TROUBLE_STALE;
	assert_string_equal(ask(f, 503, "GET", "/healthz", ""), "{\"status\":\"trouble\",\"reasons\":["
			    "\"chain 1: stale: no head is known yet\","
			    "\"chain 1: endpoint 0 is connecting: not connected yet\"]}");
	w.tracker.trouble = TROUBLE_ALONE;
	assert_string_equal(ask(f, 503, "GET", "/readyz", ""), "{\"status\":\"trouble\",\"reasons\":["
			    "\"chain 1: 0 endpoints are live, 1 must agree\","
			    "\"chain 1: endpoint 0 is connecting: not connected yet\","
			    "\"chain 1: has not yet reached the head\"]}");
	w.tracker.trouble = TROUBLE_NONE;
	assert_string_equal(ask(f, 200, "GET", "/healthz", ""), "{\"status\":\"ok\"}");
	assert_string_equal(ask(f, 503, "GET", "/readyz", ""),
			    "{\"status\":\"trouble\",\"reasons\":[\"chain 1: has not yet reached the head\"]}");
	w.tracker.caught_up = true;
	assert_string_equal(ask(f, 200, "GET", "/readyz", ""), "{\"status\":\"ok\"}");
	unfollow(f, &w);
}

static struct chain_row stored_row(struct fixture *f)
{
	struct kv_txn t = kv_begin_read(f->w.kv);
	struct chain_row row;

	assert_true(chain_get(&t, 1, &row));
	assert_int_equal(kv_end_read(&t), OK);
	return row;
}

static void test_accept(void **state)
{
	struct endpoint_urls at = { "tape:", "tape:" };
	struct chain_row row = latched_row();
	struct hash32 theirs = hash_of(0xcc);
	struct fixture *f = *state;
	struct followed w;

	store_row(f, &row);
	follow(f, &w, &at);
	expect_error(f, 400, "POST", "/v1/chains/1/accept", "{\"hash\":\"0x\"}", "E_INPUT", "hash: 0 hex digits, want 64");
	expect_error(f, 404, "POST", "/v1/chains/2/accept", "{\"hash\":\"" TX("cccc") "\"}", "E_NOT_FOUND",
		     "chain: 2 is not configured");
	assert_non_null(strstr(ask(f, 200, "POST", "/v1/chains/1/accept", "{\"hash\":\"" TX("cccc") "\"}"),
			       "\"accepted\":\"" TX("cccc") "\"}"));
	row = stored_row(f);
	assert_true(row.accepted);
	assert_true(hash_eq(&row.accepted_hash, &theirs));
	assert_false(row.marks[0].suspended);
	unfollow(f, &w);
}

static void test_nothing_to_accept(void **state)
{
	struct endpoint_urls at = { "tape:", "tape:" };
	struct fixture *f = *state;
	struct followed w;

	follow(f, &w, &at);
	expect_error(f, 422, "POST", "/v1/chains/1/accept", "{\"hash\":\"" TX("cccc") "\"}", "E_REFUSED",
		     "chain: 1 is not latched and no tier of it suspended: there is nothing to accept");
	expect_error(f, 422, "POST", "/v1/chains/1/accept-unproven", "{\"hash\":\"" TX("cccc") "\"}", "E_REFUSED",
		     "hash: the next block of chain 1, as far as it is known, is none");
	unfollow(f, &w);
}

static void test_accept_unproven(void **state)
{
	struct endpoint_urls at = { "tape:", "tape:" };
	struct fixture *f = *state;
	struct followed w;
	struct chain_row row = { .has_tip = false };
	struct hash32 block = hash_of(0xdd);

	store_row(f, &row);
	follow(f, &w, &at);
	w.tracker.obstacle = (struct obstacle){ .known = true, .hash = block, .since_ms = NOW_MS, .unproven = true };
	assert_non_null(strstr(ask(f, 200, "GET", "/v1/chains/1", ""),
			       "\"unproven\":{\"hash\":\"" TX("dddd") "\",\"since\":\"2026-01-01T00:00:00.000Z\"}"));
	expect_error(f, 422, "POST", "/v1/chains/1/accept-unproven", "{\"hash\":\"" TX("cccc") "\"}", "E_REFUSED",
		     "hash: the next block of chain 1, as far as it is known, is " TX("dddd"));
	ask(f, 200, "POST", "/v1/chains/1/accept-unproven", "{\"hash\":\"" TX("dddd") "\"}");
	row = stored_row(f);
	assert_true(row.trusted);
	assert_true(hash_eq(&row.trusted_hash, &block));
	unfollow(f, &w);
}

/* --- turns ------------------------------------------------------------------------------- */

struct turn {
	struct asked asked[2048];
	char bodies[2048][700];
	size_t count;
};

static void add(struct fixture *f, struct turn *turn, const char *method, const char *path, const char *body)
{
	struct asked *a = &turn->asked[turn->count];

	assert_true(turn->count < ARRAY_SIZE(turn->asked));
	snprintf(turn->bodies[turn->count], sizeof(turn->bodies[0]), "%s", body);
	*a = (struct asked){ .request = { method, path, "", slice_of_text(turn->bodies[turn->count]) } };
	turn->count++;
	api_asked(&f->api, &a->request);
}

static void end_turn(struct turn *turn)
{
	for (size_t i = 0; i < turn->count; i++)
		buf_free(&turn->asked[i].answer);
	free(turn);
}

static const char *name_of(unsigned i)
{
	static char name[16];

	snprintf(name, sizeof(name), "pi_%u", i);
	return name;
}

/* What a hundred new intents put, each in a store of its own turn. */
static uint64_t puts_of(unsigned count)
{
	struct fixture f = { .answer = { 0 } };
	uint64_t puts;

	world_make(&f.w);
	world_open(&f.w);
	open_api(&f);
	puts = kv_stats(f.w.kv).puts;
	for (unsigned i = 0; i < count; i++)
		create(&f, name_of(i));
	puts = kv_stats(f.w.kv).puts - puts;
	buf_free(&f.answer);
	world_remove(&f.w);
	return puts;
}

/* A hundred are made in one commit; those between that are refused leave nothing and harm nobody. */
static void test_one_commit(void **state)
{
	struct fixture *f = *state;
	struct turn *turn = xcalloc(1, sizeof(*turn));
	struct kv_stats before = kv_stats(f->w.kv), after;

	for (unsigned i = 0; i < 100; i++) {
		add(f, turn, "POST", "/v1/intents", intent_body(name_of(i), "5", ""));
		add(f, turn, "POST", "/v1/intents", intent_body(name_of(i), "6", ""));
		add(f, turn, "POST", "/v1/intents/pi_0/moves", "{\"to\":\"settled\",\"actor\":\"api\"}");
		add(f, turn, "POST", "/v1/intents/pi_0/attempts", "{}");
	}
	add(f, turn, "GET", "/v1/intents/pi_99", "");
	add(f, turn, "GET", "/nowhere", "");
	assert_int_equal(turn->asked[0].status, 0);
	api_turn(&f->api);
	after = kv_stats(f->w.kv);
	assert_int_equal(after.commits - before.commits, 1);
	assert_int_equal(after.puts - before.puts, puts_of(100));
	assert_int_equal(f->counted.committing, 1);
	assert_int_equal(f->counted.committed, 1);
	for (unsigned i = 0; i < 400; i++)
		assert_int_equal(turn->asked[i].status, ((const int[]){ 201, 409, 422, 400 })[i % 4]);
	assert_int_equal(turn->asked[400].status, 200);
	assert_int_equal(turn->asked[401].status, 404);
	assert_non_null(strstr((const char *)turn->asked[4 * 42].answer.data, "\"id\":\"pi_42\""));
	api_turn(&f->api);
	end_turn(turn);
}

/* One asks for what another of the same turn makes. */
static void test_in_order(void **state)
{
	struct fixture *f = *state;
	struct turn *turn = xcalloc(1, sizeof(*turn));

	add(f, turn, "GET", "/v1/intents/pi_1", "");
	add(f, turn, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\"}");
	add(f, turn, "POST", "/v1/intents", intent_body("pi_1", "5", ""));
	add(f, turn, "POST", "/v1/intents", intent_body("pi_1", "5", ""));
	add(f, turn, "POST", MOVES, "{\"to\":\"authorized\",\"actor\":\"api\",\"version\":1}");
	add(f, turn, "POST", MOVES, "{\"to\":\"canceled\",\"actor\":\"api\",\"version\":1,\"reason\":\"x\"}");
	api_turn(&f->api);
	for (unsigned i = 0; i < turn->count; i++)
		assert_int_equal(turn->asked[i].status, ((const int[]){ 200, 404, 201, 200, 200, 409 })[i]);
	assert_non_null(strstr((const char *)turn->asked[0].answer.data, intent_json("pi_1", "authorized", 2, "null")));
	end_turn(turn);
}

static void test_reads_commit_nothing(void **state)
{
	struct fixture *f = *state;
	struct turn *turn = xcalloc(1, sizeof(*turn));
	uint64_t commits = kv_stats(f->w.kv).commits;

	add(f, turn, "GET", "/v1/intents", "");
	add(f, turn, "GET", "/v1/status", "");
	api_turn(&f->api);
	assert_int_equal(turn->asked[0].status, 200);
	assert_int_equal(turn->asked[1].status, 200);
	assert_int_equal(kv_stats(f->w.kv).commits, commits);
	assert_int_equal(f->counted.committing, 0);
	end_turn(turn);
}

/* The disk fails: nobody who writes is told that it was done, and nothing was. */
static void fail_turn(struct fixture *f, struct fault_at fault)
{
	struct turn *turn = xcalloc(1, sizeof(*turn));
	struct buf before = world_dump(f->w.kv);

	kv_set_hook(f->w.kv, (struct kv_hook){ fault_hook, &fault });
	add(f, turn, "POST", "/v1/intents", intent_body("pi_1", "5", ""));
	add(f, turn, "POST", "/v1/intents", intent_body("pi_2", "0", ""));
	add(f, turn, "GET", "/v1/intents", "");
	api_turn(&f->api);
	kv_set_hook(f->w.kv, (struct kv_hook){ NULL, NULL });
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(turn->asked[i].status, 500);
		assert_string_equal((const char *)turn->asked[i].answer.data,
				    "{\"error\":{\"code\":\"E_IO\",\"text\":\"the store could not be written: E_IO\"}}");
	}
	assert_int_equal(turn->asked[2].status, 200);
	assert_string_equal((const char *)turn->asked[2].answer.data, "{\"intents\":[],\"next\":null}");
	assert_int_equal(f->counted.committed, 0);
	expect_same(before, world_dump(f->w.kv));
	end_turn(turn);
}

static void test_commit_fails(void **state)
{
	fail_turn(*state, (struct fault_at){ .put = -1, .commit = true, .err = E_IO });
	fail_turn(*state, (struct fault_at){ .put = 3, .err = E_IO });
	create(*state, "pi_1");
}

/* The map grows in the middle: the whole turn is written anew, each is answered once. */
static void test_map_grows(void **state)
{
	struct fixture *f = *state;
	struct turn *turn = xcalloc(1, sizeof(*turn));

	for (unsigned i = 0; i < 1000; i++) {
		add(f, turn, "POST", "/v1/intents", intent_body(name_of(i), "5", ""));
		add(f, turn, "POST", "/v1/intents", intent_body(name_of(i), "6", ""));
	}
	api_turn(&f->api);
	assert_true(kv_stats(f->w.kv).grown > 0);
	for (unsigned i = 0; i < turn->count; i++)
		assert_int_equal(turn->asked[i].status, i % 2 ? 409 : 201);
	expect_intent((const char *)turn->asked[1998].answer.data, "pi_999", "created", 1, "null", "");
	assert_int_equal(f->counted.committed, 1);
	end_turn(turn);
}

/* What was gathered when the daemon ends is forgotten. */
static void test_forgotten(void **state)
{
	struct fixture *f = *state;
	struct turn *turn = xcalloc(1, sizeof(*turn));
	struct buf before = world_dump(f->w.kv);

	add(f, turn, "POST", "/v1/intents", intent_body("pi_1", "5", ""));
	add(f, turn, "GET", "/nowhere", "");
	api_free(&f->api);
	api_turn(&f->api);
	assert_int_equal(turn->asked[0].status, 0);
	expect_same(before, world_dump(f->w.kv));
	end_turn(turn);
}

/* An attempt of a chain that has a tip is looked up: the tracker runs after the commit, not for what only reads. */
static void test_tracker_runs(void **state)
{
	struct chain_row row = { .has_tip = true, .start_height = 20, .tip_height = 20, .tip_hash = hash_of(0xaa),
				 .tip_time_s = NOW_MS / 1000 - 86400 };
	struct endpoint_urls at = { "tape:", "tape:" };
	struct fixture *f = *state;
	struct followed w;

	store_row(f, &row);
	follow(f, &w, &at);
	w.tracker.trouble = TROUBLE_NONE;
	ask(f, 200, "GET", "/v1/chains", "");
	assert_int_equal(w.tracker.trouble, TROUBLE_NONE);
	ask(f, 422, "POST", "/v1/intents", intent_body("pi_1", "0", ""));
	assert_int_equal(w.tracker.trouble, TROUBLE_NONE);
	ask(f, 201, "POST", "/v1/intents", intent_body("pi_1", "5", ""));
	assert_int_equal(w.tracker.trouble, TROUBLE_STALE);
	unfollow(f, &w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_create), TEST(test_create_refused), TEST(test_create_rival), TEST(test_attempts), TEST(test_moves),
		TEST(test_moves_refused), TEST(test_moves_another_tx), TEST(test_show), TEST(test_names),
		TEST(test_no_such_place), TEST(test_pages), TEST(test_pages_of_state), TEST(test_pages_refused),
		TEST(test_unfollowed), TEST(test_status), TEST(test_followed), TEST(test_health), TEST(test_accept),
		TEST(test_nothing_to_accept), TEST(test_accept_unproven), TEST(test_one_commit), TEST(test_in_order),
		TEST(test_reads_commit_nothing), TEST(test_commit_fails), TEST(test_map_grows), TEST(test_forgotten),
		TEST(test_tracker_runs),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
