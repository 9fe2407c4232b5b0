/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia.c - the figures of NVIDIA's GPUs that cost microseconds, each second.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "probe/gpu/nvidia_dev.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/nvidia_gpm.h"
#include "probe/gpu/rows.h"

/* Rows that calls of their own tell, not fields. */
static const enum gpu_row fast_rows[] = {
	GPU_BUSY,        GPU_MEMORY_BUSY, GPU_MEMORY_USED,  GPU_MEMORY_TOTAL, GPU_MEMORY_RESERVED,
	GPU_TEMPERATURE, GPU_CLOCK_SM,    GPU_CLOCK_MEMORY, GPU_XID,
};
static const enum gpu_row fast_mig_rows[] = {GPU_MEMORY_USED, GPU_MEMORY_TOTAL,
					     GPU_MEMORY_RESERVED};

struct fast_gpu {
	bool known, absent;
	uint32_t point[GPU_ROWS];   /* by row */
	const char *no[NVML_CALLS]; /* a call that is not told: why */
	struct nvidia_figures figures;
	uint32_t gpm[NVIDIA_GPM_METRICS];
	bool power_call; /* no field tells the power */
};

struct fast {
	struct nvidia *n;
	struct fast_gpu *gpus; /* by place in n->gpus */
	size_t cap;
};

/* ---- points -------------------------------------------------------------------------- */

static bool fast_has_field(const struct nvidia_gpu *g, enum gpu_row row)
{
	size_t i;

	for (i = 0; i < nvidia_n_fields; i++)
		if (nvidia_fields[i].row == row && g->field[i] != NVIDIA_NO)
			return true;
	return false;
}

static void fast_know(struct fast_gpu *f, struct nvidia_gpu *g, struct probe_set *s)
{
	const enum gpu_row *rows = g->parent < 0 ? fast_rows : fast_mig_rows;
	size_t n = g->parent < 0 ? ARRAY_LEN(fast_rows) : ARRAY_LEN(fast_mig_rows);
	char labels[PROBE_LABELS_MAX];
	size_t i;

	nvidia_labels(g, labels);
	for (i = 0; i < GPU_ROWS; i++)
		f->point[i] = PROBE_NONE;
	for (i = 0; i < n; i++)
		f->point[rows[i]] = probe_point(s, &gpu_rows[rows[i]], labels);
	if (g->parent < 0) {
		nvidia_figures_init(&f->figures, g, NVIDIA_FAST, s);
		f->power_call = !fast_has_field(g, GPU_POWER);
		if (f->power_call)
			f->point[GPU_POWER] = probe_point(s, &gpu_rows[GPU_POWER], labels);
		if (g->events)
			probe_count(s, f->point[GPU_XID], g->xids, 0, 1);
		else
			probe_absent(s, f->point[GPU_XID],
				     "the driver reports no events to this user");
	}
	if (g->gpm != NVIDIA_SLOW)
		nvidia_gpm_points(g, s, f->gpm);
	f->known = true;
}

static void fast_absent(struct fast_gpu *f, const struct nvidia_gpu *g, struct probe_set *s,
			const char *why)
{
	size_t i;

	for (i = 0; i < GPU_ROWS; i++)
		probe_absent(s, f->point[i], why);
	if (g->parent < 0)
		nvidia_figures_absent(&f->figures, s, why);
	for (i = 0; i < NVIDIA_GPM_METRICS && g->gpm != NVIDIA_SLOW; i++)
		probe_absent(s, f->gpm[i], why);
	f->absent = true;
}

/* ---- calls ----------------------------------------------------------------------------- */

/* Is the call worth making? If not, the points stay absent as they are. */
static bool fast_may(const struct fast_gpu *f, enum nvml_call call)
{
	return !f->no[call];
}

/* What a call said: true, its values hold; else the two points are absent, for good if the
 * GPU does not know it. */
static bool fast_said(struct fast_gpu *f, struct probe_set *s, enum nvml_call call, int ret,
		      enum gpu_row a, enum gpu_row b)
{
	if (ret == NVML_OK)
		return true;
	if (ret == NVML_NOT_SUPPORTED || ret == NVML_FUNCTION_NOT_FOUND || ret == NVML_DEPRECATED)
		f->no[call] = nvml_why(ret);
	probe_absent(s, f->point[a], nvml_why(ret));
	probe_absent(s, f->point[b], nvml_why(ret));
	return false;
}

static int fast_utilization(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
			    struct probe_set *s)
{
	struct nvml_utilization u = {0};
	int ret = NVML_FUNCTION_NOT_FOUND;

