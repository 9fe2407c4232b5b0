/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule core by itself: states, holds, hysteresis, cooldown, names, sentences; the running
 * median; the robust line; the pace of steps. Times and values are reckoned by hand.
 */
#include "alert/builtin.h"
#include "alert/fit.h"
#include "alert/rule.h"
#include "alert/spread.h"
#include "alert/steps.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#define S 1000000000LL

static void hold_by_time(void **state)
{
	const struct rule r = {.test = RULE_ABOVE,
			       .limit = 90,
			       .clear = 85,
			       .hold_ns = 30 * S,
			       .clear_ns = 10 * S,
			       .cooldown_ns = 300 * S};
	struct rule_state s = {0};
	int64_t t;

	(void)state;
	/* Bad from 100 on: 29 s are not enough, a good value begins anew. */
	for (t = 100; t < 130; t++)
		assert_int_equal(rule_step(&r, &s, t * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 130 * S, RULE_GOOD), RULE_NOTHING);
	for (t = 131; t < 161; t++)
		assert_int_equal(rule_step(&r, &s, t * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 161 * S, RULE_BAD), RULE_FIRED);
	assert_int_equal(s.since_ns, 131 * S);
	/* Between limit and clear it goes on; good for 10 s ends it: from 196 to 206. */
	for (t = 162; t < 206; t++)
		assert_int_equal(
			rule_step(&r, &s, t * S, t < 200 && t % 5 == 0 ? RULE_BETWEEN : RULE_GOOD),
			RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 206 * S, RULE_GOOD), RULE_RESOLVED);
}

/* Ends at a known second, and does not come back before the cooldown is over. */
static void cooldown(void **state)
{
	const struct rule r = {.test = RULE_ABOVE, .hold = 1, .clear_n = 1, .cooldown_ns = 300 * S};
	struct rule_state s = {0};
	int64_t t;

	(void)state;
	assert_int_equal(rule_step(&r, &s, 10 * S, RULE_BAD), RULE_FIRED);
	assert_int_equal(rule_step(&r, &s, 20 * S, RULE_GOOD), RULE_RESOLVED);
	for (t = 30; t < 320; t++)
		assert_int_equal(rule_step(&r, &s, t * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 320 * S, RULE_BAD), RULE_FIRED);
	assert_int_equal(s.since_ns, 30 * S);
}

static void hold_by_count(void **state)
{
	const struct rule r = {.test = RULE_ABOVE, .hold = 5, .clear_n = 3};
	struct rule_state s = {0};
	int i;

	(void)state;
	for (i = 1; i < 5; i++)
		assert_int_equal(rule_step(&r, &s, i * 3600 * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 5 * 3600 * S, RULE_BAD), RULE_FIRED);
	assert_int_equal(rule_step(&r, &s, 6 * 3600 * S, RULE_GOOD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 7 * 3600 * S, RULE_GOOD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 8 * 3600 * S, RULE_BETWEEN), RULE_NOTHING);
	for (i = 9; i < 11; i++)
		assert_int_equal(rule_step(&r, &s, i * 3600 * S, RULE_GOOD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 11 * 3600 * S, RULE_GOOD), RULE_RESOLVED);
}

/* A hole in the readings (the machine slept) is no time in which it was bad; what is older
 * than the last value was read twice. */
static void holes(void **state)
{
	const struct rule r = {.test = RULE_ABOVE, .hold_ns = 30 * S};
	struct rule_state s = {0};

	(void)state;
	assert_int_equal(rule_step(&r, &s, 100 * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 1000 * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 900 * S, RULE_GOOD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 1029 * S, RULE_BAD), RULE_NOTHING);
	assert_int_equal(rule_step(&r, &s, 1030 * S, RULE_BAD), RULE_FIRED);
}

static void judged(void **state)
{
	const struct rule above = {.test = RULE_ABOVE, .limit = 90, .clear = 85};
	const struct rule below = {.test = RULE_BELOW, .limit = 0.1, .clear = 0.2};
	const struct rule multiple = {.test = RULE_MULTIPLE, .limit = 10, .clear = 3};

	(void)state;
	assert_int_equal(rule_judge(&above, 90, NAN), RULE_BAD);
	assert_int_equal(rule_judge(&above, 89.9, NAN), RULE_BETWEEN);
	assert_int_equal(rule_judge(&above, 84.9, NAN), RULE_GOOD);
	assert_int_equal(rule_judge(&below, 0.0999, NAN), RULE_BAD);
	assert_int_equal(rule_judge(&below, 0.1, NAN), RULE_BETWEEN);
	assert_int_equal(rule_judge(&below, 0.2, NAN), RULE_GOOD);
	assert_int_equal(rule_judge(&multiple, 20, 2), RULE_BAD);
	assert_int_equal(rule_judge(&multiple, 19, 2), RULE_BETWEEN);
	assert_int_equal(rule_judge(&multiple, 5.9, 2), RULE_GOOD);
}

