/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_time.c - `lapse trace temporal`, `idle` and `overlap`: how the devices spent the
 * time. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <math.h>

#include "analyse/idle.h"
#include "analyse/overlap.h"
#include "analyse/temporal.h"
#include "base/mem.h"
#include "cli/tracegaps.h"

/* ---- temporal ------------------------------------------------------------------------------ */

static const struct sheet_column trace_temporal_columns[] = {
	TRACEOUT_FILE,
	{"total_ns", "TOTAL", SHEET_NS, 0},
	{"idle_ns", "IDLE", SHEET_NS, 0},
	{"idle_pct", "", SHEET_PERCENT, 0},
	{"compute_ns", "COMPUTE", SHEET_NS, 0},
	{"compute_pct", "", SHEET_PERCENT, 0},
	{"non_compute_ns", "OTHER WORK", SHEET_NS, 0},
	{"non_compute_pct", "", SHEET_PERCENT, 0},
	{"rows", "ROWS", SHEET_COUNT, 0},
	{"rows_computation", "", SHEET_COUNT, SHEET_DATA},
	{"rows_communication", "", SHEET_COUNT, SHEET_DATA},
	{"rows_memory", "", SHEET_COUNT, SHEET_DATA},
	{"rows_other", "", SHEET_COUNT, SHEET_DATA},
	{"rows_negative", "", SHEET_COUNT, SHEET_DATA},
};

static void trace_temporal_row(struct sheet *sheet, const struct temporal *t)
{
	sheet_int(sheet, t->total);
	sheet_int(sheet, t->idle);
	sheet_double(sheet, t->idle_pct);
	sheet_int(sheet, t->compute);
	sheet_double(sheet, t->compute_pct);
	sheet_int(sheet, t->non_compute);
	sheet_double(sheet, t->non_compute_pct);
	sheet_int(sheet, (int64_t)t->rows);
	sheet_int(sheet, (int64_t)t->kernels[VIEW_COMPUTATION]);
	sheet_int(sheet, (int64_t)t->kernels[VIEW_COMMUNICATION]);
	sheet_int(sheet, (int64_t)t->kernels[VIEW_MEMORY]);
	sheet_int(sheet, (int64_t)t->kernels[VIEW_OTHER]);
	sheet_int(sheet, (int64_t)t->negative);
}

int trace_temporal_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("temporal", "Time of the devices", trace_temporal_columns,
					ARRAY_LEN(trace_temporal_columns));
	struct temporal t;
	uint64_t negative = 0, other = 0;
	size_t i;
	int err;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n; i++) {
		err = temporal_of(&s->view[i], &t);
		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		traceout_file(sheet, s, i);
		trace_temporal_row(sheet, &t);
		negative += t.negative;
		other += t.kernels[VIEW_COMMUNICATION] + t.kernels[VIEW_MEMORY];
	}
	if (sheet_rows(sheet) > 0)
		traceout_say(o, "definition",
			     "Total: from the first begin to the last end of a row of the device, "
			     "all streams together. Idle: nothing ran. Compute: a computation ran. "
			     "Other work: only communication, copies or synchronisation%s.",
			     other ? "" : " (there is none here)");
	if (negative)
		traceout_say(o, "negative",
			     "%llu rows end before they begin: rounding made them -1 us; without "
			     "--hta there are none.",
			     (unsigned long long)negative);
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_temporal(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace temporal",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_temporal_fill, argc, argv);
}

/* ---- idle --------------------------------------------------------------------------------------
 */

static int64_t trace_idle_delay = IDLE_DELAY_NS;

