/*
 * The follower as a whole beside nodes that are slow, lag, lie, contradict or lack a method: what it stores, what it
 * settles, and what trouble it tells.
 */
#include "common/log.h"
#include "tests/unit/followed.h"

#define A "http://a", "ws://a"
#define B "http://b", "ws://b"
#define RECEIPTS "eth_getBlockReceipts"
#define SETTLED "\"type\":\"intent.settled\""
#define CONFIRMING "\"type\":\"intent.confirming\""
#define REORG "\"type\":\"chain.reorg\""
#define HEALTH(f, node) health_name((f)->tr.reads.providers[node].health)

static const char *const plain =
	TOKEN_LINE
	"transfer t1 USDC alice shop 5\n"
	"block b100\n"
	"block b101 t1\n"
	"block b102\n"
	"block b103\n"
	"block b104\n"
	"head b104\n";

/* Four blocks a second; of two the second holds a payment. */
static struct buf fast_chain(unsigned count)
{
	struct buf text = { 0 };

	buf_put_text(&text, TOKEN_LINE "transfer t1 USDC alice shop 5\n");
	for (unsigned i = 0; i < count; i++)
		buf_printf(&text, "block b%u +%us%s\n", 100 + i, i % 4 == 0, i % 2 ? " t1" : "");
	buf_printf(&text, "head b%u\n", 100 + count - 1);
	buf_put_u8(&text, '\0');
	return text;
}

/* @count blocks from 100 on; from @fork on another branch, whose first block holds the payment of t1. */
static struct buf other_branch(unsigned count, unsigned fork)
{
	struct buf text = { 0 };

	buf_put_text(&text, TOKEN_LINE "transfer t1 USDC alice shop 5\n");
	for (unsigned i = 100; i < 100 + count; i++)
		buf_printf(&text, "block b%u%s\n", i, i == fork ? " +13s t1" : "");
	buf_printf(&text, "head b%u\n", 100 + count - 1);
	buf_put_u8(&text, '\0');
	return text;
}

static void pay(struct followed *f)
{
	f->config.witness = WITNESS_NEVER;
	assert_int_equal(kv_write(f->store.kv, followed_pay_body, f), OK);
	if (f->running)
		tracker_look_again(&f->tr);
}

static void wrong_no_receipts(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	if (scripted_has(question, RECEIPTS))
		a->result = "null";
}

static void wrong_one_lacking(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	const struct scripted_block *b = &n->blocks[n->lacking];

	(void)f;
	if (node_is_asked(question, RECEIPTS, b) || node_is_asked(question, "eth_getLogs", b))
		a->result = "null";
}

/* Pace. */

struct pace {
	int64_t every_ms;		/* a head */
	int64_t trip_ms[NODES_MAX];	/* 0: no such endpoint */
	uint64_t behind;		/* the tip is never further below the head */
};

#define PACE_HEADS 150
#define PACE_FINAL 20

static void start_at(struct followed *f, const struct pace *c)
{
	struct buf chain = fast_chain(PACE_HEADS + 1);

	f->config.far_blocks = 16;
	f->config.poll_ms = 1000;
	followed_add(f, A, (const char *)chain.data)->trip_ms = c->trip_ms[0];
	if (c->trip_ms[1])
		followed_add(f, B, (const char *)chain.data)->trip_ms = c->trip_ms[1];
	buf_free(&chain);
	followed_start(f);
	followed_pass(f, 20 * (c->trip_ms[0] + c->trip_ms[1]));
	followed_expect_tip(f, &f->nodes[0].blocks[0]);
}

/* How far below the head the tip was at the worst, at the end of a head's time. */
static uint64_t follow_at(struct followed *f, const struct pace *c)
{
	uint64_t worst = 0, behind;

	for (size_t i = 1; i <= PACE_HEADS; i++) {
		for (unsigned node = 0; node < f->node_count; node++) {
			f->nodes[node].finalized = i > PACE_FINAL ? i - PACE_FINAL : 0;
			followed_head(f, node, i);
		}
		followed_pass(f, c->every_ms);
		behind = f->nodes[0].blocks[i].height - f->tr.chain.tip_height;
		if (behind > worst)
			worst = behind;
	}
	return worst;
}

