/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - the transformer. Reading order: model_forward(), model_backward(),
 * then the pairs of functions that they call; d followed by a name is the
 * gradient of the loss by what the name holds.
 *
 * Rows are characters: a matrix X of a shard has one row for each of its R
 * characters, and a layer is Y = X W. Two rules then give every gradient:
 * dX = dY W^T and dW += X^T dY.
 */
#include "model.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "random.h"

#define MODEL_RMS_EPSILON 1e-5

/* Places in model.tensor: four of the whole model, then six a block. */
enum {
	MODEL_EMBED,
	MODEL_PLACE,
	MODEL_NORMF,
	MODEL_HEAD,
	MODEL_FIRST_BLOCK
};
enum {
	BLOCK_NORM1,
	BLOCK_QKV,
	BLOCK_OUT,
	BLOCK_NORM2,
	BLOCK_UP,
	BLOCK_DOWN,
	BLOCK_TENSORS
};

/* ---- parameters -------------------------------------------------------- */

static const struct model_tensor *model_block_tensor(const struct model *m, size_t layer, int i)
{
	return &m->tensor[MODEL_FIRST_BLOCK + layer * BLOCK_TENSORS + i];
}

static struct mat model_mat(real *base, const struct model_tensor *t)
{
	return mat_view(base + t->at, t->rows, t->cols, t->cols);
}

static void model_add_tensor(struct model *m, const char *name, int layer, size_t rows, size_t cols)
{
	m->tensor[m->tensors++] =
		(struct model_tensor){name, layer, rows, cols, m->params, rows > 1};
	m->params += rows * cols;
}

static void model_list_tensors(struct model *m)
{
	const struct model_config *c = &m->config;

	model_add_tensor(m, "embedding", -1, c->vocab, c->dim);
	model_add_tensor(m, "position", -1, c->context, c->dim);
	model_add_tensor(m, "norm", -1, 1, c->dim);
	model_add_tensor(m, "head", -1, c->dim, c->vocab);
	for (int l = 0; l < (int)c->layers; l++) {
		model_add_tensor(m, "norm1", l, 1, c->dim);
		model_add_tensor(m, "qkv", l, c->dim, 3 * c->dim);
		model_add_tensor(m, "out", l, c->dim, c->dim);
		model_add_tensor(m, "norm2", l, 1, c->dim);
		model_add_tensor(m, "up", l, c->dim, 4 * c->dim);
		model_add_tensor(m, "down", l, 4 * c->dim, c->dim);
	}
}

/* Gains start at 1, matrices at random: 0.02 for embeddings and head, so that
 * the first guess is near uniform, 1/sqrt(rows) inside the blocks so that sizes
 * are kept, and less for those two that add to the main road. */
static void model_randomise(struct model *m, uint64_t seed)
{
	struct random_state random = random_seed(seed);

	for (size_t i = 0; i < m->tensors; i++) {
		const struct model_tensor *t = &m->tensor[i];
		int kind =
			i < MODEL_FIRST_BLOCK ? -1 : (int)(i - MODEL_FIRST_BLOCK) % BLOCK_TENSORS;
		double size = kind < 0 ? 0.02 : 1 / sqrt((double)t->rows);

		if (kind == BLOCK_OUT || kind == BLOCK_DOWN)
			size /= sqrt(2.0 * (double)m->config.layers);
		for (size_t j = 0; j < t->rows * t->cols; j++)
			m->w[t->at + j] =
				t->decay ? (real)(size * random_normal(&random)) : (real)1;
	}
}

/* ---- memory ------------------------------------------------------------ */

/* Hands out parts of one allocation; with base NULL it only adds up. */
struct model_arena {
	real *base;
	size_t used;
};

static real *model_take(struct model_arena *a, size_t count)
{
	real *p = a->base ? a->base + a->used : NULL;

	a->used += (count + 15) / 16 * 16;
	return p;
}

static void model_lay_out(const struct model *m, struct model_shard *s, struct model_arena *a)
{
	const struct model_config *c = &m->config;
	size_t rows = c->batch * c->context, rc = rows * c->dim;

	for (size_t l = 0; l < c->layers; l++) {
		struct model_block *b = &s->block[l];

		b->in = model_take(a, rc);
		b->norm1 = model_take(a, rc);
		b->rms1 = model_take(a, rows);
		b->qkv = model_take(a, 3 * rc);
		b->attend = model_take(a, rows * c->heads * c->context);
		b->mix = model_take(a, rc);
		b->mid = model_take(a, rc);
		b->norm2 = model_take(a, rc);
		b->rms2 = model_take(a, rows);
		b->up = model_take(a, 4 * rc);
		b->act = model_take(a, 4 * rc);
	}
	s->out = model_take(a, rc);
	s->normf = model_take(a, rc);
	s->rmsf = model_take(a, rows);
	s->prob = model_take(a, rows * c->vocab);
	s->grad = model_take(a, m->params);
	s->dx = model_take(a, rc);
	s->dnorm = model_take(a, rc);
	s->dqkv = model_take(a, 3 * rc);
	s->dup = model_take(a, 4 * rc);
	s->datt = model_take(a, c->context * c->context);
}

