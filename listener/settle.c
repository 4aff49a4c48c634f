#include "listener/settle.h"

#include "store/claims.h"
#include "store/sightings.h"

#include <stdio.h>
#include <stdlib.h>

/* Watermarks. */

static bool rises(struct kv_txn *t, const struct apply *a, const struct finality_view *view,
		  unsigned tier, struct watermark_row *out)
{
	const struct watermark_row *mark = &a->chain.marks[tier];
	struct block_row b;
	uint64_t height;

	if (mark->suspended || !a->chain.has_tip ||
	    !finality_height(&a->config->finality.tiers[tier], view, &height) ||
	    (mark->known && height <= mark->height) ||
	    !chain_block(t, a->config->chain_id, height, &b))
		return false;
	*out = (struct watermark_row){ true, height, b.hash, b.time_s, false };
	return true;
}

bool settle_would_raise(struct kv_txn *t, const struct apply *a, const struct finality_view *view)
{
	struct watermark_row mark;

	for (unsigned i = 0; i < a->config->finality.tier_count; i++) {
		if (rises(t, a, view, i, &mark))
			return true;
	}
	return false;
}

bool settle_raise(struct kv_txn *t, struct apply *a, const struct finality_view *view)
{
	bool rose = false;

	for (unsigned i = 0; i < a->config->finality.tier_count; i++)
		rose |= rises(t, a, view, i, &a->chain.marks[i]);
	if (rose)
		chain_put(t, a->config->chain_id, &a->chain);
	return rose;
}

static bool rests_on_tag(const struct chain_config *config)
{
	return config_uses_tag(config, TAG_SAFE) || config_uses_tag(config, TAG_FINALIZED);
}

bool settle_floor(const struct chain_config *config, const struct chain_row *chain, uint64_t *height)
{
	bool by_tag = rests_on_tag(config);

	*height = UINT64_MAX;
	for (unsigned i = 0; i < config->finality.tier_count; i++) {
		/* A depth is looser than any tag, even where it is reached later. */
		if (by_tag && config->finality.tiers[i].tag == TAG_NONE)
			continue;
		if (!chain->marks[i].known)
			return false;
		/* A suspended one stands where it fell, and says nothing of the stricter ones. */
		if (!chain->marks[i].suspended && chain->marks[i].height < *height)
			*height = chain->marks[i].height;
	}
	return *height != UINT64_MAX;
}

/* One sighting becomes final. */

/* False: a stricter tier decides by now, and it is not there yet. */
static bool tier_agrees(struct kv_txn *t, struct apply *a, const struct sighting_at *at, uint8_t tier)
{
	uint8_t now = apply_tier(t, a->config, at);

	if (now <= tier)
		return true;
	pending_move(t, at, tier, now);
	return false;
}

static struct evidence final_evidence(struct kv_txn *t, struct apply *a, const struct sighting_at *at,
				      const struct sighting_row *s, uint8_t tier)
{
	struct evidence e = apply_evidence(t, at, s);
	const struct watermark_row *mark = &a->chain.marks[tier];

	e.has_finality = true;
	finality_describe(&a->config->finality.tiers[tier], e.rule);
	e.watermark = (struct block_ref){ true, mark->height, mark->hash };
	e.final = true;
	return e;
}

static struct reason verdict_reason(const struct intent *i, const struct sighting_row *s)
{
	struct judgement j = { (enum verdict)s->verdict, s->sum };

	return gather_reason(i, &j, (enum witness_state)s->witness, &s->before, &s->after);
}

/* Under review: what nobody claimed of the payee's is kept for the person's decision. */
static void hold(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		 const struct intent *i)
{
	size_t count;
	struct transfer_row *rows = apply_transfers(t, at, s, i, &count);

	for (size_t k = 0; k < count; k++) {
		if (rows[k].owner_kind == OWNER_NONE)
			claim_take(t, at->chain, &rows[k], i->row, OWNER_HOLD);
	}
	free(rows);
}

static void decide(struct kv_txn *t, struct apply *a, struct intent *i, const struct sighting_at *at,
		   const struct sighting_row *s, uint8_t tier)
{
	struct evidence e = final_evidence(t, a, at, s, tier);
	struct reason reason;

	if (s->verdict == VERDICT_PAID) {
		apply_move(t, a, i, INTENT_SETTLED, &s->tx_hash, NULL, &e);
		return;
	}
	hold(t, at, s, i);
	reason = verdict_reason(i, s);
	apply_move(t, a, i, INTENT_NEEDS_REVIEW, NULL, &reason, &e);
}

