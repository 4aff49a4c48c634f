/*
 * settings: a whole file, each way in which one may be wrong and what is said of it, what may run at all; the
 * presets of public chains, and tokens on the command line.
 */
#include "listener/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Files. */

static char path[64];

static int make_path(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/tidemark-config-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return 0;
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

static enum err read_text(const char *text, struct settings *s, struct complaint *why)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return settings_read(path, s, why);
}

static struct settings read_good(const char *text)
{
	struct settings s = settings_default();
	struct complaint why;

	if (read_text(text, &s, &why))
		fail_msg("%s: %s", text, why.text);
	return s;
}

/* The complaint, after the file's name, is exactly @want; nothing was changed. */
static void expect_bad(const char *text, const char *want)
{
	struct settings s = settings_default(), before = s;
	struct complaint why;
	size_t len = strlen(path);

	if (read_text(text, &s, &why) != E_INPUT)
		fail_msg("%s: was read", text);
	assert_memory_equal(why.text, path, len);
	assert_memory_equal(why.text + len, ": ", 2);
	assert_string_equal(why.text + len + 2, want);
	assert_memory_equal(&s, &before, sizeof(s));
}

#define ENDPOINTS "\"endpoints\":[{\"http\":\"http://h:8545\",\"ws\":\"ws://h:8546\"}]"
#define TOKEN "{\"symbol\":\"TT\",\"address\":\"0x5fbdb2315678afecb367f032d93f642f64180aa3\",\"decimals\":6}"
#define FINALITY "\"finality\":{\"depth\":3}"
#define LOCAL(more) "{\"chains\":[{\"chain_id\":31337," ENDPOINTS ",\"tokens\":[" TOKEN "]," FINALITY more "}]}"

static const char whole[] =
	"{\"store\":\"/var/lib/t\",\"events\":\"ev.log\",\"listen\":\"[::1]:8080\",\"ca_file\":\"ca.pem\","
	"\"proxy\":\"http://proxy:3128\",\"map_bytes\":134217728,\"map_max_bytes\":1073741824,"
	"\"answer_max_bytes\":1048576,\"message_max_bytes\":2097152,\"request_max_bytes\":65536,"
	"\"open_s\":5,\"ping_s\":7,\"hangup_s\":9,\"chains\":["
	"{\"chain_id\":31337,\"genesis\":\"0x00000000000000000000000000000000000000000000000000000000000000ab\","
	"\"endpoints\":[{\"http\":\"http://a:1\",\"ws\":\"ws://a:2\"},{\"http\":\"https://b/K\",\"ws\":\"wss://b/K\"}],"
	"\"tokens\":[" TOKEN "],\"finality\":{\"tag\":\"safe\",\"depth\":20,\"agree\":1},\"witness\":\"required\","
	"\"early_s\":1,\"missing_after_s\":61,\"keep_hashes_s\":3601,\"keep_tx_blocks\":2,\"keep_state_blocks\":17,\"balance_wait_ms\":18,\"route_dust\":\"1000\","
	"\"far_blocks\":3,\"ahead_blocks\":4,\"poll_ms\":101,\"retry_ms\":11,\"lag_blocks\":5,\"tag_settle_ms\":6,"
	"\"tag_depth_blocks\":7,\"head_age_s\":8,\"stale_s\":9,\"unproven_s\":10,\"promote_slice\":12,"
	"\"commit_blocks\":13,\"timeout_ms\":501,\"hedge_min_ms\":14,\"batch_max\":15,\"start_height\":16},"
	"{\"chain_id\":8453," ENDPOINTS ",\"poll_ms\":1500}]}";

