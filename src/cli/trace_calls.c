/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_calls.c - `lapse trace launch`, `queue` and `bandwidth`: what the host gave the
 * devices to do, how much of it waited, and what was copied. Definitions are in
 * docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>

#include "analyse/bandwidth.h"
#include "analyse/launches.h"
#include "analyse/opdelay.h"
#include "analyse/queue.h"
#include "analyse/syncs.h"
#include "base/mem.h"
#include "cli/tracegaps.h"

/* ---- launch ---------------------------------------------------------------------------------- */

static bool trace_launch_bare, trace_launch_pairs, trace_launch_operators, trace_launch_syncs;

const struct opt *trace_launch_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{.name = "no-memory",
		 .type = OPT_FLAG,
		 .to = &trace_launch_bare,
		 .help = "launches of kernels only, without copies and sets"},
		{.name = "pairs",
		 .type = OPT_FLAG,
		 .to = &trace_launch_pairs,
		 .help = "list each call with its work too"},
		{.name = "operators",
		 .type = OPT_FLAG,
		 .to = &trace_launch_operators,
		 .help = "how long after the begin of an operator its first kernel was launched"},
		{.name = "syncs",
		 .type = OPT_FLAG,
		 .to = &trace_launch_syncs,
		 .help = "where the host waits for the device, and what that costs"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_launch_columns[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"work", "WORK", SHEET_COUNT, 0},
	{"cpu_ns", "IN CALLS", SHEET_NS, 0},
	{"gpu_ns", "ON DEVICE", SHEET_NS, 0},
	{"delay_mean_ns", "MEAN DELAY", SHEET_NS, 0},
	{"delay_max_ns", "MAX DELAY", SHEET_NS, 0},
	{"shorter", "SHORT", SHEET_COUNT, TABLE_DROP},
	{"shorter_plotted", "", SHEET_COUNT, SHEET_DATA},
	{"slow_calls", "SLOW", SHEET_COUNT, TABLE_DROP},
	{"late", "LATE", SHEET_COUNT, 0},
	{"calls_alone", "ALONE", SHEET_COUNT, 0},
	{"work_alone", "STRAY", SHEET_COUNT, 0},
	{"before", "BEFORE", SHEET_COUNT, TABLE_DROP},
};

static const struct sheet_column trace_launch_pair_columns[] = {
	TRACEOUT_FILE,
	{"correlation", "CORRELATION", SHEET_COUNT, TABLE_DROP},
	{"ts_ns", "AT", SHEET_NS, 0},
	{"cpu_ns", "CALL TAKES", SHEET_NS, 0},
	{"delay_ns", "DELAY", SHEET_NS, 0},
	{"gpu_ns", "WORK TAKES", SHEET_NS, 0},
	{"call", "CALL", SHEET_TEXT, TABLE_ELIDE},
	{"name", "WORK", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_launch_operator_columns[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"delay_us", "TO LAUNCH", SHEET_US, 0},
	{"wait_us", "TO KERNEL", SHEET_US, 0},
	{"operator", "OPERATOR", SHEET_TEXT, TABLE_ELIDE},
	{"kernels", "KERNELS", SHEET_TEXT, TABLE_CUT},
};

static const struct sheet_column trace_launch_sync_columns[] = {
	TRACEOUT_FILE,
	{"count", "COUNT", SHEET_COUNT, 0},
	{"wait_ns", "WAITS", SHEET_NS, 0},
	{"longest_ns", "LONGEST", SHEET_NS, TABLE_DROP},
	{"idle_ns", "THEN IDLE", SHEET_NS, 0},
	{"cost_ns", "COSTS", SHEET_NS, 0},
	{"call", "CALL", SHEET_TEXT, TABLE_ELIDE},
	{"operator", "OPERATOR", SHEET_TEXT, TABLE_ELIDE},
	{"python", "PYTHON", SHEET_TEXT, TABLE_ELIDE},
};

static int trace_launch_waits(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet =
		sheet_new("syncs", "Where the host waits for the device", trace_launch_sync_columns,
			  ARRAY_LEN(trace_launch_sync_columns));
	struct syncs *w;
	size_t i, k;
	int err;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n; i++) {
		err = syncs_new(&s->view[i], &w);
		if (err)
			return err;
		for (k = 0; k < w->n; k++) {
			traceout_file(sheet, s, i);
			sheet_int(sheet, (int64_t)w->sites[k].count);
			sheet_int(sheet, w->sites[k].wait);
			sheet_int(sheet, w->sites[k].longest);
			sheet_int(sheet, w->sites[k].idle);
			sheet_int(sheet, w->sites[k].cost);
			trace_text_cell(sheet, s->trace[i], w->sites[k].call);
			trace_text_cell(sheet, s->trace[i], w->sites[k].op);
			trace_text_cell(sheet, s->trace[i], w->sites[k].python);
		}
		syncs_free(w);
	}
	if (sheet_rows(sheet) == 0)
		traceout_missing(o, "no-syncs", "The host never waits for the device here.");
	return 0;
}

