/* SPDX-License-Identifier: Apache-2.0
 *
 * Alerts of runs with several processes: one after another, of which the first ends while
 * something fires for it; and beside each other, of which one tells the learning rate for all,
 * or sets the pace and is gone.
 */
#include "alertrig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static struct rig rig; /* half a megabyte */

static int begin(void **state)
{
	(void)state;
	rig_init(&rig, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	rig_done(&rig);
	return 0;
}

static void put(uint32_t series, int from, int to, double value)
{
	for (; from < to; from++)
		rig_put(&rig, series, from, from, value);
}

static void ends(uint32_t process, int t_s)
{
	assert_int_equal(rig_process(&rig, "trainer", (int)process, RIG_T0 + t_s * 1000000000LL),
			 process);
}

static void assert_counts(const char *rule, unsigned firing, unsigned resolved)
{
	assert_int_equal(rig_count(&rig, rule, "firing"), firing);
	assert_int_equal(rig_count(&rig, rule, "resolved"), resolved);
}

/* ---- one after another ------------------------------------------------------------------- */

/* A usual 2 that becomes 9, more than 5 times the quarter that is told, is told at once. */
static void loss_of_the_next(void **state)
{
	uint32_t second, loss = rig_gauge(&rig, rig.trainer, "loss", "");
	const struct rig_event *e;

	(void)state;
	put(loss, 0, 490, 2);
	put(loss, 490, 500, 9);
	assert_counts("loss-spike", 1, 0);
	ends(rig.trainer, 500);
	e = rig_find(&rig, "loss-spike", "resolved", 0);
	assert_non_null(e);
	assert_true(e->at_s == 500);
	assert_int_equal(e->severity, 1);
	assert_non_null(strstr(e->text, ": loss; its process ended"));
	assert_non_null(strstr(e->attrs, "\"ended\":true"));
	assert_string_equal(e->id, rig_find(&rig, "loss-spike", "firing", 0)->id);
	second = rig_process(&rig, "trainer", 0, 0);
	loss = rig_gauge(&rig, second, "loss", "");
	put(loss, 600, 1000, 2);
	assert_counts("loss-spike", 1, 1);
	put(loss, 1000, 1001, 9);
	assert_counts("loss-spike", 2, 1);
	e = rig_find(&rig, "loss-spike", "firing", 1);
	assert_int_equal(e->process, second);
	assert_null(strstr(e->attrs, "\"ended\""));
	/* That one comes down. */
	put(loss, 1001, 1021, 2);
	assert_counts("loss-spike", 2, 2);
	assert_null(strstr(rig_find(&rig, "loss-spike", "resolved", 1)->attrs, "\"ended\""));
}

static void gradients_of_the_next(void **state)
{
	uint32_t norm = rig_gauge(&rig, rig.trainer, "grad_norm", "");

	(void)state;
	put(norm, 0, 60, 1);
	put(norm, 60, 65, 11);
	assert_counts("gradient-explosion", 1, 0);
	ends(rig.trainer, 65);
	assert_counts("gradient-explosion", 1, 1);
	norm = rig_gauge(&rig, rig_process(&rig, "trainer", 0, 0), "grad_norm", "");
	put(norm, 100, 160, 1);
	assert_counts("gradient-explosion", 1, 1);
	put(norm, 160, 165, 11);
	assert_counts("gradient-explosion", 2, 1);
}

/* The end is said again, and the values before it, after a commit that failed. */
static void nan_of_the_next(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	int i;

	(void)state;
	put(loss, 0, 5, 2);
	for (i = 0; i < 2; i++) {
		rig.fail_commits = 1 - i;
		put(loss, 5, 10, NAN);
		ends(rig.trainer, 10);
		rig_commit(&rig);
	}
	assert_counts("nan", 1, 1);
	assert_true(rig_find(&rig, "nan", "resolved", 0)->at_s == 10);
	assert_non_null(strstr(rig_find(&rig, "nan", "resolved", 0)->attrs, "\"ended\":true"));
	loss = rig_gauge(&rig, rig_process(&rig, "trainer", 0, 0), "loss", "");
	/* 300 s of peace. */
	put(loss, 300, 305, 2);
	put(loss, 305, 310, NAN);
	assert_counts("nan", 1, 1);
	put(loss, 310, 311, NAN);
	assert_counts("nan", 2, 1);
	put(loss, 311, 331, 2);
	assert_counts("nan", 2, 2);
}

/* What another process still has is not over. */
static void nan_of_two(void **state)
{
	uint32_t other = rig_process(&rig, "trainer", 1, 0);
	uint32_t a = rig_gauge(&rig, rig.trainer, "loss", "");
	uint32_t b = rig_gauge(&rig, other, "loss", "");

	(void)state;
	put(a, 0, 5, 2);
	put(b, 0, 5, 2);
	put(a, 5, 10, NAN);
	put(b, 5, 10, NAN);
	ends(rig.trainer, 10);
	assert_counts("nan", 1, 0);
	put(b, 10, 30, 2);
	assert_counts("nan", 1, 1);
	assert_null(strstr(rig_find(&rig, "nan", "resolved", 0)->attrs, "\"ended\""));
}

/* An end before its values, or in a year to come, is none before what it ends, nor ever after. */
static void hostile_ends(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	uint32_t norm = rig_gauge(&rig, rig.trainer, "grad_norm", "");

	(void)state;
	put(loss, 0, 490, 2);
	put(loss, 490, 500, 9);
	put(norm, 0, 60, 1);
	put(norm, 60, 65, NAN);
	put(norm, 65, 70, NAN);
	ends(rig.trainer, 1);
	assert_true(rig_find(&rig, "loss-spike", "resolved", 0)->at_s == 499);
	assert_true(rig_find(&rig, "nan", "resolved", 0)->at_s == 69);
	rig_done(&rig);
	begin(state);
	loss = rig_gauge(&rig, rig.trainer, "loss", "");
	put(loss, 0, 5, 2);
	put(loss, 5, 10, NAN);
	rig_process(&rig, "trainer", (int)rig.trainer, INT64_MAX);
	assert_counts("nan", 1, 1);
	assert_true(rig_find(&rig, "nan", "resolved", 0)->at_s == 9);
}

/* ---- beside each other --------------------------------------------------------------------- */

/* Back to where it was, 10, after a rate that rank 0 alone tells; not so of who tells one that
 * stays as it is. */
static void rate_of_one_rank(void **state)
{
	uint32_t second = rig_process(&rig, "trainer", 1, 0);
	uint32_t third = rig_process(&rig, "trainer", 2, 0);
	uint32_t rate = rig_gauge(&rig, rig.trainer, "lr", "");
	uint32_t a = rig_gauge(&rig, rig.trainer, "loss", "");
	uint32_t b = rig_gauge(&rig, second, "loss", "");
	uint32_t own_rate = rig_gauge(&rig, third, "lr", "");
	uint32_t c = rig_gauge(&rig, third, "loss", "");
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		double x = i < 100 ? 10 : i < 600 || i >= 640 ? 2 : 9;

		rig_put(&rig, rate, i, i, i >= 600 ? 1e-3 : 1e-4);
		rig_put(&rig, a, i, i, x);
		rig_put(&rig, b, i, i, x);
	}
	assert_counts("loss-spike", 0, 0);
	/* Much later they may not. */
	put(b, 1000, 2000, 2);
	put(b, 2000, 2010, 9);
	assert_counts("loss-spike", 1, 0);
	assert_int_equal(rig_find(&rig, "loss-spike", "firing", 0)->process, second);
	put(b, 2010, 2040, 2);
	for (i = 3000; i < 4000; i++) {
		rig_put(&rig, rate, i, i, i >= 3600 ? 1e-2 : 1e-3);
		rig_put(&rig, own_rate, i, i, 1e-4);
		rig_put(&rig, c, i, i, i < 3100 ? 10 : i < 3600 ? 2 : 9);
	}
	assert_counts("loss-spike", 2, 1);
	assert_int_equal(rig_find(&rig, "loss-spike", "firing", 1)->process, third);
}

