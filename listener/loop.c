/*
 * One thread.  libwebsockets waits, since Debian's can do nothing else; it has adopted one epoll descriptor
 * that holds libcurl's sockets and a signalfd, and one timer each for our timers, for libcurl and for
 * the turn's end:
 *     lws_service -> on_timers                  -> fire
 *                 -> on_curl_timer, on_ready    -> reap -> post done, or probe_ended
 *                 -> on_lws                     -> opened, message, closed
 *     any of them -> happened -> on_turn        -> turn_ended, then what was asked for meanwhile is begun
 * What is asked for is only queued; callbacks come from the functions above, never from inside a call.
 *
 * A socket: queued -> libcurl connects (and checks the certificate: its reasons can be read) ->
 * libwebsockets connects to the address that libcurl found, so it never resolves a name -> open.
 */
#define _GNU_SOURCE		/* epoll, signalfd, getentropy */
#include "listener/loop_real.h"

#include "common/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <libwebsockets.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define AGENT "tidemark"
#define MIB ((size_t)1 << 20)
#define CHUNK_BYTES 65536
#define HEADER_BYTES 16384
#define SOCKETS_MAX 256		/* at a time */
#define CONNECTIONS_KEPT 32
/* libwebsockets cuts longer ones in silence. */
#define PATH_MAX_BYTES 2000
#define HOST_MAX_BYTES 110
#define KEEP_BYTES MIB		/* of a buffer that waits for its next use */
#define GOODBYE_MS 2000		/* for the peer's half of a close */
#define AGAIN_MS 100
#define STEP_MS 1000		/* what the wall clock may drift at once */

/* A handle of libcurl's knows whom to tell. */
struct handle {
	CURL *easy;
	void (*ended)(struct handle *handle, CURLcode code);
	char why[CURL_ERROR_SIZE];
};

struct request {
	struct handle handle;		/* first */
	TAILQ_ENTRY(request) link;
	struct real *l;
	struct loop_post *post;
	struct buf answer;
	bool canceled, too_large;
};

struct place {
	char *host;			/* an IPv6 address has its brackets */
	char *authority;		/* with the port, unless it is the scheme's own */
	char *path;			/* and query */
	char *auth;			/* "Basic ..", or NULL */
	int port;
	bool tls;
};

struct frame {
	STAILQ_ENTRY(frame) link;
	size_t len;
	uint8_t data[];			/* LWS_PRE bytes for libwebsockets, then the text */
};

struct conn {
	struct handle probe;		/* first */
	TAILQ_ENTRY(conn) link;
	struct real *l;
	struct loop_socket *socket;	/* NULL once it was told closed or closed by its owner */
	struct place to;
	struct lws *wsi;
	bool begun, connecting, established, leaving, said_goodbye;
	enum lws_close_status goodbye;
	lws_sorted_usec_list_t limit;	/* to open, then to leave */
	struct buf message;
	STAILQ_HEAD(, frame) frames;
};

TAILQ_HEAD(requests, request);

struct real {
	struct loop loop;		/* first: the world is its loop */
	struct loop_real_options o;
	lws_retry_bo_t patience;
	int64_t now_ms, ahead_ms;	/* wall clock; what it is ahead of the monotonic one */
	struct loop_timer *timers;	/* by time */
	struct requests waiting, active, idle;
	TAILQ_HEAD(, conn) conns;
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

/* --- clock and turns ------------------------------------------------------ */

static struct real *real_of(struct loop *loop)
{
	return (struct real *)loop;
}

static int64_t clock_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_timers(lws_sorted_usec_list_t *sul);
static void on_turn(lws_sorted_usec_list_t *sul);

static void arm_timers(struct real *l)
{
	int64_t wait_ms;

	lws_sul_cancel(&l->timer);
	if (!l->timers)
		return;
	wait_ms = l->timers->at_ms - (clock_ms(CLOCK_MONOTONIC) + l->ahead_ms);
	lws_sul_schedule(l->lws, 0, &l->timer, on_timers, wait_ms > 0 ? wait_ms * 1000 : 1);
}

/* The clock was set: what was to come in a minute still does. */
static void shift_timers(struct real *l, int64_t step_ms)
{
	log_odd("the clock was set by_ms=%lld", (long long)step_ms);
	for (struct loop_timer *t = l->timers; t; t = t->next)
		t->at_ms += step_ms;
	arm_timers(l);
}

/* First thing in every callback of the libraries: time passes only here. */
static void wake(struct real *l)
{
	int64_t ahead_ms, step_ms;

	l->now_ms = clock_ms(CLOCK_REALTIME);
	ahead_ms = l->now_ms - clock_ms(CLOCK_MONOTONIC);
	step_ms = ahead_ms - l->ahead_ms;
	l->ahead_ms = ahead_ms;
	if (step_ms <= -STEP_MS || step_ms >= STEP_MS)
		shift_timers(l, step_ms);
}

/* Not code after lws_service(): one call of it is ripe timers, then a wait, then descriptors. */
static void arm_turn(struct real *l)
{
	lws_sul_schedule(l->lws, 0, &l->turn, on_turn, 1);
}

static void happened(struct real *l)
{
	l->happened = true;
	arm_turn(l);
}

static void end_turn(struct real *l)
{
	if (!l->happened)
		return;
	l->happened = false;
	if (l->o.turn_ended)
		l->o.turn_ended(l->o.ctx);
}

static int64_t real_now_ms(struct loop *loop)
{
	return real_of(loop)->now_ms;
}

static uint64_t real_random(struct loop *loop)
{
	uint64_t v;

	(void)loop;
	if (getentropy(&v, sizeof(v)) != 0) {
		log_broken("no random bytes: %s", strerror(errno));
		abort();
	}
	return v;
}

/* --- timers --------------------------------------------------------------- */

static void unlink_timer(struct real *l, struct loop_timer *timer)
{
	struct loop_timer **at = &l->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->set = false;
}

static void real_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
	unlink_timer(real_of(loop), timer);
	arm_timers(real_of(loop));
}