static void expect_top(const struct settings *s)
{
	assert_string_equal(s->store, "/var/lib/t");
	assert_string_equal(s->events, "ev.log");
	assert_string_equal(s->listen_host, "::1");
	assert_int_equal(s->listen_port, 8080);
	assert_string_equal(s->loop.ca_file, "ca.pem");
	assert_string_equal(s->loop.proxy, "http://proxy:3128");
	assert_int_equal(s->map_bytes, 134217728);
	assert_int_equal(s->map_max_bytes, 1073741824);
	assert_int_equal(s->loop.answer_max_bytes, 1048576);
	assert_int_equal(s->loop.message_max_bytes, 2097152);
	assert_int_equal(s->loop.request_max_bytes, 65536);
	assert_int_equal(s->loop.open_s, 5);
	assert_int_equal(s->loop.ping_s, 7);
	assert_int_equal(s->loop.hangup_s, 9);
}

static void expect_limits(const struct chain_config *c)
{
	struct u256 dust = u256_from_u64(1000);

	assert_int_equal(c->early_s, 1);
	assert_int_equal(c->missing_after_s, 61);
	assert_int_equal(c->keep_hashes_s, 3601);
	assert_int_equal(c->keep_tx_blocks, 2);
	assert_int_equal(c->keep_state_blocks, 17);
	assert_int_equal(c->balance_wait_ms, 18);
	assert_int_equal(u256_cmp(&c->route_dust, &dust), 0);
	assert_int_equal(c->far_blocks, 3);
	assert_int_equal(c->ahead_blocks, 4);
	assert_int_equal(c->poll_ms, 101);
	assert_int_equal(c->retry_ms, 11);
	assert_int_equal(c->lag_blocks, 5);
	assert_int_equal(c->tag_settle_ms, 6);
	assert_int_equal(c->tag_depth_blocks, 7);
	assert_int_equal(c->head_age_s, 8);
	assert_int_equal(c->stale_s, 9);
	assert_int_equal(c->unproven_s, 10);
	assert_int_equal(c->promote_slice, 12);
	assert_int_equal(c->commit_blocks, 13);
	assert_int_equal(c->timeout_ms, 501);
	assert_int_equal(c->hedge_min_ms, 14);
	assert_int_equal(c->batch_max, 15);
	assert_true(c->has_start);
	assert_int_equal(c->start_height, 16);
}

static void test_whole(void **state)
{
	struct settings s = read_good(whole);
	const struct chain_settings *c = &s.chains[0];
	struct complaint why;

	(void)state;
	expect_top(&s);
	assert_int_equal(s.chain_count, 2);
	assert_int_equal(c->config.chain_id, 31337);
	assert_true(c->config.has_genesis);
	assert_int_equal(c->config.genesis.b[31], 0xab);
	assert_int_equal(c->endpoint_count, 2);
	assert_string_equal(c->endpoints[1].http, "https://b/K");
	assert_string_equal(c->endpoints[1].ws, "wss://b/K");
	assert_int_equal(c->config.token_count, 1);
	assert_string_equal(c->config.symbols[0], "TT");
	assert_int_equal(c->config.finality.tiers[0].tag, TAG_SAFE);
	assert_int_equal(c->config.finality.tiers[0].depth, 20);
	assert_int_equal(c->config.agree, 1);
	assert_int_equal(c->config.witness, WITNESS_REQUIRED);
	expect_limits(&c->config);
	c = &s.chains[1];
	assert_int_equal(c->config.token_count, 2);
	assert_int_equal(c->config.poll_ms, 1500);
	assert_int_equal(c->config.lag_blocks, 10);
	assert_false(c->config.has_start);
	assert_int_equal(settings_check(&s, &why), OK);
	settings_free(&s);
}

static void test_least(void **state)
{
	struct settings s = read_good(LOCAL(""));
	struct chain_config want = config_default(31337);
	struct complaint why;

	(void)state;
	assert_string_equal(s.store, "tidemark-store");
	assert_null(s.events);
	assert_null(s.listen_host);
	assert_int_equal(s.map_bytes, 0);
	assert_int_equal(s.chains[0].config.agree, 0);
	assert_int_equal(s.chains[0].config.poll_ms, want.poll_ms);
	assert_int_equal(s.chains[0].config.batch_max, want.batch_max);
	assert_int_equal(settings_check(&s, &why), OK);
	settings_free(&s);
}

