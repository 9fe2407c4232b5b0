/* SPDX-License-Identifier: Apache-2.0
 *
 * When a value is suddenly far above what it was: limits by hand, and curves of many sizes
 * with noise of many kinds, in which nothing is wrong until something is planted.
 */
#include "alert/surge.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TIMES 8
#define NO_STEP INT64_MIN

static struct surge s;
static int64_t now;

static int setup(void **state)
{
	(void)state;
	memset(&s, 0, sizeof(s));
	now = 0;
	return 0;
}

static enum surge_is put(double x)
{
	return surge_add(&s, ++now, NO_STEP, x, TIMES, false);
}

/* So many values, none of them high. */
static void calm(int n, double x)
{
	while (n--)
		assert_int_not_equal(put(x), SURGE_IS_HIGH);
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b))))
		fail_msg("%.17g is not %.17g", a, b);
}

/* A quarter above 2 is 2.5; half way is usual. */
static void limit_of_what_is_constant(void **state)
{
	int64_t begin;

	(void)state;
	calm(100, 2);
	assert_int_equal(put(2.24), SURGE_IS_USUAL);
	assert_int_equal(put(2.26), SURGE_IS_BETWEEN);
	assert_near(s.usual, 2);
	assert_near(s.limit, 2.5);
	calm(20, 2);
	calm(5, 2.49);
	begin = now + 1;
	assert_int_equal(put(2.6), SURGE_IS_BETWEEN);
	assert_int_equal(put(3), SURGE_IS_BETWEEN);
	assert_int_equal(put(2), SURGE_IS_USUAL);
	assert_int_equal(put(2.51), SURGE_IS_HIGH);
	assert_int_equal(s.begin_ns, begin);
	assert_near(s.highest, 3);
	assert_int_equal(put(2.1), SURGE_IS_USUAL);
}

/* Of a loss below 0 as well; one that was always 0 has no scale, and may begin. */
static void limit_below_zero(void **state)
{
	(void)state;
	calm(100, -2);
	calm(5, -1.51);
	calm(2, -1.49);
	assert_int_equal(put(-1.49), SURGE_IS_HIGH);
	assert_near(s.limit, -1.5);
	setup(state);
	calm(300, 0);
	calm(1200, 1);
	calm(2, 1.26);
	assert_int_equal(put(1.26), SURGE_IS_HIGH);
}

/* -1, 0, 1 in turn: the upper tenth is 1 away from the median, which is 1 / 1.2816 standard
 * deviations of a normal distribution. 16 + 16 values give a median, from which as many
 * again are away before there is a limit. */
static void limit_by_scatter(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 600; i++)
		assert_int_equal(put(i % 3 - 1), i < 64 ? SURGE_IS_UNKNOWN : SURGE_IS_USUAL);
	assert_near(s.limit, 8 / 1.2816);
	calm(2, 6.25);
	assert_int_equal(put(6.25), SURGE_IS_HIGH);
}

/* A rise by 1 % a value is told of, though its values are learnt: the last 16 are not. */
static void limit_of_a_rise(void **state)
{
	double x = 2;
	int n;

	(void)state;
	calm(300, x);
	for (n = 1; put(x *= 1.01) != SURGE_IS_HIGH; n++)
		assert_true(n < 60);
	assert_true(n > 24);
	/* By a quarter of that, or down, it is what training does. */
	setup(state);
	calm(300, x = 2);
	for (n = 0; n < 300; n++)
		assert_int_not_equal(put(x *= 1.0025), SURGE_IS_HIGH);
	for (n = 0; n < 600; n++)
		assert_int_not_equal(put(x *= 0.97), SURGE_IS_HIGH);
}

/* One alone must be five times as far up, and nothing like it have been before. */
static void one_alone(void **state)
{
	(void)state;
	calm(600, 2);
	calm(1, 2.5 + 4 * 0.5 - 0.01);
	setup(state);
	calm(600, 2);
	assert_int_equal(put(2.5 + 4 * 0.5 + 0.01), SURGE_IS_HIGH);
	/* 2 below the highest of the start, 10, twice as far is 18. */
	setup(state);
	calm(100, 10);
	calm(600, 2);
	calm(1, 17.9);
	setup(state);
	calm(100, 10);
	calm(600, 2);
	assert_int_equal(put(18.1), SURGE_IS_HIGH);
}

/* Where single values are high, three of five are no news. */
static void strays(void **state)
{
	(void)state;
	calm(600, 2);
	calm(1, 3);
	calm(40, 2);
	calm(4, 4);
	assert_int_equal(put(4), SURGE_IS_HIGH);
}

