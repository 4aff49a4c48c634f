#include "listener/apply.h"

#include "store/claims.h"
#include "store/ledger.h"
#include "store/sightings.h"

#include <stdio.h>
#include <stdlib.h>

struct apply apply_begin(struct kv_txn *t, const struct chain_config *config, int64_t now_ms)
{
	struct apply a = { .config = config, .now_ms = now_ms };

	if (!chain_get(t, config->chain_id, &a.chain))
		a.chain = (struct chain_row){ 0 };
	return a;
}

void apply_end(struct apply *a)
{
	free(a->undone);
	a->undone = NULL;
}

/* The transfers of a transaction. */

static struct transfer_row *load_transfers(struct kv_txn *t, const struct sighting_at *at,
					   const struct sighting_row *s, size_t *count)
{
	struct transfer_row *rows = NULL;
	size_t cap = 32;

	do {
		cap *= 2;
		rows = xrealloc(rows, cap * sizeof(*rows));
		*count = transfers_of(t, at->chain, at->height, &s->block_hash, at->tx_index, rows, cap);
	} while (*count == cap);
	return rows;
}

struct transfer_row *apply_transfers(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
				     const struct intent *i, size_t *count)
{
	size_t all, kept = 0;
	struct transfer_row *rows = load_transfers(t, at, s, &all);
	struct claim_row claim;

	for (size_t k = 0; k < all; k++) {
		if (!address_eq(&rows[k].token, &i->token) || !address_eq(&rows[k].to, &i->payee))
			continue;
		rows[kept] = rows[k];
		if (claim_get(t, at->chain, &rows[kept].tx_hash, rows[kept].ordinal, &claim)) {
			rows[kept].owner_kind = claim.kind;
			rows[kept].owner = claim.row;
		}
		kept++;
	}
	*count = kept;
	return rows;
}

/* Evidence. */

static void add_transfers(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
			  const struct intent *i, struct evidence *e)
{
	size_t count;
	struct transfer_row *all = apply_transfers(t, at, s, i, &count);

	for (size_t k = 0; k < count; k++) {
		if (all[k].owner_kind == OWNER_NONE ? s->verdict == VERDICT_PAID : all[k].owner != i->row)
			continue;
		if (e->transfer_count < EVIDENCE_TRANSFERS_MAX)
			e->transfers[e->transfer_count] = all[k];
		e->transfer_count++;
	}
	free(all);
}

struct evidence apply_evidence(struct kv_txn *t, const struct sighting_at *at,
			       const struct sighting_row *s)
{
	struct evidence e = {
		.by = ACTOR_LISTENER,
		.has_tx = true,
		.tx_hash = s->tx_hash,
		.block = { true, at->height, s->block_hash },
		.has_witness = true,
		.witness = s->witness,
		.before = s->before,
		.after = s->after,
	};
	struct block_row b;
	struct intent i;

	if (chain_block(t, at->chain, at->height, &b))
		e.proof = b.proof;
	if (intents_get(t, at->row, &i))
		add_transfers(t, at, s, &i, &e);
	return e;
}

/* What a sighting adds to the sum that chooses the tier: the amount of an intent that it pays; or, of the one at hand, what was paid. */
static struct u256 weight_of(struct kv_txn *t, const struct sighting_at *place, const struct sighting_row *s,
			     bool at_hand)
{
	struct intent i;

	if (place->row && s->verdict == VERDICT_PAID && intents_get(t, place->row, &i) && i.has_tx &&
	    hash_eq(&i.tx_hash, &s->tx_hash))
		return i.amount;
	return at_hand ? s->sum : u256_from_u64(0);
}

/* The sum of the intents that the transaction pays chooses the tier. */
uint8_t apply_tier(struct kv_txn *t, const struct chain_config *config, const struct sighting_at *at)
{
	struct sighting_at place = { at->chain, at->height, at->tx_index, 0, 0 };
	struct u256 sum = { 0 };
	struct sighting_row s;

	if (config->finality.tier_count == 1)
		return 0;
	for (; sighting_next_in_tx(t, &place, &s); sighting_step(&place)) {
		bool at_hand = place.ordinal == at->ordinal && place.row == at->row;
		struct u256 weight = weight_of(t, &place, &s, at_hand);

		if (!u256_add(&sum, &weight, &sum))
			return (uint8_t)(config->finality.tier_count - 1);
	}
	return (uint8_t)finality_tier_of(&config->finality, &sum);
}

