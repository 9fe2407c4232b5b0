/* SPDX-License-Identifier: Apache-2.0 */
#include "storetest.h"

#include "base/mem.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

char *storetest_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = xasprintf("%s/lapse-store-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	assert_non_null(mkdtemp(dir));
	return dir;
}

static int storetest_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	remove(path);
	return 0;
}

void storetest_remove(char *dir)
{
	umount2(dir, MNT_DETACH); /* left by a test that failed */
	nftw(dir, storetest_unlink, 16, FTW_DEPTH | FTW_PHYS);
	free(dir);
}

int storetest_setup(void **state)
{
	*state = storetest_dir();
	return 0;
}

int storetest_teardown(void **state)
{
	storetest_remove(*state);
	return 0;
}

uint64_t storetest_random(uint64_t *state, uint64_t n)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % n;
}

char *storetest_path(const char *dir, const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

struct store *storetest_open(const char *dir)
{
	/* Tests close it under their own readers, often. */
	const struct store_options o = {.dir = dir, .host = "h", .patience_ns = -1};
	struct err e = {0};
	struct store *s = NULL;

	if (store_open(&o, &e, &s) < 0)
		fail_msg("store_open: %s", e.text);
	return s;
}

void storetest_close(struct store *s)
{
	struct err e = {0};

	if (store_close(s, &e) < 0)
		fail_msg("store_close: %s", e.text);
}

uint32_t storetest_process(struct store *s, uint8_t uid)
{
	struct sink_process p = {.uid = {uid},
				 .pid = 100 + uid,
				 .role = "trainer",
				 .program = "train.py",
				 .rank = uid,
				 .local_rank = -1,
				 .world_size = -1,
				 .start_ns = 1000};
	uint32_t id = 0;

	assert_int_equal(store_sink(s)->ops->process(store_sink(s), &p, &id), 0);
	return id;
}

uint32_t storetest_series(struct store *s, uint32_t process, const char *name, enum sink_kind kind)
{
	const struct sink_series d = {.process = process,
				      .name = name,
				      .labels = "",
				      .unit = "1",
				      .help = "",
				      .kind = kind,
				      .source = "record"};
	uint32_t id = 0;

	assert_int_equal(store_sink(s)->ops->series(store_sink(s), &d, &id), 0);
	return id;
}

void storetest_push(struct store *s, uint32_t series, int64_t time, int64_t step, double value)
{
	const struct sink_sample v = {time, step, value, series, 7};

	assert_int_equal(store_sink(s)->ops->samples(store_sink(s), &v, 1), 0);
}

void storetest_commit(struct store *s)
{
	if (store_sink(s)->ops->commit(store_sink(s)) < 0)
		fail_msg("commit: %s", store_error(s)->text);
}

void storetest_fold(struct store *s)
{
	struct err e = {0};

	if (store_fold(s, true, &e) < 0)
		fail_msg("store_fold: %s", e.text);
}

void storetest_merge(struct store *s)
{
	struct err e = {0};

	while (s->tail_rows)
		if (fold_batch(s, FOLD_BYTES_MAX, false, &e) < 0)
			fail_msg("fold_batch: %s", e.text);
}

void storetest_check(const char *dir)
{
	char *path = storetest_path(dir, "h.db");
	struct err e = {0};

	if (store_check(path, &e) < 0)
		fail_msg("store_check: %s", e.text);
	free(path);
}

static int storetest_take(void *arg, const struct store_point *p)
{
	struct storetest_points *all = arg;

	all->v = xgrow(all->v, all->n, &all->cap, sizeof(*all->v));
	all->v[all->n++] = *p;
	return 0;
}

struct storetest_points storetest_read(struct store_reader *r, uint32_t series,
				       const struct store_range *range)
{
	struct storetest_points all = {0};
	struct err e = {0};

	if (store_reader_points(r, 0, series, range, storetest_take, &all, &e) < 0)
		fail_msg("store_reader_points: %s", e.text);
	return all;
}

struct storetest_points storetest_read_dir(const char *dir, uint32_t series)
{
	const struct store_range range = {.all_segments = true};
	struct store_reader *r = NULL;
	struct storetest_points all;
	struct err e = {0};

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("store_reader_open: %s", e.text);
	all = storetest_read(r, series, &range);
	store_reader_close(r);
	return all;
}

int64_t storetest_sql(const char *dir, const char *sql)
{
	char *path = storetest_path(dir, "h.db");
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int64_t v = 0;
	int rc;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	while (*sql) {
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, &sql), SQLITE_OK);
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW)
			v = sqlite3_column_int64(st, 0);
		else
			assert_int_equal(rc, SQLITE_DONE);
		sqlite3_finalize(st);
	}
	sqlite3_close(db);
	free(path);
	return v;
}

size_t storetest_count(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	struct dirent *one;
	size_t n = 0;

	assert_non_null(d);
	while ((one = readdir(d)))
		n += strncmp(one->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return n;
}

struct store_reader *storetest_reader(const char *dir)
{
	struct store_reader *r = NULL;
	struct err e = {0};

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("store_reader_open: %s", e.text);
	return r;
}

void storetest_push_many(struct store *s, uint32_t series, size_t n, int64_t first)
{
	size_t i;

	for (i = 0; i < n; i++)
		storetest_push(s, series, first + (int64_t)i, first + (int64_t)i,
			       (double)(first + (int64_t)i));
	storetest_commit(s);
}

double storetest_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}
