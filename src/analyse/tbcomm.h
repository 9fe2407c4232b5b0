/* SPDX-License-Identifier: Apache-2.0
 *
 * tbcomm.h - torch-tb-profiler's distributed view: of each collective, how long the slowest
 * part of it took for data and how long a rank waited for the others. Collective i of one rank
 * is collective i of the others. docs/trace-numbers.md, "Collectives over ranks". Times are in
 * tbrows' unit.
 */
#ifndef ANALYSE_TBCOMM_H
#define ANALYSE_TBCOMM_H

#include "analyse/tbsteps.h"

struct tbcomm_op {
	uint32_t name; /* text of that rank's trace */
	uint64_t calls;
	int64_t bytes;
	double total;    /* latency: time in which the annotation or one of its kernels ran */
	double transfer; /* of it, what the quickest rank needed */
};

struct tbcomm_step {
	int64_t step; /* N of ProfilerStep#N; INT64_MIN: in no step */
	double total, transfer;
};

struct tbcomm_rank {
	struct tbcomm_op *ops; /* by name, in the order of their first */
	size_t n_ops;
	struct tbcomm_step *steps;
	size_t n_steps;
};

struct tbcomm {
	struct tbcomm_rank *ranks;
	size_t n;
	bool is_known; /* false: why says what is missing; ranks are empty */
	const char *why;
};

/* Of n ranks; rows and steps by rank, in one order. */
int tbcomm_new(struct tbrows *const rows[], struct tbsteps *const steps[], size_t n,
	       struct tbcomm **ret);
void tbcomm_free(struct tbcomm *c); /* NULL is accepted */

/* Bytes of one element by the name of its type in "Input type" ("float", "c10::Half", ...); 0
 * for a type that is not known. */
int64_t tbcomm_type_bytes(const char *type, size_t len);

/* Bytes of all inputs that args tell of. */
int64_t tbcomm_bytes(const struct trace *t, const struct trace_args *a);

#endif
