/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPUs did: shares worked out by hand on stored trees, across CPUs that go and
 * come, counters that step back and readings that failed.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reading.h"
#include "stored.h"
#include "wire/clock.h"

static struct reading r;
static char root[STORED_PATH];

static void near(const char *name, const char *labels, double want)
{
	double v = reading_value(&r, name, labels);

	if (fabs(v - want) > 1e-12)
		fail_msg("%s{%s} is %.17g, not %.17g", name, labels, v, want);
}

static void begin(const char *tree)
{
	stored_copy(tree, root);
	assert_int_equal(reading_open(&r, &probe_cpu, root), 0);
}

static void end(void)
{
	reading_close(&r);
	stored_remove(root, "");
}

/* One cpu line for all and the same for CPU 0. */
static void all(const char *ticks)
{
	char text[512];

	snprintf(text, sizeof(text), "cpu  %s\ncpu0 %s\nintr 5\n", ticks, ticks);
	stored_write(root, "proc/stat", text);
}

/* Ticks of the tree at first: user 1000 nice 200 system 300 idle 8000 iowait 400
 * irq 50 softirq 50 steal 0 guest 600 guest_nice 100. */
static void test_shares(void **state)
{
	(void)state;
	begin("v2");
	reading_at(&r, 1);
	assert_string_equal(reading_why(&r, "cpu/busy", ""), "needs a second reading");

	/* user +400 (300 of it guest), system +100, idle +400, steal +100: 1000
	 * in all, 400 idle. Were guest added, busy would be 1 - 400/1300. */
	all("1400 200 400 8400 400 50 50 100 900 100");
	reading_at(&r, 2);
	near("cpu/busy", "", 0.6);
	near("cpu/user", "", 0.1);
	near("cpu/system", "", 0.1);
	near("cpu/irq", "", 0);
	near("cpu/iowait", "", 0);
	near("cpu/steal", "", 0.1);
	near("cpu/guest", "", 0.3);

	/* nice +200 (guest_nice +50), irq +30, softirq +10, iowait +60, idle +100: 400 */
	all("1400 400 400 8500 460 80 60 100 900 150");
	reading_at(&r, 3);
	near("cpu/busy", "", 0.6);
	near("cpu/user", "", 0.375);
	near("cpu/irq", "", 0.1);
	near("cpu/iowait", "", 0.15);
	near("cpu/guest", "", 0.125);

	/* the same ticks again: no time passed */
	reading_at(&r, 4);
	assert_string_equal(reading_why(&r, "cpu/busy", ""),
			    "no tick was counted since the last reading");

	/* a reading came late, or the machine slept: what the ticks say holds */
	all("1400 400 700 8600 460 80 60 100 900 150");
	reading_at(&r, 5000);
	near("cpu/system", "", 0.75);
	end();
}

static void test_back(void **state)
{
	(void)state;
	begin("v2");
	reading_at(&r, 1);

	/* iowait -100 counts as 0; user +150, idle +30, irq +20: 170/200 */
	all("1150 200 300 8030 300 70 50 0 600 100");
	reading_at(&r, 2);
	near("cpu/busy", "", 0.85);
	near("cpu/iowait", "", 0);

	/* it is 20 above where it was before it stepped back: these 20 count, not 120 */
	all("1150 200 300 8110 420 70 50 0 600 100");
	reading_at(&r, 3);
	near("cpu/iowait", "", 0.2);
	near("cpu/busy", "", 0);

	/* guest stepped ahead of user, as both are rounded: no negative share */
	all("1160 200 300 8200 420 70 50 0 620 100");
	reading_at(&r, 4);
	near("cpu/user", "", 0);
	near("cpu/guest", "", 0.1);

	/* a CPU went offline and took its ticks along; then 10 busy, 30 idle, 60 iowait */
	all("700 100 200 4000 100 30 20 50 400 50");
	reading_at(&r, 5);
	assert_string_equal(reading_why(&r, "cpu/busy", ""),
			    "the counters began anew: a CPU went or came");
	all("710 100 200 4030 160 30 20 50 400 50");
	reading_at(&r, 6);
	near("cpu/busy", "", 0.1);
	near("cpu/iowait", "", 0.6);

	/* kernels have printed negative numbers after an overflow */
	all("760 100 200 4080 -5 30 20 50 400 50");
	reading_at(&r, 7);
	near("cpu/busy", "", 0.5);
	end();
}

