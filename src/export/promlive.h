/* SPDX-License-Identifier: Apache-2.0
 *
 * promlive.h - the last values of runs that are being recorded, kept in memory for whoever
 * scrapes them. docs/export.md has the mapping.
 */
#ifndef EXPORT_PROMLIVE_H
#define EXPORT_PROMLIVE_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One run. */
struct promlive;
struct promlive *promlive_new(void);
void promlive_free(struct promlive *p);

/* Take what is newer, until deadline_ns of CLOCK_MONOTONIC has passed. run: as r told of it,
 * whose strings are r's; it is not asked again. 0: all of it; 1: there is more; -errno and *e. */
int promlive_read(struct promlive *p, struct store_reader *r, const struct store_run *run,
		  int64_t deadline_ns, struct err *e);

/* Append what is known of the runs, each metric once: text format 0.0.4, or OpenMetrics 1.0.
 * Where runs differ in a metric's type, that of the first in order of labels stands and the
 * others are left out. */
void promlive_write(struct promlive *const *runs, size_t n, bool is_open, struct buf *out);

#endif
