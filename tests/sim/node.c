#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_BYTES 640
#define ACCOUNTS 24

/* A request as rpc.c writes it. */
struct request {
	char text[REQUEST_BYTES];
	unsigned long long id;
	enum method method;
	enum { WHAT_HASH, WHAT_HEIGHT, WHAT_LATEST, WHAT_SAFE, WHAT_FINALIZED } what;
	struct hash32 hash;		/* block or transaction */
	uint64_t height;
	struct address token, account;	/* of a call */
};

static const struct {
	const char *name;
	enum method method;
} methods[] = {
	{ "eth_getBlockByHash", METHOD_HASH },		    { "eth_getBlockByNumber", METHOD_NUMBER },
	{ "eth_getBlockReceipts", METHOD_RECEIPTS },	    { "eth_getTransactionReceipt", METHOD_TX },
	{ "eth_call", METHOD_CALL },
};

static void read_hash(const char *text, struct hash32 *out)
{
	const char *at = strstr(text, "\"0x");

	if (at && strlen(at) > 66)
		hash_parse((struct slice){ (const uint8_t *)at + 1, 66 }, out);
}

static void read_number(struct request *q, const char *params)
{
	if (strncmp(params, "[\"latest", 8) == 0) {
		q->what = WHAT_LATEST;
		q->method = METHOD_LATEST;
	} else if (strncmp(params, "[\"safe", 6) == 0 || strncmp(params, "[\"final", 7) == 0) {
		q->what = params[2] == 's' ? WHAT_SAFE : WHAT_FINALIZED;
		q->method = METHOD_TAG;
	} else {
		q->what = WHAT_HEIGHT;
		q->height = strtoull(params + 2, NULL, 16);
	}
}

static void read_call(struct request *q, const char *params)
{
	const char *to = strstr(params, "\"to\":\""), *data = strstr(params, "\"data\":\""),
		   *at = strstr(params, "\"blockHash\":");
	char account[ADDRESS_TEXT] = "0x";

	if (!to || !data || !at)
		return;
	address_parse((struct slice){ (const uint8_t *)to + 6, 42 }, &q->token);
	memcpy(account + 2, data + 8 + 10 + 24, 40);
	address_parse(slice_of_text(account), &q->account);
	read_hash(at, &q->hash);
}

static bool read_request(struct slice body, struct request *q)
{
	const char *id, *method, *params;

	*q = (struct request){ .method = METHOD_ANY };
	memcpy(q->text, body.data, body.len < REQUEST_BYTES ? body.len : REQUEST_BYTES - 1);
	id = strstr(q->text, "\"id\":");
	method = strstr(q->text, "\"method\":\"");
	params = strstr(q->text, "\"params\":");
	if (!id || !method || !params)
		return false;
	q->id = strtoull(id + 5, NULL, 10);
	params += 9;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strncmp(method + 10, methods[i].name, strlen(methods[i].name)) == 0)
			q->method = methods[i].method;
	}
	if (q->method == METHOD_NUMBER)
		read_number(q, params);
	else if (q->method == METHOD_CALL)
		read_call(q, params);
	else
		read_hash(params, &q->hash);
	return q->method != METHOD_ANY;
}

/* What it sees. */

int node_head(const struct world *w, unsigned endpoint)
{
	const struct endpoint *e = &w->endpoints[endpoint];

	return e->view_until_ms > w->now_ms ? e->view : tree_head(w->tree, w->now_ms - e->lag_ms);
}

static int final_of(const struct world *w, const struct endpoint *e)
{
	return e->lie_until_ms > w->now_ms ? e->lie : tree_final(w->tree, w->now_ms - e->lag_ms);
}

/* Three below the head, but not below the final one. */
static int safe_of(const struct world *w, unsigned endpoint)
{
	int head = node_head(w, endpoint), final = final_of(w, &w->endpoints[endpoint]);
	uint64_t height = head < 0 ? 0 : w->tree->blocks[head].height - 3;

	if (final >= 0 && w->tree->blocks[final].height > height)
		return final;
	return tree_at_height(w->tree, head, height);
}

