#include "listener/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PORT_MAX 65535

/* What stands before the first of @marks, which @rest then begins with. */
static struct slice take_until(const char **rest, const char *end, const char *marks)
{
	size_t len = strcspn(*rest, marks), most = (size_t)(end - *rest);
	struct slice taken = { (const uint8_t *)*rest, len < most ? len : most };

	*rest += taken.len;
	return taken;
}

/* Without the mark that it begins with. */
static struct slice behind_mark(const char *from, const char *end)
{
	return (struct slice){ (const uint8_t *)from + (from < end), (size_t)(end - from) - (from < end) };
}

static void split_authority(const char *from, const char *end, struct url *u)
{
	const char *at = end;

	while (at > from && at[-1] != '@')
		at--;
	if (at > from) {
		u->user = take_until(&from, at - 1, ":");
		u->password = behind_mark(from, at - 1);
	}
	from = at;
	u->host = take_until(&at, end, *at == '[' ? "]" : ":");
	if (at < end && *at == ']') {
		at++;
		u->host.len++;
	}
	u->port = behind_mark(at, end);
}

struct url url_split(const char *text)
{
	const char *scheme_end = strstr(text, "://"), *from = scheme_end ? scheme_end + 3 : text;
	const char *end = from + strcspn(from, "/?#");
	struct url u = { .scheme = { (const uint8_t *)text, scheme_end ? (size_t)(scheme_end - text) : 0 } };

	split_authority(from, end, &u);
	from = end;
	end = from + strcspn(from, "#");
	u.path = take_until(&from, end, "?");
	u.query = behind_mark(from, end);
	return u;
}

static bool is_same(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

static bool is_same_word(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0);
}

static bool is_secure(const struct url *u)
{
	return is_same_word(u->scheme, slice_of_text("https")) || is_same_word(u->scheme, slice_of_text("wss"));
}

/* PORT_MAX + 1 for what is no port. */
static uint64_t port_of(const struct url *u)
{
	uint64_t port = is_secure(u) ? 443 : 80;

	return !u->port.len || (u64_parse(u->port, &port) && port <= PORT_MAX) ? port : PORT_MAX + 1;
}

static struct slice path_of(const struct url *u)
{
	return u->path.len ? u->path : slice_of_text("/");
}

bool url_same(const char *a, const char *b)
{
	struct url x = url_split(a), y = url_split(b);

	return is_same_word(x.scheme, y.scheme) && is_same(x.user, y.user) && is_same(x.password, y.password) &&
	       is_same_word(x.host, y.host) && port_of(&x) == port_of(&y) && is_same(path_of(&x), path_of(&y)) &&
	       is_same(x.query, y.query);
}

/* Not what a slip of the pen made of a key. */
static bool is_host(struct slice host)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";

	for (size_t i = 0; i < host.len; i++) {
		if (!memchr(plain, host.data[i], sizeof(plain) - 1))
			return false;
	}
	return host.len > 0;
}

const char *url_host(const char *text, char out[URL_HOST_TEXT])
{
	struct url u = url_split(text);

	if (!u.scheme.len || !is_host(u.host) || port_of(&u) > PORT_MAX)
		snprintf(out, URL_HOST_TEXT, "?");
	else
		snprintf(out, URL_HOST_TEXT, "%.*s%s%.*s", (int)u.host.len, (const char *)u.host.data, u.port.len ? ":" : "",
			 (int)u.port.len, (const char *)u.port.data);
	return out;
}
