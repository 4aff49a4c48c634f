/*
 * harness - what the replay tests share: seeded chance, files and folders, a
 * tape as lines, replays in this process and in a child, a look into a store.
 *
 * Whatever cannot be had fails the running test.  A line of level "broken" on
 * stderr fails it too.  The program under test is named by TIDEMARK.
 */
#ifndef TESTS_REPLAY_HARNESS_H
#define TESTS_REPLAY_HARNESS_H

#include "common/types.h"
#include "listener/replay.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <sys/types.h>

#include <cmocka.h>

/* splitmix64: the same seed, the same run. */
struct chance {
	uint64_t state;
};
uint64_t chance_next(struct chance *c);
uint64_t chance_below(struct chance *c, uint64_t limit);

/* A number from the environment, or @otherwise. */
uint64_t env_number(const char *name, uint64_t otherwise);
/* The program under test. */
const char *binary_path(void);

/* Files.  The caller frees what it gets. */
char *path_of(const char *dir, const char *name);
struct buf file_read(const char *path);
void file_write(const char *path, struct slice text);
/* A new empty folder below TMPDIR. */
char *folder_new(void);
/* For thousands of short-lived stores: folders go to /dev/shm, if TMPDIR says nothing. */
void stores_in_memory(void);
/* Undone. */
void stores_on_disk(void);
/* With the files in it; frees the name. */
void folder_remove(char *dir);

/* The files of @dir whose names end with @suffix, in order; none where the folder is absent. */
struct paths {
	char **at;
	size_t count;
};
struct paths paths_find(const char *dir, const char *suffix);
void paths_free(struct paths *p);
/* "dir/name.tape" gives "dir/name" and @suffix. */
char *path_sibling(const char *path, const char *suffix);

/* The recorded mainnet tapes; where they are not, the running test is skipped. */
const char *mainnet_dir(void);
struct paths mainnet_tapes(void);

/* A text's lines without their ends, borrowed from it. */
struct lines {
	struct slice *at;
	size_t count;
};
struct lines lines_of(struct slice text);
void lines_free(struct lines *l);
bool starts_with(struct slice s, const char *prefix);
bool has_text(struct slice s, const char *text);
/* The first @count lines, each with its end. */
struct buf lines_join(const struct lines *l, size_t from, size_t to);
size_t count_lines(struct slice text);

/* What a replay gave. */
struct ran {
	int code;		/* exit code; 128 and the signal where it was killed */
	struct buf out, err;	/* each ends with a NUL that is not counted */
	long rss_kb;		/* of a child, at most */
};
void ran_free(struct ran *r);
/* In this process; @options but for its out. */
struct ran replay_with(struct slice tape, const struct replay_options *options);
/* The same; @store may be NULL. */
struct ran replay_here(struct slice tape, enum replay_output output, const char *store);
/* The same, which must go well; its stdout. */
struct buf replay_well(struct slice tape, enum replay_output output, const char *store);

/* A child, by its pipes. */
struct child {
	pid_t pid;
	int in, out;		/* its stdin, to write; its stdout, to read */
	int err;		/* the file that has its stderr */
	struct buf got;		/* of its stdout so far */
};
/* @argv without the program's name, NULL-ended. */
struct child child_start(const char *const *argv);
/* Write all; false once it reads no more. */
bool child_feed(struct child *c, struct slice text);
/* Until its stdout has @count lines; false if it ends first. */
bool child_await(struct child *c, size_t count);
/* Closes its stdin, reads all, waits. */
struct ran child_end(struct child *c);
/* All of it: a run with @input on stdin. */
struct ran child_run(const char *const *argv, struct slice input);

/* Look into a store that nobody writes. */
bool store_is_there(const char *dir);
/* Each event and a newline; they are gapless, or the test fails. */
struct buf store_events(const char *dir);
/* Every row of every table but the sinks' cursors, as hex. */
struct buf store_rows(const char *dir);
/* The tape's line whose effects are committed; 0: none. */
uint64_t store_line(const char *dir, struct slice first_line);

/* Fail with both if they differ, at the first line that does. */
void assert_same_text(const char *what, struct slice got, struct slice want);

#endif
