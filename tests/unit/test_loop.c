/*
 * The real world on 127.0.0.1: tests/loop/servers.js is every node it talks to.  Names are answered by
 * the getaddrinfo() below, so that one never answers; the wall clock is the clock_gettime() below.
 */
#define _GNU_SOURCE		/* RTLD_NEXT */
#include "common/log.h"
#include "listener/loop_real.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CAP ((size_t)1 << 20)
#define PATIENCE_MS 8000
#define NEVER_MS 1500		/* what "never.test" takes to fail */

extern char **environ;

static int plain_port, tls_port, refused_port;
static char certificates[64];

/* --- the system, as the loop sees it --------------------------------------- */

static int64_t wall_ahead_s;
static pthread_t loop_thread;
static unsigned asked_in_loop;		/* names resolved where timers wait */

static int64_t steady_ms(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, t);

	if (!failed && clock == CLOCK_REALTIME)
		t->tv_sec += wall_ahead_s;
	return failed;
}

static bool is_number(const char *node)
{
	unsigned char b[16];

	return inet_pton(AF_INET, node, b) == 1 || inet_pton(AF_INET6, node, b) == 1;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	*(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
	if (node && !is_number(node) && pthread_equal(pthread_self(), loop_thread))
		asked_in_loop++;
	if (node && strcmp(node, "never.test") == 0) {
		nanosleep(&(struct timespec){ NEVER_MS / 1000, NEVER_MS % 1000 * 1000000 }, NULL);
		return EAI_AGAIN;
	}
	if (node && strcmp(node, "node.test") == 0)
		node = "127.0.0.1";
	return next(node, service, hints, out);
}

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* --- the world ------------------------------------------------------------- */

struct world {
	struct loop *loop;
	const struct loop_ops *ops;
	struct loop_timer guard;
	unsigned awaited;
	bool inside;		/* a call of the loop's */
	bool unended;		/* something happened since the turn ended */
	unsigned turns;
};

#define CALL(w, op, ...) \
	do { \
		(w)->inside = true; \
		(w)->ops->op((w)->loop, __VA_ARGS__); \
		(w)->inside = false; \
	} while (0)

static void on_turn_ended(void *ctx)
{
	struct world *w = ctx;

	assert_false(w->inside);
	assert_true(w->unended);
	w->unended = false;
	w->turns++;
}

/* Every callback says so. */
static void heard_of(struct world *w)
{
	assert_false(w->inside);
	w->unended = true;
}

static void arrived(struct world *w)
{
	if (w->awaited && --w->awaited == 0)
		loop_real_stop(w->loop);
}

static void on_guard(struct loop_timer *t)
{
	struct world *w = t->ctx;

	heard_of(w);
	loop_real_stop(w->loop);
}

static int64_t now_of(struct world *w)
{
	return w->ops->now_ms(w->loop);
}

/* Until @count things arrived, or @ms passed; true if they did. */
static bool run_for(struct world *w, unsigned count, int64_t ms)
{
	w->awaited = count;
	w->guard = (struct loop_timer){ .fire = on_guard, .ctx = w };
	CALL(w, timer_set, &w->guard, now_of(w) + ms);
	assert_int_equal(loop_real_run(w->loop), 0);
	CALL(w, timer_cancel, &w->guard);
	assert_false(w->unended);
	return w->awaited == 0;
}

static void run(struct world *w, unsigned count)
{
	if (!run_for(w, count, PATIENCE_MS))
		fail_msg("%u things did not come in time", w->awaited);
}

static void rest(struct world *w, int64_t ms)
{
	assert_false(run_for(w, 1000000, ms));
}

static void world_open(struct world *w, const struct loop_real_options *o)
{
	struct loop_real_options all = *o;

	memset(w, 0, sizeof(*w));
	all.turn_ended = on_turn_ended;
	all.ctx = w;
	w->loop = loop_real_new(&all);
	assert_non_null(w->loop);
	w->ops = w->loop->ops;
	loop_thread = pthread_self();
	asked_in_loop = 0;
}

static char ca_file[96];
static const struct loop_real_options usual = {
	.ca_file = ca_file, .answer_max_bytes = CAP, .open_s = 2, .ping_s = 1, .hangup_s = 2,
};

static int setup(void **state)
{
	*state = xcalloc(1, sizeof(struct world));
	world_open(*state, &usual);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	loop_real_free(w->loop);
	assert_int_equal(asked_in_loop, 0);
	free(w);
	return 0;
}

/* A URL on one of the servers; good until eight more were made. */
static const char *url_of(const char *scheme, const char *host, int port, const char *path)
{
	static char urls[8][4096];
	static unsigned next;
	char *url = urls[next++ % 8];

	snprintf(url, sizeof(urls[0]), "%s://%s:%d%s", scheme, host, port, path);
	return url;
}

static const char *http(const char *path)
{
	return url_of("http", "127.0.0.1", plain_port, path);
}

static const char *ws(const char *path)
{
	return url_of("ws", "127.0.0.1", plain_port, path);
}

/* --- requests ---------------------------------------------------------------- */

struct asked {
	struct loop_post post;
	struct world *w;
	unsigned times;
	enum loop_end end;
	int status;
	struct buf answer;
	int64_t took_ms;
	void (*then)(struct asked *a);
	void *ctx;
};

static void on_done(struct loop_post *post, enum loop_end end, int status, struct slice answer)
{
	struct asked *a = post->ctx;

	heard_of(a->w);
	a->times++;
	a->end = end;
	a->status = status;
	a->answer.len = 0;
	buf_put(&a->answer, answer.data, answer.len);
	buf_put_u8(&a->answer, 0);
	a->took_ms += steady_ms();
	if (a->then)
		a->then(a);
	arrived(a->w);
}

static void ask(struct world *w, struct asked *a, const char *url, struct slice body, unsigned timeout_ms)
{
	a->w = w;
	a->times = 0;
	a->took_ms = -steady_ms();
	a->post = (struct loop_post){ .url = url, .body = body, .timeout_ms = timeout_ms, .done = on_done, .ctx = a };
	CALL(w, post, &a->post);
	assert_int_equal(a->times, 0);
}

static void ask_one(struct world *w, struct asked *a, const char *url, const char *body, unsigned timeout_ms)
{
	ask(w, a, url, slice_of_text(body), timeout_ms);
	run(w, 1);
	assert_int_equal(a->times, 1);
}

static const char *text_of(const struct asked *a)
{
	return (const char *)a->answer.data;
}

/* One that is answered. */
static int fetch_number(struct world *w, const char *path)
{
	struct asked a = { .w = w };
	int number;

	ask_one(w, &a, http(path), "", 2000);
	assert_int_equal(a.end, LOOP_ANSWERED);
	number = atoi(text_of(&a));
	buf_free(&a.answer);
	return number;
}

static void test_answers(void **state)
{
	static const struct {
		const char *path;
		enum loop_end end;
		int status;
		const char *text;
	} rows[] = {
		{ "/echo", LOOP_ANSWERED, 200, "{\"id\":1}" },
		{ "/500", LOOP_ANSWERED, 500, "boom" },
		{ "/empty", LOOP_ANSWERED, 200, "" },
		{ "/redirect", LOOP_ANSWERED, 302, "elsewhere" },
		{ "/last", LOOP_ANSWERED, 200, "bye" },
		{ "/large", LOOP_TOO_LARGE, 0, "" },
		{ "/over", LOOP_TOO_LARGE, 0, "" },
		{ "/endless", LOOP_TOO_LARGE, 0, "" },
		{ "/mute", LOOP_TIMED_OUT, 0, "" },
		{ "/trickle", LOOP_TIMED_OUT, 0, "" },
		{ "/cut", LOOP_UNREACHABLE, 0, "" },
		{ "/hangup", LOOP_UNREACHABLE, 0, "" },
		{ "/echo", LOOP_ANSWERED, 200, "{\"id\":1}" },
	};
	struct asked a = { .times = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ask_one(*state, &a, http(rows[i].path), "{\"id\":1}", rows[i].end == LOOP_TIMED_OUT ? 300 : 5000);
		if (a.end != rows[i].end || a.status != rows[i].status || strcmp(text_of(&a), rows[i].text) != 0)
			fail_msg("%s: end %d status %d %.40s", rows[i].path, a.end, a.status, text_of(&a));
		if (a.end == LOOP_TIMED_OUT)
			assert_in_range(a.took_ms, 280, 700);
	}
	buf_free(&a.answer);
}

static void test_large_both_ways(void **state)
{
	struct asked a = { .times = 0 };
	struct buf body = { 0 };

	memset(buf_extend(&body, 900000), 'x', 900000);
	ask(*state, &a, http("/echo"), buf_slice(&body), 5000);
	run(*state, 1);
	assert_int_equal(a.end, LOOP_ANSWERED);
	assert_int_equal(a.answer.len, 900001);
	assert_memory_equal(a.answer.data, body.data, body.len);
	ask_one(*state, &a, http("/exact"), "", 5000);
	assert_int_equal(a.end, LOOP_ANSWERED);
	assert_int_equal(a.answer.len, CAP + 1);
	ask(*state, &a, http("/echo"), (struct slice){ NULL, 0 }, 5000);
	run(*state, 1);
	assert_string_equal(text_of(&a), "");
	buf_free(&a.answer);
	buf_free(&body);
}

static void test_nobody_there(void **state)
{
	static const char *const schemes[] = { "http", "https", "ws", "file", "nonsense" };
	struct asked a = { .times = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		ask_one(*state, &a, url_of(schemes[i], "127.0.0.1", refused_port, "/"), "", 5000);
		assert_int_equal(a.end, LOOP_UNREACHABLE);
	}
	ask_one(*state, &a, "", "", 5000);
	assert_int_equal(a.end, LOOP_UNREACHABLE);
	ask_one(*state, &a, "http://not a url/", "", 5000);
	assert_int_equal(a.end, LOOP_UNREACHABLE);
	buf_free(&a.answer);
}

static void test_what_is_sent(void **state)
{
	struct asked a = { .times = 0 };

	ask_one(*state, &a, url_of("http", "user:p%40ss@127.0.0.1", plain_port, "/headers?key=K%20&x=1"), "{}", 5000);
	assert_non_null(strstr(text_of(&a), "\"url\":\"/headers?key=K%20&x=1\""));
	assert_non_null(strstr(text_of(&a), "\"method\":\"POST\""));
	assert_non_null(strstr(text_of(&a), "\"content-type\":\"application/json\""));
	assert_non_null(strstr(text_of(&a), "\"authorization\":\"Basic dXNlcjpwQHNz\""));
	assert_non_null(strstr(text_of(&a), "\"user-agent\":\"tidemark\""));
	assert_null(strstr(text_of(&a), "\"expect\""));
	buf_free(&a.answer);
}

static void cancel_other(struct asked *a)
{
	struct asked *other = a->ctx;

	CALL(a->w, post_cancel, &other->post);
	CALL(a->w, post_cancel, &other->post);
	assert_int_equal(other->times, 0);
}

static void test_cancel(void **state)
{
	struct world *w = *state;
	struct asked never_begun = { .times = 0 }, under_way = { .times = 0 }, quick = { .then = cancel_other };

	ask(w, &never_begun, http("/mute"), slice_of_text(""), 5000);
	CALL(w, post_cancel, &never_begun.post);
	assert_int_equal(never_begun.times, 0);
	quick.ctx = &under_way;
	ask(w, &under_way, http("/mute"), slice_of_text(""), 5000);
	ask(w, &quick, http("/late"), slice_of_text(""), 5000);
	run(w, 3);
	assert_int_equal(never_begun.end, LOOP_CANCELED);
	assert_int_equal(under_way.end, LOOP_CANCELED);
	assert_int_equal(quick.end, LOOP_ANSWERED);
	CALL(w, post_cancel, &under_way.post);	/* too late: nothing */
	rest(w, 50);
	assert_int_equal(never_begun.times + under_way.times + quick.times, 3);
	buf_free(&never_begun.answer);
	buf_free(&under_way.answer);
	buf_free(&quick.answer);
}

static void ask_again(struct asked *a)
{
	unsigned *left = a->ctx;

	assert_string_equal(text_of(a), "{}");
	if ((*left)-- > 0)
		ask(a->w, a, http("/echo"), slice_of_text("{}"), 5000);
}

static void test_sequential(void **state)
{
	unsigned left = 199;
	struct asked a = { .then = ask_again, .ctx = &left };
	int before = fetch_number(*state, "/connections");
	int64_t start_ms = steady_ms();

	ask(*state, &a, http("/echo"), slice_of_text("{}"), 5000);
	run(*state, 200);
	printf("note: 200 sequential requests in %lld ms\n", (long long)(steady_ms() - start_ms));
	assert_int_equal(fetch_number(*state, "/connections"), before);
	buf_free(&a.answer);
}

/* A connection that was closed while it waited for its next use is no failure. */
static void test_idle_connection(void **state)
{
	struct asked a = { .times = 0 };

	for (int i = 0; i < 5; i++) {
		ask_one(*state, &a, http("/idle"), "{}", 5000);
		assert_string_equal(text_of(&a), "idle");
		rest(*state, i * 25);
	}
	buf_free(&a.answer);
}

static void test_parallel(void **state)
{
	struct world *w = *state;
	struct asked all[32] = { { .times = 0 } };
	int64_t start_ms = steady_ms();
	unsigned turns = w->turns;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		ask(w, &all[i], http("/late"), slice_of_text("{}"), 5000);
	run(w, ARRAY_SIZE(all));
	printf("note: 32 parallel requests of 100 ms in %lld ms, %u turns\n", (long long)(steady_ms() - start_ms),
	       w->turns - turns);
	assert_true(steady_ms() - start_ms < 1500);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(all[i].times, 1);
		assert_string_equal(text_of(&all[i]), "late");
		buf_free(&all[i].answer);
	}
}

