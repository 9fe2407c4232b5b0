/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_planted.c - real traces whose cause was planted when they were recorded: the
 * verdict must name it from the trace alone. Skipped where the traces are not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyse/coverage.h"
#include "analyse/score.h"
#include "analyse/verdict_trace.h"

static const char *folder(void)
{
	const char *f = getenv("LAPSE_TRACE_DATA");

	return f ? f : getenv("LAPSE_TRACE_DATA_DEFAULT");
}

struct job {
	struct trace *traces[8];
	struct view *views;
	size_t n;
	struct verdict_result *res;
};

/* name: folder/ranks. False: not there. */
static bool job_open(struct job *j, const char *name, size_t n)
{
	struct view_options vo = {.rule = VIEW_EXACT};

	memset(j, 0, sizeof(*j));
	for (size_t i = 0; i < n; i++) {
		struct trace_options o = {0};
		struct err e = {0};
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s/rank%zu.pt.trace.json.gz", folder(), name, i);
		if (access(path, R_OK))
			return false;
		if (trace_read(path, &o, &j->traces[i], &e))
			fail_msg("%s", e.text);
	}
	j->n = n;
	assert_int_equal(view_new(j->traces, n, &vo, &j->views), 0);
	assert_int_equal(verdict_new(j->views, n, &j->res), 0);
	return true;
}

static void job_close(struct job *j)
{
	verdict_free(j->res);
	view_free(j->views, j->n);
	for (size_t i = 0; i < j->n; i++)
		trace_free(j->traces[i]);
}

static void check_sums(const struct verdict_result *res)
{
	for (size_t i = 0; i < res->n; i++)
		for (size_t k = 0; k < res->ranks[i].n_steps; k++) {
			const struct verdict_step *s = &res->ranks[i].steps[k];
			int64_t sum = 0;

			for (int q = 0; q < VERDICT_KINDS; q++)
				sum += s->shares.ns[q];
			assert_int_equal(sum, s->end - s->ts);
		}
}

static bool has_top(const struct verdict_rank *r, enum verdict_kind kind, const char *word)
{
	struct buf b;
	bool has;

	buf_init(&b, 8192);
	verdict_top(r, kind, &b);
	has = strstr(buf_str(&b), word) != NULL;
	buf_done(&b);
	return has;
}

/* expected_ms: measured steps of the same loop without the profiler (medians of timing.json,
 * data_bound: the mean, since its steps alternate); 0: none. The estimate is of the host's
 * cost only and is held to a third. */
static const struct {
	const char *name;
	size_t ranks;
	enum verdict_kind kind, behind;
	const char *top; /* in the first evidence of kind */
	double expected_ms;
} planted[] = {
	{"h100/compute_bound", 1, VERDICT_COMPUTE, VERDICT_COMPUTE, "nvjet", 33.26},
	{"h100/data_bound", 1, VERDICT_DATA, VERDICT_DATA, "enumerate(DataLoader)", 122.0},
	{"h100/launch_bound", 1, VERDICT_LAUNCH, VERDICT_LAUNCH, "aten::", 23.33},
	{"h100/compiled", 1, VERDICT_LAUNCH, VERDICT_LAUNCH, "Compiled", 31.91},
	{"h100/with_stack", 1, VERDICT_PROFILER, VERDICT_LAUNCH, "recording", 12.69},
	{"h100/ddp", 2, VERDICT_LAUNCH, VERDICT_LAUNCH, NULL, 0},
	{"h100/ddp_straggler", 2, VERDICT_STRAGGLER, VERDICT_HOST, NULL, 0},
};

static void test_planted(void **state)
{
	size_t met = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(planted) / sizeof(*planted); i++) {
		const struct verdict_rank *r;
		struct job j;

		if (!folder() || !job_open(&j, planted[i].name, planted[i].ranks))
			continue;
		met++;
		check_sums(j.res);
		r = &j.res->ranks[j.res->gating];
		if (j.res->kind != planted[i].kind || j.res->behind != planted[i].behind)
			fail_msg("%s: %s, behind it %s", planted[i].name,
				 verdict_name(j.res->kind)->id, verdict_name(j.res->behind)->id);
		if (planted[i].top)
			assert_true(has_top(r, planted[i].kind, planted[i].top));
		if (planted[i].expected_ms > 0)
			assert_true((double)r->expected / 1e6 > planted[i].expected_ms * 2 / 3 &&
				    (double)r->expected / 1e6 < planted[i].expected_ms * 4 / 3);
		job_close(&j);
	}
	if (!met) {
		print_message("the real traces are not here: set LAPSE_TRACE_DATA\n");
		skip();
	}
}

static void test_straggler_named(void **state)
{
	struct job j;

	(void)state;
	if (!folder() || !job_open(&j, "h100/ddp_straggler", 2))
		skip();
	assert_int_equal(j.res->gating, 1);
	assert_true(j.res->over > VERDICT_OVER);
	assert_int_equal(j.res->excess, VERDICT_HOST);
	assert_true(has_top(&j.res->ranks[1], VERDICT_HOST, "slow_rank_work"));
	assert_true(j.res->ranks[0].facts.shares.ns[VERDICT_STRAGGLER] * 2 >
		    j.res->ranks[0].facts.shares.total);
	job_close(&j);
}

/* Neither steps nor operators, neither GPU nor steps: an answer, and what is missing. */
static void test_little(void **state)
{
	struct coverage *c;
	struct job j;

	(void)state;
	if (!folder() || !job_open(&j, "traces/cpu-dtu-mlops", 1))
		skip();
	assert_int_equal(j.res->kind, VERDICT_COMPUTE);
	assert_true(has_top(&j.res->ranks[0], VERDICT_COMPUTE, "aten::conv2d"));
	assert_int_equal(coverage_new(&j.views[0], &c), 0);
	assert_int_equal(c->items[COVERAGE_NO_GPU].grade, COVERAGE_NOTE);
	assert_int_equal(c->items[COVERAGE_NO_STEPS].grade, COVERAGE_NOTE);
	coverage_free(c);
	job_close(&j);
	if (!job_open(&j, "traces/tl-mi210-gpu-only", 1))
		skip();
	assert_int_equal(j.res->kind, VERDICT_COMPUTE);
	assert_int_equal(coverage_new(&j.views[0], &c), 0);
	assert_int_equal(c->items[COVERAGE_NO_OPS].grade, COVERAGE_NOTE);
	coverage_free(c);
	job_close(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_straggler_named),
		cmocka_unit_test(test_little),
	};

	return cmocka_run_group_tests_name("analyse-planted", tests, NULL, NULL);
}
