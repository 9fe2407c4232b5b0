/* SPDX-License-Identifier: Apache-2.0
 *
 * querydata.h - what `lapse query` was asked and what the store answered; and the
 * forms in which it is printed.
 */
#ifndef REPORT_QUERYDATA_H
#define REPORT_QUERYDATA_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "report/runview.h"
#include "store/store.h"

/* A series that was chosen. */
struct querydata_series {
	const struct store_series *s; /* of the view */
	bool rate;
	char *name;     /* "loss", "rate(tokens){gpu="0"}": owned */
	unsigned group; /* in groups */
	struct store_bucket
		total; /* of all points in the range, as the buckets are; count 0: none */
};

struct querydata {
	const struct runview *v;
	struct store_query ask;
	struct querydata_series *series;
	size_t n, cap;
	unsigned char *chosen;        /* of each series of v: 1 itself, 2 its rate is among them */
	struct store_result *results; /* of each series */
	struct store_grid grid;       /* if ask.aligned */
	char **groups;                /* "loss{host="a"}"; NULL: not grouped */
	size_t n_groups, cap_groups;
	struct store_band *bands; /* n_groups * grid.n */
};

void querydata_init(struct querydata *q, const struct runview *v);
void querydata_done(struct querydata *q);

/* Add the series that match the pattern. 0, or *e and -EINVAL: not a pattern, or rates
 * of what is no counter, -ENOENT: nothing matches. */
int querydata_choose(struct querydata *q, const char *pattern, struct err *e);

/* Add one by its id: "HOST/NUMBER" or "rate(HOST/NUMBER)". Errors as above. */
int querydata_choose_id(struct querydata *q, const char *id, struct err *e);

/* Put the series into groups by the labels (comma-separated; "": none); each name is a
 * group of its own. */
void querydata_group(struct querydata *q, const char *labels);

/* Ask the store. total: also for series[].total. 0 or -errno and *e. */
int querydata_ask(struct querydata *q, bool total, struct err *e);

/* A result in buckets, also if it is raw: of one point each. */
struct store_bucket querydata_bucket(const struct store_result *r, size_t i);

/* Keys of a series: id ("HOST/NUMBER"), name, labels, unit (NULL: its own), kind, host,
 * process, pid, role, rank. */
void queryout_json_series(struct json *j, const struct runview *v, const struct store_series *s,
			  const char *unit);
/* Its own labels as an object. */
void queryout_json_labels(struct json *j, const char *key, const struct store_series *s);

/* All series of the view. */
void querytext_list(const struct runview *v);
void queryout_list_json(struct buf *out, const struct runview *v);

/* Columns of a small chart on standard output. */
unsigned querytext_chart(void);
/* A line with such a chart for each series or group. */
void querytext_print(const struct querydata *q);

/* Every bucket, of series or groups. */
void queryout_csv(struct buf *out, const struct querydata *q);
void queryout_json(struct buf *out, const struct querydata *q);

/* Every point as it is stored: the head, then point by point. */
void queryout_raw_head(struct buf *out);
void queryout_raw(struct buf *out, const struct querydata_series *s, const struct store_point *p);

#endif
