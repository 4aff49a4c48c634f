/*
 * What waits goes on when its time has come, whatever the wall clock is set to meanwhile.
 */
#include "common/log.h"
#include "tests/unit/followed.h"

#define A "http://a", "ws://a"
#define STEP_MS 50
#define LONG_MS 600000
#define HOUR_MS 3600000
#define PATIENCE_S 30

enum { B100, B101, B102, C101 };

static const char scenario[] =
	TOKEN_LINE
	"tx t1\n"
	"block b100\n"
	"block b101 t1\n"
	"block b102\n"
	"tell b102\n"
	"block c101 on b100\n"
	"head c101\n";

/* How long until it is so. */
static int64_t until(struct followed *f, bool (*is_so)(const struct followed *f))
{
	int64_t from_ms = f->w.now_ms;

	while (!is_so(f)) {
		assert_true(f->w.now_ms - from_ms < LONG_MS);
		followed_pass(f, STEP_MS);
	}
	return f->w.now_ms - from_ms;
}

static bool is_at_head(const struct followed *f)
{
	return f->tr.chain.has_tip && hash_eq(&f->tr.chain.tip_hash, &f->nodes[0].blocks[f->nodes[0].head].hash);
}

static bool is_listening(const struct followed *f)
{
	return reads_live(&f->tr.reads) && f->tr.reads.providers[0].subscribed;
}

static bool is_unproven(const struct followed *f)
{
	return f->tr.trouble == TROUBLE_UNPROVEN;
}

static bool is_stale(const struct followed *f)
{
	return f->tr.trouble == TROUBLE_STALE;
}

static void wrong_no_proof(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	if (scripted_has(question, "Receipt") || scripted_has(question, "eth_getLogs"))
		a->result = "null";
}

static void wrong_never(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)f;
	(void)n;
	(void)question;
	a->never = true;
}

/* It asks for patience. */
static void wrong_busy(struct followed *f, struct node *n, struct slice question, struct answer *a)
{
	(void)n;
	a->error = "{\"code\":-32005,\"message\":\"too many requests\"}";
	for (struct errand *e = f->errands; e; e = e->next) {
		if (e->post->body.data == question.data)
			e->post->retry_after_s = PATIENCE_S;
	}
}

/* Each story gives how long it took after the clock was set. */

/* A question that failed is asked again, ever more seldom. */
static int64_t back_off(struct followed *f, int64_t set_by_ms)
{
	f->nodes[0].wrong = wrong_no_proof;
	followed_head(f, 0, B101);
	followed_pass(f, 20000);
	f->w.set_by_ms = set_by_ms;
	f->nodes[0].wrong = NULL;
	return until(f, is_at_head);
}

static int64_t retry_after(struct followed *f, int64_t set_by_ms)
{
	f->nodes[0].wrong = wrong_busy;
	followed_head(f, 0, B101);
	followed_pass(f, f->nodes[0].trip_ms);
	f->nodes[0].wrong = NULL;
	f->w.set_by_ms = set_by_ms;
	return until(f, is_at_head);
}

/* A shorter branch must be said twice, a poll apart. */
static int64_t shorter(struct followed *f, int64_t set_by_ms)
{
	followed_heads(f, 0, B101, B102, 1000);
	assert_true(is_at_head(f));
	followed_head(f, 0, C101);
	followed_pass(f, 1000);
	f->w.set_by_ms = set_by_ms;
	return until(f, is_at_head);
}

static int64_t unproven(struct followed *f, int64_t set_by_ms)
{
	f->nodes[0].wrong = wrong_no_proof;
	followed_head(f, 0, B101);
	followed_pass(f, 1000);
	f->w.set_by_ms = set_by_ms;
	return until(f, is_unproven);
}

static int64_t stale(struct followed *f, int64_t set_by_ms)
{
	f->nodes[0].wrong = wrong_never;
	f->w.set_by_ms = set_by_ms;
	return until(f, is_stale);
}

static int64_t connect_again(struct followed *f, int64_t set_by_ms)
{
	scripted_hang_up(&f->w, f->nodes[0].at.ws);
	assert_false(is_listening(f));
	f->w.set_by_ms = set_by_ms;
	return until(f, is_listening);
}

static int64_t told(int64_t (*story)(struct followed *f, int64_t set_by_ms), int64_t set_by_ms)
{
	struct followed *f;
	int64_t took_ms;
	void *state;

	followed_set_up(&state);
	f = state;
	followed_add(f, A, scenario);
	followed_start(f);
	until(f, is_listening);
	until(f, is_at_head);
	took_ms = story(f, set_by_ms);
	followed_tear_down(&state);
	return took_ms;
}

/* To the step the same after an hour back or ahead as without. */
static void tell(int64_t (*story)(struct followed *f, int64_t set_by_ms), int64_t least_ms, int64_t most_ms)
{
	int64_t took_ms = told(story, 0);

	assert_in_range(took_ms, least_ms, most_ms);
	assert_int_equal(told(story, -HOUR_MS), took_ms);
	assert_int_equal(told(story, HOUR_MS), took_ms);
}

static void test_back_off(void **state)
{
	(void)state;
	tell(back_off, STEP_MS, 16000);
}

static void test_retry_after(void **state)
{
	(void)state;
	tell(retry_after, PATIENCE_S * 1000, PATIENCE_S * 1000 + 2 * STEP_MS);
}

static void test_shorter(void **state)
{
	(void)state;
	tell(shorter, 3000, 8000);
}

static void test_unproven(void **state)
{
	(void)state;
	tell(unproven, 299000, 304000);
}

static void test_stale(void **state)
{
	(void)state;
	tell(stale, 55000, 65000);
}

static void test_connect_again(void **state)
{
	(void)state;
	tell(connect_again, 500, 500 + 4 * STEP_MS);
}

/* People are shown the wall clock's time. */
static void test_stamp(void **state)
{
	struct scripted w;

	(void)state;
	scripted_start(&w);
	w.set_by_ms = -HOUR_MS;
	assert_int_equal(loop_stamp_ms(&w.loop, w.now_ms - 1000), w.now_ms - HOUR_MS - 1000);
	scripted_stop(&w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_back_off),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_shorter),
		cmocka_unit_test(test_unproven),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_connect_again),
		cmocka_unit_test(test_stamp),
	};

	log_set_level(LOG_BROKEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
