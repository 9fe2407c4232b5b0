/* SPDX-License-Identifier: Apache-2.0
 *
 * histquant.h - percentiles of what histograms hold (wire/sink.h): of points added
 * together, and of the points that fall into each bucket of an answer of the store.
 */
#ifndef REPORT_HISTQUANT_H
#define REPORT_HISTQUANT_H

#include "report/runview.h"

#define HISTQUANT_POINTS_MAX 65536u   /* of one series that are read for buckets */
#define HISTQUANT_BINS_MAX (4u << 20) /* of all of them */
#define HISTQUANT_COLUMNS 3u          /* p50, p95, p99 */

/* The edge of a bin nearer to zero (wire/sink.h): the double whose upper bits the key is. */
double histquant_edge(uint16_t key);

extern const unsigned histquant_percents[HISTQUANT_COLUMNS];

/* Histograms added together. About 640 KiB. */
struct histquant;
struct histquant *histquant_new(void);
void histquant_free(struct histquant *h);
void histquant_clear(struct histquant *h);
void histquant_add(struct histquant *h, const struct sink_hist *add);
/* The percent-th percentile: in the bin of the value at rank ceil(percent / 100 x n), as
 * far in as its rank is, and never beyond the smallest and greatest value. NaN: empty. */
double histquant_get(const struct histquant *h, unsigned percent);

/* For each row of a result of the series to the same question (axis, range):
 * HISTQUANT_COLUMNS numbers; the caller frees *ret. 0; -E2BIG: there are more points than
 * are read, or others than the result has: no percentiles; else -errno and *e. */
int histquant_rows(const struct runview *v, const struct store_series *s,
		   const struct store_query *ask, const struct store_result *result, struct err *e,
		   double **ret);

#endif
