/* SPDX-License-Identifier: Apache-2.0
 *
 * test_timerows.c - rows of a timeline: nothing overlaps, nothing that can be seen is lost.
 */
#include "analyse/timerows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_nest(void **state)
{
	/* f(a b(c)) beside g on one lane; an event that runs past f's end; another lane. */
	struct timerows_bar bars[] = {
		{20, 10, 3, 1, 0, 0, 0, 0}, {0, 100, 1, 1, 0, 0, 0, 0}, {5, 10, 2, 1, 0, 0, 0, 0},
		{22, 5, 4, 1, 0, 0, 0, 0},  {90, 30, 5, 1, 0, 0, 0, 0}, {120, 10, 6, 1, 0, 0, 0, 0},
		{50, 10, 7, 1, 1, 0, 0, 0},
	};
	static const struct {
		uint32_t name;
		uint8_t depth;
	} want[] = {{1, 0}, {6, 0}, {2, 1}, {3, 1}, {5, 1}, {4, 2}, {7, 0}};
	size_t i;

	(void)state;
	assert_int_equal(timerows_nest(bars, 7), 7);
	for (i = 0; i < 7; i++) {
		assert_int_equal(bars[i].name, want[i].name);
		assert_int_equal(bars[i].depth, want[i].depth);
	}
}

/* What is alike in all else is in the file's order. */
static void test_alike(void **state)
{
	struct timerows_bar bars[] = {
		{.ts = 1, .dur = 9, .name = 3, .count = 1, .index = 8},
		{.ts = 1, .dur = 9, .name = 3, .count = 1, .index = 5},
	};

	(void)state;
	assert_int_equal(timerows_nest(bars, 2), 2);
	assert_int_equal(bars[0].index, 5);
	assert_int_equal(bars[0].depth, 0);
	assert_int_equal(bars[1].index, 8);
	assert_int_equal(bars[1].depth, 1);
}

static void test_deep(void **state)
{
	static struct timerows_bar bars[300];
	size_t i;

	(void)state;
	for (i = 0; i < 300; i++)
		bars[i] = (struct timerows_bar){
			.ts = (int64_t)i, .dur = 1000 - 2 * (int64_t)i, .count = 1};
	assert_int_equal(timerows_nest(bars, 300), TIMEROWS_DEEP);
	assert_int_equal(timerows_nest(bars, 0), 0);
}

/* Each event is inside of a bar of its row, bars do not overlap and are no longer than said, or
 * one event; counts add up; a bar has the name and the place of its longest event. */
static void test_merge(void **state)
{
	static struct timerows_bar bars[20000], was[20000];
	uint64_t x = 88172645463325252u, count = 0;
	int64_t at = 0, merged, longest, dur_of[20000];
	size_t i, k, n, m;

	(void)state;
	for (i = 0; i < 20000; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		at += (int64_t)(x % 50) + (x % 97 == 0 ? 5000 : 0);
		bars[i] =
			(struct timerows_bar){.ts = at,
					      .dur = (int64_t)(x >> 20) % (x % 89 == 0 ? 9000 : 60),
					      .name = (uint32_t)i,
					      .count = 1,
					      .lane = (uint16_t)(x >> 50) % 3,
					      .index = (uint32_t)i + 7};
		dur_of[i] = bars[i].dur;
	}
	n = timerows_nest(bars, 20000);
	assert_int_equal(n, 20000);
	memcpy(was, bars, sizeof(bars));
	assert_int_equal(timerows_merge(bars, n, 20000, &merged), 20000);
	assert_int_equal(merged, 0);
	m = timerows_merge(bars, n, 1500, &merged);
	assert_true(m <= 1500 && m > 500 && merged > 0);
	for (i = k = 0; i < m; i++) {
		count += bars[i].count;
		assert_true(bars[i].count == 1 || bars[i].dur <= merged);
		if (i > 0 && bars[i].lane == bars[i - 1].lane && bars[i].depth == bars[i - 1].depth)
			assert_true(bars[i].ts >= bars[i - 1].ts + bars[i - 1].dur);
		for (longest = 0; k < count; k++) {
			longest = was[k].dur > longest ? was[k].dur : longest;
			assert_int_equal(was[k].lane, bars[i].lane);
			assert_int_equal(was[k].depth, bars[i].depth);
			assert_true(was[k].ts >= bars[i].ts &&
				    was[k].ts + was[k].dur <= bars[i].ts + bars[i].dur);
		}
		assert_int_equal(bars[i].index, bars[i].name + 7);
		assert_int_equal(dur_of[bars[i].name], longest);
	}
	assert_int_equal(count, 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nest),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_merge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
