/*
 * sightings - attempts of intents in blocks of ours, and loose transfers to the
 * payees of routes: what may become final.
 *
 * A sighting lives as long as its block is on our chain; it is pending, under
 * the tier that decides, until it was final once.  One whose balance is still to be
 * read is pending under no tier but TIER_WAITS, so that it cannot become final.
 *
 * All calls are inside a transaction (kv.h) and carry its error.
 */
#ifndef STORE_SIGHTINGS_H
#define STORE_SIGHTINGS_H

#include "store/schema.h"

/* Whether its balance is still to be read. */
bool sighting_waits(const struct sighting_row *s);
/* Add a sighting, pending under @tier, or waiting. */
void sighting_add(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		  uint8_t tier);
void sighting_put(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s);
bool sighting_get(struct kv_txn *t, const struct sighting_at *at, struct sighting_row *out);
/* Remove it, pending or not (@tier_count tiers are looked through, and TIER_WAITS). */
void sighting_del(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count);

/* The next sighting at or after *@at in the same block; moves *@at there.  To begin: index, ordinal and row 0. */
bool sighting_next_in_block(struct kv_txn *t, struct sighting_at *at, struct sighting_row *out);
/* The same within one transaction. */
bool sighting_next_in_tx(struct kv_txn *t, struct sighting_at *at, struct sighting_row *out);
/* Step past it: the smallest place after @at. */
void sighting_step(struct sighting_at *at);

/* The intent's sighting of @tx_hash; NULL: its first, by height. */
bool sighting_of(struct kv_txn *t, uint64_t chain, uint64_t row, const struct hash32 *tx_hash,
		 struct sighting_at *at, struct sighting_row *out);

/* The first pending place of the tier. */
bool pending_first(struct kv_txn *t, uint64_t chain, uint8_t tier, struct sighting_at *at);
/* The next one at or after *@at, as above. */
bool pending_next(struct kv_txn *t, uint8_t tier, struct sighting_at *at);
/* Whether it is pending under any of the tiers, or waits; and an end to that. */
bool pending_has(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count);
void pending_end(struct kv_txn *t, const struct sighting_at *at, unsigned tier_count);
void pending_del(struct kv_txn *t, const struct sighting_at *at, uint8_t tier);
void pending_move(struct kv_txn *t, const struct sighting_at *at, uint8_t from, uint8_t to);

#endif
