#include "listener/story_tell.h"

#include "listener/story_words.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define LISTENER "listener"

enum explanation {
	EXPLAIN_CONFIRMING = 1,
	EXPLAIN_LOST = 2,
	EXPLAIN_PROBLEM = 4,
};

static bool explain(struct teller *t, enum explanation what)
{
	bool first = !(t->explained & what);

	t->explained |= what;
	return first;
}

void teller_free(struct teller *t)
{
	for (size_t i = 0; i < t->count; i++) {
		buf_free(&t->payments[i].path);
		buf_free(&t->payments[i].sent);
	}
	free(t->payments);
}

static struct payment *find(struct teller *t, const char *id)
{
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->payments[i].id, id) == 0)
			return &t->payments[i];
	}
	return NULL;
}

static struct payment *find_or_add(struct teller *t, const struct story_event *e)
{
	struct payment *p = find(t, e->id);

	if (p)
		return p;
	t->payments = xrealloc(t->payments, (t->count + 1) * sizeof(*t->payments));
	p = &t->payments[t->count++];
	*p = (struct payment){ .token = e->token, .amount = e->amount };
	memcpy(p->id, e->id, sizeof(p->id));
	page_fit_name(&t->page, p->id);
	return p;
}

/* By people and programs. */

bool teller_gathers(const struct story_event *e)
{
	return e->has_intent && strcmp(e->by, LISTENER) != 0;
}

void teller_gather(struct teller *t, const struct story_event *e)
{
	struct payment *p = find_or_add(t, e);

	p->opened |= story_event_is(e, "intent.created");
	if (!p->path.len && p->state[0])
		buf_put_text(&p->path, p->state);
	if (p->path.len)
		buf_put_text(&p->path, " → ");
	buf_put_text(&p->path, e->state);
	memcpy(p->state, e->state, sizeof(p->state));
	memcpy(p->code, e->reason.code, sizeof(p->code));
	if (e->has_tx && !p->block.known)
		teller_gather_attempt(t, e->id, &e->tx);
	p->last = *e;
	t->pending = true;
}

void teller_gather_attempt(struct teller *t, const char *id, const struct hash32 *tx)
{
	struct payment *p = find(t, id);
	char text[SHORT_TEXT];

	if (!p || (p->sent.len && strstr(words_end(&p->sent), short_hash(tx, text))))
		return;
	buf_printf(&p->sent, "%stx %s", p->sent.len ? " or " : "", short_hash(tx, text));
	t->pending = true;
}

static void tell_opening(struct teller *t, const struct payment *p)
{
	const struct story_event *e = &p->last;
	char payee[SHORT_TEXT], payer[SHORT_TEXT];
	struct buf text = { 0 };

	buf_printf(&text, "%s asks ", e->merchant);
	words_money(&text, &t->config, &p->token, &p->amount);
	buf_printf(&text, " to %s", short_address(&e->payee, payee));
	if (e->has_payer)
		buf_printf(&text, ", from %s only", short_address(&e->payer, payer));
	if (e->route)
		buf_put_text(&text, ", in any transaction");
	page_item(&t->page, p->id, TONE_PLAIN, "%s", words_end(&text));
	buf_free(&text);
}

enum tone tone_of_state(const char *state)
{
	if (strcmp(state, "settled") == 0)
		return TONE_GOOD;
	if (strcmp(state, "needs_review") == 0)
		return TONE_WARN;
	if (strcmp(state, "failed") == 0 || strcmp(state, REVERSED) == 0)
		return TONE_BAD;
	return TONE_PLAIN;
}

static void tell_path(struct teller *t, struct payment *p)
{
	struct buf text = { 0 };

	if (p->path.len)
		buf_printf(&text, "%s", words_end(&p->path));
	if (p->path.len && !p->opened)
		buf_printf(&text, ", by the %s", p->last.by);
	if (p->path.len && p->last.reason.code[0]) {
		buf_put_text(&text, p->opened ? ", " : ": ");
		words_reason(&text, &t->config, &p->token, &p->last.reason);
	}
	if (p->last.chain_said[0] && strcmp(p->last.by, actor_name(ACTOR_OPERATOR)) == 0)
		buf_printf(&text, " (a person's word; the chain says %s)", p->last.chain_said);
	if (p->sent.len)
		buf_printf(&text, "%s%s", text.len ? ", " : "also watched: ", words_end(&p->sent));
	page_item(&t->page, p->id, p->path.len ? tone_of_state(p->state) : TONE_PLAIN, "%s", words_end(&text));
	buf_free(&text);
}

