#include "listener/reads_parts.h"

#include "common/log.h"
#include "listener/verify.h"

#include <stdio.h>
#include <stdlib.h>

/* Receipts of a block, all at once. */

/* Not proven, but of this block: an operator took the node's word for it. */
static bool is_trusted(const struct reads *r, const struct body_slot *slot)
{
	struct complaint why;

	return r->trusted && hash_eq(&r->trusted_hash, &slot->hash) &&
	       verify_places(&slot->block, &slot->receipts, &why) == OK;
}

/* Nothing proves a block's list of transactions before its receipts: that may be what is wrong. */
static void doubt_block(struct body_slot *slot)
{
	slot->has_block = false;
	/* As after a failure: elsewhere, if there is another endpoint. */
	slot->block_fetch.failures = 1;
}

static bool take_receipts(struct reads *r, struct body_slot *slot, struct slice json)
{
	struct complaint why;

	slot->has_logs = false;
	if (receipts_decode(json, &slot->receipts, &why) == OK) {
		if (verify_receipts(&slot->block, &slot->receipts, &r->scratch, &why) == OK)
			return true;
		slot->trusted = is_trusted(r, slot);
		if (slot->trusted)
			return true;
	}
	r->refused++;
	RLOG_REFUSED("receipts", &slot->hash, why.text);
	doubt_block(slot);
	return false;
}

static void note_lack(struct reads *r, unsigned who, enum rpc_outcome outcome, const struct reply *reply)
{
	struct provider *p = &r->providers[who];

	if (outcome != RPC_ERROR || !rpc_is_no_method(reply) || p->lacks_block_receipts)
		return;
	log_info("endpoint=%u has no eth_getBlockReceipts: logs first, then each receipt", who);
	p->lacks_block_receipts = true;
}

/* A result that came too late is not judged any more. */
static void hear(struct reads *r, unsigned who, enum rpc_outcome outcome, bool judged, bool held)
{
	reads_heard(r, who, outcome == RPC_RESULT && !judged ? RPC_NULL : outcome, held);
}

static void receipts_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);
	bool open = slot && slot->has_block && !slot->has_receipts;

	if (outcome == RPC_CANCELED)
		return;
	note_lack(r, call->who, outcome, reply);
	if (outcome != RPC_RESULT)
		RLOG_REFUSED("receipts", &call->hash, reads_describe(outcome, reply));
	if (open && outcome == RPC_RESULT)
		slot->has_receipts = take_receipts(r, slot, reply->result);
	hear(r, call->who, outcome, open, open && slot->has_receipts);
	if (slot)
		reads_ended(r, &slot->receipts_fetch, call->turn, slot->has_receipts);
	r->changed(r->ctx);
}

static void ask_receipts(struct reads *r, struct body_slot *slot)
{
	char text[HASH_TEXT], params[80];

	if (!reads_may_ask(r, &slot->receipts_fetch))
		return;
	snprintf(params, sizeof(params), "[\"%s\"]", hash_format(&slot->hash, text));
	reads_ask(r, &slot->receipts_fetch, NEED_BLOCK_RECEIPTS,
		  (struct rpc_call){ .method = "eth_getBlockReceipts", .done = receipts_done, .hash = slot->hash },
		  params);
}

/* Where nobody gives them at once: the logs tell whether they are worth it, then each is fetched. */

static bool take_logs(struct reads *r, struct body_slot *slot, struct slice json)
{
	struct complaint why;

	if (logs_decode(json, &slot->block, &slot->receipts, &why) == OK &&
	    verify_logs(&slot->block.header, &slot->receipts, &why) == OK)
		return true;
	r->refused++;
	RLOG_REFUSED("logs", &slot->hash, why.text);
	doubt_block(slot);
	return false;
}

static void logs_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);
	bool open = slot && slot->has_block && !slot->has_receipts && !slot->has_logs;

	if (outcome == RPC_CANCELED)
		return;
	if (outcome != RPC_RESULT)
		RLOG_REFUSED("logs", &call->hash, reads_describe(outcome, reply));
	if (open && outcome == RPC_RESULT)
		slot->has_logs = take_logs(r, slot, reply->result);
	hear(r, call->who, outcome, open, open && slot->has_logs);
	if (slot)
		reads_ended(r, &slot->logs_fetch, call->turn, slot->has_logs);
	r->changed(r->ctx);
}

static void ask_logs(struct reads *r, struct body_slot *slot)
{
	char text[HASH_TEXT], params[96];

	if (!reads_may_ask(r, &slot->logs_fetch))
		return;
	snprintf(params, sizeof(params), "[{\"blockHash\":\"%s\"}]", hash_format(&slot->hash, text));
	reads_ask(r, &slot->logs_fetch, NEED_ANY,
		  (struct rpc_call){ .method = "eth_getLogs", .done = logs_done, .hash = slot->hash }, params);
}

