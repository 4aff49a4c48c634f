/*
 * check_parts - what the parts of "tidemark check" share.
 *
 * Each part walks some tables and says what does not agree; none writes.  A row
 * that cannot be read is one fault, said once, and is left out of all else.
 */
#ifndef LISTENER_CHECK_PARTS_H
#define LISTENER_CHECK_PARTS_H

#include "store/schema.h"

#include <stdio.h>

struct check {
	struct kv_txn *t;	/* a read transaction */
	FILE *out;
	uint64_t faults;
};

/* One line on the output, and counted. */
void check_fault(struct check *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The rows of @table that are sound and whose key begins with @prefix; the rest all zero to begin. */
struct check_walk {
	enum table table;
	struct key prefix;
	bool begun;
	struct kv_cursor at;	/* the row's key */
};

/*
 * The next row, its value in *@row: the struct of the table's row type, a uint64_t for a number, a
 * struct slice for bytes; NULL for a mark, or where the value is not wanted.
 */
bool check_next(struct check *c, struct check_walk *w, void *row);
/* The row under the key; false if it is absent or not sound. */
bool check_get(struct check *c, enum table table, const struct key *key, void *row);
bool check_has(struct check *c, enum table table, const struct key *key);
bool check_intent(struct check *c, uint64_t row, struct intent *out);

/* "intent pi_1", or "row 5, which is no intent" */
#define CHECK_NAME 96
const char *check_name(struct check *c, uint64_t row, char out[CHECK_NAME]);

/* Whether one of the intent's attempts has the hash. */
bool check_is_attempt(struct check *c, uint64_t row, const struct hash32 *tx_hash);

/* Keys and values as such. */
void check_shapes(struct check *c);
/* Intents, with their indexes, attempts, history, ledger and claims. */
void check_intents(struct check *c);
void check_history(struct check *c, const struct intent *i);
void check_ledger(struct check *c, const struct intent *i);
/* Rows of indexes that name an intent. */
void check_indexes(struct check *c);
/* Blocks, watermarks, transaction prefixes. */
void check_blocks(struct check *c);
/* False if another block, or none, stands at the height; true below the blocks that are kept. */
bool check_on_chain(struct check *c, uint64_t chain, uint64_t height, const struct hash32 *hash);
/* Transfers, claims, sightings, pending. */
void check_transfers(struct check *c);
void check_sightings(struct check *c);
/* Events. */
void check_events(struct check *c);

#endif
