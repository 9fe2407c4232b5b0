/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.h - what simulated series look like: a row a series, with a function that
 * gives its value at a step or a moment.
 */
#ifndef SIMULATE_SHAPE_H
#define SIMULATE_SHAPE_H

#include "simulate/plan.h"
#include "simulate/simulate.h"

#define SHAPE_BATCH 32
#define SHAPE_TOKENS 65536 /* in a step of one rank */
#define SHAPE_RATE_PEAK 3e-4
#define SHAPE_MEMORY_TOTAL (128.0 * 1073741824)
#define SHAPE_MEMORY_LIMIT (96.0 * 1073741824)
#define SHAPE_MEMORY_USED (40.0 * 1073741824) /* of it in use before any leak */
#define SHAPE_TREE_RSS (24.0 * 1073741824)
#define SHAPE_DISK_TOTAL (2.0 * 1099511627776)
#define SHAPE_DISK_USED (0.42 * SHAPE_DISK_TOTAL)
#define SHAPE_GPU_MEMORY (80.0 * 1073741824)
#define SHAPE_CLOCK_HZ 1.98e9
#define SHAPE_CLOCK_STEP_HZ 15e6
#define SHAPE_WORKERS 2 /* data workers of rank 0 */

/* Where a value stands. */
struct shape_at {
	const struct plan *p;
	const struct simulate_series *s;
	const struct plan_common *c; /* the step; NULL for the machine */
	const struct plan_phases *f;
	const struct plan_moment *now; /* the moment; NULL for the training */
	int64_t index;                 /* of the step or reading */
};

enum shape_every { /* what a point is made for */
	SHAPE_STEP,
	SHAPE_EVAL,
	SHAPE_CHECKPOINT,
	SHAPE_EPOCH,
	SHAPE_HISTOGRAM,
	SHAPE_TICK,
	SHAPE_EVERY
};

/* When a step's point is made: at the step's end, or after what follows it. */
enum shape_when {
	SHAPE_AT_END,
	SHAPE_AT_EVAL_END,
	SHAPE_AT_SPAN /* it is a span */
};

struct simulate_row {
	const char *name, *unit, *help;
	const char
		*labels; /* of the only instance ("device=\"nvme0n1\""); NULL none, or a number */
	enum sink_kind kind;
	enum shape_every every;
	enum shape_when when;
	enum plan_phase phase; /* of spans of phases */
	double (*value)(const struct shape_at *a);
	double scale; /* of a histogram's observations */
	/* Of spans: begin and length. */
	void (*span)(const struct shape_at *a, int64_t *ret_begin_ns, int64_t *ret_ns);
};

struct shape_table {
	const struct simulate_row *rows;
	unsigned n;
};

/* Series of each host, CPU, GPU, process tree, rank, of rank 0 only, and the added
 * plain gauges. */
extern const struct shape_table shape_host, shape_cpu, shape_gpu, shape_tree, shape_rank,
	shape_first;
extern const struct simulate_row shape_gauge;
/* Each rank's time in sync: only if there are several. */
extern const struct simulate_row shape_sync;

/* Due after every n-th step number; 1 for SHAPE_STEP. */
int64_t shape_nth(const struct plan *p, enum shape_every every);

/* Observations of a histogram of gradients or weights, SIMULATE_BINS_MAX of them
 * into v. */
void shape_observe(const struct shape_at *a, double *v);

/* What faults do to the length of gradients at a step: a factor. */
double shape_gradient_factor(const struct plan *p, int64_t index);
/* Bytes leaked on the first host at a moment. */
double shape_leak(const struct plan *p, int64_t ns);

/* Cosine of pi * x for 0 <= x <= 1: Taylor's polynomial of degree 20 up to 1/2, and
 * -cos(pi * (1 - x)) above; off by at most 2^-51. */
double shape_cos_pi(double x);
/* The nearest multiple of unit, and the nearest to 1/per as a decimal; x is not
 * negative. */
double shape_round(double x, double unit);
double shape_decimal(double x, double per);

#endif
