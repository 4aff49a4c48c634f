#include "listener/check_parts.h"

#include <string.h>

static bool same_key(const struct kv_cursor *at, const struct key *key)
{
	return at->key_len == key->len && memcmp(at->key, key->b, key->len) == 0;
}

/* Names. */

static void check_ids(struct check *c)
{
	struct check_walk w = { .table = T_INTENT_ID };
	char name[CHECK_NAME];
	struct intent i;
	struct key key;
	uint64_t row;

	while (check_next(c, &w, &row)) {
		if (check_intent(c, row, &i)) {
			key = key_intent_id(i.id);
			if (same_key(&w.at, &key))
				continue;
		}
		check_fault(c, "intent_id %.*s: names %s", (int)w.at.key_len, (const char *)w.at.key,
			    check_name(c, row, name));
	}
}

static void check_merchant_keys(struct check *c)
{
	struct check_walk w = { .table = T_INTENT_KEY };
	char name[CHECK_NAME];
	struct intent i;
	struct key key;
	uint64_t row;

	while (check_next(c, &w, &row)) {
		const char *text = (const char *)w.at.key;
		int merchant = (int)strnlen(text, w.at.key_len), rest = (int)w.at.key_len - merchant - 1;

		if (check_intent(c, row, &i)) {
			key = key_intent_key(i.merchant_id, i.idempotency_key);
			if (same_key(&w.at, &key))
				continue;
		}
		check_fault(c, "intent_key %.*s %.*s: names %s", merchant, text, rest > 0 ? rest : 0,
			    rest > 0 ? text + merchant + 1 : "", check_name(c, row, name));
	}
}

/* Marks whose key ends with the intent's row. */

/* The key that the intent has in the index now; false: it does not stand there. */
typedef bool key_of_fn(const struct intent *i, const struct kv_cursor *at, struct key *out);

static bool state_key(const struct intent *i, const struct kv_cursor *at, struct key *out)
{
	(void)at;
	*out = key_state(i->state, i->entered_at_ms, i->row);
	return true;
}

static bool route_key(const struct intent *i, const struct kv_cursor *at, struct key *out)
{
	(void)at;
	*out = key_route(i);
	return i->watch == WATCH_ROUTE && !intent_state_is_terminal(i->state);
}

static bool deadline_key(const struct intent *i, const struct kv_cursor *at, struct key *out)
{
	if (at->key[8] == DEADLINE_MISSING) {
		*out = key_deadline(i->chain_id, DEADLINE_MISSING, i->missing_from_ms, i->row);
		return i->state == INTENT_CONFIRMING;
	}
	*out = key_deadline(i->chain_id, DEADLINE_OVERDUE, i->expires_at_ms, i->row);
	return i->state == INTENT_SETTLING && i->watch == WATCH_ROUTE && i->has_expiry && !i->overdue_said;
}

static bool lookup_key(const struct intent *i, const struct kv_cursor *at, struct key *out)
{
	(void)at;
	*out = key_lookup(i->chain_id, i->row);
	return true;
}

static void check_mark(struct check *c, enum table table, const struct kv_cursor *at, key_of_fn *key_of)
{
	uint64_t row = be64_get(at->key + at->key_len - 8);
	char name[CHECK_NAME];
	struct intent i;
	struct key key;

	if (!check_intent(c, row, &i))
		check_fault(c, "%s: names %s", schema_table_names[table], check_name(c, row, name));
	else if (!key_of(&i, at, &key) || !same_key(at, &key))
		check_fault(c, "intent %s: %s has a row for it that it should not", i.id, schema_table_names[table]);
}

static void check_mark_tables(struct check *c)
{
	static const struct {
		enum table table;
		key_of_fn *key_of;
	} tables[] = {
		{ T_STATE, state_key },
		{ T_ROUTE, route_key },
		{ T_DEADLINE, deadline_key },
		{ T_LOOKUP, lookup_key },
	};

	for (size_t k = 0; k < ARRAY_SIZE(tables); k++) {
		struct check_walk w = { .table = tables[k].table };

		while (check_next(c, &w, NULL))
			check_mark(c, tables[k].table, &w.at, tables[k].key_of);
	}
}

/* Transactions. */

static bool has_attempt_at(struct check *c, uint64_t row, const uint8_t *tx_hash, uint64_t order)
{
	struct check_walk w = { .table = T_ATTEMPT, .prefix = key_u64(row) };
	struct attempt_row a;

	while (check_next(c, &w, &a)) {
		if (a.order == order && memcmp(a.tx_hash.b, tx_hash, sizeof(a.tx_hash.b)) == 0)
			return true;
	}
	return false;
}

static void check_txs(struct check *c)
{
	struct check_walk w = { .table = T_TX };
	char name[CHECK_NAME], text[HASH_TEXT];
	struct hash32 hash;
	struct intent i;
	uint64_t row;

	while (check_next(c, &w, &row)) {
		if (check_intent(c, row, &i) && i.chain_id == be64_get(w.at.key) &&
		    has_attempt_at(c, row, w.at.key + 8, be64_get(w.at.key + 40)))
			continue;
		memcpy(hash.b, w.at.key + 8, sizeof(hash.b));
		check_fault(c, "tx %s: names %s, which has no such attempt", hash_format(&hash, text),
			    check_name(c, row, name));
	}
}

/* Rows that belong to an intent and have none. */
static void check_owned(struct check *c, enum table table)
{
	struct check_walk w = { .table = table };
	char name[CHECK_NAME];
	uint64_t last = 0;
	struct intent i;

	while (check_next(c, &w, NULL)) {
		uint64_t row = be64_get(w.at.key);

		if (row != last && !check_intent(c, row, &i))
			check_fault(c, "%s: a row of %s", schema_table_names[table], check_name(c, row, name));
		last = row;
	}
}

void check_indexes(struct check *c)
{
	check_ids(c);
	check_merchant_keys(c);
	check_mark_tables(c);
	check_txs(c);
	check_owned(c, T_HISTORY);
	check_owned(c, T_ATTEMPT);
	check_owned(c, T_LEDGER);
}