/* What rises while nobody is told becomes usual: of 256 distances the upper 32nd is the 9th. 16
 * values later than that it is 1, and the limit 8 * 0.375 above 2. */
static void unheeded(void **state)
{
	int n;

	(void)state;
	calm(600, 2);
	for (n = 1; n <= 25; n++)
		assert_int_equal(put(3), n < 3 ? SURGE_IS_BETWEEN : SURGE_IS_HIGH);
	assert_int_not_equal(put(3), SURGE_IS_HIGH);
	assert_near(s.limit, 5);
	calm(600, 3);
}

/* From an earlier step on, or with a larger rate, up to 10 and half of it all is well. */
static void new_beginnings(void **state)
{
	int i;

	(void)state;
	calm(100, 10);
	calm(400, 1);
	for (i = 1; i <= 2; i++)
		assert_int_equal(surge_add(&s, ++now, 500 + i, 1, TIMES, false), SURGE_IS_USUAL);
	for (i = 0; i < 5; i++)
		assert_int_not_equal(surge_add(&s, ++now, 100 + i, 14.9, TIMES, false),
				     SURGE_IS_HIGH);
	assert_near(s.limit, 15);
	calm(2, 15.1);
	assert_int_equal(put(15.1), SURGE_IS_HIGH);
	setup(state);
	calm(100, 10);
	calm(400, 1);
	surge_again(&s);
	calm(2, 14.9);
	calm(254, 1);
	assert_near(s.usual, 10);
	/* After 256 values it is over. */
	calm(1, 1);
	assert_near(s.usual, 1);
	calm(2, 9);
	assert_int_equal(put(9), SURGE_IS_HIGH);
}

/* While it lasts nothing is learnt of it. */
static void frozen(void **state)
{
	int i;

	(void)state;
	calm(300, 2);
	calm(2, 4);
	assert_int_equal(put(4), SURGE_IS_HIGH);
	for (i = 0; i < 3000; i++)
		assert_int_equal(surge_add(&s, ++now, NO_STEP, 4, TIMES, true), SURGE_IS_HIGH);
	assert_near(s.usual, 2);
	assert_near(s.limit, 2.5);
	assert_int_equal(surge_add(&s, ++now, NO_STEP, 2, TIMES, true), SURGE_IS_USUAL);
}

/* ---- curves -----------------------------------------------------------------------------------
 */

static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(seed >> 11) * 0x1p-53;
}

static double bell(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(2 * 3.14159265358979323846 * uniform());
}

enum noise_kind {
	BELL,
	SKEWED,
	NEAR,
	FAR_OUT,
	NEARER,
	WALK,
	LOG_NORMAL,
	STUDENT,
	NOISES
};

/* Variance 1, but of a walk. */
static double noise(enum noise_kind kind, double *last)
{
	double a = bell();

	switch (kind) {
	case SKEWED:
		return -log(1 - uniform()) - 1;
	case NEAR: /* an autoregression of the first order */
		return *last = 0.8 * *last + 0.6 * a;
	case NEARER:
		return *last = 0.99 * *last + sqrt(1 - 0.99 * 0.99) * a;
	case WALK:
		return *last += 0.02 * a;
	case FAR_OUT:
		return a * (uniform() < 0.05 ? 4 : 0.48);
	case LOG_NORMAL:
		return (exp(a) - exp(0.5)) / sqrt((exp(1) - 1) * exp(1));
	case STUDENT: /* 3 degrees of freedom, variance 3 */
		return a / sqrt(pow(bell(), 2) + pow(bell(), 2) + pow(bell(), 2));
	default:
		return a;
	}
}

static double curve(int kind, int i, int n)
{
	switch (kind) {
	case 0:
		return 1.7 + 9.3 / sqrt(1 + i / 40.0);
	case 1:
		return 10 * exp(-8.0 * i / n);
	case 2:
		return i < n / 4 ? 5 : 3; /* a rate that was lowered */
	default:
		return 2;
	}
}

/* Is there an alarm in n values of such a curve? */
static bool cries(int shape, enum noise_kind kind, double scale, double lift, double size)
{
	const int n = 3000;
	double last = 0;
	int i;

	memset(&s, 0, sizeof(s));
	for (i = 0; i < n; i++) {
		double x = curve(shape, i, n) * (1 + scale * noise(kind, &last));

		if (put((x + lift) * size) == SURGE_IS_HIGH)
			return true;
	}
	return false;
}

