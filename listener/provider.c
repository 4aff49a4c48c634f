#include "listener/provider.h"

#include "common/log.h"

#include <string.h>

#define TIMEOUT_MS 10000
#define SILENCES_MAX 3		/* in a row, before it is set aside */
#define LIES_MAX 6
#define BACKOFF_DOUBLINGS 6

enum health_do {
	DO_NOTHING,
	DO_CONNECT,
	DO_CLOSE_AND_WAIT,
	DO_WAIT,
	DO_READ_HEAD,
};

struct health_rule {
	enum health next;
	enum health_do effect;
	const char *why;
};

static const struct health_rule rules[HEALTHS][HEALTH_EVENTS] = {
	[HEALTH_CONNECTING] = {
		[HEV_OPENED] = { HEALTH_LIVE, DO_READ_HEAD, "connected and subscribed" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "cannot be reached" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_LAGS] = { HEALTH_CONNECTING, DO_NOTHING, "not judged before it is open" },
		[HEV_CAUGHT_UP] = { HEALTH_CONNECTING, DO_NOTHING, "not judged before it is open" },
		[HEV_RETRY] = { HEALTH_CONNECTING, DO_NOTHING, "is being tried" },
	},
	[HEALTH_LIVE] = {
		[HEV_OPENED] = { HEALTH_LIVE, DO_READ_HEAD, "opened again" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "closed the socket" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_LAGS] = { HEALTH_BEHIND, DO_NOTHING, "its head is old" },
		[HEV_CAUGHT_UP] = { HEALTH_LIVE, DO_NOTHING, "is at the head" },
		[HEV_RETRY] = { HEALTH_LIVE, DO_NOTHING, "needs no retry" },
	},
	[HEALTH_BEHIND] = {
		[HEV_OPENED] = { HEALTH_LIVE, DO_READ_HEAD, "opened again" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_WAIT, "closed the socket" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "does not answer" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_CLOSE_AND_WAIT, "answers do not hold" },
		[HEV_LAGS] = { HEALTH_BEHIND, DO_NOTHING, "its head is old" },
		[HEV_CAUGHT_UP] = { HEALTH_LIVE, DO_NOTHING, "is at the head again" },
		[HEV_RETRY] = { HEALTH_BEHIND, DO_NOTHING, "needs no retry" },
	},
	[HEALTH_BACKOFF] = {
		[HEV_OPENED] = { HEALTH_LIVE, DO_READ_HEAD, "opened" },
		[HEV_CLOSED] = { HEALTH_BACKOFF, DO_NOTHING, "is closed" },
		[HEV_SILENT] = { HEALTH_BACKOFF, DO_NOTHING, "a late failure" },
		[HEV_LIED] = { HEALTH_BACKOFF, DO_NOTHING, "a late lie" },
		[HEV_LAGS] = { HEALTH_BACKOFF, DO_NOTHING, "not judged while it is set aside" },
		[HEV_CAUGHT_UP] = { HEALTH_BACKOFF, DO_NOTHING, "not judged while it is set aside" },
		[HEV_RETRY] = { HEALTH_CONNECTING, DO_CONNECT, "is tried again" },
	},
};

static const char *const names[HEALTHS] = {
	[HEALTH_CONNECTING] = "connecting",
	[HEALTH_LIVE] = "live",
	[HEALTH_BEHIND] = "behind",
	[HEALTH_BACKOFF] = "backing off",
};