/* What is under way at the end is told, exactly once. */
static void test_end_cancels(void **state)
{
	struct world w;
	struct asked begun = { .times = 0 }, queued = { .times = 0 };

	(void)state;
	world_open(&w, &usual);
	ask(&w, &begun, http("/mute"), slice_of_text(""), 5000);
	rest(&w, 50);
	ask(&w, &queued, http("/mute"), slice_of_text(""), 5000);
	loop_real_free(w.loop);
	assert_int_equal(begun.end, LOOP_CANCELED);
	assert_int_equal(queued.end, LOOP_CANCELED);
	assert_int_equal(begun.times + queued.times, 2);
	buf_free(&begun.answer);
	buf_free(&queued.answer);
}

/* --- sockets ------------------------------------------------------------------ */

struct heard {
	struct loop_socket socket;
	struct world *w;
	unsigned opened, messages, closed;
	struct buf last, longest;
	const char *say;		/* when opened */
	void (*then)(struct heard *h);	/* after each message */
	unsigned reopen;		/* times, when closed */
};

static void on_opened(struct loop_socket *s)
{
	struct heard *h = s->ctx;

	heard_of(h->w);
	assert_true(s->open);
	h->opened++;
	if (h->say)
		CALL(h->w, socket_send, s, slice_of_text(h->say));
	arrived(h->w);
}

