/*
 * Texts of endpoints that repeat the URL: what is left of them.
 */
#include "listener/secret.h"

#include "common/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct cut {
	const char *url, *text, *want;
};

static void expect(const struct cut *cuts, size_t count)
{
	char text[300];

	for (size_t i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%s", cuts[i].text);
		secret_cut(cuts[i].url, text);
		assert_string_equal(text, cuts[i].want);
	}
}

#define ALL "https://userna:passwo@node.example:8545/v3/segment-1/segment-2?key=value-1&value-2&a=b=value"

static void test_parts(void **state)
{
	static const struct cut cuts[] = {
		{ ALL, "404 not found: /v3/segment-1/segment-2", "404 not found: /v3/***/***" },
		{ ALL, "segment-1segment-2", "***" },
		{ ALL, "userna:passwo is nobody", "***:*** is nobody" },
		{ ALL, "at ?key=value-1&value-2 or b=value!", "at ?key=***&*** or ***!" },
		{ ALL, "node.example:8545 is not ready", "node.example:8545 is not ready" },
		{ ALL, "", "" },
		{ "http://h/v1/SECRET", "project /bal/SECRET over quota", "project /bal/*** over quota" },
		{ "http://user@h/SECRET", "user", "user" },
		{ "http://username@h", "no such user: username", "no such user: ***" },
		{ "http://:password@h", "no such password: password", "no such ***: ***" },
		{ "http://h#SECRET", "SECRET", "SECRET" },
		{ "http://h?SECRET", "SECRET", "***" },
		{ "http://h", "SECRET", "SECRET" },
		{ "tape:", "SECRET", "SECRET" },
		{ "", "SECRET", "SECRET" },
	};

	(void)state;
	expect(cuts, ARRAY_SIZE(cuts));
}

/* What is shorter than a key is may be any word. */
static void test_lengths(void **state)
{
	static const struct cut cuts[] = {
		{ "http://h/12345", "12345", "12345" },
		{ "http://h/%31%32%33%34%35", "12345 %31%32%33%34%35", "12345 %31%32%33%34%35" },
		{ "http://h/123456", "0123456123456712345", "0******712345" },
		{ "http://h/live_k111", "live_k222.3%41-4 and live_k2", "*** and ***" },
		{ "http://h/secret1", "secret2", "***" },
		{ "http://h/secret1", "secret: no", "***: no" },
		{ "http://h/12345678", "cut: '123456", "cut: '***" },
		{ "http://h/12345678", "cut: '1234567'", "cut: '***'" },
		{ "http://h/12345678", "cut: 12345", "cut: 12345" },
		{ "http://h/12345678", "12345612345678 9", "*** 9" },
		{ "http://h/123456/1234567890", "1234567890", "***" },
	};

	(void)state;
	expect(cuts, ARRAY_SIZE(cuts));
}

/* However who repeats it writes it. */
static void test_spellings(void **state)
{
	static const struct cut cuts[] = {
		{ "http://h/SecretKey", "secretkey SECRETKEY", "*** ***" },
		{ "http://h/secret%2Fkey", "secret/key secret%2fkey %73ecret%2Fkey", "*** *** ***" },
		{ "http://h/secret$key", "secret%24key", "***" },
		{ "http://h/secret%2541", "secret%41 secret%2541 secretA", "*** *** ***" },
		{ "http://h/?k=secret+key", "secret key secret+key", "*** ***" },
		{ "http://user:p%C3%A4ssword@h", "p??ssword p\xc3\xa4ssword p%c3%a4ssword", "*** *** ***" },
		{ "http://h/secret%", "secret%", "***" },
		{ "http://h/secret%4", "secret%4", "***" },
		{ "http://h/secret%00key", "secret?key", "***" },
	};

	(void)state;
	expect(cuts, ARRAY_SIZE(cuts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_spellings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
