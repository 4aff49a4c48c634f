/*
 * match - what a transaction's transfers mean for an intent.
 *
 * Pure.  Nothing here reads a store: the caller says which transfers are
 * somebody else's.  Symbol, calldata, tx.from, tx.to and tx.value are never looked at.
 */
#ifndef LISTENER_MATCH_H
#define LISTENER_MATCH_H

#include "common/intent.h"
#include "listener/codec.h"

/* keccak256("Transfer(address,address,uint256)"), EIP-20. */
extern const struct hash32 match_transfer_topic;

struct transfer {
	struct address token;		/* the contract that emitted it */
	struct address from;
	struct address to;
	struct u256 value;		/* base units */
	uint32_t tx_index;
	uint32_t ordinal;		/* among the transaction's logs, from 0 */
};

/*
 * True if the log has a transfer's shape: the topic, exactly 3 topics, 32 bytes of data,
 * 12 zero bytes before each address, value above zero, from and to not the same.  Whether its
 * contract is one of ours is the caller's question.  Not the pseudo-logs of EIP-7708.
 * tx_index and ordinal are left alone.
 */
bool match_transfer(const struct log_entry *log, const uint8_t *data, struct transfer *out);

/* On disk: do not renumber. */
enum verdict {
	VERDICT_PAID,
	VERDICT_REVERTED,
	VERDICT_ALREADY_CLAIMED,
	VERDICT_UNDERPAID,
	VERDICT_OVERPAID,
	VERDICT_WRONG_PAYER,
	VERDICT_WRONG_TOKEN,
	VERDICT_NO_TRANSFER,
	VERDICT_BALANCE_MISMATCH,
	VERDICT_NO_WITNESS,
	VERDICT_TOO_OLD,
	VERDICT_LATE,
	VERDICT_UNPROVEN,
};
#define VERDICTS 13
static_assert(VERDICT_UNPROVEN == VERDICTS - 1, "on disk: do not renumber");

/* The name is the reason's code. */
const char *verdict_name(enum verdict v);
/* Somebody else's claim or hold may have stood against it, wholly or in part. */
bool verdict_is_contested(enum verdict v);

/* A transfer of the intent's token to its payee in the transaction at hand, in order of ordinal. */
struct candidate {
	struct transfer transfer;
	bool taken;		/* claimed or held by another intent */
	bool chosen;		/* set by match_judge: this intent claims it */
};

struct match_facts {
	bool reverted;		/* receipt status 0 */
	bool wrong_token;	/* a transfer's shape to the payee from any other contract */
};

struct judgement {
	enum verdict verdict;
	struct u256 sum;	/* what was paid to the intent, for the text; all ones if more */
};

/* The verdict by transaction, the first of the design's table that applies. */
struct judgement match_judge(const struct intent *intent, struct candidate *candidates,
			     size_t count, const struct match_facts *facts);

/* True if what the payee's balance did is what the block's transfers of the token say. */
bool match_balance(const struct u256 *before, const struct u256 *after, const struct u256 *in,
		   const struct u256 *out);

/* How a transfer to a route intent's payee fits it. */
enum route_fit {
	ROUTE_FITS,
	ROUTE_MISSES,		/* by amount, payer or expiry only */
	ROUTE_TOO_EARLY,	/* paid before the intent was there */
};
struct route_facts {
	uint64_t first_order;	/* when we first applied the transaction, on whatever branch */
	int64_t block_time_s;
	bool catching_up;
};
enum route_fit match_route(const struct intent *intent, const struct transfer *t,
			   const struct route_facts *facts);

#endif
