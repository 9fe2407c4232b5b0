/* SPDX-License-Identifier: Apache-2.0
 *
 * cpuquota.h - how many CPUs the cgroups of a process let it use, v1 or v2. root is put
 * before every path ("" = the real system); pid 0 is the caller.
 */
#ifndef PROBE_LINUX_CPUQUOTA_H
#define PROBE_LINUX_CPUQUOTA_H

#include "probe/linux/cgroup.h"

/* A cgroup of the cpu controller that was found. Plain data, nothing to free. */
struct cpuquota {
	int version; /* 1 or 2 */
	size_t top;  /* length in dir of the mount point: no ancestor is above it */
	char dir[CGROUP_PATH_MAX];
};

/* Find it. -ENOENT: it has none, or none that can be seen from here; -ESRCH: no such
 * process; -ENAMETOOLONG, -ENOMEM, -EFBIG. */
int cpuquota_find(const char *root, long pid, struct cpuquota *ret);

/* CPUs: quota over period, the tightest of it and the ancestors that can be seen. -ENODATA:
 * none has a quota, or there is no file of it (the root of v2, controller off). */
int cpuquota_read(const struct cpuquota *q, double *ret);

/* "200000 100000" or "max 100000" of cpu.max. 0; -ENODATA no quota; -EBADMSG. */
int cpuquota_parse(const char *text, size_t len, double *ret);

#endif