const struct opt *trace_idle_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{.name = "delay",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &trace_idle_delay,
		 .help = "shorter gaps lie between two kernels by themselves (default: 30us)"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_idle_columns[] = {
	TRACEOUT_FILE,
	{"stream", "STREAM", SHEET_COUNT, 0},
	{"device", "DEVICE", SHEET_TEXT, TABLE_ELIDE},
	{"category", "WAITED FOR", SHEET_TEXT, 0},
	{"idle_ns", "IDLE", SHEET_NS, 0},
	{"ratio", "OF IDLE", SHEET_PERCENT, 0},
	{"gaps", "GAPS", SHEET_COUNT, 0},
	{"mean_us", "MEAN", SHEET_US, 0},
	{"std_us", "", SHEET_US, SHEET_DATA},
	{"min_us", "", SHEET_US, SHEET_DATA},
	{"p25_us", "", SHEET_US, SHEET_DATA},
	{"p50_us", "MEDIAN", SHEET_US, 0},
	{"p75_us", "", SHEET_US, SHEET_DATA},
	{"max_us", "MAX", SHEET_US, 0},
};

static void trace_idle_kind(struct sheet *sheet, const struct idle_kind_time *k, const char *name)
{
	sheet_text(sheet, name);
	sheet_int(sheet, k->time);
	trace_number(sheet, 100 * k->ratio);
	sheet_int(sheet, (int64_t)k->gaps.count);
	trace_describe(sheet, &k->gaps);
}

static void trace_idle_sheet(const struct tracecmd_set *s, size_t i, const struct idle *idle,
			     struct sheet *sheet)
{
	const struct trace *t = s->trace[i];
	size_t k, kind;

	for (k = 0; k < idle->n; k++)
		for (kind = 0; kind < IDLE_KINDS; kind++) {
			const struct idle_stream *st = &idle->streams[k];
			const struct trace_track *track = trace_track(t, st->track);

			if (!st->kinds[kind].is_there)
				continue;
			traceout_file(sheet, s, i);
			sheet_int(sheet, st->stream);
			sheet_text(sheet, trace_text(t, track->pid_text, NULL));
			trace_idle_kind(sheet, &st->kinds[kind], idle_names[kind]);
		}
}

int trace_idle_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("idle", "Why streams had nothing to do", trace_idle_columns,
					ARRAY_LEN(trace_idle_columns));
	struct idle idle;
	size_t i;
	int err;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n; i++) {
		err = idle_new(&s->view[i], trace_idle_delay, &idle);
		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		trace_idle_sheet(s, i, &idle, sheet);
		idle_done(&idle);
	}
	if (sheet_rows(sheet) > 0)
		traceout_say(
			o, "definition",
			"host_wait: the launch came after the stream had run dry. kernel_wait: "
			"a gap below %g us between two pieces of work. other: the launch was "
			"there, but something else was awaited: an event, another stream.",
			(double)trace_idle_delay / 1e3);
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_idle(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace idle",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_idle_fill, argc, argv);
}

/* ---- overlap
 * -------------------------------------------------------------------------------------- */

static const struct sheet_column trace_overlap_columns[] = {
	TRACEOUT_FILE,
	{"communication_ns", "COMMUNICATION", SHEET_NS, 0},
	{"computation_ns", "COMPUTATION", SHEET_NS, 0},
	{"both_ns", "BOTH AT ONCE", SHEET_NS, 0},
	{"overlap_pct", "HIDDEN", SHEET_PERCENT, 0},
};

int trace_overlap_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("overlap", "Communication behind computation",
					trace_overlap_columns, ARRAY_LEN(trace_overlap_columns));
	struct overlap over;
	bool any = false;
	size_t i;
	int err;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n; i++) {
		err = overlap_of(&s->view[i], &over);
		if (err)
			return err;
		traceout_file(sheet, s, i);
		sheet_int(sheet, over.communication);
		sheet_int(sheet, over.computation);
		sheet_int(sheet, over.both);
		trace_number(sheet, over.pct);
		any = any || over.communication > 0;
	}
	if (any)
		traceout_say(o, "definition",
			     "Hidden: the part of communication that ran while something was "
			     "computed; the rest is waited for.");
	else
		traceout_missing(o, "no-communication",
				 "No communication kernels (NCCL, RCCL and others) in what was "
				 "looked at.");
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_overlap(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace overlap",
						  .views = TRACECMD_DEVICE_ROWS};

	return trace_run(&wish, trace_overlap_fill, argc, argv);
}
