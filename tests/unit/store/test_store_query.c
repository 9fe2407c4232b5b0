/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts against brute force: all points of a series are read and joined by the
 * plainest means, and each bucket must say the same of the same points.
 */
#include "storetest.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rng_state = 1;

static uint32_t rng(uint32_t n)
{
	return (uint32_t)storetest_random(&rng_state, n);
}

/* ---- the plainest means --------------------------------------------------------------- */

/* A point, its number, whether the question wants it. */
struct brute_point {
	struct store_point p;
	uint64_t at;
	int64_t x;
};
struct brute {
	struct store_point *all;
	size_t n;
	struct brute_point *seen; /* along the axis */
	size_t n_seen;
};

static bool brute_is_repeated(const struct brute *b, size_t i)
{
	int64_t min, max;
	uint32_t g;
	size_t k;

	for (g = b->all[i].segment + 1; g <= b->all[b->n - 1].segment; g++) {
		min = INT64_MAX;
		max = INT64_MIN;
		for (k = 0; k < b->n; k++) {
			if (b->all[k].segment != g || b->all[k].step == SINK_STEP_NONE)
				continue;
			min = b->all[k].step < min ? b->all[k].step : min;
			max = b->all[k].step > max ? b->all[k].step : max;
		}
		if (b->all[i].step >= min && b->all[i].step <= max)
			return true;
	}
	return false;
}

static int brute_compare(const void *a, const void *b)
{
	const struct brute_point *x = a, *y = b;

	if (x->x != y->x)
		return x->x < y->x ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* hidden: for each point, whether a newer attempt has its step (computed once). */
static void brute_ask(struct brute *b, const struct store_query *q, const bool *hidden)
{
	const struct store_range *g = &q->range;
	size_t i;

	b->n_seen = 0;
	for (i = 0; i < b->n; i++) {
		const struct store_point *p = &b->all[i];

		if (g->by_time && (p->time_ns < g->time_min || p->time_ns > g->time_max))
			continue;
		if ((g->by_step || q->axis == STORE_BY_STEP) && p->step == SINK_STEP_NONE)
			continue;
		if (g->by_step && (p->step < g->step_min || p->step > g->step_max))
			continue;
		if (!g->all_segments && hidden[i])
			continue;
		b->seen[b->n_seen++] = (struct brute_point){
			*p, i, q->axis == STORE_BY_STEP ? p->step : p->time_ns};
	}
	qsort(b->seen, b->n_seen, sizeof(*b->seen), brute_compare);
}

static void check_bucket(const struct store_bucket *got, const struct brute_point *v, size_t n)
{
	double sum = 0, min = NAN, max = NAN, first = NAN, last = NAN;
	uint64_t nan = 0, min_at = UINT64_MAX, max_at = UINT64_MAX, from = UINT64_MAX, to = 0;
	int64_t t0 = INT64_MAX, t1 = INT64_MIN, s0 = INT64_MAX, s1 = INT64_MIN;
	uint32_t segment = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct store_point *p = &v[i].p;
		double x = p->value;

		t0 = p->time_ns < t0 ? p->time_ns : t0;
		t1 = p->time_ns > t1 ? p->time_ns : t1;
		if (p->step != SINK_STEP_NONE) {
			s0 = p->step < s0 ? p->step : s0;
			s1 = p->step > s1 ? p->step : s1;
		}
		if (v[i].at < from) {
			from = v[i].at;
			first = x;
			segment = p->segment;
		}
		if (v[i].at >= to) {
			to = v[i].at;
			last = x;
		}
		nan += isnan(x);
		if (isnan(x))
			continue;
		sum += x;
		if (min_at == UINT64_MAX || x < min || (x == min && v[i].at < min_at)) {
			min = x;
			min_at = v[i].at;
		}
		if (max_at == UINT64_MAX || x > max || (x == max && v[i].at < max_at)) {
			max = x;
			max_at = v[i].at;
		}
	}
	assert_int_equal(got->count, n);
	if (n == 0)
		return;
	assert_int_equal(got->nan, nan);
	assert_int_equal(got->observed, n - nan);
	assert_true(fabs(got->sum - sum) <= 1e-9 * (fabs(sum) + n));
	assert_int_equal(got->min_at, min_at);
	assert_int_equal(got->max_at, max_at);
	if (nan < n)
		assert_true(got->min == min && got->max == max);
	else
		assert_true(isnan(got->min) && isnan(got->max));
	assert_memory_equal(&got->first, &first, 8);
	assert_memory_equal(&got->last, &last, 8);
	assert_int_equal(got->time_min, t0);
	assert_int_equal(got->time_max, t1);
	assert_int_equal(got->step_min, s0 == INT64_MAX ? SINK_STEP_NONE : s0);
	assert_int_equal(got->step_max, s1 == INT64_MIN ? SINK_STEP_NONE : s1);
	assert_int_equal(got->segment, segment);
	assert_int_equal(got->first_at, from);
	assert_int_equal(got->last_at, to);
}

