/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_migrate.c - databases of version 1 (tests/data/store-v1, whose README
 * says every value): read as they are, brought up to date, gone on with.
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
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define N 12000
#define START 1767323045000000000

enum {
	LOSS = 1,
	WEIRD,
	TOKENS,
	GRAD,
	STEP
};

/* A copy of a stored database as DIR/h.db. */
static char *take(const char *dir, const char *which)
{
	char *to = storetest_path(dir, "h.db");
	char *command = xasprintf("cp '%s/store-v1/%s/node1.db' '%s' && chmod 600 '%s'", TEST_DATA,
				  which, to, to);

	assert_int_equal(system(command), 0);
	free(command);
	return to;
}

static int64_t time_of(size_t i)
{
	return START + (int64_t)i * 10000000 + (int64_t)(i * 7919 % 1000);
}

static int64_t step_of(size_t i)
{
	return (int64_t)(i < 7000 ? i : i - 2000);
}

static struct store_point point_of(uint32_t series, size_t i)
{
	static const uint64_t bits[] = {0x7ff8000000000000, 0x7ff8dead00000001, 0xfff0000000000000,
					0x7ff0000000000000, 0x8000000000000000, 1,
					0x3ff0000000000001, 0x7ff0000000000002};
	struct store_point p = {time_of(i), step_of(i), 0, 42, i >= 7000, NULL};

	if (series == LOSS)
		p.value = (double)(i % 1000) * 0.001 + 0.25;
	if (series == TOKENS)
		p.value = (double)(i % 5);
	if (series == WEIRD) {
		memcpy(&p.value, &bits[i % 8], 8);
		p.thread = 42 + i % 2;
		if (i % 3 == 0)
			p.step = SINK_STEP_NONE;
	}
	if (series == STEP) {
		p.time_ns -= 5000000;
		p.value = 4000000 + (double)(31 * i % 997);
	}
	return p;
}

static void check_scalars(const char *dir, size_t more)
{
	static const uint32_t series[] = {LOSS, WEIRD, TOKENS, STEP};
	struct storetest_points got;
	struct store_point want;
	size_t i, k;

	for (k = 0; k < ARRAY_LEN(series); k++) {
		got = storetest_read_dir(dir, series[k]);
		assert_int_equal(got.n, N + (series[k] == LOSS ? more : 0));
		for (i = 0; i < N; i++) {
			want = point_of(series[k], i);
			assert_int_equal(got.v[i].time_ns, want.time_ns);
			assert_int_equal(got.v[i].step, want.step);
			assert_memory_equal(&got.v[i].value, &want.value, 8);
			assert_int_equal(got.v[i].segment, want.segment);
			if (series[k] != STEP && series[k] != TOKENS)
				assert_int_equal(got.v[i].thread, want.thread);
		}
		free(got.v);
	}
}

static int check_hist(void *arg, const struct store_point *p)
{
	size_t i = 200 * (*(size_t *)arg)++;

	assert_non_null(p->hist);
	assert_int_equal(p->step, step_of(i));
	assert_int_equal(p->time_ns, time_of(i));
	assert_int_equal(p->hist->count, 4 + i % 4);
	assert_int_equal(p->hist->nan, i % 2);
	assert_true(p->hist->sum == 2.5 * (double)i && p->hist->min == 0.25 && p->hist->max == 1.5);
	assert_int_equal(p->hist->n_bins, 2);
	assert_true(p->hist->bins[0].key == 0x3f00 && p->hist->bins[0].count == 3);
	assert_true(p->hist->bins[1].key == 0x3f10 && p->hist->bins[1].count == 1 + i % 4);
	return 0;
}

static int check_process(void *arg, const struct store_process *p)
{
	(void)arg;
	assert_true(p->pid == 42 && p->rank == 1 && p->world_size == 2);
	assert_string_equal(p->role, "trainer");
	assert_int_equal(p->stored, N - 1);
	assert_int_equal(p->dropped, 3);
	return 0;
}

static int check_event(void *arg, const struct store_event *e)
{
	++*(size_t *)arg;
	assert_string_equal(e->kind, "note");
	assert_string_equal(e->text, "checkpoint");
	assert_string_equal(e->attrs, "{\"i\":1}");
	return 0;
}

static int check_series(void *arg, const struct store_series *s)
{
	++*(size_t *)arg;
	assert_int_equal(s->count, s->id == GRAD ? N / 200 : N);
	if (s->id == WEIRD) {
		assert_string_equal(s->name, "weird");
		assert_string_equal(s->labels, "a=\"b\"");
	}
	return 0;
}

