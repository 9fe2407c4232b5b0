/* SPDX-License-Identifier: Apache-2.0
 *
 * memories.h - memory events, packed in chunks. Within the budget all are resident; beyond it the
 * oldest are in the temporary file and read back when asked for.
 */
#ifndef TRACE_MEMORIES_H
#define TRACE_MEMORIES_H

#include "trace/spill.h"
#include "trace/trace.h"

struct memories {
	struct memories_place *places; /* of full chunks */
	uint32_t n_places, cap, spilled;
	struct trace_memory *open, *cache; /* the chunk being filled; one that is unpacked */
	unsigned char *scratch;            /* a packed one */
	uint32_t cached;                   /* which; UINT32_MAX none */
	uint64_t n, bytes, spilled_bytes;  /* events; held in all; in the file */
	struct spill *spill;               /* not owned */
};

void memories_init(struct memories *m, struct spill *spill);
void memories_done(struct memories *m);

/* 0, -ENOMEM. */
int memories_add(struct memories *m, const struct trace_memory *event);

/* Write the oldest chunks to the file until at most BYTES are held or only the open one is. 0,
 * -errno. */
int memories_spill(struct memories *m, uint64_t bytes);

/* Event i, until the next call; NULL: there is none, or it cannot be read back. */
const struct trace_memory *memories_get(struct memories *m, uint64_t i);

#endif
