/* SPDX-License-Identifier: Apache-2.0
 *
 * temporal.c - see temporal.h.
 */
#include "analyse/temporal.h"

#include <errno.h>
#include <math.h>

#include "analyse/numeric.h"
#include "analyse/spans.h"

static void count_rows(const struct spans_rows *rows, struct temporal *t)
{
	size_t i;

	t->rows = rows->n;
	t->negative = rows->negative;
	for (i = 0; i < rows->n; i++)
		t->kernels[rows->list[i].class]++;
}

static void divide(const struct view *v, const struct spans *all, const struct spans *compute,
		   struct temporal *t)
{
	double total = all->n ? all->list[all->n - 1].end - all->list[0].ts : 0;
	double idle = total - all->total;
	double rest = total - compute->total - idle;

	t->total = spans_ns(v, total);
	t->idle = spans_ns(v, idle);
	t->compute = spans_ns(v, compute->total);
	t->non_compute = spans_ns(v, rest);
	t->idle_pct = numeric_round(100 * (idle / total), 2);
	t->compute_pct = numeric_round(100 * (compute->total / total), 2);
	t->non_compute_pct = numeric_round(100 * (rest / total), 2);
}

int temporal_of(const struct view *v, struct temporal *ret)
{
	struct spans all = {0}, compute = {0};
	struct spans_rows rows = {0};
	struct temporal t = {0};
	int rc = spans_rows_new(v, &rows);

	if (!rc && !rows.n)
		rc = -ENODATA;
	/* HTA sorts the rows themselves first, and what it takes of them again. */
	if (!rc)
		rc = spans_rows_order(&rows);
	if (!rc)
		rc = spans_merge(v, &rows, SPANS_ALL, &all);
	if (!rc)
		rc = spans_merge(v, &rows, 1u << VIEW_COMPUTATION, &compute);
	if (!rc) {
		count_rows(&rows, &t);
		divide(v, &all, &compute, &t);
		*ret = t;
	}
	spans_done(&all);
	spans_done(&compute);
	spans_rows_done(&rows);
	return rc;
}
