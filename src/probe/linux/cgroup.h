/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.h - memory limit and OOM kills of a process's memory cgroup, v1, v2 or
 * both mounted side by side, also inside a cgroup namespace. root is put before
 * every path ("" = the real system); pid 0 is the caller.
 *
 * Look the cgroup up while the process runs: of one that has ended, also of a
 * zombie, /proc/PID/cgroup says "/" or is gone.
 */
#ifndef PROBE_LINUX_CGROUP_H
#define PROBE_LINUX_CGROUP_H

#include <stddef.h>
#include <stdint.h>

#define CGROUP_PATH_MAX 4096
#define CGROUP_MOUNTINFO_MAX (4u << 20) /* bytes; a longer one gives -EFBIG */

/* A cgroup that was found, of memory or another controller. Plain data, nothing to free. */
struct cgroup_memory {
	int version; /* 1 or 2 */
	size_t top;  /* length in dir of the mount point: no ancestor is above it */
	char dir[CGROUP_PATH_MAX];
};

/* The same for any controller ("cpu", "cpuacct", "blkio", "pids"): where it is mounted as
 * v1, else v2 (also of a word that is no controller). */
int cgroup_find_of(const char *root, long pid, const char *controller, struct cgroup_memory *ret);

/* Find the memory cgroup of a process. -ENOENT: it has none, or none that can be
 * seen from here; -ESRCH: no such process; -ENAMETOOLONG, -ENOMEM, -EFBIG. */
int cgroup_memory_find(const char *root, long pid, struct cgroup_memory *ret);

/* Tightest limit of it and the ancestors that can be seen, bytes. -ENODATA: none
 * has a limit; -ENOENT: no file says; -EBADMSG: one is malformed. */
int cgroup_memory_limit_of(const struct cgroup_memory *m, uint64_t *ret);

/* Processes of it (v2: and below) that the kernel killed for memory since it was
 * made, for its own limit or the machine's. The file's path into what (cap
 * bytes, cut). -ENOENT: no file says (the root of v2; Linux before 4.13);
 * -EBADMSG. */
int cgroup_oom_kills_of(const struct cgroup_memory *m, uint64_t *ret, char *what, size_t cap);

/* Find, then read. Errors of both. */
int cgroup_memory_limit(const char *root, long pid, uint64_t *ret);

#endif
