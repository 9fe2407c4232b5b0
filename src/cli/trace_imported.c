/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_imported.c - the tables of `lapse trace import`: one for each kind of thing that files
 * of other profilers hold.
 */
#include "cli/trace_import.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/traceout.h"

#define MIB 1048576.0

static const struct sheet_column imported_files[] = {
	{"file", "FILE", SHEET_COUNT, 0},       {"path", "NAME", SHEET_TEXT, TABLE_ELIDE},
	{"kind", "", SHEET_TEXT, SHEET_DATA},   {"title", "KIND", SHEET_TEXT, 0},
	{"entries", "ENTRIES", SHEET_COUNT, 0}, {"of", "OF", SHEET_TEXT, 0},
	{"total", "TOTAL", SHEET_NUMBER, 0},    {"unit", "UNIT", SHEET_TEXT, 0},
	{"skipped", "SKIPPED", SHEET_COUNT, 0}, {"first_skipped", "", SHEET_COUNT, SHEET_DATA},
	{"begin_ns", "", SHEET_NS, SHEET_DATA}, {"end_ns", "", SHEET_NS, SHEET_DATA},
};

static const struct sheet_column imported_frames[] = {
	{"file", "FILE", SHEET_COUNT, 0},
	{"self", "SELF", SHEET_NUMBER, 0},
	{"self_pct", "", SHEET_PERCENT, 0},
	{"total", "TOTAL", SHEET_NUMBER, 0},
	{"total_pct", "", SHEET_PERCENT, 0},
	{"stacks", "STACKS", SHEET_COUNT, 0},
	{"frame", "FRAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column imported_functions[] = {
	{"file", "FILE", SHEET_COUNT, 0},       {"self_ns", "SELF", SHEET_NS, 0},
	{"self_pct", "", SHEET_PERCENT, 0},     {"total_ns", "TOTAL", SHEET_NS, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},     {"primitive_calls", "PRIMITIVE", SHEET_COUNT, 0},
	{"callers", "CALLERS", SHEET_COUNT, 0}, {"function", "FUNCTION", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column imported_columns[] = {
	{"file", "FILE", SHEET_COUNT, 0},    {"column", "COLUMN", SHEET_TEXT, 0},
	{"unit", "UNIT", SHEET_TEXT, 0},     {"numbers", "NUMBERS", SHEET_COUNT, 0},
	{"missing", "NONE", SHEET_COUNT, 0}, {"least", "LEAST", SHEET_NUMBER, 0},
	{"mean", "MEAN", SHEET_NUMBER, 0},   {"most", "MOST", SHEET_NUMBER, 0},
	{"last", "LAST", SHEET_NUMBER, 0},
};

static const struct sheet_column imported_devices[] = {
	{"file", "FILE", SHEET_COUNT, 0},
	{"device", "DEVICE", SHEET_COUNT, 0},
	{"reserved_bytes", "RESERVED", SHEET_BYTES, 0},
	{"allocated_bytes", "ALLOCATED", SHEET_BYTES, 0},
	{"free_bytes", "FREE", SHEET_BYTES, 0},
	{"largest_free_bytes", "LARGEST", SHEET_BYTES, 0},
	{"pending_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"requested_bytes", "", SHEET_BYTES, SHEET_DATA},
	{"segments", "SEGMENTS", SHEET_COUNT, 0},
	{"blocks", "BLOCKS", SHEET_COUNT, 0},
	{"live_blocks", "LIVE", SHEET_COUNT, 0},
	{"peak_bytes", "PEAK", SHEET_BYTES, 0},
	{"peak_us", "", SHEET_COUNT, SHEET_DATA},
	{"events", "EVENTS", SHEET_COUNT, 0},
	{"allocations", "", SHEET_COUNT, SHEET_DATA},
	{"frees", "", SHEET_COUNT, SHEET_DATA},
	{"ooms", "OOM", SHEET_COUNT, 0},
};

static const struct sheet_column imported_categories[] = {
	{"file", "FILE", SHEET_COUNT, 0},         {"category", "CATEGORY", SHEET_TEXT, 0},
	{"peak_bytes", "PEAK", SHEET_BYTES, 0},   {"at_peak_bytes", "AT THE PEAK", SHEET_BYTES, 0},
	{"least_bytes", "LEAST", SHEET_BYTES, 0}, {"last_bytes", "LAST", SHEET_BYTES, 0},
};

static const struct sheet_column imported_processes[] = {
	{"file", "FILE", SHEET_COUNT, 0},       {"process", "PROCESS", SHEET_TEXT, 0},
	{"samples", "SAMPLES", SHEET_COUNT, 0}, {"least_bytes", "LEAST", SHEET_BYTES, 0},
	{"mean_bytes", "MEAN", SHEET_BYTES, 0}, {"most_bytes", "MOST", SHEET_BYTES, 0},
	{"last_bytes", "LAST", SHEET_BYTES, 0},
};

static const struct sheet_column imported_calls[] = {
	{"file", "FILE", SHEET_COUNT, 0},         {"begin_ns", "", SHEET_NS, SHEET_DATA},
	{"duration_ns", "LASTS", SHEET_NS, 0},    {"before_bytes", "BEFORE", SHEET_BYTES, 0},
	{"after_bytes", "AFTER", SHEET_BYTES, 0}, {"function", "FUNCTION", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column imported_kinds[] = {
	{"file", "FILE", SHEET_COUNT, 0},          {"category", "CATEGORY", SHEET_TEXT, 0},
	{"rows", "ROWS", SHEET_COUNT, 0},          {"time_ns", "TIME", SHEET_NS, 0},
	{"skipped", "SKIPPED", SHEET_COUNT, 0},    {"table", "TABLE", SHEET_TEXT, 0},
	{"has_table", "", SHEET_BOOL, SHEET_DATA},
};

static const struct sheet_column imported_names[] = {
	{"file", "FILE", SHEET_COUNT, 0},          {"category", "CATEGORY", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},          {"calls", "CALLS", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

enum imported_sheet {
	IMPORTED_FILES,
	IMPORTED_FRAMES,
	IMPORTED_FUNCTIONS,
	IMPORTED_COLUMNS,
	IMPORTED_DEVICES,
	IMPORTED_CATEGORIES,
	IMPORTED_PROCESSES,
	IMPORTED_CALLS,
	IMPORTED_KINDS,
	IMPORTED_NAMES,
	IMPORTED_SHEETS
};

static const struct {
	const char *name, *title;
	const struct sheet_column *columns;
	size_t n;
} imported_rows[IMPORTED_SHEETS] = {
	[IMPORTED_FILES] = {"imported", "Files", imported_files, ARRAY_LEN(imported_files)},
	[IMPORTED_FRAMES] = {"frames", "Frames", imported_frames, ARRAY_LEN(imported_frames)},
	[IMPORTED_FUNCTIONS] = {"functions", "Functions by their own time", imported_functions,
				ARRAY_LEN(imported_functions)},
	[IMPORTED_COLUMNS] = {"columns", "Columns", imported_columns, ARRAY_LEN(imported_columns)},
	[IMPORTED_DEVICES] = {"devices", "Memory of the devices", imported_devices,
			      ARRAY_LEN(imported_devices)},
	[IMPORTED_CATEGORIES] = {"categories", "Memory by category", imported_categories,
				 ARRAY_LEN(imported_categories)},
	[IMPORTED_PROCESSES] = {"processes", "Memory of the processes", imported_processes,
				ARRAY_LEN(imported_processes)},
	[IMPORTED_CALLS] = {"calls", "Calls", imported_calls, ARRAY_LEN(imported_calls)},
	[IMPORTED_KINDS] = {"kinds", "Contents", imported_kinds, ARRAY_LEN(imported_kinds)},
	[IMPORTED_NAMES] = {"names", "Names by time", imported_names, ARRAY_LEN(imported_names)},
};

struct imported {
	struct tracecmd_set *set;
	struct sheet *sheets[IMPORTED_SHEETS];
	size_t file; /* that is printed now */
};

/* The sheet, made when it is first needed, with the cell of the file. */
static struct sheet *imported_row(struct imported *p, enum imported_sheet which)
{
	struct sheet **s = &p->sheets[which];

	if (!*s)
		*s = sheet_new(imported_rows[which].name, imported_rows[which].title,
			       imported_rows[which].columns, imported_rows[which].n);
	sheet_int(*s, (int64_t)p->file);
	return *s;
}

static void imported_cell(struct sheet *s, const char *text, size_t len)
{
	char *copy = xstrndup(text, len);

	sheet_text(s, copy);
	free(copy);
}

/* ---- what a file holds ---------------------------------------------------------------------- */

struct imported_sum {
	uint64_t entries, skipped, first_skipped;
	const char *of, *unit;
	double total;
	int64_t begin, end; /* INT64_MIN: unknown */
};

static void imported_file(struct imported *p, const struct trace_import *m,
			  const struct imported_sum *sum)
{
	struct sheet *s = imported_row(p, IMPORTED_FILES);

	sheet_text(s, m->path);
	sheet_text(s, import_kind_key(m->kind));
	sheet_text(s, import_kind_name(m->kind));
	sheet_int(s, (int64_t)sum->entries);
	sheet_text(s, sum->of);
	isnan(sum->total) ? sheet_missing(s) : sheet_double(s, sum->total);
	sum->unit && * sum->unit ? sheet_text(s, sum->unit) : sheet_missing(s);
	sheet_int(s, (int64_t)sum->skipped);
	sum->first_skipped ? sheet_int(s, (int64_t)sum->first_skipped) : sheet_missing(s);
	sum->begin == INT64_MIN ? sheet_missing(s) : sheet_int(s, sum->begin);
	sum->begin == INT64_MIN ? sheet_missing(s) : sheet_int(s, sum->end);
}

static int imported_stacks(struct imported *p, struct trace_import *m,
			   const struct import_folded *f)
{
	int rc = import_frames(f, &m->frames);
	double all = f->total > 0 ? f->total : 1;

	for (size_t i = 0; i < m->frames.n && !rc; i++) {
		const struct import_frame *x = &m->frames.list[i];
		struct sheet *s = imported_row(p, IMPORTED_FRAMES);

		sheet_double(s, x->self);
		sheet_double(s, 100 * x->self / all);
		sheet_double(s, x->total);
		sheet_double(s, 100 * x->total / all);
		sheet_int(s, (int64_t)x->count);
		imported_cell(s, x->name, x->len);
	}
	return rc;
}

static int imported_folded(struct imported *p, struct trace_import *m)
{
	const struct imported_sum sum = {m->folded.n, m->folded.skipped, m->folded.first_skipped,
					 "stacks",    m->folded.unit,    m->folded.total,
					 INT64_MIN,   INT64_MIN};

	imported_file(p, m, &sum);
	return imported_stacks(p, m, &m->folded);
}

static int imported_pstats(struct imported *p, struct trace_import *m)
{
	const struct imported_sum sum = {m->pstats.n, m->pstats.skipped, 0,         "functions",
					 "seconds",   m->pstats.self,    INT64_MIN, INT64_MIN};
	double all = m->pstats.self > 0 ? m->pstats.self : 1;

	imported_file(p, m, &sum);
	for (size_t i = 0; i < m->pstats.n; i++) {
		const struct import_function *f = &m->pstats.functions[i];
		struct sheet *s = imported_row(p, IMPORTED_FUNCTIONS);
		char *name = xasprintf("%.*s(%" PRId64 "): %.*s", (int)f->file_len, f->file,
				       f->line, (int)f->name_len, f->name);

		sheet_int(s, llround(fmax(fmin(f->self, 9e9), -9e9) * 1e9));
		sheet_double(s, 100 * f->self / all);
		sheet_int(s, llround(fmax(fmin(f->total, 9e9), -9e9) * 1e9));
		sheet_int(s, f->calls);
		sheet_int(s, f->primitive);
		sheet_int(s, f->callers);
		sheet_text(s, name);
		free(name);
	}
	return 0;
}

static int imported_smi(struct imported *p, struct trace_import *m)
{
	const struct import_smi *x = m->smi;
	const struct imported_sum sum = {x->n_rows, x->skipped, x->first_skipped, "rows",
					 NULL,      NAN,        x->from,          x->to};

	imported_file(p, m, &sum);
	for (size_t i = 0; i < x->n_columns; i++) {
		const struct import_column *c = &x->columns[i];
		struct sheet *s;

		if (!c->n)
			continue;
		s = imported_row(p, IMPORTED_COLUMNS);
		sheet_text(s, c->name);
		c->unit[0] ? sheet_text(s, c->unit) : sheet_missing(s);
		sheet_int(s, (int64_t)c->n);
		sheet_int(s, (int64_t)c->none);
		sheet_double(s, c->least);
		sheet_double(s, c->sum / (double)c->n);
		sheet_double(s, c->most);
		sheet_double(s, c->last);
	}
	return 0;
}

static int imported_snapshot(struct imported *p, struct trace_import *m)
{
	const struct import_snapshot *x = m->snapshot;
	const struct imported_sum sum = {x->live.n, x->skipped,    0,         "live blocks",
					 "bytes",   x->live.total, INT64_MIN, INT64_MIN};

	imported_file(p, m, &sum);
	for (size_t i = 0; i < x->n; i++) {
		const struct import_snapshot_device *d = &x->devices[i];
		struct sheet *s = imported_row(p, IMPORTED_DEVICES);
		const int64_t cells[] = {d->device,
					 d->reserved,
					 d->allocated,
					 d->free,
					 d->largest_free,
					 d->pending,
					 d->requested,
					 (int64_t)d->segments,
					 (int64_t)d->blocks,
					 (int64_t)d->live,
					 d->peak,
					 d->peak_us,
					 (int64_t)d->events,
					 (int64_t)d->allocs,
					 (int64_t)d->frees,
					 (int64_t)d->ooms};

		for (size_t k = 0; k < ARRAY_LEN(cells); k++)
			sheet_int(s, cells[k]);
	}
	return imported_stacks(p, m, &x->live);
}

static int imported_timeline(struct imported *p, struct trace_import *m)
{
	const struct import_timeline *x = &m->timeline;
	const struct imported_sum sum = {x->events,
					 x->skipped,
					 0,
					 "changes",
					 "bytes at the peak",
					 (double)x->peak,
					 x->n ? x->points[0].ts : INT64_MIN,
					 x->n ? x->points[x->n - 1].ts : 0};

	imported_file(p, m, &sum);
	for (unsigned i = 0; i < IMPORT_CATEGORIES && x->n; i++) {
		struct sheet *s = imported_row(p, IMPORTED_CATEGORIES);

		sheet_text(s, import_category(i));
		sheet_int(s, x->categories[i].peak);
		sheet_int(s, x->points[x->peak_point].bytes[i]);
		sheet_int(s, x->categories[i].least);
		sheet_int(s, x->categories[i].last);
	}
	return 0;
}

static void imported_mprof_calls(struct imported *p, const struct import_mprof *x)
{
	for (size_t i = 0; i < x->n_calls; i++) {
		struct sheet *s = imported_row(p, IMPORTED_CALLS);

		sheet_int(s, x->calls[i].begin);
		sheet_int(s, x->calls[i].end - x->calls[i].begin);
		sheet_int(s, llround(fmin(fabs(x->calls[i].mib_begin), 1e12) * MIB));
		sheet_int(s, llround(fmin(fabs(x->calls[i].mib_end), 1e12) * MIB));
		imported_cell(s, x->calls[i].name, x->calls[i].len);
	}
}

static int imported_mprof(struct imported *p, struct trace_import *m)
{
	const struct import_mprof *x = m->mprof;
	const struct imported_sum sum = {x->n,
					 x->skipped,
					 x->first_skipped,
					 "samples",
					 NULL,
					 NAN,
					 x->n ? x->samples[0].ts : INT64_MIN,
					 x->n ? x->samples[x->n - 1].ts : 0};

	imported_file(p, m, &sum);
	for (size_t i = 0; i < x->n_processes; i++) {
		struct sheet *s = imported_row(p, IMPORTED_PROCESSES);
		const double mib[] = {x->processes[i].least,
				      x->processes[i].sum / (double)x->processes[i].samples,
				      x->processes[i].most, x->processes[i].last};
		char *name = x->processes[i].number < 0
				     ? xstrdup("program")
				     : xasprintf("child %" PRId64, x->processes[i].number);

		sheet_text(s, name);
		sheet_int(s, (int64_t)x->processes[i].samples);
		for (size_t k = 0; k < ARRAY_LEN(mib); k++)
			sheet_int(s, llround(fmin(mib[k], 1e12) * MIB));
		free(name);
	}
	imported_mprof_calls(p, x);
	return 0;
}

static int imported_nsys(struct imported *p, struct trace_import *m)
{
	const struct import_nsys *x = &m->nsys;
	struct imported_sum sum = {x->rows, 0, 0, "rows", "ns", 0, INT64_MIN, INT64_MIN};

	for (int k = 0; k < IMPORT_NSYS_KINDS; k++)
		sum.skipped += x->kinds[k].skipped;
	sum.total = (double)(x->last - x->first);
	if (x->base_ns) {
		sum.begin = x->base_ns + x->first;
		sum.end = x->base_ns + x->last;
	}
	imported_file(p, m, &sum);
	for (int k = 0; k < IMPORT_NSYS_KINDS; k++) {
		struct sheet *s = imported_row(p, IMPORTED_KINDS);

		sheet_text(s, import_nsys_kind_name((enum import_nsys_kind)k));
		sheet_int(s, (int64_t)x->kinds[k].rows);
		sheet_int(s, x->kinds[k].ns);
		sheet_int(s, (int64_t)x->kinds[k].skipped);
		sheet_text(s, import_nsys_table((enum import_nsys_kind)k));
		sheet_int(s, x->kinds[k].has_table);
	}
	for (size_t i = 0; i < x->n; i++) {
		struct sheet *s = imported_row(p, IMPORTED_NAMES);

		sheet_text(s, import_nsys_kind_name(x->names[i].kind));
		sheet_int(s, x->names[i].ns);
		sheet_int(s, (int64_t)x->names[i].count);
		sheet_text(s, x->names[i].name);
	}
	return 0;
}

static int (*const imported_kind[IMPORT_FILE_KINDS])(struct imported *, struct trace_import *) = {
	[IMPORT_FILE_COLLAPSED] = imported_folded,  [IMPORT_FILE_SPEEDSCOPE] = imported_folded,
	[IMPORT_FILE_PSTATS] = imported_pstats,     [IMPORT_FILE_SMI] = imported_smi,
	[IMPORT_FILE_SNAPSHOT] = imported_snapshot, [IMPORT_FILE_TRACEMALLOC] = imported_folded,
	[IMPORT_FILE_TIMELINE] = imported_timeline, [IMPORT_FILE_MPROF] = imported_mprof,
	[IMPORT_FILE_SQLITE] = imported_nsys,
};

/* ---- sentences ------------------------------------------------------------------------------ */

static void imported_say(struct traceout *o, const struct trace_import *m)
{
	const struct import_folded *f = m->kind == IMPORT_FILE_COLLAPSED ? &m->folded : NULL;

	if (f && !f->unit[0])
		traceout_say(o, "unit",
			     "The file does not say what the weights are: samples (py-spy) or "
			     "microseconds (PyTorch's export_stacks()). In a trace one is 1 us.");
	if (m->kind == IMPORT_FILE_PSTATS)
		traceout_say(
			o, "no-stacks",
			"cProfile keeps no stacks: TOTAL has what a function called in it; in a "
			"trace functions stand one after the other with their own time.");
	if (m->kind == IMPORT_FILE_SMI)
		traceout_say(o, "zone",
			     "The file does not say its time zone: times are taken as UTC.");
	if (m->kind == IMPORT_FILE_TRACEMALLOC)
		traceout_say(o, "bytes", "In a trace a byte is 1 ns.");
}

static void imported_written(struct traceout *o, const struct trace_import *m, const char *output)
{
	if (output)
		traceout_say(o, "written", "%" PRIu64 " %s written to %s.", m->written,
			     m->has_stacks_written ? "stacks" : "events", output);
}

int trace_import_print(struct tracecmd_set *set, struct trace_import *files, size_t n,
		       const char *output)
{
	struct traceout *o = traceout_begin(set);
	struct imported p = {.set = set};
	int rc = 0;

	traceout_plain(o);
	for (p.file = 0; p.file < n && !rc; p.file++)
		rc = imported_kind[files[p.file].kind](&p, &files[p.file]);
	for (int k = 0; k < IMPORTED_SHEETS; k++) {
		if (!p.sheets[k])
			continue;
		if (n == 1)
			sheet_hide(p.sheets[k], "file");
		traceout_sheet_as(o, p.sheets[k]);
	}
	if (rc) {
		traceout_drop(o);
		return tracecmd_fail(set, rc, NULL);
	}
	for (size_t i = 0, k = 0; i < n; i++) {
		for (k = 0; k < i && files[k].kind != files[i].kind; k++)
			;
		if (k == i)
			imported_say(o, &files[i]);
	}
	imported_written(o, &files[0], output);
	return traceout_end(o);
}
