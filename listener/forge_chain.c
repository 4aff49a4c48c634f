#include "listener/forge_chain.h"

#include "common/keccak.h"
#include "listener/forge_emit.h"
#include "listener/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void forge_tx(struct forge *f)
{
	struct tx *t = line_open_tx(f);

	while (line_more(f)) {
		if (line_take(f, "reverted")) {
			t->reverted = true;
		} else if (line_take(f, "type")) {
			uint64_t type = line_number(f);

			if (!f->err && type > 4)
				forge_fail(f, "type %llu is not known: 0 to 4", (unsigned long long)type);
			t->type = (uint8_t)type;
		} else {
			forge_fail(f, "\"%s\" is not understood: %s", line_word(f), f->usage);
		}
	}
}

static struct address logger(struct forge *f)
{
	struct address a;

	if (!line_take(f, "native"))
		return line_contract(f, false);
	memset(a.b, 0xff, sizeof(a.b));
	a.b[19] = 0xfe;
	return a;
}

/* A log of the transaction @t; its data are what was put into f->data from @data_at on. */
static void add_log(struct forge *f, const struct tx *t, struct log_entry *entry, size_t data_at)
{
	struct tx_log *log;

	if (f->err)
		return;
	entry->data_at = (uint32_t)data_at;
	entry->data_len = (uint32_t)(f->data.len - data_at);
	f->logs = forge_enlarge(f->logs, f->log_count, sizeof(*f->logs));
	log = &f->logs[f->log_count++];
	log->tx = (size_t)(t - f->txs);
	log->entry = *entry;
}

static struct hash32 word_of_address(struct address a)
{
	struct hash32 h = { { 0 } };

	memcpy(h.b + 12, a.b, sizeof(a.b));
	return h;
}

struct hash32 forge_word(const struct u256 *v)
{
	struct hash32 h;

	u256_to_be(v, h.b);
	return h;
}

void forge_transfer(struct forge *f)
{
	const struct tx *t = line_open_tx(f);
	struct log_entry e = { .topic_count = 3, .topics = { match_transfer_topic } };
	size_t data_at = f->data.len;
	struct hash32 value;
	struct u256 v;

	e.address = logger(f);
	e.topics[1] = word_of_address(line_account(f));
	e.topics[2] = word_of_address(line_account(f));
	v = line_amount(f);
	value = forge_word(&v);
	buf_put(&f->data, value.b, sizeof(value.b));
	add_log(f, t, &e, data_at);
}

static struct hash32 topic(struct forge *f)
{
	const char *text = line_word(f);
	struct hash32 h;
	struct u256 v;

	if (hash_parse(slice_of_text(text), &h))
		return h;
	if (strcmp(text, "Transfer") == 0)
		return match_transfer_topic;
	if (amount_from_text(text, &v))
		return forge_word(&v);
	if (strchr(text, '('))
		return keccak256(text, strlen(text));
	f->next--;
	return word_of_address(line_account(f));
}

static void put_log_data(struct forge *f)
{
	const char *text = line_word(f);
	struct u256 v;

	if (amount_from_text(text, &v)) {
		struct hash32 h = forge_word(&v);

		buf_put(&f->data, h.b, sizeof(h.b));
	} else if (!hex_append(slice_of_text(text), &f->data)) {
		forge_fail(f, "\"%s\" is neither hex nor a number", text);
	}
}

void forge_log(struct forge *f)
{
	const struct tx *t = line_open_tx(f);
	size_t data_at = f->data.len;
	struct log_entry e = { 0 };

	e.address = logger(f);
	while (line_more(f)) {
		if (line_take(f, "data"))
			put_log_data(f);
		else if (e.topic_count < 4)
			e.topics[e.topic_count++] = topic(f);
		else
			forge_fail(f, "a log has at most 4 topics");
	}
	add_log(f, t, &e, data_at);
}

struct draft {
	struct block block;		/* tx_hashes is ours */
	struct receipts receipts;	/* data borrows forge.data */
	size_t *txs;			/* into forge.txs */
	size_t tx_count;
	size_t parent;			/* into forge.blocks, if there are any */
	int64_t offset_ms;		/* past the parent */
};

static void draft_free(struct draft *d)
{
	d->receipts.data = (struct buf){ 0 };
	receipts_free(&d->receipts);
	block_free(&d->block);
	free(d->txs);
}

