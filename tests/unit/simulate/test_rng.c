/* SPDX-License-Identifier: Apache-2.0
 *
 * test_rng.c - random numbers against the generator's published ones, logarithm and
 * exponential against libm, moments of the distributions; the mixed set's shape.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/mixed.h"
#include "simulate/rng.h"

static void test_published(void **state)
{
	/* xoshiro256** from state 1, 2, 3, 4. */
	static const uint64_t want[] = {11520,
					0,
					1509978240,
					1215971899390074240u,
					1216172134540287360u,
					607988272756665600u};
	struct rng r = {{1, 2, 3, 4}};
	size_t i;

	(void)state;
	for (i = 0; i < 6; i++)
		assert_true(rng_u64(&r) == want[i]);
}

static void test_streams(void **state)
{
	struct rng a, b;

	(void)state;
	rng_init(&a, 1, 2);
	rng_init(&b, 1, 2);
	assert_true(rng_u64(&a) == rng_u64(&b));
	rng_init(&b, 2, 1);
	assert_true(rng_u64(&a) != rng_u64(&b));
	rng_init(&b, 1, 3);
	rng_init(&a, 1, 2);
	assert_true(rng_u64(&a) != rng_u64(&b));
}

static void test_functions(void **state)
{
	double x;

	(void)state;
	for (x = 1e-300; x < 1e300; x *= 3.7)
		assert_true(fabs(rng_log(x) - log(x)) <= 2e-15 * fmax(1, fabs(log(x))));
	for (x = -700; x <= 700; x += 0.37)
		assert_true(fabs(rng_exp(x) / exp(x) - 1) <= 1e-14 + 3e-16 * fabs(x));
	assert_true(rng_log(1) == 0 && rng_exp(0) == 1);
}

static void test_moments(void **state)
{
	double sum[3] = {0}, square = 0, v;
	size_t i, seen[7] = {0};
	struct rng r;

	(void)state;
	rng_init(&r, 7, 0);
	for (i = 0; i < 100000; i++) {
		v = rng_uniform(&r);
		assert_true(v >= 0 && v < 1);
		sum[0] += v;
		v = rng_normal(&r);
		sum[1] += v;
		square += v * v;
		v = rng_exponential(&r);
		assert_true(v >= 0);
		sum[2] += v;
		seen[rng_below(&r, 7)]++;
	}
	/* Five standard errors of each mean. */
	assert_true(fabs(sum[0] / 1e5 - 0.5) < 5 * 0.2887 / 316);
	assert_true(fabs(sum[1] / 1e5) < 5.0 / 316);
	assert_true(fabs(square / 1e5 - 1) < 5 * 1.4143 / 316);
	assert_true(fabs(sum[2] / 1e5 - 1) < 5.0 / 316);
	for (i = 0; i < 7; i++)
		assert_true(fabs((double)seen[i] - 1e5 / 7) < 5 * 111);
}

static void test_mixed(void **state)
{
	static double v[MIXED_POINTS], again[MIXED_POINTS];
	static int64_t t[MIXED_POINTS];
	unsigned series, count[MIXED_SHAPES] = {0};
	size_t i;

	(void)state;
	for (series = 0; series < MIXED_SERIES; series++) {
		count[mixed_shape_of(series)]++;
		mixed_values(1, series, v, MIXED_POINTS);
		mixed_values(1, series, again, MIXED_POINTS);
		assert_memory_equal(v, again, sizeof(v));
		for (i = 0; i < MIXED_POINTS; i++)
			assert_true(isfinite(v[i]));
		if (mixed_shape_of(series) == MIXED_CPU_SECONDS)
			for (i = 1; i < MIXED_POINTS; i++)
				assert_true(v[i] >= v[i - 1]);
	}
	/* The proportions that the header tells. */
	assert_int_equal(count[MIXED_POWER] + count[MIXED_UTILISATION] +
				 count[MIXED_MEMORY_UTILISATION] + count[MIXED_TEMPERATURE] +
				 count[MIXED_CLOCK] + count[MIXED_MEMORY] + count[MIXED_ENERGY],
			 56);
	assert_int_equal(count[MIXED_CPU_SECONDS], 16);
	assert_int_equal(count[MIXED_STEP_SECONDS], 16);
	assert_int_equal(
		count[MIXED_LOSS] + count[MIXED_GRADIENT_NORM] + count[MIXED_LEARNING_RATE], 18);
	assert_int_equal(count[MIXED_CONSTANT], 10);
	mixed_times(1, 1000000000000, t, MIXED_POINTS);
	for (i = 0; i < MIXED_POINTS; i++)
		assert_true(llabs(t[i] - 1000000000000 - (int64_t)i * 1000000000) <=
			    MIXED_JITTER_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published), cmocka_unit_test(test_streams),
		cmocka_unit_test(test_functions), cmocka_unit_test(test_moments),
		cmocka_unit_test(test_mixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
