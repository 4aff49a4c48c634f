/*
 * One hex digit of a recorded block is changed, anywhere that the header hash
 * or the receipts root covers, or two receipts change their transactions: then
 * nothing of that block, and nothing above it, settles or goes to review, and
 * stderr says what did not verify.
 */
#include "tests/replay/harness.h"

#include "common/intent.h"
#include "common/json.h"
#include "common/scan.h"

#include <stdlib.h>
#include <string.h>

#define PLACES 100
#define BLOCKS_MAX 4

/* What can be changed: header fields, then receipt fields, then those of logs. */
static const char *const class_names[] = {
	"hash", "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom",
	"difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce", "baseFeePerGas",
	"withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
	"type", "status", "root", "cumulativeGasUsed", "logsBloom",
	"address", "topics", "data", "transactionHash",
};
enum { HEADER = 0, RECEIPT = 22, LOG = 27, SWAP = 30, CLASSES = 31 };
static_assert(ARRAY_SIZE(class_names) == CLASSES, "a name each");

/* Hex digits in the tape's text. */
struct span {
	size_t at, len;
};

struct spans {
	struct span *at;
	size_t count;
};

struct block {
	char number[24];		/* decimal, as the expected answers name it */
	struct spans of[CLASSES];
};

struct mainnet {
	const char *path;
	struct buf text;
	struct lines lines;
	struct block blocks[BLOCKS_MAX];
	size_t block_count;
	struct buf untouched;		/* the summary as the relayer left it */
	struct buf true_summary;
	struct json_doc *expected;
};

/* Finding the places. */

static int class_of(struct slice name, int from, int to)
{
	while (from < to && !slice_is(name, class_names[from]))
		from++;
	return from < to ? from : -1;
}

/* The digits of a "0x.." value; any other value is passed over. */
static void take_digits(struct mainnet *m, struct scan *s, struct spans *out)
{
	struct slice text;

	if (scan_peek(s) != SCAN_STRING) {
		scan_skip(s, NULL);
		return;
	}
	scan_string(s, &text);
	if (text.len <= 2 || memcmp(text.data, "0x", 2) != 0)
		return;
	out->at = xrealloc(out->at, (out->count + 1) * sizeof(*out->at));
	out->at[out->count++] = (struct span){ (size_t)(text.data - m->text.data) + 2, text.len - 2 };
}

static void take_members(struct mainnet *m, struct scan *s, struct block *b, int from, int to)
{
	struct slice name;

	scan_object(s);
	while (scan_member(s, &name)) {
		int class = class_of(name, from, to);

		if (class < 0)
			scan_skip(s, NULL);
		else if (scan_peek(s) == SCAN_ARRAY)
			for (scan_array(s); scan_element(s);)
				take_digits(m, s, &b->of[class]);
		else
			take_digits(m, s, &b->of[class]);
	}
}

static void take_receipt(struct mainnet *m, struct scan *s, struct block *b)
{
	struct slice name;
	int class;

	scan_object(s);
	while (scan_member(s, &name)) {
		class = slice_is(name, "transactionHash") ? SWAP : class_of(name, RECEIPT, LOG);
		if (slice_is(name, "logs"))
			for (scan_array(s); scan_element(s);)
				take_members(m, s, b, LOG, SWAP);
		else if (class >= 0)
			take_digits(m, s, &b->of[class]);
		else
			scan_skip(s, NULL);
	}
}

static void name_block(struct mainnet *m, struct block *b)
{
	const struct span *number = &b->of[class_of(slice_of_text("number"), HEADER, RECEIPT)].at[0];
	struct slice text = { m->text.data + number->at - 2, number->len + 2 };
	uint64_t height;

	assert_true(quantity_parse_u64(text, &height));
	snprintf(b->number, sizeof(b->number), "%llu", (unsigned long long)height);
}

static void take_block(struct mainnet *m, struct slice line)
{
	struct block *b = &m->blocks[m->block_count++];
	struct scan s = scan_begin(line);
	struct slice name;

	scan_object(&s);
	while (scan_member(&s, &name)) {
		if (slice_is(name, "block"))
			take_members(m, &s, b, HEADER, RECEIPT);
		else
			for (scan_array(&s); scan_element(&s);)
				take_receipt(m, &s, b);
	}
	assert_false(scan_failed(&s));
	name_block(m, b);
}

/* What is expected. */

static bool is_of_the_chain(struct slice line)
{
	return starts_with(line, "{\"block\"") || starts_with(line, "{\"head\"") || starts_with(line, "{\"safe\"") ||
	       starts_with(line, "{\"finalized\"");
}

/* The summary of the tape without its chain. */
static struct buf summary_of_wishes(const struct mainnet *m)
{
	struct buf tape = { 0 }, out;

