/* SPDX-License-Identifier: Apache-2.0
 *
 * column_grid.c - integers on a grid (pages of 4096 bytes, clocks in steps of 15
 * MHz, floats that were made from 16 bits): their common step is divided out. And
 * whether a column repeats itself.
 */
#include "store/column_priv.h"

#define GRID_SAMPLE 64u
#define GRID_REPEAT_SAMPLE 2048u
#define GRID_REPEAT_BITS 12

static uint64_t grid_gcd(uint64_t a, uint64_t b)
{
	unsigned twos;
	uint64_t t;

	if (!a || !b)
		return a | b;
	twos = (unsigned)__builtin_ctzll(a | b);
	a >>= __builtin_ctzll(a);
	while (b) {
		b >>= __builtin_ctzll(b);
		if (a > b) {
			t = a;
			a = b;
			b = t;
		}
		b -= a;
	}
	return a << twos;
}

static inline uint64_t grid_distance(int64_t a, int64_t b)
{
	return a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
}

/* The odd number whose product with odd is 1 modulo 2^64. */
static uint64_t grid_inverse(uint64_t odd)
{
	uint64_t v = odd * 3 ^ 2; /* right in 5 bits; each round doubles them */
	int i;

	for (i = 0; i < 4; i++)
		v *= 2 - odd * v;
	return v;
}

/* Quotients to w->spare; returns the first that is not on the grid, n if all are. */
COLUMN_BODY size_t grid_divide_body(const int64_t *y, size_t n, uint64_t step, int64_t offset,
				    int64_t *out)
{
	unsigned twos = (unsigned)__builtin_ctzll(step);
	uint64_t inverse = grid_inverse(step >> twos), off = 0;
	size_t i, k;
	int64_t d;

	for (i = 0; i < n; i += 64) {
		for (k = i; k < i + 64 && k < n; k++) {
			d = column_sub(y[k], offset);
			out[k] = (int64_t)((uint64_t)(d >> twos) * inverse);
			off |= (uint64_t)out[k] * step ^ (uint64_t)d;
		}
		for (k = i; off && k < n; k++)
			if ((uint64_t)out[k] * step != (uint64_t)y[k] - (uint64_t)offset)
				return k;
	}
	return n;
}

bool column_grid_take(struct column_work *w, size_t n, uint64_t *step, int64_t *offset)
{
	size_t by = n > GRID_SAMPLE ? n / GRID_SAMPLE : 1, i;
	uint64_t g = 0, before;

	for (i = 0; i < n && g != 1; i += by)
		g = grid_gcd(g, grid_distance(w->y[i], w->y[0]));
	for (; g > 1; g = grid_gcd(g, grid_distance(w->y[i], w->y[0]))) {
		i = grid_divide_body(w->y, n, g, w->y[0], w->spare);
		if (i == n)
			break;
		before = g;
		if (grid_gcd(g, grid_distance(w->y[i], w->y[0])) == before)
			return false; /* differences beyond 2^63: not worth a case */
	}
	if (g <= 1)
		return false;
	*step = g;
	*offset = w->y[0];
	memcpy(w->y, w->spare, n * sizeof(w->y[0]));
	return true;
}

bool column_grid_repeats(const struct column_work *w, size_t n)
{
	uint16_t at[1u << GRID_REPEAT_BITS] = {0};
	size_t last = n < GRID_REPEAT_SAMPLE ? n : GRID_REPEAT_SAMPLE, i, hits = 0;
	const int64_t *y = w->y;
	uint64_t hash;
	unsigned was;

	for (i = 3; i < last; i++) {
		hash = (uint64_t)y[i] * 0x9e3779b97f4a7c15u + (uint64_t)y[i - 1];
		hash = hash * 0xbf58476d1ce4e5b9u + (uint64_t)y[i - 2];
		hash = (hash * 0x94d049bb133111ebu) >> (64 - GRID_REPEAT_BITS);
		was = at[hash];
		at[hash] = (uint16_t)i;
		hits += was && y[was] == y[i] && y[was - 1] == y[i - 1] && y[was - 2] == y[i - 2];
	}
	return last >= 16 && hits * 2 > last;
}
