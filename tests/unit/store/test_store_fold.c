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
			storetest_merge(s);
		else if (random_next(&seed) % 16 == 0)
			storetest_fold(s);
		if (round % 16 == 7) {
			for (k = 0; k < SERIES; k++)
				check_series(*state, id[k], &ref[k]);
			storetest_check(*state);
		}
		if (round == 40) {
			storetest_close(s);
			s = storetest_open(*state);
		}
	}
	assert_true(ref[0].n > 3 * CHUNK_POINTS_MAX);
	storetest_close(s);
	storetest_check(*state);
	for (k = 0; k < SERIES; k++) {
		check_series(*state, id[k], &ref[k]);
		free(ref[k].v);
	}
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 0);
}

/* Number of plain rows, and of merged ones. */
static void check_tail(const char *dir, int64_t plain, int64_t merged)
{
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM tail WHERE seq > ifnull((SELECT"
					    " value FROM meta WHERE key='folded'), 0)"),
			 plain);
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM tail WHERE seq <= ifnull((SELECT"
					    " value FROM meta WHERE key='folded'), 0)"),
			 merged);
}

static void test_few_points_stay_merged(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	storetest_push_many(s, id, 1000, 0);
	storetest_merge(s);
	check_tail(*state, 0, 1);
	storetest_push_many(s, id, 1000, 1000); /* as many: one row of both */
	check_tail(*state, 1, 1);
	storetest_merge(s);
	check_tail(*state, 0, 1);
	storetest_push_many(s, id, 10, 2000); /* fewer: a row of their own */
	storetest_merge(s);
	check_tail(*state, 0, 2);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 0);
	storetest_check(*state);
	storetest_push_many(s, id, CHUNK_POINTS_MAX, 2010);
	storetest_merge(s);
	check_tail(*state, 0, 1);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(n) = '8192' FROM chunk"), 1);
	storetest_check(*state);
	storetest_close(s);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(n) = '8192,2010' AND"
					       " group_concat(start) = '0,8192' FROM chunk"),
			 1);
	check_tail(*state, 0, 0);
	storetest_check(*state);
}

/* A series whose older points lie in a row that is not taken waits for them. */
static void test_older_points_come_first(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), a = storetest_series(s, p, "a", SINK_GAUGE);
	uint32_t b = storetest_series(s, p, "b", SINK_GAUGE);
	struct storetest_points got;
	size_t i;

	storetest_push_many(s, a, 8000, 0);
	storetest_push_many(s, b, 8000, 0);
	storetest_merge(s); /* 16,000 points in a merged row */
	storetest_push_many(s, a, 9000, 8000);
	storetest_merge(s); /* 9,000 beside it: a's are not its first */
	check_tail(*state, 0, 2);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 0);
	storetest_close(s);
	storetest_check(*state);
	got = storetest_read_dir(*state, a);
	assert_int_equal(got.n, 17000);
	for (i = 0; i < got.n; i++)
		assert_true(got.v[i].value == (double)i);
	free(got.v);
}

/* What is folded last may leave no merged row, while an older one is still there:
 * sealing that alone must not take the numbers of commits back. */
static void test_numbers_never_go_back(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), a = storetest_series(s, p, "a", SINK_GAUGE);
	uint32_t b = storetest_series(s, p, "b", SINK_GAUGE), k;

	for (k = 0; k < 5; k++) {
		uint32_t id;
		char name[8];

		snprintf(name, sizeof(name), "c%u", k);
		id = storetest_series(s, p, name, SINK_GAUGE);
		storetest_push_many(s, id, 8000, 0);
	}
	storetest_push_many(s, a, 8000, 0);
	storetest_merge(s); /* a merged row of 48,000 points, as of commit 6 */
	storetest_push_many(s, b, CHUNK_POINTS_MAX, 0);
	storetest_merge(s); /* one full chunk, and nothing beside it */
	check_tail(*state, 0, 1);
	assert_int_equal(storetest_sql(*state, "SELECT max(seq) FROM tail"), 6);
	assert_int_equal(s->meta[META_FOLDED], 7);
	storetest_fold(s);
	assert_int_equal(s->meta[META_FOLDED], 7);
	storetest_check(*state);
	storetest_close(s);
	s = storetest_open(*state);
	storetest_push(s, a, 9000, 9000, 1);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT max(seq) FROM tail"), 8);
	storetest_close(s);
	storetest_check(*state);
}

