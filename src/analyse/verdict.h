/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.h - the words in which lapse says what a training step is bound by: kinds of
 * shares, the rule table, and the decision. Knows nothing of traces: whoever can fill the
 * shares (a trace, a live run) gets the same sentences. docs/trace-numbers.md, "Verdict".
 */
#ifndef ANALYSE_VERDICT_H
#define ANALYSE_VERDICT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an instant of a step's wall time is counted under. Each instant under exactly one, so
 * that the shares add up to the wall time. */
enum verdict_kind {
	VERDICT_COMPUTE,       /* GPU: arithmetic (matrix products, convolutions, attention) */
	VERDICT_MEMORY,        /* GPU: kernels that only move bytes (element-wise, reductions) */
	VERDICT_COPY,          /* GPU: nothing but copies between host and device */
	VERDICT_COMMUNICATION, /* GPU: nothing but collectives */
	VERDICT_STRAGGLER,     /* GPU: in a collective, waiting for another rank */
	VERDICT_DATA,          /* GPU idle: the host waits for the data loader */
	VERDICT_SYNC,          /* GPU idle: the host waited for it and lost its lead */
	VERDICT_LAUNCH,        /* GPU idle: the host dispatches operators and launches kernels */
	VERDICT_HOST,          /* GPU idle: the host runs other code, or sleeps */
	VERDICT_PROFILER,      /* GPU idle: the recording itself (partly estimated) */
	VERDICT_UNKNOWN,       /* GPU idle: nothing recorded says why */
	VERDICT_KINDS
};

struct verdict_name {
	const char *id;    /* "data", in JSON and rules */
	const char *title; /* "data loader" */
	const char *says;  /* what is counted under it, one sentence */
};
const struct verdict_name *verdict_name(enum verdict_kind kind);

struct verdict_shares {
	int64_t ns[VERDICT_KINDS];
	int64_t total; /* the sum of them: the wall time */
};

/* Shares as whole tenths of a percent that add up to 1000 exactly (largest remainders; the
 * smaller kind first at equal remainders). All 0 when total is 0. */
void verdict_permille(const struct verdict_shares *s, int ret[VERDICT_KINDS]);

/* What rules may look at. A measure that is not known is NaN: no rule fires on it. */
enum verdict_measure {
	VERDICT_M_SHARE,    /* of the rule's own kind, 0..1 of the wall time */
	VERDICT_M_BOUND,    /* 1 for the kind that was decided on, else 0 */
	VERDICT_M_GPU_BUSY, /* 0..1 of the time that the steps are expected to take unrecorded */
	VERDICT_M_SYNCS_PER_STEP, /* waiting calls of the host */
	VERDICT_M_SYNC_WAIT,      /* the host waits in them, 0..1 of the wall time */
	VERDICT_M_LAUNCHES_PER_STEP,
	VERDICT_M_KERNEL_US,      /* mean time of a kernel */
	VERDICT_M_STACKS,         /* 1: Python stacks were recorded */
	VERDICT_M_PROFILER_ROWS,  /* overhead that the profiler recorded of itself while the GPU was
				     idle, 0..1 of the wall time */
	VERDICT_M_COMPILED,       /* 1: torch.compile regions seen */
	VERDICT_M_GRAPHS,         /* 1: CUDA or HIP graph launches seen */
	VERDICT_M_MEMORY_OF_GPU,  /* bytes-moving kernels' part of compute + memory */
	VERDICT_M_OVERLAP,        /* part of communication hidden under other work */
	VERDICT_M_COMM_SPREAD,    /* part of communication above the shortest of its name */
	VERDICT_M_PEAK_OF_DEVICE, /* peak allocated of the device's memory */
	VERDICT_M_WORKERS_ZERO,   /* 1: the loader runs in the training process */
	VERDICT_M_PAGEABLE_COPY,  /* part of host-device copy time from or to pageable memory */
	VERDICT_M_DATA_PARALLEL,  /* 1: DataParallel.forward seen */
	VERDICT_M_TENSOR_CORE,    /* tensor-core kernels' part of compute time */
	VERDICT_M_SLOW_KERNELS,   /* kernel names whose calls take more than 1 ms on average */
	VERDICT_M_STRAGGLER_OVER, /* own time of the slowest rank over the others' median, 1 = same
				   */
	VERDICT_MEASURES
};

