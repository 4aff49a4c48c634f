/*
 * api - the local interface: what is asked over HTTP, as JSON.
 *
 *     POST /v1/intents                     a new intent, as a tape has it (wish.h)
 *     GET  /v1/intents?state=&limit=&after=    a page of them; "next", a text, is what after takes, null at the end
 *     GET  /v1/intents/ID                  one, with its attempts and its history
 *     POST /v1/intents/ID/attempts         a transaction that may pay it
 *     POST /v1/intents/ID/moves            a move
 *     GET  /v1/status   /v1/chains   /v1/chains/ID
 *     POST /v1/chains/ID/accept   /v1/chains/ID/accept-unproven
 *     GET  /healthz   /readyz              200, or 503 with the reasons
 *
 * Requests of one turn of the loop are gathered, written in one commit, and answered only then (group commit);
 * what only reads sees the store after it.  A refused request writes nothing and undoes nobody's.
 * Without a daemon the command line asks the same functions, over the store that it opened itself.
 */
#ifndef LISTENER_API_H
#define LISTENER_API_H

#include "listener/loop_real.h"
#include "listener/settings.h"
#include "listener/tracker.h"

#define API_LIST_DEFAULT 100		/* intents of a page */
#define API_LIST_MAX 1000
#define API_COUNT_MAX 10000		/* a state's count in the status stops here: it stands for as many or more */

struct api_chain {
	const struct chain_config *config;
	struct tracker *tracker;	/* NULL: nobody follows it now */
};

struct api {
	struct kv *kv;
	const char *store;		/* its folder, for the status; borrowed */
	struct api_chain chains[CHAINS_MAX];
	unsigned chain_count;
	int64_t (*now_ms)(void *ctx);
	/* Inside each write transaction, last; after it was committed; trackers are told by the api itself.  May be NULL. */
	void (*committing)(void *ctx, struct kv_txn *t);
	void (*committed)(void *ctx);
	/* What is wrong beside the chains, for health; NULL: nothing.  May be NULL. */
	const char *(*trouble)(void *ctx);
	void *ctx;
	enum err last_write;		/* of the store; the next one that succeeds clears it */
	struct api_gathered *gathered;	/* the api's own */
	size_t gathered_count, gathered_cap;
};

/* A request came: it is answered by api_turn(). */
void api_asked(struct api *api, struct loop_request *request);
/* The turn is over: commit what was gathered, then answer.  A store that fails answers 500; the error is in the log. */
void api_turn(struct api *api);
/* What was gathered is forgotten. */
void api_free(struct api *api);

/* Ask and answer at once; the HTTP status; the answer, JSON, is appended to *@answer. */
int api_ask(struct api *api, const char *method, const char *path, const char *query, struct slice body,
	    struct buf *answer);

#endif
