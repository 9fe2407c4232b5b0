/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_list.c - see feed_list.h.
 */
#include "server/feed_list.h"

#include "base/mem.h"
#include "server/feed_encode.h"
#include "server/feed_run.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

struct feed_list_run {
	char *dir; /* owned */
	const char *id;
	uint64_t stamp; /* of the folder */
	bool is_live, is_seen;
};
struct feed_list {
	struct feed_list_run *runs; /* by dir */
	size_t n, cap;
};

/* What has changed. */
struct feed_list_news {
	const char *ids[FEED_LIST_IDS];
	size_t n;
};

static int feed_list_file(void *arg, const struct store_file *f)
{
	bool *is_live = arg;

	*is_live = *is_live || (f->is_live && !f->is_aside);
	return 0;
}

static bool feed_list_is_live(const char *dir)
{
	bool is = false;

	store_files(dir, feed_list_file, &is, NULL);
	return is;
}

static void feed_list_note(struct feed_list_news *news, const char *id)
{
	if (news->n < FEED_LIST_IDS)
		news->ids[news->n] = id;
	news->n++;
}

static int feed_list_order(const void *a, const void *b)
{
	const struct feed_list_run *x = a, *y = b;

	return strcmp(x->dir, y->dir);
}

static struct feed_list_run *feed_list_find(const struct feed_list *l, size_t n, const char *dir)
{
	const struct feed_list_run key = {.dir = (char *)dir};

	return n ? bsearch(&key, l->runs, n, sizeof(*l->runs), feed_list_order) : NULL;
}

static void feed_list_add(struct feed_list *l, char *dir)
{
	struct feed_list_run *r;

	l->runs = xgrow(l->runs, l->n, &l->cap, sizeof(*l->runs));
	r = &l->runs[l->n++];
	*r = (struct feed_list_run){.dir = dir, .id = strrchr(dir, '/') + 1, .is_seen = true};
	r->stamp = feed_stamp(dir);
	r->is_live = feed_list_is_live(dir);
}

/* A run that is known: has it changed? */
static bool feed_list_check(struct feed_list_run *r)
{
	uint64_t stamp = feed_stamp(r->dir);
	bool was = r->is_live, is_new = stamp != r->stamp;

	r->is_seen = true;
	if (is_new || r->is_live)
		r->is_live = feed_list_is_live(r->dir);
	r->stamp = stamp;
	return is_new || was != r->is_live;
}

/* The first n are sorted, and known. */
static void feed_list_root(struct feed_list *l, size_t n, const char *root,
			   struct feed_list_news *new, struct feed_list_news *changed)
{
	char **runs = NULL, *dir;
	struct feed_list_run *r;
	size_t i;

	if (store_runs(root, &runs, NULL) < 0)
		return;
	for (i = 0; runs[i]; i++) {
		dir = xasprintf("%s/%s", root, runs[i]);
		r = feed_list_find(l, n, dir);
		if (r) {
			free(dir);
			if (feed_list_check(r))
				feed_list_note(changed, r->id);
			continue;
		}
		feed_list_add(l, dir);
		feed_list_note(new, l->runs[l->n - 1].id);
	}
	store_runs_free(runs);
}

static void feed_list_put(struct json *j, const char *key, const struct feed_list_news *news)
{
	size_t i;

	json_key(j, key);
	json_array(j);
	for (i = 0; i < news->n && i < FEED_LIST_IDS; i++)
		json_str(j, news->ids[i]);
	json_array_end(j);
}

static void feed_list_event(struct buf *out, const struct feed_list_news *new,
			    const struct feed_list_news *gone, const struct feed_list_news *changed,
			    bool more)
{
	struct json j;

	feed_frame(out, &j, NULL, "runs", NULL);
	feed_list_put(&j, "new", new);
	feed_list_put(&j, "gone", gone);
	feed_list_put(&j, "changed", changed);
	json_kbool(&j, "more", more);
	feed_frame_end(out, &j);
}

void feed_list_more(struct buf *out)
{
	const struct feed_list_news none = {.n = 0};

	feed_list_event(out, &none, &none, &none, true);
}

/* Those that were not seen are gone; the rest is sorted. */
static void feed_list_sweep(struct feed_list *l)
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
		qsort(l->runs, n, sizeof(*l->runs), feed_list_order);
}

void feed_list_look(struct feed_list *l, char *const *roots, struct buf *out)
{
	struct feed_list_news new = {.n = 0}, gone = {.n = 0}, changed = {.n = 0};
	size_t i, n = l->n;

	for (i = 0; i < n; i++)
		l->runs[i].is_seen = false;
	for (i = 0; roots[i]; i++)
		feed_list_root(l, n, roots[i], &new, &changed);
	for (i = 0; i < n; i++)
		if (!l->runs[i].is_seen)
			feed_list_note(&gone, l->runs[i].id);
	if (out && new.n + gone.n + changed.n)
		feed_list_event(out, &new, &gone, &changed,
				new.n > FEED_LIST_IDS || gone.n > FEED_LIST_IDS ||
					changed.n > FEED_LIST_IDS);
	feed_list_sweep(l);
}

struct feed_list *feed_list_new(char *const *roots)
{
	struct feed_list *l = xcalloc(1, sizeof(*l));

	feed_list_look(l, roots, NULL);
	return l;
}

void feed_list_free(struct feed_list *l)
{
	size_t i;

	for (i = 0; l && i < l->n; i++)
		free(l->runs[i].dir);
	if (l)
		free(l->runs);
	free(l);
}
