#include "listener/run.h"

#include "common/log.h"
#include "listener/api.h"
#include "listener/progress.h"
#include "listener/run_store.h"
#include "listener/sink.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SINK_RETRY_MS 100

struct daemon;

struct followed {
	struct daemon *d;
	struct tracker tracker;
	struct progress progress;
	bool started;
	bool was_live;			/* an endpoint was, once */
};

struct daemon {
	struct settings *settings;
	struct complaint *why;
	enum err err;
	struct loop *loop;
	struct kv *kv;
	struct sink *sink;
	bool events_fail;		/* those of the last commit could not be written */
	struct loop_timer sink_retry;	/* a full pipe, or disk, may have room again */
	struct api api;
	struct followed chains[CHAINS_MAX];
	struct loop_server unix_server, tcp_server;
	char socket_path[512];
};

static int64_t steady_ms(const struct daemon *d)
{
	return d->loop->ops->steady_ms(d->loop);
}

static int64_t now_ms(void *ctx)
{
	struct daemon *d = ctx;

	return d->loop->ops->now_ms(d->loop);
}

/* It ends, with the complaint that stands. */
static void stop(struct daemon *d, enum err err)
{
	if (!d->err)
		d->err = err;
	loop_real_stop(d->loop);
}

/* Events. */

static void on_committing(void *ctx, struct kv_txn *t)
{
	struct daemon *d = ctx;

	if (d->sink)
		sink_committing(d->sink, t);
}

static enum err write_events(struct daemon *d)
{
	enum err err = sink_write(d->sink);

	if (err || sink_is_waiting(d->sink))
		d->loop->ops->timer_set(d->loop, &d->sink_retry, steady_ms(d) + SINK_RETRY_MS);
	return err;
}

static void on_committed(void *ctx)
{
	struct daemon *d = ctx;

	if (!d->sink)
		return;
	/* A file that takes no more for now gets the rest later; a pipe that is gone is gone. */
	d->events_fail = write_events(d) != OK;
	if (d->events_fail && strcmp(d->settings->events, "-") == 0)
		stop(d, complain(d->why, E_IO, "events: the output cannot be written"));
}

static const char *find_trouble(void *ctx)
{
	return ((struct daemon *)ctx)->events_fail ? "events cannot be written where --events says; they are kept" : NULL;
}

static void on_sink_retry(struct loop_timer *timer)
{
	on_committed(timer->ctx);
}

static void on_chain_committing(void *ctx, struct kv_txn *t)
{
	on_committing(((struct followed *)ctx)->d, t);
}

static void on_chain_committed(void *ctx)
{
	on_committed(((struct followed *)ctx)->d);
}

static void on_applied(void *ctx, uint64_t height, const struct hash32 *hash)
{
	struct followed *f = ctx;
	const struct head *head = reads_head(&f->tracker.reads);

	(void)hash;
	progress_step(&f->progress, steady_ms(f->d), height, head->verified ? head->height : height);
}

/* The turn's end. */

/* Every endpoint is another chain's, or has other tokens, and none was ever right: the configuration is wrong. */
static bool is_misled(const struct followed *f)
{
	for (unsigned i = 0; i < f->tracker.reads.provider_count; i++) {
		if (f->tracker.reads.providers[i].health != HEALTH_WRONG)
			return false;
	}
	return !f->was_live;
}

/* One that is followed is not left for another that is configured wrong: that one's health tells. */
static bool is_any_followed(const struct daemon *d)
{
	bool any = false;

	for (unsigned i = 0; i < CHAINS_MAX; i++)
		any |= d->chains[i].was_live;
	return any;
}

static void look_at(struct daemon *d, struct followed *f)
{
	const struct chain_config *config = f->tracker.config;

	f->was_live |= reads_live(&f->tracker.reads) > 0;
	if (f->tracker.err)
		stop(d, complain(d->why, f->tracker.err, "chain %llu: the store failed: %s",
				 (unsigned long long)config->chain_id, err_name(f->tracker.err)));
	else if (is_misled(f) && !is_any_followed(d))
		stop(d, complain(d->why, E_REFUSED, "chain %llu: %.400s", (unsigned long long)config->chain_id,
				 f->tracker.reads.providers[0].why.text));
}

