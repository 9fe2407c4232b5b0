/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracehead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "cli/traceout.h"

#define TRACEHEAD_FILES 16 /* that people see */

const char *tracehead_rule(const struct tracecmd_set *s)
{
	if (s->view)
		return s->view->rule == VIEW_HTA         ? "hta"
		       : s->view->rule == VIEW_HTA_EXACT ? "hta_exact"
							 : "exact";
	return tracecmd_opt.plugin ? "plugin" : "exact";
}

static void tracehead_file(const struct tracecmd_set *s, const struct term *term, FILE *to)
{
	const struct trace *t = s->trace[0];
	const struct view *v = s->view;
	const struct trace_meta *m = trace_meta(t);
	char a[FMT_MAX];
	char *name = term_clean(tracecmd_name(trace_path(t)));

	term_put(term, to, TERM_BOLD, name);
	free(name);
	fprintf(to, ": %s rows", traceout_groups(a, trace_rows(t)));
	if (m->rank >= 0)
		fprintf(to, ", rank %" PRId64, m->rank);
	if (m->rank >= 0 && m->world_size > 0)
		fprintf(to, " of %" PRId64, m->world_size);
	if (v && v->n_steps == 1)
		fprintf(to, ", step %" PRId64, v->steps[0].number);
	else if (v && v->n_steps)
		fprintf(to, ", %zu steps (%" PRId64 " to %" PRId64 ")", v->n_steps,
			v->steps[0].number, v->steps[v->n_steps - 1].number);
	if (v && v->last > v->first)
		fprintf(to, ", %s", fmt_seconds(a, (double)(v->last - v->first) / 1e9));
	fputc('\n', to);
}

static void tracehead_files(const struct tracecmd_set *s, const struct term *term, FILE *to)
{
	static const struct table_column columns[] = {{"FILE", TABLE_RIGHT}, {"RANK", TABLE_RIGHT},
						      {"ROWS", TABLE_RIGHT}, {"STEPS", TABLE_RIGHT},
						      {"TIME", TABLE_RIGHT}, {"NAME", TABLE_ELIDE}};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	char a[FMT_MAX];
	size_t i;

	for (i = 0; i < s->n && i < TRACEHEAD_FILES; i++) {
		const struct view *v = s->view ? &s->view[i] : NULL;
		int64_t rank = trace_meta(s->trace[i])->rank;

		if (s->has_ranks)
			table_cell(t, TERM_PLAIN, NULL);
		else
			table_cellf(t, TERM_PLAIN, "%zu", i);
		if (rank >= 0)
			table_cellf(t, TERM_PLAIN, "%" PRId64, rank);
		else
			table_cell(t, TERM_DIM, "-");
		table_cell(t, TERM_PLAIN, traceout_groups(a, trace_rows(s->trace[i])));
		if (v)
			table_cellf(t, TERM_PLAIN, "%zu", v->n_steps);
		else
			table_cell(t, TERM_PLAIN, NULL);
		if (v && v->last > v->first)
			table_cell(t, TERM_PLAIN,
				   fmt_seconds(a, (double)(v->last - v->first) / 1e9));
		else
			table_cell(t, TERM_PLAIN, NULL);
		table_cell(t, TERM_PLAIN, trace_path(s->trace[i]));
	}
	table_print(t, term, to, 0);
	if (i < s->n)
		fprintf(to, "and %zu more\n", s->n - i);
	table_free(t);
}

/* The sentence about rows, window and what is left out. */
static char *tracehead_inputs(const struct tracecmd_set *s)
{
	uint64_t left = 0, rows = 0;
	bool dropped = false, rounded = false, cut = false;
	char a[FMT_MAX], b[FMT_MAX];
	size_t i;

	if (!s->view)
		return tracecmd_opt.plugin ? xasprintf("Numbers as torch-tb-profiler 0.4.3 makes "
						       "them: its rows, its "
						       "threads, doubles in us.")
					   : NULL;
	for (i = 0; i < s->n; i++) {
		rows += s->view[i].n;
		left += s->view[i].left_out;
		cut = cut || (s->fit && s->fit[i].is_cut);
		dropped = dropped || s->view[i].dropped_last;
		rounded = rounded || s->view[i].rounded;
	}
	traceout_groups(a, rows);
	traceout_groups(b, left);
	if (s->view->rule != VIEW_EXACT)
		return xasprintf("Numbers as HTA 0.6.1 makes them: %s rows, %s left out%s%s.", a, b,
				 dropped ? "; the last step and what it launched are dropped "
					   "(--include-last keeps them)"
					 : "",
				 rounded ? "; begins up and ends down to whole us" : "");
	return xasprintf("Exact nanoseconds%s%s%s.", tracecmd_opt.steps || cut ? "" : ", all steps",
			 left ? "; rows left out (broken, or marks of the recording itself): "
			      : ", every row with a duration",
			 left ? b : "");
}

void tracehead_print(const struct tracecmd_set *s, const struct term *term, FILE *to)
{
	char *text = tracehead_inputs(s), *more;

	if (s->n == 1)
		tracehead_file(s, term, to);
	else
		tracehead_files(s, term, to);
	if (text && tracecmd_opt.steps) {
		more = xasprintf("%s Only what begins in steps %s.", text, tracecmd_opt.steps);
		free(text);
		text = more;
	}
	if (text)
		traceout_wrap(term, to, 0, 0, text);
	free(text);
}
