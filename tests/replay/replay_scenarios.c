/*
 * Each scenario of fixtures/scenarios is forged and replayed: its ending and
 * its events are as NAME.expect says (fixtures/scenarios/README.md has the
 * format), and its story is NAME.txt, byte for byte.
 * TIDEMARK_GOLDEN_UPDATE=1 rewrites the stories; the git diff is the review.
 *
 * And a reorg made of each recorded mainnet tape ends as the fork says.
 */
#include "tests/replay/harness.h"

#include "common/json.h"
#include "listener/forge.h"

#include <stdlib.h>
#include <string.h>

#define FOLDER "fixtures/scenarios"

/* Events, each read once. */

struct events {
	struct json_doc **docs;
	size_t count;
};

static struct events events_read(struct slice text)
{
	struct lines l = lines_of(text);
	struct events e = { xcalloc(l.count, sizeof(struct json_doc *)), l.count };
	struct complaint why;

	for (size_t i = 0; i < l.count; i++) {
		e.docs[i] = json_open(l.at[i], &why);
		if (!e.docs[i])
			fail_msg("no event: %s", why.text);
	}
	lines_free(&l);
	return e;
}

static void events_free(struct events *e)
{
	for (size_t i = 0; i < e->count; i++)
		json_close(e->docs[i]);
	free(e->docs);
}

static struct json at_path(struct json j, const char *a, const char *b, const char *c)
{
	j = json_maybe(j, a);
	if (j.value && b)
		j = json_maybe(j, b);
	if (j.value && c)
		j = json_maybe(j, c);
	return j;
}

static struct json first_of(struct json a, struct json b)
{
	return a.value ? a : b;
}

static void put_names(struct buf *out, struct json list)
{
	for (size_t i = 0; i < json_length(list); i++)
		buf_printf(out, "%s%s", i ? "," : "", json_text(json_at(list, i)));
}

/* The value of a key of the format in the event's data; false: absent. */
static bool value_of(struct json data, const char *key, struct buf *out)
{
	struct json j = { .value = NULL };

	if (strcmp(key, "intent") == 0)
		j = at_path(data, "intent", "id", NULL);
	else if (strcmp(key, "intents") == 0)
		j = json_maybe(data, "intents");
	else if (strcmp(key, "code") == 0)
		j = at_path(data, "reason", "code", NULL);
	else if (strcmp(key, "tx") == 0)
		j = first_of(at_path(data, "evidence", "tx_hash", NULL), json_maybe(data, "tx_hash"));
	else if (strcmp(key, "value") == 0)
		j = at_path(data, "transfer", "value", NULL);
	else if (strcmp(key, "block") == 0)
		j = first_of(at_path(data, "evidence", "block", "number"), at_path(data, "block", "number", NULL));
	else if (strcmp(key, "depth") == 0)
		j = json_maybe(data, "depth");
	else if (strcmp(key, "ancestor") == 0)
		j = at_path(data, "ancestor", "number", NULL);
	else
		fail_msg("the format has no key %s", key);
	if (!j.value)
		return false;
	if (json_is_array(j))
		put_names(out, j);
	else if (json_is_integer(j))
		buf_printf(out, "%llu", (unsigned long long)json_u64(j));
	else
		buf_put_text(out, json_text(j));
	buf_put_u8(out, '\0');
	return true;
}

/* "TYPE KEY=VALUE ...", cut in place. */
static bool event_matches(struct json_doc *doc, const char *want)
{
	char *copy = xstrdup(want), *save = NULL, *word = strtok_r(copy, " ", &save);
	struct json top = json_root(doc);
	bool matches = strcmp(json_text(json_member(top, "type")), word) == 0;

	while (matches && (word = strtok_r(NULL, " ", &save))) {
		char *value = strchr(word, '=');
		struct buf got = { 0 };

		assert_non_null(value);
		*value++ = '\0';
		matches = value_of(json_member(top, "data"), word, &got) && strcmp((char *)got.data, value) == 0;
		buf_free(&got);
	}
	free(copy);
	return matches;
}

static size_t count_matches(const struct events *e, const char *want)
{
	size_t count = 0;

	for (size_t i = 0; i < e->count; i++)
		count += event_matches(e->docs[i], want);
	return count;
}

static bool find_after(const struct events *e, size_t *from, const char *want)
{
	while (*from < e->count) {
		if (event_matches(e->docs[(*from)++], want))
			return true;
	}
	return false;
}

static void check_line(const char *name, const struct events *e, size_t *from, char *line)
{
	char *rest = line + 2;
	bool good;

	switch (line[0]) {
	case '=':
		good = strtoul(rest, &rest, 10) == count_matches(e, rest + 1);
		break;
	case '!':
		good = count_matches(e, rest) == 0;
		break;
	default:
		good = find_after(e, from, rest);
	}
	if (!good)
		fail_msg("%s: does not hold: %s", name, line);
}

/* The first lines of an expectation are the summary. */
static size_t summary_lines(const struct lines *l)
{
	size_t count = 0;

	while (count < l->count && !strchr("=!+", l->at[count].data[0]))
		count++;
	return count;
}

static void check_expectation(const char *name, struct slice tape, struct slice expect)
{
	struct buf summary = replay_well(tape, REPLAY_SUMMARY, NULL);
	struct buf stream = replay_well(tape, REPLAY_EVENTS, NULL);
	struct events events = events_read(buf_slice(&stream));
	struct lines l = lines_of(expect);
	size_t from = 0, ending = summary_lines(&l);
	struct buf want = lines_join(&l, 0, ending);

	assert_same_text(name, buf_slice(&summary), buf_slice(&want));
	for (size_t i = ending; i < l.count; i++) {
		struct buf line = { 0 };

		buf_put(&line, l.at[i].data, l.at[i].len);
		buf_put_u8(&line, '\0');
		check_line(name, &events, &from, (char *)line.data);
		buf_free(&line);
	}
	events_free(&events);
	lines_free(&l);
	buf_free(&want);
	buf_free(&summary);
	buf_free(&stream);
}

