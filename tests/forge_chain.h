/*
 * forge_chain - the statements that make transactions and blocks.
 *
 * A block is sealed as its line is read; the tape gets it when it is told.
 */
#ifndef TESTS_FORGE_CHAIN_H
#define TESTS_FORGE_CHAIN_H

#include "tests/forge_words.h"

void chain_tx(struct forge *f);
void chain_transfer(struct forge *f);
void chain_log(struct forge *f);
void chain_block(struct forge *f);

/* The 32 bytes of an amount in a log's data or a call's answer. */
struct hash32 chain_word(const struct u256 *v);

#endif
