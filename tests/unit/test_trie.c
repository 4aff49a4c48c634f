#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/keccak.h"
#include "common/rlp.h"
#include "common/trie.h"

/*
 * The reference: one tree node per nibble, filled key by key, no path
 * compression.  The trie's leaves, extensions and branches are read off it
 * only when it is encoded.  Keys are never a prefix of each other here.
 */
struct node {
	struct node *child[16];
	const struct slice *value;
};

static struct node *child_at(struct node *n, uint8_t nibble)
{
	if (!n->child[nibble])
		n->child[nibble] = xcalloc(1, sizeof(*n));
	return n->child[nibble];
}

static void insert(struct node *root, size_t index, const struct slice *value)
{
	struct buf key = { 0 };
	struct node *n = root;

	rlp_put_u64(&key, index);
	for (size_t i = 0; i < key.len; i++)
		n = child_at(child_at(n, key.data[i] >> 4), key.data[i] & 15);
	n->value = value;
	buf_free(&key);
}

static void free_tree(struct node *n)
{
	if (!n)
		return;
	for (int i = 0; i < 16; i++)
		free_tree(n->child[i]);
	free(n);
}

static bool has_one_child(const struct node *n, uint8_t *nibble)
{
	int count = 0;

	for (uint8_t i = 0; i < 16; i++) {
		if (n->child[i]) {
			*nibble = i;
			count++;
		}
	}
	return count == 1;
}

/* Goes down while there is one way, noting it in @path; returns its length. */
static size_t follow(const struct node **n, uint8_t path[64])
{
	size_t len = 0;

	while (!(*n)->value && has_one_child(*n, &path[len]))
		*n = (*n)->child[path[len++]];
	return len;
}

/* Hex prefix as the yellow paper has it: flag nibble, padding nibble if even, path. */
static void put_path(struct buf *out, const uint8_t *path, size_t len, bool leaf)
{
	uint8_t nibbles[66] = { 0 }, bytes[33];
	size_t start = len % 2 ? 1 : 2;

	nibbles[0] = (uint8_t)((leaf ? 2 : 0) + len % 2);
	memcpy(nibbles + start, path, len);
	for (size_t i = 0; i < (start + len) / 2; i++)
		bytes[i] = (uint8_t)(nibbles[2 * i] * 16 + nibbles[2 * i + 1]);
	rlp_put_bytes(out, bytes, (start + len) / 2);
}

static struct buf encode(const struct node *n);

static void put_reference(struct buf *out, const struct node *n)
{
	struct buf b = encode(n);
	struct hash32 h = keccak256(b.data, b.len);

	if (b.len < 32)
		buf_put(out, b.data, b.len);
	else
		rlp_put_bytes(out, h.b, sizeof(h.b));
	buf_free(&b);
}

static void put_branch(struct buf *out, const struct node *n)
{
	for (int i = 0; i < 16; i++) {
		if (n->child[i])
			put_reference(out, n->child[i]);
		else
			buf_put_u8(out, 0x80);
	}
	buf_put_u8(out, 0x80);
}

static struct buf encode(const struct node *n)
{
	struct buf out = { 0 };
	uint8_t path[64];
	size_t len = follow(&n, path), mark = rlp_open_list(&out);

	if (n->value) {
		put_path(&out, path, len, true);
		rlp_put_bytes(&out, n->value->data, n->value->len);
	} else if (len) {
		put_path(&out, path, len, false);
		put_reference(&out, n);
	} else {
		put_branch(&out, n);
	}
	rlp_close_list(&out, mark);
	return out;
}

static struct hash32 reference_root(const struct slice *values, size_t count)
{
	struct node *root = xcalloc(1, sizeof(*root));
	struct buf b = { 0 };
	struct hash32 h;

	for (size_t i = 0; i < count; i++)
		insert(root, i, &values[i]);
	if (count)
		b = encode(root);
	else
		buf_put_u8(&b, 0x80);
	h = keccak256(b.data, b.len);
	buf_free(&b);
	free_tree(root);
	return h;
}

static void assert_root(const struct hash32 *h, const char *want)
{
	char out[HASH_TEXT];

	assert_string_equal(hash_format(h, out), want);
}

static void test_empty(void **state)
{
	struct buf scratch = { 0 };
	struct hash32 h = trie_ordered_root(NULL, 0, &scratch);

	(void)state;
	assert_root(&h, "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");
	buf_free(&scratch);
}

/* Value i: 1 + 13 i mod @modulus bytes that count up from 7 i + 1. */
static void fill_values(struct slice *values, size_t count, size_t modulus, uint8_t ramp[512])
{
	for (size_t i = 0; i < 512; i++)
		ramp[i] = (uint8_t)i;
	for (size_t i = 0; i < count; i++)
		values[i] = (struct slice){ ramp + (i * 7 + 1) % 256, 1 + i * 13 % modulus };
}

