/*
 * match: every verdict and which of two wins, every reason for which a log is
 * no transfer, the balance's arithmetic, and how a transfer fits a route.
 */
#include "listener/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Short names for addresses: one repeated byte. */
static struct address party(char name)
{
	struct address a;

	memset(a.b, name, sizeof(a.b));
	return a;
}

static struct u256 amount(const char *text)
{
	struct u256 v;

	assert_true(u256_parse(slice_of_text(text), &v));
	return v;
}

#define MOST "115792089237316195423570985008687907853269984665640564039457584007913129639935"

/* A log that is a transfer. */

struct logged {
	struct log_entry log;
	uint8_t data[96];
};

static struct logged good_log(void)
{
	struct logged l = { .log = { .address = party('T'), .topic_count = 3, .data_at = 7, .data_len = 32 } };
	struct address from = party('A'), to = party('S');

	l.log.topics[0] = match_transfer_topic;
	memcpy(l.log.topics[1].b + 12, from.b, sizeof(from.b));
	memcpy(l.log.topics[2].b + 12, to.b, sizeof(to.b));
	l.data[7 + 31] = 5;
	return l;
}

static bool is_transfer(const struct logged *l)
{
	struct transfer t = { .tx_index = 3, .ordinal = 4 }, before = t;
	bool is = match_transfer(&l->log, l->data, &t);

	if (!is)
		assert_memory_equal(&t, &before, sizeof(t));
	return is;
}

static void test_transfer(void **state)
{
	struct logged l = good_log();
	struct transfer t = { .tx_index = 3, .ordinal = 4 };
	struct address token = party('T'), from = party('A'), to = party('S');
	struct u256 five = amount("5");

	(void)state;
	assert_true(match_transfer(&l.log, l.data, &t));
	assert_true(address_eq(&t.token, &token));
	assert_true(address_eq(&t.from, &from));
	assert_true(address_eq(&t.to, &to));
	assert_int_equal(u256_cmp(&t.value, &five), 0);
	assert_int_equal(t.tx_index, 3);
	assert_int_equal(t.ordinal, 4);
}

static void test_transfer_of_all(void **state)
{
	struct logged l = good_log();
	struct transfer t = { .tx_index = 0 };
	struct u256 most = amount(MOST);

	(void)state;
	memset(l.data + 7, 0xff, 32);
	assert_true(match_transfer(&l.log, l.data, &t));
	assert_int_equal(u256_cmp(&t.value, &most), 0);
}