/* What stood there goes on unless the file says otherwise. */
static void test_over(void **state)
{
	struct settings s = settings_default();
	struct complaint why;

	(void)state;
	s.store = "elsewhere";
	s.chain_count = 1;
	s.chains[0].config = config_default(7);
	assert_true(settings_parse_listen("localhost:0", &s));
	assert_int_equal(read_text("{", &s, &why), E_INPUT);
	assert_string_equal(s.listen_host, "localhost");
	assert_int_equal(read_text(LOCAL(""), &s, &why), OK);
	assert_string_equal(s.store, "elsewhere");
	assert_string_equal(s.listen_host, "localhost");
	assert_int_equal(s.chain_count, 1);
	assert_int_equal(s.chains[0].config.chain_id, 31337);
	assert_true(settings_parse_listen("127.0.0.1:9", &s));
	assert_string_equal(s.listen_host, "127.0.0.1");
	settings_free(&s);
	assert_null(s.listen_host);
}

/* A file's tokens and finality are instead of the preset's. */
static void test_instead_of_preset(void **state)
{
	struct settings s = read_good("{\"chains\":[{\"chain_id\":1,\"tokens\":[" TOKEN "],\"finality\":{\"tiers\":["
				      "{\"up_to\":\"5\",\"depth\":12},{\"tag\":\"finalized\"}],\"agree\":2}}]}");
	const struct chain_config *c = &s.chains[0].config;

	(void)state;
	assert_int_equal(c->token_count, 1);
	assert_string_equal(c->symbols[0], "TT");
	assert_int_equal(c->finality.tier_count, 2);
	assert_int_equal(c->finality.tiers[0].depth, 12);
	assert_int_equal(c->agree, 2);
	assert_true(c->has_genesis);
	assert_int_equal(c->poll_ms, 12000);
	settings_free(&s);
}

#define CHAIN(members) "{\"chains\":[{\"chain_id\":5," members "}]}"
#define TOP(member) "{" member ",\"chains\":[{\"chain_id\":5}]}"
#define AT(http, ws) CHAIN("\"endpoints\":[{\"http\":\"" http "\",\"ws\":\"" ws "\"}]")

static void test_bad_shape(void **state)
{
	(void)state;
	expect_bad("{\"chains\":[]}", "chains: 0 chains, want 1 to 8");
	expect_bad("{}", "chains: missing");
	expect_bad("[]", "an array, want an object");
	expect_bad("{\"chains\":{}}", "chains: an object, want an array");
	expect_bad("{\"chains\":[{}]}", "chains[0].chain_id: missing");
	expect_bad("{\"chains\":[{\"chain_id\":0}]}", "chains[0].chain_id: 0, want 1 or more");
	expect_bad("{\"chains\":[{\"chain_id\":5},{\"chain_id\":5}]}",
		   "chains[1].chain_id: 5, which another chain here has");
	expect_bad(TOP("\"stores\":\"x\""), "stores: not a known member");
	expect_bad(CHAIN("\"pol_ms\":1"), "chains[0].pol_ms: not a known member");
	expect_bad(CHAIN("\"endpoints\":[{\"http\":\"http://h\",\"ws\":\"ws://h\",\"key\":1}]"),
		   "chains[0].endpoints[0].key: not a known member");
	expect_bad(CHAIN("\"endpoints\":[{\"http\":\"http://h\"}]"), "chains[0].endpoints[0].ws: missing");
	expect_bad(CHAIN("\"genesis\":\"0x12\""), "chains[0].genesis: 2 hex digits, want 64");
	expect_bad(CHAIN("\"finality\":{\"tag\":\"safe\"}"),
		   "chains[0].finality: safe alone is not final: ask for a depth too");
	expect_bad(CHAIN("\"finality\":{\"depth\":1,\"agree\":0}"), "chains[0].finality.agree: 0, want 1 to 8");
	expect_bad(CHAIN("\"finality\":{\"depth\":1,\"agrees\":2}"), "chains[0].finality.agrees: not a known member");
	expect_bad(CHAIN("\"witness\":\"never\""),
		   "chains[0].witness: \"never\", want when_available, required or off");
	expect_bad(CHAIN("\"route_dust\":5"), "chains[0].route_dust: a number, want decimal digits in quotes");
	expect_bad(TOP("\"store\":\"\""), "store: empty");
	expect_bad(TOP("\"listen\":\"8080\""), "listen: \"8080\", want HOST:PORT or [ADDRESS]:PORT");
}