static bool has_all_singles(const struct body_slot *slot)
{
	for (uint32_t i = 0; i < slot->block.tx_count; i++) {
		if (!slot->singles[i].len)
			return false;
	}
	return true;
}

/* As if they had come at once. */
static bool take_singles(struct reads *r, struct body_slot *slot)
{
	struct buf all = { 0 };
	bool good;

	buf_put_u8(&all, '[');
	for (uint32_t i = 0; i < slot->block.tx_count; i++) {
		if (i)
			buf_put_u8(&all, ',');
		buf_put(&all, slot->singles[i].data, slot->singles[i].len);
	}
	buf_put_u8(&all, ']');
	good = take_receipts(r, slot, buf_slice(&all));
	buf_free(&all);
	bodies_drop_singles(slot);
	return good;
}

static void end_round(struct reads *r, struct body_slot *slot, unsigned who)
{
	bool all = has_all_singles(slot);

	slot->has_receipts = all && take_singles(r, slot);
	if (all)
		reads_heard(r, who, RPC_RESULT, slot->has_receipts);
	reads_ended(r, &slot->receipts_fetch, slot->receipts_fetch.turn, slot->has_receipts);
}

static void single_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);
	struct buf *single;

	if (outcome == RPC_CANCELED)
		return;
	if (outcome != RPC_RESULT)
		RLOG_REFUSED("a receipt", &call->hash, reads_describe(outcome, reply));
	hear(r, call->who, outcome, false, false);
	if (!slot || !slot->singles || slot->singles_round != call->kind || call->number >= slot->block.tx_count)
		return;
	single = &slot->singles[call->number];
	if (outcome == RPC_RESULT && !single->len)
		buf_put(single, reply->result.data, reply->result.len);
	if (--slot->singles_left == 0)
		end_round(r, slot, call->who);
	r->changed(r->ctx);
}

static void ask_single(struct reads *r, struct body_slot *slot, struct provider *p, uint32_t index)
{
	char text[HASH_TEXT], params[80];
	struct rpc_call call = { .method = "eth_getTransactionReceipt", .done = single_done, .ctx = r,
				 .hash = slot->hash, .number = index, .kind = slot->singles_round, .who = p->index };

	slot->singles_left++;
	snprintf(params, sizeof(params), "[\"%s\"]", hash_format(&slot->block.tx_hashes[index], text));
	rpc_start(&p->rpc, &call, params);
}

/* A round of all that are not in hand, of one endpoint. */
static void ask_singles(struct reads *r, struct body_slot *slot)
{
	struct fetch *f = &slot->receipts_fetch;
	struct provider *p = f->asked || !reads_may_ask(r, f) ? NULL : reads_choose(r, f, NEED_ANY);
	struct buf *singles = bodies_singles(slot);

	if (!p)
		return;
	f->asked = 1;
	f->again_ms = 0;
	f->who = p->index;
	slot->singles_round = ++r->rounds;
	slot->singles_left = 0;
	rpc_hold(&p->rpc);
	for (uint32_t i = 0; i < slot->block.tx_count; i++) {
		if (!singles[i].len)
			ask_single(r, slot, p, i);
	}
	rpc_release(&p->rpc);
}

/* A block without transactions: there is nothing to ask for. */
static void take_none(struct reads *r, struct body_slot *slot)
{
	if (!reads_may_ask(r, &slot->receipts_fetch))
		return;
	slot->has_receipts = take_receipts(r, slot, slice_of_text("[]"));
	reads_ended(r, &slot->receipts_fetch, slot->receipts_fetch.turn, slot->has_receipts);
}

static bool gives_block_receipts(const struct reads *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		if (!provider_is_live(p))
			continue;
		if (!p->lacks_block_receipts)
			return true;
		any = true;
	}
	return !any;
}

#define RECEIPTS_TRIES 6

/* Who has the method and yet does not answer it: the other way is tried in between. */
static bool is_logs_turn(const struct body_slot *slot)
{
	return slot->receipts_fetch.failures >= RECEIPTS_TRIES + slot->logs_fetch.failures;
}

struct body_slot *reads_body(struct reads *r, const struct hash32 *hash)
{
	struct body_slot *slot = bodies_use(&r->bodies, hash);

	if (!slot->has_block) {
		reads_ask_header(r, hash);
		return NULL;
	}
	if (r->trusted && hash_eq(&r->trusted_hash, hash))
		reads_want_receipts(slot);
	if (slot->has_receipts || (slot->has_logs && !slot->want_receipts))
		return slot;
	if (gives_block_receipts(r) && !is_logs_turn(slot))
		ask_receipts(r, slot);
	else if (!slot->want_receipts)
		ask_logs(r, slot);
	else if (slot->block.tx_count)
		ask_singles(r, slot);
	else
		take_none(r, slot);
	return slot->has_receipts ? slot : NULL;
}

void reads_want_receipts(struct body_slot *slot)
{
	slot->want_receipts = true;
}
