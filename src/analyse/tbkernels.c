/* SPDX-License-Identifier: Apache-2.0
 *
 * tbkernels.c - sums as pandas makes them (compensated sums per name, pairwise sums of
 * products), so that the plugin's numbers come out to the last digit.
 */
#include "analyse/tbkernels.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TBKERNELS_BLOCK 128 /* numpy sums this many with eight sums beside each other */

/* Sum of n numbers in numpy's order. */
static double tbkernels_pairwise(const double *v, size_t n)
{
	double r[8], sum = 0;
	size_t i, k, half;

	if (n < 8) {
		for (i = 0; i < n; i++)
			sum += v[i];
		return sum;
	}
	if (n > TBKERNELS_BLOCK) {
		half = n / 2;
		half -= half % 8;
		return tbkernels_pairwise(v, half) + tbkernels_pairwise(v + half, n - half);
	}
	memcpy(r, v, sizeof(r));
	for (i = 8; i + 8 <= n; i += 8) {
		for (k = 0; k < 8; k++)
			r[k] += v[i + k];
	}
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
	for (; i < n; i++)
		sum += v[i];
	return sum;
}

/* Rows of kernels by name: a list per name, in the order of time. */
struct tbkernels_lists {
	uint32_t *first, *last, *next; /* by kernel, by kernel, by row */
};

struct tbkernels_sum {
	double sum, lost;
};

/* Kahan's summation, as pandas has it. */
static void tbkernels_add(struct tbkernels_sum *s, double v)
{
	double y = v - s->lost, t = s->sum + y;

	s->lost = t - s->sum - y;
	if (isnan(s->lost))
		s->lost = 0;
	s->sum = t;
}

static double tbkernels_or_0(double v)
{
	return isnan(v) ? 0 : v;
}

static void tbkernels_one(const struct tbrows *b, const struct tbkernels_lists *l, uint32_t which,
			  struct tbkernels_kernel *to, double *room)
{
	double *weight = room, *blocks = room + to->calls, *occupancy = room + 2 * to->calls, all;
	struct tbkernels_sum sum = {0, 0};
	const struct trace_args *a;
	const struct tbrows_row *r;
	uint32_t i;
	size_t n = 0;

	to->min = INFINITY;
	to->max = -INFINITY;
	for (i = l->first[which]; i != IDMAP_NONE; i = l->next[i]) {
		r = &b->rows[i];
		a = trace_args(b->trace, r->args);
		tbkernels_add(&sum, r->dur);
		to->min = r->dur < to->min ? r->dur : to->min;
		to->max = r->dur > to->max ? r->dur : to->max;
		weight[n] = r->dur;
		blocks[n] = tbkernels_or_0(a->blocks_per_sm) * r->dur;
		occupancy[n++] = tbkernels_or_0(a->occupancy) * r->dur;
	}
	to->total = sum.sum;
	to->mean = sum.sum / (double)n;
	all = tbkernels_pairwise(weight, n);
	to->blocks = all != 0 ? tbkernels_pairwise(blocks, n) / all : 0;
	to->occupancy = all != 0 ? tbkernels_pairwise(occupancy, n) / all : 0;
}

static void tbkernels_list(struct tbkernels *k, const struct tbrows *b, struct tbkernels_lists *l)
{
	uint16_t tc = b->variant == TBROWS_PLUGIN ? TBNAMES_TC_PLUGIN : TBNAMES_TC;
	struct idmap names;
	uint32_t *at;
	size_t i, cap = 0, cap_first = 0, cap_last = 0;

	idmap_init(&names);
	for (i = 0; i < b->n; i++) {
		if (b->rows[i].type != TBROWS_KERNEL)
			continue;
		at = idmap_at(&names, b->rows[i].name);
		l->next[i] = IDMAP_NONE;
		if (*at == IDMAP_NONE) {
			*at = (uint32_t)k->n;
			if (k->n == cap) {
				k->kernels = xgrow(k->kernels, k->n, &cap, sizeof(*k->kernels));
				l->first = xgrow(l->first, k->n, &cap_first, sizeof(*l->first));
				l->last = xgrow(l->last, k->n, &cap_last, sizeof(*l->last));
			}
			k->kernels[k->n] = (struct tbkernels_kernel){
				.name = b->rows[i].name,
				.tc_used = tbrows_names(b, b->rows[i].name) & tc};
			l->first[k->n++] = (uint32_t)i;
		} else {
			l->next[l->last[*at]] = (uint32_t)i;
		}
		l->last[*at] = (uint32_t)i;
		k->kernels[*at].calls++;
	}
	idmap_done(&names);
}

static int tbkernels_by_total(const void *pa, const void *pb, void *arg)
{
	const struct tbkernels_kernel *x = pa, *y = pb;
	const struct tbrows *b = arg;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(trace_text(b->trace, x->name, NULL), trace_text(b->trace, y->name, NULL));
}

static void tbkernels_ratio(struct tbkernels *k)
{
	double *v = xcalloc(k->n + 1, sizeof(*v)), all;
	size_t i, n = 0;

	for (i = 0; i < k->n; i++)
		v[i] = k->kernels[i].total;
	all = tbkernels_pairwise(v, k->n);
	for (i = 0; i < k->n; i++) {
		if (k->kernels[i].tc_used)
			v[n++] = k->kernels[i].total;
	}
	k->tc_ratio = all > 0 ? tbkernels_pairwise(v, n) / all : 0;
	free(v);
}

int tbkernels_new(const struct tbrows *b, struct tbkernels **ret)
{
	struct tbkernels *k = xcalloc(1, sizeof(*k));
	struct tbkernels_lists l = {0};
	double *room;
	size_t i;

	l.next = xcalloc(b->n + 1, sizeof(*l.next));
	room = xcalloc(b->count[TBROWS_KERNEL] * 3 + 1, sizeof(*room));
	tbkernels_list(k, b, &l);
	for (i = 0; i < k->n; i++)
		tbkernels_one(b, &l, (uint32_t)i, &k->kernels[i], room);
	free(l.first);
	free(l.last);
	free(l.next);
	free(room);
	if (k->n)
		qsort_r(k->kernels, k->n, sizeof(*k->kernels), tbkernels_by_total, (void *)b);
	tbkernels_ratio(k);
	*ret = k;
	return 0;
}

void tbkernels_free(struct tbkernels *k)
{
	if (!k)
		return;
	free(k->kernels);
	free(k);
}
