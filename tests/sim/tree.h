/*
 * tree - the truth of one run: transactions, a tree of sealed blocks with true hashes, which of them
 * is the head, and which is final, over time.
 */
#ifndef TESTS_SIM_TREE_H
#define TESTS_SIM_TREE_H

#include "tests/sim/plan.h"

#define START_MS 1767225600000		/* 2026-01-01T00:00:00Z: when a run begins */
#define START_HEIGHT 100
#define CHAIN_ID 1
#define LOGS_MAX 6
#define QUIET_BLOCKS 256		/* ids from there on are those of the end, which no plan drops */

struct tree_log {
	int contract;			/* enum contract */
	int from, to;			/* accounts */
	uint64_t value;
	enum log_form form;
};

struct tree_tx {
	bool used;
	bool reverted;
	struct hash32 hash;
	unsigned log_count;
	struct tree_log logs[LOGS_MAX];
};

struct tree_block {
	bool used;
	int parent;			/* -1: none */
	uint64_t height;
	int64_t at_ms;			/* since the start: known from then on */
	int64_t time_s;
	struct hash32 hash, parent_hash;
	struct buf block, receipts;	/* as a node gives them */
	unsigned tx_count;
	uint8_t txs[ITEM_TXS];
};

struct tree_point {
	int64_t at_ms;
	int block;
};

struct tree {
	struct tree_tx txs[TXS_MAX];
	struct tree_block blocks[BLOCKS_MAX];
	int ids[BLOCKS_MAX];		/* those used */
	unsigned count;
	struct tree_point *heads, *finals;	/* by time */
	size_t head_count, final_count;
	int lost_head;			/* of the chain that broke its word; -1 */
	struct buf scratch;
};

/* E_INPUT if the plan makes no tree. */
MUST_CHECK enum err tree_build(struct tree *t, const struct plan *p, struct complaint *why);
void tree_free(struct tree *t);

/* -1: none. */
int tree_find(const struct tree *t, const struct hash32 *hash);
int tree_find_tx(const struct tree *t, const struct hash32 *hash);
bool tree_is_ancestor(const struct tree *t, int ancestor, int of);	/* or the same */
int tree_at_height(const struct tree *t, int head, uint64_t height);
/* The block on @head's chain that has the transaction; -1: none. */
int tree_block_of_tx(const struct tree *t, int head, int tx, unsigned *index);

/* On the last chain, or on the one that was final and was lost. */
bool tree_was_final(const struct tree *t, int block);
/* Of the truth, @ms since the start; -1: none yet. */
int tree_head(const struct tree *t, int64_t ms);
int tree_final(const struct tree *t, int64_t ms);
/* Where all ends. */
int tree_last(const struct tree *t);

struct address tree_account(int account);
struct address tree_contract(int contract);
int tree_account_of(const struct address *a, int most);
/* balanceOf at the block. */
struct u256 tree_balance(const struct tree *t, int contract, int account, int block);

#endif
