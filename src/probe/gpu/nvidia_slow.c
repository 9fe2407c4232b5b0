/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia_slow.c - what NVIDIA's driver takes long to tell, or what hardly changes: processes,
 * limits, the PCIe link, fields that were found to be slow, and the time of its calls.
 */
#include "probe/groups.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/gpu/nvidia_dev.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/nvidia_gpm.h"
#include "probe/gpu/procs.h"
#include "probe/gpu/rows.h"

#define SLOW_PROCESSES 512 /* of a GPU */
#define SLOW_SAMPLES 8192  /* of all its processes since the last reading */

enum slow_constant {
	SLOW_LIMIT,
	SLOW_SM_MAX,
	SLOW_MEMORY_MAX,
	SLOW_FAN,
	SLOW_GENERATION,
	SLOW_WIDTH,
	SLOW_CONSTANTS
};

static const struct {
	enum gpu_row row;
	double scale;
} slow_constants[SLOW_CONSTANTS] = {
	[SLOW_LIMIT] = {GPU_POWER_LIMIT, 1e-3},          [SLOW_SM_MAX] = {GPU_CLOCK_SM_MAX, 1e6},
	[SLOW_MEMORY_MAX] = {GPU_CLOCK_MEMORY_MAX, 1e6}, [SLOW_FAN] = {GPU_FAN, 1e-2},
	[SLOW_GENERATION] = {GPU_PCIE_GENERATION, 1},    [SLOW_WIDTH] = {GPU_PCIE_WIDTH, 1},
};

struct slow_gpu {
	bool known, absent;
	uint32_t constant[SLOW_CONSTANTS], processes;
	bool no[SLOW_CONSTANTS];
	bool no_processes, no_use;
	struct nvidia_figures figures;
	uint32_t gpm[NVIDIA_GPM_METRICS];
	unsigned long long seen_us; /* time of the last sample of use */
};

struct slow {
	struct nvidia *n;
	struct slow_gpu *gpus;
	size_t cap;
	uint32_t time[NVML_CALLS];
	struct nvml_process *processes;      /* room for SLOW_PROCESSES */
	struct nvml_process_sample *samples; /* and SLOW_SAMPLES */
	struct gpu_proc *procs;              /* GPU_PROCS_MAX, being collected */
	size_t n_procs;
};

/* ---- what hardly changes ------------------------------------------------------------------ */

static int slow_ask(const struct nvml_api *a, struct nvml_device *d, enum slow_constant c,
		    unsigned *v)
{
	switch (c) {
	case SLOW_LIMIT:
		return a->power_enforced ? a->power_enforced(d, v) : NVML_FUNCTION_NOT_FOUND;
	case SLOW_SM_MAX:
		return a->clock_max ? a->clock_max(d, NVML_CLOCK_SM, v) : NVML_FUNCTION_NOT_FOUND;
	case SLOW_MEMORY_MAX:
		return a->clock_max ? a->clock_max(d, NVML_CLOCK_MEMORY, v)
				    : NVML_FUNCTION_NOT_FOUND;
	case SLOW_FAN:
		return a->fan ? a->fan(d, v) : NVML_FUNCTION_NOT_FOUND;
	case SLOW_GENERATION:
		return a->pcie_generation ? a->pcie_generation(d, v) : NVML_FUNCTION_NOT_FOUND;
	default:
		return a->pcie_width ? a->pcie_width(d, v) : NVML_FUNCTION_NOT_FOUND;
	}
}

static int slow_read_constants(struct nvidia *n, struct nvidia_gpu *g, struct slow_gpu *f,
			       struct probe_set *s)
{
	unsigned v;
	int c, ret;

	for (c = 0; c < SLOW_CONSTANTS; c++) {
		if (f->no[c])
			continue;
		v = UINT32_MAX;
		nvml_begin(n->nvml);
		ret = nvml_end(n->nvml, NVML_CALL_CONSTANTS,
			       slow_ask(&n->nvml->api, g->handle, (enum slow_constant)c, &v));
		if (nvml_is_gone(ret))
			return ret;
		f->no[c] = ret == NVML_NOT_SUPPORTED || ret == NVML_FUNCTION_NOT_FOUND;
		if (ret || v == UINT32_MAX)
			probe_absent(s, f->constant[c], nvml_why(ret ? ret : NVML_NO_DATA));
		else
			probe_put(s, f->constant[c], v * slow_constants[c].scale);
	}
	return 0;
}

/* ---- processes ------------------------------------------------------------------------------ */

static void slow_add(struct slow *w, long pid, double bytes, double busy)
{
	if (w->n_procs < GPU_PROCS_MAX)
		w->procs[w->n_procs++] = (struct gpu_proc){pid, bytes, busy};
}

