#include "listener/reseal.h"

#include "common/keccak.h"
#include "listener/forge_emit.h"
#include "listener/tape.h"
#include "listener/verify.h"

#include <stdlib.h>
#include <string.h>

/* A line of the tape, and where it stands on the chain. */
struct tape_line {
	struct buf text;
	enum tape_kind kind;
	struct hash32 hash, parent;
	uint64_t height;
};

struct old_new {
	struct hash32 old, new;
};

struct resealing {
	const struct reseal *how;
	struct complaint *why;
	struct tape_line *lines;
	size_t line_count;
	struct old_new *map;		/* blocks that were sealed again */
	size_t map_count;
	bool dropped[RESEAL_TXS_MAX], moved[RESEAL_TXS_MAX];
	struct receipts waiting;	/* moved out of a block, for the next */
	struct buf scratch;
	struct buf *out;
};

static void *enlarge(void *items, size_t count, size_t bytes)
{
	items = xrealloc(items, (count + 1) * bytes);
	memset((char *)items + count * bytes, 0, bytes);
	return items;
}

static enum err read_lines(struct resealing *w, struct tape *tape)
{
	struct tape_record *rec = xmalloc(sizeof(*rec));
	struct complaint reason;
	struct slice line;
	enum err err;

	while (tape_next(tape, &line, &err, w->why)) {
		struct tape_line *l;

		if (tape_parse(line, rec, &reason)) {
			err = complain(w->why, E_INPUT, "%s:%llu: %.400s", tape->name,
				       (unsigned long long)tape->line, reason.text);
			break;
		}
		w->lines = enlarge(w->lines, w->line_count, sizeof(*w->lines));
		l = &w->lines[w->line_count++];
		buf_put(&l->text, line.data, line.len);
		l->kind = rec->kind;
		l->hash = rec->hash;
		l->parent = rec->parent;
		l->height = rec->height;
	}
	free(rec);
	return err;
}

static const struct tape_line *find_block(const struct resealing *w, const struct hash32 *hash)
{
	for (size_t i = 0; i < w->line_count; i++) {
		if (w->lines[i].kind == TAPE_BLOCK && hash_eq(&w->lines[i].hash, hash))
			return &w->lines[i];
	}
	return NULL;
}

static const struct hash32 *find_new(const struct resealing *w, const struct hash32 *old)
{
	for (size_t i = 0; i < w->map_count; i++) {
		if (hash_eq(&w->map[i].old, old))
			return &w->map[i].new;
	}
	return NULL;
}

/* The line of the head that is replaced: the first at the height, or the last of all. */
static enum err find_head(const struct resealing *w, size_t *index)
{
	const struct tape_line *block;
	bool found = false;

	for (size_t i = 0; i < w->line_count; i++) {
		if (w->lines[i].kind != TAPE_HEAD)
			continue;
		block = find_block(w, &w->lines[i].hash);
		if (!block || (w->how->has_at && (block->height != w->how->at || found)))
			continue;
		*index = i;
		found = true;
	}
	if (found)
		return OK;
	if (w->how->has_at)
		return complain(w->why, E_NOT_FOUND, "no head at height %llu is on the tape",
				(unsigned long long)w->how->at);
	return complain(w->why, E_NOT_FOUND, "the tape announces no head that it tells");
}

/* Sealing again. */

static bool is_listed(const struct hash32 *list, size_t count, const struct hash32 *tx, bool *seen)
{
	for (size_t i = 0; i < count; i++) {
		if (!hash_eq(&list[i], tx))
			continue;
		seen[i] = true;
		return true;
	}
	return false;
}

static uint64_t gas_of(const struct receipts *r, uint32_t i)
{
	return r->receipts[i].cumulative_gas - (i ? r->receipts[i - 1].cumulative_gas : 0);
}

/* Put receipt @i of @from at the end of @to, its own gas as its cumulative for now. */
static void append_receipt(struct receipts *to, const struct receipts *from, uint32_t i, uint64_t gas)
{
	const struct receipt *r = &from->receipts[i];
	struct receipt *copy;

	to->receipts = enlarge(to->receipts, to->count, sizeof(*to->receipts));
	copy = &to->receipts[to->count++];
	*copy = *r;
	copy->cumulative_gas = gas;
	copy->first_log = to->log_count;
	for (uint32_t k = 0; k < r->log_count; k++) {
		struct log_entry log = from->logs[r->first_log + k];
		uint32_t at = (uint32_t)to->data.len;

		buf_put(&to->data, from->data.data + log.data_at, log.data_len);
		log.data_at = at;
		to->logs = enlarge(to->logs, to->log_count, sizeof(*to->logs));
		to->logs[to->log_count++] = log;
	}
}