int model_init(struct model *m, const struct model_config *c, uint64_t seed)
{
	*m = (struct model){.config = *c};
	if (c->vocab < 1 || c->vocab > 256 || c->layers < 1 || c->layers > MODEL_LAYERS_MAX ||
	    c->heads < 1 || c->dim < 1 || c->dim % c->heads || c->context < 1 || c->batch < 1)
		return -EINVAL;
	model_list_tensors(m);
	m->w = calloc(m->params, sizeof(*m->w));
	if (!m->w)
		return -ENOMEM;
	for (size_t k = 0; k < MODEL_SHARDS; k++) {
		struct model_shard *s = &m->shard[k];
		struct model_arena arena = {0};

		model_lay_out(m, s, &arena);
		s->memory = calloc(arena.used, sizeof(*s->memory));
		if (!s->memory) {
			model_done(m);
			return -ENOMEM;
		}
		arena = (struct model_arena){.base = s->memory};
		model_lay_out(m, s, &arena);
	}
	model_randomise(m, seed);
	return 0;
}

void model_done(struct model *m)
{
	for (size_t k = 0; k < MODEL_SHARDS; k++)
		free(m->shard[k].memory);
	free(m->w);
	*m = (struct model){0};
}

/* ---- normalisation: y = gain * x / rms(x), row by row ------------------- */

static void model_norm_forward(real *y, real *rms, const real *x, const real *gain, size_t rows,
			       size_t dim)
{
	for (size_t r = 0; r < rows; r++, x += dim, y += dim) {
		real square = mat_dot(x, x, dim) / (real)dim;
		real scale = 1 / real_sqrt(square + (real)MODEL_RMS_EPSILON);

		rms[r] = scale;
		for (size_t i = 0; i < dim; i++)
			y[i] = gain[i] * x[i] * scale;
	}
}

/* With s = 1/rms(x): dgain += dy x s, and, since s depends on all of x,
 * dx += s (gain dy - x s^2 mean(gain dy x)). dy is used up. */
static void model_norm_backward(real *dx, real *dgain, real *dy, const real *rms, const real *x,
				const real *gain, size_t rows, size_t dim)
{
	for (size_t r = 0; r < rows; r++, x += dim, dx += dim, dy += dim) {
		real s = rms[r], mean;

		for (size_t i = 0; i < dim; i++) {
			dgain[i] += dy[i] * x[i] * s;
			dy[i] *= gain[i];
		}
		mean = mat_dot(dy, x, dim) / (real)dim;
		for (size_t i = 0; i < dim; i++)
			dx[i] += s * (dy[i] - x[i] * s * s * mean);
	}
}

/* ---- attention --------------------------------------------------------- */

/* The part of one head in sequence q of an R x (parts C) matrix: T x C/H. */
static struct mat model_head(const struct model *m, real *p, size_t parts, size_t part, size_t q,
			     size_t head)
{
	const struct model_config *c = &m->config;
	size_t width = c->dim / c->heads, stride = parts * c->dim;

	return mat_view(p + q * c->context * stride + part * c->dim + head * width, c->context,
			width, stride);
}

static struct mat model_attend(const struct model *m, real *p, size_t q, size_t head)
{
	size_t t = m->config.context;

	return mat_view(p + (q * m->config.heads + head) * t * t, t, t, t);
}

/* For each head: A = softmax(Q K^T / sqrt(C/H)) over the characters so far,
 * mix = A V. Row i of A says how much character i looks at each j <= i. */
static void model_attention_forward(const struct model *m, struct model_block *b, size_t n)
{
	size_t heads = m->config.heads, t = m->config.context;
	real scale = 1 / real_sqrt((real)(m->config.dim / heads));

	for (size_t q = 0; q < n; q++)
		for (size_t h = 0; h < heads; h++) {
			struct mat a = model_attend(m, b->attend, q, h);

			mat_mul(a, model_head(m, b->qkv, 3, 0, q, h),
				mat_t(model_head(m, b->qkv, 3, 1, q, h)), 0);
			for (size_t i = 0; i < t; i++) {
				real *row = a.p + i * t;

				for (size_t j = 0; j <= i; j++)
					row[j] *= scale;
				mat_softmax(row, i + 1);
				memset(row + i + 1, 0, (t - i - 1) * sizeof(*row));
			}
			mat_mul(model_head(m, b->mix, 1, 0, q, h), a,
				model_head(m, b->qkv, 3, 2, q, h), 0);
		}
}

