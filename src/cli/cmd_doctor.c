/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_doctor.c - `lapse doctor`: what works here, what does not, why, and what would
 * help. Reads each group of metrics twice, a second apart.
 */
#include "cli/cmd.h"

#include "base/fmt.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "cli/pace.h"
#include "cli/settings.h"
#include "report/table.h"
#include "report/runview.h"
#include "probe/runner.h"
#include "probe/linux/tree.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "wire/sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DOCTOR_WAIT_MS 1100

static struct doctor_options {
	const char *dir, *python, *config;
	bool json, metrics, no_python;
} doctor_opt;

/* clang-format off */
static const struct opt doctor_rows[] = {
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &doctor_opt.dir,
	 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = "python", .type = OPT_STR, .value = "PROGRAM", .to = &doctor_opt.python,
	 .help = "the interpreter that would train (default: python3)"},
	{.name = "no-python", .type = OPT_FLAG, .to = &doctor_opt.no_python,
	 .help = "do not ask the interpreter"},
	{.name = "metrics", .letter = 'm', .type = OPT_FLAG, .to = &doctor_opt.metrics,
	 .help = "show every metric: what it is now, or why it cannot be known"},
	{.name = "config", .letter = 'c', .type = OPT_STR, .value = "FILE",
	 .to = &doctor_opt.config,
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)"},
	{.name = "json", .type = OPT_FLAG, .to = &doctor_opt.json,
	 .help = "print one JSON object"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_doctor_options(void)
{
	return doctor_rows;
}

/* ---- reading ------------------------------------------------------------------------- */

/* The groups of the machine and, with ourselves as the command, those of a run. */
struct doctor_probe {
	struct runner *runners[2];
	struct probe_tree tree;
	bool has_tree;
	struct runner_group *groups;
	size_t n_groups, cap_groups;
	struct probe_view *points;
	size_t n_points, cap_points;
};

static void doctor_take_group(void *arg, const struct runner_group *g)
{
	struct doctor_probe *p = arg;

	p->groups = xgrow(p->groups, p->n_groups, &p->cap_groups, sizeof(*p->groups));
	p->groups[p->n_groups++] = *g;
}

static void doctor_take_point(void *arg, const struct probe_view *v)
{
	struct doctor_probe *p = arg;

	p->points = xgrow(p->points, p->n_points, &p->cap_points, sizeof(*p->points));
	p->points[p->n_points++] = *v;
}

static void doctor_start(struct doctor_probe *p, const struct agent_options *o)
{
	struct probe_env env = o->probe;
	long pid = (long)getpid();

	memset(p, 0, sizeof(*p));
	if (runner_new(&env, &o->pace, &p->runners[0]) < 0)
		p->runners[0] = NULL;
	p->has_tree = probe_tree_init(&p->tree, env.root, pid, rendezvous_start_time(pid)) == 0;
	env.pid = pid;
	env.tree = p->has_tree ? &p->tree : NULL;
	if (runner_new(&env, &o->pace, &p->runners[1]) < 0)
		p->runners[1] = NULL;
}

static void doctor_tick(struct doctor_probe *p)
{
	struct probe_now now = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};
	int i;

	for (i = 0; i < 2; i++)
		if (p->runners[i])
			runner_tick(p->runners[i], &now);
}

static void doctor_read(struct doctor_probe *p)
{
	struct timespec wait = {DOCTOR_WAIT_MS / 1000, DOCTOR_WAIT_MS % 1000 * 1000000};
	int i;

	doctor_tick(p);
	nanosleep(&wait, NULL);
	doctor_tick(p);
	for (i = 0; i < 2; i++) {
		if (!p->runners[i])
			continue;
		runner_stop(p->runners[i]);
		runner_each(p->runners[i], doctor_take_group, p);
		runner_points(p->runners[i], doctor_take_point, p);
	}
}

static void doctor_stop(struct doctor_probe *p)
{
	int i;

	for (i = 0; i < 2; i++)
		runner_free(p->runners[i]);
	if (p->has_tree)
		probe_tree_done(&p->tree);
	free(p->groups);
	free(p->points);
}

/* What is known of a row over its instances. */
struct doctor_row {
	size_t points, known;
	double value;      /* of the first that is known */
	const char *first; /* its labels */
	const char *why;   /* of one that is not */
};

static void doctor_row(const struct doctor_probe *p, const struct probe_metric *m,
		       struct doctor_row *out)
{
	size_t i;

