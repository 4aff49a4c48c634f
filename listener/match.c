#include "listener/match.h"

#include <string.h>

const struct hash32 match_transfer_topic = { {
	0xdd, 0xf2, 0x52, 0xad, 0x1b, 0xe2, 0xc8, 0x9b, 0x69, 0xc2, 0xb0, 0x68, 0xfc, 0x37, 0x8d, 0xaa,
	0x95, 0x2b, 0xa7, 0xf1, 0x63, 0xc4, 0xa1, 0x16, 0x28, 0xf5, 0x5a, 0x4d, 0xf5, 0x23, 0xb3, 0xef,
} };

/* Where EIP-7708 logs the native coin's transfers, in wei. */
static const struct address native_log = { {
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
} };

static const char *const verdict_names[VERDICTS] = {
	[VERDICT_PAID] = "paid",
	[VERDICT_REVERTED] = "reverted",
	[VERDICT_ALREADY_CLAIMED] = "already_claimed",
	[VERDICT_UNDERPAID] = "underpaid",
	[VERDICT_OVERPAID] = "overpaid",
	[VERDICT_WRONG_PAYER] = "wrong_payer",
	[VERDICT_WRONG_TOKEN] = "wrong_token",
	[VERDICT_NO_TRANSFER] = "no_transfer",
	[VERDICT_BALANCE_MISMATCH] = "balance_mismatch",
	[VERDICT_NO_WITNESS] = "no_witness",
	[VERDICT_TOO_OLD] = "too_old",
	[VERDICT_LATE] = "late",
	[VERDICT_UNPROVEN] = "unproven",
};

const char *verdict_name(enum verdict v)
{
	return verdict_names[v];
}

bool verdict_is_contested(enum verdict v)
{
	return v == VERDICT_ALREADY_CLAIMED || v == VERDICT_UNDERPAID || v == VERDICT_OVERPAID;
}

static bool topic_address(const struct hash32 *topic, struct address *out)
{
	static const uint8_t zeros[12];

	memcpy(out->b, topic->b + 12, sizeof(out->b));
	return memcmp(topic->b, zeros, sizeof(zeros)) == 0;
}

bool match_transfer(const struct log_entry *log, const uint8_t *data, struct transfer *out)
{
	struct transfer t = *out;

	if (log->topic_count != 3 || log->data_len != 32 ||
	    !hash_eq(&log->topics[0], &match_transfer_topic) || address_eq(&log->address, &native_log))
		return false;
	t.token = log->address;
	t.value = u256_from_be(data + log->data_at);
	if (!topic_address(&log->topics[1], &t.from) || !topic_address(&log->topics[2], &t.to) ||
	    u256_is_zero(&t.value) || address_eq(&t.from, &t.to))
		return false;
	*out = t;
	return true;
}

static bool is_from_payer(const struct intent *intent, const struct candidate *c)
{
	return !intent->has_payer || address_eq(&c->transfer.from, &intent->payer);
}

/* Whether the transfer belongs to the set at hand: P, or U if @free_only. */
static bool counts(const struct intent *intent, const struct candidate *c, bool free_only)
{
	return is_from_payer(intent, c) && !(free_only && c->taken);
}

struct total {
	size_t count;
	bool overflow;
	struct u256 sum;
};

static struct total add_up(const struct intent *intent, const struct candidate *candidates,
			   size_t count, bool free_only)
{
	struct total total = { 0 };

	for (size_t i = 0; i < count; i++) {
		if (!counts(intent, &candidates[i], free_only))
			continue;
		total.count++;
		if (!u256_add(&total.sum, &candidates[i].transfer.value, &total.sum))
			total.overflow = true;
	}
	if (total.overflow)
		memset(&total.sum, 0xff, sizeof(total.sum));
	return total;
}

/* Choose what pays the amount: the first of exactly that value, else all together. */
static bool choose(const struct intent *intent, struct candidate *candidates, size_t count,
		   bool free_only)
{
	struct total total = add_up(intent, candidates, count, free_only);

	for (size_t i = 0; i < count; i++) {
		candidates[i].chosen = counts(intent, &candidates[i], free_only) &&
				       u256_cmp(&candidates[i].transfer.value, &intent->amount) == 0;
		if (candidates[i].chosen)
			return true;
	}
	if (total.count == 0 || total.overflow || u256_cmp(&total.sum, &intent->amount) != 0)
		return false;
	for (size_t i = 0; i < count; i++)
		candidates[i].chosen = counts(intent, &candidates[i], free_only);
	return true;
}

static void choose_none(struct candidate *candidates, size_t count)
{
	for (size_t i = 0; i < count; i++)
		candidates[i].chosen = false;
}

struct judgement match_judge(const struct intent *intent, struct candidate *candidates,
			     size_t count, const struct match_facts *facts)
{
	struct total paid = add_up(intent, candidates, count, false);
	struct total unclaimed = add_up(intent, candidates, count, true);
	struct total seen = unclaimed.count ? unclaimed : paid;

	choose_none(candidates, count);
	if (facts->reverted)
		return (struct judgement){ VERDICT_REVERTED, { { 0 } } };
	if (choose(intent, candidates, count, true))
		return (struct judgement){ VERDICT_PAID, intent->amount };
	if (choose(intent, candidates, count, false)) {
		choose_none(candidates, count);
		return (struct judgement){ VERDICT_ALREADY_CLAIMED, seen.sum };
	}
	if (paid.count) {
		bool over = seen.overflow || u256_cmp(&seen.sum, &intent->amount) > 0;

		return (struct judgement){ over ? VERDICT_OVERPAID : VERDICT_UNDERPAID, seen.sum };
	}
	if (count)
		return (struct judgement){ VERDICT_WRONG_PAYER, { { 0 } } };
	return (struct judgement){ facts->wrong_token ? VERDICT_WRONG_TOKEN : VERDICT_NO_TRANSFER,
				   { { 0 } } };
}

bool match_balance(const struct u256 *before, const struct u256 *after, const struct u256 *in,
		   const struct u256 *out)
{
	struct u256 moved, logged;

	if (u256_cmp(after, before) >= 0)
		return u256_sub(after, before, &moved) && u256_sub(in, out, &logged) &&
		       u256_cmp(&moved, &logged) == 0;
	return u256_sub(before, after, &moved) && u256_sub(out, in, &logged) &&
	       u256_cmp(&moved, &logged) == 0;
}

enum route_fit match_route(const struct intent *intent, const struct transfer *t,
			   const struct route_facts *facts)
{
	int64_t block_ms = facts->block_time_s * 1000;

	if (facts->first_order <= intent->created_order ||
	    (facts->catching_up && block_ms < intent->created_at_ms))
		return ROUTE_TOO_EARLY;
	if (intent->has_expiry && block_ms > intent->expires_at_ms)
		return ROUTE_MISSES;
	if (intent->has_payer && !address_eq(&t->from, &intent->payer))
		return ROUTE_MISSES;
	return u256_cmp(&t->value, &intent->amount) == 0 ? ROUTE_FITS : ROUTE_MISSES;
}
