#define _GNU_SOURCE		/* memmem */
#include "listener/tapenode.h"

#include "common/log.h"
#include "common/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told_block {
	struct hash32 hash, parent;
	uint64_t height;
	int64_t time_ms;
	struct buf block, receipts;	/* raw JSON */
};

struct told_balance {
	struct address token, account;
	struct hash32 block;
	struct u256 value;
};

struct told_fault {
	char method[METHOD_MAX];
	bool has_block;
	struct hash32 block;
	enum fault_answer answer;
	uint64_t times;			/* left */
	uint64_t used;
};

struct tapenode {
	struct loop loop;		/* first: the world is its loop */
	int64_t now_ms;
	uint64_t chance;
	struct loop_timer *timers;
	struct loop_post *posts, **posts_end;
	struct loop_post *late;		/* answered when the next record comes */
	struct loop_socket *socket;
	bool opening, subscribed, announcing, subscribing;
	uint64_t chain_id;
	struct told_block *blocks;
	size_t block_count;
	struct told_balance *balances;
	size_t balance_count;
	struct told_fault *faults;
	size_t fault_count;
	bool has_head, has_tag[TAGS];
	struct hash32 head, tags[TAGS];
};

/* The world: clock, timers, requests. */

static struct tapenode *node_of(struct loop *loop)
{
	return (struct tapenode *)loop;
}

static int64_t world_now_ms(struct loop *loop)
{
	return node_of(loop)->now_ms;
}

/* splitmix64 from a fixed seed: the same tape, the same chance. */
static uint64_t world_random(struct loop *loop)
{
	uint64_t z = node_of(loop)->chance += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void world_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at = &node_of(loop)->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->set = false;
}

static void world_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms)
{
	struct loop_timer **at = &node_of(loop)->timers;

	world_timer_cancel(loop, timer);
	while (*at && (*at)->at_ms <= at_ms)
		at = &(*at)->next;
	timer->at_ms = at_ms;
	timer->set = true;
	timer->next = *at;
	*at = timer;
}

static void world_post(struct loop *loop, struct loop_post *post)
{
	struct tapenode *n = node_of(loop);

	post->next = NULL;
	*n->posts_end = post;
	n->posts_end = &post->next;
}

static struct loop_post *pop_post(struct tapenode *n)
{
	struct loop_post *post = n->posts;

	n->posts = post->next;
	if (!n->posts)
		n->posts_end = &n->posts;
	return post;
}

/* The asker gives up: nobody in this world does. */
static void world_post_cancel(struct loop *loop, struct loop_post *post)
{
	(void)loop;
	(void)post;
}

static void world_socket_open(struct loop *loop, struct loop_socket *socket)
{
	node_of(loop)->socket = socket;
	node_of(loop)->opening = true;
}

static void world_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text)
{
	(void)socket;
	if (memmem(text.data, text.len, "eth_subscribe", 13))
		node_of(loop)->subscribing = true;
}

