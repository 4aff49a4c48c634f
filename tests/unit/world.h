/*
 * world - a real store in a folder of its own, for tests; all of its bytes on
 * demand, so that "nothing changed" can be said of everything.
 */
#ifndef TESTS_UNIT_WORLD_H
#define TESTS_UNIT_WORLD_H

#include "store/schema.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	char dir[64];
	struct store_options options;
	struct kv *kv;
	struct complaint why;
};

static inline void world_open(struct world *w)
{
	enum err err = store_open(w->dir, &w->options, &w->kv, &w->why);

	if (err != OK)
		fail_msg("%s: %s", err_name(err), w->why.text);
}

static inline void world_close(struct world *w)
{
	if (w->kv)
		kv_close(w->kv);
	w->kv = NULL;
}

static inline void world_make(struct world *w)
{
	*w = (struct world){ .options = { .map_bytes = 1 << 20 } };
	snprintf(w->dir, sizeof(w->dir), "/tmp/tidemark-store-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
}

static inline void world_remove(struct world *w)
{
	static const char *const names[] = { "tidemark.mdb", "tidemark.mdb-lock", "tidemark.lock" };
	char path[128];

	world_close(w);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", w->dir, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
}

static inline int world_set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	world_make(w);
	world_open(w);
	*state = w;
	return 0;
}

static inline int world_tear_down(void **state)
{
	world_remove(*state);
	free(*state);
	return 0;
}

/* Every row of every table: lengths, keys, values. */
static inline struct buf world_dump(struct kv *kv)
{
	struct kv_txn t = kv_begin_read(kv);
	struct buf out = { 0 };
	struct kv_cursor c;

	for (unsigned table = 0; table < TABLES; table++) {
		for (bool more = kv_seek(&t, table, (struct slice){ NULL, 0 }, 0, &c); more; more = kv_next(&c)) {
			buf_printf(&out, "%s %zu %zu:", schema_table_names[table], c.key_len, c.val.len);
			buf_put(&out, c.key, c.key_len);
			buf_put(&out, c.val.data, c.val.len);
		}
	}
	assert_int_equal(kv_end_read(&t), OK);
	return out;
}

/* Frees both. */
static inline void expect_same(struct buf a, struct buf b)
{
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
	buf_free(&a);
	buf_free(&b);
}

static inline struct hash32 hash_of(uint8_t byte)
{
	struct hash32 h;

	memset(h.b, byte, sizeof(h.b));
	return h;
}

static inline struct address address_of(uint8_t byte)
{
	struct address a;

	memset(a.b, byte, sizeof(a.b));
	return a;
}

/* A hook that fails the n'th put, counted from 0, or the commit. */
struct fault_at {
	long put;			/* -1: none */
	bool commit;
	enum err err;
	long puts;			/* seen since armed */
};

static inline enum err fault_hook(void *ctx, enum kv_point point)
{
	struct fault_at *f = ctx;

	if (point == KV_BEFORE_PUT && f->puts++ == f->put)
		return f->err;
	return point == KV_BEFORE_COMMIT && f->commit ? f->err : OK;
}

#endif
