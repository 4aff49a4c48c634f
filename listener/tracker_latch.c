#include "listener/tracker_parts.h"

#include "listener/settle.h"
#include "store/sightings.h"

#include <string.h>

bool tracker_said_twice(struct tracker *tr, struct claim *claim, const struct hash32 *what)
{
	if (!claim->said || !hash_eq(&claim->what, what)) {
		*claim = (struct claim){ true, *what, tracker_steady_ms(tr), tr->round };
		return false;
	}
	return tr->round != claim->round && tracker_steady_ms(tr) - claim->since_ms >= tr->config->poll_ms;
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
void tracker_hear_violation(struct tracker *tr, const struct fork_plan *plan)
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
	if (!tracker_said_twice(tr, &tr->denial, &vote.other))
		return;
	if (vote.ours) {
		tr->denial.said = false;
		reads_set_aside(&tr->reads, ours);
		return;
	}
	TLOG(LOG_ODD, tr, "latched height=%llu", , (unsigned long long)floor);
	c.theirs = vote.other;
	/* Crash before: the claim is heard again.  After: latched until proof or an operator lifts it. */
	tracker_commit(tr, &c);
}

/* Latched: it falls by itself only when every live endpoint has our final block again. */
void tracker_hear_latched(struct tracker *tr)
{
	struct commit c = { .body = latch_body, .latch = false };
	struct floor_vote vote;

	if (!reads_floor(&tr->reads, tr->chain.latch_height, &tr->chain.latch_ours, tr->round, &vote) || vote.others)
		return;
	TLOG(LOG_ODD, tr, "the latch fell, the nodes have our blocks again height=%llu", ,
	     (unsigned long long)tr->chain.latch_height);
	tr->denial.said = false;
	/* Crash before: latched, and proven again.  After: nothing had been changed. */
	tracker_commit(tr, &c);
}
