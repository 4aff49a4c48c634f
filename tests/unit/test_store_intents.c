/*
 * Intents on a real LMDB: creation and its refusals, moves as compare-and-swap,
 * what a life leaves in every table, and that a move which fails in the middle leaves nothing.
 */
#include "store/intents.h"
#include "store/ledger.h"
#include "tests/unit/world.h"

#define CHAIN 1
#define USDC 0x10
#define USDT 0x11
#define SHOP 0x20
#define ALICE 0x30

static struct intent sample(const char *id)
{
	struct intent i = { .merchant_id = "m_1", .chain_id = CHAIN, .token = address_of(USDC),
			    .amount = u256_from_u64(5000000), .payee = address_of(SHOP) };

	snprintf(i.id, sizeof(i.id), "%s", id);
	snprintf(i.idempotency_key, sizeof(i.idempotency_key), "k_%.60s", id);
	return i;
}

static struct intent route_sample(const char *id)
{
	struct intent i = sample(id);

	i.watch = WATCH_ROUTE;
	return i;
}

/* --- validation ------------------------------------------------------------------- */

static void expect_valid(const struct intent *i, const char *want)
{
	struct address tokens[] = { address_of(USDC), address_of(USDT) };
	struct chain_tokens config = { CHAIN, tokens, ARRAY_SIZE(tokens) };
	struct complaint why = { "" };
	enum err err = intents_validate(i, &config, &why);

	assert_int_equal(err, want ? E_REFUSED : OK);
	if (want && strncmp(why.text, want, strlen(want)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", why.text, want);
}

static void test_validation(void **state)
{
	struct intent good = sample("pi_1"), i;
	uint8_t ones[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	expect_valid(&good, NULL);
	i = good, i.amount = u256_from_u64(1);
	expect_valid(&i, NULL);
	i = good, i.amount = u256_from_be(ones);
	expect_valid(&i, NULL);
	i = good, i.chain_id = 2;
	expect_valid(&i, "chain_id:");
	i = good, i.token = address_of(0x12);
	expect_valid(&i, "token:");
	i = good, i.amount = u256_from_u64(0);
	expect_valid(&i, "amount:");
	i = good, i.payee = address_of(0);
	expect_valid(&i, "payee:");
	i = good, i.payee = i.token;
	expect_valid(&i, "payee:");
	i = good, i.has_payer = true, i.payer = i.payee;
	expect_valid(&i, "payer:");
	i = good, i.payer = i.payee;		/* no payer was asked for */
	expect_valid(&i, NULL);
}

/* --- creation ------------------------------------------------------------------------ */

struct creation {
	struct intent i;
	int64_t now_ms;
	bool created;
	struct complaint why;
};

static void create_body(struct kv_txn *t, void *ctx)
{
	struct creation *c = ctx;
	enum err err = intents_create(t, &c->i, c->now_ms, &c->created, &c->why);

	if (err)
		kv_fail(t, err);
}

static struct creation create(struct world *w, struct intent i, enum err want)
{
	struct creation c = { .i = i, .now_ms = 1000 };
	enum err err = kv_write(w->kv, create_body, &c);

	if (err != want)
		fail_msg("%s: %s", err_name(err), c.why.text);
	return c;
}

static void expect_conflict(struct world *w, struct intent i, const char *field)
{
	struct buf before = world_dump(w->kv);
	struct creation c = create(w, i, E_CONFLICT);
	size_t len = strlen(field);

	if (strncmp(c.why.text, field, len) != 0 || c.why.text[len] != ':')
		fail_msg("\"%s\" does not name %s", c.why.text, field);
	assert_false(c.created);
	expect_same(before, world_dump(w->kv));
}

static void test_create_twice(void **state)
{
	struct world *w = *state;
	struct creation first = create(w, sample("pi_1"), OK), again;
	struct buf before = world_dump(w->kv);

	assert_true(first.created && first.i.row == 1 && first.i.version == 1);
	again = create(w, sample("pi_1"), OK);
	assert_false(again.created);
	assert_true(again.i.row == 1 && again.i.created_at_ms == 1000 && again.i.created_order == first.i.created_order);
	expect_same(before, world_dump(w->kv));
	assert_int_equal(create(w, sample("pi_2"), OK).i.row, 2);
}

static struct intent full(void)
{
	struct intent i = sample("pi_1");

	i.has_payer = true;
	i.payer = address_of(ALICE);
	i.has_expiry = true;
	i.expires_at_ms = 99000;
	snprintf(i.reverses, sizeof(i.reverses), "pi_0");
	return i;
}

/* The same id with each other field; the same merchant and key with another id. */
static void test_create_conflicts(void **state)
{
	struct world *w = *state;
	struct intent i;

	create(w, full(), OK);
	i = full(), i.merchant_id[0] = 'n';
	expect_conflict(w, i, "merchant_id");
	i = full(), i.idempotency_key[0] = 'n';
	expect_conflict(w, i, "idempotency_key");
	i = full(), i.chain_id = 2;
	expect_conflict(w, i, "chain_id");
	i = full(), i.token = address_of(USDT);
	expect_conflict(w, i, "token");
	i = full(), i.amount = u256_from_u64(5000001);
	expect_conflict(w, i, "amount");
	i = full(), i.payee = address_of(0x21);
	expect_conflict(w, i, "payee");
	i = full(), i.payer = address_of(0x31);
	expect_conflict(w, i, "payer");
	i = full(), i.has_payer = false;
	expect_conflict(w, i, "payer");
	i = full(), i.watch = WATCH_ROUTE;
	expect_conflict(w, i, "watch");
	i = full(), i.expires_at_ms = 99001;
	expect_conflict(w, i, "expires_at");
	i = full(), i.has_expiry = false;
	expect_conflict(w, i, "expires_at");
	i = full(), i.reverses[0] = '\0';
	expect_conflict(w, i, "reverses");
	i = full(), i.id[0] = 'q';
	expect_conflict(w, i, "id");
	i = full(), i.id[0] = 'q', i.merchant_id[0] = 'n';
	create(w, i, OK);
}

/* Only the frozen fields are the caller's. */
static void test_create_sets_the_rest(void **state)
{
	struct world *w = *state, other;
	struct intent i = route_sample("pi_1");

	world_make(&other);
	world_open(&other);
	create(&other, i, OK);
	i.row = 77;
	i.state = INTENT_SETTLED;
	i.version = 9;
	i.has_tx = i.reversed = i.overdue_said = true;
	i.tx_hash = hash_of(0xee);
	i.reason.code[0] = 'x';
	i.event_number = i.created_order = 55;
	i.created_at_ms = i.entered_at_ms = i.missing_from_ms = 44;
	create(w, i, OK);
	expect_same(world_dump(w->kv), world_dump(other.kv));
	snprintf(i.id, sizeof(i.id), "pi_2");
	snprintf(i.idempotency_key, sizeof(i.idempotency_key), "k_2");
	create(w, i, E_REFUSED);		/* a rival, whatever row it came with */
	world_remove(&other);
}

/* --- moves --------------------------------------------------------------------------- */

struct moving {
	const char *id;
	enum intent_state to;
	enum actor actor;
	uint8_t tx;			/* all bytes of the hash; 0: none */
	const char *code;		/* of the reason; NULL: none */
	uint64_t version;		/* 0: the current one */
	int64_t now_ms, tip_time_ms;
	struct block_ref block;
	struct move_result result;
	struct intent after;
	struct complaint why;
};

static struct move_request request_of(struct kv_txn *t, const struct moving *m, const struct intent *i)
{
	struct move_request r = { .to = m->to, .actor = m->actor, .version = m->version ? m->version : i->version,
				  .has_tx = m->tx != 0, .has_reason = m->code != NULL };

	if (r.has_tx)
		r.tx_hash = hash_of(m->tx);
	r.tx_is_attempt = r.has_tx && intents_has_attempt(t, i->row, &r.tx_hash);
	if (m->code)
		snprintf(r.reason.code, sizeof(r.reason.code), "%s", m->code);
	return r;
}

static void move_body(struct kv_txn *t, void *ctx)
{
	struct moving *m = ctx;
	struct move_context c = { .now_ms = m->now_ms, .tip_time_ms = m->tip_time_ms };
	struct move_request r;

	assert_true(intents_find(t, m->id, &m->after));
	r = request_of(t, m, &m->after);
	c.evidence.block = m->block;
	m->result = intents_move(t, &m->after, &r, &c, &m->why);
	if (m->result.outcome == MOVE_REFUSED)
		kv_fail(t, m->result.err);
}

static struct moving move(struct world *w, struct moving m, enum err want)
{
	enum err err = kv_write(w->kv, move_body, &m);

	if (err != want)
		fail_msg("%s to %s: %s: %s", m.id, intent_state_name(m.to), err_name(err), m.why.text);
	return m;
}

/* Created, authorized, settling. */
static void send(struct world *w, struct intent i)
{
	create(w, i, OK);
	move(w, (struct moving){ .id = i.id, .to = INTENT_AUTHORIZED, .actor = ACTOR_API, .now_ms = 2000 }, OK);
	move(w, (struct moving){ .id = i.id, .to = INTENT_SETTLING, .actor = ACTOR_RELAYER, .now_ms = 3000 }, OK);
}

static void test_route_rivals(void **state)
{
	struct world *w = *state;
	struct intent i = route_sample("pi_2");

	create(w, route_sample("pi_1"), OK);
	create(w, i, E_REFUSED);
	i.watch = WATCH_TX;
	create(w, i, OK);
	i = route_sample("pi_3"), i.has_payer = true, i.payer = address_of(ALICE);
	create(w, i, OK);
	i = route_sample("pi_4"), i.has_payer = true, i.payer = address_of(ALICE);
	create(w, i, E_REFUSED);
	i = route_sample("pi_4"), i.amount = u256_from_u64(1);
	create(w, i, OK);
	i = route_sample("pi_5"), i.token = address_of(USDT);
	create(w, i, OK);
	i = route_sample("pi_6"), i.payee = address_of(0x21);
	create(w, i, OK);
	i = route_sample("pi_7"), i.chain_id = 2;
	create(w, i, OK);
	move(w, (struct moving){ .id = "pi_1", .to = INTENT_CANCELED, .actor = ACTOR_API, .code = "gone" }, OK);
	create(w, route_sample("pi_8"), OK);
	create(w, route_sample("pi_9"), E_REFUSED);
}

/* Two writers read version 2; the first wins, and the second changes not one byte. */
static void test_compare_and_swap(void **state)
{
	struct world *w = *state;
	struct moving second = { .id = "pi_1", .to = INTENT_CANCELED, .actor = ACTOR_API, .code = "late", .version = 2 };
	struct buf before;

	create(w, sample("pi_1"), OK);
	move(w, (struct moving){ .id = "pi_1", .to = INTENT_AUTHORIZED, .actor = ACTOR_API, .version = 1 }, OK);
	move(w, (struct moving){ .id = "pi_1", .to = INTENT_SETTLING, .actor = ACTOR_RELAYER, .version = 2 }, OK);
	before = world_dump(w->kv);
	second = move(w, second, E_VERSION_CONFLICT);
	assert_int_equal(second.result.outcome, MOVE_REFUSED);
	assert_non_null(strstr(second.why.text, "version 3, not 2"));
	assert_int_equal(second.after.version, 3);
	expect_same(before, world_dump(w->kv));
	before = world_dump(w->kv);	/* a replayed message: nothing is written, whatever its version */
	second = move(w, (struct moving){ .id = "pi_1", .to = INTENT_SETTLING, .actor = ACTOR_RELAYER, .version = 2 }, OK);
	assert_int_equal(second.result.outcome, MOVE_ALREADY_THERE);
	expect_same(before, world_dump(w->kv));
}

struct no_intent {
	struct move_result result;
	struct complaint why;
};

static void no_intent_body(struct kv_txn *t, void *ctx)
{
	struct move_request r = { .to = INTENT_AUTHORIZED, .version = 1 };
	struct move_context c = { .now_ms = 1 };
	struct no_intent *n = ctx;
	struct intent i = sample("pi_1");

	i.row = 5;
	n->result = intents_move(t, &i, &r, &c, &n->why);
}

static void test_no_such_intent(void **state)
{
	struct world *w = *state;
	struct no_intent n;

	assert_int_equal(kv_write(w->kv, no_intent_body, &n), E_CORRUPT);
	assert_int_equal(n.result.outcome, MOVE_REFUSED);
}

/* --- a life --------------------------------------------------------------------------------- */

static const struct moving confirming_aa = { .id = "pi_1", .to = INTENT_CONFIRMING, .actor = ACTOR_RELAYER, .tx = 0xaa,
					     .now_ms = 4000, .tip_time_ms = 3500 };
static const struct moving lost = { .id = "pi_1", .to = INTENT_SETTLING, .actor = ACTOR_LISTENER, .code = "reorg",
				    .now_ms = 5000, .block = { true, 12, { { 0x12 } } } };
static const struct moving confirming_bb = { .id = "pi_1", .to = INTENT_CONFIRMING, .actor = ACTOR_LISTENER, .tx = 0xbb,
					     .now_ms = 6000, .tip_time_ms = 5500, .block = { true, 13, { { 0x13 } } } };
static const struct moving settled_bb = { .id = "pi_1", .to = INTENT_SETTLED, .actor = ACTOR_LISTENER, .tx = 0xbb,
					  .now_ms = 7000, .block = { true, 13, { { 0x13 } } } };

struct want_entry {
	enum intent_state from, to;
	enum actor actor;
	uint8_t tx;
	const char *code;
	uint64_t height;		/* 0: no block */
	int64_t at_ms;
};

static const struct want_entry life[] = {
	{ INTENT_CREATED, INTENT_CREATED, ACTOR_API, 0, "", 0, 1000 },
	{ INTENT_CREATED, INTENT_AUTHORIZED, ACTOR_API, 0, "", 0, 2000 },
	{ INTENT_AUTHORIZED, INTENT_SETTLING, ACTOR_RELAYER, 0, "", 0, 3000 },
	{ INTENT_SETTLING, INTENT_CONFIRMING, ACTOR_RELAYER, 0xaa, "", 0, 4000 },
	{ INTENT_CONFIRMING, INTENT_SETTLING, ACTOR_LISTENER, 0, "reorg", 12, 5000 },
	{ INTENT_SETTLING, INTENT_CONFIRMING, ACTOR_LISTENER, 0xbb, "", 13, 6000 },
	{ INTENT_CONFIRMING, INTENT_SETTLED, ACTOR_LISTENER, 0xbb, "", 13, 7000 },
};

static void expect_entry(struct kv_txn *t, uint64_t version, const struct want_entry *want)
{
	struct key key = key_history(1, version);
	struct hash32 tx = hash_of(want->tx);
	struct history_row h;

	assert_true(row_get(t, T_HISTORY, &key, ROW_HISTORY, &h));
	assert_true(h.from == want->from && h.to == want->to && h.actor == want->actor);
	assert_int_equal(h.version, version);
	assert_int_equal(h.has_tx, want->tx != 0);
	assert_true(hash_eq(&h.tx_hash, &tx));
	assert_string_equal(h.reason.code, want->code);
	assert_int_equal(h.has_block, want->height != 0);
	assert_int_equal(h.block_height, want->height);
	assert_int_equal(h.at_ms, want->at_ms);
	assert_false(h.conflict);
}

static void expect_attempt(struct kv_txn *t, uint32_t n, uint8_t tx)
{
	struct hash32 want = hash_of(tx);
	struct attempt_row a;
	struct key key;
	uint64_t row;

	assert_true(intents_attempt(t, 1, n, &a));
	assert_true(hash_eq(&a.tx_hash, &want));
	key = key_tx(CHAIN, &want, a.order);
	assert_true(number_get(t, T_TX, &key, &row) && row == 1);
}

static void expect_event(struct kv_txn *t, uint64_t sequence, const char *type)
{
	char want[64], text[2048];
	struct slice body;

	assert_true(outbox_get(t, sequence, &body));
	snprintf(text, sizeof(text), "%.*s", (int)body.len, (const char *)body.data);
	snprintf(want, sizeof(want), "{\"type\":\"intent.%s\",", type);
	assert_non_null(strstr(text, want));
	snprintf(want, sizeof(want), "\"sequence\":%llu,\"event_number\":%llu,", (unsigned long long)sequence,
		 (unsigned long long)sequence);
	assert_non_null(strstr(text, want));
	snprintf(want, sizeof(want), "\"version\":%llu,", (unsigned long long)sequence);
	assert_non_null(strstr(text, want));
}

static void expect_only_mark(struct kv_txn *t, enum table table, struct key key)
{
	assert_int_equal(kv_count(t, table), 1);
	assert_true(mark_has(t, table, &key));
}

static void expect_life(struct kv_txn *t)
{
	struct key key = key_ledger(1, 0);
	struct ledger_row l;
	struct intent i;

	for (size_t n = 0; n < ARRAY_SIZE(life); n++) {
		expect_entry(t, n + 1, &life[n]);
		expect_event(t, n + 1, intent_state_name(life[n].to));
	}
	assert_int_equal(kv_count(t, T_HISTORY), 7);
	assert_int_equal(outbox_last(t), 7);
	expect_attempt(t, 0, 0xaa);
	expect_attempt(t, 1, 0xbb);
	assert_int_equal(kv_count(t, T_ATTEMPT), 2);
	expect_only_mark(t, T_STATE, key_state(INTENT_SETTLED, 7000, 1));
	assert_int_equal(kv_count(t, T_DEADLINE), 0);
	assert_int_equal(kv_count(t, T_ROUTE), 0);
	assert_true(row_get(t, T_LEDGER, &key, ROW_LEDGER, &l));
	assert_true(l.kind == LEDGER_SETTLEMENT && l.event == 7 && l.at_ms == 7000 && l.has_tx);
	assert_int_equal(ledger_balance(t, 1, NULL), 1);
	assert_true(intents_find(t, "pi_1", &i) && i.version == 7 && i.event_number == 7 && i.state == INTENT_SETTLED);
}

static void life_body(struct kv_txn *t, void *ctx)
{
	(void)ctx;
	expect_life(t);
}

static void confirming_body(struct kv_txn *t, void *ctx)
{
	(void)ctx;
	expect_only_mark(t, T_STATE, key_state(INTENT_CONFIRMING, 4000, 1));
	expect_only_mark(t, T_DEADLINE, key_deadline(CHAIN, DEADLINE_MISSING, 3500, 1));
	assert_int_equal(kv_count(t, T_ROUTE), 1);
	assert_int_equal(kv_count(t, T_LEDGER), 0);
}

static void test_life(void **state)
{
	struct world *w = *state;

	send(w, route_sample("pi_1"));
	move(w, confirming_aa, OK);
	assert_int_equal(kv_write(w->kv, confirming_body, NULL), OK);
	move(w, lost, OK);
	move(w, confirming_bb, OK);
	move(w, settled_bb, OK);
	assert_int_equal(kv_write(w->kv, life_body, NULL), OK);
}

/* --- failing in the middle ---------------------------------------------------------------------- */

/* One run that fails at the n'th put, or before the commit for -1, and changes nothing; returns the puts it saw. */
static long fail_at(struct world *w, void (*body)(struct kv_txn *t, void *ctx), void *ctx, long put, enum err with)
{
	struct fault_at f = { .put = put, .commit = put < 0, .err = with };
	struct buf before = world_dump(w->kv);

	kv_set_hook(w->kv, (struct kv_hook){ fault_hook, &f });
	assert_int_equal(kv_write(w->kv, body, ctx), with);
	kv_set_hook(w->kv, (struct kv_hook){ 0 });
	expect_same(before, world_dump(w->kv));
	return f.puts;
}

/* Fail before the commit, then at each put in turn.  Then it succeeds. */
static void fail_everywhere(struct world *w, void (*body)(struct kv_txn *t, void *ctx), void *ctx, enum err with)
{
	long puts = fail_at(w, body, ctx, -1, with);

	assert_true(puts > 3);
	for (long put = 0; put < puts; put++)
		assert_int_equal(fail_at(w, body, ctx, put, with), put + 1);
	assert_int_equal(kv_write(w->kv, body, ctx), OK);
}

static void move_failing(struct world *w, struct moving m, enum err with)
{
	fail_everywhere(w, move_body, &m, with);
	assert_int_equal(m.result.outcome, MOVE_APPLIED);
}

/* The store after all those failures is the one that never had any. */
static void test_failures(void **state)
{
	struct world *w = *state, smooth;
	struct creation c = { .i = route_sample("pi_1"), .now_ms = 1000 };

	world_make(&smooth);
	world_open(&smooth);
	send(&smooth, route_sample("pi_1"));
	move(&smooth, confirming_aa, OK);
	move(&smooth, lost, OK);
	move(&smooth, confirming_bb, OK);
	move(&smooth, settled_bb, OK);

	fail_everywhere(w, create_body, &c, E_IO);
	move_failing(w, (struct moving){ .id = "pi_1", .to = INTENT_AUTHORIZED, .actor = ACTOR_API, .now_ms = 2000 }, E_FULL);
	move_failing(w, (struct moving){ .id = "pi_1", .to = INTENT_SETTLING, .actor = ACTOR_RELAYER, .now_ms = 3000 }, E_IO);
	move_failing(w, confirming_aa, E_IO);
	move_failing(w, lost, E_FULL);
	move_failing(w, confirming_bb, E_FULL);
	move_failing(w, settled_bb, E_IO);
	expect_same(world_dump(w->kv), world_dump(smooth.kv));
	world_remove(&smooth);
}

/* --- a person's word ------------------------------------------------------------------------------- */

static struct history_row last_entry(struct world *w, uint64_t version)
{
	struct kv_txn t = kv_begin_read(w->kv);
	struct key key = key_history(1, version);
	struct history_row h;

	assert_true(row_get(&t, T_HISTORY, &key, ROW_HISTORY, &h));
	assert_int_equal(kv_end_read(&t), OK);
	return h;
}

/* An operator settles with another attempt: the history has both, and it counts. */
static void test_operator_names_another_attempt(void **state)
{
	struct moving m = { .id = "pi_1", .to = INTENT_SETTLED, .actor = ACTOR_OPERATOR, .tx = 0xcc, .code = "looked" };
	struct world *w = *state;
	struct hash32 aa = hash_of(0xaa), bb = hash_of(0xbb);
	struct history_row h;

	send(w, sample("pi_1"));
	move(w, confirming_aa, OK);
	move(w, lost, OK);
	move(w, confirming_bb, OK);
	move(w, (struct moving){ .id = "pi_1", .to = INTENT_NEEDS_REVIEW, .actor = ACTOR_LISTENER, .code = "x" }, OK);
	move(w, m, E_TX_MISMATCH);
	m.tx = 0xaa;
	m = move(w, m, OK);
	assert_true(m.result.evidence_conflict && hash_eq(&m.after.tx_hash, &aa));
	h = last_entry(w, 8);
	assert_true(h.conflict && hash_eq(&h.tx_hash, &aa) && hash_eq(&h.other_tx, &bb));
}

/* Where none was ever recorded any hash will do. */
static void test_operator_names_the_first(void **state)
{
	struct moving m = { .id = "pi_1", .to = INTENT_SETTLED, .actor = ACTOR_OPERATOR, .tx = 0xcc, .code = "looked" };
	struct world *w = *state;

	send(w, sample("pi_1"));
	move(w, (struct moving){ .id = "pi_1", .to = INTENT_NEEDS_REVIEW, .actor = ACTOR_RELAYER, .code = "x" }, OK);
	m = move(w, m, OK);
	assert_true(m.result.evidence_conflict && m.after.has_tx && last_entry(w, 5).conflict);
}

/* --- attempts and deadlines ---------------------------------------------------------------------------- */

static void attempts_body(struct kv_txn *t, void *ctx)
{
	struct attempt_row aa = { .tx_hash = hash_of(0xaa), .has_nonce = true, .nonce = 7, .order = 999 };
	struct intent one, two;
	struct tx_walk walk = { .begun = false };
	uint64_t row, order, before;

	(void)ctx;
	assert_true(intents_find(t, "pi_1", &one) && intents_find(t, "pi_2", &two));
	assert_true(intents_add_attempt(t, &two, &aa));
	assert_true(intents_add_attempt(t, &one, &aa));
	assert_false(intents_add_attempt(t, &two, &aa));
	assert_true(intents_next_of_tx(t, CHAIN, &aa.tx_hash, &walk, &row, &before) && row == 2);
	assert_true(intents_next_of_tx(t, CHAIN, &aa.tx_hash, &walk, &row, &order) && row == 1 && order == before + 1);
	assert_false(intents_next_of_tx(t, CHAIN, &aa.tx_hash, &walk, &row, &order));
	assert_true(intents_has_attempt(t, 1, &aa.tx_hash));
	aa.tx_hash = hash_of(0xab);
	assert_false(intents_has_attempt(t, 1, &aa.tx_hash));
	assert_true(intents_attempt(t, 1, 0, &aa) && aa.nonce == 7 && !intents_attempt(t, 1, 1, &aa));
}

static void test_attempts(void **state)
{
	struct world *w = *state;

	create(w, sample("pi_1"), OK);
	create(w, sample("pi_2"), OK);
	assert_int_equal(kv_write(w->kv, attempts_body, NULL), OK);
}

static void clock_body(struct kv_txn *t, void *ctx)
{
	uint64_t row;

	(void)ctx;
	assert_false(intents_due(t, CHAIN, DEADLINE_MISSING, INT64_MAX, &row));	/* waits for the first tip */
	intents_start_clock(t, 2, 1);						/* another chain's */
	assert_false(intents_due(t, CHAIN, DEADLINE_MISSING, INT64_MAX, &row));
	intents_start_clock(t, CHAIN, 8000);
	assert_false(intents_due(t, CHAIN, DEADLINE_MISSING, 7999, &row));
	assert_true(intents_due(t, CHAIN, DEADLINE_MISSING, 8000, &row) && row == 1);
}

static void overdue_body(struct kv_txn *t, void *ctx)
{
	struct intent i;
	uint64_t row;

	(void)ctx;
	assert_false(intents_due(t, CHAIN, DEADLINE_OVERDUE, 98999, &row));
	assert_true(intents_due(t, CHAIN, DEADLINE_OVERDUE, 99000, &row) && row == 2);
	assert_true(intents_get(t, row, &i));
	intents_said_overdue(t, &i);
	assert_false(intents_due(t, CHAIN, DEADLINE_OVERDUE, INT64_MAX, &row));
}

static void test_deadlines(void **state)
{
	struct moving confirm = confirming_aa;
	struct world *w = *state;
	struct intent i = route_sample("pi_2");

	send(w, sample("pi_1"));
	confirm.tip_time_ms = 0;
	move(w, confirm, OK);
	assert_int_equal(kv_write(w->kv, clock_body, NULL), OK);
	i.has_expiry = true;
	i.expires_at_ms = 99000;
	send(w, i);
	assert_int_equal(kv_write(w->kv, overdue_body, NULL), OK);
	/* Said: it leaves the state and comes back without a second deadline. */
	move(w, (struct moving){ .id = "pi_2", .to = INTENT_CONFIRMING, .actor = ACTOR_LISTENER, .tx = 0xdd }, OK);
	move(w, (struct moving){ .id = "pi_2", .to = INTENT_SETTLING, .actor = ACTOR_LISTENER, .code = "reorg" }, OK);
	move(w, (struct moving){ .id = "pi_2", .to = INTENT_FAILED, .actor = ACTOR_RELAYER, .code = "expired" }, OK);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_validation),
		TEST(test_create_twice),
		TEST(test_create_conflicts),
		TEST(test_create_sets_the_rest),
		TEST(test_route_rivals),
		TEST(test_compare_and_swap),
		TEST(test_no_such_intent),
		TEST(test_life),
		TEST(test_failures),
		TEST(test_operator_names_another_attempt),
		TEST(test_operator_names_the_first),
		TEST(test_attempts),
		TEST(test_deadlines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
