/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of the machine: worked out by hand on stored trees, plausible on this
 * one. Also that docs/metrics.md shows the tables as they are.
 */
#include "probe/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "stored.h"
#include "wire/sink.h"

static struct probe_host p;
static struct probe_host_values v;

static int known(enum probe_host_index i)
{
	int yes = v.valid >> i & 1;

	/* a value or a reason, never both or neither */
	assert_true(yes == (v.why[i] == NULL));
	return yes;
}

static double value(enum probe_host_index i)
{
	assert_true(known(i));
	return v.value[i];
}

static void test_v2(void **state)
{
	(void)state;
	assert_int_equal(probe_host_init(&p, stored_path("v2")), 0);
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_false(known(PROBE_HOST_CPU_BUSY)); /* no delta yet */
	assert_true(value(PROBE_HOST_CPU_COUNT) == 2);
	assert_true(value(PROBE_HOST_MEMORY_TOTAL) == 65801216.0 * 1024);
	assert_true(value(PROBE_HOST_MEMORY_AVAILABLE) == 41943040.0 * 1024);
	assert_true(value(PROBE_HOST_MEMORY_USED) == 23858176.0 * 1024);
	assert_true(value(PROBE_HOST_MEMORY_LIMIT) == 8589934592.0);
	assert_true(value(PROBE_HOST_LOAD_1M) == 3.07);

	/* the same ticks again: no time passed */
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_false(known(PROBE_HOST_CPU_BUSY));
	probe_host_done(&p);
}

/* Ticks of the tree at first: user 1000 nice 200 system 300 idle 8000 iowait 400
 * irq 50 softirq 50 steal 0 guest 600 guest_nice 100. */