bool apply_is_pending(struct kv_txn *t, const struct chain_config *config, const struct sighting_at *at)
{
	return pending_has(t, at, config->finality.tier_count);
}

/* A block goes on. */

void apply_move(struct kv_txn *t, struct apply *a, struct intent *i, enum intent_state to,
		const struct hash32 *tx, const struct reason *reason, const struct evidence *e)
{
	struct move_request r = { .to = to, .actor = ACTOR_LISTENER, .has_tx = tx != NULL, .has_reason = reason != NULL };
	struct move_context ctx = { .now_ms = a->now_ms, .tip_time_ms = chain_time_ms(&a->chain), .evidence = *e };
	struct complaint why;

	if (tx)
		r.tx_hash = *tx;
	if (reason)
		r.reason = *reason;
	if (intents_move(t, i, &r, &ctx, &why).outcome != MOVE_APPLIED)
		kv_fail(t, E_CORRUPT);
}

/* A node may list one transaction twice: the payment stays where it was claimed. */
static void claim(struct kv_txn *t, struct apply *a, const struct transfer_row *tr, const struct listed *l)
{
	struct claim_row before;

	if (claim_get(t, a->config->chain_id, &tr->tx_hash, tr->ordinal, &before) &&
	    (!hash_eq(&before.block_hash, &tr->block_hash) || before.tx_index != tr->tx_index))
		return;
	claim_take(t, a->config->chain_id, tr, l->owner, l->owner_kind);
}

static void keep_transfers(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g)
{
	const struct header *h = &body->block->header;
	uint64_t chain = a->config->chain_id;

	for (size_t i = 0; i < g->listed_count; i++) {
		const struct listed *l = &g->listed[i];
		struct transfer_row tr = {
			.tx_hash = body->block->tx_hashes[l->transfer.tx_index],
			.token = l->transfer.token,
			.from = l->transfer.from,
			.to = l->transfer.to,
			.value = l->transfer.value,
			.height = h->number,
			.block_hash = h->hash,
			.tx_index = l->transfer.tx_index,
			.ordinal = l->transfer.ordinal,
		};

		if (!l->touched)
			continue;
		transfer_keep(t, chain, &tr);
		if (l->owner_kind != OWNER_NONE && !l->was_owned)
			claim(t, a, &tr, l);
	}
}

static void add_sighting(struct kv_txn *t, struct apply *a, const struct body *body,
			 const struct finding *f, struct sighting_at *at, struct sighting_row *s)
{
	const struct header *h = &body->block->header;

	*at = (struct sighting_at){ a->config->chain_id, h->number, f->tx_index, f->ordinal, f->intent.row };
	*s = (struct sighting_row){
		.tx_hash = body->block->tx_hashes[f->tx_index],
		.block_hash = h->hash,
		.block_time_s = (int64_t)h->timestamp,
		.verdict = (uint8_t)f->judgement.verdict,
		.route = f->route,
		.sum = f->judgement.sum,
		.witness = (uint8_t)f->witness,
		.before = f->before,
		.after = f->after,
		.came = f->came,
		.went = f->went,
		.loose = (uint8_t)f->loose,
		.judged_in_review = f->role == ROLE_REVIEW,
	};
	sighting_add(t, at, s, (uint8_t)(a->config->finality.tier_count - 1));
}

/* Intents of one transaction come one after another, so its tier is known when all are written. */
static void set_tier(struct kv_txn *t, struct apply *a, const struct sighting_at *at)
{
	uint8_t strictest = (uint8_t)(a->config->finality.tier_count - 1);
	uint8_t tier = apply_tier(t, a->config, at);

	if (tier != strictest)
		pending_move(t, at, strictest, tier);
}

static void observe(struct kv_txn *t, struct apply *a, struct intent *i, const struct reason *reason,
		    const struct evidence *e)
{
	event_intent(t, EVENT_INTENT_OBSERVED, i, reason, e, a->now_ms);
	intents_save(t, i);
}

