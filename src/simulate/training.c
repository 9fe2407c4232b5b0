/* SPDX-License-Identifier: Apache-2.0
 *
 * training.c - series that a trainer records: losses, schedule, gradients, rates,
 * and the spans of steps and their phases.
 */
#include "simulate/shape.h"

#include <math.h>

#include "base/mem.h"

/* ---- arithmetic ------------------------------------------------------------------ */

double shape_cos_pi(double x)
{
	double y, t, sum = 1;
	int k;

	if (x > 0.5)
		return -shape_cos_pi(1 - x);
	y = x * 3.14159265358979323846;
	t = y * y;
	for (k = 20; k >= 2; k -= 2)
		sum = 1 - sum * t / (double)(k * (k - 1));
	return sum;
}

double shape_round(double x, double unit)
{
	return (double)(int64_t)(x / unit + 0.5) * unit;
}

double shape_decimal(double x, double per)
{
	return (double)(int64_t)(x * per + 0.5) / per;
}

int64_t shape_nth(const struct plan *p, enum shape_every every)
{
	const int64_t n[SHAPE_EVERY] = {
		1, p->eval_every, p->checkpoint_every, p->epoch_every, p->histogram_every, 1};

	return n[every];
}

/* ---- loss ------------------------------------------------------------------------ */

/* Steps that taught something: between 30 % and 40 % of the training it stands
 * still. */
static double training_progress(const struct plan *p, int64_t step)
{
	int64_t from = p->o.steps * 3 / 10, to = p->o.steps * 4 / 10;

	return (double)(step < from ? step : step < to ? from : step - (to - from));
}

/* 9 at the first step, then towards 1 with the square root of the steps. */
static double training_curve(const struct plan *p, int64_t step)
{
	double scale = p->o.steps > 100 ? (double)p->o.steps / 100 : 1;

	return 1 + 8 / sqrt(1 + training_progress(p, step) / scale);
}

static bool training_is_nan(const struct plan *p, int64_t index)
{
	const struct fault *f = plan_fault_step(p, FAULT_NAN, index);

	return f && (index == f->begin || plan_unit(p->key ^ 0x4e414eu, index) < f->strength);
}

/* How far a step is in a fault: 1 at its last step. */
static double training_into(const struct fault *f, int64_t index)
{
	return (double)(index - f->begin + 1) / (double)(f->end - f->begin);
}

static double training_loss(const struct shape_at *a)
{
	double v = training_curve(a->p, a->c->step) * (1 + 0.06 * plan_bell(a->s->key, a->index));
	const struct fault *f = plan_fault_step(a->p, FAULT_LOSS_SPIKE, a->index);

	if (training_is_nan(a->p, a->index))
		return NAN;
	if (f)
		v *= 1 +
		     (f->strength - 1) * (double)(f->end - a->index) / (double)(f->end - f->begin);
	return (double)(float)v;
}

static double training_val_loss(const struct shape_at *a)
{
	double v = training_curve(a->p, a->c->step) * 1.03 + 0.05;

	return (double)(float)(v * (1 + 0.01 * plan_bell(a->s->key, a->index)));
}

/* ---- schedule and gradients --------------------------------------------------------- */

static double training_rate(const struct shape_at *a)
{
	int64_t steps = a->p->o.steps, warm = steps / 20, step = a->c->step;
	const struct fault *f = plan_fault_step(a->p, FAULT_LR_ERROR, a->index);
	double v;

	if (step < warm)
		v = SHAPE_RATE_PEAK * (double)(step + 1) / (double)warm;
	else
		v = SHAPE_RATE_PEAK * (0.1 + 0.45 * (1 + shape_cos_pi((double)(step - warm) /
								      (double)(steps - warm))));
	return f ? v * f->strength : v;
}

