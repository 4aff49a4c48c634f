#include "listener/check_parts.h"

#include "common/json.h"

#include <stdlib.h>
#include <string.h>

#define ULL(v) ((unsigned long long)(v))
#define EVENT_ID_TEXT 28	/* "ev_", 24 digits, NUL */
#define TYPE_MAX 48

/* What an event says of itself. */
struct said {
	char type[TYPE_MAX];
	char id[EVENT_ID_TEXT];
	uint64_t sequence;
	uint64_t event_number;
	bool about_intent;
	char intent[INTENT_ID_MAX];
	char state[TYPE_MAX];
	uint64_t version;
	uint64_t chain;			/* of one about a chain */
};

static void copy_text(char *out, size_t cap, struct json j)
{
	const char *text = json_text(j);

	if (strlen(text) >= cap)
		json_complain(j, "too long");
	snprintf(out, cap, "%s", text);
}

static void read_members(struct json root, struct said *out)
{
	struct json data = json_member(root, "data"), intent = json_maybe(data, "intent");

	copy_text(out->type, sizeof(out->type), json_member(root, "type"));
	json_time_ms(json_member(root, "timestamp"));
	copy_text(out->id, sizeof(out->id), json_member(data, "id"));
	out->sequence = json_u64(json_member(data, "sequence"));
	out->event_number = json_u64(json_member(data, "event_number"));
	out->about_intent = json_has(data, "intent");
	if (!out->about_intent) {
		out->chain = json_u64(json_member(data, "chain_id"));
		return;
	}
	copy_text(out->intent, sizeof(out->intent), json_member(intent, "id"));
	copy_text(out->state, sizeof(out->state), json_member(intent, "state"));
	out->version = json_u64(json_member(intent, "version"));
}

static bool read_event(struct slice body, struct said *out, struct complaint *why)
{
	struct json_doc *doc = json_open(body, why);
	enum err err;

	*out = (struct said){ .sequence = 0 };
	if (!doc)
		return false;
	read_members(json_root(doc), out);
	err = json_finish(doc, why);
	json_close(doc);
	return err == OK;
}

/* The ledger agrees with the settlements. */

static void check_ledger_event(struct check *c, const struct intent *i, const struct ledger_row *l)
{
	const char *want = l->kind == LEDGER_SETTLEMENT ? "intent.settled" : "intent.reversed";
	struct key key = key_u64(l->event);
	struct complaint why;
	struct slice body;
	struct said said;

	if (!check_get(c, T_EVENT, &key, &body) || !read_event(body, &said, &why))
		return;		/* that event has its own line */
	if (strcmp(said.type, want) != 0 || strcmp(said.intent, i->id) != 0)
		check_fault(c, "intent %s: the ledger names event %llu, which is no %s of it", i->id, ULL(l->event), want);
}

static void check_ledger_row(struct check *c, const struct intent *i, uint32_t n, const struct ledger_row *l)
{
	if (l->chain_id != i->chain_id || !address_eq(&l->token, &i->token) ||
	    u256_cmp(&l->amount, &i->amount) != 0 || !address_eq(&l->payee, &i->payee) ||
	    l->has_tx != i->has_tx || !hash_eq(&l->tx_hash, &i->tx_hash))
		check_fault(c, "intent %s: ledger row %u is of another payment", i->id, n);
	check_ledger_event(c, i, l);
}

void check_ledger(struct check *c, const struct intent *i)
{
	struct check_walk w = { .table = T_LEDGER, .prefix = key_u64(i->row) };
	int balance = 0, want = i->state == INTENT_SETTLED && !i->reversed;
	uint32_t rows = 0;
	struct ledger_row l;

	while (check_next(c, &w, &l)) {
		uint32_t n = be32_get(w.at.key + 8);

		if (n != rows)
			check_fault(c, "intent %s: ledger row %u is missing", i->id, rows);
		rows = n + 1;
		balance += l.kind == LEDGER_SETTLEMENT ? 1 : -1;
		check_ledger_row(c, i, n, &l);
	}
	if (i->state != INTENT_SETTLED && rows)
		check_fault(c, "intent %s: %s, but the ledger has it", i->id, intent_state_name(i->state));
	else if (balance != want)
		check_fault(c, "intent %s: %s, but its ledger's balance is %d, not %d", i->id,
			    i->reversed ? "reversed" : "settled", balance, want);
}

