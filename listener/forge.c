#include "listener/forge.h"

#include "common/json.h"
#include "listener/forge_chain.h"
#include "listener/forge_emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line. */

static void on_chain(struct forge *f)
{
	f->chain_id = line_number(f);
}

static void on_time(struct forge *f)
{
	f->clock_ms = line_time(f, f->clock_ms);
}

static void on_start(struct forge *f)
{
	f->start = line_number(f);
}

static void on_header(struct forge *f)
{
	static const struct {
		const char *name;
		enum header_fields fields;
	} forms[] = {
		{ "frontier", HEADER_FRONTIER }, { "london", HEADER_LONDON },
		{ "shanghai", HEADER_SHANGHAI }, { "cancun", HEADER_CANCUN },
		{ "prague", HEADER_PRAGUE },	 { "amsterdam", HEADER_AMSTERDAM },
	};
	const char *name = line_word(f);

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (strcmp(forms[i].name, name) == 0) {
			f->fields = forms[i].fields;
			return;
		}
	}
	forge_fail(f, "\"%s\" is no form of header: %s", name, f->usage);
}

static void on_genesis(struct forge *f)
{
	const char *text = line_word(f);

	if (!f->err && !hash_parse(slice_of_text(text), &f->genesis))
		forge_fail(f, "\"%s\" is no hash", text);
}

static void on_finality(struct forge *f)
{
	struct complaint why;
	struct json_doc *doc;

	f->finality.len = 0;
	buf_put_text(&f->finality, line_rest(f));
	doc = json_open(buf_slice(&f->finality), &why);
	if (!doc)
		forge_fail(f, "finality: %s", why.text);
	json_close(doc);
	buf_put_u8(&f->finality, '\0');
}

static void on_witness(struct forge *f)
{
	static const char *const policies[] = { "when_available", "required", "off" };
	const char *name = line_word(f);

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		if (strcmp(policies[i], name) == 0)
			f->witness = policies[i];
	}
	if (!f->witness)
		forge_fail(f, "\"%s\" is no policy: %s", name, f->usage);
}

static void on_note(struct forge *f)
{
	f->note.len = 0;
	buf_put_text(&f->note, line_rest(f));
	buf_put_u8(&f->note, '\0');
}

static void on_token(struct forge *f)
{
	const char *symbol = line_name(f);
	struct address a = line_address(f);

	forge_bind(f, NAME_TOKEN, symbol, a, line_number(f));
}

static void on_contract(struct forge *f)
{
	const char *name = line_name(f);

	forge_bind(f, NAME_CONTRACT, name, line_more(f) ? line_address(f) : forge_address(name), 0);
}

static void on_account(struct forge *f)
{
	const char *name = line_name(f);

	forge_bind(f, NAME_ACCOUNT, name, line_address(f), 0);
}

static void begin_tape(struct forge *f)
{
	buf_printf(f->out, "{\"tape\":1,\"chain_id\":%llu", (unsigned long long)f->chain_id);
	emit_json(f->out, "tokens", "[");
	for (size_t i = 0; i < f->name_count; i++) {
		if (f->names[i].kind != NAME_TOKEN)
			continue;
		emit_json(f->out, NULL, "{");
		json_put_text(f->out, "symbol", f->names[i].name);
		json_put_address(f->out, "address", &f->names[i].address);
		buf_printf(f->out, ",\"decimals\":%llu}", (unsigned long long)f->names[i].decimals);
	}
	buf_put_text(f->out, "]");
	emit_json(f->out, "finality",
		  f->finality.len ? (char *)f->finality.data : "{\"tag\":\"finalized\"}");
	if (f->witness)
		json_put_text(f->out, "witness", f->witness);
	json_put_time(f->out, "time", f->clock_ms);
	if (!hash_is_zero(&f->genesis))
		json_put_hash(f->out, "genesis", &f->genesis);
	if (f->note.len)
		json_put_text(f->out, "note", (char *)f->note.data);
	buf_put_text(f->out, "}\n");
	f->begun = true;
}

/* Intents. */

