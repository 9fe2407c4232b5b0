/* SPDX-License-Identifier: Apache-2.0
 *
 * column_diff.c - predictors of integers: differences up to the fourth (schedules
 * of the learning rate), a straight line (ticks of a timer), and behind either a
 * mean that forgets (noise around a slow trend, where a difference would double
 * the noise). All arithmetic wraps modulo 2^64, so every predictor is lossless.
 */
#include "store/column_priv.h"

#define DIFF_WINDOWS 4u
#define DIFF_WINDOW 256u
#define DIFF_WINDOW_QUICK 64u
#define DIFF_SHORT 16u      /* shortest window of a column that is cut into some */
#define DIFF_WARM_UP 64u    /* of a window, not counted: the mean finds its level */
#define DIFF_LONG 2048u     /* columns of which predictors are first tried on the windows, */
#define DIFF_NEAR 0.06      /* and how many bits a value worse than the best they may be there; */
#define DIFF_FEW 64u        /* numbers for which trying much does not pay */
#define DIFF_SURPRISE 0.5   /* the whole is worse than what was seen of it */
#define DIFF_NEAR_SHORT 0.3 /* of shorter columns, how many they may look worse */
#define DIFF_SLACK 0.4      /* bits a value by which what is tried may look worse than the best */
#define DIFF_GAIN 0.02      /* that a mean must look better by */
#define DIFF_ORDERS (COLUMN_LINE + 1)
#define DIFF_LINE_MAX (1ll << 44)

/* ---- residuals ------------------------------------------------------------------- */

COLUMN_BODY int64_t diff_at(const int64_t *y, unsigned order)
{
	uint64_t a = (uint64_t)y[0], b = order > 0 ? (uint64_t)y[-1] : 0,
		 c = order > 1 ? (uint64_t)y[-2] : 0, d = order > 2 ? (uint64_t)y[-3] : 0,
		 e = order > 3 ? (uint64_t)y[-4] : 0;

	switch (order) {
	case 0:
		return (int64_t)a;
	case 1:
		return (int64_t)(a - b);
	case 2:
		return (int64_t)(a - 2 * b + c);
	case 3:
		return (int64_t)(a - 3 * (b - c) - d);
	default:
		return (int64_t)(a - 4 * (b + d) + 6 * c + e);
	}
}

/* r[0..n) of y[0..n), which has order numbers before it. */
COLUMN_BODY void diff_body(const int64_t *y, size_t n, unsigned order, int64_t *r)
{
	size_t i;

#define DIFF_LOOP(o)                                                                               \
	for (i = 0; order == (o) && i < n; i++)                                                    \
	r[i] = diff_at(y + i, o)
	DIFF_LOOP(0);
	DIFF_LOOP(1);
	DIFF_LOOP(2);
	DIFF_LOOP(3);
	DIFF_LOOP(4);
#undef DIFF_LOOP
}

static void diff_plain(const int64_t *y, size_t n, unsigned order, int64_t *r)
{
	diff_body(y, n, order, r);
}

COLUMN_FAST static void diff_fast(const int64_t *y, size_t n, unsigned order, int64_t *r)
{
	diff_body(y, n, order, r);
}

/* The line through the first value, at the i-th. */
static inline int64_t diff_line(int64_t first, int64_t slope, size_t i)
{
	return column_add(first, (int64_t)((uint64_t)slope * i) >> 16);
}

static inline size_t diff_count(size_t n, unsigned order)
{
	return order == COLUMN_LINE ? n : n - order;
}

/* The first stage for y[at..at + n) of a column, to r; at is at least the order. */
static void diff_stage(const struct column_work *w, size_t at, size_t n,
		       const struct column_diff *d, int64_t *r)
{
	const int64_t *y = w->y;
	size_t i;

	if (d->order != COLUMN_LINE) {
		(w->fast ? diff_fast : diff_plain)(y + at, n, d->order, r);
		return;
	}
	for (i = 0; i < n; i++)
		r[i] = column_sub(y[at + i], diff_line(y[0], d->slope, at + i));
}

/* The second stage in place: less the mean so far. The mean is sum / 2^smooth and
 * the sum grows by each residual, which is all that the reverse needs. */
