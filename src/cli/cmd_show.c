/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_show.c - `lapse show`: everything that is known of one run.
 */
#include "cli/cmd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/crashes.h"
#include "report/events.h"
#include "report/runview.h"

#define SHOW_EVENTS 20
#define SHOW_CRASHES 64 /* processes whose end is shown: the last ones */

static const char *show_dir, *show_series;
static bool show_json;

const struct opt *cmd_show_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &show_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "series",
		 .letter = 's',
		 .type = OPT_STR,
		 .value = "PATTERN",
		 .to = &show_series,
		 .help = "only series whose name matches, like 'grad/*' or 'loss'"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &show_json,
		 .help = "print one JSON object"},
		{0},
	};

	return rows;
}

struct show {
	struct runview v;
	struct events last, crashes;
	struct term term;
	struct runview_stat *stats; /* of each series of v */
	bool failed;                /* something could not be read */
};

static void show_head(const char *text, const struct show *s)
{
	putchar('\n');
	term_put(&s->term, stdout, TERM_BOLD, text);
	putchar('\n');
}

static void show_note(const struct show *s, const char *text)
{
	term_put(&s->term, stdout, TERM_DIM, text);
	putchar('\n');
}

/* A line of the head; nothing if the text is empty. */
static void show_fact(struct table *t, const char *label, const char *text)
{
	if (!text || text[0] == '\0')
		return;
	table_cell(t, TERM_DIM, label);
	table_cell(t, TERM_PLAIN, text);
}

static void show_usage(struct table *t, const struct store_run *run)
{
	char user[FMT_MAX], system[FMT_MAX], rss[FMT_MAX];

	if (!runview_has_usage(run))
		return;
	table_cell(t, TERM_DIM, "used");
	table_cellf(t, TERM_PLAIN, "CPU %s user, %s system; largest process %s",
		    fmt_seconds(user, run->user_s), fmt_seconds(system, run->system_s),
		    run->max_rss > 0 ? fmt_bytes(rss, (double)run->max_rss) : "not known");
}

static void show_run(const struct show *s)
{
	static const struct table_column columns[] = {{"", 0}, {"", TABLE_CUT}};
	const struct store_run *run = &s->v.run;
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	double duration = runview_duration_s(run);
	char text[FMT_MAX];

	show_fact(t, "run", run->id);
	show_fact(t, "name", run->name);
	show_fact(t, "project", run->project);
	table_cell(t, TERM_DIM, "outcome");
	table_cellf(t, runview_outcome_style(run), "%s%s", runview_outcome(text, run),
		    run->core ? " (core dumped)" : "");
	show_fact(t, "evidence", run->evidence);
	show_fact(t, "started", fmt_local(text, run->start_ns));
	if (run->end_ns)
		show_fact(t, "ended", fmt_local(text, run->end_ns));
	show_fact(t, "duration", isfinite(duration) ? fmt_seconds(text, duration) : NULL);
	show_usage(t, run);
	show_fact(t, "command", run->command);
	show_fact(t, "in", run->cwd);
	show_fact(t, "hosts", run->hosts);
	show_fact(t, "user", run->user);
	show_fact(t, "tags", run->tags);
	show_fact(t, "notes", run->notes);
	show_fact(t, "stored in", s->v.dir);
	table_print(t, &s->term, stdout, 0);
	table_free(t);
}

static void show_count(struct table *t, uint64_t n, bool bad)
{
	table_cellf(t, bad && n > 0 ? TERM_RED : TERM_PLAIN, "%llu", (unsigned long long)n);
}

