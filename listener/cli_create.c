#include "listener/cli_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* As the interface wants them. */
struct creation {
	char chain[32];
	char token[ADDRESS_TEXT + 64];	/* an address; empty: only a symbol is known */
	char amount[160];
	bool declared;			/* the token came with its decimals */
	unsigned decimals;
};

/* A token of a store that is opened here; one that is configured already stays as it is. */
static void know_token(struct cli *c, const char *symbol, const struct address *address, uint8_t decimals)
{
	struct chain_config *config;
	uint64_t id;

	if (!c->values[O_CHAIN] || !u64_parse(slice_of_text(c->values[O_CHAIN]), &id))
		return;
	config = cli_know_chain(&c->world, id);
	if (config && !config_has_token(config, address))
		config_add_token(config, symbol, address, decimals);
}

/* SYMBOL, ADDRESS or SYMBOL:ADDRESS:DECIMALS. */
static void read_token(struct cli *c, struct creation *n)
{
	const char *text = c->values[O_TOKEN], *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
	struct address address;
	char symbol[SYMBOL_MAX];
	uint64_t decimals;

	if (strncmp(text, "0x", 2) == 0)
		snprintf(n->token, sizeof(n->token), "%.100s", text);
	if (!second || first - text >= SYMBOL_MAX || !u64_parse(slice_of_text(second + 1), &decimals) || decimals > 77 ||
	    !address_parse((struct slice){ (const uint8_t *)first + 1, (size_t)(second - first - 1) }, &address))
		return;
	snprintf(symbol, sizeof(symbol), "%.*s", (int)(first - text), text);
	snprintf(n->token, sizeof(n->token), "%.*s", (int)(second - first - 1), first + 1);
	n->declared = true;
	n->decimals = (unsigned)decimals;
	know_token(c, symbol, &address, (uint8_t)decimals);
}

/* By its address, if one is known. */
static bool is_wanted(struct json token, const struct creation *n, const char *symbol)
{
	struct address have, want;

	if (!n->token[0])
		return strcmp(json_text(json_member(token, "symbol")), symbol) == 0;
	return address_parse(slice_of_text(json_text(json_member(token, "address"))), &have) &&
	       address_parse(slice_of_text(n->token), &want) && address_eq(&have, &want);
}

/* The token in the chain's configuration, whose decimals count. */
static bool find_token(struct cli *c, struct json chain, struct creation *n)
{
	struct json tokens = json_member(chain, "tokens"), found = { 0 };
	unsigned count = 0, decimals;

	for (size_t i = 0; i < json_length(tokens); i++) {
		if (!is_wanted(json_at(tokens, i), n, c->values[O_TOKEN]))
			continue;
		found = json_at(tokens, i);
		count++;
	}
	if (count != 1) {
		complain(&c->why, E_INPUT, "--token: chain %s has %u tokens called %.80s", n->chain, count, c->values[O_TOKEN]);
		return false;
	}
	decimals = (unsigned)json_u64(json_member(found, "decimals"));
	if (n->declared && n->decimals != decimals) {
		complain(&c->why, E_INPUT, "--token: on chain %s it has %u decimals, not %u", n->chain, decimals, n->decimals);
		return false;
	}
	if (!n->token[0])
		snprintf(n->token, sizeof(n->token), "%s", json_text(json_member(found, "address")));
	n->decimals = decimals;
	return true;
}

/* Base units of "12.50", exactly; false if it has more digits than the token. */
static bool scale(const char *text, unsigned decimals, char *out, size_t size)
{
	size_t whole = strspn(text, "0123456789");
	const char *point = text + whole;
	size_t part = *point == '.' ? strspn(point + 1, "0123456789") : 0;

	if (!whole || (*point && (*point != '.' || !part || point[1 + part])) || part > decimals ||
	    whole + decimals >= size)
		return false;
	snprintf(out, size, "%.*s%.*s%0*d", (int)whole, text, (int)part, *point ? point + 1 : "", (int)(decimals - part), 0);
	out[whole + decimals] = '\0';
	return true;
}

static bool read_amount(struct cli *c, struct creation *n)
{
	if (!c->values[O_DECIMAL]) {
		snprintf(n->amount, sizeof(n->amount), "%.150s", c->values[O_AMOUNT]);
		return true;
	}
	if (scale(c->values[O_DECIMAL], n->decimals, n->amount, sizeof(n->amount)))
		return true;
	complain(&c->why, E_INPUT, "--decimal-amount: \"%.80s\", want digits with at most %u behind the point",
		 c->values[O_DECIMAL], n->decimals);
	return false;
}

