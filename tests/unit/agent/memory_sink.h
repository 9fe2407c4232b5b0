/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_sink.h - a sink that keeps everything committed in arrays, fails when
 * told to, and remembers positions like the store does.
 */
#ifndef TESTS_MEMORY_SINK_H
#define TESTS_MEMORY_SINK_H

#include "wire/sink.h"

#include <stdbool.h>

#define MEMORY_MAX 200000
#define MEMORY_NAMES 64

struct memory_sink {
	struct sink sink;
	int fail_commits; /* the next so many commits fail with -ENOSPC */
	struct {
		char name[256], labels[256], unit[64];
		int kind;
		uint32_t process;
	} series[MEMORY_NAMES];
	size_t n_series;
	struct {
		uint8_t uid[16];
		int64_t pid, rank, end_ns;
		uint64_t dropped;
		char role[64];
	} process[MEMORY_NAMES];
	size_t n_process;
	/* Committed, and behind it pending. */
	struct sink_sample *samples;
	size_t n_samples, pending_samples;
	struct {
		uint32_t series;
		uint64_t count, nan, bins;
		double sum, min, max;
	} hists[1024];
	size_t n_hists, pending_hists;
	struct {
		char kind[64], text[512], attrs[4096];
		int severity;
	} events[256];
	size_t n_events, pending_events;
	struct {
		char key[64], value[256];
	} attrs[256];
	size_t n_attrs, pending_attrs;
	struct sink_position positions[64];
	size_t n_positions;
	struct sink_position pending_position[64];
	size_t pending_positions;
	unsigned commits;
	size_t largest; /* samples of the largest commit */
};

/* Make one; free with memory_sink_free(). */
struct memory_sink *memory_sink_new(void);
void memory_sink_free(struct memory_sink *m);

/* Id of a series by name (and labels, "" none); 0 if there is none. */
uint32_t memory_series(const struct memory_sink *m, const char *name, const char *labels);

/* How many committed samples a series has; values go to out if not NULL. */
size_t memory_values(const struct memory_sink *m, uint32_t series, double *out, size_t cap);

/* Is there a committed event of this kind? Its index, or -1. */
int memory_event(const struct memory_sink *m, const char *kind);

#endif
