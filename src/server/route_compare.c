/* SPDX-License-Identifier: Apache-2.0
 *
 * route_compare.c - routes: runs beside each other: medians of the steady part with intervals,
 * and what of configuration, environment and command differs.
 */
#include "server/routes.h"

#include "base/map.h"
#include "base/mem.h"
#include "server/ask.h"
#include "server/comparedata.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- runs ---------------------------------------------------------------------------- */

static void compare_run_json(struct json *j, const struct comparedata_run *r)
{
	const struct store_run *run = &r->run->v.run;
	char text[FMT_MAX];
	double duration = runview_duration_s(run);

	json_object(j);
	json_kstr(j, "id", r->run->id);
	json_kstr(j, "name", run->name);
	json_kstr(j, "project", run->project);
	json_kstr(j, "outcome", runview_outcome(text, run));
	runview_json_time(j, "start", run->start_ns);
	runview_json_number(j, "duration_s", duration, isfinite(duration));
	json_key(j, "steady");
	json_object(j);
	runview_json_step(j, "step_first",
			  r->steady.has_steps ? r->steady.step_first : SINK_STEP_NONE);
	runview_json_step(j, "step_last",
			  r->steady.has_steps ? r->steady.step_last : SINK_STEP_NONE);
	runview_json_time(j, "from", r->steady.from_ns);
	runview_json_time(j, "to", r->steady.to_ns == INT64_MAX ? 0 : r->steady.to_ns);
	json_object_end(j);
	json_object_end(j);
}

/* ---- metrics ------------------------------------------------------------------------- */

static void compare_value_json(struct json *j, const struct comparedata_value *v)
{
	char id[320];

	if (!v->series) {
		json_null(j);
		return;
	}
	json_object(j);
	snprintf(id, sizeof(id), "%s/%u", v->series->host_name, v->series->id);
	json_kstr(j, "series", id);
	runview_json_step(j, "rank", v->series->rank);
	json_kuint(j, "ranks", v->ranks);
	json_kuint(j, "n", v->n_all);
	json_kuint(j, "nan", v->nan);
	runview_json_known(j, "median", v->sum.median);
	runview_json_known(j, "mean", v->sum.mean);
	runview_json_known(j, "p5", v->sum.p5);
	runview_json_known(j, "p95", v->sum.p95);
	runview_json_known(j, "min", v->sum.min);
	runview_json_known(j, "max", v->sum.max);
	runview_json_known(j, "last", v->sum.last);
	json_kbool(j, "is_thinned", v->is_thinned);
	json_object_end(j);
}

static void compare_difference_json(struct json *j, const struct compare_result *r)
{
	json_object(j);
	runview_json_known(j, "absolute", r->difference);
	runview_json_known(j, "low", r->low);
	runview_json_known(j, "high", r->high);
	runview_json_known(j, "relative", r->relative);
	runview_json_known(j, "relative_low", r->relative_low);
	runview_json_known(j, "relative_high", r->relative_high);
	json_kstr(j, "verdict", compare_verdict_name(r->verdict));
	json_kstr(j, "why", r->why);
	json_kstr(j, "reason", compare_reason_name(r->reason));
	json_key(j, "in");
	json_array(j);
	json_bool(j, r->is_in[0]);
	json_bool(j, r->is_in[1]);
	json_array_end(j);
	json_key(j, "blocks");
	json_array(j);
	json_uint(j, r->block[0]);
	json_uint(j, r->block[1]);
	json_array_end(j);
	json_object_end(j);
}

static int compare_metric_json(struct json *j, const struct comparedata *d,
			       const struct comparedata_metric *m, struct compare_options *o,
			       struct err *e)
{
	struct comparedata_value values[COMPAREDATA_RUNS_MAX];
	struct compare_result result;
	size_t i;
	int err = comparedata_read(d, m, values, e);