/* What the events must add up to: a tally of each intent and each chain. */

struct tally {
	char name[INTENT_ID_MAX];	/* the intent's id, or the chain's number */
	uint64_t key;			/* the intent's row, or the chain */
	uint64_t events;		/* the number of the last one */
	uint64_t moves;			/* of an intent: the version of the last one */
};

struct tallies {
	struct tally *at;		/* by name */
	size_t count;
};

struct event_id {
	char text[EVENT_ID_TEXT];
	uint64_t sequence;
};

struct events {
	struct check *check;
	struct tallies intents, chains;
	struct event_id *ids;
	size_t id_count;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tally *)a)->name, ((const struct tally *)b)->name);
}

static struct tally *add_tally(struct tallies *t, uint64_t key)
{
	t->at[t->count].key = key;
	return &t->at[t->count++];
}

/* Intents are found by the id that they have themselves: the index may be what is at fault. */
static void tally_intents(struct check *c, struct tallies *t)
{
	struct check_walk w = { .table = T_INTENT };
	struct intent i;

	t->at = xcalloc(kv_count(c->t, T_INTENT) + 1, sizeof(*t->at));
	while (check_next(c, &w, &i))
		memcpy(add_tally(t, be64_get(w.at.key))->name, i.id, sizeof(i.id));
	qsort(t->at, t->count, sizeof(*t->at), by_name);
}

static void tally_chains(struct check *c, struct tallies *t)
{
	struct check_walk w = { .table = T_CHAIN };

	t->at = xcalloc(kv_count(c->t, T_CHAIN) + 1, sizeof(*t->at));
	while (check_next(c, &w, NULL))
		snprintf(add_tally(t, be64_get(w.at.key))->name, INTENT_ID_MAX, "%llu", ULL(be64_get(w.at.key)));
	qsort(t->at, t->count, sizeof(*t->at), by_name);
}

static struct tally *tally_of(struct events *e, const struct said *s)
{
	const struct tallies *t = s->about_intent ? &e->intents : &e->chains;
	struct tally key = { .events = 0 };

	if (s->about_intent)
		memcpy(key.name, s->intent, sizeof(s->intent));
	else
		snprintf(key.name, sizeof(key.name), "%llu", ULL(s->chain));
	return bsearch(&key, t->at, t->count, sizeof(*t->at), by_name);
}

/* One version of the intent, one event of it. */
static void check_move_event(struct events *e, uint64_t sequence, const struct said *s, struct tally *tally)
{
	struct key key;
	struct history_row h;
	bool is_move = strncmp(s->type, "intent.", 7) == 0 && strcmp(s->type + 7, s->state) == 0;

	tally->moves += is_move;
	key = key_history(tally->key, s->version);
	if (s->version != tally->moves)
		check_fault(e->check, "event %llu: intent %s at version %llu, want %llu", ULL(sequence), s->intent,
			    ULL(s->version), ULL(tally->moves));
	else if (check_get(e->check, T_HISTORY, &key, &h) && strcmp(s->state, intent_state_name(h.to)) != 0)
		check_fault(e->check, "event %llu: intent %s is %s, its history says %s", ULL(sequence), s->intent,
			    s->state, intent_state_name(h.to));
	tally->moves = s->version;
}

