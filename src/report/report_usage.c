/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of a machine is put together in a buffer, piece by piece; a piece whose figure is
 * not known is left out, and so is a line without pieces.
 */
#include "report/report_usage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define USAGE_LINE_MAX 65536
#define USAGE_NEARLY_FULL 0.85 /* file systems that are this full have a line */
#define USAGE_DISK_BUSY 0.0005 /* below that no disk is called the busiest */

struct report_machine {
	const struct usage *u;
	const char *host;
	struct table *t;
	struct buf line;
};

static void report_head(const struct term *term, const char *text, const char *more)
{
	char *clean = term_clean(more);

	putchar('\n');
	term_put(term, stdout, TERM_BOLD, text);
	fputs(clean, stdout);
	putchar('\n');
	free(clean);
}

static const struct usage_item *report_get(const struct report_machine *m, const char *name)
{
	return usage_find(m->u, m->host, name, "");
}

static void report_line(struct report_machine *m, const char *label)
{
	if (m->line.len == 0)
		return;
	table_cell(m->t, TERM_DIM, label);
	table_cell(m->t, TERM_PLAIN, buf_str(&m->line));
	buf_reset(&m->line);
}

static void report_comma(struct report_machine *m)
{
	if (m->line.len)
		buf_puts(&m->line, ", ");
}

/* ", 12.3 % of the time iowait" */
static void report_share(struct report_machine *m, const char *before, double v, const char *after)
{
	if (isnan(v))
		return;
	report_comma(m);
	buf_printf(&m->line, "%s%.1f %%%s", before, v * 100, after);
}

static void report_mean(struct report_machine *m, const char *name, const char *before)
{
	const struct usage_item *i = report_get(m, name);

	if (i)
		report_share(m, before, i->mean, "");
}

static void report_cpu(struct report_machine *m)
{
	const struct usage_item *busy = report_get(m, "cpu/busy");

	if (busy) {
		report_share(m, "busy ", busy->mean, " mean");
		report_share(m, "", busy->p95, " p95");
		report_share(m, "", busy->max, " max");
	}
	report_mean(m, "cpu/iowait", "iowait ");
	report_mean(m, "cpu/steal", "steal ");
	report_line(m, "CPU");
	report_mean(m, "pressure/cpu", "CPU ");
	report_mean(m, "pressure/memory", "memory ");
	report_mean(m, "pressure/io", "disk ");
	if (m->line.len)
		buf_puts(&m->line, " of the time some task waited");
	report_line(m, "pressure");
}

/* "used 3.1 GiB at most of 16.0 GiB (19.4 %)" */
static void report_peak(struct report_machine *m, const char *what, const char *used,
			const char *total, const char *of)
{
	const struct usage_item *a = report_get(m, used), *b = report_get(m, total);
	char text[FMT_MAX];

	if (!a)
		return;
	report_comma(m);
	buf_printf(&m->line, "%s%s at most", what, fmt_bytes(text, a->max));
	if (!b || !(b->last > 0))
		return;
	buf_printf(&m->line, " of %s%s", of, fmt_bytes(text, b->last));
	buf_printf(&m->line, " (%.1f %%)", a->max / b->last * 100);
}

static void report_memory(struct report_machine *m)
{
	const struct usage_item *swap = report_get(m, "swap/total");

	report_peak(m, "", "memory/used", "memory/total", "");
	report_line(m, "memory");
	report_peak(m, "", "tree/rss", "memory/limit", "the limit of ");
	report_line(m, "process tree");
	if (swap && swap->last > 0) {
		report_peak(m, "", "swap/used", "swap/total", "");
		report_line(m, "swap");
	}
	report_peak(m, "", "shm/used", "shm/total", "");
	report_line(m, "/dev/shm");
}

/* Rates of all instances together: mean, and the highest of a single one. */
static void report_flow(struct report_machine *m, const char *name, const char *label)
{
	const struct usage_item *i = NULL, *most = NULL;
	char text[FMT_MAX], value[USAGE_LABEL_MAX];
	double sum = NAN;

	while ((i = usage_next(m->u, m->host, name, i))) {
		if (isnan(i->rate))
			continue;
		sum = isnan(sum) ? i->rate : sum + i->rate;
		if (!most || i->rate_max > most->rate_max)
			most = i;
	}
	if (isnan(sum))
		return;
	buf_printf(&m->line, "%s/s", fmt_bytes(text, sum));
	if (isnan(most->rate_max) || most->rate_max <= 0)
		return;
	buf_printf(&m->line, ", at most %s/s", fmt_bytes(text, most->rate_max));
	if (usage_label(most, label, value)[0])
		buf_printf(&m->line, " by %s", value);
}

