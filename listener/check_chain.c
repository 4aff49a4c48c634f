#include "listener/check_parts.h"

#include "listener/match.h"
#include "store/outbox.h"
#include "store/sightings.h"

#include <string.h>

#define ULL(v) ((unsigned long long)(v))

/* Blocks. */

static bool lowest_kept(struct check *c, uint64_t chain, uint64_t *height)
{
	struct check_walk w = { .table = T_BLOCK, .prefix = key_u64(chain) };

	if (!check_next(c, &w, NULL))
		return false;
	*height = be64_get(w.at.key + 8);
	return true;
}

bool check_on_chain(struct check *c, uint64_t chain, uint64_t height, const struct hash32 *hash)
{
	struct key key = key_block(chain, height);
	struct block_row b;
	uint64_t lowest;

	if (check_get(c, T_BLOCK, &key, &b))
		return hash_eq(&b.hash, hash);
	return lowest_kept(c, chain, &lowest) && height < lowest;
}

static void check_links(struct check *c, uint64_t chain, const struct chain_row *row)
{
	struct check_walk w = { .table = T_BLOCK, .prefix = key_u64(chain) };
	struct block_row b, below = { .tx_count = 0 };
	uint64_t last = 0;

	for (bool first = true; check_next(c, &w, &b); first = false, below = b) {
		uint64_t height = be64_get(w.at.key + 8);

		if (!first && height != last + 1)
			check_fault(c, "chain %llu: block %llu is missing", ULL(chain), ULL(last) + 1);
		else if (!first && !hash_eq(&b.parent, &below.hash))
			check_fault(c, "chain %llu: block %llu does not have the one below as its parent", ULL(chain),
				    ULL(height));
		last = height;
	}
	if (row->has_tip && (last != row->tip_height || !hash_eq(&below.hash, &row->tip_hash)))
		check_fault(c, "chain %llu: the tip is not the top block (%llu and %llu, or another hash)", ULL(chain),
			    ULL(row->tip_height), ULL(last));
}

static void check_watermarks(struct check *c, uint64_t chain, const struct chain_row *row)
{
	for (unsigned tier = 0; tier < TIERS_MAX; tier++) {
		const struct watermark_row *m = &row->marks[tier];

		if (m->known && (m->height > row->tip_height || !check_on_chain(c, chain, m->height, &m->hash)))
			check_fault(c, "chain %llu: watermark %u at %llu is no block of ours", ULL(chain), tier,
				    ULL(m->height));
	}
}

static uint32_t chunk_bytes(uint32_t tx_count, uint32_t chunk)
{
	uint64_t from = (uint64_t)chunk * BLOCK_TX_CHUNK;

	if (from >= tx_count)
		return 0;
	return 8 * (tx_count - from < BLOCK_TX_CHUNK ? (uint32_t)(tx_count - from) : BLOCK_TX_CHUNK);
}

/* Prefixes go before their block does, but a prune stops in the middle of either. */
static void check_prefixes(struct check *c)
{
	struct check_walk w = { .table = T_BLOCK_TX };
	struct slice prefixes;
	struct block_row b;

	while (check_next(c, &w, &prefixes)) {
		uint64_t chain = be64_get(w.at.key), height = be64_get(w.at.key + 8);
		struct key key = key_block(chain, height);
		uint64_t lowest;

		if (check_get(c, T_BLOCK, &key, &b)) {
			if (prefixes.len != chunk_bytes(b.tx_count, be32_get(w.at.key + 16)))
				check_fault(c, "chain %llu: block %llu has %u transactions, block_tx other ones", ULL(chain),
					    ULL(height), b.tx_count);
		} else if (!lowest_kept(c, chain, &lowest) || height > lowest) {
			check_fault(c, "chain %llu: block_tx has block %llu, which is not there", ULL(chain), ULL(height));
		}
	}
}

static void check_strays(struct check *c)
{
	struct check_walk w = { .table = T_BLOCK };
	uint64_t last = 0;

	while (check_next(c, &w, NULL)) {
		uint64_t chain = be64_get(w.at.key);
		struct key key = key_chain(chain);

		if (chain != last && !check_has(c, T_CHAIN, &key))
			check_fault(c, "chain %llu: blocks, but no row of the chain", ULL(chain));
		last = chain;
	}
}

void check_blocks(struct check *c)
{
	struct check_walk w = { .table = T_CHAIN };
	struct chain_row row;

	while (check_next(c, &w, &row)) {
		uint64_t chain = be64_get(w.at.key);

		check_links(c, chain, &row);
		check_watermarks(c, chain, &row);
	}
	check_prefixes(c);
	check_strays(c);
}

