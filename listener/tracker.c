#include "listener/tracker.h"

#include "common/log.h"
#include "listener/settle.h"
#include "store/sightings.h"

#include <stdlib.h>
#include <string.h>

#define TLOG(level, tr, fmt, ...) \
	log_line(level, fmt " chain=%llu" __VA_ARGS__, (unsigned long long)(tr)->config->chain_id)

static int64_t now_ms(const struct tracker *tr)
{
	return tr->loop->ops->now_ms(tr->loop);
}

/* Commits. */

struct commit {
	struct tracker *tr;
	void (*body)(struct kv_txn *t, struct commit *c);
	struct apply apply;

	/* of a block */
	struct body body_in;
	struct branch branch;
	bool rolls_back;
	bool catching_up;
	struct body_slot *slot;
	bool lacks_witnesses;		/* undone: more balances are wanted */

	/* of finality */
	struct finality_view view;
	bool more;

	/* of a lookup */
	uint64_t row;
	struct tx_place too_old;	/* where it is, if below all hashes that we keep */
	bool has_body;

	/* of a latch */
	struct hash32 theirs;
	bool latch;
};

static void commit_body(struct kv_txn *t, void *ctx)
{
	struct commit *c = ctx;
	struct tracker *tr = c->tr;

	c->lacks_witnesses = c->more = false;
	c->apply = apply_begin(t, tr->config, now_ms(tr));
	c->apply.catching_up = c->catching_up;
	c->body(t, c);
	apply_end(&c->apply);
	if (t->err == OK && tr->watcher.committing)
		tr->watcher.committing(tr->watcher.ctx, t);
}

/* A failed disk stops the tracker. */
static void give_up(struct tracker *tr, enum err err, const char *at)
{
	tr->err = err;
	tr->stopped = true;
	log_odd("%s failed err=%s", at, err_name(err));
}

static bool end_read(struct tracker *tr, struct kv_txn *t)
{
	enum err err = kv_end_read(t);

	if (err)
		give_up(tr, err, "read");
	return err == OK;
}

/* True if it was committed. */
static bool commit(struct tracker *tr, struct commit *c)
{
	enum err err;

	/* A disk that failed once is not written again: what comes later may rest on what was lost. */
	if (tr->stopped)
		return false;
	c->tr = tr;
	err = kv_write(tr->kv, commit_body, c);
	if (c->lacks_witnesses)
		return false;
	if (err) {
		give_up(tr, err, "commit");
		return false;
	}
	tr->chain = c->apply.chain;
	if (tr->watcher.committed)
		tr->watcher.committed(tr->watcher.ctx);
	return true;
}

/* Blocks. */

/* The operator's block is on the head's branch, as far as that is known. */
static bool is_accepted(const struct tracker *tr)
{
	const struct link *at = links_find(&tr->reads.links, &reads_head(&tr->reads)->hash);

	while (tr->chain.accepted && at) {
		if (hash_eq(&at->hash, &tr->chain.accepted_hash))
			return true;
		at = links_find(&tr->reads.links, &at->parent);
	}
	return false;
}

static struct witness *list_witnesses(const struct body_slot *slot)
{
	struct witness *list = xcalloc(slot->witness_count, sizeof(*list));

	for (size_t i = 0; i < slot->witness_count; i++)
		list[i] = slot->witnesses[i].witness;
	return list;
}

/* Gather with the witnesses that the slot has; what is wanted beyond them is added to it. */
static void gather_slot(struct kv_txn *t, struct tracker *tr, struct body_slot *slot,
			const struct body *body, bool catching_up, bool again, bool *short_of)
{
	struct witness *witnesses = list_witnesses(slot);
	struct gather_input in = {
		.config = tr->config,
		.body = body,
		.witnesses = witnesses,
		.witness_count = slot->witness_count,
		.catching_up = catching_up,
		.again = again,
	};

	gather_block(t, &in, &tr->gather);
	for (size_t i = 0; i < slot->witness_count; i++)
		slot->witnesses[i].witness.disagrees = witnesses[i].disagrees;
	*short_of = tr->gather.wanted_count > 0;
	for (size_t i = 0; i < tr->gather.wanted_count; i++)
		bodies_want(slot, &tr->gather.wanted[i]);
	free(witnesses);
}

