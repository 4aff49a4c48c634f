/*
 * What must hold of events at every commit, read as anybody else would.
 */
#include "common/json.h"
#include "store/outbox.h"
#include "tests/sim/run.h"

#include <stdlib.h>
#include <string.h>

#define ID_BYTES 27

/* An event as a consumer reads it. */
struct told_event {
	char type[40], id[ID_BYTES + 1], code[REASON_CODE_MAX], by[16], state[16], witness[16];
	uint64_t sequence, number, version, depth;
	int intent, block, old_tip, ancestor, tx;
	bool has_intent, reversed;
};

int intent_number(const char *id)
{
	return id[0] == 'i' ? atoi(id + 1) : -1;
}

static void copy_text(struct json object, const char *name, char *out, size_t len)
{
	struct json j = json_maybe(object, name);

	if (j.value)
		strncat(out, json_text(j), len - 1);
}

static int block_of(struct run *r, struct json data, const char *name)
{
	struct json j = json_maybe(data, name);
	struct hash32 hash;

	if (!j.value)
		return -1;
	hash = json_hash(json_member(j, "hash"));
	return tree_find(&r->tree, &hash);
}

static void read_tx(struct run *r, struct json object, struct told_event *e)
{
	struct hash32 hash;

	if (!json_has(object, "tx_hash"))
		return;
	hash = json_hash(json_member(object, "tx_hash"));
	e->tx = tree_find_tx(&r->tree, &hash);
}

static void read_intent(struct run *r, struct json data, struct told_event *e)
{
	struct json intent = json_maybe(data, "intent"), evidence = json_maybe(data, "evidence");

	e->has_intent = intent.value != NULL;
	if (!e->has_intent) {
		struct json names = json_maybe(data, "intents");

		e->intent = names.value && json_length(names) ? intent_number(json_text(json_at(names, 0))) : -1;
		read_tx(r, data, e);
		return;
	}
	e->intent = intent_number(json_text(json_member(intent, "id")));
	e->version = json_u64(json_member(intent, "version"));
	copy_text(intent, "state", e->state, sizeof(e->state));
	copy_text(evidence, "by", e->by, sizeof(e->by));
	if (json_has(evidence, "balance"))
		copy_text(json_member(evidence, "balance"), "witness", e->witness, sizeof(e->witness));
	e->block = block_of(r, evidence, "block");
	read_tx(r, intent, e);
	e->reversed = json_has(intent, "reversed");
}

static bool read_event(struct run *r, struct slice body, struct told_event *e)
{
	struct complaint why;
	struct json_doc *doc = json_open(body, &why);
	struct json root, data;
	bool good;

	*e = (struct told_event){ .intent = -1, .block = -1, .old_tip = -1, .ancestor = -1, .tx = -1 };
	if (!doc)
		return false;
	root = json_root(doc);
	data = json_member(root, "data");
	copy_text(root, "type", e->type, sizeof(e->type));
	copy_text(data, "id", e->id, sizeof(e->id));
	e->sequence = json_u64(json_member(data, "sequence"));
	e->number = json_u64(json_member(data, "event_number"));
	if (json_has(data, "reason"))
		copy_text(json_member(data, "reason"), "code", e->code, sizeof(e->code));
	if (json_has(data, "depth"))
		e->depth = json_u64(json_member(data, "depth"));
	e->old_tip = block_of(r, data, "old_tip");
	e->ancestor = block_of(r, data, "ancestor");
	read_intent(r, data, e);
	good = json_finish(doc, &why) == OK;
	json_close(doc);
	return good;
}