static void test_topic_is_the_event(void **state)
{
	char text[HASH_TEXT];

	(void)state;
	assert_string_equal(hash_format(&match_transfer_topic, text),
			    "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
}

static void spoil_topics_0(struct logged *l) { l->log.topic_count = 0; }
static void spoil_topics_1(struct logged *l) { l->log.topic_count = 1; }
static void spoil_topics_2(struct logged *l) { l->log.topic_count = 2; }
static void spoil_topics_4(struct logged *l) { l->log.topic_count = 4; }
static void spoil_data_0(struct logged *l) { l->log.data_len = 0; }
static void spoil_data_31(struct logged *l) { l->log.data_len = 31; }
static void spoil_data_33(struct logged *l) { l->log.data_len = 33; }
static void spoil_data_64(struct logged *l) { l->log.data_len = 64; }
static void spoil_topic(struct logged *l) { l->log.topics[0].b[31] ^= 1; }
static void spoil_from_first(struct logged *l) { l->log.topics[1].b[0] = 1; }
static void spoil_from_last(struct logged *l) { l->log.topics[1].b[11] = 1; }
static void spoil_to_first(struct logged *l) { l->log.topics[2].b[0] = 1; }
static void spoil_to_last(struct logged *l) { l->log.topics[2].b[11] = 1; }
static void spoil_value(struct logged *l) { l->data[7 + 31] = 0; }
static void spoil_self(struct logged *l) { l->log.topics[1] = l->log.topics[2]; }

static void spoil_native(struct logged *l)
{
	memset(l->log.address.b, 0xff, sizeof(l->log.address.b));
	l->log.address.b[19] = 0xfe;
}

static void test_no_transfer(void **state)
{
	static void (*const spoils[])(struct logged *l) = {
		spoil_topics_0, spoil_topics_1, spoil_topics_2, spoil_topics_4, spoil_data_0, spoil_data_31,
		spoil_data_33, spoil_data_64, spoil_topic, spoil_from_first, spoil_from_last, spoil_to_first,
		spoil_to_last, spoil_value, spoil_self, spoil_native,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(spoils); i++) {
		struct logged l = good_log();

		assert_true(is_transfer(&l));
		spoils[i](&l);
		if (is_transfer(&l))
			fail_msg("spoil %zu is a transfer", i);
	}
}

/* Neighbours of what is refused. */
static void test_still_a_transfer(void **state)
{
	struct logged l = good_log();

	(void)state;
	memset(l.log.address.b, 0xff, sizeof(l.log.address.b));
	assert_true(is_transfer(&l));			/* 0xff..ff is another contract */
	l.log.topics[1] = (struct hash32){ { 0 } };
	assert_true(is_transfer(&l));			/* minted */
	l = good_log();
	l.log.topics[2] = (struct hash32){ { 0 } };
	assert_true(is_transfer(&l));			/* burnt */
	l.data[6] = l.data[39] = 0xff;
	assert_true(is_transfer(&l));			/* what stands beside its data */
}

/* Verdicts. */

#define CANDIDATES_MAX 4

struct paid {
	char from;			/* 0: no more */
	const char *value;
	bool taken;
};

struct judge_case {
	const char *name;
	const char *amount;
	char payer;			/* 0: any */
	struct paid paid[CANDIDATES_MAX];
	bool reverted, wrong_token;
	enum verdict verdict;
	const char *sum;
	const char *chosen;		/* a digit for each ordinal that is */
};

static const struct judge_case cases[] = {
	{ "one of exactly the amount", "5", 0, { { 'A', "5", 0 } }, 0, 0, VERDICT_PAID, "5", "0" },
	{ "the lowest ordinal of two", "5", 0, { { 'A', "4", 0 }, { 'A', "5", 0 }, { 'B', "5", 0 } }, 0, 0,
	  VERDICT_PAID, "5", "1" },
	{ "the exact one before the sum", "5", 0, { { 'A', "1", 0 }, { 'A', "5", 0 } }, 0, 0, VERDICT_PAID, "5", "1" },
	{ "the sum", "5", 0, { { 'A', "2", 0 }, { 'B', "2", 0 }, { 'A', "1", 0 } }, 0, 0, VERDICT_PAID, "5", "012" },
	{ "the sum of the payer's", "5", 'A', { { 'A', "2", 0 }, { 'B', "2", 0 }, { 'A', "3", 0 } }, 0, 0,
	  VERDICT_PAID, "5", "02" },
	{ "the payer's one", "5", 'A', { { 'B', "5", 0 }, { 'A', "5", 0 } }, 0, 0, VERDICT_PAID, "5", "1" },
	{ "the free one of two", "5", 0, { { 'A', "5", 1 }, { 'A', "5", 0 } }, 0, 0, VERDICT_PAID, "5", "1" },
	{ "the sum of the free", "5", 0, { { 'A', "3", 1 }, { 'A', "3", 0 }, { 'A', "2", 0 } }, 0, 0,
	  VERDICT_PAID, "5", "12" },
	{ "all there is", MOST, 0, { { 'A', MOST, 0 } }, 0, 0, VERDICT_PAID, MOST, "0" },
	{ "exact, though all together overflow", "5", 0, { { 'A', MOST, 0 }, { 'A', "5", 0 } }, 0, 0,
	  VERDICT_PAID, "5", "1" },
	{ "paid, and another token too", "5", 0, { { 'A', "5", 0 } }, 0, 1, VERDICT_PAID, "5", "0" },

	{ "reverted before all", "5", 0, { { 'A', "5", 0 } }, 1, 1, VERDICT_REVERTED, "0", "" },
	{ "reverted, nothing logged", "5", 0, { { 0 } }, 1, 0, VERDICT_REVERTED, "0", "" },

	{ "claimed: the only one", "5", 0, { { 'A', "5", 1 } }, 0, 0, VERDICT_ALREADY_CLAIMED, "5", "" },
	{ "claimed: the exact one, with others free", "5", 0, { { 'A', "5", 1 }, { 'A', "1", 0 } }, 0, 0,
	  VERDICT_ALREADY_CLAIMED, "1", "" },
	{ "claimed: a part of the sum", "5", 0, { { 'A', "2", 1 }, { 'A', "3", 0 } }, 0, 0,
	  VERDICT_ALREADY_CLAIMED, "3", "" },
	{ "claimed: the whole sum", "5", 0, { { 'A', "2", 1 }, { 'A', "3", 1 } }, 0, 0,
	  VERDICT_ALREADY_CLAIMED, "5", "" },
	{ "claimed before another token", "5", 0, { { 'A', "5", 1 } }, 0, 1, VERDICT_ALREADY_CLAIMED, "5", "" },

	{ "under", "5", 0, { { 'A', "4", 0 } }, 0, 0, VERDICT_UNDERPAID, "4", "" },
	{ "under, of two", "5", 0, { { 'A', "1", 0 }, { 'B', "3", 0 } }, 0, 0, VERDICT_UNDERPAID, "4", "" },
	{ "under, of the free", "5", 0, { { 'A', "9", 1 }, { 'A', "4", 0 } }, 0, 0, VERDICT_UNDERPAID, "4", "" },
	{ "under, of all where none is free", "5", 0, { { 'A', "4", 1 } }, 0, 0, VERDICT_UNDERPAID, "4", "" },
	{ "under, of the payer's", "5", 'A', { { 'A', "4", 0 }, { 'B', "1", 0 } }, 0, 0, VERDICT_UNDERPAID, "4", "" },
	{ "under before another token", "5", 0, { { 'A', "4", 0 } }, 0, 1, VERDICT_UNDERPAID, "4", "" },
	{ "over", "5", 0, { { 'A', "6", 0 } }, 0, 0, VERDICT_OVERPAID, "6", "" },
	{ "over, of two", "5", 0, { { 'A', "3", 0 }, { 'B', "3", 0 } }, 0, 0, VERDICT_OVERPAID, "6", "" },
	{ "over, of the free", "5", 0, { { 'A', "1", 1 }, { 'A', "6", 0 } }, 0, 0, VERDICT_OVERPAID, "6", "" },
	{ "over, of all where none is free", "5", 0, { { 'A', "2", 1 }, { 'A', "4", 1 } }, 0, 0,
	  VERDICT_OVERPAID, "6", "" },
	{ "over: the sum is more than all", "5", 0, { { 'A', MOST, 0 }, { 'A', "1", 0 } }, 0, 0,
	  VERDICT_OVERPAID, MOST, "" },
	{ "over: all, but the sum is more", MOST, 0, { { 'A', "1", 0 }, { 'A', "2", 0 },
	  { 'A', "115792089237316195423570985008687907853269984665640564039457584007913129639934", 0 } }, 0, 0,
	  VERDICT_OVERPAID, MOST, "" },

	{ "from another", "5", 'A', { { 'B', "5", 0 } }, 0, 0, VERDICT_WRONG_PAYER, "0", "" },
	{ "from another, who is another's", "5", 'A', { { 'B', "5", 1 } }, 0, 0, VERDICT_WRONG_PAYER, "0", "" },
	{ "from another before another token", "5", 'A', { { 'B', "5", 0 } }, 0, 1, VERDICT_WRONG_PAYER, "0", "" },
	{ "another token", "5", 0, { { 0 } }, 0, 1, VERDICT_WRONG_TOKEN, "0", "" },
	{ "nothing", "5", 'A', { { 0 } }, 0, 0, VERDICT_NO_TRANSFER, "0", "" },
};

static struct intent intent_of(const char *of, char payer)
{
	struct intent i = { .token = party('T'), .payee = party('S'), .amount = amount(of), .has_payer = payer != 0 };

	if (payer)
		i.payer = party(payer);
	return i;
}

static size_t list(const struct judge_case *c, struct candidate *out)
{
	size_t n = 0;

	for (; n < CANDIDATES_MAX && c->paid[n].from; n++) {
		out[n] = (struct candidate){
			.transfer = { party('T'), party(c->paid[n].from), party('S'), amount(c->paid[n].value), 0,
				      (uint32_t)n },
			.taken = c->paid[n].taken,
			.chosen = n % 2 == 0,		/* what stood there before does not matter */
		};
	}
	return n;
}

static void check_case(const struct judge_case *c)
{
	struct candidate candidates[CANDIDATES_MAX];
	struct match_facts facts = { c->reverted, c->wrong_token };
	struct intent i = intent_of(c->amount, c->payer);
	size_t count = list(c, candidates), chosen = 0;
	struct judgement j = match_judge(&i, candidates, count, &facts);
	char text[U256_TEXT], digits[CANDIDATES_MAX + 1] = "";

	for (size_t n = 0; n < count; n++) {
		if (candidates[n].chosen)
			digits[chosen++] = (char)('0' + n);
	}
	if (j.verdict != c->verdict || strcmp(digits, c->chosen) || strcmp(u256_format(&j.sum, text), c->sum))
		fail_msg("%s: %s, sum %s, chosen \"%s\"", c->name, verdict_name(j.verdict), text, digits);
}

static void test_judge(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
}

static void test_verdict_names(void **state)
{
	static const char *const names[VERDICTS] = {
		"paid", "reverted", "already_claimed", "underpaid", "overpaid", "wrong_payer", "wrong_token",
		"no_transfer", "balance_mismatch", "no_witness", "too_old", "late", "unproven",
	};

	(void)state;
	for (int v = 0; v < VERDICTS; v++)
		assert_string_equal(verdict_name((enum verdict)v), names[v]);
}

/* The balance. */

static void test_balance(void **state)
{
	static const struct {
		const char *before, *after, *in, *out;
		bool agrees;
	} rows[] = {
		{ "0", "0", "0", "0", true },
		{ "10", "15", "5", "0", true },
		{ "10", "15", "7", "2", true },
		{ "10", "5", "0", "5", true },
		{ "10", "5", "2", "7", true },
		{ "10", "10", "5", "5", true },
		{ "0", MOST, MOST, "0", true },
		{ MOST, "0", "0", MOST, true },
		{ MOST, MOST, MOST, MOST, true },
		{ "10", "14", "5", "0", false },
		{ "10", "16", "5", "0", false },
		{ "10", "10", "5", "0", false },
		{ "10", "5", "5", "0", false },
		{ "10", "15", "0", "5", false },
		{ "10", "10", "0", "1", false },
		{ "0", "1", "0", MOST, false },		/* no wrapping round */
		{ "1", "0", MOST, "0", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct u256 before = amount(rows[i].before), after = amount(rows[i].after);
		struct u256 in = amount(rows[i].in), out = amount(rows[i].out);

		if (match_balance(&before, &after, &in, &out) != rows[i].agrees)
			fail_msg("row %zu", i);
	}
}

/* Routes. */

struct route_case {
	const char *name;
	const char *value;
	char payer;
	bool expires;
	uint64_t first_order;
	int64_t block_s;
	bool catching_up;
	enum route_fit fit;
};

/* Created as the 10th thing, at 1000 s; expires at 2000 s; wants 5; paid by A. */
static const struct route_case routes[] = {
	{ "exactly", "5", 0, false, 11, 1000, false, ROUTE_FITS },
	{ "by the payer", "5", 'A', false, 11, 1000, false, ROUTE_FITS },
	{ "at the expiry", "5", 0, true, 11, 2000, false, ROUTE_FITS },
	{ "a second late", "5", 0, true, 11, 2001, false, ROUTE_MISSES },
	{ "never late", "5", 0, false, 11, 1 << 30, false, ROUTE_FITS },
	{ "less", "4", 0, false, 11, 1000, false, ROUTE_MISSES },
	{ "more", "6", 0, false, 11, 1000, false, ROUTE_MISSES },
	{ "by another", "5", 'B', false, 11, 1000, false, ROUTE_MISSES },
	{ "applied before", "5", 0, false, 9, 1000, false, ROUTE_TOO_EARLY },
	{ "applied with it", "5", 0, false, 10, 1000, false, ROUTE_TOO_EARLY },
	{ "applied before, and less", "4", 'B', true, 9, 3000, false, ROUTE_TOO_EARLY },
	{ "stamped before, live", "5", 0, false, 11, 999, false, ROUTE_FITS },
	{ "stamped before, catching up", "5", 0, false, 11, 999, true, ROUTE_TOO_EARLY },
	{ "stamped with it, catching up", "5", 0, false, 11, 1000, true, ROUTE_FITS },
};

static void test_route(void **state)
{
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(routes); n++) {
		const struct route_case *c = &routes[n];
		struct intent i = intent_of("5", c->payer);
		struct transfer t = { party('T'), party('A'), party('S'), amount(c->value), 0, 0 };
		struct route_facts facts = { c->first_order, c->block_s, c->catching_up };

		i.created_order = 10;
		i.created_at_ms = 1000 * 1000;
		i.has_expiry = c->expires;
		i.expires_at_ms = 2000 * 1000;
		if (match_route(&i, &t, &facts) != c->fit)
			fail_msg("%s", c->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_topic_is_the_event),
		cmocka_unit_test(test_transfer),
		cmocka_unit_test(test_transfer_of_all),
		cmocka_unit_test(test_no_transfer),
		cmocka_unit_test(test_still_a_transfer),
		cmocka_unit_test(test_judge),
		cmocka_unit_test(test_verdict_names),
		cmocka_unit_test(test_balance),
		cmocka_unit_test(test_route),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
