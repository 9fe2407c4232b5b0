/* SPDX-License-Identifier: Apache-2.0
 *
 * queryout.c - answers for programs: CSV and JSON, a row or an object for each
 * bucket, the same keys in both.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "report/export.h"
#include "report/querydata.h"

/* ---- CSV ------------------------------------------------------------------------- */

static void queryout_csv_number(struct buf *out, double v, bool has)
{
	buf_putc(out, ',');
	if (has)
		json_put_double(out, v);
}

static void queryout_csv_step(struct buf *out, int64_t step)
{
	buf_putc(out, ',');
	if (step != SINK_STEP_NONE)
		buf_printf(out, "%lld", (long long)step);
}

/* series,host,process,rank */
static void queryout_csv_series(struct buf *out, const struct querydata_series *s)
{
	export_csv_text(out, s->name);
	buf_putc(out, ',');
	export_csv_text(out, s->s->host_name);
	buf_printf(out, ",%u,", s->s->process);
	if (s->s->rank >= 0)
		buf_printf(out, "%lld", (long long)s->s->rank);
}

static void queryout_csv_bucket(struct buf *out, const struct querydata_series *s,
				const struct store_bucket *b)
{
	bool has = b->observed > 0;

	queryout_csv_series(out, s);
	buf_printf(out, ",%lld,%lld", (long long)b->time_min, (long long)b->time_max);
	queryout_csv_step(out, b->step_min);
	queryout_csv_step(out, b->step_max);
	buf_printf(out, ",%llu,%llu", (unsigned long long)b->count, (unsigned long long)b->nan);
	queryout_csv_number(out, b->min, has);
	queryout_csv_number(out, has ? b->sum / (double)b->observed : NAN, has);
	queryout_csv_number(out, b->max, has);
	queryout_csv_number(out, b->first, s->s->kind != SINK_HISTOGRAM);
	queryout_csv_number(out, b->last, s->s->kind != SINK_HISTOGRAM);
	buf_printf(out, ",%u\n", b->segment);
}

static void queryout_csv_groups(struct buf *out, const struct querydata *q)
{
	size_t g, i;

	buf_puts(out, "group,from,to,series,min,mean,max,min_series,max_series,low,high\n");
	for (g = 0; g < q->n_groups; g++) {
		for (i = 0; i < q->grid.n; i++) {
			const struct store_band *b = &q->bands[g * q->grid.n + i];
			long long from = q->grid.x0 + (int64_t)i * q->grid.width;

			if (b->series == 0)
				continue;
			export_csv_text(out, q->groups[g]);
			buf_printf(out, ",%lld,%lld,%u", from, from + (long long)q->grid.width,
				   b->series);
			queryout_csv_number(out, b->min, true);
			queryout_csv_number(out, b->mean, true);
			queryout_csv_number(out, b->max, true);
			buf_putc(out, ',');
			export_csv_text(out, q->series[b->min_which].name);
			buf_putc(out, ',');
			export_csv_text(out, q->series[b->max_which].name);
			queryout_csv_number(out, b->low, true);
			queryout_csv_number(out, b->high, true);
			buf_putc(out, '\n');
		}
	}
}

void queryout_csv(struct buf *out, const struct querydata *q)
{
	struct store_bucket b;
	size_t i, k;

	if (q->n_groups) {
		queryout_csv_groups(out, q);
		return;
	}
	buf_puts(out,
		 "series,host,process,rank,time_min_ns,time_max_ns,step_min,step_max,count,nan,"
		 "min,mean,max,first,last,segment\n");
	for (i = 0; i < q->n; i++) {
		for (k = 0; k < q->results[i].n; k++) {
			b = querydata_bucket(&q->results[i], k);
			if (b.count)
				queryout_csv_bucket(out, &q->series[i], &b);
		}
	}
}

void queryout_raw_head(struct buf *out)
{
	buf_puts(out, "series,host,process,rank,time_ns,step,value,segment\n");
}

void queryout_raw(struct buf *out, const struct querydata_series *s, const struct store_point *p)
{
	queryout_csv_series(out, s);
	buf_printf(out, ",%lld", (long long)p->time_ns);
	queryout_csv_step(out, p->step);
	queryout_csv_number(out, p->value, true);
	buf_printf(out, ",%u\n", p->segment);
}

/* ---- JSON -------------------------------------------------------------------------- */