static void world_socket_close(struct loop *loop, struct loop_socket *socket)
{
	socket->open = false;
	node_of(loop)->socket = NULL;
	node_of(loop)->subscribed = false;
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

struct tapenode *tapenode_new(void)
{
	struct tapenode *n = xcalloc(1, sizeof(*n));

	n->loop.ops = &world_ops;
	n->posts_end = &n->posts;
	return n;
}

void tapenode_free(struct tapenode *n)
{
	for (size_t i = 0; i < n->block_count; i++) {
		buf_free(&n->blocks[i].block);
		buf_free(&n->blocks[i].receipts);
	}
	free(n->blocks);
	free(n->balances);
	free(n->faults);
	free(n);
}

struct loop *tapenode_loop(struct tapenode *n)
{
	return &n->loop;
}

void tapenode_set_clock(struct tapenode *n, int64_t ms)
{
	n->now_ms = ms;
}

/* What it was told. */

static const struct told_block *find_block(const struct tapenode *n, const struct hash32 *hash)
{
	for (size_t i = n->block_count; i-- > 0;) {
		if (hash_eq(&n->blocks[i].hash, hash))
			return &n->blocks[i];
	}
	return NULL;
}

static bool same_text(const struct buf *a, struct slice b)
{
	return a->len == b.len && memcmp(a->data, b.data, b.len) == 0;
}

static enum err tell_block(struct tapenode *n, const struct tape_record *r, struct complaint *why)
{
	const struct told_block *same = find_block(n, &r->hash);
	struct told_block *b;

	if (same) {
		if (same_text(&same->block, r->block) && same_text(&same->receipts, r->receipts))
			return OK;
		return complain(why, E_CONFLICT, "block %llu is told a second time with another %s",
				(unsigned long long)r->height,
				same_text(&same->block, r->block) ? "list of receipts" : "content");
	}
	n->blocks = xrealloc(n->blocks, (n->block_count + 1) * sizeof(*n->blocks));
	b = &n->blocks[n->block_count++];
	*b = (struct told_block){ .hash = r->hash, .parent = r->parent, .height = r->height,
				  .time_ms = r->block_time_s * 1000 };
	buf_put(&b->block, r->block.data, r->block.len);
	buf_put(&b->receipts, r->receipts.data, r->receipts.len);
	return OK;
}

static void tell_balance(struct tapenode *n, const struct tape_record *r)
{
	n->balances = xrealloc(n->balances, (n->balance_count + 1) * sizeof(*n->balances));
	n->balances[n->balance_count++] = (struct told_balance){ r->token, r->account, r->hash, r->value };
}

static void tell_fault(struct tapenode *n, const struct tape_record *r)
{
	struct told_fault *f;

	n->faults = xrealloc(n->faults, (n->fault_count + 1) * sizeof(*n->faults));
	f = &n->faults[n->fault_count++];
	*f = (struct told_fault){ .has_block = r->has_block, .block = r->hash, .answer = r->answer, .times = r->times };
	memcpy(f->method, r->method, sizeof(f->method));
}

static void tell_head(struct tapenode *n, const struct tape_record *r)
{
	const struct told_block *b = find_block(n, &r->hash);
	char text[HASH_TEXT];

	n->has_head = true;
	n->head = r->hash;
	if (!b)
		log_odd("the tape announces a head that it has not told block=%s", hash_format(&r->hash, text));
	else if (b->time_ms > n->now_ms)
		n->now_ms = b->time_ms;
}

static void release_late(struct tapenode *n)
{
	while (n->late) {
		struct loop_post *post = n->late;

		n->late = post->next;
		world_post(&n->loop, post);
	}
}

enum err tapenode_tell(struct tapenode *n, const struct tape_record *r, bool quiet, struct complaint *why)
{
	enum tag tag = r->kind == TAPE_SAFE ? TAG_SAFE : TAG_FINALIZED;

	release_late(n);
	switch (r->kind) {
	case TAPE_BLOCK:
		return tell_block(n, r, why);
	case TAPE_BALANCE:
		tell_balance(n, r);
		return OK;
	case TAPE_HEAD:
		tell_head(n, r);
		n->announcing |= !quiet;
		return OK;
	case TAPE_SAFE:
	case TAPE_FINALIZED:
		n->has_tag[tag] = true;
		n->tags[tag] = r->hash;
		/* A node announces no tags: it repeats its head, which is when a listener looks. */
		n->announcing |= !quiet;
		return OK;
	case TAPE_CLOCK:
		if (r->time_ms < n->now_ms)
			return complain(why, E_INPUT, "clock: time does not go back");
		n->now_ms = r->time_ms;
		return OK;
	case TAPE_FAULT:
		tell_fault(n, r);
		return OK;
	case TAPE_FIRST:
		n->chain_id = r->config.chain_id;
		return OK;
	case TAPE_INTENT:
	case TAPE_ATTEMPT:
	case TAPE_TRANSITION:
	case TAPE_ACCEPT:
		return OK;
	}
	return OK;
}

/* Its answers. */

struct request {
	uint64_t id;
	struct slice method;
	struct slice params;
	struct slice first, second;	/* the first two parameters, raw */
};

static bool read_request(struct slice body, struct request *out)
{
	struct scan s = scan_begin(body);
	struct slice name, text;

	scan_object(&s);
	while (scan_member(&s, &name)) {
		if (slice_is(name, "id") && scan_text_or_null(&s, &text))
			u64_parse(text, &out->id);
		else if (slice_is(name, "method"))
			scan_string(&s, &out->method);
		else if (slice_is(name, "params"))
			scan_skip(&s, &out->params);
		else
			scan_skip(&s, NULL);
	}
	if (scan_failed(&s))
		return false;
	s = scan_begin(out->params);
	scan_array(&s);
	if (scan_element(&s))
		scan_skip(&s, &out->first);
	if (scan_element(&s))
		scan_skip(&s, &out->second);
	return true;
}

/* A quoted string without its quotes. */
static struct slice unquote(struct slice raw)
{
	if (raw.len >= 2 && raw.data[0] == '"')
		return (struct slice){ raw.data + 1, raw.len - 2 };
	return (struct slice){ NULL, 0 };
}

/* The raw value of one member of an object. */
static struct slice member_of(struct slice object, const char *wanted)
{
	struct scan s = scan_begin(object);
	struct slice name, value, found = { NULL, 0 };

	if (object.len == 0 || object.data[0] != '{')
		return found;
	scan_object(&s);
	while (scan_member(&s, &name)) {
		scan_skip(&s, &value);
		if (slice_is(name, wanted))
			found = value;
	}
	return found;
}

static const struct told_block *block_at(const struct tapenode *n, uint64_t height)
{
	const struct told_block *b = n->has_head ? find_block(n, &n->head) : NULL;

	while (b && b->height > height)
		b = find_block(n, &b->parent);
	return b && b->height == height ? b : NULL;
}

static void put_result(struct buf *out, const struct buf *raw)
{
	if (raw)
		buf_put(out, raw->data, raw->len);
	else
		buf_put_text(out, "null");
}

static bool put_error(struct buf *out, int code, const char *message)
{
	buf_printf(out, "{\"code\":%d,\"message\":\"%s\"}", code, message);
	return false;
}

/* Each answer writes a result, or an error and gives false. */

static bool answer_chain_id(struct tapenode *n, const struct request *q, struct buf *out)
{
	(void)q;
	buf_printf(out, "\"0x%llx\"", (unsigned long long)n->chain_id);
	return true;
}

static bool answer_block_by_hash(struct tapenode *n, const struct request *q, struct buf *out)
{
	const struct told_block *b;
	struct hash32 hash;

	if (!hash_parse(unquote(q->first), &hash))
		return put_error(out, -32602, "invalid argument 0");
	b = find_block(n, &hash);
	put_result(out, b ? &b->block : NULL);
	return true;
}

static bool answer_block_by_number(struct tapenode *n, const struct request *q, struct buf *out)
{
	struct slice what = unquote(q->first);
	const struct told_block *b = NULL;
	enum tag tag = slice_is(what, "safe") ? TAG_SAFE : slice_is(what, "finalized") ? TAG_FINALIZED : TAG_NONE;
	uint64_t height;

	if (tag != TAG_NONE) {
		b = n->has_tag[tag] ? find_block(n, &n->tags[tag]) : NULL;
		if (!b)
			return put_error(out, -32000, "block of this tag not found");
	} else if (slice_is(what, "latest")) {
		b = n->has_head ? find_block(n, &n->head) : NULL;
	} else if (quantity_parse_u64(what, &height)) {
		b = block_at(n, height);
	} else {
		return put_error(out, -32602, "invalid argument 0");
	}
	put_result(out, b ? &b->block : NULL);
	return true;
}

static bool answer_receipts(struct tapenode *n, const struct request *q, struct buf *out)
{
	const struct told_block *b;
	struct hash32 hash;

	if (!hash_parse(unquote(q->first), &hash))
		return put_error(out, -32602, "invalid argument 0");
	b = find_block(n, &hash);
	put_result(out, b ? &b->receipts : NULL);
	return true;
}

/* The receipt within a block's list, raw. */
static bool find_receipt(const struct told_block *b, struct slice tx_hash, struct slice *out)
{
	struct scan s = scan_begin(buf_slice(&b->receipts));
	struct slice hash;

	scan_array(&s);
	while (scan_element(&s)) {
		scan_skip(&s, out);
		hash = unquote(member_of(*out, "transactionHash"));
		if (hash.len == tx_hash.len && memcmp(hash.data, tx_hash.data, hash.len) == 0)
			return true;
	}
	return false;
}

static bool answer_receipt(struct tapenode *n, const struct request *q, struct buf *out)
{
	const struct told_block *b = n->has_head ? find_block(n, &n->head) : NULL;
	struct slice tx_hash = unquote(q->first), receipt;

	for (; b; b = find_block(n, &b->parent)) {
		if (!memmem(b->block.data, b->block.len, tx_hash.data, tx_hash.len) || !find_receipt(b, tx_hash, &receipt))
			continue;
		buf_put(out, receipt.data, receipt.len);
		return true;
	}
	buf_put_text(out, "null");
	return true;
}

static bool answer_call(struct tapenode *n, const struct request *q, struct buf *out)
{
	struct slice to = unquote(member_of(q->first, "to"));
	struct slice data = unquote(member_of(q->first, "data"));
	struct slice at = unquote(member_of(q->second, "blockHash"));
	struct address token, account;
	uint8_t call[36], value[32];
	char hex[65] = "";
	struct hash32 hash;

	if (!address_parse(to, &token) || !hash_parse(at, &hash) || !hex_decode(data, call, sizeof(call)))
		return put_error(out, -32602, "invalid argument 0");
	memcpy(account.b, call + 16, sizeof(account.b));
	for (size_t i = n->balance_count; i-- > 0;) {
		const struct told_balance *b = &n->balances[i];

		if (!address_eq(&b->token, &token) || !address_eq(&b->account, &account) || !hash_eq(&b->block, &hash))
			continue;
		u256_to_be(&b->value, value);
		hex_encode(value, sizeof(value), hex);
		buf_printf(out, "\"0x%s\"", hex);
		return true;
	}
	return put_error(out, -32000, "state not available");
}

static const struct {
	const char *method;
	bool (*answer)(struct tapenode *n, const struct request *q, struct buf *out);
} methods[] = {
	{ "eth_chainId", answer_chain_id },
	{ "eth_getBlockByHash", answer_block_by_hash },
	{ "eth_getBlockByNumber", answer_block_by_number },
	{ "eth_getBlockReceipts", answer_receipts },
	{ "eth_getTransactionReceipt", answer_receipt },
	{ "eth_call", answer_call },
};

static bool answer_truly(struct tapenode *n, const struct request *q, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (slice_is(q->method, methods[i].method))
			return methods[i].answer(n, q, out);
	}
	return put_error(out, -32601, "the method does not exist");
}

