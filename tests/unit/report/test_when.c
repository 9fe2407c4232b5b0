/* SPDX-License-Identifier: Apache-2.0
 *
 * test_when.c - moments, against seconds since 1970 from `date -u +%s`.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <time.h>

#include "base/mem.h"
#include "report/when.h"

#define S 1000000000LL
#define START (1767323045 * S) /* 2026-01-02T03:04:05Z */
#define END (START + 3600 * S)

static void test_moments(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} rows[] = {
		{"2026-01-02T03:04:05Z", START},
		{"2026-01-02T03:04:05.25Z", START + S / 4},
		{"2026-01-02 03:04Z", START - 5 * S},
		{"2026-01-02Z", 1767312000 * S},
		/* One hour east of Greenwich. */
		{"2026-01-02T04:04:05", START},
		{"2026-01-02", 1767312000 * S - 3600 * S},
		{"+90", START + 90 * S},
		{"+1h30m", START + 5400 * S},
		{"-10m", END - 600 * S},
		{"@1767323045", START},
		{"@1767323045.000000001", START + 1},
		{"@1767323045.0000000019", START + 1},
	};
	int64_t ns;
	size_t i;

	(void)state;
	setenv("TZ", "XYZ-1", 1);
	tzset();
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(when_parse(rows[i].text, START, END, &ns), 0);
		if (ns != rows[i].ns)
			fail_msg("%s: %lld", rows[i].text, (long long)ns);
	}
}

static void test_wrong(void **state)
{
	static const char *const rows[] = {"",
					   "now",
					   "2026",
					   "2026-13-01",
					   "+",
					   "-x",
					   "@",
					   "@x",
					   "@-5",
					   "2026-01-02T03:04:05ZZ",
					   "@5s",
					   "2026-01-02T25:00",
					   "99999-01-01",
					   "@99999999999999"};
	int64_t ns = 42;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (when_parse(rows[i], START, END, &ns) != -EINVAL)
			fail_msg("accepted: %s", rows[i]);
	assert_int_equal(ns, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
