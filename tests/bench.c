/*
 * bench - figures, one line of JSON each; no pass or fail.
 *
 *     bench FOLDER TAPE...    FOLDER: where its stores may grow; TAPES with recorded blocks
 *
 * "replay": the tapes' blocks over and over, each decoded, proven, matched against its tape's
 * intents and committed durably.  Between rounds only what the proof does not cover is changed:
 * transaction hashes, so that each round's intents are new, and the place in our chain.
 * "block": one block of 200 transactions and 300 transfers, of which 10 pay somebody, at
 * so many open intents.
 * "memory": resident bytes at the last of these, pages of the map apart.
 */
#include "common/json.h"
#include "listener/apply.h"
#include "listener/settle.h"
#include "listener/tape.h"
#include "listener/verify.h"
#include "store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(EXIT_FAILURE);
}

static struct kv *open_store(const char *folder, const char *name)
{
	struct store_options options = { .map_bytes = (size_t)8 << 30 };
	struct complaint why;
	char dir[256], path[320];
	struct kv *kv;

	snprintf(dir, sizeof(dir), "%s/%s", folder, name);
	mkdir(dir, 0700);
	snprintf(path, sizeof(path), "%s/tidemark.mdb", dir);
	unlink(path);
	if (store_open(dir, &options, &kv, &why))
		die(why.text);
	return kv;
}

/* Recorded blocks. */

#define RECORDS_MAX 64

struct recorded {
	struct buf line;
	struct slice block, receipts;
	size_t tape;
};

static struct recorded records[RECORDS_MAX];
static size_t record_count;
static struct tape_record intents[1024];
static size_t intent_tape[1024];
static size_t intent_count;
static struct chain_config config;

static void keep_block(struct slice line, size_t tape)
{
	struct recorded *r = &records[record_count];
	struct tape_record rec;
	struct complaint why;

	if (record_count == RECORDS_MAX)
		return;
	buf_put(&r->line, line.data, line.len);
	if (tape_parse(buf_slice(&r->line), &rec, &why))
		die(why.text);
	r->block = rec.block;
	r->receipts = rec.receipts;
	r->tape = tape;
	record_count++;
}

static void read_tape(const char *name, size_t index)
{
	int fd = open(name, O_RDONLY);
	struct tape_record rec;
	struct complaint why;
	struct tape tape;
	struct slice line;
	enum err err;

	tape_open(&tape, name, fd);
	while (tape_next(&tape, &line, &err, &why)) {
		if (tape_parse(line, &rec, &why))
			die(why.text);
		if (rec.kind == TAPE_FIRST)
			config = rec.config;
		else if (rec.kind == TAPE_BLOCK)
			keep_block(line, index);
		else if ((rec.kind == TAPE_INTENT || (rec.kind == TAPE_TRANSITION && rec.move.has_tx)) && intent_count < 1024) {
			intent_tape[intent_count] = index;
			intents[intent_count++] = rec;
		}
	}
	if (err)
		die(why.text);
	tape_close(&tape);
	close(fd);
}

/* One round: its own intents, their attempts, then the blocks. */

static void mark_hash(struct hash32 *h, uint32_t round)
{
	be32_put(h->b, be32_get(h->b) ^ round);
}

struct seed {
	size_t tape;
	uint32_t round;
};

static void move(struct kv_txn *t, struct intent *i, enum intent_state to, enum actor actor, const struct hash32 *tx)
{
	struct move_context ctx = { .now_ms = i->created_at_ms };
	struct move_request r = { .to = to, .actor = actor, .version = i->version, .has_tx = tx != NULL };
	struct complaint why;

	if (tx)
		r.tx_hash = *tx;
	if (intents_move(t, i, &r, &ctx, &why).outcome != MOVE_APPLIED)
		die(why.text);
}

static void name_intent(struct intent *i, const char *what, unsigned long long n)
{
	snprintf(i->id, sizeof(i->id), "%s_%llu", what, n);
	snprintf(i->merchant_id, sizeof(i->merchant_id), "m_1");
	snprintf(i->idempotency_key, sizeof(i->idempotency_key), "%s_%llu", what, n);
}

