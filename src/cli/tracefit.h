/* SPDX-License-Identifier: Apache-2.0
 *
 * tracefit.h - a part of a trace whose rows fit into the memory given, where all do not:
 * whole steps in the middle, or a stretch of time.
 */
#ifndef CLI_TRACEFIT_H
#define CLI_TRACEFIT_H

#include "trace/view.h"

struct tracefit {
	int64_t from, to;    /* ns, as in the trace; 0, 0: all of it fits */
	int64_t first, last; /* numbers of the first and last step in it; -1: no whole step */
	uint64_t rows, of;   /* about, in it, of how many */
};

/* For a view with these options of at most `bytes`. Options with steps give the time of these
 * steps, which saves memory too. 0 or -ENOMEM. */
int tracefit_find(struct trace *t, const struct view_options *o, uint64_t bytes,
		  struct tracefit *ret);

#endif
