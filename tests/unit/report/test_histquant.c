/* SPDX-License-Identifier: Apache-2.0
 *
 * test_histquant.c - percentiles of histograms whose values are known, by hand: a bin's
 * edges are doubles with only their upper 16 bits (wire/sink.h).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/histquant.h"

static void near(double a, double b)
{
	if (!(fabs(a - b) < 1e-12))
		fail_msg("%.17g is not %.17g", a, b);
}

/* 100 in [1, 1.0625), 100 in [2, 2.125), none between. */
static void test_two_bins(void **state)
{
	static const struct sink_bin bins[] = {{0x3ff0, 100}, {0x4000, 100}};
	const struct sink_hist h = {.count = 200, .min = 1, .max = 2.1, .bins = bins, .n_bins = 2};
	struct histquant *q = histquant_new();

	(void)state;
	assert_true(isnan(histquant_get(q, 50)));
	histquant_add(q, &h);
	near(histquant_get(q, 50), 1 + 0.0625 * 0.995);
	near(histquant_get(q, 51), 2 + 0.125 * 0.015);
	/* Rank 198 of 200: the 98th in its bin; no further than the greatest value. */
	near(histquant_get(q, 99), 2.1);
	histquant_add(q, &h);
	near(histquant_get(q, 50), 1 + 0.0625 * (199.5 / 200));
	histquant_clear(q);
	assert_true(isnan(histquant_get(q, 50)));
	histquant_free(q);
}

/* Negative numbers run the other way: -4 to -4.25, -1 to -1.0625, 0, then 1. */
static void test_signs(void **state)
{
	static const struct sink_bin bins[] = {{0x0000, 1}, {0x3ff0, 1}, {0xbff0, 1}, {0xc010, 1}};
	const struct sink_hist h = {.count = 4, .min = -4.2, .max = 1, .bins = bins, .n_bins = 4};
	struct histquant *q = histquant_new();

	(void)state;
	histquant_add(q, &h);
	near(histquant_get(q, 25), -4.125);
	near(histquant_get(q, 50), -1.03125);
	assert_true(fabs(histquant_get(q, 75)) < 1e-300);
	near(histquant_get(q, 100), 1);
	histquant_free(q);
}

static void test_infinite(void **state)
{
	static const struct sink_bin bins[] = {{0x3ff0, 1}, {0x7ff0, 1}, {0xfff0, 1}};
	const struct sink_hist h = {
		.count = 3, .min = -INFINITY, .max = INFINITY, .bins = bins, .n_bins = 3};
	struct histquant *q = histquant_new();

	(void)state;
	histquant_add(q, &h);
	assert_true(isinf(histquant_get(q, 1)) && histquant_get(q, 1) < 0);
	near(histquant_get(q, 50), 1.03125);
	assert_true(isinf(histquant_get(q, 99)) && histquant_get(q, 99) > 0);
	histquant_free(q);
}

/* Counts of a damaged file, whose sum goes around to 0 again and again: more often than
 * there are keys. */
static void test_counts_go_around(void **state)
{
	static struct sink_bin bins[65536];
	struct sink_hist h = {.count = 1, .min = 1, .max = 2, .bins = bins, .n_bins = 65536};
	struct histquant *q = histquant_new();
	double v;
	size_t i;

	(void)state;
	for (i = 0; i < 65536; i++)
		bins[i] = (struct sink_bin){(uint16_t)i, 1ull << 63};
	for (i = 0; i < 6; i++)
		histquant_add(q, &h);
	v = histquant_get(q, 50);
	assert_true(v >= 1 && v <= 2);
	histquant_clear(q);
	assert_true(isnan(histquant_get(q, 50)));
	histquant_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_bins),
		cmocka_unit_test(test_signs),
		cmocka_unit_test(test_infinite),
		cmocka_unit_test(test_counts_go_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
