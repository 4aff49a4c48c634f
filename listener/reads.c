#include "listener/reads_parts.h"

#include "common/log.h"
#include "listener/verify.h"

#include <stdio.h>

#define RETRIES_AT_ONCE 3	/* a node often lacks for an instant what it just announced */
#define RETRY_DOUBLINGS 6
#define HEDGE_TRIPS 5		/* an answer that takes so many round trips is asked for once more */

int64_t reads_now_ms(const struct reads *r)
{
	return r->loop->ops->steady_ms(r->loop);
}

static void on_retry(struct loop_timer *timer)
{
	struct reads *r = timer->ctx;

	r->changed(r->ctx);
}

/* Asking once at a time, and once more if the answer is slow. */

void reads_wake_at(struct reads *r, int64_t at_ms)
{
	if (!r->retry.set || at_ms < r->retry.at_ms)
		r->loop->ops->timer_set(r->loop, &r->retry, at_ms);
}

bool reads_may_ask(struct reads *r, struct fetch *f)
{
	int64_t from_ms = f->asked ? f->again_ms : f->next_ms;

	if (f->asked && !f->again_ms)
		return false;
	if (from_ms > reads_now_ms(r)) {
		reads_wake_at(r, from_ms);
		return false;
	}
	return true;
}

bool reads_may_ask_of(struct reads *r, const struct provider *p, struct fetch *f)
{
	if (provider_is_throttled(p)) {
		reads_wake_at(r, p->rpc.not_before_ms);
		return false;
	}
	return reads_may_ask(r, f);
}

void reads_ended(struct reads *r, struct fetch *f, unsigned turn, bool good)
{
	unsigned doublings;

	if (turn != f->turn)
		return;
	if (good) {
		*f = (struct fetch){ .turn = turn + 1, .who = f->who };
		return;
	}
	f->asked -= f->asked > 0;
	f->next_ms = 0;
	/* The other call may still bring it. */
	if (f->asked || ++f->failures < RETRIES_AT_ONCE)
		return;
	doublings = f->failures - RETRIES_AT_ONCE;
	if (doublings > RETRY_DOUBLINGS)
		doublings = RETRY_DOUBLINGS;
	f->next_ms = reads_now_ms(r) + (r->config->retry_ms << doublings);
}

bool reads_gone(const struct reads *r, struct fetch *f, unsigned who)
{
	f->gone |= 1u << who;
	for (unsigned i = 0; i < r->provider_count; i++) {
		if (provider_is_live(&r->providers[i]) && !(f->gone & 1u << i))
			return false;
	}
	return true;
}

static void lead(struct reads *r, unsigned next)
{
	if (next != r->leader)
		log_info("endpoint=%u leads", next);
	r->leader = next;
}

/* The one that leads stays as long as it is live. */
void reads_choose_leader(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		unsigned next = (r->leader + i) % r->provider_count;

		if (provider_is_live(&r->providers[next])) {
			lead(r, next);
			return;
		}
	}
}

static bool is_willing(const struct provider *p, enum need need)
{
	if (!provider_is_live(p) || provider_is_throttled(p))
		return false;
	return need != NEED_BLOCK_RECEIPTS || !p->lacks_block_receipts;
}

/* The leader first; after a failure, or beside a call that is slow, the next one that is willing. */
struct provider *reads_choose(struct reads *r, const struct fetch *f, enum need need)
{
	unsigned from = f->failures || f->asked ? f->who + 1 : r->leader;

	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[(from + i) % r->provider_count];

		if (is_willing(p, need))
			return p;
	}
	return NULL;
}

/* All that would answer asked to be left alone for a while. */
static void wait_for_any(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		if (provider_is_live(p) && provider_is_throttled(p))
			reads_wake_at(r, p->rpc.not_before_ms);
	}
}

static int64_t hedge_ms(const struct reads *r, const struct provider *p)
{
	int64_t wait_ms = HEDGE_TRIPS * p->rpc.trip_ms;

	return wait_ms > r->config->hedge_min_ms ? wait_ms : r->config->hedge_min_ms;
}

