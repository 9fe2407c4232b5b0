/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts of files that are not in the page cache: threads help, and the answers are
 * those without them, whatever fails. The linker leads what the kernel counts, and the
 * making of threads, through functions of this file.
 */
#include "storetest.h"

#include "base/mem.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define SERIES 12u
#define LENGTH 30000 /* of the first; each of the others has 1,000 less */

int __real_getrusage(int who, struct rusage *ret);
int __wrap_getrusage(int who, struct rusage *ret);
int __real_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_join(pthread_t thread, void **ret);

/* What pthread_create() does. */
static enum {
	PLAIN,
	AT_ONCE, /* the first thread runs before the caller goes on; there are no others */
	FAIL
} create;
static bool cold; /* the kernel counts pages whenever it is asked; otherwise never */
static long blocks;
static unsigned created;

int __wrap_getrusage(int who, struct rusage *ret)
{
	int r = __real_getrusage(who, ret);

	if (who == RUSAGE_THREAD)
		ret->ru_inblock = cold ? blocks += 16 : blocks;
	return r;
}

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	int r;

	if (create == FAIL || (create == AT_ONCE && created))
		return EAGAIN;
	r = __real_pthread_create(ret, a, fn, arg);
	created += r == 0;
	if (r == 0 && create == AT_ONCE)
		__real_pthread_join(*ret, NULL);
	return r;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
	return create == AT_ONCE ? 0 : __real_pthread_join(thread, ret);
}

/* ---- a run ------------------------------------------------------------------------------ */

static double value_at(size_t series, int64_t i)
{
	return (double)((i * 7919 + (int64_t)series * 13) % 1009);
}

/* Series of some chunks that were resumed once, and one of histograms; n more points of
 * each in the tail. */
static struct store *make(const char *dir, const char *host, int64_t n)
{
	const struct store_options o = {.dir = dir, .host = host};
	const struct sink_bin bin = {0x3ff0, 3};
	struct err e = {0};
	struct store *s = NULL;
	uint32_t p, ids[SERIES];
	char name[32];
	int64_t i, k;

	assert_int_equal(store_open(&o, &e, &s), 0);
	p = storetest_process(s, 1);
	for (k = 0; k < SERIES; k++) {
		snprintf(name, sizeof(name), "s/%d", (int)k);
		ids[k] = storetest_series(s, p, name, k + 1 < SERIES ? SINK_GAUGE : SINK_HISTOGRAM);
	}
	for (i = 0; i < LENGTH + n; i++) {
		if (i == LENGTH) {
			storetest_commit(s);
			storetest_fold(s);
		}
		for (k = 0; k + 1 < SERIES; k++)
			if (i < LENGTH - 1000 * k || i >= LENGTH)
				storetest_push(s, ids[k], 1000 + 10 * i, i > 20000 ? i - 5000 : i,
					       value_at((size_t)k, i));
		if (i % 20 == 0) {
			struct sink_hist h = {.series = ids[k],
					      .time_ns = 1000 + 10 * i,
					      .step = i,
					      .count = 3,
					      .sum = 3.5,
					      .min = 1,
					      .max = 1.25,
					      .bins = &bin,
					      .n_bins = 1};
			assert_int_equal(store_sink(s)->ops->hist(store_sink(s), &h), 0);
		}
	}
	storetest_commit(s);
	return s;
}

/* ---- answers ----------------------------------------------------------------------------- */

struct answer {
	int code;
	struct err e;
	struct store_grid grid;
	struct store_result results[3 * SERIES];
};

static void ask(struct store_reader *r, const struct store_query *q, const struct store_ref *refs,
		size_t n, struct answer *ret)
{
	*ret = (struct answer){0};
	created = 0;
	ret->code = store_reader_query(r, q, refs, n, &ret->e, &ret->grid, ret->results);
}