static void keep_up(const struct pace *c)
{
	struct followed *f;
	uint64_t worst;
	void *state;

	followed_set_up(&state);
	f = state;
	start_at(f, c);
	worst = follow_at(f, c);
	if (worst > c->behind)
		fail_msg("a head in %lld ms, %lld and %lld ms away: %llu blocks behind, want %llu", (long long)c->every_ms,
			 (long long)c->trip_ms[0], (long long)c->trip_ms[1], (unsigned long long)worst,
			 (unsigned long long)c->behind);
	followed_pass(f, 30000);
	followed_expect_tip(f, &f->nodes[0].blocks[PACE_HEADS]);
	followed_expect_mark(f, &f->nodes[0].blocks[PACE_HEADS - PACE_FINAL]);
	followed_tear_down(&state);
}

/* Heads that come faster than answers are followed two answers behind: a block's, and its receipts'. */
static void test_pace(void **state)
{
	static const struct pace cases[] = {
		{ 12000, { 100, 0 }, 0 },
		{ 250, { 10, 0 }, 0 },
		{ 250, { 400, 0 }, 2 },
		{ 250, { 1000, 0 }, 7 },
		{ 250, { 100, 1000 }, 4 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		keep_up(&cases[i]);
}

#define FAR_HEADS 1100
#define FAR_FINAL 20

/* More headers than are remembered came while one block could not be had. */
static void test_far_behind(void **state)
{
	struct followed *f = *state;
	struct buf chain = fast_chain(FAR_HEADS + 2);
	struct node *n = followed_add(f, A, (const char *)chain.data);

	buf_free(&chain);
	f->config.far_blocks = 16;
	f->config.poll_ms = 1000;
	n->lacking = 2;
	n->wrong = wrong_one_lacking;
	followed_start(f);
	followed_pass(f, 1000);
	for (size_t i = 1; i <= FAR_HEADS; i++) {
		n->finalized = i > FAR_FINAL ? i - FAR_FINAL : 0;
		followed_head(f, 0, i);
		followed_pass(f, 250);
	}
	followed_expect_tip(f, &n->blocks[1]);
	n->wrong = NULL;
	followed_pass(f, 60000);
	followed_expect_tip(f, &n->blocks[FAR_HEADS]);
	followed_expect_mark(f, &n->blocks[FAR_HEADS - FAR_FINAL]);
	followed_expect_trouble(f, TROUBLE_NONE);
	followed_head(f, 0, FAR_HEADS + 1);
	followed_pass(f, 1000);
	followed_expect_tip(f, &n->blocks[FAR_HEADS + 1]);
}

/* A head below the first block links to nothing; that is over with a head that does, however far ahead it is. */
static void test_linked_again(void **state)
{
	struct followed *f = *state;
	struct buf chain = other_branch(200, 100);
	struct node *n = followed_add(f, A, (const char *)chain.data);

	buf_free(&chain);
	n->head = 3;
	followed_start(f);
	followed_pass(f, 1000);
	followed_heads(f, 0, 4, 4, 1000);
	followed_heads(f, 0, 1, 1, 1000);
	followed_expect_trouble(f, TROUBLE_UNLINKED);
	n->lacking = 50;
	n->wrong = wrong_one_lacking;
	followed_heads(f, 0, 199, 199, 1000);
	followed_expect_tip(f, &n->blocks[49]);
	followed_expect_trouble(f, TROUBLE_NONE);
}

/* What is settled. */

/* The first branch is told first: b102; then the one with the payment: c102. */
static const char *const two_branches =
	TOKEN_LINE
	"transfer t1 USDC alice shop 5\n"
	"block b100\n"
	"block b101\n"
	"block b102\n"
	"block b103\n"
	"block b104\n"
	"block b105\n"
	"block b106\n"
	"tell b106\n"
	"block c102 on b101 +13s t1\n"
	"block c103\n"
	"block c104\n"
	"block c105\n"
	"block c106\n"
	"tell c106\n"
	"head c106\n";

enum { B101 = 1, B102, B106 = 6, C102, C106 = 11 };

/* Depth counts from the blocks that both have. */
static void test_depth_of_two(void **state)
{
	struct followed *f = *state;

	f->config.finality = (struct finality_policy){ .tiers = { { .depth = 3 } }, .tier_count = 1 };
	followed_add(f, A, two_branches);
	followed_add(f, B, two_branches);
	followed_start(f);
	followed_pass(f, 1000);
	pay(f);
	for (size_t i = B101; i <= B106; i++) {
		followed_head(f, 0, i < B102 ? i : i - B102 + C102);
		followed_head(f, 1, i);
		followed_pass(f, 12000);
	}
	followed_expect_tip(f, &f->nodes[0].blocks[C106]);
	followed_expect_trouble(f, TROUBLE_NONE);
	assert_int_equal(followed_events(f, CONFIRMING), 1);
	assert_int_equal(followed_events(f, SETTLED), 0);
	followed_head(f, 1, C106);
	followed_pass(f, 1000);
	assert_int_equal(followed_events(f, SETTLED), 1);
	followed_expect_mark(f, &f->nodes[0].blocks[C106 - 2]);
}

/* A subscription that tells nothing is tried once more, then heads are only polled. */
static void test_deaf(void **state)
{
	struct followed *f = *state;
	struct buf chain = other_branch(60, 130);
	struct node *n = followed_add(f, A, (const char *)chain.data);

	buf_free(&chain);
	n->mute = true;
	pay(f);
	followed_start(f);
	followed_pass(f, 1000);
	for (size_t i = 1; i < n->count; i++) {
		n->finalized = i > 10 ? i - 10 : 0;
		followed_head(f, 0, i);
		followed_pass(f, 12000);
	}
	assert_int_equal(f->tr.reads.providers[0].set_aside, 1);
	assert_string_equal(HEALTH(f, 0), "live");
	followed_expect_trouble(f, TROUBLE_NONE);
	followed_expect_tip(f, &n->blocks[59]);
	followed_expect_mark(f, &n->blocks[49]);
	assert_int_equal(followed_events(f, SETTLED), 1);
}

static void suspend_body(struct kv_txn *t, void *ctx)
{
	struct followed *f = ctx;
	struct chain_row row = { .has_tip = true };

	for (unsigned i = 0; i < TIERS_MAX; i++)
		row.marks[i].known = row.marks[i].suspended = true;
	chain_put(t, f->config.chain_id, &row);
}

static void accept_body(struct kv_txn *t, void *ctx)
{
	struct followed *f = ctx;
	struct hash32 any = hash_of(1);

	tracker_accept(t, &f->config, &any);
}

/* Whoever accepts may know of fewer tiers than the daemon: of one here. */
static void test_accept_lifts_all(void **state)
{
	struct followed *f = *state;
	struct chain_row row;

	assert_int_equal(kv_write(f->store.kv, suspend_body, f), OK);
	assert_int_equal(kv_write(f->store.kv, accept_body, f), OK);
	row = followed_row(f);
	for (unsigned i = 0; i < TIERS_MAX; i++)
		assert_false(row.marks[i].suspended);
}

/* Where following begins. */

static void wrong_chain(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	if (scripted_has(question, "eth_chainId"))
		a->result = "\"0x63\"";
}

/* What another chain's endpoint announces before it is asked which one it serves. */
static void test_another_chain(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, "start 500\n" TOKEN_LINE "block w500\nblock w501\nblock w502\nhead w502\n");

	n->wrong = wrong_chain;
	followed_start(f);
	followed_pass(f, n->trip_ms);
	assert_string_equal(HEALTH(f, 0), "checking");
	followed_head(f, 0, 2);
	followed_pass(f, 1000);
	assert_string_equal(HEALTH(f, 0), "wrong chain");
	assert_false(followed_row(f).has_start);
	followed_stop(f);
	followed_replace(n, plain);
	n->wrong = NULL;
	followed_restart(f);
	followed_pass(f, 1000);
	followed_heads(f, 0, 1, 4, 12000);
	assert_int_equal(followed_row(f).start_height, 100);
	followed_expect_tip(f, &n->blocks[4]);
	followed_expect_trouble(f, TROUBLE_NONE);
}

/* Connected again, perhaps to another node. */
static void test_another_chain_later(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);
	struct hash32 head = n->blocks[1].hash;

	followed_start(f);
	followed_pass(f, 1000);
	followed_heads(f, 0, 1, 1, 1000);
	scripted_hang_up(&f->w, n->at.ws);
	followed_replace(n, "start 90\n" TOKEN_LINE "block w90\nblock w91\nblock w92\nhead w92\n");
	n->wrong = wrong_chain;
	while (strcmp(HEALTH(f, 0), "checking") != 0)
		followed_pass(f, 1);
	followed_head(f, 0, 2);
	assert_true(hash_eq(&reads_head(&f->tr.reads)->hash, &head));
	followed_pass(f, 1000);
	assert_string_equal(HEALTH(f, 0), "wrong chain");
	followed_expect_trouble(f, TROUBLE_ALONE);
}

