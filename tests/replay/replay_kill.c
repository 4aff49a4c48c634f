/*
 * Killed with -9 while it reads a tape from a pipe, then run again onto the
 * same store: the store and all that was printed must be as if nothing had
 * happened.
 *
 * A kill falls 0 to 3 ms after line k was given and, but for one in eight, all
 * lines before it and some of its own events are out.  In every other run the
 * rest of the tape is in the pipe by then.
 */
#include "tests/replay/harness.h"

#include "common/json.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KILLS 200
#define DELAY_US 3000		/* half of the kills come within a tenth of it: a line takes no longer */

/* A tape and what an undisturbed replay makes of it. */
struct story {
	const char *path;
	char what[160];			/* it and the kill, for a failure */
	struct buf text;
	struct lines lines;
	size_t first_intent;		/* its line, from 1 */
	struct buf events, summary, rows;
	size_t *events_after;		/* by line: how many are out once it is worked off */
};

/* Where the kills fell. */
struct tally {
	uint64_t before, between, after;
	uint64_t within_a_line;		/* of those between: some of a line's events were in, some not */
	uint64_t printed_twice;		/* events that both runs printed */
};

/* The undisturbed run. */

static size_t find_first_intent(const struct lines *l)
{
	size_t i = 0;

	while (i < l->count && !starts_with(l->at[i], "{\"intent\""))
		i++;
	assert_true(i < l->count);
	return i + 1;
}

/* The replay of a tape's beginning is the beginning of its replay. */
static void count_events(struct story *s)
{
	s->events_after = xcalloc(s->lines.count + 1, sizeof(*s->events_after));
	for (size_t k = 1; k <= s->lines.count; k++) {
		struct buf part = lines_join(&s->lines, 0, k);
		struct buf out = replay_well(buf_slice(&part), REPLAY_EVENTS, NULL);

		assert_true(out.len <= s->events.len && memcmp(out.data, s->events.data, out.len) == 0);
		s->events_after[k] = count_lines(buf_slice(&out));
		buf_free(&out);
		buf_free(&part);
	}
}

static void run_undisturbed(struct story *s)
{
	const char *const argv[] = { "replay", "--summary", s->path, NULL };
	char *store = folder_new();
	struct buf printed = replay_well(buf_slice(&s->text), REPLAY_EVENTS, store);
	struct ran summary = child_run(argv, (struct slice){ 0 });

	s->events = store_events(store);
	s->rows = store_rows(store);
	s->summary = summary.out;
	buf_free(&summary.err);
	assert_int_equal(summary.code, 0);
	assert_same_text(s->path, buf_slice(&printed), buf_slice(&s->events));
	buf_free(&printed);
	folder_remove(store);
}

static void story_read(struct story *s, const char *path)
{
	s->path = path;
	s->text = file_read(path);
	s->lines = lines_of(buf_slice(&s->text));
	s->first_intent = find_first_intent(&s->lines);
	run_undisturbed(s);
	count_events(s);
}

static void story_free_all(struct story *s)
{
	buf_free(&s->text);
	buf_free(&s->events);
	buf_free(&s->summary);
	buf_free(&s->rows);
	lines_free(&s->lines);
	free(s->events_after);
}

/* The kill. */

static void feed_lines(struct child *c, const struct lines *l, size_t from, size_t to)
{
	struct buf part = lines_join(l, from, to);

	child_feed(c, buf_slice(&part));
	buf_free(&part);
}

static void wait_us(uint64_t us)
{
	struct timespec t = { .tv_nsec = (long)us * 1000 };

	nanosleep(&t, NULL);
}

/* Every other one is a line that makes several events, where there is one. */
static size_t pick_line(const struct story *s, struct chance *chance)
{
	size_t tries = chance_below(chance, 2) ? 1 : 100, k;

	do
		k = s->first_intent + 1 + chance_below(chance, s->lines.count - s->first_intent);
	while (--tries && s->events_after[k] - s->events_after[k - 1] < 2);
	return k;
}

static void kill_in_time(const struct story *s, struct child *c, struct chance *chance)
{
	size_t k = pick_line(s, chance), before = s->events_after[k - 1];
	size_t seen = before + chance_below(chance, s->events_after[k] - before + 1);
	uint64_t limit_us = chance_below(chance, 2) ? DELAY_US : DELAY_US / 10;
	uint64_t delay_us = chance_below(chance, limit_us + 1);

	feed_lines(c, &s->lines, 0, k);
	if (chance_below(chance, 8))
		child_await(c, seen);
	if (chance_below(chance, 2))
		feed_lines(c, &s->lines, k, s->lines.count);
	wait_us(delay_us);
	kill(c->pid, SIGKILL);
}

/* What the run printed until then; a line that it could not finish is cut off. */
static struct buf run_and_kill(const struct story *s, const char *store, struct chance *chance)
{
	const char *const argv[] = { "replay", "--store", store, "-", NULL };
	struct child c = child_start(argv);
	struct ran r;

	kill_in_time(s, &c, chance);
	r = child_end(&c);
	if (r.code != 128 + SIGKILL && r.code != 0)
		fail_msg("%s: exit code %d: %s", s->path, r.code, (const char *)r.err.data);
	buf_free(&r.err);
	while (r.out.len && r.out.data[r.out.len - 1] != '\n')
		r.out.len--;
	return r.out;
}

