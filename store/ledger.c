#include "store/ledger.h"

int ledger_balance(struct kv_txn *t, uint64_t row, uint32_t *rows)
{
	struct key from = key_u64(row);
	struct ledger_row entry;
	struct kv_cursor c;
	uint32_t count = 0;
	int balance = 0;

	for (bool more = kv_seek(t, T_LEDGER, key_slice(&from), 8, &c); more; more = kv_next(&c)) {
		if (!row_decode(t, c.val, ROW_LEDGER, &entry))
			break;
		balance += entry.kind == LEDGER_SETTLEMENT ? 1 : -1;
		count++;
	}
	if (rows)
		*rows = count;
	return balance;
}

void ledger_add(struct kv_txn *t, const struct intent *i, enum ledger_kind kind, uint64_t event,
		int64_t at_ms)
{
	struct ledger_row entry = {
		.kind = (uint8_t)kind,
		.chain_id = i->chain_id,
		.token = i->token,
		.amount = i->amount,
		.payee = i->payee,
		.has_tx = i->has_tx,
		.tx_hash = i->tx_hash,
		.event = event,
		.at_ms = at_ms,
	};
	struct key key;
	uint32_t rows;

	ledger_balance(t, i->row, &rows);
	key = key_ledger(i->row, rows);
	row_add(t, T_LEDGER, &key, ROW_LEDGER, &entry);
}
