/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - see compare.h. A resample's median is found by counting: values are replaced by
 * their places in order once, so that a resample costs one addition a point.
 */
#include "analyse/compare.h"

#include "analyse/numeric.h"
#include "base/mem.h"
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t compare_thin(double *x, size_t n, size_t most)
{
	size_t step = most ? (n + most - 1) / most : 1, i, k = 0;

	if (step <= 1)
		return n;
	for (i = 0; i < n; i += step)
		x[k++] = x[i];
	return k;
}

int compare_describe(const double *x, size_t n, struct compare_summary *ret)
{
	double *sorted;

	*ret = (struct compare_summary){n, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
	if (n == 0)
		return 0;
	sorted = malloc(n * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, x, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), number_order);
	ret->median = numeric_quantile(sorted, n, 0.5);
	ret->p5 = numeric_quantile(sorted, n, 0.05);
	ret->p95 = numeric_quantile(sorted, n, 0.95);
	ret->min = sorted[0];
	ret->max = sorted[n - 1];
	ret->mean = numeric_sum(x, n) / (double)n;
	ret->last = x[n - 1];
	free(sorted);
	return 0;
}

/* ---- length of blocks ---------------------------------------------------------------- */

/* Covariance and correlation of the deviations d at a lag. */
static void compare_lag(const double *d, size_t n, size_t lag, double *cov, double *corr)
{
	double cross = 0, early = 0, late = 0;
	size_t i;

	for (i = 0; i + lag < n; i++)
		cross += d[i] * d[i + lag];
	for (i = 0; i + lag + 1 < n; i++) {
		early += d[i] * d[i];
		late += d[i + lag + 1] * d[i + lag + 1];
	}
	*cov = cross / (double)n;
	*corr = early > 0 && late > 0 ? fabs(cross) / sqrt(early * late) : 0;
}

#define COMPARE_LAGS_MAX 128u /* ceil(sqrt(8192)) + 5 and one more */

/* Twice the lag behind which correlations are like nothing, as Politis and White choose it. */
static size_t compare_lags(const double *d, size_t n, double cov[COMPARE_LAGS_MAX],
			   bool *ret_is_trend)
{
	double corr[COMPARE_LAGS_MAX], critical = 2 * sqrt(log10((double)n) / (double)n);
	size_t few = 5, most = (size_t)ceil(sqrt((double)n)) + few, quiet = 0, lag, found = 0;
	bool is_found = false;

	if (most > n - 2)
		most = n - 2;
	if (most > COMPARE_LAGS_MAX - 1)
		most = COMPARE_LAGS_MAX - 1;
	for (lag = 0; lag <= most; lag++) {
		compare_lag(d, n, lag, &cov[lag], &corr[lag]);
		quiet = corr[lag] < critical ? quiet + 1 : 0;
		/* A lag counts once the next one is looked at, as in the reference. */
		if (!is_found && quiet >= few && lag < most) {
			found = lag + 1 - few;
			is_found = true;
		}
	}
	*ret_is_trend = !is_found;
	if (!is_found)
		return most;
	found = 2 * (found > 1 ? found : 1);
	return found < most ? found : most;
}

double compare_block(const double *x, size_t n, bool *ret_is_trend)
{
	double cov[COMPARE_LAGS_MAX], *d, mean, g = 0, spread, weight, block;
	size_t i, lags;

	*ret_is_trend = false;
	if (n < 8)
		return 1;
	d = xcalloc(n, sizeof(*d));
	mean = numeric_sum(x, n) / (double)n;
	for (i = 0; i < n; i++)
		d[i] = x[i] - mean;
	lags = compare_lags(d, n, cov, ret_is_trend);
	free(d);
	if (cov[0] <= 1e-24 * mean * mean) {
		*ret_is_trend = false; /* the same value always: what is left is rounding */
		return 1;
	}
	spread = cov[0];
	for (i = 1; i <= lags; i++) {
		weight = 2 * i <= lags ? 1 : 2 * (1 - (double)i / (double)lags);
		g += 2 * weight * (double)i * cov[i];
		spread += 2 * weight * cov[i];
	}
	block = cbrt(2 * g * g / (4.0 / 3 * spread * spread)) * cbrt((double)n);
	if (!(block >= 1)) /* also without spread */
		return 1;
	return fmin(block, ceil(fmin(3 * sqrt((double)n), (double)n / 3)));
}