static void test_bad_tokens(void **state)
{
	(void)state;
	expect_bad("{\"chains\":[{\"chain_id\":5,\"tokens\":[" TOKEN ",{\"symbol\":\"A\",\"decimals\":6,\"address\":"
		   "\"0x5fbdb2315678afecb367f032d93f642f64180aa\"}]}]}",
		   "chains[0].tokens[1].address: 39 hex digits, want 40");
	expect_bad(CHAIN("\"tokens\":[" TOKEN "," TOKEN "]"), "chains[0].tokens[1].address: listed twice");
	expect_bad(CHAIN("\"tokens\":[{\"symbol\":\"A\",\"decimals\":78,"
			 "\"address\":\"0x5fbdb2315678afecb367f032d93f642f64180aa3\"}]"),
		   "chains[0].tokens[0].decimals: 78, want at most 77");
	expect_bad(CHAIN("\"tokens\":[{\"symbol\":\"ABCDEFGHIJKLMNOPQ\",\"decimals\":6,"
			 "\"address\":\"0x5fbdb2315678afecb367f032d93f642f64180aa3\"}]"),
		   "chains[0].tokens[0].symbol: 17 bytes, want at most 16");
}

static void test_bad_numbers(void **state)
{
	(void)state;
	expect_bad(CHAIN("\"poll_ms\":99"), "chains[0].poll_ms: 99, want 100 to 60000");
	expect_bad(CHAIN("\"poll_ms\":60001"), "chains[0].poll_ms: 60001, want 100 to 60000");
	expect_bad(CHAIN("\"poll_ms\":-1"), "chains[0].poll_ms: -1, want no negative number");
	expect_bad(CHAIN("\"poll_ms\":1.5"),
		   "chains[0].poll_ms: a number with a point or exponent, want a whole number");
	expect_bad(CHAIN("\"ahead_blocks\":0"), "chains[0].ahead_blocks: 0, want 1 to 48");
	expect_bad(CHAIN("\"batch_max\":4294967296"), "chains[0].batch_max: 4294967296, want 1 to 1000");
	expect_bad(CHAIN("\"promote_slice\":0"), "chains[0].promote_slice: 0, want 1 to 200");
	expect_bad(TOP("\"map_bytes\":1"), "map_bytes: 1, want 1048576 to 1099511627776");
	expect_bad(TOP("\"map_max_bytes\":1048576"),
		   "map_max_bytes: 1048576, want at least map_bytes, which is 67108864");
	expect_bad(TOP("\"hangup_s\":15"), "hangup_s: 15, want more than ping_s, which is 15");
	expect_bad(TOP("\"ping_s\":30"), "hangup_s: 25, want more than ping_s, which is 30");
}

/* A URL may hold a key: nothing of one is shown, wherever the file is wrong. */
static void test_bad_urls(void **state)
{
	(void)state;
	expect_bad(AT("ftp://u:SECRET@h/SECRET", "ws://h"),
		   "chains[0].endpoints[0].http: the URL begins otherwise, want http:// or https://");
	expect_bad(AT("http://h", "http://h/SECRET"),
		   "chains[0].endpoints[0].ws: the URL begins otherwise, want ws:// or wss://");
	expect_bad(AT("http:///SECRET", "ws://h"),
		   "chains[0].endpoints[0].http: the URL names no host, want http:// or https://");
	expect_bad(AT("https://h/SEC RET", "ws://h"), "chains[0].endpoints[0].http: the URL has a blank, or a byte that "
		   "is no ASCII, want http:// or https://");
	expect_bad(TOP("\"proxy\":\"SECRET\""), "proxy: the URL begins otherwise, want http:// or https://");
	expect_bad("{\"chains\":[{\"http\" \"https://h/SECRET\"}]}", "line 1, column 37: ':' expected");
}

