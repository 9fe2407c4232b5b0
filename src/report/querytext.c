/* SPDX-License-Identifier: Apache-2.0
 *
 * querytext.c - answers for people: a table with a small chart in each line.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/querydata.h"
#include "report/spark.h"

/* Columns of a chart: what a terminal has beside a short name and the figures, within
 * limits; else a fixed number. */
#define QUERYTEXT_REST 64
#define QUERYTEXT_MIN 8
#define QUERYTEXT_MAX 60
#define QUERYTEXT_PLAIN 32

void querytext_list(const struct runview *v)
{
	static const struct table_column columns[] = {
		{"SERIES", TABLE_ELIDE}, {"LABELS", TABLE_ELIDE}, {"UNIT", 0}, {"KIND", 0},
		{"PROCESS", TABLE_DROP}, {"POINTS", TABLE_RIGHT},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	struct term term;
	char text[256];
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		const struct store_series *s = &v->series[i];

		runview_process_text(text, sizeof(text), v, s->host, s->process);
		table_cell(t, TERM_PLAIN, s->name);
		table_cell(t, TERM_DIM, s->labels);
		table_cell(t, TERM_PLAIN, s->unit);
		table_cell(t, TERM_DIM, runview_kind(s->kind));
		table_cell(t, TERM_DIM, runview_is_several(v) ? text : "");
		table_cellf(t, TERM_PLAIN, "%llu", (unsigned long long)s->count);
	}
	term_look(&term, stdout);
	table_print(t, &term, stdout, 0);
	if (table_rows(t) == 0)
		printf("no series\n");
	table_free(t);
}

unsigned querytext_chart(void)
{
	struct term term;
	int width;

	term_look(&term, stdout);
	width = term.width ? term.width - QUERYTEXT_REST : QUERYTEXT_PLAIN;
	if (width < QUERYTEXT_MIN)
		return QUERYTEXT_MIN;
	return width < QUERYTEXT_MAX ? (unsigned)width : QUERYTEXT_MAX;
}

static double querytext_mean(const struct store_bucket *b)
{
	return b->count && b->observed ? b->sum / (double)b->observed : NAN;
}

/* "s", "ns", or the unit of a rate. */
static const char *querytext_unit(char out[FMT_MAX], const struct querydata *q,
				  const struct querydata_series *s)
{
	const char *unit = runview_unit(s->s);

	if (!s->rate)
		return unit;
	snprintf(out, FMT_MAX, "%s/%s", *unit ? unit : "1",
		 q->ask.axis == STORE_BY_STEP ? "step" : "s");
	return out;
}

static void querytext_value(struct table *t, double v, const char *unit)
{
	char text[FMT_MAX];

	table_cell(t, TERM_PLAIN, isnan(v) ? "-" : runview_value(text, v, unit));
}

static void querytext_series(struct table *t, const struct querydata *q, size_t i, char *chart,
			     double *values)
{
	const struct querydata_series *s = &q->series[i];
	const struct store_bucket *b = &s->total;
	char unit_text[FMT_MAX], process[256];
	const char *unit = querytext_unit(unit_text, q, s);
	const struct store_result *r = &q->results[i];
	double min = NAN, max = NAN;
	size_t k;

	for (k = 0; k < r->n; k++) {
		values[k] = querytext_mean(&r->buckets[k]);
		if (r->buckets[k].count && r->buckets[k].observed) {
			min = fmin(min, r->buckets[k].min);
			max = fmax(max, r->buckets[k].max);
		}
	}
	spark_draw(chart, values, r->n, spark_is_utf8());
	runview_process_text(process, sizeof(process), q->v, s->s->host, s->s->process);
	table_cell(t, TERM_PLAIN, s->name);
	table_cell(t, TERM_DIM, runview_is_several(q->v) ? process : "");
	table_cell(t, TERM_GREEN, chart);
	table_cellf(t, TERM_PLAIN, "%llu", (unsigned long long)b->count);
	querytext_value(t, min, unit);
	querytext_value(t, querytext_mean(b), unit);
	querytext_value(t, max, unit);
	querytext_value(t, b->count && !s->rate ? b->last : NAN, unit);
	if (b->nan)
		table_cellf(t, TERM_RED, "%llu", (unsigned long long)b->nan);
	else
		table_cell(t, TERM_PLAIN, "");
	if (r->lost)
		table_cellf(t, TERM_YELLOW, "%llu", (unsigned long long)r->lost);
	else
		table_cell(t, TERM_PLAIN, "");
}

