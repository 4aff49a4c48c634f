#include "store/schema.h"

#include <string.h>

const char *const schema_table_names[TABLES] = {
	[T_META] = "meta",
	[T_CHAIN] = "chain",
	[T_BLOCK] = "block",
	[T_BLOCK_TX] = "block_tx",
	[T_ORPHAN] = "orphan",
	[T_ORPHAN_TX] = "orphan_tx",
	[T_TRANSFER] = "transfer",
	[T_CLAIM] = "claim",
	[T_SIGHTING] = "sighting",
	[T_SIGHTING_OF] = "sighting_of",
	[T_PENDING] = "pending",
	[T_INTENT] = "intent",
	[T_INTENT_ID] = "intent_id",
	[T_INTENT_KEY] = "intent_key",
	[T_HISTORY] = "history",
	[T_ATTEMPT] = "attempt",
	[T_TX] = "tx",
	[T_ROUTE] = "route",
	[T_STATE] = "state",
	[T_DEADLINE] = "deadline",
	[T_LOOKUP] = "lookup",
	[T_EVENT] = "event",
	[T_CURSOR] = "cursor",
	[T_LEDGER] = "ledger",
};

/* Keys. */

struct slice key_slice(const struct key *k)
{
	return (struct slice){ k->b, k->len };
}

static void key_bytes(struct key *k, const void *data, size_t len)
{
	assert(k->len + len <= sizeof(k->b));
	memcpy(k->b + k->len, data, len);
	k->len = (uint16_t)(k->len + len);
}

static void key_number8(struct key *k, uint8_t v)
{
	key_bytes(k, &v, 1);
}

static void key_number32(struct key *k, uint32_t v)
{
	uint8_t b[4];

	be32_put(b, v);
	key_bytes(k, b, sizeof(b));
}

static void key_number(struct key *k, uint64_t v)
{
	uint8_t b[8];

	be64_put(b, v);
	key_bytes(k, b, sizeof(b));
}

static void key_hash(struct key *k, const struct hash32 *h)
{
	key_bytes(k, h->b, sizeof(h->b));
}

static void key_address(struct key *k, const struct address *a)
{
	key_bytes(k, a->b, sizeof(a->b));
}

struct key key_text(const char *text)
{
	struct key k = { .len = 0 };

	key_bytes(&k, text, strlen(text));
	return k;
}

struct key key_meta(const char *name)
{
	return key_text(name);
}

struct key key_intent_id(const char *id)
{
	return key_text(id);
}

struct key key_u64(uint64_t v)
{
	struct key k = { .len = 0 };

	key_number(&k, v);
	return k;
}

struct key key_chain(uint64_t chain)
{
	return key_u64(chain);
}

static struct key key_pair(uint64_t a, uint64_t b)
{
	struct key k = key_u64(a);

	key_number(&k, b);
	return k;
}

static struct key key_chunked(struct key k, uint32_t chunk)
{
	key_number32(&k, chunk);
	return k;
}

struct key key_block(uint64_t chain, uint64_t height)
{
	return key_pair(chain, height);
}

struct key key_block_tx(uint64_t chain, uint64_t height, uint32_t chunk)
{
	return key_chunked(key_block(chain, height), chunk);
}

struct key key_orphan(uint64_t chain, uint64_t height, const struct hash32 *hash)
{
	struct key k = key_pair(chain, height);

	key_hash(&k, hash);
	return k;
}

struct key key_orphan_tx(uint64_t chain, uint64_t height, const struct hash32 *hash, uint32_t chunk)
{
	return key_chunked(key_orphan(chain, height, hash), chunk);
}

struct key key_transfer(uint64_t chain, uint64_t height, const struct hash32 *block_hash,
			uint32_t tx_index, uint32_t ordinal)
{
	struct key k = key_orphan(chain, height, block_hash);

	key_number32(&k, tx_index);
	key_number32(&k, ordinal);
	return k;
}

struct key key_claim(uint64_t chain, const struct hash32 *tx_hash, uint32_t ordinal)
{
	struct key k = key_u64(chain);

	key_hash(&k, tx_hash);
	key_number32(&k, ordinal);
	return k;
}

static void key_place(struct key *k, const struct sighting_at *at)
{
	key_number(k, at->height);
	key_number32(k, at->tx_index);
	key_number32(k, at->ordinal);
}

