/* SPDX-License-Identifier: Apache-2.0
 *
 * nest.h - which call lies within which: the rows of each thread of the host as trees. The
 * order of ends at equal times decides, and the references have two orders of their own.
 */
#ifndef ANALYSE_NEST_H
#define ANALYSE_NEST_H

#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nest_order {
	/* By start, the longer first, then by place in the file. A row that begins where another
	 * ends is beside it; one that ends after its parent is cut there (counted in cut). */
	NEST_EXACT,
	/* Those of HTA 0.6.1: common/call_stack.py (critical path) and
	 * common/trace_call_stack.py (kernel sequences). Every end closes what is open. */
	NEST_HTA_STACK,
	NEST_HTA_GRAPH
};

struct nest_thread {
	uint32_t first, end; /* nodes [first, end) */
	uint16_t track;
};

/* Nodes in depth-first order: a node's descendants are the nodes behind it up to end[]. */
struct nest {
	uint32_t *row;   /* in view->rows */
	int32_t *parent; /* node; -1 at the top */
	int32_t *depth;  /* 0 at the top */
	uint32_t *end;   /* node behind the last descendant */
	int64_t *self;   /* ns of the row not in a child (NEST_EXACT only, else NULL) */
	uint32_t n;
	struct nest_thread *threads; /* by track */
	size_t n_threads;
	uint64_t cut; /* rows that ran past their parent's end */
};

struct nest_options {
	enum nest_order order;
	/* Which rows; NULL: calls of the host (nest_is_call). */
	bool (*want)(void *arg, uint32_t row, const struct view_row *r);
	void *arg;
	/* For each track of the trace the track whose thread it joins; NULL: its own. */
	const uint16_t *join;
};

/* A call of the host: no work of a device, no wait of a stream, no annotation of a device. */
bool nest_is_call(const struct view *v, const struct view_row *r);

/* 0 or -ENOMEM. */
int nest_new(const struct view *v, const struct nest_options *o, struct nest **ret);
void nest_free(struct nest *t); /* NULL is accepted */

/* The own time of each row in the order NEST_EXACT, without the tree: fn is called once a row of
 * the view, when it has ended; self is its length where it is no call. Needs memory for open
 * rows only. 0 or -ENOMEM. */
int nest_self(const struct view *v, void (*fn)(void *arg, const struct view_row *r, int64_t self),
	      void *arg);

#endif
