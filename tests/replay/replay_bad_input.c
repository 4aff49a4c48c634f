/*
 * Bad tapes: each is refused with exit code 1 and one line on stderr that names
 * file, line and reason.  What stood before the bad line is done, printed and
 * in the store; nothing else is; and the mended tape goes on from there as if
 * nothing had been wrong.
 */
#include "tests/replay/harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#define BASE "fixtures/paid.tape"

/* The line that is changed, or after which one is inserted. */
enum where {
	FIRST,
	INTENT,
	SETTLING,		/* the move to it: the intent is there */
	CONFIRMING,
	BLOCK,
	HEAD,
	FINALIZED,
	PLACES,
};

static const char *const beginnings[PLACES] = {
	[FIRST] = "{\"tape\"",
	[INTENT] = "{\"intent\"",
	[SETTLING] = "{\"transition\":{\"intent\":\"pi_1\",\"to\":\"settling\"",
	[CONFIRMING] = "{\"transition\":{\"intent\":\"pi_1\",\"to\":\"confirming\"",
	[BLOCK] = "{\"block\"",
	[HEAD] = "{\"head\"",
	[FINALIZED] = "{\"finalized\"",
};

#define CUT 0x100		/* the tape ends with the bad text, which has no line end */
#define TIMELESS 0x200		/* the first line has no time, so that lines wait for a block */
#define PLACE_MASK 0xff

/*
 * Without @find, @put is inserted behind the place; with an empty one it takes
 * the place of the whole line; else of the first @find in the line.  A '~' stands for NUL.
 */
struct bad {
	const char *name;
	unsigned where;
	const char *find, *put;
	const char *reason;
};

#define USDC "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
#define HASH "0x1111111111111111111111111111111111111111111111111111111111111111"
#define PAYEE "\"payee\":\"0xf74f6c14f8a5b404b26a9082bbaffd77a3a90ea6\""
#define AMOUNT "\"amount\":\"5000000\""
#define FINALITY "{\"tag\":\"finalized\"}"
#define SECOND(id, key, payee, amount) \
	"{\"intent\":{\"id\":\"" id "\",\"merchant_id\":\"m_1\",\"idempotency_key\":\"" key "\",\"chain_id\":1," \
	"\"token\":\"" USDC "\",\"payer\":\"0x5dad7600c5d89fe3824ffa99ec1c3eb8bf3b0501\",\"payee\":\"" payee "\"," \
	"\"amount\":\"" amount "\",\"watch\":\"tx\",\"expires_at\":null}}"
#define SHOP "0xf74f6c14f8a5b404b26a9082bbaffd77a3a90ea6"
#define OTHER "0x09c2e3988b31b382a4bca3defb40fe90fd6dc5ae"
#define TRANSITION(id, to, actor) "{\"transition\":{\"intent\":\"" id "\",\"to\":\"" to "\",\"actor\":\"" actor "\"}}"
#define ATTEMPT(id, hash) "{\"attempt\":{\"intent\":\"" id "\",\"tx_hash\":\"" hash "\",\"sender\":null,\"nonce\":null}}"
#define TEN "1111111111"