static void report_disks(struct report_machine *m)
{
	const struct usage_item *i = NULL, *busiest = NULL;
	char value[USAGE_LABEL_MAX];

	report_flow(m, "disk/read", "device");
	report_line(m, "disks read");
	report_flow(m, "disk/written", "device");
	report_line(m, "disks written");
	while ((i = usage_next(m->u, m->host, "disk/busy", i)))
		if (!busiest || i->mean > busiest->mean)
			busiest = i;
	if (busiest && busiest->mean >= USAGE_DISK_BUSY) {
		usage_label(busiest, "device", value);
		buf_printf(&m->line, "%s%sbusy %.1f %% mean, %.1f %% max", value,
			   value[0] ? " " : "", busiest->mean * 100, busiest->max * 100);
	}
	report_line(m, "busiest disk");
	report_flow(m, "network/received", "interface");
	report_line(m, "received");
	report_flow(m, "network/sent", "interface");
	report_line(m, "sent");
}

static void report_filesystems(struct report_machine *m)
{
	const struct usage_item *i = NULL, *total;
	char text[FMT_MAX], value[USAGE_LABEL_MAX];

	while ((i = usage_next(m->u, m->host, "filesystem/available", i))) {
		total = usage_find(m->u, m->host, "filesystem/total", i->s->labels);
		if (!total || !(total->last > 0) || 1 - i->last / total->last < USAGE_NEARLY_FULL)
			continue;
		report_comma(m);
		buf_printf(&m->line, "%s %.1f %%", usage_label(i, "mount", value),
			   (1 - i->last / total->last) * 100);
		buf_printf(&m->line, " (%s left)", fmt_bytes(text, i->last));
	}
	report_line(m, "nearly full");
}

static void report_rest(struct report_machine *m)
{
	const struct usage_item *load = report_get(m, "load/1m"),
				*cpu = report_get(m, "lapse/agent/cpu"),
				*rss = report_get(m, "lapse/agent/rss"),
				*own = report_get(m, "lapse/agent/rss/anonymous");
	char text[FMT_MAX];

	if (load)
		buf_printf(&m->line, "%.2f mean, %.2f max over 1 minute", load->mean, load->max);
	report_line(m, "load");
	if (cpu)
		buf_printf(&m->line, "%.2f %% of a CPU", cpu->mean * 100);
	if (rss) {
		report_comma(m);
		buf_printf(&m->line, "%s at most", fmt_bytes(text, rss->max));
	}
	if (own)
		buf_printf(&m->line, ", %s of it its own", fmt_bytes(text, own->max));
	report_line(m, "agent");
}

static void report_one_machine(const struct usage *u, const char *host, const struct term *term)
{
	static const struct table_column columns[] = {{"", 0}, {"", TABLE_CUT}};
	struct report_machine m = {.u = u, .host = host};
	const struct usage_item *count;
	char *more;

	m.t = table_new(columns, ARRAY_LEN(columns));
	buf_init(&m.line, USAGE_LINE_MAX);
	report_cpu(&m);
	report_memory(&m);
	report_disks(&m);
	report_filesystems(&m);
	report_rest(&m);
	count = report_get(&m, "cpu/count");
	more = count ? xasprintf("  %s, %.0f CPUs", host, count->last) : xasprintf("  %s", host);
	if (table_rows(m.t) > 0) {
		report_head(term, "Machine", more);
		table_print(m.t, term, stdout, 2);
	}
	free(more);
	buf_done(&m.line);
	table_free(m.t);
}

/* ---- GPUs ------------------------------------------------------------------------------ */

static void report_cell_share(struct table *t, const struct usage_item *i)
{
	if (i)
		table_cellf(t, TERM_PLAIN, "%.1f %%", i->mean * 100);
	else
		table_cell(t, TERM_DIM, "");
}

static void report_cell_bytes(struct table *t, const struct usage_item *i, double v)
{
	char text[FMT_MAX];

	table_cell(t, TERM_PLAIN, i ? fmt_bytes(text, v) : "");
}

static void report_cell_sum(struct table *t, const struct usage_item *i)
{
	if (i)
		table_cellf(t, i->sum > 0 ? TERM_RED : TERM_PLAIN, "%.0f", i->sum);
	else
		table_cell(t, TERM_DIM, "");
}

