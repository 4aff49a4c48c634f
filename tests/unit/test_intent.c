/*
 * The table of moves, one life, and the order in which a request is judged:
 * every state, target, actor, version and evidence, against a ladder that is written
 * from the design and takes its moves from golden/transitions.golden.
 *
 * Runs from the checkout's root.  TIDEMARK_GOLDEN_UPDATE=1 rewrites order.golden.
 */
#include "common/intent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN(name) "fixtures/golden/" name ".golden"

/* --- golden files ----------------------------------------------------------- */

static struct buf read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct buf b = { 0 };
	char chunk[4096];
	size_t n;

	if (!f)
		fail_msg("%s: cannot be read (tests run from the checkout's root)", path);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_put(&b, chunk, n);
	fclose(f);
	return b;
}

static void write_file(const char *path, const struct buf *b)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
	assert_int_equal(fclose(f), 0);
}

/* Line and text of the first difference. */
static void report_difference(const char *path, const struct buf *got, const struct buf *want)
{
	unsigned line = 1;
	size_t at = 0, start = 0;

	for (; at < got->len && at < want->len && got->data[at] == want->data[at]; at++) {
		if (got->data[at] == '\n') {
			line++;
			start = at + 1;
		}
	}
	fail_msg("%s:%u: got \"%.*s\", want \"%.*s\"", path, line,
		 (int)strcspn((char *)got->data + start, "\n"), (char *)got->data + start,
		 (int)strcspn((char *)want->data + start, "\n"), (char *)want->data + start);
}

static void expect_golden(const char *path, struct buf *got)
{
	struct buf want = read_file(path);
	bool same = got->len == want.len && memcmp(got->data, want.data, got->len) == 0;

	buf_put_u8(got, 0);
	buf_put_u8(&want, 0);
	if (!same)
		report_difference(path, got, &want);
	buf_free(&want);
	buf_free(got);
}

static void test_transitions(void **state)
{
	struct buf got = { 0 };

	(void)state;
	intent_print_table(&got);
	expect_golden(GOLDEN("transitions"), &got);
}

/* --- one life ----------------------------------------------------------------- */

struct step {
	enum intent_state to;
	enum actor actor;
	uint8_t tx;			/* all bytes of the hash; 0: none */
	struct reason reason;
};

static const struct step life[] = {
	{ INTENT_AUTHORIZED, ACTOR_API, 0, { "", "" } },
	{ INTENT_SETTLED, ACTOR_API, 0, { "", "" } },
	{ INTENT_SETTLING, ACTOR_RELAYER, 0, { "", "" } },
	{ INTENT_SETTLING, ACTOR_RELAYER, 0, { "", "" } },
	{ INTENT_CONFIRMING, ACTOR_RELAYER, 0xaa, { "", "" } },
	{ INTENT_SETTLING, ACTOR_LISTENER, 0, { "reorg", "reorg at block 12" } },
	{ INTENT_CONFIRMING, ACTOR_RELAYER, 0xbb, { "", "" } },
	{ INTENT_SETTLED, ACTOR_LISTENER, 0xbb, { "", "" } },
	{ INTENT_FAILED, ACTOR_OPERATOR, 0, { "lost", "no longer wanted" } },
};

static struct hash32 hash_of(uint8_t byte)
{
	struct hash32 h;

	memset(h.b, byte, sizeof(h.b));
	return h;
}

static struct move_request request_of(const struct intent *i, const struct step *s)
{
	return (struct move_request){
		.to = s->to,
		.actor = s->actor,
		.version = i->version,
		.has_tx = s->tx != 0,
		.tx_hash = hash_of(s->tx),
		.has_reason = s->reason.code[0] != '\0',
		.reason = s->reason,
	};
}

static void print_outcome(struct buf *out, const struct step *s, struct move_result r, const struct complaint *why)
{
	if (r.outcome == MOVE_REFUSED)
		buf_printf(out, "REJECTED: %s", why->text);
	else if (r.outcome == MOVE_ALREADY_THERE)
		buf_put_text(out, "no-op (already there)");
	else if (s->tx)
		buf_printf(out, "tx 0x%02x", s->tx);
	else if (s->reason.code[0])
		buf_printf(out, "(%s)", s->reason.text);
}

