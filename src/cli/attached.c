/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attached.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/launch_describe.h"
#include "ring/reader.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTACHED_CMDLINE_MAX (4u << 20)
#define ATTACHED_REAP_MS 1000 /* its parent takes so long at most to reap it */

/* What PIDFD_GET_INFO fills, first version (Linux 6.13; the exit status since 6.15). */
struct attached_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct attached_info) == 64, "layout of the kernel");
#define ATTACHED_GET_INFO _IOWR(0xff, 11, struct attached_info)
#define ATTACHED_INFO_EXIT 8u

int attached_open(struct attached *a, long pid, struct err *e)
{
	*a = (struct attached){.pid = pid, .fd = -1, .start = rendezvous_start_time(pid)};
	if (!a->start)
		return err_set(e, -ESRCH, "there is no process %ld, or it has ended", pid);
	a->fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	/* A thread has no pidfd of its own. */
	if (a->fd < 0 && errno == EINVAL)
		return err_set(e, -ESRCH, "%ld is a thread, not a process", pid);
	if (rendezvous_start_time(pid) != a->start) {
		attached_done(a);
		return err_set(e, -ESRCH, "process %ld has just ended", pid);
	}
	return 0;
}

void attached_done(struct attached *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

char **attached_argv(const struct attached *a)
{
	char path[64], **argv, *text;
	size_t i, n = 0, at = 0;
	struct buf b;

	snprintf(path, sizeof(path), "/proc/%ld/cmdline", a->pid);
	buf_init(&b, ATTACHED_CMDLINE_MAX);
	if (file_read(AT_FDCWD, path, &b) < 0 || b.len == 0) {
		buf_done(&b);
		return NULL;
	}
	for (i = 0; i < b.len; i++)
		n += b.data[i] == '\0';
	n += b.data[b.len - 1] != '\0';
	argv = xcalloc(1, (n + 1) * sizeof(*argv) + b.len + 1);
	text = (char *)(argv + n + 1);
	memcpy(text, b.data, b.len);
	for (i = 0; i < n; i++) {
		argv[i] = text + at;
		at += strlen(argv[i]) + 1;
	}
	buf_done(&b);
	return argv;
}

void attached_describe(const struct attached *a, struct run_start *r)
{
	char path[64];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/cwd", a->pid);
	n = readlink(path, r->cwd, sizeof(r->cwd) - 1);
	r->cwd[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof(path), "/proc/%ld", a->pid);
	if (stat(path, &st) == 0)
		launch_describe_user(st.st_uid, r->user, sizeof(r->user));
}

/* It is dead; once it is reaped the kernel can say how it ended. */
static void attached_ask(struct attached *a)
{
	struct attached_info info = {.mask = ATTACHED_INFO_EXIT};
	struct pollfd p = {.fd = a->fd, .events = POLLHUP};
	int i;

	for (i = 0; i < ATTACHED_REAP_MS / 10; i++) {
		if (ioctl(a->fd, ATTACHED_GET_INFO, &info) == 0 &&
		    (info.mask & ATTACHED_INFO_EXIT)) {
			a->status = info.exit_code;
			a->knows_status = true;
			return;
		}
		info.mask = ATTACHED_INFO_EXIT;
		if (poll(&p, 1, 10) < 0)
			return;
		if (p.revents & POLLHUP)
			continue;
		usleep(10000);
	}
}

bool attached_lives(struct attached *a)
{
	struct pollfd p = {.fd = a->fd, .events = POLLIN};

	if (a->ended)
		return false;
	if (a->fd >= 0)
		a->ended = poll(&p, 1, 0) > 0;
	else
		a->ended = rendezvous_start_time(a->pid) != a->start;
	if (a->ended && a->fd >= 0)
		attached_ask(a);
	return !a->ended;
}

bool attached_records(const struct attached *a, int dirfd, char id[RUN_ID_MAX + 1])
{
	int fd = openat(dirfd, "rings", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;
	struct dirent *e;
	struct reader r;
	char why[128];

	while (d && !found && (e = readdir(d))) {
		const char *dot = strrchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".ring") != 0 || reader_open(fd, e->d_name, &r, why) < 0)
			continue;
		found = r.ring.pid == a->pid && r.ring.start_time == a->start;
		if (found)
			snprintf(id, RUN_ID_MAX + 1, "%s", r.ring.run);
		reader_done(&r);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return found;
}
