/*
 * The crash sweep: every tape is replayed with a crash before and after each
 * commit and with writes failing once, and then again onto the same store.
 * The store must end, row by row but for the sinks' cursors, as that of an
 * undisturbed replay; so its events are the same, with the same ids.
 * A node's faults, once used up, are not told to the store: where a tape has
 * them a restart may meet them again and be later, so there the events are
 * compared by their ids, not their times.
 *
 * Of each tape all commits are tried, and SWEEP_PUTS of its writes (0: all);
 * of the scenarios, which are many, SWEEP_SCENARIOS (0: all), evenly chosen.
 */
#include "tests/replay/harness.h"

#include "listener/forge.h"

#include <stdlib.h>
#include <string.h>

struct crash {
	enum kv_point point;
	uint64_t at;			/* strikes at that occurrence, from 1; 0: never */
	uint64_t seen[3];
	bool dead;			/* the process would be gone: nothing is written any more */
};

static enum err on_point(void *ctx, enum kv_point point)
{
	struct crash *c = ctx;

	c->seen[point]++;
	if (c->dead)
		return E_IO;
	if (point != c->point || c->seen[point] != c->at)
		return OK;
	c->dead = point != KV_BEFORE_PUT;
	return point == KV_BEFORE_PUT ? E_FULL : E_IO;
}

static struct ran run(struct slice tape, const char *dir, struct crash *crash)
{
	struct replay_options options = { .output = REPLAY_EVENTS, .store = dir };

	if (crash)
		options.hook = (struct kv_hook){ on_point, crash };
	return replay_with(tape, &options);
}

/* What must be the same. */
static struct buf essence(struct slice tape, const char *dir)
{
	struct buf events, ids = { 0 };
	struct lines l;

	if (!has_text(tape, "{\"fault\":"))
		return store_rows(dir);
	events = store_events(dir);
	l = lines_of(buf_slice(&events));
	for (size_t i = 0; i < l.count; i++) {
		const char *id = strstr((const char *)l.at[i].data, "\"id\":\"ev_");

		assert_non_null(id);
		buf_printf(&ids, "%.30s\n", id + 6);
	}
	lines_free(&l);
	buf_free(&events);
	return ids;
}

/* The store after an undisturbed replay, and how often each point came. */
static struct buf golden_rows(struct slice tape, struct crash *count)
{
	char *dir = folder_new();
	struct ran r = run(tape, dir, count);
	struct buf rows = essence(tape, dir);

	assert_int_equal(r.code, 0);
	ran_free(&r);
	folder_remove(dir);
	return rows;
}

static void strike(const char *path, struct slice tape, const struct buf *want, enum kv_point point, uint64_t at)
{
	static const char *const names[] = { "write", "before commit", "after commit" };
	struct crash crash = { .point = point, .at = at };
	char *dir = folder_new();
	struct ran first = run(tape, dir, &crash);
	struct ran second = run(tape, dir, NULL);
	struct buf rows = essence(tape, dir);
	char what[256];

	snprintf(what, sizeof(what), "%s, %s %llu", path, names[point], (unsigned long long)at);
	if (second.code)
		fail_msg("%s: %s", what, (const char *)second.err.data);
	assert_same_text(what, buf_slice(&rows), buf_slice(want));
	buf_free(&rows);
	ran_free(&first);
	ran_free(&second);
	folder_remove(dir);
}

static struct buf tape_of(const char *path)
{
	struct buf text = file_read(path), tape = { 0 };
	struct complaint why;

	if (!has_text(slice_of_text(path), ".scn"))
		return text;
	if (forge(path, buf_slice(&text), &tape, &why))
		fail_msg("%s", why.text);
	buf_free(&text);
	return tape;
}

static uint64_t sweep(const char *path)
{
	uint64_t puts = env_number("SWEEP_PUTS", 12), tried = 0, stride;
	struct buf tape = tape_of(path);
	struct crash count = { .at = 0 };
	struct buf want = golden_rows(buf_slice(&tape), &count);

	for (uint64_t i = 1; i <= count.seen[KV_BEFORE_COMMIT]; i++) {
		strike(path, buf_slice(&tape), &want, KV_BEFORE_COMMIT, i);
		strike(path, buf_slice(&tape), &want, KV_AFTER_COMMIT, i);
		tried += 2;
	}
	stride = puts && count.seen[KV_BEFORE_PUT] > puts ? count.seen[KV_BEFORE_PUT] / puts : 1;
	for (uint64_t i = 1 + tape.len % stride; i <= count.seen[KV_BEFORE_PUT]; i += stride, tried++)
		strike(path, buf_slice(&tape), &want, KV_BEFORE_PUT, i);
	buf_free(&want);
	buf_free(&tape);
	return tried;
}

static void sweep_folder(const char *dir, const char *suffix, uint64_t most)
{
	struct paths tapes = paths_find(dir, suffix);
	uint64_t tried = 0, swept = 0, stride = most && tapes.count > most ? tapes.count / most : 1;

	stores_in_memory();
	for (size_t i = 0; i < tapes.count; i += stride, swept++)
		tried += sweep(tapes.at[i]);
	stores_on_disk();
	printf("note: %s: %llu crashes and failed writes over %llu of %zu tapes\n", dir, (unsigned long long)tried,
	       (unsigned long long)swept, tapes.count);
	paths_free(&tapes);
}

static void test_fixtures(void **state)
{
	(void)state;
	sweep_folder("fixtures", ".tape", 0);
}

static void test_scenarios(void **state)
{
	(void)state;
	sweep_folder("fixtures/scenarios", ".scn", env_number("SWEEP_SCENARIOS", 40));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_scenarios),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
