/* SPDX-License-Identifier: Apache-2.0
 *
 * Ticks to time with simulated anchors: straight lines, drift, a stepped wall
 * clock, suspend with a counter that stops and one that begins again. Also the
 * histogram's bins and the rules of hang detection.
 */
#include "agent/hang.h"
#include "agent/hist.h"
#include "agent/timeline.h"
#include "memory_sink.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ll

/* A 2.5 GHz counter that began at 1,000,000 when boot time was 100 s. */
static struct wire_anchor at(int64_t boot_ns, int64_t real_shift)
{
	struct wire_anchor a = {.ticks = 1000000 + (uint64_t)(boot_ns - 100 * S) / 2 * 5,
				.mono_ns = boot_ns,
				.boot_ns = boot_ns,
				.real_ns = 1700000000 * S + boot_ns + real_shift};

	return a;
}

static uint64_t ticks(int64_t boot_ns)
{
	return at(boot_ns, 0).ticks;
}

static void assert_near(int64_t a, int64_t b, int64_t within)
{
	if (llabs(a - b) > within)
		fail_msg("%lld is not within %lld of %lld", (long long)a, (long long)within,
			 (long long)b);
}

static void test_line(void **state)
{
	struct timeline t;
	struct wire_anchor a;
	int64_t s;

	(void)state;
	timeline_init(&t, 2500000000);
	assert_int_equal(timeline_boot_ns(&t, 5), 0);
	for (s = 100; s < 200; s++) {
		a = at(s * S, 0);
		assert_int_equal(timeline_add(&t, &a, NULL), TIMELINE_SAME);
	}
	assert_near(timeline_boot_ns(&t, ticks(100 * S)), 100 * S, 2);
	assert_near(timeline_boot_ns(&t, ticks(150 * S + 123456789)), 150 * S + 123456789, 2);
	/* Before the first and behind the last anchor it goes on straight. */
	assert_near(timeline_boot_ns(&t, ticks(199 * S + S / 2)), 199 * S + S / 2, 2);
	assert_near(timeline_boot_ns(&t, 500000), 100 * S - 200000, 2);
}

static void test_rough_rate_and_one_anchor(void **state)
{
	struct timeline t;
	struct wire_anchor a = at(100 * S, 0);

	(void)state;
	/* The rate is 0.1 % off: 1 ms a second until there is a second anchor. */
	timeline_init(&t, 2502500000);
	timeline_add(&t, &a, NULL);
	assert_near(timeline_boot_ns(&t, ticks(101 * S)), 101 * S, 1100000);
	a = at(101 * S, 0);
	timeline_add(&t, &a, NULL);
	assert_near(timeline_boot_ns(&t, ticks(100 * S + S / 2)), 100 * S + S / 2, 2);
	assert_near(timeline_boot_ns(&t, ticks(102 * S)), 102 * S, 2);
}

static void test_close_anchors_replace_each_other(void **state)
{
	struct timeline t;
	struct wire_anchor a;
	int i;

	(void)state;
	timeline_init(&t, 2500000000);
	for (i = 0; i < 100000; i++) {
		a = at(100 * S + i * (S / 100), 0);
		timeline_add(&t, &a, NULL);
	}
	assert_true(t.len <= TIMELINE_MAX);
	assert_near(timeline_boot_ns(&t, ticks(550 * S)), 550 * S, 5);
	assert_near(timeline_boot_ns(&t, ticks(1099 * S)), 1099 * S, 5);
}

static void test_late_anchors(void **state)
{
	struct timeline t;
	struct wire_anchor a;

	(void)state;
	timeline_init(&t, 2500000000);
	a = at(110 * S, 0);
	timeline_add(&t, &a, NULL);
	a = at(120 * S, 0);
	timeline_add(&t, &a, NULL);
	a = at(115 * S, 0);
	timeline_add(&t, &a, NULL);
	a = at(105 * S, 0);
	timeline_add(&t, &a, NULL);
	assert_int_equal(t.len, 4);
	assert_near(timeline_boot_ns(&t, ticks(112 * S)), 112 * S, 2);
}

static void test_wall_clock_step(void **state)
{
	struct timeline t;
	struct wire_anchor a;
	int64_t ns = 0;

	(void)state;
	timeline_init(&t, 2500000000);
	a = at(100 * S, 0);
	timeline_add(&t, &a, NULL);
	a = at(101 * S, -3600 * S);
	assert_int_equal(timeline_add(&t, &a, &ns), TIMELINE_STEPPED);
	assert_int_equal(ns, -3600 * S);
	/* Slewing by 500 ppm is no step. */
	a = at(102 * S, -3600 * S + 500000);
	assert_int_equal(timeline_add(&t, &a, &ns), TIMELINE_SAME);
	assert_near(timeline_boot_ns(&t, ticks(101 * S + S / 2)), 101 * S + S / 2, 2);
}

