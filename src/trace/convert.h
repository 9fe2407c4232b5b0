/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.h - a trace, or a part of it, into a new file that Perfetto and others read.
 */
#ifndef TRACE_CONVERT_H
#define TRACE_CONVERT_H

#include "trace/write.h"

struct convert_options {
	/* ns as in the trace, [from, to); both 0: all of it. */
	int64_t from, to;
	/* Steps N of ProfilerStep#N, [step_from, step_to); both 0: all. Sets from and to: from
	 * the first one's begin to the last one's end. */
	int64_t step_from, step_to;
	bool without_flows; /* no arrows from launches to their work */
};

struct convert_result {
	uint64_t rows, left_out; /* of the trace: written; outside the window */
	uint64_t memories;       /* [memory] events written */
	uint64_t flows;          /* arrows from launches to work written */
	uint64_t others;   /* events that the model does not hold, written: counters, instants,
			      other arrows */
	uint64_t bytes;    /* of JSON */
	uint64_t not_held; /* others that could not be kept: those of a pipe, or without
			      a time when a window is cut */
	int64_t from, to;  /* the window that was used; 0, 0 all */
};

/* Write T into PATH (.gz and .zst compress, "-" is stdout). A row of the host is written if it
 * overlaps the window, a row of the GPU if its launch begins in it, or, without a launch, if
 * it overlaps; other events if they lie in it, of arrows both ends. Events of a cut keep their
 * times. 0, -ENOENT (no such step: which there are),
 * -ENOMEM, what writing said. */
int convert_trace(struct trace *t, const struct convert_options *o, const char *path,
		  struct convert_result *ret, struct err *e);

/* The same into an open file, without head and end: for merge. has_event: a comma is due. */
int convert_events(struct trace *t, const struct convert_options *o, const struct write_shift *s,
		   struct write_sink *sink, bool *has_event, struct convert_result *ret,
		   struct err *e);

/* Events of the file that the model holds in no form. */
uint64_t convert_not_held(const struct trace *t);

#endif
