/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: nested and not, deeper than is visible from outside, ended in another
 * thread, measured elsewhere, as a block's scope; and what of them survives the
 * process.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct lapse_name name_of(const char *prefix, int i)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%d", prefix, i);
	return lapse_name(text);
}

/* The ring of a child that ran fn and left without closing. */
static struct tape *play(struct rig *rig, struct tapes *t, void (*fn)(void *arg))
{
	rig_make(rig);
	rig_run(fn, NULL);
	tapes_read(rig, t);
	assert_int_equal(t->n, 1);
	return &t->a[0];
}

static void assert_span(const struct tape *t, size_t i, const char *name, int flags, int64_t step)
{
	const struct wire_rec *r = tape_at(t, i);

	assert_int_equal(r->type, WIRE_SPAN);
	assert_int_equal(r->slots, 1);
	assert_int_equal(r->flags, flags);
	assert_in_range(r->id, 1, t->n_defs);
	assert_string_equal(t->defs[r->id - 1].name, name);
	assert_int_equal(t->defs[r->id - 1].kind, WIRE_KIND_NAME);
	assert_true(r->step == step);
	assert_true(r->end + 1000 >= r->time);
}

static void nested_child(void *arg)
{
	struct lapse_span a, b, c;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	a = lapse_span_begin(lapse_name("a"));
	lapse_step_begin(4);
	b = lapse_span_begin(lapse_name("b"));
	c = lapse_span_begin(lapse_name("c"));
	CHECK(a.start && a.id == 1 && b.id == 2 && c.id == 3);
	lapse_span_end(c);
	lapse_span_end(b);
	b = lapse_span_begin(lapse_name("b"));
	lapse_span_end(lapse_span_begin((struct lapse_name){0}));
	lapse_span_begin(lapse_name("d"));
	(void)b;
}

static void test_nested(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, nested_child);
	struct wire_lane *lane = &tape->reader.lanes[0];

	(void)state;
	assert_int_equal(tape_records(tape), 2);
	assert_span(tape, 0, "c", 0, 4);
	assert_span(tape, 1, "b", 0, 4);
	/* What it was in when it died, outermost first. */
	assert_int_equal(lane->depth, 3);
	assert_string_equal(tape->defs[lane->open[0].name - 1].name, "a");
	assert_string_equal(tape->defs[lane->open[1].name - 1].name, "b");
	assert_string_equal(tape->defs[lane->open[2].name - 1].name, "d");
	assert_true(lane->open[0].step == WIRE_STEP_NONE);
	assert_int_equal(lane->open[1].step, 4);
	assert_true(lane->open[0].start != 0);
	assert_true(lane->open[0].start <= lane->open[2].start + 1000);
	rig_play_done(&rig, &t);
}

static void crossing_child(void *arg)
{
	struct lapse_span a, b, c;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	a = lapse_span_begin(lapse_name("a"));
	b = lapse_span_begin(lapse_name("b"));
	c = lapse_span_begin(lapse_name("c"));
	lapse_span_end(a);
	lapse_span_end(c);
	lapse_span_end(b);
	a = lapse_span_begin(lapse_name("a"));
	b = lapse_span_begin(lapse_name("b"));
	lapse_span_end(a); /* b stays open and visible */
}

static void test_not_nested(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, crossing_child);
	struct wire_lane *lane = &tape->reader.lanes[0];
	const char *open = NULL;
	uint32_t i, n = 0;

	(void)state;
	assert_int_equal(tape_records(tape), 4);
	/* All in the thread that began them. */
	assert_span(tape, 0, "a", 0, WIRE_STEP_NONE);
	assert_span(tape, 1, "c", 0, WIRE_STEP_NONE);
	assert_span(tape, 2, "b", 0, WIRE_STEP_NONE);
	assert_span(tape, 3, "a", 0, WIRE_STEP_NONE);
	for (i = 0; i < lane->depth && i < WIRE_SPANS_OPEN; i++) {
		if (lane->open[i].start == 0)
			continue;
		open = tape->defs[lane->open[i].name - 1].name;
		n++;
	}
	assert_int_equal(n, 1);
	assert_string_equal(open, "b");
	rig_play_done(&rig, &t);
}