	*out = (struct doctor_row){0};
	for (i = 0; i < p->n_points; i++) {
		const struct probe_view *v = &p->points[i];

		if (v->metric != m)
			continue;
		out->points++;
		if (v->known && out->known++ == 0) {
			out->value = v->value;
			out->first = v->labels;
		} else if (!v->known && v->why) {
			out->why = v->why;
		}
	}
}

static size_t doctor_known_rows(const struct doctor_probe *p, const struct probe_group *g)
{
	struct doctor_row row;
	size_t i, n = 0;

	for (i = 0; i < g->n_metrics; i++) {
		doctor_row(p, &g->metrics[i], &row);
		n += row.known > 0;
	}
	return n;
}

/* ---- as text -------------------------------------------------------------------------- */

static const struct {
	const char *word;
	enum term_style style;
} doctor_states[] = {
	[DOCTOR_OK] = {"ok", TERM_GREEN},
	[DOCTOR_NOTE] = {"note", TERM_DIM},
	[DOCTOR_WARNING] = {"warning", TERM_YELLOW},
	[DOCTOR_BROKEN] = {"broken", TERM_RED},
};

static void doctor_print_findings(const struct doctor *d, const struct term *term)
{
	size_t i;

	for (i = 0; i < d->n; i++) {
		const struct doctor_finding *f = &d->findings[i];
		char head[32];

		snprintf(head, sizeof(head), "%-8s", doctor_states[f->state].word);
		term_put(term, stdout, doctor_states[f->state].style, head);
		printf("%-15s%s\n", f->area, f->text);
		if (f->remedy) {
			term_put(term, stdout, TERM_DIM, "        what helps:    ");
			printf("%s\n", f->remedy);
		}
	}
}

static const char *doctor_period(char out[FMT_MAX], const struct runner_group *g)
{
	if (!g->open || g->period_ns <= 0)
		return "";
	return fmt_seconds(out, (double)g->period_ns / 1e9);
}

