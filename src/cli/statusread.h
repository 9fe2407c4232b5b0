/* SPDX-License-Identifier: Apache-2.0
 *
 * statusread.h - the newest values of a run that is being recorded, for its status line.
 */
#ifndef CLI_STATUSREAD_H
#define CLI_STATUSREAD_H

#include "cli/statusline.h"

/* Each call may take as long as the disk does: not for a thread that must not wait. */
struct statusread;

/* Of the run in the folder, begun at start_ns (UTC). total: steps in all, 0: what the
 * program's attribute total_steps (max_steps, num_training_steps) says. */
struct statusread *statusread_new(const char *dir, int64_t start_ns, int64_t total);

/* Read. What is not there (yet) is not known: never fails. */
void statusread_next(struct statusread *r, struct statusline *out);

#endif
