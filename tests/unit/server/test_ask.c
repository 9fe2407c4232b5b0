/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ask.c - milliseconds as text, and ranges on the three axes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/ask.h"

#define START 1767323045123456789LL

static int64_t ms(const char *text)
{
	int64_t v = -7;

	assert_int_equal(ask_ms(text, &v), 0);
	return v;
}

static void test_milliseconds(void **state)
{
	static const char *const bad[] = {"",   "-",  "1.", ".5",  "1.1234567", "1e3",
					  " 1", "1 ", "+1", "0x1", "1,5",       "NaN"};
	int64_t v = 42;
	size_t i;

	(void)state;
	assert_int_equal(ms("0"), 0);
	assert_int_equal(ms("1767323045123.456789"), START);
	assert_int_equal(ms("-1.5"), -1500000);
	assert_int_equal(ms("0.000001"), 1);
	assert_int_equal(ms("-0.000001"), -1);
	assert_int_equal(ms("9223372036854.775807"), INT64_MAX);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ask_ms(bad[i], &v), -EINVAL);
	assert_int_equal(ask_ms("9223372036854.775808", &v), -ERANGE);
	assert_int_equal(ask_ms("99999999999999999999999", &v), -ERANGE);
	assert_int_equal(v, 42);
}

static void put(int64_t ns, const char *expected)
{
	struct buf b;

	buf_init(&b, 100);
	ask_put_ms(&b, ns);
	assert_string_equal(buf_str(&b), expected);
	buf_done(&b);
}

static void test_milliseconds_back(void **state)
{
	(void)state;
	put(0, "0");
	put(START, "1767323045123.456789");
	put(2000000, "2");
	put(1500000, "1.5");
	put(-1, "-0.000001");
	put(100, "0.0001");
	put(INT64_MIN, "-9223372036854.775808");
}

static struct ask parse(const char *axis, const char *from, const char *to, const char *attempts)
{
	const struct ask_text t = {axis, from, to, attempts};
	struct err e = {0};
	struct ask a;

	assert_int_equal(ask_parse(&t, START, &a, &e), 0);
	return a;
}

static void test_ranges(void **state)
{
	struct ask a = parse(NULL, NULL, NULL, NULL);

	(void)state;
	assert_int_equal(a.axis, ASK_TIME);
	assert_false(a.range.by_time || a.range.by_step || a.range.all_segments);
	a = parse("time", "1767323045123.5", NULL, "all");
	assert_true(a.range.by_time && a.range.all_segments && !a.range.by_step);
	assert_int_equal(a.range.time_min, 1767323045123500000LL);
	assert_int_equal(a.range.time_max, INT64_MAX);
	a = parse("relative", "1000", "2000.25", "last");
	assert_true(a.range.by_time && !a.range.all_segments);
	assert_int_equal(a.range.time_min, START + 1000000000);
	assert_int_equal(a.range.time_max, START + 2000250000);
	a = parse("step", NULL, "99", NULL);
	assert_true(a.range.by_step && !a.range.by_time);
	/* Not the mark of points without a step. */
	assert_int_equal(a.range.step_min, INT64_MIN + 1);
	assert_int_equal(a.range.step_max, 99);
}

static void wrong(const char *axis, const char *from, const char *to, const char *attempts,
		  const char *name)
{
	const struct ask_text t = {axis, from, to, attempts};
	struct err e = {0};
	struct ask a;

	assert_int_equal(ask_parse(&t, START, &a, &e), -EINVAL);
	if (strncmp(e.text, name, strlen(name)) != 0)
		fail_msg("\"%s\" does not begin with %s", e.text, name);
}

static void test_wrong_ones_are_named(void **state)
{
	(void)state;
	wrong("epoch", NULL, NULL, NULL, "axis: \"epoch\"");
	wrong(NULL, "yesterday", NULL, NULL, "from: \"yesterday\"");
	wrong(NULL, NULL, "1e9", NULL, "to: \"1e9\"");
	wrong("step", "1.5", NULL, NULL, "from: \"1.5\"");
	wrong("step", "-9223372036854775808", NULL, NULL, "from:");
	wrong("relative", "9223372036854.775807", NULL, NULL, "from:");
	wrong(NULL, "2", "1", NULL, "to:");
	wrong(NULL, NULL, NULL, "first", "attempts: \"first\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_milliseconds),
		cmocka_unit_test(test_milliseconds_back),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_wrong_ones_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
