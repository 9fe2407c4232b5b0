/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtree.c - nodes, launches and work in one walk over the rows; then a stack per thread.
 * tbtreestat.c sums the times up.
 */
#include "analyse/tbtree.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "analyse/tbtree_priv.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is known while the rows are walked. */
struct tbtree_walk {
	struct tbtree *t;
	struct idmap launches; /* correlation -> latest launch */
	struct idmap pending;  /* correlation -> first work that waits for its launch */
	struct idmap external; /* external id -> first launch; IDMAP_NONE once taken */
	uint32_t *ext_last;    /* by launch: last launch of its list, kept at the first */
	uint32_t *zero;        /* launches of external id 0 */
	size_t n_zero, cap_zero;
	uint32_t *lane_first, *lane_last, *lane_next; /* operators by lane; next by node */
	int32_t *lane_order;                          /* lanes in the order of appearance */
	size_t n_lanes;
};

static void tbtree_work_add(struct tbtree_walk *w, uint32_t row)
{
	struct tbtree *t = w->t;
	const struct tbrows_row *r = &t->rows->rows[row];
	uint16_t tc = t->rows->variant == TBROWS_PLUGIN ? TBNAMES_TC_PLUGIN : TBNAMES_TC;
	uint32_t me = t->n_work++, launch = idmap_get(&w->launches, r->correlation), *wait;
	struct tbtree_work *k = &t->work[me];
	struct tbtree_launch *l;

	k->row = row;
	k->next = k->op = k->launch = TBTREE_NIL;
	k->is_tc = (tbrows_names(t->rows, r->name) & tc) &&
		   (t->rows->variant == TBROWS_PLUGIN || r->type == TBROWS_KERNEL);
	if (t->rows->variant == TBROWS_EXACT && r->correlation == TRACE_NONE)
		launch = IDMAP_NONE;
	if (launch != IDMAP_NONE) {
		l = &t->launches[launch];
		k->launch = launch;
		if (l->work == TBTREE_NIL)
			l->work = me;
		else
			t->work[l->last_work].next = me;
		l->last_work = me;
		return;
	}
	wait = idmap_at(&w->pending, r->correlation);
	/* Newest first; turned round when the launch comes or at the end. */
	k->next = *wait == IDMAP_NONE ? TBTREE_NIL : *wait;
	*wait = me;
}

/* Work that came before its launch: by start, the longer first. */
static void tbtree_adopt(struct tbtree_walk *w, uint32_t launch, int64_t correlation)
{
	struct tbtree *t = w->t;
	uint32_t *wait = idmap_at(&w->pending, correlation), k, next, *at;
	const struct tbrows_row *rows = t->rows->rows, *a, *b;

	if (*wait == IDMAP_NONE)
		return;
	for (k = *wait; k != TBTREE_NIL; k = next) {
		next = t->work[k].next;
		t->work[k].launch = launch;
		for (at = &t->launches[launch].work; *at != TBTREE_NIL; at = &t->work[*at].next) {
			a = &rows[t->work[k].row];
			b = &rows[t->work[*at].row];
			if (a->ts < b->ts || (a->ts == b->ts && a->end >= b->end))
				break;
		}
		t->work[k].next = *at;
		*at = k;
	}
	*wait = IDMAP_NONE;
	for (k = t->launches[launch].work; k != TBTREE_NIL; k = t->work[k].next)
		t->launches[launch].last_work = k;
}

static void tbtree_launch_add(struct tbtree_walk *w, uint32_t row)
{
	struct tbtree *t = w->t;
	const struct tbrows_row *r = &t->rows->rows[row];
	uint32_t me = t->n_launches++, *first;
	struct tbtree_launch *l = &t->launches[me];

	l->ts = r->ts;
	l->end = r->end;
	l->row = row;
	l->work = l->last_work = l->next = l->outer = TBTREE_NIL;
	if (t->rows->variant == TBROWS_PLUGIN || r->correlation != TRACE_NONE) {
		tbtree_adopt(w, me, r->correlation);
		*idmap_at(&w->launches, r->correlation) = me;
	}
	if (t->rows->variant == TBROWS_PLUGIN || r->external > 0) {
		first = idmap_at(&w->external, r->external);
		if (*first == IDMAP_NONE)
			*first = me;
		else
			t->launches[w->ext_last[*first]].next = me;
		w->ext_last[*first] = me;
	}
	if (r->external == 0 && t->rows->variant == TBROWS_PLUGIN) {
		if (w->n_zero == w->cap_zero)
			w->zero = xgrow(w->zero, w->n_zero, &w->cap_zero, sizeof(*w->zero));
		w->zero[w->n_zero++] = me;
	}
}

