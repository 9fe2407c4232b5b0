/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - when everything of a simulated run happens. All in whole nanoseconds
 * since the run's start and in closed form: the time of any step or tick is
 * known without those before it.
 *
 * Steps are counted by their index, the order in which they are done. With a
 * resume the numbers of steps (plan_step) go back once.
 */
#ifndef SIMULATE_PLAN_H
#define SIMULATE_PLAN_H

#include "simulate/fault.h"
#include "simulate/simulate.h"

/* What every rank shares of one step. */
struct plan_common {
	int64_t index, step;
	int64_t begin_ns, base_ns;                /* begin; length without faults and warm-up */
	int64_t data_ns, forward_ns, backward_ns; /* what faults and warm-up add, in every rank */
	int64_t last_ns, zero_ns;                 /* added to forward and backward of the last
						     rank, of rank 0; the others wait in sync */
	int64_t step_ns;                          /* length of all */
};

/* One rank's phases, one after the other: they add up to step_ns exactly. */
enum plan_phase {
	PLAN_DATA,
	PLAN_FORWARD,
	PLAN_BACKWARD,
	PLAN_SYNC,
	PLAN_OPTIMIZER,
	PLAN_PHASES
};
struct plan_phases {
	int64_t at_ns[PLAN_PHASES + 1]; /* begin of each, since the run's start; last: the end */
};

/* What the machine sees at a moment. */
struct plan_moment {
	int64_t ns;
	int64_t index;   /* of the step that has begun last */
	double activity; /* 0 to 1: share of the GPU's time that the steps ask for */
};

struct plan {
	struct simulate_options o;
	uint64_t key;   /* of the seed */
	int64_t total;  /* steps in all attempts */
	int64_t split;  /* of them in the first attempt; total without a resume */
	int64_t again;  /* number of the first step of the second attempt */
	int64_t done;   /* steps that end; fewer than total if memory ran out */
	int64_t end_ns; /* of the run */
	int64_t oom_ns; /* memory ran out; -1: it does not */
	int64_t ticks;  /* readings of the machine, from 0 */
	int64_t eval_every, checkpoint_every, epoch_every, histogram_every;
	int64_t gap_ns, eval_ns, checkpoint_ns, warmup_ns;
	struct fault faults[SIMULATE_FAULTS_MAX];
	unsigned n_faults;
};

/* 0, or -EINVAL, -ERANGE and what is wrong with the options. */
int plan_init(struct plan *p, const struct simulate_options *o, struct err *e);

/* Number of the step that is done as the index-th. */
int64_t plan_step(const struct plan *p, int64_t index);

/* Things done after every n-th step number: is one due after this step; how many
 * come before the step index; after which index comes the k-th. */
bool plan_is_due(const struct plan *p, int64_t every, int64_t index);
int64_t plan_count(const struct plan *p, int64_t every, int64_t index);
int64_t plan_index(const struct plan *p, int64_t every, int64_t k);

/* When a step begins; index may be total: the end of all. */
int64_t plan_begin(const struct plan *p, int64_t index);
/* The first step of the epoch that ends after this one, as far as this attempt
 * did it. */
int64_t plan_epoch_first(const struct plan *p, int64_t index);

void plan_common(const struct plan *p, int64_t index, struct plan_common *ret);
void plan_phases(const struct plan *p, const struct plan_common *c, uint32_t rank,
		 struct plan_phases *ret);
void plan_moment(const struct plan *p, int64_t ns, struct plan_moment *ret);

const struct fault *plan_fault_step(const struct plan *p, enum fault_kind kind, int64_t index);
const struct fault *plan_fault_ns(const struct plan *p, enum fault_kind kind, int64_t ns);

/* Random numbers that depend on a key and an index only: all 64 bits; 0 <= x < 1;
 * -1 <= x <= 1, bell-shaped, standard deviation 0.289. */
uint64_t plan_bits(uint64_t key, int64_t index);
double plan_unit(uint64_t key, int64_t index);
double plan_bell(uint64_t key, int64_t index);

#endif
