/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.h - the device's rows of a view as merged intervals, by class, and a sweep over
 * several such sets. Times are doubles that hold the view's: ns since view.first for exact
 * (whole, so sums are exact), us for the hta rules (HTA's own doubles).
 */
#ifndef ANALYSE_SPANS_H
#define ANALYSE_SPANS_H

#include "trace/view.h"

#define SPANS_ALL ((1u << VIEW_CLASSES) - 1)

struct spans_one {
	double ts, end;
};

struct spans {
	struct spans_one *list; /* sorted, disjoint */
	size_t n;
	double total; /* sum of lengths */
};

/* The device's rows. */
struct spans_row {
	struct spans_one span;
	uint8_t class;
};

struct spans_rows {
	struct spans_row *list;
	size_t n;
	uint64_t negative; /* end before they begin */
	/* hta with such rows: as HTA's table has them, for then the order of equal times counts.
	 * Else by time. */
	bool is_by_table;
};

/* 0, -ENOMEM. */
int spans_rows_new(const struct view *v, struct spans_rows *ret);
void spans_rows_done(struct spans_rows *s);
/* Sort them by ts in HTA's order of equal times, where that counts. 0, -ENOMEM. */
int spans_rows_order(struct spans_rows *s);

/* Merge those rows whose class is in classes (bits 1 << enum view_class). exact: rows that
 * end before they begin count nothing. hta: as merge_kernel_intervals() does, where a row of
 * -1 us makes a group of negative length. */
int spans_merge(const struct view *v, const struct spans_rows *rows, unsigned classes,
		struct spans *ret);
void spans_done(struct spans *s);

/* Walk over up to three sets: ret[m] is the time for which exactly those sets are open whose
 * bits are in m (bit i: sets[i]). whole: each piece is cut to whole us first, as HTA's kernel
 * types are. */
int spans_sweep(const struct spans *sets, size_t n, bool whole, double ret[8]);

/* A time of these units in ns. */
int64_t spans_ns(const struct view *v, double time);

#endif