static void on_message(struct loop_socket *s, struct slice text)
{
	struct heard *h = s->ctx;

	heard_of(h->w);
	assert_true(s->open);
	h->messages++;
	h->last.len = 0;
	buf_put(&h->last, text.data, text.len);
	buf_put_u8(&h->last, 0);
	if (text.len > h->longest.len) {
		h->longest.len = 0;
		buf_put(&h->longest, text.data, text.len);
	}
	if (h->then)
		h->then(h);
	arrived(h->w);
}

static void on_closed(struct loop_socket *s)
{
	struct heard *h = s->ctx;

	heard_of(h->w);
	assert_false(s->open);
	h->closed++;
	if (h->reopen) {
		h->reopen--;
		CALL(h->w, socket_open, s);
	}
	arrived(h->w);
}

static void listen_to(struct world *w, struct heard *h, const char *url)
{
	h->w = w;
	h->opened = h->messages = h->closed = 0;
	h->socket = (struct loop_socket){ .url = url, .opened = on_opened, .message = on_message,
					  .closed = on_closed, .ctx = h };
	CALL(w, socket_open, &h->socket);
	assert_int_equal(h->opened + h->closed, 0);
}

static void expect_heard(const struct heard *h, unsigned opened, unsigned messages, unsigned closed)
{
	if (h->opened != opened || h->messages != messages || h->closed != closed)
		fail_msg("%s: opened %u, %u messages, closed %u", h->socket.url, h->opened, h->messages, h->closed);
}

