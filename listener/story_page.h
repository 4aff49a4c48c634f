/*
 * story_page - the paper that a story is written on: a column of times, a rail
 * with the chain, and text beside it, wrapped at 100 columns.
 *
 * A line of the chain bears a mark on the rail; what happens to a payment is an
 * item beside the rail, its name in a column of its own and its text hanging.
 */
#ifndef LISTENER_STORY_PAGE_H
#define LISTENER_STORY_PAGE_H

#include "common/types.h"

#include <stdio.h>

#define PAGE_COLUMNS 100

enum tone {
	TONE_PLAIN,
	TONE_DIM,
	TONE_BOLD,
	TONE_GOOD,
	TONE_WARN,
	TONE_BAD,
};

struct page {
	FILE *out;		/* borrowed */
	bool colour;
	bool rail;		/* drawn: some block was told */
	int64_t now_ms;		/* of the next line; the time is shown where it changed */
	bool shown;		/* a time was */
	int64_t shown_ms;
	unsigned name_columns;	/* of the widest name so far, within bounds */
	char subject[65];	/* the name of the item above; empty: a line of the chain is */
};

/* Prose at the left edge; "" is an empty line. */
void page_prose(struct page *p, enum tone tone, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A line of the chain; @mark is one column, NULL only the rail. */
void page_chain(struct page *p, const char *mark, enum tone tone, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Beside the rail; @name is shown unless the item above bears it already. */
void page_item(struct page *p, const char *name, enum tone tone, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Let the column of names be wide enough for @name. */
void page_fit_name(struct page *p, const char *name);

/* The name as it is shown: cut in its middle if it is long. */
#define NAME_COLUMNS_MAX 20
const char *page_short_name(const char *name, char out[NAME_COLUMNS_MAX + 1]);

/* Columns that @text takes. */
unsigned text_columns(const char *text);
/* Copy what others wrote; control characters, which could steer a terminal, become '?'. */
void text_copy(char *out, size_t size, const char *text);

#define SHORT_TEXT 16
/* "0x1234..abcd"; returns @out. */
const char *short_hash(const struct hash32 *h, char out[SHORT_TEXT]);
const char *short_address(const struct address *a, char out[SHORT_TEXT]);

#define AMOUNT_TEXT 400
/* "1,250.00": all that are not zero of the decimals, but two at least where the token has them. */
const char *amount_format(const struct u256 *v, unsigned decimals, char out[AMOUNT_TEXT]);

#endif
