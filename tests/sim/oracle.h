/*
 * oracle - what an intent may have become.  Shared by oracle.c (the ends) and oracle_match.c (matching and
 * the order of requests).
 */
#ifndef TESTS_SIM_ORACLE_H
#define TESTS_SIM_ORACLE_H

#include "tests/sim/run.h"

struct end {
	enum intent_state state;
	const char *code;	/* NULL: any */
	int tx;			/* -1: any */
};
#define ENDS_MAX 40

struct ends {
	struct end is[ENDS_MAX];
	unsigned count;
	bool anything;		/* cannot be told */
};

void ends_allow(struct ends *e, enum intent_state state, const char *code, int tx);
/* Paid by the logs of the transaction: what may still stand against it is allowed too. */
void ends_allow_paid(const struct run *r, struct ends *e, int intent, int tx, int block);
/* Whatever the transaction in the block may mean for the intent that named it. */
void ends_allow_tx(const struct run *r, struct ends *e, int intent, int tx, int block);

const struct intent *oracle_intent(const struct run *r, int i);
uint64_t oracle_small(const struct u256 *v);

/* The block of ours that holds it in the end; -1: none. */
int oracle_mined(const struct run *r, int tx);
bool oracle_ever_mined(const struct run *r, int tx);

/* Place of the first request that names the transaction for the intent; SIZE_MAX: none. */
size_t oracle_named_at(const struct run *r, int intent, int tx);
bool oracle_names_any(const struct run *r, int intent);

/* A log that the design calls a transfer, but for the list of contracts; to the payee; one of C; one of P. */
bool oracle_has_shape(const struct tree_log *log);
bool oracle_is_payee(const struct intent *i, const struct tree_log *log);
bool oracle_is_in_c(const struct intent *i, const struct tree_log *log);
bool oracle_is_in_p(const struct intent *i, const struct tree_log *log);

struct verdict_of {
	const char *code;		/* "" paid */
	uint32_t chosen;		/* bits by ordinal */
	uint32_t held;			/* what it keeps while under review: free of C */
};

/* The verdict by transaction, where the transfers @taken are another's. */
struct verdict_of oracle_judge_tx(const struct run *r, int intent, int tx, uint32_t taken);

/* Claims, holds and reports. */
void oracle_judge_told(struct run *r);

#endif