static void test_bad_file(void **state)
{
	struct settings s = settings_default();
	struct complaint why;

	(void)state;
	assert_int_equal(settings_read("/nowhere/config.json", &s, &why), E_IO);
	assert_string_equal(why.text, "/nowhere/config.json: cannot be opened: No such file or directory");
	assert_int_equal(settings_read("/", &s, &why), E_IO);
	assert_string_equal(why.text, "/: cannot be read: Is a directory");
}

/* Where to listen. */

static void expect_listen(const char *text, const char *host, int port)
{
	struct settings s = settings_default();

	if (settings_parse_listen(text, &s) != (host != NULL))
		fail_msg("%s", text);
	if (host) {
		assert_string_equal(s.listen_host, host);
		assert_int_equal(s.listen_port, port);
	} else {
		assert_null(s.listen_host);
	}
	settings_free(&s);
}

static void test_listen(void **state)
{
	static const char *const bad[] = { "", ":", ":80", "80", "h:", "h:65536", "h:-1", "h:8x", "::1:80", "[::1]", "[::1",
					   "[]:80", "[::1]80", "[h]:80", "[127.0.0.1]:80", "h/p:80", "h h:80", "]:80",
					   "[:80", "http://h:80" };

	(void)state;
	expect_listen("127.0.0.1:8080", "127.0.0.1", 8080);
	expect_listen("pay-1.example:0", "pay-1.example", 0);
	expect_listen("[::1]:65535", "::1", 65535);
	expect_listen("[2001:db8::17]:80", "2001:db8::17", 80);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_listen(bad[i], NULL, 0);
}

/* Whether it may run. */

static void expect_run(const struct settings *s, const char *want)
{
	struct complaint why = { "" };
	enum err err = settings_check(s, &why);

	assert_int_equal(err, want ? E_INPUT : OK);
	assert_string_equal(why.text, want ? want : "");
}

static void test_check(void **state)
{
	struct settings s = settings_default();
	struct chain_settings *c = &s.chains[0];
	struct address token = { { 1 } };

	(void)state;
	expect_run(&s, "no chain: want --http URL --ws URL, or --config FILE");
	s.chain_count = 1;
	c->config = config_default(0);
	expect_run(&s, "the chain: no endpoint: want --http URL --ws URL, or endpoints in the file");
	c->endpoint_count = 2;
	c->endpoints[0] = (struct endpoint_urls){ "http://a/KEY", "ws://a/KEY" };
	c->endpoints[1] = (struct endpoint_urls){ "wss://b/KEY", "wss://b/KEY" };
	expect_run(&s, "the chain: endpoint 2: the URL for HTTP begins otherwise, want http:// or https://");
	c->endpoints[1] = (struct endpoint_urls){ "http://b/KEY", "http://b/KEY" };
	expect_run(&s, "the chain: endpoint 2: the URL for the WebSocket begins otherwise, want ws:// or wss://");
	c->endpoints[1] = (struct endpoint_urls){ "http://a/KEY", "ws://b/KEY" };
	expect_run(&s, "the chain: endpoints 1 and 2 are the same");
	c->endpoints[1] = (struct endpoint_urls){ "http://A:80/KEY", "ws://b/KEY" };
	expect_run(&s, "the chain: endpoints 1 and 2 are the same");
	c->endpoints[1] = (struct endpoint_urls){ "http://b/KEY", "ws://A:80/KEY" };
	expect_run(&s, "the chain: endpoints 1 and 2 are the same");
	c->endpoints[1] = (struct endpoint_urls){ "http://a/key", "ws://a:81/KEY" };
	expect_run(&s, NULL);
	c->endpoints[1] = (struct endpoint_urls){ "http://b/KEY", "ws://b/KEY" };
	expect_run(&s, NULL);
	c->config.chain_id = 5;
	expect_run(&s, "chain 5: no token: want --token SYMBOL:ADDRESS:DECIMALS, or tokens in the file");
	assert_true(config_add_token(&c->config, "T", &token, 6));
	expect_run(&s, "chain 5: no finality: want it in the file");
	c->config.finality.tier_count = 1;
	expect_run(&s, NULL);
	c->config.agree = 3;
	expect_run(&s, "chain 5: 3 endpoints must agree, but there are 2");
	c->config.agree = 2;
	s.chains[s.chain_count++] = *c;
	expect_run(&s, "two chains have the id 5");
}

