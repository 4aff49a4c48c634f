#include "common/log.h"
#include "listener/check.h"
#include "listener/cli.h"
#include "listener/forge.h"
#include "listener/replay.h"
#include "listener/reseal.h"
#include "listener/run.h"
#include "store/outbox.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct command {
	const char *name;
	const char *synopsis;
	const char *what;		/* one line */
	const char *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[];

static int replay_one(const char *name, const struct replay_options *options)
{
	bool is_stdin = strcmp(name, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	struct complaint why;
	enum err err;

	if (fd < 0) {
		complain(&why, E_IO, "%s: cannot be opened: %s", name, strerror(errno));
		return cli_fail(&why);
	}
	err = replay(is_stdin ? "stdin" : name, fd, options, &why);
	if (!is_stdin)
		close(fd);
	return err ? cli_fail(&why) : EXIT_SUCCESS;
}

static int replay_all(int argc, char **argv, const struct replay_options *options)
{
	int code = EXIT_SUCCESS;

	if (argc == 0)
		return cli_usage("replay: no tape%s", "");
	for (int i = 0; i < argc; i++) {
		if (argv[i][0] == '-' && argv[i][1])
			return cli_usage("replay: options come before tapes: %s", argv[i]);
	}
	if (options->store && argc > 1)
		return cli_usage("replay: --store takes exactly one tape%s", "");
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
		else if (strcmp(argv[i], "--store") == 0 && i + 1 == argc)
			return cli_usage("replay: %s wants a folder", argv[i]);
		else if (strcmp(argv[i], "--store") == 0)
			options.store = argv[++i];
		else
			return cli_usage("replay: unknown option %s", argv[i]);
	}
	return replay_all(argc - i, argv + i, &options);
}

/* Done is only what was written. */
static int flush(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	return code ? code : EXIT_FAILURE;
}

/* LMDB trusts its file and may die of a damaged one: a process of its own does, and the damage is told. */
static int look_apart(const char *store, int (*look)(const char *store))
{
	struct complaint why;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		exit(flush(look(store)));
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		return WEXITSTATUS(status);
	if (pid > 0)
		complain(&why, E_CORRUPT, "%s: the store is damaged: reading it ended in signal %d", store,
			 WTERMSIG(status));
	else
		complain(&why, E_IO, "no process can be made: %s", strerror(errno));
	return cli_fail(&why);
}

