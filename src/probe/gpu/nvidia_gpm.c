/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/nvidia_gpm.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "wire/clock.h"

static const struct {
	unsigned id;
	enum gpu_row row;
} gpm_metrics[NVIDIA_GPM_METRICS] = {
	{NVML_GPM_SM, GPU_SM_ACTIVE},         {NVML_GPM_OCCUPANCY, GPU_SM_OCCUPANCY},
	{NVML_GPM_TENSOR, GPU_TENSOR_ACTIVE}, {NVML_GPM_DRAM, GPU_DRAM_ACTIVE},
	{NVML_GPM_FP16, GPU_FP16_ACTIVE},     {NVML_GPM_FP32, GPU_FP32_ACTIVE},
	{NVML_GPM_FP64, GPU_FP64_ACTIVE},     {NVML_GPM_INTEGER, GPU_INTEGER_ACTIVE},
};

static int gpm_take(struct nvidia *n, struct nvidia_gpu *g, struct nvml_gpm_sample *sample)
{
	const struct nvml_api *a = &n->nvml->api;

	if (g->parent < 0)
		return a->gpm_sample(g->handle, sample);
	if (!a->gpm_sample_mig)
		return NVML_FUNCTION_NOT_FOUND;
	return a->gpm_sample_mig(n->gpus[g->parent].handle, g->gpu_instance, sample);
}

static int gpm_alloc(struct nvidia *n, struct nvidia_gpu *g)
{
	int i, ret;

	for (i = 0; i < 2; i++) {
		if (g->gpm_sample[i])
			continue;
		ret = n->nvml->api.gpm_alloc(&g->gpm_sample[i]);
		if (ret) {
			g->gpm_sample[i] = NULL;
			return ret;
		}
	}
	return 0;
}

static bool gpm_is_here(const struct nvml_api *a)
{
	return a->gpm_support && a->gpm_alloc && a->gpm_free && a->gpm_sample && a->gpm_get;
}

/* What a sample costs: the least of two. NVML's code. */
static int gpm_cost(struct nvidia *n, struct nvidia_gpu *g, int64_t *least)
{
	int64_t took;
	int ret = 0, i;

	*least = INT64_MAX;
	for (i = 0; i < 2 && !ret; i++) {
		took = clock_ns(CLOCK_MONOTONIC);
		ret = gpm_take(n, g, g->gpm_sample[0]);
		took = clock_ns(CLOCK_MONOTONIC) - took;
		*least = took < *least ? took : *least;
	}
	return ret;
}

int nvidia_gpm_classify(struct nvidia *n, struct nvidia_gpu *g)
{
	const struct nvml_api *a = &n->nvml->api;
	struct nvml_gpm_support can = {.version = 1};
	int64_t cost;
	int ret;

	g->gpm = NVIDIA_NO;
	g->gpm_why = "needs a GPU of the generation Hopper or newer, and driver 520 or newer";
	if (!gpm_is_here(a))
		return 0;
	ret = a->gpm_support(g->parent < 0 ? g->handle : n->gpus[g->parent].handle, &can);
	if (nvml_is_gone(ret))
		return ret;
	if (ret || !can.supported)
		return 0;
	if (g->divided) {
		g->gpm_why = "MIG is on: its instances tell it";
		return 0;
	}
	ret = gpm_alloc(n, g);
	if (!ret)
		ret = gpm_cost(n, g, &cost);
	if (nvml_is_gone(ret))
		return ret;
	if (ret)
		g->gpm_why = nvml_why(ret);
	else
		g->gpm = cost > NVIDIA_SLOW_NS ? NVIDIA_SLOW : NVIDIA_FAST;
	return 0;
}

void nvidia_gpm_points(const struct nvidia_gpu *g, struct probe_set *s,
		       uint32_t points[NVIDIA_GPM_METRICS])
{
	char labels[PROBE_LABELS_MAX];
	size_t i;

	nvidia_labels(g, labels);
	for (i = 0; i < NVIDIA_GPM_METRICS; i++) {
		points[i] = probe_point(s, &gpu_rows[gpm_metrics[i].row], labels);
		if (g->gpm == NVIDIA_NO)
			probe_absent(s, points[i], g->gpm_why);
	}
}

static void gpm_absent(struct probe_set *s, const uint32_t points[NVIDIA_GPM_METRICS],
		       const char *why)
{
	size_t i;

	for (i = 0; i < NVIDIA_GPM_METRICS; i++)
		probe_absent(s, points[i], why);
}

static void gpm_put(struct nvidia *n, struct probe_set *s,
		    const uint32_t points[NVIDIA_GPM_METRICS])
{
	size_t i;

	for (i = 0; i < NVIDIA_GPM_METRICS; i++) {
		const struct nvml_gpm_metric *m = &n->gpm_get->metrics[i];
		double v = m->value / 100;

		if (m->ret)
			probe_absent(s, points[i], nvml_why(m->ret));
		else if (!(v >= 0 && v < 10))
			probe_absent(s, points[i], nvml_why(NVML_NO_DATA));
		else
			probe_put(s, points[i], v > 1 ? 1 : v);
	}
}

int nvidia_gpm_read(struct nvidia *n, struct nvidia_gpu *g, struct probe_set *s,
		    const uint32_t points[NVIDIA_GPM_METRICS], const struct probe_now *now)
{
	struct nvml_gpm_get *get = n->gpm_get;
	struct nvml_gpm_sample *sample;
	int ret = gpm_alloc(n, g);
	size_t i;

	if (ret) {
		gpm_absent(s, points, nvml_why(ret));
		return 0;
	}
	if (g->gpm_ns && now->mono_ns - g->gpm_ns < NVIDIA_GPM_MIN_NS)
		return 0;
	nvml_begin(n->nvml);
	ret = nvml_end(n->nvml, NVML_CALL_GPM_SAMPLE, gpm_take(n, g, g->gpm_sample[1]));
	if (ret) {
		gpm_absent(s, points, nvml_why(ret));
		return ret;
	}
	if (!g->gpm_ns) {
		gpm_absent(s, points, "needs a second reading");
	} else {
		memset(get->metrics, 0, NVIDIA_GPM_METRICS * sizeof(get->metrics[0]));
		get->version = 1;
		get->count = NVIDIA_GPM_METRICS;
		get->before = g->gpm_sample[0];
		get->after = g->gpm_sample[1];
		for (i = 0; i < NVIDIA_GPM_METRICS; i++)
			get->metrics[i].id = gpm_metrics[i].id;
		ret = NVML_TIMED(n->nvml, NVML_CALL_GPM_GET, n->nvml->api.gpm_get(get));
		if (ret)
			gpm_absent(s, points, nvml_why(ret));
		else
			gpm_put(n, s, points);
	}
	sample = g->gpm_sample[0];
	g->gpm_sample[0] = g->gpm_sample[1];
	g->gpm_sample[1] = sample;
	g->gpm_ns = now->mono_ns;
	return ret;
}

void nvidia_gpm_done(struct nvidia *n, struct nvidia_gpu *g)
{
	int i;

	for (i = 0; i < 2; i++)
		if (g->gpm_sample[i])
			n->nvml->api.gpm_free(g->gpm_sample[i]);
	g->gpm_sample[0] = g->gpm_sample[1] = NULL;
	g->gpm_ns = 0;
}
