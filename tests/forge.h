/*
 * forge - a tape (README, "Replaying") from a short symbolic text, with true header
 * hashes, parent links, receipts roots and blooms, so that a reorg can be
 * written down in ten lines.
 *
 * A scenario says one fact a line, in the order in which it happens; from "#"
 * at the start of a word the rest of a line is a comment.  Fixed arguments come
 * first, options follow as "keyword value" (in any order, but for "move").
 *
 *   before all others:              default
 *     chain ID                      1
 *     time TIME                     2026-01-01T00:00:00Z
 *     start NUMBER                  100, the number of the first block
 *     header FORM                   prague, or frontier london shanghai cancun amsterdam
 *     genesis HASH                  none
 *     finality JSON                 {"tag":"finalized"}
 *     witness POLICY                none, or when_available required off
 *     note TEXT                     none
 *   names, before their first use:
 *     token SYMBOL ADDRESS DECIMALS       one of the chain's tokens; before the rest
 *     contract NAME [ADDRESS]             any other contract that logs
 *     account NAME ADDRESS
 *   intents:
 *     intent ID AMOUNT TOKEN to PAYEE [from PAYER] [route] [expires TIME]
 *                      [merchant NAME] [key NAME] [reverses ID]
 *     attempt ID TX [sender ACCOUNT] [nonce NUMBER]
 *     move ID to STATE by ACTOR [tx TX] [version NUMBER] [because CODE TEXT...]
 *     open ID            = move to authorized by api, to settling by relayer
 *     send ID TX [...]   = open, attempt
 *     pay ID TX [...]    = open, attempt if it has an origin, move to confirming by relayer
 *   transactions, before the first block that has them; logs in the order of their lines:
 *     tx TX [reverted] [type 0..4]        only where it differs from ok and 2, or has no logs
 *     transfer TX CONTRACT FROM TO VALUE  "native" is the contract of EIP-7708's logs
 *     log TX CONTRACT TOPIC... [data DATA]
 *   blocks and what the node says:
 *     block NAME [on PARENT] [+TIME] [TX...]  on the block above it and +12s if not said otherwise
 *     tell BLOCK                          the node knows it; a head tells it and all below it
 *     head BLOCK    safe BLOCK    finalized BLOCK    accept BLOCK
 *     balance TOKEN ACCOUNT VALUE at BLOCK
 *     clock TIME
 *     fault METHOD BLOCK null|empty|late|other|error [TIMES]      "-" for no block
 *
 * A TIME is ISO 8601, or +N and one of s m h d past the clock (in a block: past
 * its parent).  Amounts are base units; "5_000_000" is 5000000.  An account, a
 * contract without an address and a transaction may be any name: the address is
 * the last 20 bytes of keccak(name), the hash is keccak(name); the hex itself
 * may stand for either.  A TOPIC is 32 bytes of hex, a decimal number, an event's signature
 * such as "Approval(address,address,uint256)", "Transfer" for the usual one, or
 * an account; DATA is hex or a decimal number (one word).
 *
 * A transaction that an intent names must be described, by a "tx" line if it is never mined.
 */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include "common/types.h"

/*
 * Append the tape of the scenario @text to @out; @file is its name for complaints.
 * E_INPUT with "file:line: reason" in @why.
 */
MUST_CHECK enum err forge(const char *file, struct slice text, struct buf *out,
			  struct complaint *why);

#endif
