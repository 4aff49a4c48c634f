/*
 * forge_chain - the statements that make transactions and blocks.
 *
 * A block is sealed as its line is read; the tape gets it when it is told.
 */
#ifndef LISTENER_FORGE_CHAIN_H
#define LISTENER_FORGE_CHAIN_H

#include "listener/forge_words.h"

void forge_tx(struct forge *f);
void forge_transfer(struct forge *f);
void forge_log(struct forge *f);
void forge_block(struct forge *f);

/* The 32 bytes of an amount in a log's data or a call's answer. */
struct hash32 forge_word(const struct u256 *v);

#endif
