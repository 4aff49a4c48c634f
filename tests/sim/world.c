#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

const char *const tally_names[TALLIES] = {
	"blocks applied", "reorgs of depth 1", "reorgs of depth 2-5", "reorgs of depth 6-12", "reorgs of depth 13+",
	"returns to a tip left", "requests", "unreachable", "null", "empty", "another's answer", "error", "lost", "late",
	"tampered", "stale", "garbage", "wrong finalized", "stray views", "sockets closed", "heads mistold", "crashes",
	"commits", "events", "balances late", "settled", "needs_review", "put back", "replaced", "unmatched", "ambiguous",
	"decided by a person", "failed or canceled", "latched", "reversed", "ends known exactly", "ends known loosely",
};

static struct world *world_of(struct loop *loop)
{
	return (struct world *)loop;
}

/* The queue: a heap by time, then by the order of adding. */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void swap(struct event *a, struct event *b)
{
	struct event c = *a;

	*a = *b;
	*b = c;
}

static struct event *push(struct world *w, const struct event *e, int64_t at_ms)
{
	size_t at = w->count++;

	if (w->count > w->cap) {
		w->cap = w->cap ? w->cap * 2 : 256;
		w->heap = xrealloc(w->heap, w->cap * sizeof(*w->heap));
	}
	w->heap[at] = *e;
	w->heap[at].at_ms = at_ms;
	w->heap[at].sequence = w->sequence++;
	for (; at > 0 && is_before(&w->heap[at], &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
		swap(&w->heap[at], &w->heap[(at - 1) / 2]);
	return &w->heap[at];
}

static struct event pop(struct world *w)
{
	struct event top = w->heap[0];
	size_t at = 0;

	w->heap[0] = w->heap[--w->count];
	while (2 * at + 1 < w->count) {
		size_t child = 2 * at + 1;

		if (child + 1 < w->count && is_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!is_before(&w->heap[child], &w->heap[at]))
			break;
		swap(&w->heap[at], &w->heap[child]);
		at = child;
	}
	return top;
}

static int64_t latency(struct world *w)
{
	return chance_of(&w->chance, 5) ? (int64_t)chance_below(&w->chance, 2000)
					: 5 + (int64_t)chance_below(&w->chance, 80);
}

/* The loop. */

static int64_t world_now_ms(struct loop *loop)
{
	return START_MS + world_of(loop)->now_ms;
}

static uint64_t world_random(struct loop *loop)
{
	return chance(&world_of(loop)->chance);
}

static void world_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at = &world_of(loop)->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->set = false;
}

static void world_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms)
{
	struct loop_timer **at = &world_of(loop)->timers;

	world_timer_cancel(loop, timer);
	while (*at && (*at)->at_ms <= at_ms)
		at = &(*at)->next;
	timer->at_ms = at_ms;
	timer->set = true;
	timer->next = *at;
	*at = timer;
}

static bool is_down(const struct world *w, const struct endpoint *e)
{
	return e->down_until_ms > w->now_ms;
}

/* "sim:1" */
static unsigned endpoint_of(const char *url)
{
	return (unsigned)(url[4] - '0');
}

/* The answer is what the endpoint knows when it is asked; it comes later. */
static void world_post(struct loop *loop, struct loop_post *post)
{
	struct world *w = world_of(loop);
	struct event e = { .kind = EVENT_ANSWER, .endpoint = endpoint_of(post->url), .post = post,
			   .end = LOOP_ANSWERED };
	int64_t delay_ms = latency(w);

	w->tally[TALLY_REQUESTS]++;
	if (is_down(w, &w->endpoints[e.endpoint])) {
		bool silent = w->endpoints[e.endpoint].silent;

		e.end = silent ? LOOP_TIMED_OUT : LOOP_UNREACHABLE;
		delay_ms = silent ? post->timeout_ms : delay_ms;
		w->tally[TALLY_UNREACHABLE]++;
	} else if (!node_answer(w, e.endpoint, post->body, &e.text, &delay_ms)) {
		e.end = LOOP_TIMED_OUT;
		delay_ms = post->timeout_ms;
	}
	if (delay_ms >= post->timeout_ms) {
		e.end = LOOP_TIMED_OUT;
		delay_ms = post->timeout_ms;
	}
	push(w, &e, w->now_ms + delay_ms);
}

static void world_post_cancel(struct loop *loop, struct loop_post *post)
{
	(void)loop;
	(void)post;
}

static void world_socket_open(struct loop *loop, struct loop_socket *socket)
{
	struct world *w = world_of(loop);
	unsigned index = endpoint_of(socket->url);
	struct endpoint *e = &w->endpoints[index];
	struct event ev = { .kind = is_down(w, e) ? EVENT_CLOSED : EVENT_OPENED, .endpoint = index };

	e->socket = socket;
	e->subscribed = false;
	ev.generation = ++e->generation;
	push(w, &ev, w->now_ms + latency(w));
}

