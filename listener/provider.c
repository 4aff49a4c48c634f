#include "listener/provider.h"

#include "common/log.h"
#include "listener/secret.h"

#include <string.h>

#define SILENCES_MAX 3		/* in a row, before it is set aside */
#define LIES_MAX 6
#define DEAF_POLLS 5
#define BACKOFF_DOUBLINGS 6

enum health_do {
	DO_NOTHING,
	DO_CONNECT,
	DO_CHECK,
	DO_CLOSE_AND_WAIT,
	DO_WAIT,
	DO_QUARANTINE,
	DO_READ_HEAD,
};

struct health_rule {
	enum health next;
	enum health_do effect;
	const char *why;
};

static const struct health_rule rules[HEALTHS][HEALTH_EVENTS] = {
	[HEALTH_CONNECTING] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "connected" },
		[HEV_CHECKED] = { HEALTH_CONNECTING, DO_NOTHING, "a late answer" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_QUARANTINE, "another chain" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "its socket cannot be opened" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_DEAF] = { HEALTH_CONNECTING, DO_NOTHING, "not subscribed yet" },
		[HEV_LAGS] = { HEALTH_CONNECTING, DO_NOTHING, "not judged before it is open" },
		[HEV_CAUGHT_UP] = { HEALTH_CONNECTING, DO_NOTHING, "not judged before it is open" },
		[HEV_RETRY] = { HEALTH_CONNECTING, DO_NOTHING, "is being tried" },
	},
	[HEALTH_CHECKING] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "opened again" },
		[HEV_CHECKED] = { HEALTH_LIVE, DO_READ_HEAD, "is the chain that we follow" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_QUARANTINE, "another chain" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "closed the socket" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_DEAF] = { HEALTH_CHECKING, DO_NOTHING, "not judged before it is checked" },
		[HEV_LAGS] = { HEALTH_CHECKING, DO_NOTHING, "not judged before it is checked" },
		[HEV_CAUGHT_UP] = { HEALTH_CHECKING, DO_NOTHING, "not judged before it is checked" },
		[HEV_RETRY] = { HEALTH_CHECKING, DO_NOTHING, "is being checked" },
	},
	[HEALTH_LIVE] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "opened again" },
		[HEV_CHECKED] = { HEALTH_LIVE, DO_NOTHING, "a late answer" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_QUARANTINE, "another chain" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "closed the socket" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_DEAF] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "announces no heads any more" },
		[HEV_LAGS] = { HEALTH_BEHIND, DO_NOTHING, "its head is old" },
		[HEV_CAUGHT_UP] = { HEALTH_LIVE, DO_NOTHING, "is at the head" },
		[HEV_RETRY] = { HEALTH_LIVE, DO_NOTHING, "needs no retry" },
	},
	[HEALTH_BEHIND] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "opened again" },
		[HEV_CHECKED] = { HEALTH_BEHIND, DO_NOTHING, "a late answer" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_QUARANTINE, "another chain" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "closed the socket" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_DEAF] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "announces no heads any more" },
		[HEV_LAGS] = { HEALTH_BEHIND, DO_NOTHING, "its head is old" },
		[HEV_CAUGHT_UP] = { HEALTH_LIVE, DO_NOTHING, "is at the head again" },
		[HEV_RETRY] = { HEALTH_BEHIND, DO_NOTHING, "needs no retry" },
	},
	[HEALTH_BACKOFF] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "opened" },
		[HEV_CHECKED] = { HEALTH_BACKOFF, DO_NOTHING, "a late answer" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_NOTHING, "another chain" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_NOTHING, "is closed" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_NOTHING, "a late failure" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_NOTHING, "a late lie" },
		[HEV_DEAF] = { HEALTH_BACKOFF, DO_NOTHING, "is closed" },
		[HEV_LAGS] = { HEALTH_BACKOFF, DO_NOTHING, "not judged while it is set aside" },
		[HEV_CAUGHT_UP] = { HEALTH_BACKOFF, DO_NOTHING, "not judged while it is set aside" },
		[HEV_RETRY] = { HEALTH_CONNECTING, DO_CONNECT, "is tried again" },
	},
	[HEALTH_WRONG] = {
		[HEV_OPENED] = { HEALTH_CHECKING, DO_CHECK, "opened" },
		[HEV_CHECKED] = { HEALTH_WRONG, DO_NOTHING, "a late answer" },
		[HEV_WRONG] = { HEALTH_WRONG, DO_NOTHING, "still another chain" },
		[HEV_CLOSED] = { HEALTH_WRONG, DO_NOTHING, "is closed" },
		[HEV_SILENT] = { HEALTH_WRONG, DO_NOTHING, "a late failure" },
		[HEV_LIED] = { HEALTH_WRONG, DO_NOTHING, "a late lie" },
		[HEV_DEAF] = { HEALTH_WRONG, DO_NOTHING, "is closed" },
		[HEV_LAGS] = { HEALTH_WRONG, DO_NOTHING, "not judged while it is quarantined" },
		[HEV_CAUGHT_UP] = { HEALTH_WRONG, DO_NOTHING, "not judged while it is quarantined" },
		[HEV_RETRY] = { HEALTH_CONNECTING, DO_CONNECT, "is looked at again" },
	},
};

