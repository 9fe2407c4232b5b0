/* SPDX-License-Identifier: Apache-2.0
 *
 * import_tracemalloc.h - a snapshot of Python's tracemalloc (Snapshot.dump()): live memory by
 * the stack that allocated it. Read as data, nothing is run.
 */
#ifndef TRACE_IMPORT_TRACEMALLOC_H
#define TRACE_IMPORT_TRACEMALLOC_H

#include "trace/import_folded.h"

/* Stacks of "file.py:line", the root first; weight in bytes, one line a trace of the file.
 * 0, -EBADMSG, -ENOMEM, -E2BIG. Keeps nothing of data. */
int import_tracemalloc(const void *data, size_t len, struct import_folded *ret, struct err *e);

#endif
