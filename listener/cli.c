#include "listener/cli_parts.h"

#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_fail(const struct complaint *why)
{
	struct complaint line = *why;

	for (char *p = line.text; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	fprintf(stderr, "tidemark: %s\n", line.text);
	return EXIT_FAILURE;
}

int cli_usage(const char *fmt, const char *word)
{
	struct complaint why;
	size_t len;

	snprintf(why.text, sizeof(why.text) - 32, fmt, word);
	len = strlen(why.text);
	snprintf(why.text + len, sizeof(why.text) - len, "; see \"tidemark help\"");
	cli_fail(&why);
	return EXIT_USAGE;
}

/* Words and options. */

const char *const cli_option_names[OPTIONS] = {
	[O_STORE] = "--store", [O_CONFIG] = "--config", [O_CHAIN] = "--chain", [O_TOKEN] = "--token",
	[O_PAYEE] = "--payee", [O_PAYER] = "--payer", [O_AMOUNT] = "--amount", [O_DECIMAL] = "--decimal-amount",
	[O_ID] = "--id", [O_MERCHANT] = "--merchant", [O_KEY] = "--key", [O_WATCH] = "--watch",
	[O_EXPIRES] = "--expires", [O_REVERSES] = "--reverses", [O_SENDER] = "--sender", [O_NONCE] = "--nonce",
	[O_ACTOR] = "--actor", [O_TX] = "--tx", [O_REASON] = "--reason", [O_VERSION] = "--version",
	[O_STATE] = "--state", [O_LIMIT] = "--limit", [O_AFTER] = "--after",
};

#define BIT(option) (1u << (option))
#define ANYWHERE (BIT(O_STORE) | BIT(O_CONFIG))
#define CREATE (BIT(O_CHAIN) | BIT(O_TOKEN) | BIT(O_PAYEE) | BIT(O_PAYER) | BIT(O_AMOUNT) | BIT(O_DECIMAL) | BIT(O_ID) | \
		BIT(O_MERCHANT) | BIT(O_KEY) | BIT(O_WATCH) | BIT(O_EXPIRES) | BIT(O_REVERSES))

struct verb {
	const char *noun, *name;	/* name NULL: the noun alone */
	int words;			/* wanted, but see optional */
	bool optional;			/* the words may be left out */
	unsigned options;
	int (*run)(struct cli *c);
};

static int wrong(const struct verb *v, const char *text)
{
	struct complaint line;

	complain(&line, E_INPUT, "%s%s%s: %s", v->noun, v->name ? " " : "", v->name ? v->name : "", text);
	return cli_usage("%.400s", line.text);
}

static int find_option(const struct verb *v, const char *name)
{
	for (int o = 0; o < OPTIONS; o++) {
		if (strcmp(cli_option_names[o], name) == 0 && ((ANYWHERE | v->options) & BIT(o)))
			return o;
	}
	return -1;
}

/* 0, or the exit code of a usage that was complained about. */
static int parse(const struct verb *v, int argc, char **argv, struct cli *c)
{
	struct complaint line;

	for (int i = 0; i < argc; i++) {
		int option = argv[i][0] == '-' && argv[i][1] ? find_option(v, argv[i]) : OPTIONS;

		line.text[0] = '\0';
		if (strcmp(argv[i], "--json") == 0)
			c->json = true;
		else if (option < 0)
			complain(&line, E_INPUT, "unknown option %.80s", argv[i]);
		else if (option == OPTIONS && c->word_count == v->words)
			complain(&line, E_INPUT, "one word too many: %.80s", argv[i]);
		else if (option == OPTIONS)
			c->words[c->word_count++] = argv[i];
		else if (c->values[option])
			complain(&line, E_INPUT, "%s is given twice", argv[i]);
		else if (i + 1 == argc)
			complain(&line, E_INPUT, "%s wants a value", argv[i]);
		else
			c->values[option] = argv[++i];
		if (line.text[0])
			return wrong(v, line.text);
	}
	return c->word_count == v->words || (v->optional && !c->word_count) ? 0 : wrong(v, "words are missing");
}

/* Where to ask; false with c->why. */
static bool prepare(struct cli *c)
{
	c->settings = settings_default();
	if (c->values[O_CONFIG] && settings_read(c->values[O_CONFIG], &c->settings, &c->why))
		return false;
	c->world = (struct cli_world){
		.store = c->values[O_STORE] ? c->values[O_STORE] : c->settings.store,
		.map_bytes = c->settings.map_bytes,
		.map_max_bytes = c->settings.map_max_bytes,
	};
	for (unsigned i = 0; i < c->settings.chain_count; i++) {
		if (c->settings.chains[i].config.chain_id)
			c->world.chains[c->world.chain_count++] = c->settings.chains[i].config;
	}
	return true;
}

static const struct verb verbs[] = {
	{ "intent", "create", 1, true, CREATE, cli_create },
	{ "intent", "attempt", 2, false, BIT(O_SENDER) | BIT(O_NONCE), cli_attempt },
	{ "intent", "move", 2, false, BIT(O_ACTOR) | BIT(O_TX) | BIT(O_REASON) | BIT(O_VERSION), cli_move },
	{ "intent", "show", 1, false, 0, cli_show },
	{ "intent", "list", 0, false, BIT(O_STATE) | BIT(O_LIMIT) | BIT(O_AFTER), cli_list },
	{ "chain", "status", 0, false, BIT(O_CHAIN), cli_chain_status },
	{ "chain", "accept", 1, false, BIT(O_CHAIN), cli_accept },
	{ "chain", "accept-unproven", 1, false, BIT(O_CHAIN), cli_accept_unproven },
	{ "status", NULL, 0, false, 0, cli_whole },
};

static int run(const struct verb *v, int argc, char **argv)
{
	struct cli c = { .word_count = 0 };
	int code = parse(v, argc, argv, &c);

	if (code)
		return code;
	log_set_level(LOG_BROKEN);	/* what goes wrong is told in one line, here */
	code = prepare(&c) ? v->run(&c) : cli_fail(&c.why);
	settings_free(&c.settings);
	return code;
}

static int run_noun(const char *noun, int argc, char **argv)
{
	struct complaint line;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].noun, noun) != 0)
			continue;
		if (!verbs[i].name)
			return run(&verbs[i], argc, argv);
		if (argc && strcmp(verbs[i].name, argv[0]) == 0)
			return run(&verbs[i], argc - 1, argv + 1);
	}
	complain(&line, E_INPUT, "%s: no command is called \"%.80s\"", noun, argc ? argv[0] : "");
	return cli_usage("%.400s", line.text);
}

int cli_intent(int argc, char **argv)
{
	return run_noun("intent", argc, argv);
}

int cli_chain(int argc, char **argv)
{
	return run_noun("chain", argc, argv);
}

int cli_status(int argc, char **argv)
{
	return run_noun("status", argc, argv);
}
