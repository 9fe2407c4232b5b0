/* SPDX-License-Identifier: Apache-2.0
 *
 * serverrun.c - runs that are open: views wait for the next request about their run and are
 * read anew when its files have changed. And the index of all runs.
 */
#include "server/server_priv.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/text.h"
#include "server/routes.h"
#include "store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SERVERRUN_AWAY_NS 250000000LL   /* a run whose files cannot be seen may grow so often */
#define SERVERRUN_LATE_NS 60000000000LL /* without a writer here: another machine's, perhaps */
#define SERVERRUN_INDEX_NS 1000000000LL
#define SERVERRUN_KEEP_NS 250000000LL /* a view that waits, of files that are being written */

/* A view, and the files as they were when it was read. */
struct serverrun_view {
	struct server_run run; /* first */
	struct serverrun_view *next;
	struct server_shelf *shelf;
	uint64_t files, names;
	int64_t used_ns;
	bool is_written; /* its writer can make it one plain file only when we are gone */
};

/* A run that was asked for. */
struct server_shelf {
	struct server_shelf *next;
	char *dir, *id;
	uint64_t files, version;
	struct serverrun_view *idle;
	unsigned n_idle;
};

/* ---- folders ------------------------------------------------------------------------------- */

static bool serverrun_is_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n < sizeof(((struct server_run *)0)->id) && !id[n] && id[0] != '.';
}

static int serverrun_newest(struct server *s, char *out, size_t cap)
{
	char *roots[SERVER_ROOTS_MAX], dir[4096], best[256] = "";
	struct err e = {0};
	const char *id;
	size_t i, n;

	pthread_mutex_lock(&s->lock);
	n = s->n_roots;
	memcpy(roots, s->roots, sizeof(roots)); /* they live as long as the server */
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n; i++) {
		err_clear(&e);
		if (store_find(roots[i], "last", dir, sizeof(dir), &e) < 0)
			continue;
		id = strrchr(dir, '/') + 1;
		if (strcmp(id, best) <= 0)
			continue;
		snprintf(best, sizeof(best), "%s", id);
		snprintf(out, cap, "%s", dir);
	}
	return best[0] ? 0 : -ENOENT;
}

int server_run_dir(struct server *s, const char *id, char *out, size_t cap)
{
	struct stat st;
	size_t i, n;
	int r = -ENOENT;

	if (!strcmp(id, "last"))
		return serverrun_newest(s, out, cap);
	if (!serverrun_is_id(id))
		return -ENOENT;
	pthread_mutex_lock(&s->lock);
	n = s->n_roots;
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n && r; i++) {
		if (snprintf(out, cap, "%s/%s", s->roots[i], id) >= (int)cap)
			continue;
		if (!lstat(out, &st) && S_ISDIR(st.st_mode))
			r = 0;
	}
	return r;
}

/* The state of a run's files as numbers: of the names of databases, and of all that says
 * that something is new. */
struct serverrun_state {
	uint64_t names, files;
	int64_t changed_ns; /* UTC */
	bool is_away;       /* they are elsewhere */
	bool has_log;
};

static void serverrun_add(struct serverrun_state *state, const char *name, const struct stat *st)
{
	int64_t at = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	uint64_t hash = map_hash(name, strlen(name));
	const uint64_t parts[] = {hash, (uint64_t)at, (uint64_t)st->st_size, st->st_ino};

	/* Readers make and delete these two. */
	if (text_ends(name, "-shm") || text_ends(name, ".lock"))
		return;
	/* Another file of the same name is not the one that a view has open. */
	if (text_ends(name, ".db"))
		state->names += map_hash((const uint64_t[]){hash, st->st_ino}, 2 * sizeof(hash));
	else if (text_ends(name, ".live"))
		state->names += hash;
	state->is_away |= text_ends(name, ".live");
	state->has_log |= text_ends(name, "-wal");
	state->files += map_hash(parts, sizeof(parts));
	if (at > state->changed_ns)
		state->changed_ns = at;
}

static int serverrun_look(const char *dir, struct serverrun_state *ret)
{
	struct serverrun_state state = {1, 1, 0, false, false};
	DIR *d = opendir(dir);
	struct dirent *one;
	struct stat st;

	if (!d)
		return -errno;
	while ((one = readdir(d)))
		if (one->d_name[0] != '.' &&
		    !fstatat(dirfd(d), one->d_name, &st, AT_SYMLINK_NOFOLLOW))
			serverrun_add(&state, one->d_name, &st);
	closedir(d);
	if (state.is_away)
		state.files += (uint64_t)(now_read(CLOCK_MONOTONIC) / SERVERRUN_AWAY_NS);
	*ret = state;
	return 0;
}

