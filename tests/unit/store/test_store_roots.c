/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_roots.c - where runs lie and how one is found.
 */
#include <errno.h>
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

static void make(const char *root, const char *name)
{
	char *path = storetest_path(root, name);

	assert_int_equal(mkdir(path, 0700), 0);
	free(path);
}

static void test_root(void **state)
{
	char out[4096], want[4200], cwd[4096];

	assert_int_equal(chdir(*state), 0);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	unsetenv("LAPSE_DIR");
	assert_int_equal(store_root(NULL, out, sizeof(out)), 0);
	snprintf(want, sizeof(want), "%s/lapse-runs", cwd);
	assert_string_equal(out, want);
	setenv("LAPSE_DIR", "", 1); /* as if it were not set */
	assert_int_equal(store_root(NULL, out, sizeof(out)), 0);
	assert_string_equal(out, want);
	setenv("LAPSE_DIR", "/data/runs/", 1);
	assert_int_equal(store_root(NULL, out, sizeof(out)), 0);
	assert_string_equal(out, "/data/runs");
	assert_int_equal(store_root("./sub", out, sizeof(out)), 0);
	snprintf(want, sizeof(want), "%s/sub", cwd);
	assert_string_equal(out, want);
	assert_int_equal(store_root("/", out, sizeof(out)), 0);
	assert_string_equal(out, "/");
	assert_int_equal(store_root("/data/runs", out, 10), -ENAMETOOLONG);
	assert_int_equal(store_root("", out, sizeof(out)), -EINVAL);
	unsetenv("LAPSE_DIR");
	assert_int_equal(chdir("/"), 0);
}

static void test_runs(void **state)
{
	char **runs = NULL, *path = storetest_path(*state, "file");
	struct err e = {0};
	FILE *f;

	assert_int_equal(store_runs("/nonexistent/root", &runs, &e), -ENOENT);
	assert_int_equal(store_runs(*state, &runs, NULL), 0);
	assert_null(runs[0]);
	store_runs_free(runs);
	make(*state, "20261128-020000-bbbb");
	make(*state, "20261128-010000-aaaa");
	make(*state, ".hidden");
	f = fopen(path, "w");
	fclose(f);
	assert_int_equal(store_runs(*state, &runs, NULL), 0);
	assert_string_equal(runs[0], "20261128-010000-aaaa");
	assert_string_equal(runs[1], "20261128-020000-bbbb");
	assert_null(runs[2]);
	store_runs_free(runs);
	store_runs_free(NULL);
	free(path);
}

static void check_found(const char *root, const char *what, const char *name)
{
	char out[4096], want[4200];
	struct err e = {0};

	if (store_find(root, what, out, sizeof(out), &e) < 0)
		fail_msg("%s: %s", what, e.text);
	snprintf(want, sizeof(want), "%s/%s", root, name);
	assert_string_equal(out, want);
}

static void test_find(void **state)
{
	const char *root = *state;
	char out[4096], *path;
	struct err e = {0};

	assert_int_equal(store_find(root, "last", out, sizeof(out), &e), -ENOENT);
	make(root, "20261128-010000-aaaa");
	make(root, "20261128-020000-bbbb");
	make(root, "20261128-020000-bbbbb");
	make(root, "20261129-000000-cccc");
	check_found(root, "last", "20261129-000000-cccc");
	check_found(root, "20261128-01", "20261128-010000-aaaa");
	check_found(root, "20261128-020000-bbbb", "20261128-020000-bbbb"); /* equal wins */
	path = storetest_path(root, "20261128-010000-aaaa");
	check_found(root, path, "20261128-010000-aaaa");
	free(path);
	err_clear(&e);
	assert_int_equal(store_find(root, "20261128", out, sizeof(out), &e), -EEXIST);
	assert_non_null(strstr(e.text, "20261128-010000-aaaa"));
	assert_non_null(strstr(e.text, "20261128-020000-bbbbb"));
	assert_null(strstr(e.text, "cccc"));
	err_clear(&e);
	assert_int_equal(store_find(root, "2027", out, sizeof(out), &e), -ENOENT);
	assert_int_equal(store_find(root, "./nothing", out, sizeof(out), NULL), -ENOENT);
	assert_int_equal(store_find(root, "", out, sizeof(out), NULL), -EINVAL);
	assert_int_equal(store_find(root, "last", out, 10, NULL), -ENAMETOOLONG);
}

/* A run whose database says when it began. */
static void make_run(const char *root, const char *name, int64_t start_ns)
{
	char *path = storetest_path(root, name);
	struct run_start *start = xcalloc(1, sizeof(*start)); /* large */
	struct store *s;

	snprintf(start->id, sizeof(start->id), "%s", name);
	start->start_ns = start_ns;
	assert_int_equal(mkdir(path, 0700), 0);
	s = storetest_open(path);
	assert_int_equal(store_start(s, start, NULL), 0);
	storetest_close(s);
	free(start);
	free(path);
}

static void test_last_of_a_second(void **state)
{
	const char *root = *state;

	make_run(root, "20261128-020000-zzzz", 1000);
	check_found(root, "last", "20261128-020000-zzzz");
	make_run(root, "20261128-020000-aaaa", 3000);
	make_run(root, "20261128-020000-mmmm", 2000);
	check_found(root, "last", "20261128-020000-aaaa");
	make(root, "20261128-020000-none"); /* nothing stored in it */
	check_found(root, "last", "20261128-020000-aaaa");
	make_run(root, "20261128-015959-late", 9000); /* another second: ids decide */
	check_found(root, "last", "20261128-020000-aaaa");
	make(root, "plots");
	make(root, "20261129-notes");
	check_found(root, "last", "20261128-020000-aaaa");
	make(root, "20261128-020001-b");
	check_found(root, "last", "20261128-020001-b");
}

static void test_last_without_ids(void **state)
{
	make(*state, "first");
	make(*state, "second");
	check_found(*state, "last", "second");
	make(*state, "20261128-020000-aaaa");
	make(*state, "20261128-020000-bbbb");
	check_found(*state, "last", "20261128-020000-bbbb"); /* neither has a start */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_root, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_runs, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_find, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_last_of_a_second, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_last_without_ids, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