static void healthy_curves(void **state)
{
	static const double scales[] = {0, 1e-9, 0.01, 0.05, 0.2}, sizes[] = {1e-12, 1, 1e9};
	static const double lifts[] = {0, -1.9, -50};
	size_t scale, size, lift;
	int shape;

	(void)state;
	for (seed = 1, shape = 0; shape < 16; shape++)
		for (scale = 0; scale < ARRAY_LEN(scales); scale++)
			for (size = 0; size < ARRAY_LEN(sizes); size++)
				for (lift = 0; lift < ARRAY_LEN(lifts); lift++)
					if (cries(shape % 4, shape / 4, scales[scale], lifts[lift],
						  sizes[size]))
						fail_msg("shape %d, noise %g, lift %g, size %g",
							 shape, scales[scale], lifts[lift],
							 sizes[size]);
}

/* Noise with tails as heavy as batches have, or that wanders: an alarm in fifty runs. */
static void heavy_noise(void **state)
{
	static const double scales[] = {0.003, 0.03, 0.1, 0.3};
	int runs = 0, cried = 0, again, shape;
	size_t scale, kind;

	(void)state;
	seed = 1;
	for (again = 0; again < 5; again++)
		for (kind = NEARER; kind < NOISES; kind++)
			for (shape = 0; shape < 4; shape++)
				for (scale = 0; scale < ARRAY_LEN(scales); scale++, runs++)
					cried += cries(shape, kind, scales[scale], 0, 1);
	print_message("# %d of %d\n", cried, runs);
	assert_true(cried * 50 <= runs);
}

/* Of a hundred runs with normal noise: in how many are three values that are so many standard
 * deviations up told of, before the noise is? */
static int found(double up)
{
	int runs, i, n = 0;

	for (seed = 1, runs = 0; runs < 100; runs++) {
		memset(&s, 0, sizeof(s));
		for (i = 0; i < 1000; i++)
			assert_int_not_equal(put(3 + 0.1 * bell()), SURGE_IS_HIGH);
		for (i = 0; i < 3; i++)
			n += put(3 + 0.1 * (bell() + up)) == SURGE_IS_HIGH;
	}
	return n;
}

/* The scatter is the largest lately of estimates from 256 values. The 90 % quantile's standard
 * error is sqrt(0.9 * 0.1 / 256) / 0.1755 = 0.107, that of the scatter 0.107 / 1.28 = 0.083: three
 * of these make it 1.25, and the limit 10. Three values 14 up are all above that in all but 3
 * * 3.2e-5 of runs; three values 4 up are all above 8 in 3.2e-5 ^ 3. */
static void found_by_size(void **state)
{
	(void)state;
	assert_int_equal(found(14), 100);
	assert_int_equal(found(4), 0);
}

/* Twice the loss for 30 values, whatever its size. */
static void planted(void **state)
{
	static const double scales[] = {0, 1e-9, 0.01, 0.03}, sizes[] = {1e-12, 1, 1e9};
	size_t shape, scale, size;
	double last = 0;
	int i, n = 3000, at;

	for (seed = 1, shape = 0; shape < 6; shape++)
		for (scale = 0; scale < ARRAY_LEN(scales); scale++)
			for (size = 0; size < ARRAY_LEN(sizes); size++) {
				setup(state);
				for (at = i = 0; i < n && !at; i++) {
					double x = curve(shape % 2 ? 0 : 3, i, n);

					x *= 1 + scales[scale] * noise((int)shape / 2, &last);
					x *= i >= 1500 && i < 1530 ? 2 : 1;
					if (put(x * sizes[size]) == SURGE_IS_HIGH)
						at = i;
				}
				assert_in_range(at, 1500, 1510);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(limit_of_what_is_constant, setup),
		cmocka_unit_test_setup(limit_below_zero, setup),
		cmocka_unit_test_setup(limit_by_scatter, setup),
		cmocka_unit_test_setup(limit_of_a_rise, setup),
		cmocka_unit_test_setup(one_alone, setup),
		cmocka_unit_test_setup(strays, setup),
		cmocka_unit_test_setup(unheeded, setup),
		cmocka_unit_test_setup(new_beginnings, setup),
		cmocka_unit_test_setup(frozen, setup),
		cmocka_unit_test_setup(healthy_curves, setup),
		cmocka_unit_test_setup(heavy_noise, setup),
		cmocka_unit_test_setup(found_by_size, setup),
		cmocka_unit_test_setup(planted, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("alert surge", tests, NULL, NULL);
}