/* Kind of the node of a row; TBTREE_ROOT if it makes none. */
static enum tbtree_kind tbtree_kind_of(const struct tbrows *b, const struct tbrows_row *r)
{
	uint16_t f = tbrows_names(b, r->name);
	bool comm = f & (TBNAMES_NCCL | TBNAMES_GLOO);

	switch (r->type) {
	case TBROWS_STEP:
		return TBTREE_STEP;
	case TBROWS_MODULE:
		return TBTREE_MODULE;
	case TBROWS_OPERATOR:
	case TBROWS_ANNOTATION:
		if (f & TBNAMES_LOADER)
			return TBTREE_LOADER;
		if (f & TBNAMES_OPTIMIZER)
			return TBTREE_OPTIMIZER;
		return r->type == TBROWS_OPERATOR || comm ? TBTREE_OPERATOR : TBTREE_ROOT;
	default:
		return TBTREE_ROOT;
	}
}

static void tbtree_node_add(struct tbtree_walk *w, uint32_t row)
{
	struct tbtree *t = w->t;
	const struct tbrows_row *r = &t->rows->rows[row];
	enum tbtree_kind kind = tbtree_kind_of(t->rows, r);
	uint16_t f = tbrows_names(t->rows, r->name);
	uint32_t me = t->n;
	struct tbtree_node *n = &t->nodes[me];

	if (kind == TBTREE_ROOT)
		return;
	t->n++;
	n->ts = r->ts;
	n->end = r->end;
	n->row = row;
	n->parent = n->child = n->last_child = n->next = n->launch = n->last_launch = TBTREE_NIL;
	n->lane = r->lane;
	n->kind = (uint8_t)kind;
	n->tc_eligible = f & TBNAMES_TC_OP;
	n->is_operator =
		kind == TBTREE_OPERATOR && r->type == TBROWS_OPERATOR && !(f & TBNAMES_NOT_OP);
	w->lane_next[me] = TBTREE_NIL;
	if (w->lane_first[r->lane] == TBTREE_NIL) {
		w->lane_order[w->n_lanes++] = r->lane;
		w->lane_first[r->lane] = me;
	} else {
		w->lane_next[w->lane_last[r->lane]] = me;
	}
	w->lane_last[r->lane] = me;
}

/* Launches go to the first operator of their external id, threads in order of appearance. */
static void tbtree_external(struct tbtree_walk *w)
{
	struct tbtree *t = w->t;
	const struct tbrows_row *r;
	struct tbtree_node *n;
	uint32_t i, first, *at;
	int64_t external;
	size_t k;

	for (k = 0; k < w->n_lanes; k++) {
		for (i = w->lane_first[w->lane_order[k]]; i != TBTREE_NIL; i = w->lane_next[i]) {
			n = &t->nodes[i];
			r = &t->rows->rows[n->row];
			external = n->kind == TBTREE_MODULE ? TRACE_NONE : r->external;
			if (t->rows->variant == TBROWS_EXACT && external == TRACE_NONE)
				continue;
			if (idmap_get(&w->external, external) == IDMAP_NONE)
				continue;
			at = idmap_at(&w->external, external);
			first = *at;
			*at = IDMAP_NONE;
			n->launch = first;
			n->last_launch = w->ext_last[first];
			for (; first != TBTREE_NIL; first = t->launches[first].next)
				t->launches[first].in_tree = true;
		}
	}
}

static void tbtree_child_add(struct tbtree *t, uint32_t parent, uint32_t child)
{
	struct tbtree_node *p = &t->nodes[parent];

	t->nodes[child].parent = parent;
	t->nodes[child].next = TBTREE_NIL;
	if (p->child == TBTREE_NIL)
		p->child = child;
	else
		t->nodes[p->last_child].next = child;
	p->last_child = child;
}

