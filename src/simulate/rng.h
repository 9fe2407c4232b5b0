/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.h - random numbers that are the same on every machine: xoshiro256** seeded
 * by splitmix64, and distributions that use only + - * / and sqrt (no libm, whose
 * last digit differs; the folder is compiled without fused multiply-add). Not for
 * secrets. A struct rng belongs to one thread.
 */
#ifndef SIMULATE_RNG_H
#define SIMULATE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/* The stream of numbers of a seed; each pair (seed, stream) gives its own, so that
 * series can be made in any order. */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);

/* 64 random bits. */
uint64_t rng_u64(struct rng *r);

/* 0 to n - 1, all equally likely; n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* In [0, 1), a multiple of 2^-53. */
double rng_uniform(struct rng *r);

/* Normal with mean 0 and variance 1 (polar method). */
double rng_normal(struct rng *r);

/* Exponential with mean 1; never negative. */
double rng_exponential(struct rng *r);

/* Natural logarithm of a positive normal number, good to about 1e-15 relative to
 * max(1, |log x|), and e to the x for |x| <= 700, likewise; the same on every
 * machine. */
double rng_log(double x);
double rng_exp(double x);

#endif