static void seed_round(struct kv_txn *t, void *ctx)
{
	const struct seed *s = ctx;
	struct intent current = { 0 };
	struct complaint why;
	bool created;

	for (size_t k = 0; k < intent_count; k++) {
		struct hash32 tx;

		if (intent_tape[k] != s->tape)
			continue;
		if (intents[k].kind == TAPE_INTENT) {
			current = intents[k].intent;
			name_intent(&current, "pi", (unsigned long long)s->round * 1024 + k);
			if (intents_create(t, &current, 1, &created, &why))
				die(why.text);
			move(t, &current, INTENT_AUTHORIZED, ACTOR_API, NULL);
			move(t, &current, INTENT_SETTLING, ACTOR_RELAYER, NULL);
			continue;
		}
		tx = intents[k].move.tx_hash;
		mark_hash(&tx, s->round);
		move(t, &current, INTENT_CONFIRMING, ACTOR_RELAYER, &tx);
	}
}

struct work {
	struct body body;
	struct gather g;
	struct gather_input in;
	double match_s;
};

/* Witnesses are not to be had: as on a node that has pruned its state. */
static void work_body(struct kv_txn *t, void *ctx)
{
	struct work *w = ctx;
	struct apply a = apply_begin(t, &config, 1000);
	double begun = now_s();
	struct finality_view view;

	gather_block(t, &w->in, &w->g);
	w->match_s += now_s() - begun;
	apply_block(t, &a, &w->body, &w->g);
	view = (struct finality_view){ .tip_height = a.chain.tip_height, .vouched_height = a.chain.tip_height };
	view.known[TAG_FINALIZED] = true;
	view.height[TAG_FINALIZED] = a.chain.tip_height;
	settle_raise(t, &a, &view);
	settle_promote(t, &a);
	apply_end(&a);
}

static void place_block(struct block *b, struct receipts *r, uint64_t height, uint32_t round)
{
	static struct hash32 parent;

	b->header.number = height;
	b->header.parent_hash = parent;
	mark_hash(&b->header.hash, round);
	parent = b->header.hash;
	for (uint32_t i = 0; i < b->tx_count; i++) {
		mark_hash(&b->tx_hashes[i], round);
		r->receipts[i].tx_hash = b->tx_hashes[i];
	}
}

static void bench_replay(const char *folder, double seconds)
{
	struct kv *kv = open_store(folder, "replay");
	struct block block = { .has_transactions = false };
	struct receipts receipts = { .count = 0 };
	struct buf scratch = { 0 };
	struct work w = { .body = { &block, &receipts, PROOF_RECEIPTS } };
	double scan_s = 0, proof_s = 0, store_s = 0, at, total;
	uint64_t blocks = 0, bytes = 0;
	struct complaint why;

	w.in = (struct gather_input){ .config = &config, .body = &w.body };
	for (uint32_t round = 1; scan_s + proof_s + w.match_s + store_s < seconds; round++) {
		for (size_t i = 0; i < record_count; i++) {
			struct seed seed = { records[i].tape, round };
			double before;

			if ((i == 0 || records[i].tape != records[i - 1].tape) && kv_write(kv, seed_round, &seed))
				die("the intents cannot be made");
			at = now_s();
			if (block_decode(records[i].block, &block, &why) || receipts_decode(records[i].receipts, &receipts, &why))
				die(why.text);
			scan_s += now_s() - at;
			at = now_s();
			if (verify_header(&block.header, &scratch, &why) || verify_receipts(&block, &receipts, &scratch, &why))
				die(why.text);
			proof_s += now_s() - at;
			place_block(&block, &receipts, ++blocks, round);
			before = w.match_s;
			at = now_s();
			if (kv_write(kv, work_body, &w))
				die("a block cannot be committed");
			store_s += now_s() - at - (w.match_s - before);
			bytes += records[i].block.len + records[i].receipts.len;
		}
	}
	total = scan_s + proof_s + w.match_s + store_s;
	printf("{\"bench\":\"replay\",\"blocks\":%llu,\"blocks_per_s\":%.0f,\"mean_kB\":%.0f,"
	       "\"ms_per_block\":{\"scan\":%.3f,\"proof\":%.3f,\"match\":%.3f,\"store\":%.3f}}\n",
	       (unsigned long long)blocks, (double)blocks / total, (double)bytes / (double)blocks / 1000,
	       scan_s * 1000 / (double)blocks, proof_s * 1000 / (double)blocks,
	       w.match_s * 1000 / (double)blocks, store_s * 1000 / (double)blocks);
	fflush(stdout);
	gather_free(&w.g);
	block_free(&block);
	receipts_free(&receipts);
	buf_free(&scratch);
	kv_close(kv);
}

/* One block at many open intents. */

#define BATCH 500
#define TXS 200
#define TRANSFERS 300
#define MATCHES 10

