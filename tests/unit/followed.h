/*
 * followed - a whole tracker beside scripted nodes: a real store, the forge's blocks, a clock that the test moves.
 *
 * A node knows its blocks up to its head and answers from them after a round trip of its own, but for what the test has
 * it do wrong.
 */
#ifndef TESTS_UNIT_FOLLOWED_H
#define TESTS_UNIT_FOLLOWED_H

#include "common/keccak.h"
#include "listener/desk.h"
#include "listener/tracker.h"
#include "store/chain.h"
#include "store/outbox.h"
#include "tests/unit/scripted.h"
#include "tests/unit/world.h"

#define NODES_MAX 2
#define NODE_BLOCKS 1400
#define NO_BLOCK SIZE_MAX
#define NO_METHOD "{\"code\":-32601,\"message\":\"the method does not exist\"}"
#define TOKEN_LINE "token USDC 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48 6\n"

/* What a node says: its result, instead of it the error, or nothing until the request times out. */
struct answer {
	const char *result;		/* JSON */
	const char *error;
	bool never;
};

struct followed;

struct node {
	struct endpoint_urls at;
	struct scripted_block blocks[NODE_BLOCKS];
	size_t count;
	size_t head;			/* an index, as these are: */
	size_t finalized;		/* NO_BLOCK: none yet */
	int64_t trip_ms;
	bool mute;			/* its subscription is granted, and tells nothing */
	/* Makes of its answer what it likes; NULL: it is honest. */
	void (*wrong)(struct followed *f, struct node *n, struct slice question, struct answer *a);
	unsigned asked;			/* by wrong(), if it counts */
	size_t lacking;			/* for wrong() */
	struct loop_timer dial;
};

/* A question on its way. */
struct errand {
	struct loop_timer timer;	/* first: the errand is its timer */
	struct node *node;
	struct loop_post *post;
	int64_t asked_ms;
	bool lost;
	struct errand *next;
};

struct followed {
	struct scripted w;		/* first: the harness is its world */
	struct world store;
	struct chain_config config;
	struct scripted_block genesis;
	struct node nodes[NODES_MAX];
	unsigned node_count;
	struct errand *errands;
	struct buf scratch;		/* an answer */
	struct tracker tr;
	bool running;
};

/* What a node says. */

/* The hash that the question names first; false: none. */
static inline bool node_is_named(struct slice question, struct hash32 *out)
{
	for (size_t i = 0; i + 66 <= question.len; i++) {
		if (question.data[i] == '0' && hash_parse((struct slice){ question.data + i, 66 }, out))
			return true;
	}
	return false;
}

static inline const struct scripted_block *node_block(const struct node *n, const struct hash32 *hash)
{
	for (size_t i = 0; i <= n->head; i++) {
		if (hash_eq(&n->blocks[i].hash, hash))
			return &n->blocks[i];
	}
	return NULL;
}

/* The one that it heard of last. */
static inline const struct scripted_block *node_block_at(const struct node *n, uint64_t height)
{
	for (size_t i = n->head + 1; i-- > 0;) {
		if (n->blocks[i].height == height)
			return &n->blocks[i];
	}
	return NULL;
}

static inline const struct scripted_block *node_by_number(const struct followed *f, const struct node *n,
							  struct slice question)
{
	static const char before[] = "\"params\":[\"0x";

	if (scripted_has(question, "\"latest\""))
		return &n->blocks[n->head];
	if (scripted_has(question, "\"finalized\""))
		return n->finalized == NO_BLOCK ? NULL : &n->blocks[n->finalized];
	if (scripted_has(question, "[\"0x0\""))
		return &f->genesis;
	for (size_t i = 0; i + sizeof(before) <= question.len; i++) {
		if (memcmp(question.data + i, before, sizeof(before) - 1) == 0)
			return node_block_at(n, strtoull((const char *)question.data + i + sizeof(before) - 1, NULL, 16));
	}
	return NULL;
}

/* Of a receipt, its logs without their brackets. */
static inline struct slice node_logs_of(struct slice receipt)
{
	struct scan s = scan_begin(receipt);
	struct slice name, raw;

	assert_true(scan_object(&s));
	while (scan_member(&s, &name) && scan_skip(&s, &raw)) {
		if (slice_is(name, "logs"))
			return (struct slice){ raw.data + 1, raw.len - 2 };
	}
	fail_msg("a receipt without logs");
	return (struct slice){ NULL, 0 };
}

