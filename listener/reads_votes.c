#include "listener/reads_parts.h"

#include "common/json.h"
#include "common/log.h"

#include <stdio.h>

/* Tags: of each endpoint its own. */

static bool another_says(const struct reads *r, const struct provider *but, unsigned tag, const struct hash32 *hash)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];
		const struct tag_reading *t = &p->tags[tag];

		if (p != but && provider_is_live(p) &&
		    ((t->known && hash_eq(&t->hash, hash)) || (t->doubted && hash_eq(&t->newer, hash))))
			return true;
	}
	return false;
}

/* The doubted one still stands: it is what was said now, or an ancestor of it. */
static bool still_stands(const struct reads *r, const struct tag_reading *t, const struct hash32 *said)
{
	const struct link *at = links_find(&r->links, said);

	while (at && !hash_eq(&at->hash, &t->newer))
		at = links_find(&r->links, &at->parent);
	return at != NULL;
}

static void count_lower(const struct reads *r, struct provider *p, unsigned tag, const struct hash32 *said)
{
	const struct link *then = links_find(&r->links, &p->tags[tag].hash), *now = links_find(&r->links, said);

	if (!p->tags[tag].known || !then || !now || now->height >= then->height)
		return;
	p->tags_lower++;
	log_odd("endpoint=%u says that %s went back from=%llu to=%llu", p->index, tag_name((enum tag)tag),
		(unsigned long long)then->height, (unsigned long long)now->height);
}

/* One endpoint alone is not believed at once. */
static bool is_believed(const struct reads *r, const struct provider *p, unsigned tag)
{
	const struct tag_reading *t = &p->tags[tag];

	return reads_now_ms(r) - t->newer_ms >= r->config->tag_settle_ms || another_says(r, p, tag, &t->newer);
}

static void hear_tag(struct reads *r, struct provider *p, unsigned tag, const struct hash32 *said)
{
	struct tag_reading *t = &p->tags[tag];

	if (t->known && hash_eq(&t->hash, said)) {
		t->doubted = false;
		return;
	}
	count_lower(r, p, tag, said);
	if (!t->doubted || !still_stands(r, t, said)) {
		t->doubted = true;
		t->newer = *said;
		t->newer_ms = reads_now_ms(r);
	}
	if (!is_believed(r, p, tag))
		return;
	t->known = true;
	t->hash = t->newer;
	t->doubted = false;
}

static void tag_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct provider *p = &r->providers[call->who];
	struct fetch *f = &p->tags[call->kind].fetch;
	bool good = outcome == RPC_RESULT && reads_take_block(r, reply->result, tag_name((enum tag)call->kind), NULL);
	bool late = call->turn != f->turn;

	if (outcome == RPC_CANCELED)
		return;
	reads_ended(r, f, call->turn, good);
	/* One that does not tell is asked with the next head again. */
	f->failures = 0;
	f->next_ms = 0;
	reads_heard(r, call->who, outcome, good);
	if (good && !late)
		hear_tag(r, p, call->kind, &r->notice.header.hash);
	r->changed(r->ctx);
}

static bool ask_tags(struct reads *r, struct provider *p)
{
	bool all = true;
	char params[48];

	for (unsigned i = TAG_SAFE; i < TAGS; i++) {
		struct tag_reading *tag = &p->tags[i];

		if (!tag->wanted && !tag->fetch.asked)
			continue;
		if (reads_may_ask(r, &tag->fetch)) {
			tag->wanted = false;
			snprintf(params, sizeof(params), "[\"%s\",false]", tag_name((enum tag)i));
			reads_ask_of(r, p, &tag->fetch,
			    (struct rpc_call){ .method = "eth_getBlockByNumber", .done = tag_done, .kind = i }, params);
		}
		/* One that is slow holds nothing up. */
		all &= tag->fetch.asked > 1;
	}
	return all;
}

bool reads_tags(struct reads *r)
{
	bool all = true;

	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		/* Nor does one that asked to be left alone. */
		if (provider_is_live(p) && !provider_is_throttled(p))
			all &= ask_tags(r, p);
	}
	return all;
}

