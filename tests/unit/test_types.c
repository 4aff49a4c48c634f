#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

#define MAX_DECIMAL "115792089237316195423570985008687907853269984665640564039457584007913129639935"
#define OVER_DECIMAL "115792089237316195423570985008687907853269984665640564039457584007913129639936"
#define DIGITS_64 "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static const struct u256 u256_max = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };

/* errors and text */

static void test_err_names(void **state)
{
	(void)state;
	assert_string_equal(err_name(OK), "OK");
	assert_string_equal(err_name(E_TERMINAL), "E_TERMINAL");
	for (int err = OK; err <= E_GENESIS; err++) {
		assert_non_null(err_name((enum err)err));
		for (int other = OK; other < err; other++)
			assert_string_not_equal(err_name((enum err)err), err_name((enum err)other));
	}
}

static void test_complain(void **state)
{
	struct complaint c;
	char long_text[1000];

	(void)state;
	assert_int_equal(complain(&c, E_PEER, "%s[%d]: no", "logs", 3), E_PEER);
	assert_string_equal(c.text, "logs[3]: no");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(complain(&c, E_INPUT, "%s", long_text), E_INPUT);
	assert_int_equal(strlen(c.text), sizeof(c.text) - 1);
}

static void test_slice(void **state)
{
	struct slice none = { 0 }, abc = slice_of_text("abc");

	(void)state;
	assert_int_equal(abc.len, 3);
	assert_true(slice_is(abc, "abc"));
	assert_false(slice_is(abc, "ab"));
	assert_false(slice_is(abc, "abcd"));
	assert_false(slice_is(abc, "abd"));
	assert_false(slice_is(abc, ""));
	assert_true(slice_is(none, ""));
	assert_false(slice_is(none, "a"));
	assert_int_equal(slice_of_text("").len, 0);
}

static void test_memory(void **state)
{
	uint8_t *zeroed = xcalloc(3, 5), *p = xmalloc(0);
	char *copy = xstrdup("tide");

	(void)state;
	assert_non_null(p);
	p = xrealloc(p, 10);
	p[9] = 1;
	for (int i = 0; i < 15; i++)
		assert_int_equal(zeroed[i], 0);
	assert_string_equal(copy, "tide");
	free(copy);
	free(p);
	free(zeroed);
	p = xcalloc(0, 5);
	assert_non_null(p);
	free(p);
}

/* growable bytes */

static void test_buf_growth(void **state)
{
	struct buf b = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		buf_put_u8(&b, (uint8_t)i);
		assert_int_equal(b.len, i + 1);
		assert_true(b.cap >= b.len);
	}
	for (int i = 0; i < 10000; i++)
		assert_int_equal(b.data[i], (uint8_t)i);
	buf_free(&b);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.cap, 0);
	buf_free(&b);
}

static void test_buf_extend(void **state)
{
	struct buf b = { 0 };
	uint8_t *at = buf_extend(&b, 0);

	(void)state;
	assert_non_null(at);
	assert_int_equal(b.len, 0);
	at = buf_extend(&b, 5000);
	assert_ptr_equal(at, b.data);
	memset(at, 7, 5000);
	at = buf_extend(&b, b.cap - b.len);
	assert_ptr_equal(at, b.data + 5000);
	assert_int_equal(b.len, b.cap);
	assert_int_equal(b.data[4999], 7);
	buf_free(&b);
}

static void test_buf_put(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_put(&b, NULL, 0);
	assert_int_equal(buf_slice(&b).len, 0);
	buf_put_text(&b, "tide");
	buf_put_text(&b, "");
	buf_put(&b, "ma\0rk", 5);
	assert_int_equal(b.len, 9);
	assert_memory_equal(b.data, "tidema\0rk", 9);
	assert_ptr_equal(buf_slice(&b).data, b.data);
	assert_int_equal(buf_slice(&b).len, 9);
	buf_free(&b);
}

static void test_buf_printf(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_printf(&b, "%s", "");
	assert_int_equal(b.len, 0);
	buf_printf(&b, "%d-%s", 42, "x");
	assert_true(slice_is(buf_slice(&b), "42-x"));
	buf_printf(&b, "%0100d|", 7);
	assert_int_equal(b.len, 4 + 101);
	assert_int_equal(b.data[b.len - 1], '|');
	assert_int_equal(b.data[b.len - 2], '7');
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i % 10);
	assert_int_equal(b.len, 105 + 2000);
	assert_memory_equal(b.data + b.len - 4, "8,9,", 4);
	buf_free(&b);
}

