/* SPDX-License-Identifier: Apache-2.0 */
#include "analyse/stepbound.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const struct {
	const char *id, *title, *advice;
} stepbound_rows[STEPBOUND_KINDS] = {
	[STEPBOUND_COMPUTE] = {"compute", "compute",
			       "bf16 or fp16 (autocast), fused attention, torch.compile; a larger "
			       "batch if memory allows; more GPUs. A trace says which operators."},
	[STEPBOUND_MEMORY] = {"memory", "memory bandwidth",
			      "Fuse small kernels (torch.compile, fused optimizer), keep "
			      "activations in bf16, avoid casts. A trace says which kernels."},
	[STEPBOUND_DATA] =
		{"data", "data loading",
		 "More workers (num_workers), pin_memory=True, a larger prefetch_factor, "
		 "persistent_workers=True; cheaper or cached transforms; faster storage."},
	[STEPBOUND_COMMUNICATION] = {"communication", "communication",
				     "Overlap it with backward, gradient accumulation, a larger "
				     "batch, compressed gradients; `lapse trace ranks` says who "
				     "waits for whom."},
	[STEPBOUND_STRAGGLER] = {"straggler", "a slow rank",
				 "Look at that rank alone: its data shard, logging, checkpoints, "
				 "clocks and neighbours on its machine."},
	[STEPBOUND_LAUNCH] = {"launch", "the host",
			      "CUDA graphs or torch.compile (mode=\"reduce-overhead\"), a larger "
			      "batch, no .item() or print() of tensors in each step."},
	[STEPBOUND_CHECKPOINT] = {"checkpoint", "checkpoints",
				  "Save less often, asynchronously (torch.distributed.checkpoint."
				  "async_save) or to a local disk first."},
	[STEPBOUND_EVALUATION] = {"evaluation", "evaluation",
				  "Evaluate less often, on fewer batches, without gradients."},
	[STEPBOUND_HOST] = {"host", "other host code",
			    "Look at what these spans do: logging, callbacks, garbage collection; "
			    "do it every N steps or in another thread."},
	[STEPBOUND_UNKNOWN] = {"unknown", "not known",
			       "Mark the phases of a step: `with lapse.torch.phase(\"forward\")`, "
			       "or `lapse.span()`; or record a trace."},
};

/* What takes the time, as stepbound.h defines it. */
struct stepbound_cut {
	double of[STEPBOUND_KINDS];
	double idle; /* of the GPU; NaN: not known */
};

static double stepbound_less(double a, double b)
{
	return a < b ? a : b;
}

/* As much of the share as is left of the GPU's idle time. */
static double stepbound_take(double *left, double share)
{
	double got = stepbound_less(share, *left);

	*left -= got;
	return got;
}

static void stepbound_with_gpu(const struct stepbound_facts *f, struct stepbound_cut *c)
{
	const double *s = f->share;
	double busy = fmin(fmax(f->busy, 0), 1), left = 1 - busy, waits;

	c->idle = left;
	c->of[STEPBOUND_DATA] = stepbound_take(&left, s[STEPSPLIT_DATA]);
	c->of[STEPBOUND_CHECKPOINT] = stepbound_take(&left, s[STEPSPLIT_CHECKPOINT]);
	c->of[STEPBOUND_EVALUATION] = stepbound_take(&left, s[STEPSPLIT_EVALUATION]);
	c->of[STEPBOUND_HOST] = stepbound_take(&left, s[STEPSPLIT_LOG] + s[STEPSPLIT_SPAN]);
	/* A collective's kernel counts as busy, waiting for it on the host as idle. */
	waits = stepbound_less(s[STEPSPLIT_COMMUNICATION], busy);
	c->of[STEPBOUND_COMMUNICATION] =
		waits + stepbound_take(&left, s[STEPSPLIT_COMMUNICATION] - waits);
	c->of[STEPBOUND_COMPUTE] = busy - waits;
	c->of[STEPBOUND_LAUNCH] = left;
}

static void stepbound_without(const struct stepbound_facts *f, struct stepbound_cut *c)
{
	const double *s = f->share;

	c->idle = NAN;
	c->of[STEPBOUND_DATA] = s[STEPSPLIT_DATA];
	c->of[STEPBOUND_CHECKPOINT] = s[STEPSPLIT_CHECKPOINT];
	c->of[STEPBOUND_EVALUATION] = s[STEPSPLIT_EVALUATION];
	c->of[STEPBOUND_HOST] = s[STEPSPLIT_LOG] + s[STEPSPLIT_SPAN];
	c->of[STEPBOUND_COMMUNICATION] = s[STEPSPLIT_COMMUNICATION];
	c->of[STEPBOUND_COMPUTE] =
		s[STEPSPLIT_FORWARD] + s[STEPSPLIT_BACKWARD] + s[STEPSPLIT_OPTIMIZER];
	c->of[STEPBOUND_UNKNOWN] = s[STEPSPLIT_OTHER];
}

static bool stepbound_is_idle(enum stepbound_kind k)
{
	return k != STEPBOUND_COMPUTE && k != STEPBOUND_COMMUNICATION && k != STEPBOUND_UNKNOWN;
}