static void check_same(const struct answer *a, const struct answer *b, size_t n)
{
	size_t i, k;

	assert_int_equal(a->code, b->code);
	assert_string_equal(a->e.text, b->e.text);
	assert_true(a->grid.x0 == b->grid.x0 && a->grid.width == b->grid.width &&
		    a->grid.n == b->grid.n);
	for (i = 0; i < n; i++) {
		const struct store_result *x = &a->results[i], *y = &b->results[i];

		assert_true(x->raw == y->raw && x->aligned == y->aligned && x->n == y->n &&
			    x->lost == y->lost);
		for (k = 0; k < x->n && x->raw; k++)
			assert_memory_equal(&x->points[k], &y->points[k],
					    offsetof(struct store_point, hist));
		for (k = 0; k < x->n && !x->raw; k++)
			assert_memory_equal(&x->buckets[k], &y->buckets[k],
					    offsetof(struct store_bucket, segment) + 4);
	}
}

/* Without threads and with them. */
static void check_one(const char *dir, const struct store_query *q, const struct store_ref *refs,
		      size_t n, unsigned want)
{
	struct store_reader *r = NULL;
	struct answer plain, helped;
	struct err e = {0};

	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	cold = false;
	ask(r, q, refs, n, &plain);
	assert_int_equal(created, 0);
	cold = true;
	ask(r, q, refs, n, &helped);
	cold = false;
	check_same(&plain, &helped, n);
	assert_in_range(created, want, want ? 2 * 8 : 0);
	store_results_free(plain.results, n);
	store_results_free(helped.results, n);
	store_reader_close(r);
}

