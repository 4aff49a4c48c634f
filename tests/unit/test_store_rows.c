/*
 * Rows as bytes: every row there and back with extreme values, and refused in
 * every damaged form; keys as schema.h shows them.
 */
#include "store/intents.h"
#include "tests/unit/world.h"

enum fill { FILL_ZERO, FILL_MAX, FILL_MIN, FILL_EACH, FILLS };

struct filler {
	enum fill how;
	uint8_t n;			/* so that no two fields are the same */
};

static uint64_t fill_u64(struct filler *f)
{
	f->n++;
	return f->how == FILL_ZERO ? 0 : f->how == FILL_EACH ? UINT64_C(0x0102030405060700) + f->n : UINT64_MAX;
}

static int64_t fill_i64(struct filler *f)
{
	uint64_t v = fill_u64(f);

	return f->how == FILL_MIN ? INT64_MIN : f->how == FILL_MAX ? INT64_MAX : (int64_t)v;
}

static uint8_t fill_u8(struct filler *f)
{
	return (uint8_t)fill_u64(f);
}

static uint32_t fill_u32(struct filler *f)
{
	return (uint32_t)fill_u64(f);
}

static bool fill_bool(struct filler *f)
{
	return f->how != FILL_ZERO && (f->how != FILL_EACH || f->n++ % 2 == 0);
}

static int fill_enum(struct filler *f, int last)
{
	return f->how == FILL_ZERO ? 0 : f->how == FILL_EACH ? f->n++ % (last + 1) : last;
}

static void fill_bytes(struct filler *f, uint8_t *b, size_t len)
{
	uint8_t v = fill_u8(f);

	for (size_t i = 0; i < len; i++)
		b[i] = f->how == FILL_EACH ? (uint8_t)(v + i) : v;
}

static struct hash32 fill_hash(struct filler *f)
{
	struct hash32 h;

	fill_bytes(f, h.b, sizeof(h.b));
	return h;
}

static struct address fill_address(struct filler *f)
{
	struct address a;

	fill_bytes(f, a.b, sizeof(a.b));
	return a;
}

static struct u256 fill_u256(struct filler *f)
{
	uint8_t b[32];

	fill_bytes(f, b, sizeof(b));
	return u256_from_be(b);
}

/* Texts of no, of most, and of some bytes. */
static void fill_text(struct filler *f, char *out, size_t cap)
{
	size_t len = f->how == FILL_ZERO ? 0 : f->how == FILL_EACH ? f->n++ % (cap - 1) : cap - 1;

	memset(out, 'a' + f->n % 26, len);
}

static void fill_chain(struct filler *f, void *row)
{
	struct chain_row *r = row;

	r->has_genesis = fill_bool(f);
	r->genesis = fill_hash(f);
	r->has_tip = fill_bool(f);
	r->start_height = fill_u64(f);
	r->tip_height = fill_u64(f);
	r->tip_hash = fill_hash(f);
	r->tip_time_s = fill_i64(f);
	r->event_number = fill_u64(f);
	for (unsigned i = 0; i < TIERS_MAX; i++) {
		r->marks[i].known = fill_bool(f);
		r->marks[i].height = fill_u64(f);
		r->marks[i].hash = fill_hash(f);
		r->marks[i].time_s = fill_i64(f);
		r->marks[i].suspended = fill_bool(f);
	}
	r->latched = fill_bool(f);
	r->latch_height = fill_u64(f);
	r->latch_ours = fill_hash(f);
	r->latch_theirs = fill_hash(f);
	r->accepted = fill_bool(f);
	r->accepted_hash = fill_hash(f);
}

static void fill_block(struct filler *f, void *row)
{
	struct block_row *r = row;

	r->hash = fill_hash(f);
	r->parent = fill_hash(f);
	r->time_s = fill_i64(f);
	r->proof = fill_u8(f);
	r->order = fill_u64(f);
	r->tx_count = fill_u32(f);
}

static void fill_transfer(struct filler *f, void *row)
{
	struct transfer_row *r = row;

	r->tx_hash = fill_hash(f);
	r->token = fill_address(f);
	r->from = fill_address(f);
	r->to = fill_address(f);
	r->value = fill_u256(f);
	r->orphaned = fill_bool(f);
	r->owner_kind = fill_u8(f);
	r->owner = fill_u64(f);
	r->height = fill_u64(f);
	r->block_hash = fill_hash(f);
	r->tx_index = fill_u32(f);
	r->ordinal = fill_u32(f);
}