static void diff_smooth(int64_t *r, size_t n, unsigned smooth, int64_t level)
{
	uint64_t sum = (uint64_t)level << smooth;
	int64_t d;
	size_t i;

	for (i = 0; i < n; i++) {
		d = column_sub(r[i], (int64_t)sum >> smooth);
		sum += (uint64_t)d;
		r[i] = d;
	}
}

/* ---- choice ---------------------------------------------------------------------- */

/* About log2 of 1 + |v|, in units of 2^-11: of columns of up to 2^11 numbers the sum
 * fits. */
#define DIFF_SIZE_SHIFT 12
#define DIFF_SIZE_UNIT 0x1p-11

/* Slope between the means of the first and the last quarter, of some of their
 * numbers; false: there is no telling, or it is none. */
static bool diff_slope(const int64_t *y, size_t n, int64_t *ret)
{
	size_t quarter = n / 4, by = quarter / DIFF_WINDOW + 1, i;
	int64_t first = 0, last = 0, seen = 0, a, b;

	if (n < 16)
		return false;
	for (i = 0; i < quarter; i += by) {
		a = column_sub(y[i], y[0]);
		b = column_sub(y[n - quarter + i], y[0]);
		if (a > DIFF_LINE_MAX || a < -DIFF_LINE_MAX || b > DIFF_LINE_MAX ||
		    b < -DIFF_LINE_MAX)
			return false;
		first += a;
		last += b;
		seen++;
	}
	if (seen == 0)
		return false;
	*ret = (last - first) / seen * 65536 / (int64_t)(n - quarter);
	return *ret != 0;
}

/* Windows of a column behind a first stage, one after the other: 4, of short columns
 * one. */
struct diff_sample {
	int64_t *r;
	float *x; /* r less its median */
	size_t windows, len;
	size_t skip; /* that are not counted at the start of each: a mean finds its level */
};

COLUMN_BODY void diff_floats_body(const int64_t *r, size_t n, int64_t mid, float *x)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = (float)column_from_int(column_sub(r[i], mid));
}

static void diff_floats_plain(const int64_t *r, size_t n, int64_t mid, float *x)
{
	diff_floats_body(r, n, mid, x);
}

COLUMN_FAST static void diff_floats_fast(const int64_t *r, size_t n, int64_t mid, float *x)
{
	diff_floats_body(r, n, mid, x);
}

static struct diff_sample diff_sample(struct column_work *w, size_t n, const struct column_diff *d)
{
	size_t order = d->order % COLUMN_LINE, k, all;
	struct diff_sample s = {w->spare, (float *)(w->spare + COLUMN_MAX / 2), 1, n - order, 0};

	if (n >= DIFF_WINDOWS * DIFF_SHORT) {
		s.windows = DIFF_WINDOWS;
		s.len = (n - COLUMN_ORDER_MAX) / DIFF_WINDOWS;
		k = w->quick ? DIFF_WINDOW_QUICK : DIFF_WINDOW;
		s.len = s.len < k ? s.len : k;
		order = COLUMN_ORDER_MAX;
	}
	s.skip = s.len > 4 * DIFF_WARM_UP ? DIFF_WARM_UP : s.len / 4;
	all = s.windows * s.len;
	for (k = 0; k < s.windows; k++)
		diff_stage(w, order + (s.windows > 1 ? k * ((n - s.len - order) / 3) : 0), s.len, d,
			   s.r + k * s.len);
	(w->fast ? diff_floats_fast : diff_floats_plain)(s.r, all, column_median(w, s.r, all), s.x);
	return s;
}

COLUMN_BODY int32_t diff_size_body(const float *x, size_t n)
{
	int32_t sum = 0, bits;
	size_t i;

	for (i = 0; i < n; i++) {
		float f = __builtin_fabsf(x[i]) + 1;

		memcpy(&bits, &f, 4);
		sum += (bits - (127 << 23)) >> DIFF_SIZE_SHIFT;
	}
	return sum;
}

static int32_t diff_size_plain(const float *x, size_t n)
{
	return diff_size_body(x, n);
}

COLUMN_FAST static int32_t diff_size_fast(const float *x, size_t n)
{
	return diff_size_body(x, n);
}

