/* SPDX-License-Identifier: Apache-2.0
 *
 * test_files.c - files for the dashboard: no way out of a folder, byte ranges, what a file is by
 * its name.
 */
#include "server/artifacts.h"
#include "server/beneath.h"
#include "server/byterange.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_plain(void **state)
{
	static const char *const good[] = {"a", "a/b.json", "a b", "…/x", "a..b"};
	static const char *const bad[] = {"",     "/",      "/a", "a/",    "a//b",    "..",
					  "../a", "a/../b", ".",  "a/./b", ".hidden", "a/.git/x"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(beneath_is_plain(good[i]));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (beneath_is_plain(bad[i]))
			fail_msg("\"%s\" is plain", bad[i]);
}

struct place {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	int fd;

	strcpy(p->path, "/tmp/lapse-files-XXXXXX");
	if (!p || !mkdtemp(p->path))
		return -1;
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY);
	mkdirat(p->fd, "sub", 0700);
	fd = openat(p->fd, "sub/file", O_CREAT | O_WRONLY, 0600);
	if (write(fd, "12345", 5) != 5)
		return -1;
	close(fd);
	if (symlinkat("sub/file", p->fd, "link") || symlinkat("sub", p->fd, "folder") ||
	    symlinkat("/etc/passwd", p->fd, "passwd") || mkfifoat(p->fd, "pipe", 0600))
		return -1;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = {"sub/file", "link", "folder", "passwd", "pipe"};
	struct place *p = *state;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(p->fd, names[i], 0);
	unlinkat(p->fd, "sub", AT_REMOVEDIR);
	close(p->fd);
	rmdir(p->path);
	free(p);
	return 0;
}

static void test_beneath(void **state)
{
	static int (*const ways[])(int, const char *, bool, struct stat *) = {beneath_open,
									      beneath_walk};
	static const char *const bad[] = {
		"link",       "folder/file", "passwd",     "pipe", "sub",
		"none",       "sub/none",    "sub/file/x", "../x", "sub/../sub/file",
		"/etc/passwd"};
	struct place *p = *state;
	struct stat st;
	size_t way, i;
	int fd;

	for (way = 0; way < 2; way++) {
		fd = ways[way](p->fd, "sub/file", false, &st);
		assert_true(fd >= 0);
		assert_int_equal(st.st_size, 5);
		close(fd);
		fd = ways[way](p->fd, "sub", true, &st);
		assert_true(fd >= 0);
		close(fd);
		for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			/* "sub/../sub/file" stays inside: openat2() allows it, names do not. */
			if (way == 0 && strstr(bad[i], "sub/.."))
				continue;
			fd = ways[way](p->fd, bad[i], false, &st);
			if (fd != -ENOENT)
				fail_msg("%s, way %zu: %d", bad[i], way, fd);
		}
	}
}

static void test_range(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
		enum byterange is;
		uint64_t from, bytes;
	} rows[] = {
		{NULL, 10, BYTERANGE_ALL, 0, 0},
		{"bytes=0-", 10, BYTERANGE_PART, 0, 10},
		{"bytes=2-4", 10, BYTERANGE_PART, 2, 3},
		{"Bytes=9-9", 10, BYTERANGE_PART, 9, 1},
		{"bytes=5-99", 10, BYTERANGE_PART, 5, 5},
		{"bytes=-3", 10, BYTERANGE_PART, 7, 3},
		{"bytes=-30", 10, BYTERANGE_PART, 0, 10},
		{"bytes=10-", 10, BYTERANGE_NONE, 0, 0},
		{"bytes=-0", 10, BYTERANGE_NONE, 0, 0},
		{"bytes=0-", 0, BYTERANGE_NONE, 0, 0},
		{"bytes=99999999999999999999-", 10, BYTERANGE_NONE, 0, 0},
		{"bytes=0-99999999999999999999", 10, BYTERANGE_PART, 0, 10},
		{"bytes=4-2", 10, BYTERANGE_ALL, 0, 0},
		{"bytes=0-1,3-4", 10, BYTERANGE_ALL, 0, 0},
		{"bytes=", 10, BYTERANGE_ALL, 0, 0},
		{"bytes=-", 10, BYTERANGE_ALL, 0, 0},
		{"bytes=x-1", 10, BYTERANGE_ALL, 0, 0},
		{"items=0-1", 10, BYTERANGE_ALL, 0, 0},
	};
	uint64_t from, bytes;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		from = bytes = 0;
		if (byterange_parse(rows[i].text, rows[i].size, &from, &bytes) != rows[i].is)
			fail_msg("%s", rows[i].text);
		if (rows[i].is == BYTERANGE_PART) {
			assert_int_equal(from, rows[i].from);
			assert_int_equal(bytes, rows[i].bytes);
		}
	}
}

static void test_kinds(void **state)
{
	static const struct {
		const char *name;
		enum artifacts_kind kind;
		int64_t rank, first, last;
	} rows[] = {
		{"chrome_trace_cycle_2_steps_10-12_rank_3.json.gz", ARTIFACTS_TRACE, 3, 10, 12},
		{"p/rank0.pt.trace.json", ARTIFACTS_TRACE, 0, -1, -1},
		{"steps_5/x.csv", ARTIFACTS_CSV, -1, -1, -1},
		{"trace.speedscope.json", ARTIFACTS_PROFILE, -1, -1, -1},
		{"step-7.svg", ARTIFACTS_FLAMEGRAPH, -1, 7, 7},
		{"model.ckpt", ARTIFACTS_OTHER, -1, -1, -1},
		{"config.json", ARTIFACTS_OTHER, -1, -1, -1},
		{"report.html", ARTIFACTS_REPORT, -1, -1, -1},
		{"stderr.log", ARTIFACTS_LOG, -1, -1, -1},
		{"crank9.trace.json", ARTIFACTS_TRACE, -1, -1, -1},
	};
	int64_t rank, first, last;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		artifacts_parse(rows[i].name, &rank, &first, &last);
		if (artifacts_kind_of(rows[i].name) != rows[i].kind || rank != rows[i].rank ||
		    first != rows[i].first || last != rows[i].last)
			fail_msg("%s: %d %d %d %d", rows[i].name,
				 (int)artifacts_kind_of(rows[i].name), (int)rank, (int)first,
				 (int)last);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test_setup_teardown(test_beneath, setup, teardown),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
