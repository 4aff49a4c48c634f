#include "listener/api_parts.h"

#include "listener/url.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_block(struct buf *b, const char *name, uint64_t height, const struct hash32 *hash, int64_t time_s)
{
	json_open_object(b, name);
	json_put_number(b, "number", height);
	json_put_hash(b, "hash", hash);
	if (time_s)
		json_put_time(b, "time", time_s * 1000);
	json_close_object(b);
}

static void put_head(struct buf *b, const struct head *head)
{
	if (head->known && head->verified)
		put_block(b, "head", head->height, &head->hash, head->time_s);
	else
		json_put_text(b, "head", NULL);
}

static void put_tokens(struct buf *b, const struct chain_config *config)
{
	json_open_array(b, "tokens");
	for (size_t i = 0; i < config->token_count; i++) {
		json_open_object(b, NULL);
		json_put_text(b, "symbol", config->symbols[i]);
		json_put_address(b, "address", &config->tokens[i]);
		json_put_number(b, "decimals", config->decimals[i]);
		json_close_object(b);
	}
	json_close_array(b);
}

/* The rule is not known where the store was opened without a configuration. */
static void put_watermark(struct buf *b, const struct chain_config *config, unsigned i, const struct watermark_row *mark)
{
	bool has_rule = i < config->finality.tier_count;
	char rule[48];

	if (!has_rule && !mark->known)
		return;
	json_open_object(b, NULL);
	if (has_rule)
		finality_describe(&config->finality.tiers[i], rule);
	json_put_text(b, "rule", has_rule ? rule : NULL);
	if (has_rule && config->finality.tiers[i].has_limit)
		json_put_amount(b, "up_to", &config->finality.tiers[i].up_to);
	if (mark->known)
		json_put_number(b, "number", mark->height);
	else
		json_put_text(b, "number", NULL);
	json_put_hash(b, "hash", mark->known ? &mark->hash : NULL);
	json_put_bool(b, "suspended", mark->suspended);
	json_close_object(b);
}

static void put_latch(struct buf *b, const struct chain_row *row)
{
	if (!row->latched) {
		json_put_text(b, "latch", NULL);
		return;
	}
	json_open_object(b, "latch");
	json_put_number(b, "number", row->latch_height);
	json_put_hash(b, "ours", &row->latch_ours);
	json_put_hash(b, "theirs", &row->latch_theirs);
	json_put_hash(b, "accepted", row->accepted ? &row->accepted_hash : NULL);
	json_close_object(b);
}

/* Keys are in the URL's user, path or query: only its host and port may be shown. */
static void put_host(struct buf *b, const char *url)
{
	char host[URL_HOST_TEXT];

	json_put_text(b, "host", url_host(url, host));
}

static void put_endpoint(struct buf *b, const struct provider *p)
{
	json_open_object(b, NULL);
	put_host(b, p->at.http);
	json_put_text(b, "health", health_name(p->health));
	json_put_text(b, "why", p->why.text);
	put_head(b, &p->head);
	json_put_text(b, "last_failure", p->rpc.why.text[0] ? p->rpc.why.text : NULL);
	json_put_bool(b, "syncing", p->syncing);
	json_put_number(b, "lies", p->answers_refused);
	json_put_number(b, "tags_lower", p->tags_lower);
	json_put_number(b, "set_aside", p->set_aside);
	if (p->retry.set)
		json_put_time(b, "retry_at", loop_stamp_ms(p->rpc.loop, p->retry.at_ms));
	json_close_object(b);
}

static void put_obstacle(struct buf *b, const struct tracker *tr)
{
	const struct obstacle *o = &tr->obstacle;

	if (!o->unproven) {
		json_put_text(b, "unproven", NULL);
		return;
	}
	json_open_object(b, "unproven");
	json_put_hash(b, "hash", o->known ? &o->hash : NULL);
	json_put_time(b, "since", loop_stamp_ms(tr->loop, o->since_ms));
	json_close_object(b);
}

static void put_followed(struct buf *b, const struct tracker *tr)
{
	put_head(b, reads_head(&tr->reads));
	json_put_text(b, "trouble", tracker_trouble_name(tr->trouble));
	put_obstacle(b, tr);
	json_put_bool(b, "caught_up", tr->caught_up);
	json_open_array(b, "endpoints");
	for (unsigned i = 0; i < tr->reads.provider_count; i++)
		put_endpoint(b, &tr->reads.providers[i]);
	json_close_array(b);
}