static void trace_launch_row(struct sheet *sheet, const struct launches *l)
{
	sheet_int(sheet, (int64_t)l->calls);
	sheet_int(sheet, (int64_t)l->n);
	sheet_int(sheet, l->cpu_sum);
	sheet_int(sheet, l->gpu_sum);
	if (l->n)
		sheet_int(sheet, l->delay_sum / (int64_t)l->n);
	else
		sheet_missing(sheet);
	sheet_int(sheet, l->delay_max);
	sheet_int(sheet, (int64_t)l->shorter);
	sheet_int(sheet, (int64_t)l->shorter_plotted);
	sheet_int(sheet, (int64_t)l->slow_calls);
	sheet_int(sheet, (int64_t)l->late);
	sheet_int(sheet, (int64_t)l->alone);
	sheet_int(sheet, (int64_t)l->orphans);
	sheet_int(sheet, (int64_t)l->before);
}

static void trace_launch_list(const struct tracecmd_set *s, size_t i, const struct launches *l,
			      struct sheet *sheet)
{
	const struct view *v = &s->view[i];
	size_t k;

	for (k = 0; k < l->n; k++) {
		const struct launches_pair *p = &l->pairs[k];

		traceout_file(sheet, s, i);
		sheet_int(sheet, p->correlation);
		sheet_int(sheet, v->rows[p->call].ts);
		sheet_int(sheet, p->cpu);
		sheet_int(sheet, p->delay);
		sheet_int(sheet, p->gpu);
		trace_text_cell(sheet, v->trace, v->rows[p->call].name);
		trace_text_cell(sheet, v->trace, v->rows[p->work].name);
	}
}

static int trace_launch_delays(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet =
		sheet_new("operators", "From operator to kernel", trace_launch_operator_columns,
			  ARRAY_LEN(trace_launch_operator_columns));
	struct opdelay d;
	size_t i, k;
	int err = 0;

	traceout_sheet(o, sheet);
	for (i = 0; i < s->n && !err; i++) {
		err = opdelay_new(&s->view[i], &d);
		for (k = 0; !err && k < d.n; k++) {
			traceout_file(sheet, s, i);
			sheet_int(sheet, (int64_t)d.rows[k].count);
			sheet_double(sheet, d.rows[k].delay_us);
			sheet_double(sheet, d.rows[k].wait_us);
			trace_text_cell(sheet, s->trace[i], d.rows[k].op);
			sheet_text(sheet, d.rows[k].sequence);
		}
		if (!err)
			opdelay_done(&d);
	}
	return err;
}

int trace_launch_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("launch", "Calls that give the device work",
					trace_launch_columns, ARRAY_LEN(trace_launch_columns)),
		     *pairs = NULL;
	struct launches l;
	size_t i;
	int err;

	traceout_sheet(o, sheet);
	traceout_say(o, "definition",
		     "Delay: from a call's end to its work's begin. Short: the work took less than "
		     "its call. Slow: calls above 50 us. Late: delays above 100 us. Alone: calls "
		     "without work; stray: work without a call; before: work that began before its "
		     "call.");
	if (trace_launch_pairs) {
		pairs = sheet_new("pairs", "Each call and its work", trace_launch_pair_columns,
				  ARRAY_LEN(trace_launch_pair_columns));
		traceout_sheet(o, pairs);
	}
	for (i = 0; i < s->n; i++) {
		err = launches_new(&s->view[i], trace_launch_bare, &l);
		if (err)
			return err;
		traceout_file(sheet, s, i);
		trace_launch_row(sheet, &l);
		if (pairs)
			trace_launch_list(s, i, &l, pairs);
		launches_done(&l);
	}
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_HOST);
	err = trace_launch_operators ? trace_launch_delays(s, o) : 0;
	return !err && trace_launch_syncs ? trace_launch_waits(s, o) : err;
}