static inline const char *node_text(struct followed *f)
{
	buf_put_u8(&f->scratch, '\0');
	return (const char *)f->scratch.data;
}

static inline const char *node_logs(struct followed *f, const struct scripted_block *b)
{
	struct scan s = scan_begin(slice_of_text(b->receipts));
	struct slice receipt, logs;

	f->scratch.len = 0;
	buf_put_u8(&f->scratch, '[');
	assert_true(scan_array(&s));
	while (scan_element(&s) && scan_skip(&s, &receipt)) {
		logs = node_logs_of(receipt);
		if (logs.len && f->scratch.len > 1)
			buf_put_u8(&f->scratch, ',');
		buf_put(&f->scratch, logs.data, logs.len);
	}
	buf_put_u8(&f->scratch, ']');
	return node_text(f);
}

static inline const char *node_receipt(struct followed *f, const struct node *n, const struct hash32 *tx)
{
	char hash[HASH_TEXT];
	struct slice receipt;

	hash_format(tx, hash);
	for (size_t i = n->head + 1; i-- > 0;) {
		struct scan s = scan_begin(slice_of_text(n->blocks[i].receipts));

		assert_true(scan_array(&s));
		while (scan_element(&s) && scan_skip(&s, &receipt)) {
			if (!scripted_has(receipt, hash))
				continue;
			f->scratch.len = 0;
			buf_put(&f->scratch, receipt.data, receipt.len);
			return node_text(f);
		}
	}
	return "null";
}

/* An honest one. */
static inline const char *node_answer(struct followed *f, const struct node *n, struct slice q)
{
	const struct scripted_block *b = NULL;
	struct hash32 hash;
	bool named = node_is_named(q, &hash);

	if (scripted_has(q, "eth_chainId"))
		return "\"0x1\"";
	if (scripted_has(q, "eth_syncing"))
		return "false";
	if (scripted_has(q, "eth_call"))
		return scripted_has(q, "0x313ce567") ?
		       "\"0x0000000000000000000000000000000000000000000000000000000000000006\"" : "\"0x\"";
	if (scripted_has(q, "eth_getTransactionReceipt"))
		return named ? node_receipt(f, n, &hash) : "null";
	b = named ? node_block(n, &hash) : node_by_number(f, n, q);
	if (!b)
		return "null";
	if (scripted_has(q, "eth_getLogs"))
		return node_logs(f, b);
	return scripted_has(q, "eth_getBlockReceipts") ? b->receipts : b->block;
}

/* For wrong(): whether it is asked for @method of the block. */
static inline bool node_is_asked(struct slice question, const char *method, const struct scripted_block *b)
{
	struct hash32 hash;

	return scripted_has(question, method) && node_is_named(question, &hash) && hash_eq(&hash, &b->hash);
}

/* Questions on their way. */

static inline void errand_end(struct followed *f, struct errand *e)
{
	struct errand **at = &f->errands;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	scripted_timer_cancel(&f->w.loop, &e->timer);
	free(e);
}

static inline void errand_arrive(struct loop_timer *timer)
{
	struct errand *e = (struct errand *)timer;
	struct followed *f = timer->ctx;
	struct loop_post *post = e->post;
	struct answer a = { NULL, NULL, false };

	if (!e->lost) {
		a.result = node_answer(f, e->node, post->body);
		if (e->node->wrong)
			e->node->wrong(f, e->node, post->body, &a);
		e->lost = a.never;
		if (e->lost) {
			scripted_timer_set(&f->w.loop, timer, e->asked_ms + post->timeout_ms);
			return;
		}
	}
	errand_end(f, e);
	if (a.result || a.error)
		scripted_reply(&f->w, post, a.error ? "error" : "result", a.error ? a.error : a.result);
	else
		scripted_fail(&f->w, post, LOOP_TIMED_OUT);
}

