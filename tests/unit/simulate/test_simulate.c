/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole simulated runs: values depend on nothing but seed, series and index; times
 * fit together; what is fed to a sink is what the pure functions say.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "simtest.h"
#include "simulate/plan.h"
#include "simulate/shape.h"

/* ---- arithmetic ------------------------------------------------------------------- */

static void test_cosine(void **state)
{
	int i;

	(void)state;
	assert_true(shape_cos_pi(0) == 1);
	assert_true(shape_cos_pi(1) == -1);
	for (i = 0; i <= 100000; i++) {
		double x = i / 100000.0;

		assert_true(fabsl(shape_cos_pi(x) - cosl(3.14159265358979323846264L * x)) <
			    0x1p-51L);
	}
}

static void test_rounding(void **state)
{
	(void)state;
	assert_true(shape_round(4096 * 3 + 2047, 4096) == 3 * 4096);
	assert_true(shape_round(4096 * 3 + 2048, 4096) == 4 * 4096);
	assert_true(shape_decimal(412.3454, 1000) == 412.345);
	assert_true(shape_decimal(0.286, 100) == 0.29);
	assert_true(shape_decimal(0, 100) == 0);
}

/* Mean 0, variance (n^2 - 1) / 12 of four numbers of 16 bits: 0.2887 after scaling. */
static void test_bell(void **state)
{
	double sum = 0, squares = 0;
	int i, n = 200000;

	(void)state;
	for (i = 0; i < n; i++) {
		double x = plan_bell(5, i);

		assert_true(x >= -1 && x <= 1);
		sum += x;
		squares += x * x;
	}
	assert_true(fabs(sum / n) < 6 * 0.2887 / sqrt(n));
	assert_true(fabs(sqrt(squares / n) - 0.28868) < 0.003);
}

/* ---- purity ------------------------------------------------------------------------- */

static void same_points(const struct simulate *a, const struct simulate *b, const char *name)
{
	struct simulate_series x = simtest_series(a, name, SIMTEST_ANY, SIMTEST_ANY);
	struct simulate_series y = simtest_series(b, name, SIMTEST_ANY, SIMTEST_ANY);
	uint64_t k, n = simulate_points(a, &x);
	struct simulate_point p, q;

	assert_int_equal(n, simulate_points(b, &y));
	/* Asked backwards in one of them: no state is carried along. */
	for (k = 0; k < n; k++) {
		simulate_point(a, &x, k, &p);
		simulate_point(b, &y, k, &q);
		assert_memory_equal(&p.value, &q.value, sizeof(double));
		assert_int_equal(p.time_ns, q.time_ns);
		simulate_point(a, &x, n - 1 - k, &p);
		assert_int_equal(simulate_value(a, &x, n - 1 - k) == p.value, 1);
	}
}

static void test_pure(void **state)
{
	struct simulate_options o = simtest_options();
	struct simulate *a = simtest_new(o, NULL), *b;
	size_t i;
	const char *const names[] = {"loss",     "grad_norm", "learning_rate",  "val/loss", "step",
				     "cpu/busy", "gpu/power", "gradients/head", "disk/read"};

	(void)state;
	o.gpus = 4; /* other series beside these change nothing */
	o.series = 300;
	b = simtest_new(o, NULL);
	for (i = 0; i < ARRAY_LEN(names); i++)
		same_points(a, b, names[i]);
	simulate_free(b);
	o.seed = 8;
	b = simtest_new(o, NULL);
	assert_true(simtest_value(a, "loss", 0, 5) != simtest_value(b, "loss", 0, 5));
	assert_true(simtest_value(a, "loss", 0, 5) != simtest_value(a, "loss", 1, 5));
	assert_true(simtest_value(a, "loss", 0, 5) != simtest_value(a, "loss", 0, 6));
	simulate_free(a);
	simulate_free(b);
}

/* ---- time ---------------------------------------------------------------------------- */

static void make_plan(struct plan *p, const char *const *faults, uint32_t ranks, bool resume)
{
	struct simulate_options o = simtest_options();
	struct err e = {0};

	o.ranks = ranks;
	o.resume = resume;
	for (; *faults; faults++)
		assert_int_equal(fault_parse(*faults, &o.faults[o.n_faults++], &e), 0);
	assert_int_equal(plan_init(p, &o, &e), 0);
}

