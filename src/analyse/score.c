/* SPDX-License-Identifier: Apache-2.0
 *
 * score.c - the five targets out of the shares of a verdict and the memory events.
 */
#include "analyse/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct target {
	const char *name, *title, *unknown;
	double low, high;
} targets[SCORE_TARGETS] = {
	[SCORE_UTILISATION] = {"utilisation", "GPU utilisation above 80 %",
			       "no GPU rows in the trace", 0.80, INFINITY},
	[SCORE_MEMORY] = {"memory", "GPU memory near capacity without running out",
			  "no memory events of a GPU with known size (profile_memory)", 0.70, 0.95},
	[SCORE_LOADING] = {"loading", "data loading minimal", "no time in the trace", -INFINITY,
			   0.05},
	[SCORE_LAUNCH] = {"launch", "launch overhead low against kernel time",
			  "no GPU or no host rows in the trace", -INFINITY, 0.10},
	[SCORE_CPU] = {"cpu", "CPU not limiting", "no GPU or no host rows in the trace", -INFINITY,
		       0.20},
};

const char *score_name(enum score_target target)
{
	return targets[target].name;
}

const char *score_title(enum score_target target)
{
	return targets[target].title;
}

const char *score_state(enum score_state state)
{
	static const char *const names[] = {"pass", "fail", "unknown"};

	return names[state];
}

/* Peak of reserved (else allocated) memory of a device over its size. */
static double reserved(struct trace *t)
{
	uint64_t n_memory = trace_memories(t);
	const struct trace_memory *m;
	size_t n_devices;
	const struct trace_device *d = trace_devices(t, &n_devices);
	double best = NAN;

	for (uint64_t i = 0; i < n_memory && (m = trace_memory_at(t, i)) != NULL; i++)
		for (size_t k = 0; k < n_devices; k++) {
			int64_t bytes = m->reserved >= 0 ? m->reserved : m->allocated;
			double part;

			if (m->device_type != 1 || m->device != d[k].id || d[k].memory <= 0 ||
			    bytes < 0)
				continue;
			part = (double)bytes / (double)d[k].memory;
			if (isnan(best) || part > best)
				best = part;
		}
	return best;
}

static const char *word_of(enum score_target i)
{
	static const char *const words[SCORE_TARGETS] = {
		[SCORE_UTILISATION] = "The GPU works %.1f %% of the time",
		[SCORE_MEMORY] = "At the peak %.1f %% of the GPU's memory is reserved",
		[SCORE_LOADING] = "The data loader keeps the GPU waiting %.1f %% of the time",
		[SCORE_LAUNCH] = "Waiting for launches takes %.1f %% of what the GPU works",
		[SCORE_CPU] = "The host keeps the GPU waiting %.1f %% of the time",
	};

	return words[i];
}

static void judge(struct score *s, enum score_target i, double value, double unrecorded)
{
	struct score_row *row = &s->rows[i];
	const struct target *t = &targets[i];
	/* With the profiler's cost left out where it is known: that is how the program runs. */
	double v = isnan(unrecorded) ? value : unrecorded;
	int n;

	row->value = value;
	row->unrecorded = unrecorded;
	row->low = t->low;
	row->high = t->high;
	if (isnan(value)) {
		row->state = SCORE_UNKNOWN;
		snprintf(row->text, sizeof(row->text), "Unknown: %s.", t->unknown);
		return;
	}
	row->state = v > t->low && v < t->high ? SCORE_PASS : SCORE_FAIL;
	s->passed += row->state == SCORE_PASS;
	s->failed += row->state == SCORE_FAIL;
	n = snprintf(row->text, sizeof(row->text), word_of(i), 100 * value);
	if (!isnan(unrecorded))
		n += snprintf(row->text + n, sizeof(row->text) - (size_t)n,
			      ", about %.1f %% without the profiler", 100 * unrecorded);
	if (isinf(t->low))
		snprintf(row->text + n, sizeof(row->text) - (size_t)n, " (below %.0f %%).",
			 100 * t->high);
	else if (isinf(t->high))
		snprintf(row->text + n, sizeof(row->text) - (size_t)n, " (above %.0f %%).",
			 100 * t->low);
	else
		snprintf(row->text + n, sizeof(row->text) - (size_t)n, " (%.0f %% to %.0f %%).",
			 100 * t->low, 100 * t->high);
}

/* What of a kind of idle time stays when the recording's cost goes: the idle time that is then
 * expected, divided as the idle time that was found. */
static double unrecorded(const struct verdict_rank *r, double ns)
{
	const int64_t *of = r->facts.shares.ns;
	double found = 0, steps = r->n_steps ? (double)r->n_steps : 1;
	double left = (double)r->expected * steps - (double)r->busy;

	for (int k = VERDICT_DATA; k < VERDICT_KINDS; k++)
		found += k == VERDICT_PROFILER ? 0 : (double)of[k];
	return found > 0 && left > 0 ? ns / found * left : 0;
}

void score_of(const struct verdict_rank *r, struct score *ret)
{
	const struct verdict_shares *s = &r->facts.shares;
	double total = (double)s->total, busy = (double)r->busy;
	double expected = (double)r->expected * (r->n_steps ? (double)r->n_steps : 1);
	double launch = (double)s->ns[VERDICT_LAUNCH];
	double host = launch + (double)(s->ns[VERDICT_SYNC] + s->ns[VERDICT_HOST]);
	double recorded = (double)s->ns[VERDICT_PROFILER];
	double waits = (double)(s->ns[VERDICT_COMMUNICATION] + s->ns[VERDICT_STRAGGLER]);
	bool both = r->facts.has_gpu && r->facts.has_host && busy > 0;

	*ret = (struct score){.passed = 0};
	judge(ret, SCORE_UTILISATION, r->facts.has_gpu ? busy / total : NAN,
	      r->facts.has_gpu && recorded > 0 ? r->facts.measure[VERDICT_M_GPU_BUSY] : NAN);
	if (r->facts.has_gpu && waits >= 0.1 * busy) {
		char *text = ret->rows[SCORE_UTILISATION].text;
		size_t n = strlen(text);

		snprintf(text + n, sizeof(ret->rows->text) - n,
			 " %.1f %% of it is communication and waiting in it.", 100 * waits / busy);
	}
	judge(ret, SCORE_MEMORY, reserved(r->view->trace), NAN);
	judge(ret, SCORE_LOADING, total > 0 ? (double)s->ns[VERDICT_DATA] / total : NAN, NAN);
	judge(ret, SCORE_LAUNCH, both ? (launch + recorded) / busy : NAN,
	      both && recorded > 0 ? unrecorded(r, launch) / busy : NAN);
	judge(ret, SCORE_CPU, both ? (host + recorded) / total : NAN,
	      both && recorded > 0 ? unrecorded(r, host) / expected : NAN);
}

void score_text(const struct score *s, struct buf *out)
{
	for (int i = 0; i < SCORE_TARGETS; i++)
		buf_printf(out, "%-7s %-45s %s\n", score_state(s->rows[i].state), targets[i].title,
			   s->rows[i].text);
	buf_printf(out, "%d of %d passed, %d failed, %d unknown.\n", s->passed, SCORE_TARGETS,
		   s->failed, SCORE_TARGETS - s->passed - s->failed);
}
