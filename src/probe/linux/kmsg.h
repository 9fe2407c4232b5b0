/* SPDX-License-Identifier: Apache-2.0
 *
 * kmsg.h - the kernel's log as evidence: did it kill a process for memory?
 */
#ifndef PROBE_LINUX_KMSG_H
#define PROBE_LINUX_KMSG_H

#include <stddef.h>
#include <stdint.h>

#define KMSG_RECORDS_MAX 262144 /* records looked at, oldest first */

/* Look through the log at path ("/dev/kmsg"), from its start to its end and
 * without waiting, for "Killed process PID" as the OOM killer writes it (Linux
 * 3.x to 6.x). The last such line, made safe to show, into text (cap bytes,
 * cut).
 *   pid       as the machine's first pid namespace sees it: the kernel writes
 *             that one. In a container a pid of another process may match, so
 *             do not call it there.
 *   since_us  only lines since then; microseconds of the kernel's log clock,
 *             which is CLOCK_MONOTONIC to within milliseconds
 * Lines that programs wrote into the log are not believed.
 * 0; -ENOENT no such line (or no such log); -EPERM or -EACCES the log may not be
 * read: it needs CAP_SYSLOG unless kernel.dmesg_restrict is 0. */
int kmsg_oom(const char *path, long pid, uint64_t since_us, char *text, size_t cap);

/* One record, "6,339,5140900,-;text", without its line feed: does it say so?
 * Then the message's start; else NULL. */
const char *kmsg_match(const char *line, const char *eol, long pid, uint64_t since_us);

#endif