static void check_event(struct events *e, uint64_t sequence, const struct said *s)
{
	struct tally *tally = tally_of(e, s);

	if (strncmp(s->id, "ev_", 3) != 0 || strlen(s->id) != EVENT_ID_TEXT - 1)
		check_fault(e->check, "event %llu: \"%s\" is no id", ULL(sequence), s->id);
	if (s->sequence != sequence)
		check_fault(e->check, "event %llu: says that it is %llu", ULL(sequence), ULL(s->sequence));
	if (!tally) {
		check_fault(e->check, "event %llu: of no intent and no chain that is known", ULL(sequence));
		return;
	}
	if (s->event_number != tally->events + 1)
		check_fault(e->check, "event %llu: number %llu of its intent or chain, want %llu", ULL(sequence),
			    ULL(s->event_number), ULL(tally->events) + 1);
	tally->events = s->event_number;
	if (s->about_intent)
		check_move_event(e, sequence, s, tally);
}

static int by_id(const void *a, const void *b)
{
	const struct event_id *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	return order ? order : x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static void check_ids_unique(struct events *e)
{
	qsort(e->ids, e->id_count, sizeof(*e->ids), by_id);
	for (size_t i = 1; i < e->id_count; i++) {
		if (strcmp(e->ids[i].text, e->ids[i - 1].text) == 0)
			check_fault(e->check, "event %llu: its id is that of event %llu", ULL(e->ids[i].sequence),
				    ULL(e->ids[i - 1].sequence));
	}
}

static void check_intent_totals(struct events *e)
{
	struct intent i;

	for (size_t k = 0; k < e->intents.count; k++) {
		const struct tally *tally = &e->intents.at[k];

		if (!check_intent(e->check, tally->key, &i))
			continue;
		if (tally->events != i.event_number)
			check_fault(e->check, "intent %s: its last event is number %llu, the intent says %llu", i.id,
				    ULL(tally->events), ULL(i.event_number));
		if (tally->moves != i.version)
			check_fault(e->check, "intent %s: its last event is of version %llu, the intent has %llu", i.id,
				    ULL(tally->moves), ULL(i.version));
	}
}

static void check_chain_totals(struct events *e)
{
	struct chain_row row;

	for (size_t k = 0; k < e->chains.count; k++) {
		const struct tally *tally = &e->chains.at[k];
		struct key key = key_chain(tally->key);

		if (check_get(e->check, T_CHAIN, &key, &row) && tally->events != row.event_number)
			check_fault(e->check, "chain %llu: its last event is number %llu, the chain says %llu",
				    ULL(tally->key), ULL(tally->events), ULL(row.event_number));
	}
}

static void read_all(struct events *e)
{
	struct check_walk w = { .table = T_EVENT };
	struct key counter = key_meta("event");
	uint64_t want = 1, last = 0;
	struct complaint why;
	struct slice body;
	struct said said;

	for (; check_next(e->check, &w, &body); want++) {
		uint64_t sequence = be64_get(w.at.key);

		if (sequence > want)
			check_fault(e->check, "event %llu: missing, the next is %llu", ULL(want), ULL(sequence));
		want = sequence;
		if (!read_event(body, &said, &why)) {
			check_fault(e->check, "event %llu: %s", ULL(sequence), why.text);
			continue;
		}
		check_event(e, sequence, &said);
		snprintf(e->ids[e->id_count].text, EVENT_ID_TEXT, "%s", said.id);
		e->ids[e->id_count++].sequence = sequence;
	}
	check_get(e->check, T_META, &counter, &last);
	if (last != want - 1)
		check_fault(e->check, "events end at %llu, the counter says %llu", ULL(want) - 1, ULL(last));
}

void check_events(struct check *c)
{
	struct events e = { .check = c, .ids = xcalloc(kv_count(c->t, T_EVENT) + 1, sizeof(*e.ids)) };

	tally_intents(c, &e.intents);
	tally_chains(c, &e.chains);
	read_all(&e);
	check_ids_unique(&e);
	check_intent_totals(&e);
	check_chain_totals(&e);
	free(e.intents.at);
	free(e.chains.at);
	free(e.ids);
}
