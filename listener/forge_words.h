/*
 * forge_words - a scenario being read: its line at hand, and all that it has named so far.
 *
 * The first complaint sticks.  After it every reader gives something empty, which must not be
 * used as an index: a statement looks at err before it does.
 */
#ifndef LISTENER_FORGE_WORDS_H
#define LISTENER_FORGE_WORDS_H

#include "common/intent.h"
#include "listener/codec.h"

#define WORDS_MAX 64
#define NAME_MAX_BYTES 72		/* a hash's text fits */

enum name_kind {
	NAME_TOKEN,
	NAME_CONTRACT,
	NAME_ACCOUNT,
	NAME_INTENT,
};

struct named {
	char name[NAME_MAX_BYTES];
	enum name_kind kind;
	struct address address;
	uint64_t decimals;
};

struct tx {
	char name[NAME_MAX_BYTES];
	struct hash32 hash;
	bool reverted;
	uint8_t type;
	bool described;
	bool sealed;			/* stands in a block: nothing may be added */
	unsigned line;			/* of its first mention */
};

struct tx_log {
	size_t tx;
	struct log_entry entry;		/* data_at is into forge.data */
};

struct sealed {
	char name[NAME_MAX_BYTES];
	struct header header;
	bool has_parent;
	size_t parent;			/* into forge.blocks */
	bool told;
	struct buf line;		/* as the tape has it */
};

struct forge {
	const char *file;
	unsigned line;
	struct complaint *why;
	enum err err;
	struct buf *out;

	/* the line at hand */
	struct buf text;		/* whole, NUL at its end */
	struct buf cut;			/* the same, NUL after each word */
	char *words[WORDS_MAX];
	size_t word_count;
	size_t next;
	const char *usage;

	/* the tape's first line, written when the first fact comes */
	bool begun;
	uint64_t chain_id, start;
	enum header_fields fields;
	struct buf note, finality;
	const char *witness;		/* the policy, or NULL */
	struct hash32 genesis;
	int64_t clock_ms;

	struct named *names;
	struct tx *txs;
	struct tx_log *logs;
	struct sealed *blocks;
	size_t name_count, tx_count, log_count, block_count;
	struct buf data;		/* of all logs */
	struct buf scratch;
};

void forge_fail(struct forge *f, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* One more item at the end, zeroed. */
void *forge_enlarge(void *items, size_t count, size_t bytes);

/* Make it the line at hand: words up to a comment. */
void line_split(struct forge *f, struct slice line);

bool line_more(const struct forge *f);
const char *line_word(struct forge *f);			/* never NULL */
bool line_take(struct forge *f, const char *keyword);	/* true, and past it, if it is next */
void line_expect(struct forge *f, const char *keyword);
const char *line_rest(struct forge *f);			/* as it stands; may be empty */

uint64_t line_number(struct forge *f);
struct u256 line_amount(struct forge *f);
int64_t line_time(struct forge *f, int64_t from_ms);
const char *line_name(struct forge *f);			/* well formed; may be known or not */
struct address line_address(struct forge *f);		/* in hex only */
struct address line_account(struct forge *f);
struct address line_contract(struct forge *f, bool token_only);
const char *line_intent(struct forge *f);
size_t line_tx(struct forge *f);			/* into txs; made on its first mention */
struct tx *line_open_tx(struct forge *f);		/* to be described further; NULL if f->err */
struct sealed *line_block(struct forge *f);		/* NULL if f->err */

bool amount_from_text(const char *text, struct u256 *out);

/* Intents have names of their own; NULL if there is none. */
struct named *forge_find(struct forge *f, const char *name, bool intent);
void forge_bind(struct forge *f, enum name_kind kind, const char *name, struct address address,
		uint64_t decimals);
struct address forge_address(const char *name);
size_t forge_find_block(const struct forge *f, const char *name);	/* block_count if there is none */

#endif