void teller_flush(struct teller *t)
{
	int64_t now_ms = t->page.now_ms;

	for (size_t i = 0; i < t->count && t->pending; i++) {
		struct payment *p = &t->payments[i];

		if (!p->path.len && !p->sent.len)
			continue;
		if (p->path.len)
			t->page.now_ms = p->last.time_ms;
		if (p->opened)
			tell_opening(t, p);
		tell_path(t, p);
		p->opened = false;
		p->path.len = p->sent.len = 0;
	}
	t->pending = false;
	t->page.now_ms = now_ms;
}

/* By the listener. */

static void tell_transfers(struct teller *t, const struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	words_transfers(&text, &t->config, e);
	page_item(&t->page, p->id, TONE_PLAIN, "%s", words_end(&text));
	buf_free(&text);
}

static const char *where(const struct payment *p, const struct story_event *e)
{
	if (!p->lost.known)
		return "mined in block";
	return hash_eq(&p->lost.hash, &e->block.hash) ? "back in its first block," : "mined again, in block";
}

static void say_open(struct teller *t, const struct payment *p)
{
	if (explain(t, EXPLAIN_CONFIRMING))
		page_item(&t->page, p->id, TONE_PLAIN,
			  "the chain may still drop this block: too early to ship");
}

static void on_confirming(struct teller *t, struct payment *p, const struct story_event *e)
{
	unsigned long long height = e->block.height;

	tell_transfers(t, p, e);
	if (e->final) {
		page_item(&t->page, p->id, TONE_PLAIN,
			  "%s → confirming: block %llu is final, and this can only be meant for it", p->state,
			  height);
		return;
	}
	page_item(&t->page, p->id, TONE_PLAIN, "%s → confirming: %s %llu, not final yet", p->state, where(p, e),
		  height);
	if (strcmp(e->witness, "pending") == 0)
		page_item(&t->page, p->id, TONE_WARN, "the payee's balance could not be read yet: it is asked for again");
	say_open(t, p);
}

/* The reason's text names both blocks in full; the drawing has just shown them. */
static void tell_lost(struct teller *t, struct payment *p, const struct story_event *e)
{
	char text[SHORT_TEXT];

	page_item(&t->page, p->id, TONE_BAD, "%s → settling, reorg: lost with block %llu %s", p->state,
		  (unsigned long long)e->block.height, short_hash(&e->block.hash, text));
	if (explain(t, EXPLAIN_LOST))
		page_item(&t->page, p->id, TONE_PLAIN,
			  "not paid any more; only the same transaction may be sent again");
}

static void on_settling(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	if (strcmp(e->reason.code, "reorg") == 0) {
		tell_lost(t, p, e);
		return;
	}
	words_reason(&text, &t->config, &p->token, &e->reason);
	page_item(&t->page, p->id, TONE_WARN, "%s → settling, %s", p->state, words_end(&text));
	buf_free(&text);
}

static void on_settled(struct teller *t, struct payment *p, const struct story_event *e)
{
	static void (*const why[])(struct buf *, const struct chain_config *, const struct story_event *) = {
		words_finality, words_proof, words_witness,
	};
	const char *lead = "why: ";
	struct buf text = { 0 };

	words_money(&text, &t->config, &p->token, &p->amount);
	page_item(&t->page, p->id, TONE_GOOD, "%s → settled: %s is paid", p->state, words_end(&text));
	for (size_t i = 0; i < ARRAY_SIZE(why); i++) {
		text.len = 0;
		why[i](&text, &t->config, e);
		if (!text.len)
			continue;
		page_item(&t->page, p->id, TONE_PLAIN, "%s%s", lead, words_end(&text));
		lead = "     ";
	}
	buf_free(&text);
}

static void on_needs_review(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	words_reason(&text, &t->config, &p->token, &e->reason);
	page_item(&t->page, p->id, TONE_WARN, "%s → needs_review, %s", p->state, words_end(&text));
	page_item(&t->page, p->id, TONE_PLAIN, "for a person: %s", words_for_person(e->reason.code));
	buf_free(&text);
}

static bool is_verdict_of_block(const struct story_event *e)
{
	return e->block.known && strcmp(e->reason.code, "reorg") != 0 && strcmp(e->reason.code, "overdue") != 0;
}

static void tell_verdict(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	if (!hash_eq(&p->block.hash, &e->block.hash))
		tell_transfers(t, p, e);
	if (strcmp(e->reason.code, "paid") == 0) {
		page_item(&t->page, p->id, TONE_PLAIN, "%s: %s %llu, not final yet", p->state, where(p, e),
			  (unsigned long long)e->block.height);
		say_open(t, p);
		return;
	}
	words_reason(&text, &t->config, &p->token, &e->reason);
	page_item(&t->page, p->id, TONE_WARN, "%s", words_end(&text));
	if (explain(t, EXPLAIN_PROBLEM))
		page_item(&t->page, p->id, TONE_PLAIN,
			  "goes to a person once the block is final; a reorg may cure it before");
	buf_free(&text);
}

