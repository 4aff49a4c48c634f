/*
 * The store on a real LMDB: opening, our chain, transfers and claims, sightings,
 * the outbox, a full map.  Rows are test_store_rows.c's, intents test_store_intents.c's.
 */
#include "store/chain.h"
#include "store/claims.h"
#include "store/intents.h"
#include "store/outbox.h"
#include "store/sightings.h"
#include "tests/unit/world.h"

#define CHAIN 1

/* --- opening ------------------------------------------------------------------------ */

static void other_schema_body(struct kv_txn *t, void *ctx)
{
	struct key key = key_meta("schema");

	(void)ctx;
	number_put(t, T_META, &key, 77);
}

static void test_schema_version(void **state)
{
	struct world *w = *state;
	struct store_options read_only = { .read_only = true };
	char ours[32];

	assert_int_equal(kv_write(w->kv, other_schema_body, NULL), OK);
	world_close(w);
	snprintf(ours, sizeof(ours), "%d", SCHEMA_VERSION);
	assert_int_equal(store_open(w->dir, &w->options, &w->kv, &w->why), E_SCHEMA);
	assert_null(w->kv);
	assert_non_null(strstr(w->why.text, "77"));
	assert_non_null(strstr(w->why.text, ours));
	assert_int_equal(store_open(w->dir, &read_only, &w->kv, &w->why), E_SCHEMA);
}

static void test_reopened(void **state)
{
	struct world *w = *state;
	struct buf before = world_dump(w->kv);

	world_close(w);
	world_open(w);
	expect_same(before, world_dump(w->kv));
}

struct genesis {
	const struct hash32 *hash;
	struct complaint why;
	struct chain_row row;
};

static void genesis_body(struct kv_txn *t, void *ctx)
{
	struct genesis *g = ctx;

	chain_open(t, CHAIN, g->hash, &g->row, &g->why);
}

static void test_genesis(void **state)
{
	struct world *w = *state;
	struct hash32 one = hash_of(0x11), two = hash_of(0x22);
	struct genesis none = { .hash = NULL }, first = { .hash = &one }, other = { .hash = &two };
	char text[HASH_TEXT];
	struct buf before;

	assert_int_equal(kv_write(w->kv, genesis_body, &none), OK);
	assert_false(none.row.has_genesis);
	assert_int_equal(kv_write(w->kv, genesis_body, &first), OK);
	assert_int_equal(kv_write(w->kv, genesis_body, &first), OK);
	assert_int_equal(kv_write(w->kv, genesis_body, &none), OK);
	assert_true(none.row.has_genesis && hash_eq(&none.row.genesis, &one));
	before = world_dump(w->kv);
	assert_int_equal(kv_write(w->kv, genesis_body, &other), E_GENESIS);
	assert_non_null(strstr(other.why.text, hash_format(&one, text)));
	assert_non_null(strstr(other.why.text, hash_format(&two, text)));
	expect_same(before, world_dump(w->kv));
}

/* --- our chain ------------------------------------------------------------------------ */

#define MANY 450		/* transactions of one block: three chunks */

static struct hash32 tx_at(uint8_t block, uint32_t n)
{
	struct hash32 h = hash_of(block);

	be32_put(h.b, n);
	return h;
}

static struct block_row push(struct kv_txn *t, struct chain_row *row, uint64_t height, uint8_t hash, uint8_t parent,
			     uint32_t tx_count)
{
	struct block_row b = { .hash = hash_of(hash), .parent = hash_of(parent), .time_s = (int64_t)height * 10,
			       .proof = PROOF_RECEIPTS, .order = number_next(t, "order"), .tx_count = tx_count };
	struct hash32 *txs = xcalloc(tx_count + 1, sizeof(*txs));

	for (uint32_t n = 0; n < tx_count; n++)
		txs[n] = tx_at(hash, n);
	chain_push(t, CHAIN, row, height, &b, txs);
	free(txs);
	return b;
}

static bool finds(struct kv_txn *t, const struct chain_row *row, uint8_t block, uint32_t n, uint64_t want)
{
	struct hash32 tx = tx_at(block, n);
	uint64_t height;

	return chain_find_tx(t, CHAIN, row, &tx, &height) && height == want;
}

static bool finds_none(struct kv_txn *t, const struct chain_row *row, uint8_t block, uint32_t n)
{
	struct hash32 tx = tx_at(block, n);
	uint64_t height;

	return !chain_find_tx(t, CHAIN, row, &tx, &height);
}

