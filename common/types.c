#include "common/types.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const err_names[] = {
	[OK] = "OK",
	[E_INPUT] = "E_INPUT",
	[E_PEER] = "E_PEER",
	[E_CONFLICT] = "E_CONFLICT",
	[E_REFUSED] = "E_REFUSED",
	[E_NOT_FOUND] = "E_NOT_FOUND",
	[E_VERSION_CONFLICT] = "E_VERSION_CONFLICT",
	[E_TERMINAL] = "E_TERMINAL",
	[E_ILLEGAL_TRANSITION] = "E_ILLEGAL_TRANSITION",
	[E_FORBIDDEN_ACTOR] = "E_FORBIDDEN_ACTOR",
	[E_MISSING_EVIDENCE] = "E_MISSING_EVIDENCE",
	[E_TX_MISMATCH] = "E_TX_MISMATCH",
	[E_IO] = "E_IO",
	[E_FULL] = "E_FULL",
	[E_CORRUPT] = "E_CORRUPT",
	[E_SCHEMA] = "E_SCHEMA",
	[E_GENESIS] = "E_GENESIS",
};

const char *err_name(enum err err)
{
	return err_names[err];
}

enum err complain(struct complaint *c, enum err err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->text, sizeof(c->text), fmt, args);
	va_end(args);
	return err;
}

struct slice slice_of_text(const char *text)
{
	return (struct slice){ (const uint8_t *)text, strlen(text) };
}

bool slice_is(struct slice s, const char *text)
{
	return s.len == strlen(text) && (s.len == 0 || memcmp(s.data, text, s.len) == 0);
}

static void *must_have(void *p)
{
	if (!p) {
		fputs("out of memory\n", stderr);
		abort();
	}
	return p;
}

void *xmalloc(size_t bytes)
{
	return must_have(malloc(bytes ? bytes : 1));
}

void *xcalloc(size_t count, size_t bytes)
{
	return must_have(calloc(count ? count : 1, bytes ? bytes : 1));
}

void *xrealloc(void *p, size_t bytes)
{
	return must_have(realloc(p, bytes ? bytes : 1));
}

char *xstrdup(const char *text)
{
	return must_have(strdup(text));
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

uint8_t *buf_extend(struct buf *b, size_t len)
{
	if (!b->data || b->cap - b->len < len) {
		size_t cap = b->cap ? b->cap * 2 : 64;

		while (cap - b->len < len)
			cap *= 2;
		b->data = xrealloc(b->data, cap);
		b->cap = cap;
	}
	b->len += len;
	return b->data + b->len - len;
}

void buf_put(struct buf *b, const void *data, size_t len)
{
	if (len)
		memcpy(buf_extend(b, len), data, len);
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	*buf_extend(b, 1) = v;
}

void buf_put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args, again;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	vsnprintf((char *)buf_extend(b, (size_t)len + 1), (size_t)len + 1, fmt, again);
	va_end(again);
	b->len--;
}

struct slice buf_slice(const struct buf *b)
{
	return (struct slice){ b->data, b->len };
}

void be64_put(uint8_t out[8], uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		out[i] = (uint8_t)v;
}

uint64_t be64_get(const uint8_t in[8])
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | in[i];
	return v;
}

void be32_put(uint8_t out[4], uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		out[i] = (uint8_t)v;
}

uint32_t be32_get(const uint8_t in[4])
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | in[i];
	return v;
}

static bool all_zero(const uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (b[i])
			return false;
	}
	return true;
}