static void querytext_all_series(const struct querydata *q, const struct term *term)
{
	static const struct table_column columns[] = {
		{"SERIES", TABLE_ELIDE}, {"PROCESS", TABLE_DROP}, {"", 0},
		{"POINTS", TABLE_RIGHT}, {"MIN", TABLE_RIGHT},    {"MEAN", TABLE_RIGHT},
		{"MAX", TABLE_RIGHT},    {"LAST", TABLE_RIGHT},   {"NAN", TABLE_RIGHT},
		{"LOST", TABLE_RIGHT},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	char *chart = xcalloc(q->grid.n + 1, SPARK_BYTES);
	double *values = xcalloc(q->grid.n + 1, sizeof(*values));
	size_t i;

	for (i = 0; i < q->n; i++)
		querytext_series(t, q, i, chart, values);
	table_print(t, term, stdout, 0);
	table_free(t);
	free(chart);
	free(values);
}

static void querytext_group(struct table *t, const struct querydata *q, size_t g, char *chart,
			    double *values)
{
	const struct store_band *bands = q->bands + g * q->grid.n, *lowest = NULL, *highest = NULL;
	const struct querydata_series *any = NULL;
	double sum = 0;
	char unit_text[FMT_MAX];
	const char *unit;
	size_t i, n = 0, members = 0;

	for (i = 0; i < q->n; i++) {
		if (q->series[i].group != g)
			continue;
		any = &q->series[i];
		members++;
	}
	unit = querytext_unit(unit_text, q, any);
	for (i = 0; i < q->grid.n; i++) {
		values[i] = bands[i].series ? bands[i].mean : NAN;
		if (!bands[i].series)
			continue;
		sum += bands[i].mean;
		n++;
		lowest = !lowest || bands[i].min < lowest->min ? &bands[i] : lowest;
		highest = !highest || bands[i].max > highest->max ? &bands[i] : highest;
	}
	spark_draw(chart, values, q->grid.n, spark_is_utf8());
	table_cell(t, TERM_PLAIN, q->groups[g]);
	table_cell(t, TERM_GREEN, chart);
	table_cellf(t, TERM_PLAIN, "%zu", members);
	querytext_value(t, lowest ? lowest->min : NAN, unit);
	querytext_value(t, n ? sum / (double)n : NAN, unit);
	querytext_value(t, highest ? highest->max : NAN, unit);
	table_cell(t, TERM_DIM, lowest ? q->series[lowest->min_which].name : "");
	table_cell(t, TERM_DIM, highest ? q->series[highest->max_which].name : "");
}

static void querytext_all_groups(const struct querydata *q, const struct term *term)
{
	static const struct table_column columns[] = {
		{"GROUP", TABLE_ELIDE},  {"", 0},
		{"SERIES", TABLE_RIGHT}, {"MIN", TABLE_RIGHT},
		{"MEAN", TABLE_RIGHT},   {"MAX", TABLE_RIGHT},
		{"MIN OF", TABLE_DROP},  {"MAX OF", TABLE_DROP},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	char *chart = xcalloc(q->grid.n + 1, SPARK_BYTES);
	double *values = xcalloc(q->grid.n + 1, sizeof(*values));
	size_t g;

	for (g = 0; g < q->n_groups; g++)
		querytext_group(t, q, g, chart, values);
	table_print(t, term, stdout, 0);
	table_free(t);
	free(chart);
	free(values);
}

void querytext_print(const struct querydata *q)
{
	struct term term;

	term_look(&term, stdout);
	if (q->n_groups)
		querytext_all_groups(q, &term);
	else
		querytext_all_series(q, &term);
}