static void check_phases(const struct plan *p)
{
	struct plan_common c;
	struct plan_phases f;
	uint32_t rank;
	int64_t i;
	int k;

	for (i = 0; i < p->total; i++) {
		plan_common(p, i, &c);
		assert_int_equal(c.begin_ns, plan_begin(p, i));
		assert_true(c.begin_ns + c.step_ns <= plan_begin(p, i + 1));
		for (rank = 0; rank < p->o.ranks; rank++) {
			plan_phases(p, &c, rank, &f);
			assert_int_equal(f.at_ns[0], c.begin_ns);
			assert_int_equal(f.at_ns[PLAN_PHASES], c.begin_ns + c.step_ns);
			for (k = 0; k < PLAN_PHASES; k++) {
				int64_t ns = f.at_ns[k + 1] - f.at_ns[k];

				assert_true(k == PLAN_SYNC && p->o.ranks == 1 ? ns == 0 : ns > 0);
			}
		}
	}
}

static void test_phases_add_up(void **state)
{
	static const char *const none[] = {NULL};
	static const char *const all[] = {
		"stall@100:3",        "slow-rank@200:3",   "throttling@250",
		"slow-data@30%",      "io-wait@350",       "worker-death@400",
		"throttling@260:0.1", "slow-rank@900:1.1", NULL};
	struct plan p;

	(void)state;
	make_plan(&p, none, 1, false);
	check_phases(&p);
	make_plan(&p, none, 5, true);
	check_phases(&p);
	make_plan(&p, all, 3, true);
	check_phases(&p);
}

/* The span series say the same as the plan: data + forward + backward + sync +
 * optimizer = step, to the nanosecond. */
static void test_spans_add_up(void **state)
{
	static const char *const names[] = {"data", "forward", "backward", "sync", "optimizer"};
	struct simulate *m = simtest_new(simtest_options(), NULL);
	uint32_t rank;
	uint64_t k;
	size_t i;

	(void)state;
	for (rank = 0; rank < 2; rank++)
		for (k = 0; k < 1000; k += 7) {
			double sum = 0;

			for (i = 0; i < ARRAY_LEN(names); i++)
				sum += simtest_value(m, names[i], rank, k);
			assert_true(sum == simtest_value(m, "step", rank, k));
			assert_true(sum >= 94e6 || k == 0);
			assert_true(sum <= 98e6 || k == 0);
		}
	simulate_free(m);
}

/* 1,000 steps: evaluation after every 50 takes 4 periods, a checkpoint after every
 * 100 takes 2, the first step 5 more. */
static void test_times_by_hand(void **state)
{
	static const char *const none[] = {NULL};
	struct plan p;

	(void)state;
	make_plan(&p, none, 2, false);
	assert_int_equal(p.eval_every, 50);
	assert_int_equal(p.checkpoint_every, 100);
	assert_int_equal(p.epoch_every, 200);
	assert_int_equal(p.histogram_every, 5);
	assert_int_equal(plan_begin(&p, 0), 0);
	assert_int_equal(plan_begin(&p, 1), 600 * SIMTEST_MS);
	assert_int_equal(plan_begin(&p, 49), 5400 * SIMTEST_MS);
	assert_int_equal(plan_begin(&p, 50), 5900 * SIMTEST_MS);
	assert_int_equal(plan_begin(&p, 100), (10000 + 500 + 2 * 400 + 200) * SIMTEST_MS);
	assert_int_equal(p.end_ns, (100000 + 500 + 20 * 400 + 10 * 200) * SIMTEST_MS);
	assert_int_equal(p.ticks, 111); /* 0 to 110 s; it ends after 110.5 s */
}

/* Breaks off after 650 of 1,000 steps, goes on at 600, 20 periods later. */
static void test_resume(void **state)
{
	static const char *const none[] = {NULL};
	struct plan p;
	int64_t i, k, every;
	const int64_t all[] = {1, 5, 50, 100, 200, 7};
	size_t n;

	(void)state;
	make_plan(&p, none, 2, true);
	assert_int_equal(p.split, 650);
	assert_int_equal(p.again, 600);
	assert_int_equal(p.total, 1050);
	assert_int_equal(plan_step(&p, 649), 649);
	assert_int_equal(plan_step(&p, 650), 600);
	assert_int_equal(plan_step(&p, 1049), 999);
	assert_int_equal(plan_begin(&p, 650) - plan_begin(&p, 649),
			 (100 + 400 + 20 * 100) * SIMTEST_MS);
	assert_int_equal(plan_begin(&p, 651) - plan_begin(&p, 650), 600 * SIMTEST_MS);
	assert_int_equal(plan_epoch_first(&p, 599), 400);
	assert_int_equal(plan_epoch_first(&p, 849), 650); /* began in the first attempt */
	for (n = 0; n < ARRAY_LEN(all); n++) {
		every = all[n];
		for (i = k = 0; i < p.total; i++) {
			assert_int_equal(plan_count(&p, every, i), k);
			if (plan_is_due(&p, every, i))
				assert_int_equal(plan_index(&p, every, k++), i);
		}
		assert_int_equal(plan_count(&p, every, p.total), k);
	}
}

