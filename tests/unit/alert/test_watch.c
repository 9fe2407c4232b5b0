/* SPDX-License-Identifier: Apache-2.0
 *
 * Each built-in check on series made by hand: when it fires, to the second, and what must
 * not make it fire: warm-up, evaluation, checkpoints, restarts, the end.
 */
#include "alertrig.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig; /* half a megabyte */
static uint32_t step_series;

static int begin(void **state)
{
	(void)state;
	rig_init(&rig, NULL);
	step_series = rig_series(&rig, rig.trainer, "step", "", SINK_SPAN);
	return 0;
}

static int end(void **state)
{
	(void)state;
	rig_done(&rig);
	return 0;
}

/* Steps number from..to - 1 of `period` seconds that end at t + period, ...; the clock of
 * the machine ticks each second. The end of the last. */
static double train(double t, int from, int to, double period, uint32_t clock)
{
	double tick = ceil(t);
	int i;

	for (i = from; i < to; i++) {
		t += period;
		for (; tick < t; tick++)
			rig_put(&rig, clock, tick, SINK_STEP_NONE, 0.5);
		rig_span(&rig, step_series, t, i, period);
	}
	return t;
}

static void tick(double from, double to, uint32_t series, double value)
{
	for (from = ceil(from); from <= to; from++)
		rig_put(&rig, series, from, SINK_STEP_NONE, value);
}

static uint32_t clock_series(void)
{
	return rig_gauge(&rig, rig.host, "cpu/busy", "");
}

/* ---- NaN ------------------------------------------------------------------------------- */

static void nan_loss(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "train/loss", "");
	const struct rig_event *e;
	int i;

	(void)state;
	for (i = 0; i < 5; i++)
		rig_put(&rig, loss, i, i, 2);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	rig_put(&rig, loss, 5, 5, NAN);
	e = rig_find(&rig, "nan", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 5);
	assert_int_equal(e->severity, 3);
	assert_int_equal(e->process, rig.trainer);
	assert_string_equal(e->text, "Loss is not finite: train/loss is NaN");
	assert_non_null(strstr(e->attrs, "\"value\":\"NaN\",\"limit\":null"));
	/* Over after 20 finite ones; then 300 s of peace. */
	for (i = 6; i < 26; i++) {
		assert_int_equal(rig_count(&rig, "nan", "resolved"), 0);
		rig_put(&rig, loss, i, i, 2);
	}
	e = rig_find(&rig, "nan", "resolved", 0);
	assert_non_null(e);
	assert_true(e->at_s == 25);
	assert_string_equal(e->id, rig_find(&rig, "nan", "firing", 0)->id);
	rig_put(&rig, loss, 100, 26, INFINITY);
	assert_int_equal(rig_count(&rig, "nan", "firing"), 1);
	rig_put(&rig, loss, 326, 27, INFINITY);
	assert_int_equal(rig_count(&rig, "nan", "firing"), 2);
}

/* One alert, however many series go with the first. */
static void nan_many(void **state)
{
	uint32_t ids[40];
	char name[32];
	int i, t;

	(void)state;
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "loss/%d", i);
		ids[i] = rig_gauge(&rig, rig.trainer, name, "");
	}
	for (t = 0; t < 30; t++)
		for (i = 0; i < 40; i++)
			rig_put(&rig, ids[i], t, t, t < 10 ? 1 : NAN);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
}