static void test_suspend_counter_stops(void **state)
{
	struct timeline t;
	struct wire_anchor a;
	uint64_t before = ticks(102 * S), after;
	int64_t ns = 0;
	int i;

	(void)state;
	timeline_init(&t, 2500000000);
	for (i = 100; i <= 102; i++) {
		a = at(i * S, 0);
		timeline_add(&t, &a, NULL);
	}
	/* One hour asleep; the counter moved 0.5 s. */
	after = before + 1250000000;
	a = (struct wire_anchor){after, 102 * S + S / 2, 102 * S + S / 2 + 3600 * S,
				 1700000000 * S + 102 * S + 3600 * S, 0};
	assert_int_equal(timeline_add(&t, &a, &ns), TIMELINE_JUMPED);
	assert_near(ns, 3600 * S, S / 10);
	/* Nothing is stretched across the hour. */
	assert_near(timeline_boot_ns(&t, before + 250000000), 102 * S + S / 10, 1000);
	assert_near(timeline_boot_ns(&t, after + 2500000000), 102 * S + S / 2 + 3601 * S, 1000);
}

static void test_suspend_counter_restarts(void **state)
{
	struct timeline t;
	struct wire_anchor a;
	int i;

	(void)state;
	timeline_init(&t, 2500000000);
	for (i = 100; i <= 110; i++) {
		a = at(i * S, 0);
		timeline_add(&t, &a, NULL);
	}
	/* The counter begins at 1,000 after a minute's sleep. */
	a = (struct wire_anchor){1000, 170 * S, 170 * S, 1700000000 * S + 170 * S, 0};
	assert_int_equal(timeline_add(&t, &a, NULL), TIMELINE_JUMPED);
	assert_near(timeline_boot_ns(&t, 1000 + 250000), 170 * S + 100000, 100);
	a = (struct wire_anchor){1000 + 2500000000, 171 * S, 171 * S, 1700000000 * S + 171 * S, 0};
	assert_int_equal(timeline_add(&t, &a, NULL), TIMELINE_SAME);
	assert_near(timeline_boot_ns(&t, 1000 + 1250000000), 170 * S + S / 2, 100);
}

static void test_hist_bins(void **state)
{
	/* 1.0 is 0x3ff0..., 1.0625 the next bin: 16 bins an octave. */
	const double values[] = {1.0, 1.06, 1.0625, 2.0, -1.0, 0.0, INFINITY, NAN};
	struct memory_sink *m = memory_sink_new();
	struct hist h = {.series = 1};
	size_t i;

	(void)state;
	assert_int_equal(hist_push(&h, &m->sink), 0);
	assert_int_equal(m->pending_hists, 0);
	for (i = 0; i < 8; i++)
		hist_add(&h, values[i], (int64_t)i, 3);
	assert_int_equal(h.len, 6);
	assert_int_equal(hist_push(&h, &m->sink), 0);
	m->sink.ops->commit(&m->sink);
	assert_int_equal(m->hists[0].count, 7);
	assert_int_equal(m->hists[0].nan, 1);
	assert_int_equal(m->hists[0].bins, 7);
	assert_true(m->hists[0].min == -1.0 && isinf(m->hists[0].max));
	hist_reset(&h);
	for (i = 0; i < 60000; i++)
		hist_add(&h, (double)i * 1e-3, 0, 0);
	assert_int_equal(h.count, 60000);
	assert_true(fabs(h.sum - 1799970.0) < 1e-3);
	hist_done(&h);
	memory_sink_free(m);
}

static void test_hang_given(void **state)
{
	struct hang h;

	(void)state;
	hang_init(&h, 10 * S);
	assert_int_equal(hang_check(&h, 100 * S, 5, 0, 0, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 109 * S, 5, 0, 0, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 110 * S, 5, 0, 0, false), HANG_BEGAN);
	assert_int_equal(hang_check(&h, 111 * S, 5, 0, 0, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 112 * S, 6, 0, 0, false), HANG_OVER);
	/* CPU time, a heartbeat and records each count as progress. */
	assert_int_equal(hang_check(&h, 121 * S, 6, 0, S, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 130 * S, 6, 1, S, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 139 * S, 6, 1, S, false), HANG_NOTHING);
	/* What was asked for holds in an open span, too. */
	assert_int_equal(hang_check(&h, 139 * S, 6, 1, S, true), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 140 * S, 6, 1, S, true), HANG_BEGAN);
}

static void test_hang_learns(void **state)
{
	struct hang h;

	(void)state;
	hang_init(&h, 0);
	hang_check(&h, 100 * S, 1, 0, 0, false);
	/* A checkpoint that took 100 s without anything: from now on 1,000 s. */
	hang_check(&h, 200 * S, 2, 0, 0, false);
	assert_int_equal(hang_timeout(&h, false), 1000 * S);
	/* With an open span it takes three times as long. */
	assert_int_equal(hang_timeout(&h, true), 3000 * S);
	assert_int_equal(hang_check(&h, 1199 * S, 2, 0, 0, false), HANG_NOTHING);
	assert_int_equal(hang_check(&h, 1200 * S, 2, 0, 0, false), HANG_BEGAN);
	hang_init(&h, -1);
	hang_check(&h, 1 * S, 1, 0, 0, false);
	assert_int_equal(hang_check(&h, 1000000 * S, 1, 0, 0, false), HANG_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_rough_rate_and_one_anchor),
		cmocka_unit_test(test_close_anchors_replace_each_other),
		cmocka_unit_test(test_late_anchors),
		cmocka_unit_test(test_wall_clock_step),
		cmocka_unit_test(test_suspend_counter_stops),
		cmocka_unit_test(test_suspend_counter_restarts),
		cmocka_unit_test(test_hist_bins),
		cmocka_unit_test(test_hang_given),
		cmocka_unit_test(test_hang_learns),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
