#include "common/json.h"

#include "common/keccak.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ours are functions of the same names. */
#undef json_is_object
#undef json_is_array
#undef json_is_string
#undef json_is_integer

#define PATH_TEXT 256
#define NO_PARENT -1

/* A member or an element, below another step. */
struct step {
	int parent;
	bool is_member;
	size_t at;			/* of the name in the document's names, or the index */
};

struct json_doc {
	json_t *root;
	bool failed;
	struct complaint first;
	struct step *steps;
	int step_count;
	int step_cap;
	struct buf names;		/* each with its NUL: a caller's text may be short-lived */
};

static int add_step(struct json_doc *doc, struct step step)
{
	if (doc->step_count == doc->step_cap) {
		doc->step_cap = doc->step_cap ? doc->step_cap * 2 : 64;
		doc->steps = xrealloc(doc->steps, (size_t)doc->step_cap * sizeof(*doc->steps));
	}
	doc->steps[doc->step_count] = step;
	return doc->step_count++;
}

/* jansson 2.14 overlooks a NUL behind a number, so it is looked for here. */
static const char *place_of_nul(struct slice text)
{
	return text.len ? memchr(text.data, '\0', text.len) : NULL;
}

struct json_doc *json_open(struct slice text, struct complaint *why)
{
	const char *nul = place_of_nul(text);
	json_error_t error;
	json_t *root;
	struct json_doc *doc;

	if (nul) {
		complain(why, E_INPUT, "byte %td is NUL", nul - (const char *)text.data);
		return NULL;
	}
	root = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
	if (!root) {
		complain(why, E_INPUT, "line %d, column %d: %s", error.line, error.column,
			 error.text);
		return NULL;
	}
	doc = xcalloc(1, sizeof(*doc));
	doc->root = root;
	add_step(doc, (struct step){ .parent = NO_PARENT });
	return doc;
}

void json_close(struct json_doc *doc)
{
	if (!doc)
		return;
	json_decref(doc->root);
	free(doc->steps);
	buf_free(&doc->names);
	free(doc);
}

struct json json_root(struct json_doc *doc)
{
	return (struct json){ .doc = doc, .value = doc->root };
}

static void format_step(const struct json_doc *doc, const struct step *step, char out[PATH_TEXT])
{
	bool below_top = doc->steps[step->parent].parent != NO_PARENT;

	if (step->is_member)
		snprintf(out, PATH_TEXT, "%s%s", below_top ? "." : "", doc->names.data + step->at);
	else
		snprintf(out, PATH_TEXT, "[%zu]", step->at);
}

/* The steps lead upwards, so the text grows from its end; what does not fit is cut at the front. */
static const char *format_path(const struct json_doc *doc, int path, char out[PATH_TEXT])
{
	char text[PATH_TEXT];
	size_t at = PATH_TEXT - 1;

	out[at] = '\0';
	for (int i = path; doc->steps[i].parent != NO_PARENT; i = doc->steps[i].parent) {
		size_t len;

		format_step(doc, &doc->steps[i], text);
		len = strlen(text);
		if (len > at)
			break;
		at -= len;
		memcpy(out + at, text, len);
	}
	return out + at;
}

static void complain_first(struct json j, const char *text)
{
	char path[PATH_TEXT];
	const char *where;

	if (j.doc->failed)
		return;
	where = format_path(j.doc, j.path, path);
	j.doc->failed = true;
	complain(&j.doc->first, E_INPUT, "%s%s%s", where, *where ? ": " : "", text);
}

void json_complain(struct json j, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	complain_first(j, text);
}

enum err json_finish(struct json_doc *doc, struct complaint *why)
{
	if (!doc->failed)
		return OK;
	*why = doc->first;
	return E_INPUT;
}

bool json_failed(const struct json_doc *doc)
{
	return doc->failed;
}