static void let_go(struct heard *h)
{
	CALL(h->w, socket_close, &h->socket);
	buf_free(&h->last);
	buf_free(&h->longest);
}

static void test_echo(void **state)
{
	struct heard h = { .say = "{\"id\":1}" };

	listen_to(*state, &h, ws("/echo"));
	run(*state, 2);
	assert_string_equal((char *)h.last.data, "{\"id\":1}");
	for (int i = 0; i < 20; i++) {
		char text[32];

		snprintf(text, sizeof(text), "message %d", i);
		CALL(h.w, socket_send, &h.socket, slice_of_text(text));
	}
	run(*state, 20);
	assert_string_equal((char *)h.last.data, "message 19");
	expect_heard(&h, 1, 21, 0);
	let_go(&h);
	rest(*state, 100);
	expect_heard(&h, 1, 21, 0);
}

static void test_sent_before_open(void **state)
{
	struct heard h = { .say = NULL };
	struct buf body = { 0 };

	memset(buf_extend(&body, 3000000), 'y', 3000000);
	listen_to(*state, &h, ws("/echo"));
	CALL(h.w, socket_send, &h.socket, buf_slice(&body));
	run(*state, 2);
	assert_int_equal(h.last.len, 3000001);
	assert_memory_equal(h.last.data, body.data, body.len);
	let_go(&h);
	CALL(h.w, socket_send, &h.socket, buf_slice(&body));	/* to nobody */
	CALL(h.w, socket_close, &h.socket);
	rest(*state, 50);
	buf_free(&body);
}

static void test_what_a_socket_says(void **state)
{
	struct heard h = { .say = NULL };

	listen_to(*state, &h, url_of("ws", "user:p%40ss@node.test", plain_port, "/whoami/SECRET?k=S%202"));
	run(*state, 1);
	let_go(&h);
	listen_to(*state, &h, url_of("ws", "user:p%40ss@node.test", plain_port, "/whoami?k=S%202"));
	run(*state, 2);
	assert_non_null(strstr((char *)h.last.data, "\"url\":\"/whoami?k=S%202\""));
	assert_non_null(strstr((char *)h.last.data, "\"authorization\":\"Basic dXNlcjpwQHNz\""));
	assert_non_null(strstr((char *)h.last.data, "\"host\":\"node.test:"));
	assert_null(strstr((char *)h.last.data, "extensions"));
	assert_null(strstr((char *)h.last.data, "origin"));
	let_go(&h);
}

static void expect_digits(const struct heard *h)
{
	assert_int_equal(h->longest.len, 300000);
	for (unsigned i = 0; i < 300000; i++)
		assert_int_equal(h->longest.data[i], 48 + (i * 7 + (i >> 8)) % 10);
}

static void test_pieces(void **state)
{
	struct heard h = { .say = NULL };

	listen_to(*state, &h, ws("/pieces"));
	run(*state, 2);
	expect_digits(&h);
	let_go(&h);
	listen_to(*state, &h, ws("/continued"));
	run(*state, 3);
	expect_digits(&h);
	assert_string_equal((char *)h.last.data, "pong between");
	let_go(&h);
	listen_to(*state, &h, ws("/two"));
	run(*state, 4);
	assert_string_equal((char *)h.last.data, "");
	expect_heard(&h, 1, 3, 0);
	let_go(&h);
	listen_to(*state, &h, ws("/burst"));
	run(*state, 12001);
	assert_string_equal((char *)h.last.data, "{\"head\":11999}");
	let_go(&h);
}

static void test_too_large(void **state)
{
	static const char *const paths[] = { "/huge", "/hugeparts" };
	struct asked closes = { .times = 0 };
	struct heard h = { .say = NULL };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		listen_to(*state, &h, ws(paths[i]));
		run(*state, 2);
		expect_heard(&h, 1, 0, 1);
	}
	rest(*state, 300);
	expect_heard(&h, 1, 0, 1);
	ask_one(*state, &closes, http("/closes"), "", 5000);
	assert_non_null(strstr(text_of(&closes), "\"/huge\":1009"));
	assert_non_null(strstr(text_of(&closes), "\"/hugeparts\":1009"));
	buf_free(&closes.answer);
	let_go(&h);
}

/* Each is told closed once, and the same socket opens elsewhere afterwards. */
static void test_ends(void **state)
{
	static const struct {
		const char *path;
		unsigned opened;
	} rows[] = {
		{ "/1000", 1 }, { "/1001", 1 }, { "/1012", 1 }, { "/fin", 1 }, { "/reset", 1 }, { "/half", 1 },
		{ "/401", 0 }, { "/429", 0 }, { "/302", 0 }, { "/200", 0 }, { "/liar", 0 }, { "/nothing", 0 },
		{ "/silence", 0 },
	};
	struct heard h = { .say = NULL };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		listen_to(*state, &h, ws(rows[i].path));
		run(*state, rows[i].opened + 1);
		rest(*state, 20);
		expect_heard(&h, rows[i].opened, 0, 1);
	}
	listen_to(*state, &h, ws("/wordy"));
	run(*state, 1);
	expect_heard(&h, 1, 0, 0);
	let_go(&h);
}

