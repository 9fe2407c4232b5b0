/* SPDX-License-Identifier: Apache-2.0
 *
 * stragglers.c - HTA's search for stragglers, in the doubles and in the order it has.
 */
#include "analyse/stragglers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/room.h"

#define LEAST_LENGTH 0.01 /* of the mean step */

struct kernel {
	struct stragglers_row row;
	uint32_t turn; /* in HTA's table */
};

struct search {
	const struct view *views;
	size_t n_views;
	struct kernel *kernels;
	size_t n, cap;
	double first, mean;
};

static int measure(struct search *s, struct err *e)
{
	double first = INFINITY, last = -INFINITY;
	int32_t *steps = NULL;
	size_t n = 0, cap = 0;

	for (size_t i = 0; i < s->n_views; i++) {
		const struct view *v = &s->views[i];

		for (size_t k = 0; k < v->n; k++) {
			const struct view_row *r = &v->rows[k];
			bool known = r->step < 0;

			if (known)
				continue;
			first = fmin(first, view_ts_us(v, r));
			last = fmax(last, view_ts_us(v, r) + view_us(r->end - r->ts));
			for (size_t j = n; j-- > 0 && !known;)
				known = steps[j] == r->step;
			if (known)
				continue;
			if (room_for(&steps, n, &cap, sizeof(*steps)) < 0) {
				free(steps);
				return -ENOMEM;
			}
			steps[n++] = r->step;
		}
	}
	free(steps);
	if (!n)
		return err_set(e, -ENODATA,
			       "no ProfilerStep#N in these traces, so HTA has no answer here; "
			       "without --hta ranks are compared at their collectives");
	s->first = first;
	s->mean = (last - first) / (double)n;
	return 0;
}

static int gather(struct search *s)
{
	for (size_t i = 0; i < s->n_views; i++) {
		const struct view *v = &s->views[i];

		for (size_t k = 0; k < v->n; k++) {
			const struct view_row *r = &v->rows[v->table ? v->table[k] : k];
			const char *name = trace_text(v->trace, r->name, NULL);
			double us = view_us(r->end - r->ts);

			if (r->stream <= 0 || r->step <= 0 || !(us >= s->mean * LEAST_LENGTH) ||
			    strncmp(name, "ncclKernel", 10) != 0)
				continue;
			if (room_for(&s->kernels, s->n, &s->cap, sizeof(*s->kernels)) < 0)
				return -ENOMEM;
			s->kernels[s->n] = (struct kernel){
				{v->rank, r->stream, r->step, name, view_ts_us(v, r), us,
				 (view_ts_us(v, r) - s->first) / s->mean, us / s->mean, false},
				(uint32_t)s->n};
			s->n++;
		}
	}
	return 0;
}

/* By stream, name, step, rank; of the same the last of the table first. */
static int by_kind(const void *pa, const void *pb)
{
	const struct kernel *a = pa, *b = pb;
	int r;

	if (a->row.stream != b->row.stream)
		return a->row.stream < b->row.stream ? -1 : 1;
	r = strcmp(a->row.name, b->row.name);
	if (r)
		return r;
	if (a->row.step != b->row.step)
		return a->row.step < b->row.step ? -1 : 1;
	if (a->row.rank != b->row.rank)
		return a->row.rank < b->row.rank ? -1 : 1;
	return a->turn > b->turn ? -1 : 1;
}

static bool same_kind(const struct kernel *a, const struct kernel *b)
{
	return a->row.stream == b->row.stream && !strcmp(a->row.name, b->row.name);
}

static void keep_last(struct search *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->kernels, s->n, sizeof(*s->kernels), by_kind);
	for (size_t i = 0; i < s->n; i++) {
		const struct kernel *k = &s->kernels[i];

		if (n && same_kind(&s->kernels[n - 1], k) &&
		    s->kernels[n - 1].row.step == k->row.step &&
		    s->kernels[n - 1].row.rank == k->row.rank)
			continue;
		s->kernels[n++] = *k;
	}
	s->n = n;
}

/* Mean over steps of the spread over ranks; NaN if no step has two ranks. */
static double spread_of(const struct kernel *k, size_t n)
{
	struct numeric_run steps = {0}, ranks = {0};

	for (size_t i = 0; i < n; i++) {
		numeric_add(&ranks, k[i].row.length);
		if (i + 1 < n && k[i + 1].row.step == k[i].row.step)
			continue;
		if (ranks.count > 1)
			numeric_add(&steps, numeric_std(&ranks));
		ranks = (struct numeric_run){0};
	}
	return numeric_mean(&steps);
}

