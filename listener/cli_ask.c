#include "listener/cli_ask.h"

#include "listener/api.h"
#include "listener/run.h"
#include "store/schema.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 10000
#define STATUS_MADE 201

struct chain_config *cli_know_chain(struct cli_world *w, uint64_t chain_id)
{
	struct chain_config *c;

	for (unsigned i = 0; i < w->chain_count; i++) {
		if (w->chains[i].chain_id == chain_id)
			return &w->chains[i];
	}
	if (w->chain_count == CHAINS_MAX)
		return NULL;
	c = &w->chains[w->chain_count++];
	*c = config_default(chain_id);
	config_preset(c);
	return c;
}

/* The store, opened here. */

static int64_t wall_ms(void *ctx)
{
	struct timespec now;

	(void)ctx;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Those that it holds are known, configured or not. */
static enum err know_stored_chains(struct cli_world *w, struct kv *kv)
{
	struct kv_txn t = kv_begin_read(kv);
	struct key first = key_chain(0);
	struct kv_cursor at;

	for (bool more = kv_seek(&t, T_CHAIN, key_slice(&first), 0, &at); more; more = kv_next(&at))
		cli_know_chain(w, be64_get(at.key));
	return kv_end_read(&t);
}

static int ask_open(struct cli_world *w, struct kv *kv, const char *method, const char *path, struct slice body,
		    struct buf *answer)
{
	struct api api = { .kv = kv, .store = w->store, .chain_count = w->chain_count, .now_ms = wall_ms };
	size_t len = strcspn(path, "?");
	char *plain = xstrdup(path);
	int status;

	for (unsigned i = 0; i < w->chain_count; i++)
		api.chains[i].config = &w->chains[i];
	plain[len] = '\0';
	status = api_ask(&api, method, plain, path[len] ? path + len + 1 : "", body, answer);
	free(plain);
	api_free(&api);
	return status;
}

/* A file of the store's folder; freed by the caller. */
static char *path_of(const struct cli_world *w, const char *name)
{
	struct buf path = { 0 };

	buf_printf(&path, "%s/%s", w->store, name);
	buf_put_u8(&path, '\0');
	return (char *)path.data;
}

static bool is_there(const struct cli_world *w)
{
	char *path = path_of(w, "tidemark.mdb");
	bool there = access(path, F_OK) == 0;

	free(path);
	return there;
}

/* Closes it. */
static int ask_kv(struct cli_world *w, struct kv *kv, const char *method, const char *path, struct slice body,
		  struct buf *answer, struct complaint *why)
{
	enum err err = know_stored_chains(w, kv);
	int status = 0;

	if (err)
		complain(why, err, "%s: the store cannot be read: %s", w->store, err_name(err));
	else
		status = ask_open(w, kv, method, path, body, answer);
	kv_close(kv);
	return status;
}

static int make_and_ask(struct cli_world *w, const struct store_options *options, const char *method, const char *path,
			struct slice body, struct buf *answer, struct complaint *why)
{
	struct kv *kv;
	int status;

	/* What is refused must leave no store behind: a passing one tells. */
	if (store_open_passing(options, &kv, why))
		return 0;
	status = ask_kv(w, kv, method, path, body, answer, why);
	if (status != STATUS_MADE)
		return status;
	answer->len = 0;
	if (store_open(w->store, options, &kv, why))
		return 0;
	status = ask_kv(w, kv, method, path, body, answer, why);
	if (status == STATUS_MADE)
		fprintf(stderr, "tidemark: made a new store at %s\n", w->store);
	return status;
}

static int ask_store(struct cli_world *w, const char *method, const char *path, struct slice body, struct buf *answer,
		     struct complaint *why)
{
	struct store_options options = {
		.map_bytes = w->map_bytes,
		.map_max_bytes = w->map_max_bytes,
	};
	bool there = is_there(w);
	struct kv *kv;

	if (!there && w->may_make)
		return make_and_ask(w, &options, method, path, body, answer, why);
	/* A slip in the folder's name must not make a store. */
	if (!there) {
		complain(why, E_NOT_FOUND, "no store at %s", w->store);
		return 0;
	}
	options.read_only = !w->may_make && strcmp(method, "GET") == 0;
	if (store_open(w->store, &options, &kv, why))
		return 0;
	return ask_kv(w, kv, method, path, body, answer, why);
}

/* The daemon. */

struct exchange {
	struct loop *loop;
	struct loop_post post;
	enum loop_end end;
	int status;
	struct buf *answer;
};

static void on_done(struct loop_post *post, enum loop_end end, int status, struct slice answer)
{
	struct exchange *x = post->ctx;

	x->end = end;
	if (end == LOOP_ANSWERED) {
		x->status = status;
		buf_put(x->answer, answer.data, answer.len);
	}
	loop_real_stop(x->loop);
}

/* Post and wait; false if nobody listens there. */
static bool exchange(struct exchange *x, const char *path, const char *socket, struct slice body, struct complaint *why)
{
	struct loop_real_options options = { 0 };
	struct buf url = { 0 };

	x->loop = loop_real_new(&options);
	if (!x->loop) {
		complain(why, E_IO, "the daemon cannot be asked");
		return true;
	}
	buf_printf(&url, "http://tidemark%s", path);
	buf_put_u8(&url, '\0');
	x->post = (struct loop_post){ .url = (const char *)url.data, .unix_path = socket, .body = body,
				      .timeout_ms = TIMEOUT_MS, .done = on_done, .ctx = x };
	x->loop->ops->post(x->loop, &x->post);
	loop_real_run(x->loop);
	loop_real_free(x->loop);
	buf_free(&url);
	if (x->end == LOOP_TIMED_OUT)
		complain(why, E_IO, "the daemon did not answer within %d s: what was asked may yet be done", TIMEOUT_MS / 1000);
	else if (x->end != LOOP_ANSWERED)
		complain(why, E_IO, "the daemon's answer did not come: what was asked may be done");
	return x->end != LOOP_UNREACHABLE;
}

int cli_ask(struct cli_world *w, const char *method, const char *path, struct slice body, struct buf *answer,
	    struct complaint *why)
{
	struct exchange x = { .end = LOOP_UNREACHABLE, .answer = answer };
	char *socket = path_of(w, SOCKET_NAME);
	bool asked = false;

	if (access(socket, F_OK) == 0)
		asked = exchange(&x, path, socket, body, why);
	free(socket);
	return asked ? x.status : ask_store(w, method, path, body, answer, why);
}
