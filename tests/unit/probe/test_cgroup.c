/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory cgroups in stored trees of each kind, and this machine.
 */
#include "probe/linux/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/mounts.h"
#include "stored.h"

static char what[512];

static int oom_kills(const char *root, long pid, uint64_t *ret)
{
	struct cgroup_memory m;
	int err = cgroup_memory_find(root, pid, &m);

	return err ? err : cgroup_oom_kills_of(&m, ret, what, sizeof(what));
}

/* what[] must end in this. */
static void assert_what(const char *end)
{
	assert_true(strlen(what) > strlen(end));
	assert_string_equal(what + strlen(what) - strlen(end), end);
}

static void test_v2(void **state)
{
	const char *root = stored_path("v2");
	uint64_t v;

	(void)state;
	/* own 16 GiB, the slice above it 8 GiB, above that none, the root has no file */
	assert_int_equal(cgroup_memory_limit(root, 1200, &v), 0);
	assert_int_equal(v, UINT64_C(8) << 30);
	assert_int_equal(cgroup_memory_limit(root, 0, &v), 0);
	assert_int_equal(oom_kills(root, 1200, &v), 0);
	assert_int_equal(v, 3);
	assert_what("/v2/sys/fs/cgroup/user.slice/user-1000.slice/train.scope/memory.events");
	assert_int_equal(cgroup_memory_limit(root, 4000, &v), -ESRCH);
}

static void test_hybrid(void **state)
{
	char root[STORED_PATH];
	uint64_t v;

	(void)state;
	stored_copy("hybrid", root);
	assert_int_equal(cgroup_memory_limit(root, 0, &v), 0);
	assert_int_equal(v, UINT64_C(4) << 30);
	assert_int_equal(oom_kills(root, 0, &v), 0);
	assert_int_equal(v, 5);
	assert_what("/sys/fs/cgroup/memory/jobs/4235ca2d/memory.oom_control");

	/* without memory.stat the ancestors are asked one by one */
	stored_remove(root, "sys/fs/cgroup/memory/jobs/4235ca2d/memory.stat");
	assert_int_equal(cgroup_memory_limit(root, 0, &v), 0);
	assert_int_equal(v, UINT64_C(4) << 30);
	stored_write(root, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
		     "9223372036854771712\n");
	assert_int_equal(cgroup_memory_limit(root, 0, &v), -ENODATA);
	/* the same on a machine with pages of 64 KiB */
	stored_write(root, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
		     "9223372036854710272\n");
	assert_int_equal(cgroup_memory_limit(root, 0, &v), -ENODATA);
	stored_remove(root, "");
}

static void test_namespace(void **state)
{
	const char *root = stored_path("container");
	uint64_t v;

	(void)state;
	assert_int_equal(cgroup_memory_limit(root, 7, &v), 0);
	assert_int_equal(v, UINT64_C(64) << 30);
	assert_int_equal(oom_kills(root, 7, &v), 0);
	assert_int_equal(v, 1);
	assert_what("/container/sys/fs/cgroup/memory.events");
	/* outside of the namespace */
	assert_int_equal(cgroup_memory_limit(root, 8, &v), -ENOENT);
	assert_int_equal(oom_kills(root, 8, &v), -ENOENT);
}

static void test_docker1(void **state)
{
	const char *root = stored_path("docker1");
	uint64_t v;

	(void)state;
	assert_int_equal(cgroup_memory_limit(root, 0, &v), 0);
	assert_int_equal(v, UINT64_C(2) << 30);
	/* a kernel that does not count kills */
	assert_int_equal(oom_kills(root, 0, &v), -ENOENT);
}

static void test_none(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(cgroup_memory_limit(stored_path("old"), 500, &v), -ESRCH);
	assert_int_equal(cgroup_memory_limit(stored_path("old"), 0, &v), -ENOENT);
	assert_int_equal(cgroup_memory_limit(stored_path("missing"), 0, &v), -ENOENT);
}

static void test_malformed(void **state)
{
	uint64_t v = 77;

	(void)state;
	assert_int_equal(cgroup_memory_limit(stored_path("malformed"), 0, &v), -EBADMSG);
	assert_int_equal(oom_kills(stored_path("malformed"), 0, &v), -EBADMSG);
	assert_int_equal(v, 77);
}

/* This machine: whatever it has, the answer is one of those documented, and the
 * counter can be read again. */
