/*
 * cli - the commands that ask: intent, chain, status.
 *
 * They ask the daemon over the store's socket; where nobody listens they open the store themselves and ask the same interface
 * (api.h) in this process.
 */
#ifndef LISTENER_CLI_H
#define LISTENER_CLI_H

#include "common/types.h"

#define EXIT_USAGE 2

/* One line on stderr, whatever a name out of a file holds; the exit code. */
int cli_fail(const struct complaint *why);
/* The same for wrong usage; @fmt has one %s, for @word. */
int cli_usage(const char *fmt, const char *word);

/* Words after the command's name; the exit code. */
int cli_intent(int argc, char **argv);
int cli_chain(int argc, char **argv);
int cli_status(int argc, char **argv);

extern const char cli_intent_help[], cli_chain_help[], cli_status_help[];

#endif
