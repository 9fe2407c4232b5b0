/* SPDX-License-Identifier: Apache-2.0
 *
 * import_pstats.h - what cProfile (and profile) wrote: functions with calls and times. Read
 * as data, nothing is run.
 */
#ifndef TRACE_IMPORT_PSTATS_H
#define TRACE_IMPORT_PSTATS_H

#include "trace/import_value.h"

struct import_function {
	const char *file, *name; /* in the file's bytes, not ended */
	uint32_t file_len, name_len;
	int64_t line;
	int64_t primitive, calls; /* calls without recursion, all calls */
	double self, total;       /* seconds: in it alone, with what it called */
	uint32_t callers;         /* how many functions called it */
};

struct import_pstats {
	struct import_function *functions; /* by self, the largest first */
	size_t n;
	double self; /* sum: the time that was profiled */
	int64_t calls;
	uint64_t skipped; /* entries of another shape */
};

/* Names point into data, which must stay. 0, -EBADMSG, -ENOMEM, -E2BIG. */
int import_pstats(const void *data, size_t len, struct import_pstats *ret, struct err *e);
void import_pstats_done(struct import_pstats *p);

#endif
