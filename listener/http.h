/*
 * http - the server's half of HTTP/1.0 and 1.1 as bytes: a request read as it comes in, an answer's head.
 *
 * GET and POST only; a body has a Content-Length or is chunked.  What is ambiguous is refused, so that nobody
 * finds another request in it than we do.  Pure: no socket, no clock.
 */
#ifndef LISTENER_HTTP_H
#define LISTENER_HTTP_H

#include "common/types.h"

#define HTTP_HEAD_MAX_BYTES 16384	/* and as much for what stands between chunks and after them */

enum http_state {
	HTTP_REQUEST_LINE,
	HTTP_HEADERS,
	HTTP_BODY,
	HTTP_CHUNK_SIZE,
	HTTP_CHUNK,
	HTTP_CHUNK_END,
	HTTP_TRAILERS,
	HTTP_WHOLE,		/* the end: asked */
	HTTP_REFUSED,		/* the end: status and why; what follows cannot be read */
};

/* All zero but body_max_bytes at first. */
struct http {
	size_t body_max_bytes;
	enum http_state state;
	const char *method;		/* "GET" or "POST" */
	char *path;			/* as sent, without the query */
	char *query;			/* "" where there is none */
	struct buf body;
	bool keeps_alive;		/* the connection, after the answer */
	bool wants_continue;		/* waits for HTTP_CONTINUE before its body; the reader clears it */
	bool wants_head;		/* an answer must have no body */
	int status;			/* of a refusal */
	const char *why;

	/* its own */
	struct buf line, target;
	size_t lines_bytes;
	bool is_old;			/* 1.0 */
	bool has_length, chunked, says_close, says_keep;
	uint64_t length;		/* of the body or the chunk, what is to come */
};

#define HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* Go on with @in until it is at an end of the request; how much of it was read.  All of it, if neither end was reached. */
size_t http_read(struct http *h, struct slice in);
void http_clear(struct http *h);

/* Append the head of an answer of @len bytes. */
void http_put_head(struct buf *out, int status, const char *type, size_t len, bool keeps_alive, int64_t now_ms);

#endif