static const char *const kind_names[] = {
	[JSON_OBJECT] = "an object",
	[JSON_ARRAY] = "an array",
	[JSON_STRING] = "text",
	[JSON_INTEGER] = "a number",
	[JSON_REAL] = "a number with a point or exponent",
	[JSON_TRUE] = "true",
	[JSON_FALSE] = "false",
	[JSON_NULL] = "null",
};

static void complain_kind(struct json j, const char *want)
{
	if (j.value)
		json_complain(j, "%s, want %s", kind_names[json_typeof((json_t *)j.value)], want);
	else
		json_complain(j, "missing");
}

static struct json child(struct json object, const char *name)
{
	struct json_doc *doc = object.doc;
	struct step step = { .parent = object.path, .is_member = true, .at = doc->names.len };
	json_t *value = json_object_get(object.value, name);

	buf_put(&doc->names, name, strlen(name) + 1);
	if (json_is_null(value))
		value = NULL;
	return (struct json){ doc, value, add_step(doc, step) };
}

bool json_has(struct json object, const char *name)
{
	json_t *value = json_object_get(object.value, name);

	return value && !json_is_null(value);
}

struct json json_member(struct json object, const char *name)
{
	struct json j;

	if (!json_is_object(object))
		complain_kind(object, "an object");
	j = child(object, name);
	if (!j.value)
		json_complain(j, "missing");
	return j;
}

struct json json_maybe(struct json object, const char *name)
{
	if (!json_is_object(object))
		complain_kind(object, "an object");
	return child(object, name);
}

bool json_is_object(struct json j)
{
	return j.value && json_typeof((json_t *)j.value) == JSON_OBJECT;
}

bool json_is_array(struct json j)
{
	return j.value && json_typeof((json_t *)j.value) == JSON_ARRAY;
}

bool json_is_string(struct json j)
{
	return j.value && json_typeof((json_t *)j.value) == JSON_STRING;
}

bool json_is_integer(struct json j)
{
	return j.value && json_typeof((json_t *)j.value) == JSON_INTEGER;
}

size_t json_length(struct json array)
{
	if (!json_is_array(array))
		complain_kind(array, "an array");
	return json_array_size(array.value);
}

struct json json_at(struct json array, size_t index)
{
	struct step step = { .parent = array.path, .at = index };
	json_t *value = json_array_get(array.value, index);
	struct json j = { array.doc, value, add_step(array.doc, step) };

	if (!j.value)
		json_complain(j, "missing");
	return j;
}

static bool is_listed(const char *const *names, const char *name)
{
	for (; *names; names++) {
		if (strcmp(*names, name) == 0)
			return true;
	}
	return false;
}

void json_only(struct json object, const char *const *names)
{
	if (!json_is_object(object))
		complain_kind(object, "an object");
	for (void *it = json_object_iter(object.value); it;
	     it = json_object_iter_next(object.value, it)) {
		const char *name = json_object_iter_key(it);

		if (!is_listed(names, name))
			json_complain(child(object, name), "not a known member");
	}
}

const char *json_name_at(struct json object, size_t index)
{
	void *it = json_object_iter(object.value);

	while (it && index--)
		it = json_object_iter_next(object.value, it);
	return it ? json_object_iter_key(it) : NULL;
}

const char *json_text(struct json j)
{
	if (json_is_string(j))
		return json_string_value(j.value);
	complain_kind(j, "text");
	return "";
}

/* Empty if @j is no text, after a complaint that says what was wanted. */
static struct slice text_of(struct json j, const char *want)
{
	if (json_is_string(j))
		return slice_of_text(json_string_value(j.value));
	complain_kind(j, want);
	return (struct slice){ 0 };
}

bool json_bool(struct json j)
{
	json_t *value = j.value;

	if (!json_is_boolean(value))
		complain_kind(j, "true or false");
	return json_is_true(value);
}

