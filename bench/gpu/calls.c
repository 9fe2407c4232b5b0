/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - what each call of NVIDIA's driver takes, and each numbered field.
 */
#include "gpu/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench.h"
#include "probe/gpu/nvidia_field.h"

enum call_kind {
	CALL_UTILIZATION,
	CALL_MEMORY_V2,
	CALL_MEMORY,
	CALL_TEMPERATURE,
	CALL_CLOCK,
	CALL_POWER,
	CALL_REASONS,
	CALL_FIELDS_ALL,
	CALL_EVENT_WAIT,
	CALL_GPM_SAMPLE,
	CALL_GPM_GET,
	CALL_PROCESSES,
	CALL_PROCESS_USE,
	CALL_POWER_LIMIT,
	CALL_CLOCK_MAX,
	CALL_FAN,
	CALL_LINK_GENERATION,
	CALL_LINK_WIDTH,
	CALL_MIG_MODE,
	CALL_COUNT,
	CALL_BY_INDEX,
	CALLS
};

static const char *const call_names[CALLS] = {
	"GetUtilizationRates",
	"GetMemoryInfo_v2",
	"GetMemoryInfo",
	"GetTemperature",
	"GetClockInfo SM",
	"GetPowerUsage",
	"GetCurrentClocksEventReasons",
	"GetFieldValues, all of ours",
	"EventSetWait 0 ms",
	"GpmSampleGet",
	"GpmMetricsGet, 8",
	"GetComputeRunningProcesses",
	"GetProcessUtilization",
	"GetEnforcedPowerLimit",
	"GetMaxClockInfo",
	"GetFanSpeed",
	"GetCurrPcieLinkGeneration",
	"GetCurrPcieLinkWidth",
	"GetMigMode",
	"GetCount",
	"GetHandleByIndex",
};

struct caller {
	struct nvml *n;
	struct nvml_device *d;
	struct nvml_event_set *set;
	struct nvml_gpm_sample *sample[2];
	struct nvml_gpm_get *get;
	struct nvml_process *processes;
	struct nvml_process_sample *samples;
};

static int call_fields(struct caller *c)
{
	struct nvml_field f[NVIDIA_FIELDS_MAX];
	size_t i;

	for (i = 0; i < nvidia_n_fields; i++)
		f[i] = (struct nvml_field){.id = nvidia_fields[i].id,
					   .scope = nvidia_fields[i].scope};
	return c->n->api.fields(c->d, (int)nvidia_n_fields, f);
}

static int call_gpm_get(struct caller *c)
{
	static const unsigned ids[] = {NVML_GPM_SM,   NVML_GPM_OCCUPANCY, NVML_GPM_TENSOR,
				       NVML_GPM_DRAM, NVML_GPM_FP16,      NVML_GPM_FP32,
				       NVML_GPM_FP64, NVML_GPM_INTEGER};
	size_t i;

	c->get->version = 1;
	c->get->count = ARRAY_LEN(ids);
	c->get->before = c->sample[0];
	c->get->after = c->sample[1];
	for (i = 0; i < ARRAY_LEN(ids); i++)
		c->get->metrics[i].id = ids[i];
	return c->n->api.gpm_get(c->get);
}

#define ONE(member, ...)                                                                           \
	(c->n->api.member ? c->n->api.member(__VA_ARGS__) : (int)NVML_FUNCTION_NOT_FOUND)

static int call_value(struct caller *c, enum call_kind kind)
{
	struct nvml_memory_v2 v2 = {.version = NVML_VERSION(nvml_memory_v2, 2)};
	struct nvml_utilization u;
	struct nvml_memory m;
	unsigned long long mask;
	unsigned a;

	switch (kind) {
	case CALL_UTILIZATION:
		return ONE(utilization, c->d, &u);
	case CALL_MEMORY_V2:
		return ONE(memory_v2, c->d, &v2);
	case CALL_MEMORY:
		return ONE(memory, c->d, &m);
	case CALL_TEMPERATURE:
		return ONE(temperature, c->d, NVML_TEMPERATURE_GPU, &a);
	case CALL_CLOCK:
		return ONE(clock, c->d, NVML_CLOCK_SM, &a);
	case CALL_POWER:
		return ONE(power, c->d, &a);
	case CALL_REASONS:
		return ONE(reasons, c->d, &mask);
	case CALL_FIELDS_ALL:
		return c->n->api.fields ? call_fields(c) : (int)NVML_FUNCTION_NOT_FOUND;
	case CALL_POWER_LIMIT:
		return ONE(power_enforced, c->d, &a);
	case CALL_CLOCK_MAX:
		return ONE(clock_max, c->d, NVML_CLOCK_SM, &a);
	case CALL_FAN:
		return ONE(fan, c->d, &a);
	case CALL_LINK_GENERATION:
		return ONE(pcie_generation, c->d, &a);
	default:
		return ONE(pcie_width, c->d, &a);
	}
}

