#include "store/sightings.h"

#include <string.h>

void sighting_put(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s)
{
	struct key key = key_sighting(at);

	row_put(t, T_SIGHTING, &key, ROW_SIGHTING, s);
}

bool sighting_waits(const struct sighting_row *s)
{
	return s->witness == WITNESS_PENDING || s->witness == WITNESS_DOUBTED;
}

void sighting_add(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		  uint8_t tier)
{
	struct key of = key_sighting_of(at), pending = key_pending(at, sighting_waits(s) ? TIER_WAITS : tier);

	sighting_put(t, at, s);
	if (at->row)
		mark_put(t, T_SIGHTING_OF, &of);
	mark_put(t, T_PENDING, &pending);
}

bool sighting_get(struct kv_txn *t, const struct sighting_at *at, struct sighting_row *out)
{
	struct key key = key_sighting(at);

	return row_get(t, T_SIGHTING, &key, ROW_SIGHTING, out);
}

void sighting_del(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count)
{
	struct key key = key_sighting(at), of = key_sighting_of(at);

	key_del(t, T_SIGHTING, &key);
	if (at->row)
		key_del(t, T_SIGHTING_OF, &of);
	pending_end(t, at, tier_count);
}

/* The place that a key's fields name, from its height on; the row last unless it stood first. */
static void read_place(const uint8_t *b, struct sighting_at *at)
{
	at->height = be64_get(b);
	at->tx_index = be32_get(b + 8);
	at->ordinal = be32_get(b + 12);
}

static bool next_with_prefix(struct kv_txn *t, struct sighting_at *at, size_t prefix,
			     struct sighting_row *out)
{
	struct key from = key_sighting(at);
	struct kv_cursor c;

	if (!kv_seek(t, T_SIGHTING, key_slice(&from), prefix, &c))
		return false;
	read_place(c.key + 8, at);
	at->row = be64_get(c.key + 24);
	return row_decode(t, c.val, ROW_SIGHTING, out);
}

bool sighting_next_in_block(struct kv_txn *t, struct sighting_at *at, struct sighting_row *out)
{
	return next_with_prefix(t, at, 8 + 8, out);
}

bool sighting_next_in_tx(struct kv_txn *t, struct sighting_at *at, struct sighting_row *out)
{
	return next_with_prefix(t, at, 8 + 8 + 4, out);
}

void sighting_step(struct sighting_at *at)
{
	at->row++;
}

bool sighting_of(struct kv_txn *t, uint64_t chain, uint64_t row, const struct hash32 *tx_hash,
		 struct sighting_at *at, struct sighting_row *out)
{
	struct sighting_at start = { .chain = chain, .row = row };
	struct key from = key_sighting_of(&start);
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_SIGHTING_OF, key_slice(&from), 16, &c); more; more = kv_next(&c)) {
		*at = start;
		read_place(c.key + 16, at);
		if (!sighting_get(t, at, out)) {
			kv_fail(t, E_CORRUPT);
			return false;
		}
		if (!tx_hash || hash_eq(&out->tx_hash, tx_hash))
			return true;
	}
	return false;
}

bool pending_next(struct kv_txn *t, uint8_t tier, struct sighting_at *at)
{
	struct key from = key_pending(at, tier);
	struct kv_cursor c;

	if (!kv_seek(t, T_PENDING, key_slice(&from), 9, &c))
		return false;
	read_place(c.key + 9, at);
	at->row = be64_get(c.key + 25);
	return true;
}

bool pending_first(struct kv_txn *t, uint64_t chain, uint8_t tier, struct sighting_at *at)
{
	struct sighting_at first = { .chain = chain };

	if (!pending_next(t, tier, &first))
		return false;
	*at = first;
	return true;
}

/* The n'th place in which a pending one may stand. */
static struct key nth_pending(const struct sighting_at *at, unsigned n, unsigned tier_count)
{
	return key_pending(at, n < tier_count ? (uint8_t)n : TIER_WAITS);
}

bool pending_has(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count)
{
	bool has = false;

	for (unsigned n = 0; n <= tier_count; n++) {
		struct key key = nth_pending(at, n, tier_count);

		has |= mark_has(t, T_PENDING, &key);
	}
	return has;
}

void pending_end(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count)
{
	for (unsigned n = 0; n <= tier_count; n++) {
		struct key key = nth_pending(at, n, tier_count);

		if (mark_has(t, T_PENDING, &key))
			key_del(t, T_PENDING, &key);
	}
}

void pending_del(struct kv_txn *t, const struct sighting_at *at, uint8_t tier)
{
	struct key key = key_pending(at, tier);

	key_del(t, T_PENDING, &key);
}

void pending_move(struct kv_txn *t, const struct sighting_at *at, uint8_t from, uint8_t to)
{
	struct key key = key_pending(at, to);

	pending_del(t, at, from);
	mark_put(t, T_PENDING, &key);
}
