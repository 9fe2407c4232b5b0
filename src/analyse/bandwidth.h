/* SPDX-License-Identifier: Apache-2.0
 *
 * bandwidth.h - what copies and sets moved, over time and by kind. Definition:
 * docs/trace-numbers.md, "bandwidth"; HTA 0.6.1 get_memory_bw_time_series() and _summary().
 */
#ifndef ANALYSE_BANDWIDTH_H
#define ANALYSE_BANDWIDTH_H

#include "analyse/numeric.h"
#include "trace/view.h"

struct bandwidth_point {
	int64_t ts;   /* ns */
	double ts_us; /* the same; hta: in HTA's doubles */
	double gbps;  /* from here on, sum of all that run, 1e9 bytes a second; hta: below 0 where
			 rounding or equal times put an end before its start */
	uint32_t row; /* in view->rows, whose start or end it is */
};

struct bandwidth_kind {
	char name[16]; /* "Memcpy HtoD", "Memset", "Memcpy Unknown" */
	uint64_t copies;
	int64_t bytes;                /* of those that say it */
	int64_t time;                 /* ns, sum of durations */
	uint64_t instant;             /* copies of no duration: drawn as 1 us */
	size_t first, n;              /* in points */
	struct numeric_describe gbps; /* of the points above 0 */
};

struct bandwidth {
	struct bandwidth_point *points;
	struct bandwidth_kind *kinds; /* by name */
	size_t n;
};

/* All streams and devices of the rank together. Copies of no duration last 1 us, as in HTA; at
 * one time ends come before starts (hta: as HTA has them). 0, -ENOMEM, -ENODATA: no copy. */
int bandwidth_new(const struct view *v, struct bandwidth *ret);
void bandwidth_done(struct bandwidth *b);

#endif
