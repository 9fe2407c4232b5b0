/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c - see stats.h: totals come from summaries, percentiles from the points.
 */
#include "server/stats.h"

#include <errno.h>
#include <math.h>

#include "report/histquant.h"
#include "report/sketch.h"
#include "server/ask.h"
#include "server/chart.h"

/* Percentiles of one series. */
struct stats_spread {
	struct sketch sketch;
	struct histquant *hist;
	uint64_t n; /* points with a histogram */
};

static int stats_block(void *arg, const struct store_block *b)
{
	struct stats_spread *s = arg;

	sketch_add(&s->sketch, b->value, b->n);
	return 0;
}

static int stats_hist(void *arg, const struct store_point *p)
{
	struct stats_spread *s = arg;

	if (p->hist)
		histquant_add(s->hist, p->hist);
	return ++s->n > STATS_POINTS_MAX ? -E2BIG : 0;
}

/* Of `count` points in the range. 0 or -errno and *e; *ret: how exact, NULL: they are not
 * known. */
static int stats_read_spread(const struct runview *v, const struct store_series *s,
			     const struct store_range *range, uint64_t count,
			     struct stats_spread *to, struct err *e, const char **ret)
{
	int err;

	*ret = NULL;
	if (s->kind != SINK_HISTOGRAM && count > STATS_POINTS_MAX)
		return 0;
	if (s->kind == SINK_HISTOGRAM) {
		to->hist = histquant_new();
		err = store_reader_points(v->reader, s->host, s->id, range, stats_hist, to, e);
		if (err == -E2BIG)
			return 0;
		*ret = isnan(histquant_get(to->hist, 50)) ? NULL : "within 7%";
		return err;
	}
	err = store_reader_blocks(v->reader, s->host, s->id, range, stats_block, to, e);
	if (to->sketch.count)
		*ret = sketch_is_exact(&to->sketch) ? "exact" : "within 0.4%";
	return err;
}

static void stats_put_spread(struct json *j, struct stats_spread *s, const char *how)
{
	static const char *const names[HISTQUANT_COLUMNS] = {"p50", "p95", "p99"};
	size_t i;

	for (i = 0; i < HISTQUANT_COLUMNS; i++)
		runview_json_number(j, names[i],
				    !how      ? 0
				    : s->hist ? histquant_get(s->hist, histquant_percents[i])
					      : sketch_get(&s->sketch, histquant_percents[i]),
				    how != NULL);
	json_kstr(j, "percentiles", how);
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
	const char *how = NULL;
	int err = runview_stat(v, s, range, &st, e);

	if (!err)
		err = stats_read_spread(v, s, range, st.count, &spread, e, &how);
	if (!err) {
		json_object(j);
		chart_series(j, v, s, NULL);
		stats_put(j, s, &st);
		stats_put_spread(j, &spread, how);
		json_object_end(j);
	}
	sketch_done(&spread.sketch);
	histquant_free(spread.hist);
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
	if (ask_choose(a, &q, ASK_SERIES_MAX, &series, reply) && !stats_has_rates(&q, reply) &&
	    server_heavy_begin(a->server, reply)) {
		stats_write(&q, &ask, &series, reply);
		server_heavy_end(a->server);
	}
	querydata_done(&q);
}

void stats_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);

	if (!run)
		return;
	if (!ask_is_known(a, run, reply))
		stats_ask(a, &run->v, reply);
	server_give_run(a->server, run);
}
