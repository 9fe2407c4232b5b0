/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys_count.h - rows of an export of nsys counted by name.
 */
#ifndef TRACE_IMPORT_NSYS_COUNT_H
#define TRACE_IMPORT_NSYS_COUNT_H

#include "trace/import_nsys.h"

/* Zero-initialise it; free(slots) at the end. */
struct import_nsys_index {
	uint32_t *slots; /* place in names + 1; 0 free */
	size_t n;
};

/* One more row of this kind and name. Beyond IMPORT_NSYS_NAMES_MAX names it is one of
 * "(others)". 0, -ENOMEM. */
int import_nsys_count(struct import_nsys *r, struct import_nsys_index *x,
		      enum import_nsys_kind kind, const char *name, size_t len, int64_t ns);

#endif