/* The block that a request is about, where its hash stands in it. */
static bool is_about(const struct request *q, const struct told_fault *f)
{
	char text[HASH_TEXT];

	hash_format(&f->block, text);
	return !f->has_block || memmem(q->params.data, q->params.len, text, HASH_TEXT - 1);
}

static struct told_fault *find_fault(struct tapenode *n, const struct request *q)
{
	for (size_t i = 0; i < n->fault_count; i++) {
		struct told_fault *f = &n->faults[i];

		if (f->times && slice_is(q->method, f->method) && is_about(q, f))
			return f;
	}
	return NULL;
}

/* The same question about another block that it knows. */
static bool answer_other(struct tapenode *n, const struct request *q, struct buf *out)
{
	for (size_t i = 0; i < n->block_count; i++) {
		struct request other = *q;
		char text[HASH_TEXT + 2];

		text[0] = '"';
		hash_format(&n->blocks[i].hash, text + 1);
		text[HASH_TEXT] = '"';
		other.first = (struct slice){ (const uint8_t *)text, HASH_TEXT + 1 };
		if (other.first.len != q->first.len || memcmp(text, q->first.data, q->first.len) != 0)
			return answer_truly(n, &other, out);
	}
	buf_put_text(out, "null");
	return true;
}

static bool answer_falsely(struct tapenode *n, const struct told_fault *f, const struct request *q,
			   struct buf *out)
{
	switch (f->answer) {
	case FAULT_NULL:
		buf_put_text(out, "null");
		return true;
	case FAULT_EMPTY:
		buf_put_text(out, slice_is(q->method, "eth_call") ? "\"0x\"" : "[]");
		return true;
	case FAULT_OTHER:
		return answer_other(n, q, out);
	case FAULT_ERROR:
		return put_error(out, -32000, "header not found");
	case FAULT_LATE:
		break;
	}
	return answer_truly(n, q, out);
}

