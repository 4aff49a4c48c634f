/*
 * The tables on a real LMDB in a folder of their own.  What needs a second
 * process runs this program again with a role: LMDB forbids fork() alone.
 */
#include "store/kv.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { T_ONE, T_TWO };
static const char *const table_names[] = { "one", "two", "three" };

struct world {
	char dir[64];
	struct kv_options options;
	struct kv *kv;
	struct complaint why;
};

/* --- helpers -------------------------------------------------------------- */

static struct slice text(const char *s)
{
	return slice_of_text(s);
}

static void reopen(struct world *w)
{
	enum err err;

	kv_close(w->kv);
	err = kv_open(w->dir, &w->options, &w->kv, &w->why);
	if (err != OK)
		fail_msg("%s: %s", err_name(err), w->why.text);
}

/* Anew with a map of @map_bytes, which the file remembers and readers take. */
static void recreate(struct world *w, size_t map_bytes)
{
	char path[128];

	kv_close(w->kv);
	w->kv = NULL;
	snprintf(path, sizeof(path), "%s/tidemark.mdb", w->dir);
	assert_int_equal(unlink(path), 0);
	w->options.map_bytes = map_bytes;
	reopen(w);
}

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	snprintf(w->dir, sizeof(w->dir), "/tmp/tidemark-kv-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->options = (struct kv_options){ .tables = table_names, .table_count = 2 };
	reopen(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = { "tidemark.mdb", "tidemark.mdb-lock", "tidemark.lock" };
	struct world *w = *state;
	char path[128];

	kv_close(w->kv);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", w->dir, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
	free(w);
	return 0;
}

/*
 * A body in one line: words "=key:val" put, "+key:val" add, "-key" delete,
 * "!" fail with E_REFUSED, "K" kill the process.
 */
struct script {
	const char *words;
	unsigned table;
	int runs;
};

static void edit(struct kv_txn *t, unsigned table, const char *word, size_t len)
{
	const char *colon = memchr(word, ':', len);
	size_t key_len = (colon ? (size_t)(colon - word) : len) - 1;
	struct slice key = { (const uint8_t *)word + 1, key_len }, val = { 0 };

	if (colon)
		val = (struct slice){ (const uint8_t *)colon + 1, len - key_len - 2 };
	if (*word == '=')
		kv_put(t, table, key, val);
	else if (*word == '+')
		kv_add(t, table, key, val);
	else if (*word == '-')
		kv_del(t, table, key);
	else if (*word == '!')
		kv_fail(t, E_REFUSED);
	else
		raise(SIGKILL);
}

static void run_script(struct kv_txn *t, void *ctx)
{
	struct script *s = ctx;

	s->runs++;
	for (const char *at = s->words; *at;) {
		size_t len = strcspn(at, " ");

		edit(t, s->table, at, len);
		at += len + strspn(at + len, " ");
	}
}

static enum err apply_to(struct kv *kv, unsigned table, const char *words)
{
	struct script s = { .words = words, .table = table };
	enum err err = kv_write(kv, run_script, &s);

	assert_int_equal(s.runs, 1);
	return err;
}

static enum err apply(struct kv *kv, const char *words)
{
	return apply_to(kv, T_ONE, words);
}

static void print_row(struct buf *out, const struct kv_cursor *c)
{
	buf_put(out, c->key, c->key_len);
	buf_put_u8(out, ':');
	buf_put(out, c->val.data, c->val.len);
	buf_put_u8(out, ' ');
}

/* Rows whose key begins with @prefix as "key:val key:val ". */
static void expect_rows(struct kv *kv, unsigned table, const char *prefix, const char *want)
{
	struct kv_txn t = kv_begin_read(kv);
	struct kv_cursor c;
	struct buf got = { 0 };

	for (bool ok = kv_seek(&t, table, text(prefix), strlen(prefix), &c); ok; ok = kv_next(&c))
		print_row(&got, &c);
	buf_put_u8(&got, 0);
	assert_int_equal(kv_end_read(&t), OK);
	assert_string_equal((char *)got.data, want);
	buf_free(&got);
}

static void expect_rows_backward(struct kv *kv, const char *prefix, const char *want)
{
	struct kv_txn t = kv_begin_read(kv);
	struct kv_cursor c;
	struct buf got = { 0 };
	size_t len = strlen(prefix);

	for (bool ok = kv_seek_last(&t, T_ONE, text(prefix), len, &c); ok; ok = kv_prev(&c))
		print_row(&got, &c);
	buf_put_u8(&got, 0);
	assert_int_equal(kv_end_read(&t), OK);
	assert_string_equal((char *)got.data, want);
	buf_free(&got);
}

/* --- rows ------------------------------------------------------------------ */

static void test_get_put_add_del(void **state)
{
	struct world *w = *state;
	struct kv_txn t;
	struct slice v;

	assert_int_equal(apply(w->kv, "=a:1 +b:2 =a:3 +c: +d:4 -d"), OK);
	assert_int_equal(apply_to(w->kv, T_TWO, "+a:other"), OK);
	expect_rows(w->kv, T_ONE, "", "a:3 b:2 c: ");
	expect_rows(w->kv, T_TWO, "", "a:other ");
	reopen(w);
	t = kv_begin_read(w->kv);
	assert_true(kv_get(&t, T_ONE, text("a"), &v));
	assert_true(slice_is(v, "3"));
	assert_true(kv_get(&t, T_ONE, text("c"), &v));
	assert_int_equal(v.len, 0);
	assert_false(kv_get(&t, T_ONE, text("d"), &v));
	assert_false(kv_get(&t, T_TWO, text("b"), &v));
	assert_int_equal(kv_count(&t, T_ONE), 3);
	assert_int_equal(kv_count(&t, T_TWO), 1);
	assert_int_equal(kv_end_read(&t), OK);
}

static void read_own_writes(struct kv_txn *t, void *ctx)
{
	struct slice v;

	(void)ctx;
	kv_put(t, T_ONE, text("k"), text("new"));
	assert_true(kv_get(t, T_ONE, text("k"), &v));
	assert_true(slice_is(v, "new"));
	kv_del(t, T_ONE, text("k"));
	assert_false(kv_get(t, T_ONE, text("k"), &v));
	assert_int_equal(kv_count(t, T_ONE), 0);
}

static void test_body_sees_its_own_writes(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "=k:old"), OK);
	assert_int_equal(kv_write(w->kv, read_own_writes, NULL), OK);
	expect_rows(w->kv, T_ONE, "", "");
}

