/* SPDX-License-Identifier: Apache-2.0
 *
 * test_compare.c - medians of two runs: lengths of blocks against arch 8.0, intervals against
 * SciPy 1.17.1, and how often an interval has the truth in it.
 *
 * The constants were made in Python from the same samples as series() makes here:
 *   arch.bootstrap.optimal_block_length(x)["circular"]
 *   numpy.median(x), numpy.percentile(x, [5, 95])
 *   scipy.stats.bootstrap((a, b), lambda x, y, axis: median(y) - median(x), n_resamples=200000,
 *                         method="percentile", confidence_level=..., random_state=default_rng(1))
 */
#include "analyse/compare.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) / 0x1p53;
}

/* x = mean + scale * an autoregression of the first order, noise of variance 1 (twelve uniform
 * numbers), after 100 values that are thrown away. */
static void series(uint64_t seed, double phi, double mean, double scale, double *x, int n)
{
	double value = 0, noise;
	int i, k;

	for (i = 0; i < n + 100; i++) {
		for (noise = -6, k = 0; k < 12; k++)
			noise += uniform(&seed);
		value = phi * value + noise;
		if (i >= 100)
			x[i - 100] = mean + scale * value;
	}
}

static void near_by(double got, double want, double within)
{
	if (!(fabs(got - want) <= within))
		fail_msg("%.17g instead of %.17g, more than %g off", got, want, within);
}

static void test_blocks(void **state)
{
	static const struct {
		uint64_t seed;
		int n;
		double phi, first, block, median, p5, p95;
	} rows[] = {
		{1, 200, 0.0, -0.043924664115468026, 2.3750257697217, -0.09128628105783188,
		 -1.7940774331866622, 1.4324289941765656},
		{2, 500, 0.3, 0.020433307064117973, 6.507268308014906, -0.11938880794658165,
		 -1.6231538548640272, 1.7379038128547257},
		{3, 500, 0.6, -1.8509530506606184, 12.09038684093983, -0.03995114586337573,
		 -1.9080075593323633, 2.028790607645598},
		{4, 1000, 0.9, 0.3925165752103188, 43.82572639410111, 0.06561980751519289,
		 -4.2294893669202045, 3.418356586567561},
		{5, 8000, 0.8, 2.36839457417728, 71.18638718621565, 0.03242256445143288,
		 -2.672405126404275, 2.8144929755419836},
		{6, 60, 0.5, -2.216970839296996, 3.895240137745182, -0.6347553372909704,
		 -2.4695341529612307, 1.673168139972848},
	};
	static double x[8000];
	struct compare_summary s;
	bool is_trend;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		series(rows[i].seed, rows[i].phi, 0, 1, x, rows[i].n);
		near_by(x[0], rows[i].first, 1e-12);
		near_by(compare_block(x, (size_t)rows[i].n, &is_trend), rows[i].block,
			1e-9 * rows[i].block);
		assert_false(is_trend);
		assert_int_equal(compare_describe(x, (size_t)rows[i].n, &s), 0);
		near_by(s.median, rows[i].median, 1e-12);
		near_by(s.p5, rows[i].p5, 1e-12);
		near_by(s.p95, rows[i].p95, 1e-12);
		assert_true(s.last == x[rows[i].n - 1]);
	}
}

/* Blocks of one point are the plain bootstrap, which SciPy has; two errors of the quantile of
 * 20,000 resamples are some 2 % of the interval. */