	for (size_t i = 0; i < m->lines.count; i++) {
		if (is_of_the_chain(m->lines.at[i]))
			continue;
		buf_put(&tape, m->lines.at[i].data, m->lines.at[i].len);
		buf_put_u8(&tape, '\n');
	}
	out = replay_well(buf_slice(&tape), REPLAY_SUMMARY, NULL);
	buf_free(&tape);
	return out;
}

static struct json_doc *read_expected(const char *tape)
{
	char *path = path_sibling(tape, ".expect.json");
	struct buf text = file_read(path);
	struct complaint why;
	struct json_doc *doc = json_open(buf_slice(&text), &why);

	assert_non_null(doc);
	buf_free(&text);
	free(path);
	return doc;
}

static void mainnet_read(struct mainnet *m, const char *path)
{
	*m = (struct mainnet){ .path = path, .text = file_read(path) };
	m->lines = lines_of(buf_slice(&m->text));
	for (size_t i = 0; i < m->lines.count; i++) {
		if (starts_with(m->lines.at[i], "{\"block\""))
			take_block(m, m->lines.at[i]);
	}
	m->untouched = summary_of_wishes(m);
	m->true_summary = replay_well(buf_slice(&m->text), REPLAY_SUMMARY, NULL);
	m->expected = read_expected(path);
}

static void mainnet_free(struct mainnet *m)
{
	for (size_t i = 0; i < m->block_count; i++) {
		for (size_t k = 0; k < CLASSES; k++)
			free(m->blocks[i].of[k].at);
	}
	lines_free(&m->lines);
	buf_free(&m->text);
	buf_free(&m->untouched);
	buf_free(&m->true_summary);
	json_close(m->expected);
}

/* Tampering. */

struct tampering {
	size_t block;
	int class;
	size_t at, other;		/* in the text; the other receipt's hash of a swap */
	char was;
	size_t went_on_below, went_on_above;	/* intents of the other blocks that went their true way */
};

/* Another digit, so another value: no letter is only raised. */
static char other_digit(char was, struct chance *chance)
{
	static const char digits[] = "0123456789abcdef";
	size_t value = (size_t)(strchr(digits, was >= 'A' && was <= 'F' ? was - 'A' + 'a' : was) - digits);

	return digits[(value + 1 + chance_below(chance, 15)) % 16];
}

static void change_digit(struct mainnet *m, struct tampering *t, struct chance *chance)
{
	const struct spans *spans = &m->blocks[t->block].of[t->class];
	const struct span *span = &spans->at[chance_below(chance, spans->count)];

	t->at = span->at + chance_below(chance, span->len);
	t->was = (char)m->text.data[t->at];
	m->text.data[t->at] = (uint8_t)other_digit(t->was, chance);
}

static void swap_hashes(struct mainnet *m, const struct tampering *t)
{
	uint8_t kept[64];

	memcpy(kept, m->text.data + t->at, sizeof(kept));
	memcpy(m->text.data + t->at, m->text.data + t->other, sizeof(kept));
	memcpy(m->text.data + t->other, kept, sizeof(kept));
}

static void choose_swap(struct mainnet *m, struct tampering *t, struct chance *chance)
{
	const struct spans *spans = &m->blocks[t->block].of[SWAP];
	size_t a = chance_below(chance, spans->count);
	size_t b = (a + 1 + chance_below(chance, spans->count - 1)) % spans->count;

	t->at = spans->at[a].at;
	t->other = spans->at[b].at;
	swap_hashes(m, t);
}

static void tamper(struct mainnet *m, struct tampering *t, struct chance *chance)
{
	if (t->class == SWAP)
		choose_swap(m, t, chance);
	else
		change_digit(m, t, chance);
}

static void mend(struct mainnet *m, const struct tampering *t)
{
	if (t->class == SWAP)
		swap_hashes(m, t);
	else
		m->text.data[t->at] = (uint8_t)t->was;
}

/* Judging. */

static void fail_tampered(const struct mainnet *m, const struct tampering *t, const char *what, const struct ran *r)
{
	fail_msg("%s, block %s, %s%s, byte %zu: %s\nstdout: %s\nstderr: %s", m->path, m->blocks[t->block].number,
		 t->class < RECEIPT ? "header " : t->class < LOG ? "receipt " : t->class < SWAP ? "log " : "swap of ",
		 class_names[t->class], t->at, what, (const char *)r->out.data, (const char *)r->err.data);
}

