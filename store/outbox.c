#include "store/outbox.h"

#include "common/json.h"
#include "common/keccak.h"

#include <stdio.h>

static void put_name(struct buf *b, const char *name)
{
	uint8_t last = b->len ? b->data[b->len - 1] : '{';

	if (last != '{' && last != '[')
		buf_put_u8(b, ',');
	json_put_string(b, name);
	buf_put_u8(b, ':');
}

static void put_text(struct buf *b, const char *name, const char *text)
{
	put_name(b, name);
	if (text)
		json_put_string(b, text);
	else
		buf_put_text(b, "null");
}

static void put_number(struct buf *b, const char *name, uint64_t v)
{
	put_name(b, name);
	buf_printf(b, "%llu", (unsigned long long)v);
}

static void put_bool(struct buf *b, const char *name, bool v)
{
	put_name(b, name);
	buf_put_text(b, v ? "true" : "false");
}

static void put_hash(struct buf *b, const char *name, const struct hash32 *h)
{
	char text[HASH_TEXT];

	put_text(b, name, h ? hash_format(h, text) : NULL);
}

static void put_address(struct buf *b, const char *name, const struct address *a)
{
	char text[ADDRESS_TEXT];

	put_text(b, name, a ? address_format(a, text) : NULL);
}

static void put_amount(struct buf *b, const char *name, const struct u256 *v)
{
	char text[U256_TEXT];

	put_text(b, name, u256_format(v, text));
}

static void put_time(struct buf *b, const char *name, int64_t ms)
{
	char text[TIME_TEXT];

	put_text(b, name, time_format(ms, text));
}

static void open_object(struct buf *b, const char *name)
{
	put_name(b, name);
	buf_put_u8(b, '{');
}

static void close_object(struct buf *b)
{
	buf_put_u8(b, '}');
}

static void put_reason(struct buf *b, const struct reason *reason)
{
	if (!reason || !reason->code[0]) {
		put_text(b, "reason", NULL);
		return;
	}
	open_object(b, "reason");
	put_text(b, "code", reason->code);
	put_text(b, "text", reason->text);
	close_object(b);
}

static void put_intent(struct buf *b, const struct intent *i)
{
	open_object(b, "intent");
	put_text(b, "id", i->id);
	put_text(b, "merchant_id", i->merchant_id);
	put_text(b, "idempotency_key", i->idempotency_key);
	put_number(b, "chain_id", i->chain_id);
	put_address(b, "token", &i->token);
	put_amount(b, "amount", &i->amount);
	put_address(b, "payee", &i->payee);
	put_address(b, "payer", i->has_payer ? &i->payer : NULL);
	put_text(b, "watch", watch_name(i->watch));
	if (i->has_expiry)
		put_time(b, "expires_at", i->expires_at_ms);
	if (i->reverses[0])
		put_text(b, "reverses", i->reverses);
	put_text(b, "state", intent_state_name(i->state));
	put_number(b, "version", i->version);
	put_hash(b, "tx_hash", i->has_tx ? &i->tx_hash : NULL);
	put_time(b, "created_at", i->created_at_ms);
	put_time(b, "entered_at", i->entered_at_ms);
	if (i->reversed)
		put_bool(b, "reversed", true);
	close_object(b);
}

static void put_block(struct buf *b, const char *name, const struct block_ref *r)
{
	if (!r->known)
		return;
	open_object(b, name);
	put_number(b, "number", r->height);
	put_hash(b, "hash", &r->hash);
	close_object(b);
}

static void put_transfer_members(struct buf *b, const struct transfer_row *tr)
{
	put_address(b, "token", &tr->token);
	put_address(b, "from", &tr->from);
	put_address(b, "to", &tr->to);
	put_amount(b, "value", &tr->value);
	put_number(b, "ordinal", tr->ordinal);
}

static void put_transfers(struct buf *b, const struct evidence *e)
{
	if (!e->transfer_count)
		return;
	put_name(b, "transfers");
	buf_put_u8(b, '[');
	for (size_t i = 0; i < e->transfer_count && i < EVIDENCE_TRANSFERS_MAX; i++) {
		buf_put_text(b, i ? ",{" : "{");
		put_transfer_members(b, &e->transfers[i]);
		close_object(b);
	}
	buf_put_u8(b, ']');
	if (e->transfer_count > EVIDENCE_TRANSFERS_MAX)
		put_number(b, "transfer_count", e->transfer_count);
}

