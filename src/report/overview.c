/* SPDX-License-Identifier: Apache-2.0
 *
 * overview.c - see overview.h. A line of the head is a row of a table of two
 * columns, put together in a buffer; what is not known has no line.
 */
#include "report/overview.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define SUMMARY_LINE_MAX 8192
#define SUMMARY_SLOW_FIRST 3 /* a first step this many times the median is said */

struct overview {
	const struct figures *f;
	struct table *head;
	struct buf line;
};

static void overview_line(struct overview *s, enum term_style style, const char *label)
{
	table_cell(s->head, TERM_DIM, label);
	table_cell(s->head, style, buf_str(&s->line));
	buf_reset(&s->line);
}

static void overview_put_run(struct overview *s)
{
	const struct store_run *run = &s->f->v->run;
	char text[FMT_MAX];

	buf_printf(&s->line, "%s%s%s", run->id, run->project[0] ? "  project " : "", run->project);
	overview_line(s, TERM_PLAIN, "run");
	buf_puts(&s->line, run->command);
	overview_line(s, TERM_PLAIN, "command");
	buf_printf(&s->line, "%s on %s", fmt_local(text, run->start_ns), run->hosts);
	if (run->user[0])
		buf_printf(&s->line, " by %s", run->user);
	overview_line(s, TERM_PLAIN, "started");
	if (run->evidence[0]) {
		buf_puts(&s->line, run->evidence);
		overview_line(s, TERM_RED, "evidence");
	}
}

static void overview_put_ranks(struct overview *s)
{
	const struct figures *f = s->f;
	uint64_t least = UINT64_MAX, most = 0;
	size_t i;

	for (i = 0; i < f->n_ranks; i++) {
		if (f->ranks[i].step.count < least)
			least = f->ranks[i].step.count;
		if (f->ranks[i].step.count > most)
			most = f->ranks[i].step.count;
	}
	if (least < most)
		buf_printf(&s->line, "%llu to ", (unsigned long long)least);
	buf_printf(&s->line, "%llu", (unsigned long long)most);
	if (f->n_ranks > 1)
		buf_printf(&s->line, " in each of %zu processes", f->n_ranks);
}

static void overview_put_steps(struct overview *s)
{
	const struct figures *f = s->f;
	double first = 0, times;
	int64_t last = SINK_STEP_NONE;
	uint32_t segments = 0;
	char text[FMT_MAX];
	size_t i;

	if (f->n_ranks == 0) {
		buf_puts(&s->line, "none recorded");
		overview_line(s, TERM_DIM, "steps");
		return;
	}
	for (i = 0; i < f->n_ranks; i++) {
		if (f->ranks[i].last_step > last)
			last = f->ranks[i].last_step;
		if (f->ranks[i].first_step_s > first)
			first = f->ranks[i].first_step_s;
		if (f->ranks[i].segments > segments)
			segments = f->ranks[i].segments;
	}
	overview_put_ranks(s);
	buf_printf(&s->line, ", last step %s", runview_step(text, last));
	if (segments > 0)
		buf_printf(&s->line, ", begun again %u time%s", segments, segments == 1 ? "" : "s");
	times = first / f->step.p50_s;
	if (times > SUMMARY_SLOW_FIRST)
		buf_printf(&s->line, "; the first took %s, %.0f x the median",
			   fmt_seconds(text, first), times);
	overview_line(s, TERM_PLAIN, "steps");
}

static void overview_put_losses(struct overview *s)
{
	char value[FMT_MAX], step[FMT_MAX], unit[FMT_MAX];
	size_t i;

	for (i = 0; i < s->f->n_losses; i++) {
		const struct figures_loss *l = &s->f->losses[i];
		const struct runview_stat *st = &l->stat;

		snprintf(unit, sizeof(unit), "%s%s", l->series->unit[0] ? " " : "",
			 strcmp(l->series->unit, "1") == 0 ? "" : l->series->unit);
		buf_printf(&s->line, "%s%s last", runview_value(value, st->last, ""), unit);
		if (st->last_step != SINK_STEP_NONE)
			buf_printf(&s->line, " (step %s)", runview_step(step, st->last_step));
		if (st->count > st->nan)
			buf_printf(&s->line, ", %s best", runview_value(value, st->min, ""));
		if (st->count > st->nan && st->min_step != SINK_STEP_NONE)
			buf_printf(&s->line, " (step %s)", runview_step(step, st->min_step));
		if (st->nan > 0)
			buf_printf(&s->line, ", %llu of %llu NaN", (unsigned long long)st->nan,
				   (unsigned long long)st->count);
		overview_line(s, st->nan ? TERM_RED : TERM_PLAIN, l->series->name);
	}
}