/* Transfers and claims. */

#define PLACE 160
static const char *name_payment(const char *what, const struct hash32 *tx_hash, uint32_t ordinal, char out[PLACE])
{
	char text[HASH_TEXT];

	snprintf(out, PLACE, "%s %s log %u", what, hash_format(tx_hash, text), ordinal);
	return out;
}

static void check_owner(struct check *c, uint64_t chain, const struct transfer_row *tr, const char *name)
{
	struct key key = key_claim(chain, &tr->tx_hash, tr->ordinal);
	char owner[CHECK_NAME];
	struct claim_row claim;
	struct intent i;

	check_name(c, tr->owner, owner);
	if (tr->owner_kind > OWNER_HOLD || !check_intent(c, tr->owner, &i))
		check_fault(c, "%s: belongs to %s in no known way", name, owner);
	else if (i.chain_id != chain || !address_eq(&i.token, &tr->token) || !address_eq(&i.payee, &tr->to))
		check_fault(c, "%s: belongs to %s, which has another token or payee", name, owner);
	if (!check_get(c, T_CLAIM, &key, &claim))
		check_fault(c, "%s: belongs to %s, but there is no claim", name, owner);
	else if (claim.kind != tr->owner_kind || claim.row != tr->owner || claim.height != tr->height ||
		 !hash_eq(&claim.block_hash, &tr->block_hash) || claim.tx_index != tr->tx_index)
		check_fault(c, "%s: belongs to %s, but its claim says otherwise", name, owner);
}

static void check_transfer(struct check *c, const struct kv_cursor *at, const struct transfer_row *tr)
{
	uint64_t chain = be64_get(at->key);
	struct key key = key_transfer(chain, tr->height, &tr->block_hash, tr->tx_index, tr->ordinal);
	char name[PLACE], owner[CHECK_NAME];

	name_payment("transfer", &tr->tx_hash, tr->ordinal, name);
	if (memcmp(at->key, key.b, key.len) != 0)
		check_fault(c, "%s: stands under the key of another", name);
	else if (!tr->orphaned && !check_on_chain(c, chain, tr->height, &tr->block_hash))
		check_fault(c, "%s: its block %llu is not on our chain", name, ULL(tr->height));
	else if (tr->orphaned && tr->owner_kind != OWNER_NONE)
		check_fault(c, "%s: orphaned, but belongs to %s", name, check_name(c, tr->owner, owner));
	else if (tr->owner_kind != OWNER_NONE)
		check_owner(c, chain, tr, name);
}

/* The transfer's owner was looked at from its side. */
static void check_claim(struct check *c, const struct kv_cursor *at, const struct claim_row *claim)
{
	uint64_t chain = be64_get(at->key);
	uint32_t ordinal = be32_get(at->key + 40);
	struct key key = key_transfer(chain, claim->height, &claim->block_hash, claim->tx_index, ordinal);
	struct transfer_row tr;
	struct hash32 tx_hash;
	char name[PLACE];

	memcpy(tx_hash.b, at->key + 8, sizeof(tx_hash.b));
	name_payment("claim", &tx_hash, ordinal, name);
	if (!check_get(c, T_TRANSFER, &key, &tr) || !hash_eq(&tr.tx_hash, &tx_hash))
		check_fault(c, "%s: no such transfer in block %llu", name, ULL(claim->height));
	else if (tr.owner_kind == OWNER_NONE)
		check_fault(c, "%s: its transfer %s", name, tr.orphaned ? "is orphaned" : "belongs to nobody");
}

void check_transfers(struct check *c)
{
	struct check_walk transfers = { .table = T_TRANSFER }, claims = { .table = T_CLAIM };
	struct transfer_row tr;
	struct claim_row claim;

	while (check_next(c, &transfers, &tr))
		check_transfer(c, &transfers.at, &tr);
	while (check_next(c, &claims, &claim))
		check_claim(c, &claims.at, &claim);
}

/* Sightings. */

static struct sighting_at place_of(const uint8_t *height, uint64_t chain, uint64_t row)
{
	return (struct sighting_at){ chain, be64_get(height), be32_get(height + 8), be32_get(height + 12), row };
}

static const char *name_sighting(struct check *c, const char *what, const struct sighting_at *at, char out[PLACE])
{
	char name[CHECK_NAME] = "nobody";

	if (at->row)
		check_name(c, at->row, name);
	snprintf(out, PLACE, "%s %llu.%u.%u of %s", what, ULL(at->height), at->tx_index, at->ordinal, name);
	return out;
}