/* Roots by @ethereumjs/trie 6. */
static void test_ethereumjs_roots(void **state)
{
	static const struct {
		size_t count, modulus;
		const char *root;
	} cases[] = {
		{ 0, 1,
		  "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421" },
		{ 1, 1,
		  "0xac92bc8d02906a87a573c32c72bb427036f0e43d7a7375c5c491ebba064add15" },
		{ 2, 1,
		  "0xe9ad7202c0b3a5edb188b1da423768a425acb1611775a43c8425982883178f8b" },
		{ 3, 1,
		  "0xafa2faf6aa1aa82e751423ae9a0c8d7bc938ccb05330e61b4c36ec1d7e012570" },
		{ 16, 1,
		  "0x73fee744327eab249946f000289aa2eec1158935835c6c21296e1f8265c21071" },
		{ 17, 3,
		  "0xe5bc41eeeaeaa03c775228609428f903371dae2f3d1ea73fb83fc52942d487c2" },
		{ 127, 1,
		  "0x86a5b7f1df74044401913725c3dcd0d9f39916c339336068589834a350fc29f2" },
		{ 128, 5,
		  "0x361be5a3e57f770d2847ba8f4c64e3878677c16b2de4cb5db5ab5bc8a11020aa" },
		{ 129, 33,
		  "0xa63c0b0fd83acd5c3571117b0457530d21f98c889e664486e99858d4f4410b28" },
		{ 200, 200,
		  "0x8760252ee147d75a5b8b79d40f75ea165cb8af8fa9b4587f7504dbb1ec837f7d" },
		{ 300, 2,
		  "0xdcb305f5acba978ad0809b9b6a613e4f0ec992b0cc7c03969ee6a3567a9210df" },
		{ 1000, 200,
		  "0x159fb3c3321700f62b0a049ad1a2834ea10508f1686f7d3396abd2930837d403" },
		{ 70000, 40,
		  "0xd1e874eb690f69716f1174c04da2921495fea7cdd1472ec4ad2686db3b7d9c92" },
	};
	struct slice *values = xcalloc(70000, sizeof(*values));
	struct buf scratch = { 0 };
	uint8_t ramp[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hash32 h;

		fill_values(values, cases[i].count, cases[i].modulus, ramp);
		h = trie_ordered_root(values, cases[i].count, &scratch);
		assert_root(&h, cases[i].root);
	}
	buf_free(&scratch);
	free(values);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return *seed >> 33;
}

/* Values of 1 to @len_max random bytes, half of them of one to three. */
static void fill_random(struct slice *values, size_t count, size_t len_max, uint8_t pool[4096],
			uint64_t seed)
{
	for (size_t i = 0; i < 4096; i++)
		pool[i] = (uint8_t)next_random(&seed);
	for (size_t i = 0; i < count; i++) {
		size_t most = next_random(&seed) % 2 && len_max > 3 ? 3 : len_max;

		values[i].len = 1 + next_random(&seed) % most;
		values[i].data = pool + next_random(&seed) % (4096 - values[i].len);
	}
}

static void assert_same_as_reference(size_t count, size_t len_max, struct buf *scratch)
{
	struct slice *values = xcalloc(count, sizeof(*values));
	uint8_t pool[4096];
	struct hash32 ours, theirs;

	fill_random(values, count, len_max, pool, count * 1000 + len_max);
	ours = trie_ordered_root(values, count, scratch);
	theirs = reference_root(values, count);
	assert_memory_equal(ours.b, theirs.b, sizeof(ours.b));
	free(values);
}

/* One byte throughout folds whole branches inline; 31 bytes and about are the edge of a leaf. */
static void test_against_reference(void **state)
{
	static const size_t lens[] = { 1, 2, 29, 35, 200 };
	struct buf scratch = { 0 };

	(void)state;
	for (size_t count = 0; count <= 300; count++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
			assert_same_as_reference(count, lens[i], &scratch);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_same_as_reference(1000, lens[i], &scratch);
	buf_free(&scratch);
}

/* Where rlp(index) grows a byte, and the count that the header promises. */
static void test_large_counts(void **state)
{
	static const size_t counts[] = { 4095, 4097, 65535, 65536, 65537, 65538, 70000 };
	struct buf scratch = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		assert_same_as_reference(counts[i], 50, &scratch);
	buf_free(&scratch);
}

/* Every length around the 32 bytes at which a node becomes a hash. */
static void test_node_length_edge(void **state)
{
	struct buf scratch = { 0 };
	uint8_t pool[64];

	(void)state;
	memset(pool, 0xa5, sizeof(pool));
	for (size_t len = 1; len <= 64; len++) {
		for (size_t count = 1; count <= 40; count++) {
			struct slice values[40];
			struct hash32 ours, theirs;

			for (size_t i = 0; i < count; i++)
				values[i] = (struct slice){ pool, len };
			ours = trie_ordered_root(values, count, &scratch);
			theirs = reference_root(values, count);
			assert_memory_equal(ours.b, theirs.b, sizeof(ours.b));
		}
	}
	buf_free(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_ethereumjs_roots),
		cmocka_unit_test(test_against_reference),
		cmocka_unit_test(test_large_counts),
		cmocka_unit_test(test_node_length_edge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