struct tbtree_sorted {
	double ts, end;
	uint32_t node;
};

/* Rows come by start: of equal ones the longer first, then as in the file. */
static void tbtree_order(struct tbtree_sorted *s, size_t n)
{
	struct tbtree_sorted one;
	size_t i, k;

	for (i = 1; i < n; i++) {
		one = s[i];
		for (k = i; k > 0 && s[k - 1].ts == one.ts && s[k - 1].end < one.end; k--)
			s[k] = s[k - 1];
		s[k] = one;
	}
}

/* Put the sorted nodes of one thread under its root. */
static void tbtree_nest(struct tbtree *t, uint32_t root, const struct tbtree_sorted *s, size_t n)
{
	bool plugin = t->rows->variant == TBROWS_PLUGIN;
	uint32_t top = root;
	size_t i;

	for (i = 0; i < n; i++) {
		while (s[i].ts >= t->nodes[top].end && top != root)
			top = t->nodes[top].parent;
		if (s[i].end > t->nodes[top].end && top != root) {
			t->crossing++;
			if (plugin) {
				t->nodes[s[i].node].dropped = true;
				continue;
			}
			while (s[i].end > t->nodes[top].end && top != root)
				top = t->nodes[top].parent;
		}
		tbtree_child_add(t, top, s[i].node);
		top = s[i].node;
	}
}

/* A new root; it spans all times until tbtree_stat() narrows it. */
static uint32_t tbtree_root_new(struct tbtree *t, int32_t lane)
{
	struct tbtree_node *n = &t->nodes[t->n];

	n->ts = -INFINITY;
	n->end = INFINITY;
	n->row = n->parent = n->child = n->last_child = n->next = TBTREE_NIL;
	n->launch = n->last_launch = TBTREE_NIL;
	n->lane = lane;
	n->kind = TBTREE_ROOT;
	return t->n++;
}

static void tbtree_root_zero(struct tbtree_walk *w, struct tbtree_root *root, int32_t lane)
{
	struct tbtree *t = w->t;
	size_t i;

	for (i = 0; i < w->n_zero; i++) {
		if (t->rows->rows[t->launches[w->zero[i]].row].lane != lane)
			continue;
		root->zero = xrealloc(root->zero, root->n_zero + 1, sizeof(*root->zero));
		root->zero[root->n_zero++] = w->zero[i];
		t->launches[w->zero[i]].in_tree = true;
	}
}

static void tbtree_lane(struct tbtree_walk *w, int32_t lane, struct tbtree_root *root,
			struct tbtree_sorted *s)
{
	struct tbtree *t = w->t;
	uint32_t i;
	size_t n = 0;

	for (i = w->lane_first[lane]; i != TBTREE_NIL; i = w->lane_next[i]) {
		s[n].ts = t->nodes[i].ts;
		s[n].end = t->nodes[i].end;
		s[n++].node = i;
		root->has_stray = root->has_stray || t->nodes[i].kind == TBTREE_STEP;
	}
	tbtree_order(s, n);
	root->node = tbtree_root_new(t, lane);
	tbtree_root_zero(w, root, lane);
	tbtree_nest(t, root->node, s, n);
}

/* Kernels whose launch never came, by correlation in the order of appearance. */
static void tbtree_strays(struct tbtree_walk *w)
{
	struct tbtree *t = w->t;
	const struct tbrows_row *rows = t->rows->rows;
	uint32_t i, k, wait;
	size_t from, a, b;

	t->stray = xcalloc(t->n_work + 1, sizeof(*t->stray));
	for (i = 0; i < t->n_work; i++) {
		if (t->work[i].launch != TBTREE_NIL)
			continue;
		wait = idmap_get(&w->pending, rows[t->work[i].row].correlation);
		if (wait == IDMAP_NONE)
			continue; /* its list was taken with an earlier one */
		from = t->n_stray;
		for (k = wait; k != TBTREE_NIL; k = t->work[k].next) {
			if (rows[t->work[k].row].type == TBROWS_KERNEL)
				t->stray[t->n_stray++] = k;
		}
		for (a = from, b = t->n_stray; a + 1 < b; a++, b--) {
			k = t->stray[a];
			t->stray[a] = t->stray[b - 1];
			t->stray[b - 1] = k;
		}
		*idmap_at(&w->pending, rows[t->work[i].row].correlation) = IDMAP_NONE;
	}
}

