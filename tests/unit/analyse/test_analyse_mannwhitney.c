/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_mannwhitney.c - the test by ranks. Expected values: scipy 1.17.1,
 * stats.mannwhitneyu(b, a) and stats.skew(x, bias=False), and by hand where it says so.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/mannwhitney.h"

#define NEAR(x, y) assert_true(fabs((x) - (double)(y)) <= 1e-12 * fmax(1e-3, fabs((double)(y))))

static struct mannwhitney_result of(const double *a, size_t na, const double *b, size_t nb)
{
	struct mannwhitney_result r;
	struct mannwhitney m;

	assert_int_equal(mannwhitney_new(na, nb, &m), 0);
	mannwhitney_test(&m, a, b, &r);
	mannwhitney_free(&m);
	return r;
}

static void known(void **state)
{
	static const double a[8][10] = {
		{1, 2, 3},       {1, 2, 3, 4, 5}, {1.5, 3.25, 2, 9, 4.5, 0.25},
		{1, 2, 2, 3, 5}, {3, 3, 3},       {10, 11, 12, 13, 14, 15, 16, 17, 18, 200}};
	static const double b[8][10] = {
		{4, 5, 6},          {6, 7, 8, 9, 10}, {5, 6.5, 7, 8, 2.5},
		{2, 4, 5, 6, 6, 7}, {3, 3, 3, 3},     {20, 21, 22, 23, 24, 25, 26, 27, 28, 29}};
	static const struct {
		size_t na, nb;
		double u, p;
		bool is_exact;
	} rows[] = {
		{3, 3, 9, 0.1, true}, /* by hand: 2 of 20 arrangements */
		{5, 5, 25, 2 / 252.0, true},
		{6, 5, 23, 0.17748917748917747, true},
		{5, 6, 25.5, 0.06414661873440437, false},
		{3, 4, 6, 1, false},
		{10, 10, 90, 0.0028272720911168077, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mannwhitney_result r = of(a[i], rows[i].na, b[i], rows[i].nb), back;

		NEAR(r.u, rows[i].u);
		NEAR(r.p, rows[i].p);
		assert_int_equal(r.is_exact, rows[i].is_exact);
		/* The other way round it is the same difference. */
		back = of(b[i], rows[i].nb, a[i], rows[i].na);
		NEAR(back.p, r.p);
		NEAR(back.u, (double)(rows[i].na * rows[i].nb) - r.u);
	}
}

static void of_different_sizes(void **state)
{
	double a[10], b[12], few[8], many[40];
	struct mannwhitney_result r;

	(void)state;
	for (int i = 0; i < 10; i++)
		a[i] = i;
	for (int i = 0; i < 12; i++)
		b[i] = i * 1.5 + 2;
	r = of(a, 10, b, 12);
	NEAR(r.u, 97.5);
	NEAR(r.p, 0.014615181005940829);
	for (int i = 0; i < 8; i++)
		few[i] = i;
	for (int i = 0; i < 40; i++)
		many[i] = i + 3.5;
	r = of(few, 8, many, 40);
	assert_true(r.is_exact);
	NEAR(r.u, 310);
	assert_true(fabs(r.p - 7.208181400372304e-07) < 1e-18);
}

/* What samples of a size can say at most: 2 of n choose m arrangements. */
static void least(void **state)
{
	static const struct {
		size_t a, b;
		double p;
	} rows[] = {{3, 3, 0.1}, {4, 4, 2 / 70.0}, {1, 3, 0.5}, {2, 6, 2 / 28.0}, {0, 3, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mannwhitney m;

		assert_int_equal(mannwhitney_new(rows[i].a, rows[i].b, &m), 0);
		NEAR(m.least, rows[i].p);
		mannwhitney_free(&m);
	}
	assert_true(isnan(of((double[]){1}, 0, (double[]){1}, 1).p));
}

static void skew(void **state)
{
	static const double one[] = {1, 2, 3, 10}, even[] = {1, 2, 3},
			    far[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 200}, flat[] = {5, 5, 5},
			    third[] = {0.1, 0.1, 0.1, 0.1};

	(void)state;
	NEAR(mannwhitney_skew(one, 4), 1.763632614803888);
	assert_true(mannwhitney_skew(even, 3) == 0);
	NEAR(mannwhitney_skew(far, 10), 3.1508804831776627);
	assert_true(mannwhitney_skew(flat, 3) == 0 && mannwhitney_skew(third, 4) == 0);
	assert_true(mannwhitney_skew(one, 2) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),
		cmocka_unit_test(of_different_sizes),
		cmocka_unit_test(least),
		cmocka_unit_test(skew),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("analyse-mannwhitney", tests, NULL, NULL);
}
