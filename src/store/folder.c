/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - see folder.h.
 */
#include "store/folder.h"

#include "base/mem.h"
#include "base/text.h"
#include "store/store_priv.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_DEPTH_MAX 64
#define FOLDER_MAGIC_AT 68 /* of application_id in a database, big-endian */

/* ---- looking -------------------------------------------------------------------- */

/* Closing a descriptor of a database drops locks that this process has on it: so only
 * of files that it has not open. */
static bool folder_is_database(int dirfd, const char *name)
{
	unsigned char head[FOLDER_MAGIC_AT + 4];
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return false;
	n = pread(fd, head, sizeof(head), 0);
	close(fd);
	return n == (ssize_t)sizeof(head) && memcmp(head, "SQLite format 3", 16) == 0 &&
	       memcmp(head + FOLDER_MAGIC_AT, "LAPS", 4) == 0;
}

static void folder_note_time(const struct stat *st, struct folder_info *info)
{
	int64_t at = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;

	if (at > info->change_ns)
		info->change_ns = at;
}

static void folder_look_at_database(int dirfd, const char *name, struct folder_info *info)
{
	char *lock = xasprintf("%s.lock", name), *wal = xasprintf("%s-wal", name);
	struct stat st;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (fstatat(dirfd, i ? wal : name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		folder_note_time(&st, info);
		/* Until the first checkpoint all is in the log. */
		info->is_run |= i == 1 && st.st_size > 0;
	}
	info->is_written |= rendezvous_is_locked(dirfd, lock) == 1;
	info->is_run |= info->is_written || folder_is_database(dirfd, name);
	free(lock);
	free(wal);
}

/* The end that is recorded; 0: none, or it cannot be read. */
static int64_t folder_end(const char *dir)
{
	struct store_reader *r = NULL;
	struct store_run run = {0};
	struct err e = {0};
	bool ended;

	ended = store_reader_open(dir, &e, &r) == 0 && store_reader_warning(r)[0] == '\0' &&
		store_reader_run(r, &run, &e) == 0 && run.outcome != RUN_RUNNING;
	store_reader_close(r);
	return ended ? run.end_ns : 0;
}

static int folder_open(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(e, -ENOTDIR, "%s is a link or no folder", dir);
	return fd < 0 ? err_errno(e, -errno, "cannot open the folder %s", dir) : fd;
}

/* What its databases say; fd stays the caller's. */
static int folder_databases(int fd, const char *dir, struct folder_info *info, struct err *e)
{
	int copy = dup(fd);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *one;
	struct stat st;

	if (!d) {
		if (copy >= 0)
			close(copy);
		return err_errno(e, -errno, "cannot read the folder %s", dir);
	}
	rewinddir(d);
	while ((one = readdir(d))) {
		if (one->d_name[0] == '.' ||
		    fstatat(fd, one->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (text_ends(one->d_name, ".db"))
			folder_look_at_database(fd, one->d_name, info);
		if (text_ends(one->d_name, ".live")) {
			info->is_away = info->is_run = true;
			folder_note_time(&st, info);
		}
	}
	closedir(d);
	return 0;
}

int folder_look(const char *dir, struct err *e, struct folder_info *ret)
{
	struct folder_info info = {.state = FOLDER_OPEN};
	int fd = folder_open(dir, e), r;

	if (fd < 0)
		return fd;
	r = folder_databases(fd, dir, &info, e);
	close(fd);
	if (r < 0)
		return r;
	info.bytes = folder_bytes(dir);
	if (!info.is_written && !info.is_away && info.is_run)
		info.end_ns = folder_end(dir);
	if (info.end_ns)
		info.state = FOLDER_ENDED;
	else if (info.is_written ||
		 store_utc_ns() - info.change_ns < (int64_t)FOLDER_QUIET_S * 1000000000)
		info.state = FOLDER_LIVE;
	if (info.end_ns == 0)
		info.end_ns = info.change_ns;
	*ret = info;
	return 0;
}

bool folder_is_written(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *one;
	bool is = false;

	while (d && !is && (one = readdir(d)))
		is = text_ends(one->d_name, ".live") ||
		     (text_ends(one->d_name, ".db.lock") &&
		      rendezvous_is_locked(dirfd(d), one->d_name) == 1);
	if (d)
		closedir(d);
	return is;
}

/* ---- walking --------------------------------------------------------------------- */

/* All in a folder, depth first; the descriptor is taken over. */
struct folder_walk {
	dev_t dev;
	bool remove;
	uint64_t bytes;
	char *stuck; /* the first that could not be deleted; owned */
	int why;
};

static void folder_stick(struct folder_walk *w, const char *name, int why)
{
	if (w->stuck)
		return;
	w->stuck = xstrdup(name);
	w->why = why;
}

static void folder_walk(struct folder_walk *w, int fd, unsigned depth);

static void folder_walk_one(struct folder_walk *w, int fd, const char *name, unsigned depth)
{
	struct stat st;
	int below;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	w->bytes += (uint64_t)st.st_blocks * 512;
	if (S_ISDIR(st.st_mode)) {
		if (st.st_dev != w->dev || depth >= FOLDER_DEPTH_MAX) {
			folder_stick(w, name, st.st_dev != w->dev ? -EXDEV : -ELOOP);
			return;
		}
		below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0) {
			if (errno != ENOENT)
				folder_stick(w, name, -errno);
			return;
		}
		folder_walk(w, below, depth + 1);
	}
	if (w->remove && unlinkat(fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 &&
	    errno != ENOENT)
		folder_stick(w, name, -errno);
}

static void folder_walk(struct folder_walk *w, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *one;

	if (!d) {
		close(fd);
		return;
	}
	while ((one = readdir(d)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			folder_walk_one(w, fd, one->d_name, depth);
	closedir(d);
}

uint64_t folder_bytes(const char *dir)
{
	struct folder_walk w = {0};
	struct stat st;
	int fd = folder_open(dir, NULL);

	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	w.dev = st.st_dev;
	w.bytes = (uint64_t)st.st_blocks * 512;
	folder_walk(&w, fd, 0);
	free(w.stuck);
	return w.bytes;
}

/* ---- removing --------------------------------------------------------------------- */

/* Delete PARENT/NAME, which has a name of its own already. */
static int folder_delete(int parent, const char *where, const char *name, struct err *e)
{
	struct folder_walk w = {.remove = true};
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = err_errno(e, -errno, "cannot open %s/%s", where, name);
		if (fd >= 0)
			close(fd);
		return r;
	}
	w.dev = st.st_dev;
	folder_walk(&w, fd, 0);
	if (w.stuck)
		r = err_errno(e, w.why, "cannot delete \"%s\" in %s/%s", w.stuck, where, name);
	else if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(e, -errno, "cannot delete %s/%s", where, name);
	free(w.stuck);
	return r;
}

/* A name that is not there yet; the caller frees it. */
static char *folder_rename(int parent, const char *name, int *ret)
{
	struct stat st;
	unsigned i;
	char *to;

	for (i = 0;; i++) {
		to = i ? xasprintf(".%.200s.%u.removed", name, i)
		       : xasprintf(".%.200s.removed", name);
		if (fstatat(parent, to, &st, AT_SYMLINK_NOFOLLOW) < 0)
			break;
		free(to);
	}
	*ret = renameat(parent, name, parent, to) < 0 ? -errno : 0;
	return to;
}

static int folder_check_removal(const char *dir, bool any, struct err *e)
{
	struct folder_info info = {0};
	int r, fd = folder_open(dir, e);

	if (fd < 0)
		return fd;
	r = folder_databases(fd, dir, &info, e);
	close(fd);
	if (r == 0 && info.is_written)
		r = err_set(e, -EBUSY, "%s is being recorded", dir);
	if (r == 0 && !info.is_run && !any)
		r = err_set(e, -EINVAL, "%s does not look like a run: no database of lapse in it",
			    dir);
	return r;
}

int folder_remove(const char *dir, bool any, struct err *e)
{
	char *where = xstrdup(dir), *slash, *to;
	const char *name;
	int parent, r;

	while (strlen(where) > 1 && text_ends(where, "/"))
		where[strlen(where) - 1] = '\0';
	slash = strrchr(where, '/');
	name = slash ? slash + 1 : where;
	r = !*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0
		    ? err_set(e, -EINVAL, "%s: name the run's folder itself", dir)
		    : folder_check_removal(where, any, e);
	if (r < 0) {
		free(where);
		return r;
	}
	place_drop(where);
	if (slash)
		*slash = '\0';
	parent = open(slash ? (*where ? where : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0) {
		r = err_errno(e, -errno, "cannot open the folder of %s", dir);
	} else {
		to = folder_rename(parent, name, &r);
		r = r < 0 ? err_errno(e, r, "cannot rename %s", dir)
			  : folder_delete(parent, slash ? where : ".", to, e);
		free(to);
		close(parent);
	}
	free(where);
	return r;
}

int folder_sweep(const char *root, struct err *e)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), copy, n = 0;
	struct dirent *one;
	DIR *d;

	if (fd < 0)
		return err_errno(e, -errno, "cannot open the folder %s", root);
	copy = dup(fd);
	d = copy < 0 ? NULL : fdopendir(copy);
	while (d && (one = readdir(d)))
		if (one->d_name[0] == '.' && text_ends(one->d_name, ".removed") &&
		    folder_delete(fd, root, one->d_name, e) == 0)
			n++;
	if (d)
		closedir(d);
	else if (copy >= 0)
		close(copy);
	close(fd);
	return n;
}