static bool is_after_a_line(const struct story *s, size_t events)
{
	for (size_t k = 0; k <= s->lines.count; k++) {
		if (s->events_after[k] == events)
			return true;
	}
	return false;
}

static void count_kill(struct story *s, uint64_t seed, const char *store, struct tally *tally)
{
	uint64_t line = store_is_there(store) ? store_line(store, s->lines.at[0]) : 0;
	struct buf events = { 0 };

	snprintf(s->what, sizeof(s->what), "%s, kill %llu, which committed line %llu", s->path, (unsigned long long)seed,
		 (unsigned long long)line);
	if (!line)
		tally->before++;
	else if (line >= s->lines.count)
		tally->after++;
	else
		tally->between++;
	if (line)
		events = store_events(store);
	tally->within_a_line += line && !is_after_a_line(s, count_lines(buf_slice(&events)));
	buf_free(&events);
}

/* The second run. */

static struct buf run_to_the_end(const struct story *s, const char *store)
{
	const char *const argv[] = { "replay", "--store", store, s->path, NULL };
	struct ran r = child_run(argv, (struct slice){ 0 });

	if (r.code)
		fail_msg("%s: the second run fails: %s", s->what, (const char *)r.err.data);
	buf_free(&r.err);
	return r.out;
}

static void check_summary(const struct story *s, const char *store)
{
	const char *const argv[] = { "replay", "--summary", "--store", store, s->path, NULL };
	struct ran r = child_run(argv, (struct slice){ 0 });

	assert_int_equal(r.code, 0);
	assert_same_text(s->what, buf_slice(&r.out), buf_slice(&s->summary));
	ran_free(&r);
}

static void check_store_is_whole(const struct story *s, const char *store)
{
	struct buf events = store_events(store), rows = store_rows(store);

	assert_same_text(s->what, buf_slice(&events), buf_slice(&s->events));
	assert_same_text(s->what, buf_slice(&rows), buf_slice(&s->rows));
	buf_free(&events);
	buf_free(&rows);
}

/* All that was printed. */

static void read_event_id(struct slice line, char id[64])
{
	struct complaint why;
	struct json_doc *doc = json_open(line, &why);

	if (!doc)
		fail_msg("no event: %s: %.*s", why.text, (int)line.len, (const char *)line.data);
	snprintf(id, 64, "%s", json_text(json_member(json_member(json_root(doc), "data"), "id")));
	assert_int_equal(json_finish(doc, &why), OK);
	json_close(doc);
}

/* The place of the event with the line's id among the first @count; @count: it is new. */
static size_t find_event(const struct lines *l, size_t count, struct slice line)
{
	char id[64], other[64];
	size_t i;

	read_event_id(line, id);
	for (i = 0; i < count; i++) {
		read_event_id(l->at[i], other);
		if (strcmp(id, other) == 0)
			break;
	}
	return i;
}

/* Both runs' stdout, each id once, is the undisturbed one; what came twice had the same bytes. */
static void check_printed(const struct story *s, const struct buf *first, const struct buf *second,
			  struct tally *tally)
{
	struct lines a = lines_of(buf_slice(first)), b = lines_of(buf_slice(second));
	struct buf all = lines_join(&a, 0, a.count);

	for (size_t i = 0; i < b.count; i++) {
		size_t at = find_event(&a, a.count, b.at[i]);

		if (at == a.count) {
			buf_put(&all, b.at[i].data, b.at[i].len);
			buf_put_u8(&all, '\n');
			continue;
		}
		tally->printed_twice++;
		assert_same_text(s->what, b.at[i], a.at[at]);
	}
	assert_same_text(s->what, buf_slice(&all), buf_slice(&s->events));
	buf_free(&all);
	lines_free(&a);
	lines_free(&b);
}

static void kill_once(struct story *s, uint64_t seed, struct tally *tally)
{
	struct chance chance = { seed };
	char *store = folder_new();
	struct buf first = run_and_kill(s, store, &chance), second;

	count_kill(s, seed, store, tally);
	second = run_to_the_end(s, store);
	check_store_is_whole(s, store);
	check_printed(s, &first, &second, tally);
	check_summary(s, store);
	buf_free(&first);
	buf_free(&second);
	folder_remove(store);
}

static void test_a_kill_leaves_no_trace(void **state)
{
	struct paths tapes = paths_find("fixtures", ".tape");
	struct story *stories = xcalloc(tapes.count, sizeof(*stories));
	uint64_t kills = env_number("TIDEMARK_KILLS", KILLS);
	struct tally t = { 0 };

	(void)state;
	assert_true(tapes.count > 0);
	stores_in_memory();
	for (size_t i = 0; i < tapes.count; i++)
		story_read(&stories[i], tapes.at[i]);
	stores_on_disk();
	for (uint64_t n = 0; n < kills; n++)
		kill_once(&stories[n % tapes.count], n, &t);
	printf("%llu kills over %zu tapes: %llu before the first commit, %llu between, %llu after the last;\n"
	       "%llu in the middle of a line; %llu events were printed twice\n",
	       (unsigned long long)kills, tapes.count, (unsigned long long)t.before, (unsigned long long)t.between,
	       (unsigned long long)t.after, (unsigned long long)t.within_a_line, (unsigned long long)t.printed_twice);
	assert_true(t.between * 2 >= kills);
	for (size_t i = 0; i < tapes.count; i++)
		story_free_all(&stories[i]);
	free(stories);
	paths_free(&tapes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_kill_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
