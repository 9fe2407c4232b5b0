/* SPDX-License-Identifier: Apache-2.0
 *
 * opdelay.h - how long after the start of an ATen operator its first kernel was launched,
 * and how long until it ran. Definition: docs/trace-numbers.md, "opdelay"; HTA 0.6.1
 * get_aten_op_kernels_and_delay().
 */
#ifndef ANALYSE_OPDELAY_H
#define ANALYSE_OPDELAY_H

#include "trace/view.h"

struct opdelay_row {
	uint32_t op;     /* text id */
	char *sequence;  /* kernel names in the order of launches, joined by " -> "; owned */
	uint64_t count;  /* calls of the operator with this sequence */
	double delay_us; /* mean, launch less operator, of the first launch */
	double wait_us;  /* mean, first kernel less first launch */
};

struct opdelay {
	struct opdelay_row *rows; /* by count, most first, then name, sequence */
	size_t n;
	uint64_t launches;     /* of these calls, with an operator around them */
	uint64_t outside;      /* without one */
	uint64_t without_work; /* without one kernel of their own: left out (HTA stops) */
};

/* exact: the innermost aten:: row of the launch's thread around it. hta: the one that starts
 * last, of any thread. 0, -ENOMEM. */
int opdelay_new(const struct view *v, struct opdelay *ret);
void opdelay_done(struct opdelay *o);

#endif