static void world_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text)
{
	struct world *w = world_of(loop);
	unsigned index = endpoint_of(socket->url);
	struct endpoint *e = &w->endpoints[index];

	(void)text;
	e->subscribed = true;
	e->announced = node_head(w, index);
}

static void world_socket_close(struct loop *loop, struct loop_socket *socket)
{
	struct endpoint *e = &world_of(loop)->endpoints[endpoint_of(socket->url)];

	socket->open = false;
	e->socket = NULL;
	e->subscribed = false;
	e->generation++;
}

static const struct loop_ops world_ops = {
	.now_ms = world_now_ms,
	.steady_ms = world_now_ms,
	.random = world_random,
	.timer_set = world_timer_set,
	.timer_cancel = world_timer_cancel,
	.post = world_post,
	.post_cancel = world_post_cancel,
	.socket_open = world_socket_open,
	.socket_send = world_socket_send,
	.socket_close = world_socket_close,
};

/* Announcements. */

static void say(struct world *w, unsigned index, int block, int64_t delay_ms)
{
	struct endpoint *e = &w->endpoints[index];
	bool mistold = e->news_until_ms > w->now_ms && chance_of(&w->chance, 60);
	unsigned times = mistold && e->news == NEWS_REPEATED ? 3 : 1;
	char hash[HASH_TEXT];

	w->tally[TALLY_NEWS] += mistold;
	if (mistold && e->news == NEWS_SKIPPED)
		return;
	for (unsigned i = 0; i < times; i++) {
		struct event ev = { .kind = EVENT_MESSAGE, .endpoint = index, .generation = e->generation };

		buf_put_text(&ev.text, "{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":"
				       "{\"subscription\":\"0x1\",\"result\":");
		if (mistold && e->news == NEWS_BARE)
			buf_printf(&ev.text, "{\"hash\":\"%s\"}", hash_format(&w->tree->blocks[block].hash, hash));
		else
			node_put_block(w, block, &ev.text);
		if (!mistold || e->news != NEWS_BROKEN)
			buf_put_text(&ev.text, "}}");
		if (mistold && e->news == NEWS_DELAYED)
			delay_ms += (int64_t)chance_below(&w->chance, 40000);
		push(w, &ev, w->now_ms + delay_ms + (int64_t)i * 300);
	}
}

/* Its head moved, perhaps.  A rewind to an ancestor is silent, as it is after debug_setHead. */
static void look(struct world *w, unsigned index)
{
	struct endpoint *e = &w->endpoints[index];
	int head = node_head(w, index), path[BLOCKS_MAX], count = 0;

	if (!e->subscribed || is_down(w, e) || head < 0 || head == e->announced)
		return;
	if (!tree_is_ancestor(w->tree, head, e->announced)) {
		path[count++] = head;
		for (int b = w->tree->blocks[head].parent;
		     e->announces_all && b >= 0 && !tree_is_ancestor(w->tree, b, e->announced); b = w->tree->blocks[b].parent)
			path[count++] = b;
		while (count-- > 0)
			say(w, index, path[count], latency(w));
	}
	e->announced = head;
}

static void look_at(struct world *w, unsigned index, int64_t at_ms)
{
	struct event ev = { .kind = EVENT_LOOK, .endpoint = index };

	push(w, &ev, at_ms < w->now_ms ? w->now_ms : at_ms);
}

static void close_socket(struct world *w, unsigned index)
{
	struct endpoint *e = &w->endpoints[index];
	struct event ev = { .kind = EVENT_CLOSED, .endpoint = index };

	if (!e->socket)
		return;
	ev.generation = ++e->generation;
	e->subscribed = false;
	w->tally[TALLY_CLOSED]++;
	push(w, &ev, w->now_ms + 1);
}

/* The plan's facts that are the world's own. */

static void add_fault(struct world *w, struct endpoint *e, const struct item *it)
{
	e->faults[e->next_fault++ % FAULTS_MAX] = (struct fault){
		(enum method)it->arg[1], (enum answer)it->arg[2], (unsigned)it->arg[3], w->now_ms + it->arg[4],
	};
}

static bool work_item(struct world *w, const struct item *it)
{
	unsigned index = (unsigned)it->arg[0];
	struct endpoint *e = index < ENDPOINTS_MAX ? &w->endpoints[index] : NULL;

	switch (it->kind) {
	case ITEM_HEAD:
		for (unsigned i = 0; i < w->endpoint_count; i++)
			look_at(w, i, it->at_ms + w->endpoints[i].lag_ms);
		return true;
	case ITEM_VIEW:
		e->view = (int)it->arg[1];
		e->view_until_ms = w->now_ms + it->arg[2];
		w->tally[TALLY_STRAYS]++;
		look_at(w, index, w->now_ms);
		look_at(w, index, e->view_until_ms);
		return true;
	case ITEM_LIE:
		e->lie = (int)it->arg[1];
		e->lie_until_ms = w->now_ms + it->arg[2];
		w->tally[TALLY_LIES]++;
		return true;
	case ITEM_FAULT:
		add_fault(w, e, it);
		return true;
	case ITEM_DOWN:
		e->silent = it->arg[1] != 0;
		e->down_until_ms = w->now_ms + it->arg[2];
		if (!e->silent)
			close_socket(w, index);
		return true;
	case ITEM_CLOSE:
		close_socket(w, index);
		return true;
	case ITEM_NEWS:
		e->news = (enum news_mode)it->arg[1];
		e->news_until_ms = w->now_ms + it->arg[2];
		return true;
	case ITEM_FINAL:
	case ITEM_BLOCK:
		return true;
	default:
		return false;
	}
}

