/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - a small transformer that reads characters and predicts the next
 * one: embedding, causal self-attention and a two-layer perceptron in each
 * block, softmax. Forward and backward pass are written by hand in model.c.
 */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "real.h"

/* A batch is cut into this many shards, whatever the number of threads: the
 * sums are then always made in the same order, and the result is the same. */
#define MODEL_SHARDS 4

/* Upper limit of the number of blocks. */
#define MODEL_LAYERS_MAX 16

struct model_config {
	size_t vocab;   /* V: different characters, 1 to 256 */
	size_t dim;     /* C: numbers that stand for one character; a multiple of heads */
	size_t layers;  /* L: blocks, 1 to MODEL_LAYERS_MAX */
	size_t heads;   /* H: attention heads a block */
	size_t context; /* T: characters in a sequence */
	size_t batch;   /* sequences that one shard can take */
};

/* One array of parameters: rows x cols numbers at w + at. */
struct model_tensor {
	const char *name;
	int layer; /* block, or -1 */
	size_t rows, cols, at;
	int decay; /* 1: weight decay applies (matrices, not gains) */
};

/* What the forward pass of one block keeps for the backward pass. R is the
 * number of characters in the shard, sequences times T. */
struct model_block {
	real *in;     /* R x C      what came from below */
	real *norm1;  /* R x C      in, normalised */
	real *rms1;   /* R          1 / root mean square of each row of in */
	real *qkv;    /* R x 3C     queries, keys, values */
	real *attend; /* sequences x H x T x T   attention weights */
	real *mix;    /* R x C      attention's weighted values */
	real *mid;    /* R x C      in + mix Wo */
	real *norm2;  /* R x C      mid, normalised */
	real *rms2;   /* R */
	real *up;     /* R x 4C     relu(norm2 W1) */
	real *act;    /* R x 4C     up squared */
};

struct model_shard {
	struct model_block block[MODEL_LAYERS_MAX];
	real *out;    /* R x C   what leaves the last block */
	real *normf;  /* R x C   out, normalised */
	real *rmsf;   /* R */
	real *prob;   /* R x V   probability of each next character */
	real *grad;   /* as model.w: gradient of this shard's share of the loss */
	real *dx;     /* R x C   gradient that travels down the blocks */
	real *dnorm;  /* R x C   scratch of the backward pass from here on */
	real *dqkv;   /* R x 3C */
	real *dup;    /* R x 4C */
	real *datt;   /* T x T */
	real *memory; /* the one allocation behind all of these */
};

struct model {
	struct model_config config;
	size_t params; /* numbers in w */
	real *w;
	size_t tensors;
	struct model_tensor tensor[4 + 6 * MODEL_LAYERS_MAX];
	struct model_shard shard[MODEL_SHARDS];
};

/* Allocate a model and set its parameters at random, from seed. Returns 0 or
 * -ENOMEM or -EINVAL (a limit above is broken). */
int model_init(struct model *m, const struct model_config *config, uint64_t seed);

/* Free what model_init() allocated; a model of all zeros is fine too. */
void model_done(struct model *m);

/* Predict every character of n sequences (n <= config.batch, at least 1) in
 * shard k: in and target hold n x T characters, target[i] follows in[i].
 * Returns the sum of -log(probability of target[i]), in nats. Different shards
 * may run in different threads. */
double model_forward(struct model *m, size_t k, const uint8_t *in, const uint8_t *target, size_t n);

/* After model_forward() with the same arguments: shard[k].grad = scale times
 * the derivative of what it returned by each parameter. Threads as above. */
void model_backward(struct model *m, size_t k, const uint8_t *in, const uint8_t *target, size_t n,
		    real scale);

/* The V probabilities for the character after position i of shard k's first
 * sequence, as the last forward pass left them. Belongs to the model. */
const real *model_probabilities(const struct model *m, size_t k, size_t i);

#endif /* CHARLM_MODEL_H */
