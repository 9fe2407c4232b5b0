/* SPDX-License-Identifier: Apache-2.0
 *
 * tailrows.c - rows of a host's tail, read side by side: the blocks of one series
 * from all rows, oldest first, then those of the next series.
 */
#include "base/mem.h"
#include "store/heap.h"
#include "store/read_priv.h"

#include <stdlib.h>

static int tailrows_step(struct tailrows_row *row)
{
	int r;

	if (row->merged) {
		r = merged_next(&row->m, &row->entry);
		row->series = row->entry.series;
		row->n = row->entry.n;
		row->is_hist = row->entry.is_hist;
	} else {
		r = tail_block(&row->walk, &row->block);
		row->series = row->block.series;
		row->n = row->block.n;
		row->is_hist = row->block.is_hist;
	}
	row->live = r > 0;
	return r < 0 ? r : 0;
}

int tailrows_open(struct tailrows *t, struct store_reader *r, const struct hosts_one *h,
		  size_t from, struct err *e)
{
	size_t i;
	int code = 0;

	*t = (struct tailrows){.r = r, .e = e, .n_rows = h->n_tail - from};
	t->rows = xcalloc(t->n_rows, sizeof(*t->rows));
	t->heap = xcalloc(t->n_rows, sizeof(*t->heap));
	for (i = 0; code == 0 && i < t->n_rows; i++) {
		const struct hosts_tail *tail = &h->tail[from + i];
		struct tailrows_row *row = &t->rows[i];

		row->id = (struct blob_id){h->path, "tail", tail->seq, 0};
		row->merged = tail->blob.format == BLOB_MERGED;
		row->axis_index = -1;
		code = row->merged ? merged_begin(&row->m, &row->id, &tail->blob, e)
				   : tail_begin(&row->walk, &row->id, &tail->blob, e);
		if (code == 0)
			code = tailrows_step(row);
	}
	return code;
}

void tailrows_done(struct tailrows *t)
{
	size_t i;

	for (i = 0; i < t->n_rows; i++) {
		merged_done(&t->rows[i].m);
		axis_done(&t->rows[i].axis);
	}
	free(t->rows);
	free(t->heap);
	*t = (struct tailrows){0};
}

void tailrows_begin(struct tailrows *t, bool is_hist)
{
	size_t i;

	t->is_hist = is_hist;
	t->n_heap = 0;
	for (i = 0; i < t->n_rows; i++)
		if (t->rows[i].live && t->rows[i].is_hist == is_hist)
			t->heap[t->n_heap++] = (uint64_t)t->rows[i].series << 32 | i;
	heap_make(t->heap, t->n_heap);
}

const struct tailrows_row *tailrows_next(const struct tailrows *t)
{
	return t->n_heap ? &t->rows[(uint32_t)t->heap[0]] : NULL;
}

static int tailrows_decode(struct tailrows *t, struct tailrows_row *row, struct points *points,
			   struct hists *hists)
{
	int r = 0;

	if (!row->merged)
		return row->is_hist ? tail_hists(&row->walk, &row->block, hists)
				    : tail_points(&row->walk, &row->block, points);
	if (row->is_hist)
		return merged_hists(&row->m, &row->entry, hists);
	if (row->axis_index != row->entry.axis) {
		row->axis_index = -1;
		r = merged_axis(&row->m, row->entry.axis, &t->r->columns, &row->axis);
	}
	if (r < 0)
		return r;
	row->axis_index = row->entry.axis;
	return merged_points(&row->m, &row->entry, &t->r->columns, &row->axis, points);
}

int tailrows_take(struct tailrows *t, struct points *points, struct hists *hists)
{
	size_t i = (uint32_t)t->heap[0];
	struct tailrows_row *row = &t->rows[i];
	int r = 0;

	if (row->is_hist ? hists != NULL : points != NULL)
		r = tailrows_decode(t, row, points, hists);
	if (r == 0)
		r = tailrows_step(row);
	if (r < 0)
		return r;
	if (row->live && row->is_hist == t->is_hist)
		t->heap[0] = (uint64_t)row->series << 32 | i;
	else
		t->heap[0] = t->heap[--t->n_heap];
	if (t->n_heap)
		heap_down(t->heap, t->n_heap, 0);
	return 0;
}
