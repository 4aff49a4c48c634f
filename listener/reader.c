#include "listener/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reader reader_init(struct slice json, struct complaint *why)
{
	return (struct reader){ .scan = scan_begin(json), .why = why };
}

static void format_path(const struct reader *r, char *out, size_t cap)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < r->depth && at < cap; i++) {
		const struct reader_step *step = &r->path[i];
		int len = step->name ?
			  snprintf(out + at, cap - at, "%s%s", at ? "." : "", step->name) :
			  snprintf(out + at, cap - at, "[%zu]", step->index);

		at += (size_t)len;
	}
}

bool reader_refuse(struct reader *r, const char *fmt, ...)
{
	char path[128], text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	format_path(r, path, sizeof(path));
	complain(r->why, E_PEER, "%s%s%s", path, path[0] ? ": " : "", text);
	r->refused = true;
	return false;
}

enum err reader_finish(struct reader *r, bool ok)
{
	if (ok && scan_at_end(&r->scan))
		return OK;
	if (!r->refused)
		reader_refuse(r, "%s at byte %zu", r->scan.error, r->scan.error_at);
	return E_PEER;
}

struct reader_step *reader_push_step(struct reader *r)
{
	struct reader_step *step = &r->path[r->depth++];

	*step = (struct reader_step){ 0 };
	return step;
}

static const struct field *find_field(struct field_table t, struct slice name)
{
	for (size_t i = 0; i < t.count; i++) {
		const struct field *f = &t.fields[i];

		if (f->name_len == name.len && memcmp(f->name, name.data, name.len) == 0)
			return f;
	}
	return NULL;
}

static bool read_field(struct reader *r, const struct field *f, void *out, uint32_t bit,
		       uint32_t *seen)
{
	if (!f->nullable && scan_peek(&r->scan) == SCAN_NULL)
		return scan_skip(&r->scan, NULL);
	if (*seen & bit)
		return reader_refuse(r, "twice in one object");
	*seen |= bit;
	return f->read(r, (uint8_t *)out + f->offset, f->size);
}

static bool has_required(struct reader *r, struct field_table t, uint32_t seen,
			 struct reader_step *step)
{
	for (size_t i = 0; i < t.count; i++) {
		if (!t.fields[i].optional && !(seen & 1U << i)) {
			step->name = t.fields[i].name;
			return reader_refuse(r, "missing");
		}
	}
	return true;
}

bool reader_object(struct reader *r, struct field_table t, void *out, uint32_t *seen)
{
	struct reader_step *step = reader_push_step(r);
	struct slice name;

	*seen = 0;
	if (!scan_object(&r->scan)) {
		r->depth--;
		return false;
	}
	while (scan_member(&r->scan, &name)) {
		const struct field *f = find_field(t, name);

		step->name = f ? f->name : "(a member not used)";
		if (!f)
			scan_skip(&r->scan, NULL);
		else if (!read_field(r, f, out, 1U << (f - t.fields), seen))
			return false;
	}
	if (scan_failed(&r->scan) || !has_required(r, t, *seen, step))
		return false;
	r->depth--;
	return true;
}

bool reader_array(struct reader *r, void *out, bool (*read)(struct reader *r, void *out))
{
	struct reader_step *step = reader_push_step(r);

	if (!scan_array(&r->scan)) {
		r->depth--;
		return false;
	}
	for (; scan_element(&r->scan); step->index++) {
		if (!read(r, out))
			return false;
	}
	if (scan_failed(&r->scan))
		return false;
	r->depth--;
	return true;
}

bool reader_refuse_hex(struct reader *r, struct slice text, size_t want_digits)
{
	if (text.len < 2 || text.data[0] != '0' || text.data[1] != 'x')
		return reader_refuse(r, "no 0x in front");
	if (want_digits && text.len - 2 != want_digits)
		return reader_refuse(r, "%zu hex digits, want %zu", text.len - 2, want_digits);
	if (text.len % 2)
		return reader_refuse(r, "%zu hex digits, want an even number", text.len - 2);
	return reader_refuse(r, "not all hex digits");
}

bool reader_fixed(struct reader *r, void *out, size_t size)
{
	struct slice text;

	if (!scan_string(&r->scan, &text))
		return false;
	return hex_decode(text, out, size) || reader_refuse_hex(r, text, 2 * size);
}

static bool refuse_quantity(struct reader *r, struct slice text)
{
	return reader_refuse(r, "\"%.*s\" is no quantity that fits",
			     (int)(text.len < 80 ? text.len : 80), (const char *)text.data);
}

bool reader_u64(struct reader *r, void *out, size_t size)
{
	bool is_number = scan_peek(&r->scan) == SCAN_NUMBER;
	struct slice text;

	(void)size;
	if (is_number ? !scan_skip(&r->scan, &text) : !scan_string(&r->scan, &text))
		return false;
	if (is_number ? u64_parse(text, out) : quantity_parse_u64(text, out))
		return true;
	return refuse_quantity(r, text);
}

bool reader_u256(struct reader *r, void *out, size_t size)
{
	bool is_number = scan_peek(&r->scan) == SCAN_NUMBER;
	struct slice text;

	(void)size;
	if (is_number ? !scan_skip(&r->scan, &text) : !scan_string(&r->scan, &text))
		return false;
	if (is_number ? u256_parse(text, out) : quantity_parse_u256(text, out))
		return true;
	return refuse_quantity(r, text);
}

bool reader_raw(struct reader *r, void *out, size_t size)
{
	(void)size;
	return scan_skip(&r->scan, out);
}
