/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_kernels.c - `lapse trace kernels` and `annotations`: durations by kind and by
 * name. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/annotated.h"
#include "analyse/annotations.h"
#include "analyse/kernels.h"
#include "base/mem.h"
#include "cli/tracegaps.h"

#define TRACE_KERNELS_ROW 30 /* bytes of a row, beside those of the view */

static int64_t trace_kernels_names;
static bool trace_annotations_host;

#define TRACE_KERNELS_NAMES(by_default)                                                            \
	{                                                                                          \
		.name = "names", .type = OPT_INT, .value = "N", .to = &trace_kernels_names,        \
		.help = "with --hta: so many names of each kind and rank, the others together "    \
			"(default: " by_default ")"                                                \
	}

const struct opt *trace_kernels_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS, TRACECMD_OUTPUT,           TRACECMD_STEPS,
		TRACECMD_HTA,     TRACE_KERNELS_NAMES("10"), {0}};

	return rows;
}

const struct opt *trace_annotations_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		TRACE_KERNELS_NAMES("1000"),
		{.name = "host",
		 .type = OPT_FLAG,
		 .to = &trace_annotations_host,
		 .help = "times on the host, not as the device saw them"},
		{0},
	};

	return rows;
}

/* Exact: all names as they are. */
static struct aggregate_options trace_kernels_aggregate(size_t by_default)
{
	struct aggregate_options o = {0};

	if (tracecmd_opt.hta) {
		o.most_names = trace_kernels_names ? (size_t)trace_kernels_names : by_default;
		o.quantile = KERNELS_QUANTILE;
	}
	return o;
}