static void check_raw(const struct brute *b, const struct store_query *q,
		      const struct store_result *got)
{
	size_t i;

	assert_false(q->no_raw);
	assert_int_equal(got->n, b->n_seen);
	assert_true(got->n <= q->points);
	for (i = 0; i < got->n; i++)
		assert_memory_equal(&got->points[i], &b->seen[i].p, sizeof(*got->points));
}

/* Points lie no further than a bucket's width outside of it. */
static void check_border(const struct brute_point *v, size_t n, const struct store_grid *grid,
			 size_t bucket)
{
	int64_t x0 = grid->x0 + ((int64_t)bucket - 1) * grid->width;
	size_t i;

	for (i = 0; i < n; i++)
		assert_true(v[i].x > x0 && v[i].x < x0 + 3 * grid->width);
}

static void join(struct store_bucket *all, const struct store_bucket *b)
{
	all->count += b->count;
	all->nan += b->nan;
	all->sum += b->sum;
	if (b->min_at != UINT64_MAX && (all->observed == 0 || b->min < all->min))
		all->min = b->min;
	if (b->max_at != UINT64_MAX && (all->observed == 0 || b->max > all->max))
		all->max = b->max;
	all->observed += b->observed;
}

/* All buckets together. */
static void check_sums(const struct brute *b, const struct store_bucket *all)
{
	double sum = 0, min = INFINITY, max = -INFINITY;
	uint64_t nan = 0;
	size_t i;

	assert_int_equal(all->count, b->n_seen);
	for (i = 0; i < b->n_seen; i++) {
		double v = b->seen[i].p.value;

		nan += isnan(v);
		sum += isnan(v) ? 0 : v;
		min = v < min ? v : min;
		max = v > max ? v : max;
	}
	assert_int_equal(all->nan, nan);
	assert_true(fabs(all->sum - sum) <= 1e-9 * (fabs(sum) + (double)all->count));
	if (all->observed)
		assert_true(all->min == min && all->max == max);
}

/* sorted: along the axis in order of arrival; then a bucket's points are known by
 * their number alone. */
static void check_answer(const struct brute *b, const struct store_query *q,
			 const struct store_result *got, const struct store_grid *grid, bool sorted)
{
	struct store_bucket all = {0};
	size_t i, at = 0;

	assert_true(q->no_raw || got->raw == (b->n_seen <= q->points));
	if (got->raw) {
		check_raw(b, q, got);
		return;
	}
	assert_true(got->n <= q->points);
	assert_int_equal(got->lost, 0);
	for (i = 0; i < got->n; i++) {
		const struct store_bucket *x = &got->buckets[i];

		assert_true(q->aligned || x->count);
		if (x->count == 0)
			continue;
		if (sorted)
			check_bucket(x, b->seen + at, x->count);
		if (sorted && q->aligned)
			check_border(b->seen + at, x->count, grid, i);
		at += x->count;
		join(&all, x);
		if (x->min_at != UINT64_MAX)
			assert_true(b->all[x->min_at].value == x->min &&
				    b->all[x->max_at].value == x->max);
	}
	check_sums(b, &all);
	if (!q->aligned)
		assert_true(got->n >= (b->n_seen < q->points ? b->n_seen : q->points) / 2);
}

