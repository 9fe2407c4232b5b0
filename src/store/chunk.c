/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk.c - a sealed run of points of one series: its body and its summary.
 */
#include "store/codec.h"

#include <errno.h>
#include <math.h>

static void chunk_sum_begin(struct chunk *c, size_t n)
{
	c->n = (uint32_t)n;
	c->time_min = INT64_MAX;
	c->time_max = INT64_MIN;
	c->step_min = c->step_max = SINK_STEP_NONE;
	c->nan = c->observed = 0;
	c->sum = 0;
	c->min = c->max = c->first = c->last = NAN;
	c->min_at = c->max_at = -1;
}

static void chunk_sum_where(struct chunk *c, int64_t time, int64_t step)
{
	if (time < c->time_min)
		c->time_min = time;
	if (time > c->time_max)
		c->time_max = time;
	if (step == SINK_STEP_NONE)
		return;
	if (c->step_min == SINK_STEP_NONE || step < c->step_min)
		c->step_min = step;
	if (c->step_max == SINK_STEP_NONE || step > c->step_max)
		c->step_max = step;
}

void chunk_sum_points(struct chunk *c, const struct points_view *v)
{
	size_t i;

	chunk_sum_begin(c, v->n);
	for (i = 0; i < v->n; i++) {
		double x = v->value[i];

		chunk_sum_where(c, v->time[i], v->step[i]);
		if (isnan(x)) {
			c->nan++;
			continue;
		}
		c->sum += x;
		if (c->min_at < 0 || x < c->min) {
			c->min = x;
			c->min_at = (int64_t)i;
		}
		if (c->max_at < 0 || x > c->max) {
			c->max = x;
			c->max_at = (int64_t)i;
		}
	}
	c->observed = v->n - c->nan;
	if (v->n) {
		c->first = v->value[0];
		c->last = v->value[v->n - 1];
	}
}

void chunk_sum_hists(struct chunk *c, const struct hists *h)
{
	size_t i;

	chunk_sum_begin(c, h->n);
	for (i = 0; i < h->n; i++) {
		const struct hists_row *r = &h->rows[i];

		chunk_sum_where(c, r->time, r->step);
		c->nan += r->nan;
		c->observed += r->count;
		c->sum += r->sum;
		if (!isnan(r->min) && (c->min_at < 0 || r->min < c->min)) {
			c->min = r->min;
			c->min_at = (int64_t)i;
		}
		if (!isnan(r->max) && (c->max_at < 0 || r->max > c->max)) {
			c->max = r->max;
			c->max_at = (int64_t)i;
		}
	}
}

static struct points_base chunk_base(struct buf *b, int64_t time, int64_t step)
{
	struct points_base base = {time, step == SINK_STEP_NONE ? 0 : step};

	buf_reset(b);
	buf_svarint(b, base.time);
	buf_svarint(b, base.step);
	return base;
}

int chunk_encode_points(struct buf *b, const struct points_view *v)
{
	struct points_base base = chunk_base(b, v->time[0], v->step[0]);

	points_encode(b, v, NULL, &base);
	return b->error;
}

int chunk_encode_hists(struct buf *b, const struct hists *h)
{
	struct points_base base = chunk_base(b, h->rows[0].time, h->rows[0].step);

	hists_encode(b, h, NULL, h->n, &base);
	return b->error;
}

static const char *chunk_begin(const struct blob *b, enum blob_format format, uint32_t max,
			       struct cur *c, struct points_base *base)
{
	*c = (struct cur){.p = b->body, .end = b->body + b->len};
	base->time = cur_svarint(c);
	base->step = cur_svarint(c);
	if (b->format != format)
		return format == BLOB_POINTS ? "not a chunk of points"
					     : "not a chunk of histograms";
	if (c->error || b->count == 0 || b->count > max)
		return "impossible number of points";
	return NULL;
}

int chunk_decode_points(const struct blob_id *id, const struct blob *b, struct err *e,
			struct points *p)
{
	struct points_block block = {0};
	struct points_base base;
	struct cur c;
	const char *why = chunk_begin(b, BLOB_POINTS, CHUNK_POINTS_MAX, &c, &base);

	if (!why)
		why = points_parse(&c, b->count, &block);
	if (!why && c.p != c.end)
		why = "bytes behind the end";
	if (!why)
		why = points_decode(&block, &base, p);
	return why ? blob_bad(id, e, (size_t)(c.p - b->body), why) : 0;
}

int chunk_decode_hists(const struct blob_id *id, const struct blob *b, struct err *e,
		       struct hists *h)
{
	struct points_base base;
	struct cur c;
	const char *why = chunk_begin(b, BLOB_HISTS, CHUNK_HISTS_MAX, &c, &base);

	if (!why)
		why = hists_decode(&c, b->count, &base, h);
	if (!why && c.p != c.end)
		why = "bytes behind the end";
	return why ? blob_bad(id, e, (size_t)(c.p - b->body), why) : 0;
}