static const char *const names[HEALTHS] = {
	[HEALTH_CONNECTING] = "connecting",
	[HEALTH_CHECKING] = "checking",
	[HEALTH_LIVE] = "live",
	[HEALTH_BEHIND] = "behind",
	[HEALTH_BACKOFF] = "backing off",
	[HEALTH_WRONG] = "wrong chain",
};

static const char *const event_names[HEALTH_EVENTS] = {
	[HEV_OPENED] = "opened",
	[HEV_CHECKED] = "checked",
	[HEV_WRONG] = "wrong",
	[HEV_CLOSED] = "closed",
	[HEV_SILENT] = "silent",
	[HEV_LIED] = "lied",
	[HEV_DEAF] = "deaf",
	[HEV_LAGS] = "lags",
	[HEV_CAUGHT_UP] = "caught up",
	[HEV_RETRY] = "retry",
};

const char *health_name(enum health h)
{
	return names[h];
}

void health_print_table(struct buf *out)
{
	for (int h = 0; h < HEALTHS; h++) {
		for (int e = 0; e < HEALTH_EVENTS; e++)
			buf_printf(out, "%-12s %-10s -> %-12s %s\n", names[h], event_names[e],
				   names[rules[h][e].next], rules[h][e].why);
	}
}

static struct loop *loop_of(const struct provider *p)
{
	return p->rpc.loop;
}

bool provider_is_live(const struct provider *p)
{
	return p->health == HEALTH_LIVE;
}

bool provider_is_throttled(const struct provider *p)
{
	return p->rpc.not_before_ms > loop_of(p)->ops->steady_ms(loop_of(p));
}

static void wait_to_retry(struct provider *p)
{
	unsigned doublings = p->closings < BACKOFF_DOUBLINGS ? p->closings : BACKOFF_DOUBLINGS;
	int64_t wait_ms = p->config->retry_ms << doublings, at_ms;

	p->closings++;
	wait_ms += (int64_t)(loop_of(p)->ops->random(loop_of(p)) % (uint64_t)(wait_ms / 2 + 1));
	at_ms = loop_of(p)->ops->steady_ms(loop_of(p)) + wait_ms;
	if (at_ms < p->rpc.not_before_ms)
		at_ms = p->rpc.not_before_ms;
	loop_of(p)->ops->timer_set(loop_of(p), &p->retry, at_ms);
}

/* What it said last is not known to be what it says when it is back. */
static void forget(struct provider *p)
{
	p->rpc.silences = p->lies = p->unannounced = 0;
	p->subscribed = p->lacks_block_receipts = false;
	p->rpc.batch_max = p->config->batch_max;
	for (unsigned tag = 0; tag < TAGS; tag++)
		p->tags[tag].known = p->tags[tag].doubted = false;
	p->floor.known = false;
	p->floor.since_ms = 0;
	p->floor.unanswered = 0;
}

static void leave(struct provider *p)
{
	p->set_aside++;
	forget(p);
	wait_to_retry(p);
}

static void act(struct provider *p, enum health_do effect)
{
	switch (effect) {
	case DO_NOTHING:
		return;
	case DO_CONNECT:
		loop_of(p)->ops->socket_open(loop_of(p), &p->socket);
		return;
	case DO_CHECK:
		provider_check(p);
		return;
	case DO_QUARANTINE:
		p->closings = BACKOFF_DOUBLINGS;
		/* fall through */
	case DO_CLOSE_AND_WAIT:
		loop_of(p)->ops->socket_close(loop_of(p), &p->socket);
		/* fall through */
	case DO_WAIT:
		leave(p);
		return;
	case DO_READ_HEAD:
		provider_ask_head(p);
		return;
	}
}

void provider_event(struct provider *p, enum health_event ev)
{
	const struct health_rule *rule = &rules[p->health][ev];
	const char *why = ev == HEV_WRONG ? p->check.why.text : rule->why;

	if (rule->next != p->health) {
		log_line(ev == HEV_WRONG ? LOG_ODD : LOG_INFO, "endpoint=%u chain=%llu %s -> %s why=\"%s\"", p->index,
			 (unsigned long long)p->config->chain_id, names[p->health], names[rule->next], why);
		complain(&p->why, OK, "%s", why);
	}
	p->health = rule->next;
	act(p, rule->effect);
}

void provider_heard(struct provider *p)
{
	if (p->rpc.silences >= SILENCES_MAX)
		provider_event(p, HEV_SILENT);
}

void provider_judged(struct provider *p, bool held)
{
	p->lies = held ? 0 : p->lies + 1;
	p->answers_refused += !held;
	if (held)
		p->closings = 0;
	if (p->lies >= LIES_MAX)
		provider_event(p, HEV_LIED);
}

