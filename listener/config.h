/*
 * config - what a chain's listener is told: tokens, finality, limits.
 */
#ifndef LISTENER_CONFIG_H
#define LISTENER_CONFIG_H

#include "listener/finality.h"
#include "store/intents.h"

#define TOKENS_MAX 16
#define SYMBOL_MAX 17

enum witness_policy {
	WITNESS_WHEN_AVAILABLE,
	WITNESS_REQUIRED,
	WITNESS_NEVER,
};

#define PROVIDERS_MAX 8		/* endpoints of a chain */

/* Where a node is asked: requests go over HTTP, heads come over the WebSocket.  Borrowed. */
struct endpoint_urls {
	const char *http;
	const char *ws;
};

struct chain_config {
	uint64_t chain_id;
	bool has_genesis;
	struct hash32 genesis;
	char symbols[TOKENS_MAX][SYMBOL_MAX];
	uint8_t decimals[TOKENS_MAX];
	struct address tokens[TOKENS_MAX];
	size_t token_count;
	struct finality_policy finality;
	enum witness_policy witness;

	int64_t early_s;		/* a block this much older than the intent pays it no more */
	int64_t missing_after_s;	/* chain time after which tx_missing is said */
	int64_t keep_hashes_s;		/* block hashes are kept this long */
	uint64_t keep_state_blocks;	/* a late balance of a block so far below the tip is given up: nodes keep no older state */
	int64_t balance_wait_ms;	/* a block waits for a balance not longer; 0: until it failed twice */
	uint64_t keep_tx_blocks;	/* transaction prefixes are kept this far below the watermark */
	struct u256 route_dust;		/* a smaller misfit is not attached to a route intent */
	uint64_t far_blocks;		/* a head this far ahead is fetched forward by number */
	unsigned ahead_blocks;		/* bodies asked for at once */
	int64_t poll_ms;		/* between two head reads, and between two sayings of a claim */
	int64_t retry_ms;		/* before a refused or missing answer is asked again */
	uint64_t lag_blocks;		/* an endpoint this far below another's head is behind */
	unsigned agree;			/* endpoints that must vouch for a tag; 0: 2 of several, else 1 */
	int64_t tag_settle_ms;		/* before a rise that one endpoint alone says is believed; 0: at once */
	uint64_t tag_depth_blocks;	/* a tag nearer to the head is not believed from one endpoint alone */
	int64_t head_age_s;		/* a newest head older than this is stale */
	int64_t stale_s;		/* no head read answered for so long is stale */
	int64_t unproven_s;		/* a block that nobody can prove for so long is trouble */
	unsigned promote_slice;		/* intents made final in one transaction */
	unsigned commit_blocks;		/* blocks in one transaction while far behind */
	bool has_start;			/* where following begins; else at the first head */
	uint64_t start_height;

	bool check_endpoints;		/* chain id, genesis and decimals on each connect */
	unsigned timeout_ms;		/* of a request */
	int64_t hedge_min_ms;		/* a slow answer is asked for once more not before; 0: never */
	unsigned batch_max;		/* requests in one batch; 1: none */
};

/*
 * What is known of a public chain: its tokens, finality and pace.  Filled in by c->chain_id: the pace goes over what
 * is there; tokens are added to those that are there; a genesis or a finality that is there stays.  False, and nothing
 * is changed, for a chain that is not known here.
 */
bool config_preset(struct chain_config *c);

/*
 * Members of a document, as tapes and configuration files write them.  What is wrong is complained
 * about at its path in the document.
 */
void config_read_tokens(struct json list, struct chain_config *c);
enum witness_policy config_read_witness(struct json j);
/* finality_parse(), and beside it "agree". */
void config_read_finality(struct json j, struct chain_config *c);
/* Add the token "SYMBOL:ADDRESS:DECIMALS", the address as json_address() takes it; false with @why. */
MUST_CHECK bool config_parse_token(const char *text, struct chain_config *c, struct complaint *why);

/* The limits' defaults; no tokens. */
struct chain_config config_default(uint64_t chain_id);
/* The same for a recorded node, which is not asked what a tape does not hold. */
struct chain_config config_recorded(uint64_t chain_id);

/* Add the token; false if there are TOKENS_MAX. */
bool config_add_token(struct chain_config *c, const char *symbol, const struct address *address,
		      uint8_t decimals);
bool config_has_token(const struct chain_config *c, const struct address *token);
/* Whether a tier of its policy rests on the tag. */
bool config_uses_tag(const struct chain_config *c, enum tag tag);
/* Borrowed from @c. */
struct chain_tokens config_tokens(const struct chain_config *c);

#endif
