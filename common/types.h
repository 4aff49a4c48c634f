/*
 * types - the vocabulary of every other file: errors, byte spans, growable
 * bytes, hashes, addresses, 256-bit amounts and their text forms.
 *
 * Nothing here does I/O.  Only types.c touches the limbs of a struct u256.
 */
#ifndef COMMON_TYPES_H
#define COMMON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What an operation can end with.  A question answers bool instead. */
enum err {
	OK = 0,
	/* bad input: from a file, a user or a node; never fatal to the process */
	E_INPUT,		/* malformed or out of range */
	E_PEER,			/* an endpoint's answer does not hold */
	E_CONFLICT,		/* same identity, another content */
	E_REFUSED,		/* well formed, but not allowed here */
	E_NOT_FOUND,
	/* refusals of the intent's state machine, in the order it judges */
	E_VERSION_CONFLICT,
	E_TERMINAL,
	E_ILLEGAL_TRANSITION,
	E_FORBIDDEN_ACTOR,
	E_MISSING_EVIDENCE,
	E_TX_MISMATCH,
	/* the store */
	E_IO,
	E_FULL,
	E_CORRUPT,
	E_SCHEMA,		/* written by another schema version */
	E_GENESIS,		/* holds another chain of the same id */
};

/* The code's stable name, "E_TERMINAL". */
const char *err_name(enum err err);

/* One line that says where and why; filled by whoever returns an error. */
struct complaint {
	char text[512];
};

/* Write the line (cut at the end if too long) and give @err back. */
enum err complain(struct complaint *c, enum err err, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Borrowed bytes. */
struct slice {
	const uint8_t *data;
	size_t len;
};

struct slice slice_of_text(const char *text);
bool slice_is(struct slice s, const char *text);

/* Memory that cannot be had ends the process: no path pretends to recover. */
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes);
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *text);

/* Growable bytes.  All zero is an empty one; free with buf_free(). */
struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

void buf_free(struct buf *b);
/* Room for @len more bytes at the end; returns where they start. */
uint8_t *buf_extend(struct buf *b, size_t len);
void buf_put(struct buf *b, const void *data, size_t len);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct slice buf_slice(const struct buf *b);

/* Big-endian integers, the byte order of every key in the store. */
void be64_put(uint8_t out[8], uint64_t v);
uint64_t be64_get(const uint8_t in[8]);
void be32_put(uint8_t out[4], uint32_t v);
uint32_t be32_get(const uint8_t in[4]);

struct hash32 {
	uint8_t b[32];
};

struct address {
	uint8_t b[20];
};

#define HASH_TEXT 67		/* "0x", 64 digits, NUL */
#define ADDRESS_TEXT 43
#define U256_TEXT 79		/* 78 digits, NUL */

bool hash_eq(const struct hash32 *a, const struct hash32 *b);
bool hash_is_zero(const struct hash32 *h);
bool address_eq(const struct address *a, const struct address *b);
bool address_is_zero(const struct address *a);

/* Lower-case text with "0x" into @out; returns @out. */
const char *hash_format(const struct hash32 *h, char out[HASH_TEXT]);
const char *address_format(const struct address *a, char out[ADDRESS_TEXT]);

/*
 * Hex of one exact length: "0x" and 2 * @len digits of either case.
 * False, and @out untouched, for anything else ("0X", 63 digits, a 'g').
 */
bool hex_decode(struct slice text, uint8_t *out, size_t len);
bool hash_parse(struct slice text, struct hash32 *out);
bool address_parse(struct slice text, struct address *out);
/* Hex of any even length: appends the bytes.  False, with @out as it was, for an odd length or a bad digit. */
bool hex_append(struct slice text, struct buf *out);
void hex_encode(const uint8_t *data, size_t len, char *out);	/* 2 * len digits, no NUL */

/*
 * A JSON-RPC quantity: "0x" and 1 to 64 digits.  Leading zeros are accepted
 *; "0x" alone is not a quantity.  False if it does not fit.
 */
struct u256;
bool quantity_parse_u64(struct slice text, uint64_t *out);
bool quantity_parse_u256(struct slice text, struct u256 *out);

/* Unsigned 256 bits, in base units of a token.  Least significant limb first. */
struct u256 {
	uint64_t limb[4];
};

struct u256 u256_from_u64(uint64_t v);
struct u256 u256_from_be(const uint8_t bytes[32]);
void u256_to_be(const struct u256 *v, uint8_t out[32]);
bool u256_is_zero(const struct u256 *v);
int u256_cmp(const struct u256 *a, const struct u256 *b);
/* False on overflow or borrow; *@out is then untouched. */
MUST_CHECK bool u256_add(const struct u256 *a, const struct u256 *b, struct u256 *out);
MUST_CHECK bool u256_sub(const struct u256 *a, const struct u256 *b, struct u256 *out);
/* Decimal digits only: no sign, point, exponent, space; at most 2^256-1. */
bool u256_parse(struct slice text, struct u256 *out);
const char *u256_format(const struct u256 *v, char out[U256_TEXT]);

/* Decimal digits only, at most 2^64-1. */
bool u64_parse(struct slice text, uint64_t *out);

/* ISO 8601 in UTC to the second or millisecond, "2026-01-01T00:00:12Z". */
#define TIME_TEXT 64
bool time_parse(struct slice text, int64_t *out_ms);
const char *time_format(int64_t ms, char out[TIME_TEXT]);

#endif
