/*
 * The same tape gives the same bytes: twice in this process, and in a child
 * that gets it in dribs through a pipe.  And the summary of each fixture is
 * the one written down beside it.
 */
#include "tests/replay/harness.h"

#include <stdlib.h>

/* From another process, and cut elsewhere than at the lines' ends. */
static struct ran run_in_dribs(struct slice tape)
{
	static const char *const argv[] = { "replay", "-", NULL };
	struct chance chance = { tape.len };
	struct child c = child_start(argv);

	while (tape.len) {
		size_t len = 1 + chance_below(&chance, 8192);
		struct slice drib = { tape.data, len < tape.len ? len : tape.len };

		if (!child_feed(&c, drib))
			break;
		tape.data += drib.len;
		tape.len -= drib.len;
	}
	return child_end(&c);
}

static void check_tape(const char *path)
{
	struct buf tape = file_read(path);
	struct buf first = replay_well(buf_slice(&tape), REPLAY_EVENTS, NULL);
	struct buf second = replay_well(buf_slice(&tape), REPLAY_EVENTS, NULL);
	struct ran dribs = run_in_dribs(buf_slice(&tape));

	assert_true(first.len > 0);
	assert_same_text(path, buf_slice(&second), buf_slice(&first));
	if (dribs.code)
		fail_msg("%s: %s", path, (const char *)dribs.err.data);
	assert_same_text(path, buf_slice(&dribs.out), buf_slice(&first));
	ran_free(&dribs);
	buf_free(&first);
	buf_free(&second);
	buf_free(&tape);
}

static void check_all(struct paths *tapes)
{
	for (size_t i = 0; i < tapes->count; i++)
		check_tape(tapes->at[i]);
	printf("%zu tapes\n", tapes->count);
	paths_free(tapes);
}

static void test_a_fixture_gives_the_same_bytes(void **state)
{
	struct paths tapes = paths_find("fixtures", ".tape");

	(void)state;
	assert_true(tapes.count > 0);
	check_all(&tapes);
}

static void test_a_recorded_block_gives_the_same_bytes(void **state)
{
	struct paths tapes = mainnet_tapes();

	(void)state;
	check_all(&tapes);
}

static void check_ending(const char *path)
{
	char *beside = path_sibling(path, ".expect");
	struct buf tape = file_read(path), want = file_read(beside);
	struct buf got = replay_well(buf_slice(&tape), REPLAY_SUMMARY, NULL);

	assert_same_text(path, buf_slice(&got), buf_slice(&want));
	buf_free(&got);
	buf_free(&want);
	buf_free(&tape);
	free(beside);
}

static void test_a_fixture_ends_as_written_down(void **state)
{
	struct paths tapes = paths_find("fixtures", ".tape");

	(void)state;
	for (size_t i = 0; i < tapes.count; i++)
		check_ending(tapes.at[i]);
	paths_free(&tapes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fixture_gives_the_same_bytes),
		cmocka_unit_test(test_a_recorded_block_gives_the_same_bytes),
		cmocka_unit_test(test_a_fixture_ends_as_written_down),
	};

	stores_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
