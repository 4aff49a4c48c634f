#include "listener/tracker_parts.h"

#include "listener/settle.h"

#include <stdlib.h>
#include <string.h>

int64_t tracker_now_ms(const struct tracker *tr)
{
	return tr->loop->ops->now_ms(tr->loop);
}

int64_t tracker_steady_ms(const struct tracker *tr)
{
	return tr->loop->ops->steady_ms(tr->loop);
}

/* Following. */

static struct fork_limits limits_of(const struct tracker *tr)
{
	struct fork_limits limits = { .far_blocks = tr->config->far_blocks };

	limits.at_start = !tr->chain.has_tip || tr->window.base_height + 1 == tr->chain.start_height;
	limits.has_floor = settle_floor(tr->config, &tr->chain, &limits.floor_height);
	return limits;
}

static bool needs_header(struct tracker *tr, const struct hash32 *hash)
{
	if (!links_find(&tr->reads.links, hash))
		reads_ask_header(&tr->reads, hash);
	return links_find(&tr->reads.links, hash) != NULL;
}

static void load_window(struct kv_txn *t, struct tracker *tr, uint64_t from_height)
{
	struct key from = key_block(tr->config->chain_id, from_height);
	struct kv_cursor c;
	struct block_row b;

	for (bool more = kv_seek(t, T_BLOCK, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		uint64_t height = be64_get(c.key + 8);

		if (!row_decode(t, c.val, ROW_BLOCK, &b))
			return;
		if (tr->window.count == 0)
			window_push(&tr->window, height - 1, &b.parent);
		window_push(&tr->window, height, &b.hash);
	}
}

/* All blocks that we keep, however far below the watermarks; true if that is more than before. */
static bool widen_window(struct tracker *tr)
{
	uint64_t base = tr->window.base_height;
	struct kv_txn t = kv_begin_read(tr->kv);

	window_free(&tr->window);
	load_window(&t, tr, 0);
	return tracker_end_read(tr, &t) && tr->window.base_height < base;
}

/* One step onto the branch of the operator's block, whatever that undoes; true if there may be another. */
static bool follow_accepted(struct tracker *tr)
{
	const struct hash32 *head = tracker_is_accepted(tr) ? &reads_head(&tr->reads)->hash : &tr->chain.accepted_hash;
	struct fork_limits limits = { .far_blocks = UINT32_MAX };
	struct fork_plan plan;

	if (!tr->chain.latched || !tr->chain.accepted)
		return false;
	plan = fork_plan(&tr->window, &tr->reads.links, head, &limits);
	if (plan.kind == PLAN_NEED_HEADER)
		return needs_header(tr, &plan.hash);
	if (plan.kind == PLAN_UNLINKED)
		return widen_window(tr);
	/* Our own branch is no other one: that it is right must be proven. */
	if (plan.kind != PLAN_ROLLBACK && plan.kind != PLAN_SHORTER)
		return false;
	return tracker_apply_next(tr, head, &plan);
}

static void start_body(struct kv_txn *t, struct commit *c)
{
	struct chain_row *chain = &c->apply.chain;

	chain->has_start = true;
	chain->start_height = c->start_height;
	chain->start_parent = c->theirs;
	chain_put(t, c->tr->config->chain_id, chain);
}

/* Following begins with the block of @height, on @parent; on a genesis block, which has no transactions, at it. */
static bool begin_at(struct tracker *tr, uint64_t height, const struct hash32 *hash, const struct hash32 *parent)
{
	struct commit c = { .body = start_body, .start_height = height ? height : 1,
			    .theirs = height ? *parent : *hash };

	/* Crash before: another head may be the first.  After: no block from here on is left out. */
	if (!tracker_commit(tr, &c))
		return false;
	window_push(&tr->window, c.start_height - 1, &c.theirs);
	return true;
}

/* The first head, or the height that the configuration names. */
static bool find_start(struct tracker *tr)
{
	struct hash32 hash = reads_head(&tr->reads)->hash;
	const struct link *link;

	if (tr->window.count)
		return true;
	/* Not at the word of an endpoint that may be another chain's. */
	if (!provider_is_live(&tr->reads.providers[tr->reads.leader]))
		return false;
	if (tr->config->has_start && !reads_number(&tr->reads, tr->config->start_height, tr->round, &hash))
		return false;
	if (!needs_header(tr, &hash))
		return false;
	link = links_find(&tr->reads.links, &hash);
	return begin_at(tr, link->height, &hash, &link->parent);
}

/* Trouble. */

const char *tracker_trouble_name(enum tracker_trouble trouble)
{
	static const char *const names[TROUBLES] = {
		[TROUBLE_NONE] = "none",
		[TROUBLE_STALE] = "stale",
		[TROUBLE_UNLINKED] = "unlinked",
		[TROUBLE_LATCHED] = "latched",
		[TROUBLE_ALONE] = "fewer endpoints live than must agree",
		[TROUBLE_UNPROVEN] = "unproven",
	};

	return names[trouble];
}

static bool is_stale(const struct tracker *tr)
{
	const struct head *head = reads_head(&tr->reads);
	int64_t newest_s = head->verified ? head->time_s : tr->chain.tip_time_s;

	return tracker_now_ms(tr) > (newest_s + tr->config->head_age_s) * 1000 ||
	       tracker_steady_ms(tr) > tr->reads.head_read_ms + tr->config->stale_s * 1000;
}

static enum tracker_trouble find_trouble(const struct tracker *tr)
{
	if (tr->chain.latched)
		return TROUBLE_LATCHED;
	if (tr->unlinked)
		return TROUBLE_UNLINKED;
	if (tr->obstacle.unproven)
		return TROUBLE_UNPROVEN;
	if (is_stale(tr))
		return TROUBLE_STALE;
	return reads_live(&tr->reads) < reads_agree(&tr->reads) ? TROUBLE_ALONE : TROUBLE_NONE;
}

/* For how long the cursor has stood still below the head. */
static void note_obstacle(struct tracker *tr, bool current)
{
	struct obstacle *o = &tr->obstacle;
	struct hash32 tip;

	if (current || !tr->window.count) {
		*o = (struct obstacle){ .stands = false };
		return;
	}
	tip = *window_at(&tr->window, window_tip_height(&tr->window));
	if (!o->stands || !hash_eq(&o->tip, &tip))
		*o = (struct obstacle){ .stands = true, .tip = tip, .since_ms = tracker_steady_ms(tr),
					.known = o->known, .hash = o->hash };
	o->unproven = tracker_steady_ms(tr) - o->since_ms > tr->config->unproven_s * 1000;
}

enum tracker_trouble tracker_judge(struct tracker *tr)
{
	enum tracker_trouble trouble = find_trouble(tr);

	if (trouble != tr->trouble)
		TLOG(LOG_INFO, tr, "trouble=%s", , tracker_trouble_name(trouble));
	tr->trouble = trouble;
	return trouble;
}

/* The highest of the heights from @from on up to which all are known; false: not even the first. */
static bool known_ahead(struct tracker *tr, uint64_t from, struct hash32 *first, struct hash32 *last)
{
	const struct head *head = reads_head(&tr->reads);
	uint64_t most = head->verified && head->height >= from ? head->height - from + 1 : 1;
	bool linked = true, any = false;
	struct hash32 hash;

	for (unsigned i = 0; i < tr->config->ahead_blocks && i < most; i++) {
		if (!reads_number(&tr->reads, from + i, tr->round, &hash)) {
			linked = false;
			continue;
		}
		reads_body(&tr->reads, &hash);
		if (linked)
			*last = hash;
		if (i == 0)
			*first = hash;
		any |= i == 0;
	}
	return any;
}

#define DEEPER_BLOCKS 24

static void push_below(struct fork_plan *plan, const struct hash32 *hash)
{
	if (plan->path_count < PLAN_PATH_MAX)
		plan->path_count++;
	memmove(&plan->path[1], &plan->path[0], (plan->path_count - 1) * sizeof(plan->path[0]));
	plan->path[0] = *hash;
}

/*
 * Our first block left the chain, and what was in it, or after it, may be mined again below it: following begins anew some
 * blocks deeper, as far as headers are to be had.  False: one is asked for.
 */
static bool deepen(struct tracker *tr, struct fork_plan *plan)
{
	const struct link *at;

	for (unsigned i = 0; plan->below_start && i < DEEPER_BLOCKS && plan->ancestor > 0; i++) {
		if (!needs_header(tr, &plan->base))
			return reads_lacks_header(&tr->reads, &plan->base);
		at = links_find(&tr->reads.links, &plan->base);
		push_below(plan, &plan->base);
		plan->base = at->parent;
		plan->ancestor--;
	}
	return true;
}

/* One step along the plan for the block @head; true if it may be asked at once for the next. */
static bool step(struct tracker *tr, const struct hash32 *head, struct fork_plan *plan)
{
	if (plan->below_start && !tr->chain.has_tip) {
		tracker_start_window(tr, plan->ancestor, &plan->base);
		return true;
	}
	/* Before the first block is applied a head below it is only late. */
	tr->unlinked = plan->kind == PLAN_UNLINKED && tr->chain.has_tip;
	switch (plan->kind) {
	case PLAN_NEED_HEADER:
		return needs_header(tr, &plan->hash);
	case PLAN_SHORTER:
		if (!tracker_said_twice(tr, &tr->shorter, head))
			return false;
		return deepen(tr, plan) && tracker_apply_next(tr, head, plan);
	case PLAN_EXTEND:
	case PLAN_ROLLBACK:
		return deepen(tr, plan) && tracker_apply_next(tr, head, plan);
	case PLAN_VIOLATION:
		tracker_hear_violation(tr, plan);
		return false;
	case PLAN_CURRENT:
	case PLAN_BEHIND:
	case PLAN_FORWARD:
	case PLAN_UNLINKED:
		return false;
	}
	return false;
}

/* Far behind: by number, several ahead, each linked by hash to the one before. */
static bool forward(struct tracker *tr, const struct fork_plan *far)
{
	struct fork_limits limits = limits_of(tr);
	struct hash32 first, last;
	struct fork_plan plan;

	if (!known_ahead(tr, far->from, &first, &last))
		return false;
	plan = fork_plan(&tr->window, &tr->reads.links, &last, &limits);
	if (plan.kind == PLAN_EXTEND)
		return step(tr, &last, &plan);
	plan = fork_plan(&tr->window, &tr->reads.links, &first, &limits);
	return step(tr, &first, &plan);
}

/* What the leader's head stands on is not to be had of anybody: another leads now. */
static bool is_unfounded(struct tracker *tr, const struct fork_plan *plan)
{
	if (plan->kind == PLAN_NEED_HEADER)
		return reads_distrust_head(&tr->reads, &plan->hash);
	return plan->kind == PLAN_FORWARD && reads_distrust_far_head(&tr->reads, plan->from);
}

/* One step towards the head; true if it may be asked at once for the next. */
static bool follow(struct tracker *tr, bool *current)
{
	const struct hash32 *head = &reads_head(&tr->reads)->hash;
	struct fork_limits limits = limits_of(tr);
	struct fork_plan plan;

	*current = false;
	if (!find_start(tr))
		return false;
	plan = fork_plan(&tr->window, &tr->reads.links, head, &limits);
	if (is_unfounded(tr, &plan))
		return true;
	if (plan.kind == PLAN_FORWARD)
		return forward(tr, &plan);
	if (plan.kind == PLAN_CURRENT || plan.kind == PLAN_BEHIND) {
		*current = tr->caught_up = true;
		tr->shorter.said = tr->denial.said = false;
	}
	return step(tr, head, &plan);
}

/* The turn. */

#define TURN_COMMITS 32

bool tracker_is_tired(struct tracker *tr)
{
	if (tr->budget)
		return false;
	tr->loop->ops->timer_set(tr->loop, &tr->again, tracker_steady_ms(tr));
	return true;
}

static bool goes_on(struct tracker *tr)
{
	return !tr->stopped && !tracker_is_tired(tr);
}

/*
 * The next block is on its way, and what is final will be made final in its commit: one fewer.  Where it does not come within
 * the time after which it is asked for again, nothing waits for it.
 */
static bool expects_block(const struct tracker *tr)
{
	return tr->obstacle.stands && tracker_steady_ms(tr) - tr->obstacle.since_ms < tr->config->hedge_min_ms;
}

static void run(struct tracker *tr)
{
	bool current = false;

	if (tr->stopped)
		return;
	tr->budget = TURN_COMMITS;
	if (tr->chain.latched)
		tracker_hear_latched(tr);
	while (goes_on(tr) && follow_accepted(tr))
		;
	if (!tr->chain.latched && reads_head(&tr->reads)->known) {
		while (goes_on(tr) && follow(tr, &current))
			;
		note_obstacle(tr, current);
	}
	while (!tr->chain.latched && goes_on(tr) && tracker_look_up(tr))
		;
	while (!tr->chain.latched && goes_on(tr) && tracker_read_late(tr))
		;
	if (!tr->stopped && tracker_judge(tr) != TROUBLE_LATCHED && !expects_block(tr))
		tracker_finalize(tr, current);
}

static void on_change(void *ctx)
{
	run(ctx);
}

static void on_again(struct loop_timer *timer)
{
	run(timer->ctx);
}

static void on_poll(struct loop_timer *timer)
{
	struct tracker *tr = timer->ctx;

	tr->round++;
	reads_poll(&tr->reads);
	tracker_judge(tr);
	tr->loop->ops->timer_set(tr->loop, timer, tracker_steady_ms(tr) + tr->config->poll_ms);
}

/* From where the hashes that are kept in memory begin; the tip's is one of them. */
static uint64_t window_from(const struct tracker *tr)
{
	uint64_t from = tracker_window_from(tr);

	return tr->chain.has_tip && from > tr->chain.tip_height ? tr->chain.tip_height : from;
}

static void load_body(struct kv_txn *t, struct tracker *tr, struct complaint *why)
{
	chain_open(t, tr->config->chain_id, tr->config->has_genesis ? &tr->config->genesis : NULL,
		   &tr->chain, why);
	load_window(t, tr, window_from(tr));
	if (tr->window.count == 0 && tr->chain.has_start)
		window_push(&tr->window, tr->chain.start_height - 1, &tr->chain.start_parent);
}

struct load {
	struct tracker *tr;
	struct complaint *why;
};

static void load(struct kv_txn *t, void *ctx)
{
	struct load *l = ctx;

	window_free(&l->tr->window);
	load_body(t, l->tr, l->why);
}

static void trust(struct tracker *tr)
{
	tr->reads.trusted = tr->chain.trusted;
	tr->reads.trusted_hash = tr->chain.trusted_hash;
}

enum err tracker_start(struct tracker *tr, struct loop *loop, struct kv *kv,
		       const struct endpoint_urls *endpoints, unsigned endpoint_count, const struct chain_config *config, const struct tracker_watcher *watcher,
		       struct complaint *why)
{
	struct load l = { tr, why };
	struct genesis genesis;
	enum err err;

	*tr = (struct tracker){ .loop = loop, .kv = kv, .config = config, .watcher = *watcher };
	tr->poll = (struct loop_timer){ .fire = on_poll, .ctx = tr };
	tr->again = (struct loop_timer){ .fire = on_again, .ctx = tr };
	why->text[0] = '\0';
	/* Crash before: no genesis is kept.  After: it is, and nothing else. */
	err = kv_write(kv, load, &l);
	if (err) {
		if (!why->text[0])
			complain(why, err, "chain %llu: the store cannot be read: %s",
				 (unsigned long long)config->chain_id, err_name(err));
		window_free(&tr->window);
		return err;
	}
	tracker_trim_window(tr);
	genesis = (struct genesis){ tr->chain.has_genesis, tr->chain.genesis };
	reads_start(&tr->reads, loop, endpoints, endpoint_count, config, genesis, on_change, tr);
	tr->reads.ours = &tr->window;
	trust(tr);
	loop->ops->timer_set(loop, &tr->poll, tracker_steady_ms(tr) + config->poll_ms);
	return OK;
}

void tracker_stop(struct tracker *tr)
{
	tr->stopped = true;
	tr->loop->ops->timer_cancel(tr->loop, &tr->poll);
	tr->loop->ops->timer_cancel(tr->loop, &tr->again);
	reads_stop(&tr->reads);
	gather_free(&tr->gather);
	window_free(&tr->window);
	free(tr->put_off);
}

void tracker_look_again(struct tracker *tr)
{
	struct kv_txn t = kv_begin_read(tr->kv);

	if (!tr->stopped)
		chain_get(&t, tr->config->chain_id, &tr->chain);
	if (!tracker_end_read(tr, &t))
		return;
	trust(tr);
	tr->lookups_from_ms = 0;
	run(tr);
}

void tracker_accept(struct kv_txn *t, const struct chain_config *config, const struct hash32 *hash)
{
	struct chain_row chain;

	if (!chain_get(t, config->chain_id, &chain))
		return;
	for (unsigned i = 0; i < TIERS_MAX; i++)
		chain.marks[i].suspended = false;
	if (chain.latched) {
		chain.accepted = true;
		chain.accepted_hash = *hash;
	}
	chain_put(t, config->chain_id, &chain);
}

void tracker_accept_unproven(struct kv_txn *t, const struct chain_config *config, const struct hash32 *hash)
{
	struct chain_row chain;

	if (!chain_get(t, config->chain_id, &chain))
		return;
	chain.trusted = true;
	chain.trusted_hash = *hash;
	chain_put(t, config->chain_id, &chain);
}