/* ---- views --------------------------------------------------------------------------------- */

static void serverrun_free(struct serverrun_view *view)
{
	if (!view)
		return;
	runview_close(&view->run.v);
	free(view);
}

/* With the lock held. */
static struct server_shelf *serverrun_shelf(struct server *s, const char *dir, const char *id)
{
	struct server_shelf *shelf;

	for (shelf = s->shelves; shelf; shelf = shelf->next)
		if (!strcmp(shelf->dir, dir))
			return shelf;
	shelf = xcalloc(1, sizeof(*shelf));
	shelf->dir = xstrdup(dir);
	shelf->id = xstrdup(id);
	shelf->next = s->shelves;
	s->shelves = shelf;
	return shelf;
}

/* An idle view of the run, or a new one that is not open yet; its version is that of the
 * files now. */
static struct serverrun_view *serverrun_pop(struct server *s, const char *dir,
					    const struct serverrun_state *state)
{
	uint64_t now = (uint64_t)now_read(CLOCK_REALTIME) / 1000000;
	struct serverrun_view *view;
	struct server_shelf *shelf;

	pthread_mutex_lock(&s->lock);
	shelf = serverrun_shelf(s, dir, strrchr(dir, '/') + 1);
	if (shelf->files != state->files) {
		/* Also grows over the lives of servers: tags of answers are made of it. */
		shelf->version = shelf->version >= now ? shelf->version + 1 : now;
		shelf->files = state->files;
	}
	view = shelf->idle;
	if (view) {
		shelf->idle = view->next;
		shelf->n_idle--;
		s->n_idle--;
	} else {
		view = xcalloc(1, sizeof(*view));
		view->shelf = shelf;
		snprintf(view->run.id, sizeof(view->run.id), "%s", shelf->id);
	}
	view->run.version = shelf->version;
	pthread_mutex_unlock(&s->lock);
	return view;
}

/* Open it, or bring it up to date. */
static int serverrun_read(struct serverrun_view *view, const char *dir,
			  const struct serverrun_state *state, struct err *e)
{
	int r = -ESTALE;

	if (view->run.v.reader && view->files == state->files)
		return 0;
	if (view->run.v.reader && view->names == state->names)
		r = runview_refresh(&view->run.v, e);
	if (r) {
		err_clear(e);
		runview_close(&view->run.v);
		r = runview_open_dir(&view->run.v, dir, e);
	}
	view->files = state->files;
	view->names = state->names;
	view->is_written = state->has_log || state->is_away;
	return r;
}

static void serverrun_refuse(struct http_reply *reply, const char *id, int r, const struct err *e)
{
	if (r == -ENOENT)
		reply_error(reply, 404, "no-such-run",
			    "There is no run %.200s in the folders that are served; "
			    "/api/v1/runs lists them.",
			    id);
	else if (r == -EUCLEAN || r == -EPROTO)
		reply_error(reply, 500, "damaged", "%s; see `lapse fsck %.200s`.", e->text, id);
	else
		reply_error(reply, 503, "folder", "The run %.200s cannot be read: %s.", id,
			    e->code ? e->text : strerror(-r));
}

struct server_run *server_take_run(struct server *s, const char *id, struct http_reply *reply)
{
	struct serverrun_state state = {0};
	struct serverrun_view *view;
	struct err e = {0};
	char dir[4096];
	int r = server_run_dir(s, id, dir, sizeof(dir));

	if (!r)
		r = serverrun_look(dir, &state);
	if (r) {
		serverrun_refuse(reply, id, r, &e);
		return NULL;
	}
	view = serverrun_pop(s, dir, &state);
	r = serverrun_read(view, dir, &state, &e);
	if (r) {
		serverrun_free(view);
		/* Its file is there before there is anything in it. */
		if (r == -EUCLEAN && folder_is_written(dir))
			reply_error(reply, 503, "busy",
				    "The run %.200s is being written and cannot be read just now: "
				    "%s; ask again.",
				    id, e.text);
		else
			serverrun_refuse(reply, id, r, &e);
		return NULL;
	}
	view->run.is_live = view->run.v.run.outcome == RUN_RUNNING &&
			    (now_read(CLOCK_REALTIME) - state.changed_ns < SERVERRUN_LATE_NS ||
			     folder_is_written(dir));
	return &view->run;
}