static struct reason replaced_reason(const struct intent *i, const struct hash32 *tx)
{
	char old[HASH_TEXT], new[HASH_TEXT];
	struct reason r = { .code = "replaced" };

	snprintf(r.text, sizeof(r.text), "%s is mined, %s is not", hash_format(tx, new),
		 hash_format(&i->tx_hash, old));
	return r;
}

static void act(struct kv_txn *t, struct apply *a, struct finding *f, const struct sighting_at *at,
		const struct sighting_row *s)
{
	struct evidence e = apply_evidence(t, at, s);
	struct reason verdict = gather_reason(&f->intent, &f->judgement, f->witness, &f->before, &f->after);
	struct intent *i = &f->intent;
	struct reason replaced;

	switch (f->role) {
	case ROLE_REPLACE:
		replaced = replaced_reason(i, &s->tx_hash);
		apply_move(t, a, i, INTENT_SETTLING, NULL, &replaced, &e);
		/* fall through */
	case ROLE_CONFIRM:
		apply_move(t, a, i, INTENT_CONFIRMING, &s->tx_hash, NULL, &e);
		if (f->judgement.verdict != VERDICT_PAID)
			observe(t, a, i, &verdict, &e);
		return;
	case ROLE_SEEN:
	case ROLE_REVIEW:
		observe(t, a, i, &verdict, &e);
		return;
	case ROLE_EXTRA:
	case ROLE_ENDED:
	case ROLE_LOOSE:
		return;		/* told when final */
	}
}

static void act_on_findings(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g)
{
	struct sighting_at at;
	struct sighting_row s;

	keep_transfers(t, a, body, g);
	gather_sort(g);
	for (size_t i = 0; i < g->count; i++) {
		struct finding *f = &g->findings[i];

		add_sighting(t, a, body, f, &at, &s);
		if (f->intent.row)
			intents_get(t, f->intent.row, &f->intent);
		act(t, a, f, &at, &s);
	}
	for (size_t i = 0; i < g->count; i++) {
		const struct finding *f = &g->findings[i];

		at = (struct sighting_at){ a->config->chain_id, body->block->header.number, f->tx_index,
					   f->ordinal, f->intent.row };
		if (f->witness != WITNESS_PENDING && f->witness != WITNESS_DOUBTED)
			set_tier(t, a, &at);
	}
}

void apply_block(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g)
{
	const struct header *h = &body->block->header;
	uint64_t chain = a->config->chain_id;
	struct block_row b = {
		.hash = h->hash,
		.parent = h->parent_hash,
		.time_s = (int64_t)h->timestamp,
		.proof = body->proof,
		.order = number_next(t, "order"),
		.tx_count = body->block->tx_count,
	};

	if (!a->chain.has_tip) {
		a->chain.start_height = h->number;
		intents_start_clock(t, chain, b.time_s > 0 ? b.time_s * 1000 : 1);
	}
	chain_push(t, chain, &a->chain, h->number, &b, body->block->tx_hashes);
	act_on_findings(t, a, body, g);
}

void apply_late(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g)
{
	act_on_findings(t, a, body, g);
}

/* A balance comes after its block. */

bool apply_balance_of(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		      struct address *token, struct address *payee)
{
	struct key key = key_transfer(at->chain, at->height, &s->block_hash, at->tx_index, at->ordinal);
	struct transfer_row tr;
	struct intent i;

	if (at->row && intents_get(t, at->row, &i)) {
		*token = i.token;
		*payee = i.payee;
		return true;
	}
	if (!at->row && row_get(t, T_TRANSFER, &key, ROW_TRANSFER, &tr)) {
		*token = tr.token;
		*payee = tr.to;
		return true;
	}
	kv_fail(t, E_CORRUPT);
	return false;
}

static struct paid_facts facts_of(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s)
{
	struct paid_facts facts = { (enum witness_state)s->witness, s->block_time_s, PROOF_RECEIPTS };
	struct block_row b;

	if (chain_block(t, at->chain, at->height, &b))
		facts.proof = b.proof;
	return facts;
}

