/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - see calls.h.
 */
#include "analyse/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define MTIA_RUN "runFunction - job_prep_and_submit_for_execution"

struct call {
	const char *name;
	unsigned use;
};

static const struct call known[] = {
	{"cudaLaunchKernel", CALLS_LAUNCH | CALLS_HTA_LAUNCH | CALLS_HTA_QUEUE},
	{"cudaLaunchKernelExC", CALLS_LAUNCH | CALLS_HTA_LAUNCH | CALLS_HTA_QUEUE},
	{"cuLaunchKernel", CALLS_LAUNCH | CALLS_HTA_QUEUE},
	{"cuLaunchKernelEx", CALLS_LAUNCH | CALLS_HTA_QUEUE},
	{"cudaMemcpyAsync", CALLS_MEMORY | CALLS_HTA_LAUNCH | CALLS_HTA_QUEUE},
	{"cudaMemsetAsync", CALLS_MEMORY | CALLS_HTA_LAUNCH | CALLS_HTA_QUEUE},
	{"hipLaunchKernel", CALLS_LAUNCH | CALLS_HTA_QUEUE},
	{"hipExtModuleLaunchKernel", CALLS_LAUNCH | CALLS_HTA_QUEUE},
	{"hipMemcpyAsync", CALLS_MEMORY | CALLS_HTA_QUEUE},
	{"hipMemsetAsync", CALLS_MEMORY | CALLS_HTA_QUEUE},
	{"hipMemcpyWithStream", CALLS_MEMORY | CALLS_HTA_QUEUE},
	{MTIA_RUN, CALLS_LAUNCH | CALLS_HTA_LAUNCH | CALLS_HTA_QUEUE},
};

/* What else gives work, by how its name begins. */
static const struct call started[] = {{"cudaLaunch", CALLS_LAUNCH},
				      {"cuLaunch", CALLS_LAUNCH},
				      {"cudaGraphLaunch", CALLS_LAUNCH},
				      {"cuGraphLaunch", CALLS_LAUNCH},
				      {"hipLaunch", CALLS_LAUNCH},
				      {"hipExt", CALLS_LAUNCH},
				      {"hipModuleLaunch", CALLS_LAUNCH},
				      {"hipGraphLaunch", CALLS_LAUNCH},
				      {"hipHccModuleLaunch", CALLS_LAUNCH},
				      {"urEnqueueKernelLaunch", CALLS_LAUNCH},
				      {"zeCommandListAppendLaunch", CALLS_LAUNCH},
				      {"runFunction", CALLS_LAUNCH},
				      {"cudaMemcpy", CALLS_MEMORY},
				      {"cudaMemset", CALLS_MEMORY},
				      {"cuMemcpy", CALLS_MEMORY},
				      {"cuMemset", CALLS_MEMORY},
				      {"hipMemcpy", CALLS_MEMORY},
				      {"hipMemset", CALLS_MEMORY},
				      {"urEnqueueMem", CALLS_MEMORY},
				      {"urEnqueueUSMMem", CALLS_MEMORY},
				      {"urEnqueueUSMFill", CALLS_MEMORY},
				      {"zeCommandListAppendMemory", CALLS_MEMORY}};

/* HTA: (cuda.*LaunchKernel)|(cuLaunchKernel)|(^runFunction), from the start of the name. */
static bool is_delayed(const char *name)
{
	return (text_begins(name, "cuda") && strstr(name + 4, "LaunchKernel")) ||
	       text_begins(name, "cuLaunchKernel") || text_begins(name, "runFunction");
}

unsigned calls_of(const char *name)
{
	unsigned use = 0;
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]) && !use; i++)
		if (!strcmp(name, known[i].name))
			use = known[i].use;
	for (i = 0; i < sizeof(started) / sizeof(started[0]) && !use; i++)
		if (text_begins(name, started[i].name))
			use = started[i].use;
	return is_delayed(name) ? use | CALLS_HTA_DELAY : use;
}

uint8_t *calls_names(const struct trace *t)
{
	uint32_t i, n = trace_texts(t);
	uint8_t *ret = malloc((size_t)n + 1);

	for (i = 0; ret && i < n; i++)
		ret[i] = (uint8_t)calls_of(trace_text(t, i, NULL));
	return ret;
}