static void check_story(const char *path, struct slice tape)
{
	char *beside = path_sibling(path, ".txt");
	struct buf story = replay_well(tape, REPLAY_STORY, NULL);

	if (getenv("TIDEMARK_GOLDEN_UPDATE")) {
		file_write(beside, buf_slice(&story));
	} else {
		struct buf want = file_read(beside);

		assert_same_text(beside, buf_slice(&story), buf_slice(&want));
		buf_free(&want);
	}
	buf_free(&story);
	free(beside);
}

/* Several blocks a commit while far behind: not one byte is another. */
static void check_batches(const char *name, struct slice tape)
{
	struct replay_options options = { .output = REPLAY_EVENTS, .commit_blocks = 16 };
	struct buf alone = replay_well(tape, REPLAY_EVENTS, NULL);
	struct ran together = replay_with(tape, &options);

	assert_int_equal(together.code, 0);
	assert_same_text(name, buf_slice(&together.out), buf_slice(&alone));
	ran_free(&together);
	buf_free(&alone);
}

static struct buf forge_tape(const char *path)
{
	struct buf text = file_read(path), tape = { 0 };
	struct complaint why;

	if (forge(path, buf_slice(&text), &tape, &why))
		fail_msg("%s", why.text);
	buf_free(&text);
	return tape;
}

static void test_scenarios(void **state)
{
	struct paths all = paths_find(FOLDER, ".scn");

	(void)state;
	stores_in_memory();
	for (size_t i = 0; i < all.count; i++) {
		char *beside = path_sibling(all.at[i], ".expect");
		struct buf tape = forge_tape(all.at[i]), expect = file_read(beside);

		check_expectation(all.at[i], buf_slice(&tape), buf_slice(&expect));
		check_story(all.at[i], buf_slice(&tape));
		check_batches(all.at[i], buf_slice(&tape));
		buf_free(&tape);
		buf_free(&expect);
		free(beside);
	}
	stores_on_disk();
	printf("note: %zu scenarios\n", all.count);
	assert_true(all.count >= 60);
	paths_free(&all);
}

/* Recorded tapes, made reorg. */

static struct buf run_fork(const char *tape, const char *depth, const char *option, const char *tx)
{
	const char *argv[] = { "fork", tape, "--depth", depth, option, tx, NULL };
	struct ran r = child_run(argv, (struct slice){ NULL, 0 });
	struct buf out = r.out;

	assert_int_equal(r.code, 0);
	r.out = (struct buf){ 0 };
	ran_free(&r);
	return out;
}

/* Whoever was settled by @tx is settling for the reorg, unless @kept; all else is as before. */
static size_t compare_endings(const char *path, const struct buf *before, const struct buf *after, struct slice tx,
			      bool kept)
{
	struct lines was = lines_of(buf_slice(before)), is = lines_of(buf_slice(after));
	size_t moved = 0;

	assert_int_equal(was.count, is.count);
	for (size_t i = 0; i < was.count; i++) {
		char text[80];
		bool hit;

		snprintf(text, sizeof(text), "%.*s", (int)tx.len, (const char *)tx.data);
		hit = !kept && tx.len && has_text(was.at[i], text);
		if (hit && !has_text(is.at[i], " settling reorg "))
			fail_msg("%s: %.*s", path, (int)is.at[i].len, (const char *)is.at[i].data);
		if (!hit)
			assert_same_text(path, is.at[i], was.at[i]);
		moved += hit;
	}
	lines_free(&was);
	lines_free(&is);
	return moved;
}

static bool find_settled(const struct buf *summary, char tx[HASH_TEXT])
{
	struct lines l = lines_of(buf_slice(summary));
	bool found = false;

	for (size_t i = 0; i < l.count && !found; i++) {
		found = has_text(l.at[i], " settled ");
		if (found)
			snprintf(tx, HASH_TEXT, "%.*s", HASH_TEXT - 1,
				 (const char *)l.at[i].data + l.at[i].len - (HASH_TEXT - 1));
	}
	lines_free(&l);
	return found;
}

static void fork_tape(const char *path)
{
	struct buf tape = file_read(path);
	struct buf before = replay_well(buf_slice(&tape), REPLAY_SUMMARY, NULL);
	const char *depth = strstr(path, "19433902") ? "2" : "1";	/* all of the tape's blocks */
	struct buf same, dropped, after;
	char tx[HASH_TEXT];

	assert_true(find_settled(&before, tx));
	same = run_fork(path, depth, NULL, NULL);
	after = replay_well(buf_slice(&same), REPLAY_SUMMARY, NULL);
	compare_endings(path, &before, &after, slice_of_text(tx), true);
	buf_free(&after);
	dropped = run_fork(path, depth, "--drop", tx);
	after = replay_well(buf_slice(&dropped), REPLAY_SUMMARY, NULL);
	assert_true(compare_endings(path, &before, &after, slice_of_text(tx), false) > 0);
	buf_free(&after);
	buf_free(&same);
	buf_free(&dropped);
	buf_free(&before);
	buf_free(&tape);
}

static void test_recorded_tapes_fork(void **state)
{
	struct paths tapes = mainnet_tapes();

	(void)state;
	for (size_t i = 0; i < tapes.count; i++)
		fork_tape(tapes.at[i]);
	printf("note: %zu recorded tapes\n", tapes.count);
	paths_free(&tapes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scenarios),
		cmocka_unit_test(test_recorded_tapes_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
