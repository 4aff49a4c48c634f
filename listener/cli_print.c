#include "listener/cli_print.h"

#include <stdio.h>
#include <string.h>

#define CELL_MAX 400

/* The member as text, "-" where it is none. */
static const char *cell(struct json object, const char *name, char out[CELL_MAX])
{
	struct json j = json_maybe(object, name);

	if (json_is_integer(j))
		snprintf(out, CELL_MAX, "%llu", (unsigned long long)json_u64(j));
	else
		snprintf(out, CELL_MAX, "%s", json_is_string(j) ? json_text(j) : "-");
	for (char *p = out; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	return out;
}

/* What was settled and taken back is settled still, by its state alone. */
static const char *state_cell(struct json intent, char out[CELL_MAX])
{
	size_t len = strlen(cell(intent, "state", out));

	if (json_has(intent, "reversed"))
		snprintf(out + len, CELL_MAX - len, ", reversed");
	return out;
}

/* Enough of a hash or an address to tell it by. */
static const char *short_cell(struct json object, const char *name, char out[CELL_MAX])
{
	size_t len = strlen(cell(object, name, out));

	if (len >= 42 && strncmp(out, "0x", 2) == 0) {
		memcpy(out + 10, "..", 2);
		memmove(out + 12, out + len - 4, 5);
	}
	return out;
}

void cli_print_outcome(struct json top)
{
	struct json intent = json_member(top, "intent");
	char id[CELL_MAX], state[CELL_MAX], outcome[CELL_MAX];

	cell(intent, "id", id);
	cell(intent, "state", state);
	cell(top, "outcome", outcome);
	printf("%s %s", id, state);
	if (strcmp(outcome, "-") != 0)
		printf(" %s", outcome);
	putchar('\n');
}

/* Tables. */

#define COLUMNS 6
#define STATE_COLUMN 1
static const char *const titles[COLUMNS] = { "ID", "STATE", "AMOUNT", "TOKEN", "PAYEE", "TX" };
static const char *const members[COLUMNS] = { "id", "state", "amount", "token", "payee", "tx_hash" };

static const char *column(struct json intent, unsigned k, char out[CELL_MAX])
{
	return k == STATE_COLUMN ? state_cell(intent, out) : short_cell(intent, members[k], out);
}

static void measure(struct json list, int widths[COLUMNS])
{
	char text[CELL_MAX];

	for (unsigned k = 0; k < COLUMNS; k++)
		widths[k] = (int)strlen(titles[k]);
	for (size_t i = 0; i < json_length(list); i++) {
		for (unsigned k = 0; k < COLUMNS; k++) {
			int len = (int)strlen(column(json_at(list, i), k, text));

			widths[k] = len > widths[k] ? len : widths[k];
		}
	}
}

static void print_column(unsigned k, const char *text, const int widths[COLUMNS])
{
	if (k + 1 == COLUMNS)
		printf("%s\n", text);
	else
		printf("%-*s  ", widths[k], text);
}

void cli_print_intents(struct json top)
{
	struct json list = json_member(top, "intents");
	char text[CELL_MAX];
	int widths[COLUMNS];

	measure(list, widths);
	for (unsigned k = 0; json_length(list) && k < COLUMNS; k++)
		print_column(k, titles[k], widths);
	for (size_t i = 0; i < json_length(list); i++) {
		for (unsigned k = 0; k < COLUMNS; k++)
			print_column(k, column(json_at(list, i), k, text), widths);
	}
	if (json_has(top, "next"))
		fprintf(stderr, "tidemark: there are more: --after %s\n", cell(top, "next", text));
}

/* One intent. */

static void print_members(struct json object)
{
	static const char *const names[] = { "id", "state", "version", "chain_id", "token", "amount", "payee", "payer",
					     "watch", "expires_at", "reverses", "merchant_id", "idempotency_key",
					     "tx_hash", "created_at", "entered_at" };
	char text[CELL_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (json_has(object, names[i]))
			printf("%-16s %s\n", names[i], cell(object, names[i], text));
	}
	if (json_has(object, "reversed"))
		printf("%-16s %s\n", "reversed", "yes");
}

static void print_attempts(struct json list)
{
	char at[CELL_MAX], hash[CELL_MAX], sender[CELL_MAX], nonce[CELL_MAX];

	if (json_length(list))
		puts("\nattempts");
	for (size_t i = 0; i < json_length(list); i++) {
		struct json a = json_at(list, i);

		printf("  %s  %s  sender %s nonce %s\n", cell(a, "at", at), cell(a, "tx_hash", hash), cell(a, "sender", sender),
		       cell(a, "nonce", nonce));
	}
}

static void print_entry(struct json h)
{
	char at[CELL_MAX], version[CELL_MAX], to[CELL_MAX], actor[CELL_MAX], text[CELL_MAX];

	printf("  %s  %3s  %-13s %s", cell(h, "at", at), cell(h, "version", version), cell(h, "to", to),
	       cell(h, "actor", actor));
	if (json_has(h, "tx_hash"))
		printf("  tx %s", short_cell(h, "tx_hash", text));
	if (json_has(h, "block"))
		printf("  block %s", cell(json_member(h, "block"), "number", text));
	if (json_has(h, "reason")) {
		printf("  %s", cell(json_member(h, "reason"), "code", text));
		if (cell(json_member(h, "reason"), "text", text)[0])
			printf(": %s", text);
	}
	putchar('\n');
}

void cli_print_intent(struct json top)
{
	struct json history = json_member(top, "history");

	print_members(json_member(top, "intent"));
	print_attempts(json_member(top, "attempts"));
	puts("\nhistory");
	for (size_t i = 0; i < json_length(history); i++)
		print_entry(json_at(history, i));
}

/* Chains. */

static void print_place(const char *title, struct json block)
{
	char number[CELL_MAX], hash[CELL_MAX], time[CELL_MAX];

	printf("  %-18s %s %s", title, cell(block, "number", number), cell(block, "hash", hash));
	if (json_has(block, "time"))
		printf(" %s", cell(block, "time", time));
}

static void print_watermark(struct json mark)
{
	char rule[CELL_MAX], limit[CELL_MAX];

	print_place(cell(mark, "rule", rule), mark);
	if (json_has(mark, "up_to"))
		printf(" up to %s", cell(mark, "up_to", limit));
	puts(json_bool(json_member(mark, "suspended")) ? " suspended" : "");
}

static void print_latch(struct json latch)
{
	char number[CELL_MAX], ours[CELL_MAX], theirs[CELL_MAX];

	printf("  %-18s %s ours %s theirs %s\n", "latched at", cell(latch, "number", number), cell(latch, "ours", ours),
	       cell(latch, "theirs", theirs));
}

static void print_unproven(struct json block)
{
	char hash[CELL_MAX], since[CELL_MAX];

	printf("  %-18s %s since %s\n", "unproven", cell(block, "hash", hash), cell(block, "since", since));
}

static void print_endpoint(struct json e)
{
	char host[CELL_MAX], health[CELL_MAX], head[CELL_MAX] = "-", lies[CELL_MAX], why[CELL_MAX];

	if (json_has(e, "head"))
		cell(json_member(e, "head"), "number", head);
	printf("  %-18s %s %s, head %s, lies %s", "endpoint", cell(e, "host", host), cell(e, "health", health), head,
	       cell(e, "lies", lies));
	if (cell(e, "why", why)[0])
		printf(": %s", why);
	putchar('\n');
}

static void print_chain(struct json chain)
{
	struct json marks = json_member(chain, "watermarks"), endpoints = json_member(chain, "endpoints");
	char id[CELL_MAX], trouble[CELL_MAX];

	cell(chain, "trouble", trouble);
	printf("chain %s: %s\n", cell(chain, "chain_id", id), strcmp(trouble, "none") == 0 ? "ok" : trouble);
	if (json_has(chain, "tip"))
		print_place("tip", json_member(chain, "tip")), putchar('\n');
	if (json_has(chain, "head"))
		print_place("head", json_member(chain, "head")), putchar('\n');
	for (size_t i = 0; i < json_length(marks); i++)
		print_watermark(json_at(marks, i));
	if (json_has(chain, "latch"))
		print_latch(json_member(chain, "latch"));
	if (json_has(chain, "unproven"))
		print_unproven(json_member(chain, "unproven"));
	for (size_t i = 0; i < json_length(endpoints); i++)
		print_endpoint(json_at(endpoints, i));
}

void cli_print_chain(struct json top)
{
	print_chain(json_member(top, "chain"));
}

void cli_print_chains(struct json top)
{
	struct json chains = json_member(top, "chains");

	if (!json_length(chains))
		puts("no chain is configured or stored");
	for (size_t i = 0; i < json_length(chains); i++)
		print_chain(json_at(chains, i));
}

void cli_print_status(struct json top)
{
	struct json counts = json_member(top, "intents");
	char text[CELL_MAX];

	printf("store %s, ", cell(top, "store", text));
	if (json_has(top, "pid"))
		printf("daemon %s\n", cell(top, "pid", text));
	else
		puts("no daemon");
	for (size_t i = 0; json_name_at(counts, i); i++)
		printf("  %-18s %s\n", json_name_at(counts, i), cell(counts, json_name_at(counts, i), text));
	cli_print_chains(top);
}
