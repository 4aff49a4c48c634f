/*
 * rpc - JSON-RPC 2.0 calls over HTTP POST, each answered exactly once.
 *
 * An answer is matched by its id; a body that is no message, or another's, is a failure of that
 * call, not of the process.  Calls started between rpc_hold() and rpc_release() go out
 * together, as batches, oldest first, where the endpoint takes them; one that refuses a batch is asked singly from
 * then on.  An answer that only asks for patience (429, Retry-After) is an error of each call.
 *
 * Not more than RPC_POSTS_MAX posts are under way at a time, since each has a connection of its own; others wait for one to
 * end, in their order.
 */
#ifndef LISTENER_RPC_H
#define LISTENER_RPC_H

#include "listener/codec.h"
#include "listener/loop.h"

#define RPC_POSTS_MAX 16

struct sent;
struct rpc {
	struct loop *loop;
	const char *url;
	unsigned timeout_ms;
	unsigned batch_max;		/* calls in one post; 1: it takes no batches */
	uint64_t last_id;
	struct complaint why;		/* the last failure, in words; empty: none yet */
	int64_t trip_ms;		/* a round trip, smoothed as RFC 6298 does; 0: none yet */
	int64_t not_before_ms;		/* it asked to be left alone until then (Retry-After, RFC 9110); steady, as the others */
	unsigned silences;		/* posts in a row that brought no usable answer */
	unsigned holds;
	struct rpc_call *held;		/* newest first */
	unsigned posts;			/* under way */
	struct sent *waiting, *waiting_last;
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
	unsigned turn;			/* of its fetch */

	uint64_t id;			/* rpc's own from here on */
	struct buf request;
	struct rpc_call *next;
};

/* Start a call of @method; @params is the JSON array.  *@call is copied. */
void rpc_start(struct rpc *rpc, const struct rpc_call *call, const char *params);

/* May be nested; what is held goes out with the last release. */
void rpc_hold(struct rpc *rpc);
void rpc_release(struct rpc *rpc);

/* One question, asked once at a time, and once more if the answer is slow; with a good answer its turn is over. */
struct fetch {
	unsigned turn;			/* a call of another one is late */
	unsigned asked;			/* calls under way */
	int64_t again_ms;		/* a second call may be made from then on; 0: never */
	unsigned failures;		/* one after another */
	unsigned gone;			/* the endpoints that say that it is gone for good, a bit each */
	int64_t next_ms;		/* not asked again before */
	unsigned who;			/* the endpoint asked last */
};

/* True if the error says that the state or the history is gone for good, not for the moment. */
bool rpc_is_gone(const struct reply *reply);
/* True if it says that the endpoint has no such method; clients differ in the code (EIP-1474: -32601). */
bool rpc_is_no_method(const struct reply *reply);

#endif