static void expect_tip(struct kv_txn *t, const struct chain_row *row, uint64_t height, uint8_t hash)
{
	struct hash32 want = hash_of(hash);
	struct chain_row stored;

	assert_true(row->has_tip && row->tip_height == height && hash_eq(&row->tip_hash, &want));
	assert_int_equal(row->tip_time_s, height * 10);
	assert_true(chain_get(t, CHAIN, &stored));
	assert_int_equal(stored.tip_height, height);
	assert_true(hash_eq(&stored.tip_hash, &want));
}

static void push_body(struct kv_txn *t, void *ctx)
{
	struct chain_row row = { .has_tip = false };
	struct block_row b;

	(void)ctx;
	push(t, &row, 99, 0x99, 0x98, 0);
	push(t, &row, 100, 0xa0, 0x99, MANY);
	push(t, &row, 101, 0xa1, 0xa0, 1);
	expect_tip(t, &row, 101, 0xa1);
	assert_true(chain_block(t, CHAIN, 100, &b) && b.tx_count == MANY);
	assert_false(chain_block(t, CHAIN, 102, &b) || chain_block(t, 2, 100, &b));
	assert_true(finds(t, &row, 0xa0, 0, 100) && finds(t, &row, 0xa0, 199, 100) && finds(t, &row, 0xa0, 200, 100));
	assert_true(finds(t, &row, 0xa0, MANY - 1, 100) && finds(t, &row, 0xa1, 0, 101));
	assert_true(finds_none(t, &row, 0xa0, MANY) && finds_none(t, &row, 0x99, 0));
}

static void pop_body(struct kv_txn *t, void *ctx)
{
	struct hash32 hash = hash_of(0xa0), tx = tx_at(0xa0, 5);
	struct key orphan = key_orphan(CHAIN, 100, &hash);
	struct block_row first, b;
	struct chain_row row;
	uint64_t order;

	(void)ctx;
	assert_true(chain_get(t, CHAIN, &row) && chain_block(t, CHAIN, 100, &first));
	assert_int_equal(chain_first_order(t, CHAIN, &tx, 1000), 1000);
	chain_pop(t, CHAIN, &row);
	chain_pop(t, CHAIN, &row);
	expect_tip(t, &row, 99, 0x99);
	assert_false(chain_block(t, CHAIN, 100, &b));
	assert_true(finds_none(t, &row, 0xa0, 5) && finds_none(t, &row, 0xa1, 0));
	assert_true(row_get(t, T_ORPHAN, &orphan, ROW_BLOCK, &b) && b.order == first.order);
	assert_int_equal(chain_first_order(t, CHAIN, &tx, 1000), first.order);

	/* A to B to A: the orphan keeps its first order */
	order = push(t, &row, 100, 0xa0, 0x99, MANY).order;
	assert_true(order > first.order && finds(t, &row, 0xa0, 5, 100));
	chain_pop(t, CHAIN, &row);
	assert_true(row_get(t, T_ORPHAN, &orphan, ROW_BLOCK, &b) && b.order == first.order);
	assert_int_equal(chain_first_order(t, CHAIN, &tx, order), first.order);
	tx = tx_at(0xa0, MANY);
	assert_int_equal(chain_first_order(t, CHAIN, &tx, 7), 7);
}

static void pop_nothing_body(struct kv_txn *t, void *ctx)
{
	struct chain_row row = { .has_tip = true, .tip_height = 5 };

	(void)ctx;
	chain_pop(t, CHAIN, &row);
}

static void test_chain(void **state)
{
	struct world *w = *state;

	assert_int_equal(kv_write(w->kv, pop_nothing_body, NULL), E_CORRUPT);
	assert_int_equal(kv_write(w->kv, push_body, NULL), OK);
	assert_int_equal(kv_write(w->kv, pop_body, NULL), OK);
}

static uint64_t lowest_block(struct kv_txn *t)
{
	struct key from = key_u64(CHAIN);
	struct kv_cursor c;

	assert_true(kv_seek(t, T_BLOCK, key_slice(&from), 8, &c));
	return be64_get(c.key + 8);
}

