/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topchart.h"

#include "base/mem.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPCHART_SCALE_W 9    /* columns of the scale at the left, and */
#define TOPCHART_SCALE_MIN 34 /* from how many on there is one */

const char *topchart_value(char out[FMT_MAX], double v, const char *unit)
{
	if (isnan(v))
		snprintf(out, FMT_MAX, "NaN");
	else if (strcmp(unit, "By") == 0)
		fmt_bytes(out, v);
	else if (strcmp(unit, "By/s") == 0)
		snprintf(fmt_bytes(out, v) + strlen(out), 3, "/s");
	else if (strcmp(unit, "s") == 0 || strcmp(unit, "ns") == 0)
		fmt_seconds(out, strcmp(unit, "ns") == 0 ? v / 1e9 : v);
	else if (fabs(v) >= 1e5 && fabs(v) < 1e15)
		fmt_count(out, v);
	else
		snprintf(out, FMT_MAX, "%.4g", v);
	return out;
}

/* ---- dots ---------------------------------------------------------------------------- */

struct topchart_plot {
	struct topgrid *g;
	struct topgrid_rect r;
	int sub_x, sub_y; /* dots of a cell */
	int w, h;         /* dots */
	uint8_t *dots, *style;
	double low, high;
	bool log, has_scale;
};

static void topchart_plot_init(struct topchart_plot *p, struct topgrid *g,
			       const struct topgrid_rect *r)
{
	*p = (struct topchart_plot){.g = g, .r = *r};
	p->sub_x = g->utf8 ? 2 : 1;
	p->sub_y = g->utf8 ? 4 : 2;
	p->w = r->w * p->sub_x;
	p->h = r->h * p->sub_y;
	p->dots = xcalloc((size_t)r->w * (size_t)r->h * 2, 1);
	p->style = p->dots + (size_t)r->w * (size_t)r->h;
}