static const struct bad bad[] = {
	/* lines */
	{ "cut in a head", HEAD | CUT, "\"}", "", "premature end of input" },
	{ "cut in a block", BLOCK | CUT, "\"receipts\"", "\"rec", "string" },
	{ "cut in a number", BLOCK | CUT, "\"receipts\":", "\"receipts\":", "the text ends where a value should be" },
	{ "not JSON", INTENT, NULL, "settle pi_1 please", "column" },
	{ "two values in a line", INTENT, NULL, "{} {}", "end of file expected" },
	{ "an array", INTENT, NULL, "[1]", "want an object" },
	{ "blank lines are counted", INTENT, NULL, "\n \t\r\n\nnot JSON", "column" },
	{ "a NUL in a string", INTENT, NULL, "{\"head\":\"~\"}", "NUL" },
	{ "a NUL in a block", HEAD, NULL, "{\"block\":~{},\"receipts\":[]}", "no JSON value" },
	{ "no UTF-8", INTENT, NULL, "{\"head\":\"\xff\xfe\"}", "unable to decode byte 0xff" },
	{ "an escaped line end in a name", INTENT, NULL, "{\"a\\nb\\u001b[2J\":1}", "unknown record" },
	{ "a name twice", INTENT, AMOUNT, AMOUNT "," AMOUNT, "duplicate object key" },
	{ "a number beyond 64 bits", INTENT, "\"chain_id\":1", "\"chain_id\":99999999999999999999", "too big integer" },
	/* records */
	{ "no first line", FIRST, "", "", "the first line of a tape is" },
	{ "a second first line", INTENT, NULL,
	  "{\"tape\":1,\"chain_id\":1,\"tokens\":[],\"finality\":" FINALITY "}", "a second first line" },
	{ "version 2", FIRST, "\"tape\":1", "\"tape\":2", "version 2, this program reads 1" },
	{ "a version of text", FIRST, "\"tape\":1", "\"tape\":\"one\"", "tape: " },
	{ "an unknown record", HEAD, NULL, "{\"heads\":\"" HASH "\"}", "unknown record \"heads\"" },
	{ "an empty record", HEAD, NULL, "{}", "unknown record" },
	{ "two members", HEAD, "{", "{\"clock\":\"2027-01-01T00:00:00Z\",", "a record has one member" },
	{ "a member beside the block", BLOCK, "\"receipts\"", "\"note\":1,\"receipts\"", "unknown member \"note\"" },
	{ "a member of null", HEAD, NULL, "{\"head\":null}", "head: " },
	/* the first line */
	{ "no chain", FIRST, "\"chain_id\":1,", "", "chain_id: missing" },
	{ "no tokens", FIRST, "\"tokens\"", "\"coins\"", "coins: not a known member" },
	{ "a token twice", FIRST, "\"decimals\":6}",
	  "\"decimals\":6},{\"symbol\":\"B\",\"address\":\"" USDC "\",\"decimals\":6}", "listed twice" },
	{ "decimals of 78", FIRST, "\"decimals\":6", "\"decimals\":78", "tokens[0].decimals: 78" },
	{ "a long symbol", FIRST, "\"USDC\"", "\"USDCUSDCUSDCUSDCUSDC\"", "tokens[0].symbol" },
	{ "safe alone", FIRST, FINALITY, "{\"tag\":\"safe\"}", "finality: safe alone is not final" },
	{ "depth 0", FIRST, FINALITY, "{\"depth\":0}", "finality.depth: a depth is at least 1" },
	{ "no finality", FIRST, FINALITY, "{}", "finality: want a tag, a depth or both" },
	{ "an unknown tag", FIRST, FINALITY, "{\"tag\":\"latest\"}", "finality.tag: \"latest\" is no tag" },
	{ "tiers without end", FIRST, FINALITY, "{\"tiers\":[{\"up_to\":\"5\",\"depth\":1}]}", "the last tier takes any amount" },
	{ "tiers that fall", FIRST, FINALITY,
	  "{\"tiers\":[{\"up_to\":\"5\",\"depth\":1},{\"up_to\":\"4\",\"depth\":2},{\"tag\":\"finalized\"}]}",
	  "finality.tiers[1]: up_to must rise" },
	{ "no tiers", FIRST, FINALITY, "{\"tiers\":[]}", "finality.tiers: 0 tiers" },
	{ "an unknown witness policy", FIRST, "\"time\"", "\"witness\":\"maybe\",\"time\"", "witness: \"maybe\"" },
	{ "a bad start of the clock", FIRST, "2026-01-01T", "2026-13-01T", "time: \"2026-13-01" },
	/* intents */
	{ "an unknown member", INTENT, "\"watch\"", "\"tip\":1,\"watch\"", "intent.tip: not a known member" },
	{ "another chain", INTENT, "\"chain_id\":1", "\"chain_id\":137", "chain_id: chain 137 is not configured" },
	{ "a negative chain", INTENT, "\"chain_id\":1", "\"chain_id\":-1", "intent.chain_id: -1" },
	{ "a chain of text", INTENT, "\"chain_id\":1", "\"chain_id\":\"one\"", "intent.chain_id: \"one\"" },
	{ "a chain with a point", INTENT, "\"chain_id\":1", "\"chain_id\":1.0", "intent.chain_id: " },
	{ "amount -1", INTENT, AMOUNT, "\"amount\":\"-1\"", "intent.amount: \"-1\"" },
	{ "amount 1.5", INTENT, AMOUNT, "\"amount\":\"1.5\"", "intent.amount: \"1.5\"" },
	{ "amount 1e18", INTENT, AMOUNT, "\"amount\":\"1e18\"", "intent.amount: \"1e18\"" },
	{ "amount of nothing", INTENT, AMOUNT, "\"amount\":\"\"", "intent.amount: \"\"" },
	{ "amount with a space", INTENT, AMOUNT, "\"amount\":\" 5\"", "intent.amount: \" 5\"" },
	{ "amount in hex", INTENT, AMOUNT, "\"amount\":\"0x5\"", "intent.amount: \"0x5\"" },
	{ "amount as a number", INTENT, AMOUNT, "\"amount\":5", "intent.amount: a number, want decimal digits in quotes" },
	{ "amount 2^256", INTENT, AMOUNT,
	  "\"amount\":\"115792089237316195423570985008687907853269984665640564039457584007913129639936\"",
	  "is more than 2^256-1" },
	{ "amount 0", INTENT, AMOUNT, "\"amount\":\"0\"", "amount: 0, want at least 1" },
	{ "a payee of 39 digits", INTENT, PAYEE, "\"payee\":\"0xf74f6c14f8a5b404b26a9082bbaffd77a3a90ea\"",
	  "intent.payee: 39 hex digits, want 40" },
	{ "a payee of 41 digits", INTENT, PAYEE, "\"payee\":\"0xf74f6c14f8a5b404b26a9082bbaffd77a3a90ea66\"",
	  "intent.payee: 41 hex digits, want 40" },
	{ "a payee with 0X", INTENT, PAYEE, "\"payee\":\"0Xf74f6c14f8a5b404b26a9082bbaffd77a3a90ea6\"",
	  "want 0x and hex digits" },
	{ "a payee with a g", INTENT, PAYEE, "\"payee\":\"0xg74f6c14f8a5b404b26a9082bbaffd77a3a90ea6\"",
	  "not all hex digits" },
	{ "a payee of another checksum", INTENT, PAYEE, "\"payee\":\"0xF74f6c14f8a5b404b26a9082bbaffd77a3a90eA6\"",
	  "does not satisfy its EIP-55 checksum" },
	{ "payee zero", INTENT, PAYEE, "\"payee\":\"0x0000000000000000000000000000000000000000\"", "payee: the zero address" },
	{ "payee is the token", INTENT, PAYEE, "\"payee\":\"" USDC "\"", "payee: the token's own contract" },
	{ "payee is the payer", INTENT, PAYEE, "\"payee\":\"0x5dad7600c5d89fe3824ffa99ec1c3eb8bf3b0501\"",
	  "payer: the same as the payee" },
	{ "a token not configured", INTENT, "\"token\":\"" USDC "\"",
	  "\"token\":\"0xdac17f958d2ee523a2206206994597c13d831ec7\"", "token: 0xdac17f958d2ee523a2206206994597c13d831ec7" },
	{ "an id of 65 letters", INTENT, "\"pi_1\"",
	  "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "intent.id: want 1 to 64" },
	{ "an id with a space", INTENT, "\"pi_1\"", "\"pi 1\"", "intent.id: want 1 to 64" },
	{ "an unknown way to watch", INTENT, "\"watch\":\"tx\"", "\"watch\":\"all\"", "intent.watch: want tx or route" },
	{ "a bad expiry", INTENT, "\"expires_at\":null", "\"expires_at\":\"soon\"", "intent.expires_at: \"soon\"" },
	{ "an expiry as a number", INTENT, "\"expires_at\":null", "\"expires_at\":1767225600", "intent.expires_at: a number" },
	{ "a key again with another amount", SETTLING, NULL, SECOND("pi_1", "pi_1", SHOP, "5000001"), "amount" },
	{ "a key again with another id", SETTLING, NULL, SECOND("pi_2", "pi_1", SHOP, "5000000"), "id" },
	{ "an id again with another payee", SETTLING, NULL, SECOND("pi_1", "pi_1", OTHER, "5000000"), "payee" },
	/* moves and attempts */
	{ "a move by the listener", SETTLING, NULL, TRANSITION("pi_1", "settled", "listener"),
	  "transition.actor: the listener's moves" },
	{ "a move to nowhere", SETTLING, NULL, TRANSITION("pi_1", "paid", "relayer"), "transition.to: \"paid\" is no state" },
	{ "a move by nobody", SETTLING, NULL, TRANSITION("pi_1", "confirming", "me"), "transition.actor: \"me\" is no actor" },
	{ "a move of an unknown intent", SETTLING, NULL, TRANSITION("pi_9", "settling", "relayer"), "intent: pi_9 is not known" },
	{ "an attempt of 65 digits", SETTLING, NULL, ATTEMPT("pi_1", HASH "1"), "attempt.tx_hash: 65 hex digits, want 64" },
	{ "an attempt of an unknown intent", SETTLING, NULL, ATTEMPT("pi_9", HASH), "intent: pi_9 is not known" },
	{ "a nonce below zero", SETTLING, NULL,
	  "{\"attempt\":{\"intent\":\"pi_1\",\"tx_hash\":\"" HASH "\",\"nonce\":-7}}", "attempt.nonce: -7" },
	/* blocks */
	{ "a block without receipts", BLOCK, "\"receipts\":", "\"recipes\":", "unknown member \"recipes\"" },
	{ "a block alone", HEAD, NULL, "{\"block\":{\"hash\":\"" HASH "\"}}", "a block comes with its receipts" },
	{ "receipts alone", HEAD, NULL, "{\"receipts\":[]}", "a block comes with its receipts" },
	{ "receipts of null", BLOCK, "\"receipts\":[", "\"receipts\":null,\"x\":[", "unknown member \"x\"" },
	{ "receipts as an object", HEAD, NULL,
	  "{\"block\":{\"hash\":\"" HASH "\",\"parentHash\":\"" HASH "\",\"number\":\"0x1\",\"timestamp\":\"0x1\"},\"receipts\":{}}",
	  "receipts: want an array" },
	{ "a block of text", HEAD, NULL, "{\"block\":\"" HASH "\",\"receipts\":[]}", "block: not an object" },
	{ "a block hash of 63 digits", BLOCK, "\"hash\":\"0x", "\"hash\":\"0x" TEN TEN TEN TEN TEN TEN "111\",\"was\":\"0x",
	  "block.hash: want 0x and 64 hex digits" },
	{ "a block without a number", BLOCK, "\"number\"", "\"height\"", "block.number: missing" },
	{ "a block without a time", BLOCK, "\"timestamp\"", "\"time\"", "block.timestamp: missing" },
	{ "a block without a parent", BLOCK, "\"parentHash\"", "\"parent\"", "block.parentHash: missing" },
	{ "a block of a far time", BLOCK, "\"timestamp\":\"0x", "\"timestamp\":\"0xffffffff", "block.timestamp: want 0x" },
	{ "a block number of null", BLOCK, "\"number\":\"0x64\"", "\"number\":null", "block.number: want 0x" },
	{ "a block number as a number", BLOCK, "\"number\":\"0x64\"", "\"number\":100", "block.number: want 0x" },
	{ "a block of two hashes", BLOCK, "\"hash\"", "\"hash\":\"" HASH "\",\"hash\"", "block.hash: twice" },
	/* the rest */
	{ "a balance of text", HEAD, NULL,
	  "{\"balance\":{\"token\":\"" USDC "\",\"account\":\"" SHOP "\",\"block\":\"" HASH "\",\"value\":\"many\"}}",
	  "balance.value: \"many\"" },
	{ "a balance of 65 digits", HEAD, NULL,
	  "{\"balance\":{\"token\":\"" USDC "\",\"account\":\"" SHOP "\",\"block\":\"" HASH "\",\"value\":\"" HASH "1\"}}",
	  "balance.value" },
	{ "a head of 63 digits", HEAD, NULL, "{\"head\":\"0x" TEN TEN TEN TEN TEN TEN "111\"}", "head: 63 hex digits, want 64" },
	{ "a head as a number", HEAD, NULL, "{\"head\":1}", "head: a number" },
	{ "a bad clock", HEAD, NULL, "{\"clock\":\"noon\"}", "clock: \"noon\"" },
	{ "the 30th of February", HEAD, NULL, "{\"clock\":\"2026-02-30T00:00:00Z\"}", "clock: \"2026-02-30" },
	{ "a clock that goes back", HEAD, NULL, "{\"clock\":\"2025-12-31T23:59:59Z\"}", "clock: time does not go back" },
	{ "an unknown answer of a fault", HEAD, NULL,
	  "{\"fault\":{\"method\":\"eth_getBlockReceipts\",\"answer\":\"lies\",\"times\":1}}", "fault.answer: want null, empty" },
	{ "a fault without a method", HEAD, NULL, "{\"fault\":{\"answer\":\"null\"}}", "fault.method: missing" },
	{ "an accepted branch of 63 digits", FINALIZED, NULL, "{\"accept\":\"0x" TEN TEN TEN TEN TEN TEN "111\"}",
	  "accept: 63 hex digits" },
	/* while lines wait for the clock */
	{ "no JSON before the clock", SETTLING | TIMELESS, NULL, "settle pi_1", "column" },
	{ "blank lines before the clock", INTENT | TIMELESS, NULL, "\n\n\nsettle pi_1", "column" },
	{ "an unknown intent before the clock", SETTLING | TIMELESS, NULL, TRANSITION("pi_9", "settling", "relayer"),
	  "intent: pi_9 is not known" },
	{ "cut before the clock", CONFIRMING | TIMELESS | CUT, "\"actor\"", "\"ac", "premature end of input" },
	{ "a bad first block", BLOCK | TIMELESS, "\"timestamp\"", "\"time\"", "block.timestamp: missing" },
};

/* Making the tape. */

static void put_edited(struct buf *out, struct slice line, const char *find, const char *put)
{
	size_t at = 0, len = strlen(find);

	while (at + len <= line.len && memcmp(line.data + at, find, len) != 0)
		at++;
	if (at + len > line.len)
		fail_msg("%s: \"%s\" is not in the line", BASE, find);
	buf_put(out, line.data, at);
	buf_put_text(out, put);
	buf_put(out, line.data + at + len, line.len - at - len);
}

/* The whole base, or that without its time. */
static struct buf read_base(bool timeless)
{
	struct buf text = file_read(BASE), out = { 0 };

	if (!timeless)
		return text;
	put_edited(&out, buf_slice(&text), "\"time\":\"2026-01-01T00:00:00.000Z\",", "");
	buf_free(&text);
	return out;
}

static size_t find_place(const struct lines *l, unsigned where)
{
	size_t i = 0;

	while (i < l->count && !starts_with(l->at[i], beginnings[where]))
		i++;
	if (i == l->count)
		fail_msg("%s has no line that begins with %s", BASE, beginnings[where]);
	return i;
}

/* What a cut leaves of an edited line is what stands before the edit's end. */
static void put_cut(struct buf *out, struct slice line, const struct bad *b)
{
	struct buf edited = { 0 };
	const char *stop;

	put_edited(&edited, line, b->find, "\1");
	buf_put_u8(&edited, 0);
	stop = strchr((const char *)edited.data, '\1');
	buf_put(out, edited.data, (size_t)(stop - (const char *)edited.data));
	buf_put_text(out, b->put);
	buf_free(&edited);
}

static void put_nuls(struct buf *text, size_t from)
{
	for (size_t i = from; i < text->len; i++) {
		if (text->data[i] == '~')
			text->data[i] = 0;
	}
}

static void put_bad_line(struct buf *out, struct slice line, const struct bad *b)
{
	size_t from = out->len;

	if (b->where & CUT)
		put_cut(out, line, b);
	else if (b->find && b->find[0])
		put_edited(out, line, b->find, b->put);
	else
		buf_put_text(out, b->put);
	put_nuls(out, from);
	if (!(b->where & CUT))
		buf_put_u8(out, '\n');
}

struct bad_tape {
	struct buf text;
	size_t line;			/* that is bad, from 1 */
	struct buf before;		/* the lines above it */
	struct buf base;
};

/* A first line that is missing makes the second one bad. */
static size_t count_bad_line(const struct bad *b, size_t kept)
{
	size_t breaks = 0;

	for (const char *p = b->put; *p; p++)
		breaks += *p == '\n';
	return kept + 1 + breaks + (b->find && !b->find[0] && !b->put[0] ? 1 : 0);
}

static struct bad_tape make_bad(const struct bad *b)
{
	struct bad_tape t = { .base = read_base(b->where & TIMELESS) };
	struct lines l = lines_of(buf_slice(&t.base));
	size_t place = find_place(&l, b->where & PLACE_MASK);
	size_t kept = place + (b->find ? 0 : 1);
	struct buf rest = lines_join(&l, place + 1, b->where & CUT ? place + 1 : l.count);

	t.before = lines_join(&l, 0, kept);
	buf_put(&t.text, t.before.data, t.before.len);
	put_bad_line(&t.text, l.at[place], b);
	buf_put(&t.text, rest.data, rest.len);
	t.line = count_bad_line(b, kept);
	buf_free(&rest);
	lines_free(&l);
	return t;
}

static void bad_tape_free(struct bad_tape *t)
{
	buf_free(&t->text);
	buf_free(&t->before);
	buf_free(&t->base);
}

/* Judging. */

static void fail_case(const char *name, const char *what, const struct ran *r)
{
	fail_msg("%s: %s\nexit code %d\nstdout: %s\nstderr: %s", name, what, r->code, (const char *)r->out.data,
		 (const char *)r->err.data);
}

static bool is_one_printable_line(const struct buf *text)
{
	for (size_t i = 0; i + 1 < text->len; i++) {
		if (text->data[i] < ' ' || text->data[i] == 0x7f)
			return false;
	}
	return text->len && text->data[text->len - 1] == '\n';
}

/* One line "tidemark: WHERE: ...", with the reason in it, and exit code 1; without @where, anywhere. */
static void check_refusal(const char *name, const struct ran *r, const char *where, const char *reason)
{
	struct buf start = { 0 };

	buf_printf(&start, "tidemark: %s%s", where ? where : "", where ? ": " : "");
	if (r->code != EXIT_FAILURE)
		fail_case(name, "exit code 1 was expected", r);
	if (!is_one_printable_line(&r->err))
		fail_case(name, "stderr is not one printable line", r);
	if (!starts_with(buf_slice(&r->err), (const char *)start.data))
		fail_case(name, (const char *)start.data, r);
	if (!has_text(buf_slice(&r->err), reason))
		fail_case(name, reason, r);
	buf_free(&start);
}

static struct ran run_onto(const char *store, const char *tape)
{
	const char *const argv[] = { "replay", "--store", store, tape, NULL };

	return child_run(argv, (struct slice){ 0 });
}

/*
 * What the lines before the bad one make is printed and in the store, and
 * nothing else.  Lines that wait for the clock make it only once it runs.
 */
static void check_what_is_done(const struct bad *b, const struct bad_tape *t, const struct ran *r, const char *store)
{
	bool timeless = b->where & TIMELESS;
	const struct buf *from = timeless ? &t->base : &t->before;
	struct buf events = store_events(store), want = { 0 };

	if (from->len)
		want = replay_well(buf_slice(from), REPLAY_EVENTS, NULL);
	if (timeless && events.len < want.len)
		want.len = events.len;
	assert_same_text(b->name, buf_slice(&events), buf_slice(&want));
	assert_same_text(b->name, buf_slice(&r->out), buf_slice(&events));
	buf_free(&events);
	buf_free(&want);
}

/* The sound tape onto the same store gives what it gives alone. */
static void check_that_it_goes_on(const struct bad *b, const struct bad_tape *t, const char *store)
{
	char *fresh = folder_new();
	struct buf again = replay_well(buf_slice(&t->base), REPLAY_EVENTS, store);
	struct buf alone = replay_well(buf_slice(&t->base), REPLAY_EVENTS, fresh);
	struct buf got = store_events(store), want = store_events(fresh);
	struct buf got_rows = store_rows(store), want_rows = store_rows(fresh);

	assert_same_text(b->name, buf_slice(&got), buf_slice(&want));
	assert_same_text(b->name, buf_slice(&got_rows), buf_slice(&want_rows));
	buf_free(&again);
	buf_free(&alone);
	buf_free(&got);
	buf_free(&want);
	buf_free(&got_rows);
	buf_free(&want_rows);
	folder_remove(fresh);
}

/* A second run of the bad tape refuses it again and changes nothing. */
static void check_again(const struct bad *b, const char *where, const char *store, const char *tape)
{
	struct buf before = store_rows(store);
	struct ran r = run_onto(store, tape);
	struct buf after = store_rows(store);

	check_refusal(b->name, &r, where, b->reason);
	if (r.out.len)
		fail_case(b->name, "a second run prints something", &r);
	assert_same_text(b->name, buf_slice(&after), buf_slice(&before));
	buf_free(&before);
	buf_free(&after);
	ran_free(&r);
}

static void check_case(const struct bad *b)
{
	char *folder = folder_new(), *store = folder_new(), *tape = path_of(folder, "bad.tape"), where[256];
	struct bad_tape t = make_bad(b);
	struct ran r;

	file_write(tape, buf_slice(&t.text));
	snprintf(where, sizeof(where), "%s:%zu", tape, t.line);
	r = run_onto(store, tape);
	check_refusal(b->name, &r, where, b->reason);
	check_what_is_done(b, &t, &r, store);
	check_again(b, where, store, tape);
	check_that_it_goes_on(b, &t, store);
	ran_free(&r);
	bad_tape_free(&t);
	free(tape);
	folder_remove(folder);
	folder_remove(store);
}

static void test_a_bad_line(void **state)
{
	check_case(*state);
}

/* A block told twice needs the block's own text. */

static void test_a_block_told_twice(void **state)
{
	struct buf base = read_base(false), again = { 0 };
	struct lines l = lines_of(buf_slice(&base));
	struct bad b = { "a block told twice with other receipts", HEAD, NULL, NULL, "another list of receipts" };
	size_t block = find_place(&l, BLOCK);

	(void)state;
	put_edited(&again, l.at[block], "\"receipts\":[", "\"receipts\":[ ");
	buf_put_u8(&again, 0);
	b.put = (const char *)again.data;
	check_case(&b);
	again.len = 0;
	put_edited(&again, l.at[block], "\"block\":{", "\"block\":{ ");
	buf_put_u8(&again, 0);
	b = (struct bad){ "a block told twice with other content", HEAD, NULL, (const char *)again.data, "another content" };
	check_case(&b);
	buf_free(&again);
	lines_free(&l);
	buf_free(&base);
}

/* Whole files. */

struct whole {
	const char *name;
	const char *text;
	size_t repeat;			/* of the text */
	const char *line;		/* of the complaint; NULL: names none */
	const char *reason;
};

static const struct whole wholes[] = {
	{ "an empty file", "", 0, NULL, "the tape is empty" },
	{ "a file of blank lines", " \n", 100, NULL, "the tape is empty" },
	{ "a file of NULs", "\0", 4096, "1", "NUL" },
	{ "a binary file", "\x7f" "ELF\2\1\1\33[2J\r\7", 1, "1", "column" },
	{ "deep nesting", "[", 100000, "1", "depth" },
	{ "deep nesting in a block", "{\"block\":", 100000, "1", "too deep" },
	{ "one long string", "aaaaaaaa", 100000, "1", "column" },
};

static void test_a_bad_file(void **state)
{
	const struct whole *w = *state;
	char *folder = folder_new(), *store = folder_new(), *tape = path_of(folder, "whole.tape"), where[256];
	struct buf text = { 0 }, events;
	struct ran r;

	for (size_t i = 0; i < w->repeat; i++)
		buf_put(&text, w->text, w->text[0] ? strlen(w->text) : 1);
	file_write(tape, buf_slice(&text));
	snprintf(where, sizeof(where), "%s%s%s", tape, w->line ? ":" : "", w->line ? w->line : "");
	r = run_onto(store, tape);
	check_refusal(w->name, &r, where, w->reason);
	events = store_events(store);
	assert_int_equal(events.len, 0);
	assert_int_equal(r.out.len, 0);
	buf_free(&events);
	buf_free(&text);
	ran_free(&r);
	free(tape);
	folder_remove(folder);
	folder_remove(store);
}

#define LONG_BYTES ((off_t)100 << 20)
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED)
#define LONG_RSS_KB (400 << 10)	/* shadow, and what was freed is kept for a while */
#else
#define LONG_RSS_KB (100 << 10)
#endif

