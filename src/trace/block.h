/* SPDX-License-Identifier: Apache-2.0
 *
 * block.h - the columns of a trace, block by block: packed in memory, and past a budget in
 * a temporary file that has no name. One at a time is being filled; a few are unpacked.
 */
#ifndef TRACE_BLOCK_H
#define TRACE_BLOCK_H

#include "trace/trace.h"

#define BLOCK_CACHE 3u /* blocks unpacked at a time, besides the one being filled */

struct block_place {
	void *packed; /* NULL: in the file, or not packed yet */
	uint64_t offset;
	uint32_t size;
};

struct block_list {
	struct block_place *places;
	uint32_t n, cap;
	uint32_t spilled; /* the first so many are in the file */
	uint64_t rows;
	uint64_t bytes; /* resident */
	uint64_t spilled_bytes;
	struct spill *spill;      /* not owned */
	struct trace_block *open; /* block n - 1, being filled */
	uint64_t *scratch;        /* of packing */
	struct trace_block *cache[BLOCK_CACHE];
	uint32_t cached[BLOCK_CACHE]; /* which they are */
	unsigned cache_next;
};

/* One row as it is read. */
struct block_row {
	int64_t ts, dur, correlation, external;
	uint32_t index, name, args;
	int32_t stream;
	uint16_t track;
	uint8_t cat, flags;
};

void block_init(struct block_list *l, struct spill *spill);
void block_done(struct block_list *l);

/* Begin the next block. 0, -ENOMEM, -E2BIG (TRACE_ROWS_MAX). */
int block_next(struct block_list *l);

/* No more rows will come. */
void block_close(struct block_list *l);

/* Append; as block_next(). */
static inline int block_append(struct block_list *l, const struct block_row *r)
{
	uint32_t i = l->rows % TRACE_BLOCK_ROWS;
	struct trace_block *b;
	int rc;

	if (!i) {
		rc = block_next(l);
		if (rc)
			return rc;
	}
	b = l->open;
	b->ts[i] = r->ts;
	b->dur[i] = r->dur;
	b->correlation[i] = r->correlation;
	b->external[i] = r->external;
	b->index[i] = r->index;
	b->name[i] = r->name;
	b->args[i] = r->args;
	b->stream[i] = r->stream;
	b->track[i] = r->track;
	b->cat[i] = r->cat;
	b->flags[i] = r->flags;
	l->rows++;
	return 0;
}

/* Write the oldest packed blocks to the file until at most BYTES are resident, or none is
 * left. 0, -errno of the file (-ENOSPC). */
int block_spill(struct block_list *l, uint64_t bytes);

/* Block k; NULL if there is none, or if it cannot be read back. *ret_fresh: it has just been
 * unpacked. Valid until another is asked for. */
struct trace_block *block_get(struct block_list *l, uint32_t k, bool *ret_fresh);
/* Forget what is unpacked. */
void block_forget(struct block_list *l);

#endif
