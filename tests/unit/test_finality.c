/*
 * finality: what a policy may say and where a bad one is complained about, the
 * height that each form of it holds final, and which tier an amount falls into.
 */
#include "listener/finality.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* As it stands in a configuration, so that paths are whole. */
static enum err parse(const char *policy, struct finality_policy *out, struct complaint *why)
{
	struct buf text = { 0 };
	struct json_doc *doc;
	enum err err;

	buf_printf(&text, "{\"finality\":%s}", policy);
	doc = json_open(buf_slice(&text), why);
	if (!doc)
		fail_msg("%s: %s", policy, why->text);
	*out = finality_parse(json_member(json_root(doc), "finality"));
	err = json_finish(doc, why);
	json_close(doc);
	buf_free(&text);
	return err;
}

static struct finality_policy good(const char *policy)
{
	struct finality_policy p;
	struct complaint why;

	if (parse(policy, &p, &why))
		fail_msg("%s: %s", policy, why.text);
	return p;
}

static void test_refused(void **state)
{
	static const struct {
		const char *policy;
		const char *why;
	} rows[] = {
		{ "{}", "finality: want a tag, a depth or both" },
		{ "{\"tag\":\"safe\"}", "finality: safe alone is not final: ask for a depth too" },
		{ "{\"tag\":\"latest\"}", "finality.tag: \"latest\" is no tag, want safe or finalized" },
		{ "{\"tag\":\"Finalized\"}", "finality.tag: \"Finalized\" is no tag, want safe or finalized" },
		{ "{\"depth\":0}", "finality.depth: a depth is at least 1: the containing block itself" },
		{ "{\"tag\":\"finalized\",\"depth\":0}", "finality.depth: a depth is at least 1: the containing block itself" },
		{ "{\"tag\":\"finalized\",\"up_to\":\"5\"}", "finality.up_to: " },
		{ "{\"tag\":\"finalized\",\"tiers\":[{\"depth\":1}]}", "finality.tag: " },
		{ "{\"tag\":\"finalized\",\"blocks\":3}", "finality.blocks: " },
		{ "{\"tiers\":[]}", "finality.tiers: 0 tiers, want 1 to 4" },
		{ "{\"tiers\":[{\"depth\":1},{\"depth\":1},{\"depth\":1},{\"depth\":1},{\"depth\":1}]}",
		  "finality.tiers: 5 tiers, want 1 to 4" },
		{ "{\"tiers\":{\"depth\":1}}", "finality.tiers: " },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"}]}",
		  "finality.tiers[0]: the last tier takes any amount: no up_to" },
		{ "{\"tiers\":[{\"depth\":1},{\"depth\":2}]}", "finality.tiers[0]: want up_to" },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"},{\"depth\":2,\"up_to\":\"5\"},{\"tag\":\"finalized\"}]}",
		  "finality.tiers[1]: up_to must rise from tier to tier" },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"},{\"depth\":2,\"up_to\":\"4\"},{\"tag\":\"finalized\"}]}",
		  "finality.tiers[1]: up_to must rise from tier to tier" },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":5},{\"depth\":2}]}", "finality.tiers[0].up_to: " },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"1.5\"},{\"depth\":2}]}", "finality.tiers[0].up_to: " },
		{ "{\"tiers\":[{\"tag\":\"safe\",\"up_to\":\"5\"},{\"depth\":2}]}",
		  "finality.tiers[0]: safe alone is not final: ask for a depth too" },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"},{\"depth\":0}]}", "finality.tiers[1].depth: a depth is at least 1" },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"},{\"depth\":2,\"name\":\"big\"}]}", "finality.tiers[1].name: " },
		{ "{\"tiers\":[{\"depth\":1,\"up_to\":\"5\"},{}]}", "finality.tiers[1]: want a tag, a depth or both" },
		{ "{\"depth\":-1}", "finality.depth: " },
		{ "{\"depth\":1.5}", "finality.depth: " },
		{ "{\"tag\":1}", "finality.tag: " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct finality_policy p;
		struct complaint why = { .text = "accepted" };

		if (parse(rows[i].policy, &p, &why) != E_INPUT || strncmp(why.text, rows[i].why, strlen(rows[i].why)))
			fail_msg("%s: \"%s\", want \"%s\"", rows[i].policy, why.text, rows[i].why);
	}
}

static void test_parse(void **state)
{
	struct finality_policy p = good("{\"tag\":\"finalized\"}");

	(void)state;
	assert_int_equal(p.tier_count, 1);
	assert_int_equal(p.tiers[0].tag, TAG_FINALIZED);
	assert_int_equal(p.tiers[0].depth, 0);
	assert_false(p.tiers[0].has_limit);
	p = good("{\"tag\":\"safe\",\"depth\":20}");
	assert_int_equal(p.tiers[0].tag, TAG_SAFE);
	assert_int_equal(p.tiers[0].depth, 20);
	p = good("{\"depth\":\"12\"}");			/* decimal text is a number too */
	assert_int_equal(p.tiers[0].tag, TAG_NONE);
	assert_int_equal(p.tiers[0].depth, 12);
	p = good("{\"tag\":null,\"depth\":12}");
	assert_int_equal(p.tiers[0].tag, TAG_NONE);
	p = good("{\"tiers\":[{\"depth\":7}]}");
	assert_int_equal(p.tier_count, 1);
	assert_int_equal(p.tiers[0].depth, 7);
	p = good("{\"tiers\":[{\"up_to\":\"1\",\"depth\":1},{\"up_to\":\"2\",\"depth\":2},{\"up_to\":\"3\",\"depth\":3},"
		 "{\"tag\":\"finalized\"}]}");
	assert_int_equal(p.tier_count, 4);
	assert_true(p.tiers[2].has_limit);
	assert_false(p.tiers[3].has_limit);
}