/* dmix gives dV = A^T dmix and dA = dmix V^T; softmax turns dA into
 * dS = A (dA - sum_j A dA) row by row; then dQ = dS K, dK = dS^T Q, scaled. */
static void model_attention_backward(const struct model *m, const struct model_block *b, real *dqkv,
				     real *dmix, real *datt, size_t n)
{
	size_t heads = m->config.heads, t = m->config.context;
	real scale = 1 / real_sqrt((real)(m->config.dim / heads));
	struct mat da = mat_view(datt, t, t, t);

	for (size_t q = 0; q < n; q++)
		for (size_t h = 0; h < heads; h++) {
			struct mat a = model_attend(m, b->attend, q, h);
			struct mat dm = model_head(m, dmix, 1, 0, q, h);

			mat_mul(model_head(m, dqkv, 3, 2, q, h), mat_t(a), dm, 0);
			mat_mul(da, dm, mat_t(model_head(m, b->qkv, 3, 2, q, h)), 0);
			for (size_t i = 0; i < t; i++) {
				const real *weight = a.p + i * t;
				real *row = datt + i * t;
				real sum = mat_dot(weight, row, i + 1);

				for (size_t j = 0; j < t; j++)
					row[j] = scale * weight[j] * (row[j] - sum);
			}
			mat_mul(model_head(m, dqkv, 3, 0, q, h), da,
				model_head(m, b->qkv, 3, 1, q, h), 0);
			mat_mul(model_head(m, dqkv, 3, 1, q, h), mat_t(da),
				model_head(m, b->qkv, 3, 0, q, h), 0);
		}
}

/* ---- one block: x + attention(norm(x)), then x + perceptron(norm(x)) ----- */

static void model_block_forward(const struct model *m, size_t layer, struct model_block *b,
				real *out, size_t n)
{
	const struct model_tensor *t = model_block_tensor(m, layer, 0);
	size_t c = m->config.dim, rows = n * m->config.context;

	model_norm_forward(b->norm1, b->rms1, b->in, m->w + t[BLOCK_NORM1].at, rows, c);
	mat_mul(mat_view(b->qkv, rows, 3 * c, 3 * c), mat_view(b->norm1, rows, c, c),
		model_mat(m->w, &t[BLOCK_QKV]), 0);
	model_attention_forward(m, b, n);
	memcpy(b->mid, b->in, rows * c * sizeof(*b->mid));
	mat_mul(mat_view(b->mid, rows, c, c), mat_view(b->mix, rows, c, c),
		model_mat(m->w, &t[BLOCK_OUT]), 1);

	model_norm_forward(b->norm2, b->rms2, b->mid, m->w + t[BLOCK_NORM2].at, rows, c);
	mat_mul(mat_view(b->up, rows, 4 * c, 4 * c), mat_view(b->norm2, rows, c, c),
		model_mat(m->w, &t[BLOCK_UP]), 0);
	for (size_t i = 0; i < rows * 4 * c; i++) {
		b->up[i] = (b->up[i] + real_abs(b->up[i])) / 2; /* relu without a branch */
		b->act[i] = b->up[i] * b->up[i];
	}
	memcpy(out, b->mid, rows * c * sizeof(*out));
	mat_mul(mat_view(out, rows, c, c), mat_view(b->act, rows, 4 * c, 4 * c),
		model_mat(m->w, &t[BLOCK_DOWN]), 1);
}

/* Y = X W: dX = dY W^T (overwritten), dW += X^T dY. */
static void model_linear_backward(const struct model *m, struct model_shard *s,
				  const struct model_tensor *t, struct mat dx, struct mat x,
				  struct mat dy)
{
	mat_mul(dx, dy, mat_t(model_mat(m->w, t)), 0);
	mat_mul(model_mat(s->grad, t), mat_t(x), dy, 1);
}

/* s->dx holds the gradient of what left the block; afterwards that of what
 * entered it. The two sums x + ... let it pass unchanged beside each branch. */
