/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.h - the traces of several ranks in one file, for viewers: processes, correlations
 * and ids of each rank kept apart, times on one clock.
 */
#ifndef TRACE_MERGE_H
#define TRACE_MERGE_H

#include "trace/convert.h"

#define MERGE_PID_STEP                                                                             \
	10000000ll /* added to number pids for each place in the list: pids of                     \
		      Linux are below 2^22 */
#define MERGE_TRACES_MAX 100000u

struct merge_options {
	/* ns to add to the times of each trace beside what baseTimeNanoseconds says (say, found by
	 * aligning collectives); NULL: none. */
	const int64_t *offsets;
	struct convert_options cut; /* by steps: each trace by its own marks; from, to: on the
				       clock of the first trace */
};

struct merge_result {
	struct convert_result sum;
	bool is_one_clock; /* all traces have the same kind of base time: times are comparable as
			      far as the hosts' clocks agree */
};

/* Write n traces into PATH as one trace: base time and metadata of the first; pids that are
 * numbers plus place * MERGE_PID_STEP, others and process names after "rank N"; correlation,
 * external and python ids beyond those of the traces before. 0, -EINVAL (n 0 or above the
 * maximum), or as convert_trace(). */
int merge_traces(struct trace *const t[], size_t n, const struct merge_options *o, const char *path,
		 struct merge_result *ret, struct err *e);

#endif
