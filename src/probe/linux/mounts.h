/* SPDX-License-Identifier: Apache-2.0
 *
 * mounts.h - where a cgroup of the memory controller lies in the file system,
 * from the text of /proc/self/mountinfo and of /proc/PID/cgroup.
 */
#ifndef PROBE_LINUX_MOUNTS_H
#define PROBE_LINUX_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

/* Find the memory cgroup in the text of /proc/PID/cgroup: the line of the v1
 * memory controller where there is one (on hybrid machines memory is not in
 * v2), else the v2 line. Its path into path. 0, -ENOENT neither is there or the
 * cgroup is outside of our cgroup namespace, -ENAMETOOLONG. */
int mounts_cgroup(const char *text, size_t len, bool *ret_v2, char *path, size_t cap);

/* Find, in the text of mountinfo, the cgroup2 file system (v2) or that of the
 * v1 memory controller under which the cgroup path can be seen; of several the
 * one that shows most ancestors. The cgroup's folder into dir, the length of
 * the mount point in it into *ret_top. 0, -ENOENT, -ENAMETOOLONG. */
int mounts_find(const char *text, size_t len, bool v2, const char *path, char *dir, size_t cap,
		size_t *ret_top);

#endif