static void test_cpu(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_host_init(&p, root), 0);
	assert_int_equal(probe_host_read(&p, &v), 0);

	/* user +400 (300 of it guest), system +100, idle +400, steal +100: 1000
	 * in all, 400 idle. Were guest added, it would be 1 - 400/1300. */
	stored_write(root, "proc/stat",
		     "cpu  1400 200 400 8400 400 50 50 100 900 100\ncpu0 1 1 1 1\nintr 5\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(fabs(value(PROBE_HOST_CPU_BUSY) - 0.6) < 1e-12);
	assert_true(value(PROBE_HOST_CPU_COUNT) == 1);

	/* iowait -100 counts as 0; user +150, idle +30, iowait 0, irq +20: 170/200 */
	stored_write(root, "proc/stat",
		     "cpu  1550 200 400 8430 300 70 50 100 900 100\ncpu0 1 1 1 1\nintr 5\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(fabs(value(PROBE_HOST_CPU_BUSY) - 0.85) < 1e-12);

	/* a CPU went offline and took its ticks along; then 10 busy, 30 idle and
	 * 60 iowait */
	stored_write(root, "proc/stat", "cpu  700 100 200 4000 100 30 20 50 400 50\ncpu0 1\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_false(known(PROBE_HOST_CPU_BUSY));
	stored_write(root, "proc/stat", "cpu  710 100 200 4030 160 30 20 50 400 50\ncpu0 1\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(fabs(value(PROBE_HOST_CPU_BUSY) - 0.1) < 1e-12);

	/* a bad file leaves a hole, not a zero; the next delta spans it */
	stored_write(root, "proc/stat", "cpu  x\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_false(known(PROBE_HOST_CPU_BUSY));
	assert_false(known(PROBE_HOST_CPU_COUNT));
	stored_write(root, "proc/stat", "cpu  760 100 200 4080 160 30 20 50 400 50\ncpu0 1\n");
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(fabs(value(PROBE_HOST_CPU_BUSY) - 0.5) < 1e-12);
	probe_host_done(&p);
	stored_remove(root, "");
}

/* More CPUs than the first buffer holds lines of. */
static void test_many_cpus(void **state)
{
	static char text[100000];
	char root[STORED_PATH];
	size_t len, i;

	(void)state;
	len = (size_t)sprintf(text, "cpu  1 2 3 4 5 6 7 8 9 10\n");
	for (i = 0; i < 1024; i++)
		len += (size_t)sprintf(text + len,
				       "cpu%zu 1234567 0 7654321 1234567890 0 0 0 0 0 0\n", i);
	sprintf(text + len, "intr 1 2 3\n");
	stored_copy("v2", root);
	stored_write(root, "proc/stat", text);
	assert_int_equal(probe_host_init(&p, root), 0);
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(value(PROBE_HOST_CPU_COUNT) == 1024);
	probe_host_done(&p);
	stored_remove(root, "");
}

static void test_old(void **state)
{
	(void)state;
	assert_int_equal(probe_host_init(&p, stored_path("old")), 0);
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(value(PROBE_HOST_CPU_COUNT) == 1);
	assert_true(value(PROBE_HOST_MEMORY_TOTAL) == 8063540.0 * 1024);
	assert_false(known(PROBE_HOST_MEMORY_AVAILABLE));
	assert_false(known(PROBE_HOST_MEMORY_USED));
	assert_false(known(PROBE_HOST_MEMORY_LIMIT));
	assert_true(value(PROBE_HOST_LOAD_1M) == 0); /* a true zero */
	probe_host_done(&p);
}

static void test_nothing(void **state)
{
	char long_root[PROBE_ROOT_MAX + 1];
	int i, tree;

	(void)state;
	for (tree = 0; tree < 2; tree++) {
		assert_int_equal(probe_host_init(&p, stored_path(tree ? "missing" : "malformed")),
				 0);
		assert_int_equal(probe_host_read(&p, &v), -ENODATA);
		assert_int_equal(v.valid, 0);
		for (i = 0; i < PROBE_HOST_METRICS; i++)
			assert_non_null(v.why[i]);
		probe_host_done(&p);
	}
	memset(long_root, 'x', PROBE_ROOT_MAX);
	long_root[PROBE_ROOT_MAX] = '\0';
	assert_int_equal(probe_host_init(&p, long_root), -ENAMETOOLONG);
	probe_host_done(&p);
}

static void test_real(void **state)
{
	int tries;

	(void)state;
	assert_int_equal(probe_host_init(&p, ""), 0);
	assert_int_equal(probe_host_read(&p, &v), 0);
	assert_true(value(PROBE_HOST_CPU_COUNT) == sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(value(PROBE_HOST_MEMORY_TOTAL) > 0);
	assert_true(value(PROBE_HOST_MEMORY_USED) + value(PROBE_HOST_MEMORY_AVAILABLE) ==
		    value(PROBE_HOST_MEMORY_TOTAL));
	assert_true(value(PROBE_HOST_LOAD_1M) >= 0);
	for (tries = 0; tries < 500; tries++) { /* until a tick was counted */
		usleep(10000);
		assert_int_equal(probe_host_read(&p, &v), 0);
		if (known(PROBE_HOST_CPU_BUSY))
			break;
	}
	assert_true(value(PROBE_HOST_CPU_BUSY) >= 0 && value(PROBE_HOST_CPU_BUSY) <= 1);
	probe_host_done(&p);
}

static void check_page(const char *page, const struct probe_metric *m, size_t n)
{
	char row[1024];
	size_t i;

	for (i = 0; i < n; i++) {
		assert_int_equal(m[i].kind, SINK_GAUGE);
		snprintf(row, sizeof(row), "\n| `%s` | %s | gauge | %s | %s |\n", m[i].name,
			 m[i].unit, m[i].help, m[i].source);
		if (!strstr(page, row))
			fail_msg("docs/metrics.md lacks this row:%s", row);
	}
}

static void test_page(void **state)
{
	struct buf page;

	(void)state;
	buf_init(&page, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, TEST_DOC, &page), 0);
	check_page(buf_str(&page), probe_host_metrics, PROBE_HOST_METRICS);
	check_page(buf_str(&page), probe_tree_metrics, PROBE_TREE_METRICS);
	buf_done(&page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v2),        cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_many_cpus), cmocka_unit_test(test_old),
		cmocka_unit_test(test_nothing),   cmocka_unit_test(test_real),
		cmocka_unit_test(test_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
