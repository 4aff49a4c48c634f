#include "listener/story_fork.h"

#include "listener/story_page.h"

#include <stdlib.h>

#define DRAWN_MAX 3		/* blocks of a branch that are drawn before its middle is left out */

void story_chain_free(struct story_chain *c)
{
	free(c->told);
	free(c->ours);
}

void story_chain_tell(struct story_chain *c, const struct told_block *b)
{
	if (c->told_count == c->told_cap) {
		c->told_cap = c->told_cap ? c->told_cap * 2 : 64;
		c->told = xrealloc(c->told, c->told_cap * sizeof(*c->told));
	}
	c->told[c->told_count++] = *b;
}

/* The newest are asked for most. */
const struct told_block *story_chain_find(const struct story_chain *c, const struct hash32 *hash)
{
	for (size_t i = c->told_count; i > 0; i--) {
		if (hash_eq(&c->told[i - 1].hash, hash))
			return &c->told[i - 1];
	}
	return NULL;
}

void story_chain_push(struct story_chain *c, uint64_t height, const struct hash32 *hash)
{
	if (c->ours_count == c->ours_cap) {
		c->ours_cap = c->ours_cap ? c->ours_cap * 2 : 64;
		c->ours = xrealloc(c->ours, c->ours_cap * sizeof(*c->ours));
	}
	c->ours[c->ours_count++] = (struct block_ref){ true, height, *hash };
}

void story_chain_cut(struct story_chain *c, uint64_t ancestor)
{
	while (c->ours_count && c->ours[c->ours_count - 1].height > ancestor)
		c->ours_count--;
}

const struct block_ref *story_chain_at(const struct story_chain *c, uint64_t height)
{
	uint64_t first = c->ours_count ? c->ours[0].height : 0;

	if (height < first || height - first >= c->ours_count)
		return NULL;
	return &c->ours[height - first];
}

/* The drawing. */

struct branch_drawing {
	struct block_ref first, second, last;
	uint64_t count;
};

static void put_block(struct buf *b, const struct block_ref *r)
{
	char text[SHORT_TEXT];

	buf_printf(b, "%llu %s", (unsigned long long)r->height, short_hash(&r->hash, text));
}

static void put_branch(struct buf *b, const struct branch_drawing *d)
{
	if (d->count > 1 && d->first.known) {
		put_block(b, &d->first);
		buf_put_text(b, " ─ ");
	}
	if (d->count == DRAWN_MAX && d->second.known) {
		put_block(b, &d->second);
		buf_put_text(b, " ─ ");
	} else if (d->count > 2 || (d->count == 2 && !d->first.known)) {
		buf_put_text(b, "… ─ ");
	}
	put_block(b, &d->last);
}

static struct block_ref ref_at(const struct story_chain *c, uint64_t height)
{
	const struct block_ref *r = story_chain_at(c, height);

	return r ? *r : (struct block_ref){ 0 };
}

static struct branch_drawing lost_branch(const struct story_chain *c, uint64_t ancestor)
{
	const struct block_ref *tip = &c->ours[c->ours_count - 1];

	return (struct branch_drawing){
		.first = ref_at(c, ancestor + 1),
		.second = ref_at(c, ancestor + 2),
		.last = *tip,
		.count = tip->height - ancestor,
	};
}

/* By parents, from the tip down. */
static struct branch_drawing new_branch(const struct story_chain *c, uint64_t ancestor,
					const struct block_ref *tip)
{
	struct branch_drawing d = { .last = *tip, .count = tip->height - ancestor };
	const struct told_block *b = story_chain_find(c, &tip->hash);

	for (; b && b->height > ancestor; b = story_chain_find(c, &b->parent)) {
		struct block_ref r = { true, b->height, b->hash };

		if (b->height == ancestor + 1)
			d.first = r;
		if (b->height == ancestor + 2)
			d.second = r;
	}
	return d;
}

static void pad(struct buf *b, unsigned columns)
{
	buf_put_u8(b, '\0');
	b->len--;
	for (unsigned used = text_columns((const char *)b->data); used < columns; used++)
		buf_put_u8(b, ' ');
}

static unsigned columns_of(struct buf *b)
{
	pad(b, 0);
	return text_columns((const char *)b->data);
}

static void put_tail(struct buf *b, unsigned columns, const char *what)
{
	pad(b, columns);
	buf_printf(b, "  %s", what);
	buf_put_u8(b, '\0');
}

void story_chain_draw(const struct story_chain *c, const struct block_ref *ancestor,
		      const struct block_ref *new_tip, struct buf *lost, struct buf *kept)
{
	struct branch_drawing old = lost_branch(c, ancestor->height);
	struct branch_drawing new = new_branch(c, ancestor->height, new_tip);
	unsigned columns;

	buf_printf(lost, "%llu ─┬─ ", (unsigned long long)ancestor->height);
	pad(kept, columns_of(lost) - 3);
	buf_put_text(kept, "└─ ");
	put_branch(lost, &old);
	put_branch(kept, &new);
	columns = columns_of(lost) > columns_of(kept) ? columns_of(lost) : columns_of(kept);
	put_tail(lost, columns, "lost");
	put_tail(kept, columns, "the chain now");
}
