/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_repair.c - damaged files: what is found in them, and that what can
 * still be read of them comes into a new one, and nothing that was never written.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define SERIES 6     /* the last one a histogram, the one before a span */
#define POINTS 20000 /* of each but the histogram */
#define HISTS 1500
#define EVENTS 200
#define PAGE 1024

/* ---- a file, and what it holds -------------------------------------------------------------- */

static double value_of(uint32_t series, int64_t step)
{
	return sin((double)step * 0.01 * series) + series;
}

static void push_hist(struct store *s, uint32_t series, int64_t step)
{
	struct sink_bin bin = {.key = 0x3ff0, .count = 3};
	struct sink_hist h = {.time_ns = step * 1000,
			      .step = step,
			      .series = series,
			      .count = 3,
			      .sum = 3.0 + (double)step,
			      .min = 1,
			      .max = 1,
			      .bins = &bin,
			      .n_bins = 1};

	assert_int_equal(store_sink(s)->ops->hist(store_sink(s), &h), 0);
}

/* h.db with chunks of all kinds; open: with rows in the tail. */
static struct store *fill(const char *dir)
{
	static const enum sink_kind kinds[SERIES] = {SINK_GAUGE, SINK_GAUGE, SINK_COUNTER,
						     SINK_GAUGE, SINK_SPAN,  SINK_HISTOGRAM};
	struct store *s = storetest_open(dir);
	uint32_t process = storetest_process(s, 1), id[SERIES], i;
	struct run_start start = {.start_ns = 1};
	struct run_outcome end = {.kind = RUN_EXITED, .end_ns = 9};
	struct err e = {0};
	char name[16];
	int64_t step;

	snprintf(start.id, sizeof(start.id), "20260101-000000-abcd");
	assert_int_equal(store_start(s, &start, &e), 0);
	for (i = 0; i < SERIES; i++) {
		snprintf(name, sizeof(name), "s%u", i + 1);
		id[i] = storetest_series(s, process, name, kinds[i]);
	}
	for (step = 0; step < POINTS; step++) {
		for (i = 0; i + 1 < SERIES; i++)
			storetest_push(s, id[i], step * 1000 + (i == 3), step,
				       value_of(id[i], step));
		if (step < HISTS)
			push_hist(s, id[SERIES - 1], step);
		if (step < EVENTS) {
			struct sink_event one = {
				process, step, step, 1, "note", "text of an event", "{\"k\": 1}"};

			assert_int_equal(store_sink(s)->ops->event(store_sink(s), &one), 0);
		}
		if (step % 500 == 499)
			storetest_commit(s);
		if (step % 5000 == 4999)
			storetest_merge(s);
	}
	assert_int_equal(store_end(s, &end, &e), 0);
	return s;
}

/* Each point that is there was written, in order and once. Number of points. */
static size_t check_points(const char *dir)
{
	struct store_reader *r = NULL;
	struct storetest_points p;
	struct err e = {0};
	size_t all = 0, i;
	uint32_t id;

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("%s", e.text);
	for (id = 1; id <= SERIES; id++) {
		p = storetest_read(r, id, NULL);
		for (i = 0; i < p.n; i++) {
			assert_true(i == 0 || p.v[i].step > p.v[i - 1].step);
			if (id < SERIES)
				assert_true(p.v[i].value == value_of(id, p.v[i].step));
		}
		all += p.n;
		free(p.v);
	}
	store_reader_close(r);
	return all;
}

/* ---- damage --------------------------------------------------------------------------------- */

static unsigned char *file_get(const char *path, size_t *ret_len)
{
	int fd = open(path, O_RDONLY);
	unsigned char *data;
	struct stat st;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	data = xcalloc(1, (size_t)st.st_size + 1);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return data;
}

