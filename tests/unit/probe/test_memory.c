/* SPDX-License-Identifier: Apache-2.0
 *
 * Load, memory, paging, NUMA nodes and pressure of the machine, on stored trees of
 * several kernels and on this machine.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "reading.h"
#include "stored.h"

#define KIB 1024.0

static struct reading r;
static char root[STORED_PATH];

static void near(const char *name, const char *labels, double want)
{
	double v = reading_value(&r, name, labels);

	if (fabs(v - want) > 1e-9)
		fail_msg("%s{%s} is %.17g, not %.17g", name, labels, v, want);
}

static void begin(const struct probe_group *g, const char *tree)
{
	stored_copy(tree, root);
	assert_int_equal(reading_open(&r, g, root), 0);
}

static void end(void)
{
	reading_close(&r);
	stored_remove(root, "");
}

static void test_load(void **state)
{
	(void)state;
	begin(&probe_load, "el7");
	reading_at(&r, 1);
	near("load/1m", "", 0.5);
	near("load/5m", "", 1.25);
	near("load/15m", "", 10);
	stored_write(root, "proc/loadavg", "nan nan nan\n");
	reading_at(&r, 2);
	assert_string_equal(reading_why(&r, "load/1m", ""), "/proc/loadavg is malformed");
	end();
	assert_int_equal(reading_open(&r, &probe_load, stored_path("missing")), -ENODEV);
}

static void test_memory_old(void **state)
{
	(void)state;
	begin(&probe_memory, "el7");
	reading_at(&r, 1);
	near("memory/total", "", 3880200 * KIB);
	near("memory/free", "", 120000 * KIB);
	near("memory/cached", "", 2000000 * KIB); /* not SwapCached */
	near("memory/buffers", "", 50000 * KIB);
	near("memory/shared", "", 60000 * KIB);
	near("memory/dirty", "", 400 * KIB);
	near("memory/writeback", "", 8 * KIB); /* not WritebackTmp */
	near("memory/slab/unreclaimable", "", 50000 * KIB);
	near("memory/anonymous", "", 900000 * KIB);
	near("memory/anonymous/huge", "", 204800 * KIB);
	near("swap/total", "", 2097148 * KIB);
	near("swap/used", "", 100000 * KIB);
	assert_string_equal(reading_why(&r, "memory/available", ""),
			    "/proc/meminfo has no MemAvailable (Linux before 3.14)");
	reading_why(&r, "memory/used", "");
	reading_why(&r, "memory/hugepages/total", "");
	end();
}

static void test_memory_new(void **state)
{
	(void)state;
	begin(&probe_memory, "linux6");
	reading_at(&r, 1);
	near("memory/available", "", 9000000 * KIB);
	near("memory/used", "", 7000000 * KIB);
	near("swap/total", "", 0); /* true zeros */
	near("swap/used", "", 0);
	near("memory/anonymous/huge", "", 0);
	near("memory/hugepages/total", "", 1024 * 2048 * KIB);
	near("memory/hugepages/used", "", 24 * 2048 * KIB);
	stored_edit(root, "proc/meminfo", "MemAvailable:    9000000", "MemAvailable:   16000001");
	stored_edit(root, "proc/meminfo", "MemFree:         1000000 kB\n", "");
	reading_at(&r, 2);
	assert_string_equal(reading_why(&r, "memory/used", ""),
			    "needs MemTotal and a MemAvailable that is not above it");
	assert_string_equal(reading_why(&r, "memory/free", ""), "/proc/meminfo has no such line");
	end();
	assert_int_equal(reading_open(&r, &probe_memory, stored_path("malformed")), 0);
	reading_at(&r, 1);
	reading_why(&r, "memory/total", "");
	reading_close(&r);
}