/* integers, hashes, addresses */

static void test_big_endian(void **state)
{
	static const uint8_t want[8] = { 1, 2, 3, 4, 5, 6, 7, 0xff };
	uint8_t out[8];

	(void)state;
	be64_put(out, 0x01020304050607ff);
	assert_memory_equal(out, want, 8);
	assert_true(be64_get(out) == 0x01020304050607ff);
	be32_put(out, 0x01020304);
	assert_memory_equal(out, want, 4);
	assert_int_equal(be32_get(out), 0x01020304);
	be64_put(out, UINT64_MAX);
	assert_true(be64_get(out) == UINT64_MAX);
	be32_put(out, UINT32_MAX);
	assert_true(be32_get(out) == UINT32_MAX);
	be64_put(out, 258);
	assert_memory_equal(out, "\0\0\0\0\0\0\1\2", 8);
}

static void test_hash(void **state)
{
	struct hash32 zero = { { 0 } }, a = { { 0 } }, b;
	char out[HASH_TEXT];

	(void)state;
	assert_true(hash_is_zero(&zero));
	a.b[31] = 0xab;
	assert_false(hash_is_zero(&a));
	assert_false(hash_eq(&a, &zero));
	assert_string_equal(hash_format(&a, out), "0x00000000000000000000000000000000000000000000000"
						  "000000000000000ab");
	assert_true(hash_parse(slice_of_text(out), &b));
	assert_true(hash_eq(&a, &b));
}

