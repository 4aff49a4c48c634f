#include "listener/check.h"

#include "listener/check_parts.h"
#include "store/store.h"

#include <stdarg.h>
#include <string.h>

void check_fault(struct check *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(c->out, fmt, args);
	va_end(args);
	fputc('\n', c->out);
	c->faults++;
}

/* What the keys and values of a table look like. */

enum value_kind {
	VALUE_MARK,		/* empty */
	VALUE_NUMBER,
	VALUE_ROW,
	VALUE_BYTES,
};

struct shape {
	uint8_t key_len;	/* 0: text */
	uint8_t kind;
	uint8_t type;		/* of a row */
};

static const struct shape shapes[TABLES] = {
	[T_META] = { 0, VALUE_NUMBER, 0 },
	[T_CHAIN] = { 8, VALUE_ROW, ROW_CHAIN },
	[T_BLOCK] = { 16, VALUE_ROW, ROW_BLOCK },
	[T_BLOCK_TX] = { 20, VALUE_BYTES, 0 },
	[T_ORPHAN] = { 48, VALUE_ROW, ROW_BLOCK },
	[T_ORPHAN_TX] = { 52, VALUE_BYTES, 0 },
	[T_TRANSFER] = { 56, VALUE_ROW, ROW_TRANSFER },
	[T_CLAIM] = { 44, VALUE_ROW, ROW_CLAIM },
	[T_SIGHTING] = { 32, VALUE_ROW, ROW_SIGHTING },
	[T_SIGHTING_OF] = { 32, VALUE_MARK, 0 },
	[T_PENDING] = { 33, VALUE_MARK, 0 },
	[T_INTENT] = { 8, VALUE_ROW, ROW_INTENT },
	[T_INTENT_ID] = { 0, VALUE_NUMBER, 0 },
	[T_INTENT_KEY] = { 0, VALUE_NUMBER, 0 },
	[T_HISTORY] = { 16, VALUE_ROW, ROW_HISTORY },
	[T_ATTEMPT] = { 12, VALUE_ROW, ROW_ATTEMPT },
	[T_TX] = { 48, VALUE_NUMBER, 0 },
	[T_ROUTE] = { 108, VALUE_MARK, 0 },
	[T_STATE] = { 17, VALUE_MARK, 0 },
	[T_DEADLINE] = { 25, VALUE_MARK, 0 },
	[T_LOOKUP] = { 16, VALUE_MARK, 0 },
	[T_EVENT] = { 8, VALUE_BYTES, 0 },
	[T_CURSOR] = { 0, VALUE_NUMBER, 0 },
	[T_LEDGER] = { 12, VALUE_ROW, ROW_LEDGER },
};

/* The largest struct that a row becomes. */
union any_row {
	struct chain_row chain;
	struct block_row block;
	struct transfer_row transfer;
	struct claim_row claim;
	struct sighting_row sighting;
	struct intent intent;
	struct history_row history;
	struct attempt_row attempt;
	struct ledger_row ledger;
};

/* Numbers that index a table of names. */
static bool enums_hold(enum table table, const void *row)
{
	const struct history_row *h = row;
	const struct intent *i = row;

	if (table == T_INTENT)
		return i->state < INTENT_STATES && i->watch <= WATCH_ROUTE;
	if (table == T_HISTORY)
		return h->from < INTENT_STATES && h->to < INTENT_STATES && h->actor < ACTORS;
	return true;
}

/* The decoder fails the transaction that it is given: not ours, which goes on. */
static bool decode_row(enum table table, struct slice val, void *out)
{
	struct kv_txn scratch = { .err = OK };
	union any_row any;
	void *row = out ? out : &any;

	return row_decode(&scratch, val, (enum row_type)shapes[table].type, row) && enums_hold(table, row);
}

static bool decode(enum table table, struct slice val, void *out)
{
	switch ((enum value_kind)shapes[table].kind) {
	case VALUE_MARK:
		return val.len == 0;
	case VALUE_NUMBER:
		if (val.len == 8 && out)
			*(uint64_t *)out = be64_get(val.data);
		return val.len == 8;
	case VALUE_ROW:
		return decode_row(table, val, out);
	case VALUE_BYTES:
		if (out)
			*(struct slice *)out = val;
		return true;
	}
	return false;
}

