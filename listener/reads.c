#include "listener/reads.h"

#include "common/json.h"
#include "common/log.h"
#include "listener/verify.h"

#include <stdio.h>

#define RETRIES_AT_ONCE 3	/* a node often lacks for an instant what it just announced */
#define RETRY_DOUBLINGS 6

#define RLOG_REFUSED(what, h, why_text) \
	do { \
		char hash_text[HASH_TEXT]; \
		log_odd("%s refused block=%s why=\"%s\"", what, hash_format(h, hash_text), why_text); \
	} while (0)

static int64_t now_ms(const struct reads *r)
{
	return r->loop->ops->now_ms(r->loop);
}

static void on_retry(struct loop_timer *timer)
{
	struct reads *r = timer->ctx;

	r->changed(r->ctx);
}

/* Asking once at a time. */

static void wake_at(struct reads *r, int64_t at_ms)
{
	if (!r->retry.set || at_ms < r->retry.at_ms)
		r->loop->ops->timer_set(r->loop, &r->retry, at_ms);
}

static bool may_ask(struct reads *r, struct fetch *f)
{
	if (f->asked)
		return false;
	if (f->next_ms > now_ms(r)) {
		wake_at(r, f->next_ms);
		return false;
	}
	return true;
}

static void fetch_ended(struct reads *r, struct fetch *f, bool good)
{
	unsigned doublings;

	f->asked = false;
	f->next_ms = 0;
	if (good) {
		f->failures = 0;
		return;
	}
	if (++f->failures < RETRIES_AT_ONCE)
		return;
	doublings = f->failures - RETRIES_AT_ONCE;
	if (doublings > RETRY_DOUBLINGS)
		doublings = RETRY_DOUBLINGS;
	f->next_ms = now_ms(r) + (r->config->retry_ms << doublings);
}

/* The one that leads stays as long as it is live. */
static void choose_leader(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		unsigned next = (r->leader + i) % r->provider_count;

		if (!provider_is_live(&r->providers[next]))
			continue;
		if (next != r->leader)
			log_info("endpoint=%u leads", next);
		r->leader = next;
		return;
	}
}

/* The leader first; after a failure the next one that is live. */
static struct provider *choose_provider(struct reads *r, const struct fetch *f)
{
	unsigned from = f->failures ? f->who + 1 : r->leader;

	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[(from + i) % r->provider_count];

		if (provider_is_live(p))
			return p;
	}
	return NULL;
}

static void start(struct reads *r, struct provider *p, struct fetch *f, struct rpc_call call, const char *params)
{
	f->asked = true;
	f->who = p->index;
	call.ctx = r;
	call.who = p->index;
	rpc_start(&p->rpc, &call, params);
}

/* With no endpoint live the question waits: a change of health brings the asker here again. */
static void ask(struct reads *r, struct fetch *f, struct rpc_call call, const char *params)
{
	struct provider *p = choose_provider(r, f);

	if (!p)
		return;
	start(r, p, f, call, params);
}

/* What the answer says of the endpoint; its leader may have to change. */
static void heard(struct reads *r, unsigned who, enum rpc_outcome outcome, bool held)
{
	provider_heard(&r->providers[who], outcome != RPC_FAILED, outcome != RPC_RESULT || held);
	choose_leader(r);
}

/* The outcome as a line, for the log of what failed. */
static const char *describe(enum rpc_outcome outcome, const struct reply *reply)
{
	switch (outcome) {
	case RPC_NULL:
		return "null";
	case RPC_ERROR:
		return reply->message;
	case RPC_RESULT:
	case RPC_FAILED:
	case RPC_CANCELED:
		break;
	}
	return "no answer";
}

/* Headers and blocks. */

static void learn_header(struct reads *r, const struct header *h)
{
	struct link link = { h->hash, h->parent_hash, h->number };

	links_add(&r->links, &link);
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct head *head = &r->providers[i].head;

		if (head->known && hash_eq(&head->hash, &h->hash))
			*head = (struct head){ true, h->hash, true, h->number, (int64_t)h->timestamp };
	}
}