static void test_vmstat_old(void **state)
{
	(void)state;
	begin(&probe_vmstat, "el7");
	reading_at(&r, 1);
	reading_why(&r, "swap/in", "");
	stored_edit(root, "proc/vmstat", "pgpgin 5000", "pgpgin 5003");
	stored_edit(root, "proc/vmstat", "pswpout 25", "pswpout 27");
	stored_edit(root, "proc/vmstat", "pgmajfault 300", "pgmajfault 311");
	stored_edit(root, "proc/vmstat", "pgscan_direct_dma32 20", "pgscan_direct_dma32 25");
	stored_edit(root, "proc/vmstat", "pgscan_direct_movable 4000",
		    "pgscan_direct_movable 4100");
	stored_edit(root, "proc/vmstat", "pgscan_direct_throttle 7", "pgscan_direct_throttle 9");
	reading_at(&r, 2);
	near("memory/paged/in", "", 3 * KIB);
	near("memory/paged/out", "", 0);
	near("swap/in", "", 0);
	near("swap/out", "", 2.0 * (double)sysconf(_SC_PAGESIZE));
	near("memory/faults/major", "", 11);
	near("memory/scans/direct", "", 105);
	assert_string_equal(reading_why(&r, "memory/oom_kills", ""),
			    "/proc/vmstat has no oom_kill (Linux before 4.13)");
	assert_string_equal(reading_why(&r, "memory/refaults", ""),
			    "/proc/vmstat has no workingset_refault (Linux before 3.15)");
	end();
}

static void test_vmstat_new(void **state)
{
	(void)state;
	begin(&probe_vmstat, "linux5");
	reading_at(&r, 1);
	stored_edit(root, "proc/vmstat", "workingset_refault 700", "workingset_refault 750");
	stored_edit(root, "proc/vmstat", "pgscan_direct 20", "pgscan_direct 21");
	stored_edit(root, "proc/vmstat", "oom_kill 3", "oom_kill 4");
	reading_at(&r, 2);
	near("memory/refaults", "", 50);
	near("memory/scans/direct", "", 1);
	near("memory/oom_kills", "", 1);
	end();

	/* refaults of files, not of anonymous pages */
	begin(&probe_vmstat, "linux6");
	reading_at(&r, 1);
	stored_edit(root, "proc/vmstat", "workingset_refault_anon 5", "workingset_refault_anon 90");
	stored_edit(root, "proc/vmstat", "workingset_refault_file 100",
		    "workingset_refault_file 101");
	reading_at(&r, 2);
	near("memory/refaults", "", 1);
	stored_edit(root, "proc/vmstat", "workingset_refault_file 101",
		    "workingset_refault_file 7");
	reading_at(&r, 3);
	assert_string_equal(reading_why(&r, "memory/refaults", ""), "the counter began anew");
	end();
}

static void test_numa(void **state)
{
	(void)state;
	begin(&probe_numa, "el7");
	reading_at(&r, 1);
	near("numa/memory/total", "node=\"0\"", 2000000 * KIB);
	near("numa/memory/free", "node=\"1\"", 70000 * KIB);
	near("numa/memory/used", "node=\"1\"", (1880200 - 70000) * KIB);
	stored_edit(root, "sys/devices/system/node/node0/numastat", "numa_miss 11", "numa_miss 16");
	stored_edit(root, "sys/devices/system/node/node1/numastat", "numa_foreign 44",
		    "numa_foreign 49");
	reading_at(&r, 11);
	near("numa/miss", "node=\"0\"", 5);
	near("numa/miss", "node=\"1\"", 0);
	near("numa/foreign", "node=\"1\"", 5);
	assert_false(reading_has(&r, "numa/miss", "node=\"2\""));

	/* a node is plugged in, and found within a minute; another cannot be read */
	stored_write(root, "sys/devices/system/node/has_memory", "0-2\n");
	stored_write(root, "sys/devices/system/node/node2/meminfo",
		     "Node 2 MemTotal: 10 kB\nNode 2 MemFree: 11 kB\n");
	stored_edit(root, "sys/devices/system/node/node1/numastat", "numa_miss", "numa_muss");
	reading_at(&r, 72);
	near("numa/memory/total", "node=\"2\"", 10 * KIB);
	assert_string_equal(reading_why(&r, "numa/memory/used", "node=\"2\""),
			    "the node's meminfo does not tell");
	reading_why(&r, "numa/miss", "node=\"2\"");
	reading_why(&r, "numa/miss", "node=\"1\"");
	end();

	/* four nodes, but one with memory */
	assert_int_equal(reading_open(&r, &probe_numa, stored_path("linux6")), -ENODEV);
	assert_non_null(strstr(r.err.text, "one NUMA node"));
	assert_int_equal(reading_open(&r, &probe_numa, stored_path("missing")), -ENODEV);
}

