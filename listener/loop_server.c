/*
 * Not libwebsockets' server: that decodes and shortens paths, answers no chunked body, no POST without a length
 * and none that expects a 100, and answers pipelined POSTs without end.
 *
 * A peer: READING -> a whole request -> ASKED -> loop_real_answer -> ANSWERING -> READING again, or LEAVING.
 * All descriptors are in one epoll descriptor, which is in the loop's.  Where a peer has sent more than one request,
 * the next is read when its socket is said to be writable: nobody is asked from inside loop_real_answer().
 */
#define _GNU_SOURCE		/* accept4 */
#include "listener/loop_parts.h"

#include "common/log.h"
#include "listener/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PEERS_MAX 256		/* a further one takes the place of the one that was silent longest */
#define IDLE_MS 60000		/* between requests */
#define SWEEP_MS 1000
#define ACCEPTS_A_TURN 64

/* What is in our epoll descriptor. */
struct watched {
	void (*ready)(struct watched *w, uint32_t events);
	struct real *l;
	int fd;				/* -1 once closed */
	uint32_t events;
};

struct door {
	struct watched w;		/* first */
	TAILQ_ENTRY(door) link;
	struct loop_server *server;
};

enum peer_state {
	PEER_READING,
	PEER_ASKED,
	PEER_ANSWERING,
	PEER_LEAVING,			/* all is said; what it still sends is dropped, lest that cut off what we said */
};

struct peer {
	struct watched w;		/* first */
	TAILQ_ENTRY(peer) link;
	struct loop_server *server;
	enum peer_state state;
	struct incoming *incoming;	/* while READING and ASKED */
	struct buf in;			/* beyond the request that is read */
	struct buf out;
	size_t sent;
	bool begun;			/* some of a request is read */
	bool keeps_alive;
	int64_t limit_ms;		/* of the monotonic clock; 0: none */
};

struct incoming {
	struct loop_request request;	/* first */
	TAILQ_ENTRY(incoming) link;
	struct real *l;
	struct peer *peer;		/* NULL: gone */
	struct http http;
};

struct serving {
	struct real *l;
	int epoll;
	TAILQ_HEAD(, door) doors;
	TAILQ_HEAD(peers, peer) peers, gone;	/* the one silent longest first */
	TAILQ_HEAD(, incoming) incoming;
	unsigned peer_count;
	lws_sorted_usec_list_t sweep;
};

static void watch(struct watched *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	if (w->events == events)
		return;
	w->events = events;
	if (epoll_ctl(w->l->serving->epoll, EPOLL_CTL_MOD, w->fd, &e) != 0)
		log_broken("a client cannot be watched: %s", strerror(errno));
}

static bool watch_first(struct watched *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	w->events = events;
	return epoll_ctl(w->l->serving->epoll, EPOLL_CTL_ADD, w->fd, &e) == 0;
}

/* --- a peer's life ---------------------------------------------------------- */

static void incoming_free(struct incoming *r)
{
	TAILQ_REMOVE(&r->l->serving->incoming, r, link);
	http_clear(&r->http);
	free(r);
}

static struct incoming *incoming_new(struct peer *p)
{
	struct incoming *r = xcalloc(1, sizeof(*r));

	r->l = p->w.l;
	r->peer = p;
	r->http.body_max_bytes = r->l->o.request_max_bytes;
	TAILQ_INSERT_TAIL(&r->l->serving->incoming, r, link);
	return r;
}

static void limit(struct peer *p, int64_t ms)
{
	p->limit_ms = loop_clock_ms(CLOCK_MONOTONIC) + ms;
}

/* Its memory stays until this round of events, which may tell of it, is over. */
static void hang_up(struct peer *p)
{
	struct serving *s = p->w.l->serving;

	close(p->w.fd);
	p->w.fd = -1;
	if (p->state == PEER_ASKED)
		p->incoming->peer = NULL;
	else if (p->incoming)
		incoming_free(p->incoming);
	buf_free(&p->in);
	buf_free(&p->out);
	TAILQ_REMOVE(&s->peers, p, link);
	TAILQ_INSERT_TAIL(&s->gone, p, link);
	s->peer_count--;
}

static void free_gone(struct serving *s)
{
	struct peer *p;

	while ((p = TAILQ_FIRST(&s->gone))) {
		TAILQ_REMOVE(&s->gone, p, link);
		free(p);
	}
}