/* A balance that contradicts the logs is read twice before it is believed. */
static bool reread_contradictions(struct tracker *tr, struct body_slot *slot)
{
	bool again = false;

	for (size_t i = 0; i < slot->witness_count; i++) {
		struct body_witness *bw = &slot->witnesses[i];

		if (!bw->witness.disagrees || bw->readings != 1)
			continue;
		bw->witness.disagrees = false;
		reads_witness_again(&tr->reads, slot, bw);
		again = true;
	}
	return again;
}

static struct body body_of(const struct body_slot *slot)
{
	return (struct body){ &slot->block, &slot->receipts, PROOF_RECEIPTS };
}

/* The body and all balances that its matches want; NULL: asked for. */
static struct body_slot *whole_body(struct tracker *tr, const struct hash32 *hash, bool catching_up,
				    bool again)
{
	struct body_slot *slot = reads_body(&tr->reads, hash);
	struct body body;
	struct kv_txn t;
	bool short_of;

	if (!slot)
		return NULL;
	if (!reads_witnesses(&tr->reads, slot))
		return NULL;
	body = body_of(slot);
	t = kv_begin_read(tr->kv);
	gather_slot(&t, tr, slot, &body, catching_up, again, &short_of);
	if (!end_read(tr, &t))
		return NULL;
	if (short_of) {
		reads_witnesses(&tr->reads, slot);
		return NULL;
	}
	return reread_contradictions(tr, slot) ? NULL : slot;
}

#define PRUNE_ROWS 64		/* of each kind with a block: more than a block adds, or they would pile up */

static void block_body(struct kv_txn *t, struct commit *c)
{
	struct tracker *tr = c->tr;

	if (c->rolls_back)
		apply_rollback(t, &c->apply, &c->branch);
	gather_slot(t, tr, c->slot, &c->body_in, c->catching_up, false, &c->lacks_witnesses);
	if (c->lacks_witnesses) {
		kv_fail(t, E_REFUSED);
		return;
	}
	apply_block(t, &c->apply, &c->body_in, &tr->gather);
	apply_reconcile(t, &c->apply);
	chain_prune(t, tr->config->chain_id,
		    c->apply.chain.marks[0].height > tr->config->keep_tx_blocks
			    ? c->apply.chain.marks[0].height - tr->config->keep_tx_blocks : 0,
		    c->apply.chain.tip_time_s - tr->config->keep_hashes_s, PRUNE_ROWS);
}

#define WINDOW_BELOW 256	/* hashes kept in memory below the lowest watermark */

static void trim_window(struct tracker *tr)
{
	uint64_t floor;

	if (settle_floor(tr->config, &tr->chain, &floor) && floor > WINDOW_BELOW)
		window_trim(&tr->window, floor - WINDOW_BELOW);
}

/* The header of a branch's block that we know. */
static void add_to_branch(struct hash32 **hashes, size_t *count, const struct hash32 *hash)
{
	*hashes = xrealloc(*hashes, (*count + 1) * sizeof(**hashes));
	(*hashes)[(*count)++] = *hash;
}

/* All known hashes from the head down to the ancestor, then turned round. */
static struct hash32 *list_branch(const struct tracker *tr, const struct hash32 *head, uint64_t ancestor,
				  size_t *count)
{
	const struct link *at = links_find(&tr->reads.links, head);
	struct hash32 *hashes = NULL;

	*count = 0;
	for (; at && at->height > ancestor; at = links_find(&tr->reads.links, &at->parent))
		add_to_branch(&hashes, count, &at->hash);
	for (size_t i = 0; i < *count / 2; i++) {
		struct hash32 h = hashes[i];

		hashes[i] = hashes[*count - 1 - i];
		hashes[*count - 1 - i] = h;
	}
	return hashes;
}

