/*
 * A block's events come before story_applied(), since they are committed with
 * it; what they tell happened in it.  So events of a block above our tip, and all
 * after a chain.reorg, are held until the block is drawn:
 *
 *     story_event...  -> held
 *     story_rolled_back  -> the fork, and the payments that went with the lost blocks
 *     story_applied   -> the block, and what it did
 */
#include "listener/story.h"

#include "listener/story_fork.h"
#include "listener/story_tell.h"

#include <stdlib.h>
#include <string.h>

struct story {
	struct teller teller;
	struct story_chain chain;
	struct story_event **held;
	size_t held_count;

	/* blocks in a row with nothing for us, not told yet */
	uint64_t fold_from, fold_count;
	struct hash32 fold_hash;
	int64_t fold_ms;

	bool head_open;			/* a head was announced, and it is not said what came of it */
	struct hash32 head;
	uint64_t tag_height[TAGS];	/* said so far */
};

struct story *story_new(FILE *out, bool colour)
{
	struct story *s = xcalloc(1, sizeof(*s));

	s->teller.page = (struct page){ .out = out, .colour = colour };
	return s;
}

static uint64_t tip_height(const struct story *s)
{
	return s->chain.ours_count ? s->chain.ours[s->chain.ours_count - 1].height : 0;
}

/* Blocks. */

static void say_block(struct story *s, uint64_t height, const struct hash32 *hash, const char *tail)
{
	char text[SHORT_TEXT];

	page_chain(&s->teller.page, "●", TONE_PLAIN, "block %llu  %s%s", (unsigned long long)height,
		   short_hash(hash, text), tail);
}

static void flush_fold(struct story *s)
{
	int64_t now_ms = s->teller.page.now_ms;

	if (!s->fold_count)
		return;
	s->teller.page.now_ms = s->fold_ms;
	if (s->fold_count == 1)
		say_block(s, s->fold_from, &s->fold_hash, "  nothing for us");
	else
		page_chain(&s->teller.page, "●", TONE_PLAIN, "blocks %llu-%llu  nothing for us",
			   (unsigned long long)s->fold_from,
			   (unsigned long long)(s->fold_from + s->fold_count - 1));
	s->teller.page.now_ms = now_ms;
	s->fold_count = 0;
}

/* Whatever waits to be told comes before what is told now. */
static void catch_up(struct story *s)
{
	flush_fold(s);
	teller_flush(&s->teller);
}

static void fold(struct story *s, uint64_t height, const struct hash32 *hash)
{
	teller_flush(&s->teller);
	if (!s->fold_count) {
		s->fold_from = height;
		s->fold_hash = *hash;
		s->fold_ms = s->teller.page.now_ms;
	}
	s->fold_count++;
}

/* Events that wait for their block. */

static void hold(struct story *s, const struct story_event *e)
{
	s->held = xrealloc(s->held, (s->held_count + 1) * sizeof(struct story_event *));
	s->held[s->held_count] = xmalloc(sizeof(*e));
	*s->held[s->held_count++] = *e;
}

/* Tell the first @count of the held. */
static void release(struct story *s, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		teller_event(&s->teller, s->held[i]);
		free(s->held[i]);
	}
	s->held_count -= count;
	if (s->held_count)
		memmove(s->held, s->held + count, s->held_count * sizeof(struct story_event *));
}

static bool belongs_to_next_block(const struct story *s, const struct story_event *e)
{
	if (s->held_count || story_event_is(e, "chain.reorg"))
		return true;
	return e->has_intent && !e->final && e->block.known && e->block.height > tip_height(s);
}

static bool is_of_lost_block(const struct story_event *e)
{
	return strcmp(e->reason.code, "reorg") == 0;
}

/* A reorg's commit begins with it: what is held before it is of blocks that an earlier run applied. */
static void release_strays(struct story *s)
{
	if (!s->held_count)
		return;
	catch_up(s);
	release(s, s->held_count);
}

