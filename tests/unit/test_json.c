#include "common/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct json_doc *open_text(const char *text)
{
	struct complaint why;
	struct json_doc *doc = json_open(slice_of_text(text), &why);

	if (!doc)
		fail_msg("%s", why.text);
	return doc;
}

/* Ends the document, which must have exactly this complaint, or none if NULL. */
static void finish(struct json_doc *doc, const char *want)
{
	struct complaint why = { "" };
	enum err err = json_finish(doc, &why);

	assert_int_equal(err, want ? E_INPUT : OK);
	assert_string_equal(why.text, want ? want : "");
	assert_int_equal(json_failed(doc), want != NULL);
	json_close(doc);
}

static void test_syntax(void **state)
{
	static const char *const texts[] = {
		"", "{", "{} x", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}", "[\"\xff\"]",
		"[\"\\u0000\"]", "[\"\xe2\x82\"]", "[1,]", "[NaN]", "\xef\xbb\xbf[]", "[36893488147419103232]",
	};
	struct complaint why;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		why.text[0] = '\0';
		assert_null(json_open(slice_of_text(texts[i]), &why));
		assert_true(strlen(why.text) > 10);
	}
	assert_null(json_open(slice_of_text("{\n \"a\": x}"), &why));
	assert_non_null(strstr(why.text, "line 2"));
	assert_null(json_open((struct slice){ 0 }, &why));
	assert_null(json_open((struct slice){ (const uint8_t *)"[1\0]", 4 }, &why));
	assert_string_equal(why.text, "byte 2 is NUL");
	json_close(NULL);
}

static void test_paths(void **state)
{
	struct json_doc *doc = open_text("{\"chains\":[{\"tokens\":[0,{\"address\":\"0x123\"}]}]}");
	char name[] = "chains";
	struct json chain = json_at(json_member(json_root(doc), name), 0);

	(void)state;
	strcpy(name, "gone");
	json_address(json_member(json_at(json_member(chain, "tokens"), 1), "address"));
	finish(doc, "chains[0].tokens[1].address: 3 hex digits, want 40");

	doc = open_text("[[1,2],[3]]");
	assert_int_equal(json_length(json_at(json_root(doc), 0)), 2);
	json_at(json_at(json_root(doc), 1), 1);
	finish(doc, "[1][1]: missing");

	doc = open_text("{\"a\":null}");
	assert_false(json_has(json_root(doc), "a"));
	assert_null(json_maybe(json_root(doc), "a").value);
	assert_false(json_failed(doc));
	json_text(json_maybe(json_root(doc), "a"));
	finish(doc, "a: missing");

	doc = open_text("[]");
	json_member(json_root(doc), "x");
	finish(doc, "an array, want an object");

	doc = open_text("{\"a\":{}}");
	json_complain(json_member(json_root(doc), "a"), "token %d of chain %s", 7, "one");
	finish(doc, "a: token 7 of chain one");
}

static void test_first_complaint_sticks(void **state)
{
	struct json_doc *doc = open_text("{\"a\":1,\"b\":\"x\"}");
	struct json root = json_root(doc), none = json_member(root, "c");

	(void)state;
	assert_string_equal(json_text(json_member(none, "d")), "");
	assert_string_equal(json_text(json_member(root, "a")), "");
	assert_int_equal(json_length(none), 0);
	assert_false(json_bool(json_at(none, 3)));
	assert_int_equal(json_u64(json_member(root, "b")), 0);
	assert_int_equal(json_u64(json_member(root, "a")), 1);
	finish(doc, "c: missing");
}

static void test_kinds(void **state)
{
	struct json_doc *doc = open_text("{\"o\":{},\"a\":[],\"s\":\"t\",\"i\":-5,\"t\":true,\"r\":1.5}");
	struct json root = json_root(doc);

	(void)state;
	assert_true(json_is_object(root) && json_is_object(json_member(root, "o")));
	assert_true(json_is_array(json_member(root, "a")) && !json_is_array(root));
	assert_true(json_is_string(json_member(root, "s")) && !json_is_string(root));
	assert_true(json_is_integer(json_member(root, "i")) && !json_is_integer(json_member(root, "r")));
	assert_string_equal(json_text(json_member(root, "s")), "t");
	assert_true(json_bool(json_member(root, "t")));
	assert_string_equal(json_name_at(root, 0), "o");
	assert_string_equal(json_name_at(root, 5), "r");
	assert_null(json_name_at(root, 6));
	assert_false(json_failed(doc));
	json_u64(json_member(root, "i"));
	finish(doc, "i: -5, want no negative number");
}