static void overview_put_rate(struct overview *s, const struct figures_rate *r, const char *label)
{
	char in_steps[FMT_MAX], overall[FMT_MAX];

	if (!r->known)
		return;
	buf_printf(&s->line, "%s%s in steps, %s overall", s->f->dropped ? "at least " : "",
		   fmt_count(in_steps, r->in_steps), fmt_count(overall, r->overall));
	if (r->steps_without > 0)
		buf_printf(&s->line, "; %llu steps did not say",
			   (unsigned long long)r->steps_without);
	overview_line(s, TERM_PLAIN, label);
}

static double overview_mean(const struct runview_stat *st)
{
	return st->sum / (double)(st->count - st->nan);
}

static void overview_host(struct overview *s, const struct figures_machine *m)
{
	if (s->f->n_machines > 1)
		buf_printf(&s->line, "%s: ", m->host);
}

static void overview_put_cpu(struct overview *s, const struct figures_machine *m)
{
	uint64_t n = m->busy.count > m->tree_cpu.count ? m->busy.count : m->tree_cpu.count;

	if (n == 0)
		return;
	overview_host(s, m);
	if (m->busy.count > 0)
		buf_printf(&s->line, "machine %.1f %% busy", overview_mean(&m->busy) * 100);
	if (m->tree_cpu.count > 0)
		buf_printf(&s->line, "%sprocess tree %.2f cores", m->busy.count ? ", " : "",
			   overview_mean(&m->tree_cpu));
	buf_printf(&s->line, " (mean of %llu samples)", (unsigned long long)n);
	overview_line(s, TERM_PLAIN, "CPU");
}

static void overview_put_memory(struct overview *s, const struct figures_machine *m)
{
	char text[FMT_MAX];

	if (m->tree_rss.count == 0 && m->used.count == 0)
		return;
	overview_host(s, m);
	if (m->tree_rss.count > 0)
		buf_printf(&s->line, "process tree %s", fmt_bytes(text, m->tree_rss.max));
	if (m->used.count > 0)
		buf_printf(&s->line, "%smachine %s", m->tree_rss.count ? ", " : "",
			   fmt_bytes(text, m->used.max));
	if (m->used.count > 0 && m->total.count > 0)
		buf_printf(&s->line, " of %s", fmt_bytes(text, m->total.last));
	if (m->limit.count > 0)
		buf_printf(&s->line, ", limit %s", fmt_bytes(text, m->limit.last));
	overview_line(s, TERM_PLAIN, "memory peak");
}

static void overview_put_records(struct overview *s)
{
	const struct figures *f = s->f;
	uint64_t lost = f->dropped + f->overwritten + f->broken + f->refused;

	buf_printf(&s->line, "%llu dropped of %llu", (unsigned long long)f->dropped,
		   (unsigned long long)figures_attempts(f));
	buf_printf(&s->line, ", %llu overwritten, %llu broken", (unsigned long long)f->overwritten,
		   (unsigned long long)f->broken);
	if (f->refused > 0)
		buf_printf(&s->line, ", %llu definitions refused", (unsigned long long)f->refused);
	overview_line(s, lost ? TERM_RED : TERM_PLAIN, "records");
}

static void overview_put_events(struct overview *s)
{
	const struct events *ev = &s->f->events;
	uint64_t warnings = ev->by_severity[2], errors = ev->by_severity[3];
	const struct event_row *last;

	if (warnings + errors == 0)
		return;
	last = events_cause(ev);
	buf_printf(&s->line, "%llu warning%s, %llu error%s; last: %s%s%.*s",
		   (unsigned long long)warnings, warnings == 1 ? "" : "s",
		   (unsigned long long)errors, errors == 1 ? "" : "s", last->kind,
		   last->text[0] ? ": " : "", (int)(strchrnul(last->text, '\n') - last->text),
		   last->text);
	overview_line(s, errors ? TERM_RED : TERM_YELLOW, "events");
}

