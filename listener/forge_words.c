#include "listener/forge_words.h"

#include "common/keccak.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void forge_fail(struct forge *f, const char *fmt, ...)
{
	char text[400];
	va_list args;

	if (f->err)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	f->err = complain(f->why, E_INPUT, "%s:%u: %s", f->file, f->line, text);
}

void *forge_enlarge(void *items, size_t count, size_t bytes)
{
	uint8_t *all = xrealloc(items, (count + 1) * bytes);

	memset(all + count * bytes, 0, bytes);
	return all;
}

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

void line_split(struct forge *f, struct slice line)
{
	size_t len = 0;

	while (len < line.len && !(line.data[len] == '#' && (len == 0 || is_space(line.data[len - 1]))))
		len++;
	while (len && is_space(line.data[len - 1]))
		len--;
	f->text.len = f->cut.len = f->word_count = f->next = 0;
	buf_put(&f->text, line.data, len);
	buf_put_u8(&f->text, '\0');
	buf_put(&f->cut, f->text.data, f->text.len);
	for (size_t i = 0; i < len; i++) {
		bool begins = i == 0 || f->cut.data[i - 1] == '\0';

		if (is_space(f->cut.data[i]))
			f->cut.data[i] = '\0';
		else if (begins && f->word_count == WORDS_MAX)
			forge_fail(f, "more than %d words", WORDS_MAX);
		else if (begins)
			f->words[f->word_count++] = (char *)f->cut.data + i;
	}
}

bool line_more(const struct forge *f)
{
	return !f->err && f->next < f->word_count;
}

const char *line_word(struct forge *f)
{
	if (line_more(f))
		return f->words[f->next++];
	forge_fail(f, "something is missing: %s", f->usage);
	return "";
}

bool line_take(struct forge *f, const char *keyword)
{
	if (!line_more(f) || strcmp(f->words[f->next], keyword) != 0)
		return false;
	f->next++;
	return true;
}

void line_expect(struct forge *f, const char *keyword)
{
	if (!f->err && !line_take(f, keyword))
		forge_fail(f, "\"%s\" is missing: %s", keyword, f->usage);
}

const char *line_rest(struct forge *f)
{
	size_t at = f->next;

	if (!line_more(f))
		return "";
	f->next = f->word_count;
	return (const char *)f->text.data + (f->words[at] - (const char *)f->cut.data);
}

uint64_t line_number(struct forge *f)
{
	const char *text = line_word(f);
	uint64_t v = 0;

	if (!f->err && !u64_parse(slice_of_text(text), &v))
		forge_fail(f, "\"%s\" is no number", text);
	return v;
}

bool amount_from_text(const char *text, struct u256 *out)
{
	char digits[128];
	size_t len = 0;

	for (; *text && len < sizeof(digits) - 1; text++) {
		if (*text != '_')
			digits[len++] = *text;
	}
	digits[len] = '\0';
	return !*text && u256_parse(slice_of_text(digits), out);
}

struct u256 line_amount(struct forge *f)
{
	const char *text = line_word(f);
	struct u256 v = u256_from_u64(0);

	if (!f->err && !amount_from_text(text, &v))
		forge_fail(f, "\"%s\" is no amount in base units", text);
	return v;
}

int64_t line_time(struct forge *f, int64_t from_ms)
{
	static const char units[] = "smhd";
	static const int64_t unit_ms[] = { 1000, 60000, 3600000, 86400000 };
	const char *text = line_word(f);
	size_t len = strlen(text);
	const char *unit = len ? strchr(units, text[len - 1]) : NULL;
	int64_t at = from_ms;
	uint64_t n;

	if (f->err || time_parse(slice_of_text(text), &at))
		return at;
	if (text[0] == '+' && unit && len <= 10 &&
	    u64_parse((struct slice){ (const uint8_t *)text + 1, len - 2 }, &n))
		return from_ms + (int64_t)n * unit_ms[unit - units];
	forge_fail(f, "\"%s\" is no time: want 2026-01-01T00:00:12Z or +12s (s m h d)", text);
	return from_ms;
}

