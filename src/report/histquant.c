/* SPDX-License-Identifier: Apache-2.0
 *
 * histquant.c - see histquant.h. Buckets of an answer are in order of the axis and know
 * how many points they have: so the points, in that order, are dealt out to them.
 */
#include "report/histquant.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HISTQUANT_KEYS 65536u

const unsigned histquant_percents[HISTQUANT_COLUMNS] = {50, 95, 99};

struct histquant {
	uint64_t of[HISTQUANT_KEYS];
	uint16_t touched[HISTQUANT_KEYS]; /* keys that have some */
	size_t n;
	uint64_t count;
	double min, max;
};

struct histquant *histquant_new(void)
{
	return xcalloc(1, sizeof(struct histquant));
}

void histquant_free(struct histquant *h)
{
	free(h);
}

void histquant_clear(struct histquant *h)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		h->of[h->touched[i]] = 0;
	h->n = 0;
	h->count = 0;
}

/* Counts of a damaged file do not go around: a key that has some keeps some. */
static uint64_t histquant_plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void histquant_bin(struct histquant *h, uint16_t key, uint64_t count)
{
	if (count == 0)
		return;
	if (h->of[key] == 0)
		h->touched[h->n++] = key;
	h->of[key] = histquant_plus(h->of[key], count);
	h->count = histquant_plus(h->count, count);
}

static void histquant_limits(struct histquant *h, double min, double max)
{
	h->min = h->count ? fmin(h->min, min) : min;
	h->max = h->count ? fmax(h->max, max) : max;
}

void histquant_add(struct histquant *h, const struct sink_hist *add)
{
	size_t i;

	if (add->count == 0)
		return;
	histquant_limits(h, add->min, add->max);
	for (i = 0; i < add->n_bins; i++)
		histquant_bin(h, add->bins[i].key, add->bins[i].count);
}

/* Where a key stands among all: those of negative numbers run backwards. */
static uint32_t histquant_order(uint16_t key)
{
	return key & 0x8000u ? 0xffffu - key : 0x8000u + key;
}

static int histquant_compare(const void *a, const void *b)
{
	uint32_t x = histquant_order(*(const uint16_t *)a),
		 y = histquant_order(*(const uint16_t *)b);

	return x < y ? -1 : x > y;
}