static void real_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms)
{
	struct real *l = real_of(loop);
	struct loop_timer **at = &l->timers;

	unlink_timer(l, timer);
	while (*at && (*at)->at_ms <= at_ms)
		at = &(*at)->next;
	timer->at_ms = at_ms;
	timer->set = true;
	timer->next = *at;
	*at = timer;
	arm_timers(l);
}

static bool is_due(const struct real *l)
{
	return l->timers && l->timers->at_ms <= l->now_ms;
}

/* As many as are due now: one that sets itself for now waits for the next round. */
static void on_timers(lws_sorted_usec_list_t *sul)
{
	struct real *l = lws_container_of(sul, struct real, timer);
	size_t due = 0;

	wake(l);
	for (struct loop_timer *t = l->timers; t && t->at_ms <= l->now_ms; t = t->next)
		due++;
	for (; due > 0 && is_due(l); due--) {
		struct loop_timer *t = l->timers;

		unlink_timer(l, t);
		happened(l);
		t->fire(t);
	}
	arm_timers(l);
}

/* --- places --------------------------------------------------------------- */

static void place_clear(struct place *p)
{
	free(p->host);
	free(p->authority);
	free(p->path);
	free(p->auth);
	*p = (struct place){ 0 };
}

/* A copy of a part, or NULL if the URL has none. */
static char *part_of(CURLU *u, CURLUPart part, unsigned flags)
{
	char *text = NULL, *copy;

	if (curl_url_get(u, part, &text, flags) != CURLUE_OK)
		return NULL;
	copy = xstrdup(text);
	curl_free(text);
	return copy;
}

static char *text_of(struct buf *b)
{
	buf_put_u8(b, 0);
	return (char *)b->data;
}

static void place_port(struct place *p, CURLU *u)
{
	char *port = part_of(u, CURLUPART_PORT, 0);
	struct buf authority = { 0 };
	uint64_t number;

	p->port = port && u64_parse(slice_of_text(port), &number) ? (int)number : p->tls ? 443 : 80;
	buf_put_text(&authority, p->host);
	if (p->port != (p->tls ? 443 : 80))
		buf_printf(&authority, ":%d", p->port);
	p->authority = text_of(&authority);
	free(port);
}

static void place_path(struct place *p, CURLU *u)
{
	char *path = part_of(u, CURLUPART_PATH, 0), *query = part_of(u, CURLUPART_QUERY, 0);
	struct buf whole = { 0 };

	buf_put_text(&whole, path ? path : "/");
	if (query)
		buf_printf(&whole, "?%s", query);
	p->path = text_of(&whole);
	free(path);
	free(query);
}

static void place_auth(struct place *p, CURLU *u)
{
	char *user = part_of(u, CURLUPART_USER, CURLU_URLDECODE);
	char *password = part_of(u, CURLUPART_PASSWORD, CURLU_URLDECODE);
	struct buf plain = { 0 }, auth = { 0 };

	if (user) {
		buf_printf(&plain, "%s:%s", user, password ? password : "");
		buf_put_text(&auth, "Basic ");
		lws_b64_encode_string((const char *)plain.data, (int)plain.len,
				      (char *)buf_extend(&auth, plain.len * 2 + 5), (int)plain.len * 2 + 5);
		p->auth = text_of(&auth);
	}
	buf_free(&plain);
	free(user);
	free(password);
}

