#include "listener/cli_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Answers. */

/* What the interface refused, in its words. */
static void read_error(const struct buf *answer, struct complaint *why)
{
	struct json_doc *doc = json_open(buf_slice(answer), why);
	struct json error;

	if (!doc)
		return;
	error = json_member(json_root(doc), "error");
	complain(why, E_INPUT, "%.400s (%.40s)", json_text(json_member(error, "text")), json_text(json_member(error, "code")));
	json_close(doc);
}

static enum err print_answer(const struct buf *answer, void (*print)(struct json top), struct complaint *why)
{
	struct json_doc *doc = json_open(buf_slice(answer), why);
	enum err err = E_INPUT;

	if (doc) {
		print(json_root(doc));
		err = json_finish(doc, why);
	}
	json_close(doc);
	return err;
}

/* Ask, and print the answer by @print or, if so wished, as it came. */
static int ask(struct cli *c, const char *method, const char *path, struct slice body, void (*print)(struct json top))
{
	struct buf answer = { 0 };
	int status = cli_ask(&c->world, method, path, body, &answer, &c->why);
	enum err err = OK;

	if (status >= 400)
		read_error(&answer, &c->why);
	else if (status && c->json)
		printf("%.*s\n", (int)answer.len, (const char *)answer.data);
	else if (status)
		err = print_answer(&answer, print, &c->why);
	buf_free(&answer);
	return !status || status >= 400 || err ? cli_fail(&c->why) : EXIT_SUCCESS;
}

int cli_get(struct cli *c, const char *path, void (*print)(struct json top))
{
	return ask(c, "GET", path, (struct slice){ NULL, 0 }, print);
}

void cli_put_encoded(struct buf *path, const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~";

	for (const char *p = name; *p; p++) {
		if (strchr(plain, *p))
			buf_put_u8(path, (uint8_t)*p);
		else
			buf_printf(path, "%%%02x", (unsigned char)*p);
	}
}

char *cli_make_path(const char *kind, const char *name, const char *rest)
{
	struct buf path = { 0 };

	buf_printf(&path, "/v1/%s/", kind);
	cli_put_encoded(&path, name);
	buf_put(&path, rest, strlen(rest) + 1);
	return (char *)path.data;
}

int cli_post(struct cli *c, char *path, struct buf *body, void (*print)(struct json top))
{
	int code = ask(c, "POST", path, buf_slice(body), print);

	buf_free(body);
	free(path);
	return code;
}

void cli_put_given(struct buf *body, const char *name, const char *text)
{
	if (text)
		json_put_text(body, name, text);
}

/* The chain that is meant. */

bool cli_find_chain(struct cli *c, struct json_doc **doc, struct json *chain)
{
	char *path = c->values[O_CHAIN] ? cli_make_path("chains", c->values[O_CHAIN], "") : xstrdup("/v1/chains");
	struct buf answer = { 0 };
	int status = cli_ask(&c->world, "GET", path, (struct slice){ NULL, 0 }, &answer, &c->why);
	struct json list;
	bool found = false;

	free(path);
	*doc = NULL;
	if (status >= 400)
		read_error(&answer, &c->why);
	else if (status)
		*doc = json_open(buf_slice(&answer), &c->why);
	buf_free(&answer);
	if (!*doc)
		return false;
	if (c->values[O_CHAIN]) {
		*chain = json_member(json_root(*doc), "chain");
		return true;
	}
	list = json_member(json_root(*doc), "chains");
	found = json_length(list) == 1;
	if (found)
		*chain = json_at(list, 0);
	else
		complain(&c->why, E_INPUT, "--chain ID is wanted: %zu chains are known", json_length(list));
	return found;
}

/* The chain's id as text; false with c->why. */
static bool chain_id(struct cli *c, char out[32])
{
	struct json_doc *doc;
	struct json chain;
	bool found;

	if (c->values[O_CHAIN]) {
		snprintf(out, 32, "%s", c->values[O_CHAIN]);
		return true;
	}
	found = cli_find_chain(c, &doc, &chain);
	if (found)
		snprintf(out, 32, "%llu", (unsigned long long)json_u64(json_member(chain, "chain_id")));
	json_close(doc);
	return found;
}

/* The other commands. */

int cli_attempt(struct cli *c)
{
	struct buf body = { 0 };

	json_open_object(&body, NULL);
	json_put_text(&body, "tx_hash", c->words[1]);
	cli_put_given(&body, "sender", c->values[O_SENDER]);
	cli_put_given(&body, "nonce", c->values[O_NONCE]);
	json_close_object(&body);
	return cli_post(c, cli_make_path("intents", c->words[0], "/attempts"), &body, cli_print_outcome);
}

/* "CODE" or "CODE:TEXT". */
static void put_reason(struct buf *body, const char *text)
{
	size_t len = strcspn(text, ":");
	char *code = xstrdup(text);

	code[len] = '\0';
	json_open_object(body, "reason");
	json_put_text(body, "code", code);
	if (text[len])
		json_put_text(body, "text", text + len + 1 + strspn(text + len + 1, " "));
	json_close_object(body);
	free(code);
}

int cli_move(struct cli *c)
{
	struct buf body = { 0 };

	if (!c->values[O_ACTOR])
		return cli_usage("intent move: want --actor%s", "");
	json_open_object(&body, NULL);
	json_put_text(&body, "to", c->words[1]);
	json_put_text(&body, "actor", c->values[O_ACTOR]);
	cli_put_given(&body, "tx_hash", c->values[O_TX]);
	if (c->values[O_REASON])
		put_reason(&body, c->values[O_REASON]);
	cli_put_given(&body, "version", c->values[O_VERSION]);
	json_close_object(&body);
	return cli_post(c, cli_make_path("intents", c->words[0], "/moves"), &body, cli_print_outcome);
}

int cli_show(struct cli *c)
{
	char *path = cli_make_path("intents", c->words[0], "");
	int code = cli_get(c, path, cli_print_intent);

	free(path);
	return code;
}

int cli_list(struct cli *c)
{
	static const enum cli_option options[] = { O_STATE, O_LIMIT, O_AFTER };
	struct buf path = { 0 };
	const char *mark = "?";
	int code;

	buf_put_text(&path, "/v1/intents");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!c->values[options[i]])
			continue;
		buf_printf(&path, "%s%s=", mark, cli_option_names[options[i]] + 2);
		cli_put_encoded(&path, c->values[options[i]]);
		mark = "&";
	}
	buf_put_u8(&path, '\0');
	code = cli_get(c, (const char *)path.data, cli_print_intents);
	buf_free(&path);
	return code;
}

int cli_chain_status(struct cli *c)
{
	char *path = c->values[O_CHAIN] ? cli_make_path("chains", c->values[O_CHAIN], "") : xstrdup("/v1/chains");
	int code = cli_get(c, path, c->values[O_CHAIN] ? cli_print_chain : cli_print_chains);

	free(path);
	return code;
}

static int accept_block(struct cli *c, const char *place)
{
	struct buf body = { 0 };
	char id[32];

	if (!chain_id(c, id))
		return cli_fail(&c->why);
	json_open_object(&body, NULL);
	json_put_text(&body, "hash", c->words[0]);
	json_close_object(&body);
	return cli_post(c, cli_make_path("chains", id, place), &body, cli_print_chain);
}

int cli_accept(struct cli *c)
{
	return accept_block(c, "/accept");
}

int cli_accept_unproven(struct cli *c)
{
	return accept_block(c, "/accept-unproven");
}

int cli_whole(struct cli *c)
{
	return cli_get(c, "/v1/status", cli_print_status);
}

