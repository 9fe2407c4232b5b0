/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of one process and of a cgroup, taken apart.
 */
#include "probe/linux/task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "probe/linux/cgrouptext.h"
#include "probe/linux/proc.h"

#define TEXT(t) t, sizeof(t) - 1

static void test_stat(void **state)
{
	static const char text[] =
		"77 (a ) b) Z 5 1 1 0 -1 0 11 12 13 14 1 2 3 4 20 0 1 0 900 0 0 1 2 3 400 5 6 7 8 "
		"9 10 11 12 13 17 3 0 0 0 0 0 45 46 47 4800 49 50 51 139\n";
	struct proc_stat s;

	(void)state;
	assert_int_equal(proc_parse_stat(text, strlen(text), &s), 0);
	assert_string_equal(s.name, "a ) b");
	assert_int_equal(s.minor, 11);
	assert_int_equal(s.major, 13);
	assert_int_equal(s.stack, 400);
	assert_int_equal(s.args, 4800);
	assert_int_equal(s.exit_code, 139);
	/* old kernels write less, and names may be long */
	assert_int_equal(
		proc_parse_stat(TEXT("1 (abcdefghijklmnopqrst) S 0 1 1 0 -1 0 1 1 1 1 1 1 1 1 1 "
				     "1 1 1 1"),
				&s),
		0);
	assert_string_equal(s.name, "abcdefghijklmno");
	assert_int_equal(s.stack, 0);
	assert_int_equal(s.exit_code, 0);
}

static int status(const char *text, struct task_status *s)
{
	return task_parse_status(text, strlen(text), s);
}

static void test_status(void **state)
{
	struct task_status s = {77, {0}};

	(void)state;
	assert_int_equal(status("Name:\tx\nVmHWM:\t  12 kB\nRssAnon:\t4 kB\nVmSwap:\t0 kB\n"
				"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n",
				&s),
			 0);
	assert_int_equal(s.has, 31);
	assert_int_equal(s.value[TASK_STATUS_PEAK], 12288);
	assert_int_equal(s.value[TASK_STATUS_ANONYMOUS], 4096);
	assert_int_equal(s.value[TASK_STATUS_SWAP], 0);
	assert_int_equal(s.value[TASK_STATUS_VOLUNTARY], 5);
	assert_int_equal(s.value[TASK_STATUS_INVOLUNTARY], 6);
	/* a zombie; a name with a line of its own cannot be, the kernel escapes it */
	assert_int_equal(status("Name:\tx\\nVmHWM: 5 kB\nState:\tZ\n", &s), 0);
	assert_int_equal(s.has, 0);
	assert_int_equal(status("", &s), -EBADMSG);
	assert_int_equal(status("State:\tS\n", &s), -EBADMSG);
	assert_int_equal(status("Name:\tx\nVmHWM:\t12\n", &s), -EBADMSG);
	assert_int_equal(status("Name:\tx\nVmHWM:\t-1 kB\n", &s), -EBADMSG);
	assert_int_equal(status("Name:\tx\nVmHWM:\t18446744073709551615 kB\n", &s), -EBADMSG);
}

static void test_io(void **state)
{
	static const char text[] = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\n"
				   "write_bytes: 6\ncancelled_write_bytes: 7\n";
	struct task_io io;
	int i;

	(void)state;
	assert_int_equal(task_parse_io(text, strlen(text), &io), 0);
	for (i = 0; i < TASK_IO_FIELDS; i++)
		assert_int_equal(io.value[i], i + 1);
	assert_int_equal(task_parse_io(text, 30, &io), -EBADMSG);
	assert_int_equal(task_parse_io(TEXT("rchar: x\n"), &io), -EBADMSG);
}

static void test_small(void **state)
{
	struct task_schedstat s;
	uint64_t pss;

	(void)state;
	assert_int_equal(task_parse_schedstat(TEXT("85566 56364 2\n"), &s), 0);
	assert_int_equal(s.run_ns, 85566);
	assert_int_equal(s.wait_ns, 56364);
	assert_int_equal(task_parse_schedstat(TEXT("85566"), &s), -EBADMSG);
	assert_int_equal(task_parse_schedstat(TEXT(""), &s), -EBADMSG);
	assert_int_equal(task_parse_pss(TEXT("Rss: 1 kB\nPss: 2 kB\nPss_Dirty: 3 kB\n"), &pss), 0);
	assert_int_equal(pss, 2048);
	assert_int_equal(task_parse_pss(TEXT("Pss_Dirty: 3 kB\n"), &pss), -EBADMSG);
}

static void test_cgroup_io(void **state)
{
	static const char bad[] = "8:0 rbytes=18446744073709551615 wbytes=1\n8:1 rbytes=1\n";
	uint64_t r, w;

	(void)state;
	assert_int_equal(cgrouptext_io(TEXT(""), &r, &w), 0);
	assert_int_equal(r + w, 0);
	assert_int_equal(
		cgrouptext_io(TEXT("8:0 rbytes=5 wbytes=7 rios=1\n8:16 \n9:0 wbytes=1 rbytes=2"),
			      &r, &w),
		0);
	assert_int_equal(r, 7);
	assert_int_equal(w, 8);
	assert_int_equal(
		cgrouptext_io(TEXT("8:0 Read 5\n8:0 Write 6\n8:0 Sync 9\nTotal 11\n"), &r, &w), 0);
	assert_int_equal(r, 5);
	assert_int_equal(w, 6);
	assert_int_equal(cgrouptext_io(bad, strlen(bad), &r, &w), -EBADMSG);
	assert_int_equal(cgrouptext_io(TEXT("8:0 rbytes=x"), &r, &w), -EBADMSG);
}

static void test_cgroup_cpu(void **state)
{
	struct cgrouptext_cpu_stat s;

	(void)state;
	assert_int_equal(cgrouptext_cpu_stat(TEXT("usage_usec 5\nuser_usec 4\n"), &s), 0);
	assert_int_equal(s.has, 1u << CGROUPTEXT_USAGE_NS);
	assert_int_equal(s.value[CGROUPTEXT_USAGE_NS], 5000);
	assert_int_equal(
		cgrouptext_cpu_stat(TEXT("nr_periods 3\nnr_throttled 2\nthrottled_time 9\n"), &s),
		0);
	assert_int_equal(s.value[CGROUPTEXT_PERIODS], 3);
	assert_int_equal(s.value[CGROUPTEXT_THROTTLED], 2);
	assert_int_equal(s.value[CGROUPTEXT_THROTTLED_NS], 9);
	assert_int_equal(cgrouptext_cpu_stat(TEXT("usage_usec 18446744073709551615\n"), &s),
			 -EBADMSG);
	assert_int_equal(cgrouptext_cpu_stat(TEXT("nothing\n"), &s), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat),      cmocka_unit_test(test_status),
		cmocka_unit_test(test_io),        cmocka_unit_test(test_small),
		cmocka_unit_test(test_cgroup_io), cmocka_unit_test(test_cgroup_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
