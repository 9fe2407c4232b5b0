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
	{"sync", -1},
	{"", -1}, /* other phases, see comparedata_describe() */
	{"lapse/step/", 1},
	{"gpu/busy", 1},
	{"gpu/memory/used", 0},
	{"gpu/power", 0},
	{"gpu/tensor/active", 1},
	{"tree/rss", 0},
	{"tree/cpu", 0},
	{"cpu/busy", 0},
	{"memory/used", 0},
};

/* What each rank does of the run's whole: overview and report add it up. */
static bool comparedata_is_rate(const struct store_series *s)
{
	return strncmp(s->name, "throughput", strlen("throughput")) == 0 ||
	       strcmp(s->name, "lapse/step/samples") == 0 ||
	       strcmp(s->name, "lapse/step/tokens") == 0;
}

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
	m->is_sum = comparedata_is_rate(s);
	for (i = 0; i < ARRAY_LEN(comparedata_first); i++)
		if (comparedata_first[i].begin[0] ? strncmp(s->name, comparedata_first[i].begin,
							    strlen(comparedata_first[i].begin)) == 0
						  : s->kind == SINK_SPAN) {
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

static int comparedata_count(const struct comparedata_run *run, const struct store_series *s,
			     const struct store_range *range, uint64_t *ret, struct err *e)
{
	const struct store_ref ref = {s->host, s->id};
	const struct store_query ask = {.range = *range, .points = 1, .no_raw = true};
	struct store_result got;
	int err = store_reader_query(run->run->v.reader, &ask, &ref, 1, e, NULL, &got);

	if (err)
		return err;
	*ret = got.n ? got.buckets[0].count : 0;
	store_results_free(&got, 1);
	return 0;
}

static struct store_range comparedata_range(const struct comparedata_run *run)
{
	return (struct store_range){
		.by_time = true, .time_min = run->steady.from_ns, .time_max = run->steady.to_ns};
}

static int comparedata_one(const struct comparedata_run *run, struct comparedata_value *v,
			   struct err *e)
{
	const struct store_series *s = v->series;
	const struct store_range range = comparedata_range(run);
	struct comparedata_walk w = {.v = v, .kind = s->kind};
	uint64_t points;
	int err = comparedata_count(run, s, &range, &points, e);

	if (err)
		return err;
	w.every = (size_t)((points + COMPAREDATA_POINTS - 1) / COMPAREDATA_POINTS);
	w.every = w.every > 1 ? w.every : 1;
	v->is_thinned = w.every > 1;
	return store_reader_blocks(run->run->v.reader, s->host, s->id, &range, comparedata_block,
				   &w, e);
}

/* ---- several ranks ------------------------------------------------------------------- */

/* Values of ranks belong together by their step, without steps by their number; of more than
 * COMPAREDATA_POINTS steps some are one place. */
struct comparedata_fold {
	struct comparedata_value *v;
	enum sink_kind kind;
	bool by_step;
	int64_t first, width; /* of places; first: a step, or 0 */
	size_t n, at;         /* places; the one of the point before, n: none */
	double *one;          /* of a rank; NaN: none */
	double *sum;
	uint32_t *ranks;
	int64_t number; /* of the rank's next point */
	int64_t last_ns, end_ns;
	double amount; /* of a counter since last_ns, up to end_ns */
	bool has_last;
};

static void comparedata_fold_rate(struct comparedata_fold *f)
{
	if (f->at < f->n && f->end_ns > f->last_ns) {
		f->one[f->at] = f->amount / ((double)(f->end_ns - f->last_ns) / 1e9);
		f->amount = 0;
		f->last_ns = f->end_ns;
	}
}

static void comparedata_fold_point(struct comparedata_fold *f, size_t at, int64_t time_ns, double x)
{
	if (f->kind != SINK_COUNTER) {
		if (isnan(f->one[at]))
			f->one[at] = f->kind == SINK_SPAN ? x / 1e9 : x;
		return;
	}
	if (!f->has_last) {
		f->has_last = true;
		f->last_ns = f->end_ns = time_ns;
		return;
	}
	if (at != f->at)
		comparedata_fold_rate(f);
	f->at = at;
	f->amount += x;
	f->end_ns = time_ns;
}

static int comparedata_fold_block(void *arg, const struct store_block *b)
{
	struct comparedata_fold *f = arg;
	uint64_t place;
	int64_t at;
	size_t i;

	for (i = 0; i < b->n; i++) {
		f->v->n_all++;
		at = f->by_step ? b->step[i] : f->number++;
		if (isnan(b->value[i])) {
			f->v->nan++;
			continue;
		}
		/* Steps are any numbers: a distance needs all 64 bits. */
		place = ((uint64_t)at - (uint64_t)f->first) / (uint64_t)f->width;
		if (at < f->first || place >= f->n)
			continue;
		comparedata_fold_point(f, (size_t)place, b->time_ns[i], b->value[i]);
	}
	return 0;
}

static void comparedata_fold_begin(struct comparedata_fold *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		f->one[i] = NAN;
	f->number = 0;
}

static void comparedata_fold_end(struct comparedata_fold *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (!isnan(f->one[i])) {
			f->sum[i] += f->one[i];
			f->ranks[i]++;
		}
	f->v->ranks++;
}

/* A sum is only one of all ranks. */
static void comparedata_fold_take(struct comparedata_fold *f, bool is_sum)
{
	struct comparedata_value *v = f->v;
	size_t i;

	v->x = xcalloc(f->n + 1, sizeof(*v->x));
	for (i = 0; i < f->n; i++)
		if (f->ranks[i] > 0 && (!is_sum || f->ranks[i] == v->ranks))
			v->x[v->n++] = is_sum ? f->sum[i] : f->sum[i] / f->ranks[i];
}

static int comparedata_has_step(void *arg, const struct store_block *b)
{
	bool *ret = arg;
	size_t i;

	for (i = 0; i < b->n; i++)
		*ret |= b->step[i] != SINK_STEP_NONE;
	return 0;
}

static int comparedata_places(const struct comparedata_run *run, const struct store_range *range,
			      struct comparedata_fold *f, struct err *e)
{
	const struct stepread_steady *steady = &run->steady;
	const struct store_series *s = f->v->series;
	uint64_t all;
	int err = comparedata_count(run, s, range, &all, e);

	if (!err)
		err = store_reader_blocks(run->run->v.reader, s->host, s->id, range,
					  comparedata_has_step, &f->by_step, e);
	if (err)
		return err;
	f->by_step = f->by_step && steady->has_steps;
	if (f->by_step) {
		f->first = steady->step_first;
		all = (uint64_t)steady->step_last - (uint64_t)steady->step_first + 1;
	}
	f->width = (int64_t)(all / COMPAREDATA_POINTS) + 1;
	f->n = (size_t)(all / (uint64_t)f->width) + 1;
	f->at = f->n;
	f->v->is_thinned = f->width > 1;
	f->one = xcalloc(f->n, sizeof(*f->one));
	f->sum = xcalloc(f->n, sizeof(*f->sum));
	f->ranks = xcalloc(f->n, sizeof(*f->ranks));
	return 0;
}

/* s: in the order of ranks; those of one rank are its attempts. */
static int comparedata_many(const struct comparedata_run *run, const struct comparedata_metric *m,
			    const struct store_series *const *s, size_t n,
			    struct comparedata_value *v, struct err *e)
{
	const struct store_range range = comparedata_range(run);
	struct comparedata_fold f = {.v = v, .kind = m->kind};
	int err = comparedata_places(run, &range, &f, e);
	size_t i;

	for (i = 0; i < n && !err; i++) {
		if (i == 0 || s[i]->rank != s[i - 1]->rank || s[i]->host != s[i - 1]->host)
			comparedata_fold_begin(&f);
		f.has_last = false;
		f.amount = 0;
		f.at = f.n;
		err = store_reader_blocks(run->run->v.reader, s[i]->host, s[i]->id, &range,
					  comparedata_fold_block, &f, e);
		comparedata_fold_rate(&f);
		if (i + 1 == n || s[i]->rank != s[i + 1]->rank || s[i]->host != s[i + 1]->host)
			comparedata_fold_end(&f);
	}
	if (!err)
		comparedata_fold_take(&f, m->is_sum);
	free(f.one);
	free(f.sum);
	free(f.ranks);
	return err;
}

static int comparedata_by_rank(const void *a, const void *b)
{
	const struct store_series *x = *(const struct store_series *const *)a;
	const struct store_series *y = *(const struct store_series *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static int comparedata_run_read(const struct comparedata_run *run,
				const struct comparedata_metric *m, struct comparedata_value *v,
				struct err *e)
{
	const struct runview *view = &run->run->v;
	const struct store_series **s = xcalloc(view->n_series + 1, sizeof(*s));
	size_t i, n = 0;
	int err = 0;

	for (i = 0; i < view->n_series; i++)
		if (comparedata_can(&view->series[i]) && comparedata_same(&view->series[i], m))
			s[n++] = &view->series[i];
	if (n > 0) {
		qsort(s, n, sizeof(*s), comparedata_by_rank);
		v->series = s[0];
		v->ranks = n == 1;
		err = n == 1 ? comparedata_one(run, v, e) : comparedata_many(run, m, s, n, v, e);
		/* It may have grown in between. */
		v->n = compare_thin(v->x, v->n, COMPARE_POINTS_MAX);
		if (!err && compare_describe(v->x, v->n, &v->sum) != 0)
			err = err_set(e, -ENOMEM, "not enough memory");
	}
	free(s);
	return err;
}

int comparedata_read(const struct comparedata *d, const struct comparedata_metric *m,
		     struct comparedata_value *values, struct err *e)
{
	size_t i;
	int err = 0;

	memset(values, 0, d->n * sizeof(*values));
	for (i = 0; i < d->n && !err; i++)
		err = comparedata_run_read(&d->runs[i], m, &values[i], e);
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
