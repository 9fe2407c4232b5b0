/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile.h - a file that is written whole or not at all: beside its place
 * first, renamed at the end, removed on errors and on Ctrl-C.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* Zero-initialise it. One at a time in a process. */
struct outfile {
	FILE *to;
	char path[4096]; /* "" for stdout */
	char tmp[4096];  /* "" when written in place: stdout, devices, pipes */
	uint64_t bytes;
};

/* Open PATH ("-" or NULL: stdout); a regular file is made with mode 0600. */
int outfile_open(struct outfile *o, const char *path, struct err *e);

/* 0 or -errno (-EPIPE: the reader went away). */
int outfile_write(struct outfile *o, const void *data, size_t len, struct err *e);

/* Put it in its place if `good`, else remove it. Returns 0 or -errno. */
int outfile_close(struct outfile *o, int good, struct err *e);

#endif
