/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - the share of communication that ran while something was computed.
 * Definition: docs/trace-numbers.md, "overlap"; HTA 0.6.1 get_comm_comp_overlap().
 */
#ifndef ANALYSE_OVERLAP_H
#define ANALYSE_OVERLAP_H

#include "trace/view.h"

struct overlap {
	int64_t communication, computation, both; /* ns */
	double pct; /* 100 * both / communication, 2 decimals; NaN without communication */
};

/* 0, -ENOMEM. */
int overlap_of(const struct view *v, struct overlap *ret);

#endif
