/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_report.c - `lapse report`: the figures of a whole run, as text or JSON.
 */
#include "cli/cmd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/overview.h"
#include "report/report_usage.h"

static const char *report_dir;
static bool report_json;

const struct opt *cmd_report_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &report_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &report_json,
		 .help = "print one JSON object"},
		{0},
	};

	return rows;
}

static void report_head(const struct term *term, const char *text)
{
	putchar('\n');
	term_put(term, stdout, TERM_BOLD, text);
	putchar('\n');
}

static void report_ranks(const struct figures *f, const struct term *term)
{
	static const struct table_column columns[] = {
		{"RANK", TABLE_RIGHT},  {"HOST", TABLE_ELIDE}, {"PID", TABLE_RIGHT},
		{"STEPS", TABLE_RIGHT}, {"LAST", TABLE_RIGHT}, {"P50", TABLE_RIGHT},
		{"P95", TABLE_RIGHT},   {"P99", TABLE_RIGHT},  {"MAX", TABLE_RIGHT},
	};
	struct table *t;
	char text[FMT_MAX];
	size_t i, k;

	if (f->n_ranks < 2)
		return;
	t = table_new(columns, ARRAY_LEN(columns));
	for (i = 0; i < f->n_ranks; i++) {
		const struct figures_rank *r = &f->ranks[i];
		const double values[] = {r->step.p50_s, r->step.p95_s, r->step.p99_s,
					 r->step.max_s};

		if (r->process->rank >= 0)
			table_cellf(t, TERM_PLAIN, "%lld", (long long)r->process->rank);
		else
			table_cell(t, TERM_DIM, "-");
		table_cell(t, TERM_PLAIN, r->process->host_name);
		table_cellf(t, TERM_PLAIN, "%lld", (long long)r->process->pid);
		table_cellf(t, TERM_PLAIN, "%llu", (unsigned long long)r->step.count);
		table_cell(t, TERM_PLAIN, runview_step(text, r->last_step));
		for (k = 0; k < ARRAY_LEN(values); k++)
			table_cell(t, TERM_PLAIN,
				   isnan(values[k]) ? "-" : fmt_seconds(text, values[k]));
	}
	report_head(term, "Step time by rank");
	table_print(t, term, stdout, 2);
	table_free(t);
}

static void report_events(const struct figures *f, const struct term *term)
{
	const struct events *ev = &f->events;

	if (events_count(ev) == 0)
		return;
	report_head(term, "Warnings and errors");
	if (ev->matched > ev->keep)
		printf("  %llu earlier ones: lapse export %s --to csv --what events\n",
		       (unsigned long long)(ev->matched - ev->keep), f->v->run.id);
	events_print(ev, f->v, term, stdout, 2);
}

static void report_definitions(const struct figures *f, const struct term *term)
{
	char active[FMT_MAX], overall[FMT_MAX];

	if (f->n_ranks == 0)
		return;
	report_head(term, "What the numbers mean");
	if (f->samples.known || f->tokens.known) {
		printf("  in steps  sum / time in steps (%s%s), added up over processes\n",
		       fmt_seconds(active, f->active_s), f->n_ranks > 1 ? " on average" : "");
		printf("  overall   sum / first step's start to last step's end (%s)\n",
		       fmt_seconds(overall, f->overall_s));
	}
	printf("  share     of the time in steps: spans that begin in a step, up to its end;\n"
	       "            phases may nest, so shares need not add up to 100 %%\n"
	       "  p50..p99  nearest rank: the smallest value that so many percent of all values\n"
	       "            do not exceed; nothing is left out, not even the first step\n");
}

static void report_json_spread(struct json *j, const struct figures_spread *s)
{
	json_kuint(j, "count", s->count);
	json_kdouble(j, "total_s", s->total_s);
	runview_json_number(j, "p50_s", s->p50_s, !isnan(s->p50_s));
	runview_json_number(j, "p95_s", s->p95_s, !isnan(s->p95_s));
	runview_json_number(j, "p99_s", s->p99_s, !isnan(s->p99_s));
	runview_json_number(j, "max_s", s->max_s, !isnan(s->max_s));
}

