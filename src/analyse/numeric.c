/* SPDX-License-Identifier: Apache-2.0
 *
 * numeric.c - see numeric.h. The orders of operations are those that numpy and pandas
 * document or show by their results; none of this is faster or better than theirs.
 */
#include "analyse/numeric.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/number.h"

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

/* By the bits of the doubles, turned so that they sort alike, a byte after the other; bytes
 * that are the same in all, which whole numbers have many of, are passed over. */
static int sort_many(double *x, size_t n)
{
	uint64_t *keys = bigmem_alloc(2 * n * sizeof(*keys)), *from = keys, *to = keys + n, *swap;
	uint64_t any = 0;
	size_t i, count[256], at, c;
	int b, d;

	if (!keys)
		return -1;
	for (i = 0; i < n; i++) {
		keys[i] = numeric_bits(x[i]);
		any |= keys[i] ^ keys[0];
	}
	for (b = 0; b < 64; b += 8) {
		if (!(any >> b & 255))
			continue;
		memset(count, 0, sizeof(count));
		for (i = 0; i < n; i++)
			count[from[i] >> b & 255]++;
		for (d = 0, at = 0; d < 256; d++) {
			c = count[d];
			count[d] = at;
			at += c;
		}
		for (i = 0; i < n; i++)
			to[count[from[i] >> b & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	for (i = 0; i < n; i++)
		x[i] = numeric_of_bits(from[i]);
	free(keys);
	return 0;
}

static void sort_values(double *x, size_t n)
{
	if (n < MANY || sort_many(x, n))
		qsort(x, n, sizeof(*x), number_order);
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

static void swap_keys(struct numeric_key *a, struct numeric_key *b)
{
	struct numeric_key t = *a;

	*a = *b;
	*b = t;
}

static void insertion(struct numeric_key *k, size_t n)
{
	struct numeric_key one;
	size_t i, j;

	for (i = 1; i < n; i++) {
		one = k[i];
		for (j = i; j && one.key < k[j - 1].key; j--)
			k[j] = k[j - 1];
		k[j] = one;
	}
}

/* Where numpy gives up on quicksort it sorts by a heap. */
static void sift(struct numeric_key *k, size_t i, size_t n)
{
	struct numeric_key one = k[i];
	size_t child;

	while ((child = 2 * i + 1) < n) {
		child += child + 1 < n && k[child].key < k[child + 1].key;
		if (!(one.key < k[child].key))
			break;
		k[i] = k[child];
		i = child;
	}
	k[i] = one;
}

static void heapsort_keys(struct numeric_key *k, size_t n)
{
	size_t i;

	for (i = n / 2; i-- > 0;)
		sift(k, i, n);
	for (i = n; i-- > 1;) {
		swap_keys(&k[0], &k[i]);
		sift(k, 0, i);
	}
}

/* Split around the median of first, middle and last; returns the pivot's place. n > SMALL. */
static size_t partition(struct numeric_key *k, size_t n)
{
	size_t middle = (n - 1) / 2, last = n - 1, i = 0, j = last - 1;
	double pivot;

	if (k[middle].key < k[0].key)
		swap_keys(&k[middle], &k[0]);
	if (k[last].key < k[middle].key)
		swap_keys(&k[last], &k[middle]);
	if (k[middle].key < k[0].key)
		swap_keys(&k[middle], &k[0]);
	pivot = k[middle].key;
	swap_keys(&k[middle], &k[j]);
	for (;;) {
		do
			i++;
		while (k[i].key < pivot);
		do
			j--;
		while (pivot < k[j].key);
		if (i >= j)
			break;
		swap_keys(&k[i], &k[j]);
	}
	swap_keys(&k[i], &k[last - 1]);
	return i;
}

/* As numpy does, the greater part is put off with one less of depth, and only what was put
 * off is looked at for having run out of it. */
static void quicksort(struct numeric_key *k, size_t n, int depth)
{
	size_t at;

	if (depth < 0) {
		heapsort_keys(k, n);
		return;
	}
	while (n > SMALL) {
		at = partition(k, n);
		depth--;
		if (at < n - at - 1) {
			quicksort(k + at + 1, n - at - 1, depth);
			n = at;
		} else {
			quicksort(k, at, depth);
			k += at + 1;
			n -= at + 1;
		}
	}
	insertion(k, n);
}

static bool is_rising(const struct numeric_key *k, size_t n)
{
	size_t i;

	for (i = 1; i < n && k[i - 1].key < k[i].key; i++)
		;
	return i >= n;
}

void numeric_order(struct numeric_key *k, size_t n)
{
	int depth = 0;
	size_t i;

	/* Without equal keys there is one order only. */
	if (is_rising(k, n))
		return;
	for (i = n; i > 1; i >>= 1)
		depth++;
	quicksort(k, n, 2 * depth);
}

double numeric_round(double x, int digits)
{
	double scale = pow(10, digits);

	return rint(x * scale) / scale;
}
