/*
 * rpc - JSON-RPC 2.0 calls over HTTP POST, each answered exactly once.
 *
 * An answer is matched by its id; a body that is no message, or another's, is a failure of that
 * call, not of the process.
 */
#ifndef LISTENER_RPC_H
#define LISTENER_RPC_H

#include "listener/codec.h"
#include "listener/loop.h"

struct rpc {
	struct loop *loop;
	const char *url;
	unsigned timeout_ms;
	uint64_t last_id;
};

enum rpc_outcome {
	RPC_RESULT,
	RPC_NULL,		/* the node does not know; never "none" */
	RPC_ERROR,		/* reply.code and reply.message say */
	RPC_FAILED,		/* no usable answer */
	RPC_CANCELED,
};

struct rpc_call;
/* The reply's slices are borrowed for the call.  @call is freed afterwards. */
typedef void rpc_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply);

/* What the caller wants to find again in done; zeroed but for what it sets. */
struct rpc_call {
	struct rpc *rpc;
	const char *method;
	rpc_done *done;
	void *ctx;
	struct hash32 hash;
	uint64_t number;
	unsigned kind;
	struct address token, account;
	unsigned who;

	uint64_t id;			/* rpc's own from here on */
	struct buf body;
	struct loop_post post;
};

/* Start a call of @method; @params is the JSON array.  *@call is copied. */
void rpc_start(struct rpc *rpc, const struct rpc_call *call, const char *params);

/* One question, asked once at a time. */
struct fetch {
	bool asked;			/* a call is under way */
	unsigned failures;		/* one after another */
	int64_t next_ms;		/* not asked again before */
	unsigned who;			/* the endpoint asked last */
};

/* True if the error says that the state or the history is gone for good, not for the moment. */
bool rpc_is_gone(const struct reply *reply);

#endif