static void doctor_print_groups(const struct doctor_probe *p, const struct term *term)
{
	static const struct table_column columns[] = {
		{"GROUP", 0},
		{"METRICS", TABLE_RIGHT},
		{"EVERY", TABLE_RIGHT},
		{"COST", TABLE_RIGHT},
		{"", 0},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	char every[FMT_MAX], cost[FMT_MAX];
	size_t i, known;

	for (i = 0; i < p->n_groups; i++) {
		const struct runner_group *g = &p->groups[i];

		known = g->open ? doctor_known_rows(p, g->group) : 0;
		table_cell(t, TERM_PLAIN, g->group->name);
		table_cellf(t, known ? TERM_GREEN : TERM_DIM, "%zu of %zu", known,
			    g->group->n_metrics);
		table_cell(t, TERM_PLAIN, doctor_period(every, g));
		table_cell(t, TERM_PLAIN, g->readings ? fmt_seconds(cost, g->cpu_s) : "");
		table_cell(t, TERM_DIM, g->open ? "" : g->why);
	}
	putchar('\n');
	table_print(t, term, stdout, 0);
	table_free(t);
}

static void doctor_print_metrics(const struct doctor_probe *p, const struct term *term)
{
	static const struct table_column columns[] = {
		{"METRIC", 0}, {"VALUE", TABLE_RIGHT}, {"UNIT", 0}, {"OF", TABLE_ELIDE}, {"", 0},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	struct doctor_row row;
	size_t i, k;

	for (i = 0; i < p->n_groups; i++) {
		const struct probe_group *g = p->groups[i].group;

		for (k = 0; k < g->n_metrics; k++) {
			doctor_row(p, &g->metrics[k], &row);
			table_cell(t, TERM_PLAIN, g->metrics[k].name);
			if (row.known)
				table_cellf(t, TERM_PLAIN, "%.6g", row.value);
			else
				table_cell(t, TERM_PLAIN, "");
			table_cell(t, TERM_DIM, g->metrics[k].unit);
			if (row.known > 1)
				table_cellf(t, TERM_DIM, "%s and %zu more", row.first,
					    row.known - 1);
			else
				table_cell(t, TERM_DIM, row.known ? row.first : "");
			table_cell(t, TERM_DIM,
				   row.known ? ""
				   : p->groups[i].open
					   ? (row.why ? row.why : "nothing of the kind is here")
					   : p->groups[i].why);
		}
	}
	table_print(t, term, stdout, 0);
	table_free(t);
}

/* ---- as JSON --------------------------------------------------------------------------- */

static const char *const doctor_kinds[] = {
	[SINK_GAUGE] = "gauge",
	[SINK_COUNTER] = "counter",
};

static void doctor_json_metric(struct json *j, const struct doctor_probe *p,
			       const struct probe_metric *m)
{
	struct doctor_row row;

	doctor_row(p, m, &row);
	json_object(j);
	json_kstr(j, "name", m->name);
	json_kstr(j, "unit", m->unit);
	json_kstr(j, "kind", doctor_kinds[m->kind]);
	json_kstr(j, "labels", m->labels);
	json_kstr(j, "help", m->help);
	json_kstr(j, "source", m->source);
	json_kint(j, "cost", m->cost);
	json_kuint(j, "instances", row.points);
	json_kuint(j, "known", row.known);
	if (row.known)
		json_kdouble(j, "value", row.value);
	json_kstr(j, "why", row.why);
	json_object_end(j);
}

static void doctor_json_group(struct json *j, const struct doctor_probe *p,
			      const struct runner_group *g)
{
	size_t k;

	json_object(j);
	json_kstr(j, "name", g->group->name);
	json_kbool(j, "of_run", g->group->of_run);
	json_kbool(j, "open", g->open);
	json_kstr(j, "why", g->why);
	json_kdouble(j, "every_s",
		     (double)(g->period_ns > 0 ? g->period_ns : g->group->period_ns) / 1e9);
	json_kdouble(j, "cpu_s", g->cpu_s);
	json_kdouble(j, "wall_s", g->wall_s);
	json_key(j, "metrics");
	json_array(j);
	for (k = 0; k < g->group->n_metrics; k++)
		doctor_json_metric(j, p, &g->group->metrics[k]);
	json_array_end(j);
	json_object_end(j);
}

static int doctor_json(const struct doctor *d, const struct doctor_probe *p)
{
	const struct runner_group own = {
		.group = &runner_own, .open = true, .period_ns = runner_own.period_ns};
	struct buf b;
	struct json j;
	int status;
	size_t i;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_object(&j);
	json_kstr(&j, "version", LAPSE_VERSION);
	json_key(&j, "findings");
	json_array(&j);
	for (i = 0; i < d->n; i++) {
		json_object(&j);
		json_kstr(&j, "area", d->findings[i].area);
		json_kstr(&j, "state", doctor_states[d->findings[i].state].word);
		json_kstr(&j, "text", d->findings[i].text);
		json_kstr(&j, "remedy", d->findings[i].remedy);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_key(&j, "groups");
	json_array(&j);
	for (i = 0; i < p->n_groups; i++)
		doctor_json_group(&j, p, &p->groups[i]);
	doctor_json_group(&j, p, &own);
	json_array_end(&j);
	json_object_end(&j);
	status = runview_json_print("doctor", &b);
	buf_done(&b);
	return status;
}

/* ---- the command ------------------------------------------------------------------------- */

static void doctor_look(struct doctor *d)
{
	size_t i;

	doctor_kernel(d);
	doctor_agent(d);
	doctor_store(d);
	for (i = 0; pace_note(i); i++)
		doctor_add(d, "settings", DOCTOR_WARNING, NULL, "%s", pace_note(i));
	doctor_ports(d);
	if (!doctor_opt.no_python)
		doctor_python(d);
}

static int doctor_print(const struct doctor *d, const struct doctor_probe *p)
{
	struct term term;

	if (doctor_opt.json)
		return doctor_json(d, p);
	term_look(&term, stdout);
	if (doctor_opt.metrics) {
		doctor_print_metrics(p, &term);
		return 0;
	}
	doctor_print_findings(d, &term);
	doctor_print_groups(p, &term);
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor d = {.python = doctor_opt.python};
	struct agent_options o = {0};
	struct settings settings;
	struct doctor_probe p;
	int status;
	size_t i;

	if (argc > 0) {
		fprintf(stderr, "lapse doctor: unexpected argument '%s'\n", argv[0]);
		return 2;
	}
	if (settings_load(&settings, "doctor", doctor_opt.config) != 0) {
		settings_done(&settings);
		return 2;
	}
	d.config = settings.config;
	d.dir = doctor_opt.dir ? doctor_opt.dir : config_text(settings.config, "run.dir");
	pace_set(&o, settings.config);
	o.probe.run_dir = d.dir;
	doctor_start(&p, &o);
	for (i = 0; settings_note(&settings, i); i++)
		doctor_add(&d, "settings", DOCTOR_WARNING, NULL, "%s", settings_note(&settings, i));
	doctor_look(&d);
	doctor_read(&p);
	status = doctor_print(&d, &p);
	for (i = 0; i < d.n; i++)
		if (d.findings[i].state == DOCTOR_BROKEN)
			status = 1;
	doctor_stop(&p);
	doctor_done(&d);
	settings_done(&settings);
	return status;
}
