/*
 * plan - what happens in one run: a list of dated facts, and its text.
 *
 * A fact is a kind, a time in ms since the run's start and a few numbers; what each number names
 * (an endpoint, an intent, a block, a transaction) is known by the kind's pattern, so that whole
 * elements can be dropped without looking at the rest.
 */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include "common/types.h"

#define ITEM_ARGS 8
#define ITEM_TXS 8
#define ENDPOINTS_MAX 3
#define INTENTS_MAX 16
#define TXS_MAX 64
#define BLOCKS_MAX 320

enum item_kind {
	ITEM_POLICY,		/* policy depth up_to: enum policy_kind */
	ITEM_WITNESS,		/* enum witness_policy */
	ITEM_LIMITS,		/* missing_after_s early_s tag_settle_ms tag_depth far_blocks */
	ITEM_ENDPOINT,		/* id lag_ms forgets announces_all */
	ITEM_TX,		/* id reverted */
	ITEM_LOG,		/* tx contract from to value form */
	ITEM_BLOCK,		/* id parent, and its transactions; known from then on */
	ITEM_HEAD,		/* the truth's head */
	ITEM_FINAL,		/* the truth's last final block */
	ITEM_VIEW,		/* endpoint block ms: it sees another head for a while */
	ITEM_LIE,		/* endpoint block ms: it calls that one finalized */
	ITEM_FAULT,		/* endpoint method answer percent ms */
	ITEM_DOWN,		/* endpoint silent ms: refused, or no answer at all */
	ITEM_CLOSE,		/* endpoint: its socket closes */
	ITEM_NEWS,		/* endpoint mode ms: how it announces heads */
	ITEM_CRASH,		/* after commits ms: at the so manieth commit from now, before or after it */
	ITEM_INTENT,		/* id watch token payee payer amount expiry_ms opened */
	ITEM_OPEN,		/* authorized, settling */
	ITEM_ATTEMPT,		/* intent tx */
	ITEM_CONFIRM,		/* intent tx: the relayer says confirming */
	ITEM_FAIL,		/* the relayer gives up */
	ITEM_CANCEL,
	ITEM_DECIDE,		/* intent settled tx(-1): a person */
	ITEM_ACCEPT,		/* block: the chain that ends there is lost, though it was final; an operator accepts the other */
	ITEM_KINDS,
};

enum policy_kind {
	POLICY_FINALIZED,
	POLICY_DEPTH,
	POLICY_SAFE_DEPTH,
	POLICY_FINALIZED_DEPTH,
	POLICY_TIERS,		/* up to an amount depth, above it finalized */
};

enum log_form {
	FORM_TRANSFER,
	FORM_OTHER_TOPIC,	/* the shape, but no Transfer topic */
	FORM_INDEXED,		/* four topics, as an NFT's */
	FORM_SKIMMED,		/* the balance gets one less than the log says */
};

enum contract {
	CONTRACT_USDC,
	CONTRACT_USDT,
	CONTRACT_OTHER,		/* not listed */
	CONTRACT_NATIVE,	/* EIP-7708 */
};

enum news_mode {
	NEWS_SKIPPED,
	NEWS_REPEATED,
	NEWS_DELAYED,		/* so that later ones overtake */
	NEWS_BARE,		/* only the hash */
	NEWS_BROKEN,		/* no JSON */
};

struct item {
	enum item_kind kind;
	int64_t at_ms;
	int64_t arg[ITEM_ARGS];
	unsigned tx_count;
	uint8_t txs[ITEM_TXS];
};

struct plan {
	uint64_t seed;		/* of the world's chance too */
	struct item *items;
	size_t count, cap;
};

/* The plan of a seed. */
void plan_make(struct plan *p, uint64_t seed);
void plan_free(struct plan *p);
void plan_copy(const struct plan *p, struct plan *out);
/* Zeroed but for kind and time; good until the next is added. */
struct item *plan_add(struct plan *p, enum item_kind kind, int64_t at_ms);

void plan_print(const struct plan *p, struct buf *out);
/* E_INPUT with the line in @why. */
MUST_CHECK enum err plan_parse(struct slice text, struct plan *out, struct complaint *why);
const char *plan_kind_name(enum item_kind kind);

/* The last time at which something happens. */
int64_t plan_end_ms(const struct plan *p);

/*
 * Drop the @at'th fact, and what it alone gives a meaning: a block's children stand on its parent, an
 * intent's requests go with it.  False if it cannot be dropped.
 */
bool plan_drop(struct plan *p, size_t at);

/* Chance: splitmix64. */
uint64_t chance(uint64_t *state);
static inline uint64_t chance_below(uint64_t *state, uint64_t n)
{
	return chance(state) % n;
}
static inline bool chance_of(uint64_t *state, unsigned percent)
{
	return chance(state) % 100 < percent;
}

#endif
