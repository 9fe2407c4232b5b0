/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_timeline.c - `lapse trace timeline`: a trace in the compact form that the dashboard draws
 * (docs/http.md, "timeline").
 */
#include "cli/trace_subs.h"

#include "cli/outfile.h"
#include "cli/tracelines.h"

#include <stdio.h>
#include <unistd.h>

#define TIMELINE_EVENTS 200000

static const char *timeline_file;
static int64_t timeline_begin = -1, timeline_end = -1, timeline_events = TIMELINE_EVENTS;

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

static int timeline_out(struct tracelines *l, struct err *e)
{
	struct outfile f = {0};
	struct buf out;
	int err;

	buf_init(&out, TRACELINES_MAX);
	tracelines_write(l, &out);
	tracecmd_signals_default();
	err = out.error ? err_set(e, out.error, "the timeline would be larger than 1 GiB") : 0;
	if (!err)
		err = outfile_open(&f, timeline_file, e);
	if (!err) {
		err = outfile_write(&f, out.data, out.len, e);
		if (outfile_close(&f, !err, e))
			err = e->code;
	}
	buf_done(&out);
	return err;
}

int trace_timeline(int argc, char **argv)
{
	static const struct tracecmd_wish load = {
		.command = "trace timeline", .least = 1, .most = 1};
	struct tracelines_wish wish = {
		.begin = timeline_begin, .end = timeline_end, .events = (size_t)timeline_events};
	struct tracelines l = {0};
	struct tracecmd_set s;
	struct err e = {0};
	int status, err;

	if (!timeline_file && isatty(STDOUT_FILENO)) {
		fputs("lapse trace timeline: --output FILE says where to: it is no text\n", stderr);
		return 2;
	}
	if (tracecmd_opt.steps && (timeline_begin >= 0 || timeline_end >= 0)) {
		fputs("lapse trace timeline: --steps does not go with --begin and --end\n", stderr);
		return 2;
	}
	if (tracecmd_steps("trace timeline", &wish.step_from, &wish.step_to))
		return 2;
	status = tracecmd_load(&load, argc, argv, &s);
	if (!status) {
		err = tracelines_collect(&l, s.trace[0], &wish);
		if (!err)
			err = timeline_out(&l, &e);
		if (err)
			status = tracecmd_fail(&s, err, &e);
		tracelines_done(&l);
	}
	tracecmd_done(&s);
	return status;
}
