/* SPDX-License-Identifier: Apache-2.0
 *
 * sketch.c - see sketch.h. A bin holds the doubles whose sign, exponent and first 8 bits
 * of mantissa are the same: 1/256 of their size wide, of which the middle is told.
 */
#include "report/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SKETCH_SHIFT 44u /* bits of a double that a bin does not tell apart */
#define SKETCH_BINS (1u << (64 - SKETCH_SHIFT))
#define SKETCH_SIGN (SKETCH_BINS / 2)

static double sketch_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void sketch_count(struct sketch *s, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	s->bins[bits >> SKETCH_SHIFT]++;
}

static void sketch_to_bins(struct sketch *s)
{
	size_t i;

	s->bins = xcalloc(SKETCH_BINS, sizeof(*s->bins));
	for (i = 0; i < s->n; i++)
		sketch_count(s, s->values[i]);
	free(s->values);
	s->values = NULL;
	s->n = s->cap = 0;
}

static void sketch_limits(struct sketch *s, double v)
{
	if (s->count == 0 || v < s->min)
		s->min = v;
	if (s->count == 0 || v > s->max)
		s->max = v;
}

void sketch_add(struct sketch *s, const double *values, size_t n)
{
	size_t i;

	if (!s->bins && n > SKETCH_EXACT - s->n)
		sketch_to_bins(s);
	s->sorted = false;
	if (!s->bins && s->n + n > s->cap) {
		s->cap = 2 * (s->n + n);
		s->values = xrealloc(s->values, s->cap, sizeof(*s->values));
	}
	for (i = 0; i < n; i++) {
		double v = values[i];

		if (v != v)
			continue;
		sketch_limits(s, v);
		s->count++;
		if (s->bins)
			sketch_count(s, v);
		else
			s->values[s->n++] = v;
	}
}

bool sketch_is_exact(const struct sketch *s)
{
	return !s->bins;
}

static int sketch_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The middle of a bin. */
static double sketch_middle(const struct sketch *s, uint64_t bin)
{
	double v = sketch_double(bin << SKETCH_SHIFT | 1ULL << (SKETCH_SHIFT - 1));

	/* Infinities have a bin of their own. */
	if (!isfinite(v))
		v = sketch_double(bin << SKETCH_SHIFT);
	return fmax(s->min, fmin(s->max, v));
}

/* Negative numbers from the largest down, then the others upwards. */
static double sketch_find(const struct sketch *s, uint64_t rank)
{
	uint64_t below = 0, i, bin;

	for (i = 0; i < SKETCH_BINS; i++) {
		bin = i < SKETCH_SIGN ? SKETCH_BINS - 1 - i : i - SKETCH_SIGN;
		below += s->bins[bin];
		if (below >= rank)
			return sketch_middle(s, bin);
	}
	return s->max;
}

double sketch_get(struct sketch *s, unsigned percent)
{
	uint64_t rank = (s->count * percent + 99) / 100;

	if (s->count == 0)
		return NAN;
	if (s->bins)
		return sketch_find(s, rank ? rank : 1);
	if (!s->sorted)
		qsort(s->values, s->n, sizeof(*s->values), sketch_compare);
	s->sorted = true;
	return s->values[rank ? rank - 1 : 0];
}

void sketch_done(struct sketch *s)
{
	free(s->values);
	free(s->bins);
	*s = (struct sketch){0};
}