/* What stays, then what the block before gave up; what this one gives up waits for the next. */
static void choose_receipts(struct resealing *w, const struct receipts *old, struct receipts *new)
{
	struct receipts given_up = { 0 };

	for (uint32_t i = 0; i < old->count; i++) {
		const struct hash32 *tx = &old->receipts[i].tx_hash;

		if (is_listed(w->how->drop, w->how->drop_count, tx, w->dropped))
			continue;
		append_receipt(is_listed(w->how->move, w->how->move_count, tx, w->moved) ? &given_up : new, old, i,
			       gas_of(old, i));
	}
	for (uint32_t i = 0; i < w->waiting.count; i++)
		append_receipt(new, &w->waiting, i, w->waiting.receipts[i].cumulative_gas);
	receipts_free(&w->waiting);
	w->waiting = given_up;
}

/* The roots that the choice makes; the transactions' own is a stand-in, since no bodies are on a tape. */
static void seal(struct resealing *w, struct block *b, struct receipts *r)
{
	struct header *h = &b->header;

	h->mix_hash = keccak256(h->mix_hash.b, sizeof(h->mix_hash.b));
	h->gas_used = 0;
	memset(h->bloom, 0, sizeof(h->bloom));
	b->tx_hashes = xrealloc(b->tx_hashes, (r->count + 1) * sizeof(*b->tx_hashes));
	b->tx_count = b->tx_cap = r->count;
	b->has_transactions = true;
	for (uint32_t i = 0; i < r->count; i++) {
		struct receipt *receipt = &r->receipts[i];

		h->gas_used += receipt->cumulative_gas;
		receipt->cumulative_gas = h->gas_used;
		receipt->tx_index = i;
		b->tx_hashes[i] = receipt->tx_hash;
		for (size_t k = 0; k < BLOOM_BYTES; k++)
			h->bloom[k] |= receipt->bloom[k];
	}
	h->transactions_root = keccak256(b->tx_hashes, r->count * sizeof(*b->tx_hashes));
	h->receipts_root = receipts_root(r, &w->scratch);
	h->hash = header_hash(h, &w->scratch);
	for (uint32_t i = 0; i < r->count; i++) {
		r->receipts[i].block_hash = h->hash;
		r->receipts[i].block_number = h->number;
	}
}

static void note_new(struct resealing *w, const struct hash32 *old, const struct hash32 *new)
{
	w->map = enlarge(w->map, w->map_count, sizeof(*w->map));
	w->map[w->map_count++] = (struct old_new){ *old, *new };
}

/* Seal the told block again on the new parent of its parent, and tell it. */
static enum err reseal_block(struct resealing *w, const struct tape_line *line)
{
	const struct hash32 *parent = find_new(w, &line->parent);
	struct receipts old = { 0 }, new = { 0 };
	struct tape_record *rec = xmalloc(sizeof(*rec));
	struct block b = { 0 };
	enum err err = tape_parse(buf_slice(&line->text), rec, w->why);

	if (!err)
		err = block_decode(rec->block, &b, w->why);
	if (!err)
		err = receipts_decode(rec->receipts, &old, w->why);
	if (!err) {
		if (parent)
			b.header.parent_hash = *parent;
		choose_receipts(w, &old, &new);
		seal(w, &b, &new);
		note_new(w, &line->hash, &b.header.hash);
		err = emit_block(w->out, &b, &new, &w->scratch, w->why);
	}
	free(rec);
	block_free(&b);
	receipts_free(&old);
	receipts_free(&new);
	return err;
}

/* What the last block gave up goes into one more. */
static enum err seal_one_more(struct resealing *w, const struct tape_line *last, struct hash32 *head)
{
	struct receipts r = w->waiting;
	struct tape_record *rec = xmalloc(sizeof(*rec));
	struct block b = { 0 };
	enum err err = tape_parse(buf_slice(&last->text), rec, w->why);

	w->waiting = (struct receipts){ 0 };
	if (!err)
		err = block_decode(rec->block, &b, w->why);
	if (!err) {
		b.header.parent_hash = *head;
		b.header.number++;
		b.header.timestamp += 12;
		seal(w, &b, &r);
		*head = b.header.hash;
		err = emit_block(w->out, &b, &r, &w->scratch, w->why);
	}
	free(rec);
	block_free(&b);
	receipts_free(&r);
	return err;
}

static void put_line(struct buf *out, const struct tape_line *line)
{
	buf_put(out, line->text.data, line->text.len);
	buf_put_u8(out, '\n');
}