/* One is always open, the next begins before it ends: places are used again. */
static void rolling_child(void *arg)
{
	struct lapse_span last, next;
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	last = lapse_span_begin(lapse_name("roll"));
	for (i = 0; i < 500; i++) {
		next = lapse_span_begin(lapse_name("roll"));
		lapse_span_end(last);
		last = next;
	}
	lapse_span_begin(lapse_name("end"));
}

static void test_rolling(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, rolling_child);
	struct wire_lane *lane = &tape->reader.lanes[0];
	uint32_t i, n = 0;

	(void)state;
	assert_int_equal(tape_records(tape), 500);
	for (i = 0; i < 500; i++)
		assert_span(tape, i, "roll", 0, WIRE_STEP_NONE);
	assert_in_range(lane->depth, 2, WIRE_SPANS_OPEN);
	for (i = 0; i < lane->depth; i++)
		n += lane->open[i].start != 0;
	assert_int_equal(n, 2);
	rig_play_done(&rig, &t);
}

#define DEEP 40
#define ABYSS 2000

static void deep_child(void *arg)
{
	static struct lapse_span s[ABYSS];
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	for (i = 0; i < ABYSS; i++)
		s[i] = lapse_span_begin(lapse_name("abyss"));
	for (i = ABYSS - 1; i >= 0; i--)
		lapse_span_end(s[i]);
	for (i = 0; i < DEEP; i++)
		s[i] = lapse_span_begin(name_of("deep", i));
	for (i = DEEP - 1; i >= 1; i--)
		lapse_span_end(s[i]);
	for (i = 1; i < 34; i++)
		lapse_span_begin(name_of("again", i));
}

static void test_deep(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, deep_child);
	struct wire_lane *lane = &tape->reader.lanes[0];
	char text[32];
	int i;

	(void)state;
	assert_int_equal(tape_records(tape), ABYSS + DEEP - 1);
	for (i = 0; i < ABYSS; i++)
		assert_span(tape, (size_t)i, "abyss", 0, WIRE_STEP_NONE);
	for (i = 1; i < DEEP; i++) {
		snprintf(text, sizeof(text), "deep%d", DEEP - i);
		assert_span(tape, ABYSS + (size_t)i - 1, text, 0, WIRE_STEP_NONE);
	}
	assert_int_equal(lane->depth, 34);
	assert_string_equal(tape->defs[lane->open[0].name - 1].name, "deep0");
	for (i = 1; i < 32; i++) {
		snprintf(text, sizeof(text), "again%d", i);
		assert_string_equal(tape->defs[lane->open[i].name - 1].name, text);
	}
	rig_play_done(&rig, &t);
}

/* ---- threads ------------------------------------------------------------------ */

static void *ender(void *arg)
{
	lapse_span_end(*(struct lapse_span *)arg);
	return NULL;
}

/* A thread begins a span at the same depth as one that it did not begin. */
static void *ender_in_span(void *arg)
{
	struct lapse_span own = lapse_span_begin(lapse_name("away"));

	lapse_span_end(*(struct lapse_span *)arg);
	lapse_span_end(own);
	return NULL;
}

static void *starter(void *arg)
{
	*(struct lapse_span *)arg = lapse_span_begin(lapse_name("left"));
	return NULL;
}

static void in_thread(void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, fn, arg) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void other_child(void *arg)
{
	struct lapse_span s, outer;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	outer = lapse_span_begin(lapse_name("outer"));
	s = lapse_span_begin(lapse_name("away"));
	in_thread(ender, &s);
	lapse_span_end(outer);
	s = lapse_span_begin(lapse_name("away"));
	in_thread(ender_in_span, &s);
	in_thread(starter, &s);
	lapse_span_end(s);
}