static void test_bad_file(void **state)
{
	static const char *const bad[] = {"cpu  x\n",     "",         "cpu\n",
					  "cpu  1 2 3\n", "intr 1\n", "cpu0 1 2 3 4\n"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin("v2");
		reading_at(&r, 1);
		stored_write(root, "proc/stat", bad[i]);
		reading_at(&r, 2);
		assert_string_equal(reading_why(&r, "cpu/busy", ""), "/proc/stat is malformed");
		assert_string_equal(reading_why(&r, "cpu/core/busy", "cpu=\"0\""),
				    "/proc/stat is malformed");
		assert_string_equal(reading_why(&r, "tasks/running", ""),
				    "/proc/stat is malformed");
		/* a hole, not a zero; the next shares span it: user +50, idle +50 */
		all("1050 200 300 8050 400 50 50 0 600 100");
		reading_at(&r, 3);
		near("cpu/busy", "", 0.5);
		end();
	}
}

static void cores(const char *lines)
{
	char text[1024];

	snprintf(text, sizeof(text), "cpu  1 1 1 1\n%sintr 5\n", lines);
	stored_write(root, "proc/stat", text);
}

/* CPUs 0 and 1 have user 500 nice 100 system 150 idle 4000 iowait 200 irq 25 softirq 25
 * steal 0 guest 300 guest_nice 50 at first. */
static void test_cores(void **state)
{
	(void)state;
	begin("v2");
	reading_at(&r, 1);
	cores("cpu0 600 100 150 4000 200 25 25 100 350 50\n"
	      "cpu1 500 100 200 4050 200 25 25 0 300 50\n");
	reading_at(&r, 2);
	near("cpu/core/busy", "cpu=\"0\"", 1);
	near("cpu/core/user", "cpu=\"0\"", 0.25); /* 50 of 100 were a guest's */
	near("cpu/core/steal", "cpu=\"0\"", 0.5);
	near("cpu/core/system", "cpu=\"1\"", 0.5);
	near("cpu/core/busy", "cpu=\"1\"", 0.5);

	/* CPU 1 goes, and CPU 7 comes */
	cores("cpu0 610 100 150 4090 200 25 25 100 350 50\ncpu7 5 0 0 5 0 0 0 0 0 0\n");
	reading_at(&r, 3);
	near("cpu/core/busy", "cpu=\"0\"", 0.1);
	assert_string_equal(reading_why(&r, "cpu/core/busy", "cpu=\"1\""), "the CPU is offline");
	assert_string_equal(reading_why(&r, "cpu/core/user", "cpu=\"7\""),
			    "needs a second reading");
	assert_false(reading_has(&r, "cpu/core/busy", "cpu=\"5\""));

	/* it comes back with a higher or a lower clock: neither is its share */
	cores("cpu0 620 100 150 4180 200 25 25 100 350 50\n"
	      "cpu1 10 100 200 9050 200 25 25 0 300 50\ncpu7 45 0 0 65 0 0 0 0 0 0\n");
	reading_at(&r, 4);
	assert_string_equal(reading_why(&r, "cpu/core/busy", "cpu=\"1\""),
			    "needs a second reading");
	near("cpu/core/busy", "cpu=\"7\"", 0.4);
	cores("cpu0 630 100 150 4270 200 25 25 100 350 50\n"
	      "cpu1 40 100 200 9120 200 25 25 0 300 50\ncpu7 45 0 0 65 0 0 0 0 0 0\n");
	reading_at(&r, 5);
	near("cpu/core/busy", "cpu=\"1\"", 0.3);
	assert_string_equal(reading_why(&r, "cpu/core/busy", "cpu=\"7\""),
			    "no tick was counted since the last reading");

	/* offline and online between two readings, its idle time began anew */
	cores("cpu0 640 100 150 4360 200 25 25 100 350 50\n"
	      "cpu1 45 100 200 12 0 25 25 0 300 50\ncpu7 45 0 0 65 0 0 0 0 0 0\n");
	reading_at(&r, 6);
	assert_string_equal(reading_why(&r, "cpu/core/busy", "cpu=\"1\""),
			    "the counters began anew: a CPU went or came");
	end();
}

static void test_numbers(void **state)
{
	(void)state;
	begin("el7");
	reading_at(&r, 1);
	near("tasks/running", "", 1);
	near("tasks/blocked", "", 3);
	reading_why(&r, "cpu/switches", "");
	stored_edit(root, "proc/stat", "intr 500000 ", "intr 500100 ");
	stored_edit(root, "proc/stat", "ctxt 900000", "ctxt 900250");
	stored_edit(root, "proc/stat", "processes 7000", "processes 7009");
	stored_edit(root, "proc/stat", "procs_running 1", "procs_running 12");
	reading_at(&r, 2);
	near("cpu/interrupts", "", 100);
	near("cpu/switches", "", 250);
	near("cpu/forks", "", 9);
	near("tasks/running", "", 12);

	/* a container's /proc may begin anew under us */
	stored_edit(root, "proc/stat", "ctxt 900250", "ctxt 50");
	stored_edit(root, "proc/stat", "processes 7009\n", "");
	reading_at(&r, 3);
	assert_string_equal(reading_why(&r, "cpu/switches", ""), "the counter began anew");
	assert_string_equal(reading_why(&r, "cpu/forks", ""), "/proc/stat has no such line");
	stored_edit(root, "proc/stat", "ctxt 50", "ctxt 60");
	reading_at(&r, 4);
	near("cpu/switches", "", 10);
	end();
}

