/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_commit.c - the sink: what a commit keeps, what a rollback and a
 * failed commit forget, definitions, conflicts, refusals.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storetest.h"

static const uint8_t ring[16] = {0xaa, 1, 2};

static void push_position(struct store *s, uint32_t lane, uint64_t pos)
{
	struct sink_position p = {.lane = lane,
				  .process = 7,
				  .pos = pos,
				  .rec = pos * 2,
				  .stored = pos * 2 - 1,
				  .overwritten = 1,
				  .broken = 3,
				  .dropped = 4};

	memcpy(p.ring, ring, sizeof(ring));
	assert_int_equal(store_sink(s)->ops->position(store_sink(s), &p), 0);
}

static uint64_t resume_pos(struct store *s, uint32_t lane)
{
	struct sink_position p = {.pos = 999};
	int r = store_sink(s)->ops->resume(store_sink(s), ring, lane, &p);

	if (r == -ENOENT) {
		assert_int_equal(p.pos, 999); /* not written */
		return UINT64_MAX;
	}
	assert_int_equal(r, 0);
	assert_int_equal(p.lane, lane);
	assert_memory_equal(p.ring, ring, 16);
	if (p.pos) {
		assert_int_equal(p.process, 7);
		assert_int_equal(p.rec, p.pos * 2);
		assert_int_equal(p.stored, p.pos * 2 - 1);
		assert_int_equal(p.overwritten, 1);
		assert_int_equal(p.broken, 3);
		assert_int_equal(p.dropped, 4);
	}
	return p.pos;
}

static void test_positions(void **state)
{
	struct store *s = storetest_open(*state);

	assert_true(resume_pos(s, 0) == UINT64_MAX);
	push_position(s, 0, 10);
	push_position(s, 1, 70);
	assert_true(resume_pos(s, 0) == UINT64_MAX); /* not committed */
	storetest_commit(s);
	assert_int_equal(resume_pos(s, 0), 10);
	push_position(s, 0, 20);
	push_position(s, 0, 30); /* the last one counts */
	assert_int_equal(resume_pos(s, 0), 10);
	storetest_commit(s);
	assert_int_equal(resume_pos(s, 0), 30);
	assert_int_equal(resume_pos(s, 1), 70);
	push_position(s, 0, 40);
	store_sink(s)->ops->rollback(store_sink(s));
	storetest_commit(s);
	assert_int_equal(resume_pos(s, 0), 30);
	storetest_fold(s); /* now they lie in the table lane */
	push_position(s, 1, 80);
	storetest_commit(s); /* and one in the tail again */
	storetest_close(s);
	s = storetest_open(*state);
	assert_int_equal(resume_pos(s, 0), 30);
	assert_int_equal(resume_pos(s, 1), 80);
	assert_true(resume_pos(s, 2) == UINT64_MAX);
	storetest_close(s);
}

static void test_rollback_forgets(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "loss", SINK_GAUGE);
	struct storetest_points got;
	const struct sink_event ev = {.process = p, .kind = "x", .text = "y", .attrs = ""};

	storetest_push(s, id, 1, 1, 1);
	assert_int_equal(k->ops->event(k, &ev), 0);
	assert_int_equal(k->ops->attr(k, p, "k", "v"), 0);
	k->ops->rollback(k);
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].value == 2);
	free(got.v);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM event"), 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM attr"), 0);
	storetest_close(s);
}

static void test_empty_commit_writes_nothing(void **state)
{
	struct store *s = storetest_open(*state);
	struct store_stats st;

	storetest_commit(s);
	storetest_process(s, 1);
	storetest_commit(s);
	storetest_process(s, 1); /* nothing new */
	storetest_commit(s);
	store_stats(s, &st);
	assert_int_equal(st.commits, 1);
	assert_true(st.file_bytes > 4096);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 1);
	storetest_close(s);
}