static void wrong_syncing(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	if (scripted_has(question, "eth_syncing"))
		a->result = "{\"currentBlock\":\"0x64\",\"highestBlock\":\"0x1000\"}";
	if (scripted_has(question, "eth_call"))
		a->result = "\"0x\"";
}

/* A node that has not come to the token's creation yet is waited for. */
static void test_syncing(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);

	n->wrong = wrong_syncing;
	followed_start(f);
	followed_pass(f, 100);
	followed_head(f, 0, 1);
	assert_string_equal(HEALTH(f, 0), "backing off");
	assert_false(followed_row(f).has_start);
	n->wrong = NULL;
	followed_head(f, 0, 2);
	followed_pass(f, 60000);
	assert_string_equal(HEALTH(f, 0), "live");
	assert_int_equal(followed_row(f).start_height, 102);
	followed_expect_tip(f, &n->blocks[2]);
}

/* Before the first block is applied a head below it is only late. */
static void test_late_head(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);

	n->wrong = wrong_no_receipts;
	n->head = 3;
	followed_start(f);
	followed_pass(f, 1000);
	assert_int_equal(followed_row(f).start_height, 103);
	followed_head(f, 0, 1);
	followed_pass(f, 1000);
	followed_expect_trouble(f, TROUBLE_NONE);
	assert_false(followed_row(f).has_tip);
	n->wrong = NULL;
	followed_head(f, 0, 4);
	followed_pass(f, 60000);
	followed_expect_tip(f, &n->blocks[4]);
	assert_int_equal(followed_events(f, REORG), 0);
}

