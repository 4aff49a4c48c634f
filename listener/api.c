#include "listener/api_parts.h"

#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct route {
	const char *method;
	const char *path;		/* "*" stands for a name */
	bool writes;
	void (*run)(struct api_call *c);
} routes[] = {
	{ "POST", "/v1/intents", true, api_create_intent },
	{ "GET", "/v1/intents", false, api_list_intents },
	{ "GET", "/v1/intents/*", false, api_show_intent },
	{ "POST", "/v1/intents/*/attempts", true, api_add_attempt },
	{ "POST", "/v1/intents/*/moves", true, api_move_intent },
	{ "GET", "/v1/status", false, api_status },
	{ "GET", "/v1/chains", false, api_list_chains },
	{ "GET", "/v1/chains/*", false, api_show_chain },
	{ "POST", "/v1/chains/*/accept", true, api_accept },
	{ "POST", "/v1/chains/*/accept-unproven", true, api_accept_unproven },
	{ "GET", "/healthz", false, api_health },
	{ "GET", "/readyz", false, api_ready },
};

struct api_gathered {
	struct loop_request *request;	/* NULL: asked by api_ask() */
	const struct route *route;	/* NULL: refused already */
	struct api_call call;
};

/* Answers. */

static int status_of(enum err err)
{
	switch (err) {
	case OK:
		return 200;
	case E_INPUT:
		return 400;
	case E_FORBIDDEN_ACTOR:
		return 403;
	case E_NOT_FOUND:
		return 404;
	case E_CONFLICT:
	case E_VERSION_CONFLICT:
	case E_TERMINAL:
		return 409;
	case E_REFUSED:
	case E_ILLEGAL_TRANSITION:
	case E_MISSING_EVIDENCE:
	case E_TX_MISMATCH:
		return 422;
	default:
		return 500;
	}
}

static void refuse(struct api_call *c, int status, enum err code, const char *fmt, va_list args)
{
	struct complaint why;

	vsnprintf(why.text, sizeof(why.text), fmt, args);
	c->status = status;
	c->refused = code;
	c->answer.len = 0;
	json_open_object(&c->answer, NULL);
	json_open_object(&c->answer, "error");
	json_put_text(&c->answer, "code", err_name(code));
	json_put_text(&c->answer, "text", why.text);
	json_close_object(&c->answer);
	json_close_object(&c->answer);
}

void api_refuse(struct api_call *c, enum err code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	refuse(c, status_of(code), code, fmt, args);
	va_end(args);
}

void api_refuse_as(struct api_call *c, int status, enum err code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	refuse(c, status, code, fmt, args);
	va_end(args);
}

bool api_read_body(struct api_call *c, void (*read)(struct json j, void *out), void *out)
{
	struct complaint why;
	struct json_doc *doc = json_open(c->body, &why);
	enum err err = E_INPUT;

	if (doc) {
		read(json_root(doc), out);
		err = json_finish(doc, &why);
	}
	json_close(doc);
	if (err)
		api_refuse(c, err, "%s", why.text);
	return err == OK;
}

const struct api_chain *api_find_chain(const struct api *api, uint64_t chain_id)
{
	for (unsigned i = 0; i < api->chain_count; i++) {
		if (api->chains[i].config->chain_id == chain_id)
			return &api->chains[i];
	}
	return NULL;
}

/* Requests. */

bool api_decode(struct slice text, char *out, size_t size)
{
	size_t len = 0;
	uint8_t c;

	for (size_t i = 0; i < text.len; i++) {
		uint8_t hex[4] = { '0', 'x' };

		c = text.data[i];
		if (c == '%' && i + 2 < text.len) {
			memcpy(hex + 2, text.data + i + 1, 2);
			i += 2;
			if (!hex_decode((struct slice){ hex, sizeof(hex) }, &c, 1))
				return false;
		} else if (c == '%') {
			return false;
		}
		if (!c || len + 1 >= size)
			return false;
		out[len++] = (char)c;
	}
	out[len] = '\0';
	return true;
}

/* Whether the path is of the form; the part that "*" stands for is *@name. */
static bool path_fits(const char *form, const char *path, struct slice *name)
{
	*name = (struct slice){ 0 };
	for (; *form && *form != '*'; form++, path++) {
		if (*form != *path)
			return false;
	}
	if (*form == '*') {
		*name = (struct slice){ (const uint8_t *)path, strcspn(path, "/") };
		return name->len && strcmp(form + 1, path + name->len) == 0;
	}
	return !*path;
}

/* The route; NULL, and refused, if there is none. */
static const struct route *find_route(struct api_call *c, const char *method, const char *path)
{
	bool known = false;
	struct slice name;

	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (!path_fits(routes[i].path, path, &name))
			continue;
		known = true;
		if (strcmp(routes[i].method, method) != 0)
			continue;
		if (api_decode(name, c->name, sizeof(c->name)))
			return &routes[i];
		api_refuse(c, E_INPUT, "%.200s: a name in the path is badly encoded or too long", path);
		return NULL;
	}
	if (known)
		api_refuse_as(c, 405, E_INPUT, "%.200s: does not take %s", path, method);
	else
		api_refuse(c, E_NOT_FOUND, "%.200s: no such place", path);
	return NULL;
}

