/*
 * schema - every table of the store: its key, its value, an example.
 *
 * Keys are fixed-size fields, integers big-endian, so byte order is the order
 * that a walk wants.  A value is a version byte and then the fields of its
 * struct in the order of its list in schema.c: integers big-endian, hashes and
 * addresses raw, amounts 32 bytes, a text as its length in one byte and its
 * bytes.  Hex examples leave out what repeats as "..".
 *
 * "chain" is a chain id, "row" an intent's sequence number, "order" a place in
 * the global sequence that counts intents, attempts and applied blocks.
 */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include "common/intent.h"
#include "store/kv.h"

#define SCHEMA_VERSION 2

enum table {
	T_META,
	T_CHAIN,
	T_BLOCK,
	T_BLOCK_TX,
	T_ORPHAN,
	T_ORPHAN_TX,
	T_TRANSFER,
	T_CLAIM,
	T_SIGHTING,
	T_SIGHTING_OF,
	T_PENDING,
	T_INTENT,
	T_INTENT_ID,
	T_INTENT_KEY,
	T_HISTORY,
	T_ATTEMPT,
	T_TX,
	T_ROUTE,
	T_STATE,
	T_DEADLINE,
	T_LOOKUP,
	T_EVENT,
	T_CURSOR,
	T_LEDGER,
	TABLES
};
extern const char *const schema_table_names[TABLES];

struct key {
	uint8_t b[192];
	uint16_t len;
};
struct slice key_slice(const struct key *k);

/*
 * "meta": one counter a row.
 *   key    name           text    value  u64
 *   "schema" -> 00..01     the version of all this
 *   "order", "intent", "event" -> the last number given out
 */
struct key key_meta(const char *name);

/*
 * "chain": where we stand on a chain.
 *   key    chain u64
 *   value  struct chain_row
 *   mainnet -> 00 00 00 00 00 00 00 01
 */
#define TIERS_MAX 4
struct watermark_row {
	bool known;
	uint64_t height;
	struct hash32 hash;
	int64_t time_s;			/* the block's timestamp */
	bool suspended;			/* a reorg went under it; an operator must accept */
};
struct chain_row {
	bool has_genesis;
	struct hash32 genesis;
	bool has_tip;
	uint64_t start_height;		/* the first block that was to be applied */
	uint64_t tip_height;		/* the cursor: all up to here is applied */
	struct hash32 tip_hash;
	int64_t tip_time_s;
	uint64_t event_number;		/* of the last event that is about the chain itself */
	struct watermark_row marks[TIERS_MAX];
	bool latched;
	uint64_t latch_height;		/* where another finalized block was claimed */
	struct hash32 latch_ours;
	struct hash32 latch_theirs;
	bool accepted;			/* an operator took the branch of this block, whatever it undoes */
	struct hash32 accepted_hash;
	bool has_start;			/* start_height is settled, perhaps before its block was applied */
	struct hash32 start_parent;
	bool trusted;			/* an operator took this block's receipts as the node's word */
	struct hash32 trusted_hash;
};
struct key key_chain(uint64_t chain);

/*
 * "block": our canonical chain, one row a height.
 *   key    chain u64 | height u64
 *   value  struct block_row
 *   mainnet 258 -> 00 .. 01 00 00 00 00 00 00 01 02
 * "block_tx": the first 8 bytes of its transactions' hashes, in order, in
 * chunks of BLOCK_TX_CHUNK, kept while a late attempt may ask for them.
 *   key    chain u64 | height u64 | chunk u32
 *   value  8 bytes a transaction, no version byte
 */
enum proof {
	PROOF_RECEIPTS = 1,	/* header hash, and receipts root over all receipts */
	PROOF_NODES_WORD = 2,	/* an operator accepted it unproven */
	PROOF_LOGS = 4,		/* its logs, which touch nobody, make the header's bloom */
};
#define BLOCK_TX_CHUNK 200
struct block_row {
	struct hash32 hash;
	struct hash32 parent;
	int64_t time_s;
	uint8_t proof;
	uint64_t order;
	uint32_t tx_count;
};
struct key key_block(uint64_t chain, uint64_t height);
struct key key_block_tx(uint64_t chain, uint64_t height, uint32_t chunk);

/*
 * "orphan", "orphan_tx": blocks that left our chain, as they stood.
 *   key    chain u64 | height u64 | hash 32 [| chunk u32]
 *   value  struct block_row; the prefixes as above
 */
struct key key_orphan(uint64_t chain, uint64_t height, const struct hash32 *hash);
struct key key_orphan_tx(uint64_t chain, uint64_t height, const struct hash32 *hash, uint32_t chunk);

