/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_read.c - the reader: chunks and tail merged while a writer goes
 * on, ranges, attempts, the run, folders that cannot be written.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

static void check_values(struct store_reader *r, uint32_t id, const struct store_range *range,
			 const double *want, size_t n)
{
	struct storetest_points got = storetest_read(r, id, range);
	size_t i;

	assert_int_equal(got.n, n);
	for (i = 0; i < n; i++)
		assert_true(got.v[i].value == want[i]);
	free(got.v);
}

#define CHECK(r, id, range, ...)                                                                   \
	check_values(r, id, range, (const double[]){__VA_ARGS__},                                  \
		     sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void test_merge_and_follow(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	const struct store_range all = {0};
	struct store_reader *r;

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	r = storetest_reader(*state); /* one reader sees all that comes */
	assert_string_equal(store_reader_warning(r), "");
	CHECK(r, id, &all, 1);
	storetest_fold(s);
	CHECK(r, id, &all, 1);
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	CHECK(r, id, &all, 1, 2);
	storetest_push(s, id, 3, 3, 3);
	CHECK(r, id, &all, 1, 2); /* not committed */
	storetest_commit(s);
	CHECK(r, id, &all, 1, 2, 3);
	storetest_fold(s);
	CHECK(r, id, &all, 1, 2, 3);
	storetest_push(s, id, 4, 4, 4);
	storetest_commit(s);
	CHECK(r, id, NULL, 1, 2, 3, 4);
	store_reader_close(r);
	storetest_close(s);
}

static void test_ranges(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct store_reader *r;
	int64_t i;

	for (i = 0; i < 10; i++) {
		storetest_push(s, id, 100 + i, i == 5 ? SINK_STEP_NONE : i, (double)i);
		storetest_commit(s);
		if (i == 6)
			storetest_fold(s);
	}
	r = storetest_reader(*state);
	CHECK(r, id, (&(struct store_range){.by_time = true, .time_min = 104, .time_max = 107}), 4,
	      5, 6, 7);
	CHECK(r, id, (&(struct store_range){.by_step = true, .step_min = 4, .step_max = 7}), 4, 6,
	      7);
	CHECK(r, id,
	      (&(struct store_range){.by_time = true,
				     .time_max = 106,
				     .by_step = true,
				     .step_min = 6,
				     .step_max = 100}),
	      6);
	CHECK(r, id, (&(struct store_range){.by_step = true, .step_min = 9, .step_max = 9}), 9);
	check_values(r, id,
		     &(struct store_range){.by_time = true, .time_min = 110, .time_max = 900}, NULL,
		     0);
	check_values(r, id, &(struct store_range){.by_step = true, .step_min = -9, .step_max = -1},
		     NULL, 0);
	store_reader_close(r);
	storetest_close(s);
}

/* Steps 0-5, resumed at 3, resumed at 4: each step from its newest attempt. */
static void push_attempts(struct store *s, uint32_t id, int fold)
{
	int64_t step, time = 0;

	for (step = 0; step <= 5; step++)
		storetest_push(s, id, time++, step, (double)step);
	storetest_commit(s);
	if (fold > 0)
		storetest_fold(s);
	for (step = 3; step <= 5; step++)
		storetest_push(s, id, time++, step, 10 + (double)step);
	storetest_push(s, id, time++, SINK_STEP_NONE, 19);
	storetest_commit(s);
	if (fold > 1)
		storetest_fold(s);
	storetest_push(s, id, time++, 4, 24);
	storetest_commit(s);
	if (fold > 2)
		storetest_fold(s);
}

static void test_newest_attempt(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id;
	struct storetest_points got;
	struct store_reader *r;
	char name[16];
	int fold;

	for (fold = 0; fold < 4; fold++) {
		snprintf(name, sizeof(name), "s%d", fold);
		id = storetest_series(s, p, name, SINK_GAUGE);
		push_attempts(s, id, fold);
		r = storetest_reader(*state);
		CHECK(r, id, (&(struct store_range){0}), 0, 1, 2, 13, 15, 19, 24);
		CHECK(r, id, (&(struct store_range){.all_segments = true}), 0, 1, 2, 3, 4, 5, 13,
		      14, 15, 19, 24);
		CHECK(r, id, (&(struct store_range){.by_step = true, .step_min = 2, .step_max = 4}),
		      2, 13, 24);
		got = storetest_read(r, id, &(struct store_range){.all_segments = true});
		assert_int_equal(got.v[5].segment, 0);
		assert_int_equal(got.v[6].segment, 1);
		assert_int_equal(got.v[9].segment, 1);
		assert_int_equal(got.v[10].segment, 2);
		free(got.v);
		store_reader_close(r);
	}
	storetest_close(s);
}

struct seen_hist {
	struct sink_hist h;
	struct sink_bin bins[4];
	size_t n;
};

static int take_hist(void *arg, const struct store_point *p)
{
	struct seen_hist *seen = arg;

	assert_non_null(p->hist);
	seen->h = *p->hist;
	assert_true(p->hist->n_bins <= 4);
	memcpy(seen->bins, p->hist->bins, p->hist->n_bins * sizeof(seen->bins[0]));
	seen->n++;
	return 0;
}

static void test_histogram_points(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), a = storetest_series(s, p, "a", SINK_HISTOGRAM), b;
	const struct sink_bin bins[] = {{0x3fe0, 5}, {0x4020, 2}};
	struct sink_hist h = {.count = 7,
			      .sum = 20,
			      .min = 0.5,
			      .max = 8.25,
			      .bins = bins,
			      .n_bins = 2,
			      .time_ns = 9,
			      .step = SINK_STEP_NONE};
	struct seen_hist seen = {0};
	struct store_reader *r;
	struct err e = {0};
	int folded;

	b = storetest_series(s, p, "b", SINK_HISTOGRAM);
	h.series = b;
	store_sink(s)->ops->hist(store_sink(s), &h);
	h.series = a;
	h.count = 8;
	store_sink(s)->ops->hist(store_sink(s), &h);
	storetest_commit(s);
	r = storetest_reader(*state);
	for (folded = 0; folded < 2; folded++) {
		seen.n = 0;
		assert_int_equal(store_reader_points(r, 0, b, NULL, take_hist, &seen, &e), 0);
		assert_int_equal(seen.n, 1);
		assert_int_equal(seen.h.count, 7);
		assert_int_equal(seen.h.series, b);
		assert_true(seen.h.sum == 20 && seen.h.min == 0.5 && seen.h.max == 8.25);
		assert_int_equal(seen.h.n_bins, 2);
		assert_int_equal(seen.bins[1].key, 0x4020);
		assert_int_equal(seen.bins[1].count, 2);
		storetest_fold(s);
	}
	store_reader_close(r);
	storetest_close(s);
}