double histquant_edge(uint16_t key)
{
	uint64_t bits = (uint64_t)key << 48;
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* The value so far (0 to 1) into a bin, counted from the smaller end. */
static double histquant_inside(uint16_t key, double share)
{
	double near = histquant_edge(key), far;

	far = (key & 0x7fffu) == 0x7fefu ? (key & 0x8000u ? -HUGE_VAL : HUGE_VAL)
					 : histquant_edge((uint16_t)(key + 1u));
	if (!isfinite(near) || !isfinite(far))
		return near;
	return key & 0x8000u ? far + (near - far) * share : near + (far - near) * share;
}

double histquant_get(const struct histquant *h, unsigned percent)
{
	uint16_t *keys;
	/* Of sums that a damaged file made too large no rank is right. */
	uint64_t rank = h->count > UINT64_MAX / 200 ? h->count / 100 * percent
						    : (h->count * percent + 99) / 100;
	uint64_t below = 0;
	double v = NAN;
	size_t i;

	if (h->count == 0)
		return NAN;
	keys = xcalloc(h->n, sizeof(*keys));
	memcpy(keys, h->touched, h->n * sizeof(*keys));
	qsort(keys, h->n, sizeof(*keys), histquant_compare);
	for (i = 0; i < h->n; i++) {
		uint64_t in = h->of[keys[i]];

		if (histquant_plus(below, in) >= rank) {
			v = histquant_inside(keys[i], ((double)(rank - below) - 0.5) / (double)in);
			break;
		}
		below = histquant_plus(below, in);
	}
	free(keys);
	return fmax(h->min, fmin(h->max, v));
}

/* ---- rows of an answer ------------------------------------------------------------- */

struct histquant_point {
	int64_t x;
	size_t order, first; /* of its bins */
	uint32_t n;
	double min, max;
};

struct histquant_read {
	enum store_axis axis;
	struct histquant_point *points;
	size_t n, cap;
	struct sink_bin *bins;
	size_t n_bins, cap_bins;
};

static int histquant_point(void *arg, const struct store_point *p)
{
	struct histquant_read *r = arg;
	struct histquant_point *to;
	size_t i;

	if (r->axis == STORE_BY_STEP && p->step == SINK_STEP_NONE)
		return 0;
	if (!p->hist || r->n == HISTQUANT_POINTS_MAX ||
	    r->n_bins + p->hist->n_bins > HISTQUANT_BINS_MAX)
		return -E2BIG;
	r->points = xgrow(r->points, r->n, &r->cap, sizeof(*r->points));
	to = &r->points[r->n];
	*to = (struct histquant_point){.x = r->axis == STORE_BY_STEP ? p->step : p->time_ns,
				       .order = r->n++,
				       .first = r->n_bins,
				       .n = (uint32_t)p->hist->n_bins,
				       .min = p->hist->min,
				       .max = p->hist->max};
	for (i = 0; i < p->hist->n_bins; i++) {
		r->bins = xgrow(r->bins, r->n_bins, &r->cap_bins, sizeof(*r->bins));
		r->bins[r->n_bins++] = p->hist->bins[i];
	}
	return 0;
}

static int histquant_points_compare(const void *a, const void *b)
{
	const struct histquant_point *p = a, *q = b;

	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return p->order < q->order ? -1 : p->order > q->order;
}

static void histquant_row(struct histquant *h, const struct histquant_read *r, size_t from,
			  size_t to, double *out)
{
	size_t i, k;

	histquant_clear(h);
	for (i = from; i < to; i++) {
		const struct histquant_point *p = &r->points[i];

		if (p->n)
			histquant_limits(h, p->min, p->max);
		for (k = 0; k < p->n; k++)
			histquant_bin(h, r->bins[p->first + k].key, r->bins[p->first + k].count);
	}
	for (i = 0; i < HISTQUANT_COLUMNS; i++)
		out[i] = histquant_get(h, histquant_percents[i]);
}

static uint64_t histquant_count(const struct store_result *result, size_t i)
{
	return result->raw ? 1 : result->buckets[i].count;
}

/* Deal the points out; -E2BIG: there are fewer than the rows have. */
static int histquant_deal(const struct histquant_read *r, const struct store_result *result,
			  double *out)
{
	struct histquant *h = histquant_new();
	uint64_t at = 0, n;
	size_t i;

	for (i = 0; i < result->n; i++) {
		n = histquant_count(result, i);
		if (n > r->n - at)
			break;
		histquant_row(h, r, (size_t)at, (size_t)(at + n), out + i * HISTQUANT_COLUMNS);
		at += n;
	}
	histquant_free(h);
	return i < result->n ? -E2BIG : 0;
}

int histquant_rows(const struct runview *v, const struct store_series *s,
		   const struct store_query *ask, const struct store_result *result, struct err *e,
		   double **ret)
{
	struct histquant_read r = {.axis = ask->axis};
	double *out = NULL;
	int err;

	if (s->count > HISTQUANT_POINTS_MAX && !ask->range.by_time && !ask->range.by_step)
		return -E2BIG;
	err = store_reader_points(v->reader, s->host, s->id, &ask->range, histquant_point, &r, e);
	if (!err) {
		if (r.n)
			qsort(r.points, r.n, sizeof(*r.points), histquant_points_compare);
		out = xcalloc(result->n + 1, HISTQUANT_COLUMNS * sizeof(*out));
		err = histquant_deal(&r, result, out);
	}
	free(r.points);
	free(r.bins);
	if (err)
		free(out);
	else
		*ret = out;
	return err;
}
