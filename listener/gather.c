#include "listener/gather.h"

#include "store/chain.h"
#include "store/claims.h"
#include "store/sightings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One more item at the end of a growing array, zeroed. */
static void *array_add(void **items, size_t *count, size_t *cap, size_t bytes)
{
	char *item;

	if (*count == *cap) {
		*cap = *cap ? *cap * 2 : 16;
		*items = xrealloc(*items, *cap * bytes);
	}
	item = (char *)*items + (*count)++ * bytes;
	return memset(item, 0, bytes);
}

#define ADD(g, items, n, capacity) \
	array_add((void **)&(g)->items, &(g)->n, &(g)->capacity, sizeof(*(g)->items))

void gather_free(struct gather *g)
{
	free(g->findings);
	free(g->listed);
	free(g->wanted);
	*g = (struct gather){ 0 };
}

static struct witness *find_witness(struct witness *w, size_t count, const struct address *token,
			     const struct address *payee)
{
	for (size_t i = 0; i < count; i++) {
		if (address_eq(&w[i].token, token) && address_eq(&w[i].payee, payee))
			return &w[i];
	}
	return NULL;
}

static struct listed *find_listed(struct gather *g, uint32_t tx_index, uint32_t ordinal)
{
	for (size_t i = 0; i < g->listed_count; i++) {
		struct transfer *tr = &g->listed[i].transfer;

		if (tr->tx_index == tx_index && tr->ordinal == ordinal)
			return &g->listed[i];
	}
	return NULL;
}

/* Whom the block touches. */

static const struct hash32 *tx_hash_at(const struct gather_input *in, uint32_t tx_index)
{
	return &in->body->block->tx_hashes[tx_index];
}

/* A person settled it with a transaction that was not in a block of ours then. */
static bool is_settled_by(const struct intent *i, const struct hash32 *tx)
{
	return i->state == INTENT_SETTLED && !i->reversed && i->has_tx && hash_eq(tx, &i->tx_hash);
}

static void find_attempts(struct kv_txn *t, const struct gather_input *in, uint32_t tx_index,
			  struct gather *g)
{
	struct tx_walk walk = { .begun = false };
	uint64_t row, order;

	while (intents_next_of_tx(t, in->config->chain_id, tx_hash_at(in, tx_index), &walk, &row, &order)) {
		struct finding *f;

		f = ADD(g, findings, count, cap);
		f->tx_index = tx_index;
		f->order = order;
		if (!intents_get(t, row, &f->intent))
			kv_fail(t, E_CORRUPT);
		/* Whoever settled it claims before all. */
		if (is_settled_by(&f->intent, tx_hash_at(in, tx_index)))
			f->order = 0;
	}
}

static bool payee_is_watched(struct kv_txn *t, const struct gather_input *in, const struct transfer *tr)
{
	struct key from = key_route_payee(in->config->chain_id, &tr->to);
	struct kv_cursor c;

	return !in->again && kv_seek(t, T_ROUTE, key_slice(&from), from.len, &c);
}

/* Attempts are found before transfers, so the last finding tells whether somebody wants this transaction. */
static bool tx_is_wanted(const struct gather *g, uint32_t tx_index)
{
	return g->count && g->findings[g->count - 1].tx_index == tx_index;
}

static void list_transfer(struct kv_txn *t, const struct gather_input *in, const struct transfer *tr,
			  struct gather *g)
{
	struct listed *l = ADD(g, listed, listed_count, listed_cap);
	struct claim_row claim;

	l->transfer = *tr;
	l->watched = l->touched = payee_is_watched(t, in, tr);
	if ((!l->watched && !tx_is_wanted(g, tr->tx_index)) ||
	    !claim_get(t, in->config->chain_id, tx_hash_at(in, tr->tx_index), tr->ordinal, &claim))
		return;
	l->owner_kind = (enum owner_kind)claim.kind;
	l->owner = claim.row;
	l->was_owned = true;
	l->elsewhere = !hash_eq(&claim.block_hash, &in->body->block->header.hash);
}

static void list_transfers(struct kv_txn *t, const struct gather_input *in, uint32_t tx_index,
			   struct gather *g)
{
	const struct receipts *r = in->body->receipts;
	const struct receipt *receipt = &r->receipts[tx_index];
	struct transfer tr = { .tx_index = tx_index };