/* What the interface knows of the chain: its id, the token's address and decimals, as far as they are wanted. */
static bool ask_chain(struct cli *c, struct creation *n)
{
	struct json_doc *doc;
	struct json chain;
	bool found = cli_find_chain(c, &doc, &chain);

	if (found)
		snprintf(n->chain, sizeof(n->chain), "%llu", (unsigned long long)json_u64(json_member(chain, "chain_id")));
	if (found && (!n->token[0] || c->values[O_DECIMAL]))
		found = find_token(c, chain, n);
	json_close(doc);
	return found;
}

static bool resolve(struct cli *c, struct creation *n)
{
	uint64_t id;

	if (c->values[O_CHAIN]) {
		snprintf(n->chain, sizeof(n->chain), "%s", c->values[O_CHAIN]);
		if (u64_parse(slice_of_text(c->values[O_CHAIN]), &id))
			cli_know_chain(&c->world, id);
	}
	read_token(c, n);
	if ((!n->chain[0] || !n->token[0] || c->values[O_DECIMAL]) && !ask_chain(c, n))
		return false;
	return read_amount(c, n);
}

static bool make_id(struct cli *c, char out[20])
{
	uint8_t random[8];

	memcpy(out, "pi_", 3);
	if (getentropy(random, sizeof(random))) {
		complain(&c->why, E_IO, "no random bytes for an id: %s", strerror(errno));
		return false;
	}
	hex_encode(random, sizeof(random), out + 3);
	out[19] = '\0';
	return true;
}

static void put_creation(struct cli *c, const struct creation *n, const char *id, struct buf *body)
{
	json_open_object(body, NULL);
	json_put_text(body, "id", id);
	json_put_text(body, "merchant_id", c->values[O_MERCHANT] ? c->values[O_MERCHANT] : "default");
	json_put_text(body, "idempotency_key", c->values[O_KEY] ? c->values[O_KEY] : id);
	json_put_text(body, "chain_id", n->chain);
	json_put_text(body, "token", n->token);
	json_put_text(body, "payee", c->values[O_PAYEE]);
	json_put_text(body, "amount", n->amount);
	cli_put_given(body, "payer", c->values[O_PAYER]);
	cli_put_given(body, "watch", c->values[O_WATCH]);
	cli_put_given(body, "expires_at", c->values[O_EXPIRES]);
	cli_put_given(body, "reverses", c->values[O_REVERSES]);
	json_close_object(body);
}

/* An intent as it is written elsewhere, from standard input. */
static bool read_stdin(struct cli *c, struct buf *body)
{
	const size_t most = (size_t)1 << 20;
	ssize_t got;

	do {
		got = read(STDIN_FILENO, buf_extend(body, 65536), 65536);
		body->len -= 65536 - (got > 0 ? (size_t)got : 0);
	} while ((got > 0 && body->len <= most) || (got < 0 && errno == EINTR));
	if (got) {
		complain(&c->why, E_INPUT, "stdin: %s", got < 0 ? strerror(errno) : "more than an intent may have");
		return false;
	}
	return true;
}

static void know_chain_of(struct cli *c, struct slice text)
{
	struct json_doc *doc = json_open(text, &c->why);

	if (doc && json_is_object(json_root(doc)) && json_has(json_root(doc), "chain_id"))
		cli_know_chain(&c->world, json_u64(json_member(json_root(doc), "chain_id")));
	json_close(doc);
}

static bool is_blank(struct slice text)
{
	while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
		text.len--;
	return !text.len;
}

static int create_from_stdin(struct cli *c)
{
	struct buf body = { 0 };

	if (!read_stdin(c, &body)) {
		buf_free(&body);
		return cli_fail(&c->why);
	}
	if (is_blank(buf_slice(&body))) {
		buf_free(&body);
		return cli_usage("intent create -: standard input is %s", "empty");
	}
	know_chain_of(c, buf_slice(&body));
	return cli_post(c, xstrdup("/v1/intents"), &body, cli_print_outcome);
}

int cli_create(struct cli *c)
{
	struct creation n = { .decimals = 0 };
	struct buf body = { 0 };
	char id[20];

	c->world.may_make = true;
	if (c->word_count)
		return strcmp(c->words[0], "-") == 0 ? create_from_stdin(c)
						     : cli_usage("intent create: what is \"%s\"? Only - is a word here", c->words[0]);
	if (!c->values[O_TOKEN] || !c->values[O_PAYEE] || (c->values[O_AMOUNT] != NULL) == (c->values[O_DECIMAL] != NULL))
		return cli_usage("intent create: want --token, --payee and one of --amount and --decimal-amount%s", "");
	if (!resolve(c, &n) || !make_id(c, id))
		return cli_fail(&c->why);
	put_creation(c, &n, c->values[O_ID] ? c->values[O_ID] : id, &body);
	return cli_post(c, xstrdup("/v1/intents"), &body, cli_print_outcome);
}
