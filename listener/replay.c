#include "listener/replay.h"

#include "common/keccak.h"
#include "common/log.h"
#include "listener/story.h"
#include "listener/tapenode.h"
#include "listener/tracker.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define STDOUT_SINK "stdout"

struct held {
	struct buf text;
	uint64_t line;
};

struct replay {
	const struct replay_options *options;
	const char *name;
	struct complaint *why;
	struct kv *kv;
	struct chain_config config;
	struct tapenode *node;
	struct tracker tracker;
	bool started;			/* the tracker runs */
	struct story *story;
	char sink[96];			/* the tape's own cursor: the line that is committed */
	uint64_t resume_line;		/* of an earlier run; 0: none */
	uint64_t line;			/* being worked off */
	size_t faults_told;
	uint64_t printed;		/* the last event given to stdout */
	bool out_failed;		/* it takes no more: the replay ends */
	bool clock_runs;
	struct held *held;		/* lines that came before the clock's start */
	size_t held_count;
	bool begun;			/* the store is this tape's */
};

static struct key fault_key(size_t index)
{
	char name[32];

	snprintf(name, sizeof(name), "fault:%zu", index);
	return key_text(name);
}

/* What the node did wrong so far, so that a restart does not meet it again. */
static void put_faults(struct replay *r, struct kv_txn *t)
{
	uint64_t used;

	for (size_t i = 0; tapenode_fault_used(r->node, i, &used); i++) {
		struct key key = fault_key(i);

		if (used)
			number_put(t, T_CURSOR, &key, used);
	}
}

static enum err recall_fault(struct replay *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	struct key key = fault_key(r->faults_told++);
	uint64_t used = 0;

	number_get(&t, T_CURSOR, &key, &used);
	tapenode_use_fault(r->node, used);
	return kv_end_read(&t);
}

/* Each commit carries the line that it belongs to, and how far stdout has read. */
static void on_committing(void *ctx, struct kv_txn *t)
{
	struct replay *r = ctx;

	outbox_set_cursor(t, r->sink, r->line);
	put_faults(r, t);
	if (r->options->output == REPLAY_EVENTS)
		outbox_set_cursor(t, STDOUT_SINK, r->printed);
}

static void print_event(struct replay *r, struct slice body)
{
	if (r->options->output == REPLAY_EVENTS) {
		fwrite(body.data, 1, body.len, r->options->out);
		fputc('\n', r->options->out);
	} else if (r->options->output == REPLAY_STORY) {
		story_event(r->story, body);
	}
}

/* Crash before the next commit: what was printed since is printed again, with the same ids. */
static void on_committed(void *ctx)
{
	struct replay *r = ctx;
	struct kv_txn t = kv_begin_read(r->kv);
	uint64_t last = outbox_last(&t), at = r->printed;
	struct slice body;

	while (at < last && outbox_get(&t, at + 1, &body)) {
		print_event(r, body);
		at++;
	}
	if (kv_end_read(&t))
		log_broken("events cannot be read");
	if (fflush(r->options->out) || ferror(r->options->out))
		r->out_failed = r->tracker.stopped = true;
	else
		r->printed = at;
}

static void on_applied(void *ctx, uint64_t height, const struct hash32 *hash)
{
	struct replay *r = ctx;

	if (r->story)
		story_applied(r->story, height, hash);
}

static void on_rolled_back(void *ctx, uint64_t ancestor, uint64_t old_tip)
{
	struct replay *r = ctx;

	if (r->story)
		story_rolled_back(r->story, ancestor, old_tip);
}

static enum err store_failed(struct replay *r, enum err err)
{
	return err ? complain(r->why, err, "the store failed: %s", err_name(err)) : OK;
}

/* The user's side: intents, attempts, moves, an operator's word. */

struct wish {
	struct replay *r;
	struct tape_record *record;
	enum err err;			/* of the record; E_CONFLICT and its like end the replay */
	struct move_result moved;
};

