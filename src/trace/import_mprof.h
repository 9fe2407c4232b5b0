/* SPDX-License-Identifier: Apache-2.0
 *
 * import_mprof.h - what memory_profiler's `mprof run` writes (mprofile_*.dat): memory of a
 * process and its children over time, and calls of functions marked with @profile.
 */
#ifndef TRACE_IMPORT_MPROF_H
#define TRACE_IMPORT_MPROF_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define IMPORT_PROCESSES_MAX 1024

struct import_mprof_sample {
	int64_t ts;       /* ns since 1970 */
	double mib;       /* as the file says */
	uint32_t process; /* in processes */
};

struct import_mprof_call {
	const char *name; /* in the file's bytes, not ended */
	uint32_t len;
	int64_t begin, end; /* ns since 1970 */
	double mib_begin, mib_end;
};

struct import_mprof {
	struct {
		int64_t number; /* as written; -1: the program itself */
		uint64_t samples;
		double least, most, sum, last; /* MiB */
	} processes[IMPORT_PROCESSES_MAX];
	size_t n_processes;
	struct import_mprof_sample *samples; /* in the order of the file */
	size_t n, cap;
	struct import_mprof_call *calls;
	size_t n_calls, cap_calls;
	uint64_t skipped;       /* lines of another shape, processes beyond the maximum */
	uint64_t first_skipped; /* line, from 1 */
};

/* Names point into data, which must stay. 0, -EBADMSG (no sample and no call), -ENOMEM. */
int import_mprof(const char *data, size_t len, struct import_mprof *ret, struct err *e);
void import_mprof_done(struct import_mprof *m);

#endif
