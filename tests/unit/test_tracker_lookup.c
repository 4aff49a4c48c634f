/*
 * Attempts whose transaction may stand in a block that went by, where endpoints cannot tell, or tell less than there is.
 */
#include "common/keccak.h"
#include "common/log.h"
#include "listener/desk.h"
#include "tests/unit/followed.h"

#define RECEIPT "eth_getTransactionReceipt"
#define RECEIPTS "eth_getBlockReceipts"
#define GONE "{\"code\":4444,\"message\":\"pruned history unavailable\"}"

enum { A, B };
enum { OLD = 1, NEW };			/* rows of intents */

static const char scenario[] = TOKEN_LINE "transfer t1 USDC alice shop 5\ntransfer t2 USDC alice shop 5\n"
	"block b100\nblock b101 t1\nblock b102 t2\nblock b103\nblock b104\nblock b105\nblock b106\nblock b107\nblock b108\n"
	"head b108\n";

static struct hash32 tx(const char *name)
{
	return keccak256(name, strlen(name));
}

/* What is committed outside. */

struct request {
	struct followed *f;
	const char *id;
	struct hash32 tx;
	bool creates;
};

static void move(struct kv_txn *t, const struct request *q, enum intent_state to, enum actor actor)
{
	struct desk_move m = { .intent = q->id, .current = true, .request = { .to = to, .actor = actor } };
	struct move_result result;
	struct complaint why;

	assert_int_equal(desk_move(t, &m, q->f->w.now_ms, &result, &why), OK);
}

static void create(struct kv_txn *t, const struct request *q)
{
	struct intent i = { .chain_id = 1, .token = q->f->config.tokens[0], .amount = u256_from_u64(5) };
	struct hash32 shop = keccak256("shop", 4);
	struct complaint why;
	bool created;

	snprintf(i.id, sizeof(i.id), "%s", q->id);
	snprintf(i.merchant_id, sizeof(i.merchant_id), "m");
	snprintf(i.idempotency_key, sizeof(i.idempotency_key), "%s", q->id);
	memcpy(i.payee.b, shop.b + 12, sizeof(i.payee.b));
	assert_int_equal(desk_create(t, &q->f->config, &i, q->f->w.now_ms, &created, &why), OK);
	move(t, q, INTENT_AUTHORIZED, ACTOR_API);
	move(t, q, INTENT_SETTLING, ACTOR_RELAYER);
}

static void request_body(struct kv_txn *t, void *ctx)
{
	const struct request *q = ctx;
	struct desk_attempt a = { .intent = q->id, .attempt.tx_hash = q->tx };
	struct complaint why;

	if (q->creates)
		create(t, q);
	assert_int_equal(desk_attempt(t, &a, q->f->w.now_ms, &why), OK);
}

static void request(struct followed *f, const char *id, const char *name, bool creates)
{
	struct request q = { f, id, tx(name), creates };

	assert_int_equal(kv_write(f->store.kv, request_body, &q), OK);
	tracker_look_again(&f->tr);
}

static void expect_intent(struct followed *f, uint64_t row, enum intent_state state, bool looked_for)
{
	struct kv_txn t = kv_begin_read(f->store.kv);
	struct key key = key_lookup(1, row);
	struct intent i = { 0 };
	bool known = intents_get(&t, row, &i), has_row = mark_has(&t, T_LOOKUP, &key);

	assert_int_equal(kv_end_read(&t), OK);
	assert_true(known);
	assert_string_equal(intent_state_name(i.state), intent_state_name(state));
	assert_int_equal(has_row, looked_for);
}

/* What nodes do wrong: each counts how often it is asked for a transaction's receipt. */

static void count(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)a;
	n->asked += scripted_has(question, RECEIPT);
}

static void has_no_history(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	count(f, n, question, a);
	if (scripted_has(question, RECEIPT))
		a->error = GONE;
}

static void has_no_index(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	count(f, n, question, a);
	if (scripted_has(question, RECEIPT))
		a->result = "null";
}

static void has_pruned_b101(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	count(f, n, question, a);
	if (node_is_asked(question, RECEIPTS, &n->blocks[1]) || node_is_asked(question, "eth_getLogs", &n->blocks[1]) ||
	    scripted_has(question, RECEIPT))
		a->error = GONE;
}

static void names_another_block(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	count(f, n, question, a);
	if (scripted_has(question, RECEIPT))
		a->result = "{\"blockNumber\":\"0x66\",\"blockHash\":"
			    "\"0x0101010101010101010101010101010101010101010101010101010101010101\"}";
}

