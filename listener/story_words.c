#include "listener/story_words.h"

#include "listener/story_page.h"

#include <string.h>

/* Reasons. */

struct words {
	const char *code;
	bool amounts;		/* numbers in the text are base units */
	const char *person;	/* what a person is asked */
};

static const struct words table[] = {
	{ "paid", true,
	  "" },
	{ "reverted", false,
	  "the transaction failed, so no money moved: end it as failed" },
	{ "already_claimed", false,
	  "one transfer pays once, and this one pays another intent: end it as failed, or ask the "
	  "payer which transfer was meant" },
	{ "underpaid", true,
	  "settle it for less, or give it back and end it as failed" },
	{ "overpaid", true,
	  "settle it and give the rest back, or give all back and end it as failed" },
	{ "wrong_payer", false,
	  "the money came from an address that was not expected: settle it if it was meant for "
	  "this, or give it back" },
	{ "wrong_token", false,
	  "what came is another token, perhaps a worthless one with a familiar name: do not count "
	  "it as money" },
	{ "no_transfer", false,
	  "the transaction that was named brought the payee nothing: ask the payer for the right "
	  "one, or end it as failed" },
	{ "balance_mismatch", true,
	  "the log says that money came and the payee's balance says that it did not: find out "
	  "why before anything is shipped" },
	{ "no_witness", false,
	  "the balance could not be checked, and the policy asks for it: check it elsewhere" },
	{ "too_old", false,
	  "the money moved before anybody asked for it, so it was meant for something else" },
	{ "late", false,
	  "it came after the expiry: settle it all the same, or give it back" },
	{ "unproven", false,
	  "the block could not be proven and was taken on a node's word: check it elsewhere" },
	{ "tx_missing", false,
	  "its transaction was never mined, and still may be: end it only when it can no longer "
	  "land" },
	{ "paid_twice", false,
	  "a second transaction paid the same intent: it may have to be given back" },
	{ "after_failed", false,
	  "the money came after the intent had ended: it may have to be given back" },
	{ "returned", false,
	  "a payment that had been reversed is on the chain again" },
	{ "misfit", false,
	  "no open intent asks for this: somebody must say what it is for, or give it back" },
	{ "ambiguous", false,
	  "more than one intent fits and nothing is guessed: the relayer names the one that it "
	  "pays" },
};

static const struct words *find(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].code, code) == 0)
			return &table[i];
	}
	return NULL;
}

const char *words_for_person(const char *code)
{
	const struct words *w = find(code);

	return w ? w->person : "settle it or end it as failed";
}

const char *words_end(struct buf *out)
{
	buf_put_u8(out, '\0');
	out->len--;
	return (const char *)out->data;
}

/* Money. */

static size_t token_index(const struct chain_config *c, const struct address *token)
{
	size_t i = 0;

	while (i < c->token_count && !address_eq(&c->tokens[i], token))
		i++;
	return i;
}

/* The number alone; base units where the token is not known. */
static void put_amount(struct buf *out, const struct chain_config *c, const struct address *token,
		       const struct u256 *value)
{
	size_t i = token_index(c, token);
	char text[AMOUNT_TEXT];

	buf_put_text(out, amount_format(value, i < c->token_count ? c->decimals[i] : 0, text));
}

static void put_symbol(struct buf *out, const struct chain_config *c, const struct address *token)
{
	size_t i = token_index(c, token);
	char text[SHORT_TEXT];

	if (i < c->token_count)
		buf_printf(out, " %s", c->symbols[i]);
	else
		buf_printf(out, " base units of %s", short_address(token, text));
}

void words_money(struct buf *out, const struct chain_config *c, const struct address *token,
		 const struct u256 *value)
{
	put_amount(out, c, token, value);
	put_symbol(out, c, token);
}

void words_transfers(struct buf *out, const struct chain_config *c, const struct story_event *e)
{
	char from[SHORT_TEXT], to[SHORT_TEXT], tx[SHORT_TEXT];

	for (size_t i = 0; i < e->transfer_count; i++) {
		const struct story_transfer *tr = &e->transfers[i];

		buf_put_text(out, i ? " + " : "");
		words_money(out, c, &tr->token, &tr->value);
		buf_printf(out, " from %s", short_address(&tr->from, from));
	}
	if (e->transfer_count)
		buf_printf(out, " to %s, ", short_address(&e->transfers[0].to, to));
	if (e->has_tx)
		buf_printf(out, "tx %s", short_hash(&e->tx, tx));
}