struct verdict_facts {
	struct verdict_shares shares;
	int64_t steps; /* 0: none marked; the window stands for one */
	bool has_gpu, has_host;
	bool is_straggler; /* this job waits for one rank that has more to do than the others */
	double measure[VERDICT_MEASURES]; /* M_SHARE and M_BOUND are filled by the decision */
};

/* Set all measures to "not known". */
void verdict_facts_init(struct verdict_facts *f);

/* Which facts a rule is for. */
enum verdict_where {
	VERDICT_WITH_GPU,
	VERDICT_HOST_ONLY, /* no GPU was seen: shares are of the host's time */
	VERDICT_ANYWHERE
};

/* A rule fires when measure >= threshold (at_most: <=) and, unless `and` is VERDICT_MEASURES,
 * also and >= and_threshold. */
struct verdict_rule {
	const char *id;
	enum verdict_kind kind; /* whose share "{share}" and evidence belong to */
	enum verdict_measure measure;
	double threshold;
	bool at_most;
	enum verdict_measure and;
	double and_threshold;
	const char *sentence; /* {share} percent, {gpu} that of compute and memory, {busy} as
				 VERDICT_M_GPU_BUSY, {value} of measure, {percent} of measure,
				 {top} first evidence, {rank} the slowest rank */
	const char *advice;   /* what to do; "" none */
	const char *document; /* the sentence that older tools print for it; NULL none */
	enum verdict_where where;
};
extern const struct verdict_rule verdict_rules[]; /* ended by id NULL */

/* The kind that the step is bound by:
 *  1. STRAGGLER if is_straggler.
 *  2. PROFILER if what it recorded as its own overhead is >= 25 % of the time, or stacks
 *     were recorded and its whole share is >= 25 %: such a trace does not show the step.
 *  3. Else the largest share with the profiler's left out, where compute and memory count
 *     as one ("the GPU works"): MEMORY if bytes-moving kernels are >= 2/3 of the two, else
 *     COMPUTE. At equal shares the first in the order of enum verdict_kind. But SYNC instead of
 *     these two if it has >= 25 % and no other idle kind has more: what counts under it would be
 *     gone without the waits.
 *  4. UNKNOWN if there is no time at all. */
enum verdict_kind verdict_decide(const struct verdict_facts *f);
/* The same with the profiler left out of 2: what the step is bound by without it. */
enum verdict_kind verdict_behind(const struct verdict_facts *f);
#define VERDICT_PROFILER_SHARE 0.25
#define VERDICT_SYNC_SHARE 0.25
#define VERDICT_MEMORY_PART (2.0 / 3.0)
/* A rank is a straggler from this much of the median of the others on, if another rank waits
 * VERDICT_WAIT_SHARE of its time or more. */
#define VERDICT_OVER 1.2
#define VERDICT_WAIT_SHARE 0.05

/* Does the rule fire on these facts, for a job bound by `bound`? *ret_value is the measure. */
bool verdict_fires(const struct verdict_rule *r, const struct verdict_facts *f,
		   enum verdict_kind bound, double *ret_value);

/* Append the rule's sentence with its blanks filled. top may be NULL ("nothing named"). */
void verdict_sentence(const struct verdict_rule *r, const struct verdict_facts *f, double value,
		      const char *top, int64_t rank, struct buf *out);

/* Advice on how to record, for every trace (the documents' tips). Ended by NULL. */
extern const char *const verdict_tips[];

#endif
