#include "listener/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CAP 10
#define HEAD "POST /p HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED HEAD "Transfer-Encoding: chunked\r\n\r\n"

/* What is known of it at its end: "GET /path?query body" and "+1" if a byte is left, "400", or "..." if it has none. */
static const char *ending_of(const struct http *h, size_t left)
{
	static char text[512];

	if (h->state == HTTP_WHOLE)
		snprintf(text, sizeof(text), "%s %s?%s %.*s%s%s%.0zu", h->method, h->path, h->query, (int)h->body.len,
			 h->body.len ? (const char *)h->body.data : "", h->keeps_alive ? "" : " close", left ? "+" : "", left);
	else
		snprintf(text, sizeof(text), "%d", h->status);
	return h->state < HTTP_WHOLE ? "..." : text;
}

/* In pieces of @step bytes; what was left unread is *@left. */
static void read_all(struct http *h, struct slice in, size_t step, size_t *left)
{
	*h = (struct http){ .body_max_bytes = CAP };
	while (in.len > 0 && h->state < HTTP_WHOLE) {
		struct slice piece = { in.data, in.len < step ? in.len : step };
		size_t len = http_read(h, piece);

		if (h->state < HTTP_WHOLE)
			assert_int_equal(len, piece.len);
		in.data += len;
		in.len -= len;
	}
	*left = in.len;
}

static void expect(struct slice in, const char *ending)
{
	struct http h;
	size_t left;

	for (size_t step = 1; step <= in.len; step++) {
		read_all(&h, in, step, &left);
		if (strcmp(ending_of(&h, left), ending) != 0)
			fail_msg("%.*s by %zu: %s", (int)in.len, in.data, step, ending_of(&h, left));
		http_clear(&h);
	}
}

