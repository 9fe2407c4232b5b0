/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_write.c - `lapse trace convert` and `merge`: traces, or parts of them, as new files.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/ranks.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/traceparts.h"
#include "trace/merge.h"

static const char *trace_write_file, *trace_write_to;
static int64_t trace_write_begin = -1, trace_write_end = -1;
static bool trace_write_no_flows, trace_write_align;

#define TRACE_WRITE_OPTIONS                                                                        \
	TRACECMD_OPTIONS,                                                                          \
		{.name = "output",                                                                 \
		 .letter = 'o',                                                                    \
		 .type = OPT_STR,                                                                  \
		 .value = "FILE",                                                                  \
		 .to = &trace_write_file,                                                          \
		 .help = "the new file; .gz and .zst compress it, - is standard output"},          \
		TRACECMD_STEPS,                                                                    \
		{.name = "begin",                                                                  \
		 .type = OPT_DURATION,                                                             \
		 .value = "TIME",                                                                  \
		 .to = &trace_write_begin,                                                         \
		 .help = "only from TIME after the trace's begin on"},                             \
		{.name = "end",                                                                    \
		 .type = OPT_DURATION,                                                             \
		 .value = "TIME",                                                                  \
		 .to = &trace_write_end,                                                           \
		 .help = "only up to TIME after the trace's begin"},                               \
	{                                                                                          \
		.name = "no-flows", .type = OPT_FLAG, .to = &trace_write_no_flows,                 \
		.help = "without arrows from launches to their work"                               \
	}

const struct opt *trace_convert_options(void)
{
	static const struct opt rows[] = {
		TRACE_WRITE_OPTIONS,
		{.name = "to",
		 .type = OPT_STR,
		 .value = "FORMAT",
		 .to = &trace_write_to,
		 .help = "json, or what `lapse trace stacks` writes: svg, folded, speedscope "
			 "(default: json)"},
		{0},
	};

	return rows;
}

