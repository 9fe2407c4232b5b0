/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.h - the ranks of a job beside each other: what each did in a step, how far their
 * clocks are apart (from collectives, which end everywhere at about the same time), how long
 * they waited for each other and for whom. Definitions: docs/trace-numbers.md, "Ranks".
 *
 * A set holds summaries, no traces: a rank is read, added and forgotten, and sets of
 * different ranks merge in any order. About 100 bytes a collective and 3 kB a step.
 */
#ifndef ANALYSE_RANKS_H
#define ANALYSE_RANKS_H

#include "base/buf.h"
#include "base/err.h"
#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKS_NAMES 24 /* names of a step's host time that a summary keeps */

struct ranks_set;

int ranks_new(struct ranks_set **ret); /* 0 or -ENOMEM */
void ranks_free(struct ranks_set *s);  /* NULL is accepted */

/* Add what an exact view of one rank's trace says. Without a rank in the trace it gets the
 * first free number, and the result says so. -EEXIST: that rank is here already (e). */
int ranks_add(struct ranks_set *s, struct view *v, struct err *e);

/* Move the ranks of from into s; from stays empty. -EEXIST as above, then both are as they
 * were. */
int ranks_merge(struct ranks_set *s, struct ranks_set *from, struct err *e);

/* A set as bytes and back, for ranks read elsewhere. -EBADMSG: no such bytes (e). */
void ranks_put(const struct ranks_set *s, struct buf *out);
int ranks_get(const void *bytes, size_t len, struct ranks_set **ret, struct err *e);

/* ---- the result ------------------------------------------------------------------------ */

/* A step on the host's clock: compute, comm, memory and idle add up to its length. ns. */
struct ranks_step {
	int64_t number; /* -1: the trace has no steps, this is all of it */
	int64_t ns;
	int64_t compute;
	int64_t comm;   /* communication while nothing is computed */
	int64_t memory; /* copies beside neither */
	int64_t idle;
	int64_t host; /* own time of operators on all threads of the host; not a part of it */
	int64_t wait; /* in collectives until the last rank came */
	int64_t late; /* how much later than the others this rank came to collectives */
};

struct ranks_clock {
	double offset; /* ns that this rank's clock is ahead of the reference's at the middle */
	double drift;  /* ns a s that it gains */
	double residual, residual_95; /* median and 95 % of what remains, ns */
	size_t pairs;                 /* collectives that it was measured on; 0: not aligned */
};

struct ranks_rank {
	int64_t rank;
	bool is_guessed; /* the trace does not say its rank */
	struct ranks_clock clock;
	struct ranks_step *steps; /* by number */
	size_t n_steps;
	struct ranks_step mean; /* number: how many */
	uint64_t collectives, matched;
	int64_t comm_ns; /* sum of all collectives' times */
	uint64_t last;   /* how often it came last, by more than the clocks are sure of */
};

/* Collectives of one kind in one group, over all ranks that take part. */
struct ranks_kind {
	const char *group, *name; /* of the set */
	uint64_t instances;
	size_t ranks;
	int64_t ns, wait;    /* of all ranks */
	int64_t least, most; /* sums of the rank with the smallest and the largest */
	int64_t least_rank, most_rank;
};

struct ranks_cause {
	const char *name; /* of the set */
	double ns;        /* a step that it takes on this rank more than on the others */
	double here;      /* a step, on this rank */
};

enum ranks_why {
	RANKS_HOST,    /* the host did something else meanwhile; the device was idle */
	RANKS_COMPUTE, /* the device computed longer */
	RANKS_UNKNOWN
};
extern const char *const ranks_why_names[];

/* A rank that comes late to collectives in step after step. If it also has more to do than
 * the others it costs the job that much a step: a straggler. If not it only runs behind
 * them by a constant time (the others' hosts are ahead), which costs nothing: a lag. */
struct ranks_straggler {
	int64_t rank;
	bool is_lag;
	double late;      /* ns a step, mean */
	size_t steps, of; /* steps in which it was late, of how many */
	double cost;      /* ns a step: what it does more, at most late */
	double part;      /* cost / length of a step */
	enum ranks_why why;
	double compute_more, host_more, idle_more; /* ns a step, than the others' median */
	struct ranks_cause causes[3];              /* of the host, largest first; name NULL: none */
};

struct ranks_result {
	struct ranks_rank *ranks; /* by rank */
	size_t n;
	int64_t reference; /* rank whose clock is taken */
	struct ranks_kind *kinds;
	size_t n_kinds;
	struct ranks_straggler *late; /* stragglers, dearest first, then lags */
	size_t n_late, n_stragglers;
	uint64_t instances; /* matched collectives */
	uint64_t unmatched; /* ranks disagree on how many there are in the step */
	double step_ns;     /* mean over ranks and steps */
	double least_late;  /* ns a step that a rank must be late to be in the list */
	double least_cost;  /* ns a step that a straggler does more than the others */
};

/* Match, align, compare. The set must outlive the result. 0 or -ENOMEM. */
int ranks_result_new(const struct ranks_set *s, struct ranks_result **ret);
void ranks_result_free(struct ranks_result *r); /* NULL is accepted */

#endif
