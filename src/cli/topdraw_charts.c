/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_charts.c - of topdraw.h the pane with the training's lines.
 */
#include "cli/topdraw_priv.h"

#include "base/mem.h"
#include "cli/topchart.h"

#include <stdio.h>
#include <stdlib.h>

#define TOPDRAW_CHART_W 34 /* of a chart, about */
#define TOPDRAW_CHART_H 8
#define TOPDRAW_GAP 2

/* Charts to be shown, in order; the caller frees them. */
static uint32_t *topdraw_chosen(const struct topdraw *d, size_t *ret_n)
{
	const struct topmodel *m = d->m;
	uint32_t *all = xcalloc(m->n_order + 1, sizeof(*all));
	size_t i, n = 0, own = 0;

	for (i = 0; i < m->n_order; i++) {
		const struct topmodel_chart *c = &m->charts[m->order[i]];

		if (topmodel_match(c, d->v->filter))
			all[n++] = m->order[i];
		own += c->score >= 12;
	}
	/* The machine's own figures only where the program has none. */
	while (!d->v->filter[0] && own && n && m->charts[all[n - 1]].score < 12)
		n--;
	*ret_n = n;
	return all;
}

static void topdraw_heading(struct topdraw *d, struct topgrid_rect *r, size_t from, size_t to,
			    size_t n)
{
	const struct topview *v = d->v;
	char text[300], filter[TOPVIEW_FILTER_MAX + 16] = "", smooth[24] = "", which[64];

	if (v->filter[0])
		snprintf(filter, sizeof(filter), ", filter %s", v->filter);
	if (v->smooth)
		snprintf(smooth, sizeof(smooth), ", smoothed %g", topview_smooth(v));
	if (from == 0 && to == n)
		snprintf(which, sizeof(which), "%zu chart%s", n, n == 1 ? "" : "s");
	else if (to == from + 1)
		snprintf(which, sizeof(which), "%zu of %zu charts", to, n);
	else
		snprintf(which, sizeof(which), "%zu to %zu of %zu charts", from + 1, to, n);
	snprintf(text, sizeof(text), "%s, %s%s%s%s%s%s", which, topview_range_name(v),
		 v->by_time ? ", by time" : "", smooth, v->log ? ", log" : "",
		 v->clip ? ", without outliers" : "", filter);
	topdraw_title(d, r, TOPVIEW_TRAINING, text);
}

/* From where to where; of a range of time also on the step axis what is in it. */
static void topdraw_axis(const struct topdraw *d, struct topchart *c)
{
	int64_t range = topview_range_ns(d->v), end = topdraw_end(d), from = 0, to = 0, a, b;
	bool any = false;
	size_t i;

	c->axis.by_step = !d->v->by_time && c->n && toptrace_extent(c->lines[0], true, &from, &to);
	for (i = 0; i < c->n; i++) {
		if (!toptrace_extent(c->lines[i], c->axis.by_step, &a, &b))
			continue;
		from = any && from < a ? from : a;
		to = any && to > b ? to : b;
		any = true;
	}
	if (!c->axis.by_step) {
		from = range                                            ? end - range
		       : d->m->run.start_ns && d->m->run.start_ns < end ? d->m->run.start_ns
									: from;
		to = end;
	}
	c->axis.from = from;
	c->axis.to = to < from ? from : to;
}

static void topdraw_chart(struct topdraw *d, const struct topgrid_rect *r, uint32_t which,
			  size_t place)
{
	const struct topmodel_chart *of = &d->m->charts[which];
	int64_t range = topview_range_ns(d->v);
	char note[32] = "";
	struct topchart c = {.title = of->name,
			     .labels = of->labels,
			     .unit = of->unit,
			     .note = note,
			     .color = TOPGRID_COLOR + (int)(place % TOPGRID_COLORS),
			     .smooth = topview_smooth(d->v),
			     .log = d->v->log,
			     .clip = d->v->clip};
	size_t i;

	for (i = 0; i < of->n && c.n < TOPCHART_LINES; i++) {
		struct toptrace *t = topmodel_trace(d->m, of->series[i]);

		if (!t)
			break;
		if (range)
			toptrace_trim(t, topdraw_end(d) - range);
		c.lines[c.n++] = t;
	}
	if (of->n > 1)
		snprintf(note, sizeof(note), "%zu ranks", of->n);
	topdraw_axis(d, &c);
	topchart_draw(d->g, r, &c);
}

void topdraw_training(struct topdraw *d, struct topgrid_rect r)
{
	int w = r.w + TOPDRAW_GAP, columns = w / (TOPDRAW_CHART_W + TOPDRAW_GAP) + d->v->density;
	int rows, first, i;
	uint32_t *all;
	size_t n;

	all = topdraw_chosen(d, &n);
	columns = columns > w / 16 ? w / 16 : columns;
	columns = columns < 1 ? 1 : columns > (int)n && n ? (int)n : columns;
	rows = (r.h - 1) / TOPDRAW_CHART_H;
	while (rows > 1 && (rows - 1) * columns >= (int)n)
		rows--;
	rows = rows < 1 ? 1 : rows;
	first = topdraw_scroll(d, TOPVIEW_TRAINING, ((int)n + columns - 1) / columns, rows);
	i = first * columns;
	topdraw_heading(d, &r, (size_t)i,
			(size_t)(i + rows * columns) < n ? (size_t)(i + rows * columns) : n, n);
	if (n == 0 && r.h > 0)
		topgrid_text(d->g, r.x + 1, r.y, r.w - 1, TOPGRID_DIM,
			     d->v->filter[0] ? "no series has that in its name"
					     : "nothing recorded yet");
	for (; i < (first + rows) * columns && i < (int)n; i++) {
		int x = i % columns, y = i / columns - first;
		struct topgrid_rect at = {r.x + x * w / columns, r.y + y * r.h / rows, 0, 0};

		at.w = (x + 1) * w / columns - x * w / columns - TOPDRAW_GAP;
		at.h = (y + 1) * r.h / rows - y * r.h / rows;
		topdraw_chart(d, &at, all[i], (size_t)i);
	}
	free(all);
}