static void live(struct buf *out, struct intent *i, const struct step *s)
{
	struct move_request r = request_of(i, s);
	enum intent_state from = i->state;
	struct complaint why;
	struct move_result result = intent_apply(i, &r, &why);

	buf_printf(out, "%-12s -> %-12s by %-9s ", intent_state_name(from), intent_state_name(s->to),
		   actor_name(s->actor));
	print_outcome(out, s, result, &why);
	while (out->data[out->len - 1] == ' ')
		out->len--;
	buf_put_u8(out, '\n');
}

static void test_life(void **state)
{
	struct intent i = { .id = "pi_0001", .state = INTENT_CREATED, .version = 1 };
	struct buf got = { 0 };

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(life); k++)
		live(&got, &i, &life[k]);
	buf_printf(&got, "final: %s v%llu tx=0x%02x\n", intent_state_name(i.state), (unsigned long long)i.version,
		   i.tx_hash.b[0]);
	expect_golden(GOLDEN("life"), &got);
}

/* --- the moves as transitions.golden tells them --------------------------------- */

struct told_move {
	bool is_there;
	bool by[ACTORS];
	bool needs_tx, needs_reason;
};

static struct told_move told[INTENT_STATES][INTENT_STATES];
static bool told_terminal[INTENT_STATES];

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len) {
		bool begins = at == list || strchr(", ", at[-1]);

		if (begins && (at[len] == '\0' || at[len] == ','))
			return true;
	}
	return false;
}

static void read_move(char *line)
{
	char *from = strtok(line, " "), *to = strtok(NULL, " "), *by = strtok(NULL, " "), *needs = strtok(NULL, " ");
	enum intent_state a, b;
	struct told_move *m;

	assert_non_null(needs);
	assert_true(intent_state_parse(from, &a));
	assert_true(intent_state_parse(to, &b));
	m = &told[a][b];
	assert_false(m->is_there);
	m->is_there = true;
	for (int k = 0; k < ACTORS; k++)
		m->by[k] = has_word(by, actor_name((enum actor)k));
	m->needs_tx = has_word(needs, "tx_hash");
	m->needs_reason = has_word(needs, "reason");
}

static void read_told_line(char *line)
{
	if (strncmp(line, "FROM", 4) == 0 || !line[0])
		return;
	if (strncmp(line, "terminal:", 9) != 0) {
		read_move(line);
		return;
	}
	for (int s = 0; s < INTENT_STATES; s++)
		told_terminal[s] = has_word(line, intent_state_name((enum intent_state)s));
}

static int read_told(void **state)
{
	struct buf text = read_file(GOLDEN("transitions"));
	char *line = (char *)text.data, *end;

	(void)state;
	memset(told, 0, sizeof(told));
	buf_put_u8(&text, 0);
	for (line = (char *)text.data; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		read_told_line(line);
	}
	buf_free(&text);
	return 0;
}

/* --- the order of the checks ------------------------------------------------------ */

enum tx_kind { TX_NONE, TX_SAME, TX_OTHER, TX_ATTEMPT, TX_KINDS };
enum reason_kind { REASON_NONE, REASON_EMPTY, REASON_GIVEN, REASON_KINDS };

struct question {
	enum intent_state state, to;
	enum actor actor;
	bool right_version;
	bool recorded;			/* the intent has a transaction */
	enum tx_kind tx;
	enum reason_kind reason;
};

struct answer {
	char code;
	bool conflict;
};

static struct answer refused_because(char code)
{
	return (struct answer){ code, false };
}

/* The seven checks in their order, rule by rule. */
static struct answer ladder(const struct question *q)
{
	const struct told_move *m = &told[q->state][q->to];
	bool another = q->recorded && (q->tx == TX_OTHER || q->tx == TX_ATTEMPT);
	bool person = q->actor == ACTOR_OPERATOR;

	/* 1. already in the target state: no-op; with another tx hash an evidence conflict */
	if (q->state == q->to)
		return (struct answer){ '=', another };
	/* 2. made from another version; every request but the listener's names it */
	if (q->actor != ACTOR_LISTENER && !q->right_version)
		return refused_because('V');
	/* 3. the state is terminal */
	if (told_terminal[q->state])
		return refused_because('T');
	/* 4. the move is not in the table */
	if (!m->is_there)
		return refused_because('I');
	/* 5. this actor may not make it */
	if (!m->by[q->actor])
		return refused_because('F');
	/* 6. evidence missing: tx_hash; reason with a non-empty code */
	if ((m->needs_tx && q->tx == TX_NONE) || (m->needs_reason && q->reason != REASON_GIVEN))
		return refused_because('M');
	/* 7. settled with another tx hash than recorded, unless an operator names another attempt */
	if (q->to == INTENT_SETTLED && another && !(person && q->tx == TX_ATTEMPT))
		return refused_because('X');
	/* an operator's other attempt, or any hash where none was recorded, is an evidence conflict */
	if (q->to == INTENT_SETTLED && person)
		return (struct answer){ 'A', q->recorded ? another : q->tx != TX_NONE };
	return (struct answer){ 'A', false };
}

