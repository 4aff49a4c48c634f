#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 2048

static enum log_level lowest = LOG_ODD;

static const char *const level_names[] = {
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_ODD] = "odd",
	[LOG_BROKEN] = "broken",
};

void log_set_level(enum log_level level)
{
	lowest = level;
}

/* Past what may be part of a URL. */
static const char *url_end(const char *p)
{
	return p + strcspn(p, " \t\"'<>)],;");
}

/* "://user:pass@host:1/v3/KEY?k=K" is written as "://host:1/..". */
static size_t put_url(char *out, const char *p, const char *end)
{
	const char *authority_end = p + strcspn(p, "/?# \t\"'<>)],;");
	const char *host = p;
	size_t len;

	for (const char *at = p; at < authority_end; at++) {
		if (*at == '@')
			host = at + 1;
	}
	len = (size_t)(authority_end - host);
	memcpy(out, host, len);
	if (authority_end == end)
		return len;
	memcpy(out + len, "/..", 3);
	return len + 3;
}

/*
 * Endpoints have their keys in the URL, so only its host is shown.
 * @out has room for twice the length of @line.
 */
static size_t copy_without_secrets(char *out, const char *line)
{
	size_t len = 0;

	for (const char *p = line; *p; ) {
		if (strncmp(p, "://", 3) == 0) {
			memcpy(out + len, p, 3);
			len += 3;
			len += put_url(out + len, p + 3, url_end(p + 3));
			p = url_end(p + 3);
			continue;
		}
		out[len++] = (unsigned char)*p < ' ' ? ' ' : *p;
		p++;
	}
	return len;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char text[LINE_BYTES], line[LINE_BYTES * 2 + 16];
	size_t len;
	va_list args;

	if (level < lowest)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	len = (size_t)snprintf(line, sizeof(line), "%s: ", level_names[level]);
	len += copy_without_secrets(line + len, text);
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		return;			/* nobody reads: there is no other place to say so */
}
