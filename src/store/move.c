/* SPDX-License-Identifier: Apache-2.0
 *
 * move.c - a live database from the run's folder to a private one and back again.
 * Each step leaves a state from which the next opening, or `lapse recover`, goes on:
 *
 *   TOKEN.new    being made; nothing is stored in it yet
 *   TOKEN        the live file; HOST.live in the run's folder names it
 *   TOKEN.done   what it held is in the run's folder
 *
 * The pointer is written before TOKEN.new becomes TOKEN and deleted after TOKEN has
 * become TOKEN.done, so a TOKEN without a pointer is one whose run's folder was
 * deleted or begun anew.
 */
#include "base/mem.h"
#include "store/place.h"
#include "store/store_priv.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOVE_SLICE 1024 /* pages of a snapshot between two looks whether to stop */

static char *move_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	return xstrndup(path, slash ? (size_t)(slash - path) : 0);
}

static int move_rename(const char *folder, const char *from, const char *to, struct err *e)
{
	char *old = xasprintf("%s%s", folder, from), *new = xasprintf("%s%s", folder, to);
	char *parent = move_parent(folder);
	int r = rename(old, new) < 0 ? err_errno(e, -errno, "cannot rename %s", old) : 0;

	if (r == 0)
		r = filecopy_sync_dir(parent, e);
	free(old);
	free(new);
	free(parent);
	return r;
}

/* ---- a snapshot --------------------------------------------------------------------------------
 */

static bool move_is_stopped(struct place *p)
{
	bool stop;

	if (!p || !p->running)
		return false;
	pthread_mutex_lock(&p->lock);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

/* All pages as of now: the transaction keeps them while the writer goes on. */
static int move_backup(struct place *p, sqlite3 *from, sqlite3 *to, struct err *e)
{
	sqlite3_backup *b;
	int64_t n;
	int rc = SQLITE_OK, r;

	r = db_exec(from, "BEGIN", e);
	if (r == 0)
		r = db_int(from, "SELECT count(*) FROM sqlite_master", e, &n);
	if (r < 0)
		return r;
	b = sqlite3_backup_init(to, "main", from, "main");
	if (!b)
		return db_fail(to, sqlite3_extended_errcode(to), "copying", e);
	while (rc == SQLITE_OK && !move_is_stopped(p))
		rc = sqlite3_backup_step(b, MOVE_SLICE);
	sqlite3_backup_finish(b);
	db_exec(from, "ROLLBACK", NULL);
	if (rc == SQLITE_OK)
		return err_set(e, -ECANCELED, "copying was stopped");
	if (rc == SQLITE_DONE)
		return 0;
	return err_set(e, db_errno((rc & 0xff) == SQLITE_IOERR ? to : from, rc), "%s: copying: %s",
		       sqlite3_db_filename(from, "main"), sqlite3_errstr(rc));
}

/* The copy of a database in WAL mode says that it is one; it has no log. */
static int move_make_plain(const char *path, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0 || pwrite(fd, "\1\1", 2, 18) != 2)
		r = err_errno(e, -errno, "cannot write %s", path);
	if (fd >= 0)
		close(fd);
	return r;
}

