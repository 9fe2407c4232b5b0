/* SPDX-License-Identifier: Apache-2.0
 *
 * tbmodules.c - who calls whom comes from the ids of Python calls: a module's parent is the
 * nearest module above it; the times come from the operator tree.
 */
#include "analyse/tbmodules.h"

#include "analyse/idmap.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define TBMODULES_PREFIX "nn.Module: "
#define TBMODULES_TREE_MAX (256u << 20) /* bytes of one tree as text, to tell equal ones */

/* A Python call by its id. */
struct tbmodules_call {
	uint32_t row;    /* the last of this id; IDMAP_NONE: only named as a parent */
	uint32_t parent; /* call */
	bool has_child;
	bool is_module, is_placed; /* placed: in order[] */
	uint32_t above;            /* module's parent; IDMAP_NONE: a root */
	uint32_t child, last_child, next;
};

struct tbmodules_build {
	const struct tbtree *t;
	struct tbmodules *m;
	struct tbmodules_call *calls;
	size_t n_calls, cap_calls;
	struct idmap ids;
	uint32_t *order; /* modules in the order that they were met, leaves first */
	size_t n_order;
	struct map totals; /* name and id -> index in sums */
	struct tbmodules_module *sums;
	size_t n_sums, cap_sums, cap_modules;
};

static uint32_t tbmodules_call(struct tbmodules_build *w, int64_t id)
{
	uint32_t *at = idmap_at(&w->ids, id);

	if (*at != IDMAP_NONE)
		return *at;
	*at = (uint32_t)w->n_calls;
	if (w->n_calls == w->cap_calls)
		w->calls = xgrow(w->calls, w->n_calls, &w->cap_calls, sizeof(*w->calls));
	memset(&w->calls[w->n_calls], 0xff, sizeof(*w->calls));
	w->calls[w->n_calls].has_child = w->calls[w->n_calls].is_module = false;
	w->calls[w->n_calls].is_placed = false;
	return (uint32_t)w->n_calls++;
}

static void tbmodules_calls(struct tbmodules_build *w)
{
	const struct tbrows *b = w->t->rows;
	const struct trace_args *a;
	uint32_t me, parent;
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (b->rows[i].type != TBROWS_PYTHON && b->rows[i].type != TBROWS_MODULE)
			continue;
		a = trace_args(b->trace, b->rows[i].args);
		me = tbmodules_call(w, a->python_id);
		parent = tbmodules_call(w, a->python_parent);
		w->calls[parent].has_child = true;
		w->calls[me].row = (uint32_t)i;
		w->calls[me].parent = parent;
		w->calls[me].is_module = b->rows[i].type == TBROWS_MODULE;
	}
}

static void tbmodules_place(struct tbmodules_build *w, uint32_t call)
{
	if (w->calls[call].is_placed)
		return;
	w->calls[call].is_placed = true;
	w->order[w->n_order++] = call;
}

/* From each call that calls nothing upwards. */
static void tbmodules_climb(struct tbmodules_build *w)
{
	uint32_t at, module, *seen;
	struct idmap been;
	size_t i;

	idmap_init(&been);
	w->order = xcalloc(w->n_calls + 1, sizeof(*w->order));
	for (i = 0; i < w->n_calls; i++) {
		if (w->calls[i].has_child)
			continue;
		module = IDMAP_NONE;
		for (at = (uint32_t)i; at != IDMAP_NONE && w->calls[at].row != IDMAP_NONE;
		     at = w->calls[at].parent) {
			if (w->calls[at].is_module) {
				if (module != IDMAP_NONE) {
					tbmodules_place(w, module);
					w->calls[module].above = at;
				}
				module = at;
				tbmodules_place(w, at);
			}
			seen = idmap_at(&been, (int64_t)at << 32 | module);
			if (*seen != IDMAP_NONE)
				break;
			*seen = 1;
		}
	}
	idmap_done(&been);
}

/* Children of modules, in order[]'s order. */
static void tbmodules_link(struct tbmodules_build *w)
{
	struct tbmodules_call *p;
	uint32_t me;
	size_t i;

	for (i = 0; i < w->n_order; i++) {
		me = w->order[i];
		if (w->calls[me].above == IDMAP_NONE)
			continue;
		p = &w->calls[w->calls[me].above];
		if (p->child == IDMAP_NONE)
			p->child = me;
		else
			w->calls[p->last_child].next = me;
		p->last_child = me;
	}
}

struct tbmodules_key {
	int64_t id;
	uint32_t name, zero;
};

static struct tbmodules_key tbmodules_key(const struct tbrows *b, uint32_t row)
{
	struct tbmodules_key key = {0};

	key.name = b->rows[row].name;
	key.id = trace_args(b->trace, b->rows[row].args)->python_module;
	return key;
}

static void tbmodules_sum(struct tbmodules_build *w, const struct tbtree_node *n)
{
	struct tbmodules_key key = tbmodules_key(w->t->rows, n->row);
	struct tbmodules_module *to;
	uint64_t at;
	uint32_t c;

	if (!map_get(&w->totals, &key, sizeof(key), &at)) {
		at = w->n_sums;
		map_put(&w->totals, &key, sizeof(key), at);
		if (w->n_sums == w->cap_sums)
			w->sums = xgrow(w->sums, w->n_sums, &w->cap_sums, sizeof(*w->sums));
		w->sums[w->n_sums++] = (struct tbmodules_module){.name = key.name, .id = key.id};
	}
	to = &w->sums[at];
	to->calls++;
	for (c = n->child; c != TBTREE_NIL; c = w->t->nodes[c].next)
		to->operators += w->t->nodes[c].is_operator;
	to->host += n->end - n->ts;
	to->self_host += n->self_host;
	to->device += n->device;
	to->self_device += n->self_device;
}