static int stop_at_two(void *arg, const struct store_point *p)
{
	(void)p;
	return ++*(int *)arg == 2 ? 77 : 0;
}

static void test_caller_can_stop(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct store_reader *r;
	struct err e = {0};
	int n = 0, i;

	for (i = 0; i < 5; i++)
		storetest_push(s, id, i, i, i);
	storetest_commit(s);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_points(r, 0, id, NULL, stop_at_two, &n, &e), 77);
	assert_int_equal(n, 2);
	storetest_fold(s);
	n = 0;
	assert_int_equal(store_reader_points(r, 0, id, NULL, stop_at_two, &n, &e), 77);
	assert_int_equal(n, 2);
	assert_int_equal(store_reader_points(r, 0, 99, NULL, stop_at_two, &n, &e), -ENOENT);
	assert_int_equal(store_reader_points(r, 1, id, NULL, stop_at_two, &n, NULL), -EINVAL);
	store_reader_close(r);
	storetest_close(s);
}

/* ---- the run ------------------------------------------------------------------ */

static void end_host(const char *dir, const char *host, const struct run_start *start,
		     const struct run_outcome *end)
{
	const struct store_options o = {.dir = dir, .host = host};
	struct store *s = NULL;
	struct err e = {0};

	assert_int_equal(store_open(&o, &e, &s), 0);
	assert_int_equal(store_start(s, start, &e), 0);
	if (end)
		assert_int_equal(store_end(s, end, &e), 0);
	assert_int_equal(store_close(s, &e), 0);
}

