/* SPDX-License-Identifier: Apache-2.0
 *
 * queryat.c - one point of a series by its number: from the chunk that has it, or
 * from the tail.
 */
#include "store/query_priv.h"

#include <math.h>

static struct store_point queryat_as_point(const struct queryone *x,
					   const struct points_view *points,
					   const struct hists *hists, size_t i, uint32_t segment)
{
	struct piece_point p = querypoint_point(x, points, hists, i, 0, segment);

	if (x->is_hist && p.count)
		p.value = p.sum / (double)p.count;
	return (struct store_point){p.time,  p.step,
				    p.value, x->is_hist ? 0 : (uint32_t)points->thread[i],
				    segment, NULL};
}

/* The chunk that has it; ordinals from `low` to the last are all there. */
static int queryat_sealed(struct queryone *x, uint64_t low, struct store_point *ret)
{
	struct query_host *h = x->host;
	uint64_t high = x->chunks;
	struct chunk c = {0};
	int r = 1;

	while (r > 0 && low < high) {
		uint64_t middle = low + (high - low) / 2;

		r = queryone_chunk(x, QUERY_CHUNK, middle, &c);
		if (r > 0 && x->at < c.start)
			high = middle;
		else if (r > 0 && x->at >= c.start + c.n)
			low = middle + 1;
		else
			break;
	}
	if (r <= 0 || low >= high)
		return r < 0 ? r : 0;
	hists_reset(&h->hists);
	r = x->is_hist ? chunkdata_read(&h->data, &c, true, x->e, NULL, &h->hists)
		       : chunkdata_view(&h->data, &c, x->e, &h->points, &h->view);
	if (r == 0)
		*ret = queryat_as_point(x, &h->view, &h->hists, (size_t)(x->at - c.start),
					c.segment.no);
	return r;
}

int queryat_point(struct queryone *x, struct store_point *ret)
{
	size_t i, n = x->is_hist ? x->tail_hists.n : x->tail.n;
	struct points_view tail = points_slice(&x->tail, 0, x->tail.n);
	struct segment at = x->segment;
	struct chunk first;
	int r;

	*ret = (struct store_point){.time_ns = INT64_MIN, .step = SINK_STEP_NONE, .value = NAN};
	if (x->at < x->sealed) {
		r = queryone_chunk(x, QUERY_FIRST, 0, &first);
		return r > 0 ? queryat_sealed(x, first.ordinal, ret) : r;
	}
	for (i = 0; i < n && i <= x->at - x->sealed; i++) {
		*ret = queryat_as_point(x, &tail, &x->tail_hists, i, 0);
		segment_next(&at,
			     x->kind == SINK_SPAN ? segment_span_end(ret->time_ns, ret->value)
						  : ret->time_ns,
			     ret->step);
		ret->segment = at.no;
	}
	if (i <= x->at - x->sealed)
		ret->time_ns = INT64_MIN;
	return 0;
}
