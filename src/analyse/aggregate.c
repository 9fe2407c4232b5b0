/* SPDX-License-Identifier: Apache-2.0
 *
 * aggregate.c - see aggregate.h.
 */
#include "analyse/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/room.h"
#include "base/number.h"

#define AHEAD 16 /* rows that are fetched before they are looked at */

struct group {
	const char *name;
	size_t len;
	struct numeric_run run; /* us */
	int64_t sum, min, max;  /* ns */
	uint64_t calls;
};

static int by_name(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int c = memcmp(x->name, y->name, len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void add_call(struct group *g, const struct view_row *r)
{
	int64_t dur = r->end - r->ts;

	numeric_add(&g->run, view_us(dur));
	g->min = g->calls && g->min < dur ? g->min : dur;
	g->max = g->calls && g->max > dur ? g->max : dur;
	g->sum += dur;
	g->calls++;
}

/* Groups of all classes by the id of their name, those of one class behind those of the other.
 * NULL: no memory. The caller frees it. */
static struct group *collect(const struct view *v, bool devices,
			     int (*class_of)(const struct view_row *, int), int arg)
{
	size_t k, n = v->n, texts = trace_texts(v->trace);
	/* view_devices() keeps its list in the view. */
	const uint32_t *ids = devices ? view_devices((struct view *)v, true, &n) : v->table;
	struct group *all = devices && !ids ? NULL : calloc(VIEW_CLASSES * texts + 1, sizeof(*all));
	const struct view_row *r;
	int class;

	for (k = 0; all && k < n; k++) {
		if (ids && k + AHEAD < n)
			__builtin_prefetch(&v->rows[ids[k + AHEAD]]);
		r = &v->rows[ids ? ids[k] : k];
		class = class_of(r, arg);
		if (class != AGGREGATE_NONE)
			add_call(&all[(size_t) class * texts + r->name], r);
	}
	return all;
}

/* Those that have calls move to the front, by name; how many there are. */
static size_t sort_groups(const struct trace *t, struct group *groups)
{
	uint32_t i, texts = trace_texts(t);
	size_t n = 0;

	for (i = 0; i < texts; i++) {
		if (!groups[i].calls)
			continue;
		groups[n] = groups[i];
		groups[n].name = trace_text(t, i, &groups[n].len);
		n++;
	}
	qsort(groups, n, sizeof(*groups), by_name);
	return n;
}

/* order: places of groups by sum, the greatest first, ties as pandas leaves them: sorted
 * backwards and turned round. */
static int order_by_sum(const struct group *groups, size_t n, uint32_t *order)
{
	struct numeric_key *k = malloc((n + 1) * sizeof(*k));
	size_t i;

	if (!k)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		k[i] = (struct numeric_key){groups[n - 1 - i].run.sum, (uint32_t)(n - 1 - i)};
	numeric_order(k, n);
	for (i = 0; i < n; i++)
		order[i] = k[n - 1 - i].id;
	free(k);
	return 0;
}

/* Which groups HTA puts under "others". */
static int mark_others(const struct group *groups, size_t n, const struct aggregate_options *o,
		       uint8_t *other)
{
	uint32_t *order = malloc((n + 1) * sizeof(*order));
	double *sums = malloc((2 * n + 1) * sizeof(*sums)), limit;
	size_t i;
	int rc = order && sums ? order_by_sum(groups, n, order) : -ENOMEM;

	if (!rc) {
		for (i = 0; i < n; i++)
			sums[i] = groups[order[i]].run.sum + (i ? sums[i - 1] : 0);
		/* Running sums fall where rounding left a name less than no time. */
		memcpy(sums + n, sums, n * sizeof(*sums));
		qsort(sums + n, n, sizeof(*sums), number_order);
		limit = numeric_quantile(sums + n, n, o->quantile);
		for (i = 0; i < n; i++)
			/* "Always false" is HTA's comment on the first of these. */
			other[order[i]] = !(groups[order[i]].run.sum < 0) &&
					  (sums[i] > limit || i >= o->most_names);
	}
	free(order);
	free(sums);
	return rc;
}

static int emit(struct aggregate *a, const struct group *g, const struct numeric_run *run,
		int64_t rank)
{
	struct aggregate_row *r;
	int rc = room_for(&a->rows, a->n, &a->cap, sizeof(*a->rows));

	if (rc)
		return rc;
	r = &a->rows[a->n++];
	*r = (struct aggregate_row){.name = g->name,
				    .calls = g->calls,
				    .sum = g->sum,
				    .max = g->max,
				    .min = g->min,
				    .mean_us = numeric_mean(run),
				    .std_us = numeric_std(run),
				    .rank = rank};
	return 0;
}

/* What goes under "others", greatest sum first. */
static struct group sum_others(const struct group *groups, size_t n, const uint32_t *order,
			       const uint8_t *other)
{
	struct group ret = {.name = "others", .len = 6};
	const struct group *g;
	size_t i;

	for (i = 0; i < n; i++) {
		g = &groups[order[i]];
		if (!other[order[i]])
			continue;
		numeric_add(&ret.run, g->run.sum);
		ret.min = ret.calls && ret.min < g->sum ? ret.min : g->sum;
		ret.max = ret.calls && ret.max > g->sum ? ret.max : g->sum;
		ret.sum += g->sum;
		ret.calls += g->calls;
	}
	return ret;
}

/* HTA groups once more, by the new names: what was a sum of calls is now one value. */
static int emit_again(struct aggregate *a, const struct group *groups, size_t n,
		      const struct group *others, const uint8_t *other, int64_t rank)
{
	bool is_out = !others->calls;
	struct group one;
	size_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++) {
		if (other[i])
			continue;
		if (!is_out && by_name(others, &groups[i]) < 0) {
			rc = emit(a, others, &others->run, rank);
			is_out = true;
		}
		one = groups[i];
		one.run = (struct numeric_run){0};
		numeric_add(&one.run, groups[i].run.sum);
		one.min = one.max = one.sum;
		if (!rc)
			rc = emit(a, &one, &one.run, rank);
	}
	return rc || is_out ? rc : emit(a, others, &others->run, rank);
}

static int group_again(struct aggregate *a, const struct group *groups, size_t n,
		       const struct aggregate_options *o, int64_t rank)
{
	uint32_t *order = malloc((n + 1) * sizeof(*order));
	uint8_t *other = calloc(n + 1, 1);
	struct group others;
	int rc = order && other ? mark_others(groups, n, o, other) : -ENOMEM;

	if (!rc)
		rc = order_by_sum(groups, n, order);
	if (!rc) {
		others = sum_others(groups, n, order, other);
		rc = emit_again(a, groups, n, &others, other, rank);
	}
	free(order);
	free(other);
	return rc;
}

static int add_class(struct aggregate *a, struct group *groups, const struct view *v,
		     const struct aggregate_options *o)
{
	size_t i, n = sort_groups(v->trace, groups);
	int rc = 0;

	if (o->most_names && n > o->most_names)
		return group_again(a, groups, n, o, v->rank);
	for (i = 0; i < n && !rc; i++)
		rc = emit(a, &groups[i], &groups[i].run, v->rank);
	return rc;
}

int aggregate_add(struct aggregate *a, const struct view *v, size_t n,
		  const struct aggregate_options *o, bool devices,
		  int (*class_of)(const struct view_row *r, int arg), int arg)
{
	struct group *groups;
	size_t i, class, from;
	int rc = 0;

	for (i = 0; i < n && !rc; i++) {
		groups = collect(&v[i], devices, class_of, arg);
		rc = groups ? 0 : -ENOMEM;
		for (class = 0; class < VIEW_CLASSES && !rc; class ++) {
			from = a->n;
			rc = add_class(a, groups + class * trace_texts(v[i].trace), &v[i], o);
			for (; from < a->n; from++) {
				a->rows[from].view = (uint32_t)i;
				a->rows[from].class = (uint8_t) class;
			}
		}
		free(groups);
	}
	return rc;
}

void aggregate_done(struct aggregate *a)
{
	free(a->rows);
	memset(a, 0, sizeof(*a));
}
