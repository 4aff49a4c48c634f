#include "listener/tracker_parts.h"

#include "listener/settle.h"
#include "store/sightings.h"

#include <string.h>

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
	if (!c->keeps_row && mark_has(t, T_LOOKUP, &key))
		key_del(t, T_LOOKUP, &key);
}

/* Whose turn it is. */

static size_t find_put_off(const struct tracker *tr, uint64_t row)
{
	size_t low = 0, high = tr->put_off_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (tr->put_off[mid].row < row)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_put_off(const struct tracker *tr, size_t at, uint64_t row)
{
	return at < tr->put_off_count && tr->put_off[at].row == row;
}

static void forget_put_off(struct tracker *tr, uint64_t row)
{
	size_t at = find_put_off(tr, row);

	if (!is_put_off(tr, at, row))
		return;
	tr->put_off_count--;
	memmove(&tr->put_off[at], &tr->put_off[at + 1], (tr->put_off_count - at) * sizeof(*tr->put_off));
}

static struct put_off *add_put_off(struct tracker *tr, uint64_t row)
{
	size_t at = find_put_off(tr, row);

	if (is_put_off(tr, at, row))
		return &tr->put_off[at];
	if (tr->put_off_count == tr->put_off_cap) {
		tr->put_off_cap = tr->put_off_cap ? tr->put_off_cap * 2 : 16;
		tr->put_off = xrealloc(tr->put_off, tr->put_off_cap * sizeof(*tr->put_off));
	}
	memmove(&tr->put_off[at + 1], &tr->put_off[at], (tr->put_off_count - at) * sizeof(*tr->put_off));
	tr->put_off_count++;
	tr->put_off[at] = (struct put_off){ .row = row };
	return &tr->put_off[at];
}

static int64_t delay_ms(const struct tracker *tr, unsigned times)
{
	int64_t ms = tr->config->poll_ms, most_ms = tr->config->missing_after_s * 1000;

	while (times-- && ms < most_ms)
		ms *= 2;
	return ms < most_ms ? ms : most_ms;
}

/* The row stays. */
static void put_off(struct tracker *tr, uint64_t version)
{
	const struct lookup *l = &tr->lookup;
	struct put_off *p = add_put_off(tr, l->row);

	if (l->gone && !p->times)
		TLOG(LOG_ODD, tr, "an attempt's history is gone from all endpoints: it is looked for again later row=%llu", ,
		     (unsigned long long)l->row);
	p->next_ms = tracker_steady_ms(tr) + delay_ms(tr, p->times);
	p->times++;
	p->version = version;
	p->attempts = l->attempt;
}

static bool is_as_it_was(struct kv_txn *t, const struct put_off *p)
{
	struct attempt_row a;
	struct intent i;

	return intents_get(t, p->row, &i) && i.version == p->version && !intents_attempt(t, p->row, p->attempts, &a);
}

/* One that was not looked at yet, the lowest first; then the one whose turn came first.  0: none. */
static uint64_t next_row(struct kv_txn *t, struct tracker *tr)
{
	struct key from = key_u64(tr->config->chain_id);
	int64_t soonest_ms = INT64_MAX;
	uint64_t soonest = 0;
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_LOOKUP, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		uint64_t row = be64_get(c.key + 8);
		size_t at = find_put_off(tr, row);

		if (!is_put_off(tr, at, row) || !is_as_it_was(t, &tr->put_off[at]))
			return row;
		if (tr->put_off[at].next_ms >= soonest_ms)
			continue;
		soonest_ms = tr->put_off[at].next_ms;
		soonest = row;
	}
	tr->lookups_from_ms = soonest_ms;
	return soonest_ms <= tracker_steady_ms(tr) ? soonest : 0;
}

static void take_up(struct tracker *tr, uint64_t row)
{
	reads_tx_forget(&tr->reads);
	tr->lookup = (struct lookup){ .row = row, .since_ms = tracker_steady_ms(tr) };
}