static void overview_title(const struct figures *f, const struct term *term, FILE *to)
{
	const struct store_run *run = &f->v->run;
	char outcome[FMT_MAX], text[FMT_MAX];
	char *name = term_clean(run->name[0] ? run->name : run->id);
	double duration = runview_duration_s(run);

	term_put(term, to, TERM_BOLD, name);
	fputs("  ", to);
	term_put(term, to, runview_outcome_style(run), runview_outcome(outcome, run));
	if (run->core)
		fputs(" (core dumped)", to);
	if (isfinite(duration))
		fprintf(to, " %s %s", run->end_ns ? "after" : "for", fmt_seconds(text, duration));
	fputc('\n', to);
	free(name);
}

static void overview_phase_row(struct table *t, const char *name, const struct figures_spread *s,
			       double share)
{
	const double values[] = {s->p50_s, s->p95_s, s->p99_s, s->max_s};
	char text[FMT_MAX];
	size_t i;

	table_cell(t, TERM_PLAIN, name);
	table_cellf(t, TERM_PLAIN, "%llu", (unsigned long long)s->count);
	table_cell(t, TERM_PLAIN, fmt_seconds(text, s->total_s));
	if (isnan(share))
		table_cell(t, TERM_DIM, "-");
	else
		table_cellf(t, TERM_PLAIN, "%.1f %%", share * 100);
	for (i = 0; i < ARRAY_LEN(values); i++)
		table_cell(t, TERM_PLAIN, isnan(values[i]) ? "-" : fmt_seconds(text, values[i]));
}

static void overview_phases(const struct figures *f, const struct term *term, FILE *to,
			    size_t max_phases)
{
	static const struct table_column columns[] = {
		{"PHASE", TABLE_ELIDE}, {"COUNT", TABLE_RIGHT}, {"TOTAL", TABLE_RIGHT},
		{"SHARE", TABLE_RIGHT}, {"P50", TABLE_RIGHT},   {"P95", TABLE_RIGHT},
		{"P99", TABLE_RIGHT},   {"MAX", TABLE_RIGHT},
	};
	size_t n = f->n_phases, i;
	struct table *t;

	if (max_phases > 0 && n > max_phases)
		n = max_phases;
	if (n == 0 && f->n_ranks == 0)
		return;
	t = table_new(columns, ARRAY_LEN(columns));
	if (f->n_ranks > 0)
		overview_phase_row(t, "step", &f->step, 1);
	for (i = 0; i < n; i++)
		overview_phase_row(t, f->phases[i].name, &f->phases[i].spread, f->phases[i].share);
	fputc('\n', to);
	table_print(t, term, to, 2);
	table_free(t);
	if (n < f->n_phases)
		fprintf(to, "  and %zu more phases: lapse report %s\n", f->n_phases - n,
			f->v->run.id);
}

void overview_print(const struct figures *f, const struct term *term, FILE *to, size_t max_phases)
{
	static const struct table_column columns[] = {{"", 0}, {"", TABLE_CUT}};
	struct overview s = {.f = f, .head = table_new(columns, ARRAY_LEN(columns))};
	size_t i;

	buf_init(&s.line, SUMMARY_LINE_MAX);
	overview_put_run(&s);
	overview_put_steps(&s);
	overview_put_losses(&s);
	overview_put_rate(&s, &f->samples, "samples/s");
	overview_put_rate(&s, &f->tokens, "tokens/s");
	for (i = 0; i < f->n_machines; i++)
		overview_put_cpu(&s, &f->machines[i]);
	for (i = 0; i < f->n_machines; i++)
		overview_put_memory(&s, &f->machines[i]);
	overview_put_records(&s);
	overview_put_events(&s);
	overview_title(f, term, to);
	table_print(s.head, term, to, 2);
	table_free(s.head);
	buf_done(&s.line);
	overview_phases(f, term, to, max_phases);
}

int report_summary(const char *run_dir, FILE *to)
{
	struct figures f;
	struct err e = {0};
	struct term term;
	struct runview v;
	int err = runview_open_dir(&v, run_dir, &e);

	if (err) {
		fprintf(to, "lapse: no summary: %s\n", e.text);
		return err;
	}
	term_look(&term, to);
	err = figures_read(&f, &v, &e);
	if (err) {
		fprintf(to, "lapse: no summary: %s\n", e.text);
	} else {
		overview_print(&f, &term, to, SUMMARY_PHASES);
		figures_done(&f);
	}
	runview_close(&v);
	return err;
}
