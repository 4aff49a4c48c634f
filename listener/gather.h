/*
 * gather - whom a block touches, and what it means for each: reads the store,
 * decides with match, and writes nothing.
 *
 * It runs twice over a block: when the body is in hand, to learn whose
 * balances are wanted, and inside the commit, to be acted upon.
 */
#ifndef LISTENER_GATHER_H
#define LISTENER_GATHER_H

#include "listener/config.h"
#include "listener/match.h"

/* A verified block, borrowed. */
struct body {
	const struct block *block;
	const struct receipts *receipts;
	uint8_t proof;			/* enum proof */
};

/* A payee's balance before and after the block. */
struct witness {
	struct address token;
	struct address payee;
	bool have;			/* false: the state is not available, or the block waits no more for it */
	bool late;			/* not read yet: it will be, after the block */
	bool doubted;			/* late, and a first reading, which is in before and after, disagreed */
	struct u256 before, after;
	bool disagrees;			/* set by gather: not what the logs say */
};

/* A transfer of one of our tokens in the block. */
struct listed {
	struct transfer transfer;
	bool watched;			/* its payee is that of a route intent */
	bool touched;			/* it is worth a row */
	enum owner_kind owner_kind;
	uint64_t owner;			/* an intent's row */
	bool was_owned;			/* by the same one, in the store already */
	bool elsewhere;			/* in another block: a transaction pays once, wherever a node lists it */
};

enum role {
	ROLE_CONFIRM,		/* settling: goes to confirming */
	ROLE_REPLACE,		/* confirming with another hash that is in no block */
	ROLE_SEEN,		/* confirming with this hash */
	ROLE_EXTRA,		/* a second attempt mined: paid twice */
	ROLE_REVIEW,		/* a person has it */
	ROLE_ENDED,		/* terminal */
	ROLE_LOOSE,		/* a transfer to a route's payee that fits nobody, or two */
};

struct finding {
	enum role role;
	struct intent intent;		/* as stored; of a loose one all zero */
	uint32_t tx_index;
	uint32_t ordinal;		/* of the first transfer that it is about */
	uint64_t order;			/* of the attempt: claims go in this order */
	bool route;
	struct judgement judgement;
	enum witness_state witness;
	struct u256 before, after;
	struct u256 came, went;		/* where the witness is late: by the block's logs */
	enum loose_kind loose;
};

struct gather {
	struct finding *findings;
	size_t count, cap;
	struct listed *listed;
	size_t listed_count, listed_cap;
	struct witness *wanted;		/* balances that are needed and not given */
	size_t wanted_count, wanted_cap;
};
void gather_free(struct gather *g);

struct gather_input {
	const struct chain_config *config;
	const struct body *body;
	struct witness *witnesses;
	size_t witness_count;
	bool catching_up;
	bool again;			/* a block of ours once more, for all whose attempts were not seen in it: claims go by attempt */
};

/* Overwrites *@g, keeping its memory.  Findings are in the order in which they claim. */
void gather_block(struct kv_txn *t, const struct gather_input *in, struct gather *g);

/* In the order in which they are told: transaction, ordinal, creation. */
void gather_sort(struct gather *g);

/* What may still stand against a payment that the transfers show; VERDICT_PAID: nothing, as far as is known. */
struct paid_facts {
	enum witness_state witness;
	int64_t block_time_s;
	uint8_t proof;			/* enum proof */
};
enum verdict gather_check_paid(const struct chain_config *c, const struct intent *i,
			       const struct paid_facts *facts);

/* The verdict with both figures, for a person. */
struct reason gather_reason(const struct intent *i, const struct judgement *j,
			    enum witness_state witness, const struct u256 *before,
			    const struct u256 *after);

#endif