bool hash_eq(const struct hash32 *a, const struct hash32 *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool hash_is_zero(const struct hash32 *h)
{
	return all_zero(h->b, sizeof(h->b));
}

bool address_eq(const struct address *a, const struct address *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool address_is_zero(const struct address *a)
{
	return all_zero(a->b, sizeof(a->b));
}

void hex_encode(const uint8_t *data, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[data[i] >> 4];
		out[2 * i + 1] = digits[data[i] & 15];
	}
}

static const char *format_bytes(const uint8_t *data, size_t len, char *out)
{
	out[0] = '0';
	out[1] = 'x';
	hex_encode(data, len, out + 2);
	out[2 + 2 * len] = '\0';
	return out;
}

const char *hash_format(const struct hash32 *h, char out[HASH_TEXT])
{
	return format_bytes(h->b, sizeof(h->b), out);
}

const char *address_format(const struct address *a, char out[ADDRESS_TEXT])
{
	return format_bytes(a->b, sizeof(a->b), out);
}

/* One more than the digit's value; 0 where the byte is no hex digit. */
static const uint8_t digit_plus_one[256] = {
	['0'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
	['A'] = 11, 12, 13, 14, 15, 16,
	['a'] = 11, 12, 13, 14, 15, 16,
};

/* The digit's value; 0xff for no hex digit. */
static uint8_t digit_value(uint8_t c)
{
	return (uint8_t)(digit_plus_one[c] - 1);
}

static bool has_hex_prefix(struct slice text)
{
	return text.len >= 2 && text.data[0] == '0' && text.data[1] == 'x';
}

static bool decode_digits(const uint8_t *text, uint8_t *out, size_t len)
{
	uint8_t bad = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

		bad |= (high | low) & 0xf0;
		out[i] = (uint8_t)(high << 4 | (low & 15));
	}
	return !bad;
}

bool hex_decode(struct slice text, uint8_t *out, size_t len)
{
	uint8_t bytes[256];

	if (text.len != 2 + 2 * len || !has_hex_prefix(text) || len > sizeof(bytes))
		return false;
	if (!decode_digits(text.data + 2, bytes, len))
		return false;
	memcpy(out, bytes, len);
	return true;
}

bool hash_parse(struct slice text, struct hash32 *out)
{
	return hex_decode(text, out->b, sizeof(out->b));
}

bool address_parse(struct slice text, struct address *out)
{
	return hex_decode(text, out->b, sizeof(out->b));
}

bool hex_append(struct slice text, struct buf *out)
{
	size_t len = text.len / 2 - 1;

	if (!has_hex_prefix(text) || text.len % 2)
		return false;
	if (!decode_digits(text.data + 2, buf_extend(out, len), len)) {
		out->len -= len;
		return false;
	}
	return true;
}

bool quantity_parse_u256(struct slice text, struct u256 *out)
{
	struct u256 v = { 0 };

	if (!has_hex_prefix(text) || text.len < 3 || text.len > 66)
		return false;
	for (size_t i = 2; i < text.len; i++) {
		uint8_t digit = digit_value(text.data[i]);

		if (digit > 15)
			return false;
		for (int k = 3; k > 0; k--)
			v.limb[k] = v.limb[k] << 4 | v.limb[k - 1] >> 60;
		v.limb[0] = v.limb[0] << 4 | digit;
	}
	*out = v;
	return true;
}

bool quantity_parse_u64(struct slice text, uint64_t *out)
{
	struct u256 v;

	if (!quantity_parse_u256(text, &v) || v.limb[1] || v.limb[2] || v.limb[3])
		return false;
	*out = v.limb[0];
	return true;
}

struct u256 u256_from_u64(uint64_t v)
{
	return (struct u256){ { v } };
}

struct u256 u256_from_be(const uint8_t bytes[32])
{
	struct u256 v;

	for (int i = 0; i < 4; i++)
		v.limb[i] = be64_get(bytes + 8 * (3 - i));
	return v;
}

void u256_to_be(const struct u256 *v, uint8_t out[32])
{
	for (int i = 0; i < 4; i++)
		be64_put(out + 8 * (3 - i), v->limb[i]);
}

bool u256_is_zero(const struct u256 *v)
{
	return !(v->limb[0] | v->limb[1] | v->limb[2] | v->limb[3]);
}

int u256_cmp(const struct u256 *a, const struct u256 *b)
{
	for (int i = 3; i >= 0; i--) {
		if (a->limb[i] != b->limb[i])
			return a->limb[i] < b->limb[i] ? -1 : 1;
	}
	return 0;
}

bool u256_add(const struct u256 *a, const struct u256 *b, struct u256 *out)
{
	struct u256 sum;
	bool carry = false;

	for (int i = 0; i < 4; i++) {
		bool over = __builtin_add_overflow(a->limb[i], b->limb[i], &sum.limb[i]);

		carry = over | __builtin_add_overflow(sum.limb[i], (uint64_t)carry, &sum.limb[i]);
	}
	if (carry)
		return false;
	*out = sum;
	return true;
}

bool u256_sub(const struct u256 *a, const struct u256 *b, struct u256 *out)
{
	struct u256 rest;
	bool borrow = false;

	for (int i = 0; i < 4; i++) {
		bool under = __builtin_sub_overflow(a->limb[i], b->limb[i], &rest.limb[i]);

		borrow = under | __builtin_sub_overflow(rest.limb[i], (uint64_t)borrow, &rest.limb[i]);
	}
	if (borrow)
		return false;
	*out = rest;
	return true;
}

/* v = v * 10 + digit; false on overflow. */
static bool push_digit(struct u256 *v, unsigned digit)
{
	unsigned __int128 carry = digit;

	for (int i = 0; i < 4; i++) {
		carry += (unsigned __int128)v->limb[i] * 10;
		v->limb[i] = (uint64_t)carry;
		carry >>= 64;
	}
	return carry == 0;
}

bool u256_parse(struct slice text, struct u256 *out)
{
	struct u256 v = { 0 };

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.data[i];

		if (c < '0' || c > '9' || !push_digit(&v, c - '0'))
			return false;
	}
	*out = v;
	return true;
}

