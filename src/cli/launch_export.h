/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_export.h - `lapse run --export FORMAT[=PATH]`: what the run file tells
 * the agent, which starts the exporters.
 */
#ifndef CLI_LAUNCH_EXPORT_H
#define CLI_LAUNCH_EXPORT_H

#include "wire/run.h"

/* One value of the option, a row of type OPT_CALL; `to` is not used. Relative
 * paths are of where we are now. 0, or -EINVAL after printing what is wrong. */
int launch_export_add(const char *arg, void *to);

/* Put what was asked for into r->exports. */
void launch_export_describe(struct run_start *r);

#endif
