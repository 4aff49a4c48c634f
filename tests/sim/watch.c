/*
 * What must hold at every commit, read from the store: intents, the tip, watermarks.
 */
#include "store/chain.h"
#include "store/intents.h"
#include "tests/sim/run.h"

#include <string.h>

/* The stored intents are what their events say. */
static void check_intents(struct run *r, struct kv_txn *t)
{
	struct intent i;

	for (uint64_t row = 1; intents_get(t, row, &i); row++) {
		int number = intent_number(i.id);
		struct watched_intent *w = &r->watch.intents[number];

		if (!w->there) {
			w->created_commit = r->watch.commits;
			w->settled_block = -1;
		}
		w->there = true;
		if (i.state != w->intent.state || i.version != w->intent.version || i.event_number != w->intent.event_number)
			violate(r, "event", "i%d is %s at version %llu with %llu events, told was %s at %llu with %llu", number,
				intent_state_name(i.state), (unsigned long long)i.version, (unsigned long long)i.event_number,
				intent_state_name(w->intent.state), (unsigned long long)w->intent.version,
				(unsigned long long)w->intent.event_number);
		w->intent = i;
	}
}

/* The chain. */

static void note_block(struct run *r, int tip)
{
	const struct tree_block *b = &r->tree.blocks[tip];

	r->tally[TALLY_BLOCKS]++;
	r->tally[TALLY_RETURNS] += r->watch.visited[tip];
	r->watch.visited[tip] = true;
	for (unsigned i = 0; i < b->tx_count; i++) {
		if (!r->watch.first_applied[b->txs[i]])
			r->watch.first_applied[b->txs[i]] = r->watch.commits;
	}
}

static void count_reorg(struct run *r, uint64_t depth)
{
	r->tally[depth == 1 ? TALLY_REORG_1 : depth <= 5 ? TALLY_REORG_2_5 : depth <= 12 ? TALLY_REORG_6_12 : TALLY_REORG_13]++;
}

/* The tip went to a child of itself or of one of its ancestors, in one commit, and its row is the true block. */
static void check_tip(struct run *r, struct kv_txn *t, const struct chain_row *now, int old, int tip, unsigned reorgs)
{
	int parent = tip < 0 ? -1 : r->tree.blocks[tip].parent;
	const struct tree_block *b;
	struct block_row row;

	if (tip < 0) {
		violate(r, "block", "the tip at %llu is no block of the tree", (unsigned long long)now->tip_height);
		return;
	}
	b = &r->tree.blocks[tip];
	if (!chain_block(t, CHAIN_ID, b->height, &row) || !hash_eq(&row.hash, &b->hash) ||
	    !hash_eq(&row.parent, &b->parent_hash) || row.time_s != b->time_s || row.tx_count != b->tx_count ||
	    row.proof != PROOF_RECEIPTS || now->tip_height != b->height)
		violate(r, "block", "the row of block %d is not that block", tip);
	if (old >= 0 && parent != old) {
		if (!tree_is_ancestor(&r->tree, parent, old) || tree_is_ancestor(&r->tree, tip, old))
			violate(r, "link", "the tip went from block %d to %d", old, tip);
		if (reorgs != 1)
			violate(r, "reorg", "told %u times that block %d gave way to %d", reorgs, old, tip);
		count_reorg(r, r->tree.blocks[old].height - r->tree.blocks[parent].height);
		for (unsigned i = 0; i < r->config.finality.tier_count; i++) {
			if (r->watch.chain.marks[i].known && !r->watch.chain.accepted && r->tree.blocks[parent].height < r->watch.chain.marks[i].height)
				violate(r, "final", "rolled back to %llu, below watermark %llu",
					(unsigned long long)r->tree.blocks[parent].height,
					(unsigned long long)r->watch.chain.marks[i].height);
		}
	} else if (reorgs) {
		violate(r, "reorg", "told, but block %d follows %d", tip, old);
	}
	note_block(r, tip);
}

