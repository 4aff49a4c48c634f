/*
 * fork: the plan over trees made by hand, and over random ones, where planning
 * again and again must end at the head with a window that is linked.
 *
 * A block is named by a branch and a height: "a7" is height 7 of branch a.
 */
#include "listener/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct links links;
static struct window window;

static int reset(void **state)
{
	(void)state;
	memset(&links, 0, sizeof(links));
	window_free(&window);
	return 0;
}

static struct hash32 hash(char branch, uint64_t height)
{
	struct hash32 h = { { (uint8_t)branch } };

	be64_put(h.b + 24, height);
	return h;
}

/* The window holds branch a from @from to @to. */
static void our_chain(uint64_t from, uint64_t to)
{
	for (uint64_t h = from; h <= to; h++) {
		struct hash32 block = hash('a', h);

		window_push(&window, h, &block);
	}
}

static void know(char branch, uint64_t height, char parent_branch)
{
	struct link l = { hash(branch, height), hash(parent_branch, height - 1), height };

	links_add(&links, &l);
}

/* Headers @from to @to of the branch, which leaves @parent just below @from. */
static void know_branch(char branch, uint64_t from, uint64_t to, char parent)
{
	for (uint64_t h = from; h <= to; h++)
		know(branch, h, h == from ? parent : branch);
}

#define NO_FLOOR ((struct fork_limits){ .far_blocks = 64 })
#define FLOOR(h) ((struct fork_limits){ .has_floor = true, .floor_height = h, .far_blocks = 64 })
#define AT_START ((struct fork_limits){ .far_blocks = 64, .at_start = true })

static struct fork_plan plan_for(char branch, uint64_t height, struct fork_limits limits)
{
	struct hash32 head = hash(branch, height);

	return fork_plan(&window, &links, &head, &limits);
}

static void expect(const struct fork_plan *plan, enum plan_kind kind)
{
	if (plan->kind != kind)
		fail_msg("%s, want %s", plan_name(plan->kind), plan_name(kind));
}

static void expect_path(const struct fork_plan *plan, char branch, uint64_t from, uint64_t to)
{
	assert_int_equal(plan->path_count, to - from + 1);
	for (uint64_t h = from; h <= to; h++) {
		struct hash32 want = hash(branch, h);

		assert_memory_equal(&plan->path[h - from], &want, sizeof(want));
	}
}

static void expect_wants(const struct fork_plan *plan, char branch, uint64_t height)
{
	struct hash32 want = hash(branch, height);

	expect(plan, PLAN_NEED_HEADER);
	assert_memory_equal(&plan->hash, &want, sizeof(want));
	assert_int_equal(plan->path_count, 0);
}

/* By hand. */

static void test_current(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	plan = plan_for('a', 10, NO_FLOOR);		/* its header need not be known */
	expect(&plan, PLAN_CURRENT);
	know_branch('a', 1, 10, 'a');
	plan = plan_for('a', 10, FLOOR(10));
	expect(&plan, PLAN_CURRENT);
}

static void test_behind(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	plan = plan_for('a', 9, NO_FLOOR);
	expect_wants(&plan, 'a', 9);
	know_branch('a', 1, 10, 'a');
	for (uint64_t h = 1; h < 10; h++) {
		plan = plan_for('a', h, FLOOR(5));
		expect(&plan, PLAN_BEHIND);
	}
}

static void test_need_header(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	plan = plan_for('b', 12, NO_FLOOR);
	expect_wants(&plan, 'b', 12);
	know('b', 12, 'b');
	plan = plan_for('b', 12, NO_FLOOR);
	expect_wants(&plan, 'b', 11);
	know('b', 11, 'b');
	plan = plan_for('b', 12, NO_FLOOR);
	expect_wants(&plan, 'b', 10);
	know('b', 10, 'a');
	plan = plan_for('b', 12, NO_FLOOR);
	expect(&plan, PLAN_ROLLBACK);
}

