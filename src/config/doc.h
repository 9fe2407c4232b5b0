/* SPDX-License-Identifier: Apache-2.0
 *
 * doc.h - a YAML text as a tree of nodes that know their line and column. Small
 * and strict: UTF-8, one document, no anchors, aliases or tags, no key twice.
 */
#ifndef CONFIG_DOC_H
#define CONFIG_DOC_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOC_BYTES_MAX (1u << 20) /* of the text */
#define DOC_NODES_MAX 16384      /* keys and values, nested ones too */
#define DOC_DEPTH_MAX 16         /* mappings and lists inside each other */

enum doc_kind {
	DOC_SCALAR,
	DOC_MAP, /* children: key, value, key, value; keys are scalars */
	DOC_LIST
};

struct doc_node {
	enum doc_kind kind;
	bool plain;            /* a scalar without quotes: may be more than text */
	char *text;            /* of a scalar: UTF-8, owned by the doc; else NULL */
	unsigned line, column; /* where it begins, from 1 */
	uint32_t first, next;  /* first child, next sibling; 0: none */
};

struct doc {
	struct doc_node *nodes; /* [0] is none, [1] the root */
	uint32_t len;           /* 0 or 1: an empty document */
	size_t cap;
};

/* Read a whole text; name is what errors call it. 0; -EINVAL, -EFBIG and
 * "NAME:LINE:COLUMN: what is wrong" in *e. The doc is for doc_done() either way. */
int doc_parse(struct doc *d, const char *name, const char *text, size_t len, struct err *e);
void doc_done(struct doc *d);

/* Is it nothing: no node, or a plain null, ~ or empty scalar? */
bool doc_is_null(const struct doc_node *n);

/* Set *e to "NAME:LINE:COLUMN: ..."; returns -EINVAL. A long name is cut in front,
 * what a terminal would obey becomes '?'. */
int doc_error(struct err *e, const char *name, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#endif
