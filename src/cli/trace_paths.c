/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_paths.c - `lapse trace critical-path` and `sequences`: the chain of work that
 * bounds a step, and the kernels that operators launch again and again. Definitions are in
 * docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/critical.h"
#include "analyse/sequences.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/progress.h"
#include "cli/tracegaps.h"

/* ---- critical-path --------------------------------------------------------------------------- */

static const char *trace_critical_annotation, *trace_critical_instance;
static const char *trace_critical_loading[16];
static size_t trace_critical_n_loading;
static bool trace_critical_path;

static int trace_critical_add(const char *arg, void *to)
{
	(void)to;
	if (trace_critical_n_loading == ARRAY_LEN(trace_critical_loading)) {
		fputs("lapse trace critical-path: at most 16 --data-loading\n", stderr);
		return -EINVAL;
	}
	trace_critical_loading[trace_critical_n_loading++] = arg;
	return 0;
}

const struct opt *trace_critical_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_HTA,
		{.name = "annotation",
		 .type = OPT_STR,
		 .value = "TEXT",
		 .to = &trace_critical_annotation,
		 .help = "the window is the annotation whose name contains TEXT; \"\": the whole "
			 "trace (default: ProfilerStep, else the whole trace)"},
		{.name = "instance",
		 .type = OPT_STR,
		 .value = "N[:M]",
		 .to = &trace_critical_instance,
		 .help = "which of them, from 0, in the order of the file; N:M: from N to M "
			 "(default: the second one where there are several)"},
		{.name = "data-loading",
		 .type = OPT_CALL,
		 .value = "TEXT",
		 .call = trace_critical_add,
		 .help = "names that contain TEXT are data loading; may be repeated"},
		{.name = "path",
		 .type = OPT_FLAG,
		 .to = &trace_critical_path,
		 .help = "list each link of the path too"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_critical_bounds[] = {
	TRACEOUT_FILE,
	{"bound", "BOUND BY", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"links", "LINKS", SHEET_COUNT, 0},
};

static const struct sheet_column trace_critical_hot[] = {
	TRACEOUT_FILE,
	{"time_ns", "TIME", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"links", "LINKS", SHEET_COUNT, 0},
	{"bound", "BOUND BY", SHEET_TEXT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_critical_links[] = {
	TRACEOUT_FILE,
	{"type", "LINK", SHEET_TEXT, 0},
	{"bound", "BOUND BY", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"from_ns", "", SHEET_NS, SHEET_DATA},
	{"to_ns", "", SHEET_NS, SHEET_DATA},
	{"from", "FROM", SHEET_TEXT, TABLE_ELIDE},
	{"to", "TO", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_critical_windows[] = {
	TRACEOUT_FILE,
	{"window", "WINDOW", SHEET_TEXT, TABLE_ELIDE},
	{"from_ns", "", SHEET_NS, SHEET_DATA},
	{"to_ns", "", SHEET_NS, SHEET_DATA},
	{"window_ns", "LASTS", SHEET_NS, 0},
	{"path_ns", "PATH", SHEET_NS, 0},
	{"nodes", "NODES", SHEET_COUNT, TABLE_DROP},
	{"links", "LINKS", SHEET_COUNT, TABLE_DROP},
	{"path_nodes", "ON PATH", SHEET_COUNT, 0},
	{"sync_rows", "", SHEET_COUNT, SHEET_DATA},
	{"inferred", "", SHEET_COUNT, SHEET_DATA},
	{"cut", "", SHEET_COUNT, SHEET_DATA},
};

struct trace_critical_sheets {
	struct sheet *windows, *bounds, *hot, *links;
};

static int trace_critical_instances(struct critical_options *c)
{
	char *head, *colon;
	int64_t from = 0, to;
	int err;

	if (!trace_critical_instance)
		return 0;
	head = xstrdup(trace_critical_instance);
	colon = strchr(head, ':');
	if (colon)
		*colon = '\0';
	err = number_int(head, &from);
	to = from;
	if (!err && colon)
		err = number_int(colon + 1, &to);
	free(head);
	if (err || from < 0 || to < from || to > INT32_MAX) {
		fprintf(stderr,
			"lapse trace critical-path: --instance: \"%s\" is not N or N:M, from 0\n",
			trace_critical_instance);
		return 2;
	}
	c->first = (uint32_t)from;
	c->last = (uint32_t)to;
	return 0;
}

static void trace_critical_fill_path(const struct tracecmd_set *s, size_t i,
				     const struct critical_result *c, struct sheet *sheet)
{
	const struct view *v = &s->view[i];
	size_t k;

	for (k = 0; sheet && k < c->n_path; k++) {
		const struct critical_link *l = &c->path[k];
		const struct view_row *a = &v->rows[l->from], *b = &v->rows[l->to];

		traceout_file(sheet, s, i);
		sheet_text(sheet, critical_edge_names[l->type]);
		sheet_text(sheet, critical_bound_names[l->bound]);
		sheet_int(sheet, l->ns);
		sheet_int(sheet, l->from_start ? a->ts : a->end);
		sheet_int(sheet, l->to_start ? b->ts : b->end);
		trace_text_cell(sheet, v->trace, a->name);
		trace_text_cell(sheet, v->trace, b->name);
	}
}

static void trace_critical_fill_result(const struct tracecmd_set *s, size_t i,
				       const struct critical_result *c, const char *window,
				       const struct trace_critical_sheets *to)
{
	double all = c->ns > 0 ? (double)c->ns : 1;
	size_t k;

	traceout_file(to->windows, s, i);
	sheet_text(to->windows, window);
	sheet_int(to->windows, c->from);
	sheet_int(to->windows, c->to);
	sheet_int(to->windows, c->to - c->from);
	sheet_int(to->windows, c->ns);
	sheet_int(to->windows, (int64_t)c->nodes);
	sheet_int(to->windows, (int64_t)c->links);
	sheet_int(to->windows, (int64_t)c->path_nodes);
	sheet_int(to->windows, (int64_t)c->sync_rows);
	sheet_int(to->windows, (int64_t)c->inferred);
	sheet_int(to->windows, (int64_t)c->cut);
	for (k = CRITICAL_CPU; k < CRITICAL_BOUNDS; k++) {
		traceout_file(to->bounds, s, i);
		sheet_text(to->bounds, critical_bound_names[k]);
		sheet_int(to->bounds, c->share[k].ns);
		sheet_double(to->bounds, 100 * (double)c->share[k].ns / all);
		sheet_int(to->bounds, (int64_t)c->share[k].links);
	}
	for (k = 0; k < c->n_hot; k++) {
		traceout_file(to->hot, s, i);
		sheet_int(to->hot, c->hot[k].ns);
		sheet_double(to->hot, 100 * (double)c->hot[k].ns / all);
		sheet_int(to->hot, (int64_t)c->hot[k].links);
		sheet_text(to->hot, critical_bound_names[c->hot[k].bound]);
		trace_text_cell(to->hot, s->trace[i], c->hot[k].name);
	}
	trace_critical_fill_path(s, i, c, to->links);
}

/* The window: as asked for, else the second step, a step, the whole trace. */
static int trace_critical_of(struct tracecmd_set *s, size_t i, struct critical_result **ret,
			     const char **ret_window)
{
	struct critical_options c = {.annotation = trace_critical_annotation,
				     .data_loading = trace_critical_loading,
				     .n_data_loading = trace_critical_n_loading};
	struct view *v = &s->view[i];
	struct err e = {0};
	int err = trace_critical_instances(&c);

	if (err)
		return err;
	if (!c.annotation)
		c.annotation = v->n_steps ? "ProfilerStep" : "";
	if (!trace_critical_instance && v->n_steps > 1 && !trace_critical_annotation)
		c.first = c.last = 1;
	*ret_window = *c.annotation ? c.annotation : "all";
	err = critical_new(v, &c, ret, &e);
	if (err == -ENOENT) {
		tracecmd_fail(s, err, &e);
		return 1;
	}
	return err;
}

static int trace_critical_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct trace_critical_sheets to = {
		.windows = sheet_new("windows", "Critical path", trace_critical_windows,
				     ARRAY_LEN(trace_critical_windows)),
		.bounds = sheet_new("bounds", "What it is bound by", trace_critical_bounds,
				    ARRAY_LEN(trace_critical_bounds)),
		.hot = sheet_new("hot", "Names on the path", trace_critical_hot,
				 ARRAY_LEN(trace_critical_hot)),
	};
	struct critical_result *c;
	const char *window;
	uint64_t inferred = 0;
	size_t i;
	int err;

	traceout_sheet(o, to.windows);
	traceout_sheet(o, to.bounds);
	traceout_sheet(o, to.hot);
	if (trace_critical_path) {
		to.links = sheet_new("path", "The path", trace_critical_links,
				     ARRAY_LEN(trace_critical_links));
		traceout_sheet(o, to.links);
	}
	for (i = 0; i < s->n; i++) {
		err = trace_critical_of(s, i, &c, &window);
		if (err)
			return err;
		if (c->ok)
			trace_critical_fill_result(s, i, c, window, &to);
		else
			traceout_say(o, "no-path", "%s: no path: %s", tracecmd_label(s, i), c->why);
		inferred += c->inferred;
		critical_free(c);
	}
	if (inferred)
		traceout_say(
			o, "inferred",
			"The trace has no cuda_sync rows: %llu waits were taken from calls that "
			"block. Record with enable_cuda_sync_events=True "
			"(torch.profiler._ExperimentalConfig) to have what each waited for.",
			(unsigned long long)inferred);
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_STEPS);
	return 0;
}

int trace_critical(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace critical-path", .views = TRACECMD_ALL_ROWS};
	struct critical_options c = {0};

	if (trace_critical_instances(&c))
		return 2;
	if (trace_critical_path)
		wish.need.row_more = trace_list_bytes(ARRAY_LEN(trace_critical_links));
	return trace_run(&wish, trace_critical_fill, argc, argv);
}

/* ---- sequences ---------------------------------------------------------------------------------
 */

static const char *trace_sequences_operator = "aten::";
static int64_t trace_sequences_least = 3;

const struct opt *trace_sequences_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{.name = "operator",
		 .type = OPT_STR,
		 .value = "TEXT",
		 .to = &trace_sequences_operator,
		 .help = "operators whose name contains TEXT (default: aten::)"},
		{.name = "least",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &trace_sequences_least,
		 .lo = 1,
		 .hi = 1000000,
		 .help = "at least so many kernels (default: 3)"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_sequences_columns[] = {
	TRACEOUT_FILE,
	{"count", "COUNT", SHEET_COUNT, 0},
	{"kernels", "KERNELS", SHEET_COUNT, 0},
	{"kernel_ns", "ON GPU", SHEET_NS, 0},
	{"operator_ns", "IN OPERATOR", SHEET_NS, 0},
	{"operator", "OPERATOR", SHEET_TEXT, TABLE_ELIDE},
	{"sequence", "SEQUENCE", SHEET_TEXT, TABLE_CUT},
};

static int trace_sequences_one(struct tracecmd_set *s, size_t i, struct sheet *sheet, uint64_t *few)
{
	struct sequences_options opt = {trace_sequences_operator, (uint32_t)trace_sequences_least};
	struct view *v = &s->view[i];
	struct sequences_result *r;
	char *text;
	size_t k;
	int err = sequences_new(v, &opt, &r);

	if (err)
		return err;
	for (k = 0; k < r->n; k++) {
		traceout_file(sheet, s, i);
		sheet_int(sheet, (int64_t)r->items[k].count);
		sheet_int(sheet, (int64_t)r->items[k].n);
		sheet_int(sheet, r->items[k].kernel_ns);
		sheet_int(sheet, r->items[k].operator_ns);
		trace_text_cell(sheet, v->trace, r->items[k].name);
		text = sequences_text(v, &r->items[k]);
		sheet_text(sheet, text);
		free(text);
	}
	*few += r->short_ones;
	sequences_free(r);
	return 0;
}

static int trace_sequences_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet =
		sheet_new("sequences", "Sequences of kernels", trace_sequences_columns,
			  ARRAY_LEN(trace_sequences_columns));
	uint64_t few = 0;
	size_t i;
	int err = 0;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n && !err; i++)
		err = trace_sequences_one(s, i, sheet, &few);
	if (err)
		return err;
	if (sheet_rows(sheet) == 0)
		traceout_missing(o, "no-sequences",
				 "No operator whose name contains \"%s\" launches %lld kernels or "
				 "more.",
				 trace_sequences_operator, (long long)trace_sequences_least);
	else if (few)
		traceout_say(o, "short",
			     "%llu calls launch fewer than %lld kernels and are not shown.",
			     (unsigned long long)few, (long long)trace_sequences_least);
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_HOST);
	return 0;
}

int trace_sequences(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace sequences",
						  .views = TRACECMD_ALL_ROWS};

	return trace_run(&wish, trace_sequences_fill, argc, argv);
}