static void test_address(void **state)
{
	struct address zero = { { 0 } }, a, b;
	char out[ADDRESS_TEXT];

	(void)state;
	assert_true(address_is_zero(&zero));
	assert_true(address_parse(slice_of_text("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"), &a));
	assert_false(address_is_zero(&a));
	assert_false(address_eq(&a, &zero));
	assert_string_equal(address_format(&a, out), "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
	assert_true(address_parse(slice_of_text(out), &b));
	assert_true(address_eq(&a, &b));
}

/* hex */

static void test_hex_encode(void **state)
{
	char out[7] = "......";

	(void)state;
	hex_encode((const uint8_t *)"\x00\xaf\x5C", 3, out);
	assert_string_equal(out, "00af5c");
	hex_encode(NULL, 0, out);
	assert_string_equal(out, "00af5c");
}

static void assert_no_address(const char *text)
{
	struct address a;

	memset(&a, 0x5a, sizeof(a));
	assert_false(address_parse(slice_of_text(text), &a));
	for (size_t i = 0; i < sizeof(a.b); i++)
		assert_int_equal(a.b[i], 0x5a);
}

static void test_address_refused(void **state)
{
	(void)state;
	assert_no_address("");
	assert_no_address("0x");
	assert_no_address("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb4");	/* 39 digits */
	assert_no_address("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb480");	/* 41 */
	assert_no_address("0Xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
	assert_no_address("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
	assert_no_address("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb4800");	/* no prefix, right length */
	assert_no_address("0xg0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
	assert_no_address("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb4g");
	assert_no_address("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb4 ");
	assert_no_address(" 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb4");
	assert_no_address("0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb4\xe9");
}

static void test_hash_lengths(void **state)
{
	struct hash32 h;

	(void)state;
	assert_true(hash_parse(slice_of_text("0x" DIGITS_64), &h));
	assert_false(hash_parse(slice_of_text("0xf" DIGITS_64), &h));
	assert_false(hash_parse((struct slice){ (const uint8_t *)"0x" DIGITS_64, 65 }, &h));
	assert_false(hash_parse((struct slice){ NULL, 0 }, &h));
}

/* Every byte, as the high and as the low digit. */
static void test_hex_every_byte(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		const char *at = c ? strchr("0123456789abcdefABCDEF", c) : NULL;
		uint8_t text[] = { '0', 'x', (uint8_t)c, '0' }, out;

		assert_int_equal(hex_decode((struct slice){ text, 4 }, &out, 1), at != NULL);
		if (at)
			assert_int_equal(out >> 4, strtol((char[]){ *at, 0 }, NULL, 16));
		text[2] = '0';
		text[3] = (uint8_t)c;
		assert_int_equal(hex_decode((struct slice){ text, 4 }, &out, 1), at != NULL);
		if (at)
			assert_int_equal(out, strtol((char[]){ *at, 0 }, NULL, 16));
	}
}

static void test_hex_decode_lengths(void **state)
{
	uint8_t out[256];
	char text[2 + 512 + 1] = "0x";

	(void)state;
	assert_true(hex_decode(slice_of_text("0x"), out, 0));
	assert_false(hex_decode(slice_of_text("0x0"), out, 0));
	assert_false(hex_decode(slice_of_text("0x0"), out, 1));
	memset(text + 2, 'e', 512);
	assert_true(hex_decode(slice_of_text(text), out, 256));
	assert_int_equal(out[255], 0xee);
	assert_false(hex_decode(slice_of_text(text), out, 255));
}

static void test_hex_append(void **state)
{
	struct buf b = { 0 };

	(void)state;
	assert_true(hex_append(slice_of_text("0x"), &b));
	assert_int_equal(b.len, 0);
	assert_true(hex_append(slice_of_text("0x00Ff"), &b));
	assert_true(hex_append(slice_of_text("0x7a"), &b));
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "\x00\xff\x7a", 3);
	buf_free(&b);
}

static void test_hex_append_refused(void **state)
{
	static const char *const bad[] = { "", "0", "0x0", "0x123", "0X12", "12", "0x1g", "0xg1",
					   "0x12 ", "x0", "0x0x" };
	struct buf b = { 0 };

	(void)state;
	buf_put_text(&b, "kept");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(hex_append(slice_of_text(bad[i]), &b));
		assert_true(slice_is(buf_slice(&b), "kept"));
	}
	assert_false(hex_append((struct slice){ NULL, 0 }, &b));
	buf_free(&b);
}

/* quantities */

static void test_quantity_u64(void **state)
{
	uint64_t v;

	(void)state;
	assert_true(quantity_parse_u64(slice_of_text("0x0"), &v) && v == 0);
	assert_true(quantity_parse_u64(slice_of_text("0x1aF"), &v) && v == 0x1af);
	assert_true(quantity_parse_u64(slice_of_text("0x0001"), &v) && v == 1);
	assert_true(quantity_parse_u64(slice_of_text("0xffffffffffffffff"), &v) && v == UINT64_MAX);
	assert_true(quantity_parse_u64(slice_of_text("0x00ffffffffffffffff"), &v) && v == UINT64_MAX);
	v = 77;
	assert_false(quantity_parse_u64(slice_of_text("0x10000000000000000"), &v));
	assert_false(quantity_parse_u64(slice_of_text("0x1000000000000000000000000000000000"), &v));
	assert_false(quantity_parse_u64(slice_of_text("0x" DIGITS_64), &v));
	assert_true(v == 77);
}

static void test_quantity_refused(void **state)
{
	static const char *const bad[] = { "", "0", "0x", "x1", "0X1", "1", "12", "0xg", "0x1g", "0x 1",
					   "0x1 ", "-0x1", "0x-1", "0x1.", ("0x0" DIGITS_64) };
	struct u256 v = u256_from_u64(77);
	uint64_t small = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(quantity_parse_u64(slice_of_text(bad[i]), &small));
		assert_false(quantity_parse_u256(slice_of_text(bad[i]), &v));
	}
	assert_true(small == 77 && v.limb[0] == 77);
}

static void test_quantity_u256(void **state)
{
	struct u256 v;

	(void)state;
	assert_true(quantity_parse_u256(slice_of_text("0x" DIGITS_64), &v));
	assert_int_equal(u256_cmp(&v, &u256_max), 0);
	assert_true(quantity_parse_u256(slice_of_text("0x000"), &v));
	assert_true(u256_is_zero(&v));
	assert_true(quantity_parse_u256(slice_of_text("0x123456789abcdef0fedcba9876543210"), &v));
	assert_true(v.limb[0] == 0xfedcba9876543210 && v.limb[1] == 0x123456789abcdef0);
	assert_true(v.limb[2] == 0 && v.limb[3] == 0);
}