static inline void followed_on_post(struct scripted *w, struct loop_post *post)
{
	struct followed *f = (struct followed *)w;
	struct errand *e = xcalloc(1, sizeof(*e));

	*e = (struct errand){ .timer = { .fire = errand_arrive, .ctx = f }, .post = post, .asked_ms = w->now_ms,
			      .next = f->errands };
	f->errands = e;
	for (unsigned i = 0; i < f->node_count; i++) {
		if (strcmp(f->nodes[i].at.http, post->url) == 0)
			e->node = &f->nodes[i];
	}
	assert_non_null(e->node);
	scripted_timer_set(&w->loop, &e->timer, w->now_ms + e->node->trip_ms);
}

/* Sockets. */

static inline void followed_connect(struct loop_timer *timer)
{
	struct followed *f = timer->ctx;
	struct node *n = NULL;

	for (unsigned i = 0; i < NODES_MAX; i++) {
		if (&f->nodes[i].dial == timer)
			n = &f->nodes[i];
	}
	if (!scripted_socket(&f->w, n->at.ws)->opening)
		return;
	scripted_open(&f->w, n->at.ws);
	scripted_say(&f->w, n->at.ws, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}");
}

static inline void followed_on_opening(struct scripted *w, struct loop_socket *socket)
{
	struct followed *f = (struct followed *)w;

	for (unsigned i = 0; i < f->node_count; i++) {
		if (strcmp(f->nodes[i].at.ws, socket->url) == 0)
			scripted_timer_set(&w->loop, &f->nodes[i].dial, w->now_ms + f->nodes[i].trip_ms);
	}
}

/* What tests say. */

/* Time passes, and what arrives meanwhile is heard at its moment. */
static inline void followed_pass(struct followed *f, int64_t ms)
{
	scripted_pass(&f->w, ms);
}

/* From now on it has the block @index; whoever listens hears of it at once. */
static inline void followed_head(struct followed *f, unsigned node, size_t index)
{
	struct node *n = &f->nodes[node];
	const struct loop_socket *socket = scripted_socket(&f->w, n->at.ws)->socket;

	assert_true(index < n->count);
	n->head = index;
	if (socket->open && !n->mute)
		scripted_announce(&f->w, n->at.ws, n->blocks[index].block);
}

/* Of each block from @from up to @to: the node has it, and @ms pass. */
static inline void followed_heads(struct followed *f, unsigned node, size_t from, size_t to, int64_t ms)
{
	for (size_t i = from; i <= to; i++) {
		followed_head(f, node, i);
		followed_pass(f, ms);
	}
}

/* One more node; its head is the first of its blocks. */
static inline struct node *followed_add(struct followed *f, const char *http, const char *ws, const char *scenario)
{
	struct node *n = &f->nodes[f->node_count++];

	assert_true(f->node_count <= NODES_MAX);
	n->at = (struct endpoint_urls){ http, ws };
	n->count = scripted_forge_most(scenario, n->blocks, NODE_BLOCKS);
	n->finalized = NO_BLOCK;
	n->trip_ms = 10;
	n->dial = (struct loop_timer){ .fire = followed_connect, .ctx = f };
	return n;
}

/* Another chain's blocks, or another branch's. */
static inline void followed_replace(struct node *n, const char *scenario)
{
	scripted_free_blocks(n->blocks, n->count);
	n->count = scripted_forge_most(scenario, n->blocks, NODE_BLOCKS);
	n->head = 0;
}

static inline void followed_start(struct followed *f)
{
	struct endpoint_urls at[NODES_MAX];
	static const struct tracker_watcher nobody;
	struct complaint why;

	for (unsigned i = 0; i < f->node_count; i++)
		at[i] = f->nodes[i].at;
	if (tracker_start(&f->tr, &f->w.loop, f->store.kv, at, f->node_count, &f->config, &nobody, &why))
		fail_msg("%s", why.text);
	f->running = true;
}

static inline void followed_stop(struct followed *f)
{
	if (!f->running)
		return;
	f->running = false;
	f->tr.stopped = true;
	while (f->errands)
		errand_end(f, f->errands);
	scripted_cancel(&f->w);
	tracker_stop(&f->tr);
	for (unsigned i = 0; i < f->node_count; i++)
		scripted_timer_cancel(&f->w.loop, &f->nodes[i].dial);
}

static inline void followed_restart(struct followed *f)
{
	followed_stop(f);
	world_close(&f->store);
	world_open(&f->store);
	followed_start(f);
}

