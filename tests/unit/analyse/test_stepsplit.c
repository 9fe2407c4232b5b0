/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stepsplit.c - the cut of steps into parts, by hand, and what they are bound by.
 */
#include "analyse/stepbound.h"
#include "analyse/stepsplit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000

static const char *const names[] = {"data", "forward", "attention", "backward", "loop", "sync"};
enum {
	DATA,
	FORWARD,
	ATTENTION,
	BACKWARD,
	LOOP,
	SYNC,
	OTHER
};

static void test_roles(void **state)
{
	(void)state;
	assert_int_equal(stepsplit_role("data"), STEPSPLIT_DATA);
	assert_int_equal(stepsplit_role("data/wait"), STEPSPLIT_DATA);
	assert_int_equal(stepsplit_role("lightning/backward"), STEPSPLIT_BACKWARD);
	assert_int_equal(stepsplit_role("Optimizer_Step"), STEPSPLIT_OPTIMIZER);
	assert_int_equal(stepsplit_role("database"), STEPSPLIT_SPAN);
	assert_int_equal(stepsplit_role(""), STEPSPLIT_SPAN);
	assert_string_equal(stepsplit_role_name(STEPSPLIT_OTHER), "other");
}

/* One step of 100 ms: data 0-30, forward 30-60 with attention 40-50 in it, loop around all of
 * it, backward 60-95 of which the last 5 lie beyond. */
static void test_one_step(void **state)
{
	struct stepsplit_step steps[] = {{0, 100 * MS, 7, 1, 0}};
	struct stepsplit_span spans[] = {
		{60 * MS, 105 * MS, 1, BACKWARD}, {0, 30 * MS, 1, DATA},
		{30 * MS, 55 * MS, 1, FORWARD},   {40 * MS, 50 * MS, 1, ATTENTION},
		{-5 * MS, 200 * MS, 1, LOOP},     {10 * MS, 40 * MS, 2, SYNC},
	};
	struct stepsplit s;
	int permille[STEPSPLIT_PARTS_MAX], sum = 0;
	size_t i;

	(void)state;
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 0, steps, 1, spans, 6);
	assert_int_equal(s.total[DATA], 30 * MS);
	assert_int_equal(s.total[FORWARD], 25 * MS); /* attention has no role: it is forward's */
	assert_int_equal(s.total[ATTENTION], 0);
	assert_int_equal(s.total[BACKWARD], 40 * MS);
	assert_int_equal(s.total[LOOP], 5 * MS);
	assert_int_equal(s.total[SYNC], 0);
	assert_int_equal(s.total[OTHER], 0);
	assert_int_equal(s.sum, 100 * MS);
	assert_true(fabs(s.beside[SYNC] - 30 * MS) < 1);
	stepsplit_permille(&s, permille);
	assert_int_equal(permille[BACKWARD], 400);
	for (i = 0; i < s.n_parts; i++)
		sum += permille[i];
	assert_int_equal(sum, 1000);
	stepsplit_done(&s);
}

/* Spans without a role: the outermost one has the time. */
static void test_outermost(void **state)
{
	static const char *const two[] = {"train", "inner"};
	struct stepsplit_step steps[] = {{0, 10, 0, 0, 0}};
	struct stepsplit_span spans[] = {{0, 8, 0, 0}, {2, 4, 0, 1}};
	struct stepsplit s;

	(void)state;
	stepsplit_init(&s, two, 2);
	stepsplit_add(&s, 0, steps, 1, spans, 2);
	assert_int_equal(s.total[0], 8);
	assert_int_equal(s.total[1], 0);
	assert_int_equal(s.total[2], 2);
	stepsplit_done(&s);
}

/* A span over several steps is cut at each, gaps between steps belong to none; a step that
 * begins within the one before is cut. */