static bool place_parse(const char *url, struct place *p)
{
	CURLU *u = curl_url();
	char *scheme = NULL;

	*p = (struct place){ 0 };
	if (u && curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
		scheme = part_of(u, CURLUPART_SCHEME, 0);
		p->host = part_of(u, CURLUPART_HOST, 0);
	}
	if (p->host) {
		p->tls = strcmp(scheme, "wss") == 0 || strcmp(scheme, "https") == 0;
		place_port(p, u);
		place_path(p, u);
		place_auth(p, u);
	}
	free(scheme);
	curl_url_cleanup(u);
	return p->host != NULL;
}

static bool is_socket_url(const char *url)
{
	return strncmp(url, "ws://", 5) == 0 || strncmp(url, "wss://", 6) == 0;
}

/* --- libcurl in the loop -------------------------------------------------- */

static void on_curl_timer(lws_sorted_usec_list_t *sul);

static int on_curl_wants_timer(CURLM *multi, long ms, void *ctx)
{
	struct real *l = ctx;

	(void)multi;
	lws_sul_cancel(&l->curl_timer);
	if (ms >= 0)
		lws_sul_schedule(l->lws, 0, &l->curl_timer, on_curl_timer, ms ? ms * 1000 : 1);
	return 0;
}

static int on_curl_wants_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	struct real *l = ctx;
	struct epoll_event e = { .data.fd = fd };

	(void)easy;
	(void)known;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	e.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
	if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, fd, &e) == 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) == 0)
		return 0;
	log_broken("a socket cannot be watched: %s", strerror(errno));
	return -1;
}

/* Who ended is told, outside of libcurl's own callbacks. */
static void reap(struct real *l)
{
	struct handle *handle;
	CURLMsg *m;
	CURLcode code;
	int left;

	while ((m = curl_multi_info_read(l->multi, &left))) {
		if (m->msg != CURLMSG_DONE)
			continue;
		code = m->data.result;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&handle);
		handle->ended(handle, code);
	}
}

static void on_curl_timer(lws_sorted_usec_list_t *sul)
{
	struct real *l = lws_container_of(sul, struct real, curl_timer);
	int running;

	wake(l);
	curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	reap(l);
}

static void read_signals(struct real *l)
{
	struct signalfd_siginfo info;

	while (read(l->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		log_info("signal=%u", info.ssi_signo);
		l->signal = (int)info.ssi_signo;
		loop_real_stop(&l->loop);
	}
}

static int curl_mask(uint32_t events)
{
	int mask = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0);

	/* Let it read the error rather than be told of one. */
	return mask ? mask : CURL_CSELECT_IN;
}

/* The epoll descriptor is readable. */
static void on_ready(struct real *l)
{
	struct epoll_event events[64];
	int count, running;

	wake(l);
	count = epoll_wait(l->epoll, events, ARRAY_SIZE(events), 0);
	for (int i = 0; i < count; i++) {
		if (events[i].data.fd == l->signals)
			read_signals(l);
		else
			curl_multi_socket_action(l->multi, events[i].data.fd, curl_mask(events[i].events), &running);
	}
	reap(l);
}

static void open_handle(struct real *l, struct handle *h, const char *proxy)
{
	h->easy = curl_easy_init();
	if (!h->easy) {
		log_broken("libcurl gives no handle");
		abort();
	}
	curl_easy_setopt(h->easy, CURLOPT_PRIVATE, h);
	curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->why);
	curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h->easy, CURLOPT_QUICK_EXIT, 1L);	/* do not wait for a resolver's thread */
	curl_easy_setopt(h->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h->easy, CURLOPT_PROXY, proxy ? proxy : "");
	curl_easy_setopt(h->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	if (l->o.ca_file) {
		curl_easy_setopt(h->easy, CURLOPT_CAINFO, l->o.ca_file);
		curl_easy_setopt(h->easy, CURLOPT_CAPATH, NULL);
	}
}

/* --- requests ------------------------------------------------------------- */

static size_t on_body(char *data, size_t one, size_t len, void *ctx)
{
	struct request *r = ctx;

	(void)one;
	if (r->l->o.answer_max_bytes - r->answer.len < len) {
		r->too_large = true;
		return len == 0;	/* other than len: it stops */
	}
	buf_put(&r->answer, data, len);
	return len;
}

static enum loop_end end_of(const struct request *r, CURLcode code)
{
	if (r->canceled)
		return LOOP_CANCELED;
	if (r->too_large || code == CURLE_FILESIZE_EXCEEDED)
		return LOOP_TOO_LARGE;
	if (code == CURLE_OPERATION_TIMEDOUT)
		return LOOP_TIMED_OUT;
	return code == CURLE_OK ? LOOP_ANSWERED : LOOP_UNREACHABLE;
}

static void log_failure(const struct request *r, CURLcode code)
{
	struct place p;

	if (code == CURLE_OK || r->canceled)
		return;
	log_info("request failed host=%s why=\"%s\"", place_parse(r->post->url, &p) ? p.authority : "?",
		 r->too_large ? "the answer is too large" : r->handle.why[0] ? r->handle.why : curl_easy_strerror(code));
	place_clear(&p);
}