static bool moved_money(const struct sighting_row *s)
{
	return s->verdict != VERDICT_REVERTED && s->verdict != VERDICT_NO_TRANSFER &&
	       s->verdict != VERDICT_WRONG_TOKEN;
}

/* The first of the transaction's transfers to the payee that is not another intent's. */
static bool find_own(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		     const struct intent *i, struct transfer_row *out)
{
	size_t count, k = 0;
	struct transfer_row *rows = apply_transfers(t, at, s, i, &count);
	bool found;

	while (k < count && rows[k].owner_kind != OWNER_NONE && rows[k].owner != i->row)
		k++;
	found = k < count;
	if (found)
		*out = rows[k];
	free(rows);
	return found;
}

/* A transfer of the intent that pays it no more: somebody may have to give it back. */
static void unmatched(struct kv_txn *t, struct apply *a, const struct intent *i,
		      const struct sighting_at *at, const struct sighting_row *s, const char *code)
{
	struct reason reason;
	struct chain_event e = {
		.type = EVENT_TRANSFER_UNMATCHED,
		.chain = at->chain,
		.reason = &reason,
		.intents = { i->id },
		.intent_count = 1,
		.has_other_tx = i->has_tx && !hash_eq(&i->tx_hash, &s->tx_hash),
		.other_tx = i->tx_hash,
	};

	e.has_transfer = moved_money(s) && find_own(t, at, s, i, &e.transfer);
	if (!e.has_transfer)
		return;
	snprintf(reason.code, sizeof(reason.code), "%s", code);
	snprintf(reason.text, sizeof(reason.text), "intent %s is %s%s", i->id, intent_state_name(i->state),
		 i->reversed ? " and was reversed" : "");
	event_chain(t, &a->chain, &e, a->now_ms);
}

/* The recorded transaction is final: of the others those that were final before are told now, since until now one of them might have paid. */
static void tell_extras(struct kv_txn *t, struct apply *a, const struct intent *i)
{
	struct attempt_row attempt;
	struct sighting_at at;
	struct sighting_row s;

	for (uint32_t n = 0; intents_attempt(t, i->row, n, &attempt); n++) {
		if (!hash_eq(&attempt.tx_hash, &i->tx_hash) &&
		    sighting_of(t, a->config->chain_id, i->row, &attempt.tx_hash, &at, &s) &&
		    !apply_is_pending(t, a->config, &at))
			unmatched(t, a, i, &at, &s, "paid_twice");
	}
}

static void observe_final(struct kv_txn *t, struct apply *a, struct intent *i, const struct sighting_at *at,
			  const struct sighting_row *s, uint8_t tier)
{
	struct evidence e = final_evidence(t, a, at, s, tier);
	struct reason reason = verdict_reason(i, s);

	event_intent(t, EVENT_INTENT_OBSERVED, i, &reason, &e, a->now_ms);
	intents_save(t, i);
}

/* What the ended intent let go is first offered to those that wait for the same transaction. */
static void offer(struct kv_txn *t, struct apply *a, const struct sighting_at *ended)
{
	struct sighting_at at = { ended->chain, ended->height, ended->tx_index, 0, 0 };
	struct sighting_row s;
	struct intent i;

	for (; sighting_next_in_tx(t, &at, &s); sighting_step(&at)) {
		if (at.row && verdict_is_contested((enum verdict)s.verdict) && intents_get(t, at.row, &i) && i.state == INTENT_CONFIRMING &&
		    hash_eq(&i.tx_hash, &s.tx_hash))
			apply_rejudge(t, a, &at, &s, &i);
	}
}

static void finish(struct kv_txn *t, struct apply *a, const struct sighting_at *at,
		   struct sighting_row *s, uint8_t tier)
{
	struct intent i;
	bool recorded;

