#include "tests/sim/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each number names: e endpoint, i intent, b block, t transaction, . a plain number. */
static const struct {
	const char *name;
	const char *args;
} kinds[ITEM_KINDS] = {
	[ITEM_POLICY] = { "policy", "..." },
	[ITEM_WITNESS] = { "witness", "." },
	[ITEM_LIMITS] = { "limits", "....." },
	[ITEM_ENDPOINT] = { "endpoint", "e..." },
	[ITEM_TX] = { "tx", "t." },
	[ITEM_LOG] = { "log", "t....." },
	[ITEM_BLOCK] = { "block", "bb" },
	[ITEM_HEAD] = { "head", "b" },
	[ITEM_FINAL] = { "final", "b" },
	[ITEM_VIEW] = { "view", "eb." },
	[ITEM_LIE] = { "lie", "eb." },
	[ITEM_FAULT] = { "fault", "e...." },
	[ITEM_DOWN] = { "down", "e.." },
	[ITEM_CLOSE] = { "close", "e" },
	[ITEM_NEWS] = { "news", "e.." },
	[ITEM_CRASH] = { "crash", "..." },
	[ITEM_INTENT] = { "intent", "i......." },
	[ITEM_OPEN] = { "open", "i" },
	[ITEM_ATTEMPT] = { "attempt", "it" },
	[ITEM_CONFIRM] = { "confirm", "it" },
	[ITEM_FAIL] = { "fail", "i" },
	[ITEM_CANCEL] = { "cancel", "i" },
	[ITEM_DECIDE] = { "decide", "i.t" },
	[ITEM_ACCEPT] = { "accept", "b" },
};

