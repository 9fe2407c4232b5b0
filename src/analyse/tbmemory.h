/* SPDX-License-Identifier: Apache-2.0
 *
 * tbmemory.h - torch-tb-profiler's memory view: what each operator allocated and released, by
 * device, and the peaks. docs/trace-numbers.md, "Memory". All in bytes.
 */
#ifndef ANALYSE_TBMEMORY_H
#define ANALYSE_TBMEMORY_H

#include "analyse/tbtree.h"

enum tbmemory_number {
	TBMEMORY_SELF_INCREASE, /* allocated less released */
	TBMEMORY_SELF_SIZE,     /* allocated */
	TBMEMORY_SELF_COUNT,    /* allocations */
	TBMEMORY_INCREASE,      /* the same with the operators that it calls */
	TBMEMORY_SIZE,
	TBMEMORY_COUNT,
	TBMEMORY_NUMBERS
};

struct tbmemory_op {
	uint32_t name;
	int64_t numbers[TBMEMORY_NUMBERS];
	uint64_t calls;
};

struct tbmemory_device {
	int32_t type, id;        /* as in struct trace_memory */
	char name[32];           /* "CPU", "GPU0"; "" for a type that the plugin does not know */
	int64_t peak;            /* largest "Total Allocated"; TRACE_NONE where none is told */
	struct tbmemory_op *ops; /* those with a number that is not 0, by their first end */
	size_t n;
};

struct tbmemory {
	struct tbmemory_device *devices; /* in the order of their first event */
	size_t n;
	struct trace_memory *events; /* of the rows' part, by time, then as in the file */
	uint32_t *node_of;           /* by event: node of the tree around it, TBTREE_NIL */
	size_t n_events;
	uint64_t stray; /* events in no operator */
};

/* 0, or -EIO: the trace's temporary file cannot be read. */
int tbmemory_new(const struct tbtree *t, struct tbmemory **ret);
void tbmemory_free(struct tbmemory *m); /* NULL is accepted */

#endif
