#include "tests/sim/tree.h"

#include "common/keccak.h"
#include "listener/forge_emit.h"
#include "listener/match.h"


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 32

static struct address address_of(const char *name)
{
	struct hash32 h = keccak256(name, strlen(name));
	struct address a;

	memcpy(a.b, h.b + 12, sizeof(a.b));
	return a;
}

/* Hashed once. */
#define ACCOUNTS_MAX 32
struct address tree_account(int account)
{
	static struct address known[ACCOUNTS_MAX];
	char name[NAME_BYTES];

	if (address_is_zero(&known[account])) {
		snprintf(name, sizeof(name), "account %d", account);
		known[account] = address_of(name);
	}
	return known[account];
}

int tree_account_of(const struct address *a, int most)
{
	for (int i = 0; i < most; i++) {
		struct address b = tree_account(i);

		if (address_eq(a, &b))
			return i;
	}
	return -1;
}

struct address tree_contract(int contract)
{
	static const char *const names[] = { "usdc", "usdt", "other" };
	struct address native;

	if (contract != CONTRACT_NATIVE)
		return address_of(names[contract]);
	memset(native.b, 0xff, sizeof(native.b));
	native.b[19] = 0xfe;
	return native;
}

/* Receipts. */

static struct hash32 word_of(struct address a)
{
	struct hash32 h = { { 0 } };

	memcpy(h.b + 12, a.b, sizeof(a.b));
	return h;
}

static void put_log(struct receipts *r, const struct tree_log *log)
{
	struct log_entry *e = &r->logs[r->log_count++];
	struct u256 value = u256_from_u64(log->value);
	uint8_t word[32];

	*e = (struct log_entry){
		.address = tree_contract(log->contract),
		.topic_count = log->form == FORM_INDEXED ? 4 : 3,
		.topics = { match_transfer_topic, word_of(tree_account(log->from)), word_of(tree_account(log->to)) },
		.data_at = (uint32_t)r->data.len,
		.data_len = log->form == FORM_INDEXED ? 0 : 32,
	};
	if (log->form == FORM_OTHER_TOPIC)
		e->topics[0].b[0] ^= 1;
	u256_to_be(&value, word);
	if (log->form == FORM_INDEXED)
		memcpy(e->topics[3].b, word, sizeof(word));
	else
		buf_put(&r->data, word, sizeof(word));
}

static void put_receipt(const struct tree *t, struct receipts *r, unsigned index, int tx)
{
	const struct tree_tx *x = &t->txs[tx];
	struct receipt *receipt = &r->receipts[r->count++];

	*receipt = (struct receipt){ .tx_hash = x->hash, .tx_index = index, .type = 2, .has_status = true,
				     .status = !x->reverted, .first_log = r->log_count };
	for (unsigned k = 0; k < x->log_count && !x->reverted; k++) {
		put_log(r, &x->logs[k]);
		receipt->log_count++;
	}
}

/* The line of the tape, cut into its two answers. */
static void cut_line(struct tree_block *b, const struct buf *line)
{
	static const char between[] = ",\"receipts\":[";
	const char *text = (const char *)line->data, *cut = strstr(text, between);

	buf_put(&b->block, text + 9, (size_t)(cut - text) - 9);
	buf_put(&b->receipts, cut + sizeof(between) - 2, line->len - (size_t)(cut - text) - (sizeof(between) - 2) - 2);
}

static enum err seal(struct tree *t, int id, struct complaint *why)
{
	struct tree_block *b = &t->blocks[id];
	struct block block = { .has_transactions = true };
	struct receipts r = { 0 };
	struct buf line = { 0 };
	char name[NAME_BYTES];
	enum err err;

	snprintf(name, sizeof(name), "block %d", id);
	block.header.fields = HEADER_PRAGUE;
	block.header.number = b->height;
	block.header.timestamp = (uint64_t)b->time_s;
	block.header.parent_hash = b->parent_hash;
	block.tx_hashes = xcalloc(ITEM_TXS, sizeof(*block.tx_hashes));
	r.receipts = xcalloc(ITEM_TXS, sizeof(*r.receipts));
	r.logs = xcalloc(ITEM_TXS * LOGS_MAX, sizeof(*r.logs));
	for (unsigned i = 0; i < b->tx_count; i++) {
		block.tx_hashes[block.tx_count++] = t->txs[b->txs[i]].hash;
		put_receipt(t, &r, i, b->txs[i]);
	}
	emit_seal(&block, &r, name, &t->scratch);
	b->hash = block.header.hash;
	b->parent_hash = block.header.parent_hash;
	err = emit_block(&line, &block, &r, &t->scratch, why);
	buf_put_u8(&line, '\0');
	line.len--;
	if (!err)
		cut_line(b, &line);
	buf_free(&line);
	block_free(&block);
	receipts_free(&r);
	return err;
}

/* Building. */

static enum err add_block(struct tree *t, const struct item *it, struct complaint *why)
{
	int id = (int)it->arg[0], parent = (int)it->arg[1];
	struct tree_block *b = &t->blocks[id];

	if (b->used || (parent >= 0 ? !t->blocks[parent].used : t->count > 0))
		return complain(why, E_INPUT, "block %d stands on no block", id);
	*b = (struct tree_block){ .used = true, .parent = parent, .height = START_HEIGHT, .at_ms = it->at_ms,
				  .time_s = (START_MS + it->at_ms) / 1000 };
	if (parent >= 0) {
		const struct tree_block *p = &t->blocks[parent];

		b->height = p->height + 1;
		b->parent_hash = p->hash;
		if (b->time_s <= p->time_s)
			b->time_s = p->time_s + 1;
	}
	for (unsigned i = 0; i < it->tx_count; i++) {
		if (t->txs[it->txs[i]].used)
			b->txs[b->tx_count++] = it->txs[i];
	}
	t->ids[t->count++] = id;
	return seal(t, id, why);
}

