/* SPDX-License-Identifier: Apache-2.0
 *
 * tracefit.h - what an analysis of a trace takes in memory, and a part of the trace that fits
 * into the memory given where all of it does not: whole steps in the middle, or a stretch of
 * time.
 */
#ifndef CLI_TRACEFIT_H
#define CLI_TRACEFIT_H

#include "trace/view.h"

/* What is made of the rows. */
enum tracefit_work {
	TRACEFIT_VIEW,         /* a view of all rows, exact, and what analyses make of it */
	TRACEFIT_VIEW_DEVICES, /* view_options.devices_only */
	TRACEFIT_HTA,          /* the same by the hta rules, which copy rows */
	TRACEFIT_HTA_DEVICES,
	TRACEFIT_TOP,    /* keyavg */
	TRACEFIT_STEPS,  /* rows, tree and steps of the plugin's tables */
	TRACEFIT_MEMORY, /* the same with allocations */
	TRACEFIT_WORKS
};

struct tracefit_need {
	enum tracefit_work work;
	uint32_t row_more, event_more; /* bytes of a row, of a memory event, for lists of them */
};

/* A stretch of time, [from, to) ns. */
struct tracefit_window {
	int64_t from, to;
};

struct tracefit {
	int64_t from, to;    /* ns, as in the trace; 0, 0: all of it */
	bool is_cut;         /* for memory; else only because these steps were asked for */
	int64_t first, last; /* numbers of the first and last step in it; -1: no whole step */
	uint64_t rows, of;   /* in it, of how many */
	int64_t begin, end;  /* of the whole trace: smallest ts, largest end; only with `to` */
	/* All of it by windows that fit one after the other (tracefit_windows()); none. */
	struct tracefit_window *windows;
	size_t n_windows;
};

/* Bytes for all rows. */
uint64_t tracefit_bytes(const struct trace *t, const struct tracefit_need *need);

/* For a view with these options (of which only the steps count) of at most `bytes`. Where all
 * rows fit ret->to is 0; else options with steps give the time of these, which saves memory too,
 * or of those in their middle that fit. 0, -ENOMEM or -EIO. */
int tracefit_find(struct trace *t, const struct view_options *o, const struct tracefit_need *need,
		  uint64_t bytes, struct tracefit *ret);

/* As cut, from step `from` to step `to` (not included), whatever that takes; ret->to is 0 if the
 * trace has none of them. */
int tracefit_steps(struct trace *t, int64_t from, int64_t to, const struct tracefit_need *need,
		   struct tracefit *ret);

/* Windows of whole steps (or of parts between which nothing runs on the host) that are all of the
 * trace together and take at most `bytes` each; at their borders no call, operator or annotation of
 * the host runs. ret->n_windows stays 0 where there are no such. The caller frees ret->windows. 0
 * or -EIO. */
int tracefit_windows(struct trace *t, const struct tracefit_need *need, uint64_t bytes,
		     struct tracefit *ret);

#endif
