/* SPDX-License-Identifier: Apache-2.0
 *
 * import.c - see import.h.
 */
#include "cli/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/archive.h"
#include "store/folder.h"
#include "store/store.h"
#include "wire/rendezvous.h"
#include "wire/runid.h"

#define IMPORT_LOCK ".import-lock" /* held while the staging folder is ours */
#define IMPORT_END ".import"
#define IMPORT_DEPTH_MAX 16
#define IMPORT_BYTES (256u << 10) /* copied at once */

struct import {
	const char *root;
	const struct import_wish *w;
	struct err *e;
	char *stage; /* ROOT/.PID.import */
	char *from;  /* the run in it: the stage, or the one folder in it */
	int lock_fd;
	char id[RUN_ID_MAX + 1];
	char **files; /* databases in `from` */
	size_t n_files;
	struct import_done done;
};

/* ---- copying into the staging folder ----------------------------------------------- */

static int import_copy_bytes(int in, int out)
{
	char *buffer = xcalloc(1, IMPORT_BYTES);
	ssize_t n = 1;
	int r = 0;

	while (r == 0 && n) {
		n = read(in, buffer, IMPORT_BYTES);
		if (n < 0)
			r = -errno;
		else
			r = file_write_all(out, buffer, (size_t)n);
	}
	free(buffer);
	return r;
}

static int import_copy_file(struct import *x, const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), out, r;
	struct stat st;

	if (in < 0)
		return err_errno(x->e, -errno, "cannot open %s", from);
	if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(in);
		return err_set(x->e, -EINVAL, "%s is no plain file", from);
	}
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0) {
		r = errno == EEXIST ? err_set(x->e, -EEXIST, "%s: a file of this name twice", from)
				    : err_errno(x->e, -errno, "cannot make %s", to);
		close(in);
		return r;
	}
	r = import_copy_bytes(in, out);
	close(in);
	if (close(out) < 0 && r == 0)
		r = -errno;
	return r < 0 ? err_errno(x->e, r, "cannot copy %s to %s", from, to) : 0;
}

/* A database may have a log beside it, which belongs to it. */
static int import_copy_database(struct import *x, const char *from, const char *name)
{
	static const char *const parts[] = {"", "-wal", "-journal"};
	char *path, *to;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
		path = xasprintf("%s%s", from, parts[i]);
		to = xasprintf("%s/%s%s", x->stage, name, parts[i]);
		if (i == 0 || access(path, F_OK) == 0)
			r = import_copy_file(x, path, to);
		free(path);
		free(to);
	}
	return r;
}

static bool import_is_of_the_moment(const char *name)
{
	static const char *const ends[] = {"-shm", ".lock", ".live", ".bad", ".tmp"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(ends); i++)
		if (text_ends(name, ends[i]))
			return true;
	return name[0] == '.';
}

static int import_copy_folder(struct import *x, const char *from, const char *to, unsigned depth)
{
	struct dirent **names;
	int i, n = scandir(from, &names, NULL, alphasort), r = 0;
	struct stat st;

	if (n < 0)
		return err_errno(x->e, -errno, "cannot read the folder %s", from);
	for (i = 0; i < n; i++) {
		char *a = xasprintf("%s/%s", from, names[i]->d_name);
		char *b = xasprintf("%s/%s", to, names[i]->d_name);

		if (r < 0 || import_is_of_the_moment(names[i]->d_name) || lstat(a, &st) < 0)
			;
		else if (S_ISREG(st.st_mode))
			r = import_copy_file(x, a, b);
		else if (S_ISDIR(st.st_mode) && depth < IMPORT_DEPTH_MAX)
			r = mkdir(b, 0700) < 0 ? err_errno(x->e, -errno, "cannot make %s", b)
					       : import_copy_folder(x, a, b, depth + 1);
		free(a);
		free(b);
		free(names[i]);
	}
	free(names);
	return r;
}

static int import_take(struct import *x, const char *path, unsigned n)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct folder_info info;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_errno(x->e, -errno, "cannot find %s", path);
	if (S_ISDIR(st.st_mode)) {
		r = n > 1 ? err_set(x->e, -EINVAL, "%s: one folder or archive at a time", path)
			  : folder_look(path, x->e, &info);
		if (r == 0 && (info.is_written || info.is_away))
			r = err_set(x->e, -EBUSY,
				    "%s is being recorded; `lapse pack` makes a copy that is whole",
				    path);
		return r < 0 ? r : import_copy_folder(x, path, x->stage, 0);
	}
	if (text_ends(name, ".db") && name[0] != '.')
		return import_copy_database(x, path, name);
	if (n > 1)
		return err_set(x->e, -EINVAL, "%s: one folder or archive at a time", path);
	return archive_unpack(path, x->stage, x->w->limit, x->e);
}

