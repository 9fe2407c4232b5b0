/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_ranks.c - ranks with planted clocks and a planted straggler: what was planted
 * is found, and nothing where nothing was.
 */
#include "viewrig.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyse/ranks.h"

#define RANKS 4
#define STEPS 6
#define STEP_US 10000
#define OFFSET_US 250 /* rank r's clock is r times that ahead */

static const struct view_options exact = {.rule = VIEW_EXACT};

/* What a job of RANKS ranks looks like. */
struct plan {
	int slow_rank; /* -1: none */
	long slow_us;  /* what it does longer, in a call of the host or in a kernel */
	bool in_kernel;
	long lag_us;       /* its host runs behind by that, without more to do */
	long missing_rank; /* lacks the last collective of step 3 */
	int steps;         /* 0: STEPS */
	long drift;        /* us a s that rank 1's clock gains */
};

static void put(struct buf *b, const char *cat, const char *name, long ts, long dur, int stream,
		long corr)
{
	buf_printf(b,
		   ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%ld,"
		   "\"dur\":%ld,\"args\":{",
		   cat, name, stream >= 0 ? 0 : 1, stream >= 0 ? stream : 1, ts, dur);
	if (stream >= 0)
		buf_printf(b, "\"stream\":%d,", stream);
	buf_printf(b, "\"correlation\":%ld,\"Process Group Name\":\"0\"}}", corr);
}

/* A step of a rank: operator 2 ms, kernel 3 ms, then an all-reduce that ends on all ranks
 * together, 100 us after the last one came. */
static void put_step(struct buf *b, const struct plan *p, int rank, int step)
{
	bool is_slow = rank == p->slow_rank;
	long gained = rank == 1 ? step * STEP_US * p->drift / 1000000 : 0;
	long base = 1000 + (long)step * STEP_US + rank * OFFSET_US + gained;
	long corr = step * 10;
	long lag = is_slow ? p->lag_us : 0;
	long host = is_slow && !p->in_kernel ? p->slow_us : 0;
	long kernel = is_slow && p->in_kernel ? p->slow_us : 0;
	long most = p->slow_rank >= 0 ? p->slow_us + p->lag_us : 0;
	long arrival = base + lag + 2500 + host + 3000 + kernel;
	long end = base + 2500 + 3000 + most + 100;
	char name[40];

	snprintf(name, sizeof(name), "ProfilerStep#%d", step + 1);
	put(b, "user_annotation", name, base, STEP_US - 100, -1, -1);
	put(b, "cpu_op", "aten::mm", base + 10, 2000, -1, -1);
	if (host)
		put(b, "user_annotation", "tokenise", base + 2020, host, -1, -1);
	put(b, "cuda_runtime", "cudaLaunchKernel", base + 2100 + host, 10, -1, corr + 1);
	put(b, "kernel", "gemm", base + lag + 2500 + host, 3000 + kernel, 7, corr + 1);
	put(b, "cuda_runtime", "cudaLaunchKernel", base + 2200 + host, 10, -1, corr + 2);
	if (rank != p->missing_rank || step != 3)
		put(b, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", arrival,
		    end - arrival, 20, corr + 2);
}

static int add_rank(struct ranks_set *s, const struct plan *p, int rank, bool tell, struct err *e)
{
	struct trace_options o = {0};
	struct trace *t;
	struct view *v;
	struct buf b;
	int r;

	buf_init(&b, 1 << 20);
	buf_puts(&b, "{");
	if (tell)
		buf_printf(&b,
			   "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,"
			   "\"world_size\":4},",
			   rank);
	buf_puts(&b, "\"traceEvents\":[{\"ph\":\"M\",\"name\":\"x\",\"pid\":0,\"tid\":0}");
	for (int step = 0; step < (p->steps ? p->steps : STEPS); step++)
		put_step(&b, p, rank, step);
	buf_puts(&b, "]}");
	assert_int_equal(trace_read_bytes(b.data, b.len, &o, &t, e), 0);
	assert_int_equal(view_new(&t, 1, &exact, &v), 0);
	r = ranks_add(s, v, e);
	view_free(v, 1);
	trace_free(t);
	buf_done(&b);
	return r;
}

