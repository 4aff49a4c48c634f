/*
 * What is known of public chains, by chain id.
 *
 * A chain is here only if this program can prove its blocks: recompute the header's hash and the root of its receipts.
 * Avalanche is not, since its header has fields of its own.  Polygon is since Madhugiri (the end of 2025): before that
 * the receipt of a state sync stood outside the root.
 */
#include "listener/config.h"

struct pace {
	int64_t poll_ms;
	int64_t head_age_s;
	int64_t stale_s;
	int64_t tag_settle_ms;		/* one finality period */
	uint64_t tag_depth_blocks;
	uint64_t lag_blocks;
	uint64_t keep_tx_blocks;	/* about 25 minutes; late balances are read for as long */
	uint64_t far_blocks;
	int64_t missing_after_s;
};

/* Slots of 12 s; the tag rises by an epoch of 32 of them, and is at least two behind. */
static const struct pace ethereum = {
	.poll_ms = 12000, .head_age_s = 300, .stale_s = 60, .tag_settle_ms = 384000, .tag_depth_blocks = 32,
	.lag_blocks = 3, .keep_tx_blocks = 128, .far_blocks = 64, .missing_after_s = 7200,
};

/* Blocks of 2 s, final with the L1 block of their batch: the period of the L1, and half of its least age in blocks. */
static const struct pace op_stack = {
	.poll_ms = 2000, .head_age_s = 120, .stale_s = 30, .tag_settle_ms = 384000, .tag_depth_blocks = 192,
	.lag_blocks = 10, .keep_tx_blocks = 768, .far_blocks = 32, .missing_after_s = 7200,
};

/* Final with the L1 too.  Blocks come of transactions, four a second when busy: the depth supposes one a second. */
static const struct pace arbitrum = {
	.poll_ms = 1000, .head_age_s = 120, .stale_s = 30, .tag_settle_ms = 384000, .tag_depth_blocks = 384,
	.lag_blocks = 50, .keep_tx_blocks = 6000, .far_blocks = 16, .missing_after_s = 7200,
};

/* Blocks of about 2 s, final with a milestone, which takes seconds; while milestones stand still so does the tag. */
static const struct pace polygon = {
	.poll_ms = 2000, .head_age_s = 120, .stale_s = 30, .tag_settle_ms = 10000, .tag_depth_blocks = 1,
	.lag_blocks = 10, .keep_tx_blocks = 768, .far_blocks = 32, .missing_after_s = 3600,
};

/* Blocks of 0.45 s, each final two later by the votes in them. */
static const struct pace bsc = {
	.poll_ms = 1000, .head_age_s = 60, .stale_s = 30, .tag_settle_ms = 2000, .tag_depth_blocks = 1,
	.lag_blocks = 30, .keep_tx_blocks = 3400, .far_blocks = 16, .missing_after_s = 3600,
};

#define PRESET_TOKENS 3

static const struct preset {
	uint64_t chain_id;
	const struct pace *pace;
	const char *genesis;		/* NULL: the node's is taken */
	struct preset_token {
		const char *symbol;
		const char *address;
		uint8_t decimals;
	} tokens[PRESET_TOKENS];
} presets[] = {
	{ 1, &ethereum, "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3",
	  { { "USDC", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", 6 },
	    { "USDT", "0xdAC17F958D2ee523a2206206994597C13D831ec7", 6 } } },
	{ 10, &op_stack, NULL,				/* OP Mainnet: USDT is the bridged one, USDT0 followed it */
	  { { "USDC", "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", 6 },
	    { "USDT", "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58", 6 },
	    { "USDT0", "0x01bFF41798a0BcF287b996046Ca68b395DbC1071", 6 } } },
	{ 56, &bsc, NULL,				/* both pegged by Binance, and of 18 decimals */
	  { { "USDC", "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d", 18 },
	    { "USDT", "0x55d398326f99059fF775485246999027B3197955", 18 } } },
	{ 137, &polygon, NULL,				/* USDT became USDT0 at its address */
	  { { "USDC", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", 6 },
	    { "USDT", "0xc2132D05D31c914a87C6611C10748AEb04B58e8F", 6 } } },
	{ 8453, &op_stack, NULL,			/* Base */
	  { { "USDC", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", 6 },
	    { "USDT", "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2", 6 } } },
	{ 42161, &arbitrum, NULL,			/* Arbitrum One: USDT became USDT0 at its address */
	  { { "USDC", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", 6 },
	    { "USDT", "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9", 6 } } },
	{ 11155111, &ethereum, "0x25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9",
	  { { "USDC", "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238", 6 } } },
	{ 84532, &op_stack, NULL,			/* Base Sepolia */
	  { { "USDC", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", 6 } } },
	{ 421614, &arbitrum, NULL,			/* Arbitrum Sepolia */
	  { { "USDC", "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", 6 } } },
	{ 11155420, &op_stack, NULL,			/* OP Sepolia */
	  { { "USDC", "0x5fd84259d66Cd46123540766Be93DFE6D43130D7", 6 } } },
};

static const struct preset *find_preset(uint64_t chain_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
		if (presets[i].chain_id == chain_id)
			return &presets[i];
	}
	return NULL;
}

static void take_pace(struct chain_config *c, const struct pace *p)
{
	c->poll_ms = p->poll_ms;
	c->head_age_s = p->head_age_s;
	c->stale_s = p->stale_s;
	c->tag_settle_ms = p->tag_settle_ms;
	c->tag_depth_blocks = p->tag_depth_blocks;
	c->lag_blocks = p->lag_blocks;
	c->keep_tx_blocks = c->keep_state_blocks = p->keep_tx_blocks;
	c->far_blocks = p->far_blocks;
	c->missing_after_s = p->missing_after_s;
}

static void add_tokens(struct chain_config *c, const struct preset_token *tokens)
{
	struct address address;

	for (size_t i = 0; i < PRESET_TOKENS && tokens[i].symbol; i++) {
		if (address_parse(slice_of_text(tokens[i].address), &address) && !config_has_token(c, &address))
			config_add_token(c, tokens[i].symbol, &address, tokens[i].decimals);
	}
}

bool config_preset(struct chain_config *c)
{
	const struct preset *p = find_preset(c->chain_id);

	if (!p)
		return false;
	take_pace(c, p->pace);
	add_tokens(c, p->tokens);
	if (!c->has_genesis && p->genesis)
		c->has_genesis = hash_parse(slice_of_text(p->genesis), &c->genesis);
	if (!c->finality.tier_count)
		c->finality = (struct finality_policy){ .tiers = { { .tag = TAG_FINALIZED } }, .tier_count = 1 };
	return true;
}