	if (!fast_may(f, NVML_CALL_UTILIZATION))
		return 0;
	if (n->nvml->api.utilization)
		ret = NVML_TIMED(n->nvml, NVML_CALL_UTILIZATION,
				 n->nvml->api.utilization(g->handle, &u));
	if (fast_said(f, s, NVML_CALL_UTILIZATION, ret, GPU_BUSY, GPU_MEMORY_BUSY)) {
		if (u.gpu <= 100)
			probe_put(s, f->point[GPU_BUSY], u.gpu / 100.0);
		else
			probe_absent(s, f->point[GPU_BUSY], nvml_why(NVML_NO_DATA));
		if (u.memory <= 100)
			probe_put(s, f->point[GPU_MEMORY_BUSY], u.memory / 100.0);
		else
			probe_absent(s, f->point[GPU_MEMORY_BUSY], nvml_why(NVML_NO_DATA));
	} else if (g->divided) {
		probe_absent(s, f->point[GPU_BUSY], "not told while MIG is on: see gpu/sm/active");
		probe_absent(s, f->point[GPU_MEMORY_BUSY], "not told while MIG is on");
	}
	return ret;
}

static void fast_put_bytes(struct fast_gpu *f, struct probe_set *s, enum gpu_row row,
			   unsigned long long v)
{
	if (v == NVML_NOT_AVAILABLE)
		probe_absent(s, f->point[row], nvml_why(NVML_NO_DATA));
	else
		probe_put(s, f->point[row], (double)v);
}

static int fast_memory(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
		       struct probe_set *s)
{
	struct nvml_memory_v2 m = {.version = NVML_VERSION(nvml_memory_v2, 2)};
	struct nvml_memory old;
	int ret = NVML_FUNCTION_NOT_FOUND;

	if (fast_may(f, NVML_CALL_MEMORY) && n->nvml->api.memory_v2) {
		ret = NVML_TIMED(n->nvml, NVML_CALL_MEMORY, n->nvml->api.memory_v2(g->handle, &m));
		if (ret == NVML_OK) {
			fast_put_bytes(f, s, GPU_MEMORY_TOTAL, m.total);
			fast_put_bytes(f, s, GPU_MEMORY_USED, m.used);
			fast_put_bytes(f, s, GPU_MEMORY_RESERVED, m.reserved);
			return ret;
		}
	}
	if (nvml_is_gone(ret) || !n->nvml->api.memory)
		return ret;
	/* An old driver: used holds what is reserved too. */
	f->no[NVML_CALL_MEMORY] = nvml_why(NVML_FUNCTION_NOT_FOUND);
	probe_absent(s, f->point[GPU_MEMORY_RESERVED], nvml_why(NVML_FUNCTION_NOT_FOUND));
	ret = NVML_TIMED(n->nvml, NVML_CALL_MEMORY, n->nvml->api.memory(g->handle, &old));
	if (fast_said(f, s, NVML_CALL_MEMORY, ret, GPU_MEMORY_TOTAL, GPU_MEMORY_USED)) {
		fast_put_bytes(f, s, GPU_MEMORY_TOTAL, old.total);
		fast_put_bytes(f, s, GPU_MEMORY_USED, old.used);
	}
	return ret;
}

static int fast_temperature(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
			    struct probe_set *s)
{
	struct nvml_temperature_v1 t = {NVML_VERSION(nvml_temperature_v1, 1), NVML_TEMPERATURE_GPU,
					0};
	unsigned celsius = UINT32_MAX;
	int ret = NVML_FUNCTION_NOT_FOUND;

	if (!fast_may(f, NVML_CALL_TEMPERATURE))
		return 0;
	if (n->nvml->api.temperature)
		ret = NVML_TIMED(
			n->nvml, NVML_CALL_TEMPERATURE,
			n->nvml->api.temperature(g->handle, NVML_TEMPERATURE_GPU, &celsius));
	if ((ret == NVML_FUNCTION_NOT_FOUND || ret == NVML_DEPRECATED) &&
	    n->nvml->api.temperature_v) {
		ret = NVML_TIMED(n->nvml, NVML_CALL_TEMPERATURE,
				 n->nvml->api.temperature_v(g->handle, &t));
		celsius = (unsigned)t.celsius;
	}
	if (fast_said(f, s, NVML_CALL_TEMPERATURE, ret, GPU_TEMPERATURE, GPU_TEMPERATURE)) {
		if (celsius < 1000)
			probe_put(s, f->point[GPU_TEMPERATURE], celsius);
		else
			probe_absent(s, f->point[GPU_TEMPERATURE], nvml_why(NVML_NO_DATA));
	}
	return ret;
}

static int fast_clocks(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
		       struct probe_set *s)
{
	static const struct {
		int clock;
		enum gpu_row row;
	} clocks[] = {{NVML_CLOCK_SM, GPU_CLOCK_SM}, {NVML_CLOCK_MEMORY, GPU_CLOCK_MEMORY}};
	int ret = NVML_FUNCTION_NOT_FOUND;
	unsigned mhz;
	size_t i;

