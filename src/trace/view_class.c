/* SPDX-License-Identifier: Apache-2.0
 *
 * view_class.c - what a kernel does, by its name: HTA 0.6.1's classes to the letter
 * (hta/utils/utils.py, get_kernel_type), and ours, which look at the category first and know
 * today's names of collectives.
 */
#include "trace/view.h"

#include <ctype.h>
#include <string.h>

struct pattern {
	const char *text;
	bool anywhere; /* else at the start */
};

static const struct pattern hta_communication[] = {
	{"nccl", false}, {"hip", false}, {"hccl", false}, {"ncclKernel", true}};
static const struct pattern hta_memory[] = {{"Memcpy", false},
					    {"hipMemcpy", false},
					    {"Memset", false},
					    {"hipMemset", false},
					    {"dma", false}};
static const struct pattern hta_no_computation[] = {
	{"nccl", false},        {"Memcpy", true},
	{"Memset", true},       {"dma", true},
	{"Sync", true},         {"Stream Wait Event", false},
	{"runFunction", false}, {"hip", false},
	{"job_exe", false},     {"packet", false},
	{"pe_exe", false},      {"cpum_exe_subgraph", false},
	{"hccl", false},        {"collective_subgraph_execution", false}};

/* Collectives: NCCL and RCCL (ncclKernel_, ncclDevKernel_), oneCCL, HCCL, MSCCL, NVSHMEM, and
 * those that frameworks bring themselves (vLLM, SGLang, PyTorch's symmetric memory, DeepEP). */
static const struct pattern communication[] = {{"nccl", false},
					       {"rccl", false},
					       {"hccl", false},
					       {"ncclKernel", true},
					       {"ncclDevKernel", true},
					       {"mscclKernel", true},
					       {"msccl_", true},
					       {"oneccl", true},
					       {"nvshmem", true},
					       {"deep_ep::", true},
					       {"cross_device_reduce", true},
					       {"one_shot_all_reduce", true},
					       {"two_shot_all_reduce", true},
					       {"multimem_all_", true},
					       {"multimem_one_shot", true},
					       {"allreduce_fusion", true},
					       {"all_reduce_kernel", true},
					       {"collective_subgraph_execution", false},
					       {"all-reduce", false},
					       {"all-gather", false},
					       {"reduce-scatter", false},
					       {"all-to-all", false},
					       {"collective-permute", false}};
static const struct pattern memory[] = {{"Memcpy", false},
					{"hipMemcpy", false},
					{"Memset", false},
					{"hipMemset", false},
					{"dma", false},
					{"CopyHostToDevice", false},
					{"CopyDeviceToHost", false},
					{"CopyDeviceToDevice", false},
					{"FillBuffer", false}};
static const struct pattern waiting[] = {{"Stream Wait Event", false},
					 {"Stream Sync", false},
					 {"Event Sync", false},
					 {"Context Sync", false},
					 {"runFunction", false}};

#define MATCHES(name, list) matches(name, list, sizeof(list) / sizeof((list)[0]))

static bool matches(const char *name, const struct pattern *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (list[i].anywhere ? strstr(name, list[i].text) != NULL
				     : !strncmp(name, list[i].text, strlen(list[i].text)))
			return true;
	return false;
}

static enum view_class hta_class(const char *name)
{
	if (MATCHES(name, hta_communication))
		return VIEW_COMMUNICATION;
	if (MATCHES(name, hta_memory))
		return VIEW_MEMORY;
	if (MATCHES(name, hta_no_computation) ||
	    (!strncmp(name, "cuda", 4) && strstr(name + 4, "LaunchKernel")))
		return VIEW_OTHER;
	return VIEW_COMPUTATION;
}

enum view_class view_class_of(const char *name, enum trace_cat cat, enum view_rule rule)
{
	if (rule != VIEW_EXACT)
		return hta_class(name);
	if (cat == TRACE_CAT_GPU_MEMCPY || cat == TRACE_CAT_GPU_MEMSET)
		return VIEW_MEMORY;
	if (cat == TRACE_CAT_COLLECTIVE_COMM || MATCHES(name, communication))
		return VIEW_COMMUNICATION;
	if (MATCHES(name, memory))
		return VIEW_MEMORY;
	return MATCHES(name, waiting) ? VIEW_OTHER : VIEW_COMPUTATION;
}

int32_t view_step_number(const char *name)
{
	static const char start[] = "ProfilerStep";
	int64_t number = 0;
	const char *p;

	if (strncmp(name, start, sizeof(start) - 1) != 0)
		return -1;
	for (p = name + sizeof(start) - 1; isspace((unsigned char)*p); p++)
		;
	if (*p++ != '#')
		return -1;
	for (; isspace((unsigned char)*p); p++)
		;
	if (!isdigit((unsigned char)*p))
		return -1;
	for (; isdigit((unsigned char)*p) && number <= INT32_MAX; p++)
		number = number * 10 + *p - '0';
	return number <= INT32_MAX ? (int32_t)number : -1;
}
