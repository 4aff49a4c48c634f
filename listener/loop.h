/*
 * loop - the seam between the listener and its world: clocks, timers, chance,
 * HTTP out and a WebSocket, as a table of functions.  One program has several worlds: the
 * real one and the tape's.
 *
 * Promises of every world: nothing calls back from inside a call; `done` comes
 * exactly once for each request (answer, failure, timeout, cancel); messages
 * come whole; the clocks stand still within a turn.
 */
#ifndef LISTENER_LOOP_H
#define LISTENER_LOOP_H

#include "common/types.h"

struct loop;

/* How a request ended. */
enum loop_end {
	LOOP_ANSWERED,		/* whatever the status */
	LOOP_UNREACHABLE,
	LOOP_TIMED_OUT,
	LOOP_TOO_LARGE,		/* the answer passed the cap */
	LOOP_CANCELED,
};

/* A timer is its owner's memory; it fires once. */
struct loop_timer {
	void (*fire)(struct loop_timer *timer);
	void *ctx;
	int64_t at_ms;
	bool set;
	struct loop_timer *next;	/* the world's */
};

/* An HTTP POST; one without a body is a GET.  The struct and what it borrows live until done. */
struct loop_post {
	const char *url;
	const char *unix_path;		/* the socket to connect to, whatever the URL's host; NULL: none */
	struct slice body;
	unsigned timeout_ms;
	void (*done)(struct loop_post *post, enum loop_end end, int status, struct slice answer);
	void *ctx;
	unsigned retry_after_s;		/* the answer's Retry-After, where it is a number; 0: none */
	struct loop_post *next;		/* the world's */
};

/* A WebSocket.  After closed it may be opened again. */
struct loop_socket {
	const char *url;
	void (*opened)(struct loop_socket *socket);
	void (*message)(struct loop_socket *socket, struct slice text);
	void (*closed)(struct loop_socket *socket);
	void *ctx;
	bool open;			/* the world's */
};

/* For figures, never for a decision. */
struct loop_times {
	int64_t ticks_us;		/* monotonic, from any zero */
	int64_t busy_us;		/* of them spent in callbacks: the rest was waiting */
};

struct loop_ops {
	/* Since 1970, UTC; it may be set at any time.  For stamps, and to compare with the blocks' own times. */
	int64_t (*now_ms)(struct loop *loop);
	/* From any zero; it never jumps.  For waits and ages, and the time of the timers. */
	int64_t (*steady_ms)(struct loop *loop);
	/* NULL: this world has no time to measure. */
	struct loop_times (*times)(struct loop *loop);
	uint64_t (*random)(struct loop *loop);
	void (*timer_set)(struct loop *loop, struct loop_timer *timer, int64_t at_ms);
	void (*timer_cancel)(struct loop *loop, struct loop_timer *timer);
	void (*post)(struct loop *loop, struct loop_post *post);
	void (*post_cancel)(struct loop *loop, struct loop_post *post);
	void (*socket_open)(struct loop *loop, struct loop_socket *socket);
	void (*socket_send)(struct loop *loop, struct loop_socket *socket, struct slice text);
	void (*socket_close)(struct loop *loop, struct loop_socket *socket);
};

/* A world begins with this. */
struct loop {
	const struct loop_ops *ops;
};

/* What the wall clock, as it is set now, showed at a steady time. */
static inline int64_t loop_stamp_ms(struct loop *loop, int64_t steady_ms)
{
	return loop->ops->now_ms(loop) - (loop->ops->steady_ms(loop) - steady_ms);
}

#endif
