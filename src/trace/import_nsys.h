/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys.h - the SQLite database that NVIDIA's Nsight Systems exports (nsys export --type
 * sqlite): kernels, copies, sets, CUDA calls, synchronisation, NVTX ranges and system calls, as
 * a trace. Tables and columns differ between versions: what is not there is done without.
 */
#ifndef TRACE_IMPORT_NSYS_H
#define TRACE_IMPORT_NSYS_H

#include "trace/write.h"

#define IMPORT_NSYS_NAMES_MAX (1u << 20) /* names that are counted apart */

enum import_nsys_kind {
	IMPORT_NSYS_KERNEL,
	IMPORT_NSYS_MEMCPY,
	IMPORT_NSYS_MEMSET,
	IMPORT_NSYS_CALL, /* runtime and driver */
	IMPORT_NSYS_SYNC,
	IMPORT_NSYS_NVTX,
	IMPORT_NSYS_OS,
	IMPORT_NSYS_KINDS
};

struct import_nsys_name {
	enum import_nsys_kind kind;
	char *name;
	uint32_t len;
	uint64_t count;
	int64_t ns; /* sum of durations */
};

struct import_nsys {
	struct {
		bool has_table;
		uint64_t rows;    /* read */
		uint64_t skipped; /* without begin or end, or an end before the begin */
		int64_t ns;
	} kinds[IMPORT_NSYS_KINDS];
	struct import_nsys_name *names; /* by ns, the largest first */
	size_t n, cap;
	uint64_t rows, events;
	int64_t base_ns;     /* ns since 1970 of time 0; 0: not said */
	int64_t first, last; /* ns; 0, 0 without rows */
	unsigned devices, processes;
};

/* What people call a kind, "kernels"; its table in the database. */
const char *import_nsys_kind_name(enum import_nsys_kind kind);
const char *import_nsys_table(enum import_nsys_kind kind);

/* Read the database at PATH (a plain file); sink: write a trace into it; NULL: only count. 0,
 * -EBADMSG (no database, damaged, none of the tables in it), -ENOMEM, -errno. */
int import_nsys(const char *path, struct write_sink *sink, struct import_nsys *ret, struct err *e);
/* The same from memory (a compressed file that was read, tests, fuzzing). data must stay. */
int import_nsys_bytes(void *data, size_t len, struct write_sink *sink, struct import_nsys *ret,
		      struct err *e);
void import_nsys_done(struct import_nsys *n);

#endif
