/* SPDX-License-Identifier: Apache-2.0
 *
 * random.h - SplitMix64, a small random generator that gives the same numbers
 * everywhere. The state is the caller's; one thread at a time.
 */
#ifndef CHARLM_RANDOM_H
#define CHARLM_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random_state {
	uint64_t s;
};

static inline struct random_state random_seed(uint64_t seed)
{
	return (struct random_state){seed * 0x9e3779b97f4a7c15u + 1};
}

static inline uint64_t random_bits(struct random_state *r)
{
	uint64_t x = r->s += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* In [0, 1). */
static inline double random_uniform(struct random_state *r)
{
	return (double)(random_bits(r) >> 11) * 0x1p-53;
}

/* Mean 0, standard deviation 1 (Box-Muller). */
static inline double random_normal(struct random_state *r)
{
	double radius = sqrt(-2 * log(1 - random_uniform(r)));

	return radius * cos(2 * 3.14159265358979323846 * random_uniform(r));
}

#endif /* CHARLM_RANDOM_H */
