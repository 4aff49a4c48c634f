/*
 * The endpoints' health: every cell of its table, as one golden file.
 * TIDEMARK_GOLDEN_UPDATE=1 rewrites it.
 */
#include "listener/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GOLDEN "fixtures/golden/health.golden"

static void test_table(void **state)
{
	char want[8192];
	struct buf table = { 0 };
	FILE *f = fopen(GOLDEN, getenv("TIDEMARK_GOLDEN_UPDATE") ? "w+" : "r");
	size_t len;

	(void)state;
	assert_non_null(f);
	health_print_table(&table);
	if (getenv("TIDEMARK_GOLDEN_UPDATE"))
		fwrite(table.data, 1, table.len, f);
	rewind(f);
	len = fread(want, 1, sizeof(want), f);
	fclose(f);
	assert_int_equal(len, table.len);
	assert_memory_equal(want, table.data, len);
	buf_free(&table);
}

/* What a health is called in a log. */
static void test_names(void **state)
{
	(void)state;
	assert_string_equal(health_name(HEALTH_CONNECTING), "connecting");
	assert_string_equal(health_name(HEALTH_BACKOFF), "backing off");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_table), cmocka_unit_test(test_names) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
