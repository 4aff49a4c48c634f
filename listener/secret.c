#include "listener/secret.h"

#include "listener/url.h"

#include <ctype.h>
#include <string.h>

#define PART_MIN 6
#define MARK "***"		/* shorter than any part */

static int digit_of(uint8_t c)
{
	return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* The next character, taken off @s, as it is compared: forms write a blank as '+', we what is not printable as '?'. */
static int take_char(struct slice *s, bool decodes)
{
	bool encoded = decodes && s->len > 2 && s->data[0] == '%' && digit_of(s->data[1]) >= 0 && digit_of(s->data[2]) >= 0;
	int c = encoded ? digit_of(s->data[1]) * 16 + digit_of(s->data[2]) : s->data[0];

	s->data += encoded ? 3 : 1;
	s->len -= encoded ? 3 : 1;
	if (c < ' ' || c > '~')
		return '?';
	return c == '+' ? ' ' : tolower(c);
}

/* With a beginning alone goes the word that it stands in: it may be another key, that is like this one. */
static struct slice skip_word(struct slice text)
{
	while (text.len && (isalnum(text.data[0]) || strchr("-._~%+=$", text.data[0]))) {
		text.data++;
		text.len--;
	}
	return text;
}

/* How many bytes of @text, from its first, are @part or enough of its beginning. */
static size_t match_as(struct slice text, struct slice part, bool decodes)
{
	const uint8_t *begin = text.data;
	struct slice t = text, p = part;
	unsigned count = 0;

	while (text.len && part.len && take_char(&t, decodes) == take_char(&p, true)) {
		text = t;
		part = p;
		count++;
	}
	if (count < PART_MIN)
		return 0;
	return (size_t)((part.len ? skip_word(text).data : text.data) - begin);
}

static size_t longer(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t match(struct slice text, struct slice part)
{
	return longer(match_as(text, part, false), match_as(text, part, true));
}

/* What stands before the first @mark is taken off @rest, and the mark too. */
static struct slice take_piece(struct slice *rest, char mark)
{
	const uint8_t *end = memchr(rest->data, mark, rest->len);
	struct slice piece = { rest->data, end ? (size_t)(end - rest->data) : rest->len };
	size_t taken = piece.len + (end != NULL);

	rest->data += taken;
	rest->len -= taken;
	return piece;
}

static size_t match_path(struct slice text, struct slice path)
{
	size_t len = 0;

	while (path.len)
		len = longer(len, match(text, take_piece(&path, '/')));
	return len;
}

/* Of a member without a name the whole is its value. */
static size_t match_query(struct slice text, struct slice query)
{
	size_t len = 0;

	while (query.len) {
		struct slice value = take_piece(&query, '&'), name = take_piece(&value, '=');

		len = longer(len, match(text, value.len ? value : name));
	}
	return len;
}

static size_t match_any(struct slice text, const struct url *u)
{
	size_t in_user = longer(match(text, u->user), match(text, u->password));

	return longer(in_user, longer(match_path(text, u->path), match_query(text, u->query)));
}

void secret_cut(const char *url, char *text)
{
	struct url u = url_split(url);
	struct slice rest = slice_of_text(text);
	char *out = text;

	while (rest.len) {
		size_t len = match_any(rest, &u);

		if (len) {
			memcpy(out, MARK, strlen(MARK));
			out += strlen(MARK);
		} else {
			*out++ = (char)rest.data[0];
			len = 1;
		}
		rest.data += len;
		rest.len -= len;
	}
	*out = '\0';
}
