#include "common/intent.h"

#include <string.h>

#define BY(actor) (1u << (actor))

enum needs {
	NEEDS_NOTHING = 0,
	NEEDS_TX = 1,
	NEEDS_REASON = 2,
};

struct move_rule {
	enum intent_state from, to;
	unsigned actors;
	unsigned needs;
};

static const struct move_rule rules[] = {
	{ INTENT_CREATED, INTENT_AUTHORIZED, BY(ACTOR_API), NEEDS_NOTHING },
	{ INTENT_CREATED, INTENT_CANCELED, BY(ACTOR_API) | BY(ACTOR_OPERATOR) | BY(ACTOR_SYSTEM), NEEDS_REASON },
	{ INTENT_AUTHORIZED, INTENT_SETTLING, BY(ACTOR_RELAYER), NEEDS_NOTHING },
	{ INTENT_AUTHORIZED, INTENT_CANCELED, BY(ACTOR_API) | BY(ACTOR_OPERATOR), NEEDS_REASON },
	{ INTENT_SETTLING, INTENT_CONFIRMING, BY(ACTOR_RELAYER) | BY(ACTOR_LISTENER), NEEDS_TX },
	{ INTENT_SETTLING, INTENT_FAILED, BY(ACTOR_RELAYER), NEEDS_REASON },
	{ INTENT_SETTLING, INTENT_NEEDS_REVIEW, BY(ACTOR_RELAYER), NEEDS_REASON },
	{ INTENT_CONFIRMING, INTENT_SETTLED, BY(ACTOR_LISTENER), NEEDS_TX },
	{ INTENT_CONFIRMING, INTENT_SETTLING, BY(ACTOR_LISTENER), NEEDS_REASON },
	{ INTENT_CONFIRMING, INTENT_NEEDS_REVIEW, BY(ACTOR_LISTENER), NEEDS_REASON },
	{ INTENT_NEEDS_REVIEW, INTENT_SETTLED, BY(ACTOR_OPERATOR), NEEDS_TX | NEEDS_REASON },
	{ INTENT_NEEDS_REVIEW, INTENT_FAILED, BY(ACTOR_OPERATOR), NEEDS_REASON },
};

static const char *const state_names[INTENT_STATES] = {
	[INTENT_CREATED] = "created",
	[INTENT_AUTHORIZED] = "authorized",
	[INTENT_SETTLING] = "settling",
	[INTENT_CONFIRMING] = "confirming",
	[INTENT_NEEDS_REVIEW] = "needs_review",
	[INTENT_SETTLED] = "settled",
	[INTENT_FAILED] = "failed",
	[INTENT_CANCELED] = "canceled",
};

static const char *const actor_names[ACTORS] = {
	[ACTOR_API] = "api",
	[ACTOR_RELAYER] = "relayer",
	[ACTOR_LISTENER] = "listener",
	[ACTOR_OPERATOR] = "operator",
	[ACTOR_SYSTEM] = "system",
};

static const char *const watch_names[] = {
	[WATCH_TX] = "tx",
	[WATCH_ROUTE] = "route",
};

static int name_index(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(names[i], name) == 0)
			return (int)i;
	}
	return -1;
}

const char *intent_state_name(enum intent_state state)
{
	return state_names[state];
}

bool intent_state_parse(const char *name, enum intent_state *out)
{
	int i = name_index(state_names, ARRAY_SIZE(state_names), name);

	if (i >= 0)
		*out = (enum intent_state)i;
	return i >= 0;
}

const char *actor_name(enum actor actor)
{
	return actor_names[actor];
}

bool actor_parse(const char *name, enum actor *out)
{
	int i = name_index(actor_names, ARRAY_SIZE(actor_names), name);

	if (i >= 0)
		*out = (enum actor)i;
	return i >= 0;
}

const char *watch_name(enum watch watch)
{
	return watch_names[watch];
}

bool watch_parse(const char *name, enum watch *out)
{
	int i = name_index(watch_names, ARRAY_SIZE(watch_names), name);

	if (i >= 0)
		*out = (enum watch)i;
	return i >= 0;
}

bool intent_id_is_valid(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len < INTENT_ID_MAX &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:.@/") == len;
}

static const struct move_rule *find_rule(enum intent_state from, enum intent_state to)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (rules[i].from == from && rules[i].to == to)
			return &rules[i];
	}
	return NULL;
}

bool intent_state_is_terminal(enum intent_state state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (rules[i].from == state)
			return false;
	}
	return true;
}

bool intent_refusal_is_bug(enum err err)
{
	return err == E_ILLEGAL_TRANSITION || err == E_FORBIDDEN_ACTOR;
}

