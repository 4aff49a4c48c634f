#include "listener/tracker_parts.h"

#include "listener/settle.h"

static bool is_ours(const struct tracker *tr, uint64_t height, const struct hash32 *hash)
{
	const struct hash32 *ours = window_at(&tr->window, height);

	return ours && hash_eq(ours, hash);
}

static bool set(uint64_t *out, uint64_t height)
{
	*out = height;
	return true;
}

/* The highest block of ours that is at or below the block, by hash. */
static bool resolve(const struct tracker *tr, const struct hash32 *hash, uint64_t *height)
{
	const struct link *at = links_find(&tr->reads.links, hash);

	for (; at; at = links_find(&tr->reads.links, &at->parent)) {
		if (is_ours(tr, at->height, &at->hash))
			return set(height, at->height);
		if (at->height && is_ours(tr, at->height - 1, &at->parent))
			return set(height, at->height - 1);
	}
	return false;
}

/* So deep below the head that we follow that one endpoint's word will do; the tip may still be far below both. */
static bool is_deep(const struct tracker *tr, const struct tag_reading *t)
{
	const struct head *head = reads_head(&tr->reads);
	uint64_t top = head->verified ? head->height : window_tip_height(&tr->window);

	return reads_agree(&tr->reads) > 1 || t->height + tr->config->tag_depth_blocks <= top;
}

/* What an endpoint says: its believed tag, or without one its head; NULL: nothing. */
static const struct hash32 *said(const struct tracker *tr, const struct provider *p, enum tag tag)
{
	if (!provider_is_live(p))
		return NULL;
	if (tag == TAG_NONE)
		return p->head.verified ? &p->head.hash : NULL;
	return p->tags[tag].known && is_deep(tr, &p->tags[tag]) ? &p->tags[tag].hash : NULL;
}

/* The highest block that is at or below what so many endpoints say as must agree. */
static bool agreed(const struct tracker *tr, enum tag tag, uint64_t *height)
{
	uint64_t heights[PROVIDERS_MAX], h;
	unsigned count = 0, agree = reads_agree(&tr->reads);

	for (unsigned i = 0; i < tr->reads.provider_count; i++) {
		const struct hash32 *hash = said(tr, &tr->reads.providers[i], tag);
		unsigned at = count;

		if (!hash || !resolve(tr, hash, &h))
			continue;
		for (; at > 0 && heights[at - 1] < h; at--)
			heights[at] = heights[at - 1];
		heights[at] = h;
		count++;
	}
	if (count < agree)
		return false;
	*height = heights[agree - 1];
	return true;
}

/* Where one endpoint will do it is the one whose chain we follow. */
static uint64_t vouched_height(const struct tracker *tr)
{
	uint64_t height = window_tip_height(&tr->window);

	if (reads_agree(&tr->reads) > 1 && !agreed(tr, TAG_NONE, &height))
		height = 0;
	return height;
}

struct finality_view tracker_view(struct tracker *tr)
{
	struct finality_view view = { .tip_height = window_tip_height(&tr->window),
				      .vouched_height = vouched_height(tr) };

	for (unsigned tag = TAG_SAFE; tag < TAGS; tag++)
		view.known[tag] = agreed(tr, (enum tag)tag, &view.height[tag]);
	return view;
}

static void finality_body(struct kv_txn *t, struct commit *c)
{
	settle_raise(t, &c->apply, &c->view);
	c->more = settle_promote(t, &c->apply);
}

static void deadline_body(struct kv_txn *t, struct commit *c)
{
	settle_deadlines(t, &c->apply);
	c->more = settle_has_deadline(t, &c->apply);
}

/* What a look, before any write, says there is to do. */
static bool has_finality_work(struct tracker *tr, const struct finality_view *view, bool *deadlines)
{
	struct kv_txn t = kv_begin_read(tr->kv);
	struct apply a = { .config = tr->config, .chain = tr->chain };
	bool work = settle_would_raise(&t, &a, view) || settle_has_work(&t, &a);

	*deadlines = settle_has_deadline(&t, &a);
	return tracker_end_read(tr, &t) && work;
}

/* One slice; true if there may be more. */
static bool finalize(struct tracker *tr, bool current)
{
	struct commit c = { .body = finality_body, .catching_up = !current };
	bool deadlines, work;

	if (!tr->chain.has_tip || tr->chain.latched || !reads_tags(&tr->reads))
		return false;
	if (tracker_judge(tr) != TROUBLE_NONE)
		return false;
	c.view = tracker_view(tr);
	work = has_finality_work(tr, &c.view, &deadlines);
	if (!work && !(deadlines && current))
		return false;
	if (!work)
		c.body = deadline_body;
	/* Crash before: the same is final again.  After: the rest of the slice's successors follow. */
	return tracker_commit(tr, &c) && (c.more || work);
}

/*
 * What is final by now; true if anything was.  Before each block too, since what a block does to an intent
 * depends on it, and the order must be the same however fast bodies come, also after a restart.
 */
bool tracker_finalize(struct tracker *tr, bool current)
{
	bool did = false;

	while (!tr->stopped && tr->window.count && !tracker_is_tired(tr) && finalize(tr, current))
		did = true;
	return did;
}