static void swap_blocks(struct block *a, struct block *b)
{
	struct block c = *a;

	*a = *b;
	*b = c;
}

#define PLAUSIBLE ((uint64_t)1 << 40)	/* heights, and seconds since 1970 */

static enum err check_plausible(const struct header *h, struct complaint *why)
{
	if (h->number < PLAUSIBLE && h->timestamp < PLAUSIBLE)
		return OK;
	return complain(why, E_PEER, "no block has the height %llu and the time %llu",
			(unsigned long long)h->number, (unsigned long long)h->timestamp);
}

/* Decode and verify into r->notice; what verifies is learnt. */
static bool take_block(struct reads *r, struct slice json, const char *what, const struct hash32 *asked)
{
	static const struct hash32 unknown;
	struct complaint why;

	r->notice.header.hash = unknown;
	if (block_decode(json, &r->notice, &why) == OK &&
	    verify_header(&r->notice.header, &r->scratch, &why) == OK &&
	    check_plausible(&r->notice.header, &why) == OK) {
		if (!asked || hash_eq(asked, &r->notice.header.hash)) {
			learn_header(r, &r->notice.header);
			return true;
		}
		complain(&why, E_PEER, "another block than asked for");
	}
	r->refused++;
	RLOG_REFUSED(what, asked ? asked : &r->notice.header.hash, why.text);
	return false;
}

static void keep_block(struct reads *r)
{
	struct body_slot *slot;

	if (!r->notice.has_transactions)
		return;
	slot = bodies_use(&r->bodies, &r->notice.header.hash);
	if (!slot->has_block)
		swap_blocks(&slot->block, &r->notice);
	slot->has_block = true;
}

static bool policy_uses(const struct chain_config *c, enum tag tag)
{
	for (unsigned i = 0; i < c->finality.tier_count; i++) {
		if (c->finality.tiers[i].tag == tag)
			return true;
	}
	return false;
}

static void refresh_tags(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		for (unsigned tag = TAG_SAFE; tag < TAGS; tag++)
			r->providers[i].tags[tag].wanted = policy_uses(r->config, (enum tag)tag);
	}
}

static void on_head(void *ctx, struct provider *p, struct slice json)
{
	struct reads *r = ctx;
	bool good = take_block(r, json, "head", NULL);

	if (good) {
		const struct header *h = &r->notice.header;

		p->head = (struct head){ true, h->hash, true, h->number, (int64_t)h->timestamp };
		keep_block(r);
	} else if (!hash_is_zero(&r->notice.header.hash)) {
		/* Perhaps a field was left out: what it names is asked for whole. */
		p->head = (struct head){ .known = true, .hash = r->notice.header.hash };
	}
	provider_heard(p, true, good);
	choose_leader(r);
	refresh_tags(r);
	r->changed(r->ctx);
}

const struct head *reads_head(const struct reads *r)
{
	return &r->providers[r->leader].head;
}

/* Who is behind: its head is far below another's. */
static void judge_lag(struct reads *r)
{
	uint64_t highest = 0;

	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		if (provider_is_live(p) && p->head.verified && p->head.height > highest)
			highest = p->head.height;
	}
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];
		bool lags = p->head.verified && p->head.height + r->config->lag_blocks < highest;

		provider_event(p, lags ? HEV_LAGS : HEV_CAUGHT_UP);
	}
}

void reads_poll(struct reads *r)
{
	judge_lag(r);
	choose_leader(r);
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (p->health == HEALTH_LIVE || p->health == HEALTH_BEHIND)
			provider_ask_head(p);
	}
}

unsigned reads_live(const struct reads *r)
{
	unsigned live = 0;

	for (unsigned i = 0; i < r->provider_count; i++)
		live += provider_is_live(&r->providers[i]);
	return live;
}

unsigned reads_agree(const struct reads *r)
{
	if (r->config->agree)
		return r->config->agree;
	return r->provider_count > 1 ? 2 : 1;
}

static void on_change(void *ctx)
{
	struct reads *r = ctx;

	choose_leader(r);
	r->changed(r->ctx);
}

