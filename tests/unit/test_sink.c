/*
 * sink, with a real store and real files: every event once and whole, in order, whatever became of the process, the
 * disk or the file in between.
 */
#include "common/log.h"
#include "listener/sink.h"
#include "store/intents.h"
#include "tests/unit/world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* A store with events, and a file beside it. */

struct place {
	struct world w;
	struct sink *sink;
	char path[96];
	char moved[96];
	unsigned made, making;		/* intents, each of which is an event */
};

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof(*p));

	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	world_make(&p->w);
	world_open(&p->w);
	snprintf(p->path, sizeof(p->path), "%s.events", p->w.dir);
	snprintf(p->moved, sizeof(p->moved), "%s.events.1", p->w.dir);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	sink_close(p->sink);
	unlink(p->path);
	unlink(p->moved);
	world_remove(&p->w);
	free(p);
	return 0;
}

static void create(struct kv_txn *t, unsigned number)
{
	struct intent i = { .merchant_id = "m", .chain_id = 1, .token = address_of(1), .amount = u256_from_u64(1),
			    .payee = address_of(2) };
	struct complaint why;
	bool created;

	snprintf(i.id, sizeof(i.id), "pi_%u", number);
	snprintf(i.idempotency_key, sizeof(i.idempotency_key), "k_%u", number);
	assert_int_equal(intents_create(t, &i, 1000, &created, &why), OK);
}

static void create_body(struct kv_txn *t, void *ctx)
{
	struct place *p = ctx;

	for (unsigned i = 0; i < p->making && !t->err; i++)
		create(t, p->made + i);
	if (p->sink)
		sink_committing(p->sink, t);
}

static void make_events(struct place *p, unsigned count)
{
	p->making = count;
	assert_int_equal(kv_write(p->w.kv, create_body, p), OK);
	p->made += count;
}

static void open_sink(struct place *p, const char *path)
{
	struct complaint why;

	if (sink_open(path, p->w.kv, &p->sink, &why))
		fail_msg("%s", why.text);
}

static void reopen(struct place *p)
{
	sink_close(p->sink);
	open_sink(p, p->path);
}

/* The lines that the store's events @from to @to are. */
static struct buf lines_of(struct place *p, uint64_t from, uint64_t to)
{
	struct kv_txn t = kv_begin_read(p->w.kv);
	struct buf out = { 0 };
	struct slice body;

	for (; from <= to; from++) {
		assert_true(outbox_get(&t, from, &body));
		buf_put(&out, body.data, body.len);
		buf_put_u8(&out, '\n');
	}
	assert_int_equal(kv_end_read(&t), OK);
	return out;
}

static struct buf content_of(const char *path)
{
	struct buf out = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(read(fd, buf_extend(&out, (size_t)st.st_size), (size_t)st.st_size), st.st_size);
	close(fd);
	return out;
}

static void expect_file(struct place *p, const char *path, uint64_t from, uint64_t to)
{
	expect_same(lines_of(p, from, to), content_of(path));
}

static void put_file(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static uint64_t stored_cursor(struct place *p, const char *name)
{
	struct kv_txn t = kv_begin_read(p->w.kv);
	uint64_t at = outbox_cursor(&t, name);

	assert_int_equal(kv_end_read(&t), OK);
	return at;
}

/* The common way. */

static void test_follows(void **state)
{
	struct place *p = *state;
	char name[128];

	make_events(p, 3);
	open_sink(p, p->path);
	expect_file(p, p->path, 1, 0);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 3);
	assert_int_equal(sink_write(p->sink), OK);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 5);
	snprintf(name, sizeof(name), "events:%s", p->path);
	assert_int_equal(stored_cursor(p, name), 3);
	make_events(p, 1);
	assert_int_equal(stored_cursor(p, name), 5);
}

/* More than one batch. */
static void test_many(void **state)
{
	struct place *p = *state;

	make_events(p, 700);
	open_sink(p, p->path);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 700);
}

/* A crash. */