static void fill_claim(struct filler *f, void *row)
{
	struct claim_row *r = row;

	r->kind = fill_u8(f);
	r->row = fill_u64(f);
	r->height = fill_u64(f);
	r->block_hash = fill_hash(f);
	r->tx_index = fill_u32(f);
}

static void fill_sighting(struct filler *f, void *row)
{
	struct sighting_row *r = row;

	r->tx_hash = fill_hash(f);
	r->block_hash = fill_hash(f);
	r->block_time_s = fill_i64(f);
	r->verdict = fill_u8(f);
	r->route = fill_bool(f);
	r->sum = fill_u256(f);
	r->witness = fill_u8(f);
	r->before = fill_u256(f);
	r->after = fill_u256(f);
	r->came = fill_u256(f);
	r->went = fill_u256(f);
	r->loose = fill_u8(f);
	r->judged_in_review = fill_bool(f);
}

static void fill_reason(struct filler *f, struct reason *r)
{
	fill_text(f, r->code, sizeof(r->code));
	fill_text(f, r->text, sizeof(r->text));
}

/* Its row is the key, not the value. */
static void fill_intent(struct filler *f, void *row)
{
	struct intent *i = row;

	fill_text(f, i->id, sizeof(i->id));
	fill_text(f, i->merchant_id, sizeof(i->merchant_id));
	fill_text(f, i->idempotency_key, sizeof(i->idempotency_key));
	i->chain_id = fill_u64(f);
	i->token = fill_address(f);
	i->amount = fill_u256(f);
	i->payee = fill_address(f);
	i->has_payer = fill_bool(f);
	i->payer = fill_address(f);
	i->watch = (enum watch)fill_enum(f, WATCH_ROUTE);
	i->has_expiry = fill_bool(f);
	i->expires_at_ms = fill_i64(f);
	fill_text(f, i->reverses, sizeof(i->reverses));
	i->state = (enum intent_state)fill_enum(f, INTENT_CANCELED);
	i->version = fill_u64(f);
	i->has_tx = fill_bool(f);
	i->tx_hash = fill_hash(f);
	fill_reason(f, &i->reason);
	i->event_number = fill_u64(f);
	i->created_order = fill_u64(f);
	i->created_at_ms = fill_i64(f);
	i->entered_at_ms = fill_i64(f);
	i->missing_from_ms = fill_i64(f);
	i->reversed = fill_bool(f);
	i->overdue_said = fill_bool(f);
}

static void fill_history(struct filler *f, void *row)
{
	struct history_row *h = row;

	h->from = (enum intent_state)fill_enum(f, INTENT_CANCELED);
	h->to = (enum intent_state)fill_enum(f, INTENT_CANCELED);
	h->actor = (enum actor)fill_enum(f, ACTOR_SYSTEM);
	h->has_tx = fill_bool(f);
	h->tx_hash = fill_hash(f);
	fill_reason(f, &h->reason);
	h->has_block = fill_bool(f);
	h->block_height = fill_u64(f);
	h->block_hash = fill_hash(f);
	h->at_ms = fill_i64(f);
	h->version = fill_u64(f);
	h->conflict = fill_bool(f);
	h->other_tx = fill_hash(f);
}

static void fill_attempt(struct filler *f, void *row)
{
	struct attempt_row *a = row;

	a->tx_hash = fill_hash(f);
	a->has_sender = fill_bool(f);
	a->sender = fill_address(f);
	a->has_nonce = fill_bool(f);
	a->nonce = fill_u64(f);
	a->order = fill_u64(f);
	a->at_ms = fill_i64(f);
}

static void fill_ledger(struct filler *f, void *row)
{
	struct ledger_row *l = row;

	l->kind = fill_u8(f);
	l->chain_id = fill_u64(f);
	l->token = fill_address(f);
	l->amount = fill_u256(f);
	l->payee = fill_address(f);
	l->has_tx = fill_bool(f);
	l->tx_hash = fill_hash(f);
	l->event = fill_u64(f);
	l->at_ms = fill_i64(f);
}

struct row_kind {
	enum row_type type;
	size_t bytes;
	void (*fill)(struct filler *f, void *row);
};

static const struct row_kind row_kinds[] = {
	{ ROW_CHAIN, sizeof(struct chain_row), fill_chain },
	{ ROW_BLOCK, sizeof(struct block_row), fill_block },
	{ ROW_TRANSFER, sizeof(struct transfer_row), fill_transfer },
	{ ROW_CLAIM, sizeof(struct claim_row), fill_claim },
	{ ROW_SIGHTING, sizeof(struct sighting_row), fill_sighting },
	{ ROW_INTENT, sizeof(struct intent), fill_intent },
	{ ROW_HISTORY, sizeof(struct history_row), fill_history },
	{ ROW_ATTEMPT, sizeof(struct attempt_row), fill_attempt },
	{ ROW_LEDGER, sizeof(struct ledger_row), fill_ledger },
};

