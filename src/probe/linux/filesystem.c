/* SPDX-License-Identifier: Apache-2.0
 *
 * The group filesystem. A server that is gone holds whoever asks about its files for
 * hours, so each remote mount is asked by a thread of its own that may be left behind.
 */
#include "probe/linux/filesystem.h"

#include "probe/groups.h"
#include "probe/linux/slots.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILESYSTEM_TEXT_MAX (4u << 20) /* bytes of mountinfo */
#define FILESYSTEM_WAIT_NS 500000000   /* for all remote mounts; who is late is taken next time */
#define FILESYSTEM_HUNG_NS 20000000000 /* without an answer: told */
#define FILESYSTEM_STACK 65536

enum {
	FILESYSTEM_TOTAL,
	FILESYSTEM_USED,
	FILESYSTEM_AVAILABLE,
	FILESYSTEM_INODES_TOTAL,
	FILESYSTEM_INODES_FREE,
	FILESYSTEM_METRICS
};

/* clang-format off */
static const struct probe_metric filesystem_metrics[FILESYSTEM_METRICS] = {
	[FILESYSTEM_TOTAL] = {"filesystem/total", "By", "size of the file system",
		"statvfs f_blocks times f_frsize", SINK_GAUGE, PROBE_COST_RARE, "mount"},
	[FILESYSTEM_USED] = {"filesystem/used", "By",
		"space taken; used over used + available is what df shows as Use%",
		"statvfs (f_blocks - f_bfree) times f_frsize", SINK_GAUGE, PROBE_COST_RARE, "mount"},
	[FILESYSTEM_AVAILABLE] = {"filesystem/available", "By",
		"space that users without privileges can still take",
		"statvfs f_bavail times f_frsize", SINK_GAUGE, PROBE_COST_RARE, "mount"},
	[FILESYSTEM_INODES_TOTAL] = {"filesystem/inodes/total", "1",
		"files that the file system can hold",
		"statvfs f_files", SINK_GAUGE, PROBE_COST_RARE, "mount"},
	[FILESYSTEM_INODES_FREE] = {"filesystem/inodes/free", "1",
		"files that can still be made; at 0 the disk is full whatever the space",
		"statvfs f_ffree", SINK_GAUGE, PROBE_COST_RARE, "mount"},
};
/* clang-format on */

int (*filesystem_statvfs)(const char *path, struct statvfs *ret) = statvfs;

/* A question to one mount, owned by the thread that asks and by the group: whoever
 * is last frees it. */
struct filesystem_ask {
	_Atomic int owners;
	_Atomic bool done;
	int err;
	struct statvfs st;
	char path[PROBE_ROOT_MAX + FILESYSTEM_POINT];
};

struct filesystem_slot {
	struct slot slot; /* named by the mount point */
	char type[32], source[128];
	bool remote, read_only, hung;
	struct filesystem_ask *ask; /* NULL: nothing is being asked */
	int64_t asked_ns;           /* CLOCK_MONOTONIC */
	uint32_t points[FILESYSTEM_METRICS];
};

struct filesystem {
	char root[PROBE_ROOT_MAX];
	char run_dir[PATH_MAX]; /* "" unknown */
	struct textfile file;
	struct textbuf buf;
	struct slots slots;
	struct filesystem_mount list[FILESYSTEM_MAX];
	struct probe_set *set; /* during a reading */
};

/* ---- asking --------------------------------------------------------------------- */

static void filesystem_drop(struct filesystem_ask *ask)
{
	if (ask && atomic_fetch_sub(&ask->owners, 1) == 1)
		free(ask);
}

static void *filesystem_thread(void *arg)
{
	struct filesystem_ask *ask = arg;

	ask->err = filesystem_statvfs(ask->path, &ask->st) < 0 ? -errno : 0;
	atomic_store(&ask->done, true);
	filesystem_drop(ask);
	return NULL;
}

/* Signals are for the other threads. */
static int filesystem_spawn(struct filesystem_ask *ask)
{
	pthread_attr_t attr;
	sigset_t all, was;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, FILESYSTEM_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&thread, &attr, filesystem_thread, ask);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static void filesystem_ask(struct filesystem *f, struct filesystem_slot *slot,
			   const struct probe_now *now)
{
	struct filesystem_ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return;
	atomic_init(&ask->owners, 2);
	snprintf(ask->path, sizeof(ask->path), "%s%s", f->root, slot->slot.name);
	if (filesystem_spawn(ask) < 0) {
		free(ask);
		return;
	}
	slot->ask = ask;
	slot->asked_ns = now->mono_ns;
}

