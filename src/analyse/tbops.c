/* SPDX-License-Identifier: Apache-2.0
 *
 * tbops.c - operators children first, as they end; then the kernels that each launched.
 */
#include "analyse/tbops.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/map.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tbops_build {
	const struct tbtree *t;
	enum tbops_group group;
	struct tbops *o;
	struct map ops, kernels; /* key -> index */
	size_t cap_ops, cap_kernels;
};

struct tbops_op_key {
	uint32_t name, dims, stack;
};

static void tbops_op_add(struct tbops_build *w, const struct tbtree_node *n)
{
	const struct tbrows_row *r = &w->t->rows->rows[n->row];
	const struct trace_args *a = trace_args(w->t->rows->trace, r->args);
	struct tbops_op_key key = {r->name, w->group & TBOPS_SHAPE ? a->dims : 0,
				   w->group & TBOPS_STACK ? a->stack : 0};
	struct tbops *o = w->o;
	struct tbops_op *op;
	uint64_t at;

	if (!map_get(&w->ops, &key, sizeof(key), &at)) {
		at = o->n;
		map_put(&w->ops, &key, sizeof(key), at);
		if (o->n == w->cap_ops)
			o->ops = xgrow(o->ops, o->n, &w->cap_ops, sizeof(*o->ops));
		o->ops[o->n++] = (struct tbops_op){.name = key.name,
						   .dims = key.dims,
						   .stack = key.stack,
						   .tc_eligible = n->tc_eligible};
	}
	op = &o->ops[at];
	op->calls++;
	op->host += n->end - n->ts;
	op->self_host += n->self_host;
	op->device += n->device;
	op->self_device += n->self_device;
	op->tc_self += n->tc_self;
	op->tc_total += n->tc_total;
}

struct tbops_kernel_key {
	uint32_t name, op;
	int32_t grid[3], block[3], registers, shared_memory;
};

static struct tbops_kernel *tbops_kernel_at(struct tbops_build *w, const struct tbtree_work *k)
{
	const struct tbrows *b = w->t->rows;
	const struct tbrows_row *r = &b->rows[k->row];
	const struct trace_args *a = trace_args(b->trace, r->args);
	struct tbops_kernel_key key = {.name = r->name};
	struct tbops *o = w->o;
	uint64_t at;

	if (k->op != TBTREE_NIL && w->t->nodes[k->op].row != TBTREE_NIL)
		key.op = b->rows[w->t->nodes[k->op].row].name;
	memcpy(key.grid, a->grid, sizeof(key.grid));
	memcpy(key.block, a->block, sizeof(key.block));
	key.registers = a->registers == TRACE_NONE ? 0 : a->registers;
	key.shared_memory = a->shared_memory == TRACE_NONE ? 0 : a->shared_memory;
	if (map_get(&w->kernels, &key, sizeof(key), &at))
		return &o->kernels[at];
	map_put(&w->kernels, &key, sizeof(key), o->n_kernels);
	if (o->n_kernels == w->cap_kernels)
		o->kernels = xgrow(o->kernels, o->n_kernels, &w->cap_kernels, sizeof(*o->kernels));
	o->kernels[o->n_kernels] = (struct tbops_kernel){.name = key.name,
							 .op = key.op,
							 .has_grid = a->grid[0] != TRACE_NONE,
							 .has_block = a->block[0] != TRACE_NONE,
							 .registers = key.registers,
							 .shared_memory = key.shared_memory,
							 .min = INFINITY,
							 .tc_used = k->is_tc,
							 .op_tc_eligible = k->op_tc_eligible};
	memcpy(o->kernels[o->n_kernels].grid, a->grid, sizeof(key.grid));
	memcpy(o->kernels[o->n_kernels].block, a->block, sizeof(key.block));
	return &o->kernels[o->n_kernels++];
}

static void tbops_work_add(struct tbops_build *w, uint32_t work)
{
	const struct tbtree_work *k = &w->t->work[work];
	const struct tbrows *b = w->t->rows;
	const struct tbrows_row *r = &b->rows[k->row];
	const struct trace_args *a = trace_args(b->trace, r->args);
	struct tbops_kernel *to;
	double dur = r->end - r->ts;

	if (r->type != TBROWS_KERNEL)
		return;
	to = tbops_kernel_at(w, k);
	to->calls++;
	to->total += dur;
	to->min = dur < to->min ? dur : to->min;
	to->max = dur > to->max ? dur : to->max;
	to->blocks += (isnan(a->blocks_per_sm) ? 0 : a->blocks_per_sm) * dur;
	to->occupancy += (isnan(a->occupancy) ? 0 : a->occupancy) * dur;
}

static void tbops_launch_add(struct tbops_build *w, uint32_t launch)
{
	uint32_t k;

	for (k = w->t->launches[launch].work; k != TBTREE_NIL; k = w->t->work[k].next)
		tbops_work_add(w, k);
}

static void tbops_root(struct tbops_build *w, const struct tbtree_root *r)
{
	const struct tbtree *t = w->t;
	const struct tbtree_node *n;
	uint32_t i, l;
	size_t k;

	for (i = tbtree_first(t, r->node); i != TBTREE_NIL; i = tbtree_next(t, i, r->node)) {
		n = &t->nodes[i];
		if (n->is_operator)
			tbops_op_add(w, n);
		for (l = n->launch; l != TBTREE_NIL; l = t->launches[l].next)
			tbops_launch_add(w, l);
	}
	for (k = 0; k < r->n_zero; k++)
		tbops_launch_add(w, r->zero[k]);
	for (k = 0; r->has_stray && k < t->n_stray; k++)
		tbops_work_add(w, t->stray[k]);
}

/* Exact: kernels that no thread's tree has are told too. */
static void tbops_rest(struct tbops_build *w)
{
	const struct tbtree *t = w->t;
	bool shown = false;
	uint32_t k;
	size_t r;

	for (r = 0; r < t->n_roots; r++)
		shown = shown || t->roots[r].has_stray;
	for (k = 0; k < t->n_work; k++) {
		if (t->work[k].launch == TBTREE_NIL ? !shown
						    : !t->launches[t->work[k].launch].in_tree)
			tbops_work_add(w, k);
	}
}

int tbops_new(const struct tbtree *t, enum tbops_group group, struct tbops **ret)
{
	struct tbops_build w = {.t = t, .group = group};
	size_t i;

	w.o = xcalloc(1, sizeof(*w.o));
	map_init(&w.ops);
	map_init(&w.kernels);
	for (i = 0; i < t->n_roots; i++)
		tbops_root(&w, &t->roots[i]);
	if (t->rows->variant == TBROWS_EXACT)
		tbops_rest(&w);
	for (i = 0; i < w.o->n_kernels; i++) {
		w.o->kernels[i].blocks /=
			w.o->kernels[i].total > 0 ? w.o->kernels[i].total : INFINITY;
		w.o->kernels[i].occupancy /=
			w.o->kernels[i].total > 0 ? w.o->kernels[i].total : INFINITY;
	}
	map_done(&w.ops);
	map_done(&w.kernels);
	*ret = w.o;
	return 0;
}

void tbops_free(struct tbops *o)
{
	if (!o)
		return;
	free(o->ops);
	free(o->kernels);
	free(o);
}

double tbops_tc_self_percent(const struct tbops_op *op)
{
	return op->self_device > 0 ? 100 * (op->tc_self / op->self_device) : 0;
}

double tbops_tc_total_percent(const struct tbops_op *op)
{
	return op->device > 0 ? 100 * (op->tc_total / op->device) : 0;
}
