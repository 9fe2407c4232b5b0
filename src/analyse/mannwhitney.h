/* SPDX-License-Identifier: Apache-2.0
 *
 * mannwhitney.h - are two small samples different, by ranks: the test of Mann and Whitney,
 * which a few extreme values cannot lead astray. And how skewed a sample is.
 *
 * Sources: H. B. Mann and D. R. Whitney, Annals of Mathematical Statistics 18 (1947) 50-60, the
 * exact distribution by its generating function, the Gaussian binomial; ties in the normal
 * approximation as in E. L. Lehmann, Nonparametrics (1975), 1.4. The choice between the two is
 * that of scipy.stats.mannwhitneyu(method="auto").
 */
#ifndef ANALYSE_MANNWHITNEY_H
#define ANALYSE_MANNWHITNEY_H

#include <stdbool.h>
#include <stddef.h>

#define MANNWHITNEY_FEW 8   /* exact where the smaller sample has at most so many values, */
#define MANNWHITNEY_MANY 64 /* the larger at most so many, and none occurs twice */

/* What does not depend on the values: for many tests of samples of the same sizes. */
struct mannwhitney {
	size_t n[2];
	double *upper; /* upper[u]: P(U >= u), 0 to n0 * n1; NULL: never exact */
	void *order;   /* room for n0 + n1 values */
	double least;  /* the smallest p that samples of these sizes can have */
};

struct mannwhitney_result {
	double u; /* pairs in which the value of b is larger; equal ones count half */
	double p; /* two-sided; NaN where a sample is empty */
	bool is_exact;
};

/* 0 or -ENOMEM. */
int mannwhitney_new(size_t n_a, size_t n_b, struct mannwhitney *ret);
void mannwhitney_free(struct mannwhitney *m);

void mannwhitney_test(const struct mannwhitney *m, const double *a, const double *b,
		      struct mannwhitney_result *ret);

/* Adjusted Fisher-Pearson coefficient of skewness (G1); 0 below 3 values or without spread. */
double mannwhitney_skew(const double *x, size_t n);

#endif