static const char *report_joules(char out[FMT_MAX], double j)
{
	if (j >= 3.6e6)
		snprintf(out, FMT_MAX, "%.2f kWh", j / 3.6e6);
	else if (j >= 1e4)
		snprintf(out, FMT_MAX, "%.1f kJ", j / 1e3);
	else
		snprintf(out, FMT_MAX, "%.3g J", j);
	return out;
}

static void report_gpu(struct table *t, const struct usage *u, const struct usage_gpu *g)
{
	const struct usage_item *used = usage_find(u, g->host, "gpu/memory/used", g->labels),
				*total = usage_find(u, g->host, "gpu/memory/total", g->labels),
				*power = usage_find(u, g->host, "gpu/power", g->labels),
				*energy = usage_find(u, g->host, "gpu/energy", g->labels),
				*heat = usage_find(u, g->host, "gpu/temperature", g->labels),
				*slow = usage_find(u, g->host, "gpu/throttled", g->labels);
	char text[FMT_MAX];

	table_cell(t, TERM_PLAIN, g->number);
	table_cell(t, TERM_PLAIN, u->n_hosts > 1 ? g->host : "");
	table_cell(t, TERM_PLAIN, g->name ? g->name : "");
	report_cell_share(t, usage_find(u, g->host, "gpu/busy", g->labels));
	report_cell_share(t, usage_find(u, g->host, "gpu/sm/active", g->labels));
	report_cell_share(t, usage_find(u, g->host, "gpu/tensor/active", g->labels));
	report_cell_bytes(t, used, used ? used->max : 0);
	report_cell_bytes(t, total, total ? total->last : 0);
	if (power)
		table_cellf(t, TERM_PLAIN, "%.0f/%.0f W", power->mean, power->max);
	else
		table_cell(t, TERM_PLAIN, "");
	table_cell(t, TERM_PLAIN, energy ? report_joules(text, energy->sum) : "");
	if (heat)
		table_cellf(t, TERM_PLAIN, "%.0f C", heat->max);
	else
		table_cell(t, TERM_PLAIN, "");
	report_cell_share(t, slow);
	if (g->reason[0])
		table_cellf(t, TERM_PLAIN, "%s %.1f %%", g->reason, g->reason_share * 100);
	else
		table_cell(t, TERM_PLAIN, "");
	report_cell_sum(t, usage_find(u, g->host, "gpu/ecc/uncorrected", g->labels));
	report_cell_sum(t, usage_find(u, g->host, "gpu/xid", g->labels));
}

static void report_gpus(const struct usage *u, const struct term *term)
{
	static const struct table_column columns[] = {
		{"GPU", TABLE_RIGHT},
		{"HOST", TABLE_ELIDE},
		{"NAME", TABLE_ELIDE | TABLE_DROP},
		{"BUSY", TABLE_RIGHT},
		{"SM", TABLE_RIGHT},
		{"TENSOR", TABLE_RIGHT},
		{"MEM PEAK", TABLE_RIGHT},
		{"OF", TABLE_RIGHT},
		{"POWER/MAX", TABLE_RIGHT},
		{"ENERGY", TABLE_RIGHT},
		{"TEMP", TABLE_RIGHT},
		{"HELD DOWN", TABLE_RIGHT | TABLE_DROP},
		{"MOSTLY BY", TABLE_DROP},
		{"ECC", TABLE_RIGHT},
		{"XID", TABLE_RIGHT},
	};
	struct usage_gpu *gpus;
	struct table *t;
	size_t n, i;

	gpus = usage_gpus(u, &n);
	if (n > 0) {
		t = table_new(columns, ARRAY_LEN(columns));
		for (i = 0; i < n; i++)
			report_gpu(t, u, &gpus[i]);
		report_head(term, "GPUs", "");
		table_print(t, term, stdout, 2);
		table_free(t);
	}
	free(gpus);
}

static void report_energy(const struct usage_energy *en)
{
	const struct {
		double v;
		const char *unit;
	} per[] = {{en->per_step, "step"}, {en->per_sample, "sample"}, {en->per_token, "token"}};
	char text[FMT_MAX];
	size_t i;

	if (isnan(en->total))
		return;
	printf("  energy %s", report_joules(text, en->total));
	if (!isnan(en->watts))
		printf("; in the time of the steps %.0f W", en->watts);
	for (i = 0; i < ARRAY_LEN(per); i++)
		if (!isnan(per[i].v))
			printf(", %s a %s", report_joules(text, per[i].v), per[i].unit);
	putchar('\n');
}

