/* SPDX-License-Identifier: Apache-2.0
 *
 * percentiles.c - see percentiles.h. What is known of a percentile is a range of doubles,
 * told as integers of the same order. A window is a range that a pass looks into: it
 * keeps the values there or, when they are too many, counts them in equal parts.
 */
#include "report/percentiles.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PERCENTILES_ALL 0x7ff0000000000000 /* key of infinity */
#define PERCENTILES_PARTS_LOG 16u
#define PERCENTILES_PARTS (1u << PERCENTILES_PARTS_LOG)
#define PERCENTILES_SLICE 1024u /* values looked at together */
#define PERCENTILES_GROUP 16u   /* of them of which one being in the window matters */
#define PERCENTILES_SURE 4.0    /* standard deviations that a guess is wide, to both sides */
#define PERCENTILES_GUESS_MIN (1u << 18) /* values of which it pays */

/* The hot loop is compiled twice, once for processors with AVX2. */
#define PERCENTILES_BODY static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define PERCENTILES_FAST __attribute__((target("avx2")))
#define PERCENTILES_IS_FAST (__builtin_cpu_supports("avx2") != 0)
#else
#define PERCENTILES_FAST
#define PERCENTILES_IS_FAST false
#endif

struct percentiles_window {
	int64_t low, high; /* keys */
	double from, to;   /* the same as doubles */
	bool in_parts;
	/* Of the pass. */
	uint64_t below, in;
	double *values;
	size_t n, cap;
	uint64_t *parts;
};

/* One of those that are asked for. */
struct percentiles_one {
	unsigned percent;
	int64_t low, high; /* keys between which it lies */
	int64_t try_low, try_high;
	bool in_parts, is_known;
	double value;
	size_t window;
};

struct percentiles {
	struct percentiles_one ones[PERCENTILES_MAX];
	struct percentiles_window windows[PERCENTILES_MAX];
	size_t n, n_windows;
	uint64_t about;
	bool has_passed;
	bool is_fast;         /* AVX2 */
	pthread_mutex_t lock; /* what a pass finds */
	uint64_t count, kept, first_count;
};

/* ---- keys --------------------------------------------------------------------------- */

static int64_t percentiles_key(double v)
{
	int64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits < 0 ? -(bits & INT64_MAX) : bits;
}

static double percentiles_double(int64_t key)
{
	int64_t bits = key < 0 ? -key | INT64_MIN : key;
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* So that a window has at most PERCENTILES_PARTS parts of 2^shift keys. */
static unsigned percentiles_shift(const struct percentiles_window *w)
{
	uint64_t span = (uint64_t)w->high - (uint64_t)w->low;
	unsigned bits = span ? 64 - (unsigned)__builtin_clzll(span) : 0;

	return bits > PERCENTILES_PARTS_LOG ? bits - PERCENTILES_PARTS_LOG : 0;
}

/* ---- the k-th smallest ----------------------------------------------------------------- */

static double percentiles_median3(double a, double b, double c)
{
	return a < b ? (b < c ? b : a < c ? c : a) : a < c ? a : b < c ? c : b;
}

/* The value at place k (from 0) of v[0..n), none NaN, when they are in order; they are
 * moved about. Pivots are taken at random, so that no order of values is a bad one. */
static double percentiles_select(double *v, size_t n, size_t k)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)k, i, j;
	uint64_t seed = n;
	double pivot, t;

	while (low < high) {
		uint64_t span = (uint64_t)(high - low) + 1, some[3];

		for (i = 0; i < 3; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			some[i] = (seed >> 32) % span;
		}
		pivot = percentiles_median3(v[low + (ptrdiff_t)some[0]],
					    v[low + (ptrdiff_t)some[1]],
					    v[low + (ptrdiff_t)some[2]]);
		for (i = low, j = high; i <= j;) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i > j)
				break;
			t = v[i];
			v[i++] = v[j];
			v[j--] = t;
		}
		if (at > j && at < i)
			return pivot;
		low = at >= i ? i : low;
		high = at <= j ? j : high;
	}
	return v[at];
}

