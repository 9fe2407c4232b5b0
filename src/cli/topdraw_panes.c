/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_panes.c - of topdraw.h GPUs and events.
 */
#include "cli/topdraw_priv.h"

#include "cli/topchart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPDRAW_IDLE 0.5 /* of a GPU: busy for less of the time is not as it should be */
#define TOPDRAW_SPARK_NS 300000000000LL /* that small lines show */

/* ---- GPUs ------------------------------------------------------------------------------- */

int topdraw_gpus_want(const struct topdraw *d)
{
	int n = (int)d->m->items[TOP_GPU].n;

	return n ? n + 1 : 0;
}

/* Columns of a row; 0: it has none of these. */
struct topdraw_gpu {
	int name, bar, percent, memory, power, heat, extra, spark;
};

static struct topdraw_gpu topdraw_gpu_columns(const struct topdraw *d, int w)
{
	struct topdraw_gpu c = {.name = d->m->n_hosts > 1 ? 10 : 3, .percent = 6};
	int left;

	c.memory = w >= 44 ? 15 : 0;
	c.power = w >= 52 ? 11 : 0;
	c.heat = w >= 58 ? 7 : 0;
	c.spark = w >= 92 ? 16 : 0;
	c.extra = w >= 112 ? 18 : 0;
	left = w - c.name - c.percent - c.memory - c.power - c.heat - c.spark - c.extra - 4;
	c.bar = c.memory ? left / 2 : left;
	c.bar = c.bar < 0 ? 0 : c.bar > 40 ? 40 : c.bar;
	return c;
}

/* "61.2/80.0 GiB": both in the unit of the larger. */
static void topdraw_of_bytes(char *out, size_t cap, double used, double total)
{
	char a[FMT_MAX], b[FMT_MAX];

	fmt_bytes(a, used);
	fmt_bytes(b, total);
	if (isnan(used) || isnan(total)) {
		snprintf(out, cap, "%s", isnan(used) ? "-" : a);
		return;
	}
	if (strchr(a, ' ') && strchr(b, ' ') && strcmp(strchr(a, ' '), strchr(b, ' ')) == 0)
		*strchr(a, ' ') = '\0';
	snprintf(out, cap, "%s/%s", a, b);
}

static void topdraw_gpu_power(const struct topmodel_item *i, char *out, size_t cap)
{
	double power = i->v[TOP_GPU_POWER], limit = i->v[TOP_GPU_POWER_LIMIT];

	if (isnan(power))
		snprintf(out, cap, "-");
	else if (isnan(limit))
		snprintf(out, cap, "%.0f W", power);
	else
		snprintf(out, cap, "%.0f/%.0f W", power, limit);
}

/* A GPU is there to be full: only the last bytes are worth a word. */
static int topdraw_fill(double share)
{
	return share >= 0.98 ? TOPGRID_HIGH : share >= 0.95 ? TOPGRID_MIDDLE : TOPGRID_LOW;
}

static int topdraw_heat(double celsius)
{
	return celsius >= 90 ? TOPGRID_BAD : celsius >= 80 ? TOPGRID_WARN : TOPGRID_PLAIN;
}

static void topdraw_gpu_spark(struct topdraw *d, int x, int y, int w, const struct topmodel_item *i)
{
	struct toptrace_axis axis = {.to = topdraw_end(d)};
	struct toptrace *t;

	axis.from = axis.to - TOPDRAW_SPARK_NS;
	if (w <= 2 || i->busy_series == UINT32_MAX)
		return;
	t = topmodel_trace(d->m, i->busy_series);
	if (t)
		topchart_spark(d->g, &(struct topgrid_rect){x, y, w - 2, 1}, t, &axis, 1,
			       TOPGRID_COLOR + 2);
}