/* The file ends anywhere in its last two lines, with and without zeros in place of what was lost. */
static void check_cut(struct place *p, const struct buf *all, size_t len, size_t zeros)
{
	struct buf cut = { 0 };

	buf_put(&cut, all->data, len);
	memset(buf_extend(&cut, zeros), 0, zeros);
	put_file(p->path, cut.data, cut.len);
	buf_free(&cut);
	reopen(p);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 4);
}

static void test_cut_anywhere(void **state)
{
	struct place *p = *state;
	struct buf all, kept;

	make_events(p, 4);
	all = lines_of(p, 1, 4);
	kept = lines_of(p, 1, 2);
	for (size_t len = kept.len; len <= all.len; len++)
		check_cut(p, &all, len, 0);
	for (size_t len = kept.len; len < all.len; len += 7)
		check_cut(p, &all, len, all.len - len);
	buf_free(&all);
	buf_free(&kept);
}

/* Of a new file's first line too; the cursor may be behind where the file began. */
static void test_cut_first(void **state)
{
	struct place *p = *state;
	struct buf first;

	make_events(p, 3);
	first = lines_of(p, 2, 2);
	for (size_t len = 0; len < first.len; len++) {
		put_file(p->path, first.data, len);
		reopen(p);
		assert_int_equal(sink_write(p->sink), OK);
		expect_file(p, p->path, 1, 3);
	}
	buf_free(&first);
}

/* The file is further than the cursor, and tells. */
static void test_file_tells(void **state)
{
	struct place *p = *state;

	open_sink(p, p->path);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	reopen(p);
	make_events(p, 1);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 3);
}

/* Without a file the cursor tells. */
static void test_cursor_tells(void **state)
{
	struct place *p = *state;

	make_events(p, 2);
	open_sink(p, p->path);
	assert_int_equal(sink_write(p->sink), OK);
	make_events(p, 1);
	assert_int_equal(unlink(p->path), 0);
	reopen(p);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 3, 3);
}

/* A path that is too long for a key. */
static void test_long_path(void **state)
{
	struct place *p = *state;
	char path[300] = "/tmp/";

	while (strlen(path) < 200)
		strncat(path, "./", sizeof(path) - strlen(path) - 1);
	strncat(path, p->path + strlen("/tmp/"), sizeof(path) - strlen(path) - 1);
	make_events(p, 2);
	open_sink(p, path);
	assert_int_equal(sink_write(p->sink), OK);
	make_events(p, 1);
	assert_int_equal(unlink(p->path), 0);
	sink_close(p->sink);
	open_sink(p, path);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 3, 3);
}

/* Another's file. */

static void expect_refused(struct place *p, enum err want, const char *begin)
{
	struct buf before = content_of(p->path);
	struct sink *s = (void *)p;
	struct complaint why;
	size_t len = strlen(p->path);

	assert_int_equal(sink_open(p->path, p->w.kv, &s, &why), want);
	assert_null(s);
	assert_memory_equal(why.text, p->path, len);
	if (strncmp(why.text + len, begin, strlen(begin)) != 0)
		fail_msg("\"%s\" does not go on with \"%s\"", why.text, begin);
	expect_same(before, content_of(p->path));
}

static void test_other_store(void **state)
{
	struct place *p = *state;
	struct buf two;
	uint8_t *id;

	make_events(p, 2);
	two = lines_of(p, 1, 2);
	world_remove(&p->w);
	world_make(&p->w);
	world_open(&p->w);
	put_file(p->path, two.data, two.len);
	expect_refused(p, E_REFUSED, ": it ends with event 2, the store with 0: it is another store's");
	p->made = 7;
	make_events(p, 2);
	expect_refused(p, E_REFUSED, ": its event 2 is not the store's: it is another store's");
	buf_free(&two);
	two = lines_of(p, 1, 2);
	id = (uint8_t *)strstr((char *)two.data, "ev_") + 5;
	put_file(p->path, two.data, two.len);
	open_sink(p, p->path);
	sink_close(p->sink);
	p->sink = NULL;
	*id = *id == '0' ? '1' : '0';
	put_file(p->path, two.data, (size_t)((uint8_t *)strchr((char *)two.data, '\n') - two.data) + 1);
	expect_refused(p, E_REFUSED, ": its event 1 is not the store's");
	buf_free(&two);
}

