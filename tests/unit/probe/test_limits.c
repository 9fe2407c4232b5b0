/* SPDX-License-Identifier: Apache-2.0
 *
 * How many CPUs there are and how much of CPU and memory cgroups let the agent have,
 * v1 and v2, on stored trees.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reading.h"
#include "stored.h"

static struct reading r;
static char root[STORED_PATH];

static void equal(const char *name, double want)
{
	double v = reading_value(&r, name, "");

	if (v != want)
		fail_msg("%s is %.17g, not %.17g", name, v, want);
}

static void begin(const char *tree)
{
	stored_copy(tree, root);
	assert_int_equal(reading_open(&r, &probe_limits, root), 0);
	reading_at(&r, 100);
}

static void end(void)
{
	reading_close(&r);
	stored_remove(root, "");
}

static void test_cpus(void **state)
{
	(void)state;
	begin("el7");
	equal("cpu/count", 4);
	equal("cpu/count/physical", 2); /* CPUs 0 and 2 share a core, and 1 and 3 */
	equal("cpu/count/affinity", 2);
	assert_string_equal(reading_why(&r, "cpu/quota", ""),
			    "no cgroup of the cpu controller can be seen");

	/* CPU 0 goes offline: its core runs on with CPU 2 */
	stored_write(root, "sys/devices/system/cpu/online", "1-3\n");
	stored_remove(root, "sys/devices/system/cpu/cpu0/topology");
	stored_write(root, "sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2\n");
	stored_write(root, "proc/self/status", "Cpus_allowed_list:\t2\n");
	reading_at(&r, 110);
	equal("cpu/count", 3);
	equal("cpu/count/affinity", 1);
	reading_at(&r, 160);
	equal("cpu/count/physical", 2);
	stored_write(root, "proc/self/status", "Cpus_allowed_list:\tx\n");
	reading_at(&r, 170);
	reading_why(&r, "cpu/count/affinity", "");
	end();
}

static void test_v2(void **state)
{
	(void)state;
	begin("v2");
	equal("cpu/count", 2); /* by /proc/stat: the tree has no list */
	reading_why(&r, "cpu/count/physical", "");
	equal("cpu/quota", 4.5); /* 6 of its own, 4.5 of the cgroup above, none on top */
	equal("memory/limit", 8589934592.0);

	stored_write(root, "sys/fs/cgroup/user.slice/user-1000.slice/train.scope/cpu.max",
		     "25000 100000\n");
	reading_at(&r, 110);
	equal("cpu/quota", 0.25);
	stored_write(root, "sys/fs/cgroup/user.slice/user-1000.slice/train.scope/cpu.max",
		     "25000 0\n");
	reading_at(&r, 120);
	assert_string_equal(reading_why(&r, "cpu/quota", ""), "the cgroup's files cannot be read");
	end();

	begin("container");
	equal("cpu/quota", 0.5);
	stored_write(root, "sys/fs/cgroup/cpu.max", "max 100000\n");
	reading_at(&r, 110);
	assert_string_equal(reading_why(&r, "cpu/quota", ""), "no cgroup sets a quota");
	stored_remove(root, "sys/fs/cgroup/cpu.max"); /* the controller is off */
	reading_at(&r, 120);
	assert_string_equal(reading_why(&r, "cpu/quota", ""), "no cgroup sets a quota");
	end();
}

static void test_v1(void **state)
{
	static const char top[] = "sys/fs/cgroup/cpu,cpuacct/";
	char path[128];

	(void)state;
	begin("hybrid");
	assert_string_equal(reading_why(&r, "cpu/quota", ""), "no cgroup sets a quota"); /* -1 */

	/* a job two levels down: 3 CPUs of its own, 2 of what it is in */
	stored_edit(root, "proc/self/cgroup", "2:cpuacct,cpu:/", "2:cpuacct,cpu:/jobs/7");
	snprintf(path, sizeof(path), "%sjobs/7/cpu.cfs_quota_us", top);
	stored_write(root, path, "300000\n");
	snprintf(path, sizeof(path), "%sjobs/7/cpu.cfs_period_us", top);
	stored_write(root, path, "100000\n");
	reading_at(&r, 110);
	equal("cpu/quota", 3);
	snprintf(path, sizeof(path), "%sjobs/cpu.cfs_quota_us", top);
	stored_write(root, path, "100000\n");
	snprintf(path, sizeof(path), "%sjobs/cpu.cfs_period_us", top);
	stored_write(root, path, "50000\n");
	reading_at(&r, 120);
	equal("cpu/quota", 2);
	end();
}

static void test_nothing(void **state)
{
	static const char *const trees[] = {"missing", "malformed"};
	size_t i, k;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(reading_open(&r, &probe_limits, stored_path(trees[i])), 0);
		reading_at(&r, 1);
		for (k = 0; k < probe_limits.n_metrics; k++)
			reading_why(&r, probe_limits.metrics[k].name, "");
		reading_close(&r);
	}
}

static void test_real(void **state)
{
	double v;

	(void)state;
	assert_int_equal(reading_open(&r, &probe_limits, ""), 0);
	reading_at(&r, 1);
	equal("cpu/count", (double)sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(reading_value(&r, "cpu/count/affinity", "") <=
		    (double)sysconf(_SC_NPROCESSORS_CONF));
	if (probe_value(r.set, "cpu/count/physical", "", &v) == 0)
		assert_true(v >= 1 && v <= reading_value(&r, "cpu/count", ""));
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpus), cmocka_unit_test(test_v2),
		cmocka_unit_test(test_v1),   cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
