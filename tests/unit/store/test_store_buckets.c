/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_buckets.c - charts worked out by hand: histograms, one grid for several series,
 * lost points, and questions that have no answer.
 */
#include "storetest.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- series at random ------------------------------------------------------------------- */

/* Histogram points: sums over observations, positions of points. */
static void test_histograms(void **state)
{
	const struct sink_bin bin = {0x3ff0, 3};
	const struct store_ref ref = {0, 1};
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "h", SINK_HISTOGRAM);
	struct sink_hist h = {.series = id, .bins = &bin, .n_bins = 1};
	struct store_reader *r = NULL;
	struct store_bucket total;
	struct store_result got;
	struct store_query q = {.points = 10, .no_raw = true};
	struct err e = {0};
	uint64_t count = 0;
	size_t i;

	(void)state;
	for (i = 0; i < 3000; i++) {
		h.time_ns = (int64_t)i * 100;
		h.step = (int64_t)i;
		h.count = i % 5 ? 3 : 0;
		h.nan = i % 2;
		h.sum = h.count ? 6 : 0;
		h.min = h.count ? 1 + (double)(i % 1000) : NAN;
		h.max = h.count ? 2000 + (double)i : NAN;
		assert_int_equal(store_sink(s)->ops->hist(store_sink(s), &h), 0);
		if (i == 2500) {
			storetest_commit(s);
			storetest_fold(s);
		}
	}
	storetest_commit(s);
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_total(r, &ref, false, &e, &total), 0);
	assert_true(total.count == 3000 && total.observed == 7200 && total.nan == 1500);
	assert_true(total.sum == 14400 && total.min == 2 && total.min_at == 1);
	assert_true(total.max == 4999 && total.max_at == 2999);
	assert_true(total.step_min == 0 && total.step_max == 2999 && isnan(total.first));
	assert_int_equal(store_reader_query(r, &q, &ref, 1, &e, NULL, &got), 0);
	assert_true(got.n >= 5 && got.n <= 10);
	for (i = 0; i < got.n; i++)
		count += got.buckets[i].observed;
	assert_int_equal(count, 7200);
	store_results_free(&got, 1);
	q = (struct store_query){.points = 10,
				 .range = {.by_step = true, .step_min = 2995, .step_max = 2999}};
	assert_int_equal(store_reader_query(r, &q, &ref, 1, &e, NULL, &got), 0);
	assert_true(got.raw && got.n == 5);
	assert_true(isnan(got.points[0].value) && got.points[1].value == 2);
	assert_null(got.points[0].hist);
	store_results_free(&got, 1);
	store_reader_close(r);
	storetest_close(s);
	storetest_remove(dir);
}

/* Several series on one grid: bucket i is the same span for all. */
static void test_one_grid_for_several(void **state)
{
	const struct store_ref refs[] = {{0, 2}, {0, 1}, {0, 2}, {0, 3}};
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	uint32_t p = storetest_process(s, 1), a, b;
	struct store_query q = {.points = 8, .aligned = true, .no_raw = true};
	struct store_reader *r = NULL;
	struct store_result got[4];
	struct store_grid grid;
	struct err e = {0};
	int64_t i;

	(void)state;
	a = storetest_series(s, p, "a", SINK_GAUGE);
	b = storetest_series(s, p, "b", SINK_GAUGE);
	storetest_series(s, p, "none", SINK_GAUGE);
	for (i = 0; i < 800; i++)
		storetest_push(s, a, 1000 + i, i, 1);
	for (i = 400; i < 800; i++)
		storetest_push(s, b, 1000 + i, i, (double)i);
	storetest_commit(s);
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_query(r, &q, refs, 4, &e, &grid, got), 0);
	assert_true(grid.n == 8 && grid.width == 100 && grid.x0 == 1000);
	for (i = 0; i < 8; i++) {
		assert_int_equal(got[1].buckets[i].count, 100);
		assert_int_equal(got[0].buckets[i].count, i < 4 ? 0 : 100);
		assert_int_equal(got[2].buckets[i].count, i < 4 ? 0 : 100);
		assert_int_equal(got[3].buckets[i].count, 0);
		if (i >= 4)
			assert_true(got[0].buckets[i].min == (double)i * 100 &&
				    got[0].buckets[i].max == (double)i * 100 + 99);
	}
	store_results_free(got, 4);
	/* Nothing in the range. */
	q.range = (struct store_range){.by_time = true, .time_min = 1, .time_max = 2};
	assert_int_equal(store_reader_query(r, &q, refs, 4, &e, &grid, got), 0);
	assert_true(grid.n == 0 && got[0].n == 0 && !got[0].raw);
	store_results_free(got, 4);
	store_reader_close(r);
	storetest_close(s);
	storetest_remove(dir);
}