static bool names_another_tx(const struct intent *intent, const struct move_request *r)
{
	return r->has_tx && intent->has_tx && !hash_eq(&r->tx_hash, &intent->tx_hash);
}

static enum err check_evidence(const struct move_rule *rule, const struct move_request *r,
			       struct complaint *why)
{
	if ((rule->needs & NEEDS_TX) && !r->has_tx)
		return complain(why, E_MISSING_EVIDENCE, "intent: evidence missing: tx_hash");
	if ((rule->needs & NEEDS_REASON) && (!r->has_reason || !r->reason.code[0]))
		return complain(why, E_MISSING_EVIDENCE, "intent: evidence missing: reason");
	return OK;
}

static enum err check_tx(const struct intent *intent, const struct move_request *r,
			 struct complaint *why)
{
	char have[HASH_TEXT], want[HASH_TEXT];

	if (r->to != INTENT_SETTLED || !names_another_tx(intent, r))
		return OK;
	if (r->actor == ACTOR_OPERATOR && r->tx_is_attempt)
		return OK;
	return complain(why, E_TX_MISMATCH, "intent: %s confirmed with %s, not %s", intent->id,
			hash_format(&intent->tx_hash, want), hash_format(&r->tx_hash, have));
}

static enum err check_move(const struct intent *intent, const struct move_request *r,
			   struct complaint *why)
{
	const struct move_rule *rule = find_rule(intent->state, r->to);
	enum err err;

	if (r->actor != ACTOR_LISTENER && r->version != intent->version)
		return complain(why, E_VERSION_CONFLICT, "intent: %s is at version %llu, not %llu",
				intent->id, (unsigned long long)intent->version,
				(unsigned long long)r->version);
	if (intent_state_is_terminal(intent->state))
		return complain(why, E_TERMINAL, "intent: state is terminal: %s is %s", intent->id,
				intent_state_name(intent->state));
	if (!rule)
		return complain(why, E_ILLEGAL_TRANSITION, "intent: transition not in table: %s -> %s",
				intent_state_name(intent->state), intent_state_name(r->to));
	if (!(rule->actors & BY(r->actor)))
		return complain(why, E_FORBIDDEN_ACTOR, "intent: %s may not move %s -> %s",
				actor_name(r->actor), intent_state_name(intent->state),
				intent_state_name(r->to));
	err = check_evidence(rule, r, why);
	return err ? err : check_tx(intent, r, why);
}

struct move_result intent_apply(struct intent *intent, const struct move_request *r,
				struct complaint *why)
{
	bool conflict = names_another_tx(intent, r);
	enum err err;

	if (r->to == intent->state)
		return (struct move_result){ MOVE_ALREADY_THERE, OK, conflict };
	err = check_move(intent, r, why);
	if (err)
		return (struct move_result){ MOVE_REFUSED, err, false };

	/* A new transaction at confirming is news; at settled it contradicts what was recorded. */
	conflict = r->to == INTENT_SETTLED && (conflict || (!intent->has_tx && r->actor == ACTOR_OPERATOR));
	intent->state = r->to;
	intent->version++;
	intent->reason = r->has_reason ? r->reason : (struct reason){ 0 };
	if (r->has_tx) {
		intent->has_tx = true;
		intent->tx_hash = r->tx_hash;
	}
	return (struct move_result){ MOVE_APPLIED, OK, conflict };
}

static void print_actors(struct buf *out, unsigned actors, int width)
{
	char text[64] = "";

	for (int a = 0; a < ACTORS; a++) {
		if (!(actors & BY(a)))
			continue;
		if (text[0])
			strncat(text, ",", sizeof(text) - strlen(text) - 1);
		strncat(text, actor_names[a], sizeof(text) - strlen(text) - 1);
	}
	buf_printf(out, "%-*s", width, text);
}

void intent_print_table(struct buf *out)
{
	static const char *const needs[] = { "-", "tx_hash", "reason", "tx_hash,reason" };
	const char *comma = "";

	buf_printf(out, "%-13s %-13s %-24s %s\n", "FROM", "TO", "BY", "NEEDS");
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		buf_printf(out, "%-13s %-13s ", state_names[rules[i].from], state_names[rules[i].to]);
		print_actors(out, rules[i].actors, 24);
		buf_printf(out, " %s\n", needs[rules[i].needs]);
	}
	buf_put_text(out, "\nterminal: ");
	for (int s = 0; s < INTENT_STATES; s++) {
		if (!intent_state_is_terminal((enum intent_state)s))
			continue;
		buf_printf(out, "%s%s", comma, state_names[s]);
		comma = ", ";
	}
	buf_put_text(out, "\n");
}
