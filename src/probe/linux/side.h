/* SPDX-License-Identifier: Apache-2.0
 *
 * side.h - reads files that take a process's memory lock (cmdline, smaps_rollup) in a
 * thread of its own: reading those of a process that is stuck inside the kernel may
 * never come back.
 */
#ifndef PROBE_LINUX_SIDE_H
#define PROBE_LINUX_SIDE_H

#include <stddef.h>
#include <stdint.h>

#define SIDE_TICKETS 64
#define SIDE_TEXT 1024 /* bytes of a file that are kept */

struct side;

struct side_answer {
	int err; /* of reading the file */
	size_t len;
	char text[SIDE_TEXT]; /* not ended by NUL */
};

/* Files under root/proc. The thread starts at the first question. NULL: no memory. */
struct side *side_new(const char *root);

/* A reading that hangs is left behind with its thread, which frees s when it returns. */
void side_free(struct side *s);

/* Ask for the start of /proc/PID/file (static text). A ticket (>= 0), -EBUSY as all are
 * out, -EAGAIN no thread can be had. */
int side_ask(struct side *s, long pid, const char *file);

/* 0: *out is the answer, and the ticket is no more. -EAGAIN: not yet. */
int side_take(struct side *s, int ticket, struct side_answer *out);

/* Who asked does not want it any more. */
void side_drop(struct side *s, int ticket);

#endif
