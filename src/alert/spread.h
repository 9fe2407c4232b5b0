/* SPDX-License-Identifier: Apache-2.0
 *
 * spread.h - the running median of positive numbers in fixed memory: counts in bins of a
 * sixteenth of an octave, so that a median is right within 6.25 %. Old values fade: at
 * SPREAD_KEEP all counts are halved.
 */
#ifndef ALERT_SPREAD_H
#define ALERT_SPREAD_H

#include <stdint.h>

#define SPREAD_OCTAVES 80 /* from 2^-40 on; what lies outside counts in the last bins */
#define SPREAD_BINS (16 * SPREAD_OCTAVES)
#define SPREAD_KEEP 4096u

/* Zero-initialise it. */
struct spread {
	uint64_t count; /* values that were added, ever */
	uint32_t total; /* in the bins */
	uint32_t stale; /* added since the median was looked for */
	double median;  /* as of then */
	uint16_t bins[SPREAD_BINS];
};

/* Add a value; what is not above 0, or not finite, is left out. */
void spread_add(struct spread *s, double x);

/* The middle of the median's bin; NaN: there are no values. Looked for again after every
 * 16th of the values: the cost of an add stays O(1). */
double spread_median(struct spread *s);

#endif