static bool filesystem_all_done(const struct filesystem *f)
{
	const struct filesystem_slot *slot;
	size_t i;

	for (i = 0; i < f->slots.len; i++) {
		slot = slots_at(&f->slots, i);
		if (slot->ask && !slot->hung && !atomic_load(&slot->ask->done))
			return false;
	}
	return true;
}

/* Those that hang already are not waited for. */
static void filesystem_wait(const struct filesystem *f)
{
	int64_t waited = 0, step = 500000;

	while (waited < FILESYSTEM_WAIT_NS && !filesystem_all_done(f)) {
		nanosleep(&(struct timespec){0, step}, NULL);
		waited += step;
		step = step < 32000000 ? step * 2 : step;
	}
}

/* ---- figures -------------------------------------------------------------------- */

static void filesystem_absent(struct probe_set *s, const struct filesystem_slot *slot,
			      const char *why)
{
	int i;

	for (i = 0; i < FILESYSTEM_METRICS; i++)
		probe_absent(s, slot->points[i], why);
}

static void filesystem_put(struct probe_set *s, const struct filesystem_slot *slot, int err,
			   const struct statvfs *st)
{
	double unit = (double)(st->f_frsize ? st->f_frsize : st->f_bsize);
	const uint32_t *at = slot->points;

	if (err || st->f_blocks == 0 || st->f_bfree > st->f_blocks) {
		filesystem_absent(s, slot,
				  err == -ESTALE   ? "the server no longer knows the mount (stale "
						     "handle): mount it anew"
				  : err == -EACCES ? "this user may not look at the mount"
				  : err            ? "the mount cannot be asked (statvfs failed)"
						   : "the file system does not tell its size");
		return;
	}
	probe_put(s, at[FILESYSTEM_TOTAL], (double)st->f_blocks * unit);
	probe_put(s, at[FILESYSTEM_USED], (double)(st->f_blocks - st->f_bfree) * unit);
	/* Below 0 where root has used what is kept for it; told as a huge number. */
	probe_put(s, at[FILESYSTEM_AVAILABLE],
		  st->f_bavail > st->f_blocks ? 0 : (double)st->f_bavail * unit);
	if (st->f_files == 0) {
		probe_absent(s, at[FILESYSTEM_INODES_TOTAL], "this file system has no such limit");
		probe_absent(s, at[FILESYSTEM_INODES_FREE], "this file system has no such limit");
		return;
	}
	probe_put(s, at[FILESYSTEM_INODES_TOTAL], (double)st->f_files);
	probe_put(s, at[FILESYSTEM_INODES_FREE], (double)st->f_ffree);
}

/* An event about a mount. */
static void filesystem_tell(struct probe_set *s, int severity, const char *kind,
			    const struct filesystem_slot *slot, const char *what)
{
	char text[600];

	snprintf(text, sizeof(text), "%s (%s %s) %s", slot->slot.name, slot->type, slot->source,
		 what);
	probe_event(s, severity, kind, text, "");
}

/* What a remote mount has answered so far. */
static void filesystem_collect(struct probe_set *s, struct filesystem_slot *slot,
			       const struct probe_now *now)
{
	if (!slot->ask) {
		filesystem_absent(s, slot, "no thread could be made to ask the mount");
		return;
	}
	if (!atomic_load(&slot->ask->done)) {
		filesystem_absent(s, slot,
				  "the mount does not answer: programs that touch it hang");
		if (!slot->hung && now->mono_ns - slot->asked_ns >= FILESYSTEM_HUNG_NS) {
			slot->hung = true;
			filesystem_tell(s, 3, "filesystem-hung", slot,
					"has not answered for 20 s: programs that touch it hang");
		}
		return;
	}
	filesystem_put(s, slot, slot->ask->err, &slot->ask->st);
	filesystem_drop(slot->ask);
	slot->ask = NULL;
	if (slot->hung)
		filesystem_tell(s, 1, "filesystem-answers", slot, "answers again");
	slot->hung = false;
}

/* ---- mounts --------------------------------------------------------------------- */

static void filesystem_make(struct filesystem *f, struct filesystem_slot *slot,
			    const struct filesystem_mount *m)
{
	char labels[PROBE_LABELS_MAX] = "", key[FILESYSTEM_POINT + 16], value[200];
	int i;

	snprintf(slot->type, sizeof(slot->type), "%s", m->type);
	snprintf(slot->source, sizeof(slot->source), "%s", m->source);
	slot->read_only = m->read_only;
	probe_label(labels, sizeof(labels), "mount", m->point);
	for (i = 0; i < FILESYSTEM_METRICS; i++)
		slot->points[i] = labels[0] ? probe_point(f->set, &filesystem_metrics[i], labels)
					    : PROBE_NONE;
	snprintf(key, sizeof(key), "filesystem%s", m->point);
	snprintf(value, sizeof(value), "%s %s", m->type, m->source);
	probe_fact(f->set, key, value);
}

