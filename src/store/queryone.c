/* SPDX-License-Identifier: Apache-2.0
 *
 * queryone.c - one series of a query. First the nodes of its summary tree that are
 * in the range whole are told from those that cross its ends, breadth first; then
 * nodes that are too large for a bucket are opened; what is left to be seen point
 * by point comes from its chunks, and from the tail.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum queryone_how queryone_span(int64_t min, int64_t max, int64_t from, int64_t to)
{
	if (max < from || min > to)
		return QUERYONE_NONE;
	return min >= from && max <= to ? QUERYONE_ALL : QUERYONE_SOME;
}

/* What the attempts that came later leave of a node. */
static enum queryone_how queryone_left(const struct queryone *x, const struct summary *s)
{
	enum cover_how how = cover_steps(&x->cover, s->segment_min, s->step_min, s->step_max);

	if (how == COVER_NONE)
		return QUERYONE_ALL;
	if (how == COVER_SOME || s->segment_min != s->segment_max || s->mixed)
		return QUERYONE_SOME;
	return QUERYONE_NONE;
}

enum queryone_how queryone_match(const struct queryone *x, const struct summary *s)
{
	const struct store_range *g = &x->ask->range;
	enum queryone_how how = QUERYONE_ALL, next;

	if (querypoint_needs_steps(x)) {
		if (s->step_min == SINK_STEP_NONE)
			return QUERYONE_NONE;
		if (s->mixed)
			how = QUERYONE_SOME;
	}
	if (g->by_time) {
		next = queryone_span(s->time_min, s->time_max, g->time_min, g->time_max);
		how = next < how ? next : how;
	}
	if (g->by_step) {
		next = queryone_span(s->step_min, s->step_max, g->step_min, g->step_max);
		how = next < how ? next : how;
	}
	if (!g->all_segments) {
		next = queryone_left(x, s);
		how = next < how ? next : how;
	}
	return how;
}

/* ---- what the transaction shows --------------------------------------------------------- */

int queryone_chunk(struct queryone *x, enum query_sql which, uint64_t ordinal, struct chunk *ret)
{
	sqlite3_stmt *st = x->host->sql[which];
	int rc, r;

	sqlite3_bind_int64(st, 1, x->ref.series);
	if (which == QUERY_CHUNK)
		sqlite3_bind_int64(st, 2, (int64_t)ordinal);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = chunkrow_read(st, x->host->h->path, x->e, ret);
	else
		r = rc == SQLITE_DONE ? 0
				      : db_fail(x->host->h->db, rc, "reading table chunk", x->e);
	sqlite3_reset(st);
	return r < 0 ? r : rc == SQLITE_ROW;
}

static int queryone_kind(struct queryone *x)
{
	sqlite3_stmt *st = x->host->sql[QUERY_KIND];
	int rc, r = 0;

	sqlite3_bind_int64(st, 1, x->ref.series);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		x->kind = (enum sink_kind)sqlite3_column_int(st, 0);
	else if (rc == SQLITE_DONE)
		r = err_set(x->e, -ENOENT, "%s: no series %u", x->host->h->path, x->ref.series);
	else
		r = db_fail(x->host->h->db, rc, "reading table series", x->e);
	sqlite3_reset(st);
	x->is_hist = x->kind == SINK_HISTOGRAM;
	return r;
}

/* Which steps each segment has: nodes of several segments are opened. */
static int queryone_cover(struct queryone *x)
{
	struct treewalk *t = &x->host->tree;
	struct treewalk_list now = {0}, next = {0}, swap;
	unsigned level = t->top;
	size_t i;
	int r = treewalk_top(t, &now);

	while (r == 0 && now.n) {
		next.n = 0;
		for (i = 0; r == 0 && i < now.n; i++) {
			const struct summary *s = &now.v[i].s;

			if (s->segment_min == s->segment_max)
				cover_add(&x->cover, s->segment_min, s->step_min, s->step_max);
			else if (level == TREEWALK_CHUNK)
				r = err_set(x->e, -EUCLEAN,
					    "%s: table summary, series %u: a chunk of several "
					    "segments",
					    x->host->h->path, x->ref.series);
			else
				r = treewalk_children(t, level, &now.v[i], &next);
		}
		swap = now;
		now = next;
		next = swap;
		level--;
	}
	free(now.v);
	free(next.v);
	return r;
}

