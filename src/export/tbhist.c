/* SPDX-License-Identifier: Apache-2.0
 *
 * tbhist.c - our log-linear bins as TensorBoard's HistogramProto. A bucket of
 * it reaches from the limit of the one before to its own, so that gaps between
 * bins become empty buckets.
 */
#include "export/tensorboard_priv.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "export/protobuf.h"

enum {
	HISTO_MIN = 1,
	HISTO_MAX = 2,
	HISTO_NUM = 3,
	HISTO_SUM = 4,
	HISTO_SQUARES = 5,
	HISTO_LIMIT = 6,
	HISTO_BUCKET = 7
};

#define TBHIST_KEY_SIGN 0x8000u
#define TBHIST_BINS_MAX 65536u

void tbhist_done(struct tbhist *h)
{
	free(h->bins);
	*h = (struct tbhist){0};
}

void tbhist_reset(struct tbhist *h)
{
	h->n = 0;
	h->count = 0;
	h->sum = 0;
	h->min = h->max = NAN;
}

/* Ascending keys of negative values descend: where a bin stands by value. */
static unsigned tbhist_rank(uint16_t key)
{
	return key & TBHIST_KEY_SIGN ? 0xffffu - key : key | TBHIST_KEY_SIGN;
}

static int tbhist_compare(const void *a, const void *b)
{
	unsigned x = tbhist_rank(((const struct sink_bin *)a)->key);
	unsigned y = tbhist_rank(((const struct sink_bin *)b)->key);

	return (x > y) - (x < y);
}

void tbhist_add(struct tbhist *h, const struct sink_hist *p)
{
	size_t i, n;

	for (i = 0; i < p->n_bins; i++) {
		h->bins = xgrow(h->bins, h->n, &h->cap, sizeof(*h->bins));
		h->bins[h->n++] = p->bins[i];
	}
	if (h->n)
		qsort(h->bins, h->n, sizeof(*h->bins), tbhist_compare);
	for (i = n = 0; i < h->n; i++) {
		if (n > 0 && h->bins[n - 1].key == h->bins[i].key)
			h->bins[n - 1].count += h->bins[i].count;
		else
			h->bins[n++] = h->bins[i];
	}
	h->n = n;
	h->count += p->count;
	h->sum += p->count ? p->sum : 0;
	h->min = fmin(h->min, p->min);
	h->max = fmax(h->max, p->max);
}

/* The double with these upper 16 bits. */
static double tbhist_edge(unsigned key)
{
	uint64_t bits = (uint64_t)(key & 0xffff) << 48;
	double v;

	memcpy(&v, &bits, sizeof(v));
	return isnan(v) ? copysign(INFINITY, v) : v;
}

/* What a bin covers, in ascending order, finite. */
static void tbhist_range(uint16_t key, double *ret_low, double *ret_high)
{
	double near = tbhist_edge(key), far = tbhist_edge(key + 1u);

	*ret_low = fmax(key & TBHIST_KEY_SIGN ? far : near, -DBL_MAX);
	*ret_high = fmin(key & TBHIST_KEY_SIGN ? near : far, DBL_MAX);
}

/* Values of a bin lie in its middle, as far as is known. */
static double tbhist_squares(const struct tbhist *h)
{
	double low, high, mid, sum = 0;
	size_t i;

	for (i = 0; i < h->n; i++) {
		tbhist_range(h->bins[i].key, &low, &high);
		mid = fmin(fmax(low / 2 + high / 2, h->min), h->max);
		sum += mid * mid * (double)h->bins[i].count;
	}
	return sum;
}

void tbhist_proto(const struct tbhist *h, struct buf *b)
{
	double *limit = xcalloc(2 * h->n + 1, sizeof(*limit));
	double *bucket = xcalloc(2 * h->n + 1, sizeof(*bucket));
	double low, high;
	size_t i, n = 0;

	for (i = 0; i < h->n; i++) {
		tbhist_range(h->bins[i].key, &low, &high);
		if (n > 0 && limit[n - 1] < low) {
			limit[n] = low;
			bucket[n++] = 0;
		}
		limit[n] = high;
		bucket[n++] = (double)h->bins[i].count;
	}
	protobuf_double(b, HISTO_MIN, h->min);
	protobuf_double(b, HISTO_MAX, h->max);
	protobuf_double(b, HISTO_NUM, (double)h->count);
	protobuf_double(b, HISTO_SUM, h->sum);
	protobuf_double(b, HISTO_SQUARES, tbhist_squares(h));
	protobuf_doubles(b, HISTO_LIMIT, limit, n);
	protobuf_doubles(b, HISTO_BUCKET, bucket, n);
	free(limit);
	free(bucket);
}

void tbhist_save(const struct tbhist *h, struct buf *b)
{
	const double numbers[] = {h->sum, h->min, h->max};
	size_t i;

	buf_uvarint(b, h->n);
	for (i = 0; i < h->n; i++) {
		buf_uvarint(b, h->bins[i].key);
		buf_uvarint(b, h->bins[i].count);
	}
	buf_uvarint(b, h->count);
	buf_append(b, numbers, sizeof(numbers));
}

int tbhist_load(struct tbhist *h, struct cur *c)
{
	uint64_t n = cur_uvarint(c), i;
	const void *p;
	double numbers[3];

	if (n > TBHIST_BINS_MAX)
		return -EUCLEAN;
	tbhist_reset(h);
	for (i = 0; i < n && !c->error; i++) {
		h->bins = xgrow(h->bins, h->n, &h->cap, sizeof(*h->bins));
		h->bins[h->n].key = (uint16_t)cur_uvarint(c);
		h->bins[h->n++].count = cur_uvarint(c);
	}
	h->count = cur_uvarint(c);
	p = cur_bytes(c, sizeof(numbers));
	if (!p)
		return -EUCLEAN;
	memcpy(numbers, p, sizeof(numbers));
	h->sum = numbers[0];
	h->min = numbers[1];
	h->max = numbers[2];
	return 0;
}
