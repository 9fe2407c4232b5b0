/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_tb.c - `lapse trace steps` and `gpu`: where each step's time went, and how busy each
 * GPU was, with the definitions of torch-tb-profiler (docs/trace-numbers.md).
 */
#include "cli/trace_tb.h"

#include <math.h>
#include <stdlib.h>

#include "analyse/tbadvice.h"
#include "base/mem.h"
#include "report/spark.h"
#include "cli/trace_subs.h"
#include "cli/tracegaps.h"

#define TRACE_TB_SPARK 24 /* columns */

int trace_tb_new(const struct tracecmd_set *s, size_t i, struct trace_tb *ret)
{
	struct trace_tb tb = {0};
	int err = tracecmd_opt.plugin ? tbrows_new(s->trace[i], TBROWS_PLUGIN, &tb.rows)
				      : tbrows_new_part(s->trace[i], s->fit ? s->fit[i].from : 0,
							s->fit ? s->fit[i].to : 0, &tb.rows);

	if (!err)
		err = tbtree_new(tb.rows, &tb.tree);
	if (!err)
		err = tbsteps_new(tb.rows, tb.tree, &tb.steps);
	if (err)
		trace_tb_done(&tb);
	else
		*ret = tb;
	return err;
}

void trace_tb_done(struct trace_tb *tb)
{
	tbsteps_free(tb->steps);
	tbtree_free(tb->tree);
	tbrows_free(tb->rows);
	*tb = (struct trace_tb){0};
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static const struct sheet_column trace_steps_columns[] = {
	TRACEOUT_FILE,
	{"step", "STEP", SHEET_COUNT, 0},
	{"total_us", "TOTAL", SHEET_US, 0},
	{"kernel_us", "KERNEL", SHEET_US, 0},
	{"memcpy_us", "MEMCPY", SHEET_US, 0},
	{"memset_us", "MEMSET", SHEET_US, TABLE_DROP},
	{"communication_us", "COMM", SHEET_US, 0},
	{"runtime_us", "RUNTIME", SHEET_US, 0},
	{"data_loader_us", "LOADER", SHEET_US, 0},
	{"cpu_exec_us", "CPU", SHEET_US, 0},
	{"other_us", "OTHER", SHEET_US, 0},
	{"gpu_events", "", SHEET_COUNT, SHEET_DATA},
	{"ts_us", "", SHEET_US, SHEET_DATA},
	{"end_us", "", SHEET_US, SHEET_DATA},
};

static const struct sheet_column trace_steps_average[] = {
	TRACEOUT_FILE,
	{"role", "ROLE", SHEET_TEXT, 0},
	{"time_us", "TIME", SHEET_US, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
};

static const struct sheet_column trace_steps_comm[] = {
	TRACEOUT_FILE,
	{"step", "STEP", SHEET_COUNT, 0},
	{"computation_us", "COMPUTATION", SHEET_US, 0},
	{"overlap_us", "OVERLAP", SHEET_US, 0},
	{"communication_us", "COMMUNICATION", SHEET_US, 0},
	{"other_us", "OTHER", SHEET_US, 0},
};

static void trace_steps_number(struct sheet *sheet, const struct tbsteps *st, size_t k)
{
	if (st->has_marks)
		sheet_int(sheet, st->steps[k].number);
	else
		sheet_missing(sheet);
}

static void trace_steps_one(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
			    struct sheet *sheet)
{
	const struct tbsteps *st = tb->steps;
	size_t k, role;

	for (k = 0; k < st->n; k++) {
		traceout_file(sheet, s, i);
		trace_steps_number(sheet, st, k);
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].total));
		for (role = 0; role < TBSTEPS_ROLES; role++)
			sheet_double(sheet, trace_tb_us(tb, st->steps[k].cost[role]));
		sheet_int(sheet, (int64_t)st->steps[k].work);
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].ts));
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].end));
	}
}

static void trace_steps_mean(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
			     struct sheet *sheet)
{
	const struct tbsteps *st = tb->steps;
	size_t role;

	for (role = 0; role < TBSTEPS_ROLES && st->n; role++) {
		traceout_file(sheet, s, i);
		sheet_text(sheet, tbsteps_role_names[role]);
		sheet_double(sheet, trace_tb_us(tb, st->average[role]));
		trace_number(sheet, 100 * st->average[role] / st->average_total);
	}
}

static void trace_steps_parallel(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
				 struct sheet *sheet)
{
	const struct tbsteps *st = tb->steps;
	size_t k;

