/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.c - xoshiro256** (Blackman and Vigna, public domain algorithm), the polar
 * method, and logarithm and exponential by series over basic arithmetic.
 */
#include "simulate/rng.h"

#include <math.h>
#include <string.h>

#define RNG_LN2 0.693147180559945309417
#define RNG_SQRT2 1.41421356237309504880

static uint64_t rng_splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
	uint64_t state = stream;
	int i;

	/* Two rounds, so that close seeds and streams do not meet. */
	state = rng_splitmix(&state) ^ seed;
	for (i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&state);
}

static inline uint64_t rng_rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s, ret = rng_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotate(s[3], 45);
	return ret;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	uint64_t floor = (0 - n) % n, v; /* 2^64 mod n: below it the ends do not meet */

	do
		v = rng_u64(r);
	while (v < floor);
	return v % n;
}

double rng_uniform(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

double rng_log(double x)
{
	uint64_t bits;
	double m, t, t2, sum = 0;
	int e, k;

	memcpy(&bits, &x, 8);
	e = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
	memcpy(&m, &bits, 8);
	if (m > RNG_SQRT2) {
		m /= 2;
		e++;
	}
	t = (m - 1) / (m + 1); /* |t| < 0.172: 12 terms of the series of atanh */
	t2 = t * t;
	for (k = 23; k >= 1; k -= 2)
		sum = sum * t2 + 1.0 / k;
	return e * RNG_LN2 + 2 * t * sum;
}

double rng_exp(double x)
{
	int e = (int)(x / RNG_LN2 + (x < 0 ? -0.5 : 0.5)), k;
	double f = x - e * RNG_LN2, sum = 1, scale;
	uint64_t bits;

	for (k = 18; k >= 1; k--)
		sum = 1 + sum * f / k;
	bits = (uint64_t)(e + 1023 < 1 ? 0 : e + 1023) << 52;
	memcpy(&scale, &bits, 8);
	return sum * scale;
}

double rng_normal(struct rng *r)
{
	double u, v, s;

	do {
		u = 2 * rng_uniform(r) - 1;
		v = 2 * rng_uniform(r) - 1;
		s = u * u + v * v;
	} while (s >= 1 || s == 0);
	return u * sqrt(-2 * rng_log(s) / s);
}

double rng_exponential(struct rng *r)
{
	return -rng_log(1 - rng_uniform(r));
}
