/* SPDX-License-Identifier: Apache-2.0
 *
 * tbmemory.c - each event goes to the innermost operator around it on its thread; then the
 * numbers are summed upwards, one device at a time.
 */
#include "analyse/tbmemory.h"

#include "analyse/idmap.h"
#include "base/mem.h"
#include "trace/view.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tbmemory_build {
	const struct tbtree *t;
	struct tbmemory *m;
	uint32_t *device_of; /* by event in time's order */
	bool *been;          /* nodes that an event was looked for in */
};

static void tbmemory_name(struct tbmemory_device *d, enum tbrows_variant variant)
{
	if (d->type == 0)
		snprintf(d->name, sizeof(d->name), "CPU");
	else if (d->type == 1 || (variant == TBROWS_EXACT && d->type > 0))
		snprintf(d->name, sizeof(d->name), "GPU%d", (int)d->id);
	else
		d->name[0] = 0;
}

static void tbmemory_devices(struct tbmemory_build *w)
{
	struct tbmemory *m = w->m;
	const struct trace_memory *e;
	size_t i, d, cap = 0;

	for (i = 0; i < m->n_events; i++) {
		e = &m->events[i];
		for (d = 0; d < m->n; d++) {
			if (m->devices[d].type == e->device_type && m->devices[d].id == e->device)
				break;
		}
		if (d == m->n) {
			if (m->n == cap)
				m->devices = xgrow(m->devices, m->n, &cap, sizeof(*m->devices));
			m->devices[m->n++] = (struct tbmemory_device){
				.type = e->device_type, .id = e->device, .peak = TRACE_NONE};
			tbmemory_name(&m->devices[d], w->t->rows->variant);
		}
		w->device_of[i] = (uint32_t)d;
		if (e->allocated > m->devices[d].peak)
			m->devices[d].peak = e->allocated;
	}
}

/* Where the search on one thread stands. */
struct tbmemory_place {
	uint32_t node, child; /* the next child to look at */
	bool is_past;         /* behind the whole tree */
};

/* The innermost node around ts, TBTREE_NIL. Events come in time's order. */
static uint32_t tbmemory_find(struct tbmemory_build *w, struct tbmemory_place *p, double ts)
{
	const struct tbtree_node *n = w->t->nodes;

	if (p->is_past || isnan(n[p->node].ts) || ts < n[p->node].ts)
		return TBTREE_NIL;
	while (ts >= n[p->node].end) {
		if (n[p->node].parent == TBTREE_NIL) {
			p->is_past = true;
			return TBTREE_NIL;
		}
		p->child = n[p->node].next;
		p->node = n[p->node].parent;
	}
	while (p->child != TBTREE_NIL && ts >= n[p->child].ts) {
		if (ts >= n[p->child].end) {
			p->child = n[p->child].next;
			continue;
		}
		p->node = p->child;
		p->child = n[p->node].child;
		w->been[p->node] = true;
	}
	return p->node;
}

static void tbmemory_assign(struct tbmemory_build *w)
{
	const struct tbrows *b = w->t->rows;
	struct tbmemory_place *places = xcalloc(b->n_lanes, sizeof(*places));
	const struct trace_memory *e;
	uint32_t node;
	int32_t lane;
	size_t i;

	for (i = 0; i < b->n_lanes; i++)
		places[i].is_past = true;
	for (i = 0; i < w->t->n_roots; i++) {
		node = w->t->roots[i].node;
		lane = w->t->nodes[node].lane;
		places[lane] = (struct tbmemory_place){node, w->t->nodes[node].child, false};
	}
	for (i = 0; i < w->m->n_events; i++) {
		e = &w->m->events[i];
		lane = tbrows_lane(b, e->track);
		node = lane < 0 ? TBTREE_NIL
				: tbmemory_find(w, &places[lane], tbrows_time(b, e->ts));
		if (node != TBTREE_NIL && !w->t->nodes[node].is_operator)
			node = TBTREE_NIL;
		w->m->node_of[i] = node;
		w->m->stray += node == TBTREE_NIL;
	}
	free(places);
}

typedef int64_t tbmemory_numbers[TBMEMORY_NUMBERS];

/* Numbers of each node by its own events of one device. */
static void tbmemory_self(struct tbmemory_build *w, uint32_t device, tbmemory_numbers *of)
{
	struct tbmemory *m = w->m;
	int64_t bytes, *to;
	size_t i;

	for (i = 0; i < m->n_events; i++) {
		if (w->device_of[i] != device || m->node_of[i] == TBTREE_NIL)
			continue;
		bytes = m->events[i].bytes;
		to = of[m->node_of[i]];
		to[TBMEMORY_SELF_INCREASE] += bytes;
		to[TBMEMORY_SELF_SIZE] += bytes > 0 ? bytes : 0;
		to[TBMEMORY_SELF_COUNT] += bytes > 0;
	}
}

/* Whether the reference gets to a node: it stops at those that no event was looked for in. */
static bool tbmemory_reached(const struct tbmemory_build *w, uint32_t node)
{
	uint32_t up;

	for (up = w->t->nodes[node].parent; w->t->nodes[up].parent != TBTREE_NIL;
	     up = w->t->nodes[up].parent) {
		if (!w->been[up])
			return false;
	}
	return true;
}