/* ---- series at random ------------------------------------------------------------------- */

struct shape {
	const char *name;
	size_t n;
	bool steps, gaps_in_steps, late, segments;
	unsigned resumes; /* in about so many points steps go back */
	unsigned commit;  /* points of a commit, about */
	unsigned fold;    /* of 100 commits so many are followed by a fold */
	unsigned seal;    /* by one that seals all */
	bool leave_tail;
};

static void build(struct store *s, uint32_t id, const struct shape *shape)
{
	int64_t time = 1000000, step = 0;
	size_t i, left = shape->commit;
	double v = 0;

	for (i = 0; i < shape->n; i++) {
		int64_t at = time, to = shape->steps ? step : SINK_STEP_NONE;

		time += 1 + rng(1000);
		step += rng(3) == 0;
		if (shape->resumes && rng(shape->resumes) == 0)
			step -= step > 500 ? (int64_t)rng(500) : 0;
		if (shape->late && rng(400) == 0)
			at -= rng(200000);
		if (shape->gaps_in_steps && rng(50) == 0)
			to = SINK_STEP_NONE;
		v += (double)rng(21) - 10;
		storetest_push(s, id, at, to, rng(70) == 0 ? NAN : v);
		if (--left)
			continue;
		left = 1 + rng(2 * shape->commit);
		storetest_commit(s);
		if (rng(100) < shape->fold)
			storetest_merge(s);
		if (rng(100) < shape->seal)
			storetest_fold(s);
	}
	storetest_commit(s);
	if (!shape->leave_tail)
		storetest_fold(s);
}

static struct store_query random_question(const struct brute *b)
{
	static const unsigned points[] = {1, 2, 7, 30, 100, 1000, 2000};
	struct store_query q = {.axis = rng(2) ? STORE_BY_STEP : STORE_BY_TIME,
				.points = points[rng(7)],
				.aligned = rng(3) == 0,
				.no_raw = rng(3) == 0};
	struct store_range *g = &q.range;
	const struct store_point *x = &b->all[rng((uint32_t)b->n)],
				 *y = &b->all[rng((uint32_t)b->n)];

	if (rng(3) == 0) /* a small range */
		y = x + rng(2000) < b->all + b->n ? x + rng(2000) % (size_t)(b->all + b->n - x) : x;
	g->all_segments = rng(2);
	if (rng(3)) {
		g->by_time = true;
		g->time_min = x->time_ns < y->time_ns ? x->time_ns : y->time_ns;
		g->time_max = x->time_ns < y->time_ns ? y->time_ns : x->time_ns;
	}
	if (rng(3) == 0 && x->step != SINK_STEP_NONE && y->step != SINK_STEP_NONE) {
		g->by_step = true;
		g->step_min = x->step < y->step ? x->step : y->step;
		g->step_max = x->step < y->step ? y->step : x->step;
	}
	return q;
}

static bool is_sorted(const struct brute *b)
{
	size_t i;

	for (i = 1; i < b->n_seen; i++)
		if (b->seen[i].at < b->seen[i - 1].at)
			return false;
	return true;
}

static void check_total(struct store_reader *r, const struct store_ref *ref, struct brute *b,
			const bool *hidden)
{
	struct store_query q = {.axis = STORE_BY_TIME};
	struct store_bucket total;
	struct err e = {0};
	int all;

	for (all = 0; all < 2; all++) {
		q.range.all_segments = all;
		brute_ask(b, &q, hidden);
		assert_int_equal(store_reader_total(r, ref, all, &e, &total), 0);
		check_bucket(&total, b->seen, b->n_seen);
	}
}

