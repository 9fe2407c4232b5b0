/* SPDX-License-Identifier: Apache-2.0
 *
 * quantile.c - see quantile.h.
 */
#include "report/quantile.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/number.h"

void quantiles_add(struct quantiles *q, double v)
{
	if (isnan(v))
		return;
	if (q->count == 0 || v > q->max)
		q->max = v;
	q->count++;
	q->total += v;
	if (q->n == QUANTILE_VALUES_MAX)
		return;
	q->values = xgrow(q->values, q->n, &q->cap, sizeof(*q->values));
	q->values[q->n++] = v;
	q->sorted = false;
}

double quantiles_get(struct quantiles *q, unsigned percent)
{
	uint64_t rank;

	if (q->n == 0 || q->count > q->n)
		return NAN;
	if (!q->sorted)
		qsort(q->values, q->n, sizeof(*q->values), number_order);
	q->sorted = true;
	/* In whole numbers: 0.95 x 20 must be 19, not 19.000000000000004. */
	rank = ((uint64_t)q->n * percent + 99) / 100;
	return q->values[rank ? rank - 1 : 0];
}

void quantiles_done(struct quantiles *q)
{
	free(q->values);
	*q = (struct quantiles){0};
}
