/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU quota from cgroup files. Formats: the kernel's cgroup-v2.rst and
 * scheduler/sched-bwc.rst.
 */
#include "probe/linux/cpuquota.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "probe/linux/proc.h"
#include "probe/linux/sysfs.h"

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
static int cpuquota_one(const struct cgroup_memory *q, const char *dir, double *ret)
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

int cpuquota_read(const struct cgroup_memory *q, double *ret)
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