static void report_json_steps(struct json *j, const struct figures *f)
{
	size_t i;

	json_key(j, "ranks");
	json_array(j);
	for (i = 0; i < f->n_ranks; i++) {
		const struct figures_rank *r = &f->ranks[i];

		json_object(j);
		runview_json_number(j, "rank", (double)r->process->rank, r->process->rank >= 0);
		json_kstr(j, "host", r->process->host_name);
		json_kuint(j, "process", r->process->id);
		json_kint(j, "pid", r->process->pid);
		runview_json_step(j, "last_step", r->last_step);
		json_kdouble(j, "first_step_s", r->first_step_s);
		json_kuint(j, "begun_again", r->segments);
		report_json_spread(j, &r->step);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "phases");
	json_array(j);
	for (i = 0; i < f->n_phases; i++) {
		json_object(j);
		json_kstr(j, "name", f->phases[i].name);
		runview_json_number(j, "share", f->phases[i].share, !isnan(f->phases[i].share));
		json_kdouble(j, "in_steps_s", f->phases[i].in_steps_s);
		report_json_spread(j, &f->phases[i].spread);
		json_object_end(j);
	}
	json_array_end(j);
}

static void report_json_losses(struct json *j, const struct figures *f)
{
	size_t i;

	json_key(j, "losses");
	json_array(j);
	for (i = 0; i < f->n_losses; i++) {
		const struct runview_stat *st = &f->losses[i].stat;
		const struct store_series *s = f->losses[i].series;
		bool has = st->count > st->nan;

		json_object(j);
		json_kstr(j, "name", s->name);
		json_kstr(j, "labels", s->labels);
		json_kstr(j, "unit", s->unit);
		runview_json_number(j, "rank", (double)s->rank, s->rank >= 0);
		json_kuint(j, "count", st->count);
		json_kuint(j, "nan", st->nan);
		json_kdouble(j, "last", st->last);
		runview_json_step(j, "last_step", st->last_step);
		runview_json_number(j, "best", st->min, has);
		runview_json_step(j, "best_step", st->min_step);
		json_object_end(j);
	}
	json_array_end(j);
}

static void report_json_rate(struct json *j, const char *key, const struct figures_rate *r)
{
	json_key(j, key);
	json_object(j);
	runview_json_number(j, "sum", r->sum, r->known);
	runview_json_number(j, "per_s_in_steps", r->in_steps, r->known);
	runview_json_number(j, "per_s_overall", r->overall, r->known);
	json_kuint(j, "steps_without", r->steps_without);
	json_object_end(j);
}

static void report_json_stat(struct json *j, const char *key, const struct runview_stat *st)
{
	bool has = st->count > st->nan;

	json_key(j, key);
	json_object(j);
	json_kuint(j, "count", st->count);
	runview_json_number(j, "mean", st->sum / (double)(st->count - st->nan), has);
	runview_json_number(j, "max", st->max, has);
	json_object_end(j);
}

static void report_json_machines(struct json *j, const struct figures *f, const struct usage *u)
{
	size_t i;

	json_key(j, "machines");
	json_array(j);
	for (i = 0; i < f->n_machines; i++) {
		const struct figures_machine *m = &f->machines[i];

		json_object(j);
		json_kstr(j, "host", m->host);
		report_json_stat(j, "cpu_busy", &m->busy);
		report_json_stat(j, "tree_cpu_cores", &m->tree_cpu);
		report_json_stat(j, "tree_rss_bytes", &m->tree_rss);
		report_json_stat(j, "memory_used_bytes", &m->used);
		report_json_stat(j, "memory_total_bytes", &m->total);
		report_json_stat(j, "memory_limit_bytes", &m->limit);
		report_usage_json_machine(j, u, m->host);
		json_object_end(j);
	}
	json_array_end(j);
}