/* The value of a number that is not negative; else 0 and a complaint. */
static uint64_t natural_of(struct json j)
{
	json_int_t v = json_integer_value(j.value);

	if (v >= 0)
		return (uint64_t)v;
	json_complain(j, "%lld, want no negative number", (long long)v);
	return 0;
}

uint64_t json_u64(struct json j)
{
	struct slice text;
	uint64_t v;

	if (json_is_integer(j))
		return natural_of(j);
	text = text_of(j, "a whole number");
	if (u64_parse(text, &v))
		return v;
	json_complain(j, "\"%.80s\", want decimal digits and less than 2^64", json_text(j));
	return 0;
}

/* Fixed bytes; where the text is not that, @out stays as it is. */
static void hex_of(struct json j, uint8_t *out, size_t len)
{
	struct slice text = text_of(j, "0x and hex digits in quotes");

	if (hex_decode(text, out, len))
		return;
	if (text.len < 2 || memcmp(text.data, "0x", 2) != 0)
		json_complain(j, "\"%.80s\", want 0x and hex digits", json_text(j));
	else if (text.len != 2 + 2 * len)
		json_complain(j, "%zu hex digits, want %zu", text.len - 2, 2 * len);
	else
		json_complain(j, "\"%.80s\", not all hex digits", json_text(j));
}

struct hash32 json_hash(struct json j)
{
	struct hash32 h = { { 0 } };

	hex_of(j, h.b, sizeof(h.b));
	return h;
}

/* EIP-55: a letter is raised where the hash of the lower-case digits has a nibble of 8 or more. */
static void format_checksummed(const struct address *a, char out[ADDRESS_TEXT])
{
	struct hash32 h;

	address_format(a, out);
	h = keccak256(out + 2, ADDRESS_TEXT - 3);
	for (size_t i = 0; i < 2 * sizeof(a->b); i++) {
		bool raised = h.b[i / 2] >> (i % 2 ? 0 : 4) & 8;

		if (raised && out[2 + i] >= 'a')
			out[2 + i] -= 'a' - 'A';
	}
}

/* Letters of one case carry no checksum. */
static bool is_mixed_case(const char *text)
{
	bool has_lower = false, has_upper = false;

	for (const char *p = text + 2; *p; p++) {
		has_lower |= *p >= 'a';
		has_upper |= *p >= 'A' && *p <= 'F';
	}
	return has_lower && has_upper;
}

struct address json_address(struct json j)
{
	struct address a = { { 0 } };
	char want[ADDRESS_TEXT];

	hex_of(j, a.b, sizeof(a.b));
	if (j.doc->failed || !is_mixed_case(json_text(j)))
		return a;
	format_checksummed(&a, want);
	if (strcmp(json_text(j), want) == 0)
		return a;
	json_complain(j, "%s does not satisfy its EIP-55 checksum, %s would", json_text(j), want);
	return (struct address){ { 0 } };
}

static bool is_decimal(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	}
	return text.len > 0;
}

struct u256 json_amount(struct json j)
{
	struct slice text = text_of(j, "decimal digits in quotes");
	struct u256 v = { { 0 } };

	if (!u256_parse(text, &v))
		json_complain(j, is_decimal(text) ? "\"%.80s\" is more than 2^256-1" :
			      "\"%.80s\", want decimal digits in base units", json_text(j));
	return v;
}

struct u256 json_quantity(struct json j)
{
	struct u256 v = { { 0 } };

	if (json_is_integer(j))
		return u256_from_u64(natural_of(j));
	if (!quantity_parse_u256(text_of(j, "0x and hex digits in quotes"), &v))
		json_complain(j, "\"%.80s\", want 0x and 1 to 64 hex digits", json_text(j));
	return v;
}

int64_t json_time_ms(struct json j)
{
	struct slice text = text_of(j, "a time in quotes");
	int64_t ms = 0;

	if (!time_parse(text, &ms))
		json_complain(j, "\"%.80s\", want a time like 2026-01-01T00:00:12Z", json_text(j));
	return ms;
}