/* A subscription can die while its socket lives. */
static void judge_hearing(struct provider *p)
{
	if (!p->subscribed || !p->head.verified || p->head.height <= p->polled_height)
		return;
	p->polled_height = p->head.height;
	if (++p->unannounced < DEAF_POLLS)
		return;
	if (p->was_deaf) {
		log_odd("endpoint=%u announces no heads: they are only polled", p->index);
		p->subscribed = false;
		return;
	}
	p->was_deaf = true;
	provider_event(p, HEV_DEAF);
}

static void head_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct provider *p = call->ctx;

	p->head_fetch.asked = 0;
	if (outcome == RPC_CANCELED)
		return;
	if (outcome == RPC_RESULT) {
		p->owner.on_head(p->owner.ctx, p, reply->result);
		judge_hearing(p);
		return;
	}
	provider_heard(p);
	p->owner.changed(p->owner.ctx);
}

void provider_ask_head(struct provider *p)
{
	struct rpc_call call = { .method = "eth_getBlockByNumber", .done = head_done, .ctx = p };

	if (p->head_fetch.asked || provider_is_throttled(p))
		return;
	p->head_fetch.asked = 1;
	rpc_start(&p->rpc, &call, "[\"latest\",false]");
}

/* The socket. */

enum { ID_SUBSCRIBE = 1, ID_CHAIN };

static void on_open(struct loop_socket *socket)
{
	struct provider *p = socket->ctx;

	loop_of(p)->ops->socket_send(loop_of(p), socket,
		slice_of_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_subscribe\",\"params\":[\"newHeads\"]}"));
	if (p->config->check_endpoints)
		loop_of(p)->ops->socket_send(loop_of(p), socket,
			slice_of_text("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"eth_chainId\",\"params\":[]}"));
	provider_event(p, HEV_OPENED);
}

/* Its socket may lead to another node than its requests do. */
static void hear_chain(struct provider *p, const struct reply *reply)
{
	struct complaint why;
	uint64_t id;

	if (reply->kind != REPLY_RESULT || result_u64(reply->result, &id, &why) || id == p->config->chain_id)
		return;
	complain(&p->check.why, OK, "its socket serves chain %llu, want %llu", (unsigned long long)id,
		 (unsigned long long)p->config->chain_id);
	provider_event(p, HEV_WRONG);
	p->owner.changed(p->owner.ctx);
}

static void cut_secrets(const struct provider *p, char *text)
{
	secret_cut(p->at.ws, text);
	secret_cut(p->at.http, text);
}

static void on_reply(struct provider *p, struct reply *reply)
{
	if (reply->has_id && reply->id == ID_CHAIN) {
		hear_chain(p, reply);
		return;
	}
	if (reply->has_id && reply->id != ID_SUBSCRIBE)
		return;
	p->subscribed = reply->has_id && reply->kind == REPLY_RESULT;
	cut_secrets(p, reply->message);
	if (!p->subscribed)
		log_odd("endpoint=%u subscription refused: heads are only polled why=\"%s\"", p->index, reply->message);
}

static void on_message(struct loop_socket *socket, struct slice text)
{
	struct provider *p = socket->ctx;
	struct complaint why;
	struct reply reply;

	if (reply_decode(text, &reply, &why)) {
		cut_secrets(p, why.text);
		log_odd("endpoint=%u message refused why=\"%s\"", p->index, why.text);
		return;
	}
	if (reply.kind != REPLY_NOTICE) {
		on_reply(p, &reply);
		return;
	}
	p->unannounced = 0;
	p->was_deaf = false;
	/* Before it is known to be our chain it is not listened to; its head is read then. */
	if (p->health == HEALTH_LIVE || p->health == HEALTH_BEHIND)
		p->owner.on_head(p->owner.ctx, p, reply.result);
	if (p->head.verified)
		p->polled_height = p->head.height;
}

static void on_closed(struct loop_socket *socket)
{
	struct provider *p = socket->ctx;

	provider_event(p, HEV_CLOSED);
	p->owner.changed(p->owner.ctx);
}

static void on_retry(struct loop_timer *timer)
{
	provider_event(timer->ctx, HEV_RETRY);
}

void provider_start(struct provider *p, struct loop *loop, const struct endpoint_urls *at, unsigned index,
		    const struct chain_config *config, struct genesis *genesis, const struct provider_owner *owner)
{
	*p = (struct provider){
		.at = *at,
		.index = index,
		.owner = *owner,
		.config = config,
		.genesis = genesis,
		.why.text = "not connected yet",
		.rpc = { .loop = loop, .url = at->http, .timeout_ms = config->timeout_ms,
			 .batch_max = config->batch_max },
	};
	p->socket = (struct loop_socket){ .url = at->ws, .opened = on_open, .message = on_message,
					  .closed = on_closed, .ctx = p };
	p->retry = (struct loop_timer){ .fire = on_retry, .ctx = p };
	loop->ops->socket_open(loop, &p->socket);
}

void provider_stop(struct provider *p)
{
	loop_of(p)->ops->timer_cancel(loop_of(p), &p->retry);
	loop_of(p)->ops->socket_close(loop_of(p), &p->socket);
}