/* The floor: what each says of our last final block. */

static void floor_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct floor_reading *f = &r->providers[call->who].floor;
	bool good = outcome == RPC_RESULT && reads_take_block(r, reply->result, "final block", NULL) &&
		    reads_is_at(r, call->number);

	if (outcome == RPC_CANCELED)
		return;
	reads_heard(r, call->who, outcome, good);
	if (good && f->height == call->number && f->fetch.turn == call->turn) {
		f->known = true;
		f->hash = r->notice.header.hash;
	}
	reads_ended(r, &f->fetch, call->turn, good);
	r->changed(r->ctx);
}

static bool ask_floor(struct reads *r, struct provider *p, uint64_t height, uint64_t round)
{
	struct floor_reading *f = &p->floor;
	char params[48];

	if (f->height != height || f->round != round) {
		f->height = height;
		f->round = round;
		f->known = false;
	}
	if (f->known || !reads_may_ask_of(r, p, &f->fetch))
		return f->known;
	snprintf(params, sizeof(params), "[\"0x%llx\",false]", (unsigned long long)height);
	reads_ask_of(r, p, &f->fetch,
	      (struct rpc_call){ .method = "eth_getBlockByNumber", .done = floor_done, .number = height }, params);
	return false;
}

bool reads_floor(struct reads *r, uint64_t height, const struct hash32 *ours, uint64_t round,
		 struct floor_vote *out)
{
	bool all = true;

	*out = (struct floor_vote){ 0 };
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (!provider_is_live(p))
			continue;
		if (!ask_floor(r, p, height, round)) {
			all = false;
		} else if (hash_eq(&p->floor.hash, ours)) {
			out->ours++;
		} else {
			out->others++;
			out->other = p->floor.hash;
		}
	}
	return all && out->ours + out->others > 0;
}

void reads_set_aside(struct reads *r, const struct hash32 *ours)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (provider_is_live(p) && p->floor.known && !hash_eq(&p->floor.hash, ours))
			provider_event(p, HEV_LIED);
	}
	reads_choose_leader(r);
}

/* Where a transaction is. */

static void tx_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct tx_place *tx = &r->tx;
	struct complaint why;
	bool good = outcome == RPC_NULL;

	if (outcome == RPC_CANCELED)
		return;
	/* Nothing proves it. */
	reads_heard(r, call->who, outcome == RPC_RESULT ? RPC_NULL : outcome, false);
	if (!hash_eq(&call->hash, &tx->tx_hash) || tx->answered)
		return;
	tx->mined = false;
	if (outcome == RPC_RESULT) {
		struct json_doc *doc = json_open(reply->result, &why);

		if (doc) {
			struct json root = json_root(doc);
			struct u256 height = json_quantity(json_member(root, "blockNumber"));
			char text[U256_TEXT];

			tx->block_hash = json_hash(json_member(root, "blockHash"));
			good = tx->mined = u64_parse(slice_of_text(u256_format(&height, text)), &tx->height) &&
					   json_finish(doc, &why) == OK;
			json_close(doc);
		}
	}
	reads_ended(r, &tx->fetch, call->turn, good);
	tx->answered = good;
	r->changed(r->ctx);
}

bool reads_tx(struct reads *r, const struct hash32 *tx_hash, struct tx_place *out)
{
	struct tx_place *tx = &r->tx;
	char text[HASH_TEXT], params[80];

	if (!tx->used || !hash_eq(&tx->tx_hash, tx_hash))
		*tx = (struct tx_place){ .used = true, .tx_hash = *tx_hash };
	if (tx->answered) {
		*out = *tx;
		tx->used = false;
		return true;
	}
	if (reads_may_ask(r, &tx->fetch)) {
		snprintf(params, sizeof(params), "[\"%s\"]", hash_format(tx_hash, text));
		reads_ask(r, &tx->fetch, NEED_ANY,
		    (struct rpc_call){ .method = "eth_getTransactionReceipt", .done = tx_done, .hash = *tx_hash },
		    params);
	}
	return false;
}