/* A hole reads as NULs: the line's length is what is refused. */
static void test_a_line_of_100_mb_is_not_read_whole(void **state)
{
	char *folder = folder_new(), *store = folder_new(), *tape = path_of(folder, "long.tape"), where[256];
	struct buf base = read_base(false);
	struct lines l = lines_of(buf_slice(&base));
	struct buf start = lines_join(&l, 0, 2);
	struct ran r;

	(void)state;
	file_write(tape, buf_slice(&start));
	assert_int_equal(truncate(tape, LONG_BYTES), 0);
	snprintf(where, sizeof(where), "%s:3", tape);
	r = run_onto(store, tape);
	check_refusal("a line of 100 MB", &r, where, "longer than 67108864 bytes");
	assert_int_equal(count_lines(buf_slice(&r.out)), 1);
	printf("a line of 100 MB was refused in %ld MB\n", r.rss_kb >> 10);
	assert_true(r.rss_kb < LONG_RSS_KB);
	buf_free(&start);
	lines_free(&l);
	buf_free(&base);
	ran_free(&r);
	free(tape);
	folder_remove(folder);
	folder_remove(store);
}

/* The limit holds to the byte, wherever the reads are cut. */
static void test_a_line_is_as_long_as_the_limit_at_most(void **state)
{
	struct replay_options options = { .output = REPLAY_EVENTS };
	struct buf base = read_base(false);
	struct lines l = lines_of(buf_slice(&base));
	struct ran r;

	(void)state;
	for (size_t i = 0; i < l.count; i++) {
		if (l.at[i].len > options.line_max_bytes)
			options.line_max_bytes = l.at[i].len;
	}
	r = replay_with(buf_slice(&base), &options);
	assert_int_equal(r.code, 0);
	ran_free(&r);
	options.line_max_bytes--;
	r = replay_with(buf_slice(&base), &options);
	assert_int_equal(r.code, EXIT_FAILURE);
	assert_true(has_text(buf_slice(&r.err), "the line is longer than"));
	ran_free(&r);
	lines_free(&l);
	buf_free(&base);
}

