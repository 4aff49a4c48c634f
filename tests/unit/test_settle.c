/*
 * The floor: below which watermark nothing is undone without an operator.
 */
#include "listener/settle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NONE UINT64_MAX			/* no watermark; no floor */

static const struct {
	enum tag tags[2];		/* TAG_NONE: a depth */
	uint64_t marks[2];
	int suspended;			/* a tier; -1: none */
	uint64_t floor;
} rows[] = {
	{ { TAG_NONE, TAG_NONE }, { 120, 110 }, -1, 110 },
	{ { TAG_NONE, TAG_NONE }, { 120, NONE }, -1, NONE },
	{ { TAG_NONE, TAG_FINALIZED }, { 120, 110 }, -1, 110 },
	/* A depth that is reached later takes nothing away from the tag, nor does one that has no watermark yet. */
	{ { TAG_NONE, TAG_FINALIZED }, { 111, 118 }, -1, 118 },
	{ { TAG_NONE, TAG_FINALIZED }, { NONE, 118 }, -1, 118 },
	{ { TAG_NONE, TAG_FINALIZED }, { 120, NONE }, -1, NONE },
	{ { TAG_SAFE, TAG_FINALIZED }, { 120, 110 }, -1, 110 },
	{ { TAG_SAFE, TAG_FINALIZED }, { 105, 110 }, 0, 110 },
	{ { TAG_NONE, TAG_FINALIZED }, { 105, 110 }, 0, 110 },
	{ { TAG_NONE, TAG_NONE }, { 105, 110 }, 0, 110 },
};

static void test_floor(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct chain_config config = { .finality.tier_count = 2 };
		struct chain_row chain = { .has_tip = true };
		uint64_t height;

		for (int k = 0; k < 2; k++) {
			config.finality.tiers[k].tag = rows[i].tags[k];
			config.finality.tiers[k].depth = rows[i].tags[k] == TAG_NONE ? 12 : 0;
			chain.marks[k].known = rows[i].marks[k] != NONE;
			chain.marks[k].height = rows[i].marks[k];
			chain.marks[k].suspended = k == rows[i].suspended;
		}
		if (!settle_floor(&config, &chain, &height))
			height = NONE;
		if (height != rows[i].floor)
			fail_msg("row %zu: %llu", i, (unsigned long long)height);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_floor) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
