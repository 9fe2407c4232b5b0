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
	t->nodes = calloc(STENCIL_NODES, sizeof(*t->nodes));
	t->n = 1;
	return t->nodes ? 0 : -ENOMEM;
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

	if (t->n == STENCIL_NODES || len > STENCIL_TEXT || parent->n_children == STENCIL_CHILDREN)
		return NULL;
	x = &t->nodes[t->n];
	parent->children[parent->n_children++] = (uint16_t)t->n++;
	memcpy(x->text, text, len);
	x->len = (uint8_t)len;
	return x;
}