	for (i = 0; i < 2 && fast_may(f, NVML_CALL_CLOCK); i++) {
		mhz = UINT32_MAX;
		if (n->nvml->api.clock)
			ret = NVML_TIMED(n->nvml, NVML_CALL_CLOCK,
					 n->nvml->api.clock(g->handle, clocks[i].clock, &mhz));
		if (nvml_is_gone(ret))
			return ret;
		if (!fast_said(f, s, NVML_CALL_CLOCK, ret, clocks[i].row, clocks[i].row))
			continue;
		if (mhz == UINT32_MAX)
			probe_absent(s, f->point[clocks[i].row], nvml_why(NVML_NO_DATA));
		else
			probe_put(s, f->point[clocks[i].row], mhz * 1e6);
	}
	return 0;
}

static int fast_power(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
		      struct probe_set *s)
{
	unsigned mw = UINT32_MAX;
	int ret = NVML_FUNCTION_NOT_FOUND;

	if (!f->power_call || !fast_may(f, NVML_CALL_POWER))
		return 0;
	if (n->nvml->api.power)
		ret = NVML_TIMED(n->nvml, NVML_CALL_POWER, n->nvml->api.power(g->handle, &mw));
	if (fast_said(f, s, NVML_CALL_POWER, ret, GPU_POWER, GPU_POWER)) {
		if (mw == UINT32_MAX)
			probe_absent(s, f->point[GPU_POWER], nvml_why(NVML_NO_DATA));
		else
			probe_put(s, f->point[GPU_POWER], mw / 1e3);
	}
	return ret;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int fast_whole(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
		      struct probe_set *s, const struct probe_now *now)
{
	static int (*const calls[])(struct nvidia * n, struct nvidia_gpu * g, struct fast_gpu * f,
				    struct probe_set * s) = {fast_utilization, fast_temperature,
							     fast_clocks, fast_power};
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_LEN(calls); i++) {
		ret = calls[i](n, g, f, s);
		if (nvml_is_gone(ret))
			return ret;
	}
	if (g->events)
		probe_count(s, f->point[GPU_XID], g->xids, 0, 1);
	return nvidia_figures_read(n, g, &f->figures, NVIDIA_FAST, s, now);
}

static void fast_gpu(struct nvidia *n, struct nvidia_gpu *g, struct fast_gpu *f,
		     struct probe_set *s, const struct probe_now *now)
{
	int ret = 0;

	if (!g->handle) {
		if (!f->absent)
			fast_absent(f, g, s, nvml_why(g->ret));
		return;
	}
	f->absent = false;
	ret = fast_memory(n, g, f, s);
	if (g->parent < 0 && !nvml_is_gone(ret))
		ret = fast_whole(n, g, f, s, now);
	if (g->gpm == NVIDIA_FAST && !nvml_is_gone(ret))
		ret = nvidia_gpm_read(n, g, s, f->gpm, now);
	if (nvidia_gone(n, s, g, ret, now))
		fast_absent(f, g, s, nvml_why(ret));
}

static bool fast_room(struct fast *f)
{
	struct fast_gpu *more;
	size_t i;

	if (f->n->n <= f->cap)
		return true;
	more = realloc(f->gpus, f->n->n * sizeof(*more));
	if (!more)
		return false;
	for (i = f->cap; i < f->n->n; i++)
		more[i] = (struct fast_gpu){0};
	f->gpus = more;
	f->cap = f->n->n;
	return true;
}

static void fast_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct fast *f = state;
	size_t i;

	nvidia_check(f->n, s, now);
	nvidia_events(f->n, s);
	if (!fast_room(f))
		return;
	for (i = 0; i < f->n->n; i++) {
		struct nvidia_gpu *g = &f->n->gpus[i];

		if (!g->classified)
			continue;
		if (!f->gpus[i].known)
			fast_know(&f->gpus[i], g, s);
		fast_gpu(f->n, g, &f->gpus[i], s, now);
	}
}

static void fast_close(void *state)
{
	struct fast *f = state;

	nvidia_close(f->n);
	free(f->gpus);
	free(f);
}

static int fast_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct fast *f = calloc(1, sizeof(*f));
	int err;

	(void)s;
	if (!f)
		return -ENOMEM;
	err = nvidia_open(env, &f->n, e);
	if (err) {
		free(f);
		return err;
	}
	*ret_state = f;
	return 0;
}

const struct probe_group probe_nvidia = {
	.name = "nvidia",
	.metrics = gpu_rows,
	.n_metrics = GPU_ROWS_FAST,
	.place = PROBE_GPU,
	.period_ns = 1000000000,
	.open = fast_open,
	.read = fast_read,
	.close = fast_close,
};
