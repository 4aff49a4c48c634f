/*
 * keccak - Keccak-256 with the original 0x01 padding, as Ethereum uses it
 * (not FIPS 202 SHA3-256).  Ours because OpenSSL 3.0 has none.
 */
#ifndef COMMON_KECCAK_H
#define COMMON_KECCAK_H

#include "common/types.h"

/* The hash of @len bytes at @data. */
struct hash32 keccak256(const void *data, size_t len);

#endif
