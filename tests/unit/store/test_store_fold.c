/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_fold.c - folding: nothing is lost, added or moved, whatever the
 * pattern; chunks end where they must; a failed fold leaves the tail.
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

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define SERIES 7

static int setup(void **state)
{
	*state = storetest_dir();
	return 0;
}

static int teardown(void **state)
{
	storetest_remove(*state);
	return 0;
}

static void check_file(const char *dir)
{
	char *path = storetest_path(dir, "h.db");
	struct err e = {0};

	if (store_check(path, &e) < 0)
		fail_msg("store_check: %s", e.text);
	free(path);
}

static uint64_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* What was pushed, in order, by series. */
struct reference {
	struct sink_sample *v;
	size_t n, cap;
};

static void check_series(const char *dir, uint32_t id, const struct reference *ref)
{
	struct storetest_points got = storetest_read_dir(dir, id);
	size_t i;

	assert_int_equal(got.n, ref->n);
	for (i = 0; i < ref->n; i++) {
		assert_int_equal(got.v[i].time_ns, ref->v[i].time_ns);
		assert_int_equal(got.v[i].step, ref->v[i].step);
		assert_int_equal(got.v[i].thread, ref->v[i].thread);
		assert_memory_equal(&got.v[i].value, &ref->v[i].value, 8);
	}
	free(got.v);
}

/* Random commits and folds; series of very different speed. */
static void test_nothing_is_lost(void **state)
{
	struct store *s = storetest_open(*state);
	struct reference ref[SERIES + 1] = {0};
	uint64_t seed = 42;
	uint32_t p = storetest_process(s, 1), id[SERIES], k;
	char name[8];
	size_t round, i, n;

	for (k = 0; k < SERIES; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, k == 6 ? SINK_SPAN : SINK_GAUGE);
	}
	for (round = 0; round < 60; round++) {
		n = random_next(&seed) % 2500;
		for (i = 0; i < n; i++) {
			uint64_t x = random_next(&seed);
			struct sink_sample v = {(int64_t)(round * 1000000 + i * 300 + x % 200),
						(int64_t)(round % 20), (double)x, 0,
						(uint32_t)(x % 3)};
			struct reference *r;

			/* s0 gets half, s1 a quarter, ... */
			for (k = 0; k < SERIES - 1 && (x >> k & 1); k++)
				;
			v.series = id[k];
			if (x % 11 == 0)
				v.step = SINK_STEP_NONE;
			r = &ref[k];
			r->v = xgrow(r->v, r->n, &r->cap, sizeof(*r->v));
			r->v[r->n++] = v;
			assert_int_equal(store_sink(s)->ops->samples(store_sink(s), &v, 1), 0);
		}
		storetest_commit(s);
		if (random_next(&seed) % 4 == 0)
			storetest_fold(s);
		if (round % 16 == 7) {
			for (k = 0; k < SERIES; k++)
				check_series(*state, id[k], &ref[k]);
			check_file(*state);
		}
		if (round == 40) {
			storetest_close(s);
			s = storetest_open(*state);
		}
	}
	assert_true(ref[0].n > 3 * CHUNK_POINTS_MAX);
	storetest_close(s);
	check_file(*state);
	for (k = 0; k < SERIES; k++) {
		check_series(*state, id[k], &ref[k]);
		free(ref[k].v);
	}
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 0);
}

static void push_many(struct store *s, uint32_t id, size_t n, int64_t first)
{
	size_t i;

	for (i = 0; i < n; i++)
		storetest_push(s, id, first + (int64_t)i, first + (int64_t)i,
			       (double)(first + (int64_t)i));
	storetest_commit(s);
	storetest_fold(s);
}

static void test_small_chunks_grow(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	push_many(s, id, 1000, 0); /* below 1,024: rewritten */
	push_many(s, id, 1000, 1000);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT n FROM chunk WHERE seq_min=1 AND seq_max=2"),
			 2000);
	push_many(s, id, 10, 2000); /* at or above: a new one */
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 2);
	push_many(s, id, CHUNK_POINTS_MAX, 2010);
	assert_int_equal(
		storetest_sql(*state, "SELECT group_concat(n) = '2000,8192,10' FROM chunk"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(start) = '0,2000,10192'"
					       " FROM chunk"),
			 1);
	storetest_close(s);
	check_file(*state);
}

static void test_chunks_never_cross_a_segment(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	push_many(s, id, 10, 100);
	storetest_push(s, id, 200, 105, 1); /* resumed at 105 */
	storetest_push(s, id, 201, 106, 2);
	storetest_push(s, id, 202, SINK_STEP_NONE, 3);
	storetest_push(s, id, 203, 90, 4); /* and at 90, in the same commit */
	storetest_commit(s);
	storetest_fold(s);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(n)='10,3,1' AND"
					       " group_concat(segment)='0,1,2' AND"
					       " group_concat(segment_step)='109,106,90'"
					       " FROM chunk"),
			 1);
	storetest_push(s, id, 204, 91, 5);
	storetest_commit(s);
	storetest_fold(s);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(n)='10,3,2' FROM chunk"), 1);
	storetest_close(s);
	check_file(*state);
}

