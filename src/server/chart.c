/* SPDX-License-Identifier: Apache-2.0
 *
 * chart.c - columns of an answer, read where the store put them, and the heads.
 */
#include "server/chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/histquant.h"

/* A cell of row i of series (or group) `of`. */
struct chart_column {
	const char *name;
	struct chart_value (*get)(const struct chart *c, size_t of, size_t i);
};

static const struct chart_value chart_none = {.is = CHART_NONE};

static struct chart_value chart_number(double v)
{
	return (struct chart_value){.is = CHART_NUMBER, .number = v};
}

static struct chart_value chart_whole(int64_t v)
{
	return (struct chart_value){.is = CHART_WHOLE, .whole = v};
}

/* Sums of what programs recorded may wrap around; they do it without harm. */
static int64_t chart_plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t chart_minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static struct chart_value chart_time(const struct chart *c, int64_t ns)
{
	return (struct chart_value){
		.is = CHART_TIME,
		.whole = c->ask->axis == ASK_RELATIVE ? chart_minus(ns, c->ask->start_ns) : ns};
}

static struct chart_value chart_step(int64_t step)
{
	return step == SINK_STEP_NONE ? chart_none : chart_whole(step);
}

/* The middle of two; between two steps there may be a half. */
static struct chart_value chart_middle(const struct chart *c, int64_t low, int64_t high)
{
	uint64_t wide = (uint64_t)high - (uint64_t)low;
	int64_t middle = chart_plus(low, (int64_t)(wide / 2));

	if (c->ask->axis != ASK_STEP)
		return chart_time(c, middle);
	return wide % 2 ? chart_number((double)middle + 0.5) : chart_whole(middle);
}

/* ---- series -------------------------------------------------------------------------- */

static const struct store_bucket *chart_bucket(const struct chart *c, size_t of, size_t i)
{
	return &c->q->results[of].buckets[i];
}

static const struct store_point *chart_point(const struct chart *c, size_t of, size_t i)
{
	return &c->q->results[of].points[i];
}

static bool chart_is_hist(const struct chart *c, size_t of)
{
	return c->q->series[of].s->kind == SINK_HISTOGRAM;
}

static struct chart_value chart_get_x(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	if (c->ask->axis == ASK_STEP)
		return chart_middle(c, b->step_min, b->step_max);
	return chart_middle(c, b->time_min, b->time_max);
}

static struct chart_value chart_grid_x(const struct chart *c, size_t of, size_t i)
{
	const struct store_grid *g = &c->q->grid;
	int64_t x = (int64_t)((uint64_t)g->x0 + i * (uint64_t)g->width);

	(void)of;
	return chart_middle(c, x, chart_plus(x, g->width - (c->ask->axis == ASK_STEP)));
}

static struct chart_value chart_get_min(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count && b->observed ? chart_number(b->min) : chart_none;
}

static struct chart_value chart_get_mean(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count && b->observed ? chart_number(b->sum / (double)b->observed) : chart_none;
}

static struct chart_value chart_get_max(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count && b->observed ? chart_number(b->max) : chart_none;
}

static struct chart_value chart_get_last(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count && !chart_is_hist(c, of) ? chart_number(b->last) : chart_none;
}

static struct chart_value chart_get_count(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	if (b->count == 0)
		return chart_whole(0);
	return chart_whole((int64_t)(chart_is_hist(c, of) ? b->observed + b->nan : b->count));
}

static struct chart_value chart_get_nan(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return chart_whole(b->count ? (int64_t)b->nan : 0);
}

static struct chart_value chart_get_time(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count ? (struct chart_value){.is = CHART_TIME, .whole = b->time_max} : chart_none;
}

static struct chart_value chart_get_step(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count ? chart_step(b->step_max) : chart_none;
}

static struct chart_value chart_get_segment(const struct chart *c, size_t of, size_t i)
{
	const struct store_bucket *b = chart_bucket(c, of, i);

	return b->count ? chart_whole(b->segment) : chart_none;
}

static struct chart_value chart_raw_x(const struct chart *c, size_t of, size_t i)
{
	const struct store_point *p = chart_point(c, of, i);

	return c->ask->axis == ASK_STEP ? chart_step(p->step) : chart_time(c, p->time_ns);
}

