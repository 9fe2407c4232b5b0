/* SPDX-License-Identifier: Apache-2.0
 *
 * The group shm: /dev/shm as the run sees it. Workers of data loading hand over tensors
 * there, and die of SIGBUS when it is full; in a container it has 64 MiB unless told
 * otherwise.
 */
#include "probe/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "probe/linux/mounts.h"
#include "probe/linux/proc.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#define SHM_MOUNTINFO_MAX (4u << 20)
#define SHM_LOOK_NS 60000000000 /* between looks for what is mounted there */
#define SHM_TMPFS_MAGIC 0x01021994
#define SHM_WARN 0.9 /* of it is in use: told once */
#define SHM_CALM 0.8

enum {
	SHM_TOTAL,
	SHM_USED,
	SHM_ROWS
};

/* clang-format off */
static const struct probe_metric shm_rows[SHM_ROWS] = {
	[SHM_TOTAL] = {"shm/total", "By",
		"size of /dev/shm as the run's command sees it",
		"statvfs of /proc/PID/root/dev/shm", SINK_GAUGE, PROBE_COST_LOW, NULL},
	[SHM_USED] = {"shm/used", "By",
		"what of it is in use; workers of data loading die of SIGBUS when it is full",
		"statvfs of /proc/PID/root/dev/shm", SINK_GAUGE, PROBE_COST_LOW, NULL},
};
/* clang-format on */

struct shm_state {
	const struct probe_env *env;
	struct textbuf buf;
	uint32_t points[SHM_ROWS];
	int64_t looked_ns; /* CLOCK_MONOTONIC; 0: never */
	bool is_tmpfs, warned;
};

static int shm_group_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			  struct err *e)
{
	struct shm_state *m = calloc(1, sizeof(*m));
	int i;

	(void)e;
	if (!m)
		return -ENOMEM;
	m->env = env;
	for (i = 0; i < SHM_ROWS; i++)
		m->points[i] = probe_point(s, &shm_rows[i], "");
	*ret_state = m;
	return 0;
}

static void shm_close(void *state)
{
	struct shm_state *m = state;

	textbuf_done(&m->buf);
	free(m);
}

/* By the list of mounts, which asks no file system: a tmpfs right there, and a root
 * whose own server need not be asked for the way. The last of several hides the others. */
static bool shm_is_tmpfs(const char *text, size_t len)
{
	static const char *const remote[] = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs"};
	const char *next = text, *end = text + len, *line, *eol;
	bool is = false, far = false;
	struct mounts_line l;
	size_t i;

	while ((line = proc_line(&next, end, &eol))) {
		if (mounts_parse(line, eol, &l))
			continue;
		if (mounts_is(l.point, "/dev/shm"))
			is = mounts_is(l.type, "tmpfs");
		if (!mounts_is(l.point, "/") && !mounts_is(l.point, "/dev"))
			continue;
		far = proc_begins(l.type.p, l.type.end, "fuse");
		for (i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
			far |= mounts_is(l.type, remote[i]);
	}
	return is && !far;
}

static void shm_look(struct shm_state *m, int64_t mono_ns)
{
	char path[64];

	if (m->looked_ns && mono_ns - m->looked_ns < SHM_LOOK_NS)
		return;
	m->looked_ns = mono_ns;
	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", m->env->pid);
	if (!textfile_once(m->env->root, path, &m->buf, SHM_MOUNTINFO_MAX))
		m->is_tmpfs = shm_is_tmpfs(m->buf.text, m->buf.len);
}

static int shm_ask(const struct shm_state *m, struct statvfs *ret)
{
	char path[PROBE_ROOT_MAX + 64];
	struct statfs fs;
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/proc/%ld/root/dev/shm", m->env->root, m->env->pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstatfs(fd, &fs) < 0 || fstatvfs(fd, ret) < 0)
		err = -errno;
	else if ((unsigned long)fs.f_type != SHM_TMPFS_MAGIC)
		err = -ENODEV;
	close(fd);
	return err;
}

static void shm_warn(struct shm_state *m, struct probe_set *s, double used, double total)
{
	char text[200];

	if (used < total * SHM_CALM)
		m->warned = false;
	if (used < total * SHM_WARN || m->warned)
		return;
	m->warned = true;
	snprintf(text, sizeof(text),
		 "/dev/shm of the run is %.0f %% full (%.0f of %.0f MiB): workers of data loading "
		 "die of SIGBUS when it is; docker run --shm-size or ipc: host makes it larger",
		 100 * used / total, used / 1048576, total / 1048576);
	probe_event(s, 2, "shm-full", text, "");
}

static void shm_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	const char *why = "the run has no tmpfs of its own on /dev/shm";
	struct shm_state *m = state;
	double total, used;
	struct statvfs v;
	int err = -ENODEV;

	shm_look(m, now->mono_ns);
	if (m->is_tmpfs)
		err = shm_ask(m, &v);
	if (err == -EACCES || err == -EPERM)
		why = "the command's root is not ours to look into: it belongs to another user";
	else if (err == -ENOENT || err == -ESRCH)
		why = "the command has ended";
	else if (!err && !v.f_blocks)
		why = "it has no limit";
	if (err || !v.f_blocks) {
		probe_absent(s, m->points[SHM_TOTAL], why);
		probe_absent(s, m->points[SHM_USED], why);
		return;
	}
	total = (double)v.f_blocks * (double)v.f_frsize;
	used = (double)(v.f_blocks - v.f_bfree) * (double)v.f_frsize;
	probe_put(s, m->points[SHM_TOTAL], total);
	probe_put(s, m->points[SHM_USED], used);
	shm_warn(m, s, used, total);
}

const struct probe_group probe_shm = {
	.name = "shm",
	.metrics = shm_rows,
	.n_metrics = SHM_ROWS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.of_run = true,
	.open = shm_group_open,
	.read = shm_read,
	.close = shm_close,
};