static enum err fulfil(struct kv_txn *t, struct wish *w)
{
	struct tape_record *rec = w->record;
	struct replay *r = w->r;
	int64_t now_ms = tapenode_loop(r->node)->ops->now_ms(tapenode_loop(r->node));
	struct desk_attempt attempt = { rec->intent_id, rec->attempt };
	struct desk_move move = { rec->intent_id, !rec->has_version, rec->move };
	bool created;

	switch (rec->kind) {
	case TAPE_INTENT:
		return desk_create(t, &r->config, &rec->intent, now_ms, &created, r->why);
	case TAPE_ATTEMPT:
		return desk_attempt(t, &attempt, now_ms, r->why);
	case TAPE_TRANSITION:
		return desk_move(t, &move, now_ms, &w->moved, r->why);
	case TAPE_ACCEPT:
		tracker_accept(t, &r->config, &rec->hash);
		return OK;
	default:
		return OK;
	}
}

/* Crash before: the line is worked off again.  After: it is done and will be skipped. */
static void wish_body(struct kv_txn *t, void *ctx)
{
	struct wish *w = ctx;

	w->err = fulfil(t, w);
	if (w->err)
		kv_fail(t, w->err);
	else
		on_committing(w->r, t);
}

/* The machine said no, or a transfer is another's: a race or a bug of whoever asked, not of the tape's form. */
static bool is_refused_move(const struct wish *w)
{
	return w->record->kind == TAPE_TRANSITION && w->moved.outcome == MOVE_REFUSED &&
	       (w->err == E_REFUSED || (w->err >= E_VERSION_CONFLICT && w->err <= E_TX_MISMATCH));
}

static enum err work_wish(struct replay *r, struct tape_record *record)
{
	struct wish w = { .r = r, .record = record };
	enum err err = kv_write(r->kv, wish_body, &w);

	if (err && is_refused_move(&w)) {
		log_line(intent_refusal_is_bug(w.err) ? LOG_ODD : LOG_INFO, "%s:%llu: move refused: %s", r->name,
			 (unsigned long long)r->line, r->why->text);
		return OK;
	}
	if (err)
		return w.err ? err : store_failed(r, err);
	if (w.moved.evidence_conflict)
		log_odd("%s:%llu: evidence conflict: another transaction than the recorded one", r->name,
			(unsigned long long)r->line);
	on_committed(r);
	tracker_look_again(&r->tracker);
	return OK;
}

/* Lines. */

static bool is_for_the_desk(const struct tape_record *rec)
{
	return rec->kind == TAPE_INTENT || rec->kind == TAPE_ATTEMPT || rec->kind == TAPE_TRANSITION ||
	       rec->kind == TAPE_ACCEPT;
}

static void settle_down(struct replay *r)
{
	while (!r->tracker.stopped && tapenode_step(r->node))
		;
}

static enum err start_tracker(struct replay *r)
{
	static const struct endpoint_urls at = { "tape:", "tape:" };
	struct tracker_watcher watcher = { on_committing, on_committed, on_applied, on_rolled_back, r };
	enum err err;

	if (r->started)
		return OK;
	err = tracker_start(&r->tracker, tapenode_loop(r->node), r->kv, &at, 1, &r->config, &watcher, r->why);
	r->started = err == OK;
	if (r->started)
		settle_down(r);
	return err;
}

/*
 * What an earlier run came to is told to the node only, before the listener looks: it stands where that run
 * left it, perhaps within the work on its last line, and must see that line's world, not the one before.
 */
static enum err work_record(struct replay *r, struct tape_record *rec)
{
	bool before = r->line <= r->resume_line;
	enum err err = before ? OK : start_tracker(r);

	if (!err)
		err = tapenode_tell(r->node, rec, before, r->why);
	if (!err && rec->kind == TAPE_FAULT)
		err = store_failed(r, recall_fault(r));
	if (!err && r->story && !before)
		story_record(r->story, rec);
	if (!err && !before && is_for_the_desk(rec))
		err = work_wish(r, rec);
	if (!err && r->line == r->resume_line)
		err = start_tracker(r);
	if (!err && !before)
		settle_down(r);
	if (!err && r->out_failed)
		err = complain(r->why, E_IO, "the output cannot be written");
	return err ? err : store_failed(r, r->tracker.err);
}

