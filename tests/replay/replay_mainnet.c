/*
 * Recorded mainnet blocks with known answers: for each intent the state, the
 * reason's code and the transaction.
 */
#include "tests/replay/harness.h"

#include "common/json.h"

#include <stdlib.h>
#include <string.h>

#define INTENTS 126

/* "a|b" allows either. */
static bool is_allowed(const char *allowed, struct slice code)
{
	while (*allowed) {
		size_t len = strcspn(allowed, "|");

		if (len == code.len && memcmp(allowed, code.data, len) == 0)
			return true;
		allowed += len + (allowed[len] == '|');
	}
	return false;
}

/* The next word of a line of the summary. */
static struct slice next_word(struct slice *line)
{
	const uint8_t *stop = memchr(line->data, ' ', line->len);
	struct slice word = { line->data, stop ? (size_t)(stop - line->data) : line->len };

	line->data += word.len + (stop ? 1 : 0);
	line->len -= word.len + (stop ? 1 : 0);
	return word;
}

static bool is_as_expected(struct json want, struct slice line)
{
	const char *reason = json_has(want, "reason") ? json_text(json_member(want, "reason")) : "-";
	const char *tx = json_has(want, "tx_hash") ? json_text(json_member(want, "tx_hash")) : "-";
	const char *state = json_text(json_member(want, "state"));

	next_word(&line);
	if (!slice_is(next_word(&line), state))
		return false;
	return is_allowed(reason, next_word(&line)) && slice_is(line, tx);
}

static struct slice line_of(const struct lines *l, const char *id)
{
	for (size_t i = 0; i < l->count; i++) {
		struct slice rest = l->at[i];

		if (slice_is(next_word(&rest), id))
			return l->at[i];
	}
	fail_msg("intent %s is not in the summary", id);
	return (struct slice){ 0 };
}

/* How many intents were compared. */
static size_t compare(const char *tape, struct json want, const struct lines *got)
{
	const char *id;
	size_t count;

	for (count = 0; (id = json_name_at(want, count)); count++) {
		struct json expected = json_member(want, id);
		struct slice line = line_of(got, id);

		if (!is_as_expected(expected, line))
			fail_msg("%s: \"%.*s\", expected %s %s", tape, (int)line.len, (const char *)line.data,
				 json_text(json_member(expected, "state")),
				 json_has(expected, "reason") ? json_text(json_member(expected, "reason")) : "-");
	}
	return count;
}

static size_t check_tape(const char *tape)
{
	const char *const argv[] = { "replay", "--summary", tape, NULL };
	struct ran r = child_run(argv, (struct slice){ 0 });
	struct lines got = lines_of(buf_slice(&r.out));
	char *path = path_sibling(tape, ".expect.json");
	struct buf text = file_read(path);
	struct complaint why;
	struct json_doc *doc = json_open(buf_slice(&text), &why);
	size_t count;

	assert_non_null(doc);
	if (r.code)
		fail_msg("%s", (const char *)r.err.data);
	count = compare(tape, json_root(doc), &got);
	assert_int_equal(got.count, count);
	assert_int_equal(json_finish(doc, &why), OK);
	json_close(doc);
	buf_free(&text);
	free(path);
	lines_free(&got);
	ran_free(&r);
	return count;
}

static void test_recorded_blocks_have_their_known_answers(void **state)
{
	struct paths tapes = mainnet_tapes();
	size_t count = 0;

	(void)state;
	for (size_t i = 0; i < tapes.count; i++)
		count += check_tape(tapes.at[i]);
	printf("%zu intents of %zu tapes\n", count, tapes.count);
	assert_int_equal(count, INTENTS);
	paths_free(&tapes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_blocks_have_their_known_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