static void show_processes(const struct show *s)
{
	static const struct table_column columns[] = {
		{"HOST", TABLE_ELIDE | TABLE_DROP},
		{"ROLE", TABLE_ELIDE},
		{"PROGRAM", TABLE_ELIDE},
		{"PID", TABLE_RIGHT},
		{"RANK", TABLE_RIGHT},
		{"ATTEMPTS", TABLE_RIGHT},
		{"STORED", TABLE_RIGHT},
		{"DROPPED", TABLE_RIGHT},
		{"OVERWRITTEN", TABLE_RIGHT},
		{"BROKEN", TABLE_RIGHT},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	size_t i;

	for (i = 0; i < s->v.n_processes; i++) {
		const struct store_process *p = &s->v.processes[i];

		table_cell(t, TERM_PLAIN, strchr(s->v.run.hosts, ',') ? p->host_name : "");
		table_cell(t, TERM_PLAIN, p->role);
		table_cell(t, TERM_PLAIN, p->program);
		table_cellf(t, TERM_PLAIN, "%lld", (long long)p->pid);
		if (p->rank >= 0)
			table_cellf(t, TERM_PLAIN, "%lld", (long long)p->rank);
		else
			table_cell(t, TERM_PLAIN, "");
		show_count(t, p->stored + p->dropped + p->overwritten + p->broken, false);
		show_count(t, p->stored, false);
		show_count(t, p->dropped, true);
		show_count(t, p->overwritten, true);
		show_count(t, p->broken, true);
	}
	show_head("Processes", s);
	table_print(t, &s->term, stdout, 2);
	table_free(t);
}

static void show_series_row(const struct show *s, struct table *t, size_t i)
{
	const struct store_series *d = &s->v.series[i];
	const struct runview_stat *st = &s->stats[i];
	const char *unit = runview_unit(d);
	double last = d->kind == SINK_COUNTER ? st->sum : st->last;
	char text[FMT_MAX];

	if (d->labels[0])
		table_cellf(t, TERM_PLAIN, "%s{%s}", d->name, d->labels);
	else
		table_cell(t, TERM_PLAIN, d->name);
	runview_process_text(text, sizeof(text), &s->v, d->host, d->process);
	table_cell(t, TERM_PLAIN, runview_is_several(&s->v) ? text : "");
	table_cell(t, TERM_PLAIN, runview_kind(d->kind));
	table_cell(t, TERM_PLAIN, d->kind == SINK_SPAN ? "s" : d->unit);
	table_cellf(t, st->nan ? TERM_RED : TERM_PLAIN, "%llu", (unsigned long long)st->count);
	table_cell(t, st->nan && isnan(last) ? TERM_RED : TERM_PLAIN,
		   st->count ? runview_value(text, last, unit) : "-");
	table_cell(t, TERM_PLAIN, st->count > st->nan ? runview_value(text, st->min, unit) : "-");
	table_cell(t, TERM_PLAIN, st->count > st->nan ? runview_value(text, st->max, unit) : "-");
}

static void show_series_table(const struct show *s)
{
	static const struct table_column columns[] = {
		{"NAME", TABLE_ELIDE}, {"PROCESS", 0},         {"KIND", 0},
		{"UNIT", 0},           {"COUNT", TABLE_RIGHT}, {"LAST", TABLE_RIGHT},
		{"MIN", TABLE_RIGHT},  {"MAX", TABLE_RIGHT},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	size_t i;

	for (i = 0; i < s->v.n_series; i++)
		if (runview_match(show_series, s->v.series[i].name))
			show_series_row(s, t, i);
	show_head("Series", s);
	table_print(t, &s->term, stdout, 2);
	if (table_rows(t) == 0 && show_series)
		printf("  none of %zu matches\n", s->v.n_series);
	else
		show_note(s, "  LAST is the sum of a counter, the last mean of a histogram.");
	table_free(t);
}

struct show_attr {
	const struct runview *v;
	struct table *t; /* or */
	struct json *j;
};

static int show_attr_row(void *arg, unsigned host, uint32_t process, const char *key,
			 const char *value)
{
	struct show_attr *a = arg;
	char text[256];

	runview_process_text(text, sizeof(text), a->v, host, process);
	table_cell(a->t, TERM_PLAIN, runview_is_several(a->v) ? text : "");
	table_cell(a->t, TERM_DIM, key);
	table_cell(a->t, TERM_PLAIN, value);
	return 0;
}

static void show_attrs(struct show *s)
{
	static const struct table_column columns[] = {{"", 0}, {"", TABLE_ELIDE}, {"", TABLE_CUT}};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	struct show_attr a = {.v = &s->v, .t = t};
	struct err e = {0};

	if (store_reader_attrs(s->v.reader, show_attr_row, &a, &e) != 0) {
		fprintf(stderr, "lapse show: %s\n", e.text);
		s->failed = true;
	}
	if (table_rows(t) > 0) {
		show_head("Attributes", s);
		table_print(t, &s->term, stdout, 2);
	}
	table_free(t);
}

static void show_crashes(const struct show *s)
{
	struct table *t = crashes_table();
	size_t i;

	for (i = 0; i < events_count(&s->crashes); i++)
		crashes_add(t, &s->v, events_row(&s->crashes, i));
	if (table_rows(t) > 0) {
		show_head("What it was doing when it died", s);
		table_print(t, &s->term, stdout, 2);
	}
	table_free(t);
}

static void show_events(const struct show *s)
{
	const struct events *ev = &s->last;

	if (events_count(ev) == 0)
		return;
	show_head("Last events", s);
	if (ev->matched > ev->keep)
		printf("  %llu earlier ones: lapse export %s --to csv --what events\n",
		       (unsigned long long)(ev->matched - ev->keep), s->v.run.id);
	events_print(ev, &s->v, &s->term, stdout, 2);
}

/* Line by line: the program's text is foreign, its line ends are not. */
static void show_lines(const char *p)
{
	const char *end;
	char *line, *clean;

	for (; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		line = xstrndup(p, (size_t)(end - p));
		clean = term_clean(line);
		printf("  %s\n", clean);
		free(clean);
		free(line);
	}
}

static void show_trace(const struct show *s)
{
	char process[256], head[300];
	const struct event_row *row;
	struct buf text;

	buf_init(&text, 1u << 20);
	row = events_trace(&s->last, &text);
	if (row) {
		runview_process_text(process, sizeof(process), &s->v, row->host, row->process);
		snprintf(head, sizeof(head), "Traceback of the last event %s (%s)", row->kind,
			 process);
		show_head(head, s);
		show_lines(buf_str(&text));
	}
	buf_done(&text);
}

static void show_stderr(const struct show *s)
{
	const char *p = s->v.run.stderr_tail;

	if (!p || p[0] == '\0')
		return;
	show_head("End of its stderr", s);
	show_lines(p);
}

static void show_json_series(struct json *j, const struct store_series *d,
			     const struct runview_stat *st)
{
	bool has = st->count > st->nan;

	json_object(j);
	json_kstr(j, "host", d->host_name);
	json_kuint(j, "process", d->process);
	runview_json_number(j, "rank", (double)d->rank, d->rank >= 0);
	json_kstr(j, "name", d->name);
	json_kstr(j, "labels", d->labels);
	json_kstr(j, "unit", runview_unit(d));
	json_kstr(j, "kind", runview_kind(d->kind));
	json_kstr(j, "help", d->help);
	json_kstr(j, "source", d->source);
	json_kuint(j, "count", st->count);
	json_kuint(j, "nan", st->nan);
	json_kuint(j, "lost", d->lost);
	runview_json_number(j, "last", st->last, st->count > 0);
	runview_json_step(j, "last_step", st->last_step);
	runview_json_number(j, "min", st->min, has);
	runview_json_number(j, "max", st->max, has);
	runview_json_number(j, "sum", st->sum, has);
	json_object_end(j);
}

static int show_json_attr(void *arg, unsigned host, uint32_t process, const char *key,
			  const char *value)
{
	struct show_attr *a = arg;

	json_object(a->j);
	json_kstr(a->j, "host", runview_process(a->v, host, process)->host_name);
	json_kuint(a->j, "process", process);
	json_kstr(a->j, "key", key);
	json_kstr(a->j, "value", value);
	json_object_end(a->j);
	return 0;
}

static int show_print_json(struct show *s)
{
	struct json j;
	struct show_attr a = {.v = &s->v, .j = &j};
	struct err e = {0};
	struct buf b;
	int status;
	size_t i;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_object(&j);
	runview_json_run(&j, &s->v);
	json_key(&j, "processes");
	json_array(&j);
	for (i = 0; i < s->v.n_processes; i++)
		runview_json_process(&j, &s->v.processes[i]);
	json_array_end(&j);
	json_key(&j, "series");
	json_array(&j);
	for (i = 0; i < s->v.n_series; i++)
		if (runview_match(show_series, s->v.series[i].name))
			show_json_series(&j, &s->v.series[i], &s->stats[i]);
	json_array_end(&j);
	events_json(&j, "crashes", &s->crashes, &s->v);
	events_json(&j, "events", &s->last, &s->v);
	json_key(&j, "attrs");
	json_array(&j);
	if (store_reader_attrs(s->v.reader, show_json_attr, &a, &e) != 0) {
		fprintf(stderr, "lapse show: %s\n", e.text);
		s->failed = true;
	}
	json_array_end(&j);
	json_kstr(&j, "stderr_tail", s->v.run.stderr_tail);
	json_object_end(&j);
	status = runview_json_print("show", &b);
	buf_done(&b);
	return status;
}

/* Read what is shown; a part that cannot be read is told and left out. */
static void show_read(struct show *s)
{
	struct err e = {0};
	size_t i;

	s->last = (struct events){.keep = SHOW_EVENTS};
	s->crashes = (struct events){.keep = SHOW_CRASHES, .only_kind = CRASHES_KIND};
	s->stats = xcalloc(s->v.n_series, sizeof(*s->stats));
	if (events_read(&s->last, &s->v, &e) || events_read(&s->crashes, &s->v, &e)) {
		fprintf(stderr, "lapse show: events: %s\n", e.text);
		s->failed = true;
	}
	for (i = 0; i < s->v.n_series; i++) {
		err_clear(&e);
		if (!runview_match(show_series, s->v.series[i].name) ||
		    runview_stat(&s->v, &s->v.series[i], NULL, &s->stats[i], &e) == 0)
			continue;
		fprintf(stderr, "lapse show: series %s: %s\n", s->v.series[i].name, e.text);
		s->failed = true;
	}
}

int cmd_show(int argc, char **argv)
{
	const char *what = cmd_one_arg("show", argc, argv, "RUN", "last");
	struct show s = {0};
	int status = 0;

	if (!what)
		return 2;
	if (runview_open(&s.v, "show", show_dir, what) != 0)
		return 1;
	term_look(&s.term, stdout);
	show_read(&s);
	if (show_json) {
		status = show_print_json(&s);
	} else {
		show_run(&s);
		show_processes(&s);
		show_series_table(&s);
		show_attrs(&s);
		show_crashes(&s);
		show_events(&s);
		show_trace(&s);
		show_stderr(&s);
	}
	events_done(&s.last);
	events_done(&s.crashes);
	free(s.stats);
	runview_close(&s.v);
	return status || s.failed ? 1 : 0;
}
