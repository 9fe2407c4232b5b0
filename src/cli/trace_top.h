/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_top.h - what the two files of `lapse trace top` share.
 */
#ifndef CLI_TRACE_TOP_H
#define CLI_TRACE_TOP_H

#include "analyse/keyavg.h"
#include "cli/traceout.h"

/* What the command line asks for. 0, or 2 after printing why it cannot. */
int trace_top_options_of(struct keyavg_options *o);

/* The plugin's tables: 0, -errno, or an exit status. */
int trace_top_plugin(struct tracecmd_set *s, struct traceout *o);

#endif
