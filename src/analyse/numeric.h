/* SPDX-License-Identifier: Apache-2.0
 *
 * numeric.h - sums, moments, quantiles and an order, in the sequence of operations that
 * numpy 1.24 and pandas 1.5 (with bottleneck) have, so that numbers agree with theirs in the last
 * digit.
 */
#ifndef ANALYSE_NUMERIC_H
#define ANALYSE_NUMERIC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Sum of x: numpy's pairwise sum (blocks of 128, eight partial sums in each). */
double numeric_sum(const double *x, size_t n);

/* What pandas' describe() says. std has n - 1 below; NaN below 2 values. Quartiles are linear
 * between neighbours. All but count are NaN without values. */
struct numeric_describe {
	uint64_t count;
	double mean, std, min, q25, q50, q75, max;
};
/* x is sorted in place. */
void numeric_describe(double *x, size_t n, struct numeric_describe *ret);

/* Quantile q (0 to 1) of sorted x, linear; NaN for n of 0. */
double numeric_quantile(const double *sorted, size_t n, double q);

/* Sum with Kahan's correction and the spread by Welford's recurrence, value by value: what
 * groupby().sum(), .mean() and .std() do. Zero-initialise it. */
struct numeric_run {
	uint64_t count;
	double sum, lost; /* sum, and Kahan's correction of it */
	double mean, squares;
	double min, max;
};
void numeric_add(struct numeric_run *r, double value);
double numeric_mean(const struct numeric_run *r); /* NaN without values */
double numeric_std(const struct numeric_run *r);  /* n - 1; 0 below 2 values, as HTA fills it */

/* A double as an integer that sorts alike, and back. */
static inline uint64_t numeric_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits >> 63 ? ~bits : bits | 1ull << 63;
}

static inline double numeric_of_bits(uint64_t key)
{
	uint64_t bits = key >> 63 ? key & ~(1ull << 63) : ~key;
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* A number to sort by, and what it belongs to. */
struct numeric_key {
	double key;
	uint32_t id;
};
/* Sort by key as numpy's argsort (quicksort) does: not stable, but the same each time for the same
 * first order. */
void numeric_order(struct numeric_key *k, size_t n);

/* x to that many decimals as numpy's round does: x times a power of ten, to the nearest
 * (ties to even), and back. */
double numeric_round(double x, int digits);

#endif
