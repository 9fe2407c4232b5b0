/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_flame.c - `lapse trace stacks`: time by stack as a table, flame graph (SVG), folded
 * text, or speedscope file. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/stacks.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/outfile.h"
#include "cli/progress.h"
#include "cli/tracegaps.h"
#include "cli/traceparts.h"

#define TRACE_FLAME_MAX (1u << 30) /* bytes of a picture or file */

static const char *trace_flame_to, *trace_flame_file;
static bool trace_flame_device, trace_flame_no_python, trace_flame_no_threads, trace_flame_full;

const struct opt *trace_stacks_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_STEPS,
		{.name = "to",
		 .type = OPT_STR,
		 .value = "FORMAT",
		 .to = &trace_flame_to,
		 .help = "svg (a flame graph), folded, speedscope, or table (default: by the end "
			 "of "
			 "FILE: .svg, .folded, .txt, .json; else table)"},
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &trace_flame_file,
		 .help = "write into FILE instead of standard output"},
		{.name = "device",
		 .type = OPT_FLAG,
		 .to = &trace_flame_device,
		 .help = "time of the devices, below the stacks that launched the work (default: "
			 "of the host)"},
		{.name = "no-python",
		 .type = OPT_FLAG,
		 .to = &trace_flame_no_python,
		 .help = "leave Python frames out"},
		{.name = "no-threads",
		 .type = OPT_FLAG,
		 .to = &trace_flame_no_threads,
		 .help = "all threads together"},
		{.name = "full-names",
		 .type = OPT_FLAG,
		 .to = &trace_flame_full,
		 .help = "names of kernels with their template arguments"},
		{0},
	};

	return rows;
}

enum trace_flame_form {
	TRACE_FLAME_TABLE,
	TRACE_FLAME_SVG,
	TRACE_FLAME_FOLDED,
	TRACE_FLAME_SPEEDSCOPE
};

static const struct {
	const char *name, *end;
	enum trace_flame_form form;
} trace_flame_forms[] = {
	{"table", NULL, TRACE_FLAME_TABLE},
	{"svg", ".svg", TRACE_FLAME_SVG},
	{"folded", ".folded", TRACE_FLAME_FOLDED},
	{"folded", ".txt", TRACE_FLAME_FOLDED},
	{"speedscope", ".json", TRACE_FLAME_SPEEDSCOPE},
};

/* -1: no such form. */
static int trace_flame_form(void)
{
	const char *file = trace_flame_file ? trace_flame_file : "", *end;
	size_t i;

	for (i = 0; i < ARRAY_LEN(trace_flame_forms); i++) {
		end = trace_flame_forms[i].end;
		if (trace_flame_to ? strcmp(trace_flame_to, trace_flame_forms[i].name) == 0
				   : end && text_ends(file, end))
			return (int)trace_flame_forms[i].form;
	}
	return trace_flame_to ? -1 : TRACE_FLAME_TABLE;
}

/* ---- the table: frames, all their places together -------------------------------------------- */

static const struct sheet_column trace_flame_columns[] = {
	TRACEOUT_FILE,
	{"self_ns", "SELF", SHEET_NS, 0},
	{"self_pct", "", SHEET_PERCENT, 0},
	{"total_ns", "TOTAL", SHEET_NS, 0},
	{"total_pct", "", SHEET_PERCENT, 0},
	{"count", "COUNT", SHEET_COUNT, 0},
	{"kind", "KIND", SHEET_TEXT, 0},
	{"frame", "FRAME", SHEET_TEXT, TABLE_ELIDE},
};

struct trace_flame_sum {
	uint32_t frame;
	uint8_t kind;
	uint64_t count;
	int64_t self, total;
};