/* A tier whose watermark was wrong settles nothing more until an operator accepts. */
static void tell_suspended(const struct tracker *tr)
{
	for (unsigned i = 0; i < tr->config->finality.tier_count; i++) {
		if (tr->chain.marks[i].suspended)
			TLOG(LOG_ODD, tr, "a reorg went under the watermark of tier %u: it settles nothing until an operator accepts", , i);
	}
}

static void start_window(struct tracker *tr, uint64_t height, const struct hash32 *hash)
{
	tr->window.count = 0;
	window_push(&tr->window, height, hash);
}

static void after_block(struct tracker *tr, const struct commit *c, uint64_t old_tip)
{
	const struct header *h = &c->slot->block.header;

	if (c->rolls_back) {
		window_cut(&tr->window, c->branch.ancestor);
		if (c->branch.below_start)
			start_window(tr, c->branch.ancestor, &c->branch.ancestor_hash);
		tell_suspended(tr);
		if (tr->watcher.rolled_back)
			tr->watcher.rolled_back(tr->watcher.ctx, c->branch.ancestor, old_tip);
	}
	window_push(&tr->window, h->number, &h->hash);
	if (tr->watcher.applied)
		tr->watcher.applied(tr->watcher.ctx, h->number, &h->hash);
	trim_window(tr);
	bodies_drop(c->slot);
}

static bool finalize_all(struct tracker *tr, bool current);

/* Apply the path's first block, after cutting back to @ancestor if it is below the tip. */
static bool apply_next(struct tracker *tr, const struct hash32 *head, const struct fork_plan *plan)
{
	uint64_t old_tip = window_tip_height(&tr->window);
	bool catching_up = plan->path_count > 1 || !hash_eq(&plan->path[0], &reads_head(&tr->reads)->hash);
	struct commit c = {
		.body = block_body,
		.slot = whole_body(tr, &plan->path[0], catching_up, false),
		.rolls_back = plan->kind != PLAN_EXTEND,
		.catching_up = catching_up,
	};
	struct hash32 *hashes = NULL;
	bool done;

	/* Before the first is whole, the next ones are on their way. */
	for (unsigned i = 1; i < plan->path_count && i < tr->config->ahead_blocks; i++)
		reads_body(&tr->reads, &plan->path[i]);
	if (!c.slot || !reads_tags(&tr->reads))
		return false;
	/* A watermark that rose may have another plan. */
	if (finalize_all(tr, false))
		return true;
	c.body_in = body_of(c.slot);
	if (c.rolls_back) {
		hashes = list_branch(tr, head, plan->ancestor, &c.branch.count);
		c.branch.hashes = hashes;
		c.branch.ancestor = plan->ancestor;
		c.branch.below_start = plan->below_start;
		c.branch.ancestor_hash = plan->below_start ? plan->base : *window_at(&tr->window, plan->ancestor);
		c.branch.over_final = tr->chain.latched;	/* only an accepted branch is followed then */
	}
	/* Crash before: the old tip.  After: the new branch's first block, moves and events with it. */
	done = commit(tr, &c);
	if (done)
		after_block(tr, &c, old_tip);
	else if (c.lacks_witnesses)
		reads_witnesses(&tr->reads, c.slot);
	free(hashes);
	return done;
}

/* What must be said twice. */

static bool said_twice(struct tracker *tr, struct claim *claim, const struct hash32 *what)
{
	if (!claim->said || !hash_eq(&claim->what, what)) {
		*claim = (struct claim){ true, *what, now_ms(tr), tr->round };
		return false;
	}
	return tr->round != claim->round && now_ms(tr) - claim->since_ms >= tr->config->poll_ms;
}

