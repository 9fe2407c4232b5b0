/* SPDX-License-Identifier: Apache-2.0
 *
 * sysfs.h - small files of a folder of /sys that are read seldom: a number or a word
 * each, without keeping them open.
 */
#ifndef PROBE_LINUX_SYSFS_H
#define PROBE_LINUX_SYSFS_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

/* Open a folder: its descriptor, to be closed, or -errno. */
int sysfs_dir(const char *root, const char *path);

/* The first line of a file, without its line feed, as a string; what does not fit is cut.
 * path is below the folder dir_fd. 0 or -errno. */
int sysfs_text(int dir_fd, const char *path, char *out, size_t cap);

/* A whole decimal number, perhaps negative. 0, -EBADMSG, or what reading said. */
int sysfs_number(int dir_fd, const char *path, int64_t *ret);

/* Call fn for each entry of the folder path (below dir_fd) whose name is prefix, a number
 * (0 to UINT32_MAX) and suffix, in the order of the numbers; entry_fd is that folder. Of more
 * than SYSFS_EACH_MAX some are left out. Stops when fn returns not 0. 0, what fn
 * returned, or -errno. */
#define SYSFS_EACH_MAX 8192
int sysfs_each(int dir_fd, const char *path, const char *prefix, const char *suffix,
	       int (*fn)(void *arg, int entry_fd, const char *name, uint32_t number), void *arg);

#endif
