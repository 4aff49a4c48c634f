#include "tests/sim/oracle.h"

#include <string.h>

void ends_allow(struct ends *e, enum intent_state state, const char *code, int tx)
{
	for (unsigned i = 0; i < e->count; i++) {
		if (e->is[i].state == state && e->is[i].tx == tx && (e->is[i].code == code ||
		    (code && e->is[i].code && strcmp(e->is[i].code, code) == 0)))
			return;
	}
	if (e->count < ENDS_MAX)
		e->is[e->count++] = (struct end){ state, code, tx };
}

const struct intent *oracle_intent(const struct run *r, int i)
{
	return &r->watch.intents[i].intent;
}

uint64_t oracle_small(const struct u256 *v)
{
	uint8_t be[32];

	u256_to_be(v, be);
	return be64_get(be + 24);
}

/* The block of ours that holds it in the end; -1: none. */
int oracle_mined(const struct run *r, int tx)
{
	int block = tx < 0 ? -1 : tree_block_of_tx(&r->tree, tree_last(&r->tree), tx, NULL);

	return block >= 0 && r->tree.blocks[block].height >= r->watch.chain.start_height ? block : -1;
}

bool oracle_ever_mined(const struct run *r, int tx)
{
	for (unsigned i = 0; i < r->tree.count; i++) {
		const struct tree_block *b = &r->tree.blocks[r->tree.ids[i]];

		for (unsigned k = 0; k < b->tx_count; k++) {
			if (b->txs[k] == tx)
				return true;
		}
	}
	return false;
}

/* Requests. */

static bool names_tx(const struct request_done *d, int intent)
{
	return d->intent == intent && d->tx >= 0 &&
	       (d->kind == ITEM_ATTEMPT || (d->kind == ITEM_CONFIRM && d->outcome == MOVE_APPLIED));
}

/* Place of the first request that names the transaction for the intent; SIZE_MAX: none. */
size_t oracle_named_at(const struct run *r, int intent, int tx)
{
	for (size_t i = 0; i < r->done_count; i++) {
		if (names_tx(&r->done[i], intent) && r->done[i].tx == tx)
			return i;
	}
	return SIZE_MAX;
}

bool oracle_names_any(const struct run *r, int intent)
{
	for (size_t i = 0; i < r->done_count; i++) {
		if (names_tx(&r->done[i], intent))
			return true;
	}
	return false;
}

static unsigned count_mined(const struct run *r, int intent)
{
	unsigned n = 0;

	for (int tx = 0; tx < TXS_MAX; tx++)
		n += oracle_named_at(r, intent, tx) != SIZE_MAX && oracle_mined(r, tx) >= 0;
	return n;
}

/* Endpoints that fail, lag or disagree: a balance may not be read. */
static bool has_trouble(const struct run *r)
{
	for (size_t i = 0; i < r->plan.count; i++) {
		const struct item *it = &r->plan.items[i];

		if ((it->kind >= ITEM_VIEW && it->kind <= ITEM_CRASH) ||
		    (it->kind == ITEM_ENDPOINT && (it->arg[0] > 0 || it->arg[1] || it->arg[2])))
			return true;
	}
	return false;
}

/* A balance may never be read: a node says that the state is gone, or it fails until it is given up. */
static bool may_be_unread(const struct run *r)
{
	bool gone = false;

	for (size_t i = 0; i < r->plan.count; i++) {
		const struct item *it = &r->plan.items[i];

		gone |= it->kind == ITEM_FAULT && (it->arg[1] == METHOD_ANY || it->arg[1] == METHOD_CALL) &&
			it->arg[2] == ANSWER_ERROR;
	}
	return gone || (has_trouble(r) && r->config.keep_state_blocks == KEEP_STATE_SHORT);
}

/* Matching. */

/* A log that the design calls a transfer, but for the list of contracts. */
bool oracle_has_shape(const struct tree_log *log)
{
	return (log->form == FORM_TRANSFER || log->form == FORM_SKIMMED) && log->value > 0 && log->from != log->to &&
	       log->contract != CONTRACT_NATIVE;
}

bool oracle_is_payee(const struct intent *i, const struct tree_log *log)
{
	struct address to = tree_account(log->to);

	return address_eq(&to, &i->payee);
}

bool oracle_is_in_c(const struct intent *i, const struct tree_log *log)
{
	struct address token = tree_contract(log->contract);

	return oracle_has_shape(log) && oracle_is_payee(i, log) && address_eq(&token, &i->token);
}

bool oracle_is_in_p(const struct intent *i, const struct tree_log *log)
{
	struct address from = tree_account(log->from);

	return oracle_is_in_c(i, log) && (!i->has_payer || address_eq(&from, &i->payer));
}

/* What pays it of those in @set: the first of exactly the amount, else all if they add up; 0: nothing. */
static uint32_t choose(const struct tree_tx *x, uint32_t set, uint64_t amount, uint64_t *sum)
{
	uint32_t first = 0;

	*sum = 0;
	for (unsigned k = 0; k < x->log_count; k++) {
		if (!(set & 1u << k))
			continue;
		*sum += x->logs[k].value;
		if (!first && x->logs[k].value == amount)
			first = 1u << k;
	}
	return first ? first : set && *sum == amount ? set : 0;
}

struct verdict_of oracle_judge_tx(const struct run *r, int intent, int tx, uint32_t taken)
{
	const struct intent *i = oracle_intent(r, intent);
	const struct tree_tx *x = &r->tree.txs[tx];
	uint32_t c = 0, p = 0, chosen;
	uint64_t amount = oracle_small(&i->amount), sum_u, sum_p;
	bool other = false;