static void test_forward(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know('a', 74, 'a');
	plan = plan_for('a', 74, NO_FLOOR);		/* 64 above the tip is not far */
	expect_wants(&plan, 'a', 73);
	know('a', 75, 'c');
	plan = plan_for('a', 75, NO_FLOOR);
	expect(&plan, PLAN_FORWARD);
	assert_int_equal(plan.from, 11);
	assert_int_equal(plan.path_count, 0);
	know('a', 175, 'a');
	know_branch('a', 80, 174, 'd');
	plan = plan_for('a', 175, NO_FLOOR);		/* known from 80 up, still far */
	expect(&plan, PLAN_FORWARD);
	assert_int_equal(plan.from, 11);
}

static void test_extend(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know('a', 11, 'a');
	plan = plan_for('a', 11, FLOOR(10));
	expect(&plan, PLAN_EXTEND);
	expect_path(&plan, 'a', 11, 11);
	know_branch('a', 12, 20, 'a');
	plan = plan_for('a', 20, NO_FLOOR);
	expect(&plan, PLAN_EXTEND);
	expect_path(&plan, 'a', 11, 20);
}

/* The lowest blocks are named; the next plan names the next. */
static void test_long_path(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('a', 11, 10 + PLAN_PATH_MAX, 'a');
	plan = plan_for('a', 10 + PLAN_PATH_MAX, NO_FLOOR);
	expect_path(&plan, 'a', 11, 10 + PLAN_PATH_MAX);
	know_branch('a', 11 + PLAN_PATH_MAX, 100, 'a');
	plan = plan_for('a', 100, NO_FLOOR);
	expect(&plan, PLAN_EXTEND);
	expect_path(&plan, 'a', 11, 10 + PLAN_PATH_MAX);
	our_chain(11, 10 + PLAN_PATH_MAX);
	plan = plan_for('a', 100, NO_FLOOR);
	expect_path(&plan, 'a', 11 + PLAN_PATH_MAX, 10 + 2 * PLAN_PATH_MAX);
	know_branch('b', 6, 60, 'a');
	plan = plan_for('b', 60, NO_FLOOR);
	expect(&plan, PLAN_ROLLBACK);
	assert_int_equal(plan.ancestor, 5);
	expect_path(&plan, 'b', 6, 5 + PLAN_PATH_MAX);
}

static void test_rollback(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('b', 8, 11, 'a');
	plan = plan_for('b', 11, NO_FLOOR);
	expect(&plan, PLAN_ROLLBACK);
	assert_int_equal(plan.ancestor, 7);
	expect_path(&plan, 'b', 8, 11);
	plan = plan_for('b', 10, NO_FLOOR);		/* of equal height */
	expect(&plan, PLAN_ROLLBACK);
	expect_path(&plan, 'b', 8, 10);
	know('c', 2, 'a');
	know_branch('c', 3, 12, 'c');
	plan = plan_for('c', 12, NO_FLOOR);		/* on the window's lowest block */
	expect(&plan, PLAN_ROLLBACK);
	assert_int_equal(plan.ancestor, 1);
}

static void test_shorter(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('b', 8, 9, 'a');
	plan = plan_for('b', 9, NO_FLOOR);
	expect(&plan, PLAN_SHORTER);
	assert_int_equal(plan.ancestor, 7);
	expect_path(&plan, 'b', 8, 9);
	plan = plan_for('b', 9, FLOOR(8));		/* what is final comes first */
	expect(&plan, PLAN_VIOLATION);
}

static void test_violation(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('b', 8, 11, 'a');
	plan = plan_for('b', 11, FLOOR(7));		/* the final block itself stays */
	expect(&plan, PLAN_ROLLBACK);
	plan = plan_for('b', 11, FLOOR(8));
	expect(&plan, PLAN_VIOLATION);
	assert_int_equal(plan.ancestor, 7);
	plan = plan_for('b', 11, FLOOR(10));
	expect(&plan, PLAN_VIOLATION);
	know('a', 11, 'a');
	plan = plan_for('a', 11, FLOOR(10));
	expect(&plan, PLAN_EXTEND);
}