/* ---- what the next pass looks into ------------------------------------------------------ */

static void percentiles_window(struct percentiles *p, struct percentiles_one *one)
{
	struct percentiles_window *w = p->n_windows ? &p->windows[p->n_windows - 1] : NULL;
	bool is_same = w && w->low == one->try_low && w->high == one->try_high;

	if (w && w->in_parts == one->in_parts &&
	    (is_same || (!w->in_parts && one->try_low <= w->high && one->try_high >= w->low))) {
		w->low = one->try_low < w->low ? one->try_low : w->low;
		w->high = one->try_high > w->high ? one->try_high : w->high;
	} else {
		w = &p->windows[p->n_windows++];
		*w = (struct percentiles_window){
			.low = one->try_low, .high = one->try_high, .in_parts = one->in_parts};
	}
	w->from = percentiles_double(w->low);
	w->to = percentiles_double(w->high);
	one->window = p->n_windows - 1;
}

static void percentiles_forget(struct percentiles *p)
{
	size_t i;

	for (i = 0; i < p->n_windows; i++) {
		free(p->windows[i].values);
		free(p->windows[i].parts);
	}
	p->n_windows = 0;
	p->count = p->kept = 0;
}

/* Begin a pass. */
static void percentiles_begin(struct percentiles *p)
{
	size_t i;

	percentiles_forget(p);
	for (i = 0; i < p->n; i++)
		if (!p->ones[i].is_known)
			percentiles_window(p, &p->ones[i]);
	for (i = 0; i < p->n_windows; i++)
		if (p->windows[i].in_parts)
			p->windows[i].parts = xcalloc(PERCENTILES_PARTS, sizeof(uint64_t));
}

struct percentiles *percentiles_new(const unsigned *percents, size_t n, uint64_t about)
{
	struct percentiles *p = xcalloc(1, sizeof(*p));
	size_t i;

	p->n = n;
	p->about = about;
	p->is_fast = PERCENTILES_IS_FAST;
	pthread_mutex_init(&p->lock, NULL);
	for (i = 0; i < n; i++)
		p->ones[i] = (struct percentiles_one){.percent = percents[i],
						      .low = -PERCENTILES_ALL,
						      .high = PERCENTILES_ALL,
						      .try_low = -PERCENTILES_ALL,
						      .try_high = PERCENTILES_ALL,
						      .in_parts = about > PERCENTILES_KEPT,
						      .value = NAN};
	percentiles_begin(p);
	return p;
}

