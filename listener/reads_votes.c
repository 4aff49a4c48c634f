#include "listener/reads_parts.h"

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

/* The doubted one still stands: it is what was said now, or an ancestor of it; links forget what our own chain keeps. */
static bool still_stands(const struct reads *r, const struct tag_reading *t, const struct hash32 *said)
{
	const struct link *at = links_find(&r->links, said);
	bool ours = reads_is_ours(r, t->newer_height, &t->newer);

	for (; at; at = links_find(&r->links, &at->parent)) {
		if (hash_eq(&at->hash, &t->newer))
			return true;
		if (ours && at->height > t->newer_height && reads_is_ours(r, at->height, &at->hash))
			return true;
	}
	return false;
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

static void hear_tag(struct reads *r, struct provider *p, unsigned tag, const struct hash32 *said, uint64_t height)
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
		t->newer_height = height;
		t->newer_ms = reads_now_ms(r);
	}
	if (!is_believed(r, p, tag))
		return;
	t->known = true;
	t->hash = t->newer;
	t->height = t->newer_height;
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
		hear_tag(r, p, call->kind, &r->notice.header.hash, r->notice.header.number);
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
		/* One that is slow holds nothing up, nor does what is left of two. */
		all &= tag->fetch.asked > 1 || (r->config->hedge_min_ms && tag->fetch.asked && !tag->fetch.again_ms);
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

#define FLOOR_ROUNDS 3

static void begin_round(const struct reads *r, struct floor_reading *f, uint64_t height, uint64_t round)
{
	bool again = f->height == height && f->since_ms && !f->known && round <= f->round + FLOOR_ROUNDS;

	f->unanswered = again ? f->unanswered + 1 : 0;
	if (!again)
		f->since_ms = reads_now_ms(r);
	f->height = height;
	f->round = round;
	f->known = false;
}

static bool is_silent(const struct reads *r, const struct floor_reading *f)
{
	return !f->known && f->unanswered >= FLOOR_ROUNDS &&
	       reads_now_ms(r) - f->since_ms >= (int64_t)r->config->timeout_ms;
}

/* Nothing waits for those that do not say, if another does. */
static bool leave_silent(struct reads *r)
{
	bool all = true;

	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (!provider_is_live(p) || p->floor.known)
			continue;
		if (is_silent(r, &p->floor))
			provider_event(p, HEV_SILENT);
		else
			all = false;
	}
	reads_choose_leader(r);
	return all;
}

static bool ask_floor(struct reads *r, struct provider *p, uint64_t height, uint64_t round)
{
	struct floor_reading *f = &p->floor;
	char params[48];

	if (f->height != height || f->round != round)
		begin_round(r, f, height, round);
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
	*out = (struct floor_vote){ 0 };
	for (unsigned i = 0; i < r->provider_count; i++) {
		struct provider *p = &r->providers[i];

		if (!provider_is_live(p))
			continue;
		if (!ask_floor(r, p, height, round))
			continue;
		if (hash_eq(&p->floor.hash, ours)) {
			out->ours++;
		} else {
			out->others++;
			out->other = p->floor.hash;
		}
	}
	return out->ours + out->others > 0 && leave_silent(r);
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
