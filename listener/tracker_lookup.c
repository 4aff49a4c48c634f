#include "listener/tracker_parts.h"

#include "listener/settle.h"
#include "store/sightings.h"

static void late_body(struct kv_txn *t, struct commit *c)
{
	struct key key = key_lookup(c->tr->config->chain_id, c->row);

	if (c->has_body) {
		struct body body = tracker_body_of(c->slots[0]);

		tracker_gather(t, c->tr, c->slots[0], &body, false, true, &c->lacks_witnesses);
		if (c->lacks_witnesses) {
			kv_fail(t, E_REFUSED);
			return;
		}
		apply_late(t, &c->apply, &body, &c->tr->gather);
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
bool tracker_look_up(struct tracker *tr)
{
	struct commit c = { .body = late_body };
	struct kv_txn t = kv_begin_read(tr->kv);
	struct hash32 block;
	enum search found = SEARCH_WAIT;

	if (tr->chain.has_tip && !tr->chain.latched && first_lookup(&t, tr, &c.row))
		found = search_intent(&t, tr, c.row, &block);
	if (!tracker_end_read(tr, &t) || found == SEARCH_WAIT)
		return false;
	c.too_old = tr->lookup.too_old;
	if (found == SEARCH_BLOCK) {
		c.has_body = true;
		c.slots[0] = tracker_whole_body(tr, &block, false, true);
		if (!c.slots[0])
			return false;
	}
	/* Crash before: looked up again, the row is there.  After: seen, or known not to be there. */
	if (tracker_commit(tr, &c)) {
		if (c.has_body)
			step_lookup(tr, tr->gather.count > 0);
		else
			tr->lookup = (struct lookup){ .row = 0 };
		return true;
	}
	if (c.lacks_witnesses)
		reads_witnesses(&tr->reads, c.slots[0]);
	return false;
}
