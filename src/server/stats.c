/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c - see stats.h: totals come from summaries, percentiles from the points.
 */
#include "server/stats.h"

#include <errno.h>
#include <math.h>

#include "report/histquant.h"
#include "report/percentiles.h"
#include "server/ask.h"
#include "server/chart.h"

#define STATS_TRIES 3 /* of a run whose oldest points are being dropped */

/* Percentiles of one series. */
struct stats_spread {
	double values[HISTQUANT_COLUMNS];
	const char *how; /* how exact; NULL: they are not known */
};

/* ---- histograms ------------------------------------------------------------------------ */

struct stats_hists {
	struct histquant *sum;
	uint64_t n;
};

static int stats_hist(void *arg, const struct store_point *p)
{
	struct stats_hists *h = arg;

	if (p->hist)
		histquant_add(h->sum, p->hist);
	return ++h->n > STATS_HISTS_MAX ? -E2BIG : 0;
}

static int stats_of_hists(const struct runview *v, const struct store_series *s,
			  const struct store_range *range, struct err *e, struct stats_spread *ret)
{
	struct stats_hists hists = {.sum = histquant_new()};
	size_t i;
	int err = store_reader_points(v->reader, s->host, s->id, range, stats_hist, &hists, e);

	for (i = 0; !err && i < HISTQUANT_COLUMNS; i++)
		ret->values[i] = histquant_get(hists.sum, histquant_percents[i]);
	if (!err && !isnan(ret->values[0]))
		ret->how = "within 7%";
	histquant_free(hists.sum);
	return err == -E2BIG ? 0 : err;
}

/* ---- values ------------------------------------------------------------------------------ */

static bool stats_skip(void *arg, double min, double max, uint64_t n)
{
	return percentiles_skip(arg, min, max, n);
}

static void stats_take(void *arg, const double *values, size_t n, double min, double max)
{
	percentiles_add(arg, values, n, min, max);
}

/* 0; -ESTALE: points were dropped between two passes. */
static int stats_pass(struct store_values *values, struct percentiles *p, struct err *e)
{
	const struct store_values_to to = {stats_skip, stats_take, p};
	int err;

	do {
		err = store_values_pass(values, &to, e);
		if (!err)
			err = percentiles_next(p);
		else if (err > 0)
			err = -ESTALE;
	} while (err > 0);
	return err;
}

static int stats_try(const struct runview *v, const struct store_series *s,
		     const struct store_range *range, struct err *e, struct stats_spread *ret)
{
	const struct store_ref ref = {s->host, s->id};
	struct store_values *values;
	struct percentiles *p;
	size_t i, n_sample;
	double *sample;
	int err = store_values_open(v->reader, &ref, range, STATS_POINTS_MAX, e, &values);

	if (err)
		return err == -EFBIG ? 0 : err;
	p = percentiles_new(histquant_percents, HISTQUANT_COLUMNS, store_values_count(values));
	sample = store_values_sample(values, &n_sample);
	percentiles_guess(p, sample, n_sample);
	err = stats_pass(values, p, e);
	for (i = 0; !err && i < HISTQUANT_COLUMNS; i++)
		ret->values[i] = percentiles_get(p, i);
	if (!err && !isnan(ret->values[0]))
		ret->how = "exact";
	percentiles_free(p);
	store_values_close(values);
	return err;
}

static int stats_of_values(const struct runview *v, const struct store_series *s,
			   const struct store_range *range, struct err *e, struct stats_spread *ret)
{
	int tries = 0, err;

	do
		err = stats_try(v, s, range, e, ret);
	while (err == -ESTALE && ++tries < STATS_TRIES);
	return err == -ESTALE ? 0 : err;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void stats_put_spread(struct json *j, const struct stats_spread *s)
{
	static const char *const names[HISTQUANT_COLUMNS] = {"p50", "p95", "p99"};
	size_t i;

	for (i = 0; i < HISTQUANT_COLUMNS; i++)
		runview_json_number(j, names[i], s->values[i], s->how != NULL);
	json_kstr(j, "percentiles", s->how);
}

static void stats_put(struct json *j, const struct store_series *s, const struct runview_stat *st)
{
	uint64_t numbers = st->count - st->nan;

	json_kuint(j, "count", st->count);
	json_kuint(j, "nan", st->nan);
	json_kuint(j, "lost", s->lost);
	runview_json_number(j, "sum", st->sum, numbers > 0);
	runview_json_number(j, "mean", st->sum / (double)numbers, numbers > 0);
	runview_json_number(j, "min", st->min, numbers > 0);
	runview_json_step(j, "min_step", st->min_step);
	runview_json_number(j, "max", st->max, numbers > 0);
	runview_json_step(j, "max_step", st->max_step);
	runview_json_number(j, "last", st->last, st->count > 0 && s->kind != SINK_HISTOGRAM);
	runview_json_step(j, "last_step", st->last_step);
	runview_json_time(j, "first_time", st->first_ns);
	runview_json_time(j, "last_time", st->last_ns);
}

static int stats_one(struct json *j, const struct runview *v, const struct store_series *s,
		     const struct store_range *range, struct err *e)
{
	struct stats_spread spread = {0};
	struct runview_stat st;
	int err = runview_stat(v, s, range, &st, e);

	if (!err)
		err = (s->kind == SINK_HISTOGRAM ? stats_of_hists : stats_of_values)(v, s, range, e,
										     &spread);
	if (!err) {
		json_object(j);
		chart_series(j, v, s, NULL);
		stats_put(j, s, &st);
		stats_put_spread(j, &spread);
		json_object_end(j);
	}
	return err;
}

static void stats_write(const struct querydata *q, const struct ask *ask,
			const struct ask_series *series, struct http_reply *reply)
{
	struct err e = {0};
	struct json j;
	size_t i;
	int err = 0;

	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "run", q->v->run.id);
	chart_unmatched(&j, series->unmatched, series->n_unmatched);
	json_key(&j, "series");
	json_array(&j);
	for (i = 0; i < q->n && !err; i++)
		err = stats_one(&j, q->v, q->series[i].s, &ask->range, &e);
	if (err) {
		ask_failed(reply, &e);
		return;
	}
	json_array_end(&j);
	json_object_end(&j);
}

static bool stats_has_rates(const struct querydata *q, struct http_reply *reply)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		if (!q->series[i].rate)
			continue;
		reply_error(reply, 400, "bad-parameter",
			    "series: %.200s: a rate has no figures of its own; ask for the counter",
			    q->series[i].name);
		return true;
	}
	return false;
}

static void stats_ask(const struct route_ask *a, const struct runview *v, struct http_reply *reply)
{
	struct ask_series series;
	struct querydata q;
	struct ask ask;

	if (!ask_get(a, v, &ask, reply))
		return;
	querydata_init(&q, v);
	if (ask_choose(a, &q, &ask_lines, &series, reply) && !stats_has_rates(&q, reply) &&
	    server_heavy_begin(a->server, reply)) {
		stats_write(&q, &ask, &series, reply);
		server_heavy_end(a->server);
	}
	querydata_done(&q);
}

void stats_answer(const struct route_ask *a, struct http_reply *reply)
{
	ask_run(a, reply, stats_ask);
}