/* Presets. */

struct known_token {
	uint64_t chain_id;
	const char *symbol;
	const char *address;
	uint8_t decimals;
};
static const struct known_token known_tokens[] = {
	{ 1, "USDC", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", 6 },
	{ 1, "USDT", "0xdAC17F958D2ee523a2206206994597C13D831ec7", 6 },
	{ 10, "USDC", "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", 6 },
	{ 10, "USDT", "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58", 6 },
	{ 10, "USDT0", "0x01bFF41798a0BcF287b996046Ca68b395DbC1071", 6 },
	{ 56, "USDC", "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d", 18 },
	{ 56, "USDT", "0x55d398326f99059fF775485246999027B3197955", 18 },
	{ 137, "USDC", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", 6 },
	{ 137, "USDT", "0xc2132D05D31c914a87C6611C10748AEb04B58e8F", 6 },
	{ 8453, "USDC", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", 6 },
	{ 8453, "USDT", "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2", 6 },
	{ 42161, "USDC", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", 6 },
	{ 42161, "USDT", "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9", 6 },
	{ 11155111, "USDC", "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238", 6 },
	{ 84532, "USDC", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", 6 },
	{ 421614, "USDC", "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", 6 },
	{ 11155420, "USDC", "0x5fd84259d66Cd46123540766Be93DFE6D43130D7", 6 },
};
static const uint64_t known_chains[] = { 1, 10, 56, 137, 8453, 42161, 11155111, 84532, 421614, 11155420 };

/* Through json_address(), which holds mixed case against its checksum. */
static struct address checked_address(const char *text)
{
	struct buf document = { 0 };
	struct json_doc *doc;
	struct complaint why;
	struct address a;

	buf_printf(&document, "[\"%s\"]", text);
	doc = json_open(buf_slice(&document), &why);
	assert_non_null(doc);
	a = json_address(json_at(json_root(doc), 0));
	if (json_finish(doc, &why))
		fail_msg("%s", why.text);
	json_close(doc);
	buf_free(&document);
	return a;
}

static void expect_tokens(const struct chain_config *c)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known_tokens); i++) {
		const struct known_token *k = &known_tokens[i];
		struct address a = checked_address(k->address);

		if (k->chain_id != c->chain_id)
			continue;
		assert_true(n < c->token_count);
		assert_string_equal(c->symbols[n], k->symbol);
		assert_true(address_eq(&c->tokens[n], &a));
		assert_int_equal(c->decimals[n], k->decimals);
		n++;
	}
	assert_int_equal(c->token_count, n);
}

static void test_presets(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known_chains); i++) {
		struct chain_config c = config_default(known_chains[i]);

		assert_true(config_preset(&c));
		expect_tokens(&c);
		assert_int_equal(c.chain_id, known_chains[i]);
		assert_int_equal(c.finality.tier_count, 1);
		assert_int_equal(c.finality.tiers[0].tag, TAG_FINALIZED);
		assert_int_equal(c.finality.tiers[0].depth, 0);
		assert_int_equal(c.has_genesis, c.chain_id == 1 || c.chain_id == 11155111);
		assert_in_range(c.poll_ms, 1000, 12000);
		assert_true(c.tag_depth_blocks > 0 && c.tag_settle_ms > 0 && c.stale_s * 1000 > 4 * c.poll_ms);
	}
}

