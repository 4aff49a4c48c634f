#include "common/scan.h"

#include <string.h>

/* The first mistake is kept; standing at the end, every later call finds no value. */
static bool fail(struct scan *s, const char *error)
{
	if (!s->error) {
		s->error = error;
		s->error_at = (size_t)(s->at - s->start);
	}
	s->at = s->end;
	return false;
}

struct scan scan_begin(struct slice text)
{
	static const uint8_t nothing[1];
	const uint8_t *start = text.data ? text.data : nothing;

	return (struct scan){ .start = start, .at = start, .end = start + text.len };
}

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline void skip_space(struct scan *s)
{
	while (s->at < s->end && *s->at <= ' ' && is_space(*s->at))
		s->at++;
}

static bool skip_byte(struct scan *s, uint8_t c)
{
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* One more than the kind of value that begins with the byte; 0 where none does. */
static const uint8_t kind_of_byte[256] = {
	['{'] = SCAN_OBJECT + 1,
	['['] = SCAN_ARRAY + 1,
	['"'] = SCAN_STRING + 1,
	['t'] = SCAN_TRUE + 1,
	['f'] = SCAN_FALSE + 1,
	['n'] = SCAN_NULL + 1,
	['-'] = SCAN_NUMBER + 1,
	['0'] = SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1,
	SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1, SCAN_NUMBER + 1,
};

enum scan_kind scan_peek(struct scan *s)
{
	skip_space(s);
	if (s->at < s->end && kind_of_byte[*s->at])
		return (enum scan_kind)(kind_of_byte[*s->at] - 1);
	fail(s, s->at < s->end ? "no JSON value" : "the text ends where a value should be");
	return SCAN_END;
}

static bool enter(struct scan *s)
{
	if (s->depth == SCAN_DEPTH_MAX)
		return fail(s, "too deep");
	s->depth++;
	s->at++;
	s->fresh = true;
	return true;
}

/* Past the comma before the next item; false after the closing bracket. */
static bool next_item(struct scan *s, uint8_t closing)
{
	bool fresh = s->fresh;

	skip_space(s);
	s->fresh = false;
	if (skip_byte(s, closing)) {
		s->depth--;
		return false;
	}
	if (!fresh && !skip_byte(s, ','))
		return fail(s, "neither a comma nor the closing bracket");
	return true;
}

bool scan_object(struct scan *s)
{
	if (scan_peek(s) != SCAN_OBJECT)
		return fail(s, "not an object");
	return enter(s);
}

bool scan_member(struct scan *s, struct slice *name)
{
	if (!next_item(s, '}') || !scan_string(s, name))
		return false;
	skip_space(s);
	if (!skip_byte(s, ':'))
		return fail(s, "no colon after a name");
	return true;
}

bool scan_array(struct scan *s)
{
	if (scan_peek(s) != SCAN_ARRAY)
		return fail(s, "not an array");
	return enter(s);
}

bool scan_element(struct scan *s)
{
	return next_item(s, ']') && scan_peek(s) != SCAN_END;
}

/* Whether an odd number of backslashes stands before @quote. */
static bool is_escaped(const uint8_t *quote)
{
	const uint8_t *p = quote;

	while (p[-1] == '\\')
		p--;
	return (quote - p) % 2;
}

/* From an opening quote past the closing one; its place, or NULL. */
static const uint8_t *skip_string(struct scan *s)
{
	const uint8_t *p = s->at;

	do {
		p++;
		p = memchr(p, '"', (size_t)(s->end - p));
		if (!p) {
			fail(s, "a string without an end");
			return NULL;
		}
	} while (is_escaped(p));
	s->at = p + 1;
	return p;
}

bool scan_string(struct scan *s, struct slice *out)
{
	const uint8_t *start, *quote;

	*out = (struct slice){ 0 };
	skip_space(s);
	if (s->at == s->end || *s->at != '"')
		return fail(s, "not a string");
	start = s->at + 1;
	quote = skip_string(s);
	if (!quote)
		return false;
	*out = (struct slice){ start, (size_t)(quote - start) };
	return true;
}

static bool skip_digits(struct scan *s)
{
	const uint8_t *first = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return s->at > first;
}

static bool skip_number(struct scan *s)
{
	bool ok;

	skip_byte(s, '-');
	ok = skip_byte(s, '0') || skip_digits(s);
	if (ok && skip_byte(s, '.'))
		ok = skip_digits(s);
	if (ok && (skip_byte(s, 'e') || skip_byte(s, 'E'))) {
		if (!skip_byte(s, '-'))
			skip_byte(s, '+');
		ok = skip_digits(s);
	}
	return ok || fail(s, "a malformed number");
}

static bool skip_word(struct scan *s, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
		return fail(s, "a word other than true, false and null");
	s->at += len;
	return true;
}

/* Anything without brackets. */
static bool skip_scalar(struct scan *s, enum scan_kind kind)
{
	switch (kind) {
	case SCAN_STRING:
		return skip_string(s) != NULL;
	case SCAN_NUMBER:
		return skip_number(s);
	case SCAN_TRUE:
		return skip_word(s, "true");
	case SCAN_FALSE:
		return skip_word(s, "false");
	case SCAN_NULL:
		return skip_word(s, "null");
	case SCAN_OBJECT:
	case SCAN_ARRAY:
	case SCAN_END:
		break;
	}
	return false;
}

static uint64_t level_bit(unsigned depth)
{
	_Static_assert(SCAN_DEPTH_MAX <= 64, "one bit a level");
	return depth ? 1ULL << (depth - 1) : 0;
}

/* Past a closing bracket; @objects has the bits of the levels that are objects. */
static bool leave(struct scan *s, uint64_t objects)
{
	bool is_object = objects & level_bit(s->depth);

	if (is_object != (*s->at == '}'))
		return fail(s, "the wrong closing bracket");
	s->depth--;
	s->at++;
	return true;
}

static bool skip_container(struct scan *s)
{
	unsigned outside = s->depth;
	uint64_t objects = 0;
	bool ok;

	do {
		uint8_t c = s->at < s->end ? *s->at : 0;

		if (c == ',' || c == ':' || is_space(c)) {
			s->at++;
			continue;
		}
		if (c == '{' || c == '[') {
			ok = enter(s);
			objects &= ~level_bit(s->depth);
			objects |= c == '{' ? level_bit(s->depth) : 0;
		} else if (c == '}' || c == ']') {
			ok = leave(s, objects);
		} else {
			ok = skip_scalar(s, scan_peek(s));
		}
		if (!ok)
			return false;
	} while (s->depth > outside);
	s->fresh = false;
	return true;
}

static bool skip_value(struct scan *s)
{
	enum scan_kind kind = scan_peek(s);

	if (kind == SCAN_OBJECT || kind == SCAN_ARRAY)
		return skip_container(s);
	return skip_scalar(s, kind);
}

bool scan_skip(struct scan *s, struct slice *raw)
{
	const uint8_t *start;
	bool ok;

	skip_space(s);
	start = s->at;
	ok = skip_value(s);
	if (raw)
		*raw = ok ? (struct slice){ start, (size_t)(s->at - start) } : (struct slice){ 0 };
	return ok;
}

bool scan_text_or_null(struct scan *s, struct slice *out)
{
	enum scan_kind kind = scan_peek(s);

	*out = (struct slice){ 0 };
	if (kind == SCAN_STRING)
		return scan_string(s, out);
	if (kind == SCAN_NUMBER)
		return scan_skip(s, out);
	if (kind == SCAN_NULL)
		return scan_skip(s, NULL);
	return fail(s, "neither a string nor a number nor null");
}

bool scan_at_end(struct scan *s)
{
	skip_space(s);
	if (s->at < s->end)
		fail(s, "more text after the value");
	return !s->error;
}

bool scan_failed(const struct scan *s)
{
	return s->error != NULL;
}
