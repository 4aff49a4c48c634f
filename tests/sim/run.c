#include "tests/sim/run.h"

#include "common/keccak.h"
#include "listener/check.h"
#include "store/outbox.h"
#include "store/store.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIET_MS 60000		/* between two blocks of the end */

void violate(struct run *r, const char *what, const char *fmt, ...)
{
	va_list args;

	if (r->violated)
		return;
	r->violated = true;
	snprintf(r->what, sizeof(r->what), "%s", what);
	va_start(args, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, args);
	va_end(args);
}

/* The end: blocks without transactions until all is final. */

static const struct item *find(const struct plan *p, enum item_kind kind)
{
	for (size_t i = 0; i < p->count; i++) {
		if (p->items[i].kind == kind)
			return &p->items[i];
	}
	return NULL;
}

static int last_head(const struct plan *p)
{
	const struct item *last = NULL;

	for (size_t i = 0; i < p->count; i++) {
		if (p->items[i].kind == ITEM_HEAD && (!last || p->items[i].at_ms >= last->at_ms))
			last = &p->items[i];
	}
	return last ? (int)last->arg[0] : -1;
}

static int64_t add_quiet_end(struct plan *p)
{
	const struct item *policy = find(p, ITEM_POLICY);
	bool deep = policy && policy->arg[0] != POLICY_FINALIZED;
	unsigned count = 10 + (deep ? (unsigned)policy->arg[1] : 0);
	int64_t at_ms = plan_end_ms(p) + 10000;
	int parent = last_head(p);

	for (unsigned n = 0; n < count && QUIET_BLOCKS + n < BLOCKS_MAX; n++) {
		struct item *it = plan_add(p, ITEM_BLOCK, at_ms);

		it->arg[0] = QUIET_BLOCKS + n;
		it->arg[1] = parent;
		plan_add(p, ITEM_HEAD, at_ms)->arg[0] = QUIET_BLOCKS + n;
		plan_add(p, ITEM_FINAL, at_ms + 500)->arg[0] = parent;
		parent = (int)(QUIET_BLOCKS + n);
		at_ms += QUIET_MS;
	}
	return at_ms;
}

/* The chain's configuration. */

static struct finality_policy policy_of(const struct item *it)
{
	uint64_t depth = (uint64_t)it->arg[1];
	struct finality_policy p = { .tier_count = 1 };

	switch ((enum policy_kind)it->arg[0]) {
	case POLICY_FINALIZED:
		p.tiers[0].tag = TAG_FINALIZED;
		break;
	case POLICY_DEPTH:
		p.tiers[0].depth = depth;
		break;
	case POLICY_SAFE_DEPTH:
	case POLICY_FINALIZED_DEPTH:
		p.tiers[0].tag = it->arg[0] == POLICY_SAFE_DEPTH ? TAG_SAFE : TAG_FINALIZED;
		p.tiers[0].depth = depth;
		break;
	case POLICY_TIERS:
		p.tier_count = 2;
		p.tiers[0].has_limit = true;
		p.tiers[0].up_to = u256_from_u64((uint64_t)it->arg[2]);
		p.tiers[0].depth = depth;
		p.tiers[1].tag = TAG_FINALIZED;
		break;
	}
	return p;
}

static void configure(struct run *r)
{
	const struct item *policy = find(&r->plan, ITEM_POLICY), *witness = find(&r->plan, ITEM_WITNESS),
			  *limits = find(&r->plan, ITEM_LIMITS);
	struct address usdc = tree_contract(CONTRACT_USDC), usdt = tree_contract(CONTRACT_USDT);
	struct chain_config *c = &r->config;

	*c = config_recorded(CHAIN_ID);
	config_add_token(c, "USDC", &usdc, 6);
	config_add_token(c, "USDT", &usdt, 6);
	c->finality = policy_of(policy);
	c->witness = (enum witness_policy)witness->arg[0];
	c->missing_after_s = limits->arg[0];
	c->early_s = limits->arg[1];
	c->tag_settle_ms = limits->arg[2];
	c->tag_depth_blocks = (uint64_t)limits->arg[3];
	c->far_blocks = (uint64_t)limits->arg[4];
	/* A block waits for a balance for a while, or until it failed twice; some give it up soon. */
	c->balance_wait_ms = r->plan.seed % 3 ? 2000 : 0;
	c->keep_state_blocks = r->plan.seed % 4 ? 128 : KEEP_STATE_SHORT;
	c->poll_ms = 12000;
	c->promote_slice = 3;
}

