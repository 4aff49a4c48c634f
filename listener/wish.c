#include "listener/wish.h"

#include <stdio.h>

static void read_id(struct json object, const char *name, char out[INTENT_ID_MAX])
{
	struct json j = json_member(object, name);
	const char *text = json_text(j);

	if (json_failed(j.doc))
		return;
	if (!intent_id_is_valid(text))
		json_complain(j, "want 1 to 64 of letters, digits and _-:.@/");
	else
		snprintf(out, INTENT_ID_MAX, "%s", text);
}

void wish_read_intent(struct json j, struct intent *out)
{
	static const char *const members[] = { "id", "merchant_id", "idempotency_key", "chain_id", "token",
					       "payer", "payee", "amount", "watch", "expires_at", "reverses", NULL };

	json_only(j, members);
	read_id(j, "id", out->id);
	read_id(j, "merchant_id", out->merchant_id);
	read_id(j, "idempotency_key", out->idempotency_key);
	out->chain_id = json_u64(json_member(j, "chain_id"));
	out->token = json_address(json_member(j, "token"));
	out->payee = json_address(json_member(j, "payee"));
	out->has_payer = json_has(j, "payer");
	if (out->has_payer)
		out->payer = json_address(json_member(j, "payer"));
	out->amount = json_amount(json_member(j, "amount"));
	if (json_has(j, "watch") && !watch_parse(json_text(json_member(j, "watch")), &out->watch))
		json_complain(json_member(j, "watch"), "want tx or route");
	out->has_expiry = json_has(j, "expires_at");
	if (out->has_expiry)
		out->expires_at_ms = json_time_ms(json_member(j, "expires_at"));
	if (json_has(j, "reverses"))
		read_id(j, "reverses", out->reverses);
}

/* @members begin with "intent", which is one of them only if it is read here. */
static void read_intent_id(struct json j, const char *const *members, char *intent)
{
	json_only(j, intent ? members : members + 1);
	if (intent)
		read_id(j, members[0], intent);
}

void wish_read_attempt(struct json j, char intent[INTENT_ID_MAX], struct attempt_row *out)
{
	static const char *const members[] = { "intent", "tx_hash", "sender", "nonce", NULL };

	read_intent_id(j, members, intent);
	out->tx_hash = json_hash(json_member(j, "tx_hash"));
	out->has_sender = json_has(j, "sender");
	if (out->has_sender)
		out->sender = json_address(json_member(j, "sender"));
	out->has_nonce = json_has(j, "nonce");
	if (out->has_nonce)
		out->nonce = json_u64(json_member(j, "nonce"));
}

static void read_reason(struct json j, struct move_request *out)
{
	static const char *const members[] = { "code", "text", NULL };

	out->has_reason = true;
	if (json_is_string(j)) {
		json_copy_text(j, out->reason.code, REASON_CODE_MAX);
		return;
	}
	json_only(j, members);
	json_copy_text(json_member(j, "code"), out->reason.code, REASON_CODE_MAX);
	if (json_has(j, "text"))
		json_copy_text(json_member(j, "text"), out->reason.text, REASON_TEXT_MAX);
}

void wish_read_move(struct json j, char intent[INTENT_ID_MAX], struct move_request *out, bool *has_version)
{
	static const char *const members[] = { "intent", "to", "actor", "tx_hash", "reason", "version", NULL };
	struct json to = json_member(j, "to"), actor = json_member(j, "actor");

	read_intent_id(j, members, intent);
	if (!intent_state_parse(json_text(to), &out->to))
		json_complain(to, "\"%s\" is no state", json_text(to));
	if (!actor_parse(json_text(actor), &out->actor))
		json_complain(actor, "\"%s\" is no actor", json_text(actor));
	out->has_tx = json_has(j, "tx_hash");
	if (out->has_tx)
		out->tx_hash = json_hash(json_member(j, "tx_hash"));
	if (json_has(j, "reason"))
		read_reason(json_member(j, "reason"), out);
	*has_version = json_has(j, "version");
	if (*has_version)
		out->version = json_u64(json_member(j, "version"));
}
