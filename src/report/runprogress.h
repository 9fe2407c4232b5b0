/* SPDX-License-Identifier: Apache-2.0
 *
 * runprogress.h - how far a run is and how fast it goes, from what is stored of its
 * steps: of the trainer of the lowest rank, in its newest attempt.
 */
#ifndef REPORT_RUNPROGRESS_H
#define REPORT_RUNPROGRESS_H

#include "base/err.h"
#include "report/runview.h"

#define RUNPROGRESS_WINDOW_NS 10000000000LL /* rates are of the last so many */

/* Numbers are NaN, steps SINK_STEP_NONE, times 0 where not known. */
struct runprogress {
	int64_t step, first_step; /* that ended last; the first of the attempt */
	int64_t of;               /* steps in all; 0: not known */
	double share;             /* 0 to 1 */
	double steps_s, samples_s, tokens_s;
	double eta_s; /* of a run that runs */
	double epoch;
	int64_t epochs;        /* in all; 0: not known */
	int64_t last_ns;       /* when the last step ended, UTC */
	const char *loss_name; /* of the view; NULL: there is none */
	double loss, loss_min;
};

/* Read it. 0, or -errno and *e. */
int runprogress_read(const struct runview *v, struct runprogress *ret, struct err *e);

#endif