static enum stepbound_kind stepbound_choose(const struct stepbound_facts *f,
					    const struct stepbound_cut *c)
{
	enum stepbound_kind k, best = STEPBOUND_COMPUTE, idle = STEPBOUND_DATA;

	if (isnan(f->busy) && c->of[STEPBOUND_UNKNOWN] >= 0.5)
		return STEPBOUND_UNKNOWN;
	if (f->straggler_over >= STEPBOUND_OVER &&
	    c->of[STEPBOUND_COMMUNICATION] >= STEPBOUND_WAITS)
		return STEPBOUND_STRAGGLER;
	for (k = 0; k < STEPBOUND_KINDS; k++) {
		if (c->of[k] > c->of[best])
			best = k;
		if (stepbound_is_idle(k) && c->of[k] > c->of[idle])
			idle = k;
	}
	if (c->of[idle] >= STEPBOUND_IDLE && best == STEPBOUND_COMPUTE)
		best = idle;
	if (c->of[best] <= 0)
		return STEPBOUND_UNKNOWN;
	if (best == STEPBOUND_COMPUTE && f->dram >= STEPBOUND_DRAM)
		return STEPBOUND_MEMORY;
	return best;
}

/* ---- words --------------------------------------------------------------------------- */

static const char *stepbound_named(const struct stepbound_facts *f, enum stepsplit_role role)
{
	return f->name[role] ? f->name[role] : stepsplit_role_name(role);
}

static const char *stepbound_host_name(const struct stepbound_facts *f)
{
	return f->share[STEPSPLIT_LOG] > f->share[STEPSPLIT_SPAN]
		       ? stepbound_named(f, STEPSPLIT_LOG)
		       : stepbound_named(f, STEPSPLIT_SPAN);
}

static void stepbound_sentence(const struct stepbound_facts *f, struct stepbound *r)
{
	double pct = 100 * r->share;
	char *to = r->sentence;
	size_t cap = sizeof(r->sentence);

	switch (r->kind) {
	case STEPBOUND_COMPUTE:
		if (isnan(f->busy))
			snprintf(
				to, cap,
				"Bound by compute: forward, backward and optimizer take %.0f %% of "
				"a step.",
				pct);
		else
			snprintf(to, cap,
				 "Bound by compute: the GPU computes in %.0f %% of a step.", pct);
		break;
	case STEPBOUND_MEMORY:
		snprintf(to, cap,
			 "Bound by memory bandwidth: the GPU works in %.0f %% of a step and uses "
			 "%.0f %% of its memory's bandwidth.",
			 pct, 100 * f->dram);
		break;
	case STEPBOUND_STRAGGLER:
		snprintf(to, cap,
			 "Bound by a slow rank: rank %" PRId64
			 " has %.2f times as much to do as the "
			 "others, which wait %.0f %% of a step.",
			 f->straggler, f->straggler_over, pct);
		break;
	case STEPBOUND_LAUNCH:
		snprintf(to, cap,
			 "Bound by the host: the GPU has nothing to do in %.0f %% of a step while "
			 "the host prepares its work.",
			 pct);
		break;
	case STEPBOUND_HOST:
		snprintf(to, cap,
			 "Bound by other host code: %.0f %% of a step is in spans like "
			 "\"%.64s\".",
			 pct, stepbound_host_name(f));
		break;
	case STEPBOUND_UNKNOWN:
		snprintf(to, cap, "Not known: %.0f %% of a step is in no recorded span.", pct);
		break;
	default:
		snprintf(to, cap, "Bound by %s: %.0f %% of a step waits in \"%.64s\".", r->title,
			 pct,
			 stepbound_named(f, r->kind == STEPBOUND_DATA         ? STEPSPLIT_DATA
					    : r->kind == STEPBOUND_CHECKPOINT ? STEPSPLIT_CHECKPOINT
					    : r->kind == STEPBOUND_EVALUATION
						    ? STEPSPLIT_EVALUATION
						    : STEPSPLIT_COMMUNICATION));
		break;
	}
}

static void stepbound_why(const struct stepbound_facts *f, const struct stepbound_cut *c,
			  struct stepbound *r)
{
	char *to = r->why;
	size_t cap = sizeof(r->why);

	if (isnan(f->busy))
		snprintf(
			to, cap,
			"No figure says how busy a GPU was: host time of the phases decides, and a "
			"GPU that runs behind the host is not seen.");
	else
		snprintf(
			to, cap,
			"%s %.0f %% of the time, so %.0f %% could be gained at most by "
			"keeping it fed; of that data loading explains %.0f %%, launching %.0f %%.",
			f->busy_is_of_phases ? "The phases' device time is" : "The GPU was busy",
			100 * fmin(fmax(f->busy, 0), 1), 100 * c->idle, 100 * c->of[STEPBOUND_DATA],
			100 * c->of[STEPBOUND_LAUNCH]);
}

void stepbound_decide(const struct stepbound_facts *f, struct stepbound *ret)
{
	struct stepbound_cut c = {0};
	enum stepbound_kind kind;

	if (isnan(f->busy))
		stepbound_without(f, &c);
	else
		stepbound_with_gpu(f, &c);
	kind = stepbound_choose(f, &c);
	*ret = (struct stepbound){.kind = kind,
				  .id = stepbound_rows[kind].id,
				  .title = stepbound_rows[kind].title,
				  .advice = stepbound_rows[kind].advice};
	ret->share = kind == STEPBOUND_MEMORY      ? c.of[STEPBOUND_COMPUTE]
		     : kind == STEPBOUND_STRAGGLER ? c.of[STEPBOUND_COMMUNICATION]
		     : kind == STEPBOUND_UNKNOWN   ? f->share[STEPSPLIT_OTHER]
						   : c.of[kind];
	stepbound_sentence(f, ret);
	stepbound_why(f, &c, ret);
}
