/* SPDX-License-Identifier: Apache-2.0
 *
 * tbsteps.h - the step-time breakdown of torch-tb-profiler's overview: where the time of each
 * profiler step went. docs/trace-numbers.md, "Steps". Times are in tbrows' unit.
 */
#ifndef ANALYSE_TBSTEPS_H
#define ANALYSE_TBSTEPS_H

#include "analyse/tbspan.h"
#include "analyse/tbtree.h"

/* What time is spent on; each instant goes to the first of these that runs. */
enum tbsteps_role {
	TBSTEPS_KERNEL,
	TBSTEPS_MEMCPY,
	TBSTEPS_MEMSET,
	TBSTEPS_COMMUNICATION,
	TBSTEPS_RUNTIME,
	TBSTEPS_LOADER,
	TBSTEPS_CPU,
	TBSTEPS_OTHER,
	TBSTEPS_ROLES
};

struct tbsteps_step {
	int64_t number; /* N of ProfilerStep#N; 0 where the trace has no steps */
	double ts, end; /* moved to the device side where it has work of a step */
	double cost[TBSTEPS_ROLES];
	double total;
	double computation, communication, overlap, other; /* communication overview */
	uint64_t work;                                     /* GPU events launched in the step */
};

struct tbsteps {
	struct tbsteps_step *steps;
	size_t n;
	double average[TBSTEPS_ROLES], average_total;
	struct tbspans roles[TBSTEPS_OTHER]; /* merged */
	double ts, end;                      /* start of the first step, end of the last */
	bool has_marks;                      /* steps are ProfilerStep rows; else one made of all */
	size_t cut;                          /* steps at the end that are left out */
	bool has_runtime, has_kernel, has_communication, has_memory_work;
	bool uses_dp, uses_ddp, has_nccl, has_gloo;
};

extern const char *const tbsteps_role_names[TBSTEPS_ROLES]; /* "Kernel", ..., "CPU Exec" */

int tbsteps_new(const struct tbrows *b, const struct tbtree *t, struct tbsteps **ret);
void tbsteps_free(struct tbsteps *s); /* NULL is accepted */

#endif
