/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/servewatch.h"

#include "agent/runfile.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/rendezvous.h"
#include "wire/run.h"
#include "wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVEWATCH_URL_MAX 512

int servewatch_open(struct servewatch *w, struct err *e)
{
	*w = (struct servewatch){-1, -1};
	w->dirfd = rendezvous_open(1);
	if (w->dirfd < 0)
		return err_errno(e, w->dirfd, "the rendezvous folder");
	w->lock = rendezvous_lock(w->dirfd, SERVEWATCH_LOCK);
	if (w->lock >= 0) {
		if (ftruncate(w->lock, 0) < 0 || dprintf(w->lock, "%d\n", (int)getpid()) < 0)
			log_warn(SERVEWATCH_LOCK ": the pid cannot be written");
		unlinkat(w->dirfd, SERVEWATCH_ADDRESS, 0); /* of one that was killed */
		return 0;
	}
	close(w->dirfd);
	return w->lock == -EAGAIN ? w->lock : err_errno(e, w->lock, SERVEWATCH_LOCK);
}

int servewatch_say(const struct servewatch *w, const char *url, struct err *e)
{
	char *line = xasprintf("%s\n", url);
	int r = 0;

	if (url[0])
		r = file_write_atomic(w->dirfd, SERVEWATCH_ADDRESS, line, strlen(line), 0600);
	else if (unlinkat(w->dirfd, SERVEWATCH_ADDRESS, 0) < 0)
		r = -errno;
	free(line);
	return r < 0 ? err_errno(e, r, "cannot write the server's address") : 0;
}

void servewatch_close(struct servewatch *w)
{
	if (w->lock >= 0)
		close(w->lock);
	if (w->dirfd >= 0)
		close(w->dirfd);
	*w = (struct servewatch){-1, -1};
}

bool servewatch_url(int dirfd, char *out, size_t cap)
{
	struct buf b;
	bool is;

	if (rendezvous_is_locked(dirfd, SERVEWATCH_LOCK) != 1)
		return false;
	buf_init(&b, SERVEWATCH_URL_MAX);
	is = file_read(dirfd, SERVEWATCH_ADDRESS, &b) == 0 && b.len > 1 && b.len < cap;
	if (is) {
		memcpy(out, b.data, b.len);
		out[strcspn((out[b.len] = '\0', out), "\n")] = '\0';
	}
	buf_done(&b);
	return is;
}

/* A look at the rendezvous folder. */
struct servewatch_walk {
	int dirfd;
	int (*fn)(void *arg, const char *root);
	void *arg;
	bool alive;
};

/* The folder of the run that the file tells of; the caller frees it. NULL: none. */
static char *servewatch_root(int runs, const char *name)
{
	struct run_start *start = xcalloc(1, sizeof(*start));
	char why[128], *root = NULL, *slash;
	struct buf b;

	buf_init(&b, RUN_FILE_MAX);
	if (runfile_read(runs, name, &b) == 0 &&
	    run_start_parse(buf_str(&b), b.len, start, why) == 0 && start->dir[0] == '/') {
		slash = strrchr(start->dir, '/');
		if (slash > start->dir)
			root = xstrndup(start->dir, (size_t)(slash - start->dir));
	}
	buf_done(&b);
	free(start);
	return root;
}

/* The folder of runs of a program that began its run itself, for which nothing lies in runs/:
 * its ring names it. The caller frees it. NULL: none, or one of `lapse run`. */
static char *servewatch_ring_root(int dirfd, int rings, const char *name)
{
	struct wire_ring ring;
	char run[sizeof(ring.run) + 16], *root = NULL;
	int fd = openat(rings, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    pread(fd, &ring, sizeof(ring), 0) == sizeof(ring) && ring.magic == WIRE_MAGIC_RING &&
	    ring.major <= WIRE_MAJOR && ring.store_dir[0] == '/' &&
	    memchr(ring.store_dir, 0, sizeof(ring.store_dir)) &&
	    memchr(ring.run, 0, sizeof(ring.run)) && !strchr(ring.run, '/')) {
		snprintf(run, sizeof(run), "runs/%s.run", ring.run);
		if (faccessat(dirfd, run, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			root = realpath(ring.store_dir, NULL); /* NULL: not there yet */
	}
	if (fd >= 0)
		close(fd);
	return root;
}

static char *servewatch_of_run(struct servewatch_walk *w, int runs, const char *name)
{
	w->alive |= rendezvous_is_locked(runs, name) == 1;
	return servewatch_root(runs, name);
}

static char *servewatch_of_ring(struct servewatch_walk *w, int rings, const char *name)
{
	return servewatch_ring_root(w->dirfd, rings, name);
}

/* Give fn what `of` says of each file with that end; what fn returned. */
static int servewatch_each(struct servewatch_walk *w, const char *folder, const char *end,
			   char *(*of)(struct servewatch_walk *w, int fd, const char *name))
{
	int fd = openat(w->dirfd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *one;
	char *root;
	int r = 0;

	while (d && !r && (one = readdir(d))) {
		if (!text_ends(one->d_name, end))
			continue;
		root = of(w, fd, one->d_name);
		if (root)
			r = w->fn(w->arg, root);
		free(root);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return r;
}

bool servewatch_look(const struct servewatch *w, int (*fn)(void *arg, const char *root), void *arg)
{
	struct servewatch_walk walk = {
		.dirfd = w->dirfd,
		.fn = fn,
		.arg = arg,
		.alive = rendezvous_is_locked(w->dirfd, "agent.lock") == 1,
	};

	if (!servewatch_each(&walk, "runs", ".run", servewatch_of_run))
		servewatch_each(&walk, "rings", ".ring", servewatch_of_ring);
	return walk.alive;
}