static void observe_verdict(struct kv_txn *t, struct apply *a, const struct sighting_at *at, const struct sighting_row *s,
			    struct intent *i)
{
	struct judgement j = { (enum verdict)s->verdict, s->sum };
	struct reason verdict = gather_reason(i, &j, (enum witness_state)s->witness, &s->before, &s->after);
	struct evidence e = apply_evidence(t, at, s);

	observe(t, a, i, &verdict, &e);
}

static bool decides(const struct intent *i, const struct sighting_row *s)
{
	return i->state == INTENT_CONFIRMING && hash_eq(&i->tx_hash, &s->tx_hash);
}

/* What was paid until its balance was read may be paid no more; then it claims nothing, as if the balance had been there at once. */
static void check_again(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct sighting_row *s,
			struct intent *i)
{
	struct paid_facts facts = facts_of(t, at, s);
	enum verdict now = gather_check_paid(a->config, i, &facts);

	if (now == VERDICT_PAID)
		return;
	s->verdict = (uint8_t)now;
	sighting_put(t, at, s);
	if (decides(i, s))
		claim_drop(t, at->chain, at->height, &s->block_hash, at->tx_index, i->row);
	if (decides(i, s) || (i->state == INTENT_NEEDS_REVIEW && s->judged_in_review))
		observe_verdict(t, a, at, s, i);
}

static void take_outcome(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct sighting_row *s,
			 const struct late_outcome *o)
{
	struct intent i;

	s->witness = (uint8_t)o->state;
	s->before = o->before;
	s->after = o->after;
	s->came = s->went = u256_from_u64(0);
	sighting_put(t, at, s);
	if (s->verdict == VERDICT_PAID && intents_get(t, at->row, &i))
		check_again(t, a, at, s, &i);
	pending_move(t, at, TIER_WAITS, (uint8_t)(a->config->finality.tier_count - 1));
	set_tier(t, a, at);
}

static bool is_about(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		     const struct late_outcome *o)
{
	struct address token, payee;

	return hash_eq(&s->block_hash, &o->block_hash) && apply_balance_of(t, at, s, &token, &payee) &&
	       address_eq(&token, &o->token) && address_eq(&payee, &o->payee);
}

/* It lacked what another had claimed, which may be free by now. */
static void judge_contested(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct sighting_row *s)
{
	uint8_t before = s->verdict;
	struct intent i;

	if (!at->row || !verdict_is_contested((enum verdict)s->verdict) || !intents_get(t, at->row, &i) || !decides(&i, s))
		return;
	apply_rejudge(t, a, at, s, &i);
	if (s->verdict != before)
		observe_verdict(t, a, at, s, &i);
}

void apply_outcome(struct kv_txn *t, struct apply *a, const struct late_outcome *o)
{
	struct sighting_at first = { .chain = a->config->chain_id, .height = o->height }, at;
	struct sighting_row s;

	for (at = first; sighting_next_in_block(t, &at, &s); sighting_step(&at)) {
		if (sighting_waits(&s) && is_about(t, &at, &s, o))
			take_outcome(t, a, &at, &s, o);
	}
	for (at = first; o->state != WITNESS_AGREES && sighting_next_in_block(t, &at, &s); sighting_step(&at)) {
		if (is_about(t, &at, &s, o))
			judge_contested(t, a, &at, &s);
	}
}

/* A block goes off. */

static void note_undone(struct apply *a, uint64_t row)
{
	if (a->undone_count == a->undone_cap) {
		a->undone_cap = a->undone_cap ? a->undone_cap * 2 : 16;
		a->undone = xrealloc(a->undone, a->undone_cap * sizeof(*a->undone));
	}
	a->undone[a->undone_count++] = row;
}

/* The new branch's block at @height, or its head if that is lower. */
static struct block_ref branch_at(const struct branch *branch, uint64_t height)
{
	uint64_t index = height - branch->ancestor - 1;

	if (index >= branch->count)
		index = branch->count - 1;
	return (struct block_ref){ true, branch->ancestor + 1 + index, branch->hashes[index] };
}

