/* SPDX-License-Identifier: Apache-2.0
 *
 * write.h - writing trace files: a sink that compresses by the name of the file and replaces
 * it whole, and the parts of a Chrome/Kineto JSON out of the model. Arguments that
 * nobody reads are not written; events that the model does not hold come from others.h.
 */
#ifndef TRACE_WRITE_H
#define TRACE_WRITE_H

#include "base/buf.h"
#include "trace/trace.h"

/* ---- the sink ------------------------------------------------------------------------ */

struct write_sink; /* one thread at a time */

/* Begin the file PATH ("-" is stdout; .gz and .zst compress; "-" never does). Nothing is seen
 * at PATH before write_close(), and a process that dies leaves nothing behind where the file
 * system has O_TMPFILE. A device or a pipe at PATH is written to, as it comes; a symlink stays
 * and its target is replaced. 0 or -errno. */
int write_open(const char *path, struct write_sink **ret, struct err *e);
/* Errors stick: append as often as you like, look at write_close(). */
void write_put(struct write_sink *s, const void *data, size_t len);
/* Finish and put in place; frees the sink. ret_bytes (may be NULL): of text before
 * compression. */
int write_close(struct write_sink *s, uint64_t *ret_bytes, struct err *e);
/* Throw away; nothing stays. NULL is accepted. */
void write_abort(struct write_sink *s);

/* ---- parts of a trace ------------------------------------------------------------------- */

/* What is added to numbers so that the traces of several ranks stay apart in one file. */
struct write_shift {
	int64_t ts;                    /* ns */
	int64_t correlation, external; /* and flow ids */
	int64_t python;
	int64_t pid;       /* to pids that are numbers */
	int64_t flow;      /* to ids of events that the model does not hold (others.h) */
	const char *label; /* before pids that are texts and before process names; NULL none */
};

/* One event as JSON, without a comma. */
void write_row(struct trace *t, const struct trace_block *b, uint32_t i,
	       const struct write_shift *s, struct buf *out);
void write_memory(struct trace *t, const struct trace_memory *m, const struct write_shift *s,
		  struct buf *out);
/* Metadata events of all tracks, a comma before each but the first of the file. */
void write_tracks(struct trace *t, const struct write_shift *s, bool *has_event, struct buf *out);
/* The arrow from a launch to its work: phase 's' at the launch, 'f' at the work. */
void write_flow(struct trace *t, char phase, uint16_t track, int64_t ts, int64_t id,
		const struct write_shift *s, struct buf *out);
/* The members of the top object before "traceEvents", each with a comma behind. */
void write_head(struct trace *t, struct buf *out);

/* A JSON string: control characters escaped, bytes that are no UTF-8 as U+FFFD. */
void write_text(struct buf *out, const char *s, size_t len);
/* Nanoseconds as microseconds: "12.345"; whole ones without a point unless `point`. */
void write_us(struct buf *out, int64_t ns, bool point);

#endif
