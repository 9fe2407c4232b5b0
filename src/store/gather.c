/* SPDX-License-Identifier: Apache-2.0
 *
 * gather.c - the rows of a tail, read side by side: for each series in turn its
 * points from all rows, oldest first. One series at a time is in memory.
 */
#include "base/mem.h"
#include "store/heap.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_AXES 16u                         /* decoded axes of merged rows at hand, */
#define GATHER_AXES_ROWS (2 * CHUNK_POINTS_MAX) /* with at most so many rows together */
#define GATHER_HISTS (2 * CHUNK_HISTS_MAX)

/* A row, and where its walk stands. */
struct gather_row {
	struct blob_id id;
	struct rowbody *body;
	bool merged, live;
	const struct gather_memory *memory; /* instead of a row */
	size_t at, from;                    /* in it: series, point */
	uint32_t series;                    /* of the block or entry that is next */
	bool is_hist;
	struct tail_walk walk;
	struct tail_block block;
	struct merged m;
	struct merged_entry entry;
};

struct gather_axis {
	size_t row, index;
	uint64_t used;
	struct axis axis;
};

struct gather {
	struct store *s;
	struct err *e;
	struct build *b;
	struct gather_row *rows;
	size_t n_rows;
	uint64_t *heap; /* series and row, smallest first */
	size_t n_heap;
	struct gather_axis axes[GATHER_AXES];
	uint64_t clock;
	struct points points;
	struct hists hists;
};

/* ---- rows ------------------------------------------------------------------------- */

static int gather_next(struct gather *g, struct gather_row *row)
{
	const struct catalog *d = &g->s->catalog;
	int r;

	if (row->memory) {
		row->live = row->at < row->memory->n;
		row->series = row->live ? row->memory->series[row->at] : 0;
		return 0;
	}
	if (row->merged) {
		r = merged_next(&row->m, &row->entry);
		row->series = row->entry.series;
		row->is_hist = row->entry.is_hist;
	} else {
		r = tail_block(&row->walk, &row->block);
		row->series = row->block.series;
		row->is_hist = row->block.is_hist;
	}
	row->live = r > 0;
	if (r <= 0)
		return r;
	if (row->series > d->n_series ||
	    row->is_hist != (d->series[row->series - 1].kind == SINK_HISTOGRAM))
		return blob_bad(&row->id, g->e, 0,
				"a series that is not defined, or of another kind");
	return 0;
}

static int gather_open(struct gather *g, struct fold_row *from, struct gather_row *row)
{
	int r;

	row->id = (struct blob_id){g->s->path, "tail", from->seq, 0};
	row->body = &from->body;
	row->merged = from->blob.format == BLOB_MERGED;
	r = row->merged ? merged_begin(&row->m, &row->id, &from->blob, g->e)
			: tail_begin(&row->walk, &row->id, &from->blob, g->e);
	return r < 0 ? r : gather_next(g, row);
}

/* ---- a heap of rows by series ------------------------------------------------------- */

/* All rows whose next points are of this kind. */
static void gather_fill(struct gather *g, bool is_hist)
{
	size_t i;

	g->n_heap = 0;
	for (i = 0; i < g->n_rows; i++)
		if (g->rows[i].live && g->rows[i].is_hist == is_hist)
			g->heap[g->n_heap++] = (uint64_t)g->rows[i].series << 32 | i;
	heap_make(g->heap, g->n_heap);
}

/* The row on top has given its block: take its next one. */
static int gather_pop(struct gather *g, bool is_hist)
{
	size_t i = (uint32_t)g->heap[0];
	struct gather_row *row = &g->rows[i];
	int r = gather_next(g, row);

	if (r < 0)
		return r;
	if (row->live && row->is_hist == is_hist)
		g->heap[0] = (uint64_t)row->series << 32 | i;
	else
		g->heap[0] = g->heap[--g->n_heap];
	if (g->n_heap)
		heap_down(g->heap, g->n_heap, 0);
	return 0;
}

/* ---- points --------------------------------------------------------------------------- */

static int gather_give(struct gather *g, uint32_t series, bool more)
{
	if (g->points.n == 0)
		return 0;
	return build_points(g->b, series, &g->points, more);
}

static int gather_block(struct gather *g, struct gather_row *row)
{
	struct points_stream s;
	const char *why = points_start(&row->block.points, &row->walk.base, &s);
	size_t n;
	int r = 0;

	while (!why && r == 0 && s.left) {
		n = BUILD_POINTS - g->points.n;
		why = points_take(&s, n < s.left ? n : s.left, &g->points);
		if (!why && g->points.n == BUILD_POINTS)
			r = gather_give(g, row->series, true);
	}
	return why ? blob_bad(&row->id, g->e, 0, why) : r;
}

/* The points of the series whose turn it is, and on to the next. */
static int gather_memory(struct gather *g, struct gather_row *row)
{
	const struct points *p = row->memory->points;
	size_t left = row->memory->lengths[row->at++], n;
	int r = 0;

	for (; r == 0 && left; left -= n, row->from += n) {
		n = BUILD_POINTS - g->points.n;
		n = n < left ? n : left;
		if (points_append(&g->points, p, row->from, n) < 0)
			return err_set(g->e, -ENOMEM, "%s: no memory for a fold", g->s->path);
		if (g->points.n == BUILD_POINTS)
			r = gather_give(g, row->series, true);
	}
	return r;
}

/* Where an axis of n rows can be decoded: those used longest ago make room. */
static struct gather_axis *gather_axis_room(struct gather *g, size_t n)
{
	struct gather_axis *a, *oldest;
	size_t i, rows;