	if (x->reverted)
		return (struct verdict_of){ "reverted", 0, 0 };
	for (unsigned k = 0; k < x->log_count; k++) {
		c |= (uint32_t)oracle_is_in_c(i, &x->logs[k]) << k;
		p |= (uint32_t)oracle_is_in_p(i, &x->logs[k]) << k;
		other |= oracle_has_shape(&x->logs[k]) && oracle_is_payee(i, &x->logs[k]) && !oracle_is_in_c(i, &x->logs[k]);
	}
	chosen = choose(x, p & ~taken, amount, &sum_u);
	if (chosen)
		return (struct verdict_of){ "", chosen, c & ~taken };
	if (choose(x, p, amount, &sum_p))
		return (struct verdict_of){ "already_claimed", 0, c & ~taken };
	if (p) {
		uint64_t sum = p & ~taken ? sum_u : sum_p;

		return (struct verdict_of){ sum > amount ? "overpaid" : "underpaid", 0, c & ~taken };
	}
	return (struct verdict_of){ c ? "wrong_payer" : other ? "wrong_token" : "no_transfer", 0, c & ~taken };
}

static bool was_never_sent(const struct run *r, int intent)
{
	enum intent_state state = oracle_intent(r, intent)->state;

	return state == INTENT_CREATED || state == INTENT_AUTHORIZED;
}

/*
 * What the others that name the transaction have of it: those before it in the order of naming, or all.  @maybe
 * is what another has for a while only: under review, decided by a person, or with another attempt mined.
 */
static uint32_t list_taken(const struct run *r, int intent, int tx, bool all, uint32_t *maybe)
{
	size_t mine = oracle_named_at(r, intent, tx);
	uint32_t taken = 0;

	*maybe = 0;
	for (size_t n = 0; n < r->done_count; n++) {
		const struct request_done *d = &r->done[n];
		struct verdict_of v;

		if (!names_tx(d, d->intent) || d->tx != tx || d->intent == intent ||
		    oracle_named_at(r, d->intent, tx) != n || r->watch.intents[d->intent].failed ||
		    r->watch.intents[d->intent].intent.reversed || was_never_sent(r, d->intent))
			continue;
		v = oracle_judge_tx(r, d->intent, tx, taken);
		if (v.code[0] || r->watch.intents[d->intent].reviewed || count_mined(r, d->intent) > 1)
			*maybe |= v.held;
		else if (all || n < mine)
			taken |= v.chosen;
	}
	return taken;
}

/* The payee's balance moved otherwise than the block's logs say. */
static bool is_skimmed(const struct run *r, const struct intent *i, int block)
{
	for (unsigned n = 0; n < r->tree.blocks[block].tx_count; n++) {
		const struct tree_tx *x = &r->tree.txs[r->tree.blocks[block].txs[n]];

		for (unsigned k = 0; k < x->log_count && !x->reverted; k++) {
			if (x->logs[k].form == FORM_SKIMMED && oracle_is_in_c(i, &x->logs[k]))
				return true;
		}
	}
	return false;
}

/* Paid by the logs: what may still stand against it. */
void ends_allow_paid(const struct run *r, struct ends *e, int intent, int tx, int block)
{
	const struct intent *i = oracle_intent(r, intent);
	bool watched = r->config.witness != WITNESS_NEVER, skimmed = watched && is_skimmed(r, i, block);
	bool unread = may_be_unread(r), old;

	old = (r->tree.blocks[block].time_s + r->config.early_s) * 1000 < i->created_at_ms;
	if (skimmed)
		ends_allow(e, INTENT_NEEDS_REVIEW, "balance_mismatch", tx);
	if (r->config.witness == WITNESS_REQUIRED && unread)
		ends_allow(e, INTENT_NEEDS_REVIEW, "no_witness", tx);
	if (skimmed && (!unread || r->config.witness == WITNESS_REQUIRED))
		return;
	if (old)
		ends_allow(e, INTENT_NEEDS_REVIEW, "too_old", tx);
	else
		ends_allow(e, INTENT_SETTLED, "", tx);
}

static bool allow_verdict(const struct run *r, struct ends *e, int intent, int tx, int block, uint32_t taken)
{
	struct verdict_of v = oracle_judge_tx(r, intent, tx, taken);

	if (v.code[0])
		ends_allow(e, INTENT_NEEDS_REVIEW, v.code, tx);
	else
		ends_allow_paid(r, e, intent, tx, block);
	return strcmp(v.code, "overpaid") == 0 || strcmp(v.code, "underpaid") == 0 ||
	       strcmp(v.code, "already_claimed") == 0;
}

/* Judged when its block was applied; where others' transfers stood against it once more when it is final. */
void ends_allow_tx(const struct run *r, struct ends *e, int intent, int tx, int block)
{
	uint32_t maybe, taken = list_taken(r, intent, tx, false, &maybe), all, some = maybe;
	bool contested = false;

	do {
		some = (some - 1) & maybe;
		contested |= allow_verdict(r, e, intent, tx, block, taken | some);
	} while (some != maybe && maybe);
	if (!contested)
		return;
	all = list_taken(r, intent, tx, true, &maybe);
	some = maybe;
	do {
		some = (some - 1) & maybe;
		allow_verdict(r, e, intent, tx, block, all | some);
	} while (some != maybe && maybe);
}