struct key key_sighting(const struct sighting_at *at)
{
	struct key k = key_u64(at->chain);

	key_place(&k, at);
	key_number(&k, at->row);
	return k;
}

struct key key_sighting_of(const struct sighting_at *at)
{
	struct key k = key_pair(at->row, at->chain);

	key_place(&k, at);
	return k;
}

struct key key_pending(const struct sighting_at *at, uint8_t tier)
{
	struct key k = key_u64(at->chain);

	key_number8(&k, tier);
	key_place(&k, at);
	key_number(&k, at->row);
	return k;
}

struct key key_intent_key(const char *merchant_id, const char *idempotency_key)
{
	struct key k = key_text(merchant_id);

	key_number8(&k, 0);
	key_bytes(&k, idempotency_key, strlen(idempotency_key));
	return k;
}

struct key key_history(uint64_t row, uint64_t version)
{
	return key_pair(row, version);
}

struct key key_attempt(uint64_t row, uint32_t n)
{
	return key_chunked(key_u64(row), n);
}

struct key key_ledger(uint64_t row, uint32_t n)
{
	return key_chunked(key_u64(row), n);
}

struct key key_tx(uint64_t chain, const struct hash32 *tx_hash, uint64_t order)
{
	struct key k = key_u64(chain);

	key_hash(&k, tx_hash);
	key_number(&k, order);
	return k;
}

struct key key_route_payee(uint64_t chain, const struct address *payee)
{
	struct key k = key_u64(chain);

	key_address(&k, payee);
	return k;
}

struct key key_route_fit(uint64_t chain, const struct address *payee, const struct address *token,
			 const struct u256 *amount)
{
	struct key k = key_route_payee(chain, payee);
	uint8_t be[32];

	key_address(&k, token);
	u256_to_be(amount, be);
	key_bytes(&k, be, sizeof(be));
	return k;
}

struct key key_route(const struct intent *i)
{
	static const struct address any;
	struct key k = key_route_fit(i->chain_id, &i->payee, &i->token, &i->amount);

	key_address(&k, i->has_payer ? &i->payer : &any);
	key_number(&k, i->row);
	return k;
}

struct key key_state(enum intent_state state, int64_t at_ms, uint64_t row)
{
	struct key k = { .len = 0 };

	key_number8(&k, (uint8_t)state);
	key_number(&k, (uint64_t)at_ms);
	key_number(&k, row);
	return k;
}

struct key key_deadline(uint64_t chain, enum deadline_kind kind, int64_t at_ms, uint64_t row)
{
	struct key k = key_u64(chain);

	key_number8(&k, (uint8_t)kind);
	key_number(&k, (uint64_t)at_ms);
	key_number(&k, row);
	return k;
}

struct key key_lookup(uint64_t chain, uint64_t row)
{
	return key_pair(chain, row);
}

/* Values: one list of fields a row drives both directions. */

enum field_kind {
	F_BOOL,
	F_U8,
	F_ENUM,			/* an int below 256 */
	F_U32,
	F_U64,
	F_I64,
	F_HASH,
	F_ADDRESS,
	F_U256,
	F_TEXT,
};

struct field {
	enum field_kind kind;
	uint16_t offset;
	uint16_t size;
};

#define FIELD(row, kind, name) { kind, offsetof(struct row, name), sizeof(((struct row *)0)->name) }
#define MARK(n) \
	FIELD(chain_row, F_BOOL, marks[n].known), FIELD(chain_row, F_U64, marks[n].height), \
	FIELD(chain_row, F_HASH, marks[n].hash), FIELD(chain_row, F_I64, marks[n].time_s), \
	FIELD(chain_row, F_BOOL, marks[n].suspended)

static const struct field chain_fields[] = {
	FIELD(chain_row, F_BOOL, has_genesis), FIELD(chain_row, F_HASH, genesis),
	FIELD(chain_row, F_BOOL, has_tip), FIELD(chain_row, F_U64, start_height),
	FIELD(chain_row, F_U64, tip_height), FIELD(chain_row, F_HASH, tip_hash),
	FIELD(chain_row, F_I64, tip_time_s), FIELD(chain_row, F_U64, event_number),
	MARK(0), MARK(1), MARK(2), MARK(3),
	FIELD(chain_row, F_BOOL, latched), FIELD(chain_row, F_U64, latch_height),
	FIELD(chain_row, F_HASH, latch_ours), FIELD(chain_row, F_HASH, latch_theirs),
	FIELD(chain_row, F_BOOL, accepted), FIELD(chain_row, F_HASH, accepted_hash),
	FIELD(chain_row, F_BOOL, has_start), FIELD(chain_row, F_HASH, start_parent),
	FIELD(chain_row, F_BOOL, trusted), FIELD(chain_row, F_HASH, trusted_hash),
};

