/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of `lapse top` filled from a store that is being written: what comes bit by bit
 * must be what is there in the end, nothing twice and nothing left out. Values are worked out
 * by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/topread.h"
#include "store/folder.h"

#define S 1000000000LL
#define T0 (1795876269LL * S)

struct fixture {
	char root[64], dir[128];
	struct store *store;
	struct sink *sink;
	uint32_t step, loss, tokens, gpu, disk, trainer, host;
	struct topread read;
	struct topmodel m;
};

static uint32_t process(struct fixture *f, uint8_t uid, const char *role, int64_t pid, int64_t rank)
{
	const struct sink_process p = {.uid = {uid},
				       .pid = pid,
				       .role = role,
				       .program = "train",
				       .rank = rank,
				       .local_rank = rank,
				       .world_size = 1,
				       .start_ns = T0};
	uint32_t id = 0;

	assert_int_equal(f->sink->ops->process(f->sink, &p, &id), 0);
	return id;
}

static uint32_t series(struct fixture *f, uint32_t of, const char *name, const char *labels,
		       enum sink_kind kind)
{
	const struct sink_series s = {.process = of,
				      .name = name,
				      .labels = labels,
				      .unit = "1",
				      .help = "",
				      .kind = kind,
				      .source = "record"};
	uint32_t id = 0;

	assert_int_equal(f->sink->ops->series(f->sink, &s, &id), 0);
	return id;
}

static void sample(struct fixture *f, uint32_t id, int64_t time_ns, int64_t step, double value)
{
	const struct sink_sample v = {
		.time_ns = time_ns, .step = step, .value = value, .series = id, .thread = 7};

	assert_int_equal(f->sink->ops->samples(f->sink, &v, 1), 0);
}

static void event(struct fixture *f, const char *text)
{
	const struct sink_event e = {.process = f->trainer,
				     .time_ns = T0,
				     .step = 1,
				     .severity = 2,
				     .kind = "told",
				     .text = text,
				     .attrs = ""};

	assert_int_equal(f->sink->ops->event(f->sink, &e), 0);
}

/* Steps [from, to), one a second, and what goes with each. */
static void steps(struct fixture *f, int from, int to)
{
	int i;

	for (i = from; i < to; i++) {
		int64_t t = T0 + i * S;

		sample(f, f->loss, t, i, i);
		sample(f, f->tokens, t, i, 100);
		sample(f, f->gpu, t, SINK_STEP_NONE, i / 1000.0);
		sample(f, f->disk, t, SINK_STEP_NONE, 10 + i);
		sample(f, f->step, t, i, 0.5 * S);
	}
	assert_int_equal(f->sink->ops->commit(f->sink), 0);
}

static void next(struct fixture *f)
{
	struct err e = {0};

	assert_int_equal(topread_next(&f->read, &f->m, &e), 0);
	assert_int_equal(f->read.warning.code, 0);
	topmodel_tick(&f->m, T0 + 1000 * S);
}

static struct toptrace *trace(struct fixture *f, uint32_t id)
{
	struct toptrace *t = topmodel_trace(&f->m, topmodel_find(&f->m, 0, id));

	assert_non_null(t);
	topread_traces(&f->read, &f->m, 0);
	return t;
}

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct run_start run = {.id = "20261128-143109-test", .name = "test", .start_ns = T0};
	struct err e = {0};

	snprintf(f->root, sizeof(f->root), "/tmp/lapse-topread-XXXXXX");
	assert_non_null(mkdtemp(f->root));
	snprintf(f->dir, sizeof(f->dir), "%s/%s", f->root, run.id);
	assert_int_equal(store_open(&(struct store_options){.dir = f->dir,
							    .host = "node0",
							    .live = STORE_LIVE_IN_PLACE},
				    &e, &f->store),
			 0);
	assert_int_equal(store_start(f->store, &run, &e), 0);
	f->sink = store_sink(f->store);
	f->host = process(f, 1, "host", 0, -1);
	f->trainer = process(f, 2, "trainer", 1000, 0);
	f->step = series(f, f->trainer, "step", "", SINK_SPAN);
	f->loss = series(f, f->trainer, "loss", "", SINK_GAUGE);
	f->tokens = series(f, f->trainer, "lapse/step/tokens", "", SINK_COUNTER);
	f->gpu = series(f, f->host, "gpu/busy", "gpu=\"0\"", SINK_GAUGE);
	f->disk = series(f, f->host, "disk/read", "device=\"sda\"", SINK_COUNTER);
	topread_init(&f->read, f->dir);
	topmodel_init(&f->m);
	*state = f;
	return 0;
}

static int end(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};

	topread_done(&f->read);
	topmodel_done(&f->m);
	store_close(f->store, &e);
	assert_int_equal(folder_remove(f->dir, true, &e), 0);
	assert_int_equal(rmdir(f->root), 0);
	free(f);
	return 0;
}

