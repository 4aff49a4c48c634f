#include "listener/check_parts.h"

#include <string.h>

/* Each index that an intent stands in. */

static void check_names(struct check *c, const struct intent *i)
{
	struct key id = key_intent_id(i->id);
	struct key key = key_intent_key(i->merchant_id, i->idempotency_key);

	if (!check_has(c, T_INTENT_ID, &id))
		check_fault(c, "intent %s: intent_id does not have it", i->id);
	if (!check_has(c, T_INTENT_KEY, &key))
		check_fault(c, "intent %s: intent_key does not have its merchant and key", i->id);
}

static void check_marks(struct check *c, const struct intent *i)
{
	struct key state = key_state(i->state, i->entered_at_ms, i->row);
	struct key route = key_route(i);
	struct key missing = key_deadline(i->chain_id, DEADLINE_MISSING, i->missing_from_ms, i->row);
	struct key overdue = key_deadline(i->chain_id, DEADLINE_OVERDUE, i->expires_at_ms, i->row);

	if (!check_has(c, T_STATE, &state))
		check_fault(c, "intent %s: state does not have it as %s", i->id, intent_state_name(i->state));
	if (i->watch == WATCH_ROUTE && !intent_state_is_terminal(i->state) && !check_has(c, T_ROUTE, &route))
		check_fault(c, "intent %s: an open route that route does not have", i->id);
	if (i->state == INTENT_CONFIRMING && !check_has(c, T_DEADLINE, &missing))
		check_fault(c, "intent %s: confirming, but no deadline for a missing transaction", i->id);
	if (i->state == INTENT_SETTLING && i->watch == WATCH_ROUTE && i->has_expiry && !i->overdue_said &&
	    !check_has(c, T_DEADLINE, &overdue))
		check_fault(c, "intent %s: a route that may be overdue, but no deadline", i->id);
}

/* Attempts. */

static bool is_attempt_before(struct check *c, uint64_t row, uint32_t n, const struct hash32 *tx_hash)
{
	struct check_walk w = { .table = T_ATTEMPT, .prefix = key_u64(row) };
	struct attempt_row a;

	while (check_next(c, &w, &a) && be32_get(w.at.key + 8) < n) {
		if (hash_eq(&a.tx_hash, tx_hash))
			return true;
	}
	return false;
}

static void check_attempt(struct check *c, const struct intent *i, uint32_t n, const struct attempt_row *a)
{
	struct key tx = key_tx(i->chain_id, &a->tx_hash, a->order);
	char text[HASH_TEXT];
	uint64_t row;

	hash_format(&a->tx_hash, text);
	if (is_attempt_before(c, i->row, n, &a->tx_hash))
		check_fault(c, "intent %s: %s is recorded as an attempt twice", i->id, text);
	if (!check_get(c, T_TX, &tx, &row))
		check_fault(c, "intent %s: tx does not have its attempt %s", i->id, text);
}

static void check_attempts(struct check *c, const struct intent *i)
{
	struct check_walk w = { .table = T_ATTEMPT, .prefix = key_u64(i->row) };
	struct attempt_row a;
	uint32_t want = 0;

	while (check_next(c, &w, &a)) {
		uint32_t n = be32_get(w.at.key + 8);

		if (n != want)
			check_fault(c, "intent %s: attempt %u is missing", i->id, want);
		want = n + 1;
		check_attempt(c, i, n, &a);
	}
	if (i->state == INTENT_CONFIRMING && i->has_tx && !check_is_attempt(c, i->row, &i->tx_hash))
		check_fault(c, "intent %s: confirming with a transaction that is none of its attempts", i->id);
}

/* History. */

static struct move_request request_of(struct check *c, const struct intent *i, const struct history_row *h)
{
	return (struct move_request){
		.to = h->to,
		.actor = h->actor,
		.version = h->version - 1,
		.has_tx = h->has_tx,
		.tx_hash = h->tx_hash,
		.tx_is_attempt = h->has_tx && check_is_attempt(c, i->row, &h->tx_hash),
		.has_reason = h->reason.code[0] || h->reason.text[0],
		.reason = h->reason,
	};
}

/* Both transactions stand in the entry where they contradict. */
static bool conflict_agrees(const struct intent *before, const struct history_row *h, bool conflict)
{
	if (h->conflict != conflict)
		return false;
	return !conflict || !before->has_tx || hash_eq(&before->tx_hash, &h->other_tx);
}

/* False: the replay cannot go on. */
static bool replay_entry(struct check *c, struct intent *now, const struct history_row *h)
{
	unsigned long long version = h->version;
	struct move_request r = request_of(c, now, h);
	struct intent before = *now;
	struct move_result result;
	struct complaint why;

	if (h->from != now->state) {
		check_fault(c, "intent %s: version %llu goes from %s, but the one before leads to %s", now->id, version,
			    intent_state_name(h->from), intent_state_name(now->state));
		return false;
	}
	result = intent_apply(now, &r, &why);
	if (result.outcome != MOVE_APPLIED) {
		check_fault(c, "intent %s: version %llu, %s -> %s by %s, is no move: %s", now->id, version,
			    intent_state_name(h->from), intent_state_name(h->to), actor_name(h->actor),
			    result.err ? err_name(result.err) : "it is there already");
		return false;
	}
	if (!conflict_agrees(&before, h, result.evidence_conflict))
		check_fault(c, "intent %s: version %llu does not tell of both transactions rightly", now->id, version);
	return true;
}