static void test_over_steps(void **state)
{
	struct stepsplit_step steps[] = {{20, 30, 2, 0, 0}, {0, 10, 1, 0, 0}, {28, 40, 3, 0, 0}};
	struct stepsplit_span spans[] = {{5, 35, 0, DATA}};
	struct stepsplit s;
	size_t slow[2];

	(void)state;
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 0, steps, 3, spans, 1);
	assert_int_equal(s.sum, 10 + 10 + 10);
	assert_int_equal(s.total[DATA], 5 + 10 + 5);
	assert_int_equal(s.total[OTHER], 10);
	assert_int_equal(s.steps[2].start, 30);
	assert_int_equal(s.span, 40);
	assert_true(s.outside[DATA] == 10); /* 10 to 20, of 5 to 35 */
	assert_int_equal(s.n_outside[DATA], 0);
	assert_int_equal(stepsplit_slowest(&s, slow, 2), 2);
	assert_int_equal(s.steps[slow[0]].number, 1); /* equal ones in order */
	stepsplit_done(&s);
}

/* Whatever spans come, the parts add up to the steps: against a count of each instant. */
static void test_random(void **state)
{
	uint64_t x = 88172645463325252u;
	int round, t;

	(void)state;
	for (round = 0; round < 300; round++) {
		struct stepsplit_step steps[8];
		struct stepsplit_span spans[20], copy[20];
		int64_t count[STEPSPLIT_PARTS_MAX] = {0}, at = 0, sum = 0;
		struct stepsplit s;
		size_t i, k, n_steps = 0;

		for (i = 0; i < 8; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			at += (int64_t)(x % 5);
			steps[i] = (struct stepsplit_step){at, at + (int64_t)(x >> 20) % 20,
							   (int64_t)i, 0, 0};
			at = steps[i].end;
			n_steps++;
		}
		/* Nested, as the spans of a thread are: each within one before or behind it. */
		for (i = 0; i < 20; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			if (i % 4 == 0)
				spans[i] = (struct stepsplit_span){
					(int64_t)i * 5, (int64_t)i * 5 + 20, 0, (uint32_t)(x % 6)};
			else
				spans[i] = (struct stepsplit_span){
					spans[i - 1].start + (int64_t)(x % 3),
					spans[i - 1].end - (int64_t)((x >> 9) % 3), 0,
					(uint32_t)((x >> 30) % 6)};
		}
		memcpy(copy, spans, sizeof(copy));
		stepsplit_init(&s, names, 6);
		stepsplit_add(&s, 0, steps, n_steps, spans, 20);
		for (t = 0; t < 300; t++) {
			bool in = false;
			size_t owner = OTHER;

			for (i = 0; i < s.n; i++)
				in |= s.steps[i].start <= t && t < s.steps[i].end;
			for (i = 0; i < 20; i++) {
				if (copy[i].start > t || copy[i].end <= t)
					continue;
				if (owner == OTHER || s.role[copy[i].part] != STEPSPLIT_SPAN)
					owner = copy[i].part;
			}
			if (in)
				count[owner]++;
		}
		for (k = 0; k < s.n_parts; k++) {
			assert_int_equal(s.total[k], count[k]);
			sum += s.total[k];
		}
		assert_int_equal(sum, s.sum);
		stepsplit_done(&s);
	}
}