/* Names that are no tape. */

static void check_no_tape(const char *name, const char *reason)
{
	char *store = folder_new();
	struct ran r = run_onto(store, name);

	check_refusal(name, &r, name, reason);
	assert_int_equal(r.out.len, 0);
	ran_free(&r);
	folder_remove(store);
}

static void test_what_is_no_file_is_named(void **state)
{
	(void)state;
	check_no_tape("fixtures", "Is a directory");
	check_no_tape("fixtures/nothing.tape", "No such file or directory");
	check_no_tape(BASE "/paid.tape", "Not a directory");
}

/* The folder of short-lived stores. */

static struct ran run_with_temp(const char *temp)
{
	const char *const argv[] = { "replay", BASE, NULL };
	const char *was = getenv("TMPDIR");
	char *kept = was ? xstrdup(was) : NULL;
	struct ran r;

	setenv("TMPDIR", temp, true);
	r = child_run(argv, (struct slice){ 0 });
	if (kept)
		setenv("TMPDIR", kept, true);
	else
		unsetenv("TMPDIR");
	free(kept);
	return r;
}

static void test_a_temporary_folder_of_a_long_name_is_used_whole(void **state)
{
	char *folder = folder_new(), *deep = path_of(folder, "a_name_that_is_longer_than_any_line_should_ever_be");
	struct ran r;

	(void)state;
	r = run_with_temp(deep);
	check_refusal("no TMPDIR", &r, NULL, "no temporary folder can be made");
	ran_free(&r);
	assert_int_equal(mkdir(deep, 0700), 0);
	r = run_with_temp(deep);
	assert_int_equal(r.code, 0);
	ran_free(&r);
	assert_int_equal(rmdir(deep), 0);	/* nothing was left in it */
	free(deep);
	folder_remove(folder);
}