static void topdraw_gpu(struct topdraw *d, const struct topgrid_rect *r, int y,
			const struct topmodel_item *i)
{
	struct topdraw_gpu c = topdraw_gpu_columns(d, r->w);
	double busy = i->v[TOP_GPU_BUSY], used = i->v[TOP_GPU_USED], all = i->v[TOP_GPU_TOTAL];
	bool slow = i->v[TOP_GPU_THROTTLED] > 0.05;
	char text[2 * FMT_MAX];
	int x = r->x;

	snprintf(text, sizeof(text), "%.6s%s%.8s", d->m->n_hosts > 1 ? d->m->hosts[i->host] : "",
		 d->m->n_hosts > 1 ? ":" : "", i->name);
	topgrid_text(d->g, x, y, c.name - 1, TOPGRID_BOLD, text);
	x += c.name;
	topdraw_gpu_spark(d, x, y, c.spark, i);
	x += c.spark;
	topgrid_bar(d->g, x, y, c.bar, busy, busy < TOPDRAW_IDLE ? TOPGRID_MIDDLE : TOPGRID_GOOD);
	x += c.bar;
	if (isnan(busy))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%.0f %%", busy * 100);
	topgrid_right(d->g, x, y, c.percent, TOPGRID_PLAIN, text);
	x += c.percent + 2;
	if (c.memory) {
		topgrid_bar(d->g, x, y, c.bar, used / all, topdraw_fill(used / all));
		x += c.bar;
		topdraw_of_bytes(text, sizeof(text), used, all);
		topgrid_right(d->g, x, y, c.memory, TOPGRID_PLAIN, text);
		x += c.memory;
	}
	if (c.power) {
		topdraw_gpu_power(i, text, sizeof(text));
		topgrid_right(d->g, x, y, c.power, TOPGRID_PLAIN, text);
		x += c.power;
	}
	if (c.heat) {
		if (isnan(i->v[TOP_GPU_TEMPERATURE]))
			snprintf(text, sizeof(text), "-");
		else
			snprintf(text, sizeof(text), "%.0f %sC", i->v[TOP_GPU_TEMPERATURE],
				 d->g->utf8 ? "\u00b0" : "");
		topgrid_right(d->g, x, y, c.heat, topdraw_heat(i->v[TOP_GPU_TEMPERATURE]), text);
		x += c.heat;
	}
	if (slow)
		topgrid_text(d->g, x + 1, y, r->x + r->w - x - 1, TOPGRID_BAD, "slowed");
	else if (c.extra)
		topgrid_text(d->g, x + 2, y, c.extra - 2, TOPGRID_DIM, i->full);
}

static void topdraw_gpus_sum(const struct topdraw *d, char *out, size_t cap)
{
	const struct topmodel_items *all = &d->m->items[TOP_GPU];
	double busy = 0, watts = 0;
	char power[32] = "", mean[32] = "";
	size_t i, n = 0, n_watts = 0;

	for (i = 0; i < all->n; i++) {
		if (!isnan(all->all[i].v[TOP_GPU_BUSY])) {
			busy += all->all[i].v[TOP_GPU_BUSY];
			n++;
		}
		if (!isnan(all->all[i].v[TOP_GPU_POWER])) {
			watts += all->all[i].v[TOP_GPU_POWER];
			n_watts++;
		}
	}
	if (n)
		snprintf(mean, sizeof(mean), ", busy %.0f %%", busy / (double)n * 100);
	if (n_watts)
		snprintf(power, sizeof(power), ", %.0f W", watts);
	snprintf(out, cap, "%zu%s%s", all->n, mean, power);
}

void topdraw_gpus(struct topdraw *d, struct topgrid_rect r)
{
	const struct topmodel_items *all = &d->m->items[TOP_GPU];
	char text[128];
	int i, first;

	topdraw_gpus_sum(d, text, sizeof(text));
	topdraw_title(d, &r, TOPVIEW_GPUS, text);
	first = topdraw_scroll(d, TOPVIEW_GPUS, (int)all->n, r.h);
	if (all->n == 0 && r.h > 0)
		topgrid_text(d->g, r.x + 1, r.y, r.w - 1, TOPGRID_DIM, "none seen");
	for (i = 0; i < r.h && first + i < (int)all->n; i++)
		topdraw_gpu(d, &r, r.y + i, &all->all[first + i]);
}

/* ---- events ------------------------------------------------------------------------------- */

int topdraw_events_want(const struct topdraw *d)
{
	uint64_t n = d->m->n_events < 8 ? d->m->n_events : 8;

	return 1 + (int)(n + d->m->alerts.n ? n + d->m->alerts.n : 1);
}

