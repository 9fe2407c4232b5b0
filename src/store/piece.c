/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.c - pieces of an answer: points and nodes of summaries as buckets with
 * absolute positions, sorted along an axis, joined.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <math.h>
#include <stdlib.h>

#define PIECE_RESERVE_MAX 65536u

static void piece_steps(struct store_bucket *b, int64_t min, int64_t max)
{
	if (min == SINK_STEP_NONE)
		return;
	if (b->step_min == SINK_STEP_NONE || min < b->step_min)
		b->step_min = min;
	if (b->step_max == SINK_STEP_NONE || max > b->step_max)
		b->step_max = max;
}

static void piece_times(struct store_bucket *b, int64_t min, int64_t max)
{
	if (min < b->time_min)
		b->time_min = min;
	if (max > b->time_max)
		b->time_max = max;
}

/* Of equal values the one that arrived first. */
static void piece_extremes(struct store_bucket *b, double min, uint64_t min_at, double max,
			   uint64_t max_at)
{
	if (min_at != UINT64_MAX &&
	    (b->min_at == UINT64_MAX || min < b->min || (min == b->min && min_at < b->min_at))) {
		b->min = min;
		b->min_at = min_at;
	}
	if (max_at != UINT64_MAX &&
	    (b->max_at == UINT64_MAX || max > b->max || (max == b->max && max_at < b->max_at))) {
		b->max = max;
		b->max_at = max_at;
	}
}

static void piece_begin(struct piece *p, uint64_t at, int64_t time, int64_t step, uint32_t segment)
{
	*p = (struct piece){.from = at, .to = at};
	p->b = (struct store_bucket){.min = NAN,
				     .max = NAN,
				     .min_at = UINT64_MAX,
				     .max_at = UINT64_MAX,
				     .time_min = time,
				     .time_max = time,
				     .step_min = step,
				     .step_max = step,
				     .segment = segment};
}

void piece_add(struct piece *p, const struct piece_point *x)
{
	struct store_bucket *b = &p->b;

	if (b->count == 0) {
		piece_begin(p, x->at, x->time, x->step, x->segment);
		b->first = b->last = x->value;
	}
	b->count++;
	b->nan += x->nan;
	b->observed += x->count;
	if (x->count)
		b->sum += x->sum;
	piece_extremes(b, x->min, isnan(x->min) ? UINT64_MAX : x->at, x->max,
		       isnan(x->max) ? UINT64_MAX : x->at);
	piece_times(b, x->time, x->time);
	piece_steps(b, x->step, x->step);
	if (x->at < p->from) {
		p->from = x->at;
		b->first = x->value;
		b->segment = x->segment;
	}
	if (x->at > p->to) {
		p->to = x->at;
		b->last = x->value;
	}
}

void piece_node(struct piece *p, uint64_t start, const struct summary *s)
{
	struct store_bucket *b = &p->b;

	piece_begin(p, start, s->time_min, s->step_min, s->segment_min);
	p->to = start + s->n - 1;
	b->count = s->n;
	b->nan = s->nan;
	b->observed = s->observed;
	b->sum = s->sum;
	b->first = s->first;
	b->last = s->last;
	b->time_max = s->time_max;
	b->step_max = s->step_max;
	piece_extremes(b, s->min, s->min_at < 0 ? UINT64_MAX : start + (uint64_t)s->min_at, s->max,
		       s->max_at < 0 ? UINT64_MAX : start + (uint64_t)s->max_at);
}

void piece_join(struct piece *p, const struct piece *next)
{
	const struct store_bucket *n = &next->b;
	struct store_bucket *b = &p->b;

	if (n->count == 0)
		return;
	if (b->count == 0) {
		*p = *next;
		return;
	}
	b->count += n->count;
	b->nan += n->nan;
	b->observed += n->observed;
	b->sum += n->sum;
	piece_extremes(b, n->min, n->min_at, n->max, n->max_at);
	piece_times(b, n->time_min, n->time_max);
	piece_steps(b, n->step_min, n->step_max);
	if (next->from < p->from) {
		p->from = next->from;
		b->first = n->first;
		b->segment = n->segment;
	}
	if (next->to > p->to) {
		p->to = next->to;
		b->last = n->last;
	}
}

void piece_reserve(struct piece_list *l, uint64_t n)
{
	if (n > PIECE_RESERVE_MAX)
		n = PIECE_RESERVE_MAX;
	if (n <= l->cap)
		return;
	l->v = xrealloc(l->v, (size_t)n, sizeof(*l->v));
	l->cap = (size_t)n;
}

void piece_push(struct piece_list *l, const struct piece *p)
{
	l->v = xgrow(l->v, l->n, &l->cap, sizeof(*l->v));
	l->v[l->n++] = *p;
}

int64_t piece_middle(const struct piece *p, enum store_axis axis)
{
	int64_t min = axis == STORE_BY_STEP ? p->b.step_min : p->b.time_min;
	int64_t max = axis == STORE_BY_STEP ? p->b.step_max : p->b.time_max;

	return min + (int64_t)(((uint64_t)max - (uint64_t)min) / 2);
}

struct store_bucket piece_bucket(const struct piece *p)
{
	struct store_bucket b = p->b;

	b.first_at = p->from;
	b.last_at = p->to;
	return b;
}

struct piece_place {
	int64_t middle;
	uint64_t from;
	size_t index;
};

static int piece_compare(const void *a, const void *b)
{
	const struct piece_place *x = a, *y = b;

	if (x->middle != y->middle)
		return x->middle < y->middle ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

void piece_buckets(struct piece_list *l, enum store_axis axis, size_t n, struct store_result *ret)
{
	struct piece_place *places = xcalloc(l->n, sizeof(*places));
	uint64_t total = 0, before = 0;
	bool sorted = true;
	size_t i, at, last = SIZE_MAX;
	struct piece now = {0};

	for (i = 0; i < l->n; i++) {
		places[i] = (struct piece_place){piece_middle(&l->v[i], axis), l->v[i].from, i};
		sorted = sorted && (i == 0 || piece_compare(&places[i - 1], &places[i]) <= 0);
		total += l->v[i].b.count;
	}
	if (!sorted)
		qsort(places, l->n, sizeof(*places), piece_compare);
	ret->buckets = xcalloc(l->n < n ? l->n : n, sizeof(*ret->buckets));
	ret->n = 0;
	for (i = 0; i < l->n; i++) {
		const struct piece *p = &l->v[places[i].index];

		/* Twice the number of points before its middle. */
		at = (size_t)((unsigned __int128)(2 * before + p->b.count - 1) * n / (2 * total));
		if (at != last && now.b.count) {
			ret->buckets[ret->n++] = piece_bucket(&now);
			now.b.count = 0;
		}
		last = at;
		before += p->b.count;
		piece_join(&now, p);
	}
	if (now.b.count)
		ret->buckets[ret->n++] = piece_bucket(&now);
	free(places);
}
