#include "listener/api_parts.h"

#include "listener/desk.h"
#include "listener/wish.h"
#include "store/outbox.h"

#include <stdio.h>
#include <string.h>

static void put_intent(struct api_call *c, const struct intent *i)
{
	json_put_name(&c->answer, "intent");
	event_put_intent(&c->answer, i);
}

static void answer_intent(struct api_call *c, const struct intent *i)
{
	json_open_object(&c->answer, NULL);
	put_intent(c, i);
	json_close_object(&c->answer);
}

/* The intent that the path names; false, and refused, if it is not there. */
static bool find(struct api_call *c, struct intent *out)
{
	if (!intent_id_is_valid(c->name))
		api_refuse(c, E_INPUT, "intent: %.64s is no id, want 1 to 64 of letters, digits and _-:.@/", c->name);
	else if (!intents_find(c->t, c->name, out))
		api_refuse(c, E_NOT_FOUND, "intent: %s is not known", c->name);
	else
		return true;
	return false;
}

static void read_intent(struct json j, void *out)
{
	wish_read_intent(j, out);
}

void api_create_intent(struct api_call *c)
{
	int64_t now_ms = c->api->now_ms(c->api->ctx);
	const struct api_chain *chain;
	struct intent i = { .row = 0 };
	struct complaint why;
	bool created;
	enum err err;

	if (!api_read_body(c, read_intent, &i))
		return;
	chain = api_find_chain(c->api, i.chain_id);
	if (!chain) {
		api_refuse(c, E_REFUSED, "chain_id: chain %llu is not configured", (unsigned long long)i.chain_id);
		return;
	}
	err = desk_create(c->t, chain->config, &i, now_ms, &created, &why);
	if (err) {
		api_refuse(c, err, "%s", why.text);
		return;
	}
	c->status = created ? 201 : 200;
	c->touched = chain;
	answer_intent(c, &i);
}

static void read_attempt(struct json j, void *out)
{
	wish_read_attempt(j, NULL, out);
}

void api_add_attempt(struct api_call *c)
{
	struct desk_attempt a = { .intent = c->name };
	struct complaint why;
	struct intent i;
	enum err err;

	if (!find(c, &i) || !api_read_body(c, read_attempt, &a.attempt))
		return;
	err = desk_attempt(c->t, &a, c->api->now_ms(c->api->ctx), &why);
	if (err) {
		api_refuse(c, err, "%s", why.text);
		return;
	}
	c->touched = api_find_chain(c->api, i.chain_id);
	answer_intent(c, &i);
}

static void read_move(struct json j, void *out)
{
	struct desk_move *m = out;
	bool has_version;

	wish_read_move(j, NULL, &m->request, &has_version);
	m->current = !has_version;
}

void api_move_intent(struct api_call *c)
{
	struct desk_move m = { .intent = c->name };
	struct move_result result;
	struct complaint why;
	struct intent i;
	enum err err;

	if (!find(c, &i) || !api_read_body(c, read_move, &m))
		return;
	err = desk_move(c->t, &m, c->api->now_ms(c->api->ctx), &result, &why);
	if (!err && !intents_find(c->t, c->name, &i))
		err = complain(&why, E_CORRUPT, "intent: %s cannot be read", c->name);
	if (err) {
		api_refuse(c, err, "%s", why.text);
		return;
	}
	c->touched = api_find_chain(c->api, i.chain_id);
	c->conflict = result.evidence_conflict;
	json_open_object(&c->answer, NULL);
	put_intent(c, &i);
	json_put_text(&c->answer, "outcome", result.outcome == MOVE_APPLIED ? "applied" : "already_there");
	json_close_object(&c->answer);
}

/* One intent, whole. */

static void put_attempts(struct api_call *c, const struct intent *i)
{
	struct buf *b = &c->answer;
	struct attempt_row a;

	json_open_array(b, "attempts");
	for (uint32_t n = 0; intents_attempt(c->t, i->row, n, &a); n++) {
		json_open_object(b, NULL);
		json_put_hash(b, "tx_hash", &a.tx_hash);
		json_put_address(b, "sender", a.has_sender ? &a.sender : NULL);
		if (a.has_nonce)
			json_put_number(b, "nonce", a.nonce);
		else
			json_put_text(b, "nonce", NULL);
		json_put_time(b, "at", a.at_ms);
		json_close_object(b);
	}
	json_close_array(b);
}

static void put_history_row(struct buf *b, const struct history_row *h)
{
	json_open_object(b, NULL);
	json_put_number(b, "version", h->version);
	json_put_text(b, "from", h->version > 1 ? intent_state_name(h->from) : NULL);
	json_put_text(b, "to", intent_state_name(h->to));
	json_put_text(b, "actor", actor_name(h->actor));
	json_put_time(b, "at", h->at_ms);
	event_put_reason(b, &h->reason);
	if (h->has_tx)
		json_put_hash(b, "tx_hash", &h->tx_hash);
	if (h->conflict && !hash_is_zero(&h->other_tx))
		json_put_hash(b, "other_tx_hash", &h->other_tx);
	if (h->has_block) {
		json_open_object(b, "block");
		json_put_number(b, "number", h->block_height);
		json_put_hash(b, "hash", &h->block_hash);
		json_close_object(b);
	}
	json_close_object(b);
}