static void test_figures(void **state)
{
	struct stepsplit_step steps[100];
	struct stepsplit_span spans[100];
	struct stepsplit_bin bins[10];
	struct stepsplit_spread all, data, own;
	double edges[5];
	uint64_t counts[4], n = 0;
	struct stepsplit s;
	size_t i;

	(void)state;
	/* Step i lasts i + 1 ms, 1 ms of it is sync. */
	for (i = 0; i < 100; i++) {
		int64_t at = (int64_t)i * 1000 * MS;

		steps[i] =
			(struct stepsplit_step){at, at + (int64_t)(i + 1) * MS, (int64_t)i, 0, 0};
		spans[i] = (struct stepsplit_span){at, at + MS, 0, SYNC};
	}
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 3, steps, 100, spans, 100);
	all = stepsplit_spread(&s, UINT32_MAX, s.n_parts);
	data = stepsplit_spread(&s, 3, SYNC);
	own = stepsplit_spread(&s, 3, s.n_parts + 1);
	assert_true(fabs(all.mean - 0.0505) < 1e-12);
	assert_true(all.p50 == 0.050 && all.p95 == 0.095 && all.p99 == 0.099 && all.max == 0.1);
	assert_true(fabs(data.p50 - 0.001) < 1e-9);
	assert_true(fabs(own.p50 - 0.049) < 1e-9);
	assert_true(isnan(stepsplit_spread(&s, 4, SYNC).p50));
	assert_int_equal(stepsplit_bins(&s, bins, 10), 10);
	assert_int_equal(bins[9].first, 90);
	assert_int_equal(bins[9].last, 99);
	assert_int_equal(bins[9].count, 10);
	assert_true(fabs(bins[9].mean - 0.0955) < 1e-12 && bins[9].max == 0.1);
	assert_true(stepsplit_histogram(&s, edges, counts, 4));
	for (i = 0; i < 4; i++)
		n += counts[i];
	assert_int_equal(n, 100);
	assert_true(edges[0] == 0.001 && edges[4] == 0.1);
	stepsplit_move(&s, DATA, 1e18);
	assert_int_equal(s.total[OTHER], 0);
	assert_int_equal(s.total[DATA], 5050 * (int64_t)MS - 100 * (int64_t)MS);
	stepsplit_done(&s);
}

/* Steps without a number beside numbered ones, and the whole range of numbers. */
static void test_bins_far_apart(void **state)
{
	struct stepsplit_step steps[] = {
		{0, MS, INT64_MIN, 0, 0}, {MS, 2 * MS, 5, 0, 0}, {2 * MS, 3 * MS, INT64_MAX, 0, 0}};
	struct stepsplit_bin bins[10];
	struct stepsplit s;

	(void)state;
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 0, steps, 3, NULL, 0);
	assert_int_equal(stepsplit_bins(&s, bins, 10), 3);
	assert_int_equal(bins[0].first, INT64_MIN);
	assert_int_equal(bins[1].first, 5);
	assert_int_equal(bins[2].last, INT64_MAX);
	assert_int_equal(stepsplit_bins(&s, bins, 1), 1);
	assert_int_equal(bins[0].count, 3);
	stepsplit_done(&s);
}

/* Steps of a rank lie together, whatever the order in which ranks come; one may have none. */
static void test_ranges(void **state)
{
	struct stepsplit_step two[] = {{0, 10, 1, 0, 0}, {10, 30, 2, 0, 0}};
	struct stepsplit_step one[] = {{0, 40, 1, 0, 0}};
	struct stepsplit_range of;
	struct stepsplit s;

	(void)state;
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 3, two, 2, NULL, 0);
	stepsplit_add(&s, 1, one, 1, NULL, 0);
	of = stepsplit_range(&s, 3);
	assert_true(of.first == 0 && of.end == 2);
	of = stepsplit_range(&s, 1);
	assert_true(of.first == 2 && of.end == 3);
	of = stepsplit_range(&s, 2);
	assert_true(of.first == of.end);
	of = stepsplit_range(&s, 9);
	assert_true(of.first == of.end);
	of = stepsplit_range(&s, UINT32_MAX);
	assert_true(of.first == 0 && of.end == 3);
	assert_true(fabs(stepsplit_spread(&s, 3, s.n_parts).max - 20e-9) < 1e-15);
	assert_true(fabs(stepsplit_spread(&s, 1, s.n_parts).p50 - 40e-9) < 1e-15);
	assert_true(isnan(stepsplit_spread(&s, 2, s.n_parts).p50));
	stepsplit_done(&s);
}