/* With the lock held: take the view away that waits longest. */
static struct serverrun_view *serverrun_oldest(struct server *s)
{
	struct serverrun_view **at, **oldest = NULL, *view;
	struct server_shelf *shelf;

	for (shelf = s->shelves; shelf; shelf = shelf->next)
		for (at = &shelf->idle; *at; at = &(*at)->next)
			if (!oldest || (*at)->used_ns < (*oldest)->used_ns)
				oldest = at;
	if (!oldest)
		return NULL;
	view = *oldest;
	*oldest = view->next;
	view->shelf->n_idle--;
	s->n_idle--;
	return view;
}

void server_give_run(struct server *s, struct server_run *run)
{
	struct serverrun_view *view = (struct serverrun_view *)run, *gone = NULL;

	if (!run)
		return;
	view->used_ns = now_read(CLOCK_MONOTONIC);
	pthread_mutex_lock(&s->lock);
	if (view->shelf->n_idle >= SERVER_IDLE_RUN_MAX ||
	    (view->is_written && run->v.run.outcome != RUN_RUNNING)) {
		gone = view;
	} else {
		view->next = view->shelf->idle;
		view->shelf->idle = view;
		view->shelf->n_idle++;
		if (++s->n_idle > SERVER_IDLE_MAX)
			gone = serverrun_oldest(s);
	}
	pthread_mutex_unlock(&s->lock);
	serverrun_free(gone);
}

/* With the lock held: take away what has waited for too long. */
static struct serverrun_view *serverrun_late(struct server_shelf *shelf, int64_t now_ns,
					     struct serverrun_view *more)
{
	struct serverrun_view **at = &shelf->idle, *view;

	while ((view = *at)) {
		if (!view->is_written || now_ns - view->used_ns < SERVERRUN_KEEP_NS) {
			at = &view->next;
			continue;
		}
		*at = view->next;
		shelf->n_idle--;
		view->next = more;
		more = view;
	}
	return more;
}

void server_runs_tick(void *server)
{
	struct serverrun_view *late = NULL, *view;
	int64_t now = now_read(CLOCK_MONOTONIC);
	struct server *s = server;
	struct server_shelf *shelf;

	pthread_mutex_lock(&s->lock);
	for (shelf = s->n_idle ? s->shelves : NULL; shelf; shelf = shelf->next)
		late = serverrun_late(shelf, now, late);
	for (view = late; view; view = view->next)
		s->n_idle--;
	pthread_mutex_unlock(&s->lock);
	while ((view = late)) {
		late = view->next;
		serverrun_free(view);
	}
}

void server_runs_done(struct server *s)
{
	struct server_shelf *shelf, *next;
	struct serverrun_view *view;

	for (shelf = s->shelves; shelf; shelf = next) {
		next = shelf->next;
		while ((view = shelf->idle)) {
			shelf->idle = view->next;
			serverrun_free(view);
		}
		free(shelf->dir);
		free(shelf->id);
		free(shelf);
	}
}

/* ---- the index ----------------------------------------------------------------------------- */

static void serverrun_close_indexes(struct server *s)
{
	size_t i;

	for (i = 0; i < s->index.n; i++)
		index_close(s->indexes[i]);
	s->index.n = 0;
}

static void serverrun_open_indexes(struct server *s)
{
	struct err e = {0};
	size_t i;

	pthread_mutex_lock(&s->lock);
	s->index.n = s->n_roots;
	memcpy(s->index_roots, s->roots, sizeof(s->roots));
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < s->index.n; i++) {
		err_clear(&e);
		s->indexes[i] = NULL;
		if (index_open(s->index_roots[i], &e, &s->indexes[i]) < 0)
			s->indexes[i] = NULL;
	}
	s->index.of = s->indexes;
	s->index.roots = s->index_roots;
}

const struct server_index *server_take_index(struct server *s)
{
	int64_t now;

	pthread_mutex_lock(&s->index_lock);
	now = now_read(CLOCK_MONOTONIC);
	if (!s->index_ns || now - s->index_ns > SERVERRUN_INDEX_NS) {
		serverrun_close_indexes(s);
		serverrun_open_indexes(s);
		s->index_ns = now_read(CLOCK_MONOTONIC);
	}
	return &s->index;
}

void server_give_index(struct server *s)
{
	pthread_mutex_unlock(&s->index_lock);
}

void server_index_done(struct server *s)
{
	serverrun_close_indexes(s);
}
