/* SPDX-License-Identifier: Apache-2.0
 *
 * tbgpu.c - kernels per device, then each number by a walk over them.
 */
#include "analyse/tbgpu.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TBGPU_BUCKETS 100

/* Kernels with an occupancy, per device. */
struct tbgpu_gather {
	struct tbvalueds blocks, occupancy;
};

static int tbgpu_by_id(const void *pa, const void *pb)
{
	const struct tbgpu_device *a = pa, *b = pb;

	return (a->id > b->id) - (a->id < b->id);
}

/* Devices that have kernels, by id. */
static void tbgpu_devices(struct tbgpu *g, const struct tbrows *b)
{
	struct idmap ids;
	size_t i, cap = 0;
	int64_t id;

	idmap_init(&ids);
	for (i = 0; i < b->n; i++) {
		if (b->rows[i].type != TBROWS_KERNEL)
			continue;
		id = tbrows_device(b, &b->rows[i]);
		if (id == TRACE_NONE || idmap_get(&ids, id) != IDMAP_NONE)
			continue;
		*idmap_at(&ids, id) = 1;
		if (g->n == cap)
			g->devices = xgrow(g->devices, g->n, &cap, sizeof(*g->devices));
		memset(&g->devices[g->n], 0, sizeof(*g->devices));
		g->devices[g->n++].id = id;
	}
	idmap_done(&ids);
	if (g->n)
		qsort(g->devices, g->n, sizeof(*g->devices), tbgpu_by_id);
}

static size_t tbgpu_find(const struct tbgpu *g, int64_t id)
{
	size_t i;

	for (i = 0; i < g->n && g->devices[i].id != id; i++)
		;
	return i;
}

static void tbgpu_gather(struct tbgpu *g, const struct tbrows *b, struct tbgpu_gather *by)
{
	const struct trace_args *a;
	const struct tbrows_row *r;
	struct tbgpu_device *d;
	size_t i, k;

	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		if (r->type != TBROWS_KERNEL)
			continue;
		k = tbgpu_find(g, tbrows_device(b, r));
		if (k == g->n)
			continue;
		d = &g->devices[k];
		d->kernels++;
		tbspan_add(&d->busy, r->ts, r->end);
		a = trace_args(b->trace, r->args);
		if (a->blocks_per_sm > 0) {
			tbvalued_add(&by[k].blocks, r->ts, r->end, a->blocks_per_sm);
			d->has_blocks = g->has_blocks = true;
		}
		if (a->occupancy >= 0) {
			tbvalued_add(&by[k].occupancy, r->ts, r->end, a->occupancy);
			d->has_occupancy = g->has_occupancy = true;
		}
	}
}

static void tbgpu_occupancy(struct tbgpu_device *d, const struct tbvalueds *all,
			    const struct tbsteps *s)
{
	double time = 0, sum = 0, ts, end;
	size_t i;

	for (i = 0; i < all->n; i++) {
		ts = all->v[i].ts > s->ts ? all->v[i].ts : s->ts;
		end = all->v[i].end < s->end ? all->v[i].end : s->end;
		if (ts >= end)
			continue;
		sum += all->v[i].value * (end - ts);
		time += end - ts;
	}
	d->occupancy = time > 0 ? sum / time : NAN;
}

static void tbgpu_numbers(struct tbgpu_device *d, struct tbgpu_gather *by, const struct tbsteps *s)
{
	double length = s->end - s->ts, sum;
	bool any;

	tbspan_merge(&d->busy);
	d->utilisation = length != 0 ? tbspan_within(&d->busy, s->ts, s->end) / length : 0;
	tbvalued_sweep(&by->blocks, &d->sm);
	sum = tbvalued_within(&d->sm, s->ts, s->end, &any);
	d->sm_efficiency = any ? sum / length : NAN;
	tbgpu_occupancy(d, &by->occupancy, s);
}

/* Utilisation over time: at most TBGPU_BUCKETS buckets, the last one may be longer. */
static void tbgpu_line(struct tbgpu *g, struct tbgpu_device *d, const struct tbrows *b)
{
	double range = b->end_ts - b->start_ts, size = b->per_us, ts, end, from, to;
	size_t n, i, k = 0;

	while (range / size > TBGPU_BUCKETS)
		size *= 10;
	n = range > 0 ? (size_t)(range / size) : 0;
	g->bucket = size;
	d->line = xcalloc(n + 1, sizeof(*d->line));
	for (i = 0; i < n; i++) {
		ts = b->start_ts + (double)i * size;
		end = i + 1 < n ? b->start_ts + (double)(i + 1) * size : b->end_ts;
		d->line[i].ts = ts;
		while (k < d->busy.n && d->busy.v[k].end <= ts)
			k++;
		for (; k < d->busy.n && d->busy.v[k].ts < end; k++) {
			from = d->busy.v[k].ts > ts ? d->busy.v[k].ts : ts;
			to = d->busy.v[k].end < end ? d->busy.v[k].end : end;
			d->line[i].utilisation += to - from;
			if (d->busy.v[k].end > end)
				break;
		}
		d->line[i].utilisation /= end - ts;
	}
	if (n)
		d->line[n].ts = b->end_ts;
	d->n_line = n ? n + 1 : 0;
}

