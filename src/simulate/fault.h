/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h - what can be wrong with a simulated run: a row a fault, from which
 * come its parsing, `lapse simulate --list-faults`, the documentation and the
 * event that tells the truth about it.
 */
#ifndef SIMULATE_FAULT_H
#define SIMULATE_FAULT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
	FAULT_NAN,
	FAULT_LOSS_SPIKE,
	FAULT_GRADIENT_EXPLOSION,
	FAULT_GRADIENT_VANISHING,
	FAULT_LR_ERROR,
	FAULT_STALL,
	FAULT_SLOW_RANK,
	FAULT_SLOW_DATA,
	FAULT_IO_WAIT,
	FAULT_WORKER_DEATH,
	FAULT_MEMORY_LEAK,
	FAULT_DISK_FILLING,
	FAULT_IDLE_GPU,
	FAULT_HOT_GPU,
	FAULT_THROTTLING,
	FAULT_ECC,
	FAULT_XID,
	FAULT_KINDS
};

/* Where a fault shows first. */
enum fault_place {
	FAULT_IN_RUN,       /* every rank */
	FAULT_IN_LAST_RANK, /* the rank with the highest number */
	FAULT_IN_HOST,      /* the first host */
	FAULT_IN_GPU        /* GPU 0 of the first host, and rank 0, which uses it */
};

struct fault_row {
	const char *name;
	const char *signature; /* what the run shows, one line */
	const char *strength;  /* what the number means, with its unit */
	double usual, lo, hi;  /* strength: default, and what is allowed */
	int permille;          /* length: share of all steps; 0: one step, 1000: to the end */
	enum fault_place place;
	const char *series; /* names that show it, comma-separated */
};
extern const struct fault_row fault_rows[FAULT_KINDS];

#define FAULT_SYNTAX "NAME[@WHEN[+LENGTH]][:STRENGTH], WHEN and LENGTH in steps or like 40%"

/* As it was written. */
struct fault_spec {
	enum fault_kind kind;
	double when, length; /* steps, or per cent of all steps */
	bool when_is_share, length_is_share, has_length;
	double strength;
};

/* Placed in a run: from step `begin` on, before step `end`; counted in the order
 * in which steps are done, from 0. */
struct fault {
	enum fault_kind kind;
	int64_t begin, end;
	int64_t begin_ns, end_ns; /* since the run's start; filled by the plan */
	double strength;
};

/* Parse FAULT_SYNTAX; without WHEN it is 50%. 0, or -EINVAL and what is wrong. */
int fault_parse(const char *text, struct fault_spec *ret, struct err *e);

/* Place it in a run of `steps` steps. 0, or -ERANGE: it begins after the last. */
int fault_place(const struct fault_spec *f, int64_t steps, struct fault *ret, struct err *e);

/* The first fault of a kind that holds at a step, or at a moment (ns since the
 * run's start); NULL: none. */
const struct fault *fault_at_step(const struct fault *f, unsigned n, enum fault_kind kind,
				  int64_t index);
const struct fault *fault_at_ns(const struct fault *f, unsigned n, enum fault_kind kind,
				int64_t ns);

#endif
