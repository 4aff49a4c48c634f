#include "listener/codec.h"

#include "listener/reader.h"

#include <string.h>

struct envelope {
	struct slice id, result, error, params;
};

static const struct field envelope_fields[] = {
	{ NAMED("id"), INTO(envelope, id, reader_raw), .optional = true },
	{ NAMED("result"), INTO(envelope, result, reader_raw), .nullable = true, .optional = true },
	{ NAMED("error"), INTO(envelope, error, reader_raw), .optional = true },
	{ NAMED("params"), INTO(envelope, params, reader_raw), .optional = true },
};

struct rpc_error {
	struct slice code, message;
};

static const struct field error_fields[] = {
	{ NAMED("code"), INTO(rpc_error, code, reader_raw), .optional = true },
	{ NAMED("message"), INTO(rpc_error, message, reader_raw), .optional = true },
};

struct notice {
	struct slice subscription, result;
};

static const struct field notice_fields[] = {
	{ NAMED("subscription"), INTO(notice, subscription, reader_raw) },
	{ NAMED("result"), INTO(notice, result, reader_raw) },
};

static bool is_string(struct slice raw)
{
	return raw.len >= 2 && raw.data[0] == '"';
}

static struct slice unquote(struct slice raw)
{
	return is_string(raw) ? (struct slice){ raw.data + 1, raw.len - 2 } : raw;
}

/* Not "007", "+7" or "7.0": those are ids that we never sent. */
static bool parse_id(struct slice raw, uint64_t *out)
{
	struct slice text = unquote(raw);

	if (text.len > 1 && text.data[0] == '0')
		return false;
	return u64_parse(text, out);
}

static int64_t parse_code(struct slice raw)
{
	struct slice text = unquote(raw);
	bool negative = text.len && text.data[0] == '-';
	uint64_t v;

	if (negative)
		text = (struct slice){ text.data + 1, text.len - 1 };
	if (!u64_parse(text, &v) || v > INT64_MAX)
		return 0;
	return negative ? -(int64_t)v : (int64_t)v;
}

/* The character behind the escape whose letter stands at *@at, which moves to its last byte. */
static uint8_t unescape(struct slice text, size_t *at)
{
	uint64_t v;
	char digits[6] = "0x";

	switch (text.data[*at]) {
	case 'n': case 'r': case 't': case 'b': case 'f':
		return ' ';
	case 'u':
		if (text.len - *at < 5)
			return '?';
		memcpy(digits + 2, text.data + *at + 1, 4);
		*at += 4;
		return quantity_parse_u64((struct slice){ (uint8_t *)digits, 6 }, &v) && v < 128 ?
		       (uint8_t)v : '?';
	}
	return text.data[*at];
}

/* @text of a JSON string, cut at the end, in printable ASCII. */
static void put_printable(struct slice text, char *out, size_t cap)
{
	size_t len = 0;

	for (size_t i = 0; i < text.len && len + 1 < cap; i++) {
		uint8_t c = text.data[i];

		if (c == '\\' && i + 1 < text.len) {
			i++;
			c = unescape(text, &i);
		}
		if (c == '\n' || c == '\r' || c == '\t')
			c = ' ';
		out[len++] = c < ' ' || c > '~' ? '?' : (char)c;
	}
	out[len] = '\0';
}

/* Whatever it holds, it is an error: nothing here can fail. */
static void decode_error(struct slice raw, struct reply *out)
{
	struct complaint ignored;
	struct reader r = reader_init(raw, &ignored);
	struct rpc_error e = { .message = { 0 } };
	uint32_t seen;

	if (is_string(raw))
		e.message = raw;
	else if (raw.data[0] == '{')
		reader_object(&r, TABLE(error_fields), &e, &seen);
	out->kind = REPLY_ERROR;
	out->code = parse_code(e.code);
	put_printable(unquote(e.message), out->message, sizeof(out->message));
}

static enum err decode_notice(struct slice raw, struct reply *out, struct complaint *why)
{
	struct reader r = reader_init(raw, why);
	struct notice n = { .result = { 0 } };
	uint32_t seen;
	enum err err;

	reader_push_step(&r)->name = "params";
	err = reader_finish(&r, reader_object(&r, TABLE(notice_fields), &n, &seen));
	if (err)
		return err;
	n.subscription = unquote(n.subscription);
	if (n.subscription.len >= sizeof(out->subscription))
		return complain(why, E_PEER, "params.subscription: %zu bytes", n.subscription.len);
	put_printable(n.subscription, out->subscription, sizeof(out->subscription));
	out->kind = REPLY_NOTICE;
	out->result = n.result;
	return OK;
}

static enum err complain_no_message(struct slice json, const char *reason, struct complaint *why)
{
	char begin[80];

	put_printable(json, begin, sizeof(begin));
	return complain(why, E_PEER, "%s; the answer's %zu bytes begin with '%s'", reason, json.len,
			begin);
}

enum err reply_decode(struct slice json, struct reply *out, struct complaint *why)
{
	struct complaint reason;
	struct reader r = reader_init(json, &reason);
	struct envelope e = { .result = { 0 } };
	uint32_t seen;

	*out = (struct reply){ .result = { 0 } };
	if (reader_finish(&r, reader_object(&r, TABLE(envelope_fields), &e, &seen)))
		return complain_no_message(json, reason.text, why);
	out->has_id = parse_id(e.id, &out->id);
	if (e.error.data) {
		decode_error(e.error, out);
		return OK;
	}
	if (e.result.data) {
		out->kind = slice_is(e.result, "null") ? REPLY_NULL : REPLY_RESULT;
		out->result = e.result;
		return OK;
	}
	if (e.params.data)
		return decode_notice(e.params, out, why);
	return complain_no_message(json, "neither result nor error", why);
}

enum err result_u64(struct slice json, uint64_t *out, struct complaint *why)
{
	struct reader r = reader_init(json, why);

	return reader_finish(&r, reader_u64(&r, out, sizeof(*out)));
}

/* More than one word is no mistake: whoever decodes a uint256 takes the first. */
static bool read_word(struct reader *r, struct u256 *out)
{
	struct slice text;
	struct buf bytes = { 0 };
	bool ok;

	if (!scan_string(&r->scan, &text))
		return false;
	if (text.len < 66)
		return reader_refuse_hex(r, text, 64);
	ok = hex_append(text, &bytes);
	if (ok)
		*out = u256_from_be(bytes.data);
	buf_free(&bytes);
	return ok || reader_refuse_hex(r, text, 0);
}

enum err result_word(struct slice json, struct u256 *out, struct complaint *why)
{
	struct reader r = reader_init(json, why);

	return reader_finish(&r, read_word(&r, out));
}