static const struct field block_fields[] = {
	FIELD(block_row, F_HASH, hash), FIELD(block_row, F_HASH, parent),
	FIELD(block_row, F_I64, time_s), FIELD(block_row, F_U8, proof),
	FIELD(block_row, F_U64, order), FIELD(block_row, F_U32, tx_count),
};

static const struct field transfer_fields[] = {
	FIELD(transfer_row, F_HASH, tx_hash), FIELD(transfer_row, F_ADDRESS, token),
	FIELD(transfer_row, F_ADDRESS, from), FIELD(transfer_row, F_ADDRESS, to),
	FIELD(transfer_row, F_U256, value), FIELD(transfer_row, F_BOOL, orphaned),
	FIELD(transfer_row, F_U8, owner_kind), FIELD(transfer_row, F_U64, owner),
	FIELD(transfer_row, F_U64, height), FIELD(transfer_row, F_HASH, block_hash),
	FIELD(transfer_row, F_U32, tx_index), FIELD(transfer_row, F_U32, ordinal),
};

static const struct field claim_fields[] = {
	FIELD(claim_row, F_U8, kind), FIELD(claim_row, F_U64, row),
	FIELD(claim_row, F_U64, height), FIELD(claim_row, F_HASH, block_hash),
	FIELD(claim_row, F_U32, tx_index),
};

static const struct field sighting_fields[] = {
	FIELD(sighting_row, F_HASH, tx_hash), FIELD(sighting_row, F_HASH, block_hash),
	FIELD(sighting_row, F_I64, block_time_s), FIELD(sighting_row, F_U8, verdict),
	FIELD(sighting_row, F_BOOL, route), FIELD(sighting_row, F_U256, sum),
	FIELD(sighting_row, F_U8, witness), FIELD(sighting_row, F_U256, before),
	FIELD(sighting_row, F_U256, after), FIELD(sighting_row, F_U256, came),
	FIELD(sighting_row, F_U256, went), FIELD(sighting_row, F_U8, loose),
	FIELD(sighting_row, F_BOOL, judged_in_review),
};

static const struct field intent_fields[] = {
	FIELD(intent, F_TEXT, id), FIELD(intent, F_TEXT, merchant_id),
	FIELD(intent, F_TEXT, idempotency_key), FIELD(intent, F_U64, chain_id),
	FIELD(intent, F_ADDRESS, token), FIELD(intent, F_U256, amount),
	FIELD(intent, F_ADDRESS, payee), FIELD(intent, F_BOOL, has_payer),
	FIELD(intent, F_ADDRESS, payer), FIELD(intent, F_ENUM, watch),
	FIELD(intent, F_BOOL, has_expiry), FIELD(intent, F_I64, expires_at_ms),
	FIELD(intent, F_TEXT, reverses), FIELD(intent, F_ENUM, state),
	FIELD(intent, F_U64, version), FIELD(intent, F_BOOL, has_tx),
	FIELD(intent, F_HASH, tx_hash), FIELD(intent, F_TEXT, reason.code),
	FIELD(intent, F_TEXT, reason.text), FIELD(intent, F_U64, event_number),
	FIELD(intent, F_U64, created_order), FIELD(intent, F_I64, created_at_ms),
	FIELD(intent, F_I64, entered_at_ms), FIELD(intent, F_I64, missing_from_ms),
	FIELD(intent, F_BOOL, reversed), FIELD(intent, F_BOOL, overdue_said),
};

