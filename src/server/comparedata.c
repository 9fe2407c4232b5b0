/* SPDX-License-Identifier: Apache-2.0 */
#include "server/comparedata.h"

#include "base/map.h"
#include "base/mem.h"
#include "report/pick.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which metrics ------------------------------------------------------------------- */

/* What people look at first, by the begin of the name. */
static const struct {
	const char *begin;
	int direction;
} comparedata_first[] = {
	{"step", -1},
	{"throughput", 1},
	{"loss", -1},
	{"train/loss", -1},
	{"val/loss", -1},
	{"data", -1},
	{"forward", -1},
	{"backward", -1},
	{"optimizer", -1},
	{"gpu/busy", 1},
	{"gpu/memory/used", 0},
	{"gpu/power", 0},
	{"gpu/tensor/active", 1},
	{"tree/rss", 0},
	{"tree/cpu", 0},
	{"cpu/busy", 0},
	{"memory/used", 0},
};

static void comparedata_describe(struct comparedata_metric *m, const struct store_series *s)
{
	size_t i;

	*m = (struct comparedata_metric){.name = s->name, .labels = s->labels, .kind = s->kind};
	if (s->kind == SINK_SPAN)
		snprintf(m->unit, sizeof(m->unit), "s");
	else
		snprintf(m->unit, sizeof(m->unit), "%s%s", s->unit,
			 s->kind == SINK_COUNTER ? "/s" : "");
	m->direction = s->kind == SINK_SPAN ? -1 : pick_direction(s->name);
	m->order = (int)ARRAY_LEN(comparedata_first) + (m->direction == 0);
	for (i = 0; i < ARRAY_LEN(comparedata_first); i++)
		if (strncmp(s->name, comparedata_first[i].begin,
			    strlen(comparedata_first[i].begin)) == 0) {
			m->order = (int)i;
			m->direction = comparedata_first[i].direction;
			break;
		}
}

static bool comparedata_can(const struct store_series *s)
{
	return s->count > 0 && s->kind != SINK_HISTOGRAM && strcmp(s->name, "epoch") != 0;
}

static bool comparedata_same(const struct store_series *s, const struct comparedata_metric *m)
{
	return s->kind == m->kind && strcmp(s->name, m->name) == 0 &&
	       strcmp(s->labels, m->labels) == 0;
}

static const struct store_series *comparedata_find(const struct runview *v,
						   const struct comparedata_metric *m)
{
	const struct store_series *best = NULL;
	size_t i;

	for (i = 0; i < v->n_series; i++)
		if (comparedata_can(&v->series[i]) && comparedata_same(&v->series[i], m) &&
		    (!best || v->series[i].rank < best->rank))
			best = &v->series[i];
	return best;
}

struct comparedata_wish {
	struct store_match **matches;
	size_t n;
	struct map others; /* keys of series of the runs behind the first */
};

static char *comparedata_key(const struct store_series *s)
{
	return xasprintf("%d %s{%s}", (int)s->kind, s->name, s->labels);
}

static void comparedata_note_others(const struct comparedata *d, struct comparedata_wish *w)
{
	size_t run, i;
	char *key;

	for (run = 1; run < d->n && w->n == 0; run++)
		for (i = 0; i < d->runs[run].run->v.n_series; i++) {
			if (!comparedata_can(&d->runs[run].run->v.series[i]))
				continue;
			key = comparedata_key(&d->runs[run].run->v.series[i]);
			map_put(&w->others, key, strlen(key), 1);
			free(key);
		}
}

static bool comparedata_wanted(const struct comparedata *d, size_t run, size_t i,
			       const struct comparedata_wish *w)
{
	const struct store_series *s = &d->runs[run].run->v.series[i];
	struct comparedata_metric m;
	uint64_t is;
	char *key;
	bool has;
	size_t k;

	if (!comparedata_can(s))
		return false;
	for (k = 0; k < w->n; k++)
		if (store_match_is(w->matches[k], s))
			return true;
	if (w->n > 0 || run > 0)
		return false;
	comparedata_describe(&m, s);
	if (m.order > (int)ARRAY_LEN(comparedata_first) && strcmp(s->source, "record") != 0)
		return false; /* one of the many readings of the machine */
	key = comparedata_key(s);
	has = map_get(&w->others, key, strlen(key), &is);
	free(key);
	return has;
}