/* Times that no clock told, in two processes: the parts add up all the same. */
static void test_absurd_times(void **state)
{
	struct stepsplit_step steps[] = {{INT64_MIN, INT64_MAX, 1, 0, 0},
					 {INT64_MAX - 5, INT64_MAX, 2, 0, 0}};
	struct stepsplit_step more[] = {{0, INT64_MAX, 3, 0, 0}, {0, INT64_MAX, 3, 0, 0}};
	struct stepsplit_span spans[] = {{INT64_MIN, INT64_MAX, 0, DATA},
					 {5, INT64_MAX - 1, 1, SYNC}};
	int permille[STEPSPLIT_PARTS_MAX];
	double edges[5];
	uint64_t counts[4];
	struct stepsplit s;
	int64_t sum = 0;
	size_t i;

	(void)state;
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 0, steps, 2, spans, 2);
	stepsplit_add(&s, 1, more, 2, spans, 2);
	for (i = 0; i < s.n_parts; i++) {
		assert_true(s.total[i] >= 0);
		sum += s.total[i];
	}
	assert_true(s.sum >= 0 && sum == s.sum && s.span >= 0);
	stepsplit_permille(&s, permille);
	assert_true(stepsplit_histogram(&s, edges, counts, 4));
	assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], 4);
	stepsplit_done(&s);
}

/* A span of another thread over many steps: what lies between them does not count. */
static void test_beside_many(void **state)
{
	struct stepsplit_step steps[1000];
	struct stepsplit_span span = {INT64_C(5002) * MS, INT64_C(7003) * MS, 7, SYNC};
	struct stepsplit s;
	int64_t i;

	(void)state;
	for (i = 0; i < 1000; i++)
		steps[i] = (struct stepsplit_step){i * 10 * MS, i * 10 * MS + 6 * MS, i, 0, 0};
	stepsplit_init(&s, names, 6);
	stepsplit_add(&s, 0, steps, 1000, &span, 1);
	/* 4 ms of step 500, 199 whole ones, 3 ms of step 700. */
	assert_true(fabs(s.beside[SYNC] - (4 + 199 * 6 + 3) * (double)MS) < 1);
	stepsplit_done(&s);
}

/* A step of a rank that waited for the others at its end. */
struct told {
	uint32_t rank;
	int64_t number;
	int ms, waited_ms;
};

static void tell(struct stepsplit *s, const struct told *t, size_t n)
{
	struct stepsplit_step steps[16];
	struct stepsplit_span spans[16];
	int64_t at = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		int64_t end = at + (int64_t)t[i].ms * MS;

		steps[i] = (struct stepsplit_step){at, end, t[i].number, 1, 0};
		spans[i] =
			(struct stepsplit_span){end - (int64_t)t[i].waited_ms * MS, end, 1, SYNC};
		at = end;
	}
	stepsplit_add(s, t[0].rank, steps, n, spans, n);
}

/* One of each step: that for which the others waited. */
static void test_slowest_of_ranks(void **state)
{
	static const struct told ranks[3][5] = {
		{{0, 7, 100, 40}, {0, 8, 50, 0}, {0, 9, 500, 5}},
		{{1, 7, 99, 1},
		 {1, 8, 50, 0},
		 {1, 9, 20, 0},
		 {1, STEPSPLIT_UNNUMBERED, 60, 0},
		 {1, STEPSPLIT_UNNUMBERED, 55, 9}},
		{{2, 7, 98, 30}, {2, 8, 52, 0}, {2, 9, 20, 0}},
	};
	static const struct told expected[] = {
		{0, 9, 500, 5}, /* the others were through before it */
		{1, 7, 99, 1},  {1, STEPSPLIT_UNNUMBERED, 60, 0}, {1, STEPSPLIT_UNNUMBERED, 55, 9},
		{2, 8, 52, 0}, /* nobody waited: the longest */
	};
	struct stepsplit s;
	size_t slow[9], i;

	(void)state;
	stepsplit_init(&s, names, 6);
	assert_int_equal(stepsplit_slowest(&s, slow, 9), 0);
	for (i = 0; i < 3; i++)
		tell(&s, ranks[i], i == 1 ? 5 : 3);
	assert_int_equal(stepsplit_slowest(&s, slow, 0), 0);
	assert_int_equal(stepsplit_slowest(&s, slow, 2), 2);
	assert_int_equal(s.steps[slow[1]].number, 7);
	assert_int_equal(stepsplit_slowest(&s, slow, 9), 5);
	for (i = 0; i < 5; i++) {
		const struct stepsplit_step *at = &s.steps[slow[i]];

		assert_int_equal(at->rank, expected[i].rank);
		assert_int_equal(at->number, expected[i].number);
		assert_int_equal(at->end - at->start, expected[i].ms * (int64_t)MS);
	}
	stepsplit_done(&s);
}

