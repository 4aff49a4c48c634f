/*
 * Balances that a node does not give for the moment: when their block waits no more for them, and how they are read
 * after it.
 */
#include "listener/reads.h"
#include "tests/unit/scripted.h"

#define URL "http://a"
#define WORD(digit) "\"0x000000000000000000000000000000000000000000000000000000000000000" digit "\""
#define NOT_YET "{\"code\":-32000,\"message\":\"header not found\"}"
#define PRUNED "{\"code\":4444,\"message\":\"pruned\"}"

enum { B100, B101, B102, BLOCKS };

static const char scenario[] =
	"token USDC 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48 6\n"
	"transfer t1 USDC alice shop 5_000_000\n"
	"block b100\n"
	"block b101 t1\n"
	"block b102\n"
	"head b102\n";

struct fixture {
	struct scripted w;
	struct chain_config config;
	struct reads r;
	struct scripted_block blocks[SCRIPTED_BLOCKS];
	char text[BLOCKS][HASH_TEXT];
	unsigned changes;
};

static void on_changed(void *ctx)
{
	struct fixture *f = ctx;

	f->changes++;
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scripted_start(&f->w);
	f->config = config_default(1);
	f->config.check_endpoints = false;
	f->config.hedge_min_ms = 0;
	assert_int_equal(scripted_forge(scenario, f->blocks), BLOCKS);
	for (unsigned i = 0; i < BLOCKS; i++)
		hash_format(&f->blocks[i].hash, f->text[i]);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scripted_cancel(&f->w);
	reads_stop(&f->r);
	scripted_stop(&f->w);
	scripted_free_blocks(f->blocks, BLOCKS);
	free(f);
	return 0;
}

/* The one question about a balance at the block that is open: answered. */
static void give(struct fixture *f, unsigned block, const char *result)
{
	scripted_reply(&f->w, scripted_find(&f->w, URL, f->text[block]), "result", result);
}

static void give_error(struct fixture *f, unsigned block, const char *error)
{
	scripted_reply(&f->w, scripted_find(&f->w, URL, f->text[block]), "error", error);
}

static void expect_asked(struct fixture *f, unsigned block, unsigned count)
{
	assert_int_equal(scripted_count(&f->w, URL, f->text[block]), count);
}

static void expect_balance(const struct u256 *v, uint64_t want)
{
	struct u256 w = u256_from_u64(want);

	assert_int_equal(u256_cmp(v, &w), 0);
}

static void go_live(struct fixture *f)
{
	static const struct endpoint_urls endpoint = { URL, "ws://a" };

	reads_start(&f->r, &f->w.loop, &endpoint, 1, &f->config, (struct genesis){ false }, on_changed, f);
	scripted_open(&f->w, "ws://a");
	scripted_reply(&f->w, scripted_find(&f->w, URL, "\"latest\""), "result", f->blocks[B102].block);
}

static struct body_slot *slot_of(struct fixture *f)
{
	struct body_slot *slot = bodies_find(&f->r.bodies, &f->blocks[B101].hash);

	assert_non_null(slot);
	return slot;
}

/* Block 101 in hand, and a balance of it asked for, singly. */
static struct body_witness *want(struct fixture *f)
{
	struct witness w = { .have = false };
	struct body_witness *bw;

	f->config.batch_max = 1;
	go_live(f);
	assert_null(reads_body(&f->r, &f->blocks[B101].hash));
	give(f, B101, f->blocks[B101].block);
	assert_null(reads_body(&f->r, &f->blocks[B101].hash));
	give(f, B101, f->blocks[B101].receipts);
	bw = bodies_want(slot_of(f), &w);
	assert_false(reads_witnesses(&f->r, slot_of(f)));
	expect_asked(f, B100, 1);
	expect_asked(f, B101, 1);
	return bw;
}

/* --- of a block that is to be applied ---------------------------------------------- */

