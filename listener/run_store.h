/*
 * run_store - what a store that was followed before says at a start.
 */
#ifndef LISTENER_RUN_STORE_H
#define LISTENER_RUN_STORE_H

#include "listener/settings.h"

/* The chain that the store follows; false if it has none yet, or several. */
bool run_only_chain(struct kv *kv, uint64_t *chain_id);

/*
 * E_REFUSED, naming the first, if an intent that is not ended names a chain or token that is not configured: its payments would
 * go by unseen.
 */
MUST_CHECK enum err run_check_intents(struct kv *kv, const struct settings *s, struct complaint *why);

#endif
