/*
 * progress: what stands on a terminal and what is written elsewhere, byte for byte.
 */
#include "listener/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S INT64_C(1000)
#define ERASE "\r\033[K"

struct told {
	char *text;
	size_t len;
	struct progress p;
};

static struct told *tell(bool terminal)
{
	struct told *t = calloc(1, sizeof(*t));

	t->p = progress_start(open_memstream(&t->text, &t->len), terminal, 1);
	return t;
}

static void expect_told(struct told *t, const char *want)
{
	progress_done(&t->p);
	fclose(t->p.out);
	assert_string_equal(t->text, want);
	free(t->text);
	free(t);
}

static void test_lines(void **state)
{
	struct told *t = tell(false);

	(void)state;
	progress_step(&t->p, 1000 * S, 100, 10000);
	progress_step(&t->p, 1059 * S, 200, 10000);
	progress_step(&t->p, 1060 * S, 700, 10000);
	progress_step(&t->p, 1119 * S, 900, 10000);
	progress_step(&t->p, 1120 * S, 1240, 10001);
	expect_told(t, "catching up chain=1 at=700 head=10000 blocks_per_s=10 left_s=930\n"
		       "catching up chain=1 at=1240 head=10001 blocks_per_s=9.5 left_s=923\n");
}

static void test_no_speed(void **state)
{
	struct told *t = tell(false);

	(void)state;
	progress_step(&t->p, 0, 100, 200);
	progress_step(&t->p, 60 * S, 100, 200);
	expect_told(t, "catching up chain=1 at=100 head=200 blocks_per_s=0.0\n");
}

/* At the head, below where it began, and after a clock that went back, it begins anew. */
static void test_anew(void **state)
{
	struct told *t = tell(false);

	(void)state;
	progress_step(&t->p, 0, 100, 200);
	progress_step(&t->p, 30 * S, 200, 200);
	progress_step(&t->p, 60 * S, 200, 300);
	progress_step(&t->p, 90 * S, 199, 300);
	progress_step(&t->p, 80 * S, 210, 300);
	progress_step(&t->p, 139 * S, 280, 300);
	progress_step(&t->p, 140 * S, 282, 300);
	expect_told(t, "catching up chain=1 at=282 head=300 blocks_per_s=1.2 left_s=15\n");
}

static void test_bar(void **state)
{
	struct told *t = tell(true);

	(void)state;
	progress_step(&t->p, 0, 1000, 2600);
	progress_step(&t->p, 199, 1001, 2600);
	progress_step(&t->p, 200, 1002, 2600);
	progress_step(&t->p, 399, 1003, 2600);
	progress_step(&t->p, 100 * S, 1800, 2600);
	progress_step(&t->p, 101 * S, 2600, 2600);
	progress_step(&t->p, 102 * S, 2600, 2600);
	expect_told(t, ERASE "chain 1 [................] 1002/2600 10 blocks/s 2m40s left\r"
		       ERASE "chain 1 [########........] 1800/2600 8.0 blocks/s 1m40s left\r" ERASE);
}

static void test_hours(void **state)
{
	struct told *t = tell(true);

	(void)state;
	progress_step(&t->p, 0, 0, 100000);
	progress_step(&t->p, 10 * S, 100, 100000);
	progress_step(&t->p, 20 * S, 99800, 100000);
	expect_told(t, ERASE "chain 1 [................] 100/100000 10 blocks/s 2h46m left\r"
		       ERASE "chain 1 [###############.] 99800/100000 4990 blocks/s 1s left\r" ERASE);
}

static void test_nothing(void **state)
{
	struct told *t = tell(true);

	(void)state;
	progress_step(&t->p, 0, 5, 5);
	progress_step(&t->p, 1000, 7, 5);
	progress_step(&t->p, 2000, 7, 14);
	progress_step(&t->p, 9000, 7, 14);
	expect_told(t, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_no_speed),
		cmocka_unit_test(test_anew),
		cmocka_unit_test(test_bar),
		cmocka_unit_test(test_hours),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
