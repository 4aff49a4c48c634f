#include "listener/settings.h"

#include "listener/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define DAY_S 86400
#define YEAR_S (365 * DAY_S)
#define MIB ((uint64_t)1 << 20)

struct settings settings_default(void)
{
	return (struct settings){ .store = "tidemark-store" };
}

void settings_free(struct settings *s)
{
	json_close(s->doc);
	free(s->listen_host);
	*s = settings_default();
}

/* Numbers, by the name of their member. */

enum number_kind {
	NUMBER_INT64,
	NUMBER_UINT64,
	NUMBER_UNSIGNED,
	NUMBER_SIZE,
};

struct number {
	const char *name;
	size_t offset;
	enum number_kind kind;
	uint64_t min, max;
};

#define CHAIN(field) #field, offsetof(struct chain_config, field)
static const struct number chain_numbers[] = {
	{ CHAIN(early_s), NUMBER_INT64, 0, 30 * DAY_S },
	{ CHAIN(missing_after_s), NUMBER_INT64, 60, 30 * DAY_S },
	{ CHAIN(keep_hashes_s), NUMBER_INT64, 3600, 10 * (uint64_t)YEAR_S },
	{ CHAIN(keep_state_blocks), NUMBER_UINT64, 1, 10000000 },
	{ CHAIN(balance_wait_ms), NUMBER_INT64, 0, 60000 },
	{ CHAIN(keep_tx_blocks), NUMBER_UINT64, 1, 10000000 },
	{ CHAIN(far_blocks), NUMBER_UINT64, 1, 512 },
	{ CHAIN(ahead_blocks), NUMBER_UNSIGNED, 1, 48 },
	{ CHAIN(poll_ms), NUMBER_INT64, 100, 60000 },
	{ CHAIN(retry_ms), NUMBER_INT64, 10, 60000 },
	{ CHAIN(lag_blocks), NUMBER_UINT64, 0, 10000 },
	{ CHAIN(tag_settle_ms), NUMBER_INT64, 0, 3600000 },
	{ CHAIN(tag_depth_blocks), NUMBER_UINT64, 0, 100000 },
	{ CHAIN(head_age_s), NUMBER_INT64, 5, 10 * (uint64_t)YEAR_S },
	{ CHAIN(stale_s), NUMBER_INT64, 5, DAY_S },
	{ CHAIN(unproven_s), NUMBER_INT64, 1, 7 * DAY_S },
	{ CHAIN(promote_slice), NUMBER_UNSIGNED, 1, 200 },
	{ CHAIN(commit_blocks), NUMBER_UNSIGNED, 1, 32 },
	{ CHAIN(timeout_ms), NUMBER_UNSIGNED, 500, 300000 },
	{ CHAIN(hedge_min_ms), NUMBER_INT64, 0, 60000 },
	{ CHAIN(batch_max), NUMBER_UNSIGNED, 1, 1000 },
};

#define TOP(name, field) name, offsetof(struct settings, field)
static const struct number top_numbers[] = {
	{ TOP("map_bytes", map_bytes), NUMBER_SIZE, MIB, KV_MAP_MAX_BYTES },
	{ TOP("map_max_bytes", map_max_bytes), NUMBER_SIZE, MIB, KV_MAP_MAX_BYTES },
	{ TOP("answer_max_bytes", loop.answer_max_bytes), NUMBER_SIZE, 64 << 10, 1024 * MIB },
	{ TOP("message_max_bytes", loop.message_max_bytes), NUMBER_SIZE, 64 << 10, 256 * MIB },
	{ TOP("request_max_bytes", loop.request_max_bytes), NUMBER_SIZE, 4 << 10, 64 * MIB },
	{ TOP("open_s", loop.open_s), NUMBER_UNSIGNED, 1, 300 },
	{ TOP("ping_s", loop.ping_s), NUMBER_UNSIGNED, 1, 3600 },
	{ TOP("hangup_s", loop.hangup_s), NUMBER_UNSIGNED, 2, 7200 },
};

static void store_number(const struct number *n, void *at, uint64_t v)
{
	switch (n->kind) {
	case NUMBER_INT64:
		*(int64_t *)at = (int64_t)v;
		return;
	case NUMBER_UINT64:
		*(uint64_t *)at = v;
		return;
	case NUMBER_UNSIGNED:
		*(unsigned *)at = (unsigned)v;
		return;
	case NUMBER_SIZE:
		*(size_t *)at = (size_t)v;
		return;
	}
}

