/* SPDX-License-Identifier: Apache-2.0
 *
 * tbgpu.h - how busy each GPU is: utilisation, estimated SM efficiency, estimated achieved
 * occupancy, share of tensor cores, and utilisation over time. docs/trace-numbers.md, "GPU".
 */
#ifndef ANALYSE_TBGPU_H
#define ANALYSE_TBGPU_H

#include "analyse/tbspan.h"
#include "analyse/tbsteps.h"

struct tbgpu_bucket {
	double ts, utilisation;
};

struct tbgpu_device {
	int64_t id; /* args.device */
	uint64_t kernels;
	double utilisation;   /* share of the steps in which a kernel ran (NCCL's too) */
	double sm_efficiency; /* NAN where no kernel tells "blocks per SM" */
	double occupancy;     /* percent; NAN where no kernel tells it */
	/* Share of kernel time that is tensor-core kernels'. plugin: of kernels launched by
	 * operators, NAN if there are none; exact: of all kernels but collectives. */
	double tensor_cores;
	double tensor_time, kernel_time; /* the two that tensor_cores is made of */
	struct tbspans busy;             /* merged */
	struct tbvalueds sm;             /* SM efficiency over time */
	struct tbgpu_bucket *line;       /* the last one only ends the one before: 0 */
	size_t n_line;
	bool has_blocks, has_occupancy;
};

struct tbgpu {
	struct tbgpu_device *devices; /* by id */
	size_t n;
	double bucket; /* length of a bucket of the line: a power of ten of us, in tbrows' unit */
	bool has_blocks, has_occupancy; /* some kernel tells it */
	double eligible_ratio; /* share of kernel time under operators that could use tensor
				  cores (the innermost ones); of kernels launched by operators */
};

int tbgpu_new(const struct tbrows *b, const struct tbtree *t, const struct tbsteps *s,
	      struct tbgpu **ret);
void tbgpu_free(struct tbgpu *g); /* NULL is accepted */

#endif
