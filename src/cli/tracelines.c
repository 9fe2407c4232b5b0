/* SPDX-License-Identifier: Apache-2.0
 *
 * tracelines.c - see tracelines.h: collecting. The trace is gone over three times, so that room
 * is known before anything is kept.
 */
#include "cli/tracelines.h"

#include "base/bigmem.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRACELINES_LANES 65535u

/* ---- what an event is ---------------------------------------------------------------- */

static const uint8_t tracelines_cats[TRACE_CATS] = {
	[TRACE_CAT_CPU_OP] = TRACELINES_OPERATOR,
	[TRACE_CAT_HPU_OP] = TRACELINES_OPERATOR,
	[TRACE_CAT_USER_ANNOTATION] = TRACELINES_ANNOTATION,
	[TRACE_CAT_GPU_USER_ANNOTATION] = TRACELINES_ANNOTATION,
	[TRACE_CAT_KERNEL] = TRACELINES_KERNEL,
	[TRACE_CAT_MTIA_CCP_EVENTS] = TRACELINES_KERNEL,
	[TRACE_CAT_GPU_MEMCPY] = TRACELINES_COPY,
	[TRACE_CAT_GPU_MEMSET] = TRACELINES_SET,
	[TRACE_CAT_CUDA_RUNTIME] = TRACELINES_RUNTIME,
	[TRACE_CAT_CUDA_DRIVER] = TRACELINES_RUNTIME,
	[TRACE_CAT_MTIA_RUNTIME] = TRACELINES_RUNTIME,
	[TRACE_CAT_XPU_RUNTIME] = TRACELINES_RUNTIME,
	[TRACE_CAT_XPU_DRIVER] = TRACELINES_RUNTIME,
	[TRACE_CAT_PRIVATEUSE1_RUNTIME] = TRACELINES_RUNTIME,
	[TRACE_CAT_PRIVATEUSE1_DRIVER] = TRACELINES_RUNTIME,
	[TRACE_CAT_PYTHON_FUNCTION] = TRACELINES_PYTHON,
	[TRACE_CAT_CUDA_SYNC] = TRACELINES_WAIT,
	[TRACE_CAT_CUDA_EVENT] = TRACELINES_WAIT,
	[TRACE_CAT_OVERHEAD] = TRACELINES_OVERHEAD,
	[TRACE_CAT_COLLECTIVE_COMM] = TRACELINES_COMMUNICATION,
};

enum tracelines_category tracelines_category_of(const struct trace *t, uint32_t name,
						enum trace_cat cat)
{
	uint8_t ret = (unsigned)cat < TRACE_CATS ? tracelines_cats[cat] : TRACELINES_OTHER;

	if (ret == TRACELINES_KERNEL &&
	    view_class_of(trace_text(t, name, NULL), cat, VIEW_EXACT) == VIEW_COMMUNICATION)
		return TRACELINES_COMMUNICATION;
	return (enum tracelines_category)ret;
}

/* ---- collecting ---------------------------------------------------------------------- */

static unsigned tracelines_class(int64_t dur)
{
	unsigned high;

	if (dur < 8)
		return (unsigned)dur;
	high = 63 - (unsigned)__builtin_clzll((unsigned long long)dur);
	return high * 8 + (unsigned)((dur >> (high - 3)) & 7);
}

/* fn of each event; 0 or -EIO. */
static int tracelines_each(struct tracelines *l,
			   void (*fn)(struct tracelines *l, const struct trace_block *b,
				      uint32_t i))
{
	uint64_t rows = trace_rows(l->t);
	const struct trace_block *b;
	uint32_t k, i, n;

	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(l->t, k);
		if (!b)
			return -EIO;
		n = trace_block_rows(l->t, k);
		for (i = 0; i < n; i++)
			if (lanes_is_event(b, i))
				fn(l, b, i);
	}
	return 0;
}