static void names(void **state)
{
	(void)state;
	assert_true(rule_matches("*loss* *nll* !*val*", "train/LOSS_total", ""));
	assert_false(rule_matches("*loss* *nll* !*val*", "val_loss", ""));
	assert_true(rule_matches("gradients/norm{}", "gradients/norm", ""));
	assert_false(rule_matches("gradients/norm{}", "gradients/norm", "layer=\"a\""));
	assert_false(rule_matches("a b", "ab", ""));
}

static const char *filled(const char *text, const struct rule_says *w)
{
	static char out[256];
	struct buf b;

	buf_init(&b, 200);
	rule_text(text, w, &b);
	strcpy(out, buf_str(&b));
	buf_done(&b);
	return out;
}

static void sentences(void **state)
{
	struct rule_says w = {.series = "a{b=\"{value}\"}",
			      .value = 92,
			      .limit = 90,
			      .unit = "Cel",
			      .for_s = 30,
			      .left_s = 588};

	(void)state;
	assert_string_equal(filled("{series} is {value}, not below {limit} for {for}; {left}", &w),
			    "a{b=\"{value}\"} is 92 °C, not below 90 °C for 30.0 s; 9 min 48 s");
	w.unit = "1";
	w.value = 0.051;
	assert_string_equal(filled("{value} {nothing} {", &w), "5.1 %  ");
	w.unit = "By";
	w.value = 1536;
	assert_string_equal(filled("{value}", &w), "1.50 KiB");
	w.value = NAN;
	assert_string_equal(filled("{value}", &w), "NaN");
}

/* Every row has a name that people are told of, and a sentence. */
static void tables(void **state)
{
	size_t i;

	(void)state;
	assert_int_equal(builtin_n_about, 13);
	for (i = 0; i < builtin_n_rules; i++) {
		assert_non_null(builtin_find(builtin_rules[i].name));
		assert_true(builtin_rules[i].test != RULE_RAISED ||
			    builtin_first(builtin_rules[i].name) != &builtin_rules[i]);
		if (builtin_rules[i].test == RULE_RAISED)
			continue; /* nobody is told of it */
		assert_non_null(builtin_rules[i].text);
		assert_int_equal(builtin_rules[i].cooldown_ns, 300 * S);
		assert_true(builtin_rules[i].most > 0);
	}
	for (i = 0; i < builtin_n_about; i++)
		assert_non_null(builtin_first(builtin_about[i].name));
	assert_null(builtin_find("no-such"));
}

static void medians(void **state)
{
	static struct spread s;
	int i;

	(void)state;
	assert_true(isnan(spread_median(&s)));
	spread_add(&s, NAN);
	spread_add(&s, -1);
	spread_add(&s, 0);
	spread_add(&s, INFINITY);
	assert_int_equal(s.count, 0);
	/* 51 of 1, 50 of 1000: the bin of 1 is 1 to 1.0625, its middle 1.03125. */
	for (i = 0; i < 101; i++)
		spread_add(&s, i % 2 ? 1000 : 1);
	assert_true(spread_median(&s) == 1.03125);
	/* Old values fade: 4096 counts are halved, so 5000 of another value are most. */
	for (i = 0; i < 5000; i++)
		spread_add(&s, 4);
	assert_true(spread_median(&s) == 4.125);
	assert_true(s.total < SPREAD_KEEP);
	/* Beyond the bins. */
	for (i = 0; i < 20000; i++)
		spread_add(&s, 1e300);
	assert_true(spread_median(&s) > 1e12);
}

static double slope_of(double (*value)(int), int n)
{
	struct fit f = {.width_ns = 5 * S};
	int i;

	for (i = 0; i < n; i++)
		fit_add(&f, (1000 + i) * S, value(i));
	return fit_slope(&f);
}

static double line(int i)
{
	return 3.0 * i;
}

/* The same with a spike in every 40th second. */
static double spiked(int i)
{
	return i % 40 == 0 ? 1e6 : 3.0 * i;
}