static void test_one_row_and_one_seq_a_commit(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	const struct sink_event ev = {.time_ns = 5,
				      .step = SINK_STEP_NONE,
				      .severity = 3,
				      .kind = "oom",
				      .text = "out",
				      .attrs = "{\"a\":1}"};
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "loss", SINK_GAUGE);

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	storetest_push(s, id, 2, 2, 2);
	assert_int_equal(k->ops->event(k, &ev), 0);
	assert_int_equal(k->ops->attr(k, p, "opt", "sgd"), 0);
	assert_int_equal(k->ops->attr(k, p, "opt", "adamw"), 0);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(seq)='1,2' FROM tail"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT seq FROM process"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT seq FROM series"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT seq FROM event WHERE step IS NULL AND"
					       " process=0 AND severity=3 AND attrs='{\"a\":1}'"),
			 2);
	assert_int_equal(storetest_sql(*state, "SELECT seq FROM attr WHERE value='adamw'"), 2);
	storetest_close(s);
	s = storetest_open(*state); /* numbers go on after a fold and a new handle */
	storetest_push(s, id, 3, 3, 3);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT min(seq) FROM tail"), 3);
	storetest_close(s);
}

static void test_definitions_are_found_again(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p1 = storetest_process(s, 1), p2 = storetest_process(s, 2), a, b, c, d, again;
	struct sink_process late = {.uid = {1},
				    .pid = 101,
				    .role = "trainer",
				    .program = "train.py",
				    .rank = 5,
				    .local_rank = 5,
				    .world_size = 8,
				    .dropped = 3};

	a = storetest_series(s, p1, "x", SINK_GAUGE);
	b = storetest_series(s, p2, "x", SINK_GAUGE);
	c = storetest_series(s, p1, "x", SINK_SPAN);
	d = storetest_series(s, p1, "x", SINK_HISTOGRAM);
	assert_true(p1 != p2 && a != b && a != c && a != d && c != d);
	assert_int_equal(storetest_series(s, p1, "x", SINK_GAUGE), a);
	storetest_commit(s);
	assert_int_equal(k->ops->process(k, &late, &again), 0);
	assert_int_equal(again, p1);
	storetest_commit(s);
	storetest_close(s);
	s = storetest_open(*state);
	assert_int_equal(storetest_process(s, 2), p2);
	assert_int_equal(storetest_series(s, p1, "x", SINK_SPAN), c);
	assert_int_equal(storetest_series(s, p2, "x", SINK_GAUGE), b);
	assert_true(storetest_series(s, p2, "y", SINK_GAUGE) > d);
	storetest_close(s);
	assert_int_equal(storetest_sql(*state, "SELECT rank FROM process WHERE id=1 AND seq=2 AND"
					       " world_size=8 AND dropped=3"),
			 5);
}

static void test_conflict_is_told_once(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	struct sink_series d = {.name = "mem",
				.labels = "",
				.unit = "By",
				.help = "",
				.kind = SINK_GAUGE,
				.source = "record"};
	uint32_t first, second;

	d.process = storetest_process(s, 1);
	assert_int_equal(k->ops->series(k, &d, &first), 0);
	d.unit = "MiBy";
	assert_int_equal(k->ops->series(k, &d, &second), 0);
	assert_int_equal(first, second);
	d.kind = SINK_COUNTER;
	assert_int_equal(k->ops->series(k, &d, &second), 0);
	assert_int_equal(first, second);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state,
				       "SELECT count(*) FROM event WHERE severity=2 AND"
				       " kind='series-conflict' AND text LIKE '%mem%MiBy%'"),
			 1);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM series WHERE unit='By' AND"
					       " kind=1"),
			 1);
	storetest_close(s);
}

static void test_bad_calls_are_refused(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "a", SINK_GAUGE), x = 77;
	uint32_t hist = storetest_series(s, p, "h", SINK_HISTOGRAM);
	struct sink_sample two[] = {{1, 1, 1, id, 0}, {1, 1, 1, hist + 1, 0}};
	const struct sink_bin down[] = {{5, 1}, {5, 1}};
	struct sink_hist h = {.series = hist, .count = 2, .bins = down, .n_bins = 2};
	struct sink_series d = {.process = 9, .name = "n", .kind = SINK_GAUGE};
	const struct sink_event ev = {.process = 9, .kind = "x", .text = "", .attrs = ""};
	struct storetest_points got;

	assert_int_equal(k->ops->samples(k, two, 2), -EINVAL);
	assert_non_null(strstr(store_error(s)->text, "series 3"));
	two[1].series = 0;
	assert_int_equal(k->ops->samples(k, two, 2), -EINVAL);
	two[1].series = hist;
	assert_int_equal(k->ops->samples(k, two, 2), -EINVAL);
	assert_int_equal(k->ops->hist(k, &h), -EINVAL);
	h.n_bins = 1;
	h.series = id;
	assert_int_equal(k->ops->hist(k, &h), -EINVAL);
	assert_int_equal(k->ops->series(k, &d, &x), -EINVAL);
	d.process = p;
	d.name = "";
	assert_int_equal(k->ops->series(k, &d, &x), -EINVAL);
	assert_int_equal(x, 77);
	assert_int_equal(k->ops->event(k, &ev), -EINVAL);
	assert_int_equal(k->ops->attr(k, 9, "k", "v"), -EINVAL);
	storetest_push(s, id, 5, 5, 5);
	storetest_commit(s); /* nothing of the refused calls stayed */
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 1);
	free(got.v);
	storetest_close(s);
}