static void prune_body(struct kv_txn *t, void *ctx)
{
	struct chain_row row = { .has_tip = false };

	(void)ctx;
	for (uint64_t height = 100; height < 120; height++)
		push(t, &row, height, (uint8_t)height, (uint8_t)(height - 1), 1);
	chain_prune(t, CHAIN, 110, 0, 100);
	assert_int_equal(kv_count(t, T_BLOCK_TX), 10);
	assert_int_equal(kv_count(t, T_BLOCK), 20);
	assert_true(finds_none(t, &row, 109, 0) && finds(t, &row, 110, 0, 110));
	chain_prune(t, CHAIN, 110, 1050, 3);
	assert_int_equal(lowest_block(t), 103);
	chain_prune(t, CHAIN, 110, 1050, 100);
	assert_int_equal(lowest_block(t), 105);
	chain_prune(t, CHAIN, 110, INT64_MAX, 100);
	assert_int_equal(lowest_block(t), 110);
	chain_prune(t, 2, UINT64_MAX, INT64_MAX, 100);
	assert_int_equal(kv_count(t, T_BLOCK), 10);
}

static void test_prune(void **state)
{
	struct world *w = *state;

	assert_int_equal(kv_write(w->kv, prune_body, NULL), OK);
}

/* --- transfers and claims ---------------------------------------------------------------- */

static struct transfer_row transfer(uint64_t height, uint8_t block, uint32_t tx_index, uint32_t ordinal)
{
	return (struct transfer_row){
		.tx_hash = hash_of((uint8_t)(0x50 + tx_index)),
		.token = address_of(0x70),
		.from = address_of(0x71),
		.to = address_of(0x72),
		.value = u256_from_u64(5000000),
		.height = height,
		.block_hash = hash_of(block),
		.tx_index = tx_index,
		.ordinal = ordinal,
	};
}

static void keep_body(struct kv_txn *t, void *ctx)
{
	(void)ctx;
	for (uint32_t tx = 0; tx < 2; tx++) {
		for (uint32_t n = 0; n < 3; n++) {
			struct transfer_row tr = transfer(100, 0xa0, tx, n);

			transfer_keep(t, CHAIN, &tr);
		}
	}
}

static void expect_owner(struct kv_txn *t, const struct transfer_row *tr, enum owner_kind kind, uint64_t row)
{
	struct key key = key_transfer(CHAIN, tr->height, &tr->block_hash, tr->tx_index, tr->ordinal);
	struct transfer_row stored;
	struct claim_row claim;
	bool claimed = claim_get(t, CHAIN, &tr->tx_hash, tr->ordinal, &claim);

	assert_true(row_get(t, T_TRANSFER, &key, ROW_TRANSFER, &stored));
	assert_int_equal(stored.owner_kind, kind);
	assert_int_equal(stored.owner, row);
	assert_int_equal(claimed, kind != OWNER_NONE);
	if (!claimed)
		return;
	assert_true(claim.kind == kind && claim.row == row && claim.height == tr->height &&
		    hash_eq(&claim.block_hash, &tr->block_hash) && claim.tx_index == tr->tx_index);
}

static void claims_body(struct kv_txn *t, void *ctx)
{
	struct transfer_row a = transfer(100, 0xa0, 0, 1), b = transfer(100, 0xa0, 0, 2), c = transfer(100, 0xa0, 1, 0);
	struct transfer_row all[8];
	struct hash32 block = hash_of(0xa0);

	(void)ctx;
	assert_int_equal(transfers_of(t, CHAIN, 100, &block, 0, all, 8), 3);
	assert_int_equal(transfers_of(t, CHAIN, 100, &block, 0, all, 2), 2);
	assert_true(all[0].ordinal == 0 && all[1].ordinal == 1);
	assert_int_equal(transfers_of(t, CHAIN, 100, &block, 2, all, 8), 0);
	claim_take(t, CHAIN, &a, 1, OWNER_HOLD);
	expect_owner(t, &a, OWNER_HOLD, 1);
	claim_take(t, CHAIN, &a, 1, OWNER_CLAIM);	/* what it held is now its payment */
	claim_take(t, CHAIN, &b, 2, OWNER_CLAIM);
	claim_take(t, CHAIN, &c, 1, OWNER_CLAIM);
	transfer_keep(t, CHAIN, &a);			/* keeps its owner */
	expect_owner(t, &a, OWNER_CLAIM, 1);
	claim_drop(t, CHAIN, 100, &block, 0, 1);	/* of this transaction and this intent only */
	expect_owner(t, &a, OWNER_NONE, 0);
	expect_owner(t, &b, OWNER_CLAIM, 2);
	expect_owner(t, &c, OWNER_CLAIM, 1);
}

struct taking {
	struct transfer_row tr;
	uint64_t row;
	enum owner_kind kind;
};

