#include "listener/tracker_parts.h"

#include "listener/settle.h"

#include <stdlib.h>

/* Commits. */

/* The first endpoint that was checked told it. */
static void keep_genesis(struct kv_txn *t, struct commit *c)
{
	const struct genesis *g = &c->tr->reads.genesis;

	if (c->apply.chain.has_genesis || !g->known)
		return;
	c->apply.chain.has_genesis = true;
	c->apply.chain.genesis = g->hash;
	chain_put(t, c->tr->config->chain_id, &c->apply.chain);
}

static void commit_body(struct kv_txn *t, void *ctx)
{
	struct commit *c = ctx;
	struct tracker *tr = c->tr;

	c->lacks_witnesses = c->more = false;
	c->apply = apply_begin(t, tr->config, tracker_now_ms(tr));
	c->apply.catching_up = c->catching_up;
	keep_genesis(t, c);
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

bool tracker_end_read(struct tracker *tr, struct kv_txn *t)
{
	enum err err = kv_end_read(t);

	if (err)
		give_up(tr, err, "read");
	return err == OK;
}

/* True if it was committed. */
bool tracker_commit(struct tracker *tr, struct commit *c)
{
	enum err err;

	/* A disk that failed once is not written again: what comes later may rest on what was lost. */
	if (tr->stopped)
		return false;
	c->tr = tr;
	tr->budget -= tr->budget > 0;
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

bool tracker_is_accepted(const struct tracker *tr)
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
		list[i] = bodies_reading(&slot->witnesses[i]);
	return list;
}

void tracker_gather(struct kv_txn *t, struct tracker *tr, struct body_slot *slot,
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

static void tell_contradiction(const struct tracker *tr, const struct witness *w, const struct hash32 *block)
{
	char payee[ADDRESS_TEXT], before[U256_TEXT], after[U256_TEXT], hash[HASH_TEXT];

	TLOG(LOG_ODD, tr, "balance doubted payee=%s block=%s why=\"%s before and %s after it are not what its logs say; read again\"", ,
	     address_format(&w->payee, payee), hash_format(block, hash), u256_format(&w->before, before),
	     u256_format(&w->after, after));
}

/* A balance that contradicts the logs is read twice before it is believed. */
static bool reread_contradictions(struct tracker *tr, struct body_slot *slot)
{
	bool again = false;

	for (size_t i = 0; i < slot->witness_count; i++) {
		struct body_witness *bw = &slot->witnesses[i];

		if (!bw->witness.disagrees || bw->readings != 1)
			continue;
		tell_contradiction(tr, &bw->witness, &slot->hash);
		bw->witness.disagrees = false;
		reads_witness_again(&tr->reads, slot, bw);
		again = true;
	}
	return again;
}

struct body tracker_body_of(const struct body_slot *slot)
{
	uint8_t proof = slot->has_logs ? PROOF_LOGS : slot->trusted ? PROOF_NODES_WORD : PROOF_RECEIPTS;

	return (struct body){ &slot->block, &slot->receipts, proof };
}

/* Logs alone prove nothing of whom they touch, nor of a transaction without logs. */
static bool lacks_receipts(const struct tracker *tr, struct body_slot *slot, bool again)
{
	bool touched = again || tr->gather.count > 0;

	for (size_t i = 0; i < tr->gather.listed_count; i++)
		touched |= tr->gather.listed[i].touched || tr->gather.listed[i].watched;
	if (!slot->has_logs || !touched)
		return false;
	reads_want_receipts(slot);
	return true;
}

/* The body and the balances that its matches want, but those that are late; NULL: asked for. */
struct body_slot *tracker_whole_body(struct tracker *tr, const struct hash32 *hash, bool catching_up,
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
	body = tracker_body_of(slot);
	t = kv_begin_read(tr->kv);
	tracker_gather(&t, tr, slot, &body, catching_up, again, &short_of);
	if (!tracker_end_read(tr, &t))
		return NULL;
	if (lacks_receipts(tr, slot, again))
		return reads_body(&tr->reads, hash);
	if (short_of) {
		reads_witnesses(&tr->reads, slot);
		return NULL;
	}
	return reread_contradictions(tr, slot) ? NULL : slot;
}

#define PRUNE_ROWS 64		/* of each kind with a block: more than a block adds, or they would pile up */

static void prune(struct kv_txn *t, struct commit *c)
{
	const struct chain_config *config = c->tr->config;
	uint64_t mark = c->apply.chain.marks[0].height;

	chain_prune(t, config->chain_id, mark > config->keep_tx_blocks ? mark - config->keep_tx_blocks : 0,
		    c->apply.chain.tip_time_s - config->keep_hashes_s, PRUNE_ROWS);
}

/* What is final before this block; false: more than a slice, so that the block waits for the next commit. */
static bool finalize_before(struct kv_txn *t, struct commit *c, unsigned index)
{
	if (!c->may_settle || !c->apply.chain.has_tip)
		return true;
	settle_raise(t, &c->apply, &c->views[index]);
	c->more = settle_promote(t, &c->apply);
	return !c->more;
}

static void put_block(struct kv_txn *t, struct commit *c, unsigned index)
{
	struct body body = tracker_body_of(c->slots[index]);

	tracker_gather(t, c->tr, c->slots[index], &body, c->catching_up, false, &c->lacks_witnesses);
	if (c->lacks_witnesses) {
		kv_fail(t, E_REFUSED);
		return;
	}
	if (c->apply.chain.trusted && hash_eq(&c->apply.chain.trusted_hash, &c->slots[index]->hash))
		c->apply.chain.trusted = false;
	apply_block(t, &c->apply, &body, &c->tr->gather);
	apply_reconcile(t, &c->apply);
	prune(t, c);
}

static void block_body(struct kv_txn *t, struct commit *c)
{
	if (c->rolls_back)
		apply_rollback(t, &c->apply, &c->branch);
	for (c->applied = 0; c->applied < c->count && t->err == OK; c->applied++) {
		if (!c->rolls_back && !finalize_before(t, c, c->applied))
			return;
		put_block(t, c, c->applied);
	}
}

#define WINDOW_BELOW 256	/* hashes kept in memory below the lowest watermark */

uint64_t tracker_window_from(const struct tracker *tr)
{
	uint64_t floor;

	return settle_floor(tr->config, &tr->chain, &floor) && floor > WINDOW_BELOW ? floor - WINDOW_BELOW : 0;
}

void tracker_trim_window(struct tracker *tr)
{
	window_trim(&tr->window, tracker_window_from(tr));
}

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

void tracker_start_window(struct tracker *tr, uint64_t height, const struct hash32 *hash)
{
	tr->window.count = 0;
	window_push(&tr->window, height, hash);
}

static void after_rollback(struct tracker *tr, const struct commit *c, uint64_t old_tip)
{
	uint64_t base = tr->window.base_height, kept = c->branch.ancestor > base ? c->branch.ancestor : base;

	window_cut(&tr->window, c->branch.ancestor);
	if (c->branch.below_start)
		tracker_start_window(tr, c->branch.ancestor, &c->branch.ancestor_hash);
	tell_suspended(tr);
	if (tr->watcher.rolled_back)
		tr->watcher.rolled_back(tr->watcher.ctx, kept, old_tip);
}

/* Of a head, how long it took from hearing of it, and what of that was ours. */
static void tell_applied(struct tracker *tr, const struct header *h)
{
	const struct head *head = reads_head(&tr->reads);
	struct loop_times now = { 0, 0 }, heard = { 0, 0 };

	if (tr->loop->ops->times && hash_eq(&head->hash, &h->hash)) {
		now = tr->loop->ops->times(tr->loop);
		heard = head->heard;
	}
	TLOG(LOG_DEBUG, tr, "applied height=%llu head_us=%lld own_us=%lld", , (unsigned long long)h->number,
	     (long long)(now.ticks_us - heard.ticks_us), (long long)(now.busy_us - heard.busy_us));
}

static void after_block(struct tracker *tr, struct body_slot *slot)
{
	const struct header *h = &slot->block.header;

	for (size_t i = 0; i < slot->witness_count; i++) {
		if (slot->witnesses[i].witness.late && !slot->witnesses[i].witness.have)
			TLOG(LOG_INFO, tr, "applied without a balance height=%llu", , (unsigned long long)h->number);
	}
	tell_applied(tr, h);
	window_push(&tr->window, h->number, &h->hash);
	if (tr->watcher.applied)
		tr->watcher.applied(tr->watcher.ctx, h->number, &h->hash);
	bodies_drop(slot);
}

/* What will be final before each of them is known beforehand, so several may share a commit. */
static void add_blocks(struct tracker *tr, const struct fork_plan *plan, struct commit *c)
{
	uint64_t tip = window_tip_height(&tr->window);
	unsigned most = tr->config->commit_blocks < COMMIT_BLOCKS_MAX ? tr->config->commit_blocks : COMMIT_BLOCKS_MAX;

	c->may_settle = tracker_judge(tr) == TROUBLE_NONE;
	c->views[0] = tracker_view(tr);
	while (c->count < plan->path_count && c->count < most && !c->rolls_back) {
		struct body_slot *slot;

		/* With it we have caught up: another commit. */
		if (hash_eq(&plan->path[c->count], &reads_head(&tr->reads)->hash))
			break;
		slot = tracker_whole_body(tr, &plan->path[c->count], true, false);

		if (!slot)
			break;
		window_push(&tr->window, tip + c->count, &plan->path[c->count - 1]);
		c->views[c->count] = tracker_view(tr);
		c->slots[c->count++] = slot;
	}
	window_cut(&tr->window, tip);
}

static void describe_branch(struct tracker *tr, const struct hash32 *head, const struct fork_plan *plan,
			    struct branch *b)
{
	b->hashes = list_branch(tr, head, plan->ancestor, &b->count);
	b->ancestor = plan->ancestor;
	b->below_start = plan->below_start;
	b->ancestor_hash = plan->below_start ? plan->base : *window_at(&tr->window, plan->ancestor);
	b->over_final = tr->chain.latched;	/* only an accepted branch is followed then */
}

static bool commit_blocks(struct tracker *tr, struct commit *c)
{
	uint64_t old_tip = window_tip_height(&tr->window);

	/* Crash before: the old tip.  After: the new branch's first block, moves and events with it; of an extension as many as were in it. */
	if (!tracker_commit(tr, c)) {
		for (unsigned i = 0; c->lacks_witnesses && i < c->count; i++)
			reads_witnesses(&tr->reads, c->slots[i]);
		return false;
	}
	tr->obstacle.unproven = false;
	tr->reads.trusted = tr->chain.trusted;
	if (c->rolls_back)
		after_rollback(tr, c, old_tip);
	for (unsigned i = 0; i < c->applied; i++)
		after_block(tr, c->slots[i]);
	tracker_trim_window(tr);
	return true;
}

/* Apply the path's first block, after cutting back to @ancestor if it is below the tip; of an extension more, if they are in hand. */
bool tracker_apply_next(struct tracker *tr, const struct hash32 *head, const struct fork_plan *plan)
{
	bool catching_up = plan->path_count > 1 || !hash_eq(&plan->path[0], &reads_head(&tr->reads)->hash);
	struct commit c = {
		.body = block_body,
		.slots = { tracker_whole_body(tr, &plan->path[0], catching_up, false) },
		.count = 1,
		.rolls_back = plan->kind != PLAN_EXTEND,
		.catching_up = catching_up,
	};
	bool has_tags = reads_tags(&tr->reads), done;

	/* Before the first is whole, the next ones are on their way. */
	for (unsigned i = 1; i < plan->path_count && i < tr->config->ahead_blocks; i++)
		reads_body(&tr->reads, &plan->path[i]);
	tr->obstacle.known = !c.slots[0];
	tr->obstacle.hash = plan->path[0];
	if (!has_tags || !c.slots[0])
		return false;
	/* A watermark that rose may forbid to roll back. */
	if (c.rolls_back && tracker_finalize(tr, false))
		return true;
	if (tracker_is_tired(tr))
		return false;
	add_blocks(tr, plan, &c);
	if (c.rolls_back)
		describe_branch(tr, head, plan, &c.branch);
	done = commit_blocks(tr, &c);
	free((void *)c.branch.hashes);
	return done;
}
