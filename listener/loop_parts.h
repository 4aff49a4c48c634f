/*
 * loop_parts - what the real loop's parts share; nobody else includes it.
 *
 *     loop.c         clock, turns, timers, signals; libcurl and the requests that we make
 *     loop_socket.c  WebSockets
 *     loop_server.c  the requests that are made to us
 *
 * The including file defines _GNU_SOURCE first (epoll, signalfd, accept4).
 */
#ifndef LISTENER_LOOP_PARTS_H
#define LISTENER_LOOP_PARTS_H

#include "listener/loop_real.h"

#include <curl/curl.h>
#include <libwebsockets.h>
#include <signal.h>
#include <sys/queue.h>
#include <time.h>

#define AGENT "tidemark"
#define MIB ((size_t)1 << 20)
#define CHUNK_BYTES 65536
#define HEADER_BYTES 16384
#define KEEP_BYTES MIB		/* of a buffer that waits for its next use */
#define GOODBYE_MS 2000		/* for the peer's half of a close */

/* A handle of libcurl's knows whom to tell. */
struct handle {
	CURL *easy;
	void (*ended)(struct handle *handle, CURLcode code);
	char why[CURL_ERROR_SIZE];
};

struct conn;
struct serving;
TAILQ_HEAD(requests, request);
TAILQ_HEAD(conns, conn);

struct real {
	struct loop loop;		/* first: the world is its loop */
	struct loop_real_options o;
	lws_retry_bo_t patience;
	int64_t woken_us, busy_us;	/* since when a callback runs; what all have taken */
	int64_t now_ms, steady_ms;	/* of this turn: wall clock and monotonic one */
	struct loop_timer *timers;	/* by time */
	struct requests waiting, active, idle;
	struct conns conns;
	struct serving *serving;	/* NULL until something is served */
	struct lws_context *lws;
	struct lws_vhost *vhost;
	CURLM *multi;
	struct curl_slist *headers;
	int epoll, signals;
	bool epoll_adopted;
	sigset_t old_mask;
	lws_sorted_usec_list_t timer, curl_timer, turn;
	bool happened, stopping;
	int signal;
};

static inline struct real *real_of(struct loop *loop)
{
	return (struct real *)loop;
}

/* A URL's parts. */
struct place {
	char *host;			/* an IPv6 address has its brackets */
	char *authority;		/* with the port, unless it is the scheme's own */
	char *path;			/* and query */
	char *auth;			/* "Basic ..", or NULL */
	int port;
	bool tls;
};

bool loop_place_parse(const char *url, struct place *p);
void loop_place_clear(struct place *p);

int64_t loop_clock_ms(clockid_t clock);
/* First thing in every callback of the libraries: time passes only here. */
void loop_wake(struct real *l);
/* Last thing in it, as far as it is known that nothing follows. */
void loop_rest(struct real *l);
/* Before every callback of ours: the turn will have an end. */
void loop_happened(struct real *l);
/* What was only queued is begun, soon. */
void loop_arm_turn(struct real *l);
/* A handle with what is the same for all. */
void loop_open_handle(struct real *l, struct handle *h);

void loop_socket_open(struct loop *loop, struct loop_socket *socket);
void loop_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text);
void loop_socket_close(struct loop *loop, struct loop_socket *socket);
int loop_on_socket(struct conn *c, struct lws *wsi, enum lws_callback_reasons reason, void *in, size_t len);
/* At a turn's end: open and let go of what was asked for. */
void loop_tend_conns(struct real *l);
/* Those that libwebsockets has are freed when it goes. */
void loop_free_conns(struct real *l);

/* All of these do nothing where nothing is served.  Whether the descriptor is the one of what we serve. */
bool loop_serving_has(const struct real *l, int fd);
void loop_serving_ready(struct real *l);
void loop_serving_free(struct real *l);

#endif