void reads_ask_of(struct reads *r, struct provider *p, struct fetch *f, struct rpc_call call, const char *params)
{
	bool may_hedge = !f->asked && r->config->hedge_min_ms;

	f->asked++;
	f->again_ms = may_hedge ? reads_now_ms(r) + hedge_ms(r, p) : 0;
	if (may_hedge)
		reads_wake_at(r, f->again_ms);
	f->who = p->index;
	call.ctx = r;
	call.who = p->index;
	call.turn = f->turn;
	rpc_start(&p->rpc, &call, params);
}

/* With no endpoint live the question waits: a change of health brings the asker here again. */
void reads_ask(struct reads *r, struct fetch *f, enum need need, struct rpc_call call, const char *params)
{
	struct provider *p = reads_choose(r, f, need);

	if (p)
		reads_ask_of(r, p, f, call, params);
	else
		wait_for_any(r);
}

void reads_hold(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++)
		rpc_hold(&r->providers[i].rpc);
}

void reads_release(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++)
		rpc_release(&r->providers[i].rpc);
}

/* What the answer says of the endpoint; its leader may have to change. */
void reads_heard(struct reads *r, unsigned who, enum rpc_outcome outcome, bool held)
{
	provider_heard(&r->providers[who]);
	if (outcome == RPC_RESULT)
		provider_judged(&r->providers[who], held);
	reads_choose_leader(r);
}

const char *reads_describe(enum rpc_outcome outcome, const struct reply *reply)
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
			*head = (struct head){ true, h->hash, true, h->number, (int64_t)h->timestamp, head->heard };
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
bool reads_take_block(struct reads *r, struct slice json, const char *what, const struct hash32 *asked)
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

void reads_keep_block(struct reads *r)
{
	struct body_slot *slot;

	if (!r->notice.has_transactions)
		return;
	slot = bodies_use(&r->bodies, &r->notice.header.hash);
	if (!slot->has_block)
		swap_blocks(&slot->block, &r->notice);
	slot->has_block = true;
}

/* The answer that is on its way will do, or heads that come faster than answers would keep us waiting for ever. */
static void want_tag(const struct reads *r, struct tag_reading *t, enum tag tag)
{
	t->wanted |= !t->fetch.asked && config_uses_tag(r->config, tag);
}

static void refresh_tags(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		for (unsigned tag = TAG_SAFE; tag < TAGS; tag++)
			want_tag(r, &r->providers[i].tags[tag], (enum tag)tag);
	}
}

static struct loop_times times_now(const struct reads *r)
{
	return r->loop->ops->times ? r->loop->ops->times(r->loop) : (struct loop_times){ 0, 0 };
}

/* Announced again it was still heard when it was heard first. */
static void set_head(struct provider *p, struct head head)
{
	if (p->head.known && hash_eq(&p->head.hash, &head.hash))
		head.heard = p->head.heard;
	p->head = head;
}

static void on_head(void *ctx, struct provider *p, struct slice json)
{
	struct reads *r = ctx;
	struct loop_times heard = times_now(r);
	bool good = reads_take_block(r, json, "head", NULL);

	if (good) {
		const struct header *h = &r->notice.header;

		set_head(p, (struct head){ true, h->hash, true, h->number, (int64_t)h->timestamp, heard });
		reads_keep_block(r);
	} else if (!hash_is_zero(&r->notice.header.hash)) {
		/* Perhaps a field was left out: what it names is asked for whole. */
		set_head(p, (struct head){ .known = true, .hash = r->notice.header.hash, .heard = heard });
	}
	if (good)
		r->head_read_ms = reads_now_ms(r);
	provider_judged(p, good);
	reads_choose_leader(r);
	refresh_tags(r);
	r->changed(r->ctx);
}

const struct head *reads_head(const struct reads *r)
{
	return &r->providers[r->leader].head;
}

