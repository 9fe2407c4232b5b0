/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a series alone: the same as of blocks, whatever the range, the attempts
 * and the threads; what may be passed over; what retention drops meanwhile. The linker
 * leads the making of threads through a function of this file.
 */
#include "storetest.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH 2000000 /* 245 chunks: enough for helpers */

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

static unsigned cores = 1, created;
static bool threads_fail;

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	if (threads_fail)
		return EAGAIN;
	created++;
	return __real_pthread_create(ret, a, fn, arg);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	unsigned i;

	(void)pid;
	CPU_ZERO_S(size, set);
	for (i = 0; i < cores; i++)
		CPU_SET_S(i, size, set);
	return 0;
}

static double value_at(int64_t i)
{
	return i % 1009 == 7 ? NAN : (double)(i * 7919 % 10007) - 1000;
}

/* A gauge that was resumed twice, of which some points have no step; a span; a
 * histogram. The last 1,000 points are in the tail. */
static void make(const char *dir, int64_t n)
{
	struct store *s = storetest_open(dir);
	uint32_t p = storetest_process(s, 1), gauge, span, hist;
	const struct sink_bin bin = {0x3ff0, 1};
	int64_t i, step;

	gauge = storetest_series(s, p, "loss", SINK_GAUGE);
	span = storetest_series(s, p, "step", SINK_SPAN);
	hist = storetest_series(s, p, "grad", SINK_HISTOGRAM);
	for (i = 0; i < n; i++) {
		step = i < n / 2 ? i : i < n / 4 * 3 ? i - n / 8 : i - n / 4;
		storetest_push(s, gauge, 1000 + 10 * i, i % 5000 == 3 ? SINK_STEP_NONE : step,
			       value_at(i));
		if (i % 16 == 0)
			storetest_push(s, span, 1000 + 10 * i, step, (double)(i % 977));
		if (i % (1 << 17) != 0 && i != n - 1000)
			continue;
		storetest_commit(s);
		storetest_fold(s);
	}
	assert_int_equal(store_sink(s)->ops->hist(store_sink(s), &(struct sink_hist){.series = hist,
										     .time_ns = 1,
										     .step = 1,
										     .count = 1,
										     .sum = 1,
										     .min = 1,
										     .max = 1,
										     .bins = &bin,
										     .n_bins = 1}),
			 0);
	storetest_commit(s);
	assert_int_equal(store_leave(s, NULL), 0);
}

/* ---- sums over values ------------------------------------------------------------------ */

struct sums {
	pthread_mutex_t lock;
	uint64_t n, nan, skipped;
	double sum, squares;
	bool skips;     /* those below 0 */
	bool is_beyond; /* a value was not where it should have been */
};

static void add(struct sums *s, const double *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		s->nan += isnan(v[i]) != 0;
		s->sum += isnan(v[i]) ? 0 : v[i];
		s->squares += isnan(v[i]) ? 0 : v[i] * v[i];
	}
	s->n += n;
}

static int block(void *arg, const struct store_block *b)
{
	add(arg, b->value, b->n);
	return 0;
}

static bool pass_over(void *arg, double min, double max, uint64_t n)
{
	struct sums *s = arg;

	s->is_beyond = s->is_beyond || min > max || n == 0;
	if (!s->skips || max >= 0)
		return false;
	s->skipped += n;
	return true;
}

static void take(void *arg, const double *values, size_t n, double min, double max)
{
	struct sums *s = arg;
	size_t i;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < n; i++)
		s->is_beyond = s->is_beyond || values[i] < min || values[i] > max;
	add(s, values, n);
	pthread_mutex_unlock(&s->lock);
}

static int pass(struct store_values *v, struct sums *s)
{
	const struct store_values_to to = {pass_over, take, s};
	struct err e = {0};
	int r;

	pthread_mutex_init(&s->lock, NULL);
	r = store_values_pass(v, &to, &e);
	pthread_mutex_destroy(&s->lock);
	if (r < 0)
		fail_msg("%s", e.text);
	assert_false(s->is_beyond);
	return r;
}

/* Whole numbers: sums are exact in any order. */
static void compare(struct store_reader *r, uint32_t series, const struct store_range *range)
{
	const struct store_ref ref = {0, series};
	struct sums expected = {0}, got = {0};
	struct store_values *v;
	struct err e = {0};
	size_t n;

	assert_int_equal(store_reader_blocks(r, 0, series, range, block, &expected, &e), 0);
	assert_int_equal(store_values_open(r, &ref, range, UINT64_MAX, &e, &v), 0);
	assert_int_equal(pass(v, &got), 0);
	assert_int_equal(got.n, expected.n);
	assert_int_equal(got.nan, expected.nan);
	assert_true(got.sum == expected.sum && got.squares == expected.squares);
	assert_true(store_values_count(v) >= got.n);
	store_values_sample(v, &n);
	assert_true(n <= store_values_count(v));
	/* Once more over the same. */
	got = (struct sums){0};
	assert_int_equal(pass(v, &got), 0);
	assert_int_equal(got.n, expected.n);
	store_values_close(v);
}