static void model_block_backward(const struct model *m, size_t layer, struct model_shard *s,
				 size_t n)
{
	const struct model_tensor *t = model_block_tensor(m, layer, 0);
	const struct model_block *b = &s->block[layer];
	size_t c = m->config.dim, rows = n * m->config.context;
	struct mat dx = mat_view(s->dx, rows, c, c), dnorm = mat_view(s->dnorm, rows, c, c);
	struct mat dup = mat_view(s->dup, rows, 4 * c, 4 * c);
	struct mat dqkv = mat_view(s->dqkv, rows, 3 * c, 3 * c);

	model_linear_backward(m, s, &t[BLOCK_DOWN], dup, mat_view(b->act, rows, 4 * c, 4 * c), dx);
	for (size_t i = 0; i < rows * 4 * c; i++)
		s->dup[i] *= 2 * b->up[i];
	model_linear_backward(m, s, &t[BLOCK_UP], dnorm, mat_view(b->norm2, rows, c, c), dup);
	model_norm_backward(s->dx, s->grad + t[BLOCK_NORM2].at, s->dnorm, b->rms2, b->mid,
			    m->w + t[BLOCK_NORM2].at, rows, c);

	model_linear_backward(m, s, &t[BLOCK_OUT], dnorm, mat_view(b->mix, rows, c, c), dx);
	model_attention_backward(m, b, s->dqkv, s->dnorm, s->datt, n);
	model_linear_backward(m, s, &t[BLOCK_QKV], dnorm, mat_view(b->norm1, rows, c, c), dqkv);
	model_norm_backward(s->dx, s->grad + t[BLOCK_NORM1].at, s->dnorm, b->rms1, b->in,
			    m->w + t[BLOCK_NORM1].at, rows, c);
}

/* ---- the whole model --------------------------------------------------- */

double model_forward(struct model *m, size_t k, const uint8_t *in, const uint8_t *target, size_t n)
{
	struct model_shard *s = &m->shard[k];
	size_t c = m->config.dim, v = m->config.vocab, t = m->config.context, rows = n * t;
	const real *embed = m->w + m->tensor[MODEL_EMBED].at;
	const real *place = m->w + m->tensor[MODEL_PLACE].at;
	double loss = 0;

	for (size_t r = 0; r < rows; r++) {
		const real *character = embed + in[r] * c, *position = place + r % t * c;
		real *row = s->block[0].in + r * c;

		for (size_t i = 0; i < c; i++)
			row[i] = character[i] + position[i];
	}
	for (size_t l = 0; l < m->config.layers; l++) {
		real *out = l + 1 < m->config.layers ? s->block[l + 1].in : s->out;

		model_block_forward(m, l, &s->block[l], out, n);
	}
	model_norm_forward(s->normf, s->rmsf, s->out, m->w + m->tensor[MODEL_NORMF].at, rows, c);
	mat_mul(mat_view(s->prob, rows, v, v), mat_view(s->normf, rows, c, c),
		model_mat(m->w, &m->tensor[MODEL_HEAD]), 0);
	for (size_t r = 0; r < rows; r++) {
		real *row = s->prob + r * v, logit = row[target[r]];

		loss += (double)(mat_softmax(row, v) - logit);
	}
	return loss;
}

void model_backward(struct model *m, size_t k, const uint8_t *in, const uint8_t *target, size_t n,
		    real scale)
{
	struct model_shard *s = &m->shard[k];
	size_t c = m->config.dim, v = m->config.vocab, t = m->config.context, rows = n * t;
	real *dembed = s->grad + m->tensor[MODEL_EMBED].at;
	real *dplace = s->grad + m->tensor[MODEL_PLACE].at;

	memset(s->grad, 0, m->params * sizeof(*s->grad));
	memset(s->dx, 0, rows * c * sizeof(*s->dx));
	/* -log softmax(x)[target] has the derivative softmax(x) - one(target). */
	for (size_t r = 0; r < rows; r++) {
		real *row = s->prob + r * v;

		row[target[r]] -= 1;
		for (size_t i = 0; i < v; i++)
			row[i] *= scale;
	}
	model_linear_backward(m, s, &m->tensor[MODEL_HEAD], mat_view(s->dnorm, rows, c, c),
			      mat_view(s->normf, rows, c, c), mat_view(s->prob, rows, v, v));
	model_norm_backward(s->dx, s->grad + m->tensor[MODEL_NORMF].at, s->dnorm, s->rmsf, s->out,
			    m->w + m->tensor[MODEL_NORMF].at, rows, c);
	for (size_t l = m->config.layers; l-- > 0;)
		model_block_backward(m, l, s, n);
	assert(t > 0);
	for (size_t r = 0; r < rows; r++) {
		real *character = dembed + in[r] * c, *position = dplace + r % t * c;
		const real *row = s->dx + r * c;

		for (size_t i = 0; i < c; i++) {
			character[i] += row[i];
			position[i] += row[i];
		}
	}
}

const real *model_probabilities(const struct model *m, size_t k, size_t i)
{
	return m->shard[k].prob + i * m->config.vocab;
}
