/* SPDX-License-Identifier: Apache-2.0
 *
 * welch.c - Welch's test, its distribution, and adjusted p values.
 */
#include "analyse/welch.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_MAX 300
#define TINY 1e-300
#define ENOUGH 1e-15

/* Lentz's way through the continued fraction of DLMF 8.17.22. */
static double fraction(double a, double b, double x)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;

	d = 1 / (fabs(d) < TINY ? TINY : d);
	f = d;
	for (int m = 1; m <= STEPS_MAX; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double change;

		d = 1 + even * d;
		c = 1 + even / c;
		d = 1 / (fabs(d) < TINY ? TINY : d);
		c = fabs(c) < TINY ? TINY : c;
		f *= d * c;
		d = 1 + odd * d;
		c = 1 + odd / c;
		d = 1 / (fabs(d) < TINY ? TINY : d);
		c = fabs(c) < TINY ? TINY : c;
		change = d * c;
		f *= change;
		if (fabs(change - 1) < ENOUGH)
			break;
	}
	return f;
}

double welch_beta(double a, double b, double x)
{
	double front;

	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * fraction(a, b, x) / a;
	return 1 - front * fraction(b, a, 1 - x) / b;
}

struct welch welch_test(double mean_a, double squares_a, size_t n_a, double mean_b,
			double squares_b, size_t n_b)
{
	struct welch w = {NAN, NAN, NAN, NAN};
	double na = (double)n_a, nb = (double)n_b, va, vb, spread, pooled;

	if (n_a < 2 || n_b < 2)
		return w;
	va = squares_a / (na - 1) / na;
	vb = squares_b / (nb - 1) / nb;
	spread = va + vb;
	pooled = sqrt((squares_a + squares_b) / (na + nb - 2));
	if (!(spread > 0)) {
		w.t = mean_a == mean_b ? 0 : mean_b > mean_a ? INFINITY : -INFINITY;
		w.freedom = na + nb - 2;
		w.p = mean_a == mean_b;
		w.effect = w.t;
		return w;
	}
	w.t = (mean_b - mean_a) / sqrt(spread);
	w.freedom = spread * spread / (va * va / (na - 1) + vb * vb / (nb - 1));
	w.p = welch_beta(w.freedom / 2, 0.5, w.freedom / (w.freedom + w.t * w.t));
	w.effect = (mean_b - mean_a) / pooled * (1 - 3 / (4 * (na + nb - 2) - 1));
	return w;
}

static int by_p(const void *pa, const void *pb, void *arg)
{
	const double *p = arg;
	size_t a = *(const size_t *)pa, b = *(const size_t *)pb;

	if (p[a] != p[b])
		return p[a] < p[b] ? -1 : 1;
	return a < b ? -1 : a > b;
}

void welch_adjust(double *p, size_t *order, size_t n)
{
	double least = 1;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isnan(p[i]))
			order[m++] = i;
	}
	if (m)
		qsort_r(order, m, sizeof(*order), by_p, p);
	for (size_t i = m; i-- > 0;) {
		double q = p[order[i]] * (double)m / (double)(i + 1);

		least = q < least ? q : least;
		p[order[i]] = least;
	}
}
