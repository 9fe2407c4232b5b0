/* SPDX-License-Identifier: Apache-2.0
 *
 * stepread.h - a run's steps and the spans inside them, read from the store and cut into parts,
 * and which steps of a run are its steady part.
 */
#ifndef SERVER_STEPREAD_H
#define SERVER_STEPREAD_H

#include "analyse/stepsplit.h"
#include "report/runview.h"

#define STEPREAD_STEPS_MAX 400000u    /* of all processes; of more the last ones */
#define STEPREAD_STEPS_NEWEST 40000u  /* the same, if not all are asked for: a tenth of the time */
#define STEPREAD_SPANS_MAX (4u << 20) /* of one process at a time; of more in fewer steps */
#define STEPREAD_WARMUP 10u           /* steps of each attempt that are none of the steady part, */
#define STEPREAD_WARMUP_PART 4u       /* or this part of them, if that is less */

/* The series of steps of a process; NULL: it has none. */
const struct store_series *stepread_series(const struct runview *v, const struct store_process *p);

/* The steady part of a run, by the steps of all attempts of its lowest rank; without steps all
 * but the first tenth of its time. from, to: steps asked for; -1: not given. */
struct stepread_steady {
	bool has_steps;
	int64_t step_first, step_last, from_ns, to_ns;
};
int stepread_steady(const struct runview *v, int64_t from, int64_t to, struct stepread_steady *ret,
		    struct err *e);

struct stepread_rank {
	const struct store_process *process; /* of the view; of a rank its newest attempt */
	size_t steps;
};

struct stepread {
	struct stepsplit split;
	const char *names[STEPSPLIT_PARTS_MAX]; /* of the view; the last is "other" */
	struct stepread_rank *ranks;            /* by rank; split.steps[].rank is the place */
	size_t n_ranks;
	uint64_t of, warmup; /* steps that there are, and that were left out as warm-up */
	bool is_cut;
	int64_t first, last;    /* numbers of steps */
	int64_t from_ns, to_ns; /* from the first step's begin to the last one's end */
	size_t waits;           /* part that is known from a histogram only; SIZE_MAX: none */
	double device;          /* device time of phases over the time of steps; NaN */
};

struct stepread_wish {
	int64_t from, to, rank; /* -1: not given */
	size_t most;            /* steps of all processes; of more the last ones */
};

/* 0 (n_ranks 0: there are no steps), or -errno and *e. */
int stepread(const struct runview *v, const struct stepread_wish *wish, struct stepread *ret,
	     struct err *e);
void stepread_done(struct stepread *r);

#endif
