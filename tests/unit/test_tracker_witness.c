/*
 * A balance that contradicts the logs, and is read a second time after its block.
 */
#include "common/log.h"
#include "tests/unit/followed.h"

#define WORD(digit) "\"0x000000000000000000000000000000000000000000000000000000000000000" digit "\""
#define NOT_YET "{\"code\":-32000,\"message\":\"header not found\"}"

enum { A, B };

static const char scenario[] = TOKEN_LINE "transfer t1 USDC alice shop 5\n"
	"block b100\nblock b101 t1\nblock b102\nblock b103\nhead b103\n";

static bool is_balance(struct slice question)
{
	return scripted_has(question, "eth_call") && scripted_has(question, "0x70a08231");
}

static const char *balance_of(const struct node *n, struct slice question, const char *before, const char *after)
{
	char text[HASH_TEXT];

	hash_format(&n->blocks[1].hash, text);
	return scripted_has(question, text) ? after : before;
}

static bool is_late(const struct followed *f)
{
	return f->tr.chain.has_tip && f->tr.chain.tip_height == 101;
}

/* One reading, by which more came than the logs say; then none. */
static void contradict(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	static unsigned readings;

	if (!is_balance(question))
		return;
	n->asked += is_late(f);
	if (readings++ < 2)
		a->result = balance_of(n, question, WORD("0"), WORD("9"));
	else
		a->error = NOT_YET;
}

/* What agrees with the logs, but not in time. */
static void agree_late(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	if (!is_balance(question))
		return;
	n->asked += is_late(f);
	if (is_late(f))
		a->result = balance_of(n, question, WORD("0"), WORD("5"));
	else
		a->error = NOT_YET;
}

/* The second reading is another's: the leader, which gave the first, is not asked. */
static void test_second_reading(void **state)
{
	struct followed *f = *state;

	followed_add(f, "http://a", "ws://a", scenario)->wrong = contradict;
	followed_add(f, "http://b", "ws://b", scenario)->wrong = agree_late;
	assert_int_equal(kv_write(f->store.kv, followed_pay_body, f), OK);
	followed_start(f);
	followed_pass(f, 1000);
	assert_int_equal(f->tr.reads.leader, A);
	followed_head(f, A, 1);
	followed_heads(f, B, 1, 1, 12000);
	followed_expect_tip(f, &f->nodes[A].blocks[1]);
	assert_int_equal(f->nodes[A].asked, 0);
	/* One was on its way when the block was applied. */
	assert_int_equal(f->nodes[B].asked, 3);
	assert_int_equal(f->tr.reads.late_count, 0);
	f->nodes[A].finalized = f->nodes[B].finalized = 1;
	followed_head(f, A, 2);
	followed_heads(f, B, 2, 2, 1000);
	assert_int_equal(followed_events(f, "\"type\":\"intent.settled\""), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, followed_set_up, followed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_second_reading),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
