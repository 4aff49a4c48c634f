/*
 * forge_emit - writes the lines of a tape: members of JSON, and whole blocks
 * with their true hashes.
 */
#ifndef LISTENER_FORGE_EMIT_H
#define LISTENER_FORGE_EMIT_H

#include "listener/codec.h"

/* A member as json_put_*() writes them, but as nodes do: a quantity, bytes as hex; or as it stands. */
void emit_json(struct buf *out, const char *name, const char *json);
void emit_u64(struct buf *out, const char *name, uint64_t v);
void emit_bytes(struct buf *out, const char *name, const void *data, size_t len);

/*
 * Make the block true.  Given are the header's form, number, timestamp and
 * parent (zero for one of its own), the transactions' hashes, and of each
 * receipt hash, index, type, status and logs; all else is filled in.
 */
void emit_seal(struct block *b, struct receipts *r, const char *name, struct buf *scratch);

/* The tape's line of a sealed block.  It is read back and verified: E_PEER is a bug of ours. */
MUST_CHECK enum err emit_block(struct buf *out, const struct block *b, const struct receipts *r,
			       struct buf *scratch, struct complaint *why);

#endif
