/* SPDX-License-Identifier: Apache-2.0
 *
 * others.h - the events of a trace file that the model does not hold (counters, instants,
 * arrows between calls, async events and whatever else has a phase), out of the file itself
 * into a written trace: read once more, one after the other, so that they need no memory.
 */
#ifndef TRACE_OTHERS_H
#define TRACE_OTHERS_H

#include "trace/write.h"

#define OTHERS_WAITING_MAX (64u << 20) /* bytes of halves of arrows that wait for the other */

struct others_options {
	int64_t from, to; /* ns as in the trace, [from, to) */
	bool is_cut;      /* only what lies in [from, to); of arrows both ends must */
	bool without_flows;
	bool without_launches; /* no arrows from launches to their work: they are drawn anew */
};

struct others_result {
	uint64_t written;
	uint64_t seen; /* events of the file that the model does not hold */
	uint64_t lost; /* in the window, but they could not be kept */
};

/* PATH is the trace's file. Ids that are numbers get s->flow added, texts its label in front.
 * has_event: a comma is due. 0; -ESPIPE: the file cannot be read a second time (a pipe); what
 * reading said. */
int others_write(const char *path, const struct others_options *o, const struct write_shift *s,
		 struct write_sink *sink, bool *has_event, struct others_result *ret,
		 struct err *e);

#endif