/* Steps. */

static bool is_current(const struct world *w, const struct event *ev)
{
	const struct endpoint *e = &w->endpoints[ev->endpoint];

	return e->socket && e->generation == ev->generation;
}

static void happen(struct world *w, struct event *ev)
{
	struct loop_socket *socket = w->endpoints[ev->endpoint].socket;

	switch (ev->kind) {
	case EVENT_ANSWER:
		ev->post->done(ev->post, ev->end, 200, ev->end == LOOP_ANSWERED ? buf_slice(&ev->text) : (struct slice){ 0 });
		return;
	case EVENT_OPENED:
		if (!is_current(w, ev))
			return;
		socket->open = true;
		socket->opened(socket);
		return;
	case EVENT_CLOSED:
		if (!is_current(w, ev))
			return;
		socket->open = false;
		w->endpoints[ev->endpoint].socket = NULL;
		socket->closed(socket);
		return;
	case EVENT_MESSAGE:
		if (is_current(w, ev))
			socket->message(socket, buf_slice(&ev->text));
		return;
	case EVENT_ITEM:
		if (!work_item(w, &w->plan->items[ev->item]))
			w->on_item(w->ctx, &w->plan->items[ev->item]);
		return;
	case EVENT_LOOK:
		look(w, ev->endpoint);
		return;
	}
}

int64_t world_next_ms(const struct world *w)
{
	int64_t next = w->count ? w->heap[0].at_ms : INT64_MAX;

	if (w->timers && w->timers->at_ms - START_MS < next)
		next = w->timers->at_ms - START_MS;
	return next;
}

bool world_step(struct world *w)
{
	struct loop_timer *timer = w->timers;
	struct event ev;

	if (timer && (!w->count || timer->at_ms - START_MS <= w->heap[0].at_ms)) {
		if (timer->at_ms - START_MS > w->now_ms)
			w->now_ms = timer->at_ms - START_MS;
		world_timer_cancel(&w->loop, timer);
		timer->fire(timer);
		return true;
	}
	if (!w->count)
		return false;
	ev = pop(w);
	if (ev.at_ms > w->now_ms)
		w->now_ms = ev.at_ms;
	happen(w, &ev);
	buf_free(&ev.text);
	return true;
}

void world_again(struct world *w, const struct item *item, int64_t at_ms)
{
	struct event ev = { .kind = EVENT_ITEM, .item = (size_t)(item - w->plan->items) };

	push(w, &ev, at_ms);
}

void world_forget_process(struct world *w)
{
	struct event *all = w->heap;
	size_t count = w->count;

	w->heap = NULL;
	w->count = w->cap = 0;
	w->timers = NULL;
	for (unsigned i = 0; i < w->endpoint_count; i++) {
		w->endpoints[i].socket = NULL;
		w->endpoints[i].subscribed = false;
	}
	for (size_t i = 0; i < count; i++) {
		if (all[i].kind == EVENT_ITEM || all[i].kind == EVENT_LOOK) {
			uint64_t sequence = w->sequence;

			w->sequence = all[i].sequence;
			push(w, &all[i], all[i].at_ms);
			w->sequence = sequence;
			continue;
		}
		if (all[i].kind == EVENT_ANSWER)
			all[i].post->done(all[i].post, LOOP_CANCELED, 0, (struct slice){ 0 });
		buf_free(&all[i].text);
	}
	free(all);
}

void world_init(struct world *w, const struct plan *p, const struct tree *t, uint64_t *tally)
{
	*w = (struct world){ .loop.ops = &world_ops, .chance = p->seed * 7 + 1, .plan = p, .tree = t, .tally = tally };
	for (size_t i = 0; i < p->count; i++) {
		const struct item *it = &p->items[i];

		if (it->kind == ITEM_ENDPOINT) {
			struct endpoint *e = &w->endpoints[it->arg[0]];

			*e = (struct endpoint){ .lag_ms = it->arg[1], .forgets = it->arg[2] != 0,
						.announces_all = it->arg[3] != 0, .announced = -1 };
			w->endpoint_count++;
		} else if (it->kind >= ITEM_HEAD) {
			world_again(w, it, it->at_ms < 0 ? 0 : it->at_ms);
		}
	}
}

void world_free(struct world *w)
{
	for (size_t i = 0; i < w->count; i++)
		buf_free(&w->heap[i].text);
	free(w->heap);
}
