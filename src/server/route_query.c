/* SPDX-License-Identifier: Apache-2.0
 *
 * route_query.c - routes: which series a run has, and their values as columns.
 */
#include "server/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "server/ask.h"
#include "server/chart.h"
#include "server/stats.h"

#define QUERY_POINTS 1000
#define QUERY_POINTS_MAX 8192
#define QUERY_LIST_MAX 65536
#define QUERY_BUCKETS_MAX (ASK_SERIES_MAX * QUERY_POINTS_MAX) /* held at once */

/* ---- series --------------------------------------------------------------------------- */

static void query_list_one(struct json *j, const struct runview *v, const struct store_series *s)
{
	json_object(j);
	chart_series(j, v, s, NULL);
	json_kstr(j, "help", s->help);
	json_kstr(j, "source", s->source);
	json_kuint(j, "count", s->count);
	json_kuint(j, "lost", s->lost);
	json_object_end(j);
}

/* The patterns, parsed. NULL: one is none, the reply says so. */
static struct store_match **query_matches(const struct route_ask *a, size_t *ret_n,
					  struct http_reply *reply)
{
	struct store_match **all = xcalloc(HTTP_PARAMS_MAX, sizeof(struct store_match *));
	struct err e = {0};
	const char *text;
	size_t n = 0;

	while (n < HTTP_PARAMS_MAX && (text = param_nth(a, "match", n)) != NULL) {
		if (store_match_new(text, &e, &all[n]) < 0) {
			reply_error(reply, 400, "bad-parameter", "match: %s", e.text);
			while (n)
				store_match_free(all[--n]);
			free(all);
			return NULL;
		}
		n++;
	}
	*ret_n = n;
	return all;
}

static bool query_is_wanted(const struct store_series *s, struct store_match *const *all, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (store_match_is(all[i], s) &&
		    (!store_match_is_rate(all[i]) || s->kind == SINK_COUNTER))
			return true;
	return n == 0;
}

static void query_list(const struct route_ask *a, const struct runview *v, struct http_reply *reply)
{
	int64_t limit = param_int(a, "limit", QUERY_LIST_MAX);
	struct store_match **all;
	size_t n = 0, i, total = 0;
	struct json j;

	all = query_matches(a, &n, reply);
	if (!all)
		return;
	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "run", v->run.id);
	json_key(&j, "series");
	json_array(&j);
	for (i = 0; i < v->n_series; i++) {
		if (!query_is_wanted(&v->series[i], all, n))
			continue;
		if ((int64_t)total++ < limit)
			query_list_one(&j, v, &v->series[i]);
	}
	json_array_end(&j);
	json_kuint(&j, "total", total);
	json_object_end(&j);
	for (i = 0; i < n; i++)
		store_match_free(all[i]);
	free(all);
}

static void query_series_answer(const struct route_ask *a, struct http_reply *reply)
{
	ask_run(a, reply, query_list);
}

/* ---- values --------------------------------------------------------------------------- */

static void query_write(const struct route_ask *a, const struct chart *c, struct http_reply *reply)
{
	const char *format = param_text(a, "format");
	struct json j;

	if (format && strcmp(format, "binary") == 0) {
		reply->type = CHART_TYPE;
		reply->body.max = ROUTE_JSON_MAX;
		chart_binary(&reply->body, c);
	} else {
		reply_json(reply, &j);
		chart_json(&j, c);
	}
	if (reply->body.error)
		reply_error(reply, 413, "too-large",
			    "The answer is larger than %u MiB; ask for fewer points or series.",
			    ROUTE_JSON_MAX >> 20);
}

static void query_also(const struct route_ask *a, struct chart *c)
{
	const char *word;
	size_t i;

	for (i = 0; (word = param_nth(a, "also", i)) != NULL; i++) {
		c->place = c->place || strcmp(word, "place") == 0;
		c->segment = c->segment || strcmp(word, "segment") == 0;
	}
}

static void query_read(const struct route_ask *a, struct querydata *q, const struct ask *ask,
		       const struct ask_series *series, struct http_reply *reply)
{
	struct chart c = {.q = q,
			  .ask = ask,
			  .unmatched = series->unmatched,
			  .n_unmatched = series->n_unmatched};
	struct err e = {0};

	query_also(a, &c);
	if (q->n == 0) { /* optional: none of them is there */
		query_write(a, &c, reply);
		return;
	}
	if (!server_heavy_begin(a->server, reply))
		return;
	if (querydata_ask(q, false, &e) < 0 || chart_prepare(&c, &e) < 0)
		ask_failed(reply, &e);
	else
		query_write(a, &c, reply);
	server_heavy_end(a->server);
	chart_done(&c);
}