/* The process: it lives and dies. */

static enum err on_store(void *ctx, enum kv_point point)
{
	struct run *r = ctx;
	bool now = false;

	if (point == KV_BEFORE_PUT)
		return r->dead ? E_IO : OK;
	if (point == KV_BEFORE_COMMIT) {
		if (r->dead)
			return E_IO;
		if (r->crash_commits && --r->crash_commits == 0)
			now = true;
		r->dead = now && !r->crash_after;
		return r->dead ? E_IO : OK;
	}
	watch_commit(r);
	r->dead = r->crash_after && r->crash_ms && r->crash_commits == 0;
	return OK;
}

static bool open_store(struct run *r)
{
	struct store_options options = { .map_bytes = 4 << 20 };
	struct complaint why;

	if (store_open(r->dir, &options, &r->kv, &why)) {
		violate(r, "open", "%s", why.text);
		return false;
	}
	kv_set_hook(r->kv, (struct kv_hook){ on_store, r });
	return true;
}

static void bury(struct run *r)
{
	r->tally[TALLY_CRASHES]++;
	kv_close(r->kv);
	r->kv = NULL;
	r->up = r->dead = false;
	r->restart_ms = r->world.now_ms + r->crash_ms;
	r->crash_ms = r->crash_commits = 0;
	r->watch.epoch++;
}

static void stop(struct run *r)
{
	r->tracker.stopped = true;
	world_forget_process(&r->world);
	tracker_stop(&r->tracker);
}

static void start(struct run *r)
{
	static const struct endpoint_urls urls[] = { { "sim:0", "sim:0" }, { "sim:1", "sim:1" }, { "sim:2", "sim:2" } };
	struct tracker_watcher watcher = { .ctx = r };
	struct complaint why;

	if (!open_store(r))
		return;
	if (tracker_start(&r->tracker, &r->world.loop, r->kv, urls, r->world.endpoint_count, &r->config, &watcher, &why)) {
		if (r->dead)
			bury(r);
		else
			violate(r, "start", "%s", why.text);
		return;
	}
	r->up = true;
	if (r->dead) {
		stop(r);
		bury(r);
	}
}

static void accept_body(struct kv_txn *t, void *ctx)
{
	struct run *r = ctx;
	int head = tree_head(&r->tree, r->world.now_ms);

	tracker_accept(t, &r->config, &r->tree.blocks[head].hash);
}

/* The operator looks until the chain is latched, and accepts. */
static void accept(struct run *r, const struct item *it)
{
	int tip = tree_find(&r->tree, &r->watch.chain.tip_hash);

	if (!r->up || !r->watch.chain.latched) {
		if (!tree_is_ancestor(&r->tree, tip, tree_last(&r->tree)))
			world_again(&r->world, it, r->world.now_ms + 12000);
		return;
	}
	if (kv_write(r->kv, accept_body, r) && !r->dead)
		violate(r, "request", "accept");
	else if (!r->dead)
		tracker_look_again(&r->tracker);
	world_again(&r->world, it, r->world.now_ms + 12000);
}

static void on_item(void *ctx, const struct item *it)
{
	struct run *r = ctx;

	if (it->kind == ITEM_ACCEPT) {
		accept(r, it);
		return;
	}
	if (it->kind != ITEM_CRASH) {
		run_ask(r, it);
		return;
	}
	r->crash_after = it->arg[0] != 0;
	r->crash_commits = (unsigned)it->arg[1];
	r->crash_ms = it->arg[2];
}

/* Turns. */