void percentiles_free(struct percentiles *p)
{
	if (!p)
		return;
	percentiles_forget(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void percentiles_guess(struct percentiles *p, double *sample, size_t n)
{
	size_t i, k, found = 0;

	for (i = 0; i < n; i++)
		if (!isnan(sample[i]))
			sample[found++] = sample[i];
	if (p->about < PERCENTILES_GUESS_MIN || found < PERCENTILES_SAMPLE_MIN)
		return;
	for (k = 0; k < p->n; k++) {
		struct percentiles_one *one = &p->ones[k];
		double part = one->percent / 100.0, at = part * (double)found;
		double off = PERCENTILES_SURE * sqrt(at * (1 - part)) + 2;

		one->in_parts = false;
		if (at - off >= 0)
			one->try_low = percentiles_key(
				percentiles_select(sample, found, (size_t)(at - off)));
		if (at + off < (double)found)
			one->try_high = percentiles_key(
				percentiles_select(sample, found, (size_t)(at + off)));
	}
	percentiles_begin(p);
}

/* ---- a pass ----------------------------------------------------------------------------- */

/* No lock: windows are what they are for the length of a pass. */
static bool percentiles_is_apart(const struct percentiles_window *w, double min, double max)
{
	return max < w->from || min > w->to;
}

bool percentiles_skip(struct percentiles *p, double min, double max, uint64_t n)
{
	size_t i;

	for (i = 0; i < p->n_windows; i++)
		if (!percentiles_is_apart(&p->windows[i], min, max))
			return false;
	pthread_mutex_lock(&p->lock);
	p->count += n;
	for (i = 0; i < p->n_windows; i++)
		p->windows[i].below += max < p->windows[i].from ? n : 0;
	pthread_mutex_unlock(&p->lock);
	return true;
}

static uint64_t percentiles_numbers(const double *v, size_t n)
{
	uint64_t numbers = 0;
	size_t i;

	for (i = 0; i < n; i++)
		numbers += v[i] == v[i];
	return numbers;
}

/* How many of n (whole groups) are below the window; those in it to hits. */
PERCENTILES_BODY uint64_t percentiles_look_body(double from, double to, const double *v, size_t n,
						double *hits, size_t *n_hits)
{
	uint64_t below = 0, in;
	size_t i, k, found = 0;

	for (i = 0; i < n; i += PERCENTILES_GROUP) {
		in = 0;
		for (k = 0; k < PERCENTILES_GROUP; k++) {
			below += v[i + k] < from ? 1 : 0;
			in |= (uint64_t)(v[i + k] >= from) & (uint64_t)(v[i + k] <= to);
		}
		for (k = 0; in && k < PERCENTILES_GROUP; k++) {
			hits[found] = v[i + k];
			found += (v[i + k] >= from) & (v[i + k] <= to);
		}
	}
	*n_hits = found;
	return below;
}

static uint64_t percentiles_look_plain(double from, double to, const double *v, size_t n,
				       double *hits, size_t *n_hits)
{
	return percentiles_look_body(from, to, v, n, hits, n_hits);
}

PERCENTILES_FAST static uint64_t percentiles_look_fast(double from, double to, const double *v,
						       size_t n, double *hits, size_t *n_hits)
{
	return percentiles_look_body(from, to, v, n, hits, n_hits);
}

static uint64_t percentiles_look(const struct percentiles *p, const struct percentiles_window *w,
				 const double *v, size_t n, double *hits, size_t *n_hits)
{
	size_t i = n - n % PERCENTILES_GROUP;
	uint64_t below = (p->is_fast ? percentiles_look_fast
				     : percentiles_look_plain)(w->from, w->to, v, i, hits, n_hits);

	for (; i < n; i++) {
		below += v[i] < w->from;
		if (v[i] >= w->from && v[i] <= w->to)
			hits[(*n_hits)++] = v[i];
	}
	return below;
}

static void percentiles_keep(struct percentiles *p, struct percentiles_window *w,
			     const double *hits, size_t n)
{
	unsigned shift;
	size_t i;

	w->in += n;
	if (w->in_parts) {
		shift = percentiles_shift(w);
		for (i = 0; i < n; i++)
			w->parts[((uint64_t)percentiles_key(hits[i]) - (uint64_t)w->low) >>
				 shift]++;
	} else if (w->low < w->high && w->in == w->n + n && p->kept + n <= PERCENTILES_KEPT) {
		if (w->n + n > w->cap) {
			w->cap = 2 * (w->n + n);
			w->values = xrealloc(w->values, w->cap, sizeof(*w->values));
		}
		memcpy(w->values + w->n, hits, n * sizeof(*hits));
		w->n += n;
		p->kept += n;
	}
}

static void percentiles_slice(struct percentiles *p, const double *v, size_t n, double min,
			      double max)
{
	double hits[PERCENTILES_MAX][PERCENTILES_SLICE + 1];
	uint64_t below[PERCENTILES_MAX] = {0}, numbers = percentiles_numbers(v, n);
	size_t i, n_hits[PERCENTILES_MAX] = {0};

	for (i = 0; i < p->n_windows; i++) {
		const struct percentiles_window *w = &p->windows[i];

		if (percentiles_is_apart(w, min, max))
			below[i] = max < w->from ? numbers : 0;
		else
			below[i] = percentiles_look(p, w, v, n, hits[i], &n_hits[i]);
	}
	pthread_mutex_lock(&p->lock);
	p->count += numbers;
	for (i = 0; i < p->n_windows; i++) {
		p->windows[i].below += below[i];
		if (n_hits[i])
			percentiles_keep(p, &p->windows[i], hits[i], n_hits[i]);
	}
	pthread_mutex_unlock(&p->lock);
}

void percentiles_add(struct percentiles *p, const double *values, size_t n, double min, double max)
{
	size_t i, some;

	for (i = 0; i < n; i += some) {
		some = n - i < PERCENTILES_SLICE ? n - i : PERCENTILES_SLICE;
		percentiles_slice(p, values + i, some, min, max);
	}
}

/* ---- what a pass has shown ------------------------------------------------------------------ */

/* Between which keys every window leaves it. */
static void percentiles_bound(const struct percentiles *p, struct percentiles_one *one,
			      uint64_t rank)
{
	int64_t low, high;
	size_t i;

	for (i = 0; i < p->n_windows; i++) {
		const struct percentiles_window *w = &p->windows[i];

		low = rank <= w->below ? one->low : rank <= w->below + w->in ? w->low : w->high + 1;
		high = rank <= w->below           ? w->low - 1
		       : rank <= w->below + w->in ? w->high
						  : one->high;
		one->low = low > one->low ? low : one->low;
		one->high = high < one->high ? high : one->high;
	}
}

/* The part of a window that has it. */
static void percentiles_part(struct percentiles_one *one, const struct percentiles_window *w,
			     uint64_t rank)
{
	unsigned shift = percentiles_shift(w);
	uint64_t below = w->below, first, last, span = (uint64_t)w->high - (uint64_t)w->low;
	size_t i = 0;

	while (i + 1 < PERCENTILES_PARTS && below + w->parts[i] < rank)
		below += w->parts[i++];
	first = (uint64_t)i << shift;
	last = first + (1ull << shift) - 1;
	one->low = (int64_t)((uint64_t)w->low + first);
	one->high = (int64_t)((uint64_t)w->low + (last < span ? last : span));
	one->in_parts = w->parts[i] > PERCENTILES_KEPT / PERCENTILES_MAX;
}

static void percentiles_learn(struct percentiles *p, struct percentiles_one *one)
{
	struct percentiles_window *w = &p->windows[one->window];
	uint64_t rank = (p->count * one->percent + 99) / 100;
	bool is_in;

	rank = rank ? rank : 1;
	is_in = rank > w->below && rank <= w->below + w->in;
	percentiles_bound(p, one, rank);
	if (p->count == 0 || one->low == one->high) {
		one->is_known = true;
		one->value = p->count ? percentiles_double(one->low) : NAN;
	} else if (is_in && !w->in_parts && w->n == w->in) {
		one->is_known = true;
		one->value = percentiles_select(w->values, w->n, rank - w->below - 1) + 0.0;
	} else if (is_in && w->in_parts) {
		percentiles_part(one, w, rank);
		one->is_known = one->low == one->high;
		one->value = percentiles_double(one->low);
	} else {
		one->in_parts = true;
	}
	one->try_low = one->low;
	one->try_high = one->high;
}

int percentiles_next(struct percentiles *p)
{
	bool is_done = true;
	size_t i;

	if (p->has_passed && p->count != p->first_count)
		return -ESTALE;
	p->has_passed = true;
	p->first_count = p->count;
	for (i = 0; i < p->n; i++) {
		if (!p->ones[i].is_known)
			percentiles_learn(p, &p->ones[i]);
		is_done = is_done && p->ones[i].is_known;
	}
	if (is_done)
		return 0;
	percentiles_begin(p);
	return 1;
}

double percentiles_get(const struct percentiles *p, size_t i)
{
	return p->ones[i].value;
}