static void test_other_thread(void **state)
{
	static const struct {
		const char *name;
		int flags;
	} main_lane[] = {{"outer", 0}, {"left", WIRE_F_OTHER}},
	  other_lane[] = {{"away", WIRE_F_OTHER}, {"away", WIRE_F_OTHER}, {"away", 0}};
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, other_child);
	size_t i;

	(void)state;
	assert_int_equal(tape_records(tape), 5);
	for (i = 0; i < 2; i++)
		assert_span(tape, i, main_lane[i].name, main_lane[i].flags, WIRE_STEP_NONE);
	for (i = 0; i < 3; i++)
		assert_span(tape, 2 + i, other_lane[i].name, other_lane[i].flags, WIRE_STEP_NONE);
	assert_int_equal(tape->items[tape->n - 1].lane, 1);
	/* A lane given back has nothing open. */
	assert_int_equal(tape->reader.lanes[1].depth, 0);
	rig_play_done(&rig, &t);
}

/* ---- measured elsewhere, scopes --------------------------------------------------- */

static void at_child(void *arg)
{
	struct lapse_name n;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	n = lapse_name("kernel");
	lapse_step_begin(8);
	lapse_span_at(n, 1700000000000000001, 1700000000000000005, LAPSE_STEP_CURRENT);
	lapse_span_at(n, 1700000000000000005, 1700000000000000005, 77);
	lapse_span_at(n, 1700000000000000005, 1700000000000000004, 77); /* ends before it begins */
	lapse_span_at((struct lapse_name){0}, 1, 2, 77);
	lapse_span_at(n, -5, -2, LAPSE_STEP_NONE); /* before 1970 is a time, too */
}

static void test_span_at(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, at_child);

	(void)state;
	assert_int_equal(tape_records(tape), 3);
	assert_span(tape, 0, "kernel", WIRE_F_UTC, 8);
	assert_true(tape_at(tape, 0)->time == 1700000000000000001);
	assert_true(tape_at(tape, 0)->end == 1700000000000000005);
	assert_span(tape, 1, "kernel", WIRE_F_UTC, 77);
	assert_true(tape_at(tape, 1)->end == 1700000000000000005);
	assert_true((int64_t)tape_at(tape, 2)->time == -5);
	assert_true((int64_t)tape_at(tape, 2)->end == -2);
	assert_true(tape_at(tape, 2)->step == LAPSE_STEP_NONE);
	rig_play_done(&rig, &t);
}

static int scoped(int n)
{
	LAPSE_SCOPE("outer");
	for (int i = 0; i < n; i++) {
		LAPSE_SCOPE("inner");
		if (i == 2)
			return i; /* leaves both */
	}
	return n;
}

static void scope_child(void *arg)
{
	(void)arg;
	CHECK(scoped(1) == 1); /* nothing is open: nothing is recorded */
	CHECK(lapse_open(NULL) == 0);
	CHECK(scoped(2) == 2);
	CHECK(scoped(5) == 2);
}

static void test_scope(void **state)
{
	static const char *const want[] = {"inner", "inner", "outer", "inner",
					   "inner", "inner", "outer"};
	struct rig rig;
	struct tapes t;
	struct tape *tape = play(&rig, &t, scope_child);
	size_t i;

	(void)state;
	assert_int_equal(tape_records(tape), 7);
	for (i = 0; i < 7; i++)
		assert_span(tape, i, want[i], 0, WIRE_STEP_NONE);
	assert_int_equal(tape->reader.lanes[0].depth, 0);
	/* One definition each, though defined before the ring was. */
	assert_int_equal(tape->n_defs, 2);
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested),       cmocka_unit_test(test_not_nested),
		cmocka_unit_test(test_rolling),      cmocka_unit_test(test_deep),
		cmocka_unit_test(test_other_thread), cmocka_unit_test(test_span_at),
		cmocka_unit_test(test_scope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
