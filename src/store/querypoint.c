/* SPDX-License-Identifier: Apache-2.0
 *
 * querypoint.c - points and nodes on their way into the answer for a series: each
 * is looked at, then kept as it is, joined with its neighbours, or put into the
 * bucket of a grid.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <math.h>

#define QUERYPOINT_FEW 16u   /* points of a bucket that are parted one by one */
#define QUERYPOINT_RAW 4096u /* points that are kept one by one, and 4 for each that is wanted */

bool querypoint_needs_steps(const struct queryone *x)
{
	return x->ask->axis == STORE_BY_STEP || x->ask->range.by_step;
}

bool querypoint_sees(const struct queryone *x, const struct piece_point *p)
{
	const struct store_range *g = &x->ask->range;

	if (p->step == SINK_STEP_NONE && querypoint_needs_steps(x))
		return false;
	if (g->by_time && (p->time < g->time_min || p->time > g->time_max))
		return false;
	if (g->by_step && (p->step < g->step_min || p->step > g->step_max))
		return false;
	return g->all_segments || !cover_hides(&x->cover, p->segment, p->step);
}

struct piece_point querypoint_point(const struct queryone *x, const struct points_view *points,
				    const struct hists *hists, size_t i, uint64_t at,
				    uint32_t segment)
{
	const struct hists_row *row;
	double v;

	if (x->is_hist) {
		row = &hists->rows[i];
		return (struct piece_point){at,       row->time, row->step, row->count, row->nan,
					    row->sum, row->min,  row->max,  NAN,        segment};
	}
	v = points->value[i];
	return (struct piece_point){
		at, points->time[i], points->step[i], !isnan(v), isnan(v), v, v, v, v, segment};
}

void querypoint_emit(struct queryone *x, struct piece *p)
{
	const struct store_grid *g = x->grid;
	uint64_t i;

	if (p->b.count && g) {
		i = ((uint64_t)piece_middle(p, x->ask->axis) - (uint64_t)g->x0) /
		    (uint64_t)g->width;
		if (i < g->n) /* else it came after the grid had been laid */
			piece_join(&x->cells[i], p);
	} else if (p->b.count) {
		piece_push(&x->pieces, p);
	}
	p->b.count = 0;
}

/* One more point of a piece, which ends with its leaf if another leaf follows than
 * the next one. */
static void querypoint_give(struct queryone *x, const struct piece_point *p, uint64_t leaf)
{
	if (x->now.b.count && leaf != x->now_leaf && p->at != x->now.to + 1)
		querypoint_emit(x, &x->now);
	x->now_leaf = leaf;
	piece_add(&x->now, p);
	if (x->grid || x->now.b.count >= x->piece_max)
		querypoint_emit(x, &x->now);
}

/* The same of a node. */
void querypoint_give_node(struct queryone *x, struct piece *p)
{
	if (x->grid) {
		querypoint_emit(x, p);
		return;
	}
	if (x->now.b.count &&
	    (p->from != x->now.to + 1 || x->now.b.count + p->b.count > x->piece_max))
		querypoint_emit(x, &x->now);
	piece_join(&x->now, p);
	x->now_leaf = UINT64_MAX;
}

/* There are too many points to be given one by one: what is not known yet of all of
 * them only makes pieces larger. */
void querypoint_spill(struct queryone *x)
{
	uint64_t each = (x->whole + x->seen) / x->points;
	size_t i;

	x->piece_max = each < QUERYPOINT_FEW ? 1 : each / 2;
	x->node_max = each ? 2 * each : 1;
	if (!x->grid)
		piece_reserve(&x->pieces, (x->whole + x->seen) / x->piece_max);
	for (i = 0; i < x->n_raw; i++)
		querypoint_give(x, &x->raw[i].p, x->raw[i].leaf);
	querypoint_emit(x, &x->now);
	x->n_raw = 0;
}

static void querypoint_take(struct queryone *x, const struct piece_point *p, uint64_t leaf,
			    int64_t thread)
{
	if (!querypoint_sees(x, p))
		return;
	x->seen++;
	if (!x->one_by_one) {
		querypoint_give(x, p, leaf);
		return;
	}
	x->raw = xgrow(x->raw, x->n_raw, &x->cap_raw, sizeof(*x->raw));
	x->raw[x->n_raw++] = (struct queryone_raw){*p, leaf, 0, (uint32_t)thread};
	if (x->n_raw > 4 * (size_t)x->points + QUERYPOINT_RAW)
		querypoint_spill(x);
}

/* All points of a leaf, in groups, without a look at each. */
static void querypoint_take_whole(struct queryone *x, const struct treewalk_node *leaf,
				  uint32_t segment)
{
	const struct points_view *from = &x->host->view;
	struct points_view v;
	struct summary s;
	struct piece p;
	size_t i, n;

	for (i = 0; i < leaf->s.n; i += n) {
		n = leaf->s.n - i < x->piece_max ? leaf->s.n - i : x->piece_max;
		v = (struct points_view){n, from->time + leaf->at + i, from->step + leaf->at + i,
					 from->thread + leaf->at + i, from->value + leaf->at + i};
		summary_points(&s, &v, segment);
		piece_node(&p, leaf->start + i, &s);
		querypoint_emit(x, &p);
	}
	x->seen += leaf->s.n;
}

void querypoint_take_leaf(struct queryone *x, const struct queryone_open *o, uint32_t segment)
{
	const struct points_view *points = &x->host->view;
	const struct treewalk_node *leaf = &o->leaf;
	struct piece_point p;
	size_t i;

	if (o->whole && !x->one_by_one && !x->grid && !x->is_hist && x->piece_max > 1) {
		querypoint_take_whole(x, leaf, segment);
		return;
	}
	for (i = leaf->at; i < leaf->at + leaf->s.n; i++) {
		p = querypoint_point(x, points, &x->host->hists, i, leaf->start + i - leaf->at,
				     segment);
		querypoint_take(x, &p, leaf->start, x->is_hist ? 0 : points->thread[i]);
	}
	querypoint_emit(x, &x->now);
}

void querypoint_tail(struct queryone *x, bool look)
{
	size_t i, n = x->is_hist ? x->tail_hists.n : x->tail.n;
	struct points_view tail = points_slice(&x->tail, 0, x->tail.n);
	struct segment at = x->segment;
	struct piece_point p;
	int64_t time;

	for (i = 0; i < n; i++) {
		p = querypoint_point(x, &tail, &x->tail_hists, i, x->sealed + i, 0);
		time = x->kind == SINK_SPAN ? segment_span_end(p.time, p.value) : p.time;
		segment_next(&at, time, p.step);
		p.segment = at.no;
		if (look)
			cover_add(&x->cover, at.no, p.step, p.step);
		else
			querypoint_take(x, &p, x->sealed, x->is_hist ? 0 : x->tail.thread[i]);
	}
	querypoint_emit(x, &x->now);
}
