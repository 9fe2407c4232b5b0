/* SPDX-License-Identifier: Apache-2.0
 *
 * oneevent.h - all that a trace says of one event: its own time, and the events that it began or
 * that began it (docs/trace.md, "lapse trace timeline").
 */
#ifndef ANALYSE_ONEEVENT_H
#define ANALYSE_ONEEVENT_H

#include "analyse/lanes.h"

#define ONEEVENT_LINKS 64u /* a graph's launch has thousands */

enum oneevent_role {
	ONEEVENT_LAUNCH,   /* the call that launched the event: the last one with its correlation */
	ONEEVENT_WORK,     /* work of a device that the event launched */
	ONEEVENT_FORWARD,  /* the operator whose gradient the event computes: of those with its
			      sequence number the one that began last, as PyTorch's arrows have it */
	ONEEVENT_BACKWARD, /* the outermost operator that computes the event's gradient */
	ONEEVENT_ROLES
};

struct oneevent_link {
	enum oneevent_role role;
	uint32_t index; /* place in traceEvents */
	uint32_t name;
	uint16_t track;
	uint8_t cat;
	int64_t ts, dur; /* ns */
};

struct oneevent {
	int64_t first;   /* ts of the first event of the trace */
	int64_t ts, dur; /* ns */
	int64_t self;    /* dur without what lies below it in the timeline, ns */
	uint32_t row;    /* of the trace */
	uint32_t index, name;
	uint16_t track;
	uint8_t cat;
	struct oneevent_link links[ONEEVENT_LINKS]; /* in the file's order */
	size_t n_links;
	uint64_t links_left_out;
};

/* The event at that place in traceEvents. 0; -ENOENT: there is no event with a begin and an end;
 * -ENOMEM; -EIO: rows could not be read back. */
int oneevent_find(struct trace *t, uint32_t index, struct oneevent *ret);

#endif
