/* The story's first words and its last. */
#include "listener/story_tell.h"

#include "listener/story_words.h"

#include <string.h>

static const struct {
	const char *state, *meaning;
} legend[] = {
	{ "settling", "sent, or about to be; in no block" },
	{ "confirming", "in a block, which the chain may still drop for another one (a reorg)" },
	{ "settled", "in a block that is final: paid" },
	{ "needs_review", "does not add up: a person decides" },
};

void teller_intro(struct teller *t)
{
	const struct chain_config *c = &t->config;
	struct buf text = { 0 };

	page_prose(&t->page, TONE_DIM,
		   "Tidemark follows a chain and says of each expected payment how far it is to be believed:");
	for (size_t i = 0; i < ARRAY_SIZE(legend); i++)
		page_prose(&t->page, TONE_DIM, "  %-12s  %s", legend[i].state, legend[i].meaning);
	buf_printf(&text, "Recorded on chain %llu. ", (unsigned long long)c->chain_id);
	words_policy(&text, c);
	buf_put_text(&text, " Times are UTC.");
	page_prose(&t->page, TONE_DIM, "%s", words_end(&text));
	page_prose(&t->page, TONE_PLAIN, "%s", "");
	buf_free(&text);
}

/* The table. */

#define AMOUNT_COLUMNS_MAX 36

struct columns {
	unsigned name, amount, state, reason;
};

static const char *amount_of(const struct teller *t, const struct payment *p, struct buf *out)
{
	out->len = 0;
	words_money(out, &t->config, &p->token, &p->amount);
	if (text_columns(words_end(out)) > AMOUNT_COLUMNS_MAX) {
		out->len = 0;
		buf_put_text(out, "(see above)");
	}
	return words_end(out);
}

static void widen(unsigned *columns, const char *text)
{
	unsigned need = text_columns(text);

	if (need > *columns)
		*columns = need;
}

static struct columns measure(const struct teller *t, struct buf *scratch)
{
	struct columns c = { t->page.name_columns, strlen("amount"), strlen("state"), strlen("reason") };

	for (size_t i = 0; i < t->count; i++) {
		widen(&c.amount, amount_of(t, &t->payments[i], scratch));
		widen(&c.state, t->payments[i].state);
		widen(&c.reason, t->payments[i].code);
	}
	return c;
}

static void put_cell(struct buf *row, const char *text, unsigned columns, bool right)
{
	unsigned used = text_columns(text), blanks = used < columns ? columns - used : 0;

	buf_printf(row, "  %*s%s%*s", right ? (int)blanks : 0, "", text, right ? 0 : (int)blanks, "");
}

static void put_row(struct buf *row, const struct columns *c, const char *const cells[5])
{
	row->len = 0;
	put_cell(row, cells[0], c->name, false);
	put_cell(row, cells[1], c->amount, true);
	put_cell(row, cells[2], c->state, false);
	put_cell(row, cells[3], c->reason, false);
	put_cell(row, cells[4], 0, false);
}

static void tell_row(struct teller *t, const struct columns *c, const struct payment *p)
{
	struct buf amount = { 0 }, row = { 0 };
	char block[24] = "-", name[NAME_COLUMNS_MAX + 1];
	const char *cells[] = { name, amount_of(t, p, &amount), p->state, p->code[0] ? p->code : "-", block };

	page_short_name(p->id, name);
	if (p->block.known)
		snprintf(block, sizeof(block), "%llu", (unsigned long long)p->block.height);
	put_row(&row, c, cells);
	page_prose(&t->page, tone_of_state(p->state), "%s", words_end(&row));
	buf_free(&amount);
	buf_free(&row);
}

static void tell_table(struct teller *t)
{
	static const char *const heads[] = { "payment", "amount", "state", "reason", "block" };
	struct buf scratch = { 0 };
	struct columns c = measure(t, &scratch);

	put_row(&scratch, &c, heads);
	page_prose(&t->page, TONE_DIM, "%s", words_end(&scratch));
	for (size_t i = 0; i < t->count; i++)
		tell_row(t, &c, &t->payments[i]);
	buf_free(&scratch);
}

static size_t count_of(const struct teller *t, const char *state)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		n += strcmp(t->payments[i].state, state) == 0;
	return n;
}

static void tell_sum(struct teller *t)
{
	size_t settled = count_of(t, "settled"), person = count_of(t, "needs_review");
	size_t ended = count_of(t, "failed") + count_of(t, "canceled"), reversed = count_of(t, REVERSED);
	size_t open = t->count - settled - person - ended - reversed;
	struct buf text = { 0 };

	buf_printf(&text, "%zu settled", settled);
	if (reversed)
		buf_printf(&text, ", %zu settled and reversed", reversed);
	if (ended)
		buf_printf(&text, ", %zu ended unpaid", ended);
	if (open)
		buf_printf(&text, ", %zu still open", open);
	if (person)
		buf_printf(&text, ", %zu %s a person", person, person == 1 ? "needs" : "need");
	page_prose(&t->page, TONE_BOLD, "%s.", words_end(&text));
	buf_free(&text);
}

void teller_end(struct teller *t, bool finished)
{
	page_prose(&t->page, TONE_PLAIN, "%s", "");
	if (t->count) {
		tell_table(t);
		page_prose(&t->page, TONE_PLAIN, "%s", "");
		tell_sum(t);
	}
	if (!finished)
		page_prose(&t->page, TONE_BAD, "The replay stopped here, before the end of the tape.");
}
