/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw.c - which pane is where, and what is around them.
 */
#include "cli/topdraw_priv.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define TOPDRAW_WIDE 118  /* columns from which on there are two columns of panes, and */
#define TOPDRAW_WIDE_H 20 /* rows */

void topdraw_title(struct topdraw *d, struct topgrid_rect *r, enum topview_pane pane,
		   const char *of)
{
	bool focus = d->v->focus == pane && !d->is_once;
	int x, n;

	for (x = 0; x < r->w; x++)
		topgrid_put(d->g, r->x + x, r->y, TOPGRID_RULE, 0x2500, '-');
	if (r->w > 8) {
		n = topgrid_printf(d->g, r->x + 1, r->y, r->w - 2,
				   focus ? TOPGRID_FOCUS : TOPGRID_TITLE, " %d %s ", (int)pane + 1,
				   topview_pane_name(pane));
		if (of[0] && r->w - n > 8)
			topgrid_printf(d->g, r->x + n + 2, r->y, r->w - n - 4, TOPGRID_DIM, " %s ",
				       of);
	}
	r->y++;
	r->h--;
}

int topdraw_scroll(struct topdraw *d, enum topview_pane pane, int rows, int fit)
{
	int *at = &d->v->scroll[pane];

	d->v->rows[pane] = rows;
	d->v->page[pane] = fit;
	if (*at > rows - fit)
		*at = rows - fit;
	if (*at < 0)
		*at = 0;
	return *at;
}

int64_t topdraw_end(const struct topdraw *d)
{
	return d->m->newest_ns ? d->m->newest_ns : d->now_ns;
}

/* ---- places ---------------------------------------------------------------------------- */

static int topdraw_want(const struct topdraw *d, enum topview_pane p, int w)
{
	switch (p) {
	case TOPVIEW_GPUS:
		return topdraw_gpus_want(d);
	case TOPVIEW_MACHINE:
		return topdraw_machine_want(d, w);
	case TOPVIEW_PROCESSES:
		return topdraw_processes_want(d);
	case TOPVIEW_EVENTS:
		return topdraw_events_want(d);
	default:
		return TOPGRID_SIDE_MAX;
	}
}

struct topdraw_column {
	const enum topview_pane *panes; /* from above */
	size_t n;
	struct topgrid_rect r;
};

/* Rows of a pane without which it is not worth showing. */
static int topdraw_least(const struct topdraw *d, enum topview_pane p, int want)
{
	static const int least[TOPVIEW_PANES] = {6, 2, 3, 3, 2};
	int n = d->v->focus == p && !d->is_once && p != TOPVIEW_TRAINING ? 6 : least[p];

	return n < want ? n : want;
}

/* Rows of a column that are being shared out. */
struct topdraw_rows {
	int left;
	int h[TOPVIEW_PANES], want[TOPVIEW_PANES];
};

static void topdraw_give(struct topdraw_rows *s, enum topview_pane p, int n)
{
	n = n < s->left ? n : s->left;
	s->h[p] += n;
	s->left -= n;
}

/* What each pane needs at least, in order of its importance; where the keys are comes first,
 * and is there however little room there is. */
static void topdraw_share_least(const struct topdraw *d, struct topdraw_rows *s)
{
	enum topview_pane p = d->v->focus;
	int n;

	if (!d->is_once)
		topdraw_give(s, p, topdraw_least(d, p, s->want[p]));
	for (p = 0; p < TOPVIEW_PANES; p++) {
		n = topdraw_least(d, p, s->want[p]);
		if (s->want[p] && s->h[p] == 0 && s->left >= n)
			topdraw_give(s, p, n);
	}
}

/* Then what they would like; what is left goes to the charts, or to the last pane. */
static void topdraw_share(const struct topdraw *d, const struct topdraw_column *c,
			  struct topdraw_rows *s)
{
	enum topview_pane p, last = c->panes[0];
	size_t i;

	for (i = 0; i < c->n; i++)
		s->want[c->panes[i]] = topdraw_want(d, c->panes[i], c->r.w);
	topdraw_share_least(d, s);
	if (s->h[TOPVIEW_TRAINING])
		s->want[TOPVIEW_TRAINING] = c->r.h * 2 / 5;
	for (p = 0; p < TOPVIEW_PANES; p++)
		if (s->h[p] && s->want[p] > s->h[p])
			topdraw_give(s, p, s->want[p] - s->h[p]);
	for (i = 0; i < c->n && last != TOPVIEW_TRAINING; i++)
		last = s->h[c->panes[i]] ? c->panes[i] : last;
	if (s->h[last])
		topdraw_give(s, last, s->left);
}

static void topdraw_pane(struct topdraw *d, enum topview_pane p, struct topgrid_rect r)
{
	static void (*const draw[TOPVIEW_PANES])(struct topdraw *, struct topgrid_rect) = {
		topdraw_training, topdraw_gpus, topdraw_machine, topdraw_processes, topdraw_events};

	if (r.w > 0 && r.h > 0)
		draw[p](d, r);
}

