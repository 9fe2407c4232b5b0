/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.h - the optimizer: gradients of the shards added up and clipped, AdamW
 * with bias correction, and the learning-rate schedule.
 */
#ifndef CHARLM_ADAMW_H
#define CHARLM_ADAMW_H

#include "model.h"

struct adamw {
	real *grad; /* sum over the shards, after adamw_gather() */
	real *mean; /* running mean of the gradient */
	real *var;  /* running mean of its square */
	int64_t updates;
};

/* For a model of this size. Returns 0 or -ENOMEM. */
int adamw_init(struct adamw *a, size_t params);

void adamw_done(struct adamw *a);

/* Add the shards' gradients up and return their Euclidean length; if it is
 * above clip, the sum is scaled down to that length. */
double adamw_gather(struct adamw *a, const struct model *m, double clip);

/* Move the parameters of m by one step. */
void adamw_update(struct adamw *a, struct model *m, double rate, double decay);

/* Learning rate of an update: up from 0 in the first 100, then down along half
 * a cosine to a tenth of peak when progress (0 to 1, share of the run) is 1. */
double adamw_rate(double peak, int64_t update, double progress);

#endif /* CHARLM_ADAMW_H */
