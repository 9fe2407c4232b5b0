/* SPDX-License-Identifier: Apache-2.0
 *
 * cpuquota.h - how many CPUs the cgroups of a process let it use, v1 or v2:
 * cgroup_find_of(.., "cpu", ..) finds the cgroup.
 */
#ifndef PROBE_LINUX_CPUQUOTA_H
#define PROBE_LINUX_CPUQUOTA_H

#include "probe/linux/cgroup.h"

/* CPUs: quota over period, the tightest of it and the ancestors that can be seen. -ENODATA:
 * none has a quota, or there is no file of it (the root of v2, controller off). */
int cpuquota_read(const struct cgroup_memory *q, double *ret);

/* "200000 100000" or "max 100000" of cpu.max. 0; -ENODATA no quota; -EBADMSG. */
int cpuquota_parse(const char *text, size_t len, double *ret);

#endif