static void compare_all(struct store_reader *r, uint32_t series)
{
	const struct store_range ranges[] = {
		{0},
		{.all_segments = true},
		{.by_time = true, .time_min = 1000, .time_max = 1000 + 10 * LENGTH},
		{.by_time = true, .time_min = 5000, .time_max = 4000000},
		{.by_time = true, .time_min = 10 * (LENGTH - 1500), .time_max = INT64_MAX},
		{.by_time = true, .time_min = 1, .time_max = 2},
		{.by_step = true, .step_min = 100, .step_max = LENGTH / 3},
		{.by_step = true, .step_min = 100, .step_max = LENGTH, .all_segments = true},
		{.by_time = true,
		 .by_step = true,
		 .time_min = 9000000,
		 .time_max = 15000000,
		 .step_min = 900000,
		 .step_max = 1300000},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(ranges); i++)
		compare(r, series, &ranges[i]);
	compare(r, series, NULL);
}

static struct store_reader *reader(const char *dir)
{
	struct store_reader *r;
	struct err e = {0};

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("%s", e.text);
	return r;
}

static void test_same_as_blocks(void **state)
{
	char *dir = storetest_dir();
	struct store_reader *r;

	(void)state;
	make(dir, LENGTH);
	r = reader(dir);
	cores = 1;
	created = 0;
	compare_all(r, 1);
	assert_int_equal(created, 0);
	compare_all(r, 2);
	cores = 64;
	compare_all(r, 1);
	assert_true(created > 0);
	threads_fail = true;
	compare(r, 1, NULL);
	threads_fail = false;
	store_reader_close(r);
	storetest_remove(dir);
}

static void test_errors(void **state)
{
	char *dir = storetest_dir();
	const struct store_range all = {.all_segments = true};
	struct store_ref ref = {0, 3};
	struct store_values *v;
	struct store_reader *r;
	struct err e = {0};

	(void)state;
	make(dir, 3000);
	r = reader(dir);
	assert_int_equal(store_values_open(r, &ref, NULL, UINT64_MAX, &e, &v), -EINVAL);
	assert_non_null(strstr(e.text, "histograms"));
	ref.series = 1;
	err_clear(&e);
	assert_int_equal(store_values_open(r, &ref, &all, 2999, &e, &v), -EFBIG);
	assert_non_null(strstr(e.text, "more than 2999 values"));
	assert_int_equal(store_values_open(r, &ref, &all, 3000, &e, &v), 0);
	assert_int_equal(store_values_count(v), 3000);
	store_values_close(v);
	ref.series = 9;
	assert_int_equal(store_values_open(r, &ref, NULL, UINT64_MAX, &e, &v), -ENOENT);
	ref.host = 1;
	assert_int_equal(store_values_open(r, &ref, NULL, UINT64_MAX, &e, &v), -EINVAL);
	store_reader_close(r);
	storetest_remove(dir);
}

/* Chunks whose limits say enough are not read, even if they cannot be. */
static void test_skip(void **state)
{
	const struct store_ref ref = {0, 1};
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	struct sums sums = {.skips = true};
	const struct store_values_to to = {pass_over, take, &sums};
	struct store_values *v;
	struct store_reader *r;
	struct err e = {0};
	int64_t i;

	(void)state;
	for (i = 0; i < 4 * 8192; i++)
		storetest_push(s, id, 1000 + i, i, i < 2 * 8192 ? -5 : 5 + (double)(i % 3));
	storetest_commit(s);
	assert_int_equal(store_close(s, NULL), 0);
	storetest_sql(dir, "UPDATE chunk SET len = len - 1 WHERE ordinal = 0");
	r = reader(dir);
	assert_int_equal(store_values_open(r, &ref, NULL, UINT64_MAX, &e, &v), 0);
	assert_int_equal(pass(v, &sums), 0);
	assert_int_equal(sums.skipped, 2 * 8192);
	assert_int_equal(sums.n, 2 * 8192);
	/* Read, it is found to be damaged. */
	sums = (struct sums){0};
	pthread_mutex_init(&sums.lock, NULL);
	assert_int_equal(store_values_pass(v, &to, &e), -EUCLEAN);
	assert_non_null(strstr(e.text, "series 1, ordinal 0"));
	pthread_mutex_destroy(&sums.lock);
	store_values_close(v);
	store_reader_close(r);
	storetest_remove(dir);
}

static void test_retention(void **state)
{
	const struct store_ref ref = {0, 1};
	char *dir = storetest_dir();
	struct store_values *v;
	struct sums sums = {0};
	struct store_reader *r;
	struct err e = {0};

	(void)state;
	make(dir, 100000);
	r = reader(dir);
	assert_int_equal(store_values_open(r, &ref, NULL, UINT64_MAX, &e, &v), 0);
	storetest_sql(dir, "DELETE FROM chunk WHERE series = 1 AND ordinal < 2");
	assert_int_equal(pass(v, &sums), 1);
	store_values_close(v);
	/* Those that were gone before are not asked for. */
	compare(r, 1, NULL);
	compare(r, 1, &(struct store_range){.all_segments = true});
	store_reader_close(r);
	storetest_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_blocks),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_retention),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
