/*
 * finality - which of our blocks are final, under the chain's policy.
 *
 * Pure.  A policy has one or more tiers by amount; each has its own watermark.
 * A tier's rule is a tag ("safe" or "finalized"), a depth in blocks (the
 * containing block counts as 1), or both, which must then both hold; "safe" alone is refused.
 */
#ifndef LISTENER_FINALITY_H
#define LISTENER_FINALITY_H

#include "common/json.h"
#include "common/types.h"

#define FINALITY_TIERS_MAX 4

enum tag {
	TAG_NONE,
	TAG_SAFE,
	TAG_FINALIZED,
};
#define TAGS 3
const char *tag_name(enum tag tag);

struct finality_tier {
	bool has_limit;			/* else it takes any amount; only the last one */
	struct u256 up_to;		/* base units, included */
	enum tag tag;
	uint64_t depth;			/* 0: none asked */
};

struct finality_policy {
	struct finality_tier tiers[FINALITY_TIERS_MAX];	/* amounts rising */
	unsigned tier_count;
};

/*
 * Read {"tag":..,"depth":..} or {"tiers":[..]} at @j; "agree" beside them is for
 * the caller.  What is wrong is complained about at its path in the document; the policy is then not to be used.
 */
struct finality_policy finality_parse(struct json j);

/* The tier that decides over @sum, the amounts of the intents that one transaction pays. */
unsigned finality_tier_of(const struct finality_policy *p, const struct u256 *sum);

/* The highest block of ours that is at or below a tag, by tag. */
struct finality_view {
	uint64_t tip_height;
	uint64_t vouched_height;	/* up to here so many endpoints as must agree have our blocks: depth counts from it */
	bool known[TAGS];
	uint64_t height[TAGS];
};

/* The height that the tier holds final; false if it cannot say yet. */
bool finality_height(const struct finality_tier *tier, const struct finality_view *view,
		     uint64_t *out);

/* The tier's rule as text for the evidence: "finalized", "safe and depth 20", "depth 12". */
void finality_describe(const struct finality_tier *tier, char out[48]);

#endif