double shape_gradient_factor(const struct plan *p, int64_t index)
{
	const struct fault *more = plan_fault_step(p, FAULT_GRADIENT_EXPLOSION, index);
	const struct fault *less = plan_fault_step(p, FAULT_GRADIENT_VANISHING, index);
	double factor = 1, x;

	if (more) {
		x = training_into(more, index);
		factor *= 1 + (more->strength - 1) * (x * x * x * x);
	}
	if (less) {
		x = training_into(less, index);
		factor /= 1 + (less->strength - 1) * (x * x * x * x);
	}
	return factor;
}

/* Half the loss curve: 4.5 at first, towards 0.5. */
static double training_grad_norm(const struct shape_at *a)
{
	double v = training_curve(a->p, a->c->step) / 2;

	if (training_is_nan(a->p, a->index))
		return NAN;
	v *= 1 + 0.4 * plan_bell(a->s->key, a->index);
	return (double)(float)(v * shape_gradient_factor(a->p, a->index));
}

void shape_observe(const struct shape_at *a, double *v)
{
	double scale = training_curve(a->p, a->c->step) * a->s->row->scale *
		       shape_gradient_factor(a->p, a->index);
	int i;

	for (i = 0; i < SIMULATE_BINS_MAX; i++)
		v[i] = (double)(float)(scale *
				       plan_bell(a->s->key, a->index * SIMULATE_BINS_MAX + i));
}

/* ---- amounts and rates ---------------------------------------------------------------- */

static double training_samples(const struct shape_at *a)
{
	(void)a;
	return SHAPE_BATCH;
}

/* Sequences differ in length. */
static double training_tokens(const struct shape_at *a)
{
	return SHAPE_TOKENS - (double)(plan_bits(a->s->key, a->index) % (SHAPE_TOKENS / 8));
}

static double training_throughput(const struct shape_at *a)
{
	return SHAPE_BATCH * 1e9 / (double)a->c->step_ns;
}

static double training_epoch(const struct shape_at *a)
{
	return (double)(a->c->step / a->p->epoch_every);
}

/* ---- spans ------------------------------------------------------------------------------ */

static void training_step_span(const struct shape_at *a, int64_t *ret_begin_ns, int64_t *ret_ns)
{
	*ret_begin_ns = a->f->at_ns[0];
	*ret_ns = a->f->at_ns[PLAN_PHASES] - a->f->at_ns[0];
}

static void training_phase_span(const struct shape_at *a, int64_t *ret_begin_ns, int64_t *ret_ns)
{
	const int64_t *at = &a->f->at_ns[a->s->row->phase];

	*ret_begin_ns = at[0];
	*ret_ns = at[1] - at[0];
}

static void training_eval_span(const struct shape_at *a, int64_t *ret_begin_ns, int64_t *ret_ns)
{
	*ret_begin_ns = a->f->at_ns[PLAN_PHASES];
	*ret_ns = a->p->eval_ns;
}

static void training_checkpoint_span(const struct shape_at *a, int64_t *ret_begin_ns,
				     int64_t *ret_ns)
{
	*ret_begin_ns = a->f->at_ns[PLAN_PHASES];
	if (plan_is_due(a->p, a->p->eval_every, a->index))
		*ret_begin_ns += a->p->eval_ns;
	*ret_ns = a->p->checkpoint_ns;
}