/* The begin of a row: sign, time, process, step. Returns where it goes on. */
static int topdraw_moment(struct topdraw *d, const struct topgrid_rect *r, int y, int64_t time_ns,
			  const char *process, int64_t step)
{
	int x = r->x + 2, end = r->x + r->w;
	char text[FMT_MAX];

	fmt_local(text, time_ns);
	x += topgrid_text(d->g, x, y, end - x, TOPGRID_DIM, strlen(text) > 11 ? text + 11 : text) +
	     1;
	if (r->w >= 60) {
		topgrid_text(d->g, x, y, 11, TOPGRID_DIM, process);
		x += 12;
	}
	if (r->w < 70)
		return x;
	if (step != SINK_STEP_NONE) {
		snprintf(text, sizeof(text), "%lld", (long long)step);
		topgrid_right(d->g, x, y, 8, TOPGRID_DIM, text);
	}
	return x + 9;
}

static void topdraw_event(struct topdraw *d, const struct topgrid_rect *r, int y,
			  const struct topmodel_event *e)
{
	static const int styles[] = {TOPGRID_DIM, TOPGRID_PLAIN, TOPGRID_WARN, TOPGRID_BAD};
	static const uint32_t signs[] = {0xb7, 0xb7, '!', 0xd7};
	static const char ascii[] = ".-!x";
	int x, end = r->x + r->w, style = styles[e->severity];

	topgrid_put(d->g, r->x, y, style, signs[e->severity], ascii[e->severity]);
	x = topdraw_moment(d, r, y, e->time_ns, e->process, e->step);
	if (x < end)
		x += topgrid_text(d->g, x, y, end - x < 20 ? end - x : 20, style, e->kind) + 1;
	if (x < end)
		topgrid_text(d->g, x, y, end - x, TOPGRID_PLAIN, e->text);
}

static void topdraw_alert(struct topdraw *d, const struct topgrid_rect *r, int y,
			  const struct topalert *a)
{
	bool quiet = a->acknowledged || a->silenced_ns > d->now_ns;
	int x, end = r->x + r->w,
	       style = quiet             ? TOPGRID_DIM
		       : a->severity < 3 ? TOPGRID_WARN
					 : TOPGRID_BAD;
	char process[48];

	topgrid_put(d->g, r->x, y, style, 0x25b2, '^');
	x = topdraw_moment(d, r, y, a->since_ns,
			   topmodel_process_text(d->m, a->host, a->process, process),
			   SINK_STEP_NONE);
	if (x < end)
		x += topgrid_printf(d->g, x, y, end - x, style, "%s%s",
				    a->silenced_ns > d->now_ns ? "(silenced) "
				    : a->acknowledged          ? "(seen) "
							       : "",
				    a->rule) +
		     1;
	if (x < end)
		topgrid_text(d->g, x, y, end - x, style, a->text);
}

/* First the alerts that fire, then the newest events. */
void topdraw_events(struct topdraw *d, struct topgrid_rect r)
{
	const struct topmodel *m = d->m;
	uint64_t kept = m->n_events < TOPMODEL_EVENTS ? m->n_events : TOPMODEL_EVENTS;
	size_t fire = m->alerts.n, at;
	char text[160];
	int i, first;

	snprintf(text, sizeof(text), "%zu alert%s, %llu error%s, %llu warning%s, %llu event%s",
		 fire + m->alerts.left_out, fire == 1 ? "" : "s",
		 (unsigned long long)m->by_severity[3], m->by_severity[3] == 1 ? "" : "s",
		 (unsigned long long)m->by_severity[2], m->by_severity[2] == 1 ? "" : "s",
		 (unsigned long long)m->n_events, m->n_events == 1 ? "" : "s");
	topdraw_title(d, &r, TOPVIEW_EVENTS, text);
	first = topdraw_scroll(d, TOPVIEW_EVENTS, (int)(fire + kept), r.h);
	if (fire + kept == 0 && r.h > 0)
		topgrid_text(d->g, r.x + 1, r.y, r.w - 1, TOPGRID_DIM, "none");
	for (i = 0; i < r.h && (at = (size_t)first + (size_t)i) < fire + kept; i++) {
		if (at < fire)
			topdraw_alert(d, &r, r.y + i, &m->alerts.all[fire - 1 - at]);
		else
			topdraw_event(d, &r, r.y + i, topmodel_event(m, at - fire));
	}
}
