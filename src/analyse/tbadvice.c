/* SPDX-License-Identifier: Apache-2.0
 *
 * tbadvice.c - one function per rule, in the order in which the plugin tells them.
 */
#include "analyse/tbadvice.h"

#include "analyse/idmap.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define TBADVICE_LOADER 0.05
#define TBADVICE_COMMUNICATION 0.1
#define TBADVICE_UTILISATION 0.5
#define TBADVICE_MEMORY 0.9
#define TBADVICE_TENSOR_MAJOR 7 /* compute capability with tensor cores */
#define TBADVICE_NCCL_CAPABILITY 3.5

static void tbadvice_add(struct tbadvice *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void tbadvice_add(struct tbadvice *a, const char *fmt, ...)
{
	va_list ap;

	if (a->n == TBADVICE_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(a->text[a->n++], sizeof(a->text[0]), fmt, ap);
	va_end(ap);
}

static void tbadvice_loader(struct tbadvice *a, const struct tbsteps *s)
{
	double share = s->average[TBSTEPS_LOADER] / s->average_total;

	if (share > TBADVICE_LOADER)
		tbadvice_add(
			a,
			"This run has high time cost on input data loading. %.1f%% of the step "
			"time is in DataLoader. You could try to set num_workers on "
			"DataLoader's construction and enable multi-processes on data loading.",
			share * 100);
}

/* GPUs that any GPU event was on: as the plugin, by the event's pid. */
static size_t tbadvice_devices(const struct tbrows *b)
{
	const struct tbrows_row *r;
	struct idmap ids;
	size_t i, n;

	idmap_init(&ids);
	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		if (r->type == TBROWS_KERNEL || r->type == TBROWS_MEMCPY ||
		    r->type == TBROWS_MEMSET)
			*idmap_at(&ids, trace_track(b->trace, r->track)->pid) = 1;
	}
	n = ids.len;
	idmap_done(&ids);
	return n;
}

static void tbadvice_distributed(struct tbadvice *a, const struct tbrows *b,
				 const struct tbsteps *s)
{
	double share = s->average[TBSTEPS_COMMUNICATION] / s->average_total;
	const struct trace_device *d;
	size_t i, n;

	if (s->uses_dp && tbadvice_devices(b) > 1)
		tbadvice_add(a, "It is recommended to use DistributedDataParallel instead of "
				"DataParallel to do multi-GPU training.");
	d = trace_devices(b->trace, &n);
	for (i = 0; s->uses_ddp && !s->has_nccl && i < n; i++) {
		if (d[i].major + d[i].minor / 10.0 < TBADVICE_NCCL_CAPABILITY)
			continue;
		tbadvice_add(a, "Nccl backend is currently the fastest and highly recommended "
				"backend when using DDP for training.");
		break;
	}
	if (share > TBADVICE_COMMUNICATION)
		tbadvice_add(
			a,
			"This run has high time cost on communication. %.1f%% of the step time "
			"is in communication. You could try Gradient Compression or Gradient "
			"Accumulation or increase the batch size. Note: Gradient accumulation "
			"will increase global effective batch size, which may hurt model "
			"convergence and accuracy. For such case, you may want to evaluate LAMB "
			"optimizer.",
			share * 100);
}

static void tbadvice_utilisation(struct tbadvice *a, const struct tbgpu *g)
{
	char list[160];
	size_t i, n = 0, last = 0, len = 0;

	for (i = 0; i < g->n; i++) {
		if (g->devices[i].utilisation < TBADVICE_UTILISATION) {
			n++;
			last = i;
		}
	}
	if (!n)
		return;
	for (i = 0; i < g->n && len < sizeof(list) - 32; i++) {
		if (g->devices[i].utilisation >= TBADVICE_UTILISATION)
			continue;
		/* "0, 1and 2" is how the plugin writes it. */
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%lld",
					!len        ? ""
					: i == last ? "and "
						    : ", ",
					(long long)g->devices[i].id);
	}
	tbadvice_add(a,
		     "GPU %s %s low utilization. You could try to increase batch size to improve. "
		     "Note: Increasing batch size may affect the speed and stability of model "
		     "convergence.",
		     list, len == 1 ? "has" : "have");
}

static void tbadvice_tensor(struct tbadvice *a, const struct tbrows *b, const struct tbsteps *s,
			    const struct tbgpu *g, const struct tbkernels *k)
{
	const struct trace_device *d;
	size_t n;

	d = trace_devices(b->trace, &n);
	if (!n || d[0].major < TBADVICE_TENSOR_MAJOR || !s->has_kernel || k->tc_ratio != 0 ||
	    !(g->eligible_ratio > 0))
		return;
	tbadvice_add(
		a,
		"Kernels with %.0f%% time are launched by Tensor Cores eligible operators. You "
		"could enable Automatic Mixed Precision to speedup by using FP16.",
		g->eligible_ratio * 100);
}

static void tbadvice_memory(struct tbadvice *a, const struct tbrows *b, const struct tbmemory *m)
{
	const struct trace_device *d;
	double total, peak;
	int64_t id;
	size_t i, n;

	d = trace_devices(b->trace, &n);
	for (i = 0; m && i < m->n; i++) {
		id = m->devices[i].id;
		/* The plugin takes the CPU's id, -1, for the last GPU. */
		if (id < 0 && b->variant == TBROWS_PLUGIN)
			id += (int64_t)n;
		if (id < 0 || (size_t)id >= n)
			continue;
		total = (double)d[id].memory;
		peak = (double)m->devices[i].peak;
		if (total <= 0 || peak <= total * TBADVICE_MEMORY)
			continue;
		tbadvice_add(
			a,
			"Device memory usage is at the limit of device memory capacity (%.1f%% "
			"of %.1fGB on GPU%d). To get better value of your GPU or to use larger "
			"batch size for training, please refer to Gradient Checkpoint or "
			"Automatic Mixed Precision.",
			peak / total * 100, total / 1024 / 1024 / 1024, (int)m->devices[i].id);
		break;
	}
}

void tbadvice_make(const struct tbrows *b, const struct tbsteps *s, const struct tbgpu *g,
		   const struct tbkernels *k, const struct tbmemory *m, struct tbadvice *ret)
{
	ret->n = 0;
	tbadvice_loader(ret, s);
	tbadvice_distributed(ret, b, s);
	tbadvice_utilisation(ret, g);
	tbadvice_tensor(ret, b, s, g, k);
	tbadvice_memory(ret, b, m);
}