static void list_settled_above(struct kv_txn *t, struct commit *c, struct chain_event *e,
			       char names[][INTENT_ID_MAX])
{
	struct sighting_at at = { .chain = c->tr->config->chain_id };
	struct sighting_row s;
	struct intent i;

	for (at.height = c->branch.ancestor + 1; at.height <= c->apply.chain.tip_height; at.height++) {
		at.tx_index = at.ordinal = 0;
		for (at.row = 0; sighting_next_in_block(t, &at, &s); sighting_step(&at)) {
			if (!at.row || !intents_get(t, at.row, &i) || i.state != INTENT_SETTLED ||
			    i.reversed || !hash_eq(&i.tx_hash, &s.tx_hash))
				continue;
			if (e->intent_count < EVENT_NAMES_MAX) {
				memcpy(names[e->intent_count], i.id, INTENT_ID_MAX);
				e->intents[e->intent_count] = names[e->intent_count];
			}
			e->intent_count++;
		}
	}
}

static void latch_body(struct kv_txn *t, struct commit *c)
{
	struct chain_row *chain = &c->apply.chain;
	struct tracker *tr = c->tr;
	char names[EVENT_NAMES_MAX][INTENT_ID_MAX];
	struct chain_event e = { .type = EVENT_CHAIN_FINALITY_VIOLATION, .chain = tr->config->chain_id };

	chain->latched = c->latch;
	chain->accepted = false;
	if (c->latch) {
		settle_floor(tr->config, chain, &chain->latch_height);
		chain->latch_ours = *window_at(&tr->window, chain->latch_height);
		chain->latch_theirs = c->theirs;
		e.watermark = (struct block_ref){ true, chain->latch_height, chain->latch_ours };
		e.claimed = (struct block_ref){ true, chain->latch_height, chain->latch_theirs };
		list_settled_above(t, c, &e, names);
		event_chain(t, chain, &e, c->apply.now_ms);
	}
	chain_put(t, tr->config->chain_id, chain);
}

/*
 * The head's branch would undo a final block.  By some of the endpoints: those
 * are set aside.  By all, twice, a poll apart: the chain is latched.
 */
static void hear_violation(struct tracker *tr, const struct fork_plan *plan)
{
	struct commit c = { .body = latch_body, .latch = true, .branch.ancestor = plan->ancestor };
	struct floor_vote vote;
	const struct hash32 *ours;
	uint64_t floor;

	settle_floor(tr->config, &tr->chain, &floor);
	ours = window_at(&tr->window, floor);
	if (!ours || !reads_floor(&tr->reads, floor, ours, tr->round, &vote))
		return;
	if (vote.others == 0) {
		tr->denial.said = false;
		return;
	}
	if (!tr->denial.said)
		TLOG(LOG_ODD, tr, "a node denies our final block height=%llu", , (unsigned long long)floor);
	if (!said_twice(tr, &tr->denial, &vote.other))
		return;
	if (vote.ours) {
		tr->denial.said = false;
		reads_set_aside(&tr->reads, ours);
		return;
	}
	TLOG(LOG_ODD, tr, "latched height=%llu", , (unsigned long long)floor);
	c.theirs = vote.other;
	/* Crash before: the claim is heard again.  After: latched until proof or an operator lifts it. */
	commit(tr, &c);
}

