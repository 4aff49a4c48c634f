#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <wolfssl/options.h>
#include <wolfssl/wolfcrypt/hash.h>
#include <wolfssl/wolfcrypt/sha3.h>

#include "common/keccak.h"

static void fill(uint8_t *data, size_t len)
{
	uint64_t v = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < len; i++) {
		v = v * 6364136223846793005 + 1442695040888963407;
		data[i] = (uint8_t)(v >> 56);
	}
}

static void assert_hash(const char *text, const char *want)
{
	struct hash32 h = keccak256(text, strlen(text));
	char out[HASH_TEXT];

	assert_string_equal(hash_format(&h, out), want);
}

static void test_known_vectors(void **state)
{
	(void)state;
	assert_hash("", "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
	assert_hash("abc", "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
	assert_hash("Transfer(address,address,uint256)",
		    "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
}

static void test_null_is_empty(void **state)
{
	struct hash32 a = keccak256(NULL, 0), b = keccak256("", 0);

	(void)state;
	assert_true(hash_eq(&a, &b));
}

static struct hash32 wolf_keccak256(const uint8_t *data, size_t len)
{
	struct hash32 h;
	wc_Sha3 sha;

	assert_int_equal(wc_InitSha3_256(&sha, NULL, INVALID_DEVID), 0);
	assert_int_equal(wc_Sha3_SetFlags(&sha, WC_HASH_SHA3_KECCAK256), 0);
	assert_int_equal(wc_Sha3_256_Update(&sha, data, (word32)len), 0);
	assert_int_equal(wc_Sha3_256_Final(&sha, h.b), 0);
	wc_Sha3_256_Free(&sha);
	return h;
}

/* @data is a block of exactly @len bytes, so ASan sees a read past it. */
static void assert_same_as_wolf(const uint8_t *bytes, size_t len)
{
	uint8_t *data = xmalloc(len);
	struct hash32 ours, theirs;

	memcpy(data, bytes, len);
	ours = keccak256(data, len);
	theirs = wolf_keccak256(data, len);
	assert_memory_equal(ours.b, theirs.b, sizeof(ours.b));
	free(data);
}

static void test_every_short_length(void **state)
{
	uint8_t data[600];

	(void)state;
	fill(data, sizeof(data));
	for (size_t len = 0; len <= sizeof(data); len++)
		assert_same_as_wolf(data, len);
}

static void test_large(void **state)
{
	static const size_t lens[] = { 4096, 65535, 65536, 136 * 500 - 1, 136 * 500, 1000003 };
	uint8_t *data = xmalloc(1000003);

	(void)state;
	fill(data, 1000003);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_same_as_wolf(data, lens[i]);
	free(data);
}

static void test_unaligned(void **state)
{
	uint8_t data[400];

	(void)state;
	fill(data, sizeof(data));
	for (size_t skip = 0; skip < 9; skip++) {
		struct hash32 ours = keccak256(data + skip, 300);
		struct hash32 theirs = wolf_keccak256(data + skip, 300);

		assert_memory_equal(ours.b, theirs.b, sizeof(ours.b));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_vectors),
		cmocka_unit_test(test_null_is_empty),
		cmocka_unit_test(test_every_short_length),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_unaligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