static const char *const event_names[HEALTH_EVENTS] = {
	[HEV_OPENED] = "opened",
	[HEV_CLOSED] = "closed",
	[HEV_SILENT] = "silent",
	[HEV_LIED] = "lied",
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

static void wait_to_retry(struct provider *p)
{
	unsigned doublings = p->closings < BACKOFF_DOUBLINGS ? p->closings : BACKOFF_DOUBLINGS;
	int64_t wait_ms = p->config->retry_ms << doublings;

	p->closings++;
	wait_ms += (int64_t)(loop_of(p)->ops->random(loop_of(p)) % (uint64_t)(wait_ms / 2 + 1));
	loop_of(p)->ops->timer_set(loop_of(p), &p->retry, loop_of(p)->ops->now_ms(loop_of(p)) + wait_ms);
}

/* What it said last is not known to be what it says when it is back. */
static void forget(struct provider *p)
{
	p->silences = p->lies = 0;
	for (unsigned tag = 0; tag < TAGS; tag++)
		p->tags[tag].known = p->tags[tag].doubted = false;
	p->floor.round = 0;
}

static void act(struct provider *p, enum health_do effect)
{
	switch (effect) {
	case DO_NOTHING:
		return;
	case DO_CONNECT:
		loop_of(p)->ops->socket_open(loop_of(p), &p->socket);
		return;
	case DO_CLOSE_AND_WAIT:
		loop_of(p)->ops->socket_close(loop_of(p), &p->socket);
		/* fall through */
	case DO_WAIT:
		forget(p);
		wait_to_retry(p);
		return;
	case DO_READ_HEAD:
		provider_ask_head(p);
		return;
	}
}

void provider_event(struct provider *p, enum health_event ev)
{
	const struct health_rule *rule = &rules[p->health][ev];

	if (rule->next != p->health)
		log_info("endpoint=%u %s -> %s why=\"%s\"", p->index, names[p->health],
			 names[rule->next], rule->why);
	p->health = rule->next;
	act(p, rule->effect);
}

void provider_heard(struct provider *p, bool answered, bool held)
{
	p->silences = answered ? 0 : p->silences + 1;
	p->lies = held || !answered ? (held ? 0 : p->lies) : p->lies + 1;
	if (held)
		p->closings = 0;
	if (p->silences >= SILENCES_MAX)
		provider_event(p, HEV_SILENT);
	else if (p->lies >= LIES_MAX)
		provider_event(p, HEV_LIED);
}

static void head_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct provider *p = call->ctx;

	p->head_fetch.asked = false;
	if (outcome == RPC_CANCELED)
		return;
	if (outcome == RPC_RESULT) {
		p->owner.on_head(p->owner.ctx, p, reply->result);
		return;
	}
	provider_heard(p, outcome != RPC_FAILED, outcome != RPC_FAILED);
	p->owner.changed(p->owner.ctx);
}

void provider_ask_head(struct provider *p)
{
	struct rpc_call call = { .method = "eth_getBlockByNumber", .done = head_done, .ctx = p };

	if (p->head_fetch.asked)
		return;
	p->head_fetch.asked = true;
	rpc_start(&p->rpc, &call, "[\"latest\",false]");
}

static void on_open(struct loop_socket *socket)
{
	struct provider *p = socket->ctx;

	loop_of(p)->ops->socket_send(loop_of(p), socket,
		slice_of_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_subscribe\",\"params\":[\"newHeads\"]}"));
	provider_event(p, HEV_OPENED);
}

static void on_message(struct loop_socket *socket, struct slice text)
{
	struct provider *p = socket->ctx;
	struct complaint why;
	struct reply reply;

	if (reply_decode(text, &reply, &why) == OK && reply.kind == REPLY_NOTICE)
		p->owner.on_head(p->owner.ctx, p, reply.result);
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

void provider_start(struct provider *p, struct loop *loop, const char *url, unsigned index,
		    const struct chain_config *config, const struct provider_owner *owner)
{
	*p = (struct provider){
		.url = url,
		.index = index,
		.owner = *owner,
		.config = config,
		.rpc = { .loop = loop, .url = url, .timeout_ms = TIMEOUT_MS },
	};
	p->socket = (struct loop_socket){ .url = url, .opened = on_open, .message = on_message,
					  .closed = on_closed, .ctx = p };
	p->retry = (struct loop_timer){ .fire = on_retry, .ctx = p };
	loop->ops->socket_open(loop, &p->socket);
}

void provider_stop(struct provider *p)
{
	loop_of(p)->ops->timer_cancel(loop_of(p), &p->retry);
	loop_of(p)->ops->socket_close(loop_of(p), &p->socket);
}