static int move_snapshot(struct place *p, const char *from, const char *to, struct err *e)
{
	sqlite3 *in = NULL, *out = NULL;
	char *journal;
	int rc, r = 0;

	unlink(to);
	rc = sqlite3_open_v2(from, &in, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		r = db_fail(in, rc, "cannot open", e);
	/* Whoever closes last would write the log back, and make it one file. */
	if (r == 0)
		sqlite3_db_config(in, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (r == 0)
		r = db_exec(in, "PRAGMA mmap_size=0; PRAGMA cache_size=-256", e);
	if (r == 0)
		r = db_open_writer(to, false, e, &out);
	if (r == 0)
		r = db_exec(out, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", e);
	if (r == 0)
		r = move_backup(p, in, out, e);
	sqlite3_close(in);
	if (sqlite3_close(out) != SQLITE_OK && r == 0)
		r = err_set(e, -EIO, "%s: cannot be closed", to);
	if (r == 0)
		r = move_make_plain(to, e);
	journal = xasprintf("%s-journal", to);
	unlink(journal);
	free(journal);
	if (r < 0)
		unlink(to);
	return r;
}

/* A plain file to where HOST.db is in the run's folder. */
static int move_home(const struct place *p, const char *from, struct err *e)
{
	char *tmp = xasprintf("%s/.%s.copy", p->dir, p->file);
	int r = filecopy_file(from, tmp, e);

	if (r == 0 && rename(tmp, p->home) < 0)
		r = err_errno(e, -errno, "cannot rename %s", tmp);
	if (r == 0)
		r = filecopy_sync_dir(p->dir, e);
	else
		unlink(tmp);
	free(tmp);
	return r;
}

int place_copy(struct place *p, const char *path, struct err *e)
{
	char *snapshot = xasprintf("%s/copy", p->folder);
	int r = move_snapshot(p, path, snapshot, e);

	if (r == 0)
		r = move_home(p, snapshot, e);
	unlink(snapshot);
	free(snapshot);
	return r;
}

/* ---- back home
 * ----------------------------------------------------------------------------------- */

/* TOKEN.done: the pointer, if it is still that of TOKEN, and all of the folder. */
static void move_forget(const char *folder, const char *pointer, const char *suffix)
{
	char *done = xasprintf("%s%s", folder, suffix);
	struct place_pointer p = {0};
	size_t n = strlen(folder);

	if (place_pointer_read(pointer, &p) == 0 && strncmp(p.path, folder, n) == 0 &&
	    p.path[n] == '/')
		unlink(pointer);
	place_pointer_done(&p);
	place_remove(done);
	free(done);
}

int place_finish(struct place *p, const char *path, struct err *e)
{
	struct err why = {0};
	int r;

	if (!p->folder)
		return 0;
	/* A reader may have kept the log from being written back. */
	r = place_is(path, "-wal") ? place_copy(p, path, &why) : move_home(p, path, &why);
	if (r == 0)
		r = move_rename(p->folder, "", ".done", &why);
	if (r < 0)
		return err_set(
			e, r,
			"%.300s; all is kept in %s, and `lapse recover` moves it when that is "
			"possible again",
			why.text, path);
	move_forget(p->folder, p->pointer, ".done");
	return 0;
}

/* ---- from home
 * ------------------------------------------------------------------------------------- */

/* What an earlier version, or another setting, left beside the file: into it. */
static int move_settle_log(const char *home, struct err *e)
{
	sqlite3 *db;
	int r = db_open_writer(home, false, e, &db);

	if (r < 0)
		return r;
	r = db_exec(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE", e);
	sqlite3_close(db);
	return r;
}

/* The file at home, if there is one, into the new folder. One that cannot be opened
 * is taken as it is: the store sets it aside. */
static int move_fetch(struct place *p, const char *to, struct err *e)
{
	struct err why = {0};
	int r = 0;

	if (!place_is(p->home, ""))
		return 0;
	if (place_is(p->home, "-wal") || place_is(p->home, "-journal"))
		r = move_settle_log(p->home, &why);
	if (r < 0 && r != -EUCLEAN)
		return err_set(e, r, "%s", why.text);
	return filecopy_file(p->home, to, e);
}

static void move_token(char out[24])
{
	uint64_t n = (uint64_t)store_utc_ns();

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != (ssize_t)sizeof(n))
		n ^= (uint64_t)getpid() << 40;
	snprintf(out, 24, "%016llx", (unsigned long long)n);
}

static int move_lock(struct place *p, const char *folder, struct err *e)
{
	char *path = xasprintf("%s/lock", folder);
	int fd = rendezvous_lock(AT_FDCWD, path), r = 0;

	if (fd == -EAGAIN)
		r = err_set(e, -EBUSY, "%s is being written by another process", folder);
	else if (fd < 0)
		r = err_errno(e, fd, "cannot lock %s", path);
	else
		p->lock_fd = fd;
	free(path);
	return r;
}

static int move_point(struct place *p, const char *host, struct err *e)
{
	struct place_pointer to = {.since_ns = store_utc_ns()};
	char boot[40];
	int r;

	place_boot(boot);
	to.host = (char *)host;
	to.boot = boot;
	to.path = xasprintf("%s/%s", p->folder, p->file);
	r = place_pointer_write(p->pointer, &to, e);
	free(to.path);
	return r < 0 ? r : filecopy_sync_dir(p->dir, e);
}

/* A new private folder with what is at home in it. */
static int move_begin(struct place *p, const char *local, const char *host, struct err *e)
{
	char token[24], *made, *file;
	int r;

	move_token(token);
	p->folder = xasprintf("%s/%s", local, token);
	made = xasprintf("%s.new", p->folder);
	file = xasprintf("%s/%s", made, p->file);
	r = mkdir(made, 0700) < 0 ? err_errno(e, -errno, "cannot make %s", made) : 0;
	if (r == 0)
		r = move_lock(p, made, e);
	if (r == 0)
		r = place_origin_write(made, p->dir, p->file, e);
	if (r == 0)
		r = move_fetch(p, file, e);
	if (r == 0)
		r = filecopy_sync_dir(made, e);
	if (r == 0)
		r = move_point(p, host, e);
	if (r == 0)
		r = move_rename(p->folder, ".new", "", e);
	if (r < 0) {
		move_forget(p->folder, p->pointer, ".new");
		place_remove(p->folder); /* renamed, but not down to the disk */
	}
	free(made);
	free(file);
	return r;
}

/* ---- settling
 * ------------------------------------------------------------------------------------- */

/* Take up the live file that the pointer names. 0; -ENOENT: there is none to be
 * taken up, *e says so if that is a loss. */
static int move_resume(struct place *p, struct err *e)
{
	struct place_pointer to = {0};
	char *folder;
	int r = place_pointer_read(p->pointer, &to);

	if (r < 0)
		return r == -EBADMSG ? -ENOENT : r;
	folder = move_parent(to.path);
	if (place_is_of(folder, p->dir, p->file)) {
		r = move_lock(p, folder, e);
		if (r == 0)
			p->folder = xstrndup(folder, strlen(folder));
	} else if (place_is(folder, ".done") || place_is(folder, ".new")) {
		move_forget(folder, p->pointer, place_is(folder, ".done") ? ".done" : ".new");
		r = -ENOENT;
	} else {
		p->lost = xasprintf("%s was live on %s in %.3000s, which is not there: what was "
				    "recorded after the copy in the run's folder is missing",
				    p->file, to.host, to.path);
		r = -ENOENT;
	}
	free(folder);
	place_pointer_done(&to);
	return r;
}

static bool move_is_wanted(const struct place *p, const struct store_options *o)
{
	if (o->live == STORE_LIVE_AUTO)
		return !o->no_wal && !fstype_is_wal_safe(p->dir);
	return o->live == STORE_LIVE_LOCAL;
}

/* A private folder, if one is to be had: else the file stays at home. */
static int move_try(struct place *p, const struct store_options *o, struct err *e)
{
	char *host = xstrndup(p->file, strlen(p->file) - 3), *local = NULL;
	struct err why = {0};
	struct stat st;
	int r;

	r = place_choose(o->local_dir, stat(p->home, &st) == 0 ? (uint64_t)st.st_size : 0, &why,
			 &local);
	if (r == 0)
		r = move_begin(p, local, host, e);
	else
		p->slow = xasprintf("%s: each commit waits for the file system of the run's folder",
				    why.text);
	free(local);
	free(host);
	return r == -ENOSPC && p->slow ? 0 : r;
}

int place_settle(struct place *p, const struct store_options *o, struct err *e, char **ret_path,
		 bool *ret_wal)
{
	int r;

	p->lock_fd = -1;
	p->copy_every_ns = o->copy_every_ns > 0 ? o->copy_every_ns : STORE_COPY_NS;
	p->pointer = xasprintf("%s/%.*s.live", p->dir, (int)strlen(p->file) - 3, p->file);
	r = move_resume(p, e);
	if (r == -ENOENT) {
		r = 0;
		if (move_is_wanted(p, o))
			r = move_try(p, o, e);
		if (r == 0 && !p->folder)
			unlink(p->pointer); /* names what is not there */
	}
	if (r < 0)
		return r;
	*ret_path = p->folder ? xasprintf("%s/%s", p->folder, p->file) : xasprintf("%s", p->home);
	*ret_wal = !o->no_wal && fstype_is_wal_safe(p->folder ? p->folder : p->dir);
	return 0;
}

void place_done(struct place *p)
{
	if (p->lock_fd >= 0 && p->pointer)
		close(p->lock_fd);
	free(p->pointer);
	free(p->folder);
	free(p->lost);
	free(p->slow);
	*p = (struct place){.lock_fd = -1};
}
