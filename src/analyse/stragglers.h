/* SPDX-License-Identifier: Apache-2.0
 *
 * stragglers.h - which ranks HTA calls potential stragglers: those whose last long NCCL
 * kernel of a step begins late. Definition: HTA 0.6.1, analyzers/straggler.py, to the digit;
 * ranks.h has ours.
 */
#ifndef ANALYSE_STRAGGLERS_H
#define ANALYSE_STRAGGLERS_H

#include "base/err.h"
#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stragglers_row {
	int64_t rank;
	int32_t stream, step;
	const char *name; /* of the kernel; of a trace */
	double ts_us, us;
	double start;  /* since the first row, in mean steps: HTA's metric */
	double length; /* in mean steps */
	bool is_late;  /* among the latest of its step */
};

struct stragglers_result {
	struct stragglers_row *rows; /* by rank, step */
	size_t n;
	int64_t *ranks; /* the stragglers, most often late first */
	size_t n_ranks;
	double step_us; /* mean step as HTA has it */
};

/* Views of the hta rules of all ranks of a job, made together. candidates: how many ranks to
 * name; 0: HTA's default, 2. 0; -ENODATA: no steps, or no NCCL kernel named ncclKernel...
 * that is long enough (e says which); -ENOMEM. */
int stragglers_new(const struct view *views, size_t n, unsigned candidates,
		   struct stragglers_result **ret, struct err *e);
void stragglers_free(struct stragglers_result *s); /* NULL is accepted */

#endif
