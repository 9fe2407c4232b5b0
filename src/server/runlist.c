/* SPDX-License-Identifier: Apache-2.0 */
#include "server/runlist.h"

#include "base/map.h"
#include "base/mem.h"
#include "report/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNLIST_TERMS_MAX 32u
#define RUNLIST_FACETS 100u

/* ---- status ------------------------------------------------------------------------------ */

const char *runlist_status_of(const struct store_run *run)
{
	if (run->outcome == RUN_RUNNING)
		return "running";
	if (run->outcome == RUN_DETACHED || (run->outcome == RUN_EXITED && run->code <= 0))
		return "finished";
	return run->outcome == RUN_LOST ? "lost" : "failed";
}

const char *runlist_status(const struct index_run *r)
{
	return r->error ? "unreadable" : runlist_status_of(&r->run);
}

/* ---- which runs --------------------------------------------------------------------------- */

/* Does a word stand in one of the texts by which people remember a run? */
static bool runlist_has_word(const struct index_run *r, const char *word)
{
	const struct store_run *run = &r->run;
	const char *texts[] = {r->id,        run->name, run->project, run->tags,
			       run->command, run->user, run->hosts,   run->notes};
	size_t i;

	for (i = 0; i < (r->error ? 1 : ARRAY_LEN(texts)); i++)
		if (texts[i] && strcasestr(texts[i], word))
			return true;
	return false;
}

static bool runlist_has_words(const struct index_run *r, const char *words)
{
	char *copy, *word, *save = NULL;
	bool is = true;

	if (!words)
		return true;
	copy = xstrdup(words);
	for (word = strtok_r(copy, " ", &save); word && is; word = strtok_r(NULL, " ", &save))
		is = runlist_has_word(r, word);
	free(copy);
	return is;
}

/* What was asked, parsed. */
struct runlist_ask {
	const struct route_ask *a;
	const char *words, *project;
	struct pick_term terms[RUNLIST_TERMS_MAX];
	size_t n_terms;
};

static bool runlist_has_status(const struct runlist_ask *ask, const struct index_run *r)
{
	const char *status = runlist_status(r), *one;
	size_t i;

	for (i = 0; (one = param_nth(ask->a, "status", i)); i++)
		if (!strcmp(one, status))
			return true;
	return i == 0;
}

static bool runlist_has_tags(const struct runlist_ask *ask, const struct index_run *r)
{
	const char *tag;
	size_t i;

	for (i = 0; (tag = param_nth(ask->a, "tag", i)); i++)
		if (r->error || !tags_has(r->run.tags, tag))
			return false;
	return true;
}

static bool runlist_is_wanted(const struct runlist_ask *ask, struct index *x, size_t i)
{
	const struct index_run *r = index_get(x, i);
	size_t k;

	if (!runlist_has_status(ask, r) || !runlist_has_tags(ask, r) ||
	    (ask->project && (r->error || strcmp(r->run.project, ask->project))) ||
	    !runlist_has_words(r, ask->words))
		return false;
	for (k = 0; k < ask->n_terms; k++)
		if (!pick_is(x, i, &ask->terms[k]))
			return false;
	return true;
}

static bool runlist_parse(struct runlist_ask *ask, struct http_reply *reply)
{
	char why[256];
	const char *text;
	size_t i;

	ask->words = param_text(ask->a, "q");
	ask->project = param_text(ask->a, "project");
	for (i = 0; (text = param_nth(ask->a, "filter", i)); i++) {
		if (i == RUNLIST_TERMS_MAX) {
			reply_error(reply, 400, "bad-parameter", "filter may be there %u times.",
				    RUNLIST_TERMS_MAX);
			return false;
		}
		if (pick_term_parse(&ask->terms[i], text, why) < 0) {
			reply_error(reply, 400, "bad-parameter", "filter: %s.", why);
			return false;
		}
		ask->n_terms++;
	}
	return true;
}

/* ---- order --------------------------------------------------------------------------------- */

struct runlist_value {
	struct pick_place place; /* first */
	struct runlist_row row;
	char *text; /* owned: an index may read another run into its own */
};

/* What is sorted by what; "start" and "status" are not the index's names. */
static bool runlist_key(const char *by, struct pick_key *ret, struct http_reply *reply)
{
	static const char *const fields[] = {"id",       "name", "project", "user",
					     "duration", "step", "size"};
	static const char *const others[][2] = {{"start", "started"}, {"status", "outcome"}};
	size_t i;

	if (!strncmp(by, "metric:", 7) && by[7]) {
		pick_key_set(ret, by + 7);
		ret->field = NULL; /* also of a metric that is called as a field */
		return true;
	}
	for (i = 0; i < ARRAY_LEN(fields); i++)
		if (!strcmp(by, fields[i])) {
			pick_key_set(ret, by);
			return true;
		}
	for (i = 0; i < ARRAY_LEN(others); i++)
		if (!strcmp(by, others[i][0])) {
			pick_key_set(ret, others[i][1]);
			return true;
		}
	reply_error(reply, 400, "bad-parameter",
		    "sort is \"%.64s\"; it may be start, id, name, project, user, status, "
		    "duration, step, size or metric:NAME, with - in front for descending.",
		    by);
	return false;
}