/* Latched: it falls by itself only when every live endpoint has our final block again. */
static void hear_latched(struct tracker *tr)
{
	struct commit c = { .body = latch_body, .latch = false };
	struct floor_vote vote;

	if (!reads_floor(&tr->reads, tr->chain.latch_height, &tr->chain.latch_ours, tr->round, &vote) || vote.others)
		return;
	TLOG(LOG_ODD, tr, "the latch fell, the nodes have our blocks again height=%llu", ,
	     (unsigned long long)tr->chain.latch_height);
	tr->denial.said = false;
	/* Crash before: latched, and proven again.  After: nothing had been changed. */
	commit(tr, &c);
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
	const struct hash32 *head = is_accepted(tr) ? &reads_head(&tr->reads)->hash : &tr->chain.accepted_hash;
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
	return apply_next(tr, head, &plan);
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

static void set_trouble(struct tracker *tr, enum tracker_trouble trouble)
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
		return apply_next(tr, &hash, &plan);
	if (plan.kind == PLAN_NEED_HEADER)
		return needs_header(tr, &plan.hash);
	if (plan.kind == PLAN_VIOLATION)
		hear_violation(tr, &plan);
	if (plan.kind == PLAN_UNLINKED)
		set_trouble(tr, TROUBLE_UNLINKED);
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
		start_window(tr, plan.ancestor, &plan.base);
		return true;
	}
	if (plan.kind != PLAN_UNLINKED && plan.kind != PLAN_FORWARD && tr->trouble == TROUBLE_UNLINKED)
		set_trouble(tr, TROUBLE_NONE);
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
		if (!said_twice(tr, &tr->shorter, head))
			return false;
		return apply_next(tr, head, &plan);
	case PLAN_EXTEND:
	case PLAN_ROLLBACK:
		return apply_next(tr, head, &plan);
	case PLAN_UNLINKED:
		set_trouble(tr, TROUBLE_UNLINKED);
		return false;
	case PLAN_VIOLATION:
		hear_violation(tr, &plan);
		return false;
	}
	return false;
}

/* Finality. */

/* The highest block of ours that is at or below the tag, by hash. */
static bool resolve_tag(struct tracker *tr, const struct hash32 *tag, uint64_t *height)
{
	uint64_t tip = window_tip_height(&tr->window);
	const struct link *at = links_find(&tr->reads.links, tag);
	const struct hash32 *ours;

	while (at && at->height > tip + 1)
		at = links_find(&tr->reads.links, &at->parent);
	if (!at)
		return false;
	if (at->height == tip + 1) {
		*height = tip;
		return hash_eq(window_at(&tr->window, tip), &at->parent);
	}
	ours = window_at(&tr->window, at->height);
	*height = at->height;
	return ours && hash_eq(ours, &at->hash);
}

/* The highest block at or below the believed tag of so many endpoints as must agree. */
static bool agreed_tag(struct tracker *tr, unsigned tag, uint64_t *height)
{
	uint64_t heights[PROVIDERS_MAX], h;
	unsigned count = 0, agree = reads_agree(&tr->reads);

	for (unsigned i = 0; i < tr->reads.provider_count; i++) {
		const struct provider *p = &tr->reads.providers[i];
		unsigned at = count;

		if (!provider_is_live(p) || !p->tags[tag].known || !resolve_tag(tr, &p->tags[tag].hash, &h))
			continue;
		for (; at > 0 && heights[at - 1] < h; at--)
			heights[at] = heights[at - 1];
		heights[at] = h;
		count++;
	}
	if (count < agree)
		return false;
	*height = heights[agree - 1];
	return agree > 1 || *height + tr->config->tag_depth_blocks <= window_tip_height(&tr->window);
}

static struct finality_view view_of(struct tracker *tr)
{
	struct finality_view view = { .tip_height = window_tip_height(&tr->window) };

	for (unsigned tag = TAG_SAFE; tag < TAGS; tag++)
		view.known[tag] = agreed_tag(tr, tag, &view.height[tag]);
	return view;
}

static void finality_body(struct kv_txn *t, struct commit *c)
{
	settle_raise(t, &c->apply, &c->view);
	c->more = settle_promote(t, &c->apply);
}

static void deadline_body(struct kv_txn *t, struct commit *c)
{
	settle_deadlines(t, &c->apply);
	c->more = settle_has_deadline(t, &c->apply);
}

static bool is_stale(const struct tracker *tr)
{
	const struct head *head = reads_head(&tr->reads);
	int64_t newest_s = head->verified ? head->time_s : tr->chain.tip_time_s;

	return now_ms(tr) > (newest_s + tr->config->head_age_s) * 1000;
}