static struct chart_value chart_raw_y(const struct chart *c, size_t of, size_t i)
{
	return chart_number(chart_point(c, of, i)->value);
}

static struct chart_value chart_raw_time(const struct chart *c, size_t of, size_t i)
{
	return (struct chart_value){.is = CHART_TIME, .whole = chart_point(c, of, i)->time_ns};
}

static struct chart_value chart_raw_step(const struct chart *c, size_t of, size_t i)
{
	return chart_step(chart_point(c, of, i)->step);
}

static struct chart_value chart_raw_segment(const struct chart *c, size_t of, size_t i)
{
	return chart_whole(chart_point(c, of, i)->segment);
}

static struct chart_value chart_quantile(const struct chart *c, size_t of, size_t i, size_t k)
{
	double v = c->quantiles[of][i * HISTQUANT_COLUMNS + k];

	return isnan(v) ? chart_none : chart_number(v);
}

static struct chart_value chart_p50(const struct chart *c, size_t of, size_t i)
{
	return chart_quantile(c, of, i, 0);
}

static struct chart_value chart_p95(const struct chart *c, size_t of, size_t i)
{
	return chart_quantile(c, of, i, 1);
}

static struct chart_value chart_p99(const struct chart *c, size_t of, size_t i)
{
	return chart_quantile(c, of, i, 2);
}

/* ---- groups -------------------------------------------------------------------------- */

static const struct store_band *chart_band(const struct chart *c, size_t of, size_t i)
{
	return &c->q->bands[of * c->q->grid.n + i];
}

#define CHART_BAND(member, make)                                                                   \
	static struct chart_value chart_band_##member(const struct chart *c, size_t of, size_t i)  \
	{                                                                                          \
		const struct store_band *b = chart_band(c, of, i);                                 \
                                                                                                   \
		return b->series ? make(b->member) : chart_none;                                   \
	}
CHART_BAND(min, chart_number)
CHART_BAND(mean, chart_number)
CHART_BAND(max, chart_number)
CHART_BAND(min_which, chart_whole)
CHART_BAND(max_which, chart_whole)
CHART_BAND(low, chart_number)
CHART_BAND(high, chart_number)

static struct chart_value chart_band_series(const struct chart *c, size_t of, size_t i)
{
	return chart_whole(chart_band(c, of, i)->series);
}

/* Values that are NaN there, of all series of the group. */
static uint64_t chart_nans(const struct chart *c, size_t of, size_t i)
{
	const struct store_result *r;
	uint64_t nan = 0;
	size_t m;

	for (m = c->first[of]; m < c->first[of + 1]; m++) {
		r = &c->q->results[c->members[m]];
		if (i < r->n)
			nan += r->buckets[i].nan;
	}
	return nan;
}

static struct chart_value chart_band_nan(const struct chart *c, size_t of, size_t i)
{
	return chart_whole((int64_t)chart_nans(c, of, i));
}

/* The mean of the last values of those that are not NaN; rates have none. */
static struct chart_value chart_band_last(const struct chart *c, size_t of, size_t i)
{
	struct chart_value v;
	double sum = 0;
	size_t m, k, n = 0;

	for (m = c->first[of]; m < c->first[of + 1]; m++) {
		k = c->members[m];
		if (c->q->series[k].rate || i >= c->q->results[k].n)
			continue;
		v = chart_get_last(c, k, i);
		if (v.is != CHART_NUMBER || isnan(v.number))
			continue;
		sum += v.number;
		n++;
	}
	return n ? chart_number(sum / (double)n) : chart_none;
}

/* ---- which columns ------------------------------------------------------------------- */

static const struct chart_column chart_grid_first = {"x", chart_grid_x};
static const struct chart_column chart_raw[] = {{"x", chart_raw_x}, {"y", chart_raw_y}};
static const struct chart_column chart_buckets[] = {
	{"x", chart_get_x},     {"min", chart_get_min},   {"mean", chart_get_mean},
	{"max", chart_get_max}, {"last", chart_get_last}, {"count", chart_get_count},
	{"nan", chart_get_nan},
};
static const struct chart_column chart_quantiles[] = {
	{"p50", chart_p50}, {"p95", chart_p95}, {"p99", chart_p99}};