static int trace_flame_by_self(const void *a, const void *b)
{
	const struct trace_flame_sum *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Is the frame of node n among its callers too? Then its time counts there. */
static bool trace_flame_recurses(const struct stacks_result *r, size_t n)
{
	int32_t p = r->nodes[n].parent;
	int deep = 0;

	for (; p >= 0 && deep < 1000; p = r->nodes[p].parent, deep++)
		if (r->nodes[p].frame == r->nodes[n].frame)
			return true;
	return false;
}

static void trace_flame_table(const struct tracecmd_set *s, const struct stacks_result *r,
			      struct sheet *sheet)
{
	struct trace_flame_sum *sums = xcalloc(r->n_frames, sizeof(*sums));
	double all = r->n && r->nodes[0].total > 0 ? (double)r->nodes[0].total : 1;
	char *text;
	size_t i;

	for (i = 0; i < r->n_frames; i++)
		sums[i].frame = (uint32_t)i;
	for (i = 0; i < r->n; i++) {
		struct trace_flame_sum *m = &sums[r->nodes[i].frame];

		m->kind = r->nodes[i].kind;
		m->count += r->nodes[i].count;
		m->self += r->nodes[i].self;
		if (!trace_flame_recurses(r, i))
			m->total += r->nodes[i].total;
	}
	qsort(sums, r->n_frames, sizeof(*sums), trace_flame_by_self);
	for (i = 0; i < r->n_frames; i++) {
		if (sums[i].kind == STACKS_ROOT || sums[i].kind == STACKS_THREAD)
			continue;
		traceout_file(sheet, s, 0);
		sheet_int(sheet, sums[i].self);
		sheet_double(sheet, 100 * (double)sums[i].self / all);
		sheet_int(sheet, sums[i].total);
		sheet_double(sheet, 100 * (double)sums[i].total / all);
		sheet_int(sheet, (int64_t)sums[i].count);
		sheet_text(sheet, stacks_kind_names[sums[i].kind]);
		text = xstrndup(r->frames[sums[i].frame].text, r->frames[sums[i].frame].len);
		sheet_text(sheet, text);
		free(text);
	}
	free(sums);
}

/* ---- files
 * ---------------------------------------------------------------------------------------- */

static void trace_flame_write(const struct tracecmd_set *s, const struct stacks_result *r,
			      enum trace_flame_form form, struct buf *out)
{
	const char *name = tracecmd_name(trace_path(s->trace[0]));
	char a[FMT_MAX];
	char *title = xasprintf("%s: time of the %s", name,
				trace_flame_device ? "devices, by launch" : "host"),
	     *more = xasprintf("%s in %llu rows", fmt_seconds(a, (double)r->nodes[0].total / 1e9),
			       (unsigned long long)r->rows);

	if (form == TRACE_FLAME_SVG) {
		struct stacks_svg svg = {.title = title, .subtitle = more};

		stacks_draw(r, &svg, out);
	} else if (form == TRACE_FLAME_FOLDED) {
		stacks_folded(r, out);
	} else {
		stacks_speedscope(r, title, out);
	}
	free(title);
	free(more);
}

static int trace_flame_file_out(const struct tracecmd_set *s, const struct stacks_result *r,
				enum trace_flame_form form)
{
	struct outfile f = {0};
	struct err e = {0};
	struct buf out;
	int err;

	buf_init(&out, TRACE_FLAME_MAX);
	trace_flame_write(s, r, form, &out);
	progress_end();
	tracecmd_signals_default();
	traceparts_warn(s);
	err = out.error ? err_set(&e, out.error, "the file would be larger than 1 GiB") : 0;
	if (!err)
		err = outfile_open(&f, trace_flame_file, &e);
	if (!err) {
		err = outfile_write(&f, out.data, out.len, &e);
		if (outfile_close(&f, !err, &e))
			err = e.code;
	}
	buf_done(&out);
	return err ? tracecmd_fail(s, err, &e) : 0;
}

static int trace_flame_print(struct tracecmd_set *s, const struct stacks_result *r)
{
	struct traceout *o = traceout_begin(s);
	struct sheet *sheet =
		sheet_new("stacks", trace_flame_device ? "Time of the devices" : "Time of the host",
			  trace_flame_columns, ARRAY_LEN(trace_flame_columns));

	traceout_sheet(o, sheet);
	trace_flame_table(s, r, sheet);
	if (trace_flame_device && r->unlaunched)
		traceout_say(o, "unlaunched",
			     "%llu pieces of work have no launch in the trace; they stand by "
			     "themselves.",
			     (unsigned long long)r->unlaunched);
	if (r->cut)
		traceout_say(o, "cut",
			     "%llu calls ran past the end of their caller and are cut there.",
			     (unsigned long long)r->cut);
	if (!tracecmd_opt.json && !tracecmd_opt.csv)
		traceout_say(
			o, "hint",
			"--output FILE.svg draws a flame graph; .folded and .json (speedscope) "
			"are written too.");
	tracegaps_say(o, s,
		      (trace_flame_no_python ? 0 : TRACEGAPS_STACKS) |
			      (trace_flame_device ? TRACEGAPS_GPU : TRACEGAPS_HOST));
	tracecmd_opt.output = trace_flame_file;
	return traceout_end(o);
}

static int trace_flame_run(const struct tracecmd_wish *wish, int argc, char **argv)
{
	struct stacks_options opt = {
		.of = trace_flame_device ? STACKS_DEVICE : STACKS_HOST,
		.no_python = trace_flame_no_python,
		.no_threads = trace_flame_no_threads,
		.shorten = !trace_flame_full,
	};
	struct stacks_result *r = NULL;
	struct tracecmd_set s;
	int form = trace_flame_form(), status, err;

	if (tracecmd_opt.json || tracecmd_opt.csv)
		form = TRACE_FLAME_TABLE;
	if (form < 0) {
		fprintf(stderr,
			"lapse %s: --to: \"%s\" is none of svg, folded, speedscope, table\n",
			wish->command, trace_flame_to);
		return 2;
	}
	status = tracecmd_load(wish, argc, argv, &s);
	if (!status) {
		err = stacks_new(&s.view[0], &opt, &r);
		if (err)
			status = tracecmd_fail(&s, err, NULL);
		else if (form == TRACE_FLAME_TABLE)
			status = trace_flame_print(&s, r);
		else
			status = trace_flame_file_out(&s, r, (enum trace_flame_form)form);
		stacks_free(r);
	}
	tracecmd_done(&s);
	return status;
}

int trace_stacks(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace stacks",
						  .views = TRACECMD_ALL_ROWS,
						  .texts = true,
						  .least = 1,
						  .most = 1};

	return trace_flame_run(&wish, argc, argv);
}

int trace_stacks_as(const char *command, const char *to, const char *file, int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = command,
				     .views = TRACECMD_ALL_ROWS,
				     .texts = true,
				     .least = 1,
				     .most = 1};

	trace_flame_to = to;
	trace_flame_file = file;
	return trace_flame_run(&wish, argc, argv);
}
