/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults: how they are written, and that each shows the signature that its row in
 * fault.c promises, against the same run without it. Bounds are worked out by hand
 * from a period of 100 ms: data is 10 ms of it, forward and backward 72 ms.
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

#define MS 1e6 /* ns */
#define GIB 1073741824.0

/* The run without a fault and with it. */
static struct simulate *clean, *faulty;

static int setup(void **state)
{
	(void)state;
	clean = simtest_new(simtest_options(), NULL);
	faulty = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	simulate_free(clean);
	simulate_free(faulty);
	clean = faulty = NULL;
	return 0;
}

static void plant(const char *fault)
{
	const char *const faults[] = {fault, NULL};

	simulate_free(faulty);
	faulty = simtest_new(simtest_options(), faults);
}

static double before(const char *name, uint32_t rank, uint64_t k)
{
	return simtest_value(clean, name, rank, k);
}

static double after(const char *name, uint32_t rank, uint64_t k)
{
	return simtest_value(faulty, name, rank, k);
}

static void near_to(double v, double want, double relative)
{
	if (!(fabs(v - want) <= relative * fabs(want)))
		fail_msg("%.17g is not within %g of %.17g", v, relative, want);
}

/* The first reading of the machine at or after a step's begin. */
static uint64_t tick_at(const struct simulate *m, uint64_t step)
{
	struct simulate_series s = simtest_series(m, "step", 0, SIMTEST_ANY);
	struct simulate_point p;

	simulate_point(m, &s, step, &p);
	return (uint64_t)((p.time_ns - SIMTEST_START + 999999999) / 1000000000);
}

/* ---- how they are written ------------------------------------------------------------ */

static void test_parse(void **state)
{
	struct fault_spec f;
	struct fault placed;
	struct err e = {0};

	(void)state;
	assert_int_equal(fault_parse("nan", &f, &e), 0);
	assert_true(f.kind == FAULT_NAN && f.when == 50 && f.when_is_share && !f.has_length);
	assert_true(f.strength == 1);
	assert_int_equal(fault_place(&f, 1000, &placed, &e), 0);
	assert_true(placed.begin == 500 && placed.end == 1000);
	assert_int_equal(fault_parse("loss-spike@300+20:4.5", &f, &e), 0);
	assert_true(f.when == 300 && !f.when_is_share && f.length == 20 && f.strength == 4.5);
	assert_int_equal(fault_place(&f, 1000, &placed, &e), 0);
	assert_true(placed.begin == 300 && placed.end == 320);
	assert_int_equal(fault_place(&f, 310, &placed, &e), 0);
	assert_true(placed.begin == 300 && placed.end == 310);
	assert_int_equal(fault_place(&f, 300, &placed, &e), -ERANGE);
	assert_int_equal(fault_parse("io-wait@29%+0.5%", &f, &e), 0);
	assert_int_equal(fault_place(&f, 100, &placed, &e), 0);
	assert_true(placed.begin == 29 && placed.end == 30); /* a step at least */
	assert_int_equal(fault_parse("stall@10+500", &f, &e), 0);
	assert_int_equal(fault_place(&f, 1000, &placed, &e), 0);
	assert_true(placed.begin == 10 && placed.end == 11); /* always one step */
}

static void wrong(const char *text, const char *why)
{
	struct fault_spec f;
	struct err e = {0};

	assert_int_equal(fault_parse(text, &f, &e), -EINVAL);
	if (!strstr(e.text, why))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, e.text, why);
}

static void test_parse_errors(void **state)
{
	(void)state;
	wrong("", "is no fault");
	wrong("slow-rang", "did you mean slow-rank?");
	wrong("zzz", "--list-faults lists them");
	wrong("nan@", "is no beginning");
	wrong("nan@-3", "is no beginning");
	wrong("nan@101%", "is no beginning");
	wrong("nan@1.5", "is no beginning");
	wrong("nan@3+x", "is no length");
	wrong("nan:lots", "is no strength");
	wrong("nan:2", "out of range: 0 to 1");
	wrong("hot-gpu:60", "out of range: 81 to 150");
}