static inline struct chain_row followed_row(struct followed *f)
{
	struct kv_txn t = kv_begin_read(f->store.kv);
	struct chain_row row = { .has_tip = false };

	chain_get(&t, f->config.chain_id, &row);
	assert_int_equal(kv_end_read(&t), OK);
	return row;
}

/* Events that have @word in them. */
static inline unsigned followed_events(struct followed *f, const char *word)
{
	struct kv_txn t = kv_begin_read(f->store.kv);
	struct slice body;
	unsigned count = 0;

	for (uint64_t i = 1; outbox_get(&t, i, &body); i++)
		count += scripted_has(body, word);
	assert_int_equal(kv_end_read(&t), OK);
	return count;
}

static inline void followed_expect_tip(struct followed *f, const struct scripted_block *b)
{
	struct chain_row row = followed_row(f);

	assert_true(row.has_tip);
	assert_int_equal(row.tip_height, b->height);
	assert_true(hash_eq(&row.tip_hash, &b->hash));
}

static inline void followed_expect_mark(struct followed *f, const struct scripted_block *b)
{
	struct chain_row row = followed_row(f);

	assert_true(row.marks[0].known);
	assert_int_equal(row.marks[0].height, b->height);
	assert_true(hash_eq(&row.marks[0].hash, &b->hash));
}

static inline void followed_expect_trouble(struct followed *f, enum tracker_trouble trouble)
{
	assert_string_equal(tracker_trouble_name(f->tr.trouble), tracker_trouble_name(trouble));
}

/* The finalized tag is believed at once, nobody's head is too old, and each question goes alone. */
static inline int followed_set_up(void **state)
{
	struct followed *f = xcalloc(1, sizeof(*f));
	struct complaint why;

	scripted_start(&f->w);
	f->w.on_post = followed_on_post;
	f->w.on_opening = followed_on_opening;
	world_make(&f->store);
	f->store.options.map_bytes = 1 << 22;
	world_open(&f->store);
	f->config = config_default(1);
	f->config.batch_max = 1;
	f->config.head_age_s = 1000000;
	f->config.finality = (struct finality_policy){ .tiers = { { .tag = TAG_FINALIZED } }, .tier_count = 1 };
	if (!config_parse_token("USDC:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48:6", &f->config, &why))
		fail_msg("%s", why.text);
	assert_int_equal(scripted_forge_most("start 0\n" TOKEN_LINE "block g\nhead g\n", &f->genesis, 1), 1);
	*state = f;
	return 0;
}

static inline int followed_tear_down(void **state)
{
	struct followed *f = *state;

	followed_stop(f);
	scripted_stop(&f->w);
	for (unsigned i = 0; i < f->node_count; i++)
		scripted_free_blocks(f->nodes[i].blocks, f->nodes[i].count);
	scripted_free_blocks(&f->genesis, 1);
	buf_free(&f->scratch);
	world_remove(&f->store);
	free(f);
	return 0;
}

/* A write: an intent with an attempt that the relayer sent, 5 to the shop by t1. */
static inline void followed_pay_body(struct kv_txn *t, void *ctx)
{
	struct followed *f = ctx;
	struct hash32 shop = keccak256("shop", 4);
	struct intent i = { .id = "pay", .merchant_id = "m", .idempotency_key = "pay", .chain_id = 1,
			    .token = f->config.tokens[0], .amount = u256_from_u64(5) };
	struct desk_attempt attempt = { .intent = "pay", .attempt.tx_hash = keccak256("t1", 2) };
	struct desk_move move = { .intent = "pay", .current = true };
	struct move_result result;
	struct complaint why;
	bool created;

	memcpy(i.payee.b, shop.b + 12, sizeof(i.payee.b));
	assert_int_equal(desk_create(t, &f->config, &i, f->w.now_ms, &created, &why), OK);
	move.request = (struct move_request){ .to = INTENT_AUTHORIZED, .actor = ACTOR_API };
	assert_int_equal(desk_move(t, &move, f->w.now_ms, &result, &why), OK);
	move.request = (struct move_request){ .to = INTENT_SETTLING, .actor = ACTOR_RELAYER };
	assert_int_equal(desk_move(t, &move, f->w.now_ms, &result, &why), OK);
	assert_int_equal(desk_attempt(t, &attempt, f->w.now_ms, &why), OK);
}

#endif