static struct reason reorg_reason(const struct block_ref *lost, const struct block_ref *by)
{
	char old[HASH_TEXT], new[HASH_TEXT];
	struct reason r = { .code = "reorg" };

	snprintf(r.text, sizeof(r.text), "block %llu %s lost to block %llu %s", (unsigned long long)lost->height,
		 hash_format(&lost->hash, old), (unsigned long long)by->height, hash_format(&by->hash, new));
	return r;
}

static void reverse(struct kv_txn *t, struct apply *a, struct intent *i, const struct reason *reason,
		    const struct evidence *e)
{
	i->reversed = true;
	event_intent(t, EVENT_INTENT_REVERSED, i, reason, e, a->now_ms);
	ledger_add(t, i, LEDGER_REVERSAL, outbox_last(t), a->now_ms);
	intents_save(t, i);
}

/* A person settled it on a block that was not final, which any reorg may take: the word stands, the loss is told. */
static void undo_settled(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct intent *i,
			 const struct reason *reason, const struct evidence *e, bool over_final)
{
	if (over_final || !apply_is_pending(t, a->config, at))
		reverse(t, a, i, reason, e);
	else
		observe(t, a, i, reason, e);
}

static void undo_sighting(struct kv_txn *t, struct apply *a, const struct sighting_at *at,
			  const struct sighting_row *s, const struct branch *branch)
{
	struct evidence e = apply_evidence(t, at, s);
	struct reason reason;
	struct intent i;

	if (!intents_get(t, at->row, &i)) {
		kv_fail(t, E_CORRUPT);
		return;
	}
	e.replaced_by = branch_at(branch, at->height);
	reason = reorg_reason(&e.block, &e.replaced_by);
	if (i.state == INTENT_NEEDS_REVIEW) {
		observe(t, a, &i, &reason, &e);
		return;
	}
	if (!i.has_tx || !hash_eq(&i.tx_hash, &s->tx_hash))
		return;
	if (i.state == INTENT_SETTLED && !i.reversed && ledger_balance(t, i.row, NULL) > 0)
		undo_settled(t, a, at, &i, &reason, &e, branch->over_final);
	if (i.state != INTENT_CONFIRMING)
		return;
	apply_move(t, a, &i, INTENT_SETTLING, NULL, &reason, &e);
	note_undone(a, i.row);
}

static void undo_block(struct kv_txn *t, struct apply *a, const struct branch *branch)
{
	uint64_t chain = a->config->chain_id, height = a->chain.tip_height;
	struct sighting_at at = { .chain = chain, .height = height };
	struct hash32 hash = a->chain.tip_hash;
	struct sighting_row s;

	for (; sighting_next_in_block(t, &at, &s); sighting_step(&at)) {
		if (at.row)
			undo_sighting(t, a, &at, &s, branch);
		sighting_del(t, &at, a->config->finality.tier_count);
	}
	claims_orphan(t, chain, height, &hash);
	chain_pop(t, chain, &a->chain);
}

/* Down to where blocks of ours are undone: below our first there are none. */
static uint64_t lowest_undone(const struct apply *a, const struct branch *branch)
{
	uint64_t base = a->chain.start_height - 1;

	return branch->below_start && branch->ancestor < base ? base : branch->ancestor;
}

static void tell_reorg(struct kv_txn *t, struct apply *a, const struct branch *branch)
{
	struct chain_event e = {
		.type = EVENT_CHAIN_REORG,
		.chain = a->config->chain_id,
		.old_tip = { true, a->chain.tip_height, a->chain.tip_hash },
		.new_tip = branch_at(branch, UINT64_MAX),
		/* Where the last common block lies below all that was followed: the new branch's block there. */
		.ancestor = { true, branch->ancestor, branch->ancestor_hash },
		.depth = a->chain.tip_height - lowest_undone(a, branch),
	};

	event_chain(t, &a->chain, &e, a->now_ms);
}

