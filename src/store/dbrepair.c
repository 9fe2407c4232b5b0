/* SPDX-License-Identifier: Apache-2.0
 *
 * dbrepair.c - a damaged file of a run is replaced by a new one that has what could
 * be read. The new one is made in a folder beside it and checked there; the old one
 * stays under another name.
 */
#include "base/mem.h"
#include "store/salvage.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPAIR_PAGE 1024 /* as db_open_writer() says */

struct repair {
	char *path, *lock, *folder, *made; /* old file, its lock, where the new one is made, it */
	char *host;
	int lock_fd;
	const struct store_checker *to;
	struct err *e;
	struct store_repaired ret;
};

/* The folder and all in it; it is only ours. */
static void repair_clean(const struct repair *w)
{
	DIR *d = opendir(w->folder);
	struct dirent *one;

	while (d && (one = readdir(d)))
		unlinkat(dirfd(d), one->d_name, 0);
	if (d)
		closedir(d);
	rmdir(w->folder);
}

static int repair_progress(void *arg, uint64_t done, uint64_t total)
{
	const struct store_checker *to = arg;

	return to->progress ? to->progress(to->arg, done, total) : 0;
}

/* ---- a first page that is gone ------------------------------------------------------------ */

/* Pages of a new file that say what tables there are and where: not theirs, and not
 * page 2, which says what page belongs to what. 1: `page` is such a page. */
static int repair_is_schema(sqlite3 *db, int page, struct err *e)
{
	char sql[96];
	int64_t n = 0;
	int r;

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM sqlite_master WHERE rootpage = %d", page);
	r = db_int(db, sql, e, &n);
	return r < 0 ? r : n == 0 && page != 2;
}

static int repair_graft_page(struct repair *w, int from, int to, int page)
{
	char data[REPAIR_PAGE];
	off_t at = (off_t)(page - 1) * REPAIR_PAGE;

	if (pread(from, data, sizeof(data), at) != REPAIR_PAGE)
		return err_errno(w->e, -EIO, "%s: cannot read a new file", w->folder);
	if (page == 1) {
		memset(data + 28, 0, 12); /* as many pages as the file has; no free list */
		data[18] = data[19] = 1;  /* no WAL */
	}
	if (pwrite(to, data, sizeof(data), at) != REPAIR_PAGE)
		return err_errno(w->e, errno ? -errno : -EIO, "%s: cannot write a copy", w->folder);
	return 0;
}

/* All files of this version have their tables at the same pages: a copy of the old
 * one with the schema of a new one. */
static int repair_graft(struct repair *w, const char *copy)
{
	char *fresh = xasprintf("%s/new.db", w->folder);
	int page, is, from = -1, to = -1, r = filecopy_file(w->path, copy, w->e);
	sqlite3 *db = NULL;
	int64_t pages = 0;

	if (r == 0)
		r = db_open_writer(fresh, false, w->e, &db);
	if (r == 0)
		r = db_create(db, fresh, w->e);
	if (r == 0)
		r = db_int(db, "PRAGMA page_count", w->e, &pages);
	if (r == 0) {
		from = open(fresh, O_RDONLY | O_CLOEXEC);
		to = open(copy, O_WRONLY | O_CLOEXEC);
		if (from < 0 || to < 0)
			r = err_errno(w->e, -errno, "cannot open %s", from < 0 ? fresh : copy);
	}
	for (page = 1; r == 0 && page <= pages; page++) {
		is = repair_is_schema(db, page, w->e);
		r = is > 0 ? repair_graft_page(w, from, to, page) : is;
	}
	sqlite3_close(db);
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	free(fresh);
	return r;
}

static int repair_open_old(struct repair *w, sqlite3 **ret)
{
	struct buf warning;
	struct err e = {0};
	char *copy;
	int r;

	buf_init(&warning, 4096);
	r = db_open_reader(w->path, &warning, &e, ret);
	if (r == -EUCLEAN) {
		copy = xasprintf("%s/old.db", w->folder);
		r = repair_graft(w, copy);
		if (r == 0 && db_open_reader(copy, &warning, NULL, ret) < 0)
			r = -EUCLEAN;
		free(copy);
	}
	buf_done(&warning);
	return r < 0 ? err_set(w->e, r, "%s: nothing of it can be read", e.text) : 0;
}

/* ---- the new file ---------------------------------------------------------------------------- */

static int repair_salvage(struct repair *w)
{
	sqlite3 *from = NULL, *to = NULL;
	int r = repair_open_old(w, &from);

	if (r == 0)
		r = db_open_writer(w->made, false, w->e, &to);
	if (r == 0)
		r = db_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", w->e);
	if (r == 0)
		r = db_create(to, w->made, w->e);
	if (r == 0)
		r = salvage_run(from, w->path, to, w->made, w->to, w->e, &w->ret);
	sqlite3_close(from);
	if (sqlite3_close(to) != SQLITE_OK && r == 0)
		r = err_set(w->e, -EIO, "%s: cannot be closed", w->made);
	return r;
}

