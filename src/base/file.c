/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is left of it; closes it. */
static int file_drain(int fd, struct buf *out)
{
	size_t room;
	ssize_t n;
	int err = 0;
	char *to;

	for (;;) {
		room = out->max - out->len;
		if (room > 65536)
			room = 65536;
		/* At the maximum one more byte tells "exactly full" from "too big". */
		to = room ? buf_reserve(out, room) : (char[1]){0};
		if (!to) {
			err = out->error;
			break;
		}
		n = read(fd, to, room ? room : 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		if (n > 0 && !room)
			err = out->error = -EFBIG;
		if (n <= 0 || err)
			break;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
	}
	close(fd);
	return err;
}

int file_read(int dirfd, const char *path, struct buf *out)
{
	int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : file_drain(fd, out);
}

int file_read_plain(int dirfd, const char *path, struct buf *out)
{
	int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return file_drain(fd, out);
	err = -EINVAL;
	close(fd);
	return err;
}

int file_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	while (len > 0) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_write_atomic(int dirfd, const char *path, const void *data, size_t len, mode_t mode)
{
	char tmp[PATH_MAX];
	int fd, err;

	if (snprintf(tmp, sizeof(tmp), "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	err = file_write_all(fd, data, len);
	if (close(fd) < 0 && !err)
		err = -errno;
	if (!err && renameat(dirfd, tmp, dirfd, path) < 0)
		err = -errno;
	if (err)
		unlinkat(dirfd, tmp, 0);
	return err;
}

int file_mkdirs(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	size_t i, len = strlen(path);
	struct stat st;
	int err;

	if (len == 0 || len >= sizeof(part))
		return len ? -ENAMETOOLONG : -ENOENT;
	for (i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, mode) == 0 || errno == EEXIST)
			continue;
		err = -errno;
		/* A folder above may be unwritable and still be there. */
		if (stat(part, &st) < 0)
			return err;
		if (!S_ISDIR(st.st_mode))
			return -ENOTDIR;
	}
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}