/* Stores. */

static void test_two_tapes_do_not_share_a_store(void **state)
{
	char *store = folder_new();
	const char *const argv[] = { "replay", "--store", store, BASE, BASE, NULL };
	struct ran r = child_run(argv, (struct slice){ 0 });

	(void)state;
	assert_int_equal(r.code, 2);
	assert_true(has_text(buf_slice(&r.err), "--store takes exactly one tape"));
	assert_true(is_one_printable_line(&r.err));
	assert_int_equal(r.out.len, 0);
	assert_false(store_is_there(store));
	ran_free(&r);
	folder_remove(store);
}

static void test_another_tapes_store_is_left_alone(void **state)
{
	char *store = folder_new();
	struct ran first = run_onto(store, BASE), second;
	struct buf before = store_rows(store), after;

	(void)state;
	assert_int_equal(first.code, 0);
	second = run_onto(store, "fixtures/verdicts.tape");
	check_refusal("another tape's store", &second, store, "the store is that of another tape than fixtures/verdicts.tape");
	assert_int_equal(second.out.len, 0);
	after = store_rows(store);
	assert_same_text(store, buf_slice(&after), buf_slice(&before));
	buf_free(&before);
	buf_free(&after);
	ran_free(&first);
	ran_free(&second);
	folder_remove(store);
}

