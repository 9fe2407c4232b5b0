/* SPDX-License-Identifier: Apache-2.0
 *
 * aggregate.h - durations of rows by name: calls, sum, extremes, mean and spread, and HTA's
 * way of putting the small ones together under "others".
 */
#ifndef ANALYSE_AGGREGATE_H
#define ANALYSE_AGGREGATE_H

#include "trace/view.h"

struct aggregate_row {
	const char *name; /* of the trace's texts, or "others" */
	uint64_t calls;
	int64_t sum, max, min;  /* ns */
	double mean_us, std_us; /* std: n - 1; 0 for one call */
	int64_t rank;
	uint8_t class; /* enum view_class; of kernels */
};

struct aggregate {
	struct aggregate_row *rows;
	size_t n;
	size_t cap;
};

struct aggregate_options {
	/* hta: with more names than this, those behind it and those whose running sum lies
	 * above the quantile become "others", and the statistics are of the sums of names, not
	 * of calls. 0: all names as they are (what exact should use). */
	size_t most_names;
	double quantile; /* 0.8 is HTA's */
};

/* Add to *a a row for each name in the order of the name (bytes): rows of the view for which
 * want() is true. calls of "others" is the number of calls under it. 0, -ENOMEM. */
int aggregate_add(struct aggregate *a, const struct view *v, const struct aggregate_options *o,
		  bool (*want)(const struct view_row *r, int arg), int arg);
void aggregate_done(struct aggregate *a);

#endif
