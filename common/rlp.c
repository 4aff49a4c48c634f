#include "common/rlp.h"

#include <string.h>

/* What the prefix byte of a string or a list counts from. */
#define STRING 0x80
#define LIST 0xc0

/* The longest payload whose length stands in the prefix byte itself. */
#define SHORT_MAX 55

/* Writes the prefix of @len bytes of payload; returns its own length, 1 to 9. */
static size_t make_prefix(uint8_t kind, size_t len, uint8_t out[9])
{
	uint8_t be[8];
	size_t zeros = 0;

	if (len <= SHORT_MAX) {
		out[0] = (uint8_t)(kind + len);
		return 1;
	}
	be64_put(be, len);
	while (be[zeros] == 0)
		zeros++;
	out[0] = (uint8_t)(kind + SHORT_MAX + 8 - zeros);
	memcpy(out + 1, be + zeros, 8 - zeros);
	return 9 - zeros;
}

void rlp_put_bytes(struct buf *out, const void *data, size_t len)
{
	uint8_t prefix[9];

	if (len != 1 || *(const uint8_t *)data >= STRING)
		buf_put(out, prefix, make_prefix(STRING, len, prefix));
	buf_put(out, data, len);
}

static void put_integer(struct buf *out, const uint8_t *be, size_t len)
{
	while (len && *be == 0) {
		be++;
		len--;
	}
	rlp_put_bytes(out, be, len);
}

void rlp_put_u64(struct buf *out, uint64_t v)
{
	uint8_t be[8];

	be64_put(be, v);
	put_integer(out, be, sizeof(be));
}

void rlp_put_u256(struct buf *out, const struct u256 *v)
{
	uint8_t be[32];

	u256_to_be(v, be);
	put_integer(out, be, sizeof(be));
}

size_t rlp_open_list(struct buf *out)
{
	return out->len;
}

void rlp_close_list(struct buf *out, size_t mark)
{
	uint8_t prefix[9];
	size_t len = out->len - mark;
	size_t prefix_len = make_prefix(LIST, len, prefix);

	buf_extend(out, prefix_len);
	memmove(out->data + mark + prefix_len, out->data + mark, len);
	memcpy(out->data + mark, prefix, prefix_len);
}
