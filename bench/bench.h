/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - timing and printing for the programs of bench/. Each measures a
 * promise of speed beside the bare loop or a peer in the same run, round by
 * round in turn, and prints one JSON object a figure; tools/bench collects them.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_ROUNDS 21

/* Seconds of CLOCK_MONOTONIC. */
double bench_now(void);

/* Seconds of CPU that the process has used, user and system. */
double bench_cpu(void);

/* Median of n values; sorts them. */
double bench_median(double *v, int n);

enum bench_goal {
	BENCH_NONE,      /* a figure without a goal */
	BENCH_VALUE_MAX, /* value at most goal */
	BENCH_VALUE_MIN, /* value at least goal */
	BENCH_RATIO_MAX, /* value / peer at most goal */
	BENCH_RATIO_MIN
};

/* Say what failed and why (NULL: nothing more is known), and end with 1. */
void bench_die(const char *what, const char *why) __attribute__((noreturn));

/* Print one figure. peer NULL: none. */
void bench_print(const char *name, double value, const char *unit, const char *peer,
		 double peer_value, enum bench_goal kind, double goal);

#endif