static int slow_read_processes(struct slow *w, struct nvidia_gpu *g, struct slow_gpu *f,
			       struct probe_set *s)
{
	unsigned count = SLOW_PROCESSES, i;
	int ret;

	if (f->no_processes)
		return 0;
	if (!w->n->nvml->api.processes) {
		ret = NVML_FUNCTION_NOT_FOUND;
	} else {
		nvml_begin(w->n->nvml);
		ret = nvml_end(w->n->nvml, NVML_CALL_PROCESSES,
			       w->n->nvml->api.processes(g->handle, &count, w->processes));
	}
	if (nvml_is_gone(ret))
		return ret;
	if (ret && ret != NVML_INSUFFICIENT_SIZE) {
		f->no_processes = ret == NVML_NOT_SUPPORTED || ret == NVML_FUNCTION_NOT_FOUND;
		probe_absent(s, f->processes, nvml_why(ret));
		return 0;
	}
	/* Of more processes than there is room for only the number is told. */
	probe_put(s, f->processes, count);
	for (i = 0; ret == NVML_OK && i < count && i < SLOW_PROCESSES; i++) {
		const struct nvml_process *p = &w->processes[i];

		slow_add(w, p->pid, p->memory == NVML_NOT_AVAILABLE ? NAN : (double)p->memory, NAN);
	}
	return 0;
}

