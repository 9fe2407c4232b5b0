/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_failure.c - one failure of the disk or of malloc() at each place in
 * turn: an error, nothing half done, and a store that can be read and gone on
 * with. What was acknowledged is there, what was refused is not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "failtest.h"
#include "storetest.h"

#define COMMITS 6
#define SAMPLES 100 /* of each of two series in a commit */

/* ---- the work ------------------------------------------------------------------------------- */

struct work {
	bool committed[COMMITS];
	bool closed;
	int errors;
};

/* Value k of commit c of series s; times that make several axes. */
static struct sink_sample work_sample(size_t c, size_t k, uint32_t series)
{
	return (struct sink_sample){.time_ns = (int64_t)(c * 1000000 + k * 1000 + k * k % 7),
				    .step = (int64_t)(c * SAMPLES + k),
				    .value = (double)(c * SAMPLES + k) / (double)series,
				    .series = series,
				    .thread = 3};
}

static int work_commit(struct store *s, size_t c)
{
	struct sink *k = store_sink(s);
	const struct sink_bin bin = {9, 4};
	struct sink_hist h = {.series = 3, .count = 4, .sum = 8, .bins = &bin, .n_bins = 1};
	const struct sink_event ev = {.process = 1, .kind = "k", .text = "t", .attrs = ""};
	struct sink_position pos = {.ring = {5}, .process = 1, .pos = c + 1};
	size_t i;
	int r = 0;

	h.time_ns = (int64_t)c;
	h.step = SINK_STEP_NONE;
	for (i = 0; r == 0 && i < 2 * SAMPLES; i++) {
		struct sink_sample v = work_sample(c, i / 2, (uint32_t)(i % 2) + 1);

		r = k->ops->samples(k, &v, 1);
	}
	if (r == 0)
		r = k->ops->hist(k, &h);
	if (r == 0)
		r = k->ops->event(k, &ev);
	if (r == 0)
		r = k->ops->position(k, &pos);
	if (r < 0) {
		k->ops->rollback(k);
		return r;
	}
	return k->ops->commit(k);
}

static bool work_is_told(struct work *w, int r, const struct err *e)
{
	if (r >= 0)
		return true;
	w->errors++;
	assert_int_not_equal(r, -EUCLEAN); /* nothing is wrong with the file */
	assert_true(e->text[0] != '\0');
	return false;
}

/* Commits with folds of both kinds between them, then the end. */
static void work_run(const char *dir, bool no_wal, struct work *w)
{
	const struct store_options o = {.dir = dir, .host = "h", .no_wal = no_wal};
	struct store *s = NULL;
	struct err e = {0};
	size_t c;
	int r;

	if (!work_is_told(w, store_open(&o, &e, &s), &e))
		return;
	for (c = 0; c < COMMITS; c++) {
		r = work_commit(s, c);
		w->committed[c] = r == 0;
		work_is_told(w, r, store_error(s));
		err_clear(&e);
		if (c % 3 == 1 && s->tail_rows)
			work_is_told(w, fold_batch(s, FOLD_BYTES, c == 4, &e), &e);
	}
	err_clear(&e);
	w->closed = work_is_told(w, store_close(s, &e), &e);
}

/* Definitions, so that series are known whatever fails; and some of all kinds. */
static void work_begin(const char *dir)
{
	struct store *s = storetest_open(dir);
	uint32_t p = storetest_process(s, 1);

	storetest_series(s, p, "a", SINK_GAUGE);
	storetest_series(s, p, "b", SINK_GAUGE);
	storetest_series(s, p, "h", SINK_HISTOGRAM);
	storetest_commit(s);
	storetest_close(s);
}

static void work_check_series(const char *dir, const struct work *w, uint32_t series)
{
	struct storetest_points got = storetest_read_dir(dir, series);
	size_t c, k, n = 0;

	for (c = 0; c < COMMITS; c++)
		for (k = 0; w->committed[c] && k < SAMPLES; k++, n++) {
			struct sink_sample want = work_sample(c, k, series);

			assert_true(n < got.n && got.v[n].time_ns == want.time_ns &&
				    got.v[n].step == want.step && got.v[n].value == want.value);
		}
	assert_int_equal(got.n, n);
	free(got.v);
}