/* ---- processes ---------------------------------------------------------------------------- */

static const struct usage_item *report_of(const struct usage *u, const struct usage_process *p,
					  const char *name)
{
	return usage_find(u, p->host, name, p->labels);
}

static void report_process(struct table *t, const struct usage *u, const struct usage_process *p)
{
	const struct usage_item *cpu = report_of(u, p, "process/cpu"),
				*rss = report_of(u, p, "process/rss"),
				*peak = report_of(u, p, "process/rss/peak"),
				*threads = report_of(u, p, "process/threads"),
				*read = report_of(u, p, "process/read"),
				*gpus = report_of(u, p, "process/gpu/busy"),
				*memory = report_of(u, p, "process/gpu/memory");
	double most = peak && peak->max > (rss ? rss->max : 0) ? peak->max : rss ? rss->max : 0;

	table_cell(t, TERM_PLAIN, p->role);
	table_cell(t, TERM_PLAIN, p->slot);
	table_cell(t, TERM_PLAIN, u->n_hosts > 1 ? p->host : "");
	if (cpu)
		table_cellf(t, TERM_PLAIN, "%.2f", cpu->mean);
	else
		table_cell(t, TERM_DIM, "");
	report_cell_bytes(t, rss ? rss : peak, most);
	if (threads)
		table_cellf(t, TERM_PLAIN, "%.0f", threads->max);
	else
		table_cell(t, TERM_DIM, "");
	report_cell_bytes(t, read, read ? read->sum : 0);
	report_cell_share(t, report_of(u, p, "process/read/cached"));
	report_cell_share(t, report_of(u, p, "process/blocked"));
	report_cell_share(t, report_of(u, p, "process/runqueue"));
	if (gpus)
		table_cellf(t, TERM_PLAIN, "%.2f", gpus->mean);
	else
		table_cell(t, TERM_DIM, "");
	report_cell_bytes(t, memory, memory ? memory->max : 0);
}

static void report_processes(const struct usage *u, const struct term *term)
{
	static const struct table_column columns[] = {
		{"ROLE", TABLE_ELIDE},   {"SLOT", TABLE_RIGHT},     {"HOST", TABLE_ELIDE},
		{"CPUS", TABLE_RIGHT},   {"RSS PEAK", TABLE_RIGHT}, {"THREADS", TABLE_RIGHT},
		{"READ", TABLE_RIGHT},   {"CACHED", TABLE_RIGHT},   {"BLOCKED", TABLE_RIGHT},
		{"NO CPU", TABLE_RIGHT}, {"GPUS", TABLE_RIGHT},     {"GPU MEM", TABLE_RIGHT},
	};
	struct usage_process *all;
	struct table *t;
	size_t n, i;

	all = usage_processes(u, &n);
	if (n > 0) {
		t = table_new(columns, ARRAY_LEN(columns));
		for (i = 0; i < n; i++)
			report_process(t, u, &all[i]);
		report_head(term, "Processes", "");
		table_print(t, term, stdout, 2);
		table_free(t);
	}
	free(all);
}

void report_usage_print(const struct usage *u, const struct usage_energy *en,
			const struct term *term)
{
	size_t i;

	for (i = 0; i < u->n_hosts; i++)
		report_one_machine(u, u->hosts[i], term);
	report_gpus(u, term);
	report_energy(en);
	report_processes(u, term);
}

void report_usage_standouts(const struct standout *all, size_t n, const struct term *term)
{
	char value[FMT_MAX], threshold[FMT_MAX], *place;
	size_t i;

	if (n == 0)
		return;
	report_head(term, "What stands out", "");
	for (i = 0; i < n; i++) {
		const struct standout *s = &all[i];

		place = s->place[0] && s->host[0] ? xasprintf("%s, %s", s->host, s->place)
						  : xasprintf("%s%s", s->host, s->place);
		printf("  %s: %s %s", place, s->text, standout_value(value, s->unit, s->value));
		standout_value(threshold, s->unit == STANDOUT_TIME ? STANDOUT_SHARE : s->unit,
			       s->threshold);
		printf(" (%s%s%s; above %s)\n", s->metric, s->of ? " / " : "", s->of ? s->of : "",
		       threshold);
		free(place);
	}
}