/* A watermark never falls, is a block of the last chain, and is as deep, or as final, as its tier asks. */
static void check_mark(struct run *r, const struct chain_row *now, unsigned tier)
{
	const struct watermark_row *before = &r->watch.chain.marks[tier], *mark = &now->marks[tier];
	const struct finality_tier *rule = &r->config.finality.tiers[tier];
	int block;

	if (before->known && (!mark->known || mark->height < before->height) && !r->watch.chain.accepted)
		violate(r, "mark", "watermark %u fell from %llu to %llu", tier, (unsigned long long)before->height,
			(unsigned long long)mark->height);
	if (!mark->known || (before->known && hash_eq(&before->hash, &mark->hash)))
		return;
	block = tree_find(&r->tree, &mark->hash);
	if (block < 0 || !tree_was_final(&r->tree, block))
		violate(r, "mark", "watermark %u is block %d, which is not on the last chain", tier, block);
	if (rule->depth && mark->height + rule->depth > now->tip_height + 1 && !r->watch.chain.accepted)
		violate(r, "mark", "watermark %u is at %llu, the tip at %llu, the depth %llu", tier,
			(unsigned long long)mark->height, (unsigned long long)now->tip_height, (unsigned long long)rule->depth);
	if (rule->tag == TAG_FINALIZED && r->tree.lost_head < 0 && !tree_is_ancestor(&r->tree, block, tree_final(&r->tree, r->world.now_ms)))
		violate(r, "mark", "watermark %u is block %d, final is %d", tier, block, tree_final(&r->tree, r->world.now_ms));
}

/* A to B to A ends where it began, if nobody asked for anything and nothing became final meanwhile. */
static void check_return(struct run *r, struct kv_txn *t, int tip)
{
	struct snapshot *s = &r->watch.snapshots[tip];
	struct attempt_row a;

	for (int i = 0; i < INTENTS_MAX; i++) {
		const struct intent *now = &r->watch.intents[i].intent;
		int tx = now->has_tx ? tree_find_tx(&r->tree, &now->tx_hash) : -1;
		/*
		 * Not one that is confirming on somebody's word, nor one of several attempts: which decides depends on
		 * the way.  A route's first attempt may have been found on the way, and decides since.
		 */
		bool attempted = now->row && intents_attempt(t, now->row, 0, &a);
		bool compared = r->watch.intents[i].there && !intents_attempt(t, now->row, 1, &a) &&
				(now->state != INTENT_CONFIRMING || tree_block_of_tx(&r->tree, tip, tx, NULL) >= 0);

		if (s->epoch == r->watch.epoch && compared && s->of[i].compared && s->of[i].attempted == attempted &&
		    (s->of[i].state != now->state ||
		     (now->state == INTENT_CONFIRMING && !hash_eq(&s->of[i].tx_hash, &now->tx_hash))))
			violate(r, "return", "back on block %d i%d is %s, it was %s", tip, i, intent_state_name(now->state),
				intent_state_name(s->of[i].state));
		s->of[i].compared = compared;
		s->of[i].attempted = attempted;
		s->of[i].state = now->state;
		s->of[i].tx_hash = now->tx_hash;
	}
	s->epoch = r->watch.epoch;
}

void watch_commit(struct run *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	struct chain_row now = { 0 }, *before = &r->watch.chain;
	int old, tip;
	unsigned reorgs;
	bool moved;

	r->watch.commits++;
	r->tally[TALLY_COMMITS]++;
	chain_get(&t, CHAIN_ID, &now);
	old = before->has_tip ? tree_find(&r->tree, &before->tip_hash) : -1;
	tip = now.has_tip ? tree_find(&r->tree, &now.tip_hash) : -1;
	moved = now.has_tip && !(before->has_tip && hash_eq(&now.tip_hash, &before->tip_hash));
	for (unsigned i = 0; i < r->config.finality.tier_count; i++)
		check_mark(r, &now, i);
	/* What is final is raised before the block of the same commit. */
	if (!moved || memcmp(before->marks, now.marks, sizeof(now.marks)) != 0)
		r->watch.epoch++;
	if (!moved)
		*before = now;
	else if (old >= 0 && tip >= 0 && r->tree.blocks[tip].parent == old)
		memcpy(before->marks, now.marks, sizeof(now.marks));
	reorgs = watch_events(r, &t, old, tip);
	check_intents(r, &t);
	if (moved) {
		check_tip(r, &t, &now, old, tip, reorgs);
		if (tip >= 0)
			check_return(r, &t, tip);
	} else if (reorgs) {
		violate(r, "reorg", "told, but the tip stands still");
	}
	*before = now;
	if (kv_end_read(&t))
		violate(r, "read", "the store cannot be read");
}
