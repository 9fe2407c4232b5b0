/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_here.c - what recording itself needs: shared memory, the folder where
 * programs meet the agent, the agent, the folder of the runs.
 */
#include "cli/doctor.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "store/store.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HERE_RING (8448.0 * 1024) /* a process's ring and control page */
#define HERE_RINGS_WANTED 8       /* ranks and workers that should fit */
#define HERE_RUN_BYTES (1024.0 * 1024 * 1024)
#define HERE_LOG_TAIL (64 << 10)

void doctor_add(struct doctor *d, const char *area, enum doctor_state state, const char *remedy,
		const char *fmt, ...)
{
	struct doctor_finding f = {area, state, NULL, NULL};
	struct buf b;
	va_list ap;

	buf_init(&b, 4096);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	f.text = xstrndup(b.data ? b.data : "", b.len);
	buf_done(&b);
	f.remedy = remedy ? xstrdup(remedy) : NULL;
	d->findings = xgrow(d->findings, d->n, &d->cap, sizeof(f));
	d->findings[d->n++] = f;
}

void doctor_done(struct doctor *d)
{
	size_t i;

	for (i = 0; i < d->n; i++) {
		free(d->findings[i].text);
		free(d->findings[i].remedy);
	}
	free(d->findings);
	d->findings = NULL;
	d->n = d->cap = 0;
}

static double here_room(const char *path, bool *ret_memory)
{
	struct statvfs v;
	struct statfs s;

	*ret_memory = statfs(path, &s) == 0 && s.f_type == 0x01021994; /* TMPFS_MAGIC */
	return statvfs(path, &v) < 0 ? -1 : (double)v.f_bavail * (double)v.f_frsize;
}

static void here_rings(struct doctor *d, const char *path)
{
	char size[FMT_MAX];
	bool memory = false;
	double room = here_room(path, &memory);

	if (room < 0)
		return;
	fmt_bytes(size, room);
	if (!memory)
		doctor_add(d, "shared memory", DOCTOR_WARNING,
			   "set XDG_RUNTIME_DIR, or LAPSE_RENDEZVOUS, to a folder on tmpfs",
			   "%s is on a disk: rings wait for it now and then", path);
	else if (room < HERE_RING)
		doctor_add(
			d, "shared memory", DOCTOR_BROKEN,
			"make it larger (docker run --shm-size=8g; mount -o remount,size=...), or "
			"the rings smaller (record.ring_kib)",
			"%s has %s left: no program can record", path, size);
	else if (room < HERE_RING * HERE_RINGS_WANTED)
		doctor_add(d, "shared memory", DOCTOR_WARNING,
			   "docker run --shm-size=8g, or smaller rings (record.ring_kib); data "
			   "loaders with workers need it too",
			   "%s has %s left, room for %d processes", path, size,
			   (int)(room / HERE_RING));
	else
		doctor_add(d, "shared memory", DOCTOR_OK, NULL, "%s, %s left", path, size);
}

static long here_pid(int dir)
{
	struct buf b;
	long pid = 0;

	buf_init(&b, 64);
	if (file_read(dir, "agent.lock", &b) == 0 && b.data)
		pid = strtol(b.data, NULL, 10);
	buf_done(&b);
	return pid;
}

/* The last error that the agent told. */
static void here_log(struct doctor *d, int dir)
{
	int fd = openat(dir, "agent.log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *text, *line, *save = NULL, *last = NULL;
	off_t size;
	ssize_t n;

	if (fd < 0)
		return;
	size = lseek(fd, 0, SEEK_END);
	text = xcalloc(HERE_LOG_TAIL + 1, 1);
	n = pread(fd, text, HERE_LOG_TAIL, size > HERE_LOG_TAIL ? size - HERE_LOG_TAIL : 0);
	close(fd);
	for (line = n > 0 ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save))
		if (strstr(line, " error: "))
			last = line;
	if (last)
		doctor_add(d, "agent", DOCTOR_NOTE, NULL, "last error in agent.log: %s", last);
	free(text);
}

void doctor_agent(struct doctor *d)
{
	char path[RENDEZVOUS_PATH_MAX];
	int dir = rendezvous_path(path) < 0 ? -ENAMETOOLONG : rendezvous_open(1);

	if (dir < 0) {
		doctor_add(d, "rendezvous", DOCTOR_BROKEN,
			   "remove it, or set LAPSE_RENDEZVOUS to a folder of yours with mode 0700",
			   "%s cannot be used: %s", path,
			   dir == -EPERM ? "it is a link, not ours, or open to others"
					 : strerror(-dir));
		return;
	}
	doctor_add(d, "rendezvous", DOCTOR_OK, NULL, "%s", path);
	here_rings(d, path);
	if (rendezvous_is_locked(dir, "agent.lock"))
		doctor_add(d, "agent", DOCTOR_OK, NULL, "running, process %ld", here_pid(dir));
	else
		doctor_add(d, "agent", DOCTOR_OK, NULL,
			   "not running; lapse run and lapse.init() start it");
	here_log(d, dir);
	close(dir);
	if (clock_kind() == WIRE_CLOCK_MONOTONIC)
		doctor_add(d, "clock", DOCTOR_NOTE,
			   "the kernel's clocksource is not tsc: see "
			   "/sys/devices/system/clocksource/clocksource0/",
			   "records take the time from the kernel, some 20 ns more each");
	else
		doctor_add(d, "clock", DOCTOR_OK, NULL, "the CPU's own counter");
}

/* The nearest folder above a path that exists. */
static char *here_existing(const char *path)
{
	char *p = xstrdup(path), *slash;

	while (access(p, F_OK) < 0) {
		slash = strrchr(p, '/');
		if (!slash) {
			free(p);
			return xstrdup(".");
		}
		*(slash == p ? slash + 1 : slash) = '\0';
	}
	return p;
}

void doctor_store(struct doctor *d)
{
	char size[FMT_MAX], *at = here_existing(d->dir);
	bool memory;
	double room = here_room(at, &memory);

	fmt_bytes(size, room);
	if (access(at, W_OK) < 0)
		doctor_add(d, "runs", DOCTOR_BROKEN, "give another folder: --dir or LAPSE_DIR",
			   "%s cannot be written to: %s", at, strerror(errno));
	else if (memory)
		doctor_add(d, "runs", DOCTOR_WARNING, "give a folder on a disk: --dir or LAPSE_DIR",
			   "%s is in memory: runs are gone after a reboot", at);
	else if (room >= 0 && room < HERE_RUN_BYTES)
		doctor_add(d, "runs", DOCTOR_WARNING, "lapse gc makes room", "%s has %s left", at,
			   size);
	else
		doctor_add(d, "runs", DOCTOR_OK, NULL, "%s, %s left%s", d->dir, size,
			   store_wal_is_safe(at) ? ""
						 : "; a network file system: live databases are "
						   "local and moved at the end");
	free(at);
}
