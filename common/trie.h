/*
 * trie - the root of the Merkle Patricia trie whose keys are rlp(0), rlp(1), ...
 * (yellow paper, appendix D): the receipts root and the transactions root.
 */
#ifndef COMMON_TRIE_H
#define COMMON_TRIE_H

#include "common/types.h"

/*
 * The root over @count values; value i has the key rlp(i).  Values are
 * borrowed and each is at least one byte long; no values give the root of
 * the empty trie.  @scratch is working memory that a caller may keep between
 * calls, to be freed with buf_free().
 */
struct hash32 trie_ordered_root(const struct slice *values, size_t count, struct buf *scratch);

#endif