/* ---- tensor cores ---------------------------------------------------------------------- */

struct tbgpu_times {
	struct tbgpu *devices; /* times are added per device too, if not NULL */
	double sum;
	uint64_t kernels;
};

/* Kernel time of the launches of one operator. */
static void tbgpu_op_time(const struct tbtree *t, const struct tbtree_node *n,
			  struct tbgpu_times *to)
{
	struct tbgpu *g = to->devices;
	const struct tbrows_row *r;
	uint32_t l, k;
	size_t d;

	for (l = n->launch; l != TBTREE_NIL; l = t->launches[l].next) {
		for (k = t->launches[l].work; k != TBTREE_NIL; k = t->work[k].next) {
			r = &t->rows->rows[t->work[k].row];
			if (r->type != TBROWS_KERNEL)
				continue;
			to->sum += r->end - r->ts;
			to->kernels++;
			d = g ? tbgpu_find(g, tbrows_device(t->rows, r)) : 0;
			if (!g || d == g->n)
				continue;
			g->devices[d].kernel_time += r->end - r->ts;
			g->devices[d].tensor_time += t->work[k].is_tc ? r->end - r->ts : 0;
		}
	}
}

/* Over all operators. */
static void tbgpu_op_times(const struct tbtree *t, struct tbgpu_times *to)
{
	uint32_t i, root;
	size_t r;

	for (r = 0; r < t->n_roots; r++) {
		root = t->roots[r].node;
		for (i = tbtree_first(t, root); i != TBTREE_NIL; i = tbtree_next(t, i, root)) {
			if (t->nodes[i].is_operator)
				tbgpu_op_time(t, &t->nodes[i], to);
		}
	}
}

/* Kernel time under operators that could use tensor cores and have no such child. */
static double tbgpu_eligible(const struct tbtree *t)
{
	bool *below = xcalloc((size_t)t->n + 1, sizeof(*below));
	struct tbgpu_times to = {0};
	const struct tbtree_node *n;
	uint32_t i, root;
	size_t r;

	for (r = 0; r < t->n_roots; r++) {
		root = t->roots[r].node;
		for (i = tbtree_first(t, root); i != TBTREE_NIL; i = tbtree_next(t, i, root)) {
			n = &t->nodes[i];
			if (n->tc_eligible && !below[i]) {
				tbgpu_op_time(t, n, &to);
				below[i] = true;
			}
			if (below[i] && n->parent != TBTREE_NIL)
				below[n->parent] = true;
		}
	}
	free(below);
	return to.sum;
}

/* Exact: all kernels that are not collectives. */
static void tbgpu_all_times(const struct tbtree *t, struct tbgpu *g)
{
	const struct tbrows *b = t->rows;
	const struct tbrows_row *r;
	uint16_t f;
	size_t i, d;

	for (d = 0; d < g->n; d++)
		g->devices[d].kernel_time = g->devices[d].tensor_time = 0;
	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		f = tbrows_names(b, r->name);
		if (r->type != TBROWS_KERNEL || (f & TBNAMES_COMM_KERNEL))
			continue;
		d = tbgpu_find(g, tbrows_device(b, r));
		if (d == g->n)
			continue;
		g->devices[d].kernel_time += r->dur;
		g->devices[d].tensor_time += f & TBNAMES_TC ? r->dur : 0;
	}
}

static void tbgpu_tensor(struct tbgpu *g, const struct tbtree *t)
{
	bool exact = t->rows->variant == TBROWS_EXACT;
	struct tbgpu_device *d;
	struct tbgpu_times times = {.devices = g};
	size_t i;

	tbgpu_op_times(t, &times);
	g->eligible_ratio = times.sum > 0 ? tbgpu_eligible(t) / times.sum : 0;
	if (exact)
		tbgpu_all_times(t, g);
	for (i = 0; i < g->n; i++) {
		d = &g->devices[i];
		d->tensor_cores = d->kernel_time > 0 ? d->tensor_time / d->kernel_time : 0;
		if (!times.kernels && !exact)
			d->tensor_cores = NAN;
	}
}

int tbgpu_new(const struct tbrows *b, const struct tbtree *t, const struct tbsteps *s,
	      struct tbgpu **ret)
{
	struct tbgpu *g = xcalloc(1, sizeof(*g));
	struct tbgpu_gather *by;
	size_t i;

	tbgpu_devices(g, b);
	by = xcalloc(g->n + 1, sizeof(*by));
	tbgpu_gather(g, b, by);
	for (i = 0; i < g->n; i++) {
		tbgpu_numbers(&g->devices[i], &by[i], s);
		tbgpu_line(g, &g->devices[i], b);
		tbvalued_done(&by[i].blocks);
		tbvalued_done(&by[i].occupancy);
	}
	free(by);
	tbgpu_tensor(g, t);
	*ret = g;
	return 0;
}

void tbgpu_free(struct tbgpu *g)
{
	size_t i;

	if (!g)
		return;
	for (i = 0; i < g->n; i++) {
		tbspan_done(&g->devices[i].busy);
		tbvalued_done(&g->devices[i].sm);
		free(g->devices[i].line);
	}
	free(g->devices);
	free(g);
}
