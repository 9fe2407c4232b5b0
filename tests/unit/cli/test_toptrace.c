/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chart keeps of a series: merging, rates, smoothing, columns. Expected values are
 * worked out by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/toptrace.h"

#define S 1000000000LL

static void add(struct toptrace *t, uint64_t at, int64_t time_ns, int64_t step, double v)
{
	const struct store_point p = {.time_ns = time_ns, .step = step, .value = v};

	toptrace_add(t, at, &p);
}

/* However many come, there are at most so many items, and a spike stays. */
static void test_bounded(void **state)
{
	struct toptrace_axis all = {.by_step = true, .from = 0, .to = 99999};
	struct toptrace_total total;
	struct toptrace t;
	int64_t i;

	(void)state;
	toptrace_init(&t, false);
	for (i = 0; i < 100000; i++)
		add(&t, (uint64_t)i, i * S, i, i == 4321 ? 1000 : i == 77777 ? NAN : 1);
	assert_true(t.n <= TOPTRACE_MAX && t.n >= TOPTRACE_MAX / 2);
	total = toptrace_total(&t, &all);
	assert_int_equal(total.n, 100000);
	assert_int_equal(total.nan, 1);
	assert_true(total.max == 1000 && total.min == 1 && total.last == 1);
	toptrace_done(&t);
}

static void test_again_and_gap(void **state)
{
	struct toptrace t;

	(void)state;
	toptrace_init(&t, false);
	add(&t, 0, 1 * S, 0, 1);
	add(&t, 1, 2 * S, 1, 2);
	add(&t, 1, 2 * S, 1, 2); /* it is in there */
	assert_int_equal(t.n, 2);
	assert_false(t.is_stale);
	add(&t, 4, 5 * S, 4, 5); /* two are missing */
	assert_true(t.is_stale);
	toptrace_done(&t);
}

/* Steps that begin again belong to a new attempt: the store knows which hold. */
static void test_segment(void **state)
{
	const struct store_point p = {.time_ns = 9 * S, .step = 3, .value = 1, .segment = 1};
	struct toptrace t;

	(void)state;
	toptrace_init(&t, false);
	add(&t, 0, 1 * S, 8, 1);
	toptrace_add(&t, 1, &p);
	assert_true(t.is_stale);
	toptrace_done(&t);
}

static void test_rate(void **state)
{
	struct toptrace t;

	(void)state;
	toptrace_init(&t, true);
	add(&t, 0, 1 * S, 0, 500); /* since when, nobody knows */
	add(&t, 1, 3 * S, 1, 60);  /* 60 in two seconds */
	add(&t, 2, 3 * S, 1, 40);  /* one moment: with the next */
	add(&t, 3, 4 * S, 2, 10);
	assert_int_equal(t.n, 2);
	assert_true(t.items[0].last == 30);
	assert_true(t.items[1].last == 50);
	toptrace_done(&t);
}

static void test_trim(void **state)
{
	struct toptrace t;
	int64_t i;

	(void)state;
	toptrace_init(&t, false);
	for (i = 0; i < 10; i++)
		add(&t, (uint64_t)i, i * S, i, (double)i);
	toptrace_trim(&t, 7 * S);
	assert_int_equal(t.n, 3);
	assert_true(t.items[0].min == 7);
	add(&t, 10, 10 * S, 10, 10);
	assert_int_equal(t.n, 4);
	toptrace_done(&t);
}

/* Debiased: the first value is itself, then (0.5 * 0.5 * 1 + 0.5 * 3) / 0.75 and so on. */
static void test_smooth(void **state)
{
	struct toptrace_axis a = {.by_step = true, .from = 0, .to = 2};
	struct toptrace_column c[3];
	struct toptrace t;

	(void)state;
	toptrace_init(&t, false);
	add(&t, 0, 0, 0, 1);
	add(&t, 1, S, 1, 3);
	add(&t, 2, 2 * S, 2, 5);
	toptrace_columns(&t, &a, 0.5, c, 3);
	assert_true(fabs(c[0].smooth - 1) < 1e-12);
	assert_true(fabs(c[1].smooth - 1.75 / 0.75) < 1e-12);
	assert_true(fabs(c[2].smooth - (1.75 * 0.5 + 2.5) / 0.875) < 1e-12);
	assert_true(c[1].last == 3 && c[1].min == 3 && c[1].max == 3);
	toptrace_done(&t);
}

static void test_columns(void **state)
{
	struct toptrace_axis a = {.by_step = true, .from = 0, .to = 9};
	struct toptrace_column c[4];
	struct toptrace t;

	(void)state;
	toptrace_init(&t, false);
	add(&t, 0, 0, 0, 1);
	add(&t, 1, S, 1, -2); /* column 1 * 3 / 9 + 0.5: the first */
	add(&t, 2, 2 * S, 9, INFINITY);
	add(&t, 3, 3 * S, SINK_STEP_NONE, 7); /* it has no place */
	toptrace_columns(&t, &a, 0, c, 4);
	assert_true(c[0].min == -2 && c[0].max == 1 && c[0].last == -2);
	assert_true(isnan(c[1].last) && isnan(c[2].last));
	assert_true(c[3].nan && isnan(c[3].last));
	assert_false(c[0].nan);
	toptrace_done(&t);
}

/* What the store answers: infinities count with NaN, the next point is the one behind. */
static void test_seed(void **state)
{
	struct store_result r = {.n = 2};
	struct toptrace t;

	(void)state;
	r.buckets = calloc(2, sizeof(*r.buckets));
	r.buckets[0] = (struct store_bucket){.count = 4,
					     .min = 1,
					     .max = INFINITY,
					     .sum = INFINITY,
					     .last = 2,
					     .last_at = 3,
					     .time_max = S,
					     .step_max = 3};
	r.buckets[1] = (struct store_bucket){.count = 4,
					     .nan = 4,
					     .min = NAN,
					     .max = NAN,
					     .sum = NAN,
					     .last = NAN,
					     .last_at = 7,
					     .time_min = S,
					     .time_max = 2 * S,
					     .step_min = 4,
					     .step_max = 7};
	toptrace_init(&t, false);
	toptrace_seed(&t, &r);
	free(r.buckets);
	assert_int_equal(t.next, 8);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.items[0].nan, 1);
	assert_true(t.items[0].max == 2);
	assert_int_equal(t.items[1].nan, 4);
	add(&t, 7, 2 * S, 7, 9); /* it is in there */
	assert_int_equal(t.n, 2);
	add(&t, 8, 3 * S, 8, 9);
	assert_int_equal(t.n, 3);
	assert_true(t.items[2].last == 9);
	toptrace_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounded), cmocka_unit_test(test_again_and_gap),
		cmocka_unit_test(test_segment), cmocka_unit_test(test_rate),
		cmocka_unit_test(test_trim),    cmocka_unit_test(test_smooth),
		cmocka_unit_test(test_columns), cmocka_unit_test(test_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