static void put_unfollowed(struct buf *b, const struct chain_row *row)
{
	json_put_text(b, "head", NULL);
	json_put_text(b, "trouble", row->latched ? "latched" : "not followed");
	json_put_text(b, "unproven", NULL);
	json_put_bool(b, "caught_up", false);
	json_open_array(b, "endpoints");
	json_close_array(b);
}

static void put_chain(struct api_call *c, const char *name, const struct api_chain *chain)
{
	struct chain_row row = { .has_tip = false };
	struct buf *b = &c->answer;

	chain_get(c->t, chain->config->chain_id, &row);
	json_open_object(b, name);
	json_put_number(b, "chain_id", chain->config->chain_id);
	if (row.has_tip)
		put_block(b, "tip", row.tip_height, &row.tip_hash, row.tip_time_s);
	else
		json_put_text(b, "tip", NULL);
	put_tokens(b, chain->config);
	json_open_array(b, "watermarks");
	for (unsigned i = 0; i < TIERS_MAX; i++)
		put_watermark(b, chain->config, i, &row.marks[i]);
	json_close_array(b);
	put_latch(b, &row);
	if (chain->tracker)
		put_followed(b, chain->tracker);
	else
		put_unfollowed(b, &row);
	json_close_object(b);
}

static void put_chains(struct api_call *c)
{
	json_open_array(&c->answer, "chains");
	for (unsigned i = 0; i < c->api->chain_count; i++)
		put_chain(c, NULL, &c->api->chains[i]);
	json_close_array(&c->answer);
}

void api_list_chains(struct api_call *c)
{
	json_open_object(&c->answer, NULL);
	put_chains(c);
	json_close_object(&c->answer);
}

/* The chain that the path names; NULL, and refused, if it is not configured. */
static const struct api_chain *find(struct api_call *c)
{
	const struct api_chain *chain = NULL;
	uint64_t id;

	if (!u64_parse(slice_of_text(c->name), &id))
		api_refuse(c, E_INPUT, "chain: %.40s is no chain id", c->name);
	else if (!(chain = api_find_chain(c->api, id)))
		api_refuse(c, E_NOT_FOUND, "chain: %llu is not configured", (unsigned long long)id);
	return chain;
}

static void answer_chain(struct api_call *c, const struct api_chain *chain)
{
	json_open_object(&c->answer, NULL);
	put_chain(c, "chain", chain);
	json_close_object(&c->answer);
}

void api_show_chain(struct api_call *c)
{
	const struct api_chain *chain = find(c);

	if (chain)
		answer_chain(c, chain);
}

/* An operator's word on a chain. */

static void read_hash(struct json j, void *out)
{
	static const char *const members[] = { "hash", NULL };

	json_only(j, members);
	*(struct hash32 *)out = json_hash(json_member(j, "hash"));
}

/* The chain and the hash of the body; NULL, and refused, without. */
static const struct api_chain *read_accept(struct api_call *c, struct hash32 *hash)
{
	const struct api_chain *chain = find(c);

	return chain && api_read_body(c, read_hash, hash) ? chain : NULL;
}

static bool may_accept(const struct chain_row *row)
{
	bool suspended = false;

	for (unsigned i = 0; i < TIERS_MAX; i++)
		suspended |= row->marks[i].suspended;
	return row->latched || suspended;
}

/* A slip of the hand is no word; where nobody follows the chain it cannot be told. */
static bool is_heard_of(const struct api_chain *chain, const struct chain_row *row, const struct hash32 *hash)
{
	return !chain->tracker || hash_eq(hash, &row->latch_theirs) || hash_eq(hash, &row->tip_hash) ||
	       links_find(&chain->tracker->reads.links, hash);
}

void api_accept(struct api_call *c)
{
	struct hash32 hash;
	const struct api_chain *chain = read_accept(c, &hash);
	struct chain_row row;

	if (!chain)
		return;
	if (!chain_get(c->t, chain->config->chain_id, &row) || !may_accept(&row)) {
		api_refuse(c, E_REFUSED, "chain: %llu is not latched and no tier of it suspended: there is nothing to accept",
			   (unsigned long long)chain->config->chain_id);
		return;
	}
	if (row.latched && (hash_eq(&hash, &row.latch_ours) || hash_eq(&hash, &row.tip_hash))) {
		api_refuse(c, E_REFUSED, "hash: the block is ours, of the branch that the endpoints deny; name a block of theirs");
		return;
	}
	if (!is_heard_of(chain, &row, &hash)) {
		api_refuse(c, E_REFUSED, "hash: no endpoint has told of this block");
		return;
	}
	tracker_accept(c->t, chain->config, &hash);
	c->touched = chain;
	answer_chain(c, chain);
}

