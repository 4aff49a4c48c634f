#include "common/log.h"
#include "listener/check.h"
#include "listener/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

struct command {
	const char *name;
	const char *synopsis;
	const char *what;		/* one line */
	const char *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[];

static int usage(const char *fmt, const char *word)
{
	fprintf(stderr, "tidemark: ");
	fprintf(stderr, fmt, word);
	fputs("; see \"tidemark help\"\n", stderr);
	return EXIT_USAGE;
}

/* One line, whatever a name out of a file holds. */
static int fail(const struct complaint *why)
{
	struct complaint line = *why;

	for (char *p = line.text; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	fprintf(stderr, "tidemark: %s\n", line.text);
	return EXIT_FAILURE;
}

static int replay_one(const char *name, const struct replay_options *options)
{
	bool is_stdin = strcmp(name, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	struct complaint why;
	enum err err;

	if (fd < 0) {
		complain(&why, E_IO, "%s: cannot be opened: %s", name, strerror(errno));
		return fail(&why);
	}
	err = replay(is_stdin ? "stdin" : name, fd, options, &why);
	if (!is_stdin)
		close(fd);
	return err ? fail(&why) : EXIT_SUCCESS;
}

static int replay_all(int argc, char **argv, const struct replay_options *options)
{
	int code = EXIT_SUCCESS;

	if (argc == 0)
		return usage("replay: no tape%s", "");
	if (options->store && argc > 1)
		return usage("replay: --store takes exactly one tape%s", "");
	for (int i = 0; i < argc; i++) {
		if (options->output == REPLAY_SUMMARY && argc > 1)
			printf("# %s\n", argv[i]);
		if (replay_one(argv[i], options) != EXIT_SUCCESS)
			code = EXIT_FAILURE;
	}
	return code;
}

static int run_replay(int argc, char **argv)
{
	struct replay_options options = { .out = stdout, .colour = isatty(STDOUT_FILENO) };
	int i = 0;

	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (strcmp(argv[i], "--summary") == 0)
			options.output = REPLAY_SUMMARY;
		else if (strcmp(argv[i], "--story") == 0)
			options.output = REPLAY_STORY;
		else if (strcmp(argv[i], "--verbose") == 0)
			log_set_level(LOG_DEBUG);
		else if (strcmp(argv[i], "--store") == 0 && i + 1 < argc)
			options.store = argv[++i];
		else
			return usage("replay: unknown option %s", argv[i]);
	}
	return replay_all(argc - i, argv + i, &options);
}

static int run_check(int argc, char **argv)
{
	struct complaint why;
	enum err err;

	if (argc != 1)
		return usage("check: want one store%s", "");
	err = check_store(argv[0], stdout, &why);
	if (err && err != E_CORRUPT)
		return fail(&why);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_help(int argc, char **argv);

static const struct command commands[] = {
	{ "replay", "replay [--summary | --story] [--store DIR] TAPE...", "run the listener against recorded blocks",
	  "Prints each event as one line of JSON; with --summary one line an intent instead,\n"
	  "ID STATE REASON TX_HASH; with --story a story for a person.  \"-\" reads standard input.\n"
	  "Each tape runs in a fresh store; --store DIR keeps it, takes one tape, and goes on where\n"
	  "an earlier replay of that tape stopped.  --verbose logs each decision on stderr.\n", run_replay },
	{ "check", "check DIR", "examine a store",
	  "Whether indexes agree with rows, each history replays to the stored state, each claim\n"
	  "is unique and the ledger agrees with the settlements.  Writes nothing.\n", run_check },
	{ "help", "help [COMMAND]", "say what a command does", "", run_help },
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static int run_help(int argc, char **argv)
{
	const struct command *c = argc ? find_command(argv[0]) : NULL;

	if (argc && !c)
		return usage("no command is called \"%s\"", argv[0]);
	if (c) {
		printf("tidemark %s\n\n%s", c->synopsis, c->help);
		return EXIT_SUCCESS;
	}
	puts("tidemark: follows an EVM chain and says of each stablecoin payment whether it is final\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].what);
	puts("\n\"tidemark help COMMAND\" says more.  Exit code: 0 done, 1 failed, 2 wrong usage.");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2)
		return run_help(0, NULL), EXIT_USAGE;
	c = find_command(argv[1]);
	if (!c && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		c = find_command("help");
	return c ? c->run(argc - 2, argv + 2) : usage("no command is called \"%s\"", argv[1]);
}
