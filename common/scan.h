/*
 * scan - a pull scanner for JSON text: for answers that carry a whole block
 * (ten times the speed of building a tree) and for finding raw spans in a tape.
 *
 * The caller asks for what it expects, member by member; what it does not know
 * it skips.  The first mistake sticks: every later call does nothing and gives
 * empty answers, and scan_failed() says where and why.  Skipped values are
 * checked for balance and strings, not for every detail of the grammar.
 * Depth is bounded by SCAN_DEPTH_MAX.
 */
#ifndef COMMON_SCAN_H
#define COMMON_SCAN_H

#include "common/types.h"

#define SCAN_DEPTH_MAX 64

enum scan_kind {
	SCAN_OBJECT,
	SCAN_ARRAY,
	SCAN_STRING,
	SCAN_NUMBER,
	SCAN_TRUE,
	SCAN_FALSE,
	SCAN_NULL,
	SCAN_END,		/* no value: end of text, or failed */
};

struct scan {
	const uint8_t *start;
	const uint8_t *at;
	const uint8_t *end;
	const char *error;	/* NULL until the first mistake */
	size_t error_at;	/* its byte offset */
	unsigned depth;
	bool fresh;		/* just inside a bracket: no comma before the next item */
};

struct scan scan_begin(struct slice text);

/* What the next value is, without consuming it. */
enum scan_kind scan_peek(struct scan *s);

/* Enter an object; then scan_member() until it says false, consuming each value. */
bool scan_object(struct scan *s);
/* The next member's name, raw as it stands between the quotes. */
bool scan_member(struct scan *s, struct slice *name);
/* Enter an array; then scan_element() until it says false, consuming each value. */
bool scan_array(struct scan *s);
bool scan_element(struct scan *s);

/* Consume a string; *@out is raw between the quotes (escapes stay as they are). */
bool scan_string(struct scan *s, struct slice *out);
/* Consume a string, or a number's text, or null (then *@out is empty with data NULL). */
bool scan_text_or_null(struct scan *s, struct slice *out);
/* Consume any value; *@raw (may be NULL) is its text, brackets and quotes included. */
bool scan_skip(struct scan *s, struct slice *raw);
/* Only white space is left. */
bool scan_at_end(struct scan *s);

bool scan_failed(const struct scan *s);

#endif
