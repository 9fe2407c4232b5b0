/* SPDX-License-Identifier: Apache-2.0
 *
 * cleanup.c - see cleanup.h. A file is only opened for writing if there is
 * something to be dropped from it.
 */
#include "cli/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/clock.h"

static void cleanup_fail(struct cleanup_run *run, const struct err *e)
{
	if (!run->error)
		run->error = xstrdup(e->text);
}

/* ---- one file ---------------------------------------------------------------- */

/* Drop for good; the file is closed as a plain one again. */
static int cleanup_write(const struct cleanup_run *run, const char *host,
			 const struct store_limits *l, struct err *e, struct store_retained *ret)
{
	const struct store_options o = {.dir = run->dir, .host = host, .existing = true};
	struct store *s = NULL;
	int r = store_open(&o, e, &s), code;

	if (r < 0)
		return r;
	do
		r = store_retain(s, l, e);
	while (r > 0);
	store_retained(s, ret);
	code = store_close(s, e);
	return r < 0 ? r : code;
}

/* File is HOST.db. What is dropped is added to the run. */
static void cleanup_file(struct cleanup_run *run, const char *file, const struct store_limits *l,
			 bool dry_run)
{
	char *path = xasprintf("%s/%s", run->dir, file), *host = xstrndup(file, strlen(file) - 3);
	struct store_retained done = {0};
	struct err e = {0};
	int r = store_retain_look(path, l, &e, &done);

	if (r == 0 && done.points && !dry_run)
		r = cleanup_write(run, host, l, &e, &done);
	if (r < 0)
		cleanup_fail(run, &e);
	run->points += done.points;
	if (dry_run)
		run->bytes -= done.bytes < run->bytes ? done.bytes : run->bytes;
	free(path);
	free(host);
}

static int cleanup_is_db(const struct dirent *d)
{
	return d->d_name[0] != '.' && text_ends(d->d_name, ".db");
}

static uint64_t cleanup_size(const char *dir, const char *file)
{
	char *path = xasprintf("%s/%s", dir, file);
	struct stat st;
	uint64_t size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;

	free(path);
	return size;
}

/* All files of a run. excess (0: none): of so many bytes that all runs have too many
 * it gives what it can. */
static void cleanup_files(struct cleanup_run *run, const struct store_limits *limits,
			  uint64_t excess, bool dry_run)
{
	uint64_t before = run->bytes, freed, size, need;
	struct store_limits l = *limits;
	struct dirent **names;
	int i, n = scandir(run->dir, &names, cleanup_is_db, alphasort);

	for (i = 0; i < n; i++) {
		freed = before > run->bytes ? before - run->bytes : 0;
		size = cleanup_size(run->dir, names[i]->d_name);
		need = excess > freed ? excess - freed : 0;
		if (excess)
			l.max_bytes = size > need ? size - need : 1;
		if (!run->error && (!excess || need))
			cleanup_file(run, names[i]->d_name, &l, dry_run);
		if (!dry_run)
			run->bytes = folder_bytes(run->dir);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* ---- all runs ------------------------------------------------------------------ */

static void cleanup_remove(struct cleanup_run *run, bool dry_run)
{
	struct err e = {0};

	if (!dry_run && folder_remove(run->dir, false, &e) < 0) {
		cleanup_fail(run, &e);
		run->bytes = folder_bytes(run->dir);
		return;
	}
	run->removed = true;
	run->bytes = 0;
}

static uint64_t cleanup_total(const struct cleanup *c)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < c->n; i++)
		sum += c->runs[i].bytes;
	return sum;
}

static int cleanup_list(const char *root, const struct cleanup_wish *w, struct err *e,
			struct cleanup *c)
{
	int64_t now = clock_ns(CLOCK_REALTIME);
	char **ids = NULL;
	size_t i, n = 0;
	int r = store_runs(root, &ids, e);

	if (r < 0)
		return r;
	while (ids[n])
		n++;
	c->runs = xcalloc(n, sizeof(*c->runs));
	for (i = 0; i < n; i++) {
		struct cleanup_run *run = &c->runs[c->n];
		struct err why = {0};

		run->id = xstrdup(ids[i]);
		run->dir = xasprintf("%s/%s", root, ids[i]);
		r = folder_look(run->dir, &why, &run->info);
		if (r < 0 || !run->info.is_run) { /* other folders may lie beside the runs */
			free(run->id);
			free(run->dir);
			*run = (struct cleanup_run){0};
			continue;
		}
		run->bytes = run->info.bytes;
		run->eligible = run->info.state != FOLDER_LIVE && !run->info.is_away &&
				now - run->info.end_ns >= w->older_than_ns;
		c->n++;
	}
	store_runs_free(ids);
	return 0;
}

/* Each run's own limits, or its end. */
static void cleanup_each(struct cleanup *c, const struct cleanup_wish *w)
{
	const struct store_limits l = {.keep_raw_ns = w->keep_raw_ns, .max_bytes = w->max_size};
	size_t i;

	for (i = 0; i < c->n; i++) {
		struct cleanup_run *run = &c->runs[i];

		if (!run->eligible)
			continue;
		if (w->remove_runs && w->older_than_ns)
			cleanup_remove(run, w->dry_run);
		else if (l.keep_raw_ns || l.max_bytes)
			cleanup_files(run, &l, 0, w->dry_run);
	}
}

/* All together: raw points first, then runs. */
static void cleanup_all(struct cleanup *c, const struct cleanup_wish *w)
{
	const struct store_limits none = {0};
	uint64_t total = cleanup_total(c);
	size_t i;

	for (i = 0; i < c->n && total > w->max_total; i++) {
		if (!c->runs[i].eligible || c->runs[i].removed)
			continue;
		cleanup_files(&c->runs[i], &none, total - w->max_total, w->dry_run);
		total = cleanup_total(c);
	}
	for (i = 0; w->remove_runs && i < c->n && total > w->max_total; i++) {
		if (!c->runs[i].eligible || c->runs[i].removed)
			continue;
		cleanup_remove(&c->runs[i], w->dry_run);
		total = cleanup_total(c);
	}
}

int cleanup_run(const char *root, const struct cleanup_wish *w, struct err *e, struct cleanup *ret)
{
	int r;

	*ret = (struct cleanup){0};
	if (!w->dry_run) {
		r = folder_sweep(root, NULL);
		ret->swept = r > 0 ? (uint64_t)r : 0;
	}
	r = cleanup_list(root, w, e, ret);
	if (r < 0)
		return r;
	ret->before = cleanup_total(ret);
	cleanup_each(ret, w);
	if (w->max_total)
		cleanup_all(ret, w);
	ret->after = cleanup_total(ret);
	return 0;
}

void cleanup_done(struct cleanup *c)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		free(c->runs[i].id);
		free(c->runs[i].dir);
		free(c->runs[i].error);
	}
	free(c->runs);
	*c = (struct cleanup){0};
}