/* ---- the staging folder -------------------------------------------------------------- */

static int import_stage(struct import *x)
{
	char *lock;
	int r = file_mkdirs(x->root, 0700);

	if (r < 0)
		return err_errno(x->e, r, "cannot make the folder %s", x->root);
	x->stage = xasprintf("%s/.%d" IMPORT_END, x->root, (int)getpid());
	folder_remove(x->stage, true, NULL);
	if (mkdir(x->stage, 0700) < 0)
		return err_errno(x->e, -errno, "cannot make the folder %s", x->stage);
	lock = xasprintf("%s/" IMPORT_LOCK, x->stage);
	x->lock_fd = rendezvous_lock(AT_FDCWD, lock);
	free(lock);
	return x->lock_fd < 0 ? err_errno(x->e, x->lock_fd, "cannot lock %s", x->stage) : 0;
}

void import_sweep(const char *root)
{
	struct dirent *one;
	DIR *d = opendir(root);
	char *dir, *lock;

	while (d && (one = readdir(d))) {
		if (one->d_name[0] != '.' || !text_ends(one->d_name, IMPORT_END))
			continue;
		dir = xasprintf("%s/%s", root, one->d_name);
		lock = xasprintf("%s/" IMPORT_LOCK, dir);
		if (rendezvous_is_locked(AT_FDCWD, lock) == 0)
			folder_remove(dir, true, NULL);
		free(lock);
		free(dir);
	}
	if (d)
		closedir(d);
	folder_sweep(root, NULL);
}

static int import_is_database(const struct dirent *d)
{
	return d->d_name[0] != '.' && text_ends(d->d_name, ".db");
}

/* The databases in a folder; their number. */
static int import_list(const char *dir, char ***ret)
{
	struct dirent **names;
	int i, n = scandir(dir, &names, import_is_database, alphasort);

	*ret = xcalloc(n > 0 ? (size_t)n : 1, sizeof(**ret));
	for (i = 0; i < n; i++) {
		(*ret)[i] = xstrdup(names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return n > 0 ? n : 0;
}

/* The run is the stage itself, or in the only folder in it. */
static int import_find(struct import *x)
{
	struct dirent *one;
	DIR *d = opendir(x->stage);
	unsigned folders = 0;
	struct stat st;
	char *path;

	x->from = xstrdup(x->stage);
	x->n_files = (size_t)import_list(x->from, &x->files);
	while (x->n_files == 0 && d && (one = readdir(d))) {
		path = xasprintf("%s/%s", x->stage, one->d_name);
		if (one->d_name[0] != '.' && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
		    folders++ == 0) {
			free(x->from);
			x->from = xstrdup(path);
		}
		free(path);
	}
	if (d)
		closedir(d);
	if (x->n_files == 0 && folders == 1) {
		free(x->files);
		x->n_files = (size_t)import_list(x->from, &x->files);
	}
	return x->n_files ? 0
			  : err_set(x->e, -EINVAL, "no run in it (no HOST.db%s)",
				    folders > 1 ? "; several folders" : "");
}

/* ---- checking -------------------------------------------------------------------------- */

static const char *import_id_is_bad(const char *id)
{
	const char *p;

	if (*id == '\0')
		return "it has no id";
	if (*id == '.')
		return "its id begins with a dot";
	for (p = id; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == '/' || *p == 0x7f)
			return "its id is no name of a folder";
	return NULL;
}

static int import_check_one(struct import *x, const char *file)
{
	char *path = xasprintf("%s/%s", x->from, file), id[RUN_ID_MAX + 1] = "";
	const char *bad;
	int r = store_check(path, x->e);

	if (r == 0)
		r = store_file_id(path, x->e, id);
	bad = r == 0 ? import_id_is_bad(id) : NULL;
	if (bad)
		r = err_set(x->e, -EINVAL, "%s: %s", file, bad);
	if (r == 0 && x->id[0] && strcmp(x->id, id) != 0)
		r = err_set(x->e, -EINVAL, "files of different runs: %s and %s", x->id, id);
	if (r == 0)
		snprintf(x->id, sizeof(x->id), "%s", id);
	free(path);
	return r;
}

static int import_check(struct import *x)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < x->n_files; i++)
		r = import_check_one(x, x->files[i]);
	return r;
}

/* ---- into its place ---------------------------------------------------------------------- */

static int import_new_id(struct import *x)
{
	char id[RUNID_LEN + 1], *path;
	uint8_t bytes[3] = {0};
	size_t i;
	int r = 0;

	if (getrandom(bytes, sizeof(bytes), 0) < 0)
		return err_errno(x->e, -errno, "no random bytes");
	runid_make(id, 0, bytes);
	/* Its time stays, so that it is listed where it was. */
	if (strlen(x->id) >= 15)
		memcpy(id, x->id, 15);
	for (i = 0; r == 0 && i < x->n_files; i++) {
		path = xasprintf("%s/%s", x->from, x->files[i]);
		r = store_file_set_id(path, id, x->e);
		free(path);
	}
	if (r == 0)
		snprintf(x->id, sizeof(x->id), "%s", id);
	return r;
}

