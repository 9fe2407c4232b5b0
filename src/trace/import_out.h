/* SPDX-License-Identifier: Apache-2.0
 *
 * import_out.h - what importers read, as a trace in the trace event format, so that
 * trace_read() and viewers read it, and stacks as collapsed text. docs/trace.md, "lapse trace
 * import", says what becomes what.
 */
#ifndef TRACE_IMPORT_OUT_H
#define TRACE_IMPORT_OUT_H

#include "trace/import_folded.h"
#include "trace/import_mprof.h"
#include "trace/import_pstats.h"
#include "trace/import_smi.h"
#include "trace/import_snapshot.h"
#include "trace/import_timeline.h"
#include "trace/write.h"

#include <stdbool.h>

struct import_out {
	struct write_sink *sink;
	struct buf text;
	bool has_event;
	uint64_t events; /* without metadata */
};

/* The head up to the list of events; base_ns: time 0, ns since 1970, 0 unknown. */
void import_out_begin(struct import_out *o, struct write_sink *sink, const char *kind,
		      int64_t base_ns);
/* Further members of the top object; before the list of events only. */
void import_out_list(struct import_out *o);
/* Begin an event: phase, category (may be NULL), name, place, time; and end it. Between them
 * append further members to text, each with a comma before it. */
void import_out_event(struct import_out *o, char phase, const char *cat, const char *name,
		      size_t len, int64_t pid, int64_t tid, int64_t ts);
void import_out_event_end(struct import_out *o);
/* A complete event without arguments. */
void import_out_row(struct import_out *o, const char *cat, const char *name, size_t len,
		    int64_t pid, int64_t tid, int64_t ts, int64_t dur);
/* Name of a process (tid < 0) or thread. */
void import_out_name(struct import_out *o, int64_t pid, int64_t tid, const char *name, size_t len);
/* Close the list and the object. 0, or what making the text said (-ENOMEM, -EFBIG). */
int import_out_end(struct import_out *o);

/* Nanoseconds that a weight of this unit stands for: of "seconds", "milliseconds",
 * "microseconds", "nanoseconds" what they say; a byte is 1 ns, anything else 1 us. */
double import_out_scale(const char *unit);

/* Whole traces. ret_events: how many were written. 0, -EOVERFLOW (weights of more than 73
 * years), -EBADMSG (nothing in it that has a time), -ENOMEM. */
int import_out_folded(struct write_sink *s, const struct import_folded *f, const char *kind,
		      uint64_t *ret_events, struct err *e);
int import_out_pstats(struct write_sink *s, const struct import_pstats *p, uint64_t *ret_events,
		      struct err *e);
int import_out_smi(struct write_sink *s, const struct import_smi *m, uint64_t *ret_events,
		   struct err *e);
int import_out_snapshot(struct write_sink *s, const struct import_snapshot *m, uint64_t *ret_events,
			struct err *e);
int import_out_timeline(struct write_sink *s, const struct import_timeline *t, uint64_t *ret_events,
			struct err *e);
int import_out_mprof(struct write_sink *s, const struct import_mprof *m, uint64_t *ret_events,
		     struct err *e);

/* Collapsed stacks, equal ones as often as they are there. 0, -ENOMEM. */
int import_out_collapsed(struct write_sink *s, const struct import_folded *f);

#endif