static void nan_healthy(void **state)
{
	uint32_t val = rig_gauge(&rig, rig.trainer, "val_loss", "");
	uint32_t acc = rig_gauge(&rig, rig.trainer, "val/accuracy", "");
	uint32_t best = rig_gauge(&rig, rig.trainer, "best_loss", "");
	uint32_t norm = rig_gauge(&rig, rig.trainer, "grad_norm", "");
	uint32_t scale = rig_gauge(&rig, rig.trainer, "loss_scale", "");
	uint32_t latency = rig_gauge(&rig, rig.host, "disk/latency/read", "device=\"a\"");
	int i;

	(void)state;
	for (i = 0; i < 500; i++) {
		/* Known at every 100th step only. */
		rig_put(&rig, val, i, i, i % 100 == 99 ? 1 : NAN);
		rig_put(&rig, acc, i, i, i % 100 == 99 ? 1 : NAN);
		rig_put(&rig, best, i, i, INFINITY);
		/* A gradient scaler looks for its scale. */
		rig_put(&rig, norm, i, i, i < 9 || i == 300 ? INFINITY : 1);
		rig_put(&rig, scale, i, i, INFINITY);
		rig_put(&rig, latency, i, i, NAN);
	}
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

static void nan_from_the_first(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	int i;

	(void)state;
	for (i = 0; i < 9; i++)
		rig_put(&rig, loss, i, i, NAN);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	rig_put(&rig, loss, 9, 9, NAN);
	assert_int_equal(rig_count(&rig, "nan", "firing"), 1);
}

/* ---- stall -------------------------------------------------------------------------------- */

static void stall(void **state)
{
	uint32_t clock = clock_series();
	const struct rig_event *e;
	double t = train(0, 0, 100, 1, clock);

	(void)state;
	tick(t + 1, t + 59, clock, 0.5);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	tick(t + 60, t + 100, clock, 0.5);
	e = rig_find(&rig, "stall", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == t + 60);
	assert_non_null(strstr(e->attrs, "\"series\":\"step\""));
	assert_int_equal(rig_count(&rig, NULL, "resolved"), 0);
	train(t + 100, 100, 101, 1, clock);
	tick(t + 102, t + 103, clock, 0.5);
	e = rig_find(&rig, "stall", "resolved", 0);
	assert_non_null(e);
	assert_true(e->at_s == t + 102);
}

/* Slow steps: ten of them are waited for. */
static void stall_slow_steps(void **state)
{
	uint32_t clock = clock_series();
	double t = train(0, 0, 60, 20, clock);
	const struct rig_event *e;

	(void)state;
	tick(t + 1, t + 250, clock, 0.5);
	e = rig_find(&rig, "stall", "firing", 0);
	assert_non_null(e);
	/* The bin of 20 is 20 to 21. */
	assert_true(e->at_s - t >= 200 && e->at_s - t <= 210);
}

static void stall_warm_up(void **state)
{
	uint32_t clock = clock_series();
	double t;

	(void)state;
	tick(0, 2000, clock, 0.5); /* loading */
	t = train(2000, 0, 3, 1, clock);
	tick(t + 1, t + 500, clock, 0.5); /* compiling */
	t = train(t + 500, 3, 200, 1, clock);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

/* Evaluation: told by an open span, or by what the GPU draws; the second time by what was. */
static void stall_evaluation(void **state)
{
	uint32_t clock = clock_series();
	uint32_t power = rig_gauge(&rig, rig.host, "gpu/power", "gpu=\"0\"");
	double t = train(0, 0, 200, 1, clock);

	(void)state;
	watch_aside(rig.watch, true);
	tick(t + 1, t + 300, clock, 0.5);
	watch_aside(rig.watch, false);
	t = train(t + 300, 200, 300, 1, clock);
	tick(t + 1, t + 550, clock, 0.5); /* twice 300 s */
	t = train(t + 550, 300, 301, 1, clock);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	(void)power;
}

static void stall_working(void **state)
{
	uint32_t power = rig_gauge(&rig, rig.host, "gpu/power", "gpu=\"0\"");
	double t = train(0, 0, 300, 1, power);
	int i;

	(void)state;
	/* train() ticks 0.5 W; evaluation draws 0.4, an idle GPU 0.1. */
	for (i = 1; i <= 300; i++)
		rig_put(&rig, power, t + i, SINK_STEP_NONE, 0.4);
	t = train(t + 300, 300, 600, 1, power);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

static void stall_not_working(void **state)
{
	uint32_t power = rig_gauge(&rig, rig.host, "gpu/power", "gpu=\"0\"");
	double t = train(0, 0, 300, 1, power);

	(void)state;
	tick(t + 1, t + 70, power, 0.1);
	assert_int_equal(rig_count(&rig, "stall", "firing"), 1);
}

/* A short training: what is usual is known from the first minute on, not after several. */
static void stall_soon(void **state)
{
	uint32_t power = rig_gauge(&rig, rig.host, "gpu/power", "gpu=\"0\"");
	double t;

	(void)state;
	tick(0, 30, power, 0.07); /* loading */
	t = train(30, 0, 20, 1, power);
	tick(t + 1, t + 70, power, 0.125); /* an idle GPU whose clocks are still high */
	assert_int_equal(rig_count(&rig, "stall", "firing"), 1);
}

/* All steps are done, or their process has gone. */
static void stall_end(void **state)
{
	uint32_t clock = clock_series();
	double t;

	(void)state;
	rig.to->ops->attr(rig.to, rig.trainer, "total_steps", "100");
	t = train(0, 0, 100, 1, clock);
	tick(t + 1, t + 3000, clock, 0.5);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	rig.to->ops->attr(rig.to, rig.trainer, "total_steps", "1000");
	t = train(t + 3000, 100, 200, 1, clock);
	rig_process(&rig, "trainer", (int)rig.trainer, RIG_T0 + (int64_t)(t * 1e9));
	tick(t + 1, t + 3000, clock, 0.5);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

/* Killed in a stall: that did not end it. A step in the last second before the end did. */
static void stall_to_the_end(void **state)
{
	struct run_outcome *o = calloc(1, sizeof(*o));
	uint32_t clock = clock_series();
	double t = train(0, 0, 100, 1, clock);

	(void)state;
	tick(t + 1, t + 100, clock, 0.5);
	rig_process(&rig, "trainer", (int)rig.trainer, RIG_T0 + (int64_t)(t * 1e9));
	tick(t + 101, t + 110, clock, 0.5);
	o->kind = RUN_EXITED;
	o->end_ns = RIG_T0 + (int64_t)((t + 110) * 1e9);
	watch_end(rig.watch, o);
	assert_int_equal(rig_count(&rig, "stall", "firing"), 1);
	assert_int_equal(rig_count(&rig, "stall", "resolved"), 0);

	rig_done(&rig);
	begin(state);
	clock = clock_series();
	t = train(0, 0, 100, 1, clock);
	tick(t + 1, t + 100, clock, 0.5);
	rig_span(&rig, step_series, t + 100.5, 100, 0.5);
	rig_process(&rig, "trainer", (int)rig.trainer, RIG_T0 + (int64_t)((t + 100.6) * 1e9));
	o->end_ns = RIG_T0 + (int64_t)((t + 100.7) * 1e9);
	watch_end(rig.watch, o);
	assert_int_equal(rig_count(&rig, "stall", "resolved"), 1);
	free(o);
}

/* ---- pace ------------------------------------------------------------------------------------ */

static void slow_steps(void **state)
{
	uint32_t clock = clock_series();
	const struct rig_event *e;
	double t = train(0, 0, 300, 1, clock);

	(void)state;
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	train(t, 300, 400, 3, clock);
	e = rig_find(&rig, "throughput-drop", "firing", 0);
	assert_non_null(e);
	/* After x slow steps there are 60 - 3x quick ones in the last minute: more than half
	 * is slow from x = 16 on, 48 s; a step counts when the next one ends. */
	assert_true(e->at_s - t >= 46 && e->at_s - t <= 56);
	assert_int_equal(rig_count(&rig, "throughput-drop", "resolved"), 0);
	train(t + 300, 400, 500, 1, clock);
	assert_int_equal(rig_count(&rig, "throughput-drop", "resolved"), 1);
}

static void slow_healthy(void **state)
{
	uint32_t clock = clock_series();
	double t = train(0, 0, 10, 8, clock); /* warm-up */
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		t = train(t, 10 + 50 * i, 10 + 50 * (i + 1), 1, clock);
		tick(t + 1, t + 50, clock, 0.5); /* a checkpoint */
		t += 50;
	}
	t = train(t, 1010, 1100, 1.9, clock);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

/* ---- gradients ---------------------------------------------------------------------------------
 */

static void gradients(void **state)
{
	uint32_t norm = rig_gauge(&rig, rig.trainer, "gradients/norm", "");
	uint32_t layer = rig_gauge(&rig, rig.trainer, "gradients/norm", "layer=\"a\"");
	const struct rig_event *e;
	int i;

	(void)state;
	for (i = 0; i < 400; i++) {
		/* Wild at first, then single spikes. */
		rig_put(&rig, norm, i, i, i < 20 ? 1000 : i % 50 < 4 ? 40 : 1);
		rig_put(&rig, layer, i, i, i % 2 ? 1 : 1e6);
	}
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	for (i = 400; i < 405; i++) {
		assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
		rig_put(&rig, norm, i, i, i == 400 ? 1 : 11);
	}
	rig_put(&rig, norm, 405, 405, 11);
	e = rig_find(&rig, "gradient-explosion", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 405);
}

/* ---- losses that jump --------------------------------------------------------------------------
 */

static void losses(uint32_t a, uint32_t b, int from, int to, double value)
{
	for (; from < to; from++) {
		rig_put(&rig, a, from, from, value);
		rig_put(&rig, b, from, from, 2 * value);
	}
}

/* A fifth above is usual, a half is not: the third value is told, of one of the losses that rise,
 * and when the first came. It is over after 20 values that are below 2.25; then there is peace
 * for 300 s, then for 600 s. */
static void surges(void **state)
{
	uint32_t a = rig_gauge(&rig, rig.trainer, "train/loss", "");
	uint32_t b = rig_gauge(&rig, rig.trainer, "train/loss_ce", "");
	const struct rig_event *e;
	const char *since;
	int64_t ns;

	(void)state;
	losses(a, b, 0, 400, 2);
	losses(a, b, 400, 405, 2.4);
	losses(a, b, 405, 500, 2);
	losses(a, b, 500, 502, 3);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	losses(a, b, 502, 540, 3);
	e = rig_find(&rig, "loss-spike", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 502);
	assert_int_equal(e->severity, 2);
	assert_int_equal(e->process, rig.trainer);
	assert_string_equal(e->text, "Loss jumped: train/loss rose to 3, usually 2");
	assert_non_null(strstr(e->attrs, "\"value\":3,\"limit\":2.5,"));
	since = strstr(e->attrs, "\"since_ns\":\"");
	assert_non_null(since);
	ns = strtoll(since + strlen("\"since_ns\":\""), NULL, 10);
	assert_true(ns == RIG_T0 + 500 * 1000000000LL);
	losses(a, b, 540, 550, 2.3);
	losses(a, b, 550, 800, 2);
	e = rig_find(&rig, "loss-spike", "resolved", 0);
	assert_non_null(e);
	assert_true(e->at_s == 569);
	/* Until 869; single ones that come before that are known then. */
	losses(a, b, 800, 804, 3);
	losses(a, b, 804, 1000, 2);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	losses(a, b, 1000, 1010, 3);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 2);
	/* Over at 1029, so until 1629 for both, though what stays up is told then. */
	losses(a, b, 1010, 1620, 2);
	losses(a, b, 1620, 1629, 3);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 2);
	losses(a, b, 1629, 1631, 3);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 3);
	losses(a, b, 1631, 1700, 2);
	assert_int_equal(rig_count(&rig, NULL, "resolved"), 3);
}

/* What is no training loss, and a rate that was raised. */
static void surges_left_alone(void **state)
{
	static const char *const names[] = {"val_loss",   "policy_loss",    "d_loss",
					    "gan/G_loss", "generator/loss", "kl_loss",
					    "reward",     "loss_scale"};
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	uint32_t rate = rig_gauge(&rig, rig.trainer, "lr", "");
	uint32_t ids[ARRAY_LEN(names)];
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < ARRAY_LEN(names); k++)
		ids[k] = rig_gauge(&rig, rig.trainer, names[k], "");
	for (i = 0; i < 2000; i++) {
		for (k = 0; k < ARRAY_LEN(names); k++)
			rig_put(&rig, ids[k], i, i, i < 500 ? 1 : 5);
		/* A warm restart at 600: back to where it was. */
		rig_put(&rig, rate, i, i, i == 600 ? 1e-3 : 1e-4);
		rig_put(&rig, loss, i, i, i < 100 ? 10 : i < 600 || i >= 640 ? 2 : 9);
	}
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	for (i = 2000; i < 2010; i++)
		rig_put(&rig, loss, i, i, 9);
	assert_int_equal(rig_count(&rig, "loss-spike", "firing"), 1);
}

