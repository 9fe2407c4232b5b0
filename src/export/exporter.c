/* SPDX-License-Identifier: Apache-2.0
 *
 * exporter.c - see exporter.h: the walk, the files, the state and its lock.
 */
#include "export/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define EXPORTER_STATE_MAX (2u << 30)

struct exporter {
	const struct exporter_ops *ops;
	void *format;
	char *run_dir, *output;
	char *folder; /* that names of files are in */
	char *state_path;
	int lock; /* descriptor that holds the lock */
	/* Open only while there is something to read: an open one keeps the writer
	 * from leaving one plain file. */
	struct store_reader *reader;
	struct store_cursor *cursor;
	struct outstate state;
	bool begun; /* a step was done by this handle */
	struct exporter_stats stats;
};

const struct exporter_ops *exporter_find(const char *name)
{
	static const struct exporter_ops *const all[] = {&tensorboard_ops, &prometheus_ops};
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

void exporter_stats(const struct exporter *x, struct exporter_stats *out)
{
	*out = x->stats;
}

void exporter_count(struct exporter *x)
{
	x->stats.points++;
}

/* ---- files ------------------------------------------------------------------ */

unsigned exporter_file(struct exporter *x, const char *name)
{
	size_t i;

	for (i = 0; i < x->state.n_files; i++)
		if (strcmp(x->state.files[i].name, name) == 0)
			return (unsigned)i;
	outstate_add(&x->state, name);
	return (unsigned)i;
}

unsigned exporter_files(const struct exporter *x)
{
	return (unsigned)x->state.n_files;
}

struct buf *exporter_out(struct exporter *x, unsigned file)
{
	return &x->state.files[file].pending;
}

uint64_t exporter_size(const struct exporter *x, unsigned file)
{
	return x->state.files[file].size;
}

static char *exporter_path(const struct exporter *x, const struct outstate_file *f)
{
	return x->ops->folder ? xasprintf("%s/%s", x->folder, f->name) : xstrdup(x->output);
}

static int exporter_open_file(const struct exporter *x, const char *path, struct err *e)
{
	char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	int fd, err = x->ops->folder ? file_mkdirs(folder, 0700) : 0;

	free(folder);
	if (err)
		return err_errno(e, err, "cannot make the folder of %s", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_errno(e, -errno, "cannot write %s", path) : fd;
}

/* Bring a file to what the state says: its size, then what is pending. What an
 * earlier exporter wrote of that already is written again, byte for byte. */
static int exporter_append(struct exporter *x, struct outstate_file *f, struct err *e)
{
	char *path = exporter_path(x, f);
	const char *p = buf_str(&f->pending);
	size_t left = f->pending.len;
	off_t at = (off_t)f->size;
	ssize_t n;
	int fd = exporter_open_file(x, path, e), err = fd < 0 ? fd : 0;

	while (!err && left > 0) {
		n = pwrite(fd, p, left, at);
		if (n < 0 && errno != EINTR)
			err = err_errno(e, -errno, "cannot write %s", path);
		if (n <= 0)
			continue;
		p += n;
		left -= (size_t)n;
		at += n;
	}
	if (!err && ftruncate(fd, at) < 0)
		err = err_errno(e, -errno, "cannot write %s", path);
	if (fd >= 0 && close(fd) < 0 && !err)
		err = err_errno(e, -errno, "cannot write %s", path);
	free(path);
	if (err)
		return err;
	x->stats.bytes += f->pending.len;
	f->size += f->pending.len;
	buf_reset(&f->pending);
	return 0;
}

static int exporter_replace(struct exporter *x, struct outstate_file *f, struct err *e)
{
	int err =
		file_write_atomic(AT_FDCWD, x->output, buf_str(&f->pending), f->pending.len, 0644);

	if (err)
		return err_errno(e, err, "cannot write %s", x->output);
	x->stats.bytes += f->pending.len;
	buf_reset(&f->pending);
	return 0;
}

static int exporter_bring_files(struct exporter *x, struct err *e)
{
	size_t i;
	int err = 0;

	for (i = 0; i < x->state.n_files && !err; i++) {
		struct outstate_file *f = &x->state.files[i];

		if (f->pending.error)
			err = err_set(e, f->pending.error, "%s: a step has more than %u MiB",
				      f->name, EXPORTER_OUT_MAX >> 20);
		else if (f->pending.len)
			err = x->ops->folder ? exporter_append(x, f, e) : exporter_replace(x, f, e);
	}
	return err;
}

/* ---- state ------------------------------------------------------------------ */

/* A file that is replaced whole needs no copy in the state. */
static int exporter_save(struct exporter *x, struct err *e)
{
	struct outstate s = x->state;
	struct buf b;
	int err;

	if (!x->ops->folder)
		s.n_files = 0;
	buf_reset(&x->state.own);
	x->ops->save(x->format, &x->state.own);
	s.own = x->state.own;
	buf_init(&b, EXPORTER_STATE_MAX);
	outstate_encode(&s, &b);
	err = b.error;
	if (!err)
		err = file_write_atomic(AT_FDCWD, x->state_path, buf_str(&b), b.len, 0600);
	buf_done(&b);
	return err ? err_errno(e, err, "cannot write %s", x->state_path) : 0;
}

static void exporter_begin_anew(struct exporter *x, const char *run)
{
	outstate_done(&x->state);
	outstate_init(&x->state);
	x->state.run = xstrdup(run);
	x->state.format = xstrdup(x->ops->name);
	store_cursor_free(x->cursor);
	x->cursor = store_cursor_new();
	x->ops->destroy(x->format);
	x->format = x->ops->create(x);
}

/* Are the files at least as long as they were when the state was written? */
static bool exporter_has_files(const struct exporter *x)
{
	struct stat st;
	size_t i;

	for (i = 0; i < x->state.n_files; i++) {
		const struct outstate_file *f = &x->state.files[i];
		char *path = exporter_path(x, f);
		bool there = f->size == 0 || (lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
					      (uint64_t)st.st_size >= f->size);

		free(path);
		if (!there)
			return false;
	}
	return true;
}

/* Take up the state of an earlier exporter of this run; false: there is none that
 * can be used. */
static bool exporter_resume(struct exporter *x, const char *run)
{
	struct store_cursor *cursor;
	struct cur own;
	struct buf b;
	bool good;

	buf_init(&b, EXPORTER_STATE_MAX);
	if (file_read(AT_FDCWD, x->state_path, &b) < 0) {
		buf_done(&b);
		return false;
	}
	x->stats.anew = true;
	good = outstate_decode(&x->state, buf_str(&b), b.len) == 0;
	buf_done(&b);
	/* Another run's state: the file now belongs to this run. */
	if (!good || strcmp(x->state.format, x->ops->name) != 0)
		return false;
	if (strcmp(x->state.run, run) != 0) {
		x->stats.anew = x->ops->folder;
		return false;
	}
	if (!exporter_has_files(x) ||
	    store_cursor_load(buf_str(&x->state.cursor), x->state.cursor.len, &cursor) < 0)
		return false;
	own = (struct cur){.p = (const unsigned char *)buf_str(&x->state.own)};
	own.end = own.p + x->state.own.len;
	if (x->ops->load(x->format, &own) < 0) {
		store_cursor_free(cursor);
		return false;
	}
	x->cursor = cursor;
	x->stats.anew = false;
	return true;
}

/* ---- open and close ------------------------------------------------------------- */

/* One exporter at a time: the lock goes with the process, the file stays. */
static int exporter_lock(struct exporter *x, struct err *e)
{
	char *path = xasprintf("%s.lock", x->state_path);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int err = 0;

	x->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (x->lock < 0)
		err = err_errno(e, -errno, "cannot write %s", path);
	else if (fcntl(x->lock, F_OFD_SETLK, &lock) < 0)
		err = errno == EAGAIN || errno == EACCES
			      ? err_set(e, -EBUSY,
					"%s: another process is exporting this run "
					"there (%s is locked)",
					x->output, path)
			      : err_errno(e, -errno, "cannot lock %s", path);
	free(path);
	return err;
}

static int exporter_make_paths(struct exporter *x, const char *output, const char *run,
			       struct err *e)
{
	char *slash;
	int err;

	x->output = xstrdup(output);
	if (x->ops->folder) {
		x->folder = xstrdup(output);
		x->state_path = xasprintf("%s/.lapse-%s.state", output, run);
		err = file_mkdirs(output, 0700);
		return err ? err_errno(e, err, "cannot make the folder %s", output) : 0;
	}
	slash = strrchr(output, '/');
	x->folder = slash ? xstrndup(output, (size_t)(slash - output)) : xstrdup(".");
	x->state_path = xasprintf("%s/.%s.lapse-state", slash && slash == output ? "" : x->folder,
				  slash ? slash + 1 : output);
	return 0;
}

static int exporter_run(struct exporter *x, struct store_run *ret, struct err *e)
{
	int err = 0;

	if (!x->reader)
		err = store_reader_open(x->run_dir, e, &x->reader);
	return err ? err : store_reader_run(x->reader, ret, e);
}

static int exporter_begin(struct exporter *x, const char *output, struct err *e)
{
	struct store_run run;
	int err = exporter_run(x, &run, e);

	if (!err && !run.id[0])
		err = err_set(e, -ENODATA, "%s: nothing is known of the run yet", x->run_dir);
	if (!err)
		err = exporter_make_paths(x, output, run.id, e);
	if (!err)
		err = exporter_lock(x, e);
	if (err)
		return err;
	x->format = x->ops->create(x);
	if (!exporter_resume(x, run.id)) {
		exporter_begin_anew(x, run.id);
		return 0;
	}
	err = exporter_bring_files(x, e);
	x->stats.bytes = 0; /* that was the other exporter's */
	return err;
}

int exporter_open(const struct exporter_ops *ops, const char *run_dir, const char *output,
		  struct err *e, struct exporter **ret)
{
	struct exporter *x = xcalloc(1, sizeof(*x));
	int err;

	x->ops = ops;
	x->run_dir = xstrdup(run_dir);
	x->lock = -1;
	outstate_init(&x->state);
	err = exporter_begin(x, output, e);
	if (err) {
		exporter_close(x);
		return err;
	}
	*ret = x;
	return 0;
}

void exporter_close(struct exporter *x)
{
	if (!x)
		return;
	if (x->format)
		x->ops->destroy(x->format);
	store_cursor_free(x->cursor);
	store_reader_close(x->reader);
	outstate_done(&x->state);
	if (x->lock >= 0)
		close(x->lock);
	free(x->run_dir);
	free(x->output);
	free(x->folder);
	free(x->state_path);
	free(x);
}

/* ---- a step ------------------------------------------------------------------------ */

static bool exporter_has_pending(const struct exporter *x)
{
	size_t i;

	for (i = 0; i < x->state.n_files; i++)
		if (x->state.files[i].pending.len || x->state.files[i].pending.error)
			return true;
	return false;
}

/* The walk is done: state first, then the files. */
static int exporter_commit(struct exporter *x, struct err *e)
{
	struct buf before = x->state.cursor;
	bool moved;
	int err;

	buf_init(&x->state.cursor, EXPORTER_OUT_MAX);
	err = store_cursor_save(x->cursor, &x->state.cursor);
	moved = before.len != x->state.cursor.len ||
		memcmp(buf_str(&before), buf_str(&x->state.cursor), before.len) != 0;
	buf_done(&before);
	if (err)
		return err_errno(e, err, "cannot keep the position in the run");
	if (!moved && x->begun && !exporter_has_pending(x))
		return 0;
	err = exporter_save(x, e);
	if (!err)
		err = exporter_bring_files(x, e);
	x->begun = true;
	return err;
}

int exporter_step(struct exporter *x, bool no_writers, uint64_t max_points, struct err *e)
{
	struct store_run run;
	bool ended = false;
	int more = 0, err = exporter_run(x, &run, e);

	if (!err) {
		x->ops->begin(x->format, &run);
		more = store_reader_newer(x->reader, x->cursor, &x->ops->newer, x->format,
					  max_points ? max_points : EXPORTER_BATCH, e);
		err = more < 0 ? more : 0;
		ended = !more && no_writers && run.end_ns != 0;
	}
	if (!err)
		err = x->ops->flush(x->format, x->reader, &run, ended, e);
	if (!err)
		err = exporter_commit(x, e);
	/* Nothing will be appended any more: the state needs no copy of it. */
	if (!err && ended && !x->stats.over)
		err = exporter_save(x, e);
	if (err || !more) {
		store_reader_close(x->reader);
		x->reader = NULL;
	}
	x->stats.over = ended && !err;
	return err ? err : more;
}