static void test_run(void **state)
{
	struct run_start *start = xcalloc(1, sizeof(*start));
	struct run_outcome *end = xcalloc(1, sizeof(*end));
	struct store_reader *r;
	struct store_run run;
	struct err e = {0};

	strcpy(start->id, "20261128-010203-abcd");
	strcpy(start->name, "first");
	strcpy(start->command, "python3 train.py");
	strcpy(start->user, "me");
	start->start_ns = 1000;
	end_host(*state, "b", start, NULL);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_run(r, &run, &e), 0);
	assert_string_equal(run.id, start->id);
	assert_string_equal(run.command, "python3 train.py");
	assert_int_equal(run.outcome, RUN_RUNNING);
	assert_int_equal(run.end_ns, 0);
	assert_string_equal(run.hosts, "b");
	store_reader_close(r);

	start->start_ns = 900;
	end->kind = RUN_EXITED;
	end->end_ns = 5000;
	end->user_s = 1.5;
	end_host(*state, "a", start, end);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_run(r, &run, &e), 0);
	assert_int_equal(run.outcome, RUN_RUNNING); /* b goes on */
	assert_int_equal(run.end_ns, 0);
	assert_int_equal(run.start_ns, 900);
	assert_string_equal(run.hosts, "a,b");
	store_reader_close(r);

	end->kind = RUN_OOM;
	end->signal = 9;
	end->code = -1;
	end->end_ns = 4000;
	end->user_s = 2;
	end->max_rss = 777;
	strcpy(end->evidence, "oom_kill 1");
	memcpy(end->stderr_tail, "a\0b", 3);
	end->stderr_len = 3;
	end_host(*state, "b", start, end);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_run(r, &run, &e), 0);
	assert_int_equal(run.outcome, RUN_OOM);
	assert_int_equal(run.signal, 9);
	assert_int_equal(run.end_ns, 5000);
	assert_true(run.user_s == 3.5);
	assert_int_equal(run.max_rss, 777);
	assert_string_equal(run.evidence, "oom_kill 1");
	assert_string_equal(run.stderr_tail, "a?b");
	store_reader_close(r);
	free(start);
	free(end);
}

/* ---- files that are not as they should be ---------------------------------------- */

/* A folder in which nothing can be made: by a read-only mount for root, by its
 * mode for others. */
static bool make_read_only(const char *dir)
{
	if (geteuid() != 0)
		return chmod(dir, 0500) == 0;
	if (mount(dir, dir, NULL, MS_BIND, NULL) < 0)
		return false;
	if (mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0)
		return true;
	umount(dir);
	return false;
}

static void make_writable(const char *dir)
{
	if (geteuid() == 0)
		umount(dir);
	else
		chmod(dir, 0700);
}

/* Copy of a live run, as cp would make it: file and WAL, no index. */
static void copy_part(const char *from, const char *to, const char *name)
{
	char *a = storetest_path(from, name), *b = storetest_path(to, name), buf[65536];
	FILE *in = fopen(a, "r"), *out = fopen(b, "w");
	size_t n;

	assert_non_null(in);
	assert_non_null(out);
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
		fwrite(buf, 1, n, out);
	fclose(in);
	fclose(out);
	free(a);
	free(b);
}

