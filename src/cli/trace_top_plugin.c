/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_top_plugin.c - `lapse trace top --plugin`: torch-tb-profiler's operator and kernel views.
 * Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_top.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyse/tbkernels.h"
#include "analyse/tbops.h"
#include "base/mem.h"
#include "cli/trace_subs.h"
#include "cli/trace_tb.h"
#include "cli/tracegaps.h"

static const struct sheet_column trace_top_plugin_ops[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"device_self_us", "SELF GPU", SHEET_US, 0},
	{"device_us", "GPU", SHEET_US, 0},
	{"host_self_us", "SELF CPU", SHEET_US, 0},
	{"host_us", "CPU", SHEET_US, 0},
	{"tc_eligible", "TC OP", SHEET_BOOL, TABLE_DROP},
	{"tc_self_pct", "TC SELF", SHEET_PERCENT, TABLE_DROP},
	{"tc_total_pct", "TC", SHEET_PERCENT, TABLE_DROP},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
	{"shapes", "SHAPES", SHEET_TEXT, TABLE_CUT},
	{"stack", "STACK", SHEET_TEXT, TABLE_CUT},
};

static const struct sheet_column trace_top_plugin_kernels[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"total_us", "TOTAL", SHEET_US, 0},
	{"mean_us", "MEAN", SHEET_US, 0},
	{"max_us", "MAX", SHEET_US, TABLE_DROP},
	{"min_us", "MIN", SHEET_US, TABLE_DROP},
	{"blocks_per_sm", "BLOCKS/SM", SHEET_NUMBER, 0},
	{"occupancy_pct", "OCCUP.", SHEET_NUMBER, 0},
	{"tensor_cores", "TC", SHEET_BOOL, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_top_plugin_launches[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"total_us", "TOTAL", SHEET_US, 0},
	{"min_us", "MIN", SHEET_US, TABLE_DROP},
	{"max_us", "MAX", SHEET_US, TABLE_DROP},
	{"grid", "GRID", SHEET_TEXT, 0},
	{"block", "BLOCK", SHEET_TEXT, 0},
	{"registers", "REG", SHEET_COUNT, TABLE_DROP},
	{"shared_memory_bytes", "SHARED", SHEET_BYTES, TABLE_DROP},
	{"blocks_per_sm", "", SHEET_NUMBER, SHEET_DATA},
	{"occupancy_pct", "", SHEET_NUMBER, SHEET_DATA},
	{"tensor_cores", "TC", SHEET_BOOL, TABLE_DROP},
	{"operator_tc_eligible", "", SHEET_BOOL, SHEET_DATA},
	{"operator", "OPERATOR", SHEET_TEXT, TABLE_ELIDE},
	{"name", "KERNEL", SHEET_TEXT, TABLE_ELIDE},
};

static void trace_top_three(struct sheet *sheet, bool has, const int32_t v[3])
{
	char text[64];

	snprintf(text, sizeof(text), "[%d, %d, %d]", (int)v[0], (int)v[1], (int)v[2]);
	sheet_text(sheet, has ? text : NULL);
}

static void trace_top_plugin_launch(const struct tracecmd_set *s, size_t i,
				    const struct trace_tb *tb, const struct tbops_kernel *k,
				    struct sheet *sheet)
{
	traceout_file(sheet, s, i);
	sheet_int(sheet, (int64_t)k->calls);
	sheet_double(sheet, trace_tb_us(tb, k->total));
	sheet_double(sheet, trace_tb_us(tb, k->min));
	sheet_double(sheet, trace_tb_us(tb, k->max));
	trace_top_three(sheet, k->has_grid, k->grid);
	trace_top_three(sheet, k->has_block, k->block);
	sheet_int(sheet, k->registers);
	sheet_int(sheet, k->shared_memory);
	sheet_double(sheet, k->blocks);
	sheet_double(sheet, k->occupancy);
	sheet_int(sheet, k->tc_used);
	sheet_int(sheet, k->op_tc_eligible);
	sheet_text(sheet, k->op ? trace_text(s->trace[i], k->op, NULL) : "CallTreeRoot");
	trace_text_cell(sheet, s->trace[i], k->name);
}

