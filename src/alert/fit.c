/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/fit.h"

#include <math.h>
#include <stdlib.h>

bool fit_add(struct fit *f, int64_t time_ns, double value)
{
	bool closed = false;

	if (f->n && time_ns >= f->begin_ns + f->width_ns) {
		if (time_ns >= f->begin_ns + 4 * f->width_ns) {
			f->len = f->next = 0;
		} else {
			f->value[f->next] = f->sum / f->n;
			f->time_ns[f->next] = f->begin_ns + f->width_ns / 2;
			f->next = (f->next + 1) % FIT_BINS;
			f->len += f->len < FIT_BINS;
			closed = true;
		}
		f->n = 0;
	}
	if (f->n == 0) {
		f->begin_ns = time_ns - time_ns % f->width_ns;
		f->sum = 0;
	}
	f->sum += value;
	f->n++;
	return closed;
}

static int fit_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double fit_slope(const struct fit *f)
{
	double slopes[FIT_BINS * (FIT_BINS - 1) / 2];
	unsigned i, k, n = 0;

	if (f->len < FIT_NEEDS)
		return NAN;
	for (i = 0; i < f->len; i++)
		for (k = 0; k < i; k++)
			slopes[n++] = (f->value[i] - f->value[k]) * 1e9 /
				      (double)(f->time_ns[i] - f->time_ns[k]);
	qsort(slopes, n, sizeof(*slopes), fit_compare);
	return slopes[n / 4] > 0 ? slopes[n / 2] : 0;
}

double fit_level(const struct fit *f)
{
	return f->len ? f->value[(f->next + FIT_BINS - 1) % FIT_BINS] : NAN;
}