/* ---- resampling ---------------------------------------------------------------------- */

static uint64_t compare_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct compare_side {
	size_t n, block;
	bool is_trend;
	double *sorted;
	uint16_t *place; /* of each point in sorted */
	uint16_t *count; /* of each place, in a resample */
};

static int compare_by_key(const void *a, const void *b)
{
	const struct numeric_key *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void compare_side_done(struct compare_side *s)
{
	free(s->sorted);
	free(s->place);
	free(s->count);
}

static int compare_side_init(struct compare_side *s, const double *x, size_t n, size_t block)
{
	struct numeric_key *keys = malloc((n + 1) * sizeof(*keys));
	size_t i;

	*s = (struct compare_side){.n = n, .block = block};
	s->sorted = malloc((n + 1) * sizeof(*s->sorted));
	s->place = malloc((n + 1) * sizeof(*s->place));
	s->count = malloc((n + 1) * sizeof(*s->count));
	if (!keys || !s->sorted || !s->place || !s->count) {
		free(keys);
		compare_side_done(s);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++)
		keys[i] = (struct numeric_key){x[i], (uint32_t)i};
	qsort(keys, n, sizeof(*keys), compare_by_key);
	for (i = 0; i < n; i++) {
		s->sorted[i] = keys[i].key;
		s->place[keys[i].id] = (uint16_t)i;
	}
	free(keys);
	if (!block) {
		s->block = (size_t)ceil(compare_block(x, n, &s->is_trend) - 1e-9);
		s->block = s->block < 1 ? 1 : s->block;
	}
	return 0;
}

static double compare_resample(struct compare_side *s, uint64_t *random)
{
	size_t left = s->n, at, len, i, seen = 0, half = (s->n - 1) / 2;
	double low;

	memset(s->count, 0, s->n * sizeof(*s->count));
	while (left > 0) {
		/* The modulus favours none by more than n / 2^64. */
		at = (size_t)(compare_random(random) % s->n);
		len = s->block < left ? s->block : left;
		left -= len;
		for (i = 0; i < len; i++) {
			s->count[s->place[at]]++;
			at = at + 1 < s->n ? at + 1 : 0;
		}
	}
	for (i = 0; seen + s->count[i] <= half; i++)
		seen += s->count[i];
	low = s->sorted[i];
	if (s->n % 2)
		return low;
	for (; seen + s->count[i] <= half + 1; i++)
		seen += s->count[i];
	return low + (s->sorted[i] - low) / 2;
}

static int compare_interval(struct compare_side side[2], const struct compare_options *o,
			    struct compare_result *r)
{
	size_t n = o->resamples ? o->resamples : COMPARE_RESAMPLES, i;
	double *v = malloc(n * sizeof(*v)), a;
	uint64_t random = o->seed;

	if (!v)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		a = compare_resample(&side[0], &random);
		v[i] = compare_resample(&side[1], &random) - a;
	}
	qsort(v, n, sizeof(*v), number_order);
	r->low = numeric_quantile(v, n, (1 - o->confidence) / 2);
	r->high = numeric_quantile(v, n, (1 + o->confidence) / 2);
	free(v);
	return 0;
}

/* ---- the verdict --------------------------------------------------------------------- */

static const char *const compare_names[] = {
	[COMPARE_NOT_ENOUGH] = "not-enough", [COMPARE_SAME] = "same",
	[COMPARE_BETTER] = "better",         [COMPARE_WORSE] = "worse",
	[COMPARE_DIFFERS] = "differs",
};

const char *compare_verdict_name(enum compare_verdict v)
{
	return compare_names[(unsigned)v < ARRAY_LEN(compare_names) ? v : COMPARE_NOT_ENOUGH];
}

static const char *const compare_reasons[] = {
	[COMPARE_FEW_POINTS] = "few-points",
	[COMPARE_LEVEL_CHANGES] = "level-changes",
	[COMPARE_WIDE_INTERVAL] = "wide",
	[COMPARE_APART] = "apart",
};

const char *compare_reason_name(enum compare_reason r)
{
	return (unsigned)r < ARRAY_LEN(compare_reasons) ? compare_reasons[r] : NULL;
}

