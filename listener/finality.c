#include "listener/finality.h"

#include <stdio.h>
#include <string.h>

static const char *const tag_names[TAGS] = {
	[TAG_NONE] = "none",
	[TAG_SAFE] = "safe",
	[TAG_FINALIZED] = "finalized",
};

const char *tag_name(enum tag tag)
{
	return tag_names[tag];
}

static enum tag parse_tag(struct json j)
{
	const char *text = json_text(j);

	if (strcmp(text, "safe") == 0)
		return TAG_SAFE;
	if (strcmp(text, "finalized") != 0)
		json_complain(j, "\"%s\" is no tag, want safe or finalized", text);
	return TAG_FINALIZED;
}

static uint64_t parse_depth(struct json j)
{
	uint64_t depth = json_u64(j);

	if (depth == 0)
		json_complain(j, "a depth is at least 1: the containing block itself");
	return depth;
}

static struct finality_tier parse_tier(struct json j)
{
	struct finality_tier tier = { 0 };

	if (json_has(j, "tag"))
		tier.tag = parse_tag(json_member(j, "tag"));
	if (json_has(j, "depth"))
		tier.depth = parse_depth(json_member(j, "depth"));
	if (tier.tag == TAG_SAFE && !tier.depth)
		json_complain(j, "safe alone is not final: ask for a depth too");
	if (tier.tag == TAG_NONE && !tier.depth)
		json_complain(j, "want a tag, a depth or both");
	return tier;
}

static void parse_limit(struct json j, struct finality_policy *p, unsigned i, bool last)
{
	struct finality_tier *tier = &p->tiers[i];

	tier->has_limit = json_has(j, "up_to");
	if (tier->has_limit == last) {
		json_complain(j, last ? "the last tier takes any amount: no up_to" : "want up_to");
		return;
	}
	if (last)
		return;
	tier->up_to = json_amount(json_member(j, "up_to"));
	if (i > 0 && u256_cmp(&tier->up_to, &p->tiers[i - 1].up_to) <= 0)
		json_complain(j, "up_to must rise from tier to tier");
}

struct finality_policy finality_parse(struct json j)
{
	static const char *const only_members[] = { "tag", "depth", "agree", NULL };
	static const char *const tiers_members[] = { "tiers", "agree", NULL };
	static const char *const tier_members[] = { "up_to", "tag", "depth", NULL };
	struct finality_policy p = { .tier_count = 1 };
	struct json tiers = json_maybe(j, "tiers");
	size_t count;

	if (!tiers.value) {
		json_only(j, only_members);
		p.tiers[0] = parse_tier(j);
		return p;
	}
	json_only(j, tiers_members);
	count = json_length(tiers);
	if (count < 1 || count > FINALITY_TIERS_MAX) {
		json_complain(tiers, "%zu tiers, want 1 to %d", count, FINALITY_TIERS_MAX);
		return p;
	}
	p.tier_count = (unsigned)count;
	for (unsigned i = 0; i < p.tier_count; i++) {
		struct json tier = json_at(tiers, i);

		json_only(tier, tier_members);
		p.tiers[i] = parse_tier(tier);
		parse_limit(tier, &p, i, i + 1 == p.tier_count);
	}
	return p;
}

unsigned finality_tier_of(const struct finality_policy *p, const struct u256 *sum)
{
	unsigned i = 0;

	while (p->tiers[i].has_limit && u256_cmp(sum, &p->tiers[i].up_to) > 0)
		i++;
	return i;
}

bool finality_height(const struct finality_tier *tier, const struct finality_view *view, uint64_t *out)
{
	uint64_t height = view->tip_height;

	if (tier->depth) {
		if (view->vouched_height + 1 < tier->depth)
			return false;
		height = view->vouched_height + 1 - tier->depth;
	}
	if (tier->tag != TAG_NONE) {
		if (!view->known[tier->tag])
			return false;
		if (view->height[tier->tag] < height)
			height = view->height[tier->tag];
	}
	*out = height;
	return true;
}

void finality_describe(const struct finality_tier *tier, char out[48])
{
	unsigned long long depth = tier->depth;

	if (tier->tag == TAG_NONE)
		snprintf(out, 48, "depth %llu", depth);
	else if (tier->depth)
		snprintf(out, 48, "%s and depth %llu", tag_name(tier->tag), depth);
	else
		snprintf(out, 48, "%s", tag_name(tier->tag));
}
