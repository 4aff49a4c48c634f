#include "listener/tape.h"

#include "common/json.h"
#include "common/scan.h"
#include "listener/wish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tape_open(struct tape *t, const char *name, int fd)
{
	*t = (struct tape){ .name = name, .fd = fd, .line_max_bytes = TAPE_LINE_MAX_BYTES };
}

void tape_close(struct tape *t)
{
	buf_free(&t->buf);
}

/* Lines. */

#define READ_BYTES ((size_t)256 << 10)

static enum err read_more(struct tape *t, struct complaint *why)
{
	ssize_t got;

	if (t->at) {
		memmove(t->buf.data, t->buf.data + t->at, t->buf.len - t->at);
		t->buf.len -= t->at;
		t->at = 0;
	}
	do
		got = read(t->fd, buf_extend(&t->buf, READ_BYTES), READ_BYTES);
	while (got < 0 && errno == EINTR && (t->buf.len -= READ_BYTES, true));
	t->buf.len -= READ_BYTES - (got > 0 ? (size_t)got : 0);
	if (got < 0)
		return complain(why, E_IO, "%s: cannot be read: %s", t->name, strerror(errno));
	t->at_end = got == 0;
	return OK;
}

/* The next line in the buffer, without its end; false: it is not whole yet. */
static bool take_line(struct tape *t, size_t *searched, struct slice *line)
{
	const uint8_t *start = t->buf.data ? t->buf.data + t->at : NULL;
	size_t len = t->buf.len - t->at;
	const uint8_t *end = len > *searched ? memchr(start + *searched, '\n', len - *searched) : NULL;

	if (!end && !(t->at_end && len)) {
		*searched = len;
		return false;
	}
	line->data = start;
	line->len = end ? (size_t)(end - start) : len;
	t->at += line->len + (end ? 1 : 0);
	t->line++;
	*searched = 0;
	return true;
}

static bool is_blank(struct slice line)
{
	for (size_t i = 0; i < line.len; i++) {
		if (!strchr(" \t\r", line.data[i]) || !line.data[i])
			return false;
	}
	return true;
}

static bool too_long(const struct tape *t, uint64_t line, enum err *err, struct complaint *why)
{
	*err = complain(why, E_INPUT, "%s:%llu: the line is longer than %zu bytes", t->name, (unsigned long long)line,
			t->line_max_bytes);
	return false;
}

bool tape_next(struct tape *t, struct slice *line, enum err *err, struct complaint *why)
{
	size_t searched = 0;

	*err = OK;
	for (;;) {
		while (take_line(t, &searched, line)) {
			if (line->len > t->line_max_bytes)
				return too_long(t, t->line, err, why);
			if (!is_blank(*line))
				return true;
		}
		if (t->at_end)
			return false;
		if (t->buf.len - t->at > t->line_max_bytes)
			return too_long(t, t->line + 1, err, why);
		*err = read_more(t, why);
		if (*err)
			return false;
	}
}

/* Records. */

static void read_first(struct json top, struct tape_record *out)
{
	static const char *const members[] = { "tape", "chain_id", "tokens", "finality", "note", "genesis",
					       "time", "witness", NULL };
	uint64_t version = json_u64(json_member(top, "tape"));

	json_only(top, members);
	if (!json_failed(top.doc) && version != 1)
		json_complain(json_member(top, "tape"), "version %llu, this program reads 1", (unsigned long long)version);
	out->config = config_recorded(json_u64(json_member(top, "chain_id")));
	config_read_tokens(json_member(top, "tokens"), &out->config);
	config_read_finality(json_member(top, "finality"), &out->config);
	if (json_has(top, "witness"))
		out->config.witness = config_read_witness(json_member(top, "witness"));
	out->config.has_genesis = json_has(top, "genesis");
	if (out->config.has_genesis)
		out->config.genesis = json_hash(json_member(top, "genesis"));
	out->has_time = json_has(top, "time");
	if (out->has_time)
		out->time_ms = json_time_ms(json_member(top, "time"));
}

