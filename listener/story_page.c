#include "listener/story_page.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_AT 15u		/* columns: two, the time, two, the rail, two */
#define NAME_COLUMNS_MIN 8

static const char *const codes[] = {
	[TONE_PLAIN] = "",
	[TONE_DIM] = "\033[2m",
	[TONE_BOLD] = "\033[1m",
	[TONE_GOOD] = "\033[32m",
	[TONE_WARN] = "\033[33m",
	[TONE_BAD] = "\033[31m",
};

/* Text. */

static bool is_tail(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

unsigned text_columns(const char *text)
{
	unsigned columns = 0;

	for (; *text; text++)
		columns += !is_tail(*text);
	return columns;
}

/* C0, DEL, C1 (c2 80 to c2 9f), and the invisible signs of e2 80 and e2 81, which turn text round. */
static bool is_control(const unsigned char *c)
{
	if (c[0] < 0x20 || c[0] == 0x7f)
		return true;
	if (c[0] == 0xc2)
		return c[1] < 0xa0;
	return c[0] == 0xe2 && ((c[1] == 0x80 && (c[2] < 0x90 || c[2] >= 0xa8)) || c[1] == 0x81) && c[2] < 0xb0;
}

void text_copy(char *out, size_t size, const char *text)
{
	size_t len = 0;

	while (*text && len + 1 < size) {
		bool bad = is_control((const unsigned char *)text);

		out[len++] = *text;
		if (bad)
			out[len - 1] = '?';
		for (text++; is_tail(*text); text++) {
			if (!bad && len + 1 < size)
				out[len++] = *text;
		}
	}
	out[len] = '\0';
}

static const char *shorten(const char *hex, char out[SHORT_TEXT])
{
	snprintf(out, SHORT_TEXT, "%.6s..%.4s", hex, hex + strlen(hex) - 4);
	return out;
}

const char *short_hash(const struct hash32 *h, char out[SHORT_TEXT])
{
	char text[HASH_TEXT];

	return shorten(hash_format(h, text), out);
}

const char *short_address(const struct address *a, char out[SHORT_TEXT])
{
	char text[ADDRESS_TEXT];

	return shorten(address_format(a, text), out);
}

/* The digits, with zeros before them so that one stands before the point. */
static void pad_digits(const struct u256 *v, unsigned decimals, char out[AMOUNT_TEXT])
{
	char digits[U256_TEXT];
	size_t len = strlen(u256_format(v, digits));
	size_t zeros = decimals >= len ? decimals + 1 - len : 0;

	memset(out, '0', zeros);
	memcpy(out + zeros, digits, len + 1);
}

const char *amount_format(const struct u256 *v, unsigned decimals, char out[AMOUNT_TEXT])
{
	char digits[AMOUNT_TEXT];
	size_t len, whole, end, at = 0;

	pad_digits(v, decimals, digits);
	len = end = strlen(digits);
	whole = len - decimals;
	while (end > whole + 2 && digits[end - 1] == '0')
		end--;
	for (size_t i = 0; i < end; i++) {
		if (i == whole)
			out[at++] = '.';
		else if (i && i < whole && (whole - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = '\0';
	return out;
}

const char *page_short_name(const char *name, char out[NAME_COLUMNS_MAX + 1])
{
	size_t len = strlen(name);

	if (len > NAME_COLUMNS_MAX)
		snprintf(out, NAME_COLUMNS_MAX + 1, "%.11s..%s", name, name + len - 7);
	else
		snprintf(out, NAME_COLUMNS_MAX + 1, "%s", name);
	return out;
}

/* Lines. */

static void put_toned(struct page *p, enum tone tone, const char *text, size_t len)
{
	bool toned = p->colour && tone != TONE_PLAIN && len;

	if (toned)
		fputs(codes[tone], p->out);
	fwrite(text, 1, len, p->out);
	if (toned)
		fputs("\033[0m", p->out);
}

/* The bytes of @text that fit into @columns, broken at a blank if there is one. */
static size_t fit(const char *text, unsigned columns)
{
	size_t at = 0, blank = 0;

	for (unsigned used = 0; text[at]; at++) {
		if (!is_tail(text[at]) && used++ == columns)
			return text[at] == ' ' || !blank ? at : blank;
		if (text[at] == ' ')
			blank = at;
	}
	return at;
}

static void put_blanks(struct page *p, unsigned columns)
{
	fprintf(p->out, "%*s", (int)columns, "");
}

static void put_time(struct page *p, const char *time)
{
	put_blanks(p, 10 - text_columns(time));
	put_toned(p, TONE_DIM, time, strlen(time));
}

static void put_rail(struct page *p, const char *mark, enum tone tone)
{
	put_blanks(p, mark || p->rail ? 2 : 0);
	if (mark)
		put_toned(p, tone, mark, strlen(mark));
	else if (p->rail)
		put_toned(p, TONE_DIM, "│", strlen("│"));
}

static void put_date(struct page *p, const char *now)
{
	char date[16];

	snprintf(date, sizeof(date), "%.10s", now);
	put_time(p, date);
	put_rail(p, NULL, TONE_DIM);
	fputc('\n', p->out);
}

/* The time, if it changed; a new day has a line of its own. */
static void say_time(struct page *p, char out[16])
{
	char now[TIME_TEXT], before[TIME_TEXT];

	time_format(p->now_ms, now);
	time_format(p->shown_ms, before);
	out[0] = '\0';
	if (!p->shown || strncmp(now, before, 10) != 0)
		put_date(p, now);
	if (!p->shown || strncmp(now, before, 19) != 0)
		snprintf(out, 16, "%.8s", now + 11);
	p->shown = true;
	p->shown_ms = p->now_ms;
}

struct paragraph {
	const char *mark;
	const char *name;	/* NULL: no column of names */
	enum tone tone;
};

static void put_name(struct page *p, const struct paragraph *g, bool first)
{
	char name[NAME_COLUMNS_MAX + 1];

	page_short_name(first ? g->name : "", name);
	put_toned(p, TONE_BOLD, name, strlen(name));
	put_blanks(p, p->name_columns + 2 - text_columns(name));
}

static void put_paragraph(struct page *p, const struct paragraph *g, const char *text)
{
	unsigned columns = PAGE_COLUMNS - TEXT_AT - (g->name ? p->name_columns + 2 : 0);
	char time[16];
	size_t len;

	say_time(p, time);
	for (bool first = true; first || *text; first = false, text += len) {
		while (*text == ' ' && !first)
			text++;
		len = fit(text, columns);
		put_time(p, first ? time : "");
		put_rail(p, first ? g->mark : NULL, g->tone);
		if (len || g->name)
			put_blanks(p, p->rail ? 2 : 5);
		if (g->name)
			put_name(p, g, first);
		put_toned(p, g->tone, text, len);
		fputc('\n', p->out);
	}
}

static void print(struct page *p, const struct paragraph *g, const char *fmt, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, args);
	put_paragraph(p, g, text);
}

void page_chain(struct page *p, const char *mark, enum tone tone, const char *fmt, ...)
{
	struct paragraph g = { .mark = mark, .tone = tone };
	va_list args;

	p->rail |= mark != NULL;
	p->subject[0] = '\0';
	va_start(args, fmt);
	print(p, &g, fmt, args);
	va_end(args);
}

void page_item(struct page *p, const char *name, enum tone tone, const char *fmt, ...)
{
	bool same = strcmp(p->subject, name) == 0;
	struct paragraph g = { .name = same ? "" : name, .tone = tone };
	va_list args;

	page_fit_name(p, name);
	snprintf(p->subject, sizeof(p->subject), "%s", name);
	va_start(args, fmt);
	print(p, &g, fmt, args);
	va_end(args);
}

void page_fit_name(struct page *p, const char *name)
{
	unsigned columns = text_columns(name);

	if (columns > NAME_COLUMNS_MAX)
		columns = NAME_COLUMNS_MAX;
	if (columns < NAME_COLUMNS_MIN)
		columns = NAME_COLUMNS_MIN;
	if (columns > p->name_columns)
		p->name_columns = columns;
}

void page_prose(struct page *p, enum tone tone, const char *fmt, ...)
{
	char text[1024];
	const char *at = text;
	va_list args;
	size_t len;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	do {
		len = fit(at, PAGE_COLUMNS);
		put_toned(p, tone, at, len);
		fputc('\n', p->out);
		at += len + (at[len] == ' ');
	} while (*at);
}
