/* SPDX-License-Identifier: Apache-2.0
 *
 * export_live.h - `lapse export` into formats that go on where they stopped
 * (src/export): one pass, or with --follow until the run has ended.
 */
#ifndef CLI_EXPORT_LIVE_H
#define CLI_EXPORT_LIVE_H

#include <stdbool.h>

#include "export/exporter.h"

/* Export the run in folder run_dir into output, or where the format has one into
 * its place in the run's folder (NULL). Prints what is wrong. Returns the exit
 * status, EXPORTS_BUSY if another process exports the run there; with follow,
 * SIGTERM and SIGINT end it with 0. */
int export_live(const struct exporter_ops *ops, const char *run_dir, const char *output,
		bool follow);

#endif
