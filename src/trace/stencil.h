/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil.h - what lies between the values of events. Writers print the same keys with the
 * same blanks over and over: each stretch of text from the end of one value to
 * the beginning of the next is kept in a tree once met, and compared at once the next
 * time. The values of ph and cat count as such text, so branches are kinds of events.
 */
#ifndef TRACE_STENCIL_H
#define TRACE_STENCIL_H

#include "trace/key.h"

#define STENCIL_TEXT 160u /* bytes of one stretch; longer ones are not kept */
#define STENCIL_PAD 32u   /* readable behind it */
#define STENCIL_NODES 1024u
#define STENCIL_CHILDREN 16u

struct stencil_node {
	struct stencil_node *child; /* the one that was hit last; NULL none */
	uint32_t mask;              /* of text: what the first compare must find (event.c) */
	uint16_t at;
	uint8_t op;     /* of the key */
	uint8_t len;    /* of text */
	uint8_t width;  /* of the value that was met last, if it was a number */
	bool is_marked; /* there is more to do than to read a value: one of the next */
	bool is_end;    /* the text closes the event; else a value of row follows */
	bool has_cat;   /* a cat is in the text */
	uint8_t phase;  /* value of ph in the text; 0 none */
	bool in_args;   /* the value is one of args */
	unsigned char text[STENCIL_TEXT + STENCIL_PAD];
	uint8_t n_others;
	uint32_t cat_text; /* its id */
	uint64_t met[2];   /* keys up to here: of the event, of args */
	uint64_t history;  /* of texts that were its value, 8 bits each: context of guesses */
	struct stencil_node *others[STENCIL_CHILDREN - 1];
} __attribute__((aligned(64)));

struct stencil_tree {
	struct stencil_node *nodes; /* [0] is the root */
	unsigned n;
};

/* 0, -ENOMEM. */
int stencil_init(struct stencil_tree *t);
void stencil_done(struct stencil_tree *t);

/* A new child of a node with this text; NULL: the tree is full, or the text too long. */
struct stencil_node *stencil_add(struct stencil_tree *t, struct stencil_node *parent,
				 const unsigned char *text, size_t len);

#endif