static int call_one(struct caller *c, enum call_kind kind)
{
	unsigned a = 512, b;
	struct nvml_event e;
	struct nvml_device *d;

	switch (kind) {
	case CALL_EVENT_WAIT:
		a = (unsigned)(c->set ? ONE(event_wait, c->set, &e, 0) : NVML_NOT_SUPPORTED);
		return a == NVML_TIMEOUT ? 0 : (int)a;
	case CALL_GPM_SAMPLE:
		return c->sample[1] ? ONE(gpm_sample, c->d, c->sample[1])
				    : (int)NVML_FUNCTION_NOT_FOUND;
	case CALL_GPM_GET:
		return c->sample[1] ? call_gpm_get(c) : (int)NVML_FUNCTION_NOT_FOUND;
	case CALL_PROCESSES:
		return ONE(processes, c->d, &a, c->processes);
	case CALL_PROCESS_USE:
		a = 8192;
		return ONE(process_use, c->d, c->samples, &a, 0);
	case CALL_MIG_MODE:
		return ONE(mig_mode, c->d, &a, &b);
	case CALL_COUNT:
		return ONE(count, &a);
	case CALL_BY_INDEX:
		return ONE(by_index, 0, &d);
	default:
		return call_value(c, kind);
	}
}

static bool caller_open(struct caller *c)
{
	struct err e = {0};

	memset(c, 0, sizeof(*c));
	if (nvml_open(&c->n, &e) || c->n->api.by_index(0, &c->d)) {
		fprintf(stderr, "bench gpu: %s\n", e.text);
		return false;
	}
	c->get = xcalloc(1, sizeof(*c->get));
	c->processes = xcalloc(512, sizeof(*c->processes));
	c->samples = xcalloc(8192, sizeof(*c->samples));
	if (c->n->api.event_set_create && c->n->api.event_set_create(&c->set) == NVML_OK)
		c->n->api.event_register(c->d, NVML_EVENT_XID, c->set);
	if (c->n->api.gpm_alloc) {
		c->n->api.gpm_alloc(&c->sample[0]);
		c->n->api.gpm_alloc(&c->sample[1]);
		c->n->api.gpm_sample(c->d, c->sample[0]);
		reader_pause(0.2);
		c->n->api.gpm_sample(c->d, c->sample[1]);
	}
	return true;
}

static void caller_close(struct caller *c)
{
	int i;

	for (i = 0; i < 2; i++)
		if (c->sample[i])
			c->n->api.gpm_free(c->sample[i]);
	if (c->set)
		c->n->api.event_set_free(c->set);
	nvml_close(c->n);
	free(c->get);
	free(c->processes);
	free(c->samples);
}

void gpu_calls(void)
{
	double us[READER_TIMES];
	struct caller c;
	int k, i, ret;

	if (!caller_open(&c))
		return;
	printf("%-32s %10s %10s %10s  %s\n", "call", "first us", "median us", "p99 us", "says");
	for (k = 0; k < CALLS; k++) {
		double first = 0;

		ret = 0;
		for (i = 0; i < READER_TIMES && !(ret && i >= 10); i++) {
			us[i] = bench_now();
			ret = call_one(&c, (enum call_kind)k);
			us[i] = (bench_now() - us[i]) * 1e6;
			if (i == 0)
				first = us[0];
			if (us[i] > 50000 && i >= 20)
				break;
		}
		qsort(us, (size_t)i, sizeof(double), reader_compare);
		printf("%-32s %10.1f %10.1f %10.1f  %s\n", call_names[k], first, us[i / 2],
		       us[i * 99 / 100], ret ? nvml_why(ret) : "ok");
	}
	caller_close(&c);
}

static void fields_one(struct caller *c, unsigned id, unsigned scope)
{
	struct nvml_field f;
	double us[20], v = NAN;
	int i, ret = 0;

	for (i = 0; i < 20; i++) {
		f = (struct nvml_field){.id = id, .scope = scope};
		us[i] = bench_now();
		ret = c->n->api.fields ? c->n->api.fields(c->d, 1, &f) : NVML_FUNCTION_NOT_FOUND;
		us[i] = (bench_now() - us[i]) * 1e6;
	}
	qsort(us, 20, sizeof(double), reader_compare);
	if (!ret)
		ret = f.ret;
	nvml_field_number(&f, &v);
	printf("%5u %5d %20.0f %10.1f  %s\n", id, f.type, ret ? NAN : v, us[10],
	       ret ? nvml_why(ret) : "ok");
}

void gpu_fields(void)
{
	struct caller c;
	unsigned i;
	size_t k;
	int ret;

	if (!caller_open(&c))
		return;
	printf("%5s %5s %20s %10s  %s\n", "field", "type", "value", "median us", "says");
	for (k = 0; k < nvidia_n_fields; k++)
		fields_one(&c, nvidia_fields[k].id, nvidia_fields[k].scope);
	for (i = 0; i < 3; i++) {
		fields_one(&c, NVML_FI_SLOWDOWN_OLD + i, 0);
		fields_one(&c, NVML_FI_SLOWDOWN_NEW + i, 0);
	}
	if (c.n->api.fields) {
		struct nvidia n = {.nvml = c.n};
		struct nvidia_gpu g = {.handle = c.d, .parent = -1};

		printf("counters of slowdown are at %u\n", nvidia_slowdown(&n, &g, &ret));
	}
	caller_close(&c);
}
