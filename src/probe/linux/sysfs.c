/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading /sys.
 */
#include "probe/linux/sysfs.h"

#include "probe/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSFS_PATH_MAX 4096

int sysfs_dir(const char *root, const char *path)
{
	char full[SYSFS_PATH_MAX];
	int fd;

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int sysfs_text(int dir_fd, const char *path, char *out, size_t cap)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, out, cap - 1);
	} while (n < 0 && errno == EINTR);
	err = n < 0 ? -errno : 0;
	close(fd);
	if (err)
		return err;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return 0;
}

int sysfs_number(int dir_fd, const char *path, int64_t *ret)
{
	char text[64];
	const char *p = text, *end;
	uint64_t v;
	int err = sysfs_text(dir_fd, path, text, sizeof(text));

	if (err)
		return err;
	end = text + strlen(text);
	p += *p == '-';
	if (proc_number(&p, end, &v) || p != end || v > INT64_MAX)
		return -EBADMSG;
	*ret = text[0] == '-' ? -(int64_t)v : (int64_t)v;
	return 0;
}

/* ---- entries ------------------------------------------------------------------------- */

struct sysfs_numbers {
	uint32_t *v;
	size_t len, cap;
};

static int sysfs_add(struct sysfs_numbers *a, uint32_t v)
{
	size_t cap = a->cap ? a->cap * 2 : 64;
	uint32_t *more;

	if (a->len == a->cap) {
		more = realloc(a->v, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		a->v = more;
		a->cap = cap;
	}
	a->v[a->len++] = v;
	return 0;
}

static int sysfs_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int sysfs_list(DIR *dir, const char *prefix, const char *suffix, struct sysfs_numbers *a)
{
	size_t n = strlen(prefix);
	struct dirent *e;
	int err = 0;

	while (!err && (e = readdir(dir))) {
		const char *p = e->d_name + n, *end;
		uint64_t v;

		if (strncmp(e->d_name, prefix, n) != 0)
			continue;
		end = p + strlen(p);
		/* "cpu01" would be called back as cpu1 */
		if (proc_number(&p, end, &v) || strcmp(p, suffix) != 0 || v > UINT32_MAX ||
		    (e->d_name[n] == '0' && p != e->d_name + n + 1))
			continue;
		if (a->len < SYSFS_EACH_MAX)
			err = sysfs_add(a, (uint32_t)v);
	}
	if (a->len)
		qsort(a->v, a->len, sizeof(*a->v), sysfs_compare);
	return err;
}

int sysfs_each(int dir_fd, const char *path, const char *prefix, const char *suffix,
	       int (*fn)(void *arg, int entry_fd, const char *name, uint32_t number), void *arg)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sysfs_numbers a = {0};
	char name[128];
	size_t i;
	DIR *dir;
	int err;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	err = sysfs_list(dir, prefix, suffix, &a);
	for (i = 0; !err && i < a.len; i++) {
		snprintf(name, sizeof(name), "%s%u%s", prefix, a.v[i], suffix);
		err = fn(arg, dirfd(dir), name, a.v[i]);
	}
	closedir(dir);
	free(a.v);
	return err;
}
