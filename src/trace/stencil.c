/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil.c - the tree grows up to a fixed number of nodes and stays.
 */
#include "trace/stencil.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int stencil_init(struct stencil_tree *t)
{
	void *nodes;

	/* Nodes are cleared as they are added. */
	if (posix_memalign(&nodes, 64, STENCIL_NODES * sizeof(*t->nodes)))
		return -ENOMEM;
	t->nodes = nodes;
	t->nodes[0] = (struct stencil_node){.child = NULL};
	t->n = 1;
	return 0;
}

void stencil_done(struct stencil_tree *t)
{
	free(t->nodes);
	t->nodes = NULL;
}

struct stencil_node *stencil_add(struct stencil_tree *t, struct stencil_node *parent,
				 const unsigned char *text, size_t len)
{
	struct stencil_node *x;

	if (t->n == STENCIL_NODES || len > STENCIL_TEXT || parent->n_others == STENCIL_CHILDREN - 1)
		return NULL;
	x = &t->nodes[t->n++];
	*x = (struct stencil_node){.child = NULL};
	if (parent->child)
		parent->others[parent->n_others++] = parent->child;
	parent->child = x;
	memcpy(x->text, text, len);
	x->len = (uint8_t)len;
	return x;
}
