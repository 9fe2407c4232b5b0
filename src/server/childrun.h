/* SPDX-License-Identifier: Apache-2.0
 *
 * childrun.h - running a program for an answer: within limits of time, memory and output, so
 * that a file of whatever size or content costs that process, never the server.
 */
#ifndef SERVER_CHILDRUN_H
#define SERVER_CHILDRUN_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct childrun {
	const char *program;
	const char *const *argv; /* ended by NULL */
	const char *dir;         /* to run in */
	int64_t limit_ns;        /* then it is killed */
	uint64_t memory;         /* bytes of address space */
	/* Asked every tenth of a second at least: true, it is killed too; NULL: never. */
	bool (*is_off)(const void *arg);
	const void *arg;
};

/* Run it, standard input empty; what it prints goes into *out until that is full (out->error is
 * -EFBIG then and it is killed), what it says on stderr into err (cut to cap, cleaned). 0 and
 * *ret_status its exit status (CHILDRUN_SIGNALLED and the signal's number if a signal ended it,
 * one of the two before that if it could not become the program), -ETIMEDOUT, -EFBIG,
 * -ECANCELED (is_off), or -errno if it could not be started. */
#define CHILDRUN_NO_FOLDER 126
#define CHILDRUN_NO_PROGRAM 127
#define CHILDRUN_SIGNALLED 128
int childrun(const struct childrun *c, struct buf *out, char *err, size_t cap, int *ret_status);

#endif