uint64_t chance(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

const char *plan_kind_name(enum item_kind kind)
{
	return kinds[kind].name;
}

void plan_free(struct plan *p)
{
	free(p->items);
	*p = (struct plan){ 0 };
}

void plan_copy(const struct plan *p, struct plan *out)
{
	*out = (struct plan){ p->seed, xcalloc(p->count + 1, sizeof(*p->items)), p->count, p->count };
	memcpy(out->items, p->items, p->count * sizeof(*p->items));
}

struct item *plan_add(struct plan *p, enum item_kind kind, int64_t at_ms)
{
	struct item *item;

	if (p->count >= p->cap) {
		p->cap = p->cap ? p->cap * 2 : 128;
		p->items = xrealloc(p->items, p->cap * sizeof(*p->items));
	}
	item = &p->items[p->count++];
	*item = (struct item){ .kind = kind, .at_ms = at_ms };
	return item;
}

int64_t plan_end_ms(const struct plan *p)
{
	int64_t end = 0;

	for (size_t i = 0; i < p->count; i++) {
		const struct item *it = &p->items[i];
		size_t last = strlen(kinds[it->kind].args) - 1;
		int64_t at = it->at_ms;

		if (it->kind == ITEM_VIEW || it->kind == ITEM_LIE || it->kind == ITEM_FAULT || it->kind == ITEM_DOWN ||
		    it->kind == ITEM_NEWS || it->kind == ITEM_CRASH)
			at += it->arg[last];
		if (at > end)
			end = at;
	}
	return end;
}

/* Text. */

void plan_print(const struct plan *p, struct buf *out)
{
	buf_printf(out, "seed %" PRIu64 "\n", p->seed);
	for (size_t i = 0; i < p->count; i++) {
		const struct item *it = &p->items[i];

		buf_printf(out, "%s %" PRId64, kinds[it->kind].name, it->at_ms);
		for (size_t a = 0; kinds[it->kind].args[a]; a++)
			buf_printf(out, " %" PRId64, it->arg[a]);
		for (unsigned t = 0; t < it->tx_count; t++)
			buf_printf(out, "%s %u", t ? "" : " :", it->txs[t]);
		buf_put_u8(out, '\n');
	}
}

static bool in_range(char what, int64_t v)
{
	switch (what) {
	case 'e':
		return v >= 0 && v < ENDPOINTS_MAX;
	case 'i':
		return v >= 0 && v < INTENTS_MAX;
	case 'b':
		return v >= -1 && v < BLOCKS_MAX;
	case 't':
		return v >= -1 && v < TXS_MAX;
	default:
		return true;
	}
}

static bool parse_item(char *line, struct plan *out)
{
	char *at = strchr(line, ' '), *end;
	struct item *it;
	int kind = 0;

	if (!at)
		return false;
	*at++ = '\0';
	while (kind < ITEM_KINDS && strcmp(kinds[kind].name, line) != 0)
		kind++;
	if (kind == ITEM_KINDS)
		return false;
	it = plan_add(out, (enum item_kind)kind, strtoll(at, &end, 10));
	for (size_t a = 0; kinds[kind].args[a]; a++) {
		at = end;
		it->arg[a] = strtoll(at, &end, 10);
		if (end == at || !in_range(kinds[kind].args[a], it->arg[a]))
			return false;
	}
	at = strchr(end, ':');
	for (at = at ? at + 1 : end; it->tx_count < ITEM_TXS; at = end) {
		long tx = strtol(at, &end, 10);

		if (end == at)
			break;
		if (tx < 0 || !in_range('t', tx))
			return false;
		it->txs[it->tx_count++] = (uint8_t)tx;
	}
	return true;
}

enum err plan_parse(struct slice text, struct plan *out, struct complaint *why)
{
	char *copy = xcalloc(text.len + 1, 1), *save = NULL;
	unsigned number = 0;
	enum err err = OK;

	*out = (struct plan){ 0 };
	memcpy(copy, text.data, text.len);
	for (char *line = strtok_r(copy, "\n", &save); line && !err; line = strtok_r(NULL, "\n", &save)) {
		number++;
		if (line[0] == '#')
			continue;
		if (strncmp(line, "seed ", 5) == 0)
			out->seed = strtoull(line + 5, NULL, 10);
		else if (!parse_item(line, out))
			err = complain(why, E_INPUT, "line %u of the plan is not understood", number);
	}
	free(copy);
	if (err)
		plan_free(out);
	return err;
}

/* Dropping. */

static void erase(struct plan *p, size_t at)
{
	memmove(p->items + at, p->items + at + 1, (p->count - at - 1) * sizeof(*p->items));
	p->count--;
}

static bool names(const struct item *it, char what, int64_t id)
{
	const char *args = kinds[it->kind].args;

	for (size_t a = 0; args[a]; a++) {
		if (args[a] == what && it->arg[a] == id)
			return true;
	}
	return false;
}

static void erase_all(struct plan *p, char what, int64_t id)
{
	for (size_t i = p->count; i-- > 0;) {
		if (names(&p->items[i], what, id))
			erase(p, i);
	}
}

static void rename_all(struct plan *p, char what, int64_t from, int64_t to)
{
	for (size_t i = 0; i < p->count; i++) {
		const char *args = kinds[p->items[i].kind].args;

		for (size_t a = 0; args[a]; a++) {
			if (args[a] == what && p->items[i].arg[a] == from)
				p->items[i].arg[a] = to;
		}
	}
}

static void drop_tx(struct plan *p, int64_t tx)
{
	for (size_t i = 0; i < p->count; i++) {
		struct item *it = &p->items[i];

		for (unsigned t = it->tx_count; t-- > 0;) {
			if (it->txs[t] != tx)
				continue;
			memmove(it->txs + t, it->txs + t + 1, it->tx_count - t - 1);
			it->tx_count--;
		}
	}
	erase_all(p, 't', tx);
}

static size_t count_kind(const struct plan *p, enum item_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		n += p->items[i].kind == kind;
	return n;
}

/* The ids of endpoints have no gap. */
static bool drop_endpoint(struct plan *p, int64_t id)
{
	if (count_kind(p, ITEM_ENDPOINT) == 1)
		return false;
	erase_all(p, 'e', id);
	for (int64_t next = id + 1; next < ENDPOINTS_MAX; next++)
		rename_all(p, 'e', next, next - 1);
	return true;
}

static bool drop_block(struct plan *p, size_t at)
{
	int64_t id = p->items[at].arg[0], parent = p->items[at].arg[1];

	if (parent < 0)
		return false;
	erase(p, at);
	rename_all(p, 'b', id, parent);
	return true;
}

bool plan_drop(struct plan *p, size_t at)
{
	const struct item *it = &p->items[at];

	switch (it->kind) {
	case ITEM_POLICY:
	case ITEM_WITNESS:
	case ITEM_LIMITS:
		return false;
	case ITEM_ENDPOINT:
		return drop_endpoint(p, it->arg[0]);
	case ITEM_TX:
		drop_tx(p, it->arg[0]);
		return true;
	case ITEM_BLOCK:
		return drop_block(p, at);
	case ITEM_INTENT:
		erase_all(p, 'i', it->arg[0]);
		return true;
	default:
		erase(p, at);
		return true;
	}
}