/* Parents first, as the reference adds them up. */
static void tbmodules_sums(struct tbmodules_build *w)
{
	const struct tbtree *t = w->t;
	uint32_t i, root;
	size_t r;

	for (r = 0; r < t->n_roots; r++) {
		root = t->roots[r].node;
		i = t->nodes[root].child;
		while (i != TBTREE_NIL && i != root) {
			if (t->nodes[i].kind == TBTREE_MODULE)
				tbmodules_sum(w, &t->nodes[i]);
			if (t->nodes[i].child != TBTREE_NIL) {
				i = t->nodes[i].child;
				continue;
			}
			while (i != root && t->nodes[i].next == TBTREE_NIL)
				i = t->nodes[i].parent;
			if (i != root)
				i = t->nodes[i].next;
		}
	}
}

static void tbmodules_out(struct tbmodules_build *w, uint32_t call, uint32_t depth)
{
	struct tbmodules_key key = tbmodules_key(w->t->rows, w->calls[call].row);
	struct tbmodules_module *to;
	uint64_t at;

	if (w->m->n == w->cap_modules)
		w->m->modules =
			xgrow(w->m->modules, w->m->n, &w->cap_modules, sizeof(*w->m->modules));
	to = &w->m->modules[w->m->n++];
	*to = (struct tbmodules_module){.name = key.name, .id = key.id};
	if (map_get(&w->totals, &key, sizeof(key), &at))
		*to = w->sums[at];
	to->depth = depth;
	if (to->calls)
		to->average = (to->device > 0 ? to->device : to->host) / (double)to->calls;
}

/* The tree under a root: into the result, or as bytes that are equal for equal trees. */
static void tbmodules_tree(struct tbmodules_build *w, uint32_t root, struct buf *text)
{
	struct tbmodules_key key;
	uint32_t at = root, depth = 0;

	for (;;) {
		if (text) {
			key = tbmodules_key(w->t->rows, w->calls[at].row);
			buf_append(text, &key, sizeof(key));
			buf_append(text, &depth, sizeof(depth));
		} else {
			tbmodules_out(w, at, depth);
		}
		if (w->calls[at].child != IDMAP_NONE) {
			at = w->calls[at].child;
			depth++;
			continue;
		}
		while (at != root && w->calls[at].next == IDMAP_NONE) {
			at = w->calls[at].above;
			depth--;
		}
		if (at == root)
			return;
		at = w->calls[at].next;
	}
}

struct tbmodules_root {
	const char *name;
	uint32_t call;
};

static int tbmodules_by_name(const void *pa, const void *pb)
{
	const struct tbmodules_root *a = pa, *b = pb;
	int c = strcmp(a->name, b->name);

	return c ? c : (a->call > b->call) - (a->call < b->call);
}

static void tbmodules_roots(struct tbmodules_build *w)
{
	struct tbmodules_root *roots = xcalloc(w->n_order + 1, sizeof(*roots));
	const struct tbrows *b = w->t->rows;
	struct map seen;
	struct buf text;
	uint64_t was;
	size_t i, n = 0;

	map_init(&seen);
	buf_init(&text, TBMODULES_TREE_MAX);
	for (i = 0; i < w->n_order; i++) {
		if (w->calls[w->order[i]].above != IDMAP_NONE)
			continue;
		buf_reset(&text);
		tbmodules_tree(w, w->order[i], &text);
		if (map_get(&seen, text.data, text.len, &was))
			continue;
		map_put(&seen, text.data, text.len, 1);
		roots[n].call = w->order[i];
		roots[n++].name =
			trace_text(b->trace, b->rows[w->calls[w->order[i]].row].name, NULL);
	}
	qsort(roots, n, sizeof(*roots), tbmodules_by_name);
	for (i = 0; i < n; i++)
		tbmodules_tree(w, roots[i].call, NULL);
	buf_done(&text);
	map_done(&seen);
	free(roots);
}

int tbmodules_new(const struct tbtree *t, struct tbmodules **ret)
{
	struct tbmodules_build w = {.t = t};

	w.m = xcalloc(1, sizeof(*w.m));
	idmap_init(&w.ids);
	map_init(&w.totals);
	if (t->rows->count[TBROWS_MODULE]) {
		tbmodules_calls(&w);
		tbmodules_climb(&w);
		tbmodules_link(&w);
		tbmodules_sums(&w);
		tbmodules_roots(&w);
	}
	idmap_done(&w.ids);
	map_done(&w.totals);
	free(w.calls);
	free(w.order);
	free(w.sums);
	*ret = w.m;
	return 0;
}

void tbmodules_free(struct tbmodules *m)
{
	if (!m)
		return;
	free(m->modules);
	free(m);
}

const char *tbmodules_name(const struct tbtree *t, const struct tbmodules_module *m)
{
	const char *s = trace_text(t->rows->trace, m->name, NULL);
	size_t n = strlen(TBMODULES_PREFIX);

	return !strncmp(s, TBMODULES_PREFIX, n) ? s + n : s;
}