static void read_numbers(struct json object, const struct number *numbers, size_t count, void *out)
{
	for (size_t i = 0; i < count; i++) {
		const struct number *n = &numbers[i];
		struct json j = json_maybe(object, n->name);
		uint64_t v = j.value ? json_u64(j) : n->min;

		if (v < n->min || v > n->max)
			json_complain(j, "%llu, want %llu to %llu", (unsigned long long)v, (unsigned long long)n->min,
				      (unsigned long long)n->max);
		else if (j.value)
			store_number(n, (char *)out + n->offset, v);
	}
}

#define NAMES_MAX 40
/* As json_only(), the numbers' names added to @others, which ends with NULL. */
static void only_known(struct json object, const char *const *others, const struct number *numbers, size_t count)
{
	const char *names[NAMES_MAX + 1];
	size_t n = 0;

	for (; *others && n < NAMES_MAX; others++)
		names[n++] = *others;
	for (size_t i = 0; i < count && n < NAMES_MAX; i++)
		names[n++] = numbers[i].name;
	names[n] = NULL;
	json_only(object, names);
}

/* URLs.  They may hold keys: a complaint shows nothing of them. */

static const char *const http_schemes[] = { "http://", "https://", NULL };
static const char *const ws_schemes[] = { "ws://", "wss://", NULL };
static const char *const proxy_schemes[] = { "http://", "https://", "socks5://", "socks5h://", NULL };

/* What is wrong with it, or NULL. */
static const char *url_fault(const char *url, const char *const *schemes)
{
	if (!url)
		return "is missing";
	while (*schemes && strncmp(url, *schemes, strlen(*schemes)) != 0)
		schemes++;
	if (!*schemes)
		return "begins otherwise";
	for (const unsigned char *p = (const unsigned char *)url; *p; p++) {
		if (*p <= ' ' || *p >= 0x7f)
			return "has a blank, or a byte that is no ASCII";
	}
	url += strlen(*schemes);
	return strcspn(url, "/?#") ? NULL : "names no host";
}

static const char *read_url(struct json object, const char *name, const char *const *schemes)
{
	struct json j = json_member(object, name);
	const char *url = json_text(j);
	const char *fault = url_fault(url, schemes);

	if (fault)
		json_complain(j, "the URL %s, want %s or %s", fault, schemes[0], schemes[1]);
	return url;
}

static void read_endpoints(struct json list, struct chain_settings *c)
{
	static const char *const members[] = { "http", "ws", NULL };
	size_t count = json_length(list);

	if (count > PROVIDERS_MAX) {
		json_complain(list, "%zu endpoints, want at most %d", count, PROVIDERS_MAX);
		return;
	}
	for (c->endpoint_count = 0; c->endpoint_count < count; c->endpoint_count++) {
		struct json j = json_at(list, c->endpoint_count);

		json_only(j, members);
		c->endpoints[c->endpoint_count].http = read_url(j, "http", http_schemes);
		c->endpoints[c->endpoint_count].ws = read_url(j, "ws", ws_schemes);
	}
}

/* Chains. */

static void read_chain_config(struct json j, struct chain_config *c)
{
	if (json_has(j, "genesis")) {
		c->has_genesis = true;
		c->genesis = json_hash(json_member(j, "genesis"));
	}
	if (json_has(j, "tokens")) {
		c->token_count = 0;
		config_read_tokens(json_member(j, "tokens"), c);
	}
	if (json_has(j, "finality"))
		config_read_finality(json_member(j, "finality"), c);
	if (json_has(j, "witness"))
		c->witness = config_read_witness(json_member(j, "witness"));
	if (json_has(j, "route_dust"))
		c->route_dust = json_amount(json_member(j, "route_dust"));
	c->has_start = json_has(j, "start_height");
	if (c->has_start)
		c->start_height = json_u64(json_member(j, "start_height"));
	read_numbers(j, chain_numbers, ARRAY_SIZE(chain_numbers), c);
}

static bool is_listed_before(const struct settings *s, uint64_t chain_id)
{
	for (unsigned i = 0; i < s->chain_count; i++) {
		if (s->chains[i].config.chain_id == chain_id)
			return true;
	}
	return false;
}