/* Bits a value, about, without a mean. */
static double diff_size(const struct column_work *w, const struct diff_sample *s)
{
	size_t n = s->windows * s->len;

	return (w->fast ? diff_size_fast : diff_size_plain)(s->x, n) * DIFF_SIZE_UNIT / (double)n;
}

/* All means at once, one in each lane; the last two are idle. */
typedef float diff_lanes __attribute__((vector_size(32)));
typedef int32_t diff_lanes_int __attribute__((vector_size(32)));

COLUMN_BODY void diff_means_body(const float *x, size_t windows, size_t len, size_t skip,
				 int32_t *ret)
{
	const diff_lanes weight = {0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f, 0x1p-6f, 0, 0};
	diff_lanes mean[DIFF_WINDOWS], e, zero = {0};
	diff_lanes_int sum = {0}, size;
	size_t i, k;

	for (k = 0; k < windows; k++)
		mean[k] = zero + x[k * len];
	for (i = 0; i < skip; i++) {
#pragma GCC unroll 4
		for (k = 0; k < windows; k++)
			mean[k] += (x[k * len + i] - mean[k]) * weight;
	}
	for (; i < len; i++) {
#pragma GCC unroll 4
		for (k = 0; k < windows; k++) {
			e = x[k * len + i] - mean[k];
			mean[k] += e * weight;
			e = (diff_lanes)((diff_lanes_int)e & 0x7fffffff) + 1;
			size = (diff_lanes_int)e - (127 << 23);
			sum += size >> DIFF_SIZE_SHIFT;
		}
	}
	memcpy(ret, &sum, sizeof(sum));
}

static void diff_means_plain(const struct diff_sample *s, int32_t *ret)
{
	if (s->windows > 1)
		diff_means_body(s->x, DIFF_WINDOWS, s->len, s->skip, ret);
	else
		diff_means_body(s->x, 1, s->len, s->skip, ret);
}

COLUMN_FAST static void diff_means_fast(const struct diff_sample *s, int32_t *ret)
{
	if (s->windows > 1)
		diff_means_body(s->x, DIFF_WINDOWS, s->len, s->skip, ret);
	else
		diff_means_body(s->x, 1, s->len, s->skip, ret);
}

/* The mean that looks best, and bits a value with it. */
static unsigned diff_best_smooth(const struct column_work *w, const struct diff_sample *s,
				 double *ret)
{
	int32_t sum[sizeof(diff_lanes) / sizeof(float)];
	unsigned j, best = 0;

	(w->fast ? diff_means_fast : diff_means_plain)(s, sum);
	for (j = 1; j < COLUMN_SMOOTH_MAX; j++)
		best = sum[j] < sum[best] ? j : best;
	*ret = sum[best] * DIFF_SIZE_UNIT / (double)(s->windows * (s->len - s->skip));
	return best + 1;
}

/* Predictors that may be the best one. */
struct diff_list {
	struct column_diff d[2 * DIFF_ORDERS];
	double size[2 * DIFF_ORDERS]; /* bits a value, about */
	size_t n;
};

static void diff_push(struct diff_list *l, const struct column_diff *d, double size)
{
	l->d[l->n] = *d;
	l->size[l->n++] = size;
}

/* Bits that a predictor takes for the sample, about. */
static double diff_sample_bits(struct column_work *w, size_t n, const struct column_diff *d)
{
	struct diff_sample s = diff_sample(w, n, d);
	struct column_pack pack;
	int64_t *r, level;
	size_t k;

	for (k = 0; d->smooth && k < s.windows; k++) {
		r = s.r + k * s.len;
		level = column_median(w, r, 16);
		diff_smooth(r, s.len, d->smooth, level);
	}
	column_pack_plan(w, s.r, s.windows * s.len, &pack);
	return pack.bits / (double)(s.windows * s.len);
}

/* Add an order if it looks no worse than limit, with and without a mean. */
static void diff_add(struct column_work *w, size_t n, struct column_diff d, double plain,
		     double limit, struct diff_list *l)
{
	struct diff_sample s = diff_sample(w, n, &d);
	double size = 1e9;

	if (s.skip)
		d.smooth = diff_best_smooth(w, &s, &size);
	if (size < limit && size < plain - DIFF_GAIN)
		diff_push(l, &d, size);
	d.smooth = 0;
	if (plain < limit)
		diff_push(l, &d, plain);
}

