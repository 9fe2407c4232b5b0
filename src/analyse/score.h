/* SPDX-License-Identifier: Apache-2.0
 *
 * score.h - five targets of a well-running training, each passed, failed or unknown, with the
 * number and the threshold. The targets are those of the common optimisation guides; the
 * thresholds that they leave open are set here. docs/trace-numbers.md, "Score".
 */
#ifndef ANALYSE_SCORE_H
#define ANALYSE_SCORE_H

#include "analyse/verdict_trace.h"

enum score_target {
	SCORE_UTILISATION, /* GPU busy part of the wall time > 80 % */
	SCORE_MEMORY,      /* peak of reserved memory of the device's: 70 % to 95 % */
	SCORE_LOADING,     /* GPU idle for the data loader: < 5 % of the wall time */
	SCORE_LAUNCH,      /* GPU idle for launches over GPU busy time: < 10 % */
	SCORE_CPU,         /* GPU idle for the host (launches, syncs, other code): < 20 % */
	SCORE_TARGETS
};

enum score_state {
	SCORE_PASS,
	SCORE_FAIL,
	SCORE_UNKNOWN
};

struct score_row {
	enum score_state state;
	double value;      /* 0..1; NaN unknown */
	double unrecorded; /* the same with the profiler's estimated cost left out; NaN where
			      this makes no difference or is unknown */
	double low, high;  /* passes in (low, high) */
	char text[240];
};

struct score {
	struct score_row rows[SCORE_TARGETS];
	int passed, failed;
};

/* Of one rank's verdict. */
void score_of(const struct verdict_rank *r, struct score *ret);
const char *score_name(enum score_target target);  /* "utilisation" */
const char *score_title(enum score_target target); /* "GPU utilisation above 80 %" */
const char *score_state(enum score_state state);   /* "pass", "fail", "unknown" */
void score_text(const struct score *s, struct buf *out);

#endif
