/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_numeric.c - sums, moments, quantiles and orders, against what numpy 1.24.2 and
 * pandas 1.5.3 print for the same values.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyse/numeric.h"

#define N 1000

static void check_order(const double *keys, size_t n, const unsigned *wanted)
{
	struct numeric_key k[64];
	size_t i;

	for (i = 0; i < n; i++)
		k[i] = (struct numeric_key){keys[i], (uint32_t)i};
	numeric_order(k, n);
	for (i = 0; i < n; i++)
		assert_int_equal(k[i].id, wanted[i]);
}

/* numpy.argsort of many equal keys, and of two sorted runs behind each other. */
static void test_order(void **state)
{
	static const unsigned mixed[] = {0,  33, 22, 11, 32, 21, 10, 31, 20, 9,  30, 19, 8,  7,
					 18, 29, 17, 28, 6,  39, 16, 38, 5,  27, 4,  37, 26, 15,
					 36, 3,  25, 14, 2,  35, 13, 24, 23, 1,  34, 12};
	static const unsigned runs[] = {0,  1,  2,  31, 30, 3,  4,  5,  33, 32, 34, 35, 6,  7,  8,
					10, 9,  36, 37, 11, 12, 13, 14, 38, 39, 17, 41, 16, 15, 40,
					43, 20, 19, 18, 42, 44, 23, 45, 22, 21, 26, 25, 24, 47, 46,
					48, 49, 29, 28, 27, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59};
	double keys[64];
	size_t i;

	(void)state;
	for (i = 0; i < 40; i++)
		keys[i] = (double)(i * 7919 % 11);
	check_order(keys, 40, mixed);
	for (i = 0; i < 30; i++) {
		keys[i] = (double)(i / 3);
		keys[30 + i] = (double)(i / 2);
	}
	check_order(keys, 60, runs);
}

static int by_key(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Whatever the input, an order sorts: patterns that wear quicksort out are among these. */
static void test_order_sorts(void **state)
{
	enum {
		MOST = 3000
	};
	static double keys[MOST], sorted[MOST];
	static struct numeric_key k[MOST];
	size_t n, i, kind;

	(void)state;
	for (kind = 0; kind < 4; kind++) {
		for (n = 1; n <= MOST; n = n * 3 + 1) {
			for (i = 0; i < n; i++) {
				keys[i] = kind == 0   ? (double)(n - i)
					  : kind == 1 ? (double)(i < n / 2 ? i : n - i)
					  : kind == 2 ? (double)(i % 2 ? i : n - i)
						      : (double)(i * i * 31 % 97);
				sorted[i] = keys[i];
				k[i] = (struct numeric_key){keys[i], (uint32_t)i};
			}
			qsort(sorted, n, sizeof(*sorted), by_key);
			numeric_order(k, n);
			for (i = 0; i < n; i++)
				assert_true(k[i].key == sorted[i] && keys[k[i].id] == sorted[i]);
		}
	}
}

static void test_sums(void **state)
{
	struct numeric_run run = {0};
	double x[N];
	size_t i;

	(void)state;
	for (i = 0; i < N; i++) {
		x[i] = 1.0 / (double)(i + 3);
		numeric_add(&run, x[i]);
	}
	/* A plain sum ends in ...356. */
	assert_true(numeric_sum(x, N) == 5.987467865541362);
	assert_true(run.sum == 5.987467865541362);
	assert_true(numeric_mean(&run) == 0.0059874678655413615);
	assert_true(numeric_std(&run) == 0.018932649959530864);
	assert_true(run.max == x[0] && run.min == x[N - 1]);
	assert_true(numeric_sum(x, 0) == 0);
}

static void test_describe(void **state)
{
	double x[] = {4, 1, 3, 2}, one[] = {7};
	struct numeric_describe d;

	(void)state;
	numeric_describe(x, 4, &d);
	assert_int_equal(d.count, 4);
	assert_true(d.mean == 2.5 && d.min == 1 && d.max == 4);
	assert_true(d.q25 == 1.75 && d.q50 == 2.5 && d.q75 == 3.25);
	assert_true(fabs(d.std - sqrt(5.0 / 3)) < 1e-15);
	numeric_describe(one, 1, &d);
	assert_true(d.mean == 7 && isnan(d.std) && d.q75 == 7);
	numeric_describe(one, 0, &d);
	assert_int_equal(d.count, 0);
	assert_true(isnan(d.mean) && isnan(d.min));
}

static void test_round(void **state)
{
	(void)state;
	assert_true(numeric_round(2.675, 2) == 2.68); /* 2.675 * 100 is 267.5 in doubles */
	assert_true(numeric_round(0.125, 2) == 0.12); /* ties to even */
	assert_true(numeric_round(-1.005, 1) == -1.0);
	assert_true(isnan(numeric_round(NAN, 2)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order), cmocka_unit_test(test_order_sorts),
		cmocka_unit_test(test_sums),  cmocka_unit_test(test_describe),
		cmocka_unit_test(test_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