	for (k = 0; k < st->n && st->has_communication; k++) {
		traceout_file(sheet, s, i);
		trace_steps_number(sheet, st, k);
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].computation));
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].overlap));
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].communication));
		sheet_double(sheet, trace_tb_us(tb, st->steps[k].other));
	}
}

/* The plugin's own sentences. */
static int trace_steps_advice(struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
			      struct traceout *o)
{
	struct tbkernels *kernels = NULL;
	struct tbmemory *memory = NULL;
	struct tbgpu *gpu = NULL;
	struct tbadvice advice;
	size_t k;
	int err = tbgpu_new(tb->rows, tb->tree, tb->steps, &gpu);

	if (!err)
		err = tbkernels_new(tb->rows, &kernels);
	if (!err)
		err = tbmemory_new(tb->tree, &memory);
	if (!err) {
		tbadvice_make(tb->rows, tb->steps, gpu, kernels, memory, &advice);
		for (k = 0; k < advice.n; k++)
			traceout_say(o, "advice", "%s%s%s", s->n > 1 ? tracecmd_label(s, i) : "",
				     s->n > 1 ? ": " : "", advice.text[k]);
	}
	tbmemory_free(memory);
	tbkernels_free(kernels);
	tbgpu_free(gpu);
	return err;
}

static int trace_steps_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *steps = sheet_new("steps", "Steps", trace_steps_columns,
					ARRAY_LEN(trace_steps_columns)),
		     *mean = sheet_new("average", "The mean step", trace_steps_average,
				       ARRAY_LEN(trace_steps_average)),
		     *comm = sheet_new("communication", "Computation and communication",
				       trace_steps_comm, ARRAY_LEN(trace_steps_comm));
	size_t i, unmarked = 0, cut = 0;
	struct trace_tb tb;
	int err = 0;

	traceout_sheet(o, steps);
	traceout_sheet(o, mean);
	traceout_sheet(o, comm);
	for (i = 0; i < s->n && !err; i++) {
		err = trace_tb_new(s, i, &tb);
		if (err)
			break;
		trace_steps_one(s, i, &tb, steps);
		trace_steps_mean(s, i, &tb, mean);
		trace_steps_parallel(s, i, &tb, comm);
		unmarked += !tb.steps->has_marks;
		cut += tb.steps->cut;
		err = trace_steps_advice(s, i, &tb, o);
		trace_tb_done(&tb);
	}
	if (cut)
		traceout_say(o, "cut",
			     "%zu step%s at the end left out: no work of the device belongs to "
			     "%s, or clearly less than to the one before: the recording ended in "
			     "it.",
			     cut, cut == 1 ? " is" : "s are", cut == 1 ? "it" : "them");
	if (unmarked)
		tracegaps_no_steps_said(o);
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_HOST);
	return err;
}

int trace_steps(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {
		.command = "trace steps", .fits = TRACECMD_PARTS, .need = {.work = TRACEFIT_STEPS}};

	return trace_run(&wish, trace_steps_fill, argc, argv);
}

/* ---- gpu
 * ----------------------------------------------------------------------------------------- */

static bool trace_gpu_timeline;

