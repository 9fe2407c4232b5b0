/* SPDX-License-Identifier: Apache-2.0
 *
 * hist.h - binning observations between two commits. The scale is that of struct
 * sink_hist: a bin is the upper 16 bits of the double.
 */
#ifndef AGENT_HIST_H
#define AGENT_HIST_H

#include "wire/sink.h"

struct hist {
	uint32_t series;
	int64_t time_ns, step; /* of the last observation */
	uint64_t count, nan;
	double sum, min, max;
	struct sink_bin *table; /* open addressing; count 0 is free */
	size_t cap, len;
};

/* Add one. Allocation failure aborts; at most 65,536 bins (1 MiB). */
void hist_add(struct hist *h, double value, int64_t time_ns, int64_t step);

/* Push what there is to the sink; nothing if nothing was added. The hist keeps
 * it until hist_reset(). */
int hist_push(const struct hist *h, struct sink *s);

void hist_reset(struct hist *h);
void hist_done(struct hist *h);

#endif