/*
 * "transfer": a transfer that touches a watched payee or an intent.
 *   key    chain u64 | height u64 | block hash 32 | tx index u32 | ordinal u32
 *   value  struct transfer_row; orphaned with its block, never removed
 * The ordinal counts the logs of the transaction, from 0.
 */
enum owner_kind {
	OWNER_NONE,
	OWNER_CLAIM,		/* it pays the intent */
	OWNER_HOLD,		/* the intent is under review; nobody else may take it */
};
struct transfer_row {
	struct hash32 tx_hash;
	struct address token;
	struct address from;
	struct address to;
	struct u256 value;
	bool orphaned;
	uint8_t owner_kind;		/* while not orphaned; agrees with "claim" */
	uint64_t owner;			/* the intent's row */
	uint64_t height;		/* these four repeat the key */
	struct hash32 block_hash;
	uint32_t tx_index;
	uint32_t ordinal;
};
struct key key_transfer(uint64_t chain, uint64_t height, const struct hash32 *block_hash,
			uint32_t tx_index, uint32_t ordinal);

/*
 * "claim": who a payment belongs to, under the identity that outlives a reorg.
 *   key    chain u64 | tx hash 32 | ordinal u32
 *   value  struct claim_row
 */
struct claim_row {
	uint8_t kind;			/* enum owner_kind */
	uint64_t row;
	uint64_t height;		/* with the block, the transfer's key */
	struct hash32 block_hash;
	uint32_t tx_index;
};
struct key key_claim(uint64_t chain, const struct hash32 *tx_hash, uint32_t ordinal);

/*
 * "sighting": an attempt of an intent in a block of ours, with what it was
 * judged to be; row 0 is a transfer to a route's payee that fits no intent.
 *   key    chain u64 | height u64 | tx index u32 | ordinal u32 | row u64
 *   value  struct sighting_row
 * "sighting_of": the same by intent.
 *   key    row u64 | chain u64 | height u64 | tx index u32 | ordinal u32
 * "pending": sightings that are not yet final, by the tier that decides; under
 * TIER_WAITS, which no watermark reaches, those whose balance is still to be read.
 *   key    chain u64 | tier u8 | height u64 | tx index u32 | ordinal u32 | row u64
 * The ordinal is that of the first transfer it is about (0 where there is none).
 */
enum loose_kind {
	LOOSE_NOT,
	LOOSE_MISFIT,		/* a transfer to a route's payee that fits none */
	LOOSE_AMBIGUOUS,	/* it fits two */
};
enum witness_state {
	WITNESS_OFF,		/* policy */
	WITNESS_AGREES,
	WITNESS_DISAGREES,
	WITNESS_UNAVAILABLE,	/* the state is gone */
	WITNESS_PENDING,	/* could not be read for the moment: its block did not wait for it */
	WITNESS_DOUBTED,	/* the same, after one reading that disagrees */
};
#define WITNESS_STATES 6
#define TIER_WAITS 255
struct sighting_row {
	struct hash32 tx_hash;
	struct hash32 block_hash;
	int64_t block_time_s;
	uint8_t verdict;		/* enum verdict, listener/match.h */
	bool route;			/* came by route, not by an attempt */
	struct u256 sum;		/* what was paid, for the text */
	uint8_t witness;		/* enum witness_state */
	struct u256 before, after;	/* of balanceOf, where read */
	struct u256 came, went;		/* while the balance is to be read: what the block's logs say of it */
	uint8_t loose;			/* enum loose_kind */
	bool judged_in_review;		/* first seen when a person already had it */
};
struct sighting_at {
	uint64_t chain;
	uint64_t height;
	uint32_t tx_index;
	uint32_t ordinal;
	uint64_t row;
};
struct key key_sighting(const struct sighting_at *at);
struct key key_sighting_of(const struct sighting_at *at);
struct key key_pending(const struct sighting_at *at, uint8_t tier);

/*
 * "intent": key row u64, value struct intent (without its row).
 * "intent_id": key id text, value row u64.
 * "intent_key": key merchant text | 00 | idempotency key text, value row u64.
 */
struct key key_u64(uint64_t v);
struct key key_intent_id(const char *id);
struct key key_intent_key(const char *merchant_id, const char *idempotency_key);

/*
 * "history": one entry a move, the first for the creation.
 *   key    row u64 | version u64
 *   value  struct history_row
 */