static void deliver(struct tapenode *n, struct loop_post *post, const struct told_fault *fault,
		    const struct request *q)
{
	struct buf value = { 0 }, body = { 0 };
	bool good = fault ? answer_falsely(n, fault, q, &value) : answer_truly(n, q, &value);

	buf_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"%s\":", (unsigned long long)q->id,
		   good ? "result" : "error");
	buf_put(&body, value.data, value.len);
	buf_put_u8(&body, '}');
	post->done(post, LOOP_ANSWERED, 200, buf_slice(&body));
	buf_free(&value);
	buf_free(&body);
}

static void serve(struct tapenode *n)
{
	struct loop_post *post = pop_post(n);
	struct request q = { .id = 0 };
	struct told_fault *fault;

	if (!read_request(post->body, &q)) {
		post->done(post, LOOP_ANSWERED, 400, slice_of_text("bad request"));
		return;
	}
	fault = find_fault(n, &q);
	if (fault) {
		fault->times--;
		fault->used++;
	}
	if (fault && fault->answer == FAULT_LATE) {
		post->next = n->late;
		n->late = post;
		return;
	}
	deliver(n, post, fault, &q);
}

/* Its announcements. */

static void say(struct tapenode *n, const char *text)
{
	n->socket->message(n->socket, slice_of_text(text));
}

