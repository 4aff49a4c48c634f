/* scan against jansson: whatever jansson accepts, the scanner walks to the same tree. */
#include "common/scan.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;

/* xorshift: the same documents in every run. */
static unsigned random_below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

static void put_space(struct buf *out)
{
	static const char *const spaces[] = { "", "", "", " ", "\n\t", "\r\n  " };

	buf_put_text(out, spaces[random_below(ARRAY_SIZE(spaces))]);
}

static void put_random_string(struct buf *out, bool unique)
{
	static const char *const parts[] = {
		"a", "0x1f", "\\\"", "\\\\", "\\n", "\\u00e9", "\xc3\xa9", "{", "]", ",", ":", "\\/",
		"\\ud83d\\ude00", "tru", "\\\\\\\"", " ",
	};
	static unsigned serial;

	buf_put_u8(out, '"');
	if (unique)
		buf_printf(out, "%u", serial++);
	for (unsigned n = random_below(6); n; n--)
		buf_put_text(out, parts[random_below(ARRAY_SIZE(parts))]);
	buf_put_u8(out, '"');
}

static void put_random_scalar(struct buf *out)
{
	static const char *const words[] = {
		"true", "false", "null", "0", "-1", "12.5", "1e3", "-0.25E-2", "9007199254740993", "3E+1",
	};
	unsigned pick = random_below(2 * ARRAY_SIZE(words));

	if (pick < ARRAY_SIZE(words))
		buf_put_text(out, words[pick]);
	else
		put_random_string(out, false);
}

static void put_random_value(struct buf *out, unsigned depth)
{
	bool is_object = random_below(2);

	put_space(out);
	if (depth == 0 || random_below(4) == 0) {
		put_random_scalar(out);
		put_space(out);
		return;
	}
	buf_put_u8(out, is_object ? '{' : '[');
	put_space(out);
	for (unsigned n = random_below(5), i = 0; i < n; i++) {
		if (i)
			buf_put_u8(out, ',');
		put_space(out);
		if (is_object) {
			put_random_string(out, true);
			put_space(out);
			buf_put_u8(out, ':');
		}
		put_random_value(out, depth - 1);
	}
	buf_put_u8(out, is_object ? '}' : ']');
	put_space(out);
}

/* jansson 2.14 accepts a NUL behind a number: no model there. */
static json_t *oracle(struct slice text)
{
	if (memchr(text.data, '\0', text.len))
		return NULL;
	return json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
			  NULL);
}

/* Whether the raw span is a text of the value. */
static bool is_text_of(struct slice raw, const json_t *want)
{
	json_t *got = oracle(raw);
	bool same = got && json_equal(got, want);

	json_decref(got);
	return same;
}

static bool walk(struct scan *s, json_t *want);

static bool walk_object(struct scan *s, json_t *want)
{
	void *it = want ? json_object_iter(want) : NULL;
	struct slice name;

	if (!scan_object(s))
		return false;
	while (scan_member(s, &name)) {
		json_t *name_text = it ? json_string(json_object_iter_key(it)) : NULL;
		bool same = !want || (it && is_text_of((struct slice){ name.data - 1, name.len + 2 },
						       name_text));

		json_decref(name_text);
		if (!same || !walk(s, it ? json_object_iter_value(it) : NULL))
			return false;
		it = it ? json_object_iter_next(want, it) : NULL;
	}
	return !scan_failed(s) && !it;
}

static bool walk_array(struct scan *s, json_t *want)
{
	size_t count = 0;

	if (!scan_array(s))
		return false;
	for (; scan_element(s); count++) {
		if (want && count >= json_array_size(want))
			return false;
		if (!walk(s, want ? json_array_get(want, count) : NULL))
			return false;
	}
	return !scan_failed(s) && (!want || count == json_array_size(want));
}

/* Walks member by member; against @want unless it is NULL. */
static bool walk(struct scan *s, json_t *want)
{
	enum scan_kind kind = scan_peek(s);
	struct slice raw;

	if (kind == SCAN_END)
		return false;
	if (want && random_below(8) == 0)
		return scan_skip(s, &raw) && is_text_of(raw, want);
	if (kind == SCAN_OBJECT)
		return (!want || json_is_object(want)) && walk_object(s, want);
	if (kind == SCAN_ARRAY)
		return (!want || json_is_array(want)) && walk_array(s, want);
	if (kind == SCAN_STRING) {
		if (!scan_string(s, &raw))
			return false;
		return !want || is_text_of((struct slice){ raw.data - 1, raw.len + 2 }, want);
	}
	return scan_skip(s, &raw) && (!want || is_text_of(raw, want));
}