struct intent_facts {
	const char *id, *merchant, *key, *reverses;
	struct u256 value;
	struct address token, payee, payer;
	bool has_payer, route, has_expiry;
	int64_t expires_ms;
};

static void intent_option(struct forge *f, struct intent_facts *i)
{
	if (line_take(f, "from")) {
		i->payer = line_account(f);
		i->has_payer = true;
	} else if (line_take(f, "route")) {
		i->route = true;
	} else if (line_take(f, "expires")) {
		i->expires_ms = line_time(f, f->clock_ms);
		i->has_expiry = true;
	} else if (line_take(f, "merchant")) {
		i->merchant = line_name(f);
	} else if (line_take(f, "key")) {
		i->key = line_name(f);
	} else if (line_take(f, "reverses")) {
		i->reverses = line_intent(f);
	} else {
		forge_fail(f, "\"%s\" is not understood: %s", line_word(f), f->usage);
	}
}

static void put_intent(struct forge *f, const struct intent_facts *i)
{
	char value[U256_TEXT];

	emit_json(f->out, "intent", "{");
	json_put_text(f->out, "id", i->id);
	json_put_text(f->out, "merchant_id", i->merchant ? i->merchant : "m_1");
	json_put_text(f->out, "idempotency_key", i->key ? i->key : i->id);
	buf_printf(f->out, ",\"chain_id\":%llu", (unsigned long long)f->chain_id);
	json_put_address(f->out, "token", &i->token);
	if (i->has_payer)
		json_put_address(f->out, "payer", &i->payer);
	else
		json_put_text(f->out, "payer", NULL);
	json_put_address(f->out, "payee", &i->payee);
	json_put_text(f->out, "amount", u256_format(&i->value, value));
	json_put_text(f->out, "watch", watch_name(i->route ? WATCH_ROUTE : WATCH_TX));
	if (i->has_expiry)
		json_put_time(f->out, "expires_at", i->expires_ms);
	else
		json_put_text(f->out, "expires_at", NULL);
	if (i->reverses)
		json_put_text(f->out, "reverses", i->reverses);
	buf_put_text(f->out, "}");
}

/* The same id may come twice: that is for the listener to judge. */
static void on_intent(struct forge *f)
{
	struct intent_facts i = { .id = line_name(f) };

	i.value = line_amount(f);
	i.token = line_contract(f, true);
	line_expect(f, "to");
	i.payee = line_account(f);
	while (line_more(f))
		intent_option(f, &i);
	if (!f->err && !forge_find(f, i.id, true))
		forge_bind(f, NAME_INTENT, i.id, i.payee, 0);
	buf_put_text(f->out, "{");
	put_intent(f, &i);
	buf_put_text(f->out, "}\n");
}

struct origin {
	bool given, has_sender, has_nonce;
	struct address sender;
	uint64_t nonce;
};

static struct origin origin(struct forge *f)
{
	struct origin o = { 0 };

	while (line_more(f)) {
		if (line_take(f, "sender")) {
			o.sender = line_account(f);
			o.has_sender = true;
		} else if (line_take(f, "nonce")) {
			o.nonce = line_number(f);
			o.has_nonce = true;
		} else {
			forge_fail(f, "\"%s\" is not understood: %s", line_word(f), f->usage);
		}
		o.given = true;
	}
	return o;
}

static void put_attempt(struct forge *f, const char *id, const struct hash32 *tx,
			const struct origin *o)
{
	char nonce[24];

	snprintf(nonce, sizeof(nonce), "%llu", (unsigned long long)o->nonce);
	emit_json(f->out, NULL, "{\"attempt\":{");
	json_put_text(f->out, "intent", id);
	json_put_hash(f->out, "tx_hash", tx);
	if (o->has_sender)
		json_put_address(f->out, "sender", &o->sender);
	else
		json_put_text(f->out, "sender", NULL);
	json_put_text(f->out, "nonce", o->has_nonce ? nonce : NULL);
	buf_put_text(f->out, "}}\n");
}

struct move {
	enum intent_state to;
	enum actor actor;
	const struct hash32 *tx;	/* or NULL */
	const char *code, *text;	/* or NULL */
	uint64_t version;		/* that it was made from; 0: the current one */
};

