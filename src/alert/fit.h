/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - where is a series going? A robust line (Theil and Sen: the median of the slopes
 * between all pairs) through the means of the last FIT_BINS stretches of time. Noise, one
 * step and saw teeth give no slope; only a steady rise does.
 */
#ifndef ALERT_FIT_H
#define ALERT_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define FIT_BINS 24
#define FIT_NEEDS 20 /* without so many there is no slope */

/* Zero-initialise it, and set width_ns. */
struct fit {
	int64_t width_ns; /* of a stretch */
	int64_t begin_ns; /* of the open one */
	double sum;
	unsigned n;         /* values in it */
	unsigned len, next; /* closed ones; where the next goes */
	double value[FIT_BINS];
	int64_t time_ns[FIT_BINS];
};

/* Add a value. True: a stretch has closed, so that the slope is new. A hole of more than
 * three stretches begins anew. */
bool fit_add(struct fit *f, int64_t time_ns, double value);

/* The median slope a second if the lower quarter of the slopes rises too; else 0. NaN: too
 * few stretches. */
double fit_slope(const struct fit *f);

/* Mean of the last closed stretch; NaN: there is none. */
double fit_level(const struct fit *f);

#endif