static void make_address(struct address *a, const char *what, uint64_t n)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->b, what, strlen(what));
	be64_put(a->b + 12, n * 0x9e3779b97f4a7c15);
}

static void make_hash(struct hash32 *h, const char *what, uint64_t n)
{
	memset(h, 0, sizeof(*h));
	memcpy(h->b + 8, what, strlen(what));
	be64_put(h->b, n * 0x9e3779b97f4a7c15);
	be64_put(h->b + 24, n);
}

struct batch {
	uint64_t from, to;
	bool open;		/* to settling: they match; else bulk */
};

static void make_intent(struct kv_txn *t, uint64_t n, bool open)
{
	struct intent i = { .chain_id = config.chain_id, .token = config.tokens[0], .amount = u256_from_u64(1000000 + n),
			    .watch = n % 2 ? WATCH_ROUTE : WATCH_TX };
	struct attempt_row attempt = { .at_ms = 1 };
	struct complaint why;
	bool created;

	name_intent(&i, open ? "match" : "open", n);
	make_address(&i.payee, open ? "match" : "open", n);
	make_hash(&attempt.tx_hash, open ? "match" : "open", n);
	if (intents_create(t, &i, 1, &created, &why))
		die(why.text);
	if (open) {
		move(t, &i, INTENT_AUTHORIZED, ACTOR_API, NULL);
		move(t, &i, INTENT_SETTLING, ACTOR_RELAYER, NULL);
	}
	if (i.watch == WATCH_TX)
		intents_add_attempt(t, &i, &attempt);
}

static void batch_body(struct kv_txn *t, void *ctx)
{
	const struct batch *b = ctx;

	for (uint64_t n = b->from; n < b->to; n++)
		make_intent(t, n, b->open);
}

static void make_log(struct log_entry *log, struct receipts *r, const struct address *from,
		     const struct address *to, uint64_t value)
{
	memset(log, 0, sizeof(*log));
	log->address = config.tokens[0];
	log->topic_count = 3;
	log->topics[0] = match_transfer_topic;
	memcpy(log->topics[1].b + 12, from->b, 20);
	memcpy(log->topics[2].b + 12, to->b, 20);
	log->data_at = (uint32_t)r->data.len;
	log->data_len = 32;
	memset(buf_extend(&r->data, 32), 0, 32);
	be64_put(r->data.data + r->data.len - 8, value);
}

/* The first MATCHES transactions pay an intent each, by attempt or by route; the rest pay strangers. */
static void make_block(struct block *b, struct receipts *r, uint64_t height, uint64_t first_match)
{
	struct address from, to;

	r->data.len = 0;
	r->count = TXS;
	r->log_count = TRANSFERS;
	b->tx_count = TXS;
	make_hash(&b->header.parent_hash, "block", height - 1);
	make_hash(&b->header.hash, "block", height);
	b->header.number = height;
	b->header.timestamp = 1000 + 12 * height;
	make_address(&from, "payer", 1);
	for (uint32_t i = 0, log = 0; i < TXS; i++) {
		uint64_t n = first_match + i;
		uint32_t logs = i < TRANSFERS - TXS ? 2 : 1;

		make_hash(&b->tx_hashes[i], i < MATCHES ? "match" : "stranger", i < MATCHES ? n : height * TXS + i);
		r->receipts[i] = (struct receipt){ .tx_hash = b->tx_hashes[i], .has_status = true, .status = 1,
						   .tx_index = i, .first_log = log, .log_count = logs };
		for (uint32_t k = 0; k < logs; k++, log++) {
			bool pays = i < MATCHES && k == 0;

			make_address(&to, pays ? "match" : "stranger", pays ? n : height * TRANSFERS + log);
			make_log(&r->logs[log], r, &from, &to, 1000000 + n);
		}
	}
}

static uint64_t written_bytes(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long long v = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "write_bytes: ", 13) == 0)
			v = strtoull(line + 13, NULL, 10);
	}
	if (f)
		fclose(f);
	return v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

#define SAMPLES 60