static void run_until(struct run *r, int64_t end_ms)
{
	bool more = true;

	while (more && !r->violated && r->world.now_ms < end_ms) {
		if (!r->up && world_next_ms(&r->world) > r->restart_ms) {
			if (r->world.now_ms < r->restart_ms)
				r->world.now_ms = r->restart_ms;
			start(r);
			continue;
		}
		more = world_step(&r->world);
		if (r->up && r->dead) {
			stop(r);
			bury(r);
		} else if (r->up && r->tracker.stopped) {
			violate(r, "stopped", "the tracker stopped: %s", err_name(r->tracker.err));
		}
	}
}

/* A person decides over some of what is left. */
static void decide_some(struct run *r)
{
	uint64_t c = r->plan.seed;

	for (int i = 0; i < INTENTS_MAX && !r->violated && r->up; i++) {
		struct item it = { .kind = ITEM_DECIDE, .arg = { i, (int64_t)chance_below(&c, 2), -1 } };

		if (r->watch.intents[i].intent.state == INTENT_NEEDS_REVIEW && chance_of(&c, 40))
			run_ask(r, &it);
	}
}

static void check_left(struct run *r)
{
	struct kv_txn t = kv_begin_read(r->kv);

	if (kv_count(&t, T_LOOKUP))
		violate(r, "lookup", "a lookup is never worked off");
	if (kv_count(&t, T_PENDING))
		violate(r, "pending", "%llu sightings are never final", (unsigned long long)kv_count(&t, T_PENDING));
	if (kv_end_read(&t))
		violate(r, "read", "the store cannot be read");
}

static void check_whole(struct run *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct complaint why = { .text = "" };
	enum err err = check_store(r->dir, out, &why);

	fclose(out);
	if (err)
		violate(r, "check", "%s%.500s", why.text, text);
	free(text);
}

static struct hash32 digest_events(struct run *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	struct buf all = { 0 };
	struct slice body;
	struct hash32 h;

	for (uint64_t n = 1; n <= outbox_last(&t) && outbox_get(&t, n, &body); n++)
		buf_put(&all, body.data, body.len);
	h = keccak256(all.len ? (const void *)all.data : "", all.len);
	buf_free(&all);
	if (kv_end_read(&t))
		violate(r, "read", "the store cannot be read");
	return h;
}

static void remove_store(const char *dir)
{
	static const char *const files[] = { "tidemark.mdb", "tidemark.mdb-lock", "tidemark.lock" };
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
}

static void live(struct run *r, int64_t end_ms, bool digest, struct run_result *out)
{
	start(r);
	run_until(r, end_ms);
	if (!r->violated && r->up) {
		oracle_judge(r);
		check_left(r);
		decide_some(r);
		run_until(r, r->world.now_ms + 15000);
		if (!r->violated)
			oracle_judge_owners(r);
	}
	if (digest && r->kv)
		out->digest = digest_events(r);
	if (r->up)
		stop(r);
	if (r->kv)
		kv_close(r->kv);
	if (!r->violated)
		check_whole(r);
}

void run_plan(const struct plan *p, const char *dir, uint64_t *tally, bool digest, struct run_result *out)
{
	struct run *r = xcalloc(1, sizeof(*r));
	struct complaint why;
	int64_t end_ms;

	*out = (struct run_result){ .violated = false };
	r->tally = tally;
	r->dir = dir;
	r->watch.epoch = 1;
	remove_store(dir);
	plan_copy(p, &r->plan);
	end_ms = add_quiet_end(&r->plan);
	configure(r);
	if (tree_build(&r->tree, &r->plan, &why)) {
		violate(r, "plan", "%s", why.text);
	} else {
		world_init(&r->world, &r->plan, &r->tree, tally);
		r->world.on_item = on_item;
		r->world.ctx = r;
		live(r, end_ms, digest, out);
		world_free(&r->world);
	}
	out->violated = r->violated;
	memcpy(out->what, r->what, sizeof(out->what));
	memcpy(out->text, r->text, sizeof(out->text));
	buf_free(&r->watch.ids);
	tree_free(&r->tree);
	plan_free(&r->plan);
	remove_store(dir);
	free(r);
}
