#include "listener/sink.h"

#include "common/json.h"
#include "common/keccak.h"
#include "common/log.h"
#include "store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH_BYTES ((size_t)256 << 10)
#define END_BYTES ((size_t)128 << 10)	/* read of a file's end; a line is far shorter */
#define CURSOR_TEXT 128			/* fits a key of the store */
#define STDOUT_PATH "/proc/self/fd/1"
#define LAST_TRIES 30
#define LAST_TRY_MS 10

struct sink {
	struct kv *kv;
	char *path;			/* for people too: "stdout" */
	bool has_path;
	char cursor[CURSOR_TEXT];
	int fd;
	bool is_file;			/* what was written can be taken back */
	dev_t dev;
	ino_t ino;
	uint64_t at;			/* the last event that is written whole */
	size_t begun_bytes;		/* written of the one after it */
	struct buf batch;
	bool waiting;			/* for room in a pipe; there is more to write */
	bool failing;			/* and it was said */
};

/* The end of a file. */

struct end {
	struct buf bytes;
	off_t size;
	struct slice line;		/* the last whole one, without its end; no data: none */
	struct slice tail;		/* after it */
};

static enum err read_end(int fd, struct end *e, const char *path, struct complaint *why)
{
	size_t want = e->size < (off_t)END_BYTES ? (size_t)e->size : END_BYTES;