static void test_add_and_del_are_strict(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "+a:1"), OK);
	assert_int_equal(apply(w->kv, "=b:2 +a:9"), E_CORRUPT);
	assert_int_equal(apply(w->kv, "=b:2 -x =c:3"), E_CORRUPT);
	assert_int_equal(apply(w->kv, "=b:2 =:empty"), E_CORRUPT);
	expect_rows(w->kv, T_ONE, "", "a:1 ");
}

static void test_body_that_fails_leaves_nothing(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "=a:1 =b:2"), OK);
	assert_int_equal(apply(w->kv, "=a:9 -b =c:3 !"), E_REFUSED);
	assert_int_equal(apply(w->kv, "! -absent =d:4"), E_REFUSED);
	expect_rows(w->kv, T_ONE, "", "a:1 b:2 ");
	assert_int_equal(apply(w->kv, "=c:3"), OK);
	expect_rows(w->kv, T_ONE, "", "a:1 b:2 c:3 ");
}

static void test_first_error_sticks(void **state)
{
	struct world *w = *state;
	struct kv_txn t;
	struct kv_cursor c;
	struct slice v;

	assert_int_equal(apply(w->kv, "=a:1 =b:2"), OK);
	t = kv_begin_read(w->kv);
	assert_true(kv_seek(&t, T_ONE, text("a"), 0, &c));
	kv_fail(&t, E_INPUT);
	kv_fail(&t, E_IO);
	assert_false(kv_get(&t, T_ONE, text("a"), &v));
	assert_false(kv_next(&c));
	assert_false(kv_seek(&t, T_ONE, text("a"), 0, &c));
	assert_false(kv_seek_last(&t, T_ONE, text("a"), 0, &c));
	assert_int_equal(kv_count(&t, T_ONE), 0);
	assert_int_equal(kv_end_read(&t), E_INPUT);
}

static uint8_t long_key[KV_KEY_MAX + 1];

static void put_longest(struct kv_txn *t, void *ctx)
{
	kv_put(t, T_ONE, (struct slice){ long_key, *(size_t *)ctx }, text("long"));
}

static void expect_bad_key(struct kv *kv, struct slice key)
{
	struct kv_txn t = kv_begin_read(kv);
	struct slice v;

	assert_false(kv_get(&t, T_ONE, key, &v));
	assert_int_equal(kv_end_read(&t), E_CORRUPT);
}

static void expect_bad_seeks(struct kv *kv, struct slice from)
{
	struct kv_txn t = kv_begin_read(kv);
	struct kv_cursor c;

	assert_false(kv_seek(&t, T_ONE, from, 3, &c));
	assert_int_equal(kv_end_read(&t), E_CORRUPT);
	t = kv_begin_read(kv);
	assert_false(kv_seek_last(&t, T_ONE, from, 3, &c));
	assert_int_equal(kv_end_read(&t), E_CORRUPT);
}

static void test_key_lengths(void **state)
{
	struct world *w = *state;
	size_t len = KV_KEY_MAX, too_long = KV_KEY_MAX + 1;
	struct kv_txn t;
	struct kv_cursor c;

	memset(long_key, 0xff, sizeof(long_key));
	assert_int_equal(kv_write(w->kv, put_longest, &too_long), E_CORRUPT);
	expect_bad_key(w->kv, (struct slice){ long_key, too_long });
	expect_bad_key(w->kv, (struct slice){ 0 });
	expect_bad_seeks(w->kv, (struct slice){ long_key, too_long });
	assert_int_equal(kv_write(w->kv, put_longest, &len), OK);
	assert_int_equal(apply(w->kv, "=a:1"), OK);
	t = kv_begin_read(w->kv);
	assert_true(kv_seek(&t, T_ONE, (struct slice){ long_key, len }, len, &c));
	assert_false(kv_next(&c));
	assert_true(kv_seek_last(&t, T_ONE, (struct slice){ long_key, len }, 0, &c));
	assert_int_equal(c.key_len, KV_KEY_MAX);
	assert_true(kv_prev(&c));
	assert_true(slice_is((struct slice){ c.key, c.key_len }, "a"));
	assert_true(kv_next(&c));
	assert_int_equal(c.key_len, KV_KEY_MAX);
	assert_int_equal(kv_end_read(&t), OK);
}

