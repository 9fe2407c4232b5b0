/* SPDX-License-Identifier: Apache-2.0
 *
 * gradcheck.c - dL/dw against (L(w + h) - L(w - h)) / 2h, parameter by
 * parameter. In float the difference would drown in rounding, so the model is
 * compiled here a second time, in double (see real.h).
 */
#define CHARLM_DOUBLE

#include "gradcheck.h"

#include <stdio.h>

#include "matrix.c"
#include "model.c"

#define GRADCHECK_STEP 1e-5
/* Relative error. A bend of the activation within h makes 1e-5, a bug 1e-2. */
#define GRADCHECK_LIMIT 1e-4
#define GRADCHECK_PROBES 32 /* parameters tried in each array, or all of them */

enum {
	GRADCHECK_SEQUENCES = 40,
	GRADCHECK_CONTEXT = 7,
	GRADCHECK_ROWS = GRADCHECK_SEQUENCES * GRADCHECK_CONTEXT,
	GRADCHECK_VOCAB = 11
};

struct gradcheck {
	struct model model;
	uint8_t in[GRADCHECK_ROWS];
	uint8_t target[GRADCHECK_ROWS];
};

static double gradcheck_loss(struct gradcheck *g)
{
	return model_forward(&g->model, 0, g->in, g->target, GRADCHECK_SEQUENCES) / GRADCHECK_ROWS;
}

/* |a - b| as a share of the larger; gradients near 0 are held against 1e-3. */
static double gradcheck_error(double a, double b)
{
	return fabs(a - b) / fmax(1e-3, fmax(fabs(a), fabs(b)));
}

/* The largest error in one array; a NaN counts as infinite. */
static double gradcheck_tensor(struct gradcheck *g, const struct model_tensor *t,
			       struct random_state *random)
{
	size_t size = t->rows * t->cols, tries = size < GRADCHECK_PROBES ? size : GRADCHECK_PROBES;
	double worst = 0;

	for (size_t i = 0; i < tries; i++) {
		size_t at = t->at + (size > tries ? random_bits(random) % size : i);
		double kept = g->model.w[at], up, down, error;

		g->model.w[at] = kept + GRADCHECK_STEP;
		up = gradcheck_loss(g);
		g->model.w[at] = kept - GRADCHECK_STEP;
		down = gradcheck_loss(g);
		g->model.w[at] = kept;
		error = gradcheck_error(g->model.shard[0].grad[at],
					(up - down) / (2 * GRADCHECK_STEP));
		worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
	}
	return worst;
}

int gradcheck_run(uint64_t seed)
{
	/* Odd sizes and more than 256 rows, so that every edge of mat_mul() is walked. */
	struct model_config config = {.vocab = GRADCHECK_VOCAB,
				      .dim = 18,
				      .layers = 2,
				      .heads = 3,
				      .context = GRADCHECK_CONTEXT,
				      .batch = GRADCHECK_SEQUENCES};
	struct gradcheck g;
	struct random_state random = random_seed(seed);
	int failed = 0;

	if (model_init(&g.model, &config, seed))
		return -1;
	for (size_t i = 0; i < sizeof(g.in); i++) {
		g.in[i] = (uint8_t)(random_bits(&random) % GRADCHECK_VOCAB);
		g.target[i] = (uint8_t)(random_bits(&random) % GRADCHECK_VOCAB);
	}
	/* Larger weights than at the start of training: all gradients matter. */
	for (size_t i = 0; i < g.model.params; i++)
		g.model.w[i] += 0.2 * random_normal(&random);
	gradcheck_loss(&g);
	model_backward(&g.model, 0, g.in, g.target, GRADCHECK_SEQUENCES, 1.0 / GRADCHECK_ROWS);

	for (size_t i = 0; i < g.model.tensors; i++) {
		const struct model_tensor *t = &g.model.tensor[i];
		double error = gradcheck_tensor(&g, t, &random);
		int bad = !(error < GRADCHECK_LIMIT);

		if (t->layer < 0)
			printf("%-16s", t->name);
		else
			printf("block %d %-8s", t->layer, t->name);
		printf(" %3zu x %-3zu  largest relative error %.1e  %s\n", t->rows, t->cols, error,
		       bad ? "WRONG" : "ok");
		failed |= bad;
	}
	model_done(&g.model);
	return failed;
}
