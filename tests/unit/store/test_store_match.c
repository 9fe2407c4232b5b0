/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of series, rates of counters, bands of several series.
 */
#include "store/store.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct store_series series = {.host_name = "node7",
					   .process = 3,
					   .rank = 12,
					   .role = "trainer",
					   .name = "gpu/memory used",
					   .labels =
						   "gpu=\"0\",part=\"a,\\\"b\\\"=c\",rank=\"own\""};

static bool matches(const char *pattern)
{
	struct store_match *m = NULL;
	struct err e = {0};
	bool is;

	if (store_match_new(pattern, &e, &m) < 0)
		fail_msg("%s: %s", pattern, e.text);
	is = store_match_is(m, &series);
	store_match_free(m);
	return is;
}

static void test_matches(void **state)
{
	(void)state;
	assert_true(matches("gpu/memory used"));
	assert_true(matches("gpu/*"));
	assert_true(matches("*used"));
	assert_true(matches("*"));
	assert_true(matches("gpu/[mn]emory?used{}"));
	assert_false(matches("gpu"));
	assert_true(matches("*{gpu=0}"));
	assert_false(matches("*{gpu=1}"));
	assert_true(matches("*{gpu=[0-3],host=node*,role=trainer,process=3}"));
	assert_false(matches("*{gpu=[0-3],host=other}"));
	/* Its own label hides the one it seems to have. */
	assert_true(matches("*{rank=own}"));
	assert_false(matches("*{rank=12}"));
	/* A comma, quotes. */
	assert_true(matches("*{part=\"a,\\\"b\\\"=c\",gpu=0}"));
	assert_true(matches("*{part=a\\,*}"));
	/* One that it lacks is empty. */
	assert_true(matches("*{absent=}"));
	assert_true(matches("*{absent=*}"));
	assert_false(matches("*{absent=?*}"));
	assert_true(matches("rate(gpu/*)"));
	assert_true(matches("rate(gpu/*{gpu=0})"));
}

static void test_says_where_a_pattern_is_wrong(void **state)
{
	static const struct {
		const char *pattern, *where;
	} rows[] = {
		{"", "character 1: a name is missing"},
		{"{a=b}", "character 1: a name is missing"},
		{"x{a=b", "character 6: \",\" or \"}\""},
		{"x{a}", "character 4: \"=\""},
		{"x{=b}", "character 3: a label's name"},
		{"x{a=\"b}", "character 8: the closing quote"},
		{"x{a=b}y", "character 7: nothing"},
		{"rate(x", "character 7: the closing \")\""},
		{"rate(x)y", "character 8: nothing"},
		{"rate()", "character 6: a name is missing"},
		{"x{a=b,}", "character 7: a label's name"},
	};
	struct store_match *m = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = {0};

		assert_int_equal(store_match_new(rows[i].pattern, &e, &m), -EINVAL);
		if (!strstr(e.text, rows[i].where))
			fail_msg("%s: %s", rows[i].pattern, e.text);
	}
	assert_null(m);
}

static void test_knows_labels(void **state)
{
	static const struct {
		const char *label, *value;
	} rows[] = {{"gpu", "0"},        {"part", "a,\"b\"=c"}, {"rank", "own"}, {"host", "node7"},
		    {"role", "trainer"}, {"process", "3"},      {"par", NULL},   {"b", NULL}};
	struct store_series other = series;
	size_t i;
	char *v;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		v = store_series_label(&series, rows[i].label);
		if (rows[i].value)
			assert_string_equal(v, rows[i].value);
		else
			assert_null(v);
		free(v);
	}
	other.labels = "";
	v = store_series_label(&other, "rank");
	assert_string_equal(v, "12");
	free(v);
	other.rank = -1;
	assert_null(store_series_label(&other, "rank"));
}

/* 10 every 2 s from second 1 on: the first is not counted, then 5 a second. */
static void test_rate_of_points(void **state)
{
	struct store_point p[] = {{.time_ns = 1000000000, .step = 1, .value = 10},
				  {.time_ns = 3000000000, .step = 2, .value = 10},
				  {.time_ns = 5000000000, .step = 3, .value = 4},
				  {.time_ns = 5000000000, .step = 3, .value = 6},
				  {.time_ns = 7000000000, .step = 5, .value = NAN}};
	struct store_result r = {.raw = true, .n = 5, .points = p};

	(void)state;
	store_rate(&r, STORE_BY_TIME);
	assert_int_equal(r.n, 3);
	assert_true(p[0].time_ns == 3000000000 && p[0].value == 5);
	assert_true(p[1].time_ns == 5000000000 && p[1].value == 5);
	assert_true(p[2].time_ns == 7000000000 && p[2].value == 0);
}

