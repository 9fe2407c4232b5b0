/* SPDX-License-Identifier: Apache-2.0
 *
 * chart.h - the answer to .../query: what the store gave for some series or groups, as
 * columns of one length each, written as JSON or as binary (docs/http.md, "Query").
 */
#ifndef SERVER_CHART_H
#define SERVER_CHART_H

#include "base/buf.h"
#include "base/json.h"
#include "report/querydata.h"
#include "server/ask.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHART_COLUMNS_MAX 16u
#define CHART_TYPE "application/vnd.lapse.columns"
#define CHART_MAGIC "LPC1"

/* All of an answer; what chart_prepare() makes is owned. */
struct chart {
	const struct querydata *q; /* asked */
	const struct ask *ask;
	bool place, segment; /* more columns */
	double **quantiles;  /* of each series, as histquant_rows(); NULL: none */
	uint32_t *members;   /* of groups: series, those of a group beside each other; NULL: none */
	uint32_t *first;     /* of each group, and behind the last: its place in members */
	const char *const *unmatched;
	size_t n_unmatched;
};

/* Read the percentiles of series that are histograms, and find the series of each group. 0 or
 * -errno and *e. */
int chart_prepare(struct chart *c, struct err *e);
void chart_done(struct chart *c);

/* A cell. */
struct chart_value {
	enum {
		CHART_NONE,
		CHART_NUMBER,
		CHART_WHOLE,
		CHART_TIME /* whole: ns */
	} is;
	double number;
	int64_t whole;
};

/* The columns of one series or group. */
struct chart_part {
	const struct chart *c;
	size_t of;            /* series or group */
	size_t n;             /* rows */
	const uint32_t *rows; /* of bands: those that are not empty; NULL: all. owned */
	size_t n_columns;
	const struct chart_column *columns[CHART_COLUMNS_MAX];
};

size_t chart_parts(const struct chart *c);
void chart_part_init(struct chart_part *p, const struct chart *c, size_t of);
void chart_part_done(struct chart_part *p);
const char *chart_column_name(const struct chart_part *p, size_t column);
struct chart_value chart_get(const struct chart_part *p, size_t column, size_t row);

/* Keys of the document, and of a part, into an open object; without arrays of values. */
void chart_head(struct json *j, const struct chart *c);
void chart_part_head(struct json *j, const struct chart_part *p);

void chart_json(struct json *j, const struct chart *c);
void chart_binary(struct buf *out, const struct chart *c);

/* Keys of a series as .../series has them but help and source; unit NULL: its own. */
void chart_series(struct json *j, const struct runview *v, const struct store_series *s,
		  const char *unit);
void chart_unmatched(struct json *j, const char *const *unmatched, size_t n);

#endif