static void topchart_dot(struct topchart_plot *p, int x, int y, int style)
{
	/* Braille counts down its left column first, but for the lowest row. */
	static const uint8_t braille[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
	size_t at;

	if (x < 0 || y < 0 || x >= p->w || y >= p->h)
		return;
	at = (size_t)(y / p->sub_y) * (size_t)p->r.w + (size_t)(x / p->sub_x);
	p->dots[at] |= p->g->utf8 ? braille[y % 4][x % 2] : (uint8_t)(1 << y % 2);
	p->style[at] = (uint8_t)style;
}

static void topchart_segment(struct topchart_plot *p, int x0, int y0, int x1, int y1, int style)
{
	int dx = abs(x1 - x0), dy = abs(y1 - y0), i, n = dx > dy ? dx : dy;

	for (i = 0; i <= n; i++)
		topchart_dot(p, x0 + (int)lround((double)(x1 - x0) * i / (n ? n : 1)),
			     y0 + (int)lround((double)(y1 - y0) * i / (n ? n : 1)), style);
}

static int topchart_y(const struct topchart_plot *p, double v)
{
	double low = p->low, high = p->high, share;

	if (p->log) {
		v = v > 0 ? log10(v) : -400;
		low = log10(low);
		high = log10(high);
	}
	share = (high - v) / (high - low);
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return (int)lround(share * (p->h - 1));
}

static void topchart_line(struct topchart_plot *p, const struct toptrace_column *v, bool smooth,
			  int style)
{
	int x, y, low, high, last_x = -1, last_y = 0;

	for (x = 0; x < p->w; x++) {
		double value = smooth ? v[x].smooth : v[x].last;

		if (isnan(value)) {
			last_x = v[x].nan && !smooth ? -1 : last_x;
			continue;
		}
		y = topchart_y(p, value);
		low = smooth ? y : topchart_y(p, v[x].max);
		high = smooth ? y : topchart_y(p, v[x].min);
		if (last_x >= 0)
			topchart_segment(p, last_x, last_y, x,
					 last_y < low    ? low
					 : last_y > high ? high
							 : last_y,
					 style);
		topchart_segment(p, x, low, x, high, style);
		last_x = x;
		last_y = y;
	}
}

static void topchart_flush(struct topchart_plot *p)
{
	static const char signs[] = {' ', '\'', '.', ':'};
	int x, y;

	for (y = 0; y < p->r.h; y++) {
		for (x = 0; x < p->r.w; x++) {
			size_t at = (size_t)y * (size_t)p->r.w + (size_t)x;
			uint8_t dots = p->dots[at];

			if (dots)
				topgrid_put(p->g, p->r.x + x, p->r.y + y, p->style[at],
					    0x2800u + dots, signs[dots & 3]);
		}
	}
	free(p->dots);
}

/* ---- the scale --------------------------------------------------------------------------- */

/* The 2nd and the 98th of a hundred. */
static void topchart_clip(struct topchart_plot *p, const struct toptrace_column *v)
{
	double *all = xcalloc((size_t)p->w * 2 + 1, sizeof(*all));
	size_t n = 0;
	int i;

	for (i = 0; i < p->w; i++) {
		if (isnan(v[i].min))
			continue;
		all[n++] = v[i].min;
		all[n++] = v[i].max;
	}
	if (n >= 20) {
		qsort(all, n, sizeof(*all), number_order);
		p->low = all[n / 50];
		p->high = all[n - 1 - n / 50];
	}
	free(all);
}

/* false: there are no numbers. */
static bool topchart_scale(struct topchart_plot *p, const struct topchart *c,
			   struct toptrace_column *const *columns)
{
	size_t k;
	int i;

	p->low = p->high = NAN;
	for (k = 0; k < c->n; k++) {
		for (i = 0; i < p->w; i++) {
			p->low = fmin(p->low, columns[k][i].min);
			p->high = fmax(p->high, columns[k][i].max);
		}
	}
	if (isnan(p->low))
		return false;
	if (c->clip)
		topchart_clip(p, columns[0]);
	p->log = c->log && p->low > 0;
	if (p->low == p->high) {
		double by = p->low == 0 ? 1 : fabs(p->low) * 0.05;

		p->low -= by;
		p->high += by;
	}
	/* Their distance may be more than a double can say. */
	if (!isfinite(p->high - p->low)) {
		p->low /= 4;
		p->high /= 4;
	}
	return true;
}

static void topchart_label(const struct topchart_plot *p, const struct topchart *c, double v, int y)
{
	char text[FMT_MAX];

	topchart_value(text, v, c->unit);
	/* A plain number may have more digits than there are columns. */
	if (strlen(text) > TOPCHART_SCALE_W - 1)
		snprintf(text, sizeof(text), "%.2g", strcmp(c->unit, "ns") == 0 ? v / 1e9 : v);
	topgrid_right(p->g, p->r.x - TOPCHART_SCALE_W, p->r.y + y, TOPCHART_SCALE_W - 1,
		      TOPGRID_DIM, text);
}

static void topchart_labels(const struct topchart_plot *p, const struct topchart *c)
{
	double middle = p->log ? sqrt(p->low) * sqrt(p->high) : p->low / 2 + p->high / 2;

	topchart_label(p, c, p->high, 0);
	if (p->r.h >= 5)
		topchart_label(p, c, middle, p->r.h / 2);
	if (p->r.h >= 2)
		topchart_label(p, c, p->low, p->r.h - 1);
}

/* A place on the axis: a step, or the local time; with its day if the axis is long. */
static void topchart_place(char out[FMT_MAX], const struct toptrace_axis *a, int64_t at)
{
	char text[FMT_MAX];

	if (a->by_step) {
		snprintf(out, FMT_MAX, "%lld", (long long)at);
		return;
	}
	fmt_local(text, at);
	if (strlen(text) < 19)
		snprintf(out, FMT_MAX, "-");
	else if (a->to - a->from > 86400000000000LL)
		snprintf(out, FMT_MAX, "%.11s", text + 5);
	else
		snprintf(out, FMT_MAX, "%.8s", text + 11);
}

static void topchart_axis(const struct topchart_plot *p, const struct topchart *c, int y)
{
	char from[FMT_MAX], to[FMT_MAX];
	int w = p->r.w, n;

	topchart_place(from, &c->axis, c->axis.from);
	topchart_place(to, &c->axis, c->axis.to);
	n = topgrid_text(p->g, p->r.x, y, w, TOPGRID_DIM, from);
	if (n + 2 + (int)strlen(to) <= w)
		topgrid_right(p->g, p->r.x + n + 1, y, w - n - 1, TOPGRID_DIM, to);
	if (c->axis.by_step && w >= 30)
		topgrid_text(p->g, p->r.x + w / 2 - 2, y, 4, TOPGRID_DIM, "step");
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* At the right: the last value, and if there is room the least and the greatest. */
static int topchart_figures(struct topgrid *g, const struct topgrid_rect *r,
			    const struct topchart *c)
{
	struct toptrace_total all = {.min = NAN, .max = NAN, .last = NAN};
	char last[FMT_MAX], min[FMT_MAX], max[FMT_MAX], text[4 * FMT_MAX], nan[FMT_MAX] = "";
	int w = r->w * 2 / 3, n;

	if (c->n)
		all = toptrace_total(c->lines[0], &c->axis);
	if (all.n == 0)
		return 0;
	if (all.nan)
		snprintf(nan, sizeof(nan), "%llu not finite", (unsigned long long)all.nan);
	snprintf(text, sizeof(text), "min %s  max %s", topchart_value(min, all.min, c->unit),
		 topchart_value(max, all.max, c->unit));
	topchart_value(last, all.last, c->unit);
	n = (int)strlen(last);
	if (isnan(all.min) || n + (int)strlen(text) + 2 > w)
		text[0] = '\0';
	if (n > w)
		return 0;
	w = n + (text[0] ? (int)strlen(text) + 2 : 0);
	topgrid_text(g, r->x + r->w - w, r->y, n, TOPGRID_BOLD, last);
	if (text[0])
		topgrid_text(g, r->x + r->w - w + n + 2, r->y, w - n - 2, TOPGRID_DIM, text);
	if (nan[0] && r->h > 1 && (int)strlen(nan) < r->w - TOPCHART_SCALE_W)
		topgrid_right(g, r->x, r->y + 1, r->w, TOPGRID_BAD, nan);
	return w + 1;
}

static void topchart_title(struct topgrid *g, const struct topgrid_rect *r,
			   const struct topchart *c)
{
	int n, left = r->w - topchart_figures(g, r, c);

	n = topgrid_text(g, r->x, r->y, left, c->is_chosen ? TOPGRID_MARK : c->color, c->title);
	if (c->labels[0] && left - n > 4)
		n += 1 + topgrid_printf(g, r->x + n + 1, r->y, left - n - 1, TOPGRID_DIM, "{%s}",
					c->labels);
	if (c->note[0] && left - n > (int)strlen(c->note) + 2)
		topgrid_text(g, r->x + n + 2, r->y, left - n - 2, TOPGRID_DIM, c->note);
}

static void topchart_marks(struct topchart_plot *p, const struct topchart *c,
			   struct toptrace_column *const *columns)
{
	size_t k;
	int i;

	for (k = 0; k < c->n; k++)
		for (i = 0; i < p->w; i++)
			if (columns[k][i].nan)
				topgrid_put(p->g, p->r.x + i / p->sub_x, p->r.y + p->r.h - 1,
					    TOPGRID_BAD, 0xd7, 'x');
}

static bool topchart_is_nan(struct toptrace_column *const *columns, size_t n, int w)
{
	size_t k;
	int i;

	for (k = 0; k < n; k++)
		for (i = 0; i < w; i++)
			if (columns[k][i].nan)
				return true;
	return false;
}

static void topchart_plot(struct topchart_plot *p, const struct topchart *c)
{
	struct toptrace_column *columns[TOPCHART_LINES];
	bool smooth = c->smooth > 0, any;
	size_t k;

	for (k = 0; k < c->n; k++) {
		columns[k] = xcalloc((size_t)p->w, sizeof(**columns));
		toptrace_columns(c->lines[k], &c->axis, c->smooth, columns[k], (size_t)p->w);
	}
	any = topchart_scale(p, c, columns);
	if (any) {
		for (k = c->n; k-- > 1;)
			topchart_line(p, columns[k], smooth, TOPGRID_DIM);
		if (c->n && smooth)
			topchart_line(p, columns[0], false, TOPGRID_DIM);
		if (c->n)
			topchart_line(p, columns[0], smooth, c->color);
		if (p->has_scale)
			topchart_labels(p, c);
	} else {
		topgrid_text(p->g, p->r.x, p->r.y, p->r.w, TOPGRID_DIM,
			     topchart_is_nan(columns, c->n, p->w) ? "no value is a number"
								  : "no values here");
	}
	topchart_flush(p);
	topchart_marks(p, c, columns);
	for (k = 0; k < c->n; k++)
		free(columns[k]);
}

void topchart_draw(struct topgrid *g, const struct topgrid_rect *r, const struct topchart *c)
{
	struct topgrid_rect in = *r;
	struct topchart_plot p;
	bool axis = r->h >= 5;

	if (r->w <= 0 || r->h <= 0)
		return;
	topchart_title(g, r, c);
	if (r->w < TOPCHART_W_MIN || r->h < 2)
		return;
	in.y++;
	in.h -= axis ? 2 : 1;
	if (r->w >= TOPCHART_SCALE_MIN) {
		in.x += TOPCHART_SCALE_W;
		in.w -= TOPCHART_SCALE_W;
	}
	topchart_plot_init(&p, g, &in);
	p.has_scale = in.x > r->x;
	topchart_plot(&p, c);
	if (axis)
		topchart_axis(&p, c, r->y + r->h - 1);
}

void topchart_spark(struct topgrid *g, const struct topgrid_rect *r, const struct toptrace *t,
		    const struct toptrace_axis *a, double top, int style)
{
	struct toptrace_column *columns;
	struct topchart_plot p;
	int i;

	if (r->w <= 0 || r->h <= 0)
		return;
	topchart_plot_init(&p, g, r);
	columns = xcalloc((size_t)p.w, sizeof(*columns));
	toptrace_columns(t, a, 0, columns, (size_t)p.w);
	p.high = top;
	for (i = 0; i < p.w && isnan(top); i++)
		p.high = fmax(p.high, columns[i].max);
	p.high = p.high > 0 ? p.high : 1;
	topchart_line(&p, columns, false, style);
	topchart_flush(&p);
	free(columns);
}
