/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - whole files: read one with a limit, replace one atomically, make
 * folders.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

#include <sys/types.h>

/* Append the file PATH under dirfd (AT_FDCWD for none) to *out, whose maximum
 * is the limit. Works for /proc. 0, -EFBIG, or what open() and read() said. */
int file_read(int dirfd, const char *path, struct buf *out);

/* The same of a plain file only, for what others may have put there: a pipe, which would be
 * waited for, or a device is -EINVAL. */
int file_read_plain(int dirfd, const char *path, struct buf *out);

/* Replace PATH under dirfd by len bytes: written beside it, renamed over it, so
 * that a reader sees the old or the new whole. Not synced to disk. */
int file_write_atomic(int dirfd, const char *path, const void *data, size_t len, mode_t mode);

/* Make PATH and the folders above it; fine if it is there. 0 or -errno. */
int file_mkdirs(const char *path, mode_t mode);

/* Write all len bytes, retrying short writes and EINTR. 0 or -errno. */
int file_write_all(int fd, const void *data, size_t len);

#endif
