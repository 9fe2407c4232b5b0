/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_describe.h - what a run file says of what is started: names, the command
 * without secrets, where and by whom.
 */
#ifndef CLI_LAUNCH_DESCRIBE_H
#define CLI_LAUNCH_DESCRIBE_H

#include "wire/run.h"

/* What the user calls it; each may be NULL. */
struct launch_labels {
	const char *name, *project, *tags, *notes;
};

/* Fill *r for argv (ended by NULL) as if we started it here and now. Without a name it is
 * the program, or the Python script. id, dir and processes are the caller's. */
void launch_describe(struct run_start *r, const struct launch_labels *labels, char *const argv[]);

/* The user's name by /etc/passwd alone (a directory service may be slow or down), else the
 * number. */
void launch_describe_user(unsigned uid, char *to, size_t cap);

#endif
