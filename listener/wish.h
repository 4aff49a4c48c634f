/*
 * wish - what people and programs ask of an intent, as JSON: a new one, an attempt, a move.
 *
 * Tapes and the local interface write the same.  What is wrong is complained about at its path in the
 * document (json.h), and what was read is then not to be used.
 */
#ifndef LISTENER_WISH_H
#define LISTENER_WISH_H

#include "common/intent.h"
#include "common/json.h"
#include "store/schema.h"

/* The frozen fields; the others are left as they are. */
void wish_read_intent(struct json j, struct intent *out);

/*
 * An attempt or a move of the intent that the member "intent" names, copied to @intent; where it is named elsewhere @intent
 * is NULL, and the member unknown.
 */
void wish_read_attempt(struct json j, char intent[INTENT_ID_MAX], struct attempt_row *out);
/* Without a version the request stands for the current one.  The actor may be the listener: refusing it is the caller's. */
void wish_read_move(struct json j, char intent[INTENT_ID_MAX], struct move_request *out, bool *has_version);

#endif