static struct store_bucket bucket(int64_t t0, int64_t t1, int64_t s0, int64_t s1, uint64_t n,
				  double each)
{
	return (struct store_bucket){.count = n,
				     .observed = n,
				     .sum = each * (double)n,
				     .min = each,
				     .max = each,
				     .first = each,
				     .last = each,
				     .time_min = t0 * 1000000000,
				     .time_max = t1 * 1000000000,
				     .step_min = s0,
				     .step_max = s1};
}

/* 6 a second, recorded each second, but nothing in the third bucket. */
static void test_rate_of_buckets(void **state)
{
	struct store_bucket b[] = {bucket(1, 4, 10, 13, 4, 6),
				   bucket(5, 8, 14, 17, 4, 6),
				   {0},
				   bucket(20, 20, 18, 18, 1, 72)};
	struct store_bucket c[4];
	struct store_result r = {.aligned = true, .n = 4, .buckets = b};

	(void)state;
	memcpy(c, b, sizeof(b));
	store_rate(&r, STORE_BY_TIME);
	assert_int_equal(r.n, 4);
	assert_true(b[0].sum == 6 && b[0].observed == 1 && b[0].min == 6 && b[0].max == 6);
	assert_true(b[1].sum == 6);
	assert_int_equal(b[2].count, 0);
	assert_true(b[3].sum == 6);
	/* By step: 18 in 3 steps, 24 in 4, 72 in one. */
	r.buckets = c;
	store_rate(&r, STORE_BY_STEP);
	assert_true(c[0].sum == 6 && c[1].sum == 6 && c[3].sum == 72);
}

static void test_rate_of_one_point_is_nothing(void **state)
{
	struct store_bucket b[] = {bucket(1, 1, 1, 1, 1, 6), bucket(3, 3, 2, 2, 1, 8)};
	struct store_result r = {.n = 2, .buckets = b};

	(void)state;
	store_rate(&r, STORE_BY_TIME);
	assert_int_equal(r.n, 1);
	assert_true(b[0].sum == 4 && b[0].time_min == 3000000000);
}

static void test_groups(void **state)
{
	/* Three series, two buckets; the second series lacks the second one. */
	struct store_bucket b[3][2] = {{bucket(0, 1, 0, 1, 2, 5), bucket(2, 3, 2, 3, 1, 7)},
				       {bucket(0, 1, 0, 1, 4, 2), {0}},
				       {bucket(0, 1, 0, 1, 1, 100), bucket(2, 3, 2, 3, 1, 9)}};
	const struct store_result r[] = {{.aligned = true, .n = 2, .buckets = b[0]},
					 {.aligned = true, .n = 2, .buckets = b[1]},
					 {.aligned = true, .n = 2, .buckets = b[2]}};
	const unsigned which[] = {0, 0, 1};
	struct store_band out[4];

	(void)state;
	b[0][0].min = 1;
	b[0][0].max = 50;
	store_group(r, which, 3, 2, 2, out);
	assert_true(out[0].series == 2 && out[0].min == 2 && out[0].max == 5 && out[0].mean == 3.5);
	assert_true(out[0].min_which == 1 && out[0].max_which == 0);
	assert_true(out[0].low == 1 && out[0].high == 50);
	assert_true(out[1].series == 1 && out[1].mean == 7);
	assert_true(out[2].series == 1 && out[2].mean == 100 && out[2].max_which == 2);
	assert_true(out[3].series == 1 && out[3].low == 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),
		cmocka_unit_test(test_says_where_a_pattern_is_wrong),
		cmocka_unit_test(test_knows_labels),
		cmocka_unit_test(test_rate_of_points),
		cmocka_unit_test(test_rate_of_buckets),
		cmocka_unit_test(test_rate_of_one_point_is_nothing),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests_name("store_match", tests, NULL, NULL);
}