static void check_rest(const char *dir)
{
	const struct store_range all = {.all_segments = true};
	struct store_reader *r = NULL;
	struct err e = {0};
	size_t n = 0;

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(store_reader_warning(r), "");
	assert_int_equal(store_reader_points(r, 0, GRAD, &all, check_hist, &n, &e), 0);
	assert_int_equal(n, N / 200);
	assert_int_equal(store_reader_processes(r, check_process, NULL, &e), 0);
	n = 0;
	assert_int_equal(store_reader_events(r, check_event, &n, &e), 0);
	assert_int_equal(n, N / 1000);
	n = 0;
	assert_int_equal(store_reader_series(r, check_series, &n, &e), 0);
	assert_int_equal(n, 5);
	store_reader_close(r);
}

static void check_migration(const char *dir, const char *which)
{
	char *path = take(dir, which);
	struct store *s;
	struct err e = {0};

	check_scalars(dir, 0); /* a reader's copy; the file stays as it is */
	check_rest(dir);
	if (store_check(path, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(storetest_sql(dir, "PRAGMA user_version"), 1);
	s = storetest_open(dir);
	assert_int_equal(storetest_sql(dir, "PRAGMA user_version"), 2);
	storetest_check(dir);
	check_scalars(dir, 0);
	storetest_push(s, LOSS, time_of(N), step_of(N), 7);
	storetest_commit(s);
	storetest_merge(s);
	storetest_check(dir);
	check_scalars(dir, 1);
	storetest_close(s);
	storetest_check(dir);
	check_scalars(dir, 1);
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM tail"), 0);
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM sqlite_master WHERE name LIKE"
					    " '%\\_1' ESCAPE '\\'"),
			 0);
	free(path);
}

static void test_ended(void **state)
{
	check_migration(*state, "ended");
}

static void test_live(void **state)
{
	check_migration(*state, "live");
}

/* The tables are those that a new file has. */
static void test_same_schema(void **state)
{
	static const char sql[] = "ATTACH '%s' AS b; SELECT count(*) FROM"
				  " (SELECT m.name, p.name, p.type, p.\"notnull\", p.pk FROM"
				  " %s.sqlite_master m, pragma_table_info(m.name, '%s') p EXCEPT"
				  " SELECT m.name, p.name, p.type, p.\"notnull\", p.pk FROM"
				  " %s.sqlite_master m, pragma_table_info(m.name, '%s') p)";
	char *dir = storetest_path(*state, "new"), *path, *query;

	free(take(*state, "ended"));
	storetest_close(storetest_open(*state));
	storetest_close(storetest_open(dir));
	path = storetest_path(dir, "h.db");
	query = xasprintf(sql, path, "main", "main", "b", "b");
	assert_int_equal(storetest_sql(*state, query), 0);
	free(query);
	query = xasprintf(sql, path, "b", "b", "main", "main");
	assert_int_equal(storetest_sql(*state, query), 0);
	assert_true(storetest_sql(*state, "SELECT count(*) FROM pragma_table_info('chunk')") > 5);
	free(query);
	free(path);
	free(dir);
}

/* An old file that is damaged is found out, and not changed by a reader. */
static void test_damaged(void **state)
{
	static const char *const damage[] = {
		"UPDATE chunk_data SET blob = zeroblob(40) WHERE id = 2",
		"DELETE FROM chunk_data WHERE id = 3",
		"UPDATE chunk SET n = n + 1 WHERE series = 2 AND ordinal = 1",
		"UPDATE chunk SET series = 9 WHERE series = 5",
		"DROP TABLE chunk_data",
	};
	struct store_reader *r;
	struct err e = {0};
	struct store *s;
	char *path;
	size_t i;

	for (i = 0; i < ARRAY_LEN(damage); i++) {
		path = take(*state, "ended");
		storetest_sql(*state, damage[i]);
		err_clear(&e);
		assert_int_equal(store_reader_open(*state, &e, &r), -EUCLEAN);
		assert_non_null(strstr(e.text, "h.db"));
		assert_int_equal(storetest_sql(*state, "PRAGMA user_version"), 1);
		s = storetest_open(*state); /* sets it aside */
		storetest_close(s);
		assert_true(storetest_count(*state, "h.db.corrupt-") > i);
		unlink(path);
		free(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ended, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_live, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_same_schema, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_damaged, storetest_setup, storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