static int check(const char *store)
{
	struct complaint why;
	enum err err = check_store(store, stdout, &why);

	if (err && err != E_CORRUPT)
		return cli_fail(&why);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_check(int argc, char **argv)
{
	if (argc != 1)
		return cli_usage("check: want one store%s", "");
	return look_apart(argv[0], check);
}

/* Whole files, and what is made of them. */

static bool open_input(const char *name, int *fd, struct complaint *why)
{
	*fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		complain(why, E_IO, "%s: cannot be opened: %s", name, strerror(errno));
	return *fd >= 0;
}

static enum err read_all(const char *name, struct buf *out, struct complaint *why)
{
	ssize_t got;
	int fd;

	if (!open_input(name, &fd, why))
		return E_IO;
	do {
		got = read(fd, buf_extend(out, 65536), 65536);
		out->len -= 65536 - (got > 0 ? (size_t)got : 0);
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0)
		complain(why, E_IO, "%s: cannot be read: %s", name, strerror(errno));
	close(fd);
	return got < 0 ? E_IO : OK;
}

/* Print what was made, or complain. */
static int finish(enum err err, struct buf *made, struct complaint *why)
{
	if (!err && (fwrite(made->data, 1, made->len, stdout) != made->len || fflush(stdout)))
		err = complain(why, E_IO, "the output cannot be written");
	buf_free(made);
	return err ? cli_fail(why) : EXIT_SUCCESS;
}

static int run_forge(int argc, char **argv)
{
	struct buf text = { 0 }, tape = { 0 };
	struct complaint why;
	enum err err;

	if (argc != 1)
		return cli_usage("forge: want one scenario%s", "");
	err = read_all(argv[0], &text, &why);
	if (!err)
		err = forge(argv[0], buf_slice(&text), &tape, &why);
	buf_free(&text);
	return finish(err, &tape, &why);
}

static bool add_hash(const char *text, struct hash32 *list, size_t *count)
{
	return *count < RESEAL_TXS_MAX && hash_parse(slice_of_text(text), &list[(*count)++]);
}

/* An option and its value; false if it is none. */
static bool read_fork_option(const char *name, const char *value, struct reseal *how)
{
	if (strcmp(name, "--at") == 0)
		return how->has_at = u64_parse(slice_of_text(value), &how->at);
	if (strcmp(name, "--depth") == 0)
		return u64_parse(slice_of_text(value), &how->depth) && how->depth > 0 && how->depth <= 100000;
	if (strcmp(name, "--drop") == 0)
		return add_hash(value, how->drop, &how->drop_count);
	if (strcmp(name, "--move") == 0)
		return add_hash(value, how->move, &how->move_count);
	return false;
}

static int run_fork(int argc, char **argv)
{
	struct reseal how = { .depth = 1 };
	struct buf tape = { 0 };
	const char *name = NULL;
	struct complaint why;
	enum err err;
	int fd;

	for (int i = 0; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			name = name ? "" : argv[i];
		else if (i + 1 == argc || !read_fork_option(argv[i], argv[i + 1], &how))
			return cli_usage("fork: bad option or value at %s", argv[i]);
		else
			i++;
	}
	if (!name || !*name)
		return cli_usage("fork: want one tape%s", "");
	if (!open_input(name, &fd, &why))
		return cli_fail(&why);
	err = reseal_tape(name, fd, &how, &tape, &why);
	close(fd);
	return finish(err, &tape, &why);
}

static int print_events(const char *store)
{
	struct store_options options = { .read_only = true };
	struct buf out = { 0 };
	struct complaint why;
	uint64_t n = 0, last;
	struct slice body;
	struct kv_txn t;
	struct kv *kv;
	enum err err;

	if (store_open(store, &options, &kv, &why))
		return cli_fail(&why);
	t = kv_begin_read(kv);
	last = outbox_last(&t);
	for (; n < last && outbox_get(&t, n + 1, &body); n++) {
		buf_put(&out, body.data, body.len);
		buf_put_u8(&out, '\n');
	}
	err = kv_end_read(&t);
	if (err || n < last)
		err = complain(&why, E_CORRUPT, "%s: of %llu events only %llu can be read", store,
			       (unsigned long long)last, (unsigned long long)n);
	kv_close(kv);
	return finish(err, &out, &why);
}

static int run_events(int argc, char **argv)
{
	if (argc != 1)
		return cli_usage("events: want one store%s", "");
	return look_apart(argv[0], print_events);
}

static int run_help(int argc, char **argv);

static const struct command commands[] = {
	{ "run", "run [--http URL --ws URL]... [--config FILE] [--store DIR] [OPTION]...", "follow chains beside their nodes",
	  cli_run_help, cli_run },
	{ "replay", "replay [--summary | --story] [--store DIR] TAPE...", "run the listener against recorded blocks",
	  "Prints each event as one line of JSON; with --summary one line an intent instead,\n"
	  "ID STATE REASON TX_HASH; with --story a story for a person.  \"-\" reads standard input.\n"
	  "Each tape runs in a fresh store; --store DIR keeps it, takes one tape, and goes on where\n"
	  "an earlier replay of that tape stopped.  --verbose logs each decision on stderr.\n", run_replay },
	{ "intent", "intent create|attempt|move|show|list ...", "make intents, move them, look at them", cli_intent_help,
	  cli_intent },
	{ "chain", "chain status|accept|accept-unproven ...", "how a chain stands; an operator's word on it", cli_chain_help,
	  cli_chain },
	{ "status", "status", "the whole at a glance", cli_status_help, cli_status },
	{ "check", "check DIR", "examine a store",
	  "Whether indexes agree with rows, each history replays to the stored state, each claim\n"
	  "is unique and the ledger agrees with the settlements.  Writes nothing.\n", run_check },
	{ "events", "events DIR", "print a store's events",
	  "Each event as one line of JSON, from the first; the bytes that every sink gets.\n", run_events },
	{ "forge", "forge SCENARIO", "make a tape from a short symbolic text", forge_help, run_forge },
	{ "fork", "fork TAPE [--at N] [--depth D] [--drop TX]... [--move TX]...", "make a recorded chain reorg",
	  "After the head of height N (the last one, if not said) the D blocks below and with it (1, if\n"
	  "not said) are sealed again, hashes and roots valid: without the transactions to drop, and with\n"
	  "those to move in the block after; the new branch's head is announced.  What the tape says\n"
	  "afterwards of the old blocks it says of the new ones; balances told before are told of them\n"
	  "too, unless a transaction is dropped or moved.  TX is a transaction's hash.\n", run_fork },
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
		return cli_usage("no command is called \"%s\"", argv[0]);
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

/* What is opened later must not become somebody's stdout. */
static void hold_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct command *c;

	hold_standard_files();
	signal(SIGXFSZ, SIG_IGN);	/* a file that may not grow is an error of the disk */
	if (argc < 2)
		return run_help(0, NULL), EXIT_USAGE;
	c = find_command(argv[1]);
	if (!c && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		c = find_command("help");
	return c ? flush(c->run(argc - 2, argv + 2)) : cli_usage("no command is called \"%s\"", argv[1]);
}