/* Why nothing may settle now. */
static enum tracker_trouble settling_trouble(const struct tracker *tr)
{
	if (is_stale(tr))
		return TROUBLE_STALE;
	return reads_live(&tr->reads) < reads_agree(&tr->reads) ? TROUBLE_ALONE : TROUBLE_NONE;
}

/* What a look, before any write, says there is to do. */
static bool has_finality_work(struct tracker *tr, const struct finality_view *view, bool *deadlines)
{
	struct kv_txn t = kv_begin_read(tr->kv);
	struct apply a = { .config = tr->config, .chain = tr->chain };
	bool work = settle_would_raise(&t, &a, view) || settle_has_work(&t, &a);

	*deadlines = settle_has_deadline(&t, &a);
	return end_read(tr, &t) && work;
}

/* One slice; true if there may be more. */
static bool finalize(struct tracker *tr, bool current)
{
	struct commit c = { .body = finality_body, .catching_up = !current };
	bool deadlines, work;

	if (!tr->chain.has_tip || tr->chain.latched || !reads_tags(&tr->reads))
		return false;
	set_trouble(tr, settling_trouble(tr));
	if (tr->trouble != TROUBLE_NONE)
		return false;
	c.view = view_of(tr);
	work = has_finality_work(tr, &c.view, &deadlines);
	if (!work && !(deadlines && current))
		return false;
	if (!work)
		c.body = deadline_body;
	/* Crash before: the same is final again.  After: the rest of the slice's successors follow. */
	return commit(tr, &c) && (c.more || work);
}

/*
 * What is final by now; true if anything was.  Before each block too, since what a block does to an intent
 * depends on it, and the order must be the same however fast bodies come, also after a restart.
 */
static bool finalize_all(struct tracker *tr, bool current)
{
	bool did = false;

	while (!tr->stopped && tr->window.count && tr->trouble != TROUBLE_UNLINKED && finalize(tr, current))
		did = true;
	return did;
}

/* Lookups: an attempt that may stand in a block that went by. */

static void late_body(struct kv_txn *t, struct commit *c)
{
	struct key key = key_lookup(c->tr->config->chain_id, c->row);

	if (c->has_body) {
		gather_slot(t, c->tr, c->slot, &c->body_in, false, true, &c->lacks_witnesses);
		if (c->lacks_witnesses) {
			kv_fail(t, E_REFUSED);
			return;
		}
		apply_late(t, &c->apply, &c->body_in, &c->tr->gather);
		return;
	}
	if (c->too_old.mined)
		settle_too_old(t, &c->apply, c->row, &c->too_old.tx_hash, c->too_old.height);
	if (mark_has(t, T_LOOKUP, &key))
		key_del(t, T_LOOKUP, &key);
}

static bool first_lookup(struct kv_txn *t, const struct tracker *tr, uint64_t *row)
{
	struct key from = key_u64(tr->config->chain_id);
	struct kv_cursor c;

	if (!kv_seek(t, T_LOOKUP, key_slice(&from), 8, &c))
		return false;
	*row = be64_get(c.key + 8);
	return true;
}

/* Where an attempt that has no sighting may be. */
enum search { SEARCH_NOTHING, SEARCH_BLOCK, SEARCH_WAIT };

/* Nothing can be proven below the oldest hash that we keep. */
static bool is_below_all(struct kv_txn *t, uint64_t chain, uint64_t height)
{
	struct key from = key_u64(chain);
	struct kv_cursor c;

	return kv_seek(t, T_BLOCK, key_slice(&from), 8, &c) && height < be64_get(c.key + 8);
}

static enum search search_attempt(struct kv_txn *t, struct tracker *tr, const struct hash32 *tx_hash,
				  struct hash32 *block)
{
	uint64_t chain = tr->config->chain_id, height;
	struct tx_place place;
	struct block_row b;

