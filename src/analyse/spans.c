/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.c - see spans.h.
 */
#include "analyse/spans.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "base/bigmem.h"

#define AHEAD 16 /* rows that are fetched before they are looked at */

static struct spans_row row_of(const struct view *v, uint32_t id)
{
	const struct view_row *r = &v->rows[id];

	if (v->rule == VIEW_EXACT)
		return (struct spans_row){{(double)(r->ts - v->first), (double)(r->end - v->first)},
					  r->class};
	return (struct spans_row){{view_ts_us(v, r), view_end_us(v, r)}, r->class};
}

int spans_rows_new(const struct view *v, struct spans_rows *ret)
{
	struct spans_rows s = {0};
	size_t i, n;
	/* view_devices() keeps its list in the view. */
	const uint32_t *ids = view_devices((struct view *)v, false, &n);

	s.list = ids ? bigmem_alloc((n + 1) * sizeof(*s.list)) : NULL;
	if (!s.list)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(&v->rows[ids[i + AHEAD]]);
		s.negative += v->rows[ids[i]].end < v->rows[ids[i]].ts;
		s.list[i] = row_of(v, ids[i]);
	}
	s.n = n;
	s.is_by_table = v->table && s.negative;
	if (s.is_by_table) {
		ids = view_devices((struct view *)v, true, &n);
		for (i = 0; i < n; i++)
			s.list[i] = row_of(v, ids[i]);
	}
	*ret = s;
	return 0;
}

void spans_rows_done(struct spans_rows *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

int spans_rows_order(struct spans_rows *s)
{
	struct numeric_key *k;
	struct spans_row *list;
	size_t i;

	if (!s->is_by_table)
		return 0;
	k = malloc((s->n + 1) * sizeof(*k));
	list = malloc((s->n + 1) * sizeof(*list));
	for (i = 0; k && list && i < s->n; i++)
		k[i] = (struct numeric_key){s->list[i].span.ts, (uint32_t)i};
	if (!k || !list) {
		free(k);
		free(list);
		return -ENOMEM;
	}
	numeric_order(k, s->n);
	for (i = 0; i < s->n; i++)
		list[i] = s->list[k[i].id];
	free(k);
	free(s->list);
	s->list = list;
	return 0;
}

static void merge_exact(struct spans *s, const struct spans_one *one)
{
	if (one->end < one->ts)
		return;
	if (s->n && one->ts <= s->list[s->n - 1].end)
		s->list[s->n - 1].end = fmax(s->list[s->n - 1].end, one->end);
	else
		s->list[s->n++] = *one;
}

/* latest: the greatest end so far, of all groups. */
static void merge_hta(struct spans *s, const struct spans_one *one, double *latest)
{
	if (s->n && !(one->ts > *latest))
		s->list[s->n - 1].end = fmax(s->list[s->n - 1].end, one->end);
	else
		s->list[s->n++] = *one;
	*latest = fmax(*latest, one->end);
}

/* HTA: all ends less all starts, each summed as numpy sums. */
static int total_hta(struct spans *s)
{
	double *x = malloc((s->n + 1) * sizeof(*x)), starts;
	size_t i;

	if (!x)
		return -ENOMEM;
	for (i = 0; i < s->n; i++)
		x[i] = s->list[i].ts;
	starts = numeric_sum(x, s->n);
	for (i = 0; i < s->n; i++)
		x[i] = s->list[i].end;
	s->total = numeric_sum(x, s->n) - starts;
	free(x);
	return 0;
}

static void merge_list(const struct view *v, const struct spans_rows *rows, unsigned classes,
		       struct spans *s)
{
	double latest = -INFINITY;
	size_t i;

	for (i = 0; i < rows->n; i++) {
		if (!(classes & 1u << rows->list[i].class))
			continue;
		if (v->rule == VIEW_EXACT)
			merge_exact(s, &rows->list[i].span);
		else
			merge_hta(s, &rows->list[i].span, &latest);
	}
	for (i = 0; i < s->n; i++)
		s->total += s->list[i].end - s->list[i].ts;
}

/* Those of classes in HTA's order. */
static int choose(const struct spans_rows *rows, unsigned classes, struct spans_rows *ret)
{
	struct spans_rows mine = {.list = malloc((rows->n + 1) * sizeof(*mine.list)),
				  .is_by_table = true};
	size_t i;
	int rc;

	if (!mine.list)
		return -ENOMEM;
	for (i = 0; i < rows->n; i++)
		if (classes & 1u << rows->list[i].class)
			mine.list[mine.n++] = rows->list[i];
	rc = spans_rows_order(&mine);
	if (rc)
		spans_rows_done(&mine);
	else
		*ret = mine;
	return rc;
}

int spans_merge(const struct view *v, const struct spans_rows *rows, unsigned classes,
		struct spans *ret)
{
	struct spans s = {.list = bigmem_alloc((rows->n + 1) * sizeof(*s.list))};
	struct spans_rows mine = {0};
	int rc = s.list ? 0 : -ENOMEM;

	if (!rc && rows->is_by_table)
		rc = choose(rows, classes, &mine);
	if (!rc)
		merge_list(v, rows->is_by_table ? &mine : rows, classes, &s);
	if (!rc && v->rule != VIEW_EXACT)
		rc = total_hta(&s);
	spans_rows_done(&mine);
	if (rc)
		spans_done(&s);
	else
		*ret = s;
	return rc;
}

void spans_done(struct spans *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

int spans_sweep(const struct spans *sets, size_t n, bool whole, double ret[8])
{
	/* id: the set, and 8 for its end. */
	struct view_key *edges;
	size_t i, k, m = 0;
	int running = 0, weight;
	double length;

	for (k = 0; k < n; k++)
		m += 2 * sets[k].n;
	edges = bigmem_alloc((2 * m + 1) * sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	for (k = m = 0; k < n; k++) {
		for (i = 0; i < sets[k].n; i++) {
			edges[m++] =
				(struct view_key){numeric_bits(sets[k].list[i].ts), (uint32_t)k};
			edges[m++] = (struct view_key){numeric_bits(sets[k].list[i].end),
						       (uint32_t)k | 8};
		}
	}
	view_sort(edges, edges + m, m);
	memset(ret, 0, 8 * sizeof(*ret));
	for (i = 0; i + 1 < m; i++) {
		weight = 1 << (edges[i].id & 7);
		running += edges[i].id & 8 ? -weight : weight;
		length = numeric_of_bits(edges[i + 1].key) - numeric_of_bits(edges[i].key);
		if (running > 0)
			ret[running & 7] += whole ? trunc(length) : length;
	}
	free(edges);
	return 0;
}

int64_t spans_ns(const struct view *v, double time)
{
	return llround(v->rule == VIEW_EXACT ? time : time * 1000);
}