/* Bits a value of the one that looks best. */
static double diff_least(const struct diff_list *l)
{
	double least = 1e18;
	size_t i;

	for (i = 0; i < l->n; i++)
		least = l->size[i] < least ? l->size[i] : least;
	return least;
}

/* Try a predictor on the whole column; keep it if it is better than *ret. */
static void diff_try(struct column_work *w, size_t n, struct column_diff d, struct column_diff *ret)
{
	size_t rest = diff_count(n, d.order);
	int64_t *r = w->r;

	diff_stage(w, n - rest, rest, &d, r);
	if (d.smooth) {
		d.level = column_median(w, r, rest < 16 ? rest : 16);
		diff_smooth(r, rest, d.smooth, d.level);
	}
	column_pack_plan(w, r, rest, &d.pack);
	d.pack.bits += 16 * (d.order % COLUMN_LINE) + (d.smooth ? 16 : 0);
	if (d.pack.bits >= ret->pack.bits)
		return;
	*ret = d;
	w->r = w->best;
	w->best = r;
}

/* Try those that look good; all, if what was seen of a long column was not like the
 * rest of it: a jump between windows spoils a mean for long. */
static void diff_try_all(struct column_work *w, size_t n, const struct diff_list *l,
			 struct column_diff *ret)
{
	double least = diff_least(l), near = DIFF_NEAR_SHORT;
	size_t i;

	if (n >= DIFF_LONG || n < DIFF_FEW)
		near = DIFF_NEAR;
	if (w->quick)
		near = 0;
	ret->pack.bits = 1e18;
	for (i = 0; i < l->n; i++)
		if (l->size[i] <= least + near)
			diff_try(w, n, l->d[i], ret);
	for (i = 0; n >= DIFF_LONG && l->n > 1 && i < l->n; i++)
		if (l->size[i] > least + near &&
		    ret->pack.bits > (least + DIFF_SURPRISE) * (double)n)
			diff_try(w, n, l->d[i], ret);
}

/* Bits a value, about, of each order without a mean; returns the best. */
static unsigned diff_orders(struct column_work *w, size_t n, int64_t *slope, double *plain)
{
	struct column_diff d = {0};
	unsigned best = 0;
	struct diff_sample s;

	for (; d.order < DIFF_ORDERS; d.order++) {
		plain[d.order] = 1e9;
		if (d.order == COLUMN_LINE ? !diff_slope(w->y, n, &d.slope) : d.order >= n)
			continue;
		/* Once they become larger they do not get smaller again. */
		if (d.order > 2 && d.order < COLUMN_LINE &&
		    plain[d.order - 1] > plain[d.order - 2] + DIFF_SLACK)
			continue;
		s = diff_sample(w, n, &d);
		plain[d.order] = diff_size(w, &s);
		best = plain[d.order] < plain[best] ? d.order : best;
	}
	*slope = d.slope;
	return best;
}

static unsigned diff_second(const double *plain, unsigned best)
{
	unsigned order, second = best == 0;

	for (order = 0; order < DIFF_ORDERS; order++)
		if (order != best && plain[order] < plain[second])
			second = order;
	return second;
}

void column_diff_plan(struct column_work *w, size_t n, struct column_diff *ret)
{
	double plain[DIFF_ORDERS];
	struct diff_list l = {.n = 0};
	struct column_diff d = {0};
	unsigned best = diff_orders(w, n, &d.slope, plain);
	unsigned second = diff_second(plain, best), below;
	size_t i;

	d.order = best;
	diff_add(w, n, d, plain[best], 1e8, &l);
	d.order = second;
	if (plain[second] < 1e9 && !w->quick)
		diff_add(w, n, d, plain[second], plain[best] + DIFF_SLACK, &l);
	/* Noise around a slow trend looks best as differences, but a mean is better. */
	below = best % COLUMN_LINE ? best - 1 : 0;
	d.order = below;
	if (below != best && below != second)
		diff_add(w, n, d, plain[below], plain[best] + DIFF_SLACK, &l);
	d.order = COLUMN_LINE;
	if (below != best && second != COLUMN_LINE && plain[COLUMN_LINE] < 1e9 && !w->quick)
		diff_add(w, n, d, plain[COLUMN_LINE], plain[best] + DIFF_SLACK, &l);
	for (i = 0; n >= DIFF_LONG && l.n > 1 && i < l.n; i++)
		l.size[i] = diff_sample_bits(w, n, &l.d[i]);
	diff_try_all(w, n, &l, ret);
}