const struct opt *trace_gpu_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_PLUGIN,
		{.name = "timeline",
		 .type = OPT_FLAG,
		 .to = &trace_gpu_timeline,
		 .help = "list utilisation over time too"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_gpu_columns[] = {
	TRACEOUT_FILE,
	{"device", "GPU", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
	{"kernels", "KERNELS", SHEET_COUNT, TABLE_DROP},
	{"utilisation_pct", "BUSY", SHEET_PERCENT, 0},
	{"sm_efficiency_pct", "SM EFF.", SHEET_PERCENT, 0},
	{"occupancy_pct", "OCCUP.", SHEET_PERCENT, 0},
	{"tensor_core_pct", "TENSOR", SHEET_PERCENT, 0},
	{"kernel_us", "IN KERNELS", SHEET_US, TABLE_DROP},
	{"tensor_us", "", SHEET_US, SHEET_DATA},
	{"", "BUSY OVER TIME", SHEET_TEXT, SHEET_SEEN | TABLE_DROP},
};

static const struct sheet_column trace_gpu_line[] = {
	TRACEOUT_FILE,
	{"device", "GPU", SHEET_COUNT, 0},
	{"ts_us", "AT", SHEET_US, 0},
	{"utilisation_pct", "BUSY", SHEET_PERCENT, 0},
};

static const char *trace_gpu_name(const struct trace *t, int64_t id)
{
	size_t n, k;
	const struct trace_device *d = trace_devices(t, &n);

	for (k = 0; k < n; k++)
		if (d[k].id == id)
			return trace_text(t, d[k].name, NULL);
	return NULL;
}

static void trace_gpu_spark(const struct tbgpu_device *d, struct sheet *sheet)
{
	size_t n = d->n_line > 1 ? d->n_line - 1 : 0, columns, k, from, to, m;
	double v[TRACE_TB_SPARK + 2];
	char text[SPARK_BYTES * (TRACE_TB_SPARK + 2) + 1];
	bool flat = true;

	columns = n < TRACE_TB_SPARK ? n : TRACE_TB_SPARK;
	for (k = 0; k < columns; k++) {
		from = k * n / columns;
		to = (k + 1) * n / columns;
		for (v[k] = 0, m = from; m < to; m++)
			v[k] += d->line[m].utilisation / (double)(to - from);
		flat = flat && v[k] == v[0];
	}
	if (columns < 4 || flat) {
		sheet_missing(sheet);
		return;
	}
	spark_draw(text, v, columns, spark_is_utf8());
	sheet_text(sheet, text);
}

static void trace_gpu_device(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
			     const struct tbgpu_device *d, struct sheet *sheet)
{
	const char *name = trace_gpu_name(s->trace[i], d->id);

	traceout_file(sheet, s, i);
	sheet_int(sheet, d->id);
	sheet_text(sheet, name && *name ? name : NULL);
	sheet_int(sheet, (int64_t)d->kernels);
	sheet_double(sheet, 100 * d->utilisation);
	trace_number(sheet, 100 * d->sm_efficiency);
	trace_number(sheet, d->occupancy);
	trace_number(sheet, 100 * d->tensor_cores);
	sheet_double(sheet, trace_tb_us(tb, d->kernel_time));
	sheet_double(sheet, trace_tb_us(tb, d->tensor_time));
	trace_gpu_spark(d, sheet);
}

static int trace_gpu_one(struct tracecmd_set *s, size_t i, struct sheet *sheet, struct sheet *line,
			 bool *any_missing)
{
	struct tbgpu *gpu = NULL;
	struct trace_tb tb;
	size_t k, n;
	int err = trace_tb_new(s, i, &tb);

	if (err)
		return err;
	err = tbgpu_new(tb.rows, tb.tree, tb.steps, &gpu);
	for (k = 0; !err && k < gpu->n; k++) {
		const struct tbgpu_device *d = &gpu->devices[k];

		trace_gpu_device(s, i, &tb, d, sheet);
		*any_missing = *any_missing || !d->has_blocks;
		for (n = 0; line && n < d->n_line; n++) {
			traceout_file(line, s, i);
			sheet_int(line, d->id);
			sheet_double(line, trace_tb_us(&tb, d->line[n].ts));
			sheet_double(line, 100 * d->line[n].utilisation);
		}
	}
	tbgpu_free(gpu);
	trace_tb_done(&tb);
	return err;
}

static int trace_gpu_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("gpu", "GPUs", trace_gpu_columns,
					ARRAY_LEN(trace_gpu_columns)),
		     *line = NULL;
	bool missing = false;
	size_t i;
	int err = 0;

	traceout_sheet(o, sheet);
	if (trace_gpu_timeline) {
		line = sheet_new("timeline", "Busy over time", trace_gpu_line,
				 ARRAY_LEN(trace_gpu_line));
		traceout_sheet(o, line);
	}
	for (i = 0; i < s->n && !err; i++)
		err = trace_gpu_one(s, i, sheet, line, &missing);
	if (!err && sheet_rows(sheet) > 0)
		traceout_say(
			o, "definition",
			"Busy: part of the steps in which a kernel ran. SM eff.: the same, each "
			"kernel counted by the part of the SMs that its blocks fill. Occup.: "
			"mean of the occupancy that the profiler estimates. Tensor: part of "
			"kernel time in kernels that use tensor cores, by their names.");
	if (!err && missing)
		traceout_missing(
			o, "no-blocks",
			"Kernels here do not tell \"blocks per SM\" (AMD and other devices): "
			"SM efficiency and occupancy are unknown.");
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return err;
}

int trace_gpu(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {
		.command = "trace gpu", .fits = TRACECMD_PARTS, .need = {.work = TRACEFIT_STEPS}};

	return trace_run(&wish, trace_gpu_fill, argc, argv);
}