static void test_rows(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < FAULT_KINDS; i++) {
		const struct fault_row *r = &fault_rows[i];

		assert_true(r->name && r->signature && r->strength && r->series);
		assert_true(r->lo <= r->usual && r->usual <= r->hi);
		assert_in_range(r->permille, 0, 1000);
	}
}

/* ---- training --------------------------------------------------------------------------- */

static void test_nan(void **state)
{
	uint64_t k, n = 0;

	(void)state;
	plant("nan@400+100");
	for (k = 0; k < 1000; k++) {
		bool in = k >= 400 && k < 500;

		assert_int_equal(isnan(after("loss", k % 2, k)), in);
		assert_int_equal(isnan(after("grad_norm", k % 2, k)), in);
		if (!in)
			assert_true(after("loss", 0, k) == before("loss", 0, k));
	}
	plant("nan@500:0.5");
	for (k = 500; k < 1000; k++)
		n += isnan(after("loss", 0, k)) ? 1 : 0;
	assert_in_range(n, 250 - 67, 250 + 67); /* six standard deviations of 11.2 */
	assert_true(isnan(after("loss", 0, 500)));
}

static void test_loss_spike(void **state)
{
	(void)state;
	plant("loss-spike@300+20");
	assert_true(after("loss", 0, 299) == before("loss", 0, 299));
	near_to(after("loss", 0, 300), 10 * before("loss", 0, 300), 1e-6);
	near_to(after("loss", 1, 310), 5.5 * before("loss", 1, 310), 1e-6);
	near_to(after("loss", 0, 319), 1.45 * before("loss", 0, 319), 1e-6);
	assert_true(after("loss", 0, 320) == before("loss", 0, 320));
	assert_true(after("grad_norm", 0, 300) == before("grad_norm", 0, 300));
}

static void test_gradient_explosion(void **state)
{
	(void)state;
	plant("gradient-explosion@500+50");
	assert_true(after("grad_norm", 0, 499) == before("grad_norm", 0, 499));
	near_to(after("grad_norm", 0, 524), 63.4375 * before("grad_norm", 0, 524), 1e-6);
	near_to(after("grad_norm", 0, 549), 1000 * before("grad_norm", 0, 549), 1e-6);
	assert_true(after("grad_norm", 0, 550) == before("grad_norm", 0, 550));
	/* Histograms: every 5 steps; number 109 is after step 549. */
	near_to(after("gradients/head", 0, 109), 1000 * before("gradients/head", 0, 109), 1e-4);
}

static void test_gradient_vanishing(void **state)
{
	(void)state;
	plant("gradient-vanishing@600");
	near_to(after("grad_norm", 1, 799), before("grad_norm", 1, 799) / (1 + 999999.0 / 16),
		1e-6);
	near_to(after("grad_norm", 1, 999), before("grad_norm", 1, 999) / 1e6, 1e-6);
	assert_true(after("loss", 0, 999) == before("loss", 0, 999));
}

static void test_lr_error(void **state)
{
	(void)state;
	plant("lr-error@200+10");
	assert_true(after("learning_rate", 0, 199) == before("learning_rate", 0, 199));
	assert_true(after("learning_rate", 0, 200) == 10 * before("learning_rate", 0, 200));
	assert_true(after("learning_rate", 0, 209) == 10 * before("learning_rate", 0, 209));
	assert_true(after("learning_rate", 0, 210) == before("learning_rate", 0, 210));
}

/* ---- time ---------------------------------------------------------------------------------- */

static void test_stall(void **state)
{
	struct simulate_series s;
	struct simulate_point p, q;
	uint64_t k = tick_at(clean, 500);
	int i;

	(void)state;
	plant("stall@500");
	assert_true(after("step", 0, 499) == before("step", 0, 499));
	assert_true(after("step", 1, 500) == before("step", 1, 500) + 30e9);
	assert_true(after("backward", 1, 500) == before("backward", 1, 500) + 30e9);
	assert_true(after("data", 1, 500) == before("data", 1, 500));
	s = simtest_series(faulty, "step", 0, SIMTEST_ANY);
	simulate_point(clean, &s, 501, &p);
	simulate_point(faulty, &s, 501, &q);
	assert_int_equal(q.time_ns - p.time_ns, 30000000000);
	for (i = 1; i < 29; i++) {
		assert_true(simtest_gpu(faulty, "gpu/busy", 0, k + (uint64_t)i) == 0);
		assert_true(simtest_gpu(faulty, "gpu/busy", 1, k + (uint64_t)i) == 0);
		assert_true(after("tree/cpu", SIMTEST_ANY, k + (uint64_t)i) == 0);
	}
	assert_true(simtest_gpu(faulty, "gpu/busy", 0, k + 40) > 0.8);
	assert_true(simtest_gpu(faulty, "gpu/busy", 0, k - 5) > 0.8);
}