void queryout_json_series(struct json *j, const struct runview *v, const struct store_series *s,
			  const char *unit)
{
	char id[512];

	snprintf(id, sizeof(id), "%s/%u", s->host_name, s->id);
	json_kstr(j, "id", id);
	json_kstr(j, "name", s->name);
	json_kstr(j, "labels", s->labels);
	json_kstr(j, "unit", unit ? unit : runview_unit(s));
	json_kstr(j, "kind", runview_kind(s->kind));
	json_kstr(j, "host", s->host_name);
	json_kint(j, "process", s->process);
	json_kint(j, "pid", runview_process(v, s->host, s->process)->pid);
	json_kstr(j, "role", s->role);
	json_key(j, "rank");
	if (s->rank >= 0)
		json_int(j, s->rank);
	else
		json_null(j);
}

void queryout_json_labels(struct json *j, const char *key, const struct store_series *s)
{
	const char *p = s->labels, *equals;
	char *name, *value;

	json_key(j, key);
	json_object(j);
	while ((equals = strstr(p, "=\"")) != NULL) {
		name = xstrndup(p, (size_t)(equals - p));
		value = store_series_label(s, name);
		json_kstr(j, name, value);
		free(name);
		free(value);
		for (p = equals + 2; *p && *p != '"'; p++)
			p += p[0] == '\\' && p[1];
		p += *p == '"';
		p += *p == ',';
	}
	json_object_end(j);
}

void queryout_list_json(struct buf *out, const struct runview *v)
{
	struct json j;
	size_t i;

	json_init(&j, out);
	json_array(&j);
	for (i = 0; i < v->n_series; i++) {
		json_object(&j);
		queryout_json_series(&j, v, &v->series[i], NULL);
		json_kuint(&j, "points", v->series[i].count);
		json_object_end(&j);
	}
	json_array_end(&j);
}

static void queryout_json_bucket(struct json *j, const struct store_bucket *b, bool is_hist)
{
	bool has = b->observed > 0;

	json_object(j);
	json_kint(j, "time_min_ns", b->time_min);
	json_kint(j, "time_max_ns", b->time_max);
	runview_json_step(j, "step_min", b->step_min);
	runview_json_step(j, "step_max", b->step_max);
	json_kuint(j, "count", b->count);
	json_kuint(j, "nan", b->nan);
	runview_json_number(j, "min", b->min, has);
	runview_json_number(j, "mean", has ? b->sum / (double)b->observed : NAN, has);
	runview_json_number(j, "max", b->max, has);
	runview_json_number(j, "first", b->first, !is_hist);
	runview_json_number(j, "last", b->last, !is_hist);
	json_kuint(j, "segment", b->segment);
	json_object_end(j);
}

static void queryout_json_result(struct json *j, const struct querydata *q, size_t i)
{
	const struct querydata_series *s = &q->series[i];
	const struct store_result *r = &q->results[i];
	struct store_bucket b;
	size_t k;

	json_object(j);
	queryout_json_series(j, q->v, s->s, NULL);
	json_kbool(j, "rate", s->rate);
	json_kbool(j, "raw", r->raw);
	json_kuint(j, "lost", r->lost);
	json_key(j, "buckets");
	json_array(j);
	for (k = 0; k < r->n; k++) {
		b = querydata_bucket(r, k);
		if (b.count)
			queryout_json_bucket(j, &b, s->s->kind == SINK_HISTOGRAM);
	}
	json_array_end(j);
	json_object_end(j);
}

static void queryout_json_group(struct json *j, const struct querydata *q, size_t g)
{
	size_t i;

	json_object(j);
	json_kstr(j, "group", q->groups[g]);
	json_key(j, "bands");
	json_array(j);
	for (i = 0; i < q->grid.n; i++) {
		const struct store_band *b = &q->bands[g * q->grid.n + i];

		if (b->series == 0)
			continue;
		json_object(j);
		json_kint(j, "from", q->grid.x0 + (int64_t)i * q->grid.width);
		json_kuint(j, "series", b->series);
		json_kdouble(j, "min", b->min);
		json_kdouble(j, "mean", b->mean);
		json_kdouble(j, "max", b->max);
		json_kstr(j, "min_series", q->series[b->min_which].name);
		json_kstr(j, "max_series", q->series[b->max_which].name);
		json_kdouble(j, "low", b->low);
		json_kdouble(j, "high", b->high);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

void queryout_json(struct buf *out, const struct querydata *q)
{
	struct json j;
	size_t i;

	json_init(&j, out);
	json_object(&j);
	json_kstr(&j, "run", q->v->run.id);
	json_kstr(&j, "axis", q->ask.axis == STORE_BY_STEP ? "step" : "time");
	if (q->ask.aligned)
		json_kint(&j, "width", q->grid.width);
	json_key(&j, q->n_groups ? "groups" : "series");
	json_array(&j);
	for (i = 0; i < (q->n_groups ? q->n_groups : q->n); i++) {
		if (q->n_groups)
			queryout_json_group(&j, q, i);
		else
			queryout_json_result(&j, q, i);
	}
	json_array_end(&j);
	json_object_end(&j);
}
