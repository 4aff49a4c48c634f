/*
 * cli_print - the interface's answers for people, on stdout.
 *
 * Each takes the answer's top and complains about what is not there (json.h).  What came from outside is
 * printed without control characters.
 */
#ifndef LISTENER_CLI_PRINT_H
#define LISTENER_CLI_PRINT_H

#include "common/json.h"

void cli_print_outcome(struct json top);	/* ID STATE, and OUTCOME where there is one */
void cli_print_intent(struct json top);		/* with attempts and history */
void cli_print_intents(struct json top);	/* a table; where there are more, stderr says how to go on */
void cli_print_chain(struct json top);		/* "chain" */
void cli_print_chains(struct json top);		/* "chains" */
void cli_print_status(struct json top);

#endif
