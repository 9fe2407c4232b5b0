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
	uint32_t view; /* place of its view */
	uint8_t class; /* what class_of() said */
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

#define AGGREGATE_NONE (-1)

/* Add to *a a row for each view, class and name, in this order (names by bytes). class_of() says
 * which class (enum view_class) a row of a view counts under, AGGREGATE_NONE: under none; devices:
 * all but rows with is_gpu are under none anyway. calls of "others", of which each class has its
 * own, is the number of calls under it. 0, -ENOMEM. */
int aggregate_add(struct aggregate *a, const struct view *v, size_t n,
		  const struct aggregate_options *o, bool devices,
		  int (*class_of)(const struct view_row *r, int arg), int arg);
void aggregate_done(struct aggregate *a);

#endif
