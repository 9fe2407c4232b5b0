/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_index.c - the index of runs: what it says of a run, and that it reads a
 * run only once while nothing changes. The linker leads the question for the date through a
 * function of this file: how old a file is must not depend on how long the test took.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/index.h"
#include "storetest.h"

#define RUNS 3

static struct timespec date; /* 0: the real one */

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	if (id != CLOCK_REALTIME || !date.tv_sec)
		return __real_clock_gettime(id, ret);
	*ret = date;
	return 0;
}

static int setup(void **state)
{
	char *root = storetest_dir(), *cache = storetest_path(root, ".cache");

	setenv("XDG_CACHE_HOME", cache, 1);
	free(cache);
	*state = root;
	return 0;
}

static int teardown(void **state)
{
	storetest_remove(*state);
	return 0;
}

static void make_run(const char *root, unsigned i)
{
	char *dir = xasprintf("%s/20260102-03040%u-test", root, i);
	struct run_start *start = xcalloc(1, sizeof(*start));
	struct err e = {0};
	struct store *s = storetest_open(dir);
	uint32_t one = storetest_process(s, 1), zero = storetest_process(s, 0), a, b, k;

	snprintf(start->id, sizeof(start->id), "20260102-03040%u-test", i);
	snprintf(start->name, sizeof(start->name), "run%u", i);
	assert_int_equal(store_start(s, start, &e), 0);
	a = storetest_series(s, one, "loss", SINK_GAUGE);
	b = storetest_series(s, zero, "loss", SINK_GAUGE);
	for (k = 0; k < 4; k++) {
		storetest_push(s, a, k, k, 100);
		storetest_push(s, b, k, k, (double[]){5, NAN, 1 + i, 3}[k]);
	}
	storetest_push(s, storetest_series(s, one, "step", SINK_SPAN), 9, 17, 1000);
	storetest_push(s, storetest_series(s, one, "data", SINK_SPAN), 9, 18, 1000);
	storetest_commit(s);
	storetest_close(s);
	free(start);
	free(dir);
}

static struct index *open_index(const char *root)
{
	struct index *x = NULL;
	struct err e = {0};

	assert_int_equal(index_open(root, &e, &x), 0);
	assert_int_equal(index_count(x), RUNS);
	return x;
}

/* Rank 0's loss: 5, NaN, 1 + i, 3. */
static void check_run(struct index *x, unsigned i)
{
	const struct index_run *r = index_get(x, i);
	const struct index_metric *m = index_metric(x, i, "loss");
	char name[16];

	snprintf(name, sizeof(name), "run%u", i);
	assert_null(r->error);
	assert_string_equal(r->run.name, name);
	assert_string_equal(r->run.hosts, "h");
	assert_int_equal(r->step, 17);
	assert_true(r->bytes >= 4096);
	assert_false(r->partial);
	assert_non_null(m);
	assert_int_equal(m->count, 4);
	assert_int_equal(m->step, 3);
	assert_true(m->last == 3 && m->max == 5 && m->min == 1 + i && m->sum == 9 + i);
	assert_null(index_metric(x, i, "data"));
	assert_null(index_metric(x, i, "los"));
}

/* It is so many seconds after run i was last written. */
static void set_date(const char *root, unsigned i, int seconds)
{
	char *path = xasprintf("%s/20260102-03040%u-test/h.db", root, i);
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	date = st.st_ctim;
	date.tv_sec += seconds;
	free(path);
}

static void reads_once(void **state)
{
	struct index *x;
	unsigned i;
	char *path;

	for (i = 0; i < RUNS; i++)
		make_run(*state, i);
	set_date(*state, 0, 1);
	x = open_index(*state);
	for (i = 0; i < RUNS; i++)
		check_run(x, i);
	assert_int_equal(index_reads(x), RUNS);
	index_close(x);
	/* Too young: it may change within the clock's step. */
	x = open_index(*state);
	check_run(x, 1);
	assert_int_equal(index_reads(x), 1);
	index_close(x);
	set_date(*state, RUNS - 1, 3);
	x = open_index(*state);
	check_run(x, 1);
	check_run(x, 2);
	assert_int_equal(index_reads(x), 2);
	index_close(x);
	x = open_index(*state);
	for (i = 0; i < RUNS; i++)
		check_run(x, i);
	assert_int_equal(index_reads(x), 1);
	index_close(x);
	x = open_index(*state);
	for (i = 0; i < RUNS; i++)
		check_run(x, i);
	assert_int_equal(index_reads(x), 0);
	index_close(x);
	path = xasprintf("%s/20260102-030401-test/h.db", (char *)*state);
	assert_int_equal(chmod(path, 0640), 0);
	free(path);
	x = open_index(*state);
	for (i = 0; i < RUNS; i++)
		check_run(x, i);
	assert_int_equal(index_reads(x), 1);
	index_close(x);
	date.tv_sec = 0;
}

static void bytes_there_and_back(void **state)
{
	struct index_run a, b;
	struct buf first;
	char *dir;
	size_t i;

	make_run(*state, 0);
	dir = storetest_path(*state, "20260102-030400-test");
	index_read(dir, "20260102-030400-test", &a);
	a.error = xstrdup("an error");
	buf_init(&first, 1 << 20);
	index_encode(&first, &a);
	assert_int_equal(index_decode(first.data, first.len, &b), 0);
	assert_string_equal(b.error, "an error");
	assert_string_equal(b.run.name, "run0");
	assert_int_equal(b.n_metrics, a.n_metrics);
	assert_true(isnan(b.run.user_s) == isnan(a.run.user_s));
	index_run_done(&b);
	for (i = 0; i < first.len; i++)
		assert_int_equal(index_decode(first.data, i, &b), -EUCLEAN);
	index_run_done(&a);
	buf_done(&first);
	free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_once, setup, teardown),
		cmocka_unit_test_setup_teardown(bytes_there_and_back, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
