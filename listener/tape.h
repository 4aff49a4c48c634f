/*
 * tape - recorded blocks: NDJSON, one record a line, blocks and receipts as a
 * node gave them.
 *
 * Reads a file or a pipe line by line and makes records of them; a line that is no record is
 * one complaint that names file, line and reason.
 */
#ifndef LISTENER_TAPE_H
#define LISTENER_TAPE_H

#include "listener/config.h"
#include "listener/desk.h"

#define TAPE_LINE_MAX_BYTES ((size_t)64 << 20)

struct tape {
	const char *name;		/* for complaints; borrowed */
	int fd;
	size_t line_max_bytes;
	uint64_t line;			/* of the last line given, from 1 */
	struct buf buf;			/* what was read and not yet given */
	size_t at;
	bool at_end;
};

enum tape_kind {
	TAPE_FIRST,
	TAPE_INTENT,
	TAPE_ATTEMPT,
	TAPE_TRANSITION,
	TAPE_BLOCK,
	TAPE_BALANCE,
	TAPE_HEAD,
	TAPE_SAFE,
	TAPE_FINALIZED,
	TAPE_CLOCK,
	TAPE_FAULT,
	TAPE_ACCEPT,
};

enum fault_answer {
	FAULT_NULL,
	FAULT_EMPTY,
	FAULT_LATE,
	FAULT_OTHER,
	FAULT_ERROR,
};

#define METHOD_MAX 48

struct tape_record {
	enum tape_kind kind;
	struct chain_config config;		/* FIRST */
	bool has_time;				/* FIRST, CLOCK */
	int64_t time_ms;
	struct intent intent;			/* INTENT */
	char intent_id[INTENT_ID_MAX];		/* ATTEMPT, TRANSITION */
	struct attempt_row attempt;		/* ATTEMPT */
	struct move_request move;		/* TRANSITION */
	bool has_version;
	struct hash32 hash;			/* BLOCK, HEAD, SAFE, FINALIZED, ACCEPT, BALANCE, FAULT: the block */
	struct hash32 parent;			/* BLOCK */
	uint64_t height;
	int64_t block_time_s;
	struct slice block, receipts;		/* BLOCK: raw JSON, borrowed from the line */
	struct address token, account;		/* BALANCE */
	struct u256 value;
	char method[METHOD_MAX];		/* FAULT */
	bool has_block;
	enum fault_answer answer;
	uint64_t times;
};

/* @fd is borrowed. */
void tape_open(struct tape *t, const char *name, int fd);
void tape_close(struct tape *t);

/*
 * The next line that is not blank; false at the end or with *@err set (E_IO, or E_INPUT
 * for a line that is too long).  The line is borrowed until the next call.
 */
bool tape_next(struct tape *t, struct slice *line, enum err *err, struct complaint *why);

/* Make a record of the line; E_INPUT with the place within the line in @why. */
MUST_CHECK enum err tape_parse(struct slice line, struct tape_record *out, struct complaint *why);

#endif
