#include "listener/config.h"

#include <stdio.h>

struct chain_config config_default(uint64_t chain_id)
{
	return (struct chain_config){
		.chain_id = chain_id,
		.witness = WITNESS_WHEN_AVAILABLE,
		.early_s = 3600,
		.missing_after_s = 2 * 3600,
		.keep_hashes_s = 30 * 86400,
		.keep_tx_blocks = 128,
		.route_dust = u256_from_u64(1),
		.far_blocks = 64,
		.ahead_blocks = 8,
		.poll_ms = 4000,
		.retry_ms = 500,
		.lag_blocks = 3,
		.head_age_s = 600,
		.promote_slice = 100,
	};
}

bool config_add_token(struct chain_config *c, const char *symbol, const struct address *address,
		      uint8_t decimals)
{
	if (c->token_count == TOKENS_MAX)
		return false;
	snprintf(c->symbols[c->token_count], SYMBOL_MAX, "%s", symbol);
	c->decimals[c->token_count] = decimals;
	c->tokens[c->token_count++] = *address;
	return true;
}

bool config_has_token(const struct chain_config *c, const struct address *token)
{
	for (size_t i = 0; i < c->token_count; i++) {
		if (address_eq(&c->tokens[i], token))
			return true;
	}
	return false;
}

struct chain_tokens config_tokens(const struct chain_config *c)
{
	return (struct chain_tokens){ c->chain_id, c->tokens, c->token_count };
}
