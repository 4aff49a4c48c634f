#include "store/kv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct kv {
	MDB_env *env;
	MDB_dbi *tables;
	unsigned table_count;
	int lock_fd;			/* -1 without the lock */
	size_t map_max_bytes;
	struct kv_hook hook;
	struct kv_stats counted;
	unsigned readers;		/* read transactions open now */
	bool read_only;
	bool writing;
	bool map_full;			/* what the last write failed of */
	bool unmapped;			/* a remap failed: LMDB may not be called any more */
};

static enum err from_mdb(int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return OK;
	case MDB_MAP_FULL:
	case ENOSPC:
	case EDQUOT:
		return E_FULL;
	case MDB_BAD_VALSIZE:
	case MDB_CORRUPTED:
	case MDB_CURSOR_FULL:
	case MDB_INCOMPATIBLE:
	case MDB_INVALID:
	case MDB_KEYEXIST:
	case MDB_NOTFOUND:
	case MDB_PAGE_FULL:
	case MDB_PAGE_NOTFOUND:
	case MDB_VERSION_MISMATCH:
		return E_CORRUPT;
	default:
		return E_IO;
	}
}

/* --- transactions ------------------------------------------------------- */

static MDB_val to_val(struct slice s)
{
	return (MDB_val){ s.len, (void *)(uintptr_t)s.data };
}

static struct slice from_val(MDB_val v)
{
	return (struct slice){ v.mv_data, v.mv_size };
}

void kv_fail(struct kv_txn *t, enum err err)
{
	assert(err != OK);
	if (t->err == OK)
		t->err = err;
}

/* Whether a call on @t may go on. */
static bool is_live(const struct kv_txn *t)
{
	if (t->err != OK)
		return false;
	assert(t->mdb);			/* ended */
	return true;
}

/* Keep the failure @rc of LMDB, if it is one. */
static bool succeeded(struct kv_txn *t, int rc)
{
	if (rc == MDB_SUCCESS)
		return true;
	if (t->err == OK && rc == MDB_MAP_FULL)
		t->kv->map_full = true;
	kv_fail(t, from_mdb(rc));
	return false;
}

static void ask_hook(struct kv_txn *t, enum kv_point point)
{
	const struct kv_hook *hook = &t->kv->hook;
	enum err err = hook->at ? hook->at(hook->ctx, point) : OK;

	if (err != OK)
		kv_fail(t, err);
}

/* Needs that no transaction is open: pointers into the old map die. */
static int remap(struct kv *kv, size_t bytes)
{
	int rc = mdb_env_set_mapsize(kv->env, bytes);

	kv->unmapped = rc != MDB_SUCCESS;
	return rc;
}

/* Another process may have grown the file past our map: take its size. */
static struct kv_txn begin(struct kv *kv, bool write)
{
	unsigned flags = write ? 0 : MDB_RDONLY;
	struct kv_txn t = { .kv = kv, .write = write };
	MDB_txn *mdb = NULL;
	int rc = kv->unmapped ? MDB_PANIC : mdb_txn_begin(kv->env, NULL, flags, &mdb);

	while (rc == MDB_MAP_RESIZED && kv->readers == 0) {
		rc = remap(kv, 0);
		if (rc == MDB_SUCCESS)
			rc = mdb_txn_begin(kv->env, NULL, flags, &mdb);
	}
	if (succeeded(&t, rc))
		t.mdb = mdb;
	return t;
}

/* Commit if nothing failed, else undo. */
static enum err end(struct kv_txn *t)
{
	MDB_txn *mdb = t->mdb;

	t->mdb = NULL;
	if (!mdb)
		return t->err;
	if (t->err == OK)
		succeeded(t, mdb_txn_commit(mdb));
	else
		mdb_txn_abort(mdb);
	return t->err;
}

struct kv_txn kv_begin_read(struct kv *kv)
{
	struct kv_txn t = begin(kv, false);

	if (t.mdb)
		kv->readers++;
	return t;
}

enum err kv_end_read(struct kv_txn *t)
{
	assert(!t->write);
	if (t->mdb)
		t->kv->readers--;
	return end(t);
}

/* A reader killed while we run would pin every page freed after it. */
static void clear_dead_readers(struct kv *kv)
{
	int dead;

	mdb_reader_check(kv->env, &dead);
}

static enum err write_once(struct kv *kv, void (*body)(struct kv_txn *t, void *ctx), void *ctx)
{
	struct kv_txn t;

