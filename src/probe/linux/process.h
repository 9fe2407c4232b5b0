/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h - private to the group process: its rows, and their values from one
 * process of the tree.
 */
#ifndef PROBE_LINUX_PROCESS_H
#define PROBE_LINUX_PROCESS_H

#include "probe/linux/tree.h"

enum process_row {
	PROCESS_CPU,
	PROCESS_RSS,
	PROCESS_PEAK,
	PROCESS_ANONYMOUS,
	PROCESS_SWAP,
	PROCESS_THREADS,
	PROCESS_MAJOR,
	PROCESS_MINOR,
	PROCESS_READ,
	PROCESS_WRITTEN,
	PROCESS_READ_ALL,
	PROCESS_WRITTEN_ALL,
	PROCESS_READS,
	PROCESS_READ_SIZE,
	PROCESS_READ_CACHED,
	PROCESS_VOLUNTARY,
	PROCESS_INVOLUNTARY,
	PROCESS_FILES,
	PROCESS_FILES_LIMIT,
	PROCESS_RUNQUEUE,
	PROCESS_BLOCKED,
	PROCESS_PSS,
	PROCESS_GPU_MEMORY,
	PROCESS_GPU_BUSY,
	PROCESS_ROWS
};

extern const struct probe_metric process_rows[PROCESS_ROWS];

/* Put what every reading knows, and the details if p had its turn since the last call. */
void process_put(struct probe_proc *p, struct probe_set *s, const uint32_t points[PROCESS_ROWS]);

#endif
