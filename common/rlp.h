/*
 * rlp - writes recursive length prefixes (yellow paper, appendix B).
 *
 * A list is written by opening it, writing its items and closing it; the
 * prefix is put in front when its length is known.
 */
#ifndef COMMON_RLP_H
#define COMMON_RLP_H

#include "common/types.h"

void rlp_put_bytes(struct buf *out, const void *data, size_t len);
/* Minimal big-endian; zero is the empty string. */
void rlp_put_u64(struct buf *out, uint64_t v);
void rlp_put_u256(struct buf *out, const struct u256 *v);

/* Returns the mark that rlp_close_list() needs. */
size_t rlp_open_list(struct buf *out);
void rlp_close_list(struct buf *out, size_t mark);

#endif
