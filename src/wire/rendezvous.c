/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static int rendezvous_is_tmpfs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

int rendezvous_path(char out[RENDEZVOUS_PATH_MAX])
{
	const char *given = getenv("LAPSE_RENDEZVOUS");
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (given && given[0] == '/')
		n = snprintf(out, RENDEZVOUS_PATH_MAX, "%s", given);
	else if (xdg && xdg[0] == '/' && rendezvous_is_tmpfs(xdg))
		n = snprintf(out, RENDEZVOUS_PATH_MAX, "%s/lapse", xdg);
	else
		n = snprintf(out, RENDEZVOUS_PATH_MAX, "/dev/shm/lapse-%u", (unsigned)geteuid());
	return n >= RENDEZVOUS_PATH_MAX ? -ENAMETOOLONG : 0;
}

static int rendezvous_make_inner(int dirfd)
{
	static const char *const inner[] = {"rings", "runs"};
	size_t i;

	for (i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
		if (mkdirat(dirfd, inner[i], 0700) < 0 && errno != EEXIST)
			return -errno;
	return 0;
}

int rendezvous_open(int create)
{
	char path[RENDEZVOUS_PATH_MAX];
	struct stat st;
	int fd, err;

	err = rendezvous_path(path);
	if (err)
		return err;
	if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
	/* Nothing is made in a folder before it is known to be ours. */
	err = 0;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
		err = -EPERM;
	else if (create)
		err = rendezvous_make_inner(fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int rendezvous_lock(int dirfd, const char *file)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd, err;

	fd = openat(dirfd, file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return fd;
	err = errno == EACCES ? -EAGAIN : -errno;
	close(fd);
	return err;
}

bool rendezvous_is_short(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOSPC;
}

int rendezvous_is_locked(int dirfd, const char *file)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = openat(dirfd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int held;

	if (fd < 0)
		return rendezvous_is_short(-errno) ? -errno : 0;
	held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return held;
}

uint64_t rendezvous_start_time(long pid)
{
	char path[64], text[1024], *p, state = '\0';
	unsigned long threads = 0;
	ssize_t n;
	int fd, field;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name may hold spaces and parentheses: fields begin behind the last. */
	p = strrchr(text, ')');
	for (field = 2; p && field < 22; field++) {
		p = strchr(p + 1, ' ');
		if (p && field + 1 == 3)
			state = p[1];
		else if (p && field + 1 == 20)
			threads = strtoul(p + 1, NULL, 10);
	}
	/* A zombie runs no more, though nobody reaps it; one whose first thread has
	 * ended before the others is none. */
	if ((state == 'Z' || state == 'X') && threads <= 1)
		return 0;
	return p ? strtoull(p + 1, NULL, 10) : 0;
}