bool reads_is_ours(const struct reads *r, uint64_t height, const struct hash32 *hash)
{
	const struct hash32 *ours = r->ours ? window_at(r->ours, height) : NULL;

	return ours && hash_eq(ours, hash);
}

/* Its ancestry is known down to a block of ours; before there is one, each is as good. */
static bool is_linked(const struct reads *r, const struct head *head)
{
	const struct link *at = links_find(&r->links, &head->hash);
	uint64_t height = head->height;

	if (!r->ours || !r->ours->count)
		return true;
	/* A header is free to lie about its height. */
	for (; at && at->height == height; height--, at = links_find(&r->links, &at->parent)) {
		if (reads_is_ours(r, height, &at->hash) || reads_is_ours(r, height - 1, &at->parent))
			return true;
	}
	return false;
}

/* Who is behind: its head is far below another's, of one that links. */
static void judge_lag(struct reads *r)
{
	uint64_t highest = 0;

	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (!provider_is_live(p) || !p->head.verified || !is_linked(r, &p->head))
			continue;
		p->unfounded = false;
		if (p->head.height > highest)
			highest = p->head.height;
	}
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];
		bool lags = p->head.verified && p->head.height + r->config->lag_blocks < highest;

		provider_event(p, lags ? HEV_LAGS : HEV_CAUGHT_UP);
	}
}

/* Whether a head far above the leader's links is seen when it is followed. */
static void try_higher(struct reads *r)
{
	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		if (provider_is_live(p) && !p->unfounded && p->head.verified && reads_head(r)->verified &&
		    p->head.height > reads_head(r)->height + r->config->lag_blocks)
			lead(r, i);
	}
}

void reads_poll(struct reads *r)
{
	judge_lag(r);
	reads_choose_leader(r);
	try_higher(r);
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

	reads_choose_leader(r);
	r->changed(r->ctx);
}

void reads_start(struct reads *r, struct loop *loop, const struct endpoint_urls *endpoints, unsigned count,
		 const struct chain_config *config, struct genesis genesis, void (*changed)(void *ctx), void *ctx)
{
	struct provider_owner owner = { on_head, on_change, r };

	*r = (struct reads){
		.loop = loop,
		.provider_count = count,
		.config = config,
		.genesis = genesis,
		.changed = changed,
		.ctx = ctx,
		.head_read_ms = loop->ops->steady_ms(loop),
		.retry = { .fire = on_retry, .ctx = r },
	};
	for (unsigned i = 0; i < count; i++)
		provider_start(&r->providers[i], loop, &endpoints[i], i, config, &r->genesis, &owner);
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
	bool good = outcome == RPC_RESULT && reads_take_block(r, reply->result, "block", &call->hash);

	if (outcome == RPC_CANCELED)
		return;
	reads_heard(r, call->who, outcome, good);
	/* A header alone is no block: it is asked for again, but not at once for ever. */
	if (slot)
		reads_ended(r, &slot->block_fetch, call->turn, good && r->notice.has_transactions);
	if (good)
		reads_keep_block(r);
	else if (outcome != RPC_RESULT)
		RLOG_REFUSED("block", &call->hash, reads_describe(outcome, reply));
	r->changed(r->ctx);
}

