/* SPDX-License-Identifier: Apache-2.0
 *
 * statusline.h - a running run in one line: what is known of it, how fast it goes, and
 * how that is written into so many columns.
 */
#ifndef CLI_STATUSLINE_H
#define CLI_STATUSLINE_H

#include <stddef.h>
#include <stdint.h>

#define STATUSLINE_MAX 512 /* bytes of a line, NUL included */
#define STATUSLINE_WINDOW_NS 10000000000LL
#define STATUSLINE_MARKS 64

/* What is known now. Numbers are NaN where not known. */
struct statusline {
	double elapsed_s;
	int64_t step;  /* last one that ended; SINK_STEP_NONE: none yet */
	int64_t total; /* steps in all; 0 not known */
	double loss;   /* last value */
	double steps_s, samples_s, tokens_s;
	double eta_s;
	double quiet_s;             /* since the last step ended, if that is remarkably long */
	unsigned gpus;              /* whose load is known */
	double gpu_busy;            /* mean of these, 0 to 1 */
	double gpu_used, gpu_total; /* bytes, of the fullest */
	double cpu_busy;            /* 0 to 1; only shown without GPUs and steps */
	double rss, limit;          /* bytes of the run's processes, and what limits them */
	uint64_t lost;              /* records dropped or overwritten */
};

/* All NaN, no steps. */
void statusline_init(struct statusline *s);

/* Write the line for so many columns; what matters least is left out where it does not
 * fit. ASCII. Returns out. */
const char *statusline_text(char out[STATUSLINE_MAX], const struct statusline *s, size_t columns);

/* ---- speed ------------------------------------------------------------------- */

/* How far it was at a moment. */
struct statusline_mark {
	int64_t end_ns; /* of the last step */
	uint64_t steps;
	double samples, tokens; /* NaN: not known */
};

/* The last marks. Zero-initialise. */
struct statusline_speed {
	struct statusline_mark marks[STATUSLINE_MARKS];
	size_t n;
};

/* Add what was read now (first_step: number of the first one of the attempt) and set
 * steps_s, samples_s, tokens_s, eta_s and quiet_s: over the last 10 s of steps, or the
 * last two that differ. Fewer steps than before: it began again. */
void statusline_add(struct statusline_speed *v, const struct statusline_mark *m, int64_t first_step,
		    int64_t now_ns, struct statusline *s);

#endif