static void await_request(struct peer *p)
{
	struct serving *s = p->w.l->serving;

	p->state = PEER_READING;
	p->begun = false;
	p->incoming = incoming_new(p);
	limit(p, IDLE_MS);
	TAILQ_REMOVE(&s->peers, p, link);
	TAILQ_INSERT_TAIL(&s->peers, p, link);
	watch(&p->w, p->in.len ? EPOLLOUT : EPOLLIN);
}

static void leave(struct peer *p)
{
	p->state = PEER_LEAVING;
	shutdown(p->w.fd, SHUT_WR);
	limit(p, GOODBYE_MS);
	watch(&p->w, EPOLLIN);
}

/* --- answering -------------------------------------------------------------- */

static bool is_for_later(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void on_all_sent(struct peer *p)
{
	p->sent = p->out.len = 0;
	if (p->out.cap > CHUNK_BYTES)
		buf_free(&p->out);
	if (p->state == PEER_READING)
		watch(&p->w, EPOLLIN);		/* it was told to continue */
	else if (p->keeps_alive)
		await_request(p);
	else
		leave(p);
}

static void send_out(struct peer *p)
{
	ssize_t len = 0;

	while (p->sent < p->out.len) {
		len = send(p->w.fd, p->out.data + p->sent, p->out.len - p->sent, MSG_NOSIGNAL);
		if (len < 0)
			break;
		p->sent += (size_t)len;
		limit(p, (int64_t)p->w.l->o.open_s * 1000);
	}
	if (p->sent == p->out.len)
		on_all_sent(p);
	else if (is_for_later(errno))
		watch(&p->w, EPOLLOUT);
	else
		hang_up(p);
}

/* The request is read to its end; nobody refers to it any more. */
static void answer(struct peer *p, int status, const char *type, struct slice body)
{
	const struct http *h = &p->incoming->http;

	p->state = PEER_ANSWERING;
	p->keeps_alive = h->keeps_alive;
	http_put_head(&p->out, status, type, body.len, p->keeps_alive, p->w.l->now_ms);
	if (!h->wants_head)
		buf_put(&p->out, body.data, body.len);
	incoming_free(p->incoming);
	p->incoming = NULL;
	limit(p, (int64_t)p->w.l->o.open_s * 1000);
	send_out(p);
}

void loop_real_answer(struct loop_request *request, int status, const char *type, struct slice body)
{
	struct incoming *r = (struct incoming *)request;

	if (r->peer)
		answer(r->peer, status, type, body);
	else
		incoming_free(r);
}

/* --- reading ---------------------------------------------------------------- */

static void refuse(struct peer *p)
{
	const struct http *h = &p->incoming->http;
	struct buf body = { 0 };

	log_info("request refused status=%d why=\"%s\"", h->status, h->why);
	buf_printf(&body, "{\"error\":{\"code\":\"E_INPUT\",\"text\":\"%s\"}}", h->why);
	answer(p, h->status, "application/json", buf_slice(&body));
	buf_free(&body);
}

static void ask(struct peer *p)
{
	struct incoming *r = p->incoming;

	p->state = PEER_ASKED;
	p->limit_ms = 0;
	watch(&p->w, 0);
	r->request = (struct loop_request){ .method = r->http.method, .path = r->http.path, .query = r->http.query,
					    .body = buf_slice(&r->http.body) };
	loop_happened(p->w.l);
	p->server->asked(p->server, &r->request);	/* the peer may be gone after it */
}

static void tell_to_continue(struct peer *p)
{
	p->incoming->http.wants_continue = false;
	buf_put_text(&p->out, HTTP_CONTINUE);
	send_out(p);
}

static void act_on(struct peer *p)
{
	const struct http *h = &p->incoming->http;

	if (h->state == HTTP_WHOLE)
		ask(p);
	else if (h->state == HTTP_REFUSED)
		refuse(p);
	else if (h->wants_continue && h->state > HTTP_HEADERS)
		tell_to_continue(p);
	else
		watch(&p->w, EPOLLIN);
}

static void take(struct peer *p, struct slice bytes)
{
	size_t len;

	if (!p->begun)
		limit(p, (int64_t)p->w.l->o.open_s * 1000);
	p->begun = true;
	len = http_read(&p->incoming->http, bytes);
	buf_put(&p->in, bytes.data + len, bytes.len - len);
	act_on(p);
}

static void take_kept(struct peer *p)
{
	struct buf kept = p->in;

	p->in = (struct buf){ 0 };
	take(p, buf_slice(&kept));
	buf_free(&kept);
}

static void receive(struct peer *p)
{
	uint8_t chunk[CHUNK_BYTES];
	ssize_t len = recv(p->w.fd, chunk, sizeof(chunk), 0);

	if (len == 0 || (len < 0 && !is_for_later(errno)))
		hang_up(p);
	else if (len > 0 && p->state == PEER_READING)
		take(p, (struct slice){ chunk, (size_t)len });
}

static void on_peer(struct watched *w, uint32_t events)
{
	struct peer *p = (struct peer *)w;

	if (p->sent < p->out.len)
		send_out(p);
	else if (p->state == PEER_READING && p->in.len)
		take_kept(p);
	else if (p->state == PEER_READING || p->state == PEER_LEAVING)
		receive(p);
	else if (events & (EPOLLHUP | EPOLLERR))
		hang_up(p);
}

/* --- who comes and who must go ------------------------------------------------ */

static bool make_room(struct serving *s)
{
	struct peer *p;

	TAILQ_FOREACH(p, &s->peers, link) {
		if (p->state == PEER_READING || p->state == PEER_LEAVING) {
			hang_up(p);
			return true;
		}
	}
	return false;
}

static void on_sweep(lws_sorted_usec_list_t *sul);

static void arm_sweep(struct serving *s)
{
	lws_sul_schedule(s->l->lws, 0, &s->sweep, on_sweep, SWEEP_MS * 1000);
}

static void let_in(struct door *d, int fd)
{
	struct serving *s = d->w.l->serving;
	struct peer *p;

	if (s->peer_count >= PEERS_MAX && !make_room(s)) {
		log_odd("a client is sent away: %u others wait for answers", s->peer_count);
		close(fd);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->w = (struct watched){ .ready = on_peer, .l = d->w.l, .fd = fd };
	p->server = d->server;
	TAILQ_INSERT_TAIL(&s->peers, p, link);
	if (s->peer_count++ == 0)
		arm_sweep(s);
	if (watch_first(&p->w, EPOLLIN))
		await_request(p);
	else
		hang_up(p);
}

/* Until the next sweep: the one who waits would be told of again and again. */
static void shut(struct door *d)
{
	log_odd("no client can be let in: %s", strerror(errno));
	watch(&d->w, 0);
	arm_sweep(d->w.l->serving);
}

static void on_door(struct watched *w, uint32_t events)
{
	struct door *d = (struct door *)w;
	int fd, one = 1;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (is_for_later(errno) || errno == ECONNABORTED))
			return;
		if (fd < 0) {
			shut(d);
			return;
		}
		if (!d->server->unix_path)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		let_in(d, fd);
	}
}

