/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of runs: the date against the C library's calendar, the letters, and
 * that their order is the order of time.
 */
#include "wire/runid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#define S INT64_C(1000000000)

static void assert_id(int64_t utc_ns, uint8_t a, uint8_t b, uint8_t c, const char *want)
{
	const uint8_t random[3] = {a, b, c};
	char id[RUNID_LEN + 1];

	memset(id, 'x', sizeof(id));
	runid_make(id, utc_ns, random);
	assert_string_equal(id, want);
}

static void test_known(void **state)
{
	(void)state;
	assert_id(0, 0, 0, 0, "19700101-000000-aaaa");
	assert_id(1795827723 * S, 0, 0, 0, "20261128-010203-aaaa");
	assert_id(1795827723 * S + S - 1, 0, 0, 0, "20261128-010203-aaaa");
	assert_id(951782399 * S, 0, 0, 0, "20000228-235959-aaaa");
	assert_id(951782400 * S, 0, 0, 0, "20000229-000000-aaaa");  /* leap by 400 */
	assert_id(4107542400 * S, 0, 0, 0, "21000301-000000-aaaa"); /* not leap by 100 */
	assert_id(4107542399 * S, 0, 0, 0, "21000228-235959-aaaa");
}

/* 20 of the 24 bits, 5 a letter, the lowest first. */
static void test_letters(void **state)
{
	(void)state;
	assert_id(0, 0x00, 0x00, 0x01, "19700101-000000-baaa");
	assert_id(0, 0x00, 0x00, 0x1f, "19700101-000000-7aaa");
	assert_id(0, 0x00, 0x00, 0x20, "19700101-000000-abaa");
	assert_id(0, 0x0f, 0xff, 0xff, "19700101-000000-7777");
	assert_id(0, 0xff, 0xff, 0xff, "19700101-000000-7777");
	/* 10 * 32^3 + 17 * 32^2 + 18 * 32 + 27, the letters of RFC 4648. */
	assert_id(0, 0x05, 0x46, 0x5b, "19700101-000000-3srk");
}

static void test_calendar(void **state)
{
	static const uint8_t random[3] = {1, 2, 3};
	char id[RUNID_LEN + 1], before[RUNID_LEN + 1] = "", want[32];
	struct tm tm;
	int64_t s;
	time_t t;

	(void)state;
	/* Every 25 hours and a bit, to 2262, where 64 bits of nanoseconds end. */
	for (s = 0; s < INT64_MAX / S; s += 90061) {
		t = s;
		assert_non_null(gmtime_r(&t, &tm));
		assert_int_equal(strftime(want, sizeof(want), "%Y%m%d-%H%M%S-", &tm), 16);
		runid_make(id, s * S + 5, random);
		assert_memory_equal(id, want, 16);
		assert_true(strcmp(before, id) < 0);
		strcpy(before, id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_letters),
		cmocka_unit_test(test_calendar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