static char code_of(struct move_result r)
{
	if (r.outcome == MOVE_APPLIED)
		return 'A';
	if (r.outcome == MOVE_ALREADY_THERE)
		return '=';
	switch ((int)r.err) {
	case E_VERSION_CONFLICT:
		return 'V';
	case E_TERMINAL:
		return 'T';
	case E_ILLEGAL_TRANSITION:
		return 'I';
	case E_FORBIDDEN_ACTOR:
		return 'F';
	case E_MISSING_EVIDENCE:
		return 'M';
	case E_TX_MISMATCH:
		return 'X';
	default:
		return '?';
	}
}

/* Every byte set, so that a change of any shows. */
static void make_intent(struct intent *i, const struct question *q)
{
	memset(i, 0, sizeof(*i));
	snprintf(i->id, sizeof(i->id), "pi_1");
	i->amount = u256_from_u64(5000000);
	i->state = q->state;
	i->version = 7;
	i->has_tx = q->recorded;
	i->tx_hash = q->recorded ? hash_of(0xaa) : (struct hash32){ { 0 } };
	snprintf(i->reason.code, sizeof(i->reason.code), "before");
	i->event_number = 9;
	i->entered_at_ms = 12345;
}

static struct move_request make_request(const struct question *q, uint64_t wrong_version)
{
	struct move_request r = { .to = q->to, .actor = q->actor, .version = q->right_version ? 7 : wrong_version };

	r.has_tx = q->tx != TX_NONE;
	if (r.has_tx)
		r.tx_hash = hash_of(q->tx == TX_SAME ? 0xaa : 0xbb);
	r.tx_is_attempt = q->tx == TX_SAME || q->tx == TX_ATTEMPT;
	r.has_reason = q->reason != REASON_NONE;
	if (r.has_reason)
		snprintf(r.reason.text, sizeof(r.reason.text), "why");
	if (q->reason == REASON_GIVEN)
		snprintf(r.reason.code, sizeof(r.reason.code), "code");
	return r;
}

/* What the move must leave, and nothing else. */
static void expect_moved(const struct intent *before, const struct intent *after, const struct move_request *r)
{
	struct intent want = *before;

	want.state = r->to;
	want.version++;
	want.reason = r->reason;
	if (r->has_tx) {
		want.has_tx = true;
		want.tx_hash = r->tx_hash;
	}
	assert_memory_equal(&want, after, sizeof(want));
}

static struct answer ask(const struct question *q, uint64_t wrong_version)
{
	struct intent before, after;
	struct move_request r = make_request(q, wrong_version);
	struct complaint why = { "" };
	struct move_result result;

	make_intent(&before, q);
	memcpy(&after, &before, sizeof(after));
	result = intent_apply(&after, &r, &why);
	if (result.outcome == MOVE_APPLIED)
		expect_moved(&before, &after, &r);
	else
		assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(result.outcome == MOVE_REFUSED, result.err != OK);
	assert_int_equal(result.outcome == MOVE_REFUSED, why.text[0] != '\0');
	return (struct answer){ code_of(result), result.evidence_conflict };
}

static void expect_answer(const struct question *q, struct answer got)
{
	struct answer want = ladder(q);

	if (got.code != want.code || got.conflict != want.conflict)
		fail_msg("%s -> %s by %s, %s version, %s, tx %d, reason %d: %c%s, the design says %c%s",
			 intent_state_name(q->state), intent_state_name(q->to), actor_name(q->actor),
			 q->right_version ? "right" : "wrong", q->recorded ? "recorded" : "not recorded", q->tx,
			 q->reason, got.code, got.conflict ? "!" : "", want.code, want.conflict ? "!" : "");
}

static void print_group(struct buf *out, struct question q)
{
	for (q.reason = REASON_NONE; q.reason < REASON_KINDS; q.reason++) {
		struct answer a = ask(&q, 6), later = ask(&q, 8);

		assert_true(a.code == later.code && a.conflict == later.conflict);
		expect_answer(&q, a);
		buf_printf(out, "%c%c", a.code, a.conflict ? '!' : ' ');
	}
	buf_put_text(out, "| ");
}