static void test_no_log(void **state)
{
	static const struct {
		const char *text;
		enum err err;
		const char *begin;
	} files[] = {
		{ "shopping list", E_CORRUPT, ": it ends in the middle of a line that is no event of the store" },
		{ "milk\nbread\n", E_CORRUPT, ": its last line is no event: line 1, column " },
		{ "\n", E_CORRUPT, ": its last line is no event: " },
		{ "{}\n", E_CORRUPT, ": its last line is no event: data: missing" },
		{ "{\"data\":{}}\n", E_CORRUPT, ": its last line is no event: data.sequence: missing" },
		{ "{\"data\":{\"sequence\":0}}\n", E_REFUSED, ": its event 0 is not the store's" },
	};
	struct place *p = *state;
	struct buf cut;

	make_events(p, 2);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		put_file(p->path, files[i].text, strlen(files[i].text));
		expect_refused(p, files[i].err, files[i].begin);
	}
	cut = lines_of(p, 1, 2);
	buf_put_text(&cut, "{\"type\":");
	put_file(p->path, cut.data, cut.len);
	expect_refused(p, E_CORRUPT, ": it ends in the middle of a line");
	buf_free(&cut);
	memset(buf_extend(&cut, 200000), 'x', 200000);
	put_file(p->path, cut.data, cut.len);
	expect_refused(p, E_CORRUPT, ": its last line is too long for an event");
	buf_free(&cut);
}

static void test_no_file(void **state)
{
	struct place *p = *state;
	struct complaint why;

	assert_int_equal(sink_open("/nowhere/events", p->w.kv, &p->sink, &why), E_IO);
	assert_string_equal(why.text, "/nowhere/events: cannot be opened: No such file or directory");
	assert_int_equal(sink_open("/dev/null", p->w.kv, &p->sink, &why), E_IO);
	assert_string_equal(why.text, "/dev/null: is no regular file; \"-\" stands for stdout");
	assert_null(p->sink);
}

/* A full disk. */

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Wherever the disk ends there are whole lines only; with room again the rest follows. */
static void test_full_disk(void **state)
{
	struct place *p = *state;
	struct buf all, content;

	make_events(p, 3);
	all = lines_of(p, 1, 3);
	for (size_t room = 0; room < all.len; room += 11) {
		unlink(p->path);
		reopen(p);
		limit_files(room);
		assert_int_equal(sink_write(p->sink), E_IO);
		assert_int_equal(sink_write(p->sink), E_IO);
		limit_files(RLIM_INFINITY);
		content = content_of(p->path);
		assert_true(content.len <= room);
		assert_memory_equal(content.data ? content.data : all.data, all.data, content.len);
		assert_true(!content.len || content.data[content.len - 1] == '\n');
		buf_free(&content);
		assert_int_equal(sink_write(p->sink), OK);
		expect_file(p, p->path, 1, 3);
	}
	buf_free(&all);
}

/* The file is moved, copied, emptied. */

static void test_moved(void **state)
{
	struct place *p = *state;

	open_sink(p, p->path);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	assert_int_equal(rename(p->path, p->moved), 0);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->moved, 1, 2);
	expect_file(p, p->path, 3, 4);
	reopen(p);
	make_events(p, 1);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 3, 5);
}

static void test_emptied(void **state)
{
	struct place *p = *state;

	open_sink(p, p->path);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	assert_int_equal(truncate(p->path, 0), 0);
	make_events(p, 1);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 3, 3);
}

