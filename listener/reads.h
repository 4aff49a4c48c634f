/*
 * reads - what we ask of a node and what we learnt: a cache keyed by hash.
 *
 *     reads_* -> rpc_start -> done: decode, verify, put into the cache -> changed()
 *
 * A question that is answered already is answered from the cache; one that is not
 * is asked, once at a time, and again later if the answer is missing or does not
 * hold.  No callback decides anything: whoever wants something asks
 * again after changed().  It does not matter which answer it was, or how late.
 */
#ifndef LISTENER_READS_H
#define LISTENER_READS_H

#include "listener/bodies.h"
#include "listener/fork.h"
#include "listener/rpc.h"

#define NUMBERED_MAX 32

/* A head as announced; what is more than its hash is known once its header verified. */
struct head {
	bool known;
	struct hash32 hash;
	bool verified;
	uint64_t height;
	int64_t time_s;
};

/* Which block a node says stands at a height. */
struct numbered {
	bool used;
	uint64_t height;
	uint64_t round;			/* the asker's; another round asks anew */
	bool known;
	struct hash32 hash;
	struct fetch fetch;
};

/* Where a node says a transaction is. */
struct tx_place {
	bool used;
	struct hash32 tx_hash;
	bool answered;
	bool mined;
	uint64_t height;
	struct hash32 block_hash;
	struct fetch fetch;
};

struct tag_reading {
	bool wanted;
	bool known;
	struct hash32 hash;
	struct fetch fetch;
};

struct reads {
	struct rpc rpc;
	const struct chain_config *config;
	void (*changed)(void *ctx);
	void *ctx;
	struct loop_timer retry;
	struct links links;
	struct bodies bodies;
	struct head head;		/* the newest that was announced or read */
	struct fetch head_fetch;
	struct numbered numbered[NUMBERED_MAX];
	struct tag_reading tags[TAGS];
	struct tx_place tx;
	struct buf scratch;		/* of verify */
	struct block notice;		/* of a head's notification */
	uint64_t refused;		/* answers that did not hold */
};

void reads_init(struct reads *r, struct loop *loop, const char *url, const struct chain_config *config,
		void (*changed)(void *ctx), void *ctx);
/* All its calls must have ended. */
void reads_free(struct reads *r);

/* A notification carried this header. */
void reads_on_head(struct reads *r, struct slice json);
/* Ask for the latest block; r->head tells when it is there. */
void reads_ask_head(struct reads *r);

/* Ask for the header of @hash; the links have it when it is there. */
void reads_ask_header(struct reads *r, const struct hash32 *hash);

/* The node's block at @height as read in this @round; false: not known yet, and asked. */
bool reads_number(struct reads *r, uint64_t height, uint64_t round, struct hash32 *out);

/* The verified block with its receipts; NULL: not in hand yet, and asked. */
struct body_slot *reads_body(struct reads *r, const struct hash32 *hash);

/* True when each witness was read or is not to be had; else they are asked. */
bool reads_witnesses(struct reads *r, struct body_slot *slot);
/* Read the balance once more: it does not fit the logs. */
void reads_witness_again(struct reads *r, struct body_slot *slot, struct body_witness *w);

/* Read the tags that the policy uses again. */
void reads_refresh_tags(struct reads *r);
/* Ask what is still wanted; true if every wanted tag was answered. */
bool reads_tags(struct reads *r);

/* Where the node says @tx_hash is; false: not known yet, and asked. */
bool reads_tx(struct reads *r, const struct hash32 *tx_hash, struct tx_place *out);

#endif
