/* SPDX-License-Identifier: Apache-2.0
 *
 * nest.c - trees of calls by start and end times, per thread.
 */
#include "analyse/nest.h"

#include "analyse/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A row of a thread, or one end of it. */
struct item {
	int64_t time, dur;
	uint32_t row, index;
	uint16_t track;
	bool is_end;
};

static int by_number(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_start(const void *pa, const void *pb)
{
	const struct item *a = pa, *b = pb;
	int r = by_number(a->track, b->track);

	if (!r)
		r = by_number(a->time, b->time);
	if (!r)
		r = by_number(b->dur, a->dur);
	return r ? r : by_number(a->index, b->index);
}

/* Ends at one time where neither or both are of zero length, as both orders of HTA have it. */
static int same_kind(const struct item *a, const struct item *b)
{
	int r = a->is_end ? by_number(a->dur, b->dur) : by_number(b->dur, a->dur);

	if (r)
		return r;
	return a->is_end ? by_number(b->index, a->index) : by_number(a->index, b->index);
}

static int by_stack(const void *pa, const void *pb)
{
	const struct item *a = pa, *b = pb;
	int r = by_number(a->track, b->track);

	if (r)
		return r;
	if (a->row == b->row)
		return a->is_end - b->is_end;
	r = by_number(a->time, b->time);
	if (r)
		return r;
	if (a->is_end == b->is_end)
		return same_kind(a, b);
	if (a->dur > 0 && b->dur > 0)
		return a->is_end ? -1 : 1;
	if (!a->dur && !b->dur)
		return by_number(a->index, b->index);
	return a->is_end ? 1 : -1;
}

static int by_graph(const void *pa, const void *pb)
{
	const struct item *a = pa, *b = pb;
	int r = by_number(a->track, b->track);

	if (!r)
		r = by_number(a->time, b->time);
	if (r)
		return r;
	if (a->row == b->row)
		return a->is_end - b->is_end;
	if (!a->dur && b->dur > 0)
		return b->is_end ? -1 : 1;
	if (a->dur > 0 && !b->dur)
		return a->is_end ? 1 : -1;
	if (a->is_end != b->is_end) /* of two zeros the start is first, else the end */
		return a->is_end == (a->dur != 0) ? -1 : 1;
	return same_kind(a, b);
}

bool nest_is_call(const struct view *v, const struct view_row *r)
{
	if (v->rule != VIEW_EXACT)
		return r->stream == TRACE_NONE;
	return !r->is_gpu && r->cat != TRACE_CAT_CUDA_SYNC && r->cat != TRACE_CAT_CUDA_EVENT &&
	       r->cat != TRACE_CAT_GPU_USER_ANNOTATION && r->cat != TRACE_CAT_TRACE;
}

static bool is_wanted(const struct view *v, const struct nest_options *o, uint32_t i)
{
	return o->want ? o->want(o->arg, i, &v->rows[i]) : nest_is_call(v, &v->rows[i]);
}

/* The rows (and, for the orders of HTA, their ends), sorted. */
static int gather(const struct view *v, const struct nest_options *o, struct item **ret,
		  size_t *ret_n)
{
	bool ends = o->order != NEST_EXACT;
	struct item *items;
	size_t n = 0, want = 0;

	for (uint32_t i = 0; i < v->n; i++)
		want += is_wanted(v, o, i);
	items = calloc(want * (ends ? 2 : 1) + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->n; i++) {
		const struct view_row *r = &v->rows[i];
		int64_t dur = r->end - r->ts;
		struct item it = {r->ts, dur, i, r->index, r->track, false};

		if (!is_wanted(v, o, i))
			continue;
		if (o->join)
			it.track = o->join[r->track];
		if (o->order != NEST_HTA_GRAPH && it.dur < 0)
			it.dur = 0;
		items[n++] = it;
		if (!ends)
			continue;
		it.time += it.dur;
		it.is_end = true;
		items[n++] = it;
	}
	qsort(items, n, sizeof(*items),
	      !ends                        ? by_start
	      : o->order == NEST_HTA_STACK ? by_stack
					   : by_graph);
	*ret = items;
	*ret_n = n;
	return 0;
}

static void thread_of(struct nest *t, uint16_t track)
{
	struct nest_thread *last = t->n_threads ? &t->threads[t->n_threads - 1] : NULL;

	if (!last || last->track != track) {
		last = &t->threads[t->n_threads++];
		last->track = track;
		last->first = t->n;
	}
	last->end = t->n + 1;
}

static uint32_t push(struct nest *t, const struct item *it, int32_t parent)
{
	uint32_t k = t->n;

	thread_of(t, it->track);
	t->row[k] = it->row;
	t->parent[k] = parent;
	t->depth[k] = parent < 0 ? 0 : t->depth[parent] + 1;
	t->end[k] = k + 1;
	t->n++;
	return k;
}

static void close_ends(struct nest *t)
{
	for (uint32_t k = t->n; k-- > 0;) {
		int32_t p = t->parent[k];

		if (p >= 0 && t->end[p] < t->end[k])
			t->end[p] = t->end[k];
	}
}

/* Every end closes the innermost open row, whichever it is. */
static void build_by_ends(struct nest *t, const struct item *items, size_t n)
{
	int32_t open = -1;
	uint32_t track = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		if (items[i].track != track) {
			track = items[i].track;
			open = -1;
		}
		if (!items[i].is_end)
			open = (int32_t)push(t, &items[i], open);
		else if (open >= 0)
			open = t->parent[open];
	}
}