/* ---- machine
 * -------------------------------------------------------------------------------------- */

static void hot(void **state)
{
	uint32_t t0 = rig_gauge(&rig, rig.host, "gpu/temperature", "gpu=\"0\"");
	uint32_t t1 = rig_gauge(&rig, rig.host, "gpu/temperature", "gpu=\"1\"");
	const struct rig_event *e;
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		rig_put(&rig, t0, i, SINK_STEP_NONE, i % 25 ? 95 : 80); /* never 30 s running */
		rig_put(&rig, t1, i, SINK_STEP_NONE, i < 50 ? 89.9 : 90);
	}
	e = rig_find(&rig, "gpu-hot", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 80);
	assert_non_null(strstr(e->text, "gpu/temperature{gpu=\"1\"} is 90 °C"));
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	/* It is not read any more. */
	tick(201, 600, t0, 50);
	e = rig_find(&rig, "gpu-hot", "resolved", 0);
	assert_non_null(e);
	assert_true(e->at_s == 499);
}

static void idle(void **state)
{
	uint32_t busy = rig_gauge(&rig, rig.host, "gpu/busy", "gpu=\"0\"");
	uint32_t other = rig_gauge(&rig, rig.host, "gpu/busy", "gpu=\"1\"");
	const struct rig_event *e;
	double t = train(0, 0, 200, 1, busy);
	int i;

	(void)state;
	for (i = 0; i < 200; i++)
		rig_put(&rig, other, i, SINK_STEP_NONE, 0); /* not the run's */
	for (i = 0; i < 400; i++) {
		rig_put(&rig, busy, t + i, SINK_STEP_NONE, 0.02);
		rig_put(&rig, other, t + i, SINK_STEP_NONE, 0);
		rig_span(&rig, step_series, t + i + 0.5, 200 + i, 1);
	}
	e = rig_find(&rig, "gpu-idle", "firing", 0);
	assert_non_null(e);
	/* The mean falls from 0.5 below 0.1 with a time constant of 30 s: x(n) =
	 * 0.02 + 0.48 * (30 / 31)^n < 0.1 from n = 55 on, and then 120 s. */
	assert_true(e->at_s - t >= 173 && e->at_s - t <= 177);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
}

