#include "listener/rpc.h"

#include "common/log.h"
#include "common/scan.h"
#include "listener/secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RETRY_AFTER_MAX_S 600
#define CODE_GONE 4444
#define CODE_NO_METHOD (-32601)

/* Calls that went out in one post. */
struct sent {
	struct loop_post post;
	struct sent *next;		/* of those that wait */
	struct rpc *rpc;
	struct buf body;
	struct rpc_call *calls;		/* those not answered yet, in the order of their ids */
	bool batch;
	bool heard;			/* some of it was usable */
	int64_t since_ms;
};

static int64_t now_ms(const struct rpc *rpc)
{
	return rpc->loop->ops->steady_ms(rpc->loop);
}

/* Answers. */

static void end_call(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	call->done(call, outcome, reply);
	buf_free(&call->request);
	free(call);
}

static void end_calls(struct rpc_call *calls, enum rpc_outcome outcome, const struct reply *reply)
{
	while (calls) {
		struct rpc_call *call = calls;

		calls = call->next;
		end_call(call, outcome, reply);
	}
}

static enum rpc_outcome outcome_of(const struct reply *reply)
{
	static const enum rpc_outcome outcomes[] = {
		[REPLY_RESULT] = RPC_RESULT,
		[REPLY_NULL] = RPC_NULL,
		[REPLY_ERROR] = RPC_ERROR,
		[REPLY_NOTICE] = RPC_FAILED,
	};

	return outcomes[reply->kind];
}

static void take_reply(struct sent *s, struct rpc_call *call, const struct reply *reply)
{
	s->heard = true;
	s->rpc->silences = 0;
	if (reply->kind == REPLY_ERROR)
		complain(&s->rpc->why, OK, "%s", reply->message);
	end_call(call, outcome_of(reply), reply);
}

/* Its words without the URL's keys.  If it was they that told what the error means, its code tells it. */
static void cut_secrets(const struct rpc *rpc, struct reply *reply)
{
	bool gone = rpc_is_gone(reply), no_method = rpc_is_no_method(reply);

	secret_cut(rpc->url, reply->message);
	if (gone && !rpc_is_gone(reply))
		reply->code = CODE_GONE;
	else if (no_method && !rpc_is_no_method(reply))
		reply->code = CODE_NO_METHOD;
}

static enum err decode(const struct rpc *rpc, struct slice answer, struct reply *reply, struct complaint *why)
{
	enum err err = reply_decode(answer, reply, why);

	if (err)
		secret_cut(rpc->url, why->text);
	else if (reply->kind == REPLY_ERROR)
		cut_secrets(rpc, reply);
	return err;
}

static bool is_answer(const struct rpc_call *call, int status, struct slice answer, struct reply *reply)
{
	struct complaint why;
	bool nameless;

	if (decode(call->rpc, answer, reply, &why)) {
		log_odd("answer refused method=%s status=%d why=\"%s\"", call->method, status, why.text);
		return false;
	}
	/* An error may come without an id: the request could not be read. */
	nameless = reply->kind == REPLY_ERROR && !reply->has_id;
	if (reply->kind == REPLY_NOTICE || (!nameless && (!reply->has_id || reply->id != call->id))) {
		log_odd("answer refused method=%s why=\"it is another request's\"", call->method);
		return false;
	}
	return true;
}

static struct rpc_call *take_call(struct rpc_call **calls, uint64_t id)
{
	struct rpc_call *call;

	while (*calls && (*calls)->id != id)
		calls = &(*calls)->next;
	call = *calls;
	if (call)
		*calls = call->next;
	return call;
}

/* Each answer of the batch to its call, in whatever order; what is left over has none. */
static void deal_out(struct sent *s, struct slice answer)
{
	struct scan scan = scan_begin(answer);
	struct complaint why;
	struct rpc_call *call;
	struct reply reply;
	struct slice one;

	scan_array(&scan);
	while (scan_element(&scan) && scan_skip(&scan, &one)) {
		if (decode(s->rpc, one, &reply, &why) || !reply.has_id || reply.kind == REPLY_NOTICE)
			continue;
		call = take_call(&s->calls, reply.id);
		if (call)
			take_reply(s, call, &reply);
	}
	if (s->calls)
		log_odd("answers of a batch are missing method=%s", s->calls->method);
}

static void send_calls(struct rpc *rpc, struct rpc_call *calls, bool batch);

/* It asks for patience, whatever the answer was to be. */
static bool is_throttle(const struct sent *s, int status)
{
	return status == 429 || s->post.retry_after_s;
}