/* As a writer would: fold what is in the tail, say what happened, leave one file. */
static int repair_finish(struct repair *w)
{
	const struct store_options o = {
		.dir = w->folder, .host = w->host, .no_wal = true, .no_replace = true};
	struct store_repaired *n = &w->ret;
	struct store *s;
	char *text;
	int r = store_open(&o, w->e, &s);

	if (r < 0)
		return r;
	text = xasprintf("the database was damaged and has been repaired: %llu points in %llu "
			 "chunks, %llu commits and %llu other rows could not be read",
			 (unsigned long long)n->points_lost, (unsigned long long)n->chunks_lost,
			 (unsigned long long)n->commits_lost, (unsigned long long)n->rows_lost);
	r = commit_event(s, 0, 2, "store-repaired", text);
	free(text);
	if (r == 0)
		r = s->sink.ops->commit(&s->sink);
	if (r < 0)
		err_set(w->e, r, "%s", s->err.text);
	if (r == 0)
		return store_close(s, w->e);
	store_close(s, NULL);
	return r;
}

static int repair_check_found(void *arg, const struct store_finding *f)
{
	return err_set(arg, -EUCLEAN,
		       "%s: the repaired file is not sound (%s, %s: %s); nothing was "
		       "changed",
		       f->path, f->table, f->row, f->what);
}

static int repair_check(struct repair *w)
{
	struct err found = {0};
	const struct store_checker c = {.found = repair_check_found, .arg = &found};
	uint64_t n;
	int fd, r = store_check_all(w->made, &c, w->e, &n);

	if (found.code)
		return err_set(w->e, r, "%s", found.text);
	if (r < 0)
		return r;
	fd = open(w->made, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		r = err_errno(w->e, -errno, "cannot write %s to disk", w->made);
	if (fd >= 0)
		close(fd);
	return r;
}

/* ---- the exchange ------------------------------------------------------------------------------
 */

/* At each moment HOST.db is there: the old one, then the new one. */
static int repair_exchange(struct repair *w)
{
	static const char *const logs[] = {"-wal", "-journal", "-shm"};
	char *from, *mark = xasprintf("%s.bad", w->path);
	size_t i;
	int r = 0;

	w->ret.kept = store_aside_name(w->path);
	for (i = 0; r == 0 && i < ARRAY_LEN(logs); i++) {
		char *to = xasprintf("%s%s", w->ret.kept, logs[i]);

		from = xasprintf("%s%s", w->path, logs[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			r = err_errno(w->e, -errno, "cannot set %s aside", from);
		free(from);
		free(to);
	}
	/* Some file systems have no links. */
	if (r == 0 && link(w->path, w->ret.kept) < 0 && rename(w->path, w->ret.kept) < 0)
		r = err_errno(w->e, -errno, "cannot set %s aside", w->path);
	if (r == 0 && rename(w->made, w->path) < 0)
		r = err_errno(w->e, -errno, "cannot rename %s", w->made);
	if (r == 0)
		unlink(mark);
	free(mark);
	return r;
}

static int repair_lock(struct repair *w)
{
	char *pointer = xasprintf("%.*s.live", (int)strlen(w->path) - 3, w->path);
	bool is_live = place_is(pointer, "");

	free(pointer);
	if (is_live)
		return err_set(
			w->e, -EBUSY,
			"%s is live elsewhere (its .live says where); it can be repaired when "
			"it has come back: `lapse recover` on that host",
			w->path);
	w->lock_fd = rendezvous_lock(AT_FDCWD, w->lock);
	if (w->lock_fd >= 0)
		return 0;
	if (w->lock_fd == -EAGAIN)
		return err_set(w->e, -EBUSY,
			       "%s is being written; it can be repaired when its run has ended",
			       w->path);
	return err_errno(w->e, w->lock_fd, "cannot lock %s", w->lock);
}

static int repair_all(struct repair *w)
{
	struct stat st;
	int r;

	if (lstat(w->path, &st) < 0)
		return err_errno(w->e, -errno, "cannot look at %s", w->path);
	if (!S_ISREG(st.st_mode))
		return err_set(w->e, -EINVAL, "%s is not a plain file", w->path);
	repair_clean(w);
	if (mkdir(w->folder, 0700) < 0)
		return err_errno(w->e, -errno, "cannot make %s", w->folder);
	r = repair_salvage(w);
	if (r == 0)
		r = repair_finish(w);
	if (r == 0)
		r = repair_check(w);
	if (r == 0)
		r = repair_exchange(w);
	repair_clean(w);
	return r;
}

int store_repair(const char *dir, const char *file, const struct store_checker *c, struct err *e,
		 struct store_repaired *ret)
{
	struct store_checker quiet = {.progress = repair_progress, .arg = (void *)c};
	struct repair w = {.lock_fd = -1, .to = &quiet, .e = e};
	size_t n = strlen(file);
	int r;

	if (n <= 3 || strcmp(file + n - 3, ".db") != 0 || strchr(file, '/'))
		return err_set(e, -EINVAL, "%s is not the name of a host's file (HOST.db)", file);
	w.host = xstrndup(file, n - 3);
	w.path = xasprintf("%s/%s", dir, file);
	w.lock = xasprintf("%s.lock", w.path);
	w.folder = xasprintf("%s/.%s.repair", dir, file);
	w.made = xasprintf("%s/%s", w.folder, file);
	r = repair_lock(&w);
	if (r == 0)
		r = repair_all(&w);
	if (w.lock_fd >= 0) {
		unlink(w.lock);
		close(w.lock_fd);
	}
	free(w.host);
	free(w.path);
	free(w.lock);
	free(w.folder);
	free(w.made);
	if (r < 0)
		free(w.ret.kept);
	else
		*ret = w.ret;
	return r;
}