void story_event(struct story *s, struct slice body)
{
	struct story_event e;
	struct complaint why;

	if (story_event_read(body, &e, &why)) {
		page_chain(&s->teller.page, "!", TONE_BAD, "an event that cannot be read: %.400s", why.text);
		return;
	}
	s->teller.page.now_ms = e.time_ms;
	if (teller_gathers(&e)) {
		flush_fold(s);
		teller_gather(&s->teller, &e);
	} else if (belongs_to_next_block(s, &e)) {
		if (story_event_is(&e, "chain.reorg"))
			release_strays(s);
		hold(s, &e);
	} else {
		catch_up(s);
		teller_event(&s->teller, &e);
	}
}

/* What was committed. */

void story_applied(struct story *s, uint64_t height, const struct hash32 *hash)
{
	story_chain_push(&s->chain, height, hash);
	if (!s->held_count) {
		fold(s, height, hash);
		return;
	}
	catch_up(s);
	say_block(s, height, hash, "");
	release(s, s->held_count);
}

static void draw_fork(struct story *s, const struct story_event *e)
{
	uint64_t depth = e->old_tip.height - e->ancestor.height;
	struct buf lost = { 0 }, kept = { 0 };

	page_chain(&s->teller.page, "╳", TONE_BAD,
		   "reorg: after block %llu the chain is another one now; %llu block%s %s lost",
		   (unsigned long long)e->ancestor.height, (unsigned long long)depth, depth == 1 ? "" : "s",
		   depth == 1 ? "is" : "are");
	if (!s->chain.ours_count)
		return;
	story_chain_draw(&s->chain, &e->ancestor, &e->new_tip, &lost, &kept);
	page_chain(&s->teller.page, NULL, TONE_PLAIN, "%s", "");
	page_chain(&s->teller.page, NULL, TONE_BAD, "    %s", (const char *)lost.data);
	page_chain(&s->teller.page, NULL, TONE_PLAIN, "    %s", (const char *)kept.data);
	page_chain(&s->teller.page, NULL, TONE_PLAIN, "%s", "");
	buf_free(&lost);
	buf_free(&kept);
}

void story_rolled_back(struct story *s, uint64_t ancestor, uint64_t old_tip)
{
	size_t count = 0;

	(void)old_tip;
	catch_up(s);
	if (s->held_count && story_event_is(s->held[0], "chain.reorg")) {
		draw_fork(s, s->held[0]);
		for (count = 1; count < s->held_count && is_of_lost_block(s->held[count]); count++)
			;
	}
	release(s, count);
	story_chain_cut(&s->chain, ancestor);
}

/* What the tape says. */

/* A head that was not followed: an older block of ours, or one of a branch that is not believed. */
static void close_head(struct story *s)
{
	const struct told_block *b = story_chain_find(&s->chain, &s->head);
	const struct block_ref *ours = b ? story_chain_at(&s->chain, b->height) : NULL;
	char text[SHORT_TEXT];

	if (!s->head_open)
		return;
	s->head_open = false;
	if (!b || (ours && hash_eq(&ours->hash, &b->hash) && b->height == tip_height(s)))
		return;
	catch_up(s);
	if (ours && hash_eq(&ours->hash, &b->hash))
		page_chain(&s->teller.page, "○", TONE_DIM,
			   "the node says block %llu again: it lags, nothing is undone",
			   (unsigned long long)b->height);
	else
		page_chain(&s->teller.page, "○", TONE_DIM, "the node says block %llu %s: not followed",
			   (unsigned long long)b->height, short_hash(&b->hash, text));
}

static void on_first(struct story *s, const struct tape_record *r)
{
	struct chain_config *c = &s->teller.config;

	*c = r->config;
	for (size_t i = 0; i < c->token_count; i++)
		text_copy(c->symbols[i], SYMBOL_MAX, r->config.symbols[i]);
	teller_intro(&s->teller);
}

static void on_block(struct story *s, const struct tape_record *r)
{
	struct told_block b = { r->height, r->hash, r->parent, r->block_time_s };

	story_chain_tell(&s->chain, &b);
}