/* The kernels of one stream and name whose lengths differ most between ranks. */
static int choose(struct search *s, size_t *first, size_t *count, struct err *e)
{
	double best = NAN;
	size_t end;

	for (size_t i = 0; i < s->n; i = end) {
		double spread;

		for (end = i + 1; end < s->n && same_kind(&s->kernels[i], &s->kernels[end]);)
			end++;
		spread = spread_of(&s->kernels[i], end - i);
		if (isnan(spread) || spread <= best)
			continue;
		best = spread;
		*first = i;
		*count = end - i;
	}
	if (isnan(best))
		return err_set(e, -ENODATA,
			       "no kernel named ncclKernel... of at least 1 %% of a step on two "
			       "ranks (%zu long ones found; today's NCCL names are "
			       "ncclDevKernel_..., which HTA does not know): without --hta ranks "
			       "are compared at all collectives",
			       s->n);
	return 0;
}

static int by_start(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return a > b ? -1 : a < b;
}

static int mark_late(struct stragglers_result *s, unsigned candidates)
{
	double *starts = calloc(s->n + 1, sizeof(*starts));
	size_t end;

	if (!starts)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i = end) {
		double bar;
		size_t n = 0;

		for (end = i; end < s->n && s->rows[end].step == s->rows[i].step; end++)
			starts[n++] = s->rows[end].start;
		qsort(starts, n, sizeof(*starts), by_start);
		bar = starts[candidates <= n ? candidates - 1 : n - 1];
		for (size_t k = i; k < end; k++)
			s->rows[k].is_late = s->rows[k].start >= bar;
	}
	free(starts);
	return 0;
}

struct often {
	int64_t rank;
	size_t times;
};

static int by_times(const void *pa, const void *pb)
{
	const struct often *a = pa, *b = pb;

	if (a->times != b->times)
		return a->times > b->times ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int by_rank(const void *pa, const void *pb)
{
	const struct stragglers_row *a = pa, *b = pb;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->step < b->step ? -1 : a->step > b->step;
}

static int name_ranks(struct stragglers_result *s, unsigned candidates)
{
	struct often *all = calloc(s->n + 1, sizeof(*all));
	size_t n = 0;

	s->ranks = calloc(candidates + 1, sizeof(*s->ranks));
	if (!all || !s->ranks) {
		free(all);
		return -ENOMEM;
	}
	qsort(s->rows, s->n, sizeof(*s->rows), by_rank);
	for (size_t i = 0; i < s->n; i++) {
		if (!n || all[n - 1].rank != s->rows[i].rank)
			all[n++].rank = s->rows[i].rank;
		all[n - 1].times += s->rows[i].is_late;
	}
	qsort(all, n, sizeof(*all), by_times);
	for (size_t i = 0; i < n && i < candidates; i++)
		s->ranks[s->n_ranks++] = all[i].rank;
	free(all);
	return 0;
}

static int finish(const struct search *s, size_t first, size_t count, unsigned candidates,
		  struct stragglers_result *ret)
{
	int r;

	ret->rows = calloc(count + 1, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		ret->rows[i] = s->kernels[first + i].row;
	ret->n = count;
	ret->step_us = s->mean;
	r = mark_late(ret, candidates);
	return r < 0 ? r : name_ranks(ret, candidates);
}

int stragglers_new(const struct view *views, size_t n, unsigned candidates,
		   struct stragglers_result **ret, struct err *e)
{
	struct search s = {.views = views, .n_views = n};
	struct stragglers_result *result = calloc(1, sizeof(*result));
	size_t first = 0, count = 0;
	int r = result ? measure(&s, e) : -ENOMEM;

	if (r == 0)
		r = gather(&s);
	if (r == 0) {
		keep_last(&s);
		r = choose(&s, &first, &count, e);
	}
	if (r == 0)
		r = finish(&s, first, count, candidates ? candidates : 2, result);
	free(s.kernels);
	if (r < 0) {
		stragglers_free(result);
		return r;
	}
	*ret = result;
	return 0;
}

void stragglers_free(struct stragglers_result *s)
{
	if (!s)
		return;
	free(s->rows);
	free(s->ranks);
	free(s);
}
