/*
 * loop_real - the real world behind loop.h: wall clock, timers, HTTP by libcurl
 * and WebSockets by libwebsockets, in one thread.  One at a time in a process.
 *
 * A request ends as answered whatever its status, and a redirect is an answer; an answer past the cap
 * is cut off.  A socket that fails to open or ends is told closed exactly once; one that its owner closed
 * is not told, and may be opened again or freed at once.  What is sent before opened waits for it.  A message
 * past the cap closes the socket with 1009.  Retrying is the caller's.  Names are resolved beside the loop.
 *
 * Only hosts are logged, never the path, query or user of a URL.
 */
#ifndef LISTENER_LOOP_REAL_H
#define LISTENER_LOOP_REAL_H

#include "listener/loop.h"

/* Zero means the default. */
struct loop_real_options {
	const char *ca_file;		/* PEM, instead of the system's authorities */
	const char *proxy;		/* for requests; without it none, whatever the environment says */
	size_t answer_max_bytes;	/* 64 MiB */
	size_t message_max_bytes;	/* 16 MiB */
	size_t request_max_bytes;	/* 1 MiB; of a request to a server of ours */
	unsigned open_s;		/* a socket must be open within, a request to us be whole, 15 */
	unsigned ping_s;		/* a silent peer is asked for a sign of life after, 15 */
	unsigned hangup_s;		/* and hung up after, 25; more than ping_s */
	/* What a turn of the loop gathered is complete.  Not called if nothing happened in it. */
	void (*turn_ended)(void *ctx);
	void *ctx;
};

/*
 * The strings of *@o are borrowed until loop_real_free().  SIGTERM and SIGINT are blocked until then and
 * end loop_real_run(); SIGPIPE is ignored from here on.  NULL, and a line in the log, if it cannot be made.
 */
struct loop *loop_real_new(const struct loop_real_options *o);

/*
 * HTTP in.  A request is its world's; it lives until loop_real_answer(), which is called exactly once for each,
 * at once or in a later turn, also where the peer is gone meanwhile.  Not answered when the loop is freed: forgotten.
 */
struct loop_request {
	const char *method;		/* "GET" or "POST"; others are refused before */
	const char *path;		/* without the query, not decoded */
	const char *query;		/* "" where there is none */
	struct slice body;
};

struct loop_server {
	const char *unix_path;		/* a socket of mode 0600, made anew; or NULL, and then */
	const char *host;		/* an address of this machine, in numbers; IPv6 without brackets */
	int port;			/* 0: a free one, told here */
	void (*asked)(struct loop_server *server, struct loop_request *request);
	void *ctx;
};

/* Serve until loop_real_free(); @server and its strings are borrowed until then.  E_IO with @why. */
MUST_CHECK enum err loop_real_listen(struct loop *loop, struct loop_server *server, struct complaint *why);
/* @type is the media type; @body is copied. */
void loop_real_answer(struct loop_request *request, int status, const char *type, struct slice body);

/* Run until loop_real_stop(), giving 0, or a signal, giving its number; -1 if the loop itself broke. */
int loop_real_run(struct loop *loop);
/* Ends loop_real_run() after this turn; called from a callback or before it. */
void loop_real_stop(struct loop *loop);

/* Every request under way ends as canceled, from here; what is asked meanwhile too. */
void loop_real_cancel_all(struct loop *loop);
/* Cancels all; sockets are let go of as if their owners had closed them, timers forgotten. */
void loop_real_free(struct loop *loop);

#endif