void reads_start(struct reads *r, struct loop *loop, const char *const *urls, unsigned count,
		 const struct chain_config *config, void (*changed)(void *ctx), void *ctx)
{
	struct provider_owner owner = { on_head, on_change, r };

	*r = (struct reads){
		.loop = loop,
		.provider_count = count,
		.config = config,
		.changed = changed,
		.ctx = ctx,
		.retry = { .fire = on_retry, .ctx = r },
	};
	for (unsigned i = 0; i < count; i++)
		provider_start(&r->providers[i], loop, urls[i], i, config, &owner);
}

void reads_stop(struct reads *r)
{
	r->loop->ops->timer_cancel(r->loop, &r->retry);
	for (unsigned i = 0; i < r->provider_count; i++)
		provider_stop(&r->providers[i]);
	bodies_free(&r->bodies);
	block_free(&r->notice);
	buf_free(&r->scratch);
}

static void block_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);
	bool good = outcome == RPC_RESULT && take_block(r, reply->result, "block", &call->hash);

	if (outcome == RPC_CANCELED)
		return;
	heard(r, call->who, outcome, good);
	/* A header alone is no block: it is asked for again, but not at once for ever. */
	if (slot)
		fetch_ended(r, &slot->block_fetch, good && r->notice.has_transactions);
	if (good)
		keep_block(r);
	else if (outcome != RPC_RESULT)
		RLOG_REFUSED("block", &call->hash, describe(outcome, reply));
	r->changed(r->ctx);
}

static void ask_block(struct reads *r, struct body_slot *slot)
{
	char text[HASH_TEXT], params[96];

	if (!may_ask(r, &slot->block_fetch))
		return;
	snprintf(params, sizeof(params), "[\"%s\",false]", hash_format(&slot->hash, text));
	ask(r, &slot->block_fetch,
	    (struct rpc_call){ .method = "eth_getBlockByHash", .done = block_done, .hash = slot->hash }, params);
}

void reads_ask_header(struct reads *r, const struct hash32 *hash)
{
	struct body_slot *slot = bodies_use(&r->bodies, hash);

	/* The links forgot it; the block is still here. */
	if (slot->has_block)
		learn_header(r, &slot->block.header);
	else
		ask_block(r, slot);
}

/* By number. */

static struct numbered *find_numbered(struct reads *r, uint64_t height)
{
	return &r->numbered[height % NUMBERED_MAX];
}

static void number_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct numbered *n = find_numbered(r, call->number);
	bool good = outcome == RPC_RESULT && take_block(r, reply->result, "block by number", NULL) &&
		    r->notice.header.number == call->number;

	if (outcome == RPC_CANCELED)
		return;
	heard(r, call->who, outcome, good);
	if (n->used && n->height == call->number) {
		fetch_ended(r, &n->fetch, good);
		n->known = good;
		if (good)
			n->hash = r->notice.header.hash;
	}
	if (good)
		keep_block(r);
	r->changed(r->ctx);
}

bool reads_number(struct reads *r, uint64_t height, uint64_t round, struct hash32 *out)
{
	struct numbered *n = find_numbered(r, height);
	char params[48];

	if (!n->used || n->height != height || n->round != round) {
		bool asked = n->used && n->height == height && n->fetch.asked;

		*n = (struct numbered){ .used = true, .height = height, .round = round, .fetch.asked = asked };
	}
	if (n->known) {
		*out = n->hash;
		return true;
	}
	if (may_ask(r, &n->fetch)) {
		snprintf(params, sizeof(params), "[\"0x%llx\",false]", (unsigned long long)height);
		ask(r, &n->fetch,
		    (struct rpc_call){ .method = "eth_getBlockByNumber", .done = number_done, .number = height },
		    params);
	}
	return false;
}

/* Bodies. */

static bool take_receipts(struct reads *r, struct body_slot *slot, struct slice json)
{
	struct complaint why;

	if (receipts_decode(json, &slot->receipts, &why) == OK &&
	    verify_receipts(&slot->block, &slot->receipts, &r->scratch, &why) == OK)
		return true;
	r->refused++;
	RLOG_REFUSED("receipts", &slot->hash, why.text);
	return false;
}