static enum err place(struct replay *r, enum err err)
{
	struct complaint copy = *r->why;

	return complain(r->why, err, "%s:%llu: %.400s", r->name, (unsigned long long)r->line, copy.text);
}

static enum err work_line(struct replay *r, struct slice line)
{
	struct tape_record *rec = xmalloc(sizeof(*rec));
	enum err err = tape_parse(line, rec, r->why);

	if (!err && rec->kind == TAPE_FIRST)
		err = complain(r->why, E_INPUT, "a second first line");
	if (!err)
		err = work_record(r, rec);
	free(rec);
	return err ? place(r, err) : OK;
}

/* The clock's start. */

static void hold_line(struct replay *r, struct slice line)
{
	struct held *h;

	r->held = xrealloc(r->held, (r->held_count + 1) * sizeof(*r->held));
	h = &r->held[r->held_count++];
	*h = (struct held){ .line = r->line };
	buf_put(&h->text, line.data, line.len);
}

static void free_held(struct replay *r)
{
	for (size_t i = 0; i < r->held_count; i++)
		buf_free(&r->held[i].text);
	free(r->held);
	r->held = NULL;
	r->held_count = 0;
}

static enum err work_held(struct replay *r)
{
	enum err err = OK;

	r->clock_runs = true;
	for (size_t i = 0; i < r->held_count && !err; i++) {
		r->line = r->held[i].line;
		err = work_line(r, buf_slice(&r->held[i].text));
	}
	free_held(r);
	return err;
}

/* Without a time in the first line the clock starts at the first block's: until that comes, lines wait. */
static enum err wait_for_clock(struct replay *r, struct slice line)
{
	struct tape_record *rec = xmalloc(sizeof(*rec));
	enum err err = tape_parse(line, rec, r->why);
	bool found = !err && (rec->kind == TAPE_BLOCK || rec->kind == TAPE_CLOCK);

	if (found)
		tapenode_set_clock(r->node, rec->kind == TAPE_BLOCK ? rec->block_time_s * 1000 : rec->time_ms);
	free(rec);
	/* The lines that wait have no time yet: they are not worked off for a bad one. */
	if (err)
		return place(r, err);
	hold_line(r, line);
	return found ? work_held(r) : OK;
}

/* The whole. */

static enum err read_first_line(struct replay *r, struct slice line)
{
	struct tape_record *rec = xmalloc(sizeof(*rec));
	struct hash32 identity = keccak256(line.data, line.len);
	char text[HASH_TEXT];
	enum err err = tape_parse(line, rec, r->why);

	if (!err && rec->kind != TAPE_FIRST)
		err = complain(r->why, E_INPUT, "the first line of a tape is {\"tape\":1,...}");
	if (err) {
		free(rec);
		return place(r, err);
	}
	r->config = rec->config;
	if (r->options->commit_blocks)
		r->config.commit_blocks = r->options->commit_blocks;
	r->clock_runs = rec->has_time;
	tapenode_set_clock(r->node, rec->time_ms);
	snprintf(r->sink, sizeof(r->sink), "tape:%s", hash_format(&identity, text));
	err = tapenode_tell(r->node, rec, true, r->why);
	if (!err && r->story)
		story_record(r->story, rec);
	free(rec);
	return err;
}

/* What an earlier run left; a store of another tape is not ours to write. */
static enum err read_progress(struct replay *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	struct key prefix = key_text("tape:");
	bool other = false;
	struct kv_cursor c;
	enum err err;

	r->resume_line = outbox_cursor(&t, r->sink);
	r->printed = outbox_cursor(&t, STDOUT_SINK);
	for (bool more = kv_seek(&t, T_CURSOR, key_slice(&prefix), prefix.len, &c); more; more = kv_next(&c))
		other |= c.key_len != strlen(r->sink) || memcmp(c.key, r->sink, c.key_len) != 0;
	if (!r->resume_line && outbox_last(&t))
		other = true;
	err = kv_end_read(&t);
	if (err)
		return complain(r->why, err, "%s: the store cannot be read: %s", r->options->store, err_name(err));
	if (other)
		return complain(r->why, E_REFUSED, "%s: the store is that of another tape than %s", r->options->store,
				r->name);
	return OK;
}