/* What came to stand at the path is another's: nothing is written to it, and nothing is lost. */
static void test_replaced(void **state)
{
	struct place *p = *state;

	open_sink(p, p->path);
	make_events(p, 2);
	assert_int_equal(sink_write(p->sink), OK);
	assert_int_equal(rename(p->path, p->moved), 0);
	put_file(p->path, "milk\n", 5);
	make_events(p, 1);
	assert_int_equal(sink_write(p->sink), E_CORRUPT);
	assert_int_equal(unlink(p->path), 0);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->moved, 1, 2);
	expect_file(p, p->path, 3, 3);
}

/* Put back from a copy that lacks a line. */
static void test_put_back(void **state)
{
	struct place *p = *state;
	struct buf one;

	open_sink(p, p->path);
	make_events(p, 3);
	assert_int_equal(sink_write(p->sink), OK);
	one = lines_of(p, 1, 1);
	assert_int_equal(unlink(p->path), 0);
	put_file(p->path, one.data, one.len);
	buf_free(&one);
	assert_int_equal(sink_write(p->sink), OK);
	expect_file(p, p->path, 1, 3);
}

/* Stdout. */

struct stdout_kept {
	int fd;
};

static struct stdout_kept redirect(int to)
{
	struct stdout_kept k;

	fflush(stdout);
	k.fd = dup(STDOUT_FILENO);
	assert_true(k.fd >= 0 && dup2(to, STDOUT_FILENO) == STDOUT_FILENO);
	close(to);
	return k;
}

static void restore(struct stdout_kept k)
{
	dup2(k.fd, STDOUT_FILENO);
	close(k.fd);
}

static void test_pipe(void **state)
{
	struct place *p = *state;
	struct buf want, got = { 0 };
	enum err first, gone;
	struct stdout_kept k;
	int ends[2];

	make_events(p, 2);
	want = lines_of(p, 1, 2);
	assert_int_equal(pipe(ends), 0);
	k = redirect(ends[1]);
	open_sink(p, "-");
	first = sink_write(p->sink);
	assert_int_equal(read(ends[0], buf_extend(&got, want.len), want.len), want.len);
	close(ends[0]);
	make_events(p, 1);
	gone = sink_write(p->sink);
	restore(k);
	assert_int_equal(first, OK);
	assert_int_equal(gone, E_IO);
	assert_int_equal(stored_cursor(p, "stdout"), 2);
	expect_same(want, got);
}

static size_t drain(int fd, struct buf *out)
{
	ssize_t got = read(fd, buf_extend(out, 65536), 65536);

	out->len -= 65536 - (got > 0 ? (size_t)got : 0);
	return got > 0 ? (size_t)got : 0;
}

static void ring(int number)
{
	static const char text[] = "blocked in a full pipe\n";

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

/* Of a full pipe that nobody reads: how much it took, and that it was not waited for. */
static void fill(struct place *p, int end, struct buf *got)
{
	enum err err[3];
	bool waits[3];

	signal(SIGALRM, ring);
	alarm(20);
	err[0] = sink_write(p->sink);
	waits[0] = sink_is_waiting(p->sink);
	make_events(p, 1);
	err[1] = sink_write(p->sink);
	waits[1] = sink_is_waiting(p->sink);
	err[2] = sink_finish(p->sink);
	waits[2] = sink_is_waiting(p->sink);
	alarm(0);
	for (size_t i = 0; i < ARRAY_SIZE(err); i++) {
		assert_int_equal(err[i], OK);
		assert_true(waits[i]);
	}
	while (drain(end, got))
		;
	assert_int_equal(got->data[got->len - 1], '\n');
}

/* A pipe whose reader pauses gets the rest later, whole and in order; what shares it still waits for it. */
static void full_pipe(struct place *p, int ends[2])
{
	struct buf want, got = { 0 };
	struct stdout_kept k;
	int shared = dup(ends[1]), flags = fcntl(ends[1], F_GETFL);
	unsigned writes = 0;

	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	make_events(p, 400);
	k = redirect(ends[1]);
	open_sink(p, "-");
	fill(p, ends[0], &got);
	for (bool waits = true; waits; writes++) {
		assert_int_equal(sink_write(p->sink), OK);
		waits = sink_is_waiting(p->sink);
		while (drain(ends[0], &got))
			;
	}
	restore(k);
	assert_int_equal(fcntl(shared, F_GETFL), flags);
	close(shared);
	close(ends[0]);
	want = lines_of(p, 1, 401);
	assert_true(writes > 1);
	expect_same(want, got);
}

static void test_full_pipe(void **state)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	full_pipe(*state, ends);
}