/* --- cursors ---------------------------------------------------------------- */

static void test_walk_with_prefix(void **state)
{
	struct world *w = *state;

	expect_rows(w->kv, T_ONE, "", "");
	expect_rows_backward(w->kv, "", "");
	expect_rows_backward(w->kv, "\xff", "");
	assert_int_equal(apply(w->kv, "=a:1 =ab:2 =abc:3 =b:4"), OK);
	assert_int_equal(apply(w->kv, "=\xff:5 =\xff\xff:6 =\xff\xff\x01:7"), OK);
	expect_rows(w->kv, T_ONE, "ab", "ab:2 abc:3 ");
	expect_rows_backward(w->kv, "ab", "abc:3 ab:2 ");
	expect_rows(w->kv, T_ONE, "aa", "");
	expect_rows_backward(w->kv, "aa", "");
	expect_rows(w->kv, T_ONE, "\xff", "\xff:5 \xff\xff:6 \xff\xff\x01:7 ");
	expect_rows_backward(w->kv, "\xff", "\xff\xff\x01:7 \xff\xff:6 \xff:5 ");
	expect_rows_backward(w->kv, "\xff\xff\xff", "");
	expect_rows(w->kv, T_ONE, "c", "");
	expect_rows(w->kv, T_TWO, "", "");
}

static void test_cursor_that_is_nowhere(void **state)
{
	struct world *w = *state;
	struct kv_txn t = kv_begin_read(w->kv);
	struct kv_cursor c = { 0 };

	assert_false(kv_next(&c));
	assert_false(kv_prev(&c));
	assert_false(kv_seek(&t, T_ONE, text("a"), 1, &c));
	assert_null(c.txn);
	assert_false(kv_next(&c));
	assert_false(kv_prev(&c));
	assert_int_equal(kv_end_read(&t), OK);
}

/* The same questions to the store and to a sorted list of all short keys. */
#define SHORT_KEYS 340

struct model {
	struct slice keys[SHORT_KEYS];
	uint8_t bytes[SHORT_KEYS][4];
	bool present[SHORT_KEYS];
};

