/* SPDX-License-Identifier: Apache-2.0
 *
 * annotated.c - see annotated.h. On each track the shortest annotation paints first, and
 * what is painted is skipped from then on: each kernel is looked at about once.
 */
#include "analyse/annotated.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/streams.h"

/* Kernels of one track by start. */
struct canvas {
	const struct view *v;
	uint32_t *rows;
	size_t n;
	int64_t *reach;  /* the latest end up to here */
	uint32_t *next;  /* the first place from here on that is not painted (or leads there) */
	uint32_t *marks; /* of annotated */
};

static bool is_mark(const struct view *v, const struct view_row *r)
{
	(void)v;
	return r->cat == TRACE_CAT_GPU_USER_ANNOTATION;
}

static bool is_work(const struct view *v, const struct view_row *r)
{
	const char *name;

	if (v->rule == VIEW_EXACT)
		return r->is_gpu;
	if (r->stream >= 0 && r->correlation >= 0)
		return true;
	name = trace_text(v->trace, r->name, NULL);
	return !strcmp(name, "Event Sync") || !strcmp(name, "Context Sync");
}

static int64_t track_of(const struct view *v, const struct view_row *r)
{
	(void)v;
	return r->track;
}

static int by_place(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint32_t unpainted(struct canvas *c, uint32_t i)
{
	uint32_t end = i, up;

	while (c->next[end] != end)
		end = c->next[end];
	for (; i != end; i = up) {
		up = c->next[i];
		c->next[i] = end;
	}
	return end;
}

static void paint(struct canvas *c, uint32_t mark)
{
	const struct view_row *m = &c->v->rows[mark], *k;
	size_t low = 0, high = c->n, middle;
	uint32_t i;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (c->reach[middle] <= m->ts)
			low = middle + 1;
		else
			high = middle;
	}
	for (i = unpainted(c, (uint32_t)low); i < c->n; i = unpainted(c, i + 1)) {
		k = &c->v->rows[c->rows[i]];
		if (k->ts >= m->end)
			break;
		if (k->end <= m->ts)
			continue;
		c->marks[c->rows[i]] = mark;
		c->next[i] = i + 1;
	}
}

/* Annotations from the one that counts most: HTA sorts by duration, longest first, and lets
 * later ones win. */
static int order_marks(const struct view *v, uint32_t *marks, size_t n)
{
	struct numeric_key *k = malloc((n + 1) * sizeof(*k));
	const struct view_row *r;
	size_t i;

	if (!k)
		return -ENOMEM;
	/* pandas sorts downwards by sorting backwards and turning round. */
	for (i = 0; i < n; i++) {
		r = &v->rows[marks[n - 1 - i]];
		k[i] = (struct numeric_key){view_us(r->end - r->ts), marks[n - 1 - i]};
	}
	numeric_order(k, n);
	for (i = 0; i < n; i++)
		marks[i] = k[i].id;
	free(k);
	return 0;
}

static int do_track(const struct view *v, uint32_t *marks, size_t n_marks, uint32_t *rows, size_t n,
		    uint32_t *ret)
{
	struct canvas c = {v, rows, n, NULL, NULL, ret};
	size_t i;
	int rc = order_marks(v, marks, n_marks);

	c.reach = malloc((n + 1) * sizeof(*c.reach));
	c.next = malloc((n + 1) * sizeof(*c.next));
	if (!c.reach || !c.next)
		rc = -ENOMEM;
	if (!rc) {
		qsort(rows, n, sizeof(*rows), by_place);
		for (i = 0; i <= n; i++)
			c.next[i] = (uint32_t)i;
		for (i = 0; i < n; i++) {
			c.reach[i] = v->rows[rows[i]].end;
			if (i && c.reach[i - 1] > c.reach[i])
				c.reach[i] = c.reach[i - 1];
		}
		for (i = 0; i < n_marks; i++)
			paint(&c, marks[i]);
	}
	free(c.reach);
	free(c.next);
	return rc;
}

static int do_tracks(const struct view *v, struct streams *marks, struct streams *work,
		     uint32_t *ret)
{
	const struct streams_one *m;
	size_t i, k;
	int rc = 0;

	for (i = 0; i < work->n && !rc; i++) {
		for (k = 0; k < marks->n && marks->list[k].key != work->list[i].key; k++)
			;
		if (k == marks->n)
			continue;
		m = &marks->list[k];
		rc = do_track(v, marks->ids + m->first, m->n, work->ids + work->list[i].first,
			      work->list[i].n, ret);
	}
	return rc;
}

struct named {
	const char *name;
	struct annotated_row row;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int sum_up(const struct view *v, const struct streams *work, struct annotated *a)
{
	uint32_t texts = trace_texts(v->trace), i;
	struct named *all = calloc((size_t)texts + 1, sizeof(*all));
	const struct view_row *r;
	size_t k, s, n = 0;
	uint32_t mark;

	a->rows = calloc((size_t)texts + 1, sizeof(*a->rows));
	if (!all || !a->rows) {
		free(all);
		return -ENOMEM;
	}
	for (s = 0; s < work->n; s++) {
		for (k = work->list[s].first; k < work->list[s].first + work->list[s].n; k++) {
			r = &v->rows[work->ids[k]];
			mark = a->marks[work->ids[k]];
			i = mark == VIEW_NO_ROW ? 0 : v->rows[mark].name;
			all[i].row.kernels++;
			all[i].row.time += r->end - r->ts;
		}
	}
	for (i = 0; i < texts; i++) {
		if (!all[i].row.kernels)
			continue;
		all[n] = all[i];
		all[n].row.name = i;
		all[n++].name = trace_text(v->trace, i, NULL);
	}
	qsort(all, n, sizeof(*all), by_name);
	for (k = 0; k < n; k++)
		a->rows[k] = all[k].row;
	a->n = n;
	free(all);
	return 0;
}

int annotated_new(const struct view *v, struct annotated *ret)
{
	struct streams marks = {0}, work = {0};
	struct annotated a = {0};
	bool any = trace_cat_count(v->trace, TRACE_CAT_GPU_USER_ANNOTATION) > 0;
	int rc = any ? streams_new(v, false, is_mark, track_of, &marks) : -ENODATA;

	if (!rc && !marks.n)
		rc = -ENODATA;
	if (!rc)
		rc = streams_new(v, false, is_work, track_of, &work);
	if (!rc) {
		a.marks = malloc((v->n + 1) * sizeof(*a.marks));
		rc = a.marks ? 0 : -ENOMEM;
	}
	if (!rc) {
		memset(a.marks, 255, (v->n + 1) * sizeof(*a.marks));
		rc = do_tracks(v, &marks, &work, a.marks);
	}
	if (!rc)
		rc = sum_up(v, &work, &a);
	streams_done(&marks);
	streams_done(&work);
	if (rc)
		annotated_done(&a);
	else
		*ret = a;
	return rc;
}

void annotated_done(struct annotated *a)
{
	free(a->rows);
	free(a->marks);
	memset(a, 0, sizeof(*a));
}
