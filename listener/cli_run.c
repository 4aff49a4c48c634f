#include "listener/run.h"

#include "common/log.h"
#include "listener/cli.h"

#include <stdlib.h>
#include <string.h>

const char cli_run_help[] =
	"Follows chains beside their nodes until SIGTERM or SIGINT.  For the common case no file is needed:\n\n"
	"  tidemark run --http http://localhost:8545 --ws ws://localhost:8546\n\n"
	"asks the endpoint for its chain and takes that chain's tokens and finality.  --http and --ws again\n"
	"are further endpoints of the same chain: of two or more, two must agree on what is final.\n\n"
	"  --config FILE      chains, endpoints, tokens, finality, limits: see README.md\n"
	"  --store DIR        where the store is; tidemark-store if not said\n"
	"  --token SYMBOL:ADDRESS:DECIMALS\n"
	"                     a token besides those that are known\n"
	"  --events FILE      append each event as a line of JSON; \"-\" is standard output\n"
	"  --listen HOST:PORT serve the interface there too; always on the socket in the store's folder\n"
	"  --quiet, --verbose log only what is odd; log each decision\n\n"
	"\"tidemark intent\", \"tidemark chain\" and \"tidemark status\" ask the daemon over its socket.\n";

/* The chain that --http, --ws and --token are about: the only one. */
static struct chain_settings *the_chain(struct settings *s)
{
	if (s->chain_count == 0)
		s->chains[s->chain_count++].config = config_default(0);
	return s->chain_count == 1 ? &s->chains[0] : NULL;
}

/* Each option fills the first place that has none yet. */
static bool add_url(struct settings *s, const char *url, bool ws)
{
	struct chain_settings *chain = the_chain(s);
	unsigned i = 0;

	while (chain && i < PROVIDERS_MAX && (ws ? chain->endpoints[i].ws : chain->endpoints[i].http))
		i++;
	if (!chain || i == PROVIDERS_MAX)
		return false;
	if (ws)
		chain->endpoints[i].ws = url;
	else
		chain->endpoints[i].http = url;
	if (i >= chain->endpoint_count)
		chain->endpoint_count = i + 1;
	return true;
}

static bool add_token(struct settings *s, const char *text, struct complaint *why)
{
	struct chain_settings *chain = the_chain(s);

	if (chain)
		return config_parse_token(text, &chain->config, why);
	complain(why, E_INPUT, "--token: which of the file's chains has it? write it there");
	return false;
}

static bool bad_url(const char *option, struct complaint *why)
{
	complain(why, E_INPUT, "%s: the endpoints of several chains, or more than %d, go into a file", option,
		 PROVIDERS_MAX);
	return false;
}

/* A word of the command line, unless it may hold a key. */
static const char *shown(const char *word)
{
	return strstr(word, "://") || strchr(word, '@') ? "a URL" : word;
}

static bool bad_listen(const char *text, struct complaint *why)
{
	complain(why, E_INPUT, "--listen: \"%.100s\", want HOST:PORT", shown(text));
	return false;
}

static bool read_option(struct settings *s, const char *name, const char *value, struct complaint *why)
{
	if (strcmp(name, "--store") == 0)
		s->store = value;
	if (strcmp(name, "--events") == 0)
		s->events = value;
	if (strcmp(name, "--http") == 0)
		return add_url(s, value, false) || bad_url(name, why);
	if (strcmp(name, "--ws") == 0)
		return add_url(s, value, true) || bad_url(name, why);
	if (strcmp(name, "--token") == 0)
		return add_token(s, value, why);
	if (strcmp(name, "--listen") == 0)
		return settings_parse_listen(value, s) || bad_listen(value, why);
	return true;
}

static bool is_flag(const char *word)
{
	return strcmp(word, "--verbose") == 0 || strcmp(word, "--quiet") == 0;
}

static bool wants_value(const char *word)
{
	static const char *const names[] = { "--config", "--store", "--events", "--http", "--ws", "--token", "--listen" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(word, names[i]) == 0)
			return true;
	}
	return false;
}

/* The form of all words; flags act at once. */
static const char *find_wrong_word(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (is_flag(argv[i]))
			log_set_level(strcmp(argv[i], "--quiet") == 0 ? LOG_ODD : LOG_DEBUG);
		else if (!wants_value(argv[i]) || ++i == argc)
			return argv[i < argc ? i : argc - 1];
	}
	return NULL;
}

static bool read_options(int argc, char **argv, struct settings *s, struct complaint *why)
{
	for (int i = 0; i < argc; i++) {
		if (wants_value(argv[i]) && !read_option(s, argv[i], argv[i + 1], why))
			return false;
		i += wants_value(argv[i]);
	}
	return true;
}

static const char *find_file(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--config") == 0)
			return argv[i + 1];
		i += wants_value(argv[i]);
	}
	return NULL;
}

/* The file first: options go over it. */
static int configure(int argc, char **argv, struct settings *s)
{
	const char *file = find_file(argc, argv);
	struct complaint why;

	if (file && settings_read(file, s, &why))
		return cli_fail(&why);
	if (read_options(argc, argv, s, &why) && settings_check(s, &why) == OK)
		return EXIT_SUCCESS;
	cli_fail(&why);
	return file ? EXIT_FAILURE : EXIT_USAGE;
}

int cli_run(int argc, char **argv)
{
	struct settings s = settings_default();
	struct complaint why;
	const char *wrong;
	int code;

	log_set_level(LOG_INFO);
	wrong = find_wrong_word(argc, argv);
	if (wrong)
		return cli_usage("run: bad option, or no value, at %s", shown(wrong));
	code = configure(argc, argv, &s);
	if (code == EXIT_SUCCESS && run_daemon(&s, &why))
		code = cli_fail(&why);
	settings_free(&s);
	return code;
}