static void take_body(struct kv_txn *t, void *ctx)
{
	struct taking *k = ctx;

	claim_take(t, CHAIN, &k->tr, k->row, k->kind);
}

static void expect_refused(struct world *w, struct taking k)
{
	struct buf before = world_dump(w->kv);

	assert_int_equal(kv_write(w->kv, take_body, &k), E_CORRUPT);
	expect_same(before, world_dump(w->kv));
}

static void orphan_body(struct kv_txn *t, void *ctx)
{
	struct transfer_row b = transfer(100, 0xa0, 0, 2), c = transfer(100, 0xa0, 1, 0), moved = transfer(101, 0xb1, 0, 2);
	struct hash32 block = hash_of(0xa0);
	struct transfer_row all[8];

	(void)ctx;
	claims_orphan(t, CHAIN, 100, &block);
	expect_owner(t, &b, OWNER_NONE, 0);
	expect_owner(t, &c, OWNER_NONE, 0);
	assert_int_equal(transfers_of(t, CHAIN, 100, &block, 0, all, 8), 3);	/* marked, not removed */
	assert_true(all[0].orphaned && all[1].orphaned && all[2].orphaned);

	/* the payment on the new branch is free; the old row stays as it is */
	moved.tx_hash = b.tx_hash;
	transfer_keep(t, CHAIN, &moved);
	claim_take(t, CHAIN, &moved, 3, OWNER_CLAIM);
	expect_owner(t, &moved, OWNER_CLAIM, 3);
	claims_orphan(t, CHAIN, 101, &moved.block_hash);

	/* and back: the block's transfers stand there, no longer marked */
	transfer_keep(t, CHAIN, &b);
	claim_take(t, CHAIN, &b, 2, OWNER_CLAIM);
	assert_int_equal(transfers_of(t, CHAIN, 100, &block, 0, all, 8), 3);
	assert_true(all[0].orphaned && !all[2].orphaned && all[2].owner == 2);
	assert_int_equal(kv_count(t, T_CLAIM), 1);
}

static void test_claims(void **state)
{
	struct world *w = *state;

	assert_int_equal(kv_write(w->kv, keep_body, NULL), OK);
	assert_int_equal(kv_write(w->kv, claims_body, NULL), OK);
	expect_refused(w, (struct taking){ transfer(100, 0xa0, 0, 2), 1, OWNER_CLAIM });
	expect_refused(w, (struct taking){ transfer(100, 0xa0, 0, 2), 1, OWNER_HOLD });
	expect_refused(w, (struct taking){ transfer(100, 0xa0, 0, 9), 1, OWNER_CLAIM });	/* not kept */
	expect_refused(w, (struct taking){ transfer(101, 0xa0, 0, 1), 1, OWNER_CLAIM });
	assert_int_equal(kv_write(w->kv, orphan_body, NULL), OK);
}

/* --- sightings ------------------------------------------------------------------------------ */

/* Out of order on purpose; the last is of nobody. */
static const struct sighting_at places[] = {
	{ CHAIN, 101, 0, 0, 5 }, { CHAIN, 100, 2, 0, 1 }, { CHAIN, 100, 1, 4, 2 },
	{ CHAIN, 100, 1, 3, 9 }, { CHAIN, 100, 1, 3, 2 }, { CHAIN, 100, 1, 3, 0 },
};

static struct sighting_row sighting(const struct sighting_at *at)
{
	return (struct sighting_row){ .tx_hash = hash_of((uint8_t)at->tx_index), .block_hash = hash_of(0xa0),
				      .verdict = (uint8_t)at->row };
}

static void add_sightings_body(struct kv_txn *t, void *ctx)
{
	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct sighting_row s = sighting(&places[i]);

		sighting_add(t, &places[i], &s, i % 2);
	}
}

/* The walk from @at as "tx.ordinal.row ". */
static void expect_walk(struct kv_txn *t, struct sighting_at at, bool in_tx, const char *want)
{
	struct sighting_row s;
	char got[256] = "";
	size_t len = 0;

	for (; in_tx ? sighting_next_in_tx(t, &at, &s) : sighting_next_in_block(t, &at, &s); sighting_step(&at)) {
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%u.%u.%llu ", at.tx_index, at.ordinal,
					(unsigned long long)at.row);
		assert_int_equal(s.verdict, at.row);
	}
	assert_string_equal(got, want);
}

