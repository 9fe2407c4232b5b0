/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracegaps.h"

#include <stdio.h>

#include "base/mem.h"

uint64_t tracegaps_gpu_rows(const struct trace *t)
{
	return trace_cat_count(t, TRACE_CAT_KERNEL) + trace_cat_count(t, TRACE_CAT_GPU_MEMCPY) +
	       trace_cat_count(t, TRACE_CAT_GPU_MEMSET) +
	       trace_cat_count(t, TRACE_CAT_MTIA_CCP_EVENTS);
}

uint64_t tracegaps_host_rows(const struct trace *t)
{
	return trace_cat_count(t, TRACE_CAT_CPU_OP) + trace_cat_count(t, TRACE_CAT_CUDA_RUNTIME) +
	       trace_cat_count(t, TRACE_CAT_PYTHON_FUNCTION) +
	       trace_cat_count(t, TRACE_CAT_USER_ANNOTATION) +
	       trace_cat_count(t, TRACE_CAT_MTIA_RUNTIME) +
	       trace_cat_count(t, TRACE_CAT_XPU_RUNTIME);
}

#define TRACEGAPS_NO_STEPS                                                                         \
	"No profiler steps (ProfilerStep#N): the whole trace counts as one. Call prof.step() "     \
	"after each step of the training."

void tracegaps_no_steps_said(struct traceout *o)
{
	traceout_missing(o, "no-steps", "%s", TRACEGAPS_NO_STEPS);
}

static bool tracegaps_no_gpu(const struct tracecmd_set *s, size_t i)
{
	size_t k;

	if (tracegaps_gpu_rows(s->trace[i]))
		return false;
	/* JAX: rows are the device's by their thread. */
	for (k = 0; s->view && k < s->view[i].n; k++)
		if (s->view[i].rows[k].is_gpu)
			return false;
	return true;
}

static bool tracegaps_no_steps(const struct tracecmd_set *s, size_t i)
{
	return s->view && s->view[i].n_steps == 0;
}

static bool tracegaps_no_rank(const struct tracecmd_set *s, size_t i)
{
	return trace_meta(s->trace[i])->rank < 0;
}

/* Does any row have such a text? Only the first rows are looked at: it is on or off. */
static bool tracegaps_has(struct trace *t, bool stack)
{
	uint64_t rows = trace_rows(t), i;

	for (i = 0; i < rows; i++) {
		const struct trace_block *b = trace_block(t, (uint32_t)(i / TRACE_BLOCK_ROWS));
		uint32_t k = (uint32_t)(i % TRACE_BLOCK_ROWS);
		const struct trace_args *a = trace_args(t, b->args[k]);

		if (stack ? b->cat[k] == TRACE_CAT_PYTHON_FUNCTION || a->stack : a->dims)
			return true;
	}
	return false;
}

static bool tracegaps_no_shapes(const struct tracecmd_set *s, size_t i)
{
	return !trace_meta(s->trace[i])->record_shapes && !tracegaps_has(s->trace[i], false);
}

static bool tracegaps_no_stacks(const struct tracecmd_set *s, size_t i)
{
	return !trace_meta(s->trace[i])->with_stack && !tracegaps_has(s->trace[i], true);
}

static bool tracegaps_no_memory(const struct tracecmd_set *s, size_t i)
{
	return trace_memories(s->trace[i]) == 0;
}

static bool tracegaps_no_host(const struct tracecmd_set *s, size_t i)
{
	return !tracegaps_host_rows(s->trace[i]);
}

static const struct {
	unsigned which;
	const char *key;
	bool (*lacks)(const struct tracecmd_set *s, size_t i);
	const char *text;
} tracegaps_rows[] = {
	{TRACEGAPS_HOST, "no-host", tracegaps_no_host,
	 "No rows of the host: operators, launches and steps are unknown. Record with "
	 "ProfilerActivity.CPU too."},
	{TRACEGAPS_STEPS, "no-steps", tracegaps_no_steps, TRACEGAPS_NO_STEPS},
	{TRACEGAPS_RANK, "no-rank", tracegaps_no_rank,
	 "No rank: neither the file (distributedInfo) nor its name tells it."},
	{TRACEGAPS_SHAPES, "no-shapes", tracegaps_no_shapes,
	 "No shapes: record with record_shapes=True."},
	{TRACEGAPS_STACKS, "no-stacks", tracegaps_no_stacks,
	 "No Python stacks: record with with_stack=True."},
	{TRACEGAPS_MEMORY, "no-memory", tracegaps_no_memory,
	 "No memory events: record with profile_memory=True."},
};

static void tracegaps_where(char *out, size_t cap, size_t lacking, size_t n)
{
	if (lacking == n)
		out[0] = '\0';
	else
		snprintf(out, cap, "In %zu of %zu files: ", lacking, n);
}

static void tracegaps_gpu(struct traceout *o, const struct tracecmd_set *s)
{
	uint64_t calls = 0;
	size_t i, lacking = 0;
	char where[64];

	for (i = 0; i < s->n; i++)
		if (tracegaps_no_gpu(s, i)) {
			lacking++;
			calls += trace_cat_count(s->trace[i], TRACE_CAT_CUDA_RUNTIME) +
				 trace_cat_count(s->trace[i], TRACE_CAT_CUDA_DRIVER);
		}
	if (lacking == 0)
		return;
	tracegaps_where(where, sizeof(where), lacking, s->n);
	if (calls)
		traceout_missing(
			o, "no-gpu",
			"%sNo GPU rows, though the host called the runtime %llu times: the "
			"profiler could not record the device (another profiler attached, no "
			"permission for CUPTI or roctracer, or its buffers were dropped).",
			where, (unsigned long long)calls);
	else
		traceout_missing(o, "no-gpu",
				 "%sNo GPU rows: only the host was recorded. Where there is a GPU, "
				 "record with ProfilerActivity.CUDA.",
				 where);
}

void tracegaps_say(struct traceout *o, const struct tracecmd_set *s, unsigned which)
{
	size_t i, k, lacking;
	char where[64];

	if (which & TRACEGAPS_GPU)
		tracegaps_gpu(o, s);
	for (k = 0; k < ARRAY_LEN(tracegaps_rows); k++) {
		if (!(which & tracegaps_rows[k].which))
			continue;
		lacking = 0;
		for (i = 0; i < s->n; i++)
			lacking += tracegaps_rows[k].lacks(s, i);
		tracegaps_where(where, sizeof(where), lacking, s->n);
		if (lacking)
			traceout_missing(o, tracegaps_rows[k].key, "%s%s", where,
					 tracegaps_rows[k].text);
	}
}