void api_accept_unproven(struct api_call *c)
{
	struct hash32 hash;
	const struct api_chain *chain = read_accept(c, &hash);
	const struct obstacle *o;
	char text[HASH_TEXT];

	if (!chain)
		return;
	if (!chain->tracker) {
		api_refuse_as(c, 409, E_REFUSED, "chain: no daemon follows chain %llu",
			      (unsigned long long)chain->config->chain_id);
		return;
	}
	o = &chain->tracker->obstacle;
	if (!o->known || !hash_eq(&o->hash, &hash)) {
		api_refuse(c, E_REFUSED, "hash: the next block of chain %llu, as far as it is known, is %s",
			   (unsigned long long)chain->config->chain_id, o->known ? hash_format(&o->hash, text) : "none");
		return;
	}
	tracker_accept_unproven(c->t, chain->config, &hash);
	c->touched = chain;
	answer_chain(c, chain);
}

/* The whole. */

static uint64_t count_state(struct kv_txn *t, enum intent_state state)
{
	struct key from = key_state(state, 0, 0);
	struct kv_cursor at;
	uint64_t n = 0;

	for (bool more = kv_seek(t, T_STATE, key_slice(&from), 1, &at); more && n < API_COUNT_MAX; more = kv_next(&at))
		n++;
	return n;
}

static void put_counts(struct api_call *c)
{
	json_open_object(&c->answer, "intents");
	for (unsigned s = 0; s < INTENT_STATES; s++)
		json_put_number(&c->answer, intent_state_name((enum intent_state)s), count_state(c->t, (enum intent_state)s));
	json_put_number(&c->answer, "total", kv_count(c->t, T_INTENT));
	json_close_object(&c->answer);
}

static bool is_followed(const struct api *api)
{
	for (unsigned i = 0; i < api->chain_count; i++) {
		if (api->chains[i].tracker)
			return true;
	}
	return false;
}

void api_status(struct api_call *c)
{
	json_open_object(&c->answer, NULL);
	if (is_followed(c->api))
		json_put_number(&c->answer, "pid", (uint64_t)getpid());
	else
		json_put_text(&c->answer, "pid", NULL);
	json_put_text(&c->answer, "store", c->api->store);
	put_counts(c);
	put_chains(c);
	json_close_object(&c->answer);
}

/* Health: a reason for each chain in trouble. */

static void put_reason(struct buf *b, const struct api_chain *chain, const char *trouble)
{
	char text[700];

	snprintf(text, sizeof(text), "chain %llu: %s", (unsigned long long)chain->config->chain_id, trouble);
	json_put_text(b, NULL, text);
}

static void put_latched(struct buf *b, const struct api_chain *chain, const struct chain_row *row)
{
	char text[320], ours[HASH_TEXT], theirs[HASH_TEXT];

	snprintf(text, sizeof(text), "chain %llu: latched at %llu, ours %s, theirs %s",
		 (unsigned long long)chain->config->chain_id, (unsigned long long)row->latch_height,
		 hash_format(&row->latch_ours, ours), hash_format(&row->latch_theirs, theirs));
	json_put_text(b, NULL, text);
}

static void put_unproven(struct buf *b, const struct api_chain *chain)
{
	const struct obstacle *o = &chain->tracker->obstacle;
	char text[200], hash[HASH_TEXT];

	snprintf(text, sizeof(text), "unproven: above height %llu, block %s",
		 (unsigned long long)chain->tracker->chain.tip_height, o->known ? hash_format(&o->hash, hash) : "not known");
	put_reason(b, chain, text);
}

/* Which endpoints are not live, and why. */
static void put_absent(struct buf *b, const struct api_chain *chain)
{
	const struct reads *r = &chain->tracker->reads;
	char text[600];

	for (unsigned i = 0; i < r->provider_count; i++) {
		const struct provider *p = &r->providers[i];

		if (provider_is_live(p))
			continue;
		snprintf(text, sizeof(text), "endpoint %u is %s: %.300s%s%.200s", i, health_name(p->health), p->why.text,
			 p->rpc.why.text[0] ? "; last failure: " : "", p->rpc.why.text);
		put_reason(b, chain, text);
	}
}