int queryone_begin(struct queryone *x)
{
	struct chunk c = {0};
	int r = queryone_kind(x);

	x->chunks = x->sealed = x->kept = 0;
	x->segment = (struct segment){.step = SINK_STEP_NONE};
	if (r == 0)
		r = queryone_chunk(x, QUERY_LAST, 0, &c);
	if (r > 0) {
		x->chunks = (uint64_t)c.ordinal + 1;
		x->sealed = c.start + c.n;
		x->segment = c.segment;
		r = queryone_chunk(x, QUERY_FIRST, 0, &c);
		x->kept = r > 0 ? c.start : x->sealed;
	}
	if (r >= 0 && x->chunks)
		treewalk_begin(&x->host->tree, x->ref.series, x->is_hist, x->chunks);
	if (r >= 0 && x->segment.no && !x->ask->range.all_segments)
		r = queryone_cover(x);
	if (r < 0)
		return r;
	if (!x->ask->range.all_segments)
		querypoint_tail(x, true);
	cover_end(&x->cover);
	return 0;
}

/* ---- down the tree -------------------------------------------------------------------------- */

static void queryone_open(struct queryone *x, const struct treewalk_node *leaf, bool whole)
{
	x->opens = xgrow(x->opens, x->n_opens, &x->cap_opens, sizeof(*x->opens));
	x->opens[x->n_opens++] = (struct queryone_open){*leaf, whole};
}

/* Nodes of a level to where they belong. */
static void queryone_sort(struct queryone *x, unsigned level, const struct treewalk_list *l)
{
	uint64_t gone;
	size_t i;

	for (i = 0; i < l->n; i++) {
		const struct treewalk_node *node = &l->v[i];
		enum queryone_how how = queryone_match(x, &node->s);

		if (how == QUERYONE_ALL) {
			treewalk_push(&x->in[level], node);
			x->whole += node->s.n;
			gone = x->kept > node->start ? x->kept - node->start : 0;
			x->lost += gone < node->s.n ? gone : node->s.n;
		} else if (how == QUERYONE_SOME && level) {
			treewalk_push(&x->cross[level], node);
		} else if (how == QUERYONE_SOME) {
			queryone_open(x, node, false);
		}
	}
}

/* Find the nodes that are in the range whole, and the leaves that are not. */
static int queryone_descend(struct queryone *x)
{
	struct treewalk *t = &x->host->tree;
	struct treewalk_list l = {0};
	unsigned level;
	size_t i;
	int r;

	if (x->chunks == 0)
		return 0;
	r = treewalk_top(t, &l);
	if (r == 0)
		queryone_sort(x, t->top, &l);
	for (level = t->top; r == 0 && level > 0; level--) {
		l.n = 0;
		for (i = 0; r == 0 && i < x->cross[level].n; i++)
			r = treewalk_children(t, level, &x->cross[level].v[i], &l);
		if (r == 0)
			queryone_sort(x, level - 1, &l);
	}
	free(l.v);
	return r;
}

/* Does a node belong to more than one bucket? */
static bool queryone_is_large(const struct queryone *x, const struct summary *s)
{
	const struct store_grid *g = x->grid;
	int64_t min, max;

	if (x->one_by_one)
		return true;
	if (!g)
		return s->n > x->node_max;
	min = x->ask->axis == STORE_BY_STEP ? s->step_min : s->time_min;
	max = x->ask->axis == STORE_BY_STEP ? s->step_max : s->time_max;
	return (uint64_t)max - (uint64_t)min > (uint64_t)g->width &&
	       ((uint64_t)max - (uint64_t)g->x0) / (uint64_t)g->width !=
		       ((uint64_t)min - (uint64_t)g->x0) / (uint64_t)g->width;
}

/* A node that is in the range whole: children instead of it, until each is small
 * enough. The leaves that are too large are opened later. */
static int queryone_refine(struct queryone *x, unsigned level, const struct treewalk_node *node)
{
	struct treewalk_list *children = &x->below[level];
	struct piece p;
	size_t i;
	int r;

	if (!queryone_is_large(x, &node->s)) {
		piece_node(&p, node->start, &node->s);
		querypoint_give_node(x, &p);
		return 0;
	}
	if (level == 0) {
		queryone_open(x, node, true);
		return 0;
	}
	children->n = 0;
	r = treewalk_children(&x->host->tree, level, node, children);
	for (i = 0; r == 0 && i < children->n; i++)
		r = queryone_refine(x, level - 1, &children->v[i]);
	return r;
}