/* What a node says that takes no batches, or not so long ones: one error for all, or a status. */
static bool is_refusal(int status, struct slice answer)
{
	struct scan scan = scan_begin(answer);

	return scan_peek(&scan) == SCAN_OBJECT || status == 400 || status == 404 || status == 405 || status == 413 ||
	       status == 415 || status == 501;
}

static void ask_singly(struct rpc *rpc, struct rpc_call *calls)
{
	log_info("an endpoint takes no batches");
	rpc->batch_max = 1;
	while (calls) {
		struct rpc_call *call = calls;

		calls = call->next;
		call->next = NULL;
		send_calls(rpc, call, false);
	}
}

static void take_batch(struct sent *s, int status, struct slice answer)
{
	struct scan scan = scan_begin(answer);

	if (scan_peek(&scan) == SCAN_ARRAY) {
		deal_out(s, answer);
	} else if (!is_throttle(s, status) && is_refusal(status, answer)) {
		ask_singly(s->rpc, s->calls);
		s->calls = NULL;
	} else {
		log_odd("answer refused method=%s status=%d why=\"no answer to a batch\"", s->calls->method, status);
	}
}

static void take_single(struct sent *s, int status, struct slice answer)
{
	struct rpc_call *call = s->calls;
	struct reply reply;

	if (!is_answer(call, status, answer, &reply))
		return;
	s->calls = NULL;
	take_reply(s, call, &reply);
}

static const struct reply none = { .kind = REPLY_ERROR };
static const struct reply patience = { .kind = REPLY_ERROR, .code = 429, .message = "it asks to wait" };

/* Those that have no answer. */
static void end_left(struct sent *s, enum loop_end end, int status)
{
	if (!s->calls)
		return;
	if (end == LOOP_CANCELED) {
		end_calls(s->calls, RPC_CANCELED, &none);
	} else if (end == LOOP_ANSWERED && is_throttle(s, status)) {
		s->rpc->silences = 0;
		end_calls(s->calls, RPC_ERROR, &patience);
	} else {
		s->rpc->silences += !s->heard;
		end_calls(s->calls, RPC_FAILED, &none);
	}
}

/* What the post itself tells of the endpoint. */
static void learn(struct rpc *rpc, const struct sent *s)
{
	unsigned wait_s = s->post.retry_after_s < RETRY_AFTER_MAX_S ? s->post.retry_after_s : RETRY_AFTER_MAX_S;
	int64_t trip_ms = now_ms(rpc) - s->since_ms;

	rpc->trip_ms = rpc->trip_ms ? (7 * rpc->trip_ms + trip_ms) / 8 : trip_ms;
	if (!wait_s)
		return;
	log_info("an endpoint asks to wait s=%u", wait_s);
	rpc->not_before_ms = now_ms(rpc) + (int64_t)wait_s * 1000;
}

static void free_sent(struct sent *s)
{
	buf_free(&s->body);
	free(s);
}

static void begin(struct sent *s)
{
	s->since_ms = now_ms(s->rpc);
	s->rpc->posts++;
	s->rpc->loop->ops->post(s->rpc->loop, &s->post);
}

static void begin_or_wait(struct sent *s)
{
	struct rpc *rpc = s->rpc;

	if (!rpc->waiting && rpc->posts < RPC_POSTS_MAX) {
		begin(s);
		return;
	}
	if (rpc->waiting)
		rpc->waiting_last->next = s;
	else
		rpc->waiting = s;
	rpc->waiting_last = s;
}

static void end_waiting(struct rpc *rpc, enum rpc_outcome outcome, const struct reply *reply)
{
	struct sent *s = rpc->waiting;

	rpc->waiting = NULL;
	while (s) {
		struct sent *next = s->next;

		end_calls(s->calls, outcome, reply);
		free_sent(s);
		s = next;
	}
}

/* A post ended.  Those that wait are not sent to an endpoint that is gone, silent or asks for patience. */
static void go_on(struct rpc *rpc, enum loop_end end)
{
	if (end == LOOP_CANCELED)
		end_waiting(rpc, RPC_CANCELED, &none);
	else if (end == LOOP_TIMED_OUT || end == LOOP_UNREACHABLE)
		end_waiting(rpc, RPC_FAILED, &none);
	else if (rpc->not_before_ms > now_ms(rpc))
		end_waiting(rpc, RPC_ERROR, &patience);
	while (rpc->waiting && rpc->posts < RPC_POSTS_MAX) {
		struct sent *s = rpc->waiting;

		rpc->waiting = s->next;
		begin(s);
	}
}