static void tracelines_look(struct tracelines *l, const struct trace_block *b, uint32_t i)
{
	int64_t number = -1;

	l->first = b->ts[i] < l->first ? b->ts[i] : l->first;
	l->last = b->ts[i] + b->dur[i] > l->last ? b->ts[i] + b->dur[i] : l->last;
	if (b->cat[i] == TRACE_CAT_USER_ANNOTATION)
		number = view_step_number(trace_text(l->t, b->name[i], NULL));
	if (number < 0)
		return;
	l->steps = xgrow(l->steps, l->n_steps, &l->cap_steps, sizeof(*l->steps));
	l->steps[l->n_steps++] = (struct tracelines_step){number, b->ts[i], b->ts[i] + b->dur[i]};
}

static bool tracelines_is_in(const struct tracelines *l, const struct trace_block *b, uint32_t i)
{
	return b->ts[i] <= l->to && b->ts[i] + b->dur[i] >= l->from;
}

static void tracelines_count(struct tracelines *l, const struct trace_block *b, uint32_t i)
{
	if (!tracelines_is_in(l, b, i))
		return;
	l->in_range++;
	l->classes[tracelines_class(b->dur[i])]++;
}

static uint16_t tracelines_lane(struct tracelines *l, uint16_t track, enum lanes_kind kind)
{
	uint16_t *at = &l->lane_of[(size_t)track * LANES_KINDS + kind];

	if (*at == UINT16_MAX && l->n_lanes < TRACELINES_LANES) {
		l->lanes = xgrow(l->lanes, l->n_lanes, &l->cap_lanes, sizeof(*l->lanes));
		l->lanes[l->n_lanes] = (struct tracelines_lane){.track = track, .kind = kind};
		*at = (uint16_t)l->n_lanes++;
	}
	return *at;
}

static void tracelines_take(struct tracelines *l, const struct trace_block *b, uint32_t i)
{
	enum trace_cat cat = (enum trace_cat)b->cat[i];
	uint16_t lane;

	if (!tracelines_is_in(l, b, i))
		return;
	lane = b->dur[i] < l->shortest || l->n == l->cap
		       ? UINT16_MAX
		       : tracelines_lane(l, b->track[i], lanes_kind_of(cat));
	if (lane == UINT16_MAX) {
		l->left_out++;
		return;
	}
	l->lanes[lane].events++;
	l->bars[l->n++] = (struct timerows_bar){
		.ts = b->ts[i],
		.dur = b->dur[i],
		.name = b->name[i],
		.count = 1,
		.lane = lane,
		.category = (uint8_t)tracelines_category_of(l->t, b->name[i], cat),
		.index = b->index[i]};
}

static int tracelines_by_ts(const void *a, const void *b)
{
	const struct tracelines_step *x = a, *y = b;

	return (x->ts > y->ts) - (x->ts < y->ts);
}

/* What part: by steps, or by times. */
static void tracelines_range(struct tracelines *l, const struct tracelines_wish *wish)
{
	int64_t from = wish->step_from, to = wish->step_to;
	size_t i;

	if (l->n_steps > 0)
		qsort(l->steps, l->n_steps, sizeof(*l->steps), tracelines_by_ts);
	l->from = wish->begin >= 0 ? l->first + wish->begin : l->first;
	l->to = wish->end >= 0 ? l->first + wish->end : l->last;
	if (from == 0 && to == 0)
		return;
	l->from = INT64_MAX;
	l->to = INT64_MIN;
	for (i = 0; i < l->n_steps; i++) {
		if (l->steps[i].number < from || l->steps[i].number >= to)
			continue;
		l->from = l->steps[i].ts < l->from ? l->steps[i].ts : l->from;
		l->to = l->steps[i].end > l->to ? l->steps[i].end : l->to;
	}
}