static void test_plain_interval(void **state)
{
	static const struct {
		uint64_t seed[2];
		int n[2];
		double mean[2], scale, confidence, difference, low, high;
	} rows[] = {
		{{11, 12},
		 {101, 80},
		 {10, 10.5},
		 1,
		 0.95,
		 0.3417802154348699,
		 0.059336532177704626,
		 0.7648153415009329},
		{{11, 12},
		 {101, 80},
		 {10, 10.5},
		 1,
		 0.80,
		 0.3417802154348699,
		 0.17889323090749976,
		 0.6099848696003018},
		{{13, 14},
		 {300, 301},
		 {1, 1},
		 0.1,
		 0.95,
		 -0.010501221436220787,
		 -0.028542511261700154,
		 0.009595276573876266},
		{{13, 14},
		 {300, 301},
		 {1, 1},
		 0.1,
		 0.80,
		 -0.010501221436220787,
		 -0.02139960381540873,
		 0.0026318692315021597},
	};
	double a[301], b[301], within;
	struct compare_options o = {.tolerance = 0.01, .block = 1, .resamples = 20000, .seed = 5};
	struct compare_result r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		series(rows[i].seed[0], 0, rows[i].mean[0], rows[i].scale, a, rows[i].n[0]);
		series(rows[i].seed[1], 0, rows[i].mean[1], rows[i].scale, b, rows[i].n[1]);
		o.confidence = rows[i].confidence;
		assert_int_equal(
			compare_medians(a, (size_t)rows[i].n[0], b, (size_t)rows[i].n[1], &o, &r),
			0);
		within = 0.02 * (rows[i].high - rows[i].low);
		near_by(r.difference, rows[i].difference, 1e-12);
		near_by(r.low, rows[i].low, within);
		near_by(r.high, rows[i].high, within);
	}
}

/* Part of 300 pairs of runs that have the same level whose interval has 0 in it. */
static double coverage(size_t block)
{
	struct compare_options o = {
		.confidence = 0.95, .tolerance = 0.01, .block = block, .resamples = 400};
	double a[400], b[400];
	struct compare_result r;
	int i, in = 0;

	for (i = 0; i < 300; i++) {
		series(1000 + 2 * (uint64_t)i, 0.7, 5, 1, a, 400);
		series(1001 + 2 * (uint64_t)i, 0.7, 5, 1, b, 400);
		o.seed = (uint64_t)i;
		assert_int_equal(compare_medians(a, 400, b, 400, &o, &r), 0);
		in += r.low <= 0 && r.high >= 0;
	}
	return in / 300.0;
}

/* Of a nominal 95 %: blocks come near, single points do not, as these depend on their neighbours
 * (their effective number is about a fifth). */
static void test_coverage(void **state)
{
	double with = coverage(0), without = coverage(1);

	(void)state;
	if (with < 0.85 || with > 0.985)
		fail_msg("covered by blocks: %g", with);
	if (without > 0.75)
		fail_msg("covered by points: %g", without);
	print_message("covered: %g by blocks, %g by points\n", with, without);
}

static enum compare_verdict judge(double up, double tolerance, int direction, int n)
{
	struct compare_options o = {
		.confidence = 0.95, .tolerance = tolerance, .direction = direction, .seed = 1};
	double a[400], b[400];
	struct compare_result r, again;

	series(21, 0, 100, 0.5, a, 400);
	series(22, 0, 100 + up, 0.5, b, 400);
	assert_int_equal(compare_medians(a, 400, b, (size_t)n, &o, &r), 0);
	assert_int_equal(compare_medians(a, 400, b, (size_t)n, &o, &again), 0);
	assert_memory_equal(&r, &again, sizeof(r));
	assert_non_null(r.why);
	return r.verdict;
}

