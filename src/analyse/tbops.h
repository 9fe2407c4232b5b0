/* SPDX-License-Identifier: Apache-2.0
 *
 * tbops.h - torch-tb-profiler's operator view, and its table of kernels per operator and
 * launch shape. docs/trace-numbers.md, "Operators". Times are in tbrows' unit.
 */
#ifndef ANALYSE_TBOPS_H
#define ANALYSE_TBOPS_H

#include "analyse/tbtree.h"

/* What makes operators one row, beside the name. */
enum tbops_group {
	TBOPS_NAME = 0,
	TBOPS_SHAPE = 1, /* "Input Dims" */
	TBOPS_STACK = 2  /* "Call stack" */
};

struct tbops_op {
	uint32_t name, dims, stack; /* texts; 0 where not grouped by */
	uint64_t calls;
	double host, self_host, device, self_device, tc_self, tc_total;
	bool tc_eligible; /* as its first call */
};

struct tbops_kernel {
	uint32_t name, op; /* texts; op 0: no operator, "CallTreeRoot" */
	bool has_grid, has_block;
	int32_t grid[3], block[3], registers, shared_memory;
	uint64_t calls;
	double total, min, max;
	double blocks, occupancy; /* means weighted by duration, missing ones are 0 */
	bool tc_used, op_tc_eligible;
};

struct tbops {
	struct tbops_op *ops; /* in the order of their first end */
	size_t n;
	struct tbops_kernel *kernels;
	size_t n_kernels;
};

int tbops_new(const struct tbtree *t, enum tbops_group group, struct tbops **ret);
void tbops_free(struct tbops *o); /* NULL is accepted */

/* tc_self / self_device and tc_total / device, in percent; 0 without device time. */
double tbops_tc_self_percent(const struct tbops_op *op);
double tbops_tc_total_percent(const struct tbops_op *op);

#endif
