/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_kernels.c - `lapse trace kernels` and `annotations`: durations by kind and by
 * name. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <stdlib.h>

#include "analyse/annotations.h"
#include "analyse/kernels.h"
#include "base/mem.h"
#include "cli/tracegaps.h"

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
		TRACECMD_OPTIONS, TRACECMD_OUTPUT, TRACECMD_STEPS, TRACECMD_HTA, TRACE_KERNELS_NAMES("10"), {0}};

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
	{"rank", "RANK", SHEET_COUNT, 0},
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

	if (x->sum != y->sum)
		return (x->sum < y->sum) - (x->sum > y->sum);
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void trace_kernels_rows(struct sheet *sheet, struct aggregate *a, bool with_class)
{
	int64_t all = 0;
	size_t i;

	for (i = 0; i < a->n; i++)
		all += a->rows[i].sum;
	if (a->n)
		qsort(a->rows, a->n, sizeof(*a->rows), trace_kernels_by_sum);
	for (i = 0; i < a->n; i++) {
		const struct aggregate_row *r = &a->rows[i];

		if (r->rank >= 0)
			sheet_int(sheet, r->rank);
		else
			sheet_missing(sheet);
		if (with_class)
			sheet_text(sheet, trace_kernels_class[r->class]);
		sheet_int(sheet, r->sum);
		trace_number(sheet, all ? 100 * (double)r->sum / (double)all : 0);
		sheet_int(sheet, (int64_t)r->calls);
		sheet_double(sheet, r->mean_us);
		sheet_double(sheet, r->std_us);
		sheet_int(sheet, r->min);
		sheet_int(sheet, r->max);
		sheet_text(sheet, r->name);
	}
}

static int trace_kernels_fill(struct tracecmd_set *s, struct traceout *o)
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
	trace_kernels_rows(names, &k.names, true);
	kernels_done(&k);
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_kernels(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace kernels",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_kernels_fill, argc, argv);
}

/* ---- annotations ------------------------------------------------------------------------------ */

static const struct sheet_column trace_annotations_columns[] = {
	{"rank", "RANK", SHEET_COUNT, 0},
	{"sum_ns", "TOTAL", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"mean_us", "MEAN", SHEET_US, 0},
	{"std_us", "STD", SHEET_US, TABLE_DROP},
	{"min_ns", "MIN", SHEET_NS, TABLE_DROP},
	{"max_ns", "MAX", SHEET_NS, TABLE_DROP},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static int trace_annotations_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct aggregate_options opt = trace_kernels_aggregate(ANNOTATIONS_MOST);
	struct sheet *sheet = sheet_new("annotations",
					trace_annotations_host ? "Annotations, time on the host"
							       : "Annotations, time on the device",
					trace_annotations_columns,
					ARRAY_LEN(trace_annotations_columns));
	struct aggregate a;
	int err = annotations_new(s->view, s->n, !trace_annotations_host, &opt, &a);

	traceout_sheet(o, sheet);
	if (err == -ENODATA) {
		if (trace_annotations_host)
			traceout_missing(o, "no-annotations",
					 "No annotations: mark parts of the program with "
					 "torch.profiler.record_function(\"name\").");
		else
			traceout_missing(o, "no-annotations",
					 "No annotations of the device (gpu_user_annotation; AMD and "
					 "old PyTorch write none): --host shows those of the host.");
		return 0;
	}
	if (err)
		return err;
	trace_kernels_rows(sheet, &a, false);
	aggregate_done(&a);
	traceout_say(o, "definition",
		     "Annotations lie within each other: shares are of the sum of all, not of the "
		     "time that passed.");
	return 0;
}

int trace_annotations(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace annotations",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_annotations_fill, argc, argv);
}