static void put_history(struct api_call *c, const struct intent *i)
{
	struct key from = key_history(i->row, 0);
	struct history_row h;
	struct kv_cursor at;

	json_open_array(&c->answer, "history");
	for (bool more = kv_seek(c->t, T_HISTORY, key_slice(&from), 8, &at); more; more = kv_next(&at)) {
		if (row_decode(c->t, at.val, ROW_HISTORY, &h))
			put_history_row(&c->answer, &h);
	}
	json_close_array(&c->answer);
}

void api_show_intent(struct api_call *c)
{
	struct intent i;

	if (!find(c, &i))
		return;
	json_open_object(&c->answer, NULL);
	put_intent(c, &i);
	put_attempts(c, &i);
	put_history(c, &i);
	json_close_object(&c->answer);
}

/*
 * A page of intents, in the order of their creation; those of one state in the order in which they entered it.
 * The next page begins after a place, which is told as text: "ROW", or "TIME-ROW" in a state, since the
 * intent there may have left it meanwhile.
 */
struct page {
	bool has_state;
	enum intent_state state;
	uint64_t limit;
	uint64_t after_ms;
	uint64_t after_row;		/* 0: from the first */
};

static bool parse_place(const char *text, struct page *p)
{
	const char *dash = strchr(text, '-');

	if (!p->has_state)
		return u64_parse(slice_of_text(text), &p->after_row);
	return dash && u64_parse((struct slice){ (const uint8_t *)text, (size_t)(dash - text) }, &p->after_ms) &&
	       u64_parse(slice_of_text(dash + 1), &p->after_row);
}

/* The value of the parameter, decoded; "" where there is none; false, and refused, for a bad one. */
static bool query_value(struct api_call *c, const char *name, char out[API_NAME_MAX])
{
	size_t len = strlen(name);

	out[0] = '\0';
	for (const char *p = c->query; *p; p += strcspn(p, "&"), p += *p == '&') {
		struct slice value = { (const uint8_t *)p + len + 1, 0 };

		if (strncmp(p, name, len) != 0 || p[len] != '=')
			continue;
		value.len = strcspn(p + len + 1, "&");
		if (api_decode(value, out, API_NAME_MAX))
			return true;
		api_refuse(c, E_INPUT, "%s: badly encoded or too long", name);
		return false;
	}
	return true;
}

/* A parameter that nobody reads would be an answer to another question. */
static bool only_known(struct api_call *c)
{
	static const char *const names[] = { "state=", "limit=", "after=" };

	for (const char *p = c->query; *p; p += strcspn(p, "&"), p += *p == '&') {
		size_t i = 0;

		while (i < ARRAY_SIZE(names) && strncmp(p, names[i], strlen(names[i])) != 0)
			i++;
		if (i < ARRAY_SIZE(names))
			continue;
		api_refuse(c, E_INPUT, "%.*s: unknown parameter, want state, limit or after",
			   (int)(strcspn(p, "=&") < 40 ? strcspn(p, "=&") : 40), p);
		return false;
	}
	return true;
}

static bool read_page(struct api_call *c, struct page *p)
{
	char state[API_NAME_MAX], limit[API_NAME_MAX], after[API_NAME_MAX];

	*p = (struct page){ .limit = API_LIST_DEFAULT };
	if (!only_known(c) || !query_value(c, "state", state) || !query_value(c, "limit", limit) ||
	    !query_value(c, "after", after))
		return false;
	p->has_state = state[0];
	if (p->has_state && !intent_state_parse(state, &p->state))
		api_refuse(c, E_INPUT, "state: \"%.40s\" is no state", state);
	else if (limit[0] && (!u64_parse(slice_of_text(limit), &p->limit) || !p->limit || p->limit > API_LIST_MAX))
		api_refuse(c, E_INPUT, "limit: \"%.40s\", want 1 to %d", limit, API_LIST_MAX);
	else if (after[0] && (!parse_place(after, p) || p->after_row == UINT64_MAX))
		api_refuse(c, E_INPUT, "after: \"%.40s\", want what \"next\" of the page before told", after);
	else
		return true;
	return false;
}

static bool seek_page(struct api_call *c, const struct page *p, struct kv_cursor *at)
{
	struct key from = p->has_state ? key_state(p->state, (int64_t)p->after_ms, p->after_row + 1)
				       : key_u64(p->after_row + 1);

	return kv_seek(c->t, p->has_state ? T_STATE : T_INTENT, key_slice(&from), p->has_state ? 1 : 0, at);
}

/* Both keys end with the row. */
static uint64_t row_at(const struct kv_cursor *at)
{
	return be64_get(at->key + at->key_len - 8);
}

static void put_place(struct buf *b, const struct page *p, const struct intent *last)
{
	char text[48];

	if (p->has_state)
		snprintf(text, sizeof(text), "%lld-%llu", (long long)last->entered_at_ms, (unsigned long long)last->row);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)last->row);
	json_put_text(b, "next", text);
}

void api_list_intents(struct api_call *c)
{
	struct intent i = { .row = 0 };
	struct kv_cursor at;
	struct page p;
	uint64_t n = 0;
	bool more;

	if (!read_page(c, &p))
		return;
	json_open_object(&c->answer, NULL);
	json_open_array(&c->answer, "intents");
	for (more = seek_page(c, &p, &at); more && n < p.limit; more = kv_next(&at), n++) {
		if (!intents_get(c->t, row_at(&at), &i)) {
			kv_fail(c->t, E_CORRUPT);
			return;
		}
		event_put_intent(&c->answer, &i);
	}
	json_close_array(&c->answer);
	if (more)
		put_place(&c->answer, &p, &i);
	else
		json_put_text(&c->answer, "next", NULL);
	json_close_object(&c->answer);
}