static void test_nowhere(void **state)
{
	char path[3000];
	struct heard h = { .say = NULL };
	const char *urls[] = {
		url_of("ws", "127.0.0.1", refused_port, "/"), url_of("wss", "127.0.0.1", refused_port, "/"),
		url_of("wss", "127.0.0.1", plain_port, "/echo"), url_of("http", "127.0.0.1", plain_port, "/echo"),
		"", "ws://", "ws://no host/", "nonsense", NULL,
	};

	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	urls[ARRAY_SIZE(urls) - 1] = ws(path);
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		listen_to(*state, &h, urls[i]);
		run(*state, 1);
		rest(*state, 10);
		expect_heard(&h, 0, 0, 1);
	}
}

/* Whatever a peer sends, it is told closed or waits; run this one under valgrind after any change. */
static void test_garbage(void **state)
{
	struct heard h = { .say = NULL };
	char path[32];
	unsigned closed = 0;

	for (int seed = 1; seed <= 60; seed++) {
		snprintf(path, sizeof(path), "/garbage?%d", seed);
		listen_to(*state, &h, ws(path));
		run(*state, 1);
		rest(*state, 15);
		assert_true(h.closed <= 1);
		closed += h.closed;
		CALL(h.w, socket_close, &h.socket);
	}
	assert_true(closed > 20);
	let_go(&h);
}

/* One that neither reads nor answers a ping, one that answers none but talks, one that never lets us in. */
static void test_silent_peers(void **state)
{
	struct heard deaf = { .say = NULL }, talks = { .say = NULL }, silence = { .say = NULL };
	int64_t start_ms = steady_ms(), ms;

	listen_to(*state, &talks, ws("/nopong"));
	listen_to(*state, &deaf, ws("/deaf"));
	while (!deaf.closed)
		run(*state, 1);
	ms = steady_ms() - start_ms;
	printf("note: a deaf peer is hung up after %lld ms\n", (long long)ms);
	assert_in_range(ms, 1900, 2700);
	rest(*state, 1000);
	assert_int_equal(talks.closed, 0);
	let_go(&talks);
	start_ms = steady_ms();
	listen_to(*state, &silence, ws("/silence"));
	run(*state, 1);
	ms = steady_ms() - start_ms;
	expect_heard(&silence, 0, 0, 1);
	assert_in_range(ms, 1900, 2500);
}

static void close_it(struct heard *h)
{
	CALL(h->w, socket_close, &h->socket);
}

/* The owner's close is not told, wherever it comes. */
static void test_owner_closes(void **state)
{
	struct world *w = *state;
	struct heard h = { .then = close_it };

	listen_to(w, &h, ws("/two"));		/* in the first of its messages */
	run(w, 2);
	rest(w, 100);
	expect_heard(&h, 1, 1, 0);
	listen_to(w, &h, ws("/echo"));		/* before it was begun, and again */
	CALL(w, socket_close, &h.socket);
	CALL(w, socket_close, &h.socket);
	CALL(w, socket_open, &h.socket);
	run(w, 1);
	expect_heard(&h, 1, 0, 0);
	CALL(w, socket_close, &h.socket);
	listen_to(w, &h, ws("/silence"));	/* while it waits to be let in */
	rest(w, 100);
	CALL(w, socket_close, &h.socket);
	listen_to(w, &h, url_of("ws", "never.test", plain_port, "/"));	/* while its name is looked for */
	rest(w, 100);
	CALL(w, socket_close, &h.socket);
	rest(w, 100);
	expect_heard(&h, 0, 0, 0);
	assert_true(fetch_number(w, "/connections") > 0);
	let_go(&h);
}

static void test_reopen(void **state)
{
	struct heard h = { .reopen = 49 };

	listen_to(*state, &h, ws("/1001"));
	run(*state, 100);
	expect_heard(&h, 50, 0, 50);
	h.reopen = 49;
	listen_to(*state, &h, url_of("ws", "127.0.0.1", refused_port, "/"));
	run(*state, 50);
	expect_heard(&h, 0, 0, 50);
}

static void test_nothing_leaks(void **state)
{
	struct asked a = { .times = 0 };
	struct heard h = { .say = NULL };
	unsigned before;

	for (int round = 0; round < 2; round++) {
		before = open_fds();
		for (int i = 0; i < (round ? 1000 : 1); i++)
			ask_one(*state, &a, http("/echo"), "{}", 5000);
		for (int i = 0; i < (round ? 50 : 1); i++) {
			listen_to(*state, &h, ws("/fin"));
			run(*state, 2);
		}
		rest(*state, 200);
	}
	printf("note: %u descriptors before 1000 requests and 50 sockets, %u after\n", before, open_fds());
	assert_true(open_fds() <= before);
	buf_free(&a.answer);
}

/* --- TLS and the environment ---------------------------------------------------- */