static int key_cmp(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->data, y->data, len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void model_fill(struct model *m)
{
	static const uint8_t letters[4] = { 0x00, 0x61, 0xfe, 0xff };
	unsigned n = 0;

	for (unsigned len = 1, all = 4; len <= 4; len++, all *= 4) {
		for (unsigned word = 0; word < all; word++, n++) {
			for (unsigned i = 0; i < len; i++)
				m->bytes[n][i] = letters[word >> 2 * i & 3];
			m->keys[n] = (struct slice){ m->bytes[n], len };
		}
	}
	assert_int_equal(n, SHORT_KEYS);
	qsort(m->keys, SHORT_KEYS, sizeof(*m->keys), key_cmp);
}

/* Index of the wanted present key, or -1. */
static int model_first(const struct model *m, int from_index, size_t prefix_len, struct slice from)
{
	for (int i = from_index; i < SHORT_KEYS; i++) {
		if (!m->present[i])
			continue;
		if (m->keys[i].len < prefix_len)
			return -1;
		return memcmp(m->keys[i].data, from.data, prefix_len) == 0 ? i : -1;
	}
	return -1;
}

static int model_last(const struct model *m, int upto_index, size_t prefix_len, struct slice from)
{
	for (int i = upto_index; i >= 0; i--) {
		if (!m->present[i])
			continue;
		if (m->keys[i].len < prefix_len)
			return -1;
		return memcmp(m->keys[i].data, from.data, prefix_len) == 0 ? i : -1;
	}
	return -1;
}

/* Last index whose key is at or below from.ff ff ff */
static int upto(const struct model *m, struct slice from)
{
	int last = -1;

	for (int i = 0; i < SHORT_KEYS; i++) {
		size_t len = m->keys[i].len < from.len ? m->keys[i].len : from.len;

		if (memcmp(m->keys[i].data, from.data, len) <= 0)
			last = i;
	}
	return last;
}

static void expect_at(bool found, const struct kv_cursor *c, const struct model *m, int want)
{
	assert_int_equal(found, want >= 0);
	if (!found)
		return;
	assert_int_equal(c->key_len, m->keys[want].len);
	assert_memory_equal(c->key, m->keys[want].data, c->key_len);
	assert_int_equal(c->val.len, c->key_len);
	assert_memory_equal(c->val.data, c->key, c->key_len);
}

static void compare_from(struct kv_txn *t, const struct model *m, int at, size_t prefix_len)
{
	struct slice from = m->keys[at];
	int first = model_first(m, at, prefix_len, from);
	int last = model_last(m, upto(m, from), prefix_len, from);
	struct kv_cursor c;

	expect_at(kv_seek(t, T_ONE, from, prefix_len, &c), &c, m, first);
	if (first >= 0)
		expect_at(kv_next(&c), &c, m, model_first(m, first + 1, prefix_len, from));
	expect_at(kv_seek_last(t, T_ONE, from, prefix_len, &c), &c, m, last);
	if (last >= 0)
		expect_at(kv_prev(&c), &c, m, model_last(m, last - 1, prefix_len, from));
}

static void toggle_and_compare(struct kv_txn *t, void *ctx)
{
	struct model *m = ctx;

	for (int i = 0; i < SHORT_KEYS; i++) {
		if (rand() % 3)
			continue;
		if (m->present[i])
			kv_del(t, T_ONE, m->keys[i]);
		else
			kv_add(t, T_ONE, m->keys[i], m->keys[i]);
		m->present[i] = !m->present[i];
	}
	for (int i = 0; i < SHORT_KEYS; i++) {
		for (size_t prefix_len = 0; prefix_len <= m->keys[i].len; prefix_len++)
			compare_from(t, m, i, prefix_len);
	}
}

static void test_seeks_against_a_list(void **state)
{
	struct world *w = *state;
	struct model *m = xcalloc(1, sizeof(*m));

	srand(1);
	model_fill(m);
	for (int round = 0; round < 20; round++)
		assert_int_equal(kv_write(w->kv, toggle_and_compare, m), OK);
	free(m);
}

static struct slice number(uint8_t out[8], uint64_t n)
{
	be64_put(out, n);
	return (struct slice){ out, 8 };
}

/* Forward: drop odd keys, put a key behind each even one, which is met next. */
static void edit_forward(struct kv_txn *t, void *ctx)
{
	struct kv_cursor c;
	uint8_t key[8];
	uint64_t *met = ctx;

	*met = 0;
	for (uint64_t i = 0; i < 2000; i++)
		kv_put(t, T_ONE, number(key, i * 10), text("some twenty bytes..."));
	for (bool ok = kv_seek(t, T_ONE, text(""), 0, &c); ok; ok = kv_next(&c), ++*met) {
		uint64_t n = be64_get(c.key);

		if (n % 20 == 10)
			kv_del(t, T_ONE, number(key, n));
		if (n % 20 == 0)
			kv_put(t, T_ONE, number(key, n + 1), text("behind"));
	}
}

static void delete_backward(struct kv_txn *t, void *ctx)
{
	struct kv_cursor c;
	uint64_t *met = ctx;

	*met = 0;
	for (bool ok = kv_seek_last(t, T_ONE, text(""), 0, &c); ok; ok = kv_prev(&c), ++*met)
		kv_del(t, T_ONE, (struct slice){ c.key, c.key_len });
}

static void test_edits_between_steps(void **state)
{
	struct world *w = *state;
	uint64_t met;

	assert_int_equal(kv_write(w->kv, edit_forward, &met), OK);
	assert_int_equal(met, 3000);
	assert_int_equal(kv_write(w->kv, delete_backward, &met), OK);
	assert_int_equal(met, 2000);
	expect_rows(w->kv, T_ONE, "", "");
}

static void test_seek_from_the_cursors_own_key(void **state)
{
	struct world *w = *state;
	struct kv_txn t;
	struct kv_cursor c;

	assert_int_equal(apply(w->kv, "=aa:1 =ab:2 =b:3"), OK);
	t = kv_begin_read(w->kv);
	assert_true(kv_seek(&t, T_ONE, text("ab"), 0, &c));
	assert_true(kv_seek_last(&t, T_ONE, (struct slice){ c.key, 1 }, 1, &c));
	assert_true(slice_is((struct slice){ c.key, c.key_len }, "ab"));
	assert_true(kv_seek(&t, T_ONE, (struct slice){ c.key, 1 }, 1, &c));
	assert_true(slice_is((struct slice){ c.key, c.key_len }, "aa"));
	assert_int_equal(kv_end_read(&t), OK);
}

/* --- a full map --------------------------------------------------------------- */

struct load {
	uint64_t first;
	uint64_t count;
	size_t val_len;
	uint64_t runs;
	uint64_t ends;		/* runs whose puts all succeeded */
};

static void put_load(struct kv_txn *t, void *ctx)
{
	static const uint8_t zeros[8192];
	struct load *l = ctx;
	uint8_t key[8];

	l->runs++;
	for (uint64_t i = 0; i < l->count; i++)
		kv_add(t, T_ONE, number(key, l->first + i), (struct slice){ zeros, l->val_len });
	if (t->err == OK)
		l->ends++;
}

static uint64_t rows(struct kv *kv)
{
	struct kv_txn t = kv_begin_read(kv);
	uint64_t count = kv_count(&t, T_ONE);
	struct kv_cursor c;
	uint64_t met = 0;

	for (bool ok = kv_seek(&t, T_ONE, text(""), 0, &c); ok; ok = kv_next(&c))
		met++;
	assert_int_equal(kv_end_read(&t), OK);
	assert_int_equal(met, count);
	return count;
}

static void test_full_map_grows_and_redoes(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 5000, .val_len = 100 };

	w->options.map_bytes = 64 << 10;
	reopen(w);
	assert_int_equal(kv_stats(w->kv).map_bytes, 64 << 10);
	assert_int_equal(kv_write(w->kv, put_load, &l), OK);
	assert_int_equal(l.runs, 1 + kv_stats(w->kv).grown);
	assert_int_equal(l.ends, 1);
	assert_int_equal(kv_stats(w->kv).grown, 4);
	assert_int_equal(kv_stats(w->kv).map_bytes, 1 << 20);
	assert_int_equal(kv_stats(w->kv).commits, 1);
	assert_int_equal(rows(w->kv), 5000);
	reopen(w);
	assert_int_equal(rows(w->kv), 5000);
	assert_true(kv_stats(w->kv).map_bytes > 64 << 10);
}

