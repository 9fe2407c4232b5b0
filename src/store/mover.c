/* SPDX-License-Identifier: Apache-2.0
 *
 * mover.c - what is done about live files beside writing them: the thread that
 * copies one home now and then, and finishing what dead writers have left.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/place.h"
#include "store/store_priv.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOVER_SHARE 20 /* copying takes at most one part in so many of the time */
#define MOVER_FIRST 10 /* the first copy comes after this part of the interval */

/* ---- the thread ------------------------------------------------------------------------------ */

struct mover {
	struct place *place;
	char *path;
};

/* False: stop. */
static bool mover_wait(struct place *p, int64_t ns)
{
	struct timespec until;
	int rc = 0;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ns / 1000000000;
	until.tv_nsec += ns % 1000000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&p->lock);
	while (!p->stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&p->wake, &p->lock, &until);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

/* A copy that failed is made again; what the writer meets, it tells. */
static void *mover_main(void *arg)
{
	struct mover *m = arg;
	struct place *p = m->place;
	int64_t wait = p->copy_every_ns / MOVER_FIRST, began, took;

	while (mover_wait(p, wait)) {
		began = store_mono_ns();
		place_copy(p, m->path, NULL);
		took = store_mono_ns() - began;
		wait = took * (MOVER_SHARE - 1) > p->copy_every_ns - took ? took * (MOVER_SHARE - 1)
									  : p->copy_every_ns - took;
	}
	free(m->path);
	free(m);
	return NULL;
}

int place_start(struct place *p, const char *path, struct err *e)
{
	struct mover *m;
	pthread_condattr_t attr;
	sigset_t all, old;
	int r;

	if (!p->folder || p->running)
		return 0;
	m = xcalloc(1, sizeof(*m));
	m->place = p;
	m->path = xasprintf("%s", path);
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	p->stop = false;
	p->running = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&p->thread, NULL, mover_main, m);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		return 0;
	p->running = false;
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(m->path);
	free(m);
	return err_errno(e, -r, "%s: cannot start the thread that copies it", path);
}

void place_stop(struct place *p)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	p->running = false;
}

/* ---- what dead writers left -------------------------------------------------------------------
 */

static bool mover_is_locked(const char *folder)
{
	char *path = xasprintf("%s/lock", folder);
	bool is = rendezvous_is_locked(AT_FDCWD, path) == 1;

	free(path);
	return is;
}

/* TOKEN.new and TOKEN.done are rests: so is the pointer, if it names them. */
static void mover_sweep(const char *folder, const char *token, const char *dir, const char *file)
{
	char *pointer = xasprintf("%s/%.*s.live", dir, (int)strlen(file) - 3, file);
	struct place_pointer p = {0};
	char *name, *tmp;

	if (place_pointer_read(pointer, &p) == 0) {
		name = strstr(p.path, token);
		if (name && name > p.path && name[-1] == '/' && name[strlen(token)] == '/')
			unlink(pointer);
	}
	place_pointer_done(&p);
	name = xasprintf("%s/%s.lock", dir, file);
	tmp = xasprintf("%s.tmp", pointer);
	if (rendezvous_is_locked(AT_FDCWD, name) == 0)
		unlink(tmp); /* a pointer that was being written */
	free(tmp);
	free(name);
	free(pointer);
	place_remove(folder);
}

/* Does the pointer in the run's folder name this live file? */
static bool mover_is_current(const char *folder, const char *dir, const char *file)
{
	char *pointer = xasprintf("%s/%.*s.live", dir, (int)strlen(file) - 3, file);
	struct place_pointer p = {0};
	bool is = place_pointer_read(pointer, &p) == 0 &&
		  strncmp(p.path, folder, strlen(folder)) == 0 && p.path[strlen(folder)] == '/';

	place_pointer_done(&p);
	free(pointer);
	return is;
}

/* Open the live file as the writer that died would have, and close it. */
static int mover_take_up(const char *folder, const char *dir, const char *file, struct err *e)
{
	char *host = xstrndup(file, strlen(file) - 3);
	const struct store_options o = {.dir = dir, .host = host};
	struct store *s;
	int r;

	if (access(dir, F_OK) < 0)
		r = err_errno(e, -errno, "%s, whose live file is in %s", dir, folder);
	else if (!mover_is_current(folder, dir, file))
		r = err_set(e, -ESTALE,
			    "%s/%s: it is of the run in %s, which has no part in it any more (no "
			    "%s.live that names it); copy it where you want it, or delete %s",
			    folder, file, dir, host, folder);
	else
		r = store_open(&o, e, &s);
	if (r == 0)
		r = store_close(s, e);
	free(host);
	return r;
}

static int mover_one(const char *folder, const char *name, const struct store_leftovers *to)
{
	char *dir = NULL, *file = NULL, *token = xstrndup(name, strcspn(name, "."));
	struct err e = {0};
	int r = 0;

	if (strspn(token, "0123456789abcdef") != 16 || token[16] || mover_is_locked(folder)) {
		free(token);
		return 0;
	}
	if (place_origin_read(folder, &dir, &file) < 0) {
		/* Killed before anything was in it, or while it was being deleted. */
		if (name[16])
			place_remove(folder);
	} else if (name[16]) {
		mover_sweep(folder, token, dir, file);
	} else {
		r = mover_take_up(folder, dir, file, &e);
		if (r != -EBUSY) /* somebody has taken it up meanwhile */
			r = to->found(to->arg, dir, file, r < 0 ? folder : NULL,
				      r < 0 ? e.text : "");
		else
			r = 0;
	}
	free(dir);
	free(file);
	free(token);
	return r;
}

/* The private folder that a pointer names, if it is on this host and that of the run. */
static char *mover_private(const char *dir, const char *pointer, const char *name)
{
	char *file = xasprintf("%.*s.db", (int)strlen(name) - 5, name), *folder = NULL;
	struct place_pointer p = {0};

	if (place_pointer_read(pointer, &p) == 0) {
		folder = xstrndup(p.path, (size_t)(strrchr(p.path, '/') - p.path));
		if (!place_is_of(folder, dir, file)) {
			free(folder);
			folder = NULL;
		}
	}
	place_pointer_done(&p);
	free(file);
	return folder;
}

void place_drop(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *one;
	char *pointer, *folder;

	while (d && (one = readdir(d))) {
		if (!text_ends(one->d_name, ".live"))
			continue;
		pointer = xasprintf("%s/%s", dir, one->d_name);
		folder = mover_private(dir, pointer, one->d_name);
		if (folder && !mover_is_locked(folder))
			place_remove(folder);
		free(folder);
		free(pointer);
	}
	if (d)
		closedir(d);
}

int store_finish_leftovers(const char *local_dir, const struct store_leftovers *to)
{
	struct dirent *one;
	char *local, *folder;
	size_t i;
	int r = 0;
	DIR *d;

	for (i = 0; r == 0 && (local = place_candidate(local_dir, i)); i++) {
		d = opendir(local);
		while (r == 0 && d && (one = readdir(d))) {
			folder = xasprintf("%s/%s", local, one->d_name);
			if (one->d_name[0] != '.')
				r = mover_one(folder, one->d_name, to);
			free(folder);
		}
		if (d)
			closedir(d);
		free(local);
	}
	return r;
}