static void bench_block(struct kv *kv, uint64_t open, uint64_t *height)
{
	struct block block = { .has_transactions = true, .tx_hashes = xcalloc(TXS, sizeof(struct hash32)) };
	struct receipts receipts = { .receipts = xcalloc(TXS, sizeof(struct receipt)),
				     .logs = xcalloc(TRANSFERS, sizeof(struct log_entry)) };
	struct work w = { .body = { &block, &receipts, PROOF_RECEIPTS } };
	double ms[SAMPLES], total = 0;
	struct kv_stats before, after;
	uint64_t written = 0, gets = 0, puts = 0;

	w.in = (struct gather_input){ .config = &config, .body = &w.body };
	for (unsigned s = 0; s < SAMPLES; s++) {
		uint64_t first = ++*height * 100;
		struct batch matches = { first, first + MATCHES, true };
		double at;

		if (kv_write(kv, batch_body, &matches))
			die("intents cannot be made");
		make_block(&block, &receipts, *height, first);
		before = kv_stats(kv);
		written -= written_bytes();
		at = now_s();
		if (kv_write(kv, work_body, &w))
			die("a block cannot be committed");
		ms[s] = (now_s() - at) * 1000;
		written += written_bytes();
		after = kv_stats(kv);
		gets += after.gets - before.gets;
		puts += after.puts - before.puts;
		total += ms[s];
	}
	qsort(ms, SAMPLES, sizeof(ms[0]), by_value);
	printf("{\"bench\":\"block\",\"open_intents\":%llu,\"matches\":%d,\"ms_p50\":%.2f,\"ms_mean\":%.2f,\"ms_max\":%.2f,"
	       "\"seeks\":%llu,\"puts\":%llu,\"pages_written\":%llu}\n",
	       (unsigned long long)open, MATCHES, ms[SAMPLES / 2], total / SAMPLES, ms[SAMPLES - 1],
	       (unsigned long long)(gets / SAMPLES), (unsigned long long)(puts / SAMPLES),
	       (unsigned long long)(written / 4096 / SAMPLES));
	fflush(stdout);
	gather_free(&w.g);
	block_free(&block);
	receipts_free(&receipts);
}

/* Resident bytes of all mappings but the store's. */
static void resident(unsigned long long *ours_kb, unsigned long long *map_kb)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	bool is_map = false;
	char line[512];

	*ours_kb = *map_kb = 0;
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long kb;

		if (strstr(line, "tidemark.mdb"))
			is_map = true;
		else if (strchr(line, '-') && strchr(line, ':') && line[0] != ' ' && !strstr(line, "kB"))
			is_map = false;
		if (sscanf(line, "Rss: %llu kB", &kb) == 1)
			*(is_map ? map_kb : ours_kb) += kb;
	}
	if (f)
		fclose(f);
}

static void bench_open(const char *folder, uint64_t most)
{
	static const uint64_t levels[] = { 0, 10000, 1000000 };
	struct kv *kv = open_store(folder, "open");
	unsigned long long ours_kb, map_kb;
	uint64_t made = 0, height = 1;
	double at;

	for (size_t l = 0; l < ARRAY_SIZE(levels) && levels[l] <= most; l++) {
		at = now_s();
		while (made < levels[l]) {
			struct batch b = { made, made + BATCH, false };

			if (kv_write(kv, batch_body, &b))
				die("intents cannot be made");
			made += BATCH;
		}
		if (levels[l])
			fprintf(stderr, "bench: %llu open intents after %.0f s, %llu MB\n", (unsigned long long)made,
				now_s() - at, (unsigned long long)(kv_stats(kv).pages_used * 4096 / 1000000));
		bench_block(kv, levels[l], &height);
	}
	resident(&ours_kb, &map_kb);
	printf("{\"bench\":\"memory\",\"open_intents\":%llu,\"resident_MiB\":%.1f,\"map_resident_MiB\":%.1f,\"store_MB\":%llu}\n",
	       (unsigned long long)made, (double)ours_kb / 1024, (double)map_kb / 1024,
	       (unsigned long long)(kv_stats(kv).pages_used * 4096 / 1000000));
	kv_close(kv);
}

int main(int argc, char **argv)
{
	const char *most = getenv("BENCH_OPEN");

	if (argc < 2)
		die("usage: bench FOLDER TAPE...");
	for (int i = 2; i < argc; i++)
		read_tape(argv[i], (size_t)i);
	if (record_count)
		bench_replay(argv[1], 5);
	else {
		fprintf(stderr, "bench: no recorded blocks: replay skipped\n");
		config = config_default(1);
		make_address(&config.tokens[0], "token", 1);
		config.token_count = 1;
		config.finality.tier_count = 1;
		config.finality.tiers[0].tag = TAG_FINALIZED;
	}
	bench_open(argv[1], most ? strtoull(most, NULL, 10) : 1000000);
	return EXIT_SUCCESS;
}