static void expect_tls(const struct loop_real_options *o, const char *host, bool good)
{
	struct asked a = { .times = 0 };
	struct heard h = { .say = "hello" };
	struct world w;

	world_open(&w, o);
	ask_one(&w, &a, url_of("https", host, tls_port, "/echo"), "secret", 5000);
	assert_int_equal(a.end, good ? LOOP_ANSWERED : LOOP_UNREACHABLE);
	listen_to(&w, &h, url_of("wss", host, tls_port, "/echo"));
	run(&w, good ? 2 : 1);
	expect_heard(&h, good, good, !good);
	if (good)
		assert_string_equal((char *)h.last.data, "hello");
	let_go(&h);
	loop_real_free(w.loop);
	buf_free(&a.answer);
}

static void test_tls(void **state)
{
	struct loop_real_options stranger = usual;

	(void)state;
	stranger.ca_file = NULL;
	expect_tls(&usual, "node.test", true);
	expect_tls(&usual, "127.0.0.1", true);
	expect_tls(&usual, "localhost", false);		/* not in the certificate */
	expect_tls(&stranger, "node.test", false);	/* by nobody we know */
}

static void test_large_by_tls(void **state)
{
	struct heard h = { .say = NULL };

	listen_to(*state, &h, url_of("wss", "node.test", tls_port, "/continued"));
	run(*state, 3);
	expect_digits(&h);
	assert_string_equal((char *)h.last.data, "pong between");
	let_go(&h);
	listen_to(*state, &h, url_of("wss", "node.test", tls_port, "/pieces"));
	run(*state, 2);
	expect_digits(&h);
	let_go(&h);
	listen_to(*state, &h, url_of("wss", "node.test", tls_port, "/huge"));
	run(*state, 2);
	expect_heard(&h, 1, 0, 1);
}

static void test_no_ca_file(void **state)
{
	struct loop_real_options o = usual;

	(void)state;
	o.ca_file = "/nonexistent/ca.pem";
	assert_null(loop_real_new(&o));
}

static void test_proxy(void **state)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY" };
	struct loop_real_options through = usual;
	struct asked a = { .times = 0 };
	struct world w;
	const char *nobody = url_of("http", "127.0.0.1", refused_port, "");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		setenv(names[i], nobody, 1);
	expect_tls(&usual, "node.test", true);
	world_open(&w, &usual);
	ask_one(&w, &a, http("/echo"), "straight", 5000);
	assert_string_equal(text_of(&a), "straight");
	loop_real_free(w.loop);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
	through.proxy = nobody;
	world_open(&w, &through);
	ask_one(&w, &a, http("/echo"), "{}", 5000);
	assert_int_equal(a.end, LOOP_UNREACHABLE);
	loop_real_free(w.loop);
	buf_free(&a.answer);
	(void)state;
}

/* --- time ------------------------------------------------------------------------ */

struct tick {
	struct loop_timer timer;
	struct world *w;
	unsigned number, *next;
	int64_t period_ms, late_ms;	/* the latest it ever was */
};

static void on_tick(struct loop_timer *t)
{
	struct tick *k = t->ctx;
	int64_t late_ms = now_of(k->w) - t->at_ms;

	heard_of(k->w);
	assert_false(t->set);
	assert_true(late_ms >= 0);
	if (late_ms > k->late_ms)
		k->late_ms = late_ms;
	if (k->next)
		assert_int_equal((*k->next)++, k->number);
	if (k->period_ms)
		CALL(k->w, timer_set, t, now_of(k->w) + k->period_ms);
	else
		arrived(k->w);
}

static void set_tick(struct world *w, struct tick *k, int64_t after_ms)
{
	k->w = w;
	k->timer.fire = on_tick;
	k->timer.ctx = k;
	CALL(w, timer_set, &k->timer, now_of(w) + after_ms);
}

static void test_timers_in_order(void **state)
{
	static const struct {
		int64_t after_ms;
		unsigned number;
	} rows[] = { { 60, 4 }, { 10, 1 }, { 30, 2 }, { 30, 3 }, { -5, 0 }, { 90, 5 } };
	struct tick ticks[ARRAY_SIZE(rows)] = { { .number = 0 } };
	unsigned next = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ticks[i].number = rows[i].number;
		ticks[i].next = &next;
		set_tick(*state, &ticks[i], i == 0 ? 5 : rows[i].after_ms);
	}
	set_tick(*state, &ticks[0], rows[0].after_ms);	/* moved */
	run(*state, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_true(ticks[i].late_ms < 200);
	set_tick(*state, &ticks[0], 20);
	CALL(ticks[0].w, timer_cancel, &ticks[0].timer);
	CALL(ticks[0].w, timer_cancel, &ticks[0].timer);
	rest(*state, 60);
	assert_int_equal(next, 6);
}

/* One that sets itself for now again and again starves nobody. */
static void on_greedy(struct loop_timer *t)
{
	struct world *w = t->ctx;

	heard_of(w);
	CALL(w, timer_set, t, now_of(w));
}

static void test_greedy_timer(void **state)
{
	struct world *w = *state;
	struct loop_timer greedy = { .fire = on_greedy, .ctx = w };
	struct asked a = { .times = 0 };

	CALL(w, timer_set, &greedy, now_of(w));
	ask_one(w, &a, http("/echo"), "{}", 5000);
	assert_int_equal(a.end, LOOP_ANSWERED);
	CALL(w, timer_cancel, &greedy);
	buf_free(&a.answer);
}