static void test_only(void **state)
{
	static const char *const names[] = { "a", "b", NULL };
	struct json_doc *doc = open_text("{\"x\":{\"a\":1,\"b\":2}}");

	(void)state;
	json_only(json_member(json_root(doc), "x"), names);
	finish(doc, NULL);
	doc = open_text("{\"x\":{\"a\":1,\"typo\":2,\"b\":null}}");
	json_only(json_member(json_root(doc), "x"), names);
	finish(doc, "x.typo: not a known member");
}

struct number_case {
	const char *json;
	const char *value;		/* NULL: refused */
};

static void check_amount(const char *json, const char *want, struct u256 (*get)(struct json))
{
	char text[200], got[U256_TEXT];
	struct json_doc *doc;
	struct u256 v;

	snprintf(text, sizeof(text), "[%s]", json);
	doc = open_text(text);
	v = get(json_at(json_root(doc), 0));
	if (json_failed(doc) != !want)
		fail_msg("%s: %s", json, want ? "refused" : "accepted");
	assert_string_equal(u256_format(&v, got), want ? want : "0");
	json_close(doc);
}

#define MAX_DECIMAL "115792089237316195423570985008687907853269984665640564039457584007913129639935"
#define TOO_LARGE "115792089237316195423570985008687907853269984665640564039457584007913129639936"

static void test_amounts(void **state)
{
	static const struct number_case cases[] = {
		{ "\"0\"", "0" }, { "\"5000000\"", "5000000" }, { "\"007\"", "7" },
		{ "\"" MAX_DECIMAL "\"", MAX_DECIMAL }, { "\"" TOO_LARGE "\"", NULL },
		{ "\"-1\"", NULL }, { "\"1.5\"", NULL }, { "\"1e18\"", NULL }, { "\"\"", NULL },
		{ "\" 1\"", NULL }, { "\"0x10\"", NULL }, { "\"+1\"", NULL }, { "1", NULL },
		{ "1.5", NULL }, { "true", NULL }, { "{}", NULL },
	};
	struct json_doc *doc;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_amount(cases[i].json, cases[i].value, json_amount);
	doc = open_text("{\"amount\":1000000}");
	json_amount(json_member(json_root(doc), "amount"));
	finish(doc, "amount: a number, want decimal digits in quotes");
	doc = open_text("{\"amount\":\"" TOO_LARGE "\"}");
	json_amount(json_member(json_root(doc), "amount"));
	finish(doc, "amount: \"" TOO_LARGE "\" is more than 2^256-1");
}