/* The list of free pages is written by the commit, which then finds no page. */
static void test_map_full_only_at_commit(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 1 };
	int at_put = 0, at_commit = 0;

	w->options.map_bytes = 32 << 10;
	reopen(w);
	for (uint64_t i = 0; i < 400; i++) {
		l = (struct load){ .first = i, .count = 1, .val_len = 500 + i % 7 * 1200 };
		assert_int_equal(kv_write(w->kv, put_load, &l), OK);
		at_commit += l.ends == 2;
		at_put += l.runs == 2 && l.ends == 1;
	}
	assert_int_equal(rows(w->kv), 400);
	assert_true(at_put > 0);
	assert_true(at_commit > 0);
}

static void test_map_that_may_not_grow_further(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 100, .val_len = 100 };
	struct load big = { .first = 100, .count = 9000, .val_len = 100 };

	w->options.map_bytes = 64 << 10;
	w->options.map_max_bytes = 200 << 10;
	reopen(w);
	assert_int_equal(kv_write(w->kv, put_load, &l), OK);
	assert_int_equal(kv_write(w->kv, put_load, &big), E_FULL);
	assert_int_equal(big.runs, 3);
	assert_int_equal(kv_stats(w->kv).map_bytes, 200 << 10);
	assert_int_equal(rows(w->kv), 100);
	assert_int_equal(kv_write(w->kv, put_load, &big), E_FULL);
	assert_int_equal(big.runs, 4);
	big.count = 10;
	assert_int_equal(kv_write(w->kv, put_load, &big), OK);
	assert_int_equal(rows(w->kv), 110);
	reopen(w);
	assert_int_equal(rows(w->kv), 110);
}

static void test_store_filled_row_by_row(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 1, .val_len = 900 };
	uint64_t stored = 0;

	w->options.map_bytes = w->options.map_max_bytes = 128 << 10;
	reopen(w);
	for (; kv_write(w->kv, put_load, &l) == OK; l.first++)
		stored++;
	assert_true(stored > 20);
	assert_int_equal(kv_write(w->kv, put_load, &l), E_FULL);
	assert_int_equal(rows(w->kv), stored);
	w->options.map_max_bytes = 0;
	reopen(w);
	assert_int_equal(rows(w->kv), stored);
	assert_int_equal(kv_write(w->kv, put_load, &l), OK);
	assert_int_equal(rows(w->kv), stored + 1);
}

/* --- the hook ------------------------------------------------------------------- */

struct trap {
	enum kv_point point;
	int skip;		/* pass this often first */
	enum err err;		/* OK: kill the process */
	int asked;
};

static enum err spring(void *ctx, enum kv_point point)
{
	struct trap *trap = ctx;

	if (point != trap->point || trap->asked++ != trap->skip)
		return OK;
	if (trap->err == OK)
		raise(SIGKILL);
	return trap->err;
}

static void set_trap(struct kv *kv, struct trap *trap)
{
	kv_set_hook(kv, (struct kv_hook){ spring, trap });
}

static void test_hook_before_each_put(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "=a:1 =b:2"), OK);
	for (int i = 0; i < 4; i++) {
		struct trap trap = { KV_BEFORE_PUT, i, i % 2 ? E_FULL : E_IO, 0 };

		set_trap(w->kv, &trap);
		assert_int_equal(apply(w->kv, "=a:9 +c:3 -b =d:4"), trap.err);
		assert_int_equal(trap.asked, i + 1);
		expect_rows(w->kv, T_ONE, "", "a:1 b:2 ");
	}
	kv_set_hook(w->kv, (struct kv_hook){ 0 });
	assert_int_equal(kv_stats(w->kv).grown, 0);
	assert_int_equal(apply(w->kv, "=a:9 +c:3 -b =d:4"), OK);
	expect_rows(w->kv, T_ONE, "", "a:9 c:3 d:4 ");
}

static void test_hook_around_the_commit(void **state)
{
	struct world *w = *state;
	struct trap before = { KV_BEFORE_COMMIT, 0, E_FULL, 0 };
	struct trap after = { KV_AFTER_COMMIT, 0, E_IO, 0 };

	set_trap(w->kv, &before);
	assert_int_equal(apply(w->kv, "=a:1"), E_FULL);
	assert_int_equal(apply(w->kv, "!"), E_REFUSED);
	assert_int_equal(before.asked, 1);
	expect_rows(w->kv, T_ONE, "", "");
	set_trap(w->kv, &after);
	assert_int_equal(apply(w->kv, "=a:1"), OK);
	assert_int_equal(after.asked, 1);
	expect_rows(w->kv, T_ONE, "", "a:1 ");
	assert_int_equal(kv_stats(w->kv).commits, 1);
}

/* --- other processes -------------------------------------------------------------- */

struct child {
	pid_t pid;
	int to;
	int from;
};

static const char *self;