static void burn(struct asked *a)
{
	int64_t now_ms = now_of(a->w);

	nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
	assert_int_equal(now_of(a->w), now_ms);
}

static void test_clock_stands(void **state)
{
	struct asked a = { .then = burn };
	int64_t before_ms = now_of(*state);

	ask_one(*state, &a, http("/echo"), "{}", 5000);
	ask_one(*state, &a, http("/echo"), "{}", 5000);
	assert_true(now_of(*state) >= before_ms + 30);
	assert_true(((struct world *)*state)->ops->random(NULL) != ((struct world *)*state)->ops->random(NULL));
	buf_free(&a.answer);
}

/* The wall clock is set: a minute's timer takes a minute still. */
static void test_clock_set(void **state)
{
	struct world *w = *state;
	struct tick a = { .number = 0 };
	int64_t start_ms = steady_ms(), steps_s[] = { -3600, 7200, 0 };

	rest(w, 10);
	for (size_t i = 0; i < ARRAY_SIZE(steps_s); i++) {
		a = (struct tick){ .number = 0 };
		set_tick(w, &a, 200);
		wall_ahead_s = steps_s[i];
		start_ms = steady_ms();
		run(w, 1);
		assert_in_range(steady_ms() - start_ms, 180, 400);
	}
}

/* A resolver that does not answer delays neither timers, nor others, nor the end. */
static void test_name_without_answer(void **state)
{
	struct world w;
	struct tick k = { .period_ms = 10 };
	struct asked lost = { .times = 0 }, fine = { .times = 0 };
	struct heard h = { .say = NULL };
	int64_t start_ms;

	(void)state;
	world_open(&w, &usual);
	set_tick(&w, &k, 10);
	listen_to(&w, &h, url_of("ws", "never.test", plain_port, "/echo"));
	ask(&w, &lost, url_of("http", "never.test", plain_port, "/echo"), slice_of_text("{}"), 400);
	ask(&w, &fine, http("/late"), slice_of_text("{}"), 5000);
	run(&w, 2);
	assert_int_equal(lost.end, LOOP_TIMED_OUT);
	assert_in_range(lost.took_ms, 380, 600);
	assert_in_range(fine.took_ms, 90, 400);
	rest(&w, 500);
	printf("note: with a name that nobody answers a timer was late by at most %lld ms\n", (long long)k.late_ms);
	assert_true(k.late_ms < 50);
	ask(&w, &lost, url_of("http", "never.test", plain_port, "/echo"), slice_of_text("{}"), 400);
	rest(&w, 50);
	start_ms = steady_ms();
	loop_real_free(w.loop);
	printf("note: and the end took %lld ms\n", (long long)(steady_ms() - start_ms));
	assert_true(steady_ms() - start_ms < 300);
	assert_int_equal(lost.end, LOOP_CANCELED);
	assert_int_equal(h.closed, 0);
	assert_int_equal(asked_in_loop, 0);
	nanosleep(&(struct timespec){ .tv_sec = 2 }, NULL);	/* its threads end */
	buf_free(&lost.answer);
	buf_free(&fine.answer);
}

static void test_name_fails(void **state)
{
	struct heard h = { .say = NULL };

	listen_to(*state, &h, url_of("ws", "never.test", plain_port, "/echo"));
	run(*state, 1);
	expect_heard(&h, 0, 0, 1);
}

/* --- the end ---------------------------------------------------------------------- */

static void on_strike(struct loop_timer *t)
{
	struct world *w = t->ctx;

	heard_of(w);
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGTERM);
}

static void test_signal(void **state)
{
	struct world w;
	struct loop_timer strike = { .fire = on_strike, .ctx = &w };
	struct heard h = { .say = NULL };
	struct asked a = { .times = 0 };
	int64_t start_ms;

	(void)state;
	world_open(&w, &usual);
	listen_to(&w, &h, ws("/echo"));
	ask(&w, &a, http("/mute"), slice_of_text(""), 60000);
	run(&w, 1);
	CALL(&w, timer_set, &strike, now_of(&w) + 50);
	start_ms = steady_ms();
	assert_int_equal(loop_real_run(w.loop), SIGTERM);
	assert_true(steady_ms() - start_ms < 1000);
	kill(getpid(), SIGINT);			/* impatient: the end goes on */
	loop_real_cancel_all(w.loop);
	assert_int_equal(a.end, LOOP_CANCELED);
	loop_real_free(w.loop);
	printf("note: SIGTERM to freed in %lld ms\n", (long long)(steady_ms() - start_ms - 50));
	assert_true(steady_ms() - start_ms < 1000);
	expect_heard(&h, 1, 0, 0);
	buf_free(&a.answer);
}

static void test_stop_before_run(void **state)
{
	struct world *w = *state;

	loop_real_stop(w->loop);
	assert_int_equal(loop_real_run(w->loop), 0);
	rest(w, 10);
}