static void read_intent(struct json j, struct tape_record *out)
{
	wish_read_intent(j, &out->intent);
}

static void read_attempt(struct json j, struct tape_record *out)
{
	wish_read_attempt(j, out->intent_id, &out->attempt);
}

static void read_transition(struct json j, struct tape_record *out)
{
	wish_read_move(j, out->intent_id, &out->move, &out->has_version);
	if (out->move.actor == ACTOR_LISTENER)
		json_complain(json_member(j, "actor"), "the listener's moves exist only inside the listener");
}

static void read_balance(struct json j, struct tape_record *out)
{
	static const char *const members[] = { "token", "account", "block", "value", NULL };

	json_only(j, members);
	out->token = json_address(json_member(j, "token"));
	out->account = json_address(json_member(j, "account"));
	out->hash = json_hash(json_member(j, "block"));
	out->value = json_quantity(json_member(j, "value"));
}

static void read_hash(struct json j, struct tape_record *out)
{
	out->hash = json_hash(j);
}

static void read_clock(struct json j, struct tape_record *out)
{
	out->has_time = true;
	out->time_ms = json_time_ms(j);
}

static void read_fault(struct json j, struct tape_record *out)
{
	static const char *const members[] = { "method", "block", "answer", "times", NULL };
	static const char *const answers[] = { "null", "empty", "late", "other", "error" };
	struct json answer = json_member(j, "answer");
	unsigned i = 0;

	json_only(j, members);
	json_copy_text(json_member(j, "method"), out->method, sizeof(out->method));
	out->has_block = json_has(j, "block");
	if (out->has_block)
		out->hash = json_hash(json_member(j, "block"));
	while (i < ARRAY_SIZE(answers) && strcmp(answers[i], json_text(answer)) != 0)
		i++;
	if (i == ARRAY_SIZE(answers))
		json_complain(answer, "want null, empty, late, other or error");
	out->answer = (enum fault_answer)i;
	out->times = json_has(j, "times") ? json_u64(json_member(j, "times")) : 1;
}

static const struct {
	const char *name;
	enum tape_kind kind;
	void (*read)(struct json j, struct tape_record *out);
} small_records[] = {
	{ "intent", TAPE_INTENT, read_intent },
	{ "attempt", TAPE_ATTEMPT, read_attempt },
	{ "transition", TAPE_TRANSITION, read_transition },
	{ "balance", TAPE_BALANCE, read_balance },
	{ "head", TAPE_HEAD, read_hash },
	{ "safe", TAPE_SAFE, read_hash },
	{ "finalized", TAPE_FINALIZED, read_hash },
	{ "clock", TAPE_CLOCK, read_clock },
	{ "fault", TAPE_FAULT, read_fault },
	{ "accept", TAPE_ACCEPT, read_hash },
};

static void read_small(struct json top, struct tape_record *out)
{
	const char *name = json_name_at(top, 0);

	if (json_has(top, "tape")) {
		out->kind = TAPE_FIRST;
		read_first(top, out);
		return;
	}
	for (size_t i = 0; name && i < ARRAY_SIZE(small_records); i++) {
		if (strcmp(name, small_records[i].name) != 0)
			continue;
		out->kind = small_records[i].kind;
		small_records[i].read(json_member(top, name), out);
		if (json_name_at(top, 1))
			json_complain(top, "a record has one member, this has also \"%s\"", json_name_at(top, 1));
		return;
	}
	json_complain(top, "unknown record \"%s\"", name ? name : "");
}

static enum err parse_small(struct slice line, struct tape_record *out, struct complaint *why)
{
	struct json_doc *doc = json_open(line, why);
	struct json top;
	enum err err;

	if (!doc)
		return E_INPUT;
	top = json_root(doc);
	if (json_is_object(top))
		read_small(top, out);
	else
		json_complain(top, "want an object");
	err = json_finish(doc, why);
	json_close(doc);
	return err;
}

/* The few members of a block by which a node knows it; the rest is served as it stands. */