static const struct sheet_column trace_kernels_types[] = {
	{"type", "RUNNING", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
};

static const struct sheet_column trace_kernels_columns[] = {
	TRACEOUT_FILE,
	{"type", "TYPE", SHEET_TEXT, 0},
	{"sum_ns", "TOTAL", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"mean_us", "MEAN", SHEET_US, 0},
	{"std_us", "", SHEET_US, SHEET_DATA},
	{"min_ns", "MIN", SHEET_NS, TABLE_DROP},
	{"max_ns", "MAX", SHEET_NS, TABLE_DROP},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const char *const trace_kernels_class[VIEW_CLASSES] = {
	[VIEW_COMPUTATION] = "computation",
	[VIEW_COMMUNICATION] = "communication",
	[VIEW_MEMORY] = "memory",
	[VIEW_OTHER] = "other",
};

static int trace_kernels_by_sum(const void *a, const void *b)
{
	const struct aggregate_row *x = a, *y = b;
	int order;

	if (x->sum != y->sum)
		return (x->sum < y->sum) - (x->sum > y->sum);
	if (x->view != y->view)
		return (x->view > y->view) - (x->view < y->view);
	order = strcmp(x->name, y->name);
	return order ? order : (int)x->class - (int)y->class;
}

static void trace_kernels_rows(const struct tracecmd_set *s, struct sheet *sheet,
			       struct aggregate *a, bool with_class)
{
	int64_t sum = 0;
	size_t i;

	if (a->n)
		qsort(a->rows, a->n, sizeof(*a->rows), trace_kernels_by_sum);
	for (i = 0; i < a->n; i++)
		sum += a->rows[i].sum;
	for (i = 0; i < a->n; i++) {
		const struct aggregate_row *r = &a->rows[i];

		traceout_file(sheet, s, r->view);
		if (with_class)
			sheet_text(sheet, trace_kernels_class[r->class]);
		sheet_int(sheet, r->sum);
		trace_number(sheet, sum ? 100 * (double)r->sum / (double)sum : 0);
		sheet_int(sheet, (int64_t)r->calls);
		sheet_double(sheet, r->mean_us);
		sheet_double(sheet, r->std_us);
		sheet_int(sheet, r->min);
		sheet_int(sheet, r->max);
		sheet_text(sheet, r->name);
	}
}

int trace_kernels_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct aggregate_options opt = trace_kernels_aggregate(KERNELS_MOST);
	struct sheet *types = sheet_new("types", "Kinds of work", trace_kernels_types,
					ARRAY_LEN(trace_kernels_types)),
		     *names = sheet_new("kernels", "Kernels", trace_kernels_columns,
					ARRAY_LEN(trace_kernels_columns));
	struct kernels k;
	size_t i;
	int err = kernels_new(s->view, s->n, &opt, &k);

	traceout_sheet(o, types);
	traceout_sheet(o, names);
	if (err)
		return err;
	for (i = 0; i < k.n_types; i++) {
		sheet_text(types, kernels_type_name(k.types[i].classes));
		sheet_int(types, k.types[i].time);
		sheet_double(types, k.types[i].pct);
	}
	trace_kernels_rows(s, names, &k.names, true);
	kernels_done(&k);
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_kernels(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace kernels",
						  .views = TRACECMD_DEVICE_ROWS,
						  .need = {.row_more = TRACE_KERNELS_ROW}};

	return trace_run(&wish, trace_kernels_fill, argc, argv);
}

/* ---- annotations ------------------------------------------------------------------------------
 */

static const struct sheet_column trace_annotations_columns[] = {
	TRACEOUT_FILE,
	{"sum_ns", "TOTAL", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"mean_us", "MEAN", SHEET_US, 0},
	{"std_us", "STD", SHEET_US, TABLE_DROP},
	{"min_ns", "MIN", SHEET_NS, TABLE_DROP},
	{"max_ns", "MAX", SHEET_NS, TABLE_DROP},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_annotations_work[] = {
	TRACEOUT_FILE,
	{"time_ns", "TIME", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"kernels", "KERNELS", SHEET_COUNT, 0},
	{"annotation", "ANNOTATION", SHEET_TEXT, TABLE_ELIDE},
};

/* Each piece of work under the innermost annotation of the device around it. */
static int trace_annotations_inner(struct tracecmd_set *s, struct sheet *sheet)
{
	struct annotated a;
	size_t i, k;
	int64_t all;
	int err;

	for (i = 0; i < s->n; i++) {
		err = annotated_new(&s->view[i], &a);
		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		for (all = 0, k = 0; k < a.n; k++)
			all += a.rows[k].time;
		for (k = 0; k < a.n; k++) {
			traceout_file(sheet, s, i);
			sheet_int(sheet, a.rows[k].time);
			trace_number(sheet, all ? 100 * (double)a.rows[k].time / (double)all : 0);
			sheet_int(sheet, (int64_t)a.rows[k].kernels);
			trace_text_cell(sheet, s->trace[i], a.rows[k].name);
		}
		annotated_done(&a);
	}
	return 0;
}

static void trace_annotations_none(struct traceout *o)
{
	if (trace_annotations_host)
		traceout_missing(o, "no-annotations",
				 "No annotations: mark parts of the program with "
				 "torch.profiler.record_function(\"name\").");
	else
		traceout_missing(o, "no-annotations",
				 "No annotations of the device (gpu_user_annotation; AMD and old "
				 "PyTorch write none): --host shows those of the host.");
}

int trace_annotations_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct aggregate_options opt = trace_kernels_aggregate(ANNOTATIONS_MOST);
	struct sheet *sheet = sheet_new("annotations",
					trace_annotations_host ? "Annotations, time on the host"
							       : "Annotations, time on the device",
					trace_annotations_columns,
					ARRAY_LEN(trace_annotations_columns)),
		     *work = sheet_new("work", "Work by the innermost annotation around it",
				       trace_annotations_work, ARRAY_LEN(trace_annotations_work));
	struct aggregate a = {0};
	int err = annotations_new(s->view, s->n, !trace_annotations_host, &opt, &a);

	traceout_sheet(o, sheet);
	traceout_sheet(o, work);
	if (err && err != -ENODATA)
		return err;
	if (!a.n)
		trace_annotations_none(o);
	else
		traceout_say(o, "definition",
			     "Annotations lie within each other: shares are of the sum of all, not "
			     "of the time that passed.");
	trace_kernels_rows(s, sheet, &a, false);
	aggregate_done(&a);
	return trace_annotations_inner(s, work);
}

int trace_annotations(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace annotations",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_annotations_fill, argc, argv);
}
