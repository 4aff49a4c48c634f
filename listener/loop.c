/*
 * One thread.  libwebsockets waits, since Debian's can do nothing else; it has adopted one epoll descriptor
 * that holds libcurl's sockets, a signalfd and the epoll descriptor of what we serve, and one timer each for
 * our timers, for libcurl and for the turn's end:
 *     lws_service -> on_timers                  -> fire
 *                 -> on_curl_timer, on_ready    -> reap -> post done, or a socket's probe ended
 *                                               -> loop_serving_ready -> asked
 *                 -> on_lws                     -> opened, message, closed
 *     any of them -> loop_happened -> on_turn   -> turn_ended, then what was asked for meanwhile is begun
 * What is asked for is only queued; callbacks come from the functions above, never from inside a call.
 */
#define _GNU_SOURCE		/* epoll, signalfd, getentropy */
#include "listener/loop_parts.h"

#include "common/log.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SOCKETS_MAX 256		/* at a time */
#define CONNECTIONS_KEPT 32
#define STEP_MS 1000		/* what the wall clock may drift at once, untold */

struct request {
	struct handle handle;		/* first */
	TAILQ_ENTRY(request) link;
	struct real *l;
	struct loop_post *post;
	struct buf answer;
	bool canceled, too_large;
};

/* --- clock and turns ------------------------------------------------------ */

int64_t loop_clock_ms(clockid_t clock)
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
	wait_ms = l->timers->at_ms - loop_clock_ms(CLOCK_MONOTONIC);
	lws_sul_schedule(l->lws, 0, &l->timer, on_timers, wait_ms > 0 ? wait_ms * 1000 : 1);
}

static int64_t ticks_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void loop_rest(struct real *l)
{
	l->busy_us += l->woken_us ? ticks_us() - l->woken_us : 0;
	l->woken_us = 0;
}

static struct loop_times real_times(struct loop *loop)
{
	const struct real *l = real_of(loop);
	int64_t now_us = ticks_us();

	return (struct loop_times){ now_us, l->busy_us + (l->woken_us ? now_us - l->woken_us : 0) };
}

static void read_clocks(struct real *l)
{
	l->now_ms = loop_clock_ms(CLOCK_REALTIME);
	l->steady_ms = loop_clock_ms(CLOCK_MONOTONIC);
}

void loop_wake(struct real *l)
{
	int64_t ahead_ms = l->now_ms - l->steady_ms, step_ms;

	if (!l->woken_us)
		l->woken_us = ticks_us();
	read_clocks(l);
	step_ms = l->now_ms - l->steady_ms - ahead_ms;
	if (step_ms <= -STEP_MS || step_ms >= STEP_MS)
		log_odd("the clock was set by_ms=%lld", (long long)step_ms);
}

/* Not code after lws_service(): one call of it is ripe timers, then a wait, then descriptors. */
void loop_arm_turn(struct real *l)
{
	lws_sul_schedule(l->lws, 0, &l->turn, on_turn, 1);
}

void loop_happened(struct real *l)
{
	l->happened = true;
	loop_arm_turn(l);
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

static int64_t real_steady_ms(struct loop *loop)
{
	return real_of(loop)->steady_ms;
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
	return l->timers && l->timers->at_ms <= l->steady_ms;
}

/* As many as are due now: one that sets itself for now waits for the next round. */
static void on_timers(lws_sorted_usec_list_t *sul)
{
	struct real *l = lws_container_of(sul, struct real, timer);
	size_t due = 0;

	loop_wake(l);
	for (struct loop_timer *t = l->timers; t && t->at_ms <= l->steady_ms; t = t->next)
		due++;
	for (; due > 0 && is_due(l); due--) {
		struct loop_timer *t = l->timers;

		unlink_timer(l, t);
		loop_happened(l);
		t->fire(t);
	}
	arm_timers(l);
	loop_rest(l);
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

	loop_wake(l);
	curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	reap(l);
	loop_rest(l);
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

	loop_wake(l);
	count = epoll_wait(l->epoll, events, ARRAY_SIZE(events), 0);
	for (int i = 0; i < count; i++) {
		if (events[i].data.fd == l->signals)
			read_signals(l);
		else if (loop_serving_has(l, events[i].data.fd))
			loop_serving_ready(l);
		else
			curl_multi_socket_action(l->multi, events[i].data.fd, curl_mask(events[i].events), &running);
	}
	reap(l);
	loop_rest(l);
}

void loop_open_handle(struct real *l, struct handle *h)
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
	curl_easy_setopt(h->easy, CURLOPT_PROXY, "");	/* not the environment's */
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
	log_info("request failed host=%s why=\"%s\"", loop_place_parse(r->post->url, &p) ? p.authority : "?",
		 r->too_large ? "the answer is too large" : r->handle.why[0] ? r->handle.why : curl_easy_strerror(code));
	loop_place_clear(&p);
}

