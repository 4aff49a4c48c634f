#include "store/outbox.h"

#include "common/json.h"
#include "common/keccak.h"

#include <stdio.h>

void event_put_reason(struct buf *b, const struct reason *reason)
{
	if (!reason || !reason->code[0]) {
		json_put_text(b, "reason", NULL);
		return;
	}
	json_open_object(b, "reason");
	json_put_text(b, "code", reason->code);
	json_put_text(b, "text", reason->text);
	json_close_object(b);
}

void event_put_intent(struct buf *b, const struct intent *i)
{
	json_open_object(b, NULL);
	json_put_text(b, "id", i->id);
	json_put_text(b, "merchant_id", i->merchant_id);
	json_put_text(b, "idempotency_key", i->idempotency_key);
	json_put_number(b, "chain_id", i->chain_id);
	json_put_address(b, "token", &i->token);
	json_put_amount(b, "amount", &i->amount);
	json_put_address(b, "payee", &i->payee);
	json_put_address(b, "payer", i->has_payer ? &i->payer : NULL);
	json_put_text(b, "watch", watch_name(i->watch));
	if (i->has_expiry)
		json_put_time(b, "expires_at", i->expires_at_ms);
	if (i->reverses[0])
		json_put_text(b, "reverses", i->reverses);
	json_put_text(b, "state", intent_state_name(i->state));
	json_put_number(b, "version", i->version);
	json_put_hash(b, "tx_hash", i->has_tx ? &i->tx_hash : NULL);
	json_put_time(b, "created_at", i->created_at_ms);
	json_put_time(b, "entered_at", i->entered_at_ms);
	if (i->reversed)
		json_put_bool(b, "reversed", true);
	json_close_object(b);
}

static void put_block(struct buf *b, const char *name, const struct block_ref *r)
{
	if (!r->known)
		return;
	json_open_object(b, name);
	json_put_number(b, "number", r->height);
	json_put_hash(b, "hash", &r->hash);
	json_close_object(b);
}

static void put_transfer_members(struct buf *b, const struct transfer_row *tr)
{
	json_put_address(b, "token", &tr->token);
	json_put_address(b, "from", &tr->from);
	json_put_address(b, "to", &tr->to);
	json_put_amount(b, "value", &tr->value);
	json_put_number(b, "ordinal", tr->ordinal);
}

static void put_transfers(struct buf *b, const struct evidence *e)
{
	if (!e->transfer_count)
		return;
	json_open_array(b, "transfers");
	for (size_t i = 0; i < e->transfer_count && i < EVIDENCE_TRANSFERS_MAX; i++) {
		json_open_object(b, NULL);
		put_transfer_members(b, &e->transfers[i]);
		json_close_object(b);
	}
	json_close_array(b);
	if (e->transfer_count > EVIDENCE_TRANSFERS_MAX)
		json_put_number(b, "transfer_count", e->transfer_count);
}

const char *witness_name(enum witness_state w)
{
	static const char *const names[WITNESS_STATES] = {
		[WITNESS_OFF] = "off",
		[WITNESS_AGREES] = "agrees",
		[WITNESS_DISAGREES] = "disagrees",
		[WITNESS_UNAVAILABLE] = "not available",
		[WITNESS_PENDING] = "pending",
		[WITNESS_DOUBTED] = "pending",
	};

	return names[w];
}

static void put_witness(struct buf *b, const struct evidence *e)
{
	if (!e->has_witness)
		return;
	json_open_object(b, "balance");
	json_put_text(b, "witness", witness_name((enum witness_state)e->witness));
	if (e->witness == WITNESS_AGREES || e->witness == WITNESS_DISAGREES) {
		json_put_amount(b, "before", &e->before);
		json_put_amount(b, "after", &e->after);
	}
	json_close_object(b);
}

static void put_proof(struct buf *b, uint8_t proof)
{
	if (!proof)
		return;
	json_open_object(b, "proof");
	json_put_text(b, "header", "hash");
	json_put_text(b, "log", proof & PROOF_NODES_WORD ? "node's word" : "receipts root");
	json_put_text(b, "transaction", "node's word");
	json_close_object(b);
}

static void put_evidence(struct buf *b, const struct evidence *e)
{
	json_open_object(b, "evidence");
	json_put_text(b, "by", actor_name(e->by));
	if (e->has_tx)
		json_put_hash(b, "tx_hash", &e->tx_hash);
	if (e->has_other_tx)
		json_put_hash(b, "other_tx_hash", &e->other_tx);
	put_block(b, "block", &e->block);
	put_block(b, "replaced_by", &e->replaced_by);
	put_transfers(b, e);
	put_witness(b, e);
	put_proof(b, e->proof);
	if (e->has_finality) {
		json_open_object(b, "finality");
		json_put_text(b, "rule", e->rule);
		put_block(b, "watermark", &e->watermark);
		json_close_object(b);
	}
	if (e->final)
		json_put_bool(b, "final", true);
	if (e->by != ACTOR_LISTENER && e->chain_said)
		json_put_text(b, "chain_said", e->chain_said);
	json_close_object(b);
}