/* A second rank's values are read first, three at a time. */
static void read_before_the_rate(double raised)
{
	uint32_t second = rig_process(&rig, "trainer", 1, 0);
	uint32_t rate = rig_gauge(&rig, rig.trainer, "lr", "");
	uint32_t loss = rig_gauge(&rig, second, "loss", "");
	int i;

	for (i = 0; i < 900; i += 3) {
		put(loss, i, i + 3, i < 99 ? 10 : i < 600 || i >= 639 ? 2 : 9);
		put(rate, i, i + 3, i < 600 ? 1e-4 : raised);
	}
}

static void rate_that_is_read_later(void **state)
{
	read_before_the_rate(1e-3);
	assert_counts("loss-spike", 0, 0);
	rig_done(&rig);
	begin(state);
	/* It was not raised, as is known with the next three. */
	read_before_the_rate(1e-4);
	assert_counts("loss-spike", 1, 1);
	assert_true(rig_find(&rig, "loss-spike", "firing", 0)->at_s == 603);
}

/* A rate that was lowered was not raised when it is read again. 3.5 is above 2.5, the third
 * is told. */
static void rate_that_is_read_again(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	uint32_t rate = rig_gauge(&rig, rig.trainer, "lr", "");

	(void)state;
	put(rate, 0, 700, 1e-3);
	put(loss, 0, 100, 4);
	put(loss, 100, 700, 2);
	put(rate, 700, 706, 1e-4);
	put(rate, 695, 700, 1e-3);
	put(rate, 700, 706, 1e-4);
	put(loss, 700, 800, 2);
	put(loss, 800, 802, 3.5);
	assert_counts("loss-spike", 0, 0);
	put(loss, 802, 803, 3.5);
	assert_counts("loss-spike", 1, 0);
}