static void test_quantities(void **state)
{
	static const struct number_case cases[] = {
		{ "\"0x0\"", "0" }, { "\"0x00ff\"", "255" }, { "12", "12" }, { "\"0x\"", NULL },
		{ "\"12\"", NULL }, { "-1", NULL }, { "1.0", NULL }, { "\"0X1\"", NULL },
		{ "\"0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\"", MAX_DECIMAL },
		{ "\"0x10000000000000000000000000000000000000000000000000000000000000000\"", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_amount(cases[i].json, cases[i].value, json_quantity);
}

static void check_u64(const char *json, bool ok, uint64_t want)
{
	char text[100];
	struct json_doc *doc;

	snprintf(text, sizeof(text), "[%s]", json);
	doc = open_text(text);
	assert_int_equal(json_u64(json_at(json_root(doc), 0)), want);
	assert_int_equal(json_failed(doc), !ok);
	json_close(doc);
}

static void test_u64(void **state)
{
	(void)state;
	check_u64("9007199254740993", true, 9007199254740993);
	check_u64("\"18446744073709551615\"", true, UINT64_MAX);
	check_u64("\"18446744073709551616\"", false, 0);
	check_u64("-1", false, 0);
	check_u64("1.0", false, 0);
	check_u64("\"0x1\"", false, 0);
	check_u64("null", false, 0);
}

static void check_address(const char *address, bool ok)
{
	char text[100];
	struct json_doc *doc;
	struct address a;

	snprintf(text, sizeof(text), "{\"a\":\"%s\"}", address);
	doc = open_text(text);
	a = json_address(json_member(json_root(doc), "a"));
	if (json_failed(doc) == ok)
		fail_msg("%s: %s", address, ok ? "refused" : "accepted");
	assert_int_equal(address_is_zero(&a), !ok);
	json_close(doc);
}

static void test_addresses(void **state)
{
	(void)state;
	/* EIP-55's own examples */
	check_address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", true);
	check_address("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", true);
	check_address("0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", true);
	check_address("0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb", true);
	check_address("0x52908400098527886E0F7030069857D2E4169EE7", true);
	check_address("0x8617E340B3D01FA5F11F306F4090FD50E238070D", true);
	check_address("0xde709f2102306220921060314715629080e2fb77", true);
	check_address("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", true);
	check_address("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED", true);
	check_address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", false);
	check_address("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", false);
	check_address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", false);
	check_address("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", false);
	check_address("0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", false);
	check_address("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaeg", false);
	check_address("", false);
}

static void test_hash_and_time(void **state)
{
	struct json_doc *doc = open_text(
		"{\"h\":\"0xFF00000000000000000000000000000000000000000000000000000000000001\","
		"\"t\":\"2026-01-01T00:00:12Z\",\"bad\":\"yesterday\"}");
	struct hash32 h = json_hash(json_member(json_root(doc), "h"));

	(void)state;
	assert_int_equal(h.b[0], 0xff);
	assert_int_equal(h.b[31], 1);
	assert_int_equal(json_time_ms(json_member(json_root(doc), "t")), 1767225612000);
	assert_false(json_failed(doc));
	json_time_ms(json_member(json_root(doc), "bad"));
	finish(doc, "bad: \"yesterday\", want a time like 2026-01-01T00:00:12Z");
}

/* What is written reads back as the same text. */
static void test_put_string(void **state)
{
	static const char text[] = "a\"b\\c\n\t\x01\x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 /";
	static const char bad[] = "x\xff\xc3(\xed\xa0\x80\xe2\x82";
	struct buf out = { 0 };
	struct complaint why;
	struct json_doc *doc;

	(void)state;
	buf_put_u8(&out, '[');
	json_put_string(&out, text);
	buf_put_u8(&out, ',');
	json_put_string(&out, bad);
	buf_put_u8(&out, ']');
	doc = json_open(buf_slice(&out), &why);
	assert_non_null(doc);
	assert_string_equal(json_text(json_at(json_root(doc), 0)), text);
	assert_memory_equal(json_text(json_at(json_root(doc), 1)), "x\xef\xbf\xbd\xef\xbf\xbd(", 8);
	finish(doc, NULL);
	buf_free(&out);
}

/* Commas stand between members and between elements, and nowhere else. */
static void test_put_members(void **state)
{
	struct hash32 hash = { { 0xab } };
	struct address address = { { 0xcd } };
	struct u256 amount = u256_from_u64(7);
	struct buf out = { 0 };

	(void)state;
	json_open_object(&out, NULL);
	json_open_array(&out, "none");
	json_close_array(&out);
	json_open_array(&out, "list");
	json_put_text(&out, NULL, "a:");
	json_put_number(&out, NULL, UINT64_MAX);
	json_open_object(&out, NULL);
	json_close_object(&out);
	json_open_object(&out, NULL);
	json_put_bool(&out, "no", false);
	json_close_object(&out);
	json_close_array(&out);
	json_put_text(&out, "null", NULL);
	json_put_hash(&out, "hash", &hash);
	json_put_hash(&out, "no_hash", NULL);
	json_put_address(&out, "address", &address);
	json_put_address(&out, "no_address", NULL);
	json_put_amount(&out, "amount", &amount);
	json_put_time(&out, "time", 1);
	json_put_name(&out, "object");
	json_open_object(&out, NULL);
	json_close_object(&out);
	json_close_object(&out);
	buf_put_u8(&out, '\0');
	assert_string_equal((const char *)out.data, "{\"none\":[],"
			    "\"list\":[\"a:\",18446744073709551615,{},{\"no\":false}],\"null\":null,"
			    "\"hash\":\"0xab00000000000000000000000000000000000000000000000000000000000000\",\"no_hash\":null,"
			    "\"address\":\"0xcd00000000000000000000000000000000000000\",\"no_address\":null,\"amount\":\"7\","
			    "\"time\":\"1970-01-01T00:00:00.001Z\",\"object\":{}}");
	buf_free(&out);
}

static void test_copy_text(void **state)
{
	struct complaint why;
	struct json_doc *doc = json_open(slice_of_text("[\"four\"]"), &why);
	char four[5] = "", three[4] = "";

	(void)state;
	json_copy_text(json_at(json_root(doc), 0), four, sizeof(four));
	assert_string_equal(four, "four");
	json_copy_text(json_at(json_root(doc), 0), three, sizeof(three));
	assert_string_equal(three, "");
	finish(doc, "[0]: 4 bytes, want at most 3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_syntax),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_first_complaint_sticks),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_only),
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_quantities),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_hash_and_time),
		cmocka_unit_test(test_put_string),
		cmocka_unit_test(test_put_members),
		cmocka_unit_test(test_copy_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