static void print_line(struct buf *out, struct question q)
{
	buf_printf(out, "%-12s %-12s %-8s %-5s | ", intent_state_name(q.state), intent_state_name(q.to),
		   actor_name(q.actor), q.right_version ? "right" : "wrong");
	q.recorded = true;
	for (q.tx = TX_NONE; q.tx < TX_KINDS; q.tx++)
		print_group(out, q);
	q.recorded = false;
	for (q.tx = TX_NONE; q.tx < TX_KINDS; q.tx++) {
		if (q.tx != TX_SAME)
			print_group(out, q);
	}
	out->data[out->len - 1] = '\n';
}

static const char header[] =
	"# How a request is judged: state, target, actor, the version that it was made from, and then the evidence.\n"
	"# First with a recorded transaction: the request names none | the recorded one | another | another attempt;\n"
	"# then with none recorded: names none | one that is no attempt | an attempt.  In each group three columns:\n"
	"# no reason, a reason with an empty code, a reason.\n"
	"#   A applied                  = already there            V E_VERSION_CONFLICT\n"
	"#   T E_TERMINAL               I E_ILLEGAL_TRANSITION     F E_FORBIDDEN_ACTOR\n"
	"#   M E_MISSING_EVIDENCE       X E_TX_MISMATCH            ! and an evidence conflict\n"
	"#                                recorded: none  | same  | other | att.  | none  | other | att.  |\n";

static void print_order(struct buf *out)
{
	struct question q = { .right_version = true };

	buf_put_text(out, header);
	for (q.state = 0; q.state < INTENT_STATES; q.state++) {
		for (q.to = 0; q.to < INTENT_STATES; q.to++) {
			for (q.actor = 0; q.actor < ACTORS; q.actor++) {
				q.right_version = true;
				print_line(out, q);
				q.right_version = false;
				print_line(out, q);
			}
		}
	}
}

static void test_order(void **state)
{
	struct buf got = { 0 };

	(void)state;
	print_order(&got);
	if (getenv("TIDEMARK_GOLDEN_UPDATE"))
		write_file(GOLDEN("order"), &got);
	expect_golden(GOLDEN("order"), &got);
}

/* --- the rest ---------------------------------------------------------------------- */

static void test_kinds_of_refusal(void **state)
{
	(void)state;
	assert_true(intent_refusal_is_bug(E_ILLEGAL_TRANSITION));
	assert_true(intent_refusal_is_bug(E_FORBIDDEN_ACTOR));
	assert_false(intent_refusal_is_bug(E_TERMINAL));
	assert_false(intent_refusal_is_bug(E_VERSION_CONFLICT));
	assert_false(intent_refusal_is_bug(E_MISSING_EVIDENCE));
	assert_false(intent_refusal_is_bug(E_TX_MISMATCH));
}

static void test_names(void **state)
{
	enum intent_state s;
	enum watch w;
	enum actor a;

	(void)state;
	for (int k = 0; k < INTENT_STATES; k++) {
		assert_true(intent_state_parse(intent_state_name((enum intent_state)k), &s) && (int)s == k);
		assert_int_equal(intent_state_is_terminal((enum intent_state)k), told_terminal[k]);
	}
	for (int k = 0; k < ACTORS; k++)
		assert_true(actor_parse(actor_name((enum actor)k), &a) && (int)a == k);
	for (int k = 0; k < 2; k++)
		assert_true(watch_parse(watch_name((enum watch)k), &w) && (int)w == k);
	assert_false(intent_state_parse("Settled", &s) || intent_state_parse("", &s) || actor_parse("apis", &a) ||
		     watch_parse("t", &w));
}

static void test_ids(void **state)
{
	char id[INTENT_ID_MAX + 1];

	(void)state;
	memset(id, 'a', sizeof(id));
	id[64] = '\0';
	assert_true(intent_id_is_valid(id));
	id[64] = 'a';
	id[65] = '\0';
	assert_false(intent_id_is_valid(id));
	assert_true(intent_id_is_valid("pi_1-A:b.c@d/e"));
	assert_false(intent_id_is_valid(""));
	assert_false(intent_id_is_valid("pi 1"));
	assert_false(intent_id_is_valid("pi_\x7f"));
	assert_false(intent_id_is_valid("p\xc3\xa9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transitions),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_kinds_of_refusal),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, read_told, NULL);
}