static bool key_fits(enum table table, size_t len)
{
	return shapes[table].key_len == 0 || shapes[table].key_len == len;
}

bool check_next(struct check *c, struct check_walk *w, void *row)
{
	bool more;

	do {
		more = w->begun ? kv_next(&w->at)
				: kv_seek(c->t, w->table, key_slice(&w->prefix), w->prefix.len, &w->at);
		w->begun = true;
		if (more && key_fits(w->table, w->at.key_len) && decode(w->table, w->at.val, row))
			return true;
	} while (more);
	return false;
}

/* An empty key, of an intent that lost its id, would fail the transaction. */
static bool find(struct check *c, enum table table, const struct key *key, struct slice *val)
{
	return key->len && kv_get(c->t, table, key_slice(key), val);
}

bool check_get(struct check *c, enum table table, const struct key *key, void *row)
{
	struct slice val;

	return find(c, table, key, &val) && decode(table, val, row);
}

bool check_has(struct check *c, enum table table, const struct key *key)
{
	struct slice val;

	return find(c, table, key, &val);
}

bool check_intent(struct check *c, uint64_t row, struct intent *out)
{
	struct key key = key_u64(row);

	if (!check_get(c, T_INTENT, &key, out))
		return false;
	out->row = row;
	return true;
}

const char *check_name(struct check *c, uint64_t row, char out[CHECK_NAME])
{
	struct intent i;

	if (check_intent(c, row, &i))
		snprintf(out, CHECK_NAME, "intent %s", i.id);
	else
		snprintf(out, CHECK_NAME, "row %llu, which is no intent", (unsigned long long)row);
	return out;
}

bool check_is_attempt(struct check *c, uint64_t row, const struct hash32 *tx_hash)
{
	struct check_walk w = { .table = T_ATTEMPT, .prefix = key_u64(row) };
	struct attempt_row a;

	while (check_next(c, &w, &a)) {
		if (hash_eq(&a.tx_hash, tx_hash))
			return true;
	}
	return false;
}

static void check_shape(struct check *c, enum table table, const struct kv_cursor *at)
{
	char hex[2 * KV_KEY_MAX + 1];

	hex_encode(at->key, at->key_len, hex);
	hex[2 * at->key_len] = '\0';
	if (!key_fits(table, at->key_len))
		check_fault(c, "%s 0x%s: a key of %zu bytes, want %u", schema_table_names[table], hex, at->key_len,
			    shapes[table].key_len);
	else if (!decode(table, at->val, NULL))
		check_fault(c, "%s 0x%s: the value cannot be read", schema_table_names[table], hex);
}

void check_shapes(struct check *c)
{
	static const struct slice first;
	struct kv_cursor at;

	for (enum table table = 0; table < TABLES; table++) {
		for (bool more = kv_seek(c->t, table, first, 0, &at); more; more = kv_next(&at))
			check_shape(c, table, &at);
	}
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void print_figures(struct check *c)
{
	unsigned long long intents = kv_count(c->t, T_INTENT), events = kv_count(c->t, T_EVENT);
	unsigned long long blocks = kv_count(c->t, T_BLOCK), faults = c->faults;

	fprintf(c->out, "%llu intent%s, %llu event%s, %llu block%s: ", intents, plural(intents), events,
		plural(events), blocks, plural(blocks));
	if (faults)
		fprintf(c->out, "%llu fault%s\n", faults, plural(faults));
	else
		fputs("no faults\n", c->out);
}

static void check_all(struct check *c)
{
	check_shapes(c);
	check_intents(c);
	check_indexes(c);
	check_blocks(c);
	check_transfers(c);
	check_sightings(c);
	check_events(c);
}

enum err check_store(const char *dir, FILE *out, struct complaint *why)
{
	struct store_options options = { .read_only = true };
	struct check c = { .out = out };
	struct kv_txn t;
	struct kv *kv;
	enum err err = store_open(dir, &options, &kv, why);

	if (err)
		return err;
	t = kv_begin_read(kv);
	c.t = &t;
	check_all(&c);
	if (t.err == OK)
		print_figures(&c);
	err = kv_end_read(&t);
	kv_close(kv);
	if (err)
		return complain(why, err, "%s: cannot be read to its end: %s", dir, err_name(err));
	return c.faults ? complain(why, E_CORRUPT, "%s: %llu faults", dir, (unsigned long long)c.faults) : OK;
}