static void put_move(struct forge *f, const char *id, const struct move *m)
{
	emit_json(f->out, NULL, "{\"transition\":{");
	json_put_text(f->out, "intent", id);
	json_put_text(f->out, "to", intent_state_name(m->to));
	json_put_text(f->out, "actor", actor_name(m->actor));
	if (m->tx)
		json_put_hash(f->out, "tx_hash", m->tx);
	else
		json_put_text(f->out, "tx_hash", NULL);
	if (m->code) {
		emit_json(f->out, "reason", "{");
		json_put_text(f->out, "code", m->code);
		json_put_text(f->out, "text", m->text);
		buf_put_text(f->out, "}");
	} else {
		json_put_text(f->out, "reason", NULL);
	}
	if (m->version)
		buf_printf(f->out, ",\"version\":%llu", (unsigned long long)m->version);
	buf_put_text(f->out, "}}\n");
}

static void put_open(struct forge *f, const char *id)
{
	put_move(f, id, &(struct move){ .to = INTENT_AUTHORIZED, .actor = ACTOR_API });
	put_move(f, id, &(struct move){ .to = INTENT_SETTLING, .actor = ACTOR_RELAYER });
}

static void on_attempt(struct forge *f)
{
	const char *id = line_intent(f);
	size_t tx = line_tx(f);
	struct origin o = origin(f);

	if (!f->err)
		put_attempt(f, id, &f->txs[tx].hash, &o);
}

static void on_open(struct forge *f)
{
	put_open(f, line_intent(f));
}

static void on_send(struct forge *f)
{
	const char *id = line_intent(f);
	size_t tx = line_tx(f);
	struct origin o = origin(f);

	if (f->err)
		return;
	put_open(f, id);
	put_attempt(f, id, &f->txs[tx].hash, &o);
}

static void on_pay(struct forge *f)
{
	const char *id = line_intent(f);
	size_t tx = line_tx(f);
	struct origin o = origin(f);
	struct move m = { .to = INTENT_CONFIRMING, .actor = ACTOR_RELAYER };

	if (f->err)
		return;
	m.tx = &f->txs[tx].hash;
	put_open(f, id);
	if (o.given)
		put_attempt(f, id, m.tx, &o);
	put_move(f, id, &m);
}

static void on_move(struct forge *f)
{
	const char *id = line_intent(f), *state, *actor;
	struct move m = { 0 };
	struct hash32 tx;

	line_expect(f, "to");
	state = line_word(f);
	if (!f->err && !intent_state_parse(state, &m.to))
		forge_fail(f, "\"%s\" is no state", state);
	line_expect(f, "by");
	actor = line_word(f);
	if (!f->err && (!actor_parse(actor, &m.actor) || m.actor == ACTOR_LISTENER))
		forge_fail(f, "\"%s\" is no actor that a tape may speak for", actor);
	if (line_take(f, "tx")) {
		size_t i = line_tx(f);

		if (f->err)
			return;
		tx = f->txs[i].hash;
		m.tx = &tx;
	}
	if (line_take(f, "version"))
		m.version = line_number(f);
	if (line_take(f, "because")) {
		m.code = line_name(f);
		m.text = line_rest(f);
	}
	put_move(f, id, &m);
}

/* What the node says. */

/* Oldest first: each turn tells the lowest that is untold. */
static void tell(struct forge *f, struct sealed *b)
{
	while (!b->told) {
		struct sealed *lowest = b;

		while (lowest->has_parent && !f->blocks[lowest->parent].told)
			lowest = &f->blocks[lowest->parent];
		buf_put(f->out, lowest->line.data, lowest->line.len);
		lowest->told = true;
	}
}

static struct sealed *put_pointer(struct forge *f, const char *name)
{
	struct sealed *b = line_block(f);

	if (f->err)
		return NULL;
	tell(f, b);
	buf_put_text(f->out, "{");
	json_put_hash(f->out, name, &b->header.hash);
	buf_put_text(f->out, "}\n");
	return b;
}