static double one_step(int i)
{
	return i < 60 ? 1 : 100;
}

static double saw(int i)
{
	return i % 20;
}

static double falling(int i)
{
	return -i;
}

static void slopes(void **state)
{
	(void)state;
	/* 20 closed stretches of 5 s need 101 values. */
	assert_true(isnan(slope_of(line, 100)));
	assert_true(fabs(slope_of(line, 101) - 3) < 1e-9);
	assert_true(fabs(slope_of(spiked, 121) - 3) < 0.2);
	assert_true(slope_of(one_step, 121) == 0);
	assert_true(slope_of(saw, 121) == 0);
	assert_true(slope_of(falling, 121) == 0);
}

/* A pause of more than three stretches begins anew. */
static void slope_hole(void **state)
{
	struct fit f = {.width_ns = 5 * S};
	int i;

	(void)state;
	for (i = 0; i < 121; i++)
		fit_add(&f, (1000 + i) * S, i);
	assert_true(fit_level(&f) == 117); /* 115 to 119 */
	fit_add(&f, 1200 * S, 1);
	assert_true(isnan(fit_slope(&f)));
}

static void quiet(void **state)
{
	static struct steps s;
	double now_s, limit_s;
	int i;

	(void)state;
	assert_false(steps_quiet(&s, 10 * S, 60, false, &now_s, &limit_s));
	/* Steps of 10 s: before the tenth 600 s are waited, then ten steps. */
	for (i = 0; i < 5; i++)
		steps_add(&s, 1, (100 + 10 * i) * S, i, i == 0);
	assert_true(steps_quiet(&s, 150 * S, 60, false, &now_s, &limit_s));
	assert_true(now_s == 10 && limit_s == 600);
	for (; i < 40; i++)
		steps_add(&s, 1, (100 + 10 * i) * S, i, i == 0);
	assert_true(steps_quiet(&s, 500 * S, 60, false, &now_s, &limit_s));
	assert_true(now_s == 10);
	assert_true(limit_s > 100 && limit_s < 110); /* the bin of 10 is 10 to 10.5 */
	assert_true(steps_quiet(&s, 500 * S, 60, true, &now_s, &limit_s));
	assert_true(limit_s == 600);
	/* A pause of 200 s (evaluation) was survived: twice it is waited. */
	steps_add(&s, 1, 690 * S, 40, false);
	assert_true(steps_quiet(&s, 700 * S, 60, false, &now_s, &limit_s));
	assert_true(limit_s == 400);
	/* The last step of all was done. */
	s.total = 41;
	assert_false(steps_quiet(&s, 9000 * S, 60, false, &now_s, &limit_s));
	/* The process has gone: others are waited for as it was, until they are gone too. */
	steps_leave(&s, 1);
	assert_int_equal(s.total, 41);
	assert_false(steps_quiet(&s, 9000 * S, 60, false, &now_s, &limit_s));
	s.total = 0;
	assert_true(steps_quiet(&s, 700 * S, 60, false, &now_s, &limit_s));
	assert_true(now_s == 10 && limit_s == 400);
	steps_end(&s);
	assert_false(steps_quiet(&s, 9000 * S, 60, false, &now_s, &limit_s));
}

/* Twice the tokens in twice the time is the same pace. */
static void pace_by_tokens(void **state)
{
	static struct steps s;
	int64_t t = 0;
	int i;

	(void)state;
	for (i = 0; i < 400; i++) {
		t += i < 200 ? S : 4 * S;
		steps_add(&s, 1, t, i, i == 0);
		steps_tokens(&s, 1, i < 200 ? 1000 : 4000);
	}
	assert_true(steps_slow_share(&s) < 0.05);
	for (; i < 500; i++) {
		t += 12 * S;
		steps_add(&s, 1, t, i, i == 0);
		steps_tokens(&s, 1, 4000);
	}
	assert_true(steps_slow_share(&s) > 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_by_time),   cmocka_unit_test(cooldown),
		cmocka_unit_test(hold_by_count),  cmocka_unit_test(holes),
		cmocka_unit_test(judged),         cmocka_unit_test(names),
		cmocka_unit_test(sentences),      cmocka_unit_test(tables),
		cmocka_unit_test(medians),        cmocka_unit_test(slopes),
		cmocka_unit_test(slope_hole),     cmocka_unit_test(quiet),
		cmocka_unit_test(pace_by_tokens),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("alert rule", tests, NULL, NULL);
}