/* Half as long again: 0.5 * 72 ms = 36 ms. */
static void test_slow_rank(void **state)
{
	uint64_t k;

	(void)state;
	plant("slow-rank@300");
	for (k = 300; k < 1000; k += 50) {
		near_to(after("forward", 1, k) + after("backward", 1, k) - before("forward", 1, k) -
				before("backward", 1, k),
			36 * MS, 1e-9);
		assert_true(after("sync", 1, k) == before("sync", 1, k));
		assert_true(after("forward", 0, k) == before("forward", 0, k));
		near_to(after("sync", 0, k) - before("sync", 0, k), 36 * MS, 1e-9);
		near_to(after("step", 0, k) - before("step", 0, k), 36 * MS, 1e-9);
	}
	assert_true(after("step", 1, 299) == before("step", 1, 299));
}

/* Five times 10 ms: 40 ms more; of 136 ms GPUs then work 63 %. */
static void test_slow_data(void **state)
{
	uint64_t k;

	(void)state;
	plant("slow-data@300+400");
	near_to(after("data", 0, 300) - before("data", 0, 300), 40 * MS, 1e-9);
	near_to(after("data", 1, 699) - before("data", 1, 699), 40 * MS, 1e-9);
	assert_true(after("data", 1, 700) == before("data", 1, 700));
	k = tick_at(faulty, 310);
	assert_true(simtest_gpu(faulty, "gpu/busy", 0, k) < 0.72);
	assert_true(simtest_gpu(clean, "gpu/busy", 0, k) > 0.8);
}

static void test_io_wait(void **state)
{
	uint64_t k, end;

	(void)state;
	plant("io-wait@300+100");
	near_to(after("data", 0, 300) - before("data", 0, 300), 10 * MS, 1e-9);
	end = tick_at(faulty, 400);
	for (k = tick_at(faulty, 300); k < end; k++) {
		assert_true(after("cpu/iowait", SIMTEST_ANY, k) == 0.3);
		assert_true(after("pressure/io", SIMTEST_ANY, k) == 0.3);
		assert_true(after("cpu/busy", SIMTEST_ANY, k) <= 0.7);
		assert_true(after("disk/busy", SIMTEST_ANY, k) >= 0.94);
	}
	assert_true(before("cpu/iowait", SIMTEST_ANY, k) <= 0.02);
	assert_true(after("cpu/iowait", SIMTEST_ANY, end) <= 0.02);
}

static void test_worker_death(void **state)
{
	uint64_t k;

	(void)state;
	plant("worker-death@300");
	near_to(after("data", 0, 999) - before("data", 0, 999), 10 * MS, 1e-9);
	k = tick_at(faulty, 300);
	assert_true(after("tree/processes", SIMTEST_ANY, k - 1) == 5); /* command, 2, 2 workers */
	assert_true(after("tree/processes", SIMTEST_ANY, k) == 4);
	assert_true(after("tree/processes", SIMTEST_ANY, k + 60) == 4);
}

/* ---- memory and disk --------------------------------------------------------------------------
 */

