/* SPDX-License-Identifier: Apache-2.0
 *
 * tb_tables.c - the numbers of torch-tb-profiler's views, of key_averages() and of the
 * allocator, of one trace as JSON: compare_tb.py holds them against what the references wrote.
 *
 *	tb_tables plugin|exact FILE          all views of the plugin
 *	tb_tables ranks FILE...              its distributed view
 *	tb_tables averages FILE              operators and kernels, GPU annotations too
 */
#include "analyse/allocs.h"
#include "analyse/keyavg.h"
#include "analyse/tbadvice.h"
#include "analyse/tbcomm.h"
#include "analyse/tbgpu.h"
#include "analyse/tbkernels.h"
#include "analyse/tbmemory.h"
#include "analyse/tbmodules.h"
#include "analyse/tbops.h"
#include "analyse/tbsteps.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_MAX (1u << 30)
#define RANKS_MAX 64

struct views {
	struct trace *trace;
	struct tbrows *rows;
	struct tbtree *tree;
	struct tbsteps *steps;
};

static void open_views(struct views *v, const char *path, enum tbrows_variant variant)
{
	struct err e = {0};

	if (trace_read(path, NULL, &v->trace, &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	tbrows_new(v->trace, variant, &v->rows);
	tbtree_new(v->rows, &v->tree);
	tbsteps_new(v->rows, v->tree, &v->steps);
}

static void close_views(struct views *v)
{
	tbsteps_free(v->steps);
	tbtree_free(v->tree);
	tbrows_free(v->rows);
	trace_free(v->trace);
}

static const char *text(const struct views *v, uint32_t id)
{
	return trace_text(v->trace, id, NULL);
}

static void number(struct json *j, const char *key, double v)
{
	json_key(j, key);
	if (isnan(v))
		json_null(j);
	else
		json_double(j, v);
}

static void step_costs(struct json *j, const double costs[TBSTEPS_ROLES], double total)
{
	int r;

	for (r = 0; r < TBSTEPS_ROLES; r++)
		number(j, tbsteps_role_names[r], costs[r]);
	number(j, "Total", total);
}

static void put_steps(struct json *j, const struct views *v)
{
	const struct tbsteps_step *s;
	size_t i;

	json_key(j, "steps");
	json_array(j);
	for (i = 0; i < v->steps->n; i++) {
		s = &v->steps->steps[i];
		json_object(j);
		json_kint(j, "step", s->number);
		step_costs(j, s->cost, s->total);
		number(j, "computation", s->computation);
		number(j, "communication", s->communication);
		number(j, "overlap", s->overlap);
		number(j, "other", s->other);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "avg");
	json_object(j);
	step_costs(j, v->steps->average, v->steps->average_total);
	json_object_end(j);
	json_kbool(j, "has_kernel", v->steps->has_kernel);
	json_kbool(j, "has_memory_work", v->steps->has_memory_work);
	json_kuint(j, "cut", v->steps->cut);
}

static void put_lines(struct json *j, const struct tbgpu_device *d)
{
	size_t i;

	json_key(j, "line");
	json_array(j);
	for (i = 0; i < d->n_line; i++) {
		json_array(j);
		json_double(j, d->line[i].ts);
		json_double(j, d->line[i].utilisation);
		json_array_end(j);
	}
	json_array_end(j);
	json_key(j, "sm");
	json_array(j);
	for (i = 0; i < d->sm.n; i++) {
		json_array(j);
		json_double(j, d->sm.v[i].ts);
		json_double(j, d->sm.v[i].end);
		json_double(j, d->sm.v[i].value);
		json_array_end(j);
	}
	json_array_end(j);
}

static void put_gpu(struct json *j, const struct tbgpu *g)
{
	const struct tbgpu_device *d;
	char id[32];
	size_t i;

	json_kbool(j, "has_blocks", g->has_blocks);
	json_kbool(j, "has_occupancy", g->has_occupancy);
	number(j, "tc_eligible_ops_kernel_ratio", g->eligible_ratio);
	json_key(j, "gpu");
	json_object(j);
	for (i = 0; i < g->n; i++) {
		d = &g->devices[i];
		snprintf(id, sizeof(id), "%lld", (long long)d->id);
		json_key(j, id);
		json_object(j);
		number(j, "gpu_utilization", d->utilisation);
		number(j, "est_sm_efficiency", d->sm_efficiency);
		number(j, "est_achieved_occupancy", d->occupancy);
		number(j, "tensor_core_ratio", d->tensor_cores);
		put_lines(j, d);
		json_object_end(j);
	}
	json_object_end(j);
}

static void put_operators(struct json *j, const struct views *v, const struct tbops *o)
{
	const struct tbops_op *p;
	size_t i;

	json_key(j, "operators");
	json_array(j);
	for (i = 0; i < o->n; i++) {
		p = &o->ops[i];
		json_object(j);
		json_kstr(j, "name", text(v, p->name));
		json_kuint(j, "calls", p->calls);
		number(j, "device_self_duration", p->self_device);
		number(j, "device_total_duration", p->device);
		number(j, "host_self_duration", p->self_host);
		number(j, "host_total_duration", p->host);
		json_kbool(j, "tc_eligible", p->tc_eligible);
		number(j, "tc_self_ratio", tbops_tc_self_percent(p));
		number(j, "tc_total_ratio", tbops_tc_total_percent(p));
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_three(struct json *j, const char *key, const int32_t v[3], bool has)
{
	int i;

	json_key(j, key);
	if (!has) {
		json_str(j, "None");
		return;
	}
	json_array(j);
	for (i = 0; i < 3; i++)
		json_int(j, v[i]);
	json_array_end(j);
}

static void put_kernel_ops(struct json *j, const struct views *v, const struct tbops *o)
{
	const struct tbops_kernel *k;
	size_t i;

	json_key(j, "kernel_ops");
	json_array(j);
	for (i = 0; i < o->n_kernels; i++) {
		k = &o->kernels[i];
		json_object(j);
		json_kstr(j, "name", text(v, k->name));
		json_kstr(j, "op", k->op ? text(v, k->op) : "CallTreeRoot");
		put_three(j, "grid", k->grid, k->has_grid);
		put_three(j, "block", k->block, k->has_block);
		json_kint(j, "registers", k->registers);
		json_kint(j, "shared_memory", k->shared_memory);
		json_kbool(j, "tc_used", k->tc_used);
		json_kbool(j, "op_tc_eligible", k->op_tc_eligible);
		json_kuint(j, "calls", k->calls);
		number(j, "total", k->total);
		number(j, "mean", k->total / (double)k->calls);
		number(j, "max", k->max);
		number(j, "min", k->min);
		number(j, "blocks", k->blocks);
		number(j, "occupancy", k->occupancy);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_kernels(struct json *j, const struct views *v, const struct tbkernels *all)
{
	const struct tbkernels_kernel *k;
	size_t i;

	number(j, "tc_used_ratio", v->steps->has_kernel ? all->tc_ratio : NAN);
	json_key(j, "kernels");
	json_array(j);
	for (i = 0; i < all->n; i++) {
		k = &all->kernels[i];
		json_object(j);
		json_kstr(j, "name", text(v, k->name));
		json_kbool(j, "tc_used", k->tc_used);
		json_kuint(j, "calls", k->calls);
		number(j, "total", k->total);
		number(j, "mean", k->mean);
		number(j, "max", k->max);
		number(j, "min", k->min);
		number(j, "blocks", k->blocks);
		number(j, "occupancy", k->occupancy);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_memory(struct json *j, const struct views *v, const struct tbmemory *m)
{
	const struct tbmemory_device *d;
	size_t i, k, n;

	json_key(j, "memory");
	json_array(j);
	for (i = 0; i < m->n; i++) {
		d = &m->devices[i];
		json_object(j);
		json_kint(j, "type", d->type);
		json_kint(j, "id", d->id);
		json_kstr(j, "name", d->name);
		json_kint(j, "peak", d->peak);
		json_key(j, "operators");
		json_object(j);
		for (k = 0; k < d->n; k++) {
			json_key(j, text(v, d->ops[k].name));
			json_array(j);
			for (n = 0; n < TBMEMORY_NUMBERS; n++)
				json_int(j, d->ops[k].numbers[n]);
			json_uint(j, d->ops[k].calls);
			json_array_end(j);
		}
		json_object_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_allocs(struct json *j, const struct views *v, const struct tbmemory *m)
{
	const struct allocs_device *d;
	struct allocs *a;
	size_t i;

	allocs_new(v->tree, m, &a);
	json_key(j, "allocator");
	json_array(j);
	for (i = 0; i < a->n; i++) {
		d = &a->devices[i];
		json_object(j);
		json_kstr(j, "name", d->name);
		json_kint(j, "peak", d->peak);
		json_kint(j, "reserved_peak", d->reserved_peak);
		json_kint(j, "unused_peak", d->unused_peak);
		json_kuint(j, "points", d->n);
		json_kuint(j, "allocations", d->allocations);
		json_kuint(j, "releases", d->releases);
		json_kint(j, "growth", d->growth);
		json_kint(j, "before_bytes", d->before_bytes);
		json_object_end(j);
	}
	json_array_end(j);
	allocs_free(a);
}

static void put_modules(struct json *j, const struct views *v)
{
	const struct tbmodules_module *p;
	struct tbmodules *m;
	size_t i;

	tbmodules_new(v->tree, &m);
	json_key(j, "modules");
	json_array(j);
	for (i = 0; i < m->n; i++) {
		p = &m->modules[i];
		json_array(j);
		json_uint(j, p->depth);
		json_str(j, tbmodules_name(v->tree, p));
		json_int(j, p->id);
		json_uint(j, p->calls);
		json_uint(j, p->operators);
		json_double(j, p->host);
		json_double(j, p->self_host);
		json_double(j, p->device);
		json_double(j, p->self_device);
		json_double(j, p->average);
		json_array_end(j);
	}
	json_array_end(j);
	tbmodules_free(m);
}

static void put_views(struct json *j, const char *path, enum tbrows_variant variant)
{
	struct tbadvice advice;
	struct tbkernels *k;
	struct tbmemory *m;
	struct tbops *o;
	struct tbgpu *g;
	struct views v;
	size_t i;

	open_views(&v, path, variant);
	tbgpu_new(v.rows, v.tree, v.steps, &g);
	tbops_new(v.tree, TBOPS_NAME, &o);
	tbkernels_new(v.rows, &k);
	tbmemory_new(v.tree, &m);
	tbadvice_make(v.rows, v.steps, g, k, m, &advice);
	json_object(j);
	put_steps(j, &v);
	put_gpu(j, g);
	put_operators(j, &v, o);
	put_kernel_ops(j, &v, o);
	put_kernels(j, &v, k);
	put_memory(j, &v, m);
	put_allocs(j, &v, m);
	put_modules(j, &v);
	json_key(j, "recommendations");
	json_array(j);
	for (i = 0; i < advice.n; i++)
		json_str(j, advice.text[i]);
	json_array_end(j);
	json_object_end(j);
	tbmemory_free(m);
	tbkernels_free(k);
	tbops_free(o);
	tbgpu_free(g);
	close_views(&v);
}

static void put_rank(struct json *j, const struct views *v, const struct tbcomm_rank *r)
{
	size_t i;

	json_object(j);
	json_key(j, "operators");
	json_array(j);
	for (i = 0; i < r->n_ops; i++) {
		json_array(j);
		json_str(j, text(v, r->ops[i].name));
		json_uint(j, r->ops[i].calls);
		json_int(j, r->ops[i].bytes);
		json_double(j, r->ops[i].total);
		json_double(j, r->ops[i].transfer);
		json_array_end(j);
	}
	json_array_end(j);
	json_key(j, "waits");
	json_array(j);
	for (i = 0; i < r->n_steps; i++) {
		json_array(j);
		json_int(j, r->steps[i].step);
		json_double(j, r->steps[i].total);
		json_double(j, r->steps[i].transfer);
		json_array_end(j);
	}
	json_array_end(j);
	put_steps(j, v);
	json_object_end(j);
}

static void put_ranks(struct json *j, char **paths, size_t n)
{
	struct tbsteps *steps[RANKS_MAX];
	struct tbrows *rows[RANKS_MAX];
	struct views v[RANKS_MAX];
	struct tbcomm *c;
	size_t i;

	for (i = 0; i < n; i++) {
		open_views(&v[i], paths[i], TBROWS_PLUGIN);
		rows[i] = v[i].rows;
		steps[i] = v[i].steps;
	}
	tbcomm_new(rows, steps, n, &c);
	json_array(j);
	for (i = 0; c->is_known && i < n; i++)
		put_rank(j, &v[i], &c->ranks[i]);
	json_array_end(j);
	tbcomm_free(c);
	for (i = 0; i < n; i++)
		close_views(&v[i]);
}

static void put_averages(struct json *j, const char *path)
{
	struct keyavg_options o = {.gpu_annotations = true};
	const struct keyavg_row *r;
	struct keyavg *k;
	struct views v;
	size_t i;

	open_views(&v, path, TBROWS_EXACT);
	if (keyavg_new(v.rows, &o, &k))
		exit(1);
	json_object(j);
	json_kint(j, "self_host", k->self_host);
	json_kint(j, "self_device", k->self_device);
	json_key(j, "rows");
	json_array(j);
	for (i = 0; i < k->n; i++) {
		r = &k->rows[i];
		json_array(j);
		json_str(j, r->name);
		json_uint(j, r->calls);
		json_int(j, r->self_host);
		json_int(j, r->host);
		json_int(j, r->self_device);
		json_int(j, r->device);
		json_int(j, r->cpu_memory);
		json_int(j, r->self_cpu_memory);
		json_int(j, r->device_memory);
		json_int(j, r->self_device_memory);
		json_array_end(j);
	}
	json_array_end(j);
	json_object_end(j);
	keyavg_free(k);
	close_views(&v);
}

int main(int argc, char **argv)
{
	struct buf out;
	struct json j;

	if (argc < 3 || argc > RANKS_MAX + 2) {
		fprintf(stderr, "usage: tb_tables plugin|exact|averages FILE | ranks FILE...\n");
		return 2;
	}
	buf_init(&out, OUT_MAX);
	json_init(&j, &out);
	if (!strcmp(argv[1], "ranks"))
		put_ranks(&j, argv + 2, (size_t)argc - 2);
	else if (!strcmp(argv[1], "averages"))
		put_averages(&j, argv[2]);
	else
		put_views(&j, argv[2], !strcmp(argv[1], "exact") ? TBROWS_EXACT : TBROWS_PLUGIN);
	if (out.error || fwrite(out.data, 1, out.len, stdout) != out.len)
		return 1;
	buf_done(&out);
	return 0;
}