/* The one that gave it to us made it so. */
static void test_full_pipe_unblocked(void **state)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	full_pipe(*state, ends);
}

/* Of a socket there is no descriptor of our own. */
static void test_full_socket(void **state)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	full_pipe(*state, ends);
}

#define LONG_EVENTS 2
#define LONG_BYTES 50000

static void long_body(struct kv_txn *t, void *ctx)
{
	struct buf body = { 0 };

	(void)ctx;
	memset(buf_extend(&body, LONG_BYTES), 'x', LONG_BYTES);
	for (unsigned i = 0; i < LONG_EVENTS; i++) {
		struct key key = key_u64(number_next(t, "event"));

		kv_add(t, T_EVENT, key_slice(&key), buf_slice(&body));
	}
	buf_free(&body);
}

/* A line longer than a pipe takes at once goes on in its middle. */
static void test_long_line(void **state)
{
	struct place *p = *state;
	struct buf want, got = { 0 };
	struct stdout_kept k;
	bool waits;
	int ends[2];

	assert_int_equal(kv_write(p->w.kv, long_body, NULL), OK);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	k = redirect(ends[1]);
	open_sink(p, "-");
	assert_int_equal(sink_write(p->sink), OK);
	waits = sink_is_waiting(p->sink);
	while (drain(ends[0], &got))
		;
	assert_int_equal(sink_write(p->sink), OK);
	restore(k);
	while (drain(ends[0], &got))
		;
	close(ends[0]);
	want = lines_of(p, 1, LONG_EVENTS);
	assert_true(waits);
	expect_same(want, got);
}

/* A file that stdout is appended to tells, like one of a path. */
static void test_stdout_appended(void **state)
{
	struct place *p = *state;
	struct stdout_kept k;
	enum err err[2];

	make_events(p, 2);
	for (int i = 0; i < 2; i++) {
		k = redirect(open(p->path, O_WRONLY | O_CREAT | O_APPEND, 0600));
		sink_close(p->sink);
		p->sink = NULL;
		open_sink(p, "-");
		err[i] = sink_write(p->sink);
		restore(k);
	}
	assert_int_equal(err[0], OK);
	assert_int_equal(err[1], OK);
	expect_file(p, p->path, 1, 2);
}

/* One that holds other lines is written to like a pipe. */
static void test_stdout_mixed(void **state)
{
	struct place *p = *state;
	struct buf want = { 0 }, lines;
	struct stdout_kept k;
	enum err err;

	make_events(p, 2);
	put_file(p->path, "tidemark: serving\n", 18);
	k = redirect(open(p->path, O_WRONLY | O_APPEND));
	open_sink(p, "-");
	err = sink_write(p->sink);
	restore(k);
	assert_int_equal(err, OK);
	lines = lines_of(p, 1, 2);
	buf_put_text(&want, "tidemark: serving\n");
	buf_put(&want, lines.data, lines.len);
	buf_free(&lines);
	expect_same(want, content_of(p->path));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_follows),
		CASE(test_many),
		CASE(test_cut_anywhere),
		CASE(test_cut_first),
		CASE(test_file_tells),
		CASE(test_cursor_tells),
		CASE(test_long_path),
		CASE(test_other_store),
		CASE(test_no_log),
		CASE(test_no_file),
		CASE(test_full_disk),
		CASE(test_moved),
		CASE(test_emptied),
		CASE(test_replaced),
		CASE(test_put_back),
		CASE(test_pipe),
		CASE(test_full_pipe),
		CASE(test_full_pipe_unblocked),
		CASE(test_full_socket),
		CASE(test_long_line),
		CASE(test_stdout_appended),
		CASE(test_stdout_mixed),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
