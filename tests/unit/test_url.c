/*
 * URLs: their parts, which of them are the same place, and what is shown of them.
 */
#include "listener/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* All parts of it, with a bar between each. */
static void expect_parts(const char *text, const char *want)
{
	struct url u = url_split(text);
	const struct slice parts[] = { u.scheme, u.user, u.password, u.host, u.port, u.path, u.query };
	char got[300] = "";
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%.*s", i ? "|" : "", (int)parts[i].len,
					(const char *)parts[i].data);
	assert_string_equal(got, want);
}

static void test_parts(void **state)
{
	(void)state;
	expect_parts("https://user:p%40ss@node.example:8545/v3/KEY?k=KEY&l=1#there",
		     "https|user|p%40ss|node.example|8545|/v3/KEY|k=KEY&l=1");
	expect_parts("ws://h", "ws|||h|||");
	expect_parts("ws://h:", "ws|||h|||");
	expect_parts("ws://h/", "ws|||h||/|");
	expect_parts("ws://h?k=/KEY?", "ws|||h|||k=/KEY?");
	expect_parts("ws://h#/KEY", "ws|||h|||");
	expect_parts("http://[::1]:80/a@b:c", "http|||[::1]|80|/a@b:c|");
	expect_parts("http://[::1", "http|||[::1|||");
	expect_parts("http://user@h", "http|user||h|||");
	expect_parts("http://:word@h", "http||word|h|||");
	expect_parts("http://a@b:c@h:1", "http|a@b|c|h|1||");
	expect_parts("http://h:1:2/", "http|||h|1:2|/|");
	expect_parts("http://", "http||||||");
	expect_parts("tape:", "|||tape|||");
	expect_parts("", "||||||");
}

static void expect_same(const char *a, const char *b, bool want)
{
	if (url_same(a, b) != want || url_same(b, a) != want)
		fail_msg("%s and %s", a, b);
}

static void test_same(void **state)
{
	(void)state;
	expect_same("http://localhost:9101", "http://LOCALHOST:9101/", true);
	expect_same("http://h", "HTTP://h:80/", true);
	expect_same("https://h:443", "https://h", true);
	expect_same("wss://h/KEY", "wss://H:0443/KEY#x", true);
	expect_same("ws://h?k=1", "ws://h:/?k=1", true);
	expect_same("https://h:80", "https://h", false);
	expect_same("http://h", "https://h", false);
	expect_same("http://h/KEY", "http://h/key", false);
	expect_same("http://h/KEY", "http://h/KEY/", false);
	expect_same("http://h?k=1", "http://h?k=2", false);
	expect_same("http://a@h", "http://b@h", false);
	expect_same("http://a:b@h", "http://a:c@h", false);
	expect_same("http://h:1", "http://h:2", false);
	expect_same("http://h", "http://g", false);
}

static void expect_host(const char *url, const char *want)
{
	char host[URL_HOST_TEXT];

	assert_string_equal(url_host(url, host), want);
}

static void test_host(void **state)
{
	char url[600] = "http://", want[URL_HOST_TEXT] = "";

	(void)state;
	expect_host("https://user:p%40ss@node.example:8545/v3/KEY?k=KEY", "node.example:8545");
	expect_host("ws://127.0.0.1", "127.0.0.1");
	expect_host("ws://[2001:db8::1]:443/", "[2001:db8::1]:443");
	expect_host("ws://my_node-1/", "my_node-1");
	expect_host("http://127.0.0.1:KEY/", "?");
	expect_host("http://127.0.0.1:KEY:8545/", "?");
	expect_host("http://127.0.0.1:8545KEY/", "?");
	expect_host("http://127.0.0.1:65536/", "?");
	expect_host("http://ho$t/", "?");
	expect_host("http://h%6fst/", "?");
	expect_host("http:///KEY", "?");
	expect_host("http://", "?");
	expect_host("KEY", "?");
	expect_host("", "?");
	memset(url + 7, 'a', 500);
	memset(want, 'a', sizeof(want) - 1);
	expect_host(url, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
