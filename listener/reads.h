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
#include "listener/provider.h"

#define NUMBERED_MAX 128

/* Which block a node says stands at a height. */
struct numbered {
	bool used;
	uint64_t height;
	uint64_t round;			/* the asker's; another round asks anew */
	bool known;
	struct hash32 hash;
	struct fetch fetch;
};

/* Where a transaction is, by the word of an endpoint. */
struct tx_place {
	struct hash32 tx_hash;
	bool mined;
	uint64_t height;
	struct hash32 block_hash;
};

/* What one endpoint says of a transaction. */
enum tx_said {
	TX_SAID_NOTHING,		/* yet */
	TX_SAID_PLACE,
	TX_SAID_NULL,			/* in no block up to the tip */
	TX_SAID_GONE,			/* it keeps no history so old */
	TX_SAID_NO_GOOD,		/* it failed time and again, or its place did not hold */
};
struct tx_reading {
	enum tx_said said;
	struct tx_place place;
	struct fetch fetch;
};

/* The transaction that is asked about. */
struct tx_question {
	bool used;
	struct hash32 tx_hash;
	uint64_t tip_height;
	unsigned told;			/* whose place was told last */
	struct tx_reading readings[PROVIDERS_MAX];
};

/* A balance whose block was applied without it. */
struct late_balance {
	struct hash32 hash, parent;	/* of the block */
	struct body_witness bw;
};
#define LATE_MAX 64

struct reads {
	struct loop *loop;
	struct provider providers[PROVIDERS_MAX];
	unsigned provider_count;
	unsigned leader;		/* whose head we follow */
	const struct chain_config *config;
	const struct window *ours;	/* borrowed, the tracker's; NULL: none */
	struct genesis genesis;		/* told by the store or the configuration, else by the first that is checked */
	int64_t head_read_ms;		/* when an endpoint last answered with a head; steady */
	bool trusted;			/* an operator takes the node's word for the receipts of this block */
	struct hash32 trusted_hash;
	void (*changed)(void *ctx);
	void *ctx;
	struct loop_timer retry;
	struct links links;
	struct bodies bodies;
	struct numbered numbered[NUMBERED_MAX];
	struct tx_question tx;
	struct late_balance late[LATE_MAX];
	size_t late_count;
	struct buf scratch;		/* of verify */
	struct block notice;		/* of a head's notification */
	unsigned rounds;		/* of single receipts, counted */
	uint64_t refused;		/* answers that did not hold */
};

/* Connect to the endpoints; their texts are borrowed.  @r stays where it is until reads_stop(). */
void reads_start(struct reads *r, struct loop *loop, const struct endpoint_urls *endpoints, unsigned count,
		 const struct chain_config *config, struct genesis genesis, void (*changed)(void *ctx), void *ctx);
/* All its calls must have ended. */
void reads_stop(struct reads *r);

/* The leader's head: the candidate that we follow. */
const struct head *reads_head(const struct reads *r);
/* A poll: ask every endpoint for its head, judge who is behind. */
void reads_poll(struct reads *r);
/* Live endpoints, and how many must agree on a tag. */
unsigned reads_live(const struct reads *r);
unsigned reads_agree(const struct reads *r);

/* Ask for the header of @hash; the links have it when it is there. */
void reads_ask_header(struct reads *r, const struct hash32 *hash);

/* Nobody had it when it was asked for several times in a row. */
bool reads_lacks_header(struct reads *r, const struct hash32 *hash);

/*
 * The leader's head stands on @missing, or, far above our tip, on a block of @height, and nobody has it though each that is
 * live was asked, after some back-off too; and another live endpoint has a head to follow (for a height: at our tip).  Then
 * the leader is set aside, and its heads count for nothing until one links to a block of ours.  True if another leads now.
 */
bool reads_distrust_head(struct reads *r, const struct hash32 *missing);
bool reads_distrust_far_head(struct reads *r, uint64_t height);

/* The node's block at @height as read in this @round; false: not known yet, and asked. */
bool reads_number(struct reads *r, uint64_t height, uint64_t round, struct hash32 *out);

/*
 * The verified block with its receipts, or, where no endpoint gives all receipts of a block at once, with its logs;
 * NULL: not in hand yet, and asked.
 */
struct body_slot *reads_body(struct reads *r, const struct hash32 *hash);
/* Its logs will not do: each receipt is fetched; reads_body() gives NULL until all are there. */
void reads_want_receipts(struct body_slot *slot);

/*
 * True when each witness was read, is not to be had, or is late: it failed twice, or the block has waited for
 * balance_wait_ms.  Else they are asked.
 */
bool reads_witnesses(struct reads *r, struct body_slot *slot);
/* Read the balance once more: it does not fit the logs. */
void reads_witness_again(struct reads *r, struct body_slot *slot, struct body_witness *w);

/*
 * The late balances that are wanted by now, at most LATE_MAX of them: r->late is these, in their order; one that
 * was there before stays as it is.  Then ask for what is missing of them, with back-off.
 */
void reads_late_keep(struct reads *r, const struct late_balance *wanted, size_t count);
void reads_late_ask(struct reads *r);

/* Ask what is still wanted; true if every wanted tag was answered. */
bool reads_tags(struct reads *r);

/*
 * What the live endpoints say stands at @height, read in this @round: each is asked.  One that did not answer in the three
 * rounds before, nor within timeout_ms, while another did, is set aside as silent.  False: not all answered yet.
 */
struct floor_vote {
	unsigned ours, others;
	struct hash32 other;		/* one that is not ours */
};
bool reads_floor(struct reads *r, uint64_t height, const struct hash32 *ours, uint64_t round,
		 struct floor_vote *out);
/* Set aside those that say another; the leader may change. */
void reads_set_aside(struct reads *r, const struct hash32 *ours);

/*
 * Where @tx_hash is, for one whose tip was at @tip_height when it asked first.  The live endpoints are asked in turn, the
 * leader first, until one names a place up to that tip: each when its head has reached the tip, so that its null can only
 * mean a block above it, which will be seen when it comes.  An endpoint that is slow, fails or waits holds up no other.
 *
 * One null is not "none", since a node may keep no index of old transactions: none is what EVERY endpoint of the
 * chain said.  Where some are not live, or cannot tell, nothing is known: to be asked again later.
 */
enum tx_answer {
	TX_ASKED,
	TX_MINED,			/* *@out says where; nothing proves it */
	TX_NONE,
	TX_UNSURE,
};
enum tx_answer reads_tx(struct reads *r, const struct hash32 *tx_hash, uint64_t tip_height, struct tx_place *out);
/* The place told last does not hold: the others are asked. */
void reads_tx_refuse(struct reads *r);
/* Each endpoint that was asked had dropped what is so old. */
bool reads_tx_is_gone(const struct reads *r);
/* The next question is a new one, also about the same transaction. */
void reads_tx_forget(struct reads *r);

#endif