static void set_idle(struct request *r)
{
	r->answer.len = 0;
	if (r->answer.cap > KEEP_BYTES)
		buf_free(&r->answer);
	r->post = NULL;
	TAILQ_INSERT_TAIL(&r->l->idle, r, link);
}

static void end_request(struct request *r, struct requests *list, CURLcode code)
{
	enum loop_end end = end_of(r, code);
	struct slice answer = end == LOOP_ANSWERED ? buf_slice(&r->answer) : (struct slice){ NULL, 0 };
	long status = 0;

	if (list == &r->l->active)
		curl_multi_remove_handle(r->l->multi, r->handle.easy);
	TAILQ_REMOVE(list, r, link);
	log_failure(r, code);
	if (end == LOOP_ANSWERED)
		curl_easy_getinfo(r->handle.easy, CURLINFO_RESPONSE_CODE, &status);
	happened(r->l);
	r->post->done(r->post, end, (int)status, answer);
	set_idle(r);
}

static void request_ended(struct handle *handle, CURLcode code)
{
	struct request *r = (struct request *)handle;

	end_request(r, &r->l->active, code);
}

/* What is the same for all that this handle will ask. */
static struct request *new_request(struct real *l)
{
	struct request *r = xcalloc(1, sizeof(*r));

	r->l = l;
	r->handle.ended = request_ended;
	open_handle(l, &r->handle, l->o.proxy);
	curl_easy_setopt(r->handle.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(r->handle.easy, CURLOPT_USERAGENT, AGENT);
	curl_easy_setopt(r->handle.easy, CURLOPT_HTTPHEADER, l->headers);
	curl_easy_setopt(r->handle.easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(r->handle.easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(r->handle.easy, CURLOPT_WRITEDATA, r);
	/* Only what is announced; the rest is counted in on_body. */
	curl_easy_setopt(r->handle.easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)l->o.answer_max_bytes);
	return r;
}

static void real_post(struct loop *loop, struct loop_post *post)
{
	struct real *l = real_of(loop);
	struct request *r = TAILQ_FIRST(&l->idle);

	if (r)
		TAILQ_REMOVE(&l->idle, r, link);
	else
		r = new_request(l);
	r->post = post;
	r->canceled = r->too_large = false;
	TAILQ_INSERT_TAIL(&l->waiting, r, link);
	arm_turn(l);
}

static void begin_request(struct request *r)
{
	CURL *easy = r->handle.easy;
	CURLcode code;

	r->handle.why[0] = '\0';
	code = curl_easy_setopt(easy, CURLOPT_URL, r->post->url);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->post->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->post->body.len ? (const char *)r->post->body.data : "");
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->post->body.len);
	if (code != CURLE_OK || curl_multi_add_handle(r->l->multi, easy) != CURLM_OK) {
		end_request(r, &r->l->waiting, CURLE_FAILED_INIT);
		return;
	}
	TAILQ_REMOVE(&r->l->waiting, r, link);
	TAILQ_INSERT_TAIL(&r->l->active, r, link);
}

static struct request *find_request(struct requests *list, const struct loop_post *post)
{
	struct request *r;

	TAILQ_FOREACH(r, list, link) {
		if (r->post == post)
			return r;
	}
	return NULL;
}

static void real_post_cancel(struct loop *loop, struct loop_post *post)
{
	struct real *l = real_of(loop);
	struct request *r = find_request(&l->active, post);

	if (!r)
		r = find_request(&l->waiting, post);
	if (!r)
		return;
	r->canceled = true;
	arm_turn(l);
}

static struct request *find_canceled(struct requests *list)
{
	struct request *r;

	TAILQ_FOREACH(r, list, link) {
		if (r->canceled)
			return r;
	}
	return NULL;
}

static void end_canceled(struct requests *list)
{
	struct request *r;

	while ((r = find_canceled(list)))
		end_request(r, list, CURLE_OK);
}

/* --- sockets -------------------------------------------------------------- */

static const char *host_of(const struct conn *c)
{
	return c->to.authority ? c->to.authority : "?";
}

static void drop_frames(struct conn *c)
{
	struct frame *f;

	while ((f = STAILQ_FIRST(&c->frames))) {
		STAILQ_REMOVE_HEAD(&c->frames, link);
		free(f);
	}
}

static void conn_free(struct conn *c)
{
	lws_sul_cancel(&c->limit);
	TAILQ_REMOVE(&c->l->conns, c, link);
	drop_frames(c);
	buf_free(&c->message);
	place_clear(&c->to);
	free(c);
}

static void close_probe(struct conn *c)
{
	if (!c->probe.easy)
		return;
	curl_multi_remove_handle(c->l->multi, c->probe.easy);
	curl_easy_cleanup(c->probe.easy);
	c->probe.easy = NULL;
}

