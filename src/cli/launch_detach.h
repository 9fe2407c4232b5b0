/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_detach.h - start a process that outlives us and gets nothing of ours: no
 * descriptor, no session, no folder; its streams are /dev/null.
 */
#ifndef CLI_LAUNCH_DETACH_H
#define CLI_LAUNCH_DETACH_H

/* A program with a slash is a path, else looked up in PATH. config (may be NULL) becomes its
 * $LAPSE_CONFIG. Whether it could be executed is not known. */
void launch_detach(const char *program, char *const argv[], const char *config);

#endif