/* 256-bit arithmetic */

static void test_u256_be(void **state)
{
	uint8_t in[32], out[32];
	struct u256 v;

	(void)state;
	for (int i = 0; i < 32; i++)
		in[i] = (uint8_t)(i + 1);
	v = u256_from_be(in);
	assert_true(v.limb[3] == 0x0102030405060708 && v.limb[0] == 0x191a1b1c1d1e1f20);
	u256_to_be(&v, out);
	assert_memory_equal(in, out, 32);
}

static void test_u256_cmp(void **state)
{
	struct u256 zero = u256_from_u64(0), one = u256_from_u64(1), high = { { 0, 0, 0, 1 } };

	(void)state;
	assert_true(u256_is_zero(&zero));
	assert_false(u256_is_zero(&one));
	assert_false(u256_is_zero(&high));
	assert_int_equal(u256_cmp(&zero, &one), -1);
	assert_int_equal(u256_cmp(&one, &zero), 1);
	assert_int_equal(u256_cmp(&one, &one), 0);
	assert_int_equal(u256_cmp(&high, &one), 1);
	assert_int_equal(u256_cmp(&one, &high), -1);
	assert_int_equal(u256_cmp(&u256_max, &high), 1);
}

static void test_u256_add(void **state)
{
	struct u256 one = u256_from_u64(1), low = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, 0 } };
	struct u256 zero = { { 0 } }, out = u256_from_u64(77);

	(void)state;
	assert_false(u256_add(&u256_max, &one, &out));
	assert_false(u256_add(&one, &u256_max, &out));
	assert_false(u256_add(&u256_max, &u256_max, &out));
	assert_true(out.limb[0] == 77);
	assert_true(u256_add(&u256_max, &zero, &out));
	assert_int_equal(u256_cmp(&out, &u256_max), 0);
	assert_true(u256_add(&low, &one, &out));
	assert_true(out.limb[3] == 1 && !(out.limb[0] | out.limb[1] | out.limb[2]));
	assert_true(u256_add(&one, &one, &one));
	assert_true(one.limb[0] == 2);
	assert_true(u256_add(&low, &low, &out));
	assert_true(out.limb[0] == UINT64_MAX - 1 && out.limb[1] == UINT64_MAX &&
		    out.limb[2] == UINT64_MAX && out.limb[3] == 1);
}

static void test_u256_sub(void **state)
{
	struct u256 zero = { { 0 } }, one = u256_from_u64(1), high = { { 0, 0, 0, 1 } };
	struct u256 out = u256_from_u64(77);

	(void)state;
	assert_false(u256_sub(&zero, &one, &out));
	assert_false(u256_sub(&one, &high, &out));
	assert_false(u256_sub(&zero, &u256_max, &out));
	assert_true(out.limb[0] == 77);
	assert_true(u256_sub(&high, &one, &out));
	assert_true(out.limb[0] == UINT64_MAX && out.limb[1] == UINT64_MAX &&
		    out.limb[2] == UINT64_MAX && out.limb[3] == 0);
	assert_true(u256_sub(&u256_max, &u256_max, &out));
	assert_true(u256_is_zero(&out));
	assert_true(u256_sub(&one, &one, &one));
	assert_true(u256_is_zero(&one));
}

/* Random sparse limbs: a + b - b == a, and overflow exactly where the sum is below a part. */
static void test_u256_round(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int n = 0; n < 20000; n++) {
		struct u256 v[2], sum, back;

		for (int i = 0; i < 8; i++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			v[i / 4].limb[i % 4] = seed >> 62 == 0 ? 0 : seed >> 62 == 1 ? UINT64_MAX : seed;
		}
		if (!u256_add(&v[0], &v[1], &sum)) {
			assert_true(u256_sub(&u256_max, &v[0], &back));
			assert_int_equal(u256_cmp(&back, &v[1]), -1);
			continue;
		}
		assert_true(u256_sub(&sum, &v[1], &back));
		assert_int_equal(u256_cmp(&back, &v[0]), 0);
	}
}

/* decimal text */