static void test_read_only_folder(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	char *copy = storetest_dir();
	struct store_reader *r;
	struct storetest_points got;
	struct err e = {0};
	char *path = storetest_path(copy, "h.db");

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	assert_int_equal(db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", &e), 0);
	copy_part(*state, copy, "h.db"); /* marked as WAL, but without one */
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	if (!make_read_only(copy)) {
		storetest_close(s);
		storetest_remove(copy);
		free(path);
		skip();
	}
	got = storetest_read_dir(copy, id);
	assert_int_equal(got.n, 1);
	free(got.v);
	assert_int_equal(store_check(path, &e), 0);
	make_writable(copy);
	copy_part(*state, copy, "h.db-wal"); /* with commits that cannot be seen */
	assert_true(make_read_only(copy));
	r = storetest_reader(copy);
	assert_non_null(strstr(store_reader_warning(r), "h.db-wal"));
	got = storetest_read(r, id, NULL);
	assert_int_equal(got.n, 1);
	free(got.v);
	store_reader_close(r);
	make_writable(copy);
	got = storetest_read_dir(copy, id); /* and can once the folder is ours */
	assert_int_equal(got.n, 2);
	free(got.v);
	storetest_close(s);
	assert_int_equal(storetest_count(*state, "h.db"), 1); /* one plain file */
	assert_true(make_read_only(*state));
	got = storetest_read_dir(*state, id);
	make_writable(*state);
	assert_int_equal(got.n, 2);
	free(got.v);
	free(path);
	storetest_remove(copy);
}

static void *close_later(void *reader)
{
	usleep(200000);
	store_reader_close(reader);
	return NULL;
}

/* Readers keep the writer from leaving one file: it says so, or waits for them a little. */
static void test_end_among_readers(void **state)
{
	const struct store_options patient = {
		.dir = *state, .host = "h", .patience_ns = 60000000000};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct storetest_points got;
	struct store_reader *r;
	struct err e = {0};
	pthread_t thread;

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	r = storetest_reader(*state);
	assert_int_equal(store_settle(s, &e), 1);
	assert_int_equal(store_settle(s, &e), 1);
	got = storetest_read(r, id, NULL);
	assert_int_equal(got.n, 1);
	free(got.v);
	storetest_push(s, id, 2, 2, 2); /* nothing is over yet */
	storetest_commit(s);
	store_reader_close(r);
	assert_int_equal(store_settle(s, &e), 0);
	storetest_close(s);
	assert_int_equal(storetest_count(*state, "h.db"), 1);

	assert_int_equal(store_open(&patient, &e, &s), 0);
	storetest_push(s, id, 3, 3, 3);
	storetest_commit(s);
	r = storetest_reader(*state);
	assert_int_equal(pthread_create(&thread, NULL, close_later, r), 0);
	storetest_close(s);
	pthread_join(thread, NULL);
	assert_int_equal(storetest_count(*state, "h.db"), 1);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 3);
	free(got.v);

	s = storetest_open(*state); /* one that stays does no harm */
	r = storetest_reader(*state);
	storetest_push(s, id, 4, 4, 4);
	storetest_commit(s);
	storetest_close(s);
	got = storetest_read(r, id, NULL);
	assert_int_equal(got.n, 4);
	free(got.v);
	store_reader_close(r);
}

static void test_odd_path(void **state)
{
	char *dir = storetest_path(*state, "a ?b#c%41");
	struct store *s = storetest_open(dir);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct storetest_points got;

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	got = storetest_read_dir(dir, id);
	assert_int_equal(got.n, 1);
	free(got.v);
	storetest_close(s);
	got = storetest_read_dir(dir, id);
	assert_int_equal(got.n, 1);
	free(got.v);
	free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_merge_and_follow, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_ranges, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_newest_attempt, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_histogram_points, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_caller_can_stop, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_run, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_read_only_folder, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_end_among_readers, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_odd_path, storetest_setup, storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