static struct ranks_set *set_of(const struct plan *p, int first, int end)
{
	struct ranks_set *s;
	struct err e = {0};

	assert_int_equal(ranks_new(&s), 0);
	for (int i = first; i < end; i++)
		assert_int_equal(add_rank(s, p, i, true, &e), 0);
	return s;
}

static void even_ranks(void **state)
{
	struct plan p = {.slow_rank = -1, .missing_rank = -1};
	struct ranks_set *s = set_of(&p, 0, RANKS);
	struct ranks_result *r;

	(void)state;
	assert_int_equal(ranks_result_new(s, &r), 0);
	assert_int_equal(r->n, RANKS);
	assert_int_equal(r->instances, STEPS);
	assert_int_equal(r->unmatched, 0);
	assert_int_equal(r->n_late, 0);
	for (int i = 0; i < RANKS; i++) {
		const struct ranks_rank *k = &r->ranks[i];

		assert_true(fabs(k->clock.offset - i * OFFSET_US * 1000.0) < 1);
		assert_true(k->clock.residual < 1 && k->clock.drift == 0);
		assert_int_equal(k->clock.pairs, STEPS);
		assert_int_equal(k->mean.ns, (STEP_US - 100) * 1000);
		assert_int_equal(k->mean.compute, 3000 * 1000);
		assert_int_equal(k->mean.comm, 100 * 1000);
		assert_int_equal(k->mean.compute + k->mean.comm + k->mean.memory + k->mean.idle,
				 k->mean.ns);
		assert_int_equal(k->mean.wait, 0);
		assert_int_equal(k->last, 0);
	}
	assert_int_equal(r->n_kinds, 1);
	assert_string_equal(r->kinds[0].name, "AllReduce");
	assert_string_equal(r->kinds[0].group, "0");
	ranks_result_free(r);
	ranks_free(s);
}

/* 1 ms a second over 0.6 s: the offset is that of the middle, and nothing remains. */
static void drifting_clock(void **state)
{
	struct plan p = {.slow_rank = -1, .missing_rank = -1, .steps = 60, .drift = 1000};
	struct ranks_set *s = set_of(&p, 0, 2);
	struct ranks_result *r;
	const struct ranks_clock *c;

	(void)state;
	assert_int_equal(ranks_result_new(s, &r), 0);
	c = &r->ranks[1].clock;
	assert_int_equal(c->pairs, 60);
	assert_true(fabs(c->drift - 1e6) < 2e3); /* the slope is by its own, longer time */
	assert_true(fabs(c->offset - (OFFSET_US + 295) * 1000.0) < 2e3);
	assert_true(c->residual < 1e3 && c->residual_95 < 2e3);
	assert_int_equal(r->n_late, 0);
	ranks_result_free(r);
	ranks_free(s);
}

static void check_slow(bool in_kernel, enum ranks_why why)
{
	struct plan p = {
		.slow_rank = 2, .slow_us = 3000, .in_kernel = in_kernel, .missing_rank = -1};
	struct ranks_set *s = set_of(&p, 0, RANKS);
	struct ranks_result *r;
	const struct ranks_straggler *g;

	assert_int_equal(ranks_result_new(s, &r), 0);
	assert_int_equal(r->n_late, 1);
	assert_int_equal(r->n_stragglers, 1);
	g = &r->late[0];
	assert_int_equal(g->rank, 2);
	assert_false(g->is_lag);
	assert_int_equal(g->why, why);
	assert_int_equal(g->steps, STEPS);
	assert_true(fabs(g->late - 3e6) < 1 && fabs(g->cost - 3e6) < 1);
	if (!in_kernel)
		assert_string_equal(g->causes[0].name, "tokenise");
	assert_int_equal(r->ranks[2].last, STEPS);
	assert_int_equal(r->ranks[0].mean.wait, 3000 * 1000);
	assert_int_equal(r->ranks[2].mean.wait, 0);
	ranks_result_free(r);
	ranks_free(s);
}