static void test_two_failures(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);
	struct witness w;

	give(f, B100, WORD("3"));
	give_error(f, B101, NOT_YET);
	assert_false(reads_witnesses(&f->r, slot_of(f)));
	expect_asked(f, B101, 1);
	give(f, B101, "\"0x\"");
	assert_true(reads_witnesses(&f->r, slot_of(f)));
	assert_true(bw->witness.late);
	assert_false(bw->gone);
	/* Half a reading is none. */
	w = bodies_reading(bw);
	assert_true(w.late && !w.have && !w.doubted);
	expect_balance(&w.before, 0);
	/* It is asked for after the block. */
	assert_null(f->w.posts);
}

static void test_gone_is_not_late(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);

	give(f, B101, WORD("3"));
	give_error(f, B100, PRUNED);
	assert_true(reads_witnesses(&f->r, slot_of(f)));
	assert_true(bw->gone);
	assert_false(bodies_reading(bw).late);
}

static void test_waited_long_enough(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);
	unsigned changes = f->changes;

	scripted_pass(&f->w, 999);
	assert_false(reads_witnesses(&f->r, slot_of(f)));
	assert_int_equal(f->changes, changes);
	scripted_pass(&f->w, 1);
	assert_int_equal(f->changes, changes + 1);
	assert_true(reads_witnesses(&f->r, slot_of(f)));
	assert_true(bodies_reading(bw).late);
	/* Before the block is applied it comes after all. */
	give(f, B100, WORD("1"));
	give(f, B101, WORD("6"));
	assert_true(bodies_reading(bw).have);
	expect_balance(&bw->witness.before, 1);
	expect_balance(&bw->witness.after, 6);
}

static void test_waits_without_limit(void **state)
{
	struct fixture *f = *state;

	f->config.balance_wait_ms = 0;
	want(f);
	scripted_pass(&f->w, 3600000);
	assert_false(reads_witnesses(&f->r, slot_of(f)));
	expect_asked(f, B101, 1);
}

/* The first of two readings is kept when the second fails. */
static void test_doubted(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);
	struct witness w;

	give(f, B100, WORD("3"));
	give(f, B101, WORD("4"));
	assert_true(bodies_reading(bw).have);
	reads_witness_again(&f->r, slot_of(f), bw);
	give(f, B100, WORD("7"));
	give_error(f, B101, NOT_YET);
	assert_true(reads_witnesses(&f->r, slot_of(f)));
	w = bodies_reading(bw);
	assert_true(w.late && w.doubted && !w.have);
	expect_balance(&w.before, 3);
	expect_balance(&w.after, 4);
}

/* Where the state went in between, the first stands. */
static void test_first_stands(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);

	give(f, B100, WORD("3"));
	give(f, B101, WORD("4"));
	reads_witness_again(&f->r, slot_of(f), bw);
	give_error(f, B101, PRUNED);
	assert_true(reads_witnesses(&f->r, slot_of(f)));
	assert_true(bodies_reading(bw).have);
	assert_int_equal(bw->readings, 2);
	expect_balance(&bw->witness.before, 3);
	expect_balance(&bw->witness.after, 4);
}

/* --- after it ---------------------------------------------------------------------- */

static struct late_balance late_at(const struct fixture *f, unsigned block, uint8_t payee)
{
	struct late_balance l = { .hash = f->blocks[block].hash, .parent = f->blocks[block - 1].hash };

	l.bw.witness.payee.b[0] = payee;
	return l;
}

static void keep(struct fixture *f, const struct late_balance *wanted, size_t count)
{
	reads_late_keep(&f->r, wanted, count);
	reads_late_ask(&f->r);
}

