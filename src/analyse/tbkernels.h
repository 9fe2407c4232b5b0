/* SPDX-License-Identifier: Apache-2.0
 *
 * tbkernels.h - torch-tb-profiler's kernel view: all kernels by name. docs/trace-numbers.md,
 * "Kernels". Times are in tbrows' unit.
 */
#ifndef ANALYSE_TBKERNELS_H
#define ANALYSE_TBKERNELS_H

#include "analyse/tbrows.h"

struct tbkernels_kernel {
	uint32_t name;
	bool tc_used;
	uint64_t calls;
	double total, mean, max, min;
	double blocks, occupancy; /* means weighted by duration, missing ones are 0 */
};

struct tbkernels {
	struct tbkernels_kernel *kernels; /* by total, largest first; equal ones by name */
	size_t n;
	double tc_ratio; /* share of kernel time that is tensor-core kernels' */
};

int tbkernels_new(const struct tbrows *b, struct tbkernels **ret);
void tbkernels_free(struct tbkernels *k); /* NULL is accepted */

#endif