static void read_chain(struct json j, struct settings *s)
{
	static const char *const members[] = { "chain_id", "genesis", "endpoints", "tokens", "finality", "witness",
					       "route_dust", "start_height", NULL };
	struct chain_settings *c = &s->chains[s->chain_count];
	struct json id = json_member(j, "chain_id");

	only_known(j, members, chain_numbers, ARRAY_SIZE(chain_numbers));
	*c = (struct chain_settings){ .config = config_default(json_u64(id)) };
	if (!c->config.chain_id)
		json_complain(id, "0, want 1 or more");
	else if (is_listed_before(s, c->config.chain_id))
		json_complain(id, "%llu, which another chain here has", (unsigned long long)c->config.chain_id);
	config_preset(&c->config);
	read_chain_config(j, &c->config);
	if (json_has(j, "endpoints"))
		read_endpoints(json_member(j, "endpoints"), c);
	s->chain_count++;
}

static void read_chains(struct json list, struct settings *s)
{
	size_t count = json_length(list);

	s->chain_count = 0;
	if (count < 1 || count > CHAINS_MAX)
		json_complain(list, "%zu chains, want 1 to %d", count, CHAINS_MAX);
	for (size_t i = 0; i < count && !json_failed(list.doc); i++)
		read_chain(json_at(list, i), s);
}

/* The rest. */

static void read_name(struct json top, const char *name, const char **out)
{
	struct json j = json_maybe(top, name);

	if (!j.value)
		return;
	*out = json_text(j);
	if (!**out)
		json_complain(j, "empty");
}

static void read_listen(struct json j, struct settings *s)
{
	if (j.value && !settings_parse_listen(json_text(j), s))
		json_complain(j, "\"%.80s\", want HOST:PORT or [ADDRESS]:PORT", json_text(j));
}

static unsigned or_default(unsigned v, unsigned otherwise)
{
	return v ? v : otherwise;
}

/* What two members say together. */
static void check_together(struct json top, const struct settings *s)
{
	unsigned ping_s = or_default(s->loop.ping_s, 15), hangup_s = or_default(s->loop.hangup_s, 25);
	size_t map_bytes = s->map_bytes ? s->map_bytes : KV_MAP_BYTES;

	if (hangup_s <= ping_s)
		json_complain(json_maybe(top, "hangup_s"), "%u, want more than ping_s, which is %u", hangup_s, ping_s);
	if (s->map_max_bytes && s->map_max_bytes < map_bytes)
		json_complain(json_maybe(top, "map_max_bytes"), "%zu, want at least map_bytes, which is %zu",
			      s->map_max_bytes, map_bytes);
}

static void read_top(struct json top, struct settings *s)
{
	static const char *const members[] = { "store", "events", "listen", "ca_file", "proxy", "chains", NULL };

	only_known(top, members, top_numbers, ARRAY_SIZE(top_numbers));
	read_name(top, "store", &s->store);
	read_name(top, "events", &s->events);
	read_name(top, "ca_file", &s->loop.ca_file);
	if (json_has(top, "proxy"))
		s->loop.proxy = read_url(top, "proxy", proxy_schemes);
	read_listen(json_maybe(top, "listen"), s);
	read_numbers(top, top_numbers, ARRAY_SIZE(top_numbers), s);
	check_together(top, s);
	read_chains(json_member(top, "chains"), s);
}

/* The file. */

static enum err read_file(const char *path, struct buf *out, struct complaint *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;

	if (fd < 0)
		return complain(why, E_IO, "%s: cannot be opened: %s", path, strerror(errno));
	do {
		got = read(fd, buf_extend(out, 65536), 65536);
		out->len -= 65536 - (got > 0 ? (size_t)got : 0);
	} while ((got > 0 && out->len <= FILE_MAX_BYTES) || (got < 0 && errno == EINTR));
	if (got < 0)
		complain(why, E_IO, "%s: cannot be read: %s", path, strerror(errno));
	close(fd);
	if (out->len > FILE_MAX_BYTES)
		return complain(why, E_INPUT, "%s: longer than %zu bytes", path, FILE_MAX_BYTES);
	return got < 0 ? E_IO : OK;
}

/* What a syntax error stands near may be a URL. */
static struct json_doc *open_document(struct slice text, struct complaint *why)
{
	struct json_doc *doc = json_open(text, why);
	char *near = doc ? NULL : strstr(why->text, " near ");

	if (near)
		*near = '\0';
	return doc;
}

static enum err read_document(struct slice text, struct settings *s, struct complaint *why)
{
	struct settings read = *s;
	enum err err;