	if (!tr->lookup.misled && chain_find_tx(t, chain, &tr->chain, tx_hash, &height) && chain_block(t, chain, height, &b)) {
		*block = b.hash;
		return SEARCH_BLOCK;
	}
	if (!reads_tx(&tr->reads, tx_hash, &place))
		return SEARCH_WAIT;
	if (place.mined && is_below_all(t, chain, place.height)) {
		tr->lookup.too_old = place;
		return SEARCH_NOTHING;
	}
	if (!place.mined || !chain_block(t, chain, place.height, &b) || !hash_eq(&b.hash, &place.block_hash))
		return SEARCH_NOTHING;
	*block = b.hash;
	return SEARCH_BLOCK;
}

static void next_attempt(struct lookup *l)
{
	l->attempt++;
	l->misled = false;
}

static enum search search_intent(struct kv_txn *t, struct tracker *tr, uint64_t row, struct hash32 *block)
{
	struct lookup *l = &tr->lookup;
	enum search found;
	struct attempt_row a;
	struct sighting_at at;
	struct sighting_row s;
	struct intent i;

	if (l->row != row)
		*l = (struct lookup){ .row = row };
	if (!intents_get(t, row, &i) || i.state == INTENT_CREATED || i.state == INTENT_AUTHORIZED)
		return SEARCH_NOTHING;
	for (; intents_attempt(t, row, l->attempt, &a); next_attempt(l)) {
		if (sighting_of(t, tr->config->chain_id, row, &a.tx_hash, &at, &s))
			continue;
		found = search_attempt(t, tr, &a.tx_hash, block);
		if (found != SEARCH_NOTHING)
			return found;
	}
	return SEARCH_NOTHING;
}

/* After a block: where it did not hold the attempt, its prefix is not believed again, then no node. */
static void step_lookup(struct tracker *tr, bool seen)
{
	struct lookup *l = &tr->lookup;

	if (seen || l->misled)
		next_attempt(l);
	else
		l->misled = true;
}

/* One step of the first lookup; true if there may be another. */
static bool look_up(struct tracker *tr)
{
	struct commit c = { .body = late_body };
	struct kv_txn t = kv_begin_read(tr->kv);
	struct hash32 block;
	enum search found = SEARCH_WAIT;

	if (tr->chain.has_tip && !tr->chain.latched && first_lookup(&t, tr, &c.row))
		found = search_intent(&t, tr, c.row, &block);
	if (!end_read(tr, &t) || found == SEARCH_WAIT)
		return false;
	c.too_old = tr->lookup.too_old;
	if (found == SEARCH_BLOCK) {
		c.has_body = true;
		c.slot = whole_body(tr, &block, false, true);
		if (!c.slot)
			return false;
		c.body_in = body_of(c.slot);
	}
	/* Crash before: looked up again, the row is there.  After: seen, or known not to be there. */
	if (commit(tr, &c)) {
		if (c.has_body)
			step_lookup(tr, tr->gather.count > 0);
		else
			tr->lookup = (struct lookup){ .row = 0 };
		return true;
	}
	if (c.lacks_witnesses)
		reads_witnesses(&tr->reads, c.slot);
	return false;
}

/* The turn. */

void tracker_run(struct tracker *tr)
{
	bool current = false;

	if (tr->stopped)
		return;
	if (tr->chain.latched)
		hear_latched(tr);
	while (!tr->stopped && follow_accepted(tr))
		;
	if (tr->chain.latched)
		set_trouble(tr, TROUBLE_LATCHED);
	if (tr->chain.latched || tr->stopped)
		return;
	if (reads_head(&tr->reads)->known) {
		while (!tr->stopped && follow(tr, &current))
			;
	}
	while (!tr->stopped && look_up(tr))
		;
	finalize_all(tr, current);
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
	tr->loop->ops->timer_set(tr->loop, timer, now_ms(tr) + tr->config->poll_ms);
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
	trim_window(tr);
	reads_start(&tr->reads, loop, urls, url_count, config, on_change, tr);
	loop->ops->timer_set(loop, &tr->poll, now_ms(tr) + config->poll_ms);
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
