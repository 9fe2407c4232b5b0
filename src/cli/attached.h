/* SPDX-License-Identifier: Apache-2.0
 *
 * attached.h - a process that somebody else started: what it is, and how it ended.
 */
#ifndef CLI_ATTACHED_H
#define CLI_ATTACHED_H

#include "base/err.h"
#include "wire/run.h"

#include <stdbool.h>

struct attached {
	long pid;
	uint64_t start;
	int fd; /* pidfd; -1: the kernel has none (before 5.3) */
	bool ended, knows_status;
	int status; /* as of wait(), when known */
};

/* -ESRCH no such process, or a zombie; -EPERM not ours to look at; *e says it. */
int attached_open(struct attached *a, long pid, struct err *e);
void attached_done(struct attached *a);

/* Its arguments, ended by NULL; one block that the caller frees. NULL: it has none (a kernel
 * thread), or they cannot be read. */
char **attached_argv(const struct attached *a);

/* Its working folder and user into *r, where they can be read. */
void attached_describe(const struct attached *a, struct run_start *r);

/* Is it still there? Once it is gone ended is true, and where the kernel (6.15 and newer) tells
 * how a process that is not our child ended, knows_status too. */
bool attached_lives(struct attached *a);

/* The run in whose rendezvous folder (dirfd) it records by itself, into id; false: none. */
bool attached_records(const struct attached *a, int dirfd, char id[RUN_ID_MAX + 1]);

#endif
