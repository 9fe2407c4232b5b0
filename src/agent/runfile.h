/* SPDX-License-Identifier: Apache-2.0
 *
 * runfile.h - reading what a launcher has left in runs/, where anything may lie:
 * a pipe would hold up the agent and all its runs.
 */
#ifndef AGENT_RUNFILE_H
#define AGENT_RUNFILE_H

#include "base/buf.h"

/* Append the file NAME of the folder `runs` to *out. 0 or -errno; -EPERM: no
 * regular file of ours; -EFBIG: longer than the buffer's maximum. */
int runfile_read(int runs, const char *name, struct buf *out);

#endif