static void test_chunks_never_cross_a_segment(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	storetest_push_many(s, id, 10, 100);
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
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(n)='10,3,1,1' AND"
					       " group_concat(segment)='0,1,2,2' FROM chunk"),
			 1);
	storetest_close(s);
	storetest_check(*state);
}

/* Rounds of 40 series of which some miss some: one axis is enough for all. */
static void test_rounds_share_an_axis(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[40], k;
	struct storetest_points got;
	char name[8];
	size_t round, n;

	for (k = 0; k < 40; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (round = 0; round < 9600; round++) {
		for (k = 0; k < 40; k++)
			/* All but number 2 miss one round in 50, each others; 0 more of them. */
			if (k == 2 || (round * 31 + k * 17) % (k ? 50 : 10) != 0)
				storetest_push(s, id[k], (int64_t)(round * 1000 + round % 7),
					       SINK_STEP_NONE, (double)(round ^ k));
		if (round % 600 == 599) {
			storetest_commit(s);
			storetest_merge(s);
		}
	}
	storetest_commit(s);
	assert_true(storetest_sql(*state, "SELECT count(*) FROM chunk") >= 36);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM axis"), 1);
	storetest_check(*state);
	storetest_close(s);
	storetest_check(*state);
	assert_true(storetest_sql(*state, "SELECT count(*) FROM axis") <= 3);
	for (k = 0; k < 40; k++) {
		got = storetest_read_dir(*state, id[k]);
		for (round = n = 0; round < 9600; round++) {
			if (k != 2 && (round * 31 + k * 17) % (k ? 50 : 10) == 0)
				continue;
			assert_true(got.v[n].time_ns == (int64_t)(round * 1000 + round % 7) &&
				    got.v[n].value == (double)(round ^ k));
			n++;
		}
		assert_int_equal(got.n, n);
		free(got.v);
	}
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
	storetest_check(*state);
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
			check_tail(*state, FOLD_ROWS - 1, 0);
	}
	assert_int_equal(store_fold(s, false, &e), 0);
	check_tail(*state, 0, 1);
	for (i = 0; i < FOLD_BYTES / 8 + 1; i++) /* by size */
		storetest_push(s, id, (int64_t)(i * i), 5000, (double)rand());
	storetest_commit(s);
	assert_int_equal(store_fold(s, false, &e), 0);
	check_tail(*state, 0, 1);
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
	uint64_t left;

	while (n < FOLD_BYTES / 8 + 1) {
		for (i = 0; i < 10000; i++, n++)
			storetest_push(s, id, (int64_t)(n * n), (int64_t)n, (double)rand());
		storetest_commit(s);
	}
	left = s->tail_rows;
	while (store_fold(s, false, &e) == 1) {
		assert_true(s->tail_rows > 0 && s->tail_rows < left);
		left = s->tail_rows;
		check_tail(*state, (int64_t)left, 1);
		slices++;
	}
	assert_true(slices >= FOLD_BYTES / FOLD_SLICE - 1);
	check_tail(*state, 0, 1);
	assert_int_equal(storetest_sql(*state, "SELECT min(n) FROM chunk"), CHUNK_POINTS_MAX);
	storetest_close(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, n);
	free(got.v);
}

