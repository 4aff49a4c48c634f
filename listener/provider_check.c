#include "listener/provider.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>

enum question { ASK_CHAIN, ASK_GENESIS, ASK_SYNCING, ASK_DECIMALS, ASK_TAG };

/* Each fills in p->check.why if something is wrong; false: no usable answer. */

static bool take_chain(struct provider *p, struct slice result)
{
	struct complaint why;
	uint64_t id;

	if (result_u64(result, &id, &why))
		return false;
	if (id != p->config->chain_id)
		complain(&p->check.why, OK, "it serves chain %llu, want %llu", (unsigned long long)id,
			 (unsigned long long)p->config->chain_id);
	return true;
}

static bool take_genesis(struct provider *p, struct slice result)
{
	struct block block = { .tx_cap = 0 };
	struct complaint why;
	bool good = block_decode(result, &block, &why) == OK && block.header.number == 0;

	p->check.has_genesis = good;
	p->check.genesis = block.header.hash;
	block_free(&block);
	return good;
}

static bool take_decimals(struct provider *p, unsigned token, struct slice result)
{
	const struct chain_config *c = p->config;
	char address[ADDRESS_TEXT], said[U256_TEXT];
	struct complaint why;
	struct u256 v, want = u256_from_u64(c->decimals[token]);

	address_format(&c->tokens[token], address);
	if (slice_is(result, "\"0x\""))
		complain(&p->check.token_why, OK, "token %s %s: no token's code at this address", c->symbols[token], address);
	else if (result_word(result, &v, &why))
		return false;
	else if (u256_cmp(&v, &want) != 0)
		complain(&p->check.token_why, OK, "token %s %s: %s decimals, the configuration says %u", c->symbols[token],
			 address, u256_format(&v, said), c->decimals[token]);
	return true;
}

/* The code is there, but it is no token's. */
static bool is_revert(const struct reply *reply)
{
	return reply->code == 3 || strstr(reply->message, "revert");
}

static bool take_failed_decimals(struct provider *p, unsigned token, const struct reply *reply)
{
	char address[ADDRESS_TEXT];

	if (!is_revert(reply))
		return false;
	complain(&p->check.token_why, OK, "token %s %s: decimals() reverts", p->config->symbols[token],
		 address_format(&p->config->tokens[token], address));
	return true;
}

/* What it does not know yet is no fault. */
static bool take_tag(const struct provider *p, unsigned tag, enum rpc_outcome outcome)
{
	if (outcome != RPC_RESULT)
		log_info("endpoint=%u does not know a %s block", p->index, tag_name((enum tag)tag));
	return outcome != RPC_FAILED;
}

static bool take(struct provider *p, const struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	switch ((enum question)call->kind) {
	case ASK_CHAIN:
		return outcome == RPC_RESULT && take_chain(p, reply->result);
	case ASK_GENESIS:
		return outcome == RPC_RESULT && take_genesis(p, reply->result);
	case ASK_SYNCING:
		p->syncing = outcome == RPC_RESULT && !slice_is(reply->result, "false");
		return outcome != RPC_FAILED;
	case ASK_DECIMALS:
		if (outcome == RPC_ERROR)
			return take_failed_decimals(p, (unsigned)call->number, reply);
		return outcome == RPC_RESULT && take_decimals(p, (unsigned)call->number, reply->result);
	case ASK_TAG:
		return take_tag(p, (unsigned)call->number, outcome);
	}
	return false;
}

/* At the end: another endpoint, checked meanwhile, may have told it. */
static void judge_genesis(struct provider *p)
{
	char theirs[HASH_TEXT], ours[HASH_TEXT];
	struct provider_check *c = &p->check;

	if (c->has_genesis && p->genesis->known && !hash_eq(&c->genesis, &p->genesis->hash))
		complain(&c->why, OK, "its genesis is %s, want %s", hash_format(&c->genesis, theirs),
			 hash_format(&p->genesis->hash, ours));
}

static void judge(struct provider *p)
{
	struct provider_check *c = &p->check;

	if (!c->why.text[0])
		judge_genesis(p);
	/* While it is syncing it may not have come to the token's creation yet. */
	if (!c->why.text[0] && !p->syncing)
		c->why = c->token_why;
	if (c->why.text[0]) {
		provider_event(p, HEV_WRONG);
	} else if (c->failed || c->token_why.text[0]) {
		if (c->token_why.text[0])
			log_info("endpoint=%u is syncing, and looked at again later: %s", p->index, c->token_why.text);
		provider_event(p, HEV_SILENT);
	} else {
		if (c->has_genesis && !p->genesis->known)
			*p->genesis = (struct genesis){ true, c->genesis };
		provider_event(p, HEV_CHECKED);
	}
	p->owner.changed(p->owner.ctx);
}

/* The first that is wrong is told. */
static bool is_told(const struct provider_check *c, unsigned question)
{
	if (question == ASK_SYNCING)
		return false;
	return question == ASK_DECIMALS ? c->token_why.text[0] : c->why.text[0];
}

static void check_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct provider *p = call->ctx;
	struct provider_check *c = &p->check;

	if (outcome == RPC_CANCELED || call->who != c->round)
		return;
	if (!is_told(c, call->kind) && !take(p, call, outcome, reply))
		c->failed = true;
	if (--c->left == 0 && p->health == HEALTH_CHECKING)
		judge(p);
}

static void ask(struct provider *p, enum question question, unsigned number, const char *method, const char *params)
{
	struct rpc_call call = { .method = method, .done = check_done, .ctx = p, .kind = question,
				 .number = number, .who = p->check.round };

	p->check.left++;
	rpc_start(&p->rpc, &call, params);
}

static void ask_decimals(struct provider *p, unsigned token)
{
	char address[ADDRESS_TEXT], params[120];

	snprintf(params, sizeof(params), "[{\"to\":\"%s\",\"data\":\"0x313ce567\"},\"latest\"]",
		 address_format(&p->config->tokens[token], address));
	ask(p, ASK_DECIMALS, token, "eth_call", params);
}

static void ask_tag(struct provider *p, enum tag tag)
{
	char params[48];

	snprintf(params, sizeof(params), "[\"%s\",false]", tag_name(tag));
	ask(p, ASK_TAG, tag, "eth_getBlockByNumber", params);
}

void provider_check(struct provider *p)
{
	p->check = (struct provider_check){ .round = p->check.round + 1 };
	if (!p->config->check_endpoints) {
		provider_event(p, HEV_CHECKED);
		return;
	}
	rpc_hold(&p->rpc);
	ask(p, ASK_CHAIN, 0, "eth_chainId", "[]");
	ask(p, ASK_GENESIS, 0, "eth_getBlockByNumber", "[\"0x0\",false]");
	ask(p, ASK_SYNCING, 0, "eth_syncing", "[]");
	for (unsigned i = 0; i < p->config->token_count; i++)
		ask_decimals(p, i);
	for (unsigned tag = TAG_SAFE; tag < TAGS; tag++) {
		if (config_uses_tag(p->config, (enum tag)tag))
			ask_tag(p, (enum tag)tag);
	}
	rpc_release(&p->rpc);
}
