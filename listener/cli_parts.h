/*
 * cli_parts - what the files of the command line share: one command with its words and options.
 */
#ifndef LISTENER_CLI_PARTS_H
#define LISTENER_CLI_PARTS_H

#include "common/json.h"
#include "listener/cli.h"
#include "listener/cli_ask.h"
#include "listener/cli_print.h"

enum cli_option {
	O_STORE, O_CONFIG, O_CHAIN, O_TOKEN, O_PAYEE, O_PAYER, O_AMOUNT, O_DECIMAL, O_ID, O_MERCHANT, O_KEY,
	O_WATCH, O_EXPIRES, O_REVERSES, O_SENDER, O_NONCE, O_ACTOR, O_TX, O_REASON, O_VERSION, O_STATE, O_LIMIT,
	O_AFTER,
	OPTIONS
};
extern const char *const cli_option_names[OPTIONS];

#define CLI_WORDS_MAX 2

struct cli {
	const char *values[OPTIONS];
	const char *words[CLI_WORDS_MAX];
	int word_count;
	bool json;
	struct settings settings;
	struct cli_world world;
	struct complaint why;
};

/* "/v1/KIND/NAME" and then @rest, the name encoded; freed by the caller. */
char *cli_make_path(const char *kind, const char *name, const char *rest);
void cli_put_encoded(struct buf *path, const char *text);

/* Ask, and print the answer by @print or, if so wished, as it came; the exit code. */
int cli_get(struct cli *c, const char *path, void (*print)(struct json top));
/* Frees @path and @body. */
int cli_post(struct cli *c, char *path, struct buf *body, void (*print)(struct json top));

/* A member of the body, where the option was given. */
void cli_put_given(struct buf *body, const char *name, const char *text);

/*
 * The chain that --chain names, or the only one, as the interface tells it.  False with c->why; *@doc, of which *@chain
 * is a part, is closed by the caller in any case.
 */
bool cli_find_chain(struct cli *c, struct json_doc **doc, struct json *chain);

/* The commands. */
int cli_create(struct cli *c);
int cli_attempt(struct cli *c);
int cli_move(struct cli *c);
int cli_show(struct cli *c);
int cli_list(struct cli *c);
int cli_chain_status(struct cli *c);
int cli_accept(struct cli *c);
int cli_accept_unproven(struct cli *c);
int cli_whole(struct cli *c);

#endif