/* Take all that is pending of a tier, in its order. */
static void expect_pending(struct kv_txn *t, uint8_t tier, const char *want)
{
	struct sighting_at at;
	char got[256] = "";
	size_t len = 0;

	while (pending_first(t, CHAIN, tier, &at)) {
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%llu:%u.%u.%llu ",
					(unsigned long long)at.height, at.tx_index, at.ordinal, (unsigned long long)at.row);
		pending_del(t, &at, tier);
	}
	assert_string_equal(got, want);
}

static void sightings_body(struct kv_txn *t, void *ctx)
{
	struct sighting_at at = { CHAIN, 100, 0, 0, 0 }, found;
	struct hash32 tx = hash_of(1), none = hash_of(0xee);
	struct sighting_row s;

	(void)ctx;
	expect_walk(t, at, false, "1.3.0 1.3.2 1.3.9 1.4.2 2.0.1 ");
	expect_walk(t, (struct sighting_at){ CHAIN, 100, 1, 0, 0 }, true, "1.3.0 1.3.2 1.3.9 1.4.2 ");
	expect_walk(t, (struct sighting_at){ CHAIN, 102, 0, 0, 0 }, false, "");
	assert_true(sighting_of(t, CHAIN, 2, NULL, &found, &s) && found.ordinal == 3 && found.row == 2);
	assert_true(sighting_of(t, CHAIN, 2, &tx, &found, &s));
	assert_false(sighting_of(t, CHAIN, 2, &none, &found, &s) || sighting_of(t, 2, 2, NULL, &found, &s));
	assert_false(sighting_of(t, CHAIN, 0, NULL, &found, &s));	/* nobody's are not indexed */
	sighting_del(t, &places[4], 2);
	assert_true(sighting_of(t, CHAIN, 2, NULL, &found, &s) && found.ordinal == 4);
	pending_move(t, &places[1], 1, 0);
	expect_pending(t, 0, "100:1.4.2 100:2.0.1 101:0.0.5 ");
	expect_pending(t, 1, "100:1.3.0 100:1.3.9 ");
	sighting_del(t, &places[0], 2);		/* pending no more: the sighting goes alone */
	assert_int_equal(kv_count(t, T_SIGHTING), 4);
	assert_int_equal(kv_count(t, T_SIGHTING_OF), 3);
}

static void test_sightings(void **state)
{
	struct world *w = *state;

	assert_int_equal(kv_write(w->kv, add_sightings_body, NULL), OK);
	assert_int_equal(kv_write(w->kv, sightings_body, NULL), OK);
}

/* One whose balance is to be read waits under no tier, and goes with its block like any other. */
static void waiting_body(struct kv_txn *t, void *ctx)
{
	struct sighting_row s = sighting(&places[0]);
	struct sighting_at at = { .chain = CHAIN };

	(void)ctx;
	s.witness = WITNESS_PENDING;
	sighting_add(t, &places[0], &s, 1);
	s.witness = WITNESS_DOUBTED;
	sighting_add(t, &places[1], &s, 0);
	s.witness = WITNESS_UNAVAILABLE;
	sighting_add(t, &places[2], &s, 0);
	assert_true(pending_next(t, TIER_WAITS, &at) && at.row == places[1].row);
	sighting_step(&at);
	assert_true(pending_next(t, TIER_WAITS, &at) && at.row == places[0].row);
	sighting_step(&at);
	assert_false(pending_next(t, TIER_WAITS, &at));
	assert_true(pending_has(t, &places[0], 2) && pending_has(t, &places[2], 2));
	assert_false(pending_has(t, &places[3], 2));
	sighting_del(t, &places[0], 2);
	pending_end(t, &places[2], 2);
	assert_false(pending_has(t, &places[0], 2) || pending_has(t, &places[2], 2));
	pending_move(t, &places[1], TIER_WAITS, 1);
	expect_pending(t, 0, "");
	expect_pending(t, 1, "100:2.0.1 ");
	expect_pending(t, TIER_WAITS, "");
}

static void test_waiting(void **state)
{
	struct world *w = *state;

	assert_int_equal(kv_write(w->kv, waiting_body, NULL), OK);
}

/* --- outbox ----------------------------------------------------------------------------------- */

static void event_body(struct kv_txn *t, void *ctx)
{
	struct chain_event e = { .type = EVENT_CHAIN_REORG, .chain = CHAIN, .depth = 1,
				 .old_tip = { true, 101, hash_of(0xa1) } };
	enum err *err = ctx;
	struct chain_row row;

	if (!chain_get(t, CHAIN, &row))
		row = (struct chain_row){ 0 };
	event_chain(t, &row, &e, 0);
	chain_put(t, CHAIN, &row);
	if (*err)
		kv_fail(t, *err);
}