static struct child start(const char *role, const char *dir)
{
	struct child c;
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	c = (struct child){ fork(), to[1], from[0] };
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl(self, self, role, dir, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	return c;
}

/* Wait for one line of the child; without its newline. */
static void expect_line(struct child *c, const char *want)
{
	char got[600];
	size_t len = 0;

	while (len < sizeof(got) - 1 && read(c->from, got + len, 1) == 1 && got[len] != '\n')
		len++;
	got[len] = 0;
	if (!strstr(got, want))
		fail_msg("child says \"%s\", want \"%s\"", got, want);
}

static void go_on(struct child *c)
{
	assert_int_equal(write(c->to, "\n", 1), 1);
}

static int finish(struct child *c)
{
	int status;

	close(c->to);
	close(c->from);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	return status;
}

static void expect_killed(struct child *c)
{
	int status = finish(c);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void expect_exit(struct child *c, int code)
{
	int status = finish(c);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

static void wait_for_parent(void)
{
	char byte;

	if (read(0, &byte, 1) != 1)
		exit(0);
}

static struct kv *child_open(const char *dir, bool read_only)
{
	struct kv_options o = { .tables = table_names, .table_count = 2, .read_only = read_only };
	struct complaint why;
	struct kv *kv;
	enum err err = kv_open(dir, &o, &kv, &why);

	if (err == OK)
		return kv;
	say(why.text);
	exit(err);
}

static int role_killed_in_body(const char *dir)
{
	return (int)apply(child_open(dir, false), "=a:9 -b =c:3 Kill");
}

static int role_killed_at(const char *dir, enum kv_point point, int skip)
{
	struct trap trap = { point, skip, OK, 0 };
	struct kv *kv = child_open(dir, false);

	set_trap(kv, &trap);
	return (int)apply(kv, "=a:9 -b =c:3");
}

static int role_killed_at_put(const char *dir)
{
	return role_killed_at(dir, KV_BEFORE_PUT, 2);
}

static int role_killed_before_commit(const char *dir)
{
	return role_killed_at(dir, KV_BEFORE_COMMIT, 0);
}

static int role_killed_after_commit(const char *dir)
{
	return role_killed_at(dir, KV_AFTER_COMMIT, 0);
}

static int role_writer(const char *dir)
{
	struct kv *kv = child_open(dir, false);

	say("open");
	wait_for_parent();
	kv_close(kv);
	return 0;
}

static int role_idle_reader(const char *dir)
{
	struct kv *kv = child_open(dir, true);

	say("open");
	wait_for_parent();
	kv_close(kv);
	return 0;
}

static void say_value(struct kv_txn *t, const char *key)
{
	struct slice v;
	char line[64] = "absent";

	if (kv_get(t, T_ONE, text(key), &v))
		snprintf(line, sizeof(line), "%.*s", (int)v.len, (const char *)v.data);
	say(line);
}

/* Two views, with the parent's writes between. */
static int role_reader(const char *dir)
{
	struct kv *kv = child_open(dir, true);
	struct kv_txn t = kv_begin_read(kv);

	say_value(&t, "a");
	wait_for_parent();
	say_value(&t, "a");
	if (kv_end_read(&t) != OK)
		return 1;
	t = kv_begin_read(kv);
	say_value(&t, "a");
	if (kv_end_read(&t) != OK)
		return 1;
	kv_close(kv);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const char *dir);
} roles[] = {
	{ "killed-in-body", role_killed_in_body },
	{ "killed-at-put", role_killed_at_put },
	{ "killed-before-commit", role_killed_before_commit },
	{ "killed-after-commit", role_killed_after_commit },
	{ "writer", role_writer },
	{ "idle-reader", role_idle_reader },
	{ "reader", role_reader },
};

static void expect_after_kill(struct world *w, const char *role, const char *want)
{
	struct child c;

	kv_close(w->kv);
	w->kv = NULL;
	c = start(role, w->dir);
	expect_killed(&c);
	reopen(w);
	expect_rows(w->kv, T_ONE, "", want);
}

static void test_kill_in_mid_transaction(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "=a:1 =b:2"), OK);
	expect_after_kill(w, "killed-in-body", "a:1 b:2 ");
	expect_after_kill(w, "killed-at-put", "a:1 b:2 ");
	expect_after_kill(w, "killed-before-commit", "a:1 b:2 ");
	expect_after_kill(w, "killed-after-commit", "a:9 c:3 ");
	assert_int_equal(apply(w->kv, "=b:4"), OK);
	expect_rows(w->kv, T_ONE, "", "a:9 b:4 c:3 ");
}

static uint64_t pages_grown_by_commits(struct kv *kv)
{
	uint64_t before = kv_stats(kv).pages_used;

	for (int i = 0; i < 100; i++)
		assert_int_equal(apply(kv, "=x:1"), OK);
	return kv_stats(kv).pages_used - before;
}

/* The idle reader keeps LMDB's lock file alive, so that nothing resets it. */
static void test_killed_reader_is_cleared(void **state)
{
	struct world *w = *state;
	struct child idle = start("idle-reader", w->dir), reader;

	expect_line(&idle, "open");
	assert_int_equal(apply(w->kv, "=a:1"), OK);
	reader = start("reader", w->dir);
	expect_line(&reader, "1");
	assert_true(pages_grown_by_commits(w->kv) > 100);
	kill(reader.pid, SIGKILL);
	expect_killed(&reader);
	assert_true(pages_grown_by_commits(w->kv) < 20);
	reader = start("reader", w->dir);
	expect_line(&reader, "1");
	kv_close(w->kv);
	w->kv = NULL;
	kill(reader.pid, SIGKILL);
	expect_killed(&reader);
	reopen(w);
	assert_true(pages_grown_by_commits(w->kv) < 20);
	expect_exit(&idle, 0);
}