/* Every kind of failure, with a secret in each part of the URL that has room for one. */
static void fail_with_secrets(struct world *w)
{
	static const char *const paths[] = { "/401", "/302", "/liar", "/fin", "/1001", "/nothing", "/huge" };
	static const int *const ports[] = { &refused_port, &plain_port, &tls_port };
	struct asked a = { .times = 0 };
	struct heard h = { .say = NULL };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		snprintf(path, sizeof(path), "%s?k=SECRET", paths[i]);
		listen_to(w, &h, url_of("ws", "SECRET:SECRET@127.0.0.1", plain_port, path));
		while (!h.closed)
			run(w, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		listen_to(w, &h, url_of("ws", "SECRET:SECRET@localhost", *ports[i], "/401?SECRET"));
		run(w, 1);
		listen_to(w, &h, url_of("wss", "SECRET:SECRET@localhost", *ports[i], "/401?SECRET"));
		run(w, 1);
		ask_one(w, &a, url_of("https", "SECRET:SECRET@localhost", *ports[i], "/SECRET?SECRET"), "", 2000);
		ask_one(w, &a, url_of("http", "SECRET:SECRET@localhost", *ports[i], "/mute?SECRET"), "", 100);
		ask_one(w, &a, url_of("bad", "SECRET:SECRET@localhost", *ports[i], "/SECRET?SECRET"), "", 100);
	}
	listen_to(w, &h, url_of("http", "SECRET:SECRET@localhost", 1, "/SECRET"));
	run(w, 1);
	buf_free(&a.answer);
}

static void test_no_secrets(void **state)
{
	char name[96];
	static char text[65536];
	int old = dup(STDERR_FILENO), fd;
	ssize_t len;

	snprintf(name, sizeof(name), "%s/log", certificates);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	log_set_level(LOG_DEBUG);
	fail_with_secrets(*state);
	log_set_level(LOG_ODD);
	dup2(old, STDERR_FILENO);
	close(old);
	len = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	assert_true(len > 0);
	assert_non_null(strstr(text, "127.0.0.1"));
	assert_non_null(strstr(text, "status=401"));
	assert_non_null(strstr(text, "certificate"));
	if (strstr(text, "SECRET"))
		fail_msg("%s", text);
}

/* --- the servers -------------------------------------------------------------------- */

static pid_t servers;
static int servers_stdin, servers_stdout;

static void shell(const char *fmt, ...)
{
	char command[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void make_certificates(void)
{
	snprintf(certificates, sizeof(certificates), "/tmp/tidemark-loop-XXXXXX");
	assert_non_null(mkdtemp(certificates));
	snprintf(ca_file, sizeof(ca_file), "%s/ca.pem", certificates);
	shell("cd %s && exec 2>log && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	      "-days 2 -subj /CN=tests -keyout ca.key -out ca.pem", certificates);
	shell("cd %s && exec 2>log && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	      "-subj /CN=node -keyout key.pem -out node.csr", certificates);
	shell("cd %s && exec 2>log && echo subjectAltName=DNS:node.test,IP:127.0.0.1 >ext && openssl x509 -req -days 2 "
	      "-in node.csr -CA ca.pem -CAkey ca.key -set_serial 2 -extfile ext -out cert.pem >log", certificates);
}

/* Bound and not listening, so nobody else gets it. */
static int make_refused_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return ntohs(a.sin_port);
}

static void start_servers(void)
{
	char key[96], cert[96], line[128] = "";
	char *argv[] = { "node", "tests/loop/servers.js", key, cert, NULL };
	posix_spawn_file_actions_t actions;
	int in[2], out[2];
	ssize_t len;

	snprintf(key, sizeof(key), "%s/key.pem", certificates);
	snprintf(cert, sizeof(cert), "%s/cert.pem", certificates);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	assert_int_equal(posix_spawnp(&servers, "node", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	servers_stdin = in[1];
	servers_stdout = out[0];
	len = read(servers_stdout, line, sizeof(line) - 1);
	assert_true(len > 0);
	assert_int_equal(sscanf(line, "plain=%d tls=%d", &plain_port, &tls_port), 2);
}

static int begin(void **state)
{
	(void)state;
	make_certificates();
	refused_port = make_refused_port();
	start_servers();
	return 0;
}

/* They end with their stdin. */
static int end(void **state)
{
	(void)state;
	close(servers_stdin);
	waitpid(servers, NULL, 0);
	shell("rm -r %s", certificates);
	return 0;
}

#define IN_WORLD(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_WORLD(test_answers),
		IN_WORLD(test_large_both_ways),
		IN_WORLD(test_nobody_there),
		IN_WORLD(test_what_is_sent),
		IN_WORLD(test_cancel),
		IN_WORLD(test_sequential),
		IN_WORLD(test_idle_connection),
		IN_WORLD(test_parallel),
		IN_WORLD(test_echo),
		IN_WORLD(test_sent_before_open),
		IN_WORLD(test_what_a_socket_says),
		IN_WORLD(test_pieces),
		IN_WORLD(test_too_large),
		IN_WORLD(test_ends),
		IN_WORLD(test_nowhere),
		IN_WORLD(test_garbage),
		IN_WORLD(test_silent_peers),
		IN_WORLD(test_owner_closes),
		IN_WORLD(test_reopen),
		IN_WORLD(test_nothing_leaks),
		IN_WORLD(test_large_by_tls),
		IN_WORLD(test_timers_in_order),
		IN_WORLD(test_greedy_timer),
		IN_WORLD(test_clock_stands),
		IN_WORLD(test_clock_set),
		IN_WORLD(test_name_fails),
		IN_WORLD(test_stop_before_run),
		IN_WORLD(test_no_secrets),
		cmocka_unit_test(test_end_cancels),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_no_ca_file),
		cmocka_unit_test(test_proxy),
		cmocka_unit_test(test_name_without_answer),
		cmocka_unit_test(test_signal),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("loop", tests, begin, end);
}
