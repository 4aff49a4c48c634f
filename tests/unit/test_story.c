/*
 * story: three tapes and the demo, told, against golden transcripts; amounts,
 * foreign text and the page's width.
 *
 * TIDEMARK_GOLDEN_UPDATE=1 rewrites the transcripts; the git diff is the review.
 */
#include "listener/replay.h"
#include "listener/story_page.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What the tape's story is; the caller frees it. */
static char *tell(const char *tape, bool colour)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct replay_options options = { .output = REPLAY_STORY, .colour = colour, .out = out };
	int fd = open(tape, O_RDONLY | O_CLOEXEC);
	struct complaint why = { "" };

	assert_non_null(out);
	if (fd < 0)
		fail_msg("%s: cannot be opened", tape);
	if (replay(tape, fd, &options, &why))
		fail_msg("%s", why.text);
	close(fd);
	fclose(out);
	return text;
}

static char *read_text(const char *path)
{
	struct buf text = { 0 };
	FILE *f = fopen(path, "r");
	size_t got;

	do {
		got = f ? fread(buf_extend(&text, 4096), 1, 4096, f) : 0;
		text.len -= f ? 4096 - got : 0;
	} while (got);
	if (f)
		fclose(f);
	buf_put_u8(&text, '\0');
	return (char *)text.data;
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		fail_msg("%s: cannot be written", path);
}

static void check_width(const char *tape, const char *text)
{
	char line[1000];

	for (unsigned n = 1; *text; n++) {
		size_t len = strcspn(text, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		if (text_columns(line) > PAGE_COLUMNS)
			fail_msg("%s: line %u of the story is too wide", tape, n);
		if (len && line[len - 1] == ' ')
			fail_msg("%s: line %u of the story ends with a blank", tape, n);
		text += len + (text[len] == '\n');
	}
}

static void check_golden(const char *name)
{
	char tape[200], path[200];
	char *got, *want;

	snprintf(tape, sizeof(tape), "fixtures/%s.tape", name);
	snprintf(path, sizeof(path), "fixtures/stories/%s.txt", name);
	got = tell(tape, false);
	check_width(tape, got);
	if (getenv("TIDEMARK_GOLDEN_UPDATE"))
		write_text(path, got);
	want = read_text(path);
	assert_string_equal(got, want);
	free(want);
	free(got);
}

static void test_reorg_moved(void **state)
{
	(void)state;
	check_golden("reorg_moved");
}

static void test_aba(void **state)
{
	(void)state;
	check_golden("aba");
}

static void test_verdicts(void **state)
{
	(void)state;
	check_golden("verdicts");
}

static void test_demo(void **state)
{
	(void)state;
	check_golden("demo");
}

/* Colour adds escapes and changes no word. */
static void test_colour(void **state)
{
	char *plain = tell("fixtures/demo.tape", false), *toned = tell("fixtures/demo.tape", true);
	size_t at = 0;

	(void)state;
	assert_null(strchr(plain, '\033'));
	assert_non_null(strchr(toned, '\033'));
	for (const char *c = toned; *c; c++) {
		if (*c == '\033')
			c = strchr(c, 'm');
		else
			assert_int_equal(*c, plain[at++]);
	}
	assert_int_equal(plain[at], '\0');
	free(plain);
	free(toned);
}

static void test_amounts(void **state)
{
	static const struct {
		const char *units;
		unsigned decimals;
		const char *text;
	} cases[] = {
		{ "0", 6, "0.00" },
		{ "1", 6, "0.000001" },
		{ "999999", 6, "0.999999" },
		{ "1000000", 6, "1.00" },
		{ "250000000", 6, "250.00" },
		{ "250100000", 6, "250.10" },
		{ "1234567890123", 6, "1,234,567.890123" },
		{ "100000000000", 6, "100,000.00" },
		{ "1234", 0, "1,234" },
		{ "1234", 1, "123.4" },
		{ "5", 18, "0.000000000000000005" },
		{ "115792089237316195423570985008687907853269984665640564039457584007913129639935", 77,
		  "1.15792089237316195423570985008687907853269984665640564039457584007913129639935" },
	};
	struct u256 v = u256_from_u64(1);
	char text[AMOUNT_TEXT];

	(void)state;
	/* more decimals than any token has, and room for them */
	assert_int_equal(strlen(amount_format(&v, 255, text)), 257);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(u256_parse(slice_of_text(cases[i].units), &v));
		assert_string_equal(amount_format(&v, cases[i].decimals, text), cases[i].text);
	}
}

static void test_foreign_text(void **state)
{
	static const struct {
		const char *from, *to;
	} cases[] = {
		{ "plain", "plain" },
		{ "\033[2Jgone", "?[2Jgone" },
		{ "a\nb\tc\x7f", "a?b?c?" },
		{ "Müller", "Müller" },
		{ "\xc2\x9b" "31m", "?31m" },			/* CSI as one character */
		{ "\xe2\x80\xae" "turned", "?turned" },		/* right to left */
		{ "→ “x”", "→ “x”" },
		{ "0123456789abcdefgh", "0123456789abcde" },
	};
	char text[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		text_copy(text, sizeof(text), cases[i].from);
		assert_string_equal(text, cases[i].to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reorg_moved), cmocka_unit_test(test_aba),
		cmocka_unit_test(test_verdicts),    cmocka_unit_test(test_demo),
		cmocka_unit_test(test_colour),	    cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_foreign_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
