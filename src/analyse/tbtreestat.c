/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtreestat.c - launches by time, operators of one name made one, and the sums. The sums are
 * made in the reference's order: in us they are doubles with their rounding.
 */
#include "analyse/tbtree_priv.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t tbtree_first(const struct tbtree *t, uint32_t root)
{
	uint32_t n = root;

	while (t->nodes[n].child != TBTREE_NIL)
		n = t->nodes[n].child;
	return n;
}

uint32_t tbtree_next(const struct tbtree *t, uint32_t node, uint32_t root)
{
	if (node == root)
		return TBTREE_NIL;
	if (t->nodes[node].next != TBTREE_NIL)
		return tbtree_first(t, t->nodes[node].next);
	return t->nodes[node].parent;
}

static void tbtree_launch_give(struct tbtree *t, uint32_t node, uint32_t launch)
{
	struct tbtree_node *n = &t->nodes[node];

	t->launches[launch].next = TBTREE_NIL;
	t->launches[launch].in_tree = true;
	t->launches[launch].outer = node;
	if (n->launch == TBTREE_NIL)
		n->launch = launch;
	else
		t->launches[n->last_launch].next = launch;
	n->last_launch = launch;
}

/* The innermost node around [ts, end) from `at` on; cursor: by node, next child to look at.
 * Launches come in the order of their start, so both only go forward. */
static uint32_t tbtree_around(const struct tbtree *t, uint32_t root, uint32_t at, uint32_t *cursor,
			      const struct tbtree_launch *l)
{
	const struct tbtree_node *n = t->nodes;
	uint32_t c;

	while (at != root && (l->ts >= n[at].end || l->end > n[at].end))
		at = n[at].parent;
	for (;;) {
		c = cursor[at];
		while (c != TBTREE_NIL && n[c].end <= l->ts)
			c = n[c].next;
		cursor[at] = c;
		if (c == TBTREE_NIL || n[c].ts > l->ts || l->end > n[c].end)
			return at;
		at = c;
	}
}

void tbtree_outer(struct tbtree *t)
{
	uint32_t *cursor = xcalloc((size_t)t->n + 1, sizeof(*cursor));
	uint32_t *root = xcalloc(t->rows->n_lanes, sizeof(*root));
	uint32_t *at = xcalloc(t->rows->n_lanes, sizeof(*at));
	uint32_t i, lane;
	size_t r;

	for (i = 0; i < t->n; i++)
		cursor[i] = t->nodes[i].child;
	memset(root, 0xff, t->rows->n_lanes * sizeof(*root));
	for (r = 0; r < t->n_roots; r++) {
		lane = (uint32_t)t->nodes[t->roots[r].node].lane;
		root[lane] = at[lane] = t->roots[r].node;
	}
	for (i = 0; i < t->n_launches; i++) {
		lane = (uint32_t)t->rows->rows[t->launches[i].row].lane;
		if (t->launches[i].in_tree || root[lane] == TBTREE_NIL)
			continue;
		at[lane] = tbtree_around(t, root[lane], at[lane], cursor, &t->launches[i]);
		tbtree_launch_give(t, at[lane], i);
	}
	free(cursor);
	free(root);
	free(at);
}

/* Whether node has one child, of its name, both operators. */
static bool tbtree_is_double(const struct tbtree *t, uint32_t node)
{
	const struct tbrows_row *rows = t->rows->rows;
	const struct tbtree_node *n = &t->nodes[node], *c;

	if (n->dropped || n->child == TBTREE_NIL || n->child != n->last_child)
		return false;
	c = &t->nodes[n->child];
	return rows[n->row].name == rows[c->row].name && rows[n->row].type == TBROWS_OPERATOR &&
	       rows[c->row].type == TBROWS_OPERATOR;
}

