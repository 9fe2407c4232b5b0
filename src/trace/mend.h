/* SPDX-License-Identifier: Apache-2.0
 *
 * mend.h - what to do about an event that is not JSON.
 */
#ifndef TRACE_MEND_H
#define TRACE_MEND_H

#include "trace/reading.h"

#define MEND_DEPTH 64
#define MEND_MAX (1 << 20) /* bytes of an event that is worth mending */

/* Where the event at p ends at the latest: before the next one, or before the ] of the
 * events, or at the end of the text. NULL: not before `end`, more may come. */
const unsigned char *mend_boundary(const unsigned char *p, const unsigned char *end, bool at_end);

/* The event at p, that event_parse() just refused: taken into the trace if its parts can be
 * told apart, else lost and noted. *ret_p is where it ends. EVENT_OK or EVENT_MORE; EVENT_BAD
 * with r->rc. */
enum event_result mend_event(struct reader *r, const unsigned char *p, const unsigned char **ret_p,
			     bool *ret_lost);

#endif