static void work_check(const char *dir, const struct work *w)
{
	struct store *s;
	size_t c, n = 0;

	work_check_series(dir, w, 1);
	work_check_series(dir, w, 2);
	storetest_check(dir);
	s = storetest_open(dir);
	storetest_close(s);
	storetest_check(dir);
	work_check_series(dir, w, 1);
	for (c = 0; c < COMMITS; c++)
		n += w->committed[c];
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM event"), n);
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM tail"), 0);
	assert_int_equal(storetest_count(dir, "h.db.corrupt-"), 0);
	assert_int_equal(storetest_count(dir, "h.db"), 1);
}

/* To the next place. All of them take minutes: by default ever fewer of the later
 * ones, with LAPSE_TEST_ALL=1 all. */
static long failure_step(long at)
{
	return getenv("LAPSE_TEST_ALL") ? 1 : 1 + at / 20;
}

/* Every place in turn, until the work gets by without meeting it; how many. */
static long work_everywhere(const char *dir, bool no_wal)
{
	bool hit = true;
	char *sub;
	long at;

	for (at = 1; hit; at += failure_step(at)) {
		struct work w = {0};

		sub = xasprintf("%s/%ld", dir, at);
		work_begin(sub);
		failure_arm(at);
		work_run(sub, no_wal, &w);
		hit = failure_was_hit();
		failure_arm(0);
		if (!hit && (w.errors || !w.closed))
			fail_msg("%d errors without a failure, at %ld", w.errors, at);
		work_check(sub, &w);
		storetest_remove(sub);
	}
	return at;
}

static int setup(void **state)
{
	*state = storetest_dir();
	return 0;
}

static int setup_disk(void **state)
{
	shim_install();
	return setup(state);
}

static int setup_memory(void **state)
{
	memory_on = true;
	return setup(state);
}

static int teardown(void **state)
{
	failure_arm(0);
	failure_forever = memory_on = false;
	shim_code = 0;
	if (sqlite3_vfs_find("shim"))
		shim_remove();
	storetest_remove(*state);
	return 0;
}

static void test_disk_fails_once(void **state)
{
	assert_true(work_everywhere(*state, false) > 100);
}

static void test_disk_fails_once_without_wal(void **state)
{
	assert_true(work_everywhere(*state, true) > 100);
}

static void test_disk_is_full_from_then_on(void **state)
{
	failure_forever = true;
	shim_code = SQLITE_FULL;
	assert_true(work_everywhere(*state, false) > 20);
}

static void test_memory_fails_once(void **state)
{
	assert_true(work_everywhere(*state, false) > 200);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct seen {
	size_t points, processes, series, events;
};

static int seen_point(void *arg, const struct store_point *p)
{
	(void)p;
	((struct seen *)arg)->points++;
	return 0;
}

static int seen_process(void *arg, const struct store_process *p)
{
	(void)p;
	((struct seen *)arg)->processes++;
	return 0;
}

static int seen_series(void *arg, const struct store_series *s)
{
	(void)s;
	((struct seen *)arg)->series++;
	return 0;
}

static int seen_event(void *arg, const struct store_event *e)
{
	(void)e;
	((struct seen *)arg)->events++;
	return 0;
}

/* Read all there is with one reader; 0 or the first error. */
static int read_all(const char *dir, struct seen *seen, struct err *e)
{
	struct store_reader *r = NULL;
	uint32_t series;
	int code = store_reader_open(dir, e, &r);

	for (series = 1; code == 0 && series <= 3; series++)
		code = store_reader_points(r, 0, series, NULL, seen_point, seen, e);
	if (code == 0)
		code = store_reader_processes(r, seen_process, seen, e);
	if (code == 0)
		code = store_reader_series(r, seen_series, seen, e);
	if (code == 0)
		code = store_reader_events(r, seen_event, seen, e);
	store_reader_close(r);
	return code;
}

/* A store with chunks, a merged row and a plain one, left as a crash leaves it. */
static void make_some(const char *dir)
{
	struct store *s;
	size_t c;

	work_begin(dir);
	s = storetest_open(dir);
	for (c = 0; c < COMMITS; c++) {
		assert_int_equal(work_commit(s, c), 0);
		if (c == 3)
			storetest_fold(s);
		else if (c < COMMITS - 1)
			storetest_merge(s);
	}
	db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL);
	s->corrupt = true;
	store_close(s, NULL);
}