static void tbtree_walk_rows(struct tbtree_walk *w)
{
	const struct tbrows *b = w->t->rows;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		switch (b->rows[i].type) {
		case TBROWS_KERNEL:
		case TBROWS_MEMCPY:
		case TBROWS_MEMSET:
			tbtree_work_add(w, i);
			break;
		case TBROWS_RUNTIME:
			tbtree_launch_add(w, i);
			break;
		default:
			tbtree_node_add(w, i);
			break;
		}
	}
}

static void tbtree_walk_init(struct tbtree_walk *w, struct tbtree *t)
{
	const struct tbrows *b = t->rows;

	memset(w, 0, sizeof(*w));
	w->t = t;
	idmap_init(&w->launches);
	idmap_init(&w->pending);
	idmap_init(&w->external);
	w->ext_last = xcalloc(b->count[TBROWS_RUNTIME] + 1, sizeof(*w->ext_last));
	w->lane_first = xrealloc(NULL, b->n_lanes, sizeof(*w->lane_first));
	memset(w->lane_first, 0xff, b->n_lanes * sizeof(*w->lane_first));
	w->lane_last = xcalloc(b->n_lanes, sizeof(*w->lane_last));
	w->lane_order = xcalloc(b->n_lanes, sizeof(*w->lane_order));
}

static void tbtree_walk_done(struct tbtree_walk *w)
{
	idmap_done(&w->launches);
	idmap_done(&w->pending);
	idmap_done(&w->external);
	free(w->ext_last);
	free(w->zero);
	free(w->lane_first);
	free(w->lane_last);
	free(w->lane_order);
	free(w->lane_next);
}

static struct tbtree *tbtree_alloc(const struct tbrows *b, uint64_t nodes)
{
	struct tbtree *t = xcalloc(1, sizeof(*t));

	t->rows = b;
	t->nodes = xcalloc(nodes + 1, sizeof(*t->nodes));
	t->launches = xcalloc(b->count[TBROWS_RUNTIME] + 1, sizeof(*t->launches));
	t->work = xcalloc(b->count[TBROWS_KERNEL] + b->count[TBROWS_MEMCPY] +
				  b->count[TBROWS_MEMSET] + 1,
			  sizeof(*t->work));
	return t;
}

int tbtree_new(const struct tbrows *b, struct tbtree **ret)
{
	struct tbtree *t = tbtree_alloc(b, b->count[TBROWS_OPERATOR] + b->count[TBROWS_STEP] +
						   b->count[TBROWS_ANNOTATION] +
						   b->count[TBROWS_MODULE] + b->n_lanes);
	struct tbtree_sorted *sorted;
	struct tbtree_walk w;
	size_t i;

	tbtree_walk_init(&w, t);
	w.lane_next = xcalloc(b->n + 1, sizeof(*w.lane_next));
	tbtree_walk_rows(&w);
	tbtree_external(&w);
	tbtree_strays(&w);
	t->n_ops = t->n;
	t->roots = xcalloc(w.n_lanes + 1, sizeof(*t->roots));
	t->n_roots = w.n_lanes;
	sorted = xcalloc(t->n_ops + 1, sizeof(*sorted));
	for (i = 0; i < w.n_lanes; i++)
		tbtree_lane(&w, w.lane_order[i], &t->roots[i], sorted);
	free(sorted);
	if (b->variant == TBROWS_EXACT)
		tbtree_outer(t);
	tbtree_walk_done(&w);
	tbtree_collapse(t);
	tbtree_stat(t);
	*ret = t;
	return 0;
}

void tbtree_free(struct tbtree *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->n_roots; i++)
		free(t->roots[i].zero);
	free(t->roots);
	free(t->nodes);
	free(t->launches);
	free(t->work);
	free(t->stray);
	free(t);
}
