/* SPDX-License-Identifier: Apache-2.0
 *
 * simtest.h - what tests of the simulator share: usual options, looking up series,
 * and a sink that checks every call and keeps samples and events.
 */
#ifndef TESTS_SIMTEST_H
#define TESTS_SIMTEST_H

#include "simulate/simulate.h"

#define SIMTEST_MS 1000000LL
#define SIMTEST_START 1767323045000000000LL
#define SIMTEST_ANY UINT32_MAX /* rank or unit: the first */

/* 1,000 steps of 100 ms, a reading a second, 2 ranks on one host with 2 GPUs and 4
 * CPUs, seed 7. */
struct simulate_options simtest_options(void);

/* The run of these options with faults (texts ended by NULL); fails the test if it
 * cannot be made. */
struct simulate *simtest_new(struct simulate_options o, const char *const *faults);

/* A series by name, rank and number of CPU or GPU; fails the test if there is none. */
struct simulate_series simtest_series(const struct simulate *m, const char *name, uint32_t rank,
				      uint32_t unit);
/* One value of it. */
double simtest_value(const struct simulate *m, const char *name, uint32_t rank, uint64_t k);
double simtest_gpu(const struct simulate *m, const char *name, uint32_t gpu, uint64_t k);

struct simtest_sink {
	struct sink sink;
	uint32_t n_processes, n_series;
	struct {
		uint8_t uid[16];
		int64_t end_ns;
	} processes[64];
	struct simtest_kept {
		struct sink_series d;
		char name[64], labels[64];
		struct sink_sample *samples; /* of a histogram: time, step, sum */
		size_t n, cap;
	} series[512];
	struct {
		uint32_t process;
		int64_t time_ns, step;
		int severity;
		char kind[32], text[256], attrs[1024];
	} events[256];
	size_t n_events, n_attrs, n_hists;
	uint64_t stored; /* by the positions */
	struct {
		uint8_t ring[16];
		uint64_t stored;
	} lanes[64];
	size_t n_lanes;
};

void simtest_sink_init(struct simtest_sink *s);
void simtest_sink_done(struct simtest_sink *s);
/* First event of a kind from index `from` on, or -1. */
int simtest_event(const struct simtest_sink *s, const char *kind, size_t from);

#endif
