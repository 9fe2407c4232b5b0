/* SPDX-License-Identifier: Apache-2.0
 *
 * tracediff.h - what changed from one trace to another, in two ways: HTA's table of counts
 * and sums of one step each, and ours: time per step of every operator and kernel, with a
 * test over the steps.
 *
 * Definitions: HTA 0.6.1, trace_diff.py; docs/trace-numbers.md, "Difference".
 */
#ifndef ANALYSE_TRACEDIFF_H
#define ANALYSE_TRACEDIFF_H

#include "base/err.h"
#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- HTA's ---------------------------------------------------------------------------- */

enum tracediff_device {
	TRACEDIFF_ALL,
	TRACEDIFF_HOST,
	TRACEDIFF_DEVICE
};

enum tracediff_change {
	TRACEDIFF_ADDED,   /* only in the second */
	TRACEDIFF_DELETED, /* only in the first */
	TRACEDIFF_INCREASED,
	TRACEDIFF_DECREASED,
	TRACEDIFF_UNCHANGED /* as many calls in both */
};
extern const char *const tracediff_change_names[]; /* HTA's: "added", ... */

struct tracediff_row {
	char *name;
	uint64_t calls[2];
	int64_t ns[2];
	uint8_t change;
};

struct tracediff_table {
	struct tracediff_row *rows; /* by name */
	size_t n;
	int32_t step[2]; /* that were compared */
};

struct tracediff_options {
	enum tracediff_device device;
	bool short_names;
	int32_t step[2]; /* -1: the first of each */
};

/* Views of the hta rules with the last step kept (HTA compares before it drops anything).
 * 0; -ENOENT: a side has no such step; -ENOMEM. */
int tracediff_new(const struct view *a, const struct view *b, const struct tracediff_options *o,
		  struct tracediff_table **ret, struct err *e);
void tracediff_free(struct tracediff_table *t); /* NULL is accepted */

/* ---- ours ------------------------------------------------------------------------------ */

enum tracediff_kind {
	TRACEDIFF_KERNEL,   /* work of devices: its length */
	TRACEDIFF_OPERATOR, /* calls of the host: their own time, without what they call */
	TRACEDIFF_KINDS
};

enum tracediff_verdict {
	TRACEDIFF_NEW,
	TRACEDIFF_GONE,
	TRACEDIFF_SLOWER,
	TRACEDIFF_FASTER,
	TRACEDIFF_SAME,    /* changed by less than the limit */
	TRACEDIFF_UNSURE,  /* changed by more, but the steps scatter too much to say so */
	TRACEDIFF_UNTESTED /* fewer than two steps on a side */
};
extern const char *const tracediff_verdict_names[];

/* By ranks where steps are skewed (mannwhitney_skew() beyond TRACEDIFF_SKEW on a side: a few
 * steps are much longer than the others, and a mean says little) and there are enough of them
 * that ranks can say something at the level (4 and 4 steps at 0.05). */
enum tracediff_test {
	TRACEDIFF_WELCH,
	TRACEDIFF_RANKS
};
#define TRACEDIFF_SKEW 1.0
extern const char *const tracediff_test_names[]; /* "welch", "ranks" */

struct tracediff_side {
	uint64_t calls;
	double per_step; /* mean ns a step */
	double spread;   /* standard deviation over steps (n - 1), ns; NaN below 2 */
};

struct tracediff_item {
	const char *name; /* of one of the traces */
	uint8_t kind, verdict;
	struct tracediff_side side[2];
	double delta;  /* ns a step, second less first */
	double p;      /* Welch's; NaN untested */
	double p_rank; /* Mann and Whitney's; NaN untested */
	double q;      /* that of `test`, adjusted for all names of the table; NaN untested */
	uint8_t test;  /* enum tracediff_test: which of them judges */
	double effect; /* Hedges' g */
};

struct tracediff_result {
	struct tracediff_item *items; /* largest |delta| first */
	size_t n;
	size_t steps[2]; /* without any: 1, the whole trace */
	bool has_steps[2];
	bool is_few; /* steps of both are tested, but too few for a test by ranks */
	double total[2][TRACEDIFF_KINDS]; /* mean ns a step, all names */
	double step_ns[2];                /* mean length of a step; NaN without */
};

struct tracediff_limits {
	double level; /* of q; 0: 0.05 */
	double least; /* relative change below which a name is "same"; 0: 0.01 */
};

/* Exact views (of one trace or window each). 0 or -ENOMEM. The traces must outlive it. */
int tracediff_steps_new(const struct view *a, const struct view *b,
			const struct tracediff_limits *l, struct tracediff_result **ret);
void tracediff_steps_free(struct tracediff_result *r); /* NULL is accepted */

#endif