/* Nothing was applied, so there is nothing to undo: begun at 102, and away while 101 and 102 left the chain. */
static void test_start_reorged(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);
	struct buf chain = other_branch(200, 101);

	n->wrong = wrong_no_receipts;
	n->head = 2;
	followed_start(f);
	followed_pass(f, 1000);
	assert_int_equal(followed_row(f).start_height, 102);
	assert_false(followed_row(f).has_tip);
	followed_stop(f);
	followed_replace(n, (const char *)chain.data);
	buf_free(&chain);
	n->wrong = NULL;
	n->head = 199;
	followed_restart(f);
	followed_pass(f, 60000);
	followed_expect_tip(f, &n->blocks[199]);
	assert_int_equal(followed_events(f, REORG), 0);
}

/* Followed from 103 on; away while 102 and all after it left the chain, and the payment was mined in 102 again. */
static void test_reorg_below_start(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);
	struct buf chain = other_branch(200, 102);

	n->head = 3;
	followed_start(f);
	followed_pass(f, 1000);
	followed_heads(f, 0, 4, 4, 1000);
	followed_expect_tip(f, &n->blocks[4]);
	pay(f);
	followed_stop(f);
	followed_replace(n, (const char *)chain.data);
	buf_free(&chain);
	n->head = 199;
	followed_restart(f);
	followed_pass(f, 60000);
	followed_expect_tip(f, &n->blocks[199]);
	assert_int_equal(followed_row(f).start_height, 100);
	assert_int_equal(followed_events(f, REORG), 1);
	assert_int_equal(followed_events(f, CONFIRMING), 1);
}

/* What a node lacks. */

