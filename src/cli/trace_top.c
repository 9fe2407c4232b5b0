/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_top.c - `lapse trace top`: operators and kernels by name, the numbers of
 * key_averages(). Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_top.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/keyavg.h"
#include "analyse/tbmodules.h"
#include "analyse/tbnames.h"
#include "base/mem.h"
#include "base/near.h"
#include "cli/progress.h"
#include "cli/trace_subs.h"
#include "cli/trace_tb.h"
#include "cli/tracegaps.h"
#include "cli/traceparts.h"

static const char *trace_top_sort, *trace_top_by;
static int64_t trace_top_depth;
static bool trace_top_annotations, trace_top_threads, trace_top_modules;

const struct opt *trace_top_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_PLUGIN,
		{.name = "sort",
		 .letter = 's',
		 .type = OPT_STR,
		 .value = "KEY",
		 .to = &trace_top_sort,
		 .help = "a key of key_averages().table(sort_by=...), old or new: "
			 "self_cuda_time_total, cpu_time_total, count, flops, ... (default: "
			 "self_device_time_total, without a device self_cpu_time_total)"},
		{.name = "by",
		 .type = OPT_STR,
		 .value = "WHAT,...",
		 .to = &trace_top_by,
		 .help = "a row for each shape, stack, or both (default: for each name)"},
		{.name = "stack-depth",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &trace_top_depth,
		 .lo = 1,
		 .hi = 1000,
		 .help = "with --by stack: so many frames (default: 5)"},
		{.name = "gpu-annotations",
		 .type = OPT_FLAG,
		 .to = &trace_top_annotations,
		 .help = "count the device's copies of annotations as work, as key_averages() "
			 "does"},
		{.name = "by-thread",
		 .type = OPT_FLAG,
		 .to = &trace_top_threads,
		 .help = "launches without operator, and memory, count on their own thread"},
		{.name = "modules",
		 .type = OPT_FLAG,
		 .to = &trace_top_modules,
		 .help = "nn.Modules as they call each other too; needs stacks"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_top_columns[] = {
	TRACEOUT_FILE,
	{"self_host_ns", "SELF CPU", SHEET_NS, 0},
	{"self_host_pct", "", SHEET_PERCENT, 0},
	{"host_ns", "CPU", SHEET_NS, 0},
	{"self_device_ns", "SELF GPU", SHEET_NS, 0},
	{"self_device_pct", "", SHEET_PERCENT, 0},
	{"device_ns", "GPU", SHEET_NS, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"self_cpu_memory_bytes", "SELF CPU MEM", SHEET_BYTES, 0},
	{"cpu_memory_bytes", "CPU MEM", SHEET_BYTES, 0},
	{"self_device_memory_bytes", "SELF GPU MEM", SHEET_BYTES, 0},
	{"device_memory_bytes", "GPU MEM", SHEET_BYTES, 0},
	{"flops", "", SHEET_NUMBER, SHEET_DATA},
	{"", "FLOP", SHEET_TEXT, SHEET_SEEN | TABLE_RIGHT},
	{"annotation", "", SHEET_BOOL, SHEET_DATA},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
	{"shapes", "SHAPES", SHEET_TEXT, TABLE_CUT},
	{"stack", "STACK", SHEET_TEXT, TABLE_CUT},
};

static const struct sheet_column trace_top_kernel_columns[] = {
	TRACEOUT_FILE,
	{"self_device_ns", "GPU", SHEET_NS, 0},
	{"self_device_pct", "", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"mean_ns", "MEAN", SHEET_NS, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

/* A number and its share; people see "-" for nothing at all. */
static void trace_top_time(struct sheet *sheet, int64_t ns, int64_t all)
{
	sheet_int(sheet, ns);
	trace_number(sheet, all > 0 ? 100 * (double)ns / (double)all : NAN);
}

static void trace_top_operator(const struct tracecmd_set *s, size_t i, const struct keyavg *k,
			       const struct keyavg_row *r, struct sheet *sheet)
{
	char flops[FMT_MAX];

	traceout_file(sheet, s, i);
	trace_top_time(sheet, r->self_host, k->self_host);
	sheet_int(sheet, r->host);
	trace_top_time(sheet, r->self_device, k->self_device);
	sheet_int(sheet, r->device);
	sheet_int(sheet, (int64_t)r->calls);
	sheet_int(sheet, r->self_cpu_memory);
	sheet_int(sheet, r->cpu_memory);
	sheet_int(sheet, r->self_device_memory);
	sheet_int(sheet, r->device_memory);
	sheet_double(sheet, r->flops);
	sheet_text(sheet, r->flops > 0 ? fmt_count(flops, r->flops) : NULL);
	sheet_int(sheet, r->is_annotation);
	sheet_text(sheet, r->name);
	trace_text_cell(sheet, s->trace[i], r->dims);
	sheet_text(sheet, r->stack);
}

static void trace_top_kernel(const struct tracecmd_set *s, size_t i, const struct keyavg *k,
			     const struct keyavg_row *r, struct sheet *sheet)
{
	traceout_file(sheet, s, i);
	trace_top_time(sheet, r->self_device, k->self_device);
	sheet_int(sheet, (int64_t)r->calls);
	sheet_int(sheet, r->calls ? r->self_device / (int64_t)r->calls : 0);
	sheet_text(sheet, r->name);
}

/* People see columns that say something. */
static void trace_top_hide(struct sheet *sheet, const struct keyavg *k, bool any_flops,
			   unsigned group)
{
	bool memory = trace_top_sort && strstr(trace_top_sort, "memory");
	size_t i;
	static const char *const memories[] = {"self_cpu_memory_bytes", "cpu_memory_bytes",
					       "self_device_memory_bytes", "device_memory_bytes"};
	static const char *const times[] = {"self_device_ns", "self_device_pct", "device_ns"};

	for (i = 0; i < ARRAY_LEN(memories) && !memory; i++)
		sheet_hide(sheet, memories[i]);
	for (i = 0; i < ARRAY_LEN(times) && (memory || k->self_device == 0); i++)
		sheet_hide(sheet, times[i]);
	if (!any_flops)
		sheet_hide(sheet, "");
	if (!(group & KEYAVG_SHAPE))
		sheet_hide(sheet, "shapes");
	if (!(group & KEYAVG_STACK))
		sheet_hide(sheet, "stack");
}

/* The window of --steps, by the marks of the trace. */
static int trace_top_window(const struct tbrows *b, struct keyavg_options *o)
{
	int64_t from, to, n;
	double first = INFINITY, last = -INFINITY;
	size_t i;

	if (tracecmd_steps("trace top", &from, &to))
		return 2;
	if (!tracecmd_opt.steps)
		return 0;
	for (i = 0; i < b->n; i++) {
		if (b->rows[i].type != TBROWS_STEP)
			continue;
		n = tbnames_step(trace_text(b->trace, b->rows[i].name, NULL));
		if (n < from || n >= to)
			continue;
		first = b->rows[i].ts < first ? b->rows[i].ts : first;
		last = b->rows[i].end > last ? b->rows[i].end : last;
	}
	if (last < first) {
		progress_end();
		fprintf(stderr, "lapse trace top: %s: there are no steps %s\n",
			trace_path(b->trace), tracecmd_opt.steps);
		return 2;
	}
	o->from = b->zero_ns + (int64_t)first;
	o->to = b->zero_ns + (int64_t)last;
	return 0;
}

int trace_top_options_of(struct keyavg_options *o)
{
	char *list = xstrdup(trace_top_by ? trace_top_by : "name"), *save = NULL, *word;
	int status = list[strspn(list, ", ")] ? 0 : 2;

	o->gpu_annotations = trace_top_annotations;
	o->by_thread = trace_top_threads;
	o->stack_depth = (unsigned)trace_top_depth;
	for (word = strtok_r(list, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
		if (strcmp(word, "shape") == 0 || strcmp(word, "shapes") == 0)
			o->group |= KEYAVG_SHAPE;
		else if (strcmp(word, "stack") == 0 || strcmp(word, "stacks") == 0)
			o->group |= KEYAVG_STACK;
		else if (strcmp(word, "name") != 0)
			status = 2;
	}
	free(list);
	if (status)
		fprintf(stderr,
			"lapse trace top: --by: \"%s\" is not a list of name, shape and stack\n",
			trace_top_by);
	return status;
}

static int trace_top_check_sort(void)
{
	struct near near = {0};
	size_t i;

	for (i = 0; trace_top_sort && keyavg_keys[i]; i++) {
		if (strcmp(trace_top_sort, keyavg_keys[i]) == 0)
			return 0;
		near_try(&near, trace_top_sort, keyavg_keys[i]);
	}
	if (!trace_top_sort)
		return 0;
	fprintf(stderr, "lapse trace top: --sort: there is no key \"%s\"", trace_top_sort);
	if (near.best) {
		fprintf(stderr, "; did you mean %s?\n", near.best);
		return 2;
	}
	fputs("; there are", stderr);
	for (i = 0; keyavg_keys[i]; i++)
		fprintf(stderr, "%s %s", i ? "," : "", keyavg_keys[i]);
	fputc('\n', stderr);
	return 2;
}

static int trace_top_at_once(struct tracecmd_set *s, size_t i, struct keyavg_options *opt,
			     struct keyavg **ret)
{
	struct tbrows *rows = NULL;
	int err = tbrows_new_part(s->trace[i], s->fit[i].from, s->fit[i].to, &rows);

	if (!err)
		err = trace_top_window(rows, opt);
	if (!err)
		err = keyavg_new(rows, opt, ret);
	tbrows_free(rows);
	return err;
}

/* All rows, but not at once. */
static int trace_top_windows(struct tracecmd_set *s, size_t i, const struct keyavg_options *opt,
			     struct keyavg **ret)
{
	const struct tracefit *f = &s->fit[i];
	struct keyavg_parts *p = keyavg_parts_new(opt);
	struct tbrows *rows;
	size_t k;
	int err = 0;

	for (k = 0; k < f->n_windows && !err; k++) {
		err = tbrows_new_window(s->trace[i], f->windows[k].from, f->windows[k].to, &rows);
		if (err)
			break;
		err = keyavg_parts_add(p, rows);
		tbrows_free(rows);
	}
	if (!err)
		keyavg_parts_end(p, ret);
	keyavg_parts_free(p);
	return err;
}

/* The part in the middle, where windows turned out not to do. */
static void trace_top_cut(struct tracecmd_set *s, size_t i, struct traceout *o)
{
	char *text;

	s->fit[i].is_cut = true;
	text = traceparts_text(s);
	traceout_say(o, "part", "%s", text);
	free(text);
	if (tracecmd_opt.csv || (tracecmd_opt.sheet && !tracecmd_opt.json))
		traceparts_warn(s);
}

static int trace_top_sums(struct tracecmd_set *s, size_t i, struct traceout *o,
			  struct keyavg_options *opt, struct keyavg **ret)
{
	int err;

	if (s->fit[i].n_windows) {
		err = trace_top_windows(s, i, opt, ret);
		if (err != -ENOTUNIQ)
			return err;
		trace_top_cut(s, i, o);
	}
	return trace_top_at_once(s, i, opt, ret);
}

static int trace_top_one(struct tracecmd_set *s, size_t i, struct traceout *o, struct sheet *ops,
			 struct sheet *kernels)
{
	struct keyavg_options opt = {0};
	struct keyavg *k = NULL;
	char a[FMT_MAX], b[FMT_MAX];
	bool flops = false;
	size_t n;
	int err = trace_top_options_of(&opt);

	if (!err)
		err = trace_top_sums(s, i, o, &opt, &k);
	if (!err) {
		keyavg_sort(k, trace_top_sort       ? trace_top_sort
			       : k->self_device > 0 ? "self_device_time_total"
						    : "self_cpu_time_total");
		for (n = 0; n < k->n; n++) {
			flops = flops || k->rows[n].flops > 0;
			if (k->rows[n].on_device)
				trace_top_kernel(s, i, k, &k->rows[n], kernels);
			else
				trace_top_operator(s, i, k, &k->rows[n], ops);
		}
		trace_top_hide(ops, k, flops, opt.group);
		traceout_say(o, "total", "%s%sSelf CPU time total %s, self GPU time total %s.",
			     s->n > 1 ? tracecmd_label(s, i) : "", s->n > 1 ? ": " : "",
			     fmt_seconds(a, (double)k->self_host / 1e9),
			     fmt_seconds(b, (double)k->self_device / 1e9));
		if (k->lost_kernels)
			traceout_say(o, "lost-kernels",
				     "%llu rows of the device belong to no operator here.",
				     (unsigned long long)k->lost_kernels);
		keyavg_free(k);
	}
	return err;
}

static int trace_top_add_modules(struct tracecmd_set *s, struct traceout *o);

static int trace_top_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *ops = sheet_new("operators", "Operators", trace_top_columns,
				      ARRAY_LEN(trace_top_columns)),
		     *kernels = sheet_new("kernels", "Kernels, copies and sets",
					  trace_top_kernel_columns,
					  ARRAY_LEN(trace_top_kernel_columns));
	unsigned gaps = TRACEGAPS_GPU;
	size_t i;
	int err = 0;

	traceout_sheet(o, ops);
	traceout_sheet(o, kernels);
	for (i = 0; i < s->n && !err; i++)
		err = trace_top_one(s, i, o, ops, kernels);
	if (!err && trace_top_modules)
		err = trace_top_add_modules(s, o);
	if (trace_top_by && strstr(trace_top_by, "shape"))
		gaps |= TRACEGAPS_SHAPES;
	if (trace_top_by && strstr(trace_top_by, "stack"))
		gaps |= TRACEGAPS_STACKS;
	if (!err)
		tracegaps_say(o, s, gaps);
	return err;
}

/* ---- modules
 * --------------------------------------------------------------------------------------- */

static const struct sheet_column trace_top_module_columns[] = {
	TRACEOUT_FILE,
	{"depth", "", SHEET_COUNT, SHEET_DATA},
	{"device_us", "GPU", SHEET_US, 0},
	{"self_device_us", "SELF GPU", SHEET_US, 0},
	{"host_us", "CPU", SHEET_US, 0},
	{"self_host_us", "SELF CPU", SHEET_US, 0},
	{"average_us", "", SHEET_US, SHEET_DATA},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"operators", "OPS", SHEET_COUNT, 0},
	{"id", "", SHEET_COUNT, SHEET_DATA},
	{"name", "", SHEET_TEXT, SHEET_DATA},
	{"", "MODULE", SHEET_TEXT, SHEET_SEEN | TABLE_ELIDE},
};

static void trace_top_module(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
			     const struct tbmodules_module *mod, struct sheet *sheet)
{
	const char *name = tbmodules_name(tb->tree, mod);
	char *shown = xasprintf("%*s%s", 2 * (int)mod->depth, "", name);

	traceout_file(sheet, s, i);
	sheet_int(sheet, mod->depth);
	sheet_double(sheet, trace_tb_us(tb, mod->device));
	sheet_double(sheet, trace_tb_us(tb, mod->self_device));
	sheet_double(sheet, trace_tb_us(tb, mod->host));
	sheet_double(sheet, trace_tb_us(tb, mod->self_host));
	sheet_double(sheet, trace_tb_us(tb, mod->average));
	sheet_int(sheet, (int64_t)mod->calls);
	sheet_int(sheet, (int64_t)mod->operators);
	sheet_int(sheet, mod->id);
	sheet_text(sheet, name);
	sheet_text(sheet, shown);
	free(shown);
}

static int trace_top_add_modules(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("modules", "Modules", trace_top_module_columns,
					ARRAY_LEN(trace_top_module_columns));
	struct tbmodules *mods = NULL;
	struct trace_tb tb;
	size_t i, k;
	int err = 0;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n && !err; i++) {
		err = trace_tb_new(s, i, &tb);
		if (err)
			break;
		err = tbmodules_new(tb.tree, &mods);
		for (k = 0; !err && k < mods->n; k++)
			trace_top_module(s, i, &tb, &mods->modules[k], sheet);
		if (!err)
			tbmodules_free(mods);
		trace_tb_done(&tb);
	}
	if (!err && sheet_rows(sheet) == 0)
		traceout_missing(
			o, "no-modules",
			"No nn.Modules: record with with_stack=True (and, for their names, "
			"with_modules=True).");
	return err;
}

int trace_top(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace top",
				     .texts = true,
				     .fits = TRACECMD_PARTS,
				     .need = {.work = TRACEFIT_TOP}};
	struct keyavg_options opt = {0};

	if (trace_top_check_sort() || trace_top_options_of(&opt))
		return 2;
	if (tracecmd_opt.plugin && (tracecmd_opt.steps || trace_top_sort)) {
		fputs("lapse trace top: --plugin goes with neither --steps nor --sort\n", stderr);
		return 2;
	}
	if (tracecmd_opt.plugin || trace_top_modules)
		wish.need.work = TRACEFIT_STEPS;
	/* Frames of Python run over all borders. */
	wish.by_windows = !trace_top_modules && !(opt.group & KEYAVG_STACK);
	return trace_run(&wish, tracecmd_opt.plugin ? trace_top_plugin : trace_top_fill, argc,
			 argv);
}