static void on_head(struct story *s, const struct tape_record *r)
{
	const struct told_block *b = story_chain_find(&s->chain, &r->hash);

	s->head_open = true;
	s->head = r->hash;
	if (b && b->time_s * 1000 > s->teller.page.now_ms)
		s->teller.page.now_ms = b->time_s * 1000;
}

static void on_clock(struct story *s, const struct tape_record *r)
{
	if (r->time_ms > s->teller.page.now_ms)
		s->teller.page.now_ms = r->time_ms;
}

static void say_tag(struct story *s, enum tag tag, const struct tape_record *r)
{
	const struct told_block *b = story_chain_find(&s->chain, &r->hash);
	const struct block_ref *ours = b ? story_chain_at(&s->chain, b->height) : NULL;
	bool first = !s->tag_height[tag];
	char text[SHORT_TEXT];

	if (!b || (ours && b->height <= s->tag_height[tag]))
		return;
	catch_up(s);
	if (ours && !hash_eq(&ours->hash, &b->hash)) {
		page_chain(&s->teller.page, "!", TONE_WARN,
			   "the node calls block %llu %s %s, which is not on our chain",
			   (unsigned long long)b->height, short_hash(&b->hash, text), tag_name(tag));
		return;
	}
	s->tag_height[tag] = b->height;
	page_chain(&s->teller.page, "◆", TONE_BOLD, "%s: up to block %llu%s", tag_name(tag),
		   (unsigned long long)b->height,
		   first && tag == TAG_FINALIZED ? "; the network promises not to undo it or any below" : "");
}

static void on_safe(struct story *s, const struct tape_record *r)
{
	say_tag(s, TAG_SAFE, r);
}

static void on_finalized(struct story *s, const struct tape_record *r)
{
	say_tag(s, TAG_FINALIZED, r);
}

static void on_attempt(struct story *s, const struct tape_record *r)
{
	flush_fold(s);
	teller_gather_attempt(&s->teller, r->intent_id, &r->attempt.tx_hash);
}

static void on_fault(struct story *s, const struct tape_record *r)
{
	static const char *const answers[] = {
		[FAULT_NULL] = "null",
		[FAULT_EMPTY] = "an empty answer",
		[FAULT_LATE] = "no answer in time",
		[FAULT_OTHER] = "the answer to something else",
		[FAULT_ERROR] = "an error",
	};
	char method[METHOD_MAX];

	text_copy(method, sizeof(method), r->method);
	catch_up(s);
	page_chain(&s->teller.page, "!", TONE_DIM, "the node does wrong: %s to %s", answers[r->answer], method);
}

static void on_accept(struct story *s, const struct tape_record *r)
{
	char text[SHORT_TEXT];

	catch_up(s);
	page_chain(&s->teller.page, "!", TONE_BOLD, "an operator accepts the branch of block %s",
		   short_hash(&r->hash, text));
}

void story_record(struct story *s, const struct tape_record *r)
{
	static void (*const handlers[])(struct story *, const struct tape_record *) = {
		[TAPE_FIRST] = on_first,
		[TAPE_INTENT] = NULL,		/* its event tells */
		[TAPE_ATTEMPT] = on_attempt,
		[TAPE_TRANSITION] = NULL,	/* its event tells */
		[TAPE_BLOCK] = on_block,
		[TAPE_BALANCE] = NULL,
		[TAPE_HEAD] = on_head,
		[TAPE_SAFE] = on_safe,
		[TAPE_FINALIZED] = on_finalized,
		[TAPE_CLOCK] = on_clock,
		[TAPE_FAULT] = on_fault,
		[TAPE_ACCEPT] = on_accept,
	};

	close_head(s);
	if (handlers[r->kind])
		handlers[r->kind](s, r);
}

void story_free(struct story *s, bool finished)
{
	close_head(s);
	catch_up(s);
	release(s, s->held_count);
	teller_end(&s->teller, finished);
	fflush(s->teller.page.out);
	teller_free(&s->teller);
	story_chain_free(&s->chain);
	free(s->held);
	free(s);
}