/* Not pending: its tier's watermark must have been at or above it. */
static bool may_be_final(struct check *c, const struct sighting_at *at)
{
	struct key key = key_chain(at->chain);
	struct chain_row row;
	bool may = false;

	if (!check_get(c, T_CHAIN, &key, &row))
		return false;
	for (unsigned tier = 0; tier < TIERS_MAX; tier++)
		may |= row.marks[tier].known && at->height <= row.marks[tier].height;
	return may;
}

static bool is_pending(struct check *c, const struct sighting_at *at, uint8_t tier)
{
	struct key key = key_pending(at, tier);

	return check_has(c, T_PENDING, &key);
}

static unsigned count_pending(struct check *c, const struct sighting_at *at)
{
	unsigned count = is_pending(c, at, TIER_WAITS);

	for (unsigned tier = 0; tier < TIERS_MAX; tier++)
		count += is_pending(c, at, (uint8_t)tier);
	return count;
}

/* The balance, and what follows from it: one that is still to be read holds its sighting back. */
static void check_witness(struct check *c, const struct sighting_at *at, const struct sighting_row *s, const char *name)
{
	bool waits = sighting_waits(s), mismatch = s->verdict == VERDICT_BALANCE_MISMATCH;

	if (s->witness >= WITNESS_STATES)
		check_fault(c, "%s: no known witness", name);
	else if (waits != is_pending(c, at, TIER_WAITS))
		check_fault(c, "%s: its balance is \"%s\", but it %s for it", name, witness_name((enum witness_state)s->witness),
			    waits ? "does not wait" : "waits");
	else if (s->verdict == VERDICT_PAID ? s->witness == WITNESS_DISAGREES : mismatch && s->witness != WITNESS_DISAGREES)
		check_fault(c, "%s: %s, but its balance is \"%s\"", name, verdict_name((enum verdict)s->verdict),
			    witness_name((enum witness_state)s->witness));
}

static void check_seen_intent(struct check *c, const struct sighting_at *at, const struct sighting_row *s,
			      const char *name)
{
	struct key of = key_sighting_of(at);
	struct intent i;

	if (!check_has(c, T_SIGHTING_OF, &of))
		check_fault(c, "%s: sighting_of does not have it", name);
	if (!check_intent(c, at->row, &i) || i.chain_id != at->chain)
		check_fault(c, "%s: no such intent on chain %llu", name, ULL(at->chain));
	else if (!check_is_attempt(c, at->row, &s->tx_hash))
		check_fault(c, "%s: its transaction is no attempt of the intent", name);
}

static void check_sighting(struct check *c, const struct sighting_at *at, const struct sighting_row *s)
{
	unsigned pending = count_pending(c, at);
	char name[PLACE];

	name_sighting(c, "sighting", at, name);
	if (s->verdict >= VERDICTS)
		check_fault(c, "%s: no known verdict", name);
	check_witness(c, at, s, name);
	if (!check_on_chain(c, at->chain, at->height, &s->block_hash))
		check_fault(c, "%s: its block is not on our chain", name);
	if (pending > 1)
		check_fault(c, "%s: pending under more than one tier", name);
	if (pending == 0 && !may_be_final(c, at))
		check_fault(c, "%s: above every watermark, but not pending", name);
	if (at->row)
		check_seen_intent(c, at, s, name);
}

static void check_sighting_index(struct check *c, enum table table)
{
	struct check_walk w = { .table = table };
	struct sighting_at at;
	char name[PLACE];
	struct key key;

	while (check_next(c, &w, NULL)) {
		const uint8_t *k = w.at.key;

		at = table == T_PENDING ? place_of(k + 9, be64_get(k), be64_get(k + 25))
					: place_of(k + 16, be64_get(k + 8), be64_get(k));
		key = key_sighting(&at);
		if (!check_has(c, T_SIGHTING, &key))
			check_fault(c, "%s: no such sighting", name_sighting(c, schema_table_names[table], &at, name));
		else if (table == T_PENDING && k[8] >= TIERS_MAX && k[8] != TIER_WAITS)
			check_fault(c, "%s: under tier %u", name_sighting(c, "pending", &at, name), k[8]);
	}
}

void check_sightings(struct check *c)
{
	struct check_walk w = { .table = T_SIGHTING };
	struct sighting_row s;

	while (check_next(c, &w, &s)) {
		struct sighting_at at = place_of(w.at.key + 8, be64_get(w.at.key), be64_get(w.at.key + 24));

		check_sighting(c, &at, &s);
	}
	check_sighting_index(c, T_SIGHTING_OF);
	check_sighting_index(c, T_PENDING);
}