/* ---- who sets the pace is gone ------------------------------------------------------------- */

static struct {
	uint32_t clock, busy, second, a, b;
} pair;

static void begin_pair(void)
{
	pair.clock = rig_gauge(&rig, rig.host, "cpu/busy", "");
	pair.busy = rig_gauge(&rig, rig.host, "gpu/busy", "gpu=\"0\"");
	pair.second = rig_process(&rig, "trainer", 1, 0);
	pair.a = rig_series(&rig, rig.trainer, "step", "", SINK_SPAN);
	pair.b = rig_series(&rig, pair.second, "step", "", SINK_SPAN);
}

/* Each second: the machine is read, and a step of 1 s ends in each of the two; 0: not there. */
static void seconds(int from, int to, double busy, uint32_t a, uint32_t b)
{
	for (; from < to; from++) {
		put(pair.clock, from, from + 1, 0.5);
		put(pair.busy, from, from + 1, busy);
		if (a)
			rig_span(&rig, a, from, from, 1);
		if (b)
			rig_span(&rig, b, from, from, 1);
	}
}

/* The others wait for it: 60 s from the last step on, told of one that lives. */
static void stall_without_the_leader(void **state)
{
	const struct rig_event *e;

	(void)state;
	begin_pair();
	seconds(0, 60, 0.9, pair.a, pair.b);
	ends(rig.trainer, 60);
	seconds(60, 119, 0.9, 0, 0);
	assert_counts("stall", 0, 0);
	seconds(119, 1500, 0, 0, 0);
	e = rig_find(&rig, "stall", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 119);
	assert_int_equal(e->process, pair.second);
	/* There are steps to wait for, so that the GPU's rest is no news. */
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	ends(pair.second, 1500);
	seconds(1500, 1510, 0, 0, 0);
	assert_counts("stall", 1, 0);
}

/* One step of the others was under way: they are not waited for as if they had just begun. */
static void stall_after_one_more(void **state)
{
	(void)state;
	begin_pair();
	seconds(0, 60, 0.9, pair.a, pair.b);
	ends(rig.trainer, 60);
	/* What the dead one had recorded is read late. */
	rig_span(&rig, pair.a, 59.5, 59, 0.5);
	seconds(60, 61, 0.9, 0, pair.b);
	seconds(61, 130, 0.9, 0, 0);
	assert_counts("stall", 1, 0);
	assert_true(rig_find(&rig, "stall", "firing", 0)->at_s == 120);
	assert_int_equal(rig_find(&rig, "stall", "firing", 0)->process, pair.second);
	seconds(130, 140, 0.9, 0, pair.b);
	assert_counts("stall", 1, 1);
}

