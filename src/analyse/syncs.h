/* SPDX-License-Identifier: Apache-2.0
 *
 * syncs.h - the places in which the host waits for the GPU: each waiting call by the operator
 * and the Python function that made it, how long, and how long the GPU then had nothing.
 * docs/trace-numbers.md, "Synchronisation".
 */
#ifndef ANALYSE_SYNCS_H
#define ANALYSE_SYNCS_H

#include "trace/view.h"

struct syncs_site {
	uint32_t call;   /* text id: cudaStreamSynchronize, ... */
	uint32_t op;     /* the outermost reading operator around it (aten::item), else the
			    innermost operator; 0 none */
	uint32_t python; /* the innermost Python function around it; 0 none */
	uint64_t count;
	int64_t wait, longest; /* ns in the call */
	int64_t idle; /* ns from the end of the call to the next work of the GPU that is launched
			 after it */
	int64_t cost; /* of idle, each time at most as long as the wait took: without it the
			 launch would have come so much earlier (docs/trace-numbers.md) */
};

struct syncs {
	struct syncs_site *sites; /* by cost, then by wait, the largest first */
	size_t n;
	uint64_t count, in_steps; /* waiting calls; of them within a step */
	uint64_t steps;
	int64_t wait;
};

/* Of a view of rule VIEW_EXACT. 0, -ENOMEM. */
int syncs_new(const struct view *v, struct syncs **ret);
void syncs_free(struct syncs *s);

#endif
