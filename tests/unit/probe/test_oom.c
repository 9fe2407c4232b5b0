/* SPDX-License-Identifier: Apache-2.0
 *
 * Risk and forecast of running out of memory, from series of figures.
 */
#include "probe/linux/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#define GIB 1073741824.0
#define S INT64_C(1000000000)

static struct oom o;

static void begin(void **state)
{
	(void)state;
	memset(&o, 0, sizeof(o));
}

/* 100 GiB limit, a value each second. */
static bool add(int64_t s, double gib)
{
	return oom_add(&o, s * S, gib * GIB, 100 * GIB);
}

static void test_ramp(void **state)
{
	int64_t s;

	begin(state);
	assert_true(oom_risk(&o) < 0);
	assert_true(oom_time(&o) < 0);
	for (s = 0; s < 20; s++) {
		add(s, 10 + 0.5 * (double)s);
		assert_true(oom_time(&o) < 0); /* not yet 11 points */
	}
	for (; s < 100; s++)
		add(s, 10 + 0.5 * (double)s);
	/* 59.5 of 100 GiB at half a GiB a second */
	assert_true(fabs(oom_risk(&o) - 0.595) < 1e-9);
	assert_true(fabs(oom_time(&o) - 81) < 1e-6);
	assert_true(o.n == OOM_POINTS);
	assert_true(o.points[o.n - 1].ns - o.points[0].ns == 60 * S);
}

static void test_flat(void **state)
{
	int64_t s;

	begin(state);
	for (s = 0; s < 200; s++) {
		assert_false(add(s, 95 + (double)(s * 7919 % 13) / 100)); /* noise */
		assert_true(oom_time(&o) < 0);
	}
	begin(state);
	for (s = 0; s < 200; s++) {
		add(s, 99 - 0.1 * (double)s);
		assert_true(oom_time(&o) < 0);
	}
}

/* One large allocation is no slope, wherever it lies in the minute. */
static void test_step(void **state)
{
	int64_t s;

	begin(state);
	for (s = 0; s < 200; s++) {
		assert_false(add(s, s < 60 ? 50 : 90));
		assert_true(oom_time(&o) < 0);
	}
}

/* A leak in steps of 10 s, with noise, is one. */
static void test_leak(void **state)
{
	int64_t s;

	begin(state);
	for (s = 0; s < 120; s++)
		add(s, 50 + (double)(s / 10) + (double)(s * 7919 % 13) / 1000);
	/* 61 of 100, a tenth a second: 390 s */
	assert_true(oom_time(&o) > 300 && oom_time(&o) < 480);
}

static void test_warning(void **state)
{
	unsigned told = 0;
	int64_t s;

	begin(state);
	for (s = 0; s < 300; s++) { /* 0.1 GiB/s: 120 s before the end it stands at 88 */
		if (!add(s, 70 + 0.1 * (double)s))
			continue;
		told++;
		assert_true(s >= 180 && s <= 190);
		assert_true(o.used > 88 * GIB && oom_time(&o) < 120);
	}
	assert_int_equal(told, 1);
	assert_true(fabs(oom_time(&o) - 1) < 1e-6);
	for (; s < 400; s++) /* it stands, then falls: over */
		assert_false(add(s, 60));
	for (; s < 800; s++)
		told += add(s, 60 + 0.1 * (double)(s - 400));
	assert_int_equal(told, 2);
}

/* Far away is a day; at the limit is now; another limit begins anew. */
static void test_ends(void **state)
{
	int64_t s;

	begin(state);
	for (s = 0; s < 100; s++)
		add(s, 10 + 1e-6 * (double)s);
	assert_true(oom_time(&o) == OOM_TIME_MAX);
	for (; s < 200; s++)
		add(s, 10 + (double)s);
	assert_true(oom_time(&o) == 0);
	assert_true(oom_risk(&o) == 1);
	oom_add(&o, s * S, 10 * GIB, 200 * GIB);
	assert_int_equal(o.n, 1);
	assert_true(oom_time(&o) < 0);
	assert_true(oom_risk(&o) == 0.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ramp),    cmocka_unit_test(test_flat),
		cmocka_unit_test(test_step),    cmocka_unit_test(test_leak),
		cmocka_unit_test(test_warning), cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
