/* SPDX-License-Identifier: Apache-2.0
 *
 * when.h - moments as people type them.
 */
#ifndef REPORT_WHEN_H
#define REPORT_WHEN_H

#include <stdint.h>

/* What the help says about a TIME. */
#define WHEN_HELP                                                                                  \
	"2026-11-28T14:05[:09.5][Z] (local time without Z), 2026-11-28, +10m after the "           \
	"start, -10m before the end, or @SECONDS since 1970"

/* Read a moment. start_ns and end_ns are the run's; UTC nanoseconds into
 * *ret_ns. 0, -EINVAL: not a time. */
int when_parse(const char *text, int64_t start_ns, int64_t end_ns, int64_t *ret_ns);

#endif
