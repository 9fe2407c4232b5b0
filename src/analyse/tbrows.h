/* SPDX-License-Identifier: Apache-2.0
 *
 * tbrows.h - the rows that the step, operator, kernel and memory tables are made of, in two
 * variants. docs/trace-numbers.md, "Rows of the tables".
 *
 *   plugin  what torch-tb-profiler 0.4.3 takes: its categories, its threads (by tid alone),
 *           times as doubles in us, so that its sums come out to the last digit.
 *   exact   every row with dur and cat that is not quarantined; driver calls are launches,
 *           the GPU's copies of annotations are neither steps nor host work; times are whole
 *           ns since the first row (as doubles, which hold them up to 104 days).
 *
 * Allocation failure aborts.
 */
#ifndef ANALYSE_TBROWS_H
#define ANALYSE_TBROWS_H

#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tbrows_variant {
	TBROWS_EXACT,
	TBROWS_PLUGIN
};

enum tbrows_type {
	TBROWS_OPERATOR,
	TBROWS_STEP,
	TBROWS_RUNTIME,
	TBROWS_KERNEL,
	TBROWS_MEMCPY,
	TBROWS_MEMSET,
	TBROWS_ANNOTATION,     /* user_annotation; plugin: gpu_user_annotation too */
	TBROWS_GPU_ANNOTATION, /* exact only */
	TBROWS_PYTHON,         /* python_function */
	TBROWS_MODULE,         /* python_function with "Python module id" */
	TBROWS_TRACE,
	TBROWS_OVERHEAD, /* exact only: the profiler's own */
	TBROWS_SYNC,     /* exact only: cuda_sync, on the GPU's side */
	TBROWS_TYPES
};

struct tbrows_row {
	double ts, end, dur;           /* times tbrows.per_us are us */
	int64_t correlation, external; /* TRACE_NONE */
	uint32_t row;                  /* of the trace */
	uint32_t name, args;
	int32_t lane; /* thread, from 0 */
	uint16_t track;
	uint8_t type; /* enum tbrows_type */
};

struct tbrows {
	struct trace *trace; /* not owned */
	enum tbrows_variant variant;
	double per_us;           /* units of times in one us: 1 (plugin), 1000 (exact) */
	int64_t zero_ns;         /* exact: time 0; plugin: 0 */
	int64_t from, to;        /* only what begins in it, ns; 0, 0: all */
	bool is_window;          /* tbrows_new_window() */
	struct tbrows_row *rows; /* by ts, then as in the file */
	size_t n;
	uint32_t n_lanes;
	int32_t *lanes; /* by track */
	uint64_t count[TBROWS_TYPES];
	double first, last;      /* smallest ts, largest end */
	double start_ts, end_ts; /* "PyTorch Profiler (0)", else first and last */
	double profiler_start;   /* smallest ts of rows and, of all of a trace, memory events */
	uint16_t *names;         /* flags by text id, as tbrows_names() has them */
};

/* 0, or -EIO: the trace's temporary file cannot be read. The trace must outlive it. */
int tbrows_new(struct trace *t, enum tbrows_variant variant, struct tbrows **ret);
/* Exact: only what begins in [from, to), ns as in the trace; 0, 0: all. Times are since the trace's
 * first row all the same. */
int tbrows_new_part(struct trace *t, int64_t from, int64_t to, struct tbrows **ret);
/* The same with the work of devices that begins outside, if it belongs to a launch (by correlation)
 * or an operator (by external id) that begins in it. */
int tbrows_new_window(struct trace *t, int64_t from, int64_t to, struct tbrows **ret);
void tbrows_free(struct tbrows *b); /* NULL is accepted */

/* Is a time of the trace in its part? */
bool tbrows_is_in(const struct tbrows *b, int64_t ts);

/* enum tbnames_flag of a name. */
uint16_t tbrows_names(const struct tbrows *b, uint32_t name);

/* Device of a row: args.device; exact: else the pid. TRACE_NONE. */
int64_t tbrows_device(const struct tbrows *b, const struct tbrows_row *r);

/* A time of the trace in the variant's unit. */
double tbrows_time(const struct tbrows *b, int64_t ns);

/* As above without a tbrows: us of ns, the double nearest to the decimal text. */
double tbrows_us(int64_t ns);

/* Lane of a thread; -1 if there is no such track. */
int32_t tbrows_lane(const struct tbrows *b, uint16_t track);

#endif