	kv->map_full = false;
	clear_dead_readers(kv);
	t = begin(kv, true);
	if (is_live(&t))
		body(&t, ctx);
	if (is_live(&t))
		ask_hook(&t, KV_BEFORE_COMMIT);
	if (end(&t) != OK)
		return t.err;
	kv->counted.commits++;
	if (kv->hook.at)
		kv->hook.at(kv->hook.ctx, KV_AFTER_COMMIT);
	return OK;
}

static size_t map_bytes(const struct kv *kv)
{
	MDB_envinfo info;

	mdb_env_info(kv->env, &info);
	return info.me_mapsize;
}

/* A failed remap cannot be undone, so try whether the address space is there. */
static bool can_map(const struct kv *kv, size_t bytes)
{
	mdb_filehandle_t fd;
	void *map;

	mdb_env_get_fd(kv->env, &fd);
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return false;
	munmap(map, bytes);
	return true;
}

/*
 * The file is as long as the map (the rest is a hole), since LMDB does not
 * write a last page that was freed in the transaction that took it: only so
 * is a file shorter than its pages surely one that was cut.
 */
static bool stretch_file(const struct kv *kv, size_t bytes)
{
	mdb_filehandle_t fd;
	struct stat st;

	mdb_env_get_fd(kv->env, &fd);
	if (fstat(fd, &st) < 0)
		return false;
	return (uint64_t)st.st_size >= bytes || ftruncate(fd, (off_t)bytes) == 0;
}

static bool grow(struct kv *kv)
{
	size_t now = map_bytes(kv);
	size_t want = now < kv->map_max_bytes / 2 ? now * 2 : kv->map_max_bytes;

	assert(kv->readers == 0);
	if (now >= want || !can_map(kv, want) || !stretch_file(kv, want))
		return false;
	if (remap(kv, want) != MDB_SUCCESS)
		return false;
	kv->counted.grown++;
	return true;
}

enum err kv_write(struct kv *kv, void (*body)(struct kv_txn *t, void *ctx), void *ctx)
{
	enum err err;

	assert(!kv->writing && kv->readers == 0);
	if (kv->read_only)
		return E_REFUSED;
	kv->writing = true;
	do {
		err = write_once(kv, body, ctx);
	} while (kv->map_full && grow(kv));
	kv->writing = false;
	return err;
}

/* --- rows ---------------------------------------------------------------- */

static MDB_dbi dbi_of(const struct kv_txn *t, unsigned table)
{
	assert(table < t->kv->table_count);
	return t->kv->tables[table];
}

static bool may_use(struct kv_txn *t, struct slice key)
{
	if (is_live(t) && (key.len == 0 || key.len > KV_KEY_MAX))
		kv_fail(t, E_CORRUPT);
	return is_live(t);
}

static bool may_change(struct kv_txn *t, struct slice key)
{
	assert(t->write);
	if (!may_use(t, key))
		return false;
	ask_hook(t, KV_BEFORE_PUT);
	if (!is_live(t))
		return false;
	t->kv->counted.puts++;
	return true;
}

bool kv_get(struct kv_txn *t, unsigned table, struct slice key, struct slice *val)
{
	MDB_val k = to_val(key), v;
	int rc;

	if (!may_use(t, key))
		return false;
	t->kv->counted.gets++;
	rc = mdb_get(t->mdb, dbi_of(t, table), &k, &v);
	if (rc == MDB_NOTFOUND || !succeeded(t, rc))
		return false;
	*val = from_val(v);
	return true;
}

static void put(struct kv_txn *t, unsigned table, struct slice key, struct slice val,
		unsigned flags)
{
	MDB_val k = to_val(key), v = to_val(val);

	if (may_change(t, key))
		succeeded(t, mdb_put(t->mdb, dbi_of(t, table), &k, &v, flags));
}

void kv_put(struct kv_txn *t, unsigned table, struct slice key, struct slice val)
{
	put(t, table, key, val, 0);
}

void kv_add(struct kv_txn *t, unsigned table, struct slice key, struct slice val)
{
	put(t, table, key, val, MDB_NOOVERWRITE);
}

void kv_del(struct kv_txn *t, unsigned table, struct slice key)
{
	MDB_val k = to_val(key);

	if (may_change(t, key))
		succeeded(t, mdb_del(t->mdb, dbi_of(t, table), &k, NULL));
}

