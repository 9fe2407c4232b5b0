/* SPDX-License-Identifier: Apache-2.0
 *
 * welch.h - are two small samples different? Welch's test of means with unequal variances,
 * an effect size, and the correction for asking about many names at once.
 *
 * Sources: B. L. Welch, Biometrika 34 (1947) 28-35, with the degrees of freedom of Welch
 * and Satterthwaite; the distribution by the continued fraction of the incomplete beta
 * function, DLMF 8.17.22; L. V. Hedges, J. Educational Statistics 6 (1981) 107-128; Y.
 * Benjamini and Y. Hochberg, J. Royal Statistical Society B 57 (1995) 289-300.
 */
#ifndef ANALYSE_WELCH_H
#define ANALYSE_WELCH_H

#include <stddef.h>

struct welch {
	double t, freedom; /* NaN where a side has fewer than 2 values */
	double p;          /* two-sided; NaN likewise */
	double effect;     /* Hedges' g: difference of means in pooled standard deviations,
			      corrected for small samples; NaN likewise, infinite without spread */
};

/* From means and sums of squared deviations over n values each (b against a). Without any
 * spread p is 1 for equal means, else 0. */
struct welch welch_test(double mean_a, double squares_a, size_t n_a, double mean_b,
			double squares_b, size_t n_b);

/* Regularised incomplete beta function I_x(a, b), 0 <= x <= 1. */
double welch_beta(double a, double b, double x);

/* Benjamini and Hochberg's adjusted p, in place of p; NaN stays and does not count. order:
 * room for n places. */
void welch_adjust(double *p, size_t *order, size_t n);

#endif
