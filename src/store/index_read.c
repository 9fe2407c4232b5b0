/* SPDX-License-Identifier: Apache-2.0
 *
 * index_read.c - what the index keeps of a run, read from the run: its row, and each
 * metric's figures from the summary trees.
 */
#include "store/index.h"

#include "base/map.h"
#include "base/mem.h"
#include "store/folder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A series that is a candidate for the metric of its name. */
struct index_pick {
	struct store_ref ref;
	char *name, *unit;
	enum sink_kind kind;
	bool is_probe;
	struct store_standing standing;
};

struct index_picks {
	struct index_pick *v;
	size_t n, cap;
	struct map by_name;
	const char *only; /* NULL: all names */
};

static bool index_is_metric(const struct store_series *s)
{
	return s->kind == SINK_GAUGE || s->kind == SINK_COUNTER ||
	       (s->kind == SINK_SPAN && strcmp(s->name, "step") == 0);
}

static int index_pick(void *arg, const struct store_series *s)
{
	struct index_picks *x = arg;
	struct index_pick *p;
	uint64_t at;

	if (!index_is_metric(s) || (x->only && strcmp(x->only, s->name) != 0))
		return 0;
	if (map_get(&x->by_name, s->name, strlen(s->name), &at)) {
		p = &x->v[at];
		if (!store_standing_is_before(store_standing(s), p->standing))
			return 0;
		free(p->unit);
	} else {
		map_put(&x->by_name, s->name, strlen(s->name), x->n);
		x->v = xgrow(x->v, x->n, &x->cap, sizeof(*x->v));
		p = &x->v[x->n++];
		p->name = xstrdup(s->name);
	}
	p->ref = (struct store_ref){s->host, s->id};
	p->unit = xstrdup(s->unit);
	p->kind = s->kind;
	p->is_probe = strcmp(s->source, "probe") == 0;
	p->standing = store_standing(s);
	return 0;
}

/* What the program recorded comes before what was measured around it. */
static int index_order(const void *a, const void *b)
{
	const struct index_pick *x = a, *y = b;

	if (x->is_probe != y->is_probe)
		return x->is_probe ? 1 : -1;
	if (x->ref.host != y->ref.host)
		return x->ref.host < y->ref.host ? -1 : 1;
	return x->ref.series < y->ref.series ? -1 : x->ref.series > y->ref.series;
}

static void index_take_total(struct index_metric *m, const struct store_result *r)
{
	const struct store_bucket *b = r->buckets;

	m->last = m->min = m->max = NAN;
	m->step = SINK_STEP_NONE;
	if (r->n == 0)
		return;
	m->count = b->count;
	m->last = b->last;
	m->min = b->min;
	m->max = b->max;
	m->sum = b->sum;
	m->step = b->step_max;
}

static int index_totals(struct store_reader *reader, struct index_picks *x, size_t n,
			struct index_run *run, struct err *e)
{
	const struct store_query ask = {.points = 1, .no_raw = true};
	struct store_result *results = xcalloc(n, sizeof(*results));
	struct store_ref *refs = xcalloc(n, sizeof(*refs));
	size_t i;
	int r;

	for (i = 0; i < n; i++)
		refs[i] = x->v[i].ref;
	r = store_reader_query(reader, &ask, refs, n, e, NULL, results);
	run->metrics = xrealloc(run->metrics, run->n_metrics + n, sizeof(*run->metrics));
	for (i = 0; r == 0 && i < n; i++) {
		struct index_metric *m = &run->metrics[run->n_metrics++];

		*m = (struct index_metric){.kind = x->v[i].kind};
		m->name = xstrdup(x->v[i].name);
		m->unit = xstrdup(m->kind == SINK_SPAN ? "ns" : x->v[i].unit);
		index_take_total(m, &results[i]);
	}
	if (r == 0)
		store_results_free(results, n);
	free(results);
	free(refs);
	return r;
}

