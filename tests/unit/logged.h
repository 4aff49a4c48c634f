/*
 * logged - what a test's subject writes to standard error.
 */
#ifndef TESTS_UNIT_LOGGED_H
#define TESTS_UNIT_LOGGED_H

#include "common/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

struct logged {
	FILE *file;
	int stderr_fd;
};

/* From here on all lines from @level are kept. */
static inline struct logged logged_begin(enum log_level level)
{
	struct logged l = { .file = tmpfile(), .stderr_fd = dup(STDERR_FILENO) };

	assert_non_null(l.file);
	assert_true(l.stderr_fd >= 0);
	assert_int_equal(dup2(fileno(l.file), STDERR_FILENO), STDERR_FILENO);
	log_set_level(level);
	return l;
}

/* What was written since is exactly @want; the level is LOG_BROKEN then. */
static inline void logged_expect(struct logged *l, const char *want)
{
	char got[2000];
	size_t len;

	log_set_level(LOG_BROKEN);
	fflush(stderr);
	dup2(l->stderr_fd, STDERR_FILENO);
	close(l->stderr_fd);
	rewind(l->file);
	len = fread(got, 1, sizeof(got) - 1, l->file);
	got[len] = '\0';
	fclose(l->file);
	assert_string_equal(got, want);
}

#endif
