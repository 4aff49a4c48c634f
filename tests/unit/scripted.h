/*
 * scripted - a world behind listener/loop.h that does only what a test says: a clock that the test moves, posts
 * that wait until the test ends them, sockets that the test opens, speaks through and closes.
 */
#ifndef TESTS_UNIT_SCRIPTED_H
#define TESTS_UNIT_SCRIPTED_H

#include "common/scan.h"
#include "listener/forge.h"
#include "listener/loop.h"
#include "listener/tape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SCRIPTED_SOCKETS 4

struct scripted_socket {
	struct loop_socket *socket;
	bool opening;
	unsigned opens, closes;
	struct buf sent;		/* each message and a newline; ends with a NUL that is not counted */
};

struct scripted {
	struct loop loop;		/* first: the world is its loop */
	int64_t now_ms;			/* steady; the timers' */
	int64_t set_by_ms;		/* the wall clock is ahead by */
	uint64_t chance;		/* what random() gives */
	struct loop_timer *timers;	/* soonest first */
	struct loop_post *posts;	/* oldest first */
	unsigned posted;		/* since the start */
	struct scripted_socket sockets[SCRIPTED_SOCKETS];
	/* Told of each; NULL: nobody is. */
	void (*on_post)(struct scripted *w, struct loop_post *post);
	void (*on_opening)(struct scripted *w, struct loop_socket *socket);
};

static inline struct scripted *scripted_of(struct loop *loop)
{
	return (struct scripted *)loop;
}

static inline int64_t scripted_now_ms(struct loop *loop)
{
	return scripted_of(loop)->now_ms + scripted_of(loop)->set_by_ms;
}

static inline int64_t scripted_steady_ms(struct loop *loop)
{
	return scripted_of(loop)->now_ms;
}

static inline uint64_t scripted_random(struct loop *loop)
{
	return scripted_of(loop)->chance;
}

static inline void scripted_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at = &scripted_of(loop)->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->set = false;
}

static inline void scripted_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ms)
{
	struct loop_timer **at = &scripted_of(loop)->timers;

	scripted_timer_cancel(loop, timer);
	while (*at && (*at)->at_ms <= at_ms)
		at = &(*at)->next;
	timer->at_ms = at_ms;
	timer->set = true;
	timer->next = *at;
	*at = timer;
}

static inline void scripted_post(struct loop *loop, struct loop_post *post)
{
	struct loop_post **at = &scripted_of(loop)->posts;

	while (*at)
		at = &(*at)->next;
	post->next = NULL;
	*at = post;
	scripted_of(loop)->posted++;
	if (scripted_of(loop)->on_post)
		scripted_of(loop)->on_post(scripted_of(loop), post);
}

static inline void scripted_post_cancel(struct loop *loop, struct loop_post *post)
{
	(void)loop;
	(void)post;
	fail_msg("nobody cancels a post");
}

/* The one of this URL; made when it is opened first. */
static inline struct scripted_socket *scripted_socket(struct scripted *w, const char *url)
{
	for (unsigned i = 0; i < SCRIPTED_SOCKETS; i++) {
		if (w->sockets[i].socket && strcmp(w->sockets[i].socket->url, url) == 0)
			return &w->sockets[i];
	}
	fail_msg("no socket %s", url);
	return NULL;
}

static inline void scripted_socket_open(struct loop *loop, struct loop_socket *socket)
{
	struct scripted_socket *s = scripted_of(loop)->sockets;

	while (s->socket && s->socket != socket)
		s++;
	assert_true(s < scripted_of(loop)->sockets + SCRIPTED_SOCKETS);
	assert_false(s->opening || socket->open);
	s->socket = socket;
	s->opening = true;
	s->opens++;
	if (scripted_of(loop)->on_opening)
		scripted_of(loop)->on_opening(scripted_of(loop), socket);
}

static inline void scripted_socket_send(struct loop *loop, struct loop_socket *socket, struct slice text)
{
	struct scripted_socket *s = scripted_socket(scripted_of(loop), socket->url);

	assert_true(socket->open);
	buf_put(&s->sent, text.data, text.len);
	buf_put_text(&s->sent, "\n");
	buf_put_u8(&s->sent, '\0');
	s->sent.len--;
}

static inline void scripted_socket_close(struct loop *loop, struct loop_socket *socket)
{
	struct scripted_socket *s = scripted_socket(scripted_of(loop), socket->url);

	s->closes += s->opening || socket->open;
	s->opening = socket->open = false;
}

static inline void scripted_start(struct scripted *w)
{
	static const struct loop_ops ops = {
		.now_ms = scripted_now_ms,
		.steady_ms = scripted_steady_ms,
		.random = scripted_random,
		.timer_set = scripted_timer_set,
		.timer_cancel = scripted_timer_cancel,
		.post = scripted_post,
		.post_cancel = scripted_post_cancel,
		.socket_open = scripted_socket_open,
		.socket_send = scripted_socket_send,
		.socket_close = scripted_socket_close,
	};

	*w = (struct scripted){ .loop.ops = &ops, .now_ms = 1767225600000 };
}

/* Time passes; the timers fire in their order, each at its own moment. */
static inline void scripted_pass(struct scripted *w, int64_t ms)
{
	int64_t until_ms = w->now_ms + ms;

	while (w->timers && w->timers->at_ms <= until_ms) {
		struct loop_timer *timer = w->timers;

		if (timer->at_ms > w->now_ms)
			w->now_ms = timer->at_ms;
		scripted_timer_cancel(&w->loop, timer);
		timer->fire(timer);
	}
	w->now_ms = until_ms;
}

/* Posts. */

static inline bool scripted_has(struct slice text, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= text.len; i++) {
		if (memcmp(text.data + i, word, len) == 0)
			return true;
	}
	return false;
}