	for (;;) {
		a = oldest = NULL;
		for (i = rows = 0; i < GATHER_AXES; i++) {
			struct gather_axis *x = &g->axes[i];

			rows += x->axis.cap;
			if (!x->axis.cap)
				a = x;
			else if (!oldest || x->used < oldest->used)
				oldest = x;
		}
		if (a && rows + n <= GATHER_AXES_ROWS)
			return a;
		if (oldest->axis.cap >= n && rows <= GATHER_AXES_ROWS)
			return oldest;
		axis_done(&oldest->axis);
	}
}

/* The axis of the row's entry, decoded. */
static int gather_axis(struct gather *g, size_t row, struct axis **ret)
{
	const struct merged_entry *x = &g->rows[row].entry;
	const struct merged_axis *from = &g->rows[row].m.axes[x->axis];
	struct rowbody *body = g->rows[row].body;
	struct gather_axis *a;
	size_t i;
	int r;

	for (i = 0; i < GATHER_AXES; i++) {
		a = &g->axes[i];
		if (a->axis.n && a->row == row && a->index == x->axis) {
			a->used = ++g->clock;
			*ret = &a->axis;
			return 0;
		}
	}
	a = gather_axis_room(g, from->n);
	a->axis.n = 0;
	r = rowbody_load(body, from->p, from->len, g->e);
	if (r == 0)
		r = merged_axis(&g->rows[row].m, x->axis, &g->s->columns, &a->axis);
	rowbody_drop(body, from->p, from->len);
	if (r < 0)
		return r;
	a->row = row;
	a->index = x->axis;
	a->used = ++g->clock;
	*ret = &a->axis;
	return 0;
}

/* The entry's bytes; those before it are done with. */
static int gather_load(struct gather *g, struct gather_row *row)
{
	rowbody_pass(row->body, row->entry.p);
	return rowbody_load(row->body, row->entry.p, row->entry.len, g->e);
}

static int gather_entry(struct gather *g, size_t i)
{
	struct gather_row *row = &g->rows[i];
	struct axis *axis = NULL;
	int r;

	if (g->points.n + row->entry.n > BUILD_POINTS) {
		r = gather_give(g, row->series, true);
		if (r < 0)
			return r;
	}
	r = gather_axis(g, i, &axis);
	if (r == 0)
		r = gather_load(g, row);
	if (r == 0)
		r = merged_points(&row->m, &row->entry, &g->s->columns, axis, &g->points);
	if (r == 0 && g->points.n >= BUILD_POINTS)
		r = gather_give(g, row->series, true);
	return r;
}

static int gather_from(struct gather *g, size_t i)
{
	if (g->rows[i].memory)
		return gather_memory(g, &g->rows[i]);
	return g->rows[i].merged ? gather_entry(g, i) : gather_block(g, &g->rows[i]);
}

static int gather_all_points(struct gather *g)
{
	uint32_t series = 0;
	int r = 0;

	gather_fill(g, false);
	while (r == 0 && g->n_heap) {
		size_t i = (uint32_t)g->heap[0];

		if (g->rows[i].series != series) {
			r = gather_give(g, series, false);
			series = g->rows[i].series;
		}
		if (r == 0)
			r = gather_from(g, i);
		if (r == 0)
			r = gather_pop(g, false);
	}
	return r < 0 ? r : gather_give(g, series, false);
}

static int gather_all_hists(struct gather *g)
{
	uint32_t series = 0;
	int r = 0;

	gather_fill(g, true);
	while (r == 0 && g->n_heap) {
		struct gather_row *row = &g->rows[(uint32_t)g->heap[0]];

		if (row->series != series) {
			r = build_hists(g->b, series, &g->hists, false);
			series = row->series;
		} else if (g->hists.n >= GATHER_HISTS || g->hists.n_bins >= 2 * CHUNK_BINS_MAX) {
			r = build_hists(g->b, series, &g->hists, true);
		}
		if (r == 0 && row->merged)
			r = gather_load(g, row);
		if (r == 0)
			r = row->merged ? merged_hists(&row->m, &row->entry, &g->hists)
					: tail_hists(&row->walk, &row->block, &g->hists);
		if (r == 0)
			r = gather_pop(g, true);
	}
	return r < 0 ? r : build_hists(g->b, series, &g->hists, false);
}

int gather_rows(struct store *s, struct fold_row *rows, size_t n,
		const struct gather_memory *memory, struct build *b, struct err *e)
{
	struct gather g = {.s = s, .e = e, .b = b, .n_rows = n + (memory != NULL)};
	size_t i;
	int r = 0;

	g.rows = xcalloc(g.n_rows, sizeof(*g.rows));
	g.heap = xcalloc(g.n_rows, sizeof(*g.heap));
	for (i = 0; r == 0 && i < n; i++)
		r = gather_open(&g, &rows[i], &g.rows[i]);
	if (r == 0 && memory) {
		g.rows[n].memory = memory;
		r = gather_next(&g, &g.rows[n]);
	}
	if (r == 0)
		r = gather_all_points(&g);
	if (r == 0)
		r = gather_all_hists(&g);
	if (r == 0)
		r = build_end(b);
	for (i = 0; i < n; i++)
		merged_done(&g.rows[i].m);
	for (i = 0; i < GATHER_AXES; i++)
		axis_done(&g.axes[i].axis);
	points_done(&g.points);
	hists_done(&g.hists);
	free(g.rows);
	free(g.heap);
	return r;
}