uint64_t kv_count(struct kv_txn *t, unsigned table)
{
	MDB_stat stat;

	if (!is_live(t) || !succeeded(t, mdb_stat(t->mdb, dbi_of(t, table), &stat)))
		return 0;
	return stat.ms_entries;
}

/* --- cursors --------------------------------------------------------------
 * Each step opens a cursor of LMDB, seeks and closes it (20 ns of 130), so none
 * is open while a row is put or deleted.
 */

struct row {
	MDB_val key;
	MDB_val val;
};

/* First row at or after @bound. */
static int first_from(MDB_cursor *mc, struct slice bound, struct row *r)
{
	r->key = to_val(bound);
	return mdb_cursor_get(mc, &r->key, &r->val, bound.len ? MDB_SET_RANGE : MDB_FIRST);
}

/* Last row before @bound; the table's last for an empty one. */
static int last_before(MDB_cursor *mc, struct slice bound, struct row *r)
{
	int rc = bound.len ? first_from(mc, bound, r) : MDB_NOTFOUND;

	if (rc == MDB_SUCCESS)
		return mdb_cursor_get(mc, &r->key, &r->val, MDB_PREV);
	if (rc == MDB_NOTFOUND)
		return mdb_cursor_get(mc, &r->key, &r->val, MDB_LAST);
	return rc;
}

typedef int find_fn(MDB_cursor *mc, struct slice bound, struct row *r);

static bool find(struct kv_cursor *c, find_fn *where, struct slice bound, struct row *r)
{
	struct kv_txn *t = c->txn;
	MDB_cursor *mc;
	int rc;

	if (!is_live(t) || !succeeded(t, mdb_cursor_open(t->mdb, dbi_of(t, c->table), &mc)))
		return false;
	t->kv->counted.gets++;
	rc = where(mc, bound, r);
	mdb_cursor_close(mc);
	return rc != MDB_NOTFOUND && succeeded(t, rc);
}

static bool has_prefix(const struct kv_cursor *c, const MDB_val *key)
{
	return key->mv_size >= c->prefix_len && memcmp(key->mv_data, c->key, c->prefix_len) == 0;
}

static bool step(struct kv_cursor *c, find_fn *where, struct slice bound)
{
	struct row r;

	if (!find(c, where, bound, &r) || !has_prefix(c, &r.key)) {
		*c = (struct kv_cursor){ 0 };
		return false;
	}
	if (r.key.mv_size > KV_KEY_MAX) {
		kv_fail(c->txn, E_CORRUPT);
		*c = (struct kv_cursor){ 0 };
		return false;
	}
	memcpy(c->key, r.key.mv_data, r.key.mv_size);
	c->key_len = r.key.mv_size;
	c->val = from_val(r.val);
	return true;
}

/* @from may be a cursor's own key. */
static void aim(struct kv_cursor *c, struct kv_txn *t, unsigned table, struct slice from,
		size_t prefix_len)
{
	assert(prefix_len <= from.len);
	if (from.len > KV_KEY_MAX)
		kv_fail(t, E_CORRUPT);
	else if (prefix_len)
		memmove(c->key, from.data, prefix_len);
	c->txn = t;
	c->table = table;
	c->prefix_len = prefix_len;
}

bool kv_seek(struct kv_txn *t, unsigned table, struct slice from, size_t prefix_len,
	     struct kv_cursor *c)
{
	aim(c, t, table, from, prefix_len);
	return step(c, first_from, from);
}

/* The next key there can be is this one and a zero byte. */
bool kv_next(struct kv_cursor *c)
{
	if (!c->txn)
		return false;
	c->key[c->key_len] = 0;
	return step(c, first_from, (struct slice){ c->key, c->key_len + 1 });
}

/* The first key past all that begin with @from, into @out; empty if there is none. */
static struct slice past(struct slice from, uint8_t out[KV_KEY_MAX])
{
	size_t len = from.len;

	while (len > 0 && from.data[len - 1] == 0xff)
		len--;
	if (len > 0) {
		memcpy(out, from.data, len);
		out[len - 1]++;
	}
	return (struct slice){ out, len };
}

bool kv_seek_last(struct kv_txn *t, unsigned table, struct slice from, size_t prefix_len,
		  struct kv_cursor *c)
{
	uint8_t bound[KV_KEY_MAX];

	aim(c, t, table, from, prefix_len);
	if (from.len > KV_KEY_MAX)
		from.len = 0;		/* has failed already */
	return step(c, last_before, past(from, bound));
}

