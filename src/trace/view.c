/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - the views of the ranks of a job: each trace's rows are collected, linked and
 * given steps alone; then what all share is known (the first time, the number of steps).
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>

static int gather(struct view_work *w)
{
	int rc = view_collect(w);

	if (!rc)
		rc = view_pair(w);
	if (!rc)
		rc = view_steps(w);
	return rc;
}

/* HTA's times begin at the first row of any rank. Those of rows follow in view_filter(). */
static void align(struct view *views, size_t n)
{
	int64_t origin = INT64_MAX;
	struct view *v;
	size_t i, k;

	for (i = 0; i < n; i++)
		if (views[i].n && views[i].first < origin)
			origin = views[i].first;
	for (i = 0; i < n && origin != INT64_MAX; i++) {
		v = &views[i];
		v->origin = origin;
		v->origin_us = view_us(origin);
		for (k = 0; k < v->n_steps; k++) {
			v->steps[k].ts -= origin;
			v->steps[k].end -= origin;
		}
		v->first -= origin;
		v->last -= origin;
		v->last_ts -= origin;
	}
}

/* Are there two names of steps or more in all ranks? */
static bool has_two_steps(const struct view_work *works, size_t n)
{
	int64_t seen = -1;
	uint32_t k, texts;
	size_t i;

	for (i = 0; i < n; i++) {
		texts = trace_texts(works[i].v->trace);
		for (k = 0; k < texts; k++) {
			if (!works[i].names[k].used || works[i].names[k].step < 0)
				continue;
			if (seen >= 0 && seen != works[i].names[k].step)
				return true;
			seen = works[i].names[k].step;
		}
	}
	return false;
}

static int finish(struct view_work *w, bool drop)
{
	int rc = 0;
	size_t i;

	if (w->v->rule == VIEW_EXACT && view_has_window(w->o)) {
		view_window(w);
		for (i = 0; i < w->v->n; i++)
			w->v->rows[i].pair = VIEW_NO_ROW;
		rc = view_pair(w);
	} else if (w->v->rule != VIEW_EXACT) {
		rc = view_filter(w, drop);
	}
	return rc;
}

static int make(struct view_work *works, struct view *views, size_t n)
{
	bool drop;
	size_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++)
		rc = gather(&works[i]);
	if (rc)
		return rc;
	if (works->v->rule != VIEW_EXACT)
		align(views, n);
	drop = has_two_steps(works, n);
	for (i = 0; i < n && !rc; i++)
		rc = finish(&works[i], drop);
	return rc;
}

int view_new(struct trace *const traces[], size_t n, const struct view_options *o,
	     struct view **ret)
{
	struct view_work *works;
	struct view *views;
	size_t i;
	int rc;

	if (!n)
		return -EINVAL;
	works = calloc(n, sizeof(*works));
	views = calloc(n, sizeof(*views));
	if (!works || !views) {
		free(works);
		free(views);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		works[i] = (struct view_work){.v = &views[i], .o = o};
		views[i].trace = traces[i];
		views[i].rule = o->rule;
		views[i].rank = trace_meta(traces[i])->rank;
	}
	rc = make(works, views, n);
	for (i = 0; i < n; i++) {
		free(works[i].names);
		free(works[i].tracks);
		free(works[i].marks);
		free(works[i].ts);
		free(works[i].numbers);
		free(works[i].on_device);
		view_index_free(works[i].groups);
		free(works[i].kept);
		free(works[i].moved);
	}
	free(works);
	if (rc) {
		view_free(views, n);
		return rc;
	}
	*ret = views;
	return 0;
}

void view_free(struct view *v, size_t n)
{
	size_t i;

	for (i = 0; v && i < n; i++) {
		free(v[i].rows);
		free(v[i].table);
		free(v[i].steps);
		view_unlink(&v[i]);
	}
	free(v);
}