/* A watermark above the ancestor was wrong: it falls back to it, and its tier waits for an operator unless one accepted this. */
static void cut_marks(struct kv_txn *t, struct apply *a, const struct branch *branch)
{
	struct block_row b = { .time_s = 0 };

	chain_block(t, a->config->chain_id, branch->ancestor, &b);
	for (unsigned i = 0; i < a->config->finality.tier_count; i++) {
		struct watermark_row *m = &a->chain.marks[i];

		if (!m->known || m->height <= branch->ancestor)
			continue;
		*m = (struct watermark_row){ true, branch->ancestor, branch->ancestor_hash, b.time_s,
					     !branch->over_final };
	}
}

void apply_rollback(struct kv_txn *t, struct apply *a, const struct branch *branch)
{
	uint64_t lowest = lowest_undone(a, branch);

	tell_reorg(t, a, branch);
	while (a->chain.tip_height > lowest && t->err == OK)
		undo_block(t, a, branch);
	if (branch->below_start) {
		a->chain.tip_height = branch->ancestor;
		a->chain.tip_hash = branch->ancestor_hash;
		a->chain.start_height = branch->ancestor + 1;
	}
	cut_marks(t, a, branch);
	if (branch->over_final)
		a->chain.latched = a->chain.accepted = false;
	chain_put(t, a->config->chain_id, &a->chain);
}

/* Another attempt stands in a block of ours. */

static struct candidate *list_candidates(const struct transfer_row *rows, size_t count, const struct intent *i)
{
	struct candidate *list = xcalloc(count, sizeof(*list));

	for (size_t k = 0; k < count; k++) {
		list[k] = (struct candidate){
			.transfer = { rows[k].token, rows[k].from, rows[k].to, rows[k].value,
				      rows[k].tx_index, rows[k].ordinal },
			.taken = rows[k].owner_kind != OWNER_NONE && rows[k].owner != i->row,
		};
	}
	return list;
}

void apply_rejudge(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct sighting_row *s,
		   const struct intent *i)
{
	struct paid_facts paid = facts_of(t, at, s);
	struct match_facts facts = { s->verdict == VERDICT_REVERTED, s->verdict == VERDICT_WRONG_TOKEN };
	size_t count;
	struct transfer_row *rows = apply_transfers(t, at, s, i, &count);
	struct candidate *candidates = list_candidates(rows, count, i);
	struct judgement j;

	j = match_judge(i, candidates, count, &facts);
	if (j.verdict == VERDICT_PAID)
		j.verdict = gather_check_paid(a->config, i, &paid);
	claim_drop(t, at->chain, at->height, &s->block_hash, at->tx_index, i->row);
	for (size_t k = 0; k < count && j.verdict == VERDICT_PAID; k++) {
		if (candidates[k].chosen)
			claim_take(t, at->chain, &rows[k], i->row, OWNER_CLAIM);
	}
	s->verdict = (uint8_t)j.verdict;
	s->sum = j.sum;
	sighting_put(t, at, s);
	free(candidates);
	free(rows);
}

/* It was final as an extra one, perhaps: now it decides, so it waits for its tier again. */
static void pend_again(struct kv_txn *t, struct apply *a, const struct sighting_at *at)
{
	unsigned tiers = a->config->finality.tier_count;
	struct key strictest = key_pending(at, (uint8_t)(tiers - 1));

	pending_end(t, at, tiers);
	mark_put(t, T_PENDING, &strictest);
	set_tier(t, a, at);
}

static void reconcile(struct kv_txn *t, struct apply *a, uint64_t row)
{
	struct sighting_at at;
	struct sighting_row s;
	struct evidence e;
	struct intent i;

	if (!intents_get(t, row, &i) || i.state != INTENT_SETTLING ||
	    !sighting_of(t, a->config->chain_id, row, NULL, &at, &s))
		return;
	apply_rejudge(t, a, &at, &s, &i);
	e = apply_evidence(t, &at, &s);
	apply_move(t, a, &i, INTENT_CONFIRMING, &s.tx_hash, NULL, &e);
	if (!sighting_waits(&s))
		pend_again(t, a, &at);
	if (s.verdict != VERDICT_PAID)
		observe_verdict(t, a, &at, &s, &i);
}

void apply_reconcile(struct kv_txn *t, struct apply *a)
{
	for (size_t i = 0; i < a->undone_count; i++)
		reconcile(t, a, a->undone[i]);
	a->undone_count = 0;
}