static void test_reader_keeps_its_view_and_follows_growth(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 5000, .val_len = 100 };
	struct child reader;

	recreate(w, 64 << 10);
	assert_int_equal(apply(w->kv, "=a:old"), OK);
	reader = start("reader", w->dir);
	expect_line(&reader, "old");
	assert_int_equal(kv_write(w->kv, put_load, &l), OK);
	assert_int_equal(apply(w->kv, "=a:new"), OK);
	assert_true(kv_stats(w->kv).grown > 0);
	go_on(&reader);
	expect_line(&reader, "old");
	expect_line(&reader, "new");
	expect_exit(&reader, 0);
}

static void test_second_writer_is_refused(void **state)
{
	struct world *w = *state;
	struct child c = start("writer", w->dir);
	char pid[32];

	snprintf(pid, sizeof(pid), "process %ld ", (long)getpid());
	expect_line(&c, pid);
	expect_exit(&c, E_REFUSED);
	assert_int_equal(apply(w->kv, "=a:1"), OK);
	kv_close(w->kv);
	w->kv = NULL;
	c = start("writer", w->dir);
	expect_line(&c, "open");
	snprintf(pid, sizeof(pid), "process %ld ", (long)c.pid);
	assert_int_equal(kv_open(w->dir, &w->options, &w->kv, &w->why), E_REFUSED);
	assert_null(w->kv);
	assert_non_null(strstr(w->why.text, pid));
	assert_null(strchr(w->why.text, '\n'));
	kill(c.pid, SIGKILL);
	expect_killed(&c);
	reopen(w);
	expect_rows(w->kv, T_ONE, "", "a:1 ");
}

static void test_reader_beside_a_writer(void **state)
{
	struct world *w = *state;
	struct child c;

	kv_close(w->kv);
	w->kv = NULL;
	c = start("writer", w->dir);
	expect_line(&c, "open");
	w->options.read_only = true;
	reopen(w);
	expect_rows(w->kv, T_ONE, "", "");
	expect_exit(&c, 0);
}

/* --- opening ------------------------------------------------------------------------ */

static void expect_refusal(struct world *w, const char *dir, enum err want, const char *says)
{
	enum err err = kv_open(dir, &w->options, &w->kv, &w->why);

	assert_int_equal(err, want);
	assert_null(w->kv);
	if (!strstr(w->why.text, says))
		fail_msg("complaint \"%s\", want \"%s\"", w->why.text, says);
}

static void test_read_only(void **state)
{
	struct world *w = *state;
	struct script s = { .words = "=a:2" };

	assert_int_equal(apply(w->kv, "=a:1"), OK);
	w->options.read_only = true;
	reopen(w);
	expect_rows(w->kv, T_ONE, "", "a:1 ");
	assert_int_equal(kv_write(w->kv, run_script, &s), E_REFUSED);
	assert_int_equal(s.runs, 0);
	kv_close(w->kv);
	w->options.table_count = 3;
	expect_refusal(w, w->dir, E_SCHEMA, "table \"three\"");
}

static void test_read_only_makes_nothing(void **state)
{
	struct world *w = *state;
	char dir[128];
	struct stat st;

	kv_close(w->kv);
	w->options.read_only = true;
	snprintf(dir, sizeof(dir), "%s/absent", w->dir);
	expect_refusal(w, dir, E_NOT_FOUND, dir);
	assert_int_equal(stat(dir, &st), -1);
	snprintf(dir, sizeof(dir), "%s/tidemark.mdb", w->dir);
	assert_int_equal(unlink(dir), 0);
	expect_refusal(w, w->dir, E_NOT_FOUND, dir);
	assert_int_equal(stat(dir, &st), -1);
}

static void test_tables_are_added(void **state)
{
	struct world *w = *state;

	assert_int_equal(apply(w->kv, "=a:1"), OK);
	w->options.table_count = 3;
	reopen(w);
	expect_rows(w->kv, T_ONE, "", "a:1 ");
	assert_int_equal(apply_to(w->kv, 2, "=b:2"), OK);
	expect_rows(w->kv, 2, "", "b:2 ");
}

static void test_folder_is_made(void **state)
{
	struct world *w = *state;
	struct world *made = xcalloc(1, sizeof(*made));
	void *inner = made;

	kv_close(w->kv);
	w->kv = NULL;
	made->options = w->options;
	snprintf(made->dir, sizeof(made->dir), "%.40s/made", w->dir);
	reopen(made);
	assert_int_equal(apply(made->kv, "=a:1"), OK);
	assert_int_equal(tear_down(&inner), 0);
}

static void test_folder_that_cannot_be_made(void **state)
{
	struct world *w = *state;
	char dir[128];

	kv_close(w->kv);
	snprintf(dir, sizeof(dir), "%s/no/folder", w->dir);
	expect_refusal(w, dir, E_IO, dir);
	snprintf(dir, sizeof(dir), "%s/tidemark.mdb", w->dir);
	expect_refusal(w, dir, E_IO, "Not a directory");
	snprintf(dir, sizeof(dir), "%s/tidemark.mdb/below", w->dir);
	expect_refusal(w, dir, E_IO, dir);
}

static void overwrite(const char *dir, size_t len)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/tidemark.mdb", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	for (size_t i = 0; i < len; i++)
		fputc('x', f);
	assert_int_equal(fclose(f), 0);
}

