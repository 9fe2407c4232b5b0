/* SPDX-License-Identifier: Apache-2.0
 *
 * mannwhitney.c - ranks of two samples together, and what their sums could be by chance.
 */
#include "analyse/mannwhitney.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct ranked {
	double value;
	int side;
};

static int by_value(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	return (a->value > b->value) - (a->value < b->value);
}

/* How many of the arrangements of m and n values have each U: the product of
 * (1 - x^(n + i)) / (1 - x^i) for i from 1 to m. All are whole and below 2^53. */
static void arrangements(size_t m, size_t n, double *f)
{
	size_t top = m * n;

	f[0] = 1;
	for (size_t u = 1; u <= top; u++)
		f[u] = 0;
	for (size_t i = 1; i <= m; i++) {
		for (size_t u = top; u >= n + i; u--)
			f[u] -= f[u - n - i];
		for (size_t u = i; u <= top; u++)
			f[u] += f[u - i];
	}
}

static double log_choose(double n, double k)
{
	return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* P(U >= u) for each u. */
static double *tail(size_t few, size_t many)
{
	double *upper = calloc(few * many + 1, sizeof(*upper)), sum = 0;

	if (!upper)
		return NULL;
	arrangements(few, many, upper);
	for (size_t u = few * many + 1; u-- > 0;)
		upper[u] = sum += upper[u];
	for (size_t u = few * many + 1; u-- > 0;)
		upper[u] /= sum;
	return upper;
}

int mannwhitney_new(size_t n_a, size_t n_b, struct mannwhitney *ret)
{
	size_t few = n_a < n_b ? n_a : n_b, many = n_a < n_b ? n_b : n_a;
	struct mannwhitney m = {.n = {n_a, n_b}, .least = 1};
	bool is_exact = few && few <= MANNWHITNEY_FEW && many <= MANNWHITNEY_MANY;

	if (n_a > SIZE_MAX / 2 / sizeof(struct ranked) - n_b)
		return -ENOMEM;
	m.order = calloc(n_a + n_b + 1, sizeof(struct ranked));
	m.upper = is_exact ? tail(few, many) : NULL;
	if (!m.order || (is_exact && !m.upper)) {
		mannwhitney_free(&m);
		return -ENOMEM;
	}
	if (few)
		m.least = fmin(1, 2 * exp(-log_choose((double)(n_a + n_b), (double)few)));
	*ret = m;
	return 0;
}

void mannwhitney_free(struct mannwhitney *m)
{
	free(m->upper);
	free(m->order);
	m->upper = NULL;
	m->order = NULL;
}

/* Sum of the ranks of b; *ret_ties: sum of t^3 - t over runs of t equal values. */
static double rank_sum(struct ranked *order, size_t n, double *ret_ties)
{
	double sum = 0, ties = 0;

	for (size_t i = 0, k; i < n; i = k) {
		double run, rank;

		for (k = i + 1; k < n && order[k].value == order[i].value; k++)
			;
		run = (double)(k - i);
		rank = ((double)i + 1 + (double)k) / 2;
		for (size_t j = i; j < k; j++)
			sum += order[j].side ? rank : 0;
		ties += run * run * run - run;
	}
	*ret_ties = ties;
	return sum;
}

void mannwhitney_test(const struct mannwhitney *m, const double *a, const double *b,
		      struct mannwhitney_result *ret)
{
	size_t n = m->n[0] + m->n[1];
	double na = (double)m->n[0], nb = (double)m->n[1], all = na + nb, ties, larger, s;
	struct ranked *order = m->order;

	*ret = (struct mannwhitney_result){NAN, NAN, false};
	if (!m->n[0] || !m->n[1])
		return;
	for (size_t i = 0; i < n; i++)
		order[i] =
			i < m->n[0] ? (struct ranked){a[i], 0} : (struct ranked){b[i - m->n[0]], 1};
	qsort(order, n, sizeof(*order), by_value);
	ret->u = rank_sum(order, n, &ties) - nb * (nb + 1) / 2;
	larger = fmax(ret->u, na * nb - ret->u);
	ret->is_exact = m->upper && ties == 0;
	if (ret->is_exact) {
		ret->p = fmin(1, 2 * m->upper[(size_t)larger]);
		return;
	}
	s = sqrt(na * nb / 12 * (all + 1 - ties / (all * (all - 1))));
	/* Half a step less: U is whole, the normal distribution is not. */
	ret->p = s > 0 ? fmin(1, erfc((larger - na * nb / 2 - 0.5) / s / M_SQRT2)) : 1;
}

double mannwhitney_skew(const double *x, size_t n)
{
	double mean = 0, two = 0, three = 0, d, count = (double)n;

	if (n < 3)
		return 0;
	for (size_t i = 0; i < n; i++)
		mean += x[i] / count;
	for (size_t i = 0; i < n; i++) {
		d = x[i] - mean;
		two += d * d / count;
		three += d * d * d / count;
	}
	/* Rounding of equal values is no spread. */
	if (!(two > 1e-24 * mean * mean))
		return 0;
	return three / (two * sqrt(two)) * sqrt(count * (count - 1)) / (count - 2);
}
