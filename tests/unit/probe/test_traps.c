/* SPDX-License-Identifier: Apache-2.0
 *
 * Where other monitors do not do what they say (docs/coverage.md, T-): a disk that is
 * waited for must show. Those that need a whole run are in tests/e2e/test_traps.py.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "reading.h"
#include "stored.h"

static void near(const struct reading *r, const char *name, double want)
{
	double v = reading_value(r, name, "");

	if (fabs(v - want) > 1e-12)
		fail_msg("%s is %.17g, not %.17g", name, v, want);
}

/* T-03: 3 s in which the CPUs wait for a disk 45 % of the time, and some task for 80 %,
 * then 1 s in which nobody does. At first: user 100, system 100, idle 800. */
static void io_wait_shows(void **state)
{
	struct reading cpu, pressure;
	char root[STORED_PATH];

	(void)state;
	stored_copy("linux5", root);
	assert_int_equal(reading_open(&cpu, &probe_cpu, root), 0);
	assert_int_equal(reading_open(&pressure, &probe_pressure, root), 0);
	reading_at(&cpu, 1);
	reading_at(&pressure, 1);
	stored_edit(root, "proc/stat", "cpu  100 0 100 800 0", "cpu  145 0 110 910 135");
	stored_edit(root, "proc/pressure/io", "total=3000000", "total=5400000");
	reading_at(&cpu, 4);
	reading_at(&pressure, 4);
	near(&cpu, "cpu/iowait", 0.45);
	near(&cpu, "cpu/busy", 55 / 300.0);
	near(&pressure, "pressure/io", 0.8);
	stored_edit(root, "proc/stat", "cpu  145 0 110 910 135", "cpu  145 0 110 1010 135");
	reading_at(&cpu, 5);
	reading_at(&pressure, 5);
	near(&cpu, "cpu/iowait", 0);
	near(&pressure, "pressure/io", 0);
	reading_close(&cpu);
	reading_close(&pressure);
	stored_remove(root, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(io_wait_shows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
