/* SPDX-License-Identifier: Apache-2.0
 *
 * tracefiles.h - which files the arguments of `lapse trace` mean: a folder is every trace
 * in it.
 */
#ifndef CLI_TRACEFILES_H
#define CLI_TRACEFILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACEFILES_MAX 100000u /* files of one command */

struct tracefiles_one {
	char *path;
	uint64_t bytes;   /* on disk; 0 unknown: a pipe */
	bool from_folder; /* found in a folder: if it is no trace that is no error */
};

struct tracefiles {
	struct tracefiles_one *list; /* as given; of a folder by name, numbers by value */
	size_t n;
};

/* Files named *trace*.json of a folder (also .gz, .zst), else all *.json; if it has none, those of
 * the folders in it, 4 deep. 0, or the exit status after printing why. */
int tracefiles_find(const char *command, int argc, char **argv, struct tracefiles *ret);
void tracefiles_done(struct tracefiles *f);

#endif
