/* SPDX-License-Identifier: Apache-2.0
 *
 * role.h - what a process of a run is likely to be, when nothing says so itself.
 */
#ifndef PROBE_LINUX_ROLE_H
#define PROBE_LINUX_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/linux/tree.h"

#define ROLE_MAX 32

/* A worker of data loading by how it came to be: forked without exec() by a Python
 * process or a trainer, or named as PyTorch names them. parent: NULL if it is not in the
 * tree; parent_role: its role, "" unknown. */
bool role_is_worker(const struct probe_proc *p, const struct probe_proc *parent,
		    const char *parent_role);

/* A Python process that was exec'd: its command line tells more. */
bool role_is_python(const struct probe_proc *p);

/* Does a command line (arguments ended by NUL) belong to a process that Python's
 * multiprocessing spawned? */
bool role_is_spawned(const char *cmdline, size_t len);

#endif