static void slow_host(void **state)
{
	(void)state;
	check_slow(false, RANKS_HOST);
}

static void slow_device(void **state)
{
	(void)state;
	check_slow(true, RANKS_COMPUTE);
}

static void lag_is_no_straggler(void **state)
{
	struct plan p = {.slow_rank = 1, .lag_us = 2000, .missing_rank = -1};
	struct ranks_set *s = set_of(&p, 0, RANKS);
	struct ranks_result *r;

	(void)state;
	assert_int_equal(ranks_result_new(s, &r), 0);
	assert_int_equal(r->n_stragglers, 0);
	assert_int_equal(r->n_late, 1);
	assert_int_equal(r->late[0].rank, 1);
	assert_true(r->late[0].is_lag && fabs(r->late[0].late - 2e6) < 1);
	ranks_result_free(r);
	ranks_free(s);
}

static void counts_that_differ(void **state)
{
	struct plan p = {.slow_rank = -1, .missing_rank = 1};
	struct ranks_set *s = set_of(&p, 0, RANKS);
	struct ranks_result *r;

	(void)state;
	assert_int_equal(ranks_result_new(s, &r), 0);
	/* In step 4 three ranks have one, and the fourth none: they are matched without it. */
	assert_int_equal(r->instances, STEPS);
	assert_int_equal(r->ranks[1].matched, STEPS - 1);
	assert_int_equal(r->ranks[0].matched, STEPS);
	ranks_result_free(r);
	ranks_free(s);
}

static void merged(void **state)
{
	struct plan p = {.slow_rank = 2, .slow_us = 3000, .missing_rank = -1};
	struct ranks_set *a = set_of(&p, 2, RANKS), *b = set_of(&p, 0, 2), *again;
	struct ranks_result *r;
	struct err e = {0};
	struct buf one, two;

	(void)state;
	buf_init(&one, 1 << 20);
	buf_init(&two, 1 << 20);
	assert_int_equal(ranks_merge(a, b, &e), 0);
	ranks_free(b);
	ranks_put(a, &one);
	assert_int_equal(ranks_get(one.data, one.len, &again, &e), 0);
	ranks_put(again, &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	assert_int_equal(ranks_result_new(again, &r), 0);
	assert_int_equal(r->n, RANKS);
	assert_int_equal(r->late[0].rank, 2);
	assert_string_equal(r->late[0].causes[0].name, "tokenise");
	ranks_result_free(r);
	/* The same ranks again are refused, and every cut of the bytes is. */
	assert_int_equal(ranks_merge(a, again, &e), -EEXIST);
	for (size_t len = 0; len < one.len; len++) {
		struct ranks_set *cut = NULL;

		e = (struct err){0};
		assert_int_equal(ranks_get(one.data, len, &cut, &e), -EBADMSG);
		assert_non_null(strstr(e.text, "damaged"));
	}
	ranks_free(a);
	ranks_free(again);
	buf_done(&one);
	buf_done(&two);
}

static void untold_ranks(void **state)
{
	struct plan p = {.slow_rank = -1, .missing_rank = -1};
	struct ranks_result *r;
	struct ranks_set *s;
	struct err e = {0};

	(void)state;
	assert_int_equal(ranks_new(&s), 0);
	assert_int_equal(add_rank(s, &p, 0, true, &e), 0);
	assert_int_equal(add_rank(s, &p, 1, false, &e), 0);
	assert_int_equal(add_rank(s, &p, 0, true, &e), -EEXIST);
	assert_non_null(strstr(e.text, "two traces of rank 0"));
	assert_int_equal(ranks_result_new(s, &r), 0);
	assert_int_equal(r->n, 2);
	assert_true(r->ranks[1].is_guessed && r->ranks[1].rank == 1);
	ranks_result_free(r);
	ranks_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(even_ranks),
		cmocka_unit_test(drifting_clock),
		cmocka_unit_test(slow_host),
		cmocka_unit_test(slow_device),
		cmocka_unit_test(lag_is_no_straggler),
		cmocka_unit_test(counts_that_differ),
		cmocka_unit_test(merged),
		cmocka_unit_test(untold_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
