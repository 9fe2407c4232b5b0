/* SPDX-License-Identifier: Apache-2.0
 *
 * sketch.h - percentiles of any number of values in bounded memory: exact as long as
 * there are few, then to 0.4 % of the value.
 */
#ifndef REPORT_SKETCH_H
#define REPORT_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKETCH_EXACT (1u << 20) /* values that are kept: 8 MiB */

/* Zero-initialise it. */
struct sketch {
	double *values; /* while it is exact */
	size_t n, cap;
	uint64_t *bins; /* then; by the upper 20 bits of the value */
	uint64_t count;
	double min, max;
	bool sorted;
};

/* Add values; NaN is left out. */
void sketch_add(struct sketch *s, const double *values, size_t n);
bool sketch_is_exact(const struct sketch *s);
/* The value at rank ceil(percent / 100 x n); NaN: there are none. */
double sketch_get(struct sketch *s, unsigned percent);
void sketch_done(struct sketch *s);

#endif
