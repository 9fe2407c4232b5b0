/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/spread.h"

#include <math.h>
#include <string.h>

#define SPREAD_LEAST (1023 - 40) /* biased exponent of the first bin */

/* Sign, exponent and four bits of the mantissa. */
static unsigned spread_bin(double x)
{
	uint64_t bits;
	unsigned key;

	memcpy(&bits, &x, sizeof(bits));
	key = (unsigned)(bits >> 48);
	if (key < SPREAD_LEAST * 16)
		return 0;
	key -= SPREAD_LEAST * 16;
	return key < SPREAD_BINS ? key : SPREAD_BINS - 1;
}

static double spread_middle(unsigned bin)
{
	uint64_t bits = ((uint64_t)(bin + SPREAD_LEAST * 16) << 48) + (1ull << 47);
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

void spread_add(struct spread *s, double x)
{
	unsigned i;

	if (!(x > 0) || isinf(x))
		return;
	s->bins[spread_bin(x)]++;
	s->count++;
	s->total++;
	s->stale++;
	if (s->total < SPREAD_KEEP)
		return;
	s->total = 0;
	for (i = 0; i < SPREAD_BINS; i++)
		s->total += s->bins[i] /= 2;
}

double spread_median(struct spread *s)
{
	uint32_t below = 0;
	unsigned i;

	if (!s->total)
		return NAN;
	if (s->stale && s->stale >= s->total / 16) {
		for (i = 0; i < SPREAD_BINS - 1; i++) {
			below += s->bins[i];
			if (2 * below >= s->total)
				break;
		}
		s->median = spread_middle(i);
		s->stale = 0;
	}
	return s->median;
}
