/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - what kinds of kernels ran for how long, alone and beside each other, and each
 * kernel by name. Definitions: docs/trace-numbers.md, "kernels"; HTA 0.6.1
 * get_gpu_kernel_breakdown().
 */
#ifndef ANALYSE_KERNELS_H
#define ANALYSE_KERNELS_H

#include "analyse/aggregate.h"
#include "trace/view.h"

/* Time in which exactly these classes ran. */
struct kernels_type {
	unsigned classes; /* bits: 1 computation, 2 communication, 4 memory */
	int64_t time;     /* ns, over all ranks; hta: pieces cut to whole us */
	double pct;       /* of all these, 1 decimal */
};

struct kernels {
	struct kernels_type types[7]; /* by time, longest first; those of no time are left out */
	size_t n_types;
	/* By class (communication, computation, memory), name, rank. */
	struct aggregate names;
};

#define KERNELS_MOST 10 /* names HTA shows of each class and rank */
#define KERNELS_QUANTILE 0.8

/* Of n ranks. 0, -ENOMEM. */
int kernels_new(const struct view *v, size_t n, const struct aggregate_options *o,
		struct kernels *ret);
void kernels_done(struct kernels *k);

/* "COMPUTATION overlapping MEMORY": the name of a set of classes. */
const char *kernels_type_name(unsigned classes);

#endif