/* GPUs rest while no steps are done: that is another alert's business. */
static void idle_healthy(void **state)
{
	uint32_t busy = rig_gauge(&rig, rig.host, "gpu/busy", "gpu=\"0\"");
	double t;
	int i;

	(void)state;
	rig.to->ops->attr(rig.to, rig.trainer, "total_steps", "300");
	tick(0, 900, busy, 0); /* start */
	t = train(901, 0, 100, 1, busy);
	tick(t, t + 50, busy, 0); /* checkpoint */
	t = train(t + 50, 100, 300, 1, busy);
	for (i = 0; i < 1000; i++)
		rig_put(&rig, busy, t + i, SINK_STEP_NONE, 0);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

static void memory_forecast(void **state)
{
	uint32_t risk = rig_gauge(&rig, rig.command, "oom/risk", "");
	const struct rig_event *e;
	double t = train(0, 0, 100, 1, clock_series());
	int i;

	(void)state;
	/* 0.001 a second from 0.4 on: 0.5 after 100 s, when the limit is 500 s away; there
	 * must be 20 stretches of 5 s, and 3 forecasts. */
	for (i = 0; i < 130; i++) {
		rig_put(&rig, risk, t + i, SINK_STEP_NONE, 0.4 + 0.001 * i);
		rig_span(&rig, step_series, t + i, 100 + i, 1);
	}
	e = rig_find(&rig, "oom-forecast", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s - t >= 105 && e->at_s - t <= 125);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	/* It stays where it is. */
	for (; i < 400; i++) {
		rig_put(&rig, risk, t + i, SINK_STEP_NONE, 0.53);
		rig_span(&rig, step_series, t + i, 100 + i, 1);
	}
	assert_int_equal(rig_count(&rig, "oom-forecast", "resolved"), 1);
}

static void memory_healthy(void **state)
{
	uint32_t risk = rig_gauge(&rig, rig.command, "oom/risk", "");
	uint32_t used = rig_gauge(&rig, rig.host, "memory/used", "");
	uint32_t limit = rig_gauge(&rig, rig.host, "memory/limit", "");
	uint32_t gpu = rig_gauge(&rig, rig.host, "gpu/memory/used", "gpu=\"0\"");
	uint32_t gpu_total = rig_gauge(&rig, rig.host, "gpu/memory/total", "gpu=\"0\"");
	int i;

	(void)state;
	/* Loading data into memory before the first steps: steadily, up to 85 %. */
	for (i = 0; i < 600; i++) {
		rig_put(&rig, risk, i, SINK_STEP_NONE, 0.05 + 0.8 * i / 600);
		rig_put(&rig, limit, i, SINK_STEP_NONE, 100);
		rig_put(&rig, used, i, SINK_STEP_NONE, 99.9); /* another machine's view */
		rig_put(&rig, gpu_total, i, SINK_STEP_NONE, 80);
		rig_put(&rig, gpu, i, SINK_STEP_NONE, 0.11 * i);
	}
	/* Saw teeth and one large allocation. */
	for (i = 0; i < 600; i++) {
		rig_put(&rig, risk, 600 + i, SINK_STEP_NONE, 0.7 + 0.01 * (i % 15));
		rig_put(&rig, gpu, 600 + i, SINK_STEP_NONE, i < 300 ? 50 : 79);
		rig_span(&rig, step_series, 600 + i, i, 1);
	}
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
}

static void memory_pressure(void **state)
{
	uint32_t total = rig_gauge(&rig, rig.host, "memory/total", "");
	uint32_t used = rig_gauge(&rig, rig.host, "memory/used", "");
	const struct rig_event *e;
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		rig_put(&rig, total, i, SINK_STEP_NONE, 1000);
		rig_put(&rig, used, i, SINK_STEP_NONE, i < 50 ? 899 : 900);
	}
	e = rig_find(&rig, "memory-pressure", "firing", 0);
	assert_non_null(e);
	assert_true(e->at_s == 110);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
}

