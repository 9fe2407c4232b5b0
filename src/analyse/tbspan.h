/* SPDX-License-Identifier: Apache-2.0
 *
 * tbspan.h - lists of intervals in doubles, with the very order of operations that
 * torch-tb-profiler has (range_utils.py), so that sums come out to the last digit; for
 * whole nanoseconds the results are exact. Allocation failure aborts.
 */
#ifndef ANALYSE_TBSPAN_H
#define ANALYSE_TBSPAN_H

#include <stdbool.h>
#include <stddef.h>

struct tbspan {
	double ts, end;
};

struct tbspans {
	struct tbspan *v;
	size_t n, cap;
};

struct tbvalued { /* an interval with a value */
	double ts, end, value;
};

struct tbvalueds {
	struct tbvalued *v;
	size_t n, cap;
};

void tbspan_add(struct tbspans *s, double ts, double end);
void tbspan_done(struct tbspans *s);

/* Sort by start and join what touches or overlaps, in place. */
void tbspan_merge(struct tbspans *s);

/* ret (empty, not one of the inputs) becomes the parts of a in b, and the parts of a not in b.
 * Both sorted and without overlap. */
void tbspan_common(const struct tbspans *a, const struct tbspans *b, struct tbspans *ret);
void tbspan_without(const struct tbspans *a, const struct tbspans *b, struct tbspans *ret);

double tbspan_sum(const struct tbspans *s);
/* Length of s in [ts, end). */
double tbspan_within(const struct tbspans *s, double ts, double end);

/* Of overlapping intervals with values: for each stretch between two ends the sum of those
 * running, 1 at most, where it is above 0. Starts come before ends at equal times. */
void tbvalued_add(struct tbvalueds *s, double ts, double end, double value);
void tbvalued_done(struct tbvalueds *s);
void tbvalued_sweep(const struct tbvalueds *s, struct tbvalueds *ret);
/* Sum of value * length of the parts in [ts, end). *ret_any: whether there was one. */
double tbvalued_within(const struct tbvalueds *s, double ts, double end, bool *ret_any);

#endif