static const struct chart_column chart_raw_place[] = {{"time", chart_raw_time},
						      {"step", chart_raw_step}};
static const struct chart_column chart_bucket_place[] = {{"time", chart_get_time},
							 {"step", chart_get_step}};
static const struct chart_column chart_raw_segments[] = {{"segment", chart_raw_segment}};
static const struct chart_column chart_bucket_segments[] = {{"segment", chart_get_segment}};
static const struct chart_column chart_bands[] = {
	{"x", chart_grid_x},
	{"min", chart_band_min},
	{"mean", chart_band_mean},
	{"max", chart_band_max},
	{"series", chart_band_series},
	{"min_of", chart_band_min_which},
	{"max_of", chart_band_max_which},
	{"low", chart_band_low},
	{"high", chart_band_high},
	{"nan", chart_band_nan},
	{"last", chart_band_last},
};

static void chart_add(struct chart_part *p, const struct chart_column *columns, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p->columns[p->n_columns++] = &columns[i];
}

size_t chart_parts(const struct chart *c)
{
	return c->q->n_groups ? c->q->n_groups : c->q->n;
}

/* Rows of a group that are not empty. */
static void chart_part_bands(struct chart_part *p)
{
	const struct chart *c = p->c;
	uint32_t *rows = xcalloc(c->q->grid.n + 1, sizeof(*rows));
	size_t i;

	for (i = 0; i < c->q->grid.n; i++)
		if (chart_band(c, p->of, i)->series || chart_nans(c, p->of, i))
			rows[p->n++] = (uint32_t)i;
	p->rows = rows;
	chart_add(p, chart_bands, ARRAY_LEN(chart_bands));
}

void chart_part_init(struct chart_part *p, const struct chart *c, size_t of)
{
	const struct store_result *r;

	*p = (struct chart_part){.c = c, .of = of};
	if (c->q->n_groups) {
		chart_part_bands(p);
		return;
	}
	r = &c->q->results[of];
	p->n = r->n;
	if (r->raw)
		chart_add(p, chart_raw, ARRAY_LEN(chart_raw));
	else
		chart_add(p, chart_buckets, ARRAY_LEN(chart_buckets));
	if (r->aligned && !r->raw)
		p->columns[0] = &chart_grid_first;
	if (c->quantiles && c->quantiles[of])
		chart_add(p, chart_quantiles, ARRAY_LEN(chart_quantiles));
	if (c->place)
		chart_add(p, r->raw ? chart_raw_place : chart_bucket_place, 2);
	if (c->segment)
		chart_add(p, r->raw ? chart_raw_segments : chart_bucket_segments, 1);
}

void chart_part_done(struct chart_part *p)
{
	free((uint32_t *)p->rows);
}

const char *chart_column_name(const struct chart_part *p, size_t column)
{
	return p->columns[column]->name;
}

struct chart_value chart_get(const struct chart_part *p, size_t column, size_t row)
{
	return p->columns[column]->get(p->c, p->of, p->rows ? p->rows[row] : row);
}

/* ---- percentiles and groups ------------------------------------------------------------ */

/* Members of groups side by side: who asks for each cell must not look at all series. */
static void chart_find_members(struct chart *c)
{
	const struct querydata *q = c->q;
	size_t i;

	c->members = xcalloc(q->n + 1, sizeof(*c->members));
	c->first = xcalloc(q->n_groups + 2, sizeof(*c->first));
	/* Begins are counted one place further, and move there as the places are taken. */
	for (i = 0; i < q->n; i++)
		c->first[q->series[i].group + 2]++;
	for (i = 2; i < q->n_groups + 2; i++)
		c->first[i] += c->first[i - 1];
	for (i = 0; i < q->n; i++)
		c->members[c->first[q->series[i].group + 1]++] = (uint32_t)i;
}

int chart_prepare(struct chart *c, struct err *e)
{
	const struct querydata *q = c->q;
	size_t i;
	int err;

	if (q->n_groups)
		chart_find_members(c);
	for (i = 0; i < q->n && !q->n_groups; i++) {
		if (q->series[i].s->kind != SINK_HISTOGRAM)
			continue;
		if (!c->quantiles)
			c->quantiles = xcalloc(q->n, sizeof(*c->quantiles));
		err = histquant_rows(q->v, q->series[i].s, &q->ask, &q->results[i], e,
				     &c->quantiles[i]);
		if (err && err != -E2BIG)
			return err;
	}
	return 0;
}

