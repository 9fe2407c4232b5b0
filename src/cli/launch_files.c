/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_files.c - see launch_files.h.
 */
#include "cli/launch_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/store.h"
#include "wire/bell.h"
#include "wire/rendezvous.h"
#include "wire/runid.h"

#define FILES_RESERVE 4096 /* bytes: an outcome without stderr fits */
#define FILES_STALE_S 3600 /* age of a file that its writer left half-done */
#define FILES_ID_TRIES 20
#define FILES_NAME_MAX (RUN_ID_MAX + 32)

void launch_files_init(struct launch_files *f)
{
	*f = (struct launch_files){.rendezvous = -1, .lock = -1, .reserve = -1};
}

static void files_name(const struct launch_files *f, const char *suffix, char out[FILES_NAME_MAX])
{
	snprintf(out, FILES_NAME_MAX, "runs/%s%s", f->id, suffix);
}

/* Something is new: the agent looks now and not in a second. */
static void files_ring_bell(const struct launch_files *f)
{
	struct wire_bell *bell = bell_map(f->rendezvous);

	if (!bell)
		return;
	bell_ring(bell);
	munmap(bell, WIRE_PAGE);
}

/* ---- the run's folder --------------------------------------------------- */

static int files_make_folder(struct launch_files *f, const char *root, int64_t start_ns)
{
	uint32_t random = 0;
	int i, err = file_mkdirs(root, 0700);

	for (i = 0; !err && i < FILES_ID_TRIES; i++) {
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random =
				(uint32_t)getpid() * 2654435761u + (uint32_t)start_ns + (uint32_t)i;
		runid_make(f->id, start_ns, (const uint8_t *)&random);
		if (snprintf(f->dir, sizeof(f->dir), "%s/%s", root, f->id) >= (int)sizeof(f->dir))
			return -ENAMETOOLONG;
		if (mkdir(f->dir, 0700) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return err ? err : -EEXIST;
}

static int files_fallback_root(char *out, size_t cap)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (state && state[0] == '/')
		n = snprintf(out, cap, "%s/lapse/runs", state);
	else if (home && home[0] == '/')
		n = snprintf(out, cap, "%s/.local/state/lapse/runs", home);
	else
		return -ENOENT;
	return n >= (int)cap ? -ENAMETOOLONG : 0;
}

static int files_folder(struct launch_files *f, const char *root_option, int64_t start_ns,
			struct err *e)
{
	char root[sizeof(f->wanted)];
	int err, first;

	first = store_root(root_option, f->wanted, sizeof(f->wanted));
	if (!first)
		first = files_make_folder(f, f->wanted, start_ns);
	if (!first)
		return 0;
	err = files_fallback_root(root, sizeof(root));
	if (!err)
		err = files_make_folder(f, root, start_ns);
	if (err)
		return err_errno(e, first, "cannot make a folder for the run in %s", f->wanted);
	f->fell_back = true;
	return 0;
}

/* ---- the rendezvous ----------------------------------------------------- */

/* Delete what killed launchers left half-written. */
static void files_sweep(const struct launch_files *f)
{
	int fd = openat(f->rendezvous, "runs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char run[NAME_MAX + 8];
	struct dirent *d;
	struct stat st;

	while (dir && (d = readdir(dir)) != NULL) {
		if (!text_ends(d->d_name, ".tmp") ||
		    fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    time(NULL) - st.st_mtime < FILES_STALE_S)
			continue;
		/* A run that lasts for days keeps its reserved page. */
		snprintf(run, sizeof(run), "%.*s.run", (int)strcspn(d->d_name, "."), d->d_name);
		if (faccessat(fd, run, F_OK, 0) < 0)
			unlinkat(fd, d->d_name, 0);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

static int files_meet(struct launch_files *f, struct err *e)
{
	char path[RENDEZVOUS_PATH_MAX] = "", link[64];
	ssize_t n;
	int err;

	rendezvous_path(path);
	f->rendezvous = rendezvous_open(1);
	if (f->rendezvous < 0) {
		err = f->rendezvous;
		f->rendezvous = -1;
		if (err == -EPERM)
			return err_set(e, err, "%s is not a folder of yours with mode 0700", path);
		return err_errno(e, err, "cannot use %s", path);
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", f->rendezvous);
	n = readlink(link, f->rendezvous_dir, sizeof(f->rendezvous_dir) - 1);
	if (n > 0)
		f->rendezvous_dir[n] = '\0';
	else
		snprintf(f->rendezvous_dir, sizeof(f->rendezvous_dir), "%s", path);
	return 0;
}

static int files_reserve(struct launch_files *f, struct err *e)
{
	char name[FILES_NAME_MAX];
	int err = 0;

	files_name(f, ".outcome.tmp", name);
	f->reserve = openat(f->rendezvous, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->reserve < 0)
		err = -errno;
	else
		err = -posix_fallocate(f->reserve, 0, FILES_RESERVE);
	return err ? err_errno(e, err, "cannot write in %s/runs", f->rendezvous_dir) : 0;
}

/* ---- a run's course ----------------------------------------------------- */

int launch_files_open(struct launch_files *f, const char *root_option, int64_t start_ns,
		      struct err *e)
{
	int err = files_meet(f, e);

	if (err)
		return err;
	files_sweep(f);
	err = files_folder(f, root_option, start_ns, e);
	if (err)
		return err;
	err = files_reserve(f, e);
	if (err)
		rmdir(f->dir);
	return err;
}

static int files_write_run(struct launch_files *f, const char *text, size_t len)
{
	char tmp[FILES_NAME_MAX], name[FILES_NAME_MAX];
	int err;

	files_name(f, ".run.tmp", tmp);
	files_name(f, ".run", name);
	f->lock = rendezvous_lock(f->rendezvous, tmp);
	if (f->lock < 0) {
		err = f->lock;
		f->lock = -1;
		return err;
	}
	err = file_write_all(f->lock, text, len);
	if (!err && renameat(f->rendezvous, tmp, f->rendezvous, name) < 0)
		err = -errno;
	if (err)
		unlinkat(f->rendezvous, tmp, 0);
	return err;
}

int launch_files_begin(struct launch_files *f, const struct run_start *r, struct err *e)
{
	char *text = xcalloc(1, RUN_FILE_MAX);
	size_t len = 0;
	int err;

	err = run_start_format(r, text, RUN_FILE_MAX, &len);
	if (!err)
		err = files_write_run(f, text, len);
	free(text);
	if (!err) {
		files_ring_bell(f);
		return 0;
	}
	rmdir(f->dir);
	return err_errno(e, err, "cannot write %s/runs/%s.run", f->rendezvous_dir, f->id);
}

/* Into the page that is ours already. */
static int files_write_reserved(struct launch_files *f, const char *text, size_t len)
{
	char tmp[FILES_NAME_MAX], name[FILES_NAME_MAX];
	int err;

	if (f->reserve < 0 || len > FILES_RESERVE)
		return -ENOSPC;
	files_name(f, ".outcome.tmp", tmp);
	files_name(f, ".outcome", name);
	err = file_write_all(f->reserve, text, len);
	if (!err && ftruncate(f->reserve, (off_t)len) < 0)
		err = -errno;
	if (!err && renameat(f->rendezvous, tmp, f->rendezvous, name) < 0)
		err = -errno;
	return err;
}

int launch_files_end(struct launch_files *f, struct run_outcome *o, struct err *e)
{
	char name[FILES_NAME_MAX], *text = xcalloc(1, RUN_FILE_MAX);
	size_t len = 0;
	int err;

	files_name(f, ".outcome", name);
	err = run_outcome_format(o, text, RUN_FILE_MAX, &len);
	if (!err)
		err = file_write_atomic(f->rendezvous, name, text, len, 0600);
	if (err) {
		o->stderr_len = 0;
		err = run_outcome_format(o, text, RUN_FILE_MAX, &len);
		if (!err)
			err = files_write_reserved(f, text, len);
	}
	free(text);
	if (!err)
		files_ring_bell(f);
	return err ? err_errno(e, err, "cannot write %s/%s", f->rendezvous_dir, name) : 0;
}

bool launch_files_is_finished(const struct launch_files *f)
{
	char name[FILES_NAME_MAX];

	files_name(f, ".run", name);
	return faccessat(f->rendezvous, name, F_OK, 0) < 0 && errno == ENOENT;
}

void launch_files_done(struct launch_files *f)
{
	char name[FILES_NAME_MAX];

	if (f->reserve >= 0) {
		files_name(f, ".outcome.tmp", name);
		unlinkat(f->rendezvous, name, 0);
		close(f->reserve);
	}
	if (f->lock >= 0)
		close(f->lock);
	if (f->rendezvous >= 0)
		close(f->rendezvous);
	launch_files_init(f);
}