static int slow_compare(const void *a, const void *b)
{
	const struct nvml_process_sample *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Means of the samples of each process since the last reading. */
static void slow_means(struct slow *w, struct slow_gpu *f, unsigned count)
{
	unsigned long long newest = f->seen_us;
	unsigned i, n = 0;
	double sum = 0;

	qsort(w->samples, count, sizeof(w->samples[0]), slow_compare);
	for (i = 0; i < count; i++) {
		const struct nvml_process_sample *p = &w->samples[i];

		if (p->timestamp_us > newest)
			newest = p->timestamp_us;
		if (p->timestamp_us > f->seen_us && p->sm <= 100) {
			sum += p->sm / 100.0;
			n++;
		}
		if (i + 1 < count && w->samples[i + 1].pid == p->pid)
			continue;
		if (n && f->seen_us)
			slow_add(w, p->pid, NAN, sum / n);
		sum = 0;
		n = 0;
	}
	f->seen_us = newest;
}

static int slow_read_use(struct slow *w, struct nvidia_gpu *g, struct slow_gpu *f)
{
	unsigned count = SLOW_SAMPLES;
	int ret;

	if (f->no_use || !w->n->nvml->api.process_use)
		return 0;
	nvml_begin(w->n->nvml);
	ret = nvml_end(w->n->nvml, NVML_CALL_PROCESS_USE,
		       w->n->nvml->api.process_use(g->handle, w->samples, &count, f->seen_us));
	if (nvml_is_gone(ret))
		return ret;
	if (ret == NVML_NOT_SUPPORTED || ret == NVML_FUNCTION_NOT_FOUND)
		f->no_use = true;
	/* NVML_NOT_FOUND: no samples since then. */
	if (ret == NVML_OK && count <= SLOW_SAMPLES)
		slow_means(w, f, count);
	return 0;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void slow_know(struct slow_gpu *f, struct nvidia_gpu *g, struct probe_set *s)
{
	char labels[PROBE_LABELS_MAX];
	size_t i;

	nvidia_labels(g, labels);
	for (i = 0; i < SLOW_CONSTANTS; i++)
		f->constant[i] = probe_point(s, &gpu_rows[slow_constants[i].row], labels);
	f->processes = probe_point(s, &gpu_rows[GPU_PROCESSES], labels);
	nvidia_figures_init(&f->figures, g, NVIDIA_SLOW, s);
	if (g->gpm == NVIDIA_SLOW)
		nvidia_gpm_points(g, s, f->gpm);
	f->known = true;
}

static void slow_absent(struct slow_gpu *f, const struct nvidia_gpu *g, struct probe_set *s,
			const char *why)
{
	size_t i;

	for (i = 0; i < SLOW_CONSTANTS; i++)
		probe_absent(s, f->constant[i], why);
	probe_absent(s, f->processes, why);
	nvidia_figures_absent(&f->figures, s, why);
	for (i = 0; i < NVIDIA_GPM_METRICS && g->gpm == NVIDIA_SLOW; i++)
		probe_absent(s, f->gpm[i], why);
	f->absent = true;
}

static void slow_gpu(struct slow *w, struct nvidia_gpu *g, struct slow_gpu *f, struct probe_set *s,
		     const struct probe_now *now)
{
	struct nvidia *n = w->n;
	int ret;

	if (!g->handle) {
		if (!f->absent)
			slow_absent(f, g, s, nvml_why(g->ret));
		return;
	}
	f->absent = false;
	ret = slow_read_constants(n, g, f, s);
	if (!ret)
		ret = slow_read_processes(w, g, f, s);
	if (!ret)
		ret = slow_read_use(w, g, f);
	if (!ret)
		ret = nvidia_figures_read(n, g, &f->figures, NVIDIA_SLOW, s, now);
	if (!nvml_is_gone(ret) && g->gpm == NVIDIA_SLOW)
		ret = nvidia_gpm_read(n, g, s, f->gpm, now);
	if (nvidia_gone(n, s, g, ret, now))
		slow_absent(f, g, s, nvml_why(ret));
}

/* Instances: processes are those of the whole GPU; only GPM is left, where it is slow. */
static void slow_mig(struct slow *w, struct nvidia_gpu *g, struct slow_gpu *f, struct probe_set *s,
		     const struct probe_now *now)
{
	if (g->gpm != NVIDIA_SLOW || !g->handle)
		return;
	if (!f->known)
		nvidia_gpm_points(g, s, f->gpm);
	f->known = true;
	nvidia_gone(w->n, s, g, nvidia_gpm_read(w->n, g, s, f->gpm, now), now);
}

static void slow_times(struct slow *w, struct probe_set *s)
{
	char labels[PROBE_LABELS_MAX];
	int i;

	for (i = 0; i < NVML_CALLS; i++) {
		struct nvml_time *t = &w->n->nvml->time[i];

		if (!t->count)
			continue;
		if (w->time[i] == PROBE_NONE) {
			labels[0] = '\0';
			probe_label(labels, sizeof(labels), "call", nvml_call_names[i]);
			w->time[i] = probe_point(s, &gpu_rows[GPU_NVML_TIME], labels);
		}
		probe_put(s, w->time[i], (double)t->sum_ns / 1e9 / (double)t->count);
		*t = (struct nvml_time){0};
	}
}

static bool slow_room(struct slow *w)
{
	struct slow_gpu *more;
	size_t i;

	if (w->n->n <= w->cap)
		return true;
	more = realloc(w->gpus, w->n->n * sizeof(*more));
	if (!more)
		return false;
	for (i = w->cap; i < w->n->n; i++)
		more[i] = (struct slow_gpu){0};
	w->gpus = more;
	w->cap = w->n->n;
	return true;
}

static void slow_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct slow *w = state;
	size_t i;

	nvidia_check(w->n, s, now);
	if (!slow_room(w))
		return;
	w->n_procs = 0;
	for (i = 0; i < w->n->n; i++) {
		struct nvidia_gpu *g = &w->n->gpus[i];

		if (!g->classified)
			continue;
		if (g->parent >= 0) {
			slow_mig(w, g, &w->gpus[i], s, now);
			continue;
		}
		if (!w->gpus[i].known)
			slow_know(&w->gpus[i], g, s);
		slow_gpu(w, g, &w->gpus[i], s, now);
	}
	gpu_procs_set(w->procs, w->n_procs);
	slow_times(w, s);
}

static void slow_close(void *state)
{
	struct slow *w = state;

	gpu_procs_forget();
	nvidia_close(w->n);
	free(w->gpus);
	free(w->processes);
	free(w->samples);
	free(w->procs);
	free(w);
}

static int slow_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct slow *w = calloc(1, sizeof(*w));
	int err = -ENOMEM, i;

	(void)s;
	if (!w)
		return -ENOMEM;
	w->processes = calloc(SLOW_PROCESSES, sizeof(*w->processes));
	w->samples = calloc(SLOW_SAMPLES, sizeof(*w->samples));
	w->procs = calloc(GPU_PROCS_MAX, sizeof(*w->procs));
	for (i = 0; i < NVML_CALLS; i++)
		w->time[i] = PROBE_NONE;
	if (w->processes && w->samples && w->procs)
		err = nvidia_open(env, &w->n, e);
	if (err) {
		free(w->processes);
		free(w->samples);
		free(w->procs);
		free(w);
		return err;
	}
	*ret_state = w;
	return 0;
}

const struct probe_group probe_nvidia_slow = {
	.name = "nvidia_slow",
	.metrics = gpu_rows + GPU_ROWS_FAST,
	.n_metrics = GPU_ROWS - GPU_ROWS_FAST,
	.place = PROBE_GPU,
	.period_ns = 10000000000,
	.open = slow_open,
	.read = slow_read,
	.close = slow_close,
};