/* The id is what happened, hashed: the same after a replay, a restart, or in a recording. */
static void put_id(struct buf *b, const struct buf *what)
{
	struct hash32 h = keccak256(what->data, what->len);
	char id[] = "ev_........................";

	hex_encode(h.b, 12, id + 3);
	json_put_text(b, "id", id);
}

static const char *const type_names[] = {
	[EVENT_INTENT_STATE] = "intent.",
	[EVENT_INTENT_OBSERVED] = "intent.observed",
	[EVENT_INTENT_REVERSED] = "intent.reversed",
	[EVENT_CHAIN_REORG] = "chain.reorg",
	[EVENT_CHAIN_FINALITY_VIOLATION] = "chain.finality_violation",
	[EVENT_TRANSFER_UNMATCHED] = "transfer.unmatched",
	[EVENT_TRANSFER_AMBIGUOUS] = "transfer.ambiguous",
};

static void open_event(struct buf *b, const char *type, int64_t now_ms)
{
	json_open_object(b, NULL);
	json_put_text(b, "type", type);
	json_put_time(b, "timestamp", now_ms);
	json_open_object(b, "data");
}

static void close_event(struct kv_txn *t, struct buf *b, uint64_t sequence)
{
	struct key key = key_u64(sequence);

	buf_put_text(b, "}}");
	kv_add(t, T_EVENT, key_slice(&key), buf_slice(b));
	buf_free(b);
}

void event_intent(struct kv_txn *t, enum event_type type, struct intent *i,
		  const struct reason *reason, const struct evidence *e, int64_t now_ms)
{
	uint64_t sequence = number_next(t, "event");
	struct buf body = { 0 }, what = { 0 };
	char name[48];

	snprintf(name, sizeof(name), "%s%s", type_names[type],
		 type == EVENT_INTENT_STATE ? intent_state_name(i->state) : "");
	i->event_number++;
	buf_printf(&what, "%llu|%s|%llu|%s", (unsigned long long)i->chain_id, i->id,
		   (unsigned long long)i->event_number, name);
	open_event(&body, name, now_ms);
	put_id(&body, &what);
	json_put_number(&body, "sequence", sequence);
	json_put_number(&body, "event_number", i->event_number);
	event_put_reason(&body, reason);
	json_put_name(&body, "intent");
	event_put_intent(&body, i);
	put_evidence(&body, e);
	close_event(t, &body, sequence);
	buf_free(&what);
}

static void put_names(struct buf *b, const struct chain_event *e)
{
	if (!e->intent_count)
		return;
	json_open_array(b, "intents");
	for (size_t i = 0; i < e->intent_count && i < EVENT_NAMES_MAX; i++)
		json_put_text(b, NULL, e->intents[i]);
	json_close_array(b);
	if (e->intent_count > EVENT_NAMES_MAX)
		json_put_number(b, "intent_count", e->intent_count);
}

static void put_loose_transfer(struct buf *b, const struct transfer_row *tr)
{
	struct block_ref block = { true, tr->height, tr->block_hash };

	json_put_hash(b, "tx_hash", &tr->tx_hash);
	put_block(b, "block", &block);
	json_open_object(b, "transfer");
	put_transfer_members(b, tr);
	json_close_object(b);
}

void event_chain(struct kv_txn *t, struct chain_row *row, const struct chain_event *e, int64_t now_ms)
{
	uint64_t sequence = number_next(t, "event");
	const char *name = type_names[e->type];
	struct buf body = { 0 }, what = { 0 };

	row->event_number++;
	buf_printf(&what, "%llu||%llu|%s", (unsigned long long)e->chain,
		   (unsigned long long)row->event_number, name);
	open_event(&body, name, now_ms);
	put_id(&body, &what);
	json_put_number(&body, "sequence", sequence);
	json_put_number(&body, "chain_id", e->chain);
	json_put_number(&body, "event_number", row->event_number);
	event_put_reason(&body, e->reason);
	put_block(&body, "old_tip", &e->old_tip);
	put_block(&body, "new_tip", &e->new_tip);
	put_block(&body, "ancestor", &e->ancestor);
	if (e->depth)
		json_put_number(&body, "depth", e->depth);
	put_block(&body, "watermark", &e->watermark);
	put_block(&body, "claimed", &e->claimed);
	if (e->has_transfer)
		put_loose_transfer(&body, &e->transfer);
	if (e->has_other_tx)
		json_put_hash(&body, "other_tx_hash", &e->other_tx);
	put_names(&body, e);
	close_event(t, &body, sequence);
	buf_free(&what);
}

uint64_t outbox_last(struct kv_txn *t)
{
	struct key key = key_meta("event");
	uint64_t last = 0;

	number_get(t, T_META, &key, &last);
	return last;
}

bool outbox_get(struct kv_txn *t, uint64_t sequence, struct slice *body)
{
	struct key key = key_u64(sequence);

	return kv_get(t, T_EVENT, key_slice(&key), body);
}

uint64_t outbox_cursor(struct kv_txn *t, const char *sink)
{
	struct key key = key_text(sink);
	uint64_t at = 0;

	number_get(t, T_CURSOR, &key, &at);
	return at;
}

void outbox_set_cursor(struct kv_txn *t, const char *sink, uint64_t sequence)
{
	struct key key = key_text(sink);

	number_put(t, T_CURSOR, &key, sequence);
}