/* The row at hand, else the next one. */
static bool has_row(struct kv_txn *t, struct tracker *tr)
{
	struct key key = key_lookup(tr->config->chain_id, tr->lookup.row);

	if (!tr->lookup.row || !mark_has(t, T_LOOKUP, &key))
		take_up(tr, next_row(t, tr));
	return tr->lookup.row != 0;
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

/* By the word of the endpoints, as far as it names a block of ours. */
static enum search ask_endpoints(struct kv_txn *t, struct tracker *tr, const struct hash32 *tx_hash, struct hash32 *block)
{
	uint64_t chain = tr->config->chain_id;
	enum tx_answer answer;
	struct tx_place place;
	struct block_row b;

	while ((answer = reads_tx(&tr->reads, tx_hash, tr->chain.tip_height, &place)) == TX_MINED) {
		if (is_below_all(t, chain, place.height)) {
			tr->lookup.too_old = place;
			return SEARCH_NOTHING;
		}
		if (chain_block(t, chain, place.height, &b) && hash_eq(&b.hash, &place.block_hash)) {
			*block = b.hash;
			return SEARCH_BLOCK;
		}
		reads_tx_refuse(&tr->reads);
	}
	if (answer == TX_UNSURE) {
		tr->lookup.unsure = true;
		tr->lookup.gone |= reads_tx_is_gone(&tr->reads);
	}
	return answer == TX_ASKED ? SEARCH_WAIT : SEARCH_NOTHING;
}

static enum search search_attempt(struct kv_txn *t, struct tracker *tr, const struct hash32 *tx_hash,
				  struct hash32 *block)
{
	uint64_t chain = tr->config->chain_id, height;
	struct block_row b;

	if (tr->lookup.misled || !chain_find_tx(t, chain, &tr->chain, tx_hash, &height) || !chain_block(t, chain, height, &b))
		return ask_endpoints(t, tr, tx_hash, block);
	*block = b.hash;
	return SEARCH_BLOCK;
}

static void next_attempt(struct tracker *tr)
{
	tr->lookup.attempt++;
	tr->lookup.misled = false;
	tr->lookup.since_ms = tracker_steady_ms(tr);
	reads_tx_forget(&tr->reads);
}

static enum search search_intent(struct kv_txn *t, struct tracker *tr, struct intent *i, struct hash32 *block)
{
	uint64_t row = tr->lookup.row;
	enum search found;
	struct attempt_row a;
	struct sighting_at at;
	struct sighting_row s;

	if (!intents_get(t, row, i) || i->state == INTENT_CREATED || i->state == INTENT_AUTHORIZED)
		return SEARCH_NOTHING;
	for (; intents_attempt(t, row, tr->lookup.attempt, &a); next_attempt(tr)) {
		if (sighting_of(t, tr->config->chain_id, row, &a.tx_hash, &at, &s))
			continue;
		found = search_attempt(t, tr, &a.tx_hash, block);
		if (found != SEARCH_NOTHING)
			return found;
	}
	return SEARCH_NOTHING;
}

/* After a block: where it did not hold the attempt, its prefix is not believed again, then the endpoint's word. */
static void step_lookup(struct tracker *tr)
{
	if (tr->lookup.misled)
		reads_tx_refuse(&tr->reads);
	else
		tr->lookup.misled = true;
}

/* True: it has waited for so long that the next attempt is tried. */
static bool has_waited(struct tracker *tr)
{
	if (tracker_steady_ms(tr) - tr->lookup.since_ms < tr->config->poll_ms)
		return false;
	tr->lookup.unsure = true;
	next_attempt(tr);
	return true;
}

static bool look_into(struct tracker *tr, struct commit *c, const struct hash32 *block)
{
	c->has_body = true;
	c->slots[0] = tracker_whole_body(tr, block, false, true);
	if (!c->slots[0])
		return has_waited(tr);
	/* Crash before: looked up again, the row is there.  After: seen. */
	if (tracker_commit(tr, c)) {
		step_lookup(tr);
		return true;
	}
	if (c->lacks_witnesses)
		reads_witnesses(&tr->reads, c->slots[0]);
	return false;
}

static bool conclude(struct tracker *tr, struct commit *c, const struct intent *i)
{
	c->keeps_row = tr->lookup.unsure;
	c->too_old = tr->lookup.too_old;
	if (c->keeps_row)
		put_off(tr, i->version);
	/* Crash before: looked up again, the row is there.  After: known not to be there, or the row is still there. */
	if ((!c->keeps_row || c->too_old.mined) && !tracker_commit(tr, c))
		return false;
	if (!c->keeps_row)
		forget_put_off(tr, c->row);
	tr->lookup.row = 0;
	return true;
}

bool tracker_look_up(struct tracker *tr)
{
	struct commit c = { .body = late_body };
	enum search found = SEARCH_WAIT;
	struct intent i = { 0 };
	struct hash32 block;
	struct kv_txn t;

	if (!tr->chain.has_tip || tr->chain.latched || tracker_steady_ms(tr) < tr->lookups_from_ms)
		return false;
	/* Nobody is there to ask: it does not wait yet. */
	if (!reads_live(&tr->reads)) {
		tr->lookup.since_ms = tracker_steady_ms(tr);
		return false;
	}
	t = kv_begin_read(tr->kv);
	if (has_row(&t, tr))
		found = search_intent(&t, tr, &i, &block);
	c.row = tr->lookup.row;
	if (!tracker_end_read(tr, &t) || !c.row)
		return false;
	if (found == SEARCH_BLOCK)
		return look_into(tr, &c, &block);
	return found == SEARCH_WAIT ? has_waited(tr) : conclude(tr, &c, &i);
}
