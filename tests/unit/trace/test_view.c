/* SPDX-License-Identifier: Apache-2.0
 *
 * test_view.c - the order of a view's rows: numbers of any range are sorted alike, equal ones stay
 * as they come, and pairs "B"/"E" stand where their time and their place say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/view_priv.h"

#define NUMBERS 5000u

static int64_t number(uint32_t i, unsigned bits, unsigned zeros)
{
	uint64_t v = (i / 3 + 1) * UINT64_C(0xd1342543de82ef95); /* each comes three times */

	return (int64_t)(v >> (64 - bits) << zeros) - 1000;
}

static void check_order(unsigned bits, unsigned zeros)
{
	int64_t keys[2 * NUMBERS], was[NUMBERS];
	uint32_t *order, *places;

	for (uint32_t i = 0; i < NUMBERS; i++)
		was[i] = keys[i] = number(i, bits, zeros);
	assert_int_equal(view_order(keys, NUMBERS, false, &order), 0);
	memcpy(keys, was, sizeof(was));
	assert_int_equal(view_order_with(keys, keys + NUMBERS, NUMBERS, true, &places), 0);
	assert_non_null(order);
	assert_non_null(places);
	for (uint32_t i = 0; i < NUMBERS; i++) {
		assert_true(order[i] < NUMBERS);
		assert_int_equal(places[order[i]], i);
		if (!i)
			continue;
		assert_true(was[order[i - 1]] <= was[order[i]]);
		if (was[order[i - 1]] == was[order[i]])
			assert_true(order[i - 1] < order[i]);
	}
	free(order);
	free(places);
}

static void test_order(void **state)
{
	(void)state;
	check_order(1, 0);
	check_order(12, 0);
	check_order(13, 3);
	check_order(40, 10);
	check_order(51, 0);
	check_order(52, 0); /* with 13 bits of the number itself more than a word */
	check_order(64, 0);
}

static void test_sorted(void **state)
{
	int64_t keys[] = {INT64_MIN, -1, -1, 0, INT64_MAX};
	uint32_t one = 1, *order = &one;

	(void)state;
	assert_int_equal(view_order(keys, 5, true, &order), 0);
	assert_null(order);
	order = &one;
	assert_int_equal(view_order(keys, 0, true, &order), 0);
	assert_null(order);
}

/* Two pairs that begin at one time: that which ends last comes last in the file, but was begun
 * first. */
static void test_pairs(void **state)
{
	static const char text[] =
		"[{\"ph\":\"B\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":5},"
		"{\"ph\":\"B\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":5},"
		"{\"ph\":\"X\",\"name\":\"early\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":1},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":7},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":9}]";
	static const char *const names[] = {"early", "outer", "inner"};
	static const struct view_options o = {.rule = VIEW_EXACT};
	struct trace_options read = {0};
	struct trace *t;
	struct err e = {0};
	struct view *v;

	(void)state;
	assert_int_equal(trace_read_bytes(text, sizeof(text) - 1, &read, &t, &e), 0);
	assert_int_equal(view_new(&t, 1, &o, &v), 0);
	assert_int_equal(v->n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(trace_text(t, v->rows[i].name, NULL), names[i]);
	view_free(v, 1);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