static void on_turn_ended(void *ctx)
{
	struct daemon *d = ctx;

	if (!d->api.kv)
		return;
	api_turn(&d->api);
	for (unsigned i = 0; i < d->settings->chain_count; i++) {
		if (d->chains[i].started)
			look_at(d, &d->chains[i]);
	}
}

static void on_asked(struct loop_server *server, struct loop_request *request)
{
	struct daemon *d = server->ctx;

	api_asked(&d->api, request);
}

/* Which chain an endpoint serves, where nobody said. */

struct question {
	struct daemon *d;
	const struct chain_settings *chain;
	unsigned endpoint;		/* the one asked, in turn */
	struct rpc rpc;
	struct loop_timer retry;
	uint64_t chain_id;		/* 0: not answered yet */
};

static void ask_chain(struct question *q);

static void on_retry(struct loop_timer *timer)
{
	ask_chain(timer->ctx);
}

static void chain_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct question *q = call->ctx;
	struct loop *loop = q->d->loop;
	struct complaint why;

	if (outcome == RPC_CANCELED)
		return;
	if (outcome == RPC_RESULT && result_u64(reply->result, &q->chain_id, &why) == OK && q->chain_id) {
		loop_real_stop(loop);
		return;
	}
	log_odd("endpoint=%u does not say which chain it serves; asked again why=\"%s\"", q->endpoint, q->rpc.why.text);
	q->endpoint = (q->endpoint + 1) % q->chain->endpoint_count;
	loop->ops->timer_set(loop, &q->retry, steady_ms(q->d) + 1000);
}

static void ask_chain(struct question *q)
{
	struct rpc_call call = { .method = "eth_chainId", .done = chain_done, .ctx = q };

	q->rpc.url = q->chain->endpoints[q->endpoint].http;
	rpc_start(&q->rpc, &call, "[]");
}

/* False: a signal came first. */
static bool ask_endpoints(struct daemon *d, const struct chain_settings *chain, uint64_t *id)
{
	struct question q = { .d = d, .chain = chain };
	bool stopped;

	q.rpc = (struct rpc){ .loop = d->loop, .timeout_ms = chain->config.timeout_ms, .batch_max = 1 };
	q.retry = (struct loop_timer){ .fire = on_retry, .ctx = &q };
	ask_chain(&q);
	stopped = loop_real_run(d->loop) != 0;
	d->loop->ops->timer_cancel(d->loop, &q.retry);
	loop_real_cancel_all(d->loop);
	*id = q.chain_id;
	return !stopped;
}

static enum err find_chain(struct daemon *d, struct chain_settings *chain, bool *stopped)
{
	uint64_t id;

	/* A store that follows one chain knows it, also while no endpoint answers. */
	if (!run_only_chain(d->kv, &id) && !ask_endpoints(d, chain, &id)) {
		*stopped = true;
		return OK;
	}
	chain->config.chain_id = id;
	if (!config_preset(&chain->config) && !chain->config.token_count)
		return complain(d->why, E_INPUT, "chain %llu is not known here: name its tokens with --token or --config",
				(unsigned long long)id);
	if (!chain->config.finality.tier_count)
		chain->config.finality = (struct finality_policy){ { { .tag = TAG_FINALIZED } }, 1 };
	log_info("chain=%llu", (unsigned long long)id);
	return OK;
}

static enum err find_chains(struct daemon *d, bool *stopped)
{
	enum err err = OK;

	*stopped = false;
	for (unsigned i = 0; i < d->settings->chain_count && !err && !*stopped; i++) {
		if (!d->settings->chains[i].config.chain_id)
			err = find_chain(d, &d->settings->chains[i], stopped);
	}
	return err || *stopped ? err : settings_check(d->settings, d->why);
}

/* Opening. */

static enum err open_store(struct daemon *d)
{
	struct store_options options = { .map_bytes = d->settings->map_bytes,
					 .map_max_bytes = d->settings->map_max_bytes };
	enum err err = store_open(d->settings->store, &options, &d->kv, d->why);

	if (!err && d->settings->events)
		err = sink_open(d->settings->events, d->kv, &d->sink, d->why);
	if (!err && d->sink && write_events(d))
		err = complain(d->why, E_IO, "%s: events cannot be written", d->settings->events);
	return err;
}

static enum err start_chain(struct daemon *d, struct followed *f, struct chain_settings *chain)
{
	struct tracker_watcher watcher = { on_chain_committing, on_chain_committed, on_applied, NULL, f };
	enum err err;