static void assert_decimal(const char *text, const char *want)
{
	struct u256 v;
	char out[U256_TEXT];

	assert_true(u256_parse(slice_of_text(text), &v));
	assert_string_equal(u256_format(&v, out), want);
}

static void test_u256_text(void **state)
{
	(void)state;
	assert_decimal("0", "0");
	assert_decimal("000", "0");
	assert_decimal("1", "1");
	assert_decimal("00042", "42");
	assert_decimal("10", "10");
	assert_decimal("18446744073709551615", "18446744073709551615");
	assert_decimal("18446744073709551616", "18446744073709551616");
	assert_decimal("340282366920938463463374607431768211456", "340282366920938463463374607431768211456");
	assert_decimal(MAX_DECIMAL, MAX_DECIMAL);
	assert_decimal("0000" MAX_DECIMAL, MAX_DECIMAL);
}

static void test_u256_text_refused(void **state)
{
	static const char *const bad[] = {
		"", "-1", "+1", "1.5", "1.", ".5", "1e18", "1E18", " 1", "1 ", "1,000", "1_000", "0x10",
		"a", "1\n", "\xd9\xa1", "--", "NaN", OVER_DECIMAL, (MAX_DECIMAL "0"), ("1" MAX_DECIMAL),
		"999999999999999999999999999999999999999999999999999999999999999999999999999999",
	};
	struct u256 v = u256_from_u64(77);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(u256_parse(slice_of_text(bad[i]), &v));
	assert_false(u256_parse((struct slice){ NULL, 0 }, &v));
	assert_false(u256_parse((struct slice){ (const uint8_t *)"1\0" "2", 3 }, &v));
	assert_true(v.limb[0] == 77 && !v.limb[1]);
}

/* Each power of two, out and in. */
static void test_u256_text_powers(void **state)
{
	struct u256 v = u256_from_u64(1), back;
	char out[U256_TEXT];

	(void)state;
	for (int bit = 0; bit < 256; bit++) {
		assert_true(u256_parse(slice_of_text(u256_format(&v, out)), &back));
		assert_int_equal(u256_cmp(&v, &back), 0);
		assert_int_equal(u256_add(&v, &v, &v), bit < 255);
	}
}

static void test_u64_text(void **state)
{
	static const char *const bad[] = { "", "-1", "1.5", "1e18", "0x1", " 1", "18446744073709551616",
					   MAX_DECIMAL, OVER_DECIMAL };
	uint64_t v;

	(void)state;
	assert_true(u64_parse(slice_of_text("0"), &v) && v == 0);
	assert_true(u64_parse(slice_of_text("007"), &v) && v == 7);
	assert_true(u64_parse(slice_of_text("18446744073709551615"), &v) && v == UINT64_MAX);
	v = 77;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(u64_parse(slice_of_text(bad[i]), &v));
	assert_true(v == 77);
}

/* time */

static void assert_time(const char *text, int64_t want)
{
	int64_t ms;

	assert_true(time_parse(slice_of_text(text), &ms));
	assert_true(ms == want);
}

static void test_time_parse(void **state)
{
	(void)state;
	assert_time("1970-01-01T00:00:00Z", 0);
	assert_time("1970-01-01T00:00:00.001Z", 1);
	assert_time("1970-12-31T23:59:59.999Z", 31535999999);
	assert_time("1972-02-29T00:00:00Z", 68169600000);
	assert_time("1972-03-01T00:00:00Z", 68256000000);
	assert_time("2000-02-29T12:00:00Z", 951825600000);
	assert_time("2023-04-12T22:27:35Z", 1681338455000);	/* Shanghai */
	assert_time("2024-02-29T23:59:59.500Z", 1709251199500);
	assert_time("2026-01-01T00:00:12Z", 1767225612000);
	assert_time("2038-01-19T03:14:08Z", 2147483648000);
	assert_time("2100-03-01T00:00:00Z", 4107542400000);
	assert_time("9999-12-31T23:59:59.999Z", 253402300799999);
}

