/*
 * The tag of one endpoint alone: how long it must have stood, and how deep, before it is believed.
 */
#include "common/log.h"
#include "tests/unit/followed.h"

#define FAST_BLOCKS 1300

/* A chain of @count blocks from 100 on, all of one second. */
static struct node *add_chain(struct followed *f, unsigned count)
{
	struct buf text = { 0 };
	struct node *n;

	buf_put_text(&text, TOKEN_LINE);
	for (unsigned i = 0; i < count; i++)
		buf_printf(&text, "block b%u +1s\n", 100 + i);
	buf_printf(&text, "head b%u\n", 100 + count - 1);
	buf_put_u8(&text, '\0');
	n = followed_add(f, "http://a", "ws://a", (const char *)text.data);
	buf_free(&text);
	assert_int_equal(n->count, count);
	return n;
}

static const struct tag_reading *tag_of(const struct followed *f)
{
	return &f->tr.reads.providers[0].tags[TAG_FINALIZED];
}

/* It rises by more blocks than there are links, each time as soon as the one before has stood long enough. */
static void test_tag_of_a_fast_chain(void **state)
{
	struct followed *f = *state;
	struct node *n = add_chain(f, FAST_BLOCKS);

	f->config.tag_settle_ms = 383400;
	followed_start(f);
	followed_heads(f, 0, 1, 20, 300);
	n->finalized = 10;
	followed_heads(f, 0, 21, FAST_BLOCKS - 2, 300);
	assert_false(tag_of(f)->known);
	assert_true(hash_eq(&tag_of(f)->newer, &n->blocks[10].hash));
	n->finalized = FAST_BLOCKS - 10;
	followed_head(f, 0, FAST_BLOCKS - 1);
	followed_pass(f, 1000);
	followed_expect_mark(f, &n->blocks[10]);
}

static void lose_above(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	for (size_t i = n->finalized + 1; i < n->count; i++) {
		if (node_is_asked(question, "eth_getBlockReceipts", &n->blocks[i]))
			a->result = "null";
	}
}

/* While the cursor is far below the head, what is deep below the head is final as it is applied. */
static void test_depth_is_below_the_head(void **state)
{
	struct followed *f = *state;
	struct node *n = add_chain(f, 60);

	f->config.tag_depth_blocks = 20;
	f->config.far_blocks = 2;
	followed_start(f);
	followed_heads(f, 0, 1, 10, 1000);
	followed_expect_tip(f, &n->blocks[10]);
	/* Of the blocks above the tag nobody gives the receipts. */
	n->finalized = 30;
	n->wrong = lose_above;
	followed_head(f, 0, 49);
	followed_pass(f, 1000);
	followed_expect_tip(f, &n->blocks[30]);
	assert_false(followed_row(f).marks[0].known);
	followed_head(f, 0, 50);
	followed_pass(f, 1000);
	followed_expect_mark(f, &n->blocks[30]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, followed_set_up, followed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_tag_of_a_fast_chain), TEST(test_depth_is_below_the_head),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
