/* SPDX-License-Identifier: Apache-2.0
 *
 * shape.c - the tree grows up to a fixed number of nodes and stays.
 */
#include "trace/shape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int shape_init(struct shape_tree *t)
{
	t->nodes = calloc(SHAPE_NODES, sizeof(*t->nodes));
	t->n = 1;
	return t->nodes ? 0 : -ENOMEM;
}

void shape_done(struct shape_tree *t)
{
	free(t->nodes);
	t->nodes = NULL;
}

struct shape_node *shape_add(struct shape_tree *t, struct shape_node *parent,
			     const unsigned char *text, size_t len)
{
	struct shape_node *x;

	if (t->n == SHAPE_NODES || len > SHAPE_TEXT || parent->n_children == SHAPE_CHILDREN)
		return NULL;
	x = &t->nodes[t->n];
	parent->children[parent->n_children++] = (uint16_t)t->n++;
	memcpy(x->text, text, len);
	x->len = (uint8_t)len;
	return x;
}
