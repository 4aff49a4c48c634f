#define _GNU_SOURCE		/* wait4, memmem */
#include "tests/replay/harness.h"

#include "common/keccak.h"
#include "store/outbox.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Chance and the environment. */

uint64_t chance_next(struct chance *c)
{
	uint64_t z = c->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t chance_below(struct chance *c, uint64_t limit)
{
	return chance_next(c) % limit;
}

uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t v;

	if (!text)
		return otherwise;
	if (!u64_parse(slice_of_text(text), &v))
		fail_msg("%s=%s is no number", name, text);
	return v;
}

const char *binary_path(void)
{
	const char *path = getenv("TIDEMARK");

	return path ? path : "build/tidemark";
}

/* Files. */

char *path_of(const char *dir, const char *name)
{
	struct buf path = { 0 };

	buf_printf(&path, "%s/%s", dir, name);
	return (char *)path.data;
}

/* A NUL behind the text, which is not counted. */
static void end_text(struct buf *b)
{
	buf_put_u8(b, 0);
	b->len--;
}

static struct buf read_all(int fd)
{
	struct buf b = { 0 };
	ssize_t got;

	do {
		got = read(fd, buf_extend(&b, 65536), 65536);
		b.len -= 65536 - (got > 0 ? (size_t)got : 0);
	} while (got > 0);
	end_text(&b);
	return b;
}

struct buf file_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf b;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	b = read_all(fd);
	close(fd);
	return b;
}

static bool put_whole(FILE *f, struct slice text)
{
	return (text.len == 0 || fwrite(text.data, 1, text.len, f) == text.len) && fflush(f) == 0;
}

void file_write(const char *path, struct slice text)
{
	FILE *f = fopen(path, "w");

	if (!f || !put_whole(f, text) || fclose(f) != 0)
		fail_msg("%s: %s", path, strerror(errno));
}

char *folder_new(void)
{
	const char *temp = getenv("TMPDIR");
	char *dir = path_of(temp ? temp : "/tmp", "tidemark-test-XXXXXX");

	if (!mkdtemp(dir))
		fail_msg("%s: %s", dir, strerror(errno));
	return dir;
}

void folder_remove(char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char *path = path_of(dir, e->d_name);

		unlink(path);
		free(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
	free(dir);
}

static bool in_memory;

void stores_in_memory(void)
{
	if (getenv("TMPDIR") || access("/dev/shm", W_OK) != 0)
		return;
	in_memory = true;
	setenv("TMPDIR", "/dev/shm", true);
}

void stores_on_disk(void)
{
	if (in_memory)
		unsetenv("TMPDIR");
	in_memory = false;
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), tail = strlen(suffix);

	return len >= tail && strcmp(name + len - tail, suffix) == 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct paths paths_find(const char *dir, const char *suffix)
{
	struct paths p = { 0 };
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!ends_with(e->d_name, suffix))
			continue;
		p.at = xrealloc(p.at, (p.count + 1) * sizeof(*p.at));
		p.at[p.count++] = path_of(dir, e->d_name);
	}
	if (d)
		closedir(d);
	if (p.count)
		qsort(p.at, p.count, sizeof(*p.at), compare_paths);
	return p;
}

void paths_free(struct paths *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->at[i]);
	free(p->at);
}

char *path_sibling(const char *path, const char *suffix)
{
	const char *dot = strrchr(path, '.');
	struct buf b = { 0 };

	buf_printf(&b, "%.*s%s", (int)(dot - path), path, suffix);
	return (char *)b.data;
}

const char *mainnet_dir(void)
{
	const char *dir = getenv("TIDEMARK_MAINNET");

	return dir ? dir : "../shared/mainnet";
}

struct paths mainnet_tapes(void)
{
	struct paths p = paths_find(mainnet_dir(), ".tape");

	if (p.count == 0) {
		printf("skipped: no tapes in %s\n", mainnet_dir());
		skip();
	}
	return p;
}

/* Lines. */

struct lines lines_of(struct slice text)
{
	const uint8_t *at = text.data, *end = text.len ? text.data + text.len : at;
	struct lines l = { 0 };

	while (at < end) {
		const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));

		l.at = xrealloc(l.at, (l.count + 1) * sizeof(*l.at));
		l.at[l.count++] = (struct slice){ at, (size_t)((stop ? stop : end) - at) };
		at = stop ? stop + 1 : end;
	}
	return l;
}

void lines_free(struct lines *l)
{
	free(l->at);
}

bool starts_with(struct slice s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && memcmp(s.data, prefix, len) == 0;
}

bool has_text(struct slice s, const char *text)
{
	return s.len && memmem(s.data, s.len, text, strlen(text));
}

struct buf lines_join(const struct lines *l, size_t from, size_t to)
{
	struct buf b = { 0 };

	for (size_t i = from; i < to; i++) {
		buf_put(&b, l->at[i].data, l->at[i].len);
		buf_put_u8(&b, '\n');
	}
	return b;
}

size_t count_lines(struct slice text)
{
	size_t count = 0;

	for (size_t i = 0; i < text.len; i++)
		count += text.data[i] == '\n';
	return count;
}