static void topdraw_column(struct topdraw *d, const struct topdraw_column *c)
{
	struct topdraw_rows s = {.left = c->r.h};
	int y = c->r.y;
	size_t i;

	topdraw_share(d, c, &s);
	for (i = 0; i < c->n; i++) {
		topdraw_pane(d, c->panes[i],
			     (struct topgrid_rect){c->r.x, y, c->r.w, s.h[c->panes[i]]});
		y += s.h[c->panes[i]];
	}
}

static void topdraw_body(struct topdraw *d, struct topgrid_rect r)
{
	static const enum topview_pane all[] = {TOPVIEW_TRAINING, TOPVIEW_GPUS, TOPVIEW_MACHINE,
						TOPVIEW_PROCESSES, TOPVIEW_EVENTS};
	static const enum topview_pane left[] = {TOPVIEW_TRAINING, TOPVIEW_EVENTS};
	static const enum topview_pane right[] = {TOPVIEW_GPUS, TOPVIEW_MACHINE, TOPVIEW_PROCESSES};
	int w = r.w * 11 / 20;

	if (d->v->is_large) {
		topdraw_pane(d, d->v->focus, r);
	} else if (r.w < TOPDRAW_WIDE || r.h < TOPDRAW_WIDE_H) {
		topdraw_column(d, &(struct topdraw_column){all, ARRAY_LEN(all), r});
	} else {
		topdraw_column(d,
			       &(struct topdraw_column){left, ARRAY_LEN(left), {r.x, r.y, w, r.h}});
		topdraw_column(d, &(struct topdraw_column){right,
							   ARRAY_LEN(right),
							   {r.x + w + 2, r.y, r.w - w - 2, r.h}});
	}
}

/* ---- the bottom line ------------------------------------------------------------------------ */

static void topdraw_keys(struct topdraw *d, int y)
{
	static const char *const keys[][2] = {
		{"q", "quit"},   {"?", "help"},      {"1-5", "pane"}, {"/", "filter"},
		{"+-", "range"}, {"e", "smooth"},    {"x", "axis"},   {"s", "sort"},
		{"l", "log"},    {"space", "pause"},
	};
	int x = 0, n;
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		n = (int)(strlen(keys[i][0]) + strlen(keys[i][1])) + 1;
		if (x + n > d->g->w)
			return;
		topgrid_text(d->g, x, y, d->g->w - x, TOPGRID_KEY, keys[i][0]);
		topgrid_text(d->g, x + (int)strlen(keys[i][0]) + 1, y, d->g->w - x, TOPGRID_DIM,
			     keys[i][1]);
		x += n + 2;
	}
}

static void topdraw_foot(struct topdraw *d, int y)
{
	int n;

	if (d->v->is_typing) {
		n = topgrid_printf(d->g, 0, y, d->g->w, TOPGRID_BOLD, "/%s", d->v->filter);
		topgrid_put(d->g, n, y, TOPGRID_MARK, ' ', '_');
		if (d->g->w - n > 30)
			topgrid_right(d->g, n + 2, y, d->g->w - n - 2, TOPGRID_DIM,
				      "Enter keeps it, Esc does not");
		return;
	}
	topdraw_keys(d, y);
}

static void topdraw_help(struct topdraw *d, struct topgrid_rect r)
{
	const char *key, *text;
	size_t i;

	topgrid_text(d->g, r.x + 1, r.y, r.w - 1, TOPGRID_FOCUS, "Keys (any key: back)");
	for (i = 0; (text = topview_help(i, &key)) != NULL && (int)i + 2 < r.h; i++) {
		topgrid_text(d->g, r.x + 1, r.y + 2 + (int)i, 20, TOPGRID_KEY, key);
		if (r.w > 24)
			topgrid_text(d->g, r.x + 22, r.y + 2 + (int)i, r.w - 22, TOPGRID_PLAIN,
				     text);
	}
}

void topdraw_frame(struct topdraw *d)
{
	struct topgrid_rect r = {0, 0, d->g->w, d->g->h};
	int head = r.h >= 14 && d->m->n_spans[STEPSPLIT_PARTS_MAX - 1] ? 3 : r.h >= 6 ? 2 : 1;
	bool foot = !d->is_once && r.h >= 5;

	topgrid_clear(d->g);
	topmodel_sort(d->m);
	d->v->hosts = (unsigned)d->m->n_hosts;
	if (d->v->host >= d->v->hosts)
		d->v->host = 0;
	topdraw_head(d, (struct topgrid_rect){0, 0, r.w, head < r.h ? head : r.h});
	if (foot || d->v->is_typing)
		topdraw_foot(d, r.h - 1);
	r.y += head;
	r.h -= head + (foot ? 1 : 0);
	if (d->v->help)
		topdraw_help(d, r);
	else if (r.h > 0)
		topdraw_body(d, r);
}
