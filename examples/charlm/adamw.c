/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
 * Regularization", 2019) over one flat array of parameters.
 */
#include "adamw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

#define ADAMW_BETA1 0.9
#define ADAMW_BETA2 0.99
#define ADAMW_EPSILON 1e-8
#define ADAMW_WARM_UP 100

int adamw_init(struct adamw *a, size_t params)
{
	*a = (struct adamw){
		.grad = calloc(params, sizeof(real)),
		.mean = calloc(params, sizeof(real)),
		.var = calloc(params, sizeof(real)),
	};
	if (a->grad && a->mean && a->var)
		return 0;
	adamw_done(a);
	return -ENOMEM;
}

void adamw_done(struct adamw *a)
{
	free(a->grad);
	free(a->mean);
	free(a->var);
	*a = (struct adamw){0};
}

double adamw_gather(struct adamw *a, const struct model *m, double clip)
{
	real *sum = a->grad;
	double square = 0, norm;

	memcpy(sum, m->shard[0].grad, m->params * sizeof(*sum));
	for (size_t k = 1; k < MODEL_SHARDS; k++) {
		const real *part = m->shard[k].grad;

		for (size_t i = 0; i < m->params; i++)
			sum[i] += part[i];
	}
	for (size_t i = 0; i < m->tensors; i++) {
		const struct model_tensor *t = &m->tensor[i];

		square += (double)mat_dot(sum + t->at, sum + t->at, t->rows * t->cols);
	}
	norm = sqrt(square);
	if (norm > clip)
		for (size_t i = 0; i < m->params; i++)
			sum[i] *= (real)(clip / norm);
	return norm;
}

/* mean and var start at 0 and are too small at first: mean / (1 - beta^t) is
 * unbiased. Decay acts on the weight itself, not through the gradient. */
void adamw_update(struct adamw *a, struct model *m, double rate, double decay)
{
	double t = (double)++a->updates;
	real step = (real)(rate / (1 - pow(ADAMW_BETA1, t)));
	real unbias = (real)(1 / (1 - pow(ADAMW_BETA2, t)));
	const real b1 = (real)ADAMW_BETA1, b2 = (real)ADAMW_BETA2;

	for (size_t k = 0; k < m->tensors; k++) {
		const struct model_tensor *tensor = &m->tensor[k];
		real keep = tensor->decay ? (real)(1 - rate * decay) : 1;
		real *w = m->w + tensor->at, *mean = a->mean + tensor->at,
		     *var = a->var + tensor->at;
		const real *g = a->grad + tensor->at;

		for (size_t i = 0; i < tensor->rows * tensor->cols; i++) {
			mean[i] = b1 * mean[i] + (1 - b1) * g[i];
			var[i] = b2 * var[i] + (1 - b2) * g[i] * g[i];
			w[i] = keep * w[i] -
			       step * mean[i] / (real_sqrt(var[i] * unbias) + (real)ADAMW_EPSILON);
		}
	}
}

double adamw_rate(double peak, int64_t update, double progress)
{
	double warm = update + 1 < ADAMW_WARM_UP ? (double)(update + 1) / ADAMW_WARM_UP : 1;
	double cosine = 0.5 + 0.5 * cos(3.14159265358979323846 * fmin(progress, 1));

	return peak * warm * (0.1 + 0.9 * cosine);
}
