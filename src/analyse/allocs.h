/* SPDX-License-Identifier: Apache-2.0
 *
 * allocs.h - the allocator over time, by device: allocated and reserved bytes, their peaks,
 * what is reserved and not used, what was alive at the peak and which operator had made it.
 * docs/trace-numbers.md, "Memory over time". Needs profile_memory. Allocation failure aborts.
 */
#ifndef ANALYSE_ALLOCS_H
#define ANALYSE_ALLOCS_H

#include "analyse/tbmemory.h"

struct allocs_point {
	int64_t ts;                  /* ns, as in the trace */
	int64_t allocated, reserved; /* bytes after it; reserved TRACE_NONE where not told */
};

/* Blocks of one operator that were alive at the peak. */
struct allocs_owner {
	uint32_t name; /* text; 0: made by no operator in the trace */
	uint64_t blocks;
	int64_t bytes;
};

struct allocs_device {
	int32_t type, id;
	char name[32];
	bool is_relative; /* no "Total Allocated" in the trace: sums from 0 at its first event */
	struct allocs_point *points; /* by time */
	size_t n;
	int64_t peak, peak_ts;                   /* allocated */
	int64_t reserved_peak, reserved_peak_ts; /* TRACE_NONE where not told */
	/* Fragmentation: reserved less allocated, the largest and at the peak of allocated. */
	int64_t unused_peak, unused_peak_ts, unused_at_peak;
	uint64_t allocations, releases;
	int64_t allocated_bytes, released_bytes;
	uint64_t unknown_releases; /* of blocks from before the trace */
	uint64_t live;             /* blocks never released in it */
	int64_t live_bytes;
	int64_t growth;              /* allocated at the end less at the start */
	struct allocs_owner *owners; /* of what is alive at the peak, largest first */
	size_t n_owners;
	int64_t before_bytes; /* at the peak, of blocks from before the trace */
	int64_t capacity;     /* of the device; 0 not told */
};

struct allocs {
	struct allocs_device *devices;
	size_t n;
};

/* memory: of the same tree. */
int allocs_new(const struct tbtree *t, const struct tbmemory *m, struct allocs **ret);
void allocs_free(struct allocs *a); /* NULL is accepted */

#endif
