/* SPDX-License-Identifier: Apache-2.0
 *
 * hists.c - histogram points as rows: a few numbers and the bins that are not
 * empty, keys as differences.
 */
#include "store/codec.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HISTS_ROW_MIN 29u /* bytes of the smallest row */
#define HISTS_KEYS 65536u

void hists_init(struct hists *h)
{
	*h = (struct hists){0};
}

void hists_done(struct hists *h)
{
	free(h->rows);
	free(h->bins);
	hists_init(h);
}

void hists_reset(struct hists *h)
{
	h->n = h->n_bins = 0;
}

static int hists_reserve(void **items, size_t *cap, size_t need, size_t size)
{
	size_t want = *cap ? *cap : 16;
	void *m;

	/* Never NULL, also for nothing: pointers are made from it. */
	if (*cap && need <= *cap)
		return 0;
	while (want < need)
		want *= 2;
	m = realloc(*items, want * size);
	if (!m)
		return -ENOMEM;
	*items = m;
	*cap = want;
	return 0;
}

int hists_add(struct hists *h, const struct hists_row *row, const struct sink_bin *bins)
{
	void *rows = h->rows, *all = h->bins;
	int r;

	r = hists_reserve(&rows, &h->cap, h->n + 1, sizeof(*h->rows));
	h->rows = rows;
	if (r < 0)
		return r;
	r = hists_reserve(&all, &h->cap_bins, h->n_bins + row->n_bins, sizeof(*h->bins));
	h->bins = all;
	if (r < 0)
		return r;
	h->rows[h->n] = *row;
	h->rows[h->n].bins = h->n_bins;
	if (row->n_bins)
		memcpy(h->bins + h->n_bins, bins, row->n_bins * sizeof(*bins));
	h->n++;
	h->n_bins += row->n_bins;
	return 0;
}

double hists_get(const struct hists *h, size_t i, uint32_t series, struct sink_hist *ret)
{
	const struct hists_row *row = &h->rows[i];

	*ret = (struct sink_hist){.series = series,
				  .time_ns = row->time,
				  .step = row->step,
				  .count = row->count,
				  .nan = row->nan,
				  .sum = row->sum,
				  .min = row->min,
				  .max = row->max,
				  .bins = h->bins + row->bins,
				  .n_bins = row->n_bins};
	return row->count ? row->sum / (double)row->count : NAN;
}

static void hists_put_double(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	bits = htole64(bits);
	buf_append(b, &bits, 8);
}

void hists_encode(struct buf *b, const struct hists *h, const uint32_t *index, size_t from,
		  size_t n, const struct points_base *base)
{
	uint64_t time = (uint64_t)base->time, step = (uint64_t)base->step;
	size_t i, k;

	for (i = 0; i < n; i++) {
		const struct hists_row *row = &h->rows[index ? index[i] : from + i];
		const struct sink_bin *bin = h->bins + row->bins;
		uint32_t key = 0;

		buf_svarint(b, (int64_t)((uint64_t)row->time - time));
		buf_svarint(b, (int64_t)((uint64_t)row->step - step));
		time = (uint64_t)row->time;
		step = (uint64_t)row->step;
		buf_uvarint(b, row->count);
		buf_uvarint(b, row->nan);
		hists_put_double(b, row->sum);
		hists_put_double(b, row->min);
		hists_put_double(b, row->max);
		buf_uvarint(b, row->n_bins);
		for (k = 0; k < row->n_bins; k++) {
			buf_uvarint(b, bin[k].key - key);
			buf_uvarint(b, bin[k].count);
			key = bin[k].key;
		}
	}
}

static double hists_get_double(struct cur *c)
{
	const void *p = cur_bytes(c, 8);
	uint64_t bits;
	double v;

	if (!p)
		return 0;
	memcpy(&bits, p, 8);
	bits = le64toh(bits);
	memcpy(&v, &bits, 8);
	return v;
}

static const char *hists_get_bins(struct cur *c, size_t n, struct sink_bin *bins)
{
	uint64_t key = 0, d;
	size_t i;

	for (i = 0; i < n; i++) {
		d = cur_uvarint(c);
		if (d >= HISTS_KEYS || (i > 0 && d == 0) || key + d >= HISTS_KEYS)
			return "bins of a histogram are out of order";
		key += d;
		bins[i].key = (uint16_t)key;
		bins[i].count = cur_uvarint(c);
	}
	return c->error ? "a histogram is cut short" : NULL;
}

static const char *hists_get_row(struct cur *c, struct hists_row *row, struct hists *out)
{
	uint64_t n_bins;
	void *all = out->bins;
	int r;

	row->time = (int64_t)((uint64_t)row->time + (uint64_t)cur_svarint(c));
	row->step = (int64_t)((uint64_t)row->step + (uint64_t)cur_svarint(c));
	row->count = cur_uvarint(c);
	row->nan = cur_uvarint(c);
	row->sum = hists_get_double(c);
	row->min = hists_get_double(c);
	row->max = hists_get_double(c);
	n_bins = cur_uvarint(c);
	if (c->error || n_bins > HISTS_KEYS || n_bins * 2 > (uint64_t)(c->end - c->p))
		return "a histogram is cut short";
	if (out->n_bins + n_bins > TAIL_BINS_MAX)
		return "too many bins";
	r = hists_reserve(&all, &out->cap_bins, out->n_bins + n_bins, sizeof(*out->bins));
	out->bins = all;
	if (r < 0)
		return BLOB_NO_MEMORY;
	row->n_bins = (uint32_t)n_bins;
	row->bins = out->n_bins;
	return hists_get_bins(c, n_bins, out->bins + out->n_bins);
}

const char *hists_decode(struct cur *c, size_t n, const struct points_base *base, struct hists *out)
{
	struct hists_row row = {.time = base->time, .step = base->step};
	void *rows = out->rows;
	const char *why;
	size_t i;
	int r;

	if (n > (size_t)(c->end - c->p) / HISTS_ROW_MIN)
		return "histograms are cut short";
	r = hists_reserve(&rows, &out->cap, out->n + n, sizeof(*out->rows));
	out->rows = rows;
	if (r < 0)
		return BLOB_NO_MEMORY;
	for (i = 0; i < n; i++) {
		why = hists_get_row(c, &row, out);
		if (why)
			return why;
		out->rows[out->n++] = row;
		out->n_bins += row.n_bins;
	}
	return NULL;
}

void hists_put_body(struct buf *b, const struct hists *h, size_t from, size_t n)
{
	const struct hists_row *first = &h->rows[from];
	struct points_base base = {first->time, first->step == SINK_STEP_NONE ? 0 : first->step};

	buf_svarint(b, base.time);
	buf_svarint(b, base.step);
	hists_encode(b, h, NULL, from, n, &base);
}

const char *hists_get_body(const unsigned char *p, size_t len, size_t n, struct hists *out)
{
	struct cur c = {.p = p, .end = p + len};
	struct points_base base;
	const char *why;

	base.time = cur_svarint(&c);
	base.step = cur_svarint(&c);
	if (c.error || n == 0 || n > CHUNK_HISTS_MAX)
		return "impossible number of points";
	why = hists_decode(&c, n, &base, out);
	return !why && c.p != c.end ? "bytes behind the end" : why;
}