static long read_everywhere(const char *dir)
{
	char *path = storetest_path(dir, "h.db");
	bool hit = true;
	long at;

	make_some(dir);
	for (at = 1; hit; at += failure_step(at)) {
		struct seen seen = {0};
		struct err e = {0};
		int r;

		failure_arm(at);
		r = read_all(dir, &seen, &e);
		hit = failure_was_hit();
		if (r < 0) {
			if (!hit || !e.text[0] || r == -EUCLEAN)
				fail_msg("reading, at %ld: %d %s", at, r, e.text);
		} else {
			assert_int_equal(seen.points, COMMITS * (2 * SAMPLES + 1));
			assert_true(seen.processes == 1 && seen.series == 3 &&
				    seen.events == COMMITS);
		}
		err_clear(&e);
		failure_arm(at);
		r = store_check(path, &e);
		hit = hit || failure_was_hit();
		failure_arm(0);
		/* SQLite's own check takes what it cannot read for damage. */
		if (r == -EUCLEAN && !memory_on && strstr(e.text, "*** in database"))
			continue;
		if (r < 0 && (!e.text[0] || r == -EUCLEAN))
			fail_msg("checking, at %ld: %d %s", at, r, e.text);
	}
	free(path);
	return at;
}

static void test_reading_when_the_disk_fails(void **state)
{
	assert_true(read_everywhere(*state) > 20);
}

static void test_reading_when_memory_fails(void **state)
{
	assert_true(read_everywhere(*state) > 100);
}

/* A file of version 1 is brought up to date as a whole or not at all. */
static long migrate_everywhere(const char *dir)
{
	const struct store_options o = {.dir = dir, .host = "h"};
	char *command = xasprintf("cp '%s/store-v1/live/node1.db' '%s/h.db' && chmod 600 '%s/h.db'",
				  TEST_DATA, dir, dir);
	struct storetest_points got;
	bool hit = true;
	long at;

	for (at = 1; hit; at += failure_step(at)) {
		struct store *s = NULL;
		struct err e = {0};
		int r;

		assert_int_equal(system(command), 0);
		failure_arm(at);
		r = store_open(&o, &e, &s);
		hit = failure_was_hit();
		failure_arm(0);
		assert_true(r == 0 || (hit && r != -EUCLEAN));
		got = storetest_read_dir(dir, 1);
		assert_int_equal(got.n, 12000);
		free(got.v);
		if (r < 0)
			s = storetest_open(dir);
		storetest_close(s);
		storetest_check(dir);
		assert_int_equal(storetest_count(dir, "h.db"), 1);
	}
	free(command);
	return at;
}

static void test_migrating_when_the_disk_fails(void **state)
{
	assert_true(migrate_everywhere(*state) > 100);
}

static void test_migrating_when_memory_fails(void **state)
{
	assert_true(migrate_everywhere(*state) > 100);
}

#define DISK(test) cmocka_unit_test_setup_teardown(test, setup_disk, teardown)
#define MEMORY(test) cmocka_unit_test_setup_teardown(test, setup_memory, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DISK(test_disk_fails_once),
		DISK(test_disk_fails_once_without_wal),
		DISK(test_disk_is_full_from_then_on),
		MEMORY(test_memory_fails_once),
		DISK(test_reading_when_the_disk_fails),
		MEMORY(test_reading_when_memory_fails),
		DISK(test_migrating_when_the_disk_fails),
		MEMORY(test_migrating_when_memory_fails),
	};

	/* Hundreds of databases: where there is no disk to wait for. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
	memory_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
