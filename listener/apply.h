/*
 * apply - what a block does to the store, and how it is undone.
 *
 * Each call is a part of one write transaction: a rollback and the first block
 * of the new branch are one, so that the store stands either at the old tip or
 * on the new branch, whenever we crash.
 */
#ifndef LISTENER_APPLY_H
#define LISTENER_APPLY_H

#include "listener/gather.h"
#include "store/chain.h"

struct apply {
	const struct chain_config *config;
	struct chain_row chain;		/* read at the begin; each call stores what it changes */
	int64_t now_ms;
	bool catching_up;
	uint64_t *undone;		/* rows of intents that a rollback put back to settling */
	size_t undone_count, undone_cap;
};

/* Read the chain's row. */
struct apply apply_begin(struct kv_txn *t, const struct chain_config *config, int64_t now_ms);
void apply_end(struct apply *a);

/* Put the block on our tip and act on the findings of @g, made in this transaction. */
void apply_block(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g);

/* A block of ours again, for one intent whose transaction it holds. */
void apply_late(struct kv_txn *t, struct apply *a, const struct body *body, struct gather *g);

/*
 * Take off all blocks above @ancestor, newest first.  @branch names the new branch's
 * hashes from ancestor + 1 up; its last is the head.  @over_final: an operator
 * accepted it, so what was settled in the lost blocks is reversed.
 */
struct branch {
	uint64_t ancestor;
	struct hash32 ancestor_hash;
	bool below_start;		/* the ancestor itself is the new branch's, perhaps below our first block: the last common one lies deeper */
	const struct hash32 *hashes;
	size_t count;			/* at least 1 */
	bool over_final;
};
void apply_rollback(struct kv_txn *t, struct apply *a, const struct branch *branch);

/*
 * What a balance that its block did not wait for is by now: each sighting of the block that waits for it gets the outcome
 * and waits for its tier like any other; one that would have been paid and is not is told.
 */
struct late_outcome {
	uint64_t height;
	struct hash32 block_hash;
	struct address token;
	struct address payee;
	enum witness_state state;	/* agrees, disagrees or unavailable */
	struct u256 before, after;	/* where read */
};
void apply_outcome(struct kv_txn *t, struct apply *a, const struct late_outcome *o);
/* The token and payee that the sighting is about; false: its row is not sound. */
bool apply_balance_of(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
		      struct address *token, struct address *payee);

/* After the new branch's first block: an intent put back whose other attempt stands in a block of ours moves on. */
void apply_reconcile(struct kv_txn *t, struct apply *a);

/*
 * The verdict once more, over what is kept of the sighting: whoever held or claimed its transfers may
 * have let go since.  Claims follow it; *@s is stored.
 */
void apply_rejudge(struct kv_txn *t, struct apply *a, const struct sighting_at *at, struct sighting_row *s,
		   const struct intent *i);

/*
 * The listener's move of the intent; @tx and @reason where the table asks for them, else NULL.  It asks only for
 * moves that the table has: a refusal is a bug of ours, and fails the transaction.
 */
void apply_move(struct kv_txn *t, struct apply *a, struct intent *i, enum intent_state to,
		const struct hash32 *tx, const struct reason *reason, const struct evidence *e);

/* The tier that decides over the transaction at the place. */
uint8_t apply_tier(struct kv_txn *t, const struct chain_config *config, const struct sighting_at *at);

/*
 * The sighted transaction's transfers of the intent's token to its payee, each with whoever has the payment,
 * also where that is in another block.  The caller frees them.
 */
struct transfer_row *apply_transfers(struct kv_txn *t, const struct sighting_at *at, const struct sighting_row *s,
				     const struct intent *i, size_t *count);

/* Whether the sighting still waits for its tier. */
bool apply_is_pending(struct kv_txn *t, const struct chain_config *config, const struct sighting_at *at);

/* What a sighting is evidence of: block, transfers of the intent, witness, proof. */
struct evidence apply_evidence(struct kv_txn *t, const struct sighting_at *at,
			       const struct sighting_row *s);

#endif