static void io_wait(void **state)
{
	uint32_t wait = rig_gauge(&rig, rig.host, "cpu/iowait", "");
	double t;
	int i;

	(void)state;
	tick(0, 300, wait, 0.6); /* loading */
	t = train(300, 0, 100, 1, clock_series());
	tick(301, t, wait, 0.05);
	watch_aside(rig.watch, true);
	tick(t + 1, t + 200, wait, 0.6); /* a checkpoint */
	watch_aside(rig.watch, false);
	for (i = 1; i <= 500; i++) {
		rig_put(&rig, wait, t + 200 + i, SINK_STEP_NONE, i < 300 ? 0.05 : 0.3);
		rig_span(&rig, step_series, t + 200 + i, 100 + i, 1);
		if (i == 300)
			assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	}
	assert_int_equal(rig_count(&rig, "io-wait", "firing"), 1);
}

static void disk(void **state)
{
	uint32_t total = rig_gauge(&rig, rig.host, "filesystem/total", "mount=\"/data\"");
	uint32_t left = rig_gauge(&rig, rig.host, "filesystem/available", "mount=\"/data\"");
	uint32_t total2 = rig_gauge(&rig, rig.host, "filesystem/total", "mount=\"/boot\"");
	uint32_t left2 = rig_gauge(&rig, rig.host, "filesystem/available", "mount=\"/boot\"");
	uint32_t total3 = rig_gauge(&rig, rig.host, "filesystem/total", "mount=\"/out\"");
	uint32_t left3 = rig_gauge(&rig, rig.host, "filesystem/available", "mount=\"/out\"");
	const struct rig_event *e;
	int i;

	(void)state;
	for (i = 0; i < 2000; i += 10) {
		rig_put(&rig, total, i, SINK_STEP_NONE, 10000);
		rig_put(&rig, left, i, SINK_STEP_NONE, 2500 - i); /* full in 2,500 s */
		rig_put(&rig, total2, i, SINK_STEP_NONE, 100);
		rig_put(&rig, left2, i, SINK_STEP_NONE, 0.5); /* always full */
		rig_put(&rig, total3, i, SINK_STEP_NONE, 10000);
		/* A checkpoint now and then, into a disk that is fairly full. */
		rig_put(&rig, left3, i, SINK_STEP_NONE, 1900 - 100 * (i / 500));
	}
	e = rig_find(&rig, "disk-filling", "firing", 0);
	assert_non_null(e);
	assert_non_null(strstr(e->text, "/data"));
	/* 80 % at 500 s; 20 stretches of 25 s; 3 forecasts. */
	assert_true(e->at_s >= 500 && e->at_s <= 600);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	for (; i < 2200; i += 10)
		rig_put(&rig, left, i, SINK_STEP_NONE, 2500 - i);
	/* 95 % at 2,000 s, held for 60 s. */
	e = rig_find(&rig, "disk-filling", "firing", 1);
	assert_non_null(e);
	assert_true(e->at_s == 2070 || e->at_s == 2060);
}

