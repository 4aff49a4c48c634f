#include "listener/reads_parts.h"

#include "common/json.h"

#include <stdio.h>

#define TX_PATIENCE 3		/* failures of one endpoint, one after another */

/* Calls that are under way answer no other question than theirs. */
static void begin(struct tx_question *q, const struct hash32 *tx_hash, uint64_t tip_height)
{
	q->used = true;
	q->tx_hash = *tx_hash;
	q->tip_height = tip_height;
	for (unsigned i = 0; i < PROVIDERS_MAX; i++)
		q->readings[i] = (struct tx_reading){ .fetch.turn = q->readings[i].fetch.turn + 1 };
}

static bool read_place(struct slice result, const struct hash32 *tx_hash, struct tx_place *out)
{
	struct complaint why;
	struct json_doc *doc = json_open(result, &why);
	char text[U256_TEXT];
	struct u256 height;
	struct json root;
	bool good;

	if (!doc)
		return false;
	root = json_root(doc);
	height = json_quantity(json_member(root, "blockNumber"));
	*out = (struct tx_place){ .tx_hash = *tx_hash, .mined = true };
	out->block_hash = json_hash(json_member(root, "blockHash"));
	good = u64_parse(slice_of_text(u256_format(&height, text)), &out->height) && json_finish(doc, &why) == OK;
	json_close(doc);
	return good;
}

static enum tx_said understand(const struct tx_question *q, enum rpc_outcome outcome, const struct reply *reply,
			       struct tx_place *place)
{
	if (outcome == RPC_NULL)
		return TX_SAID_NULL;
	if (outcome == RPC_ERROR && rpc_is_gone(reply))
		return TX_SAID_GONE;
	if (outcome != RPC_RESULT || !read_place(reply->result, &q->tx_hash, place))
		return TX_SAID_NOTHING;
	return place->height > q->tip_height ? TX_SAID_NULL : TX_SAID_PLACE;
}

static void tx_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct tx_reading *reading = &r->tx.readings[call->who];

	if (outcome == RPC_CANCELED)
		return;
	/* Nothing proves it. */
	reads_heard(r, call->who, outcome == RPC_RESULT ? RPC_NULL : outcome, false);
	if (!r->tx.used || call->turn != reading->fetch.turn)
		return;
	reading->said = understand(&r->tx, outcome, reply, &reading->place);
	reads_ended(r, &reading->fetch, call->turn, reading->said != TX_SAID_NOTHING);
	if (reading->fetch.failures >= TX_PATIENCE)
		reading->said = TX_SAID_NO_GOOD;
	r->changed(r->ctx);
}

static bool told_place(struct reads *r, struct tx_place *out)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		unsigned who = (r->leader + i) % r->provider_count;

		if (r->tx.readings[who].said != TX_SAID_PLACE)
			continue;
		r->tx.told = who;
		*out = r->tx.readings[who].place;
		return true;
	}
	return false;
}

static bool is_slow(const struct reads *r, const struct fetch *f)
{
	return f->again_ms && f->again_ms <= reads_now_ms(r);
}

static bool has_reached(const struct provider *p, uint64_t height)
{
	return p->head.verified && !p->unfounded && p->head.height >= height;
}

/* The one to ask now, with the fewest failures; NULL: none.  @open: one that is live has not said anything yet. */
static struct provider *choose(struct reads *r, bool *open)
{
	struct provider *best = NULL;

	*open = false;
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[(r->leader + i) % r->provider_count];
		struct tx_reading *reading = &r->tx.readings[p->index];

		if (!provider_is_live(p) || reading->said)
			continue;
		*open = true;
		if (reading->fetch.asked && !is_slow(r, &reading->fetch))
			return NULL;
		if (reading->fetch.asked || !has_reached(p, r->tx.tip_height) || !reads_may_ask_of(r, p, &reading->fetch))
			continue;
		if (!best || reading->fetch.failures < r->tx.readings[best->index].fetch.failures)
			best = p;
	}
	return best;
}

/* False: there is nobody left to ask. */
static bool ask(struct reads *r)
{
	char text[HASH_TEXT], params[80];
	bool open;
	struct provider *p = choose(r, &open);

	if (p) {
		snprintf(params, sizeof(params), "[\"%s\"]", hash_format(&r->tx.tx_hash, text));
		reads_ask_of(r, p, &r->tx.readings[p->index].fetch,
		    (struct rpc_call){ .method = "eth_getTransactionReceipt", .done = tx_done }, params);
	}
	return open;
}

static bool all_said_null(const struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		if (r->tx.readings[i].said != TX_SAID_NULL)
			return false;
	}
	return true;
}

enum tx_answer reads_tx(struct reads *r, const struct hash32 *tx_hash, uint64_t tip_height, struct tx_place *out)
{
	if (!r->tx.used || !hash_eq(&r->tx.tx_hash, tx_hash))
		begin(&r->tx, tx_hash, tip_height);
	if (told_place(r, out))
		return TX_MINED;
	if (ask(r))
		return TX_ASKED;
	return all_said_null(r) ? TX_NONE : TX_UNSURE;
}

void reads_tx_refuse(struct reads *r)
{
	r->tx.readings[r->tx.told].said = TX_SAID_NO_GOOD;
}

bool reads_tx_is_gone(const struct reads *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->provider_count; i++) {
		enum tx_said said = r->tx.readings[i].said;

		if (said != TX_SAID_NOTHING && said != TX_SAID_GONE)
			return false;
		any |= said == TX_SAID_GONE;
	}
	return any;
}

void reads_tx_forget(struct reads *r)
{
	r->tx.used = false;
}
