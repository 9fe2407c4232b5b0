/* SPDX-License-Identifier: Apache-2.0
 *
 * import_snapshot.h - a CUDA memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot):
 * what is reserved, what lives in it by the stack that allocated it, and how allocations went
 * over time. Read as data (import_value.h), nothing is run.
 */
#ifndef TRACE_IMPORT_SNAPSHOT_H
#define TRACE_IMPORT_SNAPSHOT_H

#include "trace/import_folded.h"
#include "trace/import_value.h"

#define IMPORT_DEVICES_MAX 64

struct import_snapshot_device {
	int64_t device;
	uint64_t segments, blocks, live; /* live: blocks that are allocated */
	int64_t reserved;                /* bytes of all segments */
	int64_t allocated;               /* bytes of live blocks */
	int64_t pending;                 /* bytes freed by the program, still waited for */
	int64_t free;                    /* bytes of segments in no live or pending block */
	int64_t largest_free;            /* the largest free piece: fragmentation */
	int64_t requested;               /* bytes asked for of live blocks; 0 not recorded */
	/* Of the recorded history: */
	uint64_t allocs, frees, segment_allocs, segment_frees, ooms;
	uint64_t events;    /* of any kind */
	int64_t peak;       /* bytes: the most that was allocated at once in the history, which may
			       have begun late */
	int64_t peak_us;    /* when, as the file says (us since 1970); -1 unknown */
	int64_t begin, end; /* bytes allocated before the first and after the last event */
};

/* An allocation or release of the history. */
struct import_snapshot_event {
	int64_t us;            /* since 1970, as the file says */
	int64_t device, bytes; /* below 0: released */
	uint64_t address;
	int64_t allocated, reserved; /* bytes of the device after it */
};

struct import_snapshot {
	struct import_snapshot_device devices[IMPORT_DEVICES_MAX];
	size_t n;
	struct import_folded live; /* stacks of live blocks, the root first; weight in bytes */
	struct import_snapshot_event *history; /* those with a time, device by device */
	size_t n_history, cap_history;
	uint64_t skipped; /* parts of another shape, devices beyond the maximum */
};

/* 0, -EBADMSG, -ENOMEM, -E2BIG. Keeps nothing of data. */
int import_snapshot(const void *data, size_t len, struct import_snapshot *ret, struct err *e);
void import_snapshot_done(struct import_snapshot *s);

#endif