/* All nodes are at b107, b106 is final; where @pruned, transactions up to b104 are known by no prefix any more. */
static void follow(struct followed *f, unsigned nodes, bool pruned)
{
	followed_add(f, "http://a", "ws://a", scenario);
	if (nodes > 1)
		followed_add(f, "http://b", "ws://b", scenario);
	f->config.witness = WITNESS_NEVER;
	if (pruned)
		f->config.keep_tx_blocks = 1;
	followed_start(f);
	followed_pass(f, 1000);
	for (size_t i = 1; i <= 7; i++) {
		for (unsigned n = 0; n < nodes; n++) {
			f->nodes[n].finalized = i - 1;
			f->nodes[n].wrong = count;
			followed_head(f, n, i);
		}
		followed_pass(f, 1000);
	}
	followed_expect_tip(f, &f->nodes[A].blocks[7]);
}

/* Of one nobody can tell: the other is seen at once; the first is asked for again after 4, 8, 16 s, and at last each 2 hours. */
static void test_gone(void **state)
{
	struct followed *f = *state;

	follow(f, 1, false);
	f->nodes[A].wrong = has_no_history;
	request(f, "old", "nobody's", true);
	request(f, "new", "t1", true);
	followed_pass(f, 1000);
	expect_intent(f, OLD, INTENT_SETTLING, true);
	expect_intent(f, NEW, INTENT_SETTLED, false);
	assert_int_equal(f->nodes[A].asked, 1);
	followed_pass(f, 60000);
	assert_int_equal(f->nodes[A].asked, 4);
	followed_pass(f, 86400000);
	assert_int_equal(f->nodes[A].asked, 22);
	/* A restart looks at once. */
	f->nodes[A].wrong = count;
	followed_restart(f);
	followed_pass(f, 1000);
	assert_int_equal(f->nodes[A].asked, 23);
	expect_intent(f, OLD, INTENT_SETTLING, false);
}

/* Another attempt is looked for at once, and the first again with it. */
static void test_another_attempt(void **state)
{
	struct followed *f = *state;

	follow(f, 1, false);
	f->nodes[A].wrong = has_no_history;
	request(f, "old", "nobody's", true);
	followed_pass(f, 1000);
	request(f, "old", "t2", false);
	followed_pass(f, 1000);
	expect_intent(f, OLD, INTENT_SETTLED, true);
	assert_int_equal(f->nodes[A].asked, 2);
}

/* A block that is known to hold it, and whose receipts are gone. */
static void test_receipts_gone(void **state)
{
	struct followed *f = *state;

	follow(f, 1, false);
	f->nodes[A].wrong = has_pruned_b101;
	request(f, "old", "t1", true);
	followed_pass(f, 100);
	request(f, "new", "t2", true);
	followed_pass(f, 9000);
	expect_intent(f, OLD, INTENT_SETTLING, true);
	expect_intent(f, NEW, INTENT_SETTLED, false);
	f->nodes[A].wrong = count;
	followed_pass(f, 60000);
	expect_intent(f, OLD, INTENT_SETTLED, false);
}

/* The leader keeps no index of transactions: its null is not "none". */
static void test_null_of_one(void **state)
{
	struct followed *f = *state;

	follow(f, 2, true);
	f->nodes[A].wrong = has_no_index;
	request(f, "old", "t1", true);
	followed_pass(f, 1000);
	expect_intent(f, OLD, INTENT_SETTLED, false);
	assert_int_equal(f->nodes[A].asked, 1);
	assert_int_equal(f->nodes[B].asked, 1);
}

/* It is in no block yet: each is asked once, and it is seen in its block. */
static void test_null_of_all(void **state)
{
	struct followed *f = *state;

	follow(f, 2, true);
	request(f, "old", "nobody's", true);
	followed_pass(f, 600000);
	expect_intent(f, OLD, INTENT_SETTLING, false);
	assert_int_equal(f->nodes[A].asked, 1);
	assert_int_equal(f->nodes[B].asked, 1);
}

/* The one that has it is away. */
static void test_null_while_one_is_away(void **state)
{
	struct followed *f = *state;

	follow(f, 2, true);
	f->nodes[A].wrong = has_no_index;
	scripted_hang_up(&f->w, "ws://b");
	request(f, "old", "t1", true);
	followed_pass(f, 100);
	expect_intent(f, OLD, INTENT_SETTLING, true);
	assert_int_equal(f->nodes[A].asked, 1);
	followed_pass(f, 20000);
	expect_intent(f, OLD, INTENT_SETTLED, false);
	assert_int_equal(f->nodes[B].asked, 1);
}

/* What is not so hides nothing. */
static void test_false_place(void **state)
{
	struct followed *f = *state;

	follow(f, 2, true);
	f->nodes[A].wrong = names_another_block;
	request(f, "old", "t1", true);
	followed_pass(f, 1000);
	expect_intent(f, OLD, INTENT_SETTLED, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, followed_set_up, followed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_gone), TEST(test_another_attempt), TEST(test_receipts_gone), TEST(test_null_of_one),
		TEST(test_null_of_all), TEST(test_null_while_one_is_away), TEST(test_false_place),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