/* Once: from here on the socket may be opened again, in another conn. */
static void tell_closed(struct conn *c)
{
	struct loop_socket *socket = c->socket;

	if (!socket)
		return;
	c->socket = NULL;
	socket->open = false;
	happened(c->l);
	socket->closed(socket);
}

static void on_limit(lws_sorted_usec_list_t *sul);

static void limit(struct conn *c, int64_t ms)
{
	lws_sul_schedule(c->l->lws, 0, &c->limit, on_limit, ms * 1000);
}

/* At libwebsockets' next turn; on_destroyed follows.  What it does meanwhile may forget it: then again. */
static void hang_up(struct conn *c)
{
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
	limit(c, AGAIN_MS);
}

static void on_limit(lws_sorted_usec_list_t *sul)
{
	struct conn *c = lws_container_of(sul, struct conn, limit);

	wake(c->l);
	if (c->socket) {
		log_info("socket failed host=%s why=\"not open in time\"", host_of(c));
		tell_closed(c);		/* on_turn lets go of it */
	} else if (c->wsi) {
		hang_up(c);
	}
}

static void connect_to(struct conn *c, const char *address)
{
	struct lws_client_connect_info info = {
		.context = c->l->lws,
		.vhost = c->l->vhost,
		.address = address,
		.port = c->to.port,
		.path = c->to.path,
		.host = c->to.authority,	/* also SNI and the certificate's name */
		.ssl_connection = LCCSCF_HTTP_NO_FOLLOW_REDIRECT | (c->to.tls ? LCCSCF_USE_SSL : 0),
		.alpn = "http/1.1",
		.local_protocol_name = AGENT,
		.retry_and_idle_policy = &c->l->patience,
		.opaque_user_data = c,
	};

	c->connecting = true;
	c->wsi = lws_client_connect_via_info(&info);
	c->connecting = false;
	if (c->wsi)
		return;
	/* It calls back for some failures and not for others. */
	log_info("socket failed host=%s why=\"cannot connect\"", host_of(c));
	tell_closed(c);
	conn_free(c);
}

static void probe_ended(struct handle *handle, CURLcode code)
{
	struct conn *c = (struct conn *)handle;
	char address[64] = "";
	char *ip = NULL;

	if (code == CURLE_OK && curl_easy_getinfo(handle->easy, CURLINFO_PRIMARY_IP, &ip) == CURLE_OK && ip)
		strncpy(address, ip, sizeof(address) - 1);
	close_probe(c);
	if (c->socket && code == CURLE_OK) {
		connect_to(c, address);
		return;
	}
	if (c->socket)
		log_info("socket failed host=%s why=\"%s\"", host_of(c),
			 handle->why[0] ? handle->why : curl_easy_strerror(code));
	tell_closed(c);
	conn_free(c);
}

static bool is_usable(const char *url, struct place *to)
{
	return is_socket_url(url) && place_parse(url, to) && strlen(to->path) <= PATH_MAX_BYTES &&
	       strlen(to->authority) <= HOST_MAX_BYTES;
}

static void begin_probe(struct conn *c)
{
	struct buf url = { 0 };

	buf_printf(&url, "%s://%s:%d/", c->to.tls ? "https" : "http", c->to.host, c->to.port);
	c->probe.ended = probe_ended;
	open_handle(c->l, &c->probe, NULL);
	curl_easy_setopt(c->probe.easy, CURLOPT_URL, text_of(&url));
	curl_easy_setopt(c->probe.easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(c->probe.easy, CURLOPT_TIMEOUT_MS, (long)c->l->o.open_s * 1000);
	curl_multi_add_handle(c->l->multi, c->probe.easy);	/* if it fails, the limit tells */
	buf_free(&url);
}

static void begin_conn(struct conn *c)
{
	c->begun = true;
	if (!is_usable(c->socket->url, &c->to)) {
		log_odd("socket failed host=%s why=\"its URL is no ws:// or wss://, or too long\"", host_of(c));
		tell_closed(c);
		conn_free(c);
		return;
	}
	limit(c, (int64_t)c->l->o.open_s * 1000);
	begin_probe(c);
}

/* Nobody wants it any more. */
static void leave(struct conn *c)
{
	c->leaving = true;
	if (c->established) {
		lws_callback_on_writable(c->wsi);	/* to say goodbye */
		limit(c, GOODBYE_MS);
	} else if (c->wsi) {
		hang_up(c);
	} else {
		close_probe(c);
		conn_free(c);
	}
}

static struct conn *find_conn(struct real *l, const struct loop_socket *socket)
{
	struct conn *c;

	TAILQ_FOREACH(c, &l->conns, link) {
		if (c->socket == socket)
			return c;
	}
	return NULL;
}

static void real_socket_open(struct loop *loop, struct loop_socket *socket)
{
	struct real *l = real_of(loop);
	struct conn *c = xcalloc(1, sizeof(*c));

	if (find_conn(l, socket)) {
		log_broken("a socket is opened twice");
		abort();
	}
	c->l = l;
	c->socket = socket;
	c->goodbye = LWS_CLOSE_STATUS_NORMAL;
	STAILQ_INIT(&c->frames);
	TAILQ_INSERT_TAIL(&l->conns, c, link);
	arm_turn(l);
}

static void real_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text)
{
	struct conn *c = find_conn(real_of(loop), socket);
	struct frame *f;

	if (!c)
		return;			/* its owner will be, or was, told closed */
	f = xmalloc(sizeof(*f) + LWS_PRE + text.len);
	f->len = text.len;
	memcpy(f->data + LWS_PRE, text.data, text.len);
	STAILQ_INSERT_TAIL(&c->frames, f, link);
	if (c->established)
		lws_callback_on_writable(c->wsi);
}