/* The database may not grow: SQLite says that the disk is full. */
static void test_full_disk(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "a", SINK_GAUGE), late;
	struct storetest_points got;
	struct err e = {0};
	size_t i;

	storetest_push(s, id, 1, 1, 1);
	push_position(s, 0, 10);
	storetest_commit(s);
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1", &e), 0);
	late = storetest_series(s, p, "late", SINK_GAUGE);
	for (i = 0; i < 5000; i++)
		storetest_push(s, late, (int64_t)(i * i), 1, (double)rand());
	push_position(s, 0, 20);
	assert_int_equal(k->ops->commit(k), -ENOSPC);
	assert_non_null(strstr(store_error(s)->text, "h.db"));
	assert_int_equal(store_error(s)->code, -ENOSPC);
	assert_int_equal(resume_pos(s, 0), 10);
	/* All is forgotten but the definition, which the next commit writes. */
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1000000", &e), 0);
	storetest_push(s, late, 7, 7, 7);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM series"), 2);
	got = storetest_read_dir(*state, late);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].value == 7);
	free(got.v);
	storetest_close(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 1);
	free(got.v);
}

/* A writer that is kept out by a lock: busy, and all of the commit forgotten. */
static void test_busy(void **state)
{
	struct store *s = storetest_open(*state);
	char *path = storetest_path(*state, "h.db");
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct storetest_points got;
	sqlite3 *other;

	storetest_commit(s);
	assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	storetest_push(s, id, 1, 1, 1);
	assert_int_equal(store_sink(s)->ops->commit(store_sink(s)), -EBUSY);
	sqlite3_close(other);
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].value == 2);
	free(got.v);
	free(path);
	storetest_close(s);
}

static void test_stats(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "a", SINK_GAUGE);
	uint32_t hist = storetest_series(s, p, "h", SINK_HISTOGRAM);
	const struct sink_hist h = {.series = hist, .count = 40, .nan = 2};
	struct store_stats st;

	storetest_push(s, id, 1, 1, 1);
	storetest_push(s, id, 2, 2, 1);
	assert_int_equal(store_sink(s)->ops->hist(store_sink(s), &h), 0);
	storetest_commit(s);
	store_stats(s, &st);
	assert_int_equal(st.samples, 44);
	assert_int_equal(st.commits, 1);
	assert_true(st.tail_bytes > 16);
	assert_int_equal(st.chunk_bytes, 0);
	storetest_fold(s);
	store_stats(s, &st);
	assert_true(st.chunk_bytes > 32);
	storetest_close(s);
}

/* ---- commits that are folded at once ------------------------------------------------ */

#define LARGE (FOLD_DIRECT + 4464) /* samples: 4 whole chunks and some more */

/* n samples from `first` on, values the numbers. */
static void push_from(struct store *s, uint32_t id, int64_t first, int64_t n)
{
	int64_t i;

	for (i = first; i < first + n; i++)
		storetest_push(s, id, i * 10, i, (double)i);
}

static void check_from(const char *dir, uint32_t id, size_t n)
{
	struct storetest_points got = storetest_read_dir(dir, id);
	size_t i;

	assert_int_equal(got.n, n);
	for (i = 0; i < n; i++)
		assert_true(got.v[i].value == (double)i && got.v[i].step == (int64_t)i &&
			    got.v[i].time_ns == (int64_t)i * 10);
	free(got.v);
}