bool kv_prev(struct kv_cursor *c)
{
	if (!c->txn)
		return false;
	return step(c, last_before, (struct slice){ c->key, c->key_len });
}

/* --- the file ------------------------------------------------------------- */

void kv_set_hook(struct kv *kv, struct kv_hook hook)
{
	kv->hook = hook;
}

struct kv_stats kv_stats(const struct kv *kv)
{
	struct kv_stats s = kv->counted;
	MDB_envinfo info;
	MDB_stat stat;

	mdb_env_info(kv->env, &info);
	mdb_env_stat(kv->env, &stat);
	s.map_bytes = info.me_mapsize;
	s.page_bytes = stat.ms_psize;
	s.pages_used = info.me_last_pgno + 1;
	return s;
}

static char *path_join(const char *dir, const char *name)
{
	struct buf path = { 0 };

	buf_printf(&path, "%s/%s", dir, name);
	return (char *)path.data;
}

static enum err complain_errno(struct complaint *why, const char *what, const char *path)
{
	int e = errno;

	return complain(why, from_mdb(e), "%s %s: %s", what, path, strerror(e));
}

static enum err complain_mdb(struct complaint *why, int rc, const char *what, const char *path)
{
	return complain(why, from_mdb(rc), "%s %s: %s", what, path, mdb_strerror(rc));
}

/* Names made in a folder outlive a power cut only when the folder is synced. */
static enum err sync_folder(const char *dir, struct complaint *why)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err err;

	if (fd < 0)
		return complain_errno(why, "cannot open the store's folder", dir);
	err = fsync(fd) == 0 ? OK : complain_errno(why, "cannot sync the store's folder", dir);
	close(fd);
	return err;
}

static enum err make_folder(const char *dir, struct complaint *why)
{
	char *parent;
	enum err err;

	if (mkdir(dir, 0700) < 0) {
		if (errno == EEXIST)
			return OK;
		return complain_errno(why, "cannot make the store's folder", dir);
	}
	parent = path_join(dir, "..");
	err = sync_folder(parent, why);
	free(parent);
	return err;
}

/*
 * Our own lock: LMDB would let a second writer in.  The kernel drops it when
 * the process dies; the pid inside is text for people, and holds in any pid
 * namespace as its holder sees it.
 */
static bool try_lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_SETLK, &whole) == 0;
}

static bool write_pid(int fd)
{
	return ftruncate(fd, 0) == 0 && dprintf(fd, "%ld\n", (long)getpid()) > 0;
}

/* The kernel tells no pid of another namespace. */
static long holder_of(int fd)
{
	struct flock held = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char text[32] = { 0 };

	if (fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_pid > 0)
		return (long)held.l_pid;
	return read(fd, text, sizeof(text) - 1) > 0 ? strtol(text, NULL, 10) : 0;
}

static enum err complain_held(int fd, const char *path, struct complaint *why)
{
	return complain(why, E_REFUSED, "%s: process %ld writes this store already", path,
			holder_of(fd));
}

static enum err take_lock(struct kv *kv, const char *dir, struct complaint *why)
{
	char *path = path_join(dir, "tidemark.lock");
	enum err err = OK;

	kv->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (kv->lock_fd < 0)
		err = complain_errno(why, "cannot open", path);
	else if (try_lock(kv->lock_fd))
		err = write_pid(kv->lock_fd) ? OK : complain_errno(why, "cannot write", path);
	else if (errno == EACCES || errno == EAGAIN)
		err = complain_held(kv->lock_fd, path, why);
	else
		err = complain_errno(why, "cannot lock", path);
	free(path);
	return err;
}

/* LMDB would leave a lock file where no store is. */
static enum err must_exist(const char *path, struct complaint *why)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return OK;
	if (errno == ENOENT || errno == ENOTDIR)
		return complain(why, E_NOT_FOUND, "no store at %s", path);
	return complain_errno(why, "cannot look at", path);
}

static int configure(struct kv *kv, const struct kv_options *o)
{
	size_t bytes = o->map_bytes ? o->map_bytes : KV_MAP_BYTES;
	int rc = mdb_env_create(&kv->env);

	if (rc == MDB_SUCCESS)
		rc = mdb_env_set_maxdbs(kv->env, o->table_count);
	if (rc != MDB_SUCCESS || kv->read_only)
		return rc;		/* a reader's map is as the writer left it */
	return mdb_env_set_mapsize(kv->env, bytes < kv->map_max_bytes ? bytes : kv->map_max_bytes);
}

