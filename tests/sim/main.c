/*
 * sim - thousands of small chains, each with its forks, payments, lying endpoints and crashes, run
 * through the real listener and compared with an oracle.
 *
 *     sim [--seed N] [--runs M] [--digest] [--plan FILE] [--verbose] [--first]
 *
 * A seed is a run, byte for byte.  The first seed that fails is shrunk and its plan printed: it fails alone.
 * --first ends there without shrinking.
 */
#include "common/log.h"
#include "tests/sim/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
	uint64_t seed, runs;
	bool digest, verbose, first;
	const char *plan;
};

/* Drop what is not needed for the same violation, whole elements at a time, until nothing more can go. */
static void shrink(struct plan *p, const char *dir, const char *what)
{
	uint64_t tally[TALLIES] = { 0 };
	bool dropped = true;
	unsigned rounds = 0;

	while (dropped && rounds++ < 6) {
		dropped = false;
		for (size_t at = p->count; at-- > 0;) {
			struct run_result result;
			struct plan smaller;

			if (at >= p->count)
				continue;
			plan_copy(p, &smaller);
			if (!plan_drop(&smaller, at)) {
				plan_free(&smaller);
				continue;
			}
			run_plan(&smaller, dir, tally, false, &result);
			if (!result.violated || strcmp(result.what, what) != 0) {
				plan_free(&smaller);
				continue;
			}
			plan_free(p);
			*p = smaller;
			dropped = true;
		}
	}
}

static void print_plan(const struct plan *p)
{
	struct buf text = { 0 };

	plan_print(p, &text);
	fwrite(text.data, 1, text.len, stdout);
	buf_free(&text);
}

static void tell_failure(struct plan *p, const char *dir, const struct run_result *result, bool quick)
{
	struct run_result again = *result;
	uint64_t tally[TALLIES] = { 0 };

	printf("seed %llu: %s: %s\n", (unsigned long long)p->seed, result->what, result->text);
	printf("  again: sim --seed %llu --runs 1\n", (unsigned long long)p->seed);
	fflush(stdout);
	if (quick)
		return;
	shrink(p, dir, result->what);
	run_plan(p, dir, tally, false, &again);
	printf("# shrunk: %s: %s; save it and run sim --plan FILE\n", again.what, again.text);
	print_plan(p);
	fflush(stdout);
}

static bool read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "r");
	size_t got;

	if (!f)
		return false;
	do {
		got = fread(buf_extend(out, 4096), 1, 4096, f);
		out->len -= 4096 - got;
	} while (got);
	fclose(f);
	return true;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_digest(const struct plan *p, const struct run_result *result)
{
	char text[HASH_TEXT];

	printf("%llu %s\n", (unsigned long long)p->seed, hash_format(&result->digest, text));
}

static void print_tally(const uint64_t *tally, uint64_t runs, double took_s)
{
	for (int i = 0; i < TALLIES; i++)
		printf("%-24s %llu\n", tally_names[i], (unsigned long long)tally[i]);
	printf("%-24s %.1f\n", "seeds/s", took_s > 0 ? (double)runs / took_s : 0.0);
}

static int run_file(const struct options *o, const char *dir)
{
	uint64_t tally[TALLIES] = { 0 };
	struct run_result result;
	struct buf text = { 0 };
	struct complaint why;
	struct plan p;

	if (!read_file(o->plan, &text)) {
		fprintf(stderr, "sim: %s: cannot be read\n", o->plan);
		return 1;
	}
	if (plan_parse(buf_slice(&text), &p, &why)) {
		fprintf(stderr, "sim: %s: %s\n", o->plan, why.text);
		return 1;
	}
	run_plan(&p, dir, tally, o->digest, &result);
	if (o->digest)
		print_digest(&p, &result);
	if (result.violated)
		printf("%s: %s\n", result.what, result.text);
	printf("1 plan, %d violations\n", result.violated);
	plan_free(&p);
	buf_free(&text);
	return result.violated;
}

static int run_seeds(const struct options *o, const char *dir)
{
	uint64_t tally[TALLIES] = { 0 }, failed = 0, n = 0;
	double from_s = now_s();

	for (; n < o->runs && failed < (o->first ? 1 : 10); n++) {
		struct run_result result;
		struct plan p;

		plan_make(&p, o->seed + n);
		run_plan(&p, dir, tally, o->digest, &result);
		if (o->digest)
			print_digest(&p, &result);
		if (result.violated)
			tell_failure(&p, dir, &result, o->first || failed > 0);
		failed += result.violated;
		plan_free(&p);
	}
	print_tally(tally, n, now_s() - from_s);
	printf("%llu seeds, %llu violations\n", (unsigned long long)n, (unsigned long long)failed);
	return failed != 0;
}

static bool *find_flag(struct options *o, const char *name)
{
	if (strcmp(name, "--digest") == 0)
		return &o->digest;
	if (strcmp(name, "--verbose") == 0)
		return &o->verbose;
	return strcmp(name, "--first") == 0 ? &o->first : NULL;
}

static bool read_options(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		bool *flag = find_flag(o, argv[i]);

		if (flag) {
			*flag = true;
			continue;
		}
		if (i + 1 == argc)
			return false;
		if (strcmp(argv[i], "--seed") == 0)
			o->seed = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--runs") == 0)
			o->runs = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--plan") == 0)
			o->plan = argv[++i];
		else
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .runs = 500 };
	const char *temp = getenv("TMPDIR");
	char dir[128];
	int code;

	if (!read_options(argc, argv, &o)) {
		fprintf(stderr, "usage: sim [--seed N] [--runs M] [--digest] [--plan FILE] [--verbose] [--first]\n");
		return 2;
	}
	log_set_level(o.verbose ? LOG_INFO : (enum log_level)(LOG_BROKEN + 1));
	snprintf(dir, sizeof(dir), "/dev/shm/tidemark-sim-XXXXXX");
	if (!mkdtemp(dir)) {
		snprintf(dir, sizeof(dir), "%.90s/tidemark-sim-XXXXXX", temp ? temp : "/tmp");
		if (!mkdtemp(dir)) {
			fprintf(stderr, "sim: %s: no temporary folder can be made\n", dir);
			return 1;
		}
	}
	code = o.plan ? run_file(&o, dir) : run_seeds(&o, dir);
	rmdir(dir);
	return code;
}