static void announce(struct tapenode *n)
{
	const struct told_block *b = n->has_head ? find_block(n, &n->head) : NULL;
	struct buf text = { 0 };
	char hash[HASH_TEXT];

	n->announcing = false;
	if (!n->has_head || !n->subscribed)
		return;
	buf_put_text(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":"
			    "{\"subscription\":\"0x1\",\"result\":");
	if (b)
		buf_put(&text, b->block.data, b->block.len);
	else
		buf_printf(&text, "{\"hash\":\"%s\"}", hash_format(&n->head, hash));
	buf_put_text(&text, "}}");
	n->socket->message(n->socket, buf_slice(&text));
	buf_free(&text);
}

static bool step_socket(struct tapenode *n)
{
	if (!n->socket)
		return false;
	if (n->opening) {
		n->opening = false;
		n->socket->open = true;
		n->socket->opened(n->socket);
		return true;
	}
	if (n->subscribing) {
		n->subscribing = false;
		n->subscribed = true;
		say(n, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}");
		return true;
	}
	if (n->announcing) {
		announce(n);
		return true;
	}
	return false;
}

bool tapenode_fault_used(const struct tapenode *n, size_t index, uint64_t *times)
{
	if (index >= n->fault_count)
		return false;
	*times = n->faults[index].used;
	return true;
}

void tapenode_use_fault(struct tapenode *n, uint64_t times)
{
	struct told_fault *f = &n->faults[n->fault_count - 1];

	f->used = times < f->times ? times : f->times;
	f->times -= f->used;
}

bool tapenode_step(struct tapenode *n)
{
	struct loop_timer *timer = n->timers;

	if (timer && timer->at_ms <= n->now_ms) {
		world_timer_cancel(&n->loop, timer);
		timer->fire(timer);
		return true;
	}
	if (n->posts) {
		serve(n);
		return true;
	}
	return step_socket(n);
}

void tapenode_cancel_all(struct tapenode *n)
{
	release_late(n);
	while (n->posts) {
		struct loop_post *post = pop_post(n);

		post->done(post, LOOP_CANCELED, 0, (struct slice){ NULL, 0 });
	}
}