/* It leaves below the window: more than we can say, unless something final is above. */
static void test_unlinked(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(5, 10);
	know_branch('b', 5, 11, 'z');
	plan = plan_for('b', 11, NO_FLOOR);
	expect(&plan, PLAN_UNLINKED);
	assert_int_equal(plan.path_count, 0);
	plan = plan_for('b', 11, FLOOR(4));
	expect(&plan, PLAN_UNLINKED);
	plan = plan_for('b', 11, FLOOR(5));
	expect(&plan, PLAN_VIOLATION);
	assert_int_equal(plan.ancestor, 5);
	know_branch('c', 2, 3, 'a');
	plan = plan_for('c', 3, NO_FLOOR);		/* all of it is below */
	expect(&plan, PLAN_UNLINKED);
}

/* Below the place where following began nothing was applied: all is undone, and the branch followed from there. */
static void test_below_the_start(void **state)
{
	struct fork_limits final = AT_START;
	struct hash32 base = hash('b', 5), first = hash('b', 6);
	struct fork_plan plan;

	(void)state;
	our_chain(5, 10);
	know_branch('b', 5, 11, 'z');
	plan = plan_for('b', 11, AT_START);
	expect(&plan, PLAN_ROLLBACK);
	assert_true(plan.below_start);
	assert_int_equal(plan.ancestor, 5);
	assert_memory_equal(&plan.base, &base, sizeof(base));
	assert_int_equal(plan.path_count, 6);
	assert_memory_equal(&plan.path[0], &first, sizeof(first));
	plan = plan_for('b', 8, AT_START);
	expect(&plan, PLAN_SHORTER);
	plan = plan_for('b', 5, AT_START);		/* nothing of it is above */
	expect(&plan, PLAN_UNLINKED);
	final.has_floor = true;
	final.floor_height = 7;
	plan = plan_for('b', 11, final);
	expect(&plan, PLAN_VIOLATION);
}

/* A branch longer than what is remembered of headers is not asked for in a circle. */
static void test_too_long(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('b', 70, 69 + LINKS_MAX, 'z');
	plan = plan_for('b', 69 + LINKS_MAX, NO_FLOOR);
	expect(&plan, PLAN_UNLINKED);
	/* Far away it is not walked to its end, but fetched forward. */
	know_branch('c', 100, 99 + LINKS_MAX, 'z');
	plan = plan_for('c', 99 + LINKS_MAX, NO_FLOOR);
	expect(&plan, PLAN_FORWARD);
	assert_int_equal(plan.from, 11);
}

/* A header's number is its own word: a branch that jumps is none. */
static void test_lying_height(void **state)
{
	struct link jump = { hash('b', 200), hash('a', 10), 200 };
	struct link fall = { hash('c', 11), hash('b', 15), 11 };
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('a', 9, 10, 'a');
	links_add(&links, &jump);
	plan = plan_for('b', 200, FLOOR(5));
	expect(&plan, PLAN_UNLINKED);
	know_branch('b', 11, 15, 'a');
	links_add(&links, &fall);
	plan = plan_for('c', 11, NO_FLOOR);
	expect(&plan, PLAN_UNLINKED);
}

static void test_links_forget(void **state)
{
	struct hash32 first = hash('a', 1), second = hash('a', 2), last = hash('a', LINKS_MAX + 1);

	(void)state;
	know_branch('a', 1, LINKS_MAX, 'a');
	know('a', 7, 'z');				/* known: stays as it is */
	assert_int_equal(links.count, LINKS_MAX);
	assert_non_null(links_find(&links, &first));
	know('a', LINKS_MAX + 1, 'a');
	assert_int_equal(links.count, LINKS_MAX);
	assert_null(links_find(&links, &first));
	assert_non_null(links_find(&links, &second));
	assert_int_equal(links_find(&links, &last)->height, LINKS_MAX + 1);
}

