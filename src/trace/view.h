/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h - the rows that analyses work on: those of a trace (or of all ranks) chosen and
 * timed by one of two rules, as arrays in memory. docs/trace-numbers.md, "Rows".
 *
 *   exact  every row with dur that is not quarantined; ns as written; the last profiler
 *          step stays; a row is the GPU's by its category (JAX: by its thread).
 *   hta    what Holistic Trace Analysis 0.6.1 uses by default: with fractional
 *          times ts up and end down to whole us (dur may become -1 us), without the last
 *          ProfilerStep, GPU rows by stream and correlation, its row duplicates.
 *          hta_exact: the same rows without rounding (HTA_DISABLE_NS_ROUNDING=1).
 */
#ifndef TRACE_VIEW_H
#define TRACE_VIEW_H

#include "trace/trace.h"

enum view_rule {
	VIEW_EXACT,
	VIEW_HTA,
	VIEW_HTA_EXACT
};

enum view_class {
	VIEW_COMPUTATION,
	VIEW_COMMUNICATION,
	VIEW_MEMORY,
	VIEW_OTHER,
	VIEW_CLASSES
};

/* One row. 64 bytes. */
struct view_row {
	int64_t ts, end; /* ns; relative to the smallest ts of all ranks for the hta rules, else
			    as in the trace */
	int64_t correlation;
	uint32_t row;   /* of the trace (trace_block) */
	uint32_t index; /* place in traceEvents */
	uint32_t name;  /* text id */
	uint32_t args;
	int32_t stream;   /* hta: args.stream; exact: of GPU rows that, else the thread's number */
	int32_t step;     /* number N of ProfilerStep#N that it belongs to; -1 none */
	uint32_t partner; /* hta: index_correlation (docs/trace-numbers.md): place in traceEvents of
			     its launch or kernel; 0: it has a correlation and no partner;
			     UINT32_MAX: no correlation */
	uint32_t pair;    /* place in view.rows of the launch (of GPU rows) or of the work (of CPU
			     rows): hta: the row that partner names; exact: the last call of the
			     runtime or driver, the first work; UINT32_MAX: not here */
	uint16_t track;
	uint8_t cat;   /* enum trace_cat */
	uint8_t class; /* enum view_class, of GPU rows; else VIEW_OTHER */
	bool is_gpu;   /* exact: kernels, memcpys, memsets; hta: stream is not -1 */
};

#define VIEW_NO_ROW UINT32_MAX

struct view_step {
	int64_t ts, end; /* of the CPU row named ProfilerStep#N */
	int64_t number;
};

struct view {
	struct trace *trace; /* not owned */
	enum view_rule rule;
	struct view_row *rows; /* by (ts, index); GPU and CPU */
	size_t n;
	/* hta: places in rows in the order that HTA's table has: results that depend on the order
	 * of equal times come out alike. NULL for exact. */
	uint32_t *table;
	struct view_step *steps; /* by ts */
	size_t n_steps;
	int64_t rank;
	bool rounded;        /* hta: times were rounded */
	bool dropped_last;   /* hta: rows of the last step are not here */
	int64_t origin;      /* ns that were subtracted from times (hta; 0 for exact) */
	double origin_us;    /* view_us() of that */
	int64_t first, last; /* smallest ts, largest end of all rows, with those that devices_only
				left out; 0, 0 without rows */
	int64_t last_ts;     /* largest ts of those */
	uint64_t left_out;   /* rows with a duration that the rule leaves out: broken ones, and
				times beyond 73 years or 104 days of duration */
	struct view_index *linked;         /* made by view_linked() */
	uint32_t *devices, *devices_table; /* of view_devices() */
	size_t n_devices;
};

struct view_options {
	enum view_rule rule;
	bool include_last; /* hta: keep the last profiler step */
	/* exact: only rows that begin in [from, to) ns, or in these steps; 0, 0: all. A launch
	 * before from is not known then. */
	int64_t from, to, step_from, step_to; /* steps: [step_from, step_to) */
	/* Only GPU rows, the calls that may have launched them, annotations and steps: all that
	 * the tables but opdelay need, in some 40 % of the memory. hta: all rows with a
	 * correlation. */
	bool devices_only;
};

/* The view of each of n traces (ranks of one job: times of the hta rules are relative to the
 * smallest ts of all). ret: array of n views that the caller passes to view_free(). 0,
 * -ENOMEM, -EOVERFLOW (more than VIEW_ROWS_MAX rows, which the duplicates of the hta rules
 * can make). n of 0 is -EINVAL. */
#define VIEW_ROWS_MAX (UINT32_MAX - 1)
int view_new(struct trace *const traces[], size_t n, const struct view_options *o,
	     struct view **ret);
void view_free(struct view *v, size_t n);

/* HTA's class of a kernel name (docs/trace-numbers.md, "Classes"); for exact rules today's
 * names are known too (hip and rccl kernels, memcpys of all vendors). */
enum view_class view_class_of(const char *name, enum trace_cat cat, enum view_rule rule);

/* Does a row of this category launch work? Host rows that only carry the number do not. */
bool view_is_call(enum trace_cat cat);

/* Rows with this correlation: launches (CPU) and work (GPU). Ids of rows in v->rows of
 * one correlation are neighbours in the returned array, by (ts). Built at the first call. */
struct view_link {
	const uint32_t *rows;
	size_t n;
};
struct view_link view_linked(struct view *v, int64_t correlation); /* n 0: none, no memory */

/* Places in v->rows of those with is_gpu, by time; by_table: in the order of table, where there is
 * one. NULL: no memory. */
const uint32_t *view_devices(struct view *v, bool by_table, size_t *ret_n);

/* Times in us as a program reads them that keeps us in doubles: what HTA computes with. */
#define VIEW_DOUBLE_EXACT (1ll << 53)    /* a double holds every integer below */
double view_parts_us(int64_t ns);        /* view_us() where they are not whole us */
static inline double view_us(int64_t ns) /* of a duration */
{
	int64_t us = ns / 1000;

	if (us * 1000 == ns && us < VIEW_DOUBLE_EXACT && us > -VIEW_DOUBLE_EXACT)
		return (double)us;
	return view_parts_us(ns);
}

static inline double view_since_us(const struct view *v, int64_t ts) /* of a time, since origin */
{
	return view_us(ts + v->origin) - v->origin_us;
}

static inline double view_ts_us(const struct view *v, const struct view_row *r)
{
	return view_since_us(v, r->ts);
}

static inline double view_end_us(const struct view *v, const struct view_row *r)
{
	return view_ts_us(v, r) + view_us(r->end - r->ts);
}

/* A sort key and the element that it belongs to. */
struct view_key {
	uint64_t key;
	uint32_t id;
};
/* Stable sort by key; spare has room for n. Linear in n. */
void view_sort(struct view_key *keys, struct view_key *spare, size_t n);
/* A signed number as a key that sorts alike. */
static inline uint64_t view_key_of(int64_t number)
{
	return (uint64_t)number ^ (1ull << 63);
}

/* Number N of a name that begins with "ProfilerStep#N"; -1 if it does not. */
int32_t view_step_number(const char *name);

/* Intervals as half-open [ts, end), merged: sorted, touching and overlapping ones joined. In
 * place; returns how many are left. */
struct view_span {
	int64_t ts, end;
};
size_t view_merge(struct view_span *s, size_t n);
int64_t view_total(const struct view_span *s, size_t n); /* sum, ns */
/* |a intersected with b|, both merged. */
int64_t view_overlap(const struct view_span *a, size_t na, const struct view_span *b, size_t nb);

#endif
