/*
 * reads_parts - what the parts of reads share; nobody else includes it.
 *
 *     reads.c         asking; heads, headers, blocks by number
 *     reads_bodies.c  receipts of a block
 *     reads_witness.c balances at a block and its parent
 *     reads_votes.c   what each endpoint says by itself: tags, the floor
 *     reads_tx.c      where a transaction is
 */
#ifndef LISTENER_READS_PARTS_H
#define LISTENER_READS_PARTS_H

#include "listener/reads.h"

#define RLOG_REFUSED(what, h, why_text) \
	do { \
		char hash_text[HASH_TEXT]; \
		log_odd("%s refused block=%s why=\"%s\"", what, hash_format(h, hash_text), why_text); \
	} while (0)

/* Steady. */
int64_t reads_now_ms(const struct reads *r);
/* Bring the asker here again then. */
void reads_wake_at(struct reads *r, int64_t at_ms);

/* The tracker's chain has it at @height. */
bool reads_is_ours(const struct reads *r, uint64_t height, const struct hash32 *hash);

/* What an endpoint must be able to answer. */
enum need { NEED_ANY, NEED_BLOCK_RECEIPTS };

/* It is not under way, or is so slow that it may be asked once more; else a timer brings the asker here again. */
bool reads_may_ask(struct reads *r, struct fetch *f);
/* The same for a question to @p alone, which may have asked to be left alone. */
bool reads_may_ask_of(struct reads *r, const struct provider *p, struct fetch *f);
/* The leader first; after a failure, or beside a call that is slow, the next one that is willing; NULL: none. */
struct provider *reads_choose(struct reads *r, const struct fetch *f, enum need need);
void reads_ask(struct reads *r, struct fetch *f, enum need need, struct rpc_call call, const char *params);
void reads_ask_of(struct reads *r, struct provider *p, struct fetch *f, struct rpc_call call, const char *params);
/* A call of @turn ended; a late one changes nothing. */
void reads_ended(struct reads *r, struct fetch *f, unsigned turn, bool good);
/* The endpoint @who says that what was asked is gone for good; true if each that is live has said so. */
bool reads_gone(const struct reads *r, struct fetch *f, unsigned who);
/* What is asked in between goes out in batches. */
void reads_hold(struct reads *r);
void reads_release(struct reads *r);

/* What an answer says of the endpoint: it answered or did not, and if it was a result, that held or did not. */
void reads_heard(struct reads *r, unsigned who, enum rpc_outcome outcome, bool held);
/* The one that leads stays as long as it is live. */
void reads_choose_leader(struct reads *r);
/* The outcome as a line, for the log of what failed. */
const char *reads_describe(enum rpc_outcome outcome, const struct reply *reply);

/* Decode and verify into r->notice; what verifies is learnt.  @asked may be NULL. */
bool reads_take_block(struct reads *r, struct slice json, const char *what, const struct hash32 *asked);
/* What was taken last is of the height that was asked for; else it is refused. */
bool reads_is_at(struct reads *r, uint64_t height);
/* What was taken last is put into its body, if it came with its transactions. */
void reads_keep_block(struct reads *r);

#endif