/* What was forgotten is asked for again. */
static void test_forgotten_header(void **state)
{
	struct fork_plan plan;

	(void)state;
	our_chain(1, 10);
	know_branch('a', 11, 12, 'a');
	know_branch('x', 1000, 1000 + LINKS_MAX - 2, 'x');
	plan = plan_for('a', 12, NO_FLOOR);
	expect_wants(&plan, 'a', 11);
	know('x', 5000, 'x');
	plan = plan_for('a', 12, NO_FLOOR);
	expect_wants(&plan, 'a', 12);
}

static void test_window(void **state)
{
	struct hash32 other = hash('b', 4), kept = hash('a', 77);

	(void)state;
	our_chain(5, 200);
	assert_int_equal(window_tip_height(&window), 200);
	assert_null(window_at(&window, 4));
	assert_null(window_at(&window, 201));
	assert_memory_equal(window_at(&window, 77), &kept, sizeof(kept));
	window_trim(&window, 50);
	assert_null(window_at(&window, 49));
	assert_memory_equal(window_at(&window, 77), &kept, sizeof(kept));
	window_trim(&window, 20);
	assert_int_equal(window.base_height, 50);
	window_cut(&window, 100);
	assert_int_equal(window_tip_height(&window), 100);
	window_cut(&window, 150);
	assert_int_equal(window_tip_height(&window), 100);
	window_trim(&window, 500);			/* the last one stays */
	assert_int_equal(window.base_height, 100);
	assert_int_equal(window_tip_height(&window), 100);
	window_cut(&window, 3);
	assert_int_equal(window.count, 0);
	window_push(&window, 4, &other);
	assert_int_equal(window_tip_height(&window), 4);
}

/* Random trees. */

#define TREE_MAX 40
#define TREES 3000

struct node {
	struct hash32 hash;
	size_t parent;
	uint64_t height;
};

struct tree {
	struct node nodes[TREE_MAX];
	size_t count;
};

static uint64_t chance_state;

static size_t chance(size_t below)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (size_t)(chance_state % below);
}

/* Half of the blocks go on where the last stands, the others anywhere. */
static void grow(struct tree *t, size_t count)
{
	t->count = count;
	t->nodes[0] = (struct node){ hash('t', 0), 0, 100 };
	for (size_t i = 1; i < count; i++) {
		size_t parent = chance(2) ? i - 1 : chance(i);

		t->nodes[i] = (struct node){ hash('t', i), parent, t->nodes[parent].height + 1 };
	}
}

static size_t index_of(const struct tree *t, const struct hash32 *h)
{
	size_t i = 0;

	while (i < t->count && !hash_eq(&t->nodes[i].hash, h))
		i++;
	return i;
}

static void teach(const struct tree *t, const struct hash32 *h)
{
	size_t i = index_of(t, h);
	struct link l;

	assert_true(i > 0 && i < t->count);		/* nothing below the root is asked for */
	l = (struct link){ *h, t->nodes[t->nodes[i].parent].hash, t->nodes[i].height };
	assert_null(links_find(&links, h));
	links_add(&links, &l);
}

/* Each block of the window is the parent of the next. */
static void check_linked(const struct tree *t)
{
	assert_memory_equal(&window.hashes[0], &t->nodes[0].hash, 32);
	for (size_t i = 1; i < window.count; i++) {
		const struct node *n = &t->nodes[index_of(t, &window.hashes[i])];

		assert_int_equal(n->height, window.base_height + i);
		assert_memory_equal(&t->nodes[n->parent].hash, &window.hashes[i - 1], 32);
	}
}

static void carry_out(const struct tree *t, const struct fork_plan *plan)
{
	assert_true(plan->path_count > 0);
	if (plan->kind != PLAN_EXTEND)
		window_cut(&window, plan->ancestor);
	for (unsigned i = 0; i < plan->path_count; i++)
		window_push(&window, window_tip_height(&window) + 1, &plan->path[i]);
	check_linked(t);
}

