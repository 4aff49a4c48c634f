#include "listener/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chain_config config_default(uint64_t chain_id)
{
	return (struct chain_config){
		.chain_id = chain_id,
		.witness = WITNESS_WHEN_AVAILABLE,
		.early_s = 3600,
		.missing_after_s = 2 * 3600,
		.keep_hashes_s = 30 * 86400,
		.keep_state_blocks = 128,
		.balance_wait_ms = 1000,
		.keep_tx_blocks = 128,
		.route_dust = u256_from_u64(1),
		.far_blocks = 64,
		.ahead_blocks = 16,
		.poll_ms = 4000,
		.retry_ms = 500,
		.lag_blocks = 3,
		.head_age_s = 600,
		.stale_s = 60,
		.unproven_s = 300,
		.promote_slice = 100,
		.commit_blocks = 16,
		.check_endpoints = true,
		.timeout_ms = 10000,
		.hedge_min_ms = 250,
		.batch_max = 50,
	};
}

struct chain_config config_recorded(uint64_t chain_id)
{
	struct chain_config c = config_default(chain_id);

	c.check_endpoints = false;
	c.hedge_min_ms = 0;
	c.balance_wait_ms = 0;
	c.batch_max = 1;
	c.commit_blocks = 1;
	return c;
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

bool config_uses_tag(const struct chain_config *c, enum tag tag)
{
	for (unsigned i = 0; i < c->finality.tier_count; i++) {
		if (c->finality.tiers[i].tag == tag)
			return true;
	}
	return false;
}

struct chain_tokens config_tokens(const struct chain_config *c)
{
	return (struct chain_tokens){ c->chain_id, c->tokens, c->token_count };
}

/* Documents. */

/* @list is where more than fit is complained about. */
static void read_token(struct json j, struct json list, struct chain_config *c)
{
	static const char *const members[] = { "symbol", "address", "decimals", NULL };
	struct address address = json_address(json_member(j, "address"));
	uint64_t decimals = json_u64(json_member(j, "decimals"));
	char symbol[SYMBOL_MAX] = "";

	json_only(j, members);
	json_copy_text(json_member(j, "symbol"), symbol, sizeof(symbol));
	if (json_failed(j.doc))
		return;
	if (decimals > 77)
		json_complain(json_member(j, "decimals"), "%llu, want at most 77", (unsigned long long)decimals);
	else if (config_has_token(c, &address))
		json_complain(json_member(j, "address"), "listed twice");
	else if (!config_add_token(c, symbol, &address, (uint8_t)decimals))
		json_complain(list, "more than %d tokens", TOKENS_MAX);
}

void config_read_tokens(struct json list, struct chain_config *c)
{
	for (size_t i = 0; i < json_length(list) && !json_failed(list.doc); i++)
		read_token(json_at(list, i), list, c);
}

enum witness_policy config_read_witness(struct json j)
{
	static const char *const names[] = { "when_available", "required", "off" };
	const char *text = json_text(j);

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(text, names[i]) == 0)
			return (enum witness_policy)i;
	}
	json_complain(j, "\"%s\", want when_available, required or off", text);
	return WITNESS_WHEN_AVAILABLE;
}

void config_read_finality(struct json j, struct chain_config *c)
{
	struct json agree = json_maybe(j, "agree");
	uint64_t count = agree.value ? json_u64(agree) : 0;

	c->finality = finality_parse(j);
	c->agree = (unsigned)count;
	if (agree.value && (count < 1 || count > PROVIDERS_MAX))
		json_complain(agree, "%llu, want 1 to %d", (unsigned long long)count, PROVIDERS_MAX);
}

/* The option's three parts as the object that a document has. */
static bool put_token(struct buf *out, const char *text)
{
	const char *first = strchr(text, ':'), *last = strrchr(text, ':');
	char *symbol, *address;

	if (!first || first == last || first == text)
		return false;
	symbol = xstrdup(text);
	symbol[first - text] = '\0';
	address = symbol + (first + 1 - text);
	address[last - first - 1] = '\0';
	json_open_object(out, NULL);
	json_put_text(out, "symbol", symbol);
	json_put_text(out, "address", address);
	json_put_text(out, "decimals", last + 1);
	json_close_object(out);
	free(symbol);
	return true;
}

bool config_parse_token(const char *text, struct chain_config *c, struct complaint *why)
{
	struct complaint inner = { "want SYMBOL:ADDRESS:DECIMALS" };
	struct buf object = { 0 };
	struct json_doc *doc = put_token(&object, text) ? json_open(buf_slice(&object), &inner) : NULL;
	enum err err = E_INPUT;

	if (doc) {
		read_token(json_root(doc), json_root(doc), c);
		err = json_finish(doc, &inner);
		json_close(doc);
	}
	buf_free(&object);
	if (err)
		complain(why, err, "token \"%.120s\": %.300s", text, inner.text);
	return err == OK;
}
