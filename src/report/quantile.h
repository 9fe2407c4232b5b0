/* SPDX-License-Identifier: Apache-2.0
 *
 * quantile.h - exact quantiles of a pile of values: nearest rank, so that a
 * quantile is always a value that occurred.
 */
#ifndef REPORT_QUANTILE_H
#define REPORT_QUANTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANTILE_VALUES_MAX (32u << 20) /* values kept: 256 MiB; more: no quantiles */

/* Zero-initialise it. */
struct quantiles {
	double *values;
	size_t n, cap;
	uint64_t count; /* values added, also beyond what is kept */
	double total, max;
	bool sorted;
};

/* Add a value; NaN is ignored. */
void quantiles_add(struct quantiles *q, double v);

/* The percent-th percentile, 1 to 100: the value at rank ceil(percent / 100 x n)
 * of the n sorted ones. NaN if there are none or more than are kept. */
double quantiles_get(struct quantiles *q, unsigned percent);

void quantiles_done(struct quantiles *q);

#endif
