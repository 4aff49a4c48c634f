/*
 * kv - ordered key/value tables in one file; the only pair of files that
 * knows LMDB.
 *
 * A transaction carries its own error.  After the first failure every call on
 * it does nothing and keeps that first code, so a caller writes straight-line
 * code and looks once, at the end.  "Not found" is an answer, not a failure.
 *
 * A write is a body that can be run again: kv_write() runs it in a
 * transaction, and when the map was full grows the map and runs it anew.  A
 * body therefore touches nothing outside its transaction but its own result,
 * which it must set afresh each time.  Nothing outside (no send, no timer, no
 * change of memory) may happen before kv_write() returned OK.
 *
 * One thread.  At most one write transaction is open at a time, no read
 * transaction is open when kv_write() or kv_close() is called, and none lives
 * across a turn of the loop.
 *
 * The file is stretched, unallocated, to the size of the map: a shorter one
 * was cut.
 */
#ifndef STORE_KV_H
#define STORE_KV_H

#include "common/types.h"

struct kv;

struct kv_txn {
	struct kv *kv;
	void *mdb;		/* NULL once ended */
	bool write;
	enum err err;		/* first failure, or OK */
};

/*
 * The fault hook: called before each put and before and after each commit, for
 * tests of crashes and of full and broken disks.  What it returns other than OK
 * is what the operation fails with (E_IO, E_FULL); after a commit the
 * return is ignored.  It may also end the process.
 */
enum kv_point {
	KV_BEFORE_PUT,
	KV_BEFORE_COMMIT,
	KV_AFTER_COMMIT,
};
struct kv_hook {
	enum err (*at)(void *ctx, enum kv_point point);
	void *ctx;
};

struct kv_options {
	size_t map_bytes;	/* size at start; 0 for KV_MAP_BYTES */
	size_t map_max_bytes;	/* most it may grow to; 0 for KV_MAP_MAX_BYTES */
	bool read_only;		/* no writes; never creates */
	const char *const *tables;	/* their names; the index is the table's number */
	unsigned table_count;
};
#define KV_MAP_BYTES ((size_t)64 << 20)
#define KV_MAP_MAX_BYTES ((size_t)1 << 40)

#define KV_KEY_MAX 511

/*
 * Open the file @dir/tidemark.mdb, making folder and tables if absent, and
 * clear readers that died.  On OK the caller owns *@out and ends it with
 * kv_close(); else *@out is NULL and @why says what and where.
 */
MUST_CHECK enum err kv_open(const char *dir, const struct kv_options *options, struct kv **out,
			    struct complaint *why);
void kv_close(struct kv *kv);
void kv_set_hook(struct kv *kv, struct kv_hook hook);

/*
 * Run @body in a write transaction and commit.  If the body failed, or called
 * kv_fail(), everything is undone and that code is returned.  E_FULL only when the map
 * may not grow any more or the disk is full.
 */
MUST_CHECK enum err kv_write(struct kv *kv, void (*body)(struct kv_txn *t, void *ctx), void *ctx);

/* A read transaction: a stable view until kv_end_read(). */
struct kv_txn kv_begin_read(struct kv *kv);
MUST_CHECK enum err kv_end_read(struct kv_txn *t);

/* Make the transaction fail with @err unless it already failed. */
void kv_fail(struct kv_txn *t, enum err err);

/* True if @key is present; then *@val borrows the map until the next put, del
 * or end on @t.  Copy what must live longer. */
bool kv_get(struct kv_txn *t, unsigned table, struct slice key, struct slice *val);
void kv_put(struct kv_txn *t, unsigned table, struct slice key, struct slice val);
/* Put a key that must not be there yet; E_CORRUPT if it is. */
void kv_add(struct kv_txn *t, unsigned table, struct slice key, struct slice val);
/* Delete; an absent key is E_CORRUPT, since an index that lost a row is. */
void kv_del(struct kv_txn *t, unsigned table, struct slice key);

/*
 * A place in a table.  All zero is none.  The key is the cursor's own copy: puts and
 * deletes between steps do no harm, since each step seeks again.  @val
 * borrows as kv_get() does.
 */
struct kv_cursor {
	struct kv_txn *txn;
	unsigned table;
	size_t prefix_len;		/* only keys with the first bytes of key */
	size_t key_len;
	uint8_t key[KV_KEY_MAX + 1];
	struct slice val;
};

/* First row whose key is at or after @from and begins with the first @prefix_len bytes of it. */
bool kv_seek(struct kv_txn *t, unsigned table, struct slice from, size_t prefix_len,
	     struct kv_cursor *c);
bool kv_next(struct kv_cursor *c);
/* Last row whose key is at or before @from (its missing tail counts as 0xff) and begins with the prefix. */
bool kv_seek_last(struct kv_txn *t, unsigned table, struct slice from, size_t prefix_len,
		  struct kv_cursor *c);
bool kv_prev(struct kv_cursor *c);

/* Rows of a table. */
uint64_t kv_count(struct kv_txn *t, unsigned table);

/* Counted since kv_open(), for the bench and for metrics. */
struct kv_stats {
	uint64_t gets;		/* point reads and seeks */
	uint64_t puts;		/* puts and deletes */
	uint64_t commits;
	uint64_t grown;		/* times the map grew */
	size_t map_bytes;
	size_t page_bytes;
	uint64_t pages_used;	/* highest page number + 1 */
};
struct kv_stats kv_stats(const struct kv *kv);

#endif
