/*
 * The hashes that a tracker keeps in memory after a start, of a store that holds many more.
 */
#include "store/chain.h"
#include "tests/unit/followed.h"

#define FIRST 1000
#define TIP 3000
#define BELOW 256			/* the lowest watermark */

static struct hash32 nth(uint64_t height)
{
	struct hash32 h = hash_of(0xbb);

	be64_put(h.b, height);
	return h;
}

/* With the watermark at a height; 0: there is none. */
struct filling {
	struct followed *f;
	uint64_t mark;
	bool suspended;
};

static void fill_body(struct kv_txn *t, void *ctx)
{
	const struct filling *in = ctx;
	struct chain_row row = { .has_start = true, .start_height = FIRST, .start_parent = nth(FIRST - 1) };

	row.marks[0] = (struct watermark_row){ .known = in->mark != 0, .height = in->mark, .hash = nth(in->mark),
					       .suspended = in->suspended };
	for (uint64_t height = FIRST; height <= TIP; height++) {
		struct block_row b = { .hash = nth(height), .parent = nth(height - 1), .time_s = 1700000000 + (int64_t)height };

		chain_push(t, in->f->config.chain_id, &row, height, &b, NULL);
	}
}

static void expect_hash(const struct hash32 *have, struct hash32 want)
{
	assert_non_null(have);
	assert_true(hash_eq(have, &want));
}

static void test_window(void **state)
{
	static const struct {
		uint64_t mark;
		bool suspended;
		uint64_t base;
	} rows[] = {
		{ 0, false, FIRST - 1 },
		{ FIRST, false, FIRST - 1 },
		{ FIRST + BELOW - 1, false, FIRST - 1 },
		{ FIRST + BELOW, false, FIRST },
		{ 2900, false, 2900 - BELOW },
		{ 2900, true, FIRST - 1 },
		{ TIP, false, TIP - BELOW },
		{ TIP + BELOW, false, TIP },
		{ TIP + 5000, false, TIP },
	};
	struct filling in = { *state, 0, false };
	struct followed *f = *state;
	const struct window *w = &f->tr.window;

	followed_add(f, "http://a", "ws://a", TOKEN_LINE "block b100\nhead b100\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		world_remove(&f->store);
		world_make(&f->store);
		f->store.options.map_bytes = 1 << 22;
		world_open(&f->store);
		in.mark = rows[i].mark;
		in.suspended = rows[i].suspended;
		assert_int_equal(kv_write(f->store.kv, fill_body, &in), OK);
		followed_start(f);
		assert_int_equal(w->base_height, rows[i].base);
		assert_int_equal(window_tip_height(w), TIP);
		for (uint64_t height = rows[i].base; height <= TIP; height++)
			expect_hash(window_at(w, height), nth(height));
		/* No more was ever held. */
		assert_true(w->cap <= 64 || w->cap / 2 <= TIP - rows[i].base + 2);
		followed_stop(f);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_window, followed_set_up, followed_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