	buf_extend(&e->bytes, want);
	for (size_t have = 0; have < want; ) {
		ssize_t got = pread(fd, e->bytes.data + have, want - have, e->size - (off_t)(want - have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return complain(why, E_IO, "%s: cannot be read: %s", path, got ? strerror(errno) : "it shrank");
		have += (size_t)got;
	}
	return OK;
}

/* Past the last newline of the first @len bytes; 0: there is none. */
static size_t line_start(const struct buf *b, size_t len)
{
	while (len && b->data[len - 1] != '\n')
		len--;
	return len;
}

/* False if a line is longer than what was read. */
static bool split_end(struct end *e)
{
	size_t end = line_start(&e->bytes, e->bytes.len);
	size_t start = end ? line_start(&e->bytes, end - 1) : 0;
	bool from_start = e->size == (off_t)e->bytes.len;

	if (end)
		e->line = (struct slice){ e->bytes.data + start, end - 1 - start };
	e->tail = (struct slice){ e->bytes.data + end, e->bytes.len - end };
	return from_start || (end && start);
}

static enum err parse_sequence(struct slice line, uint64_t *sequence, struct complaint *why)
{
	struct json_doc *doc = json_open(line, why);
	enum err err;

	if (!doc)
		return E_INPUT;
	*sequence = json_u64(json_member(json_member(json_root(doc), "data"), "sequence"));
	err = json_finish(doc, why);
	json_close(doc);
	return err;
}

static bool slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* The last line is the store's event of its number. */
static enum err check_line(struct sink *s, struct kv_txn *t, struct slice line, uint64_t *sequence, struct complaint *why)
{
	unsigned long long last = outbox_last(t);
	struct complaint inner;
	struct slice body;

	if (parse_sequence(line, sequence, &inner))
		return complain(why, E_CORRUPT, "%.200s: its last line is no event: %.200s", s->path, inner.text);
	if (*sequence > last)
		return complain(why, E_REFUSED, "%.200s: it ends with event %llu, the store with %llu: it is another store's",
				s->path, (unsigned long long)*sequence, last);
	if (!outbox_get(t, *sequence, &body) || !slice_eq(body, line))
		return complain(why, E_REFUSED, "%.200s: its event %llu is not the store's: it is another store's", s->path,
				(unsigned long long)*sequence);
	return OK;
}

/* Written bytes that a crash of the machine lost read as zero. */
static bool is_begun(struct slice body, struct slice tail)
{
	for (size_t i = 0; i < tail.len; i++) {
		if (tail.data[i] && (i >= body.len || tail.data[i] != body.data[i]))
			return false;
	}
	return true;
}

/* Whether one of the events after @at may have been cut to @tail: the next one, or, of a new file's first line, any. */
static bool is_cut_event(struct kv_txn *t, uint64_t at, bool any, struct slice tail)
{
	struct slice body;

	for (uint64_t n = at + 1; outbox_get(t, n, &body); n++) {
		if (is_begun(body, tail))
			return true;
		if (!any)
			return false;
	}
	return false;
}

static enum err judge_end(struct sink *s, struct kv_txn *t, const struct end *e, uint64_t *at, struct complaint *why)
{
	enum err err = OK;

	*at = s->at;
	if (e->line.data)
		err = check_line(s, t, e->line, at, why);
	if (!err && e->tail.len && !is_cut_event(t, *at, !e->line.data, e->tail))
		err = complain(why, E_CORRUPT, "%.200s: it ends in the middle of a line that is no event of the store", s->path);
	return err;
}

/* Crash before the cut: it is made at the next start. */
static enum err take_up_end(struct sink *s, int fd, struct end *e, struct complaint *why)
{
	struct kv_txn t;
	enum err err = read_end(fd, e, s->path, why);
	uint64_t at;

	if (err)
		return err;
	if (!split_end(e))
		return complain(why, E_CORRUPT, "%.200s: its last line is too long for an event", s->path);
	t = kv_begin_read(s->kv);
	err = judge_end(s, &t, e, &at, why);
	if (kv_end_read(&t) && !err)
		err = complain(why, E_IO, "%.200s: the store cannot be read", s->path);
	if (!err && e->tail.len && ftruncate(fd, e->size - (off_t)e->tail.len))
		err = complain(why, E_IO, "%.200s: its last line cannot be cut off: %s", s->path, strerror(errno));
	if (!err)
		s->at = at;
	return err;
}

/* Take the open file as the sink's; the caller's still if this fails. */
static enum err take_file(struct sink *s, int fd, struct complaint *why)
{
	struct end e = { .size = 0 };
	struct stat st;
	enum err err = OK;

	if (fstat(fd, &st))
		return complain(why, E_IO, "%.200s: %s", s->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return complain(why, E_IO, "%.200s: is no regular file; \"-\" stands for stdout", s->path);
	e.size = st.st_size;
	if (e.size)
		err = take_up_end(s, fd, &e, why);
	buf_free(&e.bytes);
	if (err)
		return err;
	s->fd = fd;
	s->is_file = true;
	s->begun_bytes = 0;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return OK;
}

static enum err open_file(struct sink *s, const char *path, struct complaint *why)
{
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
	enum err err;

	if (fd < 0)
		return complain(why, E_IO, "%.200s: cannot be opened: %s", s->path, strerror(errno));
	err = take_file(s, fd, why);
	if (err)
		close(fd);
	return err;
}

/* Opening. */

static bool is_appended_file(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_APPEND && !fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* A pipe is opened anew: whether a full one blocks is the descriptor's, and stdout's is shared. */
static int open_pipe(void)
{
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	return open(STDOUT_PATH, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

/* A file behind it is read back through a descriptor of our own; one that holds other lines too is taken like a pipe. */
static void open_stdout(struct sink *s)
{
	struct complaint why;

	if (is_appended_file(STDOUT_FILENO) && open_file(s, STDOUT_PATH, &why) == OK)
		return;
	s->fd = open_pipe();
	if (s->fd < 0)
		s->fd = STDOUT_FILENO;
}

/* A path too long for a key stands as its hash. */
static void name_cursor(struct sink *s, const char *path)
{
	char text[HASH_TEXT];
	struct hash32 h = keccak256(path, strlen(path));

	if (!s->has_path)
		snprintf(s->cursor, CURSOR_TEXT, "stdout");
	else
		snprintf(s->cursor, CURSOR_TEXT, "events:%s", strlen(path) < CURSOR_TEXT - 8 ? path : hash_format(&h, text));
}

enum err sink_open(const char *path, struct kv *kv, struct sink **out, struct complaint *why)
{
	bool has_path = strcmp(path, "-") != 0;
	struct sink *s = xcalloc(1, sizeof(*s));
	struct kv_txn t;
	enum err err;

	*s = (struct sink){ .kv = kv, .path = xstrdup(has_path ? path : "stdout"), .has_path = has_path, .fd = -1 };
	name_cursor(s, path);
	t = kv_begin_read(kv);
	s->at = outbox_cursor(&t, s->cursor);
	err = kv_end_read(&t);
	if (err)
		complain(why, err, "%.200s: the store cannot be read: %s", s->path, err_name(err));
	else if (has_path)
		err = open_file(s, path, why);
	else
		open_stdout(s);
	if (err) {
		sink_close(s);
		s = NULL;
	}
	*out = s;
	return err;
}

void sink_close(struct sink *s)
{
	if (!s)
		return;
	if (s->fd >= 0 && s->fd != STDOUT_FILENO)
		close(s->fd);
	buf_free(&s->batch);
	free(s->path);
	free(s);
}

/* Writing. */

void sink_committing(struct sink *s, struct kv_txn *t)
{
	if (outbox_cursor(t, s->cursor) != s->at)
		outbox_set_cursor(t, s->cursor, s->at);
}

/* What was moved away keeps its lines; it must have them before the cursor goes on without it. */
static enum err follow_path(struct sink *s, struct complaint *why)
{
	int old = s->fd;
	struct stat st;
	enum err err;

	if (!s->has_path || (!stat(s->path, &st) && st.st_dev == s->dev && st.st_ino == s->ino))
		return OK;
	err = open_file(s, s->path, why);
	if (err)
		return err;
	fsync(old);
	close(old);
	log_info("events go to a new file path=%s after=%llu", s->path, (unsigned long long)s->at);
	return OK;
}

static enum err gather(struct sink *s, struct complaint *why)
{
	struct kv_txn t = kv_begin_read(s->kv);
	uint64_t last = outbox_last(&t);
	uint64_t n = s->at;
	struct slice body;
	enum err err;

	s->batch.len = 0;
	while (n < last && s->batch.len < BATCH_BYTES && outbox_get(&t, n + 1, &body)) {
		buf_put(&s->batch, body.data, body.len);
		buf_put_u8(&s->batch, '\n');
		n++;
	}
	err = kv_end_read(&t);
	if (err || (n == s->at && n < last))
		return complain(why, err ? err : E_CORRUPT, "event %llu cannot be read from the store",
				(unsigned long long)n + 1);
	return OK;
}

/* A reader that is gone is found out by writing. */
static bool has_room(const struct sink *s, int wait_ms)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	return s->is_file || poll(&p, 1, wait_ms) > 0;
}

/* A pipe with any room takes PIPE_BUF bytes without blocking, and at once: lines are cut only if they are longer. */
static size_t chunk_at(const struct sink *s, size_t done)
{
	size_t left = s->batch.len - done, whole;

	if (s->is_file || left <= PIPE_BUF)
		return left;
	whole = line_start(&s->batch, done + PIPE_BUF);
	return whole > done ? whole - done : PIPE_BUF;
}

/* How many bytes of the batch are out; errno says why not all, unless they wait for room. */
static size_t write_all(struct sink *s)
{
	size_t done = s->begun_bytes;

	while (done < s->batch.len) {
		ssize_t n;

		s->waiting = !has_room(s, 0);
		if (s->waiting)
			break;
		n = write(s->fd, s->batch.data + done, chunk_at(s, done));
		if (n < 0 && errno == EINTR)
			continue;
		s->waiting = n < 0 && errno == EAGAIN;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* @done bytes of the batch are out: count whole lines, and take the begun one back. */
static void account(struct sink *s, size_t done)
{
	size_t whole = line_start(&s->batch, done);
	struct stat st;

	for (size_t i = 0; i < whole; i++)
		s->at += s->batch.data[i] == '\n';
	s->begun_bytes = done - whole;
	if (s->begun_bytes && s->is_file && !fstat(s->fd, &st) && st.st_size >= (off_t)s->begun_bytes &&
	    !ftruncate(s->fd, st.st_size - (off_t)s->begun_bytes))
		s->begun_bytes = 0;
}

/* Crash in between: what is out is found there at the next start. */
static enum err write_batch(struct sink *s, struct complaint *why)
{
	size_t done = write_all(s);
	int reason = errno;

	account(s, done);
	if (done < s->batch.len && !s->waiting)
		return complain(why, E_IO, "%s", strerror(reason));
	return OK;
}

static enum err write_new(struct sink *s, struct complaint *why)
{
	enum err err = follow_path(s, why);

	if (s->waiting && !has_room(s, 0))
		return err;
	s->waiting = false;
	if (!err)
		err = gather(s, why);
	while (!err && s->batch.len && !s->waiting) {
		err = write_batch(s, why);
		if (!err && !s->waiting)
			err = gather(s, why);
	}
	return err;
}

enum err sink_write(struct sink *s)
{
	struct complaint why;
	enum err err = write_new(s, &why);

	if (err && !s->failing)
		log_odd("events are not written to=%s after=%llu why=\"%s\"", s->path, (unsigned long long)s->at, why.text);
	if (!err && s->failing)
		log_info("events are written again to=%s", s->path);
	s->failing = err != OK;
	return err;
}

bool sink_is_waiting(const struct sink *s)
{
	return s->waiting;
}

enum err sink_finish(struct sink *s)
{
	enum err err = sink_write(s);

	for (unsigned i = 0; i < LAST_TRIES && !err && s->waiting; i++) {
		if (has_room(s, LAST_TRY_MS))
			err = sink_write(s);
	}
	return err;
}