/* All of them, in order of arrival: levels with earlier nodes may have later ones too. */
static int queryone_refine_all(struct queryone *x)
{
	size_t at[TREEWALK_LEVELS] = {0};
	unsigned level, first;
	int r = 0;

	while (r == 0) {
		first = TREEWALK_LEVELS;
		for (level = 0; level < TREEWALK_LEVELS; level++)
			if (at[level] < x->in[level].n &&
			    (first == TREEWALK_LEVELS ||
			     x->in[level].v[at[level]].start < x->in[first].v[at[first]].start))
				first = level;
		if (first == TREEWALK_LEVELS)
			break;
		r = queryone_refine(x, first, &x->in[first].v[at[first]++]);
	}
	querypoint_emit(x, &x->now);
	return r;
}

/* ---- chunks ------------------------------------------------------------------------------------
 */

static int queryone_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct queryone_open *)a)->leaf.start;
	uint64_t y = ((const struct queryone_open *)b)->leaf.start;

	return x < y ? -1 : x > y;
}

/* The points of a leaf are no longer stored: it stays whole, if its middle is in the
 * range. */
static void queryone_lose(struct queryone *x, const struct queryone_open *o)
{
	const struct summary *s = &o->leaf.s;
	struct piece_point middle = {
		.time = s->time_min, .step = s->step_min, .segment = s->segment_min};
	struct piece p;

	middle.time += (int64_t)(((uint64_t)s->time_max - (uint64_t)s->time_min) / 2);
	middle.step += (int64_t)(((uint64_t)s->step_max - (uint64_t)s->step_min) / 2);
	if (!o->whole && !querypoint_sees(x, &middle))
		return;
	if (!o->whole || o->leaf.start >= x->kept)
		x->lost += s->n;
	piece_node(&p, o->leaf.start, s);
	querypoint_emit(x, &p);
}

/* Leaves [i, i + n) of x->opens, which are of one chunk. */
static int queryone_read(struct queryone *x, size_t i, size_t n)
{
	const struct queryone_open *o = &x->opens[i];
	struct query_host *h = x->host;
	struct chunk c;
	int r = query_breathe(h, x->e);

	if (r == 0)
		r = queryone_chunk(x, QUERY_CHUNK, o->leaf.index, &c);
	if (r < 0)
		return r;
	if (r > 0) {
		const struct queryone_open *end = &o[n - 1];

		hists_reset(&h->hists);
		if (c.start != o->leaf.start - o->leaf.at || end->leaf.at + end->leaf.s.n > c.n)
			r = err_set(x->e, -EUCLEAN,
				    "%s: series %u: chunk %u and its summary differ", h->h->path,
				    x->ref.series, c.ordinal);
		else
			r = x->is_hist ? chunkdata_read(&h->data, &c, true, x->e, NULL, &h->hists)
				       : chunkdata_view(&h->data, &c, x->e, &h->points, &h->view);
		if (r < 0)
			return r;
		for (; o <= end; o++)
			querypoint_take_leaf(x, o, c.segment.no);
		return 0;
	}
	for (; n > 0; n--, o++)
		queryone_lose(x, o);
	return 0;
}

/* Leaves that have to be looked at so far. */
static int queryone_read_all(struct queryone *x)
{
	size_t i, n;
	int r = 0;

	if (x->n_opens == 0)
		return 0;

	qsort(x->opens, x->n_opens, sizeof(*x->opens), queryone_compare);
	for (i = 0; r == 0 && i < x->n_opens; i += n) {
		for (n = 1;
		     i + n < x->n_opens && x->opens[i + n].leaf.index == x->opens[i].leaf.index;
		     n++)
			;
		r = queryone_read(x, i, n);
	}
	x->n_opens = 0;
	return r;
}

/* ---- the answer
 * ---------------------------------------------------------------------------------- */

static void queryone_widen(struct queryone *x, int64_t min, int64_t max)
{
	const struct store_range *g = &x->ask->range;
	bool steps = x->ask->axis == STORE_BY_STEP;
	int64_t from = steps ? g->step_min : g->time_min, to = steps ? g->step_max : g->time_max;

	if (steps ? g->by_step : g->by_time) {
		min = min < from ? from : min;
		max = max > to ? to : max;
	}
	if (min < x->axis_min)
		x->axis_min = min;
	if (max > x->axis_max)
		x->axis_max = max;
}

static void queryone_widen_node(struct queryone *x, const struct summary *s)
{
	if (x->ask->axis == STORE_BY_STEP)
		queryone_widen(x, s->step_min, s->step_max);
	else
		queryone_widen(x, s->time_min, s->time_max);
}