	for (uint32_t n = 0; n < receipt->log_count; n++) {
		const struct log_entry *log = &r->logs[receipt->first_log + n];

		tr.ordinal = n;
		if (config_has_token(in->config, &log->address) && match_transfer(log, r->data.data, &tr))
			list_transfer(t, in, &tr, g);
	}
}

static int by_order(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->tx_index < y->tx_index ? -1 : x->tx_index > y->tx_index;
}

/* What an attempt in the block means for its intent. */

static const struct finding *earlier(const struct gather *g, size_t at, enum role role)
{
	for (size_t i = 0; i < at; i++) {
		if (g->findings[i].intent.row == g->findings[at].intent.row && g->findings[i].role == role)
			return &g->findings[i];
	}
	return NULL;
}

static bool recorded_is_here(const struct gather_input *in, const struct gather *g, const struct intent *i)
{
	for (size_t k = 0; k < g->count; k++) {
		if (g->findings[k].intent.row == i->row &&
		    hash_eq(tx_hash_at(in, g->findings[k].tx_index), &i->tx_hash))
			return true;
	}
	return false;
}

static bool recorded_is_mined(struct kv_txn *t, const struct gather_input *in, const struct gather *g,
			      const struct intent *i)
{
	struct sighting_at at;
	struct sighting_row s;

	return recorded_is_here(in, g, i) ||
	       sighting_of(t, i->chain_id, i->row, &i->tx_hash, &at, &s);
}

static enum role role_in_confirming(struct kv_txn *t, const struct gather_input *in,
				    const struct gather *g, size_t at)
{
	const struct finding *f = &g->findings[at];

	if (hash_eq(tx_hash_at(in, f->tx_index), &f->intent.tx_hash))
		return ROLE_SEEN;
	if (earlier(g, at, ROLE_REPLACE) || recorded_is_mined(t, in, g, &f->intent))
		return ROLE_EXTRA;
	return ROLE_REPLACE;
}

/* False: it does not concern the intent (not yet sent, or seen before). */
static bool find_role(struct kv_txn *t, const struct gather_input *in, struct gather *g, size_t at)
{
	struct finding *f = &g->findings[at];
	const struct hash32 *tx = tx_hash_at(in, f->tx_index);
	struct sighting_at place;
	struct sighting_row s;

	if (in->again && sighting_of(t, f->intent.chain_id, f->intent.row, tx, &place, &s))
		return false;
	switch (f->intent.state) {
	case INTENT_CREATED:
	case INTENT_AUTHORIZED:
		return false;
	case INTENT_SETTLING:
		f->role = earlier(g, at, ROLE_CONFIRM) ? ROLE_EXTRA : ROLE_CONFIRM;
		return true;
	case INTENT_CONFIRMING:
		f->role = role_in_confirming(t, in, g, at);
		return true;
	case INTENT_NEEDS_REVIEW:
		f->role = ROLE_REVIEW;
		return true;
	case INTENT_SETTLED:
		f->role = f->intent.has_tx && hash_eq(tx, &f->intent.tx_hash) ? ROLE_ENDED : ROLE_EXTRA;
		return true;
	case INTENT_FAILED:
	case INTENT_CANCELED:
		f->role = ROLE_ENDED;
		return true;
	}
	return false;
}

/* The verdict. */

static bool is_candidate(const struct listed *l, const struct finding *f)
{
	return l->transfer.tx_index == f->tx_index && address_eq(&l->transfer.token, &f->intent.token) &&
	       address_eq(&l->transfer.to, &f->intent.payee);
}

static bool pays_in_another_token(const struct gather_input *in, const struct finding *f)
{
	const struct receipts *r = in->body->receipts;
	const struct receipt *receipt = &r->receipts[f->tx_index];
	struct transfer tr = { 0 };

	for (uint32_t n = 0; n < receipt->log_count; n++) {
		if (match_transfer(&r->logs[receipt->first_log + n], r->data.data, &tr) &&
		    address_eq(&tr.to, &f->intent.payee) && !address_eq(&tr.token, &f->intent.token))
			return true;
	}
	return false;
}

