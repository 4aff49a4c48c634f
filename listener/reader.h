/*
 * reader - JSON objects into structs by a table of their members.
 *
 * Only codec.c and reply.c use it.  The first mistake ends a decode: every
 * function gives false from then on, and reader_finish() fills the complaint
 * with the path of the place ("[1].logs[0].topics[2]: 63 hex digits, want 64").
 */
#ifndef LISTENER_READER_H
#define LISTENER_READER_H

#include "common/scan.h"

#define READER_PATH_STEPS 8

/* A member's name, or an index where the name is NULL. */
struct reader_step {
	const char *name;
	size_t index;
};

/*
 * A scanner that knows where it is.  Every function that reads gives false
 * after the first mistake, with the path still at it.
 */
struct reader {
	struct scan scan;
	struct complaint *why;
	bool refused;			/* @why is filled; else the scanner has the mistake */
	unsigned depth;
	struct reader_step path[READER_PATH_STEPS];
	void *context;			/* of the decoder that uses it */
};

/* A member of an object: @read consumes its value into the struct at @offset. */
struct field {
	const char *name;
	uint8_t name_len;
	bool optional;
	bool nullable;			/* @read sees null too, else null is absent */
	uint16_t offset;
	uint16_t size;
	bool (*read)(struct reader *r, void *out, size_t size);
};

#define NAMED(text) .name = text, .name_len = sizeof(text) - 1
#define INTO(record, member, reader)								\
	.offset = offsetof(struct record, member),						\
	.size = sizeof(((struct record *)0)->member), .read = reader

struct field_table {
	const struct field *fields;
	size_t count;
};

#define TABLE(fields) ((struct field_table){ fields, ARRAY_SIZE(fields) })

struct reader reader_init(struct slice json, struct complaint *why);

/* Complain about the place where @r is; false. */
bool reader_refuse(struct reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Complain that @text is no hex of @want_digits digits, or of any even number if 0; false. */
bool reader_refuse_hex(struct reader *r, struct slice text, size_t want_digits);
/* A further step of the path, to be named by the caller. */
struct reader_step *reader_push_step(struct reader *r);

/* Consume an object into @out.  Bit i of *@seen: field i of the table is there. */
bool reader_object(struct reader *r, struct field_table t, void *out, uint32_t *seen);
/* Consume an array, with one call of @read for each element. */
bool reader_array(struct reader *r, void *out, bool (*read)(struct reader *r, void *out));

/* For a table's fields: exactly @size bytes, a uint64_t, a struct u256, a slice of the raw text. */
bool reader_fixed(struct reader *r, void *out, size_t size);
bool reader_u64(struct reader *r, void *out, size_t size);
bool reader_u256(struct reader *r, void *out, size_t size);
bool reader_raw(struct reader *r, void *out, size_t size);

/* The end of a decode: @ok is what the outermost read gave. */
enum err reader_finish(struct reader *r, bool ok);

#endif