static enum err open_replay_store(struct replay *r)
{
	struct store_options options = { .map_bytes = r->options->map_bytes };
	const char *dir = r->options->store;
	enum err err = dir ? store_open(dir, &options, &r->kv, r->why) : store_open_passing(&options, &r->kv, r->why);

	if (!err && r->options->hook.at)
		kv_set_hook(r->kv, r->options->hook);
	return err;
}

/* What an earlier run committed and did not come to print is printed first. */
static enum err begin(struct replay *r, struct slice line)
{
	enum err err = read_first_line(r, line);

	if (!err)
		err = read_progress(r);
	r->begun = !err;
	if (r->begun)
		on_committed(r);
	return err;
}

static enum err work_tape(struct replay *r, struct tape *tape)
{
	struct slice line;
	enum err err;

	while (tape_next(tape, &line, &err, r->why)) {
		r->line = tape->line;
		if (!r->begun)
			err = begin(r, line);
		else
			err = r->clock_runs ? work_line(r, line) : wait_for_clock(r, line);
		if (err)
			return err;
	}
	if (!err && !r->begun)
		err = complain(r->why, E_INPUT, "%s: the tape is empty", r->name);
	return err || r->clock_runs ? err : work_held(r);
}

static void keep_printed(struct kv_txn *t, void *ctx)
{
	struct replay *r = ctx;

	if (r->options->output == REPLAY_EVENTS)
		outbox_set_cursor(t, STDOUT_SINK, r->printed);
}

static void finish_body(struct kv_txn *t, void *ctx)
{
	on_committing(ctx, t);
}

/*
 * Crash before: what was printed last is printed again.  After: the tape is done, or, where
 * @err stopped it, all lines before the bad one.
 */
static enum err finish(struct replay *r, enum err err)
{
	if (r->begun && !r->tracker.err && kv_write(r->kv, err ? keep_printed : finish_body, r) && !err)
		return complain(r->why, E_IO, "%s: the store cannot be written", r->name);
	return err;
}

static void print_summary(struct replay *r)
{
	struct kv_txn t = kv_begin_read(r->kv);
	char text[HASH_TEXT];
	struct intent i;

	for (uint64_t row = 1; intents_get(&t, row, &i); row++)
		fprintf(r->options->out, "%s %s %s %s\n", i.id, intent_state_name(i.state),
			i.reason.code[0] ? i.reason.code : "-", i.has_tx ? hash_format(&i.tx_hash, text) : "-");
	if (kv_end_read(&t))
		log_broken("intents cannot be read");
}

static void stop(struct replay *r)
{
	if (!r->started)
		return;
	r->tracker.stopped = true;
	tapenode_cancel_all(r->node);
	tracker_stop(&r->tracker);
}

enum err replay(const char *name, int fd, const struct replay_options *options, struct complaint *why)
{
	struct replay r = { .options = options, .name = name, .why = why };
	struct tape tape;
	enum err err;

	tape_open(&tape, name, fd);
	if (options->line_max_bytes)
		tape.line_max_bytes = options->line_max_bytes;
	r.node = tapenode_new();
	if (options->output == REPLAY_STORY)
		r.story = story_new(options->out, options->colour);
	err = open_replay_store(&r);
	if (!err)
		err = work_tape(&r, &tape);
	err = finish(&r, err);
	if (!err && options->output == REPLAY_SUMMARY)
		print_summary(&r);
	stop(&r);
	if (r.story)
		story_free(r.story, !err);
	if (!err && (fflush(options->out) || ferror(options->out)))
		err = complain(why, E_IO, "%s: the output cannot be written", name);
	if (r.kv)
		kv_close(r.kv);
	free_held(&r);
	tapenode_free(r.node);
	tape_close(&tape);
	return err;
}