static void receipts_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);

	if (outcome == RPC_CANCELED)
		return;
	if (outcome != RPC_RESULT)
		RLOG_REFUSED("receipts", &call->hash, describe(outcome, reply));
	if (slot && slot->has_block && !slot->has_receipts) {
		slot->has_receipts = outcome == RPC_RESULT && take_receipts(r, slot, reply->result);
		heard(r, call->who, outcome, slot->has_receipts);
		fetch_ended(r, &slot->receipts_fetch, slot->has_receipts);
	}
	r->changed(r->ctx);
}

struct body_slot *reads_body(struct reads *r, const struct hash32 *hash)
{
	struct body_slot *slot = bodies_use(&r->bodies, hash);
	char text[HASH_TEXT], params[80];

	if (!slot->has_block) {
		ask_block(r, slot);
		return NULL;
	}
	if (slot->has_receipts)
		return slot;
	if (may_ask(r, &slot->receipts_fetch)) {
		snprintf(params, sizeof(params), "[\"%s\"]", hash_format(hash, text));
		ask(r, &slot->receipts_fetch,
		    (struct rpc_call){ .method = "eth_getBlockReceipts", .done = receipts_done, .hash = *hash },
		    params);
	}
	return NULL;
}

/* Witnesses: balanceOf at the block and at its parent, by hash (EIP-1898). */

enum { BEFORE, AFTER };

static void end_reading(struct body_witness *bw)
{
	if (bw->have_before && bw->have_after) {
		bw->readings++;
		bw->witness.have = true;
	}
}

static void take_balance(struct body_witness *bw, unsigned which, const struct u256 *v)
{
	if (which == BEFORE) {
		bw->witness.before = *v;
		bw->have_before = true;
	} else {
		bw->witness.after = *v;
		bw->have_after = true;
	}
	end_reading(bw);
}

#define BALANCE_TRIES 5		/* a failing node counts as one without the state */

static void balance_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct body_slot *slot = bodies_find(&r->bodies, &call->hash);
	struct body_witness *bw;
	struct complaint why;
	struct fetch *f;
	struct u256 v;

	if (outcome == RPC_CANCELED)
		return;
	heard(r, call->who, outcome, true);
	/* By what was asked, not by its place: the slot may have been given up and made anew since. */
	bw = slot ? bodies_witness(slot, &call->token, &call->account) : NULL;
	if (!bw)
		return;
	f = call->kind == BEFORE ? &bw->before : &bw->after;
	if (outcome == RPC_RESULT && result_word(reply->result, &v, &why) == OK) {
		fetch_ended(r, f, true);
		take_balance(bw, call->kind, &v);
	} else {
		bool gone = outcome == RPC_ERROR && rpc_is_gone(reply);

		fetch_ended(r, f, false);
		if (gone || f->failures >= BALANCE_TRIES)
			f->failures = BALANCE_TRIES;
	}
	r->changed(r->ctx);
}

static void ask_balance(struct reads *r, struct body_slot *slot, struct body_witness *bw, unsigned which)
{
	struct fetch *f = which == BEFORE ? &bw->before : &bw->after;
	const struct hash32 *at = which == BEFORE ? &slot->block.header.parent_hash : &slot->hash;
	char token[ADDRESS_TEXT], payee[ADDRESS_TEXT], hash[HASH_TEXT], params[320];

	if (f->failures >= BALANCE_TRIES || !may_ask(r, f))
		return;
	snprintf(params, sizeof(params),
		 "[{\"to\":\"%s\",\"data\":\"0x70a08231000000000000000000000000%s\"},{\"blockHash\":\"%s\"}]",
		 address_format(&bw->witness.token, token), address_format(&bw->witness.payee, payee) + 2,
		 hash_format(at, hash));
	ask(r, f,
	    (struct rpc_call){ .method = "eth_call", .done = balance_done, .hash = slot->hash, .kind = which,
			       .token = bw->witness.token, .account = bw->witness.payee }, params);
}

static bool is_read_or_gone(const struct body_witness *bw)
{
	return bw->witness.have || bw->before.failures >= BALANCE_TRIES || bw->after.failures >= BALANCE_TRIES;
}

