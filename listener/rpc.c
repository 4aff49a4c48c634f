#include "listener/rpc.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum rpc_outcome judge(const struct rpc_call *call, enum loop_end end, int status,
			      struct slice answer, struct reply *reply)
{
	static const enum rpc_outcome outcomes[] = {
		[REPLY_RESULT] = RPC_RESULT,
		[REPLY_NULL] = RPC_NULL,
		[REPLY_ERROR] = RPC_ERROR,
		[REPLY_NOTICE] = RPC_FAILED,
	};
	struct complaint why;

	if (end == LOOP_CANCELED)
		return RPC_CANCELED;
	if (end != LOOP_ANSWERED)
		return RPC_FAILED;
	if (reply_decode(answer, reply, &why)) {
		log_odd("answer refused method=%s status=%d why=\"%s\"", call->method, status, why.text);
		return RPC_FAILED;
	}
	if (reply->kind != REPLY_ERROR && (!reply->has_id || reply->id != call->id)) {
		log_odd("answer refused method=%s why=\"it is another request's\"", call->method);
		return RPC_FAILED;
	}
	return outcomes[reply->kind];
}

static void on_done(struct loop_post *post, enum loop_end end, int status, struct slice answer)
{
	struct rpc_call *call = post->ctx;
	struct reply reply = { .kind = REPLY_ERROR };
	enum rpc_outcome outcome = judge(call, end, status, answer, &reply);

	call->done(call, outcome, &reply);
	buf_free(&call->body);
	free(call);
}

void rpc_start(struct rpc *rpc, const struct rpc_call *call, const char *params)
{
	struct rpc_call *c = xmalloc(sizeof(*c));

	*c = *call;
	c->rpc = rpc;
	c->id = ++rpc->last_id;
	c->body = (struct buf){ 0 };
	buf_printf(&c->body, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":%s}",
		   (unsigned long long)c->id, c->method, params);
	c->post = (struct loop_post){
		.url = rpc->url,
		.body = buf_slice(&c->body),
		.timeout_ms = rpc->timeout_ms,
		.done = on_done,
		.ctx = c,
	};
	rpc->loop->ops->post(rpc->loop, &c->post);
}

static bool mentions(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (; *text; text++) {
		if (strncasecmp(text, word, len) == 0)
			return true;
	}
	return false;
}

bool rpc_is_gone(const struct reply *reply)
{
	static const char *const words[] = { "missing trie node", "state not available", "is not available",
					     "pruned", "historical state" };

	if (reply->code == 4444)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (mentions(reply->message, words[i]))
			return true;
	}
	return false;
}