int queryone_extent(struct queryone *x)
{
	size_t i, k, n = x->is_hist ? x->tail_hists.n : x->tail.n;
	struct points_view tail = points_slice(&x->tail, 0, x->tail.n);
	struct piece_point p;
	int r = queryone_descend(x);

	x->count = x->whole + n;
	for (i = 0; i < x->n_opens; i++)
		x->count += x->opens[i].leaf.s.n;

	for (k = 0; k < TREEWALK_LEVELS; k++)
		for (i = 0; i < x->in[k].n; i++)
			queryone_widen_node(x, &x->in[k].v[i].s);
	for (i = 0; i < x->n_opens; i++)
		queryone_widen_node(x, &x->opens[i].leaf.s);
	/* In front of all segments: a step that is repeated is one of the others' too. */
	for (i = 0; i < n; i++) {
		p = querypoint_point(x, &tail, &x->tail_hists, i, 0, UINT32_MAX);
		if (querypoint_sees(x, &p))
			queryone_widen(x, x->ask->axis == STORE_BY_STEP ? p.step : p.time,
				       x->ask->axis == STORE_BY_STEP ? p.step : p.time);
	}
	return r;
}

static int queryone_compare_raw(const void *a, const void *b)
{
	const struct queryone_raw *x = a, *y = b;

	if (x->x != y->x)
		return x->x < y->x ? -1 : 1;
	return x->p.at < y->p.at ? -1 : x->p.at > y->p.at;
}

static void queryone_give_raw(struct queryone *x, struct store_result *ret)
{
	size_t i;

	for (i = 0; i < x->n_raw; i++)
		x->raw[i].x = x->ask->axis == STORE_BY_STEP ? x->raw[i].p.step : x->raw[i].p.time;
	if (x->n_raw)
		qsort(x->raw, x->n_raw, sizeof(*x->raw), queryone_compare_raw);
	ret->points = xcalloc(x->n_raw, sizeof(*ret->points));
	for (i = 0; i < x->n_raw; i++) {
		const struct piece_point *p = &x->raw[i].p;

		ret->points[i] = (struct store_point){p->time,          p->step,    p->value,
						      x->raw[i].thread, p->segment, NULL};
		if (x->is_hist && p->count)
			ret->points[i].value = p->sum / (double)p->count;
	}
	ret->n = x->n_raw;
}

/* First what must be seen point by point: then it is known how many there are. */
static int queryone_collect(struct queryone *x)
{
	int r;

	x->one_by_one = true;
	r = queryone_read_all(x);
	if (r < 0)
		return r;
	querypoint_tail(x, false);
	x->one_by_one = !x->ask->no_raw && x->lost == 0 && x->whole + x->seen <= x->points;
	if (!x->one_by_one)
		querypoint_spill(x);
	r = queryone_refine_all(x);
	return r < 0 ? r : queryone_read_all(x);
}

int queryone_answer(struct queryone *x, struct store_result *ret)
{
	size_t i;
	int r = queryone_descend(x);

	if (r < 0)
		return r;
	if (x->grid)
		x->cells = xcalloc(x->grid->n, sizeof(*x->cells));
	r = queryone_collect(x);
	if (r < 0)
		return r;
	*ret = (struct store_result){
		.raw = x->one_by_one && x->lost == 0, .aligned = x->grid != NULL, .lost = x->lost};
	if (ret->raw) {
		queryone_give_raw(x, ret);
		return 0;
	}
	querypoint_spill(x);
	if (!x->grid) {
		piece_buckets(&x->pieces, x->ask->axis, x->points, ret);
		return 0;
	}
	ret->n = x->grid->n;
	ret->buckets = xcalloc(ret->n, sizeof(*ret->buckets));
	for (i = 0; i < ret->n; i++)
		ret->buckets[i] = piece_bucket(&x->cells[i]);
	return 0;
}

void queryone_reset(struct queryone *x)
{
	size_t i;

	cover_done(&x->cover);
	for (i = 0; i < TREEWALK_LEVELS; i++) {
		free(x->in[i].v);
		free(x->cross[i].v);
		free(x->below[i].v);
		x->in[i] = x->cross[i] = x->below[i] = (struct treewalk_list){0};
	}
	free(x->opens);
	free(x->raw);
	free(x->pieces.v);
	free(x->cells);
	x->opens = NULL;
	x->raw = NULL;
	x->cells = NULL;
	x->pieces = (struct piece_list){0};
	x->n_opens = x->cap_opens = x->n_raw = x->cap_raw = 0;
	x->whole = x->seen = x->lost = 0;
	x->now.b.count = 0;
}

void queryone_done(struct queryone *x)
{
	queryone_reset(x);
	points_done(&x->tail);
	hists_done(&x->tail_hists);
}