static bool begin_replay(struct check *c, const struct intent *i, const struct history_row *h)
{
	if (h->from == INTENT_CREATED && h->to == INTENT_CREATED && h->actor == ACTOR_API && !h->has_tx)
		return true;
	check_fault(c, "intent %s: the history does not begin with its creation", i->id);
	return false;
}

static void compare_times(struct check *c, const struct intent *i, const struct history_row *first,
			  const struct history_row *last)
{
	char stored[TIME_TEXT], told[TIME_TEXT];

	if (i->created_at_ms != first->at_ms)
		check_fault(c, "intent %s: created at %s, but its history begins at %s", i->id,
			    time_format(i->created_at_ms, stored), time_format(first->at_ms, told));
	if (i->entered_at_ms != last->at_ms)
		check_fault(c, "intent %s: in its state since %s, but its last move is of %s", i->id,
			    time_format(i->entered_at_ms, stored), time_format(last->at_ms, told));
}

static void compare_end(struct check *c, const struct intent *i, const struct intent *now)
{
	char stored[HASH_TEXT] = "none", replayed[HASH_TEXT] = "none";

	if (now->state != i->state)
		check_fault(c, "intent %s: the history ends in %s, the intent is %s", i->id,
			    intent_state_name(now->state), intent_state_name(i->state));
	if (now->version != i->version)
		check_fault(c, "intent %s: the history ends at version %llu, the intent has %llu", i->id,
			    (unsigned long long)now->version, (unsigned long long)i->version);
	if (i->has_tx)
		hash_format(&i->tx_hash, stored);
	if (now->has_tx)
		hash_format(&now->tx_hash, replayed);
	if (strcmp(stored, replayed) != 0)
		check_fault(c, "intent %s: the history ends with transaction %s, the intent has %s", i->id, replayed,
			    stored);
	if (strcmp(now->reason.code, i->reason.code) != 0 || strcmp(now->reason.text, i->reason.text) != 0)
		check_fault(c, "intent %s: the history ends with reason \"%s\", the intent has \"%s\"", i->id,
			    now->reason.code, i->reason.code);
}

static struct intent as_created(const struct intent *i)
{
	struct intent now = *i;

	now.state = INTENT_CREATED;
	now.version = 0;
	now.has_tx = false;
	now.reason = (struct reason){ 0 };
	return now;
}

void check_history(struct check *c, const struct intent *i)
{
	struct check_walk w = { .table = T_HISTORY, .prefix = key_u64(i->row) };
	struct intent now = as_created(i);
	struct history_row h, first = { 0 }, last = { 0 };

	while (check_next(c, &w, &h)) {
		uint64_t version = be64_get(w.at.key + 8);

		if (version != now.version + 1 || h.version != version) {
			check_fault(c, "intent %s: version %llu is missing in the history", i->id,
				    (unsigned long long)now.version + 1);
			return;
		}
		if (version > 1 ? !replay_entry(c, &now, &h) : !begin_replay(c, i, &h))
			return;
		if (version == 1)
			first = h;
		now.version = version;
		last = h;
	}
	if (now.version == 0) {
		check_fault(c, "intent %s: no history", i->id);
		return;
	}
	compare_end(c, i, &now);
	if (now.version == i->version)
		compare_times(c, i, &first, &last);
}

/* All of one. */

/* Who made the last move. */
static bool settled_by_listener(struct check *c, const struct intent *i)
{
	struct key key = key_history(i->row, i->version);
	struct history_row h;

	return i->state == INTENT_SETTLED && check_get(c, T_HISTORY, &key, &h) && h.actor == ACTOR_LISTENER;
}

/* What the intent claims of its recorded transaction. */
static struct u256 claimed_sum(struct check *c, const struct intent *i)
{
	struct check_walk w = { .table = T_CLAIM, .prefix = key_claim(i->chain_id, &i->tx_hash, 0) };
	struct u256 sum = { 0 };
	struct claim_row claim;
	struct transfer_row tr;
	struct key key;

	w.prefix.len -= 4;
	while (check_next(c, &w, &claim)) {
		key = key_transfer(i->chain_id, claim.height, &claim.block_hash, claim.tx_index,
				   be32_get(w.at.key + 40));
		if (claim.row != i->row || claim.kind != OWNER_CLAIM || !check_get(c, T_TRANSFER, &key, &tr))
			continue;
		if (!u256_add(&sum, &tr.value, &sum))
			break;
	}
	return sum;
}

static void check_paid(struct check *c, const struct intent *i)
{
	char have[U256_TEXT], want[U256_TEXT];
	struct u256 sum;

	if (!settled_by_listener(c, i) || i->reversed)
		return;
	sum = claimed_sum(c, i);
	if (u256_cmp(&sum, &i->amount) != 0)
		check_fault(c, "intent %s: settled, but what it claims adds up to %s, not %s", i->id,
			    u256_format(&sum, have), u256_format(&i->amount, want));
}

void check_intents(struct check *c)
{
	struct check_walk w = { .table = T_INTENT };
	struct intent i;

	while (check_next(c, &w, &i)) {
		i.row = be64_get(w.at.key);
		check_names(c, &i);
		check_marks(c, &i);
		check_attempts(c, &i);
		check_history(c, &i);
		check_ledger(c, &i);
		check_paid(c, &i);
	}
}