	if (err)
		return err;
	o->direction = m->direction;
	json_object(j);
	json_kstr(j, "name", m->name);
	json_kstr(j, "labels", m->labels);
	json_kstr(j, "unit", m->unit);
	json_kstr(j, "kind", runview_kind(m->kind));
	json_kint(j, "direction", m->direction);
	json_kstr(j, "ranks", m->is_sum ? "sum" : "mean");
	json_key(j, "values");
	json_array(j);
	for (i = 0; i < d->n; i++)
		compare_value_json(j, &values[i]);
	json_array_end(j);
	json_key(j, "differences");
	json_array(j);
	for (i = 0; i < d->n; i++) {
		if (i == 0 || !values[0].series || !values[i].series ||
		    compare_medians(values[0].x, values[0].n, values[i].x, values[i].n, o,
				    &result) != 0)
			json_null(j);
		else
			compare_difference_json(j, &result);
	}
	json_array_end(j);
	json_object_end(j);
	comparedata_free(values, d->n);
	return 0;
}

/* ---- what differs -------------------------------------------------------------------- */

static const char *compare_group(const char *key)
{
	static const struct {
		const char *begin, *group;
	} rows[] = {
		{"config/", "config"},     {"env/", "environment"}, {"python/", "environment"},
		{"torch/", "environment"}, {"git/", "git"},         {"gpu/", "hardware"},
		{"cpu/", "hardware"},      {"host/", "hardware"},   {"memory/", "hardware"},
		{"os/", "hardware"},       {"disk/", "hardware"},   {"network/", "hardware"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (strncmp(key, rows[i].begin, strlen(rows[i].begin)) == 0)
			return rows[i].group;
	return "attribute";
}

/* Values are long texts at times. */
static void compare_text(struct json *j, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (!text || n <= COMPAREDATA_TEXT_MAX) {
		json_str(j, text);
		return;
	}
	for (n = COMPAREDATA_TEXT_MAX; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
		;
	json_strn(j, text, n);
}

static void compare_attributes(struct json *j, const struct comparedata *d)
{
	struct comparedata_attrs attrs;
	size_t i, k, same = 0;

	comparedata_attrs(d, &attrs);
	json_key(j, "attributes");
	json_array(j);
	for (i = 0; i < attrs.n; i++) {
		if (!comparedata_differs(attrs.list[i].values, d->n)) {
			same++;
			continue;
		}
		json_object(j);
		json_kstr(j, "key", attrs.list[i].key);
		json_kstr(j, "group", compare_group(attrs.list[i].key));
		json_key(j, "values");
		json_array(j);
		for (k = 0; k < d->n; k++)
			compare_text(j, attrs.list[i].values[k]);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
	json_kuint(j, "same", same);
	comparedata_attrs_done(&attrs, d->n);
}

static void compare_about(struct json *j, const struct comparedata *d)
{
	static const struct {
		const char *key;
		size_t at;
	} rows[] = {
		{"command", offsetof(struct store_run, command)},
		{"cwd", offsetof(struct store_run, cwd)},
		{"user", offsetof(struct store_run, user)},
		{"hosts", offsetof(struct store_run, hosts)},
		{"project", offsetof(struct store_run, project)},
		{"tags", offsetof(struct store_run, tags)},
	};
	char *values[COMPAREDATA_RUNS_MAX];
	size_t i, k;

	json_key(j, "about");
	json_array(j);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		for (k = 0; k < d->n; k++)
			memcpy(&values[k], (const char *)&d->runs[k].run->v.run + rows[i].at,
			       sizeof(values[k]));
		if (!comparedata_differs(values, d->n))
			continue;
		json_object(j);
		json_kstr(j, "key", rows[i].key);
		json_key(j, "values");
		json_array(j);
		for (k = 0; k < d->n; k++)
			compare_text(j, values[k]);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

/* ---- the document -------------------------------------------------------------------- */

static void compare_document(const struct route_ask *a, const struct comparedata *d,
			     struct http_reply *reply)
{
	struct compare_options o = {
		.confidence = (double)param_int(a, "confidence", 95) / 100,
		.tolerance = (double)param_int(a, "tolerance", 10) / 1000,
		.seed = 1,
	};
	struct err e = {0};
	struct json j;
	size_t i;

	reply_json(reply, &j);
	json_object(&j);
	json_key(&j, "runs");
	json_array(&j);
	for (i = 0; i < d->n; i++)
		compare_run_json(&j, &d->runs[i]);
	json_array_end(&j);
	json_kdouble(&j, "confidence", o.confidence);
	json_kdouble(&j, "tolerance", o.tolerance);
	json_key(&j, "metrics");
	json_array(&j);
	for (i = 0; i < d->n_metrics; i++)
		if (compare_metric_json(&j, d, &d->metrics[i], &o, &e) != 0) {
			ask_failed(reply, &e);
			return;
		}
	json_array_end(&j);
	compare_attributes(&j, d);
	compare_about(&j, d);
	json_object_end(&j);
}

/* Does the client have the answer of all these runs as they are now? */
static bool compare_is_known(const struct route_ask *a, const struct comparedata *d,
			     struct http_reply *reply)
{
	struct server_run all = {.version = d->n};
	size_t i;

	for (i = 0; i < d->n; i++)
		all.version = map_hash((const uint64_t[]){all.version, d->runs[i].run->version},
				       2 * sizeof(uint64_t));
	return ask_is_known(a, &all, reply);
}

static bool compare_choose(const struct route_ask *a, struct comparedata *d,
			   struct http_reply *reply)
{
	const char *patterns[COMPAREDATA_METRICS_MAX], *one;
	struct err e = {0};
	size_t n = 0;

	while ((one = param_nth(a, "metric", n))) {
		if (n == COMPAREDATA_METRICS_MAX) {
			reply_error(reply, 400, "bad-parameter",
				    "metric is there more than %u times.", COMPAREDATA_METRICS_MAX);
			return false;
		}
		patterns[n++] = one;
	}
	if (comparedata_choose(d, patterns, n, &e) == 0)
		return true;
	ask_failed(reply, &e);
	return false;
}

static void compare_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct comparedata d = {0};
	struct err e = {0};
	const char *id;
	bool good = true;
	size_t i;

	while (good && (id = param_nth(a, "run", d.n))) {
		if (d.n == COMPAREDATA_RUNS_MAX) {
			reply_error(reply, 400, "bad-parameter", "run is there more than %u times.",
				    COMPAREDATA_RUNS_MAX);
			good = false;
			break;
		}
		d.runs[d.n].run = server_take_run(a->server, id, reply);
		if (!d.runs[d.n].run) {
			good = false;
			break;
		}
		d.n++;
	}
	if (good && d.n < 2) {
		reply_error(reply, 400, "bad-parameter", "run must be there at least twice.");
		good = false;
	}
	for (i = 0; good && i < d.n; i++)
		if (stepread_steady(&d.runs[i].run->v, param_int(a, "from", -1),
				    param_int(a, "to", -1), &d.runs[i].steady, &e) != 0) {
			ask_failed(reply, &e);
			good = false;
		}
	if (good && !compare_is_known(a, &d, reply) && compare_choose(a, &d, reply) &&
	    server_heavy_begin(a->server, reply)) {
		compare_document(a, &d, reply);
		server_heavy_end(a->server);
	}
	comparedata_done(&d);
	for (i = 0; i < d.n; i++)
		server_give_run(a->server, d.runs[i].run);
}

static const struct param compare_params[] = {
	{.name = "run",
	 .hi = 256,
	 .is_many = true,
	 .is_needed = true,
	 .help = "Id of a run, 2 to 20 times; the others are compared with the first."},
	{.name = "metric",
	 .hi = 1024,
	 .is_many = true,
	 .help = "Name or pattern of series; default: up to 32 that the runs share."},
	{.name = "from",
	 .type = PARAM_INT,
	 .hi = INT64_MAX / 2,
	 .help = "First step; default: without the warm-up."},
	{.name = "to", .type = PARAM_INT, .hi = INT64_MAX / 2, .help = "Last step."},
	{.name = "confidence",
	 .type = PARAM_INT,
	 .lo = 50,
	 .hi = 99,
	 .help = "Of the intervals, in percent; default 95."},
	{.name = "tolerance",
	 .type = PARAM_INT,
	 .hi = 1000,
	 .help = "Smaller differences count as the same, in tenths of a percent; default 10."},
	{0},
};

const struct route route_compare[] = {
	{"GET", "/api/v1/compare", "Runs beside each other", compare_params, compare_answer},
	{0},
};
