#include "store/store.h"

#include "store/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_version(struct kv_txn *t, uint64_t *version)
{
	struct key key = key_meta("schema");

	*version = 0;
	number_get(t, T_META, &key, version);
}

static void stamp_version(struct kv_txn *t, void *ctx)
{
	struct key key = key_meta("schema");

	read_version(t, ctx);
	if (*(uint64_t *)ctx == 0)
		number_put(t, T_META, &key, SCHEMA_VERSION);
}

/* The version on disk; a new store is stamped with ours.  A crash before that commit leaves empty tables. */
static enum err find_version(struct kv *kv, bool read_only, uint64_t *version)
{
	struct kv_txn t = kv_begin_read(kv);
	enum err err;

	read_version(&t, version);
	err = kv_end_read(&t);
	if (err || *version || read_only)
		return err;
	err = kv_write(kv, stamp_version, version);
	*version = SCHEMA_VERSION;
	return err;
}

enum err store_open(const char *dir, const struct store_options *options, struct kv **out,
		    struct complaint *why)
{
	struct kv_options o = {
		.map_bytes = options->map_bytes,
		.map_max_bytes = options->map_max_bytes,
		.read_only = options->read_only,
		.tables = schema_table_names,
		.table_count = TABLES,
	};
	uint64_t version;
	enum err err = kv_open(dir, &o, out, why);

	if (err)
		return err;
	err = find_version(*out, options->read_only, &version);
	if (err)
		complain(why, err, "%s: cannot be read: %s", dir, err_name(err));
	else if (version == 0)
		err = complain(why, E_SCHEMA, "%s: the store was never finished: who made it was interrupted at once", dir);
	else if (version != SCHEMA_VERSION)
		err = complain(why, E_SCHEMA, "%s: store of schema version %llu, this program has %d",
			       dir, (unsigned long long)version, SCHEMA_VERSION);
	if (err) {
		kv_close(*out);
		*out = NULL;
	}
	return err;
}

static void remove_names(const char *dir)
{
	static const char *const files[] = { "tidemark.mdb", "tidemark.mdb-lock", "tidemark.lock" };
	char path[600];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%.500s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* Its names go at once, its files when they are closed. */
enum err store_open_passing(const struct store_options *options, struct kv **out, struct complaint *why)
{
	const char *temp = getenv("TMPDIR");
	char dir[512];
	enum err err;

	*out = NULL;
	snprintf(dir, sizeof(dir), "%.400s/tidemark-store-XXXXXX", temp && *temp ? temp : "/tmp");
	if (!mkdtemp(dir))
		return complain(why, E_IO, "%s: no temporary folder can be made: %s", dir, strerror(errno));
	err = store_open(dir, options, out, why);
	remove_names(dir);
	return err;
}