static void trace_top_plugin_op(const struct tracecmd_set *s, size_t i, const struct trace_tb *tb,
				const struct tbops_op *op, struct sheet *sheet)
{
	traceout_file(sheet, s, i);
	sheet_int(sheet, (int64_t)op->calls);
	sheet_double(sheet, trace_tb_us(tb, op->self_device));
	sheet_double(sheet, trace_tb_us(tb, op->device));
	sheet_double(sheet, trace_tb_us(tb, op->self_host));
	sheet_double(sheet, trace_tb_us(tb, op->host));
	sheet_int(sheet, op->tc_eligible);
	sheet_double(sheet, tbops_tc_self_percent(op));
	sheet_double(sheet, tbops_tc_total_percent(op));
	trace_text_cell(sheet, s->trace[i], op->name);
	trace_text_cell(sheet, s->trace[i], op->dims);
	trace_text_cell(sheet, s->trace[i], op->stack);
}

static void trace_top_plugin_kernel(const struct tracecmd_set *s, size_t i,
				    const struct trace_tb *tb, const struct tbkernels_kernel *k,
				    struct sheet *sheet)
{
	traceout_file(sheet, s, i);
	sheet_int(sheet, (int64_t)k->calls);
	sheet_double(sheet, trace_tb_us(tb, k->total));
	sheet_double(sheet, trace_tb_us(tb, k->mean));
	sheet_double(sheet, trace_tb_us(tb, k->max));
	sheet_double(sheet, trace_tb_us(tb, k->min));
	sheet_double(sheet, k->blocks);
	sheet_double(sheet, k->occupancy);
	sheet_int(sheet, k->tc_used);
	trace_text_cell(sheet, s->trace[i], k->name);
}

static int trace_top_by_device(const void *a, const void *b)
{
	const struct tbops_op *x = a, *y = b;

	if (x->self_device != y->self_device)
		return x->self_device < y->self_device ? 1 : -1;
	if (x->self_host != y->self_host)
		return x->self_host < y->self_host ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static int trace_top_plugin_one(struct tracecmd_set *s, size_t i, enum tbops_group group,
				struct sheet *ops, struct sheet *kernels, struct sheet *launches)
{
	struct tbkernels *kn = NULL;
	struct tbops *on = NULL;
	struct trace_tb tb;
	size_t n;
	int err = trace_tb_new(s, i, &tb);

	if (err)
		return err;
	err = tbops_new(tb.tree, group, &on);
	if (!err)
		err = tbkernels_new(tb.rows, &kn);
	if (!err && on->n)
		qsort(on->ops, on->n, sizeof(*on->ops), trace_top_by_device);
	for (n = 0; !err && n < on->n; n++)
		trace_top_plugin_op(s, i, &tb, &on->ops[n], ops);
	for (n = 0; !err && n < on->n_kernels; n++)
		trace_top_plugin_launch(s, i, &tb, &on->kernels[n], launches);
	for (n = 0; !err && n < kn->n; n++)
		trace_top_plugin_kernel(s, i, &tb, &kn->kernels[n], kernels);
	tbkernels_free(kn);
	tbops_free(on);
	trace_tb_done(&tb);
	return err;
}

int trace_top_plugin(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *ops = sheet_new("plugin_operators", "Operators", trace_top_plugin_ops,
				      ARRAY_LEN(trace_top_plugin_ops)),
		     *kernels = sheet_new("plugin_kernels", "Kernels", trace_top_plugin_kernels,
					  ARRAY_LEN(trace_top_plugin_kernels)),
		     *launches = sheet_new("plugin_launches", "Kernels by operator and launch",
					   trace_top_plugin_launches,
					   ARRAY_LEN(trace_top_plugin_launches));
	struct keyavg_options opt = {0};
	enum tbops_group group = TBOPS_NAME;
	int err = trace_top_options_of(&opt);
	size_t i;

	if (!(opt.group & KEYAVG_SHAPE))
		sheet_hide(ops, "shapes");
	if (!(opt.group & KEYAVG_STACK))
		sheet_hide(ops, "stack");
	traceout_sheet(o, ops);
	traceout_sheet(o, kernels);
	traceout_sheet(o, launches);
	if (opt.group & KEYAVG_SHAPE)
		group |= TBOPS_SHAPE;
	if (opt.group & KEYAVG_STACK)
		group |= TBOPS_STACK;
	for (i = 0; i < s->n && !err; i++)
		err = trace_top_plugin_one(s, i, group, ops, kernels, launches);
	if (!err)
		tracegaps_say(o, s, TRACEGAPS_GPU);
	return err;
}
