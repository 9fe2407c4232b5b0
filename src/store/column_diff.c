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
#define DIFF_WARM_UP 64u /* of a window, not counted: the mean finds its level */
#define DIFF_SLACK 0.4   /* bits a value by which what is tried may look worse than the best */
#define DIFF_GAIN 0.02   /* that a mean must look better by */
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

/* About log2 of 1 + |v|, in units of 2^-23. */
static inline int64_t diff_size(int64_t v)
{
	float f = __builtin_fabsf((float)v) + 1;
	int32_t bits;

	memcpy(&bits, &f, 4);
	return bits - (127 << 23);
}

/* Slope between the means of the first and the last quarter; false: there is no
 * telling, or it is none. */
static bool diff_slope(const int64_t *y, size_t n, int64_t *ret)
{
	int64_t first = 0, last = 0, d;
	size_t quarter = n / 4, i;

	if (n < 16)
		return false;
	for (i = 0; i < n; i++) {
		d = column_sub(y[i], y[0]);
		if (d > DIFF_LINE_MAX || d < -DIFF_LINE_MAX)
			return false;
		if (i < quarter)
			first += d;
		else if (i >= n - quarter)
			last += d;
	}
	d = (last - first) / (int64_t)quarter;
	*ret = d * 65536 / (int64_t)(n - quarter);
	return *ret != 0;
}

/* Windows of a column behind a first stage, one after the other in r. */
struct diff_sample {
	const int64_t *r;
	size_t windows, len; /* of one */
	size_t skip;         /* that are not counted at the start of each */
};

static struct diff_sample diff_sample(struct column_work *w, size_t n, const struct column_diff *d)
{
	size_t order = d->order % COLUMN_LINE, k, at = order;
	struct diff_sample s = {w->spare, 1, n - order, 0};

	if (n > 4 * DIFF_WINDOW)
		s = (struct diff_sample){w->spare, DIFF_WINDOWS, DIFF_WINDOW, 0};
	s.skip = s.len > 4 * DIFF_WARM_UP || s.windows > 1 ? DIFF_WARM_UP : s.len / 4;
	for (k = 0; k < s.windows; k++) {
		if (s.windows > 1)
			at = 4 + k * ((n - s.len - 8) / (s.windows - 1));
		diff_stage(w, at, s.len, d, w->spare + k * s.len);
	}
	return s;
}

/* Bits a value, about, without a mean. */
static double diff_plain_size(const struct diff_sample *s)
{
	size_t n = s->windows * s->len, i;
	int64_t mid = column_median(s->r, n), sum = 0;

	for (i = 0; i < n; i++)
		sum += diff_size(column_sub(s->r[i], mid));
	return (double)sum * 0x1p-23 / (double)n;
}

/* The mean that looks best, and bits a value with it. */
static unsigned diff_best_smooth(const struct diff_sample *s, double *ret)
{
	int64_t sum[COLUMN_SMOOTH_MAX + 1] = {0}, e;
	uint64_t mean[COLUMN_SMOOTH_MAX + 1];
	const int64_t *r = s->r;
	unsigned j, best = 1;
	size_t k, i;

	for (k = 0; k < s->windows; k++, r += s->len) {
		for (j = 1; j <= COLUMN_SMOOTH_MAX; j++)
			mean[j] = (uint64_t)r[0] << j;
		for (i = 0; i < s->len; i++) {
			for (j = 1; j <= COLUMN_SMOOTH_MAX; j++) {
				e = column_sub(r[i], (int64_t)mean[j] >> j);
				mean[j] += (uint64_t)e;
				sum[j] += i < s->skip ? 0 : diff_size(e);
			}
		}
	}
	for (j = 2; j <= COLUMN_SMOOTH_MAX; j++)
		best = sum[j] < sum[best] ? j : best;
	*ret = (double)sum[best] * 0x1p-23 / (double)(s->windows * (s->len - s->skip));
	return best;
}

/* Try a predictor on the whole column; keep it if it is better than *ret. */
static void diff_try(struct column_work *w, size_t n, struct column_diff d, struct column_diff *ret)
{
	size_t rest = diff_count(n, d.order);

	diff_stage(w, n - rest, rest, &d, w->r);
	if (d.smooth) {
		d.level = column_median(w->r, rest < 16 ? rest : 16);
		diff_smooth(w->r, rest, d.smooth, d.level);
	}
	column_pack_plan(w, w->r, rest, &d.pack);
	d.pack.bits += 16 * (d.order % COLUMN_LINE) + (d.smooth ? 16 : 0);
	if (d.pack.bits >= ret->pack.bits)
		return;
	*ret = d;
	memcpy(w->best, w->r, rest * sizeof(w->r[0]));
}

/* Try an order that looks no worse than limit, with and without a mean. */
static void diff_try_order(struct column_work *w, size_t n, struct column_diff d, double plain,
			   double limit, struct column_diff *ret)
{
	struct diff_sample s = diff_sample(w, n, &d);
	double size = 1e9;

	if (s.skip)
		d.smooth = diff_best_smooth(&s, &size);
	if (size < limit && size < plain - DIFF_GAIN)
		diff_try(w, n, d, ret);
	d.smooth = 0;
	if (plain < limit)
		diff_try(w, n, d, ret);
}

void column_diff_plan(struct column_work *w, size_t n, struct column_diff *ret)
{
	double plain[DIFF_ORDERS];
	struct column_diff d = {0};
	unsigned best = 0, second, below;
	struct diff_sample s;

	ret->pack.bits = 1e18;
	for (; d.order < DIFF_ORDERS; d.order++) {
		plain[d.order] = 1e9;
		if (d.order == COLUMN_LINE ? !diff_slope(w->y, n, &d.slope) : d.order >= n)
			continue;
		s = diff_sample(w, n, &d);
		plain[d.order] = diff_plain_size(&s);
		best = plain[d.order] < plain[best] ? d.order : best;
	}
	for (second = best == 0, d.order = 0; d.order < DIFF_ORDERS; d.order++)
		if (d.order != best && plain[d.order] < plain[second])
			second = d.order;
	d.order = best;
	diff_try_order(w, n, d, plain[best], 1e8, ret);
	d.order = second;
	diff_try_order(w, n, d, plain[second], plain[best] + DIFF_SLACK, ret);
	/* Noise around a slow trend looks best as differences, but a mean is better. */
	below = best % COLUMN_LINE ? best - 1 : 0;
	d.order = below;
	if (below != best && below != second)
		diff_try_order(w, n, d, plain[below], plain[best] + DIFF_SLACK, ret);
	d.order = COLUMN_LINE;
	if (below != best && second != COLUMN_LINE && plain[COLUMN_LINE] < 1e9)
		diff_try_order(w, n, d, plain[COLUMN_LINE], plain[best] + DIFF_SLACK, ret);
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
