/*
 * ledger - one row for each settlement and each reversal, in the transaction
 * that made it.  Rows are added, never changed.
 */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include "store/schema.h"

/* Add a row for the intent, told of by the event of sequence number @event. */
void ledger_add(struct kv_txn *t, const struct intent *i, enum ledger_kind kind, uint64_t event,
		int64_t at_ms);

/* Settlements less reversals of the intent; *@rows may be NULL. */
int ledger_balance(struct kv_txn *t, uint64_t row, uint32_t *rows);

#endif