/* Single points by their number. */
static void check_places(struct store_reader *r, const struct store_ref *ref, const struct brute *b)
{
	struct store_place places[20];
	struct store_point got[20];
	struct err e = {0};
	size_t i;

	for (i = 0; i < 20; i++)
		places[i] = (struct store_place){*ref, rng((uint32_t)b->n)};
	places[18].at = b->n - 1;
	places[19].at = b->n;
	if (store_reader_at(r, places, 20, &e, got) < 0)
		fail_msg("store_reader_at: %s", e.text);
	for (i = 0; i < 19; i++)
		assert_memory_equal(&got[i], &b->all[places[i].at], sizeof(got[i]));
	assert_true(got[19].time_ns == INT64_MIN);
}

static void compare(const char *dir, uint32_t id, unsigned questions)
{
	struct storetest_points points = storetest_read_dir(dir, id);
	struct brute b = {.all = points.v, .n = points.n};
	const struct store_ref ref = {0, id};
	struct store_reader *r = NULL;
	struct store_result got;
	struct store_grid grid;
	struct err e = {0};
	bool *hidden = xcalloc(b.n + 1, sizeof(*hidden));
	bool any = b.n && b.all[b.n - 1].segment > 0;
	size_t i;

	b.seen = xcalloc(b.n + 1, sizeof(*b.seen));
	for (i = 0; any && i < b.n; i++)
		hidden[i] = brute_is_repeated(&b, i);
	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	check_total(r, &ref, &b, hidden);
	check_places(r, &ref, &b);
	for (i = 0; i < questions; i++) {
		struct store_query q = random_question(&b);

		brute_ask(&b, &q, hidden);
		if (store_reader_query(r, &q, &ref, 1, &e, &grid, &got) < 0)
			fail_msg("store_reader_query: %s", e.text);
		check_answer(&b, &q, &got, &grid, is_sorted(&b));
		store_results_free(&got, 1);
	}
	store_reader_close(r);
	free(hidden);
	free(b.seen);
	free(points.v);
}

static void random_series(void **state)
{
	static const struct shape shapes[] = {
		{.name = "one", .n = 1, .commit = 1, .steps = true},
		{.name = "tail", .n = 3000, .commit = 20, .steps = true, .leave_tail = true},
		{.name = "merged", .n = 20000, .commit = 100, .fold = 10, .leave_tail = true},
		{.name = "long", .n = 300000, .commit = 50000, .steps = true},
		{.name = "late",
		 .n = 100000,
		 .commit = 30000,
		 .steps = true,
		 .late = true,
		 .gaps_in_steps = true},
		{.name = "resumed",
		 .n = 12000,
		 .commit = 1500,
		 .steps = true,
		 .resumes = 3000,
		 .fold = 30,
		 .leave_tail = true},
		{.name = "often",
		 .n = 12000,
		 .commit = 500,
		 .steps = true,
		 .resumes = 300,
		 .late = true,
		 .fold = 10,
		 .seal = 20,
		 .gaps_in_steps = true,
		 .leave_tail = true},
		{.name = "small", .n = 8000, .commit = 20, .steps = true, .seal = 100},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(shapes); i++) {
		char *dir = storetest_dir();
		struct store *s = storetest_open(dir);
		uint32_t p = storetest_process(s, 1), id;

		storetest_series(s, p, "other", SINK_GAUGE);
		id = storetest_series(s, p, shapes[i].name, SINK_GAUGE);
		build(s, id, &shapes[i]);
		compare(dir, id, 150);
		storetest_close(s);
		compare(dir, id, 150);
		storetest_remove(dir);
	}
}

/* Attempt after attempt: a tree of 1,024 chunks, all pages of which are full. */
static void test_thousand_attempts(void **state)
{
	char *dir = storetest_dir();
	struct store *s = storetest_open(dir);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	int64_t i;

	(void)state;
	for (i = 0; i < 1100 * 4; i++)
		storetest_push(s, id, i * 1000, i % 4 + i / 40, (double)(i % 97));
	storetest_commit(s);
	storetest_fold(s);
	compare(dir, id, 100);
	storetest_close(s);
	storetest_check(dir);
	storetest_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_series),
		cmocka_unit_test(test_thousand_attempts),
	};

	return cmocka_run_group_tests_name("store_query", tests, NULL, NULL);
}