static int known(const struct world *w, unsigned endpoint, int block)
{
	const struct endpoint *e = &w->endpoints[endpoint];

	if (block < 0 || tree_is_ancestor(w->tree, block, node_head(w, endpoint)))
		return block;
	return e->forgets || w->tree->blocks[block].at_ms + e->lag_ms > w->now_ms ? -1 : block;
}

void node_put_block(const struct world *w, int block, struct buf *out)
{
	if (block < 0)
		buf_put_text(out, "null");
	else
		buf_put(out, w->tree->blocks[block].block.data, w->tree->blocks[block].block.len);
}

/* Its answers: each writes a result, or an error and gives false. */

static bool put_error(struct buf *out, const char *message)
{
	buf_printf(out, "{\"code\":-32000,\"message\":\"%s\"}", message);
	return false;
}

static int block_asked(struct world *w, unsigned endpoint, const struct request *q)
{
	int head = node_head(w, endpoint);

	switch (q->what) {
	case WHAT_HASH:
		return known(w, endpoint, tree_find(w->tree, &q->hash));
	case WHAT_HEIGHT:
		return tree_at_height(w->tree, head, q->height);
	case WHAT_LATEST:
		return head;
	case WHAT_SAFE:
		return safe_of(w, endpoint);
	case WHAT_FINALIZED:
		return final_of(w, &w->endpoints[endpoint]);
	}
	return -1;
}

static void put_receipts(const struct world *w, int block, struct buf *out)
{
	if (block < 0)
		buf_put_text(out, "null");
	else
		buf_put(out, w->tree->blocks[block].receipts.data, w->tree->blocks[block].receipts.len);
}

static void put_place(const struct world *w, int head, const struct hash32 *tx_hash, struct buf *out)
{
	int tx = tree_find_tx(w->tree, tx_hash);
	int block = tx < 0 ? -1 : tree_block_of_tx(w->tree, head, tx, NULL);
	char text[HASH_TEXT];

	if (block < 0)
		buf_put_text(out, "null");
	else
		buf_printf(out, "{\"blockNumber\":\"0x%" PRIx64 "\",\"blockHash\":\"%s\"}", w->tree->blocks[block].height,
			   hash_format(&w->tree->blocks[block].hash, text));
}

static bool put_balance(struct world *w, unsigned endpoint, const struct request *q, struct buf *out)
{
	int block = known(w, endpoint, tree_find(w->tree, &q->hash));
	int account = tree_account_of(&q->account, ACCOUNTS);
	struct address usdc = tree_contract(CONTRACT_USDC);
	struct u256 balance;
	uint8_t word[32];

	if (block < 0)
		return put_error(out, "header for hash not found");
	balance = tree_balance(w->tree, address_eq(&q->token, &usdc) ? CONTRACT_USDC : CONTRACT_USDT, account, block);
	u256_to_be(&balance, word);
	buf_put_text(out, "\"0x");
	hex_encode(word, sizeof(word), (char *)buf_extend(out, 64));
	buf_put_u8(out, '"');
	return true;
}

static bool answer_truly(struct world *w, unsigned endpoint, const struct request *q, struct buf *out)
{
	int block;

	switch (q->method) {
	case METHOD_HASH:
	case METHOD_NUMBER:
	case METHOD_LATEST:
	case METHOD_TAG:
		block = block_asked(w, endpoint, q);
		if (block < 0 && q->method == METHOD_TAG)
			return put_error(out, "finalized block not found");
		node_put_block(w, block, out);
		return true;
	case METHOD_RECEIPTS:
		put_receipts(w, known(w, endpoint, tree_find(w->tree, &q->hash)), out);
		return true;
	case METHOD_TX:
		put_place(w, node_head(w, endpoint), &q->hash, out);
		return true;
	case METHOD_CALL:
		return put_balance(w, endpoint, q, out);
	case METHOD_ANY:
	case METHODS:
		break;
	}
	return put_error(out, "the method does not exist");
}

