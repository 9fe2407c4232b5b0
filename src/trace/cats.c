/* SPDX-License-Identifier: Apache-2.0
 *
 * cats.c - the table of categories: today's name first.
 */
#include "trace/cats.h"

#include <string.h>

static const struct {
	const char *name;
	enum trace_cat cat;
} rows[] = {
	{"cpu_op", TRACE_CAT_CPU_OP},
	{"user_annotation", TRACE_CAT_USER_ANNOTATION},
	{"gpu_user_annotation", TRACE_CAT_GPU_USER_ANNOTATION},
	{"kernel", TRACE_CAT_KERNEL},
	{"gpu_memcpy", TRACE_CAT_GPU_MEMCPY},
	{"gpu_memset", TRACE_CAT_GPU_MEMSET},
	{"cuda_runtime", TRACE_CAT_CUDA_RUNTIME},
	{"cuda_driver", TRACE_CAT_CUDA_DRIVER},
	{"cuda_sync", TRACE_CAT_CUDA_SYNC},
	{"cuda_event", TRACE_CAT_CUDA_EVENT},
	{"cuda_profiler_range", TRACE_CAT_CUDA_PROFILER_RANGE},
	{"python_function", TRACE_CAT_PYTHON_FUNCTION},
	{"overhead", TRACE_CAT_OVERHEAD},
	{"ac2g", TRACE_CAT_AC2G},
	{"Trace", TRACE_CAT_TRACE},
	{"mtia_runtime", TRACE_CAT_MTIA_RUNTIME},
	{"mtia_ccp_events", TRACE_CAT_MTIA_CCP_EVENTS},
	{"mtia_insight", TRACE_CAT_MTIA_INSIGHT},
	{"collective_comm", TRACE_CAT_COLLECTIVE_COMM},
	{"xpu_runtime", TRACE_CAT_XPU_RUNTIME},
	{"xpu_driver", TRACE_CAT_XPU_DRIVER},
	{"hpu_op", TRACE_CAT_HPU_OP},
	{"privateuse1_runtime", TRACE_CAT_PRIVATEUSE1_RUNTIME},
	{"privateuse1_driver", TRACE_CAT_PRIVATEUSE1_DRIVER},
	{"external_correlation", TRACE_CAT_EXTERNAL_CORRELATION},
	{"cpu_instant_event", TRACE_CAT_CPU_INSTANT_EVENT},
	{"Operator", TRACE_CAT_CPU_OP},
	{"Kernel", TRACE_CAT_KERNEL},
	{"Memcpy", TRACE_CAT_GPU_MEMCPY},
	{"Memset", TRACE_CAT_GPU_MEMSET},
	{"Runtime", TRACE_CAT_CUDA_RUNTIME},
	{"hip_runtime", TRACE_CAT_CUDA_RUNTIME},
	{"Python", TRACE_CAT_PYTHON_FUNCTION},
};

enum trace_cat cats_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(name, rows[i].name))
			return rows[i].cat;
	return TRACE_CAT_OTHER;
}

const char *trace_cat_name(enum trace_cat cat)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].cat == cat)
			return rows[i].name;
	return "other";
}