static void sum_block(const struct gather *g, const struct address *token, const struct address *payee,
		      struct u256 *in, struct u256 *out, bool *sound)
{
	*in = *out = (struct u256){ 0 };
	*sound = true;
	for (size_t i = 0; i < g->listed_count; i++) {
		const struct transfer *tr = &g->listed[i].transfer;

		if (!address_eq(&tr->token, token))
			continue;
		if (address_eq(&tr->to, payee) && !u256_add(in, &tr->value, in))
			*sound = false;
		if (address_eq(&tr->from, payee) && !u256_add(out, &tr->value, out))
			*sound = false;
	}
	/* No balance moves so: whatever is read later disagrees. */
	if (!*sound) {
		memset(in, 0xff, sizeof(*in));
		*out = (struct u256){ 0 };
	}
}

static void want(const struct gather_input *in, struct gather *g, const struct address *token,
		 const struct address *payee)
{
	struct witness *w;

	if (in->config->witness == WITNESS_NEVER ||
	    find_witness(in->witnesses, in->witness_count, token, payee) ||
	    find_witness(g->wanted, g->wanted_count, token, payee))
		return;
	w = ADD(g, wanted, wanted_count, wanted_cap);
	w->token = *token;
	w->payee = *payee;
}

static void ask_witness(const struct gather_input *in, struct gather *g, const struct address *token,
			const struct address *payee, struct finding *f)
{
	struct witness *w = find_witness(in->witnesses, in->witness_count, token, payee);
	struct u256 came, went;
	bool sound;

	f->witness = in->config->witness == WITNESS_NEVER ? WITNESS_OFF : WITNESS_UNAVAILABLE;
	if (!w || !(w->have || w->late))
		return;
	sum_block(g, token, payee, &came, &went, &sound);
	if (w->have) {
		w->disagrees = !sound || !match_balance(&w->before, &w->after, &came, &went);
		f->witness = w->disagrees ? WITNESS_DISAGREES : WITNESS_AGREES;
	} else {
		f->witness = w->doubted ? WITNESS_DOUBTED : WITNESS_PENDING;
		f->came = came;
		f->went = went;
	}
	f->before = w->before;
	f->after = w->after;
}

enum verdict gather_check_paid(const struct chain_config *c, const struct intent *i,
			       const struct paid_facts *facts)
{
	if (facts->witness == WITNESS_DISAGREES)
		return VERDICT_BALANCE_MISMATCH;
	if (c->witness == WITNESS_REQUIRED && facts->witness == WITNESS_UNAVAILABLE)
		return VERDICT_NO_WITNESS;
	if ((facts->block_time_s + c->early_s) * 1000 < i->created_at_ms)
		return VERDICT_TOO_OLD;
	if (facts->proof & PROOF_NODES_WORD)
		return VERDICT_UNPROVEN;
	return VERDICT_PAID;
}

static enum verdict check_paid(const struct gather_input *in, const struct finding *f)
{
	struct paid_facts facts = { f->witness, (int64_t)in->body->block->header.timestamp, in->body->proof };

	return gather_check_paid(in->config, &f->intent, &facts);
}

static size_t collect(const struct gather *g, const struct finding *f, struct candidate *out)
{
	size_t count = 0;

	for (size_t i = 0; i < g->listed_count; i++) {
		const struct listed *l = &g->listed[i];

		if (!is_candidate(l, f))
			continue;
		if (out)
			out[count] = (struct candidate){
				.transfer = l->transfer,
				.taken = l->owner_kind != OWNER_NONE && (l->owner != f->intent.row || l->elsewhere),
			};
		count++;
	}
	return count;
}

/* Claim what the judgement chose; a held one, or one that a person settled, takes all that is free. */
static void take(const struct gather_input *in, struct gather *g, struct finding *f,
		 const struct candidate *candidates, size_t count)
{
	bool claims = f->judgement.verdict == VERDICT_PAID && f->role <= ROLE_SEEN;
	bool settled = is_settled_by(&f->intent, tx_hash_at(in, f->tx_index));
	bool takes_all = f->role == ROLE_EXTRA || f->role == ROLE_REVIEW || settled;

	for (size_t i = 0; i < count; i++) {
		const struct transfer *tr = &candidates[i].transfer;
		struct listed *l = find_listed(g, tr->tx_index, tr->ordinal);

		l->touched = true;
		if (claims ? !candidates[i].chosen : !takes_all || candidates[i].taken)
			continue;
		l->owner_kind = claims || settled ? OWNER_CLAIM : OWNER_HOLD;
		l->owner = f->intent.row;
		l->was_owned = false;
	}
}