/* Plan until the head is reached; a head below us on our own branch is lag. */
static void follow(const struct tree *t, size_t head)
{
	const struct fork_limits limits = NO_FLOOR;
	const struct hash32 *h = &t->nodes[head].hash;

	for (int steps = 0; ; steps++) {
		struct fork_plan plan = fork_plan(&window, &links, h, &limits);

		assert_true(steps <= 2 * TREE_MAX);
		if (plan.kind == PLAN_CURRENT || plan.kind == PLAN_BEHIND) {
			assert_true(hash_eq(window_at(&window, t->nodes[head].height), h));
			assert_int_equal(plan.kind == PLAN_CURRENT, window_tip_height(&window) == t->nodes[head].height);
			return;
		}
		if (plan.kind == PLAN_NEED_HEADER)
			teach(t, &plan.hash);
		else if (plan.kind == PLAN_EXTEND || plan.kind == PLAN_ROLLBACK || plan.kind == PLAN_SHORTER)
			carry_out(t, &plan);
		else
			fail_msg("%s", plan_name(plan.kind));
	}
}

static void test_random_trees(void **state)
{
	(void)state;
	chance_state = 0x7469646d61726bULL;
	for (int n = 0; n < TREES; n++) {
		struct tree t;

		reset(NULL);
		grow(&t, 2 + chance(TREE_MAX - 1));
		window_push(&window, 100, &t.nodes[0].hash);
		for (int heads = 0; heads < 6; heads++)
			follow(&t, 1 + chance(t.count - 1));
	}
}

/* With a floor, no plan that is carried out undoes a block at or below it. */
static void test_random_floors(void **state)
{
	(void)state;
	chance_state = 0x666c6f6f72ULL;
	for (int n = 0; n < TREES; n++) {
		struct tree t;
		size_t head;
		struct fork_limits limits;
		struct fork_plan plan;

		reset(NULL);
		grow(&t, 2 + chance(TREE_MAX - 1));
		window_push(&window, 100, &t.nodes[0].hash);
		follow(&t, 1 + chance(t.count - 1));
		for (size_t i = 1; i < t.count; i++) {
			if (!links_find(&links, &t.nodes[i].hash))
				teach(&t, &t.nodes[i].hash);
		}
		limits = FLOOR(100 + chance(window.count));
		head = 1 + chance(t.count - 1);
		plan = fork_plan(&window, &links, &t.nodes[head].hash, &limits);
		if (plan.kind == PLAN_ROLLBACK || plan.kind == PLAN_SHORTER)
			assert_true(plan.ancestor >= limits.floor_height);
		if (plan.kind == PLAN_VIOLATION)
			assert_true(plan.ancestor < limits.floor_height);
		assert_true(plan.kind != PLAN_UNLINKED && plan.kind != PLAN_NEED_HEADER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_current, reset),
		cmocka_unit_test_setup(test_behind, reset),
		cmocka_unit_test_setup(test_need_header, reset),
		cmocka_unit_test_setup(test_forward, reset),
		cmocka_unit_test_setup(test_extend, reset),
		cmocka_unit_test_setup(test_long_path, reset),
		cmocka_unit_test_setup(test_rollback, reset),
		cmocka_unit_test_setup(test_shorter, reset),
		cmocka_unit_test_setup(test_violation, reset),
		cmocka_unit_test_setup(test_unlinked, reset),
		cmocka_unit_test_setup(test_below_the_start, reset),
		cmocka_unit_test_setup(test_too_long, reset),
		cmocka_unit_test_setup(test_lying_height, reset),
		cmocka_unit_test_setup(test_links_forget, reset),
		cmocka_unit_test_setup(test_forgotten_header, reset),
		cmocka_unit_test_setup(test_window, reset),
		cmocka_unit_test_setup(test_random_trees, reset),
		cmocka_unit_test_setup_teardown(test_random_floors, reset, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
