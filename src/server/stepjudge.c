/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stepjudge.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Readings over the time of the steps that stand beside the verdict. */
static const struct stepjudge_row {
	const char *id, *metric, *text;
	bool highest; /* else the mean */
	double over;  /* only if it is more; -1: always */
} stepjudge_rows[] = {
	{"gpu-busy", "gpu/busy", "was busy (a kernel ran)", false, -1},
	{"gpu-sm", "gpu/sm/active", "multiprocessors had work", false, -1},
	{"gpu-tensor", "gpu/tensor/active", "tensor cores worked", false, -1},
	{"gpu-dram", "gpu/dram/active", "bandwidth of its memory in use", false, -1},
	{"gpu-throttled", "gpu/throttled", "its clock was held down", false, 0.05},
	{"cpu-busy", "cpu/busy", "CPUs were busy", false, -1},
	{"cpu-iowait", "cpu/iowait", "CPUs waited for a disk", false, 0.02},
	{"pressure-io", "pressure/io", "a task waited for a disk", false, 0.05},
	{"pressure-memory", "pressure/memory", "a task waited for memory", false, 0.02},
	{"oom-risk", "oom/risk", "memory was taken of what may be taken up to", true, 0.9},
};

static int stepjudge_reading(const struct runview *v, const struct stepread *steps,
			     const struct store_series *s, bool highest, double *ret, struct err *e)
{
	const struct store_range range = {.by_time = true,
					  .all_segments = true,
					  .time_min = steps->from_ns,
					  .time_max = steps->to_ns};
	const struct store_query ask = {.points = 1, .no_raw = true, .range = range};
	const struct store_ref ref = {s->host, s->id};
	struct store_result got;
	int err = store_reader_query(v->reader, &ask, &ref, 1, e, NULL, &got);

	if (err)
		return err;
	*ret = NAN;
	if (got.n && got.buckets[0].observed)
		*ret = highest ? got.buckets[0].max
			       : got.buckets[0].sum / (double)got.buckets[0].observed;
	store_results_free(&got, 1);
	return 0;
}

static int stepjudge_read(const struct runview *v, const struct stepread *steps,
			  struct stepjudge *j, struct err *e)
{
	size_t row, i;
	double value;
	int err;

	if (steps->split.n == 0)
		return 0;
	for (row = 0; row < ARRAY_LEN(stepjudge_rows); row++) {
		const struct stepjudge_row *r = &stepjudge_rows[row];

		for (i = 0; i < v->n_series && j->n < STEPJUDGE_EVIDENCE_MAX; i++) {
			const struct store_series *s = &v->series[i];

			/* A program may have a gauge of that name too. */
			if (s->kind != SINK_GAUGE || strcmp(s->name, r->metric) != 0 ||
			    strcmp(s->source, "record") == 0)
				continue;
			err = stepjudge_reading(v, steps, s, r->highest, &value, e);
			if (err)
				return err;
			if (!isnan(value) && value > r->over)
				j->list[j->n++] =
					(struct stepjudge_evidence){r->id, r->text, s, value, "1"};
		}
	}
	return 0;
}

static int stepjudge_greatest(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Mean over as many GPUs as there are ranks, those with most: others are somebody else's. */
static double stepjudge_gpus(const struct stepjudge *j, const char *id, size_t ranks)
{
	double v[STEPJUDGE_EVIDENCE_MAX], sum = 0;
	size_t n = 0, i;

	for (i = 0; i < j->n; i++)
		if (strcmp(j->list[i].id, id) == 0)
			v[n++] = j->list[i].value;
	if (n == 0)
		return NAN;
	qsort(v, n, sizeof(*v), stepjudge_greatest);
	n = n < ranks ? n : ranks;
	for (i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* The rank with most to do of its own, over the median of the others. */
static void stepjudge_straggler(const struct stepread *steps, struct stepbound_facts *f)
{
	size_t n = steps->n_ranks, i, k, worst = 0;
	double *own = xcalloc(n + 1, sizeof(*own)), most;

	for (i = k = 0; i < n; i++) {
		own[i] = stepsplit_spread(&steps->split, (uint32_t)i, steps->split.n_parts + 1).p50;
		k += !isnan(own[i]);
		if (own[i] > own[worst] || isnan(own[worst]))
			worst = i;
	}
	if (k >= 2) {
		most = own[worst];
		own[worst] = NAN;
		for (i = k = 0; i < n; i++)
			if (!isnan(own[i]))
				own[k++] = own[i];
		qsort(own, k, sizeof(*own), stepjudge_greatest);
		if (own[k / 2] > 0)
			f->straggler_over = most / own[k / 2];
		f->straggler = steps->ranks[worst].process->rank;
	}
	free(own);
}

static void stepjudge_facts(const struct stepread *steps, const struct stepjudge *j,
			    struct stepbound_facts *f)
{
	const struct stepsplit *s = &steps->split;
	int64_t most[STEPSPLIT_ROLES] = {0};
	size_t i;

	*f = (struct stepbound_facts){.straggler_over = NAN};
	for (i = 0; i < s->n_parts; i++) {
		f->share[s->role[i]] += s->sum ? (double)s->total[i] / (double)s->sum : 0;
		if (s->total[i] <= most[s->role[i]])
			continue;
		most[s->role[i]] = s->total[i];
		f->name[s->role[i]] = steps->names[i];
	}
	f->busy = stepjudge_gpus(j, "gpu-busy", steps->n_ranks);
	f->dram = stepjudge_gpus(j, "gpu-dram", steps->n_ranks);
	if (isnan(f->busy) && !isnan(steps->device)) {
		f->busy = steps->device;
		f->busy_is_of_phases = true;
	}
	stepjudge_straggler(steps, f);
}

int stepjudge(const struct runview *v, const struct stepread *steps, struct stepjudge *ret,
	      struct err *e)
{
	struct stepbound_facts f;
	int err;

	*ret = (struct stepjudge){0};
	err = stepjudge_read(v, steps, ret, e);
	if (err)
		return err;
	stepjudge_facts(steps, ret, &f);
	stepbound_decide(&f, &ret->bound);
	return 0;
}