static void test_real(void **state)
{
	uint64_t limit = 0, kills;
	int err;

	(void)state;
	err = cgroup_memory_limit("", getpid(), &limit);
	assert_true(err == 0 || err == -ENODATA || err == -ENOENT);
	if (!err)
		assert_true(limit > 0);
	err = oom_kills("", getpid(), &kills);
	assert_true(err == 0 || err == -ENOENT);
	if (!err)
		assert_int_equal(access(what, R_OK), 0);
}

static void test_cgroup_lines(void **state)
{
	static const struct {
		const char *text;
		int err, v2;
		const char *path;
	} rows[] = {
		{"0::/a/b\n", 0, 1, "/a/b"},
		{"0::/a/b", 0, 1, "/a/b"},
		{"4:memory:/m\n0::/u\n", 0, 0, "/m"},
		{"0::/u\n4:cpu,memory,pids:/m:x y\n", 0, 0, "/m:x y"},
		{"4:memoryx:/m\n5:name=memory:/n\n0::/u\n", 0, 1, "/u"},
		{"4:cpu:/m\n", -ENOENT, 0, ""},
		{"0::/..\n", -ENOENT, 0, ""},
		{"0::/../../x\n", -ENOENT, 0, ""},
		{"0::/..x/y..\n", 0, 1, "/..x/y.."},
		{"0::\n", -ENOENT, 0, ""},
		{"0\n:\n::\n", -ENOENT, 0, ""},
		{"", -ENOENT, 0, ""},
		{"0::/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", -ENAMETOOLONG, 0, ""},
	};
	char path[32];
	bool v2;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(
			mounts_cgroup(rows[i].text, strlen(rows[i].text), &v2, path, sizeof(path)),
			rows[i].err);
		if (rows[i].err)
			continue;
		assert_int_equal(v2, rows[i].v2);
		assert_string_equal(path, rows[i].path);
	}
}

static void test_mount_lines(void **state)
{
	static const struct {
		const char *text;
		int v2;
		const char *path;
		int err;
		const char *dir;
		size_t top;
	} rows[] = {
		{"1 2 0:1 / /cg rw - cgroup2 c rw\n", 1, "/a", 0, "/cg/a", 3},
		{"1 2 0:1 / /cg rw - cgroup2 c rw", 1, "/", 0, "/cg", 3},
		{"1 2 0:1 / /c\\040g\\134 rw s:1 m:2 - cgroup2 c rw\n", 1, "/a", 0, "/c g\\/a", 5},
		{"1 2 0:1 /a /cg rw - cgroup2 c rw\n", 1, "/a/b", 0, "/cg/b", 3},
		{"1 2 0:1 /a /cg rw - cgroup2 c rw\n", 1, "/ab", -ENOENT, "", 0},
		/* the mount with more ancestors wins */
		{"1 2 0:1 /a /x rw - cgroup2 c rw\n3 2 0:1 / /y rw - cgroup2 c rw\n", 1, "/a", 0,
		 "/y/a", 2},
		{"1 2 0:1 / /y rw - cgroup2 c rw\n3 2 0:1 /a /x rw - cgroup2 c rw\n", 1, "/a", 0,
		 "/y/a", 2},
		/* mounted from outside of the namespace */
		{"1 2 0:1 /.. /x rw - cgroup2 c rw\n", 1, "/", -ENOENT, "", 0},
		{"1 2 0:1 / /m rw - cgroup c rw,hugetlb,memory\n", 0, "/q", 0, "/m/q", 2},
		{"1 2 0:1 / /m rw - cgroup c rw,hugetlb,memoryx\n", 0, "/q", -ENOENT, "", 0},
		{"1 2 0:1 / /m rw - tmpfs c rw,memory\n", 0, "/q", -ENOENT, "", 0},
		{"1 2 0:1 / /m rw cgroup2 c rw,memory\n", 1, "/q", -ENOENT, "", 0},
		{"1 2 0:1 / /m\n-\n - \n\n", 1, "/q", -ENOENT, "", 0},
		{"1 2 0:1 / /averyveryverylongpath rw - cgroup2 c rw\n", 1, "/andmoreofitaswell",
		 -ENAMETOOLONG, "", 0},
		{"", 1, "/q", -ENOENT, "", 0},
	};
	char dir[32];
	size_t i, top;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(mounts_find(rows[i].text, strlen(rows[i].text), rows[i].v2,
					     rows[i].path, dir, sizeof(dir), &top),
				 rows[i].err);
		if (rows[i].err)
			continue;
		assert_string_equal(dir, rows[i].dir);
		assert_int_equal(top, rows[i].top);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v2),          cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_namespace),   cmocka_unit_test(test_docker1),
		cmocka_unit_test(test_none),        cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_real),        cmocka_unit_test(test_cgroup_lines),
		cmocka_unit_test(test_mount_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