static const struct field history_fields[] = {
	FIELD(history_row, F_ENUM, from), FIELD(history_row, F_ENUM, to),
	FIELD(history_row, F_ENUM, actor), FIELD(history_row, F_BOOL, has_tx),
	FIELD(history_row, F_HASH, tx_hash), FIELD(history_row, F_TEXT, reason.code),
	FIELD(history_row, F_TEXT, reason.text), FIELD(history_row, F_BOOL, has_block),
	FIELD(history_row, F_U64, block_height), FIELD(history_row, F_HASH, block_hash),
	FIELD(history_row, F_I64, at_ms), FIELD(history_row, F_U64, version),
	FIELD(history_row, F_BOOL, conflict), FIELD(history_row, F_HASH, other_tx),
};

static const struct field attempt_fields[] = {
	FIELD(attempt_row, F_HASH, tx_hash), FIELD(attempt_row, F_BOOL, has_sender),
	FIELD(attempt_row, F_ADDRESS, sender), FIELD(attempt_row, F_BOOL, has_nonce),
	FIELD(attempt_row, F_U64, nonce), FIELD(attempt_row, F_U64, order),
	FIELD(attempt_row, F_I64, at_ms),
};

static const struct field ledger_fields[] = {
	FIELD(ledger_row, F_U8, kind), FIELD(ledger_row, F_U64, chain_id),
	FIELD(ledger_row, F_ADDRESS, token), FIELD(ledger_row, F_U256, amount),
	FIELD(ledger_row, F_ADDRESS, payee), FIELD(ledger_row, F_BOOL, has_tx),
	FIELD(ledger_row, F_HASH, tx_hash), FIELD(ledger_row, F_U64, event),
	FIELD(ledger_row, F_I64, at_ms),
};

struct layout {
	uint8_t version;
	const struct field *fields;
	size_t count;
	size_t row_bytes;
};

#define LAYOUT(version, fields, row) { version, fields, ARRAY_SIZE(fields), sizeof(struct row) }
static const struct layout layouts[] = {
	[ROW_CHAIN] = LAYOUT(1, chain_fields, chain_row),
	[ROW_BLOCK] = LAYOUT(1, block_fields, block_row),
	[ROW_TRANSFER] = LAYOUT(1, transfer_fields, transfer_row),
	[ROW_CLAIM] = LAYOUT(1, claim_fields, claim_row),
	[ROW_SIGHTING] = LAYOUT(1, sighting_fields, sighting_row),
	[ROW_INTENT] = LAYOUT(1, intent_fields, intent),
	[ROW_HISTORY] = LAYOUT(1, history_fields, history_row),
	[ROW_ATTEMPT] = LAYOUT(1, attempt_fields, attempt_row),
	[ROW_LEDGER] = LAYOUT(1, ledger_fields, ledger_row),
};

#define ROW_BYTES_MAX 1024

struct writer {
	uint8_t b[ROW_BYTES_MAX];
	size_t len;
};

static void write_bytes(struct writer *w, const void *data, size_t len)
{
	assert(w->len + len <= sizeof(w->b));
	memcpy(w->b + w->len, data, len);
	w->len += len;
}

static void write_u8(struct writer *w, uint8_t v)
{
	write_bytes(w, &v, 1);
}

static void write_u64(struct writer *w, uint64_t v)
{
	uint8_t b[8];

	be64_put(b, v);
	write_bytes(w, b, sizeof(b));
}

static void write_field(struct writer *w, const struct field *f, const void *p)
{
	uint8_t b[32];

	switch (f->kind) {
	case F_BOOL:
		write_u8(w, *(const bool *)p);
		return;
	case F_U8:
		write_u8(w, *(const uint8_t *)p);
		return;
	case F_ENUM:
		write_u8(w, (uint8_t)*(const int *)p);
		return;
	case F_U32:
		be32_put(b, *(const uint32_t *)p);
		write_bytes(w, b, 4);
		return;
	case F_U64:
		write_u64(w, *(const uint64_t *)p);
		return;
	case F_I64:
		write_u64(w, (uint64_t)*(const int64_t *)p);
		return;
	case F_HASH:
	case F_ADDRESS:
		write_bytes(w, p, f->size);
		return;
	case F_U256:
		u256_to_be(p, b);
		write_bytes(w, b, 32);
		return;
	case F_TEXT:
		write_u8(w, (uint8_t)strlen(p));
		write_bytes(w, p, strlen(p));
		return;
	}
}

struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static const uint8_t *read_bytes(struct reader *r, size_t len)
{
	static const uint8_t nothing[256];
	const uint8_t *p = r->at;

	if ((size_t)(r->end - r->at) < len) {
		r->bad = true;
		return nothing;
	}
	r->at += len;
	return p;
}

