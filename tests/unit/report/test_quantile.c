/* SPDX-License-Identifier: Apache-2.0
 *
 * test_quantile.c - nearest rank on small piles, by hand: the p-th percentile
 * of n sorted values is the one at rank ceil(p/100 n).
 */
#include <math.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/quantile.h"

static void test_twenty(void **state)
{
	struct quantiles q = {0};
	int i;

	(void)state;
	/* 20 .. 1, in falling order. */
	for (i = 20; i >= 1; i--)
		quantiles_add(&q, i);
	assert_int_equal(q.count, 20);
	assert_true(q.total == 210);
	assert_true(q.max == 20);
	assert_true(quantiles_get(&q, 50) == 10); /* rank 10 */
	assert_true(quantiles_get(&q, 95) == 19); /* rank 19, not 20 */
	assert_true(quantiles_get(&q, 99) == 20); /* rank 19.8 -> 20 */
	assert_true(quantiles_get(&q, 1) == 1);   /* rank 0.2 -> 1 */
	assert_true(quantiles_get(&q, 100) == 20);
	/* One more value after a look: 21 values, 50 %: rank 10.5 -> 11. */
	quantiles_add(&q, -5);
	assert_true(quantiles_get(&q, 50) == 10);
	assert_true(quantiles_get(&q, 1) == -5);
	quantiles_done(&q);
	assert_int_equal(q.count, 0);
}

static void test_few(void **state)
{
	struct quantiles q = {0};

	(void)state;
	assert_true(isnan(quantiles_get(&q, 50)));
	quantiles_add(&q, NAN);
	assert_int_equal(q.count, 0);
	quantiles_add(&q, 7);
	assert_true(quantiles_get(&q, 1) == 7);
	assert_true(quantiles_get(&q, 99) == 7);
	quantiles_add(&q, 9);
	assert_true(quantiles_get(&q, 50) == 7); /* rank 1 */
	assert_true(quantiles_get(&q, 51) == 9); /* rank 1.02 -> 2 */
	quantiles_done(&q);
}

static void test_negative(void **state)
{
	struct quantiles q = {0};

	(void)state;
	quantiles_add(&q, -3);
	quantiles_add(&q, -1);
	quantiles_add(&q, -2);
	assert_true(q.max == -1);
	assert_true(quantiles_get(&q, 50) == -2);
	quantiles_done(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twenty),
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_negative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
