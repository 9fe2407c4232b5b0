/* SPDX-License-Identifier: Apache-2.0
 *
 * beneath.h - opening a file below a folder, whatever its name tries: no way out, no links.
 */
#ifndef SERVER_BENEATH_H
#define SERVER_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

/* Is it a relative path of plain names: no empty part, no "." and "..", none that begins with a
 * dot? */
bool beneath_is_plain(const char *path);

/* Open PATH, which is relative, below dirfd for reading: by openat2(), else part by part; links
 * are not followed, nothing blocks, close-on-exec. *st is of what was opened, a regular file or
 * (folders) a folder. The descriptor, or -ENOENT for whatever is not such, or -errno. */
int beneath_open(int dirfd, const char *path, bool folders, struct stat *st);
/* The same without openat2(); for tests. */
int beneath_walk(int dirfd, const char *path, bool folders, struct stat *st);

#endif