/* ---- losses, the end
 * ---------------------------------------------------------------------------------- */

static void drops(void **state)
{
	struct sink_position p = {.ring = {1}, .process = rig.trainer, .rec = 100};
	struct sink_position at;
	uint32_t clock = clock_series();
	const struct rig_event *e;

	(void)state;
	/* Another agent has told of 7. */
	assert_int_equal(rig.to->ops->resume(rig.to, p.ring, 0, &at), 0);
	p.dropped = 7;
	rig.to->ops->position(rig.to, &p);
	tick(0, 10, clock, 1);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	p.overwritten = 3;
	rig.to->ops->position(rig.to, &p);
	tick(11, 12, clock, 1);
	e = rig_find(&rig, "drops", "firing", 0);
	assert_non_null(e);
	assert_string_equal(e->text, "Records were lost: 3 records were lost since the run began");
	tick(13, 60, clock, 1);
	assert_int_equal(rig_count(&rig, "drops", "resolved"), 0);
	tick(61, 90, clock, 1);
	assert_int_equal(rig_count(&rig, "drops", "resolved"), 1);
}

static void outcomes(void **state)
{
	static const struct {
		enum run_outcome_kind kind;
		int code, signal, severity;
		const char *text;
	} rows[] = {
		{RUN_EXITED, 0, 0, 0, NULL},
		{RUN_EXITED, 130, 0, 0, NULL},
		{RUN_SIGNALED, -1, 2, 0, NULL},
		{RUN_EXITED, 3, 0, 3, "The run failed: it exited with status 3"},
		{RUN_SIGNALED, -1, 11, 3, "The run failed: it was killed by SIGSEGV"},
		{RUN_SIGNALED, -1, 15, 2, "The run failed: it was killed by SIGTERM"},
		{RUN_OOM, -1, 9, 3, "The run failed: it ran out of memory"},
		{RUN_HUNG, 0, 0, 3, "The run failed: it hung"},
	};
	struct run_outcome *o = calloc(1, sizeof(*o));
	const struct rig_event *e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		rig_done(&rig);
		rig_init(&rig, NULL);
		*o = (struct run_outcome){.kind = rows[i].kind,
					  .code = rows[i].code,
					  .signal = rows[i].signal,
					  .end_ns = RIG_T0 + 5000000000};
		watch_end(rig.watch, o);
		e = rig_find(&rig, "crash", "firing", 0);
		assert_int_equal(e != NULL, rows[i].text != NULL);
		if (!e)
			continue;
		assert_string_equal(e->text, rows[i].text);
		assert_int_equal(e->severity, rows[i].severity);
		assert_true(e->at_s == 5);
	}
	free(o);
}