static void test_preset_genesis(void **state)
{
	struct chain_config c = config_default(1);
	char text[HASH_TEXT];

	(void)state;
	assert_true(config_preset(&c));
	assert_string_equal(hash_format(&c.genesis, text),
			    "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");
	c = config_default(11155111);
	assert_true(config_preset(&c));
	assert_string_equal(hash_format(&c.genesis, text),
			    "0x25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9");
}

static void test_preset_unknown(void **state)
{
	static const uint64_t ids[] = { 0, 2, 31337, 43114 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct chain_config c = config_default(ids[i]), before = c;

		assert_false(config_preset(&c));
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

/* What the command line said before the chain's id was known stays. */
static void test_preset_over(void **state)
{
	struct chain_config c = config_default(1);
	struct complaint why;

	(void)state;
	assert_true(config_parse_token("USD:0xdac17f958d2ee523a2206206994597c13d831ec7:6", &c, &why));
	c.finality = (struct finality_policy){ .tiers = { { .depth = 9 } }, .tier_count = 1 };
	c.has_genesis = true;
	assert_true(config_preset(&c));
	assert_int_equal(c.token_count, 2);
	assert_string_equal(c.symbols[0], "USD");
	assert_string_equal(c.symbols[1], "USDC");
	assert_int_equal(c.finality.tiers[0].depth, 9);
	assert_true(hash_is_zero(&c.genesis));
}

/* Tokens on the command line. */

static void expect_no_token(struct chain_config *c, const char *text, const char *want)
{
	struct chain_config before = *c;
	struct complaint why;
	char whole_text[512];

	snprintf(whole_text, sizeof(whole_text), "token \"%s\": %s", text, want);
	assert_false(config_parse_token(text, c, &why));
	assert_string_equal(why.text, whole_text);
	assert_memory_equal(c, &before, sizeof(*c));
}

static void test_parse_token(void **state)
{
	struct chain_config c = config_default(1);
	struct complaint why;
	struct address a = checked_address("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48");

	(void)state;
	assert_true(config_parse_token("USDC:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48:6", &c, &why));
	assert_int_equal(c.token_count, 1);
	assert_string_equal(c.symbols[0], "USDC");
	assert_true(address_eq(&c.tokens[0], &a));
	assert_int_equal(c.decimals[0], 6);
	expect_no_token(&c, "USDC", "want SYMBOL:ADDRESS:DECIMALS");
	expect_no_token(&c, "USDC:0x12", "want SYMBOL:ADDRESS:DECIMALS");
	expect_no_token(&c, "A:0x12:6", "address: 2 hex digits, want 40");
	expect_no_token(&c, "A:0xA0B86991c6218b36c1d19D4a2e9Eb0cE3606eB48:6",
			"address: 0xA0B86991c6218b36c1d19D4a2e9Eb0cE3606eB48 does not satisfy its EIP-55 checksum, "
			"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48 would");
	expect_no_token(&c, "A:0xdac17f958d2ee523a2206206994597c13d831ec7:",
			"decimals: \"\", want decimal digits and less than 2^64");
	expect_no_token(&c, "A:0xdac17f958d2ee523a2206206994597c13d831ec7:78", "decimals: 78, want at most 77");
	expect_no_token(&c, "A:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48:6", "address: listed twice");
	expect_no_token(&c, ":0xdac17f958d2ee523a2206206994597c13d831ec7:6", "want SYMBOL:ADDRESS:DECIMALS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_instead_of_preset),
		cmocka_unit_test(test_bad_shape),
		cmocka_unit_test(test_bad_tokens),
		cmocka_unit_test(test_bad_numbers),
		cmocka_unit_test(test_bad_urls),
		cmocka_unit_test(test_bad_file),
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_preset_genesis),
		cmocka_unit_test(test_preset_unknown),
		cmocka_unit_test(test_preset_over),
		cmocka_unit_test(test_parse_token),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