/* All metrics, or one; those beyond the limit are left out. */
static int index_metrics(struct store_reader *reader, const char *only, struct index_run *run,
			 struct err *e)
{
	struct index_picks x = {.only = only};
	size_t i, n;
	int r;

	map_init(&x.by_name);
	r = store_reader_series(reader, index_pick, &x, e);
	if (x.n)
		qsort(x.v, x.n, sizeof(*x.v), index_order);
	n = x.n > INDEX_METRICS_MAX ? INDEX_METRICS_MAX : x.n;
	if (!only)
		run->partial = n < x.n;
	if (r == 0 && n)
		r = index_totals(reader, &x, n, run, e);
	for (i = 0; i < x.n; i++) {
		free(x.v[i].name);
		free(x.v[i].unit);
	}
	free(x.v);
	map_done(&x.by_name);
	return r;
}

#define INDEX_TEXTS 10

static void index_texts(struct store_run *r, const char **ret[INDEX_TEXTS])
{
	const char **const texts[INDEX_TEXTS] = {&r->id,    &r->name,    &r->project, &r->command,
						 &r->cwd,   &r->user,    &r->tags,    &r->notes,
						 &r->hosts, &r->evidence};

	memcpy(ret, texts, sizeof(texts));
}

/* Replace run and warning; strings are copied. */
static void index_set(struct index_run *to, const struct store_run *from, const char *warning)
{
	const char **old[INDEX_TEXTS], **texts[INDEX_TEXTS];
	struct store_run run = *from;
	size_t i;

	index_texts(&to->run, old);
	index_texts(&run, texts);
	for (i = 0; i < INDEX_TEXTS; i++) {
		*texts[i] = xstrdup(*texts[i]);
		free((char *)*old[i]);
	}
	to->run = run;
	to->run.stderr_tail = "";
	free(to->warning);
	to->warning = xstrdup(warning);
}

static void index_blank(struct index_run *r, const char *id)
{
	static const struct store_run none = {.id = "",
					      .name = "",
					      .project = "",
					      .command = "",
					      .cwd = "",
					      .user = "",
					      .tags = "",
					      .notes = "",
					      .hosts = "",
					      .evidence = "",
					      .code = -1};

	*r = (struct index_run){.step = SINK_STEP_NONE};
	r->id = xstrdup(id);
	r->files = xstrdup("");
	index_set(r, &none, "");
}

/* The highest step: of the spans "step", else of the loss. */
static int64_t index_step(const struct index_run *r)
{
	static const char *const names[] = {"step", "loss", "train/loss"};
	size_t i, k;

	for (k = 0; k < ARRAY_LEN(names); k++)
		for (i = 0; i < r->n_metrics; i++)
			if (strcmp(r->metrics[i].name, names[k]) == 0 &&
			    (k || r->metrics[i].kind == SINK_SPAN))
				return r->metrics[i].step;
	return SINK_STEP_NONE;
}

void index_read(const char *dir, const char *id, struct index_run *ret)
{
	struct store_reader *reader = NULL;
	struct store_run run;
	struct err e = {0};
	int r;

	index_blank(ret, id);
	ret->bytes = folder_bytes(dir);
	r = store_reader_open(dir, &e, &reader);
	if (r == 0)
		r = store_reader_run(reader, &run, &e);
	if (r == 0)
		r = index_metrics(reader, NULL, ret, &e);
	if (r == 0) {
		index_set(ret, &run, store_reader_warning(reader));
		ret->step = index_step(ret);
	} else {
		ret->error = xstrdup(e.text);
	}
	store_reader_close(reader);
}

int index_read_metric(const char *dir, const char *name, struct index_run *run)
{
	struct store_reader *reader = NULL;
	struct err e = {0};
	int r = store_reader_open(dir, &e, &reader);

	if (r == 0)
		r = index_metrics(reader, name, run, &e);
	store_reader_close(reader);
	return r;
}