static void test_unknown_file_is_refused(void **state)
{
	struct world *w = *state;

	kv_close(w->kv);
	overwrite(w->dir, 100000);
	expect_refusal(w, w->dir, E_CORRUPT, "not an LMDB file");
	assert_non_null(strstr(w->why.text, "tidemark.mdb"));
	overwrite(w->dir, 10);
	expect_refusal(w, w->dir, E_CORRUPT, "not an LMDB file");
	w->options.read_only = true;
	expect_refusal(w, w->dir, E_CORRUPT, "not an LMDB file");
}

static void test_file_cut_short_is_refused(void **state)
{
	struct world *w = *state;
	struct load l = { .count = 5000, .val_len = 100 };
	char path[128];

	assert_int_equal(kv_write(w->kv, put_load, &l), OK);
	kv_close(w->kv);
	snprintf(path, sizeof(path), "%s/tidemark.mdb", w->dir);
	assert_int_equal(truncate(path, 300000), 0);
	expect_refusal(w, w->dir, E_CORRUPT, "cut short");
	w->options.read_only = true;
	expect_refusal(w, w->dir, E_CORRUPT, "cut short");
}

/* Put or delete random rows, small and large; if *@ctx, all are gone after. */
static void churn(struct kv_txn *t, void *ctx)
{
	static const uint8_t zeros[20000];
	uint8_t key[8];
	struct slice v;

	for (int i = 0; i < 200; i++) {
		size_t len = (size_t)rand() % (i % 4 ? 400 : sizeof(zeros));

		number(key, (uint64_t)rand() % 300);
		if (kv_get(t, T_ONE, (struct slice){ key, 8 }, &v))
			kv_del(t, T_ONE, (struct slice){ key, 8 });
		else
			kv_put(t, T_ONE, (struct slice){ key, 8 }, (struct slice){ zeros, len });
	}
	if (*(bool *)ctx)
		delete_backward(t, &(uint64_t){ 0 });
}

static void churn_and_reopen(struct world *w)
{
	for (int i = 0; i < 60; i++) {
		bool wipe = i % 6 == 5;

		assert_int_equal(kv_write(w->kv, churn, &wipe), OK);
		reopen(w);
		assert_true(wipe ? rows(w->kv) == 0 : rows(w->kv) > 0);
	}
}

/* In a sixth of such commits LMDB counts last pages that it never wrote. */
static void test_file_with_unwritten_pages_is_whole(void **state)
{
	struct world *w = *state;

	srand(1);
	churn_and_reopen(w);
	recreate(w, 64 << 10);
	churn_and_reopen(w);
}

static void test_stats(void **state)
{
	struct world *w = *state;
	struct kv_stats s = kv_stats(w->kv);

	assert_int_equal(s.commits + s.puts + s.gets + s.grown, 0);
	assert_int_equal(s.map_bytes, KV_MAP_BYTES);
	assert_true(s.page_bytes >= 4096);
	assert_int_equal(apply(w->kv, "=a:1 =b:2 -a"), OK);
	assert_int_equal(apply(w->kv, "=a:1 !"), E_REFUSED);
	expect_rows(w->kv, T_ONE, "", "b:2 ");
	s = kv_stats(w->kv);
	assert_int_equal(s.puts, 4);
	assert_int_equal(s.commits, 1);
	assert_int_equal(s.gets, 2);
	assert_true(s.pages_used >= 3);
}

static int play(const char *role, const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		if (strcmp(roles[i].name, role) == 0)
			return roles[i].run(dir);
	}
	return 2;
}

#define IN_A_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		IN_A_STORE(test_get_put_add_del),
		IN_A_STORE(test_body_sees_its_own_writes),
		IN_A_STORE(test_add_and_del_are_strict),
		IN_A_STORE(test_body_that_fails_leaves_nothing),
		IN_A_STORE(test_first_error_sticks),
		IN_A_STORE(test_key_lengths),
		IN_A_STORE(test_walk_with_prefix),
		IN_A_STORE(test_cursor_that_is_nowhere),
		IN_A_STORE(test_seeks_against_a_list),
		IN_A_STORE(test_edits_between_steps),
		IN_A_STORE(test_seek_from_the_cursors_own_key),
		IN_A_STORE(test_full_map_grows_and_redoes),
		IN_A_STORE(test_map_full_only_at_commit),
		IN_A_STORE(test_map_that_may_not_grow_further),
		IN_A_STORE(test_store_filled_row_by_row),
		IN_A_STORE(test_hook_before_each_put),
		IN_A_STORE(test_hook_around_the_commit),
		IN_A_STORE(test_kill_in_mid_transaction),
		IN_A_STORE(test_killed_reader_is_cleared),
		IN_A_STORE(test_reader_keeps_its_view_and_follows_growth),
		IN_A_STORE(test_second_writer_is_refused),
		IN_A_STORE(test_reader_beside_a_writer),
		IN_A_STORE(test_read_only),
		IN_A_STORE(test_read_only_makes_nothing),
		IN_A_STORE(test_tables_are_added),
		IN_A_STORE(test_folder_is_made),
		IN_A_STORE(test_folder_that_cannot_be_made),
		IN_A_STORE(test_unknown_file_is_refused),
		IN_A_STORE(test_file_cut_short_is_refused),
		IN_A_STORE(test_file_with_unwritten_pages_is_whole),
		IN_A_STORE(test_stats),
	};

	self = argv[0];
	if (argc == 3)
		return play(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
