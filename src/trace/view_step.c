/* SPDX-License-Identifier: Apache-2.0
 *
 * view_step.c - the profiler step of each row. Steps may overlap (a copy of each lies on
 * the device's side): one sweep over their borders says which of them counts from where.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>

struct step {
	int64_t ts, end;
	int32_t number;
	bool is_host;
};

/* From ts on this step counts (until the next border); -1: none. */
struct border {
	int64_t ts;
	int32_t number;
};

struct sweep {
	struct step *steps; /* the later one counts where several are open */
	size_t n;
	uint32_t *heap; /* open steps, the greatest place on top */
	size_t open;
	struct border *borders;
	size_t n_borders;
	size_t last; /* of step_at(): borders at or before what it looked for */
};

static int collect_steps(struct view_work *w, struct sweep *s)
{
	const struct view *v = w->v;
	const struct view_row *r;
	size_t i;

	s->steps = malloc((w->n_marks + 1) * sizeof(*s->steps));
	s->heap = malloc((w->n_marks + 1) * sizeof(*s->heap));
	s->borders = malloc((2 * w->n_marks + 1) * sizeof(*s->borders));
	if (!s->steps || !s->heap || !s->borders)
		return -ENOMEM;
	for (i = 0; i < w->n_marks; i++) {
		r = &v->rows[w->marks[i]];
		s->steps[s->n] =
			(struct step){r->ts, r->end, w->names[r->name].step,
				      !r->is_gpu && r->cat != TRACE_CAT_GPU_USER_ANNOTATION};
		/* exact: the host's rows say what a step is. */
		s->n += v->rule != VIEW_EXACT || s->steps[s->n].is_host;
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static void heap_push(struct sweep *s, uint32_t place)
{
	size_t i = s->open++, up;

	for (; i && s->heap[up = (i - 1) / 2] < place; i = up)
		s->heap[i] = s->heap[up];
	s->heap[i] = place;
}

static void heap_pop(struct sweep *s)
{
	uint32_t last = s->heap[--s->open];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < s->open) {
		child += child + 1 < s->open && s->heap[child + 1] > s->heap[child];
		if (s->heap[child] <= last)
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
}

/* starts: places of steps by start; ends: all ends, sorted. */
static void sweep_borders(struct sweep *s, const struct view_key *starts,
			  const struct view_key *ends)
{
	size_t a = 0, z = 0;
	int64_t now;

	while (a < s->n || z < s->n) {
		if (a < s->n && (z == s->n || starts[a].key < ends[z].key))
			now = s->steps[starts[a].id].ts;
		else
			now = s->steps[ends[z].id].end;
		for (; a < s->n && starts[a].key == view_key_of(now); a++)
			heap_push(s, starts[a].id);
		for (; z < s->n && ends[z].key == view_key_of(now); z++)
			;
		while (s->open && s->steps[s->heap[0]].end <= now)
			heap_pop(s);
		s->borders[s->n_borders].ts = now;
		s->borders[s->n_borders++].number = s->open ? s->steps[s->heap[0]].number : -1;
	}
}

static int make_borders(struct sweep *s)
{
	struct view_key *keys = malloc((3 * s->n + 1) * sizeof(*keys));
	size_t i;

	if (!keys)
		return -ENOMEM;
	for (i = 0; i < s->n; i++) {
		keys[i] = (struct view_key){view_key_of(s->steps[i].ts), (uint32_t)i};
		keys[s->n + i] = (struct view_key){view_key_of(s->steps[i].end), (uint32_t)i};
	}
	view_sort(keys, keys + 2 * s->n, s->n);
	view_sort(keys + s->n, keys + 2 * s->n, s->n);
	sweep_borders(s, keys, keys + s->n);
	free(keys);
	return 0;
}

/* Rows come nearly in the order of time: the last answer often holds. */
static int32_t step_at(struct sweep *s, int64_t ts)
{
	size_t low = s->last, high = s->n_borders, middle;

	if (low && s->borders[low - 1].ts <= ts && (low == high || ts < s->borders[low].ts))
		return s->borders[low - 1].number;
	low = 0;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (s->borders[middle].ts <= ts)
			low = middle + 1;
		else
			high = middle;
	}
	s->last = low;
	return low ? s->borders[low - 1].number : -1;
}

/* hta: host rows by their time, rows of streams above 0 by their launch, operators on
 * stream 0 by their time, the rest of stream 0 has none. */
static void assign_hta(struct view *v, struct sweep *s)
{
	struct view_row *r;
	size_t i;

	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		if (r->stream < 0 || (r->stream == 0 && r->cat == TRACE_CAT_CPU_OP))
			r->step = step_at(s, r->ts);
	}
	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		if (r->stream > 0 && r->partner && r->pair != VIEW_NO_ROW &&
		    v->rows[r->pair].stream <= 0)
			r->step = v->rows[r->pair].step;
	}
}

/* exact: work belongs to the step that launched it; without a launch, to that of its time. */
static void assign_exact(struct view *v, struct sweep *s)
{
	struct view_row *r;
	size_t i;

	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		r->step = step_at(s, r->is_gpu && r->pair != VIEW_NO_ROW ? v->rows[r->pair].ts
									 : r->ts);
	}
}

/* The host's rows of steps, by time. */
static int keep_steps(struct view *v, const struct sweep *s)
{
	struct step *sorted = malloc((s->n + 1) * sizeof(*sorted));
	size_t i;

	v->steps = malloc((s->n + 1) * sizeof(*v->steps));
	if (!sorted || !v->steps) {
		free(sorted);
		return -ENOMEM;
	}
	for (i = 0; i < s->n; i++)
		sorted[i] = s->steps[i];
	qsort(sorted, s->n, sizeof(*sorted), by_start);
	for (i = 0; i < s->n; i++)
		if (sorted[i].is_host)
			v->steps[v->n_steps++] =
				(struct view_step){sorted[i].ts, sorted[i].end, sorted[i].number};
	free(sorted);
	return 0;
}

int view_steps(struct view_work *w)
{
	struct view *v = w->v;
	struct sweep s = {0};
	int rc = collect_steps(w, &s);

	/* exact: of overlapping steps the one that began last counts. */
	if (!rc && v->rule == VIEW_EXACT)
		qsort(s.steps, s.n, sizeof(*s.steps), by_start);
	if (!rc)
		rc = make_borders(&s);
	if (!rc)
		rc = keep_steps(v, &s);
	if (!rc && v->rule == VIEW_EXACT)
		assign_exact(v, &s);
	else if (!rc)
		assign_hta(v, &s);
	free(s.steps);
	free(s.heap);
	free(s.borders);
	return rc;
}
