/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU quota from cgroup files. Formats: the kernel's cgroup-v2.rst and
 * scheduler/sched-bwc.rst.
 */
#include "probe/linux/cpuquota.h"

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
#include "probe/linux/sysfs.h"

#define CPUQUOTA_CGROUP_MAX 65536

static int cpuquota_slurp(const char *root, const char *path, struct buf *out)
{
	char full[CGROUP_PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	return file_read(AT_FDCWD, full, out);
}

static int cpuquota_locate(const char *root, const struct buf *cgroup, struct buf *mountinfo,
			   struct cpuquota *ret)
{
	char path[CGROUP_PATH_MAX], dir[CGROUP_PATH_MAX];
	size_t top;
	bool v2;
	int err;

	err = mounts_cgroup_of(cgroup->data, cgroup->len, "cpu", &v2, path, sizeof(path));
	if (!err)
		err = cpuquota_slurp(root, "/proc/self/mountinfo", mountinfo);
	if (!err)
		err = mounts_find_of(mountinfo->data, mountinfo->len, v2, "cpu", path, dir,
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

int cpuquota_find(const char *root, long pid, struct cpuquota *ret)
{
	struct buf cgroup, mountinfo;
	char name[64];
	int err;

	snprintf(name, sizeof(name), pid ? "/proc/%ld/cgroup" : "/proc/self/cgroup", pid);
	buf_init(&cgroup, CPUQUOTA_CGROUP_MAX);
	buf_init(&mountinfo, CGROUP_MOUNTINFO_MAX);
	err = cpuquota_slurp(root, name, &cgroup);
	if (err == -ENOENT && pid)
		err = -ESRCH;
	if (!err)
		err = cpuquota_locate(root, &cgroup, &mountinfo, ret);
	buf_done(&mountinfo);
	buf_done(&cgroup);
	return err;
}

int cpuquota_parse(const char *text, size_t len, double *ret)
{
	const char *p = text, *end = text + len;
	uint64_t quota, period;

	if (proc_begins(p, end, "max"))
		return -ENODATA;
	if (proc_number(&p, end, &quota) || p == end || *p++ != ' ' ||
	    proc_number(&p, end, &period) || (p < end && *p != '\n') || !quota || !period)
		return -EBADMSG;
	*ret = (double)quota / (double)period;
	return 0;
}

static int cpuquota_v1(int dir_fd, double *ret)
{
	int64_t quota, period;
	int err;

	err = sysfs_number(dir_fd, "cpu.cfs_quota_us", &quota);
	if (!err)
		err = sysfs_number(dir_fd, "cpu.cfs_period_us", &period);
	if (err)
		return err;
	if (quota < 0)
		return -ENODATA;
	if (!quota || period <= 0)
		return -EBADMSG;
	*ret = (double)quota / (double)period;
	return 0;
}

/* What one folder says. */
static int cpuquota_one(const struct cpuquota *q, const char *dir, double *ret)
{
	int fd = sysfs_dir("", dir), err;
	char text[64];

	if (fd < 0)
		return fd;
	if (q->version == 1) {
		err = cpuquota_v1(fd, ret);
	} else {
		err = sysfs_text(fd, "cpu.max", text, sizeof(text));
		if (!err)
			err = cpuquota_parse(text, strlen(text), ret);
	}
	close(fd);
	return err;
}

int cpuquota_read(const struct cpuquota *q, double *ret)
{
	char dir[CGROUP_PATH_MAX];
	double cpus = 0, one;
	char *slash;
	int err;

	memcpy(dir, q->dir, sizeof(dir));
	for (;;) {
		err = cpuquota_one(q, dir, &one);
		if (!err && (cpus == 0 || one < cpus))
			cpus = one;
		if (err && err != -ENODATA && err != -ENOENT)
			return err;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < q->top)
			break;
		*slash = '\0';
	}
	if (cpus == 0)
		return -ENODATA;
	*ret = cpus;
	return 0;
}