/* A contradiction that cannot be read again stands: the doubt is a person's. */
static void keep_first(struct body_witness *bw)
{
	bw->witness = bw->first;
	bw->readings++;
}

bool reads_witnesses(struct reads *r, struct body_slot *slot)
{
	bool all = true;

	for (size_t i = 0; i < slot->witness_count; i++) {
		struct body_witness *bw = &slot->witnesses[i];

		if (!bw->witness.have && bw->readings == 1 && is_read_or_gone(bw))
			keep_first(bw);
		if (is_read_or_gone(bw))
			continue;
		all = false;
		if (!bw->have_before)
			ask_balance(r, slot, bw, BEFORE);
		if (!bw->have_after)
			ask_balance(r, slot, bw, AFTER);
	}
	return all;
}

void reads_witness_again(struct reads *r, struct body_slot *slot, struct body_witness *w)
{
	w->first = w->witness;
	w->witness.have = w->have_before = w->have_after = false;
	/* As after a failure: elsewhere, if there is another endpoint. */
	w->before.failures = w->after.failures = 1;
	reads_witnesses(r, slot);
}

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

/* One endpoint alone is not believed at once. */
static void hear_tag(struct reads *r, struct provider *p, unsigned tag, const struct hash32 *said)
{
	struct tag_reading *t = &p->tags[tag];

	if (t->known && hash_eq(&t->hash, said)) {
		t->doubted = false;
		return;
	}
	if (!t->doubted || !still_stands(r, t, said)) {
		t->doubted = true;
		t->newer = *said;
		t->newer_ms = now_ms(r);
	}
	if (now_ms(r) - t->newer_ms < r->config->tag_settle_ms && !another_says(r, p, tag, &t->newer))
		return;
	t->known = true;
	t->hash = t->newer;
	t->doubted = false;
}

static void tag_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct provider *p = &r->providers[call->who];
	bool good = outcome == RPC_RESULT && take_block(r, reply->result, tag_name((enum tag)call->kind), NULL);

	fetch_ended(r, &p->tags[call->kind].fetch, true);
	if (outcome == RPC_CANCELED)
		return;
	heard(r, call->who, outcome, good);
	if (good)
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
		all = false;
		if (!may_ask(r, &tag->fetch))
			continue;
		tag->wanted = false;
		snprintf(params, sizeof(params), "[\"%s\",false]", tag_name((enum tag)i));
		start(r, p, &tag->fetch,
		      (struct rpc_call){ .method = "eth_getBlockByNumber", .done = tag_done, .kind = i }, params);
	}
	return all;
}

bool reads_tags(struct reads *r)
{
	bool all = true;

	for (unsigned i = 0; i < r->provider_count; i++) {
		if (provider_is_live(&r->providers[i]))
			all &= ask_tags(r, &r->providers[i]);
	}
	return all;
}

/* The floor: what each says of our last final block. */

static void floor_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct floor_reading *f = &r->providers[call->who].floor;
	bool good = outcome == RPC_RESULT && take_block(r, reply->result, "final block", NULL) &&
		    r->notice.header.number == call->number;

	if (outcome == RPC_CANCELED)
		return;
	heard(r, call->who, outcome, good);
	fetch_ended(r, &f->fetch, good);
	if (good && f->height == call->number) {
		f->known = true;
		f->hash = r->notice.header.hash;
	}
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
	if (f->known || !may_ask(r, &f->fetch))
		return f->known;
	snprintf(params, sizeof(params), "[\"0x%llx\",false]", (unsigned long long)height);
	start(r, p, &f->fetch,
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
	choose_leader(r);
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
	heard(r, call->who, outcome, true);
	if (!hash_eq(&call->hash, &tx->tx_hash))
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
	fetch_ended(r, &tx->fetch, good);
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
	if (may_ask(r, &tx->fetch)) {
		snprintf(params, sizeof(params), "[\"%s\"]", hash_format(tx_hash, text));
		ask(r, &tx->fetch,
		    (struct rpc_call){ .method = "eth_getTransactionReceipt", .done = tx_done, .hash = *tx_hash },
		    params);
	}
	return false;
}
