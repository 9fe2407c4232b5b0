/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sketch.c - percentiles: exact for few values, near enough for many.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "report/sketch.h"

#define MANY (SKETCH_EXACT + 1000u)

static void test_few(void **state)
{
	static const double values[] = {3, NAN, -1, 2, 5, NAN, 4};
	struct sketch s = {0};

	(void)state;
	assert_true(isnan(sketch_get(&s, 50)));
	sketch_add(&s, values, ARRAY_LEN(values));
	assert_int_equal(s.count, 5);
	assert_true(sketch_is_exact(&s));
	assert_true(sketch_get(&s, 50) == 3); /* rank 3 of -1 2 3 4 5 */
	assert_true(sketch_get(&s, 60) == 3);
	assert_true(sketch_get(&s, 61) == 4);
	assert_true(sketch_get(&s, 1) == -1);
	assert_true(sketch_get(&s, 100) == 5);
	sketch_add(&s, values + 2, 1); /* one more -1: rank 3 of 6 is 2 */
	assert_true(sketch_get(&s, 50) == 2);
	sketch_done(&s);
}

static void close_to(double v, double expected)
{
	if (fabs(v - expected) > 0.004 * fabs(expected))
		fail_msg("%.17g is not within 0.4 %% of %.17g", v, expected);
}

/* -MANY/4 .. 3/4 MANY in an order that is not sorted. */
static void test_many(void **state)
{
	double *values = xcalloc(MANY, sizeof(*values));
	struct sketch s = {0};
	const double low = -(double)(MANY / 4);
	size_t i;

	(void)state;
	for (i = 0; i < MANY; i++)
		values[i] = low + (double)(i * 7919 % MANY);
	sketch_add(&s, values, MANY / 2);
	assert_true(sketch_is_exact(&s));
	sketch_add(&s, values + MANY / 2, MANY - MANY / 2);
	assert_false(sketch_is_exact(&s));
	assert_int_equal(s.count, MANY);
	close_to(sketch_get(&s, 1), low + MANY * 0.01);
	close_to(sketch_get(&s, 50), low + MANY * 0.50);
	close_to(sketch_get(&s, 95), low + MANY * 0.95);
	close_to(sketch_get(&s, 99), low + MANY * 0.99);
	close_to(sketch_get(&s, 100), low + MANY - 1);
	sketch_done(&s);
	free(values);
}

static void test_many_with_infinities(void **state)
{
	double *values = xcalloc(MANY, sizeof(*values));
	struct sketch s = {0};
	size_t i;

	(void)state;
	for (i = 0; i < MANY; i++)
		values[i] = i % 4 == 0 ? -INFINITY : i % 4 == 1 ? INFINITY : 0.1;
	sketch_add(&s, values, MANY);
	assert_true(isinf(sketch_get(&s, 10)) && sketch_get(&s, 10) < 0);
	close_to(sketch_get(&s, 50), 0.1);
	assert_true(isinf(sketch_get(&s, 99)) && sketch_get(&s, 99) > 0);
	sketch_done(&s);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_with_infinities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