static void test_memory_leak(void **state)
{
	struct simulate_size size, plain;
	int64_t middle;
	uint64_t k;

	(void)state;
	simulate_size(clean, &plain);
	assert_int_equal(plain.oom, 0);
	/* Half of the 56 GiB between 40 and the limit of 96, from the beginning on. */
	plant("memory-leak@0:0.5");
	simulate_size(faulty, &size);
	assert_int_equal(size.oom, 0);
	assert_int_equal(size.end_ns, plain.end_ns);
	for (k = 0; k <= 110; k += 10) {
		double leaked = 28 * GIB * (double)k / 110.5;

		near_to(after("memory/used", SIMTEST_ANY, k), 40 * GIB + leaked, 1e-6);
		near_to(after("tree/rss", SIMTEST_ANY, k), 24 * GIB + leaked, 1e-6);
	}
	/* Twice as fast as to reach the limit at the end: half way it is over. */
	plant("memory-leak@0:2");
	simulate_size(faulty, &size);
	middle = plain.end_ns / 2;
	assert_int_equal(size.oom, 1);
	assert_int_equal(size.end_ns, middle);
	assert_true(size.steps > 480 && size.steps < 505); /* of 1,000 */
	near_to(after("memory/used", SIMTEST_ANY, 55), 40 * GIB + 56 * GIB * 55 / 55.25, 1e-6);
	assert_true(after("pressure/memory", SIMTEST_ANY, 55) > 0.3);
	assert_true(before("pressure/memory", SIMTEST_ANY, 55) == 0);
}

/* From 42 % to 90 %, and it stays. */
static void test_disk_filling(void **state)
{
	const double tib = 1024 * GIB;

	(void)state;
	plant("disk-filling@0+500:0.9");
	near_to(after("filesystem/used", SIMTEST_ANY, 0), 0.84 * tib, 1e-6);
	near_to(after("filesystem/used", SIMTEST_ANY, 110), 1.8 * tib, 1e-6);
	/* 500 steps take 50 + 0.5 + 4 + 1 s = 55.5 s; after 30 s 30/55.5 of 0.96 TiB. */
	near_to(after("filesystem/used", SIMTEST_ANY, 30), (0.84 + 0.96 * 30 / 55.5) * tib, 1e-6);
}

/* ---- GPUs ---------------------------------------------------------------------------------------
 */

static void test_idle_gpu(void **state)
{
	uint64_t k = tick_at(clean, 600);

	(void)state;
	plant("idle-gpu");
	assert_true(simtest_gpu(faulty, "gpu/busy", 0, k) == 0.05);
	/* At most (110 + 480 * 0.05) * 1.03 + 80 W. */
	assert_true(simtest_gpu(faulty, "gpu/power", 0, k) < 218.1);
	assert_true(simtest_gpu(clean, "gpu/power", 0, k) > 480);
	assert_true(simtest_gpu(faulty, "gpu/busy", 1, k) == simtest_gpu(clean, "gpu/busy", 1, k));
	assert_true(simtest_gpu(faulty, "gpu/busy", 0, 10) ==
		    simtest_gpu(clean, "gpu/busy", 0, 10));
	assert_true(after("step", 0, 600) == before("step", 0, 600));
}

static void test_hot_gpu(void **state)
{
	uint64_t k = tick_at(clean, 600);

	(void)state;
	plant("hot-gpu@500+200");
	assert_true(simtest_gpu(faulty, "gpu/temperature", 0, k) == 92);
	assert_true(simtest_gpu(faulty, "gpu/temperature", 1, k) < 70);
	assert_true(simtest_gpu(clean, "gpu/temperature", 0, k) < 70);
	assert_true(simtest_gpu(faulty, "gpu/temperature", 0, tick_at(clean, 700)) < 70);
	assert_true(simtest_gpu(faulty, "gpu/throttled", 0, k) == 0);
}

/* Half the clock: 72 ms more in rank 0; rank 1 waits. */
static void test_throttling(void **state)
{
	uint64_t k;

	(void)state;
	plant("throttling@500+200");
	near_to(after("forward", 0, 600) + after("backward", 0, 600) - before("forward", 0, 600) -
			before("backward", 0, 600),
		72 * MS, 1e-9);
	near_to(after("sync", 1, 600) - before("sync", 1, 600), 72 * MS, 1e-9);
	k = tick_at(faulty, 600);
	assert_true(simtest_gpu(faulty, "gpu/clock/sm", 0, k) <= 0.99e9);
	assert_true(simtest_gpu(faulty, "gpu/clock/sm", 0, k) >= 0.99e9 - 45e6);
	assert_true(simtest_gpu(clean, "gpu/clock/sm", 0, k) >= 1.98e9 - 45e6);
	assert_true(simtest_gpu(faulty, "gpu/throttled", 0, k) == 1);
	assert_true(simtest_gpu(faulty, "gpu/throttled", 1, k) == 0);
	assert_true(simtest_gpu(faulty, "gpu/temperature", 0, k) == 90);
}

