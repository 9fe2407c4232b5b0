/* SPDX-License-Identifier: Apache-2.0
 *
 * derive.c - what is computed from answers: rates of counters, and bands of several
 * series.
 */
#include "store/store.h"

#include <math.h>

/* The place on the axis up to which amounts have been counted. */
struct derive {
	bool begun;
	int64_t from;  /* first and last place of what came before */
	double amount; /* that waits for the axis to move on */
};

/* Amounts up to `to`; NaN: it is not known in which time they came. */
static double derive_rate(struct derive *d, enum store_axis axis, int64_t to, double amount)
{
	double width, rate;

	d->amount += amount;
	if (to <= d->from)
		return NAN;
	width = (double)((uint64_t)to - (uint64_t)d->from);
	if (axis == STORE_BY_TIME)
		width /= 1e9;
	rate = d->amount / width;
	d->amount = 0;
	d->from = to;
	return rate;
}

static int64_t derive_place(const struct store_point *p, enum store_axis axis)
{
	return axis == STORE_BY_STEP ? p->step : p->time_ns;
}

/* Points of one place count as one. */
static void derive_points(struct store_result *r, enum store_axis axis)
{
	struct derive d = {0};
	size_t i, n = 0;
	int64_t at;

	for (i = 0; i < r->n;) {
		struct store_point p = r->points[i];
		double amount = 0;

		for (at = derive_place(&p, axis);
		     i < r->n && derive_place(&r->points[i], axis) == at; i++)
			amount += isnan(r->points[i].value) ? 0 : r->points[i].value;
		if (!d.begun) {
			d.from = at;
			d.begun = true;
			continue;
		}
		p.value = derive_rate(&d, axis, at, amount);
		r->points[n++] = p;
	}
	r->n = n;
}

static void derive_bucket(struct derive *d, struct store_bucket *b, enum store_axis axis)
{
	int64_t min = axis == STORE_BY_STEP ? b->step_min : b->time_min;
	int64_t max = axis == STORE_BY_STEP ? b->step_max : b->time_max;
	double sum = b->sum, rate;

	if (!d->begun) {
		d->from = min;
		sum -= isnan(b->first) ? 0 : b->first;
	}
	d->begun = true;
	rate = derive_rate(d, axis, max, sum);
	b->sum = b->min = b->max = b->first = b->last = rate;
	b->observed = 1;
	b->nan = 0;
	b->min_at = b->max_at = UINT64_MAX;
	if (isnan(rate))
		b->count = 0;
}

void store_rate(struct store_result *r, enum store_axis axis)
{
	struct derive d = {0};
	size_t i, n = 0;

	if (r->raw) {
		derive_points(r, axis);
		return;
	}
	for (i = 0; i < r->n; i++)
		if (r->buckets[i].count)
			derive_bucket(&d, &r->buckets[i], axis);
	if (r->aligned)
		return;
	for (i = 0; i < r->n; i++)
		if (r->buckets[i].count)
			r->buckets[n++] = r->buckets[i];
	r->n = n;
}

static void derive_band(struct store_band *band, const struct store_bucket *b, unsigned which)
{
	double mean = b->sum / (double)b->observed;

	if (band->series == 0) {
		*band = (struct store_band){.min = INFINITY,
					    .max = -INFINITY,
					    .low = INFINITY,
					    .high = -INFINITY,
					    .min_which = which,
					    .max_which = which};
	}
	band->series++;
	band->mean += mean;
	if (mean < band->min) {
		band->min = mean;
		band->min_which = which;
	}
	if (mean > band->max) {
		band->max = mean;
		band->max_which = which;
	}
	band->low = fmin(band->low, b->min);
	band->high = fmax(band->high, b->max);
}

void store_group(const struct store_result *results, const unsigned *which, size_t n,
		 size_t n_groups, size_t n_buckets, struct store_band *out)
{
	size_t i, k;

	for (i = 0; i < n_groups * n_buckets; i++)
		out[i] = (struct store_band){0};
	for (i = 0; i < n; i++) {
		struct store_band *bands = out + (size_t)which[i] * n_buckets;

		if (which[i] >= n_groups || results[i].raw)
			continue;
		for (k = 0; k < n_buckets && k < results[i].n; k++)
			if (results[i].buckets[k].count && results[i].buckets[k].observed)
				derive_band(&bands[k], &results[i].buckets[k], (unsigned)i);
	}
	for (i = 0; i < n_groups * n_buckets; i++)
		if (out[i].series)
			out[i].mean /= out[i].series;
}
