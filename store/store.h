/*
 * store - the one file that holds all chains, intents and events.
 *
 * Opening checks the schema's version; everything else is a transaction's
 * business: chain.h, claims.h, sightings.h, intents.h, outbox.h, ledger.h.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "store/kv.h"

struct store_options {
	size_t map_bytes;		/* 0: the default of kv.h */
	size_t map_max_bytes;
	bool read_only;
};

/*
 * Open the store in @dir, making it if absent.  E_SCHEMA, with both values
 * named in @why, if another version of the program wrote it; otherwise as kv_open().
 * On OK the caller ends *@out with kv_close().
 */
MUST_CHECK enum err store_open(const char *dir, const struct store_options *options,
			       struct kv **out, struct complaint *why);

/* A new store under TMPDIR that nobody else can open, and that is gone once it is closed, whatever ends us. */
MUST_CHECK enum err store_open_passing(const struct store_options *options, struct kv **out, struct complaint *why);

#endif