	read.listen_host = NULL;
	read.doc = open_document(text, why);
	if (!read.doc)
		return E_INPUT;
	read_top(json_root(read.doc), &read);
	err = json_finish(read.doc, why);
	if (err) {
		settings_free(&read);
		return err;
	}
	if (read.listen_host)
		free(s->listen_host);
	else
		read.listen_host = s->listen_host;
	*s = read;
	return OK;
}

enum err settings_read(const char *path, struct settings *s, struct complaint *why)
{
	struct buf text = { 0 };
	struct complaint inner;
	enum err err = read_file(path, &text, why);

	if (!err) {
		err = read_document(buf_slice(&text), s, &inner);
		if (err)
			complain(why, err, "%.200s: %.300s", path, inner.text);
	}
	buf_free(&text);
	return err;
}

/* Where to listen. */

static bool is_host(const char *host, bool bracketed)
{
	struct in6_addr address;

	if (bracketed)
		return inet_pton(AF_INET6, host, &address) == 1;
	return *host && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == strlen(host);
}

bool settings_parse_listen(const char *text, struct settings *s)
{
	bool bracketed = text[0] == '[';
	const char *end = strrchr(text, ':');
	uint64_t port;
	char *host;

	if (!end || !u64_parse(slice_of_text(end + 1), &port) || port > 65535)
		return false;
	if (bracketed && end[-1] != ']')
		return false;
	host = xstrdup(text + bracketed);
	host[end - text - 2 * bracketed] = '\0';
	if (!is_host(host, bracketed)) {
		free(host);
		return false;
	}
	free(s->listen_host);
	s->listen_host = host;
	s->listen_port = (int)port;
	return true;
}

/* The whole. */

static const char *chain_name(const struct chain_config *c, char out[40])
{
	if (c->chain_id)
		snprintf(out, 40, "chain %llu", (unsigned long long)c->chain_id);
	else
		snprintf(out, 40, "the chain");
	return out;
}

static enum err check_endpoint(const struct chain_settings *c, unsigned index, const char *chain, struct complaint *why)
{
	const struct endpoint_urls *at = &c->endpoints[index];
	const char *fault = url_fault(at->http, http_schemes);

	if (fault)
		return complain(why, E_INPUT, "%s: endpoint %u: the URL for HTTP %s, want http:// or https://", chain,
				index + 1, fault);
	fault = url_fault(at->ws, ws_schemes);
	if (fault)
		return complain(why, E_INPUT, "%s: endpoint %u: the URL for the WebSocket %s, want ws:// or wss://",
				chain, index + 1, fault);
	/* It would vouch for itself. */
	for (unsigned i = 0; i < index; i++) {
		if (url_same(c->endpoints[i].http, at->http) || url_same(c->endpoints[i].ws, at->ws))
			return complain(why, E_INPUT, "%s: endpoints %u and %u are the same", chain, i + 1, index + 1);
	}
	return OK;
}

static enum err check_chain(const struct chain_settings *c, struct complaint *why)
{
	const struct chain_config *config = &c->config;
	char chain[40];
	enum err err = OK;

	chain_name(config, chain);
	if (!c->endpoint_count)
		return complain(why, E_INPUT, "%s: no endpoint: want --http URL --ws URL, or endpoints in the file", chain);
	for (unsigned i = 0; i < c->endpoint_count && !err; i++)
		err = check_endpoint(c, i, chain, why);
	if (err)
		return err;
	if (config->agree > c->endpoint_count)
		return complain(why, E_INPUT, "%s: %u endpoints must agree, but there are %u", chain, config->agree,
				c->endpoint_count);
	if (!config->chain_id)
		return OK;
	if (!config->token_count)
		return complain(why, E_INPUT, "%s: no token: want --token SYMBOL:ADDRESS:DECIMALS, or tokens in the file",
				chain);
	if (!config->finality.tier_count)
		return complain(why, E_INPUT, "%s: no finality: want it in the file", chain);
	return OK;
}

enum err settings_check(const struct settings *s, struct complaint *why)
{
	enum err err = OK;

	if (!s->chain_count)
		return complain(why, E_INPUT, "no chain: want --http URL --ws URL, or --config FILE");
	for (unsigned i = 0; i < s->chain_count && !err; i++) {
		err = check_chain(&s->chains[i], why);
		for (unsigned k = 0; k < i && !err; k++) {
			if (s->chains[k].config.chain_id == s->chains[i].config.chain_id)
				err = complain(why, E_INPUT, "two chains have the id %llu",
					       (unsigned long long)s->chains[i].config.chain_id);
		}
	}
	return err;
}
