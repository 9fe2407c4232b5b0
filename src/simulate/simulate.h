/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate.h - whole training runs, made up: several ranks on several hosts, the
 * machines and GPUs under them, and faults planted where you want them.
 *
 * Every point of every series is a function of the options, the series and the
 * point's index, and of nothing else: a test can ask for the value that a stored
 * run must hold. All of it is arithmetic that IEEE 754 rounds correctly (+ - * /,
 * sqrt, conversions; no libm, no fused multiply-add), so that it is the same, bit
 * for bit, on every machine.
 */
#ifndef SIMULATE_SIMULATE_H
#define SIMULATE_SIMULATE_H

#include "base/err.h"
#include "simulate/fault.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIMULATE_FAULTS_MAX 32
#define SIMULATE_STEPS_MAX 1000000000000LL
#define SIMULATE_PERIOD_MIN_NS 1000LL         /* 10^6 steps a second */
#define SIMULATE_PERIOD_MAX_NS 100000000000LL /* 0.01 */
#define SIMULATE_TICK_MIN_NS 100000LL         /* 10^4 readings a second */
#define SIMULATE_TICK_MAX_NS 1000000000000LL  /* 0.001 */
#define SIMULATE_RANKS_MAX 4096
#define SIMULATE_HOSTS_MAX 64
#define SIMULATE_GPUS_MAX 64
#define SIMULATE_CPUS_MAX 1024
#define SIMULATE_SERIES_MAX 1000000
#define SIMULATE_BINS_MAX 128 /* observations of a histogram point */

struct simulate_options {
	uint64_t seed;
	int64_t start_ns;  /* UTC, of the first step */
	int64_t steps;     /* of the training; with a resume some are done twice */
	int64_t period_ns; /* a step and the pause behind it */
	int64_t tick_ns;   /* between readings of the machine */
	uint32_t ranks, hosts;
	uint32_t gpus, cpus; /* of each host */
	uint32_t series;     /* plain gauges of rank 0 are added up to this; 0: none */
	bool resume;         /* a second attempt, from a checkpoint on */
	struct fault_spec faults[SIMULATE_FAULTS_MAX];
	unsigned n_faults;
};

struct simulate;

/* Options are checked. 0, or -EINVAL, -ERANGE and what is wrong. Immutable from
 * then on: many threads may ask. */
int simulate_new(const struct simulate_options *o, struct err *e, struct simulate **ret);
void simulate_free(struct simulate *m);

/* How it ends, and how much there is. */
struct simulate_size {
	int64_t end_ns;  /* since the start */
	int64_t steps;   /* that ended, in all attempts */
	uint64_t points; /* samples, spans and histogram points of all series */
	size_t series;
	bool oom; /* memory ran out */
};
void simulate_size(const struct simulate *m, struct simulate_size *ret);

/* The faults, placed; SIMULATE_FAULTS_MAX at most. */
unsigned simulate_faults(const struct simulate *m, const struct fault **ret);

/* ---- processes, series, points: pure functions --------------------------------- */

/* One of the processes that carry series. */
struct simulate_process {
	uint32_t host;
	struct sink_process sink; /* end_ns 0; strings are static */
};

/* Processes 0, 1, ... ; -ENOENT behind the last. Of each host "host" and "command",
 * then its ranks' trainers; two workers of rank 0 come last on host 0. */
int simulate_process(const struct simulate *m, size_t i, struct simulate_process *ret);

struct simulate_row;

struct simulate_series {
	const struct simulate_row *row; /* of the table of shapes; private */
	uint64_t key;                   /* of its random numbers */
	uint32_t host, rank, unit;      /* unit: number of the CPU, GPU or gauge */
	uint32_t process;               /* as simulate_process() counts */
	char name[40], labels[24];
};

/* Series 0 to simulate_size().series - 1; those of one host follow each other, but
 * for the added gauges, which come last. */
void simulate_series(const struct simulate *m, size_t i, struct simulate_series *ret);
const char *simulate_unit(const struct simulate_series *s);
const char *simulate_help(const struct simulate_series *s);
enum sink_kind simulate_kind(const struct simulate_series *s);
const char *simulate_source(const struct simulate_series *s);
uint64_t simulate_points(const struct simulate *m, const struct simulate_series *s);

struct simulate_point {
	int64_t time_ns, step;
	double value;
	uint32_t thread;
	struct sink_hist hist; /* n_bins > 0: a histogram's point; series is 0 */
	struct sink_bin bins[SIMULATE_BINS_MAX];
};

/* Point k of a series, k < simulate_points(). hist.bins points into *ret. */
void simulate_point(const struct simulate *m, const struct simulate_series *s, uint64_t k,
		    struct simulate_point *ret);
/* Its value alone. */
double simulate_value(const struct simulate *m, const struct simulate_series *s, uint64_t k);

/* ---- pushing a host's part into a sink, in the order of time -------------------- */

struct simulate_feed;

/* Defines the host's processes and series and pushes its attributes; the sink must
 * outlive the feed. 0, or the sink's error. */
int simulate_feed_new(const struct simulate *m, uint32_t host, struct sink *s,
		      struct simulate_feed **ret);
void simulate_feed_free(struct simulate_feed *f);

/* Push what happens until (ns since the start, included), but stop soon after
 * `most` points (one step of all ranks, or one reading, is never cut: up to
 * 1,200,000 points more). The caller commits. 0: all until then; 1: there is more;
 * else the sink's error. */
int simulate_feed_push(struct simulate_feed *f, int64_t until_ns, uint64_t most);

/* Points pushed so far; ns since the start up to which all has been pushed; has it
 * come to its end. */
uint64_t simulate_feed_points(const struct simulate_feed *f);
int64_t simulate_feed_ns(const struct simulate_feed *f);
bool simulate_feed_is_done(const struct simulate_feed *f);

/* The end of all processes of the host, to be committed. */
int simulate_feed_end(struct simulate_feed *f, int64_t end_ns);

#endif
