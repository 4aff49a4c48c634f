/*
 * story_tell - what happens to each payment, in sentences.
 */
#ifndef LISTENER_STORY_TELL_H
#define LISTENER_STORY_TELL_H

#include "listener/config.h"
#include "listener/story_event.h"
#include "listener/story_page.h"

#define REVERSED "reversed"	/* settled, and its block was lost all the same */

/* A payment as the story knows it. */
struct payment {
	char id[INTENT_ID_MAX];
	char state[16];			/* as the event has it, or REVERSED */
	char code[REASON_CODE_MAX];	/* of its last move, or of what was last seen; empty: none */
	struct address token;
	struct u256 amount;
	struct block_ref block;		/* that holds it; not known: none does */
	struct block_ref lost;		/* that held it */

	/* what people and programs did since the last line was told */
	bool opened;
	struct story_event last;
	struct buf path;		/* "created → authorized" */
	struct buf sent;		/* "tx 0x1234..abcd" */
};

struct teller {
	struct page page;
	struct chain_config config;
	struct payment *payments;
	size_t count;
	bool pending;			/* some payment has a path or a tx that is not told */
	unsigned explained;		/* what was said once and need not be said again */
};

void teller_free(struct teller *t);

/* What this is about, once the tape's first line is known. */
void teller_intro(struct teller *t);

/* Moves by people and programs are gathered, and told in one go. */
bool teller_gathers(const struct story_event *e);
void teller_gather(struct teller *t, const struct story_event *e);
void teller_gather_attempt(struct teller *t, const char *id, const struct hash32 *tx);
void teller_flush(struct teller *t);

/* What the listener did or saw. */
void teller_event(struct teller *t, const struct story_event *e);

/* Settled is good, what needs a person is a warning. */
enum tone tone_of_state(const char *state);

/* The table of all payments, and the last word. */
void teller_end(struct teller *t, bool finished);

#endif