static void test_pressure(void **state)
{
	(void)state;
	begin(&probe_pressure, "linux5");
	reading_at(&r, 10);
	assert_string_equal(reading_why(&r, "pressure/cpu", ""), "needs a second reading");
	stored_edit(root, "proc/pressure/cpu", "total=1000000", "total=1250000");
	stored_edit(root, "proc/pressure/io", "total=3000000", "total=3100000");
	stored_edit(root, "proc/pressure/io", "total=100\n", "total=50100\n");
	reading_at(&r, 11);
	near("pressure/cpu", "", 0.25);
	near("pressure/memory", "", 0);
	near("pressure/memory/full", "", 0);
	near("pressure/io", "", 0.1);
	near("pressure/io/full", "", 0.05);

	/* four readings were missed: 1 s of 5 s */
	stored_edit(root, "proc/pressure/cpu", "total=1250000", "total=2250000");
	reading_at(&r, 16);
	near("pressure/cpu", "", 0.2);

	/* a hair more than the time between the two: both clocks are read in turn */
	stored_edit(root, "proc/pressure/cpu", "total=2250000", "total=3250300");
	reading_at(&r, 17);
	near("pressure/cpu", "", 1);

	/* one file fails, one began anew; what follows spans the hole */
	stored_write(root, "proc/pressure/cpu", "some\n");
	stored_edit(root, "proc/pressure/memory", "total=2000000", "total=5");
	reading_at(&r, 18);
	assert_string_equal(reading_why(&r, "pressure/cpu", ""),
			    "its file in /proc/pressure cannot be read");
	assert_string_equal(reading_why(&r, "pressure/memory", ""), "the counter began anew");
	near("pressure/memory/full", "", 0);
	stored_write(root, "proc/pressure/cpu", "some avg10=0.00 total=4250300\n");
	reading_at(&r, 19);
	near("pressure/cpu", "", 0.5);
	reading_at(&r, 19);
	assert_string_equal(reading_why(&r, "pressure/cpu", ""),
			    "no time has passed since the last reading");
	end();
}

static void test_pressure_off(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_pressure, stored_path("el7")), -ENODEV);
	assert_non_null(strstr(r.err.text, "psi=1"));

	/* some are there: the others have a reason */
	stored_copy("linux6", root);
	stored_remove(root, "proc/pressure/io");
	assert_int_equal(reading_open(&r, &probe_pressure, root), 0);
	reading_at(&r, 1);
	reading_at(&r, 2);
	near("pressure/cpu", "", 0);
	reading_why(&r, "pressure/io", "");
	reading_why(&r, "pressure/io/full", "");
	end();
}

static void test_real(void **state)
{
	double used, available;

	(void)state;
	assert_int_equal(reading_open(&r, &probe_memory, ""), 0);
	reading_at(&r, 1);
	used = reading_value(&r, "memory/used", "");
	available = reading_value(&r, "memory/available", "");
	near("memory/total", "", used + available);
	assert_true(reading_value(&r, "memory/free", "") <= used + available);
	reading_close(&r);
	assert_int_equal(reading_open(&r, &probe_load, ""), 0);
	reading_at(&r, 1);
	assert_true(reading_value(&r, "load/15m", "") >= 0);
	reading_close(&r);
	assert_int_equal(reading_open(&r, &probe_vmstat, ""), 0);
	reading_at(&r, 1);
	reading_at(&r, 2);
	assert_true(reading_value(&r, "memory/faults/major", "") >= 0);
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),       cmocka_unit_test(test_memory_old),
		cmocka_unit_test(test_memory_new), cmocka_unit_test(test_vmstat_old),
		cmocka_unit_test(test_vmstat_new), cmocka_unit_test(test_numa),
		cmocka_unit_test(test_pressure),   cmocka_unit_test(test_pressure_off),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