/* What must hold when there are steps 0 to n - 1. */
static void look(struct fixture *f, int n)
{
	struct toptrace_axis all = {.by_step = true, .from = 0, .to = INT32_MAX};
	struct toptrace_total loss = toptrace_total(trace(f, f->loss), &all);
	const struct topmodel_item *gpu = topmodel_item(&f->m, TOP_GPU, 0),
				   *disk = topmodel_item(&f->m, TOP_DISK, 0);

	assert_int_equal(loss.n, n);
	assert_true(loss.min == 0 && loss.max == n - 1 && loss.last == n - 1);
	assert_int_equal(f->m.mark.steps, n);
	assert_true(f->m.mark.tokens == 100.0 * n);
	assert_int_equal(f->m.line.step, n - 1);
	assert_int_equal(f->m.mark.end_ns, T0 + (n - 1) * S + S / 2);
	assert_true(gpu->v[TOP_GPU_BUSY] == (n - 1) / 1000.0);
	assert_string_equal(gpu->name, "0");
	/* What was added last, in one second. */
	assert_true(fabs(disk->v[TOP_DISK_READ] - (10 + n - 1)) < 1e-9);
}

static void test_bit_by_bit(void **state)
{
	const struct run_outcome done = {.kind = RUN_EXITED, .code = 0, .end_ns = T0 + 200 * S};
	struct fixture *f = *state;
	struct stepsplit split;
	struct err e = {0};
	int n;

	event(f, "first");
	steps(f, 0, 50);
	next(f);
	look(f, 50);
	assert_int_equal(f->m.n_events, 1);
	for (n = 50; n < 80; n += 3) {
		steps(f, n, n + 3);
		if (n % 2)
			assert_true(store_fold(f->store, true, &e) >= 0);
		next(f);
		look(f, n + 3);
	}
	/* Nothing new. */
	next(f);
	look(f, 80);
	/* A new series, one more event, a total that the program says. */
	sample(f, series(f, f->trainer, "val/loss", "", SINK_GAUGE), T0, 7, 1.5);
	event(f, "second");
	assert_int_equal(f->sink->ops->attr(f->sink, f->trainer, "total_steps", "160"), 0);
	steps(f, 80, 81);
	next(f);
	look(f, 81);
	assert_int_equal(f->m.n_charts, 6);
	assert_int_equal(f->m.n_events, 2);
	assert_string_equal(topmodel_event(&f->m, 0)->text, "second");
	assert_string_equal(topmodel_event(&f->m, 0)->process, "trainer 0");
	assert_int_equal(f->m.line.total, 160);
	/* Of the last 60 s of steps all is the step's own. */
	assert_true(topmodel_split(&f->m, &split));
	assert_true(split.n >= 25 && split.n <= 61);
	assert_int_equal(split.sum, (int64_t)split.n * S / 2);
	stepsplit_done(&split);
	/* The end. */
	assert_true(f->m.run.is_running);
	steps(f, 81, 90);
	assert_int_equal(store_end(f->store, &done, &e), 0);
	next(f);
	look(f, 90);
	assert_false(f->m.run.is_running);
	assert_true(f->read.is_over);
	assert_string_equal(f->m.run.outcome, "exited 0");
}

/* More than is looked at one by one: the rest is in the totals all the same. */
static void test_too_much(void **state)
{
	struct fixture *f = *state;

	steps(f, 0, 10);
	next(f);
	look(f, 10);
	steps(f, 10, 120000); /* 600,000 values */
	next(f);
	look(f, 120000);
	steps(f, 120000, 120010);
	next(f);
	look(f, 120010);
	assert_true(trace(f, f->loss)->n <= TOPTRACE_MAX);
}

/* A rank that comes late changes the order: it is all read anew. */
static void test_rank_comes_late(void **state)
{
	struct fixture *f = *state;
	uint32_t other = process(f, 3, "trainer", 1001, -1), late;

	late = series(f, other, "loss", "", SINK_GAUGE);
	steps(f, 0, 5);
	sample(f, late, T0, 0, 42);
	steps(f, 5, 6);
	next(f);
	assert_int_equal(f->m.series[topmodel_find(&f->m, 0, late)].rank, -1);
	process(f, 3, "trainer", 1001, 1);
	steps(f, 6, 7);
	next(f);
	steps(f, 7, 8);
	next(f);
	assert_int_equal(f->m.series[topmodel_find(&f->m, 0, late)].rank, 1);
	look(f, 8);
}

/* Nothing is there (yet). */
static void test_no_run(void **state)
{
	struct topmodel m;
	struct topread r;
	struct err e = {0};

	(void)state;
	topread_init(&r, "/nonexistent/run");
	topmodel_init(&m);
	assert_true(topread_next(&r, &m, &e) < 0);
	assert_true(e.text[0] != '\0');
	topread_done(&r);
	topmodel_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bit_by_bit, begin, end),
		cmocka_unit_test_setup_teardown(test_too_much, begin, end),
		cmocka_unit_test_setup_teardown(test_rank_comes_late, begin, end),
		cmocka_unit_test(test_no_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