static void put_witness(struct buf *b, const struct evidence *e)
{
	static const char *const names[] = {
		[WITNESS_OFF] = "off",
		[WITNESS_AGREES] = "agrees",
		[WITNESS_DISAGREES] = "disagrees",
		[WITNESS_UNAVAILABLE] = "not available",
	};

	if (!e->has_witness)
		return;
	open_object(b, "balance");
	put_text(b, "witness", names[e->witness]);
	if (e->witness == WITNESS_AGREES || e->witness == WITNESS_DISAGREES) {
		put_amount(b, "before", &e->before);
		put_amount(b, "after", &e->after);
	}
	close_object(b);
}

static void put_proof(struct buf *b, uint8_t proof)
{
	if (!proof)
		return;
	open_object(b, "proof");
	put_text(b, "header", "hash");
	put_text(b, "log", proof & PROOF_NODES_WORD ? "node's word" : "receipts root");
	put_text(b, "transaction", "node's word");
	close_object(b);
}

static void put_evidence(struct buf *b, const struct evidence *e)
{
	open_object(b, "evidence");
	put_text(b, "by", actor_name(e->by));
	if (e->has_tx)
		put_hash(b, "tx_hash", &e->tx_hash);
	if (e->has_other_tx)
		put_hash(b, "other_tx_hash", &e->other_tx);
	put_block(b, "block", &e->block);
	put_block(b, "replaced_by", &e->replaced_by);
	put_transfers(b, e);
	put_witness(b, e);
	put_proof(b, e->proof);
	if (e->has_finality) {
		open_object(b, "finality");
		put_text(b, "rule", e->rule);
		put_block(b, "watermark", &e->watermark);
		close_object(b);
	}
	if (e->final)
		put_bool(b, "final", true);
	if (e->by != ACTOR_LISTENER && e->chain_said)
		put_text(b, "chain_said", e->chain_said);
	close_object(b);
}

/* The id is what happened, hashed: the same after a replay, a restart, or in a recording. */
static void put_id(struct buf *b, const struct buf *what)
{
	struct hash32 h = keccak256(what->data, what->len);
	char id[] = "ev_........................";

	hex_encode(h.b, 12, id + 3);
	put_text(b, "id", id);
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
	buf_put_u8(b, '{');
	put_text(b, "type", type);
	put_time(b, "timestamp", now_ms);
	open_object(b, "data");
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
	put_number(&body, "sequence", sequence);
	put_number(&body, "event_number", i->event_number);
	put_reason(&body, reason);
	put_intent(&body, i);
	put_evidence(&body, e);
	close_event(t, &body, sequence);
	buf_free(&what);
}

static void put_names(struct buf *b, const struct chain_event *e)
{
	if (!e->intent_count)
		return;
	put_name(b, "intents");
	buf_put_u8(b, '[');
	for (size_t i = 0; i < e->intent_count && i < EVENT_NAMES_MAX; i++) {
		if (i)
			buf_put_u8(b, ',');
		json_put_string(b, e->intents[i]);
	}
	buf_put_u8(b, ']');
	if (e->intent_count > EVENT_NAMES_MAX)
		put_number(b, "intent_count", e->intent_count);
}

static void put_loose_transfer(struct buf *b, const struct transfer_row *tr)
{
	struct block_ref block = { true, tr->height, tr->block_hash };

	put_hash(b, "tx_hash", &tr->tx_hash);
	put_block(b, "block", &block);
	open_object(b, "transfer");
	put_transfer_members(b, tr);
	close_object(b);
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
	put_number(&body, "sequence", sequence);
	put_number(&body, "chain_id", e->chain);
	put_number(&body, "event_number", row->event_number);
	put_reason(&body, e->reason);
	put_block(&body, "old_tip", &e->old_tip);
	put_block(&body, "new_tip", &e->new_tip);
	put_block(&body, "ancestor", &e->ancestor);
	if (e->depth)
		put_number(&body, "depth", e->depth);
	put_block(&body, "watermark", &e->watermark);
	put_block(&body, "claimed", &e->claimed);
	if (e->has_transfer)
		put_loose_transfer(&body, &e->transfer);
	if (e->has_other_tx)
		put_hash(&body, "other_tx_hash", &e->other_tx);
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
