#include "listener/tracker_parts.h"

#include "listener/settle.h"

int64_t tracker_now_ms(const struct tracker *tr)
{
	return tr->loop->ops->now_ms(tr->loop);
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
	/* Our own branch is no other one: that it is right must be proven. */
	if (plan.kind != PLAN_ROLLBACK && plan.kind != PLAN_SHORTER)
		return false;
	return tracker_apply_next(tr, head, &plan);
}

/* The first head: we stand just below it; on a genesis block, which has no transactions, at it. */
static bool find_start(struct tracker *tr)
{
	const struct hash32 *hash = &reads_head(&tr->reads)->hash;
	const struct link *head;

	if (tr->window.count)
		return true;
	if (!needs_header(tr, hash))
		return false;
	head = links_find(&tr->reads.links, hash);
	if (head->height)
		window_push(&tr->window, head->height - 1, &head->parent);
	else
		window_push(&tr->window, 0, &head->hash);
	return true;
}

void tracker_set_trouble(struct tracker *tr, enum tracker_trouble trouble)
{
	static const char *const names[] = {
		[TROUBLE_NONE] = "none",
		[TROUBLE_STALE] = "stale",
		[TROUBLE_UNLINKED] = "unlinked",
		[TROUBLE_LATCHED] = "latched",
		[TROUBLE_ALONE] = "fewer endpoints live than must agree",
	};

	if (trouble != tr->trouble)
		TLOG(LOG_INFO, tr, "trouble=%s", , names[trouble]);
	tr->trouble = trouble;
}

/* Far behind: by number, several ahead, each linked by hash to the one before. */
static bool forward(struct tracker *tr, const struct fork_plan *far)
{
	struct fork_limits limits = limits_of(tr);
	struct fork_plan plan;
	struct hash32 hash;

	for (unsigned i = 1; i < tr->config->ahead_blocks; i++) {
		if (reads_number(&tr->reads, far->from + i, tr->round, &hash))
			reads_body(&tr->reads, &hash);
	}
	if (!reads_number(&tr->reads, far->from, tr->round, &hash))
		return false;
	plan = fork_plan(&tr->window, &tr->reads.links, &hash, &limits);
	if (plan.kind == PLAN_EXTEND || plan.kind == PLAN_ROLLBACK)
		return tracker_apply_next(tr, &hash, &plan);
	if (plan.kind == PLAN_NEED_HEADER)
		return needs_header(tr, &plan.hash);
	if (plan.kind == PLAN_VIOLATION)
		tracker_hear_violation(tr, &plan);
	if (plan.kind == PLAN_UNLINKED)
		tracker_set_trouble(tr, TROUBLE_UNLINKED);
	return false;
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
	if (plan.below_start && !tr->chain.has_tip) {
		tracker_start_window(tr, plan.ancestor, &plan.base);
		return true;
	}
	if (plan.kind != PLAN_UNLINKED && plan.kind != PLAN_FORWARD && tr->trouble == TROUBLE_UNLINKED)
		tracker_set_trouble(tr, TROUBLE_NONE);
	switch (plan.kind) {
	case PLAN_CURRENT:
	case PLAN_BEHIND:
		*current = true;
		tr->shorter.said = tr->denial.said = false;
		return false;
	case PLAN_NEED_HEADER:
		return needs_header(tr, &plan.hash);
	case PLAN_FORWARD:
		return forward(tr, &plan);
	case PLAN_SHORTER:
		if (!tracker_said_twice(tr, &tr->shorter, head))
			return false;
		return tracker_apply_next(tr, head, &plan);
	case PLAN_EXTEND:
	case PLAN_ROLLBACK:
		return tracker_apply_next(tr, head, &plan);
	case PLAN_UNLINKED:
		tracker_set_trouble(tr, TROUBLE_UNLINKED);
		return false;
	case PLAN_VIOLATION:
		tracker_hear_violation(tr, &plan);
		return false;
	}
	return false;
}

/* The turn. */

void tracker_run(struct tracker *tr)
{
	bool current = false;

	if (tr->stopped)
		return;
	if (tr->chain.latched)
		tracker_hear_latched(tr);
	while (!tr->stopped && follow_accepted(tr))
		;
	if (tr->chain.latched)
		tracker_set_trouble(tr, TROUBLE_LATCHED);
	if (tr->chain.latched || tr->stopped)
		return;
	if (reads_head(&tr->reads)->known) {
		while (!tr->stopped && follow(tr, &current))
			;
	}
	while (!tr->stopped && tracker_look_up(tr))
		;
	tracker_finalize(tr, current);
}

static void on_change(void *ctx)
{
	tracker_run(ctx);
}

static void on_poll(struct loop_timer *timer)
{
	struct tracker *tr = timer->ctx;

	tr->round++;
	reads_poll(&tr->reads);
	tr->loop->ops->timer_set(tr->loop, timer, tracker_now_ms(tr) + tr->config->poll_ms);
}

static void load_body(struct kv_txn *t, struct tracker *tr, struct complaint *why)
{
	struct key from = key_u64(tr->config->chain_id);
	struct kv_cursor c;
	struct block_row b;

	chain_open(t, tr->config->chain_id, tr->config->has_genesis ? &tr->config->genesis : NULL,
		   &tr->chain, why);
	for (bool more = kv_seek(t, T_BLOCK, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		uint64_t height = be64_get(c.key + 8);

		if (!row_decode(t, c.val, ROW_BLOCK, &b))
			return;
		if (tr->window.count == 0)
			window_push(&tr->window, height - 1, &b.parent);
		window_push(&tr->window, height, &b.hash);
	}
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

enum err tracker_start(struct tracker *tr, struct loop *loop, struct kv *kv,
		       const char *const *urls, unsigned url_count, const struct chain_config *config, const struct tracker_watcher *watcher,
		       struct complaint *why)
{
	struct load l = { tr, why };
	enum err err;

	*tr = (struct tracker){ .loop = loop, .kv = kv, .config = config, .watcher = *watcher };
	tr->poll = (struct loop_timer){ .fire = on_poll, .ctx = tr };
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
	reads_start(&tr->reads, loop, urls, url_count, config, on_change, tr);
	loop->ops->timer_set(loop, &tr->poll, tracker_now_ms(tr) + config->poll_ms);
	return OK;
}

void tracker_stop(struct tracker *tr)
{
	tr->stopped = true;
	tr->loop->ops->timer_cancel(tr->loop, &tr->poll);
	reads_stop(&tr->reads);
	gather_free(&tr->gather);
	window_free(&tr->window);
}

void tracker_accept(struct kv_txn *t, struct tracker *tr, const struct hash32 *hash)
{
	struct chain_row chain;

	if (!chain_get(t, tr->config->chain_id, &chain))
		return;
	for (unsigned i = 0; i < tr->config->finality.tier_count; i++)
		chain.marks[i].suspended = false;
	if (chain.latched) {
		chain.accepted = true;
		chain.accepted_hash = *hash;
	}
	chain_put(t, tr->config->chain_id, &chain);
	tr->chain = chain;
}
