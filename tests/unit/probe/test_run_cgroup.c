/* SPDX-License-Identifier: Apache-2.0
 *
 * The cgroup of a run in stored trees of each kind, and what is told of its memory.
 */
#include "runrig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stored.h"

#define GIB 1073741824.0
#define STEP0 "sys/fs/cgroup/job/step0/"

static struct runrig r;

static double value(const char *name)
{
	return runrig_value(&r, name, "");
}

static const char *why(const char *name)
{
	return runrig_why(&r, name, "");
}

static void test_v2(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	runrig_at(&r, 100);
	assert_true(value("cgroup/memory/used") == 6 * GIB);
	assert_true(value("cgroup/memory/limit") == 8 * GIB); /* of the job above it */
	assert_true(value("cgroup/memory/working_set") == 5.5 * GIB);
	assert_true(value("cgroup/memory/anonymous") == 3 * GIB);
	assert_true(value("cgroup/memory/file") == 2 * GIB);
	assert_true(value("cgroup/memory/shared") == 1 * GIB);
	assert_true(value("cgroup/memory/peak") == 7e9);
	assert_true(value("cgroup/memory/swap") == 1048576);
	assert_true(value("cgroup/cpu/quota") == 4); /* of the job */
	assert_true(value("cgroup/threads") == 77);
	assert_true(value("cgroup/threads/limit") == 4096);
	/* 3 + 1 GiB and 60 MiB of the kernel's, of 8 GiB; the machine: a quarter */
	assert_true(fabs(value("oom/risk") - (4 + 60 / 1024.0) / 8) < 1e-12);
	assert_string_equal(why("cgroup/memory/max"), "needs a second reading");

	/* 2 s later */
	stored_edit(root, STEP0 "cpu.stat", "usage_usec 100000000", "usage_usec 106000000");
	stored_edit(root, "sys/fs/cgroup/job/cpu.stat", "nr_periods 1000\nnr_throttled 100",
		    "nr_periods 1020\nnr_throttled 105");
	stored_edit(root, "sys/fs/cgroup/job/cpu.stat", "throttled_usec 5000000",
		    "throttled_usec 6000000");
	stored_edit(root, STEP0 "io.stat", "rbytes=500 wbytes=700", "rbytes=1500 wbytes=701");
	stored_edit(root, STEP0 "memory.events", "high 5\nmax 31", "high 6\nmax 33");
	stored_edit(root, STEP0 "io.pressure", "total=30000", "total=530000");
	stored_edit(root, STEP0 "io.pressure", "total=20000", "total=220000");
	stored_edit(root, STEP0 "cpu.pressure", "total=1000000", "total=9000000");
	runrig_at(&r, 102);
	assert_true(value("cgroup/cpu/used") == 3);
	assert_true(value("cgroup/cpu/throttled") == 0.5);
	assert_true(value("cgroup/cpu/throttled/periods") == 0.25);
	assert_true(value("cgroup/io/read") == 1000);
	assert_true(value("cgroup/io/written") == 1);
	assert_true(value("cgroup/memory/high") == 1);
	assert_true(value("cgroup/memory/max") == 2);
	assert_true(value("cgroup/memory/low") == 0);
	assert_true(value("cgroup/memory/oom_kills") == 0);
	assert_true(value("cgroup/pressure/io") == 0.25);
	assert_true(value("cgroup/pressure/io/full") == 0.1);
	assert_true(value("cgroup/pressure/memory") == 0);
	assert_true(value("cgroup/pressure/cpu") == 1); /* more than there was */
	assert_int_equal(r.n_events, 0);
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_kills(void **state)
{
	const struct runrig_event *e;
	char root[STORED_PATH];

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	runrig_at(&r, 100);
	assert_int_equal(r.n_events, 0); /* the 3 before are not ours to tell */
	stored_edit(root, STEP0 "memory.events", "oom_kill 3", "oom_kill 5");
	runrig_at(&r, 101);
	assert_true(value("cgroup/memory/oom_kills") == 2);
	e = runrig_event(&r, "cgroup-oom");
	assert_non_null(e);
	assert_int_equal(e->severity, 3);
	assert_string_equal(e->text,
			    "the kernel killed 2 processes of the run's cgroup for lack of "
			    "memory: limit 8.00 GiB, in use now 6.00 GiB");
	assert_string_equal(e->attrs, "{\"kills\":2,\"used\":6442450944,\"limit\":8589934592}");
	runrig_at(&r, 102);
	assert_int_equal(r.n_events, 0);
	runrig_close(&r);
	stored_remove(root, "");
}

/* The command is moved; limits change; the cgroup goes, as when a job is over. */
static void test_changes(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	runrig_at(&r, 100);
	runrig_at(&r, 101);
	assert_true(value("cgroup/cpu/used") == 0);
	stored_write(root, "sys/fs/cgroup/job/cpu.max", "max 100000\n");
	stored_write(root, "sys/fs/cgroup/job/memory.max", "max\n");
	runrig_at(&r, 110);
	assert_string_equal(why("cgroup/cpu/quota"), "no CPU quota is set");
	assert_string_equal(why("cgroup/cpu/throttled"), "no CPU quota is set");
	assert_string_equal(why("cgroup/memory/limit"), "no memory limit is set");
	assert_true(value("oom/risk") == 0.25); /* the machine's */
	stored_write(root, STEP0 "cpu.max", "50000 100000\n");
	runrig_at(&r, 120);
	assert_true(value("cgroup/cpu/quota") == 0.5);
	runrig_at(&r, 121);
	assert_true(value("cgroup/cpu/throttled") == 0);
	assert_true(value("cgroup/cpu/throttled/periods") == 0);

	stored_write(root, "sys/fs/cgroup/job/step1/memory.current", "4096\n");
	stored_write(root, "proc/100/cgroup", "0::/job/step1\n");
	runrig_at(&r, 131);
	assert_true(value("cgroup/memory/used") == 4096);
	assert_non_null(strstr(why("cgroup/memory/file"), "no such file"));
	stored_write(root, "proc/100/cgroup", "0::/job/step0\n");
	runrig_at(&r, 142);
	assert_true(value("cgroup/memory/used") == 6 * GIB);

	/* a command that has ended says "/": what was is looked at on */
	stored_edit(root, "proc/100/stat", "(torchrun) S", "(torchrun) Z");
	stored_edit(root, "proc/100/stat", " 20 0 4 0 ", " 20 0 1 0 ");
	stored_write(root, "proc/100/cgroup", "0::/\n");
	runrig_at(&r, 153);
	assert_true(value("cgroup/memory/used") == 6 * GIB);
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_gone(void **state)
{
	char root[STORED_PATH];
	int i;

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	runrig_at(&r, 100);
	stored_remove(root, "proc/100");
	stored_write(root, STEP0 "memory.current", "");
	stored_write(root, STEP0 "memory.stat", "");
	stored_write(root, STEP0 "cpu.stat", "usage_usec x\n");
	stored_write(root, STEP0 "io.stat", "8:0 rbytes=x\n");
	stored_write(root, STEP0 "io.pressure", "some\n");
	for (i = 1; i < 25; i++)
		runrig_at(&r, 100 + i);
	assert_non_null(strstr(why("cgroup/memory/used"), "not as kernels write it"));
	assert_non_null(strstr(why("cgroup/memory/anonymous"), "not as kernels write it"));
	assert_non_null(strstr(why("cgroup/cpu/used"), "not as kernels write it"));
	assert_non_null(strstr(why("cgroup/io/read"), "not as kernels write it"));
	assert_int_equal(r.n_events, 0);
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_hybrid(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("run_hybrid", root);
	runrig_open(&r, root, 600);
	runrig_at(&r, 100);
	assert_true(value("cgroup/memory/used") == 3e9);
	assert_true(value("cgroup/memory/limit") == 4 * GIB);
	assert_true(value("cgroup/memory/working_set") == 2.6e9);
	assert_true(value("cgroup/memory/anonymous") == 1.4e9);
	assert_true(value("cgroup/memory/file") == 1.5e9);
	assert_true(value("cgroup/memory/shared") == 0.2e9);
	assert_true(value("cgroup/memory/peak") == 4e9);
	assert_true(value("cgroup/memory/swap") == 4096);
	assert_true(value("cgroup/cpu/quota") == 1.5);
	assert_true(value("cgroup/threads") == 9);
	assert_true(value("cgroup/threads/limit") == 100);
	assert_true(value("oom/risk") == 0.5); /* the machine's; the cgroup's is 0.37 */
	assert_non_null(why("cgroup/memory/high"));
	stored_write(root, "sys/fs/cgroup/memory/jobs/7/memory.failcnt", "15\n");
	stored_edit(root, "sys/fs/cgroup/memory/jobs/7/memory.oom_control", "oom_kill 5",
		    "oom_kill 6");
	stored_write(root, "sys/fs/cgroup/cpu,cpuacct/jobs/7/cpuacct.usage", "101500000000\n");
	stored_write(root, "sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.stat",
		     "nr_periods 120\nnr_throttled 20\nthrottled_time 2000000000\n");
	stored_edit(root, "sys/fs/cgroup/blkio/jobs/7/blkio.throttle.io_service_bytes_recursive",
		    "8:16 Read 1\n", "8:16 Read 4097\n");
	stored_edit(root, "sys/fs/cgroup/unified/user.slice/io.pressure", "total=30000",
		    "total=630000");
	runrig_at(&r, 102);
	assert_true(value("cgroup/memory/max") == 3);
	assert_true(value("cgroup/memory/oom_kills") == 1);
	assert_int_equal(runrig_count(&r, "cgroup-oom"), 1);
	assert_true(value("cgroup/cpu/used") == 0.75);
	assert_true(value("cgroup/cpu/throttled") == 0.5);
	assert_true(value("cgroup/cpu/throttled/periods") == 0.5);
	assert_true(value("cgroup/io/read") == 4096);
	assert_true(value("cgroup/io/written") == 0);
	assert_true(value("cgroup/pressure/io") == 0.3);
	assert_non_null(why("cgroup/pressure/cpu"));
	runrig_close(&r);
	stored_remove(root, "");
}

/* Linux 3.10: no shmem, no counts of kills, and MemAvailable not either. */
static void test_el7(void **state)
{
	(void)state;
	runrig_open(&r, stored_path("run_el7"), 700);
	runrig_at(&r, 100);
	runrig_at(&r, 101);
	assert_true(value("cgroup/memory/used") == 3e9);
	assert_string_equal(why("cgroup/memory/limit"), "no memory limit is set");
	assert_true(value("cgroup/memory/working_set") == 2.6e9);
	assert_non_null(why("cgroup/memory/shared"));
	assert_non_null(why("cgroup/memory/oom_kills"));
	assert_true(value("cgroup/memory/max") == 0);
	assert_true(value("cgroup/cpu/used") == 0);
	assert_string_equal(why("cgroup/cpu/quota"), "no CPU quota is set");
	assert_non_null(strstr(why("oom/risk"), "MemAvailable"));
	assert_non_null(why("shm/used"));
	runrig_close(&r);
}

/* Anonymous memory grows by 100 MiB/s towards the limit of 8 GiB. */
static void test_forecast(void **state)
{
	const struct runrig_event *e;
	char root[STORED_PATH], text[256];
	unsigned told = 0;
	int s;

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	for (s = 0; s < 60; s++) {
		snprintf(text, sizeof(text), "anon %lld\nfile 0\nshmem 0\ninactive_file 0\n",
			 (2048LL + 100LL * s) << 20);
		stored_write(root, STEP0 "memory.stat", text);
		stored_write(root, STEP0 "memory.current", "8589934592\n");
		runrig_at(&r, 1000 + s);
		e = runrig_event(&r, "oom-forecast");
		if (!e)
			continue;
		told++;
		assert_int_equal(e->severity, 2);
		/* beyond 0.8 of 8192 MiB, 6554, it stands twice when points are added: at 2 s
		 * steps 6648 and 6848 */
		assert_int_equal(s, 48);
		assert_string_equal(
			e->text, "memory of the run's cgroup will be used up in about 13 s: 6.69 "
				 "GiB of 8.00 GiB cannot be taken back, and grew by 100 MiB/s "
				 "over the last minute");
	}
	assert_int_equal(told, 1);
	assert_true(fabs(value("oom/time") - (8192 - 2048 - 5900) / 100.0) < 1e-6);
	assert_true(fabs(value("oom/risk") - 7948 / 8192.0) < 1e-9);
	runrig_close(&r);
	stored_remove(root, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v2),       cmocka_unit_test(test_kills),
		cmocka_unit_test(test_changes),  cmocka_unit_test(test_gone),
		cmocka_unit_test(test_hybrid),   cmocka_unit_test(test_el7),
		cmocka_unit_test(test_forecast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