static void draft_logs(const struct forge *f, struct receipts *r, struct receipt *receipt,
		       size_t tx)
{
	receipt->first_log = r->log_count;
	for (size_t i = 0; i < f->log_count; i++) {
		if (f->logs[i].tx != tx)
			continue;
		r->logs = forge_enlarge(r->logs, r->log_count, sizeof(*r->logs));
		r->logs[r->log_count++] = f->logs[i].entry;
		receipt->log_count++;
	}
}

static void draft_receipts(struct forge *f, struct draft *d)
{
	d->block.tx_hashes = xcalloc(d->tx_count + 1, sizeof(struct hash32));
	d->receipts.receipts = xcalloc(d->tx_count + 1, sizeof(struct receipt));
	d->receipts.data = f->data;
	for (size_t i = 0; i < d->tx_count; i++) {
		struct receipt *r = &d->receipts.receipts[d->receipts.count++];
		struct tx *t = &f->txs[d->txs[i]];

		t->sealed = true;
		d->block.tx_hashes[d->block.tx_count++] = t->hash;
		r->tx_hash = t->hash;
		r->tx_index = i;
		r->type = t->type;
		r->has_status = true;
		r->status = !t->reverted;
		draft_logs(f, &d->receipts, r, d->txs[i]);
		if (t->reverted && r->log_count)
			forge_fail(f, "\"%s\" is reverted, but has logs", t->name);
	}
}

static void draft_tx(struct forge *f, struct draft *d)
{
	size_t tx = line_tx(f);

	if (!f->err && !f->txs[tx].described)
		forge_fail(f, "there is no transaction \"%s\" above", f->txs[tx].name);
	for (size_t i = 0; i < d->tx_count && !f->err; i++) {
		if (d->txs[i] == tx)
			forge_fail(f, "\"%s\" stands in the block twice", f->txs[tx].name);
	}
	if (f->err)
		return;
	d->txs = forge_enlarge(d->txs, d->tx_count, sizeof(*d->txs));
	d->txs[d->tx_count++] = tx;
}

static void draft_words(struct forge *f, struct draft *d)
{
	d->parent = f->block_count - 1;
	while (line_more(f)) {
		if (line_take(f, "on")) {
			const struct sealed *parent = line_block(f);

			d->parent = parent ? (size_t)(parent - f->blocks) : 0;
		} else if (f->words[f->next][0] == '+') {
			d->offset_ms = line_time(f, 0);
		} else {
			draft_tx(f, d);
		}
	}
}

/* The first block inherits nothing: it stands at the start number and the tape's time. */
static void draft_place(const struct forge *f, struct draft *d)
{
	struct header *h = &d->block.header;

	h->fields = f->fields;
	if (f->block_count) {
		const struct header *parent = &f->blocks[d->parent].header;

		h->parent_hash = parent->hash;
		h->number = parent->number + 1;
		h->timestamp = parent->timestamp + (uint64_t)d->offset_ms / 1000;
	} else {
		h->number = f->start;
		h->timestamp = (uint64_t)f->clock_ms / 1000;
	}
}

static void keep(struct forge *f, struct draft *d, const char *name)
{
	struct sealed *b;
	struct complaint why;

	f->blocks = forge_enlarge(f->blocks, f->block_count, sizeof(*f->blocks));
	b = &f->blocks[f->block_count];
	snprintf(b->name, sizeof(b->name), "%s", name);
	b->header = d->block.header;
	b->has_parent = f->block_count > 0;
	b->parent = d->parent;
	f->block_count++;
	if (emit_block(&b->line, &d->block, &d->receipts, &f->scratch, &why))
		forge_fail(f, "the forged block is not true: %s", why.text);
}

void forge_block(struct forge *f)
{
	const char *name = line_name(f);
	struct draft d = { .offset_ms = 12000 };

	if (!f->err && forge_find_block(f, name) < f->block_count)
		forge_fail(f, "there is a block \"%s\" above", name);
	draft_words(f, &d);
	if (!f->err) {
		draft_place(f, &d);
		draft_receipts(f, &d);
		emit_seal(&d.block, &d.receipts, name, &f->scratch);
		keep(f, &d, name);
	}
	draft_free(&d);
}