	f->d = d;
	f->progress = progress_start(stderr, isatty(STDERR_FILENO), chain->config.chain_id);
	err = tracker_start(&f->tracker, d->loop, d->kv, chain->endpoints, chain->endpoint_count, &chain->config,
			    &watcher, d->why);
	f->started = !err;
	d->api.chains[d->api.chain_count++] = (struct api_chain){ &chain->config, &f->tracker };
	return err;
}

static enum err start_chains(struct daemon *d)
{
	enum err err = OK;

	d->api.kv = d->kv;
	d->api.store = d->settings->store;
	d->api.now_ms = now_ms;
	d->api.committing = on_committing;
	d->api.committed = on_committed;
	d->api.trouble = find_trouble;
	d->api.ctx = d;
	for (unsigned i = 0; i < d->settings->chain_count && !err; i++)
		err = start_chain(d, &d->chains[i], &d->settings->chains[i]);
	return err;
}

static enum err listen_at(struct daemon *d)
{
	enum err err;

	snprintf(d->socket_path, sizeof(d->socket_path), "%.400s/" SOCKET_NAME, d->settings->store);
	d->unix_server = (struct loop_server){ .unix_path = d->socket_path, .asked = on_asked, .ctx = d };
	err = loop_real_listen(d->loop, &d->unix_server, d->why);
	if (err || !d->settings->listen_host)
		return err;
	d->tcp_server = (struct loop_server){ .host = d->settings->listen_host, .port = d->settings->listen_port,
					      .asked = on_asked, .ctx = d };
	return loop_real_listen(d->loop, &d->tcp_server, d->why);
}

static void say_serving(const struct daemon *d)
{
	if (d->settings->listen_host)
		fprintf(stderr, "tidemark: serving %s and %s:%d\n", d->socket_path, d->settings->listen_host,
			d->tcp_server.port);
	else
		fprintf(stderr, "tidemark: serving %s\n", d->socket_path);
}

/* The end. */

static void cursor_body(struct kv_txn *t, void *ctx)
{
	on_committing(ctx, t);
}

/* Crash before: what was written last to a place that cannot tell is written again. */
static void close_sink(struct daemon *d)
{
	if (!d->sink)
		return;
	d->loop->ops->timer_cancel(d->loop, &d->sink_retry);
	if (sink_finish(d->sink) || kv_write(d->kv, cursor_body, d) || sink_is_waiting(d->sink))
		log_odd("the last events are written at the next start");
	sink_close(d->sink);
}

static void close_all(struct daemon *d)
{
	for (unsigned i = 0; i < CHAINS_MAX; i++) {
		if (d->chains[i].started)
			d->chains[i].tracker.stopped = true;
	}
	loop_real_cancel_all(d->loop);
	for (unsigned i = 0; i < CHAINS_MAX; i++) {
		progress_done(&d->chains[i].progress);
		if (d->chains[i].started)
			tracker_stop(&d->chains[i].tracker);
	}
	api_free(&d->api);
	close_sink(d);
	loop_real_free(d->loop);
	if (d->kv)
		kv_close(d->kv);
}

static enum err follow(struct daemon *d)
{
	bool stopped = false;
	enum err err = open_store(d);

	if (!err)
		err = find_chains(d, &stopped);
	if (err || stopped)
		return err;
	err = run_check_intents(d->kv, d->settings, d->why);
	if (!err)
		err = start_chains(d);
	if (!err)
		err = listen_at(d);
	if (err)
		return err;
	say_serving(d);
	if (loop_real_run(d->loop) < 0)
		return complain(d->why, E_IO, "the loop broke");
	return d->err;
}

enum err run_daemon(struct settings *settings, struct complaint *why)
{
	struct daemon *d = xcalloc(1, sizeof(*d));
	enum err err;

	d->settings = settings;
	d->why = why;
	d->sink_retry = (struct loop_timer){ .fire = on_sink_retry, .ctx = d };
	settings->loop.turn_ended = on_turn_ended;
	settings->loop.ctx = d;
	d->loop = loop_real_new(&settings->loop);
	if (d->loop) {
		err = follow(d);
		close_all(d);
	} else {
		err = complain(why, E_IO, "the loop cannot be made; is the file of certificate authorities readable?");
	}
	free(d);
	return err;
}