void chart_done(struct chart *c)
{
	size_t i;

	for (i = 0; c->quantiles && i < c->q->n; i++)
		free(c->quantiles[i]);
	free(c->quantiles);
	free(c->members);
	free(c->first);
	c->quantiles = NULL;
	c->members = c->first = NULL;
}

/* ---- heads --------------------------------------------------------------------------- */

void chart_series(struct json *j, const struct runview *v, const struct store_series *s,
		  const char *unit)
{
	queryout_json_series(j, v, s, unit);
	queryout_json_labels(j, "label", s);
}

void chart_unmatched(struct json *j, const char *const *unmatched, size_t n)
{
	size_t i;

	json_key(j, "unmatched");
	json_array(j);
	for (i = 0; i < n; i++)
		json_str(j, unmatched[i]);
	json_array_end(j);
}

static void chart_put_ms(struct json *j, const char *key, int64_t ns)
{
	char room[48];
	struct buf text;

	buf_init(&text, sizeof(room));
	ask_put_ms(&text, ns);
	json_key(j, key);
	json_raw(j, buf_str(&text));
	buf_done(&text);
}

static void chart_grid(struct json *j, const struct chart *c)
{
	const struct store_grid *g = &c->q->grid;

	json_key(j, "grid");
	if (!c->q->ask.aligned || g->n == 0) {
		json_null(j);
		return;
	}
	json_object(j);
	if (c->ask->axis == ASK_STEP) {
		json_kint(j, "x0", g->x0);
		json_kint(j, "width", g->width);
	} else {
		chart_put_ms(j, "x0", chart_time(c, g->x0).whole);
		chart_put_ms(j, "width", g->width);
	}
	json_kuint(j, "n", g->n);
	json_object_end(j);
}

/* What of a series is the same in all its rows. */
static void chart_one_series(struct json *j, const struct chart *c, size_t of)
{
	const struct querydata_series *s = &c->q->series[of];
	char unit[256];

	snprintf(unit, sizeof(unit), "%s/%s", *runview_unit(s->s) ? runview_unit(s->s) : "1",
		 c->ask->axis == ASK_STEP ? "step" : "s");
	chart_series(j, c->q->v, s->s, s->rate ? unit : NULL);
	json_kbool(j, "rate", s->rate);
}

void chart_head(struct json *j, const struct chart *c)
{
	static const char *const axes[] = {
		[ASK_TIME] = "time", [ASK_STEP] = "step", [ASK_RELATIVE] = "relative"};
	size_t i;

	json_kstr(j, "run", c->q->v->run.id);
	json_kstr(j, "axis", axes[c->ask->axis]);
	chart_put_ms(j, "start", c->ask->start_ns);
	chart_grid(j, c);
	chart_unmatched(j, c->unmatched, c->n_unmatched);
	if (!c->q->n_groups)
		return;
	json_key(j, "members");
	json_array(j);
	for (i = 0; i < c->q->n; i++) {
		json_object(j);
		chart_one_series(j, c, i);
		json_kuint(j, "group", c->q->series[i].group);
		json_object_end(j);
	}
	json_array_end(j);
}

static void chart_group_head(struct json *j, const struct chart *c, size_t of)
{
	size_t i;

	json_kstr(j, "group", c->q->groups[of]);
	i = c->members[c->first[of]];
	json_kstr(j, "name", c->q->series[i].s->name);
	json_kstr(j, "unit", runview_unit(c->q->series[i].s));
	json_kbool(j, "rate", c->q->series[i].rate);
}

void chart_part_head(struct json *j, const struct chart_part *p)
{
	const struct chart *c = p->c;
	size_t i;

	if (c->q->n_groups) {
		chart_group_head(j, c, p->of);
	} else {
		chart_one_series(j, c, p->of);
		json_kbool(j, "raw", c->q->results[p->of].raw);
		json_kuint(j, "lost", c->q->results[p->of].lost);
	}
	json_key(j, "columns");
	json_array(j);
	for (i = 0; i < p->n_columns; i++)
		json_str(j, chart_column_name(p, i));
	json_array_end(j);
}
