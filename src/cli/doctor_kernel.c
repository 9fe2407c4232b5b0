/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_kernel.c - the machine, and what its kernel lets us see.
 */
#include "cli/doctor.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "probe/linux/pidns.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KERNEL_FILES_WANTED 1024

/* A setting under /proc/sys: its number, or -1 if it cannot be read. */
static long kernel_number(const char *path)
{
	struct buf b;
	long v = -1;

	buf_init(&b, 64);
	if (file_read(AT_FDCWD, path, &b) == 0 && b.data)
		v = strtol(b.data, NULL, 10);
	buf_done(&b);
	return v;
}

static const char *kernel_container(void)
{
	const char *kind = getenv("container");

	if (access("/.dockerenv", F_OK) == 0)
		return ", in a Docker container";
	if (access("/run/.containerenv", F_OK) == 0)
		return ", in a Podman container";
	if (getenv("KUBERNETES_SERVICE_HOST"))
		return ", in a Kubernetes pod";
	return kind && kind[0] ? ", in a container" : "";
}

static void kernel_files(struct doctor *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_cur < KERNEL_FILES_WANTED)
		doctor_add(d, "open files", DOCTOR_WARNING, "ulimit -n 4096",
			   "at most %llu in a process: the agent closes and opens files more often",
			   (unsigned long long)limit.rlim_cur);
}

static void kernel_processes(struct doctor *d)
{
	char path[64];

	/* With hidepid another user's processes, PID 1 at least, are not there. */
	if (geteuid() != 0 && access("/proc/1/stat", F_OK) < 0)
		doctor_add(d, "processes", DOCTOR_NOTE, NULL,
			   "/proc hides other users' processes: children that changed their user "
			   "are not counted");
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	if (access(path, R_OK) < 0)
		doctor_add(
			d, "processes", DOCTOR_NOTE, NULL,
			"the kernel has no lists of children (CONFIG_PROC_CHILDREN): new processes "
			"of a run are found every 5 s");
	if (!pidns_is_first())
		doctor_add(d, "processes", DOCTOR_NOTE, NULL,
			   "this is a PID namespace of its own: pids in messages of the kernel and "
			   "the GPU driver are not those that are seen here");
}

static void kernel_log(struct doctor *d)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0) {
		close(fd);
		return;
	}
	doctor_add(d, "kernel log", DOCTOR_NOTE,
		   kernel_number("/proc/sys/kernel/dmesg_restrict") > 0
			   ? "sysctl kernel.dmesg_restrict=0, or CAP_SYSLOG for the agent"
			   : NULL,
		   "cannot be read: GPU errors (Xid), kills for memory and hung tasks are seen "
		   "only by what they cause");
}

void doctor_kernel(struct doctor *d)
{
	struct utsname uts;

	if (uname(&uts) == 0)
		doctor_add(d, "machine", DOCTOR_OK, NULL, "%s, %s %s, %s%s", uts.nodename,
			   uts.sysname, uts.release, uts.machine, kernel_container());
	kernel_files(d);
	kernel_processes(d);
	kernel_log(d);
}
