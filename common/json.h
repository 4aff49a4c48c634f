/*
 * json - checked reading of small documents, over jansson; the only pair of
 * files that includes it.
 *
 * A getter that does not find what was asked complains with the path from the
 * top of the document ("chains[0].tokens[1].address: 39 hex digits, want 40").
 * The first complaint sticks; later getters answer empty values, so a reader
 * is straight-line code with one look at json_failed() at its end.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include "common/types.h"

struct json_doc;		/* owns a whole document */

/* A place in a document: borrowed, dead with its document. */
struct json {
	struct json_doc *doc;
	void *value;		/* NULL: absent */
	int path;		/* into the document's path pool */
};

/*
 * Parse @text; duplicate keys, bad UTF-8 and trailing text are refused.
 * NULL with the place in @why on a syntax error.  Freed with json_close().
 */
struct json_doc *json_open(struct slice text, struct complaint *why);
void json_close(struct json_doc *doc);
struct json json_root(struct json_doc *doc);

/* OK, or E_INPUT with the first complaint of any getter in *@why. */
MUST_CHECK enum err json_finish(struct json_doc *doc, struct complaint *why);
/* Complain about the value at @j from outside: "path: text". */
void json_complain(struct json j, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool json_failed(const struct json_doc *doc);

/* Absent and null are the same to json_has(). */
bool json_has(struct json object, const char *name);
struct json json_member(struct json object, const char *name);	/* complains if absent */
struct json json_maybe(struct json object, const char *name);	/* value NULL if absent or null */
bool json_is_object(struct json j);
bool json_is_array(struct json j);
bool json_is_string(struct json j);
bool json_is_integer(struct json j);
size_t json_length(struct json array);				/* complains if no array */
struct json json_at(struct json array, size_t index);
/* Complains about each member of @object whose name is not in the NULL-ended list. */
void json_only(struct json object, const char *const *names);
/* The name of the @index'th member, or NULL past the last. */
const char *json_name_at(struct json object, size_t index);

/* Each complains and gives a zero value where the kind or the form is wrong. */
const char *json_text(struct json j);				/* never NULL */
bool json_bool(struct json j);
uint64_t json_u64(struct json j);		/* a number, or decimal text */
struct hash32 json_hash(struct json j);
struct address json_address(struct json j);	/* mixed case must satisfy EIP-55 (ERC-55 checksum) */
struct u256 json_amount(struct json j);		/* decimal text, never a number */
struct u256 json_quantity(struct json j);	/* 0x text or a number */
int64_t json_time_ms(struct json j);		/* ISO 8601 */
void json_copy_text(struct json j, char *out, size_t size);	/* complains of text that does not fit */

/* Append @text as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
void json_put_string(struct buf *out, const char *text);

/*
 * Append a member of the object that was opened last; a name of NULL appends an element of an array, or
 * the document itself.  Commas are set as they are needed; a new line begins a new document.  A value of NULL is written as null.
 */
void json_put_name(struct buf *out, const char *name);	/* the value follows */
void json_put_text(struct buf *out, const char *name, const char *text);
void json_put_number(struct buf *out, const char *name, uint64_t v);
void json_put_bool(struct buf *out, const char *name, bool v);
void json_put_hash(struct buf *out, const char *name, const struct hash32 *h);
void json_put_address(struct buf *out, const char *name, const struct address *a);
void json_put_amount(struct buf *out, const char *name, const struct u256 *v);
void json_put_time(struct buf *out, const char *name, int64_t ms);
void json_open_object(struct buf *out, const char *name);
void json_close_object(struct buf *out);
void json_open_array(struct buf *out, const char *name);
void json_close_array(struct buf *out);

#endif