const struct opt *trace_merge_options(void)
{
	static const struct opt rows[] = {
		TRACE_WRITE_OPTIONS,
		{.name = "align",
		 .type = OPT_FLAG,
		 .to = &trace_write_align,
		 .help = "put the ranks' clocks right by their collectives first"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_write_columns[] = {
	{"output", "FILE", SHEET_TEXT, TABLE_ELIDE},
	{"bytes", "JSON", SHEET_BYTES, 0},
	{"rows", "ROWS", SHEET_COUNT, 0},
	{"left_out", "LEFT OUT", SHEET_COUNT, 0},
	{"flows", "ARROWS", SHEET_COUNT, 0},
	{"memories", "MEMORY EVENTS", SHEET_COUNT, 0},
	{"others", "OTHER EVENTS", SHEET_COUNT, 0},
	{"not_held", "NOT KEPT", SHEET_COUNT, 0},
	{"from_ns", "", SHEET_NS, SHEET_DATA},
	{"to_ns", "", SHEET_NS, SHEET_DATA},
};

static void trace_write_report(struct traceout *o, const struct convert_result *r)
{
	struct sheet *sheet =
		sheet_new("written", NULL, trace_write_columns, ARRAY_LEN(trace_write_columns));

	sheet_text(sheet, trace_write_file);
	sheet_int(sheet, (int64_t)r->bytes);
	sheet_int(sheet, (int64_t)r->rows);
	sheet_int(sheet, (int64_t)r->left_out);
	sheet_int(sheet, (int64_t)r->flows);
	sheet_int(sheet, (int64_t)r->memories);
	sheet_int(sheet, (int64_t)r->others);
	sheet_int(sheet, (int64_t)r->not_held);
	sheet_int(sheet, r->from);
	sheet_int(sheet, r->to);
	traceout_sheet_as(o, sheet);
	if (r->not_held)
		traceout_say(o, "not-held",
			     "%" PRIu64
			     " other events (counters, instants, arrows) could not be kept: a pipe "
			     "is read once, and a window needs times.",
			     r->not_held);
}

static int trace_write_check(const char *command)
{
	if (!trace_write_file) {
		fprintf(stderr, "lapse %s: --output FILE says where to (- is standard output)\n",
			command);
		return 2;
	}
	if (tracecmd_opt.steps && (trace_write_begin >= 0 || trace_write_end >= 0)) {
		fprintf(stderr, "lapse %s: --steps does not go with --begin and --end\n", command);
		return 2;
	}
	if (trace_write_begin >= 0 && trace_write_end >= 0 &&
	    trace_write_end <= trace_write_begin) {
		fprintf(stderr, "lapse %s: --end must be after --begin\n", command);
		return 2;
	}
	return 0;
}

/* The window, on the first trace's clock. */
static int trace_write_window(const struct tracecmd_set *s, struct convert_options *c)
{
	int64_t begin, end;

	if (tracecmd_steps(s->wish->command, &c->step_from, &c->step_to))
		return 2;
	c->without_flows = trace_write_no_flows;
	if (trace_write_begin < 0 && trace_write_end < 0)
		return 0;
	traceparts_span(s, &begin, &end);
	c->from = begin + (trace_write_begin < 0 ? 0 : trace_write_begin);
	c->to = trace_write_end < 0 ? end + 1 : begin + trace_write_end;
	return 0;
}

/* After writing: the report, unless the trace itself went to stdout. */
static int trace_write_finish(struct tracecmd_set *s, struct traceout *o, int err,
			      const struct err *e, const struct convert_result *r)
{
	tracecmd_writes(NULL);
	if (err) {
		traceout_drop(o);
		return tracecmd_fail(s, err, e);
	}
	if (strcmp(trace_write_file, "-") == 0) {
		traceout_drop(o);
		return s->status;
	}
	trace_write_report(o, r);
	return traceout_end(o);
}

int trace_convert(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace convert",
						  .texts = true,
						  .least = 1,
						  .most = 1},
					  timed = {.command = "trace convert",
						   .views = TRACECMD_DEVICE_ROWS,
						   .exact = true,
						   .texts = true,
						   .least = 1,
						   .most = 1};
	bool is_timed = trace_write_begin >= 0 || trace_write_end >= 0;
	struct convert_options c = {0};
	struct convert_result r = {0};
	struct tracecmd_set s;
	struct err e = {0};
	int status = trace_write_check("trace convert"), err;

	if (status)
		return status;
	if (trace_write_to && strcmp(trace_write_to, "json") != 0) {
		if (is_timed) {
			fputs("lapse trace convert: --begin and --end go with --to json only\n",
			      stderr);
			return 2;
		}
		return trace_stacks_as("trace convert", trace_write_to, trace_write_file, argc,
				       argv);
	}
	status = tracecmd_load(is_timed ? &timed : &wish, argc, argv, &s);
	if (!status)
		status = trace_write_window(&s, &c);
	/* All of it is written: a view that is cut only told where it begins. */
	if (s.fit)
		s.fit->is_cut = false;
	if (!status) {
		progress_phase("Writing", NULL, 0);
		tracecmd_writes(trace_write_file);
		err = convert_trace(s.trace[0], &c, trace_write_file, &r, &e);
		status = trace_write_finish(&s, traceout_begin(&s), err, &e, &r);
	}
	tracecmd_done(&s);
	return status;
}

/* ---- merge
 * ----------------------------------------------------------------------------------------- */

/* ns to add to each trace's times, by the collectives. */
static int trace_write_offsets(struct tracecmd_set *s, struct traceout *o, int64_t *offsets)
{
	struct ranks_result *r = NULL;
	struct ranks_set *set = NULL;
	struct err e = {0};
	char a[FMT_MAX];
	double worst = 0;
	size_t i, k, aligned = 0;
	int err = ranks_new(&set);

	for (i = 0; i < s->n && !err; i++)
		err = ranks_add(set, &s->view[i], &e);
	if (!err)
		err = ranks_result_new(set, &r);
	for (k = 0; !err && k < r->n; k++)
		for (i = 0; i < s->n; i++)
			if (trace_meta(s->trace[i])->rank == r->ranks[k].rank &&
			    r->ranks[k].clock.pairs) {
				offsets[i] = -llround(r->ranks[k].clock.offset);
				worst = fmax(worst, r->ranks[k].clock.residual);
				aligned++;
			}
	if (!err && aligned)
		traceout_say(o, "aligned",
			     "Clocks of %zu ranks were put right to that of rank %" PRId64
			     "; %s remain (median, the worst rank).",
			     aligned, r->reference, fmt_seconds(a, worst / 1e9));
	else if (!err)
		traceout_say(
			o, "not-aligned",
			"No collectives that the ranks have in common: clocks are as they were.");
	ranks_result_free(r);
	ranks_free(set);
	if (err) {
		tracecmd_fail(s, err, &e);
		return 1;
	}
	return 0;
}

static int trace_merge_run(struct tracecmd_set *s)
{
	int64_t *offsets = xcalloc(s->n, sizeof(*offsets));
	struct merge_options m = {.offsets = trace_write_align ? offsets : NULL};
	struct merge_result r = {0};
	struct err e = {0};
	struct traceout *o;
	size_t i;
	int status = trace_write_window(s, &m.cut), err;

	/* As above; only --align looks at collectives of the part. */
	for (i = 0; s->fit && i < s->n && !trace_write_align; i++)
		s->fit[i].is_cut = false;
	o = traceout_begin(s);
	if (!status && trace_write_align)
		status = trace_write_offsets(s, o, offsets);
	if (status) {
		traceout_drop(o);
	} else {
		progress_phase("Writing", NULL, 0);
		tracecmd_writes(trace_write_file);
		err = merge_traces(s->trace, s->n, &m, trace_write_file, &r, &e);
		if (!err && !r.is_one_clock)
			traceout_say(
				o, "clocks",
				"The traces do not say all where their clocks begin: ranks stand "
				"beside each other as their times are%s.",
				trace_write_align ? "" : "; --align puts them right");
		status = trace_write_finish(s, o, err, &e, &r.sum);
	}
	free(offsets);
	return status;
}

int trace_merge(int argc, char **argv)
{
	static const struct tracecmd_wish plain = {.command = "trace merge", .texts = true},
					  all = {.command = "trace merge",
						 .views = TRACECMD_ALL_ROWS,
						 .exact = true,
						 .texts = true};
	bool views = trace_write_align || trace_write_begin >= 0 || trace_write_end >= 0;
	struct tracecmd_set s;
	int status = trace_write_check("trace merge");

	if (status)
		return status;
	status = tracecmd_load(views ? &all : &plain, argc, argv, &s);
	if (!status)
		status = trace_merge_run(&s);
	tracecmd_done(&s);
	return status;
}
