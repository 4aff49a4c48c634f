#include "listener/story_event.h"

#include "common/json.h"
#include "listener/story_page.h"

#include <string.h>

static void read_text(struct json object, const char *name, char *out, size_t size)
{
	struct json j = json_maybe(object, name);

	text_copy(out, size, j.value ? json_text(j) : "");
}

static bool read_hash(struct json object, const char *name, struct hash32 *out)
{
	struct json j = json_maybe(object, name);

	if (j.value)
		*out = json_hash(j);
	return j.value != NULL;
}

static bool read_address(struct json object, const char *name, struct address *out)
{
	struct json j = json_maybe(object, name);

	if (j.value)
		*out = json_address(j);
	return j.value != NULL;
}

static void read_block(struct json object, const char *name, struct block_ref *out)
{
	struct json j = json_maybe(object, name);

	if (!j.value)
		return;
	out->known = true;
	out->height = json_u64(json_member(j, "number"));
	out->hash = json_hash(json_member(j, "hash"));
}

static void read_reason(struct json data, struct reason *out)
{
	struct json j = json_maybe(data, "reason");

	if (!j.value)
		return;
	read_text(j, "code", out->code, sizeof(out->code));
	read_text(j, "text", out->text, sizeof(out->text));
}

static void read_intent(struct json j, struct story_event *e)
{
	e->has_intent = true;
	read_text(j, "id", e->id, sizeof(e->id));
	read_text(j, "merchant_id", e->merchant, sizeof(e->merchant));
	read_text(j, "state", e->state, sizeof(e->state));
	e->token = json_address(json_member(j, "token"));
	e->payee = json_address(json_member(j, "payee"));
	e->amount = json_amount(json_member(j, "amount"));
	e->has_payer = read_address(j, "payer", &e->payer);
	e->route = strcmp(json_text(json_member(j, "watch")), watch_name(WATCH_ROUTE)) == 0;
	e->has_tx = read_hash(j, "tx_hash", &e->tx);
}

static void read_transfer(struct json j, struct story_event *e)
{
	struct story_transfer *t = &e->transfers[e->transfer_count];

	if (e->transfer_count == EVIDENCE_TRANSFERS_MAX)
		return;
	e->transfer_count++;
	t->token = json_address(json_member(j, "token"));
	t->from = json_address(json_member(j, "from"));
	t->to = json_address(json_member(j, "to"));
	t->value = json_amount(json_member(j, "value"));
}

static void read_balance(struct json j, struct story_event *e)
{
	read_text(j, "witness", e->witness, sizeof(e->witness));
	if (!json_has(j, "before"))
		return;
	e->before = json_amount(json_member(j, "before"));
	e->after = json_amount(json_member(j, "after"));
}

static void read_evidence(struct json j, struct story_event *e)
{
	struct json transfers = json_maybe(j, "transfers");
	struct json balance = json_maybe(j, "balance");
	struct json proof = json_maybe(j, "proof");
	struct json finality = json_maybe(j, "finality");

	read_text(j, "by", e->by, sizeof(e->by));
	e->has_tx |= read_hash(j, "tx_hash", &e->tx);
	read_block(j, "block", &e->block);
	for (size_t i = 0; transfers.value && i < json_length(transfers); i++)
		read_transfer(json_at(transfers, i), e);
	if (balance.value)
		read_balance(balance, e);
	if (proof.value)
		read_text(proof, "log", e->log_proof, sizeof(e->log_proof));
	if (finality.value) {
		read_text(finality, "rule", e->rule, sizeof(e->rule));
		read_block(finality, "watermark", &e->watermark);
	}
	e->final = json_has(j, "final");
	read_text(j, "chain_said", e->chain_said, sizeof(e->chain_said));
}

static void read_names(struct json j, struct story_event *e)
{
	for (size_t i = 0; i < json_length(j) && i < EVENT_NAMES_MAX; i++)
		text_copy(e->names[e->name_count++], INTENT_ID_MAX, json_text(json_at(j, i)));
}

static void read_chain(struct json data, struct story_event *e)
{
	struct json transfer = json_maybe(data, "transfer");
	struct json names = json_maybe(data, "intents");

	e->has_tx |= read_hash(data, "tx_hash", &e->tx);
	e->has_other_tx = read_hash(data, "other_tx_hash", &e->other_tx);
	read_block(data, "block", &e->block);
	read_block(data, "old_tip", &e->old_tip);
	read_block(data, "new_tip", &e->new_tip);
	read_block(data, "ancestor", &e->ancestor);
	/* Begun anew below our first block: what was ours begins above it. */
	if (json_has(data, "depth"))
		e->ancestor.height = e->old_tip.height - json_u64(json_member(data, "depth"));
	read_block(data, "watermark", &e->watermark);
	read_block(data, "claimed", &e->claimed);
	if (transfer.value)
		read_transfer(transfer, e);
	if (names.value)
		read_names(names, e);
}

static void read_data(struct json data, struct story_event *e)
{
	struct json intent = json_maybe(data, "intent");
	struct json evidence = json_maybe(data, "evidence");

	read_reason(data, &e->reason);
	if (intent.value)
		read_intent(intent, e);
	if (evidence.value)
		read_evidence(evidence, e);
	if (!intent.value)
		read_chain(data, e);
}

enum err story_event_read(struct slice body, struct story_event *out, struct complaint *why)
{
	struct json_doc *doc = json_open(body, why);
	struct json root;
	enum err err;

	*out = (struct story_event){ 0 };
	if (!doc)
		return E_INPUT;
	root = json_root(doc);
	read_text(root, "type", out->type, sizeof(out->type));
	out->time_ms = json_time_ms(json_member(root, "timestamp"));
	read_data(json_member(root, "data"), out);
	err = json_finish(doc, why);
	json_close(doc);
	return err;
}

bool story_event_is(const struct story_event *e, const char *type)
{
	return strcmp(e->type, type) == 0;
}