static void check_store_name(const char *store, const char *reason)
{
	struct ran r = run_onto(store, BASE);

	if (r.code != EXIT_FAILURE || !is_one_printable_line(&r.err) || r.out.len)
		fail_case(store, "one line and exit code 1 were expected", &r);
	if (!has_text(buf_slice(&r.err), store) || !has_text(buf_slice(&r.err), reason))
		fail_case(store, reason, &r);
	ran_free(&r);
}

static void check_garbage(struct slice garbage, const char *reason)
{
	char *store = folder_new(), *path = path_of(store, "tidemark.mdb");
	struct buf after;

	file_write(path, garbage);
	check_store_name(store, reason);
	after = file_read(path);
	assert_same_text(path, buf_slice(&after), garbage);
	buf_free(&after);
	free(path);
	folder_remove(store);
}

static void test_what_is_no_store_is_left_alone(void **state)
{
	struct buf base = read_base(false);

	(void)state;
	check_store_name(BASE, "Not a directory");
	check_store_name("/nowhere/at/all", "No such file or directory");
	check_garbage(buf_slice(&base), "");
	check_garbage(slice_of_text("garbage"), "");
	buf_free(&base);
}

/* A store that lost its end. */
static void test_a_cut_store_is_refused(void **state)
{
	char *store = folder_new(), *path = path_of(store, "tidemark.mdb");
	struct ran r = run_onto(store, BASE);

	(void)state;
	assert_int_equal(r.code, 0);
	assert_int_equal(truncate(path, 16384), 0);
	check_store_name(store, "cut short");
	ran_free(&r);
	free(path);
	folder_remove(store);
}

