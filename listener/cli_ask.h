/*
 * cli_ask - one request of the command line: to the daemon, or to the store that this process opens.
 */
#ifndef LISTENER_CLI_ASK_H
#define LISTENER_CLI_ASK_H

#include "listener/settings.h"

struct cli_world {
	const char *store;		/* folder */
	bool may_make;			/* the store, where there is none */
	size_t map_bytes, map_max_bytes;
	struct chain_config chains[CHAINS_MAX];	/* for a store that is opened here */
	unsigned chain_count;
};

/* The chain, from its preset if it was not there; NULL if there are CHAINS_MAX. */
struct chain_config *cli_know_chain(struct cli_world *w, uint64_t chain_id);

/*
 * @path may have a query; @body is empty for "GET".  The HTTP status, with the answer appended to *@answer, or 0 with @why:
 * nobody could be asked.
 */
int cli_ask(struct cli_world *w, const char *method, const char *path, struct slice body, struct buf *answer,
	    struct complaint *why);

#endif