struct history_row {
	enum intent_state from;		/* the first entry: created -> created */
	enum intent_state to;
	enum actor actor;
	bool has_tx;
	struct hash32 tx_hash;
	struct reason reason;
	bool has_block;
	uint64_t block_height;
	struct hash32 block_hash;
	int64_t at_ms;
	uint64_t version;
	bool conflict;			/* another transaction than the recorded one, kept in other_tx */
	struct hash32 other_tx;
};
struct key key_history(uint64_t row, uint64_t version);

/*
 * "attempt": transactions that may pay an intent, in the order of recording.
 *   key    row u64 | n u32
 *   value  struct attempt_row
 * "tx": the same by transaction, first recorded first; kept when the intent
 * is terminal, since a late attempt of it must still be reported.
 *   key    chain u64 | tx hash 32 | order u64    value  row u64
 */
struct attempt_row {
	struct hash32 tx_hash;
	bool has_sender;
	struct address sender;
	bool has_nonce;
	uint64_t nonce;
	uint64_t order;
	int64_t at_ms;
};
struct key key_attempt(uint64_t row, uint32_t n);
struct key key_tx(uint64_t chain, const struct hash32 *tx_hash, uint64_t order);

/*
 * "route": intents that any fitting transfer may pay, until they are terminal.
 *   key    chain u64 | payee 20 | token 20 | amount 32 | payer 20 (zero: any) | row u64
 *   value  empty
 * The payee stands first, so that one seek tells whether a transfer touches anybody.
 */
struct key key_route(const struct intent *i);
struct key key_route_payee(uint64_t chain, const struct address *payee);
struct key key_route_fit(uint64_t chain, const struct address *payee, const struct address *token,
			 const struct u256 *amount);

/*
 * "state":    key state u8 | entered at ms u64 | row u64                value empty
 * "deadline": key chain u64 | kind u8 | chain time ms u64 | row u64     value empty
 * "lookup":   key chain u64 | row u64                                   value empty
 *             an intent whose transaction may stand in a block that went by
 */
enum deadline_kind {
	DEADLINE_MISSING,		/* time 0: waits for the first tip */
	DEADLINE_OVERDUE,
};
struct key key_state(enum intent_state state, int64_t at_ms, uint64_t row);
struct key key_deadline(uint64_t chain, enum deadline_kind kind, int64_t at_ms, uint64_t row);
struct key key_lookup(uint64_t chain, uint64_t row);

/*
 * "event":  key sequence u64, value the body, JSON.
 * "cursor": key the sink's name, value u64: it has all events up to there;
 *           for "tape:<identity>" the last line whose effects are committed.
 */
struct key key_text(const char *text);

/*
 * "ledger": a row for each settlement and each reversal.
 *   key    row u64 | n u32
 *   value  struct ledger_row
 */
enum ledger_kind {
	LEDGER_SETTLEMENT,
	LEDGER_REVERSAL,
};
struct ledger_row {
	uint8_t kind;
	uint64_t chain_id;
	struct address token;
	struct u256 amount;
	struct address payee;
	bool has_tx;
	struct hash32 tx_hash;
	uint64_t event;			/* the event's sequence number that tells of it */
	int64_t at_ms;
};
struct key key_ledger(uint64_t row, uint32_t n);

/*
 * Rows to bytes and back.  put_* store under a key; get_* are true if the row
 * is there and sound: one that is not fails the transaction with E_CORRUPT.
 */
enum row_type {
	ROW_CHAIN,
	ROW_BLOCK,
	ROW_TRANSFER,
	ROW_CLAIM,
	ROW_SIGHTING,
	ROW_INTENT,
	ROW_HISTORY,
	ROW_ATTEMPT,
	ROW_LEDGER,
};
void row_put(struct kv_txn *t, enum table table, const struct key *key, enum row_type type,
	     const void *row);
void row_add(struct kv_txn *t, enum table table, const struct key *key, enum row_type type,
	     const void *row);
bool row_get(struct kv_txn *t, enum table table, const struct key *key, enum row_type type,
	     void *row);
/* Decode the value under a cursor. */
bool row_decode(struct kv_txn *t, struct slice val, enum row_type type, void *row);

void mark_put(struct kv_txn *t, enum table table, const struct key *key);	/* an empty value */
bool mark_has(struct kv_txn *t, enum table table, const struct key *key);
void key_del(struct kv_txn *t, enum table table, const struct key *key);
bool number_get(struct kv_txn *t, enum table table, const struct key *key, uint64_t *out);
void number_put(struct kv_txn *t, enum table table, const struct key *key, uint64_t v);
/* Take the next number of the meta counter @name; the first is 1. */
uint64_t number_next(struct kv_txn *t, const char *name);

#endif