static void drop_late(struct serving *s)
{
	int64_t now_ms = loop_clock_ms(CLOCK_MONOTONIC);
	struct peer *next;

	for (struct peer *p = TAILQ_FIRST(&s->peers); p; p = next) {
		next = TAILQ_NEXT(p, link);
		if (!p->limit_ms || now_ms < p->limit_ms)
			continue;
		if (p->begun && p->state == PEER_READING)
			log_info("request dropped why=\"not whole in time\"");
		hang_up(p);
	}
}

static void on_sweep(lws_sorted_usec_list_t *sul)
{
	struct serving *s = lws_container_of(sul, struct serving, sweep);
	struct door *d;

	loop_wake(s->l);
	drop_late(s);
	TAILQ_FOREACH(d, &s->doors, link)
		watch(&d->w, EPOLLIN);
	if (s->peer_count > 0)
		arm_sweep(s);
	loop_rest(s->l);
}

/* --- doors -------------------------------------------------------------------- */

/* A socket that nobody listens to any more is removed. */
static enum err clear_path(int fd, const struct sockaddr_un *a, struct complaint *why)
{
	struct stat st;

	if (lstat(a->sun_path, &st) != 0)
		return OK;
	if (!S_ISSOCK(st.st_mode))
		return complain(why, E_IO, "%s: is there, and no socket", a->sun_path);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno != ECONNREFUSED)
		return complain(why, E_IO, "%s: somebody serves there already", a->sun_path);
	if (unlink(a->sun_path) != 0)
		return complain(why, E_IO, "%s: cannot be removed: %s", a->sun_path, strerror(errno));
	return OK;
}