/* Equally slow ranks, however many, take no other step's place. */
static void test_slowest_of_many_ranks(void **state)
{
	struct told steps[10];
	struct stepsplit s;
	size_t slow[10], i;
	uint32_t rank;

	(void)state;
	stepsplit_init(&s, names, 6);
	for (rank = 0; rank < 160; rank++) {
		for (i = 0; i < 10; i++)
			steps[i] = (struct told){rank, (int64_t)i, 100 + (int)i,
						 rank == 80 + i ? 1 : 50};
		tell(&s, steps, 10);
	}
	assert_int_equal(stepsplit_slowest(&s, slow, 10), 10);
	for (i = 0; i < 10; i++) {
		assert_int_equal(s.steps[slow[i]].number, 9 - (int)i);
		assert_int_equal(s.steps[slow[i]].rank, 80 + 9 - (int)i);
	}
	stepsplit_done(&s);
}

static struct stepbound_facts facts(double data, double work, double comm, double other,
				    double busy)
{
	struct stepbound_facts f = {.busy = busy, .dram = NAN, .straggler_over = NAN};

	f.share[STEPSPLIT_DATA] = data;
	f.share[STEPSPLIT_FORWARD] = work;
	f.share[STEPSPLIT_COMMUNICATION] = comm;
	f.share[STEPSPLIT_OTHER] = other;
	return f;
}

static void test_bound(void **state)
{
	struct stepbound_facts f;
	struct stepbound b;

	(void)state;
	f = facts(0.41, 0.59, 0, 0, 0.55);
	f.name[STEPSPLIT_DATA] = "data/wait";
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_DATA);
	assert_string_equal(b.sentence,
			    "Bound by data loading: 41 % of a step waits in \"data/wait\".");
	/* The host waits for data while the GPU still has work: it is not bound by that. */
	f = facts(0.41, 0.59, 0, 0, 0.98);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_COMPUTE);
	f.dram = 0.7;
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_MEMORY);
	f = facts(0.02, 0.98, 0, 0, 0.5);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_LAUNCH);
	f = facts(0.02, 0.3, 0.6, 0.08, 0.9);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_COMMUNICATION);
	f.straggler_over = 1.5;
	f.straggler = 3;
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_STRAGGLER);
	assert_non_null(strstr(b.sentence, "rank 3"));
	f = facts(0.1, 0.2, 0, 0.7, NAN);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_UNKNOWN);
	f = facts(0.1, 0.9, 0, 0, NAN);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_COMPUTE);
	f = facts(0, 0, 0, 0, NAN);
	stepbound_decide(&f, &b);
	assert_int_equal(b.kind, STEPBOUND_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_one_step),
		cmocka_unit_test(test_outermost),
		cmocka_unit_test(test_over_steps),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_bins_far_apart),
		cmocka_unit_test(test_absurd_times),
		cmocka_unit_test(test_beside_many),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_slowest_of_ranks),
		cmocka_unit_test(test_slowest_of_many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