/* Merged rows do not grow without limit: the longest series are sealed early. */
static void test_merged_rows_are_limited(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[200], k;
	uint64_t seed = 7;
	char name[8];
	int round, i;

	for (k = 0; k < 200; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (round = 0; round < 12; round++) {
		for (i = 0; i < 400; i++)
			for (k = 0; k < 200; k++)
				storetest_push(s, id[k], round * 1000 + i, round * 1000 + i,
					       (double)random_next(&seed) / 3);
		storetest_commit(s);
		storetest_merge(s);
		assert_true(storetest_sql(*state, "SELECT sum(length(blob)) FROM tail") <
			    2 * FOLD_MERGED_BYTES);
	}
	assert_true(storetest_sql(*state, "SELECT count(*) FROM chunk") > 0);
	storetest_check(*state);
	storetest_close(s);
	storetest_check(*state);
	assert_int_equal(storetest_sql(*state, "SELECT sum(n) FROM chunk"), 12 * 400 * 200);
}

#define MANY 220 /* series: 150 share their times, 20 have times of their own, 50 are short */
#define MANY_ROUNDS 14
#define MANY_POINTS 400 /* a round */

/* Bits that no column makes shorter. */
static double many_value(uint32_t k, uint64_t i)
{
	uint64_t seed = (uint64_t)k << 32 | i;

	return (double)random_next(&seed) / 3;
}

static bool many_is_short(uint32_t k)
{
	return k >= 170;
}

static int64_t many_time(uint32_t k, int64_t i)
{
	return i * 1000 + (k >= 150 && k < 170 ? (int64_t)(k * k * i % 997) : 0);
}

static void many_check(const char *dir, uint32_t id, uint32_t k)
{
	size_t n = MANY_ROUNDS * (many_is_short(k) ? 1 : MANY_POINTS), i;
	struct storetest_points got = storetest_read_dir(dir, id);
	int64_t at;

	assert_int_equal(got.n, n);
	for (i = 0; i < n; i++) {
		at = (int64_t)i * (many_is_short(k) ? MANY_POINTS : 1);
		assert_int_equal(got.v[i].time_ns, many_time(k, at));
		assert_true(got.v[i].value == many_value(k, (uint64_t)at));
	}
	free(got.v);
}

/* Of merged rows that have become too large the long series are sealed while the others
 * are still being read; those with few points stay in a row. */
static void test_long_series_are_sealed_on_the_way(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[MANY], k;
	int64_t most = 0, bytes, i;
	char name[8], sql[96];
	int round;

	for (k = 0; k < MANY; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM chunk WHERE series >= %u", id[170]);
	for (round = 0; round < MANY_ROUNDS; round++) {
		for (i = round * MANY_POINTS; i < (round + 1) * MANY_POINTS; i++)
			for (k = 0; k < MANY; k++)
				if (!many_is_short(k) || i % MANY_POINTS == 0)
					storetest_push(s, id[k], many_time(k, i), i,
						       many_value(k, (uint64_t)i));
		storetest_commit(s);
		storetest_merge(s);
		storetest_check(*state);
		bytes = storetest_sql(*state, "SELECT sum(length(blob)) FROM tail");
		most = bytes > most ? bytes : most;
		assert_int_equal(storetest_sql(*state, sql), 0);
	}
	assert_in_range(most, FOLD_MERGED_BYTES / 2, FOLD_MERGED_BYTES + (2 << 20));
	assert_true(storetest_sql(*state, "SELECT count(*) FROM chunk") >= 170);
	storetest_close(s);
	storetest_check(*state);
	for (k = 0; k < MANY; k++)
		many_check(*state, id[k], k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_lost, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_few_points_stay_merged, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_older_points_come_first, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_numbers_never_go_back, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_chunks_never_cross_a_segment, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_rounds_share_an_axis, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_failed_fold_keeps_the_tail, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_fold_waits_until_due, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_fold_in_slices, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_merged_rows_are_limited, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_long_series_are_sealed_on_the_way,
						storetest_setup, storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