void json_copy_text(struct json j, char *out, size_t size)
{
	const char *text = json_text(j);

	if (strlen(text) >= size)
		json_complain(j, "%zu bytes, want at most %zu", strlen(text), size - 1);
	else
		snprintf(out, size, "%s", text);
}

/* How many bytes the UTF-8 character at @p has; 0 if it is none.  A NUL ends every sequence. */
static size_t utf8_len(const uint8_t *p)
{
	uint32_t point;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	point = p[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (p[i] & 0x3f);
	}
	if (len == 3 && (point < 0x800 || (point >= 0xd800 && point <= 0xdfff)))
		return 0;
	if (len == 4 && (point < 0x10000 || point > 0x10ffff))
		return 0;
	return len;
}

static void put_escaped(struct buf *out, uint8_t c)
{
	switch (c) {
	case '"':
		buf_put_text(out, "\\\"");
		return;
	case '\\':
		buf_put_text(out, "\\\\");
		return;
	case '\n':
		buf_put_text(out, "\\n");
		return;
	}
	buf_printf(out, "\\u%04x", c);
}

/* How many bytes from @p stand for themselves. */
static size_t plain_len(const uint8_t *p)
{
	size_t len = 0;

	while (p[len] >= ' ' && p[len] < 0x7f && p[len] != '"' && p[len] != '\\')
		len++;
	return len;
}

void json_put_string(struct buf *out, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;

	buf_put_u8(out, '"');
	while (*p) {
		size_t plain = plain_len(p);
		size_t len;

		buf_put(out, p, plain);
		p += plain;
		len = utf8_len(p);
		if (!*p)
			break;
		if (len == 1)
			put_escaped(out, *p);
		else
			buf_put(out, len ? (const void *)p : "\xef\xbf\xbd", len ? len : 3);
		p += len ? len : 1;
	}
	buf_put_u8(out, '"');
}

void json_put_name(struct buf *out, const char *name)
{
	uint8_t last = out->len ? out->data[out->len - 1] : '{';

	if (!strchr("{[:\n", last))
		buf_put_u8(out, ',');
	if (!name)
		return;
	json_put_string(out, name);
	buf_put_u8(out, ':');
}

void json_put_text(struct buf *out, const char *name, const char *text)
{
	json_put_name(out, name);
	if (text)
		json_put_string(out, text);
	else
		buf_put_text(out, "null");
}

void json_put_number(struct buf *out, const char *name, uint64_t v)
{
	json_put_name(out, name);
	buf_printf(out, "%llu", (unsigned long long)v);
}

void json_put_bool(struct buf *out, const char *name, bool v)
{
	json_put_name(out, name);
	buf_put_text(out, v ? "true" : "false");
}

void json_put_hash(struct buf *out, const char *name, const struct hash32 *h)
{
	char text[HASH_TEXT];

	json_put_text(out, name, h ? hash_format(h, text) : NULL);
}

void json_put_address(struct buf *out, const char *name, const struct address *a)
{
	char text[ADDRESS_TEXT];

	json_put_text(out, name, a ? address_format(a, text) : NULL);
}

void json_put_amount(struct buf *out, const char *name, const struct u256 *v)
{
	char text[U256_TEXT];

	json_put_text(out, name, u256_format(v, text));
}

void json_put_time(struct buf *out, const char *name, int64_t ms)
{
	char text[TIME_TEXT];

	json_put_text(out, name, time_format(ms, text));
}

void json_open_object(struct buf *out, const char *name)
{
	json_put_name(out, name);
	buf_put_u8(out, '{');
}

void json_close_object(struct buf *out)
{
	buf_put_u8(out, '}');
}

void json_open_array(struct buf *out, const char *name)
{
	json_put_name(out, name);
	buf_put_u8(out, '[');
}

void json_close_array(struct buf *out)
{
	buf_put_u8(out, ']');
}
