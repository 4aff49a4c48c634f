/*
 * Whose head is followed, where one of two endpoints announces a head that nothing stands under.
 */
#include "common/log.h"
#include "tests/unit/followed.h"

enum { A, B };

static const char honest[] = TOKEN_LINE "transfer t1 USDC alice shop 5\n"
	"block b100\nblock b101\nblock b102\nblock b103 t1\nblock b104\nblock b105\nblock b106\nblock b107\nhead b107\n";
static const char near[] = "start 103\ntime 2026-01-01T00:00:40Z\n" TOKEN_LINE "block w103\nblock w104\nhead w104\n";
static const char far[] = "start 5000\n" TOKEN_LINE "block w5000\nblock w5001\nhead w5001\n";

/* Of two blocks the second is told, and nobody has the first. */
static struct scripted_block told[2];

static void tell_lie(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	if (scripted_has(question, "[\"latest\",false]") || node_is_asked(question, "eth_getBlockByHash", &told[1]))
		a->result = told[1].block;
}

static void announce_lie(struct followed *f)
{
	scripted_announce(&f->w, "ws://a", told[1].block);
}

static int set_up(void **state)
{
	struct followed *f;

	followed_set_up(state);
	f = *state;
	followed_add(f, "http://a", "ws://a", honest);
	followed_add(f, "http://b", "ws://b", honest);
	return 0;
}

static int tear_down(void **state)
{
	scripted_free_blocks(told, 2);
	memset(told, 0, sizeof(told));
	return followed_tear_down(state);
}

static const struct provider *endpoint(const struct followed *f, unsigned i)
{
	return &f->tr.reads.providers[i];
}

/* Both at b102, and A leads; then it lies, and B goes on alone. */
static void lie(struct followed *f, const char *scenario, size_t until)
{
	assert_int_equal(scripted_forge_most(scenario, told, 2), 2);
	followed_start(f);
	followed_pass(f, 1000);
	for (size_t i = 1; i <= 2; i++) {
		followed_head(f, A, i);
		followed_heads(f, B, i, i, 12000);
	}
	followed_expect_tip(f, &f->nodes[A].blocks[2]);
	assert_int_equal(f->tr.reads.leader, A);
	f->nodes[A].wrong = tell_lie;
	announce_lie(f);
	followed_heads(f, B, 3, until, 12000);
}

static void expect_b_leads(struct followed *f, size_t tip)
{
	assert_int_equal(f->tr.reads.leader, B);
	followed_expect_tip(f, &f->nodes[B].blocks[tip]);
	assert_int_equal(endpoint(f, B)->health, HEALTH_LIVE);
	assert_int_equal(endpoint(f, B)->set_aside, 0);
	assert_int_equal(endpoint(f, A)->health, HEALTH_LIVE);
	assert_int_equal(endpoint(f, A)->set_aside, 1);
	assert_true(endpoint(f, A)->unfounded);
	assert_false(f->tr.obstacle.stands);
}

/* It comes back, but does not lead again for its head, however often it is announced. */
static void test_parent_of_nobody(void **state)
{
	struct followed *f = *state;

	lie(f, near, 7);
	expect_b_leads(f, 7);
	announce_lie(f);
	followed_pass(f, 60000);
	expect_b_leads(f, 7);
}

/* So far above that it would make B look old. */
static void test_far_head(void **state)
{
	struct followed *f = *state;

	lie(f, far, 7);
	expect_b_leads(f, 7);
	assert_int_equal(endpoint(f, A)->head.height, 5001);
	followed_pass(f, 60000);
	expect_b_leads(f, 7);
}

/* Honest again it counts again: one that lags behind it is behind. */
static void test_believed_again(void **state)
{
	struct followed *f = *state;

	f->config.lag_blocks = 1;
	lie(f, far, 3);
	expect_b_leads(f, 3);
	f->nodes[A].wrong = NULL;
	for (size_t i = 3; i <= 7; i++)
		followed_head(f, A, i);
	followed_expect_tip(f, &f->nodes[B].blocks[3]);
	followed_pass(f, 4000);
	assert_false(endpoint(f, A)->unfounded);
	assert_int_equal(endpoint(f, B)->health, HEALTH_BEHIND);
	assert_int_equal(f->tr.reads.leader, A);
	followed_pass(f, 4000);
	followed_expect_tip(f, &f->nodes[B].blocks[7]);
}

/* A true head far above the leader's is tried, and found to hold by following it. */
static void test_true_far_head(void **state)
{
	struct followed *f = *state;

	f->config.far_blocks = 2;
	f->config.lag_blocks = 1;
	followed_start(f);
	followed_pass(f, 1000);
	followed_head(f, B, 7);
	assert_int_equal(f->tr.reads.leader, A);
	followed_expect_tip(f, &f->nodes[B].blocks[0]);
	followed_pass(f, 4000);
	assert_int_equal(f->tr.reads.leader, B);
	followed_expect_tip(f, &f->nodes[B].blocks[7]);
	assert_int_equal(endpoint(f, A)->health, HEALTH_LIVE);
	followed_pass(f, 4000);
	assert_int_equal(endpoint(f, A)->health, HEALTH_BEHIND);
	assert_int_equal(endpoint(f, A)->set_aside + endpoint(f, B)->set_aside, 0);
}

/* Nobody else has a head to follow: nobody is set aside. */
static void test_no_other(void **state)
{
	struct followed *f = *state;

	f->node_count = 1;
	assert_int_equal(scripted_forge_most(near, told, 2), 2);
	followed_start(f);
	followed_pass(f, 1000);
	followed_heads(f, A, 2, 2, 1000);
	f->nodes[A].wrong = tell_lie;
	announce_lie(f);
	followed_pass(f, 60000);
	followed_expect_tip(f, &f->nodes[B].blocks[2]);
	assert_int_equal(endpoint(f, A)->health, HEALTH_LIVE);
	assert_int_equal(endpoint(f, A)->set_aside, 0);
	followed_stop(f);
	f->node_count = 2;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_parent_of_nobody), TEST(test_far_head), TEST(test_believed_again), TEST(test_true_far_head),
		TEST(test_no_other),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