/* ---- feeding --------------------------------------------------------------------------- */

static void check_fed(const struct simulate *m, const struct simtest_sink *s, uint32_t host,
		      uint64_t *points)
{
	struct simulate_size size;
	struct simulate_series d;
	struct simulate_point p;
	size_t i, at = 0, k;

	simulate_size(m, &size);
	for (i = 0; i < size.series; i++) {
		const struct simtest_kept *kept = &s->series[at];

		simulate_series(m, i, &d);
		if (d.host != host)
			continue;
		at++;
		assert_string_equal(kept->name, d.name);
		assert_string_equal(kept->labels, d.labels);
		assert_int_equal(kept->n, simulate_points(m, &d));
		for (k = 0; k < kept->n; k++) {
			simulate_point(m, &d, k, &p);
			if (kept->d.kind == SINK_HISTOGRAM)
				p.value = p.hist.sum;
			assert_int_equal(kept->samples[k].time_ns, p.time_ns);
			assert_int_equal(kept->samples[k].step, p.step);
			assert_int_equal(kept->samples[k].thread, p.thread);
			assert_memory_equal(&kept->samples[k].value, &p.value, sizeof(double));
		}
		*points += kept->n;
	}
	assert_int_equal(at, s->n_series);
}

static void feed_all(const struct simulate *m, uint32_t host, struct simtest_sink *s, uint64_t most)
{
	struct simulate_feed *f;
	struct simulate_size size;
	int more;

	simulate_size(m, &size);
	assert_int_equal(simulate_feed_new(m, host, &s->sink, &f), 0);
	while ((more = simulate_feed_push(f, INT64_MAX - 1, most)) == 1)
		;
	assert_int_equal(more, 0);
	assert_true(simulate_feed_is_done(f));
	assert_int_equal(simulate_feed_ns(f), size.end_ns);
	assert_int_equal(simulate_feed_end(f, size.end_ns), 0);
	simulate_feed_free(f);
}

static void test_feed_is_points(void **state)
{
	static const char *const faults[] = {"nan@10%:0.5", "worker-death@20%", "stall",
					     "xid",         "memory-leak:0.5",  NULL};
	struct simulate_options o = simtest_options();
	struct simtest_sink *s = xcalloc(1, sizeof(*s));
	struct simulate_size size;
	struct simulate *m;
	uint64_t points = 0, stored = 0;
	uint32_t host;

	(void)state;
	o.ranks = 5;
	o.hosts = 2;
	o.series = 350;
	o.resume = true;
	m = simtest_new(o, faults);
	simulate_size(m, &size);
	assert_int_equal(size.series, 350);
	for (host = 0; host < 2; host++) {
		simtest_sink_init(s);
		feed_all(m, host, s, host == 0 ? 100000 : 1);
		check_fed(m, s, host, &points);
		stored += s->stored;
		assert_int_equal(s->n_processes, host == 0 ? 2 + 3 + 2 : 2 + 2);
		while (s->n_processes--)
			assert_true(s->processes[s->n_processes].end_ns > SIMTEST_START);
		s->n_processes = 0;
		simtest_sink_done(s);
	}
	assert_int_equal(points, size.points);
	/* All but the machines' were records of a ring. 2 hosts, 19 + 4 + 2 * 12 + 4. */
	assert_int_equal(stored, points - 2 * 51 * (uint64_t)(size.end_ns / 1000000000 + 1));
	simulate_free(m);
	free(s);
}

/* Nothing comes before its time, everything by its time. */
static void test_feed_until(void **state)
{
	struct simulate *m = simtest_new(simtest_options(), NULL);
	struct simtest_sink *s = xcalloc(1, sizeof(*s));
	struct simulate_feed *f;
	uint32_t i;
	size_t ticks = 0, steps = 0;

	(void)state;
	simtest_sink_init(s);
	assert_int_equal(simulate_feed_new(m, 0, &s->sink, &f), 0);
	assert_int_equal(simulate_feed_points(f), 0);
	assert_int_equal(simulate_feed_push(f, 3050 * SIMTEST_MS, 1000000), 0);
	for (i = 0; i < s->n_series; i++) {
		const struct simtest_kept *k = &s->series[i];

		if (k->n)
			assert_true(k->samples[k->n - 1].time_ns <=
				    SIMTEST_START + 3050 * SIMTEST_MS);
		if (strcmp(k->name, "cpu/busy") == 0)
			ticks = k->n;
		if (strcmp(k->name, "loss") == 0)
			steps = k->n;
	}
	assert_int_equal(ticks, 4);  /* 0, 1, 2, 3 s */
	assert_int_equal(steps, 25); /* the pause behind step 24 ends at 3.0 s */
	assert_int_equal(simulate_feed_push(f, 3050 * SIMTEST_MS, 1000000), 0);
	assert_false(simulate_feed_is_done(f));
	simulate_feed_free(f);
	simtest_sink_done(s);
	free(s);
	simulate_free(m);
}