/* Replays. */

void ran_free(struct ran *r)
{
	buf_free(&r->out);
	buf_free(&r->err);
}

static FILE *temp_file(void)
{
	FILE *f = tmpfile();

	if (!f)
		fail_msg("no temporary file: %s", strerror(errno));
	return f;
}

/* From its start. */
static struct buf read_temp(int fd)
{
	lseek(fd, 0, SEEK_SET);
	return read_all(fd);
}

/* What it would have said is in the file until this is called with its return. */
static int stderr_into(int fd)
{
	int saved = dup(STDERR_FILENO);

	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	return saved;
}

static void stderr_back(int saved)
{
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
}

static void refuse_broken(const struct ran *r)
{
	if (has_text(buf_slice(&r->err), "broken:"))
		fail_msg("%s", (const char *)r->err.data);
}

/* As main() says it. */
static void put_complaint(int fd, enum err err, const struct complaint *why)
{
	if (err && dprintf(fd, "tidemark: %s\n", why->text) < 0)
		fail_msg("stderr: %s", strerror(errno));
}

static FILE *tape_file(struct slice tape)
{
	FILE *f = temp_file();

	if (!put_whole(f, tape))
		fail_msg("no room for the tape: %s", strerror(errno));
	lseek(fileno(f), 0, SEEK_SET);
	return f;
}

struct ran replay_with(struct slice tape, const struct replay_options *wanted)
{
	struct replay_options options = *wanted;
	FILE *in = tape_file(tape), *err_file = temp_file();
	int saved = stderr_into(fileno(err_file));
	struct ran r = { 0 };
	struct complaint why;
	char *text = NULL;
	size_t len = 0;
	enum err err;

	options.out = open_memstream(&text, &len);
	err = replay("tape", fileno(in), &options, &why);
	fclose(options.out);
	put_complaint(fileno(err_file), err, &why);
	stderr_back(saved);
	buf_put(&r.out, text, len);
	end_text(&r.out);
	free(text);
	r.err = read_temp(fileno(err_file));
	r.code = err ? EXIT_FAILURE : EXIT_SUCCESS;
	fclose(in);
	fclose(err_file);
	refuse_broken(&r);
	return r;
}

struct ran replay_here(struct slice tape, enum replay_output output, const char *store)
{
	struct replay_options options = { .output = output, .store = store };

	return replay_with(tape, &options);
}

struct buf replay_well(struct slice tape, enum replay_output output, const char *store)
{
	struct ran r = replay_here(tape, output, store);

	if (r.code)
		fail_msg("%s", (const char *)r.err.data);
	buf_free(&r.err);
	return r.out;
}

/* Children. */

static void become(const char *const *argv, const int in[2], const int out[2], int err)
{
	const char *args[16] = { binary_path() };

	for (size_t i = 0; argv[i]; i++)
		args[i + 1] = argv[i];
	dup2(in[0], STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	execv(args[0], (char *const *)args);
	_exit(127);
}

static void pipe_open(int fds[2])
{
	if (pipe(fds) < 0)
		fail_msg("pipe: %s", strerror(errno));
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFD, FD_CLOEXEC);
}

struct child child_start(const char *const *argv)
{
	FILE *err = temp_file();
	struct child c = { .err = dup(fileno(err)) };
	int in[2], out[2];

	fclose(err);
	fcntl(c.err, F_SETFD, FD_CLOEXEC);
	pipe_open(in);
	pipe_open(out);
	signal(SIGPIPE, SIG_IGN);
	c.pid = fork();
	if (c.pid == 0)
		become(argv, in, out, c.err);
	close(in[0]);
	close(out[1]);
	c.in = in[1];
	c.out = out[0];
	if (c.pid < 0)
		fail_msg("fork: %s", strerror(errno));
	return c;
}

/* Read what there is; false at its end. */
static bool read_some(struct child *c)
{
	ssize_t got = read(c->out, buf_extend(&c->got, 65536), 65536);

	c->got.len -= 65536 - (got > 0 ? (size_t)got : 0);
	return got > 0;
}

#define PATIENCE_MS 60000	/* valgrind is slow to start */

/*
 * Its stdout is read meanwhile, or each would wait for the other.  A ready pipe
 * takes PIPE_BUF bytes without waiting.
 */
bool child_feed(struct child *c, struct slice text)
{
	while (text.len) {
		struct pollfd p[2] = { { .fd = c->in, .events = POLLOUT }, { .fd = c->out, .events = POLLIN } };
		ssize_t put = 0;

		if (poll(p, 2, PATIENCE_MS) <= 0)
			fail_msg("the child reads nothing for %d ms", PATIENCE_MS);
		if ((p[1].revents & POLLIN) && !read_some(c))
			return false;
		if (p[0].revents)
			put = write(c->in, text.data, text.len < PIPE_BUF ? text.len : PIPE_BUF);
		if (put < 0)
			return false;
		text.data += put;
		text.len -= (size_t)put;
	}
	return true;
}