/* Points that retention dropped are known by their summaries. */
static void test_lost_points(void **state)
{
	const struct store_ref ref = {0, 1};
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	struct store_query q = {.points = 50000};
	struct store_reader *r = NULL;
	struct store_result got;
	struct err e = {0};
	uint64_t count = 0;
	double sum = 0;
	int64_t i;
	size_t k;

	(void)state;
	for (i = 0; i < 40000; i++)
		storetest_push(s, id, i, i, 2);
	storetest_commit(s);
	storetest_close(s);
	storetest_sql(dir, "DELETE FROM chunk WHERE ordinal < 2");
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_query(r, &q, &ref, 1, &e, NULL, &got), 0);
	assert_false(got.raw);
	assert_int_equal(got.lost, 16384);
	for (k = 0; k < got.n; k++) {
		count += got.buckets[k].count;
		sum += got.buckets[k].sum;
	}
	assert_true(count == 40000 && sum == 80000);
	store_results_free(&got, 1);
	/* Half of a leaf: it counts whole or not at all. */
	q.range = (struct store_range){.by_time = true, .time_min = 612, .time_max = 16383};
	assert_int_equal(store_reader_query(r, &q, &ref, 1, &e, NULL, &got), 0);
	assert_int_equal(got.lost, 16384 - 512);
	store_results_free(&got, 1);
	/* What is still there is as good as ever. */
	q.range.time_min = 16384;
	q.range.time_max = 20000;
	assert_int_equal(store_reader_query(r, &q, &ref, 1, &e, NULL, &got), 0);
	assert_true(got.raw && got.n == 3617 && got.lost == 0);
	store_results_free(&got, 1);
	store_reader_close(r);
	storetest_remove(dir);
}

static void test_impossible_questions(void **state)
{
	const struct store_ref good = {0, 1}, no_series = {0, 9}, no_host = {1, 1};
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	struct store_query q = {0};
	struct store_reader *r = NULL;
	struct store_result got;
	struct err e = {0};

	(void)state;
	storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	storetest_commit(s);
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_query(r, &q, &good, 1, &e, NULL, &got), 0);
	assert_true(got.raw && got.n == 0);
	store_results_free(&got, 1);
	assert_int_equal(store_reader_query(r, &q, &no_series, 1, &e, NULL, &got), -ENOENT);
	assert_int_equal(store_reader_query(r, &q, &no_host, 1, &e, NULL, &got), -EINVAL);
	q.points = STORE_BUCKETS_MAX + 1;
	assert_int_equal(store_reader_query(r, &q, &good, 1, &e, NULL, &got), -EINVAL);
	q.points = 1;
	q.range = (struct store_range){.by_step = true, .step_min = 2, .step_max = 1};
	assert_int_equal(store_reader_query(r, &q, &good, 1, &e, NULL, &got), -EINVAL);
	store_reader_close(r);
	storetest_close(s);
	storetest_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_histograms),
		cmocka_unit_test(test_one_grid_for_several),
		cmocka_unit_test(test_lost_points),
		cmocka_unit_test(test_impossible_questions),
	};

	return cmocka_run_group_tests_name("store_query", tests, NULL, NULL);
}