static inline unsigned scripted_count(const struct scripted *w, const char *url, const char *word)
{
	unsigned count = 0;

	for (const struct loop_post *post = w->posts; post; post = post->next)
		count += (!url || strcmp(post->url, url) == 0) && scripted_has(post->body, word);
	return count;
}

/* The oldest open post to @url (NULL: to any) that has @word in it; the test fails without one. */
static inline struct loop_post *scripted_find(const struct scripted *w, const char *url, const char *word)
{
	for (struct loop_post *post = w->posts; post; post = post->next) {
		if ((!url || strcmp(post->url, url) == 0) && scripted_has(post->body, word))
			return post;
	}
	fail_msg("nothing asks %s for %s", url ? url : "anybody", word);
	return NULL;
}

static inline void scripted_expect_body(const struct loop_post *post, const char *text)
{
	assert_non_null(post);
	assert_int_equal(post->body.len, strlen(text));
	assert_memory_equal(post->body.data, text, post->body.len);
}

static inline void scripted_end(struct scripted *w, struct loop_post *post, enum loop_end end, int status,
				struct slice answer)
{
	struct loop_post **at = &w->posts;

	while (*at != post) {
		assert_non_null(*at);
		at = &(*at)->next;
	}
	*at = post->next;
	post->done(post, end, status, answer);
}

static inline void scripted_answer(struct scripted *w, struct loop_post *post, int status, const char *text)
{
	scripted_end(w, post, LOOP_ANSWERED, status, slice_of_text(text));
}

static inline void scripted_fail(struct scripted *w, struct loop_post *post, enum loop_end end)
{
	scripted_end(w, post, end, 0, (struct slice){ NULL, 0 });
}

/* Answer the single call in @post with the @member "result" or "error". */
static inline void scripted_reply(struct scripted *w, struct loop_post *post, const char *member, const char *value)
{
	struct buf text = { 0 };
	struct scan s = scan_begin(post->body);
	struct slice name, raw, id = { NULL, 0 };

	assert_true(scan_object(&s));
	while (scan_member(&s, &name) && scan_skip(&s, &raw)) {
		if (slice_is(name, "id"))
			id = raw;
	}
	buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"%s\":", (int)id.len, (const char *)id.data, member);
	buf_put_text(&text, value);
	buf_put_text(&text, "}");
	scripted_end(w, post, LOOP_ANSWERED, 200, buf_slice(&text));
	buf_free(&text);
}

/* Sockets. */

static inline void scripted_open(struct scripted *w, const char *url)
{
	struct scripted_socket *s = scripted_socket(w, url);

	assert_true(s->opening);
	s->opening = false;
	s->socket->open = true;
	s->socket->opened(s->socket);
}

static inline void scripted_say(struct scripted *w, const char *url, const char *text)
{
	struct scripted_socket *s = scripted_socket(w, url);

	assert_true(s->socket->open);
	s->socket->message(s->socket, slice_of_text(text));
}

static inline void scripted_announce(struct scripted *w, const char *url, const char *header)
{
	struct buf text = { 0 };

	buf_put_text(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":"
			    "{\"subscription\":\"0x1\",\"result\":");
	buf_put_text(&text, header);
	buf_put(&text, "}}", 3);
	scripted_say(w, url, (const char *)text.data);
	buf_free(&text);
}

static inline void scripted_hang_up(struct scripted *w, const char *url)
{
	struct scripted_socket *s = scripted_socket(w, url);

	assert_true(s->socket->open || s->opening);
	s->socket->open = s->opening = false;
	s->socket->closed(s->socket);
}

/* As a loop does at its end: what is open is canceled. */
static inline void scripted_cancel(struct scripted *w)
{
	while (w->posts)
		scripted_fail(w, w->posts, LOOP_CANCELED);
}

static inline void scripted_stop(struct scripted *w)
{
	assert_null(w->posts);
	assert_null(w->timers);
	for (unsigned i = 0; i < SCRIPTED_SOCKETS; i++)
		buf_free(&w->sockets[i].sent);
}

/* Blocks of a scenario (tidemark help forge), as a node gives them. */

#define SCRIPTED_BLOCKS 32

struct scripted_block {
	struct hash32 hash;
	uint64_t height;
	char *block, *receipts;		/* JSON */
};

static inline char *scripted_copy(struct slice text)
{
	char *copy = xmalloc(text.len + 1);

	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	return copy;
}

/* At most @most, in the order in which the node is told them; their number is given. */
static inline size_t scripted_forge_most(const char *scenario, struct scripted_block *out, size_t most)
{
	struct buf tape = { 0 };
	struct complaint why;
	struct tape_record record;
	size_t count = 0;

	if (forge("scenario", slice_of_text(scenario), &tape, &why))
		fail_msg("%s", why.text);
	for (size_t at = 0, end; at < tape.len; at = end + 1) {
		for (end = at; end < tape.len && tape.data[end] != '\n'; end++)
			;
		if (tape_parse((struct slice){ tape.data + at, end - at }, &record, &why))
			fail_msg("%s", why.text);
		if (record.kind != TAPE_BLOCK)
			continue;
		assert_true(count < most);
		out[count++] = (struct scripted_block){ record.hash, record.height, scripted_copy(record.block),
							scripted_copy(record.receipts) };
	}
	buf_free(&tape);
	return count;
}

static inline size_t scripted_forge(const char *scenario, struct scripted_block out[SCRIPTED_BLOCKS])
{
	return scripted_forge_most(scenario, out, SCRIPTED_BLOCKS);
}

static inline void scripted_free_blocks(struct scripted_block *blocks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(blocks[i].block);
		free(blocks[i].receipts);
	}
}

#endif