static void test_requests(void **state)
{
	static const struct {
		const char *in, *ending;
	} rows[] = {
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /? " },
		{ "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n", "GET /? +16" },
		{ "\r\n\nGET /a?b=c&d?e HTTP/1.1\n\n", "GET /a?b=c&d?e " },
		{ "GET /a%2fb//c/../d/%41;\xff\x80#x?y=%26 HTTP/1.1\r\n\r\n", "GET /a%2fb//c/../d/%41;\xff\x80#x?y=%26 " },
		{ "GET / HTTP/1.0\r\n\r\n", "GET /?  close" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /? " },
		{ "GET / HTTP/1.1\r\nconnection:foo ,\tCLOSE\r\n\r\n", "GET /?  close" },
		{ "GET / HTTP/1.1\r\nConnection: closed\r\nUpgrade: h2c\r\n\r\n", "GET /? " },
		{ "GET / HTTP/1.1\r\nEmpty:\r\nSpaces:  \t \r\n\r\n", "GET /? " },
		{ HEAD "\r\n", "POST /p? " },
		{ HEAD "Content-Length: 0\r\n\r\nx", "POST /p? +1" },
		{ HEAD "content-length:\t10 \r\n\r\n0123\r\n\r\n89GET", "POST /p? 0123\r\n\r\n89+3" },
		{ "GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "GET /? x" },
		{ CHUNKED "0\r\n\r\n", "POST /p? " },
		{ CHUNKED "3\r\nabc\r\n002;x=\"y\"\r\n\r\n\r\n0\r\nTrailer: t\r\n\r\nGET", "POST /p? abc\r\n+3" },
		{ CHUNKED "A \r\n0123456789\r\n0\r\n\r\n", "POST /p? 0123456789" },

		{ "GET / HTTP/1.1\r\nHost: x\r\n", "..." },
		{ HEAD "Content-Length: 5\r\n\r\nhell", "..." },
		{ CHUNKED "5\r\nhello\r\n0\r\n", "..." },

		{ "hello\r\n", "400" },
		{ "GET /\r\n", "400" },
		{ "GET / FTP/1.1\r\n", "400" },
		{ "GET / HTTP/1.1\r\n folded: x\r\n", "400" },
		{ "GET /a b HTTP/1.1\r\n", "400" },
		{ "GET /a\tb HTTP/1.1\r\n", "400" },
		{ "GET /\x01 HTTP/1.1\r\n", "400" },
		{ "GET / HTTP/1.1\r\nA: b\rC: d\r\n", "400" },
		{ "GET http://x/ HTTP/1.1\r\n", "400" },
		{ "\x16\x03\x01\x02\n", "400" },
		{ "GET / HTTP/1.1\r\nno colon\r\n", "400" },
		{ "GET / HTTP/1.1\r\n: x\r\n", "400" },
		{ "GET / HTTP/1.1\r\nContent-Length : 1\r\n", "400" },
		{ HEAD "Content-Length: -1\r\n", "400" },
		{ HEAD "Content-Length: +1\r\n", "400" },
		{ HEAD "Content-Length: 1, 1\r\n", "400" },
		{ HEAD "Content-Length:\r\n", "400" },
		{ HEAD "Content-Length: 99999999999999999999\r\n", "400" },
		{ HEAD "Content-Length: 1\r\nContent-Length: 1\r\n", "400" },
		{ HEAD "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400" },
		{ HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400" },
		{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", "400" },
		{ HEAD "Transfer-Encoding: gzip, chunked\r\n", "501" },
		{ CHUNKED "\r\n", "400" },
		{ CHUNKED "0x1\r\n", "400" },
		{ CHUNKED "-1\r\n", "400" },
		{ CHUNKED "1\r\nab\r\n", "400" },
		{ CHUNKED "0000000000000001\r\n", "400" },
		{ "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n", "400" },
		{ "POST / HTTP/1.1\r\nOrigin: http://page.example\r\n", "403" },
		{ "HEAD / HTTP/1.1\r\n", "405" },
		{ "get / HTTP/1.1\r\n", "405" },
		{ "OPTIONS * HTTP/1.1\r\n", "405" },
		{ "PRI * HTTP/2.0\r\n", "505" },
		{ HEAD "Content-Length: 11\r\n\r\n", "413" },
		{ HEAD "Content-Length: 18446744073709551615\r\n\r\n", "413" },
		{ CHUNKED "b\r\n", "413" },
		{ CHUNKED "fffffffffffffff\r\n", "413" },
		{ CHUNKED "6\r\n012345\r\n5\r\n", "413" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(slice_of_text(rows[i].in), rows[i].ending);
	expect((struct slice){ (const uint8_t *)"GET /\0 HTTP/1.1\r\n", 17 }, "400");
}

/* Many times @piece after @start. */
static void expect_long(const char *start, const char *piece, const char *ending)
{
	struct buf in = { 0 };
	struct http h;
	size_t left;

	buf_put_text(&in, start);
	while (in.len < 2 * HTTP_HEAD_MAX_BYTES)
		buf_put_text(&in, piece);
	read_all(&h, buf_slice(&in), 1000, &left);
	assert_string_equal(ending_of(&h, left), ending);
	http_clear(&h);
	buf_free(&in);
}

static void test_long_heads(void **state)
{
	(void)state;
	expect_long("GET /", "x", "414");
	expect_long("", "\r\n", "414");
	expect_long("GET / HTTP/1.1\r\n", "A: b\r\n", "431");
	expect_long("GET / HTTP/1.1\r\nA: ", "b", "431");
	expect_long(CHUNKED "1;", "x", "431");
	expect_long(CHUNKED "0\r\n", "A: b\r\n", "431");
}

static void test_continue(void **state)
{
	struct http h;
	size_t left;

	(void)state;
	read_all(&h, slice_of_text(HEAD "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n"), 100, &left);
	assert_true(h.wants_continue);
	assert_int_equal(h.state, HTTP_BODY);
	http_clear(&h);
	read_all(&h, slice_of_text("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"), 100, &left);
	assert_false(h.wants_continue);
	http_clear(&h);
}

static void test_answer(void **state)
{
	struct buf out = { 0 };

	(void)state;
	http_put_head(&out, 405, "text/plain", 12, true, 784111777999);
	http_put_head(&out, 299, "a/b", 0, false, 951782400000);
	buf_put_u8(&out, 0);
	assert_string_equal((char *)out.data,
			    "HTTP/1.1 405 Method Not Allowed\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
			    "Content-Type: text/plain\r\nContent-Length: 12\r\nAllow: GET, POST\r\n"
			    "Connection: keep-alive\r\n\r\n"
			    "HTTP/1.1 299 Other\r\nDate: Tue, 29 Feb 2000 00:00:00 GMT\r\n"
			    "Content-Type: a/b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_long_heads),
		cmocka_unit_test(test_continue),
		cmocka_unit_test(test_answer),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