static void note_failure(struct rpc *rpc, enum loop_end end, int status)
{
	static const char *const words[] = {
		[LOOP_UNREACHABLE] = "cannot be reached",
		[LOOP_TIMED_OUT] = "no answer in time",
		[LOOP_TOO_LARGE] = "an answer is too large",
	};

	if (end == LOOP_ANSWERED && status >= 300)
		complain(&rpc->why, OK, "HTTP status %d", status);
	else if (end != LOOP_ANSWERED && end != LOOP_CANCELED)
		complain(&rpc->why, OK, "%s", words[end]);
}

static void on_done(struct loop_post *post, enum loop_end end, int status, struct slice answer)
{
	struct sent *s = post->ctx;
	struct rpc *rpc = s->rpc;

	rpc->posts--;
	note_failure(rpc, end, status);
	if (end == LOOP_ANSWERED) {
		learn(s->rpc, s);
		if (s->batch)
			take_batch(s, status, answer);
		else
			take_single(s, status, answer);
	}
	end_left(s, end, status);
	free_sent(s);
	go_on(rpc, end);
}

/* Requests. */

static void send_calls(struct rpc *rpc, struct rpc_call *calls, bool batch)
{
	struct sent *s = xcalloc(1, sizeof(*s));

	s->rpc = rpc;
	s->calls = calls;
	s->batch = batch;
	if (batch)
		buf_put_u8(&s->body, '[');
	for (const struct rpc_call *call = calls; call; call = call->next) {
		if (call != calls)
			buf_put_u8(&s->body, ',');
		buf_put(&s->body, call->request.data, call->request.len);
	}
	if (batch)
		buf_put_u8(&s->body, ']');
	s->post = (struct loop_post){
		.url = rpc->url,
		.body = buf_slice(&s->body),
		.timeout_ms = rpc->timeout_ms,
		.done = on_done,
		.ctx = s,
	};
	begin_or_wait(s);
}

void rpc_start(struct rpc *rpc, const struct rpc_call *call, const char *params)
{
	struct rpc_call *c = xmalloc(sizeof(*c));

	*c = *call;
	c->rpc = rpc;
	c->id = ++rpc->last_id;
	c->request = (struct buf){ 0 };
	c->next = NULL;
	buf_printf(&c->request, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":%s}",
		   (unsigned long long)c->id, c->method, params);
	if (!rpc->holds || rpc->batch_max <= 1) {
		send_calls(rpc, c, false);
		return;
	}
	c->next = rpc->held;
	rpc->held = c;
}

void rpc_hold(struct rpc *rpc)
{
	rpc->holds++;
}

static struct rpc_call *turn_round(struct rpc_call *calls)
{
	struct rpc_call *turned = NULL;

	while (calls) {
		struct rpc_call *call = calls;

		calls = call->next;
		call->next = turned;
		turned = call;
	}
	return turned;
}

/* Cut the list after its first @most; what was behind them. */
static struct rpc_call *cut_after(struct rpc_call *calls, unsigned most)
{
	struct rpc_call *rest;

	while (--most && calls->next)
		calls = calls->next;
	rest = calls->next;
	calls->next = NULL;
	return rest;
}

void rpc_release(struct rpc *rpc)
{
	struct rpc_call *calls;

	if (--rpc->holds)
		return;
	calls = turn_round(rpc->held);
	rpc->held = NULL;
	while (calls) {
		struct rpc_call *rest = cut_after(calls, rpc->batch_max ? rpc->batch_max : 1);

		send_calls(rpc, calls, calls->next != NULL);
		calls = rest;
	}
}

/* What an error means, whatever its code. */

static bool mentions(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (; *text; text++) {
		if (strncasecmp(text, word, len) == 0)
			return true;
	}
	return false;
}

static bool mentions_any(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (mentions(text, *words))
			return true;
	}
	return false;
}

bool rpc_is_gone(const struct reply *reply)
{
	static const char *const words[] = { "missing trie node", "state not available", "pruned", "historical state", NULL };

	return reply->code == CODE_GONE || mentions_any(reply->message, words) ||
	       (mentions(reply->message, "state") && mentions(reply->message, "is not available"));
}

bool rpc_is_no_method(const struct reply *reply)
{
	/* A block may not exist either: the text must be about a method. */
	static const char *const methods[] = { "method", "eth_", NULL };
	static const char *const words[] = { "not found", "does not exist", "not supported", "unsupported",
					     "unknown", NULL };

	return reply->code == CODE_NO_METHOD || (reply->code <= -32000 && mentions_any(reply->message, methods) &&
					 mentions_any(reply->message, words));
}