static void expect_corrupt(struct slice val, const struct row_kind *kind)
{
	struct kv_txn scratch = { .err = OK };
	void *row = xcalloc(1, kind->bytes);

	assert_false(row_decode(&scratch, val, kind->type, row));
	assert_int_equal(scratch.err, E_CORRUPT);
	free(row);
}

/* Shorter by every length, longer by a byte, of another version. */
static void damage(struct slice val, const struct row_kind *kind)
{
	uint8_t copy[2048];

	assert_true(val.len < sizeof(copy) - 1);
	memcpy(copy, val.data, val.len);
	copy[val.len] = 0;
	for (size_t len = 0; len < val.len; len++)
		expect_corrupt((struct slice){ copy, len }, kind);
	expect_corrupt((struct slice){ copy, val.len + 1 }, kind);
	for (int version = 0; version < 256; version++) {
		copy[0] = (uint8_t)version;
		if (version != val.data[0])
			expect_corrupt((struct slice){ copy, val.len }, kind);
	}
}

static void rows_body(struct kv_txn *t, void *ctx)
{
	const struct row_kind *kind = ctx;
	void *row = xmalloc(kind->bytes), *back = xmalloc(kind->bytes);
	struct key key = key_u64(7);
	struct slice val;

	for (enum fill how = FILL_ZERO; how < FILLS; how++) {
		struct filler f = { how, 0 };

		memset(row, 0, kind->bytes);
		memset(back, 0xee, kind->bytes);
		kind->fill(&f, row);
		row_put(t, T_INTENT, &key, kind->type, row);
		assert_true(row_get(t, T_INTENT, &key, kind->type, back));
		assert_memory_equal(row, back, kind->bytes);
		assert_true(kv_get(t, T_INTENT, key_slice(&key), &val));
		damage(val, kind);
	}
	free(row);
	free(back);
}

static void test_rows(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(row_kinds); i++) {
		struct row_kind kind = row_kinds[i];

		assert_int_equal(kv_write(w->kv, rows_body, &kind), OK);
	}
}

/* A text longer than its field, or a state that does not exist. */
static void bad_values_body(struct kv_txn *t, void *ctx)
{
	struct key key = key_u64(1);
	struct intent i = { .id = "pi_1" };
	struct slice val;
	uint8_t copy[1024];

	row_put(t, T_INTENT, &key, ROW_INTENT, &i);
	assert_true(kv_get(t, T_INTENT, key_slice(&key), &val));
	memcpy(copy, val.data, val.len);
	if (*(int *)ctx == 0)
		copy[1] = 65;		/* the id's length */
	else
		copy[val.len - 2 - 5 * 8 - 2 - 32 - 1 - 8 - 1] = INTENT_STATES;
	kv_put(t, T_INTENT, key_slice(&key), (struct slice){ copy, val.len });
	assert_false(intents_get(t, 1, &i));
	assert_int_equal(t->err, E_CORRUPT);
}

static void test_bad_values(void **state)
{
	struct world *w = *state;

	for (int which = 0; which < 2; which++)
		assert_int_equal(kv_write(w->kv, bad_values_body, &which), E_CORRUPT);
}

static void expect_key(struct key key, const char *hex)
{
	char text[2 * sizeof(key.b) + 1];

	hex_encode(key.b, key.len, text);
	text[2 * key.len] = '\0';
	assert_string_equal(text, hex);
}

/* The examples of schema.h, and the order of keys. */
static void test_keys(void **state)
{
	struct key a = key_block(1, 255), b = key_block(1, 256);

	(void)state;
	expect_key(key_chain(1), "0000000000000001");
	expect_key(key_block(1, 258), "00000000000000010000000000000102");
	expect_key(key_block_tx(1, 258, 3), "0000000000000001000000000000010200000003");
	expect_key(key_meta("schema"), "736368656d61");
	expect_key(key_intent_key("m", "k"), "6d006b");
	expect_key(key_state(INTENT_CONFIRMING, 1, 2), "0300000000000000010000000000000002");
	expect_key(key_deadline(1, DEADLINE_OVERDUE, 2, 3), "000000000000000101" "0000000000000002" "0000000000000003");
	assert_true(memcmp(a.b, b.b, a.len) < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rows),
		TEST(test_bad_values),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