/* Each bad line and file is a test of its own. */

#define BADS ARRAY_SIZE(bad)
#define WHOLES ARRAY_SIZE(wholes)
static struct CMUnitTest each[BADS + WHOLES];

static void list_each(void)
{
	for (size_t i = 0; i < BADS; i++)
		each[i] = (struct CMUnitTest){ bad[i].name, test_a_bad_line, NULL, NULL, (void *)(uintptr_t)&bad[i] };
	for (size_t i = 0; i < WHOLES; i++)
		each[BADS + i] = (struct CMUnitTest){ wholes[i].name, test_a_bad_file, NULL, NULL, (void *)(uintptr_t)&wholes[i] };
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_block_told_twice),
		cmocka_unit_test(test_a_line_of_100_mb_is_not_read_whole),
		cmocka_unit_test(test_a_line_is_as_long_as_the_limit_at_most),
		cmocka_unit_test(test_a_temporary_folder_of_a_long_name_is_used_whole),
		cmocka_unit_test(test_what_is_no_file_is_named),
		cmocka_unit_test(test_two_tapes_do_not_share_a_store),
		cmocka_unit_test(test_another_tapes_store_is_left_alone),
		cmocka_unit_test(test_what_is_no_store_is_left_alone),
		cmocka_unit_test(test_a_cut_store_is_refused),
	};
	int failed;

	stores_in_memory();
	list_each();
	failed = cmocka_run_group_tests_name("bad lines and files", each, NULL, NULL);
	return failed + cmocka_run_group_tests_name("bad names and stores", tests, NULL, NULL);
}
