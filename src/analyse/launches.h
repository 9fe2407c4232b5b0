/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - each call that gave the device work with that work: how long the call took, the
 * work, and the wait between them. Definition: docs/trace-numbers.md, "launch"; HTA 0.6.1
 * get_cuda_kernel_launch_stats().
 */
#ifndef ANALYSE_LAUNCHES_H
#define ANALYSE_LAUNCHES_H

#include "trace/view.h"

struct launches_pair {
	int64_t correlation;
	int64_t cpu, gpu;    /* ns, durations */
	int64_t delay;       /* ns from the call's end to the work's start; 0 if it began before */
	double delay_us;     /* the same; hta: in HTA's doubles */
	uint32_t call, work; /* places in view->rows */
};

struct launches {
	struct launches_pair *pairs; /* by the call's ts, then the work's */
	size_t n;
	int64_t cpu_sum, gpu_sum, delay_sum, delay_max;
	double delay_sum_us;      /* summed as numpy sums */
	uint64_t shorter;         /* work shorter than its call */
	uint64_t shorter_plotted; /* of these, calls of 50 us at most */
	uint64_t slow_calls;      /* calls above 50 us */
	uint64_t late;            /* delays above 100 us */
	uint64_t calls;           /* calls with work */
	uint64_t alone;           /* calls of these names without any work here */
	uint64_t orphans;         /* work without any call here */
	uint64_t before;          /* work that began before its call: clocks that disagree */
};

#define LAUNCH_SLOW_NS 50000
#define LAUNCH_LATE_NS 100000

/* exact: every call that launches, copies or sets, of CUDA, HIP, Level Zero and drivers, with
 * all its work (a graph launch has many). hta: those that HTA knows. without_memory: only
 * launches. 0, -ENOMEM. */
int launches_new(const struct view *v, bool without_memory, struct launches *ret);
void launches_done(struct launches *l);

#endif