static uint32_t first_ordinal(const struct finding *f, const struct candidate *candidates, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (f->judgement.verdict != VERDICT_PAID || candidates[i].chosen)
			return candidates[i].transfer.ordinal;
	}
	return count ? candidates[0].transfer.ordinal : 0;
}

static void judge(const struct gather_input *in, struct gather *g, struct finding *f)
{
	size_t count = collect(g, f, NULL);
	struct candidate *candidates = xcalloc(count, sizeof(*candidates));
	const struct receipt *receipt = &in->body->receipts->receipts[f->tx_index];
	struct match_facts facts = {
		.reverted = receipt->has_status && receipt->status == 0,
		.wrong_token = pays_in_another_token(in, f),
	};

	collect(g, f, candidates);
	if (f->role != ROLE_ENDED)
		want(in, g, &f->intent.token, &f->intent.payee);
	ask_witness(in, g, &f->intent.token, &f->intent.payee, f);
	f->judgement = match_judge(&f->intent, candidates, count, &facts);
	f->ordinal = first_ordinal(f, candidates, count);
	if (f->judgement.verdict == VERDICT_PAID)
		f->judgement.verdict = check_paid(in, f);
	take(in, g, f, candidates, count);
	free(candidates);
}

/* Routes, over what is left. */

/* The intent may have been moved by this very block. */
static bool moved_here(const struct gather *g, uint64_t row)
{
	for (size_t i = 0; i < g->count; i++) {
		if (g->findings[i].intent.row == row)
			return true;
	}
	return false;
}

struct route_search {
	size_t fits;
	struct intent intent;		/* the one that fits */
};

static void search_fits(struct kv_txn *t, const struct gather_input *in, const struct gather *g,
			const struct transfer *tr, struct route_search *s)
{
	uint64_t chain = in->config->chain_id;
	struct key from = key_route_fit(chain, &tr->to, &tr->token, &tr->value);
	struct route_facts facts = {
		.first_order = chain_first_order(t, chain, tx_hash_at(in, tr->tx_index), UINT64_MAX),
		.block_time_s = (int64_t)in->body->block->header.timestamp,
		.catching_up = in->catching_up,
	};
	struct kv_cursor c;
	struct intent i;

	for (bool more = kv_seek(t, T_ROUTE, key_slice(&from), from.len, &c); more; more = kv_next(&c)) {
		if (!intents_get(t, be64_get(c.key + c.key_len - 8), &i) || i.state != INTENT_SETTLING ||
		    moved_here(g, i.row) || match_route(&i, tr, &facts) != ROUTE_FITS)
			continue;
		s->intent = i;
		s->fits++;
	}
}

/* What is looked at again when it is final; applied while catching up it stays too old for later intents. */
static void describe_loose(const struct gather_input *in, struct gather *g, const struct transfer *tr,
			   size_t fits, struct finding *f)
{
	f->loose = fits > 1 ? LOOSE_AMBIGUOUS : LOOSE_MISFIT;
	f->judgement.verdict = in->catching_up ? VERDICT_TOO_OLD : VERDICT_NO_TRANSFER;
	f->judgement.sum = tr->value;
	ask_witness(in, g, &tr->token, &tr->to, f);
}

static void find_route(struct kv_txn *t, const struct gather_input *in, struct gather *g, size_t at)
{
	struct transfer tr = g->listed[at].transfer;
	struct route_search s = { 0 };
	struct finding *f;

	if (!g->listed[at].watched || g->listed[at].owner_kind != OWNER_NONE)
		return;
	want(in, g, &tr.token, &tr.to);
	search_fits(t, in, g, &tr, &s);
	f = ADD(g, findings, count, cap);
	f->role = s.fits == 1 ? ROLE_CONFIRM : ROLE_LOOSE;
	f->tx_index = tr.tx_index;
	f->ordinal = tr.ordinal;
	if (f->role == ROLE_LOOSE) {
		describe_loose(in, g, &tr, s.fits, f);
		return;
	}
	f->intent = s.intent;
	f->route = true;
	judge(in, g, f);
}