bool child_await(struct child *c, size_t count)
{
	struct pollfd p = { .fd = c->out, .events = POLLIN };

	while (count_lines(buf_slice(&c->got)) < count) {
		if (poll(&p, 1, PATIENCE_MS) <= 0)
			fail_msg("the child says nothing for %d ms", PATIENCE_MS);
		if (!read_some(c))
			return false;
	}
	return true;
}

struct ran child_end(struct child *c)
{
	struct ran r = { 0 };
	struct rusage usage;
	int status;

	if (c->in >= 0)
		close(c->in);
	while (read_some(c))
		;
	close(c->out);
	if (wait4(c->pid, &status, 0, &usage) != c->pid)
		fail_msg("wait4: %s", strerror(errno));
	r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	r.rss_kb = usage.ru_maxrss;
	end_text(&c->got);
	r.out = c->got;
	r.err = read_temp(c->err);
	close(c->err);
	if (r.code == 127)
		fail_msg("%s cannot be run: build it, or name it in TIDEMARK", binary_path());
	refuse_broken(&r);
	return r;
}

struct ran child_run(const char *const *argv, struct slice input)
{
	struct child c = child_start(argv);

	child_feed(&c, input);
	return child_end(&c);
}

/* Stores. */

static struct kv *look_into(const char *dir)
{
	struct store_options options = { .read_only = true };
	struct complaint why;
	struct kv *kv;

	if (store_open(dir, &options, &kv, &why) != OK)
		fail_msg("%s", why.text);
	return kv;
}

static void look_away(struct kv *kv, struct kv_txn *t)
{
	enum err err = kv_end_read(t);

	kv_close(kv);
	if (err)
		fail_msg("the store cannot be read: %s", err_name(err));
}

bool store_is_there(const char *dir)
{
	struct store_options options = { .read_only = true };
	struct complaint why;
	struct kv *kv;
	enum err err = store_open(dir, &options, &kv, &why);

	kv_close(kv);
	return err == OK;
}

struct buf store_events(const char *dir)
{
	struct kv *kv = look_into(dir);
	struct kv_txn t = kv_begin_read(kv);
	uint64_t last = outbox_last(&t);
	struct buf b = { 0 };
	struct slice body;

	for (uint64_t n = 1; n <= last; n++) {
		if (!outbox_get(&t, n, &body))
			fail_msg("%s: event %llu of %llu is missing", dir, (unsigned long long)n, (unsigned long long)last);
		buf_put(&b, body.data, body.len);
		buf_put_u8(&b, '\n');
	}
	assert_int_equal(kv_count(&t, T_EVENT), last);
	end_text(&b);
	look_away(kv, &t);
	return b;
}

static void put_hex(struct buf *out, struct slice bytes)
{
	hex_encode(bytes.data, bytes.len, (char *)buf_extend(out, 2 * bytes.len));
}

static void put_rows(struct buf *out, struct kv_txn *t, unsigned table)
{
	struct slice none = { (const uint8_t *)"", 0 };
	struct kv_cursor c;

	for (bool more = kv_seek(t, table, none, 0, &c); more; more = kv_next(&c)) {
		buf_printf(out, "%s ", schema_table_names[table]);
		put_hex(out, (struct slice){ c.key, c.key_len });
		buf_put_u8(out, ' ');
		put_hex(out, c.val);
		buf_put_u8(out, '\n');
	}
}

struct buf store_rows(const char *dir)
{
	struct kv *kv = look_into(dir);
	struct kv_txn t = kv_begin_read(kv);
	struct buf b = { 0 };

	for (unsigned table = 0; table < TABLES; table++) {
		if (table != T_CURSOR)
			put_rows(&b, &t, table);
	}
	end_text(&b);
	look_away(kv, &t);
	return b;
}

uint64_t store_line(const char *dir, struct slice first_line)
{
	struct hash32 identity = keccak256(first_line.data, first_line.len);
	char text[HASH_TEXT], sink[96];
	struct kv *kv = look_into(dir);
	struct kv_txn t = kv_begin_read(kv);
	uint64_t line;

	snprintf(sink, sizeof(sink), "tape:%s", hash_format(&identity, text));
	line = outbox_cursor(&t, sink);
	look_away(kv, &t);
	return line;
}

/* Comparing. */

static void fail_at(const char *what, size_t line, struct slice got, struct slice want)
{
	fail_msg("%s: line %zu is\n%.*s\nbut should be\n%.*s", what, line, (int)got.len, (const char *)got.data,
		 (int)want.len, (const char *)want.data);
}

void assert_same_text(const char *what, struct slice got, struct slice want)
{
	struct lines a = lines_of(got), b = lines_of(want);
	struct slice nothing = { (const uint8_t *)"", 0 };

	for (size_t i = 0; i < a.count || i < b.count; i++) {
		struct slice x = i < a.count ? a.at[i] : nothing, y = i < b.count ? b.at[i] : nothing;

		if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
			fail_at(what, i + 1, x, y);
	}
	lines_free(&a);
	lines_free(&b);
	if (got.len != want.len)
		fail_msg("%s: %zu bytes, should be %zu", what, got.len, want.len);
}
