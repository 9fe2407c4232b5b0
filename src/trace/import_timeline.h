/* SPDX-License-Identifier: Apache-2.0
 *
 * import_timeline.h - PyTorch's memory timeline in its raw form (export_memory_timeline to
 * a .raw.json or .raw.json.gz): bytes by category over time. The same numbers as Holistic
 * Trace Analysis 0.6.1 makes of it.
 */
#ifndef TRACE_IMPORT_TIMELINE_H
#define TRACE_IMPORT_TIMELINE_H

#include "trace/import_value.h"

#define IMPORT_CATEGORIES 8

struct import_point {
	int64_t ts; /* ns since 1970 as the file says; what was there before: the first time */
	int64_t bytes[IMPORT_CATEGORIES]; /* that live after all events of this time */
	int64_t total;
};

struct import_timeline {
	struct import_point *points; /* one a distinct time, in order */
	size_t n, cap;
	struct {
		int64_t peak, least, last;
	} categories[IMPORT_CATEGORIES];
	int64_t peak;             /* of the total */
	size_t peak_point;        /* the first that has it */
	uint64_t events, skipped; /* skipped: of another shape or category */
};

/* "Parameter", "Optimizer state", ... */
const char *import_category(unsigned i);

/* data may change. 0, -EBADMSG, -ENOMEM, -E2BIG. */
int import_timeline(char *data, size_t len, struct import_timeline *ret, struct err *e);
void import_timeline_done(struct import_timeline *t);

#endif