static void add_point(struct tree_point **points, size_t *count, const struct item *it)
{
	size_t at = (*count)++;

	*points = xrealloc(*points, *count * sizeof(**points));
	for (; at > 0 && (*points)[at - 1].at_ms > it->at_ms; at--)
		(*points)[at] = (*points)[at - 1];
	(*points)[at] = (struct tree_point){ it->at_ms, (int)it->arg[0] };
}

static void add_tx(struct tree *t, const struct item *it)
{
	struct tree_tx *x = &t->txs[it->arg[0]];
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "tx %d", (int)it->arg[0]);
	*x = (struct tree_tx){ .used = true, .reverted = it->arg[1] != 0, .hash = keccak256(name, strlen(name)) };
}

static void add_log(struct tree *t, const struct item *it)
{
	struct tree_tx *x = &t->txs[it->arg[0]];

	if (x->log_count < LOGS_MAX)
		x->logs[x->log_count++] = (struct tree_log){ (int)it->arg[1], (int)it->arg[2], (int)it->arg[3],
							     (uint64_t)it->arg[4], (enum log_form)it->arg[5] };
}

enum err tree_build(struct tree *t, const struct plan *p, struct complaint *why)
{
	enum err err = OK;

	*t = (struct tree){ .lost_head = -1 };
	for (size_t i = 0; i < p->count && !err; i++) {
		const struct item *it = &p->items[i];

		if (it->kind == ITEM_TX)
			add_tx(t, it);
		else if (it->kind == ITEM_LOG)
			add_log(t, it);
		else if (it->kind == ITEM_BLOCK)
			err = add_block(t, it, why);
		else if (it->kind == ITEM_HEAD)
			add_point(&t->heads, &t->head_count, it);
		else if (it->kind == ITEM_FINAL)
			add_point(&t->finals, &t->final_count, it);
		else if (it->kind == ITEM_ACCEPT)
			t->lost_head = (int)it->arg[0];
	}
	return err;
}

void tree_free(struct tree *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		buf_free(&t->blocks[t->ids[i]].block);
		buf_free(&t->blocks[t->ids[i]].receipts);
	}
	free(t->heads);
	free(t->finals);
	buf_free(&t->scratch);
}

/* Questions. */

int tree_find(const struct tree *t, const struct hash32 *hash)
{
	for (unsigned i = t->count; i-- > 0;) {
		if (hash_eq(&t->blocks[t->ids[i]].hash, hash))
			return t->ids[i];
	}
	return -1;
}

int tree_find_tx(const struct tree *t, const struct hash32 *hash)
{
	for (int i = 0; i < TXS_MAX; i++) {
		if (t->txs[i].used && hash_eq(&t->txs[i].hash, hash))
			return i;
	}
	return -1;
}

int tree_at_height(const struct tree *t, int head, uint64_t height)
{
	while (head >= 0 && t->blocks[head].height > height)
		head = t->blocks[head].parent;
	return head >= 0 && t->blocks[head].height == height ? head : -1;
}

bool tree_is_ancestor(const struct tree *t, int ancestor, int of)
{
	return ancestor >= 0 && tree_at_height(t, of, t->blocks[ancestor].height) == ancestor;
}

int tree_block_of_tx(const struct tree *t, int head, int tx, unsigned *index)
{
	for (; head >= 0; head = t->blocks[head].parent) {
		for (unsigned i = 0; i < t->blocks[head].tx_count; i++) {
			if (t->blocks[head].txs[i] != tx)
				continue;
			if (index)
				*index = i;
			return head;
		}
	}
	return -1;
}

static int point_at(const struct tree_point *points, size_t count, int64_t ms)
{
	int block = -1;

	for (size_t i = 0; i < count && points[i].at_ms <= ms; i++)
		block = points[i].block;
	return block;
}

int tree_head(const struct tree *t, int64_t ms)
{
	return point_at(t->heads, t->head_count, ms);
}

int tree_final(const struct tree *t, int64_t ms)
{
	return point_at(t->finals, t->final_count, ms);
}

int tree_last(const struct tree *t)
{
	return t->head_count ? t->heads[t->head_count - 1].block : -1;
}

bool tree_was_final(const struct tree *t, int block)
{
	return tree_is_ancestor(t, block, tree_last(t)) || (t->lost_head >= 0 && tree_is_ancestor(t, block, t->lost_head));
}

struct u256 tree_balance(const struct tree *t, int contract, int account, int block)
{
	uint64_t balance = 1000000000000;

	for (; block >= 0; block = t->blocks[block].parent) {
		for (unsigned i = 0; i < t->blocks[block].tx_count; i++) {
			const struct tree_tx *x = &t->txs[t->blocks[block].txs[i]];

			for (unsigned k = 0; k < x->log_count && !x->reverted; k++) {
				const struct tree_log *log = &x->logs[k];

				if (log->contract != contract ||
				    (log->form != FORM_TRANSFER && log->form != FORM_SKIMMED) || log->from == log->to)
					continue;
				if (log->to == account)
					balance += log->value - (log->form == FORM_SKIMMED);
				if (log->from == account)
					balance -= log->value;
			}
		}
	}
	return u256_from_u64(balance);
}
