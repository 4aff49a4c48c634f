/*
 * codec - JSON-RPC answers to structs.
 *
 * Answers that carry a whole block go through the pull scanner.  Lenient in
 * form, strict in content: quantities may have leading zeros or stand as JSON
 * numbers, unknown members are ignored, null and absent are the same; a field
 * of a fixed length has exactly that length or the answer is refused.
 *
 * Pure.  The structs are reusable: a decode overwrites what they held and keeps
 * their memory; *_free() gives it back.
 */
#ifndef LISTENER_CODEC_H
#define LISTENER_CODEC_H

#include "common/types.h"

#define BLOOM_BYTES 256
#define EXTRA_MAX 4096		/* proof-of-stake side chains keep votes and validators there */

/* How many of the optional header fields are there: a strict prefix of EIP-1559, 4895, 4844, 7685, 7928. */
enum header_fields {
	HEADER_FRONTIER = 15,
	HEADER_LONDON = 16,	/* base_fee */
	HEADER_SHANGHAI = 17,	/* withdrawals_root */
	HEADER_CANCUN = 20,	/* blob_gas_used, excess_blob_gas, parent_beacon_root */
	HEADER_PRAGUE = 21,	/* requests_hash */
	HEADER_AMSTERDAM = 23,	/* block_access_list_hash, slot_number */
};

struct header {
	struct hash32 hash;		/* as claimed; verify recomputes it */
	struct hash32 parent_hash;
	struct hash32 uncles_hash;
	struct address miner;
	struct hash32 state_root;
	struct hash32 transactions_root;
	struct hash32 receipts_root;
	uint8_t bloom[BLOOM_BYTES];
	struct u256 difficulty;
	uint64_t number;
	uint64_t gas_limit;
	uint64_t gas_used;
	uint64_t timestamp;		/* seconds since 1970 */
	uint8_t extra[EXTRA_MAX];
	uint32_t extra_len;
	struct hash32 mix_hash;
	uint8_t nonce[8];
	enum header_fields fields;
	struct u256 base_fee;
	struct hash32 withdrawals_root;
	uint64_t blob_gas_used;
	uint64_t excess_blob_gas;
	struct hash32 parent_beacon_root;
	struct hash32 requests_hash;
	struct hash32 block_access_list_hash;
	uint64_t slot_number;
};

struct block {
	struct header header;
	bool has_transactions;		/* a header alone (newHeads) has none */
	struct hash32 *tx_hashes;	/* in order; transactions may be hashes or objects with "hash" */
	uint32_t tx_count;
	uint32_t tx_cap;
};

struct log_entry {
	struct address address;
	uint8_t topic_count;		/* at most 4 */
	struct hash32 topics[4];
	uint32_t data_at;		/* into receipts.data */
	uint32_t data_len;
};

struct receipt {
	struct hash32 tx_hash;
	struct hash32 block_hash;
	uint64_t block_number;
	uint64_t tx_index;
	uint8_t type;			/* EIP-2718; 0 where absent */
	bool has_status;		/* else root (before Byzantium) */
	uint8_t status;
	struct hash32 root;
	uint64_t cumulative_gas;
	uint8_t bloom[BLOOM_BYTES];
	bool has_deposit_nonce;		/* type 0x7e, OP stack: Regolith */
	uint64_t deposit_nonce;
	bool has_deposit_version;	/* Canyon */
	uint64_t deposit_version;
	uint32_t first_log;		/* into receipts.logs */
	uint32_t log_count;
};

struct receipts {
	struct receipt *receipts;
	uint32_t count;
	uint32_t cap;
	struct log_entry *logs;		/* of all receipts, in block order */
	uint32_t log_count;
	uint32_t log_cap;
	struct buf data;		/* of all logs */
};

void block_free(struct block *b);
void receipts_free(struct receipts *r);

/*
 * Decode the JSON value @json, a block or header object, into *@out.
 * E_PEER with the member's path in @why ("transactions[3]: 63 hex digits, want 64").
 */
MUST_CHECK enum err block_decode(struct slice json, struct block *out, struct complaint *why);

/*
 * Decode an array of receipts.  A null member, a log with removed:true, with a
 * blockHash, transactionHash or transactionIndex other than its receipt's, or a
 * receipt with neither status nor root refuses the whole answer.
 */
MUST_CHECK enum err receipts_decode(struct slice json, struct receipts *out, struct complaint *why);

/*
 * Decode an array of logs, all those of the block @b in order, into receipts that know nothing but their place and logs:
 * one for each transaction, its status taken as 1.  A log of another block or transaction refuses the whole answer.
 */
MUST_CHECK enum err logs_decode(struct slice json, const struct block *b, struct receipts *out, struct complaint *why);

enum reply_kind {
	REPLY_RESULT,		/* result holds a JSON value other than null */
	REPLY_NULL,		/* result is null: not known, never "none" */
	REPLY_ERROR,		/* an error object, whatever it holds */
	REPLY_NOTICE,		/* a subscription's notification */
};

/* One JSON-RPC 2.0 message; slices borrow from its text. */
struct reply {
	enum reply_kind kind;
	bool has_id;
	uint64_t id;		/* 7 and "7" are the same; anything else has no id */
	struct slice result;	/* the raw JSON value; for a notice params.result */
	int64_t code;		/* of the error */
	char message[160];	/* of the error, printable, cut */
	char subscription[68];	/* of a notice */
};

/* E_PEER if @json is not one message (empty, HTML, cut, or neither result nor error). */
MUST_CHECK enum err reply_decode(struct slice json, struct reply *out, struct complaint *why);

/* A result that is one quantity or fixed bytes: a string or, where usual elsewhere, a number. */
MUST_CHECK enum err result_u64(struct slice json, uint64_t *out, struct complaint *why);
/* The 32 bytes that eth_call gives for balanceOf; "0x" is an error, not zero. */
MUST_CHECK enum err result_word(struct slice json, struct u256 *out, struct complaint *why);

#endif