static void on_observed(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	if (is_verdict_of_block(e) && !e->final) {
		tell_verdict(t, p, e);
		return;
	}
	words_reason(&text, &t->config, &p->token, &e->reason);
	page_item(&t->page, p->id, TONE_WARN, "still %s; %s%s", p->state,
		  e->final ? "the final word of the chain is " : "", words_end(&text));
	buf_free(&text);
}

static void on_reversed(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	words_reason(&text, &t->config, &p->token, &e->reason);
	page_item(&t->page, p->id, TONE_BAD, "was settled and is reversed, %s", words_end(&text));
	page_item(&t->page, p->id, TONE_PLAIN,
		  "for a person: a block that counted as final was lost, and this payment with it");
	buf_free(&text);
}

static void remember(struct payment *p, const struct story_event *e)
{
	bool lost = strcmp(e->reason.code, "reorg") == 0;

	snprintf(p->state, sizeof(p->state), "%s", story_event_is(e, "intent.reversed") ? REVERSED : e->state);
	memcpy(p->code, e->reason.code, sizeof(p->code));
	if (strcmp(p->code, "paid") == 0)
		p->code[0] = '\0';
	if (lost)
		p->lost = e->block;
	p->block = lost ? (struct block_ref){ 0 } : e->block;
}

/* About the chain, or a transfer that is nobody's. */

static void tell_names(struct teller *t, const struct story_event *e, const char *what)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < e->name_count; i++)
		buf_printf(&text, "%s%s", i ? ", " : "", e->names[i]);
	if (e->name_count)
		page_chain(&t->page, NULL, TONE_PLAIN, "%s: %s", what, words_end(&text));
	buf_free(&text);
}

/* What nobody decided yet is in the table, too. */
static void mark_ambiguous(struct teller *t, const struct story_event *e)
{
	for (size_t i = 0; i < e->name_count; i++) {
		struct payment *p = find(t, e->names[i]);

		if (p && story_event_is(e, "transfer.ambiguous"))
			memcpy(p->code, e->reason.code, sizeof(p->code));
	}
}

static void on_loose(struct teller *t, struct payment *p, const struct story_event *e)
{
	struct buf text = { 0 };

	(void)p;
	words_transfers(&text, &t->config, e);
	buf_printf(&text, ", block %llu: ", (unsigned long long)e->block.height);
	words_reason(&text, &t->config, NULL, &e->reason);
	page_chain(&t->page, "?", TONE_WARN, "%s", words_end(&text));
	tell_names(t, e, "might be meant for");
	mark_ambiguous(t, e);
	page_chain(&t->page, NULL, TONE_PLAIN, "for a person: %s", words_for_person(e->reason.code));
	buf_free(&text);
}

static void on_violation(struct teller *t, struct payment *p, const struct story_event *e)
{
	char ours[SHORT_TEXT], theirs[SHORT_TEXT];

	(void)p;
	page_chain(&t->page, "!", TONE_BAD,
		   "the node takes back block %llu %s, which is final, and has %s there",
		   (unsigned long long)e->watermark.height, short_hash(&e->watermark.hash, ours),
		   short_hash(&e->claimed.hash, theirs));
	tell_names(t, e, "settled in blocks that it denies");
	page_chain(&t->page, NULL, TONE_PLAIN,
		   "for a person: nothing is applied, settled or reversed until the node has our block "
		   "again, or an operator accepts the other branch");
}

static const struct {
	const char *type;
	void (*tell)(struct teller *t, struct payment *p, const struct story_event *e);
} tellers[] = {
	{ "intent.confirming", on_confirming },
	{ "intent.settling", on_settling },
	{ "intent.settled", on_settled },
	{ "intent.needs_review", on_needs_review },
	{ "intent.observed", on_observed },
	{ "intent.reversed", on_reversed },
	{ "transfer.unmatched", on_loose },
	{ "transfer.ambiguous", on_loose },
	{ "chain.finality_violation", on_violation },
};

void teller_event(struct teller *t, const struct story_event *e)
{
	struct payment *p = e->has_intent ? find_or_add(t, e) : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(tellers); i++) {
		if (story_event_is(e, tellers[i].type))
			tellers[i].tell(t, p, e);
	}
	if (p)
		remember(p, e);
}