/* ---- the sink
 * -------------------------------------------------------------------------------------------- */

/* A commit that fails takes nothing away: the alert is in the next one, once. */
static void failing_commits(void **state)
{
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");

	(void)state;
	rig_put(&rig, loss, 0, 0, 1);
	rig.fail_commits = 2;
	rig_put(&rig, loss, 1, 1, NAN);
	assert_int_equal(rig.to->ops->commit(rig.to), -ENOSPC);
	assert_int_equal(rig.to->ops->commit(rig.to), -ENOSPC);
	assert_int_equal(rig.n_events, 0);
	/* The ring is read again. */
	rig_put(&rig, loss, 0, 0, 1);
	rig_put(&rig, loss, 1, 1, NAN);
	rig.to->ops->rollback(rig.to);
	rig_put(&rig, loss, 0, 0, 1);
	rig_put(&rig, loss, 1, 1, NAN);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 1);
	assert_int_equal(rig_count(&rig, NULL, "resolved"), 0);
	assert_non_null(strstr(rig.attr, "\"enabled\":true"));
	assert_int_equal(rig.n_samples, 6);
}

static void settings(void **state)
{
	static const char *const none[] = {"gpu-hot", NULL};
	static const struct watch_limit limits[] = {{"stall", 5}, {NULL, 0}};
	const struct watch_settings some = {.none = none, .limits = limits};
	const struct watch_settings off = {.off = true};
	uint32_t clock, hot_one, loss;
	double t;

	(void)state;
	rig_done(&rig);
	rig_init(&rig, &some);
	step_series = rig_series(&rig, rig.trainer, "step", "", SINK_SPAN);
	clock = clock_series();
	hot_one = rig_gauge(&rig, rig.host, "gpu/temperature", "gpu=\"0\"");
	t = train(0, 0, 100, 0.1, clock);
	tick(t + 1, t + 60, hot_one, 120);
	assert_int_equal(rig_count(&rig, "gpu-hot", "firing"), 0);
	assert_non_null(rig_find(&rig, "stall", "firing", 0));
	assert_true(rig_find(&rig, "stall", "firing", 0)->at_s <= t + 6);
	assert_non_null(strstr(rig.attr, "\"off\":[\"gpu-hot\"],\"limits\":{\"stall\":5}"));
	rig_done(&rig);
	rig_init(&rig, &off);
	loss = rig_gauge(&rig, rig.trainer, "loss", "");
	rig_put(&rig, loss, 0, 0, 1);
	rig_put(&rig, loss, 1, 1, NAN);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	assert_non_null(strstr(rig.attr, "\"enabled\":false"));
}

