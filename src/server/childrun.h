/* SPDX-License-Identifier: Apache-2.0
 *
 * childrun.h - running a program for an answer: within limits of time, memory and output, so
 * that a file of whatever size or content costs that process, never the server.
 */
#ifndef SERVER_CHILDRUN_H
#define SERVER_CHILDRUN_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct childrun {
	const char *program;
	const char *const *argv; /* ended by NULL */
	const char *dir;         /* to run in */
	int64_t limit_ns;        /* then it is killed */
	uint64_t memory;         /* bytes of address space */
	const atomic_bool *stop; /* true: it is killed too; NULL: never */
};

/* Run it, standard input empty; what it prints goes into *out until that is full (out->error is
 * -EFBIG then and it is killed), what it says on stderr into err (cut to cap, cleaned). 0 and
 * *ret_status its exit status (128 and the signal's number if it was killed), -ETIMEDOUT, -EFBIG,
 * -ECANCELED, or -errno if it could not be started. */
int childrun(const struct childrun *c, struct buf *out, char *err, size_t cap, int *ret_status);

#endif