static struct tbmemory_op *tbmemory_op_at(struct tbmemory_device *d, struct idmap *names,
					  size_t *cap, uint32_t name)
{
	uint32_t *at = idmap_at(names, name);

	if (*at == IDMAP_NONE) {
		*at = (uint32_t)d->n;
		if (d->n == *cap)
			d->ops = xgrow(d->ops, d->n, cap, sizeof(*d->ops));
		d->ops[d->n++] = (struct tbmemory_op){.name = name};
	}
	return &d->ops[*at];
}

static void tbmemory_drop_zero(struct tbmemory_device *d)
{
	size_t i, k, n = 0;

	for (i = 0; i < d->n; i++) {
		for (k = 0; k < TBMEMORY_NUMBERS && !d->ops[i].numbers[k]; k++)
			;
		if (k < TBMEMORY_NUMBERS)
			d->ops[n++] = d->ops[i];
	}
	d->n = n;
}

static void tbmemory_node(struct tbmemory_build *w, uint32_t i, tbmemory_numbers *of)
{
	uint32_t up = w->t->nodes[i].parent;
	int k;

	for (k = TBMEMORY_INCREASE; k < TBMEMORY_NUMBERS; k++) {
		of[i][k] += of[i][k - TBMEMORY_INCREASE];
		if (up != TBTREE_NIL)
			of[up][k] += of[i][k];
	}
}

/* Operators of one device. */
static void tbmemory_ops(struct tbmemory_build *w, uint32_t device, tbmemory_numbers *of)
{
	struct tbmemory_device *d = &w->m->devices[device];
	const struct tbtree *t = w->t;
	struct tbmemory_op *op;
	struct idmap names;
	uint32_t i, root;
	size_t r, cap = 0;
	int k;

	idmap_init(&names);
	for (r = 0; r < t->n_roots; r++) {
		root = t->roots[r].node;
		for (i = tbtree_first(t, root); i != root; i = tbtree_next(t, i, root)) {
			tbmemory_node(w, i, of);
			if (!t->nodes[i].is_operator || !tbmemory_reached(w, i))
				continue;
			op = tbmemory_op_at(d, &names, &cap, t->rows->rows[t->nodes[i].row].name);
			op->calls++;
			for (k = 0; k < TBMEMORY_NUMBERS; k++)
				op->numbers[k] += of[i][k];
		}
	}
	idmap_done(&names);
	tbmemory_drop_zero(d);
}

static void tbmemory_build(struct tbmemory_build *w)
{
	tbmemory_numbers *of = xcalloc((size_t)w->t->n + 1, sizeof(*of));
	uint32_t d;

	tbmemory_devices(w);
	tbmemory_assign(w);
	for (d = 0; d < w->m->n; d++) {
		if (!w->m->devices[d].name[0])
			continue;
		memset(of, 0, ((size_t)w->t->n + 1) * sizeof(*of));
		tbmemory_self(w, d, of);
		tbmemory_ops(w, d, of);
	}
	free(of);
}

/* Memory events of the rows' part, by time, then as in the file. */
static int tbmemory_events(const struct tbrows *b, struct tbmemory *m)
{
	uint64_t all = trace_memories(b->trace), i;
	const struct trace_memory *e;
	struct view_key *keys;
	uint32_t *place;
	size_t n = 0, k;

	for (i = 0; i < all; i++) {
		e = trace_memory_at(b->trace, i);
		if (!e)
			return -EIO;
		n += tbrows_is_in(b, e->ts);
	}
	keys = xcalloc(2 * n + 1, sizeof(*keys));
	place = xcalloc(n + 1, sizeof(*place));
	m->events = xcalloc(n + 1, sizeof(*m->events));
	for (i = k = 0; k < n && (e = trace_memory_at(b->trace, i)) != NULL; i++)
		if (tbrows_is_in(b, e->ts)) {
			keys[k] = (struct view_key){view_key_of(e->ts), (uint32_t)k};
			k++;
		}
	view_sort(keys, keys + n, n);
	for (k = 0; k < n; k++)
		place[keys[k].id] = (uint32_t)k;
	free(keys);
	for (i = k = 0; k < n && (e = trace_memory_at(b->trace, i)) != NULL; i++)
		if (tbrows_is_in(b, e->ts))
			m->events[place[k++]] = *e;
	free(place);
	m->n_events = n;
	return k < n ? -EIO : 0;
}

int tbmemory_new(const struct tbtree *t, struct tbmemory **ret)
{
	struct tbmemory_build w = {.t = t};
	struct tbmemory *m = xcalloc(1, sizeof(*m));
	int err = tbmemory_events(t->rows, m);

	if (err) {
		tbmemory_free(m);
		return err;
	}
	w.m = m;
	m->node_of = xcalloc(m->n_events + 1, sizeof(*m->node_of));
	w.device_of = xcalloc(m->n_events + 1, sizeof(*w.device_of));
	w.been = xcalloc((size_t)t->n + 1, sizeof(*w.been));
	tbmemory_build(&w);
	free(w.device_of);
	free(w.been);
	*ret = m;
	return 0;
}

void tbmemory_free(struct tbmemory *m)
{
	size_t i;

	if (!m)
		return;
	for (i = 0; i < m->n; i++)
		free(m->devices[i].ops);
	free(m->devices);
	free(m->node_of);
	free(m->events);
	free(m);
}