static void training_epoch_span(const struct shape_at *a, int64_t *ret_begin_ns, int64_t *ret_ns)
{
	*ret_begin_ns = plan_begin(a->p, plan_epoch_first(a->p, a->index));
	*ret_ns = a->f->at_ns[PLAN_PHASES] - *ret_begin_ns;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* clang-format off */
static const struct simulate_row training_rank[] = {
	{.name = "step", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "a training step, begin to end", .span = training_step_span},
	{.name = "data", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "waiting for the next batch", .span = training_phase_span, .phase = PLAN_DATA},
	{.name = "forward", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "from batch to loss", .span = training_phase_span, .phase = PLAN_FORWARD},
	{.name = "backward", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "from loss to gradients", .span = training_phase_span, .phase = PLAN_BACKWARD},
	{.name = "optimizer", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "from gradients to weights", .span = training_phase_span, .phase = PLAN_OPTIMIZER},
	{.name = "loss", .unit = "nat", .kind = SINK_GAUGE, .value = training_loss,
	 .help = "training loss per token, a 32-bit number"},
	{.name = "grad_norm", .unit = "1", .kind = SINK_GAUGE, .value = training_grad_norm,
	 .help = "length of the gradient before clipping, a 32-bit number"},
	{.name = "learning_rate", .unit = "1", .kind = SINK_GAUGE, .value = training_rate,
	 .help = "learning rate: linear warm-up, then a cosine down to a tenth"},
	{.name = "throughput", .unit = "1/s", .kind = SINK_GAUGE, .value = training_throughput,
	 .help = "samples a second in this step"},
	{.name = "lapse/step/samples", .unit = "1", .kind = SINK_COUNTER, .value = training_samples,
	 .help = "samples that a step processed"},
	{.name = "lapse/step/tokens", .unit = "1", .kind = SINK_COUNTER, .value = training_tokens,
	 .help = "tokens that a step processed"},
};

static const struct simulate_row training_first[] = {
	{.name = "val/loss", .unit = "nat", .kind = SINK_GAUGE, .value = training_val_loss,
	 .every = SHAPE_EVAL, .when = SHAPE_AT_EVAL_END, .help = "held-out loss per token"},
	{.name = "epoch/number", .unit = "1", .kind = SINK_GAUGE, .value = training_epoch,
	 .help = "epoch that the step belongs to, from 0"},
	{.name = "epoch", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .every = SHAPE_EPOCH, .help = "an epoch, begin to end", .span = training_epoch_span},
	{.name = "eval", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .every = SHAPE_EVAL, .help = "held-out loss being computed", .span = training_eval_span},
	{.name = "checkpoint", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .every = SHAPE_CHECKPOINT, .help = "weights being saved", .span = training_checkpoint_span},
	{.name = "gradients/embedding", .unit = "1", .kind = SINK_HISTOGRAM,
	 .every = SHAPE_HISTOGRAM, .help = "gradients of the embedding, 128 of them", .scale = 0.002},
	{.name = "gradients/head", .unit = "1", .kind = SINK_HISTOGRAM,
	 .every = SHAPE_HISTOGRAM, .help = "gradients of the head, 128 of them", .scale = 0.02},
};

const struct simulate_row shape_sync =
	{.name = "sync", .unit = "ns", .kind = SINK_SPAN, .when = SHAPE_AT_SPAN,
	 .help = "waiting for the other ranks' gradients", .span = training_phase_span,
	 .phase = PLAN_SYNC};
/* clang-format on */

const struct shape_table shape_rank = {training_rank, ARRAY_LEN(training_rank)};
const struct shape_table shape_first = {training_first, ARRAY_LEN(training_first)};

/* ---- added gauges ------------------------------------------------------------------------- */

/* Six kinds, by number: constant, slowly rising, 3 decimals, 32-bit noise, whole
 * numbers in steps, noise of 53 bits. */
static double training_gauge(const struct shape_at *a)
{
	uint64_t u = plan_bits(a->s->key, a->index);

	switch (a->s->unit % 6) {
	case 0:
		return (double)(a->s->key >> 44);
	case 1:
		return (double)a->index * 0.25 + (double)(a->s->key >> 54);
	case 2:
		return (double)(u >> 44) / 1000.0;
	case 3:
		return (double)((float)(u >> 40) * 0x1p-24f);
	case 4:
		return (double)(plan_bits(a->s->key, a->index / 64) >> 58);
	default:
		return (double)(u >> 11) * 0x1p-53;
	}
}

const struct simulate_row shape_gauge = {.name = "gauge",
					 .unit = "1",
					 .kind = SINK_GAUGE,
					 .value = training_gauge,
					 .help = "a number without a meaning"};
