/*
 * bodies - the blocks that are being fetched and verified, keyed by hash.
 *
 * A body is whole when its block, its receipts and the witnesses that are
 * wanted are in hand, each verified; who gave them does not matter.
 */
#ifndef LISTENER_BODIES_H
#define LISTENER_BODIES_H

#include "listener/gather.h"
#include "listener/rpc.h"

#define BODIES_MAX 64

struct body_witness {
	struct witness witness;
	unsigned readings;	/* complete ones */
	struct witness first;	/* what contradicted the logs, while it is read again */
	struct fetch before, after;
	bool have_before, have_after;
	bool gone;		/* each endpoint said so: the state is not to be had any more */
	int64_t since_ms;	/* the block waits for it; 0: not yet */
};

struct body_slot {
	bool used;
	struct hash32 hash;
	uint64_t last_used;
	bool has_block;
	struct block block;
	struct fetch block_fetch;
	bool has_receipts;		/* proven, or, if trusted, the node's word */
	bool trusted;
	bool has_logs;			/* the receipts hold nothing but the logs */
	bool want_receipts;		/* the logs will not do */
	struct receipts receipts;
	struct fetch receipts_fetch, logs_fetch;
	struct buf *singles;		/* of each transaction its receipt's JSON, where they come one by one */
	uint32_t singles_left;		/* of a round */
	unsigned singles_round;
	struct body_witness *witnesses;
	size_t witness_count;
};

struct bodies {
	struct body_slot slots[BODIES_MAX];
	uint64_t clock;		/* counts uses, for choosing the least recent */
};

void bodies_free(struct bodies *b);
struct body_slot *bodies_find(struct bodies *b, const struct hash32 *hash);
/* Find it, or make it in the place of the one that was not used for longest. */
struct body_slot *bodies_use(struct bodies *b, const struct hash32 *hash);
/* Give the slot's place up; its memory is kept for the next. */
void bodies_drop(struct body_slot *slot);
/* One buffer for each transaction of the slot's block, made empty. */
struct buf *bodies_singles(struct body_slot *slot);
void bodies_drop_singles(struct body_slot *slot);
struct body_witness *bodies_witness(struct body_slot *slot, const struct address *token,
				    const struct address *payee);
/* Add a witness that is wanted; the address stays good until the next is added. */
struct body_witness *bodies_want(struct body_slot *slot, const struct witness *w);
/* As it stands: one that is late has no balances but those of a first reading that contradicted. */
struct witness bodies_reading(const struct body_witness *bw);
/* It contradicts the logs: forget it but for the first reading, so that it is asked for once more. */
void bodies_read_again(struct body_witness *bw);

#endif
