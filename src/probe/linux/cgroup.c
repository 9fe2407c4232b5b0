/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory limit and OOM kills from cgroup files. Formats: the kernel's
 * cgroup-v2.rst and cgroup-v1/memory.rst.
 */
#include "probe/linux/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "probe/linux/mounts.h"
#include "probe/linux/proc.h"

/* v1 writes "no limit" as LONG_MAX rounded down to a page, of at most 64 KiB. */
#define CGROUP_V1_NONE 0x7fffffffffff0000u

#define CGROUP_TEXT_MAX 8192

static int cgroup_slurp(const char *root, const char *path, struct buf *out)
{
	char full[CGROUP_PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	return file_read(AT_FDCWD, full, out);
}

static int cgroup_locate(const char *root, const struct buf *cgroup, const char *controller,
			 struct buf *mountinfo, struct cgroup_memory *ret)
{
	char path[CGROUP_PATH_MAX], dir[CGROUP_PATH_MAX];
	size_t top;
	bool v2;
	int err;

	err = mounts_cgroup_of(cgroup->data, cgroup->len, controller, &v2, path, sizeof(path));
	if (!err)
		err = cgroup_slurp(root, "/proc/self/mountinfo", mountinfo);
	if (!err)
		err = mounts_find_of(mountinfo->data, mountinfo->len, v2, controller, path, dir,
				     sizeof(dir), &top);
	if (err)
		return err;
	if (strlen(root) + strlen(dir) >= sizeof(ret->dir))
		return -ENAMETOOLONG;
	ret->version = v2 ? 2 : 1;
	ret->top = strlen(root) + top;
	snprintf(ret->dir, sizeof(ret->dir), "%s%s", root, dir);
	return 0;
}

int cgroup_memory_find(const char *root, long pid, struct cgroup_memory *ret)
{
	return cgroup_find_of(root, pid, "memory", ret);
}

int cgroup_find_of(const char *root, long pid, const char *controller, struct cgroup_memory *ret)
{
	struct buf cgroup, mountinfo;
	char name[64];
	int err;

	snprintf(name, sizeof(name), pid ? "/proc/%ld/cgroup" : "/proc/self/cgroup", pid);
	buf_init(&cgroup, 65536);
	buf_init(&mountinfo, CGROUP_MOUNTINFO_MAX);
	err = cgroup_slurp(root, name, &cgroup);
	if (err == -ENOENT && pid)
		err = -ESRCH;
	if (!err)
		err = cgroup_locate(root, &cgroup, controller, &mountinfo, ret);
	buf_done(&mountinfo);
	buf_done(&cgroup);
	return err;
}

/* A file of a cgroup's folder: its first CGROUP_TEXT_MAX bytes. */
static int cgroup_text(const char *dir, const char *file, char text[CGROUP_TEXT_MAX],
		       size_t *ret_len)
{
	char path[CGROUP_PATH_MAX + 64];
	size_t len = 0;
	ssize_t n;
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do {
		n = read(fd, text + len, CGROUP_TEXT_MAX - len);
		if (n > 0)
			len += (size_t)n;
	} while ((n > 0 && len < CGROUP_TEXT_MAX) || (n < 0 && errno == EINTR));
	err = n < 0 ? -errno : 0;
	close(fd);
	if (!err)
		*ret_len = len;
	return err;
}

/* The number of a line "key number". */
static int cgroup_key(const char *text, size_t len, const char *key, uint64_t *ret)
{
	const char *next = text, *end = text + len, *line, *eol;

	while ((line = proc_line(&next, end, &eol))) {
		if (!proc_begins(line, eol, key) || line + strlen(key) >= eol ||
		    line[strlen(key)] != ' ')
			continue;
		line += strlen(key) + 1;
		return proc_number(&line, eol, ret) || line != eol ? -EBADMSG : 0;
	}
	return -ENOENT;
}

/* The limit that one folder sets into *limit, if it is tighter. */
static int cgroup_one_limit(const char *dir, int version, uint64_t *limit)
{
	const char *file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
	char text[CGROUP_TEXT_MAX];
	const char *p = text;
	uint64_t v;
	size_t len = 0;
	int err;

	err = cgroup_text(dir, file, text, &len);
	if (err)
		return err;
	if (version == 2 && proc_begins(text, text + len, "max\n"))
		return 0;
	if (proc_number(&p, text + len, &v) || p == text + len || *p != '\n')
		return -EBADMSG;
	if (v < *limit)
		*limit = v;
	return 0;
}

/* v1 says itself what holds over all ancestors, also those that cannot be seen. */
static int cgroup_v1_limit(const struct cgroup_memory *m, uint64_t *limit)
{
	char text[CGROUP_TEXT_MAX];
	size_t len = 0;
	int err;

	err = cgroup_text(m->dir, "memory.stat", text, &len);
	return err ? err : cgroup_key(text, len, "hierarchical_memory_limit", limit);
}

static int cgroup_walk(const struct cgroup_memory *m, uint64_t *limit)
{
	char dir[CGROUP_PATH_MAX];
	bool seen = false;
	char *slash;
	int err;

	memcpy(dir, m->dir, sizeof(dir));
	for (;;) {
		err = cgroup_one_limit(dir, m->version, limit);
		if (err && err != -ENOENT)
			return err;
		seen |= !err;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < m->top)
			return seen ? 0 : -ENOENT;
		*slash = '\0';
	}
}

int cgroup_memory_limit_of(const struct cgroup_memory *m, uint64_t *ret)
{
	uint64_t limit = UINT64_MAX;
	int err = -ENOENT;

	if (m->version == 1)
		err = cgroup_v1_limit(m, &limit);
	if (err == -ENOENT)
		err = cgroup_walk(m, &limit);
	if (err)
		return err;
	if (limit >= (m->version == 1 ? CGROUP_V1_NONE : UINT64_MAX))
		return -ENODATA;
	*ret = limit;
	return 0;
}

int cgroup_oom_kills_of(const struct cgroup_memory *m, uint64_t *ret, char *what, size_t cap)
{
	const char *file = m->version == 2 ? "memory.events" : "memory.oom_control";
	char text[CGROUP_TEXT_MAX];
	uint64_t kills;
	size_t len = 0;
	int err;

	err = cgroup_text(m->dir, file, text, &len);
	if (!err)
		err = cgroup_key(text, len, "oom_kill", &kills);
	if (err)
		return err;
	snprintf(what, cap, "%s/%s", m->dir, file);
	*ret = kills;
	return 0;
}

int cgroup_memory_limit(const char *root, long pid, uint64_t *ret)
{
	struct cgroup_memory m;
	int err = cgroup_memory_find(root, pid, &m);

	return err ? err : cgroup_memory_limit_of(&m, ret);
}
