#include "listener/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static void refuse(struct http *h, int status, const char *why)
{
	h->state = HTTP_REFUSED;
	h->status = status;
	h->why = why;
	h->keeps_alive = false;
}

/* --- lines ---------------------------------------------------------------- */

static bool is_clean(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* The line without its end, or NULL: not whole, or refused. */
static char *end_line(struct http *h)
{
	struct buf *b = &h->line;
	size_t len = b->len - 1;

	if (len > 0 && b->data[len - 1] == '\r')
		len--;
	b->data[len] = '\0';
	b->len = 0;
	if (is_clean((char *)b->data, len))
		return (char *)b->data;
	refuse(h, 400, "a control byte in the head");
	return NULL;
}

/* Good until the next. */
static char *take_line(struct http *h, struct slice *in)
{
	const uint8_t *newline = memchr(in->data, '\n', in->len);
	size_t len = newline ? (size_t)(newline - in->data) + 1 : in->len;

	h->lines_bytes += len;
	if (h->lines_bytes > HTTP_HEAD_MAX_BYTES) {
		refuse(h, h->state == HTTP_REQUEST_LINE ? 414 : 431, "the head is too long");
		return NULL;
	}
	buf_put(&h->line, in->data, len);
	in->data += len;
	in->len -= len;
	return newline ? end_line(h) : NULL;
}

/* --- the head ------------------------------------------------------------- */

static const char *known_method(const char *method)
{
	return strcmp(method, "GET") == 0 ? "GET" : strcmp(method, "POST") == 0 ? "POST" : NULL;
}

static void split_target(struct http *h, const char *target)
{
	char *question;

	buf_put(&h->target, target, strlen(target) + 1);
	h->path = (char *)h->target.data;
	h->query = h->path + strlen(target);
	question = strchr(h->path, '?');
	if (!question)
		return;
	*question = '\0';
	h->query = question + 1;
}

static void judge_request_line(struct http *h, const char *method, const char *target, const char *version)
{
	h->is_old = strcmp(version, "HTTP/1.0") == 0;
	h->wants_head = strcmp(method, "HEAD") == 0;
	h->method = known_method(method);
	if (strncmp(version, "HTTP/", 5) != 0)
		refuse(h, 400, "no HTTP");
	else if (!h->is_old && strcmp(version, "HTTP/1.1") != 0)
		refuse(h, 505, "only HTTP/1.0 and 1.1");
	else if (!h->method)
		refuse(h, 405, "only GET and POST");
	else if (target[0] != '/' || strpbrk(target, " \t"))
		refuse(h, 400, "the target is no path");
	else
		split_target(h, target);
}

static void on_request_line(struct http *h, char *line)
{
	char *target = strchr(line, ' '), *version = strrchr(line, ' ');

	if (!*line)
		return;			/* some send one after a body */
	if (!target || target == version) {
		refuse(h, 400, "no request line");
		return;
	}
	*target++ = '\0';
	*version++ = '\0';
	h->state = HTTP_HEADERS;
	judge_request_line(h, line, target, version);
}

static bool has_token(const char *list, const char *token)
{
	size_t len = strlen(token);

	while (*list) {
		list += strspn(list, ", \t");
		if (strncasecmp(list, token, len) == 0 && strchr(", \t/;", list[len]))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

static void on_length(struct http *h, const char *value)
{
	if (h->has_length || !u64_parse(slice_of_text(value), &h->length))
		refuse(h, 400, "the Content-Length is no single number");
	h->has_length = true;
}

static void on_encoding(struct http *h, const char *value)
{
	if (h->chunked || h->is_old)
		refuse(h, 400, "a Transfer-Encoding twice, or in HTTP/1.0");
	else if (strcasecmp(value, "chunked") != 0)
		refuse(h, 501, "a Transfer-Encoding other than chunked");
	h->chunked = true;
}

static void on_connection(struct http *h, const char *value)
{
	h->says_close |= has_token(value, "close");
	h->says_keep |= has_token(value, "keep-alive");
}

static void on_upgrade(struct http *h, const char *value)
{
	if (has_token(value, "websocket"))
		refuse(h, 400, "no WebSocket here");
}

/* A page in somebody's browser is nobody to ask us. */
static void on_origin(struct http *h, const char *value)
{
	(void)value;
	refuse(h, 403, "a browser's page may not ask here");
}

static void on_expect(struct http *h, const char *value)
{
	h->wants_continue = !h->is_old && strcasecmp(value, "100-continue") == 0;
}

static const struct {
	const char *name;
	void (*on)(struct http *h, const char *value);
} known_headers[] = {
	{ "content-length", on_length },
	{ "transfer-encoding", on_encoding },
	{ "connection", on_connection },
	{ "upgrade", on_upgrade },
	{ "expect", on_expect },
	{ "origin", on_origin },
};

static char *trimmed(char *text)
{
	size_t len;

	text += strspn(text, " \t");
	for (len = strlen(text); len > 0 && strchr(" \t", text[len - 1]); len--)
		;
	text[len] = '\0';
	return text;
}

static void on_head_end(struct http *h)
{
	h->keeps_alive = !h->says_close && (!h->is_old || h->says_keep);
	h->lines_bytes = 0;
	if (h->has_length && h->chunked)
		refuse(h, 400, "both a Content-Length and chunks");
	else if (h->length > h->body_max_bytes)
		refuse(h, 413, "the body is too large");
	else
		h->state = h->chunked ? HTTP_CHUNK_SIZE : h->length ? HTTP_BODY : HTTP_WHOLE;
}

static void on_header(struct http *h, char *line)
{
	size_t len = strcspn(line, ": \t");
	char *value;

	if (!*line) {
		on_head_end(h);
		return;
	}
	if (len == 0 || line[len] != ':') {
		refuse(h, 400, "a header without a name");
		return;
	}
	line[len] = '\0';
	value = trimmed(line + len + 1);
	for (size_t i = 0; i < ARRAY_SIZE(known_headers); i++) {
		if (strcasecmp(line, known_headers[i].name) == 0)
			known_headers[i].on(h, value);
	}
}

/* --- the body ------------------------------------------------------------- */

static void on_chunk_size(struct http *h, const char *line)
{
	size_t digits = strspn(line, "0123456789abcdefABCDEF");

	if (digits == 0 || digits > 15 || !strchr("; \t", line[digits])) {
		refuse(h, 400, "a chunk without a size");
		return;
	}
	h->length = strtoull(line, NULL, 16);
	if (h->length > h->body_max_bytes - h->body.len)
		refuse(h, 413, "the body is too large");
	else
		h->state = h->length ? HTTP_CHUNK : HTTP_TRAILERS;
}

static void on_chunk_end(struct http *h, const char *line)
{
	h->lines_bytes = 0;
	h->state = HTTP_CHUNK_SIZE;
	if (*line)
		refuse(h, 400, "a chunk longer than its size");
}

static void take_body(struct http *h, struct slice *in)
{
	size_t len = h->length < in->len ? (size_t)h->length : in->len;

	buf_put(&h->body, in->data, len);
	in->data += len;
	in->len -= len;
	h->length -= len;
	if (h->length == 0)
		h->state = h->chunked ? HTTP_CHUNK_END : HTTP_WHOLE;
}

/* --- the whole ------------------------------------------------------------ */

static void on_line(struct http *h, char *line)
{
	switch (h->state) {
	case HTTP_REQUEST_LINE:
		on_request_line(h, line);
		return;
	case HTTP_HEADERS:
		on_header(h, line);
		return;
	case HTTP_CHUNK_SIZE:
		on_chunk_size(h, line);
		return;
	case HTTP_CHUNK_END:
		on_chunk_end(h, line);
		return;
	case HTTP_TRAILERS:
		if (!*line)
			h->state = HTTP_WHOLE;
		return;
	case HTTP_BODY:
	case HTTP_CHUNK:
	case HTTP_WHOLE:
	case HTTP_REFUSED:
		return;
	}
}

size_t http_read(struct http *h, struct slice in)
{
	size_t len = in.len;
	char *line;

	while (in.len > 0 && h->state < HTTP_WHOLE) {
		if (h->state == HTTP_BODY || h->state == HTTP_CHUNK)
			take_body(h, &in);
		else if ((line = take_line(h, &in)))
			on_line(h, line);
	}
	return len - in.len;
}

void http_clear(struct http *h)
{
	buf_free(&h->body);
	buf_free(&h->line);
	buf_free(&h->target);
	*h = (struct http){ .body_max_bytes = h->body_max_bytes };
}

/* --- the answer ----------------------------------------------------------- */

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} known[] = {
		{ 200, "OK" }, { 201, "Created" }, { 400, "Bad Request" }, { 403, "Forbidden" }, { 404, "Not Found" },
		{ 405, "Method Not Allowed" }, { 409, "Conflict" }, { 413, "Content Too Large" },
		{ 414, "URI Too Long" }, { 422, "Unprocessable Content" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].status == status)
			return known[i].reason;
	}
	return "Other";
}

/* Not strftime(): its names are the locale's. */
static void put_date(struct buf *out, int64_t now_ms)
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t s = (time_t)(now_ms / 1000);
	struct tm t;

	gmtime_r(&s, &t);
	buf_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday, t.tm_mday,
		   months + 3 * t.tm_mon, t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

void http_put_head(struct buf *out, int status, const char *type, size_t len, bool keeps_alive, int64_t now_ms)
{
	buf_printf(out, "HTTP/1.1 %d %s\r\n", status, reason(status));
	put_date(out, now_ms);
	buf_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, len);
	if (status == 405)
		buf_put_text(out, "Allow: GET, POST\r\n");
	/* Said also where 1.1 takes it for granted: 1.0 does not. */
	buf_printf(out, "Connection: %s\r\n\r\n", keeps_alive ? "keep-alive" : "close");
}