static void file_put(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

struct found {
	size_t n;
	char tables[512];
};

static int on_found(void *arg, const struct store_finding *f)
{
	struct found *to = arg;
	size_t len = strlen(to->tables);

	assert_non_null(f->what);
	assert_true(*f->what);
	to->n++;
	if (!strstr(to->tables, *f->table ? f->table : "file"))
		snprintf(to->tables + len, sizeof(to->tables) - len, "%s ",
			 *f->table ? f->table : "file");
	return 0;
}

static size_t find(const char *path, struct found *ret)
{
	const struct store_checker c = {.found = on_found, .arg = ret};
	struct err e = {0};
	uint64_t n = 0;

	*ret = (struct found){0};
	if (store_check_all(path, &c, &e, &n) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(n, ret->n);
	return ret->n;
}

static void forget_kept(const char *dir, char *kept)
{
	(void)dir;
	unlink(kept);
	free(kept);
}

/* Repair h.db; what it then holds is sound. Points left. */
static size_t repair(const char *dir, struct store_repaired *ret)
{
	const struct store_checker c = {0};
	struct err e = {0};
	struct stat st;

	if (store_repair(dir, "h.db", &c, &e, ret) < 0)
		fail_msg("%s", e.text);
	storetest_check(dir);
	assert_int_equal(stat(ret->kept, &st), 0);
	assert_int_equal(storetest_count(dir, ".h.db"), 0);
	forget_kept(dir, ret->kept);
	return check_points(dir);
}

/* ---- tests ------------------------------------------------------------------------------------
 */

static void test_sound(void **state)
{
	struct store_repaired n;
	struct found found;
	char *path = storetest_path(*state, "h.db");
	size_t points;

	storetest_close(fill(*state));
	points = check_points(*state);
	assert_int_equal(points, (SERIES - 1) * POINTS + HISTS);
	assert_int_equal(find(path, &found), 0);
	assert_int_equal(repair(*state, &n), points);
	assert_int_equal(n.rows_lost + n.chunks_lost + n.points_lost + n.commits_lost, 0);
	assert_int_equal(n.points, points);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM event"), EVENTS + 1);
	assert_int_equal(storetest_sql(*state, "SELECT outcome FROM run"), 1);
	free(path);
}

/* Pages one by one, all over the file: zeros, then noise. */
static void test_pages(void **state)
{
	char *path = storetest_path(*state, "h.db");
	size_t len, page, found_n = 0, all, sum = 0, left, pages, k;
	struct store_repaired n;
	unsigned char *data, *bad;
	struct found found;

	storetest_close(fill(*state));
	all = check_points(*state);
	data = file_get(path, &len);
	pages = len / PAGE;
	for (page = 1; page < pages; page += page < 24 ? 1 : pages / 12) {
		bad = xcalloc(1, len);
		memcpy(bad, data, len);
		for (k = 0; k < PAGE; k++)
			bad[page * PAGE + k] = page & 1 ? 0 : (unsigned char)(k * 167 + page * 31);
		file_put(path, bad, len);
		free(bad);
		if (find(path, &found) == 0)
			continue; /* a free page */
		found_n++;
		left = repair(*state, &n);
		sum += left;
		if (left < all && n.chunks_lost == 0)
			fail_msg("page %zu: %zu of %zu points, none told as lost", page, left, all);
	}
	assert_true(found_n > 15);
	assert_true(sum > found_n * all * 3 / 4);
	free(data);
	free(path);
}

static int on_series(void *arg, const struct store_series *s)
{
	unsigned *n = arg;

	n[s->host]++;
	return 0;
}

/* Whatever page of one host's file is damaged: the other's is all there, and if
 * something is missing of it, it is told. */
static void test_other_host(void **state)
{
	char *path = storetest_path(*state, "h.db"), *other = storetest_path(*state, "z.db");
	struct store_reader *r;
	struct store_run run;
	size_t len, page, told = 0;
	unsigned char *data, noise[PAGE];
	struct err e = {0};

	storetest_close(fill(*state));
	data = file_get(path, &len);
	file_put(other, data, len);
	memset(noise, 0xa5, sizeof(noise));
	for (page = 0; page < 40 && page < len / PAGE; page++) {
		unsigned n[2] = {0};
		struct stat st;
		int fd = open(path, O_WRONLY);

		assert_int_equal(pwrite(fd, noise, PAGE, (off_t)(page * PAGE)), PAGE);
		close(fd);
		assert_int_equal(store_reader_open(*state, &e, &r), 0);
		if (store_reader_run(r, &run, &e) < 0 ||
		    store_reader_series(r, on_series, n, &e) < 0)
			fail_msg("page %zu: %s", page, e.text);
		assert_int_equal(run.outcome, RUN_EXITED);
		assert_int_equal(n[strchr(run.hosts, ',') ? 1 : 0], SERIES);
		if (store_reader_warning(r)[0])
			told++;
		else
			assert_int_equal(n[0], SERIES);
		store_reader_close(r);
		assert_int_equal(stat(path, &st), 0);
		file_put(path, data, len);
	}
	assert_true(told > 3);
	free(data);
	free(path);
	free(other);
}

static void test_first_page(void **state)
{
	char *path = storetest_path(*state, "h.db");
	struct store_repaired n;
	struct found found;
	unsigned char *data;
	size_t len, all;

	storetest_close(fill(*state));
	all = check_points(*state);
	data = file_get(path, &len);
	memset(data, 0, 100);
	file_put(path, data, len);
	assert_int_equal(find(path, &found), 1);
	assert_int_equal(repair(*state, &n), all);
	memset(data, 0, PAGE);
	file_put(path, data, len);
	assert_int_equal(repair(*state, &n), all);
	free(data);
	free(path);
}

static void test_cut_off(void **state)
{
	char *path = storetest_path(*state, "h.db");
	size_t len, cut, left, most = 0;
	struct store_repaired n;
	struct found found;
	unsigned char *data;

	storetest_close(fill(*state));
	data = file_get(path, &len);
	for (cut = len - PAGE / 2; cut > len / 4; cut -= len / 4) {
		file_put(path, data, cut);
		assert_true(find(path, &found) > 0);
		left = repair(*state, &n);
		if (left > most)
			most = left;
	}
	assert_true(most > 0);
	free(data);
	free(path);
}

/* A blob of each table that has one. */
static void test_blobs(void **state)
{
	static const struct {
		const char *sql, *table;
	} rows[] = {
		{"UPDATE pack SET blob = zeroblob(length(blob)) WHERE id = 2", "chunk"},
		{"UPDATE axis SET blob = zeroblob(20) WHERE id = 1", "axis"},
		{"UPDATE summary SET blob = zeroblob(20) WHERE id = (SELECT min(id) FROM summary)",
		 "summary"},
		{"DELETE FROM summary WHERE id = (SELECT max(id) FROM summary)", "summary"},
		{"DELETE FROM series WHERE id = 2", "series"},
		{"DELETE FROM series WHERE id = 6", "chunk"},
		{"UPDATE series SET kind = 77 WHERE id = 3", "series"},
		{"DELETE FROM process WHERE id = 1", "series"},
		{"DELETE FROM chunk WHERE series = 1 AND ordinal = 1", "chunk"},
		{"DELETE FROM axis WHERE id = 1", "axis"},
		{"INSERT INTO axis SELECT 99, blob FROM axis LIMIT 1", "axis"},
		{"INSERT INTO pack VALUES(99, x'00')", "pack"},
		{"UPDATE chunk SET n = 0 WHERE series = 2 AND ordinal = 0", "chunk"},
		{"UPDATE chunk SET segment_step = 5 WHERE series = 2 AND ordinal = 0", "chunk"},
		{"UPDATE meta SET value = -1 WHERE key = 'folded'", "meta"},
		{"INSERT INTO tail VALUES(1, x'00')", "tail"},
		{"DROP TABLE event", "event"},
	};
	char *path = storetest_path(*state, "h.db");
	struct store_repaired n;
	struct found found;
	unsigned char *data;
	size_t len, i, all;

	storetest_close(fill(*state));
	all = check_points(*state);
	data = file_get(path, &len);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		file_put(path, data, len);
		storetest_sql(*state, rows[i].sql);
		if (find(path, &found) == 0 || !strstr(found.tables, rows[i].table))
			fail_msg("%s: found %zu: %s", rows[i].sql, found.n, found.tables);
		if (repair(*state, &n) + n.points_lost < all)
			fail_msg("%s: points are lost and not told", rows[i].sql);
	}
	free(data);
	free(path);
}

static void test_live_is_refused(void **state)
{
	const struct store_checker c = {0};
	struct store *s = fill(*state);
	struct store_repaired n;
	struct err e = {0};

	assert_int_equal(store_repair(*state, "h.db", &c, &e, &n), -EBUSY);
	assert_non_null(strstr(e.text, "is being written"));
	storetest_close(s);
	assert_int_equal(storetest_count(*state, "h.db"), 1);
}

/* Points that are in the tail, and the summaries of what retention dropped. */
static void test_tail_and_dropped(void **state)
{
	char *path = storetest_path(*state, "h.db");
	struct store_repaired n;
	pid_t pid = fork();
	size_t all;
	int status;

	if (pid == 0) {
		fill(*state);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	all = check_points(*state);
	assert_int_equal(all, (SERIES - 1) * POINTS + HISTS);
	assert_int_equal(repair(*state, &n), all);
	assert_int_equal(n.commits_lost, 0);
	storetest_sql(*state, "DELETE FROM chunk WHERE series = 1 AND ordinal = 0");
	assert_int_equal(repair(*state, &n), all - 8192);
	assert_int_equal(storetest_sql(*state, "SELECT start FROM chunk WHERE series = 1 LIMIT 1"),
			 8192);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sound, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_pages, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_other_host, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_first_page, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_cut_off, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_blobs, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_live_is_refused, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_tail_and_dropped, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests_name("store-repair", tests, NULL, NULL);
}