/* ---- bytes ----------------------------------------------------------------------- */

void column_diff_put(struct column_work *w, struct buf *b, size_t n, const struct column_diff *d)
{
	int64_t last = 0;
	unsigned i;

	buf_putc(b, (char)(d->order | d->smooth << 3));
	for (i = 0; i < (d->order == COLUMN_LINE ? 1 : d->order); i++) {
		buf_svarint(b, column_sub(w->y[i], last));
		last = w->y[i];
	}
	if (d->order == COLUMN_LINE)
		buf_svarint(b, d->slope);
	if (d->smooth)
		buf_svarint(b, d->level);
	column_pack_put(w, b, w->best, diff_count(n, d->order), &d->pack);
}

static void diff_back_smooth(int64_t *r, size_t n, unsigned smooth, int64_t level)
{
	uint64_t sum = (uint64_t)level << smooth;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t d = (uint64_t)r[i];

		r[i] = column_add((int64_t)d, (int64_t)sum >> smooth);
		sum += d;
	}
}

/* y[order..n) hold differences, y[0..order) are known: sum up. */
static void diff_back(int64_t *y, size_t n, unsigned order)
{
	uint64_t s[COLUMN_ORDER_MAX] = {0}; /* last difference of each order from 0 */
	unsigned k;
	size_t i;

	for (k = 0; k < order; k++)
		s[k] = (uint64_t)diff_at(y + order - 1, k);
	switch (order) {
	case 1:
		for (i = 1; i < n; i++)
			y[i] = (int64_t)(s[0] += (uint64_t)y[i]);
		return;
	case 2:
		for (i = 2; i < n; i++) {
			s[1] += (uint64_t)y[i];
			y[i] = (int64_t)(s[0] += s[1]);
		}
		return;
	case 3:
		for (i = 3; i < n; i++) {
			s[2] += (uint64_t)y[i];
			s[1] += s[2];
			y[i] = (int64_t)(s[0] += s[1]);
		}
		return;
	default:
		for (i = 4; i < n; i++) {
			s[3] += (uint64_t)y[i];
			s[2] += s[3];
			s[1] += s[2];
			y[i] = (int64_t)(s[0] += s[1]);
		}
	}
}

/* The predictor; y[0..order) as they are, and for a line its first value in *first. */
static const char *diff_get_kind(struct cur *c, size_t n, int64_t *y, struct column_diff *d,
				 int64_t *first)
{
	const unsigned char *kind = cur_bytes(c, 1);
	int64_t last = 0;
	unsigned i;

	if (!kind || (*kind & 7u) > COLUMN_LINE || *kind >> 3 > (int)COLUMN_SMOOTH_MAX)
		return "the predictor of a column is unknown";
	*d = (struct column_diff){.order = *kind & 7u, .smooth = *kind >> 3};
	if (d->order % COLUMN_LINE >= n)
		return "the predictor of a column is longer than it";
	for (i = 0; i < d->order % COLUMN_LINE; i++)
		y[i] = last = column_add(last, cur_svarint(c));
	if (d->order == COLUMN_LINE) {
		*first = cur_svarint(c);
		d->slope = cur_svarint(c);
	}
	if (d->smooth)
		d->level = cur_svarint(c);
	return c->error ? "the predictor of a column is cut short" : NULL;
}

const char *column_diff_get(struct column_work *w, struct cur *c, size_t n)
{
	struct column_diff d;
	int64_t first = 0, *r;
	const char *why = diff_get_kind(c, n, w->y, &d, &first);
	size_t rest, k;

	if (why)
		return why;
	rest = diff_count(n, d.order);
	r = w->y + (n - rest);
	why = column_pack_get(w, c, rest, r);
	if (why)
		return why;
	if (d.smooth)
		diff_back_smooth(r, rest, d.smooth, d.level);
	if (d.order == COLUMN_LINE)
		for (k = 0; k < n; k++)
			r[k] = column_add(r[k], diff_line(first, d.slope, k));
	else if (d.order)
		diff_back(w->y, n, d.order);
	return NULL;
}
