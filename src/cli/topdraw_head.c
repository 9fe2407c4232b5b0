/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_head.c - of topdraw.h the lines at the top.
 */
#include "cli/topdraw_priv.h"

#include "base/fmt.h"
#include "cli/topchart.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TOPDRAW_QUIET_S 15 /* of a running run: no word for so long is worth one */

/* Texts from the left with two blanks between, as long as they fit whole. */
struct topdraw_line {
	struct topgrid *g;
	int x, y, end;
};

static void topdraw_say(struct topdraw_line *l, int style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void topdraw_say(struct topdraw_line *l, int style, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (text[0] && l->x + topgrid_width(l->g, text) <= l->end)
		l->x += topgrid_text(l->g, l->x, l->y, l->end - l->x, style, text) + 2;
}

static int topdraw_outcome_style(const struct topmodel_run *r)
{
	if (r->is_running)
		return TOPGRID_GOOD;
	return strcmp(r->outcome, "exited 0") == 0 ? TOPGRID_PLAIN : TOPGRID_BAD;
}

/* A text at the right end of what is left of the line, at most two thirds of it. */
static void topdraw_push(struct topdraw *d, struct topdraw_line *l, int style, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void topdraw_push(struct topdraw *d, struct topdraw_line *l, int style, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = topgrid_width(d->g, text);
	n = n > l->end * 2 / 3 ? l->end * 2 / 3 : n;
	if (n <= 0)
		return;
	topgrid_text(d->g, l->end - n, l->y, n, style, text);
	l->end -= n + 2;
}

/* What must be seen: at the right, and so before all else. */
static void topdraw_warn(struct topdraw *d, struct topdraw_line *l)
{
	const struct topmodel *m = d->m;
	size_t loud = topalerts_loud(&m->alerts, d->now_ns);
	double silent = (double)(d->now_ns - m->newest_ns) / 1e9;
	char text[FMT_MAX];

	if (d->is_wrong)
		topdraw_push(d, l, TOPGRID_BAD, "%s", d->note);
	if (d->v->paused)
		topdraw_push(d, l, TOPGRID_WARN, "PAUSED");
	if (loud)
		topdraw_push(d, l, TOPGRID_BAD, "%zu alert%s%s", loud, loud == 1 ? "" : "s",
			     m->run.is_running ? "" : " at the end");
	if (m->run.is_running && m->newest_ns && silent > TOPDRAW_QUIET_S && !d->v->paused)
		topdraw_push(d, l, TOPGRID_WARN, "nothing new for %s", fmt_seconds(text, silent));
	if (m->line.lost)
		topdraw_push(d, l, TOPGRID_WARN, "%llu records lost",
			     (unsigned long long)m->line.lost);
	if (!d->is_wrong)
		topdraw_push(d, l, TOPGRID_DIM, "%s", d->note);
}

static void topdraw_run(struct topdraw *d, struct topgrid_rect r)
{
	const struct topmodel_run *run = &d->m->run;
	struct topdraw_line l = {d->g, r.x, r.y, r.x + r.w};
	long t = isnan(d->m->line.elapsed_s) ? 0 : (long)d->m->line.elapsed_s;
	int style = topdraw_outcome_style(run);

	topdraw_warn(d, &l);
	topgrid_put(d->g, l.x, l.y, style, run->is_running ? 0x25cf : 0x25a0,
		    run->is_running ? '*' : '#');
	l.x += 2;
	/* A name may be long: cut, where all else is left out. */
	if (l.end - l.x > 4) {
		int most = l.end - l.x > 60 ? 40 : (l.end - l.x) * 2 / 3;

		l.x += topgrid_text(d->g, l.x, l.y, most, TOPGRID_BOLD,
				    run->name[0] ? run->name : run->id) +
		       2;
	}
	topdraw_say(&l, style, "%s", run->outcome);
	topdraw_say(&l, TOPGRID_PLAIN, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
	topdraw_say(&l, TOPGRID_DIM, "%s", run->project);
	topdraw_say(&l, TOPGRID_DIM, "%s", run->id);
	if (d->m->n_hosts > 1)
		topdraw_say(&l, TOPGRID_DIM, "%zu hosts", d->m->n_hosts);
	if (d->m->left_out)
		topdraw_say(&l, TOPGRID_WARN, "%zu series left out", d->m->left_out);
}

static void topdraw_progress(struct topdraw *d, struct topgrid_rect r)
{
	const struct statusline *s = &d->m->line;
	struct topdraw_line l = {d->g, r.x, r.y, r.x + r.w};
	char text[FMT_MAX];
	double share = s->total > 0 ? ((double)s->step + 1) / (double)s->total : NAN;
	int bar = r.w / 5;

	if (s->step == SINK_STEP_NONE) {
		topdraw_say(&l, TOPGRID_DIM, "no steps recorded");
		return;
	}
	if (!isnan(share)) {
		share = share > 1 ? 1 : share;
		topdraw_say(&l, TOPGRID_PLAIN, "step %lld/%lld", (long long)s->step,
			    (long long)s->total);
		if (r.w >= 60) {
			topgrid_bar(d->g, l.x, l.y, bar, share, TOPGRID_GOOD);
			l.x += bar + 1;
		}
		topdraw_say(&l, TOPGRID_BOLD, "%.0f %%", floor(share * 100));
	} else {
		topdraw_say(&l, TOPGRID_PLAIN, "step %lld", (long long)s->step);
	}
	if (!isnan(s->eta_s))
		topdraw_say(&l, TOPGRID_BOLD, "ETA %s", fmt_seconds(text, s->eta_s));
	if (!isnan(s->quiet_s))
		topdraw_say(&l, TOPGRID_BAD, "last step %s ago", fmt_seconds(text, s->quiet_s));
	if (!isnan(s->steps_s))
		topdraw_say(&l, TOPGRID_PLAIN, "%.3g steps/s", s->steps_s);
	if (!isnan(s->samples_s))
		topdraw_say(&l, TOPGRID_PLAIN, "%s samples/s", fmt_count(text, s->samples_s));
	if (!isnan(s->tokens_s))
		topdraw_say(&l, TOPGRID_PLAIN, "%s tokens/s", fmt_count(text, s->tokens_s));
	if (d->m->is_mean)
		topdraw_say(&l, TOPGRID_DIM, "over the whole run");
}

/* ---- where a step's time goes ------------------------------------------------------------- */

/* A part of the bar, as wide as its share, with as much of its name as fits. */
static void topdraw_part(struct topdraw *d, int x, int y, int w, int style, const char *name,
			 int permille)
{
	char text[64];
	int i;

	for (i = 0; i < w; i++)
		topgrid_put(d->g, x + i, y, style, ' ', ' ');
	if (w > 1)
		topgrid_put(d->g, x + w - 1, y, style, 0x2502, '|');
	snprintf(text, sizeof(text), "%.40s %d%%", name, (permille + 5) / 10);
	if (topgrid_width(d->g, text) > w - 1)
		snprintf(text, sizeof(text), "%.40s", name);
	if (w >= 4)
		topgrid_text(d->g, x, y, w - 1, style, text);
}

static void topdraw_split(struct topdraw *d, struct topgrid_rect r)
{
	int permille[STEPSPLIT_PARTS_MAX], x, end, sum = 0, n;
	char text[FMT_MAX];
	struct stepsplit s;
	size_t i;

	if (!topmodel_split(d->m, &s))
		return;
	stepsplit_permille(&s, permille);
	fmt_seconds(text, s.n ? (double)s.sum / (double)s.n / 1e9 : 0);
	n = topgrid_printf(d->g, r.x, r.y, r.w, TOPGRID_PLAIN, "a step %s", text);
	x = r.x + n + 2;
	n = r.w - n - 2;
	for (i = 0; i < s.n_parts && n > 20; i++) {
		int from = sum * n / 1000;

		sum += permille[i];
		end = sum * n / 1000;
		if (end > from)
			topdraw_part(d, x + from, r.y, end - from,
				     i + 1 == s.n_parts ? TOPGRID_DIM
							: TOPGRID_FILL + (int)(i % TOPGRID_COLORS),
				     i + 1 == s.n_parts ? "other" : d->m->parts[i], permille[i]);
	}
	stepsplit_done(&s);
}

void topdraw_head(struct topdraw *d, struct topgrid_rect r)
{
	if (r.w <= 0)
		return;
	topdraw_run(d, r);
	r.y++;
	if (r.h > 1)
		topdraw_progress(d, r);
	r.y++;
	if (r.h > 2)
		topdraw_split(d, r);
}