static enum err open_env(struct kv *kv, const char *path, const struct kv_options *o,
			 struct complaint *why)
{
	unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | (kv->read_only ? MDB_RDONLY : 0);
	int rc = configure(kv, o);

	if (rc == MDB_SUCCESS)
		rc = mdb_env_open(kv->env, path, flags, 0600);
	if (rc != MDB_SUCCESS)
		return complain_mdb(why, rc, "cannot open the store", path);
	clear_dead_readers(kv);
	return OK;
}

/* Of a page that the file lacks, LMDB would read SIGBUS. */
static enum err check_length(struct kv *kv, const char *path, struct complaint *why)
{
	struct kv_stats s = kv_stats(kv);
	uint64_t want = s.pages_used * s.page_bytes;
	struct stat st;

	if (stat(path, &st) < 0)
		return complain_errno(why, "cannot look at", path);
	if ((uint64_t)st.st_size < want)
		return complain(why, E_CORRUPT, "the store %s was cut short: %" PRIu64 " bytes of %"
				PRIu64, path, (uint64_t)st.st_size, want);
	if (!kv->read_only && !stretch_file(kv, s.map_bytes))
		return complain_errno(why, "cannot stretch the store", path);
	return OK;
}

struct tables_call {
	const struct kv_options *options;
	const char *failed;		/* name of the table, or NULL */
	int rc;
};

static void open_tables(struct kv_txn *t, void *ctx)
{
	struct tables_call *call = ctx;
	unsigned flags = t->write ? MDB_CREATE : 0;

	call->failed = NULL;
	for (unsigned i = 0; i < t->kv->table_count; i++) {
		call->rc = mdb_dbi_open(t->mdb, call->options->tables[i], flags, &t->kv->tables[i]);
		if (succeeded(t, call->rc))
			continue;
		call->failed = call->options->tables[i];
		return;
	}
}

static enum err read_tables(struct kv *kv, struct tables_call *call)
{
	struct kv_txn t = kv_begin_read(kv);

	if (is_live(&t))
		open_tables(&t, call);
	return kv_end_read(&t);
}

static enum err make_tables(struct kv *kv, const char *path, const struct kv_options *o,
			    struct complaint *why)
{
	struct tables_call call = { .options = o };
	enum err err = kv->read_only ? read_tables(kv, &call) : kv_write(kv, open_tables, &call);

	kv->counted = (struct kv_stats){ 0 };
	if (err == OK)
		return OK;
	if (!call.failed)
		return complain(why, err, "cannot make the tables of the store %s: %s", path,
				err_name(err));
	if (call.rc == MDB_NOTFOUND)
		err = E_SCHEMA;
	return complain(why, err, "cannot open table \"%s\" of the store %s: %s", call.failed, path,
			mdb_strerror(call.rc));
}

static enum err prepare(struct kv *kv, const char *dir, const char *path, struct complaint *why)
{
	enum err err;

	if (kv->read_only)
		return must_exist(path, why);
	err = make_folder(dir, why);
	return err == OK ? take_lock(kv, dir, why) : err;
}

static struct kv *kv_new(const struct kv_options *o)
{
	struct kv *kv = xcalloc(1, sizeof(*kv));

	kv->tables = xcalloc(o->table_count, sizeof(*kv->tables));
	kv->table_count = o->table_count;
	kv->lock_fd = -1;
	kv->map_max_bytes = o->map_max_bytes ? o->map_max_bytes : KV_MAP_MAX_BYTES;
	kv->read_only = o->read_only;
	return kv;
}

enum err kv_open(const char *dir, const struct kv_options *options, struct kv **out,
		 struct complaint *why)
{
	struct kv *kv = kv_new(options);
	char *path = path_join(dir, "tidemark.mdb");
	enum err err = prepare(kv, dir, path, why);

	if (err == OK)
		err = open_env(kv, path, options, why);
	if (err == OK)
		err = check_length(kv, path, why);
	if (err == OK)
		err = make_tables(kv, path, options, why);
	if (err == OK && !kv->read_only)
		err = sync_folder(dir, why);
	if (err != OK) {
		kv_close(kv);
		kv = NULL;
	}
	*out = kv;
	free(path);
	return err;
}

/* The lock goes last, and its file stays: removing it would let two in. */
void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	assert(!kv->writing && kv->readers == 0);
	if (kv->env)
		mdb_env_close(kv->env);
	if (kv->lock_fd >= 0)
		close(kv->lock_fd);
	free(kv->tables);
	free(kv);
}