static void real_socket_close(struct loop *loop, struct loop_socket *socket)
{
	struct conn *c = find_conn(real_of(loop), socket);

	socket->open = false;
	if (!c)
		return;
	c->socket = NULL;
	arm_turn(c->l);
}

/* --- what libwebsockets says of a socket ---------------------------------- */

static int put_headers(const struct conn *c, struct lws *wsi, unsigned char **at, size_t room)
{
	const char *auth = c->to.auth;
	unsigned char *end = *at + room;

	if (lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_USER_AGENT, (const unsigned char *)AGENT,
					 (int)strlen(AGENT), at, end))
		return -1;
	return auth && lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (const unsigned char *)auth,
						    (int)strlen(auth), at, end) ? -1 : 0;
}

static int on_established(struct conn *c, struct lws *wsi)
{
	c->established = true;
	if (!c->socket)
		return 0;		/* leave() or the limit sees to it */
	lws_sul_cancel(&c->limit);
	if (!STAILQ_EMPTY(&c->frames))
		lws_callback_on_writable(wsi);
	log_info("socket open host=%s", host_of(c));
	c->socket->open = true;
	happened(c->l);
	c->socket->opened(c->socket);
	return 0;
}

/*
 * The rest of it is dropped until goodbye is said in on_writable.  To give lws_close_reason() and -1 from a
 * receiving callback, as its documents advise, lets this version write past its buffer by what comes next.
 */
static void on_too_large(struct conn *c)
{
	log_odd("socket closed host=%s why=\"a message is too large\"", host_of(c));
	c->goodbye = LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE;
	tell_closed(c);
}

static int on_piece(struct conn *c, struct lws *wsi, const void *data, size_t len)
{
	size_t more = lws_remaining_packet_payload(wsi);

	lws_validity_confirmed(wsi);	/* a pong may be far behind what it sends */
	if (!c->socket)
		return 0;
	if (c->l->o.message_max_bytes - c->message.len < len + more) {
		on_too_large(c);
		return 0;
	}
	buf_put(&c->message, data, len);
	if (more || !lws_is_final_fragment(wsi))
		return 0;
	happened(c->l);
	c->socket->message(c->socket, buf_slice(&c->message));
	c->message.len = 0;
	if (c->message.cap > KEEP_BYTES)
		buf_free(&c->message);
	return 0;
}

/* Once: a second -1 would cut off the first's close frame, for what is still unread then resets the connection. */
static int say_goodbye(struct conn *c, struct lws *wsi)
{
	if (c->said_goodbye)
		return 0;
	c->said_goodbye = true;
	lws_close_reason(wsi, c->goodbye, NULL, 0);
	return -1;
}

/* One write each time. */
static int on_writable(struct conn *c, struct lws *wsi)
{
	struct frame *f = STAILQ_FIRST(&c->frames);
	int sent;

	if (!c->socket)
		return say_goodbye(c, wsi);
	if (!f)
		return 0;
	STAILQ_REMOVE_HEAD(&c->frames, link);
	sent = lws_write(wsi, f->data + LWS_PRE, f->len, LWS_WRITE_TEXT);
	free(f);
	if (!STAILQ_EMPTY(&c->frames))
		lws_callback_on_writable(wsi);
	return sent < 0 ? -1 : 0;
}

static int on_peer_closing(const struct conn *c, const uint8_t *data, size_t len)
{
	if (c->socket)
		log_info("socket closed host=%s code=%d", host_of(c), len >= 2 ? data[0] << 8 | data[1] : 0);
	return 0;
}

static int on_refused(struct conn *c, struct lws *wsi, const char *text, size_t len)
{
	if (c->socket)
		log_info("socket failed host=%s status=%u why=\"%.*s\"", host_of(c),
			 lws_http_client_http_response(wsi), text ? (int)len : 0, text ? text : "");
	tell_closed(c);
	return 0;
}