/* Nobody can connect before it listens, so it has its mode in time. */
static enum err bind_unix(int fd, const char *path, struct complaint *why)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	enum err err;

	if (strlen(path) >= sizeof(a.sun_path))
		return complain(why, E_IO, "%s: %zu bytes, a socket's path has at most %zu", path, strlen(path),
				sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path) + 1);
	err = clear_path(fd, &a, why);
	if (err)
		return err;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		return complain(why, E_IO, "%s: %s", path, strerror(errno));
	if (chmod(path, 0600) != 0)
		return complain(why, E_IO, "%s: its mode cannot be set: %s", path, strerror(errno));
	return OK;
}

static enum err open_unix(const char *path, int *out, struct complaint *why)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enum err err;

	if (fd < 0)
		return complain(why, E_IO, "%s: %s", path, strerror(errno));
	err = bind_unix(fd, path, why);
	if (!err && listen(fd, SOMAXCONN) != 0)
		err = complain(why, E_IO, "%s: %s", path, strerror(errno));
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

static int port_of(int fd)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);

	getsockname(fd, (struct sockaddr *)&a, &len);
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
}

static int listen_at(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Numbers only: names are not for us to resolve. */
static enum err open_tcp(struct loop_server *server, int *out, struct complaint *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *a = NULL;
	char port[16];

	snprintf(port, sizeof(port), "%d", server->port);
	if (server->port < 0 || server->port > 65535 || getaddrinfo(server->host, port, &hints, &a) != 0)
		return complain(why, E_IO, "%s port %d: no address to listen on, such as 127.0.0.1 or ::1", server->host,
				server->port);
	*out = listen_at(a);
	freeaddrinfo(a);
	if (*out < 0)
		return complain(why, E_IO, "%s port %d: %s", server->host, server->port, strerror(errno));
	server->port = port_of(*out);
	return OK;
}

static bool begin_serving(struct real *l)
{
	struct serving *s = xcalloc(1, sizeof(*s));
	struct epoll_event e = { .events = EPOLLIN };

	s->l = l;
	s->epoll = e.data.fd = epoll_create1(EPOLL_CLOEXEC);
	TAILQ_INIT(&s->doors);
	TAILQ_INIT(&s->peers);
	TAILQ_INIT(&s->gone);
	TAILQ_INIT(&s->incoming);
	l->serving = s;
	return s->epoll >= 0 && epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->epoll, &e) == 0;
}

enum err loop_real_listen(struct loop *loop, struct loop_server *server, struct complaint *why)
{
	struct real *l = real_of(loop);
	struct door *d;
	enum err err;
	int fd;

	if (!l->serving && !begin_serving(l))
		return complain(why, E_IO, "nothing can be served: %s", strerror(errno));
	err = server->unix_path ? open_unix(server->unix_path, &fd, why) : open_tcp(server, &fd, why);
	if (err)
		return err;
	d = xcalloc(1, sizeof(*d));
	d->w = (struct watched){ .ready = on_door, .l = l, .fd = fd };
	d->server = server;
	TAILQ_INSERT_TAIL(&l->serving->doors, d, link);
	return watch_first(&d->w, EPOLLIN) ? OK : complain(why, E_IO, "nothing can be served: %s", strerror(errno));
}

/* --- for the world -------------------------------------------------------------- */

bool loop_serving_has(const struct real *l, int fd)
{
	return l->serving && l->serving->epoll == fd;
}

void loop_serving_ready(struct real *l)
{
	struct epoll_event events[64];
	int count = epoll_wait(l->serving->epoll, events, ARRAY_SIZE(events), 0);

	for (int i = 0; i < count; i++) {
		struct watched *w = events[i].data.ptr;

		if (w->fd >= 0)
			w->ready(w, events[i].events);
	}
	free_gone(l->serving);
}

static void close_door(struct door *d)
{
	if (d->server->unix_path)
		unlink(d->server->unix_path);
	close(d->w.fd);
	free(d);
}

void loop_serving_free(struct real *l)
{
	struct serving *s = l->serving;
	struct incoming *r;
	struct peer *p;
	struct door *d;

	if (!s)
		return;
	while ((p = TAILQ_FIRST(&s->peers)))
		hang_up(p);
	free_gone(s);
	while ((r = TAILQ_FIRST(&s->incoming)))
		incoming_free(r);
	while ((d = TAILQ_FIRST(&s->doors))) {
		TAILQ_REMOVE(&s->doors, d, link);
		close_door(d);
	}
	lws_sul_cancel(&s->sweep);
	close(s->epoll);
	free(s);
	l->serving = NULL;
}