/* It lacks the method, and what it gives of the second block otherwise does not hold. */
static void wrong_unproven(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	char *data;

	if (scripted_has(question, RECEIPTS))
		a->error = NO_METHOD;
	if (node_is_asked(question, "eth_getLogs", &n->blocks[1]))
		a->result = "[]";
	if (scripted_has(question, "eth_getTransactionReceipt")) {
		data = strstr((char *)f->scratch.data, "\"data\":\"0x");
		assert_non_null(data);
		data[60] = '1';
	}
}

static void trust_body(struct kv_txn *t, void *ctx)
{
	struct followed *f = ctx;

	tracker_accept_unproven(t, &f->config, &f->nodes[0].blocks[1].hash);
}

/* Where nobody gives all receipts at once each of them is taken as the node's word; that word holds for one block. */
static void test_accept_unproven(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);

	followed_start(f);
	followed_pass(f, 1000);
	n->wrong = wrong_unproven;
	followed_heads(f, 0, 1, 1, 400000);
	followed_expect_tip(f, &n->blocks[0]);
	followed_expect_trouble(f, TROUBLE_UNPROVEN);
	assert_int_equal(kv_write(f->store.kv, trust_body, f), OK);
	tracker_look_again(&f->tr);
	followed_pass(f, 60000);
	followed_expect_tip(f, &n->blocks[1]);
	followed_expect_trouble(f, TROUBLE_NONE);
	assert_false(followed_row(f).trusted);
	assert_false(f->tr.reads.trusted);
	followed_restart(f);
	assert_false(f->tr.reads.trusted);
	followed_pass(f, 1000);
	followed_heads(f, 0, 2, 2, 1000);
	followed_expect_tip(f, &n->blocks[2]);
}

static void wrong_no_method(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	if (scripted_has(question, RECEIPTS)) {
		n->asked++;
		a->error = NO_METHOD;
	}
}

/* Behind a name there may be another node by now. */
static void test_method_comes_back(void **state)
{
	struct followed *f = *state;
	struct node *n = followed_add(f, A, plain);

	followed_start(f);
	followed_pass(f, 1000);
	n->wrong = wrong_no_method;
	followed_heads(f, 0, 1, 2, 1000);
	followed_expect_tip(f, &n->blocks[2]);
	assert_int_equal(n->asked, 1);
	scripted_hang_up(&f->w, n->at.ws);
	followed_pass(f, 5000);
	assert_string_equal(HEALTH(f, 0), "live");
	followed_heads(f, 0, 3, 4, 1000);
	followed_expect_tip(f, &n->blocks[4]);
	assert_int_equal(n->asked, 2);
}

/* It never tells what is final; asked once more beside that, it fails. */
static void wrong_tag(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	if (!scripted_has(question, "\"finalized\""))
		return;
	if (scripted_count(&f->w, n->at.http, "\"finalized\"") > 1)
		a->error = "{\"code\":-32000,\"message\":\"finalized block not found\"}";
	else
		a->never = true;
}

/* A block waits for the tags no longer than until they were asked for twice. */
static void test_tag_hangs(void **state)
{
	struct followed *f = *state;
	struct buf chain = other_branch(20, 110);

	followed_add(f, A, (const char *)chain.data);
	followed_add(f, B, (const char *)chain.data);
	buf_free(&chain);
	followed_start(f);
	followed_pass(f, 1000);
	f->nodes[1].wrong = wrong_tag;
	for (size_t i = 1; i < 20; i++) {
		f->nodes[0].finalized = f->nodes[1].finalized = i - 1;
		followed_head(f, 0, i);
		followed_head(f, 1, i);
		followed_pass(f, 1000);
		followed_expect_tip(f, &f->nodes[0].blocks[i]);
		followed_pass(f, 11000);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, followed_set_up, followed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pace), TEST(test_far_behind), TEST(test_linked_again),
		TEST(test_depth_of_two), TEST(test_deaf), TEST(test_accept_lifts_all),
		TEST(test_another_chain), TEST(test_another_chain_later), TEST(test_syncing), TEST(test_late_head),
		TEST(test_start_reorged), TEST(test_reorg_below_start),
		TEST(test_accept_unproven), TEST(test_method_comes_back), TEST(test_tag_hangs),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
