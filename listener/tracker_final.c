#include "listener/tracker_parts.h"

#include "listener/settle.h"

/* The highest block of ours that is at or below the tag, by hash. */
static bool resolve_tag(struct tracker *tr, const struct hash32 *tag, uint64_t *height)
{
	uint64_t tip = window_tip_height(&tr->window);
	const struct link *at = links_find(&tr->reads.links, tag);
	const struct hash32 *ours;

	while (at && at->height > tip + 1)
		at = links_find(&tr->reads.links, &at->parent);
	if (!at)
		return false;
	if (at->height == tip + 1) {
		*height = tip;
		return hash_eq(window_at(&tr->window, tip), &at->parent);
	}
	ours = window_at(&tr->window, at->height);
	*height = at->height;
	return ours && hash_eq(ours, &at->hash);
}

/* The highest block at or below the believed tag of so many endpoints as must agree. */
static bool agreed_tag(struct tracker *tr, unsigned tag, uint64_t *height)
{
	uint64_t heights[PROVIDERS_MAX], h;
	unsigned count = 0, agree = reads_agree(&tr->reads);

	for (unsigned i = 0; i < tr->reads.provider_count; i++) {
		const struct provider *p = &tr->reads.providers[i];
		unsigned at = count;

		if (!provider_is_live(p) || !p->tags[tag].known || !resolve_tag(tr, &p->tags[tag].hash, &h))
			continue;
		for (; at > 0 && heights[at - 1] < h; at--)
			heights[at] = heights[at - 1];
		heights[at] = h;
		count++;
	}
	if (count < agree)
		return false;
	*height = heights[agree - 1];
	return agree > 1 || *height + tr->config->tag_depth_blocks <= window_tip_height(&tr->window);
}

struct finality_view tracker_view(struct tracker *tr)
{
	struct finality_view view = { .tip_height = window_tip_height(&tr->window) };

	for (unsigned tag = TAG_SAFE; tag < TAGS; tag++)
		view.known[tag] = agreed_tag(tr, tag, &view.height[tag]);
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
