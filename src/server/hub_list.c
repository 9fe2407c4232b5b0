/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_list.c - see hub_list.h.
 */
#include "server/hub_list.h"

#include "base/mem.h"
#include "server/hub_encode.h"
#include "server/hub_run.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

struct hub_list_run {
	char *dir; /* owned */
	const char *id;
	uint64_t stamp; /* of the folder */
	bool is_live, is_seen;
};
struct hub_list {
	struct hub_list_run *runs; /* by dir */
	size_t n, cap;
};

/* What has changed. */
struct hub_list_news {
	const char *ids[HUB_LIST_IDS];
	size_t n;
};

static int hub_list_file(void *arg, const struct store_file *f)
{
	bool *is_live = arg;

	*is_live = *is_live || (f->is_live && !f->is_aside);
	return 0;
}

static bool hub_list_is_live(const char *dir)
{
	bool is = false;

	store_files(dir, hub_list_file, &is, NULL);
	return is;
}

static void hub_list_note(struct hub_list_news *news, const char *id)
{
	if (news->n < HUB_LIST_IDS)
		news->ids[news->n] = id;
	news->n++;
}

static int hub_list_order(const void *a, const void *b)
{
	const struct hub_list_run *x = a, *y = b;

	return strcmp(x->dir, y->dir);
}

static struct hub_list_run *hub_list_find(const struct hub_list *l, size_t n, const char *dir)
{
	const struct hub_list_run key = {.dir = (char *)dir};

	return n ? bsearch(&key, l->runs, n, sizeof(*l->runs), hub_list_order) : NULL;
}

static void hub_list_add(struct hub_list *l, char *dir)
{
	struct hub_list_run *r;

	l->runs = xgrow(l->runs, l->n, &l->cap, sizeof(*l->runs));
	r = &l->runs[l->n++];
	*r = (struct hub_list_run){.dir = dir, .id = strrchr(dir, '/') + 1, .is_seen = true};
	r->stamp = hub_stamp(dir);
	r->is_live = hub_list_is_live(dir);
}

/* A run that is known: has it changed? */
static bool hub_list_check(struct hub_list_run *r)
{
	uint64_t stamp = hub_stamp(r->dir);
	bool was = r->is_live, is_new = stamp != r->stamp;

	r->is_seen = true;
	if (is_new || r->is_live)
		r->is_live = hub_list_is_live(r->dir);
	r->stamp = stamp;
	return is_new || was != r->is_live;
}

/* The first n are sorted, and known. */
static void hub_list_root(struct hub_list *l, size_t n, const char *root, struct hub_list_news *new,
			  struct hub_list_news *changed)
{
	char **runs = NULL, *dir;
	struct hub_list_run *r;
	size_t i;

	if (store_runs(root, &runs, NULL) < 0)
		return;
	for (i = 0; runs[i]; i++) {
		dir = xasprintf("%s/%s", root, runs[i]);
		r = hub_list_find(l, n, dir);
		if (r) {
			free(dir);
			if (hub_list_check(r))
				hub_list_note(changed, r->id);
			continue;
		}
		hub_list_add(l, dir);
		hub_list_note(new, l->runs[l->n - 1].id);
	}
	store_runs_free(runs);
}

static void hub_list_put(struct json *j, const char *key, const struct hub_list_news *news)
{
	size_t i;

	json_key(j, key);
	json_array(j);
	for (i = 0; i < news->n && i < HUB_LIST_IDS; i++)
		json_str(j, news->ids[i]);
	json_array_end(j);
}

static void hub_list_event(struct buf *out, const struct hub_list_news *new,
			   const struct hub_list_news *gone, const struct hub_list_news *changed,
			   bool more)
{
	struct json j;

	hub_frame(out, &j, NULL, "runs", NULL);
	hub_list_put(&j, "new", new);
	hub_list_put(&j, "gone", gone);
	hub_list_put(&j, "changed", changed);
	json_kbool(&j, "more", more);
	hub_frame_end(out, &j);
}

void hub_list_more(struct buf *out)
{
	const struct hub_list_news none = {.n = 0};

	hub_list_event(out, &none, &none, &none, true);
}

/* Those that were not seen are gone; the rest is sorted. */
static void hub_list_sweep(struct hub_list *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++) {
		if (l->runs[i].is_seen)
			l->runs[n++] = l->runs[i];
		else
			free(l->runs[i].dir);
	}
	l->n = n;
	if (n)
		qsort(l->runs, n, sizeof(*l->runs), hub_list_order);
}

void hub_list_look(struct hub_list *l, char *const *roots, struct buf *out)
{
	struct hub_list_news new = {.n = 0}, gone = {.n = 0}, changed = {.n = 0};
	size_t i, n = l->n;

	for (i = 0; i < n; i++)
		l->runs[i].is_seen = false;
	for (i = 0; roots[i]; i++)
		hub_list_root(l, n, roots[i], &new, &changed);
	for (i = 0; i < n; i++)
		if (!l->runs[i].is_seen)
			hub_list_note(&gone, l->runs[i].id);
	if (out && new.n + gone.n + changed.n)
		hub_list_event(out, &new, &gone, &changed,
			       new.n > HUB_LIST_IDS || gone.n > HUB_LIST_IDS ||
				       changed.n > HUB_LIST_IDS);
	hub_list_sweep(l);
}

struct hub_list *hub_list_new(char *const *roots)
{
	struct hub_list *l = xcalloc(1, sizeof(*l));

	hub_list_look(l, roots, NULL);
	return l;
}

void hub_list_free(struct hub_list *l)
{
	size_t i;

	for (i = 0; l && i < l->n; i++)
		free(l->runs[i].dir);
	if (l)
		free(l->runs);
	free(l);
}