/* Nobody is left, or both are done. */
static void no_stall_of_the_gone(void **state)
{
	(void)state;
	begin_pair();
	seconds(0, 60, 0.9, pair.a, pair.b);
	ends(rig.trainer, 60);
	seconds(60, 100, 0.9, 0, 0);
	ends(pair.second, 100);
	seconds(100, 3000, 0, 0, 0);
	assert_counts("stall", 0, 0);
	/* As if there were no steps at all. */
	assert_counts("gpu-idle", 1, 0);
	rig_done(&rig);
	begin(state);
	begin_pair();
	rig.to->ops->attr(rig.to, rig.trainer, "total_steps", "60");
	seconds(0, 60, 0.9, pair.a, pair.b);
	ends(rig.trainer, 60);
	seconds(60, 3000, 0.9, 0, 0); /* a report is written */
	assert_counts("stall", 0, 0);
}

/* The second goes on, and its GPU is looked at as before. */
static void idle_without_the_leader(void **state)
{
	(void)state;
	begin_pair();
	seconds(0, 200, 0.9, pair.a, pair.b);
	ends(rig.trainer, 200);
	seconds(200, 800, 0.9, 0, pair.b);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	seconds(800, 1100, 0, 0, pair.b);
	assert_counts("gpu-idle", 1, 0);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
}

/* Both begin again from a checkpoint: the new ones load, and compile in their third step. */
static void begin_again(void **state)
{
	(void)state;
	begin_pair();
	seconds(0, 200, 0.9, pair.a, pair.b);
	ends(rig.trainer, 200);
	seconds(200, 230, 0.9, 0, 0);
	ends(pair.second, 230);
	seconds(230, 500, 0.9, 0, 0);
	pair.a = rig_series(&rig, rig_process(&rig, "trainer", 0, 0), "step", "", SINK_SPAN);
	rig_span(&rig, pair.a, 500, 198, 1);
	rig_span(&rig, pair.a, 501, 199, 1);
	seconds(500, 800, 0.9, 0, 0);
	seconds(800, 1000, 0.9, pair.a, 0);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	/* One of those before had not ended yet, as far as is known. */
	rig_done(&rig);
	begin(state);
	begin_pair();
	seconds(0, 200, 0.9, pair.a, pair.b);
	ends(rig.trainer, 200);
	seconds(200, 230, 0.9, 0, 0);
	pair.a = rig_series(&rig, rig_process(&rig, "trainer", 0, 0), "step", "", SINK_SPAN);
	rig_span(&rig, pair.a, 231, 201, 1);
	ends(pair.second, 231);
	seconds(231, 600, 0.9, 0, 0);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

/* Beside it, another training with slower steps: what was usual is not its pace. */
static void slower_beside(void **state)
{
	int i;

	(void)state;
	begin_pair();
	for (i = 0; i < 600; i++) {
		seconds(i, i + 1, 0.9, pair.a, 0);
		if (i % 5 == 4)
			rig_span(&rig, pair.b, i, i / 5, 5);
	}
	ends(rig.trainer, 600);
	for (; i < 3000; i++) {
		seconds(i, i + 1, 0.9, 0, 0);
		if (i % 5 == 4)
			rig_span(&rig, pair.b, i, i / 5, 5);
	}
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	seconds(3000, 3300, 0.9, 0, 0);
	assert_counts("stall", 1, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(loss_of_the_next),
		TEST(gradients_of_the_next),
		TEST(nan_of_the_next),
		TEST(nan_of_two),
		TEST(hostile_ends),
		TEST(rate_of_one_rank),
		TEST(rate_that_is_read_later),
		TEST(rate_that_is_read_again),
		TEST(stall_without_the_leader),
		TEST(stall_after_one_more),
		TEST(no_stall_of_the_gone),
		TEST(idle_without_the_leader),
		TEST(begin_again),
		TEST(slower_beside),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("alert processes", tests, NULL, NULL);
}
