/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_mem.c - `lapse trace memory`: the allocator over time, peaks and who made them, and
 * what each operator allocated. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_tb.h"

#include <math.h>
#include <stdlib.h>

#include "analyse/allocs.h"
#include "base/mem.h"
#include "report/spark.h"
#include "cli/trace_subs.h"
#include "cli/tracegaps.h"

#define TRACE_MEM_SPARK 24 /* columns */

static bool trace_mem_timeline;

const struct opt *trace_memory_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_PLUGIN,
		{.name = "timeline",
		 .type = OPT_FLAG,
		 .to = &trace_mem_timeline,
		 .help = "list allocated and reserved bytes after each event too"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_mem_devices[] = {
	TRACEOUT_FILE,
	{"device", "DEVICE", SHEET_TEXT, 0},
	{"peak_bytes", "PEAK", SHEET_BYTES, 0},
	{"peak_ns", "AT", SHEET_NS, TABLE_DROP},
	{"reserved_bytes", "RESERVED", SHEET_BYTES, 0},
	{"unused_at_peak_bytes", "UNUSED", SHEET_BYTES, 0},
	{"unused_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"capacity_bytes", "OF", SHEET_BYTES, 0},
	{"growth_bytes", "GROWTH", SHEET_BYTES, 0},
	{"allocations", "ALLOCATIONS", SHEET_COUNT, TABLE_DROP},
	{"releases", "", SHEET_COUNT, SHEET_DATA},
	{"allocated_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"released_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"unknown_releases", "", SHEET_COUNT, SHEET_DATA},
	{"live_blocks", "", SHEET_COUNT, SHEET_DATA},
	{"live_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"before_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"relative", "", SHEET_BOOL, SHEET_DATA},
	{"", "ALLOCATED OVER TIME", SHEET_TEXT, SHEET_SEEN | TABLE_DROP},
};

static const struct sheet_column trace_mem_owners[] = {
	TRACEOUT_FILE,
	{"device", "DEVICE", SHEET_TEXT, 0},
	{"bytes", "ALIVE", SHEET_BYTES, 0},
	{"blocks", "BLOCKS", SHEET_COUNT, 0},
	{"name", "MADE BY", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_mem_operators[] = {
	TRACEOUT_FILE,
	{"device", "DEVICE", SHEET_TEXT, 0},
	{"self_size_bytes", "SELF SIZE", SHEET_BYTES, 0},
	{"self_increase_bytes", "SELF INCREASE", SHEET_BYTES, 0},
	{"self_allocations", "", SHEET_COUNT, SHEET_DATA},
	{"size_bytes", "SIZE", SHEET_BYTES, 0},
	{"increase_bytes", "INCREASE", SHEET_BYTES, TABLE_DROP},
	{"allocations", "ALLOCATIONS", SHEET_COUNT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_mem_points[] = {
	TRACEOUT_FILE,
	{"device", "DEVICE", SHEET_TEXT, 0},
	{"ts_ns", "AT", SHEET_NS, 0},
	{"allocated_bytes", "ALLOCATED", SHEET_BYTES, 0},
	{"reserved_bytes", "RESERVED", SHEET_BYTES, 0},
};

struct trace_mem_sheets {
	struct sheet *devices, *owners, *operators, *points; /* points may be NULL */
};

static void trace_mem_known(struct sheet *sheet, int64_t v)
{
	if (v == TRACE_NONE)
		sheet_missing(sheet);
	else
		sheet_int(sheet, v);
}

static void trace_mem_spark(const struct allocs_device *d, struct sheet *sheet)
{
	double v[TRACE_MEM_SPARK], span;
	char text[SPARK_BYTES * TRACE_MEM_SPARK + 1];
	size_t k = 0, at = 0;

	if (d->n < TRACE_MEM_SPARK || d->points[d->n - 1].ts <= d->points[0].ts) {
		sheet_missing(sheet);
		return;
	}
	/* The most in each part of the time. */
	span = (double)d->points[d->n - 1].ts - (double)d->points[0].ts;
	for (k = 0; k < TRACE_MEM_SPARK; k++) {
		double end = (double)d->points[0].ts + span * (double)(k + 1) / TRACE_MEM_SPARK;

		v[k] = (double)d->points[at].allocated;
		for (; at + 1 < d->n && (double)d->points[at + 1].ts <= end; at++)
			if ((double)d->points[at + 1].allocated > v[k])
				v[k] = (double)d->points[at + 1].allocated;
	}
	spark_draw(text, v, TRACE_MEM_SPARK, spark_is_utf8());
	sheet_text(sheet, text);
}

static void trace_mem_device(const struct tracecmd_set *s, size_t i, const struct allocs_device *d,
			     int64_t first, struct sheet *sheet)
{
	traceout_file(sheet, s, i);
	sheet_text(sheet, d->name);
	sheet_int(sheet, d->peak);
	sheet_int(sheet, d->peak_ts - first);
	trace_mem_known(sheet, d->reserved_peak);
	if (d->reserved_peak == TRACE_NONE) {
		sheet_missing(sheet);
		sheet_missing(sheet);
	} else {
		sheet_int(sheet, d->unused_at_peak);
		sheet_int(sheet, d->unused_peak);
	}
	if (d->capacity)
		sheet_int(sheet, d->capacity);
	else
		sheet_missing(sheet);
	sheet_int(sheet, d->growth);
	sheet_int(sheet, (int64_t)d->allocations);
	sheet_int(sheet, (int64_t)d->releases);
	sheet_int(sheet, d->allocated_bytes);
	sheet_int(sheet, d->released_bytes);
	sheet_int(sheet, (int64_t)d->unknown_releases);
	sheet_int(sheet, (int64_t)d->live);
	sheet_int(sheet, d->live_bytes);
	sheet_int(sheet, d->before_bytes);
	sheet_int(sheet, d->is_relative);
	trace_mem_spark(d, sheet);
}

static void trace_mem_owners_of(const struct tracecmd_set *s, size_t i,
				const struct allocs_device *d, struct sheet *sheet)
{
	size_t k;

	for (k = 0; k < d->n_owners; k++) {
		traceout_file(sheet, s, i);
		sheet_text(sheet, d->name);
		sheet_int(sheet, d->owners[k].bytes);
		sheet_int(sheet, (int64_t)d->owners[k].blocks);
		trace_text_cell(sheet, s->trace[i], d->owners[k].name);
	}
}

static int trace_mem_by_size(const void *a, const void *b)
{
	const struct tbmemory_op *x = *(const struct tbmemory_op *const *)a,
				 *y = *(const struct tbmemory_op *const *)b;
	int64_t p = x->numbers[TBMEMORY_SELF_SIZE], q = y->numbers[TBMEMORY_SELF_SIZE];

	return p != q ? (p < q) - (p > q) : (x > y) - (x < y);
}

static void trace_mem_ops(const struct tracecmd_set *s, size_t i, const struct tbmemory_device *d,
			  struct sheet *sheet)
{
	static const enum tbmemory_number order[] = {TBMEMORY_SELF_SIZE,  TBMEMORY_SELF_INCREASE,
						     TBMEMORY_SELF_COUNT, TBMEMORY_SIZE,
						     TBMEMORY_INCREASE,   TBMEMORY_COUNT};
	const struct tbmemory_op **ops = xcalloc(d->n, sizeof(*ops));
	size_t k, n;

	for (k = 0; k < d->n; k++)
		ops[k] = &d->ops[k];
	qsort(ops, d->n, sizeof(*ops), trace_mem_by_size);
	for (k = 0; k < d->n; k++) {
		traceout_file(sheet, s, i);
		sheet_text(sheet, d->name);
		for (n = 0; n < ARRAY_LEN(order); n++)
			sheet_int(sheet, ops[k]->numbers[order[n]]);
		sheet_int(sheet, (int64_t)ops[k]->calls);
		trace_text_cell(sheet, s->trace[i], ops[k]->name);
	}
	free(ops);
}

static void trace_mem_timelines(const struct tracecmd_set *s, size_t i,
				const struct allocs_device *d, int64_t first, struct sheet *sheet)
{
	size_t k;

	for (k = 0; sheet && k < d->n; k++) {
		traceout_file(sheet, s, i);
		sheet_text(sheet, d->name);
		sheet_int(sheet, d->points[k].ts - first);
		sheet_int(sheet, d->points[k].allocated);
		trace_mem_known(sheet, d->points[k].reserved);
	}
}

static int trace_mem_one(struct tracecmd_set *s, size_t i, const struct trace_mem_sheets *sheets)
{
	struct tbmemory *memory = NULL;
	struct allocs *allocs = NULL;
	struct trace_tb tb;
	int64_t first;
	size_t k;
	int err = trace_tb_new(s, i, &tb);

	if (err)
		return err;
	first = tb.rows->zero_ns;
	err = tbmemory_new(tb.tree, &memory);
	if (!err)
		err = allocs_new(tb.tree, memory, &allocs);
	for (k = 0; !err && k < allocs->n; k++) {
		trace_mem_device(s, i, &allocs->devices[k], first, sheets->devices);
		trace_mem_owners_of(s, i, &allocs->devices[k], sheets->owners);
		trace_mem_timelines(s, i, &allocs->devices[k], first, sheets->points);
	}
	for (k = 0; !err && k < memory->n; k++)
		trace_mem_ops(s, i, &memory->devices[k], sheets->operators);
	allocs_free(allocs);
	tbmemory_free(memory);
	trace_tb_done(&tb);
	return err;
}

static int trace_mem_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct trace_mem_sheets sheets = {
		.devices = sheet_new("devices", "Memory", trace_mem_devices,
				     ARRAY_LEN(trace_mem_devices)),
		.owners = sheet_new("owners", "What was alive at the peak", trace_mem_owners,
				    ARRAY_LEN(trace_mem_owners)),
		.operators = sheet_new("operators", "Operators", trace_mem_operators,
				       ARRAY_LEN(trace_mem_operators)),
	};
	size_t i;
	int err = 0;

	traceout_sheet(o, sheets.devices);
	traceout_sheet(o, sheets.owners);
	traceout_sheet(o, sheets.operators);
	if (trace_mem_timeline) {
		sheets.points = sheet_new("timeline", "Over time", trace_mem_points,
					  ARRAY_LEN(trace_mem_points));
		traceout_sheet(o, sheets.points);
	}
	for (i = 0; i < s->n && !err; i++)
		err = trace_mem_one(s, i, &sheets);
	if (!err && sheet_rows(sheets.devices) > 0)
		traceout_say(o, "definition",
			     "Peak: most bytes allocated. Unused: reserved from the device and not "
			     "allocated at that time. Growth: at the end less at the begin. Size: "
			     "bytes allocated; increase: less those released.");
	tracegaps_say(o, s, TRACEGAPS_MEMORY);
	return err;
}

int trace_memory(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace memory",
				     .fits = TRACECMD_PARTS,
				     .need = {.work = TRACEFIT_MEMORY}};

	if (trace_mem_timeline)
		wish.need.event_more = trace_list_bytes(ARRAY_LEN(trace_mem_points));
	return trace_run(&wish, trace_mem_fill, argc, argv);
}