/* Lines of the answer are few, what they are made of may be more; all of it is held at once, so
 * of many series there are fewer buckets each. false: the reply says why not. */
static bool query_group(struct querydata *q, const char *labels, struct http_reply *reply)
{
	size_t most = QUERY_BUCKETS_MAX / (q->n ? q->n : 1);

	querydata_group(q, strcmp(labels, "none") == 0 ? "" : labels);
	if (q->ask.points > most)
		q->ask.points = (unsigned)most;
	if (q->n_groups <= ASK_SERIES_MAX)
		return true;
	reply_error(reply, 400, "too-many-series",
		    "%zu series make %zu groups, at most %u can be asked for at once (of at most "
		    "%u series in all): group by fewer labels, narrow the patterns, or ask in "
		    "parts",
		    q->n, q->n_groups, ASK_SERIES_MAX, ASK_MEMBERS_MAX);
	return false;
}

static void query_ask(const struct route_ask *a, const struct runview *v, struct http_reply *reply)
{
	static const struct ask_limit lines = {
		ASK_SERIES_MAX, "narrow the patterns, ask in parts, or give group (then at most "
				"4096 series in at most 128 groups)"};
	static const struct ask_limit members = {
		ASK_MEMBERS_MAX, "in at most 128 groups; narrow the patterns, or ask in parts"};
	const char *group = param_text(a, "group");
	struct ask_series series;
	struct querydata q;
	struct ask ask;

	if (!ask_get(a, v, &ask, reply))
		return;
	querydata_init(&q, v);
	q.ask.range = ask.range;
	q.ask.axis = ask.axis == ASK_STEP ? STORE_BY_STEP : STORE_BY_TIME;
	q.ask.points = (unsigned)param_int(a, "points", QUERY_POINTS);
	q.ask.aligned = q.ask.no_raw = param_flag(a, "grid");
	if (ask_choose(a, &q, group ? &members : &lines, &series, reply) &&
	    (!group || query_group(&q, group, reply)))
		query_read(a, &q, &ask, &series, reply);
	querydata_done(&q);
}

static void query_answer(const struct route_ask *a, struct http_reply *reply)
{
	ask_run(a, reply, query_ask);
}

static const struct param query_series_params[] = {
	{.name = "match",
	 .hi = 8192,
	 .is_many = true,
	 .help = "Pattern of series, NAME{LABEL=VALUE,...}; default all."},
	{.name = "limit",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = QUERY_LIST_MAX,
	 .help = "At most so many; default 65536."},
	{0},
};

static const struct param query_params[] = {
	ASK_PARAMS_SERIES("at most 128 series in all, with group 4096."),
	ASK_PARAM_AXIS,
	ASK_PARAMS_RANGE,
	{.name = "points",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = QUERY_POINTS_MAX,
	 .help = "Buckets wanted of each series; default 1000; of groups at most 1048576 of "
		 "all their series together."},
	{.name = "optional",
	 .type = PARAM_FLAG,
	 .help = "1: if nothing matches the answer has no series, instead of 404."},
	{.name = "grid",
	 .type = PARAM_FLAG,
	 .help = "1: the same buckets for all series, empty ones included; default 0."},
	{.name = "group",
	 .lo = 1,
	 .help = "Labels, comma-separated, or none: minimum, mean and maximum over the series "
		 "that have them in common, at most 128 groups; default: each series for "
		 "itself."},
	{.name = "also",
	 .type = PARAM_CHOICE,
	 .choices = "place|segment",
	 .is_many = true,
	 .help = "More columns: time and step of a bucket's last point, its segment."},
	{.name = "format",
	 .type = PARAM_CHOICE,
	 .choices = "json|binary",
	 .help = "json (default) or binary (" CHART_TYPE ")."},
	{0},
};

static const struct param query_stats_params[] = {
	ASK_PARAMS_SERIES("at most 128 series in all."),
	ASK_PARAM_AXIS,
	ASK_PARAMS_RANGE,
	{0},
};

const struct route route_query[] = {
	{"GET", "/api/v1/runs/{run}/series", "Series of a run", query_series_params,
	 query_series_answer},
	{"GET", "/api/v1/runs/{run}/query", "Values of series, as buckets or points", query_params,
	 query_answer},
	{"GET", "/api/v1/runs/{run}/stats", "Figures of series over a range", query_stats_params,
	 stats_answer},
	{0},
};