/* What is asked together goes out together; who gave what is known by the answer's question. */
static void test_late_batch(void **state)
{
	struct fixture *f = *state;
	struct late_balance wanted[2];
	struct buf text = { 0 };

	go_live(f);
	wanted[0] = late_at(f, B101, 1);
	wanted[1] = late_at(f, B102, 2);
	keep(f, wanted, 2);
	assert_int_equal(scripted_count(&f->w, URL, "[{\"jsonrpc\""), 1);
	assert_int_equal(scripted_count(&f->w, URL, "eth_call"), 1);
	buf_put_u8(&text, '[');
	for (unsigned n = 0; n < 4; n++)
		buf_printf(&text, "%s{\"jsonrpc\":\"2.0\",\"id\":%llu,\"result\":\"0x%064x\"}", n ? "," : "",
			   (unsigned long long)f->r.providers[0].rpc.last_id - n, 9 - n);
	buf_put(&text, "]", 2);
	scripted_answer(&f->w, scripted_find(&f->w, URL, "eth_call"), 200, (char *)text.data);
	buf_free(&text);
	assert_true(f->r.late[0].bw.witness.have && f->r.late[1].bw.witness.have);
	expect_balance(&f->r.late[0].bw.witness.before, 6);
	expect_balance(&f->r.late[0].bw.witness.after, 7);
	expect_balance(&f->r.late[1].bw.witness.before, 8);
	expect_balance(&f->r.late[1].bw.witness.after, 9);
	/* What was read stays, wherever it stands in the list. */
	keep(f, &wanted[1], 1);
	assert_int_equal(f->r.late_count, 1);
	expect_balance(&f->r.late[0].bw.witness.after, 9);
	assert_null(f->w.posts);
}

static void test_late_backs_off(void **state)
{
	struct fixture *f = *state;
	struct late_balance wanted = late_at(f, B102, 1);

	f->config.batch_max = 1;
	go_live(f);
	keep(f, &wanted, 1);
	give(f, B101, WORD("1"));
	for (unsigned n = 0; n < 3; n++) {
		expect_asked(f, B102, 1);
		give_error(f, B102, NOT_YET);
		keep(f, &wanted, 1);
	}
	expect_asked(f, B102, 0);
	scripted_pass(&f->w, f->config.retry_ms - 1);
	keep(f, &wanted, 1);
	expect_asked(f, B102, 0);
	scripted_pass(&f->w, 1);
	keep(f, &wanted, 1);
	expect_asked(f, B102, 1);
	give_error(f, B102, PRUNED);
	assert_true(f->r.late[0].bw.gone);
	scripted_pass(&f->w, 60000);
	keep(f, &wanted, 1);
	assert_null(f->w.posts);
}

/* The answer to what is not wanted any more is of no concern; wanted again it is asked for anew. */
static void test_late_forgotten(void **state)
{
	struct fixture *f = *state;
	struct late_balance wanted = late_at(f, B102, 1), other = late_at(f, B102, 2);

	f->config.batch_max = 1;
	go_live(f);
	keep(f, &wanted, 1);
	keep(f, &other, 1);
	expect_asked(f, B102, 2);
	give(f, B102, WORD("5"));
	assert_false(f->r.late[0].bw.have_after);
	give(f, B102, WORD("6"));
	assert_true(f->r.late[0].bw.have_after);
	expect_balance(&f->r.late[0].bw.witness.after, 6);
	keep(f, &other, 0);
	assert_int_equal(f->r.late_count, 0);
}

/* A block's own balance and a late one of the same payee do not take each other's answers. */
static void test_late_beside_a_body(void **state)
{
	struct fixture *f = *state;
	struct body_witness *bw = want(f);
	struct late_balance wanted = late_at(f, B101, 0);

	keep(f, &wanted, 1);
	expect_asked(f, B101, 2);
	give(f, B101, WORD("1"));
	assert_true(bw->have_after);
	assert_false(f->r.late[0].bw.have_after);
	give(f, B101, WORD("2"));
	expect_balance(&bw->witness.after, 1);
	expect_balance(&f->r.late[0].bw.witness.after, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_two_failures), TEST(test_gone_is_not_late), TEST(test_waited_long_enough),
		TEST(test_waits_without_limit), TEST(test_doubted), TEST(test_first_stands), TEST(test_late_batch),
		TEST(test_late_backs_off), TEST(test_late_forgotten), TEST(test_late_beside_a_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