void gather_block(struct kv_txn *t, const struct gather_input *in, struct gather *g)
{
	const struct block *b = in->body->block;
	size_t kept = 0;

	g->count = g->listed_count = g->wanted_count = 0;
	for (uint32_t i = 0; i < b->tx_count; i++) {
		find_attempts(t, in, i, g);
		list_transfers(t, in, i, g);
	}
	if (g->count)
		qsort(g->findings, g->count, sizeof(*g->findings), by_order);
	for (size_t i = 0; i < g->count; i++) {
		if (!find_role(t, in, g, i))
			g->findings[i].role = ROLE_LOOSE;
		else
			judge(in, g, &g->findings[i]);
	}
	for (size_t i = 0; i < g->count; i++) {
		if (g->findings[i].role != ROLE_LOOSE)
			g->findings[kept++] = g->findings[i];
	}
	g->count = kept;
	for (size_t i = 0; i < g->listed_count; i++)
		find_route(t, in, g, i);
}

static int by_place(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->tx_index != y->tx_index)
		return x->tx_index < y->tx_index ? -1 : 1;
	if (x->ordinal != y->ordinal)
		return x->ordinal < y->ordinal ? -1 : 1;
	return x->intent.row < y->intent.row ? -1 : x->intent.row > y->intent.row;
}

void gather_sort(struct gather *g)
{
	if (g->count)
		qsort(g->findings, g->count, sizeof(*g->findings), by_place);
}

struct reason gather_reason(const struct intent *i, const struct judgement *j,
			    enum witness_state witness, const struct u256 *before,
			    const struct u256 *after)
{
	char sum[U256_TEXT], amount[U256_TEXT];
	struct reason r;

	snprintf(r.code, sizeof(r.code), "%s", verdict_name(j->verdict));
	u256_format(&j->sum, sum);
	u256_format(&i->amount, amount);
	r.text[0] = '\0';
	switch (j->verdict) {
	case VERDICT_PAID:
		snprintf(r.text, sizeof(r.text), "paid %s", amount);
		break;
	case VERDICT_REVERTED:
		snprintf(r.text, sizeof(r.text), "the transaction reverted");
		break;
	case VERDICT_ALREADY_CLAIMED:
		snprintf(r.text, sizeof(r.text), "the transfer belongs to another intent");
		break;
	case VERDICT_UNDERPAID:
	case VERDICT_OVERPAID:
		snprintf(r.text, sizeof(r.text), "paid %s of %s", sum, amount);
		break;
	case VERDICT_WRONG_PAYER:
		snprintf(r.text, sizeof(r.text), "paid by somebody else than the payer");
		break;
	case VERDICT_WRONG_TOKEN:
		snprintf(r.text, sizeof(r.text), "paid in another token");
		break;
	case VERDICT_NO_TRANSFER:
		snprintf(r.text, sizeof(r.text), "the transaction has no transfer to the payee");
		break;
	case VERDICT_BALANCE_MISMATCH:
		u256_format(before, sum);
		u256_format(after, amount);
		snprintf(r.text, sizeof(r.text), "balance went from %s to %s", sum, amount);
		return r;
	case VERDICT_NO_WITNESS:
		snprintf(r.text, sizeof(r.text), "no balance could be read and the policy requires it");
		break;
	case VERDICT_TOO_OLD:
		snprintf(r.text, sizeof(r.text), "paid before the intent was created");
		break;
	case VERDICT_LATE:
		snprintf(r.text, sizeof(r.text), "paid after the intent expired");
		break;
	case VERDICT_UNPROVEN:
		snprintf(r.text, sizeof(r.text), "the block was accepted as the node's word");
		break;
	}
	if (witness == WITNESS_DISAGREES)
		strncat(r.text, "; the payee's balance moved otherwise", sizeof(r.text) - strlen(r.text) - 1);
	return r;
}
