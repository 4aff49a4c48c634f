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
#include <errno.h>
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
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
	if (node && !is_number(node) && !(hints->ai_flags & AI_NUMERICHOST) && pthread_equal(pthread_self(), loop_thread))
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

static int64_t steady_of(struct world *w)
{
	return w->ops->steady_ms(w->loop);
}

/* Until @count things arrived, or @ms passed; true if they did. */
static bool run_for(struct world *w, unsigned count, int64_t ms)
{
	w->awaited = count;
	w->guard = (struct loop_timer){ .fire = on_guard, .ctx = w };
	CALL(w, timer_set, &w->guard, steady_of(w) + ms);
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
	.ca_file = ca_file, .answer_max_bytes = CAP, .open_s = 2, .ping_s = 1, .hangup_s = 2, .request_max_bytes = 1000,
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
	int64_t late_ms = steady_of(k->w) - t->at_ms;

	heard_of(k->w);
	assert_false(t->set);
	assert_true(late_ms >= 0);
	if (late_ms > k->late_ms)
		k->late_ms = late_ms;
	if (k->next)
		assert_int_equal((*k->next)++, k->number);
	if (k->period_ms)
		CALL(k->w, timer_set, t, steady_of(k->w) + k->period_ms);
	else
		arrived(k->w);
}

static void set_tick(struct world *w, struct tick *k, int64_t after_ms)
{
	k->w = w;
	k->timer.fire = on_tick;
	k->timer.ctx = k;
	CALL(w, timer_set, &k->timer, steady_of(w) + after_ms);
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
	CALL(w, timer_set, t, steady_of(w));
}

