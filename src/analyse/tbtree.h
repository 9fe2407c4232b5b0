/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtree.h - operators of each thread as trees, with the launches (runtime calls) and the GPU
 * work that belong to them. docs/trace-numbers.md, "Operator tree".
 *
 * Launches belong to the operator of the same external id (exact: those without one to the
 * innermost operator around them on their thread); GPU work belongs to the launch of the same
 * correlation. An operator with a single child of the same name is one with it.
 * Allocation failure aborts.
 */
#ifndef ANALYSE_TBTREE_H
#define ANALYSE_TBTREE_H

#include "analyse/tbrows.h"

#define TBTREE_NIL UINT32_MAX

enum tbtree_kind {
	TBTREE_ROOT, /* "CallTreeRoot": one per thread */
	TBTREE_OPERATOR,
	TBTREE_STEP,
	TBTREE_MODULE,
	TBTREE_LOADER,
	TBTREE_OPTIMIZER
};

struct tbtree_node {
	double ts, end;
	double self_host, device, self_device, tc_self, tc_total;
	uint32_t row;                     /* in tbrows.rows; TBTREE_NIL for roots */
	uint32_t parent;                  /* TBTREE_NIL for roots */
	uint32_t child, last_child, next; /* first and last child, next sibling */
	uint32_t launch, last_launch;     /* list by tbtree_launch.next */
	int32_t lane;
	uint8_t kind; /* enum tbtree_kind */
	bool tc_eligible;
	bool is_operator; /* shown in the operator view */
	bool dropped;     /* made one with its parent, or not within its parent (plugin) */
};

struct tbtree_launch {
	double ts, end, device, tc;
	uint32_t row;
	uint32_t work, last_work; /* list by tbtree_work.next */
	uint32_t next;            /* of the same operator */
	uint32_t outer;           /* exact: the operator it lies in, TBTREE_NIL */
	bool in_tree;             /* an operator or a root has it */
};

struct tbtree_work {
	uint32_t row;
	uint32_t next;
	uint32_t op;     /* node that launched it; TBTREE_NIL */
	uint32_t launch; /* TBTREE_NIL */
	bool op_tc_eligible;
	bool is_tc;
};

struct tbtree_root {
	uint32_t node;
	bool has_stray; /* the kernels without launch are shown here */
	uint32_t *zero; /* launches of external id 0 */
	size_t n_zero;
};

struct tbtree {
	const struct tbrows *rows; /* not owned */
	struct tbtree_node *nodes;
	uint32_t n, n_ops;              /* roots are behind the n_ops nodes of rows */
	struct tbtree_launch *launches; /* by ts */
	uint32_t n_launches;
	struct tbtree_work *work; /* by ts */
	uint32_t n_work;
	uint32_t *stray; /* work[] of kernels without launch */
	size_t n_stray;
	struct tbtree_root *roots; /* in the order of threads' first operators */
	size_t n_roots;
	uint64_t crossing; /* operators that overlap their neighbour without lying in it */
};

int tbtree_new(const struct tbrows *b, struct tbtree **ret);
void tbtree_free(struct tbtree *t); /* NULL is accepted */

/* Children before parents: the first node of a root's tree, the next one; TBTREE_NIL at the
 * end (behind the root). */
uint32_t tbtree_first(const struct tbtree *t, uint32_t root);
uint32_t tbtree_next(const struct tbtree *t, uint32_t node, uint32_t root);

#endif