int trace_launch(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace launch", .views = TRACECMD_DEVICE_ROWS};

	if (trace_launch_operators || trace_launch_syncs)
		wish.views = TRACECMD_ALL_ROWS;
	if (trace_launch_pairs) /* of two rows each */
		wish.need.row_more = trace_list_bytes(ARRAY_LEN(trace_launch_pair_columns)) / 2;
	return trace_run(&wish, trace_launch_fill, argc, argv);
}

/* ---- queue -------------------------------------------------------------------------------------
 */

#define TRACE_QUEUE_ROW 40 /* bytes of a row, beside those of the view */

static int64_t trace_queue_full = QUEUE_FULL;
static bool trace_queue_points;

const struct opt *trace_queue_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{.name = "full",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &trace_queue_full,
		 .lo = 1,
		 .hi = INT32_MAX,
		 .help = "a queue of N is full (default: 1024)"},
		{.name = "points",
		 .type = OPT_FLAG,
		 .to = &trace_queue_points,
		 .help = "list each change too"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_queue_columns[] = {
	TRACEOUT_FILE,
	{"stream", "STREAM", SHEET_COUNT, 0},
	{"device", "DEVICE", SHEET_TEXT, TABLE_ELIDE},
	{"points", "CHANGES", SHEET_COUNT, 0},
	{"mean_by_time", "MEAN", SHEET_NUMBER, 0},
	{"mean", "", SHEET_NUMBER, SHEET_DATA},
	{"std", "", SHEET_NUMBER, SHEET_DATA},
	{"min", "MIN", SHEET_NUMBER, TABLE_DROP},
	{"p25", "25 %", SHEET_NUMBER, TABLE_DROP},
	{"p50", "MEDIAN", SHEET_NUMBER, 0},
	{"p75", "75 %", SHEET_NUMBER, TABLE_DROP},
	{"max", "MAX", SHEET_NUMBER, 0},
	{"full_ns", "FULL FOR", SHEET_NS, 0},
	{"full_pct", "", SHEET_PERCENT, 0},
};

static const struct sheet_column trace_queue_point_columns[] = {
	TRACEOUT_FILE,
	{"stream", "STREAM", SHEET_COUNT, 0},
	{"ts_ns", "AT", SHEET_NS, 0},
	{"length", "LENGTH", SHEET_COUNT, 0},
};

static void trace_queue_stream(const struct tracecmd_set *s, size_t i, const struct queue *q,
			       size_t k, struct sheet *sheet, struct sheet *points)
{
	const struct queue_stream *st = &q->streams[k];
	const struct trace *t = s->trace[i];
	size_t n;

	traceout_file(sheet, s, i);
	sheet_int(sheet, st->stream);
	sheet_text(sheet, trace_text(t, trace_track(t, st->track)->pid_text, NULL));
	sheet_int(sheet, (int64_t)st->n);
	trace_number(sheet, st->mean_by_time);
	trace_describe(sheet, &st->lengths);
	sheet_int(sheet, st->full);
	trace_number(sheet, 100 * st->full_share);
	for (n = 0; points && n < st->n; n++) {
		traceout_file(points, s, i);
		sheet_int(points, st->stream);
		sheet_int(points, q->points[st->first + n].ts);
		sheet_int(points, q->points[st->first + n].length);
	}
}

int trace_queue_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("queue", "Work that waits on each stream",
					trace_queue_columns, ARRAY_LEN(trace_queue_columns)),
		     *points = NULL;
	struct queue q;
	size_t i, k;
	int err;

	traceout_sheet(o, sheet);
	if (trace_queue_points) {
		points = sheet_new("points", "Each change", trace_queue_point_columns,
				   ARRAY_LEN(trace_queue_point_columns));
		traceout_sheet(o, points);
	}
	for (i = 0; i < s->n; i++) {
		err = queue_new(&s->view[i], (int32_t)trace_queue_full, &q);
		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		for (k = 0; k < q.n; k++)
			trace_queue_stream(s, i, &q, k, sheet, points);
		queue_done(&q);
	}
	if (sheet_rows(sheet) > 0)
		traceout_say(o, "definition",
			     "Pieces of work that were launched and have not begun. Mean: by time; "
			     "the other figures are of the changes. Full: %lld and more, where a "
			     "launch blocks.",
			     (long long)trace_queue_full);
	else
		traceout_missing(o, "no-launches",
				 "No call here has work of the device that belongs to it.");
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_HOST);
	return 0;
}