static uint64_t last_event(struct world *w)
{
	struct kv_txn t = kv_begin_read(w->kv);
	uint64_t last = outbox_last(&t);

	assert_int_equal(kv_end_read(&t), OK);
	return last;
}

static void cursor_body(struct kv_txn *t, void *ctx)
{
	(void)ctx;
	assert_int_equal(outbox_cursor(t, "stdout"), 0);
	outbox_set_cursor(t, "stdout", 2);
	outbox_set_cursor(t, "webhook", 1);
	outbox_set_cursor(t, "stdout", 3);
	assert_int_equal(outbox_cursor(t, "stdout"), 3);
	assert_int_equal(outbox_cursor(t, "webhook"), 1);
	assert_int_equal(outbox_cursor(t, "std"), 0);
}

/* What failed took no number. */
static void test_outbox(void **state)
{
	struct world *w = *state;
	enum err none = OK, refused = E_REFUSED;
	struct kv_txn t;
	struct slice body;

	assert_int_equal(last_event(w), 0);
	for (uint64_t n = 1; n <= 3; n++) {
		assert_int_equal(kv_write(w->kv, event_body, &refused), E_REFUSED);
		assert_int_equal(last_event(w), n - 1);
		assert_int_equal(kv_write(w->kv, event_body, &none), OK);
		assert_int_equal(last_event(w), n);
	}
	t = kv_begin_read(w->kv);
	for (uint64_t n = 1; n <= 3; n++) {
		char want[32], text[2048];

		assert_true(outbox_get(&t, n, &body));
		snprintf(want, sizeof(want), "\"sequence\":%llu,", (unsigned long long)n);
		snprintf(text, sizeof(text), "%.*s", (int)body.len, (const char *)body.data);
		assert_non_null(strstr(text, want));
	}
	assert_false(outbox_get(&t, 4, &body) || outbox_get(&t, 0, &body));
	assert_int_equal(kv_end_read(&t), OK);
	assert_int_equal(kv_write(w->kv, cursor_body, NULL), OK);
}

/* --- a full map ---------------------------------------------------------------------------------- */

struct bulk {
	unsigned runs;
	unsigned created;
};

static void bulk_body(struct kv_txn *t, void *ctx)
{
	struct bulk *b = ctx;
	struct complaint why;
	bool created;

	b->runs++;
	b->created = 0;
	for (unsigned n = 1; n <= 500; n++) {
		struct intent i = { .merchant_id = "m_1", .chain_id = CHAIN, .token = address_of(1), .payee = address_of(2),
				    .amount = u256_from_u64(n), .watch = WATCH_ROUTE };

		snprintf(i.id, sizeof(i.id), "pi_%u", n);
		snprintf(i.idempotency_key, sizeof(i.idempotency_key), "k_%u", n);
		if (intents_create(t, &i, 1000, &created, &why) == OK && created && i.row == n)
			b->created++;
	}
}

static void remake(struct world *w, size_t map_bytes, size_t map_max_bytes)
{
	world_remove(w);
	world_make(w);
	w->options.map_bytes = map_bytes;
	w->options.map_max_bytes = map_max_bytes;
	world_open(w);
}

static void test_map_full(void **state)
{
	struct world *w = *state;
	struct bulk b = { 0 };
	struct buf want;

	assert_int_equal(kv_write(w->kv, bulk_body, &b), OK);
	want = world_dump(w->kv);
	remake(w, 256 << 10, 0);
	b.runs = 0;
	assert_int_equal(kv_write(w->kv, bulk_body, &b), OK);
	assert_true(b.runs > 1 && kv_stats(w->kv).grown == b.runs - 1);
	assert_int_equal(b.created, 500);
	expect_same(want, world_dump(w->kv));
}

/* No room and no leave to take more: nothing of it is there. */
static void test_map_limit(void **state)
{
	struct world *w = *state;
	struct bulk b = { 0 };
	struct buf before;

	remake(w, 256 << 10, 512 << 10);
	before = world_dump(w->kv);
	assert_int_equal(kv_write(w->kv, bulk_body, &b), E_FULL);
	expect_same(before, world_dump(w->kv));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_schema_version),
		TEST(test_reopened),
		TEST(test_genesis),
		TEST(test_chain),
		TEST(test_prune),
		TEST(test_claims),
		TEST(test_sightings), TEST(test_waiting),
		TEST(test_outbox),
		TEST(test_map_full),
		TEST(test_map_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