static void test_time_refused(void **state)
{
	static const char *const bad[] = {
		"", "2026", "2026-01-01", "2026-01-01T00:00:12", "2026-01-01 00:00:12Z",
		"2026-01-01T00:00:12z", "2026-01-01t00:00:12Z", "2026-01-01T00:00:12Z ",
		" 2026-01-01T00:00:12Z", "2026-01-01T00:00:12+00:00", "2026-01-01T00:00:12.5Z",
		"2026-01-01T00:00:12.1234Z", "2026-01-01T00:00:12,500Z", "2026-1-01T00:00:12Z",
		"2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z",
		"2026-01-32T00:00:00Z", "2026-04-31T00:00:00Z", "2026-02-29T00:00:00Z",
		"2024-02-30T00:00:00Z", "2100-02-29T00:00:00Z", "1900-02-28T00:00:00Z",
		"1969-12-31T23:59:59Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
		"2016-12-31T23:59:60Z", "-026-01-01T00:00:00Z", "2026-+1-01T00:00:00Z",
		"2026-01-01T00:00:00ZZZZZ", "2026-01-01T00:00:00.ZZZZ",
	};
	int64_t ms = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(time_parse(slice_of_text(bad[i]), &ms));
		assert_true(ms == 77);
	}
	assert_false(time_parse((struct slice){ NULL, 0 }, &ms));
}

static void test_time_format(void **state)
{
	char out[TIME_TEXT];

	(void)state;
	assert_string_equal(time_format(0, out), "1970-01-01T00:00:00.000Z");
	assert_string_equal(time_format(1767225612000, out), "2026-01-01T00:00:12.000Z");
	assert_string_equal(time_format(951782400000, out), "2000-02-29T00:00:00.000Z");
	assert_string_equal(time_format(1709251199999, out), "2024-02-29T23:59:59.999Z");
	assert_string_equal(time_format(4107542399999, out), "2100-02-28T23:59:59.999Z");
	assert_string_equal(time_format(253402300799999, out), "9999-12-31T23:59:59.999Z");
	assert_string_equal(time_format(253402300800000, out), "9999-12-31T23:59:59.999Z");
	assert_string_equal(time_format(INT64_MAX, out), "9999-12-31T23:59:59.999Z");
	assert_string_equal(time_format(-1, out), "1970-01-01T00:00:00.000Z");
	assert_string_equal(time_format(INT64_MIN, out), "1970-01-01T00:00:00.000Z");
}

/* Every day for 450 years: its last millisecond and the next day's first. */
static void test_time_every_day(void **state)
{
	(void)state;
	for (int64_t day = 0; day < 450 * 366; day++) {
		char before[TIME_TEXT], after[TIME_TEXT];

		time_format(day * 86400000 + 86399999, before);
		time_format((day + 1) * 86400000, after);
		assert_string_equal(before + 10, "T23:59:59.999Z");
		assert_string_equal(after + 10, "T00:00:00.000Z");
		assert_true(strcmp(before, after) < 0);
		assert_time(before, day * 86400000 + 86399999);
		assert_time(after, (day + 1) * 86400000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_err_names),
		cmocka_unit_test(test_complain),
		cmocka_unit_test(test_slice),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_buf_growth),
		cmocka_unit_test(test_buf_extend),
		cmocka_unit_test(test_buf_put),
		cmocka_unit_test(test_buf_printf),
		cmocka_unit_test(test_big_endian),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_hex_encode),
		cmocka_unit_test(test_address_refused),
		cmocka_unit_test(test_hash_lengths),
		cmocka_unit_test(test_hex_every_byte),
		cmocka_unit_test(test_hex_decode_lengths),
		cmocka_unit_test(test_hex_append),
		cmocka_unit_test(test_hex_append_refused),
		cmocka_unit_test(test_quantity_u64),
		cmocka_unit_test(test_quantity_refused),
		cmocka_unit_test(test_quantity_u256),
		cmocka_unit_test(test_u256_be),
		cmocka_unit_test(test_u256_cmp),
		cmocka_unit_test(test_u256_add),
		cmocka_unit_test(test_u256_sub),
		cmocka_unit_test(test_u256_round),
		cmocka_unit_test(test_u256_text),
		cmocka_unit_test(test_u256_text_refused),
		cmocka_unit_test(test_u256_text_powers),
		cmocka_unit_test(test_u64_text),
		cmocka_unit_test(test_time_parse),
		cmocka_unit_test(test_time_refused),
		cmocka_unit_test(test_time_format),
		cmocka_unit_test(test_time_every_day),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