static bool walks(struct slice text, json_t *want)
{
	struct scan s = scan_begin(text);

	return walk(&s, want) && scan_at_end(&s);
}

static bool skips(struct slice text)
{
	struct scan s = scan_begin(text);

	return scan_skip(&s, NULL) && scan_at_end(&s);
}

/* Exactly as long as the text, so that a read past its end is seen by the sanitizer. */
static struct slice exact_copy(const void *data, size_t len)
{
	uint8_t *copy = xmalloc(len);

	memcpy(copy, data, len);
	return (struct slice){ copy, len };
}

static void check(const void *data, size_t len)
{
	struct slice text = exact_copy(data, len);
	json_t *want = oracle(text);

	if (want) {
		if (!walks(text, want))
			fail_msg("walked otherwise: %.*s", (int)len, (const char *)data);
		if (!skips(text))
			fail_msg("not skipped: %.*s", (int)len, (const char *)data);
	} else {
		walks(text, NULL);
		skips(text);
	}
	json_decref(want);
	free((void *)text.data);
}

static void test_generated(void **state)
{
	struct buf doc = { 0 };

	(void)state;
	seed = 20260101;
	for (int i = 0; i < 3000; i++) {
		doc.len = 0;
		put_random_value(&doc, 1 + random_below(6));
		check(doc.data, doc.len);
	}
	buf_free(&doc);
}

static void test_mutated(void **state)
{
	static const char bytes[] = "{}[]\",:\\0-1e.tfn \n\x01\x80\xff";
	struct buf doc = { 0 };

	(void)state;
	seed = 42;
	for (int i = 0; i < 20000; i++) {
		doc.len = 0;
		put_random_value(&doc, 1 + random_below(4));
		for (unsigned n = 1 + random_below(3); n; n--)
			doc.data[random_below((unsigned)doc.len)] =
				(uint8_t)bytes[random_below(sizeof(bytes))];
		check(doc.data, doc.len);
	}
	buf_free(&doc);
}

/* A container without its end is refused wherever it is cut. */
static void test_truncated(void **state)
{
	struct buf doc = { 0 };

	(void)state;
	seed = 7;
	for (int i = 0; i < 200; i++) {
		doc.len = 0;
		buf_put_u8(&doc, '[');
		put_random_value(&doc, 4);
		buf_put_u8(&doc, ']');
		for (size_t len = 0; len < doc.len; len++) {
			struct slice cut = exact_copy(doc.data, len);

			assert_false(walks(cut, NULL));
			assert_false(skips(cut));
			free((void *)cut.data);
		}
	}
	buf_free(&doc);
}

static void test_deep(void **state)
{
	size_t depth = 100000;
	char *text = xmalloc(depth);
	struct scan s;

	(void)state;
	memset(text, '[', depth);
	assert_false(skips((struct slice){ (uint8_t *)text, depth }));
	assert_false(walks((struct slice){ (uint8_t *)text, depth }, NULL));
	memset(text, ']', 2 * SCAN_DEPTH_MAX);
	memset(text, '[', SCAN_DEPTH_MAX);
	assert_true(skips((struct slice){ (uint8_t *)text, 2 * SCAN_DEPTH_MAX }));
	assert_true(walks((struct slice){ (uint8_t *)text, 2 * SCAN_DEPTH_MAX }, NULL));
	memset(text, ']', 2 * SCAN_DEPTH_MAX + 2);
	memset(text, '[', SCAN_DEPTH_MAX + 1);
	assert_false(skips((struct slice){ (uint8_t *)text, 2 * SCAN_DEPTH_MAX + 2 }));
	s = scan_begin((struct slice){ (uint8_t *)text, 2 * SCAN_DEPTH_MAX + 2 });
	for (int i = 0; i < SCAN_DEPTH_MAX; i++)
		assert_true(scan_array(&s));
	assert_false(scan_array(&s));
	assert_string_equal(s.error, "too deep");
	assert_int_equal(s.error_at, SCAN_DEPTH_MAX);
	free(text);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"", " ", "{", "[", "}", "]", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
		"{1:2}", "{a:1}", "[1}", "{\"a\":1]", "[[1]", "\"abc", "\"abc\\\"", "\"a\\\\\\\"", "tru",
		"nul", "truth", "01", "-", "1.", "1e", "+1", ".5", "'a'", "[1] 2", "{} {}", "NaN",
		"<html>", "\xef\xbb\xbf[]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (walks(slice_of_text(texts[i]), NULL))
			fail_msg("accepted: %s", texts[i]);
	}
}