/* A digit of the first of some fields is another. */
static void tamper(struct world *w, struct buf *out)
{
	static const char *const fields[] = { "\"data\":\"0x", "\"status\":\"0x", "\"parentHash\":\"0x", "\"timestamp\":\"0x",
					      "\"receiptsRoot\":\"0x", "\"topics\":[\"0x" };
	size_t start = chance_below(&w->chance, ARRAY_SIZE(fields));

	buf_put_u8(out, '\0');
	out->len--;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *field = fields[(start + i) % ARRAY_SIZE(fields)];
		char *at = strstr((char *)out->data, field);

		if (!at)
			continue;
		at += strlen(field);
		while (at[1] != '"')
			at++;
		*at = *at == '1' ? '0' : '1';
		return;
	}
}

static void put_other(struct world *w, unsigned endpoint, struct request *q, struct buf *out)
{
	int other = known(w, endpoint, w->tree->ids[chance_below(&w->chance, w->tree->count)]);

	if (q->method == METHOD_RECEIPTS)
		put_receipts(w, other, out);
	else
		node_put_block(w, other, out);
}

static const struct fault *find_fault(struct world *w, unsigned endpoint, enum method method)
{
	const struct endpoint *e = &w->endpoints[endpoint];

	for (size_t i = 0; i < FAULTS_MAX; i++) {
		const struct fault *f = &e->faults[i];

		if (f->until_ms > w->now_ms && (f->method == METHOD_ANY || f->method == method) &&
		    chance_of(&w->chance, f->percent))
			return f;
	}
	return NULL;
}

/* What cannot be proven wrong by anybody is not said wrongly here: tags have their own lies, balances none. */
static bool may_be_another(enum method m)
{
	return m != METHOD_TAG && m != METHOD_CALL && m != METHOD_TX;
}

static bool answer_falsely(struct world *w, unsigned endpoint, enum answer answer, struct request *q, struct buf *out)
{
	static const enum tally tallies[ANSWERS] = { TALLY_NULL, TALLY_EMPTY, TALLY_OTHER,    TALLY_ERROR,  TALLY_LOST,
						     TALLY_LATE, TALLY_TAMPERED, TALLY_STALE, TALLY_GARBAGE };
	int head;

	w->tally[tallies[answer]]++;
	switch (answer) {
	case ANSWER_NULL:
		buf_put_text(out, "null");
		return true;
	case ANSWER_EMPTY:
		buf_put_text(out, q->method == METHOD_CALL ? "\"0x\"" : "[]");
		return true;
	case ANSWER_OTHER:
		if (!may_be_another(q->method))
			return put_error(out, "header not found");
		put_other(w, endpoint, q, out);
		return true;
	case ANSWER_TAMPERED:
		if (!may_be_another(q->method))
			return put_error(out, "header not found");
		answer_truly(w, endpoint, q, out);
		tamper(w, out);
		return true;
	case ANSWER_STALE:
		if (q->method != METHOD_LATEST)
			break;
		head = node_head(w, endpoint);
		node_put_block(w, head < 0 ? -1 : tree_at_height(w->tree, head, w->tree->blocks[head].height -
						  chance_below(&w->chance, 5)), out);
		return true;
	case ANSWER_ERROR:
		return put_error(out, chance_of(&w->chance, 50) ? "header not found" : "missing trie node");
	case ANSWER_LOST:
	case ANSWER_LATE:
	case ANSWER_GARBAGE:
	case ANSWERS:
		break;
	}
	return answer_truly(w, endpoint, q, out);
}

bool node_answer(struct world *w, unsigned endpoint, struct slice request, struct buf *out, int64_t *delay_ms)
{
	struct request q;
	const struct fault *f;
	struct buf value = { 0 };
	bool good;

	if (!read_request(request, &q))
		return false;
	f = find_fault(w, endpoint, q.method);
	if (f && f->answer == ANSWER_LOST) {
		w->tally[TALLY_LOST]++;
		return false;
	}
	if (f && f->answer == ANSWER_LATE)
		*delay_ms += (int64_t)chance_below(&w->chance, 9900);
	good = f ? answer_falsely(w, endpoint, f->answer, &q, &value) : answer_truly(w, endpoint, &q, &value);
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"%s\":", q.id, good ? "result" : "error");
	buf_put(out, value.data, value.len);
	if (!f || f->answer != ANSWER_GARBAGE)
		buf_put_u8(out, '}');
	buf_free(&value);
	return true;
}