static int full_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	(void)s;
	(void)v;
	(void)n;
	return -ENOSPC;
}

static void test_feed_tells_errors(void **state)
{
	struct simulate *m = simtest_new(simtest_options(), NULL);
	struct simtest_sink *s = xcalloc(1, sizeof(*s));
	struct simulate_feed *f;
	struct sink_ops ops;

	(void)state;
	simtest_sink_init(s);
	ops = *s->sink.ops;
	ops.samples = full_samples;
	s->sink.ops = &ops;
	assert_int_equal(simulate_feed_new(m, 0, &s->sink, &f), 0);
	assert_int_equal(simulate_feed_push(f, INT64_MAX - 1, 1000), -ENOSPC);
	simulate_feed_free(f);
	simtest_sink_done(s);
	free(s);
	simulate_free(m);
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* Curve 1 + 8 / sqrt(1 + progress / 10): 9 at step 0; at 500 progress is 400 (100
 * steps of plateau): 2.2494; noise is at most 6 %. */
static void test_loss_by_hand(void **state)
{
	struct simulate *m = simtest_new(simtest_options(), NULL);
	double v;
	uint64_t k;

	(void)state;
	v = simtest_value(m, "loss", 0, 0);
	assert_true(v > 9 * 0.94 && v < 9 * 1.06);
	v = simtest_value(m, "loss", 0, 500);
	assert_true(v > 2.2494 * 0.94 && v < 2.2494 * 1.06);
	v = simtest_value(m, "val/loss", 0, 9); /* after step 499: 2.2509 * 1.03 + 0.05, 1 % */
	assert_true(v > 2.368 * 0.99 && v < 2.369 * 1.01);
	for (k = 0; k < 1000; k++) {
		v = simtest_value(m, "loss", 1, k);
		assert_true(v == (double)(float)v);
	}
	simulate_free(m);
}

/* Warm-up over 50 steps to 3e-4, then a cosine to a tenth of it. */
static void test_schedule_by_hand(void **state)
{
	struct simulate *m = simtest_new(simtest_options(), NULL);

	(void)state;
	assert_true(fabs(simtest_value(m, "learning_rate", 0, 0) - 6e-6) < 1e-18);
	assert_true(fabs(simtest_value(m, "learning_rate", 0, 24) - 1.5e-4) < 1e-17);
	assert_true(fabs(simtest_value(m, "learning_rate", 0, 49) - 3e-4) < 1e-17);
	assert_true(fabs(simtest_value(m, "learning_rate", 0, 50) - 3e-4) < 1e-17);
	assert_true(fabs(simtest_value(m, "learning_rate", 0, 525) - 1.65e-4) < 1e-17);
	assert_true(simtest_value(m, "learning_rate", 0, 999) < 3.001e-5);
	assert_true(simtest_value(m, "learning_rate", 0, 999) > 3e-5);
	simulate_free(m);
}

static void test_machine_adds_up(void **state)
{
	struct simulate *m = simtest_new(simtest_options(), NULL);
	struct simulate_series s;
	double sum, watts;
	uint64_t k;
	uint32_t i;

	(void)state;
	for (k = 0; k < 111; k++) {
		for (sum = i = 0; i < 4; i++) {
			s = simtest_series(m, "cpu/core/busy", SIMTEST_ANY, i);
			sum += simulate_value(m, &s, k);
		}
		assert_true(simtest_value(m, "cpu/busy", SIMTEST_ANY, k) == sum / 4);
		assert_true(simtest_value(m, "memory/used", SIMTEST_ANY, k) +
				    simtest_value(m, "memory/available", SIMTEST_ANY, k) ==
			    simtest_value(m, "memory/total", SIMTEST_ANY, k));
		watts = simtest_gpu(m, "gpu/power", 1, k);
		assert_true(watts == rint(watts * 1000) / 1000);
		assert_true(fabs(simtest_gpu(m, "gpu/energy", 1, k) - watts) < 1e-9);
	}
	simulate_free(m);
}

/* ---- options -------------------------------------------------------------------------------- */

static void refused(struct simulate_options o, const char *why)
{
	struct simulate *m;
	struct err e = {0};

	assert_true(simulate_new(&o, &e, &m) < 0);
	if (!strstr(e.text, why))
		fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

static void test_options(void **state)
{
	struct simulate_options o = simtest_options();

	(void)state;
	o.steps = 0;
	refused(o, "steps must be 1");
	o = simtest_options();
	o.period_ns = 999;
	refused(o, "the rate must be 0.01 to 1000000");
	o = simtest_options();
	o.hosts = 3;
	refused(o, "more hosts (3) than ranks (2)");
	o = simtest_options();
	o.steps = SIMULATE_STEPS_MAX;
	refused(o, "more than 99 years");
	/* A slow step takes 1 + 0.72 * 999 periods of 100 s: 3.15e18 ns are 43733 of them. */
	o = simtest_options();
	o.period_ns = SIMULATE_PERIOD_MAX_NS;
	o.n_faults = 1;
	assert_int_equal(fault_parse("slow-rank@0:1000", &o.faults[0], NULL), 0);
	o.steps = 44000;
	refused(o, "more than 99 years");
	o.steps = 43000;
	simulate_free(simtest_new(o, NULL));
	o = simtest_options();
	o.series = SIMULATE_SERIES_MAX + 1;
	refused(o, "at most 1000000 series");
	o = simtest_options();
	o.ranks = 1;
	o.n_faults = 1;
	assert_int_equal(fault_parse("slow-rank", &o.faults[0], NULL), 0);
	refused(o, "2 ranks or more");
	o = simtest_options();
	o.gpus = 0;
	o.n_faults = 1;
	assert_int_equal(fault_parse("hot-gpu", &o.faults[0], NULL), 0);
	refused(o, "must be a GPU");
	o = simtest_options();
	o.n_faults = 1;
	assert_int_equal(fault_parse("nan@1000", &o.faults[0], NULL), 0);
	refused(o, "after the last");
}

/* A fault takes as long as it says, however strong: most take no time. */
static void test_length(void **state)
{
	static const char *const faults[] = {"gradient-vanishing@0:1e12",
					     "gradient-explosion@0+100%:1e12",
					     "loss-spike@0+100%:1e6",
					     "memory-leak@0:1000",
					     "lr-error@0:1e6",
					     "ecc:1e6"};
	struct simulate_options o = simtest_options();
	struct simulate_size healthy, sick;
	struct simulate *m;
	size_t i;

	(void)state;
	o.steps = 7200;
	o.period_ns = 1000 * SIMTEST_MS;
	m = simtest_new(o, NULL);
	simulate_size(m, &healthy);
	simulate_free(m);
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		m = simtest_new(o, (const char *const[]){faults[i], NULL});
		simulate_size(m, &sick);
		assert_true(sick.oom ? sick.end_ns < healthy.end_ns
				     : sick.end_ns == healthy.end_ns);
		simulate_free(m);
	}
}

/* The smallest and the fastest. */
static void test_extremes(void **state)
{
	struct simulate_options o = simtest_options();
	struct simulate *m;
	struct simulate_size size;
	uint64_t k;

	(void)state;
	o.steps = 1;
	o.ranks = 1;
	o.resume = true;
	m = simtest_new(o, NULL);
	simulate_size(m, &size);
	assert_int_equal(size.steps, 2); /* the only step is done twice */
	simulate_free(m);
	o = simtest_options();
	o.period_ns = SIMULATE_PERIOD_MIN_NS;
	m = simtest_new(o, NULL);
	for (k = 0; k < 1000; k++)
		assert_true(simtest_value(m, "step", 1, k) >= 940);
	simulate_free(m);
	o.period_ns = SIMULATE_PERIOD_MAX_NS;
	o.steps = 10000000; /* 32 years of 100 s */
	m = simtest_new(o, NULL);
	assert_true(simtest_value(m, "step", 1, 9999999) >= 94e9);
	simulate_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cosine),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_bell),
		cmocka_unit_test(test_pure),
		cmocka_unit_test(test_phases_add_up),
		cmocka_unit_test(test_spans_add_up),
		cmocka_unit_test(test_times_by_hand),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_feed_is_points),
		cmocka_unit_test(test_feed_until),
		cmocka_unit_test(test_feed_tells_errors),
		cmocka_unit_test(test_loss_by_hand),
		cmocka_unit_test(test_schedule_by_hand),
		cmocka_unit_test(test_machine_adds_up),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