static struct api_gathered begin(struct api *api, const char *method, const char *path, const char *query,
				 struct slice body)
{
	struct api_gathered g = { .call = { .api = api, .query = query, .body = body } };

	g.route = find_route(&g.call, method, path);
	return g;
}

static void run(struct api_gathered *g, struct kv_txn *t)
{
	struct api_call *c = &g->call;

	c->t = t;
	c->status = 200;
	c->answer.len = 0;
	c->touched = NULL;
	c->refused = OK;
	c->conflict = false;
	g->route->run(c);
	c->t = NULL;
}

static void fail(struct api_gathered *g, enum err err, const char *what)
{
	api_refuse_as(&g->call, 500, err, "the store could not be %s: %s", what, err_name(err));
	g->call.touched = NULL;
}

static bool writes(const struct api_gathered *g)
{
	return g->route && g->route->writes;
}

/* All that write, in the order in which they came. */

struct batch {
	struct api *api;
	struct api_gathered *calls;
	size_t count;
};

static void write_body(struct kv_txn *t, void *ctx)
{
	struct batch *b = ctx;

	for (size_t i = 0; i < b->count; i++) {
		if (writes(&b->calls[i]))
			run(&b->calls[i], t);
	}
	if (b->api->committing)
		b->api->committing(b->api->ctx, t);
}

static void write_batch(struct batch *b)
{
	/*
	 * A crash before the commit: nothing of the turn was done and nobody was answered.  After it: all was done and
	 * perhaps nobody was answered; who asks again is told that it is there already.
	 */
	enum err err = kv_write(b->api->kv, write_body, b);

	b->api->last_write = err;
	if (!err) {
		if (b->api->committed)
			b->api->committed(b->api->ctx);
		return;
	}
	log_odd("requests failed err=%s", err_name(err));
	for (size_t i = 0; i < b->count; i++) {
		if (writes(&b->calls[i]))
			fail(&b->calls[i], err, "written");
	}
}

static void read_one(struct api *api, struct api_gathered *g)
{
	struct kv_txn t = kv_begin_read(api->kv);
	enum err err;

	run(g, &t);
	err = kv_end_read(&t);
	if (!err)
		return;
	log_odd("request failed err=%s", err_name(err));
	fail(g, err, "read");
}

static void work_off(struct batch *b)
{
	size_t i = 0;

	while (i < b->count && !writes(&b->calls[i]))
		i++;
	if (i < b->count)
		write_batch(b);
	for (i = 0; i < b->count; i++) {
		if (b->calls[i].route && !b->calls[i].route->writes)
			read_one(b->api, &b->calls[i]);
	}
}

/* After the answers: trackers look up what was asked of them, each once. */
static void wake_trackers(struct batch *b)
{
	for (unsigned k = 0; k < b->api->chain_count; k++) {
		struct api_chain *chain = &b->api->chains[k];
		size_t i = 0;

		while (i < b->count && b->calls[i].call.touched != chain)
			i++;
		if (i < b->count && chain->tracker)
			tracker_look_again(chain->tracker);
	}
}

/* A bug of the caller stands out; what was lost in a race does not. */
static void log_call(const char *method, const char *path, const struct api_gathered *g)
{
	const struct api_call *c = &g->call;
	enum log_level level = intent_refusal_is_bug(c->refused) || c->conflict ? LOG_ODD :
			       writes(g) ? LOG_INFO : LOG_DEBUG;

	log_line(level, "asked %s %s status=%d%s%s%s", method, path, c->status, c->refused ? " refused=" : "",
		 c->refused ? err_name(c->refused) : "", c->conflict ? " evidence conflict" : "");
}

void api_asked(struct api *api, struct loop_request *request)
{
	struct api_gathered *g;

	if (api->gathered_count == api->gathered_cap) {
		api->gathered_cap = api->gathered_cap ? api->gathered_cap * 2 : 16;
		api->gathered = xrealloc(api->gathered, api->gathered_cap * sizeof(*api->gathered));
	}
	g = &api->gathered[api->gathered_count++];
	*g = begin(api, request->method, request->path, request->query, request->body);
	g->request = request;
}

void api_turn(struct api *api)
{
	struct batch b = { api, api->gathered, api->gathered_count };

	if (!b.count)
		return;
	work_off(&b);
	api->gathered_count = 0;
	for (size_t i = 0; i < b.count; i++) {
		struct api_gathered *g = &b.calls[i];

		log_call(g->request->method, g->request->path, g);
		loop_real_answer(g->request, g->call.status, "application/json", buf_slice(&g->call.answer));
		buf_free(&g->call.answer);
	}
	wake_trackers(&b);
}

void api_free(struct api *api)
{
	for (size_t i = 0; i < api->gathered_count; i++)
		buf_free(&api->gathered[i].call.answer);
	free(api->gathered);
	api->gathered = NULL;
	api->gathered_count = api->gathered_cap = 0;
}

int api_ask(struct api *api, const char *method, const char *path, const char *query, struct slice body,
	    struct buf *answer)
{
	struct api_gathered g = begin(api, method, path, query, body);
	struct batch b = { api, &g, 1 };

	work_off(&b);
	log_call(method, path, &g);
	buf_put(answer, g.call.answer.data, g.call.answer.len);
	buf_free(&g.call.answer);
	wake_trackers(&b);
	return g.call.status;
}