/* Of more than can be held the longest. */
static void tracelines_limit(struct tracelines *l)
{
	uint64_t n = 0;
	int64_t d;
	unsigned k;

	for (k = TRACELINES_CLASSES; k-- > 0;) {
		n += l->classes[k];
		if (n <= TRACELINES_HELD)
			continue;
		for (d = k < 8 ? (int64_t)k + 1 : (int64_t)((k & 7) + 9) << (k / 8 - 3);
		     tracelines_class(d) <= k; d++)
			;
		l->shortest = d;
		return;
	}
}

static int tracelines_lane_order(const void *a, const void *b, void *arg)
{
	const struct tracelines *l = arg;
	const struct tracelines_lane *x = &l->lanes[*(const uint16_t *)a],
				     *y = &l->lanes[*(const uint16_t *)b];
	const struct trace_track *p = trace_track(l->t, x->track), *q;
	bool x_host = x->kind == LANES_HOST, y_host = y->kind == LANES_HOST;

	q = trace_track(l->t, y->track);
	if (x_host != y_host)
		return x_host ? -1 : 1;
	if (p->pid != q->pid)
		return p->pid < q->pid ? -1 : 1;
	if (p->sort_index != q->sort_index)
		return p->sort_index < q->sort_index ? -1 : 1;
	if (p->tid != q->tid)
		return p->tid < q->tid ? -1 : 1;
	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	return (int)y->kind - (int)x->kind; /* marks above the work */
}

/* Lanes in the order in which they are shown. */
static void tracelines_arrange(struct tracelines *l)
{
	uint16_t *order = xcalloc(l->n_lanes + 1, sizeof(*order));
	struct tracelines_lane *sorted = xcalloc(l->n_lanes + 1, sizeof(*sorted));
	size_t i;

	for (i = 0; i < l->n_lanes; i++)
		order[i] = (uint16_t)i;
	if (l->n_lanes > 0)
		qsort_r(order, l->n_lanes, sizeof(*order), tracelines_lane_order, l);
	for (i = 0; i < l->n_lanes; i++) {
		l->lanes[order[i]].place = (uint16_t)i;
		sorted[i] = l->lanes[order[i]];
	}
	for (i = 0; i < l->n; i++)
		l->bars[i].lane = l->lanes[l->bars[i].lane].place;
	free(l->lanes);
	free(order);
	l->lanes = sorted;
}

int tracelines_collect(struct tracelines *l, struct trace *t, const struct tracelines_wish *wish)
{
	size_t tracks = trace_tracks(t), i;
	int err;

	*l = (struct tracelines){.t = t, .first = INT64_MAX, .last = INT64_MIN};
	err = tracelines_each(l, tracelines_look);
	if (err)
		return err;
	if (l->first > l->last)
		l->first = l->last = 0;
	tracelines_range(l, wish);
	err = tracelines_each(l, tracelines_count);
	if (err)
		return err;
	tracelines_limit(l);
	l->cap = l->in_range < TRACELINES_HELD ? l->in_range : TRACELINES_HELD;
	l->bars = bigmem_alloc((l->cap + 1) * sizeof(*l->bars));
	l->lane_of = xcalloc(tracks * LANES_KINDS + 1, sizeof(*l->lane_of));
	if (!l->bars)
		return -ENOMEM;
	for (i = 0; i < tracks * LANES_KINDS; i++)
		l->lane_of[i] = UINT16_MAX;
	err = tracelines_each(l, tracelines_take);
	if (err)
		return err;
	tracelines_arrange(l);
	i = l->n;
	l->n = timerows_nest(l->bars, l->n);
	l->left_out += i - l->n;
	for (i = 0; i < l->n; i++)
		if (l->bars[i].depth >= l->lanes[l->bars[i].lane].depths)
			l->lanes[l->bars[i].lane].depths = l->bars[i].depth + 1u;
	l->n = timerows_merge(l->bars, l->n, wish->events, &l->merged_ns);
	return 0;
}

void tracelines_done(struct tracelines *l)
{
	free(l->bars);
	free(l->lanes);
	free(l->lane_of);
	free(l->steps);
}