static void test_verdicts(void **state)
{
	static double trend[400];
	struct compare_options o = {.confidence = 0.95, .tolerance = 0.01, .direction = -1};
	double zero[30] = {0}, one[30];
	struct compare_result r;
	size_t i;

	(void)state;
	assert_int_equal(judge(3, 0.01, 1, 400), COMPARE_BETTER);
	assert_int_equal(judge(3, 0.01, -1, 400), COMPARE_WORSE);
	assert_int_equal(judge(-3, 0.01, -1, 400), COMPARE_BETTER);
	assert_int_equal(judge(3, 0.01, 0, 400), COMPARE_DIFFERS);
	assert_int_equal(judge(3, 0.05, -1, 400), COMPARE_SAME);
	assert_int_equal(judge(0, 0.01, -1, 400), COMPARE_SAME);
	assert_int_equal(judge(3, 0.01, -1, 19), COMPARE_NOT_ENOUGH);
	/* A trend is no level. */
	for (i = 0; i < 400; i++)
		trend[i] = 5 - (double)i / 100;
	assert_int_equal(compare_medians(trend, 400, trend, 400, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_NOT_ENOUGH);
	assert_true(isnan(r.low) && r.difference == 0);
	/* One value always, which no double is exactly: no trend. */
	for (i = 0; i < 400; i++)
		trend[i] = 0.4;
	assert_int_equal(compare_medians(trend, 400, trend, 399, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_SAME);
	/* Without a base there is no relative difference. */
	for (i = 0; i < 30; i++)
		one[i] = 1;
	assert_int_equal(compare_medians(zero, 30, one, 30, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_WORSE);
	assert_true(isnan(r.relative) && r.difference == 1 && r.low == 1 && r.high == 1);
	assert_int_equal(compare_medians(zero, 30, zero, 30, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_SAME);
	assert_int_equal(compare_medians(NULL, 0, one, 30, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_NOT_ENOUGH);
	assert_true(isnan(r.difference));
	o.confidence = 1;
	assert_int_equal(compare_medians(zero, 30, one, 30, &o, &r), -EINVAL);
}

/* Hundredths as a GPU's load is given in: off a level by -0.02 to 0.02, each as often. */
static void level(double at, double *x, int from, int to)
{
	uint64_t seed = (uint64_t)(at * 1000);
	int i;

	for (i = from; i < to; i++)
		x[i] = at + 0.01 * (floor(5 * uniform(&seed)) - 2);
}

/* Levels that change by 0.02, as the load of a GPU whose neighbour got slow, beside 0.64. */
static void test_apart(void **state)
{
	struct compare_options o = {.confidence = 0.95, .tolerance = 0.01, .direction = 1};
	double a[300], b[300];
	struct compare_result r;

	(void)state;
	level(0.90, a, 0, 100);
	level(0.94, a, 100, 300);
	level(0.64, b, 0, 300);
	assert_int_equal(compare_medians(a, 300, b, 300, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_WORSE);
	assert_int_equal(r.reason, COMPARE_APART);
	assert_string_equal(compare_reason_name(r.reason), "apart");
	assert_true(r.is_in[0] && !r.is_in[1]);
	/* a: 0.88 to 0.96, b: 0.62 to 0.66, and nothing of the two is farther out. */
	near_by(r.low, 0.62 - 0.96, 0.0101);
	near_by(r.high, 0.66 - 0.88, 0.0101);
	assert_int_equal(compare_medians(b, 300, a, 300, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_BETTER);
	assert_true(!r.is_in[0] && r.is_in[1] && r.low > 0 && r.low < r.high);
	/* b lies between the two levels of a: which is larger depends on the part. */
	level(0.92, b, 0, 300);
	assert_int_equal(compare_medians(a, 300, b, 300, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_NOT_ENOUGH);
	assert_int_equal(r.reason, COMPARE_LEVEL_CHANGES);
	assert_true(isnan(r.low) && !isnan(r.relative));
	/* Few points without a jump are no trend. */
	level(0.92, a, 0, 25);
	level(0.64, b, 0, 25);
	assert_int_equal(compare_medians(a, 25, b, 25, &o, &r), 0);
	assert_int_equal(r.verdict, COMPARE_WORSE);
	assert_int_equal(r.reason, COMPARE_BY_INTERVAL);
	assert_null(compare_reason_name(r.reason));
	assert_int_equal(compare_medians(a, 19, b, 25, &o, &r), 0);
	assert_int_equal(r.reason, COMPARE_FEW_POINTS);
	assert_true(r.is_in[0] && !r.is_in[1]);
}

static void test_thin(void **state)
{
	double x[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

	(void)state;
	assert_int_equal(compare_thin(x, 10, 10), 10);
	assert_int_equal(compare_thin(x, 10, 4), 4);
	assert_true(x[1] == 3 && x[3] == 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),   cmocka_unit_test(test_plain_interval),
		cmocka_unit_test(test_coverage), cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_apart),    cmocka_unit_test(test_thin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
