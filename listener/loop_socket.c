/*
 * A socket: queued -> libcurl connects (and checks the certificate: its reasons can be read) ->
 * libwebsockets connects to the address that libcurl found, so it never resolves a name -> open.
 */
#define _GNU_SOURCE
#include "listener/loop_parts.h"

#include "common/log.h"
#include "listener/secret.h"

#include <stdlib.h>
#include <string.h>

/* libwebsockets cuts longer ones in silence. */
#define PATH_MAX_BYTES 2000
#define HOST_MAX_BYTES 110
#define AGAIN_MS 100

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

/* --- places --------------------------------------------------------------- */

void loop_place_clear(struct place *p)
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

bool loop_place_parse(const char *url, struct place *p)
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
	loop_place_clear(&c->to);
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
	loop_happened(c->l);
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
	struct real *l = c->l;

	loop_wake(l);
	if (c->socket) {
		log_info("socket failed host=%s why=\"not open in time\"", host_of(c));
		tell_closed(c);		/* on_turn lets go of it */
	} else if (c->wsi) {
		hang_up(c);
	}
	loop_rest(l);
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
	return is_socket_url(url) && loop_place_parse(url, to) && strlen(to->path) <= PATH_MAX_BYTES &&
	       strlen(to->authority) <= HOST_MAX_BYTES;
}

static void begin_probe(struct conn *c)
{
	struct buf url = { 0 };

	buf_printf(&url, "%s://%s:%d/", c->to.tls ? "https" : "http", c->to.host, c->to.port);
	c->probe.ended = probe_ended;
	loop_open_handle(c->l, &c->probe);
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

void loop_socket_open(struct loop *loop, struct loop_socket *socket)
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
	loop_arm_turn(l);
}

void loop_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text)
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

void loop_socket_close(struct loop *loop, struct loop_socket *socket)
{
	struct conn *c = find_conn(real_of(loop), socket);

	socket->open = false;
	if (!c)
		return;
	c->socket = NULL;
	loop_arm_turn(c->l);
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
	loop_happened(c->l);
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
	loop_happened(c->l);
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
	struct complaint why;

	complain(&why, OK, "%.*s", text ? (int)len : 0, text ? text : "");
	if (c->socket) {
		secret_cut(c->socket->url, why.text);
		log_info("socket failed host=%s status=%u why=\"%s\"", host_of(c), lws_http_client_http_response(wsi), why.text);
	}
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

static int hear(struct conn *c, struct lws *wsi, enum lws_callback_reasons reason, void *in, size_t len)
{
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

int loop_on_socket(struct conn *c, struct lws *wsi, enum lws_callback_reasons reason, void *in, size_t len)
{
	struct real *l;
	int code;

	if (!c)
		return 0;		/* the epoll descriptor's end */
	l = c->l;
	loop_wake(l);
	code = hear(c, wsi, reason, in, len);
	loop_rest(l);
	return code;
}

/* --- for the world ----------------------------------------------------------- */

/* The next of them is seen before this one may be freed. */
void loop_tend_conns(struct real *l)
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

void loop_free_conns(struct real *l)
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