enum { B_HASH, B_PARENT, B_NUMBER, B_TIME, B_MEMBERS };
static const char *const block_members[] = {
	[B_HASH] = "hash",
	[B_PARENT] = "parentHash",
	[B_NUMBER] = "number",
	[B_TIME] = "timestamp",
};

static bool read_block_time(struct slice text, int64_t *out)
{
	uint64_t time_s;

	if (!quantity_parse_u64(text, &time_s) || time_s >= INT64_MAX / 1000)
		return false;
	*out = (int64_t)time_s;
	return true;
}

static bool read_block_member(unsigned which, struct slice text, struct tape_record *out)
{
	switch (which) {
	case B_HASH:
		return hash_parse(text, &out->hash) && !hash_is_zero(&out->hash);
	case B_PARENT:
		return hash_parse(text, &out->parent);
	case B_NUMBER:
		return quantity_parse_u64(text, &out->height);
	case B_TIME:
		return read_block_time(text, &out->block_time_s);
	}
	return false;
}

/* Which it is, B_MEMBERS for none of them. */
static unsigned block_member_of(struct slice name)
{
	unsigned i = 0;

	while (i < B_MEMBERS && !slice_is(name, block_members[i]))
		i++;
	return i;
}

static enum err read_block(struct slice raw, struct tape_record *out, struct complaint *why)
{
	struct scan s = scan_begin(raw);
	struct slice name, text;
	bool seen[B_MEMBERS + 1] = { false };
	unsigned i;

	scan_object(&s);
	while (scan_member(&s, &name)) {
		i = block_member_of(name);
		if (i < B_MEMBERS && seen[i])
			return complain(why, E_INPUT, "block.%s: twice", block_members[i]);
		seen[i] = true;
		if (i == B_MEMBERS)
			scan_skip(&s, NULL);
		else if (scan_peek(&s) != SCAN_STRING || !scan_string(&s, &text) || !read_block_member(i, text, out))
			return complain(why, E_INPUT, "block.%s: want 0x and %s", block_members[i],
					i == B_HASH || i == B_PARENT ? "64 hex digits" : "a number's hex digits");
	}
	if (scan_failed(&s))
		return complain(why, E_INPUT, "block: %s", s.error);
	for (i = 0; i < B_MEMBERS; i++) {
		if (!seen[i])
			return complain(why, E_INPUT, "block.%s: missing", block_members[i]);
	}
	return OK;
}

static enum err parse_block(struct slice line, struct tape_record *out, struct complaint *why)
{
	struct scan s = scan_begin(line);
	struct slice name;

	out->kind = TAPE_BLOCK;
	scan_object(&s);
	while (scan_member(&s, &name)) {
		if (slice_is(name, "block") && !out->block.data)
			scan_skip(&s, &out->block);
		else if (slice_is(name, "receipts") && !out->receipts.data)
			scan_skip(&s, &out->receipts);
		else
			return complain(why, E_INPUT, "unknown member \"%.*s\" beside the block",
					(int)(name.len > 40 ? 40 : name.len), (const char *)name.data);
	}
	if (scan_failed(&s) || !scan_at_end(&s))
		return complain(why, E_INPUT, "byte %zu: %s", s.error_at, s.error ? s.error : "more after the record");
	if (!out->receipts.data || !out->block.data)
		return complain(why, E_INPUT, "a block comes with its receipts");
	if (out->receipts.data[0] != '[')
		return complain(why, E_INPUT, "receipts: want an array");
	return read_block(out->block, out, why);
}

/* The name of the line's first member. */
static bool is_block_line(struct slice line)
{
	struct scan s = scan_begin(line);
	struct slice name;

	return scan_peek(&s) == SCAN_OBJECT && scan_object(&s) && scan_member(&s, &name) &&
	       (slice_is(name, "block") || slice_is(name, "receipts"));
}

enum err tape_parse(struct slice line, struct tape_record *out, struct complaint *why)
{
	memset(out, 0, sizeof(*out));
	return is_block_line(line) ? parse_block(line, out, why) : parse_small(line, out, why);
}