/* The table of moves, written down once more: who may move from where to where. */
static bool may_move(enum intent_state from, enum intent_state to, const char *by)
{
	static const struct {
		enum intent_state from, to;
		const char *by;
	} moves[] = {
		{ INTENT_CREATED, INTENT_AUTHORIZED, "api" },
		{ INTENT_CREATED, INTENT_CANCELED, "api operator system" },
		{ INTENT_AUTHORIZED, INTENT_SETTLING, "relayer" },
		{ INTENT_AUTHORIZED, INTENT_CANCELED, "api operator" },
		{ INTENT_SETTLING, INTENT_CONFIRMING, "relayer listener" },
		{ INTENT_SETTLING, INTENT_FAILED, "relayer" },
		{ INTENT_SETTLING, INTENT_NEEDS_REVIEW, "relayer" },
		{ INTENT_CONFIRMING, INTENT_SETTLED, "listener" },
		{ INTENT_CONFIRMING, INTENT_SETTLING, "listener" },
		{ INTENT_CONFIRMING, INTENT_NEEDS_REVIEW, "listener" },
		{ INTENT_NEEDS_REVIEW, INTENT_SETTLED, "operator" },
		{ INTENT_NEEDS_REVIEW, INTENT_FAILED, "operator" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		if (moves[i].from == from && moves[i].to == to && strstr(moves[i].by, by))
			return true;
	}
	return false;
}

/* Settling. */

static unsigned tier_of(const struct run *r, uint64_t amount)
{
	const struct finality_policy *p = &r->config.finality;
	struct u256 v = u256_from_u64(amount);
	unsigned tier = 0;

	while (tier + 1 < p->tier_count && u256_cmp(&v, &p->tiers[tier].up_to) > 0)
		tier++;
	return tier;
}

static uint64_t small(const struct u256 *v)
{
	uint8_t be[32];

	u256_to_be(v, be);
	return be64_get(be + 24);
}

/* What the intents that the transaction settled so far add up to. */
static uint64_t settled_by_tx(struct run *r, int tx)
{
	uint64_t sum = 0;

	for (int i = 0; i < INTENTS_MAX; i++) {
		const struct watched_intent *w = &r->watch.intents[i];

		if (w->there && w->intent.state == INTENT_SETTLED && hash_eq(&w->intent.tx_hash, &r->tree.txs[tx].hash))
			sum += small(&w->intent.amount);
	}
	return sum;
}

/* Each transfer that it claims is one of the true block, to its payee, in its token, from its payer, nobody else's. */
static uint64_t sum_claims(struct run *r, struct kv_txn *t, int number, int tx)
{
	const struct intent *i = &r->watch.intents[number].intent;
	struct key from = key_claim(CHAIN_ID, &r->tree.txs[tx].hash, 0);
	struct kv_cursor c;
	struct claim_row claim;
	uint64_t sum = 0;

	for (bool more = kv_seek(t, T_CLAIM, key_slice(&from), 8 + 32, &c); more; more = kv_next(&c)) {
		uint32_t ordinal = be32_get(c.key + 40);
		const struct tree_log *log = &r->tree.txs[tx].logs[ordinal % LOGS_MAX];
		struct address token = tree_contract(log->contract), to = tree_account(log->to),
			       payer = tree_account(log->from);

		if (!row_decode(t, c.val, ROW_CLAIM, &claim) || claim.row != i->row)
			continue;
		if (ordinal >= r->tree.txs[tx].log_count || r->tree.txs[tx].reverted || !address_eq(&token, &i->token) ||
		    !address_eq(&to, &i->payee) || (i->has_payer && !address_eq(&payer, &i->payer)) ||
		    (log->form != FORM_TRANSFER && log->form != FORM_SKIMMED))
			violate(r, "claim", "i%d settled with transfer %u of tx %d, which does not pay it", number, ordinal, tx);
		if (r->watch.settled_by[tx][ordinal % LOGS_MAX])
			violate(r, "twice", "transfer %u of tx %d settles i%d and i%d", ordinal, tx,
				r->watch.settled_by[tx][ordinal % LOGS_MAX] - 1, number);
		r->watch.settled_by[tx][ordinal % LOGS_MAX] = (uint8_t)(number + 1);
		sum += log->value;
	}
	return sum;
}

/* Under the tier of what it pays, or a later one: intents that it does not pay may count too. */
static bool is_final(const struct run *r, unsigned tier, uint64_t height)
{
	for (; tier < r->config.finality.tier_count; tier++) {
		if (r->watch.chain.marks[tier].known && height <= r->watch.chain.marks[tier].height)
			return true;
	}
	return false;
}

static void check_settled(struct run *r, struct kv_txn *t, const struct told_event *e)
{
	const struct intent *i = &r->watch.intents[e->intent].intent;
	uint64_t sum;
	int block;

	r->tally[TALLY_SETTLED]++;
	if (strcmp(e->by, "listener") != 0)
		return;
	if (strcmp(e->witness, "pending") == 0 || strcmp(e->witness, "disagrees") == 0)
		violate(r, "settled", "i%d settled, and its balance is %s", e->intent, e->witness);
	if (e->tx < 0 || e->block < 0) {
		violate(r, "settled", "i%d settled without a transaction and block of the tree", e->intent);
		return;
	}
	r->watch.intents[e->intent].settled_block = e->block;
	block = tree_block_of_tx(&r->tree, tree_last(&r->tree), e->tx, NULL);
	if (r->tree.lost_head >= 0 && block != e->block)
		block = tree_block_of_tx(&r->tree, r->tree.lost_head, e->tx, NULL);
	if (block != e->block || block < 0)
		violate(r, "settled", "i%d settled by tx %d in block %d, which is in the end in block %d", e->intent, e->tx,
			e->block, block);
	if (!is_final(r, tier_of(r, settled_by_tx(r, e->tx)), r->tree.blocks[e->block].height))
		violate(r, "settled", "i%d settled in block %d above the watermark", e->intent, e->block);
	sum = sum_claims(r, t, e->intent, e->tx);
	if (sum != small(&i->amount))
		violate(r, "claim", "i%d settled with claims of %llu", e->intent, (unsigned long long)sum);
}

/* Said to be missing: no attempt is in a block of ours. */
static void check_missing(struct run *r, const struct told_event *e)
{
	int tip = tree_find(&r->tree, &r->watch.chain.tip_hash);

	for (size_t i = 0; i < r->done_count; i++) {
		const struct request_done *d = &r->done[i];
		bool named = d->kind == ITEM_ATTEMPT || (d->kind == ITEM_CONFIRM && d->outcome == MOVE_APPLIED);
		int block = d->intent == e->intent && d->tx >= 0 && named
				    ? tree_block_of_tx(&r->tree, tip, d->tx, NULL) : -1;

		if (block >= 0 && r->tree.blocks[block].height >= r->watch.chain.start_height)
			violate(r, "missing", "i%d is said to be missing, but tx %d is in our block %d", e->intent, d->tx, block);
	}
}

/* Events. */

/* What it was settled by may settle another now. */
static void note_reversed(struct run *r, int intent)
{
	r->tally[TALLY_REVERSED]++;
	for (int tx = 0; tx < TXS_MAX; tx++) {
		for (int k = 0; k < LOGS_MAX; k++) {
			if (r->watch.settled_by[tx][k] == intent + 1)
				r->watch.settled_by[tx][k] = 0;
		}
	}
}

static void check_state_event(struct run *r, struct kv_txn *t, const struct told_event *e)
{
	struct watched_intent *w = &r->watch.intents[e->intent];
	enum intent_state to;

	if (strncmp(e->type, "intent.", 7) != 0 || !intent_state_parse(e->type + 7, &to)) {
		if (strcmp(e->type, "intent.reversed") == 0)
			note_reversed(r, e->intent);
		if (e->version != w->intent.version)
			violate(r, "version", "i%d: %s at version %llu, it has %llu", e->intent, e->type,
				(unsigned long long)e->version, (unsigned long long)w->intent.version);
		return;
	}
	if (e->version != w->intent.version + 1)
		violate(r, "version", "i%d: %s at version %llu after %llu", e->intent, e->type, (unsigned long long)e->version,
			(unsigned long long)w->intent.version);
	if (e->version > 1 && !may_move(w->intent.state, to, e->by))
		violate(r, "move", "i%d: %s -> %s by %s", e->intent, intent_state_name(w->intent.state), e->type, e->by);
	r->tally[TALLY_LATE_BALANCES] += to == INTENT_CONFIRMING && strcmp(e->witness, "pending") == 0;
	r->tally[TALLY_REVIEWED] += to == INTENT_NEEDS_REVIEW;
	r->tally[TALLY_PUT_BACK] += to == INTENT_SETTLING && strcmp(e->code, "reorg") == 0;
	r->tally[TALLY_REPLACED] += to == INTENT_SETTLING && strcmp(e->code, "replaced") == 0;
	r->tally[TALLY_FAILED] += to == INTENT_FAILED || to == INTENT_CANCELED;
	w->reviewed |= to == INTENT_NEEDS_REVIEW;
	w->decided |= w->intent.state == INTENT_NEEDS_REVIEW && (to == INTENT_SETTLED || to == INTENT_FAILED);
	w->failed |= w->intent.state != INTENT_NEEDS_REVIEW && (to == INTENT_FAILED || to == INTENT_CANCELED);
	w->intent.state = to;
	w->intent.version = e->version;
	if (e->tx >= 0) {
		w->intent.has_tx = true;
		w->intent.tx_hash = r->tree.txs[e->tx].hash;
	}
	if (to == INTENT_SETTLED)
		check_settled(r, t, e);
	if (strcmp(e->code, "tx_missing") == 0)
		check_missing(r, e);
}

static void check_id(struct run *r, const struct told_event *e)
{
	struct watched *w = &r->watch;

	for (size_t at = 0; at < w->ids.len; at += ID_BYTES) {
		if (memcmp(w->ids.data + at, e->id, ID_BYTES) == 0)
			violate(r, "id", "event %llu has the id of an earlier one", (unsigned long long)e->sequence);
	}
	if (strlen(e->id) != ID_BYTES)
		violate(r, "id", "event %llu has no id", (unsigned long long)e->sequence);
	buf_put(&w->ids, e->id, ID_BYTES);
}

static void note_told(struct run *r, const struct told_event *e)
{
	struct told *told = &r->watch.told[r->watch.told_count];

	r->tally[TALLY_UNMATCHED] += strcmp(e->type, "transfer.unmatched") == 0;
	r->tally[TALLY_AMBIGUOUS] += strcmp(e->type, "transfer.ambiguous") == 0;
	r->tally[TALLY_LATCHED] += strcmp(e->type, "chain.finality_violation") == 0;
	if (strncmp(e->type, "transfer.", 9) != 0 || r->watch.told_count == TOLD_MAX)
		return;
	*told = (struct told){ .tx = e->tx, .intent = e->intent };
	memcpy(told->code, e->code, sizeof(told->code));
	r->watch.told_count++;
}

static void check_reorg(struct run *r, const struct told_event *e, int old, int tip)
{
	int parent = tip < 0 ? -1 : r->tree.blocks[tip].parent;

	if (old < 0 || e->old_tip != old || e->ancestor != parent ||
	    e->depth != r->tree.blocks[old].height - r->tree.blocks[parent].height)
		violate(r, "reorg", "told from block %d to %d at %d, it was from %d to a child of %d", e->old_tip, tip, e->ancestor,
			old, parent);
}

unsigned watch_events(struct run *r, struct kv_txn *t, int old, int tip)
{
	uint64_t last = outbox_last(t);
	struct watched *w = &r->watch;
	struct told_event e;
	struct slice body;
	unsigned reorgs = 0;

	for (; w->last_event < last && !r->violated; w->last_event++) {
		r->tally[TALLY_EVENTS]++;
		if (!outbox_get(t, w->last_event + 1, &body) || !read_event(r, body, &e)) {
			violate(r, "event", "event %llu cannot be read", (unsigned long long)w->last_event + 1);
			return reorgs;
		}
		if (e.sequence != w->last_event + 1)
			violate(r, "sequence", "event %llu says %llu", (unsigned long long)w->last_event + 1,
				(unsigned long long)e.sequence);
		check_id(r, &e);
		if (e.has_intent && e.intent >= 0 && e.intent < INTENTS_MAX) {
			struct intent *i = &w->intents[e.intent].intent;

			if (e.number != ++i->event_number)
				violate(r, "number", "i%d: event number %llu, want %llu", e.intent, (unsigned long long)e.number,
					(unsigned long long)i->event_number);
			check_state_event(r, t, &e);
		} else if (e.number != ++w->chain_events) {
			violate(r, "number", "chain: event number %llu, want %llu", (unsigned long long)e.number,
				(unsigned long long)w->chain_events);
		}
		note_told(r, &e);
		if (strcmp(e.type, "chain.reorg") == 0 && ++reorgs == 1)
			check_reorg(r, &e, old, tip);
	}
	return reorgs;
}