/* A large commit has no row of its own: with the rows before it, it is in chunks and in
 * one merged row, and its positions are in their table. */
static void test_large_commit(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t a = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	push_from(s, a, 0, 10);
	push_position(s, 0, 10);
	push_position(s, 1, 5);
	storetest_commit(s);
	push_from(s, a, 10, 20);
	storetest_commit(s);
	push_from(s, a, 30, LARGE);
	push_position(s, 0, 30);
	assert_int_equal(commit_event(s, 0, 1, "told", "with it"), 0);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT group_concat(seq) = '3' FROM tail"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) * 8192 + sum(n = 8192) FROM chunk"),
			 4 * 8192 + 4);
	assert_int_equal(storetest_sql(*state, "SELECT sum(pos) FROM lane WHERE seq = 3"), 35);
	assert_int_equal(storetest_sql(*state, "SELECT seq FROM event"), 3);
	storetest_check(*state);
	check_from(*state, a, 30 + LARGE);
	push_from(s, a, 30 + LARGE, 1);
	push_position(s, 1, 6);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT max(seq) * 10 + count(*) FROM tail"), 42);
	storetest_close(s);
	storetest_check(*state);
	check_from(*state, a, 31 + LARGE);
	s = storetest_open(*state);
	assert_int_equal(resume_pos(s, 0), 30);
	assert_int_equal(resume_pos(s, 1), 6);
	assert_int_equal(s->seq, 4);
	storetest_close(s);
}

/* Few samples of each of many series are no large commit, however many they are. */
static void test_large_commit_of_many_series(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), i, k, id[300];
	char name[8];

	for (k = 0; k < 300; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (i = 0; i < 250; i++)
		for (k = 0; k < 300; k++)
			storetest_push(s, id[k], i, i, k);
	storetest_commit(s);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM meta WHERE key = 'folded'"
					       " AND value > 0"),
			 0);
	storetest_close(s);
	storetest_check(*state);
}

/* Large commits of parts of a chunk leave merged rows as they are until these are many. */
static void test_large_commits_wait(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), k, id[128];
	char name[8];
	int64_t round;

	for (k = 0; k < 128; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (round = 0; round < 16; round++) {
		assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), round);
		for (k = 0; k < 128; k++)
			push_from(s, id[k], round * 520, 520);
		storetest_commit(s);
	}
	/* 16 times 520 are 8192 and 128. */
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 1);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 128);
	storetest_close(s);
	storetest_check(*state);
	for (k = 0; k < 128; k += 127)
		check_from(*state, id[k], 16 * 520);
}

/* A large commit that takes room. */
static void push_noise(struct store *s, uint32_t id)
{
	uint32_t seed = 1, i;

	for (i = 0; i < LARGE; i++) {
		seed = seed * 1664525u + 1013904223u;
		storetest_push(s, id, i, i, seed / 3.0);
	}
}

static void test_large_commit_that_fails(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t a = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct sink *k = store_sink(s);
	struct storetest_points got;
	struct err e = {0};

	push_from(s, a, 0, 10);
	push_position(s, 0, 1);
	storetest_commit(s);
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1", &e), 0);
	push_noise(s, a);
	push_position(s, 0, 2);
	assert_int_equal(k->ops->commit(k), -ENOSPC);
	assert_int_equal(s->seq, 1);
	assert_int_equal(resume_pos(s, 0), 1);
	check_from(*state, a, 10);
	assert_int_equal(db_exec(s->db, "PRAGMA max_page_count=1000000", &e), 0);
	push_noise(s, a);
	push_position(s, 0, 2);
	storetest_commit(s);
	assert_int_equal(s->seq, 2);
	assert_int_equal(resume_pos(s, 0), 2);
	storetest_close(s);
	storetest_check(*state);
	got = storetest_read_dir(*state, a);
	assert_int_equal(got.n, 10 + LARGE);
	free(got.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_positions, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_rollback_forgets, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_empty_commit_writes_nothing, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_one_row_and_one_seq_a_commit, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_definitions_are_found_again, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_conflict_is_told_once, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_bad_calls_are_refused, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_full_disk, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_busy, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_stats, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_large_commit, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_large_commit_of_many_series, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_large_commits_wait, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_large_commit_that_fails, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