static int comparedata_order(const void *a, const void *b)
{
	const struct comparedata_metric *x = a, *y = b;
	int order;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->labels, y->labels);
}

/* All that are wanted, each once, in their order. */
static void comparedata_collect(struct comparedata *d, const struct comparedata_wish *w)
{
	struct map seen;
	size_t run, i, cap = 0;
	uint64_t before;
	char *key;

	map_init(&seen);
	for (run = 0; run < d->n; run++)
		for (i = 0; i < d->runs[run].run->v.n_series; i++) {
			const struct store_series *s = &d->runs[run].run->v.series[i];

			if (!comparedata_wanted(d, run, i, w))
				continue;
			key = comparedata_key(s);
			if (!map_get(&seen, key, strlen(key), &before)) {
				map_put(&seen, key, strlen(key), 1);
				d->metrics =
					xgrow(d->metrics, d->n_metrics, &cap, sizeof(*d->metrics));
				comparedata_describe(&d->metrics[d->n_metrics++], s);
			}
			free(key);
		}
	map_done(&seen);
	if (d->n_metrics > 0)
		qsort(d->metrics, d->n_metrics, sizeof(*d->metrics), comparedata_order);
}

int comparedata_choose(struct comparedata *d, const char *const *patterns, size_t n, struct err *e)
{
	struct comparedata_wish w = {.matches = xcalloc(n + 1, sizeof(*w.matches))};
	int err = 0;

	for (; w.n < n && !err; w.n += !err)
		err = store_match_new(patterns[w.n], e, &w.matches[w.n]);
	map_init(&w.others);
	if (!err) {
		comparedata_note_others(d, &w);
		comparedata_collect(d, &w);
	}
	map_done(&w.others);
	if (!err && n > 0 && d->n_metrics == 0)
		err = err_set(e, -ENOENT, "none of these runs has a series that matches %.100s",
			      patterns[0]);
	if (!err && n > 0 && d->n_metrics > COMPAREDATA_METRICS_MAX)
		err = err_set(e, -EINVAL, "metric matches %zu series; at most %u are compared",
			      d->n_metrics, COMPAREDATA_METRICS_MAX);
	if (n == 0 && d->n_metrics > COMPAREDATA_METRICS)
		d->n_metrics = COMPAREDATA_METRICS;
	while (w.n > 0)
		store_match_free(w.matches[--w.n]);
	free(w.matches);
	return err;
}

void comparedata_done(struct comparedata *d)
{
	free(d->metrics);
	d->metrics = NULL;
	d->n_metrics = 0;
}

/* ---- values -------------------------------------------------------------------------- */

struct comparedata_walk {
	struct comparedata_value *v;
	size_t every, phase, cap;
	enum sink_kind kind;
	int64_t last_ns; /* of a counter: of the point before what is being summed up */
	double amount;
	bool has_last;
};

static void comparedata_keep(struct comparedata_walk *w, double x)
{
	w->v->x = xgrow(w->v->x, w->v->n, &w->cap, sizeof(*w->v->x));
	w->v->x[w->v->n++] = x;
}

/* A counter has what was added since the point before: a rate needs its time. */
static void comparedata_added(struct comparedata_walk *w, int64_t time_ns, double amount)
{
	if (!w->has_last) {
		w->has_last = true;
		w->last_ns = time_ns;
		return;
	}
	w->amount += amount;
	if (++w->phase < w->every || time_ns <= w->last_ns)
		return;
	comparedata_keep(w, w->amount / ((double)(time_ns - w->last_ns) / 1e9));
	w->amount = 0;
	w->phase = 0;
	w->last_ns = time_ns;
}

static int comparedata_block(void *arg, const struct store_block *b)
{
	struct comparedata_walk *w = arg;
	size_t i;

	for (i = 0; i < b->n; i++) {
		w->v->n_all++;
		if (isnan(b->value[i])) {
			w->v->nan++;
			continue;
		}
		if (w->kind == SINK_COUNTER) {
			comparedata_added(w, b->time_ns[i], b->value[i]);
			continue;
		}
		if (w->phase++ % w->every == 0)
			comparedata_keep(w, w->kind == SINK_SPAN ? b->value[i] / 1e9 : b->value[i]);
	}
	return 0;
}