static void set_idle(struct request *r)
{
	r->answer.len = 0;
	if (r->answer.cap > KEEP_BYTES)
		buf_free(&r->answer);
	r->post = NULL;
	TAILQ_INSERT_TAIL(&r->l->idle, r, link);
}

static unsigned retry_after_s(const struct request *r)
{
	curl_off_t s = 0;

	curl_easy_getinfo(r->handle.easy, CURLINFO_RETRY_AFTER, &s);
	return s < 0 ? 0 : s > UINT_MAX ? UINT_MAX : (unsigned)s;
}

static void end_request(struct request *r, struct requests *list, CURLcode code)
{
	enum loop_end end = end_of(r, code);
	struct slice answer = end == LOOP_ANSWERED ? buf_slice(&r->answer) : (struct slice){ NULL, 0 };
	long status = 0;

	r->post->retry_after_s = 0;
	if (list == &r->l->active)
		curl_multi_remove_handle(r->l->multi, r->handle.easy);
	TAILQ_REMOVE(list, r, link);
	log_failure(r, code);
	if (end == LOOP_ANSWERED) {
		curl_easy_getinfo(r->handle.easy, CURLINFO_RESPONSE_CODE, &status);
		r->post->retry_after_s = retry_after_s(r);
	}
	loop_happened(r->l);
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
	loop_open_handle(l, &r->handle);
	curl_easy_setopt(r->handle.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(r->handle.easy, CURLOPT_USERAGENT, AGENT);
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
	loop_arm_turn(l);
}

static void set_method(CURL *easy, const struct real *l, struct slice body)
{
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, body.len ? l->headers : NULL);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.len ? (const char *)body.data : NULL);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
	curl_easy_setopt(easy, body.len ? CURLOPT_POST : CURLOPT_HTTPGET, 1L);
}

/* All that the handle's last request set is set again. */
static void begin_request(struct request *r)
{
	CURL *easy = r->handle.easy;
	const char *unix_path = r->post->unix_path, *proxy = r->l->o.proxy;
	CURLcode code;

	r->handle.why[0] = '\0';
	code = curl_easy_setopt(easy, CURLOPT_URL, r->post->url);
	curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, unix_path);
	curl_easy_setopt(easy, CURLOPT_PROXY, proxy && !unix_path ? proxy : "");
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->post->timeout_ms);
	set_method(easy, r->l, r->post->body);
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
	loop_arm_turn(l);
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

/* --- the world ------------------------------------------------------------ */

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
		return loop_on_socket(lws_get_opaque_user_data(wsi), wsi, reason, in, len);
	default:
		return 0;		/* with others the wsi may be no real one */
	}
}

static void on_turn(lws_sorted_usec_list_t *sul)
{
	struct real *l = lws_container_of(sul, struct real, turn);
	struct request *r;

	loop_wake(l);
	end_turn(l);
	end_canceled(&l->active);
	end_canceled(&l->waiting);
	while ((r = TAILQ_FIRST(&l->waiting)))
		begin_request(r);
	loop_tend_conns(l);
	loop_rest(l);
}

static const struct loop_ops real_ops = {
	.now_ms = real_now_ms,
	.steady_ms = real_steady_ms,
	.times = real_times,
	.random = real_random,
	.timer_set = real_timer_set,
	.timer_cancel = real_timer_cancel,
	.post = real_post,
	.post_cancel = real_post_cancel,
	.socket_open = loop_socket_open,
	.socket_send = loop_socket_send,
	.socket_close = loop_socket_close,
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
	all.request_max_bytes = o->request_max_bytes ? o->request_max_bytes : MIB;
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
	read_clocks(l);
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

	loop_wake(l);
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
	loop_arm_turn(real_of(loop));	/* so that nothing waits first */
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
	loop_free_conns(l);
	loop_serving_free(l);
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
