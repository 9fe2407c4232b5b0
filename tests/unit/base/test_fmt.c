/* SPDX-License-Identifier: Apache-2.0
 *
 * test_fmt.c - numbers as people read them; all expected texts worked out by
 * hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/fmt.h"

struct row {
	double value;
	const char *text;
};

static void check_rows(char *(*format)(char out[FMT_MAX], double), const struct row *rows, size_t n)
{
	char out[FMT_MAX];
	size_t i;

	for (i = 0; i < n; i++) {
		assert_ptr_equal(format(out, rows[i].value), out);
		assert_string_equal(out, rows[i].text);
	}
}

static void test_bytes(void **state)
{
	static const struct row rows[] = {
		{0, "0 B"},
		{12, "12 B"},
		{1000, "1000 B"},
		{1024, "1.00 KiB"},
		{1536, "1.50 KiB"},
		{10240, "10.0 KiB"},
		{102400, "100 KiB"},
		{1048576, "1.00 MiB"},
		{1610612736, "1.50 GiB"},
		{1099511627776, "1.00 TiB"},
		{0x1p50, "1.00 PiB"},
		{0x1p60, "1024 PiB"},
		{-1536, "-1.50 KiB"},
		{0.5, "0.50 B"},
	};

	(void)state;
	check_rows(fmt_bytes, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_count(void **state)
{
	static const struct row rows[] = {
		{0, "0"},          {999, "999"},       {1000, "1.00 k"},    {12345, "12.3 k"},
		{999400, "999 k"}, {999600, "1.00 M"}, {1200000, "1.20 M"}, {2.5e9, "2.50 G"},
		{7e12, "7.00 T"},  {7e15, "7000 T"},   {-12345, "-12.3 k"}, {3.25, "3.25"},
	};

	(void)state;
	check_rows(fmt_count, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_seconds(void **state)
{
	static const struct row rows[] = {
		{0, "0 ns"},
		{350e-9, "350 ns"},
		{1.5e-6, "1.50 us"},
		{12.34e-3, "12.3 ms"},
		{0.9996, "1.00 s"},
		{2.5, "2.50 s"},
		{59.9, "59.9 s"},
		{60, "1 min 00 s"},
		{192, "3 min 12 s"},
		{3599.4, "59 min 59 s"},
		{3599.6, "1 h 00 min"},
		{7500, "2 h 05 min"},
		{86399, "23 h 59 min"},
		{86400, "1 d 00 h"},
		{273600, "3 d 04 h"},
		{-0.0025, "-2.50 ms"},
		{-192, "-3 min 12 s"},
	};

	(void)state;
	check_rows(fmt_seconds, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_not_finite(void **state)
{
	static const struct row seconds[] = {{(double)INFINITY, "inf s"}, {1e300, "1e+300 s"}};
	static const struct row bytes[] = {{(double)INFINITY, "inf B"},
					   {-(double)INFINITY, "-inf B"}};
	char out[FMT_MAX];

	(void)state;
	check_rows(fmt_seconds, seconds, 2);
	check_rows(fmt_bytes, bytes, 2);
	assert_non_null(strstr(fmt_seconds(out, (double)NAN), "nan"));
	assert_non_null(strstr(fmt_count(out, (double)NAN), "nan"));
	/* The largest double fits. */
	fmt_bytes(out, 0x1.fffffffffffffp1023);
	fmt_count(out, 0x1.fffffffffffffp1023);
}

static void test_utc(void **state)
{
	char out[FMT_MAX];

	(void)state;
	assert_string_equal(fmt_utc(out, 0), "1970-01-01T00:00:00.000Z");
	/* 2000-03-01 is 951868800 s after 1970; 29 February was there. */
	assert_string_equal(fmt_utc(out, 951868799999000000), "2000-02-29T23:59:59.999Z");
	assert_string_equal(fmt_utc(out, 951868800001999999), "2000-03-01T00:00:00.001Z");
	assert_string_equal(fmt_utc(out, -1), "1969-12-31T23:59:59.999Z");
	assert_string_equal(fmt_utc(out, -1000000000), "1969-12-31T23:59:59.000Z");
	assert_string_equal(fmt_utc(out, INT64_MAX), "2262-04-11T23:47:16.854Z");
	assert_string_equal(fmt_utc(out, INT64_MIN), "1677-09-21T00:12:43.145Z");
}

static void test_local(void **state)
{
	char out[FMT_MAX];

	(void)state;
	setenv("TZ", "XYZ-02:30", 1); /* two and a half hours east of Greenwich */
	tzset();
	assert_string_equal(fmt_local(out, 951868800001999999), "2000-03-01 02:30:00");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),   cmocka_unit_test(test_count),
		cmocka_unit_test(test_seconds), cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_utc),     cmocka_unit_test(test_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
