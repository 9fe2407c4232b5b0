/* SPDX-License-Identifier: Apache-2.0
 *
 * filesystem.h - which mounts of /proc/self/mountinfo are worth a look: those that hold
 * data, one of each file system, with those that may hang last.
 */
#ifndef PROBE_LINUX_FILESYSTEM_H
#define PROBE_LINUX_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/statvfs.h>

#define FILESYSTEM_MAX 64    /* mounts that have figures */
#define FILESYSTEM_POINT 200 /* bytes of a mount point, NUL included; longer ones are left out */

struct filesystem_mount {
	char point[FILESYSTEM_POINT];
	char type[32], source[128]; /* cut */
	char device[24];            /* "8:1" */
	bool whole;                 /* mounted from its root on */
	bool remote;                /* a server or a program answers for it: may hang */
	bool read_only;
};

/* The mounts in the text of mountinfo into out (FILESYSTEM_MAX), remote ones last; how
 * many. run_dir, if not NULL, is an absolute path whose file system is wanted whatever
 * it is. */
size_t filesystem_list(const char *text, size_t len, const char *run_dir,
		       struct filesystem_mount *out);

/* What is called to ask: statvfs(). Tests put another one here. */
extern int (*filesystem_statvfs)(const char *path, struct statvfs *ret);

#endif