static void report_json_records(struct json *j, const struct figures *f)
{
	json_key(j, "records");
	json_object(j);
	json_kuint(j, "attempts", figures_attempts(f));
	json_kuint(j, "stored", f->stored);
	json_kuint(j, "dropped", f->dropped);
	json_kuint(j, "overwritten", f->overwritten);
	json_kuint(j, "broken", f->broken);
	json_kuint(j, "refused", f->refused);
	json_object_end(j);
	json_kuint(j, "warnings", f->events.by_severity[2]);
	json_kuint(j, "errors", f->events.by_severity[3]);
	events_json(j, "events", &f->events, f->v);
}

/* All that is printed. */
struct report {
	struct figures f;
	struct usage u;
	struct usage_energy energy;
	struct standout *standouts;
	size_t n_standouts;
};

static int report_print_json(const struct report *r)
{
	const struct figures *f = &r->f;
	struct json j;
	struct buf b;
	int status;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_object(&j);
	runview_json_run(&j, f->v);
	json_key(&j, "step");
	json_object(&j);
	report_json_spread(&j, &f->step);
	json_object_end(&j);
	json_kdouble(&j, "active_s", f->active_s);
	json_kdouble(&j, "overall_s", f->overall_s);
	report_json_rate(&j, "samples", &f->samples);
	report_json_rate(&j, "tokens", &f->tokens);
	report_json_steps(&j, f);
	report_json_losses(&j, f);
	report_json_machines(&j, f, &r->u);
	report_usage_json(&j, &r->u, &r->energy);
	report_usage_json_standouts(&j, r->standouts, r->n_standouts);
	report_json_records(&j, f);
	json_object_end(&j);
	status = runview_json_print("report", &b);
	buf_done(&b);
	return status;
}

static struct usage_steps report_steps(const struct figures *f)
{
	struct usage_steps s = {.start_ns = INT64_MAX,
				.end_ns = INT64_MIN,
				.samples = f->samples.sum,
				.tokens = f->tokens.sum,
				.has_samples = f->samples.known,
				.has_tokens = f->tokens.known};
	size_t i;

	for (i = 0; i < f->n_ranks; i++) {
		const struct figures_rank *r = &f->ranks[i];

		s.start_ns = r->start_ns < s.start_ns ? r->start_ns : s.start_ns;
		s.end_ns = r->end_ns > s.end_ns ? r->end_ns : s.end_ns;
		s.steps = r->step.count > s.steps ? r->step.count : s.steps;
	}
	if (f->n_ranks == 0)
		s.start_ns = s.end_ns = 0;
	return s;
}

static int report_read(struct report *r, const struct runview *v, struct err *e)
{
	struct usage_steps steps;
	int err = figures_read(&r->f, v, e);

	if (err)
		return err;
	steps = report_steps(&r->f);
	err = usage_read(&r->u, v, &steps, e);
	if (err) {
		figures_done(&r->f);
		return err;
	}
	r->energy = usage_energy(&r->u, &steps);
	r->standouts = standout_find(&r->f, &r->u, &r->n_standouts);
	return 0;
}

static void report_print(const struct report *r)
{
	struct term term;

	term_look(&term, stdout);
	overview_print(&r->f, &term, stdout, 0);
	report_ranks(&r->f, &term);
	report_usage_print(&r->u, &r->energy, &term);
	report_usage_standouts(r->standouts, r->n_standouts, &term);
	report_events(&r->f, &term);
	report_definitions(&r->f, &term);
}

int cmd_report(int argc, char **argv)
{
	const char *what = cmd_one_arg("report", argc, argv, "RUN", "last");
	struct report r;
	struct err e = {0};
	struct runview v;
	int status = 0;

	if (!what)
		return 2;
	if (runview_open(&v, "report", report_dir, what) != 0)
		return 1;
	if (report_read(&r, &v, &e) != 0) {
		fprintf(stderr, "lapse report: %s\n", e.text);
		runview_close(&v);
		return 1;
	}
	if (report_json)
		status = report_print_json(&r);
	else
		report_print(&r);
	free(r.standouts);
	usage_done(&r.u);
	figures_done(&r.f);
	runview_close(&v);
	return status;
}