/* The place in the tape of the intent's block; -1: it is in none. */
static int block_of(const struct mainnet *m, struct slice line)
{
	const uint8_t *stop = memchr(line.data, ' ', line.len);
	char id[INTENT_ID_MAX], number[24];
	struct json at;

	snprintf(id, sizeof(id), "%.*s", (int)(stop - line.data), (const char *)line.data);
	at = json_maybe(json_member(json_root(m->expected), id), "block");
	if (!at.value)
		return -1;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)json_u64(at));
	for (size_t i = 0; i < m->block_count; i++) {
		if (strcmp(number, m->blocks[i].number) == 0)
			return (int)i;
	}
	return -1;
}

/*
 * Whether an intent may have gone its true way: it is in a block below, and the
 * tampered one's header still links that to the tag; or the tampered one is the tape's first
 * and not even known as a head, so that the replay starts above it.
 */
static bool may_go_on(const struct mainnet *m, const struct tampering *t, struct slice line)
{
	int tampered = (int)t->block, block = block_of(m, line);
	bool header_is_sound = t->class >= RECEIPT;

	if (block < 0 || block == tampered)
		return false;
	return block < tampered ? header_is_sound : tampered == 0 && !header_is_sound;
}

static bool same(struct slice a, struct slice b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Each intent is as the relayer left it, or went its true way where it may. */
static void judge_summary(const struct mainnet *m, struct tampering *t, const struct ran *r)
{
	struct lines got = lines_of(buf_slice(&r->out)), left = lines_of(buf_slice(&m->untouched));
	struct lines truth = lines_of(buf_slice(&m->true_summary));

	if (got.count != left.count)
		fail_tampered(m, t, "intents are missing", r);
	for (size_t i = 0; i < got.count; i++) {
		if (same(got.at[i], left.at[i]))
			continue;
		if (!may_go_on(m, t, got.at[i]) || !same(got.at[i], truth.at[i]))
			fail_tampered(m, t, "an intent moved", r);
		if (block_of(m, got.at[i]) < (int)t->block)
			t->went_on_below++;
		else
			t->went_on_above++;
	}
	lines_free(&got);
	lines_free(&left);
	lines_free(&truth);
}

static void judge_stderr(const struct mainnet *m, const struct tampering *t, const struct ran *r)
{
	struct lines said = lines_of(buf_slice(&r->err));
	bool found = false;

	for (size_t i = 0; i < said.count; i++)
		found |= starts_with(said.at[i], "odd:") &&
			 (has_text(said.at[i], "why=") || has_text(said.at[i], "block="));
	lines_free(&said);
	if (!found)
		fail_tampered(m, t, "stderr does not say what did not verify", r);
}

static void try_place(struct mainnet *m, struct tampering *t, struct chance *chance)
{
	struct ran r;

	tamper(m, t, chance);
	r = replay_here(buf_slice(&m->text), REPLAY_SUMMARY, NULL);
	if (r.code)
		fail_tampered(m, t, "the replay failed", &r);
	judge_summary(m, t, &r);
	judge_stderr(m, t, &r);
	ran_free(&r);
	mend(m, t);
}

/* Classes take turns, so that a short field is tried as often as a long one. */
static void next_class(const struct mainnet *m, struct tampering *t)
{
	size_t need;

	do {
		if (++t->class == CLASSES) {
			t->class = 0;
			t->block = (t->block + 1) % m->block_count;
		}
		need = t->class == SWAP ? 2 : 1;
	} while (m->blocks[t->block].of[t->class].count < need);
}

static void print_tries(const size_t tries[CLASSES])
{
	for (int i = 0; i < CLASSES; i++)
		printf("%s%s %zu%s", i == HEADER ? "header: " : i == RECEIPT ? "receipts: " : i == LOG ? "logs: " :
		       i == SWAP ? "swapped: " : "", class_names[i], tries[i],
		       i == RECEIPT - 1 || i == LOG - 1 || i == SWAP - 1 || i == SWAP ? "\n" : ", ");
}

static void test_a_tampered_block_settles_nothing(void **state)
{
	struct paths tapes = mainnet_tapes();
	uint64_t places = env_number("TIDEMARK_TAMPER_PLACES", PLACES);
	size_t tries[CLASSES] = { 0 }, total = 0, below = 0, above = 0;

	(void)state;
	stores_in_memory();
	for (size_t i = 0; i < tapes.count; i++) {
		struct tampering t = { .class = -1 };
		struct chance chance = { i };
		struct mainnet m;

		mainnet_read(&m, tapes.at[i]);
		for (uint64_t n = 0; n < places; n++, total++) {
			next_class(&m, &t);
			try_place(&m, &t, &chance);
			tries[t.class]++;
		}
		below += t.went_on_below;
		above += t.went_on_above;
		mainnet_free(&m);
	}
	print_tries(tries);
	printf("%zu places in %zu tapes; of the sound block below %zu intents went on, of that above %zu\n",
	       total, tapes.count, below, above);
	paths_free(&tapes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tampered_block_settles_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