static void on_tell(struct forge *f)
{
	struct sealed *b = line_block(f);

	if (b)
		tell(f, b);
}

static void on_head(struct forge *f)
{
	const struct sealed *b = put_pointer(f, "head");

	if (b && f->clock_ms < (int64_t)b->header.timestamp * 1000)
		f->clock_ms = (int64_t)b->header.timestamp * 1000;
}

static void on_safe(struct forge *f)
{
	put_pointer(f, "safe");
}

static void on_finalized(struct forge *f)
{
	put_pointer(f, "finalized");
}

static void on_accept(struct forge *f)
{
	put_pointer(f, "accept");
}

static void on_balance(struct forge *f)
{
	struct address token = line_contract(f, false), holder = line_account(f);
	struct u256 v = line_amount(f);
	struct hash32 value = forge_word(&v);
	const struct sealed *b;

	line_expect(f, "at");
	b = line_block(f);
	if (f->err)
		return;
	emit_json(f->out, NULL, "{\"balance\":{");
	json_put_address(f->out, "token", &token);
	json_put_address(f->out, "account", &holder);
	json_put_hash(f->out, "block", &b->header.hash);
	json_put_hash(f->out, "value", &value);
	buf_put_text(f->out, "}}\n");
}

static void on_clock(struct forge *f)
{
	int64_t at = line_time(f, f->clock_ms);

	if (at < f->clock_ms)
		forge_fail(f, "the clock cannot go back");
	f->clock_ms = at;
	buf_put_text(f->out, "{");
	json_put_time(f->out, "clock", at);
	buf_put_text(f->out, "}\n");
}

static void on_fault(struct forge *f)
{
	static const char *const answers[] = { "null", "empty", "late", "other", "error" };
	const char *method = line_name(f), *answer;
	const struct sealed *b = line_take(f, "-") ? NULL : line_block(f);
	uint64_t times;
	size_t i = 0;

	answer = line_word(f);
	while (i < ARRAY_SIZE(answers) && strcmp(answers[i], answer) != 0)
		i++;
	if (!f->err && i == ARRAY_SIZE(answers))
		forge_fail(f, "\"%s\" is no answer: %s", answer, f->usage);
	times = line_more(f) ? line_number(f) : 1;
	emit_json(f->out, NULL, "{\"fault\":{");
	json_put_text(f->out, "method", method);
	if (b)
		json_put_hash(f->out, "block", &b->header.hash);
	json_put_text(f->out, "answer", answer);
	buf_printf(f->out, ",\"times\":%llu}}\n", (unsigned long long)times);
}

enum place {
	BEFORE,			/* makes the first line */
	ANYWHERE,		/* writes nothing */
	AFTER,
};