/* A program that says that it is the year 2100 stops no clock. */
static void hostile_times(void **state)
{
	uint32_t clock = clock_series();
	uint32_t loss = rig_gauge(&rig, rig.trainer, "loss", "");
	double t = train(0, 0, 100, 1, clock);

	(void)state;
	rig_put(&rig, loss, 4e9, 1, 1);
	tick(t + 1, t + 50, clock, 0.5);
	t = train(t + 50, 100, 200, 1, clock);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	tick(t + 1, t + 120, clock, 0.5);
	assert_int_equal(rig_count(&rig, "stall", "firing"), 1);
}

/* More series than are looked at: recorded as ever. */
static void many_series(void **state)
{
	char labels[32];
	uint32_t id = 0;
	int i;

	(void)state;
	for (i = 0; i < 6000; i++) {
		snprintf(labels, sizeof(labels), "gpu=\"%d\"", i);
		id = rig_gauge(&rig, rig.host, "gpu/temperature", labels);
	}
	for (i = 0; i < 100; i++)
		rig_put(&rig, id, i, SINK_STEP_NONE, 99);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	assert_int_equal(rig.n_samples, 100);
}

/* A program's own series may be called like the machine's: they are no load of it. */
static void names_of_loads(void **state)
{
	static const char *const names[] = {"gpu/power", "tree/cpu"};
	uint32_t id;
	size_t k;
	int i;

	(void)state;
	for (k = 0; k < ARRAY_LEN(names); k++) {
		id = rig_gauge(&rig, rig.trainer, names[k], "");
		for (i = 0; i < 300; i++)
			rig_put(&rig, id, i, i, 1e9);
	}
	rig_commit(&rig);
	assert_int_equal(rig_count(&rig, NULL, "firing"), 0);
	assert_int_equal(rig.n_samples, 600);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nan_loss),
		TEST(nan_many),
		TEST(nan_healthy),
		TEST(nan_from_the_first),
		TEST(stall),
		TEST(stall_slow_steps),
		TEST(stall_warm_up),
		TEST(stall_evaluation),
		TEST(stall_working),
		TEST(stall_not_working),
		TEST(stall_soon),
		TEST(stall_end),
		TEST(stall_to_the_end),
		TEST(slow_steps),
		TEST(slow_healthy),
		TEST(gradients),
		TEST(surges),
		TEST(surges_left_alone),
		TEST(hot),
		TEST(idle),
		TEST(idle_healthy),
		TEST(memory_forecast),
		TEST(memory_healthy),
		TEST(memory_pressure),
		TEST(io_wait),
		TEST(disk),
		TEST(drops),
		TEST(outcomes),
		TEST(failing_commits),
		TEST(settings),
		TEST(hostile_times),
		TEST(many_series),
		TEST(names_of_loads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("alert watch", tests, NULL, NULL);
}
