/* SPDX-License-Identifier: Apache-2.0
 *
 * numeric.c - see numeric.h. The orders of operations are those that numpy and pandas
 * document or show by their results; none of this is faster or better than theirs.
 */
#include "analyse/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/view.h"

#define BLOCK 128 /* numpy sums so many in one go */
#define MANY 1024 /* from here on a radix sort pays */
#define SMALL 16  /* numpy's quicksort hands so many over to insertion */

static double sum_block(const double *x, size_t n)
{
	double r[8], sum;
	size_t i, k;

	if (n < 8) {
		for (i = 0, sum = 0; i < n; i++)
			sum += x[i];
		return sum;
	}
	for (k = 0; k < 8; k++)
		r[k] = x[k];
	for (i = 8; i < n - n % 8; i += 8)
		for (k = 0; k < 8; k++)
			r[k] += x[i + k];
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
	for (; i < n; i++)
		sum += x[i];
	return sum;
}

double numeric_sum(const double *x, size_t n)
{
	size_t half;

	if (n <= BLOCK)
		return sum_block(x, n);
	half = n / 2;
	half -= half % 8;
	return numeric_sum(x, half) + numeric_sum(x + half, n - half);
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* As keys of a radix sort: the bits of a double, turned so that they sort alike. */
static int sort_many(double *x, size_t n)
{
	struct view_key *keys = malloc(2 * n * sizeof(*keys));
	uint64_t bits;
	size_t i;

	if (!keys)
		return -1;
	for (i = 0; i < n; i++) {
		memcpy(&bits, &x[i], sizeof(bits));
		keys[i] = (struct view_key){bits >> 63 ? ~bits : bits | 1ull << 63, 0};
	}
	view_sort(keys, keys + n, n);
	for (i = 0; i < n; i++) {
		bits = keys[i].key;
		bits = bits >> 63 ? bits & ~(1ull << 63) : ~bits;
		memcpy(&x[i], &bits, sizeof(bits));
	}
	free(keys);
	return 0;
}

static void sort_values(double *x, size_t n)
{
	if (n < MANY || sort_many(x, n))
		qsort(x, n, sizeof(*x), by_value);
}

double numeric_quantile(const double *sorted, size_t n, double q)
{
	double at, part, low, high;
	size_t i;

	if (!n)
		return NAN;
	at = q * (double)(n - 1);
	i = (size_t)floor(at);
	part = at - floor(at);
	low = sorted[i];
	high = sorted[i + 1 < n ? i + 1 : i];
	if (part >= 0.5)
		return high - (high - low) * (1 - part);
	return low + (high - low) * part;
}

static double plain_sum(const double *x, size_t n)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

/* As bottleneck's nanstd, which pandas takes where it is installed (Debian's is): around the
 * mean of a plain sum, and the squares in a plain sum too. */
static double spread(const double *x, size_t n)
{
	double sum = 0, mean = plain_sum(x, n) / (double)n;
	size_t i;

	for (i = 0; i < n; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	return n < 2 ? NAN : sqrt(sum / (double)(n - 1));
}

void numeric_describe(double *x, size_t n, struct numeric_describe *ret)
{
	*ret = (struct numeric_describe){n, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
	if (!n)
		return;
	ret->mean = numeric_sum(x, n) / (double)n;
	ret->std = spread(x, n);
	sort_values(x, n);
	ret->min = x[0];
	ret->max = x[n - 1];
	ret->q25 = numeric_quantile(x, n, 0.25);
	ret->q50 = numeric_quantile(x, n, 0.5);
	ret->q75 = numeric_quantile(x, n, 0.75);
}

void numeric_add(struct numeric_run *r, double value)
{
	double y = value - r->lost, t = r->sum + y, old = r->mean;

	r->lost = t - r->sum - y;
	r->sum = t;
	r->min = r->count && r->min < value ? r->min : value;
	r->max = r->count && r->max > value ? r->max : value;
	r->count++;
	r->mean += (value - old) / (double)r->count;
	r->squares += (value - r->mean) * (value - old);
}

double numeric_mean(const struct numeric_run *r)
{
	return r->count ? r->sum / (double)r->count : NAN;
}

double numeric_std(const struct numeric_run *r)
{
	return r->count > 1 ? sqrt(r->squares / (double)(r->count - 1)) : 0;
}

static void swap_ids(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

static void insertion(const double *keys, uint32_t *ids, size_t n)
{
	size_t i, j;
	uint32_t id;

	for (i = 1; i < n; i++) {
		id = ids[i];
		for (j = i; j && keys[id] < keys[ids[j - 1]]; j--)
			ids[j] = ids[j - 1];
		ids[j] = id;
	}
}

/* Where numpy gives up on quicksort it sorts by a heap. */
static void sift(const double *keys, uint32_t *ids, size_t i, size_t n)
{
	uint32_t id = ids[i];
	size_t child;

	while ((child = 2 * i + 1) < n) {
		child += child + 1 < n && keys[ids[child]] < keys[ids[child + 1]];
		if (!(keys[id] < keys[ids[child]]))
			break;
		ids[i] = ids[child];
		i = child;
	}
	ids[i] = id;
}

static void heapsort_ids(const double *keys, uint32_t *ids, size_t n)
{
	size_t i;

	for (i = n / 2; i-- > 0;)
		sift(keys, ids, i, n);
	for (i = n; i-- > 1;) {
		swap_ids(&ids[0], &ids[i]);
		sift(keys, ids, 0, i);
	}
}

/* Split around the median of first, middle and last; returns the pivot's place. n > SMALL. */
static size_t partition(const double *keys, uint32_t *ids, size_t n)
{
	size_t middle = (n - 1) / 2, last = n - 1, i = 0, j = last - 1;
	double pivot;

	if (keys[ids[middle]] < keys[ids[0]])
		swap_ids(&ids[middle], &ids[0]);
	if (keys[ids[last]] < keys[ids[middle]])
		swap_ids(&ids[last], &ids[middle]);
	if (keys[ids[middle]] < keys[ids[0]])
		swap_ids(&ids[middle], &ids[0]);
	pivot = keys[ids[middle]];
	swap_ids(&ids[middle], &ids[j]);
	for (;;) {
		do
			i++;
		while (keys[ids[i]] < pivot);
		do
			j--;
		while (pivot < keys[ids[j]]);
		if (i >= j)
			break;
		swap_ids(&ids[i], &ids[j]);
	}
	swap_ids(&ids[i], &ids[last - 1]);
	return i;
}

/* As numpy does, the greater part is put off with one less of depth, and only what was put
 * off is looked at for having run out of it. */
static void quicksort(const double *keys, uint32_t *ids, size_t n, int depth)
{
	size_t at;

	if (depth < 0) {
		heapsort_ids(keys, ids, n);
		return;
	}
	while (n > SMALL) {
		at = partition(keys, ids, n);
		depth--;
		if (at < n - at - 1) {
			quicksort(keys, ids + at + 1, n - at - 1, depth);
			n = at;
		} else {
			quicksort(keys, ids, at, depth);
			ids += at + 1;
			n -= at + 1;
		}
	}
	insertion(keys, ids, n);
}

void numeric_order(const double *keys, uint32_t *ids, size_t n)
{
	int depth = 0;
	size_t k;

	for (k = n; k > 1; k >>= 1)
		depth++;
	quicksort(keys, ids, n, 2 * depth);
}

double numeric_round(double x, int digits)
{
	double scale = pow(10, digits);

	return rint(x * scale) / scale;
}