/* A reason's text was made for machines and people: full hashes, base units. */

static size_t digits_at(const char *text)
{
	return strspn(text, "0123456789");
}

static bool is_hash_at(const char *text)
{
	return strncmp(text, "0x", 2) == 0 && strspn(text + 2, "0123456789abcdef") == 64;
}

static bool has_more_digits(const char *text)
{
	return strpbrk(text, "0123456789") != NULL;
}

static void put_number(struct buf *out, const struct chain_config *c, const struct address *token,
		       const char *text, size_t len)
{
	struct u256 value;

	if (!u256_parse((struct slice){ (const uint8_t *)text, len }, &value)) {
		buf_put(out, text, len);
		return;
	}
	put_amount(out, c, token, &value);
	if (!has_more_digits(text + len))
		put_symbol(out, c, token);
}

static void put_text(struct buf *out, const struct chain_config *c, const struct address *token,
		     const char *text)
{
	for (size_t len; *text; text += len) {
		len = digits_at(text);
		if (is_hash_at(text)) {
			buf_printf(out, "%.6s..%.4s", text, text + 62);
			len = 66;
		} else if (len && token) {
			put_number(out, c, token, text, len);
		} else {
			len = len ? len : 1;
			buf_put(out, text, len);
		}
	}
}

void words_reason(struct buf *out, const struct chain_config *c, const struct address *token,
		  const struct reason *reason)
{
	const struct words *w = find(reason->code);

	buf_printf(out, "%s%s", reason->code, reason->text[0] ? ": " : "");
	put_text(out, c, w && w->amounts ? token : NULL, reason->text);
}

/* Evidence. */

void words_finality(struct buf *out, const struct chain_config *c, const struct story_event *e)
{
	(void)c;
	if (!e->watermark.known)
		return;
	buf_printf(out, "block %llu is final", (unsigned long long)e->block.height);
	if (e->watermark.height > e->block.height)
		buf_printf(out, ", as are all up to block %llu", (unsigned long long)e->watermark.height);
	buf_printf(out, " (%s)", e->rule);
}

void words_proof(struct buf *out, const struct chain_config *c, const struct story_event *e)
{
	(void)c;
	if (strcmp(e->log_proof, "receipts root") == 0)
		buf_put_text(out, "the transfer's log is proven by the block's receipts root");
	else if (e->log_proof[0])
		buf_put_text(out, "the transfer's log is the node's word, not proven");
}

void words_witness(struct buf *out, const struct chain_config *c, const struct story_event *e)
{
	if (strcmp(e->witness, "agrees") == 0) {
		buf_put_text(out, "the payee's balance agrees: ");
		put_amount(out, c, &e->token, &e->before);
		buf_put_text(out, " → ");
		words_money(out, c, &e->token, &e->after);
	} else if (strcmp(e->witness, "disagrees") == 0) {
		buf_put_text(out, "the payee's balance disagrees");
	} else if (strcmp(e->witness, "not available") == 0) {
		buf_put_text(out, "the payee's balance could not be read");
	} else if (strcmp(e->witness, "pending") == 0) {
		buf_put_text(out, "the payee's balance is still to be read");
	}
}

/* Policy. */

static void put_rule(struct buf *out, const struct finality_tier *tier)
{
	static const char *const tags[TAGS] = {
		[TAG_SAFE] = "the network calls it safe",
		[TAG_FINALIZED] = "the network calls it finalized",
	};

	if (tier->tag != TAG_NONE)
		buf_put_text(out, tags[tier->tag]);
	if (tier->depth)
		buf_printf(out, "%sit is %llu deep", tier->tag != TAG_NONE ? " and " : "",
			   (unsigned long long)tier->depth);
}

void words_policy(struct buf *out, const struct chain_config *c)
{
	unsigned decimals = c->token_count ? c->decimals[0] : 0;
	const struct finality_policy *f = &c->finality;
	char limit[AMOUNT_TEXT];

	buf_put_text(out, "A block is final when ");
	for (unsigned i = 0; i < f->tier_count; i++) {
		buf_put_text(out, i ? "; " : "");
		if (f->tiers[i].has_limit)
			buf_printf(out, "(for up to %s) ", amount_format(&f->tiers[i].up_to, decimals, limit));
		else if (i)
			buf_put_text(out, "(for more) ");
		put_rule(out, &f->tiers[i]);
	}
	buf_put_text(out, ".");
}
