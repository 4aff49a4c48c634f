#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/rlp.h"

/* Compare with hex digits and empty @out for the next case. */
static void assert_hex(struct buf *out, const char *want)
{
	char *got = xcalloc(1, 2 * out->len + 1);

	hex_encode(out->data, out->len, got);
	assert_string_equal(got, want);
	free(got);
	out->len = 0;
}

static void put_text(struct buf *out, const char *text)
{
	rlp_put_bytes(out, text, strlen(text));
}

static void test_bytes(void **state)
{
	struct buf out = { 0 };

	(void)state;
	put_text(&out, "dog");
	assert_hex(&out, "83646f67");
	put_text(&out, "");
	assert_hex(&out, "80");
	rlp_put_bytes(&out, NULL, 0);
	assert_hex(&out, "80");
	rlp_put_bytes(&out, "\x04\x00", 2);
	assert_hex(&out, "820400");
	buf_free(&out);
}

static void test_one_byte(void **state)
{
	struct buf out = { 0 };

	(void)state;
	rlp_put_bytes(&out, "\x00", 1);
	assert_hex(&out, "00");
	rlp_put_bytes(&out, "\x0f", 1);
	assert_hex(&out, "0f");
	rlp_put_bytes(&out, "\x7f", 1);
	assert_hex(&out, "7f");
	rlp_put_bytes(&out, "\x80", 1);
	assert_hex(&out, "8180");
	rlp_put_bytes(&out, "\xff", 1);
	assert_hex(&out, "81ff");
	buf_free(&out);
}

/* The prefix is @want and the bytes follow. */
static void assert_prefix(size_t len, const char *want)
{
	uint8_t *data = xmalloc(len);
	struct buf out = { 0 };
	size_t prefix_len = strlen(want) / 2;

	memset(data, 0xa5, len);
	rlp_put_bytes(&out, data, len);
	assert_int_equal(out.len, prefix_len + len);
	assert_memory_equal(out.data + prefix_len, data, len);
	out.len = prefix_len;
	assert_hex(&out, want);
	buf_free(&out);
	free(data);
}

static void test_length_edges(void **state)
{
	(void)state;
	assert_prefix(2, "82");
	assert_prefix(55, "b7");
	assert_prefix(56, "b838");
	assert_prefix(255, "b8ff");
	assert_prefix(256, "b90100");
	assert_prefix(65535, "b9ffff");
	assert_prefix(65536, "ba010000");
	assert_prefix(16777216, "bb01000000");
}

static void test_spec_sentence(void **state)
{
	struct buf out = { 0 };

	(void)state;
	put_text(&out, "Lorem ipsum dolor sit amet, consectetur adipisicing elit");
	assert_hex(&out, "b8384c6f72656d20697073756d20646f6c6f722073697420616d65742c20636f6e7365"
			 "637465747572206164697069736963696e6720656c6974");
	buf_free(&out);
}

static void test_u64(void **state)
{
	static const struct {
		uint64_t v;
		const char *want;
	} cases[] = {
		{ 0, "80" }, { 1, "01" }, { 15, "0f" }, { 127, "7f" }, { 128, "8180" },
		{ 255, "81ff" }, { 256, "820100" }, { 1024, "820400" }, { 100000, "830186a0" },
		{ UINT32_MAX, "84ffffffff" }, { 1ull << 32, "850100000000" },
		{ 1ull << 56, "880100000000000000" }, { UINT64_MAX, "88ffffffffffffffff" },
	};
	struct buf out = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rlp_put_u64(&out, cases[i].v);
		assert_hex(&out, cases[i].want);
	}
	buf_free(&out);
}

static void test_u256(void **state)
{
	static const struct {
		const char *v;
		const char *want;
	} cases[] = {
		{ "0x0", "80" },
		{ "0x7f", "7f" },
		{ "0x80", "8180" },
		{ "0xffffffffffffffff", "88ffffffffffffffff" },
		{ "0x10000000000000000", "89010000000000000000" },
		{ "0x102030405060708090a0b0c0d0e0f2", "8f102030405060708090a0b0c0d0e0f2" },
		{ "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		  "a0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" },
	};
	struct buf out = { 0 };
	struct u256 v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(quantity_parse_u256(slice_of_text(cases[i].v), &v));
		rlp_put_u256(&out, &v);
		assert_hex(&out, cases[i].want);
	}
	buf_free(&out);
}

static void put_empty_list(struct buf *out)
{
	rlp_close_list(out, rlp_open_list(out));
}

static void test_lists(void **state)
{
	struct buf out = { 0 };
	size_t mark;

	(void)state;
	put_empty_list(&out);
	assert_hex(&out, "c0");
	mark = rlp_open_list(&out);
	put_text(&out, "cat");
	put_text(&out, "dog");
	rlp_close_list(&out, mark);
	assert_hex(&out, "c88363617483646f67");
	buf_free(&out);
}

/* [ [], [[]], [ [], [[]] ] ], the set-theoretic three. */
static void test_nested_lists(void **state)
{
	struct buf out = { 0 };
	size_t three = rlp_open_list(&out), one, two;

	(void)state;
	put_empty_list(&out);
	one = rlp_open_list(&out);
	put_empty_list(&out);
	rlp_close_list(&out, one);
	two = rlp_open_list(&out);
	put_empty_list(&out);
	one = rlp_open_list(&out);
	put_empty_list(&out);
	rlp_close_list(&out, one);
	rlp_close_list(&out, two);
	rlp_close_list(&out, three);
	assert_hex(&out, "c7c0c1c0c3c0c1c0");
	buf_free(&out);
}

/* A list of @count one-byte items, behind a byte that is not part of it. */
static void assert_list_prefix(size_t count, const char *want)
{
	struct buf out = { 0 };
	size_t prefix_len = strlen(want) / 2, mark;

	buf_put_u8(&out, 0xee);
	mark = rlp_open_list(&out);
	for (size_t i = 0; i < count; i++)
		rlp_put_u64(&out, 1 + i % 100);
	rlp_close_list(&out, mark);
	assert_int_equal(out.len, 1 + prefix_len + count);
	assert_int_equal(out.data[0], 0xee);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(out.data[1 + prefix_len + i], 1 + i % 100);
	memmove(out.data, out.data + 1, prefix_len);
	out.len = prefix_len;
	assert_hex(&out, want);
	buf_free(&out);
}

static void test_list_length_edges(void **state)
{
	(void)state;
	assert_list_prefix(1, "c1");
	assert_list_prefix(55, "f7");
	assert_list_prefix(56, "f838");
	assert_list_prefix(63, "f83f");		/* with the byte in front the buffer is just full */
	assert_list_prefix(255, "f8ff");
	assert_list_prefix(256, "f90100");
	assert_list_prefix(65535, "f9ffff");
	assert_list_prefix(65536, "fa010000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_one_byte),
		cmocka_unit_test(test_length_edges),
		cmocka_unit_test(test_spec_sentence),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_u256),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_nested_lists),
		cmocka_unit_test(test_list_length_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