static void test_strings(void **state)
{
	struct scan s = scan_begin(slice_of_text("[\"a\\\"b\", \"\\\\\", \"\", \"\\\\\\\"\", 12, null, -1.5e3]"));
	struct slice text;

	(void)state;
	assert_true(scan_array(&s));
	assert_true(scan_element(&s) && scan_string(&s, &text) && slice_is(text, "a\\\"b"));
	assert_true(scan_element(&s) && scan_string(&s, &text) && slice_is(text, "\\\\"));
	assert_true(scan_element(&s) && scan_text_or_null(&s, &text));
	assert_true(text.data && text.len == 0);
	assert_true(scan_element(&s) && scan_text_or_null(&s, &text) && slice_is(text, "\\\\\\\""));
	assert_true(scan_element(&s) && scan_text_or_null(&s, &text) && slice_is(text, "12"));
	assert_true(scan_element(&s) && scan_text_or_null(&s, &text));
	assert_true(!text.data && text.len == 0);
	assert_true(scan_element(&s) && scan_text_or_null(&s, &text) && slice_is(text, "-1.5e3"));
	assert_false(scan_element(&s));
	assert_true(scan_at_end(&s));
}

static void test_nul_bytes(void **state)
{
	static const char inside[] = "[\"a\0b\", 1]", outside[] = "[1,\0 2]";
	struct slice text;
	struct scan s = scan_begin((struct slice){ (const uint8_t *)inside, sizeof(inside) - 1 });

	(void)state;
	assert_true(scan_array(&s) && scan_element(&s) && scan_string(&s, &text));
	assert_int_equal(text.len, 3);
	assert_false(walks((struct slice){ (const uint8_t *)outside, sizeof(outside) - 1 }, NULL));
	assert_false(walks((struct slice){ 0 }, NULL));
}

static void test_first_mistake_sticks(void **state)
{
	struct scan s = scan_begin(slice_of_text("{\"a\": [1, x], \"b\": 2}"));
	struct slice name, raw;

	(void)state;
	assert_true(scan_object(&s) && scan_member(&s, &name) && slice_is(name, "a"));
	assert_false(scan_skip(&s, &raw));
	assert_null(raw.data);
	assert_true(scan_failed(&s));
	assert_int_equal(s.error_at, 10);
	assert_false(scan_member(&s, &name));
	assert_false(scan_object(&s));
	assert_false(scan_string(&s, &raw));
	assert_false(scan_at_end(&s));
	assert_int_equal(scan_peek(&s), SCAN_END);
	assert_string_equal(s.error, "no JSON value");
	assert_int_equal(s.error_at, 10);
}

static void test_raw_spans(void **state)
{
	struct scan s = scan_begin(slice_of_text("{ \"block\" : { \"a\" : [ ] } , \"n\":7 } "));
	struct slice name, raw;

	(void)state;
	assert_true(scan_object(&s) && scan_member(&s, &name) && slice_is(name, "block"));
	assert_true(scan_skip(&s, &raw) && slice_is(raw, "{ \"a\" : [ ] }"));
	assert_true(scan_member(&s, &name) && slice_is(name, "n"));
	assert_true(scan_skip(&s, &raw) && slice_is(raw, "7"));
	assert_false(scan_member(&s, &name));
	assert_true(scan_at_end(&s));
}

static void test_30_mb(void **state)
{
	struct buf doc = { 0 };

	(void)state;
	buf_put_text(&doc, "[0");
	while (doc.len < 30000000)
		buf_put_text(&doc, ",{\"data\":\"0x00112233445566778899aabbccddeeff\\\"\",\"n\":[1,2.5,null]}");
	assert_false(skips(buf_slice(&doc)));
	buf_put_u8(&doc, ']');
	assert_true(skips(buf_slice(&doc)));
	assert_true(walks(buf_slice(&doc), NULL));
	buf_free(&doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generated),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_nul_bytes),
		cmocka_unit_test(test_first_mistake_sticks),
		cmocka_unit_test(test_raw_spans),
		cmocka_unit_test(test_30_mb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