int trace_queue(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace queue", .views = TRACECMD_DEVICE_ROWS};

	wish.need.row_more = TRACE_QUEUE_ROW;
	if (trace_queue_points)
		wish.need.row_more += trace_list_bytes(ARRAY_LEN(trace_queue_point_columns));
	return trace_run(&wish, trace_queue_fill, argc, argv);
}

/* ---- bandwidth ---------------------------------------------------------------------------------
 */

static bool trace_bandwidth_points;

const struct opt *trace_bandwidth_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{.name = "points",
		 .type = OPT_FLAG,
		 .to = &trace_bandwidth_points,
		 .help = "list each change too"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_bandwidth_columns[] = {
	TRACEOUT_FILE,
	{"kind", "KIND", SHEET_TEXT, 0},
	{"copies", "COPIES", SHEET_COUNT, 0},
	{"bytes", "BYTES", SHEET_BYTES, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"instant", "", SHEET_COUNT, SHEET_DATA},
	{"points", "", SHEET_COUNT, SHEET_DATA},
	{"mean_gbps", "MEAN GB/S", SHEET_NUMBER, 0},
	{"std_gbps", "", SHEET_NUMBER, SHEET_DATA},
	{"min_gbps", "MIN", SHEET_NUMBER, TABLE_DROP},
	{"p25_gbps", "", SHEET_NUMBER, SHEET_DATA},
	{"p50_gbps", "MEDIAN", SHEET_NUMBER, 0},
	{"p75_gbps", "", SHEET_NUMBER, SHEET_DATA},
	{"max_gbps", "MAX", SHEET_NUMBER, 0},
};

static const struct sheet_column trace_bandwidth_point_columns[] = {
	TRACEOUT_FILE,
	{"kind", "KIND", SHEET_TEXT, 0},
	{"ts_ns", "AT", SHEET_NS, 0},
	{"gbps", "GB/S", SHEET_NUMBER, 0},
};

static void trace_bandwidth_kind(const struct tracecmd_set *s, size_t i, const struct bandwidth *b,
				 size_t k, struct sheet *sheet, struct sheet *points)
{
	const struct bandwidth_kind *kind = &b->kinds[k];
	size_t n;

	traceout_file(sheet, s, i);
	sheet_text(sheet, kind->name);
	sheet_int(sheet, (int64_t)kind->copies);
	sheet_int(sheet, kind->bytes);
	sheet_int(sheet, kind->time);
	sheet_int(sheet, (int64_t)kind->instant);
	sheet_int(sheet, (int64_t)kind->gbps.count);
	trace_describe(sheet, &kind->gbps);
	for (n = 0; points && n < kind->n; n++) {
		traceout_file(points, s, i);
		sheet_text(points, kind->name);
		sheet_int(points, b->points[kind->first + n].ts);
		sheet_double(points, b->points[kind->first + n].gbps);
	}
}

int trace_bandwidth_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("bandwidth", "Copies", trace_bandwidth_columns,
					ARRAY_LEN(trace_bandwidth_columns)),
		     *points = NULL;
	struct bandwidth b;
	size_t i, k;
	int err;

	traceout_sheet(o, sheet);
	if (trace_bandwidth_points) {
		points = sheet_new("points", "Each change", trace_bandwidth_point_columns,
				   ARRAY_LEN(trace_bandwidth_point_columns));
		traceout_sheet(o, points);
	}
	for (i = 0; i < s->n; i++) {
		err = bandwidth_new(&s->view[i], &b);
		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		for (k = 0; k < b.n; k++)
			trace_bandwidth_kind(s, i, &b, k, sheet, points);
		bandwidth_done(&b);
	}
	if (sheet_rows(sheet) > 0)
		traceout_say(
			o, "definition",
			"GB/s (1e9 bytes) as the trace tells it of each copy, summed over what "
			"runs at once; mean and others are of the changes, not of the time.");
	else
		traceout_missing(o, "no-copies", "No copies and no sets in what was looked at.");
	tracegaps_say(o, s, TRACEGAPS_GPU);
	return 0;
}

int trace_bandwidth(int argc, char **argv)
{
	struct tracecmd_wish wish = {.command = "trace bandwidth", .views = TRACECMD_DEVICE_ROWS};

	if (trace_bandwidth_points)
		wish.need.row_more = trace_list_bytes(ARRAY_LEN(trace_bandwidth_point_columns));
	return trace_run(&wish, trace_bandwidth_fill, argc, argv);
}