/* ends: the cut end of each node, so that self times of a tree add up to its top's length. */
static void build_by_starts(struct nest *t, const struct item *items, size_t n, int64_t *ends)
{
	int32_t open = -1;
	uint32_t track = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t end = items[i].time + items[i].dur;
		uint32_t k;

		if (items[i].track != track) {
			track = items[i].track;
			open = -1;
		}
		while (open >= 0 && ends[open] <= items[i].time)
			open = t->parent[open];
		if (open >= 0 && end > ends[open]) {
			end = ends[open];
			t->cut++;
		}
		k = push(t, &items[i], open);
		ends[k] = end;
		t->self[k] = end - items[i].time;
		if (open >= 0)
			t->self[open] -= t->self[k];
		open = (int32_t)k;
	}
}

int nest_new(const struct view *v, const struct nest_options *o, struct nest **ret)
{
	struct nest *t = calloc(1, sizeof(*t));
	struct item *items = NULL;
	int64_t *ends = NULL;
	size_t n = 0, room;
	int r = t ? gather(v, o, &items, &n) : -ENOMEM;

	if (r < 0)
		goto fail;
	room = n + 1;
	t->row = calloc(room, sizeof(*t->row));
	t->parent = calloc(room, sizeof(*t->parent));
	t->depth = calloc(room, sizeof(*t->depth));
	t->end = calloc(room, sizeof(*t->end));
	t->threads = calloc((size_t)UINT16_MAX + 1, sizeof(*t->threads));
	r = -ENOMEM;
	if (!t->row || !t->parent || !t->depth || !t->end || !t->threads)
		goto fail;
	if (o->order == NEST_EXACT) {
		t->self = calloc(room, sizeof(*t->self));
		ends = calloc(room, sizeof(*ends));
		if (!t->self || !ends)
			goto fail;
		build_by_starts(t, items, n, ends);
	} else {
		build_by_ends(t, items, n);
	}
	close_ends(t);
	free(ends);
	free(items);
	*ret = t;
	return 0;
fail:
	free(ends);
	free(items);
	nest_free(t);
	return r;
}

void nest_free(struct nest *t)
{
	if (!t)
		return;
	free(t->row);
	free(t->parent);
	free(t->depth);
	free(t->end);
	free(t->self);
	free(t->threads);
	free(t);
}

/* ---- own times without the tree --------------------------------------------------------- */

struct open_row {
	int64_t end, self;
	uint32_t row;
};

struct open_thread {
	struct open_row *rows; /* the innermost last */
	size_t n, cap;
};

/* A row among those that begin at one time. */
struct begun {
	int64_t dur;
	uint32_t row;
};

struct walk {
	const struct view *v;
	void (*fn)(void *arg, const struct view_row *r, int64_t self);
	void *arg;
	struct open_thread *threads; /* by track */
	struct begun *begun;
	size_t n, cap;
};

static int by_length(const void *pa, const void *pb)
{
	const struct begun *a = pa, *b = pb;
	int r = by_number(b->dur, a->dur);

	return r ? r : by_number(a->row, b->row);
}

static void close_row(struct walk *w, struct open_thread *t)
{
	const struct open_row *x = &t->rows[--t->n];

	w->fn(w->arg, &w->v->rows[x->row], x->self);
}

static int open_row(struct walk *w, uint32_t row, int64_t dur)
{
	const struct view_row *r = &w->v->rows[row];
	struct open_thread *t = &w->threads[r->track];
	struct open_row x = {r->ts + dur, dur, row};
	int rc;

	while (t->n && t->rows[t->n - 1].end <= r->ts)
		close_row(w, t);
	if (t->n) {
		struct open_row *outer = &t->rows[t->n - 1];

		x.end = x.end < outer->end ? x.end : outer->end;
		x.self = x.end - r->ts;
		outer->self -= x.self;
	}
	rc = room_for(&t->rows, t->n, &t->cap, sizeof(*t->rows));
	if (!rc)
		t->rows[t->n++] = x;
	return rc;
}

/* What begins at one time goes in, the longer first; the view has it by place in the file. */
static int open_begun(struct walk *w)
{
	int rc = 0;

	if (w->n > 1)
		qsort(w->begun, w->n, sizeof(*w->begun), by_length);
	for (size_t i = 0; i < w->n && !rc; i++)
		rc = open_row(w, w->begun[i].row, w->begun[i].dur);
	w->n = 0;
	return rc;
}

static int begin_row(struct walk *w, uint32_t i)
{
	const struct view_row *r = &w->v->rows[i];
	int64_t dur = r->end - r->ts;
	int rc = 0;

	if (!nest_is_call(w->v, r)) {
		w->fn(w->arg, r, dur);
		return 0;
	}
	if (w->n && w->v->rows[w->begun[0].row].ts != r->ts)
		rc = open_begun(w);
	if (!rc)
		rc = room_for(&w->begun, w->n, &w->cap, sizeof(*w->begun));
	if (!rc)
		w->begun[w->n++] = (struct begun){dur > 0 ? dur : 0, i};
	return rc;
}

int nest_self(const struct view *v, void (*fn)(void *arg, const struct view_row *r, int64_t self),
	      void *arg)
{
	struct walk w = {.v = v, .fn = fn, .arg = arg};
	size_t n = trace_tracks(v->trace);
	int rc = -ENOMEM;

	w.threads = calloc(n + 1, sizeof(*w.threads));
	if (w.threads) {
		rc = 0;
		for (size_t i = 0; i < v->n && !rc; i++)
			rc = begin_row(&w, (uint32_t)i);
		if (!rc)
			rc = open_begun(&w);
	}
	for (size_t i = 0; w.threads && i < n; i++) {
		while (!rc && w.threads[i].n)
			close_row(&w, &w.threads[i]);
		free(w.threads[i].rows);
	}
	free(w.threads);
	free(w.begun);
	return rc;
}
