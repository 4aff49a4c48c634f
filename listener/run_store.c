#include "listener/run_store.h"

bool run_only_chain(struct kv *kv, uint64_t *chain_id)
{
	struct kv_txn t = kv_begin_read(kv);
	struct key from = key_chain(0);
	struct kv_cursor c;
	unsigned count = 0;

	for (bool more = kv_seek(&t, T_CHAIN, key_slice(&from), 0, &c); more; more = kv_next(&c)) {
		*chain_id = be64_get(c.key);
		count++;
	}
	return kv_end_read(&t) == OK && count == 1;
}

static bool is_configured(const struct settings *s, const struct intent *i)
{
	for (unsigned k = 0; k < s->chain_count; k++) {
		if (s->chains[k].config.chain_id == i->chain_id)
			return config_has_token(&s->chains[k].config, &i->token);
	}
	return false;
}

/* The first of the state that nobody watches. */
static bool find_unwatched(struct kv_txn *t, const struct settings *s, enum intent_state state, struct intent *out)
{
	struct key from = key_state(state, 0, 0);
	struct kv_cursor c;

	for (bool more = kv_seek(t, T_STATE, key_slice(&from), 1, &c); more; more = kv_next(&c)) {
		if (intents_get(t, be64_get(c.key + 1 + 8), out) && !is_configured(s, out))
			return true;
	}
	return false;
}

enum err run_check_intents(struct kv *kv, const struct settings *s, struct complaint *why)
{
	struct kv_txn t = kv_begin_read(kv);
	char token[ADDRESS_TEXT];
	bool found = false;
	struct intent i;
	enum err err;

	for (int state = 0; state < INTENT_STATES && !found; state++)
		found = !intent_state_is_terminal((enum intent_state)state) &&
			find_unwatched(&t, s, (enum intent_state)state, &i);
	err = kv_end_read(&t);
	if (err)
		return complain(why, err, "the store cannot be read: %s", err_name(err));
	if (!found)
		return OK;
	return complain(why, E_REFUSED, "intent %s is %s and names token %s of chain %llu, which is not configured: "
			"configure it, or end the intent first", i.id, intent_state_name(i.state),
			address_format(&i.token, token), (unsigned long long)i.chain_id);
}