/* Bytes of a database's header that tell how often and in which mode it was written,
 * not what is in it. */
static bool import_is_counter(uint64_t at)
{
	return (at >= 18 && at < 20) || (at >= 24 && at < 28) || (at >= 40 && at < 44) ||
	       (at >= 92 && at < 100);
}

/* 1: the same database; 0: not; -errno. */
static int import_is_same(const char *a, const char *b)
{
	FILE *x = fopen(a, "rbe"), *y = fopen(b, "rbe");
	uint64_t at = 0;
	int c, d, same = 1;

	if (!x || !y)
		same = -errno;
	else
		do {
			c = getc_unlocked(x);
			d = getc_unlocked(y);
			same = c == d || (c != EOF && d != EOF && import_is_counter(at));
			at++;
		} while (same && c != EOF);
	if (x)
		fclose(x);
	if (y)
		fclose(y);
	return same;
}

/* Look first at all files, so that nothing is joined if one is refused. */
static int import_compare(struct import *x, const char *target)
{
	char *a, *b;
	size_t i;
	int r = 0, same;

	for (i = 0; r == 0 && i < x->n_files; i++) {
		a = xasprintf("%s/%s", x->from, x->files[i]);
		b = xasprintf("%s/%s", target, x->files[i]);
		if (access(b, F_OK) == 0) {
			same = import_is_same(a, b);
			if (same > 0)
				x->done.same++;
			else
				r = err_set(x->e, -EEXIST,
					    "the run %s is there already and its %s differs; "
					    "--as-new imports it under another id",
					    x->id, x->files[i]);
		}
		free(a);
		free(b);
	}
	return r;
}

static int import_join(struct import *x, const char *target)
{
	static const char *const others[] = {"run.edit"};
	char *a, *b;
	size_t i;
	int r = import_compare(x, target);

	for (i = 0; r == 0 && i < x->n_files + ARRAY_LEN(others); i++) {
		const char *file = i < x->n_files ? x->files[i] : others[i - x->n_files];

		a = xasprintf("%s/%s", x->from, file);
		b = xasprintf("%s/%s", target, file);
		/* link(): never over a file that has come meanwhile. */
		if (link(a, b) == 0)
			x->done.added += i < x->n_files;
		else if (errno != EEXIST && errno != ENOENT)
			r = err_errno(x->e, -errno, "cannot make %s", b);
		free(a);
		free(b);
	}
	x->done.joined = true;
	return r;
}

static int import_place(struct import *x)
{
	char *target = xasprintf("%s/%s", x->root, x->id), *lock;
	struct stat st;
	int r = 0;

	if (lstat(target, &st) == 0 && x->w->as_new) {
		r = import_new_id(x);
		free(target);
		target = xasprintf("%s/%s", x->root, x->id);
	}
	if (r == 0 && lstat(target, &st) == 0) {
		r = S_ISDIR(st.st_mode) ? import_join(x, target)
					: err_set(x->e, -EEXIST, "%s is in the way", target);
	} else if (r == 0) {
		x->done.added = (unsigned)x->n_files;
		if (renameat2(AT_FDCWD, x->from, AT_FDCWD, target, RENAME_NOREPLACE) < 0 &&
		    (errno != EINVAL || rename(x->from, target) < 0))
			r = err_errno(x->e, -errno, "cannot rename %s to %s", x->from, target);
		lock = xasprintf("%s/" IMPORT_LOCK, target);
		if (r == 0)
			unlink(lock);
		free(lock);
	}
	free(target);
	return r;
}

int import_run(const char *root, const char *const *paths, unsigned n, const struct import_wish *w,
	       struct err *e, struct import_done *ret)
{
	struct import x = {.root = root, .w = w, .e = e, .lock_fd = -1};
	unsigned i;
	size_t k;
	int r = import_stage(&x);

	for (i = 0; r == 0 && i < n; i++)
		r = import_take(&x, paths[i], n);
	if (r == 0)
		r = import_find(&x);
	if (r == 0)
		r = import_check(&x);
	if (r == 0)
		r = import_place(&x);
	if (x.lock_fd >= 0)
		close(x.lock_fd);
	folder_remove(x.stage, true, NULL);
	snprintf(x.done.id, sizeof(x.done.id), "%s", x.id);
	if (r == 0)
		*ret = x.done;
	for (k = 0; k < x.n_files; k++)
		free(x.files[k]);
	free(x.files);
	free(x.from);
	free(x.stage);
	return r;
}
