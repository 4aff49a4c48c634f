/*
 * story_words - money, reasons and evidence in words.
 */
#ifndef LISTENER_STORY_WORDS_H
#define LISTENER_STORY_WORDS_H

#include "listener/config.h"
#include "listener/story_event.h"

/* Each appends to @out.  words_end() puts a NUL behind it, which the next append overwrites. */
const char *words_end(struct buf *out);

/* "250.00 USDC" */
void words_money(struct buf *out, const struct chain_config *c, const struct address *token,
		 const struct u256 *value);
/* "3.00 USDC from 0x1234..abcd + 2.00 USDC from ... to 0x1234..abcd, tx 0x1234..abcd" */
void words_transfers(struct buf *out, const struct chain_config *c, const struct story_event *e);
/* "underpaid: paid 329.00 of 349.00 USDC": hashes short, base units made amounts of @token. */
void words_reason(struct buf *out, const struct chain_config *c, const struct address *token,
		  const struct reason *reason);
/* Why a settlement may be believed; nothing where the evidence says nothing. */
void words_finality(struct buf *out, const struct chain_config *c, const struct story_event *e);
void words_proof(struct buf *out, const struct chain_config *c, const struct story_event *e);
void words_witness(struct buf *out, const struct chain_config *c, const struct story_event *e);
/* "a block is final when it is finalized" */
void words_policy(struct buf *out, const struct chain_config *c);

/* What a person is asked, by the reason's code; never NULL. */
const char *words_for_person(const char *code);

#endif
