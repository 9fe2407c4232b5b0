/* SPDX-License-Identifier: Apache-2.0
 *
 * standout.h - what stands out in a run: one figure above its threshold each, with
 * where it was measured. Facts, no verdicts.
 */
#ifndef REPORT_STANDOUT_H
#define REPORT_STANDOUT_H

#include "report/figures.h"
#include "report/usage.h"

enum standout_unit {
	STANDOUT_TIME,  /* share of the time, 0 to 1 */
	STANDOUT_SHARE, /* 0 to 1 */
	STANDOUT_COUNT,
	STANDOUT_BYTES
};

struct standout {
	const char *id;     /* "gpu-idle": never renamed */
	const char *metric; /* that it is made from */
	const char *of;     /* the metric that it is a share of; NULL: none */
	const char *host;
	char place[2 * USAGE_LABEL_MAX]; /* "GPU 0", "sda"; "" the host as a whole */
	const char *text;                /* "memory was used up to" */
	double value, threshold;         /* value is above it */
	enum standout_unit unit;
};

/* Find all; in a fixed order of ids, then hosts and places. The caller frees the array. */
struct standout *standout_find(const struct figures *f, const struct usage *u, size_t *ret_n);

/* A value of this unit: "12.3 % of the time", "64.0 MiB". */
const char *standout_value(char out[FMT_MAX], enum standout_unit unit, double v);

#endif