static const struct statement {
	const char *name;
	enum place place;
	void (*read)(struct forge *f);
	const char *usage;
} statements[] = {
	{ "chain", BEFORE, on_chain, "chain ID" },
	{ "time", BEFORE, on_time, "time TIME" },
	{ "start", BEFORE, on_start, "start NUMBER" },
	{ "header", BEFORE, on_header, "header frontier|london|shanghai|cancun|prague|amsterdam" },
	{ "genesis", BEFORE, on_genesis, "genesis HASH" },
	{ "finality", BEFORE, on_finality, "finality JSON" },
	{ "witness", BEFORE, on_witness, "witness when_available|required|off" },
	{ "note", BEFORE, on_note, "note TEXT" },
	{ "token", BEFORE, on_token, "token SYMBOL ADDRESS DECIMALS" },
	{ "contract", ANYWHERE, on_contract, "contract NAME [ADDRESS]" },
	{ "account", ANYWHERE, on_account, "account NAME ADDRESS" },
	{ "intent", AFTER, on_intent, "intent ID AMOUNT TOKEN to PAYEE [from PAYER] [route] "
	  "[expires TIME] [merchant NAME] [key NAME] [reverses ID]" },
	{ "attempt", AFTER, on_attempt, "attempt ID TX [sender ACCOUNT] [nonce NUMBER]" },
	{ "move", AFTER, on_move,
	  "move ID to STATE by ACTOR [tx TX] [version NUMBER] [because CODE TEXT]" },
	{ "open", AFTER, on_open, "open ID" },
	{ "send", AFTER, on_send, "send ID TX [sender ACCOUNT] [nonce NUMBER]" },
	{ "pay", AFTER, on_pay, "pay ID TX [sender ACCOUNT] [nonce NUMBER]" },
	{ "tx", ANYWHERE, forge_tx, "tx TX [reverted] [type 0..4]" },
	{ "transfer", ANYWHERE, forge_transfer, "transfer TX CONTRACT FROM TO VALUE" },
	{ "log", ANYWHERE, forge_log, "log TX CONTRACT TOPIC... [data DATA]" },
	{ "block", AFTER, forge_block, "block NAME [on PARENT] [+TIME] [TX...]" },
	{ "tell", AFTER, on_tell, "tell BLOCK" },
	{ "head", AFTER, on_head, "head BLOCK" },
	{ "safe", AFTER, on_safe, "safe BLOCK" },
	{ "finalized", AFTER, on_finalized, "finalized BLOCK" },
	{ "accept", AFTER, on_accept, "accept BLOCK" },
	{ "balance", AFTER, on_balance, "balance TOKEN ACCOUNT VALUE at BLOCK" },
	{ "clock", AFTER, on_clock, "clock TIME" },
	{ "fault", AFTER, on_fault, "fault METHOD BLOCK null|empty|late|other|error [TIMES]" },
};

static void read_statement(struct forge *f)
{
	const char *name = line_word(f);
	const struct statement *s = statements;

	while (s < statements + ARRAY_SIZE(statements) && strcmp(s->name, name) != 0)
		s++;
	if (s == statements + ARRAY_SIZE(statements)) {
		forge_fail(f, "\"%s\" is not understood", name);
		return;
	}
	f->usage = s->usage;
	if (s->place == BEFORE && f->begun)
		forge_fail(f, "\"%s\" belongs before the first intent, block or saying of the node", name);
	if (s->place == AFTER && !f->begun)
		begin_tape(f);
	if (f->err)
		return;
	s->read(f);
	if (line_more(f))
		forge_fail(f, "\"%s\" is too much: %s", f->words[f->next], s->usage);
}

static void read_lines(struct forge *f, struct slice text)
{
	for (size_t at = 0; at < text.len && !f->err;) {
		const uint8_t *end = memchr(text.data + at, '\n', text.len - at);
		size_t len = end ? (size_t)(end - text.data) - at : text.len - at;

		f->line++;
		line_split(f, (struct slice){ text.data + at, len });
		if (f->word_count)
			read_statement(f);
		at += len + 1;
	}
}

static void check_described(struct forge *f)
{
	for (size_t i = 0; i < f->tx_count && !f->err; i++) {
		f->line = f->txs[i].line;
		if (!f->txs[i].described)
			forge_fail(f, "the transaction \"%s\" is never described; \"tx %s\" if it is never mined",
			     f->txs[i].name, f->txs[i].name);
	}
}

static void forge_free(struct forge *f)
{
	for (size_t i = 0; i < f->block_count; i++)
		buf_free(&f->blocks[i].line);
	free(f->blocks);
	free(f->logs);
	free(f->txs);
	free(f->names);
	buf_free(&f->scratch);
	buf_free(&f->data);
	buf_free(&f->finality);
	buf_free(&f->note);
	buf_free(&f->cut);
	buf_free(&f->text);
}

enum err forge(const char *file, struct slice text, struct buf *out, struct complaint *why)
{
	struct forge f = {
		.file = file,
		.why = why,
		.out = out,
		.chain_id = 1,
		.start = 100,
		.fields = HEADER_PRAGUE,
		.clock_ms = 1767225600000,	/* 2026-01-01T00:00:00Z */
	};

	read_lines(&f, text);
	if (!f.err && !f.begun)
		forge_fail(&f, "there is no intent, no block and no saying of the node");
	check_described(&f);
	forge_free(&f);
	return f.err;
}
