#include "listener/story.h"

#include <stdlib.h>

struct story {
	FILE *out;
	bool colour;
};

struct story *story_new(FILE *out, bool colour)
{
	struct story *s = xcalloc(1, sizeof(*s));

	s->out = out;
	s->colour = colour;
	return s;
}

void story_free(struct story *s, bool finished)
{
	(void)finished;
	free(s);
}

void story_record(struct story *s, const struct tape_record *r)
{
	(void)s;
	(void)r;
}

void story_applied(struct story *s, uint64_t height, const struct hash32 *hash)
{
	(void)s;
	(void)height;
	(void)hash;
}

void story_rolled_back(struct story *s, uint64_t ancestor, uint64_t old_tip)
{
	(void)s;
	(void)ancestor;
	(void)old_tip;
}

void story_event(struct story *s, struct slice body)
{
	fprintf(s->out, "%.*s\n", (int)body.len, (const char *)body.data);
}