static int on_closed(struct conn *c)
{
	if (c->socket)
		log_info("socket closed host=%s", host_of(c));
	tell_closed(c);
	return 0;
}

static int on_destroyed(struct conn *c)
{
	c->wsi = NULL;
	c->established = false;
	if (c->connecting)
		return 0;		/* connect_to() frees it */
	tell_closed(c);
	conn_free(c);
	return 0;
}

static int on_socket(struct conn *c, struct lws *wsi, enum lws_callback_reasons reason, void *in, size_t len)
{
	if (!c)
		return 0;		/* the epoll descriptor's end */
	wake(c->l);
	switch (reason) {
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		return put_headers(c, wsi, in, len);
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
		return on_established(c, wsi);
	case LWS_CALLBACK_CLIENT_RECEIVE:
		return on_piece(c, wsi, in, len);
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		return on_writable(c, wsi);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		return on_peer_closing(c, in, len);
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		return on_refused(c, wsi, in, len);
	case LWS_CALLBACK_CLIENT_CLOSED:
		return on_closed(c);
	case LWS_CALLBACK_WSI_DESTROY:
		return on_destroyed(c);
	default:
		return 0;
	}
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	(void)user;
	switch (reason) {
	case LWS_CALLBACK_RAW_RX_FILE:
		on_ready(lws_context_user(lws_get_context(wsi)));
		return 0;
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
	case LWS_CALLBACK_CLIENT_RECEIVE:
	case LWS_CALLBACK_CLIENT_WRITEABLE:
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
	case LWS_CALLBACK_CLIENT_CLOSED:
	case LWS_CALLBACK_WSI_DESTROY:
		return on_socket(lws_get_opaque_user_data(wsi), wsi, reason, in, len);
	default:
		return 0;		/* with others the wsi may be no real one */
	}
}

/* --- the world ------------------------------------------------------------ */

/* The next of them is seen before this one may be freed. */
static void tend_conns(struct real *l)
{
	struct conn *next;

	for (struct conn *c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!c->socket && !c->leaving)
			leave(c);
		else if (c->socket && !c->begun)
			begin_conn(c);
	}
}

static void on_turn(lws_sorted_usec_list_t *sul)
{
	struct real *l = lws_container_of(sul, struct real, turn);
	struct request *r;

	wake(l);
	end_turn(l);
	end_canceled(&l->active);
	end_canceled(&l->waiting);
	while ((r = TAILQ_FIRST(&l->waiting)))
		begin_request(r);
	tend_conns(l);
}

static const struct loop_ops real_ops = {
	.now_ms = real_now_ms,
	.random = real_random,
	.timer_set = real_timer_set,
	.timer_cancel = real_timer_cancel,
	.post = real_post,
	.post_cancel = real_post_cancel,
	.socket_open = real_socket_open,
	.socket_send = real_socket_send,
	.socket_close = real_socket_close,
};

static const struct lws_protocols protocols[] = {
	{ .name = AGENT, .callback = on_lws, .rx_buffer_size = CHUNK_BYTES },
	{ .name = NULL },
};

static struct loop_real_options with_defaults(const struct loop_real_options *o)
{
	struct loop_real_options all = *o;

	all.answer_max_bytes = o->answer_max_bytes ? o->answer_max_bytes : 64 * MIB;
	all.message_max_bytes = o->message_max_bytes ? o->message_max_bytes : 16 * MIB;
	all.open_s = o->open_s ? o->open_s : 15;
	all.ping_s = o->ping_s ? o->ping_s : 15;
	all.hangup_s = o->hangup_s ? o->hangup_s : all.ping_s + 10;
	return all;
}

/* Blocked before any thread is made, so that no thread takes them. */
static bool make_signals(struct real *l)
{
	struct epoll_event e = { .events = EPOLLIN };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	pthread_sigmask(SIG_BLOCK, &mask, &l->old_mask);
	signal(SIGPIPE, SIG_IGN);
	l->signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	e.data.fd = l->signals;
	return l->signals >= 0 && l->epoll >= 0 && epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->signals, &e) == 0;
}

/* An empty proxy keeps it from reading the environment's. */
static bool make_lws(struct real *l)
{
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN,
		.protocols = protocols,
		.user = l,
		.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   (l->o.ca_file ? LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS : 0),
		.client_ssl_ca_filepath = l->o.ca_file,
		.http_proxy_address = "",
		.max_http_header_data = HEADER_BYTES,
		.pt_serv_buf_size = CHUNK_BYTES,
		.fd_limit_per_thread = SOCKETS_MAX,
		.timeout_secs = l->o.open_s,
		.connect_timeout_secs = l->o.open_s,
	};
	lws_sock_file_fd_type fd = { .filefd = l->epoll };

	lws_set_log_level(0, NULL);	/* it would tell paths; what it says is said in on_refused */
	l->lws = lws_create_context(&info);
	l->vhost = l->lws ? lws_create_vhost(l->lws, &info) : NULL;
	if (!l->vhost || !lws_adopt_descriptor_vhost(l->vhost, LWS_ADOPT_RAW_FILE_DESC, fd, AGENT, NULL))
		return false;
	l->epoll_adopted = true;
	return true;
}

