/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_timeline.c - `lapse trace timeline`: a trace in the compact form that the dashboard draws,
 * or all about one of its events (docs/http.md, "timeline").
 */
#include "cli/trace_subs.h"

#include "cli/outfile.h"
#include "cli/traceevent.h"
#include "cli/tracelines.h"

#include <stdio.h>
#include <unistd.h>

#define TIMELINE_EVENTS 200000

static const char *timeline_file;
static int64_t timeline_begin = -1, timeline_end = -1, timeline_events = -1, timeline_event = -1;

const struct opt *trace_timeline_options(void)
{
	static const struct opt rows[] = {
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &timeline_file,
		 .help = "write into FILE instead of standard output"},
		{.name = "begin",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &timeline_begin,
		 .help = "only from TIME after the trace's begin on"},
		{.name = "end",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &timeline_end,
		 .help = "only up to TIME after the trace's begin"},
		TRACECMD_STEPS,
		{.name = "events",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &timeline_events,
		 .lo = 1000,
		 .hi = 10000000,
		 .help = "at most N bars: short neighbours become one (default: 200000)"},
		{.name = "event",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &timeline_event,
		 .lo = 0,
		 .hi = UINT32_MAX,
		 .help = "instead, as JSON: all about the event at place N of traceEvents"},
		{.name = "memory",
		 .type = OPT_BYTES,
		 .value = "SIZE",
		 .to = &tracecmd_opt.memory,
		 .lo = 1 << 20,
		 .hi = INT64_MAX,
		 .help = "memory for the events of the file (default: 1G)"},
		{.name = "quiet",
		 .letter = 'q',
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.quiet,
		 .help = "no progress, and nothing on stderr about what is wrong inside the file"},
		{0},
	};

	return rows;
}

/* Bytes into the file, or to standard output. */
static int timeline_put(struct buf *out, struct err *e)
{
	struct outfile f = {0};
	int err;

	tracecmd_signals_default();
	err = out->error ? err_set(e, out->error, "the timeline would be larger than 1 GiB") : 0;
	if (!err)
		err = outfile_open(&f, timeline_file, e);
	if (!err) {
		err = outfile_write(&f, out->data, out->len, e);
		if (outfile_close(&f, !err, e))
			err = e->code;
	}
	return err;
}

static int timeline_bars(struct trace *t, struct tracelines_wish *wish, struct err *e)
{
	struct tracelines l = {0};
	struct buf out;
	int err;

	wish->begin = timeline_begin;
	wish->end = timeline_end;
	wish->events = timeline_events < 0 ? TIMELINE_EVENTS : (size_t)timeline_events;
	buf_init(&out, TRACELINES_MAX);
	err = tracelines_collect(&l, t, wish);
	if (!err) {
		tracelines_write(&l, &out);
		err = timeline_put(&out, e);
	}
	buf_done(&out);
	tracelines_done(&l);
	return err;
}

static int timeline_one(struct trace *t, struct err *e)
{
	struct buf out;
	int err;

	buf_init(&out, TRACELINES_MAX);
	err = traceevent_write(t, (uint32_t)timeline_event, &out, e);
	buf_putc(&out, '\n');
	if (!err)
		err = timeline_put(&out, e);
	buf_done(&out);
	return err;
}

/* Options that do not go together. */
static bool timeline_check(void)
{
	bool part = timeline_begin >= 0 || timeline_end >= 0;
	const char *why = NULL;

	if (timeline_event >= 0 && (part || tracecmd_opt.steps || timeline_events >= 0))
		why = "--event does not go with --begin, --end, --steps and --events";
	else if (tracecmd_opt.steps && part)
		why = "--steps does not go with --begin and --end";
	else if (timeline_event < 0 && !timeline_file && isatty(STDOUT_FILENO))
		why = "--output FILE says where to: it is no text";
	if (why)
		fprintf(stderr, "lapse trace timeline: %s\n", why);
	return !why;
}

int trace_timeline(int argc, char **argv)
{
	static const struct tracecmd_wish load = {
		.command = "trace timeline", .least = 1, .most = 1};
	struct tracelines_wish wish = {0};
	struct tracecmd_set s;
	struct err e = {0};
	int status, err;

	if (!timeline_check() || tracecmd_steps("trace timeline", &wish.step_from, &wish.step_to))
		return 2;
	status = tracecmd_load(&load, argc, argv, &s);
	if (!status) {
		err = timeline_event < 0 ? timeline_bars(s.trace[0], &wish, &e)
					 : timeline_one(s.trace[0], &e);
		if (err)
			status = tracecmd_fail(&s, err, &e);
	}
	tracecmd_done(&s);
	return status;
}