static void test_greedy_timer(void **state)
{
	struct world *w = *state;
	struct loop_timer greedy = { .fire = on_greedy, .ctx = w };
	struct asked a = { .times = 0 };

	CALL(w, timer_set, &greedy, steady_of(w));
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
	CALL(&w, timer_set, &strike, steady_of(&w) + 50);
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

/* --- served ------------------------------------------------------------------------- */

#define LARGE_BYTES ((size_t)5 << 20)

/* The loop, which has it, outlives the test's frame. */
struct served {
	struct loop_server server;
	struct world *w;
	unsigned asked, kept_count;
	struct loop_request *kept[64];
	struct buf large;
};

static void answer(struct served *s, struct loop_request *request, int status, struct slice body)
{
	s->w->inside = true;
	loop_real_answer(request, status, "text/plain", body);
	s->w->inside = false;
}

static void answer_echo(struct served *s, struct loop_request *q)
{
	struct buf text = { 0 };

	buf_printf(&text, "%s %s [%s] ", q->method, q->path, q->query);
	buf_put(&text, q->body.data, q->body.len);
	answer(s, q, 200, buf_slice(&text));
	buf_free(&text);
}

static void on_asked(struct loop_server *server, struct loop_request *q)
{
	struct served *s = server->ctx;

	heard_of(s->w);
	s->asked++;
	if (strcmp(q->path, "/keep") == 0)
		s->kept[s->kept_count++] = q;
	else if (strcmp(q->path, "/large") == 0)
		answer(s, q, 200, buf_slice(&s->large));
	else if (strcmp(q->path, "/201") == 0)
		answer(s, q, 201, (struct slice){ NULL, 0 });
	else
		answer_echo(s, q);
	arrived(s->w);
}

static void serve(struct world *w, struct served *s, const char *unix_path)
{
	struct complaint why = { "" };

	*s = (struct served){ .w = w };
	s->server = (struct loop_server){ .unix_path = unix_path, .host = "127.0.0.1", .asked = on_asked, .ctx = s };
	if (loop_real_listen(w->loop, &s->server, &why) != OK)
		fail_msg("%s", why.text);
	assert_int_equal(s->server.port != 0, !unix_path);
}

static void set_digits(struct buf *b, size_t len)
{
	b->len = 0;
	buf_extend(b, len);
	for (size_t i = 0; i < len; i++)
		b->data[i] = (uint8_t)('0' + (i * 7 + (i >> 8)) % 10);
}

/* A raw socket, driven by a timer of the loop that it talks to. */
struct client {
	struct world *w;
	int fd;
	struct loop_timer timer;
	struct slice to_send;
	size_t step_bytes, read_bytes;	/* at a time */
	struct buf got;
	bool closed;
	const char *awaited;		/* told; NULL: the end of all */
	bool ready;
};

static struct client client_new(struct served *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->server.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct client c = { .w = s->w, .step_bytes = SIZE_MAX, .read_bytes = CAP };

	c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(c.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	fcntl(c.fd, F_SETFL, O_NONBLOCK);
	return c;
}

static void client_free(struct client *c)
{
	close(c->fd);
	buf_free(&c->got);
}

/* One answer as "200 keep body" and a newline; where it ends, or NULL if its head is not whole. */
static const char *tell_answer(const char *at, const char *end, struct buf *told)
{
	const char *head_end = strstr(at, "\r\n\r\n"), *length = strstr(at, "\r\nContent-Length: ");
	const char *body = head_end ? head_end + 4 : NULL;
	size_t len;

	if (!head_end || strncmp(at, "HTTP/1.1 ", 9) != 0)
		return NULL;
	buf_printf(told, "%.3s", at + 9);
	if (!length || length > head_end) {
		buf_put_text(told, "\n");
		return body;
	}
	len = strtoul(length + 18, NULL, 10);
	buf_printf(told, " %s", strncmp(head_end - 10, "keep-alive", 10) == 0 ? "keep" : "close");
	if (len > (size_t)(end - body)) {
		buf_printf(told, " cut\n");
		return end;
	}
	buf_printf(told, " %.*s\n", (int)len, body);
	return body + len;
}

/* All answers, what follows them, and "end" if the connection did. */
static const char *told_by(struct client *c)
{
	static struct buf told;
	const char *at, *next, *end;

	told.len = 0;
	buf_put_u8(&c->got, 0);
	c->got.len--;
	at = (const char *)c->got.data;
	end = at + c->got.len;
	while ((next = tell_answer(at, end, &told)))
		at = next;
	buf_put(&told, at, (size_t)(end - at));
	buf_put_text(&told, c->closed ? "end" : "");
	buf_put_u8(&told, 0);
	return (const char *)told.data;
}

static void client_send(struct client *c)
{
	size_t len = c->to_send.len < c->step_bytes ? c->to_send.len : c->step_bytes;
	ssize_t sent = len ? send(c->fd, c->to_send.data, len, MSG_NOSIGNAL) : 0;

	if (sent <= 0)
		return;
	c->to_send.data += sent;
	c->to_send.len -= (size_t)sent;
}

static void client_receive(struct client *c)
{
	uint8_t *to = buf_extend(&c->got, c->read_bytes);
	ssize_t len = c->read_bytes ? recv(c->fd, to, c->read_bytes, 0) : -1;

	c->closed |= c->read_bytes && (len == 0 || (len < 0 && errno != EAGAIN));
	c->got.len -= c->read_bytes - (len > 0 ? (size_t)len : 0);
}

static void on_client(struct loop_timer *t)
{
	struct client *c = t->ctx;

	heard_of(c->w);
	client_send(c);
	client_receive(c);
	c->ready = c->awaited ? strcmp(told_by(c), c->awaited) == 0 : c->closed;
	if (c->ready)
		loop_real_stop(c->w->loop);
	else
		CALL(c->w, timer_set, t, steady_of(c->w) + (c->to_send.len ? 0 : 1));
}

/* Send it and run until what it is told is @awaited. */
static bool talk(struct client *c, struct slice bytes, const char *awaited)
{
	c->to_send = bytes;
	c->awaited = awaited;
	c->ready = false;
	c->timer = (struct loop_timer){ .fire = on_client, .ctx = c };
	CALL(c->w, timer_set, &c->timer, steady_of(c->w));
	run_for(c->w, 1000000, PATIENCE_MS);
	CALL(c->w, timer_cancel, &c->timer);
	return c->ready;
}

static void expect_told(struct client *c, const char *sent, const char *awaited)
{
	if (!talk(c, slice_of_text(sent), awaited))
		fail_msg("to %.200s: %.400s", sent, told_by(c));
}

#define HOST "Host: anything\r\n"
#define REFUSAL(why) "{\"error\":{\"code\":\"E_INPUT\",\"text\":\"" why "\"}}\nend"

static const struct {
	const char *sent, *told;
} talks[] = {
	{ "GET /a?b=c HTTP/1.1\r\n" HOST "\r\n", "200 keep GET /a [b=c] \n" },
	{ "GET /%2fa//../b;\xff\x80?%26?x HTTP/1.1\r\n" HOST "\r\n", "200 keep GET /%2fa//../b;\xff\x80 [%26?x] \n" },
	{ "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "200 close GET / [] \nend" },
	{ "GET / HTTP/1.0\r\n\r\n", "200 close GET / [] \nend" },
	{ "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "200 keep GET / [] \n" },
	{ "GET /201 HTTP/1.1\r\n" HOST "\r\n", "201 keep \n" },
	{ "POST / HTTP/1.1\r\n" HOST "\r\n", "200 keep POST / [] \n" },
	{ "POST /p HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n1\r\n4", "200 keep POST /p [] 1\r\n4\n" },
	{ "POST /p HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	  "200 keep POST /p [] abcde\n" },
	{ "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n",
	  "200 keep GET /1 [] \n200 keep GET /2 [] \n200 keep GET /3 [] \n" },
	{ "POST /1 HTTP/1.1\r\nContent-Length: 1\r\n\r\naPOST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	  "1\r\nb\r\n0\r\n\r\nGET /3 HTTP/1.0\r\n\r\nGET /never HTTP/1.1\r\n\r\n",
	  "200 keep POST /1 [] a\n200 keep POST /2 [] b\n200 close GET /3 [] \nend" },
	{ "GET /1 HTTP/1.1\r\n\r\nnonsense\r\n\r\nGET /2 HTTP/1.1\r\n\r\n",
	  "200 keep GET /1 [] \n400 close " REFUSAL("no request line") },
	{ "DELETE /v1/intents/1 HTTP/1.1\r\n" HOST "\r\n", "405 close " REFUSAL("only GET and POST") },
	{ "HEAD / HTTP/1.1\r\n" HOST "\r\n", "405 close cut\nend" },
	{ "GET / HTTP/3\r\n\r\n", "505 close " REFUSAL("only HTTP/1.0 and 1.1") },
	{ "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
	  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "400 close " REFUSAL("no WebSocket here") },
	{ "POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413 close " REFUSAL("the body is too large") },
	{ "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", "413 close " REFUSAL("the body is too large") },
	{ "\x16\x03\x01\x02\x01\xfc\x03\x03\n", "400 close " REFUSAL("a control byte in the head") },
};

static void test_talks(void **state)
{
	static struct served s;

	serve(*state, &s, NULL);
	for (size_t step = 1; step < 400; step += 133) {
		for (size_t i = 0; i < ARRAY_SIZE(talks); i++) {
			struct client c = client_new(&s);

			c.step_bytes = step;
			expect_told(&c, talks[i].sent, talks[i].told);
			client_free(&c);
		}
	}
}

static void test_one_client_for_long(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	for (unsigned i = 0; i < 200; i++) {
		c.got.len = 0;
		expect_told(&c, "POST /p HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", "200 keep POST /p [] hi\n");
	}
	assert_int_equal(s.asked, 200);
	client_free(&c);
}

static void test_long_pipeline(void **state)
{
	struct buf sent = { 0 }, told = { 0 };
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	for (unsigned i = 0; i < 5000; i++) {
		buf_printf(&sent, "GET /n%u HTTP/1.1\r\n%s\r\n", i, i == 4999 ? "Connection: close\r\n" : "");
		buf_printf(&told, "200 %s GET /n%u [] \n", i == 4999 ? "close" : "keep", i);
	}
	buf_put(&told, "end", 4);
	c = client_new(&s);
	if (!talk(&c, buf_slice(&sent), NULL))
		fail_msg("%u asked", s.asked);
	assert_string_equal(told_by(&c), (char *)told.data);
	client_free(&c);
	buf_free(&sent);
	buf_free(&told);
}

static void test_told_to_continue(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	expect_told(&c, "POST /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", "100\n");
	expect_told(&c, "body", "100\n200 keep POST /p [] body\n");
	client_free(&c);
	c = client_new(&s);
	expect_told(&c, "POST /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4000\r\n\r\n",
		    "413 close " REFUSAL("the body is too large"));
	client_free(&c);
}

/* The refusal arrives although more is sent than is read. */
static void test_refused_while_sending(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n";
	struct buf sent = { 0 };
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	buf_put_text(&sent, head);
	memset(buf_extend(&sent, 3000000), 'x', 3000000);
	c = client_new(&s);
	c.step_bytes = 50000;
	if (!talk(&c, buf_slice(&sent), "413 close " REFUSAL("the body is too large")))
		fail_msg("%s", told_by(&c));
	client_free(&c);
	buf_free(&sent);
}

static void test_what_is_answered(void **state)
{
	static struct served s;
	struct client c;
	char date[64], text[256];
	struct tm t;
	time_t now;

	serve(*state, &s, NULL);
	c = client_new(&s);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	now = (time_t)(now_of(*state) / 1000);
	for (int ago = 0; ago < 3; ago++, now--) {
		strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &t));
		snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: text/plain\r\n"
			 "Content-Length: 9\r\nConnection: keep-alive\r\n\r\nGET / [] ", date);
		if (strcmp((char *)c.got.data, text) == 0)
			break;
	}
	assert_string_equal((char *)c.got.data, text);
	client_free(&c);
}

/* Half a close is no good-bye: it still listens. */
static void test_half_closed(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	expect_told(&c, "GET /1 HTTP/1.1\r\n\r\nGET /keep HTTP/1.1\r\n\r\n", "200 keep GET /1 [] \n");
	if (s.asked < 2)
		run(*state, 1);
	shutdown(c.fd, SHUT_WR);
	rest(*state, 20);
	answer(&s, s.kept[0], 200, slice_of_text("late"));
	expect_told(&c, "", "200 keep GET /1 [] \n200 keep late\nend");
	client_free(&c);
}

static void reset(struct client *c)
{
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	client_free(c);
}

static void test_client_gone(void **state)
{
	struct world *w = *state;
	static struct served s;
	struct client c;

	serve(w, &s, NULL);
	for (unsigned i = 0; i < 4; i++) {
		c = client_new(&s);
		c.to_send = slice_of_text("GET /keep?x HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n");
		client_send(&c);
		if (i < 2)
			run(w, 1);
		i % 2 ? client_free(&c) : reset(&c);
		if (i >= 2)
			rest(w, 20);
	}
	for (unsigned i = 0; i < s.kept_count; i++) {
		assert_string_equal(s.kept[i]->query, "x");
		answer(&s, s.kept[i], 200, slice_of_text("nobody hears it"));
	}
	rest(w, 50);
	c = client_new(&s);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	client_free(&c);
}

/* Freed with the loop: the sanitizer sees to it. */
static void test_forgotten(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	c.to_send = slice_of_text("POST /keep HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET /half");
	client_send(&c);
	run(*state, 1);
	client_free(&c);
}

/* Sent from where the loop has stopped. */
static void test_last_words(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	c.to_send = slice_of_text("GET /keep HTTP/1.1\r\n\r\n");
	client_send(&c);
	run(*state, 1);
	answer(&s, s.kept[0], 200, slice_of_text("bye"));
	client_receive(&c);
	assert_string_equal(told_by(&c), "200 keep bye\n");
	client_free(&c);
}

static void test_slow_clients(void **state)
{
	static const char *const halves[] = { "G", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab" };
	static struct served s;
	struct client idle, half, drip;

	serve(*state, &s, NULL);
	idle = client_new(&s);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
		half = client_new(&s);
		if (!talk(&half, slice_of_text(halves[i]), "end"))
			fail_msg("not dropped after %s: %s", halves[i], told_by(&half));
		client_free(&half);
	}
	drip = client_new(&s);
	drip.step_bytes = 0;
	expect_told(&drip, "never sent", "");
	expect_told(&idle, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	client_free(&drip);
	client_free(&idle);
}

static void test_large_answers(void **state)
{
	static const size_t steps[] = { 1000000, 60000, 7777 };
	static struct served s;

	serve(*state, &s, NULL);
	set_digits(&s.large, LARGE_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct client c = client_new(&s);

		c.read_bytes = steps[i];
		assert_true(talk(&c, slice_of_text("GET /large HTTP/1.0\r\n\r\n"), NULL));
		assert_true(c.got.len > LARGE_BYTES);
		assert_memory_equal(c.got.data + c.got.len - LARGE_BYTES, s.large.data, LARGE_BYTES);
		assert_non_null(strstr((char *)c.got.data, "\r\nContent-Length: 5242880\r\n"));
		client_free(&c);
	}
	buf_free(&s.large);
}

/* One that reads nothing is dropped; another is served meanwhile. */
static void test_deaf_client(void **state)
{
	static struct served s;
	struct client deaf, c;

	serve(*state, &s, NULL);
	set_digits(&s.large, 4 * LARGE_BYTES);
	deaf = client_new(&s);
	deaf.to_send = slice_of_text("GET /large HTTP/1.1\r\n\r\n");
	client_send(&deaf);
	run(*state, 1);
	c = client_new(&s);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	rest(*state, 4500);
	assert_true(talk(&deaf, slice_of_text(""), NULL));
	assert_true(deaf.got.len < s.large.len);
	client_free(&c);
	client_free(&deaf);
	buf_free(&s.large);
}

/* More than may be there at a time: newcomers are served. */
static void test_crowd(void **state)
{
	struct client crowd[600], c;
	static struct served s;

	serve(*state, &s, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i] = client_new(&s);
		crowd[i].to_send = slice_of_text("GET /ha");
		if (i % 2)
			client_send(&crowd[i]);
		if (i % 100 == 99) {
			c = client_new(&s);
			expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
			client_free(&c);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++)
		client_free(&crowd[i]);
	c = client_new(&s);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	client_free(&c);
}

static void test_no_descriptor_left(void **state)
{
	struct rlimit usual_limit, few;
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	c = client_new(&s);
	getrlimit(RLIMIT_NOFILE, &usual_limit);
	few = usual_limit;
	few.rlim_cur = (rlim_t)c.fd + 1;
	setrlimit(RLIMIT_NOFILE, &few);
	rest(*state, 300);
	setrlimit(RLIMIT_NOFILE, &usual_limit);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	client_free(&c);
}

static uint32_t next_of(uint32_t *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 8;
}

/* Requests with some bytes changed, cut or doubled: nothing but a whole one afterwards is sure to be answered. */
static void test_garbage_served(void **state)
{
	static struct served s;
	struct client c;

	serve(*state, &s, NULL);
	for (uint32_t seed = 1; seed <= 300; seed++) {
		uint32_t r = seed;
		const char *sent = talks[next_of(&r) % ARRAY_SIZE(talks)].sent;
		struct buf bytes = { 0 };

		buf_put_text(&bytes, sent);
		buf_put_text(&bytes, next_of(&r) % 2 ? sent : "");
		for (uint32_t i = next_of(&r) % 6; i > 0; i--)
			bytes.data[next_of(&r) % bytes.len] = (uint8_t)(next_of(&r) % 3 ? next_of(&r) : next_of(&r) % 16);
		c = client_new(&s);
		c.to_send = (struct slice){ bytes.data, next_of(&r) % 3 ? bytes.len : next_of(&r) % bytes.len };
		client_send(&c);
		rest(*state, 2);
		seed % 2 ? reset(&c) : client_free(&c);
		buf_free(&bytes);
	}
	c = client_new(&s);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	client_free(&c);
}

static void test_load(void **state)
{
	struct asked a = { .times = 0 };
	static struct served s;
	char path[64];

	serve(*state, &s, NULL);
	snprintf(path, sizeof(path), "/load?port=%d", s.server.port);
	ask(*state, &a, http(path), slice_of_text(""), 60000);
	assert_true(run_for(*state, 10001, 60000));
	assert_string_equal(text_of(&a), "{\"answered\":10000,\"wrong\":0}");
	assert_int_equal(s.asked, 10000);
	buf_free(&a.answer);
}

/* --- unix sockets --------------------------------------------------------------------- */

static const char *in_folder(const char *name)
{
	static char paths[4][96];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", certificates, name);
	return path;
}

static void ask_unix(struct world *w, struct asked *a, const char *url, const char *path, const char *body)
{
	a->w = w;
	a->times = 0;
	a->post = (struct loop_post){ .url = url, .unix_path = path, .body = slice_of_text(body), .timeout_ms = 5000,
				      .done = on_done, .ctx = a };
	CALL(w, post, &a->post);
	run_for(w, 1000000, 0);
	while (a->times == 0)
		run_for(w, 1, PATIENCE_MS);
}

/* One handle asks here and there, with and without a body. */
static void test_unix_socket(void **state)
{
	const char *path = in_folder("t.sock");
	struct asked a = { .times = 0 };
	static struct served s;
	struct stat st;

	umask(0);
	serve(*state, &s, path);
	umask(022);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	for (unsigned i = 0; i < 3; i++) {
		ask_unix(*state, &a, "http://tidemark/v1/intents?a=b", path, "{}");
		assert_string_equal(text_of(&a), "POST /v1/intents [a=b] {}");
		ask_unix(*state, &a, "http://tidemark/x", path, "");
		assert_string_equal(text_of(&a), "GET /x [] ");
		ask_one(*state, &a, http("/echo"), "out", 5000);
		assert_string_equal(text_of(&a), "out");
	}
	ask_unix(*state, &a, "http://tidemark/x", in_folder("none.sock"), "");
	assert_int_equal(a.end, LOOP_UNREACHABLE);
	buf_free(&a.answer);
}

static void test_umask_all(void **state)
{
	const char *path = in_folder("t.sock");
	static struct served s;
	struct stat st;

	umask(0777);
	serve(*state, &s, path);
	umask(022);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void expect_no_door(struct world *w, struct loop_server server, const char *text)
{
	struct complaint why = { "" };

	server.asked = on_asked;
	assert_int_equal(loop_real_listen(w->loop, &server, &why), E_IO);
	if (!strstr(why.text, text))
		fail_msg("%s", why.text);
}

static void test_unix_path(void **state)
{
	const char *path = in_folder("t.sock");
	struct loop_server server = { .unix_path = path };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	static struct served s;
	char long_path[200];
	int fd;

	assert_int_equal(access(path, F_OK), -1);	/* the last test's is gone */
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[108] = '\0';
	expect_no_door(*state, (struct loop_server){ .unix_path = long_path }, "108 bytes, a socket's path has at most 107");
	expect_no_door(*state, (struct loop_server){ .unix_path = "/nonsense/t.sock" }, "/nonsense/t.sock: No such file");
	close(creat(path, 0600));
	expect_no_door(*state, server, "is there, and no socket");
	unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	close(fd);					/* left by one that was killed */
	serve(*state, &s, path);
	expect_no_door(*state, server, "somebody serves there already");
	assert_int_equal(access(path, F_OK), 0);
}

static void test_two_doors(void **state)
{
	struct asked a = { .times = 0 };
	static struct served at_unix, at_port;
	struct client c;
	const char *path = in_folder("t.sock");

	serve(*state, &at_unix, path);
	serve(*state, &at_port, NULL);
	c = client_new(&at_port);
	expect_told(&c, "GET / HTTP/1.1\r\n\r\n", "200 keep GET / [] \n");
	ask_unix(*state, &a, "http://x/y", path, "");
	assert_string_equal(text_of(&a), "GET /y [] ");
	assert_int_equal(at_unix.asked, 1);
	assert_int_equal(at_port.asked, 1);
	expect_no_door(*state, (struct loop_server){ .host = "127.0.0.1", .port = at_port.server.port },
		       "Address already in use");
	expect_no_door(*state, (struct loop_server){ .host = "localhost" }, "localhost port 0: no address to listen on");
	expect_no_door(*state, (struct loop_server){ .host = "192.0.2.1" }, "192.0.2.1 port 0: Cannot assign");
	client_free(&c);
	buf_free(&a.answer);
}

static void test_retry_after(void **state)
{
	struct asked a = { .times = 0 };

	for (unsigned i = 0; i < 2; i++) {
		ask_one(*state, &a, http("/429"), "{}", 5000);
		assert_int_equal(a.status, 429);
		assert_int_equal(a.post.retry_after_s, 7);
		ask_one(*state, &a, http("/echo"), "{}", 5000);
		assert_int_equal(a.post.retry_after_s, 0);
	}
	buf_free(&a.answer);
}

static void test_get(void **state)
{
	struct asked a = { .times = 0 };

	for (unsigned i = 0; i < 2; i++) {
		ask_one(*state, &a, http("/headers"), "", 5000);
		assert_non_null(strstr(text_of(&a), "\"method\":\"GET\""));
		assert_null(strstr(text_of(&a), "content-"));
		ask_one(*state, &a, http("/headers"), "{}", 5000);
		assert_non_null(strstr(text_of(&a), "\"method\":\"POST\""));
		assert_non_null(strstr(text_of(&a), "\"content-length\":\"2\""));
	}
	buf_free(&a.answer);
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
		IN_WORLD(test_retry_after),
		IN_WORLD(test_get),
		IN_WORLD(test_talks),
		IN_WORLD(test_one_client_for_long),
		IN_WORLD(test_long_pipeline),
		IN_WORLD(test_told_to_continue),
		IN_WORLD(test_refused_while_sending),
		IN_WORLD(test_what_is_answered),
		IN_WORLD(test_half_closed),
		IN_WORLD(test_client_gone),
		IN_WORLD(test_forgotten),
		IN_WORLD(test_last_words),
		IN_WORLD(test_slow_clients),
		IN_WORLD(test_large_answers),
		IN_WORLD(test_deaf_client),
		IN_WORLD(test_crowd),
		IN_WORLD(test_no_descriptor_left),
		IN_WORLD(test_garbage_served),
		IN_WORLD(test_load),
		IN_WORLD(test_unix_socket),
		IN_WORLD(test_umask_all),
		IN_WORLD(test_unix_path),
		IN_WORLD(test_two_doors),
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
