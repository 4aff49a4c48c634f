/*
 * api_parts - what the files of the local interface share: one request on its way to its answer.
 */
#ifndef LISTENER_API_PARTS_H
#define LISTENER_API_PARTS_H

#include "common/json.h"
#include "listener/api.h"

#define API_NAME_MAX 200

/*
 * A route's function judges and answers it, by setting status and answer, inside the transaction @t: one that writes if the
 * route does.  In a write it may run again, and then begins afresh.
 */
struct api_call {
	struct api *api;
	struct kv_txn *t;
	char name[API_NAME_MAX];	/* the ID in the path, decoded */
	const char *query;
	struct slice body;
	int status;
	struct buf answer;		/* JSON */
	const struct api_chain *touched;	/* to be looked at after the commit; NULL: none */
	enum err refused;		/* why; OK: it was not */
	bool conflict;			/* another transaction than the recorded one was named */
};

/* Answer with the error, whose status follows from its code. */
void api_refuse(struct api_call *c, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* With another status than that. */
void api_refuse_as(struct api_call *c, int status, enum err code, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Read the body; false, and refused, if it is none or @read complained. */
bool api_read_body(struct api_call *c, void (*read)(struct json j, void *out), void *out);

/* NULL: not configured. */
const struct api_chain *api_find_chain(const struct api *api, uint64_t chain_id);

/* Undo percent signs; false for a bad one, a NUL, or what does not fit. */
bool api_decode(struct slice text, char *out, size_t size);

/* The routes' functions. */
void api_create_intent(struct api_call *c);
void api_list_intents(struct api_call *c);
void api_show_intent(struct api_call *c);
void api_add_attempt(struct api_call *c);
void api_move_intent(struct api_call *c);
void api_status(struct api_call *c);
void api_list_chains(struct api_call *c);
void api_show_chain(struct api_call *c);
void api_accept(struct api_call *c);
void api_accept_unproven(struct api_call *c);
void api_health(struct api_call *c);
void api_ready(struct api_call *c);

#endif
