/* SPDX-License-Identifier: Apache-2.0
 *
 * keyavg_parts.c - the sums of a trace by windows. They are those of the whole as long as what
 * belongs together is in one window: ids that come back in another, and work that two of them
 * claim, are found by a bit each.
 */
#include "analyse/keyavg_priv.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define KEYAVG_IDS_MAX (INT64_C(1) << 28) /* larger ids are not kept track of */

struct keyavg_bits {
	uint8_t *v;
	size_t cap; /* bytes */
};

struct keyavg_parts {
	struct keyavg_options o;
	struct keyavg *k;
	size_t cap;
	struct map keys;
	struct keyavg_bits ops, launches, given; /* external ids, correlations, rows of the trace */
	int32_t main_lane;                       /* of the steps; -1 */
	bool had_none;                           /* launches were met before it was known */
	bool is_bad;
	uint64_t work, owned; /* rows of the device that begin in a window; that an operator has */
};

static bool keyavg_bit(const struct keyavg_bits *b, int64_t at)
{
	return (uint64_t)at / 8 < b->cap && b->v[at / 8] & 1u << at % 8;
}

/* false: too large to be kept. */
static bool keyavg_bit_set(struct keyavg_bits *b, int64_t at, int64_t max)
{
	size_t want = (size_t)(at / 8) + 1, cap;

	if (at < 0 || at >= max)
		return false;
	if (want > b->cap) {
		cap = want + want / 2 + 4096;
		b->v = xrealloc(b->v, cap, 1);
		memset(b->v + b->cap, 0, cap - b->cap);
		b->cap = cap;
	}
	b->v[at / 8] |= (uint8_t)(1u << at % 8);
	return true;
}

static bool keyavg_is_op(struct keyavg_build *w, const struct tbrows_row *r)
{
	return (r->type == TBROWS_OPERATOR || r->type == TBROWS_STEP ||
		r->type == TBROWS_ANNOTATION) &&
	       r->external > 0 && !keyavg_is_hidden(w, r->name);
}

void keyavg_parts_begin(struct keyavg_build *w)
{
	struct keyavg_parts *p = w->parts;
	const struct tbrows_row *r;
	size_t i;

	w->main_lane = p->main_lane;
	for (i = 0; i < w->b->n; i++) {
		r = &w->b->rows[i];
		if (keyavg_is_op(w, r) && keyavg_bit(&p->ops, r->external))
			p->is_bad = true;
		if (r->type == TBROWS_RUNTIME && r->correlation != TRACE_NONE &&
		    (r->correlation < 0 || keyavg_bit(&p->launches, r->correlation)))
			p->is_bad = true;
		p->work += (r->type == TBROWS_KERNEL || r->type == TBROWS_MEMCPY ||
			    r->type == TBROWS_MEMSET) &&
			   tbrows_is_in(w->b, (int64_t)r->ts + w->b->zero_ns);
	}
}

void keyavg_parts_launches(struct keyavg_build *w)
{
	struct keyavg_parts *p = w->parts;
	const struct tbrows_row *r;
	size_t i;

	/* Launches without operator are on the lane of the steps: it must be known. */
	if (p->main_lane < 0 && w->main_lane >= 0 && p->had_none)
		p->is_bad = true;
	p->main_lane = w->main_lane;
	for (i = 0; i < w->b->n && !p->is_bad; i++) {
		r = &w->b->rows[i];
		if (keyavg_is_op(w, r) && !keyavg_bit_set(&p->ops, r->external, KEYAVG_IDS_MAX))
			p->is_bad = true;
		if (r->type == TBROWS_RUNTIME && r->correlation != TRACE_NONE &&
		    !keyavg_bit_set(&p->launches, r->correlation, KEYAVG_IDS_MAX))
			p->is_bad = true;
		p->had_none = p->had_none || (w->main_lane < 0 && (r->type == TBROWS_RUNTIME ||
								   r->type == TBROWS_OVERHEAD));
	}
}

void keyavg_parts_give(struct keyavg_build *w, const struct tbrows_row *r)
{
	struct keyavg_parts *p = w->parts;

	if (keyavg_bit(&p->given, r->row) || !keyavg_bit_set(&p->given, r->row, INT64_MAX))
		p->is_bad = true;
	p->owned++;
}

struct keyavg_parts *keyavg_parts_new(const struct keyavg_options *o)
{
	struct keyavg_parts *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->k = xcalloc(1, sizeof(*p->k));
	p->main_lane = -1;
	map_init(&p->keys);
	return p;
}

static struct keyavg_row *keyavg_parts_row(struct keyavg_parts *p, const struct keyavg_row *r)
{
	struct {
		const char *name;
		uint32_t dims;
		uint8_t on_device, is_annotation, zero[2];
	} key = {.name = r->name,
		 .dims = r->dims,
		 .on_device = r->on_device,
		 .is_annotation = r->is_annotation};
	struct keyavg *k = p->k;
	uint64_t at;

	if (map_get(&p->keys, &key, sizeof(key), &at))
		return &k->rows[at];
	map_put(&p->keys, &key, sizeof(key), k->n);
	k->rows = xgrow(k->rows, k->n, &p->cap, sizeof(*k->rows));
	k->rows[k->n] = (struct keyavg_row){.name = r->name,
					    .dims = r->dims,
					    .on_device = r->on_device,
					    .is_annotation = r->is_annotation,
					    .is_operator = r->is_operator};
	return &k->rows[k->n++];
}

static void keyavg_parts_sum(struct keyavg_parts *p, const struct keyavg *part)
{
	const struct keyavg_row *r;
	struct keyavg_row *to;
	size_t i;

	for (i = 0; i < part->n; i++) {
		r = &part->rows[i];
		to = keyavg_parts_row(p, r);
		to->calls += r->calls;
		to->host += r->host;
		to->self_host += r->self_host;
		to->device += r->device;
		to->self_device += r->self_device;
		to->flops += r->flops;
		to->cpu_memory += r->cpu_memory;
		to->self_cpu_memory += r->self_cpu_memory;
		to->device_memory += r->device_memory;
		to->self_device_memory += r->self_device_memory;
	}
	p->k->self_host += part->self_host;
	p->k->self_device += part->self_device;
	p->k->flops += part->flops;
	p->k->has_memory = p->k->has_memory || part->has_memory;
	p->k->has_shapes = p->k->has_shapes || part->has_shapes;
}

int keyavg_parts_add(struct keyavg_parts *p, const struct tbrows *window)
{
	struct keyavg_build w = {.b = window, .o = p->o, .parts = p};

	if (!window->is_window || p->o.group & KEYAVG_STACK || p->o.from || p->o.to)
		return -EINVAL;
	keyavg_make(&w);
	keyavg_parts_sum(p, w.k);
	keyavg_free(w.k);
	return p->is_bad ? -ENOTUNIQ : 0;
}

void keyavg_parts_end(struct keyavg_parts *p, struct keyavg **ret)
{
	p->k->lost_kernels = p->work - p->owned;
	*ret = p->k;
	p->k = NULL;
}

void keyavg_parts_free(struct keyavg_parts *p)
{
	if (!p)
		return;
	keyavg_free(p->k);
	map_done(&p->keys);
	free(p->ops.v);
	free(p->launches.v);
	free(p->given.v);
	free(p);
}