bool u64_parse(struct slice text, uint64_t *out)
{
	struct u256 v;

	if (!u256_parse(text, &v) || v.limb[1] || v.limb[2] || v.limb[3])
		return false;
	*out = v.limb[0];
	return true;
}

/* v = v / 10; returns the remainder. */
static unsigned pop_digit(struct u256 *v)
{
	unsigned __int128 rest = 0;

	for (int i = 3; i >= 0; i--) {
		rest = rest << 64 | v->limb[i];
		v->limb[i] = (uint64_t)(rest / 10);
		rest %= 10;
	}
	return (unsigned)rest;
}

const char *u256_format(const struct u256 *v, char out[U256_TEXT])
{
	struct u256 rest = *v;
	char digits[U256_TEXT];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + pop_digit(&rest));
	while (!u256_is_zero(&rest));
	memcpy(out, digits + at, sizeof(digits) - at);
	return out;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar. */
static int64_t days_from_date(int64_t year, int month, int day)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	int64_t last = year - (month <= 2);
	int64_t leaps = last / 4 - last / 100 + last / 400 - 477;

	return (year - 1970) * 365 + leaps + before[month - 1] + day - 1;
}

static int days_in_month(int64_t year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

/* Exactly @count digits at *@at, which moves past them and one @after. */
static bool take_number(struct slice text, size_t *at, size_t count, char after, int *out)
{
	int v = 0;

	if (*at + count + 1 > text.len)
		return false;
	for (size_t i = 0; i < count; i++) {
		uint8_t c = text.data[(*at)++];

		if (c < '0' || c > '9')
			return false;
		v = v * 10 + (c - '0');
	}
	*out = v;
	return text.data[(*at)++] == (uint8_t)after;
}

bool time_parse(struct slice text, int64_t *out_ms)
{
	int year, month, day, hour, minute, second, ms = 0;
	size_t at = 0;
	bool fraction = text.len == 24;

	if (!take_number(text, &at, 4, '-', &year) || !take_number(text, &at, 2, '-', &month) ||
	    !take_number(text, &at, 2, 'T', &day) || !take_number(text, &at, 2, ':', &hour) ||
	    !take_number(text, &at, 2, ':', &minute) ||
	    !take_number(text, &at, 2, fraction ? '.' : 'Z', &second) ||
	    (fraction && !take_number(text, &at, 3, 'Z', &ms)) || at != text.len)
		return false;
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
	    hour > 23 || minute > 59 || second > 59)
		return false;
	*out_ms = ((days_from_date(year, month, day) * 24 + hour) * 60 + minute) * 60000LL +
		  second * 1000 + ms;
	return true;
}

/* The last instant that has a four-digit year. */
#define TIME_MAX_MS 253402300799999LL

const char *time_format(int64_t ms, char out[TIME_TEXT])
{
	int64_t clamped = ms < 0 ? 0 : ms > TIME_MAX_MS ? TIME_MAX_MS : ms;
	int64_t days = clamped / 86400000, rest = clamped % 86400000;
	int64_t year = 1970 + days / 366;
	int month = 1;

	while (days_from_date(year + 1, 1, 1) <= days)
		year++;
	days -= days_from_date(year, 1, 1);
	while (days >= days_in_month(year, month))
		days -= days_in_month(year, month++);
	snprintf(out, TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, month, (int)days + 1,
		 (int)(rest / 3600000), (int)(rest / 60000 % 60), (int)(rest / 1000 % 60),
		 (int)(rest % 1000));
	return out;
}