static void runlist_value(struct runlist *l, size_t i, const struct pick_key *key, int sign,
			  struct runlist_value *ret)
{
	struct pick_value v;

	pick_get(l->x->of[l->rows[i].root], l->rows[i].run, key, &v);
	ret->row = l->rows[i];
	ret->text = v.text ? xstrdup(v.text) : NULL;
	v.text = ret->text;
	pick_place_set(&ret->place, &v, i, sign);
}

static bool runlist_sort(struct runlist *l, const char *by, struct http_reply *reply)
{
	struct runlist_value *values;
	bool falls = *by == '-';
	struct pick_key key;
	size_t i;

	if (!runlist_key(by + falls, &key, reply))
		return false;
	values = xcalloc(l->n, sizeof(*values));
	for (i = 0; i < l->n; i++)
		runlist_value(l, i, &key, falls ? -1 : 1, &values[i]);
	if (l->n)
		qsort(values, l->n, sizeof(*values), pick_place_compare);
	for (i = 0; i < l->n; i++) {
		l->rows[i] = values[i].row;
		free(values[i].text);
	}
	free(values);
	pick_key_done(&key);
	return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

bool runlist_choose(struct runlist *l, const struct route_ask *a, struct http_reply *reply)
{
	struct runlist_ask *ask = xcalloc(1, sizeof(*ask));
	const char *by = param_text(a, "sort");
	size_t root, i, k, cap = 0;
	bool is;

	ask->a = a;
	is = runlist_parse(ask, reply);
	for (root = 0; is && root < l->x->n; root++) {
		if (!l->x->of[root])
			continue;
		l->total += index_count(l->x->of[root]);
		/* The newest first: so are those that are equal. */
		for (i = index_count(l->x->of[root]); i-- > 0;) {
			if (!runlist_is_wanted(ask, l->x->of[root], i))
				continue;
			l->rows = xgrow(l->rows, l->n, &cap, sizeof(*l->rows));
			l->rows[l->n++] = (struct runlist_row){root, i};
		}
	}
	if (is)
		is = runlist_sort(l, by ? by : "-start", reply);
	for (k = 0; k < ask->n_terms; k++)
		pick_term_done(&ask->terms[k]);
	free(ask);
	return is;
}

void runlist_done(struct runlist *l)
{
	free(l->rows);
	*l = (struct runlist){0};
}

/* ---- facets -----------------------------------------------------------------------------------
 */

struct runlist_facet {
	char *value;
	uint64_t count;
};

struct runlist_facets {
	struct map at;
	struct runlist_facet *v;
	size_t n, cap;
};

static void runlist_count(struct runlist_facets *f, const char *value, size_t len)
{
	uint64_t at;

	if (!len)
		return;
	if (!map_get(&f->at, value, len, &at)) {
		at = f->n;
		map_put(&f->at, value, len, at);
		f->v = xgrow(f->v, f->n, &f->cap, sizeof(*f->v));
		f->v[f->n++] = (struct runlist_facet){xstrndup(value, len), 0};
	}
	f->v[at].count++;
}

static void runlist_count_tags(struct runlist_facets *f, const char *tags)
{
	size_t n;

	for (; *tags; tags += n + (tags[n] == ',')) {
		n = strcspn(tags, ",");
		runlist_count(f, tags, n);
	}
}

static int runlist_facet_order(const void *a, const void *b)
{
	const struct runlist_facet *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->value, y->value);
}

static void runlist_facet_json(struct runlist_facets *f, const char *name, struct json *j)
{
	size_t i;

	if (f->n)
		qsort(f->v, f->n, sizeof(*f->v), runlist_facet_order);
	json_key(j, name);
	json_array(j);
	for (i = 0; i < f->n; i++) {
		if (i < RUNLIST_FACETS) {
			json_object(j);
			json_kstr(j, "value", f->v[i].value);
			json_kuint(j, "count", f->v[i].count);
			json_object_end(j);
		}
		free(f->v[i].value);
	}
	json_array_end(j);
	free(f->v);
	map_done(&f->at);
}

void runlist_facets(const struct server_index *x, struct json *j)
{
	struct runlist_facets status = {0}, project = {0}, tag = {0};
	const struct index_run *r;
	size_t root, i;

	map_init(&status.at);
	map_init(&project.at);
	map_init(&tag.at);
	for (root = 0; root < x->n; root++) {
		for (i = 0; x->of[root] && i < index_count(x->of[root]); i++) {
			r = index_get(x->of[root], i);
			runlist_count(&status, runlist_status(r), strlen(runlist_status(r)));
			if (r->error)
				continue;
			runlist_count(&project, r->run.project, strlen(r->run.project));
			runlist_count_tags(&tag, r->run.tags);
		}
	}
	json_key(j, "facets");
	json_object(j);
	runlist_facet_json(&status, "status", j);
	runlist_facet_json(&project, "project", j);
	runlist_facet_json(&tag, "tag", j);
	json_object_end(j);
}