static void read_text(struct reader *r, const struct field *f, char *out)
{
	uint8_t len = *read_bytes(r, 1);

	if (len >= f->size) {
		r->bad = true;
		len = 0;
	}
	memcpy(out, read_bytes(r, len), len);
	out[len] = '\0';
}

static void read_field(struct reader *r, const struct field *f, void *p)
{
	switch (f->kind) {
	case F_BOOL:
		*(bool *)p = *read_bytes(r, 1) != 0;
		return;
	case F_U8:
		*(uint8_t *)p = *read_bytes(r, 1);
		return;
	case F_ENUM:
		*(int *)p = *read_bytes(r, 1);
		return;
	case F_U32:
		*(uint32_t *)p = be32_get(read_bytes(r, 4));
		return;
	case F_U64:
		*(uint64_t *)p = be64_get(read_bytes(r, 8));
		return;
	case F_I64:
		*(int64_t *)p = (int64_t)be64_get(read_bytes(r, 8));
		return;
	case F_HASH:
	case F_ADDRESS:
		memcpy(p, read_bytes(r, f->size), f->size);
		return;
	case F_U256:
		*(struct u256 *)p = u256_from_be(read_bytes(r, 32));
		return;
	case F_TEXT:
		read_text(r, f, p);
		return;
	}
}

static struct slice encode(struct writer *w, enum row_type type, const void *row)
{
	const struct layout *l = &layouts[type];

	write_u8(w, l->version);
	for (size_t i = 0; i < l->count; i++)
		write_field(w, &l->fields[i], (const char *)row + l->fields[i].offset);
	return (struct slice){ w->b, w->len };
}

void row_put(struct kv_txn *t, enum table table, const struct key *key, enum row_type type,
	     const void *row)
{
	struct writer w = { .len = 0 };

	kv_put(t, table, key_slice(key), encode(&w, type, row));
}

void row_add(struct kv_txn *t, enum table table, const struct key *key, enum row_type type,
	     const void *row)
{
	struct writer w = { .len = 0 };

	kv_add(t, table, key_slice(key), encode(&w, type, row));
}

bool row_decode(struct kv_txn *t, struct slice val, enum row_type type, void *row)
{
	const struct layout *l = &layouts[type];
	struct reader r = { val.data, val.data + val.len, false };

	memset(row, 0, l->row_bytes);
	if (*read_bytes(&r, 1) != l->version)
		r.bad = true;
	for (size_t i = 0; i < l->count && !r.bad; i++)
		read_field(&r, &l->fields[i], (char *)row + l->fields[i].offset);
	if (r.bad || r.at != r.end) {
		kv_fail(t, E_CORRUPT);
		return false;
	}
	return true;
}

bool row_get(struct kv_txn *t, enum table table, const struct key *key, enum row_type type, void *row)
{
	struct slice val;

	return kv_get(t, table, key_slice(key), &val) && row_decode(t, val, type, row);
}

void mark_put(struct kv_txn *t, enum table table, const struct key *key)
{
	kv_put(t, table, key_slice(key), (struct slice){ (const uint8_t *)"", 0 });
}

bool mark_has(struct kv_txn *t, enum table table, const struct key *key)
{
	struct slice val;

	return kv_get(t, table, key_slice(key), &val);
}

void key_del(struct kv_txn *t, enum table table, const struct key *key)
{
	kv_del(t, table, key_slice(key));
}

bool number_get(struct kv_txn *t, enum table table, const struct key *key, uint64_t *out)
{
	struct slice val;

	if (!kv_get(t, table, key_slice(key), &val))
		return false;
	if (val.len != 8) {
		kv_fail(t, E_CORRUPT);
		return false;
	}
	*out = be64_get(val.data);
	return true;
}

void number_put(struct kv_txn *t, enum table table, const struct key *key, uint64_t v)
{
	uint8_t b[8];

	be64_put(b, v);
	kv_put(t, table, key_slice(key), (struct slice){ b, sizeof(b) });
}

uint64_t number_next(struct kv_txn *t, const char *name)
{
	struct key key = key_meta(name);
	uint64_t v = 0;

	number_get(t, T_META, &key, &v);
	number_put(t, T_META, &key, v + 1);
	return v + 1;
}