/* Sum of a counter of a GPU over all readings. */
static double total(const char *name, uint32_t gpu)
{
	struct simulate_series s = simtest_series(faulty, name, SIMTEST_ANY, gpu);
	uint64_t k, n = simulate_points(faulty, &s);
	double sum = 0;

	for (k = 0; k < n; k++)
		sum += simulate_value(faulty, &s, k);
	return sum;
}

static void test_ecc_and_xid(void **state)
{
	(void)state;
	plant("ecc@300:3");
	assert_true(total("gpu/ecc/uncorrected", 0) == 3);
	assert_true(total("gpu/ecc/corrected", 0) == 30);
	assert_true(total("gpu/ecc/corrected", 1) == 0);
	assert_true(simtest_gpu(faulty, "gpu/ecc/uncorrected", 0, tick_at(faulty, 300)) == 3);
	plant("xid@0");
	assert_true(total("gpu/xid", 0) == 1);
	assert_true(total("gpu/xid", 1) == 0);
}

/* ---- the truth
 * ------------------------------------------------------------------------------------ */

static struct simtest_sink *fed;

static void feed(void)
{
	struct simulate_feed *f;

	fed = xcalloc(1, sizeof(*fed));
	simtest_sink_init(fed);
	assert_int_equal(simulate_feed_new(faulty, 0, &fed->sink, &f), 0);
	while (simulate_feed_push(f, INT64_MAX - 1, 1000000) == 1)
		;
	simulate_feed_free(f);
}

static void unfeed(void)
{
	simtest_sink_done(fed);
	free(fed);
}

static void test_truth(void **state)
{
	int at;

	(void)state;
	plant("slow-rank@300+50:2");
	feed();
	at = simtest_event(fed, "simulate", 1); /* the first says that the run is made up */
	assert_true(at > 0);
	assert_int_equal(fed->events[at].severity, 0);
	assert_int_equal(fed->events[at].step, 300);
	/* 300 steps of 100 ms, the first 0.5 s longer, 6 evaluations, 3 checkpoints. */
	assert_int_equal(fed->events[at].time_ns, SIMTEST_START + 33500 * SIMTEST_MS);
	/* 50 steps of 172 ms and an evaluation later. */
	assert_string_equal(fed->events[at].attrs,
			    "{\"fault\":\"slow-rank\",\"strength\":2,\"first_step\":300,"
			    "\"last_step\":349,\"first_index\":300,\"end_index\":350,"
			    "\"start_ns\":1767323078500000000,\"end_ns\":1767323087500000000,"
			    "\"series\":\"step,forward,backward,sync\",\"rank\":1}");
	assert_int_equal(simtest_event(fed, "simulate", (size_t)at + 1), -1);
	unfeed();
}

static void test_news(void **state)
{
	const char *const faults[] = {"xid@100:48", "ecc@200:2", "worker-death@300", NULL};
	int at;

	(void)state;
	faulty = simtest_new(simtest_options(), faults);
	feed();
	at = simtest_event(fed, "xid", 0);
	assert_true(at >= 0);
	assert_string_equal(fed->events[at].text, "Xid 48 on GPU 0");
	assert_int_equal(fed->events[at].severity, 3);
	at = simtest_event(fed, "ecc", 0);
	assert_true(at >= 0);
	assert_string_equal(fed->events[at].text, "2 uncorrected memory errors on GPU 0");
	at = simtest_event(fed, "worker", 0);
	assert_true(at >= 0);
	assert_int_equal(fed->processes[fed->events[at].process - 1].end_ns,
			 fed->events[at].time_ns);
	unfeed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_rows),
		cmocka_unit_test_setup_teardown(test_nan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loss_spike, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gradient_explosion, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gradient_vanishing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lr_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stall, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_rank, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_data, setup, teardown),
		cmocka_unit_test_setup_teardown(test_io_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worker_death, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_leak, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_filling, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle_gpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hot_gpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_throttling, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ecc_and_xid, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