/* The line, saying of the block @new what it says of its own. */
static void put_renamed(struct buf *out, const struct tape_line *line, const struct hash32 *new)
{
	size_t from = out->len;
	char text[HASH_TEXT];

	put_line(out, line);
	hash_format(new, text);
	for (size_t at = from; at + HASH_TEXT - 1 <= out->len; at++) {
		struct slice here = { out->data + at, HASH_TEXT - 1 };
		struct hash32 hash;

		if (hash_parse(here, &hash) && hash_eq(&hash, &line->hash))
			memcpy(out->data + at, text, HASH_TEXT - 1);
	}
}

/* Balances that were told of the old blocks, where the new ones hold the same transactions. */
static void put_balances(struct resealing *w, size_t head)
{
	const struct hash32 *new;

	if (w->how->drop_count || w->how->move_count)
		return;
	for (size_t i = 0; i <= head; i++) {
		new = w->lines[i].kind == TAPE_BALANCE ? find_new(w, &w->lines[i].hash) : NULL;
		if (new)
			put_renamed(w->out, &w->lines[i], new);
	}
}

static void put_head(struct buf *out, const struct hash32 *hash)
{
	char text[HASH_TEXT];

	buf_printf(out, "{\"head\":\"%s\"}\n", hash_format(hash, text));
}

static enum err reseal_branch(struct resealing *w, size_t head_line)
{
	const struct hash32 *old_head = &w->lines[head_line].hash;
	const struct tape_line **path = xcalloc(w->how->depth, sizeof(const struct tape_line *));
	struct hash32 at = *old_head, head;
	uint64_t count = 0;
	enum err err = OK;

	while (count < w->how->depth && (path[count] = find_block(w, &at)))
		at = path[count++]->parent;
	if (count < w->how->depth)
		err = complain(w->why, E_NOT_FOUND, "only %llu blocks below that head are on the tape, depth is %llu",
			       (unsigned long long)count, (unsigned long long)w->how->depth);
	while (!err && count)
		err = reseal_block(w, path[--count]);
	if (!err) {
		head = *find_new(w, old_head);
		if (w->waiting.count)
			err = seal_one_more(w, path[0], &head);
		put_balances(w, head_line);
		put_head(w->out, &head);
	}
	free(path);
	return err;
}

/* What stands on a block that was sealed again is sealed again too, before the lines that speak of it are written. */
static enum err reseal_later(struct resealing *w, struct tape_line *line)
{
	struct buf *out = w->out, sealed = { 0 };
	enum err err;

	if (line->kind != TAPE_BLOCK || !find_new(w, &line->parent))
		return OK;
	w->out = &sealed;
	err = reseal_block(w, line);
	w->out = out;
	buf_free(&line->text);
	line->text = sealed;
	if (sealed.len)
		line->text.len--;		/* its end of line */
	return err;
}

static void follow(struct resealing *w, const struct tape_line *line)
{
	const struct hash32 *new = line->kind == TAPE_BLOCK ? NULL : find_new(w, &line->hash);

	if (new)
		put_renamed(w->out, line, new);
	else
		put_line(w->out, line);
}

static enum err check_all_found(const struct resealing *w)
{
	char text[HASH_TEXT];

	for (size_t i = 0; i < w->how->drop_count + w->how->move_count; i++) {
		bool dropping = i < w->how->drop_count;
		size_t k = dropping ? i : i - w->how->drop_count;

		if (!(dropping ? w->dropped[k] : w->moved[k]))
			return complain(w->why, E_NOT_FOUND, "transaction %s is in none of the blocks that are sealed again",
					hash_format(dropping ? &w->how->drop[k] : &w->how->move[k], text));
	}
	return OK;
}

static enum err write_tape(struct resealing *w)
{
	size_t head = 0;
	enum err err = find_head(w, &head);

	for (size_t i = 0; !err && i <= head; i++)
		put_line(w->out, &w->lines[i]);
	if (!err)
		err = reseal_branch(w, head);
	if (!err)
		err = check_all_found(w);
	for (size_t i = head + 1; !err && i < w->line_count; i++)
		err = reseal_later(w, &w->lines[i]);
	for (size_t i = head + 1; !err && i < w->line_count; i++)
		follow(w, &w->lines[i]);
	return err;
}

enum err reseal_tape(const char *name, int fd, const struct reseal *how, struct buf *out,
		     struct complaint *why)
{
	struct resealing w = { .how = how, .why = why, .out = out };
	struct tape tape;
	enum err err;

	tape_open(&tape, name, fd);
	err = read_lines(&w, &tape);
	if (!err)
		err = write_tape(&w);
	for (size_t i = 0; i < w.line_count; i++)
		buf_free(&w.lines[i].text);
	free(w.lines);
	free(w.map);
	receipts_free(&w.waiting);
	buf_free(&w.scratch);
	tape_close(&tape);
	return err;
}