/* Seven fields, as before Linux 2.6.11. */
static void test_old(void **state)
{
	(void)state;
	begin("old");
	reading_at(&r, 1);
	stored_write(root, "proc/stat",
		     "cpu  150 0 60 830 20 5 15\ncpu0 150 0 60 830 20 5 15\nintr 99\n");
	reading_at(&r, 2);
	near("cpu/busy", "", 0.7);
	near("cpu/irq", "", 0.1);
	assert_string_equal(reading_why(&r, "cpu/steal", ""), "this kernel does not count it");
	assert_string_equal(reading_why(&r, "cpu/guest", ""), "this kernel does not count it");
	assert_string_equal(reading_why(&r, "cpu/core/steal", "cpu=\"0\""),
			    "this kernel does not count it");
	end();
}

static size_t many(char *text, unsigned cpus, unsigned busy)
{
	size_t len = (size_t)sprintf(text, "cpu  1 2 3 4 5 6 7 8 9 10\n");
	unsigned i;

	for (i = 0; i < cpus; i++)
		len += (size_t)sprintf(text + len, "cpu%u %u 0 7654321 %u 0 0 0 0 0 0\n", i,
				       1234567 + busy * (i % 101),
				       123456789 + busy * (100 - i % 101));
	return len + (size_t)sprintf(text + len, "intr 1 2 3\nctxt 7\n");
}

/* Of the 9,000 CPUs those above 8,191 have no figures of their own. */
static void test_many(void **state)
{
	static char text[1000000];
	const unsigned cpus[] = {128, 1024, 9000};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		char last[32];
		unsigned n = cpus[i] < 8192 ? cpus[i] : 8192;

		begin("v2");
		many(text, cpus[i], 0);
		stored_write(root, "proc/stat", text);
		reading_at(&r, 1);
		assert_int_equal(probe_points(r.set),
				 12 + 4 * n < PROBE_POINTS_MAX ? 12 + 4 * n : PROBE_POINTS_MAX);
		many(text, cpus[i], 1);
		stored_write(root, "proc/stat", text);
		reading_at(&r, 2);
		near("cpu/core/user", "cpu=\"0\"", 0);
		near("cpu/core/user", "cpu=\"100\"", 1);
		near("cpu/core/user", "cpu=\"111\"", 0.1);
		snprintf(last, sizeof(last), "cpu=\"%u\"", cpus[i] < 8192 ? n - 1 : 4000);
		reading_value(&r, "cpu/core/busy", last);
		near("cpu/switches", "", 0); /* nothing was added, which is known */
		end();
	}
}

static void test_nothing(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_cpu, stored_path("missing")), -ENODEV);
	assert_non_null(strstr(r.err.text, "/proc/stat cannot be read"));
	assert_int_equal(reading_open(&r, &probe_cpu, stored_path("malformed")), 0);
	reading_at(&r, 1);
	reading_why(&r, "cpu/busy", "");
	reading_close(&r);

	/* it was there and cannot be read any more */
	begin("v2");
	reading_at(&r, 1);
	stored_remove(root, "proc/stat");
	stored_write(root, "proc/stat/x", "");
	reading_at(&r, 2); /* the open file is still what it was */
	end();
}

static void test_real(void **state)
{
	static const char *const parts[] = {"cpu/user", "cpu/system", "cpu/irq", "cpu/steal",
					    "cpu/guest"};
	double sum = 0;
	int tries;
	size_t i;

	(void)state;
	assert_int_equal(reading_open(&r, &probe_cpu, ""), 0);
	reading_at(&r, (double)clock_ns(CLOCK_MONOTONIC) / 1e9);
	for (tries = 0; tries < 500; tries++) { /* until a tick was counted */
		double v;

		usleep(20000);
		reading_at(&r, (double)clock_ns(CLOCK_MONOTONIC) / 1e9);
		if (probe_value(r.set, "cpu/busy", "", &v) == 0)
			break;
	}
	for (i = 0; i < 5; i++)
		sum += reading_value(&r, parts[i], "");
	near("cpu/busy", "", sum);
	assert_true(sum <= 1 && reading_value(&r, "cpu/iowait", "") <= 1 - sum + 1e-9);
	assert_true(reading_value(&r, "tasks/running", "") >= 1); /* this one */
	assert_true(reading_value(&r, "cpu/switches", "") >= 0);
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),   cmocka_unit_test(test_back),
		cmocka_unit_test(test_bad_file), cmocka_unit_test(test_cores),
		cmocka_unit_test(test_numbers),  cmocka_unit_test(test_old),
		cmocka_unit_test(test_many),     cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