static void filesystem_look(struct filesystem *f, const struct filesystem_mount *m,
			    const struct probe_now *now)
{
	char path[PROBE_ROOT_MAX + FILESYSTEM_POINT];
	struct filesystem_slot *slot;
	struct statvfs st = {0};
	bool is_new;
	int err;

	slot = slots_get(&f->slots, m->point, strlen(m->point), &is_new);
	if (!slot)
		return;
	if (is_new || strcmp(slot->type, m->type) != 0)
		filesystem_make(f, slot, m);
	slot->remote = m->remote;
	if (m->read_only && !slot->read_only)
		filesystem_tell(f->set, 3, "filesystem-readonly", slot,
				"can no longer be written to: the kernel makes it so after errors");
	slot->read_only = m->read_only;
	if (m->remote) {
		if (!slot->ask)
			filesystem_ask(f, slot, now);
		return;
	}
	snprintf(path, sizeof(path), "%s%s", f->root, m->point);
	err = filesystem_statvfs(path, &st) < 0 ? -errno : 0;
	filesystem_put(f->set, slot, err, &st);
}

static void filesystem_gone(void *arg, void *item)
{
	struct filesystem_slot *slot = item;
	struct filesystem *f = arg;

	filesystem_absent(f->set, slot, "not mounted any more");
	filesystem_tell(f->set, 1, "filesystem-gone", slot, "is not mounted any more");
	filesystem_drop(slot->ask);
}

/* ---- the group -------------------------------------------------------------------- */

static void filesystem_slot_done(void *item)
{
	filesystem_drop(((struct filesystem_slot *)item)->ask);
}

static void filesystem_close(void *state)
{
	struct filesystem *f = state;

	slots_done(&f->slots, filesystem_slot_done);
	textfile_done(&f->file);
	textbuf_done(&f->buf);
	free(f);
}

static int filesystem_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			   struct err *e)
{
	struct filesystem *f = calloc(1, sizeof(*f));
	int err;

	(void)s;
	if (!f)
		return -ENOMEM;
	slots_init(&f->slots, sizeof(struct filesystem_slot), 2 * FILESYSTEM_MAX);
	snprintf(f->root, sizeof(f->root), "%s", env->root);
	/* Mount points have no symbolic links in them. */
	if (env->run_dir && (f->root[0] || !realpath(env->run_dir, f->run_dir)))
		snprintf(f->run_dir, sizeof(f->run_dir), "%s", env->run_dir);
	err = textfile_init(&f->file, env->root, "/proc/self/mountinfo");
	if (!err)
		err = textfile_read(&f->file, &f->buf, FILESYSTEM_TEXT_MAX);
	if (err) {
		filesystem_close(f);
		return err == -ENOMEM
			       ? err
			       : err_errno(e, -ENODEV, "/proc/self/mountinfo cannot be read");
	}
	*ret_state = f;
	return 0;
}

static void filesystem_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct filesystem *f = state;
	struct filesystem_slot *slot;
	size_t i, n;

	f->set = s;
	if (textfile_read(&f->file, &f->buf, FILESYSTEM_TEXT_MAX) < 0) {
		for (i = 0; i < f->slots.len; i++)
			filesystem_absent(s, slots_at(&f->slots, i),
					  "/proc/self/mountinfo cannot be read");
		return;
	}
	n = filesystem_list(f->buf.text, f->buf.len, f->run_dir[0] == '/' ? f->run_dir : NULL,
			    f->list);
	slots_begin(&f->slots);
	for (i = 0; i < n; i++)
		filesystem_look(f, &f->list[i], now);
	slots_end(&f->slots, filesystem_gone, f);
	filesystem_wait(f);
	for (i = 0; i < f->slots.len; i++) {
		slot = slots_at(&f->slots, i);
		if (slot->remote)
			filesystem_collect(s, slot, now);
	}
}

const struct probe_group probe_filesystem = {
	.name = "filesystem",
	.metrics = filesystem_metrics,
	.n_metrics = FILESYSTEM_METRICS,
	.place = PROBE_SLOW,
	.period_ns = 10000000000,
	.open = filesystem_open,
	.read = filesystem_read,
	.close = filesystem_close,
};