static void compare_judge(struct compare_result *r, const struct compare_options *o)
{
	bool has_zero = r->low <= 0 && r->high >= 0;
	double base = fabs(r->median[0]), far = fmax(fabs(r->low), fabs(r->high));
	/* Without a base of its own a difference is as large as it is: any counts. */
	bool is_small = base > 0 ? fabs(r->difference) < o->tolerance * base : r->difference == 0;
	double wide = base * fmax(COMPARE_WIDE, o->tolerance);

	if (has_zero && far > wide) {
		r->verdict = COMPARE_NOT_ENOUGH;
		r->reason = COMPARE_WIDE_INTERVAL;
		r->why = "the interval has 0 in it and is too wide to say that they are the same";
	} else if (has_zero) {
		r->verdict = COMPARE_SAME;
		r->why = "the interval has 0 in it";
	} else if (is_small) {
		r->verdict = COMPARE_SAME;
		r->why = "the difference is smaller than the tolerance";
	} else {
		r->verdict = o->direction == 0                           ? COMPARE_DIFFERS
			     : (r->difference > 0) == (o->direction > 0) ? COMPARE_BETTER
									 : COMPARE_WORSE;
		r->why = r->low > 0 ? "the interval lies above 0 and the difference is not below "
				      "the tolerance"
				    : "the interval lies below 0 and the difference is not below "
				      "the tolerance";
	}
}

static bool compare_is_enough(const struct compare_side side[2], struct compare_result *r)
{
	int i;

	for (i = 0; i < 2; i++) {
		r->block[i] = side[i].block;
		r->is_in[i] = side[i].n < COMPARE_POINTS_MIN;
	}
	if (r->is_in[0] || r->is_in[1]) {
		r->reason = COMPARE_FEW_POINTS;
		r->why = "fewer than 20 points in the steady part of one of the runs";
		return false;
	}
	for (i = 0; i < 2; i++)
		r->is_in[i] = side[i].is_trend;
	if (r->is_in[0] || r->is_in[1]) {
		r->reason = COMPARE_LEVEL_CHANGES;
		r->why = "the level changes within one of the runs (a trend or a jump): "
			 "choose the part to compare";
		return false;
	}
	return true;
}

/* A level that moves a little says nothing against a difference that is larger than all of it. */
static bool compare_is_apart(const struct compare_side side[2], struct compare_result *r)
{
	double low[2], high[2];
	int i;

	for (i = 0; i < 2; i++) {
		low[i] = numeric_quantile(side[i].sorted, side[i].n, 0.05);
		high[i] = numeric_quantile(side[i].sorted, side[i].n, 0.95);
	}
	if (low[1] <= high[0] && low[0] <= high[1])
		return false;
	r->low = low[1] - high[0];
	r->high = high[1] - low[0];
	return true;
}

int compare_medians(const double *a, size_t n_a, const double *b, size_t n_b,
		    const struct compare_options *o, struct compare_result *ret)
{
	struct compare_side side[2];
	double base;
	int err;

	*ret = (struct compare_result){.low = NAN,
				       .high = NAN,
				       .relative_low = NAN,
				       .relative_high = NAN,
				       .difference = NAN,
				       .relative = NAN,
				       .median = {NAN, NAN}};
	if (n_a > COMPARE_POINTS_MAX || n_b > COMPARE_POINTS_MAX || !(o->confidence > 0) ||
	    !(o->confidence < 1))
		return -EINVAL;
	err = compare_side_init(&side[0], a, n_a, o->block);
	if (err)
		return err;
	err = compare_side_init(&side[1], b, n_b, o->block);
	if (err) {
		compare_side_done(&side[0]);
		return err;
	}
	ret->median[0] = numeric_quantile(side[0].sorted, n_a, 0.5);
	ret->median[1] = numeric_quantile(side[1].sorted, n_b, 0.5);
	ret->difference = ret->median[1] - ret->median[0];
	if (compare_is_enough(side, ret)) {
		err = compare_interval(side, o, ret);
		if (!err)
			compare_judge(ret, o);
	} else if (ret->reason == COMPARE_LEVEL_CHANGES && compare_is_apart(side, ret)) {
		compare_judge(ret, o);
		ret->reason = COMPARE_APART;
		if (ret->verdict != COMPARE_SAME)
			ret->why = "the level changes within one of the runs, but their 5th to "
				   "95th percentiles do not overlap";
	}
	base = fabs(ret->median[0]);
	if (base > 0) {
		ret->relative = ret->difference / base;
		ret->relative_low = ret->low / base;
		ret->relative_high = ret->high / base;
	}
	compare_side_done(&side[0]);
	compare_side_done(&side[1]);
	return err;
}
