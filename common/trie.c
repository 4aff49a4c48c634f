#include "common/trie.h"

#include "common/keccak.h"
#include "common/rlp.h"

/* rlp(index), one nibble a byte. */
#define KEY_MAX 18

struct key {
	uint8_t nibbles[KEY_MAX];
	size_t len;
};

struct trie {
	const struct slice *values;
	size_t count;
	struct buf *out;
};

/* Values at positions from..to - 1 of the keys' order; they share @depth nibbles. */
struct span {
	size_t from;
	size_t to;
	size_t depth;
};

/* The keys in order are rlp(1) .. rlp(127), rlp(0) = 0x80, rlp(128) = 0x8180 .. */
static size_t index_at(const struct trie *t, size_t position)
{
	size_t zero_at = (t->count < 128 ? t->count : 128) - 1;

	if (position < zero_at)
		return position + 1;
	return position == zero_at ? 0 : position;
}

static void push_byte(struct key *k, uint8_t byte)
{
	k->nibbles[k->len++] = byte >> 4;
	k->nibbles[k->len++] = byte & 15;
}

static struct key key_at(const struct trie *t, size_t position)
{
	uint64_t index = index_at(t, position);
	struct key k = { .len = 0 };
	int bytes = 0;

	while (bytes < 8 && index >> 8 * bytes)
		bytes++;
	if (index == 0 || index > 127)
		push_byte(&k, (uint8_t)(0x80 + bytes));
	while (bytes--)
		push_byte(&k, (uint8_t)(index >> 8 * bytes));
	return k;
}

/* The hex-prefix encoding of the nibbles from..to - 1. */
static void put_path(struct buf *out, const struct key *k, size_t from, size_t to, bool leaf)
{
	uint8_t path[1 + KEY_MAX / 2];
	size_t len = 1;

	path[0] = leaf ? 0x20 : 0;
	if ((to - from) % 2)
		path[0] |= 0x10 | k->nibbles[from++];
	for (; from < to; from += 2)
		path[len++] = (uint8_t)(k->nibbles[from] << 4 | k->nibbles[from + 1]);
	rlp_put_bytes(out, path, len);
}

/* The node that starts at @mark becomes its parent's reference to it: itself if short, else its hash. */
static void fold_node(struct buf *out, size_t mark)
{
	struct hash32 h;

	if (out->len - mark < sizeof(h.b))
		return;
	h = keccak256(out->data + mark, out->len - mark);
	out->len = mark;
	rlp_put_bytes(out, h.b, sizeof(h.b));
}

static void put_node(const struct trie *t, struct span s);

static void put_reference(const struct trie *t, struct span s)
{
	size_t mark = t->out->len;

	put_node(t, s);
	fold_node(t->out, mark);
}

static void put_branch(const struct trie *t, struct span s)
{
	for (uint8_t nibble = 0; nibble < 16; nibble++) {
		struct span child = { s.from, s.from, s.depth + 1 };

		while (child.to < s.to && key_at(t, child.to).nibbles[s.depth] == nibble)
			child.to++;
		if (child.from == child.to)
			rlp_put_bytes(t->out, NULL, 0);
		else
			put_reference(t, child);
		s.from = child.to;
	}
	rlp_put_bytes(t->out, NULL, 0);
}

/* Ordered keys share what the first and the last share; no key is another's prefix. */
static size_t shared_depth(const struct trie *t, struct span s, const struct key *first)
{
	struct key last = key_at(t, s.to - 1);

	while (first->nibbles[s.depth] == last.nibbles[s.depth])
		s.depth++;
	return s.depth;
}

static void put_items(const struct trie *t, struct span s)
{
	struct key first = key_at(t, s.from);
	size_t depth;

	if (s.to - s.from == 1) {
		struct slice value = t->values[index_at(t, s.from)];

		put_path(t->out, &first, s.depth, first.len, true);
		rlp_put_bytes(t->out, value.data, value.len);
		return;
	}
	depth = shared_depth(t, s, &first);
	if (depth == s.depth) {
		put_branch(t, s);
		return;
	}
	put_path(t->out, &first, s.depth, depth, false);
	put_reference(t, (struct span){ s.from, s.to, depth });
}

static void put_node(const struct trie *t, struct span s)
{
	size_t mark = rlp_open_list(t->out);

	put_items(t, s);
	rlp_close_list(t->out, mark);
}

struct hash32 trie_ordered_root(const struct slice *values, size_t count, struct buf *scratch)
{
	struct trie t = { values, count, scratch };

	scratch->len = 0;
	if (count == 0)
		rlp_put_bytes(scratch, NULL, 0);
	else
		put_node(&t, (struct span){ 0, count, 0 });
	return keccak256(scratch->data, scratch->len);
}