static void ask_block(struct reads *r, struct body_slot *slot)
{
	char text[HASH_TEXT], params[96];

	if (!reads_may_ask(r, &slot->block_fetch))
		return;
	snprintf(params, sizeof(params), "[\"%s\",false]", hash_format(&slot->hash, text));
	reads_ask(r, &slot->block_fetch, NEED_ANY,
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

bool reads_lacks_header(struct reads *r, const struct hash32 *hash)
{
	const struct body_slot *slot = bodies_find(&r->bodies, hash);

	return slot && slot->block_fetch.failures >= RETRIES_AT_ONCE;
}

/* A head that nothing stands under. */

/* It may be followed instead of the leader. */
static bool is_other(const struct reads *r, const struct provider *p)
{
	return p->index != r->leader && provider_is_live(p) && !provider_is_throttled(p) && !p->unfounded &&
	       p->head.known && !hash_eq(&p->head.hash, &reads_head(r)->hash);
}

static bool has_other(const struct reads *r)
{
	bool has = false;

	for (unsigned i = 0; i < r->provider_count; i++)
		has |= is_other(r, &r->providers[i]);
	return has;
}

/* Its head is our tip, below @height, or so little below that it is not behind. */
static bool has_other_below(const struct reads *r, uint64_t height)
{
	bool has = false;

	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		has |= is_other(r, p) && p->head.verified && p->head.height < height &&
		       p->head.height + 1 + r->config->lag_blocks >= height;
	}
	return has;
}

static void set_leader_aside(struct reads *r)
{
	struct provider *p = &r->providers[r->leader];

	log_odd("endpoint=%u announced a head of which nobody has the ancestors", p->index);
	p->unfounded = true;
	provider_event(p, HEV_LIED);
	reads_choose_leader(r);
}

bool reads_distrust_head(struct reads *r, const struct hash32 *missing)
{
	const struct body_slot *slot = bodies_find(&r->bodies, missing);

	if (!slot || slot->block_fetch.failures < RETRIES_AT_ONCE + r->provider_count || !has_other(r))
		return false;
	set_leader_aside(r);
	return true;
}

/* By number. */

bool reads_is_at(struct reads *r, uint64_t height)
{
	if (r->notice.header.number == height)
		return true;
	r->refused++;
	log_odd("block by number refused asked=%llu why=\"it is that of height %llu\"", (unsigned long long)height,
		(unsigned long long)r->notice.header.number);
	return false;
}

static struct numbered *find_numbered(struct reads *r, uint64_t height)
{
	return &r->numbered[height % NUMBERED_MAX];
}

static void number_done(struct rpc_call *call, enum rpc_outcome outcome, const struct reply *reply)
{
	struct reads *r = call->ctx;
	struct numbered *n = find_numbered(r, call->number);
	bool good = outcome == RPC_RESULT && reads_take_block(r, reply->result, "block by number", NULL) &&
		    reads_is_at(r, call->number);

	if (outcome == RPC_CANCELED)
		return;
	reads_heard(r, call->who, outcome, good);
	if (n->used && n->height == call->number && n->fetch.turn == call->turn) {
		reads_ended(r, &n->fetch, call->turn, good);
		if (good) {
			n->known = true;
			n->hash = r->notice.header.hash;
		}
	}
	if (good)
		reads_keep_block(r);
	r->changed(r->ctx);
}

bool reads_distrust_far_head(struct reads *r, uint64_t height)
{
	const struct numbered *n = find_numbered(r, height);

	if (!n->used || n->height != height || n->known || n->fetch.failures < RETRIES_AT_ONCE ||
	    n->fetch.failures < r->provider_count || !has_other_below(r, height))
		return false;
	set_leader_aside(r);
	return true;
}

bool reads_number(struct reads *r, uint64_t height, uint64_t round, struct hash32 *out)
{
	struct numbered *n = find_numbered(r, height);
	char params[48];

	if (!n->used || n->height != height || n->round != round) {
		bool asked = n->used && n->height == height && n->fetch.asked;
		struct fetch fetch = asked ? n->fetch : (struct fetch){ .turn = n->fetch.turn + 1 };

		*n = (struct numbered){ .used = true, .height = height, .round = round, .fetch = fetch };
	}
	if (n->known) {
		*out = n->hash;
		return true;
	}
	if (reads_may_ask(r, &n->fetch)) {
		snprintf(params, sizeof(params), "[\"0x%llx\",false]", (unsigned long long)height);
		reads_ask(r, &n->fetch, NEED_ANY,
		    (struct rpc_call){ .method = "eth_getBlockByNumber", .done = number_done, .number = height },
		    params);
	}
	return false;
}