const char *line_name(struct forge *f)
{
	const char *name = line_word(f);

	if (!f->err && !intent_id_is_valid(name))
		forge_fail(f, "\"%s\" is no name: 1 to 64 letters, digits and _-:.@/", name);
	return name;
}

struct named *forge_find(struct forge *f, const char *name, bool intent)
{
	for (size_t i = 0; i < f->name_count; i++) {
		if ((f->names[i].kind == NAME_INTENT) == intent && strcmp(f->names[i].name, name) == 0)
			return &f->names[i];
	}
	return NULL;
}

struct address forge_address(const char *name)
{
	struct hash32 h = keccak256(name, strlen(name));
	struct address a;

	memcpy(a.b, h.b + 12, sizeof(a.b));
	return a;
}

void forge_bind(struct forge *f, enum name_kind kind, const char *name, struct address address,
		 uint64_t decimals)
{
	struct named *n;

	if (!f->err && forge_find(f, name, kind == NAME_INTENT))
		forge_fail(f, "\"%s\" has a meaning already", name);
	if (f->err)
		return;
	f->names = forge_enlarge(f->names, f->name_count, sizeof(*f->names));
	n = &f->names[f->name_count++];
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->kind = kind;
	n->address = address;
	n->decimals = decimals;
}

struct address line_address(struct forge *f)
{
	const char *text = line_word(f);
	struct address a = { { 0 } };

	if (!f->err && !address_parse(slice_of_text(text), &a))
		forge_fail(f, "\"%s\" is no address", text);
	return a;
}

struct address line_account(struct forge *f)
{
	const char *text = line_word(f);
	const struct named *n = forge_find(f, text, false);
	struct address a = { { 0 } };

	if (n)
		return n->address;
	if (f->err || address_parse(slice_of_text(text), &a))
		return a;
	f->next--;
	return forge_address(line_name(f));
}

struct address line_contract(struct forge *f, bool token_only)
{
	const char *text = line_word(f);
	const struct named *n = forge_find(f, text, false);
	struct address a = { { 0 } };

	if (n && (n->kind == NAME_TOKEN || (n->kind == NAME_CONTRACT && !token_only)))
		return n->address;
	if (!f->err && !address_parse(slice_of_text(text), &a))
		forge_fail(f, "\"%s\" is no %s that a line above names", text, token_only ? "token" : "contract");
	return a;
}

const char *line_intent(struct forge *f)
{
	const char *id = line_word(f);

	if (!f->err && !forge_find(f, id, true))
		forge_fail(f, "there is no intent \"%s\" above", id);
	return id;
}

size_t line_tx(struct forge *f)
{
	const char *name = line_word(f);
	struct hash32 hash = keccak256(name, strlen(name));
	struct tx *t;

	if (!f->err && !hash_parse(slice_of_text(name), &hash) && !intent_id_is_valid(name))
		forge_fail(f, "\"%s\" is no name of a transaction", name);
	for (size_t i = 0; i < f->tx_count; i++) {
		if (strcmp(f->txs[i].name, name) == 0)
			return i;
	}
	if (f->err)
		return 0;
	f->txs = forge_enlarge(f->txs, f->tx_count, sizeof(*f->txs));
	t = &f->txs[f->tx_count];
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->hash = hash;
	t->type = 2;
	t->line = f->line;
	return f->tx_count++;
}

struct tx *line_open_tx(struct forge *f)
{
	size_t i = line_tx(f);

	if (!f->err && f->txs[i].sealed)
		forge_fail(f, "the transaction \"%s\" stands in a block above", f->txs[i].name);
	if (f->err)
		return NULL;
	f->txs[i].described = true;
	return &f->txs[i];
}

size_t forge_find_block(const struct forge *f, const char *name)
{
	size_t i = 0;

	while (i < f->block_count && strcmp(f->blocks[i].name, name) != 0)
		i++;
	return i;
}

struct sealed *line_block(struct forge *f)
{
	const char *name = line_word(f);
	size_t i = forge_find_block(f, name);

	if (!f->err && i == f->block_count)
		forge_fail(f, "there is no block \"%s\" above", name);
	return f->err ? NULL : &f->blocks[i];
}