/* Heights. */

#define NONE UINT64_MAX

struct height_case {
	const char *policy;
	uint64_t tip, safe, finalized;	/* NONE: not known */
	uint64_t want;			/* NONE: cannot say */
};

static const struct height_case heights[] = {
	{ "{\"tag\":\"finalized\"}", 100, NONE, 64, 64 },
	{ "{\"tag\":\"finalized\"}", 100, 90, NONE, NONE },	/* the other tag does not stand in */
	{ "{\"tag\":\"finalized\"}", 100, NONE, 120, 100 },	/* never above the cursor */
	{ "{\"tag\":\"finalized\"}", 100, NONE, 0, 0 },
	{ "{\"depth\":1}", 100, NONE, NONE, 100 },		/* the containing block is depth 1 */
	{ "{\"depth\":2}", 100, NONE, NONE, 99 },
	{ "{\"depth\":12}", 100, 99, 99, 89 },
	{ "{\"depth\":101}", 100, NONE, NONE, 0 },
	{ "{\"depth\":102}", 100, NONE, NONE, NONE },
	{ "{\"depth\":\"18446744073709551615\"}", 100, NONE, NONE, NONE },
	{ "{\"tag\":\"safe\",\"depth\":20}", 100, 95, NONE, 81 },	/* both must hold */
	{ "{\"tag\":\"safe\",\"depth\":20}", 100, 70, NONE, 70 },
	{ "{\"tag\":\"safe\",\"depth\":20}", 100, 81, NONE, 81 },
	{ "{\"tag\":\"safe\",\"depth\":20}", 100, NONE, 64, NONE },
	{ "{\"tag\":\"safe\",\"depth\":200}", 100, 70, NONE, NONE },
	{ "{\"tag\":\"finalized\",\"depth\":1}", 100, NONE, 64, 64 },
};

static void test_heights(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heights); i++) {
		const struct height_case *c = &heights[i];
		struct finality_policy p = good(c->policy);
		struct finality_view view = {
			.tip_height = c->tip,
			.vouched_height = c->tip,
			.known = { [TAG_SAFE] = c->safe != NONE, [TAG_FINALIZED] = c->finalized != NONE },
			.height = { [TAG_SAFE] = c->safe, [TAG_FINALIZED] = c->finalized },
		};
		uint64_t got = NONE;

		if (!finality_height(&p.tiers[0], &view, &got))
			assert_int_equal(got, NONE);		/* left alone */
		if (got != c->want)
			fail_msg("row %zu, %s: %llu", i, c->policy, (unsigned long long)got);
	}
}

/* Each tier has a height of its own. */
static void test_heights_of_tiers(void **state)
{
	struct finality_policy p = good("{\"tiers\":[{\"up_to\":\"1000\",\"depth\":3},{\"tag\":\"finalized\"}]}");
	struct finality_view view = { .tip_height = 100, .vouched_height = 100 };
	uint64_t height;

	(void)state;
	assert_true(finality_height(&p.tiers[0], &view, &height));
	assert_int_equal(height, 98);
	assert_false(finality_height(&p.tiers[1], &view, &height));
	view.known[TAG_FINALIZED] = true;
	view.height[TAG_FINALIZED] = 64;
	assert_true(finality_height(&p.tiers[1], &view, &height));
	assert_int_equal(height, 64);
}

/* Tiers. */

static void test_tier_of(void **state)
{
	static const struct {
		const char *sum;
		unsigned tier;
	} rows[] = {
		{ "0", 0 }, { "1", 0 }, { "999", 0 }, { "1000", 0 }, { "1001", 1 }, { "1000000", 1 }, { "1000001", 2 },
		{ "115792089237316195423570985008687907853269984665640564039457584007913129639935", 2 },
	};
	struct finality_policy p = good("{\"tiers\":[{\"up_to\":\"1000\",\"depth\":3},"
					"{\"up_to\":\"1000000\",\"depth\":12},{\"tag\":\"finalized\"}]}");
	struct finality_policy one = good("{\"depth\":1}");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct u256 sum;

		assert_true(u256_parse(slice_of_text(rows[i].sum), &sum));
		assert_int_equal(finality_tier_of(&p, &sum), rows[i].tier);
		assert_int_equal(finality_tier_of(&one, &sum), 0);
	}
}

static void test_describe(void **state)
{
	static const struct {
		const char *policy;
		const char *text;
	} rows[] = {
		{ "{\"tag\":\"finalized\"}", "finalized" },
		{ "{\"tag\":\"safe\",\"depth\":20}", "safe and depth 20" },
		{ "{\"tag\":\"finalized\",\"depth\":64}", "finalized and depth 64" },
		{ "{\"depth\":12}", "depth 12" },
		{ "{\"tag\":\"finalized\",\"depth\":\"18446744073709551615\"}", "finalized and depth 18446744073709551615" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct finality_policy p = good(rows[i].policy);
		char text[48];

		finality_describe(&p.tiers[0], text);
		assert_string_equal(text, rows[i].text);
	}
	assert_string_equal(tag_name(TAG_SAFE), "safe");
	assert_string_equal(tag_name(TAG_FINALIZED), "finalized");
	assert_string_equal(tag_name(TAG_NONE), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_heights),
		cmocka_unit_test(test_heights_of_tiers),
		cmocka_unit_test(test_tier_of),
		cmocka_unit_test(test_describe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
