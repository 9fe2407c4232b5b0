/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated runs: all healthy shapes give no alert; each planted fault that a built-in check
 * is made for gives its alert, and which others may come with it.
 */
#include "alertrig.h"

#include "base/mem.h"
#include "simulate/simulate.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rules that fired, in the order of time, blanks between; of host 0. */
static void simulate_run(const struct simulate_options *o, char *out, size_t cap)
{
	struct rig *r = malloc(sizeof(*r));
	struct simulate_feed *f;
	struct simulate_size size;
	struct run_outcome *end = calloc(1, sizeof(*end));
	struct simulate *m;
	struct err e = {0};
	const struct rig_event *event;
	unsigned n = 0;
	int more;

	if (simulate_new(o, &e, &m) != 0)
		fail_msg("%s", e.text);
	simulate_size(m, &size);
	rig_init(r, NULL);
	assert_int_equal(simulate_feed_new(m, 0, r->to, &f), 0);
	do {
		more = simulate_feed_push(f, INT64_MAX - 1, 100000);
		assert_true(more >= 0);
		rig_commit(r);
	} while (more);
	simulate_feed_end(f, size.end_ns);
	*end = (struct run_outcome){.kind = size.oom ? RUN_OOM : RUN_EXITED,
				    .end_ns = o->start_ns + size.end_ns};
	watch_end(r->watch, end);
	out[0] = '\0';
	while ((event = rig_find(r, NULL, "firing", n++))) {
		if (!strstr(out, event->rule))
			snprintf(out + strlen(out), cap - strlen(out), "%s%s", out[0] ? " " : "",
				 event->rule);
	}
	simulate_feed_free(f);
	simulate_free(m);
	rig_done(r);
	free(end);
	free(r);
}

static const struct simulate_options usual = {.seed = 1,
					      .start_ns = RIG_T0,
					      .steps = 7200,
					      .period_ns = 1000000000,
					      .tick_ns = 1000000000,
					      .ranks = 1,
					      .hosts = 1,
					      .gpus = 2,
					      .cpus = 8};

static void healthy(void **state)
{
	static const struct {
		int64_t steps, period_ns, tick_ns;
		uint32_t ranks, gpus;
		bool resume;
	} shapes[] = {
		{7200, 1000000000, 1000000000, 1, 2, false},
		{7200, 1000000000, 1000000000, 4, 4, true},
		{100000, 10000000, 1000000000, 2, 2, false},
		{400, 30000000000, 1000000000, 1, 1, false},
		{400, 30000000000, 10000000000, 2, 1, false},
		{20, 1000000000, 1000000000, 1, 1, false},
		{50000, 100000000, 500000000, 1, 0, true},
	};
	struct simulate_options o;
	char fired[512];
	size_t i;
	uint64_t seed;

	(void)state;
	for (i = 0; i < ARRAY_LEN(shapes); i++)
		for (seed = 1; seed <= 5; seed++) {
			o = usual;
			o.seed = seed;
			o.steps = shapes[i].steps;
			o.period_ns = shapes[i].period_ns;
			o.tick_ns = shapes[i].tick_ns;
			o.ranks = shapes[i].ranks;
			o.gpus = shapes[i].gpus;
			o.resume = shapes[i].resume;
			simulate_run(&o, fired, sizeof(fired));
			if (fired[0])
				print_message("# shape %zu, seed %u\n", i, (unsigned)seed);
			assert_string_equal(fired, "");
		}
}

/* A resume inside one process after a silence of 13 steps is a silence. */
static void long_gap(void **state)
{
	struct simulate_options o = usual;
	char fired[512];

	(void)state;
	o.steps = 400;
	o.period_ns = 30000000000;
	o.tick_ns = 10000000000;
	o.resume = true;
	simulate_run(&o, fired, sizeof(fired));
	assert_string_equal(fired, "stall");
}

static void faults(void **state)
{
	static const struct {
		const char *fault, *fired;
	} rows[] = {
		{"nan", "nan"},
		{"nan:0.01", "nan"},
		{"loss-spike", "loss-spike"},
		{"loss-spike@30%:2", "loss-spike"},
		{"loss-spike@90%:1.2", ""},
		{"gradient-explosion", "gradient-explosion"},
		{"gradient-vanishing:1000", ""},
		{"lr-error", ""},
		{"stall:120", "stall"},
		{"stall:30", ""},
		{"slow-rank", ""},
		{"slow-data:20", "throughput-drop"},
		{"slow-data:2", ""},
		{"io-wait", "io-wait"},
		{"worker-death", ""},
		{"memory-leak", "oom-forecast memory-pressure crash"},
		{"disk-filling", "disk-filling"},
		{"idle-gpu", "gpu-idle"},
		{"hot-gpu", "gpu-hot"},
		{"throttling", "gpu-hot"},
		{"ecc", ""},
		{"xid", ""},
	};
	struct simulate_options o;
	char fired[512];
	struct err e = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		o = usual;
		o.ranks = 2;
		o.n_faults = 1;
		assert_int_equal(fault_parse(rows[i].fault, &o.faults[0], &e), 0);
		print_message("# %s\n", rows[i].fault);
		simulate_run(&o, fired, sizeof(fired));
		assert_string_equal(fired, rows[i].fired);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy),
		cmocka_unit_test(long_gap),
		cmocka_unit_test(faults),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("alert simulated", tests, NULL, NULL);
}