	if (!intents_get(t, at->row, &i)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	recorded = i.has_tx && hash_eq(&i.tx_hash, &s->tx_hash);
	switch (i.state) {
	case INTENT_CREATED:
	case INTENT_AUTHORIZED:
	case INTENT_SETTLING:
		return;
	case INTENT_CONFIRMING:
		if (!recorded)
			return;		/* told when the recorded one is final */
		if (verdict_is_contested((enum verdict)s->verdict))
			apply_rejudge(t, a, at, s, &i);
		decide(t, a, &i, at, s, tier);
		tell_extras(t, a, &i);
		return;
	case INTENT_NEEDS_REVIEW:
		if (s->judged_in_review)
			observe_final(t, a, &i, at, s, tier);
		else if (!recorded)
			unmatched(t, a, &i, at, s, "paid_twice");
		return;
	case INTENT_SETTLED:
		if (!recorded)
			unmatched(t, a, &i, at, s, "paid_twice");
		else if (i.reversed)
			unmatched(t, a, &i, at, s, "returned");
		return;
	case INTENT_FAILED:
	case INTENT_CANCELED:
		offer(t, a, at);
		unmatched(t, a, &i, at, s, "after_failed");
		return;
	}
}

/* A loose transfer becomes final: looked at once more, since intents came and went. */

struct loose {
	struct transfer_row transfer;
	struct intent only;		/* the one open intent of the payee, or the one that fits */
	size_t open, fits;
	bool misses;			/* only missed by amount, payer or expiry */
	char names[EVENT_NAMES_MAX][INTENT_ID_MAX];
};

static bool find_loose(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		       struct transfer_row *out)
{
	struct key key = key_transfer(at->chain, at->height, &s->block_hash, at->tx_index, at->ordinal);
	struct claim_row claim;

	return row_get(t, T_TRANSFER, &key, ROW_TRANSFER, out) &&
	       !claim_get(t, at->chain, &s->tx_hash, at->ordinal, &claim);
}

static void weigh(struct loose *l, const struct intent *i, const struct route_facts *facts)
{
	const struct transfer_row *tr = &l->transfer;
	struct transfer transfer = { tr->token, tr->from, tr->to, tr->value, tr->tx_index, tr->ordinal };
	enum route_fit fit = match_route(i, &transfer, facts);

	if (l->open < EVENT_NAMES_MAX)
		snprintf(l->names[l->open], INTENT_ID_MAX, "%s", i->id);
	l->open++;
	if (i->state != INTENT_SETTLING || !address_eq(&i->token, &tr->token))
		fit = ROUTE_TOO_EARLY;
	if (fit == ROUTE_FITS)
		l->fits++;
	if (fit == ROUTE_FITS || l->open == 1) {
		l->only = *i;
		l->misses = fit == ROUTE_MISSES;
	}
}

static void weigh_all(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		      struct loose *l)
{
	struct key from = key_route_payee(at->chain, &l->transfer.to);
	struct block_row b = { .order = UINT64_MAX };
	struct route_facts facts = {
		.block_time_s = s->block_time_s,
		.catching_up = s->verdict == VERDICT_TOO_OLD,
	};
	struct kv_cursor c;
	struct intent i;

	chain_block(t, at->chain, at->height, &b);
	facts.first_order = chain_first_order(t, at->chain, &s->tx_hash, b.order);
	for (bool more = kv_seek(t, T_ROUTE, key_slice(&from), from.len, &c); more; more = kv_next(&c)) {
		if (intents_get(t, be64_get(c.key + c.key_len - 8), &i))
			weigh(l, &i, &facts);
	}
}

/* What a transfer that fits is worth, or what one misses by. */
static enum verdict loose_verdict(struct kv_txn *t, struct apply *a, const struct loose *l,
				  const struct sighting_at *at, const struct sighting_row *s)
{
	const struct intent *i = &l->only;
	struct paid_facts facts = { (enum witness_state)s->witness, s->block_time_s, PROOF_RECEIPTS };
	int order = u256_cmp(&l->transfer.value, &i->amount);
	struct block_row b;

	if (chain_block(t, at->chain, at->height, &b))
		facts.proof = b.proof;
	if (l->fits)
		return gather_check_paid(a->config, i, &facts);
	if (i->has_payer && !address_eq(&i->payer, &l->transfer.from))
		return VERDICT_WRONG_PAYER;
	if (order == 0)
		return VERDICT_LATE;
	return order < 0 ? VERDICT_UNDERPAID : VERDICT_OVERPAID;
}

/* The route's one open intent gets the transaction; it is decided at once unless the intent's amount asks for a stricter tier. */
static void attach(struct kv_txn *t, struct apply *a, struct loose *l, const struct sighting_at *loose_at,
		   const struct sighting_row *loose_s, uint8_t tier)
{
	struct intent *i = &l->only;
	struct sighting_at at = *loose_at;
	struct sighting_row s = *loose_s;
	struct evidence e;

	at.row = i->row;
	s.loose = LOOSE_NOT;
	s.route = true;
	s.verdict = (uint8_t)loose_verdict(t, a, l, &at, &s);
	if (s.verdict == VERDICT_PAID)
		claim_take(t, at.chain, &l->transfer, i->row, OWNER_CLAIM);
	sighting_add(t, &at, &s, tier);
	e = apply_evidence(t, &at, &s);
	apply_move(t, a, i, INTENT_CONFIRMING, &s.tx_hash, NULL, &e);
	if (!tier_agrees(t, a, &at, tier))
		return;
	pending_del(t, &at, tier);
	decide(t, a, i, &at, &s, tier);
}

static void tell_loose(struct kv_txn *t, struct apply *a, const struct loose *l, bool ambiguous)
{
	struct reason reason;
	struct chain_event e = {
		.type = ambiguous ? EVENT_TRANSFER_AMBIGUOUS : EVENT_TRANSFER_UNMATCHED,
		.chain = a->config->chain_id,
		.reason = &reason,
		.has_transfer = true,
		.transfer = l->transfer,
		.intent_count = l->open,
	};

	snprintf(reason.code, sizeof(reason.code), ambiguous ? "ambiguous" : "misfit");
	if (ambiguous)
		snprintf(reason.text, sizeof(reason.text), "fits %zu open intents", l->fits);
	else
		snprintf(reason.text, sizeof(reason.text), "fits none of %zu open intents of the payee", l->open);
	for (size_t i = 0; i < l->open && i < EVENT_NAMES_MAX; i++)
		e.intents[i] = l->names[i];
	event_chain(t, &a->chain, &e, a->now_ms);
}

/* An intent named the transaction as its attempt and is not paid by it: the transfer is told with that one. */
static bool is_told_elsewhere(struct kv_txn *t, const struct sighting_at *at, const struct transfer_row *tr)
{
	struct sighting_at place = { at->chain, at->height, at->tx_index, 0, 0 };
	struct sighting_row s;
	struct intent i;

	for (; sighting_next_in_tx(t, &place, &s); sighting_step(&place)) {
		if (place.row && s.verdict != VERDICT_PAID && intents_get(t, place.row, &i) &&
		    address_eq(&i.token, &tr->token) && address_eq(&i.payee, &tr->to))
			return true;
	}
	return false;
}

/* An attempt's hash decides before any route: an open intent named it since, and the lookup will find this block. */
static bool is_awaited(struct kv_txn *t, const struct sighting_at *at, const struct transfer_row *tr)
{
	struct tx_walk walk = { .begun = false };
	struct sighting_at place;
	struct sighting_row s;
	uint64_t row, order;
	struct intent i;

	while (intents_next_of_tx(t, at->chain, &tr->tx_hash, &walk, &row, &order)) {
		if (intents_get(t, row, &i) && !intent_state_is_terminal(i.state) && address_eq(&i.token, &tr->token) &&
		    address_eq(&i.payee, &tr->to) && !sighting_of(t, at->chain, row, &tr->tx_hash, &place, &s))
			return true;
	}
	return false;
}

static void finish_loose(struct kv_txn *t, struct apply *a, const struct sighting_at *at,
			 const struct sighting_row *s, uint8_t tier)
{
	struct loose l = { 0 };

	if (!find_loose(t, at, s, &l.transfer) || is_awaited(t, at, &l.transfer))
		return;
	weigh_all(t, at, s, &l);
	if (l.fits == 0 && is_told_elsewhere(t, at, &l.transfer))
		return;
	if (l.fits == 1 || (l.fits == 0 && l.open == 1 && l.misses &&
			    u256_cmp(&l.transfer.value, &a->config->route_dust) >= 0))
		attach(t, a, &l, at, s, tier);
	else
		tell_loose(t, a, &l, l.fits > 1);
}

/* The lowest pending place that its tier holds final. */
static bool next_final(struct kv_txn *t, const struct apply *a, struct sighting_at *out, uint8_t *tier)
{
	struct sighting_at at;
	bool found = false;

	for (uint8_t i = 0; i < a->config->finality.tier_count; i++) {
		const struct watermark_row *m = &a->chain.marks[i];

		if (!m->known || m->suspended || !pending_first(t, a->config->chain_id, i, &at) ||
		    at.height > m->height)
			continue;
		if (found && (at.height > out->height ||
			      (at.height == out->height && (at.tx_index > out->tx_index ||
			       (at.tx_index == out->tx_index && at.ordinal >= out->ordinal)))))
			continue;
		*out = at;
		*tier = i;
		found = true;
	}
	return found;
}

bool settle_has_work(struct kv_txn *t, const struct apply *a)
{
	struct sighting_at at;
	uint8_t tier;

	return next_final(t, a, &at, &tier);
}

bool settle_promote(struct kv_txn *t, struct apply *a)
{
	struct sighting_at at;
	struct sighting_row s;
	uint8_t tier;
	unsigned left = a->config->promote_slice;

	while (left-- && next_final(t, a, &at, &tier) && t->err == OK) {
		if (!tier_agrees(t, a, &at, tier))
			continue;
		pending_del(t, &at, tier);
		if (!sighting_get(t, &at, &s))
			kv_fail(t, E_CORRUPT);
		else if (at.row)
			finish(t, a, &at, &s, tier);
		else
			finish_loose(t, a, &at, &s, tier);
	}
	chain_put(t, a->config->chain_id, &a->chain);
	return t->err == OK && settle_has_work(t, a);
}

/* Deadlines. */

/* The time of the strictest watermark that is known: what is not in a block by then was not mined in time. */
static int64_t final_time_ms(const struct apply *a)
{
	const struct watermark_row *m = &a->chain.marks[a->config->finality.tier_count - 1];

	return m->known ? m->time_s * 1000 : 0;
}

static int64_t missing_limit_ms(const struct apply *a)
{
	return final_time_ms(a) - a->config->missing_after_s * 1000;
}

bool settle_has_deadline(struct kv_txn *t, const struct apply *a)
{
	uint64_t chain = a->config->chain_id, row;

	return !a->catching_up && a->chain.has_tip &&
	       (intents_due(t, chain, DEADLINE_MISSING, missing_limit_ms(a), &row) ||
		intents_due(t, chain, DEADLINE_OVERDUE, a->chain.tip_time_s * 1000 - 1, &row));
}

static void say_missing(struct kv_txn *t, struct apply *a, uint64_t row)
{
	struct reason reason = { .code = "tx_missing" };
	struct evidence e = { .by = ACTOR_LISTENER };
	struct sighting_at at;
	struct sighting_row s;
	struct intent i;
	struct key old, new;

	if (!intents_get(t, row, &i)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	if (sighting_of(t, a->config->chain_id, row, NULL, &at, &s)) {
		/* It is mined and waits for finality: asked again after another period. */
		old = key_deadline(i.chain_id, DEADLINE_MISSING, i.missing_from_ms, row);
		i.missing_from_ms = final_time_ms(a);
		new = key_deadline(i.chain_id, DEADLINE_MISSING, i.missing_from_ms, row);
		key_del(t, T_DEADLINE, &old);
		mark_put(t, T_DEADLINE, &new);
		intents_save(t, &i);
		return;
	}
	snprintf(reason.text, sizeof(reason.text), "no attempt is in a block, %lld s of chain time after the last",
		 (long long)a->config->missing_after_s);
	apply_move(t, a, &i, INTENT_NEEDS_REVIEW, NULL, &reason, &e);
}

static void say_overdue(struct kv_txn *t, struct apply *a, uint64_t row)
{
	struct reason reason = { "overdue", "not paid by its expiry; the relayer may end it" };
	struct evidence e = { .by = ACTOR_LISTENER };
	struct intent i;

	if (!intents_get(t, row, &i)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	intents_said_overdue(t, &i);
	event_intent(t, EVENT_INTENT_OBSERVED, &i, &reason, &e, a->now_ms);
	intents_save(t, &i);
}

void settle_deadlines(struct kv_txn *t, struct apply *a)
{
	uint64_t chain = a->config->chain_id, row;
	unsigned left = a->config->promote_slice;

	while (left-- && t->err == OK) {
		if (intents_due(t, chain, DEADLINE_MISSING, missing_limit_ms(a), &row))
			say_missing(t, a, row);
		else if (intents_due(t, chain, DEADLINE_OVERDUE, a->chain.tip_time_s * 1000 - 1, &row))
			say_overdue(t, a, row);
		else
			return;
	}
}

void settle_too_old(struct kv_txn *t, struct apply *a, uint64_t row, const struct hash32 *tx_hash, uint64_t height)
{
	struct reason reason = { .code = "too_old" };
	struct evidence e = { .by = ACTOR_LISTENER };
	struct intent i;

	if (!intents_get(t, row, &i))
		return;
	if (i.state == INTENT_SETTLING)
		apply_move(t, a, &i, INTENT_CONFIRMING, tx_hash, NULL, &e);
	if (i.state != INTENT_CONFIRMING || !hash_eq(&i.tx_hash, tx_hash))
		return;
	snprintf(reason.text, sizeof(reason.text), "a node says block %llu, below all blocks that we keep",
		 (unsigned long long)height);
	apply_move(t, a, &i, INTENT_NEEDS_REVIEW, NULL, &reason, &e);
}
