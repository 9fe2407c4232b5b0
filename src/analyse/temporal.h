/* SPDX-License-Identifier: Apache-2.0
 *
 * temporal.h - how long the devices of a rank computed, did something else, or nothing.
 * Definition: docs/trace-numbers.md, "temporal"; HTA 0.6.1 get_temporal_breakdown().
 */
#ifndef ANALYSE_TEMPORAL_H
#define ANALYSE_TEMPORAL_H

#include "trace/view.h"

struct temporal {
	int64_t total;       /* ns from the first row's start to the last group's end */
	int64_t idle;        /* total less the time in which any row ran */
	int64_t compute;     /* time in which a computation ran */
	int64_t non_compute; /* the rest; hta: may be below 0, where HTA stops with an assertion */
	double idle_pct, compute_pct, non_compute_pct; /* of total, 2 decimals as HTA rounds */
	uint64_t rows, kernels[VIEW_CLASSES];          /* rows of the device, and by class */
	uint64_t negative;                             /* rows that end before they begin */
};

/* All devices of the rank together. 0, -ENOMEM, -ENODATA: no row of a device. */
int temporal_of(const struct view *v, struct temporal *ret);

#endif