static void put_alone(struct buf *b, const struct api_chain *chain)
{
	const struct reads *r = &chain->tracker->reads;
	char text[100];

	snprintf(text, sizeof(text), "%u endpoints are live, %u must agree", reads_live(r), reads_agree(r));
	put_reason(b, chain, text);
	put_absent(b, chain);
}

static void put_stale(struct buf *b, const struct api_chain *chain)
{
	const struct head *head = reads_head(&chain->tracker->reads);
	int64_t read_ms = loop_stamp_ms(chain->tracker->loop, chain->tracker->reads.head_read_ms);
	char text[120], read[TIME_TEXT], newest[TIME_TEXT];

	if (head->verified)
		snprintf(text, sizeof(text), "stale: the last head was read at %s, the newest is of %s",
			 time_format(read_ms, read), time_format(head->time_s * 1000, newest));
	else
		snprintf(text, sizeof(text), "stale: no head is known yet");
	put_reason(b, chain, text);
	put_absent(b, chain);
}

static void put_trouble(struct buf *b, const struct api_chain *chain)
{
	switch (chain->tracker->trouble) {
	case TROUBLE_NONE:
	case TROUBLE_LATCHED:
		return;
	case TROUBLE_UNPROVEN:
		put_unproven(b, chain);
		return;
	case TROUBLE_ALONE:
		put_alone(b, chain);
		return;
	case TROUBLE_STALE:
		put_stale(b, chain);
		return;
	case TROUBLE_UNLINKED:
		put_reason(b, chain, tracker_trouble_name(chain->tracker->trouble));
		return;
	}
}

static void put_suspended(struct buf *b, const struct api_chain *chain, const struct chain_row *row)
{
	char text[160];

	for (unsigned i = 0; i < TIERS_MAX; i++) {
		if (!row->marks[i].suspended)
			continue;
		snprintf(text, sizeof(text), "tier %u is suspended at height %llu: a reorg went below it; it settles nothing until "
			 "an operator accepts", i, (unsigned long long)row->marks[i].height);
		put_reason(b, chain, text);
	}
}

static void put_reasons(struct buf *b, const struct api_chain *chain, const struct chain_row *row, bool ready)
{
	const struct tracker *tr = chain->tracker;

	if (row->latched)
		put_latched(b, chain, row);
	put_suspended(b, chain, row);
	if (!tr)
		put_reason(b, chain, "not followed");
	else if (tr->err)
		put_reason(b, chain, "the store failed");
	else
		put_trouble(b, chain);
	if (ready && tr && !tr->caught_up)
		put_reason(b, chain, "has not yet reached the head");
}

/* Of the store and of what is written beside it. */
static void put_own_reasons(struct buf *b, const struct api *api)
{
	const char *trouble = api->trouble ? api->trouble(api->ctx) : NULL;
	char text[80];

	if (trouble)
		json_put_text(b, NULL, trouble);
	if (!api->last_write)
		return;
	snprintf(text, sizeof(text), "the store could not be written: %s", err_name(api->last_write));
	json_put_text(b, NULL, text);
}

static void answer_health(struct api_call *c, bool ready)
{
	struct buf reasons = { 0 };

	json_open_array(&reasons, NULL);
	for (unsigned i = 0; i < c->api->chain_count; i++) {
		const struct api_chain *chain = &c->api->chains[i];
		struct chain_row row = { .latched = false };

		chain_get(c->t, chain->config->chain_id, &row);
		put_reasons(&reasons, chain, &row, ready);
	}
	put_own_reasons(&reasons, c->api);
	json_close_array(&reasons);
	c->status = reasons.len > 2 ? 503 : 200;
	json_open_object(&c->answer, NULL);
	json_put_text(&c->answer, "status", c->status == 200 ? "ok" : "trouble");
	if (c->status != 200) {
		json_put_name(&c->answer, "reasons");
		buf_put(&c->answer, reasons.data, reasons.len);
	}
	json_close_object(&c->answer);
	buf_free(&reasons);
}

void api_health(struct api_call *c)
{
	answer_health(c, false);
}

void api_ready(struct api_call *c)
{
	answer_health(c, true);
}