static bool make_curl(struct real *l)
{
	l->multi = curl_multi_init();
	l->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!l->multi || !l->headers || !curl_slist_append(l->headers, "Expect:"))
		return false;
	curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_curl_wants_socket);
	curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l);
	curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_curl_wants_timer);
	curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l);
	curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
	return true;
}

static bool can_read_ca(const struct real *l)
{
	if (!l->o.ca_file || access(l->o.ca_file, R_OK) == 0)
		return true;
	log_odd("the file of certificate authorities cannot be read: %s", strerror(errno));
	return false;
}

struct loop *loop_real_new(const struct loop_real_options *o)
{
	struct real *l = xcalloc(1, sizeof(*l));

	l->loop.ops = &real_ops;
	l->o = with_defaults(o);
	l->patience = (lws_retry_bo_t){ .secs_since_valid_ping = (uint16_t)l->o.ping_s,
					.secs_since_valid_hangup = (uint16_t)l->o.hangup_s };
	TAILQ_INIT(&l->waiting);
	TAILQ_INIT(&l->active);
	TAILQ_INIT(&l->idle);
	TAILQ_INIT(&l->conns);
	l->now_ms = clock_ms(CLOCK_REALTIME);
	l->ahead_ms = l->now_ms - clock_ms(CLOCK_MONOTONIC);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (make_signals(l) && can_read_ca(l) && make_lws(l) && make_curl(l))
		return &l->loop;
	log_odd("the loop cannot be made: %s", strerror(errno));
	loop_real_free(&l->loop);
	return NULL;
}

int loop_real_run(struct loop *loop)
{
	struct real *l = real_of(loop);
	int signal = 0;

	wake(l);
	while (!l->stopping && lws_service(l->lws, 0) >= 0)
		;
	if (!l->stopping) {
		log_broken("libwebsockets stopped: %s", strerror(errno));
		return -1;
	}
	end_turn(l);
	signal = l->signal;
	l->stopping = false;
	l->signal = 0;
	return signal;
}

void loop_real_stop(struct loop *loop)
{
	real_of(loop)->stopping = true;
	arm_turn(real_of(loop));	/* so that nothing waits first */
}

static void cancel_list(struct requests *list)
{
	struct request *r;

	while ((r = TAILQ_FIRST(list))) {
		r->canceled = true;
		end_request(r, list, CURLE_OK);
	}
}

void loop_real_cancel_all(struct loop *loop)
{
	struct real *l = real_of(loop);

	while (!TAILQ_EMPTY(&l->active) || !TAILQ_EMPTY(&l->waiting)) {
		cancel_list(&l->active);
		cancel_list(&l->waiting);
	}
}

/* Those that libwebsockets has are freed when it goes. */
static void free_conns(struct real *l)
{
	struct conn *next;

	for (struct conn *c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->socket)
			c->socket->open = false;
		c->socket = NULL;
		close_probe(c);
		if (!c->wsi)
			conn_free(c);
	}
}

static void free_requests(struct real *l)
{
	struct request *r;

	while ((r = TAILQ_FIRST(&l->idle))) {
		TAILQ_REMOVE(&l->idle, r, link);
		curl_easy_cleanup(r->handle.easy);
		buf_free(&r->answer);
		free(r);
	}
}

/* A second signal, asking for what is being done, is read rather than left to kill. */
static void free_signals(struct real *l)
{
	struct signalfd_siginfo info;

	if (l->signals >= 0) {
		while (read(l->signals, &info, sizeof(info)) > 0)
			;
		close(l->signals);
	}
	if (l->epoll >= 0 && !l->epoll_adopted)
		close(l->epoll);
	pthread_sigmask(SIG_SETMASK, &l->old_mask, NULL);
}

/* libcurl first: it still says good-bye to its sockets in the epoll descriptor. */
void loop_real_free(struct loop *loop)
{
	struct real *l = real_of(loop);

	loop_real_cancel_all(loop);
	l->timers = NULL;
	free_conns(l);
	free_requests(l);
	if (l->multi)
		curl_multi_cleanup(l->multi);
	curl_slist_free_all(l->headers);
	lws_sul_cancel(&l->timer);
	lws_sul_cancel(&l->curl_timer);
	lws_sul_cancel(&l->turn);
	free_signals(l);
	if (l->lws)
		lws_context_destroy(l->lws);
	curl_global_cleanup();
	free(l);
}
