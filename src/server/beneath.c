/* SPDX-License-Identifier: Apache-2.0 */
#include "server/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BENEATH_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

bool beneath_is_plain(const char *path)
{
	size_t len;

	if (!*path || strlen(path) >= PATH_MAX)
		return false;
	for (;; path += len + 1) {
		len = strcspn(path, "/");
		if (len == 0 || path[0] == '.' || len > NAME_MAX)
			return false;
		if (!path[len])
			return true;
	}
}

static int beneath_check(int fd, bool folders, struct stat *st)
{
	int err;

	if (fd < 0)
		return errno == ELOOP || errno == EXDEV || errno == ENOTDIR || errno == ENXIO
			       ? -ENOENT
			       : -errno;
	if (fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || (folders && S_ISDIR(st->st_mode))))
		return fd;
	err = -ENOENT;
	close(fd);
	return err;
}

int beneath_walk(int dirfd, const char *path, bool folders, struct stat *st)
{
	char part[NAME_MAX + 1];
	int at = dirfd, next;
	size_t len;

	for (;; path += len + 1) {
		len = strcspn(path, "/");
		if (len == 0 || len > NAME_MAX || strncmp(path, "..", len) == 0) {
			errno = ENOENT;
			next = -1;
			break;
		}
		memcpy(part, path, len);
		part[len] = '\0';
		next = openat(at, part, BENEATH_FLAGS | (path[len] ? O_DIRECTORY : 0));
		if (next < 0 || !path[len])
			break;
		if (at != dirfd)
			close(at);
		at = next;
	}
	next = beneath_check(next, folders, st);
	if (at != dirfd)
		close(at);
	return next;
}

int beneath_open(int dirfd, const char *path, bool folders, struct stat *st)
{
	struct open_how how = {
		.flags = BENEATH_FLAGS,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return beneath_walk(dirfd, path, folders, st);
	return beneath_check(fd, folders, st);
}