static void test_figures(void **state)
{
	static const double values[] = {2, NAN, -4.5, 8, 8};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	size_t i;

	for (i = 0; i < 5; i++)
		storetest_push(s, id, 1000 - (int64_t)i, 3 + (int64_t)(i / 2), values[i]);
	storetest_commit(s);
	storetest_fold(s);
	assert_int_equal(
		storetest_sql(*state,
			      "SELECT count(*) FROM chunk WHERE n=5 AND nan=1 AND observed=4 AND"
			      " sum=13.5 AND min=-4.5 AND max=8 AND min_at=2 AND max_at=3 AND"
			      " first=2 AND last=8 AND time_min=996 AND time_max=1000 AND"
			      " step_min=3 AND step_max=5 AND ordinal=0 AND start=0"),
		1);
	storetest_close(s);
	check_file(*state);
}

static void test_histograms(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p = storetest_process(s, 1), g = storetest_series(s, p, "g", SINK_GAUGE);
	uint32_t id = storetest_series(s, p, "h", SINK_HISTOGRAM);
	struct sink_bin bins[2] = {{0x3ff0, 3}, {0x4000, 1}};
	struct sink_hist h = {.series = id,
			      .count = 4,
			      .nan = 1,
			      .sum = 5.5,
			      .min = 1,
			      .max = 2,
			      .bins = bins,
			      .n_bins = 2};
	struct storetest_points got;
	size_t i;

	for (i = 0; i < 3000; i++) {
		h.time_ns = h.step = (int64_t)i;
		assert_int_equal(k->ops->hist(k, &h), 0);
		storetest_push(s, g, (int64_t)i, (int64_t)i, 1);
		if (i == 1300 || i == 1310) {
			storetest_commit(s);
			storetest_fold(s);
		}
	}
	storetest_commit(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 3000);
	assert_true(got.v[2999].step == 2999 && got.v[2999].value == 5.5 / 4);
	free(got.v);
	storetest_close(s);
	check_file(*state);
	assert_int_equal(storetest_sql(*state, "SELECT sum(n) FROM chunk WHERE series=2 AND"
					       " observed=4*n AND nan=n AND sum=5.5*n AND min=1 AND"
					       " max=2"),
			 3000);
	assert_int_equal(storetest_sql(*state, "SELECT max(n) FROM chunk WHERE series=2"),
			 CHUNK_HISTS_MAX);
}

static void test_failed_fold_keeps_the_tail(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct storetest_points got;
	struct err e = {0};
	size_t i;

	for (i = 0; i < 20000; i++)
		storetest_push(s, id, (int64_t)(i * i * 7919), 1, (double)rand());
	storetest_commit(s);
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1", &e), 0);
	assert_int_equal(store_fold(s, true, &e), -ENOSPC);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 20000);
	free(got.v);
	err_clear(&e);
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1000000", &e), 0);
	storetest_push(s, id, 0, 1, 5);
	storetest_commit(s);
	storetest_close(s);
	check_file(*state);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 20001);
	free(got.v);
}

static void test_fold_waits_until_due(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct err e = {0};
	size_t i;

	for (i = 0; i < FOLD_ROWS; i++) {
		assert_int_equal(store_fold(s, false, &e), 0);
		storetest_push(s, id, (int64_t)i, (int64_t)i, 1);
		storetest_commit(s);
		if (i == FOLD_ROWS - 2)
			assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"),
					 FOLD_ROWS - 1);
	}
	assert_int_equal(store_fold(s, false, &e), 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 0);
	for (i = 0; i < FOLD_BYTES / 8 + 1; i++) /* by size */
		storetest_push(s, id, (int64_t)(i * i), 5000, (double)rand());
	storetest_commit(s);
	assert_int_equal(store_fold(s, false, &e), 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 0);
	storetest_close(s);
}

/* Slices: the first ones leave rows and say so; together they fold all. */
static void test_fold_in_slices(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct err e = {0};
	struct storetest_points got;
	size_t i, n = 0, slices = 0;
	int64_t left;

	while (n < FOLD_BYTES / 8 + 1) {
		for (i = 0; i < 10000; i++, n++)
			storetest_push(s, id, (int64_t)(n * n), (int64_t)n, (double)rand());
		storetest_commit(s);
	}
	left = storetest_sql(*state, "SELECT count(*) FROM tail");
	while (store_fold(s, false, &e) == 1) {
		int64_t now = storetest_sql(*state, "SELECT count(*) FROM tail");

		assert_true(now > 0 && now < left);
		left = now;
		slices++;
	}
	assert_true(slices >= FOLD_BYTES / FOLD_SLICE - 1);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 0);
	storetest_close(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, n);
	free(got.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_small_chunks_grow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chunks_never_cross_a_segment, setup, teardown),
		cmocka_unit_test_setup_teardown(test_figures, setup, teardown),
		cmocka_unit_test_setup_teardown(test_histograms, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_fold_keeps_the_tail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fold_waits_until_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fold_in_slices, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
