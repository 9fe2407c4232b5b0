/* SPDX-License-Identifier: Apache-2.0
 *
 * mixed.h - a set of 130 series shaped like those of one training machine with
 * eight GPUs, for measuring what storing costs. The same for a seed on every
 * machine; only the learning rate asks libm (cos), whose last digit may differ.
 *
 * It is synthetic. What is in it, so that nobody takes its averages for more:
 *
 *   56  eight GPUs x 7: power (W, steps of 1 mW), utilisation and memory
 *       utilisation (ratios, steps of 0.01), temperature (whole C), clock (Hz,
 *       steps of 15 MHz), memory used (bytes, steps of 2 MiB), energy (J, counter
 *       of mJ)
 *   16  CPU seconds (counters of 0.01 s), user and system of 8 CPUs
 *   14  other figures of the host: load, context switches, interrupts, network,
 *       disk, memory in pages, threads
 *   16  step seconds and data seconds of 8 ranks (whole nanoseconds)
 *   18  8 ranks x loss and gradient norm (floats); learning rate of two groups of
 *       parameters (double, cosine with warm-up)
 *   10  constants: sizes, limits, versions
 *
 * So 26 % of the points are figures of training, 43 % of GPUs, 8 % constants; other
 * proportions give other averages. Every half hour a checkpoint of 25 s leaves the
 * GPUs idle, and now and then they wait 1 to 4 s for data; noise is stationary
 * otherwise. Each series has one point a second.
 */
#ifndef SIMULATE_MIXED_H
#define SIMULATE_MIXED_H

#include <stddef.h>
#include <stdint.h>

#define MIXED_SERIES 130u
#define MIXED_POINTS 14400u /* four hours at 1 Hz */
#define MIXED_JITTER_NS 4000000

enum mixed_shape {
	MIXED_POWER,
	MIXED_UTILISATION,
	MIXED_MEMORY_UTILISATION,
	MIXED_TEMPERATURE,
	MIXED_CLOCK,
	MIXED_MEMORY,
	MIXED_ENERGY,
	MIXED_CPU_SECONDS,
	MIXED_LOAD,
	MIXED_COUNT, /* counter of whole numbers with bursts */
	MIXED_BYTES, /* counter of bytes in packets or blocks */
	MIXED_PAGES, /* gauge of bytes in pages of 4096 */
	MIXED_THREADS,
	MIXED_STEP_SECONDS,
	MIXED_LOSS,
	MIXED_GRADIENT_NORM,
	MIXED_LEARNING_RATE,
	MIXED_CONSTANT,
	MIXED_SHAPES
};

/* What a shape is called in tables; owned by the program. */
const char *mixed_shape_name(enum mixed_shape shape);

/* The shape of series 0 to MIXED_SERIES - 1. */
enum mixed_shape mixed_shape_of(unsigned series);

/* The first n values of a series; any n. */
void mixed_values(uint64_t seed, unsigned series, double *v, size_t n);

/* The first n times, which all series share: whole seconds from start_ns, each off
 * by at most MIXED_JITTER_NS, evenly distributed. */
void mixed_times(uint64_t seed, int64_t start_ns, int64_t *t, size_t n);

#endif