static void tbtree_make_one(struct tbtree *t, uint32_t node)
{
	struct tbtree_node *n = &t->nodes[node], *c = &t->nodes[n->child];
	uint32_t i;

	c->dropped = true;
	/* The plugin forgets the launches of the outer one. */
	if (t->rows->variant == TBROWS_PLUGIN || n->launch == TBTREE_NIL) {
		n->launch = c->launch;
		n->last_launch = c->last_launch;
	} else if (c->launch != TBTREE_NIL) {
		t->launches[n->last_launch].next = c->launch;
		n->last_launch = c->last_launch;
	}
	c->launch = TBTREE_NIL;
	n->child = c->child;
	n->last_child = c->last_child;
	for (i = n->child; i != TBTREE_NIL; i = t->nodes[i].next)
		t->nodes[i].parent = node;
}

void tbtree_collapse(struct tbtree *t)
{
	uint32_t i;

	for (i = 0; i < t->n_ops; i++) {
		while (tbtree_is_double(t, i))
			tbtree_make_one(t, i);
	}
}

/* Times of a launch's work, and whose work it is. */
static void tbtree_stat_launch(struct tbtree *t, uint32_t launch, uint32_t node)
{
	struct tbtree_launch *l = &t->launches[launch];
	const struct tbrows_row *r;
	uint32_t k;

	for (k = l->work; k != TBTREE_NIL; k = t->work[k].next) {
		r = &t->rows->rows[t->work[k].row];
		t->work[k].op = node;
		t->work[k].op_tc_eligible = t->nodes[node].tc_eligible;
		l->device += r->end - r->ts;
		l->tc += t->work[k].is_tc ? r->end - r->ts : 0;
	}
}

static void tbtree_stat_launches(struct tbtree *t, uint32_t node)
{
	struct tbtree_node *n = &t->nodes[node];
	bool is_op = n->row != TBTREE_NIL && t->rows->rows[n->row].type == TBROWS_OPERATOR;
	const struct tbtree_launch *l;
	uint32_t i;

	for (i = n->launch; i != TBTREE_NIL; i = t->launches[i].next) {
		l = &t->launches[i];
		n->self_host -= l->end - l->ts;
		n->device += l->device;
		n->self_device += l->device;
		n->tc_self += l->tc;
		n->tc_total += l->tc;
		if (is_op && l->tc > 0)
			n->tc_eligible = true;
	}
}

static void tbtree_stat_node(struct tbtree *t, uint32_t node)
{
	struct tbtree_node *n = &t->nodes[node];
	bool is_op = n->row != TBTREE_NIL && t->rows->rows[n->row].type == TBROWS_OPERATOR;
	const struct tbtree_node *c;
	uint32_t i;

	for (i = n->launch; i != TBTREE_NIL; i = t->launches[i].next)
		tbtree_stat_launch(t, i, node);
	n->self_host = n->end - n->ts;
	for (i = n->child; i != TBTREE_NIL; i = c->next) {
		c = &t->nodes[i];
		n->device += c->device;
		n->self_host -= c->end - c->ts;
		n->tc_total += c->tc_total;
		if (is_op && c->tc_eligible)
			n->tc_eligible = true;
	}
	tbtree_stat_launches(t, node);
	if (n->kind != TBTREE_MODULE)
		return;
	for (i = n->child; i != TBTREE_NIL; i = t->nodes[i].next)
		n->self_device += t->nodes[i].is_operator ? t->nodes[i].device : 0;
}

/* The root: work of external id 0 and the kernels without launch are its own. */
static void tbtree_stat_root(struct tbtree *t, const struct tbtree_root *r)
{
	struct tbtree_node *n = &t->nodes[r->node];
	size_t i;

	for (i = 0; i < r->n_zero; i++)
		tbtree_stat_launch(t, r->zero[i], r->node);
	for (i = 0; r->has_stray && i < t->n_stray; i++)
		t->work[t->stray[i]].op = r->node;
	n->ts = n->child == TBTREE_NIL ? NAN : t->nodes[n->child].ts;
	n->end = n->child == TBTREE_NIL ? NAN : t->nodes[n->last_child].end;
}

void tbtree_stat(struct tbtree *t)
{
	uint32_t node, root;
	size_t i;

	for (i = 0; i < t->n_roots; i++) {
		root = t->roots[i].node;
		for (node = tbtree_first(t, root); node != TBTREE_NIL;
		     node = tbtree_next(t, node, root))
			tbtree_stat_node(t, node);
		tbtree_stat_root(t, &t->roots[i]);
	}
}