static int comparedata_one(const struct comparedata_run *run, struct comparedata_value *v,
			   struct err *e)
{
	const struct store_series *s = v->series;
	const struct store_ref ref = {s->host, s->id};
	struct store_query ask = {.points = 1, .no_raw = true};
	struct comparedata_walk w = {.v = v, .kind = s->kind};
	struct store_result got;
	uint64_t points;
	int err;

	ask.range = (struct store_range){
		.by_time = true, .time_min = run->steady.from_ns, .time_max = run->steady.to_ns};
	err = store_reader_query(run->run->v.reader, &ask, &ref, 1, e, NULL, &got);
	if (err)
		return err;
	points = got.n ? got.buckets[0].count : 0;
	store_results_free(&got, 1);
	w.every = (size_t)((points + COMPAREDATA_POINTS - 1) / COMPAREDATA_POINTS);
	w.every = w.every > 1 ? w.every : 1;
	v->is_thinned = w.every > 1;
	err = store_reader_blocks(run->run->v.reader, s->host, s->id, &ask.range, comparedata_block,
				  &w, e);
	/* It may have grown in between. */
	v->n = compare_thin(v->x, v->n, COMPARE_POINTS_MAX);
	if (!err && compare_describe(v->x, v->n, &v->sum) != 0)
		err = err_set(e, -ENOMEM, "not enough memory");
	return err;
}

int comparedata_read(const struct comparedata *d, const struct comparedata_metric *m,
		     struct comparedata_value *values, struct err *e)
{
	size_t i;
	int err = 0;

	memset(values, 0, d->n * sizeof(*values));
	for (i = 0; i < d->n && !err; i++) {
		values[i].series = comparedata_find(&d->runs[i].run->v, m);
		if (values[i].series)
			err = comparedata_one(&d->runs[i], &values[i], e);
	}
	if (err)
		comparedata_free(values, d->n);
	return err;
}

void comparedata_free(struct comparedata_value *values, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(values[i].x);
}

/* ---- attributes ---------------------------------------------------------------------- */

struct comparedata_take {
	struct comparedata_attrs *attrs;
	struct map places;
	size_t run;
};

static int comparedata_attr(void *arg, unsigned host, uint32_t process, const char *key,
			    const char *value)
{
	struct comparedata_take *t = arg;
	struct comparedata_attr *a;
	uint64_t at;

	(void)host;
	(void)process;
	if (strncmp(key, "alert.", 6) == 0)
		return 0; /* what the agent keeps there for itself */
	if (!map_get(&t->places, key, strlen(key), &at)) {
		t->attrs->list =
			xgrow(t->attrs->list, t->attrs->n, &t->attrs->cap, sizeof(*t->attrs->list));
		at = t->attrs->n++;
		t->attrs->list[at] = (struct comparedata_attr){.key = xstrdup(key)};
		map_put(&t->places, key, strlen(key), at);
	}
	a = &t->attrs->list[at];
	if (!a->values[t->run])
		a->values[t->run] = xstrdup(value);
	return 0;
}

static int comparedata_by_key(const void *a, const void *b)
{
	return strcmp(((const struct comparedata_attr *)a)->key,
		      ((const struct comparedata_attr *)b)->key);
}

void comparedata_attrs(const struct comparedata *d, struct comparedata_attrs *ret)
{
	struct comparedata_take t = {.attrs = ret};
	struct err e = {0};

	*ret = (struct comparedata_attrs){0};
	map_init(&t.places);
	/* A file that cannot be read has none; the runs' own routes tell of it. */
	for (t.run = 0; t.run < d->n; t.run++)
		store_reader_attrs(d->runs[t.run].run->v.reader, comparedata_attr, &t, &e);
	map_done(&t.places);
	if (ret->n > 0)
		qsort(ret->list, ret->n, sizeof(*ret->list), comparedata_by_key);
}

void comparedata_attrs_done(struct comparedata_attrs *a, size_t n_runs)
{
	size_t i, k;

	for (i = 0; i < a->n; i++) {
		free(a->list[i].key);
		for (k = 0; k < n_runs; k++)
			free(a->list[i].values[k]);
	}
	free(a->list);
	*a = (struct comparedata_attrs){0};
}

bool comparedata_differs(char *const *values, size_t n)
{
	size_t i;

	for (i = 1; i < n; i++)
		if (!values[0] != !values[i] || (values[0] && strcmp(values[0], values[i]) != 0))
			return true;
	return false;
}