static void check_all(const char *dir, const struct store_ref *refs, size_t n, unsigned want)
{
	static const struct store_query questions[] = {
		{.points = 20},
		{.points = 20, .axis = STORE_BY_STEP},
		{.points = 50, .aligned = true},
		{.points = 50, .axis = STORE_BY_STEP, .aligned = true},
		{.points = 10, .range = {.by_time = true, .time_min = 70000, .time_max = 231111}},
		{.points = 500, .range = {.by_step = true, .step_min = 14000, .step_max = 14300}},
	};
	size_t i;

	for (i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
		check_one(dir, &questions[i], refs, n, want);
}

static void refs_of(unsigned hosts, struct store_ref *refs)
{
	size_t i;

	for (i = 0; i < (size_t)hosts * SERIES; i++)
		refs[i] = (struct store_ref){(unsigned)(i % hosts), 1 + (uint32_t)(i / hosts)};
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_same_answers(void **state)
{
	char *dir = storetest_dir();
	struct store_ref refs[3 * SERIES];

	(void)state;
	storetest_close(make(dir, "h", 0));
	storetest_close(make(dir, "g", 0));
	refs_of(2, refs);
	create = PLAIN;
	check_all(dir, refs, 2 * SERIES, 8);
	check_all(dir, refs, 3, 2); /* as many as there are series behind the first */
	check_all(dir, refs, 1, 0);
	create = AT_ONCE;
	check_all(dir, refs, 2 * SERIES, 1);
	refs[1] = refs[2] = refs[0]; /* one asked for again and again */
	check_all(dir, refs, 4, 1);
	create = FAIL;
	check_all(dir, refs, 2 * SERIES, 0);
	create = PLAIN;
	storetest_remove(dir);
}

/* What is in the tail is answered by the reader alone. */
static void test_tail(void **state)
{
	char *dir = storetest_dir();
	struct store_ref refs[3 * SERIES];
	struct store *s = make(dir, "h", 700);

	(void)state;
	assert_true(s->tail_rows > 0);
	storetest_close(make(dir, "g", 0));
	refs_of(2, refs);
	create = PLAIN;
	check_all(dir, refs, 2 * SERIES, 8);
	create = AT_ONCE;
	check_all(dir, refs, 2 * SERIES, 1);
	create = PLAIN;
	storetest_close(s);
	storetest_remove(dir);
}

/* Points by their numbers. */
static void test_points(void **state)
{
	struct store_place places[SERIES - 1];
	struct store_point got[SERIES - 1];
	char *dir = storetest_dir();
	struct store_reader *r = NULL;
	struct err e = {0};
	size_t i;

	(void)state;
	storetest_close(make(dir, "h", 0));
	for (i = 0; i + 1 < SERIES; i++)
		places[i] = (struct store_place){{0, (uint32_t)i + 1}, 9000 + i};
	places[4].at = 40000; /* there is none */
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	for (create = PLAIN; create <= AT_ONCE; create++) {
		cold = true;
		created = 0;
		memset(got, 0, sizeof(got));
		assert_int_equal(store_reader_at(r, places, SERIES - 1, &e, got), 0);
		cold = false;
		assert_true(created > 0);
		for (i = 0; i + 1 < SERIES; i++) {
			if (i == 4) {
				assert_true(got[i].time_ns == INT64_MIN);
				continue;
			}
			assert_true(got[i].time_ns == 1000 + 10 * (9000 + (int64_t)i));
			assert_true(got[i].value == value_at(i, 9000 + (int64_t)i));
		}
	}
	create = PLAIN;
	store_reader_close(r);
	storetest_remove(dir);
}

/* One that cannot be answered is told, as if there were no threads. */
static void test_errors(void **state)
{
	const struct store_query q = {.points = 20}, aligned = {.points = 20, .aligned = true};
	char *dir = storetest_dir();
	struct store_ref refs[3 * SERIES];

	(void)state;
	storetest_close(make(dir, "h", 0));
	refs_of(1, refs);
	refs[SERIES].host = 0;
	refs[SERIES].series = SERIES + 5;
	for (create = PLAIN; create <= AT_ONCE; create++) {
		check_one(dir, &q, refs, SERIES + 1, 1);
		check_one(dir, &aligned, refs, SERIES + 1, 1);
	}
	storetest_sql(dir, "UPDATE summary SET blob = x'07' || substr(blob, 2, 40)"
			   " WHERE id >> 40 = 6 AND (id >> 36) & 15 > 0");
	for (create = PLAIN; create <= AT_ONCE; create++) {
		check_one(dir, &q, refs, SERIES, 1);
		check_one(dir, &aligned, refs, SERIES, 1);
	}
	create = PLAIN;
	storetest_remove(dir);
}

/* Another file of a run that has the same place now. */
static void make_other(const char *path)
{
	char *dir = storetest_dir(), *from = storetest_path(dir, "h.db");
	struct store *s = storetest_open(dir);
	uint32_t p = storetest_process(s, 9), k;
	char name[32];
	int64_t i;

	for (k = 0; k < SERIES; k++) {
		snprintf(name, sizeof(name), "other/%u", k);
		storetest_series(s, p, name, SINK_GAUGE);
		for (i = 0; i < 10000; i++)
			storetest_push(s, k + 1, i, i, -1);
	}
	storetest_commit(s);
	storetest_close(s);
	assert_int_equal(rename(from, path), 0);
	free(from);
	storetest_remove(dir);
}

/* The file cannot be opened again, or is another one: the reader goes on with what it has open. */
static void test_gone(void **state)
{
	const struct store_query q = {.points = 20};
	char *dir = storetest_dir(), *path = storetest_path(dir, "h.db");
	struct store_ref refs[3 * SERIES];
	struct answer plain, helped;
	struct store_reader *r = NULL;
	struct err e = {0};
	int i;

	(void)state;
	storetest_close(make(dir, "h", 0));
	refs_of(1, refs);
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	ask(r, &q, refs, SERIES, &plain);
	assert_int_equal(plain.code, 0);
	assert_int_equal(unlink(path), 0);
	cold = true;
	for (i = 0; i < 4; i++) {
		create = PLAIN;
		if (i == 2)
			make_other(path);
		create = i % 2 ? AT_ONCE : PLAIN;
		ask(r, &q, refs, SERIES, &helped);
		assert_true(created > 0);
		check_same(&plain, &helped, SERIES);
		store_results_free(helped.results, SERIES);
	}
	create = PLAIN;
	cold = false;
	store_results_free(plain.results, SERIES);
	store_reader_close(r);
	free(path);
	storetest_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_answers), cmocka_unit_test(test_tail),
		cmocka_unit_test(test_points),       cmocka_unit_test(test_errors),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
