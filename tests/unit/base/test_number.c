/* SPDX-License-Identifier: Apache-2.0
 *
 * test_number.c - durations, sizes and numbers as people write them, right and
 * wrong; their order and sum; by hand.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/number.h"

static void test_duration(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{"90", 90000000000},
		{"1.5s", 1500000000},
		{"10m", 600000000000},
		{"2h", 7200000000000},
		{"1d", 86400000000000},
		{"250ms", 250000000},
		{"7us", 7000},
		{"3ns", 3},
		{"1h30m", 5400000000000},
		{"0", 0},
		{"0.1s", 100000000},
		{".5s", 500000000},
		{"5min", 300000000000},
	};
	static const char *const bad[] = {"",    "s",   "1.2.3s", "1 s", "-1s", "1x",
					  "1e3", "0x1", "nan",    "1S",  "."};
	int64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(number_duration(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	ns = 42;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(number_duration(bad[i], &ns), -EINVAL);
	assert_int_equal(number_duration("200000d", &ns), -ERANGE);
	assert_int_equal(ns, 42);
}

static void test_bytes(void **state)
{
	int64_t v;

	(void)state;
	assert_int_equal(number_bytes("4096", &v), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(number_bytes("64k", &v), 0);
	assert_int_equal(v, 65536);
	assert_int_equal(number_bytes("4M", &v), 0);
	assert_int_equal(v, 4194304);
	assert_int_equal(number_bytes("1.5GiB", &v), 0);
	assert_int_equal(v, 1610612736);
	assert_int_equal(number_bytes("2T", &v), 0);
	assert_int_equal(v, 2199023255552);
	assert_int_equal(number_bytes("1P", &v), -EINVAL);
	assert_int_equal(number_bytes("9999999T", &v), -ERANGE);
}

static void test_int(void **state)
{
	int64_t v;

	(void)state;
	assert_int_equal(number_int("-9223372036854775808", &v), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(number_int("+5", &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(number_int("9223372036854775808", &v), -ERANGE);
	assert_int_equal(number_int("", &v), -EINVAL);
	assert_int_equal(number_int(" 5", &v), -EINVAL);
	assert_int_equal(number_int("5 ", &v), -EINVAL);
	assert_int_equal(v, 5);
}

static void test_double(void **state)
{
	static const char *const bad[] = {"",  "x",  "1x", "inf", "nan", "0x10",
					  ".", "1e", "1 ", " 1",  "--1", "e5"};
	double v = 42;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(number_double(bad[i], &v), -EINVAL);
	assert_int_equal(number_double("1e999", &v), -ERANGE);
	assert_true(v == 42);
	assert_int_equal(number_double("1e-8", &v), 0);
	assert_true(v == 1e-8);
	assert_int_equal(number_double("-.5", &v), 0);
	assert_true(v == -0.5);
	assert_int_equal(number_double("+85.0", &v), 0);
	assert_true(v == 85);
}

static void test_order(void **state)
{
	double d[] = {3, -0.5, INFINITY, 1e-300, -INFINITY, 0};
	const double sorted[] = {-INFINITY, -0.5, 0, 1e-300, 3, INFINITY};
	int64_t i[] = {1, INT64_MAX, -1, INT64_MIN, 0};
	const int64_t whole[] = {INT64_MIN, -1, 0, 1, INT64_MAX}; /* differences do not fit */

	(void)state;
	qsort(d, ARRAY_LEN(d), sizeof(*d), number_order);
	assert_memory_equal(d, sorted, sizeof(d));
	qsort(i, ARRAY_LEN(i), sizeof(*i), number_order_int);
	assert_memory_equal(i, whole, sizeof(i));
	assert_int_equal(number_order(&(double){2}, &(double){2}), 0);
	assert_int_equal(number_order_int(&(int64_t){2}, &(int64_t){2}), 0);
}

static void test_add(void **state)
{
	double sum = NAN;

	(void)state;
	number_add(&sum, 2);
	assert_true(sum == 2);
	number_add(&sum, -3.5);
	assert_true(sum == -1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duration), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_int),      cmocka_unit_test(test_double),
		cmocka_unit_test(test_order),    cmocka_unit_test(test_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
